// at most 1408 bytes
module @jit_rf attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x20xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<16x20xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<16x20xf32>
    cond {
      %c_1 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @closed_call(%iterArg_0) : (tensor<16x20xf32>) -> tensor<16x20xf32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<16x20xf32>
    }
    return %0#1 : tensor<16x20xf32>
  }
  func.func private @closed_call(%arg0: tensor<16x20xf32>) -> tensor<16x20xf32> {
    %0 = call @_pad(%arg0) : (tensor<16x20xf32>) -> tensor<18x22xf32>
    %1 = stablehlo.slice %0 [1:17, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %2 = stablehlo.slice %0 [2:18, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %3 = stablehlo.slice %0 [0:16, 1:21] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %4 = stablehlo.slice %0 [1:17, 2:22] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<16x20xf32>
    %6 = stablehlo.subtract %2, %5 : tensor<16x20xf32>
    %7 = stablehlo.slice %0 [1:17, 0:20] : (tensor<18x22xf32>) -> tensor<16x20xf32>
    %8 = stablehlo.add %6, %7 : tensor<16x20xf32>
    %cst = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x20xf32>
    %10 = stablehlo.multiply %9, %8 : tensor<16x20xf32>
    %11 = stablehlo.add %1, %10 : tensor<16x20xf32>
    %12 = stablehlo.tanh %11 : tensor<16x20xf32>
    return %12 : tensor<16x20xf32>
  }
  func.func private @_pad(%arg0: tensor<16x20xf32>) -> tensor<18x22xf32> {
    %0 = stablehlo.slice %arg0 [1:2, 0:20] : (tensor<16x20xf32>) -> tensor<1x20xf32>
    %1 = call @_flip(%0) : (tensor<1x20xf32>) -> tensor<1x20xf32>
    %2 = stablehlo.concatenate %1, %arg0, dim = 0 : (tensor<1x20xf32>, tensor<16x20xf32>) -> tensor<17x20xf32>
    %3 = stablehlo.slice %2 [15:16, 0:20] : (tensor<17x20xf32>) -> tensor<1x20xf32>
    %4 = call @_flip(%3) : (tensor<1x20xf32>) -> tensor<1x20xf32>
    %5 = stablehlo.concatenate %2, %4, dim = 0 : (tensor<17x20xf32>, tensor<1x20xf32>) -> tensor<18x20xf32>
    %6 = stablehlo.slice %5 [0:18, 1:2] : (tensor<18x20xf32>) -> tensor<18x1xf32>
    %7 = call @_flip_0(%6) : (tensor<18x1xf32>) -> tensor<18x1xf32>
    %8 = stablehlo.concatenate %7, %5, dim = 1 : (tensor<18x1xf32>, tensor<18x20xf32>) -> tensor<18x21xf32>
    %9 = stablehlo.slice %8 [0:18, 19:20] : (tensor<18x21xf32>) -> tensor<18x1xf32>
    %10 = call @_flip_0(%9) : (tensor<18x1xf32>) -> tensor<18x1xf32>
    %11 = stablehlo.concatenate %8, %10, dim = 1 : (tensor<18x21xf32>, tensor<18x1xf32>) -> tensor<18x22xf32>
    return %11 : tensor<18x22xf32>
  }
  func.func private @_flip(%arg0: tensor<1x20xf32>) -> tensor<1x20xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<1x20xf32>
    return %0 : tensor<1x20xf32>
  }
  func.func private @_flip_0(%arg0: tensor<18x1xf32>) -> tensor<18x1xf32> {
    %0 = stablehlo.reverse %arg0, dims = [1] : tensor<18x1xf32>
    return %0 : tensor<18x1xf32>
  }
}
