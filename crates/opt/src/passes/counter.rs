//! Loops that count, and how the integers in their bodies follow the count.

use super::trips;
use jaxrs_ir::{Function, Op, OpId, ValueId};
use jaxrs_kernel::dtype::Class;
use jaxrs_kernel::{Compare, DType};

/// A loop of a known number of steps.
pub struct Counted {
    /// The loop.
    pub op: OpId,
    /// How often its body runs: at least twice.
    pub trips: u64,
    /// Arguments of the body that grow by a constant in each step.
    counters: Vec<(ValueId, Line)>,
}

/// An integer that is `first + step * t` in step `t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// In the first step.
    pub first: i128,
    /// How much it grows from step to step.
    pub step: i128,
}

/// An index in some of the steps.
struct Case {
    steps: std::ops::Range<i128>,
    line: Line,
}

impl Counted {
    /// The loop, if it counts and runs twice at least.
    pub fn of(f: &Function, op: OpId) -> Option<Counted> {
        let trips = trips::trips(f, op).filter(|&trips| trips >= 2)?;
        let data = &f.ops[op];
        let body = &f.blocks[data.regions[1]];
        let counter = |(n, &argument): (usize, &ValueId)| {
            let ty = f.ty(argument);
            if ty.rank() > 0 || !ty.dtype.is_int() {
                return None;
            }
            let next = &f.ops[f.defining_op(body.yields[n])?];
            let Op::Elementwise(row) = next.op else { return None };
            let step = match (row.name(), &next.operands[..]) {
                ("stablehlo.add", &[a, b]) if a == argument => trips::constant(f, b)?.into(),
                ("stablehlo.add", &[a, b]) if b == argument => trips::constant(f, a)?.into(),
                ("stablehlo.subtract", &[a, b]) if a == argument => {
                    -i128::from(trips::constant(f, b)?)
                }
                _ => return None,
            };
            let line = Line { first: trips::constant(f, data.operands[n])?.into(), step };
            Some((argument, line.within(trips, ty.dtype)?))
        };
        let counters = body.arguments.iter().enumerate().filter_map(counter).collect();
        Some(Counted { op, trips, counters })
    }

    /// A counter: an argument of the body and its line. A plain one if there is one.
    pub fn counter(&self) -> Option<(ValueId, Line)> {
        let moves = |(_, line): &&(ValueId, Line)| line.step != 0;
        let plain = |(_, line): &&(ValueId, Line)| line.is_number();
        self.counters.iter().find(plain).or_else(|| self.counters.iter().find(moves)).copied()
    }

    /// The carry that is the step's number, if there is one.
    pub fn number(&self, f: &Function) -> Option<usize> {
        let arguments = &f.blocks[f.ops[self.op].regions[1]].arguments;
        let number = |argument: &ValueId| self.line_of(*argument).is_some_and(Line::is_number);
        arguments.iter().position(number)
    }

    /// The line of a counter.
    pub fn line_of(&self, argument: ValueId) -> Option<Line> {
        let counter = self.counters.iter().find(|(counter, _)| *counter == argument);
        counter.map(|&(_, line)| line)
    }

    /// The only step in which two integers of the body are equal.
    pub fn meets(&self, f: &Function, a: ValueId, b: ValueId) -> Option<u64> {
        let difference = self.line(f, a)?.plus(self.line(f, b)?, -1);
        if difference.step == 0 || difference.first % difference.step != 0 {
            return None;
        }
        let step = u64::try_from(-difference.first / difference.step).ok()?;
        (step < self.trips).then_some(step)
    }

    /// How an integer of the body depends on the step, all elements of it being equal.
    pub fn line(&self, f: &Function, value: ValueId) -> Option<Line> {
        if let Some(line) = self.line_of(value) {
            return Some(line);
        }
        if let Some(constant) = trips::constant(f, value) {
            return Some(Line { first: constant.into(), step: 0 });
        }
        let op = &f.ops[f.defining_op(value)?];
        let line = |n: usize| self.line(f, op.operands[n]);
        let line = match &op.op {
            Op::Elementwise(row) => match row.name() {
                "stablehlo.add" => line(0)?.plus(line(1)?, 1),
                "stablehlo.subtract" => line(0)?.plus(line(1)?, -1),
                "stablehlo.negate" => Line { first: 0, step: 0 }.plus(line(0)?, -1),
                "stablehlo.multiply" => match (line(0)?, line(1)?) {
                    (x, y) if y.step == 0 => x.times(y.first)?,
                    (x, y) if x.step == 0 => y.times(x.first)?,
                    _ => return None,
                },
                _ => return None,
            },
            Op::Convert(_) if f.ty(op.operands[0]).dtype.is_int() => line(0)?,
            Op::Reshape(_) | Op::BroadcastInDim(_) => line(0)?,
            Op::Select(_) => line(if self.decided(f, op.operands[0])? { 1 } else { 2 })?,
            _ => return None,
        };
        line.within(self.trips, f.ty(value).dtype)
    }

