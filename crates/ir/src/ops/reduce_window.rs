//! `stablehlo.reduce_window`: combines the elements under a sliding window with a region.
//!
//! Padding and the holes of a dilated tensor count as the initial value. A window as long as its
//! axis that ends (or begins) at its element is a running sum, product, minimum, ...: JAX exports
//! `cumsum` and its kin like this. It is computed in one pass ([`ReduceWindow::scan`]), as
//! StableHLO lets a reduction put its initial values anywhere.

pub(super) mod rules;

use super::combiner::{Combiner, check_body, check_operands, pack};
use super::reduce::{element, unzip};
use super::window::{self, Names, WindowAxis};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::Attributes;
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{ElementCost, Emitter, Lowering, Scalar, nest};
use crate::types::{TensorType, advance};
use jaxrs_kernel::builder::{self, Build, Guard, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::{Affine, Reg};

const NAMES: Names<'_> = Names {
    op: "reduce_window",
    extents: Some("window_dimensions"),
    strides: "window_strides",
    base_dilations: Some("base_dilations"),
    dilations: Some("window_dilations"),
};

/// Windows of so many elements are unrolled, so that the loops over their places split where the
/// padding ends.
pub(super) const UNROLLED: u64 = 16;

/// Rows of a running reduction that are taken at once, at most: enough to hide how long an
/// instruction takes, few enough to stay in one set of the cache.
const ROWS: u64 = 4;

/// A windowed reduction of one or several operands of one shape.
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceWindow {
    /// The window along each axis.
    pub window: Vec<WindowAxis>,
}

/// A window that makes a running reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The axis it runs along.
    pub axis: usize,
    /// Whether it runs from the last element to the first.
    pub reverse: bool,
}

impl ReduceWindow {
    /// The running reduction that the op is, if it is one.
    pub fn scan(&self, op: OpView<'_>) -> Option<Scan> {
        let shape = &op.operand_type(0).shape;
        let mut along = (0..shape.len()).filter(|&axis| self.window[axis] != WindowAxis::POINT);
        let (axis, None) = (along.next()?, along.next()) else { return None };
        let extent = shape[axis];
        let last = i64::try_from(extent).ok()?.checked_sub(1)?;
        let ending = WindowAxis { extent, low: last, ..WindowAxis::POINT };
        let beginning = WindowAxis { extent, high: last, ..WindowAxis::POINT };
        let reverse = match self.window[axis] {
            window if window == ending => false,
            window if window == beginning => true,
            _ => return None,
        };
        let inits = &op.data().operands[op.data().operands.len() / 2..];
        Combiner::by_steps(op.function, op.region(0))
            .keeps(op.function, inits)
            .then_some(Scan { axis, reverse })
    }

    fn elements(&self) -> u64 {
        self.window.iter().fold(1, |product, axis| product.saturating_mul(axis.extent))
    }

    /// Takes the window's elements from axis `depth` on into the accumulators.
    fn take(
        &self,
        e: &mut Emitter<'_>,
        cx: &Context<'_>,
        inside: &mut Vec<Affine>,
        depth: usize,
        values: &[Reg],
    ) -> Vec<Reg> {
        let Some(window) = self.window.get(depth) else {
            let (at, guard) = self.locate(e, cx, inside);
            if guard == Guard::Never && cx.neutral {
                return values.to_vec();
            }
            let elements = Self::read(e, cx, &at, guard);
            return cx.combiner.emit(e, values, &elements);
        };
        if self.elements() <= UNROLLED {
            return (0..window.extent as i64).fold(values.to_vec(), |values, n| {
                inside[depth] = Affine::constant(n);
                self.take(e, cx, inside, depth + 1, &values)
            });
        }
        let options = LoopOptions { ranged: false, split: true };
        let (kind, carries) = (cx.combiner.kind(), cx.combiner.carries(values));
        builder::reduce(e, window.extent as i64, options, kind, &carries, |e, var, values| {
            inside[depth] = var.clone();
            self.take(e, cx, inside, depth + 1, values)
        })
    }

