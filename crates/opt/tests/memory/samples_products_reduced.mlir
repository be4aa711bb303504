// at most 2560 bytes
module @jit_vm1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x24x8xf32>) -> (tensor<12x24xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<12x24x8xf32>) -> tensor<12x8x24xf32>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<12x24x8xf32>, tensor<12x8x24xf32>) -> tensor<12x24x24xf32>
    %2 = stablehlo.tanh %1 : tensor<12x24x24xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<12x24x24xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<12x24x24xf32>, tensor<f32>) -> tensor<12x24xf32>
    return %4 : tensor<12x24xf32>
  }
}
