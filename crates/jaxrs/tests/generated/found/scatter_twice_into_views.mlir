module @generated {
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<4x1xf32>, %arg2: tensor<0x4xi32>) -> (tensor<2xf32>) {
    %0 = stablehlo.reshape %arg0 : (tensor<f32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<f32>) -> tensor<1xf32>
    %2:2 = "stablehlo.scatter"(%0, %1, %arg2, %arg1, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], index_vector_dim = 0>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>, %arg6: tensor<f32>):
      %3 = stablehlo.compare GT, %arg5, %arg3 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.select %3, %arg5, %arg3 : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      %5 = stablehlo.select %3, %arg6, %arg4 : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %4, %5 : tensor<f32>, tensor<f32>
    }) : (tensor<1xf32>, tensor<1xf32>, tensor<0x4xi32>, tensor<4x1xf32>, tensor<4x1xf32>) -> (tensor<1xf32>, tensor<1xf32>)
    %6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.pad %2#1, %6, low = [2], high = [-1], interior = [0] : (tensor<1xf32>, tensor<f32>) -> tensor<2xf32>
    return %7 : tensor<2xf32>
  }
}
