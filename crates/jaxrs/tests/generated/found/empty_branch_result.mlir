module @generated {
  func.func public @main(%arg0: tensor<0xi1>, %arg1: tensor<i1>, %arg2: tensor<12x6x1xi1>, %arg3: tensor<i1>, %arg4: tensor<i1>) -> (tensor<i1>) {
    %0 = stablehlo.or %arg0, %arg0 : tensor<0xi1>
    %1:3 = "stablehlo.if"(%arg1) ({
      stablehlo.return %arg4, %0, %arg2 : tensor<i1>, tensor<0xi1>, tensor<12x6x1xi1>
    }, {
      %2 = stablehlo.constant dense<[[[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]], [[true], [true], [true], [true], [true], [true]]]> : tensor<12x6x1xi1>
      stablehlo.return %arg3, %arg0, %2 : tensor<i1>, tensor<0xi1>, tensor<12x6x1xi1>
    }) : (tensor<i1>) -> (tensor<i1>, tensor<0xi1>, tensor<12x6x1xi1>)
    return %1#0 : tensor<i1>
  }
}
