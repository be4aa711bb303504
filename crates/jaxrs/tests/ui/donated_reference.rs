//! What is donated is taken by value.

use jaxrs::prelude::*;

#[jit(donate = [state])]
fn step(state: &Array, by: &Array) -> Array {
    state + by
}

fn main() {}
