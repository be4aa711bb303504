//! How far a step's results may be from the interpreter's.
//!
//! Only sums and products whose order is free may differ: by `2 n u` times the sum of the terms'
//! magnitudes, for `n` terms and the unit `u` of rounding. That sum is had by evaluating the op on
//! its operands' magnitudes. What an op makes of operands that may be off by `e` is off by what it
//! gives for operands moved by `e`, to first order. All other values are equal bit for bit.

use crate::compare::element;
use jaxrs_ir::interpret::{Frame, call_watched};
use jaxrs_ir::ops::combiner::combiners;
use jaxrs_ir::ops::convert::evaluate_parts;
use jaxrs_ir::{DType, Error, Function, Literal, Op, OpId, ValueId};
use jaxrs_kernel::BinaryOp;
use rustc_hash::FxHashMap;

/// How far each element of a value may be off (its modulus, of a complex one); None: not at all.
pub(crate) type Errors = Option<Vec<f64>>;

/// The results of a function and how far they may be off.
pub(crate) fn call(
    function: &Function,
    arguments: &[Literal],
) -> Result<Vec<(Literal, Errors)>, Error> {
    let mut errors: FxHashMap<ValueId, Vec<f64>> = FxHashMap::default();
    let results = call_watched(function, arguments, &mut |frame, id, operands, results| {
        let known = |value| errors.get(value).cloned();
        let of: Vec<Errors> = function.ops[id].operands.iter().map(known).collect();
        let mut at = At { frame, function, id, operands, results, errors: of };
        for (&value, found) in function.ops[id].results.iter().zip(at.errors()?) {
            errors.extend(found.filter(|e| e.iter().any(|&e| e != 0.0)).map(|e| (value, e)));
        }
        Ok(())
    })?;
    let with_errors = |(literal, value)| (literal, errors.get(value).cloned());
    Ok(results.into_iter().zip(function.results()).map(with_errors).collect())
}

/// An op with its values.
struct At<'a, 'f> {
    frame: &'a mut Frame<'f>,
    function: &'a Function,
    id: OpId,
    operands: &'a [Literal],
    results: &'a [Literal],
    /// Of the operands.
    errors: Vec<Errors>,
}

