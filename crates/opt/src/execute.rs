//! Runs a program by interpretation, over buffers of its own: what the program means, whatever a
//! plan or a back end makes of it. Kernels run in the kernel interpreter, in pieces and out of
//! order; library calls run as the SSA function they stand for.

use crate::Lowered;
use cranelift_entity::SecondaryMap;
use jaxrs_ir::{Literal, TensorType, interpret};
use jaxrs_kernel::interp::{Place, run_at};
use jaxrs_kernel::program::{
    Case, KernelId, Program, Step, StepKind, Storage, Tile, ValueId, While,
};

/// The program's results for arguments of its parameters' types.
pub fn execute(lowered: &Lowered, arguments: &[Literal]) -> Result<Vec<Literal>, String> {
    let program = &lowered.program;
    let mut machine = Machine { lowered, memory: SecondaryMap::new() };
    for (parameter, argument) in program.parameters.iter().zip(arguments) {
        machine.memory[parameter.value] = Some(argument.to_bytes());
    }
    machine.steps(&program.body)?;
    Ok(program.results.iter().map(|&v| machine.literal(v)).collect())
}

struct Machine<'a> {
    lowered: &'a Lowered,
    memory: SecondaryMap<ValueId, Option<Vec<u8>>>,
}

/// The value that has the bytes, and where in it a value begins.
fn base(program: &Program, value: ValueId) -> (ValueId, u64) {
    match program.values[value].storage {
        Storage::View { base, offset } => (base, offset.0),
        _ => (value, 0),
    }
}

