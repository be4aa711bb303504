//! The native entry of a program: its steps in order, loops, branches and tiles included.
//!
//! A program's entry is a few functions of the call's [`Context`] alone, since all values live in
//! memory: a list of steps that is too long for one function (register allocation is not linear)
//! is cut into parts that the list's function calls.

use super::CompileError;
use super::nest::arguments;
use super::registers::Registers;
use super::target::{Code, Symbol, Target, Texts, Workspace, namespace};
use super::tight::Tight;
use crate::executable::{BASES_OFFSET, Layout};
use crate::helpers::Helper;
use crate::poison::Poison;
use crate::work::Split;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockCall, InstBuilder, JumpTableData, MemFlagsData, StackSlot, StackSlotData,
    StackSlotKind, Value, types,
};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::FunctionBuilder;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::{
    Bytes, Case, KernelId, Program, Step, StepId, StepKind, Tile, ValueId, While,
};
use rustc_hash::FxHashMap;

/// Steps of one function, nested ones included.
const STEPS_PER_FUNCTION: usize = 200;

/// What the entry is made from.
pub(crate) struct EntryInput<'a> {
    pub(crate) program: &'a Program,
    pub(crate) layout: &'a Layout,
    /// The code that runs for a kernel, equal kernels having one.
    pub(crate) kernels: &'a SecondaryMap<KernelId, u32>,
    /// How kernels are split over threads.
    pub(crate) splits: &'a SecondaryMap<KernelId, Option<Split>>,
    /// The prepared library steps' numbers.
    pub(crate) library: &'a FxHashMap<StepId, u32>,
    /// The loops of cheap iterations; none of them if hooks are called.
    pub(crate) loops: &'a FxHashMap<StepId, Tight<'a>>,
    /// Whether hooks are called.
    pub(crate) hooks: bool,
    /// What is overwritten where.
    pub(crate) poison: Option<&'a Poison>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Steps(&'a [Step]),
    Tile(&'a Step, &'a Tile),
    Loop(&'a Step, &'a While),
}

/// Compiles the entry, what runs once quickly, loops of cheap iterations well; part 0 is where it
/// starts.
pub(crate) fn compile(
    [once, fast]: [&Target; 2],
    work: &mut Workspace,
    texts: Texts,
    input: &EntryInput<'_>,
) -> Result<Vec<Code>, CompileError> {
    let mut parts = vec![Part::Steps(&input.program.body)];
    let mut codes = Vec::new();
    while let Some(part) = parts.get(codes.len()) {
        let first = codes.is_empty();
        let code = match *part {
            Part::Steps(steps) => once.compile(work, &[types::I64], texts, |builder| {
                let mut entry = Entry::open(builder, once, input, &mut parts);
                if let (true, Some(poison)) = (first, input.poison) {
                    entry.fill(&poison.first);
                }
                entry.list(steps, None);
                entry.close();
            })?,
            Part::Tile(step, tile) => once.compile(work, &[types::I64; 4], texts, |builder| {
                let mut entry = Entry::open(builder, once, input, &mut parts);
                entry.blocks(step, tile);
                entry.close();
            })?,
            Part::Loop(step, inner) => fast.compile(work, &[types::I64], texts, |builder| {
                let mut entry = Entry::open(builder, fast, input, &mut parts);
                entry.registers = Some(entry.open_registers(&input.loops[&step.id]));
                entry.while_(step, inner);
                entry.close();
            })?,
        };
        codes.push(code);
    }
    Ok(codes)
}

pub(super) struct Entry<'e, 'b, 'a> {
    pub(super) builder: &'e mut FunctionBuilder<'b>,
    pub(super) target: &'e Target,
    pub(super) input: &'e EntryInput<'a>,
    /// The values in registers, in a loop of cheap iterations.
    pub(super) registers: Option<Registers<'a>>,
    parts: &'e mut Vec<Part<'a>>,
    params: Vec<Value>,
    context: Value,
    bases: Value,
    /// Where the pointers of a step's operands and results are put.
    pointers: StackSlot,
    pointers_used: u32,
}

