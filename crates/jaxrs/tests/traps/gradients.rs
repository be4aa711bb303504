//! Reverse mode as `jax.grad` writes it: saved activations, attention, cross-entropy.

use crate::draw::{Act, Draw, TRAINED, Trap, exact};
use crate::rows::one_hot;
use crate::scans::LAYERS;
use crate::text::{Text, Value};

/// The mean of the squares, and its cotangent.
fn mean_square(t: &mut Text, x: &Value) -> (Value, Value) {
    let square = t.unary("square", x);
    let slope = t.from(2.0, "multiply", x);
    let axes: Vec<usize> = (0..x.rank()).collect();
    let count = x.shape.iter().product::<u64>() as f64;
    let sum = t.reduce(&square, "add", &axes);
    let (size, one, again) = (t.scalar(count, "f32"), t.scalar(1.0, "f32"), t.scalar(count, "f32"));
    let loss = t.binary("divide", &sum, &size);
    let each = t.binary("divide", &one, &again);
    let each = t.broadcast(&each, &x.shape, &[]);
    (loss, t.binary("multiply", &each, &slope))
}

/// The cotangents of `x @ w`: of `w` and of `x`.
fn product_cotangents(t: &mut Text, c: &Value, x: &Value, w: &Value) -> (Value, Value) {
    let across = t.dot_general(c, x, 0, (0, 0), "f32");
    let dw = t.transpose(&across, &[1, 0]);
    (dw, t.dot_general(c, w, 0, (1, 1), "f32"))
}

/// The sum over the rows, in the two steps that a broadcast bias leaves.
fn bias_cotangent(t: &mut Text, c: &Value) -> Value {
    let n = c.shape[1];
    let sum = t.reduce(c, "add", &[0]);
    let row = t.reshape(&sum, &[1, n]);
    t.reduce(&row, "add", &[0])
}

/// A row of a stack whose other rows are zero.
fn in_stack(t: &mut Text, x: &Value, at: u64, count: u64) -> Value {
    let shape: Vec<u64> = [1].iter().chain(&x.shape).copied().collect();
    let dims: Vec<usize> = (1..shape.len()).collect();
    let one = t.broadcast(x, &shape, &dims);
    let (mut low, mut high) = (vec![0; shape.len()], vec![0; shape.len()]);
    (low[0], high[0]) = (at, count - 1 - at);
    t.pad(&one, 0.0, &low, &high)
}

/// Loss and gradients of layers of equal shape.
pub fn layers(d: &mut Draw, scan: bool) -> Trap {
    let mut t = Text::default();
    let (layers, n, batch) = (d.pick(&LAYERS), d.size(&[16, 64, 128]), d.size(&[8, 64, 100]));
    let act = d.pick(&TRAINED[..5]);
    let (w, b) = (t.input(&[layers, n, n]), t.input(&[layers, n]));
    let mut x = t.input(&[batch, n]);
    let practical = if layers == 1 { x.bytes() } else { (layers + 1) * x.bytes() };
    let forward = |t: &mut Text, x: &Value, w: &Value, b: &Value| {
        let y = t.dot(x, w);
        let b = t.spread(b, 0, &[batch, n]);
        let y = t.binary("add", &y, &b);
        act.forward(t, &y)
    };
    let backward = |t: &mut Text, c: &Value, x: &Value, w: &Value, kept: &[Value]| {
        let c = act.backward(t, c, kept);
        let db = bias_cotangent(t, &c);
        let (dw, dx) = product_cotangents(t, &c, x, w);
        (dw, db, dx)
    };
    if scan {
        let kept = act.forward(&mut Text::default(), &x).1;
        let rows: Vec<_> =
            [&x].into_iter().chain(&kept).map(|v| (v.dtype, v.shape.clone())).collect();
        let xs = [w.clone(), b];
        let (c, saved) = t.scan(layers, false, &[], &xs, &[x], &rows, |t, rows, _, c| {
            let (y, kept) = forward(t, &c[0], &rows[0], &rows[1]);
            (vec![y], [c[0].clone()].into_iter().chain(kept).collect())
        });
        let (loss, cotangent) = mean_square(&mut t, &c[0]);
        let xs: Vec<Value> = [w].into_iter().chain(saved).collect();
        let rows = [("f32", vec![n, n]), ("f32", vec![n])];
        let (_, grads) = t.scan(layers, true, &[], &xs, &[cotangent], &rows, |t, rows, _, c| {
            let (dw, db, dx) = backward(t, &c[0], &rows[1], &rows[0], &rows[2..]);
            (vec![dx], vec![dw, db])
        });
        let text = t.finish(&[loss, grads[0].clone(), grads[1].clone()]);
        return Trap { text, practical, ideal: 0 };
    }
    let mut saved = Vec::new();
    for i in 0..layers {
        let (w, b) = (t.row(&w, i), t.row(&b, i));
        let (y, kept) = forward(&mut t, &x, &w, &b);
        saved.push((x, w, kept));
        x = y;
    }
    let (loss, mut c) = mean_square(&mut t, &x);
    let mut sums: Option<(Value, Value)> = None;
    for (i, (x, w, kept)) in saved.iter().enumerate().rev() {
        let (dw, db, dx) = backward(&mut t, &c, x, w, kept);
        c = dx;
        let dw = in_stack(&mut t, &dw, i as u64, layers);
        let db = in_stack(&mut t, &db, i as u64, layers);
        sums = Some(match sums {
            None => (dw, db),
            Some((w, b)) => (t.binary("add", &w, &dw), t.binary("add", &b, &db)),
        });
    }
    let (dw, db) = sums.expect("there are layers");
    Trap { text: t.finish(&[loss, dw, db]), practical, ideal: 0 }
}

