module @generated {
  func.func public @main(%arg0: tensor<2x0x4xf32>) -> (tensor<2x0x4xf32>) {
    %0 = stablehlo.constant dense<1> : tensor<ui8>
    %1:2 = stablehlo.while(%arg1 = %0, %arg2 = %arg0) : tensor<ui8>, tensor<2x0x4xf32> cond {
      %2 = stablehlo.constant dense<4> : tensor<ui8>
      %3 = stablehlo.compare LT, %arg1, %2 : (tensor<ui8>, tensor<ui8>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %4 = stablehlo.constant dense<1> : tensor<ui8>
      %5 = stablehlo.add %arg1, %4 : tensor<ui8>
      stablehlo.return %5, %arg0 : tensor<ui8>, tensor<2x0x4xf32>
    }
    return %1#1 : tensor<2x0x4xf32>
  }
}