impl Machine<'_> {
    fn program(&self) -> &Program {
        &self.lowered.program
    }

    fn bytes(&self, value: ValueId) -> Vec<u8> {
        let program = self.program();
        let data = &program.values[value];
        let (base, offset) = base(program, value);
        if let Storage::Constant(id) = program.values[base].storage {
            return program.constants[id][offset as usize..][..data.bytes().0 as usize].to_vec();
        }
        let memory = self.memory[base].as_ref();
        let memory = memory.unwrap_or_else(|| panic!("{} is read before it is made", data.name));
        memory[offset as usize..][..data.bytes().0 as usize].to_vec()
    }

    fn literal(&self, value: ValueId) -> Literal {
        let data = &self.program().values[value];
        Literal::dense(TensorType::new(data.shape.clone(), data.dtype), self.bytes(value))
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.kind {
            StepKind::Kernel(kernel) => {
                self.begin(step);
                let range = self.program().kernels[*kernel].range.unwrap_or(1) as i64;
                // Whatever the pieces and their order, the result is the same.
                let middle = range / 3;
                for (lo, hi) in [(middle, range), (0, middle)] {
                    if lo < hi {
                        self.kernel(*kernel, step, lo, hi, &|_| 0);
                    }
                }
            }
            StepKind::Library(_) => {
                let origin = &self.lowered.origins[step.origin.expect("a library call's origin")];
                let operands: Vec<Literal> =
                    step.operands.iter().map(|&v| self.literal(v)).collect();
                let results =
                    interpret::call(None, origin, &operands).map_err(|error| error.message)?;
                for (&value, literal) in step.results.iter().zip(results) {
                    self.memory[value] = Some(literal.to_bytes());
                }
            }
            StepKind::Copy => self.memory[step.results[0]] = Some(self.bytes(step.operands[0])),
            StepKind::While(data) => self.while_loop(step, data)?,
            StepKind::Case(data) => self.case(step, data)?,
            StepKind::Tile(tile) => self.tile(step, tile),
        }
        Ok(())
    }

    /// Gives the results memory: what a step updates, or garbage.
    fn begin(&mut self, step: &Step) {
        for (number, &result) in step.results.iter().enumerate() {
            let update = step.updates.iter().find(|u| u.0 as usize == number);
            let bytes = match update {
                Some(&(_, operand)) => self.bytes(step.operands[operand as usize]),
                None => vec![0xA5; self.program().values[result].bytes().0 as usize],
            };
            self.memory[result] = Some(bytes);
        }
    }

    /// Runs a kernel whose parameters' memory begins `shift` bytes before the values' own.
    fn kernel(
        &mut self,
        id: KernelId,
        step: &Step,
        lo: i64,
        hi: i64,
        shift: &dyn Fn(ValueId) -> i64,
    ) {
        let lowered = self.lowered;
        let mut buffers = Vec::new();
        let mut places = Vec::new();
        let mut owners: Vec<Option<ValueId>> = Vec::new();
        for &value in step.operands.iter().chain(&step.results) {
            let (owner, offset) = base(&lowered.program, value);
            let offset = offset as i64 - shift(owner);
            let known = owners.iter().position(|&o| o == Some(owner));
            let buffer = known.unwrap_or(buffers.len());
            if known.is_none() {
                let constant =
                    matches!(lowered.program.values[owner].storage, Storage::Constant(_));
                buffers.push(if constant {
                    self.bytes(owner)
                } else {
                    let name = &lowered.program.values[owner].name;
                    self.memory[owner].take().unwrap_or_else(|| panic!("{name} is not made yet"))
                });
                owners.push(Some(owner));
            }
            places.push(Place { buffer, offset });
        }
        run_at(&lowered.program.kernels[id], &mut buffers, &places, lo, hi);
        for (owner, buffer) in owners.into_iter().flatten().zip(buffers) {
            self.memory[owner] = Some(buffer);
        }
    }

    fn while_loop(&mut self, step: &Step, data: &While) -> Result<(), String> {
        let mut values: Vec<Vec<u8>> = step.operands.iter().map(|&v| self.bytes(v)).collect();
        loop {
            for (&carry, bytes) in data.carries.iter().zip(&values) {
                self.memory[carry] = Some(bytes.clone());
            }
            self.steps(&data.condition)?;
            if self.bytes(data.condition_value) == [0] {
                break;
            }
            self.steps(&data.body)?;
            values = data.next.iter().map(|&v| self.bytes(v)).collect();
        }
        for (&result, bytes) in step.results.iter().zip(values) {
            self.memory[result] = Some(bytes);
        }
        Ok(())
    }

    fn case(&mut self, step: &Step, data: &Case) -> Result<(), String> {
        let index = self.literal(step.operands[0]).int(0);
        let truth = self.program().values[step.operands[0]].dtype == jaxrs_ir::DType::I1;
        let last = data.branches.len() - 1;
        let taken = match usize::try_from(index) {
            Ok(n) if truth => 1 - n,
            Ok(n) => n.min(last),
            Err(_) => last,
        };
        let branch = &data.branches[taken];
        self.steps(&branch.steps)?;
        let values: Vec<Vec<u8>> = branch.results.iter().map(|&v| self.bytes(v)).collect();
        for (&result, bytes) in step.results.iter().zip(values) {
            self.memory[result] = Some(bytes);
        }
        Ok(())
    }

    fn tile(&mut self, step: &Step, tile: &Tile) {
        let row = |machine: &Self, value: ValueId| {
            machine.program().values[value].bytes().0 / tile.extent
        };
        for &result in &step.results {
            let bytes = self.program().values[result].bytes().0 as usize;
            self.memory[result] = Some(vec![0xA5; bytes]);
        }
        let mut lo = 0;
        while lo < tile.extent {
            let hi = (lo + tile.rows).min(tile.extent);
            for &(local, _) in &tile.locals {
                let bytes = (tile.rows * row(self, local)) as usize;
                self.memory[local] = Some(vec![0xA5; bytes]);
            }
            for inner in &tile.steps {
                let StepKind::Kernel(kernel) = inner.kind else {
                    unreachable!("a tile's steps are kernels")
                };
                let rows: Vec<(ValueId, i64)> = tile
                    .locals
                    .iter()
                    .map(|&(local, _)| (local, (lo * row(self, local)) as i64))
                    .collect();
                let shift = |value: ValueId| rows.iter().find(|r| r.0 == value).map_or(0, |r| r.1);
                self.kernel(kernel, inner, lo as i64, hi as i64, &shift);
            }
            lo = hi;
        }
    }
}
