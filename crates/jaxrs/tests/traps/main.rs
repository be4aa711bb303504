//! Programs made to waste memory, of every kind in `../shared/corpus`, in other shapes, orders and
//! mixes of ops, with the bytes that each needs by formula: the plan is held to them.
//!
//! A program's arena must be at most 1.05 times the practical figure, or 4 KiB more; at the ideal
//! one where both are equal and for the kinds in [`AT_IDEAL`]. Kinds that are not there yet stand in
//! [`MISSED`] with the factor that they reach, which must not grow.
//!
//! `JAXRS_TRAPS=30` makes so many of each kind; `JAXRS_TRAPS_ONLY=scan` only the kinds with that in
//! the name; `JAXRS_TRAPS_OUT=folder` writes the programs there, for `jaxrs-compile`.

mod donation;
mod draw;
mod gradients;
mod products;
mod rows;
mod scans;
mod stencils;
mod text;
mod updates;

use draw::{Draw, Trap};
use jaxrs::compare::{Tolerance, difference};
use jaxrs::compile::{self, Options};
use jaxrs::tensor::Tensor;
use jaxrs_ir::{DType, Literal, TensorType, interpret};
use std::path::PathBuf;

type Make = fn(&mut Draw) -> Trap;

/// The kinds, by the names of the corpus.
const KINDS: &[(&str, Make)] = &[
    ("adam_50", |d| updates::adam(d, false)),
    ("adam_clip_50", |d| updates::adam(d, true)),
    ("at_set_copy", |d| updates::at_set(d, false)),
    ("at_set_donated", |d| updates::at_set(d, true)),
    ("at_set_read_between", updates::at_set_read_between),
    ("attention_grad", gradients::attention_grad),
    ("attention_long", gradients::attention_long),
    ("bf16_chain", rows::bf16_chain),
    ("bf16_mlp", rows::bf16_mlp),
    ("bincount_100", updates::bincount),
    ("concat_columns", products::concat_columns),
    ("concat_dots", products::concat_dots),
    ("conv_chain", products::conv_chain),
    ("dag", products::dag),
    ("donate_cast", donation::cast),
    ("donate_f16_pairs", donation::pairs),
    ("donate_larger", donation::larger),
    ("donate_scratch", donation::scratch),
    ("dots_reduced_24", products::dots_reduced),
    ("dus_loop", updates::dus_loop),
    ("dus_loop_block", updates::dus_loop_block),
    ("fanout_24", products::fanout),
    ("jacobi_while", stencils::jacobi),
    ("layers_scan_fwd", |d| scans::layers(d, true)),
    ("layers_scan_grad", |d| gradients::layers(d, true)),
    ("layers_unroll_fwd", |d| scans::layers(d, false)),
    ("layers_unroll_grad", |d| gradients::layers(d, false)),
    ("loop_read_old", updates::loop_read_old),
    ("mean_var_product", rows::mean_var),
    ("mlp_deep_grad", gradients::mlp),
    ("nbody_keepdims", rows::nbody),
    ("onehot_matmul", rows::onehot_matmul),
    ("outer_reduce", rows::outer_reduce),
    ("pad_dot", products::pad_dot),
    ("pairwise_argmin", rows::pairwise_argmin),
    ("pairwise_dist", rows::pairwise_dist),
    ("reduce_over_scan", scans::reduced),
    ("remat_dots", |d| gradients::remat(d, "dots")),
    ("remat_full", |d| gradients::remat(d, "full")),
    ("remat_none", |d| gradients::remat(d, "none")),
    ("reverse", donation::reverse),
    ("scan_fill", updates::scan_fill),
    ("scan_stack_dots", products::scan_stack_dots),
    ("scan_ys_last", scans::last),
    ("scans_independent", scans::independent),
    ("scans_sequential", scans::sequential),
    ("scatter_add_donated", updates::scatter_add),
    ("stack_dots", products::stack_dots),
    ("stencil_chain", stencils::chain),
    ("stencil_fori", stencils::fori),
    ("swap", donation::swap),
    ("swap_dot", donation::swap_dot),
    ("update_loop_update", updates::update_loop_update),
    ("vmap_all", |d| products::vmap(d, false)),
    ("vmap_chunked", |d| products::vmap(d, true)),
    ("wave_rotate", stencils::wave),
    ("xent_logits_grad", gradients::xent_logits),
    ("xent_vocab_grad", gradients::xent_vocab),
];

