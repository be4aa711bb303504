//! The text form of kernels and programs: equal for equal inputs, made to be read.
//!
//! ```text
//! kernel add_exp(p0: read 128xf32, p1: write 128xf32) range 128 {
//!   parallel ranged r1 in 0..128 {
//!     r2 = load f32 p0[r1]
//!     r3 = add f32 r2, 1.0
//!     store p1[r1] = r3
//!   }
//! }
//! ```
//! A constant stands where it is used, spelled in the type of the instruction that uses it; its
//! `Let` is not shown. Registers keep their numbers, so that a message of the verifier or of a back
//! end names the same ones.

use crate::dtype::RegType;
use crate::inst::{Compare, CompareKind, Inst};
use crate::kernel::{Access, Block, Def, Kernel, LoopKind, Reg, Stmt};
use std::fmt::{self, Display, Formatter};

mod program;

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}(", self.name)?;
        for (id, param) in &self.params {
            let comma = if id.as_u32() == 0 { "" } else { ", " };
            let access = match param.access {
                Access::Read => "read",
                Access::Write => "write",
                Access::ReadWrite => "update",
            };
            write!(f, "{comma}{id}: {access} {}x{}", param.len, param.dtype)?;
        }
        f.write_str(")")?;
        if let Some(range) = self.range {
            write!(f, " range {range}")?;
        }
        f.write_str(" {\n")?;
        block(f, self, &self.body, 1)?;
        f.write_str("}\n")
    }
}

fn block(f: &mut Formatter<'_>, kernel: &Kernel, body: &Block, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for stmt in &body.stmts {
        match stmt {
            Stmt::Let(reg) => match &kernel.regs[*reg].def {
                Def::Inst(Inst::Const(_)) => {}
                Def::Inst(inst) => {
                    writeln!(f, "{indent}{reg} = {}", instruction(kernel, *reg, inst))?;
                }
                other => writeln!(f, "{indent}{reg} = <{other:?}>")?,
            },
            Stmt::Store { param, at, value } => {
                writeln!(f, "{indent}store {param}[{at}] = {}", operand(kernel, *value))?;
            }
            Stmt::Loop(l) => {
                let kind = match l.kind {
                    LoopKind::Parallel => "parallel",
                    LoopKind::Reduce => "reduce",
                    LoopKind::Sequential => "sequential",
                };
                let ranged = if l.ranged { " ranged" } else { "" };
                write!(f, "{indent}{kind}{ranged} {} in {}..{}", l.var, l.start, l.end)?;
                for (position, carry) in l.carries.iter().enumerate() {
                    let before = if position == 0 { " carry " } else { ", " };
                    let ty = kernel.regs[carry.inside].ty;
                    let init = operand(kernel, carry.init);
                    write!(f, "{before}{}: {ty} = {init}", carry.inside)?;
                    if let Some(op) = carry.op {
                        write!(f, " by {}", name(op))?;
                    }
                }
                f.write_str(" {\n")?;
                block(f, kernel, &l.body, depth + 1)?;
                if !l.carries.is_empty() {
                    let next = l.carries.iter().map(|c| operand(kernel, c.next));
                    writeln!(f, "{indent}  next {}", list(next))?;
                }
                write!(f, "{indent}}}")?;
                if !l.carries.is_empty() {
                    write!(f, " -> {}", list(l.carries.iter().map(|c| c.result.to_string())))?;
                }
                writeln!(f)?;
            }
            Stmt::If(branch) => {
                writeln!(f, "{indent}if {} {{", operand(kernel, branch.condition))?;
                block(f, kernel, &branch.then, depth + 1)?;
                let yields = |f: &mut Formatter<'_>, values: Vec<Reg>| match &values[..] {
                    [] => Ok(()),
                    _ => {
                        let values = values.iter().map(|&v| operand(kernel, v));
                        writeln!(f, "{indent}  yield {}", list(values))
                    }
                };
                yields(f, branch.results.iter().map(|r| r.1).collect())?;
                if !branch.otherwise.stmts.is_empty() || !branch.results.is_empty() {
                    writeln!(f, "{indent}}} else {{")?;
                    block(f, kernel, &branch.otherwise, depth + 1)?;
                    yields(f, branch.results.iter().map(|r| r.2).collect())?;
                }
                write!(f, "{indent}}}")?;
                if !branch.results.is_empty() {
                    let results = branch.results.iter();
                    let results = results.map(|r| format!("{}: {}", r.0, kernel.regs[r.0].ty));
                    write!(f, " -> {}", list(results))?;
                }
                writeln!(f)?;
            }
        }
    }
    Ok(())
}

