//! Inside a loop of cheap iterations: kernels written in place, values in registers.

use super::access::Address;
use super::entry::Entry;
use super::nest::{Cell, Nest};
use super::scalar::{Scalars, scalar_type};
use super::tight::Tight;
use cranelift_codegen::ir::{StackSlot, StackSlotData, StackSlotKind, Value};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::Variable;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::{KernelId, Step, StepId, Storage, ValueId};
use rustc_hash::FxHashMap;

/// What the function of a loop keeps.
pub(super) struct Registers<'a> {
    tight: &'a Tight<'a>,
    /// Of the cells and of the values from before the loop.
    variables: FxHashMap<ValueId, Variable>,
    /// The pointers of the called steps, which do not change.
    pub(super) pointers: FxHashMap<StepId, StackSlot>,
}

impl<'b, 'a> Entry<'_, 'b, 'a> {
    /// Declares the variables, reads what comes from before the loop, and fills the pointers.
    pub(super) fn open_registers(&mut self, tight: &'a Tight<'a>) -> Registers<'a> {
        let mut registers =
            Registers { tight, variables: FxHashMap::default(), pointers: FxHashMap::default() };
        let program = self.input.program;
        for &value in tight.cells.keys().chain(&tight.outside) {
            let ty = scalar_type(program.values[value].dtype.reg());
            registers.variables.insert(value, self.builder.declare_var(ty));
        }
        for &value in &tight.outside {
            let initial = self.from_memory(value);
            self.builder.def_var(registers.variables[&value], initial);
        }
        for step in &tight.called {
            let bytes = 8 * (step.operands.len() + step.results.len()).max(1) as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
            let slot = self.builder.create_sized_stack_slot(data);
            self.fill_pointers(step, slot, None);
            registers.pointers.insert(step.id, slot);
        }
        registers
    }

    pub(super) fn is_tight(&self, step: &Step) -> bool {
        self.registers.is_none() && self.input.loops.contains_key(&step.id)
    }

    pub(super) fn is_inlined(&self, step: &Step) -> bool {
        self.registers.as_ref().is_some_and(|r| r.tight.inlined.contains(&step.id))
    }

    /// The cell of a value: its variable, and whether memory holds it, too.
    fn cell(&self, value: ValueId) -> Option<(Variable, bool)> {
        let registers = self.registers.as_ref()?;
        let root = registers.tight.cell(self.input.program, self.input.layout, value)?;
        Some((registers.variables[&root], registers.tight.cells[&root]))
    }

    /// Whether a copy is one between a register and a register or memory.
    pub(super) fn is_scalar(&self, from: ValueId, to: ValueId) -> bool {
        self.cell(from).is_some() || self.cell(to).is_some()
    }

    /// Whether a value's place holds it.
    pub(super) fn is_in_memory(&self, value: ValueId) -> bool {
        self.cell(value).is_none_or(|(_, stored)| stored)
    }

    /// The only element of a value.
    pub(super) fn scalar(&mut self, value: ValueId) -> Value {
        let outside = self.registers.as_ref().and_then(|r| r.variables.get(&value));
        match self.cell(value).map(|c| c.0).or(outside.copied()) {
            Some(variable) => self.builder.use_var(variable),
            None => self.from_memory(value),
        }
    }

    fn from_memory(&mut self, value: ValueId) -> Value {
        let program = self.input.program;
        let dtype = program.values[value].dtype;
        let (root, offset) = self.input.layout.root(program, value);
        if let Storage::Constant(constant) = program.values[root].storage
            && !matches!(dtype, DType::BF16 | DType::F16)
        {
            let mut bits = [0; 8];
            let size = dtype.size() as usize;
            let bytes = &program.constants[constant][offset as usize..][..size];
            bits[..size].copy_from_slice(bytes);
            return self.scalars().constant(dtype.reg(), u64::from_le_bytes(bits));
        }
        let base = self.address(value, None);
        self.scalars().load(dtype, Address { base, offset: 0 })
    }

    fn scalars(&mut self) -> Scalars<'_, 'b> {
        Scalars { builder: &mut *self.builder, target: self.target }
    }

    /// Sets the only element of a value, whose place holds it already if it is `stored`.
    pub(super) fn set(&mut self, value: ValueId, element: Value, stored: bool) {
        let cell = self.cell(value);
        if let Some((variable, _)) = cell {
            self.builder.def_var(variable, element);
        }
        if !stored && cell.is_none_or(|(_, stored)| stored) {
            self.to_memory(value, element);
        }
    }

    fn to_memory(&mut self, value: ValueId, element: Value) {
        let base = self.address(value, None);
        let dtype = self.input.program.values[value].dtype;
        self.scalars().store(dtype, Address { base, offset: 0 }, element);
    }

    /// Before a called step: what it updates stands in memory.
    pub(super) fn flush(&mut self, step: &Step) {
        for &(result, operand) in &step.updates {
            let (result, operand) =
                (step.results[result as usize], step.operands[operand as usize]);
            let layout = self.input.layout;
            let together = layout.place(self.input.program, result)
                == layout.place(self.input.program, operand);
            if self.cell(operand).is_some() && !together {
                let element = self.scalar(operand);
                self.to_memory(result, element);
            }
        }
    }

    /// After a called step: its results are in memory.
    pub(super) fn reload(&mut self, step: &Step) {
        for &result in &step.results {
            if let Some((variable, _)) = self.cell(result) {
                let element = self.from_memory(result);
                self.builder.def_var(variable, element);
            }
        }
    }

    /// Writes a kernel in place.
    pub(super) fn inline(&mut self, step: &Step, id: KernelId) {
        let kernel = &self.input.program.kernels[id];
        for &(result, operand) in &step.updates {
            let (result, operand) =
                (step.results[result as usize], step.operands[operand as usize]);
            if let Some((variable, _)) = self.cell(result) {
                let element = self.scalar(operand);
                self.builder.def_var(variable, element);
            }
        }
        let (mut pointers, mut cells) = (SecondaryMap::new(), SecondaryMap::new());
        let values = step.operands.iter().chain(&step.results);
        for (param, &value) in kernel.params.keys().zip(values) {
            let outside = self.registers.as_ref().and_then(|r| r.variables.get(&value).copied());
            let cell = self.cell(value).or(outside.map(|variable| (variable, false)));
            let address = match cell {
                Some((_, false)) => None,
                _ => Some(self.address(value, None)),
            };
            match cell {
                Some((variable, _)) => {
                    let stored = address.map(|base| Address { base, offset: 0 });
                    cells[param] = Some(Cell { variable, stored });
                }
                None => pointers[param] = address,
            }
        }
        let range = (self.int(0), self.int(kernel.range.unwrap_or(1) as i64));
        let scalars = Scalars { builder: &mut *self.builder, target: self.target };
        let values = SecondaryMap::new();
        Nest { scalars, kernel, pointers, cells, values, range }.block(&kernel.body);
    }
}
