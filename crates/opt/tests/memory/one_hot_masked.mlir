// at most 0 bytes
// without dot_general
module @jit_oh9 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<50xi32>, %arg1: tensor<20x6xf32>, %arg2: tensor<50xf32>) -> (tensor<50x6xf32> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<50xi32>) -> tensor<50x20xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<50xf32>) -> tensor<50x1xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<50x1xf32>) -> tensor<50x20xf32>
    %3 = stablehlo.multiply %0, %2 : tensor<50x20xf32>
    %4 = stablehlo.dot_general %3, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<50x20xf32>, tensor<20x6xf32>) -> tensor<50x6xf32>
    return %4 : tensor<50x6xf32>
  }
  func.func private @_one_hot(%arg0: tensor<50xi32>) -> tensor<50x20xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<50xi32>) -> tensor<50x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x20xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<50x1xi32>) -> tensor<50x20xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x20xi32>) -> tensor<50x20xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<50x20xi32>, tensor<50x20xi32>) -> tensor<50x20xi1>
    %5 = stablehlo.convert %4 : (tensor<50x20xi1>) -> tensor<50x20xf32>
    return %5 : tensor<50x20xf32>
  }
}
