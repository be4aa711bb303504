//! Random numbers: bits exactly, floats within rounding.

use jaxrs::prelude::*;
use jaxrs::random;

fn key() -> Array {
    random::key(7)
}

crate::cases! {
    [v, logits, words]

    "key_zero" => random::key(0);
    "key_small" => random::key(42);
    "key_large" => random::key((1i64 << 40) + 17);
    "key_negative" => random::key(-3);
    "split_2" => random::split_many(&key(), 2);
    "split_5" => Array::stack(random::split::<5>(&key()), 0);
    "split_shape" => random::split_many(&key(), [2, 3]);
    "fold_in" => [0, 1, 123_456].map(|n| random::fold_in(&key(), n));
    "bits_32" => random::bits(&key(), [3, 5], DType::U32);
    "bits_scalar" => random::bits(&key(), [], DType::U32);
    "bits_8" => random::bits(&key(), 7, DType::U8);
    "bits_16" => random::bits(&key(), [2, 4], DType::U16);
    "bits_64" => random::bits(&key(), [2, 3], DType::U64);
    "bits_empty" => random::bits(&key(), [0, 3], DType::U32);
    "bits_vmap" =>
        vmap(|key: &Array| random::bits(key, 3, DType::U32))(&random::split_many(&key(), 4));
    "uniform" => random::uniform(&key(), [2, 5]);
    "uniform_between" => random::uniform_of(&key(), 4, -2.0, 3.0, DType::F32);
    "uniform_f64" => random::uniform_of(&key(), 4, 0.0, 1.0, DType::F64);
    "uniform_f16" => random::uniform_of(&key(), 9, 0.0, 1.0, DType::F16);
    "uniform_bf16" => random::uniform_of(&key(), 9, 0.0, 1.0, DType::BF16).astype(DType::F32);
    "normal" => random::normal(&key(), [3, 4]);
    "normal_f64" => random::normal_of(&key(), 5, DType::F64);
    "normal_complex" => random::normal_of(&key(), 4, DType::C64);
    "truncated_normal" => random::truncated_normal(&key(), -1.0, 2.0, 7);
    "bernoulli" => random::bernoulli(&key(), 0.3, 10);
    "gumbel" => random::gumbel(&key(), 5);
    "exponential" => random::exponential(&key(), 5);
    "laplace" => random::laplace(&key(), 5);
    "logistic" => random::logistic(&key(), 5);
    "cauchy" => random::cauchy(&key(), 5);
    "rademacher" => random::rademacher(&key(), 9);
    "categorical" => random::categorical(&key(), logits, -1);
    "categorical_axis" => random::categorical(&key(), logits, 0);
    "randint" => random::randint(&key(), [3, 4], -5, 17);
    "randint_wide" => random::randint(&key(), 6, -2_000_000_000, 2_000_000_000);
    "randint_empty" => random::randint(&key(), 3, 4, 4);
    "permutation" => random::permutation(&key(), v);
    "permutation_n" => random::permutation_of(&key(), 13);
    "permutation_rows" => random::permutation(&key(), words);
    "choice" => random::choice(&key(), v, 4, false);
}
