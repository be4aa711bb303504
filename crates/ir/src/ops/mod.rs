//! Every op. An elementwise op is one row of [`elementwise::TABLE`]; a structured op is one file
//! here: a struct with its attributes and one implementation of [`StructuredOp`], which has no
//! default methods, so that the compiler lists what is missing.
//!
//! The list at the end of this page's macro call is the whole op set.

pub mod combiner;
pub mod contraction;
pub mod elementwise;
pub mod extreme;
pub mod indexing;
pub mod lapack;
mod linalg;
pub mod monoid;
mod normalization;
#[cfg(test)]
mod random;
pub mod window;

use crate::attribute::Attributes;
use crate::function::{BlockId, Function, OpData, OpId, ValueId};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
pub use elementwise::Elementwise;

/// An op in its function: what `evaluate` and `lower` see beside the attributes.
#[derive(Clone, Copy)]
pub struct OpView<'a> {
    /// The function.
    pub function: &'a Function,
    /// The op.
    pub id: OpId,
}

impl<'a> OpView<'a> {
    /// The op's data.
    pub fn data(self) -> &'a OpData {
        &self.function.ops[self.id]
    }

    /// An operand.
    pub fn operand(self, position: usize) -> ValueId {
        self.data().operands[position]
    }

    /// A result.
    pub fn result(self, position: usize) -> ValueId {
        self.data().results[position]
    }

    /// An operand's type.
    pub fn operand_type(self, position: usize) -> &'a TensorType {
        self.function.ty(self.operand(position))
    }

    /// A result's type.
    pub fn result_type(self, position: usize) -> &'a TensorType {
        self.function.ty(self.result(position))
    }

    /// The results' types.
    pub fn result_types(self) -> Vec<TensorType> {
        self.data().results.iter().map(|&value| self.function.ty(value).clone()).collect()
    }

    /// A region's block.
    pub fn region(self, position: usize) -> BlockId {
        self.data().regions[position]
    }
}

/// Types round an op: what `from_attributes` and `infer` see.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// Operand types.
    pub operands: Vec<TensorType>,
    /// Result types as the text declares them; empty where there is no text.
    pub results: Vec<TensorType>,
    /// Argument and yield types of each region.
    pub regions: Vec<(Vec<TensorType>, Vec<TensorType>)>,
}

impl Signature {
    /// The only declared result type; an error where there is none.
    pub fn declared(&self, what: &str) -> Result<&TensorType, String> {
        self.results.first().ok_or_else(|| format!("{what}: the result type is missing"))
    }

    /// An error unless there are so many operands and regions.
    pub fn expect(&self, what: &str, operands: usize, regions: usize) -> Result<(), String> {
        if self.operands.len() != operands {
            return Err(format!(
                "{what}: expected {operands} operand(s), found {}",
                self.operands.len()
            ));
        }
        if self.regions.len() != regions {
            return Err(format!(
                "{what}: expected {regions} region(s), found {}",
                self.regions.len()
            ));
        }
        Ok(())
    }
}

/// Attribute values that must not be negative.
fn unsigned(values: &[i64], what: &str) -> Result<Vec<u64>, String> {
    let check = |&value: &i64| {
        u64::try_from(value).map_err(|_| format!("{what}: {value} must not be negative"))
    };
    values.iter().map(check).collect()
}

/// Attribute values made of sizes or positions, which `infer` or `from_attributes` bounded.
fn signed(values: &[u64]) -> Vec<i64> {
    values.iter().map(|&value| value as i64).collect()
}

/// An error unless the axes differ from each other.
fn distinct(axes: &[usize], what: &str) -> Result<(), String> {
    match (1..axes.len()).find(|&at| axes[..at].contains(&axes[at])) {
        Some(at) => Err(format!("{what}: axis {} is named twice", axes[at])),
        None => Ok(()),
    }
}

/// An error unless the types are these.
fn same_types(what: &str, found: &[TensorType], expected: &[TensorType]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let list =
        |types: &[TensorType]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(format!("{what} are ({}), not ({})", list(found), list(expected)))
}

/// One structured op.
pub trait StructuredOp: Sized {
    /// StableHLO's names for it, the first being the one printed, e.g. `["stablehlo.slice"]`.
    const NAMES: &'static [&'static str];

    /// The op from its attributes; those that it does not know stay in `attributes` (the parser
    /// reports or drops them). `name` is which of [`StructuredOp::NAMES`] stood in the text.
    /// Every bound that `infer`, `evaluate` and `lower` rely on is checked here or in `infer`.
    fn from_attributes(
        name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String>;

    /// Its attributes, as `from_attributes` reads them.
    fn attributes(&self) -> Attributes;

    /// Result types, or what is wrong with operands, regions or attributes. Never panics.
    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String>;

    /// The results, element by element, by the letter of the specification.
    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String>;

    /// How it is lowered to kernels.
    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a>;
}

