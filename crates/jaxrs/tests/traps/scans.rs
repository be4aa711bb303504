//! Stacked results of scans that only a reduction, or the last row, is wanted of; layers.

use crate::draw::{Act, Draw, Trap, exact};
use crate::text::{Text, Value};

const STEADY: &[Act] = &[Act::Tanh, Act::Sin, Act::Cos, Act::Sigmoid];

/// A scan with a vector as carry: the last carry, and all of them (of another function of them).
fn steps(t: &mut Text, d: &mut Draw, x: &Value, xs: &[Value], count: u64) -> (Value, Value) {
    let (act, factor) = (d.pick(STEADY), d.pick(&[0.9, 1.1]));
    let other = d.percent(25);
    let row = ("f32", x.shape.clone());
    let (c, ys) =
        t.scan(count, false, &[], xs, std::slice::from_ref(x), &[row], |t, rows, _, c| {
            let mut next = t.with("multiply", &c[0], factor);
            if let Some(y) = rows.first() {
                let y = if y.rank() == 0 { t.broadcast(y, &next.shape, &[]) } else { y.clone() };
                next = t.binary("add", &next, &y);
            }
            let next = act.apply(t, &next);
            let made = if other { t.binary("multiply", &next, &next) } else { next.clone() };
            (vec![next], vec![made])
        });
    (c[0].clone(), ys[0].clone())
}

pub fn reduced(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[64, 2000]), d.size(&[30, 200]));
    let x = t.input(&[n]);
    let xs = if d.percent(35) { vec![t.input(&[count, n])] } else { Vec::new() };
    let (_, mut ys) = steps(&mut t, d, &x, &xs, count);
    if d.percent(30) {
        ys = t.binary("multiply", &ys, &ys);
    }
    let out = t.statistic(d.statistic(), &ys, &[0]);
    Trap { text: t.finish(&[out]), practical: 4 * n * count, ideal: 4 * n }
}

pub fn last(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[64, 2000]), d.size(&[30, 200]));
    let x = t.input(&[n]);
    let (_, ys) = steps(&mut t, d, &x, &[], count);
    let row = if d.percent(60) {
        t.row(&ys, count - 1)
    } else {
        let at = t.scalar(count as f64 - 1.0, "i32");
        let at = t.wrapped(&at, count);
        t.row_at(&ys, &at)
    };
    let out = if d.percent(40) { t.with("add", &row, 1.0) } else { row };
    exact(t.finish(&[out]), 0)
}

pub fn independent(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count, scans) = (d.size(&[40, 1000]), d.size(&[24, 120]), d.size(&[2, 4, 8]));
    let (x, xs, how) = (t.input(&[n]), t.input(&[count]), d.statistic());
    let rows: Vec<Value> = (0..scans)
        .map(|_| {
            let (_, ys) = steps(&mut t, d, &x, std::slice::from_ref(&xs), count);
            t.statistic(how, &ys, &[0])
        })
        .collect();
    let out = if d.percent(60) { vec![t.stack(&rows, 0)] } else { rows };
    Trap { text: t.finish(&out), practical: 4 * n * count, ideal: 4 * n }
}

pub fn sequential(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, scans) = (d.size(&[48, 400]), d.size(&[2, 4, 8]));
    let (how, axis) = (d.pick(&["mean", "sum", "max"]), d.pick(&[1, 1, 0]));
    let mut x = t.input(&[n]);
    for _ in 0..scans {
        let ones = t.fill(1.0, "f32", &[n]);
        let (c, ys) = steps(&mut t, d, &x, &[ones], n);
        let row = t.statistic(how, &ys, &[axis]);
        x = t.binary("add", &c, &row);
    }
    Trap { text: t.finish(&[x]), practical: 4 * n * n, ideal: 4 * n }
}

/// How many layers a network may have.
pub const LAYERS: [u64; 5] = [1, 2, 4, 6, 12];

/// Layers of equal shape, as a scan or one after the other.
pub fn layers(d: &mut Draw, scan: bool) -> Trap {
    let mut t = Text::default();
    let (layers, n, batch) = (d.pick(&LAYERS), d.size(&[16, 64, 128]), d.size(&[8, 64, 100]));
    let act = d.pick(&[Act::Tanh, Act::Tanh, Act::Sigmoid, Act::Relu, Act::Sin]);
    let (w, b) = (t.input(&[layers, n, n]), t.input(&[layers, n]));
    let mut x = t.input(&[batch, n]);
    let bytes = if layers == 1 { 0 } else { x.bytes() };
    let layer = |t: &mut Text, x: &Value, w: &Value, b: &Value| {
        let y = t.dot(x, w);
        let b = t.spread(b, 0, &[batch, n]);
        let y = t.binary("add", &y, &b);
        act.apply(t, &y)
    };
    if scan {
        let (c, _) = t.scan(layers, false, &[], &[w, b], &[x], &[], |t, rows, _, c| {
            (vec![layer(t, &c[0], &rows[0], &rows[1])], Vec::new())
        });
        x = c[0].clone();
    } else {
        for i in 0..layers {
            let (w, b) = (t.row(&w, i), t.row(&b, i));
            x = layer(&mut t, &x, &w, &b);
        }
    }
    exact(t.finish(&[x]), bytes)
}
