// at most 0 bytes
// without dot_general
module @jit_oh12 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x10xi32>, %arg1: tensor<20x6xf32>) -> (tensor<5x10x6xf32> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<5x10xi32>) -> tensor<5x10x20xf32>
    %1 = stablehlo.reshape %0 : (tensor<5x10x20xf32>) -> tensor<50x20xf32>
    %2 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<50x20xf32>, tensor<20x6xf32>) -> tensor<50x6xf32>
    %3 = stablehlo.reshape %2 : (tensor<50x6xf32>) -> tensor<5x10x6xf32>
    return %3 : tensor<5x10x6xf32>
  }
  func.func private @_one_hot(%arg0: tensor<5x10xi32>) -> tensor<5x10x20xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<5x10xi32>) -> tensor<5x10x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x20xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<5x10x1xi32>) -> tensor<5x10x20xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x20xi32>) -> tensor<5x10x20xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<5x10x20xi32>, tensor<5x10x20xi32>) -> tensor<5x10x20xi1>
    %5 = stablehlo.convert %4 : (tensor<5x10x20xi1>) -> tensor<5x10x20xf32>
    return %5 : tensor<5x10x20xf32>
  }
}
