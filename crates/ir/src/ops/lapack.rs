//! Calls of LAPACK as JAX writes them on the CPU, `custom_call @lapack_sgesdd_ffi`: which ops they
//! are, and back, so that what is printed is StableHLO that JAX and XLA run.

use super::{
    Cholesky, Eigh, Geqrf, HouseholderProduct, Lu, Op, StructuredOp, Svd, TriangularSolve,
};
use crate::attribute::{Attribute, Attributes};
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::linalg::{Turn, Vectors};

/// Options are letters, as numbers.
type Letter = u8;

/// The name of the op that a target stands for, with its attributes.
pub(super) fn import(target: &str, attributes: &Attributes) -> Option<(&'static str, Attributes)> {
    let routine = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
    let routine = routine.strip_prefix(['s', 'd', 'c', 'z'])?;
    let none = Attributes::new();
    let config = match attributes.get("mhlo.backend_config") {
        Some(Attribute::Dict(config)) => config,
        _ => &none,
    };
    let letter = |name: &str| match config.get(name) {
        Some(&Attribute::Int(value, _)) => Letter::try_from(value).ok(),
        _ => None,
    };
    let lower = || Some(Attributes::new().with("lower", Attribute::Bool(letter("uplo")? == b'L')));
    Some(match routine {
        "potrf" => (Cholesky::NAMES[0], lower()?.with("info", Attribute::Bool(true))),
        "getrf" => (Lu::NAMES[0], none),
        "geqrf" => (Geqrf::NAMES[0], none),
        "orgqr" | "ungqr" => (HouseholderProduct::NAMES[0], none),
        "syevd" | "heevd" => (Eigh::NAMES[0], lower()?),
        "gesdd" => {
            let mode = letter("mode")?;
            let vectors = Vectors { computed: mode != b'N', full: mode == b'A' };
            let mut attributes = Svd { vectors }.attributes();
            if mode == b'N' {
                // The results' types say.
                attributes.take("full_matrices");
            }
            (Svd::NAMES[0], attributes)
        }
        "trsm" => {
            let turn = match letter("trans_x")? {
                b'N' => Turn::None,
                b'T' => Turn::Transpose,
                b'C' => Turn::Adjoint,
                _ => return None,
            };
            let solve = jaxrs_kernel::linalg::Solve {
                left: letter("side")? == b'L',
                lower: letter("uplo")? == b'L',
                unit: letter("diag")? == b'U',
                turn,
            };
            (TriangularSolve::NAMES[0], TriangularSolve { solve }.attributes())
        }
        _ => return None,
    })
}

/// The target of a call that is the op, and the call's attributes; None for ops that StableHLO has.
pub fn export(
    op: &Op,
    operands: &[TensorType],
    results: &[TensorType],
) -> Option<(String, Attributes)> {
    let complex = operands.first()?.dtype.is_complex();
    let uplo = |lower: bool| ("uplo", if lower { b'L' } else { b'U' });
    let (routine, config): (&str, Vec<(&str, Letter)>) = match op {
        Op::Cholesky(Cholesky { lower, info: true }) => ("potrf", vec![uplo(*lower)]),
        Op::Lu(_) => ("getrf", Vec::new()),
        Op::Geqrf(_) => ("geqrf", Vec::new()),
        Op::HouseholderProduct(_) => (if complex { "ungqr" } else { "orgqr" }, Vec::new()),
        Op::Eigh(eigh) => {
            (if complex { "heevd" } else { "syevd" }, vec![("mode", b'V'), uplo(eigh.lower)])
        }
        Op::Svd(svd) => {
            let mode = match svd.vectors {
                Vectors { computed: false, .. } => b'N',
                Vectors { full: false, .. } => b'S',
                Vectors { full: true, .. } => b'A',
            };
            ("gesdd", vec![("mode", mode)])
        }
        _ => return None,
    };
    let letter = match operands[0].dtype {
        DType::F32 => 's',
        DType::F64 => 'd',
        DType::C64 => 'c',
        _ => 'z',
    };
    let mut backend = Attributes::new();
    for (name, value) in config {
        backend = backend.with(name, Attribute::Int(value.into(), Some("ui8".into())));
    }
    let layouts = |types: &[TensorType]| {
        Attribute::Array(types.iter().map(|ty| layout(ty, operands[0].rank() - 2)).collect())
    };
    // LAPACK works where the operand is.
    let alias = |result: &str| {
        Attribute::Raw(format!(
            "#stablehlo.output_operand_alias<output_tuple_indices = [{result}], operand_index = 0, \
             operand_tuple_indices = []>"
        ))
    };
    let alias = alias(if results.len() == 1 { "" } else { "0" });
    let attributes = Attributes::new()
        .with("mhlo.backend_config", Attribute::Dict(backend))
        .with("operand_layouts", layouts(operands))
        .with("output_operand_aliases", Attribute::Array(vec![alias]))
        .with("result_layouts", layouts(results));
    Some((format!("lapack_{letter}{routine}_ffi"), attributes))
}

