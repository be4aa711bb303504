//! What a well-formed module is.
//!
//! A module is well formed if:
//!
//! 1. its functions have different names, and one is the entry: `@main`, or the only one;
//! 2. every block that can be reached from a function's body is a region of exactly one op, or the
//!    body itself, and every op stands in exactly one such block;
//! 3. an op's results and a block's arguments are the values that say so of themselves
//!    ([`ValueDef`]), in their order;
//! 4. a value is used only behind the op that makes it in the same block, or inside regions of ops
//!    behind it; an argument only in its block and what that encloses (SSA dominance);
//! 5. an op's results have the types that [`Op::infer`](crate::Op::infer) gives for its operands,
//!    attributes and regions;
//! 6. a call, or a composite, names a function of the module with these parameter and result types;
//! 7. no function calls itself, directly or through others;
//! 8. each parameter and each result has its set of attributes; `tf.aliasing_output` names a result
//!    of as many bytes as the parameter, and no two parameters name the same one; it and
//!    `jax.buffer_donor` stand on parameters of the entry only, or mean nothing;
//! 9. regions are nested at most [`MAX_NESTING`] deep.

use crate::attribute::Attribute;
use crate::error::{Error, Errors, Location};
use crate::function::{BlockId, Function, Module, OpData, OpId, ValueDef, ValueId};
use crate::ops::Signature;
use crate::types::TensorType;
use cranelift_entity::EntitySet;
use rustc_hash::FxHashMap;

/// Regions may not be nested deeper, so that whoever walks them may recurse.
pub const MAX_NESTING: u32 = 200;

