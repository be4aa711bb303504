// at most 0 bytes
module @jit_ohgrad attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64xi32>, %arg1: tensor<20x6xf32>, %arg2: tensor<64x6xf32>) -> (tensor<20x6xf32> {jax.result_info = "result"}) {
    %0 = call @_one_hot(%arg0) : (tensor<64xi32>) -> tensor<64x20xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x20xf32>, tensor<20x6xf32>) -> tensor<64x6xf32>
    %2 = stablehlo.subtract %1, %arg2 : tensor<64x6xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x6xf32>
    %4 = stablehlo.multiply %3, %2 : tensor<64x6xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<3.840000e+02> : tensor<f32>
    %5 = stablehlo.divide %cst_0, %cst_1 : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<64x6xf32>
    %7 = stablehlo.multiply %6, %4 : tensor<64x6xf32>
    %8 = stablehlo.dot_general %7, %0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<64x6xf32>, tensor<64x20xf32>) -> tensor<6x20xf32>
    %9 = stablehlo.transpose %8, dims = [1, 0] : (tensor<6x20xf32>) -> tensor<20x6xf32>
    return %9 : tensor<20x6xf32>
  }
  func.func private @_one_hot(%arg0: tensor<64xi32>) -> tensor<64x20xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<64xi32>) -> tensor<64x1xi32>
    %1 = stablehlo.iota dim = 1 : tensor<1x20xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<64x1xi32>) -> tensor<64x20xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x20xi32>) -> tensor<64x20xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<64x20xi32>, tensor<64x20xi32>) -> tensor<64x20xi1>
    %5 = stablehlo.convert %4 : (tensor<64x20xi1>) -> tensor<64x20xf32>
    return %5 : tensor<64x20xf32>
  }
}
