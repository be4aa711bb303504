//! A line through noisy points, by gradient descent: the smallest whole program.
//!
//! `cargo run --release --example linear_regression`

use jaxrs::{prelude::*, random};

#[derive(Tree)]
struct Line {
    slope: Array,
    offset: Array,
}

fn loss(line: &Line, x: &Array, y: &Array) -> Array {
    (&line.slope * x + &line.offset - y).square().mean(..)
}

// The line is donated: its memory becomes that of the next line.
#[jit(donate = [line])]
fn step(line: Line, x: &Array, y: &Array, rate: Scalar<f32>) -> (Line, Array) {
    let (loss, slopes) = value_and_grad(|line: &Line| loss(line, x, y))(&line);
    (line.zip_map(&slopes, |p, g| p - &*rate * g), loss)
}

fn main() -> jaxrs::Result<()> {
    let [a, b] = random::split(&random::key(0));
    let x = random::uniform(&a, [1000]);
    let y = 3.0 * &x - 1.0 + 0.1 * random::normal(&b, [1000]);

    let mut line = Line { slope: Array::scalar(0.0f32), offset: Array::scalar(0.0f32) };
    for round in 0..=500 {
        let (next, loss) = step(line, &x, &y, 0.5)?;
        line = next;
        if round % 100 == 0 {
            println!("{round:4}  loss {:.5}", loss.item::<f32>()?);
        }
    }
    let (slope, offset) = (line.slope.item::<f32>()?, line.offset.item::<f32>()?);
    println!("y = {slope:.3} x {offset:+.3}");
    assert!((slope - 3.0).abs() < 0.05 && (offset + 1.0).abs() < 0.05);
    Ok(())
}
