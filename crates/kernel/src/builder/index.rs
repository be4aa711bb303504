//! Index expressions, and guards on them.

use super::{FrameKind, Guard, KernelBuilder};
use crate::affine::Affine;
use crate::dtype::RegType;
use crate::inst::{BinaryOp, Compare, CompareKind, Inst};
use crate::kernel::{Def, Reg};

impl KernelBuilder {
    /// The expression with `n * floor(x / n) + x mod n` written as `x`, so that an index split over
    /// a shape and put together again is what it was.
    pub fn recombined(&self, mut at: Affine) -> Affine {
        let whole_of = |at: &Affine, x: &Affine, n: i64| {
            at.terms.iter().copied().find(|term| {
                matches!(&self.kernel.regs[term.0].def,
                    Def::Inst(Inst::FloorDiv(y, by)) if y == x && *by == n)
            })
        };
        loop {
            let pair = at.terms.iter().find_map(|&(rest, coefficient)| {
                let Def::Inst(Inst::Modulo(x, n)) = &self.kernel.regs[rest].def else {
                    return None;
                };
                let (whole, by) = whole_of(&at, x, *n)?;
                (by == coefficient.checked_mul(*n)?).then(|| (rest, whole, x.scale(coefficient)))
            });
            let Some((rest, whole, together)) = pair else { return at };
            let drop = |at: &mut Affine, reg| at.add_term(reg, -at.coefficient(reg));
            drop(&mut at, rest);
            drop(&mut at, whole);
            at = at.add(&together);
        }
    }

    /// An `i64` register as an index known to be in `[low, high]`.
    pub fn as_index(&mut self, reg: Reg, low: i64, high: i64) -> Affine {
        if let Some(bits) = self.as_const(reg) {
            return Affine::constant(bits as i64);
        }
        debug_assert_eq!(self.ty(reg), RegType::I64);
        let known = self.kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
        self.kernel.regs[reg].bounds = Some((known.0.max(low), known.1.min(high)));
        Affine::reg(reg)
    }

    /// A signed `i64` register clamped to `[low, high]`, as an index.
    pub fn clamp_index(&mut self, reg: Reg, low: i64, high: i64) -> Affine {
        if low == high {
            return Affine::constant(low);
        }
        let (l, h) = (self.int(RegType::I64, low), self.int(RegType::I64, high));
        let above = self.binary(BinaryOp::MaxS, reg, l);
        let clamped = self.binary(BinaryOp::MinS, above, h);
        self.as_index(clamped, low, high)
    }

    /// The expression's value as an `i64` register.
    pub fn index_value(&mut self, at: &Affine) -> Reg {
        if let Some(c) = at.as_constant() {
            return self.int(RegType::I64, c);
        }
        if at.constant == 0 && at.terms.len() == 1 && at.terms[0].1 == 1 {
            return at.terms[0].0;
        }
        let bounds = self.bounds(at);
        let reg = self.emit(Inst::Index(at.clone()), RegType::I64);
        self.kernel.regs[reg].bounds = Some(bounds);
        reg
    }

    /// Least and largest value of the expression, as far as known.
    pub fn bounds(&self, at: &Affine) -> (i64, i64) {
        let mut sum = (i128::from(at.constant), i128::from(at.constant));
        for &(reg, coefficient) in &at.terms {
            let (low, high) = self.kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
            let (a, b) = (
                i128::from(low) * i128::from(coefficient),
                i128::from(high) * i128::from(coefficient),
            );
            sum = (sum.0 + a.min(b), sum.1 + a.max(b));
        }
        let narrow = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        (narrow(sum.0), narrow(sum.1))
    }

    /// Floor of the expression over `by > 0`.
    pub fn floor_div(&mut self, at: &Affine, by: i64) -> Affine {
        let at = &self.recombined(at.clone());
        if by == 1 {
            return at.clone();
        }
        let (whole, rest) = split_multiples(at, by);
        let (low, high) = self.bounds(&rest);
        if low.div_euclid(by) == high.div_euclid(by) {
            return whole.offset(low.div_euclid(by));
        }
        let common = rest.terms.iter().fold(by, |g, t| gcd(g, t.1.abs()));
        if common > 1 {
            let reduced = Affine {
                constant: rest.constant.div_euclid(common),
                terms: rest.terms.iter().map(|&(r, c)| (r, c / common)).collect(),
            };
            return whole.add(&self.floor_div(&reduced, by / common));
        }
        let reg = self.emit(Inst::FloorDiv(rest, by), RegType::I64);
        self.kernel.regs[reg].bounds = Some((low.div_euclid(by), high.div_euclid(by)));
        whole.add(&Affine::reg(reg))
    }

