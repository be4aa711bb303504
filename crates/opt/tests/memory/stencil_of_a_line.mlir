// at most 1392 bytes
module @jit_s1 attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<300xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<300xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<300xf32>
    cond {
      %c_1 = stablehlo.constant dense<6> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @closed_call(%iterArg_0) : (tensor<300xf32>) -> tensor<300xf32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<300xf32>
    }
    return %0#1 : tensor<300xf32>
  }
  func.func private @closed_call(%arg0: tensor<300xf32>) -> tensor<300xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = call @_pad(%arg0, %c) : (tensor<300xf32>, tensor<i32>) -> tensor<302xf32>
    %1 = stablehlo.slice %0 [0:300] : (tensor<302xf32>) -> tensor<300xf32>
    %cst = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<300xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<300xf32>
    %4 = stablehlo.slice %0 [1:301] : (tensor<302xf32>) -> tensor<300xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<300xf32>
    %6 = stablehlo.multiply %5, %4 : tensor<300xf32>
    %7 = stablehlo.add %3, %6 : tensor<300xf32>
    %8 = stablehlo.slice %0 [2:302] : (tensor<302xf32>) -> tensor<300xf32>
    %cst_1 = stablehlo.constant dense<2.500000e-01> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<300xf32>
    %10 = stablehlo.multiply %9, %8 : tensor<300xf32>
    %11 = stablehlo.add %7, %10 : tensor<300xf32>
    return %11 : tensor<300xf32>
  }
  func.func private @_pad(%arg0: tensor<300xf32>, %arg1: tensor<i32>) -> tensor<302xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1], high = [1], interior = [0] : (tensor<300xf32>, tensor<f32>) -> tensor<302xf32>
    return %1 : tensor<302xf32>
  }
}
