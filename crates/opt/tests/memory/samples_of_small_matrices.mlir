// at most 3000 bytes
module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<120x6x2xf32>) -> (tensor<120x6xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<120x6x2xf32>) -> tensor<120x2x6xf32>
    %1 = stablehlo.dot_general %arg0, %0, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<120x6x2xf32>, tensor<120x2x6xf32>) -> tensor<120x6x6xf32>
    %2 = stablehlo.tanh %1 : tensor<120x6x6xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<120x6x6xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<120x6x6xf32>, tensor<f32>) -> tensor<120x6xf32>
    return %4 : tensor<120x6xf32>
  }
}
