//! `stablehlo.fft`: Fourier transforms of the last one to three axes.

use super::{OpView, Signature, StructuredOp, signed, unsigned};
use crate::attribute::{Attribute, Attributes};
use crate::interpret::Frame;
use crate::literal::Literal;
use crate::lower::Lowering;
use crate::transform::{Batch, Jvp, Rule, Rules, Transposition};
use crate::types::TensorType;
use jaxrs_kernel::DType;
use jaxrs_kernel::program::{self, FftKind, Library};

/// A Fourier transform.
#[derive(Clone, Debug, PartialEq)]
pub struct Fft {
    /// Its kind.
    pub kind: FftKind,
    /// Lengths of the transformed axes, where one side is real, on that side.
    pub lengths: Vec<u64>,
}

const KINDS: [FftKind; 4] =
    [FftKind::Forward, FftKind::Inverse, FftKind::RealForward, FftKind::RealInverse];

impl StructuredOp for Fft {
    const NAMES: &'static [&'static str] = &["stablehlo.fft"];

    fn from_attributes(
        _name: &str,
        attributes: &mut Attributes,
        _signature: &Signature,
    ) -> Result<Self, String> {
        let name = attributes.take_enum("fft_type")?.ok_or("attribute fft_type is missing")?;
        let kind = KINDS.into_iter().find(|kind| kind.name() == name);
        let kind = kind.ok_or_else(|| format!("fft: there is no type {name}"))?;
        let lengths = unsigned(&attributes.need_ints("fft_length")?, "fft: length")?;
        Ok(Fft { kind, lengths })
    }

    fn attributes(&self) -> Attributes {
        let kind = Attribute::Enum("fft_type".into(), self.kind.name().into());
        Attributes::new().with("fft_type", kind).with_ints("fft_length", &signed(&self.lengths))
    }

    fn infer(&self, signature: &Signature) -> Result<Vec<TensorType>, String> {
        signature.expect("fft", 1, 0)?;
        let operand = &signature.operands[0];
        let name = self.kind.name();
        let axes = self.lengths.len();
        if !(1..=3).contains(&axes) || axes > operand.rank() {
            return Err(format!("fft: {axes} lengths for {operand}; one to three axes are taken"));
        }
        if self.lengths.iter().any(|&length| length > i32::MAX as u64) {
            return Err(format!("fft: lengths {:?} are too large", self.lengths));
        }
        let real = self.kind == FftKind::RealForward;
        let fits = match operand.dtype {
            DType::F32 | DType::F64 => real,
            DType::C64 | DType::C128 => !real,
            _ => false,
        };
        if !fits {
            let wanted = if real { "f32 or f64" } else { "complex elements" };
            return Err(format!("fft: {name} takes {wanted}, not {}", operand.dtype));
        }
        let complex = self.description(operand).complex_extents();
        let (from, to) = match self.kind {
            FftKind::RealForward => (&self.lengths, &complex),
            FftKind::RealInverse => (&complex, &self.lengths),
            FftKind::Forward | FftKind::Inverse => (&complex, &complex),
        };
        let first = operand.rank() - axes;
        if operand.shape[first..] != from[..] {
            return Err(format!(
                "fft: {name} of lengths {:?} takes last axes {from:?}, not those of {operand}",
                self.lengths
            ));
        }
        let dtype = match (self.kind, operand.dtype) {
            (FftKind::RealForward, DType::F32) => DType::C64,
            (FftKind::RealForward, _) => DType::C128,
            (FftKind::RealInverse, dtype) => dtype.part(),
            (_, dtype) => dtype,
        };
        let mut shape = operand.shape[..first].to_vec();
        shape.extend(to);
        Ok(vec![TensorType::checked("fft", shape, dtype)?])
    }

    /// From the definition, in `f64`, by the factors of each length.
    fn evaluate(
        &self,
        _frame: &mut Frame<'_>,
        op: OpView<'_>,
        operands: &[Literal],
    ) -> Result<Vec<Literal>, String> {
        let (operand, result) = (&operands[0], op.result_type(0));
        let mut shape = operand.ty().shape.clone();
        let mut data: Vec<Number> = (0..operand.ty().len()).map(|at| number(operand, at)).collect();
        let first = shape.len() - self.lengths.len();
        let inverse = self.kind.is_inverse();
        // The axis that is real on one side comes first forwards, and last backwards.
        let axes: Vec<usize> =
            if inverse { (first..shape.len()).collect() } else { (first..shape.len()).rev().collect() };
        for axis in axes {
            let length = self.lengths[axis - first] as usize;
            let last = axis + 1 == shape.len();
            data = along(&data, &shape, axis, |line| {
                let mut line = line;
                if last && self.kind == FftKind::RealInverse {
                    complete(&mut line, length);
                }
                let mut line = transform(&line, inverse);
                if last && self.kind == FftKind::RealForward {
                    line.truncate(length / 2 + usize::from(length > 0));
                }
                line
            });
            shape[axis] = result.shape[axis];
        }
        let wide = result.dtype.part() == DType::F64;
        let bits = |x: f64| if wide { x.to_bits() } else { u64::from((x as f32).to_bits()) };
        let literal = Literal::tabulate(result.clone(), |at| data[at as usize].map(bits));
        Ok(vec![literal])
    }

    fn lower<'a>(&'a self, op: OpView<'a>) -> Lowering<'a> {
        Lowering::Library(Library::Fft(self.description(op.operand_type(0))))
    }
}

