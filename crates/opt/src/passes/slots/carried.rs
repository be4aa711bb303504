//! Carries of loops that end in a part of a whole: the loop carries the whole, and its steps update
//! the part in place.

use super::plan::Planner;
use super::{State, again};
use crate::passes::rewrite::Rewriter;
use crate::passes::stacks::peel::substitute;
use jaxrs_ir::function::ValueData;
use jaxrs_ir::ops::DynamicUpdateSlice;
use jaxrs_ir::{Op, OpId, ValueDef, ValueId};
use rustc_hash::FxHashMap;

/// Carries of fewer bytes stay: they are a register or two.
const SMALL: u64 = 64;

impl Planner<'_> {
    /// Whether a value is what a loop carries at last and elementwise ops step from one to the next.
    pub(super) fn is_carried(&self, value: ValueId) -> bool {
        let (f, info) = (self.f, self.info);
        let ValueDef::Result(op, n) = f.values[value].def else { return false };
        let data = &f.ops[op];
        if !matches!(data.op, Op::While(_)) || f.ty(value).bytes() < SMALL {
            return false;
        }
        let [condition, body] = [0, 1].map(|region| &f.blocks[data.regions[region]]);
        let [asked, old] = [condition, body].map(|block| block.arguments[n as usize]);
        let next = body.yields[n as usize];
        let inside = |op: OpId| info.home[op].expand() == Some(data.regions[1]);
        let reads = |&user: &OpId| {
            inside(user) && f.ops[user].results.iter().all(|&v| self.is_pointwise(v))
        };
        info.users[asked].is_empty()
            && !info.returned[asked]
            && self.is_pointwise(next)
            && f.defining_op(next).is_some_and(inside)
            && info.users[next].is_empty()
            && body.yields.iter().filter(|&&v| v == next).count() == 1
            && !info.returned[old]
            && info.users[old].iter().all(reads)
    }
}

impl State {
    /// Lets a loop that is being visited carry the whole in place of a part.
    pub(super) fn carry(&mut self, r: &mut Rewriter<'_>, op: OpId, result: ValueId) {
        let (whole, number) = self.plan.parts[&result];
        let data = r.f.ops[op].clone();
        let at = &data.location;
        let moved = self.plan.wholes[&whole].parts[number].moved.clone();
        let n = data.results.iter().position(|&v| v == result).expect("a result of the loop");
        let first = moved.iter().fold(data.operands[n], |v, &op| again(r, op, v, at));
        self.put(r, whole, number, first, at);
        let tail = self.tails[&whole];
        r.f.ops[op].operands[n] = tail;
        let ty = r.f.ty(tail).clone();
        let body = data.regions[1];
        let old = r.f.blocks[body].arguments[n];
        for argument in [r.f.blocks[data.regions[0]].arguments[n], old] {
            r.f.values[argument].ty = ty.clone();
        }
        let def = ValueDef::Result(op, n as u32);
        let all = r.f.values.push(ValueData { ty: ty.clone(), def });
        r.f.ops[op].results[n] = all;
        let home = std::mem::replace(&mut r.block, body);
        let ops = std::mem::take(&mut r.f.blocks[body].ops);
        let part = self.read(r, old, (whole, number), at);
        let mut begin = std::mem::replace(&mut r.f.blocks[body].ops, ops);
        substitute(r.f, body, &FxHashMap::from_iter([(old, part)]));
        begin.append(&mut r.f.blocks[body].ops);
        r.f.blocks[body].ops = begin;
        let next = r.f.blocks[body].yields[n];
        let next = moved.iter().fold(next, |v, &op| again(r, op, v, at));
        let mut operands = vec![old, next];
        operands.extend(self.starts(r, (whole, number), at));
        r.f.blocks[body].yields[n] = r.push(DynamicUpdateSlice, &operands, ty, at);
        r.block = home;
        self.tails.insert(whole, all);
        self.placed.insert(result, (whole, number));
    }
}
