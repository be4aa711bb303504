// at most 1280 bytes
func.func public @main(%h0: tensor<4x32xf32>, %x: tensor<12x4x32xf32>, %at: tensor<i32>) -> (tensor<4x32xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<11> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %empty = stablehlo.broadcast_in_dim %none, dims = [] : (tensor<f32>) -> tensor<12x4x32xf32>
  %out:3 = stablehlo.while(%i = %zero, %h = %h0, %stack = %empty) : tensor<i32>, tensor<4x32xf32>, tensor<12x4x32xf32>
  cond {
    %n = stablehlo.constant dense<12> : tensor<i32>
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %slot = stablehlo.subtract %end, %i : tensor<i32>
    %row = stablehlo.dynamic_slice %x, %slot, %zero, %zero, sizes = [1, 4, 32] : (tensor<12x4x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x32xf32>
    %flat = stablehlo.reshape %row : (tensor<1x4x32xf32>) -> tensor<4x32xf32>
    %sine = stablehlo.sine %h : tensor<4x32xf32>
    %next = stablehlo.add %sine, %flat : tensor<4x32xf32>
    %y = stablehlo.reshape %next : (tensor<4x32xf32>) -> tensor<1x4x32xf32>
    %all = stablehlo.dynamic_update_slice %stack, %y, %slot, %zero, %zero : (tensor<12x4x32xf32>, tensor<1x4x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<12x4x32xf32>
    %after = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %after, %next, %all : tensor<i32>, tensor<4x32xf32>, tensor<12x4x32xf32>
  }
  %s = stablehlo.slice %out#2 [0:1, 0:4, 0:32] : (tensor<12x4x32xf32>) -> tensor<1x4x32xf32>
  %r0 = stablehlo.reshape %s : (tensor<1x4x32xf32>) -> tensor<4x32xf32>
  return %r0 : tensor<4x32xf32>
}
