// at most 196608 bytes
// Forward and backward of experts: what is computed from the first products is made again in the loop over experts.
func.func @main(%x: tensor<32x16xf32>, %w: tensor<8x16x64xf32>, %v: tensor<8x64x16xf32>, %q: tensor<16x16xf32>) -> (tensor<8x64x16xf32>, tensor<8x16x64xf32>) {
  %h = stablehlo.dot_general %w, %x, contracting_dims = [1] x [1] : (tensor<8x16x64xf32>, tensor<32x16xf32>) -> tensor<8x64x32xf32>
  %t = stablehlo.transpose %h, dims = [0, 2, 1] : (tensor<8x64x32xf32>) -> tensor<8x32x64xf32>
  %s = stablehlo.multiply %t, %t : tensor<8x32x64xf32>
  %e = stablehlo.tanh %s : tensor<8x32x64xf32>
  %a = stablehlo.multiply %t, %e : tensor<8x32x64xf32>
  %y = stablehlo.dot_general %a, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<8x32x64xf32>, tensor<8x64x16xf32>) -> tensor<8x32x16xf32>
  %r = stablehlo.reshape %y : (tensor<8x32x16xf32>) -> tensor<256x16xf32>
  %z = stablehlo.dot_general %r, %q, contracting_dims = [1] x [0] : (tensor<256x16xf32>, tensor<16x16xf32>) -> tensor<256x16xf32>
  %g = stablehlo.reshape %z : (tensor<256x16xf32>) -> tensor<8x32x16xf32>
  %dv = stablehlo.dot_general %a, %g, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<8x32x64xf32>, tensor<8x32x16xf32>) -> tensor<8x64x16xf32>
  %da = stablehlo.dot_general %g, %v, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<8x32x16xf32>, tensor<8x64x16xf32>) -> tensor<8x32x64xf32>
  %b = stablehlo.multiply %da, %e : tensor<8x32x64xf32>
  %c = stablehlo.multiply %b, %s : tensor<8x32x64xf32>
  %d = stablehlo.add %b, %c : tensor<8x32x64xf32>
  %dw = stablehlo.dot_general %d, %x, contracting_dims = [1] x [0] : (tensor<8x32x64xf32>, tensor<32x16xf32>) -> tensor<8x64x16xf32>
  %dt = stablehlo.transpose %dw, dims = [0, 2, 1] : (tensor<8x64x16xf32>) -> tensor<8x16x64xf32>
  return %dv, %dt : tensor<8x64x16xf32>, tensor<8x16x64xf32>
}
