//! A whole program from a seed.

use crate::build::{Callee, Gen};
use crate::random::Random;
use crate::{control, indexed, normal, reductions, shapes};
use jaxrs_ir::{
    Attribute, Attributes, DType, Function, Literal, Module, OpId, TensorType, ValueId,
};
use std::collections::HashSet;

/// A program with its arguments.
#[derive(Clone)]
pub struct Case {
    pub module: Module,
    pub inputs: Vec<Literal>,
    /// Ops of the entry that loops need to end.
    pub protected: HashSet<OpId>,
}

type Maker = fn(&mut Gen<'_>) -> Option<ValueId>;

/// What is made how often.
const MAKERS: &[(u64, Maker)] = &[
    (22, shapes::elementwise),
    (5, shapes::compare),
    (5, shapes::select),
    (2, shapes::clamp),
    (5, shapes::convert),
    (1, shapes::reduce_precision),
    (2, shapes::bitcast),
    (2, shapes::iota),
    (4, shapes::broadcast),
    (4, shapes::reshape),
    (4, shapes::transpose),
    (2, shapes::reverse),
    (5, shapes::slice),
    (3, shapes::dynamic_slice),
    (5, shapes::dynamic_update_slice),
    (4, shapes::pad),
    (5, shapes::concatenate),
    (1, shapes::dimension_size),
    (1, shapes::barrier),
    (4, |g| {
        let x = g.any();
        shapes::stencil(g, x)
    }),
    (7, reductions::reduce),
    (2, reductions::reduce_together),
    (2, reductions::arg_extreme),
    (1, reductions::reduce_in_order),
    (4, reductions::reduce_window),
    (2, reductions::reduce_windows),
    (2, reductions::select_and_scatter),
    (6, reductions::dot),
    (3, reductions::convolution),
    (1, reductions::map),
    (2, normal::batch_norm),
    (4, indexed::gather),
    (6, indexed::scatter),
    (2, indexed::scatter_two),
    (3, indexed::sort),
    (2, indexed::top_k),
    (1, indexed::random_bits),
    (8, control::counted_loop),
    (5, control::branch),
    (2, control::call),
];

/// Appends an op, or a few.
pub fn any_op(g: &mut Gen<'_>) {
    let total: u64 = MAKERS.iter().map(|maker| maker.0).sum();
    for _ in 0..20 {
        let mut at = g.r.below(total);
        let maker = MAKERS.iter().find(|(weight, _)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        if maker.is_some_and(|(_, make)| make(g).is_some()) {
            return;
        }
    }
}

/// The program of a seed.
pub fn generate(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let r = &mut random;
    let large = r.percent(8);
    let pool: &[u64] =
        if large { &[1, 2, 7, 64, 100, 129] } else { &[1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33] };
    let extents: Vec<u64> = (0..2 + r.index(3)).map(|_| r.pick(pool)).collect();
    let mut dtypes = vec![DType::F32, DType::I32];
    for _ in 0..r.below(3) {
        dtypes.push(r.pick(&DType::ALL));
    }
    if r.percent(50) {
        dtypes.extend([DType::F32; 3]);
    }
    let callees: Vec<(Function, Callee)> =
        if r.percent(10) { vec![callee(r, &extents, &dtypes)] } else { Vec::new() };

    let mut g = Gen::new(r, "main", extents, dtypes);
    g.callees = callees.iter().map(|(_, callee)| callee.clone()).collect();
    g.largest = if large { 20_000 } else { 600 };
    for _ in 0..1 + g.r.below(4) {
        let ty = TensorType::new(g.any_shape(3), g.any_dtype());
        let small = g.r.percent(70);
        g.parameter(&ty, small);
    }
    let ops = if large { 3 + g.r.below(8) } else { g.r.pick(&[2, 5, 10, 15, 25, 40]) };
    for _ in 0..ops {
        any_op(&mut g);
    }
    results(&mut g);
    donate(&mut g);
    let (inputs, protected) = (g.inputs.take().unwrap_or_default(), g.protected);
    let mut functions = vec![g.f];
    functions.extend(callees.into_iter().map(|(function, _)| function));
    let module = Module { name: "generated".into(), attributes: Attributes::new(), functions };
    Case { module, inputs, protected }
}

/// A private function.
fn callee(r: &mut Random, extents: &[u64], dtypes: &[DType]) -> (Function, Callee) {
    let mut g = Gen::new(r, "inner", extents.to_vec(), dtypes.to_vec());
    g.f.public = false;
    g.inputs = None;
    for _ in 0..1 + g.r.below(3) {
        let ty = TensorType::new(g.any_shape(2), g.any_dtype());
        g.parameter(&ty, false);
    }
    for _ in 0..1 + g.r.below(5) {
        any_op(&mut g);
    }
    results(&mut g);
    let types = |values: &[ValueId]| values.iter().map(|&v| g.f.ty(v).clone()).collect();
    let callee = Callee {
        name: "inner".into(),
        parameters: types(g.f.parameters()),
        results: types(g.f.results()),
    };
    (g.f, callee)
}

/// Returns what nothing reads, and now and then a parameter, a constant or one value twice.
fn results(g: &mut Gen<'_>) {
    let mut read: HashSet<ValueId> = HashSet::new();
    g.f.ops.values().for_each(|op| read.extend(&op.operands));
    g.f.blocks.values().for_each(|block| read.extend(&block.yields));
    let unread: Vec<ValueId> = g.scope.iter().copied().filter(|v| !read.contains(v)).collect();
    let mut results: Vec<ValueId> = Vec::new();
    for &value in unread.iter().rev() {
        let parameter = g.f.defining_op(value).is_none();
        if results.len() < 8 && g.r.percent(if parameter { 10 } else { 80 }) {
            results.push(value);
        }
    }
    if results.is_empty() || g.r.percent(25) {
        results.push(g.any());
    }
    if g.r.percent(8) {
        results.push(results[g.r.index(results.len())]);
    }
    if g.r.percent(8) {
        let ty = g.ty(results[0]);
        let small = g.r.percent(50);
        let literal = g.r.tensor(&ty, small);
        results.push(g.constant(literal, f64::INFINITY));
    }
    if g.r.percent(8) {
        let parameters = g.f.parameters().to_vec();
        results.push(g.r.pick(&parameters));
    }
    let results = g.r.shuffled(results);
    g.f.result_attributes = results.iter().map(|_| Attributes::new()).collect();
    g.f.blocks[g.f.body].yields = results;
}

/// Donates some parameters.
fn donate(g: &mut Gen<'_>) {
    if g.r.percent(35) {
        return;
    }
    let mut taken = HashSet::new();
    for (n, parameter) in g.f.parameters().to_vec().into_iter().enumerate() {
        if g.r.percent(40) {
            continue;
        }
        let bytes = g.f.ty(parameter).bytes();
        let fits = |&(at, &result): &(usize, &ValueId)| {
            g.f.ty(result).bytes() == bytes && !taken.contains(&at)
        };
        let output = g.f.results().iter().enumerate().find(fits).map(|(at, _)| at);
        let attribute = match output {
            Some(at) if g.r.percent(60) => {
                taken.insert(at);
                ("tf.aliasing_output", Attribute::Int(at as i128, Some("i32".into())))
            }
            _ => ("jax.buffer_donor", Attribute::Bool(true)),
        };
        g.f.parameter_attributes[n] = Attributes::new().with(attribute.0, attribute.1);
    }
}
