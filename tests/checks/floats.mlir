func.func @main() {
  // NaN, infinities, signed zero.
  %x = stablehlo.constant dense<[0x7FC00000, 0x7F800000, 0xFF800000, -0.0, 2.5]> : tensor<5xf32>
  %y = stablehlo.constant dense<[1.0, 1.0, 1.0, 0.0, 3.5]> : tensor<5xf32>
  %most = stablehlo.maximum %x, %y : tensor<5xf32>
  check.expect_eq_const %most, dense<[0x7FC00000, 0x7F800000, 1.0, 0.0, 3.5]> : tensor<5xf32>
  %even = stablehlo.round_nearest_even %y : tensor<5xf32>
  check.expect_eq_const %even, dense<[1.0, 1.0, 1.0, 0.0, 4.0]> : tensor<5xf32>
  %finite = stablehlo.is_finite %x : (tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %finite, dense<[false, false, false, true, true]> : tensor<5xi1>
  %less = stablehlo.compare LT, %x, %y : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xi1>
  check.expect_eq_const %less, dense<[false, false, true, false, true]> : tensor<5xi1>
  return
}

// -----

// A 16-bit float rounds once, to the even neighbour at the half.
func.func @main() {
  %one = stablehlo.constant dense<1.0> : tensor<2xbf16>
  %step = stablehlo.constant dense<[0.00390625, 0.01171875]> : tensor<2xbf16>
  %sum = stablehlo.add %one, %step : tensor<2xbf16>
  check.expect_eq_const %sum, dense<[1.0, 1.015625]> : tensor<2xbf16>
  %big = stablehlo.constant dense<60000.0> : tensor<2xf16>
  %over = stablehlo.add %big, %big : tensor<2xf16>
  check.expect_eq_const %over, dense<0x7C00> : tensor<2xf16>
  return
}

// -----

func.func @main() {
  %x = stablehlo.constant dense<[0.5, 1.0, 2.0, 10.0]> : tensor<4xf64>
  %power = stablehlo.exponential %x : tensor<4xf64>
  %back = stablehlo.log %power : tensor<4xf64>
  check.expect_close %back, %x, max_ulp_difference = 2 : tensor<4xf64>, tensor<4xf64>
  %third = stablehlo.cbrt %x : tensor<4xf64>
  %square = stablehlo.multiply %third, %third : tensor<4xf64>
  %cube = stablehlo.multiply %square, %third : tensor<4xf64>
  check.expect_close %cube, %x, max_ulp_difference = 4 : tensor<4xf64>, tensor<4xf64>
  return
}

// -----

// The bits of a wide complex number as two narrow ones, and back.
func.func @main() {
  %wide = stablehlo.constant dense<[(1.0, -2.0), (0.1, 3.0e100)]> : tensor<2xcomplex<f64>>
  %narrow = stablehlo.bitcast_convert %wide : (tensor<2xcomplex<f64>>) -> tensor<2x2xcomplex<f32>>
  %back = stablehlo.bitcast_convert %narrow : (tensor<2x2xcomplex<f32>>) -> tensor<2xcomplex<f64>>
  check.expect_eq %back, %wide : tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>
  %high = stablehlo.imag %narrow : (tensor<2x2xcomplex<f32>>) -> tensor<2x2xf32>
  %row = stablehlo.slice %high [0:1, 0:2] : (tensor<2x2xf32>) -> tensor<1x2xf32>
  check.expect_eq_const %row, dense<[[1.875, -2.0]]> : tensor<1x2xf32>
  return
}
