//! `stablehlo.select_and_scatter`: the gradient of a pooling. Each window selects one element of
//! the operand by a region, to which the window's source element is added by another region.
//!
//! A window without elements (in padding altogether) selects nothing, and its source is dropped.
//! Kernels select by the number of the window's element and then go over the window once more, so
//! that all addresses are affine and neighbouring windows of an untouched axis fill a vector.

mod rules;

use super::reduce_window::UNROLLED;
use super::window::{self, Names, WindowAxis};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::{Frame, ScalarRegion};
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering, Scalar, nest};
use crate::types::{TensorType, advance};
use jaxrs_kernel::builder::{self, Build, Guard, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{Affine, BinaryOp, Compare, CompareKind, DType, Reg, RegType};

const NAMES: Names<'_> = Names {
    op: "select_and_scatter",
    extents: Some("window_dimensions"),
    strides: "window_strides",
    base_dilations: None,
    dilations: None,
};

/// A select and scatter.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectAndScatter {
    /// The window along each axis.
    pub window: Vec<WindowAxis>,
}

impl SelectAndScatter {
    /// How the axes are looped over: parallel ones outside, those along which windows slide in
    /// order, parallel ones inside. A parallel axis before the last sliding one is outside.
    fn order(&self) -> [Vec<usize>; 3] {
        let slides = |axis: &usize| self.window[*axis] != WindowAxis::POINT;
        let rank = self.window.len();
        let end = (0..rank).rev().find(slides).map_or(0, |axis| axis + 1);
        let (sliding, outside) = (0..end).partition(slides);
        [outside, sliding, (end..rank).collect()]
    }

    /// Calls `body` with each element of the window from axis `depth` on, and with its number.
    fn each(
        &self,
        e: &mut Emitter<'_>,
        inside: &mut Vec<Affine>,
        depth: usize,
        values: &[Reg],
        body: &mut Each<'_>,
    ) -> Vec<Reg> {
        let Some(window) = self.window.get(depth) else {
            let number = inside.iter().zip(&self.window).fold(Affine::constant(0), |n, (at, w)| {
                n.scale(w.extent as i64).add(at)
            });
            return body(e, inside, &number, values);
        };
        let elements: u64 = self.window.iter().map(|w| w.extent).product();
        if elements <= UNROLLED {
            return (0..window.extent as i64).fold(values.to_vec(), |values, n| {
                inside[depth] = Affine::constant(n);
                self.each(e, inside, depth + 1, &values, body)
            });
        }
        let carries: Vec<_> = values.iter().map(|&value| (value, None)).collect();
        let (extent, options) = (window.extent as i64, LoopOptions::default());
        builder::reduce(e, extent, options, LoopKind::Sequential, &carries, |e, var, values| {
            inside[depth] = var.clone();
            self.each(e, inside, depth + 1, values, body)
        })
    }

    fn locate(
        &self,
        e: &mut Emitter<'_>,
        shape: &[u64],
        at: &[Affine],
        inside: &[Affine],
    ) -> (Vec<Affine>, Guard) {
        let (mut index, mut guard) = (Vec::new(), Guard::Always);
        for (axis, window) in self.window.iter().enumerate() {
            let (position, there) =
                window.locate(e.builder(), shape[axis], &at[axis], &inside[axis]);
            index.push(position);
            guard = e.builder().both(guard, there);
        }
        (index, guard)
    }

