//! StableHLO text in the forms in which JAX exports it.

mod control;

use std::fmt::Write as _;

/// A value of the program that is being written.
#[derive(Clone, Debug)]
pub struct Value {
    name: String,
    pub dtype: &'static str,
    pub shape: Vec<u64>,
}

impl Value {
    fn ty(&self) -> String {
        ty(self.dtype, &self.shape)
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    pub fn bytes(&self) -> u64 {
        let size = match self.dtype {
            "i1" | "i8" | "ui8" => 1,
            "bf16" | "f16" | "i16" => 2,
            _ => 4,
        };
        self.shape.iter().product::<u64>() * size
    }
}

fn ty(dtype: &str, shape: &[u64]) -> String {
    let extents: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{extents}{dtype}>")
}

fn list(numbers: impl IntoIterator<Item = impl ToString>) -> String {
    let all: Vec<String> = numbers.into_iter().map(|n| n.to_string()).collect();
    all.join(", ")
}

fn names(values: &[Value]) -> String {
    list(values.iter().map(|v| v.name.clone()))
}

fn types(values: &[Value]) -> String {
    list(values.iter().map(Value::ty))
}

/// A program under construction.
#[derive(Default)]
pub struct Text {
    body: String,
    next: usize,
    arguments: Vec<(Value, bool)>,
}

impl Text {
    /// The next argument of `@main`.
    pub fn argument(&mut self, dtype: &'static str, shape: &[u64], donated: bool) -> Value {
        let name = format!("%arg{}", self.arguments.len());
        let value = Value { name, dtype, shape: shape.to_vec() };
        self.arguments.push((value.clone(), donated));
        value
    }

    /// An argument of `f32` that is kept.
    pub fn input(&mut self, shape: &[u64]) -> Value {
        self.argument("f32", shape, false)
    }

    /// The module: a donated argument is paired with the first result of its type that is left, as
    /// `jax.jit` does, and else marked as a donor.
    pub fn finish(self, results: &[Value]) -> String {
        let mut taken = vec![false; results.len()];
        let parameters = self.arguments.iter().map(|(value, donated)| {
            let fits = |(i, r): (usize, &Value)| !taken[i] && r.ty() == value.ty();
            let pair = results.iter().enumerate().position(|(i, r)| fits((i, r)));
            let attribute = match (donated, pair) {
                (false, _) => String::new(),
                (true, None) => " {jax.buffer_donor = true}".into(),
                (true, Some(i)) => {
                    taken[i] = true;
                    format!(" {{tf.aliasing_output = {i} : i32}}")
                }
            };
            format!("{}: {}{attribute}", value.name, value.ty())
        });
        let parameters = list(parameters.collect::<Vec<_>>());
        format!(
            "module @jit_f attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}} {{\n\
             func.func public @main({parameters}) -> ({}) {{\n{}return {} : {}\n}}\n}}\n",
            types(results),
            self.body,
            names(results),
            types(results)
        )
    }

    fn line(&mut self, line: &str) {
        self.body.push_str(line);
        self.body.push('\n');
    }

    fn new_value(&mut self, dtype: &'static str, shape: &[u64]) -> Value {
        self.next += 1;
        Value { name: format!("%{}", self.next), dtype, shape: shape.to_vec() }
    }

    /// An op's line: `operands` stand before the colon, attributes among them.
    fn op(
        &mut self,
        name: &str,
        operands: &str,
        ins: &[&Value],
        dtype: &'static str,
        shape: &[u64],
    ) -> Value {
        let out = self.new_value(dtype, shape);
        let ins = list(ins.iter().map(|v| v.ty()));
        let line = format!("{} = {name} {operands} : ({ins}) -> {}", out.name, out.ty());
        self.line(&line);
        out
    }

    /// A constant in every element, written without its type's default form.
    pub fn literal(&mut self, text: &str, dtype: &'static str, shape: &[u64]) -> Value {
        let out = self.new_value(dtype, shape);
        let line = format!("{} = stablehlo.constant dense<{text}> : {}", out.name, out.ty());
        self.line(&line);
        out
    }

