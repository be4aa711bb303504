//! `stablehlo.compare`: elementwise comparison.

use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Lowering, Scalar};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition, none};
use crate::types::TensorType;
use jaxrs_kernel::builder::Build;
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{
    BinaryOp, CastOp, Compare as Direction, CompareKind, DType, KernelBuilder, Reg, RegType,
};
use std::cmp::Ordering;

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// The direction.
    pub direction: Direction,
    /// How elements are ordered, if the text says so; else by their type.
    pub order: Option<Order>,
}

/// How elements are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// IEEE comparison; for complex elements of the pair, real part first.
    Float,
    /// IEEE total order: -NaN, -inf, ..., -0, +0, ..., inf, NaN.
    Total,
    /// Signed integers.
    Signed,
    /// Unsigned integers and `i1`.
    Unsigned,
}

const DIRECTIONS: [(&str, Direction); 6] = [
    ("EQ", Direction::Eq),
    ("NE", Direction::Ne),
    ("LT", Direction::Lt),
    ("LE", Direction::Le),
    ("GT", Direction::Gt),
    ("GE", Direction::Ge),
];

const ORDERS: [(&str, Order); 4] = [
    ("FLOAT", Order::Float),
    ("TOTALORDER", Order::Total),
    ("SIGNED", Order::Signed),
    ("UNSIGNED", Order::Unsigned),
];

impl Compare {
    /// A comparison in the order of the operands' type.
    pub fn new(direction: Direction) -> Compare {
        Compare { direction, order: None }
    }

    /// How elements of a type are ordered.
    pub fn order(&self, dtype: DType) -> Order {
        self.order.unwrap_or(match dtype.class() {
            Class::Bool | Class::Unsigned => Order::Unsigned,
            Class::Signed => Order::Signed,
            Class::Float | Class::Complex => Order::Float,
        })
    }
}