/// Gradients of a deep network with separate parameters.
pub fn mlp(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (layers, n, batch) = (d.size(&[3, 8, 16]), d.size(&[12, 64, 128]), d.size(&[8, 64, 128]));
    let act = d.pick(TRAINED);
    let ws: Vec<Value> = (0..layers).map(|_| t.input(&[n, n])).collect();
    let mut x = t.input(&[batch, n]);
    let practical = (layers + 2) * x.bytes();
    let mut saved = Vec::new();
    for w in &ws {
        let y = t.dot(&x, w);
        let (y, kept) = act.forward(&mut t, &y);
        saved.push((x, kept));
        x = y;
    }
    let (_, mut c) = mean_square(&mut t, &x);
    let mut grads = Vec::new();
    for (w, (x, kept)) in ws.iter().zip(&saved).rev() {
        c = act.backward(&mut t, &c, kept);
        let (dw, dx) = product_cotangents(&mut t, &c, x, w);
        grads.push(dw);
        c = dx;
    }
    grads.reverse();
    Trap { text: t.finish(&grads), practical, ideal: 0 }
}

/// Loss and gradients of a residual scan under a policy of `jax.checkpoint`.
pub fn remat(d: &mut Draw, policy: &'static str) -> Trap {
    let mut t = Text::default();
    let (layers, n, h) = (d.size(&[3, 6, 10]), d.size(&[12, 64]), d.size(&[32, 128, 200]));
    let batch = d.size(&[8, 64, 128]);
    let act = d.pick(TRAINED);
    let (a, b) = (t.input(&[layers, n, h]), t.input(&[layers, h, n]));
    let x = t.input(&[batch, n]);
    let (small, hidden) = (4 * batch * n, 4 * batch * h);
    let practical = match policy {
        "full" => layers * small + 2 * hidden,
        _ => layers * (small + hidden) + hidden,
    };
    let mut probe = Text::default();
    let wide = probe.input(&[batch, h]);
    let (y, mut kept) = act.forward(&mut probe, &wide);
    // The product with `b` needs the value, which an activation may keep anyway.
    let extra = matches!(act, Act::Sin | Act::Relu | Act::Gelu);
    if extra {
        kept.push(y);
    }
    let mut rows = vec![("f32", vec![batch, n])];
    match policy {
        "none" => rows.extend(kept.iter().map(|v| (v.dtype, v.shape.clone()))),
        "dots" => rows.push(("f32", vec![batch, h])),
        _ => (),
    }
    let (c, saved) =
        t.scan(layers, false, &[], &[a.clone(), b.clone()], &[x], &rows, |t, rows, _, c| {
            let z = t.dot(&c[0], &rows[0]);
            let (y, mut kept) = act.forward(t, &z);
            let out = t.dot(&y, &rows[1]);
            let out = t.binary("add", &c[0], &out);
            if extra {
                kept.push(y);
            }
            let kept = match policy {
                "none" => kept,
                "dots" => vec![z],
                _ => Vec::new(),
            };
            (vec![out], [c[0].clone()].into_iter().chain(kept).collect())
        });
    let (loss, cotangent) = mean_square(&mut t, &c[0]);
    let xs: Vec<Value> = [a, b].into_iter().chain(saved).collect();
    let grads = [("f32", vec![n, h]), ("f32", vec![h, n])];
    let (_, grads) = t.scan(layers, true, &[], &xs, &[cotangent], &grads, |t, rows, _, c| {
        let mut all: Vec<Value> = rows.to_vec();
        let mut c = c[0].clone();
        if policy != "none" {
            all.push(c);
            all = t.barrier(&all);
            c = all.pop().expect("just pushed");
        }
        let (a, b, x) = (&all[0], &all[1], &all[2]);
        let (y, kept) = match policy {
            "none" => {
                let mut kept = all[3..].to_vec();
                let y = if extra { kept.pop().expect("saved above") } else { kept[0].clone() };
                (y, kept)
            }
            "dots" => act.forward(t, &all[3]),
            _ => {
                let z = t.dot(x, a);
                act.forward(t, &z)
            }
        };
        let (db, dy) = product_cotangents(t, &c, &y, b);
        let dz = act.backward(t, &dy, &kept);
        let (da, dx) = product_cotangents(t, &dz, x, a);
        let out = t.binary("add", &c, &dx);
        (vec![out], vec![da, db])
    });
    let text = t.finish(&[loss, grads[0].clone(), grads[1].clone()]);
    Trap { text, practical, ideal: 0 }
}

