//! Sets of values that share one piece of memory, each from its first byte on.
//!
//! Invariant: no two values of a class are in use at one point, but for the write point of a step
//! that reads the one and makes the other and allows them to share.

use crate::copies::Held;
use crate::liveness::{Liveness, Ranges, merge_touching};
use crate::walk::{Point, Roots, TimeLine, visit};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use jaxrs_kernel::Kernel;
use jaxrs_kernel::program::{
    Donation, KernelId, Program, Sharing, Step, StepKind, Storage, ValueId,
};

/// What the classes are made from.
pub(crate) struct Context<'a> {
    pub(crate) program: &'a Program,
    pub(crate) roots: &'a Roots,
    pub(crate) line: &'a TimeLine,
    pub(crate) threads: u32,
    kernels: &'a PrimaryMap<KernelId, Kernel>,
    /// Values that a step overwrites although it reads a copy of them.
    pub(crate) held: &'a Held,
    /// The step that writes at an odd point, by half the point; none inside of which others are.
    writers: Vec<Option<&'a Step>>,
}

impl<'a> Context<'a> {
    /// Gathers the steps of a program by the point at which they write.
    pub(crate) fn new(
        program: &'a Program,
        roots: &'a Roots,
        line: &'a TimeLine,
        threads: u32,
        kernels: &'a PrimaryMap<KernelId, Kernel>,
        held: &'a Held,
    ) -> Context<'a> {
        let mut writers = vec![None; line.end as usize / 2 + 1];
        visit(&program.body, &mut |step| {
            if !matches!(step.kind, StepKind::While(_) | StepKind::Case(_)) {
                writers[line.span(step).write as usize / 2] = Some(step);
            }
        });
        Context { program, roots, line, threads, kernels, held, writers }
    }

    /// Whether the step lets a result take the place of an operand.
    pub(crate) fn may_share(&self, step: &Step, result: usize, operand: usize) -> bool {
        let starts_equal = self.roots.root(step.operands[operand]).offset
            == self.roots.root(step.results[result]).offset;
        let sharing = step.sharing.get(result).and_then(|row| row.get(operand)).copied();
        match sharing.unwrap_or(Sharing::Never) {
            Sharing::Never => false,
            Sharing::Ordered => starts_equal && self.runs_alone(step),
            Sharing::SameElement => starts_equal,
            Sharing::AfterFullRead => true,
        }
    }

    /// The step that writes at a point and holds no others.
    pub(crate) fn writer(&self, at: Point) -> Option<&'a Step> {
        self.writers.get(at as usize / 2).copied().flatten()
    }

    fn runs_alone(&self, step: &Step) -> bool {
        match step.kind {
            StepKind::Kernel(kernel) => self.threads == 1 || self.kernels[kernel].range.is_none(),
            StepKind::Copy
            | StepKind::Library(_)
            | StepKind::Tile(_)
            | StepKind::While(_)
            | StepKind::Case(_) => self.threads == 1,
        }
    }

    /// The bytes of an argument, a result or any other value, not rounded.
    pub(crate) fn bytes(&self, value: ValueId) -> u64 {
        self.program.values[value].bytes().0
    }
}

/// One class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Class {
    /// When it is in use.
    pub(crate) ranges: Ranges,
    /// Bytes of its largest value, not rounded.
    pub(crate) bytes: u64,
    /// The argument whose buffer it is.
    pub(crate) argument: Option<u32>,
    /// The result it holds at the end.
    pub(crate) result: Option<u32>,
    /// Holds what must not be written: an argument that is kept, or a constant.
    pub(crate) read_only: bool,
}

/// Why two classes cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// This one is never written.
    ReadOnly(ValueId),
    /// Both are in use at the point.
    Live(Point),
    /// Each has a buffer of its own already.
    Fixed,
    /// One does not fit into the other's buffer.
    Size,
    /// One is a part of another value.
    Part,
}

/// All classes. A class is named by any of its values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    parent: SecondaryMap<ValueId, Option<ValueId>>,
    class: SecondaryMap<ValueId, Class>,
}

impl Classes {
    /// One class for each value that owns bytes.
    pub(crate) fn new(context: &Context<'_>, live: &Liveness) -> Classes {
        let mut classes = Classes::default();
        let program = context.program;
        for (value, data) in &program.values {
            if context.roots.root(value).value != value {
                continue;
            }
            let class = &mut classes.class[value];
            class.ranges = live.ranges[value].clone();
            class.bytes = data.bytes().0;
            class.read_only = matches!(data.storage, Storage::Constant(_));
        }
        for (i, parameter) in program.parameters.iter().enumerate() {
            let class = &mut classes.class[context.roots.root(parameter.value).value];
            class.argument = Some(i as u32);
            class.read_only = parameter.donation == Donation::Kept;
        }
        for (i, &value) in program.results.iter().enumerate() {
            let class = &mut classes.class[context.roots.root(value).value];
            if !class.read_only {
                class.result = Some(i as u32);
            }
        }
        classes
    }

