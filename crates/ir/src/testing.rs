//! Support for tests of ops: one op is evaluated and, apart from that, lowered to a kernel of its
//! own, which the kernel interpreter runs in pieces; both must agree.

use crate::error::Location;
use crate::function::{BlockId, Function};
use crate::interpret;
use crate::literal::Literal;
use crate::lower::{self, Emitter, Lowering};
use crate::ops::{self, Op, OpView, Signature};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{Access, DType, interp};

/// A tensor from numbers; a complex one from pairs.
pub(crate) fn tensor(dtype: DType, shape: &[u64], values: &[f64]) -> Literal {
    let ty = TensorType::new(shape, dtype);
    assert_eq!(values.len() as u64, ty.len() * dtype.parts(), "values of {ty}");
    let bits = |&value: &f64| {
        ops::convert::evaluate_parts([value.to_bits(), 0], DType::F64, dtype.part())[0]
    };
    Literal::from_bits(ty, &values.iter().map(bits).collect::<Vec<_>>())
}

/// A rank-0 integer of any type and value, wrapped to the type.
pub(crate) fn int(dtype: DType, value: i128) -> Literal {
    Literal::scalar(dtype, &[value as u64 & u64::MAX >> (64 - dtype.bits())])
}

/// A tensor with arbitrary elements, special ones among them.
pub(crate) fn pattern(dtype: DType, shape: &[u64], seed: u64) -> Literal {
    let ty = TensorType::new(shape, dtype);
    let part = dtype.part();
    let bits = |n: u64| {
        let random = mix(n.wrapping_add(seed << 32));
        match part.class() {
            Class::Bool => random & 1,
            Class::Signed | Class::Unsigned => {
                let small = (random >> 8) % 7;
                let any = random >> (64 - part.bits());
                if random & 3 == 0 { any } else { small }
            }
            Class::Float => {
                let specials = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40];
                let value = match random % 16 {
                    n @ 0..7 => specials[n as usize],
                    7 => f64::from_bits(random),
                    _ => (random >> 40) as f64 / 65536.0 - 128.0,
                };
                ops::convert::evaluate_parts([value.to_bits(), 0], DType::F64, part)[0]
            }
            Class::Complex => unreachable!("a part is real"),
        }
    };
    let parts: Vec<u64> = (0..ty.len() * dtype.parts()).map(bits).collect();
    Literal::from_bits(ty, &parts)
}

fn mix(n: u64) -> u64 {
    let z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A function of one op on parameters; `regions` builds the op's regions. An error is `infer`'s.
pub(crate) fn try_function(
    op: Op,
    operands: &[TensorType],
    regions: impl FnOnce(&mut Function) -> Vec<BlockId>,
) -> Result<Function, String> {
    let mut function = Function::new("test");
    let parameters: Vec<_> = operands.iter().map(|ty| function.add_parameter(ty.clone())).collect();
    let blocks = regions(&mut function);
    let types = |values: &[crate::ValueId]| -> Vec<TensorType> {
        values.iter().map(|&value| function.ty(value).clone()).collect()
    };
    let region = |&block: &BlockId| {
        let data = &function.blocks[block];
        (types(&data.arguments), types(&data.yields))
    };
    let mut signature = Signature {
        operands: operands.to_vec(),
        results: Vec::new(),
        regions: blocks.iter().map(region).collect(),
    };
    let results = op.infer(&signature)?;
    signature.results.clone_from(&results);
    let again = Op::from_name(op.name(), &mut op.attributes(), &signature);
    assert_eq!(again, Some(Ok(op.clone())), "the op read back from its attributes");
    let body = function.body;
    let id = function.push_op(body, op, &parameters, results, &blocks, Location::default());
    function.blocks[body].yields = function.ops[id].results.clone();
    Ok(function)
}

/// A function of one op without regions on parameters.
pub(crate) fn function(op: impl Into<Op>, operands: &[Literal]) -> Function {
    let types: Vec<TensorType> = operands.iter().map(|l| l.ty().clone()).collect();
    try_function(op.into(), &types, |_| Vec::new()).expect("a valid op")
}

/// What `infer` says against an op without regions.
pub(crate) fn fault(op: impl Into<Op>, operands: &[TensorType]) -> String {
    try_function(op.into(), operands, |_| Vec::new()).expect_err("an invalid op")
}

/// What `from_attributes` says of attributes.
pub(crate) fn read(
    name: &str,
    mut attributes: crate::Attributes,
    operands: &[TensorType],
    results: &[TensorType],
) -> Result<Op, String> {
    let signature =
        Signature { operands: operands.to_vec(), results: results.to_vec(), regions: Vec::new() };
    Op::from_name(name, &mut attributes, &signature).expect("a known op")
}

/// The results of an op, evaluated and run as a kernel, which must agree bit by bit (NaN is NaN).
pub(crate) fn check(op: impl Into<Op>, operands: &[Literal]) -> Vec<Literal> {
    check_function(&function(op, operands), operands, 0.0)
}

/// The same for a function made with [`try_function`]; floats may differ by `tolerance` relative
/// to the larger one.
pub(crate) fn check_function(
    function: &Function,
    operands: &[Literal],
    tolerance: f64,
) -> Vec<Literal> {
    let expected = interpret::call(None, function, operands).expect("the op evaluates");
    let got = lowered(function, operands);
    for (got, expected) in got.iter().zip(&expected) {
        assert_close(got, expected, tolerance);
    }
    expected
}

/// An error unless the literals are equal, floats up to a relative tolerance.
pub(crate) fn assert_close(got: &Literal, expected: &Literal, tolerance: f64) {
    assert_eq!(got.ty(), expected.ty());
    let dtype = got.ty().dtype;
    for at in 0..got.ty().len() {
        for part in 0..dtype.parts() {
            let (a, b) = (got.bits(at, part), expected.bits(at, part));
            let (x, y) = (float(dtype.part(), a), float(dtype.part(), b));
            let near = (x - y).abs() <= tolerance * x.abs().max(y.abs());
            let close = a == b || (x.is_nan() && y.is_nan()) || (tolerance > 0.0 && near);
            assert!(close, "element {at} of {}: {a:#x} ({x}), expected {b:#x} ({y})", got.ty());
        }
    }
}

/// A part's value; 0 for types that are no floats.
fn float(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::BF16 | DType::F16 | DType::F32 => f32::from_bits(bits as u32).into(),
        _ => 0.0,
    }
}

