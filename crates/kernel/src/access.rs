//! When a kernel's results may share memory with its operands, from its loads and stores.
//!
//! A load and a store of one element are harmless if the load comes first in every execution:
//! * they stand in loops in common, and the part of their positions that these loops decide (equal
//!   in both) keeps any two iterations' elements apart, whatever the rest of the positions is; and
//!   within an iteration the load's statement comes first. Then threads and vectors, which only
//!   mix iterations, cannot bring the store before the load;
//! * or the positions of the load and those of the store have no element in common at all;
//! * or the whole kernel runs in one piece, and the load's statement at the top level comes first.

use crate::affine::Affine;
use crate::inst::Inst;
use crate::kernel::{Block, Def, Kernel, ParamId, Reg, Stmt};
use crate::program::Sharing;
use cranelift_entity::EntityRef;

/// For each result, for each of the first `operands` parameters: whether they may share memory.
pub fn sharing(kernel: &Kernel, operands: usize) -> Vec<Vec<Sharing>> {
    let mut walk = Walk { kernel, accesses: Vec::new(), path: Vec::new(), loops: Vec::new() };
    walk.block(&kernel.body);
    let accesses = walk.accesses;
    let of = |param: usize, store: bool| -> Vec<&Access> {
        let param = ParamId::new(param);
        accesses.iter().filter(|a| a.param == param && a.store == store).collect()
    };
    let loads: Vec<Vec<&Access>> = (0..operands).map(|o| of(o, false)).collect();
    (operands..kernel.params.len())
        .map(|result| {
            let stores = of(result, true);
            let width = |p: usize| kernel.params[ParamId::new(p)].dtype.size();
            loads
                .iter()
                .enumerate()
                .map(|(o, loads)| pair(kernel, loads, &stores, width(o) == width(result)))
                .collect()
        })
        .collect()
}

/// A load or a store, and where it stands.
struct Access {
    param: ParamId,
    store: bool,
    at: Affine,
    /// The statement's position in each enclosing block, outermost first, with the variable of the
    /// loop whose body that block is (none at the top and in branches).
    path: Vec<(Option<Reg>, usize)>,
    /// The loops round it: variable, first and last value.
    loops: Vec<(Reg, i64, i64)>,
}

struct Walk<'a> {
    kernel: &'a Kernel,
    accesses: Vec<Access>,
    path: Vec<(Option<Reg>, usize)>,
    loops: Vec<(Reg, i64, i64)>,
}

impl Walk<'_> {
    fn block(&mut self, block: &Block) {
        self.inside(None, block, 0);
    }

    /// `shift` keeps the two sides of a branch apart.
    fn inside(&mut self, var: Option<Reg>, block: &Block, shift: usize) {
        for (position, stmt) in block.stmts.iter().enumerate() {
            self.path.push((var, position + shift));
            match stmt {
                Stmt::Let(reg) => {
                    if let Def::Inst(Inst::Load(param, at)) = &self.kernel.regs[*reg].def {
                        self.access(*param, false, at);
                    }
                }
                Stmt::Store { param, at, .. } => self.access(*param, true, at),
                Stmt::Loop(l) => {
                    self.loops.push((l.var, l.start, l.end - 1));
                    self.inside(Some(l.var), &l.body, 0);
                    self.loops.pop();
                }
                Stmt::If(branch) => {
                    self.inside(None, &branch.then, 0);
                    self.inside(None, &branch.otherwise, branch.then.stmts.len());
                }
            }
            self.path.pop();
        }
    }

    fn access(&mut self, param: ParamId, store: bool, at: &Affine) {
        let (at, path, loops) = (at.clone(), self.path.clone(), self.loops.clone());
        self.accesses.push(Access { param, store, at, path, loops });
    }
}

fn pair(kernel: &Kernel, loads: &[&Access], stores: &[&Access], same_width: bool) -> Sharing {
    let all = |holds: &dyn Fn(&Access, &Access) -> bool| {
        loads.iter().all(|load| stores.iter().all(|store| holds(load, store)))
    };
    if all(&|load, store| kernel.range.is_none() && load.path[0].1 < store.path[0].1) {
        return Sharing::AfterFullRead;
    }
    if same_width && all(&|load, store| harmless(kernel, load, store)) {
        return Sharing::SameElement;
    }
    Sharing::Never
}

