// at most 57856 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x16x32xf32>, %arg1: tensor<4x32x16xf32>, %arg2: tensor<64x16xf32>) -> (tensor<4x16x32xf32> {jax.result_info = "result[0]"}, tensor<4x32x16xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x64x32xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x64x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2:6 = stablehlo.while(%iterArg = %arg0, %iterArg_7 = %arg1, %iterArg_8 = %c, %iterArg_9 = %arg2, %iterArg_10 = %0, %iterArg_11 = %1) : tensor<4x16x32xf32>, tensor<4x32x16xf32>, tensor<i32>, tensor<64x16xf32>, tensor<4x64x32xf32>, tensor<4x64x16xf32>
    cond {
      %c_12 = stablehlo.constant dense<4> : tensor<i32>
      %11 = stablehlo.compare LT, %iterArg_8, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      %11 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_8) : (tensor<4x16x32xf32>, tensor<i32>) -> tensor<16x32xf32>
      %12 = func.call @dynamic_index_in_dim_0(%iterArg_7, %iterArg_8) : (tensor<4x32x16xf32>, tensor<i32>) -> tensor<32x16xf32>
      %13:3 = func.call @closed_call(%iterArg_9, %11, %12) : (tensor<64x16xf32>, tensor<16x32xf32>, tensor<32x16xf32>) -> (tensor<64x16xf32>, tensor<64x32xf32>, tensor<64x16xf32>)
      %14 = func.call @dynamic_update_index_in_dim(%iterArg_10, %13#1, %iterArg_8) : (tensor<4x64x32xf32>, tensor<64x32xf32>, tensor<i32>) -> tensor<4x64x32xf32>
      %15 = func.call @dynamic_update_index_in_dim_1(%iterArg_11, %13#2, %iterArg_8) : (tensor<4x64x16xf32>, tensor<64x16xf32>, tensor<i32>) -> tensor<4x64x16xf32>
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %16 = stablehlo.add %iterArg_8, %c_12 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_7, %16, %13#0, %14, %15 : tensor<4x16x32xf32>, tensor<4x32x16xf32>, tensor<i32>, tensor<64x16xf32>, tensor<4x64x32xf32>, tensor<4x64x16xf32>
    }
    %cst_1 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %4 = stablehlo.multiply %3, %2#3 : tensor<64x16xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_3 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %5 = stablehlo.divide %cst_2, %cst_3 : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<64x16xf32>
    %7 = stablehlo.multiply %6, %4 : tensor<64x16xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4x16x32xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x32x16xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %10:8 = stablehlo.while(%iterArg = %2#4, %iterArg_7 = %2#5, %iterArg_8 = %arg0, %iterArg_9 = %arg1, %iterArg_10 = %c_6, %iterArg_11 = %7, %iterArg_12 = %8, %iterArg_13 = %9) : tensor<4x64x32xf32>, tensor<4x64x16xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>, tensor<i32>, tensor<64x16xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>
    cond {
      %c_14 = stablehlo.constant dense<4> : tensor<i32>
      %11 = stablehlo.compare LT, %iterArg_10, %c_14, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    } do {
      %c_14 = stablehlo.constant dense<4> : tensor<i32>
      %11 = stablehlo.subtract %c_14, %iterArg_10 : tensor<i32>
      %c_15 = stablehlo.constant dense<1> : tensor<i32>
      %12 = stablehlo.subtract %11, %c_15 : tensor<i32>
      %13 = func.call @dynamic_index_in_dim_2(%iterArg, %12) : (tensor<4x64x32xf32>, tensor<i32>) -> tensor<64x32xf32>
      %14 = func.call @dynamic_index_in_dim_3(%iterArg_7, %12) : (tensor<4x64x16xf32>, tensor<i32>) -> tensor<64x16xf32>
      %15 = func.call @dynamic_index_in_dim(%iterArg_8, %12) : (tensor<4x16x32xf32>, tensor<i32>) -> tensor<16x32xf32>
      %16 = func.call @dynamic_index_in_dim_0(%iterArg_9, %12) : (tensor<4x32x16xf32>, tensor<i32>) -> tensor<32x16xf32>
      %17:3 = func.call @closed_call_4(%iterArg_11, %13, %14, %15, %16) : (tensor<64x16xf32>, tensor<64x32xf32>, tensor<64x16xf32>, tensor<16x32xf32>, tensor<32x16xf32>) -> (tensor<64x16xf32>, tensor<16x32xf32>, tensor<32x16xf32>)
      %18 = func.call @dynamic_update_index_in_dim_5(%iterArg_12, %17#1, %12) : (tensor<4x16x32xf32>, tensor<16x32xf32>, tensor<i32>) -> tensor<4x16x32xf32>
      %19 = func.call @dynamic_update_index_in_dim_6(%iterArg_13, %17#2, %12) : (tensor<4x32x16xf32>, tensor<32x16xf32>, tensor<i32>) -> tensor<4x32x16xf32>
      %c_16 = stablehlo.constant dense<1> : tensor<i32>
      %20 = stablehlo.add %iterArg_10, %c_16 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_7, %iterArg_8, %iterArg_9, %20, %17#0, %18, %19 : tensor<4x64x32xf32>, tensor<4x64x16xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>, tensor<i32>, tensor<64x16xf32>, tensor<4x16x32xf32>, tensor<4x32x16xf32>
    }
    return %10#6, %10#7 : tensor<4x16x32xf32>, tensor<4x32x16xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x16x32xf32>, %arg1: tensor<i32>) -> tensor<16x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 32] : (tensor<4x16x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x32xf32>) -> tensor<16x32xf32>
    return %1 : tensor<16x32xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<4x32x16xf32>, %arg1: tensor<i32>) -> tensor<32x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 32, 16] : (tensor<4x32x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x32x16xf32>) -> tensor<32x16xf32>
    return %1 : tensor<32x16xf32>
  }
  func.func private @closed_call(%arg0: tensor<64x16xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<32x16xf32>) -> (tensor<64x16xf32>, tensor<64x32xf32>, tensor<64x16xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x16xf32>, tensor<16x32xf32>) -> tensor<64x32xf32>
    %1 = stablehlo.reduce_precision %0, format = e8m23 : tensor<64x32xf32>
    %2 = stablehlo.tanh %1 : tensor<64x32xf32>
    %3 = stablehlo.dot_general %2, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %4 = stablehlo.add %arg0, %3 : tensor<64x16xf32>
    return %4, %1, %arg0 : tensor<64x16xf32>, tensor<64x32xf32>, tensor<64x16xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<4x64x32xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<i32>) -> tensor<4x64x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x32xf32>) -> tensor<1x64x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<4x64x32xf32>, tensor<1x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x64x32xf32>
    return %1 : tensor<4x64x32xf32>
  }
  func.func private @dynamic_update_index_in_dim_1(%arg0: tensor<4x64x16xf32>, %arg1: tensor<64x16xf32>, %arg2: tensor<i32>) -> tensor<4x64x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x16xf32>) -> tensor<1x64x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<4x64x16xf32>, tensor<1x64x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x64x16xf32>
    return %1 : tensor<4x64x16xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<4x64x32xf32>, %arg1: tensor<i32>) -> tensor<64x32xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 32] : (tensor<4x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x32xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x32xf32>) -> tensor<64x32xf32>
    return %1 : tensor<64x32xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<4x64x16xf32>, %arg1: tensor<i32>) -> tensor<64x16xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 16] : (tensor<4x64x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x16xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x16xf32>) -> tensor<64x16xf32>
    return %1 : tensor<64x16xf32>
  }
  func.func private @closed_call_4(%arg0: tensor<64x16xf32>, %arg1: tensor<64x32xf32>, %arg2: tensor<64x16xf32>, %arg3: tensor<16x32xf32>, %arg4: tensor<32x16xf32>) -> (tensor<64x16xf32>, tensor<16x32xf32>, tensor<32x16xf32>) {
    %0:5 = stablehlo.optimization_barrier %arg1, %arg2, %arg3, %arg4, %arg0 : tensor<64x32xf32>, tensor<64x16xf32>, tensor<16x32xf32>, tensor<32x16xf32>, tensor<64x16xf32>
    %1 = stablehlo.tanh %0#0 : tensor<64x32xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x32xf32>
    %3 = stablehlo.subtract %2, %1 : tensor<64x32xf32>
    %4 = stablehlo.dot_general %0#4, %1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x16xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
    %5 = stablehlo.transpose %4, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %6 = stablehlo.dot_general %0#4, %0#3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x16xf32>, tensor<32x16xf32>) -> tensor<64x32xf32>
    %7 = stablehlo.multiply %6, %3 : tensor<64x32xf32>
    %8 = stablehlo.multiply %7, %1 : tensor<64x32xf32>
    %9 = stablehlo.add %7, %8 : tensor<64x32xf32>
    %10 = stablehlo.dot_general %9, %0#1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<64x16xf32>) -> tensor<32x16xf32>
    %11 = stablehlo.transpose %10, dims = [1, 0] : (tensor<32x16xf32>) -> tensor<16x32xf32>
    %12 = stablehlo.dot_general %9, %0#2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<64x32xf32>, tensor<16x32xf32>) -> tensor<64x16xf32>
    %13 = stablehlo.add %0#4, %12 : tensor<64x16xf32>
    return %13, %11, %5 : tensor<64x16xf32>, tensor<16x32xf32>, tensor<32x16xf32>
  }
  func.func private @dynamic_update_index_in_dim_5(%arg0: tensor<4x16x32xf32>, %arg1: tensor<16x32xf32>, %arg2: tensor<i32>) -> tensor<4x16x32xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<16x32xf32>) -> tensor<1x16x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<4x16x32xf32>, tensor<1x16x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x16x32xf32>
    return %1 : tensor<4x16x32xf32>
  }
  func.func private @dynamic_update_index_in_dim_6(%arg0: tensor<4x32x16xf32>, %arg1: tensor<32x16xf32>, %arg2: tensor<i32>) -> tensor<4x32x16xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<32x16xf32>) -> tensor<1x32x16xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<4x32x16xf32>, tensor<1x32x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x32x16xf32>
    return %1 : tensor<4x32x16xf32>
  }
}
