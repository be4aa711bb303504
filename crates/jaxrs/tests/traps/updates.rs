//! Arrays updated in place: optimizers, `x.at[i].set`, loops that write one element, histograms.

use crate::draw::{Act, Draw, SMOOTH, Trap, exact};
use crate::text::{Text, Value};

/// AdamW and its like over many tensors; all but the gradients donated.
pub fn adam(d: &mut Draw, clip: bool) -> Trap {
    let mut t = Text::default();
    let n = d.size(&[6, 24, 96]);
    let count = d.size(&[8, 17, 30]);
    let shapes: [&[u64]; 7] =
        [&[n, n], &[2 * n], &[n, n, 2], &[4 * n, n], &[n, 1], &[3, n, n], &[]];
    let chosen: Vec<&[u64]> = (0..count).map(|_| d.pick(&shapes)).collect();
    let group = |t: &mut Text, donated| -> Vec<Value> {
        chosen.iter().map(|shape| t.argument("f32", shape, donated)).collect()
    };
    let (p, mut g) = (group(&mut t, true), group(&mut t, false));
    let (m, v) = (group(&mut t, true), group(&mut t, true));
    let step = t.argument("f32", &[], true);
    let step = t.with("add", &step, 1.0);
    if clip {
        let mut total = t.scalar(0.0, "f32");
        for x in &g {
            let square = t.unary("square", x);
            let axes: Vec<usize> = (0..x.rank()).collect();
            let sum = if axes.is_empty() { square } else { t.reduce(&square, "add", &axes) };
            total = t.binary("add", &total, &sum);
        }
        let norm = t.unary("sqrt", &total);
        let norm = t.with("add", &norm, 1e-6);
        let scale = t.from(1.0, "divide", &norm);
        let scale = t.from(1.0, "minimum", &scale);
        g = g
            .iter()
            .map(|x| {
                let scale = t.broadcast(&scale, &x.shape, &[]);
                t.binary("multiply", x, &scale)
            })
            .collect();
    }
    let form = d.pick(&["adamw", "lion", "rms", "adamw"]);
    let decays: Vec<Value> = [0.9, 0.99]
        .iter()
        .map(|&b| {
            let base = t.scalar(b, "f32");
            let power = t.binary("power", &base, &step);
            t.from(1.0, "subtract", &power)
        })
        .collect();
    let (mut ps, mut ms, mut vs) = (Vec::new(), Vec::new(), Vec::new());
    for (((p, g), m), v) in p.iter().zip(&g).zip(&m).zip(&v) {
        let square = t.binary("multiply", g, g);
        let mix = |t: &mut Text, old: &Value, b: f64, new: &Value| {
            let old = t.from(b, "multiply", old);
            let new = t.from(1.0 - b, "multiply", new);
            t.binary("add", &old, &new)
        };
        let m = mix(&mut t, m, 0.9, g);
        let v = mix(&mut t, v, 0.99, &square);
        let change = match form {
            "lion" => t.unary("sign", &m),
            "rms" => {
                let root = t.with("add", &v, 1e-6);
                let root = t.unary("sqrt", &root);
                t.binary("divide", &m, &root)
            }
            _ => {
                let [c1, c2] = [0, 1].map(|i| t.broadcast(&decays[i], &p.shape, &[]));
                let up = t.binary("divide", &m, &c1);
                let down = t.binary("divide", &v, &c2);
                let down = t.unary("sqrt", &down);
                let down = t.with("add", &down, 1e-8);
                t.binary("divide", &up, &down)
            }
        };
        let decay = t.from(0.01, "multiply", p);
        let change = t.binary("add", &change, &decay);
        let change = t.from(1e-3, "multiply", &change);
        ps.push(t.binary("subtract", p, &change));
        ms.push(m);
        vs.push(v);
    }
    let all: Vec<Value> = ps.into_iter().chain(ms).chain(vs).chain([step]).collect();
    exact(t.finish(&all), 0)
}

/// An index that is known, as a scatter takes it.
fn fixed_index(t: &mut Text, at: u64) -> Value {
    let at = t.scalar(at as f64, "i32");
    t.broadcast(&at, &[1], &[])
}

const ELEMENT: &str = "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]";
const ROW: &str =
    "update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]";

/// Many single updates of one array, in a Python loop.
pub fn at_set(d: &mut Draw, donated: bool) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[300, 5000, 70_000]), d.size(&[12, 40]));
    let rows = d.percent(40);
    let shape = if rows { vec![n, 8] } else { vec![n] };
    let mut x = t.argument("f32", &shape, donated);
    let values = t.input(if rows { &[64, 8] } else { &[64] });
    let how = d.pick(&[None, None, Some("add"), Some("maximum"), Some("multiply")]);
    let stride = d.pick(&[1, 7, 389]);
    for i in 0..count {
        let value = t.row(&values, i);
        let at = fixed_index(&mut t, i * stride % n);
        x = t.scatter(&x, &at, &value, if rows { ROW } else { ELEMENT }, how);
    }
    exact(t.finish(&[x]), 0)
}

