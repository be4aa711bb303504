//! One step's piece of a value that is made of pieces, computed in the loop's body or, of a known
//! step, after it.

use super::forms::{Form, Known, is_pointwise};
use jaxrs_ir::builder::Builder;
use jaxrs_ir::copy::Copied;
use jaxrs_ir::{BlockId, DType, Function, Literal, Location, Op, TensorType, ValueId, ops, region};
use rustc_hash::FxHashMap;

/// Chains of ops before the loop are followed so far; what lies beyond is sliced.
const DEPTH: u32 = 32;

/// Which step's pieces.
#[derive(Clone, Copy)]
pub enum Step {
    /// This one.
    Known(u64),
    /// The one of this number, of type `i32` or `i64`.
    Value(ValueId),
}

/// A position or an index, known or not.
#[derive(Clone, Copy)]
enum At {
    Known(u64),
    Value(ValueId),
}

/// Appends what computes pieces of one step to a block.
pub struct Pieces<'f> {
    /// The function that grows.
    pub f: &'f mut Function,
    /// The block.
    pub block: BlockId,
    /// The place that new ops get.
    pub location: Location,
    /// Values of enclosing blocks that are used.
    pub outer: Vec<ValueId>,
    known: &'f Known,
    step: Step,
    /// Pieces known or made so far.
    pieces: FxHashMap<(ValueId, Form), ValueId>,
}

