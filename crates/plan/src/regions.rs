//! Places every class: those that are an argument's or a result's buffer there, the others in the
//! arena, in results' buffers before the result is written, or in donated arguments' once they are
//! dead. The arena is made small first.

use crate::classes::{Classes, Context};
use crate::liveness::Ranges;
use crate::pack::{self, Effort, Problem, Row, Solution};
use crate::walk::{Point, visit};
use crate::{Ideas, Place, Region};
use jaxrs_kernel::program::{Bytes, Donation, StepId, ValueId};
use rustc_hash::FxHashMap;

/// What the places cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// By class.
    pub(crate) places: FxHashMap<ValueId, Place>,
    pub(crate) scratch: FxHashMap<StepId, Bytes>,
    pub(crate) arena: u64,
    /// Bytes of the arena up to the last that is not scratch.
    pub(crate) values: u64,
    pub(crate) lower_bound: u64,
    pub(crate) solver: &'static str,
    /// Comparisons of rows that packing took.
    pub(crate) comparisons: u64,
    /// Where what is in the arena stands, in its own order.
    solution: Solution,
}

/// Who needs a place.
#[derive(Clone, Copy, Debug)]
enum Who {
    Class(ValueId),
    Scratch(StepId),
}

struct Tenant {
    who: Who,
    ranges: Ranges,
    /// Rounded up.
    size: u64,
    /// Not rounded.
    bytes: u64,
}

impl Tenant {
    fn is_scratch(&self) -> bool {
        matches!(self.who, Who::Scratch(_))
    }
}

/// A buffer that others may use while it is free.
struct Window {
    region: Region,
    bytes: u64,
    /// What stands in it: when, and from where to where.
    taken: Vec<(Ranges, u64, u64)>,
}

/// What is to be placed in the arena, and what is placed elsewhere already.
pub(crate) struct Arena {
    tenants: Vec<Tenant>,
    placed: Placement,
    /// No arena is lower: with scratch, and without.
    pub(crate) bounds: (u64, u64),
}

impl Arena {
    /// What of the classes lies in the arena; `results` says where each result is at the end.
    pub(crate) fn new(
        context: &Context<'_>,
        classes: &Classes,
        results: &[Region],
        ideas: &Ideas,
    ) -> Arena {
        let mut placed = Placement::default();
        let mut tenants = tenants(context, classes, &mut placed);
        let mut windows = windows(context, classes, results);
        if ideas.rooms {
            host(context, &mut tenants, &mut windows, &mut placed);
        }
        let points = context.line.horizon() as usize + 1;
        let most = |tenants: &mut dyn Iterator<Item = &Tenant>| {
            load_of(tenants, points).into_iter().fold(0, i64::max) as u64
        };
        let bound = most(&mut tenants.iter());
        let values = most(&mut tenants.iter().filter(|t| !t.is_scratch()));
        Arena { tenants, placed, bounds: (bound, values) }
    }

    /// Packs once, as quickly as its size demands.
    pub(crate) fn roughly(&self, ideas: &Ideas) -> Placement {
        let problem = Problem { rows: self.tenants.iter().map(row).collect() };
        self.placement(if ideas.packing {
            // What is worth a search is searched by `thoroughly`.
            let all = pack::Ideas::default();
            let ideas = pack::Ideas { search: false, local: false, windows: false, ..all };
            let effort = rough(problem.rows.len());
            problem.solve_with(&pack::Options { effort, ideas, ..pack::Options::default() })
        } else {
            problem.in_time_order()
        })
    }

    /// Betters a first packing.
    pub(crate) fn thoroughly(&self, first: Placement, ideas: &Ideas) -> Placement {
        if !ideas.packing || (first.arena, first.values) == self.bounds {
            return first;
        }
        let mut placement = self.placement(search(self, first.solution));
        placement.comparisons += first.comparisons;
        placement
    }

