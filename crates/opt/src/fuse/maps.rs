//! At which elements, and how often, a kernel reads a value.
//!
//! A kernel's loops are a path of extents, outermost first: the axes of its iteration space, then
//! the loops of the reductions on the way. A [`Site`] says for each axis of a value which loops
//! its index depends on. Loops that no axis depends on, and that stand inside the last one that
//! an axis does depend on, cost nothing: the builder moves the computation out of them.

use jaxrs_ir::lower::{ElementCost, Lowering};
use jaxrs_ir::{Function, Op, OpId, TensorType, ops};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::{SmallVec, smallvec};
use std::hash::{Hash, Hasher};

/// What an index of one axis depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AxisMap {
    /// Bit `n`: the loop at position `n` of the path.
    pub loops: u64,
    /// How the index follows from the variable of the one loop it depends on, where that is so.
    pub line: Option<Line>,
}

/// An index `by * variable + from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The step; not 0.
    pub by: i64,
    /// The index where the variable is 0.
    pub from: i64,
}

impl Line {
    /// The variable itself.
    const SAME: Line = Line { by: 1, from: 0 };

    /// The line's index put into another one: `outer(self)`.
    fn then(self, outer: Line) -> Option<Line> {
        let by = self.by.checked_mul(outer.by)?;
        let from = self.from.checked_mul(outer.by)?.checked_add(outer.from)?;
        Some(Line { by, from })
    }

    /// The first value of the variable whose index is on the other side of `edge`.
    fn crossing(self, edge: i64) -> i64 {
        if self.by > 0 {
            -((self.from - edge).div_euclid(self.by))
        } else {
            (self.from - edge).div_euclid(-self.by) + 1
        }
    }
}

fn shifted(by: i64) -> Option<Line> {
    Some(Line { by: 1, from: by })
}

/// One way in which a kernel reads a value.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The unit of the kernel.
    pub unit: u32,
    /// Names the index map: two sites of a unit with one name read the same elements in the same
    /// places.
    pub map: MapId,
    /// Extents of the loops round the read.
    pub path: SmallVec<[u64; 6]>,
    /// For each axis of the value.
    pub axes: SmallVec<[AxisMap; 4]>,
    /// The part of the iterations that reads at all.
    pub share: f64,
    /// Ops between the kernel's root and the value.
    pub depth: u32,
}

/// A name of an index map; [`IDENTITY`] reads at the kernel's own index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MapId(pub u64);

/// The map of a kernel's roots.
pub(super) const IDENTITY: MapId = MapId(0);

impl Site {
    /// The root of a unit over an iteration space.
    pub(super) fn root(unit: u32, shape: &[u64]) -> Site {
        let axes =
            (0..shape.len()).map(|n| AxisMap { loops: bit(n), line: Some(Line::SAME) }).collect();
        let path = SmallVec::from_slice(shape);
        Site { unit, map: IDENTITY, path, axes, share: 1.0, depth: 0 }
    }

    /// An operand that a unit reads once, in an order of its own.
    pub(super) fn opaque(unit: u32, op: OpId, operand: usize, ty: &TensorType) -> Site {
        let map = MapId(mix(&(u64::from(unit), op, operand)));
        let axes = ty.shape.iter().map(|_| AxisMap { loops: 1, line: None }).collect();
        Site { unit, map, path: smallvec![ty.len().max(1)], axes, share: 1.0, depth: 0 }
    }

    /// How many elements the kernel computes if it computes the value's elements here.
    pub(super) fn evaluations(&self) -> f64 {
        let loops = self.axes.iter().fold(0, |all, axis| all | axis.loops);
        let inside = (64 - loops.leading_zeros() as usize).min(self.path.len());
        self.share * self.path[..inside].iter().map(|&e| e as f64).product::<f64>()
    }

    /// How often the read itself stands in the path, whatever its index.
    pub(super) fn iterations(&self) -> f64 {
        self.share * self.path.iter().map(|&e| e as f64).product::<f64>()
    }

    fn all_loops(&self) -> u64 {
        self.axes.iter().fold(0, |all, axis| all | axis.loops)
    }

    fn renamed(&self, by: &impl Hash, axes: SmallVec<[AxisMap; 4]>) -> Site {
        let map = MapId(mix(&(self.map, by)).max(1));
        Site { map, axes, depth: self.depth + 1, ..self.clone() }
    }
}

fn bit(position: usize) -> u64 {
    1 << position.min(63)
}

