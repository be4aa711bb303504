module @generated {
  func.func public @main(%arg0: tensor<2xui64>) -> (tensor<8xui64>) {
    %0:2 = "stablehlo.rng_bit_generator"(%arg0) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui64>)
    return %0#1 : tensor<8xui64>
  }
}
