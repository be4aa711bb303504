//! Sharing that a step offers but nothing demands: a result in the place of an operand that dies.

use crate::classes::{Classes, Context};
use crate::walk::visit;

/// Puts results over operands of equal size that die where they are made. An operand whose memory
/// is an argument or a result already comes first, since that takes a value out of the arena.
pub(crate) fn in_place(context: &Context<'_>, classes: &mut Classes) {
    visit(&context.program.body, &mut |step| {
        for (r, &result) in step.results.iter().enumerate() {
            let bytes = context.bytes(result);
            if bytes == 0 || !context.roots.is_whole(context.program, result) {
                continue;
            }
            let mut choices: Vec<(bool, usize)> = step
                .operands
                .iter()
                .enumerate()
                .filter(|&(o, &v)| {
                    context.bytes(v) == bytes
                        && context.roots.is_whole(context.program, v)
                        && context.may_share(step, r, o)
                })
                .map(|(o, &v)| {
                    let class = classes.of(context.roots.root(v).value);
                    (class.argument.is_none() && class.result.is_none(), o)
                })
                .collect();
            choices.sort_unstable();
            for (_, o) in choices {
                let operand = step.operands[o];
                let classed = |v| classes.of(context.roots.root(v).value).bytes;
                if classed(operand) == classed(result)
                    && classes.merge(context, operand, result).is_ok()
                {
                    break;
                }
            }
        }
    });
}
