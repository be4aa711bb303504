//! Code is kept for one function, not for a family of them.

use jaxrs::prelude::*;

#[jit]
fn norm<T: Tree>(tree: &T) -> Array {
    tree.leaves().iter().fold(Array::scalar(0.0f32), |sum, leaf| sum + leaf.square().sum(..))
}

fn main() {}
