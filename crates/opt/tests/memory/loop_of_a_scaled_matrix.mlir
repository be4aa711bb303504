// at most 263232 bytes
// The damped matrix is made before the loop, in the place of the matrix that nothing reads then.
func.func @main(%a: tensor<256x256xf32>, %x: tensor<256xf32>) -> tensor<256xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %abs = stablehlo.abs %a : tensor<256x256xf32>
  %sum = stablehlo.reduce(%abs init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<256x256xf32>, tensor<f32>) -> tensor<256xf32>
  %sums = stablehlo.broadcast_in_dim %sum, dims = [1] : (tensor<256xf32>) -> tensor<256x256xf32>
  %p = stablehlo.divide %abs, %sums : tensor<256x256xf32>
  %begin = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %begin, %y = %x, %m = %p) : tensor<i32>, tensor<256xf32>, tensor<256x256xf32>
  cond {
    %end = stablehlo.constant dense<4> : tensor<i32>
    %more = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %damping = stablehlo.constant dense<0.85> : tensor<256x256xf32>
    %damped = stablehlo.multiply %damping, %m : tensor<256x256xf32>
    %next = stablehlo.dot_general %damped, %y, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256xf32>) -> tensor<256xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %next, %m : tensor<i32>, tensor<256xf32>, tensor<256x256xf32>
  }
  return %r#1 : tensor<256xf32>
}
