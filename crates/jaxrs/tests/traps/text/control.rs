//! Loops, slices at places that are computed, scatters and gathers.

use super::{Text, Value, list, names, ty, types};

impl Text {
    /// `stablehlo.while`.
    pub fn repeat(
        &mut self,
        init: &[Value],
        condition: impl FnOnce(&mut Text, &[Value]) -> Value,
        body: impl FnOnce(&mut Text, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.next += 1;
        let n = self.next;
        let carries: Vec<Value> = init
            .iter()
            .enumerate()
            .map(|(i, v)| Value { name: format!("%iterArg{n}_{i}"), ..v.clone() })
            .collect();
        let pairs = carries.iter().zip(init).map(|(c, v)| format!("{} = {}", c.name, v.name));
        let line = format!(
            "%{n}:{} = stablehlo.while({}) : {}\ncond {{",
            init.len(),
            list(pairs.collect::<Vec<_>>()),
            types(init)
        );
        self.line(&line);
        let test = condition(self, &carries);
        self.line(&format!("stablehlo.return {} : tensor<i1>\n}} do {{", test.name));
        let next = body(self, &carries);
        self.line(&format!("stablehlo.return {} : {}\n}}", names(&next), types(&next)));
        let result = |(i, v): (usize, &Value)| Value { name: format!("%{n}#{i}"), ..v.clone() };
        init.iter().enumerate().map(result).collect()
    }

    /// `lax.fori_loop` from zero: `body` gets the counter and the carries. `fixed` are what it reads
    /// from outside, which JAX carries along.
    pub fn fori(
        &mut self,
        count: u64,
        fixed: &[Value],
        init: &[Value],
        body: impl FnOnce(&mut Text, &Value, &[Value], &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let k = fixed.len();
        let (start, zero) = (self.scalar(0.0, "i32"), self.scalar(0.0, "i32"));
        let all: Vec<Value> = fixed.iter().chain([&zero, &start]).chain(init).cloned().collect();
        let done = self.repeat(
            &all,
            |t, c| {
                let end = t.scalar(count as f64, "i32");
                t.compare("LT", &c[k], &end)
            },
            |t, c| {
                let next = body(t, &c[k + 1], &c[..k], &c[k + 2..]);
                let one = t.scalar(1.0, "i32");
                let (i, j) = (t.binary("add", &c[k], &one), t.binary("add", &c[k + 1], &one));
                c[..k].iter().cloned().chain([i, j]).chain(next).collect()
            },
        );
        done[k + 2..].to_vec()
    }

    /// `lax.scan`: `body` gets the rows of `xs`, `fixed` and the carries, and gives the carries and
    /// one row for each stacked result, whose types are `ys`. Backwards with `reverse`.
    #[expect(clippy::too_many_arguments, reason = "it has as many parts")]
    pub fn scan(
        &mut self,
        count: u64,
        reverse: bool,
        fixed: &[Value],
        xs: &[Value],
        init: &[Value],
        ys: &[(&'static str, Vec<u64>)],
        body: impl FnOnce(&mut Text, &[Value], &[Value], &[Value]) -> (Vec<Value>, Vec<Value>),
    ) -> (Vec<Value>, Vec<Value>) {
        let stacked: Vec<Value> = ys
            .iter()
            .map(|(dtype, row)| {
                let shape: Vec<u64> = [count].iter().chain(row).copied().collect();
                self.fill(0.0, dtype, &shape)
            })
            .collect();
        let zero = self.scalar(0.0, "i32");
        let (k, m, n) = (fixed.len(), xs.len(), init.len());
        let all: Vec<Value> =
            (fixed.iter().chain(xs)).chain([&zero]).chain(init).chain(&stacked).cloned().collect();
        let done = self.repeat(
            &all,
            |t, c| {
                let end = t.scalar(count as f64, "i32");
                t.compare("LT", &c[k + m], &end)
            },
            |t, c| {
                let mut at = c[k + m].clone();
                if reverse {
                    let (end, one) = (t.scalar(count as f64, "i32"), t.scalar(1.0, "i32"));
                    let left = t.binary("subtract", &end, &at);
                    at = t.binary("subtract", &left, &one);
                }
                let rows: Vec<Value> = c[k..k + m].iter().map(|x| t.row_at(x, &at)).collect();
                let (next, made) = body(t, &rows, &c[..k], &c[k + m + 1..k + m + 1 + n]);
                let old = &c[k + m + 1 + n..];
                let stacks: Vec<Value> =
                    old.iter().zip(&made).map(|(s, y)| t.set_row(s, y, &at)).collect();
                let one = t.scalar(1.0, "i32");
                let i = t.binary("add", &c[k + m], &one);
                c[..k + m].iter().cloned().chain([i]).chain(next).chain(stacks).collect()
            },
        );
        let from = k + m + 1;
        (done[from..from + n].to_vec(), done[from + n..].to_vec())
    }

    fn zeros(&mut self, count: usize) -> Vec<Value> {
        (0..count).map(|_| self.scalar(0.0, "i32")).collect()
    }

    pub fn dynamic_slice(&mut self, x: &Value, starts: &[Value], sizes: &[u64]) -> Value {
        let text = format!("{}, {}, sizes = [{}]", x.name, names(starts), list(sizes));
        let ins: Vec<&Value> = [x].into_iter().chain(starts).collect();
        self.op("stablehlo.dynamic_slice", &text, &ins, x.dtype, sizes)
    }

    pub fn update_slice(&mut self, x: &Value, part: &Value, starts: &[Value]) -> Value {
        let text = format!("{}, {}, {}", x.name, part.name, names(starts));
        let ins: Vec<&Value> = [x, part].into_iter().chain(starts).collect();
        self.op("stablehlo.dynamic_update_slice", &text, &ins, x.dtype, &x.shape)
    }

    /// `lax.dynamic_index_in_dim`.
    pub fn row_at(&mut self, x: &Value, at: &Value) -> Value {
        let mut starts = vec![at.clone()];
        starts.extend(self.zeros(x.rank() - 1));
        let mut sizes = x.shape.clone();
        sizes[0] = 1;
        let one = self.dynamic_slice(x, &starts, &sizes);
        self.reshape(&one, &x.shape[1..])
    }

    /// `lax.dynamic_update_index_in_dim`.
    pub fn set_row(&mut self, x: &Value, row: &Value, at: &Value) -> Value {
        let mut shape = row.shape.clone();
        shape.insert(0, 1);
        let dims: Vec<usize> = (1..shape.len()).collect();
        let one = self.broadcast(row, &shape, &dims);
        let mut starts = vec![at.clone()];
        starts.extend(self.zeros(x.rank() - 1));
        self.update_slice(x, &one, &starts)
    }

    /// An index of `jax.numpy`: a negative one counts from the end.
    pub fn wrapped(&mut self, at: &Value, extent: u64) -> Value {
        let zero = self.fill(0.0, "i32", &at.shape);
        let negative = self.compare("LT", at, &zero);
        let extent = self.fill(extent as f64, "i32", &at.shape);
        let moved = self.binary("add", at, &extent);
        self.select(&negative, &moved, at)
    }

    /// `(at * step + offset) % modulus`, with the signs of Python.
    pub fn stepped(&mut self, at: &Value, step: u64, offset: u64, modulus: u64) -> Value {
        let mut x = self.with("multiply", at, step as f64);
        if offset > 0 {
            x = self.with("add", &x, offset as f64);
        }
        let m = self.scalar(modulus as f64, "i32");
        let rest = self.binary("remainder", &x, &m);
        let (zero, negative) = (self.scalar(0.0, "i32"), self.scalar(0.0, "i32"));
        let some = self.compare("NE", &rest, &zero);
        let (below, under) =
            (self.compare("LT", &rest, &negative), self.compare("LT", &m, &negative));
        let differ = self.op(
            "stablehlo.compare",
            &format!("NE, {}, {}, UNSIGNED", below.name, under.name),
            &[&below, &under],
            "i1",
            &[],
        );
        let both = self.binary("and", &differ, &some);
        let moved = self.binary("add", &rest, &m);
        self.select(&both, &moved, &rest)
    }

    /// `stablehlo.scatter`: `numbers` are its dimension numbers, `how` combines old and new, or
    /// `None` keeps the new one.
    pub fn scatter(
        &mut self,
        x: &Value,
        at: &Value,
        updates: &Value,
        numbers: &str,
        how: Option<&str>,
    ) -> Value {
        let out = self.new_value(x.dtype, &x.shape);
        let (n, f) = (self.next, ty(x.dtype, &[]));
        let combine = match how {
            None => format!("stablehlo.return %new{n} : {f}"),
            Some(how) => format!(
                "%both{n} = stablehlo.{how} %old{n}, %new{n} : {f}\nstablehlo.return %both{n} : {f}"
            ),
        };
        let known = at.shape == [1];
        let text = format!(
            "{} = \"stablehlo.scatter\"({}, {}, {}) <{{indices_are_sorted = {known}, scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, unique_indices = {known}}}> ({{\n\
             ^bb0(%old{n}: {f}, %new{n}: {f}):\n{combine}\n}}) : ({}, {}, {}) -> {}",
            out.name,
            x.name,
            at.name,
            updates.name,
            x.ty(),
            at.ty(),
            updates.ty(),
            out.ty()
        );
        self.line(&text);
        out
    }

    /// `jnp.take_along_axis(x, at[:, None], 1)` where `at` is `[n, 1, 1]` and wrapped.
    pub fn take_along(&mut self, x: &Value, at: &Value) -> Value {
        let (n, m) = (x.shape[0], x.shape[1]);
        let last = self.literal(&(m - 1).to_string(), "i32", &[1]);
        let zero = self.fill(0.0, "i32", &at.shape);
        let low = self.compare("GE", at, &zero);
        let last = self.broadcast(&last, &[1, 1, 1], &[2]);
        let last = self.broadcast(&last, &at.shape, &[0, 1, 2]);
        let high = self.compare("LE", at, &last);
        let both = self.binary("and", &low, &high);
        let inside = self.reduce(&both, "and", &[2]);
        let out = self.new_value(x.dtype, &[n, 1]);
        let line = format!(
            "{} = \"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}}> : ({}, {}) -> {}",
            out.name,
            x.name,
            at.name,
            x.ty(),
            at.ty(),
            out.ty()
        );
        self.line(&line);
        let nan = self.literal("0x7FC00000", "f32", &[]);
        let nan = self.broadcast(&nan, &[n, 1], &[]);
        self.select(&inside, &out, &nan)
    }
}