macro_rules! ops {
    ($($module:ident :: $op:ident,)*) => {
        $(pub mod $module; pub use $module::$op;)*

        /// An op with its attributes.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            /// A row of the table of elementwise ops.
            Elementwise(Elementwise),
            $(
                #[doc = concat!("See [`", stringify!($op), "`].")]
                $op($op),
            )*
        }

        $(impl From<$op> for Op {
            fn from(op: $op) -> Op {
                Op::$op(op)
            }
        })*

        impl Op {
            /// The op's name, e.g. `stablehlo.add`.
            pub fn name(&self) -> &'static str {
                match self {
                    Op::Elementwise(op) => op.name(),
                    $(Op::$op(_) => $op::NAMES[0],)*
                }
            }

            /// The op with this name, or None where there is none.
            pub fn from_name(
                name: &str,
                attributes: &mut Attributes,
                signature: &Signature,
            ) -> Option<Result<Op, String>> {
                if let Some(op) = Elementwise::from_name(name) {
                    return Some(Ok(Op::Elementwise(op)));
                }
                if name == CustomCall::NAMES[0]
                    && let Some((name, mut inner)) = custom_call::alias(attributes)
                    && let Some(op) = Op::from_name(name, &mut inner, signature)
                {
                    *attributes = inner;
                    return Some(op);
                }
                $(if $op::NAMES.contains(&name) {
                    return Some($op::from_attributes(name, attributes, signature).map(Op::$op));
                })*
                None
            }

            /// Its attributes.
            pub fn attributes(&self) -> Attributes {
                match self {
                    Op::Elementwise(_) => Attributes::new(),
                    $(Op::$op(op) => op.attributes(),)*
                }
            }

            /// Result types, or what is wrong.
            pub fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
                match self {
                    Op::Elementwise(op) => op.infer(signature),
                    $(Op::$op(op) => op.infer(signature),)*
                }
            }

            /// The results for operands.
            pub fn evaluate(
                &self,
                frame: &mut Frame<'_>,
                op: OpView<'_>,
                operands: &[Literal],
            ) -> Result<Vec<Literal>, String> {
                match self {
                    Op::Elementwise(this) => this.evaluate(operands),
                    $(Op::$op(this) => this.evaluate(frame, op, operands),)*
                }
            }

            /// See [`Rules::jvp`].
            pub fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
                match self {
                    Op::Elementwise(this) => this.jvp(cx, op),
                    $(Op::$op(this) => this.jvp(cx, op),)*
                }
            }

            /// See [`Rules::transpose`].
            pub fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
                match self {
                    Op::Elementwise(this) => this.transpose(cx, op),
                    $(Op::$op(this) => Rules::transpose(this, cx, op),)*
                }
            }

            /// See [`Rules::batch`].
            pub fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
                match self {
                    Op::Elementwise(_) => cx.is_elementwise(op),
                    $(Op::$op(this) => this.batch(cx, op),)*
                }
            }
        }

        /// How an op of a function is lowered.
        pub fn lower(function: &Function, id: OpId) -> Lowering<'_> {
            let view = OpView { function, id };
            match &function.ops[id].op {
                Op::Elementwise(op) => op.lower(view),
                $(Op::$op(op) => op.lower(view),)*
            }
        }
    };
}

impl Op {
    /// The function of the module that it calls.
    pub fn callee(&self) -> Option<&str> {
        match self {
            Op::Call(call) => Some(&call.callee),
            Op::Composite(composite) => Some(&composite.decomposition),
            _ => None,
        }
    }

    /// Whether it is the front end's own, which [`crate::transform::lower`] replaces.
    pub fn is_front_end(&self) -> bool {
        matches!(
            self,
            Op::Scan(_)
                | Op::Checkpoint(_)
                | Op::CustomJvp(_)
                | Op::CustomVjp(_)
                | Op::CustomLinear(_)
                | Op::Qr(_)
        )
    }

    /// Its name with what makes it unsupported, if it can be read but neither evaluated nor
    /// compiled.
    pub fn unsupported(&self) -> Option<String> {
        match self {
            Op::CustomCall(call) if !call.is_identity() => {
                Some(format!("{} @{}", self.name(), call.target))
            }
            _ => None,
        }
    }
}

impl From<Elementwise> for Op {
    fn from(op: Elementwise) -> Op {
        Op::Elementwise(op)
    }
}

// The structured ops, in alphabetical order.
ops! {
    batch_norm_grad::BatchNormGrad,
    batch_norm_inference::BatchNormInference,
    batch_norm_training::BatchNormTraining,
    bitcast_convert::BitcastConvert,
    broadcast::Broadcast,
    broadcast_in_dim::BroadcastInDim,
    call::Call,
    case::Case,
    check::Check,
    checkpoint::Checkpoint,
    cholesky::Cholesky,
    clamp::Clamp,
    compare::Compare,
    composite::Composite,
    concatenate::Concatenate,
    constant::Constant,
    constant_like::ConstantLike,
    convert::Convert,
    convolution::Convolution,
    custom_call::CustomCall,
    custom_jvp::CustomJvp,
    custom_linear::CustomLinear,
    custom_vjp::CustomVjp,
    dot_general::DotGeneral,
    dynamic_slice::DynamicSlice,
    dynamic_update_slice::DynamicUpdateSlice,
    eigh::Eigh,
    empty::Empty,
    fft::Fft,
    gather::Gather,
    geqrf::Geqrf,
    get_dimension_size::GetDimensionSize,
    householder_product::HouseholderProduct,
    if_else::If,
    iota::Iota,
    lu::Lu,
    map::Map,
    optimization_barrier::OptimizationBarrier,
    pad::Pad,
    print::Print,
    qr::Qr,
    reduce::Reduce,
    reduce_precision::ReducePrecision,
    reduce_window::ReduceWindow,
    reshape::Reshape,
    reverse::Reverse,
    rng_bit_generator::RngBitGenerator,
    scan::Scan,
    scatter::Scatter,
    select::Select,
    select_and_scatter::SelectAndScatter,
    slice::Slice,
    sort::Sort,
    svd::Svd,
    top_k::TopK,
    transpose::Transpose,
    triangular_solve::TriangularSolve,
    while_loop::While,
}