/// The results of a function's only op as the kernel of its lowering computes them.
pub(crate) fn lowered(function: &Function, operands: &[Literal]) -> Vec<Literal> {
    lowered_as(function, operands, ops::lower(function, only_op(function).id))
}

/// The only op of a function but for constants and counts.
pub(crate) fn only_op(function: &Function) -> OpView<'_> {
    let constant = |id: &crate::OpId| {
        matches!(function.ops[*id].op, Op::Constant(_) | Op::Iota(_))
            && function.blocks[function.body].ops.len() > 1
    };
    let mut ops = function.blocks[function.body].ops.iter().filter(|id| !constant(id));
    let (Some(&id), None) = (ops.next(), ops.next()) else { panic!("a function of one op") };
    OpView { function, id }
}

/// Like [`lowered`] for another lowering of the op.
pub(crate) fn lowered_as(
    function: &Function,
    operands: &[Literal],
    lowering: Lowering<'_>,
) -> Vec<Literal> {
    let op = only_op(function);
    let results: Vec<TensorType> = op.result_types();
    if let Lowering::View = lowering {
        return results
            .into_iter()
            .zip(operands)
            .map(|(ty, from)| Literal::dense(ty, from.to_bytes()))
            .collect();
    }
    let updates = match &lowering {
        Lowering::Loops { updates, .. } => updates.clone(),
        _ => Vec::new(),
    };
    let mut e = Emitter::new(function, "op");
    let mut buffers = Vec::new();
    for (&value, literal) in function.parameters().iter().zip(operands) {
        let param = add_param(&mut e, literal.ty(), Access::Read);
        e.read_from(value, param);
        buffers.push(literal.to_bytes());
    }
    for (n, ty) in results.iter().enumerate() {
        let update = updates.iter().find(|u| u.0 as usize == n);
        let access = if update.is_some() { Access::ReadWrite } else { Access::Write };
        let param = add_param(&mut e, ty, access);
        e.write_to(op.result(n), param);
        buffers.push(match update {
            Some(&(_, operand)) => operands[operand as usize].to_bytes(),
            None => vec![0x55; ty.bytes() as usize],
        });
    }
    match lowering {
        Lowering::Elements { element, .. } => {
            let alone = results.len() == 1;
            for (n, ty) in results.iter().enumerate() {
                lower::nest(&mut e, &ty.shape, alone, |e, index| {
                    let value = element(e, n, index);
                    e.write(op.result(n), index, value);
                });
            }
        }
        Lowering::Loops { emit, .. } => emit(&mut e),
        Lowering::View | Lowering::Library(_) | Lowering::Control => {
            panic!("{} has no kernel of its own", op.data().op.name())
        }
    }
    let kernel = e.finish();
    assert_eq!(jaxrs_kernel::verify::verify(&kernel), Ok(()), "{kernel}");
    let whole = kernel.range.unwrap_or(1) as i64;
    let middle = (whole + 1) / 2;
    if middle < whole {
        interp::run(&kernel, &mut buffers, middle, whole);
    }
    interp::run(&kernel, &mut buffers, 0, middle);
    let bytes = buffers.split_off(operands.len());
    results.into_iter().zip(bytes).map(|(ty, bytes)| Literal::dense(ty, bytes)).collect()
}

fn add_param(e: &mut Emitter<'_>, ty: &TensorType, access: Access) -> jaxrs_kernel::ParamId {
    let dtype = ty.dtype;
    e.builder().param(dtype.part(), ty.len() * dtype.parts(), access)
}

/// The only function of a program of one op, its regions included.
pub(crate) fn program(text: &str) -> Function {
    let source = format!("func.func public @main{text}");
    let module = crate::text::parse(&source, "test").unwrap_or_else(|e| panic!("{e}\n{source}"));
    module.functions.into_iter().next().expect("one function")
}

/// A tensor of small integers, so that sums are exact in any order.
pub(crate) fn small(dtype: DType, shape: &[u64], seed: u64) -> Literal {
    let len = shape.iter().product::<u64>() * dtype.parts();
    let low = if dtype.class() == Class::Unsigned || dtype == DType::I1 { 0.0 } else { -3.0 };
    let value = |n| (mix(n + (seed << 32)) % if dtype == DType::I1 { 2 } else { 7 }) as f64 + low;
    tensor(dtype, shape, &(0..len).map(value).collect::<Vec<f64>>())
}

/// Checks a program of one op (see [`program`]) against its kernel on small integers; gives the
/// results.
pub(crate) fn check_program(text: &str, seed: u64) -> Vec<Literal> {
    let function = program(text);
    let types = function.parameters().iter().map(|&p| function.ty(p).clone());
    let operands: Vec<Literal> =
        types.zip(seed..).map(|(ty, seed)| small(ty.dtype, &ty.shape, seed)).collect();
    check_function(&function, &operands, 0.0)
}
