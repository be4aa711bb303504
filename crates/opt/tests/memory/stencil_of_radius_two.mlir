// at most 1484 bytes
module @jit_s2 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<17x19xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<17x19xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<17x19xf32>
    cond {
      %c_1 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @closed_call(%iterArg_0) : (tensor<17x19xf32>) -> tensor<17x19xf32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<17x19xf32>
    }
    return %0#1 : tensor<17x19xf32>
  }
  func.func private @closed_call(%arg0: tensor<17x19xf32>) -> tensor<17x19xf32> {
    %0 = call @_pad(%arg0) : (tensor<17x19xf32>) -> tensor<21x23xf32>
    %1 = stablehlo.slice %0 [0:17, 2:21] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<17x19xf32>
    %4 = stablehlo.slice %0 [2:19, 0:19] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_0 = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<17x19xf32>
    %7 = stablehlo.add %3, %6 : tensor<17x19xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %9 = stablehlo.add %8, %7 : tensor<17x19xf32>
    %10 = stablehlo.slice %0 [1:18, 2:21] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_2 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<17x19xf32>
    %13 = stablehlo.slice %0 [2:19, 1:20] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_3 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %15 = stablehlo.multiply %13, %14 : tensor<17x19xf32>
    %16 = stablehlo.add %12, %15 : tensor<17x19xf32>
    %17 = stablehlo.add %9, %16 : tensor<17x19xf32>
    %18 = stablehlo.slice %0 [2:19, 2:21] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_4 = stablehlo.constant dense<-3.000000e+01> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %20 = stablehlo.multiply %18, %19 : tensor<17x19xf32>
    %21 = stablehlo.slice %0 [2:19, 2:21] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_5 = stablehlo.constant dense<-3.000000e+01> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %23 = stablehlo.multiply %21, %22 : tensor<17x19xf32>
    %24 = stablehlo.add %20, %23 : tensor<17x19xf32>
    %25 = stablehlo.add %17, %24 : tensor<17x19xf32>
    %26 = stablehlo.slice %0 [3:20, 2:21] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_6 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %28 = stablehlo.multiply %26, %27 : tensor<17x19xf32>
    %29 = stablehlo.slice %0 [2:19, 3:22] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_7 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %31 = stablehlo.multiply %29, %30 : tensor<17x19xf32>
    %32 = stablehlo.add %28, %31 : tensor<17x19xf32>
    %33 = stablehlo.add %25, %32 : tensor<17x19xf32>
    %34 = stablehlo.slice %0 [4:21, 2:21] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_8 = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<17x19xf32>
    %37 = stablehlo.slice %0 [2:19, 4:23] : (tensor<21x23xf32>) -> tensor<17x19xf32>
    %cst_9 = stablehlo.constant dense<-1.000000e+00> : tensor<f32>
    %38 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %39 = stablehlo.multiply %37, %38 : tensor<17x19xf32>
    %40 = stablehlo.add %36, %39 : tensor<17x19xf32>
    %41 = stablehlo.add %33, %40 : tensor<17x19xf32>
    %cst_10 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %42 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<17x19xf32>
    %43 = stablehlo.multiply %42, %41 : tensor<17x19xf32>
    %44 = stablehlo.add %arg0, %43 : tensor<17x19xf32>
    return %44 : tensor<17x19xf32>
  }
  func.func private @_pad(%arg0: tensor<17x19xf32>) -> tensor<21x23xf32> {
    %0 = stablehlo.slice %arg0 [15:17, 0:19] : (tensor<17x19xf32>) -> tensor<2x19xf32>
    %1 = stablehlo.slice %arg0 [0:2, 0:19] : (tensor<17x19xf32>) -> tensor<2x19xf32>
    %2 = stablehlo.concatenate %0, %arg0, %1, dim = 0 : (tensor<2x19xf32>, tensor<17x19xf32>, tensor<2x19xf32>) -> tensor<21x19xf32>
    %3 = stablehlo.slice %2 [0:21, 17:19] : (tensor<21x19xf32>) -> tensor<21x2xf32>
    %4 = stablehlo.slice %2 [0:21, 0:2] : (tensor<21x19xf32>) -> tensor<21x2xf32>
    %5 = stablehlo.concatenate %3, %2, %4, dim = 1 : (tensor<21x2xf32>, tensor<21x19xf32>, tensor<21x2xf32>) -> tensor<21x23xf32>
    return %5 : tensor<21x23xf32>
  }
}
