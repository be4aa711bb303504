//! Broadcast and reduce: pairs, one-hot matrices, rows with a statistic, half precision.

use crate::draw::{ACTS, Act, Draw, SMOOTH, Trap, exact};
use crate::text::{Text, Value};

pub fn mean_var(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m) = (d.size(&[64, 500]), d.size(&[80, 1500]));
    let (a, b) = (t.input(&[n]), t.input(&[m]));
    let half = t.from(0.5, "multiply", &b);
    let (a, b) = (t.spread(&a, 1, &[n, m]), t.spread(&half, 0, &[n, m]));
    let x = t.binary(d.pick(&["add", "multiply"]), &a, &b);
    let x = t.unary(d.pick(&["exponential", "tanh", "sine"]), &x);
    let sum = t.reduce(&x, "add", &[1]);
    let column = t.broadcast(&sum, &[n, 1], &[0]);
    let mean = t.with("divide", &column, m as f64);
    let wide = t.broadcast(&mean, &[n, m], &[0, 1]);
    let centred = t.binary("subtract", &x, &wide);
    let square = t.unary("square", &centred);
    let variance = t.statistic("mean", &square, &[1]);
    let wide = t.broadcast(&mean, &[n, m], &[0, 1]);
    let centred = t.binary("subtract", &x, &wide);
    let rest = t.with("add", &variance, 1e-6);
    let scale = t.unary("rsqrt", &rest);
    let scale = t.spread(&scale, 1, &[n, m]);
    let y = t.binary("multiply", &centred, &scale);
    let y = t.statistic(d.pick(&["max", "min", "sum"]), &y, &[1]);
    let mean = t.reshape(&mean, &[n]);
    exact(t.finish(&[mean, variance, y]), 4 * m)
}

/// The differences of all pairs of rows, `[n, m, k]`.
fn differences(t: &mut Text, x: &Value, y: &Value) -> Value {
    let shape = [x.shape[0], y.shape[0], x.shape[1]];
    let (a, b) = (t.spread(x, 1, &shape), t.spread(y, 0, &shape));
    t.binary("subtract", &a, &b)
}

pub fn nbody(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, k) = (d.size(&[40, 300]), d.size(&[50, 400]), d.pick(&[2, 3, 4]));
    let (x, y, w) = (t.input(&[n, k]), t.input(&[m, k]), t.input(&[m]));
    let e = differences(&mut t, &x, &y);
    let square = t.binary("multiply", &e, &e);
    let sum = t.reduce(&square, "add", &[2]);
    let kept = t.broadcast(&sum, &[n, m, 1], &[0, 1]);
    let kept = t.with("add", &kept, 0.05);
    let scale = match d.pick(&["cube", "gauss", "cube"]) {
        "gauss" => {
            let negative = t.unary("negate", &kept);
            t.unary("exponential", &negative)
        }
        _ => {
            let root = t.unary("rsqrt", &kept);
            let square = t.binary("multiply", &root, &root);
            t.binary("multiply", &square, &root)
        }
    };
    let w = t.broadcast(&w, &[1, m, 1], &[1]);
    let w = t.broadcast(&w, &[n, m, k], &[0, 1, 2]);
    let force = t.binary("multiply", &w, &e);
    let scale = t.broadcast(&scale, &[n, m, k], &[0, 1, 2]);
    let force = t.binary("multiply", &force, &scale);
    let out = t.reduce(&force, "add", &[1]);
    exact(t.finish(&[out]), 0)
}

/// The matrix of `ids == iota`, converted.
pub fn one_hot(t: &mut Text, ids: &Value, classes: u64, dtype: &'static str) -> Value {
    let shape = [ids.shape[0], classes];
    let column = t.broadcast(ids, &[shape[0], 1], &[0]);
    let row = t.iota("i32", &[1, classes], 1);
    let (a, b) = (t.broadcast(&column, &shape, &[0, 1]), t.broadcast(&row, &shape, &[0, 1]));
    let same = t.compare("EQ", &a, &b);
    t.convert(&same, dtype)
}

pub fn onehot_matmul(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, v, k) = (d.size(&[60, 500]), d.size(&[200, 3000]), d.size(&[16, 64]));
    let dtype = d.pick(&["f32", "f32", "f32", "bf16"]);
    let ids = t.argument("i32", &[n], false);
    let table = t.argument(dtype, &[v, k], false);
    let mut hot = match d.pick(&["convert", "convert", "select", "two steps"]) {
        "select" => {
            let at = t.iota("i32", &[v], 0);
            let (a, b) = (t.spread(&ids, 1, &[n, v]), t.spread(&at, 0, &[n, v]));
            let same = t.compare("EQ", &a, &b);
            let (one, zero) = (t.fill(1.0, dtype, &[n, v]), t.fill(0.0, dtype, &[n, v]));
            t.select(&same, &one, &zero)
        }
        "two steps" => {
            let at = t.iota("i32", &[v], 0);
            let (a, b) = (t.spread(&ids, 1, &[n, v]), t.spread(&at, 0, &[n, v]));
            let same = t.compare("EQ", &a, &b);
            t.convert(&same, dtype)
        }
        _ => one_hot(&mut t, &ids, v, dtype),
    };
    let practical = hot.bytes();
    let batch = d.percent(25);
    if batch {
        hot = t.reshape(&hot, &[4, n / 4, v]);
    }
    let mut out = t.dot_general(&hot, &table, 0, (hot.rank() - 1, 0), dtype);
    if d.percent(30) {
        out = t.with("add", &out, 1.0);
    }
    Trap { text: t.finish(&[out]), practical, ideal: 0 }
}

