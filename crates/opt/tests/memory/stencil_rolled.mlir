// at most 1408 bytes
module @jit_life attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<16x20xi32> {tf.aliasing_output = 0 : i32}) -> (tensor<16x20xi32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg0) : tensor<i32>, tensor<16x20xi32>
    cond {
      %c_1 = stablehlo.constant dense<4> : tensor<i32>
      %1 = stablehlo.compare LT, %iterArg, %c_1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = func.call @closed_call(%iterArg_0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      stablehlo.return %2, %1 : tensor<i32>, tensor<16x20xi32>
    }
    return %0#1 : tensor<16x20xi32>
  }
  func.func private @closed_call(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = call @_roll_static(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<16x20xi32>
    %2 = stablehlo.add %1, %0 : tensor<16x20xi32>
    %3 = call @_roll_static_0(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %4 = stablehlo.add %2, %3 : tensor<16x20xi32>
    %5 = call @_roll_static_1(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %6 = stablehlo.add %4, %5 : tensor<16x20xi32>
    %7 = call @_roll_static_2(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %8 = stablehlo.add %6, %7 : tensor<16x20xi32>
    %9 = call @_roll_static_3(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %10 = stablehlo.add %8, %9 : tensor<16x20xi32>
    %11 = call @_roll_static_4(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %12 = stablehlo.add %10, %11 : tensor<16x20xi32>
    %13 = call @_roll_static_5(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %14 = stablehlo.add %12, %13 : tensor<16x20xi32>
    %15 = call @_roll_static_6(%arg0) : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %16 = stablehlo.add %14, %15 : tensor<16x20xi32>
    %c_0 = stablehlo.constant dense<3> : tensor<i32>
    %17 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<16x20xi32>
    %18 = stablehlo.compare EQ, %16, %17, SIGNED : (tensor<16x20xi32>, tensor<16x20xi32>) -> tensor<16x20xi1>
    %c_1 = stablehlo.constant dense<1> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<16x20xi32>
    %20 = stablehlo.compare EQ, %arg0, %19, SIGNED : (tensor<16x20xi32>, tensor<16x20xi32>) -> tensor<16x20xi1>
    %c_2 = stablehlo.constant dense<2> : tensor<i32>
    %21 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<16x20xi32>
    %22 = stablehlo.compare EQ, %16, %21, SIGNED : (tensor<16x20xi32>, tensor<16x20xi32>) -> tensor<16x20xi1>
    %23 = stablehlo.and %20, %22 : tensor<16x20xi1>
    %24 = stablehlo.or %18, %23 : tensor<16x20xi1>
    %25 = stablehlo.convert %24 : (tensor<16x20xi1>) -> tensor<16x20xi32>
    return %25 : tensor<16x20xi32>
  }
  func.func private @_roll_static(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [1:16, 0:20] : (tensor<16x20xi32>) -> tensor<15x20xi32>
    %1 = stablehlo.slice %arg0 [0:1, 0:20] : (tensor<16x20xi32>) -> tensor<1x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<15x20xi32>, tensor<1x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 1:20] : (tensor<16x20xi32>) -> tensor<16x19xi32>
    %4 = stablehlo.slice %2 [0:16, 0:1] : (tensor<16x20xi32>) -> tensor<16x1xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x19xi32>, tensor<16x1xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_0(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [1:16, 0:20] : (tensor<16x20xi32>) -> tensor<15x20xi32>
    %1 = stablehlo.slice %arg0 [0:1, 0:20] : (tensor<16x20xi32>) -> tensor<1x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<15x20xi32>, tensor<1x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 0:20] : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %4 = stablehlo.slice %2 [0:16, 0:0] : (tensor<16x20xi32>) -> tensor<16x0xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x20xi32>, tensor<16x0xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_1(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [1:16, 0:20] : (tensor<16x20xi32>) -> tensor<15x20xi32>
    %1 = stablehlo.slice %arg0 [0:1, 0:20] : (tensor<16x20xi32>) -> tensor<1x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<15x20xi32>, tensor<1x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 19:20] : (tensor<16x20xi32>) -> tensor<16x1xi32>
    %4 = stablehlo.slice %2 [0:16, 0:19] : (tensor<16x20xi32>) -> tensor<16x19xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x1xi32>, tensor<16x19xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_2(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [0:16, 0:20] : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %1 = stablehlo.slice %arg0 [0:0, 0:20] : (tensor<16x20xi32>) -> tensor<0x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<16x20xi32>, tensor<0x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 1:20] : (tensor<16x20xi32>) -> tensor<16x19xi32>
    %4 = stablehlo.slice %2 [0:16, 0:1] : (tensor<16x20xi32>) -> tensor<16x1xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x19xi32>, tensor<16x1xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_3(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [0:16, 0:20] : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %1 = stablehlo.slice %arg0 [0:0, 0:20] : (tensor<16x20xi32>) -> tensor<0x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<16x20xi32>, tensor<0x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 19:20] : (tensor<16x20xi32>) -> tensor<16x1xi32>
    %4 = stablehlo.slice %2 [0:16, 0:19] : (tensor<16x20xi32>) -> tensor<16x19xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x1xi32>, tensor<16x19xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_4(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [15:16, 0:20] : (tensor<16x20xi32>) -> tensor<1x20xi32>
    %1 = stablehlo.slice %arg0 [0:15, 0:20] : (tensor<16x20xi32>) -> tensor<15x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x20xi32>, tensor<15x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 1:20] : (tensor<16x20xi32>) -> tensor<16x19xi32>
    %4 = stablehlo.slice %2 [0:16, 0:1] : (tensor<16x20xi32>) -> tensor<16x1xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x19xi32>, tensor<16x1xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_5(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [15:16, 0:20] : (tensor<16x20xi32>) -> tensor<1x20xi32>
    %1 = stablehlo.slice %arg0 [0:15, 0:20] : (tensor<16x20xi32>) -> tensor<15x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x20xi32>, tensor<15x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 0:20] : (tensor<16x20xi32>) -> tensor<16x20xi32>
    %4 = stablehlo.slice %2 [0:16, 0:0] : (tensor<16x20xi32>) -> tensor<16x0xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x20xi32>, tensor<16x0xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
  func.func private @_roll_static_6(%arg0: tensor<16x20xi32>) -> tensor<16x20xi32> {
    %0 = stablehlo.slice %arg0 [15:16, 0:20] : (tensor<16x20xi32>) -> tensor<1x20xi32>
    %1 = stablehlo.slice %arg0 [0:15, 0:20] : (tensor<16x20xi32>) -> tensor<15x20xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x20xi32>, tensor<15x20xi32>) -> tensor<16x20xi32>
    %3 = stablehlo.slice %2 [0:16, 19:20] : (tensor<16x20xi32>) -> tensor<16x1xi32>
    %4 = stablehlo.slice %2 [0:16, 0:19] : (tensor<16x20xi32>) -> tensor<16x19xi32>
    %5 = stablehlo.concatenate %3, %4, dim = 1 : (tensor<16x1xi32>, tensor<16x19xi32>) -> tensor<16x20xi32>
    return %5 : tensor<16x20xi32>
  }
}
