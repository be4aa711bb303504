//! The text form of a [`Program`]: its values, its steps in order, then its kernels.

use crate::program::{
    Donation, Library, Program, Sharing, SortOrder, Step, StepKind, Storage, ValueId,
};
use std::fmt::{self, Display, Formatter};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {} {{", self.name)?;
        for (number, parameter) in self.parameters.iter().enumerate() {
            let donation = match parameter.donation {
                Donation::Kept => String::new(),
                Donation::Donated { preferred: None } => " donated".into(),
                Donation::Donated { preferred: Some(result) } => {
                    format!(" donated for result {result}")
                }
            };
            let value = typed(self, parameter.value);
            writeln!(f, "  {value} = parameter {number}{donation}")?;
        }
        for (id, value) in &self.values {
            match value.storage {
                Storage::Constant(constant) => {
                    let bytes = self.constants[constant].len();
                    writeln!(f, "  {} = constant {constant} of {bytes} bytes", typed(self, id))?;
                }
                Storage::View { base, offset } => {
                    let base = &self.values[base].name;
                    writeln!(f, "  {} = view {base} + {} bytes", typed(self, id), offset.0)?;
                }
                Storage::Parameter(_) | Storage::Own => {}
            }
        }
        steps(f, self, &self.body, 1)?;
        writeln!(f, "  return {}", names(self, &self.results))?;
        writeln!(f, "}}")?;
        for (id, kernel) in &self.kernels {
            write!(f, "\n{id}: {kernel}")?;
        }
        Ok(())
    }
}

fn steps(f: &mut Formatter<'_>, program: &Program, list: &[Step], depth: usize) -> fmt::Result {
    list.iter().try_for_each(|step| one(f, program, step, depth))
}

fn one(f: &mut Formatter<'_>, program: &Program, step: &Step, depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    let results: Vec<String> = step.results.iter().map(|&v| typed(program, v)).collect();
    let operands = names(program, &step.operands);
    write!(f, "{indent}{}: {} = ", step.id, results.join(", "))?;
    match &step.kind {
        StepKind::Kernel(id) => {
            write!(f, "kernel {id} {}({operands})", program.kernels[*id].name)?;
        }
        StepKind::Library(library) => write!(f, "{}({operands})", call(library))?,
        StepKind::Copy => write!(f, "copy({operands})")?,
        StepKind::While(_) => write!(f, "while({operands})")?,
        StepKind::Case(_) => write!(f, "case({operands})")?,
        StepKind::Tile(tile) => {
            write!(f, "tile({operands}) {} of {} rows", tile.rows, tile.extent)?;
        }
    }
    notes(f, program, step)?;
    match &step.kind {
        StepKind::Kernel(_) | StepKind::Library(_) | StepKind::Copy => writeln!(f),
        StepKind::While(body) => {
            writeln!(f, " {{")?;
            let carries: Vec<String> = body.carries.iter().map(|&v| typed(program, v)).collect();
            writeln!(f, "{indent}  carries {}", carries.join(", "))?;
            writeln!(f, "{indent}  condition {{")?;
            steps(f, program, &body.condition, depth + 2)?;
            writeln!(f, "{indent}    yield {}", program.values[body.condition_value].name)?;
            writeln!(f, "{indent}  }} body {{")?;
            steps(f, program, &body.body, depth + 2)?;
            writeln!(f, "{indent}    yield {}", names(program, &body.next))?;
            writeln!(f, "{indent}  }}\n{indent}}}")
        }
        StepKind::Case(case) => {
            writeln!(f, " {{")?;
            for (number, branch) in case.branches.iter().enumerate() {
                writeln!(f, "{indent}  branch {number} {{")?;
                steps(f, program, &branch.steps, depth + 2)?;
                writeln!(f, "{indent}    yield {}", names(program, &branch.results))?;
                writeln!(f, "{indent}  }}")?;
            }
            writeln!(f, "{indent}}}")
        }
        StepKind::Tile(tile) => {
            writeln!(f, " {{")?;
            for &(value, offset) in &tile.locals {
                writeln!(f, "{indent}  local {} at {}", typed(program, value), offset.0)?;
            }
            steps(f, program, &tile.steps, depth + 1)?;
            writeln!(f, "{indent}}}")
        }
    }
}

/// What the planner must know of a step: updates, sharing, scratch, origin.
fn notes(f: &mut Formatter<'_>, program: &Program, step: &Step) -> fmt::Result {
    for &(result, operand) in &step.updates {
        let name = |list: &[ValueId], at: u32| match list.get(at as usize) {
            Some(&value) => program.values[value].name.clone(),
            None => format!("<{at}>"),
        };
        write!(f, " [{} updates {}]", name(&step.results, result), name(&step.operands, operand))?;
    }
    let mut shared = Vec::new();
    for (row, &result) in step.sharing.iter().zip(&step.results) {
        for (sharing, &operand) in row.iter().zip(&step.operands) {
            let kind = match sharing {
                Sharing::Never => continue,
                Sharing::Ordered => "ordered",
                Sharing::SameElement => "same element",
                Sharing::AfterFullRead => "after full read",
            };
            let (result, operand) = (&program.values[result].name, &program.values[operand].name);
            shared.push(format!("{result} on {operand} {kind}"));
        }
    }
    if !shared.is_empty() {
        write!(f, " [{}]", shared.join(", "))?;
    }
    if step.scratch.per_thread.0 > 0 {
        write!(f, " [scratch {} bytes a thread]", step.scratch.per_thread.0)?;
    }
    if let Some(origin) = step.origin {
        write!(f, " [{origin}]")?;
    }
    Ok(())
}

