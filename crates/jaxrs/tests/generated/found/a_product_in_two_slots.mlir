module @generated {
  func.func public @main(%arg0: tensor<7x7xf32>, %arg1: tensor<1xf32>, %arg2: tensor<33x2xf32>, %arg3: tensor<i32>) -> (tensor<2x7x7xf32>) {
    %0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = "chlo.mulhi"(%0, %arg3) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %2 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [] x [] : (tensor<1xf32>, tensor<7x7xf32>) -> tensor<1x7x7xf32>
    %3:3 = "stablehlo.case"(%1) ({
      stablehlo.return %2, %arg1, %arg2 : tensor<1x7x7xf32>, tensor<1xf32>, tensor<33x2xf32>
    }, {
      %4 = stablehlo.constant dense<1.000000e+00> : tensor<1xf32>
      stablehlo.return %2, %4, %arg2 : tensor<1x7x7xf32>, tensor<1xf32>, tensor<33x2xf32>
    }) : (tensor<i32>) -> (tensor<1x7x7xf32>, tensor<1xf32>, tensor<33x2xf32>)
    %5 = stablehlo.concatenate %3#0, %2, dim = 0 : (tensor<1x7x7xf32>, tensor<1x7x7xf32>) -> tensor<2x7x7xf32>
    return %5 : tensor<2x7x7xf32>
  }
}
