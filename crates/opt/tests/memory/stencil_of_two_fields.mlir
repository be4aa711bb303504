// at most 2688 bytes
module @jit_bur attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x20xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<16x20xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<16x20xf32> {jax.result_info = "result[0]"}, tensor<16x20xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0, %iterArg_1 = %arg1) : tensor<i32>, tensor<16x20xf32>, tensor<16x20xf32>
    cond {
      %c_2 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1:2 = func.call @closed_call(%iterArg_0, %iterArg_1) : (tensor<16x20xf32>, tensor<16x20xf32>) -> (tensor<16x20xf32>, tensor<16x20xf32>)
      %c_2 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_2 : tensor<i32>
      stablehlo.return %2, %1#0, %1#1 : tensor<i32>, tensor<16x20xf32>, tensor<16x20xf32>
    }
    return %0#1, %0#2 : tensor<16x20xf32>, tensor<16x20xf32>
  }
  func.func private @closed_call(%arg0: tensor<16x20xf32>, %arg1: tensor<16x20xf32>) -> (tensor<16x20xf32>, tensor<16x20xf32>) {
    %0 = call @_pad(%arg0) : (tensor<16x20xf32>) -> tensor<18x22xf32>
    %1 = call @_pad(%arg1) : (tensor<16x20xf32>) -> tensor<18x22xf32>
    %2 = stablehlo.slice %0 [2:18, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %3 = stablehlo.slice %0 [0:16, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %4 = stablehlo.subtract %2, %3 : tensor<16x20xf32>
    %cst = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %6 = stablehlo.multiply %4, %5 : tensor<16x20xf32>
    %7 = stablehlo.multiply %arg0, %6 : tensor<16x20xf32>
    %8 = stablehlo.slice %0 [1:17, 2:22] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %9 = stablehlo.slice %0 [1:17, 0:20] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %10 = stablehlo.subtract %8, %9 : tensor<16x20xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %12 = stablehlo.multiply %10, %11 : tensor<16x20xf32>
    %13 = stablehlo.multiply %arg1, %12 : tensor<16x20xf32>
    %14 = stablehlo.add %7, %13 : tensor<16x20xf32>
    %cst_1 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %16 = stablehlo.multiply %15, %14 : tensor<16x20xf32>
    %17 = stablehlo.subtract %arg0, %16 : tensor<16x20xf32>
    %18 = stablehlo.slice %0 [2:18, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %19 = stablehlo.slice %0 [0:16, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %20 = stablehlo.add %18, %19 : tensor<16x20xf32>
    %21 = stablehlo.slice %0 [1:17, 2:22] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %22 = stablehlo.add %20, %21 : tensor<16x20xf32>
    %23 = stablehlo.slice %0 [1:17, 0:20] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %24 = stablehlo.add %22, %23 : tensor<16x20xf32>
    %25 = stablehlo.slice %0 [1:17, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %cst_2 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %27 = stablehlo.multiply %26, %25 : tensor<16x20xf32>
    %28 = stablehlo.subtract %24, %27 : tensor<16x20xf32>
    %cst_3 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %29 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %30 = stablehlo.multiply %29, %28 : tensor<16x20xf32>
    %31 = stablehlo.add %17, %30 : tensor<16x20xf32>
    %32 = stablehlo.slice %1 [2:18, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %33 = stablehlo.slice %1 [0:16, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %34 = stablehlo.subtract %32, %33 : tensor<16x20xf32>
    %cst_4 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %35 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %36 = stablehlo.multiply %34, %35 : tensor<16x20xf32>
    %37 = stablehlo.multiply %arg0, %36 : tensor<16x20xf32>
    %38 = stablehlo.slice %1 [1:17, 2:22] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %39 = stablehlo.slice %1 [1:17, 0:20] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %40 = stablehlo.subtract %38, %39 : tensor<16x20xf32>
    %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %42 = stablehlo.multiply %40, %41 : tensor<16x20xf32>
    %43 = stablehlo.multiply %arg1, %42 : tensor<16x20xf32>
    %44 = stablehlo.add %37, %43 : tensor<16x20xf32>
    %cst_6 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %46 = stablehlo.multiply %45, %44 : tensor<16x20xf32>
    %47 = stablehlo.subtract %arg1, %46 : tensor<16x20xf32>
    %48 = stablehlo.slice %1 [2:18, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %49 = stablehlo.slice %1 [0:16, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %50 = stablehlo.add %48, %49 : tensor<16x20xf32>
    %51 = stablehlo.slice %1 [1:17, 2:22] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %52 = stablehlo.add %50, %51 : tensor<16x20xf32>
    %53 = stablehlo.slice %1 [1:17, 0:20] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %54 = stablehlo.add %52, %53 : tensor<16x20xf32>
    %55 = stablehlo.slice %1 [1:17, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %cst_7 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %57 = stablehlo.multiply %56, %55 : tensor<16x20xf32>
    %58 = stablehlo.subtract %54, %57 : tensor<16x20xf32>
    %cst_8 = stablehlo.constant dense<0.00999999977> : tensor<f32>
    %59 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %60 = stablehlo.multiply %59, %58 : tensor<16x20xf32>
    %61 = stablehlo.add %47, %60 : tensor<16x20xf32>
    return %31, %61 : tensor<16x20xf32>, tensor<16x20xf32>
  }
  func.func private @_pad(%arg0: tensor<16x20xf32>) -> tensor<18x22xf32> {
    %0 = stablehlo.slice %arg0 [0:1, 0:20] : (tensor<16x20xf32>) -> tensor<1x20xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<1x20xf32>) -> tensor<1x1x20xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x20xf32>) -> tensor<1x20xf32>
    %3 = stablehlo.slice %arg0 [15:16, 0:20] : (tensor<16x20xf32>) -> tensor<1x20xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 2] : (tensor<1x20xf32>) -> tensor<1x1x20xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x1x20xf32>) -> tensor<1x20xf32>
    %6 = stablehlo.concatenate %2, %arg0, %5, dim = 0 : (tensor<1x20xf32>, tensor<16x20xf32>, tensor<1x20xf32>) -> tensor<18x20xf32>
    %7 = stablehlo.slice %6 [0:18, 0:1] : (tensor<18x20xf32>) -> tensor<18x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<18x1xf32>) -> tensor<18x1x1xf32>
    %9 = stablehlo.reshape %8 : (tensor<18x1x1xf32>) -> tensor<18x1xf32>
    %10 = stablehlo.slice %6 [0:18, 19:20] : (tensor<18x20xf32>) -> tensor<18x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<18x1xf32>) -> tensor<18x1x1xf32>
    %12 = stablehlo.reshape %11 : (tensor<18x1x1xf32>) -> tensor<18x1xf32>
    %13 = stablehlo.concatenate %9, %6, %12, dim = 1 : (tensor<18x1xf32>, tensor<18x20xf32>, tensor<18x1xf32>) -> tensor<18x22xf32>
    return %13 : tensor<18x22xf32>
  }
}
