//! A character-level transformer that learns a paragraph by heart, trained by Adam.
//!
//! `cargo run --release --example transformer`

use jaxrs::{prelude::*, random};
use std::time::Instant;

const TEXT: &str = "It is a truth universally acknowledged, that a single man in possession of a good \
    fortune, must be in want of a wife. However little known the feelings or views of such a man may \
    be on his first entering a neighbourhood, this truth is so well fixed in the minds of the \
    surrounding families, that he is considered as the rightful property of some one or other of \
    their daughters.";

const WIDTH: u64 = 64;
const HEADS: u64 = 4;
const LENGTH: u64 = 64;

#[derive(Tree)]
struct Block {
    qkv: Array,
    out: Array,
    up: Array,
    down: Array,
    norms: [Array; 2],
}

#[derive(Tree)]
struct Model {
    embedding: Array,
    positions: Array,
    blocks: Vec<Block>,
    norm: Array,
}

/// Adam's state beside the model.
#[derive(Tree)]
struct Training {
    model: Model,
    mean: Model,
    square: Model,
    count: Array,
}

fn norm(x: &Array, scale: &Array) -> Array {
    nn::standardize(x, -1, 1e-5) * scale
}

impl Block {
    fn new(key: &Array) -> Block {
        let [a, b, c, d] = random::split(key);
        let matrix = |key: &Array, from: u64, to: u64| {
            random::normal(key, [from, to]) / (from as f64).sqrt()
        };
        Block {
            qkv: matrix(&a, WIDTH, 3 * WIDTH),
            out: matrix(&b, WIDTH, WIDTH),
            up: matrix(&c, WIDTH, 4 * WIDTH),
            down: matrix(&d, 4 * WIDTH, WIDTH),
            norms: [Array::ones([WIDTH]), Array::ones([WIDTH])],
        }
    }

    /// `x` is `[batch, length, width]`.
    fn apply(&self, x: &Array) -> Array {
        let (batch, length) = (x.shape()[0], x.shape()[1]);
        let heads =
            |x: Array| x.reshape([batch, length, HEADS, WIDTH / HEADS]).transpose([0, 2, 1, 3]);
        let parts = norm(x, &self.norms[0]).dot(&self.qkv).split(3, -1);
        let [q, k, v] = [0, 1, 2].map(|n: usize| heads(parts[n].clone()));
        let scores = q.matmul(&k.swap_axes(-1, -2)) / ((WIDTH / HEADS) as f64).sqrt();
        let past = Array::tri(length, length, 0);
        let weights = nn::softmax(&past.gt(0).where_(scores, -1e9), -1);
        let mixed = weights.matmul(&v).transpose([0, 2, 1, 3]).reshape([batch, length, WIDTH]);
        let x = x + mixed.dot(&self.out);
        &x + nn::gelu(&norm(&x, &self.norms[1]).dot(&self.up)).dot(&self.down)
    }
}

impl Model {
    fn new(key: &Array, letters: u64) -> Model {
        let [a, b, c, d] = random::split(key);
        Model {
            embedding: 0.1 * random::normal(&a, [letters, WIDTH]),
            positions: 0.1 * random::normal(&b, [LENGTH, WIDTH]),
            blocks: vec![Block::new(&c), Block::new(&d)],
            norm: Array::ones([WIDTH]),
        }
    }

    fn logits(&self, letters: &Array) -> Array {
        let x = self.embedding.take(letters, 0) + &self.positions;
        let x = self.blocks.iter().fold(x, |x, block| block.apply(&x));
        norm(&x, &self.norm).dot(&self.embedding.t())
    }
}

fn loss(model: &Model, letters: &Array, next: &Array) -> Array {
    nn::cross_entropy(&model.logits(letters), next)
}

#[jit(donate = [state])]
fn step(state: Training, letters: &Array, next: &Array, rate: Scalar<f32>) -> (Training, Array) {
    let (loss, slopes) = value_and_grad(|model: &Model| loss(model, letters, next))(&state.model);
    let count = &state.count + 1;
    let mean = state.mean.zip_map(&slopes, |m, g| 0.9 * m + 0.1 * g);
    let square = state.square.zip_map(&slopes, |v, g| 0.99 * v + 0.01 * g.square());
    let (first, second) = (1.0 - (0.9f64.ln() * &count).exp(), 1.0 - (0.99f64.ln() * &count).exp());
    let moves = mean.zip_map(&square, |m, v| (m / &first) / ((v / &second).sqrt() + 1e-8));
    let model = state.model.zip_map(&moves, |p, d| p - &*rate * d);
    (Training { model, mean, square, count }, loss)
}

fn main() -> jaxrs::Result<()> {
    let mut alphabet: Vec<char> = TEXT.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let code =
        |c: char| alphabet.iter().position(|&a| a == c).expect("a letter of the text") as i32;
    let codes: Vec<i32> = TEXT.chars().map(code).collect();

    // Every window of the text that begins at a multiple of 21, and the letters after its own.
    let starts = (0..codes.len() - LENGTH as usize).step_by(21);
    let windows = |shift: usize| {
        let rows: Vec<i32> = starts
            .clone()
            .flat_map(|start| codes[start + shift..][..LENGTH as usize].to_vec())
            .collect();
        Array::from_slice(&rows, [rows.len() as u64 / LENGTH, LENGTH])
    };
    let (letters, next) = (windows(0), windows(1));

    let model = Model::new(&random::key(0), alphabet.len() as u64);
    let (mean, square) = (model.map(Array::zeros_like), model.map(Array::zeros_like));
    let mut state = Training { model, mean, square, count: Array::scalar(0.0f32) };
    let mut last = f32::INFINITY;
    let begin = Instant::now();
    for round in 0..=120 {
        let (trained, loss) = step(state, &letters, &next, 3e-3)?;
        state = trained;
        if round % 20 == 0 {
            last = loss.item()?;
            println!("{round:4}  loss {last:.4}  {:.1} s", begin.elapsed().as_secs_f32());
        }
    }
    assert!(last < 0.3, "the text is not learnt: {last}");

    let guess = jit(|(model, letters): &(Model, Array)| model.logits(letters).argmax(-1));
    let arguments = (state.model, letters);
    let read: Vec<i32> = guess(&arguments)?.to_vec()?;
    let text: String = read[..LENGTH as usize].iter().map(|&c| alphabet[c as usize]).collect();
    println!("{text}");
    Ok(())
}