    pub fn scalar(&mut self, value: f64, dtype: &'static str) -> Value {
        let text = match dtype {
            "f32" | "f16" | "bf16" if value == f64::INFINITY => "0x7F800000".into(),
            "f32" | "f16" | "bf16" if value == f64::NEG_INFINITY => "0xFF800000".into(),
            "f32" | "f16" | "bf16" => format!("{value:.9e}"),
            _ => format!("{}", value as i64),
        };
        self.literal(&text, dtype, &[])
    }

    /// A scalar, broadcast.
    pub fn fill(&mut self, value: f64, dtype: &'static str, shape: &[u64]) -> Value {
        let scalar = self.scalar(value, dtype);
        if shape.is_empty() { scalar } else { self.broadcast(&scalar, shape, &[]) }
    }

    fn fill_like(&mut self, value: f64, like: &Value) -> Value {
        self.fill(value, like.dtype, &like.shape)
    }

    pub fn broadcast(&mut self, x: &Value, shape: &[u64], dims: &[usize]) -> Value {
        let text = format!("{}, dims = [{}]", x.name, list(dims));
        self.op("stablehlo.broadcast_in_dim", &text, &[x], x.dtype, shape)
    }

    /// `x` with one more extent of 1 at `axis`, then over `shape`: the two steps of `jax.numpy`.
    pub fn spread(&mut self, x: &Value, axis: usize, shape: &[u64]) -> Value {
        let mut one = x.shape.clone();
        one.insert(axis, 1);
        let dims: Vec<usize> = (0..one.len()).filter(|&d| d != axis).collect();
        let wide = self.broadcast(x, &one, &dims);
        let all: Vec<usize> = (0..one.len()).collect();
        self.broadcast(&wide, shape, &all)
    }

    pub fn unary(&mut self, name: &str, x: &Value) -> Value {
        let name =
            if name == "square" { "chlo.square".into() } else { format!("stablehlo.{name}") };
        self.op(&name, &x.name, &[x], x.dtype, &x.shape)
    }

    pub fn binary(&mut self, name: &str, a: &Value, b: &Value) -> Value {
        let text = format!("{}, {}", a.name, b.name);
        self.op(&format!("stablehlo.{name}"), &text, &[a, b], a.dtype, &a.shape)
    }

    /// A binary op with a constant.
    pub fn with(&mut self, name: &str, a: &Value, number: f64) -> Value {
        let b = self.fill_like(number, a);
        self.binary(name, a, &b)
    }

    /// A binary op with a constant on the left.
    pub fn from(&mut self, number: f64, name: &str, b: &Value) -> Value {
        let a = self.fill_like(number, b);
        self.binary(name, &a, b)
    }

    pub fn compare(&mut self, how: &str, a: &Value, b: &Value) -> Value {
        let kind = if a.dtype.contains('f') { "FLOAT" } else { "SIGNED" };
        let text = format!("{how}, {}, {}, {kind}", a.name, b.name);
        self.op("stablehlo.compare", &text, &[a, b], "i1", &a.shape)
    }

    pub fn select(&mut self, mask: &Value, yes: &Value, no: &Value) -> Value {
        let text = format!("{}, {}, {}", mask.name, yes.name, no.name);
        self.op("stablehlo.select", &text, &[mask, yes, no], yes.dtype, &yes.shape)
    }

    pub fn convert(&mut self, x: &Value, dtype: &'static str) -> Value {
        self.op("stablehlo.convert", &x.name, &[x], dtype, &x.shape)
    }

    pub fn reshape(&mut self, x: &Value, shape: &[u64]) -> Value {
        self.op("stablehlo.reshape", &x.name, &[x], x.dtype, shape)
    }

    pub fn transpose(&mut self, x: &Value, dims: &[usize]) -> Value {
        let shape: Vec<u64> = dims.iter().map(|&d| x.shape[d]).collect();
        let text = format!("{}, dims = [{}]", x.name, list(dims));
        self.op("stablehlo.transpose", &text, &[x], x.dtype, &shape)
    }

    pub fn reverse(&mut self, x: &Value, axis: usize) -> Value {
        let text = format!("{}, dims = [{axis}]", x.name);
        self.op("stablehlo.reverse", &text, &[x], x.dtype, &x.shape)
    }

    /// `starts` with the extents `sizes`.
    pub fn slice(&mut self, x: &Value, starts: &[u64], sizes: &[u64]) -> Value {
        let parts = starts.iter().zip(sizes).map(|(a, n)| format!("{a}:{}", a + n));
        let text = format!("{} [{}]", x.name, list(parts.collect::<Vec<_>>()));
        self.op("stablehlo.slice", &text, &[x], x.dtype, sizes)
    }