    /// Whether two indices, each clamped to `0..=high`, are `by` apart at least in every step.
    pub fn apart(&self, f: &Function, [a, b]: [ValueId; 2], high: i64, by: u64) -> bool {
        let (Some(a), Some(b)) = (self.cases(f, a), self.cases(f, b)) else { return false };
        let (high, by) = (i128::from(high), i128::from(by));
        let holds = |(x, y): (&Case, &Case)| {
            let (first, end) = (x.steps.start.max(y.steps.start), x.steps.end.min(y.steps.end));
            if first >= end {
                return true;
            }
            let ends = [first, end - 1].map(|t| [x.line.at(t), y.line.at(t)]);
            if end - first == 1 {
                let [x, y] = ends[0].map(|index| index.clamp(0, high));
                return (x - y).abs() >= by;
            }
            // What is not clamped is a line, and so is the distance.
            let inside = ends.iter().flatten().all(|&index| (0..=high).contains(&index));
            let [d, e] = ends.map(|[x, y]| x - y);
            inside && d.signum() == e.signum() && d.abs().min(e.abs()) >= by
        };
        a.iter().all(|x| b.iter().all(|y| holds((x, y))))
    }

    /// How an index depends on the step, where it may be another one in the first or last step.
    fn cases(&self, f: &Function, value: ValueId) -> Option<Vec<Case>> {
        let trips = i128::from(self.trips);
        if let Some(line) = self.line(f, value) {
            return Some(vec![Case { steps: 0..trips, line }]);
        }
        let op = &f.ops[f.defining_op(value)?];
        let [condition, then, otherwise] = op.operands[..] else { return None };
        let compare = &f.ops[f.defining_op(condition)?];
        let equal = matches!(&compare.op, Op::Compare(c) if c.direction == Compare::Eq);
        if !matches!(op.op, Op::Select(_)) || !equal {
            return None;
        }
        let [x, y] = [0, 1].map(|n| self.line(f, compare.operands[n]));
        let difference = x?.plus(y?, -1);
        let (then, otherwise) = (self.line(f, then)?, self.line(f, otherwise)?);
        let case = |steps, line| Case { steps, line };
        let zero = |t: i128| difference.at(t) == 0;
        if difference.step == 0 {
            None
        } else if zero(0) {
            Some(vec![case(0..1, then), case(1..trips, otherwise)])
        } else if zero(trips - 1) {
            Some(vec![case(0..trips - 1, otherwise), case(trips - 1..trips, then)])
        } else {
            None
        }
    }

    /// What a comparison gives in every step.
    fn decided(&self, f: &Function, value: ValueId) -> Option<bool> {
        let op = &f.ops[f.defining_op(value)?];
        let Op::Compare(compare) = &op.op else { return None };
        let difference = self.line(f, op.operands[0])?.plus(self.line(f, op.operands[1])?, -1);
        let (low, high) = difference.range(self.trips);
        Some(match compare.direction {
            Compare::Lt if high < 0 => true,
            Compare::Lt if low >= 0 => false,
            Compare::Le if high <= 0 => true,
            Compare::Le if low > 0 => false,
            Compare::Gt if low > 0 => true,
            Compare::Gt if high <= 0 => false,
            Compare::Ge if low >= 0 => true,
            Compare::Ge if high < 0 => false,
            _ => return None,
        })
    }
}

impl Line {
    /// Whether it is the step's number itself.
    fn is_number(self) -> bool {
        self == Line { first: 0, step: 1 }
    }

    /// Whether it takes each value below `trips` once.
    pub fn is_permutation(self, trips: u64) -> bool {
        self.step.abs() == 1 && self.range(trips) == (0, i128::from(trips) - 1)
    }

    /// In a step.
    fn at(self, step: i128) -> i128 {
        self.first + self.step * step
    }

    fn plus(self, other: Line, sign: i128) -> Line {
        Line { first: self.first + sign * other.first, step: self.step + sign * other.step }
    }

    fn times(self, factor: i128) -> Option<Line> {
        Some(Line { first: self.first.checked_mul(factor)?, step: self.step.checked_mul(factor)? })
    }

    /// The least and the largest value.
    pub fn range(self, trips: u64) -> (i128, i128) {
        let last = self.first + self.step * i128::from(trips - 1);
        (self.first.min(last), self.first.max(last))
    }

    /// The line, if the type holds all its values, so that none wraps.
    fn within(self, trips: u64, dtype: DType) -> Option<Line> {
        let bits = dtype.bits();
        let (least, most) = match dtype.class() {
            Class::Signed => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
            Class::Unsigned => (0, (1_i128 << bits) - 1),
            _ => return None,
        };
        let last = self.step.checked_mul(i128::from(trips))?.checked_add(self.first)?;
        let (low, high) = self.range(trips);
        (low >= least && high <= most && last.unsigned_abs() < 1 << 100).then_some(self)
    }
}
