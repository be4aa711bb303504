// at most 0 bytes
// without dot_general
module @jit_oh7 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<50xui8>, %arg1: tensor<20x6xbf16>) -> (tensor<50x6xbf16> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<50xui8>) -> tensor<50x20xbf16>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<50x20xbf16>, tensor<20x6xbf16>) -> tensor<50x6xbf16>
    return %1 : tensor<50x6xbf16>
  }
  func.func private @_one_hot(%arg0: tensor<50xui8>) -> tensor<50x20xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<50xui8>) -> tensor<50x1xui8>
    %1 = stablehlo.iota dim = 1 : tensor<1x20xui8>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<50x1xui8>) -> tensor<50x20xui8>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x20xui8>) -> tensor<50x20xui8>
    %4 = stablehlo.compare EQ, %2, %3, UNSIGNED : (tensor<50x20xui8>, tensor<50x20xui8>) -> tensor<50x20xi1>
    %5 = stablehlo.convert %4 : (tensor<50x20xi1>) -> tensor<50x20xbf16>
    return %5 : tensor<50x20xbf16>
  }
}
