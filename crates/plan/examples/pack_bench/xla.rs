//! XLA's two orders, as in `xla/service/heap_simulator/heap_simulator.cc`
//! (`GlobalDecreasingSizeBestFitHeap`): rows by size and then duration (`kSpatial`), or by duration
//! and then size (`kTemporal`), ties by number; each goes into the smallest free chunk that holds it,
//! the lowest of equals; the open end above counts as the largest. XLA takes the lower of both.

use jaxrs_plan::pack::{Problem, Row};
use std::cmp::Reverse;

/// The lower of both heights.
pub fn height(problem: &Problem) -> u64 {
    let time = |r: &Row| Reverse(r.upper - r.lower);
    let spatial = |r: &Row| (r.size, time(r));
    let mut order: Vec<&Row> = problem.rows.iter().collect();
    order.sort_by_key(|r| (Reverse(spatial(r).0), spatial(r).1));
    let by_size = best_fit(&order);
    let mut order: Vec<&Row> = problem.rows.iter().collect();
    order.sort_by_key(|r| (time(r), Reverse(r.size)));
    by_size.min(best_fit(&order))
}

fn best_fit(order: &[&Row]) -> u64 {
    let mut placed: Vec<(u64, u64, &Row)> = Vec::new();
    let mut height = 0;
    for &row in order {
        let mut taken: Vec<(u64, u64)> =
            placed.iter().filter(|p| p.2.overlaps(row)).map(|p| (p.0, p.1)).collect();
        taken.sort_unstable();
        let (mut top, mut best) = (0, None::<(u64, u64)>);
        for (from, to) in taken {
            let at = u64::next_multiple_of(top, row.alignment.max(1));
            if at + row.size <= from && best.is_none_or(|b| from - top < b.0) {
                best = Some((from - top, at));
            }
            top = top.max(to);
        }
        let at = best.map_or(u64::next_multiple_of(top, row.alignment.max(1)), |b| b.1);
        placed.push((at, at + row.size, row));
        height = height.max(at + row.size);
    }
    height
}
