//! Linear algebra and Fourier transforms.

use jaxrs::prelude::*;
use jaxrs::{fft, linalg};

fn mix(y: &Array) -> Array {
    (y.sin() * y).sum(..)
}

crate::cases! {
    [a, spd, batch, tall, v, b, x, c]

    "cholesky" => linalg::cholesky(spd);
    // The signs of factors are free.
    "qr" => {
        let (q, r) = linalg::qr(tall);
        (q.abs(), r.abs())
    };
    "svd" => {
        let (u, s, v) = linalg::svd(tall);
        (u.abs(), s, v.abs())
    };
    "svdvals" => linalg::svdvals(tall);
    "eigh" => {
        let (values, vectors) = linalg::eigh(spd);
        (values, vectors.abs())
    };
    "solve" => linalg::solve(a, b);
    "solve_vector" => linalg::solve(a, v);
    "solve_batch" => linalg::solve(batch, &(batch * 2 + 1));
    "triangular_solve" => [true, false].map(|lower| linalg::triangular_solve(spd, b, lower));
    "inv" => linalg::inv(batch);
    "det" => (linalg::det(a), linalg::det(batch));
    "slogdet" => linalg::slogdet(a);
    "fft" => (fft::fft(x, -1), fft::fft(c, 0));
    "ifft" => fft::ifft(c, -1);
    "rfft" => (fft::rfft(x, -1), fft::rfft(x, 0));
    "irfft" => (fft::irfft(c, 8, -1), fft::irfft(c, 9, -1));
    "fft2" => fft::ifft2(&(fft::fft2(x) * 2));
    "fftfreq" => (fft::fftfreq(5, 0.5), fft::fftfreq(6, 1.0));
    "grad_cholesky" => grad(|a: &Array| mix(&linalg::cholesky(a)))(spd);
    "grad_solve" => {
        let slopes = grad(|(a, b): &(Array, Array)| mix(&linalg::solve(a, b)));
        slopes(&(a.clone(), b.clone()))
    };
    "grad_inv" => grad(|a: &Array| mix(&linalg::inv(a)))(batch);
    "grad_det" => grad(|a: &Array| mix(&linalg::det(a)))(a);
    "grad_slogdet" => grad(|a: &Array| mix(&linalg::slogdet(a).1))(a);
    "grad_svdvals" => grad(|a: &Array| mix(&linalg::svdvals(a)))(tall);
    "grad_eigh" => grad(|a: &Array| mix(&linalg::eigh(a).0))(spd);
    "grad_fft" => grad(|x: &Array| mix(&fft::rfft(x, -1).abs()))(x);
    "vmap_solve" => vmap(|a: &Array| linalg::solve(a, &Array::ones([2])))(batch);
}
