// Faulty programs; each `// fault` line gives the place and a part of the message.
// fault 3:20: axis 1 is dynamic
func.func @dynamic(%a: tensor<4x?xf32>, %b: tensor<4xf8E4M3FN>) { // fault 3:41: `f8E4M3FN` is not supported
  %0 = stablehlo.abs %a : tensor<4x?xf32>
  return
}
// -----
func.func @unsupported(%a: tensor<4xf32>) -> tensor<3xcomplex<f32>> {
  %0 = "stablehlo.uniform_quantize"(%a) : (tensor<4xf32>) -> tensor<3xcomplex<f32>> // fault 9:8: stablehlo.uniform_quantize is not supported
  %1 = arith.constant dense<[1, 2]> : tensor<2xi32> // fault 10:8: arith.constant is not supported
  %2 = stablehlo.custom_call @lapack_sgees_ffi(%a) : (tensor<4xf32>) -> tensor<4xf32> // fault 11:8: stablehlo.custom_call @lapack_sgees_ffi is not supported
  %3 = stablehlo.nothing (%a) weird %2 { // fault 12:8: stablehlo.nothing is not supported
    %4 = stablehlo.abs %a : tensor<4xf32>
  }
  %5 = stablehlo.add %1, %3 : tensor<4xf32>
  return %0 : tensor<3xcomplex<f32>>
}
// -----
func.func @names(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.abs %b : tensor<4xf32> // fault 20:22: %b is used but not defined
  %1 = stablehlo.abs %a : tensor<5xf32> // fault 21:8: operand 0 is tensor<4xf32>, but the op's type says tensor<5xf32>
  %0 = stablehlo.abs %a : tensor<4xf32> // fault 22:3: %0 is defined twice
  %2 = stablehlo.abs %a#1 : tensor<4xf32> // fault 23:22: %a#1: %a has 1 value(s)
  %3:2 = stablehlo.abs %a : tensor<4xf32> // fault 24:10: 2 result(s) are named, but it has 1
  return %a : tensor<4xf32>
}
// -----
func.func @constants() {
  %0 = stablehlo.constant dense<[1, 2, 300]> : tensor<3xi8> // fault 29:27: 300 is out of range for i8
  %1 = stablehlo.constant dense<[1, 2]> : tensor<3xi8> // fault 30:27: has 2 items, its axis 3
  %2 = stablehlo.constant dense<"0x0102"> : tensor<3xi8> // fault 31:27: the blob has 2 bytes
  %3 = stablehlo.constant dense_resource<none> : tensor<3xi8> // fault 32:27: the text has no such resource
  %4 = stablehlo.constant dense<1> : tensor<99999999999x99999999999xi8> // fault 33:8: larger than
  %5 = stablehlo.constant dense<1> : tensor<99999999999999999999999xi8> // fault 34:8: does not fit into 64 bits
  return
}
// -----
func.func @returns(%a: tensor<4xf32>) -> (tensor<5xf32>, tensor<4xf32>) { // fault 38:11: result 0 is tensor<4xf32>, but the function's type says tensor<5xf32>
  return %a, %a : tensor<4xf32>, tensor<4xf32>
}
// -----
func.func @syntax(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.what %a : tensor<4xf32> // fault 43:8: stablehlo.what is not supported
  %1 = stablehlo.add %a, : tensor<4xf32> // fault 44:26: expected an operand or an attribute, found `:`
}
// -----
func.func @blocks(%a: tensor<4xf32>) -> tensor<4xf32> {
^bb0:
  return %a : tensor<4xf32>
^bb1: // fault 50:1: a region has one block
  return %a : tensor<4xf32>
}
// -----
func.func @attributes(%a: tensor<4xf32>) {
  %0 = stablehlo.transpose %a, dims = [1] : (tensor<4xf32>) -> tensor<4xf32> // fault 55:8: axis 1 is out of range for rank 1
  %1 = stablehlo.reduce_precision %a, format = z1 : tensor<4xf32> // fault 56:48: format z1: expected one like e8m7
}
// -----
// fault 61:1: a program needs a func.func @main
// -----
func.func private @declared(tensor<4xf32>) -> tensor<4xf32> // fault 61:11: its body is missing
// -----
func.func @token(%t: !stablehlo.token) -> tuple<tensor<4xf32>> { // fault 63:18: tokens order side effects
// fault 63:11: returns 0 value(s), but its type has 1
  return
}
// -----
module { module { } } // fault 68:10: modules inside a module
// -----
func.func @odd(%x: tensor<4xf32>) {
  check.expect_eq_const %x, denseé[1]> : tensor<4xf32> // fault 71:29: expected dense<...>
}
// -----
vhlo.func_v1 @main(%a: !vhlo.tensor_v1<4x!vhlo.f32_v1>) { // fault 74:1: VHLO is StableHLO's portable form
  return %a
}
