//! A smaller program that fails as well.

use crate::program::Case;
use crate::random::{Random, splat};
use jaxrs_ir::ops::{Constant, Op};
use jaxrs_ir::{
    Attribute, Attributes, BlockId, Function, Location, OpId, TensorType, ValueDef, ValueId,
};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Shrinks as long as `fails` holds, for some time.
pub fn shrink(case: Case, fails: &dyn Fn(&Case) -> bool) -> Case {
    let end = Instant::now() + Duration::from_secs(90);
    let mut best = case;
    loop {
        let mut smaller = false;
        let mut at = 0;
        loop {
            if Instant::now() > end {
                return best;
            }
            // A step gives None where it does not apply, and ends behind the last one.
            let Some(step) = steps(&best).into_iter().nth(at) else { break };
            let tried = apply(&best, &step);
            match tried {
                Some(tried) if fails(&tried) => {
                    best = tried;
                    smaller = true;
                }
                _ => at += 1,
            }
        }
        if !smaller {
            return best;
        }
    }
}

/// One way of making a program smaller.
#[derive(Clone, Copy)]
enum Step {
    /// Only this result.
    Only(usize),
    /// Without this result.
    Without(usize),
    /// No donation of this parameter.
    Keep(usize),
    /// The op's results are operands, or parameters.
    Cut(OpId, BlockId),
    /// The op's results are constants.
    Fix(OpId, BlockId),
    /// The loop loses a carry.
    Carry(OpId, usize),
}

fn entry(case: &Case) -> &Function {
    &case.module.functions[0]
}

fn steps(case: &Case) -> Vec<Step> {
    let f = entry(case);
    let count = f.results().len();
    let mut steps = Vec::new();
    if count > 1 {
        steps.extend((0..count).map(Step::Only));
        steps.extend((0..count).map(Step::Without));
    }
    let donated = |n: &usize| !f.parameter_attributes[*n].0.is_empty();
    steps.extend((0..f.parameters().len()).filter(donated).map(Step::Keep));
    let mut ops = Vec::new();
    collect(f, f.body, &mut ops);
    for &(op, block) in ops.iter().rev() {
        if matches!(f.ops[op].op, Op::Constant(_)) || case.protected.contains(&op) {
            continue;
        }
        steps.push(Step::Cut(op, block));
        if block != f.body {
            steps.push(Step::Fix(op, block));
        }
        if matches!(f.ops[op].op, Op::While(_)) {
            let carries = f.ops[op].operands.len();
            steps.extend((0..carries).map(|n| Step::Carry(op, n)));
        }
    }
    steps
}

fn collect(f: &Function, block: BlockId, ops: &mut Vec<(OpId, BlockId)>) {
    for &op in &f.blocks[block].ops {
        ops.push((op, block));
        // Bodies of scalars are small, and must keep their form.
        if matches!(f.ops[op].op, Op::While(_) | Op::Case(_) | Op::If(_)) {
            f.ops[op].regions.iter().for_each(|&region| collect(f, region, ops));
        }
    }
}

