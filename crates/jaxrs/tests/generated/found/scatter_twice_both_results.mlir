module @g {
  func.func public @main(%arg0: tensor<9xf32>, %arg1: tensor<8xf32>, %arg2: tensor<f32>) -> (tensor<9xf32>, tensor<9xf32>) {
    %0 = stablehlo.constant dense<4> : tensor<i32>
    %1:2 = "stablehlo.scatter"(%arg0, %arg0, %0, %arg1, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 0>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<f32>):
      %2 = stablehlo.maximum %arg3, %arg5 : tensor<f32>
      %3 = stablehlo.add %arg4, %arg6 : tensor<f32>
      stablehlo.return %2, %3 : tensor<f32>, tensor<f32>
    }) : (tensor<9xf32>, tensor<9xf32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<9xf32>, tensor<9xf32>)
    return %1#0, %1#1 : tensor<9xf32>, tensor<9xf32>
  }
}
