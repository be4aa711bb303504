//! Places every class: those that are an argument's or a result's buffer there, the others in the
//! arena, in results' buffers before the result is written, or in donated arguments' once they are
//! dead. The arena is made small first.

use crate::classes::{Classes, Context};
use crate::liveness::Ranges;
use crate::pack::{Effort, Problem, Row};
use crate::walk::{Point, visit};
use crate::{Place, Region};
use jaxrs_kernel::program::{Bytes, Donation, StepId, ValueId};
use rustc_hash::FxHashMap;

/// What the places cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// By class.
    pub(crate) places: FxHashMap<ValueId, Place>,
    pub(crate) scratch: FxHashMap<StepId, Bytes>,
    pub(crate) arena: u64,
    pub(crate) lower_bound: u64,
    pub(crate) solver: &'static str,
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

/// A buffer that others may use while it is free.
struct Window {
    region: Region,
    bytes: u64,
    /// What stands in it: when, and from where to where.
    taken: Vec<(Ranges, u64, u64)>,
}

/// Places the classes; `results` says where each result is at the end.
pub(crate) fn place(context: &Context<'_>, classes: &Classes, results: &[Region]) -> Placement {
    let mut placement = Placement::default();
    let mut tenants = tenants(context, classes, &mut placement);
    let mut windows = windows(context, classes, results);
    host(context, &mut tenants, &mut windows, &mut placement);
    let problem = Problem { rows: tenants.iter().map(row).collect() };
    let solution = problem.solve(Effort::default());
    placement.arena = solution.height.next_multiple_of(64);
    placement.lower_bound = solution.lower_bound;
    placement.solver = if solution.height == 0 { "empty" } else { solution.solver };
    for (tenant, &offset) in tenants.iter().zip(&solution.offsets) {
        match tenant.who {
            Who::Class(class) => {
                let place = Place { region: Region::Arena, offset: Bytes(offset) };
                placement.places.insert(class, place);
            }
            Who::Scratch(step) => {
                placement.scratch.insert(step, Bytes(offset));
            }
        }
    }
    placement
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

/// The point with the largest load, if there is any.
fn peak(tenants: &[Tenant], points: usize) -> Option<Point> {
    let mut change = vec![0i64; points + 1];
    for tenant in tenants {
        for &(start, end) in &tenant.ranges {
            change[start as usize] += tenant.size as i64;
            change[end as usize] -= tenant.size as i64;
        }
    }
    let (mut load, mut most, mut at) = (0, 0, None);
    for (point, by) in change.into_iter().enumerate() {
        load += by;
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
