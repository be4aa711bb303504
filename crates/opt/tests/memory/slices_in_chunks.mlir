// at most 9984 bytes
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<12x48x40xf32>) -> (tensor<12x48xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.reshape %arg0 : (tensor<12x48x40xf32>) -> tensor<4x3x48x40xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x3x48xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2:3 = stablehlo.while(%iterArg = %0, %iterArg_0 = %c, %iterArg_1 = %1) : tensor<4x3x48x40xf32>, tensor<i32>, tensor<4x3x48xf32>
    cond {
      %c_2 = stablehlo.constant dense<4> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg_0, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_0) : (tensor<4x3x48x40xf32>, tensor<i32>) -> tensor<3x48x40xf32>
      %5 = func.call @closed_call(%4) : (tensor<3x48x40xf32>) -> tensor<3x48xf32>
      %6 = func.call @dynamic_update_index_in_dim(%iterArg_1, %5, %iterArg_0) : (tensor<4x3x48xf32>, tensor<3x48xf32>, tensor<i32>) -> tensor<4x3x48xf32>
      %c_2 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.add %iterArg_0, %c_2 : tensor<i32>
      stablehlo.return %iterArg, %7, %6 : tensor<4x3x48x40xf32>, tensor<i32>, tensor<4x3x48xf32>
    }
    %3 = stablehlo.reshape %2#2 : (tensor<4x3x48xf32>) -> tensor<12x48xf32>
    return %3 : tensor<12x48xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x3x48x40xf32>, %arg1: tensor<i32>) -> tensor<3x48x40xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, %c_1, sizes = [1, 3, 48, 40] : (tensor<4x3x48x40xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x48x40xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x3x48x40xf32>) -> tensor<3x48x40xf32>
    return %1 : tensor<3x48x40xf32>
  }
  func.func private @closed_call(%arg0: tensor<3x48x40xf32>) -> tensor<3x48xf32> {
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<3x48x40xf32>) -> tensor<3x40x48xf32>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<3x48x40xf32>, tensor<3x40x48xf32>) -> tensor<3x48x48xf32>
    %2 = stablehlo.tanh %1 : tensor<3x48x48xf32>
    %3 = chlo.square %2 : tensor<3x48x48xf32> -> tensor<3x48x48xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<3x48x48xf32>, tensor<f32>) -> tensor<3x48xf32>
    return %4 : tensor<3x48xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<4x3x48xf32>, %arg1: tensor<3x48xf32>, %arg2: tensor<i32>) -> tensor<4x3x48xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<3x48xf32>) -> tensor<1x3x48xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<4x3x48xf32>, tensor<1x3x48xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x3x48xf32>
    return %1 : tensor<4x3x48xf32>
  }
}
