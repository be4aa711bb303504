// at most 0 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x50x200xf32>, %arg1: tensor<3x40x200xf32>) -> (tensor<50x3x40xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg1, %arg0, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<3x40x200xf32>, tensor<3x50x200xf32>) -> tensor<3x40x50xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<3x40x50xf32>) -> tensor<50x3x40xf32>
    return %1 : tensor<50x3x40xf32>
  }
}
