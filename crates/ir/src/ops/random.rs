//! Random shapes and attributes for the structured ops: what the kernels compute must be what the
//! interpreter does.

use super::convolution::{Axes, Convolution};
use super::indexing::Windows;
use super::window::WindowAxis;
use super::{DotGeneral, Elementwise, Gather, Op, Reduce, ReduceWindow, Scatter, SelectAndScatter};
use crate::error::Location;
use crate::function::{BlockId, Function};
use crate::lower::{ElementCost, Lowering};
use crate::testing::{assert_close, check_function, lowered_as, only_op, small, try_function};
use crate::types::TensorType;
use crate::{Literal, interpret};
use jaxrs_kernel::{Compare as Direction, DType};

/// Numbers below a bound, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn shape(&mut self, rank: usize, most: u64) -> Vec<u64> {
        // Now and then an axis is empty.
        (0..rank).map(|_| if self.below(25) == 0 { 0 } else { 1 + self.below(most) }).collect()
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    /// Some of the numbers below `count`, ascending.
    fn some(&mut self, count: usize) -> Vec<usize> {
        (0..count).filter(|_| self.below(2) == 0).collect()
    }

    fn shuffled(&mut self, mut items: Vec<usize>) -> Vec<usize> {
        for n in (1..items.len()).rev() {
            items.swap(n, self.below(n as u64 + 1) as usize);
        }
        items
    }

    fn dtype(&mut self) -> DType {
        self.pick(&[DType::F32, DType::I32, DType::BF16, DType::F64, DType::U8, DType::C64])
    }

    fn window(&mut self, dilated: bool) -> WindowAxis {
        let dilation = |r: &mut Random| if dilated { r.between(1, 3) } else { 1 };
        WindowAxis {
            extent: 1 + self.below(4),
            stride: self.between(1, 3),
            base_dilation: dilation(self),
            dilation: dilation(self),
            low: self.between(-2, 3),
            high: self.between(-2, 3),
        }
    }
}

/// A region of one op on two scalars.
fn body(function: &mut Function, op: Op, dtype: DType, result: DType) -> BlockId {
    let block = function.add_block();
    let scalar = TensorType::scalar(dtype);
    let arguments = [(); 2].map(|()| function.add_argument(block, scalar.clone()));
    let location = Location::default();
    let id =
        function.push_op(block, op, &arguments, vec![TensorType::scalar(result)], &[], location);
    function.blocks[block].yields = function.ops[id].results.clone();
    block
}

fn elementwise(name: &str) -> Op {
    Op::Elementwise(Elementwise::from_name(name).expect("a row"))
}

/// A commutative op or, sometimes, one that is not.
fn combine(r: &mut Random) -> Op {
    elementwise(r.pick(&["stablehlo.add", "stablehlo.add", "stablehlo.subtract"]))
}

fn literals(types: &[TensorType], seed: u64) -> Vec<Literal> {
    types.iter().zip(seed..).map(|(ty, seed)| small(ty.dtype, &ty.shape, seed)).collect()
}

#[test]
fn reductions() {
    let mut r = Random(1);
    for seed in 0..150 {
        let rank = r.below(4) as usize;
        let (shape, dtype) = (r.shape(rank, 5), r.dtype());
        let op = Reduce { axes: r.some(rank) };
        let types = [TensorType::new(shape, dtype), TensorType::scalar(dtype)];
        let combine = combine(&mut r);
        let function = try_function(op.into(), &types, |f| vec![body(f, combine, dtype, dtype)]);
        check_function(&function.expect("a valid op"), &literals(&types, seed), 0.0);
    }
}

#[test]
fn windows() {
    let mut r = Random(2);
    for seed in 0..250 {
        let rank = r.below(4) as usize;
        let (shape, dtype) = (r.shape(rank, 6), r.dtype());
        let window = (0..rank).map(|_| r.window(true)).collect();
        let types = [TensorType::new(shape, dtype), TensorType::scalar(dtype)];
        let combine = combine(&mut r);
        let op = ReduceWindow { window };
        let function = try_function(op.into(), &types, |f| vec![body(f, combine, dtype, dtype)]);
        check_function(&function.expect("a valid op"), &literals(&types, seed), 0.0);
    }
}

