//! The report for people.

use super::{DonationRow, Report, ValueRow};
use crate::{Region, UsedAs};
use std::cmp::Ordering;
use std::fmt::Write;

/// Rows of a table that are shown unless all are asked for.
const SHOWN: usize = 16;

impl Report {
    /// The report as text: totals, the peak, donations, copies. Long tables are cut unless
    /// everything is to be explained.
    pub fn text(&self, explain: bool) -> String {
        let shown = if explain { usize::MAX } else { SHOWN };
        let mut out = String::new();
        self.totals(&mut out);
        self.peak_text(&mut out, shown);
        self.donation_text(&mut out, explain);
        self.copy_text(&mut out, shown);
        self.ablation_text(&mut out);
        if explain {
            self.value_text(&mut out);
        }
        out
    }

    fn totals(&self, out: &mut String) {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        let least = if self.is_least_order() { ", least possible" } else { "" };
        let _ = writeln!(
            out,
            "{}: {} steps, {} {threads}, order \"{}\"{least}\n",
            self.program, self.steps, self.threads, self.order
        );
        let mut row = |name: &str, bytes: u64, note: String| {
            let line = format!("  {name:<12}{:>12}  {note}", size(bytes));
            let _ = writeln!(out, "{}", line.trim_end());
        };
        row("arguments", self.argument_bytes, String::new());
        let alias = match self.alias_bytes {
            0 => String::new(),
            bytes => format!("{} of them in donated arguments", size(bytes)),
        };
        row("results", self.output_bytes, alias);
        row("constants", self.constant_bytes, String::new());
        let over = self.arena_bytes - self.lower_bound_bytes;
        let bound = if over == 0 {
            format!("the lower bound ({})", self.solver)
        } else {
            let share = 100.0 * over as f64 / self.lower_bound_bytes.max(1) as f64;
            format!("lower bound {} (+{share:.1}%, {})", size(self.lower_bound_bytes), self.solver)
        };
        row("arena", self.arena_bytes, bound);
        if self.arena_without_scratch_bytes < self.arena_bytes {
            row("  values", self.arena_without_scratch_bytes, "without the steps' scratch".into());
        }
        row("peak", self.peak_bytes(), "arguments + results - aliased + arena + constants".into());
    }

    fn peak_text(&self, out: &mut String, shown: usize) {
        let Some(peak) = &self.peak else { return };
        let _ = writeln!(out, "\nThe arena is fullest at point {}, {}:\n", peak.point, peak.step);
        let rows = peak.rows.iter().take(shown).map(|&i| {
            let row = &self.values[i];
            let reader = row.last_reader.clone().unwrap_or_default();
            let (bytes, offset) = (size(row.bytes), row.offset.to_string());
            [bytes, offset, row.name.clone(), row.ty.clone(), source(row), reader]
        });
        table(out, ["bytes", "offset", "value", "type", "source", "last read by"], 2, rows);
        if peak.rows.len() > shown {
            let rest: u64 = peak.rows[shown..].iter().map(|&i| self.values[i].bytes).sum();
            let _ = writeln!(out, "  {:>12}  in {} more", size(rest), peak.rows.len() - shown);
        }
    }