impl Fft {
    fn description(&self, operand: &TensorType) -> program::Fft {
        let outer = &operand.shape[..operand.rank() - self.lengths.len()];
        program::Fft {
            kind: self.kind,
            part: operand.dtype.part(),
            batch: outer.iter().product(),
            lengths: self.lengths.clone(),
        }
    }
}

impl Rules for Fft {
    fn jvp(&self, cx: &mut Jvp<'_>, op: OpView<'_>) -> Rule {
        cx.is_linear(op)
    }

    fn transpose(&self, cx: &mut Transposition<'_>, op: OpView<'_>) -> Rule {
        let Some(cotangent) = cx.cotangent(op.result(0)) else { return Ok(()) };
        let (from, to) = (op.operand_type(0).clone(), op.result_type(0).clone());
        let axis = from.rank() - 1;
        let b = &mut cx.builder();
        let cotangent = match self.kind {
            // The matrix of the transform is its own transpose.
            FftKind::Forward | FftKind::Inverse => b.one(self.clone(), &[cotangent])?,
            // The first half of the transform of a complex number without imaginary part.
            FftKind::RealForward => {
                let zero = b.zeros(&TensorType::scalar(to.dtype))?;
                let mut high = vec![0; from.rank()];
                high[axis] = from.shape[axis] as i64 - to.shape[axis] as i64;
                let none = vec![0; from.rank()];
                let whole = b.pad(cotangent, zero, &none, &high, &vec![0; from.rank()])?;
                let op = Fft { kind: FftKind::Forward, lengths: self.lengths.clone() };
                let whole = b.one(op, &[whole])?;
                b.elementwise("stablehlo.real", &[whole])?
            }
            // All but the first element, and the last one of an even length, stand for two.
            FftKind::RealInverse => {
                let op = Fft { kind: FftKind::RealForward, lengths: self.lengths.clone() };
                let half = b.one(op, &[cotangent])?;
                let count: u64 = self.lengths.iter().product();
                let length = to.shape[axis];
                let factors = Literal::tabulate(from.clone(), |at| {
                    let place = at % from.shape[axis];
                    let twice = place > 0 && 2 * place != length;
                    let value = if twice { 2.0 } else { 1.0 } / count as f64;
                    let wide = from.dtype.part() == DType::F64;
                    [if wide { value.to_bits() } else { (value as f32).to_bits().into() }, 0]
                });
                let factors = b.constant(factors)?;
                let scaled = b.multiply(half, factors)?;
                b.elementwise("chlo.conj", &[scaled])?
            }
        };
        cx.add(op.operand(0), cotangent)
    }

