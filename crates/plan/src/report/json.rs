//! The report for scripts; the keys are the command line's contract.

use super::{Report, ValueRow};
use crate::{Region, UsedAs};
use serde_json::{Value, json};

impl Report {
    /// The report as JSON text.
    pub fn json(&self) -> String {
        self.value().to_string()
    }

    /// The report as a JSON value.
    pub fn value(&self) -> Value {
        let copies: Vec<Value> = self
            .copies
            .iter()
            .map(|c| json!({"value": c.value, "bytes": c.bytes, "reason": c.reason}))
            .collect();
        let donations: Vec<Value> = self
            .donations
            .iter()
            .map(|d| {
                json!({
                    "argument": d.argument,
                    "bytes": d.bytes,
                    "used_as": used_as(d.used_as),
                    "output": d.output,
                    "reason": d.reason,
                })
            })
            .collect();
        let ablation: Vec<Value> = self
            .ablation
            .iter()
            .map(|a| {
                json!({
                    "without": a.without,
                    "arena_bytes": a.arena_bytes,
                    "peak_bytes": a.peak_bytes,
                    "copy_bytes": a.copy_bytes,
                })
            })
            .collect();
        let values: Vec<Value> = self.values.iter().map(value).collect();
        let mut all = json!({
            "program": self.program,
            "threads": self.threads,
            "argument_bytes": self.argument_bytes,
            "output_bytes": self.output_bytes,
            "alias_bytes": self.alias_bytes,
            "constant_bytes": self.constant_bytes,
            "arena_bytes": self.arena_bytes,
            "arena_without_scratch_bytes": self.arena_without_scratch_bytes,
            "library_scratch_bytes": self.library_scratch_bytes,
            "lower_bound_bytes": self.lower_bound_bytes,
            "peak_bytes": self.peak_bytes(),
            "optimal": self.is_optimal(),
            "solver": self.solver,
            "order": self.order,
            "order_expected_bytes": self.order_expected_bytes,
            "order_bound_bytes": self.order_bound_bytes,
            "order_least": self.is_least_order(),
            "copies": copies,
            "donations": donations,
            "values": values,
        });
        if !ablation.is_empty() {
            all["ablation"] = ablation.into();
        }
        all
    }
}

pub(super) fn used_as(used: UsedAs) -> &'static str {
    match used {
        UsedAs::Output => "output",
        UsedAs::Scratch => "scratch",
        UsedAs::None => "none",
    }
}

fn value(row: &ValueRow) -> Value {
    let (region, index) = match row.region {
        Region::Arena => ("arena", 0),
        Region::Argument(i) => ("argument", i),
        Region::Output(i) => ("output", i),
        Region::Constant(c) => ("constant", c.as_u32()),
    };
    json!({
        "name": row.name,
        "op": row.op,
        "type": row.ty,
        "bytes": row.bytes,
        "buffer": row.buffer,
        "region": region,
        "index": index,
        "offset": row.offset,
        "start": row.start,
        "end": row.end,
        "source": row.source.as_ref().map(ToString::to_string),
    })
}
