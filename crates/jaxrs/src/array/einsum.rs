//! Einstein sums: contractions written as text.

use super::Array;
use super::contract::{Label, Labelled, along_last, pair};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::builder::Builder;
use jaxrs_ir::{DType, ValueId};
use std::borrow::Borrow;

/// The first label of axes under an ellipsis, counted from the last; above all characters.
const ELLIPSIS: Label = 0x11_0000;

/// The labels of one operand or of the result, as written.
struct Term {
    before: Vec<Label>,
    after: Vec<Label>,
    ellipsis: bool,
}

impl Term {
    fn parse(text: &str) -> Result<Term, String> {
        let labels = |part: &str| -> Result<Vec<Label>, String> {
            part.chars()
                .map(|c| match c.is_alphabetic() {
                    true => Ok(c as Label),
                    false => Err(format!("einsum: {c:?} is no axis label")),
                })
                .collect()
        };
        match text.split_once("...") {
            Some((before, after)) => {
                Ok(Term { before: labels(before)?, after: labels(after)?, ellipsis: true })
            }
            None => Ok(Term { before: labels(text)?, after: Vec::new(), ellipsis: false }),
        }
    }

    /// How many axes the ellipsis stands for in an operand of this rank.
    fn hidden(&self, rank: usize) -> Option<usize> {
        let hidden = rank.checked_sub(self.before.len() + self.after.len())?;
        (self.ellipsis || hidden == 0).then_some(hidden)
    }

    /// All labels, the ellipsis standing for so many axes.
    fn labels(&self, hidden: usize) -> Vec<Label> {
        let ellipsis = (0..hidden).rev().map(|n| ELLIPSIS + n as Label);
        self.before.iter().copied().chain(ellipsis).chain(self.after.iter().copied()).collect()
    }
}

/// The labels of the operands, and of the result.
fn parse(text: &str, ranks: &[usize]) -> Result<(Vec<Vec<Label>>, Vec<Label>), String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let (operands, result) = match text.split_once("->") {
        Some((operands, result)) => (operands, Some(Term::parse(result)?)),
        None => (&text[..], None),
    };
    let terms = operands.split(',').map(Term::parse).collect::<Result<Vec<_>, _>>()?;
    if terms.len() != ranks.len() {
        return Err(format!("einsum: {} terms for {} operands", terms.len(), ranks.len()));
    }
    let mut all = Vec::with_capacity(terms.len());
    let mut most = 0;
    for (position, (term, &rank)) in terms.iter().zip(ranks).enumerate() {
        let hidden = term.hidden(rank).ok_or_else(|| {
            let labels = term.before.len() + term.after.len();
            format!("einsum: {labels} labels for the {rank} axes of operand {position}")
        })?;
        most = most.max(hidden);
        all.push(term.labels(hidden));
    }
    let result = match result {
        Some(term) => term.labels(if term.ellipsis { most } else { 0 }),
        None => implicit(&all, most),
    };
    for (position, label) in result.iter().enumerate() {
        let name = char::from_u32(*label).unwrap_or('.');
        if result[..position].contains(label) {
            return Err(format!("einsum: the result names {name:?} twice"));
        }
        if !all.iter().any(|labels| labels.contains(label)) {
            return Err(format!("einsum: no operand has the result's axis {name:?}"));
        }
    }
    Ok((all, result))
}

/// The result where the text names none: the ellipsis, then in alphabetical order the labels that
/// stand once.
fn implicit(operands: &[Vec<Label>], hidden: usize) -> Vec<Label> {
    let all = operands.concat();
    let once = |label: &Label| all.iter().filter(|&other| other == label).count() == 1;
    let mut named: Vec<Label> =
        all.iter().copied().filter(|label| *label < ELLIPSIS && once(label)).collect();
    named.sort_unstable();
    (0..hidden).rev().map(|n| ELLIPSIS + n as Label).chain(named).collect()
}

/// The operand with each label once: of axes with one label the diagonal.
fn diagonals(b: &mut Builder<'_>, mut x: Labelled) -> Result<Labelled, String> {
    loop {
        let twice = (0..x.labels.len())
            .find_map(|n| Some((x.labels[..n].iter().position(|&l| l == x.labels[n])?, n)));
        let Some((one, other)) = twice else { return Ok(x) };
        let ty = b.ty(x.value);
        let extent = ty.shape[one];
        if extent != ty.shape[other] {
            return Err(format!("einsum: axes {one} and {other} of {ty} have one label"));
        }
        let rest: Vec<usize> = (0..ty.rank()).filter(|&n| n != one && n != other).collect();
        let order: Vec<usize> = rest.iter().copied().chain([one, other]).collect();
        let last = b.transpose(x.value, &order)?;
        let value = along_last(b, last, 0, extent)?;
        let labels = rest.iter().chain([&one]).map(|&n| x.labels[n]).collect();
        x = Labelled { value, labels };
    }
}

