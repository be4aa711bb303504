//! Gradients, of `sum(sin(f) * f)` unless a case says otherwise, so that cotangents differ.

use super::products::strided;
use jaxrs::array::{Conv, PadMode, Padding};
use jaxrs::prelude::*;

fn mix(results: &impl Tree) -> Array {
    let sums = results.leaves().into_iter().map(|y| (y.sin() * y).sum(..));
    sums.reduce(|x, y| x + y).expect("there are results")
}

fn by1<R: Tree>(f: impl Fn(&Array) -> R, x: &Array) -> Array {
    grad(|x: &Array| mix(&f(x)))(x)
}

fn by2<R: Tree>(f: impl Fn(&Array, &Array) -> R, x: &Array, y: &Array) -> (Array, Array) {
    grad(|(x, y): &(Array, Array)| mix(&f(x, y)))(&(x.clone(), y.clone()))
}

fn by3<R: Tree>(f: impl Fn(&Array, &Array, &Array) -> R, x: [&Array; 3]) -> [Array; 3] {
    grad(|[x, y, z]: &[Array; 3]| mix(&f(x, y, z)))(&x.map(Array::clone))
}

crate::cases! {
    [x, y, w, a, b, s, x234, y243, positive, ties, at, at2, logits, image, kernel, nchw, grouped]

    "grad_exp" => by1(Array::exp, x);
    "grad_sin" => by1(Array::sin, x);
    "grad_tanh" => by1(Array::tanh, x);
    "grad_arctan" => by1(Array::atan, x);
    "grad_sinh" => by1(Array::sinh, x);
    "grad_square" => by1(Array::square, x);
    "grad_abs" => by1(Array::abs, x);
    "grad_exp2" => by1(Array::exp2, x);
    "grad_sinc" => by1(Array::sinc, x);
    "grad_log" => by1(Array::log, positive);
    "grad_sqrt" => by1(Array::sqrt, positive);
    "grad_cbrt" => by1(Array::cbrt, positive);
    "grad_log1p" => by1(Array::log1p, positive);
    "grad_reciprocal" => by1(Array::reciprocal, positive);
    "grad_erf" => by1(|x| (x.erf(), x.erfc()), x);
    "grad_gamma" => by1(|x| (x.lgamma(), x.digamma()), positive);
    "grad_pow" => by2(|x, y| x.pow(y), positive, y);
    "grad_pow_integers" => by1(|x| [3, -2, 1, 0].map(|n| x.pow(n)), x);
    "grad_atan2" => by2(|x, y| x.atan2(y), x, y);
    "grad_hypot" => by2(|x, y| x.hypot(y), x, y);
    "grad_logaddexp" => by2(|x, y| x.logaddexp(y), x, y);
    "grad_maximum" => by2(|x, y| (x.maximum(y), x.minimum(0.1)), x, y);
    "grad_clip" => by1(|x| x.clip(-0.5, 0.5), x);
    "grad_broadcast" => by2(|x, w| x * w + w / x, x, w);
    "grad_divide" => by2(|x, y| (x / y, x % y), x, y);
    "grad_sum" => by1(|x| (x.sum(0), x.mean(keep([0, 2]))), x234);
    "grad_prod" => by1(|x| (x.prod(1), x.cumprod(1)), x234);
    "grad_max" => by1(|x| (x.max(1), x.min(..)), x234);
    "grad_max_ties" => by1(|x| x.max(1), ties);
    "grad_var" => by1(|x| (x.var(1), x.std(0)), x234);
    "grad_norm" => by1(|x| x.norm(-1), x234);
    "grad_logsumexp" => by1(|x| x.logsumexp(-1), logits);
    "grad_cumsum" => by1(|x| (x.cumsum(1), x.cummax(2), x.cumlogsumexp(1)), x234);
    "grad_sort" => by1(|x| (x.sort(1), x.top_k(2).0, x.median(1)), x234);
    "grad_shapes" => by2(|x, y| [
        Array::concatenate([x, y], 0), Array::stack([x, y], 1), x.roll(1, 1), y.flip(0),
        x.tile([2, 2]), y.repeat(2, 1),
    ], x, y);
    "grad_pad" => by1(|x| [PadMode::Constant(0.into()), PadMode::Edge, PadMode::Reflect]
        .map(|mode| x.pad(&[(1, 1)], mode)), x);
    "grad_index" => by1(|x| [
        x.slice(i![0]), x.slice(i![.., ..;-1]), x.slice(i![..., 1..3]),
        x.slice(i![.., NewAxis, 0, ..;2]),
    ], x234);
    "grad_index_arrays" => by1(|x| [
        x.slice(i![.., at.slice(i![..3])]), x.slice(i![at2, .., at2]), x.slice(i![at2.slice(i![0, 0])]),
    ], x234);
    "grad_take" => grad(|x: &Array| {
        x.slice(i![.., at]).pow(3).sum(..)
            + (x.take_along_axis(&x.argsort(1), 1) * Array::arange_by(0.0, 4.0, 1.0)).sum(..)
    })(x234);
    "grad_set" => by2(|x, w| [
        x.at(i![0]).set(w), x.at(i![.., 1..]).add(w.slice(i![0])), x.at(i![1, 1]).multiply(3),
        x.at(i![..;2]).set(1),
    ], x, w);
    "grad_set_arrays" => by2(|x, w| [
        x.at(i![.., at.slice(i![..2])]).add(w.slice(i![..2])),
        x.at(i![1, at.slice(i![..3])]).set(w),
    ], x, w);
    "grad_where" => by2(|x, y| x.gt(y).where_(x * 2, y), x, y);
    "grad_matmul" => by2(|a, b| [
        a.matmul(b), a.matmul(&b.slice(i![.., 0])), a.slice(i![0]).matmul(b),
    ], a, b);
    "grad_matmul_batched" => by3(|x, y, a| [
        x.matmul(y), x.matmul(&a.t()), a.matmul(y),
    ], [x234, y243, a]);
    "grad_einsum" => by3(|x, a, s| [
        Array::einsum("bij,kj,kl->bil", [x, a, s]), Array::einsum("ii->i", [s]),
        Array::einsum("bij,bij->b", [x, x]),
    ], [x234, a, s]);
    "grad_conv" => by2(|x, k| x.conv(k, &strided([2, 1], Padding::Same)), image, kernel);
    "grad_conv_grouped" => by2(|x, k| x.conv(k, &Conv {
        strides: vec![1, 2],
        padding: Padding::Explicit(vec![(1, 0), (2, 1)]),
        kernel_dilation: vec![1, 2],
        feature_groups: 2,
        ..Conv::default()
    }), nchw, grouped);
    "grad_pool" => by1(|x| [
        nn::max_pool(x, [2, 2], [2, 1], Padding::Same),
        nn::avg_pool(x, [3, 2], [1, 1], Padding::Valid),
    ], image);
    "grad_relu" => by1(nn::relu, x234);
    "grad_relu6" => by1(nn::relu6, x234);
    "grad_gelu" => by1(nn::gelu, x234);
    "grad_silu" => by1(nn::silu, x234);
    "grad_elu" => by1(|x| nn::elu(x, 1.0), x234);
    "grad_softplus" => by1(nn::softplus, x234);
    "grad_log_sigmoid" => by1(nn::log_sigmoid, x234);
    "grad_leaky_relu" => by1(|x| nn::leaky_relu(x, 0.01), x234);
    "grad_selu" => by1(nn::selu, x234);
    "grad_celu" => by1(|x| nn::celu(x, 1.0), x234);
    "grad_mish" => by1(nn::mish, x234);
    "grad_softmax" => by1(|x| (nn::softmax(x, -1), nn::log_softmax(x, 0)), logits);
    "grad_standardize" => by1(|x| nn::standardize(x, -1, 1e-5), x234);
    "grad_of_grad" => {
        fn twice(f: impl Fn(&Array) -> Array, x: &Array) -> Array {
            grad(|x: &Array| grad(&f)(x).square().sum(..))(x)
        }
        (
            twice(|x| nn::softmax(x, -1).slice(i![.., 0]).sum(..), x),
            twice(|x| x.tanh().matmul(&x.t()).sum(..), x),
            twice(|x| (x.square() + 1).log().prod(1).sum(..), x),
        )
    };
}