fn mix(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    // Low bits of the hash alone would collide.
    hasher.finish().rotate_left(20).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// How an op reads operand `number` where its result is read at a site.
pub(super) fn operand_site(f: &Function, op: OpId, number: usize, site: &Site) -> Site {
    let data = &f.ops[op];
    let operand = f.ty(data.operands[number]);
    if operand.rank() == 0 {
        // A rank-0 operand has one element, whatever the map.
        return Site {
            map: MapId(1),
            axes: SmallVec::new(),
            depth: site.depth + 1,
            ..site.clone()
        };
    }
    match &data.op {
        Op::Elementwise(_)
        | Op::Clamp(_)
        | Op::Compare(_)
        | Op::Convert(_)
        | Op::ReducePrecision(_)
        | Op::Map(_)
        | Op::Select(_) => Site { depth: site.depth + 1, ..site.clone() },
        Op::BitcastConvert(_) if operand.rank() == site.axes.len() => {
            Site { depth: site.depth + 1, ..site.clone() }
        }
        Op::BroadcastInDim(b) => {
            let pick = |(&axis, &extent): (&usize, &u64)| {
                if extent == 1 { AxisMap::default() } else { site.axes[axis] }
            };
            let axes = b.axes.iter().zip(&operand.shape).map(pick).collect();
            site.renamed(&("broadcast", &b.axes, &operand.shape, &b.shape), axes)
        }
        Op::Transpose(t) => {
            let mut axes: SmallVec<[AxisMap; 4]> = smallvec![AxisMap::default(); operand.rank()];
            for (to, &from) in t.permutation.iter().enumerate() {
                axes[from] = site.axes[to];
            }
            site.renamed(&("transpose", &t.permutation), axes)
        }
        Op::Reshape(r) => {
            let axes = reshaped(&site.axes, &r.shape, &operand.shape);
            site.renamed(&("reshape", &operand.shape), axes)
        }
        Op::Slice(s) => {
            let axes =
                moved(site, |n| Some(Line { by: s.strides[n] as i64, from: s.starts[n] as i64 }));
            site.renamed(&("slice", &s.starts, &s.strides, &s.limits), axes)
        }
        Op::Pad(p) => {
            let axes = moved(site, |n| if p.interior[n] == 0 { shifted(-p.low[n]) } else { None });
            let result = f.ty(data.results[0]).len() as f64;
            let mut inner = site.renamed(&("pad", &p.low, &p.high, &p.interior), axes);
            inner.share *= (operand.len() as f64 / result).min(1.0);
            inner
        }
        Op::Concatenate(c) => {
            let before: u64 = data.operands[..number].iter().map(|&v| f.ty(v).shape[c.axis]).sum();
            let axes = moved(site, |n| shifted(if n == c.axis { -(before as i64) } else { 0 }));
            let whole = f.ty(data.results[0]).shape[c.axis] as f64;
            let mut inner = site.renamed(&("concatenate", c.axis, before), axes);
            inner.share *= operand.shape[c.axis] as f64 / whole;
            inner
        }
        Op::Reverse(r) => {
            let axes = moved(site, |n| {
                let reversed = r.axes.contains(&n);
                Some(Line { by: -1, from: operand.shape[n] as i64 - 1 })
                    .filter(|_| reversed)
                    .or(Some(Line::SAME))
            });
            site.renamed(&("reverse", &r.axes, &operand.shape), axes)
        }
        Op::DynamicSlice(d) if number == 0 => {
            let axes = moved(site, |n| shifted(0).filter(|_| d.sizes[n] == operand.shape[n]));
            site.renamed(&("dynamic_slice", &d.sizes, &data.operands[1..]), axes)
        }
        Op::Gather(g) => {
            let (batch, inside) = g.windows.split(&site.axes);
            let axes: Vec<AxisMap> = if number == 0 {
                let mut axes =
                    g.windows.offset(&batch, &inside, operand.rank(), AxisMap::default());
                let loops = batch.iter().fold(0, |all, axis| all | axis.loops);
                for &axis in &g.windows.start {
                    axes[axis] = AxisMap { loops: axes[axis].loops | loops, line: None };
                }
                axes
            } else {
                g.windows.component(&batch, AxisMap::default(), operand.rank())
            };
            site.renamed(&(op, number), SmallVec::from_vec(axes))
        }
        Op::Reduce(r) if number < data.operands.len() / 2 => {
            let mut kept = site.axes.iter().copied();
            let mut path = site.path.clone();
            let mut axes: SmallVec<[AxisMap; 4]> = SmallVec::new();
            for (axis, &extent) in operand.shape.iter().enumerate() {
                if r.axes.contains(&axis) {
                    axes.push(AxisMap { loops: bit(path.len()), line: Some(Line::SAME) });
                    path.push(extent);
                } else {
                    axes.push(kept.next().unwrap_or_default());
                }
            }
            Site { path, ..site.renamed(&("reduce", &r.axes, &operand.shape), axes) }
        }
        _ => opaque_site(f, op, number, site, operand),
    }
}

/// Of an op of whose reading nothing else is known: any element, for every element of the result.
fn opaque_site(f: &Function, op: OpId, number: usize, site: &Site, operand: &TensorType) -> Site {
    let mut path = site.path.clone();
    let mut loops = site.all_loops();
    if let Lowering::Elements { cost: ElementCost::Loop(n), .. } = ops::lower(f, op) {
        loops |= bit(path.len());
        path.push(n);
    }
    let axes = smallvec![AxisMap { loops, line: None }; operand.rank()];
    Site { path, ..site.renamed(&(op, number), axes) }
}

/// The site's axes, each index put into a line.
fn moved(site: &Site, by: impl Fn(usize) -> Option<Line>) -> SmallVec<[AxisMap; 4]> {
    let axis = |(n, &axis): (usize, &AxisMap)| AxisMap {
        line: axis.line.and_then(|line| line.then(by(n)?)),
        ..axis
    };
    site.axes.iter().enumerate().map(axis).collect()
}

/// Where a pad or a concatenation that is read at a site changes what it reads: the loop's position
/// in the path and the values of its variable. None if a change is not at some values of one loop's
/// variable.
pub(super) fn borders(f: &Function, op: OpId, site: &Site) -> Option<Vec<(u32, Vec<i64>)>> {
    let data = &f.ops[op];
    let edges: Vec<(usize, Vec<i64>)> = match &data.op {
        Op::Pad(p) => {
            let from = &f.ty(data.operands[0]).shape;
            let mut edges = Vec::new();
            for (axis, &extent) in from.iter().enumerate() {
                if p.interior[axis] != 0 && extent > 1 {
                    return None;
                }
                edges.push((axis, vec![p.low[axis], p.low[axis] + extent as i64]));
            }
            edges
        }
        Op::Concatenate(c) => {
            let extents = data.operands.iter().map(|&v| f.ty(v).shape[c.axis] as i64);
            let seams = extents.scan(0, |end, extent| {
                *end += extent;
                Some(*end)
            });
            vec![(c.axis, seams.collect())]
        }
        _ => Vec::new(),
    };
    let whole = &f.ty(data.results[0]).shape;
    let mut out = Vec::new();
    for (axis, mut edges) in edges {
        edges.retain(|&edge| edge > 0 && edge < whole[axis] as i64);
        let map = site.axes[axis];
        if map.loops == 0 || edges.is_empty() {
            continue;
        }
        let (line, position) = (map.line?, map.loops.trailing_zeros());
        let extent = *site.path.get(position as usize)? as i64;
        let cuts = edges.into_iter().map(|edge| line.crossing(edge));
        out.push((position, cuts.filter(|&cut| cut > 0 && cut < extent).collect()));
    }
    Some(out)
}

/// The axes of a tensor of shape `from` that is read as one of shape `to`, row-major.
fn reshaped(axes: &[AxisMap], to: &[u64], from: &[u64]) -> SmallVec<[AxisMap; 4]> {
    let mut out: SmallVec<[AxisMap; 4]> = SmallVec::new();
    let (mut i, mut j) = (0, 0);
    // Groups of axes with equal products, from the left.
    while j < from.len() {
        let (mut left, mut right) = (1, from[j]);
        let (first_i, first_j) = (i, j);
        j += 1;
        while left != right {
            if left < right {
                let Some(&extent) = to.get(i) else { break };
                left *= extent;
                i += 1;
            } else {
                let Some(&extent) = from.get(j) else { break };
                right *= extent;
                j += 1;
            }
        }
        let group = &axes[first_i.min(axes.len())..i];
        let loops = group.iter().fold(0, |all, axis| all | axis.loops);
        let whole: Vec<usize> = (first_i..i).filter(|&n| to[n] != 1).collect();
        for &extent in &from[first_j..j] {
            out.push(match whole[..] {
                _ if extent == 1 => AxisMap::default(),
                [one] if to[one] == extent => axes[one],
                _ => AxisMap { loops, line: None },
            });
        }
    }
    out
}

/// The sites of a value, at most one for each unit and map.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites(pub Vec<Site>);

impl Sites {
    /// Adds a site unless the unit reads the value so already.
    pub(super) fn add(&mut self, site: Site) {
        let known = self.0.iter_mut().find(|s| s.unit == site.unit && s.map == site.map);
        match known {
            Some(known) => {
                known.depth = known.depth.max(site.depth);
                known.share = known.share.max(site.share);
            }
            None => self.0.push(site),
        }
    }

    /// How often each unit reads the value.
    pub(super) fn by_unit(&self) -> FxHashMap<u32, u32> {
        let mut counts = FxHashMap::default();
        for site in &self.0 {
            *counts.entry(site.unit).or_insert(0) += 1;
        }
        counts
    }
}
