//! Rules of `convolution`, which is linear in each operand: the formulas of JAX
//! (`jax/_src/lax/convolution.py`). The cotangent of the input is a convolution of the result's with
//! the kernel the other way round, strides and dilations of the input changed over; that of the
//! kernel one of the input with the result's, batches and features changed over. A batch axis goes
//! into batches, features, or groups.

use super::{Axes, Convolution};
use crate::builder::Builder;
use crate::function::ValueId;
use crate::ops::dot_general::rules::promoted;
use crate::ops::window::WindowAxis;
use crate::ops::{OpView, Reverse};
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;

/// Splits an axis into one of so many groups, and the rest.
fn split(b: &mut Builder<'_>, x: ValueId, axis: usize, groups: u64) -> Result<ValueId, String> {
    let mut shape = b.ty(x).shape;
    shape[axis] /= groups.max(1);
    shape.insert(axis, groups);
    b.reshape(x, &shape)
}

/// Makes an axis and the one behind it one.
fn merge(b: &mut Builder<'_>, x: ValueId, axis: usize) -> Result<ValueId, String> {
    let mut shape = b.ty(x).shape;
    let inner = shape.remove(axis + 1);
    shape[axis] *= inner;
    b.reshape(x, &shape)
}

/// Moves an axis into another, which is numbered without it, as its outer part.
fn move_into(b: &mut Builder<'_>, x: ValueId, from: usize, to: usize) -> Result<ValueId, String> {
    let moved = b.move_axis(x, from, to)?;
    merge(b, moved, to)
}

/// Elements with gaps between them.
fn dilated(extent: u64, by: i64) -> i64 {
    if extent == 0 { 0 } else { (extent as i64 - 1) * by + 1 }
}

fn swapped(axes: &Axes) -> Axes {
    Axes { batch: axes.feature, feature: axes.batch, spatial: axes.spatial.clone() }
}

/// The type of both the cotangent's and the result's convolution, and shapes of the three tensors.
struct Shapes<'a> {
    input: &'a TensorType,
    kernel: &'a TensorType,
    output: &'a TensorType,
}

impl Convolution {
    /// The window of the convolution that gives the input's cotangent.
    fn window_of_input(&self, shapes: &Shapes<'_>) -> Vec<WindowAxis> {
        let axis = |(n, window): (usize, &WindowAxis)| {
            let input = dilated(shapes.input.shape[self.input.spatial[n]], window.base_dilation);
            let kernel = dilated(shapes.kernel.shape[self.kernel.spatial[n]], window.dilation);
            let output = dilated(shapes.output.shape[self.output.spatial[n]], window.stride);
            let low = kernel - window.low - 1;
            WindowAxis {
                extent: window.extent,
                stride: window.base_dilation,
                base_dilation: window.stride,
                dilation: window.dilation,
                low,
                high: input + kernel - 1 - output - low,
            }
        };
        self.window.iter().enumerate().map(axis).collect()
    }

    /// The window of the convolution that gives the kernel's cotangent.
    fn window_of_kernel(&self, shapes: &Shapes<'_>) -> Vec<WindowAxis> {
        let axis = |(n, window): (usize, &WindowAxis)| {
            let input = dilated(shapes.input.shape[self.input.spatial[n]], window.base_dilation);
            let kernel = dilated(shapes.kernel.shape[self.kernel.spatial[n]], window.dilation);
            let extent = shapes.output.shape[self.output.spatial[n]];
            WindowAxis {
                extent,
                stride: window.dilation,
                base_dilation: window.base_dilation,
                dilation: window.stride,
                low: window.low,
                high: dilated(extent, window.stride) - input + kernel - window.low - 1,
            }
        };
        self.window.iter().enumerate().map(axis).collect()
    }

