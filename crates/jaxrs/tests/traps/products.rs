//! Products: into their slot of a result, one at a time, in the order of the least peak.

use crate::draw::{ACTS, Draw, SMOOTH, Trap, exact};
use crate::rows::any;
use crate::text::{Text, Value};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

pub fn concat_dots(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, count) = (d.size(&[20, 100, 256]), d.size(&[32, 64]), d.pick(&[3, 8]));
    let (x, w, act) = (t.input(&[n, m]), t.input(&[count, m, m]), any(d));
    let mut parts: Vec<Value> = (0..count)
        .map(|i| {
            let w = t.row(&w, i);
            let y = t.dot(&x, &w);
            act.apply(&mut t, &y)
        })
        .collect();
    let other = t.unary("tanh", &x);
    parts.insert(d.below(count + 1) as usize, other);
    let out = t.concatenate(&parts, 0);
    exact(t.finish(&[out]), 0)
}

pub fn concat_columns(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, count) = (d.size(&[24, 100, 256]), d.size(&[24, 50]), d.pick(&[3, 6]));
    let (x, act, apart) = (t.input(&[n, m]), any(d), d.percent(50));
    let stacked = if apart { None } else { Some(t.input(&[count, m, m])) };
    let parts: Vec<Value> = (0..count)
        .map(|i| {
            let w = match &stacked {
                Some(w) => t.row(w, i),
                None => t.input(&[m, d.pick(&[8, 24, 40])]),
            };
            let y = t.dot(&x, &w);
            act.apply(&mut t, &y)
        })
        .collect();
    let out = t.concatenate(&parts, 1);
    exact(t.finish(&[out]), 0)
}

pub fn pad_dot(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, k) = (d.size(&[48, 150, 300]), d.size(&[48, 70]), d.size(&[48, 130]));
    let batch = d.percent(25);
    let x = if batch { t.input(&[3, n, m]) } else { t.input(&[n, m]) };
    let w = t.input(&[m, k]);
    let y = t.dot(&x, &w);
    let y = any(d).apply(&mut t, &y);
    let value = d.pick(&[0.0, 0.0, 1.5]);
    let mut border = || -> Vec<u64> { (0..y.rank()).map(|_| d.below(8)).collect() };
    let (low, high) = (border(), border());
    let out = t.pad(&y, value, &low, &high);
    exact(t.finish(&[out]), 0)
}

pub fn stack_dots(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, count) = (d.size(&[16, 64, 128]), d.size(&[16, 64]), d.size(&[4, 16]));
    let (mut x, w, act) = (t.input(&[m, n]), t.input(&[n, n]), any(d));
    let parts: Vec<Value> = (0..count)
        .map(|_| {
            let y = t.dot(&x, &w);
            x = act.apply(&mut t, &y);
            x.clone()
        })
        .collect();
    let out = t.stack(&parts, 0);
    exact(t.finish(&[out]), 0)
}

pub fn scan_stack_dots(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, count) = (d.size(&[16, 64, 128]), d.size(&[16, 64, 128]), d.size(&[4, 16, 30]));
    let (x, w, act) = (t.input(&[m, n]), t.input(&[n, n]), d.pick(SMOOTH));
    let mut fixed = vec![w];
    if d.percent(40) {
        fixed.push(t.input(&[n]));
    }
    let row = vec![m, n];
    let (_, ys) = t.scan(count, false, &fixed, &[], &[x], &[("f32", row)], |t, _, fixed, c| {
        let mut y = t.dot(&c[0], &fixed[0]);
        if let Some(bias) = fixed.get(1) {
            let bias = t.spread(bias, 0, &[m, n]);
            y = t.binary("add", &y, &bias);
        }
        let y = act.apply(t, &y);
        (vec![y.clone()], vec![y])
    });
    Trap { text: t.finish(&ys), practical: 4 * m * n, ideal: 0 }
}