fn harmless(kernel: &Kernel, load: &Access, store: &Access) -> bool {
    let first = load.path.iter().zip(&store.path).find(|(a, b)| a.1 != b.1);
    let before = first.is_some_and(|(a, b)| a.1 < b.1);
    let common = load.loops.iter().zip(&store.loops).take_while(|(a, b)| a.0 == b.0).count();
    if before && common == 0 && kernel.range.is_none() {
        return true;
    }
    if before && common > 0 && apart(kernel, load, store, &load.loops[..common]) {
        return true;
    }
    let (a, b) = (bounds(kernel, &load.at), bounds(kernel, &store.at));
    a.1 < b.0 || b.1 < a.0 || disjoint(kernel, load, store)
}

/// Whether any two different iterations of the common loops have different elements, whichever of
/// the two accesses each makes.
fn apart(kernel: &Kernel, load: &Access, store: &Access, common: &[(Reg, i64, i64)]) -> bool {
    let mut digits = Vec::new();
    let (mut a, mut b) = (load.at.clone(), store.at.clone());
    for &(var, first, last) in common {
        if first == last {
            continue;
        }
        let Some(parts) = parts(kernel, &a, var, (first, last)) else { return false };
        for (part, first, last) in parts {
            let coefficient = a.coefficient(part);
            if coefficient != b.coefficient(part) {
                return false;
            }
            a.add_term(part, -coefficient);
            b.add_term(part, -coefficient);
            digits.push((i128::from(coefficient).abs(), i128::from(last - first)));
        }
    }
    // What is left of the positions is a small number beside the common loops' steps.
    let (low_a, high_a) = bounds(kernel, &a);
    let (low_b, high_b) = bounds(kernel, &b);
    // The same unknown in both, set before the loops, does not count.
    let equal = a == b && a.terms.iter().all(|t| outside(kernel, t.0, common));
    let rest = if equal { 0 } else { high_a.max(high_b) - low_a.min(low_b) };
    separate(&mut digits, rest)
}

/// The registers, with their bounds, by which a position steps with a loop's variable and that
/// together say which value it has: the variable itself, or the remainder and the quotient that
/// stand for the variables of two loops which became one.
fn parts(
    kernel: &Kernel,
    at: &Affine,
    var: Reg,
    bounds: (i64, i64),
) -> Option<Vec<(Reg, i64, i64)>> {
    let argument = |reg: Reg| match &kernel.regs[reg].def {
        Def::Inst(Inst::Index(at) | Inst::FloorDiv(at, _) | Inst::Modulo(at, _)) => {
            match at.terms[..] {
                [(from, 1)] => Some((from, at.constant)),
                _ => None,
            }
        }
        _ => None,
    };
    let (mut var, (mut first, mut last)) = (var, bounds);
    let mut parts = Vec::new();
    while first != last {
        if at.coefficient(var) != 0 {
            parts.push((var, first, last));
            break;
        }
        let (part, by) = at.terms.iter().find_map(|&(part, _)| {
            // A remainder, perhaps moved by a constant.
            let remainder = match kernel.regs[part].def {
                Def::Inst(Inst::Index(_)) => argument(part)?.0,
                _ => part,
            };
            match kernel.regs[remainder].def {
                Def::Inst(Inst::Modulo(_, by)) => {
                    (argument(remainder)? == (var, 0)).then_some((part, by))
                }
                _ => None,
            }
        })?;
        let (low, high) = kernel.regs[part].bounds?;
        parts.push((part, low, high));
        (first, last) = (first.div_euclid(by), last.div_euclid(by));
        if first == last {
            break;
        }
        // The quotient is in the position or what one of its registers is computed from.
        var = at.terms.iter().find_map(|&(reg, _)| {
            let mut next = Some(reg);
            while let Some(reg) = next {
                let from = argument(reg);
                if matches!(kernel.regs[reg].def, Def::Inst(Inst::FloorDiv(_, d)) if d == by)
                    && from == Some((var, 0))
                {
                    return Some(reg);
                }
                next = from.map(|(reg, _)| reg);
            }
            None
        })?;
    }
    Some(parts)
}