fn apply(case: &Case, step: &Step) -> Option<Case> {
    let mut case = case.clone();
    let f = &mut case.module.functions[0];
    let body = f.body;
    match *step {
        Step::Only(n) => {
            let only = f.results()[n];
            f.blocks[body].yields = vec![only];
            f.result_attributes.truncate(1);
            donors_only(f);
        }
        Step::Without(n) => {
            f.blocks[body].yields.remove(n);
            f.result_attributes.pop();
            donors_only(f);
        }
        Step::Keep(n) => f.parameter_attributes[n] = Attributes::new(),
        Step::Cut(op, block) => {
            let data = f.ops[op].clone();
            for &result in &data.results {
                let ty = f.ty(result).clone();
                let same = data.operands.iter().copied().find(|&v| *f.ty(v) == ty);
                let instead = match same {
                    Some(operand) => operand,
                    None if block == body => {
                        let small = Random::new(case.inputs.len() as u64).tensor(&ty, true);
                        case.inputs.push(small);
                        f.add_parameter(ty)
                    }
                    None => return None,
                };
                replace(f, result, instead);
            }
            f.blocks[block].ops.retain(|&other| other != op);
        }
        Step::Fix(op, block) => {
            let at = f.blocks[block].ops.iter().position(|&other| other == op)?;
            for &result in &f.ops[op].results.clone() {
                let ty = f.ty(result).clone();
                let value = splat(&ty, 1.0);
                let (end, place) = (vec![ty], Location::default());
                let constant = f.push_op(block, Constant { value }, &[], end, &[], place);
                let new = f.blocks[block].ops.pop()?;
                f.blocks[block].ops.insert(at, new);
                let instead = f.ops[constant].results[0];
                replace(f, result, instead);
            }
            f.blocks[block].ops.retain(|&other| other != op);
        }
        Step::Carry(op, n) => {
            let data = f.ops[op].clone();
            let next = f.blocks[data.regions[1]].yields[n];
            let counts = f.defining_op(next).is_some_and(|op| case.protected.contains(&op));
            if counts || data.operands.len() < 2 {
                return None;
            }
            let init = data.operands[n];
            replace(f, data.results[n], init);
            f.ops[op].operands.remove(n);
            f.ops[op].results.remove(n);
            for (position, &result) in f.ops[op].results.clone().iter().enumerate() {
                f.values[result].def = ValueDef::Result(op, position as u32);
            }
            for &region in &data.regions {
                let argument = f.blocks[region].arguments.remove(n);
                replace(f, argument, init);
                renumber(f, region);
            }
            f.blocks[data.regions[1]].yields.remove(n);
        }
    }
    clean(&mut case);
    Some(case)
}

/// Positions of results may change: donation goes on without them.
fn donors_only(f: &mut Function) {
    for attributes in &mut f.parameter_attributes {
        if attributes.take("tf.aliasing_output").is_some() {
            *attributes = Attributes::new().with("jax.buffer_donor", Attribute::Bool(true));
        }
    }
}

fn replace(f: &mut Function, old: ValueId, new: ValueId) {
    let put = |values: &mut Vec<ValueId>| {
        values.iter_mut().filter(|v| **v == old).for_each(|v| *v = new);
    };
    f.ops.values_mut().for_each(|op| put(&mut op.operands));
    f.blocks.values_mut().for_each(|block| put(&mut block.yields));
}

fn renumber(f: &mut Function, block: BlockId) {
    for (position, &argument) in f.blocks[block].arguments.clone().iter().enumerate() {
        f.values[argument].def = ValueDef::Argument(block, position as u32);
    }
}

/// Drops ops and parameters that nothing reads, and functions that nothing calls.
fn clean(case: &mut Case) {
    let f = &mut case.module.functions[0];
    loop {
        let mut ops = Vec::new();
        collect(f, f.body, &mut ops);
        let mut read: HashSet<ValueId> = HashSet::new();
        let mut blocks = vec![f.body];
        while let Some(block) = blocks.pop() {
            read.extend(&f.blocks[block].yields);
            for &op in &f.blocks[block].ops {
                read.extend(&f.ops[op].operands);
                blocks.extend(&f.ops[op].regions);
            }
        }
        let mut changed = false;
        for (op, block) in ops {
            if f.ops[op].results.iter().all(|v| !read.contains(v)) {
                f.blocks[block].ops.retain(|&other| other != op);
                changed = true;
            }
        }
        for n in (0..f.parameters().len()).rev() {
            if !read.contains(&f.parameters()[n]) {
                let body = f.body;
                f.blocks[body].arguments.remove(n);
                f.parameter_attributes.remove(n);
                case.inputs.remove(n);
                renumber(f, body);
            }
        }
        if !changed {
            break;
        }
    }
    let calls = f.blocks[f.body].ops.iter().any(|&op| f.ops[op].op.callee().is_some());
    let nested = f.ops.values().any(|op| op.op.callee().is_some());
    if !calls && !nested {
        case.module.functions.truncate(1);
    }
}

/// Small inputs for a program read from a file.
pub fn inputs(types: &[TensorType]) -> Vec<jaxrs_ir::Literal> {
    types.iter().zip(1..).map(|(ty, seed)| Random::new(seed).tensor(ty, true)).collect()
}
