//! Functions over arrays with one axis more.

use super::{Rule, at};
use crate::builder::Builder;
use crate::copy::Copied;
use crate::error::{Error, Location};
use crate::function::{BlockId, Function, OpId, ValueId};
use crate::ops::OpView;
use crate::region;
use rustc_hash::FxHashSet;

/// A function over batches.
pub struct Batched {
    /// From parameters to results, of which those flagged have the batch axis, the first one.
    pub function: Function,
    /// Which results have it; the others are the same for the whole batch.
    pub results: Vec<bool>,
}

/// `f` over batches of `size` elements, of which the parameters flagged have one each.
///
/// # Errors
/// If an op that depends on them cannot be batched.
pub fn batch(f: &Function, batched: &[bool], size: u64) -> Result<Batched, Error> {
    let mut out = Function::new(f.name.clone());
    let mut cx = Batch {
        source: f,
        out: &mut out,
        size,
        values: Copied::default(),
        batched: FxHashSet::default(),
        location: Location::default(),
    };
    assert_eq!(f.parameters().len(), batched.len(), "a flag for each parameter");
    for (&parameter, &has_axis) in f.parameters().iter().zip(batched) {
        let mut ty = f.ty(parameter).clone();
        if has_axis {
            ty.shape.insert(0, size);
        }
        let value = cx.out.add_parameter(ty);
        cx.bind(parameter, value, has_axis);
    }
    for &op in &f.blocks[f.body].ops {
        cx.op(op).map_err(|message| at(f, op, message))?;
    }
    let yields = cx.values.all(f.results());
    let results: Vec<bool> = f.results().iter().map(|&v| cx.is_batched(v)).collect();
    out.result_attributes = vec![Default::default(); yields.len()];
    let body = out.body;
    out.blocks[body].yields = yields;
    Ok(Batched { function: out, results })
}

/// What a rule for batching sees and writes to.
pub struct Batch<'a> {
    source: &'a Function,
    out: &'a mut Function,
    size: u64,
    values: Copied,
    batched: FxHashSet<ValueId>,
    location: Location,
}

impl Batch<'_> {
    fn op(&mut self, id: OpId) -> Rule {
        let source = self.source;
        let data = &source.ops[id];
        self.location = data.location.clone();
        let active = data.operands.iter().any(|&v| self.is_batched(v))
            || (!data.regions.is_empty()
                && region::captures(source, id).iter().any(|&v| self.is_batched(v)));
        if active {
            return data.op.batch(self, OpView { function: source, id });
        }
        let body = self.out.body;
        self.values.op(source, id, self.out, body);
        Ok(())
    }

    /// Appends to the batched function.
    pub fn builder(&mut self) -> Builder<'_> {
        let block = self.out.body;
        Builder { function: self.out, block, location: self.location.clone() }
    }

    /// Elements of the batch.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the value of a source value has the batch axis.
    pub fn is_batched(&self, source: ValueId) -> bool {
        self.batched.contains(&source)
    }

    /// The value of a source value, with the batch axis first if [`Batch::is_batched`].
    pub fn value(&self, source: ValueId) -> ValueId {
        self.values.values[&source]
    }

    /// The value of a source value with the batch axis, repeated along it if it has none.
    pub fn full(&mut self, source: ValueId) -> Result<ValueId, String> {
        let value = self.value(source);
        if self.is_batched(source) {
            return Ok(value);
        }
        let size = self.size;
        self.builder().repeat(value, 0, size)
    }

    /// Binds a result of the source function.
    pub fn bind(&mut self, source: ValueId, value: ValueId, batched: bool) {
        self.values.values.insert(source, value);
        if batched {
            self.batched.insert(source);
        }
    }

    /// Appends the op on the values of all operands with the batch axis, regions copied, and
    /// binds its results with it: the rule of an op that takes each element alone.
    pub fn is_elementwise(&mut self, op: OpView<'_>) -> Rule {
        self.with(op, op.data().op.clone())
    }

    /// Appends another op in place of the source's, on the values of all operands with the batch
    /// axis, the regions copied, and binds the results with it.
    pub fn with(&mut self, op: OpView<'_>, replaced: impl Into<crate::ops::Op>) -> Rule {
        let data = op.data();
        if region::captures(op.function, op.id).iter().any(|&v| self.is_batched(v)) {
            let name = data.op.name();
            return Err(format!("{name}: its region uses a batched value of an enclosing block"));
        }
        let mut operands = Vec::with_capacity(data.operands.len());
        for &operand in &data.operands {
            operands.push(self.full(operand)?);
        }
        let mut regions = Vec::with_capacity(data.regions.len());
        for &region in &data.regions {
            regions.push(self.region(op, region));
        }
        let results = self.builder().push(replaced, &operands, &regions)?;
        for (&result, value) in data.results.iter().zip(results) {
            self.bind(result, value, true);
        }
        Ok(())
    }

    /// A copy of a region that uses no batched value of enclosing blocks.
    pub fn region(&mut self, op: OpView<'_>, region: BlockId) -> BlockId {
        self.values.region(op.function, region, self.out)
    }

    /// Appends a function over batches of which the arguments flagged have one: its results, with
    /// whether they have the batch axis.
    pub fn call(
        &mut self,
        f: &Function,
        arguments: &[ValueId],
        batched: &[bool],
    ) -> Result<Vec<(ValueId, bool)>, String> {
        let parts = batch(f, batched, self.size).map_err(|error| error.message)?;
        let results = self.builder().inline(&parts.function, arguments);
        Ok(results.into_iter().zip(parts.results).collect())
    }

    /// Appends a function that does the same as the op on the values of its operands, and binds
    /// the op's results: a rule by decomposition.
    pub fn as_function(&mut self, op: OpView<'_>, f: &Function, operands: &[ValueId]) -> Rule {
        let arguments: Vec<ValueId> = operands.iter().map(|&v| self.value(v)).collect();
        let batched: Vec<bool> = operands.iter().map(|&v| self.is_batched(v)).collect();
        let results = self.call(f, &arguments, &batched)?;
        for (&result, (value, batched)) in op.data().results.iter().zip(results) {
            self.bind(result, value, batched);
        }
        Ok(())
    }
}
