func.func @main() {
  %a = stablehlo.constant dense<[127, -128, 5, -7]> : tensor<4xi8>
  %b = stablehlo.constant dense<[1, -1, 0, 2]> : tensor<4xi8>
  %sum = stablehlo.add %a, %b : tensor<4xi8>
  check.expect_eq_const %sum, dense<[-128, 127, 5, -5]> : tensor<4xi8>
  %quotient = stablehlo.divide %a, %b : tensor<4xi8>
  check.expect_eq_const %quotient, dense<[127, -128, -1, -3]> : tensor<4xi8>
  %rest = stablehlo.remainder %a, %b : tensor<4xi8>
  check.expect_eq_const %rest, dense<[0, 0, 5, -1]> : tensor<4xi8>
  return
}

// -----

func.func @main() {
  %a = stablehlo.constant dense<[1, -128, 64, -1]> : tensor<4xi8>
  %by = stablehlo.constant dense<[7, 1, 8, 127]> : tensor<4xi8>
  %left = stablehlo.shift_left %a, %by : tensor<4xi8>
  check.expect_eq_const %left, dense<[-128, 0, 0, 0]> : tensor<4xi8>
  %logical = stablehlo.shift_right_logical %a, %by : tensor<4xi8>
  check.expect_eq_const %logical, dense<[0, 64, 0, 0]> : tensor<4xi8>
  %arithmetic = stablehlo.shift_right_arithmetic %a, %by : tensor<4xi8>
  check.expect_eq_const %arithmetic, dense<[0, -64, 0, -1]> : tensor<4xi8>
  return
}

// -----

func.func @main() {
  %x = stablehlo.constant dense<[0, 1, 65535, 4096]> : tensor<4xui16>
  %bits = stablehlo.popcnt %x : tensor<4xui16>
  check.expect_eq_const %bits, dense<[0, 1, 16, 1]> : tensor<4xui16>
  %zeros = stablehlo.count_leading_zeros %x : tensor<4xui16>
  check.expect_eq_const %zeros, dense<[16, 15, 0, 3]> : tensor<4xui16>
  %wide = stablehlo.convert %x : (tensor<4xui16>) -> tensor<4xi64>
  check.expect_eq_const %wide, dense<[0, 1, 65535, 4096]> : tensor<4xi64>
  %signed = stablehlo.convert %x : (tensor<4xui16>) -> tensor<4xi16>
  check.expect_eq_const %signed, dense<[0, 1, -1, 4096]> : tensor<4xi16>
  return
}
