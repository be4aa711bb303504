module @generated {
  func.func public @main(%arg0: tensor<2xf32>) -> (tensor<5xf32>) {
    %0 = stablehlo.constant dense<[[1], [1]]> : tensor<2x1xi32>
    %1 = "stablehlo.scatter"(%arg0, %0, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<2xf32>
    %3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = "stablehlo.reduce_window"(%1, %3) <{base_dilations = array<i64: 1>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 2>, window_strides = array<i64: 1>, padding = dense<[[2, 2]]> : tensor<1x2xi64>}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %5 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<2xf32>, tensor<f32>) -> tensor<5xf32>
    return %4 : tensor<5xf32>
  }
}
