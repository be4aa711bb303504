//! Random numbers by explicit keys, equal to JAX's, bit by bit.
//!
//! A key is a `ui32` array of shape `[2]`. The generator is threefry-2x32 (Salmon et al., "Parallel
//! random numbers: as easy as 1, 2, 3", 2011), used as JAX uses it by default
//! (`jax_threefry_partitionable`): the bits of an element depend on the key and its position alone.
//! Functions of floats are computed by the same formulas as JAX's, so that their values agree to
//! rounding.
//!
//! ```
//! use jaxrs::{prelude::*, random};
//! let key = random::key(0);
//! let [a, b] = random::split(&key);
//! let x = random::normal(&a, [2, 3]);
//! let y = random::uniform(&b, [3]);
//! assert_eq!((x.shape(), y.shape()), (&[2, 3][..], &[3][..]));
//! # x.ok()?; y.ok()?;
//! # Ok::<(), jaxrs::Error>(())
//! ```

mod bits;
mod distributions;
mod integers;

pub use distributions::{
    bernoulli, categorical, cauchy, exponential, gumbel, laplace, logistic, normal, normal_of,
    rademacher, truncated_normal, uniform, uniform_of,
};
pub use integers::{choice, permutation, permutation_of, randint};

use crate::array::{Array, IntoShape, Operand};
use crate::error::Place;
use crate::trace;
use jaxrs_ir::DType;

/// The key of a seed, an integer of up to 64 bits.
#[track_caller]
pub fn key(seed: impl Into<Operand>) -> Array {
    let place = Place::here();
    let seed = seed.into().into_array(DType::I64, place);
    trace::one(&[&seed], place, |b, seed| {
        let seed = b.convert(seed[0], DType::U64)?;
        let shift = b.full_like(seed, 32.0)?;
        let high = b.elementwise("stablehlo.shift_right_logical", &[seed, shift])?;
        let low = bits::low_word(b, seed)?;
        let high = b.convert(high, DType::U32)?;
        bits::pair(b, high, low)
    })
}

/// `N` new keys of a key, which is not to be used again.
#[track_caller]
pub fn split<const N: usize>(key: &Array) -> [Array; N] {
    let place = Place::here();
    let keys = trace::record(&[key], N, place, |b, key| {
        let keys = bits::split(b, key[0], &[N as u64])?;
        let mut each = Vec::with_capacity(N);
        for n in 0..N as u64 {
            let one = b.slice_axis(keys, 0, n, n + 1)?;
            each.push(b.reshape(one, &[2])?);
        }
        Ok(each)
    });
    keys.try_into().unwrap_or_else(|_| unreachable!("as many as asked for"))
}

/// New keys of a key in one array, of shape `shape ++ [2]`.
#[track_caller]
pub fn split_many(key: &Array, shape: impl IntoShape) -> Array {
    let shape = shape.into_shape();
    trace::one(&[key], Place::here(), |b, key| bits::split(b, key[0], &shape))
}

/// A new key of a key and an integer.
#[track_caller]
pub fn fold_in(key: &Array, data: impl Into<Operand>) -> Array {
    let place = Place::here();
    let data = data.into().into_array(DType::U32, place);
    trace::one(&[key, &data], place, |b, values| {
        let data = b.convert(values[1], DType::U32)?;
        let zero = b.full_like(data, 0.0)?;
        let (first, second) = bits::words(b, values[0])?;
        let (high, low) = bits::threefry(b, [first, second], [zero, data])?;
        bits::pair(b, high, low)
    })
}

/// Random bits: integers of an unsigned type, all equally likely.
#[track_caller]
pub fn bits(key: &Array, shape: impl IntoShape, dtype: DType) -> Array {
    let shape = shape.into_shape();
    trace::one(&[key], Place::here(), |b, key| bits::random(b, key[0], &shape, dtype))
}