/// Scores, masked where the attention is causal.
fn scores(t: &mut Text, q: &Value, k: &Value, causal: Option<f64>) -> (Value, Option<Value>) {
    let s = t.dot_general(q, k, 1, (2, 2), "f32");
    let s = t.with("divide", &s, (q.shape[2] as f64).sqrt());
    let Some(fill) = causal else { return (s, None) };
    let plane = &s.shape[1..];
    let (row, column) = (t.iota("i32", plane, 0), t.iota("i32", plane, 1));
    let mask = t.compare("GE", &row, &column);
    let mask = t.broadcast(&mask, &s.shape, &[1, 2]);
    let other = t.fill(fill, "f32", &s.shape);
    (t.select(&mask, &s, &other), Some(mask))
}

/// `exp(s - max)` and its sums, `[b, q, 1]`.
fn exponentials(t: &mut Text, s: &Value) -> (Value, Value) {
    let column = [s.shape[0], s.shape[1], 1];
    let most = t.reduce(s, "maximum", &[2]);
    let most = t.from(f64::NEG_INFINITY, "maximum", &most);
    let most = t.broadcast(&most, &column, &[0, 1]);
    let most = t.broadcast(&most, &s.shape, &[0, 1, 2]);
    let s = t.binary("subtract", s, &most);
    let e = t.unary("exponential", &s);
    let sum = t.reduce(&e, "add", &[2]);
    let sum = t.broadcast(&sum, &column, &[0, 1]);
    (e, sum)
}

pub fn attention_long(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (b, n, k) = d.size(&[(2, 40, 8), (4, 300, 64), (1, 1000, 32)]);
    let m = if d.percent(40) { n / 2 } else { n };
    let q = t.input(&[b, n, k]);
    let (key, v) = (t.input(&[b, m, k]), t.input(&[b, m, k]));
    let causal = (n == m && d.percent(40)).then(|| d.pick(&[-1e9, f64::NEG_INFINITY]));
    let (s, _) = scores(&mut t, &q, &key, causal);
    let bytes = s.bytes();
    let (e, sum) = exponentials(&mut t, &s);
    let sum = t.broadcast(&sum, &e.shape, &[0, 1, 2]);
    let p = t.binary("divide", &e, &sum);
    let out = t.dot_general(&p, &v, 1, (2, 1), "f32");
    exact(t.finish(&[out]), bytes)
}

pub fn attention_grad(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (b, n, k) = d.size(&[(2, 32, 8), (3, 100, 16), (2, 256, 32), (6, 65, 24)]);
    let [q, key, v, g] = [0; 4].map(|_| t.input(&[b, n, k]));
    let causal = d.percent(60).then(|| d.pick(&[-1e9, f64::NEG_INFINITY, -1e30]));
    let (s, mask) = scores(&mut t, &q, &key, causal);
    let (e, sum) = exponentials(&mut t, &s);
    let wide = t.broadcast(&sum, &e.shape, &[0, 1, 2]);
    let p = t.binary("divide", &e, &wide);
    let square = t.binary("multiply", &sum, &sum);
    let inverse = t.from(1.0, "divide", &square);
    let across = t.dot_general(&g, &p, 1, (1, 1), "f32");
    let dv = t.transpose(&across, &[0, 2, 1]);
    let dp = t.dot_general(&g, &v, 1, (2, 2), "f32");
    let inverse = t.broadcast(&inverse, &e.shape, &[0, 1, 2]);
    let part = t.binary("multiply", &dp, &inverse);
    let part = t.binary("multiply", &part, &e);
    let part = t.reduce(&part, "add", &[2]);
    let part = t.reshape(&part, &[b, n, 1]);
    let part = t.unary("negate", &part);
    let wide = t.broadcast(&sum, &e.shape, &[0, 1, 2]);
    let ds = t.binary("divide", &dp, &wide);
    let part = t.reduce(&part, "add", &[2]);
    let part = t.broadcast(&part, &e.shape, &[0, 1]);
    let ds = t.binary("add", &ds, &part);
    let mut ds = t.binary("multiply", &ds, &e);
    if let Some(mask) = mask {
        let zero = t.fill(0.0, "f32", &ds.shape);
        ds = t.select(&mask, &ds, &zero);
    }
    let ds = t.with("divide", &ds, (k as f64).sqrt());
    let dk = t.dot_general(&ds, &q, 1, (1, 1), "f32");
    let dq = t.dot_general(&ds, &key, 1, (2, 1), "f32");
    exact(t.finish(&[dq, dk, dv]), 2 * 4 * b * n * n)
}