    fn placement(&self, solution: Solution) -> Placement {
        let mut placement = self.placed.clone();
        placement.arena = solution.height.next_multiple_of(64);
        placement.lower_bound = solution.lower_bound;
        placement.comparisons = solution.comparisons;
        placement.solver = if solution.height == 0 { "empty" } else { solution.solver };
        for (tenant, &offset) in self.tenants.iter().zip(&solution.offsets) {
            match tenant.who {
                Who::Class(class) => {
                    let place = Place { region: Region::Arena, offset: Bytes(offset) };
                    placement.places.insert(class, place);
                    placement.values = placement.values.max(offset + tenant.size);
                }
                Who::Scratch(step) => {
                    placement.scratch.insert(step, Bytes(offset));
                }
            }
        }
        placement.solution = solution;
        placement
    }
}

/// Packs the arena: its height first, then the height of what is not scratch. Stops where both are
/// known to be least.
fn search(arena: &Arena, first: Solution) -> Solution {
    let tenants = &arena.tenants;
    let comparisons = thorough(tenants.len());
    let mut spent = 0;
    let mut solve = |problem: &Problem, comparisons: u64| {
        let solution = problem.solve(Effort { comparisons });
        spent += solution.comparisons;
        solution
    };
    let free = Problem { rows: tenants.iter().map(row).collect() };
    let (mut best, bound) = (first, arena.bounds.0);
    let mut least = arena.bounds;
    if best.height > bound {
        let searched = solve(&free, comparisons);
        least.0 = searched.proved;
        if searched.height < best.height {
            best = searched;
        }
    }
    let ends = |s: &Solution, i: usize| s.offsets[i] + tenants[i].size;
    let cost = |s: &Solution| {
        let values = (0..tenants.len()).filter(|&i| !tenants[i].is_scratch());
        (s.height, values.map(|i| ends(s, i)).max().unwrap_or(0))
    };
    if cost(&best) > least {
        // The values alone, then each scratch where it first fits.
        let alone: Vec<usize> = (0..tenants.len()).filter(|&i| !tenants[i].is_scratch()).collect();
        let values = Problem { rows: alone.iter().map(|&i| row(&tenants[i])).collect() };
        let mut packed = solve(&values, rough(alone.len()).comparisons);
        if packed.height > packed.proved {
            packed = solve(&values, comparisons / 2);
        }
        least.1 = packed.proved;
        let mut fixed = free.clone();
        for (i, row) in fixed.rows.iter_mut().enumerate() {
            row.offset = alone.binary_search(&i).ok().map(|at| packed.offsets[at]);
        }
        // Scratch seldom meets scratch: an order or two.
        let solution = solve(&fixed, (tenants.len() * tenants.len()) as u64);
        if cost(&solution) < cost(&best) {
            best = solution;
        }
        if cost(&best) > least {
            let heights = (packed.height, cost(&best).1);
            let solution =
                under(tenants, &free, best.height, heights, &mut solve).unwrap_or_else(|| {
                    let mut fixed = free.clone();
                    for (row, tenant) in fixed.rows.iter_mut().zip(tenants) {
                        row.offset = tenant.is_scratch().then(|| best.height - tenant.size);
                    }
                    solve(&fixed, comparisons / 2)
                });
            if cost(&solution) < cost(&best) {
                best = solution;
            }
        }
    }
    Solution { lower_bound: bound, comparisons: spent, ..best }
}

/// Scratch under the ceiling, the values from the floor up: to the lowest of some heights that they
/// keep to when the scratch is cut off there, too; from the height of the values alone to below the
/// one reached.
fn under(
    tenants: &[Tenant],
    free: &Problem,
    ceiling: u64,
    (alone, reached): (u64, u64),
    solve: &mut impl FnMut(&Problem, u64) -> Solution,
) -> Option<Solution> {
    let start = |i: usize| ceiling - free.rows[i].size.min(ceiling);
    let heights = [4, 5, 6, 8, 16, 32].map(|n| (n * alone / 4).next_multiple_of(64));
    heights.into_iter().filter(|&height| height < ceiling.min(reached)).find_map(|height| {
        let (mut below, mut problem) = (Vec::new(), Problem::default());
        for (i, row) in free.rows.iter().enumerate() {
            match tenants[i].is_scratch() {
                true if start(i) >= height => continue,
                true => problem.rows.push(Row {
                    offset: Some(start(i)),
                    size: height - start(i),
                    ..row.clone()
                }),
                false => problem.rows.push(row.clone()),
            }
            below.push(i);
        }
        let solution = solve(&problem, rough(below.len()).comparisons);
        (solution.height <= height).then(|| {
            let mut offsets: Vec<u64> = (0..tenants.len()).map(start).collect();
            for (&i, &offset) in below.iter().zip(&solution.offsets) {
                offsets[i] = offset;
            }
            Solution { offsets, height: ceiling, ..solution }
        })
    })
}

