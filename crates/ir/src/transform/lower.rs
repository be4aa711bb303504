//! Replaces the front end's ops by StableHLO's, as it must be before compilation and export.

use super::at;
use crate::builder::Builder;
use crate::copy::Copied;
use crate::error::Error;
use crate::function::{BlockId, Function, OpId, ValueId};
use crate::literal::Literal;
use crate::ops::{
    DynamicSlice, DynamicUpdateSlice, Op, OptimizationBarrier, Scan, While, custom_linear,
};
use crate::region;
use crate::types::TensorType;
use jaxrs_kernel::{Compare as Direction, DType};

/// The function without ops of the front end: a scan is a `stablehlo.while` of JAX's form.
///
/// # Errors
/// If an op is left that only a transposition would replace.
pub fn lower(function: &Function) -> Result<Function, Error> {
    let mut out = Function::new(function.name.clone());
    out.public = function.public;
    out.location = function.location.clone();
    let mut lowering = Lower { from: function, copied: Copied::default() };
    for &parameter in function.parameters() {
        let new = out.add_parameter(function.ty(parameter).clone());
        lowering.copied.values.insert(parameter, new);
    }
    out.parameter_attributes.clone_from(&function.parameter_attributes);
    out.result_attributes.clone_from(&function.result_attributes);
    let yields = lowering.block(&mut Builder::new(&mut out), function.body)?;
    let body = out.body;
    out.blocks[body].yields = yields;
    Ok(out)
}

struct Lower<'f> {
    from: &'f Function,
    copied: Copied,
}

