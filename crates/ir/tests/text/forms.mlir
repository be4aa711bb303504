// Every form of the syntax, one small program each; they are parsed, verified, printed, and parsed again.
func.func @elementwise(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %b : tensor<4xf32>
  %1 = stablehlo.subtract %0, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "stablehlo.multiply"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = stablehlo.sqrt %2 {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<4xf32>
  %4 = stablehlo.abs %3 {mhlo.frontend_attributes = {x = "y"}, unit} : tensor<4xf32>
  return %4 : tensor<4xf32>
}
// -----
module @"quoted name" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32, a.b = dense<[1, 2]> : tensor<2xi64>} {
  func.func public @main(%arg0: tensor<2xcomplex<f32>> {tf.aliasing_output = 0 : i32, jax.arg_info = "a\22b"} loc("a")) -> (tensor<2xcomplex<f32>> {jax.result_info = "['\\']"}) {
    %cst = stablehlo.constant dense<[(1.000000e+00,-2.000000e+00), (0x7FC00000,0x7F800000)]> : tensor<2xcomplex<f32>>
    %0 = stablehlo.real %arg0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %1 = stablehlo.imag %arg0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
    %2 = stablehlo.complex %0, %1 : tensor<2xcomplex<f32>>
    %3 = stablehlo.complex %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xcomplex<f32>>
    %4 = stablehlo.add %2, %cst : tensor<2xcomplex<f32>>
    %5 = stablehlo.multiply %4, %3 : tensor<2xcomplex<f32>>
    return %5 : tensor<2xcomplex<f32>>
  }
}
// -----
func.func @constants() -> (tensor<2xi64>, tensor<ui8>, tensor<2x2xi1>, tensor<0x3xf64>, tensor<3xbf16>, tensor<2xi16>) {
  %0 = stablehlo.constant dense<[-1, 2]> : tensor<2xi64>
  %1 = stablehlo.constant {a = 1 : i32} dense<255> : tensor<ui8>
  %2 = "stablehlo.constant"() <{value = dense<[[true, false], [false, true]]> : tensor<2x2xi1>}> : () -> tensor<2x2xi1>
  %3 = stablehlo.constant dense<> : tensor<0x3xf64>
  %4 = stablehlo.constant() <{value = dense<[1.0, 0x7F80, -0.0]> : tensor<3xbf16>}> : () -> tensor<3xbf16>
  %5 = stablehlo.constant dense<"0x0100FFFF"> : tensor<2xi16>
  return %0, %1, %2, %3, %4, %5 : tensor<2xi64>, tensor<ui8>, tensor<2x2xi1>, tensor<0x3xf64>, tensor<3xbf16>, tensor<2xi16>
}
// -----
func.func @resource() -> tensor<2xf32> {
  %0 = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
{-#
  dialect_resources: {
    builtin: {
      weights: "0x040000000000803F00000040"
    }
  }
#-}
// -----
func.func @shapes(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<3x4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.reshape %0 : (tensor<3x2xf32>) -> tensor<6xf32>
  %2 = stablehlo.slice %1 [0:6:2] : (tensor<6xf32>) -> tensor<3xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<3xf32>) -> tensor<3x2xf32>
  %4 = stablehlo.reverse %3, dims = [0, 1] : tensor<3x2xf32>
  %5 = stablehlo.concatenate %4, %0, dim = 1 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x4xf32>
  %6 = stablehlo.pad %5, %z, low = [0, -1], high = [0, 0], interior = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x6xf32>
  %7 = stablehlo.dynamic_slice %6, %i, %i, sizes = [3, 4] : (tensor<3x6xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
  %8 = stablehlo.dynamic_update_slice %7, %0, %i, %i : (tensor<3x4xf32>, tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<3x4xf32>
  %9 = stablehlo.iota dim = 1 : tensor<3x4xi32>
  %10 = stablehlo.convert %9 : (tensor<3x4xi32>) -> tensor<3x4xf32>
  %11 = stablehlo.bitcast_convert %10 : (tensor<3x4xf32>) -> tensor<3x4xi32>
  %12 = stablehlo.compare LT, %9, %11, SIGNED : (tensor<3x4xi32>, tensor<3x4xi32>) -> tensor<3x4xi1>
  %13 = stablehlo.select %12, %8, %10 : tensor<3x4xi1>, tensor<3x4xf32>
  %14 = stablehlo.clamp %z, %13, %z : (tensor<f32>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  %15 = stablehlo.reduce_precision %14, format = e8m7 : tensor<3x4xf32>
  %16 = "stablehlo.slice"(%x) {start_indices = array<i64: 0, 0>, limit_indices = dense<[1, 3]> : tensor<2xi64>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<1x3xf32>
  return %15 : tensor<3x4xf32>
}
// -----
func.func @dots(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, HIGHEST] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %1 = stablehlo.dot_general %a, %b, contracting_dims = [] x [] : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x4x2x4x5xf32>
  %2 = "stablehlo.dot_general"(%a, %b) <{algorithm = #stablehlo.dot_algorithm<lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false>, dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  %3 = stablehlo.reshape %a : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %4 = stablehlo.reshape %b : (tensor<2x4x5xf32>) -> tensor<4x10xf32>
  %5 = stablehlo.dot %3, %4, precision = [DEFAULT, DEFAULT] : (tensor<6x4xf32>, tensor<4x10xf32>) -> tensor<6x10xf32>
  return %2 : tensor<2x3x5xf32>
}
// -----
func.func @convolution(%x: tensor<1x8x9x4xf32>, %w: tensor<3x3x4x6xf32>) -> tensor<1x4x9x6xf32> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[0, 1], [2, 2]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x9x4xf32>, tensor<3x3x4x6xf32>) -> tensor<1x4x9x6xf32>
  return %0 : tensor<1x4x9x6xf32>
}
// -----
func.func @convolution_generic(%x: tensor<2x4x9xf32>, %w: tensor<3x6x4xf32>) -> tensor<9x2x6xf32> {
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[0, o, i]->[0, b, f]>, feature_group_count = 1 : i64, padding = dense<1> : tensor<1x2xi64>, window_strides = array<i64: 1>}> : (tensor<2x4x9xf32>, tensor<3x6x4xf32>) -> tensor<9x2x6xf32>
  return %0 : tensor<9x2x6xf32>
}
// -----
func.func @reductions(%x: tensor<3x4xf32>, %n: tensor<3x4xi32>) -> (tensor<3xf32>, tensor<4xi32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  %1:2 = stablehlo.reduce(%x init: %z), (%n init: %c) across dimensions = [0] {a = 1 : i64} : (tensor<3x4xf32>, tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<4xf32>, tensor<4xi32>)
   reducer(%a: tensor<f32> loc("x"), %b: tensor<f32>) (%d: tensor<i32>, %e: tensor<i32>)  {
    %2 = stablehlo.maximum %a, %b : tensor<f32>
    %3 = stablehlo.add %d, %e : tensor<i32>
    stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
  }
  %4 = "stablehlo.reduce"(%x, %z) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %5 = stablehlo.minimum %b, %a : tensor<f32>
    "stablehlo.return"(%5) : (tensor<f32>) -> ()
  }) {dimensions = dense<1> : tensor<1xi64>} : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  return %4, %1#1 : tensor<3xf32>, tensor<4xi32>
}
// -----
func.func @windows(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %z) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [7, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 8>, window_strides = array<i64: 1, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = stablehlo.slice %x [0:4, 0:4] : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %2 = "stablehlo.select_and_scatter"(%0, %1, %z) <{padding = dense<0> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %3 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %3 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %3 : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<4x4xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
// -----
func.func @control(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%iterArg = %n, %iterArg_0 = %x) : tensor<i32>, tensor<4xf32> attributes {mhlo.frontend_attributes = {}}
    cond {
      %1 = stablehlo.compare LT, %iterArg, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %iterArg, %one : tensor<i32>
      %2 = "stablehlo.case"(%1) ({
        stablehlo.return %iterArg_0 : tensor<4xf32>
      }, {
        %3 = func.call @callee(%x) : (tensor<4xf32>) -> tensor<4xf32>
        stablehlo.return %3 : tensor<4xf32>
      }) : (tensor<i32>) -> tensor<4xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<4xf32>
    }
  %p = stablehlo.compare EQ, %0#0, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %4 = "stablehlo.if"(%p) ({
    "stablehlo.return"(%0#1) : (tensor<4xf32>) -> ()
  }, {
    %5 = stablehlo.negate %0#1 : tensor<4xf32>
    "stablehlo.return"(%5) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  %6 = "stablehlo.while"(%4) ({
  ^bb0(%a: tensor<4xf32>):
    stablehlo.return %p : tensor<i1>
  }, {
  ^bb0(%a: tensor<4xf32>):
    stablehlo.return %a : tensor<4xf32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  %7:2 = stablehlo.optimization_barrier %6, %one : tensor<4xf32>, tensor<i32>
  %8 = call @callee(%7#0) {a = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %9 = stablehlo.composite "a.b" %8 {composite_attributes = {k = 1 : i64}, decomposition = @callee, version = 1 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %10 = stablehlo.custom_call @Sharding(%9) {backend_config = "", mhlo.sharding = "{replicated}"} : (tensor<4xf32>) -> tensor<4xf32>
  return %10 : tensor<4xf32>
}
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> attributes {a = 1 : i32} {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) {
  return
}
// -----
func.func @indexing(%x: tensor<5x4xf32>, %i: tensor<3x1xi32>, %u: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
  %1 = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<5x4xf32>, tensor<3x1xi32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  %3:2 = "stablehlo.sort"(%0, %u) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
    %4 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %4 : tensor<i1>
  }) : (tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  %values, %indices = chlo.top_k(%3#0, k = 2) : tensor<3x4xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
  return %1 : tensor<5x4xf32>
}
// -----
func.func @chlo(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = chlo.square %x : tensor<4xf32> -> tensor<4xf32>
  %1 = "chlo.square"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
// -----
#map = dense<0> : tensor<1x2xi64>
#loc1 = loc("f.py":1:2)
#loc = loc(unknown)
!ty = tensor<4xf32>
module {
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%x: !ty {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>} loc("x"(#loc1))) -> (!ty {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.abs %x : !ty loc("jit(f)/abs"(callsite("g"("g.py":3:4 to 5:6) at #loc9)))
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : !ty loc(fused<"m">[#loc9, "n"])
    %2 = stablehlo.abs %1 {a = #map, b = #other.dialect<"->", [1 : i3]>, c = affine_map<(d0) -> (d0)>} : !ty loc(fused[#loc7, #loc8])
    return %2 : !ty loc(#loc)
  } loc("f"(#loc1))
} loc(#loc)
#loc7 = loc("h"(#loc8))
#loc8 = loc("h.py":7:8 to :9)
#loc9 = loc(callsite(#loc7 at #loc9))
// -----
"builtin.module"() <{sym_name = "generic"}> ({
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}], function_type = (tensor<4xf32>) -> tensor<4xf32>, res_attrs = [{jax.result_info = ""}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "stablehlo.add"(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "func.call"(%0) <{callee = @g}> : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%1) : (tensor<4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "g", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4xf32>):
    "func.return"(%arg0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_replicas = 1 : i32} : () -> ()
// -----
func.func @checks(%x: tensor<4xf32>) {
  %0 = stablehlo.abs %x : tensor<4xf32>
  check.expect_eq %0, %x : tensor<4xf32>
  check.expect_eq_const %0, dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  check.expect_almost_eq_const %0, dense<1.0> : tensor<4xf32>
  check.expect_almost_eq %0, %x, tolerance = 0.1 : tensor<4xf32>
  check.expect_close %0, %x, max_ulp_difference = 4 : tensor<4xf32>, tensor<4xf32>
  stablehlo.custom_call @check.expect_close(%0, %x) {has_side_effect = true} : (tensor<4xf32>, tensor<4xf32>) -> ()
  return
}