/// Effort of a first packing: every order if the rows are few, else some.
fn rough(rows: usize) -> Effort {
    let squared = (rows * rows) as u64;
    Effort { comparisons: (2 * squared).max((6 * squared).min(300_000)).min(50_000_000) }
}

/// Comparisons for packing the order that is kept: some fifty packings. Of a thousand programs, all
/// that were packed better by a search took less.
fn thorough(rows: usize) -> u64 {
    (24 * (rows * rows) as u64).clamp(20_000, 700_000)
}

fn row(tenant: &Tenant) -> Row {
    let gap = |w: &[(Point, Point)]| (u64::from(w[0].1), u64::from(w[1].0));
    Row {
        lower: u64::from(tenant.ranges[0].0),
        upper: u64::from(tenant.ranges[tenant.ranges.len() - 1].1),
        size: tenant.size,
        alignment: 64,
        gaps: tenant.ranges.windows(2).map(gap).collect(),
        offset: None,
    }
}

/// The classes without a buffer of their own, and the steps' scratch; the others get their places.
fn tenants(context: &Context<'_>, classes: &Classes, placement: &mut Placement) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    for value in context.program.values.keys() {
        if context.roots.root(value).value != value || classes.find(value) != value {
            continue;
        }
        let class = classes.of(value);
        if class.read_only || class.bytes == 0 || class.ranges.is_empty() {
            continue;
        }
        let own = match (class.argument, class.result) {
            (Some(i), _) => Some(Region::Argument(i)),
            (None, Some(i)) => Some(Region::Output(i)),
            (None, None) => None,
        };
        if let Some(region) = own {
            placement.places.insert(value, Place { region, offset: Bytes(0) });
            continue;
        }
        tenants.push(Tenant {
            who: Who::Class(value),
            ranges: class.ranges.clone(),
            size: Bytes(class.bytes).aligned().0,
            bytes: class.bytes,
        });
    }
    visit(&context.program.body, &mut |step| {
        let bytes = step.scratch.per_thread.0 * u64::from(context.threads);
        if bytes > 0 {
            let span = context.line.span(step);
            tenants.push(Tenant {
                who: Who::Scratch(step.id),
                ranges: Ranges::from_slice(&[(span.read, span.write + 1)]),
                size: Bytes(bytes).aligned().0,
                bytes,
            });
        }
    });
    tenants
}

fn windows(context: &Context<'_>, classes: &Classes, results: &[Region]) -> Vec<Window> {
    let mut windows = Vec::new();
    let mut add = |region, value: ValueId| {
        let class = classes.of(context.roots.root(value).value);
        let bytes = context.bytes(value);
        if bytes > 0 {
            let size = Bytes(bytes).aligned().0;
            windows.push(Window { region, bytes, taken: vec![(class.ranges.clone(), 0, size)] });
        }
    };
    for (i, parameter) in context.program.parameters.iter().enumerate() {
        if parameter.donation != Donation::Kept {
            add(Region::Argument(i as u32), parameter.value);
        }
    }
    for (&region, &value) in results.iter().zip(&context.program.results) {
        if matches!(region, Region::Output(_)) {
            add(region, value);
        }
    }
    windows
}

