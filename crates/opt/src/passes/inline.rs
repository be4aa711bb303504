//! Makes one flat function of a module's entry: every call is replaced by its callee's ops.

use jaxrs_ir::copy::Copied;
use jaxrs_ir::{BlockId, Error, Function, Location, Module, OpId, TensorType};

/// More ops and calls than this while inlining, and the program is refused: calls in a tree double.
const MAX_OPS: usize = 4_000_000;

/// The same for the bytes of all values together, so that sums of sizes fit into 64 bits.
const MAX_BYTES: u64 = 1 << 62;

/// The entry function without calls, or why that cannot be.
pub fn run(module: &Module) -> Result<Function, Vec<Error>> {
    let Some(entry) = module.entry() else {
        let note = "the entry is the function named main, or the only function";
        let error = Error::new("the module has no entry function", &Location::default());
        return Err(vec![error.note(note)]);
    };
    let mut to = Function::new(entry.name.clone());
    to.location = entry.location.clone();
    let mut copied = Copied::default();
    let body = to.body;
    copied.arguments(entry, entry.body, &mut to, body);
    to.parameter_attributes = entry.parameter_attributes.clone();
    to.result_attributes = entry.result_attributes.clone();
    let mut inliner = Inliner { module, to, stack: vec![entry.name.clone()], ops: 0, bytes: 0 };
    for &parameter in entry.parameters().iter().chain(entry.results()) {
        inliner.count(entry.ty(parameter), &entry.location).map_err(|error| vec![error])?;
    }
    inliner.block(entry, entry.body, &mut copied, body).map_err(|error| vec![error])?;
    Ok(inliner.to)
}

struct Inliner<'a> {
    module: &'a Module,
    to: Function,
    stack: Vec<String>,
    ops: usize,
    bytes: u64,
}

impl Inliner<'_> {
    fn block(
        &mut self,
        from: &Function,
        block: BlockId,
        copied: &mut Copied,
        at: BlockId,
    ) -> Result<(), Error> {
        for &op in &from.blocks[block].ops {
            self.op(from, op, copied, at)?;
        }
        self.to.blocks[at].yields = copied.all(&from.blocks[block].yields);
        Ok(())
    }

    fn op(
        &mut self,
        from: &Function,
        op: OpId,
        copied: &mut Copied,
        at: BlockId,
    ) -> Result<(), Error> {
        let data = &from.ops[op];
        self.ops += 1;
        if self.ops > MAX_OPS {
            let message = format!("the program has more than {MAX_OPS} ops with its calls inlined");
            return Err(Error::new(message, &data.location));
        }
        for &result in &data.results {
            self.count(from.ty(result), &data.location)?;
        }
        if let Some(name) = data.op.callee() {
            return self.call(from, op, name, copied, at);
        }
        let mut regions = Vec::new();
        for &region in &data.regions {
            let target = self.to.add_block();
            copied.arguments(from, region, &mut self.to, target);
            self.block(from, region, copied, target)?;
            regions.push(target);
        }
        let operands = copied.all(&data.operands);
        let types = data.results.iter().map(|&v| from.ty(v).clone()).collect();
        let location = data.location.clone();
        let copy = self.to.push_op(at, data.op.clone(), &operands, types, &regions, location);
        for (&old, &new) in data.results.iter().zip(&self.to.ops[copy].results) {
            copied.values.insert(old, new);
        }
        Ok(())
    }

    /// Adds a value's bytes, unless they are too many together.
    fn count(&mut self, ty: &TensorType, location: &Location) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(ty.bytes());
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        let message = "the program's values have more than 2^62 bytes together".to_string();
        Err(Error::new(message, location).note("no machine can hold them"))
    }

    fn call(
        &mut self,
        from: &Function,
        op: OpId,
        name: &str,
        copied: &mut Copied,
        at: BlockId,
    ) -> Result<(), Error> {
        let data = &from.ops[op];
        let Some(callee) = self.module.function(name) else {
            return Err(Error::new(format!("call: there is no function @{name}"), &data.location));
        };
        if self.stack.iter().any(|caller| caller == name) {
            let message = format!("call: @{name} calls itself; recursion cannot be compiled");
            return Err(Error::new(message, &data.location));
        }
        let mut inside = Copied::default();
        for (&parameter, &operand) in callee.parameters().iter().zip(&data.operands) {
            inside.values.insert(parameter, copied.values[&operand]);
        }
        self.stack.push(name.to_string());
        for &inner in &callee.blocks[callee.body].ops {
            self.op(callee, inner, &mut inside, at)?;
        }
        self.stack.pop();
        for (&result, value) in data.results.iter().zip(inside.all(callee.results())) {
            copied.values.insert(result, value);
        }
        Ok(())
    }
}
