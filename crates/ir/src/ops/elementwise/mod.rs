//! The elementwise ops: one row each.
//!
//! A row gives the name, the types it takes, the derivative ([`Derivative`]), and the body: the op
//! on one element, as kernel instructions. The interpreter evaluates that body, and every back end
//! compiles it, so that both give the same bits. How exact the bodies are is tested apart, in
//! `tests/accuracy.rs`.
//!
//! A body has no loops and no loads, so that it can stand in a vector loop, and branches only where
//! one side is rare. `bf16` and `f16` elements are `f32` registers; the body computes in `f32`, and the
//! result is rounded once unless the row says that it is `Row::exact`. Complex functions of
//! `complex<f32>` are computed in `f64` and rounded once.

mod arithmetic;
mod bessel;
mod bits;
mod complex;
mod complex_functions;
mod derivative;
mod error_function;
mod evaluate;
mod exponential;
mod gamma;
mod inverse;
mod logarithm;
mod math;
mod partials;
mod parts;
mod power;
mod roots;
mod trigonometric;

use super::{OpView, Signature};
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::types::TensorType;
use Derivative::{Bilinear, Linear, Special, Zero};
use ElementCost::{Cheap, Expensive, Free};
use complex_functions as functions;
pub use derivative::{Derivative, Formula, Partial, Transposed};
pub use evaluate::{over_elements, single};
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{DType, Kernel, KernelBuilder, UnaryOp};
use math::{real, real2};
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock, Mutex};

