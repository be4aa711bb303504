// at most 0 bytes
// without dot_general
module @jit_oh3 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12xi32>, %arg1: tensor<4x40xf32>) -> (tensor<4x12xf32> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<12xi32>) -> tensor<12x40xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<12x40xf32>) -> tensor<40x12xf32>
    %2 = stablehlo.dot_general %arg1, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x40xf32>, tensor<40x12xf32>) -> tensor<4x12xf32>
    return %2 : tensor<4x12xf32>
  }
  func.func private @_one_hot(%arg0: tensor<12xi32>) -> tensor<12x40xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<12xi32>) -> tensor<12x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x40xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<12x1xi32>) -> tensor<12x40xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x40xi32>) -> tensor<12x40xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<12x40xi32>, tensor<12x40xi32>) -> tensor<12x40xi1>
    %5 = stablehlo.convert %4 : (tensor<12x40xi1>) -> tensor<12x40xf32>
    return %5 : tensor<12x40xf32>
  }
}
