//! Modules, functions, blocks, ops and values: dense ids with side tables.

use crate::attribute::Attributes;
use crate::error::Location;
use crate::ops::Op;
use crate::types::TensorType;
use cranelift_entity::{PrimaryMap, entity_impl};

/// A value of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(u32);
entity_impl!(ValueId, "%");

/// An op of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(u32);
entity_impl!(OpId, "op");

/// A block of a function: its body, or a region of an op (StableHLO regions have one block).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(u32);
entity_impl!(BlockId, "block");

/// A module: functions, the first public one named `main` (or the only one) being its entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The module's name, `module` if it has none.
    pub name: String,
    /// Attributes of the module.
    pub attributes: Attributes,
    /// The functions.
    pub functions: Vec<Function>,
}

impl Module {
    /// The function with this name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }

    /// The entry: `main`, or the only function.
    pub fn entry(&self) -> Option<&Function> {
        self.function("main").or(match &self.functions[..] {
            [only] => Some(only),
            _ => None,
        })
    }
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name, without the `@`.
    pub name: String,
    /// Whether it is visible outside the module.
    pub public: bool,
    /// The values.
    pub values: PrimaryMap<ValueId, ValueData>,
    /// The ops.
    pub ops: PrimaryMap<OpId, OpData>,
    /// The blocks.
    pub blocks: PrimaryMap<BlockId, Block>,
    /// The body; its arguments are the function's parameters, its yields the results.
    pub body: BlockId,
    /// Attributes of each parameter, e.g. `tf.aliasing_output`.
    pub parameter_attributes: Vec<Attributes>,
    /// Attributes of each result.
    pub result_attributes: Vec<Attributes>,
    /// Where it is.
    pub location: Location,
}

/// A value's type and maker.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueData {
    /// The type.
    pub ty: TensorType,
    /// What makes it.
    pub def: ValueDef,
}

/// What makes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// An argument of a block.
    Argument(BlockId, u32),
    /// A result of an op.
    Result(OpId, u32),
}

/// An op with its operands, results and regions.
#[derive(Clone, Debug, PartialEq)]
pub struct OpData {
    /// Which op, with its attributes.
    pub op: Op,
    /// The operands.
    pub operands: Vec<ValueId>,
    /// The results.
    pub results: Vec<ValueId>,
    /// The regions' blocks.
    pub regions: Vec<BlockId>,
    /// Where it is.
    pub location: Location,
}

/// A block: ops in order, then a return of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// The arguments.
    pub arguments: Vec<ValueId>,
    /// The ops in order.
    pub ops: Vec<OpId>,
    /// The values its terminator returns.
    pub yields: Vec<ValueId>,
}

impl Function {
    /// A function without parameters, ops or results.
    pub fn new(name: impl Into<String>) -> Function {
        let mut blocks = PrimaryMap::new();
        let body = blocks.push(Block::default());
        Function {
            name: name.into(),
            public: true,
            values: PrimaryMap::new(),
            ops: PrimaryMap::new(),
            blocks,
            body,
            parameter_attributes: Vec::new(),
            result_attributes: Vec::new(),
            location: Location::default(),
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> &[ValueId] {
        &self.blocks[self.body].arguments
    }

    /// The results.
    pub fn results(&self) -> &[ValueId] {
        &self.blocks[self.body].yields
    }

    /// Adds a parameter.
    pub fn add_parameter(&mut self, ty: TensorType) -> ValueId {
        self.parameter_attributes.push(Attributes::new());
        self.add_argument(self.body, ty)
    }

    /// Puts the parameters in another order, with their attributes.
    pub fn reorder_parameters(&mut self, order: Vec<ValueId>) {
        let attributes = order
            .iter()
            .map(|value| {
                let old = self.parameters().iter().position(|v| v == value);
                self.parameter_attributes[old.expect("a parameter")].clone()
            })
            .collect();
        self.parameter_attributes = attributes;
        for (position, &value) in order.iter().enumerate() {
            self.values[value].def = ValueDef::Argument(self.body, position as u32);
        }
        self.blocks[self.body].arguments = order;
    }

    /// Adds an argument to a block.
    pub fn add_argument(&mut self, block: BlockId, ty: TensorType) -> ValueId {
        let position = self.blocks[block].arguments.len() as u32;
        let value = self.values.push(ValueData { ty, def: ValueDef::Argument(block, position) });
        self.blocks[block].arguments.push(value);
        value
    }

    /// Adds an empty block, to become a region.
    pub fn add_block(&mut self) -> BlockId {
        self.blocks.push(Block::default())
    }

    /// Appends an op with results of the given types; nothing is checked here (see
    /// [`crate::verify`]).
    pub fn push_op(
        &mut self,
        block: BlockId,
        op: impl Into<Op>,
        operands: &[ValueId],
        result_types: Vec<TensorType>,
        regions: &[BlockId],
        location: Location,
    ) -> OpId {
        let id = self.ops.push(OpData {
            op: op.into(),
            operands: operands.to_vec(),
            results: Vec::new(),
            regions: regions.to_vec(),
            location,
        });
        for (position, ty) in result_types.into_iter().enumerate() {
            let def = ValueDef::Result(id, position as u32);
            let value = self.values.push(ValueData { ty, def });
            self.ops[id].results.push(value);
        }
        self.blocks[block].ops.push(id);
        id
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &TensorType {
        &self.values[value].ty
    }

    /// The op that makes the value, if it is a result.
    pub fn defining_op(&self, value: ValueId) -> Option<OpId> {
        match self.values[value].def {
            ValueDef::Result(op, _) => Some(op),
            ValueDef::Argument(..) => None,
        }
    }
}
