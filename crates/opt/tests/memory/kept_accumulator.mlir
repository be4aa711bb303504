// at most 96000 bytes
module @jit_accumulated attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<300x40xf32>, %arg1: tensor<40x40xf32>) -> (tensor<300xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<300xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %2 = stablehlo.multiply %arg0, %1 : tensor<300x40xf32>
    %3 = stablehlo.dot_general %2, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %4 = stablehlo.tanh %3 : tensor<300x40xf32>
    %5 = stablehlo.dot_general %4, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %6 = stablehlo.cosine %5 : tensor<300x40xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %8 = stablehlo.add %0, %7 : tensor<300xf32>
    %cst_2 = stablehlo.constant dense<1.050000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %10 = stablehlo.multiply %arg0, %9 : tensor<300x40xf32>
    %11 = stablehlo.dot_general %10, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %12 = stablehlo.tanh %11 : tensor<300x40xf32>
    %13 = stablehlo.dot_general %12, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %14 = stablehlo.cosine %13 : tensor<300x40xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %16 = stablehlo.add %8, %15 : tensor<300xf32>
    %cst_4 = stablehlo.constant dense<1.100000e+00> : tensor<f32>
    %17 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %18 = stablehlo.multiply %arg0, %17 : tensor<300x40xf32>
    %19 = stablehlo.dot_general %18, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %20 = stablehlo.tanh %19 : tensor<300x40xf32>
    %21 = stablehlo.dot_general %20, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %22 = stablehlo.cosine %21 : tensor<300x40xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %23 = stablehlo.reduce(%22 init: %cst_5) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %24 = stablehlo.add %16, %23 : tensor<300xf32>
    %cst_6 = stablehlo.constant dense<1.150000e+00> : tensor<f32>
    %25 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %26 = stablehlo.multiply %arg0, %25 : tensor<300x40xf32>
    %27 = stablehlo.dot_general %26, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %28 = stablehlo.tanh %27 : tensor<300x40xf32>
    %29 = stablehlo.dot_general %28, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %30 = stablehlo.cosine %29 : tensor<300x40xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%30 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %32 = stablehlo.add %24, %31 : tensor<300xf32>
    %cst_8 = stablehlo.constant dense<1.200000e+00> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %34 = stablehlo.multiply %arg0, %33 : tensor<300x40xf32>
    %35 = stablehlo.dot_general %34, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %36 = stablehlo.tanh %35 : tensor<300x40xf32>
    %37 = stablehlo.dot_general %36, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %38 = stablehlo.cosine %37 : tensor<300x40xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %39 = stablehlo.reduce(%38 init: %cst_9) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %40 = stablehlo.add %32, %39 : tensor<300xf32>
    %cst_10 = stablehlo.constant dense<1.250000e+00> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %42 = stablehlo.multiply %arg0, %41 : tensor<300x40xf32>
    %43 = stablehlo.dot_general %42, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %44 = stablehlo.tanh %43 : tensor<300x40xf32>
    %45 = stablehlo.dot_general %44, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %46 = stablehlo.cosine %45 : tensor<300x40xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %47 = stablehlo.reduce(%46 init: %cst_11) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %48 = stablehlo.add %40, %47 : tensor<300xf32>
    %cst_12 = stablehlo.constant dense<1.300000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %50 = stablehlo.multiply %arg0, %49 : tensor<300x40xf32>
    %51 = stablehlo.dot_general %50, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %52 = stablehlo.tanh %51 : tensor<300x40xf32>
    %53 = stablehlo.dot_general %52, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %54 = stablehlo.cosine %53 : tensor<300x40xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_13) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %56 = stablehlo.add %48, %55 : tensor<300xf32>
    %cst_14 = stablehlo.constant dense<1.350000e+00> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<300x40xf32>
    %58 = stablehlo.multiply %arg0, %57 : tensor<300x40xf32>
    %59 = stablehlo.dot_general %58, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %60 = stablehlo.tanh %59 : tensor<300x40xf32>
    %61 = stablehlo.dot_general %60, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<300x40xf32>, tensor<40x40xf32>) -> tensor<300x40xf32>
    %62 = stablehlo.cosine %61 : tensor<300x40xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %63 = stablehlo.reduce(%62 init: %cst_15) applies stablehlo.add across dimensions = [1] : (tensor<300x40xf32>, tensor<f32>) -> tensor<300xf32>
    %64 = stablehlo.add %56, %63 : tensor<300xf32>
    return %64 : tensor<300xf32>
  }
}
