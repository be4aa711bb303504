// at most 8448 bytes
func.func public @main(%h0: tensor<32x64xf32>, %w: tensor<64x64xf32>) -> tensor<9x32x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<9x32x64xf32>
  %out:3 = stablehlo.while(%i = %zero, %h = %h0, %ys = %none) : tensor<i32>, tensor<32x64xf32>, tensor<9x32x64xf32>
  cond {
    %end = stablehlo.constant dense<9> : tensor<i32>
    %more = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %dot = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %scale = stablehlo.constant dense<0.1> : tensor<32x64xf32>
    %next = stablehlo.multiply %dot, %scale : tensor<32x64xf32>
    %y = stablehlo.reshape %next : (tensor<32x64xf32>) -> tensor<1x32x64xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %all = stablehlo.dynamic_update_slice %ys, %y, %i, %zero, %zero : (tensor<9x32x64xf32>, tensor<1x32x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<9x32x64xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next, %all : tensor<i32>, tensor<32x64xf32>, tensor<9x32x64xf32>
  }
  return %out#2 : tensor<9x32x64xf32>
}
