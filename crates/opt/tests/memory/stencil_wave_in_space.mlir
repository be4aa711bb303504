// at most 192 bytes
module @jit_s3 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x7x9xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<6x7x9xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<6x7x9xf32> {jax.result_info = "result[0]"}, tensor<6x7x9xf32> {jax.result_info = "result[1]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0, %iterArg_1 = %arg1) : tensor<i32>, tensor<6x7x9xf32>, tensor<6x7x9xf32>
    cond {
      %c_2 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1:2 = func.call @closed_call(%iterArg_0, %iterArg_1) : (tensor<6x7x9xf32>, tensor<6x7x9xf32>) -> (tensor<6x7x9xf32>, tensor<6x7x9xf32>)
      %c_2 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_2 : tensor<i32>
      stablehlo.return %2, %1#0, %1#1 : tensor<i32>, tensor<6x7x9xf32>, tensor<6x7x9xf32>
    }
    return %0#1, %0#2 : tensor<6x7x9xf32>, tensor<6x7x9xf32>
  }
  func.func private @closed_call(%arg0: tensor<6x7x9xf32>, %arg1: tensor<6x7x9xf32>) -> (tensor<6x7x9xf32>, tensor<6x7x9xf32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = call @_pad(%arg1, %c) : (tensor<6x7x9xf32>, tensor<i32>) -> tensor<8x9x11xf32>
    %1 = stablehlo.slice %0 [2:8, 1:8, 1:10] : (tensor<8x9x11xf32>) -> tensor<6x7x9xf32>
    %2 = stablehlo.slice %0 [0:6, 1:8, 1:10] : (tensor<8x9x11xf32>) -> tensor<6x7x9xf32>
    %3 = stablehlo.add %1, %2 : tensor<6x7x9xf32>
    %4 = stablehlo.slice %0 [1:7, 2:9, 1:10] : (tensor<8x9x11xf32>) -> tensor<6x7x9xf32>
    %5 = stablehlo.add %3, %4 : tensor<6x7x9xf32>
    %6 = stablehlo.slice %0 [1:7, 0:7, 1:10] : (tensor<8x9x11xf32>) -> tensor<6x7x9xf32>
    %7 = stablehlo.add %5, %6 : tensor<6x7x9xf32>
    %8 = stablehlo.slice %0 [1:7, 1:8, 2:11] : (tensor<8x9x11xf32>) -> tensor<6x7x9xf32>
    %9 = stablehlo.add %7, %8 : tensor<6x7x9xf32>
    %10 = stablehlo.slice %0 [1:7, 1:8, 0:9] : (tensor<8x9x11xf32>) -> tensor<6x7x9xf32>
    %11 = stablehlo.add %9, %10 : tensor<6x7x9xf32>
    %cst = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x7x9xf32>
    %13 = stablehlo.multiply %12, %arg1 : tensor<6x7x9xf32>
    %14 = stablehlo.subtract %11, %13 : tensor<6x7x9xf32>
    %cst_0 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<6x7x9xf32>
    %16 = stablehlo.multiply %15, %arg1 : tensor<6x7x9xf32>
    %17 = stablehlo.subtract %16, %arg0 : tensor<6x7x9xf32>
    %cst_1 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<6x7x9xf32>
    %19 = stablehlo.multiply %18, %14 : tensor<6x7x9xf32>
    %20 = stablehlo.add %17, %19 : tensor<6x7x9xf32>
    return %arg1, %20 : tensor<6x7x9xf32>, tensor<6x7x9xf32>
  }
  func.func private @_pad(%arg0: tensor<6x7x9xf32>, %arg1: tensor<i32>) -> tensor<8x9x11xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 1, 1], high = [1, 1, 1], interior = [0, 0, 0] : (tensor<6x7x9xf32>, tensor<f32>) -> tensor<8x9x11xf32>
    return %1 : tensor<8x9x11xf32>
  }
}