    fn donation_text(&self, out: &mut String, explain: bool) {
        if self.donations.is_empty() {
            return;
        }
        let held = |d: &&DonationRow| d.output.is_some();
        let used = self.donations.iter().filter(held).count();
        let bytes: u64 = self.donations.iter().filter(held).map(|d| d.bytes).sum();
        let all: u64 = self.donations.iter().map(|d| d.bytes).sum();
        let _ = writeln!(
            out,
            "\nDonated: {used} of {} arguments become results, {} of {}",
            self.donations.len(),
            size(bytes),
            size(all)
        );
        // A donor that became the result its source names needs no words.
        for d in self.donations.iter().filter(|d| explain || !d.reason.is_empty()) {
            let what = match (d.output, d.used_as) {
                (Some(result), _) => format!("result {result}"),
                (None, UsedAs::Scratch) => "scratch".to_string(),
                (None, UsedAs::Output | UsedAs::None) => "unused".to_string(),
            };
            let line = format!(
                "  argument {:<5}{:>12}  {what:<12} {}",
                d.argument,
                size(d.bytes),
                d.reason
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }

    /// Every value in the order of its life.
    fn value_text(&self, out: &mut String) {
        let _ = writeln!(out, "\nValues, by the points at which they are in use:\n");
        let mut rows: Vec<&ValueRow> = self.values.iter().collect();
        rows.sort_by_key(|row| (row.start, row.end));
        let rows = rows.into_iter().map(|row| {
            let region = match row.region {
                Region::Arena => "arena".to_string(),
                Region::Argument(i) => format!("argument {i}"),
                Region::Output(i) => format!("result {i}"),
                Region::Constant(c) => format!("constant {}", c.as_u32()),
            };
            [
                row.start.to_string(),
                row.end.to_string(),
                size(row.bytes),
                row.offset.to_string(),
                region,
                row.name.clone(),
                row.ty.clone(),
                row.op.clone(),
                source(row),
            ]
        });
        let heads = ["from", "to", "bytes", "offset", "in", "value", "type", "made by", "source"];
        table(out, heads, 4, rows);
    }

    /// What each of the planner's ideas saves.
    fn ablation_text(&self, out: &mut String) {
        if self.ablation.is_empty() {
            return;
        }
        let _ = writeln!(out, "\nWhat the plan would be without one thing or another:\n");
        let more = |bytes: u64, now: u64| match bytes.cmp(&now) {
            Ordering::Equal => "the same".to_string(),
            Ordering::Greater => format!("+{}", size(bytes - now)),
            Ordering::Less => format!("-{}", size(now - bytes)),
        };
        let peak = self.peak_bytes();
        let copied = self.copies.iter().map(|c| c.bytes).sum();
        let whole = ["nothing".to_string(), size(self.arena_bytes), String::new()];
        let whole = [whole.as_slice(), &[size(peak), size(copied)]].concat();
        let rows = self.ablation.iter().map(|a| {
            let arena = more(a.arena_bytes, self.arena_bytes);
            vec![
                a.without.clone(),
                size(a.arena_bytes),
                arena,
                size(a.peak_bytes),
                size(a.copy_bytes),
            ]
        });
        let rows = std::iter::once(whole).chain(rows);
        let rows = rows.map(|r| -> [String; 5] { r.try_into().expect("five cells are made") });
        table(out, ["without", "arena", "that is", "peak", "copied"], 0, rows);
    }

    fn copy_text(&self, out: &mut String, shown: usize) {
        if self.copies.is_empty() {
            let _ = writeln!(out, "\nNo copies.");
            return;
        }
        let bytes: u64 = self.copies.iter().map(|c| c.bytes).sum();
        let _ = writeln!(out, "\nCopies: {}, {}\n", self.copies.len(), size(bytes));
        for copy in self.copies.iter().take(shown) {
            let _ = writeln!(out, "  {:>12}  {:<24} {}", size(copy.bytes), copy.value, copy.reason);
        }
        if self.copies.len() > shown {
            let rest: u64 = self.copies[shown..].iter().map(|c| c.bytes).sum();
            let _ = writeln!(out, "  {:>12}  in {} more", size(rest), self.copies.len() - shown);
        }
    }
}

/// The op's place in the source.
fn source(row: &ValueRow) -> String {
    row.source.as_ref().map_or_else(String::new, ToString::to_string)
}

/// Columns as wide as they need to be; the first ones stand on the right.
fn table<const N: usize>(
    out: &mut String,
    heads: [&str; N],
    right: usize,
    rows: impl Iterator<Item = [String; N]>,
) {
    let mut all = vec![heads.map(str::to_string)];
    all.extend(rows);
    let width = |column: usize| all.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in &all {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column < right {
                true => write!(line, "  {cell:>width$}"),
                false => write!(line, "  {cell:<width$}"),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// A number of bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.2} {}", UNITS[unit]) }
}
