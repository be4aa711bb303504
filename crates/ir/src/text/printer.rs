//! Modules as text that the parser, and JAX, read back.
//!
//! Elementwise ops and the common data movement are printed in StableHLO's pretty forms, everything
//! else in the generic form. Arguments are named `%arg0, %arg1, ...`, results `%0, %1, ...`, in the
//! order of the text.

use super::PrintOptions;
use super::lexer::quote;
use super::print_attributes::{symbol, write_attribute, write_dict, write_ints};
use crate::attribute::{Attribute, Attributes};
use crate::error::Location;
use crate::function::{BlockId, Function, Module, OpData, ValueId};
use crate::ops::{Op, lapack};
use crate::types::TensorType;
use cranelift_entity::SecondaryMap;
use std::fmt::Write;

/// What a value is called.
#[derive(Clone, Copy, Default)]
enum Name {
    /// Not yet met: the text will not parse, but says which value it was.
    #[default]
    Unknown,
    Argument(u32),
    Result(u32),
    /// One of several results.
    Of(u32, u32),
}

/// How a pretty form spells an attribute: `key = value`.
struct Key {
    op: &'static str,
    attribute: &'static str,
    key: &'static str,
}

/// Ops printed as `op operands, key = value, ... : (types) -> types`, all attributes being keys.
const KEYS: &[Key] = &[
    Key { op: "stablehlo.broadcast_in_dim", attribute: "broadcast_dimensions", key: "dims" },
    Key { op: "stablehlo.transpose", attribute: "permutation", key: "dims" },
    Key { op: "stablehlo.reverse", attribute: "dimensions", key: "dims" },
    Key { op: "stablehlo.concatenate", attribute: "dimension", key: "dim" },
    Key { op: "stablehlo.iota", attribute: "iota_dimension", key: "dim" },
    Key { op: "stablehlo.dynamic_slice", attribute: "slice_sizes", key: "sizes" },
    Key { op: "stablehlo.pad", attribute: "edge_padding_low", key: "low" },
    Key { op: "stablehlo.pad", attribute: "edge_padding_high", key: "high" },
    Key { op: "stablehlo.pad", attribute: "interior_padding", key: "interior" },
];

/// Ops without attributes whose pretty form has no more than operands and types.
const PLAIN: &[&str] = &[
    "stablehlo.bitcast_convert",
    "stablehlo.convert",
    "stablehlo.dynamic_update_slice",
    "stablehlo.reshape",
    "stablehlo.clamp",
    "stablehlo.select",
];

pub(super) struct Printer<'a> {
    out: String,
    options: &'a PrintOptions,
    function: &'a Function,
    names: SecondaryMap<ValueId, Name>,
    arguments: u32,
    results: u32,
    indent: usize,
}

/// The module's text.
pub(super) fn module(module: &Module, options: &PrintOptions) -> String {
    let mut out = format!("module {}", symbol(&module.name));
    if !module.attributes.0.is_empty() {
        out.push_str(" attributes ");
        write_dict(&mut out, &module.attributes);
    }
    out.push_str(" {\n");
    for function in &module.functions {
        out.push_str(&self::function(function, options, 1));
    }
    out.push_str("}\n");
    out
}

/// The function's text.
pub(super) fn function(function: &Function, options: &PrintOptions, indent: usize) -> String {
    let mut printer = Printer {
        out: String::new(),
        options,
        function,
        names: SecondaryMap::new(),
        arguments: 0,
        results: 0,
        indent,
    };
    printer.function();
    printer.out
}

