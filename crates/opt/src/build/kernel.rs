//! Kernels: of a group of values, of an op with loops of its own, of a sort's comparison.

use super::Builder;
use super::values::short;
use crate::fuse::{self, Group, viewed};
use crate::kernels;
use crate::passes::region;
use jaxrs_ir::lower::{Emitter, LoopsFn, nest};
use jaxrs_ir::{OpId, TensorType, ValueId};
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::kernel::Access;
use jaxrs_kernel::program::{Step, StepKind};
use jaxrs_kernel::{Kernel, KernelBuilder, ParamId};
use rustc_hash::FxHashMap;

/// The values that a kernel loads, each with the value whose memory it reads.
#[derive(Default)]
struct Leaves {
    /// The values whose memory is read, in the order of the kernel's parameters.
    operands: Vec<ValueId>,
    /// For each value that is loaded: the position in `operands`.
    loads: FxHashMap<ValueId, usize>,
    seen: FxHashMap<ValueId, ()>,
}

impl Builder<'_> {
    /// The step of a group.
    pub(super) fn group(&mut self, group: &Group) -> Step {
        let function = self.function;
        let mut leaves = Leaves::default();
        for &root in &group.roots {
            self.visit_op_of(root, &mut leaves, group);
        }
        let mut e = Emitter::new(function, self.kernel_name(&group.roots));
        declare_operands(&mut e, &leaves);
        for &root in &group.roots {
            let param = declare(e.builder(), function.ty(root), Access::Write);
            e.write_to(root, param);
        }
        nest(&mut e, &group.shape, true, |e, index| {
            let elements: Vec<_> = group.roots.iter().map(|&root| e.read(root, index)).collect();
            for (&root, element) in group.roots.iter().zip(elements) {
                e.write(root, index, element);
            }
        });
        self.kernel_step(e.finish(), &leaves.operands, &group.roots)
    }

    /// The step of an op with loops of its own.
    pub(super) fn loops(&mut self, op: OpId, updates: &[(u32, u32)], emit: &LoopsFn<'_>) -> Step {
        let function = self.function;
        let data = &function.ops[op];
        let mut leaves = Leaves::default();
        // An updated operand is an operand even if nothing but the result's memory is read.
        // Each result has memory of its own, so that a value updated twice is two operands.
        let mut updated = Vec::new();
        for &(_, operand) in updates {
            let known = leaves.operand(data.operands[operand as usize], self);
            updated.push(if updated.contains(&known) { leaves.again(known) } else { known });
        }
        let group = Group { shape: Vec::new(), roots: Vec::new() };
        for &operand in data.operands.iter().chain(&region::captures(function, op)) {
            self.visit(operand, &mut leaves, &group);
        }
        let mut e = Emitter::new(function, self.kernel_name(&data.results));
        declare_operands(&mut e, &leaves);
        for (number, &result) in data.results.iter().enumerate() {
            let update = updates.iter().any(|&(r, _)| r as usize == number);
            let access = if update { Access::ReadWrite } else { Access::Write };
            let param = declare(e.builder(), function.ty(result), access);
            e.write_to(result, param);
        }
        emit(&mut e);
        let mut step = self.kernel_step(e.finish(), &leaves.operands, &data.results);
        step.updates =
            updates.iter().zip(updated).map(|(&(result, _), at)| (result, at as u32)).collect();
        step
    }

    /// The kernel that says whether one row stands before another.
    pub(super) fn comparator(&mut self, op: OpId) -> Kernel {
        let function = self.function;
        let region = function.ops[op].regions[0];
        if let Some(&outside) = region::captures(function, op).first() {
            let location = &function.ops[op].location;
            self.fail(format!("sort: the comparator uses {outside} of outside"), location);
        }
        let block = &function.blocks[region];
        let mut e = Emitter::new(function, "compare");
        for &argument in &block.arguments {
            let param = declare(e.builder(), function.ty(argument), Access::Read);
            e.read_from(argument, param);
        }
        let out = block.yields[0];
        let param = declare(e.builder(), function.ty(out), Access::Write);
        e.write_to(out, param);
        if self.errors.is_empty() {
            let element = e.read(out, &[]);
            e.write(out, &[], element);
        }
        e.finish()
    }

    fn kernel_step(
        &mut self,
        mut kernel: Kernel,
        operands: &[ValueId],
        results: &[ValueId],
    ) -> Step {
        kernels::tidy(&mut kernel);
        // Found when the kernel is finished.
        let sharing = Vec::new();
        let kernel = self.program.kernels.push(kernel);
        let origin = self.origin(operands, results);
        let sources = [operands.to_vec(), results.to_vec()];
        let operands = operands.iter().map(|&v| self.value(v)).collect();
        let results = results.iter().map(|&v| self.value(v)).collect();
        let kind = StepKind::Kernel(kernel);
        let step = self.step(kind, operands, results, sharing, Some(origin));
        self.sources.insert(step.id, sources);
        step
    }

    fn kernel_name(&self, roots: &[ValueId]) -> String {
        let name = |&root: &ValueId| {
            let op = self.function.defining_op(root).expect("a root is computed");
            format!("{}_{}", short(self.function.ops[op].op.name()), root.as_u32())
        };
        match roots {
            [] => String::from("nothing"),
            [only] => name(only),
            [first, .., last] => format!("{}_to_{}", name(first), name(last)),
        }
    }

    /// Finds what the elements of a value are computed from.
    fn visit(&self, value: ValueId, leaves: &mut Leaves, group: &Group) {
        if leaves.seen.insert(value, ()).is_some() {
            return;
        }
        let function = self.function;
        let base = fuse::base(function, value);
        if !group.roots.contains(&base) && self.is_loaded(base) {
            let position = leaves.operand(value, self);
            leaves.loads.insert(value, position);
            return;
        }
        match viewed(function, value) {
            Some(operand) => self.visit(operand, leaves, group),
            None => self.visit_op_of(value, leaves, group),
        }
    }

    fn visit_op_of(&self, value: ValueId, leaves: &mut Leaves, group: &Group) {
        let op = self.function.defining_op(value).expect("an argument is loaded");
        let data = &self.function.ops[op];
        data.operands.iter().for_each(|&v| self.visit(v, leaves, group));
        if !data.regions.is_empty() {
            let captures = region::captures(self.function, op);
            captures.iter().for_each(|&v| self.visit(v, leaves, group));
        }
    }

    /// Whether kernels load the value rather than compute it.
    fn is_loaded(&self, value: ValueId) -> bool {
        match fuse::constant(self.function, value) {
            Some(literal) => literal.as_splat().is_none(),
            None => {
                let form = self.fused.forms[value];
                form.stored && !form.inline
            }
        }
    }
}