pub fn conv_chain(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (b, n, c) = d.size(&[(2, 10, 4), (1, 32, 16), (3, 20, 8)]);
    let (border, last, act) = (d.pick(&[1, 1, 2]), d.percent(70), any(d));
    let q = 2 * border + 1;
    let mut x = t.input(&if last { [b, n, n, c] } else { [b, c, n, n] });
    let bytes = x.bytes();
    for _ in 0..d.pick(&[4, 5, 8]) {
        let w = t.input(&if last { [q, q, c, c] } else { [c, c, q, q] });
        let y = t.convolve(&x, &w, border, last);
        x = act.apply(&mut t, &y);
    }
    exact(t.finish(&[x]), bytes)
}

pub fn dots_reduced(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, m, count) = (d.size(&[24, 100, 200]), d.size(&[30, 150]), d.size(&[6, 24]));
    let (x, w) = (t.input(&[n, m]), t.input(&[count, m, n]));
    let (act, how) = (d.pick(ACTS), d.statistic());
    let axes: &[usize] = d.pick(&[&[0, 1][..], &[0, 1], &[0], &[1]]);
    let parts: Vec<Value> = (0..count)
        .map(|i| {
            let w = t.row(&w, i);
            let y = t.dot(&x, &w);
            let y = act.apply(&mut t, &y);
            t.statistic(how, &y, axes)
        })
        .collect();
    let out = t.stack(&parts, 0);
    exact(t.finish(&[out]), 4 * n * n)
}

pub fn fanout(d: &mut Draw) -> Trap {
    let mut t = Text::default();
    let (n, count) = (d.size(&[24, 150]), d.size(&[6, 24]));
    let (x, w) = (t.input(&[n, n]), t.input(&[n, n]));
    let (first, second, how) = (d.pick(SMOOTH), d.pick(SMOOTH), d.statistic());
    let mut sum = t.fill(0.0, "f32", &[n]);
    let mut all = Vec::new();
    for i in 0..count {
        let y = t.with("multiply", &x, 1.0 + 0.05 * i as f64);
        let y = t.dot(&y, &w);
        let y = first.apply(&mut t, &y);
        let y = t.dot(&y, &w);
        let y = second.apply(&mut t, &y);
        let y = t.statistic(how, &y, &[1]);
        sum = t.binary("add", &sum, &y);
        all.push(y);
    }
    let out = if d.percent(40) { t.stack(&all, 0) } else { sum };
    Trap { text: t.finish(&[out]), practical: 8 * n * n, ideal: 4 * n * n }
}

/// `vmap` of a function with a large temporary, or in chunks by `lax.map`.
pub fn vmap(d: &mut Draw, chunked: bool) -> Trap {
    let mut t = Text::default();
    let (batch, n, k) = d.size(&[(8, 32, 8), (12, 150, 16), (32, 100, 32)]);
    let (act, how, axis) = (d.pick(ACTS), d.statistic(), d.pick(&[1, 2]));
    let more = d.percent(30);
    let x = t.input(&[batch, n, k]);
    let all = |t: &mut Text, x: &Value| {
        let across = t.transpose(x, &[0, 2, 1]);
        let y = t.dot_general(x, &across, 1, (2, 1), "f32");
        let y = act.apply(t, &y);
        let square = t.unary("square", &y);
        let y = if more { t.binary("add", &square, &y) } else { square };
        t.statistic(how, &y, &[axis])
    };
    let out = if chunked {
        let chunk = 4;
        let parts = t.reshape(&x, &[batch / chunk, chunk, n, k]);
        let row = ("f32", vec![chunk, n]);
        let (_, ys) = t.scan(batch / chunk, false, &[], &[parts], &[], &[row], |t, rows, _, _| {
            (vec![], vec![all(t, &rows[0])])
        });
        t.reshape(&ys[0], &[batch, n])
    } else {
        all(&mut t, &x)
    };
    Trap { text: t.finish(&[out]), practical: 4 * n * n, ideal: 0 }
}

/// A node of a random graph of n x n arrays, with its operands; the argument is none.
#[derive(Clone, Copy)]
enum Node {
    /// Through a product four times as wide.
    Wide(Option<usize>),
    Product(Option<usize>),
    Mix(Option<usize>, Option<usize>),
}