impl At<'_, '_> {
    /// How far the results may be off.
    fn errors(&mut self) -> Result<Vec<Errors>, Error> {
        let function = self.function;
        let shapes = |n: usize| &self.operands[n].ty().shape;
        let product = |extents: &mut dyn Iterator<Item = u64>| extents.product::<u64>();
        match &function.ops[self.id].op {
            Op::DotGeneral(op) => {
                let terms = product(&mut op.lhs_contracting.iter().map(|&axis| shapes(0)[axis]));
                self.contracted(terms)
            }
            Op::Convolution(op) => {
                let kernel = shapes(1);
                let terms = product(&mut kernel.iter().copied()) / kernel[op.kernel.batch].max(1);
                self.contracted(terms)
            }
            Op::Reduce(op) => {
                let terms = product(&mut op.axes.iter().map(|&axis| shapes(0)[axis]));
                let half = self.operands.len() / 2;
                let pairs: Vec<[usize; 2]> = (0..half).map(|n| [n, half + n]).collect();
                self.combined(0, terms, &pairs, single)
            }
            Op::ReduceWindow(op) => {
                let terms = product(&mut op.window.iter().map(|axis| axis.extent));
                let half = self.operands.len() / 2;
                let pairs: Vec<[usize; 2]> = (0..half).map(|n| [n, half + n]).collect();
                self.combined(0, terms, &pairs, |dtype| dtype)
            }
            Op::Scatter(op) => {
                let half = self.operands.len() / 2;
                let batch = op.windows.batch_shape(self.operands[half].ty());
                let terms = product(&mut batch.iter().copied());
                let pairs: Vec<[usize; 2]> = (0..half).map(|n| [n, half + 1 + n]).collect();
                self.combined(0, terms, &pairs, |dtype| dtype)
            }
            Op::SelectAndScatter(op) => {
                let terms = product(&mut op.window.iter().map(|axis| axis.extent));
                self.combined(1, terms, &[[1, 2]], |dtype| dtype)
            }
            // Vectors of values that are near each other are any of a space.
            Op::Eigh(_) | Op::Svd(_) => {
                let any = |r: &Literal| Some(vec![f64::INFINITY; r.ty().len() as usize]);
                Ok(self.results.iter().map(any).collect())
            }
            // What they compute inside is not looked at.
            Op::BatchNormGrad(_)
            | Op::BatchNormInference(_)
            | Op::BatchNormTraining(_)
            | Op::Call(_)
            | Op::Case(_)
            | Op::Checkpoint(_)
            | Op::Cholesky(_)
            | Op::Composite(_)
            | Op::CustomJvp(_)
            | Op::CustomLinear(_)
            | Op::CustomVjp(_)
            | Op::Fft(_)
            | Op::Geqrf(_)
            | Op::HouseholderProduct(_)
            | Op::If(_)
            | Op::Lu(_)
            | Op::Qr(_)
            | Op::Scan(_)
            | Op::TriangularSolve(_)
            | Op::While(_) => Ok(self.guess()),
            _ if self.errors.iter().all(Option::is_none) => {
                Ok(self.results.iter().map(|_| None).collect())
            }
            Op::Elementwise(_)
            | Op::Clamp(_)
            | Op::Compare(_)
            | Op::Convert(_)
            | Op::Map(_)
            | Op::ReducePrecision(_)
            | Op::Select(_) => self.moved_by_errors(),
            Op::Broadcast(_)
            | Op::BroadcastInDim(_)
            | Op::Concatenate(_)
            | Op::OptimizationBarrier(_)
            | Op::Pad(_)
            | Op::Reshape(_)
            | Op::Reverse(_)
            | Op::Slice(_)
            | Op::Transpose(_) => self.rearranged(self.operands.len()),
            Op::DynamicSlice(_) | Op::Gather(_) => self.rearranged(1),
            Op::DynamicUpdateSlice(_) => self.rearranged(2),
            // They look at types only.
            Op::Constant(_)
            | Op::ConstantLike(_)
            | Op::Empty(_)
            | Op::GetDimensionSize(_)
            | Op::Iota(_) => Ok(vec![None]),
            Op::BitcastConvert(_)
            | Op::Check(_)
            | Op::Print(_)
            | Op::CustomCall(_)
            | Op::RngBitGenerator(_)
            | Op::Sort(_)
            | Op::TopK(_) => Ok(self.guess()),
        }
    }

    fn evaluate(&mut self, operands: &[Literal]) -> Result<Vec<Literal>, Error> {
        self.frame.evaluate(self.id, operands)
    }

    /// A sum of so many products for each element.
    fn contracted(&mut self, terms: u64) -> Result<Vec<Errors>, Error> {
        let result = &self.results[0];
        if !inexact(result.ty().dtype) {
            return Ok(self.guess_if_off());
        }
        let sizes: Vec<Literal> = self.operands.iter().map(magnitudes).collect();
        let unit = unit(single(result.ty().dtype));
        let sums = moduli(&self.evaluate(&sizes)?[0]);
        let mut errors: Vec<f64> =
            sums.iter().map(|sum| free_order(terms, unit, sum * SLACK)).collect();
        for n in 0..2 {
            let Some(error) = &self.errors[n] else { continue };
            let mut operands = sizes.clone();
            operands[n] = literal(&self.operands[n], error);
            if let (0, Some(other)) = (n, &self.errors[1]) {
                let size = moduli(&self.operands[1]);
                let most: Vec<f64> = size.iter().zip(other).map(|(a, b)| a + b).collect();
                operands[1] = literal(&self.operands[1], &most);
            }
            let more = moduli(&self.evaluate(&operands)?[0]);
            errors.iter_mut().zip(more).for_each(|(error, more)| *error += more * SLACK);
        }
        Ok(vec![Some(rounded(result, errors))])
    }

