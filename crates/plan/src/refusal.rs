//! Words for what became of a donated argument that holds no result, or not the one that the source
//! names: the values, the steps with their places, and the bytes that decided it.

use crate::alias;
use crate::classes::{Classes, Conflict, Context};
use crate::copies::Copies;
use crate::liveness::Liveness;
use crate::readers::{Readers, name_of, value_of};
use crate::report::size;
use crate::walk::Point;
use jaxrs_kernel::program::{Bytes, Donation, Sharing, Step, ValueId};

/// Results that are named one by one.
const NAMED: usize = 3;

/// What the words are made from.
pub(crate) struct Refusals<'a> {
    context: &'a Context<'a>,
    /// The classes of the plan.
    classes: &'a Classes,
    /// The classes that donation found: what must share memory does, and nothing else.
    before: Classes,
    readers: Readers,
    /// Whether donors may take the results alone that the source names.
    strict: bool,
}

impl<'a> Refusals<'a> {
    /// For a plan whose copies are all made.
    pub(crate) fn new(
        context: &'a Context<'a>,
        classes: &'a Classes,
        live: &Liveness,
        copies: &Copies,
        strict: bool,
    ) -> Refusals<'a> {
        let mut before = Classes::new(context, live);
        let needs = alias::must_alias(context, &mut before, &copies.tried);
        debug_assert!(needs.is_empty(), "the copies have come to an end");
        let readers = Readers::new(context.program, context.roots, context.line);
        Refusals { context, classes, before, readers, strict }
    }

    /// Why an argument holds no result.
    pub(crate) fn unused(&self, argument: u32) -> String {
        let (bytes, parameter) = self.argument(argument);
        if bytes == 0 {
            return "it has no bytes".into();
        }
        let unread = self.readers.last(self.root(parameter)).is_none();
        let used = if unread { "the program does not use it; " } else { "" };
        let all = 0..self.context.program.results.len() as u32;
        let (fitting, larger): (Vec<u32>, Vec<u32>) =
            all.filter(|&i| self.result_bytes(i) > 0).partition(|&i| self.result_bytes(i) <= bytes);
        let smallest = larger.iter().copied().min_by_key(|&i| self.result_bytes(i));
        if fitting.is_empty() {
            return match smallest {
                None => format!("{used}the program returns no bytes"),
                Some(i) => {
                    let size = size(Bytes(self.result_bytes(i)).aligned().0);
                    match larger.len() {
                        1 => format!("{used}result {i} is larger: {size}"),
                        _ => format!(
                            "{used}every result is larger: result {i}, the smallest, has {size}"
                        ),
                    }
                }
            };
        }
        let named = self.named(argument);
        let free = fitting
            .iter()
            .copied()
            .filter(|&i| self.holder(i).is_none())
            .max_by_key(|&i| (named == Some(i), self.result_bytes(i), std::cmp::Reverse(i)));
        match free {
            Some(i) => match self.obstacle(argument, i) {
                Some(obstacle) => obstacle,
                None => format!("{used}{}", self.not_chosen(i)),
            },
            None => format!("{used}{}", self.taken(&fitting)),
        }
    }

    /// Why an argument holds another result than the one that the source names.
    pub(crate) fn re_paired(&self, argument: u32, named: u32, output: u32) -> String {
        let mut words = format!("the source names result {named}");
        if let Some(obstacle) = self.obstacle(argument, named) {
            words += &format!(", but {obstacle}");
        }
        if let Some(holder) = self.holder(named) {
            words += &format!("; result {named} is in argument {holder}");
        }
        words + &format!("; result {output} goes here without a copy")
    }

    /// What keeps a result out of an argument's memory.
    fn obstacle(&self, argument: u32, result: u32) -> Option<String> {
        let (_, parameter) = self.argument(argument);
        let value = self.context.program.results[result as usize];
        let name = value_of(self.context.program, value);
        let before = self.before.of(self.root(parameter));
        if let Some(other) = before.result.filter(|&other| other != result) {
            let itself = self.root(self.context.program.results[other as usize]);
            return Some(match itself == self.root(parameter) {
                true => format!("the argument is result {other} as it is"),
                false => format!("result {other} is made in the argument's memory"),
            });
        }
        match self.before.can_merge(self.context, value, parameter).err()? {
            Conflict::Live(at) => Some(self.alive(parameter, result, at)),
            Conflict::Part => Some(format!("result {result} ({name}) is a part of another value")),
            Conflict::Size => Some(format!("result {result} ({name}) is made in a larger buffer")),
            Conflict::Fixed => Some(match self.before.of(self.root(value)).argument {
                Some(other) => format!("result {result} is made in argument {other}"),
                None => format!("result {result} has a buffer of its own"),
            }),
            Conflict::ReadOnly(_) => Some(format!("result {result} ({name}) is not computed")),
        }
    }

    /// What an argument's memory holds at the point where a result is made.
    fn alive(&self, parameter: ValueId, result: u32, at: Point) -> String {
        let Context { program, .. } = self.context;
        let own = self.root(parameter);
        let donor = self.before.find(own);
        let maker = self.context.writer(at);
        let made = match maker {
            Some(step) => match self.makes(step, result) {
                Some(true) => format!("result {result} is made by {}", name_of(program, step)),
                Some(false) => format!("result {result} is begun by {}", name_of(program, step)),
                None => format!("result {result} is made"),
            },
            None => format!("result {result} is made"),
        };
        let in_memory = |v: ValueId| self.root(v) == v && self.before.find(v) == donor;
        let next = program
            .values
            .keys()
            .filter(|&v| in_memory(v))
            .filter_map(|v| {
                self.readers.first_after(v, at).map(|(point, reader)| (point, reader, v))
            })
            .min_by_key(|found| found.0);
        if let Some((_, reader, value)) = next {
            return match value == own {
                true => format!("it is still read by {reader} when {made}"),
                false => {
                    let value = value_of(program, value);
                    format!("its memory holds {value}, which {reader} reads after {made}")
                }
            };
        }
        let read = maker.and_then(|step| {
            let of = |&v: &ValueId| self.before.find(self.root(v)) == donor;
            step.operands.iter().position(of).map(|o| (step, o))
        });
        match read {
            Some((step, operand)) => {
                format!("{made}, {}", self.reads_otherwise(step, result, operand))
            }
            None => format!("it is still in use when {made}"),
        }
    }

    /// Why a step that reads the argument cannot write the result over it.
    fn reads_otherwise(&self, step: &Step, result: u32, operand: usize) -> String {
        let program = self.context.program;
        let value = program.results[result as usize];
        let (from, to) = (&program.values[step.operands[operand]], &program.values[value]);
        if from.dtype.size() != to.dtype.size() {
            return format!(
                "which reads elements of {} bytes for those of {}",
                from.dtype.size(),
                to.dtype.size()
            );
        }
        let of = |&v: &ValueId| self.root(v) == self.root(value);
        let row = step.results.iter().position(of).and_then(|r| step.sharing.get(r));
        match row.and_then(|row| row.get(operand)) {
            Some(Sharing::Ordered) => {
                format!("which reads it on {} threads", self.context.threads)
            }
            Some(Sharing::Never | Sharing::SameElement | Sharing::AfterFullRead) | None => {
                "which reads it in another order than it writes".into()
            }
        }
    }

    /// Whether what a step writes is a result, or only becomes it.
    fn makes(&self, step: &Step, result: u32) -> Option<bool> {
        let wanted = self.root(self.context.program.results[result as usize]);
        let class = self.before.find(wanted);
        let mut roots = step.results.iter().map(|&v| self.root(v));
        let found = roots.find(|&root| root == wanted || self.before.find(root) == class)?;
        Some(found == wanted)
    }

    /// Why a result that could be in an argument's memory is not.
    fn not_chosen(&self, result: u32) -> String {
        let parameters = self.context.program.parameters.len() as u32;
        match (0..parameters).find(|&a| self.named(a) == Some(result)) {
            Some(other) if self.strict => {
                format!("result {result} is for argument {other}, as the source names it")
            }
            Some(_) | None if self.strict => "the source pairs it with another result".into(),
            Some(_) | None => {
                format!("there are too many donors to look at all for result {result}")
            }
        }
    }

    /// Who has the results that would fit.
    fn taken(&self, fitting: &[u32]) -> String {
        let one = |&i: &u32| match self.holder(i) {
            Some(holder) => format!("result {i} is in argument {holder}"),
            None => format!("result {i} has a buffer of its own"),
        };
        let mut largest = fitting.to_vec();
        largest.sort_by_key(|&i| (std::cmp::Reverse(self.result_bytes(i)), i));
        let mut words: Vec<String> = largest.iter().take(NAMED).map(one).collect();
        if fitting.len() > NAMED {
            words.push(format!("{} more", fitting.len() - NAMED));
        }
        let which = if fitting.len() == 1 { "the result" } else { "each result" };
        format!("{which} that fits has another donor: {}", words.join(", "))
    }

    fn argument(&self, argument: u32) -> (u64, ValueId) {
        let value = self.context.program.parameters[argument as usize].value;
        (self.context.bytes(value), value)
    }

    fn named(&self, argument: u32) -> Option<u32> {
        match self.context.program.parameters[argument as usize].donation {
            Donation::Donated { preferred } => preferred,
            Donation::Kept => None,
        }
    }

    /// The argument that a result is in.
    fn holder(&self, result: u32) -> Option<u32> {
        let value = self.context.program.results[result as usize];
        self.classes.of(self.root(value)).argument
    }

    fn result_bytes(&self, result: u32) -> u64 {
        self.context.bytes(self.context.program.results[result as usize])
    }

    fn root(&self, value: ValueId) -> ValueId {
        self.context.roots.root(value).value
    }
}