#[test]
fn selections() {
    let mut r = Random(3);
    for seed in 0..200 {
        let rank = 1 + r.below(3) as usize;
        let (shape, dtype) = (r.shape(rank, 6), r.pick(&[DType::F32, DType::I32, DType::BF16]));
        let window: Vec<WindowAxis> = (0..rank)
            .map(|_| if r.below(3) == 0 { WindowAxis::POINT } else { r.window(false) })
            .collect();
        let source = super::window::windows("test", &window, &shape).expect("a window");
        let types = [
            TensorType::new(shape, dtype),
            TensorType::new(source, dtype),
            TensorType::scalar(dtype),
        ];
        let direction = r.pick(&[Direction::Ge, Direction::Lt, Direction::Gt]);
        let combine = combine(&mut r);
        let function = try_function(SelectAndScatter { window }.into(), &types, |f| {
            let select = super::Compare::new(direction).into();
            vec![body(f, select, dtype, DType::I1), body(f, combine, dtype, dtype)]
        });
        check_function(&function.expect("a valid op"), &literals(&types, seed), 0.0);
    }
}

#[test]
fn contractions() {
    let mut r = Random(4);
    for seed in 0..200 {
        let counts = [(); 4].map(|()| r.below(3) as usize);
        let [batch, contracting, lhs_free, rhs_free] = counts;
        let shared = r.shape(batch + contracting, 4);
        let mut side = |free: usize| {
            let rank = shared.len() + free;
            let order = r.shuffled((0..rank).collect());
            let (named, free) = order.split_at(shared.len());
            let mut shape = vec![0; rank];
            named.iter().zip(&shared).for_each(|(&axis, &extent)| shape[axis] = extent);
            free.iter().for_each(|&axis| shape[axis] = 1 + r.below(4));
            (shape, named[..batch].to_vec(), named[batch..].to_vec())
        };
        let (lhs, lhs_batch, lhs_contracting) = side(lhs_free);
        let (rhs, rhs_batch, rhs_contracting) = side(rhs_free);
        let dtype = r.dtype();
        let result = if dtype == DType::BF16 { DType::F32 } else { dtype };
        let types = [TensorType::new(lhs, dtype), TensorType::new(rhs, dtype)];
        let op = DotGeneral { lhs_batch, rhs_batch, lhs_contracting, rhs_contracting, result };
        let signature = super::Signature { operands: types.to_vec(), ..Default::default() };
        let results = super::StructuredOp::infer(&op, &signature).expect("a valid op");
        let function = single(op.clone().into(), &types, results);
        let operands = literals(&types, seed);
        let expected = interpret::call(None, &function, &operands).expect("it evaluates");
        let view = only_op(&function);
        let element = Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(|e, _, index| op.element(e, view, index)),
        };
        assert_close(&lowered_as(&function, &operands, element)[0], &expected[0], 0.0);
    }
}

#[test]
fn convolutions() {
    let mut r = Random(5);
    for seed in 0..200 {
        let spatial = r.below(3) as usize;
        let rank = spatial + 2;
        let (groups, batched) = (1 + r.below(3), r.below(2) == 0);
        let (features, batches) = if batched { (1, groups) } else { (groups, 1) };
        let (inputs, outputs) = (1 + r.below(3), groups * (1 + r.below(2)));
        let mut axes = || {
            let order = r.shuffled((0..rank).collect());
            Axes { batch: order[0], feature: order[1], spatial: order[2..].to_vec() }
        };
        let (input, kernel, output) = (axes(), axes(), axes());
        let window: Vec<WindowAxis> = (0..spatial).map(|_| r.window(true)).collect();
        let mut lhs = vec![0; rank];
        lhs[input.batch] = batches * (1 + r.below(2));
        lhs[input.feature] = inputs * features;
        let mut rhs = vec![0; rank];
        (rhs[kernel.batch], rhs[kernel.feature]) = (outputs, inputs);
        for (n, window) in window.iter().enumerate() {
            lhs[input.spatial[n]] = r.below(6);
            rhs[kernel.spatial[n]] = window.extent;
        }
        let dtype = r.dtype();
        let op = Convolution {
            input,
            kernel,
            output,
            reversed: (0..spatial).map(|_| r.below(2) == 0).collect(),
            window,
            feature_groups: features,
            batch_groups: batches,
            result: dtype,
        };
        let types = [TensorType::new(lhs, dtype), TensorType::new(rhs, dtype)];
        let signature = super::Signature { operands: types.to_vec(), ..Default::default() };
        let results = super::StructuredOp::infer(&op, &signature).expect("a valid op");
        let function = single(op.clone().into(), &types, results);
        let operands = literals(&types, seed);
        let expected = interpret::call(None, &function, &operands).expect("it evaluates");
        let view = only_op(&function);
        let element = Lowering::Elements {
            cost: ElementCost::Free,
            element: Box::new(|e, _, index| op.element(e, view, index)),
        };
        assert_close(&lowered_as(&function, &operands, element)[0], &expected[0], 0.0);
    }
}

