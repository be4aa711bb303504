// at most 1024 bytes
// without dot_general
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<50xi32>, %arg1: tensor<50x6xbf16>) -> (tensor<20x6xbf16> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<50xi32>) -> tensor<50x20xbf16>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<50x20xbf16>) -> tensor<20x50xbf16>
    %2 = stablehlo.dot_general %1, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<20x50xbf16>, tensor<50x6xbf16>) -> tensor<20x6xbf16>
    return %2 : tensor<20x6xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<50xi32>) -> tensor<50x20xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<50xi32>) -> tensor<50x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x20xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<50x1xi32>) -> tensor<50x20xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x20xi32>) -> tensor<50x20xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<50x20xi32>, tensor<50x20xi32>) -> tensor<50x20xi1>
    %5 = stablehlo.convert %4 : (tensor<50x20xi1>) -> tensor<50x20xbf16>
    return %5 : tensor<50x20xbf16>
  }
}
