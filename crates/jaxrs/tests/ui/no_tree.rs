//! Arguments are trees of arrays.

use jaxrs::prelude::*;

struct Model {
    weight: Array,
}

#[jit]
fn apply(model: &Model, x: &Array) -> Array {
    x.dot(&model.weight)
}

fn main() {}