    /// The operands' index under an element of the window, where there is one.
    fn locate(
        &self,
        e: &mut Emitter<'_>,
        cx: &Context<'_>,
        inside: &[Affine],
    ) -> (Vec<Affine>, Guard) {
        let shape = &cx.op.operand_type(0).shape;
        let (mut at, mut guard) = (Vec::new(), Guard::Always);
        for (axis, window) in self.window.iter().enumerate() {
            let b = e.builder();
            let (index, there) = window.locate(b, shape[axis], &cx.index[axis], &inside[axis]);
            at.push(index);
            guard = b.both(guard, there);
        }
        (at, guard)
    }

    /// The operands' elements at an index, the initial values where there are none.
    fn read(e: &mut Emitter<'_>, cx: &Context<'_>, at: &[Affine], guard: Guard) -> Vec<Scalar> {
        let read = |e: &mut Emitter<'_>| {
            let operands = 0..cx.inits.len();
            pack(&operands.map(|n| e.read(cx.op.operand(n), at)).collect::<Vec<Scalar>>())
        };
        let parts = builder::branch(e, guard, read, |_| pack(cx.inits));
        cx.combiner.unpack(&parts)
    }

    /// The loops of a running reduction. Where the body is one instruction and the axis the innermost
    /// one, several rows are taken at once, as each waits for its own last result.
    fn emit_scan(scan: Scan, e: &mut Emitter<'_>, op: OpView<'_>) {
        let operands = op.data().operands.len() / 2;
        let combiner = Combiner::by_steps(op.function, op.region(0));
        let mut shape = op.operand_type(0).shape.clone();
        let extent = std::mem::replace(&mut shape[scan.axis], 1) as i64;
        let rows_axis = (0..shape.len()).rev().find(|&axis| shape[axis] > 1);
        let (rows_axis, rows) = match rows_axis {
            Some(axis) if axis < scan.axis && combiner.kind() == LoopKind::Reduce => {
                let divides = |rows: &u64| shape[axis].is_multiple_of(*rows);
                (axis, (1..=ROWS).rev().find(divides).unwrap_or(1))
            }
            _ => (0, 1),
        };
        if rows > 1 {
            shape[rows_axis] /= rows;
        }
        nest(e, &shape, true, |e, index| {
            let inits: Vec<Scalar> =
                (0..operands).map(|n| e.read(op.operand(operands + n), &[])).collect();
            let inits = pack(&inits);
            let carries: Vec<_> =
                inits.repeat(rows as usize).into_iter().map(|init| (init, None)).collect();
            let (options, kind) = (LoopOptions::default(), LoopKind::Sequential);
            builder::reduce(e, extent, options, kind, &carries, |e, var, values| {
                let mut at = index.to_vec();
                at[scan.axis] =
                    if scan.reverse { var.scale(-1).offset(extent - 1) } else { var.clone() };
                let mut next = Vec::new();
                for (row, values) in values.chunks(inits.len()).enumerate() {
                    if rows > 1 {
                        at[rows_axis] = index[rows_axis].scale(rows as i64).offset(row as i64);
                    }
                    next.extend(Self::emit_step(scan, e, op, &combiner, &at, values));
                }
                next
            });
        });
    }

    /// Takes the elements at an index into the accumulators and writes them there.
    fn emit_step(
        scan: Scan,
        e: &mut Emitter<'_>,
        op: OpView<'_>,
        combiner: &Combiner,
        at: &[Affine],
        values: &[Reg],
    ) -> Vec<Reg> {
        let operands = op.data().operands.len() / 2;
        let elements: Vec<Scalar> = (0..operands).map(|n| e.read(op.operand(n), at)).collect();
        let next = if scan.reverse {
            combiner.emit_before(e, values, &elements)
        } else {
            combiner.emit(e, values, &elements)
        };
        for (n, scalar) in combiner.finish(e.builder(), &next).into_iter().enumerate() {
            e.write(op.result(n), at, scalar);
        }
        next
    }

    /// The results' bits of a running reduction, in the interpreter.
    fn evaluate_scan(
        scan: Scan,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        inputs: &[Literal],
        init: &[u64],
    ) -> Result<Vec<u64>, String> {
        let mut folder = Combiner::by_steps(op.function, op.region(0)).folder(frame);
        let (shape, len) = (&op.operand_type(0).shape, op.operand_type(0).len());
        let stride: u64 = shape[scan.axis + 1..].iter().product();
        let extent = shape[scan.axis];
        let mut out = vec![0; len as usize * init.len()];
        for start in (0..len).filter(|start| (start / stride).is_multiple_of(extent)) {
            let mut values = init.to_vec();
            for n in 0..extent {
                let n = if scan.reverse { extent - 1 - n } else { n };
                let position = start + n * stride;
                let mut elements = element(inputs, position);
                if scan.reverse {
                    folder.step(frame, &mut elements, &values)?;
                    values = elements;
                } else {
                    folder.step(frame, &mut values, &elements)?;
                }
                let at = position as usize * init.len();
                out[at..at + init.len()].copy_from_slice(&values);
                folder.finish(&mut out[at..at + init.len()]);
            }
        }
        Ok(out)
    }
}

