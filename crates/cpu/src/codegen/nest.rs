//! The loops, branches, loads and stores of a kernel.

use super::access::Address;
use super::scalar::{Scalars, scalar_type};
use super::target::Target;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, BlockArg, InstBuilder, MemFlagsData, Value, types};
use cranelift_entity::SecondaryMap;
use cranelift_frontend::{FunctionBuilder, Variable};
use jaxrs_kernel::kernel::{Block, If, Loop, Stmt};
use jaxrs_kernel::{Affine, DType, Inst, Kernel, ParamId, Reg, RegType};

/// Emits one kernel into a function.
pub(crate) struct Nest<'a, 'b> {
    pub(crate) scalars: Scalars<'a, 'b>,
    pub(crate) kernel: &'a Kernel,
    /// The parameters' addresses.
    pub(crate) pointers: SecondaryMap<ParamId, Option<Value>>,
    /// The parameters that are variables.
    pub(crate) cells: SecondaryMap<ParamId, Option<Cell>>,
    /// The registers that are scalars here.
    pub(crate) values: SecondaryMap<Reg, Option<Value>>,
    /// The range of the outer index.
    pub(crate) range: (Value, Value),
}

/// The one element of a parameter, kept in a variable of the function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) variable: Variable,
    /// Where it is also written to.
    pub(crate) stored: Option<Address>,
}

/// Emits a whole kernel as the body of `fn(ptrs, lo, hi)`.
pub(crate) fn emit_kernel(builder: &mut FunctionBuilder<'_>, target: &Target, kernel: &Kernel) {
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let [ptrs, lo, hi] = *builder.block_params(entry) else {
        unreachable!("a kernel has three parameters")
    };
    let mut pointers = SecondaryMap::new();
    for param in kernel.params.keys() {
        let flags = MemFlagsData::trusted().with_readonly().with_can_move();
        let offset = i32::try_from(8 * param.as_u32()).expect("few parameters");
        pointers[param] = Some(builder.ins().load(types::I64, flags, ptrs, offset));
    }
    let mut nest = Nest {
        scalars: Scalars { builder, target },
        kernel,
        pointers,
        cells: SecondaryMap::new(),
        values: SecondaryMap::new(),
        range: (lo, hi),
    };
    nest.block(&kernel.body);
    nest.scalars.builder.ins().return_(&[]);
}