/// Whether `direction` holds of an order between two elements; None: unordered.
fn holds(direction: Direction, order: Option<Ordering>) -> bool {
    match direction {
        Direction::Eq => order == Some(Ordering::Equal),
        Direction::Ne => order != Some(Ordering::Equal),
        Direction::Lt => order == Some(Ordering::Less),
        Direction::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Direction::Gt => order == Some(Ordering::Greater),
        Direction::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// The register as an integer whose signed order is the float's total order.
fn total_key(b: &mut KernelBuilder, x: Reg) -> Reg {
    let ty = b.ty(x).as_int();
    let bits = b.cast(CastOp::Bitcast, x, ty);
    let width = b.int(ty, i64::from(ty.bits()) - 1);
    let sign = b.binary(BinaryOp::ShrS, bits, width);
    let one = b.int(ty, 1);
    let flip = b.binary(BinaryOp::ShrU, sign, one);
    b.binary(BinaryOp::Xor, bits, flip)
}

impl StructuredOp for Compare {
    const NAMES: &'static [&'static str] = &["stablehlo.compare"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let name = attributes
            .take_enum("comparison_direction")?
            .ok_or("compare: attribute comparison_direction is missing")?;
        let direction = DIRECTIONS
            .iter()
            .find(|d| d.0 == name)
            .ok_or_else(|| format!("compare: there is no comparison_direction {name}"))?
            .1;
        let order = match attributes.take_enum("compare_type")?.as_deref() {
            None | Some("NOTYPE") => None,
            Some(name) => Some(
                ORDERS
                    .iter()
                    .find(|o| o.0 == name)
                    .ok_or_else(|| format!("compare: there is no compare_type {name}"))?
                    .1,
            ),
        };
        Ok(Compare { direction, order })
    }

    fn attributes(&self) -> Attributes {
        let named = |kind: &str, name: &str| Attribute::Enum(kind.into(), name.into());
        let mut attributes = Attributes::new();
        if let Some((name, _)) = DIRECTIONS.iter().find(|d| d.1 == self.direction) {
            attributes =
                attributes.with("comparison_direction", named("comparison_direction", name));
        }
        if let Some((name, _)) = ORDERS.iter().find(|o| Some(o.1) == self.order) {
            attributes = attributes.with("compare_type", named("comparison_type", name));
        }
        attributes
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("compare", 2, 0)?;
        let (lhs, rhs) = (&signature.operands[0], &signature.operands[1]);
        if lhs != rhs {
            return Err(format!("compare: operand 0 is {lhs}, operand 1 is {rhs}"));
        }
        let fits = match self.order(lhs.dtype) {
            Order::Float => lhs.dtype.is_float() || lhs.dtype.is_complex(),
            Order::Total => lhs.dtype.is_float(),
            Order::Signed => lhs.dtype.class() == Class::Signed,
            Order::Unsigned => matches!(lhs.dtype.class(), Class::Unsigned | Class::Bool),
        };
        if !fits {
            let order = self.order(lhs.dtype);
            return Err(format!("compare: compare_type {order:?} does not fit {lhs}"));
        }
        Ok(vec![lhs.with_dtype(DType::I1)])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let dtype = op.operand_type(0).dtype;
        let float = |literal: &Literal, position: u64, part: u64| {
            let bits = literal.bits(position, part);
            match dtype.reg() {
                RegType::F64 => f64::from_bits(bits),
                _ => f64::from(f32::from_bits(bits as u32)),
            }
        };
        let (x, y) = (&operands[0], &operands[1]);
        let order = self.order(dtype);
        Ok(vec![Literal::tabulate(op.result_type(0).clone(), |at| {
            let part = |part| float(x, at, part).partial_cmp(&float(y, at, part));
            let answer = match order {
                Order::Float if dtype.is_complex() => match (self.direction, part(0), part(1)) {
                    // A pair is unequal if either part is, NaN or not.
                    (Direction::Eq | Direction::Ne, re, im) => {
                        let equal = re == Some(Ordering::Equal) && im == Some(Ordering::Equal);
                        equal == (self.direction == Direction::Eq)
                    }
                    (direction, Some(Ordering::Equal), im) => holds(direction, im),
                    (direction, re, _) => holds(direction, re),
                },
                Order::Float => holds(self.direction, part(0)),
                Order::Total => {
                    let order = if dtype == DType::F64 {
                        float(x, at, 0).total_cmp(&float(y, at, 0))
                    } else {
                        let narrow = |v: &Literal| f32::from_bits(v.bits(at, 0) as u32);
                        narrow(x).total_cmp(&narrow(y))
                    };
                    holds(self.direction, Some(order))
                }
                Order::Signed | Order::Unsigned => {
                    holds(self.direction, Some(x.wide_int(at).cmp(&y.wide_int(at))))
                }
            };
            [u64::from(answer), 0]
        })])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Elements {
            cost: ElementCost::Cheap,
            element: Box::new(move |e, _, index| {
                let x = e.read(op.operand(0), index);
                let y = e.read(op.operand(1), index);
                let order = self.order(op.operand_type(0).dtype);
                Scalar::Real(element(e.builder(), self.direction, order, x, y))
            }),
        }
    }
}

/// The comparison of two elements.
pub fn element(
    b: &mut KernelBuilder,
    direction: Direction,
    order: Order,
    x: Scalar,
    y: Scalar,
) -> Reg {
    let (x, y) = match (x, y) {
        (Scalar::Real(x), Scalar::Real(y)) => (x, y),
        (x, y) => return complex(b, direction, &x.parts(), &y.parts()),
    };
    match order {
        Order::Float => b.compare(direction, CompareKind::Float, x, y),
        Order::Signed => b.compare(direction, CompareKind::Signed, x, y),
        Order::Unsigned => b.compare(direction, CompareKind::Unsigned, x, y),
        Order::Total => {
            let (x, y) = (total_key(b, x), total_key(b, y));
            b.compare(direction, CompareKind::Signed, x, y)
        }
    }
}

/// Pairs in lexicographic order.
fn complex(b: &mut KernelBuilder, direction: Direction, x: &[Reg], y: &[Reg]) -> Reg {
    let mut part = |direction, n: usize| b.compare(direction, CompareKind::Float, x[n], y[n]);
    let im = part(direction, 1);
    match direction {
        Direction::Eq => {
            let re = part(direction, 0);
            b.binary(BinaryOp::And, re, im)
        }
        Direction::Ne => {
            let re = part(direction, 0);
            b.binary(BinaryOp::Or, re, im)
        }
        Direction::Lt | Direction::Le | Direction::Gt | Direction::Ge => {
            let re = part(direction, 0);
            let equal = part(Direction::Eq, 0);
            b.select(equal, im, re)
        }
    }
}

impl Rules for Compare {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_constant(op)
    }

    fn transpose(&self, _: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        none(op, "transpose", "it is not linear")
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.is_elementwise(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check_body, values};
    use crate::testing::{check, fault, pattern, read, tensor};

    /// For each direction, in the order of [`DIRECTIONS`], whether it holds of the two.
    fn answers(order: Option<Order>, x: &Literal, y: &Literal) -> Vec<bool> {
        DIRECTIONS
            .iter()
            .map(|&(_, direction)| {
                let got = check(Compare { direction, order }, &[x.clone(), y.clone()]);
                got[0].bits(0, 0) == 1
            })
            .collect()
    }

    #[test]
    fn directions() {
        let t = |dtype, value| tensor(dtype, &[], &[value]);
        let less = [false, true, true, true, false, false];
        let equal = [true, false, false, true, false, true];
        let greater = [false, true, false, false, true, true];
        let unordered = [false, true, false, false, false, false];
        let nan = f64::NAN;
        let cases = [
            (DType::I8, None, -1., 1., less),
            (DType::U8, None, 255., 1., greater),
            (DType::I1, None, 0., 1., less),
            (DType::BF16, None, 0., -0., equal),
            (DType::F64, None, nan, nan, unordered),
            (DType::F64, Some(Order::Total), nan, nan, equal),
            (DType::F32, Some(Order::Total), -0., 0., less),
            (DType::F16, Some(Order::Total), 1., nan, less),
            (DType::F16, Some(Order::Total), 1., -nan, greater),
            (DType::BF16, Some(Order::Total), -2., -1., less),
        ];
        for (dtype, order, x, y, expected) in cases {
            assert_eq!(answers(order, &t(dtype, x), &t(dtype, y)), expected, "{dtype} {x} {y}");
        }
        let z = |re, im| tensor(DType::C128, &[], &[re, im]);
        assert_eq!(answers(None, &z(1., 5.), &z(2., 0.)), less);
        assert_eq!(answers(None, &z(1., 5.), &z(1., 0.)), greater);
        assert_eq!(answers(None, &z(1., nan), &z(1., nan)), unordered);
        assert_eq!(answers(None, &z(1., 5.), &z(1., 5.)), equal);
    }

    #[test]
    fn agrees_with_its_kernel() {
        for dtype in DType::ALL {
            for (_, direction) in DIRECTIONS {
                for order in [None, Some(Order::Total)] {
                    if order.is_some() && !dtype.is_float() {
                        continue;
                    }
                    for shape in [&[][..], &[0], &[20, 20]] {
                        let operands = [pattern(dtype, shape, 1), pattern(dtype, shape, 2)];
                        check(Compare { direction, order }, &operands);
                    }
                }
            }
        }
    }

    #[test]
    fn faults() {
        let ty = |dtype| TensorType::new([2], dtype);
        let of = |order, dtype| {
            fault(Compare { direction: Direction::Eq, order: Some(order) }, &[ty(dtype), ty(dtype)])
        };
        assert_eq!(
            of(Order::Signed, DType::U8),
            "compare: compare_type Signed does not fit tensor<2xui8>"
        );
        of(Order::Total, DType::C64);
        of(Order::Float, DType::I1);
        fault(Compare::new(Direction::Eq), &[ty(DType::F32), ty(DType::F64)]);
        let direction = |name: &str| {
            let value = Attribute::Enum("comparison_direction".into(), name.into());
            Attributes::new().with("comparison_direction", value)
        };
        assert!(read("stablehlo.compare", direction("XX"), &[], &[]).is_err());
        assert!(read("stablehlo.compare", Attributes::new(), &[], &[]).is_err());
        assert!(read("stablehlo.compare", direction("GE"), &[], &[]).is_ok());
    }

    #[test]
    fn rules() {
        let inputs = [values(&[4], 1), values(&[4], 2)];
        check_body(&inputs, |b, x| Ok(vec![b.compare(Direction::Lt, x[0], x[1])?]));
    }
}
