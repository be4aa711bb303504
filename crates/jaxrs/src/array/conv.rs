//! Convolutions.

use super::Array;
use crate::error::Place;
use crate::trace;
use jaxrs_ir::ops;
use jaxrs_ir::ops::convolution::Axes;
use jaxrs_ir::ops::window::WindowAxis;

/// Elements put before and after the spatial axes of a window's operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// None: windows lie inside.
    Valid,
    /// As many that the result has an element for each stride of the operand; an odd one after.
    Same,
    /// As [`Padding::Same`]; an odd one before.
    SameLower,
    /// As many that every window counts that touches the operand.
    Full,
    /// These, before and after, for each axis; negative ones leave elements out.
    Explicit(Vec<(i64, i64)>),
}

impl Padding {
    /// Before and after an axis, of these extents and (dilated) window.
    pub(super) fn of(
        &self,
        axis: usize,
        extent: u64,
        window: u64,
        stride: u64,
    ) -> Result<(i64, i64), String> {
        let same = || {
            let windows = extent.div_ceil(stride.max(1)) as i64;
            let reach = (windows - 1).max(0) * stride as i64 + window as i64;
            (reach - extent as i64).max(0)
        };
        Ok(match self {
            Padding::Valid => (0, 0),
            Padding::Same => (same() / 2, same() - same() / 2),
            Padding::SameLower => (same() - same() / 2, same() / 2),
            Padding::Full => (window.saturating_sub(1) as i64, window.saturating_sub(1) as i64),
            Padding::Explicit(pairs) => *pairs
                .get(axis)
                .ok_or_else(|| format!("padding has {} pairs, axis {axis} none", pairs.len()))?,
        })
    }
}

/// How [`Array::conv`] slides the kernel. Lists that are left empty stand for 1 in each spatial
/// axis.
///
/// ```
/// use jaxrs::prelude::*;
/// use jaxrs::array::{Conv, Padding};
/// let (image, kernel) = (Array::ones([1, 8, 8, 3]), Array::ones([3, 3, 3, 16]));
/// let options = Conv { strides: vec![2, 2], padding: Padding::Same, ..Conv::nhwc() };
/// assert_eq!(image.conv(&kernel, &options).shape(), [1, 4, 4, 16]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// From one window to the next.
    pub strides: Vec<u64>,
    /// Elements around the operand.
    pub padding: Padding,
    /// Distance between elements of the operand; more than 1 for a transposed convolution.
    pub dilation: Vec<u64>,
    /// Distance between elements of the kernel.
    pub kernel_dilation: Vec<u64>,
    /// The axes of operand, kernel and result: `N` the batch, `C` the features, `O` and `I` the
    /// kernel's features out and in; the other letters are the spatial axes.
    pub axes: [String; 3],
    /// Features are convolved in so many groups apart.
    pub feature_groups: u64,
    /// The batch is convolved in so many groups apart.
    pub batch_groups: u64,
}

impl Default for Conv {
    /// Axes `NCHW`, `OIHW`, `NCHW`, without padding.
    fn default() -> Conv {
        Conv::with_axes(["NCHW", "OIHW", "NCHW"])
    }
}

impl Conv {
    /// Axes `NHWC`, `HWIO`, `NHWC`, without padding.
    pub fn nhwc() -> Conv {
        Conv::with_axes(["NHWC", "HWIO", "NHWC"])
    }

    /// Without padding, in these axes.
    pub fn with_axes(axes: [&str; 3]) -> Conv {
        Conv {
            strides: Vec::new(),
            padding: Padding::Valid,
            dilation: Vec::new(),
            kernel_dilation: Vec::new(),
            axes: axes.map(str::to_string),
            feature_groups: 1,
            batch_groups: 1,
        }
    }