/// The values that live in a thread's scratch while a block of rows runs.
pub(super) struct Local {
    scratch: Value,
    first_row: Value,
    row_bytes: i64,
    offset: i64,
}

pub(super) type Locals<'l> = Option<&'l FxHashMap<ValueId, Local>>;

impl<'e, 'b, 'a> Entry<'e, 'b, 'a> {
    fn open(
        builder: &'e mut FunctionBuilder<'b>,
        target: &'e Target,
        input: &'e EntryInput<'a>,
        parts: &'e mut Vec<Part<'a>>,
    ) -> Self {
        let block = builder.create_block();
        builder.append_block_params_for_function_params(block);
        builder.switch_to_block(block);
        let params = builder.block_params(block).to_vec();
        let context = params[0];
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let bases = builder.ins().load(types::I64, flags, context, BASES_OFFSET);
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
        let pointers = builder.create_sized_stack_slot(slot);
        Entry {
            builder,
            target,
            input,
            registers: None,
            parts,
            params,
            context,
            bases,
            pointers,
            pointers_used: 1,
        }
    }

    fn close(self) {
        self.builder.ins().return_(&[]);
        self.builder.func.sized_stack_slots[self.pointers].size = 8 * self.pointers_used;
    }

    pub(super) fn int(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    fn int32(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I32, value)
    }

    /// Steps in order, those of a long list in functions of their own.
    fn list(&mut self, steps: &'a [Step], locals: Locals<'_>) {
        if locals.is_some() || weight(steps) <= STEPS_PER_FUNCTION {
            steps.iter().for_each(|step| self.step(step, locals));
            return;
        }
        let mut rest = steps;
        while let Some(first) = rest.first() {
            let mut count = 0;
            let mut sum = 0;
            while count < rest.len() && sum + weight(&rest[count..=count]) <= STEPS_PER_FUNCTION {
                sum += weight(&rest[count..=count]);
                count += 1;
            }
            if count == 0 {
                // Too long alone: its inner lists are cut.
                self.step(first, None);
                rest = &rest[1..];
                continue;
            }
            let (part, after) = rest.split_at(count);
            let index = self.parts.len() as u32;
            self.parts.push(Part::Steps(part));
            let symbol = Symbol { namespace: namespace::ENTRY, index };
            let function = self.target.import(self.builder, symbol, &[types::I64], &[]);
            self.builder.ins().call(function, &[self.context]);
            rest = after;
        }
    }

    fn step(&mut self, step: &'a Step, locals: Locals<'_>) {
        if self.input.hooks && locals.is_none() {
            self.hook(step, 0);
        }
        match &step.kind {
            StepKind::Kernel(kernel) if self.is_inlined(step) => self.inline(step, *kernel),
            StepKind::Copy if self.is_scalar(step.operands[0], step.results[0]) => {
                self.hand_over([(step.operands[0], step.results[0])].into_iter());
            }
            StepKind::Copy => self.copy(step.operands[0], step.results[0], locals),
            StepKind::While(_) if self.is_tight(step) => self.tight(step),
            StepKind::While(inner) => self.while_(step, inner),
            StepKind::Case(inner) => self.case(step, inner),
            StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Tile(_) => {
                self.flush(step);
                match &step.kind {
                    StepKind::Kernel(kernel) => self.kernel(step, *kernel, locals),
                    StepKind::Tile(tile) => self.tile(step, tile),
                    _ => self.library(step),
                }
                self.reload(step);
            }
        }
        if self.input.hooks && locals.is_none() {
            self.hook(step, 1);
        }
        if let Some(ranges) = self.input.poison.and_then(|p| p.after.get(&step.id)) {
            self.fill(ranges);
        }
    }

