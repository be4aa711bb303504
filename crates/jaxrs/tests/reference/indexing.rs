//! Indexing, updates at indices, gathers.

use jaxrs::array::{Index, Mode};
use jaxrs::prelude::*;

fn get<const N: usize>(x: &Array, indices: [Vec<Index>; N]) -> [Array; N] {
    indices.map(|indices| x.slice(indices))
}

crate::cases! {
    [x, v, x234, i, at, at2, one, far, classes, logits]

    "index_basic" => get(x234, [
        i![1].into(), i![-1, 1..3].into(), i![..., -1].into(), i![.., NewAxis, 0].into(),
        i![.., ..;-1].into(), i![..;-1, 2..0;-1, 1..;2].into(), i![0, 0, 0].into(),
    ]);
    "index_ranges" => get(x234, [
        i![.., -2..].into(), i![.., ..100].into(), i![.., 2..1].into(), i![..., 0..4;3].into(),
        i![..., 3..;-2].into(),
    ]);
    "index_dynamic" => get(x234, [
        i![one].into(), i![.., one].into(), i![0, one, 1..3].into(), i![one, ..., one].into(),
        i![.., one, ..;2].into(),
    ]);
    "index_dynamic_far" => get(x234, [
        i![far].into(), i![.., far - 20].into(), i![0, far].into(),
    ]);
    "index_array" => get(x234, [i![.., at].into(), i![..., at].into(), i![at % 2].into()]);
    "index_arrays" => get(x234, [
        i![at2, at2 + 1].into(), i![at2, .., at2].into(), i![at2, NewAxis, .., at2].into(),
        i![.., at2, at2].into(), i![0, .., at2].into(), i![at2, ..., 0].into(),
    ]);
    "index_mixed" => get(x234, [
        i![at2, 1.., at2].into(), i![at2.slice(i![0]), ..;2, 0].into(), i![.., at2, ..;2].into(),
        i![.., 1..3, at2].into(),
    ]);
    "index_modes" => [Mode::Clip, Mode::Fill(None), Mode::Fill(Some(3.0))]
        .map(|mode| v.at(i![at]).mode(mode).get());
    "set_static" => [
        x234.at(i![0]).set(1),
        x234.at(i![.., 1..3]).set(7),
        x234.at(i![..., -1]).set(x234.slice(i![..., 0])),
        x234.at(i![.., ..;2]).set(0),
        x234.at(i![..;-1, 0, 1..]).set(x234.slice(i![.., 1, 1..])),
    ];
    "add_static" => [
        x234.at(i![0]).add(1),
        x234.at(i![.., 1..3]).multiply(2),
        x234.at(i![1, 2, 3]).subtract(3),
        x234.at(i![0]).min(0),
        x234.at(i![.., 1]).max(0),
        x234.at(i![..., 0]).divide(4),
    ];
    "set_dynamic" => [
        x234.at(i![one]).set(1),
        x234.at(i![.., one]).set(x234.slice(i![.., 0])),
        x234.at(i![0, one, 1..3]).add(5),
    ];
    "set_far" => [
        x234.at(i![far]).set(1),
        x234.at(i![.., far]).add(1),
        x234.at(i![.., far]).mode(Mode::Clip).set(1),
        x234.at(i![far - 20]).set(3),
    ];
    "set_arrays" => [
        v.at(i![at]).add(1),
        v.at(i![at]).multiply(2),
        v.at(i![at]).set(9),
        v.at(i![at]).max(0),
        v.at(i![at]).mode(Mode::Clip).add(1),
    ];
    "add_repeated" => [
        x234.at(i![at2]).add(1),
        x234.at(i![at2, .., at2]).add(1),
        x234.at(i![.., at2, ..;2]).add(2),
        x234.at(i![at2, 1.., at2]).add(x234.slice(i![0, 1, 0])),
    ];
    "take" => (x234.take(at, 1), x234.at(i![..., at]).get());
    "take_int" => i.take(at, 1);
    "take_along_axis" => (
        x234.take_along_axis(&x234.argsort(1), 1),
        x234.take_along_axis(&x234.argmax(keep(2)), 2),
    );
    "dynamic_slice" => (
        x234.dynamic_slice(i![one, one, one], [1, 2, 2]),
        x234.dynamic_slice(i![0, one + 8, -1], [2, 2, 1]),
    );
    "dynamic_update_slice" => (
        x234.dynamic_update_slice(&x234.slice(i![..1, ..1]), i![one, one, 0]),
        x234.dynamic_update_slice(&x234.slice(i![.., ..2]), i![0, one + 7, 0]),
    );
    "one_hot" => classes.one_hot(4);
    "bincount" => classes.bincount(4);
    "segment_sum" => logits.segment_sum(classes, 3);
}
