module @generated {
  func.func public @main(%arg0: tensor<2x17xf32>) -> (tensor<2x17xf32>) {
    %0 = "stablehlo.reduce_precision"(%arg0) <{exponent_bits = 3 : i32, mantissa_bits = 0 : i32}> : (tensor<2x17xf32>) -> tensor<2x17xf32>
    return %0 : tensor<2x17xf32>
  }
}