pub fn outer_reduce(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m) = (d.size(&[100, 1000]), d.size(&[90, 700]));
    let (a, b, c) = (t.input(&[n]), t.input(&[m]), t.input(&[m]));
    let (x, y) = (t.spread(&a, 1, &[n, m]), t.spread(&b, 0, &[n, m]));
    let mut x = t.binary("multiply", &x, &y);
    if d.percent(60) {
        let c = t.spread(&c, 0, &[n, m]);
        x = t.binary("add", &x, &c);
    }
    let x = d.pick(ACTS).apply(&mut t, &x);
    let axis = d.below(2) as usize;
    let out = t.statistic(d.statistic(), &x, &[axis]);
    exact(t.finish(&[out]), 0)
}

/// Distances of all pairs, by one of several norms.
fn distances(t: &mut Text, d: &mut Draw, x: &Value, y: &Value) -> Value {
    let e = differences(t, x, y);
    match d.pick(&["squares", "sizes", "largest", "squares"]) {
        "sizes" => {
            let sizes = t.unary("abs", &e);
            t.reduce(&sizes, "add", &[2])
        }
        "largest" => {
            let sizes = t.unary("abs", &e);
            t.reduce(&sizes, "maximum", &[2])
        }
        _ => {
            let squares = t.unary("square", &e);
            t.reduce(&squares, "add", &[2])
        }
    }
}

pub fn pairwise_argmin(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, k) = (d.size(&[80, 1000]), d.size(&[20, 256]), d.size(&[7, 2, 16]));
    let (x, y) = (t.input(&[n, k]), t.input(&[m, k]));
    let all = distances(&mut t, d, &x, &y);
    let out = match d.pick(&["argmin", "argmin", "argmax", "min"]) {
        "argmin" => t.arg_extreme(&all, "LT"),
        "argmax" => t.arg_extreme(&all, "GT"),
        _ => t.reduce(&all, "minimum", &[1]),
    };
    exact(t.finish(&[out]), 0)
}

pub fn pairwise_dist(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, k) = (d.size(&[50, 400]), d.size(&[60, 300]), d.size(&[3, 16]));
    let (x, y) = (t.input(&[n, k]), t.input(&[m, k]));
    let all = distances(&mut t, d, &x, &y);
    let out = match d.pick(&["same", "root", "kernel"]) {
        "root" => t.unary("sqrt", &all),
        "kernel" => {
            let scaled = t.with("multiply", &all, -0.5);
            t.unary("exponential", &scaled)
        }
        _ => all,
    };
    exact(t.finish(&[out]), 0)
}

/// Storage in half precision, arithmetic in single, a row's statistic in the middle.
pub fn bf16_chain(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m) = d.size(&[(32, 64), (300, 500), (2, 3000)]);
    let (dtype, act) = (d.pick(&["bf16", "bf16", "f16"]), d.pick(SMOOTH));
    let steps = d.pick(&[2, 4, 6]);
    let [mut x, y] = [0, 1].map(|_| t.argument(dtype, &[n, m], false));
    for step in 0..=steps {
        let wide = t.convert(&x, "f32");
        let next = if step == steps / 2 {
            let (how, size) = match d.pick(&["square", "size"]) {
                "square" => ("mean", t.binary("multiply", &wide, &wide)),
                _ => ("max", t.unary("abs", &wide)),
            };
            let row = t.statistic(how, &size, &[1]);
            let row = t.broadcast(&row, &[n, 1], &[0]);
            let row = t.with("add", &row, 1e-6);
            let scale = t.unary("rsqrt", &row);
            let scale = t.broadcast(&scale, &[n, m], &[0, 1]);
            t.binary("multiply", &wide, &scale)
        } else {
            let part = t.with("multiply", &wide, 0.9);
            let other = t.convert(&y, "f32");
            let other = act.apply(&mut t, &other);
            let other = t.with("multiply", &other, 0.2);
            t.binary("add", &part, &other)
        };
        x = t.convert(&next, dtype);
    }
    exact(t.finish(&[x]), 0)
}

/// Two layers with single precision sums.
pub fn bf16_mlp(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, k, h) = d.size(&[(24, 16, 48), (200, 64, 256), (512, 128, 300)]);
    let (dtype, act) = (d.pick(&["bf16", "bf16", "f16"]), d.pick(ACTS));
    let x = t.argument(dtype, &[n, k], false);
    let (a, b) = (t.argument(dtype, &[k, h], false), t.argument(dtype, &[h, k], false));
    let mut y = t.dot_general(&x, &a, 0, (1, 0), "f32");
    if d.percent(40) {
        let bias = t.input(&[h]);
        let bias = t.spread(&bias, 0, &[n, h]);
        y = t.binary("add", &y, &bias);
    }
    let practical = y.bytes() + 4 * n * k;
    let y = act.apply(&mut t, &y);
    let y = t.convert(&y, dtype);
    let ideal = y.bytes();
    let z = t.dot_general(&y, &b, 0, (1, 0), "f32");
    let z = t.convert(&z, dtype);
    Trap { text: t.finish(&[z]), practical, ideal }
}

/// What stands before a product's epilogue.
pub fn any(d: &mut Draw) -> Act {
    if d.percent(30) { Act::Same } else { d.pick(ACTS) }
}
