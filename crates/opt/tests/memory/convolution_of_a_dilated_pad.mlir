// at most 0 bytes
// without pad
func.func @main(%x: tensor<1x2x5x6xf32>, %k: tensor<3x2x3x2xf32>, %l: tensor<3x2x3x2xf32>) -> (tensor<1x3x9x18xf32>, tensor<1x3x5x5xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %p = stablehlo.pad %x, %zero, low = [0, 0, 1, -1], high = [0, 0, -1, 4], interior = [0, 0, 1, 2] : (tensor<1x2x5x6xf32>, tensor<f32>) -> tensor<1x2x9x19xf32>
  %a = stablehlo.convolution(%p, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[2, 0], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x9x19xf32>, tensor<3x2x3x2xf32>) -> tensor<1x3x9x18xf32>
  %q = stablehlo.pad %x, %zero, low = [0, 0, 0, 2], high = [0, 0, 2, 0], interior = [0, 0, 0, 0] : (tensor<1x2x5x6xf32>, tensor<f32>) -> tensor<1x2x7x8xf32>
  %b = stablehlo.convolution(%q, %l) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 3], pad = [[-1, 0], [1, -2]], lhs_dilate = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x7x8xf32>, tensor<3x2x3x2xf32>) -> tensor<1x3x5x5xf32>
  return %a, %b : tensor<1x3x9x18xf32>, tensor<1x3x5x5xf32>
}