impl Leaves {
    /// The position of the operand whose memory a value has. A view under another element type
    /// is an operand of its own.
    fn operand(&mut self, value: ValueId, builder: &Builder<'_>) -> usize {
        let base = fuse::base(builder.function, value);
        let same = builder.function.ty(base).dtype == builder.function.ty(value).dtype;
        let value = if same { base } else { value };
        match self.operands.iter().position(|&known| known == value) {
            Some(known) => known,
            None => {
                self.operands.push(value);
                self.operands.len() - 1
            }
        }
    }

    /// The position of one more operand of the same value.
    fn again(&mut self, position: usize) -> usize {
        self.operands.push(self.operands[position]);
        self.operands.len() - 1
    }
}

fn declare_operands(e: &mut Emitter<'_>, leaves: &Leaves) {
    let function = e.function;
    let params: Vec<ParamId> = leaves
        .operands
        .iter()
        .map(|&operand| declare(e.builder(), function.ty(operand), Access::Read))
        .collect();
    for (&value, &position) in &leaves.loads {
        e.read_from(value, params[position]);
    }
}

fn declare(b: &mut KernelBuilder, ty: &TensorType, access: Access) -> ParamId {
    b.param(ty.dtype.part(), ty.len() * ty.dtype.parts(), access)
}