/// Moves tenants out of the arena, as long as that lowers its load at the peak.
fn host(
    context: &Context<'_>,
    tenants: &mut Vec<Tenant>,
    windows: &mut [Window],
    placement: &mut Placement,
) {
    if windows.is_empty() || tenants.is_empty() {
        return;
    }
    windows.sort_by_key(|w| w.bytes);
    let points = context.line.horizon() as usize + 1;
    host_in_turn(tenants, windows, points, placement);
    let mut rounds = 40_000_000 / (points + tenants.len()) + 16;
    loop {
        let Some(peak) = peak(tenants, points) else { return };
        rounds -= 1;
        if rounds == 0 {
            return;
        }
        let live = |t: &Tenant| t.ranges.iter().any(|r| r.0 <= peak && peak < r.1);
        let mut at_peak: Vec<usize> = (0..tenants.len())
            .filter(|&i| matches!(tenants[i].who, Who::Class(_)) && live(&tenants[i]))
            .collect();
        at_peak.sort_by_key(|&i| (std::cmp::Reverse(tenants[i].size), i));
        let found = at_peak
            .into_iter()
            .find_map(|i| room(&tenants[i], windows).map(|(window, offset)| (i, window, offset)));
        let Some((i, window, offset)) = found else { return };
        let tenant = tenants.swap_remove(i);
        let window = &mut windows[window];
        let Who::Class(class) = tenant.who else { unreachable!("scratch stays in the arena") };
        let place = Place { region: window.region, offset: Bytes(offset) };
        placement.places.insert(class, place);
        window.taken.push((tenant.ranges, offset, offset + tenant.size));
    }
}

/// Steps of the search for what a window hosts in turn.
const TURN_BUDGET: usize = 20_000_000;

/// For each window, the largest first: the tenants that use it one after another such that the
/// peak of what stays is least, then what lies above half of the peak.
fn host_in_turn(
    tenants: &mut Vec<Tenant>,
    windows: &mut [Window],
    points: usize,
    placement: &mut Placement,
) {
    let mut budget = TURN_BUDGET;
    let mut load = load_of(tenants.iter(), points);
    for window in windows.iter_mut().rev() {
        let most = load.iter().copied().max().unwrap_or(0);
        let Some(at) = load.iter().position(|&l| l == most && l > 0) else { return };
        let live = |t: &Tenant| t.ranges.iter().any(|r| r.0 as usize <= at && at < r.1 as usize);
        if !tenants.iter().any(|t| t.bytes <= window.bytes && live(t)) {
            // Smaller windows hold even less.
            return;
        }
        let fits = |t: &Tenant| {
            matches!(t.who, Who::Class(_))
                && t.bytes <= window.bytes
                && window.taken.iter().all(|taken| !meet(&taken.0, &hull(t)))
        };
        let fitting: Vec<usize> = (0..tenants.len()).filter(|&i| fits(&tenants[i])).collect();
        if !fitting.iter().any(|&i| live(&tenants[i])) {
            continue;
        }
        let work: usize = fitting
            .iter()
            .map(|&i| (hull(&tenants[i])[0].1 - hull(&tenants[i])[0].0) as usize)
            .sum::<usize>()
            + points;
        let Some(left) = budget.checked_sub(work) else { return };
        budget = left;
        let mut hosted = best_turns(tenants, &fitting, &load);
        hosted.sort_unstable();
        for i in hosted.into_iter().rev() {
            let tenant = tenants.swap_remove(i);
            let Who::Class(class) = tenant.who else { unreachable!("scratch stays in the arena") };
            let place = Place { region: window.region, offset: Bytes(0) };
            placement.places.insert(class, place);
            window.taken.push((tenant.ranges, 0, tenant.size));
        }
        load = load_of(tenants.iter(), points);
    }
}

/// From a tenant's first point to its last.
fn hull(tenant: &Tenant) -> Ranges {
    Ranges::from_slice(&[(tenant.ranges[0].0, tenant.ranges[tenant.ranges.len() - 1].1)])
}

fn load_of<'a>(tenants: impl IntoIterator<Item = &'a Tenant>, points: usize) -> Vec<i64> {
    let mut load = vec![0i64; points + 1];
    for tenant in tenants {
        for &(start, end) in &tenant.ranges {
            load[start as usize] += tenant.size as i64;
            load[end as usize] -= tenant.size as i64;
        }
    }
    let mut sum = 0;
    for at in &mut load {
        sum += *at;
        *at = sum;
    }
    load
}