impl Lower<'_> {
    /// Appends a block's ops: what it yields.
    fn block(&mut self, b: &mut Builder<'_>, block: BlockId) -> Result<Vec<ValueId>, Error> {
        for &op in &self.from.blocks[block].ops {
            b.location = self.from.ops[op].location.clone();
            self.op(b, op)?;
        }
        Ok(self.copied.all(&self.from.blocks[block].yields))
    }

    fn op(&mut self, b: &mut Builder<'_>, id: OpId) -> Result<(), Error> {
        let from = self.from;
        let data = &from.ops[id];
        let operands = self.copied.all(&data.operands);
        let results = match &data.op {
            Op::Scan(scan) => self.scan(b, scan, id, &operands)?,
            Op::Checkpoint(checkpoint) => {
                let arguments = if checkpoint.again && !operands.is_empty() {
                    let barrier = b.push(OptimizationBarrier, &operands, &[]);
                    barrier.map_err(|message| at(from, id, message))?
                } else {
                    operands
                };
                self.inline(b, data.regions[0], &arguments)?
            }
            Op::Qr(qr) => {
                let results = qr.expand(b, operands[0]);
                results.map_err(|message| at(from, id, message))?.to_vec()
            }
            Op::CustomJvp(_) | Op::CustomVjp(_) => self.inline(b, data.regions[0], &operands)?,
            Op::CustomLinear(_) => {
                return Err(at(from, id, custom_linear::REVERSE_ONLY.into()));
            }
            _ if data.regions.is_empty() => {
                self.copied.op(from, id, b.function, b.block);
                return Ok(());
            }
            _ => {
                let mut regions = Vec::with_capacity(data.regions.len());
                for &region in &data.regions {
                    regions.push(self.region(b, region)?);
                }
                let types = data.results.iter().map(|&v| from.ty(v).clone()).collect();
                let location = data.location.clone();
                let block = b.block;
                let op = data.op.clone();
                let new = b.function.push_op(block, op, &operands, types, &regions, location);
                b.function.ops[new].results.clone()
            }
        };
        self.copied.values.extend(data.results.iter().copied().zip(results));
        Ok(())
    }

    fn region(&mut self, b: &mut Builder<'_>, region: BlockId) -> Result<BlockId, Error> {
        let block = b.function.add_block();
        self.copied.arguments(self.from, region, b.function, block);
        let location = b.location.clone();
        let mut inner = Builder { function: &mut *b.function, block, location };
        let yields = self.block(&mut inner, region)?;
        b.function.blocks[block].yields = yields;
        Ok(block)
    }

    /// Appends a region's ops with its arguments being these values.
    fn inline(
        &mut self,
        b: &mut Builder<'_>,
        region: BlockId,
        arguments: &[ValueId],
    ) -> Result<Vec<ValueId>, Error> {
        let parameters = &self.from.blocks[region].arguments;
        self.copied.values.extend(parameters.iter().copied().zip(arguments.iter().copied()));
        self.block(b, region)
    }

    /// A loop that carries the tensors, the constants, a counter, the carries, and the results that
    /// it fills.
    fn scan(
        &mut self,
        b: &mut Builder<'_>,
        scan: &Scan,
        id: OpId,
        operands: &[ValueId],
    ) -> Result<Vec<ValueId>, Error> {
        let from = self.from;
        let fault = |message: String| at(from, id, message);
        let data = &from.ops[id];
        let (consts, rest) = operands.split_at(scan.consts);
        let (carries, tensors) = rest.split_at(scan.carries);
        let stacked: Vec<TensorType> =
            data.results[scan.carries..].iter().map(|&v| from.ty(v).clone()).collect();
        let captured = region::captures(from, id);
        let outer = self.copied.all(&captured);
        let number = TensorType::scalar(DType::I32);
        let mut first: Vec<ValueId> = [tensors, consts, &outer].concat();
        let counter = first.len();
        first.push(b.zeros(&number).map_err(fault)?);
        first.extend(carries);
        for ty in &stacked {
            first.push(b.zeros(ty).map_err(fault)?);
        }
        let types = b.types(&first);
        let length = Literal::scalar(DType::I32, &[scan.length]);
        let condition = b.region(&types, |b, x| {
            let length = b.constant(length)?;
            Ok(vec![b.compare(Direction::Lt, x[counter], length)?])
        });
        let condition = condition.map_err(fault)?;
        let block = b.function.add_block();
        let x: Vec<ValueId> =
            types.iter().map(|ty| b.function.add_argument(block, ty.clone())).collect();
        let location = b.location.clone();
        let mut inner = Builder { function: &mut *b.function, block, location };
        let yields = self.step(&mut inner, scan, id, &x, &captured)?;
        b.function.blocks[block].yields = yields;
        let results = b.push(While, &first, &[condition, block]).map_err(fault)?;
        Ok(results[counter + 1..].to_vec())
    }

    /// The body of such a loop, from its arguments.
    fn step(
        &mut self,
        b: &mut Builder<'_>,
        scan: &Scan,
        id: OpId,
        x: &[ValueId],
        captured: &[ValueId],
    ) -> Result<Vec<ValueId>, Error> {
        let from = self.from;
        let fault = |message: String| at(from, id, message);
        let data = &from.ops[id];
        let tensors = data.operands.len() - scan.consts - scan.carries;
        let counter = tensors + scan.consts + captured.len();
        let (fixed, rest) = x[..counter].split_at(tensors);
        let (consts, outer) = rest.split_at(scan.consts);
        let (carries, results) = x[counter + 1..].split_at(scan.carries);
        let count = x[counter];
        // Inside, outer values are those that the loop carries.
        let before = self.copied.all(captured);
        self.copied.values.extend(captured.iter().copied().zip(outer.iter().copied()));
        let mut position = count;
        if scan.reverse {
            let last = Literal::scalar(DType::I32, &[scan.length.saturating_sub(1)]);
            let last = b.constant(last).map_err(fault)?;
            position = b.subtract(last, count).map_err(fault)?;
        }
        let zero = b.zeros(&TensorType::scalar(DType::I32)).map_err(fault)?;
        let mut arguments = [consts, carries].concat();
        for &tensor in fixed {
            arguments.push(slice(b, tensor, position, zero).map_err(fault)?);
        }
        let mut next = self.inline(b, data.regions[0], &arguments)?;
        self.copied.values.extend(captured.iter().copied().zip(before));
        let slices = next.split_off(scan.carries);
        let mut yields = x[..counter].to_vec();
        let one = b.full(&TensorType::scalar(DType::I32), 1.0).map_err(fault)?;
        let after = b.add(count, one).map_err(fault)?;
        let mut filled = Vec::with_capacity(slices.len());
        for (&result, value) in results.iter().zip(slices) {
            filled.push(put(b, result, value, position, zero).map_err(fault)?);
        }
        yields.push(after);
        yields.extend(next);
        yields.extend(filled);
        Ok(yields)
    }
}

/// The slice of a tensor's first axis at a position.
fn slice(
    b: &mut Builder<'_>,
    tensor: ValueId,
    position: ValueId,
    zero: ValueId,
) -> Result<ValueId, String> {
    let mut sizes = b.ty(tensor).shape;
    sizes[0] = 1;
    let mut operands = vec![tensor, position];
    operands.resize(sizes.len() + 1, zero);
    let shape = sizes[1..].to_vec();
    let row = b.one(DynamicSlice { sizes }, &operands)?;
    b.reshape(row, &shape)
}

