module @generated {
  func.func public @main(%arg0: tensor<4x7x4xui64>) -> (tensor<4x7x4xui64>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1:3 = stablehlo.while(%arg1 = %arg0, %arg2 = %arg0, %arg3 = %0) : tensor<4x7x4xui64>, tensor<4x7x4xui64>, tensor<i32> cond {
      %2 = stablehlo.constant dense<4> : tensor<i32>
      %3 = stablehlo.compare LT, %arg3, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %arg3, %4 : tensor<i32>
      stablehlo.return %arg2, %arg1, %5 : tensor<4x7x4xui64>, tensor<4x7x4xui64>, tensor<i32>
    }
    return %1#0 : tensor<4x7x4xui64>
  }
}
