//! What a function computes and moves, before any fusion.

use crate::function::{BlockId, Function};
use crate::ops::{Op, OpView};

/// Operations on elements, and bytes that ops read and write. The body of a loop counts once, of
/// a choice all branches.
pub fn of(function: &Function) -> (u64, u64) {
    block(function, function.body)
}

fn block(function: &Function, at: BlockId) -> (u64, u64) {
    let (mut flops, mut bytes) = (0, 0);
    for &id in &function.blocks[at].ops {
        let op = OpView { function, id };
        let data = op.data();
        let size = |values: &[crate::ValueId]| -> u64 {
            values.iter().map(|&value| function.ty(value).bytes()).sum()
        };
        match data.op {
            Op::While(_) | Op::Case(_) | Op::If(_) => {
                for &region in &data.regions {
                    let (inner, moved) = block(function, region);
                    flops += inner;
                    bytes += moved;
                }
            }
            Op::Constant(_) | Op::Empty(_) | Op::Iota(_) => {}
            _ => {
                flops += operations(op);
                bytes += size(&data.operands) + size(&data.results);
            }
        }
    }
    (flops, bytes)
}

/// Operations on elements that one op does.
fn operations(op: OpView<'_>) -> u64 {
    let results = || op.result_type(0).len();
    match &op.data().op {
        Op::Elementwise(_) | Op::Compare(_) | Op::Select(_) | Op::Clamp(_) | Op::Convert(_) => {
            results()
        }
        Op::DotGeneral(dot) => {
            let shape = &op.operand_type(0).shape;
            let contracted: u64 = dot.lhs_contracting.iter().map(|&axis| shape[axis]).product();
            2 * results() * contracted
        }
        Op::Convolution(convolution) => {
            let kernel = op.operand_type(1);
            let outputs = kernel.shape[convolution.kernel.batch].max(1);
            2 * results() * (kernel.len() / outputs)
        }
        Op::Reduce(_) => op.operand_type(0).len(),
        Op::ReduceWindow(window) => {
            results() * window.window.iter().map(|axis| axis.extent).product::<u64>()
        }
        _ => 0,
    }
}