fn call(library: &Library) -> String {
    match library {
        Library::Dot(dot) => {
            let axes = |name: &str, axes: &[crate::program::DotAxis]| {
                let shown: Vec<String> = axes
                    .iter()
                    .map(|a| format!("{}({}, {}, {})", a.extent, a.lhs, a.rhs, a.out))
                    .collect();
                format!("{name} [{}]", shown.join(", "))
            };
            let begin: Vec<String> = ["lhs", "rhs", "out"]
                .into_iter()
                .zip(&dot.begin)
                .filter(|(_, begin)| **begin != Default::default())
                .map(|(tensor, begin)| {
                    let starts = begin.starts.iter();
                    let starts = starts.map(|s| {
                        format!(" + {} * (operand {} to {})", s.stride, s.operand, s.high)
                    });
                    format!("{tensor} at {}{} ", begin.first, starts.collect::<String>())
                })
                .collect();
            let epilogue = dot.epilogue.iter().map(|e| format!("then {} ", e.kernel));
            format!(
                "dot {}x{}->{} {} {} {} {} {}{}",
                dot.operand_types[0],
                dot.operand_types[1],
                dot.out,
                axes("batch", &dot.batch),
                axes("m", &dot.m),
                axes("n", &dot.n),
                axes("k", &dot.k),
                begin.concat(),
                epilogue.collect::<String>()
            )
        }
        Library::Convolution(c) => format!("convolution {c:?} "),
        Library::Sort(sort) => {
            let order = match sort.order {
                SortOrder::Key { operand, descending } => {
                    format!("by {operand}{}", if descending { " descending" } else { "" })
                }
                SortOrder::Kernel(kernel) => format!("by {kernel}"),
            };
            let stable = if sort.stable { " stable" } else { "" };
            format!("sort {:?} {order}{stable} ", sort.extents)
        }
        Library::TopK { k } => format!("top_k {k} "),
        Library::Linalg(linalg) => {
            let [rows, columns] = linalg.shape;
            format!("{:?} {}x{rows}x{columns}x{} ", linalg.routine, linalg.batch, linalg.dtype)
        }
        Library::Fft(fft) => {
            format!("fft {} {} {:?}x{} ", fft.kind.name(), fft.batch, fft.lengths, fft.part)
        }
        Library::Print { label, axes: 0 } => format!("print {label:?} "),
        Library::Print { label, axes } => format!("print {label:?} by {axes} axes "),
    }
}

fn typed(program: &Program, value: ValueId) -> String {
    let data = &program.values[value];
    format!("{}: {}", data.name, data.type_name())
}

fn names(program: &Program, values: &[ValueId]) -> String {
    let names: Vec<&str> = values.iter().map(|&v| program.values[v].name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::program::{Parameter, Scratch, StepId, Value, While};
    use crate::{Access, Affine, DType, KernelBuilder};
    use cranelift_entity::{EntityRef, PrimaryMap};

    use super::*;

    fn value(name: &str, dtype: DType, storage: Storage) -> Value {
        let (op, shape, source) = ("add".to_string(), vec![], None);
        Value { name: name.into(), op, dtype, shape, storage, source }
    }

    #[test]
    fn a_program_prints_as_it_reads() {
        let mut b = KernelBuilder::new("is_small");
        let x = b.param(DType::F32, 1, Access::Read);
        let y = b.param(DType::F32, 1, Access::Write);
        let loaded = b.load(x, Affine::constant(0));
        b.store(y, Affine::constant(0), loaded);
        let kernel = b.finish();

        let mut values = PrimaryMap::new();
        let arg = values.push(value("arg0", DType::F32, Storage::Parameter(0)));
        let carry = values.push(value("carry.0", DType::F32, Storage::Own));
        let holds = values.push(value("lt.1", DType::I1, Storage::Own));
        let next = values.push(value("add.2", DType::F32, Storage::Own));
        let result = values.push(value("while.3", DType::F32, Storage::Own));
        let mut kernels = PrimaryMap::new();
        let id = kernels.push(kernel);
        let step = |number, kind, operand, result| Step {
            id: StepId::new(number),
            kind,
            operands: vec![operand],
            results: vec![result],
            updates: vec![],
            sharing: vec![vec![Sharing::SameElement]],
            scratch: Scratch::default(),
            origin: None,
        };
        let body = While {
            carries: vec![carry],
            condition: vec![step(1, StepKind::Kernel(id), carry, holds)],
            condition_value: holds,
            body: vec![step(2, StepKind::Copy, carry, next)],
            next: vec![next],
        };
        let mut outer = step(0, StepKind::While(Box::new(body)), arg, result);
        outer.updates.push((0, 0));
        outer.sharing = vec![vec![Sharing::Never]];
        let donation = Donation::Donated { preferred: Some(0) };
        let program = Program {
            name: "main".into(),
            values,
            kernels,
            constants: PrimaryMap::new(),
            parameters: vec![Parameter { value: arg, donation }],
            results: vec![result],
            body: vec![outer],
        };
        assert_eq!(
            program.to_string(),
            "\
program main {
  arg0: tensor<f32> = parameter 0 donated for result 0
  step0: while.3: tensor<f32> = while(arg0) [while.3 updates arg0] {
    carries carry.0: tensor<f32>
    condition {
      step1: lt.1: tensor<i1> = kernel k0 is_small(carry.0) [lt.1 on carry.0 same element]
      yield lt.1
    } body {
      step2: add.2: tensor<f32> = copy(carry.0) [add.2 on carry.0 same element]
      yield add.2
    }
  }
  return while.3
}

k0: kernel is_small(p0: read 1xf32, p1: write 1xf32) {
  r0 = load f32 p0[0]
  store p1[0] = r0
}
"
        );
    }
}