    /// Elements combined by the body of a region in a free order, up to so many terms each, in
    /// the accumulator that an element type has. The pairs are the two operands of each result.
    fn combined(
        &mut self,
        region: usize,
        terms: u64,
        pairs: &[[usize; 2]],
        accumulator: fn(DType) -> DType,
    ) -> Result<Vec<Errors>, Error> {
        let block = self.function.ops[self.id].regions[region];
        let off = |at: &Self, n: &usize| at.errors[*n].is_some();
        let data = |n: &usize| pairs.iter().flatten().any(|m| m == n);
        let indices_off = (0..self.operands.len()).filter(|n| !data(n)).any(|n| off(self, &n));
        let Some(ops) = combiners(self.function, block).filter(|_| !indices_off) else {
            // A body that is not known runs in order.
            return Ok(self.guess_if_off());
        };
        let rounds = |n: usize| {
            let free = matches!(ops[n], BinaryOp::Add | BinaryOp::Mul);
            free && inexact(self.results[n].ty().dtype)
        };
        let mut results = self.guess_if_off();
        for (n, op) in ops.iter().enumerate() {
            if matches!(op, BinaryOp::MinF | BinaryOp::MaxF) {
                // The largest value is off by the largest error at most.
                let errors = pairs[n].iter().filter_map(|&m| self.errors[m].as_ref()).flatten();
                let largest = errors.copied().fold(0.0, f64::max);
                results[n] = Some(vec![largest; self.results[n].ty().len() as usize]);
            }
        }
        if !(0..ops.len()).any(rounds) {
            return Ok(results);
        }
        let mut sizes = self.operands.to_vec();
        for &n in pairs.iter().flatten() {
            sizes[n] = magnitudes(&sizes[n]);
        }
        let sums = self.evaluate(&sizes)?;
        let mut most = sizes.clone();
        for &n in pairs.iter().flatten() {
            if let Some(error) = &self.errors[n] {
                let size = moduli(&self.operands[n]);
                let sum: Vec<f64> = size.iter().zip(error).map(|(a, b)| a + b).collect();
                most[n] = literal(&self.operands[n], &sum);
            }
        }
        let any_off = self.errors.iter().any(Option::is_some);
        let most = if any_off { self.evaluate(&most)? } else { sums.clone() };
        for (n, errors) in results.iter_mut().enumerate().filter(|(n, _)| rounds(*n)) {
            let unit = unit(accumulator(self.results[n].ty().dtype));
            let (sums, most) = (moduli(&sums[n]), moduli(&most[n]));
            let off = sums.iter().zip(most).map(|(sum, most)| {
                free_order(terms, unit, most * SLACK) + (most - sum).max(0.0) * SLACK
            });
            *errors = Some(rounded(&self.results[n], off.collect()));
        }
        Ok(results)
    }

    /// The difference that moving the operands by their errors makes, element by element.
    fn moved_by_errors(&mut self) -> Result<Vec<Errors>, Error> {
        let mut total = vec![0.0; self.results[0].ty().len() as usize];
        for n in 0..self.operands.len() {
            let Some(error) = self.errors[n].clone() else { continue };
            let mut largest = vec![0.0f64; total.len()];
            for direction in directions(self.operands[n].ty().dtype) {
                let mut operands = self.operands.to_vec();
                operands[n] = moved(&operands[n], &error, direction);
                let result = &self.evaluate(&operands)?[0];
                for (at, largest) in largest.iter_mut().enumerate() {
                    *largest = largest.max(distance(result, &self.results[0], at as u64));
                }
            }
            total.iter_mut().zip(largest).for_each(|(total, more)| *total += more);
        }
        Ok(vec![Some(rounded(&self.results[0], total))])
    }

    /// An op that moves the elements of its first operands; the others say where.
    fn rearranged(&mut self, data: usize) -> Result<Vec<Errors>, Error> {
        if self.errors[data..].iter().any(Option::is_some) {
            return Ok(self.guess());
        }
        let mut operands = self.operands.to_vec();
        for n in 0..data {
            let zeros = || vec![0.0; self.operands[n].ty().len() as usize];
            let error = self.errors[n].clone().unwrap_or_else(zeros);
            operands[n] = literal(&self.operands[n], &error);
        }
        let results = self.evaluate(&operands)?;
        Ok(results.iter().map(|r| Some(moduli(r).iter().map(|e| e * SLACK).collect())).collect())
    }

    /// [`At::guess`] if an operand may be off, else nothing.
    fn guess_if_off(&self) -> Vec<Errors> {
        if self.errors.iter().any(Option::is_some) {
            return self.guess();
        }
        self.results.iter().map(|_| None).collect()
    }

