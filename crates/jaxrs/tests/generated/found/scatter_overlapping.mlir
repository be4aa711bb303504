module @generated {
  func.func public @main(%arg0: tensor<6x4x4xf32>, %arg1: tensor<9x7xf32>) -> (tensor<9x7xf32>) {
    %0 = stablehlo.constant dense<[[[9, 2], [0, 7], [5, 1], [7, 7]], [[7, 3], [2, 9], [0, 0], [-1, -1]], [[9, 3], [2, 4], [2, 7], [2, 8]], [[5, 5], [5, 1], [6, 8], [1, 0]]]> : tensor<4x4x2xi32>
    %1 = "stablehlo.scatter"(%arg1, %0, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      stablehlo.return %arg3 : tensor<f32>
    }) : (tensor<9x7xf32>, tensor<4x4x2xi32>, tensor<6x4x4xf32>) -> tensor<9x7xf32>
    return %1 : tensor<9x7xf32>
  }
}
