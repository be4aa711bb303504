module @generated {
  func.func public @main(%arg0: tensor<1x1x7xi64>) -> (tensor<1x1x7xi64>, tensor<1x0x7xi64>) {
    %0:2 = "chlo.top_k"(%arg0) <{k = 7 : i64}> : (tensor<1x1x7xi64>) -> (tensor<1x1x7xi64>, tensor<1x1x7xi32>)
    %1 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.constant dense<3> : tensor<i32>
    %3:3 = stablehlo.while(%arg1 = %arg0, %arg2 = %1, %arg3 = %arg0) : tensor<1x1x7xi64>, tensor<i32>, tensor<1x1x7xi64> cond {
      %4 = stablehlo.compare LT, %arg2, %2 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %5 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %arg2, %5 : tensor<i32>
      %7 = stablehlo.constant dense<[[[1, 1, 1, 1, 1, 1, 1]]]> : tensor<1x1x7xi64>
      %8 = stablehlo.constant dense<[[[1, 1, 1, 1, 1, 1, 1]]]> : tensor<1x1x7xi64>
      %9:3 = "stablehlo.sort"(%8, %7, %0#1) <{dimension = 2 : i64, is_stable = true}> ({
      ^bb0(%arg4: tensor<i64>, %arg5: tensor<i64>, %arg6: tensor<i64>, %arg7: tensor<i64>, %arg8: tensor<i32>, %arg9: tensor<i32>):
        %10 = stablehlo.compare LT, %arg4, %arg5 : (tensor<i64>, tensor<i64>) -> tensor<i1>
        stablehlo.return %10 : tensor<i1>
      }) : (tensor<1x1x7xi64>, tensor<1x1x7xi64>, tensor<1x1x7xi32>) -> (tensor<1x1x7xi64>, tensor<1x1x7xi64>, tensor<1x1x7xi32>)
      %11 = stablehlo.constant dense<0> : tensor<i32>
      %12 = stablehlo.reduce(%6 init: %11) applies stablehlo.add across dimensions = [] : (tensor<i32>, tensor<i32>) -> tensor<i32>
      %13 = stablehlo.constant dense<0> : tensor<ui32>
      %14 = stablehlo.constant dense<1> : tensor<ui32>
      %15 = stablehlo.constant dense<2> : tensor<ui32>
      %16 = stablehlo.dynamic_slice %arg1, %13, %14, %15, sizes = [1, 1, 1] : (tensor<1x1x7xi64>, tensor<ui32>, tensor<ui32>, tensor<ui32>) -> tensor<1x1x1xi64>
      %17 = stablehlo.constant dense<-1> : tensor<i32>
      %18 = stablehlo.dynamic_update_slice %arg1, %16, %17, %6, %12 : (tensor<1x1x7xi64>, tensor<1x1x1xi64>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x7xi64>
      stablehlo.return %18, %6, %9#1 : tensor<1x1x7xi64>, tensor<i32>, tensor<1x1x7xi64>
    }
    %19 = stablehlo.slice %3#2 [0:1, 1:1, 0:7] : (tensor<1x1x7xi64>) -> tensor<1x0x7xi64>
    return %3#0, %19 : tensor<1x1x7xi64>, tensor<1x0x7xi64>
  }
}