    /// `x[i]`.
    pub fn row(&mut self, x: &Value, i: u64) -> Value {
        let mut starts = vec![0; x.rank()];
        let mut sizes = x.shape.clone();
        (starts[0], sizes[0]) = (i, 1);
        let one = self.slice(x, &starts, &sizes);
        self.reshape(&one, &x.shape[1..])
    }

    pub fn concatenate(&mut self, parts: &[Value], axis: usize) -> Value {
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|p| p.shape[axis]).sum();
        let text = format!("{}, dim = {axis}", names(parts));
        let ins: Vec<&Value> = parts.iter().collect();
        self.op("stablehlo.concatenate", &text, &ins, parts[0].dtype, &shape)
    }

    /// `jnp.stack`.
    pub fn stack(&mut self, parts: &[Value], axis: usize) -> Value {
        let mut shape = parts[0].shape.clone();
        shape.insert(axis, 1);
        let dims: Vec<usize> = (0..shape.len()).filter(|&d| d != axis).collect();
        let parts: Vec<Value> = parts.iter().map(|p| self.broadcast(p, &shape, &dims)).collect();
        self.concatenate(&parts, axis)
    }

    pub fn pad(&mut self, x: &Value, value: f64, low: &[u64], high: &[u64]) -> Value {
        let with = self.scalar(value, x.dtype);
        let shape: Vec<u64> = (0..x.rank()).map(|d| low[d] + x.shape[d] + high[d]).collect();
        let text = format!(
            "{}, {}, low = [{}], high = [{}], interior = [{}]",
            x.name,
            with.name,
            list(low),
            list(high),
            list(vec![0; x.rank()])
        );
        self.op("stablehlo.pad", &text, &[x, &with], x.dtype, &shape)
    }

    pub fn iota(&mut self, dtype: &'static str, shape: &[u64], axis: usize) -> Value {
        let out = self.new_value(dtype, shape);
        let line = format!("{} = stablehlo.iota dim = {axis} : {}", out.name, out.ty());
        self.line(&line);
        out
    }

    /// `dot_general` with the first `batch` dimensions as batch dimensions of both.
    pub fn dot_general(
        &mut self,
        a: &Value,
        b: &Value,
        batch: usize,
        contract: (usize, usize),
        dtype: &'static str,
    ) -> Value {
        let dims: Vec<usize> = (0..batch).collect();
        let mut shape = a.shape[..batch].to_vec();
        let free = |v: &Value, c: usize| -> Vec<u64> {
            (batch..v.rank()).filter(|&d| d != c).map(|d| v.shape[d]).collect()
        };
        shape.extend(free(a, contract.0));
        shape.extend(free(b, contract.1));
        let mut text = format!("{}, {}, ", a.name, b.name);
        if batch > 0 {
            let _ = write!(text, "batching_dims = [{0}] x [{0}], ", list(&dims));
        }
        let _ = write!(
            text,
            "contracting_dims = [{}] x [{}], precision = [DEFAULT, DEFAULT]",
            contract.0, contract.1
        );
        self.op("stablehlo.dot_general", &text, &[a, b], dtype, &shape)
    }

    /// `a @ b` of matrices.
    pub fn dot(&mut self, a: &Value, b: &Value) -> Value {
        self.dot_general(a, b, 0, (a.rank() - 1, 0), a.dtype)
    }

    /// A reduction: `add`, `maximum`, `minimum` or `and`.
    pub fn reduce(&mut self, x: &Value, how: &str, axes: &[usize]) -> Value {
        let start = match how {
            "maximum" => f64::NEG_INFINITY,
            "minimum" => f64::INFINITY,
            _ => 0.0,
        };
        let start = match how {
            "and" => self.literal("true", "i1", &[]),
            _ => self.scalar(start, x.dtype),
        };
        let shape: Vec<u64> =
            (0..x.rank()).filter(|d| !axes.contains(d)).map(|d| x.shape[d]).collect();
        let out = self.new_value(x.dtype, &shape);
        let line = format!(
            "{} = stablehlo.reduce({} init: {}) applies stablehlo.{how} across dimensions = [{}] : ({}, {}) -> {}",
            out.name,
            x.name,
            start.name,
            list(axes),
            x.ty(),
            start.ty(),
            out.ty()
        );
        self.line(&line);
        out
    }

