module @generated {
  func.func public @main(%arg0: tensor<f32>) -> (tensor<f32>) {
    %0 = stablehlo.constant dense<false> : tensor<i1>
    %1:3 = "stablehlo.if"(%0) ({
      stablehlo.return %0, %arg0, %arg0 : tensor<i1>, tensor<f32>, tensor<f32>
    }, {
      %2 = "stablehlo.optimization_barrier"(%0) : (tensor<i1>) -> tensor<i1>
      %3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      stablehlo.return %2, %3, %arg0 : tensor<i1>, tensor<f32>, tensor<f32>
    }) : (tensor<i1>) -> (tensor<i1>, tensor<f32>, tensor<f32>)
    %4 = stablehlo.multiply %1#0, %1#0 : tensor<i1>
    %5:3 = "stablehlo.if"(%1#0) ({
      stablehlo.return %0, %1#0, %1#0 : tensor<i1>, tensor<i1>, tensor<i1>
    }, {
      stablehlo.return %1#0, %4, %1#0 : tensor<i1>, tensor<i1>, tensor<i1>
    }) : (tensor<i1>) -> (tensor<i1>, tensor<i1>, tensor<i1>)
    %6 = stablehlo.maximum %5#2, %5#1 : tensor<i1>
    %7 = stablehlo.convert %6 : (tensor<i1>) -> tensor<f32>
    return %7 : tensor<f32>
  }
}