/// Dynamic programming over time: which tenants, no two at once, leave the least.
fn best_turns(tenants: &[Tenant], fitting: &[usize], load: &[i64]) -> Vec<usize> {
    let most = load.iter().copied().max().unwrap_or(0);
    let over = |l: i64| (l - most / 2).max(0);
    let mut starting: Vec<Vec<usize>> = vec![Vec::new(); load.len() + 1];
    for &i in fitting {
        starting[tenants[i].ranges[0].0 as usize].push(i);
    }
    // Up to each point: the peak, what lies above, and the tenant that ends there.
    let worst = (i64::MAX, i64::MAX);
    let mut best = vec![(worst, None::<usize>); load.len() + 1];
    best[0] = ((0, 0), None);
    for at in 0..load.len() {
        let (peak, area) = best[at].0;
        let alone = (peak.max(load[at]), area + over(load[at]));
        if alone < best[at + 1].0 {
            best[at + 1] = (alone, None);
        }
        for &i in &starting[at] {
            let end = hull(&tenants[i])[0].1 as usize;
            let size = tenants[i].size as i64;
            let (mut high, mut sum) = (peak, area);
            for &l in &load[at..end] {
                high = high.max(l - size);
                sum += over(l - size);
            }
            if (high, sum) < best[end].0 {
                best[end] = ((high, sum), Some(i));
            }
        }
    }
    let mut chosen = Vec::new();
    let mut at = load.len();
    while at > 0 {
        match best[at].1 {
            Some(i) => {
                chosen.push(i);
                at = tenants[i].ranges[0].0 as usize;
            }
            None => at -= 1,
        }
    }
    chosen
}

/// The point with the largest load, if there is any.
fn peak(tenants: &[Tenant], points: usize) -> Option<Point> {
    let (mut most, mut at) = (0, None);
    for (point, load) in load_of(tenants, points).into_iter().enumerate() {
        if load > most {
            (most, at) = (load, Some(point as Point));
        }
    }
    at
}

/// The smallest window in which the tenant fits, and its offset there.
fn room(tenant: &Tenant, windows: &[Window]) -> Option<(usize, u64)> {
    let from = windows.partition_point(|w| w.bytes < tenant.bytes);
    windows.iter().enumerate().skip(from).find_map(|(i, window)| {
        let mut taken: Vec<(u64, u64)> = window
            .taken
            .iter()
            .filter(|t| meet(&t.0, &tenant.ranges))
            .map(|t| (t.1, t.2))
            .collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + tenant.size <= start {
                break;
            }
            at = at.max(end);
        }
        (at + tenant.bytes <= window.bytes).then_some((i, at))
    })
}

fn meet(a: &Ranges, b: &Ranges) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i].0 < b[j].1 && b[j].0 < a[i].1 {
            return true;
        }
        if a[i].1 <= b[j].1 {
            i += 1;
        } else {
            j += 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Arena, Effort, Placement, Tenant, Who, row};
    use crate::pack::{Problem, check};
    use cranelift_entity::EntityRef;
    use jaxrs_kernel::program::{StepId, ValueId};

    /// However much scratch a step has: what is not scratch stays low, at the least height of all.
    #[test]
    fn values_stay_low_under_large_scratch() {
        let mut state = 7u64;
        let mut next = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % limit
        };
        for _ in 0..50 {
            let tenant = |who, from: u64, to: u64, size| Tenant {
                who,
                ranges: [(from as u32, to as u32)].into_iter().collect(),
                size,
                bytes: size,
            };
            let mut tenants = Vec::new();
            for n in 0..30 {
                let from = next(60);
                let (to, size) = (from + 1 + next(12), 64 * (1 + next(8)));
                tenants.push(tenant(Who::Class(ValueId::new(n)), from, to, size));
            }
            let values: Vec<_> = tenants.iter().map(row).collect();
            tenants.push(tenant(Who::Scratch(StepId::new(0)), 30, 32, 1 << 20));
            let all = Problem { rows: tenants.iter().map(row).collect() };
            let bounds = (all.lower_bound(), Problem { rows: values.clone() }.lower_bound());
            let arena = Arena { tenants, placed: Placement::default(), bounds };
            let ideas = crate::Ideas::default();
            let solution = arena.thoroughly(arena.roughly(&ideas), &ideas).solution;
            assert_eq!(check(&all, &solution.offsets), Ok(solution.height));
            assert_eq!(solution.height, solution.lower_bound);
            let ends = solution.offsets.iter().zip(&values).map(|(at, row)| at + row.size);
            let alone = Problem { rows: values.clone() }.solve(Effort::default()).height;
            let height = ends.max().expect("values");
            assert!(2 * height <= 3 * alone, "{height} bytes, {alone} without scratch");
        }
    }
}
