//! Indexing: [`Array::slice`], [`Array::at`], and what stands between the brackets of [`crate::i!`].
//!
//! The rules are NumPy's. An integer drops its axis; a range keeps it; `..` alone is a whole axis;
//! `...` stands for as many whole axes as are left; [`NewAxis`] puts an axis of extent 1 in; arrays
//! of integers broadcast against each other, and their axes stand where the first one stands (or,
//! if a range is between them, first). Negative integers count from the end.
//!
//! Integers and ranges of Rust are checked: one that is out of range is an error. Those in arrays
//! are not known until the program runs: reading clamps them to the axis, writing leaves them out;
//! see [`Mode`].

mod at;
mod plan;
mod take;
mod windows;

pub use at::{At, Mode};

use super::{Array, Element};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One of the things between the brackets of [`crate::i!`].
#[derive(Clone, Debug)]
pub enum Index {
    /// One position; the axis is dropped.
    At(i64),
    /// Positions from `start` to before `stop`, by steps; ends left out are those of the axis.
    Range {
        /// The first position.
        start: Option<i64>,
        /// The position before which it ends.
        stop: Option<i64>,
        /// From one to the next; negative: backwards.
        step: i64,
    },
    /// As many whole axes as are left.
    Ellipsis,
    /// A new axis of extent 1.
    NewAxis,
    /// Positions that are computed: an array of integers.
    Array(Array),
}

/// As many whole axes as are left; `...` in [`crate::i!`].
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;

/// A new axis of extent 1.
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

impl Index {
    /// A range with other steps; anything else as it is.
    #[must_use]
    pub fn by(self, step: i64) -> Index {
        match self {
            Index::Range { start, stop, .. } => Index::Range { start, stop, step },
            other => other,
        }
    }
}

impl From<Ellipsis> for Index {
    fn from(_: Ellipsis) -> Index {
        Index::Ellipsis
    }
}

impl From<NewAxis> for Index {
    fn from(_: NewAxis) -> Index {
        Index::NewAxis
    }
}

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::Range { start: None, stop: None, step: 1 }
    }
}

impl From<Array> for Index {
    fn from(array: Array) -> Index {
        Index::Array(array)
    }
}

impl From<&Array> for Index {
    fn from(array: &Array) -> Index {
        Index::Array(array.clone())
    }
}

impl<T: Element, const N: usize> From<[T; N]> for Index {
    #[track_caller]
    fn from(positions: [T; N]) -> Index {
        Index::Array(Array::from_vec(positions))
    }
}

impl<T: Element> From<Vec<T>> for Index {
    #[track_caller]
    fn from(positions: Vec<T>) -> Index {
        Index::Array(Array::from_vec(positions))
    }
}

impl<T: Element> From<&[T]> for Index {
    #[track_caller]
    fn from(positions: &[T]) -> Index {
        Index::Array(Array::from_vec(positions))
    }
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(
            impl From<$ty> for Index {
                fn from(at: $ty) -> Index {
                    // What has no `i64` is out of range of any axis.
                    Index::At(i64::try_from(at).unwrap_or(i64::MAX))
                }
            }

            integers!(@range $ty, Range<$ty>, |r| (Some(r.start), Some(r.end)), 0);
            integers!(@range $ty, RangeFrom<$ty>, |r| (Some(r.start), None), 0);
            integers!(@range $ty, RangeTo<$ty>, |r| (None, Some(r.end)), 0);
            integers!(@range $ty, RangeInclusive<$ty>, |r| (Some(*r.start()), Some(*r.end())), 1);
            integers!(@range $ty, RangeToInclusive<$ty>, |r| (None, Some(r.end)), 1);
        )*
    };
    (@range $ty:ty, $range:ty, $ends:expr, $past:expr) => {
        impl From<$range> for Index {
            fn from(range: $range) -> Index {
                let ends: fn($range) -> (Option<$ty>, Option<$ty>) = $ends;
                let wide = |end: $ty| i64::try_from(end).unwrap_or(i64::MAX);
                let (start, stop) = ends(range);
                // After the last element, -1, there is none.
                let stop = stop.map(wide).and_then(|stop| match stop.saturating_add($past) {
                    0 if $past == 1 && stop == -1 => None,
                    stop => Some(stop),
                });
                Index::Range { start: start.map(wide), stop, step: 1 }
            }
        }
    };
}

integers!(i32, i64, u32, u64, usize);

/// Indices for [`Array::slice`](crate::Array::slice) and [`Array::at`](crate::Array::at):
/// integers, ranges (with `;` and a step), `..`, `...`, [`NewAxis`] and arrays of integers.
///
/// ```
/// use jaxrs::prelude::*;
/// let x = Array::arange(12).reshape([3, 4]);
/// assert_eq!(x.slice(i![-1, 1..3]).to_vec::<i32>()?, [9, 10]);
/// assert_eq!(x.slice(i![..;-2, 0]).to_vec::<i32>()?, [8, 0]);
/// assert_eq!(x.slice(i![..., NewAxis, 0]).shape(), [3, 1]);
/// assert_eq!(x.slice(i![[2, 0], [1, 1]]).to_vec::<i32>()?, [9, 1]);
/// # Ok::<(), jaxrs::Error>(())
/// ```
#[macro_export]
macro_rules! i {
    (@ [$($done:expr),*]) => {{
        // Backwards, a range starts at its greater end.
        #[allow(clippy::reversed_empty_ranges)]
        let indices: [$crate::array::Index; _] = [$($done),*];
        indices
    }};
    (@ [$($done:expr),*] ... $(, $($rest:tt)*)?) => {
        $crate::i!(@ [$($done,)* $crate::array::Index::Ellipsis] $($($rest)*)?)
    };
    (@ [$($done:expr),*] $range:expr; $step:expr $(, $($rest:tt)*)?) => {
        $crate::i!(@ [$($done,)* $crate::array::Index::from($range).by($step)] $($($rest)*)?)
    };
    (@ [$($done:expr),*] $index:expr $(, $($rest:tt)*)?) => {
        $crate::i!(@ [$($done,)* $crate::array::Index::from($index)] $($($rest)*)?)
    };
    ($($indices:tt)*) => { $crate::i!(@ [] $($indices)*) };
}
