//! The heat equation on a plate whose edges are held at fixed temperatures, with a donated state:
//! a thousand steps a call, in one program, in place.
//!
//! `cargo run --release --example heat`

use jaxrs::prelude::*;

const SIDE: u64 = 128;

#[jit(donate = [plate], static = [steps])]
fn diffuse(plate: Array, steps: i32) -> Array {
    let step = |_: &Array, t: &Array| {
        let inside = t.slice(i![1..-1, 1..-1]);
        let around = t.slice(i![..-2, 1..-1])
            + t.slice(i![2.., 1..-1])
            + t.slice(i![1..-1, ..-2])
            + t.slice(i![1..-1, 2..]);
        t.at(i![1..-1, 1..-1]).set(&inside + 0.2 * (around - 4 * &inside))
    };
    fori_loop(0..steps, step, &plate)
}

fn main() -> jaxrs::Result<()> {
    // Hot above, cold elsewhere.
    let mut plate = Array::zeros([SIDE, SIDE]).at(i![0]).set(100.0);
    let mut middle = 0.0;
    for round in 0..=10 {
        middle = plate.slice(i![SIDE as i64 / 2, SIDE as i64 / 2]).item::<f32>()?;
        println!("after {:5} steps the middle has {middle:6.3} degrees", 1000 * round);
        plate = diffuse(plate, 1000)?;
    }
    // By symmetry it ends at the mean of the four edges.
    assert!((20.0..25.5).contains(&middle));
    Ok(())
}
