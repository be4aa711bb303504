//! A decoder that keeps keys and values of past positions in a cache. The cache is donated: each
//! step writes one position in place, and its address does not change.
//!
//! `cargo run --release --example kv_cache`

use jaxrs::{prelude::*, random};

const WIDTH: u64 = 128;
const HEADS: u64 = 8;
const LENGTH: u64 = 512;
const LETTERS: u64 = 256;

#[derive(Tree)]
struct Decoder {
    embedding: Array,
    qkv: Array,
    out: Array,
}

#[derive(Tree)]
struct Cache {
    keys: Array,
    values: Array,
    filled: Array,
}

#[jit(donate = [cache])]
fn step(cache: Cache, model: &Decoder, letter: &Array) -> (Cache, Array) {
    let x = model.embedding.take(letter, 0);
    let parts = x.dot(&model.qkv).split(3, 0);
    let [q, k, v] = [0, 1, 2].map(|n: usize| parts[n].reshape([HEADS, WIDTH / HEADS]));
    let at = &cache.filled;
    let keys = cache.keys.at(i![at]).set(k);
    let values = cache.values.at(i![at]).set(v);

    let scores = Array::einsum("hd,thd->ht", [&q, &keys]) / ((WIDTH / HEADS) as f64).sqrt();
    let known = Array::arange(LENGTH).le(at);
    let weights = nn::softmax(&known.where_(scores, -1e9), -1);
    let mixed = Array::einsum("ht,thd->hd", [&weights, &values]).ravel();
    let logits = (x + mixed.dot(&model.out)).dot(&model.embedding.t());
    (Cache { keys, values, filled: at + 1 }, logits.argmax(-1))
}

fn main() -> jaxrs::Result<()> {
    let [a, b, c] = random::split(&random::key(3));
    let model = Decoder {
        embedding: random::normal(&a, [LETTERS, WIDTH]) * 0.1,
        qkv: random::normal(&b, [WIDTH, 3 * WIDTH]) / (WIDTH as f64).sqrt(),
        out: random::normal(&c, [WIDTH, WIDTH]) / (WIDTH as f64).sqrt(),
    };
    let shape = [LENGTH, HEADS, WIDTH / HEADS];
    let mut cache = Cache {
        keys: Array::zeros(shape),
        values: Array::zeros(shape),
        filled: Array::scalar(0i32),
    };
    let address = cache.keys.address();
    let mut letter = Array::scalar(1i32);
    let mut said = Vec::new();
    for _ in 0..64 {
        (cache, letter) = step(cache, &model, &letter)?;
        said.push(letter.item::<i32>()?);
    }
    println!("{said:?}");
    println!("{}", step::lower(&cache, &model, &letter)?.compile()?.memory_plan());
    assert_eq!(cache.keys.address(), address, "the cache stays where it is");
    assert_eq!(cache.filled.item::<i32>()?, 64);
    Ok(())
}