/// An error unless axes with one label have one extent, or extent 1.
fn check_extents(b: &Builder<'_>, operands: &[Labelled]) -> Result<(), String> {
    let mut known: Vec<(Label, u64)> = Vec::new();
    for operand in operands {
        for (&label, &extent) in operand.labels.iter().zip(&b.ty(operand.value).shape) {
            match known.iter_mut().find(|(l, _)| *l == label) {
                None => known.push((label, extent)),
                Some((_, other)) if *other == 1 => *other = extent,
                Some((_, other)) if *other == extent || extent == 1 => {}
                Some((_, other)) => {
                    let name = char::from_u32(label).unwrap_or('.');
                    return Err(format!("einsum: axis {name:?} is {other} and {extent}"));
                }
            }
        }
    }
    Ok(())
}

/// Which two operands to contract next: those whose result is smallest relative to them.
fn next(b: &Builder<'_>, operands: &[Labelled], result: &[Label]) -> (usize, usize) {
    let mut best: Option<((f64, f64), (usize, usize))> = None;
    for second in 1..operands.len() {
        for first in 0..second {
            let (x, y) = (&operands[first], &operands[second]);
            let others = operands.iter().enumerate();
            let needed = |label: Label| {
                result.contains(&label)
                    || others.clone().any(|(n, o)| n != first && n != second && o.has(label))
            };
            let (mut work, mut size) = (1.0, 1.0);
            let both = x.labels.iter().chain(y.labels.iter().filter(|&&label| !x.has(label)));
            for &label in both {
                let extent = x.extent(b, label).max(y.extent(b, label)).unwrap_or(1) as f64;
                work *= extent;
                size *= if needed(label) { extent } else { 1.0 };
            }
            let length = |operand: &Labelled| b.ty(operand.value).len() as f64;
            let score = (size - length(x) - length(y), work);
            if best.is_none_or(|(other, _)| score < other) {
                best = Some((score, (first, second)));
            }
        }
    }
    best.expect("there are two operands, by the caller").1
}

fn contract(
    b: &mut Builder<'_>,
    values: &[ValueId],
    dtype: DType,
    text: &str,
) -> Result<ValueId, String> {
    let ranks: Vec<usize> = values.iter().map(|&value| b.ty(value).rank()).collect();
    let (labels, result) = parse(text, &ranks)?;
    let mut operands = Vec::with_capacity(values.len());
    for (&value, labels) in values.iter().zip(labels) {
        let value = b.convert(value, dtype)?;
        operands.push(diagonals(b, Labelled { value, labels })?);
    }
    check_extents(b, &operands)?;
    while operands.len() > 1 {
        let (first, second) = next(b, &operands, &result);
        let y = operands.remove(second);
        let x = operands.remove(first);
        let rest = &operands;
        let needed = |label| result.contains(&label) || rest.iter().any(|o| o.has(label));
        let made = pair(b, &x, &y, needed)?;
        operands.push(made);
    }
    let only = operands.pop().ok_or("einsum: there are no operands")?;
    let only = only.keep(b, |label| result.contains(&label))?;
    only.ordered(b, &result)
}

impl Array {
    /// The Einstein sum of arrays: each axis has a letter; axes with the same letter run together,
    /// and those that the result does not have are summed. `...` stands for any axes, which
    /// broadcast; without `->` the result has the letters that stand once, in alphabetical order.
    ///
    /// Several operands are contracted pair by pair, the pair with the smallest result relative to
    /// its operands first. Types are promoted.
    ///
    /// ```
    /// use jaxrs::prelude::*;
    /// let (x, y) = (Array::ones([2, 3]), Array::ones([4, 3]));
    /// assert_eq!(Array::einsum("ij,kj->ki", [&x, &y]).shape(), [4, 2]);
    /// assert_eq!(Array::einsum("ij->", [&x]).item::<f32>()?, 6.0);
    /// # Ok::<(), jaxrs::Error>(())
    /// ```
    #[track_caller]
    pub fn einsum<A: Borrow<Array>>(text: &str, operands: impl AsRef<[A]>) -> Array {
        let operands: Vec<&Array> = operands.as_ref().iter().map(Borrow::borrow).collect();
        let types = operands.iter().map(|array| array.dtype());
        let dtype = types.reduce(super::promote).unwrap_or(DType::F32);
        trace::one(&operands, Place::here(), |b, values| contract(b, values, dtype, text))
    }
}