    /// Scatters the source element at an index.
    fn scatter(&self, e: &mut Emitter<'_>, op: OpView<'_>, at: &[Affine]) {
        let ty = op.operand_type(0);
        let parts = ty.dtype.parts() as usize;
        // Carried: whether an element is selected, its parts, its number.
        let mut start = vec![e.builder().bool(false)];
        let zero = e.builder().constant(ty.dtype.reg(), 0);
        start.extend(vec![zero; parts]);
        start.push(e.builder().int(RegType::I64, 0));
        let mut inside = vec![Affine::constant(0); at.len()];
        let end = self.each(e, &mut inside, 0, &start, &mut |e, inside, number, values| {
            let (index, guard) = self.locate(e, &ty.shape, at, inside);
            let take = |e: &mut Emitter<'_>| {
                let element = e.read(op.operand(0), &index);
                let selected = Scalar::from_parts(&values[1..=parts]);
                let keep = e.region(op.region(0), &[selected, element])[0].real();
                let b = e.builder();
                let keep = b.binary(BinaryOp::And, values[0], keep);
                let mut next = vec![b.bool(true)];
                for (&old, new) in values[1..=parts].iter().zip(element.parts()) {
                    next.push(b.select(keep, old, new));
                }
                let number = b.index_value(number);
                next.push(b.select(keep, values[parts + 1], number));
                next
            };
            builder::branch(e, guard, take, |_| values.to_vec())
        });
        let (any, selected) = (end[0], end[parts + 1]);
        let source = e.read(op.operand(1), at);
        self.each(e, &mut inside, 0, &[], &mut |e, inside, number, _| {
            let (index, guard) = self.locate(e, &ty.shape, at, inside);
            let add = |e: &mut Emitter<'_>| {
                let b = e.builder();
                let number = b.index_value(number);
                let this = b.compare(Compare::Eq, CompareKind::Signed, selected, number);
                let this = b.binary(BinaryOp::And, any, this);
                let old = e.read_written(op.result(0), &index);
                let new = e.region(op.region(1), &[old, source])[0];
                let pairs = old.parts().into_iter().zip(new.parts());
                let parts: Vec<Reg> =
                    pairs.map(|(old, new)| e.builder().select(this, new, old)).collect();
                e.write(op.result(0), &index, Scalar::from_parts(&parts));
                Vec::new()
            };
            builder::branch(e, guard, add, |_| Vec::new())
        });
    }

    fn emit(&self, e: &mut Emitter<'_>, op: OpView<'_>) {
        let [outside, sliding, within] = self.order();
        let (shape, windows) = (&op.result_type(0).shape, &op.operand_type(1).shape);
        let pick = |axes: &[usize], shape: &[u64]| axes.iter().map(|&a| shape[a]).collect();
        let outer: Vec<u64> = pick(&outside, shape);
        // Nothing is known of the rest's order, so that a range can only cut the outer loops.
        let ranged = outer.iter().any(|&extent| extent > 1);
        let mut rest: Vec<usize> = sliding.iter().chain(&within).copied().collect();
        rest.sort_unstable();
        let filled: Vec<u64> = pick(&rest, shape);
        let parallel: Vec<u64> = pick(&within, shape);
        nest(e, &outer, ranged, |e, outer| {
            let mut at = vec![Affine::constant(0); shape.len()];
            set(&mut at, &outside, outer);
            nest(e, &filled, false, |e, index| {
                let mut at = at.clone();
                set(&mut at, &rest, index);
                let init = e.read(op.operand(2), &[]);
                e.write(op.result(0), &at, init);
            });
            let extents: Vec<u64> = pick(&sliding, windows);
            in_order(e, &extents, &mut Vec::new(), &mut |e, index| {
                let mut at = at.clone();
                set(&mut at, &sliding, index);
                nest(e, &parallel, false, |e, index| {
                    set(&mut at, &within, index);
                    self.scatter(e, op, &at);
                });
            });
        });
    }
}

/// What [`SelectAndScatter::each`] calls: index in the window, number, carries.
type Each<'a> = dyn FnMut(&mut Emitter<'_>, &[Affine], &Affine, &[Reg]) -> Vec<Reg> + 'a;

fn set(at: &mut [Affine], axes: &[usize], index: &[Affine]) {
    for (&axis, index) in axes.iter().zip(index) {
        at[axis] = index.clone();
    }
}

