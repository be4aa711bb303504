//! A Kalman filter over noisy places of a moving body, with `scan`; and `vmap` of it over many
//! bodies at once.
//!
//! `cargo run --release --example kalman`

use jaxrs::{prelude::*, random};

const TIMES: u64 = 100;

/// Estimates of place and speed, `[TIMES, 2]`, from measured places, `[TIMES]`.
fn filter(measured: &Array) -> Array {
    let motion = Array::from_slice(&[1.0f32, 1.0, 0.0, 1.0], [2, 2]);
    let noise = 1e-3 * Array::identity(2);
    let seen = Array::from_slice(&[1.0f32, 0.0], [1, 2]);
    let step = |(mean, spread): &(Array, Array), place: &Array| {
        let mean = motion.dot(mean);
        let spread = motion.dot(spread).dot(&motion.t()) + &noise;
        let gain = spread.dot(&seen.t()) / (seen.dot(&spread).dot(&seen.t()) + 1.0);
        let mean = &mean + gain.ravel() * (place - mean.slice(i![0]));
        let spread = &spread - gain.dot(&seen).dot(&spread);
        ((mean.clone(), spread), mean)
    };
    let start = (Array::zeros([2]), 10.0 * Array::identity(2));
    scan(step, &start, measured).1
}

/// The way of a body with a random speed, and what is measured of it.
fn body(key: &Array) -> (Array, Array) {
    let [a, b] = random::split(key);
    let way = random::normal(&a, []) * Array::arange(TIMES);
    let measured = &way + random::normal(&b, [TIMES]);
    (way, measured)
}

#[jit]
fn errors(key: &Array) -> (Array, Array) {
    let (ways, measured) = vmap(body)(&random::split_many(key, 200));
    let places = vmap(filter)(&measured).slice(i![.., .., 0]);
    let error = |x: &Array| (x - &ways).slice(i![.., 50..]).square().mean(..).sqrt();
    (error(&measured), error(&places))
}

fn main() -> jaxrs::Result<()> {
    let (measured, filtered) = errors(&random::key(4))?;
    let (measured, filtered) = (measured.item::<f32>()?, filtered.item::<f32>()?);
    println!("error of the measurements {measured:.3}, of the filter {filtered:.3}");
    assert!(filtered < measured / 2.0);
    Ok(())
}