impl Printer<'_> {
    fn function(&mut self) {
        let function = self.function;
        self.tabs();
        let visibility = if function.public { "public" } else { "private" };
        self.push("func.func ");
        self.push(visibility);
        self.push(" ");
        self.push(&symbol(&function.name));
        self.push("(");
        let none = Attributes::new();
        for (position, &value) in function.parameters().iter().enumerate() {
            self.separate(position);
            self.argument(value);
            self.dict(function.parameter_attributes.get(position).unwrap_or(&none));
        }
        self.push(")");
        let results = function.results();
        if !results.is_empty() {
            self.push(" -> (");
            for (position, &value) in results.iter().enumerate() {
                self.separate(position);
                self.ty(value);
                self.dict(function.result_attributes.get(position).unwrap_or(&none));
            }
            self.push(")");
        }
        self.push(" {\n");
        self.body(function.body, "return");
        self.tabs();
        self.push("}");
        self.location(&function.location);
        self.push("\n");
    }

    /// The ops of a block and its return.
    fn body(&mut self, block: BlockId, terminator: &str) {
        self.indent += 1;
        let block = &self.function.blocks[block];
        for &op in &block.ops {
            self.tabs();
            let data = &self.function.ops[op];
            self.op(data);
            self.location(&data.location);
            self.push("\n");
        }
        self.tabs();
        self.push(terminator);
        if !block.yields.is_empty() {
            self.push(" ");
            self.values(&block.yields);
            self.push(" : ");
            self.types(&block.yields);
        }
        self.push("\n");
        self.indent -= 1;
    }

    fn op(&mut self, data: &OpData) {
        let number = self.results;
        if !data.results.is_empty() {
            self.results += 1;
        }
        match &data.results[..] {
            [] => {}
            [one] => {
                self.names[*one] = Name::Result(number);
                let _ = write!(self.out, "%{number} = ");
            }
            several => {
                for (position, &value) in several.iter().enumerate() {
                    self.names[value] = Name::Of(number, position as u32);
                }
                let _ = write!(self.out, "%{number}:{} = ", several.len());
            }
        }
        self.op_itself(data);
    }

    /// The op without its results' names.
    fn op_itself(&mut self, data: &OpData) {
        let name = data.op.name();
        let attributes = data.op.attributes();
        match &data.op {
            Op::Elementwise(_) if name.starts_with("stablehlo.") => {
                self.push(name);
                self.push(" ");
                self.values(&data.operands);
                self.push(" : ");
                self.short_signature(data);
            }
            Op::Constant(_) => {
                self.push(name);
                self.push(" ");
                if let Some(value) = attributes.get("value") {
                    write_attribute(&mut self.out, value);
                }
            }
            Op::While(_) => self.while_loop(data),
            _ => match name {
                "func.call" => self.call(data, &attributes),
                "stablehlo.compare" => self.compare(data, &attributes),
                "stablehlo.slice" => self.slice(data, &attributes),
                "stablehlo.dot_general" => self.dot_general(data, &attributes),
                "stablehlo.reduce" if self.reducer(data).is_some() => {
                    self.reduce(data, &attributes);
                }
                name if PLAIN.contains(&name) && attributes.0.is_empty() => {
                    self.push(name);
                    self.push(" ");
                    self.values(&data.operands);
                    self.push(" : ");
                    self.signature(data);
                }
                name if KEYS.iter().any(|key| key.op == name) => self.keyed(data, &attributes),
                _ => match self.custom_call(data) {
                    Some((target, attributes)) => self.target(data, &target, &attributes),
                    None => self.generic(data, &attributes),
                },
            },
        }
    }

    /// The call that an op is in StableHLO, which has no op for it.
    fn custom_call(&self, data: &OpData) -> Option<(String, Attributes)> {
        let types = |values: &[ValueId]| -> Vec<TensorType> {
            values.iter().map(|&value| self.function.ty(value).clone()).collect()
        };
        lapack::export(&data.op, &types(&data.operands), &types(&data.results))
    }

    fn target(&mut self, data: &OpData, target: &str, attributes: &Attributes) {
        self.push("stablehlo.custom_call ");
        self.push(&symbol(target));
        self.push("(");
        self.values(&data.operands);
        self.push(") ");
        write_dict(&mut self.out, attributes);
        self.push(" : ");
        self.signature(data);
    }

    fn generic(&mut self, data: &OpData, attributes: &Attributes) {
        let _ = write!(self.out, "\"{}\"(", data.op.name());
        self.values(&data.operands);
        self.push(")");
        if !attributes.0.is_empty() {
            self.push(" <");
            write_dict(&mut self.out, attributes);
            self.push(">");
        }
        if !data.regions.is_empty() {
            self.push(" (");
            for (position, &block) in data.regions.iter().enumerate() {
                self.separate(position);
                self.push("{\n");
                let arguments = &self.function.blocks[block].arguments;
                if !arguments.is_empty() {
                    self.tabs();
                    self.push("^bb0(");
                    for (position, &value) in arguments.iter().enumerate() {
                        self.separate(position);
                        self.argument(value);
                    }
                    self.push("):\n");
                }
                self.body(block, "stablehlo.return");
                self.tabs();
                self.push("}");
            }
            self.push(")");
        }
        self.push(" : ");
        self.signature(data);
    }

    /// `op operands, key = value, ... : types`.
    fn keyed(&mut self, data: &OpData, attributes: &Attributes) {
        let name = data.op.name();
        self.push(name);
        self.push(" ");
        self.values(&data.operands);
        let keys = KEYS.iter().filter(|key| key.op == name);
        for (position, key) in keys.enumerate() {
            self.separate(position + data.operands.len());
            self.push(key.key);
            self.push(" = ");
            match attributes.get(key.attribute) {
                Some(Attribute::Ints(values, _)) => self.ints(values),
                Some(Attribute::Int(value, _)) => {
                    let _ = write!(self.out, "{value}");
                }
                _ => self.push("[]"),
            }
        }
        self.push(" : ");
        match name {
            "stablehlo.iota" => self.types(&data.results),
            "stablehlo.reverse" => self.short_signature(data),
            _ => self.signature(data),
        }
    }

    fn call(&mut self, data: &OpData, attributes: &Attributes) {
        self.push("func.call ");
        if let Some(Attribute::Symbol(callee)) = attributes.get("callee") {
            self.push(&symbol(callee));
        }
        self.push("(");
        self.values(&data.operands);
        self.push(") : ");
        self.signature(data);
    }

    fn compare(&mut self, data: &OpData, attributes: &Attributes) {
        self.push("stablehlo.compare ");
        if let Some(Attribute::Enum(_, direction)) = attributes.get("comparison_direction") {
            self.push(direction);
        }
        self.push(", ");
        self.values(&data.operands);
        if let Some(Attribute::Enum(_, kind)) = attributes.get("compare_type") {
            self.push(", ");
            self.push(kind);
        }
        self.push(" : ");
        self.signature(data);
    }

    fn slice(&mut self, data: &OpData, attributes: &Attributes) {
        let list = |name: &str| attributes.get(name).and_then(Attribute::ints).unwrap_or_default();
        self.push("stablehlo.slice ");
        self.values(&data.operands);
        self.push(" [");
        let (starts, limits) = (list("start_indices"), list("limit_indices"));
        for (axis, stride) in list("strides").into_iter().enumerate() {
            self.separate(axis);
            let _ = write!(self.out, "{}:{}", starts[axis], limits[axis]);
            if stride != 1 {
                let _ = write!(self.out, ":{stride}");
            }
        }
        self.push("] : ");
        self.signature(data);
    }

    fn dot_general(&mut self, data: &OpData, attributes: &Attributes) {
        let fields = match attributes.get("dot_dimension_numbers") {
            Some(Attribute::Struct(_, fields)) => fields.clone(),
            _ => Attributes::new(),
        };
        let list = |name: &str| fields.get(name).and_then(Attribute::ints).unwrap_or_default();
        self.push("stablehlo.dot_general ");
        self.values(&data.operands);
        let batching = list("lhs_batching_dimensions");
        if !batching.is_empty() {
            self.push(", batching_dims = ");
            self.ints(&batching);
            self.push(" x ");
            self.ints(&list("rhs_batching_dimensions"));
        }
        self.push(", contracting_dims = ");
        self.ints(&list("lhs_contracting_dimensions"));
        self.push(" x ");
        self.ints(&list("rhs_contracting_dimensions"));
        let rest: Vec<_> =
            attributes.0.iter().filter(|(name, _)| name != "dot_dimension_numbers").collect();
        if !rest.is_empty() {
            let rest = Attributes(rest.into_iter().cloned().collect());
            self.push(" ");
            write_dict(&mut self.out, &rest);
        }
        self.push(" : ");
        self.signature(data);
    }

    /// The name of the op that is all of a reduction's region, if the short form can say so.
    fn reducer(&self, data: &OpData) -> Option<&'static str> {
        let &[block] = &data.regions[..] else { return None };
        let block = &self.function.blocks[block];
        let (&[op], &[_, _], &[_, _]) = (&block.ops[..], &block.arguments[..], &data.operands[..])
        else {
            return None;
        };
        let inner = &self.function.ops[op];
        let commutative = [
            "stablehlo.add",
            "stablehlo.and",
            "stablehlo.maximum",
            "stablehlo.minimum",
            "stablehlo.multiply",
            "stablehlo.or",
            "stablehlo.xor",
        ];
        let name = inner.op.name();
        let scalar = TensorType::scalar(self.function.ty(data.operands[0]).dtype);
        let located = self.options.locations
            && (inner.location.source.is_some() || inner.location.name.is_some());
        let plain = commutative.contains(&name)
            && inner.operands == block.arguments
            && inner.results == block.yields
            && *self.function.ty(block.arguments[0]) == scalar
            && *self.function.ty(block.arguments[1]) == scalar
            && !located;
        plain.then_some(name)
    }

    fn reduce(&mut self, data: &OpData, attributes: &Attributes) {
        let Some(reducer) = self.reducer(data) else { return };
        self.push("stablehlo.reduce(");
        self.values(&data.operands[..1]);
        self.push(" init: ");
        self.values(&data.operands[1..]);
        self.push(") applies ");
        self.push(reducer);
        self.push(" across dimensions = ");
        self.ints(&attributes.get("dimensions").and_then(Attribute::ints).unwrap_or_default());
        self.push(" : ");
        self.signature(data);
    }

    fn while_loop(&mut self, data: &OpData) {
        let &[condition, body] = &data.regions[..] else {
            return self.generic(data, &data.op.attributes());
        };
        let function = self.function;
        let arguments = &function.blocks[condition].arguments;
        // Both regions name their arguments alike.
        let first = self.arguments;
        self.push("stablehlo.while(");
        for (position, &operand) in data.operands.iter().enumerate() {
            self.separate(position);
            let _ = write!(self.out, "%arg{} = ", first + position as u32);
            self.values(&[operand]);
        }
        self.push(")");
        if !data.operands.is_empty() {
            self.push(" : ");
            self.types(&data.operands);
        }
        self.arguments += data.operands.len() as u32;
        for (block, word) in [(condition, " cond {\n"), (body, " do {\n")] {
            for (position, &value) in function.blocks[block].arguments.iter().enumerate() {
                self.names[value] = Name::Argument(first + position as u32);
            }
            self.push(word);
            self.body(block, "stablehlo.return");
            self.tabs();
            self.push("}");
        }
        debug_assert_eq!(arguments.len(), data.operands.len());
    }

    // ---- Parts.

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn tabs(&mut self) {
        for _ in 0..self.indent {
            self.push("  ");
        }
    }

    fn separate(&mut self, position: usize) {
        if position > 0 {
            self.push(", ");
        }
    }

    /// `%argN: type`, naming it.
    fn argument(&mut self, value: ValueId) {
        self.names[value] = Name::Argument(self.arguments);
        let _ = write!(self.out, "%arg{}: ", self.arguments);
        self.arguments += 1;
        self.ty(value);
    }

    fn values(&mut self, values: &[ValueId]) {
        for (position, &value) in values.iter().enumerate() {
            self.separate(position);
            let _ = match self.names[value] {
                Name::Unknown => write!(self.out, "%unknown_{}", value.as_u32()),
                Name::Argument(n) => write!(self.out, "%arg{n}"),
                Name::Result(n) => write!(self.out, "%{n}"),
                Name::Of(n, position) => write!(self.out, "%{n}#{position}"),
            };
        }
    }

    fn ty(&mut self, value: ValueId) {
        let _ = write!(self.out, "{}", self.function.ty(value));
    }

    fn types(&mut self, values: &[ValueId]) {
        for (position, &value) in values.iter().enumerate() {
            self.separate(position);
            self.ty(value);
        }
    }

    /// `(types) -> types`.
    fn signature(&mut self, data: &OpData) {
        self.push("(");
        self.types(&data.operands);
        self.push(") -> ");
        if let [one] = data.results[..] {
            self.ty(one);
        } else {
            self.push("(");
            self.types(&data.results);
            self.push(")");
        }
    }

    /// One type if operands and result have the same.
    fn short_signature(&mut self, data: &OpData) {
        let ty = |&value| self.function.ty(value);
        match &data.results[..] {
            [result] if data.operands.iter().all(|operand| ty(operand) == ty(result)) => {
                self.ty(*result);
            }
            _ => self.signature(data),
        }
    }

    fn ints(&mut self, values: &[i64]) {
        write_ints(&mut self.out, values);
    }

    /// ` {attributes}` unless there are none.
    fn dict(&mut self, attributes: &Attributes) {
        if !attributes.0.is_empty() {
            self.push(" ");
            write_dict(&mut self.out, attributes);
        }
    }

    /// ` loc(...)` if locations are printed and there is one.
    fn location(&mut self, location: &Location) {
        if !self.options.locations {
            return;
        }
        let file = location
            .source
            .as_ref()
            .map(|(file, line, column)| format!("{}:{line}:{column}", quote(file)));
        match (&location.name, file) {
            (None, None) => {}
            (None, Some(file)) => {
                let _ = write!(self.out, " loc({file})");
            }
            (Some(name), None) => {
                let _ = write!(self.out, " loc({})", quote(name));
            }
            (Some(name), Some(file)) => {
                let _ = write!(self.out, " loc({}({file}))", quote(name));
            }
        }
    }
}