    fn cotangent_of_input(
        &self,
        b: &mut Builder<'_>,
        shapes: &Shapes<'_>,
        cotangent: ValueId,
        kernel: ValueId,
    ) -> Result<ValueId, String> {
        let (cotangent, mut kernel, result) = promoted(b, cotangent, kernel)?;
        let groups = self.feature_groups.max(self.batch_groups);
        if groups > 1 {
            // The groups of output features become groups of input features.
            kernel = split(b, kernel, self.kernel.batch, groups)?;
            kernel = move_into(b, kernel, self.kernel.batch, self.kernel.feature)?;
        }
        let convolution = Convolution {
            input: self.output.clone(),
            kernel: swapped(&self.kernel),
            output: self.input.clone(),
            window: self.window_of_input(shapes),
            reversed: self.reversed.iter().map(|reversed| !reversed).collect(),
            feature_groups: groups,
            batch_groups: 1,
            result,
        };
        let mut out = b.one(convolution, &[cotangent, kernel])?;
        if self.batch_groups > 1 {
            out = split(b, out, self.input.feature, self.batch_groups)?;
            out = move_into(b, out, self.input.feature, self.input.batch)?;
        }
        b.convert(out, shapes.input.dtype)
    }

    fn cotangent_of_kernel(
        &self,
        b: &mut Builder<'_>,
        shapes: &Shapes<'_>,
        cotangent: ValueId,
        input: ValueId,
    ) -> Result<ValueId, String> {
        let (input, cotangent, result) = promoted(b, input, cotangent)?;
        let convolution = Convolution {
            input: swapped(&self.input),
            kernel: swapped(&self.output),
            output: swapped(&self.kernel),
            window: self.window_of_kernel(shapes),
            reversed: vec![false; self.window.len()],
            feature_groups: self.batch_groups,
            batch_groups: self.feature_groups,
            result,
        };
        let mut out = b.one(convolution, &[input, cotangent])?;
        let reversed = self.kernel.spatial.iter().zip(&self.reversed);
        let axes: Vec<usize> = reversed.filter(|(_, r)| **r).map(|(&axis, _)| axis).collect();
        if !axes.is_empty() {
            out = b.one(Reverse { axes }, &[out])?;
        }
        b.convert(out, shapes.kernel.dtype)
    }

    /// Both operands have a batch axis, the first one: each element is a group.
    fn batch_both(
        &self,
        b: &mut Builder<'_>,
        [input, kernel]: [ValueId; 2],
        size: u64,
    ) -> Result<ValueId, String> {
        let mut convolution = self.clone();
        let into = if self.batch_groups > 1 {
            convolution.batch_groups *= size;
            self.input.batch
        } else {
            convolution.feature_groups *= size;
            self.input.feature
        };
        let input = move_into(b, input, 0, into)?;
        let kernel = move_into(b, kernel, 0, self.kernel.batch)?;
        let out = b.one(convolution, &[input, kernel])?;
        let out = split(b, out, self.output.feature, size)?;
        b.move_axis(out, self.output.feature, 0)
    }

    /// The input has a batch axis, the first one, which goes into the batches of each group.
    fn batch_input(
        &self,
        b: &mut Builder<'_>,
        [input, kernel]: [ValueId; 2],
        size: u64,
    ) -> Result<ValueId, String> {
        let at = self.input.batch;
        let input = split(b, input, at + 1, self.batch_groups)?;
        let input = b.move_axis(input, 0, at + 1)?;
        let input = merge(b, input, at)?;
        let input = merge(b, input, at)?;
        let out = b.one(self.clone(), &[input, kernel])?;
        let out = split(b, out, self.output.batch, size)?;
        b.move_axis(out, self.output.batch, 0)
    }

    /// The kernel has a batch axis, the first one, which goes into the output features of each
    /// group.
    fn batch_kernel(
        &self,
        b: &mut Builder<'_>,
        [input, kernel]: [ValueId; 2],
        size: u64,
    ) -> Result<ValueId, String> {
        let groups = self.feature_groups.max(self.batch_groups);
        let at = self.kernel.batch;
        let kernel = split(b, kernel, at + 1, groups)?;
        let kernel = b.move_axis(kernel, 0, at + 1)?;
        let kernel = merge(b, kernel, at)?;
        let kernel = merge(b, kernel, at)?;
        let out = b.one(self.clone(), &[input, kernel])?;
        let at = self.output.feature;
        let out = split(b, out, at, groups)?;
        let out = split(b, out, at + 1, size)?;
        let out = b.move_axis(out, at + 1, 0)?;
        merge(b, out, at + 1)
    }
}

