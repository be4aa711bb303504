// at most 133184 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512x40xbf16>, %arg1: tensor<40x130xbf16>, %arg2: tensor<130xf32>, %arg3: tensor<130x40xbf16>) -> (tensor<512x40xbf16> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<512x40xbf16>, tensor<40x130xbf16>) -> tensor<512x130xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<130xf32>) -> tensor<1x130xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x130xf32>) -> tensor<512x130xf32>
    %3 = stablehlo.add %0, %2 : tensor<512x130xf32>
    %4 = call @relu(%3) : (tensor<512x130xf32>) -> tensor<512x130xf32>
    %5 = stablehlo.convert %4 : (tensor<512x130xf32>) -> tensor<512x130xbf16>
    %6 = stablehlo.dot_general %5, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<512x130xbf16>, tensor<130x40xbf16>) -> tensor<512x40xf32>
    %7 = stablehlo.convert %6 : (tensor<512x40xf32>) -> tensor<512x40xbf16>
    return %7 : tensor<512x40xbf16>
  }
  func.func private @relu(%arg0: tensor<512x130xf32>) -> tensor<512x130xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<512x130xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<512x130xf32>
    return %1 : tensor<512x130xf32>
  }
}
