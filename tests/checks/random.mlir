// Threefry-2x32 of key 0 and counter 0 begins with 6b200159 99ba4efe (Salmon et al., 2011).
func.func @main() {
  %state = stablehlo.constant dense<0> : tensor<2xui64>
  %next, %bits = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<1xui64>)
  check.expect_eq_const %next, dense<[0, 1]> : tensor<2xui64>
  check.expect_eq_const %bits, dense<11077253088097075545> : tensor<1xui64>
  return
}

// -----

// The last of many elements is the first one of a generator that starts there.
func.func @main() {
  %state = stablehlo.constant dense<[7, 0]> : tensor<2xui64>
  %later = stablehlo.constant dense<[7, 9999]> : tensor<2xui64>
  %next, %bits = stablehlo.rng_bit_generator %state, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<100x100xui64>)
  %end, %one = stablehlo.rng_bit_generator %later, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<1x1xui64>)
  %last = stablehlo.slice %bits [99:100, 99:100] : (tensor<100x100xui64>) -> tensor<1x1xui64>
  check.expect_eq %last, %one : tensor<1x1xui64>, tensor<1x1xui64>
  check.expect_eq %next, %end : tensor<2xui64>, tensor<2xui64>
  return
}

// -----

// The same for Philox, which gives two elements a counter.
func.func @main() {
  %state = stablehlo.constant dense<[7, 0, 0]> : tensor<3xui64>
  %later = stablehlo.constant dense<[7, 499, 0]> : tensor<3xui64>
  %next, %bits = stablehlo.rng_bit_generator %state, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<1000xui64>)
  %end, %two = stablehlo.rng_bit_generator %later, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<2xui64>)
  %last = stablehlo.slice %bits [998:1000] : (tensor<1000xui64>) -> tensor<2xui64>
  check.expect_eq %last, %two : tensor<2xui64>, tensor<2xui64>
  check.expect_eq %next, %end : tensor<3xui64>, tensor<3xui64>
  return
}
