//! A transposed product that nothing else uses is the product of the operands the other way round,
//! and a transposed convolution is one with other axes: they write the result as it is wanted, and
//! no transposed copy is made.

use super::rewrite;
use jaxrs_ir::{Function, Op, ops};

/// Turns round every such product.
pub fn run(function: &mut Function) {
    let uses = crate::fuse::uses(function);
    rewrite::run(function, &mut |r, op| {
        let data = &r.f.ops[op];
        let Op::Transpose(transpose) = &data.op else { return None };
        let product = data.operands[0];
        let (ty, location) = (r.f.ty(data.results[0]).clone(), data.location.clone());
        if let Some(Op::Convolution(convolution)) = r.op_of(product)
            && uses[product] == 1
        {
            let mut turned = convolution.clone();
            let place = |axis: &mut usize| {
                let to = transpose.permutation.iter().position(|from| from == axis);
                *axis = to.expect("a permutation");
            };
            place(&mut turned.output.batch);
            place(&mut turned.output.feature);
            turned.output.spatial.iter_mut().for_each(place);
            let operands = r.operands_of(product).to_vec();
            return Some(vec![r.push(turned, &operands, ty, &location)]);
        }
        let Some(Op::DotGeneral(dot)) = r.op_of(product) else { return None };
        let [x, y] = r.operands_of(product)[..] else { return None };
        let (batch, rank) = (dot.lhs_batch.len(), r.f.ty(product).rank());
        let left = r.f.ty(x).rank() - batch - dot.lhs_contracting.len();
        let order = (0..batch).chain(batch + left..rank).chain(batch..batch + left);
        if uses[product] != 1 || !order.eq(transpose.permutation.iter().copied()) {
            return None;
        }
        let swapped = ops::DotGeneral {
            lhs_batch: dot.rhs_batch.clone(),
            rhs_batch: dot.lhs_batch.clone(),
            lhs_contracting: dot.rhs_contracting.clone(),
            rhs_contracting: dot.lhs_contracting.clone(),
            result: dot.result,
        };
        Some(vec![r.push(swapped, &[y, x], ty, &location)])
    });
}
