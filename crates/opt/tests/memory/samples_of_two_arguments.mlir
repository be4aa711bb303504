// at most 4200 bytes
module @jit_vm2 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x24x8xf32>, %arg1: tensor<12x20x8xf32>) -> (tensor<12x24xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg1, dims = [0, 2, 1] : (tensor<12x20x8xf32>) -> tensor<12x8x20xf32>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<12x24x8xf32>, tensor<12x8x20xf32>) -> tensor<12x24x20xf32>
    %2 = stablehlo.sine %1 : tensor<12x24x20xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<12x24x20xf32>, tensor<f32>) -> tensor<12x24xf32>
    return %3 : tensor<12x24xf32>
  }
}
