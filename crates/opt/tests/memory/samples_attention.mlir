// at most 3328 bytes
module @jit_vm5 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x24x4xf32>, %arg1: tensor<12x24x4xf32>, %arg2: tensor<12x24x4xf32>) -> (tensor<12x24x4xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg1, dims = [0, 2, 1] : (tensor<12x24x4xf32>) -> tensor<12x4x24xf32>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<12x24x4xf32>, tensor<12x4x24xf32>) -> tensor<12x24x24xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<12x24x24xf32>, tensor<f32>) -> tensor<12x24xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<12x24xf32>
    %4 = stablehlo.maximum %3, %2 : tensor<12x24xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<12x24xf32>) -> tensor<12x24x1xf32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<12x24x1xf32>) -> tensor<12x24x24xf32>
    %7 = stablehlo.subtract %1, %6 : tensor<12x24x24xf32>
    %8 = stablehlo.exponential %7 : tensor<12x24x24xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%8 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<12x24x24xf32>, tensor<f32>) -> tensor<12x24xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<12x24xf32>) -> tensor<12x24x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<12x24x1xf32>) -> tensor<12x24x24xf32>
    %12 = stablehlo.divide %8, %11 : tensor<12x24x24xf32>
    %13 = stablehlo.dot_general %12, %arg2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<12x24x24xf32>, tensor<12x24x4xf32>) -> tensor<12x24x4xf32>
    return %13 : tensor<12x24x4xf32>
  }
}
