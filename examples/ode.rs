//! A Runge-Kutta solver with `scan`, and the gradient through it: how hard must a ball be thrown,
//! against the drag of the air, to hit a target?
//!
//! `cargo run --release --example ode`

use jaxrs::prelude::*;

const STEPS: u64 = 200;

/// The rate of change of place and speed, as `[x, y, vx, vy]`.
fn motion(state: &Array) -> Array {
    let parts = state.split(2, 0);
    let speed = &parts[1];
    let drag = -0.05 * speed * speed.square().sum(..).sqrt();
    Array::concatenate([speed.clone(), drag + Array::from_vec(vec![0.0f32, -9.81])], 0)
}

/// Where the ball is after `time`, and its way there.
fn fly(throw: &Array, time: f64) -> (Array, Array) {
    let dt = time / STEPS as f64;
    let step = |state: &Array, _: &Array| {
        let k1 = motion(state);
        let k2 = motion(&(state + &k1 * (dt / 2.0)));
        let k3 = motion(&(state + &k2 * (dt / 2.0)));
        let k4 = motion(&(state + &k3 * dt));
        let next = state + (k1 + 2 * k2 + 2 * k3 + k4) * (dt / 6.0);
        let place = next.slice(i![..2]);
        (next, place)
    };
    let start = Array::concatenate([Array::zeros([2]), throw.clone()], 0);
    scan(step, &start, &Array::arange(STEPS))
}

#[jit]
fn improve(throw: &Array, target: &Array) -> (Array, Array) {
    let miss = |throw: &Array| (fly(throw, 2.0).0.slice(i![..2]) - target).square().sum(..);
    let (miss, slope) = value_and_grad(miss)(throw);
    (throw - 0.1 * slope, miss)
}

fn main() -> jaxrs::Result<()> {
    let target = Array::from_vec(vec![10.0f32, 0.0]);
    let mut throw = Array::from_vec(vec![4.0f32, 8.0]);
    let mut miss = f32::INFINITY;
    for round in 0..=40 {
        let (next, square) = improve(&throw, &target)?;
        throw = next;
        miss = square.item::<f32>()?.sqrt();
        if round % 10 == 0 {
            println!("{round:3}  misses by {miss:.4}");
        }
    }
    println!("throw with {throw}");
    assert!(miss < 0.01);
    Ok(())
}
