// at most 6604 bytes
module @jit_vm10 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x24x4xf32>, %arg1: tensor<12x24x4xf32>) -> (tensor<12xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<12x24x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<12x24x4xf32>, tensor<f32>) -> tensor<12x24xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<12x24xf32>) -> tensor<12x24x1xf32>
    %3 = stablehlo.multiply %arg1, %arg1 : tensor<12x24x4xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<12x24x4xf32>, tensor<f32>) -> tensor<12x24xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 2] : (tensor<12x24xf32>) -> tensor<12x1x24xf32>
    %6 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<12x24x1xf32>) -> tensor<12x24x24xf32>
    %7 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2] : (tensor<12x1x24xf32>) -> tensor<12x24x24xf32>
    %8 = stablehlo.add %6, %7 : tensor<12x24x24xf32>
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<12x24x4xf32>
    %10 = stablehlo.multiply %9, %arg0 : tensor<12x24x4xf32>
    %11 = stablehlo.transpose %arg1, dims = [0, 2, 1] : (tensor<12x24x4xf32>) -> tensor<12x4x24xf32>
    %12 = stablehlo.dot_general %10, %11, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<12x24x4xf32>, tensor<12x4x24xf32>) -> tensor<12x24x24xf32>
    %13 = stablehlo.subtract %8, %12 : tensor<12x24x24xf32>
    %14 = stablehlo.negate %13 : tensor<12x24x24xf32>
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<12x24x24xf32>
    %16 = stablehlo.divide %14, %15 : tensor<12x24x24xf32>
    %17 = stablehlo.exponential %16 : tensor<12x24x24xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %18 = stablehlo.reduce(%17 init: %cst_3) applies stablehlo.add across dimensions = [1, 2] : (tensor<12x24x24xf32>, tensor<f32>) -> tensor<12xf32>
    %cst_4 = stablehlo.constant dense<5.760000e+02> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<12xf32>
    %20 = stablehlo.divide %18, %19 : tensor<12xf32>
    return %20 : tensor<12xf32>
  }
}
