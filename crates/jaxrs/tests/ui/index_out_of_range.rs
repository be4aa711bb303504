//! Arguments are numbered from 0.

use jaxrs::prelude::*;

#[jit(donate = [2])]
fn step(state: Array, by: &Array) -> Array {
    state + by
}

fn main() {}
