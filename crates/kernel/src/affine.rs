//! Affine index expressions: a constant plus multiples of index registers.

use crate::kernel::Reg;
use smallvec::SmallVec;
use std::fmt;

/// `constant + sum(coefficient * register)` over `i64` registers, in canonical form: registers
/// ascending, no zero coefficient. Two equal expressions over the same registers compare equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affine {
    /// The constant term.
    pub constant: i64,
    /// Register and coefficient, registers ascending, coefficients not zero.
    pub terms: SmallVec<[(Reg, i64); 3]>,
}

impl Affine {
    /// A constant.
    pub fn constant(value: i64) -> Affine {
        Affine { constant: value, terms: SmallVec::new() }
    }

    /// A register.
    pub fn reg(reg: Reg) -> Affine {
        Affine { constant: 0, terms: SmallVec::from_slice(&[(reg, 1)]) }
    }

    /// The value if it is a constant.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// The register's coefficient, 0 if it does not occur.
    pub fn coefficient(&self, reg: Reg) -> i64 {
        self.terms.iter().find(|t| t.0 == reg).map_or(0, |t| t.1)
    }

    /// The sum.
    pub fn add(&self, other: &Affine) -> Affine {
        let mut sum = self.clone();
        sum.constant += other.constant;
        for &(reg, coefficient) in &other.terms {
            sum.add_term(reg, coefficient);
        }
        sum
    }

    /// The difference.
    pub fn sub(&self, other: &Affine) -> Affine {
        self.add(&other.scale(-1))
    }

    /// Plus a constant.
    pub fn offset(&self, by: i64) -> Affine {
        Affine { constant: self.constant + by, terms: self.terms.clone() }
    }

    /// Times a constant.
    pub fn scale(&self, by: i64) -> Affine {
        if by == 0 {
            return Affine::constant(0);
        }
        let terms = self.terms.iter().map(|&(r, c)| (r, c * by)).collect();
        Affine { constant: self.constant * by, terms }
    }

    /// Adds `coefficient * reg` in place.
    pub fn add_term(&mut self, reg: Reg, coefficient: i64) {
        match self.terms.binary_search_by_key(&reg, |t| t.0) {
            Ok(at) => {
                self.terms[at].1 += coefficient;
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
            }
            Err(at) if coefficient != 0 => self.terms.insert(at, (reg, coefficient)),
            Err(_) => {}
        }
    }

    /// The expression with `reg` replaced by another expression.
    pub fn substitute(&self, reg: Reg, by: &Affine) -> Affine {
        let coefficient = self.coefficient(reg);
        if coefficient == 0 {
            return self.clone();
        }
        let mut rest = self.clone();
        rest.add_term(reg, -coefficient);
        rest.add(&by.scale(coefficient))
    }
}

impl From<i64> for Affine {
    fn from(value: i64) -> Affine {
        Affine::constant(value)
    }
}

impl fmt::Display for Affine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for &(reg, coefficient) in &self.terms {
            let sign = match (first, coefficient < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            f.write_str(sign)?;
            match coefficient.unsigned_abs() {
                1 => write!(f, "{reg}")?,
                c => write!(f, "{c}*{reg}")?,
            }
            first = false;
        }
        match self.constant {
            0 if !first => Ok(()),
            c if first => write!(f, "{c}"),
            c if c < 0 => write!(f, " - {}", c.unsigned_abs()),
            c => write!(f, " + {c}"),
        }
    }
}