/// Says all that is wrong with a module. `file` names the program in errors.
pub fn verify(module: &Module, file: &str) -> Result<(), Errors> {
    let mut errors = Vec::new();
    check_names(module, &mut errors);
    for function in &module.functions {
        errors.extend(verify_function(function, Some(module)));
    }
    check_recursion(module, &mut errors);
    if let Some(entry) = module.entry() {
        check_donation(entry, &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(Errors { file: file.into(), errors }) }
}

/// Says all that is wrong with a function by itself; calls are checked if the module is given.
pub fn verify_function(function: &Function, module: Option<&Module>) -> Vec<Error> {
    let mut verifier = Verifier {
        function,
        module,
        visible: EntitySet::new(),
        blocks: EntitySet::new(),
        ops: EntitySet::new(),
        errors: Vec::new(),
    };
    verifier.attributes();
    verifier.block(function.body, &function.location, 0);
    verifier.errors
}

fn check_names(module: &Module, errors: &mut Vec<Error>) {
    let mut seen = FxHashMap::default();
    for function in &module.functions {
        if seen.insert(function.name.as_str(), ()).is_some() {
            let message = format!("there are two functions @{}", function.name);
            errors.push(Error::new(message, &function.location));
        }
    }
    if module.entry().is_none() {
        let message = "the module has no entry: name one function @main";
        errors.push(Error::new(message, &Location::default()));
    }
}

fn check_recursion(module: &Module, errors: &mut Vec<Error>) {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let numbers: FxHashMap<&str, usize> =
        module.functions.iter().enumerate().map(|(n, f)| (f.name.as_str(), n)).collect();
    let calls: Vec<Vec<(usize, OpId)>> = module
        .functions
        .iter()
        .map(|f| {
            let called = |(id, data): (OpId, &OpData)| Some((*numbers.get(data.op.callee()?)?, id));
            f.ops.iter().filter_map(called).collect()
        })
        .collect();
    let mut states = vec![State::New; calls.len()];
    for root in 0..calls.len() {
        // Functions being visited, each with the number of its next call; not recursive, since a
        // chain of calls may be long.
        let mut open = vec![(root, 0)];
        while let Some((function, next)) = open.last_mut() {
            if *next == 0 && states[*function] != State::New {
                open.pop();
                continue;
            }
            states[*function] = State::Open;
            let Some(&(called, op)) = calls[*function].get(*next) else {
                states[*function] = State::Done;
                open.pop();
                continue;
            };
            *next += 1;
            match states[called] {
                State::New => open.push((called, 0)),
                State::Done => {}
                State::Open => {
                    let caller = &module.functions[*function];
                    let message = format!(
                        "@{} calls @{}, which calls it again: recursion is not StableHLO",
                        caller.name, module.functions[called].name
                    );
                    errors.push(Error::new(message, &caller.ops[op].location));
                }
            }
        }
    }
}

fn check_donation(entry: &Function, errors: &mut Vec<Error>) {
    let mut taken: FxHashMap<i128, usize> = FxHashMap::default();
    for (position, attributes) in entry.parameter_attributes.iter().enumerate() {
        let Some(value) = attributes.get("tf.aliasing_output") else { continue };
        let mut fault = |message: String, note: &str| {
            let message = format!("parameter {position} of @{}: {message}", entry.name);
            errors.push(Error::new(message, &entry.location).note(note));
        };
        let Attribute::Int(output, _) = value else {
            fault("tf.aliasing_output is no integer".into(), "write tf.aliasing_output = 0 : i32");
            continue;
        };
        let result = usize::try_from(*output).ok().and_then(|n| entry.results().get(n));
        let (Some(&result), Some(&parameter)) = (result, entry.parameters().get(position)) else {
            let count = entry.results().len();
            fault(
                format!("tf.aliasing_output = {output}, but there are {count} results"),
                "results are numbered from 0",
            );
            continue;
        };
        let (from, to) = (entry.ty(parameter), entry.ty(result));
        if from.bytes() != to.bytes() {
            fault(
                format!(
                    "it is {from} of {} bytes, and cannot become result {output}, {to} of {} bytes",
                    from.bytes(),
                    to.bytes()
                ),
                "donate it without a result: jax.buffer_donor = true",
            );
        }
        if let Some(other) = taken.insert(*output, position) {
            fault(
                format!("result {output} is aliased by parameter {other}, too"),
                "a result takes one donated parameter; mark the other jax.buffer_donor = true",
            );
        }
    }
}

struct Verifier<'a> {
    function: &'a Function,
    module: Option<&'a Module>,
    /// Values that may be used here.
    visible: EntitySet<ValueId>,
    blocks: EntitySet<BlockId>,
    ops: EntitySet<OpId>,
    errors: Vec<Error>,
}

