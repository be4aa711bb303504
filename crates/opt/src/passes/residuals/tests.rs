//! A loop that saves, a loop that reads: the interpreter gives the same bits before and after, and
//! the first loop saves so many bytes an iteration.

use jaxrs_ir::{Function, Literal, Op, TensorType, interpret, text};

/// The iterations of each loop.
const N: u64 = 5;

/// A loop over `h`, whose body computes `%next` and the values to save, and a loop that reads them.
/// `forward` is the slot that the first loop writes, `backward` the one that the second reads; each
/// is `%i` or `%last` (`4 - %i`).
fn program(
    ops: &str,
    saved: &[(&str, &str)],
    [forward, backward]: [&str; 2],
    more: &str,
) -> String {
    let list = |f: &dyn Fn(usize, &(&str, &str)) -> String| -> String {
        saved.iter().enumerate().map(|(n, s)| f(n, s)).collect()
    };
    let stack = |ty: &str| format!("tensor<{N}x3x4x{ty}>");
    let zeros = list(&|n, s| {
        format!(
            "%z{n} = stablehlo.constant dense<0{}> : {}\n",
            if s.1 == "i1" { "" } else { ".0" },
            stack(s.1)
        )
        .replace("dense<0>", "dense<false>")
    });
    let types = list(&|_, s| format!(", {}", stack(s.1)));
    let stores = list(&|n, s| {
        format!(
            "%u{n} = stablehlo.reshape {} : (tensor<3x4x{ty}>) -> tensor<1x3x4x{ty}>
             %n{n} = stablehlo.dynamic_update_slice %s{n}, %u{n}, {forward}, %c0, %c0 :
               ({whole}, tensor<1x3x4x{ty}>, tensor<i32>, tensor<i32>, tensor<i32>) -> {whole}\n",
            s.0,
            ty = s.1,
            whole = stack(s.1)
        )
    });
    let loads = list(&|n, s| {
        format!(
            "%l{n} = stablehlo.dynamic_slice %r#{}, {backward}, %c0, %c0, sizes = [1, 3, 4] :
               ({}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x4x{ty}>
             %v{n} = stablehlo.reshape %l{n} : (tensor<1x3x4x{ty}>) -> tensor<3x4x{ty}>
             %f{n} = stablehlo.convert %v{n} : (tensor<3x4x{ty}>) -> tensor<3x4xf32>
             %p{n} = stablehlo.multiply %p, %f{n} : tensor<3x4xf32>
             %q{n} = stablehlo.dot_general %f{n}, %w, contracting_dims = [1] x [0] :
               (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
             %a{n} = stablehlo.add %p{n}, %q{n} : tensor<3x4xf32>
             %b{n} = stablehlo.add {}, %a{n} : tensor<3x4xf32>\n",
            n + 2,
            stack(s.1),
            if n == 0 { "%p".into() } else { format!("%b{}", n - 1) },
            ty = s.1
        )
    });
    let carries = list(&|n, _| format!(", %s{n} = %z{n}"));
    let yields = list(&|n, _| format!(", %n{n}"));
    let counting = format!(
        "cond {{
           %end = stablehlo.constant dense<{N}> : tensor<i32>
           %go = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %go : tensor<i1>
         }} do {{
           %four = stablehlo.constant dense<4> : tensor<i32>
           %last = stablehlo.subtract %four, %i : tensor<i32>
           %step = stablehlo.constant dense<1> : tensor<i32>
           %j = stablehlo.add %i, %step : tensor<i32>"
    );
    let (results, result_types) = match more {
        "" => (String::new(), String::new()),
        more => (format!(", {more}"), format!(", {}", stack("f32"))),
    };
    let last = saved.len() - 1;
    format!(
        "func.func public @main(%x: tensor<3x4xf32>, %w: tensor<4x4xf32>)
             -> (tensor<3x4xf32>, tensor<3x4xf32>{result_types}) {{
           %c0 = stablehlo.constant dense<0> : tensor<i32>
           {zeros}
           %r:{count} = stablehlo.while(%i = %c0, %h = %x{carries}) :
             tensor<i32>, tensor<3x4xf32>{types} {counting}
             %one = stablehlo.constant dense<1.0> : tensor<3x4xf32>
             %z = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] :
               (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
             {ops}
             {stores}
             stablehlo.return %j, %next{yields} : tensor<i32>, tensor<3x4xf32>{types}
           }}
           %g:2 = stablehlo.while(%i = %c0, %p = %x) : tensor<i32>, tensor<3x4xf32> {counting}
             {loads}
             stablehlo.return %j, %b{last} : tensor<i32>, tensor<3x4xf32>
           }}
           return %r#1, %g#1{results} : tensor<3x4xf32>, tensor<3x4xf32>{result_types}
         }}",
        count = saved.len() + 2
    )
}