    fn call(&mut self, helper: Helper, arguments: &[Value]) {
        let function = self.target.helper(self.builder, helper);
        let mut all = vec![self.context];
        all.extend_from_slice(arguments);
        self.builder.ins().call(function, &all);
    }

    fn hook(&mut self, step: &Step, when: i64) {
        let (id, when) = (self.int(i64::from(step.id.as_u32())), self.int(when));
        self.call(Helper::Hook, &[id, when]);
    }

    fn fill(&mut self, ranges: &[(usize, u64, u64)]) {
        for &(slot, offset, bytes) in ranges {
            let address = self.region(slot, offset);
            let bytes = self.int(bytes as i64);
            self.call(Helper::Fill, &[address, bytes]);
        }
    }

    /// The address of a byte of a region.
    fn region(&mut self, slot: usize, offset: u64) -> Value {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let at = i32::try_from(8 * slot).expect("few regions");
        let base = self.builder.ins().load(types::I64, flags, self.bases, at);
        if offset == 0 { base } else { self.builder.ins().iadd_imm_s(base, offset as i64) }
    }

    /// The address of a value's first byte (of a tile's local value: where it would be if the
    /// block at hand were a piece of the whole).
    pub(super) fn address(&mut self, value: ValueId, locals: Locals<'_>) -> Value {
        let (root, within) = self.input.layout.root(self.input.program, value);
        if let Some(local) = locals.and_then(|l| l.get(&root)) {
            let back = self.builder.ins().imul_imm_s(local.first_row, local.row_bytes);
            let base = self.builder.ins().isub(local.scratch, back);
            return self.builder.ins().iadd_imm_s(base, local.offset + within as i64);
        }
        match self.input.layout.place(self.input.program, value) {
            Some((slot, offset)) => self.region(slot, offset),
            // A value without bytes: any aligned address.
            None => self.int(64),
        }
    }

    /// The addresses of a step's operands, then results, in memory.
    fn pointers(&mut self, step: &Step, locals: Locals<'_>) -> Value {
        if let Some(ready) = self.registers.as_ref().and_then(|r| r.pointers.get(&step.id)) {
            return self.builder.ins().stack_addr(types::I64, *ready, 0);
        }
        self.fill_pointers(step, self.pointers, locals);
        let count = (step.operands.len() + step.results.len()) as u32;
        self.pointers_used = self.pointers_used.max(count);
        self.builder.ins().stack_addr(types::I64, self.pointers, 0)
    }

    pub(super) fn fill_pointers(&mut self, step: &Step, slot: StackSlot, locals: Locals<'_>) {
        for (position, &value) in step.operands.iter().chain(&step.results).enumerate() {
            let address = self.address(value, locals);
            let offset = i32::try_from(8 * position).expect("few operands");
            self.builder.ins().stack_store(types::I64, address, slot, offset);
        }
    }

    fn kernel(&mut self, step: &Step, kernel: KernelId, locals: Locals<'_>) {
        let pointers = self.pointers(step, locals);
        let symbol = Symbol { namespace: namespace::KERNEL, index: self.input.kernels[kernel] };
        let function = self.target.import(self.builder, symbol, &[types::I64; 3], &[]);
        if let (None, Some(split)) = (locals, self.input.splits[kernel]) {
            let address = self.builder.ins().func_addr(types::I64, function);
            let (range, grain) = (self.int(split.range), self.int(split.grain));
            self.call(Helper::ParallelFor, &[address, pointers, range, grain]);
            return;
        }
        let (lo, hi) = if locals.is_some() {
            (self.params[1], self.params[2])
        } else {
            let range = self.input.program.kernels[kernel].range.unwrap_or(1);
            (self.int(0), self.int(range as i64))
        };
        self.builder.ins().call(function, &[pointers, lo, hi]);
    }