/// Kinds held to the ideal even where it is below the practical figure.
const AT_IDEAL: &[&str] = &[
    "scans_independent",
    "scans_sequential",
    "reduce_over_scan",
    "scan_stack_dots",
    "onehot_matmul",
];

/// Kinds that miss their figure: the largest arena of thirty programs, in parts of the figure, or of
/// 4 KiB where that is more.
const MISSED: &[(&str, f64)] = &[
    ("at_set_read_between", 0.25),
    ("bf16_mlp", 1.14),
    ("dag", 1.27),
    ("donate_scratch", 1.99),
    ("dots_reduced_24", 1.25),
    ("fanout_24", 1.03),
    ("layers_scan_grad", 1.23),
    ("layers_unroll_grad", 1.74),
    ("mlp_deep_grad", 1.18),
    ("remat_dots", 1.2),
    ("remat_none", 1.1),
    ("scan_stack_dots", 0.27),
    ("scan_ys_last", 1.98),
    ("scans_independent", 7.15),
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn wanted(kind: &str) -> bool {
    std::env::var("JAXRS_TRAPS_ONLY").map_or(true, |only| kind.contains(&only))
}

/// The bytes that a program's arena may have.
fn allowed(kind: &str, trap: &Trap) -> u64 {
    let practical = (trap.practical + trap.practical / 20).max(trap.practical + 4096);
    if trap.practical == trap.ideal || AT_IDEAL.contains(&kind) {
        // Sizes are rounded up to 64 bytes, and loops have counters.
        practical.min(trap.ideal + 512)
    } else {
        practical
    }
}

#[test]
fn arenas_are_as_small_as_they_can_be() {
    let count = number("JAXRS_TRAPS").unwrap_or(if cfg!(debug_assertions) { 2 } else { 6 });
    let out = std::env::var_os("JAXRS_TRAPS_OUT").map(PathBuf::from);
    let mut faults = Vec::new();
    for (kind, make) in KINDS.iter().filter(|(kind, _)| wanted(kind)) {
        let (mut worst, mut missed) = (0.0f64, Vec::new());
        for n in 0..count {
            let trap = make(&mut Draw::new(kind, n, false));
            if let Some(out) = &out {
                let file = out.join(format!("{kind}_{n}.mlir"));
                std::fs::write(&file, &trap.text).expect("the folder is there");
            }
            let planned = compile::plan(trap.text.as_bytes(), kind, &Options::default())
                .unwrap_or_else(|error| panic!("{kind} {n}: {error}\n{}", trap.text));
            let arena = planned.report(kind).arena_without_scratch_bytes;
            let allowed = allowed(kind, &trap);
            if arena > allowed {
                worst = worst.max(arena as f64 / allowed.max(4096) as f64);
                let (practical, ideal) = (trap.practical, trap.ideal);
                missed.push(format!("{n}: {arena} (practical {practical}, ideal {ideal})"));
            }
        }
        let known = MISSED.iter().find(|(name, _)| name == kind).map_or(0.0, |(_, f)| *f);
        if !missed.is_empty() && worst > known + 0.005 {
            faults.push(format!("{kind}: {worst:.2}, not {known:.2}: {}", missed.join(", ")));
        }
        if !missed.is_empty() {
            eprintln!("{kind}: {} of {count} miss, {worst:.2} at most", missed.len());
        } else if known > 0.0 {
            eprintln!("{kind}: all at their figure, {known:.2} stands in the list");
        }
    }
    assert!(faults.is_empty(), "larger arenas than allowed:\n{}", faults.join("\n"));
}

/// The same network, its layers in a loop or one after the other, the way there and both ways.
#[test]
fn scan_and_unrolled_form_need_the_same() {
    type Form = fn(&mut Draw, bool) -> Trap;
    let makes: [(&str, Form); 2] =
        [("layers", scans::layers), ("layers' gradient", gradients::layers)];
    let mut faults = Vec::new();
    for (kind, make) in makes {
        for n in 0..16 {
            // Of two layers, the loop back keeps the other's activation a step longer.
            if Draw::new(kind, n, false).pick(&scans::LAYERS) == 2 {
                continue;
            }
            let [scan, unrolled] = [true, false].map(|scan| {
                let trap = make(&mut Draw::new(kind, n, false), scan);
                let planned = compile::plan(trap.text.as_bytes(), kind, &Options::default());
                let planned = planned.unwrap_or_else(|error| panic!("{kind} {n}: {error}"));
                planned.report(kind).arena_without_scratch_bytes
            });
            let (less, more) = (scan.min(unrolled), scan.max(unrolled));
            // Loops have counters, and rows are rounded up to 64 bytes.
            if more > less + less / 20 + 4096 {
                faults.push(format!("{kind} {n}: {scan} by a loop, {unrolled} without"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn small_ones_compute_what_the_interpreter_does() {
    let count = if cfg!(debug_assertions) { 1 } else { number("JAXRS_TRAPS").unwrap_or(2) };
    let options = Options { check: true, poison: true, ..Options::default() };
    for (kind, make) in KINDS.iter().filter(|(kind, _)| wanted(kind)) {
        for n in 0..count {
            let trap = make(&mut Draw::new(kind, n, true));
            let fault = |what: String| -> String { format!("{kind} {n}: {what}\n{}", trap.text) };
            let module = jaxrs_ir::text::parse(&trap.text, kind).expect("a program");
            let entry = module.entry().expect("an entry");
            let types: Vec<TensorType> =
                entry.parameters().iter().map(|&v| entry.ty(v).clone()).collect();
            let inputs: Vec<Literal> =
                types.iter().zip(1..).map(|(ty, seed)| filled(ty, seed)).collect();
            let tensor =
                |literal: &Literal| Tensor { ty: literal.ty().clone(), bytes: literal.to_bytes() };
            let arguments: Vec<Tensor> = inputs.iter().map(tensor).collect();
            let expected = interpret::call(Some(&module), entry, &inputs)
                .unwrap_or_else(|error| panic!("{}", fault(error.message.clone())));
            let compiled = compile::compile_module(&module, kind, &options)
                .unwrap_or_else(|error| panic!("{}", fault(error.to_string())));
            // The second run finds what the first one left.
            for _ in 0..2 {
                let results = compiled
                    .run(&arguments)
                    .unwrap_or_else(|error| panic!("{}", fault(error.to_string())));
                let half = |ty: &TensorType| matches!(ty.dtype, DType::F16 | DType::BF16);
                for (position, (got, expected)) in results.iter().zip(&expected).enumerate() {
                    let coarse = half(&got.ty) || types.iter().any(half);
                    let near = if coarse { 2e-2 } else { 2e-4 };
                    let tolerance = Tolerance { rtol: near, atol: near, mismatch_fraction: 0.0 };
                    if let Some(difference) = difference(got, &tensor(expected), tolerance) {
                        panic!("{}", fault(format!("result {position}: {difference}")));
                    }
                }
            }
        }
    }
}

/// Numbers in [-0.5, 0.5), small integers.
fn filled(ty: &TensorType, seed: u64) -> Literal {
    let mut state = seed.wrapping_mul(0xD134_2543_DE82_EF95);
    Literal::tabulate(ty.clone(), |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        let bits = match ty.dtype {
            DType::F64 => (unit - 0.5).to_bits(),
            dtype if dtype.is_float() => {
                let value = (unit - 0.5) as f32;
                let coarse =
                    if dtype == DType::F32 { value } else { (value * 64.0).round() / 64.0 };
                u64::from(coarse.to_bits())
            }
            _ => (unit * 3.0) as u64,
        };
        [bits, 0]
    })
}
