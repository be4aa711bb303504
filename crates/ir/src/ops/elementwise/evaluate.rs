//! Evaluates scalar bodies over whole tensors.

use crate::literal::Literal;
use crate::lower::Scalar;
use crate::types::TensorType;
use jaxrs_kernel::interp::{Column, run_each};
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::{Affine, DType, Kernel, KernelBuilder};

/// A kernel that applies `body` to one element of each operand.
pub fn single(
    name: &str,
    operands: &[DType],
    result: DType,
    body: impl FnOnce(&mut KernelBuilder, &[Scalar]) -> Scalar,
) -> Kernel {
    let mut b = KernelBuilder::new(name);
    let ids: Vec<_> = operands.iter().map(|d| b.param(d.part(), d.parts(), Access::Read)).collect();
    let out = b.param(result.part(), result.parts(), Access::Write);
    let mut elements = Vec::new();
    for (&id, dtype) in ids.iter().zip(operands) {
        let parts: Vec<_> =
            (0..dtype.parts()).map(|n| b.load(id, Affine::constant(n as i64))).collect();
        elements.push(Scalar::from_parts(&parts));
    }
    let value = body(&mut b, &elements);
    for (n, part) in value.parts().into_iter().enumerate() {
        b.store(out, Affine::constant(n as i64), part);
    }
    b.finish()
}

/// The tensor of type `ty` whose elements a kernel made by [`single`] gives; a splat where all
/// operands are. Operands have the shape of the result, or one element for all.
pub fn over_elements(kernel: &Kernel, operands: &[Literal], ty: TensorType) -> Literal {
    let same = |literal: &Literal| literal.as_splat().map(<[u8]>::to_vec);
    let splats: Vec<Option<Vec<u8>>> = operands.iter().map(same).collect();
    let bytes: Vec<_> = operands
        .iter()
        .zip(&splats)
        .map(|(literal, splat)| splat.is_none().then(|| literal.bytes()))
        .collect();
    let columns: Vec<Column<'_>> = bytes
        .iter()
        .zip(&splats)
        .map(|(bytes, splat)| match (bytes, splat) {
            (_, Some(element)) => Column::Same(element),
            (Some(bytes), None) => Column::Each(bytes),
            (None, None) => unreachable!("one of the two is there"),
        })
        .collect();
    let splat = splats.iter().all(Option::is_some);
    let count = if splat { 1 } else { ty.len() as usize };
    let out = run_each(kernel, &columns, count).pop().expect("one result");
    if splat { Literal::splat(ty, &out) } else { Literal::dense(ty, out) }
}
