//! `stablehlo.convolution`: sums of products under a sliding window, by StableHLO's general form.
//!
//! `precision_config` is read and dropped, as for `dot_general`.

mod rules;

use super::contraction::Arithmetic;
use super::window::{self, Names, WindowAxis};
use super::{OpView, Signature, StructuredOp};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::{Emitter, Lowering, Scalar};
use crate::types::{TensorType, advance};
use jaxrs_kernel::builder::{self, Build, Guard, LoopOptions};
use jaxrs_kernel::kernel::LoopKind;
use jaxrs_kernel::program::{self, Library, SpatialAxis};
use jaxrs_kernel::{Affine, DType, Reg};

const NAMES: Names<'_> = Names {
    op: "convolution",
    extents: None,
    strides: "window_strides",
    base_dilations: Some("lhs_dilation"),
    dilations: Some("rhs_dilation"),
};

/// Axes of a tensor of a convolution: the two special ones, then the spatial ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Axes {
    /// Batch; of the kernel: output features.
    pub batch: usize,
    /// Features; of the kernel: input features.
    pub feature: usize,
    /// The spatial axes.
    pub spatial: Vec<usize>,
}

/// A convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Axes of the input.
    pub input: Axes,
    /// Axes of the kernel.
    pub kernel: Axes,
    /// Axes of the result.
    pub output: Axes,
    /// The window along each spatial axis; its extents are the kernel's.
    pub window: Vec<WindowAxis>,
    /// Whether the window is reversed along each spatial axis.
    pub reversed: Vec<bool>,
    /// Groups of features.
    pub feature_groups: u64,
    /// Groups of batches.
    pub batch_groups: u64,
    /// The result's element type.
    pub result: DType,
}

/// StableHLO's names of the three tensors' axes.
const FIELDS: [[&str; 3]; 3] = [
    ["input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"],
    [
        "kernel_output_feature_dimension",
        "kernel_input_feature_dimension",
        "kernel_spatial_dimensions",
    ],
    ["output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"],
];

fn read_axes(fields: &mut Attributes, [batch, feature, spatial]: [&str; 3], rank: usize) -> Result<Axes, String> {
    let values = [fields.need_int(batch)?, fields.need_int(feature)?];
    let values = [&values[..], &fields.take_ints(spatial)?.unwrap_or_default()].concat();
    let axes = crate::attribute::axes(&values, rank, &format!("convolution: {batch}, {feature}, {spatial}"))?;
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..rank) {
        return Err(format!(
            "convolution: {batch}, {feature} and {spatial} are {axes:?}, expected each of {rank} axes \
             once"
        ));
    }
    Ok(Axes { batch: axes[0], feature: axes[1], spatial: axes[2..].to_vec() })
}

impl Convolution {
    fn arithmetic(&self, op: OpView<'_>) -> Arithmetic {
        let operands = [op.operand_type(0).dtype, op.operand_type(1).dtype];
        Arithmetic::new("convolution", operands, self.result).expect("infer has checked the types")
    }

    /// The window's element of the kernel for the one in order.
    fn flip(&self, axis: usize, inside: u64) -> u64 {
        if self.reversed[axis] { self.window[axis].extent - 1 - inside } else { inside }
    }

    /// The result's element at an index, as loops over the window and the input features.
    pub fn element(&self, e: &mut Emitter<'_>, op: OpView<'_>, index: &[Affine]) -> Scalar {
        let (lhs, rhs) = (op.operand_type(0), op.operand_type(1));
        let outputs = rhs.shape[self.kernel.batch] as i64;
        let inputs = rhs.shape[self.kernel.feature] as i64;
        let feature = &index[self.output.feature];
        let b = e.builder();
        let mut left = vec![Affine::constant(0); lhs.rank()];
        left[self.input.batch] = index[self.output.batch].clone();
        if self.batch_groups > 1 {
            let group = b.floor_div(feature, (outputs / self.batch_groups as i64).max(1));
            let batches = (lhs.shape[self.input.batch] / self.batch_groups) as i64;
            left[self.input.batch] = left[self.input.batch].add(&group.scale(batches));
        }
        let mut first = Affine::constant(0);
        if self.feature_groups > 1 {
            let group = b.floor_div(feature, (outputs / self.feature_groups as i64).max(1));
            first = group.scale(inputs);
        }
        let mut right = vec![Affine::constant(0); rhs.rank()];
        right[self.kernel.batch] = feature.clone();
        let cx = Context { op, index, first, arithmetic: self.arithmetic(op) };
        let zero: Vec<Reg> = cx.arithmetic.zero(e.builder()).iter().map(|z| z.0).collect();
        // Without products no loop may be left around nothing.
        let some = inputs > 0 && self.window.iter().all(|window| window.extent > 0);
        let sides = [&mut left, &mut right];
        let sum = if some { self.nest(e, &cx, sides, 0, Guard::Always, &zero) } else { zero };
        cx.arithmetic.finish(e.builder(), &sum)
    }