/// Whether numbers `sum(digit * coefficient) + rest` with different digits are different.
fn separate(digits: &mut [(i128, i128)], rest: i128) -> bool {
    digits.sort_unstable();
    let mut reach = rest;
    for &(coefficient, most) in digits.iter() {
        if coefficient <= reach {
            return false;
        }
        reach += coefficient * most;
    }
    true
}

/// Whether the register has one value in all iterations of the loops: it is the variable of none
/// of them nor computed from one. Only constants of the kernel's top level are known to be so.
fn outside(kernel: &Kernel, reg: Reg, common: &[(Reg, i64, i64)]) -> bool {
    common.iter().all(|l| l.0 != reg)
        && kernel.body.stmts.iter().any(|stmt| matches!(stmt, Stmt::Let(r) if *r == reg))
}

fn bounds(kernel: &Kernel, at: &Affine) -> (i128, i128) {
    let mut sum = (i128::from(at.constant), i128::from(at.constant));
    for &(reg, coefficient) in &at.terms {
        let (low, high) = kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
        let c = i128::from(coefficient);
        let (a, b) = (i128::from(low) * c, i128::from(high) * c);
        sum = (sum.0 + a.min(b), sum.1 + a.max(b));
    }
    sum
}

/// Whether the elements of the two accesses are different ones, for positions made of registers
/// of known bounds: as digits of a number system that both share, one digit's ranges are disjoint.
fn disjoint(kernel: &Kernel, load: &Access, store: &Access) -> bool {
    let (Some(a), Some(b)) = (terms(kernel, load), terms(kernel, store)) else { return false };
    // What no term steps over is a digit of constants.
    let mut steps: Vec<i64> = a.iter().chain(&b).map(|t| t.0).chain([1]).collect();
    steps.sort_unstable_by(|x, y| y.cmp(x));
    steps.dedup();
    let (Some(a), Some(b)) =
        (digits(&a, load.at.constant, &steps), digits(&b, store.at.constant, &steps))
    else {
        return false;
    };
    let mut union: Vec<(i128, i128)> = steps
        .iter()
        .zip(a.iter().zip(&b))
        .map(|(&step, (x, y))| (i128::from(step), i128::from(x.1.max(y.1) - x.0.min(y.0))))
        .collect();
    separate(&mut union, 0) && a.iter().zip(&b).any(|(x, y)| x.1 < y.0 || y.1 < x.0)
}

/// The position's steps with the ranges of their registers; none if one is not known.
fn terms(kernel: &Kernel, access: &Access) -> Option<Vec<(i64, i64, i64)>> {
    let of = |&(reg, coefficient): &(Reg, i64)| {
        let (low, high) = match access.loops.iter().find(|l| l.0 == reg) {
            Some(&(_, first, last)) => (first, last),
            None => kernel.regs[reg].bounds?,
        };
        (coefficient > 0).then_some((coefficient, low, high))
    };
    access.at.terms.iter().map(of).collect()
}