/// Updates of rows from rows, and reads of what was there before.
pub fn at_set_read_between(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, width, count) = (d.size(&[50, 400]), d.size(&[32, 256]), d.size(&[6, 20, 40]));
    let (act, same) = (d.pick(SMOOTH), d.percent(25));
    let mut x = t.argument("f32", &[n, width], true);
    let mut sum = t.fill(0.0, "f32", &[width]);
    for _ in 0..count {
        let (to, from) = (d.below(n), d.below(n));
        let read = t.row(&x, if same { to } else { from });
        let new = act.apply(&mut t, &read);
        let new = t.with("add", &new, 0.1);
        let at = fixed_index(&mut t, to);
        let next = t.scatter(&x, &at, &new, ROW, if same { Some("add") } else { None });
        let old = t.row(&x, to);
        sum = t.binary("add", &sum, &old);
        x = next;
    }
    exact(t.finish(&[x, sum]), 0)
}

/// `table.at[ids].add(values)`.
pub fn scatter_add(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[2000, 100_000]), d.size(&[700, 5000]));
    let width = d.size(&[0, 4, 32]);
    let wide = |n| if width == 0 { vec![n] } else { vec![n, width] };
    let table = t.argument("f32", &wide(n), true);
    let ids = t.argument("i32", &[count], false);
    let values = t.input(&wide(count));
    let act = d.pick(&[Act::Same, Act::Tanh, Act::Soft]);
    let at = t.wrapped(&ids, n);
    let at = t.broadcast(&at, &[count, 1], &[0]);
    let values = act.apply(&mut t, &values);
    let window = if width == 0 { "" } else { "update_window_dims = [1], " };
    let numbers = format!("{window}{ELEMENT}, index_vector_dim = 1");
    let how = d.pick(&["add", "add", "maximum", "minimum"]);
    let out = t.scatter(&table, &at, &values, &numbers, Some(how));
    exact(t.finish(&[out]), 0)
}

/// Joint histograms of pairs of label vectors.
pub fn bincount(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[400, 3000, 60_000]), d.size(&[4, 6]));
    let dtype = d.pick(&["ui8", "i32"]);
    let classes: Vec<u64> = (0..count).map(|_| d.pick(&[3, 5, 8, 12])).collect();
    let labels: Vec<Value> = (0..count).map(|_| t.argument(dtype, &[n], false)).collect();
    let upper = d.percent(50);
    let mut out = Vec::new();
    for i in 0..count as usize {
        for j in if upper { i } else { 0 }..count as usize {
            let wide = |t: &mut Text, x: &Value| match dtype {
                "i32" => x.clone(),
                _ => t.convert(x, "i32"),
            };
            let (a, b) = (wide(&mut t, &labels[i]), wide(&mut t, &labels[j]));
            let a = t.with("multiply", &a, classes[j] as f64);
            let at = t.binary("add", &a, &b);
            let size = classes[i] * classes[j];
            let zeros = t.fill(0.0, "i32", &[size]);
            let at = t.from(0.0, "maximum", &at);
            let at = t.wrapped(&at, size);
            let at = t.broadcast(&at, &[n, 1], &[0]);
            let ones = t.fill(1.0, "i32", &[n]);
            let numbers = format!("{ELEMENT}, index_vector_dim = 1");
            let bins = t.scatter(&zeros, &at, &ones, &numbers, Some("add"));
            out.push(t.reshape(&bins, &[classes[i], classes[j]]));
        }
    }
    Trap { text: t.finish(&out), practical: 4 * n, ideal: 0 }
}

/// A loop that writes one element, or a few, of a donated array.
pub fn dus_loop(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[256, 2048, 300_000]), d.size(&[20, 100]));
    let x = t.argument("f32", &[n], true);
    let form = d.pick(&["set", "add", "block", "set"]);
    let stride = d.pick(&[7919, 37, 13]);
    let out = t.fori(count, &[], &[x], |t, i, _, c| {
        let value = t.convert(i, "f32");
        let value = t.with("multiply", &value, 0.5);
        if form == "block" {
            let at = t.stepped(i, stride, 1, n - 4);
            let at = t.wrapped(&at, n);
            let block = t.broadcast(&value, &[4], &[]);
            return vec![t.update_slice(&c[0], &block, &[at])];
        }
        let at = t.stepped(i, stride, 0, n);
        let at = t.wrapped(&at, n);
        let at = t.broadcast(&at, &[1], &[]);
        vec![t.scatter(&c[0], &at, &value, ELEMENT, (form == "add").then_some("add"))]
    });
    exact(t.finish(&out), 0)
}