    /// Non-negative remainder of the expression over `by > 0`.
    pub fn modulo(&mut self, at: &Affine, by: i64) -> Affine {
        let at = &self.recombined(at.clone());
        if by == 1 {
            return Affine::constant(0);
        }
        let (_, rest) = split_multiples(at, by);
        let (low, high) = self.bounds(&rest);
        if low.div_euclid(by) == high.div_euclid(by) {
            return rest.offset(-by * low.div_euclid(by));
        }
        let common = rest.terms.iter().fold(by, |g, t| gcd(g, t.1.abs()));
        if common > 1 {
            let reduced = Affine {
                constant: rest.constant.div_euclid(common),
                terms: rest.terms.iter().map(|&(r, c)| (r, c / common)).collect(),
            };
            let inner = self.modulo(&reduced, by / common);
            return inner.scale(common).offset(rest.constant.rem_euclid(common));
        }
        let reg = self.emit(Inst::Modulo(rest, by), RegType::I64);
        self.kernel.regs[reg].bounds = Some((0, by - 1));
        Affine::reg(reg)
    }

    /// Whether `low <= at < high`. Undecided guards on one loop's variable are remembered, so that
    /// the loop may be split there.
    pub fn in_range(&mut self, at: &Affine, low: i64, high: i64) -> Guard {
        let at = &self.recombined(at.clone());
        let (least, largest) = self.bounds(at);
        if least >= low && largest < high {
            return Guard::Always;
        }
        if largest < low || least >= high {
            return Guard::Never;
        }
        if let [(reg, coefficient)] = at.terms[..] {
            self.remember_cuts(reg, coefficient, at.constant, low, high);
        }
        let value = self.index_value(at);
        let mut condition = None;
        if least < low {
            let bound = self.int(RegType::I64, low);
            condition = Some(self.compare(Compare::Ge, CompareKind::Signed, value, bound));
        }
        if largest >= high {
            let bound = self.int(RegType::I64, high);
            let below = self.compare(Compare::Lt, CompareKind::Signed, value, bound);
            condition = Some(match condition {
                Some(above) => self.binary(BinaryOp::And, above, below),
                None => below,
            });
        }
        condition.map_or(Guard::Always, Guard::When)
    }

    /// Both guards.
    pub fn both(&mut self, a: Guard, b: Guard) -> Guard {
        match (a, b) {
            (Guard::Never, _) | (_, Guard::Never) => Guard::Never,
            (Guard::Always, other) | (other, Guard::Always) => other,
            (Guard::When(x), Guard::When(y)) => Guard::When(self.binary(BinaryOp::And, x, y)),
        }
    }

    fn remember_cuts(&mut self, reg: Reg, coefficient: i64, constant: i64, low: i64, high: i64) {
        for frame in &mut self.frames {
            let FrameKind::Loop { var, .. } = frame.kind else { continue };
            if var != reg {
                continue;
            }
            for edge in [low, high] {
                // The first value of the variable on the other side of `at == edge`.
                let cut = if coefficient > 0 {
                    -((constant - edge).div_euclid(coefficient))
                } else {
                    (constant - edge).div_euclid(-coefficient) + 1
                };
                frame.cuts.insert(cut);
            }
        }
    }
}

/// `at` as a part made of multiples of `by` (divided by it) and the rest.
fn split_multiples(at: &Affine, by: i64) -> (Affine, Affine) {
    let mut whole = Affine::constant(at.constant.div_euclid(by));
    let mut rest = Affine::constant(at.constant.rem_euclid(by));
    for &(reg, coefficient) in &at.terms {
        // The part of a coefficient below `by` stays in the rest.
        whole.add_term(reg, coefficient.div_euclid(by));
        rest.add_term(reg, coefficient.rem_euclid(by));
    }
    (whole, rest)
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
