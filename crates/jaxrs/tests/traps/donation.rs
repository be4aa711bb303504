//! Donated arguments: crossed pairs, other element types, larger donors, donors as scratch.

use crate::draw::{ACTS, Act, Draw, SMOOTH, Trap, exact};
use crate::text::Text;

pub fn reverse(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let n = d.size(&[5000, 100_000]);
    let shape = if d.percent(35) { vec![n / 8, 8] } else { vec![n] };
    let x = t.argument("f32", &shape, true);
    let (act, before) = (d.pick(&[Act::Same, Act::Tanh, Act::Soft]), d.percent(40));
    let axis = d.below(shape.len() as u64) as usize;
    let y = if before { act.apply(&mut t, &x) } else { x };
    let y = t.reverse(&y, axis);
    let y = if before { y } else { act.apply(&mut t, &y) };
    let practical = y.bytes();
    Trap { text: t.finish(&[y]), practical, ideal: 0 }
}

pub fn swap(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let n = d.size(&[4096, 100_000]);
    let count = d.pick(&[2, 2, 3, 4]);
    let x: Vec<_> = (0..count).map(|_| t.argument("f32", &[n], true)).collect();
    let mixed = d.percent(25);
    let out: Vec<_> = (0..count)
        .map(|i| {
            let next = &x[(i + 1) % count];
            let read = if mixed { t.binary("add", &x[i], next) } else { next.clone() };
            let act = d.pick(&[Act::Tanh, Act::Sin, Act::Soft]);
            act.apply(&mut t, &read)
        })
        .collect();
    exact(t.finish(&out), 0)
}

pub fn swap_dot(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (m, n) = (d.size(&[48, 150]), d.size(&[48, 200]));
    let [a, b] = [0, 1].map(|_| t.argument("f32", &[m, n], true));
    let w = t.input(&[n, n]);
    let v = if d.percent(40) { t.input(&[n, n]) } else { w.clone() };
    let act = d.pick(&[Act::Same, Act::Same, Act::Tanh]);
    let out = [(&b, &w), (&a, &v)].map(|(x, w)| {
        let y = t.dot(x, w);
        act.apply(&mut t, &y)
    });
    exact(t.finish(&out), a.bytes())
}

/// A donor of another element type, as many bytes.
pub fn cast(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let n = d.size(&[5000, 100_000]);
    let pairs = [("f32", "i32"), ("i32", "f32"), ("f32", "ui32"), ("f16", "i16"), ("bf16", "f16")];
    let (from, to) = d.pick(&pairs);
    let x = t.argument(from, &[n], true);
    let y = if from == "f32" { x } else { t.convert(&x, "f32") };
    let y = t.with("multiply", &y, 100.0);
    let y = if d.percent(50) { t.unary("round_nearest_even", &y) } else { t.unary("abs", &y) };
    let y = if to == "f32" { y } else { t.convert(&y, to) };
    let y = if d.percent(30) { t.reshape(&y, &[n / 4, 4]) } else { y };
    exact(t.finish(&[y]), 0)
}

/// High and low halves, interleaved.
pub fn pairs(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let n = d.size(&[5000, 100_000]);
    let half = d.pick(&["f16", "bf16"]);
    let x = t.argument("f32", &[n], true);
    let high = t.convert(&x, half);
    let back = t.convert(&high, "f32");
    let rest = t.binary("subtract", &x, &back);
    let low = t.convert(&rest, half);
    let y = t.stack(&[high, low], 1);
    let y = if d.percent(60) { t.reshape(&y, &[2 * n]) } else { y };
    exact(t.finish(&[y]), 0)
}

/// Groups of a donated array are reduced.
pub fn larger(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, group) = (d.size(&[2000, 30_000]), d.pick(&[2, 4, 7]));
    let x = t.argument("f32", &[n * group], true);
    let y = d.pick(ACTS).apply(&mut t, &x);
    let out = match d.pick(&["group", "group", "half", "first"]) {
        "half" => t.convert(&y, "f16"),
        "first" => t.slice(&y, &[0], &[n]),
        _ => {
            let y = t.reshape(&y, &[n, group]);
            t.statistic(d.statistic(), &y, &[1])
        }
    };
    exact(t.finish(&[out]), 0)
}

/// Products that alternate between one temporary and the dead donor.
pub fn scratch(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m) = (d.size(&[48, 200]), d.size(&[48, 208]));
    let (count, act) = (d.pick(&[2, 3, 5]), d.pick(SMOOTH));
    let mut x = t.argument("f32", &[m, n], true);
    let w = t.input(&[n, n]);
    let bytes = x.bytes();
    for _ in 0..count {
        let y = t.dot(&x, &w);
        x = act.apply(&mut t, &y);
    }
    let square = t.binary("multiply", &x, &x);
    let axes: &[usize] = d.pick(&[&[0][..], &[1], &[0, 1]]);
    let out = t.statistic(d.statistic(), &square, axes);
    exact(t.finish(&[out]), bytes)
}