    /// The axes of one of the three, its spatial axes in the order of the operand's letters.
    fn role(&self, which: usize, batch: char, feature: char) -> Result<Axes, String> {
        let letters = |which: usize| self.axes[which].chars();
        let spatial = letters(0).filter(|&c| c != 'N' && c != 'C');
        let find = |letter: char| {
            letters(which)
                .position(|c| c == letter)
                .ok_or_else(|| format!("conv: axes {:?} have no {letter}", self.axes[which]))
        };
        let axes = Axes {
            batch: find(batch)?,
            feature: find(feature)?,
            spatial: spatial.map(find).collect::<Result<_, _>>()?,
        };
        let count = letters(which).count();
        match count == axes.spatial.len() + 2 {
            true => Ok(axes),
            false => {
                Err(format!("conv: axes {:?} are no match of {:?}", self.axes[which], self.axes[0]))
            }
        }
    }

    /// The op for these shapes.
    fn op(
        &self,
        x: &[u64],
        kernel: &[u64],
        result: jaxrs_ir::DType,
    ) -> Result<ops::Convolution, String> {
        let input = self.role(0, 'N', 'C')?;
        let kernel_axes = self.role(1, 'O', 'I')?;
        let output = self.role(2, 'N', 'C')?;
        let rank = input.spatial.len();
        if x.len() != rank + 2 || kernel.len() != rank + 2 {
            return Err(format!(
                "conv: axes {:?} and {:?} for shapes {x:?} and {kernel:?}",
                self.axes[0], self.axes[1]
            ));
        }
        let list = |what: &str, list: &[u64], axis: usize| match list.len() {
            0 => Ok(1),
            n if n == rank => Ok(list[axis]),
            n => Err(format!("conv: {n} {what} for {rank} spatial axes")),
        };
        let mut window = Vec::with_capacity(rank);
        for axis in 0..rank {
            let stride = list("strides", &self.strides, axis)?;
            let base = list("dilations", &self.dilation, axis)?;
            let dilation = list("kernel dilations", &self.kernel_dilation, axis)?;
            let extent = kernel[kernel_axes.spatial[axis]];
            let reach = |n: u64, by: u64| n.saturating_sub(1).saturating_mul(by) + u64::from(n > 0);
            let spread = reach(x[input.spatial[axis]], base);
            let (low, high) = self.padding.of(axis, spread, reach(extent, dilation), stride)?;
            let signed = |n: u64| i64::try_from(n).map_err(|_| format!("conv: {n} is too large"));
            window.push(WindowAxis {
                extent,
                stride: signed(stride)?,
                base_dilation: signed(base)?,
                dilation: signed(dilation)?,
                low,
                high,
            });
        }
        Ok(ops::Convolution {
            input,
            kernel: kernel_axes,
            output,
            window,
            reversed: vec![false; rank],
            feature_groups: self.feature_groups,
            batch_groups: self.batch_groups,
            result,
        })
    }
}

impl Array {
    /// The convolution with a kernel (which is not mirrored); element types are promoted.
    #[track_caller]
    pub fn conv(&self, kernel: &Array, options: &Conv) -> Array {
        let dtype = super::promote(self.dtype(), kernel.dtype());
        trace::one(&[self, kernel], Place::here(), |b, values| {
            let (x, kernel) = (b.convert(values[0], dtype)?, b.convert(values[1], dtype)?);
            let op = options.op(&b.ty(x).shape, &b.ty(kernel).shape, dtype)?;
            b.one(op, &[x, kernel])
        })
    }

    /// The convolution of two arrays of one axis, as NumPy's `convolve`: with
    /// [`Padding::Full`] every place where they touch, with [`Padding::Same`] as many as the longer
    /// one has, with [`Padding::Valid`] those where the shorter one lies inside.
    #[track_caller]
    pub fn convolve(&self, other: &Array, padding: Padding) -> Array {
        let place = Place::here();
        trace::whole(&[self, other], place, |x| {
            let (long, short) = match x[0].len() >= x[1].len() {
                true => (&x[0], &x[1]),
                false => (&x[1], &x[0]),
            };
            let n = short.len() as i64;
            let padding = match padding {
                Padding::Same | Padding::SameLower => {
                    Padding::Explicit(vec![(n / 2, n - n / 2 - 1)])
                }
                other => other,
            };
            let options = Conv { padding, ..Conv::with_axes(["NCW", "OIW", "NCW"]) };
            let (x, kernel) = (long.expand_dims([0, 1]), short.flip(0).expand_dims([0, 1]));
            x.conv(&kernel, &options).ravel()
        })
    }
}
