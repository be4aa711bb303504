//! How often a loop runs, and loops that run once or never, which are no loops.

use super::rewrite::{self, Change, Rewriter};
use jaxrs_ir::{Function, Literal, Op, OpId, ValueId};
use jaxrs_kernel::Compare;

/// Takes the body of every loop that runs once out of it.
pub fn run(function: &mut Function) {
    rewrite::run(function, &mut |r, op| match r.f.ops[op].op {
        Op::While(_) => unroll(r, op),
        _ => None,
    });
}

fn unroll(r: &mut Rewriter<'_>, op: OpId) -> Change {
    let data = r.f.ops[op].clone();
    let body = data.regions[1];
    match trips(r.f, op)? {
        0 => Some(data.operands),
        1 => {
            let arguments = r.f.blocks[body].arguments.clone();
            let names = arguments.into_iter().zip(data.operands).collect();
            super::loops::rename(r.f, body, &names);
            let ops = std::mem::take(&mut r.f.blocks[body].ops);
            r.f.blocks[r.block].ops.extend(ops);
            Some(r.f.blocks[body].yields.clone())
        }
        _ => None,
    }
}

/// The number of iterations of a loop that counts a carry from one constant to another.
pub fn trips(f: &Function, op: OpId) -> Option<u64> {
    let data = &f.ops[op];
    let [condition, body] = data.regions[..] else { return None };
    let compare = &f.ops[f.defining_op(f.blocks[condition].yields[0])?];
    let Op::Compare(how) = &compare.op else { return None };
    let [left, right] = compare.operands[..] else { return None };
    let carry = f.blocks[condition].arguments.iter().position(|&a| a == left)?;
    let next = &f.ops[f.defining_op(f.blocks[body].yields[carry])?];
    let Op::Elementwise(add) = &next.op else { return None };
    if add.name() != "stablehlo.add" || !f.ty(left).dtype.is_int() {
        return None;
    }
    let argument = f.blocks[body].arguments[carry];
    let step = match next.operands[..] {
        [a, b] if a == argument => constant(f, b)?,
        [a, b] if b == argument => constant(f, a)?,
        _ => return None,
    };
    let first = constant(f, data.operands[carry])?;
    let end = constant(f, right)?;
    // A count that would wrap is left alone.
    let last = match how.direction {
        Compare::Lt => end.checked_sub(1)?,
        Compare::Le => end,
        _ => return None,
    };
    let signed = f.ty(left).dtype.class() == jaxrs_kernel::dtype::Class::Signed;
    if step <= 0 || first < 0 || last < -1 || !signed && end < 0 {
        return None;
    }
    if last < first {
        return Some(0);
    }
    last.checked_add(step)?;
    Some(((last - first) / step + 1) as u64)
}

/// The integer that all elements of a constant, perhaps repeated, are.
pub(super) fn constant(f: &Function, value: ValueId) -> Option<i64> {
    let data = &f.ops[f.defining_op(value)?];
    let literal: &Literal = match &data.op {
        Op::Constant(constant) => &constant.value,
        // A constant that a loop starts from gets a tensor of its own so.
        Op::BroadcastInDim(_) => return constant(f, data.operands[0]),
        _ => return None,
    };
    literal.as_splat()?;
    Some(literal.int(0))
}
