//! Contractions whose sums one kernel takes to its own result, element by element: the kernel is run
//! on the sums block by block as they are finished, and the sums are never whole in memory.

use super::Builder;
use super::tile::Uses;
use crate::kernels::{self, RowKernel};
use jaxrs_kernel::contraction::{Arithmetic, Contraction};
use jaxrs_kernel::program::{
    Dot, Epilogue, EpilogueParam, Library, Sharing, Step, StepKind, Storage, ValueId,
};
use jaxrs_kernel::{DType, ParamId, access, scratch};

/// Sums of fewer bytes than this may well be memory.
const MIN_SAVED: u64 = 8 << 10;
/// Rows, and elements of a row, from which on contractions are computed by blocks.
const MIN_SIDE: u64 = 32;
/// Parameters of an epilogue at most.
const MAX_PARAMS: usize = 12;
/// Axes of a group of a contraction that is computed by blocks, at most.
const MAX_AXES: usize = 16;

impl Builder<'_> {
    /// The steps with kernels taken into contractions; `out` is what leaves the block.
    pub(super) fn with_epilogues(&mut self, steps: Vec<Step>, out: &[ValueId]) -> Vec<Step> {
        let blocks = |step: &Step| match &step.kind {
            StepKind::Library(Library::Dot(dot)) => row(dot).is_some(),
            _ => false,
        };
        if !steps.iter().any(blocks) {
            return steps;
        }
        let uses = Uses::new(self, &steps, out);
        let mut slots: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        // Of two contractions that one kernel reads, the later one is finished by it.
        for at in (0..slots.len()).rev() {
            let Some(dot) = slots[at].as_ref() else { continue };
            let Some(reader) = self.only_reader(dot, &uses, &slots) else { continue };
            let kernel = slots[reader].as_ref().expect("found as a step");
            if let Some(both) = self.joined_with(dot.clone(), kernel.clone()) {
                slots[at] = None;
                slots[reader] = Some(both);
            }
        }
        slots.into_iter().flatten().collect()
    }

    /// The kernel that alone reads what a contraction makes.
    fn only_reader(&self, dot: &Step, uses: &Uses, slots: &[Option<Step>]) -> Option<usize> {
        let &[sums] = &dot.results[..] else { return None };
        let data = &self.program.values[sums];
        let kept = uses.leaves.contains(&sums) || !dot.updates.is_empty();
        if kept || data.storage != Storage::Own || data.bytes().0 < MIN_SAVED {
            return None;
        }
        let &[reader] = &uses.readers.get(&sums)?[..] else { return None };
        let kernel = slots[reader].as_ref()?;
        let direct = kernel.operands.contains(&sums);
        let plain = matches!(kernel.kind, StepKind::Kernel(_)) && kernel.updates.is_empty();
        (direct && plain && kernel.results.len() == 1).then_some(reader)
    }

    /// One step of a contraction and the kernel that reads its sums.
    fn joined_with(&mut self, dot: Step, kernel: Step) -> Option<Step> {
        let (StepKind::Library(Library::Dot(contraction)), StepKind::Kernel(id)) =
            (dot.kind, kernel.kind)
        else {
            return None;
        };
        let row = row(&contraction)?;
        let (sums, result) = (dot.results[0], kernel.results[0]);
        let rows = self.program.values[sums].len() / row;
        if self.program.values[result].len() != rows * row || kernel.operands.len() > MAX_PARAMS {
            return None;
        }
        let RowKernel { kernel: one, steps } =
            kernels::of_one_row(&self.program.kernels[id], rows, row)?;
        let size = |param: usize| one.params[ParamId::from_u32(param as u32)].dtype.size();
        let apart = access::sharing(&one, kernel.operands.len());
        let mut operands = dot.operands.clone();
        let mut sharing = vec![Sharing::Never; operands.len()];
        let mut read = self.sources[&dot.id][0].clone();
        let [from, to] = self.sources[&kernel.id].clone();
        let mut params = Vec::new();
        for (param, &value) in kernel.operands.iter().enumerate() {
            if value == sums {
                (steps[param] == row as i64).then_some(())?;
                params.push(EpilogueParam::Sums);
                continue;
            }
            let known = operands.iter().position(|&v| v == value);
            let operand = known.unwrap_or(operands.len());
            if known.is_none() {
                operands.push(value);
                read.push(from[param]);
                let same = steps[param] == row as i64;
                sharing.push(if same { apart[0][param] } else { Sharing::Never });
            }
            let step = steps[param] * size(param) as i64;
            params.push(EpilogueParam::Operand { operand: operand as u32, step });
        }
        (steps[kernel.operands.len()] == row as i64).then_some(())?;
        let result_row = row * size(kernel.operands.len());
        let epilogue = Box::new(Epilogue { kernel: id, row, params, result_row });
        let library = Library::Dot(Dot { epilogue: Some(epilogue), ..contraction });
        let scratch = scratch::scratch(&library);
        if scratch.per_thread >= self.program.values[sums].bytes() {
            // Finishing them block by block would take more memory than the sums do.
            return None;
        }
        self.program.kernels[id] = one;
        let origin = self.origin(&read, &to);
        let kind = StepKind::Library(library);
        let step = self.step(kind, operands, kernel.results, vec![sharing], Some(origin));
        self.sources.insert(step.id, [read, to]);
        Some(Step { scratch, ..step })
    }
}

/// The elements of a row of the sums, if the contraction may have an epilogue: it is computed by
/// blocks, in `f32`, with rows that lie side by side.
fn row(dot: &Dot) -> Option<u64> {
    let floats = Arithmetic::of(dot.operand_types, dot.out) == Some(Arithmetic::F32);
    if !floats || dot.out != DType::F32 || dot.epilogue.is_some() {
        return None;
    }
    let one = Contraction::of_dot(dot);
    let [left, _, depth] = one.extents();
    let [right] = one.rows[1][..] else { return None };
    let axes = [one.batch.len(), one.rows[0].len(), one.depth.len()];
    let fits = dot.begin[2] == Default::default()
        && one.base[2] == 0
        && right.out == 1
        && axes.iter().all(|&axes| axes <= MAX_AXES)
        && right.extent >= MIN_SIDE
        && left >= MIN_SIDE
        && depth > 0;
    fits.then_some(right.extent)
}
