// at most 0 bytes
// without dot_general
module @jit_oh1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<48xi32>, %arg1: tensor<30x8xf32>) -> (tensor<48x8xf32> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<48xi32>) -> tensor<48x30xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<48x30xf32>, tensor<30x8xf32>) -> tensor<48x8xf32>
    return %1 : tensor<48x8xf32>
  }
  func.func private @_one_hot(%arg0: tensor<48xi32>) -> tensor<48x30xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<48xi32>) -> tensor<48x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x30xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<48x1xi32>) -> tensor<48x30xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x30xi32>) -> tensor<48x30xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<48x30xi32>, tensor<48x30xi32>) -> tensor<48x30xi1>
    %5 = stablehlo.convert %4 : (tensor<48x30xi1>) -> tensor<48x30xf32>
    return %5 : tensor<48x30xf32>
  }
}