/// An instruction as it stands right of the `=`: mnemonic, type of its operands, operands.
fn instruction(kernel: &Kernel, reg: Reg, inst: &Inst) -> String {
    let ty = kernel.regs[reg].ty;
    let of = |r: Reg| kernel.regs[r].ty;
    let show = |r: Reg| operand(kernel, r);
    match inst {
        Inst::Const(bits) => constant(ty, *bits),
        Inst::Index(at) => format!("index {at}"),
        Inst::FloorDiv(at, by) => format!("floor_div ({at}), {by}"),
        Inst::Modulo(at, by) => format!("modulo ({at}), {by}"),
        Inst::Load(param, at) => format!("load {ty} {param}[{at}]"),
        Inst::Unary(op, a) if of(*a) == ty => format!("{} {ty} {}", name(op), show(*a)),
        Inst::Unary(op, a) => format!("{} {} {} to {ty}", name(op), of(*a), show(*a)),
        Inst::Binary(op, a, b) => format!("{} {ty} {}, {}", name(op), show(*a), show(*b)),
        Inst::Fma(a, b, c) => format!("fma {ty} {}, {}, {}", show(*a), show(*b), show(*c)),
        Inst::Compare(op, kind, a, b) => {
            let op = match op {
                Compare::Eq => "eq",
                Compare::Ne => "ne",
                Compare::Lt => "lt",
                Compare::Le => "le",
                Compare::Gt => "gt",
                Compare::Ge => "ge",
            };
            let kind = match kind {
                CompareKind::Float => "",
                CompareKind::Signed => "_s",
                CompareKind::Unsigned => "_u",
            };
            format!("{op}{kind} {} {}, {}", of(*a), show(*a), show(*b))
        }
        Inst::Select(c, a, b) => format!("select {ty} {}, {}, {}", show(*c), show(*a), show(*b)),
        Inst::Cast(op, a) => format!("{} {} {} to {ty}", name(op), of(*a), show(*a)),
    }
}

fn operand(kernel: &Kernel, reg: Reg) -> String {
    match &kernel.regs[reg] {
        data if matches!(data.def, Def::Inst(Inst::Const(_))) => {
            let Def::Inst(Inst::Const(bits)) = data.def else { unreachable!("just matched") };
            constant(data.ty, bits)
        }
        _ => reg.to_string(),
    }
}

/// A constant: the shortest decimal that reads back to the same float; the bits of a NaN.
fn constant(ty: RegType, bits: u64) -> String {
    match ty {
        RegType::I1 if bits < 2 => (bits == 1).to_string(),
        RegType::F32 if !f32::from_bits(bits as u32).is_nan() => {
            format!("{:?}", f32::from_bits(bits as u32))
        }
        RegType::F64 if !f64::from_bits(bits).is_nan() => format!("{:?}", f64::from_bits(bits)),
        RegType::F32 | RegType::F64 => format!("nan({bits:#x})"),
        _ => {
            let unused = 64 - ty.bits();
            (((bits << unused) as i64) >> unused).to_string()
        }
    }
}

/// The name of an instruction in snake case.
fn name(op: impl fmt::Debug) -> String {
    let mut out = String::new();
    for c in format!("{op:?}").chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::builder::{self, Build, Guard, LoopOptions};
    use crate::kernel::LoopKind;
    use crate::{Access, Affine, BinaryOp, Compare, CompareKind, DType, KernelBuilder, UnaryOp};

    /// Rows' sums of exponent-free terms, with a branch, a cast and a comparison.
    #[test]
    fn a_kernel_prints_as_it_reads() {
        let mut b = KernelBuilder::new("sum_rows");
        let x = b.param(DType::F32, 12, Access::Read);
        let y = b.param(DType::BF16, 3, Access::Write);
        b.set_range(3);
        let options = LoopOptions { ranged: true, split: false };
        builder::parallel(&mut b, 3, options, |b, row| {
            let zero = b.f32(0.0);
            let inits = [(zero, Some(BinaryOp::Add))];
            let sum = builder::reduce(b, 4, LoopOptions::default(), LoopKind::Reduce, &inits, {
                |b: &mut KernelBuilder, column: &Affine, carry: &[_]| {
                    let value = b.load(x, row.scale(4).add(column));
                    vec![b.binary(BinaryOp::Add, carry[0], value)]
                }
            })[0];
            let below = b.compare(Compare::Lt, CompareKind::Float, sum, zero);
            let guard = Guard::When(below);
            let out = builder::branch(
                b,
                guard,
                |b| vec![b.builder().unary(UnaryOp::Neg, sum)],
                |b| {
                    let half = b.f32(0.5);
                    vec![b.fma(sum, half, half)]
                },
            )[0];
            let rounded = b.unary(UnaryOp::RoundBf16, out);
            b.store(y, row.clone(), rounded);
        });
        let kernel = b.finish();
        assert_eq!(crate::verify::verify(&kernel), Ok(()));
        assert_eq!(
            kernel.to_string(),
            "\
kernel sum_rows(p0: read 12xf32, p1: write 3xbf16) range 3 {
  parallel ranged r0 in 0..3 {
    reduce r2 in 0..4 carry r3: f32 = 0.0 by add {
      r4 = load f32 p0[4*r0 + r2]
      r5 = add f32 r3, r4
      next r5
    } -> r6
    r7 = lt f32 r6, 0.0
    if r7 {
      r8 = neg f32 r6
      yield r8
    } else {
      r10 = fma f32 r6, 0.5, 0.5
      yield r10
    } -> r11: f32
    r12 = round_bf16 f32 r11
    store p1[r0] = r12
  }
}
"
        );
    }
}