impl Node {
    fn operands(self) -> Vec<usize> {
        let mut all: Vec<usize> = match self {
            Node::Wide(a) | Node::Product(a) => a.into_iter().collect(),
            Node::Mix(a, b) => a.into_iter().chain(b).collect(),
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The least peak over all orders in arrays of n x n: the sets of nodes that are done, by the peak
/// that reaching them takes. A mix overwrites an operand that dies, a node without a reader is
/// reduced at once. `None` where there are too many sets.
fn least_peak(nodes: &[Node]) -> Option<u64> {
    let mut readers = vec![0u32; nodes.len()];
    for (i, node) in nodes.iter().enumerate() {
        for x in node.operands() {
            readers[x] |= 1 << i;
        }
    }
    let full = (1u32 << nodes.len()) - 1;
    let live = |done: u32| {
        (0..nodes.len()).filter(|&i| done >> i & 1 == 1 && readers[i] & !done != 0).count() as u64
    };
    let mut best: HashMap<u32, u64> = [(0, 0)].into();
    let mut heap = BinaryHeap::from([Reverse((0, 0u32))]);
    while let Some(Reverse((peak, done))) = heap.pop() {
        if done == full {
            return Some(peak);
        }
        if best[&done] < peak {
            continue;
        }
        if best.len() > 60_000 {
            return None;
        }
        let base = live(done);
        for (i, node) in nodes.iter().enumerate() {
            let operands = node.operands();
            if done >> i & 1 == 1 || operands.iter().any(|&x| done >> x & 1 == 0) {
                continue;
            }
            let next = done | 1 << i;
            let dying = operands.iter().filter(|&&x| readers[x] & !next == 0).count() as u64;
            let need = match node {
                Node::Wide(_) => (base + 4).max(base - dying + 5),
                Node::Product(_) => base + 1,
                Node::Mix(..) => base + u64::from(dying == 0),
            };
            let peak = peak.max(need);
            if best.get(&next).is_none_or(|&known| peak < known) {
                best.insert(next, peak);
                heap.push(Reverse((peak, next)));
            }
        }
    }
    None
}

pub fn dag(d: &mut Draw) -> Trap {
    let n = d.size(&[16, 96, 160]);
    let (nodes, peak) = loop {
        let count = d.pick(&[8, 12, 16, 20]);
        let nodes: Vec<Node> = (0..count)
            .map(|i: usize| {
                let mut operand = || match d.below(i.min(6) as u64 + 1) {
                    0 if i < 6 => None,
                    back => Some(i.saturating_sub(back.max(1) as usize)),
                };
                let (a, b) = (operand(), operand());
                match d.below(4) {
                    0 => Node::Wide(a),
                    1 | 2 => Node::Product(a),
                    _ => Node::Mix(a, b),
                }
            })
            .collect();
        if let Some(peak) = least_peak(&nodes) {
            break (nodes, peak);
        }
    };
    let mut t = Text::default();
    let (x, w) = (t.input(&[n, n]), t.input(&[4, n, n]));
    let (up, down) = (t.input(&[n, 4 * n]), t.input(&[4 * n, n]));
    let mut values: Vec<Value> = Vec::new();
    let mut used = vec![false; nodes.len()];
    for node in &nodes {
        node.operands().into_iter().for_each(|i| used[i] = true);
        let get = |i: Option<usize>| i.map_or(x.clone(), |i| values[i].clone());
        let value = match *node {
            Node::Wide(a) => {
                let y = t.dot(&get(a), &up);
                let y = t.unary("sine", &y);
                let y = t.dot(&y, &down);
                t.unary("tanh", &y)
            }
            Node::Product(a) => {
                let w = t.row(&w, d.below(4));
                let y = t.dot(&get(a), &w);
                t.unary(d.pick(&["tanh", "sine"]), &y)
            }
            Node::Mix(a, b) => {
                let part = t.with("multiply", &get(a), 0.75);
                t.binary("add", &part, &get(b))
            }
        };
        values.push(value);
    }
    let how = d.pick(&["mean", "sum"]);
    let mut sum = t.fill(0.0, "f32", &[n]);
    for (value, _) in values.iter().zip(&used).filter(|(_, used)| !**used) {
        let row = t.statistic(how, value, &[1]);
        let row = t.with("multiply", &row, 0.9);
        sum = t.binary("add", &sum, &row);
    }
    exact(t.finish(&[sum]), 4 * n * n * peak)
}