/// A function of one op of these result types.
fn single(op: Op, operands: &[TensorType], results: Vec<TensorType>) -> Function {
    let mut f = Function::new("test");
    let parameters: Vec<_> = operands.iter().map(|ty| f.add_parameter(ty.clone())).collect();
    let body = f.body;
    let id = f.push_op(body, op, &parameters, results, &[], Location::default());
    f.blocks[body].yields = f.ops[id].results.clone();
    f
}

/// Random windows: how the axes correspond, the operand's shape, the indices', and the window's
/// extent in each operand axis.
fn placement(r: &mut Random) -> (Windows, Vec<u64>, Vec<u64>, Vec<u64>) {
    let (rank, windows) = (1 + r.below(3) as usize, r.below(3) as usize);
    let shape = (0..rank).map(|_| 1 + r.below(5)).collect::<Vec<u64>>();
    let batches = (r.below(2) as usize).min(rank - 1).min(windows);
    let axes = r.shuffled((0..rank).collect());
    let (operand_batch, rest) = (axes[..batches].to_vec(), &axes[batches..]);
    let inserted: Vec<usize> = rest.iter().copied().filter(|_| r.below(3) == 0).collect();
    let start: Vec<usize> = rest.iter().copied().filter(|_| r.below(2) == 0).collect();
    let sizes: Vec<u64> = (0..rank)
        .map(|axis| {
            let one = operand_batch.contains(&axis) || inserted.contains(&axis);
            if one { 1 } else { 1 + r.below(shape[axis]) }
        })
        .collect();
    // The indices: axes over the windows, and one over the components.
    let mut indices: Vec<u64> = (0..windows).map(|_| 1 + r.below(3)).collect();
    let alone = start.len() == 1 && r.below(2) == 0;
    let vector = if alone { windows } else { r.below(windows as u64 + 1) as usize };
    let over: Vec<usize> = (0..windows).filter(|_| batches > 0).take(batches).collect();
    over.iter().zip(&operand_batch).for_each(|(&w, &axis)| indices[w] = shape[axis]);
    let indices_batch =
        over.iter().map(|&w| w + usize::from(!alone && w >= vector)).collect::<Vec<usize>>();
    if !alone {
        indices.insert(vector, start.len() as u64);
    }
    let sorted = |mut axes: Vec<usize>| {
        axes.sort_unstable();
        axes
    };
    let inside = rank - batches - inserted.len();
    let inside = sorted(r.shuffled((0..windows + inside).collect())[..inside].to_vec());
    let windows =
        Windows { inside, inserted: sorted(inserted), operand_batch, indices_batch, start, vector };
    (windows, shape, indices, sizes)
}

#[test]
fn gathers() {
    let mut r = Random(6);
    for seed in 0..300 {
        let (windows, shape, indices, slice_sizes) = placement(&mut r);
        let index = r.pick(&[DType::I32, DType::I8, DType::U32, DType::I64, DType::U64]);
        let types = [TensorType::new(shape, r.dtype()), TensorType::new(indices, index)];
        let op = Gather { windows, slice_sizes, sorted: false };
        let function = try_function(op.into(), &types, |_| Vec::new()).expect("a valid op");
        check_function(&function, &literals(&types, seed), 0.0);
    }
}

#[test]
fn scatters() {
    let mut r = Random(7);
    for seed in 0..300 {
        let (windows, shape, indices, sizes) = placement(&mut r);
        let index = r.pick(&[DType::I32, DType::I8, DType::U32, DType::I64]);
        let dtype = r.dtype();
        let indices = TensorType::new(indices, index);
        let kept = |axis: &usize| {
            !windows.inserted.contains(axis) && !windows.operand_batch.contains(axis)
        };
        let inside: Vec<u64> = (0..sizes.len()).filter(kept).map(|axis| sizes[axis]).collect();
        let updates = windows.combine(&windows.batch_shape(&indices), &inside);
        let types = [TensorType::new(shape, dtype), indices, TensorType::new(updates, dtype)];
        let op = Scatter { windows, sorted: false, unique: false };
        let combine = combine(&mut r);
        let function = try_function(op.into(), &types, |f| vec![body(f, combine, dtype, dtype)]);
        check_function(&function.expect("a valid op"), &literals(&types, seed), 0.0);
    }
}
