// at most 49664 bytes
module @jit_layers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<5x64x64xf32>, %arg1: tensor<5x64xf32>, %arg2: tensor<32x64xf32>) -> (tensor<5x64x64xf32> {jax.result_info = "result[0]"}, tensor<5x64xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x32x64xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5x32x64xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<5x32x64xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %3:7 = stablehlo.while(%iterArg = %arg0, %iterArg_8 = %arg1, %iterArg_9 = %c, %iterArg_10 = %arg2, %iterArg_11 = %0, %iterArg_12 = %1, %iterArg_13 = %2) : tensor<5x64x64xf32>, tensor<5x64xf32>, tensor<i32>, tensor<32x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>
    cond {
      %c_14 = stablehlo.constant dense<5> : tensor<i32>
      %12 = stablehlo.compare LT, %iterArg_9, %c_14, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %12 : tensor<i1>
    } do {
      %12 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_9) : (tensor<5x64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
      %13 = func.call @dynamic_index_in_dim_0(%iterArg_8, %iterArg_9) : (tensor<5x64xf32>, tensor<i32>) -> tensor<64xf32>
      %14:4 = func.call @closed_call(%iterArg_10, %12, %13) : (tensor<32x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>)
      %15 = func.call @dynamic_update_index_in_dim(%iterArg_11, %14#1, %iterArg_9) : (tensor<5x32x64xf32>, tensor<32x64xf32>, tensor<i32>) -> tensor<5x32x64xf32>
      %16 = func.call @dynamic_update_index_in_dim(%iterArg_12, %14#2, %iterArg_9) : (tensor<5x32x64xf32>, tensor<32x64xf32>, tensor<i32>) -> tensor<5x32x64xf32>
      %17 = func.call @dynamic_update_index_in_dim(%iterArg_13, %14#3, %iterArg_9) : (tensor<5x32x64xf32>, tensor<32x64xf32>, tensor<i32>) -> tensor<5x32x64xf32>
      %c_14 = stablehlo.constant dense<1> : tensor<i32>
      %18 = stablehlo.add %iterArg_9, %c_14 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_8, %18, %14#0, %15, %16, %17 : tensor<5x64x64xf32>, tensor<5x64xf32>, tensor<i32>, tensor<32x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>
    }
    %cst_2 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<32x64xf32>
    %5 = stablehlo.multiply %4, %3#3 : tensor<32x64xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_4 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %6 = stablehlo.divide %cst_3, %cst_4 : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<32x64xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<32x64xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<5x64x64xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<5x64xf32>
    %c_7 = stablehlo.constant dense<0> : tensor<i32>
    %11:8 = stablehlo.while(%iterArg = %arg0, %iterArg_8 = %3#4, %iterArg_9 = %3#5, %iterArg_10 = %3#6, %iterArg_11 = %c_7, %iterArg_12 = %8, %iterArg_13 = %9, %iterArg_14 = %10) : tensor<5x64x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<i32>, tensor<32x64xf32>, tensor<5x64x64xf32>, tensor<5x64xf32>
    cond {
      %c_15 = stablehlo.constant dense<5> : tensor<i32>
      %12 = stablehlo.compare LT, %iterArg_11, %c_15, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %12 : tensor<i1>
    } do {
      %c_15 = stablehlo.constant dense<5> : tensor<i32>
      %12 = stablehlo.subtract %c_15, %iterArg_11 : tensor<i32>
      %c_16 = stablehlo.constant dense<1> : tensor<i32>
      %13 = stablehlo.subtract %12, %c_16 : tensor<i32>
      %14 = func.call @dynamic_index_in_dim(%iterArg, %13) : (tensor<5x64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
      %15 = func.call @dynamic_index_in_dim_1(%iterArg_8, %13) : (tensor<5x32x64xf32>, tensor<i32>) -> tensor<32x64xf32>
      %16 = func.call @dynamic_index_in_dim_1(%iterArg_9, %13) : (tensor<5x32x64xf32>, tensor<i32>) -> tensor<32x64xf32>
      %17 = func.call @dynamic_index_in_dim_1(%iterArg_10, %13) : (tensor<5x32x64xf32>, tensor<i32>) -> tensor<32x64xf32>
      %18:3 = func.call @closed_call_2(%iterArg_12, %14, %15, %16, %17) : (tensor<32x64xf32>, tensor<64x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<64x64xf32>, tensor<64xf32>)
      %19 = func.call @dynamic_update_index_in_dim_3(%iterArg_13, %18#1, %13) : (tensor<5x64x64xf32>, tensor<64x64xf32>, tensor<i32>) -> tensor<5x64x64xf32>
      %20 = func.call @dynamic_update_index_in_dim_4(%iterArg_14, %18#2, %13) : (tensor<5x64xf32>, tensor<64xf32>, tensor<i32>) -> tensor<5x64xf32>
      %c_17 = stablehlo.constant dense<1> : tensor<i32>
      %21 = stablehlo.add %iterArg_11, %c_17 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_8, %iterArg_9, %iterArg_10, %21, %18#0, %19, %20 : tensor<5x64x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<5x32x64xf32>, tensor<i32>, tensor<32x64xf32>, tensor<5x64x64xf32>, tensor<5x64xf32>
    }
    return %11#6, %11#7 : tensor<5x64x64xf32>, tensor<5x64xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5x64x64xf32>, %arg1: tensor<i32>) -> tensor<64x64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 64] : (tensor<5x64x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<5x64xf32>, %arg1: tensor<i32>) -> tensor<64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, sizes = [1, 64] : (tensor<5x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64xf32>) -> tensor<64xf32>
    return %1 : tensor<64xf32>
  }
  func.func private @closed_call(%arg0: tensor<32x64xf32>, %arg1: tensor<64x64xf32>, %arg2: tensor<64xf32>) -> (tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<32x64xf32>
    %3 = stablehlo.add %0, %2 : tensor<32x64xf32>
    %4 = stablehlo.tanh %3 : tensor<32x64xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<32x64xf32>
    %6 = stablehlo.subtract %5, %4 : tensor<32x64xf32>
    return %4, %arg0, %4, %6 : tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<5x32x64xf32>, %arg1: tensor<32x64xf32>, %arg2: tensor<i32>) -> tensor<5x32x64xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<32x64xf32>) -> tensor<1x32x64xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<5x32x64xf32>, tensor<1x32x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x32x64xf32>
    return %1 : tensor<5x32x64xf32>
  }
  func.func private @dynamic_index_in_dim_1(%arg0: tensor<5x32x64xf32>, %arg1: tensor<i32>) -> tensor<32x64xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 32, 64] : (tensor<5x32x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x64xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x32x64xf32>) -> tensor<32x64xf32>
    return %1 : tensor<32x64xf32>
  }
  func.func private @closed_call_2(%arg0: tensor<32x64xf32>, %arg1: tensor<64x64xf32>, %arg2: tensor<32x64xf32>, %arg3: tensor<32x64xf32>, %arg4: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<64x64xf32>, tensor<64xf32>) {
    %0 = stablehlo.multiply %arg0, %arg4 : tensor<32x64xf32>
    %1 = stablehlo.multiply %0, %arg3 : tensor<32x64xf32>
    %2 = stablehlo.add %0, %1 : tensor<32x64xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<32x64xf32>, tensor<f32>) -> tensor<64xf32>
    %4 = stablehlo.reshape %3 : (tensor<64xf32>) -> tensor<1x64xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.reduce(%4 init: %cst_0) applies stablehlo.add across dimensions = [0] : (tensor<1x64xf32>, tensor<f32>) -> tensor<64xf32>
    %6 = stablehlo.dot_general %2, %arg2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
    %7 = stablehlo.transpose %6, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %8 = stablehlo.dot_general %2, %arg1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    return %8, %7, %5 : tensor<32x64xf32>, tensor<64x64xf32>, tensor<64xf32>
  }
  func.func private @dynamic_update_index_in_dim_3(%arg0: tensor<5x64x64xf32>, %arg1: tensor<64x64xf32>, %arg2: tensor<i32>) -> tensor<5x64x64xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x64xf32>) -> tensor<1x64x64xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<5x64x64xf32>, tensor<1x64x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<5x64x64xf32>
    return %1 : tensor<5x64x64xf32>
  }
  func.func private @dynamic_update_index_in_dim_4(%arg0: tensor<5x64xf32>, %arg1: tensor<64xf32>, %arg2: tensor<i32>) -> tensor<5x64xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c : (tensor<5x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<5x64xf32>
    return %1 : tensor<5x64xf32>
  }
}
