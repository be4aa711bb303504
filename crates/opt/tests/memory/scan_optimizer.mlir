// at most 192 bytes
// A layer's gradient is used up in its step of the backward loop: new weights and moments lie over the old ones.
func.func @main(%p: tensor<8x16x16xf32> {tf.aliasing_output = 0 : i32}, %m: tensor<8x16x16xf32> {tf.aliasing_output = 1 : i32}, %v: tensor<8x16x16xf32> {tf.aliasing_output = 2 : i32}, %x: tensor<16xf32>) -> (tensor<8x16x16xf32>, tensor<8x16x16xf32>, tensor<8x16x16xf32>) {
  %begin = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %stack = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<8x16x16xf32>
  %r:4 = stablehlo.while(%i = %begin, %y = %x, %w = %p, %gs = %stack) : tensor<i32>, tensor<16xf32>, tensor<8x16x16xf32>, tensor<8x16x16xf32>
  cond {
    %end = stablehlo.constant dense<8> : tensor<i32>
    %more = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %last = stablehlo.constant dense<7> : tensor<i32>
    %n = stablehlo.subtract %last, %i : tensor<i32>
    %s = stablehlo.dynamic_slice %w, %n, %c, %c, sizes = [1, 16, 16] : (tensor<8x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x16xf32>
    %k = stablehlo.reshape %s : (tensor<1x16x16xf32>) -> tensor<16x16xf32>
    %z = stablehlo.dot_general %k, %y, contracting_dims = [0] x [0] : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %t = stablehlo.tanh %z : tensor<16xf32>
    %g = stablehlo.dot_general %y, %t, contracting_dims = [] x [] : (tensor<16xf32>, tensor<16xf32>) -> tensor<16x16xf32>
    %h = stablehlo.reshape %g : (tensor<16x16xf32>) -> tensor<1x16x16xf32>
    %next = stablehlo.dynamic_update_slice %gs, %h, %n, %c, %c : (tensor<8x16x16xf32>, tensor<1x16x16xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<8x16x16xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %t, %w, %next : tensor<i32>, tensor<16xf32>, tensor<8x16x16xf32>, tensor<8x16x16xf32>
  }
  %a = stablehlo.constant dense<0.9> : tensor<8x16x16xf32>
  %b = stablehlo.constant dense<0.1> : tensor<8x16x16xf32>
  %ma = stablehlo.multiply %a, %m : tensor<8x16x16xf32>
  %mb = stablehlo.multiply %b, %r#3 : tensor<8x16x16xf32>
  %m1 = stablehlo.add %ma, %mb : tensor<8x16x16xf32>
  %va = stablehlo.multiply %a, %v : tensor<8x16x16xf32>
  %gg = stablehlo.multiply %r#3, %r#3 : tensor<8x16x16xf32>
  %vb = stablehlo.multiply %b, %gg : tensor<8x16x16xf32>
  %v1 = stablehlo.add %va, %vb : tensor<8x16x16xf32>
  %e = stablehlo.constant dense<1.0> : tensor<8x16x16xf32>
  %vs = stablehlo.add %v1, %e : tensor<8x16x16xf32>
  %d = stablehlo.divide %m1, %vs : tensor<8x16x16xf32>
  %p1 = stablehlo.subtract %p, %d : tensor<8x16x16xf32>
  return %p1, %m1, %v1 : tensor<8x16x16xf32>, tensor<8x16x16xf32>, tensor<8x16x16xf32>
}