/// A tensor with the slice of its first axis at a position replaced.
fn put(
    b: &mut Builder<'_>,
    tensor: ValueId,
    value: ValueId,
    position: ValueId,
    zero: ValueId,
) -> Result<ValueId, String> {
    let mut shape = b.ty(tensor).shape;
    shape[0] = 1;
    let row = b.reshape(value, &shape)?;
    let mut operands = vec![tensor, row, position];
    operands.resize(shape.len() + 2, zero);
    b.one(DynamicUpdateSlice, &operands)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::call;
    use crate::testing::assert_close;
    use crate::transform::testing::{check, gradient, ints, values};
    use crate::transform::{batch, jvp};

    /// Scans forward or back over a choice inside a checkpoint: grows or oscillates by `%n`.
    fn nested(reverse: bool) -> Function {
        crate::testing::program(&format!(
            "(%w: tensor<2xf64>, %c: tensor<2xf64>, %xs: tensor<3x2xf64>, %n: tensor<3xi32>)
                -> (tensor<2xf64>, tensor<3x2xf64>) {{
              %o = stablehlo.multiply %w, %w : tensor<2xf64>
              %0:2 = \"jaxrs.scan\"(%w, %c, %xs, %n) <{{
                  carries = 1 : i64, consts = 1 : i64, length = 3 : i64, reverse = {reverse}}}> ({{
              ^bb0(%v: tensor<2xf64>, %a: tensor<2xf64>, %x: tensor<2xf64>, %i: tensor<i32>):
                %1:2 = \"jaxrs.checkpoint\"(%v, %a, %x) <{{policy = \"nothing\"}}> ({{
                ^bb0(%u: tensor<2xf64>, %b: tensor<2xf64>, %y: tensor<2xf64>):
                  %2 = \"stablehlo.case\"(%i) ({{
                    %3 = stablehlo.multiply %u, %b : tensor<2xf64>
                    %4 = stablehlo.sine %3 : tensor<2xf64>
                    stablehlo.return %4 : tensor<2xf64>
                  }}, {{
                    %3 = stablehlo.multiply %b, %y : tensor<2xf64>
                    %4 = stablehlo.multiply %3, %o : tensor<2xf64>
                    stablehlo.return %4 : tensor<2xf64>
                  }}) : (tensor<i32>) -> tensor<2xf64>
                  %5 = stablehlo.add %2, %y : tensor<2xf64>
                  stablehlo.return %5, %2 : tensor<2xf64>, tensor<2xf64>
                }}) : (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>)
                  -> (tensor<2xf64>, tensor<2xf64>)
                stablehlo.return %1#0, %1#1 : tensor<2xf64>, tensor<2xf64>
              }}) : (tensor<2xf64>, tensor<2xf64>, tensor<3x2xf64>, tensor<3xi32>)
                -> (tensor<2xf64>, tensor<3x2xf64>)
              return %0#0, %0#1 : tensor<2xf64>, tensor<3x2xf64>
            }}"
        ))
    }

    fn inputs() -> [Literal; 4] {
        [values(&[2], 1), values(&[2], 2), values(&[3, 2], 3), ints(&[3], &[0, 1, 0])]
    }

    fn same(f: &Function, inputs: &[Literal]) {
        let lowered = lower(f).expect("no custom rule is left");
        let errors = crate::verify::verify_function(&lowered, None);
        assert!(errors.is_empty(), "{errors:?}\n{}", crate::text::print_function(&lowered));
        let front = lowered.ops.values().find(|data| data.op.name().starts_with("jaxrs."));
        assert_eq!(front, None);
        let expected = call(None, f, inputs).expect("values");
        for (got, expected) in call(None, &lowered, inputs).expect("values").iter().zip(&expected) {
            assert_close(got, expected, 0.0);
        }
    }

    #[test]
    fn lowered_functions_compute_the_same() {
        for reverse in [false, true] {
            let (f, inputs) = (nested(reverse), inputs());
            let active = [true, true, true, false];
            same(&f, &inputs);
            let (gradient, given) = gradient(&f, &inputs, &active);
            same(&gradient, &given);
            let both = jvp(&f, &active).expect("a derivative");
            same(&both.function, &[&inputs[..], &inputs[..3]].concat());
            let over = batch(&f, &[false; 4], 2).expect("a batch");
            same(&over.function, &inputs);
        }
    }

    #[test]
    fn a_loop_without_steps() {
        let f = crate::testing::program(
            "(%c: tensor<2xf64>, %xs: tensor<0x2xf64>) -> (tensor<2xf64>, tensor<0x2xf64>) {
              %0:2 = \"jaxrs.scan\"(%c, %xs) <{
                  carries = 1 : i64, consts = 0 : i64, length = 0 : i64, reverse = true}> ({
              ^bb0(%a: tensor<2xf64>, %x: tensor<2xf64>):
                %1 = stablehlo.multiply %a, %x : tensor<2xf64>
                stablehlo.return %1, %1 : tensor<2xf64>, tensor<2xf64>
              }) : (tensor<2xf64>, tensor<0x2xf64>) -> (tensor<2xf64>, tensor<0x2xf64>)
              return %0#0, %0#1 : tensor<2xf64>, tensor<0x2xf64>
            }",
        );
        let inputs = [values(&[2], 1), values(&[0, 2], 1)];
        let (gradient, given) = gradient(&f, &inputs, &[true, true]);
        let out = call(None, &gradient, &given).expect("values");
        assert_eq!(out[0], given[2]);
    }

    #[test]
    fn derivatives_and_batches_of_nested_ops() {
        for reverse in [false, true] {
            check(&nested(reverse), &inputs());
        }
    }
}
