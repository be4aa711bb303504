// at most 57600 bytes
module @jit_branches attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<60x48xf32>, %arg1: tensor<3x48x48xf32>, %arg2: tensor<48x192xf32>, %arg3: tensor<192x48xf32>) -> (tensor<60xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.slice %arg1 [0:1, 0:48, 0:48] : (tensor<3x48x48xf32>) -> tensor<1x48x48xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x48x48xf32>) -> tensor<48x48xf32>
    %2 = stablehlo.dot_general %arg0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x48xf32>) -> tensor<60x48xf32>
    %3 = stablehlo.tanh %2 : tensor<60x48xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x192xf32>) -> tensor<60x192xf32>
    %5 = stablehlo.sine %4 : tensor<60x192xf32>
    %6 = stablehlo.dot_general %5, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x192xf32>, tensor<192x48xf32>) -> tensor<60x48xf32>
    %7 = stablehlo.sine %6 : tensor<60x48xf32>
    %8 = stablehlo.slice %arg1 [1:2, 0:48, 0:48] : (tensor<3x48x48xf32>) -> tensor<1x48x48xf32>
    %9 = stablehlo.reshape %8 : (tensor<1x48x48xf32>) -> tensor<48x48xf32>
    %10 = stablehlo.dot_general %arg0, %9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x48xf32>) -> tensor<60x48xf32>
    %11 = stablehlo.tanh %10 : tensor<60x48xf32>
    %12 = stablehlo.slice %arg1 [2:3, 0:48, 0:48] : (tensor<3x48x48xf32>) -> tensor<1x48x48xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x48x48xf32>) -> tensor<48x48xf32>
    %14 = stablehlo.dot_general %11, %13, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x48xf32>) -> tensor<60x48xf32>
    %15 = stablehlo.tanh %14 : tensor<60x48xf32>
    %16 = stablehlo.dot_general %11, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x192xf32>) -> tensor<60x192xf32>
    %17 = stablehlo.sine %16 : tensor<60x192xf32>
    %18 = stablehlo.dot_general %17, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x192xf32>, tensor<192x48xf32>) -> tensor<60x48xf32>
    %19 = stablehlo.sine %18 : tensor<60x48xf32>
    %20 = stablehlo.slice %arg1 [0:1, 0:48, 0:48] : (tensor<3x48x48xf32>) -> tensor<1x48x48xf32>
    %21 = stablehlo.reshape %20 : (tensor<1x48x48xf32>) -> tensor<48x48xf32>
    %22 = stablehlo.dot_general %19, %21, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x48xf32>) -> tensor<60x48xf32>
    %23 = stablehlo.tanh %22 : tensor<60x48xf32>
    %24 = stablehlo.slice %arg1 [1:2, 0:48, 0:48] : (tensor<3x48x48xf32>) -> tensor<1x48x48xf32>
    %25 = stablehlo.reshape %24 : (tensor<1x48x48xf32>) -> tensor<48x48xf32>
    %26 = stablehlo.dot_general %19, %25, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<60x48xf32>, tensor<48x48xf32>) -> tensor<60x48xf32>
    %27 = stablehlo.sine %26 : tensor<60x48xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %28 = stablehlo.reduce(%7 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<60x48xf32>, tensor<f32>) -> tensor<60xf32>
    %cst_0 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %30 = stablehlo.divide %28, %29 : tensor<60xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<60xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %34 = stablehlo.add %33, %32 : tensor<60xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %35 = stablehlo.reduce(%15 init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<60x48xf32>, tensor<f32>) -> tensor<60xf32>
    %cst_4 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %36 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %37 = stablehlo.divide %35, %36 : tensor<60xf32>
    %cst_5 = stablehlo.constant dense<1.100000e+00> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<60xf32>
    %40 = stablehlo.add %34, %39 : tensor<60xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %41 = stablehlo.reduce(%23 init: %cst_6) applies stablehlo.add across dimensions = [1] : (tensor<60x48xf32>, tensor<f32>) -> tensor<60xf32>
    %cst_7 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %43 = stablehlo.divide %41, %42 : tensor<60xf32>
    %cst_8 = stablehlo.constant dense<1.200000e+00> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %45 = stablehlo.multiply %43, %44 : tensor<60xf32>
    %46 = stablehlo.add %40, %45 : tensor<60xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%27 init: %cst_9) applies stablehlo.add across dimensions = [1] : (tensor<60x48xf32>, tensor<f32>) -> tensor<60xf32>
    %cst_10 = stablehlo.constant dense<4.800000e+01> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %49 = stablehlo.divide %47, %48 : tensor<60xf32>
    %cst_11 = stablehlo.constant dense<1.300000e+00> : tensor<f32>
    %50 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<60xf32>
    %51 = stablehlo.multiply %49, %50 : tensor<60xf32>
    %52 = stablehlo.add %46, %51 : tensor<60xf32>
    return %52 : tensor<60xf32>
  }
}