/// The range of each digit, the constant spread over the digits; none if two terms share a step.
fn digits(terms: &[(i64, i64, i64)], constant: i64, steps: &[i64]) -> Option<Vec<(i64, i64)>> {
    let mut rest = constant;
    let mut out = Vec::new();
    for &step in steps {
        let mut own = terms.iter().filter(|t| t.0 == step);
        let (first, last) = own.next().map_or((0, 0), |t| (t.1, t.2));
        if own.next().is_some() {
            return None;
        }
        let shift = rest.div_euclid(step);
        rest -= shift * step;
        out.push((first + shift, last + shift));
    }
    (rest == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::sharing;
    use crate::builder::{LoopOptions, parallel, reduce};
    use crate::inst::BinaryOp;
    use crate::interp::{Place, run, run_at};
    use crate::kernel::{Access, Kernel, LoopKind};
    use crate::program::Sharing;
    use crate::{Affine, DType, KernelBuilder};

    const RANGED: LoopOptions = LoopOptions { ranged: true, split: false };
    const PLAIN: LoopOptions = LoopOptions { ranged: false, split: false };

    /// A kernel of one operand and one result of 12 elements over `i < 3`, `j < 4`.
    fn grid(build: impl Fn(&mut KernelBuilder, &Affine, &Affine)) -> Kernel {
        let mut b = KernelBuilder::new("grid");
        b.param(DType::I32, 12, Access::Read);
        b.param(DType::I32, 12, Access::Write);
        b.set_range(3);
        parallel(&mut b, 3, RANGED, |b, i| parallel(b, 4, PLAIN, |b, j| build(b, i, j)));
        b.finish()
    }

    fn at(i: &Affine, j: &Affine, (ci, cj, c): (i64, i64, i64)) -> Affine {
        i.scale(ci).add(&j.scale(cj)).offset(c)
    }

    /// Runs the kernel with the result in the operand's memory, in pieces of any order, and says
    /// whether the result is always what it is in memory of its own.
    fn survives(kernel: &Kernel) -> bool {
        let tags: Vec<u8> = (0..48).map(|n| n * 5 + 1).collect();
        let mut apart = vec![tags.clone(), tags.clone()];
        run(kernel, &mut apart, 0, i64::MAX);
        let place = Place { buffer: 0, offset: 0 };
        let orders: &[&[i64]] =
            if kernel.range.is_some() { &[&[0, 1, 2], &[2, 1, 0], &[1, 2, 0]] } else { &[&[0]] };
        orders.iter().all(|order| {
            let mut shared = vec![tags.clone()];
            for &piece in *order {
                run_at(kernel, &mut shared, &[place, place], piece, piece + 1);
            }
            let bytes = 4 * kernel.params.values().nth(1).expect("a result").len as usize;
            shared[0][..bytes] == apart[1][..bytes]
        })
    }

    #[test]
    fn same_element() {
        let copy = |load, store| {
            grid(|b, i, j| {
                let [x, y] = [0, 1].map(cranelift_entity::EntityRef::new);
                let value = b.load(x, at(i, j, load));
                let value = b.unary(crate::UnaryOp::Not, value);
                b.store(y, at(i, j, store), value);
            })
        };
        let same = copy((4, 1, 0), (4, 1, 0));
        assert_eq!(sharing(&same, 1), [[Sharing::SameElement]]);
        assert!(survives(&same));
        // The load stands before the loop over the row.
        let first = copy((4, 0, 0), (4, 1, 0));
        assert_eq!(sharing(&first, 1), [[Sharing::SameElement]]);
        assert!(survives(&first));
        let row = copy((0, 1, 0), (4, 1, 0));
        assert_eq!(sharing(&row, 1), [[Sharing::Never]]);
        assert!(!survives(&row));
    }

    #[test]
    fn what_may_share_survives() {
        let coefficients = [0, 1, 2, 3, 4];
        let mut kinds = [0; 2];
        for (ci, cj) in coefficients.into_iter().flat_map(|a| coefficients.map(|b| (a, b))) {
            for c in 0..3 {
                if 2 * ci + 3 * cj + c >= 12 {
                    continue;
                }
                for store in [(4, 1, 0), (1, 3, 0)] {
                    let kernel = grid(|b, i, j| {
                        let [x, y] = [0, 1].map(cranelift_entity::EntityRef::new);
                        let value = b.load(x, at(i, j, (ci, cj, c)));
                        let own = b.load(x, at(i, j, store));
                        let sum = b.binary(BinaryOp::Add, value, own);
                        b.store(y, at(i, j, store), sum);
                    });
                    let shares = sharing(&kernel, 1)[0][0] != Sharing::Never;
                    kinds[usize::from(shares)] += 1;
                    assert!(!shares || survives(&kernel), "{kernel}");
                }
            }
        }
        assert!(kinds[0] > 10 && kinds[1] > 1, "{kinds:?}");
    }

    /// Row sums stored over the rows' first elements, or over a vector of their own.
    fn rows(step: i64, ranged: bool) -> Kernel {
        let mut b = KernelBuilder::new("rows");
        let x = b.param(DType::I32, 12, Access::Read);
        let y = b.param(DType::I32, 3.max(2 * step as u64 + 1), Access::Write);
        if ranged {
            b.set_range(3);
        }
        parallel(&mut b, 3, if ranged { RANGED } else { PLAIN }, |b, i| {
            let zero = b.int(crate::RegType::I32, 0);
            let inits = [(zero, Some(BinaryOp::Add))];
            let sum = reduce(b, 4, PLAIN, LoopKind::Reduce, &inits, |b, j, carry| {
                let value = b.load(x, i.scale(4).add(j));
                vec![b.binary(BinaryOp::Add, carry[0], value)]
            });
            b.store(y, i.scale(step), sum[0]);
        });
        b.finish()
    }

    #[test]
    fn rows_stay_apart_from_each_other() {
        assert_eq!(sharing(&rows(4, true), 1), [[Sharing::SameElement]]);
        assert!(survives(&rows(4, true)));
        assert_eq!(sharing(&rows(1, true), 1), [[Sharing::Never]]);
        assert!(!survives(&rows(1, true)));
    }

    #[test]
    fn a_kernel_in_one_piece_reads_first() {
        let mut b = KernelBuilder::new("sum");
        let x = b.param(DType::I32, 12, Access::Read);
        let y = b.param(DType::I64, 1, Access::Write);
        let zero = b.int(crate::RegType::I32, 0);
        let inits = [(zero, Some(BinaryOp::Add))];
        let sum = reduce(&mut b, 12, PLAIN, LoopKind::Reduce, &inits, |b, j, carry| {
            let value = b.load(x, j.clone());
            vec![b.binary(BinaryOp::Add, carry[0], value)]
        });
        let wide = b.cast(crate::CastOp::SignExtend, sum[0], crate::RegType::I64);
        b.store(y, Affine::constant(0), wide);
        assert_eq!(sharing(&b.finish(), 1), [[Sharing::AfterFullRead]]);
    }

    #[test]
    fn two_loops_that_became_one_keep_their_elements_apart() {
        // Rows of five, of which all elements but the first are written.
        let kernel = |load: (i64, i64, i64)| {
            let mut b = KernelBuilder::new("parts");
            b.param(DType::I32, 15, Access::Read);
            b.param(DType::I32, 15, Access::Write);
            b.set_range(12);
            parallel(&mut b, 12, RANGED, |b, n| {
                let (i, j) = (b.floor_div(n, 4), b.modulo(n, 4));
                let [x, y] = [0, 1].map(cranelift_entity::EntityRef::new);
                let value = b.load(x, at(&i, &j, load));
                b.store(y, at(&i, &j, (5, 1, 1)), value);
            });
            b.finish()
        };
        assert_eq!(sharing(&kernel((5, 1, 1)), 1), [[Sharing::SameElement]]);
        assert_eq!(sharing(&kernel((5, 0, 0)), 1), [[Sharing::SameElement]]);
        for load in [(5, 1, 0), (4, 1, 0), (0, 1, 1), (5, 0, 1)] {
            assert_eq!(sharing(&kernel(load), 1), [[Sharing::Never]], "{load:?}");
        }
    }

    #[test]
    fn complex_elements_are_two_floats() {
        let mut b = KernelBuilder::new("conjugate");
        let x = b.param(DType::F32, 24, Access::Read);
        let y = b.param(DType::F32, 24, Access::Write);
        b.set_range(12);
        parallel(&mut b, 12, RANGED, |b, i| {
            let re = b.load(x, i.scale(2));
            let im = b.load(x, i.scale(2).offset(1));
            b.store(y, i.scale(2), im);
            b.store(y, i.scale(2).offset(1), re);
        });
        assert_eq!(sharing(&b.finish(), 1), [[Sharing::SameElement]]);
    }
}
