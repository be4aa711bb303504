//! Contractions, convolutions and pools.

use jaxrs::array::{Conv, Padding};
use jaxrs::prelude::*;

pub fn strided(strides: [u64; 2], padding: Padding) -> Conv {
    Conv { strides: strides.into(), padding, ..Conv::nhwc() }
}

crate::cases! {
    [x, y, v, w, a, b, s, x234, y243, i, j, c, cube, scalar, image, kernel, nchw, grouped]

    "matmul" => {
        let (row, column) = (a.slice(i![0]), b.slice(i![.., 0]));
        [a.matmul(b), a.matmul(&column), row.matmul(b), row.matmul(&column)]
    };
    "matmul_batched" => [
        x234.matmul(y243),
        x234.matmul(&a.t()),
        a.matmul(y243),
        x234.expand_dims(1).matmul(&y243.expand_dims(0)),
        x234.matmul(&a.slice(i![0])),
    ];
    "dot" => {
        let (first, second) = (a.slice(i![0]), a.slice(i![1]));
        [
            x234.dot(&a.t()),
            x234.dot(y243),
            first.dot(&second),
            x234.dot(&Array::scalar(2.0f32)),
            a.vdot(&(a + 1)),
        ]
    };
    "matmul_int" => i.matmul(&j.t());
    "matmul_complex" => (c.matmul(&x.t()), c.vdot(c));
    "inner_outer" => (x.inner(y), w.outer(x), x.inner(w));
    "tensordot" => (
        x234.tensordot(y243, [1, 2], [2, 1]),
        x234.tensordot(a, [1, 2], [0, 1]),
        x234.tensordot(a, [], []),
    );
    "kron" => (x.kron(s), x.slice(i![0]).kron(s));
    "trace" => [s.trace(), x234.trace(), x234.diagonal(0), s.diagonal(1), s.diagonal(-1)];
    "einsum_0" => Array::einsum("ij,jk->ik", [a, b]);
    "einsum_1" => Array::einsum("ij,jk", [a, b]);
    "einsum_2" => Array::einsum("ij->ji", [a]);
    "einsum_3" => Array::einsum("ij->", [a]);
    "einsum_4" => Array::einsum("ij->j", [a]);
    "einsum_5" => Array::einsum("ii->i", [s]);
    "einsum_6" => Array::einsum("ii", [s]);
    "einsum_7" => Array::einsum("ij,ij->", [x, y]);
    "einsum_8" => Array::einsum("ij,ij->ij", [x, y]);
    "einsum_9" => Array::einsum("i,j->ij", [v, w]);
    "einsum_10" => Array::einsum("bij,bjk->bik", [x234, y243]);
    "einsum_11" => Array::einsum("bij,bkj->bik", [x234, x234]);
    "einsum_12" => Array::einsum("...ij,jk->...ik", [x234, b]);
    "einsum_13" => Array::einsum("...ij,...jk", [x234, y243]);
    "einsum_14" => Array::einsum("bij,kj,kl->bil", [x234, a, s]);
    "einsum_15" => Array::einsum("ij,jk,kl,lm->im", [x, s, a, b]);
    "einsum_16" => Array::einsum("bij,bij->b", [x234, x234]);
    "einsum_17" => Array::einsum("i,ij,j", [w, a, &b.slice(i![.., 0])]);
    "einsum_18" => Array::einsum("...->...", [x]);
    "einsum_19" => Array::einsum("bij->jib", [x234]);
    "einsum_20" => Array::einsum("iij->ij", [cube]);
    "einsum_21" => Array::einsum("bi...,...->b", [x234, scalar]);
    "conv_nhwc" => [
        image.conv(kernel, &Conv::nhwc()),
        image.conv(kernel, &strided([2, 2], Padding::Same)),
        image.conv(kernel, &strided([1, 2], Padding::SameLower)),
    ];
    "conv_dilated" => image.conv(kernel, &Conv {
        dilation: vec![2, 1],
        kernel_dilation: vec![1, 2],
        ..strided([1, 1], Padding::Explicit(vec![(1, 2), (0, 3)]))
    });
    "conv_grouped" => nchw.conv(grouped, &Conv {
        padding: Padding::Same, feature_groups: 2, ..Conv::default()
    });
    "conv_same_dilated" => nchw.conv(grouped, &Conv {
        strides: vec![2, 1],
        kernel_dilation: vec![2, 2],
        padding: Padding::Same,
        feature_groups: 2,
        ..Conv::default()
    });
    "convolve" => [
        v.convolve(w, Padding::Full),
        v.convolve(w, Padding::Same),
        v.convolve(w, Padding::Valid),
        w.convolve(v, Padding::Same),
    ];
    "max_pool" => (
        nn::max_pool(image, [2, 2], [2, 2], Padding::Valid),
        nn::max_pool(image, [3, 2], [1, 2], Padding::Same),
    );
    "avg_pool" => nn::avg_pool(image, [2, 3], [2, 1], Padding::Same);
}
