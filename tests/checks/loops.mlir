// (previous, current) -> (current, sum): two carries that change places.
func.func @main() {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %end:3 = stablehlo.while(%i = %zero, %a = %zero, %b = %one) : tensor<i64>, tensor<i64>, tensor<i64>
  cond {
    %many = stablehlo.constant dense<90> : tensor<i64>
    %more = stablehlo.compare LT, %i, %many : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %step = stablehlo.constant dense<1> : tensor<i64>
    %next = stablehlo.add %i, %step : tensor<i64>
    %sum = stablehlo.add %a, %b : tensor<i64>
    stablehlo.return %next, %b, %sum : tensor<i64>, tensor<i64>, tensor<i64>
  }
  check.expect_eq_const %end#1, dense<2880067194370816120> : tensor<i64>
  return
}

// -----

// An index without a branch takes the last one.
func.func @main() {
  %index = stablehlo.constant dense<-3> : tensor<i32>
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = "stablehlo.case"(%index) ({
    stablehlo.return %x : tensor<2xf32>
  }, {
    %twice = stablehlo.add %x, %x : tensor<2xf32>
    stablehlo.return %twice : tensor<2xf32>
  }) : (tensor<i32>) -> tensor<2xf32>
  check.expect_eq_const %y, dense<[2.0, 4.0]> : tensor<2xf32>
  return
}

// -----

func.func @main() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %rows = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %rows, dense<[6, 15]> : tensor<2xi32>
  %sums = "stablehlo.reduce_window"(%x, %zero) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %sum = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %sum : tensor<i32>
  }) {window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [2, 0]]> : tensor<2x2xi64>} : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>
  check.expect_eq_const %sums, dense<[[1, 3, 6], [4, 9, 15]]> : tensor<2x3xi32>
  return
}

// -----

func.func @main() {
  %a = stablehlo.constant dense<[[1, -2], [3, 127]]> : tensor<2x2xi8>
  %b = stablehlo.constant dense<[[-128, 1], [127, 0]]> : tensor<2x2xi8>
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x2xi8>, tensor<2x2xi8>) -> tensor<2x2xi32>
  check.expect_eq_const %c, dense<[[-382, 1], [15745, 3]]> : tensor<2x2xi32>
  return
}