/// What reading an element of a window needs.
struct Context<'a> {
    op: OpView<'a>,
    combiner: &'a Combiner,
    inits: &'a [Scalar],
    index: &'a [Affine],
    /// Whether taking in an initial value once more changes nothing.
    neutral: bool,
}

impl StructuredOp for ReduceWindow {
    const NAMES: &'static [&'static str] = &["stablehlo.reduce_window"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let rank = signature.operands.first().map_or(0, TensorType::rank);
        Ok(ReduceWindow { window: window::read(attributes, &NAMES, rank)? })
    }

    fn attributes(&self) -> Attributes {
        window::write(&self.window, &NAMES)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        let (inputs, dtypes) = check_operands("reduce_window", &signature.operands)?;
        signature.expect("reduce_window", signature.operands.len(), 1)?;
        let shape = window::windows("reduce_window", &self.window, &inputs[0].shape)?;
        check_body("reduce_window", &signature.regions[0], &dtypes)?;
        let ty = |dtype| TensorType::checked("reduce_window", shape.clone(), dtype);
        dtypes.into_iter().map(ty).collect()
    }

    fn evaluate(
        &self,
        frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let init = element(inits, 0);
        if let Some(scan) = self.scan(op) {
            return Ok(unzip(op, &Self::evaluate_scan(scan, frame, op, inputs, &init)?));
        }
        let mut folder = Combiner::by_steps(op.function, op.region(0)).folder(frame);
        let (shape, strides) = (&inputs[0].ty().shape, inputs[0].ty().strides());
        let extents: Vec<u64> = self.window.iter().map(|w| w.extent).collect();
        let result = op.result_type(0);
        let (mut index, mut out) = (vec![0; result.rank()], Vec::new());
        for _ in 0..result.len() {
            let mut values = init.clone();
            let mut inside = vec![0; extents.len()];
            loop {
                let source = (0..extents.len()).try_fold(0, |at, axis| {
                    let window = &self.window[axis];
                    let n = window.source(shape[axis], index[axis], inside[axis])?;
                    Some(at + n * strides[axis])
                });
                let elements = source.map_or_else(|| init.clone(), |at| element(inputs, at));
                folder.step(frame, &mut values, &elements)?;
                if !advance(&mut inside, &extents) {
                    break;
                }
            }
            folder.finish(&mut values);
            out.extend(values);
            advance(&mut index, &result.shape);
        }
        Ok(unzip(op, &out))
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        if let Some(scan) = self.scan(op) {
            let emit = move |e: &mut Emitter<'_>| Self::emit_scan(scan, e, op);
            return Lowering::Loops { updates: Vec::new(), emit: Box::new(emit) };
        }
        let operands = op.data().operands.len() / 2;
        Lowering::Elements {
            cost: ElementCost::Loop(self.elements()),
            element: Box::new(move |e, number, index| {
                if let Some(known) = e.known(op.result(number), index) {
                    return known;
                }
                let inits: Vec<Scalar> =
                    (0..operands).map(|n| e.read(op.operand(operands + n), &[])).collect();
                let combiner = &Combiner::by_steps(op.function, op.region(0));
                let init_values = &op.data().operands[operands..];
                let neutral = combiner.kind() == LoopKind::Reduce
                    && combiner.keeps(op.function, init_values);
                let cx = Context { op, combiner, inits: &inits, index, neutral };
                let mut inside = vec![Affine::constant(0); index.len()];
                let values = self.take(e, &cx, &mut inside, 0, &pack(&inits));
                let scalars = combiner.finish(e.builder(), &values);
                for (n, &scalar) in scalars.iter().enumerate() {
                    e.remember(op.result(n), index, scalar);
                }
                scalars[number]
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Op;
    use crate::testing::{check_function, check_program, only_op, program, small, tensor};
    use jaxrs_kernel::DType;

    /// Shape of the operand and the result, extents, strides, base and window dilations, padding.
    type Form = [&'static str; 7];

    fn windows(op: &str, dtype: &str, init: &str, form: Form) -> String {
        let [shape, result, extents, strides, base, dilations, padding] = form;
        let rank = extents.split(',').count();
        format!(
            "(%x: tensor<{shape}{dtype}>) -> tensor<{result}{dtype}> {{
              %i = stablehlo.constant dense<{init}> : tensor<{dtype}>
              %0 = \"stablehlo.reduce_window\"(%x, %i) <{{
                window_dimensions = array<i64: {extents}>, window_strides = array<i64: {strides}>,
                base_dilations = array<i64: {base}>, window_dilations = array<i64: {dilations}>,
                padding = dense<{padding}> : tensor<{rank}x2xi64>}}> ({{
              ^bb0(%a: tensor<{dtype}>, %b: tensor<{dtype}>):
                %1 = stablehlo.{op} %a, %b : tensor<{dtype}>
                stablehlo.return %1 : tensor<{dtype}>
              }}) : (tensor<{shape}{dtype}>, tensor<{dtype}>) -> tensor<{result}{dtype}>
              return %0 : tensor<{result}{dtype}>
            }}"
        )
    }

    /// Moves the initial value's constant out of the function: its value becomes a parameter.
    fn with_parameter(text: &str) -> String {
        let mut lines: Vec<&str> = text.lines().collect();
        let constant = lines.remove(1);
        let dtype = constant.rsplit("tensor<").next().and_then(|t| t.strip_suffix('>')).expect("a type");
        lines.join("\n").replacen(") ->", &format!(", %i: tensor<{dtype}>) ->"), 1)
    }

    const FORMS: [Form; 9] = [
        ["4x9x", "4x3x", "1, 3", "1, 3", "1, 1", "1, 1", "[[0, 0], [0, 0]]"],
        ["4x9x", "4x9x", "1, 3", "1, 1", "1, 1", "1, 1", "[[0, 0], [1, 1]]"],
        ["7x9x", "4x5x", "3, 3", "2, 2", "1, 1", "1, 1", "[[1, 1], [1, 1]]"],
        ["3x2x", "2x2x", "2, 1", "4, 1", "2, 1", "3, 1", "[[2, 1], [0, 0]]"],
        ["5x4x", "5x3x", "2, 2", "2, 3", "3, 2", "2, 1", "[[-1, 0], [2, 1]]"],
        ["20x", "3x", "18", "1", "1", "1", "0"],
        ["20x", "1x", "20", "1", "1", "1", "0"],
        ["5x", "0x", "9", "1", "1", "1", "0"],
        ["0x", "3x", "2", "1", "1", "1", "[[2, 2]]"],
    ];

    #[test]
    fn kernels_agree_for_every_form() {
        for form in FORMS {
            for (op, dtype) in [
                ("add", "f32"), ("maximum", "i32"), ("multiply", "bf16"), ("or", "i1"),
                ("subtract", "i32"), ("add", "complex<f32>"),
            ] {
                check_program(&with_parameter(&windows(op, dtype, "", form)), 3);
            }
        }
    }

    #[test]
    fn padding_counts_as_the_initial_value() {
        let form = ["3x2x", "2x2x", "2, 1", "4, 1", "2, 1", "3, 1", "[[2, 1], [0, 0]]"];
        let function = program(&with_parameter(&windows("add", "i64", "", form)));
        let x = tensor(DType::I64, &[3, 2], &[1., 2., 3., 4., 5., 6.]);
        let sum = |init: f64| check_function(&function, &[x.clone(), tensor(DType::I64, &[], &[init])], 0.0);
        assert_eq!(sum(0.0), [tensor(DType::I64, &[2, 2], &[0., 0., 3., 4.])]);
        assert_eq!(sum(10.0), [tensor(DType::I64, &[2, 2], &[30., 30., 23., 24.])]);
    }

    fn scan_of(function: &crate::Function) -> Option<Scan> {
        let op = only_op(function);
        let Op::ReduceWindow(this) = &op.data().op else { panic!("a reduce_window") };
        this.scan(op)
    }

    /// Checks a running reduction against its kernel and against the windowed reduction, which it
    /// is where the initial value is a parameter.
    fn check_scan(text: &str, expected: Scan, init: f64) {
        let (scan, plain) = (program(text), program(&with_parameter(text)));
        assert_eq!(scan_of(&scan), Some(expected), "{text}");
        assert_eq!(scan_of(&plain), None);
        let ty = scan.ty(scan.parameters()[0]);
        let x = small(ty.dtype, &ty.shape, 9);
        let parts = [init, 0.0];
        let init = tensor(ty.dtype, &[], &parts[..ty.dtype.parts() as usize]);
        let got = check_function(&scan, std::slice::from_ref(&x), 0.0);
        let expected = check_function(&plain, &[x, init], 0.0);
        crate::testing::assert_close(&got[0], &expected[0], 0.0);
    }

    #[test]
    fn running_reductions_are_recognised() {
        let forward = ["3x5x", "3x5x", "1, 5", "1, 1", "1, 1", "1, 1", "[[0, 0], [4, 0]]"];
        let backward = ["3x5x", "3x5x", "3, 1", "1, 1", "1, 1", "1, 1", "[[0, 2], [0, 0]]"];
        let rows = ["4x1x5x", "4x1x5x", "1, 1, 5", "1, 1, 1", "1, 1, 1", "1, 1, 1",
            "[[0, 0], [0, 0], [0, 4]]"];
        let along_2 = Scan { axis: 2, reverse: true };
        let (along_1, along_0) = (Scan { axis: 1, reverse: false }, Scan { axis: 0, reverse: true });
        for (op, dtype, init, value) in [
            ("add", "f32", "0.0", 0.0),
            ("add", "bf16", "0.0", 0.0),
            ("multiply", "f16", "1.0", 1.0),
            ("maximum", "i8", "-128", -128.0),
            ("minimum", "f64", "0x7FF0000000000000", f64::INFINITY),
            ("add", "complex<f32>", "(0.0, 0.0)", 0.0),
        ] {
            check_scan(&windows(op, dtype, init, forward), along_1, value);
            check_scan(&windows(op, dtype, init, backward), along_0, value);
            check_scan(&windows(op, dtype, init, rows), along_2, value);
        }
        // An initial value that is not neutral counts as often as it stands under the window.
        assert_eq!(scan_of(&program(&windows("add", "f32", "1.0", forward))), None);
    }
}