    fn batch(&self, cx: &mut Batch<'_>, op: OpView<'_>) -> Rule {
        cx.is_elementwise(op)
    }
}

/// Real and imaginary part.
type Number = [f64; 2];

fn number(literal: &Literal, at: u64) -> Number {
    let wide = literal.ty().dtype.part() == DType::F64;
    literal.parts(at).map(|bits| {
        if wide { f64::from_bits(bits) } else { f32::from_bits(bits as u32).into() }
    })
}

/// Every line along an axis, replaced by another, all of one length.
fn along(
    data: &[Number],
    shape: &[u64],
    axis: usize,
    f: impl Fn(Vec<Number>) -> Vec<Number>,
) -> Vec<Number> {
    let extent = shape[axis] as usize;
    let inner: usize = shape[axis + 1..].iter().map(|&e| e as usize).product();
    let outer: usize = shape[..axis].iter().map(|&e| e as usize).product();
    let mut result = Vec::new();
    for o in 0..outer {
        let line = |i: usize| (0..extent).map(|n| data[(o * extent + n) * inner + i]).collect();
        let lines: Vec<Vec<Number>> = (0..inner).map(|i| f(line(i))).collect();
        let length = lines.first().map_or(0, Vec::len);
        result.extend((0..length).flat_map(|n| lines.iter().map(move |line| line[n])));
    }
    result
}

/// The second half of a line whose transform is real, from the first.
fn complete(line: &mut Vec<Number>, length: usize) {
    if length == 0 {
        return;
    }
    line[0][1] = 0.0;
    if length.is_multiple_of(2) {
        line[length / 2][1] = 0.0;
    }
    for n in line.len()..length {
        let [re, im] = line[length - n];
        line.push([re, -im]);
    }
}

/// The transform of a line; an inverse is divided by the length.
fn transform(line: &[Number], inverse: bool) -> Vec<Number> {
    let length = line.len();
    let sign = if inverse { 1.0 } else { -1.0 };
    let root = |n: usize| {
        let (sin, cos) = (sign * std::f64::consts::TAU * n as f64 / length as f64).sin_cos();
        [cos, sin]
    };
    let roots: Vec<Number> = (0..length).map(root).collect();
    let mut result = split(line.to_vec(), &roots);
    if inverse {
        result.iter_mut().for_each(|x| *x = x.map(|part| part / length as f64));
    }
    result
}