impl Verifier<'_> {
    fn fault(&mut self, message: String, location: &Location) {
        self.errors.push(Error::new(message, location));
    }

    fn attributes(&mut self) {
        let function = self.function;
        let name = &function.name;
        for (what, values, attributes) in [
            ("parameters", function.parameters().len(), &function.parameter_attributes),
            ("results", function.results().len(), &function.result_attributes),
        ] {
            if values != attributes.len() {
                let count = attributes.len();
                let message = format!("@{name} has {values} {what}, but attributes of {count}");
                self.fault(message, &function.location);
            }
        }
    }

    /// Checks a block with all it encloses; `location` is that of what the block belongs to.
    fn block(&mut self, id: BlockId, location: &Location, nesting: u32) {
        let function = self.function;
        if nesting > MAX_NESTING {
            self.fault(format!("regions are nested deeper than {MAX_NESTING}"), location);
            return;
        }
        let Some(block) = function.blocks.get(id) else {
            self.fault(format!("{id} does not exist"), location);
            return;
        };
        if !self.blocks.insert(id) {
            self.fault(format!("{id} is a region twice"), location);
            return;
        }
        for (position, &value) in block.arguments.iter().enumerate() {
            self.define(value, ValueDef::Argument(id, position as u32), location);
        }
        for &op in &block.ops {
            let Some(data) = function.ops.get(op) else {
                self.fault(format!("{op} does not exist"), location);
                continue;
            };
            if !self.ops.insert(op) {
                let message = format!("{} stands in two places", data.op.name());
                self.fault(message, &data.location);
                continue;
            }
            let mut sound = self.uses(&data.operands, data.op.name(), &data.location);
            let before = self.errors.len();
            for &region in &data.regions {
                self.block(region, &data.location, nesting + 1);
            }
            sound &= self.errors.len() == before;
            for (position, &value) in data.results.iter().enumerate() {
                self.define(value, ValueDef::Result(op, position as u32), &data.location);
            }
            if sound {
                self.types(data);
                self.call(data);
            }
        }
        self.uses(&block.yields, "return", location);
        // What is defined here is not visible outside.
        for &value in &block.arguments {
            self.visible.remove(value);
        }
        for &op in &block.ops {
            if let Some(data) = function.ops.get(op) {
                for &value in &data.results {
                    self.visible.remove(value);
                }
            }
        }
    }

    fn define(&mut self, value: ValueId, def: ValueDef, location: &Location) {
        match self.function.values.get(value) {
            None => self.fault(format!("{value} does not exist"), location),
            Some(data) if data.def != def => {
                let message = format!("{value} is {def:?}, but says it is {:?}", data.def);
                self.fault(message, location);
            }
            Some(_) => {
                self.visible.insert(value);
            }
        }
    }

    /// Whether all values may be used here.
    fn uses(&mut self, values: &[ValueId], what: &str, location: &Location) -> bool {
        let mut sound = true;
        for (position, &value) in values.iter().enumerate() {
            let exists = self.function.values.is_valid(value);
            if exists && self.visible.contains(value) {
                continue;
            }
            sound = false;
            let ty = match self.function.values.get(value) {
                Some(data) => format!(" ({})", data.ty),
                None => String::new(),
            };
            self.fault(
                format!("{what}: operand {position}{ty} is not defined before its use"),
                location,
            );
        }
        sound
    }

    fn types_of(&self, values: &[ValueId]) -> Vec<TensorType> {
        values.iter().map(|&v| self.function.ty(v).clone()).collect()
    }

    fn types(&mut self, data: &OpData) {
        let signature = Signature {
            operands: self.types_of(&data.operands),
            results: self.types_of(&data.results),
            regions: data
                .regions
                .iter()
                .map(|&block| {
                    let block = &self.function.blocks[block];
                    (self.types_of(&block.arguments), self.types_of(&block.yields))
                })
                .collect(),
        };
        let name = data.op.name();
        let operands = || format!("operands: {}", list(&signature.operands));
        match data.op.infer(&signature) {
            Err(message) => {
                self.errors.push(Error::new(message, &data.location).note(operands()));
            }
            Ok(types) if types == signature.results => {}
            Ok(types) => {
                let message = format!(
                    "{name}: the results are {}, but follow to be {}",
                    list(&signature.results),
                    list(&types)
                );
                self.errors.push(Error::new(message, &data.location).note(operands()));
            }
        }
    }

    fn call(&mut self, data: &OpData) {
        let (Some(module), Some(callee)) = (self.module, data.op.callee()) else { return };
        let name = data.op.name();
        let Some(function) = module.function(callee) else {
            let message = format!("{name}: there is no function @{callee}");
            self.errors.push(Error::new(message, &data.location).note(
                match &module.functions[..] {
                    [] => "the module has no functions".to_string(),
                    functions => {
                        let names: Vec<_> =
                            functions.iter().take(8).map(|f| format!("@{}", f.name)).collect();
                        format!("functions: {}", names.join(", "))
                    }
                },
            ));
            return;
        };
        let of = |values: &[ValueId]| -> Vec<TensorType> {
            let known = values.iter().filter_map(|&v| function.values.get(v));
            known.map(|data| data.ty.clone()).collect()
        };
        for (what, here, there) in [
            ("operands", self.types_of(&data.operands), of(function.parameters())),
            ("results", self.types_of(&data.results), of(function.results())),
        ] {
            if here != there {
                let message = format!(
                    "{name} of @{callee}: {what} are {}, not {}",
                    list(&here),
                    list(&there)
                );
                let error = Error::new(message, &data.location);
                let (line, column) = function.location.text;
                self.errors.push(if line > 0 {
                    error.note(format!("@{callee} is at {line}:{column}"))
                } else {
                    error
                });
            }
        }
    }
}