    /// The value that stands for the class of an owner.
    pub(crate) fn find(&self, owner: ValueId) -> ValueId {
        let mut at = owner;
        while let Some(parent) = self.parent[at] {
            at = parent;
        }
        at
    }

    /// The class of an owner.
    pub(crate) fn of(&self, owner: ValueId) -> &Class {
        &self.class[self.find(owner)]
    }

    /// Makes the classes of two values one, if that keeps the invariant.
    pub(crate) fn merge(
        &mut self,
        context: &Context<'_>,
        a: ValueId,
        b: ValueId,
    ) -> Result<(), Conflict> {
        let Some((a, b, class)) = self.try_merge(context, a, b)? else { return Ok(()) };
        // The class with more ranges stays the parent, so that paths stay short.
        let (parent, child) =
            if self.class[a].ranges.len() >= self.class[b].ranges.len() { (a, b) } else { (b, a) };
        self.parent[child] = Some(parent);
        self.class[child] = Class::default();
        self.class[parent] = class;
        Ok(())
    }

    /// Whether [`Classes::merge`] would succeed.
    pub(crate) fn can_merge(
        &self,
        context: &Context<'_>,
        a: ValueId,
        b: ValueId,
    ) -> Result<(), Conflict> {
        self.try_merge(context, a, b).map(|_| ())
    }

    /// The two representatives and the class they would be; none if they are one already.
    fn try_merge(
        &self,
        context: &Context<'_>,
        a: ValueId,
        b: ValueId,
    ) -> Result<Option<(ValueId, ValueId, Class)>, Conflict> {
        if context.bytes(a) == 0 && context.bytes(b) == 0 {
            return Ok(None);
        }
        for value in [a, b] {
            if !context.roots.is_whole(context.program, value) {
                return Err(Conflict::Part);
            }
        }
        let a = self.find(context.roots.root(a).value);
        let b = self.find(context.roots.root(b).value);
        if a == b {
            return Ok(None);
        }
        let (first, second) = (&self.class[a], &self.class[b]);
        for (value, class) in [(a, first), (b, second)] {
            if class.read_only {
                return Err(Conflict::ReadOnly(value));
            }
        }
        let ranges = self.join(context, a, b)?;
        let both = |x: Option<u32>, y: Option<u32>| match (x, y) {
            (Some(_), Some(_)) => Err(Conflict::Fixed),
            _ => Ok(x.or(y)),
        };
        let class = Class {
            ranges,
            bytes: first.bytes.max(second.bytes),
            argument: both(first.argument, second.argument)?,
            result: both(first.result, second.result)?,
            read_only: false,
        };
        let room = match (class.argument, class.result) {
            (Some(i), _) => context.bytes(context.program.parameters[i as usize].value),
            (None, Some(i)) => context.bytes(context.program.results[i as usize]),
            (None, None) => u64::MAX,
        };
        if class.bytes > room { Err(Conflict::Size) } else { Ok(Some((a, b, class))) }
    }

    /// The union of two classes' ranges.
    fn join(&self, context: &Context<'_>, a: ValueId, b: ValueId) -> Result<Ranges, Conflict> {
        let (first, second) = (&self.class[a].ranges, &self.class[b].ranges);
        let (mut i, mut j) = (0, 0);
        while i < first.len() && j < second.len() {
            let (x, y) = (first[i], second[j]);
            let (low, high) = (x.0.max(y.0), x.1.min(y.1));
            if low < high {
                let allowed = high == low + 1
                    && ((x.1 == high && y.0 == low && self.replaces(context, low, a, b))
                        || (y.1 == high && x.0 == low && self.replaces(context, low, b, a)));
                if !allowed {
                    return Err(Conflict::Live(low));
                }
            }
            if x.1 <= y.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        let mut all: Ranges = first.iter().chain(second).copied().collect();
        all.sort_unstable();
        merge_touching(&mut all);
        Ok(all)
    }

    /// Whether the step that writes at the point puts a value of class `born` over an operand of
    /// class `dying`.
    fn replaces(&self, context: &Context<'_>, at: Point, dying: ValueId, born: ValueId) -> bool {
        let Some(step) = context.writer(at) else { return false };
        let class = |value: ValueId| self.find(context.roots.root(value).value);
        if step.results.iter().any(|&v| class(v) == dying) {
            return false;
        }
        let mut any = false;
        for (r, _) in step.results.iter().enumerate().filter(|(_, v)| class(**v) == born) {
            for (o, _) in step.operands.iter().enumerate().filter(|(_, v)| class(**v) == dying) {
                if !context.may_share(step, r, o) {
                    return false;
                }
                any = true;
            }
        }
        let held = context.held.get(&step.id).map_or(&[][..], |h| &h[..]);
        any || held
            .iter()
            .any(|&(r, v)| class(step.results[r as usize]) == born && class(v) == dying)
    }
}
