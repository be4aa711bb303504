//! `+`, `-`, `*`, `/`, `%`, `&`, `|`, `^`, `<<`, `>>`, `!` and unary `-` on arrays and numbers, with
//! broadcasting and promotion.

use super::logic::{shift_left, shift_right};
use super::{Array, Operand};
use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, Shl, Shr,
    Sub, SubAssign,
};

#[track_caller]
fn plus(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.add", x, y)
}

#[track_caller]
fn minus(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.subtract", x, y)
}

#[track_caller]
fn times(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.multiply", x, y)
}

#[track_caller]
fn and(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.and", x, y)
}

#[track_caller]
fn or(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.or", x, y)
}

#[track_caller]
fn xor(x: Operand, y: Operand) -> Array {
    Array::binary("stablehlo.xor", x, y)
}

// An array's right operand is generic, so that the result's type is known whatever a literal's
// type turns out to be; of numbers on the left there is one float and one integer type, which
// literals take.
macro_rules! operators {
    ($($trait:ident $method:ident: $function:path,)*) => {
        $(
            impl<T: Into<Operand>> $trait<T> for Array {
                type Output = Array;

                #[track_caller]
                fn $method(self, rhs: T) -> Array {
                    $function(self.into(), rhs.into())
                }
            }

            impl<T: Into<Operand>> $trait<T> for &Array {
                type Output = Array;

                #[track_caller]
                fn $method(self, rhs: T) -> Array {
                    $function(self.into(), rhs.into())
                }
            }

            operators!(@left $trait $method $function, f64, Array);
            operators!(@left $trait $method $function, f64, &Array);
            operators!(@left $trait $method $function, i32, Array);
            operators!(@left $trait $method $function, i32, &Array);
        )*
    };
    (@left $trait:ident $method:ident $function:path, $lhs:ty, $rhs:ty) => {
        impl $trait<$rhs> for $lhs {
            type Output = Array;

            #[track_caller]
            fn $method(self, rhs: $rhs) -> Array {
                $function(self.into(), rhs.into())
            }
        }
    };
}

operators! {
    Add add: plus,
    Sub sub: minus,
    Mul mul: times,
    Div div: Array::true_divide,
    Rem rem: Array::floor_remainder,
    BitAnd bitand: and,
    BitOr bitor: or,
    BitXor bitxor: xor,
    Shl shl: shift_left,
    Shr shr: shift_right,
}

macro_rules! assignments {
    ($($trait:ident $method:ident: $function:path,)*) => {
        $(impl<T: Into<Operand>> $trait<T> for Array {
            #[track_caller]
            fn $method(&mut self, rhs: T) {
                *self = $function((&*self).into(), rhs.into());
            }
        })*
    };
}

assignments! {
    AddAssign add_assign: plus,
    SubAssign sub_assign: minus,
    MulAssign mul_assign: times,
    DivAssign div_assign: Array::true_divide,
}

macro_rules! unary {
    ($($trait:ident $method:ident: $name:literal,)*) => {
        $(
            impl $trait for Array {
                type Output = Array;

                #[track_caller]
                fn $method(self) -> Array {
                    self.unary($name)
                }
            }

            impl $trait for &Array {
                type Output = Array;

                #[track_caller]
                fn $method(self) -> Array {
                    self.unary($name)
                }
            }
        )*
    };
}

unary! {
    Neg neg: "stablehlo.negate",
    Not not: "stablehlo.not",
}
