//! Arrays made by rule, and changes of shape.

use jaxrs::array::PadMode;
use jaxrs::prelude::*;

fn padded(x: &Array, mode: fn() -> PadMode) -> [Array; 2] {
    [x.pad(&[(1, 1), (2, 1)], mode()), x.pad(&[(0, 3), (5, 4)], mode())]
}

crate::cases! {
    [x, y, v, w, s, i, x234]

    "linspace" => (
        Array::linspace(0.0, 1.0, 5),
        Array::linspace_open(-2.0, 3.0, 4),
        Array::linspace(1.0, 2.0, 1),
    );
    "logspace" => (Array::logspace(0.0, 2.0, 3), Array::geomspace(1.0, 16.0, 5));
    "arange" => (
        Array::arange(7),
        Array::arange_by(2, 9, 3),
        Array::arange_by(5, 0, -2),
        Array::arange_by(0.0, 1.0, 0.25),
    );
    "eye" => (
        Array::eye(3, 3, 0),
        Array::eye(2, 4, 1),
        Array::eye(3, 3, -1).astype(DType::I32),
        Array::identity(2),
    );
    "tri" => (Array::tri(3, 4, 1), s.tril(0), s.triu(1), s.tril(-1));
    "triangle_batched" => (x234.tril(0), x234.triu(-1));
    "diag" => [w.diag(0), w.diag(1), w.diag(-2), s.diag(0), s.diag(1), s.diag(-1)];
    "meshgrid" => (
        // Of two arrays, `xy` exchanges the first two axes.
        Array::meshgrid([v, w]).into_iter().map(|grid| grid.t()).collect::<Vec<_>>(),
        Array::meshgrid([v, w]),
    );
    "full_like" => (x.full_like(3), i.ones_like(), x.zeros_like(), Array::full([2, 2], 7));
    "indices" => Array::indices([2, 3]);
    "transpose" => (x234.t(), x234.transpose([1, 2, 0]), x234.mt());
    "swap_move" => (
        x234.swap_axes(0, 2),
        x234.move_axis(0, -1),
        x234.move_axis([0, 1], [1, 2]),
    );
    "squeeze_expand" => (
        x.expand_dims([0, -1]),
        x.expand_dims(1),
        x.expand_dims(0).squeeze(0),
    );
    "concatenate" => (Array::concatenate([x, y], 0), Array::concatenate([x, y, x], -1));
    "concatenate_types" => Array::concatenate([x, i], 0);
    "stack" => (Array::stack([x, y], 0), Array::stack([x, y], -1));
    "split" => (x234.split(2, 2), x234.split([1, 3], 2));
    "repeat" => (x.repeat(3, 1), x.repeat(2, 0));
    "tile" => (x.tile(2), x.tile([2, 3]), x.tile([2, 1, 2]));
    "flip_roll" => (x234.flip(..), x234.flip(1), x234.roll(1, 1), x234.roll(-5, 2));
    "pad" => (
        x.pad(&[(1, 1)], PadMode::Constant(0.into())),
        x.pad(&[(0, 1), (2, 0)], PadMode::Constant(7.into())),
    );
    "pad_edge" => padded(x, || PadMode::Edge);
    "pad_reflect" => padded(x, || PadMode::Reflect);
    "pad_symmetric" => padded(x, || PadMode::Symmetric);
    "pad_wrap" => padded(x, || PadMode::Wrap);
    "broadcast_to" => w.broadcast_to([2, 3]);
    "ravel" => (x.ravel(), x.reshape([3, 2]));
}