    /// For floats a share of the value and of the largest one; integers are anything if operands
    /// may be off.
    fn guess(&self) -> Vec<Errors> {
        let off = self.errors.iter().any(Option::is_some);
        let guess = |result: &Literal| {
            let dtype = result.ty().dtype;
            if !inexact(dtype) {
                return off.then(|| vec![f64::INFINITY; result.ty().len() as usize]);
            }
            let unit = match dtype.part() {
                DType::F64 => 1e-11,
                DType::F32 => 2e-4,
                DType::F16 => 5e-3,
                _ => 4e-2,
            };
            let sizes = moduli(result);
            let finite = sizes.iter().copied().filter(|size| size.is_finite());
            let largest = finite.fold(1e-2, f64::max);
            Some(sizes.iter().map(|size| unit * (size + largest)).collect())
        };
        self.results.iter().map(guess).collect()
    }
}

/// Sums of errors are themselves rounded, in halves to 8 bits.
const SLACK: f64 = 1.02;

/// By how much sums of so many terms differ at most between two orders.
fn free_order(terms: u64, unit: f64, magnitudes: f64) -> f64 {
    2.0 * (terms as f64 + 4.0) * unit * magnitudes
}

fn inexact(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_complex()
}

/// What elements are accumulated in.
fn single(dtype: DType) -> DType {
    match dtype.part() {
        DType::BF16 | DType::F16 => DType::F32,
        _ => dtype,
    }
}

/// Half the distance from 1 to the next number; twice as much for complex products.
fn unit(dtype: DType) -> f64 {
    let bits = match dtype.part() {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let complex = if dtype.is_complex() { 2.0 } else { 1.0 };
    complex * 2f64.powi(-bits)
}

/// Errors that are not 0 with that of rounding the result.
fn rounded(result: &Literal, errors: Vec<f64>) -> Vec<f64> {
    let dtype = result.ty().dtype;
    if !inexact(dtype) {
        return errors;
    }
    let least = match dtype.part() {
        DType::F64 => 5e-324,
        DType::F16 => 2f64.powi(-24),
        DType::BF16 => 2f64.powi(-133),
        _ => 2f64.powi(-149),
    };
    let sizes = moduli(result);
    let round = |(error, size): (f64, f64)| match error {
        0.0 => 0.0,
        error if error.is_nan() => f64::INFINITY,
        error => error + (2.0 * unit(dtype) * (size + error)).max(least),
    };
    errors.into_iter().zip(sizes).map(round).collect()
}

/// The modulus of each element; a NaN counts for nothing.
fn moduli(literal: &Literal) -> Vec<f64> {
    let modulus = |at| {
        let (re, im) = element(literal, at);
        let size = re.hypot(im);
        if size.is_nan() { 0.0 } else { size }
    };
    (0..literal.ty().len()).map(modulus).collect()
}

/// The modulus of each element of a float tensor, in its type; another one as it is.
fn magnitudes(of: &Literal) -> Literal {
    if inexact(of.ty().dtype) { literal(of, &moduli(of)) } else { of.clone() }
}

/// Numbers in the type of another tensor.
fn literal(like: &Literal, numbers: &[f64]) -> Literal {
    let ty = like.ty().clone();
    let dtype = ty.dtype;
    Literal::tabulate(ty, |at| {
        evaluate_parts([numbers[at as usize].to_bits(), 0], DType::F64, dtype)
    })
}

/// The distance of two elements.
fn distance(a: &Literal, b: &Literal, at: u64) -> f64 {
    let (x, y) = (element(a, at), element(b, at));
    let same = |x: f64, y: f64| x == y || x.is_nan() && y.is_nan();
    if same(x.0, y.0) && same(x.1, y.1) {
        return 0.0;
    }
    let distance = (x.0 - y.0).hypot(x.1 - y.1);
    if distance.is_nan() { f64::INFINITY } else { distance }
}

/// The ways in which an element of a type can be off.
fn directions(dtype: DType) -> &'static [(f64, f64)] {
    const ALL: [(f64, f64); 4] = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)];
    match dtype {
        DType::I1 => &ALL[..1],
        dtype if dtype.is_complex() => &ALL,
        _ => &ALL[..2],
    }
}

