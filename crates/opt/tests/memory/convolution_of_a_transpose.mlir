// at most 8192 bytes
// without transpose, pad, reverse
func.func @main(%x: tensor<2x16x16x4xf32>, %k: tensor<3x3x4x4xf32>, %l: tensor<4x4x3x3xf32>) -> tensor<2x16x16x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %zeros = stablehlo.constant dense<0.0> : tensor<2x16x16x4xf32>
  %a = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x16x16x4xf32>, tensor<3x3x4x4xf32>) -> tensor<2x16x16x4xf32>
  %b = stablehlo.maximum %a, %zeros : tensor<2x16x16x4xf32>
  %c = stablehlo.transpose %b, dims = [0, 3, 1, 2] : (tensor<2x16x16x4xf32>) -> tensor<2x4x16x16xf32>
  %d = stablehlo.pad %c, %zero, low = [0, 0, 1, 1], high = [0, 0, 1, 1], interior = [0, 0, 0, 0] : (tensor<2x4x16x16xf32>, tensor<f32>) -> tensor<2x4x18x18xf32>
  %m = stablehlo.reverse %l, dims = [2, 3] : tensor<4x4x3x3xf32>
  %e = stablehlo.convolution(%d, %m) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x4x18x18xf32>, tensor<4x4x3x3xf32>) -> tensor<2x4x16x16xf32>
  %f = stablehlo.transpose %e, dims = [0, 2, 3, 1] : (tensor<2x4x16x16xf32>) -> tensor<2x16x16x4xf32>
  return %f : tensor<2x16x16x4xf32>
}
