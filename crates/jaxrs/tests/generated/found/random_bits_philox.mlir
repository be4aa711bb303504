module @generated {
  func.func public @main(%arg0: tensor<3xui64>) -> (tensor<17x17xui32>) {
    %0:2 = "stablehlo.rng_bit_generator"(%arg0) <{rng_algorithm = #stablehlo<rng_algorithm DEFAULT>}> : (tensor<3xui64>) -> (tensor<3xui64>, tensor<17x17xui32>)
    return %0#1 : tensor<17x17xui32>
  }
}
