// at most 0 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<900x40xf32>, %arg1: tensor<40x48xf32>, %arg2: tensor<900x1xf32>, %arg3: tensor<48xf32>) -> (tensor<900x48xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<900x40xf32>, tensor<40x48xf32>) -> tensor<900x48xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [0, 1] : (tensor<900x1xf32>) -> tensor<900x48xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<900x48xf32>
    %3 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<48xf32>) -> tensor<1x48xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<1x48xf32>) -> tensor<900x48xf32>
    %5 = stablehlo.add %2, %4 : tensor<900x48xf32>
    %6 = stablehlo.abs %5 : tensor<900x48xf32>
    %7 = stablehlo.negate %6 : tensor<900x48xf32>
    %8 = stablehlo.exponential %7 : tensor<900x48xf32>
    return %8 : tensor<900x48xf32>
  }
}