impl<'b> Nest<'_, 'b> {
    pub(crate) fn builder(&mut self) -> &mut FunctionBuilder<'b> {
        self.scalars.builder
    }

    pub(crate) fn ty(&self, reg: Reg) -> RegType {
        self.kernel.regs[reg].ty
    }

    /// The value of a scalar register.
    pub(crate) fn value(&self, reg: Reg) -> Value {
        self.values[reg].expect("registers are defined before use")
    }

    pub(crate) fn block(&mut self, block: &Block) {
        for stmt in &block.stmts {
            match stmt {
                Stmt::Let(reg) => self.define(*reg),
                Stmt::Store { param, at, value } => {
                    let value = self.value(*value);
                    self.write(*param, at, value);
                }
                Stmt::Loop(inner) => self.loop_(inner),
                Stmt::If(inner) => self.branch(inner),
            }
        }
    }

    /// Writes an element of a parameter.
    fn write(&mut self, param: ParamId, at: &Affine, value: Value) {
        let dtype = self.kernel.params[param].dtype;
        let Some(cell) = self.cells[param] else {
            let address = self.address(param, at);
            return self.store(dtype, address, value);
        };
        self.builder().def_var(cell.variable, value);
        if let Some(address) = cell.stored {
            self.store(dtype, address, value);
        }
    }

    /// Computes the register's instruction.
    pub(crate) fn define(&mut self, reg: Reg) {
        let data = &self.kernel.regs[reg];
        let jaxrs_kernel::kernel::Def::Inst(inst) = &data.def else {
            unreachable!("{reg} is not an instruction")
        };
        let ty = data.ty;
        let value = match inst {
            Inst::Const(bits) => self.scalars.constant(ty, *bits),
            Inst::Index(at) => self.affine(at),
            Inst::FloorDiv(at, by) => self.floor_div(at, *by).0,
            Inst::Modulo(at, by) => self.floor_div(at, *by).1,
            Inst::Load(param, _) if let Some(cell) = self.cells[*param] => {
                self.builder().use_var(cell.variable)
            }
            Inst::Load(param, at) => {
                let address = self.address(*param, at);
                self.load(self.kernel.params[*param].dtype, address)
            }
            Inst::Unary(op, a) => self.scalars.unary(*op, self.kernel.regs[*a].ty, self.value(*a)),
            Inst::Binary(op, a, b) => self.scalars.binary(*op, ty, self.value(*a), self.value(*b)),
            Inst::Fma(a, b, c) => {
                self.scalars.fma(ty, self.value(*a), self.value(*b), self.value(*c))
            }
            Inst::Compare(op, kind, a, b) => {
                let operands = self.kernel.regs[*a].ty;
                self.scalars.compare(*op, *kind, operands, self.value(*a), self.value(*b))
            }
            Inst::Select(condition, a, b) => {
                let (condition, a, b) = (self.value(*condition), self.value(*a), self.value(*b));
                self.builder().ins().select(condition, a, b)
            }
            Inst::Cast(op, a) => {
                self.scalars.cast(*op, self.kernel.regs[*a].ty, ty, self.value(*a))
            }
        };
        self.values[reg] = Some(value);
    }

    /// `base + bytes * register` for each term, the outer registers first, so that the sums of
    /// loop-invariant terms are common and leave the loop.
    fn sum(&mut self, base: Option<Value>, at: &Affine, bytes: i64) -> Option<Value> {
        let mut sum = base;
        for &(reg, coefficient) in &at.terms {
            let mut term = self.value(reg);
            if coefficient * bytes != 1 {
                term = self.builder().ins().imul_imm_s(term, coefficient * bytes);
            }
            sum = Some(match sum {
                Some(sum) => self.builder().ins().iadd(sum, term),
                None => term,
            });
        }
        sum
    }

    /// The value of an index expression.
    pub(crate) fn affine(&mut self, at: &Affine) -> Value {
        match self.sum(None, at, 1) {
            None => self.scalars.int(types::I64, at.constant),
            Some(sum) if at.constant == 0 => sum,
            Some(sum) => self.builder().ins().iadd_imm_s(sum, at.constant),
        }
    }

    /// The address of an element.
    pub(crate) fn address(&mut self, param: ParamId, at: &Affine) -> Address {
        let size = self.kernel.params[param].dtype.size() as i64;
        let base = self.pointers[param].expect("every parameter has an address");
        let base = self.sum(Some(base), at, size).expect("there is a base");
        self.offset(base, at.constant * size)
    }

    /// An address `bytes` after another.
    pub(crate) fn offset(&mut self, base: Value, bytes: i64) -> Address {
        // A little room, so that adding lanes to the offset cannot overflow.
        if bytes.abs() < 1 << 30 {
            return Address { base, offset: bytes as i32 };
        }
        Address { base: self.builder().ins().iadd_imm_s(base, bytes), offset: 0 }
    }

    /// Reads an element.
    pub(crate) fn load(&mut self, dtype: DType, at: Address) -> Value {
        self.scalars.load(dtype, at)
    }

    /// Writes an element.
    pub(crate) fn store(&mut self, dtype: DType, at: Address, value: Value) {
        self.scalars.store(dtype, at, value);
    }

    /// Floor quotient and non-negative remainder of an index expression over a positive constant.
    pub(crate) fn floor_div(&mut self, at: &Affine, by: i64) -> (Value, Value) {
        let value = self.affine(at);
        let bounds = self.bounds(at);
        self.divide_value(value, bounds, by)
    }

    fn divide_value(&mut self, value: Value, (low, high): (i64, i64), by: i64) -> (Value, Value) {
        if by & (by - 1) == 0 {
            let shift = i64::from(by.trailing_zeros());
            let quotient = self.builder().ins().sshr_imm_u(value, shift);
            let remainder = self.builder().ins().band_imm_s(value, by - 1);
            return (quotient, remainder);
        }
        if low >= 0 && high < 1 << 31 && by < 1 << 31 {
            // Multiplication by 2^s / by rounded up; exact for dividends below 2^31.
            let shift = 31 + i64::from(64 - (by - 1).leading_zeros());
            let factor = ((1i128 << shift) + i128::from(by) - 1) / i128::from(by);
            let product = self.builder().ins().imul_imm_s(value, factor as i64);
            let quotient = self.builder().ins().ushr_imm_u(product, shift);
            let back = self.builder().ins().imul_imm_s(quotient, by);
            let remainder = self.builder().ins().isub(value, back);
            return (quotient, remainder);
        }
        if low >= -(1 << 30) && high < 1 << 30 && by < 1 << 30 {
            let multiple = (by - 1 - low) / by;
            let raised = self.builder().ins().iadd_imm_s(value, multiple * by);
            let bounds = (low + multiple * by, high + multiple * by);
            let (quotient, remainder) = self.divide_value(raised, bounds, by);
            return (self.builder().ins().iadd_imm_s(quotient, -multiple), remainder);
        }
        let divisor = self.scalars.int(types::I64, by);
        let quotient = self.builder().ins().sdiv(value, divisor);
        let back = self.builder().ins().imul(quotient, divisor);
        let rest = self.builder().ins().isub(value, back);
        // -1 where the remainder is negative.
        let below = self.builder().ins().sshr_imm_u(rest, 63);
        let quotient = self.builder().ins().iadd(quotient, below);
        let correction = self.builder().ins().band(below, divisor);
        (quotient, self.builder().ins().iadd(rest, correction))
    }

    /// Least and largest value of an index expression, saturating.
    pub(crate) fn bounds(&self, at: &Affine) -> (i64, i64) {
        let (mut low, mut high) = (i128::from(at.constant), i128::from(at.constant));
        for &(reg, coefficient) in &at.terms {
            let (a, b) = self.kernel.regs[reg].bounds.unwrap_or((i64::MIN, i64::MAX));
            let (a, b) =
                (i128::from(a) * i128::from(coefficient), i128::from(b) * i128::from(coefficient));
            (low, high) = (low + a.min(b), high + a.max(b));
        }
        let narrow = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        (narrow(low), narrow(high))
    }

    /// The first value of a loop and the one past its last, cut by the kernel's range.
    pub(crate) fn loop_bounds(&mut self, inner: &Loop) -> (Value, Value) {
        let start = self.scalars.int(types::I64, inner.start);
        let end = self.scalars.int(types::I64, inner.end);
        if !inner.ranged {
            return (start, end);
        }
        let (lo, hi) = self.range;
        // Only a later stretch of the outer index starts above its first value.
        let start = self.builder().ins().smax(start, lo);
        let end = self.builder().ins().smin(end, hi);
        (start, end)
    }

    fn loop_(&mut self, inner: &Loop) {
        let (start, end) = self.loop_bounds(inner);
        let inits: Vec<Value> = inner.carries.iter().map(|c| self.value(c.init)).collect();
        let results = self.scalar_loop(inner, start, end, &inits, inner.ranged);
        for (carry, result) in inner.carries.iter().zip(results) {
            self.values[carry.result] = Some(result);
        }
    }

    /// A loop from `start` to `end`, one iteration at a time; gives the carries' final values.
    pub(crate) fn scalar_loop(
        &mut self,
        inner: &Loop,
        start: Value,
        end: Value,
        inits: &[Value],
        may_be_empty: bool,
    ) -> Vec<Value> {
        let (body, exit) = (self.builder().create_block(), self.builder().create_block());
        let var = self.builder().append_block_param(body, types::I64);
        let mut results = Vec::new();
        for carry in &inner.carries {
            let ty = scalar_type(self.ty(carry.inside));
            let inside = self.builder().append_block_param(body, ty);
            self.values[carry.inside] = Some(inside);
            results.push(self.builder().append_block_param(exit, ty));
        }
        let first = arguments(std::iter::once(start).chain(inits.iter().copied()));
        if may_be_empty {
            let some = self.builder().ins().icmp(IntCC::SignedLessThan, start, end);
            let skip = arguments(inits.iter().copied());
            self.builder().ins().brif(some, body, &first, exit, &skip);
        } else {
            self.builder().ins().jump(body, &first);
        }
        self.builder().switch_to_block(body);
        self.values[inner.var] = Some(var);
        self.block(&inner.body);
        let next: Vec<Value> = inner.carries.iter().map(|c| self.value(c.next)).collect();
        let following = self.builder().ins().iadd_imm_s(var, 1);
        let more = self.builder().ins().icmp(IntCC::SignedLessThan, following, end);
        let again = arguments(std::iter::once(following).chain(next.iter().copied()));
        let leave = arguments(next);
        self.builder().ins().brif(more, body, &again, exit, &leave);
        self.builder().switch_to_block(exit);
        results
    }

    fn branch(&mut self, inner: &If) {
        let condition = self.value(inner.condition);
        let (then, otherwise, exit) = (
            self.builder().create_block(),
            self.builder().create_block(),
            self.builder().create_block(),
        );
        self.builder().ins().brif(condition, then, &[], otherwise, &[]);
        self.builder().switch_to_block(then);
        self.block(&inner.then);
        let values = arguments(inner.results.iter().map(|r| self.value(r.1)));
        self.builder().ins().jump(exit, &values);
        self.builder().switch_to_block(otherwise);
        self.block(&inner.otherwise);
        let values = arguments(inner.results.iter().map(|r| self.value(r.2)));
        self.builder().ins().jump(exit, &values);
        for &(result, ..) in &inner.results {
            let ty = scalar_type(self.ty(result));
            let value = self.builder().append_block_param(exit, ty);
            self.values[result] = Some(value);
        }
        self.builder().switch_to_block(exit);
    }
}

/// Values as arguments of a block.
pub(crate) fn arguments(values: impl IntoIterator<Item = Value>) -> Vec<ir::BlockArg> {
    values.into_iter().map(BlockArg::Value).collect()
}