    /// A reduction as `jax.numpy` names it: `sum`, `mean`, `max` or `min`.
    pub fn statistic(&mut self, how: &str, x: &Value, axes: &[usize]) -> Value {
        match how {
            "max" => self.reduce(x, "maximum", axes),
            "min" => self.reduce(x, "minimum", axes),
            "sum" => self.reduce(x, "add", axes),
            _ => {
                let sum = self.reduce(x, "add", axes);
                let count: u64 = axes.iter().map(|&d| x.shape[d]).product();
                self.with("divide", &sum, count as f64)
            }
        }
    }

    /// `argmin` over the last axis, or `argmax`.
    pub fn arg_extreme(&mut self, x: &Value, how: &str) -> Value {
        let axis = x.rank() - 1;
        let at = self.iota("i32", &x.shape, axis);
        let start = if how == "LT" { f64::INFINITY } else { f64::NEG_INFINITY };
        let (start, zero) = (self.scalar(start, x.dtype), self.scalar(0.0, "i32"));
        let shape = &x.shape[..axis];
        self.next += 1;
        let (n, f) = (self.next, ty(x.dtype, &[]));
        let text = format!(
            "%{n}:2 = stablehlo.reduce({} init: {}), ({} init: {}) across dimensions = [{axis}] : ({}, {}, {f}, tensor<i32>) -> ({}, {})\n\
             reducer(%a{n}: {f}, %b{n}: {f}) (%i{n}: tensor<i32>, %j{n}: tensor<i32>) {{\n\
             %c{n} = stablehlo.compare {how}, %a{n}, %b{n}, FLOAT : ({f}, {f}) -> tensor<i1>\n\
             %d{n} = stablehlo.compare NE, %a{n}, %a{n}, FLOAT : ({f}, {f}) -> tensor<i1>\n\
             %e{n} = stablehlo.or %c{n}, %d{n} : tensor<i1>\n\
             %f{n} = stablehlo.compare EQ, %a{n}, %b{n}, FLOAT : ({f}, {f}) -> tensor<i1>\n\
             %g{n} = stablehlo.compare LT, %i{n}, %j{n}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\n\
             %h{n} = stablehlo.and %f{n}, %g{n} : tensor<i1>\n\
             %k{n} = stablehlo.or %e{n}, %h{n} : tensor<i1>\n\
             %l{n} = stablehlo.select %e{n}, %a{n}, %b{n} : tensor<i1>, {f}\n\
             %m{n} = stablehlo.select %k{n}, %i{n}, %j{n} : tensor<i1>, tensor<i32>\n\
             stablehlo.return %l{n}, %m{n} : {f}, tensor<i32>\n}}",
            x.name,
            start.name,
            at.name,
            zero.name,
            x.ty(),
            at.ty(),
            ty(x.dtype, shape),
            ty("i32", shape)
        );
        self.line(&text);
        Value { name: format!("%{n}#1"), dtype: "i32", shape: shape.to_vec() }
    }

    /// A convolution of equal extents, `[b, 0, 1, f]` or `[b, f, 0, 1]`.
    pub fn convolve(&mut self, x: &Value, w: &Value, border: u64, channels_last: bool) -> Value {
        let dims = match channels_last {
            true => "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            false => "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        };
        let out = self.new_value(x.dtype, &x.shape);
        let line = format!(
            "{} = stablehlo.convolution({}, {}) dim_numbers = {dims}, window = {{stride = [1, 1], pad = [[{border}, {border}], [{border}, {border}]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}} : ({}, {}) -> {}",
            out.name,
            x.name,
            w.name,
            x.ty(),
            w.ty(),
            out.ty()
        );
        self.line(&line);
        out
    }

    /// `stablehlo.optimization_barrier`.
    pub fn barrier(&mut self, values: &[Value]) -> Vec<Value> {
        self.next += 1;
        let n = self.next;
        let line = format!(
            "%{n}:{} = stablehlo.optimization_barrier {} : {}",
            values.len(),
            names(values),
            types(values)
        );
        self.line(&line);
        let result = |(i, v): (usize, &Value)| Value { name: format!("%{n}#{i}"), ..v.clone() };
        values.iter().enumerate().map(result).collect()
    }
}
