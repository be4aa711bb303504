//! A donated argument is moved into the call.

use jaxrs::prelude::*;

#[jit(donate = [state])]
fn step(state: Array, by: &Array) -> Array {
    state + by
}

fn main() -> jaxrs::Result<()> {
    let (state, by) = (Array::zeros([4]), Array::ones([4]));
    let next = step(state, &by)?;
    println!("{} {}", state, next);
    Ok(())
}