/// The loss of logits and its cotangent, by `take_along_axis` of `log_softmax` or with a one-hot
/// matrix.
fn cross_entropy(t: &mut Text, d: &mut Draw, logits: &Value, labels: &Value) -> (Value, Value) {
    let (n, v) = (logits.shape[0], logits.shape[1]);
    let wide = [n, v];
    let most = t.reduce(logits, "maximum", &[1]);
    let most = t.from(f64::NEG_INFINITY, "maximum", &most);
    let most = t.spread(&most, 1, &wide);
    let shifted = t.binary("subtract", logits, &most);
    let e = t.unary("exponential", &shifted);
    let sum = t.reduce(&e, "add", &[1]);
    let sum = t.broadcast(&sum, &[n, 1], &[0]);
    let log = t.unary("log", &sum);
    let log = t.broadcast(&log, &wide, &[0, 1]);
    let all = t.binary("subtract", &shifted, &log);
    let (loss, cotangent) = if d.percent(60) {
        let at = t.broadcast(labels, &[n, 1], &[0]);
        let at = t.wrapped(&at, v);
        let at = t.reshape(&at, &[n, 1, 1]);
        let taken = t.take_along(&all, &at);
        let loss = t.reduce(&taken, "add", &[0, 1]);
        let each = t.fill(-1.0 / n as f64, "f32", &[n, 1]);
        let zeros = t.fill(0.0, "f32", &wide);
        let numbers = "inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2";
        (loss, t.scatter(&zeros, &at, &each, numbers, Some("add")))
    } else {
        let hot = one_hot(t, labels, v, "f32");
        let product = t.binary("multiply", &hot, &all);
        let rows = t.reduce(&product, "add", &[1]);
        let loss = t.reduce(&rows, "add", &[0]);
        (loss, t.from(-1.0 / n as f64, "multiply", &hot))
    };
    let loss = t.with("divide", &loss, n as f64);
    let loss = t.unary("negate", &loss);
    let negative = t.unary("negate", &cotangent);
    let part = t.reduce(&negative, "add", &[1]);
    let part = t.reshape(&part, &[n, 1]);
    let part = t.binary("divide", &part, &sum);
    let part = t.reduce(&part, "add", &[1]);
    let part = t.broadcast(&part, &wide, &[0]);
    let part = t.binary("multiply", &part, &e);
    (loss, t.binary("add", &cotangent, &part))
}

pub fn xent_logits(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, v) = d.size(&[(16, 500), (64, 5000), (7, 32_000), (256, 1000)]);
    let (logits, labels) = (t.input(&[n, v]), t.argument("i32", &[n], false));
    let (loss, out) = cross_entropy(&mut t, d, &logits, &labels);
    exact(t.finish(&[loss, out]), 8 * n)
}

pub fn xent_vocab(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, k, v) = d.size(&[(16, 16, 300), (128, 32, 2000), (64, 64, 10_000)]);
    let (h, w, labels) = (t.input(&[n, k]), t.input(&[k, v]), t.argument("i32", &[n], false));
    let bias = d.percent(30).then(|| t.input(&[v]));
    let mut logits = t.dot(&h, &w);
    if let Some(bias) = &bias {
        let bias = t.spread(bias, 0, &[n, v]);
        logits = t.binary("add", &logits, &bias);
    }
    let (loss, c) = cross_entropy(&mut t, d, &logits, &labels);
    let (dw, dh) = product_cotangents(&mut t, &c, &h, &w);
    let mut out = vec![loss, dh, dw];
    if bias.is_some() {
        out.push(bias_cotangent(&mut t, &c));
    }
    exact(t.finish(&out), 4 * n * v + 8 * n)
}
