//! Kernels that become one: readers of one value, makers of values that others store on their way.

use super::{At, Decider, MAX_CHAIN, MAX_CODE, MAX_SIZE};
use crate::FusionMode;
use crate::fuse::cost;
use crate::fuse::maps::IDENTITY;
use crate::fuse::units::Kind;
use jaxrs_ir::{OpId, ValueId};

/// Values that one kernel stores at most.
const MAX_ROOTS: usize = 8;
/// Kernels further apart than so many ops are not merged for a common operand: what they store
/// would be live too long.
const NEAR: u32 = 24;

impl Decider<'_> {
    /// Merges the kernels that read the value, where they run over one space and save a pass.
    pub(super) fn merge_readers(&mut self, value: ValueId, at: &mut At) {
        let space = |unit: u32, at: &At| match &at.units.get(unit).kind {
            Kind::Kernel(shape) => Some(shape.clone()),
            Kind::Op(_) => None,
        };
        let sites = self.sites[value].0.clone();
        for (n, site) in sites.iter().enumerate() {
            for other in &sites[..n] {
                let same_map = site.map == other.map && site.path == other.path;
                let (x, y) = (at.units.get(site.unit), at.units.get(other.unit));
                // What a block returns has its place already; what else is computed long before
                // it is read is only kept for that long.
                let placed = |roots: &[ValueId]| roots.iter().all(|&v| self.returned[v]);
                let near = x.position.abs_diff(y.position) <= NEAR
                    || (placed(&x.roots) && placed(&y.roots));
                if same_map
                    && near
                    && space(site.unit, at).is_some_and(|s| space(other.unit, at) == Some(s))
                {
                    self.try_merge(site.unit, other.unit, at);
                }
            }
        }
        self.normalize(value, at);
    }

    /// Whether one of two readers of a value is about to be its maker, and the other waits for a
    /// third reader, which will wait for the maker.
    pub(super) fn in_between(
        &self,
        value: ValueId,
        a: u32,
        b: u32,
        maker: Option<u32>,
        at: &At,
    ) -> bool {
        let [a, b] = [a, b].map(|unit| at.units.find(unit));
        let other = match maker.map(|unit| at.units.find(unit)) {
            Some(maker) if maker == a => b,
            Some(maker) if maker == b => a,
            _ => return false,
        };
        let sites = self.sites[value].0.iter().map(|s| s.unit);
        let third: Vec<u32> = sites
            .chain(self.readers[value].iter().copied())
            .filter(|&unit| ![a, b].contains(&at.units.find(unit)))
            .collect();
        at.units.reaches(&third, other)
    }

    /// Merges two kernels over one space if no way leads from one to the other.
    pub(super) fn try_merge(&mut self, a: u32, b: u32, at: &mut At) -> bool {
        let (a, b) = (at.units.find(a), at.units.find(b));
        if a == b {
            return true;
        }
        let (x, y) = (at.units.get(a), at.units.get(b));
        let size = x.size + y.size;
        let code = size.saturating_mul(x.cuts.with(&y.cuts).copies());
        let fits =
            x.roots.len() + y.roots.len() <= MAX_ROOTS && size <= MAX_SIZE && code <= MAX_CODE;
        if !fits || self.mode == FusionMode::Off || self.keeps_alive(a, b, at) {
            return false;
        }
        if !at.units.independent(a, b) {
            return false;
        }
        at.units.merge(a, b);
        true
    }

    /// Whether two kernels, run as one, would need large values at once that one of them alone
    /// does not need: values that are no arguments and that only one of them reads.
    pub(super) fn keeps_alive(&self, a: u32, b: u32, at: &At) -> bool {
        let (x, y) = (&at.units.get(a).reads, &at.units.get(b).reads);
        let bytes = |value: &ValueId| self.f.ty(*value).bytes();
        let shared = x.intersection(y).map(bytes).max().unwrap_or(0);
        x.symmetric_difference(y).any(|value| {
            let made = self.f.defining_op(*value).is_some() && self.estimates[*value].memory;
            made && bytes(value) > 512 && 4 * bytes(value) >= shared
        })
    }

    /// A kernel that can store the value on its way: it reads it at its own index only, and no
    /// reader of the stored value comes before it.
    pub(super) fn host(&self, op: OpId, at: &At) -> Option<u32> {
        let f = self.f;
        let value = f.ops[op].results[0];
        if self.mode == FusionMode::Off {
            return None;
        }
        let sites = &self.sites[value].0;
        let shape = &f.ty(value).shape;
        sites.iter().map(|site| site.unit).find(|&host| {
            let unit = at.units.get(host);
            let Kind::Kernel(space) = &unit.kind else { return false };
            let mut here = sites.iter().filter(|s| s.unit == host);
            let own = here.all(|s| s.map == IDENTITY && s.depth <= MAX_CHAIN);
            let fits =
                unit.roots.len() < MAX_ROOTS && unit.size + cost::instructions(f, op) <= MAX_SIZE;
            if space != shape || !own || !fits || self.crowds(op, unit) {
                return false;
            }
            let others: Vec<u32> = self.readers[value]
                .iter()
                .copied()
                .chain(sites.iter().map(|s| s.unit))
                .filter(|&u| at.units.find(u) != host)
                .collect();
            let direct = self.readers[value].iter().any(|&u| at.units.find(u) == host);
            !direct && !at.units.reaches(&others, host)
        })
    }

    /// Merges kernels that load the value in one way over one space, where that saves a pass over
    /// it and keeps nothing large alive.
    pub(super) fn merge_siblings(&mut self, value: ValueId, maker: Option<u32>, at: &mut At) {
        let f = self.f;
        if f.ty(value).len() < 64 || self.mode == FusionMode::Off {
            return;
        }
        self.normalize(value, at);
        let sites = self.sites[value].0.clone();
        for (n, site) in sites.iter().enumerate() {
            for other in &sites[n.saturating_sub(4)..n] {
                if site.map != other.map || site.path != other.path {
                    continue;
                }
                let (x, y) = (at.units.get(site.unit), at.units.get(other.unit));
                let (Kind::Kernel(a), Kind::Kernel(b)) = (&x.kind, &y.kind) else { continue };
                let small = 8 * a.iter().product::<u64>() <= f.ty(value).len();
                let near = x.position.abs_diff(y.position) <= NEAR;
                let whole = site.evaluations() >= f.ty(value).len() as f64 / 2.0;
                // What a block returns has its place already.
                let placed = |roots: &[ValueId]| roots.iter().all(|&v| self.returned[v]);
                let kept = (small && near) || (placed(&x.roots) && placed(&y.roots));
                if a == b
                    && kept
                    && whole
                    && !self.in_between(value, site.unit, other.unit, maker, at)
                {
                    self.try_merge(site.unit, other.unit, at);
                }
            }
        }
        self.normalize(value, at);
    }

    /// Merges kernels that compute rank-0 values: each costs the start of a step.
    pub(super) fn merge_scalars(&mut self, at: &mut At) {
        let mut last: Vec<u32> = Vec::new();
        for unit in at.units.ordered() {
            let data = at.units.get(unit);
            match &data.kind {
                Kind::Kernel(shape) if shape.is_empty() && data.iterations <= 64.0 => {}
                _ => continue,
            }
            // What reads nothing would only live longer together with what is needed elsewhere.
            let near = |other: u32| {
                let other = at.units.get(other);
                !(data.reads.is_empty() && other.reads.is_empty())
                    || data.position.abs_diff(other.position) <= 4
            };
            let recent: Vec<u32> =
                last.iter().rev().take(3).copied().filter(|&other| near(other)).collect();
            if !recent.into_iter().any(|other| self.try_merge(other, unit, at)) {
                last.push(unit);
            }
        }
    }
}