/// An elementwise op: a row of [`TABLE`].
#[derive(Clone, Copy)]
pub struct Elementwise(&'static Row);

/// The op on one element of the operands' type.
pub type Body = fn(&mut KernelBuilder, DType, &[Scalar]) -> Scalar;

/// What a row says.
pub struct Row {
    /// StableHLO's name.
    pub name: &'static str,
    /// Operands.
    pub arity: usize,
    /// Whether it takes the element type; all operands have one type.
    pub accepts: fn(DType) -> bool,
    /// The result's element type for the operands'.
    pub result: fn(DType) -> DType,
    /// What an element costs.
    pub cost: ElementCost,
    /// Its derivative.
    pub derivative: Derivative,
    /// Whether the body's result for 16-bit floats is one without rounding.
    pub exact: bool,
    /// The op on one element, before rounding to a 16-bit float.
    pub body: Body,
}

/// Every elementwise op.
pub static TABLE: &[Row] = &[
    // Arithmetic.
    row("stablehlo.add", 2, any, Cheap, partials::ADD, |b, d, x| arithmetic::add(b, d, x[0], x[1])),
    row("stablehlo.subtract", 2, number, Cheap, partials::SUBTRACT, |b, _, x| {
        arithmetic::subtract(b, x[0], x[1])
    }),
    row("stablehlo.multiply", 2, any, Cheap, Bilinear, |b, d, x| {
        arithmetic::multiply(b, d, x[0], x[1])
    }),
    row("stablehlo.divide", 2, number, Expensive, partials::DIVIDE, |b, d, x| {
        arithmetic::divide(b, d, x[0], x[1])
    }),
    row(
        "stablehlo.remainder",
        2,
        int_or_float,
        Expensive,
        partials::REMAINDER,
        arithmetic::remainder,
    ),
    row("stablehlo.maximum", 2, any, Cheap, partials::EXTREME, arithmetic::maximum).exact(),
    row("stablehlo.minimum", 2, any, Cheap, partials::EXTREME, arithmetic::minimum).exact(),
    row("stablehlo.negate", 1, number, Cheap, partials::NEGATE, |b, _, x| {
        arithmetic::negate(b, x[0])
    })
    .exact(),
    row("stablehlo.abs", 1, signed, Cheap, Special(partials::abs), arithmetic::abs)
        .gives(DType::part)
        .exact(),
    row("stablehlo.sign", 1, signed, Cheap, Special(partials::sign), arithmetic::sign).exact(),
    row("chlo.square", 1, number, Cheap, partials::SQUARE, |b, d, x| {
        arithmetic::multiply(b, d, x[0], x[0])
    }),
    // Rounding.
    row("stablehlo.floor", 1, float, Cheap, Zero, |b, _, x| parts::unary(b, UnaryOp::Floor, x))
        .exact(),
    row("stablehlo.ceil", 1, float, Cheap, Zero, |b, _, x| parts::unary(b, UnaryOp::Ceil, x))
        .exact(),
    row("stablehlo.round_nearest_even", 1, float, Cheap, Zero, |b, _, x| {
        parts::unary(b, UnaryOp::Nearest, x)
    })
    .exact(),
    row("stablehlo.round_nearest_afz", 1, float, Cheap, Zero, |b, _, x| {
        real(b, x, parts::round_away)
    })
    .exact(),
    // Bits.
    row("stablehlo.and", 2, bits, Cheap, Zero, bits::and),
    row("stablehlo.or", 2, bits, Cheap, Zero, bits::or),
    row("stablehlo.xor", 2, bits, Cheap, Zero, bits::xor),
    row("stablehlo.not", 1, bits, Cheap, Zero, |b, _, x| parts::unary(b, UnaryOp::Not, x)),
    row("stablehlo.shift_left", 2, int, Cheap, Zero, bits::shift_left),
    row("stablehlo.shift_right_arithmetic", 2, int, Cheap, Zero, bits::shift_right_arithmetic),
    row("stablehlo.shift_right_logical", 2, int, Cheap, Zero, bits::shift_right_logical),
    row("stablehlo.popcnt", 1, int, Cheap, Zero, |b, _, x| parts::unary(b, UnaryOp::Popcnt, x)),
    row("stablehlo.count_leading_zeros", 1, int, Cheap, Zero, |b, _, x| {
        parts::unary(b, UnaryOp::Clz, x)
    }),
    row("chlo.mulhi", 2, int, Expensive, Zero, bits::multiply_high),
    // Parts of numbers and tests of them.
    row("stablehlo.real", 1, inexact, Free, Linear(partials::real), |_, _, x| parts::re(x[0]))
        .gives(DType::part)
        .exact(),
    row("stablehlo.imag", 1, inexact, Free, Linear(partials::imag), |b, _, x| parts::im(b, x[0]))
        .gives(DType::part)
        .exact(),
    row("stablehlo.complex", 2, pair, Free, Linear(partials::complex), |_, _, x| {
        Scalar::Complex(x[0].real(), x[1].real())
    })
    .gives(parts::complex_of),
    row("chlo.conj", 1, inexact, Cheap, Linear(partials::conj), |b, _, x| parts::conj(b, x[0]))
        .exact(),
    row("stablehlo.is_finite", 1, float, Cheap, Zero, |b, _, x| real(b, x, parts::is_finite))
        .gives(truth),
    row("chlo.is_inf", 1, float, Cheap, Zero, |b, _, x| real(b, x, parts::is_inf)).gives(truth),
    row("chlo.is_pos_inf", 1, float, Cheap, Zero, |b, _, x| real(b, x, parts::is_pos_inf))
        .gives(truth),
    row("chlo.is_neg_inf", 1, float, Cheap, Zero, |b, _, x| real(b, x, parts::is_neg_inf))
        .gives(truth),
    row("chlo.next_after", 2, float, Cheap, partials::NEXT_AFTER, parts::next_after).exact(),
    // Roots and powers.
    row("stablehlo.sqrt", 1, inexact, Expensive, partials::SQRT, |b, _, x| {
        complex::or_real(b, x, roots::sqrt, complex::sqrt)
    }),
    row("stablehlo.rsqrt", 1, inexact, Expensive, partials::RSQRT, |b, _, x| {
        complex::or_real(b, x, roots::rsqrt, functions::rsqrt)
    }),
    row("stablehlo.cbrt", 1, inexact, Expensive, partials::CBRT, |b, _, x| {
        complex::or_real(b, x, roots::cbrt, functions::cbrt)
    }),
    row("stablehlo.power", 2, number, Expensive, partials::POWER, power),
    // Exponentials and logarithms.
    row("stablehlo.exponential", 1, inexact, Expensive, partials::EXP, |b, _, x| {
        complex::or_real(b, x, exponential::exp, functions::exp)
    }),
    row("stablehlo.exponential_minus_one", 1, inexact, Expensive, partials::EXPM1, |b, _, x| {
        complex::or_real(b, x, exponential::expm1, functions::expm1)
    }),
    row("stablehlo.log", 1, inexact, Expensive, partials::LOG, |b, _, x| {
        complex::or_real(b, x, logarithm::log, functions::log)
    }),
    row("stablehlo.log_plus_one", 1, inexact, Expensive, partials::LOG1P, |b, _, x| {
        complex::or_real(b, x, logarithm::log1p, functions::log1p)
    }),
    row("stablehlo.logistic", 1, inexact, Expensive, partials::LOGISTIC, |b, _, x| {
        complex::or_real(b, x, exponential::logistic, functions::logistic)
    }),
    row("stablehlo.tanh", 1, inexact, Expensive, partials::TANH, |b, _, x| {
        complex::or_real(b, x, exponential::tanh, functions::tanh)
    }),
    row("chlo.sinh", 1, inexact, Expensive, partials::SINH, |b, _, x| {
        complex::or_real(b, x, exponential::sinh, functions::sinh)
    }),
    row("chlo.cosh", 1, inexact, Expensive, partials::COSH, |b, _, x| {
        complex::or_real(b, x, exponential::cosh, functions::cosh)
    }),
    row("chlo.asinh", 1, inexact, Expensive, partials::ASINH, |b, _, x| {
        complex::or_real(b, x, inverse::asinh, functions::asinh)
    }),
    row("chlo.acosh", 1, inexact, Expensive, partials::ACOSH, |b, _, x| {
        complex::or_real(b, x, inverse::acosh, functions::acosh)
    }),
    row("chlo.atanh", 1, inexact, Expensive, partials::ATANH, |b, _, x| {
        complex::or_real(b, x, inverse::atanh, functions::atanh)
    }),
    // Angles.
    row("stablehlo.sine", 1, inexact, Expensive, partials::SINE, |b, _, x| {
        complex::or_real(b, x, trigonometric::sin, functions::sin)
    }),
    row("stablehlo.cosine", 1, inexact, Expensive, partials::COSINE, |b, _, x| {
        complex::or_real(b, x, trigonometric::cos, functions::cos)
    }),
    row("stablehlo.tan", 1, inexact, Expensive, partials::TAN, |b, _, x| {
        complex::or_real(b, x, trigonometric::tan, functions::tan)
    }),
    row("chlo.asin", 1, inexact, Expensive, partials::ASIN, |b, _, x| {
        complex::or_real(b, x, inverse::asin, functions::asin)
    }),
    row("chlo.acos", 1, inexact, Expensive, partials::ACOS, |b, _, x| {
        complex::or_real(b, x, inverse::acos, functions::acos)
    }),
    row("chlo.atan", 1, inexact, Expensive, partials::ATAN, |b, _, x| {
        complex::or_real(b, x, inverse::atan, functions::atan)
    }),
    row("stablehlo.atan2", 2, inexact, Expensive, partials::ATAN2, |b, _, x| {
        complex::or_real2(b, x, inverse::atan2, functions::atan2)
    }),
    // Special functions.
    row("chlo.erf", 1, float, Expensive, partials::ERF, |b, _, x| real(b, x, error_function::erf)),
    row("chlo.erfc", 1, float, Expensive, partials::ERFC, |b, _, x| {
        real(b, x, error_function::erfc)
    }),
    row("chlo.erf_inv", 1, float, Expensive, partials::ERF_INV, |b, _, x| {
        real(b, x, error_function::erf_inv)
    }),
    row("chlo.bessel_i1e", 1, float, Expensive, partials::BESSEL_I1E, |b, _, x| {
        real(b, x, bessel::bessel_i1e)
    }),
    row("chlo.lgamma", 1, float, Expensive, partials::LGAMMA, |b, _, x| real(b, x, gamma::lgamma)),
    row("chlo.digamma", 1, float, Expensive, partials::DIGAMMA, |b, _, x| {
        real(b, x, gamma::digamma)
    }),
    row("chlo.polygamma", 2, float, Expensive, partials::POLYGAMMA, |b, _, x| {
        real2(b, x, gamma::polygamma)
    }),
    row("chlo.zeta", 2, float, Expensive, partials::ZETA, |b, _, x| real2(b, x, gamma::zeta)),
];

/// Other names of rows; `chlo.broadcast_add` and its like are taken as well, where operands have
/// equal shapes.
static ALIASES: &[(&str, &str)] = &[("chlo.tan", "stablehlo.tan")];

const fn row(
    name: &'static str,
    arity: usize,
    accepts: fn(DType) -> bool,
    cost: ElementCost,
    derivative: Derivative,
    body: Body,
) -> Row {
    Row { name, arity, accepts, result: |dtype| dtype, cost, derivative, exact: false, body }
}

impl Row {
    const fn exact(mut self) -> Row {
        self.exact = true;
        self
    }

    const fn gives(mut self, result: fn(DType) -> DType) -> Row {
        self.result = result;
        self
    }

    /// The op on one element of type `dtype`.
    pub fn element(&self, b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
        let value = (self.body)(b, dtype, x);
        match (self.result)(dtype) {
            DType::BF16 if !self.exact => Scalar::Real(b.unary(UnaryOp::RoundBf16, value.real())),
            DType::F16 if !self.exact => Scalar::Real(b.unary(UnaryOp::RoundF16, value.real())),
            _ => value,
        }
    }
}

fn power(b: &mut KernelBuilder, dtype: DType, x: &[Scalar]) -> Scalar {
    if dtype.is_int() {
        return arithmetic::integer_power(b, dtype, x);
    }
    complex::or_real2(b, x, power::power, functions::power)
}

fn any(_: DType) -> bool {
    true
}

fn number(dtype: DType) -> bool {
    dtype != DType::I1
}

fn int(dtype: DType) -> bool {
    dtype.is_int()
}

fn bits(dtype: DType) -> bool {
    dtype == DType::I1 || dtype.is_int()
}

fn float(dtype: DType) -> bool {
    dtype.is_float()
}

fn int_or_float(dtype: DType) -> bool {
    dtype.is_int() || dtype.is_float()
}

fn inexact(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
}

fn signed(dtype: DType) -> bool {
    dtype.class() == Class::Signed || inexact(dtype)
}

fn pair(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

fn truth(_: DType) -> DType {
    DType::I1
}

/// The bodies built so far, for [`Elementwise::evaluate`].
static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

type Kernels = FxHashMap<(&'static str, DType), Arc<Kernel>>;

impl Elementwise {
    /// The row with this name.
    pub fn from_name(name: &str) -> Option<Elementwise> {
        let find = |name: &str| TABLE.iter().find(|row| row.name == name).map(Elementwise);
        if let Some(op) = find(name) {
            return Some(op);
        }
        if let Some(plain) = name.strip_prefix("chlo.broadcast_") {
            return find(&format!("stablehlo.{plain}")).or_else(|| find(&format!("chlo.{plain}")));
        }
        ALIASES.iter().find(|alias| alias.0 == name).and_then(|alias| find(alias.1))
    }

    /// StableHLO's name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The row.
    pub fn row(self) -> &'static Row {
        self.0
    }

    /// The result type, or what is wrong with the operands.
    pub fn infer(self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let row = self.0;
        signature.expect(row.name, row.arity, 0)?;
        let first = &signature.operands[0];
        for (position, ty) in signature.operands.iter().enumerate() {
            if ty != first {
                return Err(format!(
                    "{}: operand types differ: operand 0 is {first}, operand {position} is {ty}",
                    row.name
                ));
            }
        }
        if !(row.accepts)(first.dtype) {
            let taken: Vec<&str> =
                DType::ALL.into_iter().filter(|&d| (row.accepts)(d)).map(DType::name).collect();
            return Err(format!(
                "{}: element type {} is not taken, only {}",
                row.name,
                first.dtype,
                taken.join(", ")
            ));
        }
        TensorType::checked(row.name, first.shape.clone(), (row.result)(first.dtype))
            .map(|ty| vec![ty])
    }

    /// The body for an element type as a kernel of one element, for the interpreter and tests.
    pub fn kernel(self, dtype: DType) -> Arc<Kernel> {
        let row = self.0;
        let mut kernels = KERNELS.lock().expect("no body panics while it is built");
        let kernel = kernels.entry((row.name, dtype)).or_insert_with(|| {
            let operands = vec![dtype; row.arity];
            let result = (row.result)(dtype);
            Arc::new(single(row.name, &operands, result, |b, x| row.element(b, dtype, x)))
        });
        kernel.clone()
    }

    /// The result for operands.
    pub fn evaluate(self, operands: &[Literal]) -> Result<Vec<Literal>, String> {
        let ty = operands[0].ty();
        let result = ty.with_dtype((self.0.result)(ty.dtype));
        Ok(vec![over_elements(&self.kernel(ty.dtype), operands, result)])
    }

    /// The body at the index of the result's element.
    pub fn lower<'a>(self, op: OpView<'a>) -> Lowering<'a> {
        let row = self.0;
        Lowering::Elements {
            cost: row.cost,
            element: Box::new(move |e, _, index| {
                let operands: Vec<Scalar> =
                    op.data().operands.iter().map(|&v| e.read(v, index)).collect();
                row.element(e.builder(), op.operand_type(0).dtype, &operands)
            }),
        }
    }
}

impl PartialEq for Elementwise {
    fn eq(&self, other: &Elementwise) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Elementwise {}

impl std::fmt::Debug for Elementwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name)
    }
}