/// Each element moved by its error in a direction; a truth value is turned.
fn moved(of: &Literal, errors: &[f64], direction: &(f64, f64)) -> Literal {
    let ty = of.ty().clone();
    let dtype = ty.dtype;
    Literal::tabulate(ty, |at| {
        let error = errors[at as usize];
        if error == 0.0 {
            return of.parts(at);
        }
        if dtype == DType::I1 {
            return [1 - of.bits(at, 0), 0];
        }
        let (re, im) = element(of, at);
        let number = |x: f64, step: f64| {
            let moved = if step == 0.0 { x } else { x + step * error };
            evaluate_parts([moved.to_bits(), 0], DType::F64, dtype.part())[0]
        };
        [number(re, direction.0), number(im, direction.1)]
    })
}

#[cfg(test)]
mod tests {
    use super::{Errors, call};
    use jaxrs_ir::{DType, Literal, TensorType, text};

    /// The result of a function of `f32` vectors, and how far each element may be off.
    fn run(body: &str, arguments: &[&[f32]]) -> (Literal, Errors) {
        let module = text::parse(body, "test.mlir").expect("a program");
        let vector = |x: &&[f32]| {
            let bits: Vec<u64> = x.iter().map(|x| u64::from(x.to_bits())).collect();
            Literal::from_bits(TensorType::new([x.len() as u64], DType::F32), &bits)
        };
        let arguments: Vec<Literal> = arguments.iter().map(vector).collect();
        call(module.entry().expect("an entry"), &arguments).expect("it runs").remove(0)
    }

    const SUM: &str =
        "stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] :
        (tensor<4xf32>, tensor<f32>) -> tensor<f32>";

    fn sum(rest: &str, result: &str, x: &[f32]) -> (Literal, Errors) {
        let text = format!(
            "func.func @main(%x: tensor<4xf32>) -> {result} {{
               %z = stablehlo.constant dense<0.0> : tensor<f32>
               %s = {SUM}
               {rest} }}"
        );
        run(&text, &[x])
    }

    #[test]
    fn what_has_one_order_is_exact() {
        let (_, errors) = run(
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
               %0 = stablehlo.tanh %x : tensor<2xf32>
               %1 = stablehlo.divide %0, %x : tensor<2xf32>
               return %1 : tensor<2xf32> }",
            &[&[0.5, 3.0]],
        );
        assert_eq!(errors, None);
    }

    #[test]
    fn a_sum_is_off_by_its_terms_not_by_its_value() {
        let (_, errors) = sum("return %s : tensor<f32>", "tensor<f32>", &[1e8, 1.0, -1e8, 1.0]);
        let error = errors.expect("the order is free")[0];
        assert!((2.0..500.0).contains(&error), "{error}");
        let (_, errors) = sum("return %s : tensor<f32>", "tensor<f32>", &[1.0, 1.0, -1.0, 1.0]);
        assert!(errors.expect("the order is free")[0] < 1e-5);
    }

    #[test]
    fn what_is_made_of_a_sum_is_off_by_its_slope() {
        let exp = "%e = stablehlo.exponential %s : tensor<f32>\n return %e : tensor<f32>";
        let (value, errors) = sum(exp, "tensor<f32>", &[10.0, 5.0, 2.0, 3.0]);
        let size = f64::from(f32::from_bits(value.bits(0, 0) as u32));
        let relative = errors.expect("a sum went in")[0] / size;
        assert!((1e-5..1e-4).contains(&relative), "{relative}");
    }

    #[test]
    fn a_choice_by_a_sum_may_fall_either_way_only_near_the_limit() {
        let choose = "%p = stablehlo.compare GT, %s, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
            return %p : tensor<i1>";
        let near = sum(choose, "tensor<i1>", &[1e8, 1.0, -1e8, 1.0]).1;
        assert_eq!(near, Some(vec![1.0]));
        assert_eq!(sum(choose, "tensor<i1>", &[1.0, 1.0, 1.0, 1.0]).1, None);
    }

    #[test]
    fn a_contraction_is_off_by_its_terms_and_by_its_operands() {
        let (_, errors) = run(
            "func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<f32> {
               %0 = stablehlo.dot_general %x, %y, contracting_dims = [0] x [0] :
                 (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
               return %0 : tensor<f32> }",
            &[&[1e4, 1.0, -1e4], &[1e4, 1.0, 1e4]],
        );
        let error = errors.expect("the order is free")[0];
        assert!((8.0..500.0).contains(&error), "{error}");
    }
}