    fn library(&mut self, step: &Step) {
        let pointers = self.pointers(step, None);
        let index = self.int(i64::from(self.input.library[&step.id]));
        let scratch = self.scratch(step);
        self.call(Helper::Library, &[index, pointers, scratch]);
    }

    fn scratch(&mut self, step: &Step) -> Value {
        match self.input.layout.scratch(step.id) {
            Some((slot, offset)) => self.region(slot, offset),
            None => self.int(64),
        }
    }

    fn copy(&mut self, from: ValueId, to: ValueId, locals: Locals<'_>) {
        let bytes = self.input.program.values[from].bytes().0;
        if bytes == 0 {
            return;
        }
        let (from, to) = (self.address(from, locals), self.address(to, locals));
        // A few words are moved in place: all loads, then all stores.
        if bytes <= 64 && bytes.is_power_of_two() {
            let ty = match bytes {
                1 => types::I8,
                2 => types::I16,
                4 => types::I32,
                8 => types::I64,
                _ => types::I8X16,
            };
            let step = i32::try_from(ty.bytes()).expect("small");
            let flags = MemFlagsData::new().with_notrap();
            let count = bytes as i32 / step;
            let words: Vec<Value> =
                (0..count).map(|n| self.builder.ins().load(ty, flags, from, n * step)).collect();
            for (n, word) in (0..count).zip(words) {
                self.builder.ins().store(flags, word, to, n * step);
            }
            return;
        }
        let bytes = self.int(bytes as i64);
        self.call(Helper::Copy, &[to, from, bytes]);
    }

    /// Copies each value to its counterpart unless they share their place. Registers are read
    /// before any of them is set.
    fn hand_over(&mut self, pairs: impl Iterator<Item = (ValueId, ValueId)>) {
        let mut scalars = Vec::new();
        for (from, to) in pairs {
            let layout = self.input.layout;
            let together =
                layout.place(self.input.program, from) == layout.place(self.input.program, to);
            if self.is_scalar(from, to) {
                let value = self.scalar(from);
                scalars.push((to, value, together && self.is_in_memory(from)));
            } else if !together {
                self.copy(from, to, None);
            }
        }
        for (to, value, stored) in scalars {
            self.set(to, value, stored);
        }
    }

    /// A loop of cheap iterations, in a function of its own.
    fn tight(&mut self, step: &'a Step) {
        let StepKind::While(inner) = &step.kind else { unreachable!("{} is a loop", step.id) };
        let index = self.parts.len() as u32;
        self.parts.push(Part::Loop(step, inner));
        let symbol = Symbol { namespace: namespace::ENTRY, index };
        let function = self.target.import(self.builder, symbol, &[types::I64], &[]);
        self.builder.ins().call(function, &[self.context]);
    }

    fn while_(&mut self, step: &'a Step, inner: &'a While) {
        self.hand_over(step.operands.iter().copied().zip(inner.carries.iter().copied()));
        let (head, body, exit) =
            (self.builder.create_block(), self.builder.create_block(), self.builder.create_block());
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(head);
        self.list(&inner.condition, None);
        let condition = self.scalar(inner.condition_value);
        self.builder.ins().brif(condition, body, &[], exit, &[]);
        self.builder.switch_to_block(body);
        self.list(&inner.body, None);
        self.hand_over(inner.next.iter().copied().zip(inner.carries.iter().copied()));
        self.builder.ins().jump(head, &[]);
        self.builder.switch_to_block(exit);
        self.hand_over(inner.carries.iter().copied().zip(step.results.iter().copied()));
    }

