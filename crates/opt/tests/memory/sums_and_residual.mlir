// at most 0 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x350x40xf32>, %arg1: tensor<40x64xf32>, %arg2: tensor<64xf32>, %arg3: tensor<2x350x64xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<2x350x64xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x350x40xf32>, tensor<40x64xf32>) -> tensor<2x350x64xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<64xf32>) -> tensor<1x1x64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x64xf32>) -> tensor<2x350x64xf32>
    %3 = stablehlo.add %0, %2 : tensor<2x350x64xf32>
    %4 = stablehlo.tanh %3 : tensor<2x350x64xf32>
    %5 = stablehlo.add %4, %arg3 : tensor<2x350x64xf32>
    return %5 : tensor<2x350x64xf32>
  }
}