/// The transform by the least factor of the length: that of every `factor`-th element, from each
/// beginning, combined. `roots` are those of unity, as many as the whole line has elements.
fn split(line: Vec<Number>, roots: &[Number]) -> Vec<Number> {
    let length = line.len();
    if length < 2 {
        return line;
    }
    let factor = (2..).find(|factor| length.is_multiple_of(*factor)).expect("itself at the latest");
    let short = length / factor;
    let parts: Vec<Vec<Number>> = (0..factor)
        .map(|r| split(line.iter().skip(r).step_by(factor).copied().collect(), roots))
        .collect();
    let step = roots.len() / length;
    let element = |k: usize| {
        parts.iter().enumerate().fold([0.0, 0.0], |[re, im], (r, part)| {
            let [a, b] = part[k % short];
            let [c, d] = roots[r * k % length * step];
            [re + (a * c - b * d), im + (a * d + b * c)]
        })
    };
    (0..length).map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret;
    use crate::testing::{assert_close, fault, function, tensor};

    fn run(kind: FftKind, lengths: &[u64], x: &Literal) -> Literal {
        let op = Fft { kind, lengths: lengths.to_vec() };
        let function = function(op, std::slice::from_ref(x));
        interpret::call(None, &function, std::slice::from_ref(x)).expect("runs").remove(0)
    }

    #[test]
    fn lines_are_sums_of_waves() {
        let x = tensor(DType::C128, &[4], &[1., 0., 2., 0., 3., 0., 4., 0.]);
        let got = run(FftKind::Forward, &[4], &x);
        let expected = tensor(DType::C128, &[4], &[10., 0., -2., 2., -2., 0., -2., -2.]);
        assert_near(&got, &expected);
        assert_near(&run(FftKind::Inverse, &[4], &got), &x);
        let real = tensor(DType::F64, &[4], &[1., 2., 3., 4.]);
        let half = run(FftKind::RealForward, &[4], &real);
        assert_near(&half, &tensor(DType::C128, &[3], &[10., 0., -2., 2., -2., 0.]));
        assert_near(&run(FftKind::RealInverse, &[4], &half), &real);
    }

    #[test]
    fn every_length_and_axis_comes_back() {
        for shape in [&[1][..], &[2], &[3], &[5], &[12], &[30], &[3, 4], &[4, 5, 6], &[2, 3, 1]] {
            for axes in 1..=shape.len() {
                let lengths = &shape[shape.len() - axes..];
                let len: u64 = shape.iter().product();
                let values: Vec<f64> = (0..2 * len).map(|n| (n * n % 7) as f64 - 2.5).collect();
                let x = tensor(DType::C128, shape, &values);
                let y = run(FftKind::Forward, lengths, &x);
                assert_near(&run(FftKind::Inverse, lengths, &y), &x);
                let x = tensor(DType::F64, shape, &values[..len as usize]);
                let y = run(FftKind::RealForward, lengths, &x);
                assert_near(&run(FftKind::RealInverse, lengths, &y), &x);
            }
        }
        for shape in [[0, 3], [3, 0]] {
            let x = tensor(DType::F32, &shape, &[]);
            let y = run(FftKind::RealForward, &shape[1..], &x);
            assert_close(&run(FftKind::RealInverse, &shape[1..], &y), &x, 0.0);
        }
    }

    fn assert_near(got: &Literal, expected: &Literal) {
        assert_eq!(got.ty(), expected.ty());
        for at in 0..got.ty().len() {
            for (a, b) in number(got, at).into_iter().zip(number(expected, at)) {
                assert!((a - b).abs() < 1e-12, "{got:?}, {expected:?}");
            }
        }
    }

    #[test]
    fn rules() {
        use crate::transform::testing::{check_body, spread, values};
        let complex = |shape: &[u64]| spread(DType::C128, shape, -1.0, 1.0, 1);
        for (x, kind, lengths) in [
            (complex(&[2, 3]), FftKind::Forward, &[3][..]),
            (complex(&[2, 2]), FftKind::Inverse, &[2, 2]),
            (values(&[2, 4], 2), FftKind::RealForward, &[4]),
            (values(&[2, 3], 3), FftKind::RealForward, &[2, 3]),
            (complex(&[3]), FftKind::RealInverse, &[4]),
            (complex(&[2, 2]), FftKind::RealInverse, &[2, 3]),
        ] {
            check_body(&[x], |b, x| {
                let square = b.multiply(x[0], x[0])?;
                Ok(vec![b.one(Fft { kind, lengths: lengths.to_vec() }, &[square])?])
            });
        }
    }

    #[test]
    fn faults_are_told() {
        let ty = |shape: &[u64], dtype| [TensorType::new(shape, dtype)];
        let of = |kind, lengths: &[u64]| Fft { kind, lengths: lengths.to_vec() };
        for (op, operand, message) in [
            (
                of(FftKind::Forward, &[4]),
                ty(&[4], DType::F32),
                "fft: FFT takes complex elements, not f32",
            ),
            (
                of(FftKind::RealForward, &[4]),
                ty(&[4], DType::BF16),
                "fft: RFFT takes f32 or f64, not bf16",
            ),
            (
                of(FftKind::RealInverse, &[8]),
                ty(&[2, 8], DType::C64),
                "fft: IRFFT of lengths [8] takes last axes [5], not those of \
                 tensor<2x8xcomplex<f32>>",
            ),
            (
                of(FftKind::Forward, &[]),
                ty(&[4], DType::C64),
                "fft: 0 lengths for tensor<4xcomplex<f32>>; one to three axes are taken",
            ),
        ] {
            assert_eq!(fault(op, &operand), message);
        }
    }
}
