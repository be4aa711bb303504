// Starts are clamped so that the slice fits.
func.func @main() {
  %x = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %far = stablehlo.constant dense<9> : tensor<i32>
  %before = stablehlo.constant dense<-4> : tensor<i32>
  %corner = stablehlo.dynamic_slice %x, %far, %before, sizes = [1, 2] : (tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<1x2xi32>
  check.expect_eq_const %corner, dense<[[4, 5]]> : tensor<1x2xi32>
  %new = stablehlo.constant dense<[[0, 9]]> : tensor<1x2xi32>
  %updated = stablehlo.dynamic_update_slice %x, %new, %before, %far : (tensor<2x3xi32>, tensor<1x2xi32>, tensor<i32>, tensor<i32>) -> tensor<2x3xi32>
  check.expect_eq_const %updated, dense<[[1, 0, 9], [4, 5, 6]]> : tensor<2x3xi32>
  return
}

// -----

// Negative padding cuts; interior padding spreads.
func.func @main() {
  %x = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %fill = stablehlo.constant dense<0> : tensor<i32>
  %y = stablehlo.pad %x, %fill, low = [-1], high = [2], interior = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<8xi32>
  check.expect_eq_const %y, dense<[0, 2, 0, 3, 0, 4, 0, 0]> : tensor<8xi32>
  return
}

// -----

// Updates out of bounds are dropped; equal indices add up.
func.func @main() {
  %x = stablehlo.constant dense<0.0> : tensor<3xf32>
  %at = stablehlo.constant dense<[[1], [5], [1], [-1], [2]]> : tensor<5x1xi32>
  %by = stablehlo.constant dense<[1.0, 10.0, 2.0, 20.0, 4.0]> : tensor<5xf32>
  %y = "stablehlo.scatter"(%x, %at, %by) ({
  ^bb0(%old: tensor<f32>, %new: tensor<f32>):
    %sum = stablehlo.add %old, %new : tensor<f32>
    stablehlo.return %sum : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<3xf32>, tensor<5x1xi32>, tensor<5xf32>) -> tensor<3xf32>
  check.expect_eq_const %y, dense<[0.0, 3.0, 4.0]> : tensor<3xf32>
  return
}

// -----

func.func @main() {
  %keys = stablehlo.constant dense<[3.0, 0x7FC00000, -1.0, 3.0]> : tensor<4xf32>
  %places = stablehlo.iota dim = 0 : tensor<4xi32>
  %sorted:2 = "stablehlo.sort"(%keys, %places) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  check.expect_eq_const %sorted#1, dense<[2, 0, 3, 1]> : tensor<4xi32>
  return
}