    /// Loops over the spatial axes from `depth` on, then over the input features.
    fn nest(
        &self,
        e: &mut Emitter<'_>,
        cx: &Context<'_>,
        [left, right]: [&mut Vec<Affine>; 2],
        depth: usize,
        guard: Guard,
        sum: &[Reg],
    ) -> Vec<Reg> {
        let (lhs, rhs) = (cx.op.operand_type(0), cx.op.operand_type(1));
        let add = cx.arithmetic.sum();
        let carries: Vec<_> = sum.iter().map(|&s| (s, Some(add))).collect();
        let options = LoopOptions { ranged: false, split: true };
        if let Some(window) = self.window.get(depth) {
            let extent = window.extent as i64;
            return builder::reduce(e, extent, options, LoopKind::Reduce, &carries, |e, var, sum| {
                let axis = self.input.spatial[depth];
                let at = &cx.index[self.output.spatial[depth]];
                let (index, there) = window.locate(e.builder(), lhs.shape[axis], at, var);
                left[axis] = index;
                right[self.kernel.spatial[depth]] = if self.reversed[depth] {
                    var.scale(-1).offset(extent - 1)
                } else {
                    var.clone()
                };
                let guard = e.builder().both(guard, there);
                self.nest(e, cx, [left, right], depth + 1, guard, sum)
            });
        }
        let inputs = rhs.shape[self.kernel.feature] as i64;
        builder::reduce(e, inputs, options, LoopKind::Reduce, &carries, |e, var, sum| {
            left[self.input.feature] = cx.first.add(var);
            right[self.kernel.feature] = var.clone();
            let product = |e: &mut Emitter<'_>| {
                let x = e.read(cx.op.operand(0), left);
                let y = e.read(cx.op.operand(1), right);
                cx.arithmetic.product(e.builder(), x, y)
            };
            let zero = |e: &mut Emitter<'_>| -> Vec<Reg> {
                cx.arithmetic.zero(e.builder()).iter().map(|z| z.0).collect()
            };
            let product = builder::branch(e, guard, product, zero);
            let parts = sum.iter().zip(product);
            parts.map(|(&sum, x)| e.builder().binary(add, sum, x)).collect()
        })
    }
}

/// What the loops of an element share.
struct Context<'a> {
    op: OpView<'a>,
    index: &'a [Affine],
    /// The first input feature of the group.
    first: Affine,
    arithmetic: Arithmetic,
}

