//! A sum of tensors padded with zeros that have no place in common is the tensors one after the
//! other.
//!
//! The gradient of `w`, of which layers without a loop read a slice each, is such a sum. As a
//! concatenation, each part can be written where it belongs as soon as it is made
//! ([`super::slots`]).

use super::dce;
use super::rewrite::{self, Rewriter};
use jaxrs_ir::ops::{self, Elementwise};
use jaxrs_ir::{Function, Literal, Location, Op, OpId, TensorType, ValueId};
use rustc_hash::FxHashMap;

/// Rewrites every such sum.
pub fn run(function: &mut Function) {
    let sums = sums(function);
    if sums.is_empty() {
        return;
    }
    rewrite::run(function, &mut |r, op| {
        let sum = sums.get(&op)?;
        let location = r.f.ops[op].location.clone();
        let ty = r.f.ty(r.f.ops[op].results[0]).clone();
        Some(vec![joined(r, sum, ty, &location)])
    });
    dce::run(function);
}

/// A tensor that is zero but for parts along an axis.
struct Sum {
    axis: usize,
    /// Where each part begins, and the part.
    parts: Vec<(u64, ValueId)>,
}

/// The sums that no larger one has as a part, of parts in order that have no place in common.
fn sums(f: &Function) -> FxHashMap<OpId, Sum> {
    let uses = crate::fuse::uses(f);
    let mut out = FxHashMap::default();
    for block in f.blocks.values() {
        let mut sums: FxHashMap<ValueId, (OpId, Sum)> = FxHashMap::default();
        for &op in &block.ops {
            let data = &f.ops[op];
            let result = data.results.first().copied();
            match (&data.op, &data.operands[..], result) {
                (Op::Pad(pad), &[value, fill], Some(result)) => {
                    if let Some(sum) = padded(f, pad, value, fill) {
                        sums.insert(result, (op, sum));
                    }
                }
                (Op::Elementwise(e), &[x, y], Some(result)) if e.name() == "stablehlo.add" => {
                    let axis = |v: ValueId| Some(sums.get(&v)?.1.axis).filter(|_| uses[v] == 1);
                    if axis(x).is_none() || axis(x) != axis(y) {
                        continue;
                    }
                    if let (Some((_, mut sum)), Some((_, more))) =
                        (sums.remove(&x), sums.remove(&y))
                    {
                        sum.parts.extend(more.parts);
                        sums.insert(result, (op, sum));
                    }
                }
                _ => {}
            }
        }
        for (op, mut sum) in sums.into_values() {
            sum.parts.sort_by_key(|part| part.0);
            let end = |&(at, part): &(u64, ValueId)| at + f.ty(part).shape[sum.axis];
            let apart = sum.parts.windows(2).all(|pair| end(&pair[0]) <= pair[1].0);
            if sum.parts.len() > 1 && apart {
                out.insert(op, sum);
            }
        }
    }
    out
}

/// What a pad with zeros along one axis makes.
fn padded(f: &Function, pad: &ops::Pad, value: ValueId, fill: ValueId) -> Option<Sum> {
    let Op::Constant(zero) = &f.ops[f.defining_op(fill)?].op else { return None };
    let zero = zero.value.as_splat()?.iter().all(|&byte| byte == 0);
    let inside = pad.low.iter().chain(&pad.high).all(|&n| n >= 0);
    if !zero || !inside || pad.interior.iter().any(|&n| n != 0) || f.ty(value).is_empty() {
        return None;
    }
    let mut axes = (0..pad.low.len()).filter(|&axis| pad.low[axis] + pad.high[axis] > 0);
    let (axis, None) = (axes.next()?, axes.next()) else { return None };
    Some(Sum { axis, parts: vec![(pad.low[axis] as u64, value)] })
}

/// The parts one after the other, and zeros where there are none.
fn joined(r: &mut Rewriter<'_>, sum: &Sum, ty: TensorType, location: &Location) -> ValueId {
    let zeros = |r: &mut Rewriter<'_>, extent: u64| {
        let mut ty = ty.clone();
        ty.shape[sum.axis] = extent;
        let zero = Literal::splat(ty, &vec![0; r.f.ty(sum.parts[0].1).dtype.size() as usize]);
        r.constant(zero, location)
    };
    let (mut operands, mut at) = (Vec::new(), 0);
    for &(begin, part) in &sum.parts {
        if begin > at {
            operands.push(zeros(r, begin - at));
        }
        let part = r.current(part);
        at = begin + r.f.ty(part).shape[sum.axis];
        operands.push(plus_zero(r, part, location));
    }
    if at < ty.shape[sum.axis] {
        operands.push(zeros(r, ty.shape[sum.axis] - at));
    }
    r.push(ops::Concatenate { axis: sum.axis }, &operands, ty, location)
}

