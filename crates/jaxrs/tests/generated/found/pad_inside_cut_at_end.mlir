module @generated {
  func.func public @main(%arg0: tensor<3xcomplex<f32>>) -> (tensor<3xcomplex<f32>>) {
    %0 = stablehlo.constant dense<(0.000000e+00, 0.000000e+00)> : tensor<complex<f32>>
    %1 = stablehlo.pad %arg0, %0, low = [0], high = [-2], interior = [1] : (tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
    return %1 : tensor<3xcomplex<f32>>
  }
}