    fn case(&mut self, step: &'a Step, inner: &'a Case) {
        let selector = step.operands[0];
        let boolean = self.input.program.values[selector].dtype == DType::I1;
        let mut index = self.scalar(selector);
        let blocks: Vec<Block> =
            inner.branches.iter().map(|_| self.builder.create_block()).collect();
        let exit = self.builder.create_block();
        match blocks[..] {
            [only] => {
                self.builder.ins().jump(only, &[]);
            }
            // True takes the first branch, of an index only zero does.
            [first, second] if boolean => {
                self.builder.ins().brif(index, first, &[], second, &[]);
            }
            [first, second] => {
                self.builder.ins().brif(index, second, &[], first, &[]);
            }
            [..] => {
                if boolean {
                    let (zero, one) = (self.int32(0), self.int32(1));
                    index = self.builder.ins().select(index, zero, one);
                }
                let pool = &mut self.builder.func.dfg.value_lists;
                let calls: Vec<_> =
                    blocks.iter().map(|&block| BlockCall::new(block, [], pool)).collect();
                let default = *calls.last().expect("at least one branch");
                let table = self.builder.create_jump_table(JumpTableData::new(default, &calls));
                self.builder.ins().br_table(index, table);
            }
        }
        for (block, branch) in blocks.into_iter().zip(&inner.branches) {
            self.builder.switch_to_block(block);
            self.list(&branch.steps, None);
            self.hand_over(branch.results.iter().copied().zip(step.results.iter().copied()));
            self.builder.ins().jump(exit, &[]);
        }
        self.builder.switch_to_block(exit);
    }

    /// Starts the blocks of a tile on all threads.
    fn tile(&mut self, step: &'a Step, tile: &'a Tile) {
        let index = self.parts.len() as u32;
        self.parts.push(Part::Tile(step, tile));
        let symbol = Symbol { namespace: namespace::ENTRY, index };
        let function = self.target.import(self.builder, symbol, &[types::I64; 4], &[]);
        let address = self.builder.ins().func_addr(types::I64, function);
        let scratch = self.scratch(step);
        let blocks = self.int(tile.extent.div_ceil(tile.rows) as i64);
        let per_thread = self.int(step.scratch.per_thread.0 as i64);
        self.call(Helper::Tile, &[address, scratch, per_thread, blocks]);
    }

    /// The body of a tile's function `(context, first block, end block, scratch)`.
    fn blocks(&mut self, _step: &'a Step, tile: &'a Tile) {
        let [_, first, end, scratch] = self.params[..] else {
            unreachable!("a tile's function has four parameters")
        };
        let (body, exit) = (self.builder.create_block(), self.builder.create_block());
        let block = self.builder.append_block_param(body, types::I64);
        // The pool gives no empty range.
        self.builder.ins().jump(body, &arguments([first]));
        self.builder.switch_to_block(body);
        let lo = self.builder.ins().imul_imm_s(block, tile.rows as i64);
        let hi = self.builder.ins().iadd_imm_s(lo, tile.rows as i64);
        let extent = self.int(tile.extent as i64);
        let hi = self.builder.ins().smin(hi, extent);
        self.params = vec![self.context, lo, hi];
        let mut locals = FxHashMap::default();
        for &(value, Bytes(offset)) in &tile.locals {
            let row_bytes = self.input.program.values[value].bytes().0 / tile.extent.max(1);
            let (row_bytes, offset) = (row_bytes as i64, offset as i64);
            locals.insert(value, Local { scratch, first_row: lo, row_bytes, offset });
        }
        self.list(&tile.steps, Some(&locals));
        let next = self.builder.ins().iadd_imm_s(block, 1);
        let more = self.builder.ins().icmp(IntCC::SignedLessThan, next, end);
        self.builder.ins().brif(more, body, &arguments([next]), exit, &[]);
        self.builder.switch_to_block(exit);
    }
}

/// Steps, nested ones included.
fn weight(steps: &[Step]) -> usize {
    let nested = |step: &Step| match &step.kind {
        StepKind::While(inner) => weight(&inner.condition) + weight(&inner.body),
        StepKind::Case(inner) => inner.branches.iter().map(|b| weight(&b.steps)).sum(),
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy | StepKind::Tile(_) => 0,
    };
    steps.iter().map(|step| 1 + nested(step)).sum()
}
