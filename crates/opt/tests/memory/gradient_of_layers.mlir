// at most 1024 bytes
// without pad
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x16x16xf32>, %arg1: tensor<4x16xf32>) -> (tensor<5x16x16xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg0 [0:1, 0:16, 0:16] : (tensor<5x16x16xf32>) -> tensor<1x16x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %2 = stablehlo.dot_general %arg1, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %3 = stablehlo.tanh %2 : tensor<4x16xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %5 = stablehlo.subtract %4, %3 : tensor<4x16xf32>
    %6 = stablehlo.slice %arg0 [1:2, 0:16, 0:16] : (tensor<5x16x16xf32>) -> tensor<1x16x16xf32>
    %7 = stablehlo.reshape %6 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %8 = stablehlo.dot_general %3, %7, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %9 = stablehlo.tanh %8 : tensor<4x16xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %11 = stablehlo.subtract %10, %9 : tensor<4x16xf32>
    %12 = stablehlo.slice %arg0 [3:4, 0:16, 0:16] : (tensor<5x16x16xf32>) -> tensor<1x16x16xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %14 = stablehlo.dot_general %9, %13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %15 = stablehlo.tanh %14 : tensor<4x16xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %17 = stablehlo.subtract %16, %15 : tensor<4x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x16xf32>
    %19 = stablehlo.multiply %18, %17 : tensor<4x16xf32>
    %20 = stablehlo.multiply %19, %15 : tensor<4x16xf32>
    %21 = stablehlo.add %19, %20 : tensor<4x16xf32>
    %22 = stablehlo.dot_general %21, %9, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
    %23 = stablehlo.transpose %22, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %24 = stablehlo.dot_general %21, %13, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %25 = stablehlo.broadcast_in_dim %23, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %26 = stablehlo.pad %25, %cst_3, low = [3, 0, 0], high = [1, 0, 0], interior = [0, 0, 0] : (tensor<1x16x16xf32>, tensor<f32>) -> tensor<5x16x16xf32>
    %27 = stablehlo.multiply %24, %11 : tensor<4x16xf32>
    %28 = stablehlo.multiply %27, %9 : tensor<4x16xf32>
    %29 = stablehlo.add %27, %28 : tensor<4x16xf32>
    %30 = stablehlo.dot_general %29, %3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
    %31 = stablehlo.transpose %30, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %32 = stablehlo.dot_general %29, %7, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %33 = stablehlo.broadcast_in_dim %31, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %34 = stablehlo.pad %33, %cst_4, low = [1, 0, 0], high = [3, 0, 0], interior = [0, 0, 0] : (tensor<1x16x16xf32>, tensor<f32>) -> tensor<5x16x16xf32>
    %35 = stablehlo.add %26, %34 : tensor<5x16x16xf32>
    %36 = stablehlo.multiply %32, %5 : tensor<4x16xf32>
    %37 = stablehlo.multiply %36, %3 : tensor<4x16xf32>
    %38 = stablehlo.add %36, %37 : tensor<4x16xf32>
    %39 = stablehlo.dot_general %38, %arg1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<16x16xf32>
    %40 = stablehlo.transpose %39, dims = [1, 0] : (tensor<16x16xf32>) -> tensor<16x16xf32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [1, 2] : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.pad %41, %cst_5, low = [0, 0, 0], high = [4, 0, 0], interior = [0, 0, 0] : (tensor<1x16x16xf32>, tensor<f32>) -> tensor<5x16x16xf32>
    %43 = stablehlo.add %35, %42 : tensor<5x16x16xf32>
    return %43 : tensor<5x16x16xf32>
  }
}