/// Sequential loops over the extents.
fn in_order(
    e: &mut Emitter<'_>,
    extents: &[u64],
    index: &mut Vec<Affine>,
    body: &mut dyn FnMut(&mut Emitter<'_>, &[Affine]),
) {
    let Some((&extent, inner)) = extents.split_first() else { return body(e, index) };
    let options = LoopOptions { ranged: false, split: true };
    builder::reduce(e, extent as i64, options, LoopKind::Sequential, &[], |e, var, _| {
        index.push(var.clone());
        in_order(e, inner, index, body);
        index.pop();
        Vec::new()
    });
}

impl StructuredOp for SelectAndScatter {
    const NAMES: &'static [&'static str] = &["stablehlo.select_and_scatter"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        Ok(SelectAndScatter { window: window::read(attributes, &NAMES, rank)? })
    }

    fn attributes(&self) -> Attributes {
        window::write(&self.window, &NAMES)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("select_and_scatter", 3, 2)?;
        let [operand, source, init] = &signature.operands[..] else {
            unreachable!("there are three operands")
        };
        let shape = window::windows("select_and_scatter", &self.window, &operand.shape)?;
        let expected = TensorType::new(shape, operand.dtype);
        if *source != expected {
            return Err(format!(
                "select_and_scatter: the source is {source}, the windows over {operand} make \
                 {expected}"
            ));
        }
        let scalar = TensorType::scalar(operand.dtype);
        if *init != scalar {
            return Err(format!(
                "select_and_scatter: the initial value is {init}, expected {scalar}"
            ));
        }
        let results = [("select", TensorType::scalar(DType::I1)), ("scatter", scalar.clone())];
        for ((arguments, yields), (what, result)) in signature.regions.iter().zip(results) {
            let fits = arguments[..] == [scalar.clone(), scalar.clone()];
            if !fits || yields[..] != [result.clone()] {
                return Err(format!(
                    "select_and_scatter: {what} takes {arguments:?} and gives {yields:?}, expected \
                     two {scalar} and one {result}"
                ));
            }
        }
        Ok(vec![operand.clone()])
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let [operand, source, init] = operands else { unreachable!("there are three operands") };
        let ty = operand.ty();
        let parts = ty.dtype.parts();
        let bits = |l: &Literal, at: u64| -> Vec<u64> { (0..parts).map(|p| l.bits(at, p)).collect() };
        let mut select = ScalarRegion::new(frame, op.region(0));
        let mut scatter = ScalarRegion::new(frame, op.region(1));
        let mut out = bits(init, 0).repeat(ty.len() as usize);
        let strides = ty.strides();
        let extents: Vec<u64> = self.window.iter().map(|w| w.extent).collect();
        let mut index = vec![0; ty.rank()];
        for position in 0..source.ty().len() {
            let mut selected: Option<u64> = None;
            let mut inside = vec![0; extents.len()];
            loop {
                let at = (0..extents.len()).try_fold(0, |at, axis| {
                    let window = &self.window[axis];
                    let n = window.source(ty.shape[axis], index[axis], inside[axis])?;
                    Some(at + n * strides[axis])
                });
                if let Some(at) = at {
                    let mut keep = Vec::new();
                    if let Some(best) = selected {
                        let arguments = [bits(operand, best), bits(operand, at)].concat();
                        select.run(frame, &arguments, &mut keep)?;
                    }
                    if keep != [1] {
                        selected = Some(at);
                    }
                }
                if !advance(&mut inside, &extents) {
                    break;
                }
            }
            if let Some(best) = selected {
                let to = (best * parts) as usize..((best + 1) * parts) as usize;
                let arguments = [&out[to.clone()], &bits(source, position)].concat();
                let mut sum = Vec::new();
                scatter.run(frame, &arguments, &mut sum)?;
                out[to].copy_from_slice(&sum);
            }
            advance(&mut index, &source.ty().shape);
        }
        Ok(vec![Literal::from_bits(ty.clone(), &out)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let emit = move |e: &mut Emitter<'_>| self.emit(e, op);
        Lowering::Loops { updates: Vec::new(), emit: Box::new(emit) }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{check_function, check_program, program, tensor};
    use jaxrs_kernel::DType;

    fn pool(dtype: &str, [shape, source, extents, strides, padding]: [&str; 5]) -> String {
        let rank = extents.split(',').count();
        let (order, body) = match dtype {
            "i32" => ("SIGNED", "subtract"),
            _ => ("FLOAT", "add"),
        };
        format!(
            "(%x: tensor<{shape}{dtype}>, %s: tensor<{source}{dtype}>, %i: tensor<{dtype}>)
                -> tensor<{shape}{dtype}> {{
              %0 = \"stablehlo.select_and_scatter\"(%x, %s, %i) <{{
                padding = dense<{padding}> : tensor<{rank}x2xi64>,
                window_dimensions = array<i64: {extents}>,
                window_strides = array<i64: {strides}>}}> ({{
              ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):
                %1 = stablehlo.compare GE, %a, %b, {order}
                  : (tensor<{dtype}>, tensor<{dtype}>) -> tensor<i1>
                stablehlo.return %1 : tensor<i1>
              }}, {{
              ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):
                %1 = stablehlo.{body} %a, %b : tensor<{dtype}>
                stablehlo.return %1 : tensor<{dtype}>
              }}) : (tensor<{shape}{dtype}>, tensor<{source}{dtype}>, tensor<{dtype}>)
                -> tensor<{shape}{dtype}>
              return %0 : tensor<{shape}{dtype}>
            }}"
        )
    }

    #[test]
    fn kernels_agree_for_every_layout() {
        let forms = [
            ["2x6x6x3x", "2x3x3x3x", "1, 2, 2, 1", "1, 2, 2, 1", "0"],
            ["2x3x7x7x", "2x3x4x4x", "1, 1, 3, 3", "1, 1, 2, 2", "[[0,0],[0,0],[1,1],[1,1]]"],
            ["1x9x4x", "1x7x4x", "1, 3, 1", "1, 1, 1", "0"],
            ["7x3x", "2x3x", "5, 1", "2, 1", "0"],
            ["25x2x", "3x2x", "19, 1", "3, 1", "0"],
            ["2x2x", "6x2x", "1, 1", "1, 1", "[[2, 2], [0, 0]]"],
            ["4x", "4x", "1", "1", "0"],
            ["0x", "0x", "2", "1", "0"],
            ["6x2x4x", "3x2x2x", "2, 1, 2", "2, 1, 2", "0"],
        ];
        for form in forms {
            for dtype in ["f32", "i32", "bf16", "f64"] {
                check_program(&pool(dtype, form), 4);
            }
        }
    }

    #[test]
    fn the_first_of_equal_elements_is_selected() {
        let function = program(&pool("f32", ["5x", "3x", "3", "1", "0"]));
        let x = tensor(DType::F32, &[5], &[1., 4., 4., 2., 4.]);
        let source = tensor(DType::F32, &[3], &[10., 20., 30.]);
        let got = check_function(&function, &[x, source, tensor(DType::F32, &[], &[0.5])], 0.0);
        assert_eq!(got, [tensor(DType::F32, &[5], &[0.5, 30.5, 30.5, 0.5, 0.5])]);
    }
}
