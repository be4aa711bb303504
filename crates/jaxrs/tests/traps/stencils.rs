//! Stencils: pads and concatenations that only slices read.

use crate::draw::{Act, Draw, Trap, exact};
use crate::text::{Text, Value};

/// How a stencil sees beyond the border.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Border {
    Zero,
    Edge,
    Around,
    Roll,
}

/// An array with a border of one, as `jnp.pad` makes it.
fn padded(t: &mut Text, x: &Value, border: Border) -> Value {
    if border == Border::Zero {
        return t.pad(x, 0.0, &[1, 1], &[1, 1]);
    }
    let mut x = x.clone();
    for axis in 0..2 {
        let last = x.shape[axis] - 1;
        let mut part = |at: u64| {
            let (mut starts, mut sizes) = (vec![0; 2], x.shape.clone());
            (starts[axis], sizes[axis]) = (at, 1);
            t.slice(&x, &starts, &sizes)
        };
        let (low, high) = match border {
            Border::Edge => (part(0), part(last)),
            _ => (part(last), part(0)),
        };
        x = t.concatenate(&[low, x.clone(), high], axis);
    }
    x
}

/// `jnp.roll(x, shift, axis)`.
fn rolled(t: &mut Text, x: &Value, forward: bool, axis: usize) -> Value {
    let extent = x.shape[axis];
    let cut = if forward { extent - 1 } else { 1 };
    let mut part = |from: u64, to: u64| {
        let (mut starts, mut sizes) = (vec![0; 2], x.shape.clone());
        (starts[axis], sizes[axis]) = (from, to - from);
        t.slice(x, &starts, &sizes)
    };
    let (first, second) = (part(cut, extent), part(0, cut));
    t.concatenate(&[first, second], axis)
}

/// The sum of the four neighbours, or of all nine.
fn neighbours(t: &mut Text, x: &Value, border: Border, nine: bool) -> Value {
    if border == Border::Roll {
        let mut sum = rolled(t, x, true, 0);
        for (forward, axis) in [(false, 0), (true, 1), (false, 1)] {
            let next = rolled(t, x, forward, axis);
            sum = t.binary("add", &sum, &next);
        }
        return sum;
    }
    let wide = padded(t, x, border);
    let places: &[[u64; 2]] = match nine {
        false => &[[0, 1], [2, 1], [1, 0], [1, 2]],
        true => &[[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2], [2, 0], [2, 1], [2, 2]],
    };
    let mut sum: Option<Value> = None;
    for place in places {
        let next = t.slice(&wide, place, &x.shape);
        sum = Some(sum.map_or(next.clone(), |sum| t.binary("add", &sum, &next)));
    }
    sum.expect("there are places")
}

const BORDERS: &[Border] =
    &[Border::Zero, Border::Zero, Border::Edge, Border::Around, Border::Roll];

/// One smoothing step.
fn step(t: &mut Text, x: &Value, border: Border, nine: bool, act: Act) -> Value {
    let sum = neighbours(t, x, border, nine);
    let part = t.from(if nine { 0.1 } else { 0.24 }, "multiply", &sum);
    let own = t.from(0.1, "multiply", x);
    let next = t.binary("add", &part, &own);
    act.apply(t, &next)
}

fn shape(d: &mut Draw) -> [u64; 2] {
    [d.size(&[40, 200]), d.size(&[40, 300])]
}

pub fn chain(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let shape = shape(d);
    let (border, nine) = (d.pick(BORDERS), d.percent(30));
    let act = d.pick(&[Act::Tanh, Act::Sin, Act::Same]);
    let mut x = t.input(&shape);
    let practical = x.bytes();
    for _ in 0..d.pick(&[3, 6, 12]) {
        x = step(&mut t, &x, border, nine, act);
    }
    Trap { text: t.finish(&[x]), practical, ideal: 0 }
}

pub fn fori(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let shape = shape(d);
    let (border, nine) = (d.pick(BORDERS), d.percent(50));
    let (act, count) = (d.pick(&[Act::Same, Act::Tanh]), d.pick(&[4, 9]));
    let x = t.argument("f32", &shape, d.percent(70));
    let practical = x.bytes();
    let out = t.fori(count, &[], &[x], |t, _, _, c| vec![step(t, &c[0], border, nine, act)]);
    Trap { text: t.finish(&out), practical, ideal: 0 }
}

pub fn jacobi(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let shape = shape(d);
    let border = d.pick(BORDERS);
    let norm = d.pick(&["largest", "sum", "squares"]);
    let x = t.argument("f32", &shape, d.percent(70));
    let practical = x.bytes();
    let (one, zero) = (t.scalar(1.0, "f32"), t.scalar(0.0, "i32"));
    let out = t.repeat(
        &[x, one, zero],
        |t, c| {
            let (small, most) = (t.scalar(1e-7, "f32"), t.scalar(12.0, "i32"));
            let (more, left) = (t.compare("GT", &c[1], &small), t.compare("LT", &c[2], &most));
            t.binary("and", &more, &left)
        },
        |t, c| {
            let sum = neighbours(t, &c[0], border, false);
            let next = t.from(0.25, "multiply", &sum);
            let error = t.binary("subtract", &next, &c[0]);
            let error = match norm {
                "squares" => {
                    let square = t.binary("multiply", &error, &error);
                    let sum = t.reduce(&square, "add", &[0, 1]);
                    t.unary("sqrt", &sum)
                }
                _ => {
                    let size = t.unary("abs", &error);
                    t.reduce(&size, if norm == "sum" { "add" } else { "maximum" }, &[0, 1])
                }
            };
            let one = t.scalar(1.0, "i32");
            let count = t.binary("add", &c[2], &one);
            vec![next, error, count]
        },
    );
    Trap { text: t.finish(&out), practical, ideal: 0 }
}

pub fn wave(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let shape = [d.size(&[48, 150]), d.size(&[48, 333])];
    let (border, count) = (d.pick(BORDERS), d.pick(&[4, 6, 7, 12, 20]));
    let [a, b] = [0, 1].map(|_| t.argument("f32", &shape, true));
    let out = t.fori(count, &[], &[a, b], |t, _, _, c| {
        let sum = neighbours(t, &c[1], border, false);
        let four = t.from(4.0, "multiply", &c[1]);
        let curve = t.binary("subtract", &sum, &four);
        let twice = t.from(2.0, "multiply", &c[1]);
        let next = t.binary("subtract", &twice, &c[0]);
        let part = t.from(0.2, "multiply", &curve);
        let next = t.binary("add", &next, &part);
        vec![c[1].clone(), next]
    });
    exact(t.finish(&out), 0)
}
