//! Random stencils over fields with borders, which one kernel reads in place: whatever the border,
//! the radius and the extents, its loops split at the borders give what the interpreter gives.

use super::chains::Chain;
use crate::function::ValueId;
use crate::ops;

/// What stands outside of the field.
#[derive(Clone, Copy, Debug)]
enum Border {
    Zero,
    /// A constant around a field of which the rim is taken away first.
    Inset,
    Edge,
    Wrap,
    Reflect,
}

const BORDERS: [Border; 5] =
    [Border::Zero, Border::Inset, Border::Edge, Border::Wrap, Border::Reflect];

/// Which neighbours are read.
#[derive(Clone, Copy, Debug)]
enum Points {
    Cross,
    Box,
}

struct Stencil {
    chain: Chain,
}

impl Stencil {
    fn slice(&mut self, x: ValueId, axis: usize, start: u64, limit: u64) -> ValueId {
        let shape = self.chain.function.ty(x).shape.clone();
        let (mut starts, mut limits) = (vec![0; shape.len()], shape.clone());
        (starts[axis], limits[axis]) = (start, limit);
        self.chain.push(ops::Slice { starts, limits, strides: vec![1; shape.len()] }, &[x])
    }

    fn pad(&mut self, x: ValueId, by: i64) -> ValueId {
        let rank = self.chain.function.ty(x).rank();
        let value = self.chain.indices[0];
        let pad = ops::Pad { low: vec![by; rank], high: vec![by; rank], interior: vec![0; rank] };
        self.chain.push(pad, &[x, value])
    }

    /// The field with `radius` more elements at each end of each axis.
    fn bordered(&mut self, x: ValueId, border: Border, radius: u64) -> ValueId {
        let shape = self.chain.function.ty(x).shape.clone();
        let least = shape.iter().copied().min().unwrap_or(0);
        match border {
            Border::Inset if least >= 2 => {
                let inner = self.pad(x, -1);
                return self.pad(inner, radius as i64 + 1);
            }
            Border::Edge if least >= 1 => {}
            Border::Wrap if least >= radius => {}
            Border::Reflect if least > radius => {}
            _ => return self.pad(x, radius as i64),
        }
        let mut x = x;
        for (axis, &n) in shape.iter().enumerate() {
            let reverse =
                |s: &mut Stencil, v| s.chain.push(ops::Reverse { axes: vec![axis] }, &[v]);
            let parts = match border {
                Border::Edge => {
                    let (low, high) = (self.slice(x, axis, 0, 1), self.slice(x, axis, n - 1, n));
                    let mut parts = vec![low; radius as usize];
                    parts.push(x);
                    parts.extend(vec![high; radius as usize]);
                    parts
                }
                Border::Wrap => {
                    vec![self.slice(x, axis, n - radius, n), x, self.slice(x, axis, 0, radius)]
                }
                _ => {
                    let low = self.slice(x, axis, 1, radius + 1);
                    let high = self.slice(x, axis, n - 1 - radius, n - 1);
                    vec![reverse(self, low), x, reverse(self, high)]
                }
            };
            x = self.chain.push(ops::Concatenate { axis }, &parts);
        }
        x
    }

    /// A weighted sum of the neighbours of each element.
    fn points(&mut self, x: ValueId, wide: ValueId, points: Points, radius: u64) -> ValueId {
        let shape = self.chain.function.ty(x).shape.clone();
        let side = 2 * radius + 1;
        let mut sum = x;
        for number in 0..side.pow(shape.len() as u32) {
            let offsets: Vec<u64> =
                (0..shape.len()).map(|axis| number / side.pow(axis as u32) % side).collect();
            let away = offsets.iter().filter(|&&o| o != radius).count();
            if matches!(points, Points::Cross) && away > 1 {
                continue;
            }
            let limits = offsets.iter().zip(&shape).map(|(o, n)| o + n).collect();
            let slice = ops::Slice { starts: offsets, limits, strides: vec![1; shape.len()] };
            let part = self.chain.push(slice, &[wide]);
            let [add, times] = ["stablehlo.add", "stablehlo.multiply"]
                .map(|name| ops::Elementwise::from_name(name).expect("a row"));
            // Not symmetric: which neighbour is which shows.
            let part = self.chain.push(add, &[part, sum]);
            let part = self.chain.push(times, &[part, x]);
            sum = self.chain.push(add, &[part, sum]);
        }
        sum
    }
}

fn check(shape: &[u64], border: Border, points: Points, radius: u64, times: usize) {
    let seed = shape.iter().fold(radius, |all, extent| all * 7 + extent);
    let mut stencil = Stencil { chain: Chain::new(seed) };
    let mut field = stencil.chain.parameter(shape);
    for _ in 0..times {
        let wide = stencil.bordered(field, border, radius);
        field = stencil.points(field, wide, points, radius);
    }
    stencil.chain.check(field, seed);
}

#[test]
fn lines() {
    for border in BORDERS {
        for n in 0..7 {
            for radius in 1..4 {
                check(&[n], border, Points::Cross, radius, 1);
            }
            check(&[n], border, Points::Box, 1, 2);
        }
    }
}

#[test]
fn planes() {
    for border in BORDERS {
        for shape in [[3, 4], [1, 5], [2, 2], [5, 1], [0, 3], [6, 5]] {
            check(&shape, border, Points::Cross, 2, 1);
            check(&shape, border, Points::Box, 1, 1);
        }
        check(&[4, 5], border, Points::Cross, 1, 2);
    }
}

#[test]
fn spaces() {
    for border in BORDERS {
        check(&[4, 3, 5], border, Points::Cross, 1, 1);
        check(&[3, 1, 2], border, Points::Cross, 2, 1);
        check(&[2, 4, 3], border, Points::Box, 1, 1);
        check(&[2, 3, 2, 4], border, Points::Cross, 1, 1);
    }
}

/// So many borders that the loops cannot be split at all of them.
#[test]
fn too_many_borders() {
    for border in BORDERS {
        check(&[30], border, Points::Cross, 7, 1);
        check(&[12, 30], border, Points::Cross, 5, 1);
    }
}
