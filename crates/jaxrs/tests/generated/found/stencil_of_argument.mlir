module @generated {
  func.func public @main(%arg0: tensor<16x8xf32>, %arg1: tensor<14x6xf32>) -> (tensor<16x8xf32>) {
    %0 = stablehlo.slice %arg0 [0:14, 2:8] : (tensor<16x8xf32>) -> tensor<14x6xf32>
    %1 = stablehlo.maximum %arg1, %0 : tensor<14x6xf32>
    %2 = stablehlo.constant dense<1> : tensor<i32>
    %3 = stablehlo.constant dense<1> : tensor<i32>
    %4 = stablehlo.dynamic_update_slice %arg0, %1, %2, %3 : (tensor<16x8xf32>, tensor<14x6xf32>, tensor<i32>, tensor<i32>) -> tensor<16x8xf32>
    return %4 : tensor<16x8xf32>
  }
}
