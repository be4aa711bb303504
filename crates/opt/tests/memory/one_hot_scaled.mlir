// at most 0 bytes
// without dot_general
module @jit_oh11 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<50xi32>, %arg1: tensor<20x6xf32>) -> (tensor<50x6xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.iota dim = 0 : tensor<20xi32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<50xi32>) -> tensor<50x1xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<20xi32>) -> tensor<1x20xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x20xi32>) -> tensor<50x20xi32>
    %4 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<50x1xi32>) -> tensor<50x20xi32>
    %5 = stablehlo.compare EQ, %3, %4, SIGNED : (tensor<50x20xi32>, tensor<50x20xi32>) -> tensor<50x20xi1>
    %cst = stablehlo.constant dense<2.500000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = call @_where(%5, %cst, %cst_0) : (tensor<50x20xi1>, tensor<f32>, tensor<f32>) -> tensor<50x20xf32>
    %7 = stablehlo.dot_general %6, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<50x20xf32>, tensor<20x6xf32>) -> tensor<50x6xf32>
    return %7 : tensor<50x6xf32>
  }
  func.func private @_where(%arg0: tensor<50x20xi1>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<50x20xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<50x20xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<50x20xf32>
    %2 = stablehlo.select %arg0, %0, %1 : tensor<50x20xi1>, tensor<50x20xf32>
    return %2 : tensor<50x20xf32>
  }
}
