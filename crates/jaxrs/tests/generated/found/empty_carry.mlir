module @generated {
  func.func public @main(%arg0: tensor<5x6x0xi32>) -> (tensor<5x6x0xi32>) {
    %0 = stablehlo.constant dense<1> : tensor<i32>
    %1:2 = stablehlo.while(%arg1 = %0, %arg2 = %arg0) : tensor<i32>, tensor<5x6x0xi32> cond {
      %2 = stablehlo.constant dense<5> : tensor<i32>
      %3 = stablehlo.compare LT, %arg1, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %arg1, %4 : tensor<i32>
      %6 = stablehlo.constant dense<> : tensor<5x6x0xi32>
      stablehlo.return %5, %6 : tensor<i32>, tensor<5x6x0xi32>
    }
    return %1#1 : tensor<5x6x0xi32>
  }
}