/// The order of axes in memory, the fastest first: matrices column by column.
fn layout(ty: &TensorType, batch: usize) -> Attribute {
    let rank = ty.rank();
    let mut order: Vec<usize> = (0..rank).rev().collect();
    if rank == batch + 2 {
        order.swap(0, 1);
    }
    let order: Vec<String> = order.iter().map(ToString::to_string).collect();
    let list = match &order[..] {
        [] => String::new(),
        [one] => one.clone(),
        _ => format!("[{}]", order.join(", ")),
    };
    Attribute::Raw(format!("dense<{list}> : tensor<{rank}xindex>"))
}

#[cfg(test)]
mod tests {
    use crate::text;

    /// What JAX writes, and what is printed of it.
    #[test]
    fn calls_are_ops_and_are_printed_as_calls() {
        for (call, op) in [
            (
                "%0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {backend_config = \"\", \
                 mhlo.backend_config = {uplo = 76 : ui8}} \
                 : (tensor<2x4x4xf64>) -> (tensor<2x4x4xf64>, tensor<2xi32>)",
                "stablehlo.cholesky",
            ),
            (
                "%0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%a) {mhlo.backend_config = {}} \
                 : (tensor<2x4x4xf64>) -> (tensor<2x4x4xf64>, tensor<2x4xi32>, tensor<2xi32>)",
                "jaxrs.lu",
            ),
            (
                "%0:2 = stablehlo.custom_call @lapack_dgeqrf_ffi(%a) {mhlo.backend_config = {}} \
                 : (tensor<2x4x4xf64>) -> (tensor<2x4x4xf64>, tensor<2x4xf64>)",
                "jaxrs.geqrf",
            ),
            (
                "%0 = stablehlo.custom_call @lapack_dorgqr_ffi(%a, %v) {mhlo.backend_config = {}} \
                 : (tensor<2x4x4xf64>, tensor<2x4xf64>) -> tensor<2x4x4xf64>",
                "jaxrs.householder_product",
            ),
            (
                "%0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%a) \
                 {mhlo.backend_config = {mode = 86 : ui8, uplo = 85 : ui8}} \
                 : (tensor<2x4x4xf64>) -> (tensor<2x4x4xf64>, tensor<2x4xf64>, tensor<2xi32>)",
                "jaxrs.eigh",
            ),
            (
                "%0:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%a) \
                 {mhlo.backend_config = {mode = 78 : ui8}} \
                 : (tensor<2x4x4xf64>) -> (tensor<2x4x4xf64>, tensor<2x4xf64>, tensor<2x4x4xf64>, \
                 tensor<2x4x4xf64>, tensor<2xi32>)",
                "jaxrs.svd",
            ),
        ] {
            let program = |call: &str| {
                format!(
                    "func.func @main(%a: tensor<2x4x4xf64>, %v: tensor<2x4xf64>) {{\n{call}\n\
                     return\n}}"
                )
            };
            let read =
                |text: &str| text::parse(text, "test").unwrap_or_else(|e| panic!("{e}\n{text}"));
            let module = read(&program(call));
            let ops: Vec<_> = module.functions[0].ops.values().collect();
            assert_eq!(ops[0].op.name(), op);
            let printed = text::print(&module);
            let again = read(&printed);
            assert_eq!(
                again.functions[0].ops.values().next().map(|data| &data.op),
                Some(&ops[0].op)
            );
            let target = call.split(['@', '(']).nth(1).expect("a target");
            assert!(printed.contains(&format!("stablehlo.custom_call @{target}(")), "{printed}");
        }
        let unknown = "func.func @main(%a: tensor<4x4xf64>) {\n\
                       %0 = stablehlo.custom_call @lapack_dgeev_ffi(%a) {mhlo.backend_config = {}} \
                       : (tensor<4x4xf64>) -> tensor<4x4xf64>\nreturn\n}";
        let error = text::parse(unknown, "test").expect_err("there is no such op").to_string();
        assert!(
            error.contains("stablehlo.custom_call @lapack_dgeev_ffi is not supported"),
            "{error}"
        );
    }
}