/// A place `(i * step + offset) % blocks` as the start of a block.
fn block_at(t: &mut Text, i: &Value, step: u64, offset: u64, blocks: u64, width: u64) -> Value {
    let at = t.stepped(i, step, offset, blocks);
    let at = t.with("multiply", &at, width as f64);
    t.wrapped(&at, blocks * width)
}

/// A loop that moves a block of a donated array.
pub fn dus_loop_block(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (width, blocks, count) = (d.size(&[96, 500, 2000]), d.size(&[40, 170]), d.size(&[10, 30]));
    let (act, step) = (d.pick(&[Act::Same, Act::Tanh, Act::Soft]), d.pick(&[7, 11]));
    let x = t.argument("f32", &[blocks * width], true);
    let out = t.fori(count, &[], &[x], |t, i, _, c| {
        let from = block_at(t, i, step, 0, blocks, width);
        let block = t.dynamic_slice(&c[0], &[from], &[width]);
        let block = act.apply(t, &block);
        let to = block_at(t, i, 13, 5, blocks, width);
        vec![t.update_slice(&c[0], &block, &[to])]
    });
    exact(t.finish(&out), 4 * width)
}

/// A loop that writes one slice of a carry and reads two of the old ones.
pub fn loop_read_old(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (width, blocks, count) = (d.size(&[32, 256]), d.size(&[40, 700]), d.size(&[10, 25]));
    let (act, step, shift) = (d.pick(SMOOTH), d.pick(&[3, 5]), d.pick(&[0, 0, 1]));
    let x = t.argument("f32", &[blocks * width], true);
    let sum = t.argument("f32", &[width], true);
    let out = t.fori(count, &[], &[x, sum], |t, i, _, c| {
        let from = block_at(t, i, 7, 3, blocks, width);
        let read = t.dynamic_slice(&c[0], &[from], &[width]);
        let new = act.apply(t, &read);
        let new = t.with("add", &new, 0.25);
        let to = block_at(t, i, step, 0, blocks, width);
        let next = t.update_slice(&c[0], &new, &[to]);
        let old = block_at(t, i, step, shift, blocks, width);
        let old = t.dynamic_slice(&c[0], &[old], &[width]);
        let sum = t.binary("add", &c[1], &old);
        vec![next, sum]
    });
    exact(t.finish(&out), 4 * width)
}

/// An update, a loop that reads single elements, another update.
pub fn update_loop_update(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[4096, 100_000]), d.size(&[8, 30]));
    let x = t.argument("f32", &[n], true);
    let first = d.pick(&["exponential", "tanh", "sine"]);
    let x = t.unary(first, &x);
    let zero = t.scalar(0.0, "f32");
    let sum = t.fori(count, std::slice::from_ref(&x), &[zero], |t, i, fixed, c| {
        let at = t.stepped(i, 997, 0, n);
        let at = t.wrapped(&at, n);
        let one = t.dynamic_slice(&fixed[0], &[at], &[1]);
        let one = t.reshape(&one, &[]);
        vec![t.binary("add", &c[0], &one)]
    });
    let mean = t.with("divide", &sum[0], count as f64);
    let wide = t.broadcast(&mean, &[n], &[]);
    let last = d.pick(&["add", "maximum", "multiply"]);
    let out = t.with("multiply", &x, 2.0);
    let out = t.binary(last, &out, &wide);
    exact(t.finish(&[out]), 0)
}

/// A scan with a scalar carry and one stacked scalar a step.
pub fn scan_fill(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let count = d.size(&[300, 20_000]);
    let (a, x) = (t.input(&[]), t.input(&[]));
    let (read, old) = (d.percent(40), d.percent(50));
    let xs = if read { vec![t.input(&[count])] } else { Vec::new() };
    let ys = [("f32", Vec::new())];
    let (c, ys) = t.scan(count, false, &[a], &xs, &[x], &ys, |t, rows, fixed, c| {
        let rest = t.from(1.0, "subtract", &c[0]);
        let mut next = t.binary("multiply", &fixed[0], &c[0]);
        next = t.binary("multiply", &next, rows.first().unwrap_or(&rest));
        let made = if old { c[0].clone() } else { next.clone() };
        (vec![next], vec![made])
    });
    exact(t.finish(&[c[0].clone(), ys[0].clone()]), 0)
}
