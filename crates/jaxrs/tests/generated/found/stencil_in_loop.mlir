module @generated {
  func.func public @main(%arg0: tensor<17x17xi32>) -> (tensor<289xi32>) {
    %0 = stablehlo.constant dense<1> : tensor<i32>
    %1:2 = stablehlo.while(%arg1 = %arg0, %arg2 = %0) : tensor<17x17xi32>, tensor<i32> cond {
      %2 = stablehlo.constant dense<4> : tensor<i32>
      %3 = stablehlo.compare LT, %arg2, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %arg2, %4 : tensor<i32>
      %6 = stablehlo.slice %arg1 [0:15, 0:17] : (tensor<17x17xi32>) -> tensor<15x17xi32>
      %7 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.constant dense<0> : tensor<i32>
      %9 = stablehlo.dynamic_update_slice %arg1, %6, %7, %8 : (tensor<17x17xi32>, tensor<15x17xi32>, tensor<i32>, tensor<i32>) -> tensor<17x17xi32>
      stablehlo.return %9, %5 : tensor<17x17xi32>, tensor<i32>
    }
    %10 = stablehlo.reshape %1#0 : (tensor<17x17xi32>) -> tensor<289xi32>
    return %10 : tensor<289xi32>
  }
}
