module @generated {
  func.func public @main(%arg0: tensor<1x4xf32>) -> (tensor<1x4xf32>) {
    %0 = stablehlo.constant dense<[[0], [0], [0], [0]]> : tensor<4x1xi32>
    %1 = stablehlo.reshape %arg0 : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
    %2 = "stablehlo.scatter"(%arg0, %0, %1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      stablehlo.return %arg2 : tensor<f32>
    }) : (tensor<1x4xf32>, tensor<4x1xi32>, tensor<1x4x1xf32>) -> tensor<1x4xf32>
    return %2 : tensor<1x4xf32>
  }
}
