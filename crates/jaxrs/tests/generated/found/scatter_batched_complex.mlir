module @generated {
  func.func public @main(%arg0: tensor<6x2x4xcomplex<f32>>, %arg1: tensor<2xi8>, %arg2: tensor<7x5x6xcomplex<f32>>) -> (tensor<2x3x6xcomplex<f32>>) {
    %0 = stablehlo.constant dense<[[[0, 1, 1, 4]], [[5, 3, 2, 5]], [[1, 4, 6, 0]], [[0, 1, 3, 4]], [[5, 0, 6, 6]], [[0, 3, 0, 6]]]> : tensor<6x1x4xi32>
    %1 = "stablehlo.scatter"(%arg2, %0, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [1], input_batching_dims = [2], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<complex<f32>>, %arg4: tensor<complex<f32>>):
      stablehlo.return %arg4 : tensor<complex<f32>>
    }) : (tensor<7x5x6xcomplex<f32>>, tensor<6x1x4xi32>, tensor<6x2x4xcomplex<f32>>) -> tensor<7x5x6xcomplex<f32>>
    %2 = "stablehlo.gather"(%1, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1, 2], start_index_map = [0, 2], index_vector_dim = 0>, indices_are_sorted = false, slice_sizes = array<i64: 2, 3, 6>}> : (tensor<7x5x6xcomplex<f32>>, tensor<2xi8>) -> tensor<2x3x6xcomplex<f32>>
    return %2 : tensor<2x3x6xcomplex<f32>>
  }
}