impl Rules for Convolution {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_bilinear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let Some(cotangent) = cx.cotangent(op.result(0)) else { return Ok(()) };
        let shapes = Shapes {
            input: op.operand_type(0),
            kernel: op.operand_type(1),
            output: op.result_type(0),
        };
        if [shapes.input, shapes.kernel, shapes.output].iter().any(|ty| ty.is_empty()) {
            return Ok(());
        }
        let (input, kernel) = (op.operand(0), op.operand(1));
        if cx.is_linear(input) {
            let value = cx.value(kernel);
            let out = self.cotangent_of_input(&mut cx.builder(), &shapes, cotangent, value)?;
            return cx.add(input, out);
        }
        let value = cx.value(input);
        let out = self.cotangent_of_kernel(&mut cx.builder(), &shapes, cotangent, value)?;
        cx.add(kernel, out)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        let operands = [op.operand(0), op.operand(1)];
        let flags = operands.map(|v| cx.is_batched(v));
        let values = operands.map(|v| cx.value(v));
        let size = cx.size();
        let mut b = cx.builder();
        let out = if size == 0 {
            // Groups cannot be none.
            let mut ty = op.result_type(0).clone();
            ty.shape.insert(0, 0);
            b.zeros(&ty)?
        } else {
            match flags {
                [true, true] => self.batch_both(&mut b, values, size)?,
                [true, false] => self.batch_input(&mut b, values, size)?,
                _ => self.batch_kernel(&mut b, values, size)?,
            }
        };
        cx.bind(op.result(0), out, true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::testing::{check, check_body, function, values};
    use jaxrs_kernel::DType;

    /// Batch, features and one spatial axis in this order, or, if `mixed`, in others.
    fn convolution(window: WindowAxis, reversed: bool, groups: [u64; 2], mixed: bool) -> Convolution {
        let axes = |batch, feature, spatial| Axes { batch, feature, spatial: vec![spatial] };
        let [input, kernel, output] = if mixed {
            [axes(1, 2, 0), axes(2, 1, 0), axes(2, 0, 1)]
        } else {
            [axes(0, 1, 2), axes(0, 1, 2), axes(0, 1, 2)]
        };
        Convolution {
            input,
            kernel,
            output,
            window: vec![window],
            reversed: vec![reversed],
            feature_groups: groups[0],
            batch_groups: groups[1],
            result: DType::F64,
        }
    }

    fn shape(axes: &Axes, batch: u64, feature: u64, spatial: u64) -> Vec<u64> {
        let mut shape = vec![0; 3];
        (shape[axes.batch], shape[axes.feature], shape[axes.spatial[0]]) =
            (batch, feature, spatial);
        shape
    }

    #[test]
    fn derivatives_and_batches() {
        let plain = WindowAxis { extent: 2, ..WindowAxis::POINT };
        let windows = [
            plain,
            WindowAxis { stride: 2, low: 1, high: 2, ..plain },
            WindowAxis { dilation: 2, base_dilation: 3, low: 2, high: -1, ..plain },
            WindowAxis { stride: 3, base_dilation: 2, low: -1, high: 3, dilation: 3, ..plain },
        ];
        for (n, window) in windows.into_iter().enumerate() {
            for groups in [[1, 1], [2, 1], [1, 2]] {
                let (reversed, mixed) = (n % 2 == 1, (n as u64 + groups[0]).is_multiple_of(2));
                let op = convolution(window, reversed, groups, mixed);
                let input = shape(&op.input, 2, 2 * groups[0], 4);
                let kernel = shape(&op.kernel, 2 * groups[0], 2, 2);
                let inputs = [values(&input, n as u64), values(&kernel, n as u64 + 5)];
                check_body(&inputs, |b, x| Ok(vec![b.one(op.clone(), x)?]));
            }
        }
    }

    #[test]
    fn no_axes_and_no_elements() {
        let mut op = convolution(WindowAxis::POINT, false, [1, 1], false);
        (op.input.spatial, op.kernel.spatial, op.output.spatial) = (vec![], vec![], vec![]);
        (op.window, op.reversed) = (vec![], vec![]);
        check_body(&[values(&[3, 2], 1), values(&[4, 2], 2)], |b, x| {
            Ok(vec![b.one(op.clone(), x)?])
        });
        let op = convolution(WindowAxis { extent: 2, ..WindowAxis::POINT }, false, [1, 1], false);
        let inputs = [values(&[1, 2, 1], 1), values(&[3, 2, 2], 2)];
        let f = function(&[inputs[0].ty().clone(), inputs[1].ty().clone()], |b, x| {
            Ok(vec![b.one(op.clone(), x)?])
        });
        check(&f, &inputs);
    }
}