/// The bytes that the first loop saves in an iteration.
fn saved_bytes(f: &Function) -> u64 {
    let mut loops = f.blocks[f.body].ops.iter().filter(|&&op| matches!(f.ops[op].op, Op::While(_)));
    let first = *loops.next().expect("a loop");
    let stacks = f.ops[first].results.iter().map(|&v| f.ty(v)).filter(|ty| ty.rank() == 3);
    stacks.map(|ty| ty.bytes() / N).sum()
}

fn check(ops: &str, saved: &[(&str, &str)], slots: [&str; 2], more: &str, bytes: u64) {
    let source = program(ops, saved, slots, more);
    let module = text::parse(&source, "test").expect("a program");
    let mut f = module.functions[0].clone();
    let argument = |rows: u64, seed: u64| {
        let ty = TensorType::new([rows, 4], jaxrs_ir::DType::F32);
        Literal::tabulate(ty, |n| {
            let value = ((n * 37 + seed * 11) % 19) as f32 / 19.0 - 0.45;
            [u64::from(value.to_bits()), 0]
        })
    };
    let arguments = [argument(3, 1), argument(4, 2)];
    let expected = interpret::call(None, &f, &arguments).expect("it runs");
    super::run(&mut f);
    let text = text::print_function(&f);
    let faults = jaxrs_ir::verify::verify_function(&f, None);
    assert!(faults.is_empty(), "{faults:?}\n{text}");
    let got = interpret::call(None, &f, &arguments).expect("it runs");
    assert!(got == expected, "other results\n{text}");
    assert_eq!(saved_bytes(&f), bytes, "{ops}\n{text}");
}

const SLOT: u64 = 48;
const TURN: [&str; 2] = ["%i", "%last"];
const TANH: &str = "%t = stablehlo.tanh %z : tensor<3x4xf32>
    %d = stablehlo.subtract %one, %t : tensor<3x4xf32>\n";

fn with(ops: &str, next: &str) -> String {
    format!("{ops} %next = {next} : tensor<3x4xf32>")
}

#[test]
fn a_carry_is_its_next_value_before() {
    let ops = with(TANH, "stablehlo.add %t, %t");
    for slots in [TURN, ["%last", "%i"], ["%i", "%i"]] {
        check(&ops, &[("%h", "f32"), ("%t", "f32"), ("%d", "f32")], slots, "", SLOT);
    }
    // The next value is made of the carry: it is saved itself.
    let ops = with(TANH, "stablehlo.add %h, %t");
    check(&ops, &[("%h", "f32"), ("%t", "f32"), ("%d", "f32")], TURN, "", 2 * SLOT);
    check(&ops, &[("%h", "f32"), ("%next", "f32")], TURN, "", SLOT);
    check(&ops, &[("%d", "f32")], TURN, "", SLOT);
}

#[test]
fn one_value_makes_the_others() {
    let ops = with(TANH, "stablehlo.multiply %z, %t");
    let all = [("%z", "f32"), ("%t", "f32"), ("%d", "f32"), ("%h", "f32"), ("%next", "f32")];
    check(&ops, &all, TURN, "", SLOT);
    check(&ops, &all[1..3], TURN, "", SLOT);
}

#[test]
fn what_is_returned_costs_nothing_more() {
    let ops = with(TANH, "stablehlo.multiply %z, %t");
    // Stack 0 is a result of the function.
    check(&ops, &[("%z", "f32"), ("%t", "f32"), ("%h", "f32")], TURN, "%r#2", SLOT);
    let ops = with(TANH, "stablehlo.add %h, %t");
    check(&ops, &[("%next", "f32"), ("%h", "f32")], TURN, "%r#2", SLOT);
}

#[test]
fn narrow_values_stand_for_wide_ones() {
    let mask = "%zero = stablehlo.constant dense<0.0> : tensor<3x4xf32>
        %m = stablehlo.compare GT, %z, %zero : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
        %s = stablehlo.select %m, %one, %zero : tensor<3x4xi1>, tensor<3x4xf32>
        %half = stablehlo.convert %z : (tensor<3x4xf32>) -> tensor<3x4xbf16>
        %wide = stablehlo.convert %half : (tensor<3x4xbf16>) -> tensor<3x4xf32>\n";
    let ops = with(mask, "stablehlo.tanh %z");
    check(&ops, &[("%s", "f32")], TURN, "", SLOT / 4);
    check(&ops, &[("%s", "f32"), ("%wide", "f32")], TURN, "", SLOT / 4 + SLOT / 2);
    check(&ops, &[("%m", "i1"), ("%h", "f32"), ("%z", "f32")], TURN, "", SLOT);
}

#[test]
fn the_counter_and_what_is_outside_are_at_hand() {
    let ops = "%k = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
        %b = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<f32>) -> tensor<3x4xf32>
        %u = stablehlo.multiply %x, %b : tensor<3x4xf32>
        %v = stablehlo.add %u, %z : tensor<3x4xf32>
        %next = stablehlo.tanh %v : tensor<3x4xf32>";
    check(ops, &[("%u", "f32"), ("%b", "f32")], TURN, "", 0);
    check(ops, &[("%z", "f32"), ("%v", "f32"), ("%u", "f32")], ["%last", "%i"], "", SLOT);
}
