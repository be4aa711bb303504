//! A number is traced or static.

use jaxrs::prelude::*;

#[jit]
fn scale(x: &Array, by: f32) -> Array {
    x * by
}

fn main() {}