fn list(types: &[TensorType]) -> String {
    let types: Vec<_> = types.iter().map(ToString::to_string).collect();
    format!("({})", types.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use cranelift_entity::EntityRef;

    fn faults(source: &str) -> String {
        let module = text::parse(source, "t.mlir").unwrap_or_else(|errors| panic!("{errors}"));
        verify(&module, "t.mlir").expect_err("faults").to_string()
    }

    fn check(source: &str, expected: &[&str]) {
        let text = faults(source);
        for part in expected {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }

    const HEAD: &str = "func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n";

    #[test]
    fn sound() {
        let source = format!(
            "{HEAD}  %0 = call @g(%arg0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : \
             tensor<4xf32>\n}}\nfunc.func private @g(%arg0: tensor<4xf32>) -> tensor<4xf32> {{\n  \
             return %arg0 : tensor<4xf32>\n}}\n"
        );
        let module = text::parse(&source, "t.mlir").expect("parses");
        assert_eq!(verify(&module, "t.mlir"), Ok(()));
    }

    #[test]
    fn wrong_result_type() {
        let source = format!(
            "{HEAD}  %0 = stablehlo.transpose %arg0, dims = [0] : (tensor<4xf32>) -> \
             tensor<5xf32>\n  return %arg0 : tensor<4xf32>\n}}\n"
        );
        check(
            &source,
            &["follow to be (tensor<4xf32>)", "t.mlir:2:8", "operands: (tensor<4xf32>)"],
        );
    }

    #[test]
    fn calls() {
        let source = format!(
            "{HEAD}  %0 = call @h(%arg0) : (tensor<4xf32>) -> tensor<4xf32>\n  %1 = call \
             @g(%arg0) : (tensor<4xf32>) -> tensor<5xf32>\n  return %0 : tensor<4xf32>\n}}\n\
             func.func private @g(%arg0: tensor<4xf32>) -> tensor<4xf32> {{\n  %0 = call \
             @main(%arg0) : (tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}}\n"
        );
        check(
            &source,
            &["there is no function @h", "results are (tensor<5xf32>), not", "recursion"],
        );
    }

    #[test]
    fn donation() {
        check(
            "func.func @main(%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %arg1: \
             tensor<5xf32> {tf.aliasing_output = 0 : i32}, %arg2: tensor<4xf32> \
             {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {\n  return %arg0 : \
             tensor<4xf32>\n}\n",
            &[
                "but there are 1 results",
                "20 bytes, and cannot become result 0",
                "parameter 1, too",
            ],
        );
    }

    /// Faults that no text can have.
    #[test]
    fn structure() {
        let ty = TensorType::scalar(jaxrs_kernel::DType::F32);
        let mut f = Function::new("main");
        let a = f.add_parameter(ty.clone());
        let block = f.add_block();
        let late = ValueId::new(3);
        let place = Location::default();
        let add = crate::ops::Elementwise::from_name("stablehlo.add").expect("a row");
        let op =
            f.push_op(f.body, add, &[a, late], vec![ty.clone()], &[block, block], place.clone());
        f.push_op(f.body, add, &[a, a], vec![ty.clone()], &[], place);
        f.blocks[f.body].ops.push(op);
        f.blocks[f.body].yields = vec![a];
        let errors: Vec<String> =
            verify_function(&f, None).into_iter().map(|error| error.message).collect();
        let text = errors.join("\n");
        for part in
            ["not defined before its use", "a region twice", "two places", "attributes of 0"]
        {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}
