module @generated {
  func.func public @main(%arg0: tensor<8x8x8xf64>) -> (tensor<8x8x8xi32>) {
    %0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = stablehlo.constant dense<2> : tensor<i32>
    %2:2 = stablehlo.while(%arg1 = %0, %arg2 = %arg0) : tensor<i32>, tensor<8x8x8xf64> cond {
      %3 = stablehlo.compare LT, %arg1, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %arg1, %4 : tensor<i32>
      %6 = stablehlo.slice %arg2 [0:6, 0:6, 0:6] : (tensor<8x8x8xf64>) -> tensor<6x6x6xf64>
      %7 = stablehlo.constant dense<[1, 1, 1]> : tensor<3xi32>
      %8 = "stablehlo.scatter"(%arg2, %7, %6) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 0>, unique_indices = true}> ({
      ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
        stablehlo.return %arg4 : tensor<f64>
      }) : (tensor<8x8x8xf64>, tensor<3xi32>, tensor<6x6x6xf64>) -> tensor<8x8x8xf64>
      stablehlo.return %5, %8 : tensor<i32>, tensor<8x8x8xf64>
    }
    %9 = stablehlo.convert %2#1 : (tensor<8x8x8xf64>) -> tensor<8x8x8xi32>
    return %9 : tensor<8x8x8xi32>
  }
}