/// A value added to zero: the same but for -0. Contractions and sums begin with 0 and are never -0.
fn plus_zero(r: &mut Rewriter<'_>, value: ValueId, location: &Location) -> ValueId {
    let ty = r.f.ty(value).clone();
    match r.op_of(value) {
        _ if !ty.dtype.is_float() && !ty.dtype.is_complex() => value,
        Some(Op::DotGeneral(_) | Op::Convolution(_)) => value,
        Some(&Op::Reshape(_) | &Op::Transpose(_) | &Op::BroadcastInDim(_)) => {
            let inner = r.operands_of(value)[0];
            let plus = plus_zero(r, inner, location);
            if plus == inner {
                return value;
            }
            let op = r.op_of(value).cloned().expect("it moves elements");
            r.push(op, &[plus], ty, location)
        }
        _ => {
            let zero = Literal::splat(ty.clone(), &vec![0; ty.dtype.size() as usize]);
            let zero = r.constant(zero, location);
            let add = Elementwise::from_name("stablehlo.add").expect("a row of the table");
            r.push(add, &[value, zero], ty, location)
        }
    }
}

#[cfg(test)]
mod tests {
    use jaxrs_ir::{DType, Literal, TensorType, interpret, text};

    /// Pads in these places, `(first, after the last)`, each of negated elements; the sum begins
    /// with the last ones. Says whether no pad is left.
    fn joins(places: &[(u64, u64)], fill: &str) -> bool {
        let (mut ops, mut sum) = (String::new(), String::new());
        for (n, &(at, end)) in places.iter().enumerate().rev() {
            let (extent, high) = (end - at, 6 - end);
            ops += &format!(
                "%s{n} = stablehlo.slice %x [{at}:{end}, 0:3] :
                   (tensor<6x3xf32>) -> tensor<{extent}x3xf32>
                 %n{n} = stablehlo.negate %s{n} : tensor<{extent}x3xf32>
                 %p{n} = stablehlo.pad %n{n}, %zero, low = [{at}, 0], high = [{high}, 0],
                   interior = [0, 0] : (tensor<{extent}x3xf32>, tensor<f32>) -> tensor<6x3xf32>\n"
            );
            if !sum.is_empty() {
                ops += &format!("%a{n} = stablehlo.add {sum}, %p{n} : tensor<6x3xf32>\n");
                sum = format!("%a{n}");
            } else {
                sum = format!("%p{n}");
            }
        }
        let source = format!(
            "func.func public @main(%x: tensor<6x3xf32>) -> tensor<6x3xf32> {{
               %zero = stablehlo.constant dense<{fill}> : tensor<f32>
               {ops}
               return {sum} : tensor<6x3xf32>
             }}"
        );
        let mut f = text::parse(&source, "test").expect("a program").functions[0].clone();
        // Every third element is 0, which is negated.
        let ty = TensorType::new([6, 3], DType::F32);
        let x = Literal::tabulate(ty, |n| [u64::from(((n % 3) as f32).to_bits()), 0]);
        let expected = interpret::call(None, &f, std::slice::from_ref(&x)).expect("it runs");
        super::run(&mut f);
        let after = text::print_function(&f);
        assert!(jaxrs_ir::verify::verify_function(&f, None).is_empty(), "{after}");
        let got = interpret::call(None, &f, &[x]).expect("it runs");
        assert!(got == expected, "{places:?}: other bits\n{after}");
        !after.contains("stablehlo.pad")
    }

    #[test]
    fn parts_are_joined_where_they_have_no_place_in_common() {
        assert!(joins(&[(0, 2), (2, 6)], "0.0"));
        assert!(joins(&[(4, 5), (1, 2), (2, 4)], "0.0"));
        assert!(!joins(&[(0, 3), (2, 6)], "0.0"));
        assert!(!joins(&[(0, 2), (2, 6)], "1.0"));
        assert!(!joins(&[(0, 6), (2, 6)], "0.0"));
    }
}