impl StructuredOp for Convolution {
    const NAMES: &'static [&'static str] = &["stablehlo.convolution"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        signature: &Signature,
    ) -> Result<Self, String> {
        let result = signature.declared("convolution")?.dtype;
        attributes.take("precision_config");
        let [lhs, rhs] = &signature.operands[..] else {
            let found = signature.operands.len();
            return Err(format!("convolution: expected 2 operands, found {found}"));
        };
        let rank = lhs.rank();
        if rank < 2 || rhs.rank() != rank {
            return Err(format!(
                "convolution: expected operands of one rank of at least 2, found {lhs} and {rhs}"
            ));
        }
        let mut fields = attributes.need_fields("dimension_numbers")?;
        let input = read_axes(&mut fields, FIELDS[0], rank)?;
        let kernel = read_axes(&mut fields, FIELDS[1], rank)?;
        let output = read_axes(&mut fields, FIELDS[2], rank)?;
        let mut window = window::read(attributes, &NAMES, rank - 2)?;
        for (window, &axis) in window.iter_mut().zip(&kernel.spatial) {
            window.extent = rhs.shape[axis];
        }
        let reversed = attributes.take_ints("window_reversal")?;
        let reversed = reversed.unwrap_or_else(|| vec![0; rank - 2]);
        if reversed.len() != rank - 2 {
            let found = reversed.len();
            return Err(format!(
                "convolution: window_reversal has {found} entries, expected {}",
                rank - 2
            ));
        }
        let mut groups = |name: &str| {
            let count = attributes.take_int(name)?.unwrap_or(1);
            u64::try_from(count).ok().filter(|&c| c > 0).ok_or_else(|| {
                format!("convolution: {name} is {count}, expected at least 1")
            })
        };
        Ok(Convolution {
            feature_groups: groups("feature_group_count")?,
            batch_groups: groups("batch_group_count")?,
            reversed: reversed.iter().map(|&r| r != 0).collect(),
            input,
            kernel,
            output,
            window,
            result,
        })
    }

    fn attributes(&self) -> Attributes {
        let ints = |axes: &[usize]| axes.iter().map(|&a| a as i64).collect::<Vec<i64>>();
        let mut fields = Attributes::new();
        for (axes, [batch, feature, spatial]) in
            [&self.input, &self.kernel, &self.output].into_iter().zip(FIELDS)
        {
            fields = fields
                .with_int(batch, axes.batch as i64)
                .with_int(feature, axes.feature as i64)
                .with_ints(spatial, &ints(&axes.spatial));
        }
        let mut attributes = window::write(&self.window, &NAMES);
        let reversed = self.reversed.iter().map(|&r| i64::from(r)).collect();
        attributes = attributes
            .with("dimension_numbers", Attribute::Struct("stablehlo.conv".into(), fields))
            .with("window_reversal", Attribute::Ints(reversed, "i1".into()))
            .with_int("batch_group_count", self.batch_groups as i64);
        attributes.with_int("feature_group_count", self.feature_groups as i64)
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("convolution", 2, 0)?;
        let (lhs, rhs) = (&signature.operands[0], &signature.operands[1]);
        Arithmetic::new("convolution", [lhs.dtype, rhs.dtype], self.result)?;
        let rank = self.window.len() + 2;
        let extents = self.kernel.spatial.iter().zip(&self.window);
        let fits = lhs.rank() == rank
            && rhs.rank() == rank
            && extents.into_iter().all(|(&axis, window)| rhs.shape[axis] == window.extent);
        if !fits {
            return Err(format!("convolution: made for other operands than {lhs} and {rhs}"));
        }
        let (features, batches) = (self.feature_groups, self.batch_groups);
        if features > 1 && batches > 1 {
            return Err(format!(
                "convolution: feature_group_count is {features} and batch_group_count {batches}; \
                 one of them must be 1"
            ));
        }
        let outputs = rhs.shape[self.kernel.batch];
        for (what, size, groups) in [
            ("input features", lhs.shape[self.input.feature], features),
            ("output features", outputs, features),
            ("batches", lhs.shape[self.input.batch], batches),
            ("output features", outputs, batches),
        ] {
            if size % groups != 0 {
                return Err(format!("convolution: {size} {what} do not make {groups} groups"));
            }
        }
        let inputs = rhs.shape[self.kernel.feature];
        if inputs != lhs.shape[self.input.feature] / features {
            return Err(format!(
                "convolution: the kernel has {inputs} input features, the input {} in {features} \
                 group(s)",
                lhs.shape[self.input.feature]
            ));
        }
        let spatial: Vec<u64> = self.input.spatial.iter().map(|&axis| lhs.shape[axis]).collect();
        let windows = window::windows("convolution", &self.window, &spatial)?;
        let mut shape = vec![0; rank];
        shape[self.output.batch] = lhs.shape[self.input.batch] / batches;
        shape[self.output.feature] = outputs;
        for (&axis, count) in self.output.spatial.iter().zip(windows) {
            shape[axis] = count;
        }
        TensorType::checked("convolution", shape, self.result).map(|ty| vec![ty])
    }

    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (lhs, rhs, out) = (operands[0].ty(), operands[1].ty(), op.result_type(0));
        let (ls, rs, os) = (lhs.strides(), rhs.strides(), out.strides());
        let extents: Vec<u64> = self.window.iter().map(|w| w.extent).collect();
        let (inputs, outputs) = (rhs.shape[self.kernel.feature], rhs.shape[self.kernel.batch]);
        let batches = lhs.shape[self.input.batch] / self.batch_groups;
        let mut terms = |position: usize, add: &mut dyn FnMut(usize, usize)| {
            let at = |axis: usize| position as u64 / os[axis] % out.shape[axis];
            let feature = at(self.output.feature);
            let batch = at(self.output.batch)
                + feature / (outputs / self.batch_groups).max(1) * batches;
            let first = feature / (outputs / self.feature_groups).max(1) * inputs;
            let left = batch * ls[self.input.batch] + first * ls[self.input.feature];
            let right = feature * rs[self.kernel.batch];
            let windows: Vec<u64> = self.output.spatial.iter().map(|&axis| at(axis)).collect();
            let mut inside = vec![0; extents.len()];
            while !extents.contains(&0) {
                let (mut x, mut y) = (Some(left), right);
                for (n, window) in self.window.iter().enumerate() {
                    let axis = self.input.spatial[n];
                    let source = window.source(lhs.shape[axis], windows[n], inside[n]);
                    x = x.zip(source).map(|(x, source)| x + source * ls[axis]);
                    y += self.flip(n, inside[n]) * rs[self.kernel.spatial[n]];
                }
                if let Some(x) = x {
                    for n in 0..inputs {
                        let x = x + n * ls[self.input.feature];
                        let y = y + n * rs[self.kernel.feature];
                        add(x as usize, y as usize);
                    }
                }
                if !advance(&mut inside, &extents) {
                    break;
                }
            }
        };
        Ok(vec![self.arithmetic(op).evaluate(&operands[0], &operands[1], out, &mut terms)])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        let arithmetic = self.arithmetic(op);
        let (lhs, rhs) = (op.operand_type(0), op.operand_type(1));
        let terms = self.window.iter().fold(rhs.shape[self.kernel.feature], |product, window| {
            product.saturating_mul(window.extent)
        });
        if !arithmetic.in_library() || terms == 0 {
            return Lowering::Elements {
                cost: arithmetic.cost(terms),
                element: Box::new(move |e, _, index| self.element(e, op, index)),
            };
        }
        let spatial = self.window.iter().enumerate().map(|(n, window)| SpatialAxis {
            axis: [self.input.spatial[n], self.kernel.spatial[n], self.output.spatial[n]],
            stride: window.stride,
            pad_low: window.low,
            pad_high: window.high,
            lhs_dilation: window.base_dilation,
            rhs_dilation: window.dilation,
            reverse: self.reversed[n],
        });
        Lowering::Library(Library::Convolution(program::Convolution {
            operand_types: [lhs.dtype, rhs.dtype],
            out: self.result,
            shapes: [lhs.shape.clone(), rhs.shape.clone(), op.result_type(0).shape.clone()],
            batch: [self.input.batch, self.output.batch],
            features: [
                self.input.feature,
                self.kernel.feature,
                self.kernel.batch,
                self.output.feature,
            ],
            spatial: spatial.collect(),
            feature_groups: self.feature_groups,
            batch_groups: self.batch_groups,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::ElementCost;
    use crate::ops::Op;
    use crate::testing::{assert_close, lowered_as, only_op, program, small, tensor};
    use crate::{Function, interpret};

    fn convolve(form: &str, groups: &str, [lhs, rhs, out]: [&str; 3]) -> String {
        format!(
            "(%x: tensor<{lhs}>, %k: tensor<{rhs}>) -> tensor<{out}> {{
              %0 = stablehlo.convolution(%x, %k) {form} {{{groups},
                precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}}
                : (tensor<{lhs}>, tensor<{rhs}>) -> tensor<{out}>
              return %0 : tensor<{out}>
            }}"
        )
    }

    const ONE: &str = "batch_group_count = 1 : i64, feature_group_count = 1 : i64";

    fn check(function: &Function, operands: &[Literal]) -> Vec<Literal> {
        let expected = interpret::call(None, function, operands).expect("it evaluates");
        let op = only_op(function);
        let Op::Convolution(this) = &op.data().op else { panic!("a convolution") };
        let element = Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(move |e, _, index| this.element(e, op, index)),
        };
        assert_close(&lowered_as(function, operands, element)[0], &expected[0], 0.0);
        expected
    }

    #[test]
    fn elements_agree_for_every_form() {
        let forms = [
            ("dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], \
              pad = [[1, 1], [1, 1]]}", ONE, ["2x5x4x3x", "3x3x3x2x", "2x5x4x2x"]),
            ("dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], \
              pad = [[1, 1], [0, 1]]}", "batch_group_count = 1 : i64, feature_group_count = 2 : i64",
             ["2x4x6x6x", "6x2x3x3x", "2x6x3x3x"]),
            ("dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], \
              pad = [[1, 1], [-1, 2]], lhs_dilate = [2, 3], rhs_dilate = [2, 1], \
              reverse = [true, false]}", ONE, ["1x3x2x2x", "2x2x2x3x", "1x5x4x3x"]),
            ("dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {stride = [1, 1], \
              pad = [[1, 1], [1, 1]]}", ONE, ["3x4x4x2x", "3x4x4x5x", "3x3x2x5x"]),
            ("dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], pad = [[0, 0]]}",
             "batch_group_count = 2 : i64, feature_group_count = 1 : i64",
             ["4x5x3x", "2x3x6x", "2x4x6x"]),
            ("dim_numbers = [b, f]x[i, o]->[b, f], window = {}", ONE, ["3x4x", "4x2x", "3x2x"]),
            ("dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[2, 2]]}", ONE,
             ["2x0x3x", "2x3x2x", "2x3x2x"]),
        ];
        for (n, (form, groups, shapes)) in forms.into_iter().enumerate() {
            for dtypes in [
                ["f32", "f32", "f32"], ["bf16", "bf16", "bf16"], ["i8", "i8", "i32"],
                ["i1", "i1", "i1"], ["complex<f32>", "complex<f32>", "complex<f32>"],
            ] {
                let [lhs, rhs, out] = [0, 1, 2].map(|n| format!("{}{}", shapes[n], dtypes[n]));
                let function = program(&convolve(form, groups, [&lhs, &rhs, &out]));
                let operand = |p: usize| {
                    let ty = function.ty(function.parameters()[p]);
                    small(ty.dtype, &ty.shape, (2 * n + p) as u64)
                };
                check(&function, &[operand(0), operand(1)]);
            }
        }
    }

    #[test]
    fn strides_and_dilations_skip_elements() {
        let form = "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], \
                    pad = [[1, 0]], rhs_dilate = [2]}";
        let function = program(&convolve(form, ONE, ["1x5x1xf32", "2x1x1xf32", "1x2x1xf32"]));
        let x = tensor(DType::F32, &[1, 5, 1], &[1., 2., 3., 4., 5.]);
        let kernel = tensor(DType::F32, &[2, 1, 1], &[10., 1.]);
        // Windows begin at -1 and 1 and take every other element: (0, 2), (2, 4).
        assert_eq!(check(&function, &[x, kernel]), [tensor(DType::F32, &[1, 2, 1], &[2., 24.])]);
    }

    #[test]
    fn faults_are_told() {
        let check = |form: &str, groups: &str, shapes: [&str; 3], expected: &str| {
            let source = format!("func.func public @main{}", convolve(form, groups, shapes));
            let message = match crate::text::parse(&source, "test") {
                Ok(module) => format!("{:?}", crate::verify::verify(&module, "test")),
                Err(errors) => errors.to_string(),
            };
            assert!(message.contains(expected), "{message}");
        };
        let form = "dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]}";
        let shapes = ["1x5x3xf32", "2x2x4xf32", "1x4x4xf32"];
        check(form, ONE, shapes, "the kernel has 2 input features, the input 3 in 1 group(s)");
        let groups = "batch_group_count = 1 : i64, feature_group_count = 2 : i64";
        check(form, groups, shapes, "3 input features do not make 2 groups");
        let zero = form.replace("stride = [1]", "stride = [0]");
        check(&zero, ONE, ["1x5x2xf32", "2x2x4xf32", "1x4x4xf32"], "the stride is 0");
    }
}
