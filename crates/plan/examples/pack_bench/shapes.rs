//! Generated packing problems. Step `i` of a program makes value `i`; a value is live from its step
//! up to and with the last step that reads it. Sizes are multiples of 64.
//!
//! * `chain`: a step reads the last value; one in eight is read again 2 to 40 steps later, as a skip
//!   connection is.
//! * `tree`: a random binary expression in post-order, a node's value read by its parent alone, the
//!   larger side first or the smaller.
//! * `dag`: a step reads one to three earlier values, each `1 + floor(-10 ln u)` steps back.
//! * `transformer`: layers of norm, query, key, value, scores, softmax, context, projection, two
//!   residual sums and a feed-forward part; in half of the problems the backward pass follows, which
//!   reads each layer's kept values in reverse.
//! * `tile`: buffers of a software pipeline: per round 4 to 15 tiles live for one to three rounds with
//!   jitter, among them accumulators that stay for 4 to 20 rounds. Sizes are products of 1, 2, 3, 4,
//!   6, 8 and odd borders.

use jaxrs_plan::pack::{Problem, Row};

/// A generator of numbers: xorshift.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            chance.next();
        }
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n
    }

    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// A size of a tensor: a dimension or a product of two, of 4 bytes each, rounded up to 64.
    fn size(&mut self) -> u64 {
        let mut side =
            || [1u64, 3, 8, 10, 16, 32, 50, 64, 96, 100, 128, 256][self.below(12) as usize];
        (4 * side() * side()).next_multiple_of(64)
    }
}

/// Makes a problem of about as many rows.
pub type Shape = fn(&mut Chance, usize) -> Problem;

pub const SHAPES: [(&str, Shape); 5] =
    [("chain", chain), ("tree", tree), ("dag", dag), ("transformer", transformer), ("tile", tile)];

/// The problem of a shape and a seed; 50 to 1,000 rows, evenly on the logarithm.
pub fn problem(shape: Shape, seed: u64) -> Problem {
    let mut chance = Chance::new(seed + 1);
    let n = 50.0 * 20f64.powf(chance.unit());
    shape(&mut chance, n as usize)
}

fn row(lower: usize, last_read: usize, size: u64) -> Row {
    Row {
        lower: lower as u64,
        upper: last_read.max(lower) as u64 + 1,
        size,
        alignment: 64,
        ..Row::default()
    }
}

fn chain(chance: &mut Chance, n: usize) -> Problem {
    let rows = (0..n).map(|i| {
        let skip = if chance.below(8) == 0 { 2 + chance.below(39) as usize } else { 1 };
        row(i, (i + skip).min(n), chance.size())
    });
    Problem { rows: rows.collect() }
}

fn tree(chance: &mut Chance, n: usize) -> Problem {
    // Leaves below each node; from the root down, a stack of what is still to be made.
    let mut rows = vec![Row::default(); n];
    let mut todo = vec![(n, n)];
    let mut at = n;
    // Post-order backwards: a node, then its later child's nodes, then the earlier's.
    while let Some((nodes, parent)) = todo.pop() {
        at -= 1;
        rows[at] = row(at, parent, chance.size());
        let below = nodes - 1;
        if below == 1 {
            todo.push((1, at));
        } else if below > 1 {
            let one = 1 + chance.below(below as u64 - 1) as usize;
            todo.push((one, at));
            todo.push((below - one, at));
        }
    }
    Problem { rows }
}

fn dag(chance: &mut Chance, n: usize) -> Problem {
    let mut last: Vec<usize> = (0..n).collect();
    for step in 1..n {
        for _ in 0..1 + chance.below(3) {
            let back = 1 + (-10.0 * chance.unit().ln()) as usize;
            let value = step.saturating_sub(back);
            last[value] = last[value].max(step);
        }
    }
    let rows = last.into_iter().enumerate().map(|(i, last)| row(i, last, chance.size()));
    Problem { rows: rows.collect() }
}

fn transformer(chance: &mut Chance, n: usize) -> Problem {
    let tokens = [16, 50, 64, 128, 197][chance.below(5) as usize];
    let width = [32, 48, 64, 96, 128][chance.below(5) as usize];
    let heads = [1, 2, 4][chance.below(3) as usize];
    let hidden = width * [2, 3, 4][chance.below(3) as usize];
    let backward = chance.below(2) == 0;
    let x = 4 * tokens * width;
    let scores = 4 * heads * tokens * tokens;
    // Size of each value of a layer, and the values of it that are read by each; -1 is its input.
    let layer: [(u64, &[i64]); 12] = [
        (x, &[-1]),                  // 0 norm
        (x, &[0]),                   // 1 query
        (x, &[0]),                   // 2 key
        (x, &[0]),                   // 3 value
        (scores, &[1, 2]),           // 4 scores
        (scores, &[4]),              // 5 softmax
        (x, &[3, 5]),                // 6 context
        (x, &[6, -1]),               // 7 projection and residual
        (4 * tokens, &[7]),          // 8 mean
        (x, &[7, 8]),                // 9 norm
        (4 * tokens * hidden, &[9]), // 10 feed forward
        (x, &[10, 7]),               // 11 and residual
    ];
    let per_layer = if backward { 24 } else { 12 };
    let layers = (n / per_layer).max(1);
    let mut rows = vec![row(0, 0, x)];
    let mut inputs = Vec::new();
    for _ in 0..layers {
        let input = rows.len() - 1;
        inputs.push(input);
        let first = rows.len();
        for (i, (size, reads)) in layer.iter().enumerate() {
            rows.push(row(first + i, 0, *size));
            for &r in *reads {
                let value = if r < 0 { input } else { first + r as usize };
                rows[value].upper = (first + i) as u64 + 1;
            }
        }
    }
    if backward {
        for &input in inputs.iter().rev() {
            let first = input + 1;
            for (i, (size, reads)) in layer.iter().enumerate().rev() {
                let step = rows.len();
                // The gradient of value `i` reads the last gradient and what the value was made from.
                rows.push(row(step, step + 1, *size));
                if matches!(i, 0 | 4 | 5 | 6 | 9 | 10) {
                    for &r in *reads {
                        let value = if r < 0 { input } else { first + r as usize };
                        rows[value].upper = step as u64 + 1;
                    }
                }
                if i == 11 {
                    // It goes round the feed-forward part.
                    rows[step].upper = step as u64 + 5;
                }
            }
        }
    }
    for row in &mut rows {
        row.size = row.size.next_multiple_of(64);
    }
    Problem { rows }
}

fn tile(chance: &mut Chance, n: usize) -> Problem {
    let unit = 64 * [1, 2, 5, 8][chance.below(4) as usize];
    let mut rows = Vec::new();
    let mut round = 0;
    while rows.len() < n {
        let start = 10 * round;
        for _ in 0..4 + chance.below(12) {
            let from = start + chance.below(8);
            let rounds =
                if chance.below(6) == 0 { 4 + chance.below(17) } else { 1 + chance.below(3) };
            let side = |chance: &mut Chance| [1, 2, 3, 4, 6, 8, 5][chance.below(7) as usize];
            let size = unit * side(chance) * side(chance);
            let row = Row { lower: from, size, alignment: 64, ..Row::default() };
            rows.push(Row { upper: from + 10 * rounds + chance.below(5), ..row });
        }
        round += 1;
    }
    rows.truncate(n);
    Problem { rows }
}
