// at most 4200 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x24x8xf32>, %arg1: tensor<12x8x20xf32>) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<12x24x8xf32>, tensor<12x8x20xf32>) -> tensor<12x24x20xf32>
    %1 = stablehlo.abs %0 : tensor<12x24x20xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<12x24x20xf32>, tensor<f32>) -> tensor<f32>
    return %2 : tensor<f32>
  }
}