impl<'f> Pieces<'f> {
    /// Nothing computed yet.
    pub fn new(f: &'f mut Function, block: BlockId, known: &'f Known, step: Step) -> Pieces<'f> {
        let location = Location::default();
        Pieces { f, block, location, outer: Vec::new(), known, step, pieces: FxHashMap::default() }
    }

    /// Gives the piece of a value.
    pub fn set(&mut self, value: ValueId, piece: ValueId) {
        self.pieces.insert((value, self.known.forms[&value]), piece);
    }

    /// A builder at the end of the block.
    pub fn builder(&mut self) -> Builder<'_> {
        Builder { function: self.f, block: self.block, location: self.location.clone() }
    }

    /// The piece of a value made of pieces.
    pub fn of(&mut self, value: ValueId) -> Result<ValueId, String> {
        self.piece(value, self.known.forms[&value], 0)
    }

    /// The piece of an operand beside others of this form.
    pub fn operand(&mut self, value: ValueId, form: Form) -> Result<ValueId, String> {
        self.piece(value, form, 0)
    }

    fn piece(&mut self, value: ValueId, form: Form, depth: u32) -> Result<ValueId, String> {
        if let Some(&piece) = self.pieces.get(&(value, form)) {
            return Ok(piece);
        }
        let piece = match self.known.forms.get(&value) {
            Some(own) if *own == form => self.made(value, form)?,
            Some(_) => return Err("a value of another form".into()),
            None => self.sliced(value, form, depth)?,
        };
        self.pieces.insert((value, form), piece);
        Ok(piece)
    }

    /// A value that is there before the loop.
    pub fn whole(&mut self, value: ValueId) -> ValueId {
        self.outer.push(value);
        value
    }

    fn one(&mut self, op: impl Into<Op>, operands: &[ValueId]) -> Result<ValueId, String> {
        self.builder().one(op, operands)
    }

    /// The piece's shape of a value's.
    fn shape(&self, value: ValueId, form: Form) -> Vec<u64> {
        let mut shape = self.f.ty(value).shape.clone();
        shape[form.axis] = form.block;
        shape
    }

    /// The piece of a value made of pieces: its op, of pieces.
    fn made(&mut self, value: ValueId, form: Form) -> Result<ValueId, String> {
        let op = self.f.defining_op(value).expect("results of the loop have pieces");
        let data = self.f.ops[op].clone();
        let first = data.operands.iter().find_map(|v| self.known.forms.get(v).copied());
        let from = first.expect("it is made of pieces");
        let shape = self.shape(value, form);
        match data.op {
            op if is_pointwise(&op) => {
                let rank = self.f.ty(value).rank();
                let mut operands = Vec::new();
                for operand in data.operands {
                    let alike = self.f.ty(operand).rank() == 0 && rank > 0;
                    let piece =
                        if alike { self.whole(operand) } else { self.piece(operand, form, 0)? };
                    operands.push(piece);
                }
                self.one(op, &operands)
            }
            Op::BroadcastInDim(op) => {
                let operand = self.piece(data.operands[0], from, 0)?;
                self.one(ops::BroadcastInDim { axes: op.axes, shape }, &[operand])
            }
            Op::Reshape(_) => {
                let operand = self.piece(data.operands[0], from, 0)?;
                self.one(ops::Reshape { shape }, &[operand])
            }
            Op::Reverse(mut op) => {
                let operand = self.piece(data.operands[0], from, 0)?;
                op.axes.retain(|&axis| axis != form.axis || form.block > 1);
                self.one(op, &[operand])
            }
            Op::Slice(mut op) => {
                // A window of steps has the pieces that its operand has.
                let operand = self.piece(data.operands[0], from, 0)?;
                (op.starts[form.axis], op.limits[form.axis]) = (0, form.block);
                self.one(op, &[operand])
            }
            Op::DynamicSlice(_) => {
                let mut operands = vec![self.piece(data.operands[0], from, 0)?];
                for &start in &data.operands[1..] {
                    operands.push(self.whole(start));
                }
                self.one(ops::DynamicSlice { sizes: shape }, &operands)
            }
            Op::Transpose(_) | Op::Concatenate(_) => {
                let mut operands = Vec::new();
                for operand in data.operands {
                    operands.push(self.piece(operand, from, 0)?);
                }
                self.one(data.op, &operands)
            }
            Op::Reduce(reduce) => {
                let (values, inits) = data.operands.split_at(data.operands.len() / 2);
                let mut operands = Vec::new();
                for &operand in values {
                    operands.push(self.piece(operand, from, 0)?);
                }
                for &init in inits {
                    operands.push(self.whole(init));
                }
                let region = self.copied(data.regions[0]);
                let results = self.builder().push(reduce, &operands, &[region])?;
                for (&result, &piece) in data.results.iter().zip(&results) {
                    self.pieces.insert((result, form), piece);
                }
                Ok(self.pieces[&(value, form)])
            }
            other => Err(format!("{} has no pieces", other.name())),
        }
    }

    /// A copy of a region that uses nothing from outside.
    fn copied(&mut self, block: BlockId) -> BlockId {
        let from = region::extract_over(self.f, block, &[]);
        Copied::default().region(&from, from.body, self.f)
    }

    /// The part of a value that is there before the loop at the place of a piece: of a computed
    /// value computed again where its operands are smaller, else a slice.
    fn sliced(&mut self, value: ValueId, form: Form, depth: u32) -> Result<ValueId, String> {
        let shape = self.shape(value, form);
        let dtype = self.f.ty(value).dtype;
        let op = self.f.defining_op(value).filter(|_| depth < DEPTH);
        let data = op.map(|op| self.f.ops[op].clone());
        if let Some(data) = data {
            match data.op {
                Op::Constant(constant) => {
                    if let Some(element) = constant.value.as_splat() {
                        let ty = TensorType::new(shape, dtype);
                        let value = Literal::splat(ty, element);
                        return self.builder().constant(value);
                    }
                }
                Op::Iota(iota) if iota.axis != form.axis => {
                    let ty = TensorType::new(shape, dtype);
                    return self.builder().iota(&ty, iota.axis);
                }
                Op::Iota(_) => {
                    let at = self.position(form, form.block)?;
                    let at = self.as_value(at)?;
                    let ty = TensorType::new(shape.clone(), self.f.ty(at).dtype);
                    let mut b = self.builder();
                    let (here, start) = (b.iota(&ty, form.axis)?, b.splat(at, &shape)?);
                    let sum = b.add(here, start)?;
                    return b.convert(sum, dtype);
                }
                Op::BroadcastInDim(op) => {
                    let operand = data.operands[0];
                    let from = op.axes.iter().position(|&axis| axis == form.axis);
                    let long = from.filter(|&axis| self.f.ty(operand).shape[axis] != 1);
                    let operand = match long {
                        Some(axis) => self.piece(operand, form.along(axis), depth + 1)?,
                        None => self.whole(operand),
                    };
                    return self.one(ops::BroadcastInDim { axes: op.axes, shape }, &[operand]);
                }
                op if is_pointwise(&op) => {
                    let rank = self.f.ty(value).rank();
                    let mut operands = Vec::new();
                    for operand in data.operands {
                        let alike = self.f.ty(operand).rank() == 0 && rank > 0;
                        operands.push(match alike {
                            true => self.whole(operand),
                            false => self.piece(operand, form, depth + 1)?,
                        });
                    }
                    return self.one(op, &operands);
                }
                _ => {}
            }
        }
        let value = self.whole(value);
        match self.position(form, form.block)? {
            At::Known(start) => {
                self.builder().slice_axis(value, form.axis, start, start + form.block)
            }
            At::Value(start) => {
                let starts = self.starts(start, form.axis, shape.len())?;
                let operands: Vec<ValueId> = [value].into_iter().chain(starts).collect();
                self.one(ops::DynamicSlice { sizes: shape }, &operands)
            }
        }
    }

    /// Start indices that are zero but in one axis.
    fn starts(&mut self, start: ValueId, axis: usize, rank: usize) -> Result<Vec<ValueId>, String> {
        let ty = self.f.ty(start).clone();
        let zero = self.builder().zeros(&ty)?;
        Ok((0..rank).map(|other| if other == axis { start } else { zero }).collect())
    }

    fn as_value(&mut self, at: At) -> Result<ValueId, String> {
        match at {
            At::Value(value) => Ok(value),
            At::Known(n) => self.builder().constant(Literal::scalar(DType::I64, &[n])),
        }
    }

    /// Where the step's piece lies along the axis, in elements.
    fn position(&mut self, form: Form, block: u64) -> Result<At, String> {
        let time = match self.step {
            Step::Known(step) => {
                let position = match form.rising {
                    true => step.checked_sub(form.first),
                    false => (form.first + form.count - 1).checked_sub(step),
                };
                return position
                    .map(|n| At::Known(n * block))
                    .ok_or_else(|| "no such piece".into());
            }
            Step::Value(time) => time,
        };
        let ty = self.f.ty(time).clone();
        let mut b = self.builder();
        let mut at = time;
        if !form.rising {
            let last = b.full(&ty, (form.first + form.count - 1) as f64)?;
            at = b.subtract(last, at)?;
        } else if form.first > 0 {
            let first = b.full(&ty, form.first as f64)?;
            at = b.subtract(at, first)?;
        }
        if block > 1 {
            let block = b.full(&ty, block as f64)?;
            at = b.multiply(at, block)?;
        }
        Ok(At::Value(at))
    }

    /// Whether the step is one of the form's; None if all are.
    pub fn inside(&mut self, form: Form, trips: u64) -> Result<Option<ValueId>, String> {
        let Step::Value(time) = self.step else { return Ok(None) };
        let ty = self.f.ty(time).clone();
        let mut b = self.builder();
        let mut out = None;
        if form.first > 0 {
            let first = b.full(&ty, form.first as f64)?;
            out = Some(b.compare(jaxrs_kernel::Compare::Ge, time, first)?);
        }
        if form.first + form.count < trips {
            let end = b.full(&ty, (form.first + form.count) as f64)?;
            let before = b.compare(jaxrs_kernel::Compare::Lt, time, end)?;
            out = Some(match out {
                Some(after) => b.elementwise("stablehlo.and", &[after, before])?,
                None => before,
            });
        }
        Ok(out)
    }

    /// A buffer of the value's type with the step's piece written into its slot.
    pub fn stacked(
        &mut self,
        value: ValueId,
        buffer: ValueId,
        trips: u64,
    ) -> Result<ValueId, String> {
        let form = self.known.forms[&value];
        let mut piece = self.of(value)?;
        let at = self.position(form, form.block)?;
        let at = self.as_value(at)?;
        let starts = self.starts(at, form.axis, self.f.ty(value).rank())?;
        // Steps before the first write its slot, which it overwrites; those after the last must not.
        if form.first + form.count < trips {
            let window = Form { first: 0, count: form.first + form.count, ..form };
            let inside = self.inside(window, trips)?.expect("a step is outside");
            let sizes = self.f.ty(piece).shape.clone();
            let operands: Vec<ValueId> = [buffer].into_iter().chain(starts.clone()).collect();
            let old = self.one(ops::DynamicSlice { sizes }, &operands)?;
            piece = self.builder().select(inside, piece, old)?;
        }
        let operands: Vec<ValueId> = [buffer, piece].into_iter().chain(starts).collect();
        self.one(ops::DynamicUpdateSlice, &operands)
    }
}
