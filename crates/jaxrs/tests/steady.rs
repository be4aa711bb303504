//! A training loop in its steady state allocates nothing, and its parameters stay where they are.
//!
//! One test alone in its process: the allocator counts for all threads.

use jaxrs::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with a count and the size of the last request.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: as the system's allocator, which does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        LAST.store(layout.size(), Relaxed);
        // SAFETY: by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: by the caller.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations while `f` runs, and the size of the last one. It is asked again if there were some: on
/// a busy machine a thread of the pool may start late, and allocates its name then.
fn allocations(mut f: impl FnMut() -> Result<(), jaxrs::Error>) -> (usize, usize) {
    for last in [false, false, true] {
        let before = COUNT.load(Relaxed);
        f().expect("the calls succeed");
        let count = COUNT.load(Relaxed) - before;
        if count == 0 || last {
            return (count, LAST.load(Relaxed));
        }
    }
    unreachable!("the last round returns")
}

#[derive(Tree, Clone)]
struct Model {
    w1: Array,
    b1: Array,
    head: Head,
    #[tree(static)]
    rate: i32,
}

#[derive(Tree, Clone)]
enum Head {
    Linear(Array),
    Affine { w: Array, b: Array },
}

fn loss(p: &Model, x: &Array, y: &Array) -> Array {
    let h = (x.dot(&p.w1) + &p.b1).tanh();
    let out = match &p.head {
        Head::Linear(w) => h.dot(w),
        Head::Affine { w, b } => h.dot(w) + b,
    };
    (out - y).square().mean(..)
}

#[jit(donate = [params], strict)]
fn step(params: Model, x: &Array, y: &Array, lr: Scalar<f32>) -> (Model, Array, Array) {
    let (loss, grads) = value_and_grad(|p: &Model| loss(p, x, y))(&params);
    let size = grads.leaves().iter().fold(Array::scalar(0.0f32), |n, g| n + g.square().sum(..));
    (params.zip_map(&grads, |p, g| p - &*lr * g), loss, size)
}

fn filled(shape: [u64; 2], scale: f32) -> Array {
    let n = shape[0] * shape[1];
    let values: Vec<f32> = (0..n).map(|i| ((i * 7 % 11) as f32 - 5.0) * scale).collect();
    Array::from_slice(&values, shape)
}

fn model(affine: bool) -> Model {
    let w = filled([64, 8], 0.02);
    let head = match affine {
        true => Head::Affine { w, b: Array::from_vec(vec![0.1f32; 8]) },
        false => Head::Linear(w),
    };
    Model { w1: filled([32, 64], 0.02), b1: Array::from_vec(vec![0.1f32; 64]), head, rate: 1 }
}

fn addresses(model: &Model) -> Vec<Option<usize>> {
    model.leaves().iter().map(Array::address).collect()
}

#[test]
fn a_thousand_steps_allocate_nothing() -> Result<(), jaxrs::Error> {
    let (x, y) = (filled([16, 32], 0.1), filled([16, 8], 0.1));
    for affine in [true, false] {
        // Into given results.
        let lr = Scalar::<f32>::from(1e-2);
        let compiled = step::lower(&model(affine), &x, &y, lr.clone())?.compile()?;
        let mut arguments = (model(affine), x.clone(), y.clone(), lr);
        let scalar = Array::scalar(0.0f32);
        let mut results = (model(affine), scalar.copy(), scalar);
        let (mut first, mut last) = (0.0, 0.0);
        let before = addresses(&arguments.0);
        let mut one = |losses: Option<&mut f32>| {
            compiled.call_into(&mut arguments, &mut results)?;
            std::mem::swap(&mut arguments.0, &mut results.0);
            if let Some(loss) = losses {
                *loss = results.1.item()?;
            }
            Ok(())
        };
        one(Some(&mut first))?;
        for _ in 0..10 {
            one(None)?;
        }
        let (count, size) = allocations(|| (0..1000).try_for_each(|_| one(None)));
        assert_eq!(count, 0, "the last one of {size} bytes");
        one(Some(&mut last))?;
        assert!(last < first, "{last} after {first}");
        assert_eq!(addresses(&arguments.0), before);

        // The plain call.
        let mut params = Some(model(affine));
        let before = addresses(params.as_ref().expect("just made"));
        let mut one = || {
            let (next, _, _) = step(params.take().expect("put back"), &x, &y, 1e-2)?;
            params = Some(next);
            Ok(())
        };
        for _ in 0..10 {
            one()?;
        }
        let (count, size) = allocations(|| (0..1000).try_for_each(|_| one()));
        // The loss and the size of the gradient have no donor.
        assert!(count <= 2 * 1000, "{count} allocations, the last one of {size} bytes");
        assert_eq!(count, 0, "the last one of {size} bytes");
        assert_eq!(addresses(&params.expect("put back")), before);
    }
    library_calls()
}

/// Programs whose steps are library calls, and such with many arguments and with loops.
fn programs() -> Vec<(&'static str, String)> {
    let many: Vec<String> = (0..200).map(|n| format!("%x{n}: tensor<4xf32>")).collect();
    let results = vec!["tensor<4xf32>"; 200].join(", ");
    let values: Vec<String> = (0..200).map(|n| format!("%y{n}")).collect();
    let body: String = (0..200)
        .map(|n| format!("%y{n} = stablehlo.add %x{n}, %x{} : tensor<4xf32>\n", (n + 1) % 200))
        .collect();
    let one = |ty: &str, result: &str, body: &str| {
        format!("func.func @main(%x: {ty}) -> {result} {{\n{body}\nreturn %y : {result}\n}}")
    };
    vec![
        (
            "200 arguments",
            format!(
                "func.func @main({}) -> ({results}) {{\n{body} return {} : {results}\n}}",
                many.join(", "),
                values.join(", ")
            ),
        ),
        (
            "dot",
            one(
                "tensor<300x300xf32>",
                "tensor<300x300xf32>",
                "%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : \
                 (tensor<300x300xf32>, tensor<300x300xf32>) -> tensor<300x300xf32>",
            ),
        ),
        (
            "sort",
            one(
                "tensor<50x300xf32>",
                "tensor<50x300xf32>",
                "%y = \"stablehlo.sort\"(%x) <{dimension = 1 : i64, is_stable = true}> ({\n\
                 ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n\
                 %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n\
                 stablehlo.return %c : tensor<i1>\n\
                 }) : (tensor<50x300xf32>) -> tensor<50x300xf32>",
            ),
        ),
        (
            "cholesky",
            one(
                "tensor<3x20x20xf32>",
                "tensor<3x20x20xf32>",
                "%y = stablehlo.cholesky %x, lower = true : tensor<3x20x20xf32>",
            ),
        ),
        (
            "convolution",
            one(
                "tensor<2x12x12x3xf32>",
                "tensor<2x10x10x3xf32>",
                "%k = stablehlo.constant dense<0.1> : tensor<3x3x3x3xf32>\n\
                 %y = stablehlo.convolution(%x, %k) \
                 dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} \
                 {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : \
                 (tensor<2x12x12x3xf32>, tensor<3x3x3x3xf32>) -> tensor<2x10x10x3xf32>",
            ),
        ),
        (
            "fft",
            one(
                "tensor<8x64xf32>",
                "tensor<8x33xcomplex<f32>>",
                "%y = stablehlo.fft %x, type = RFFT, length = [64] : (tensor<8x64xf32>) -> \
                 tensor<8x33xcomplex<f32>>",
            ),
        ),
    ]
}

/// Library calls allocate nothing, either.
fn library_calls() -> Result<(), jaxrs::Error> {
    for (name, text) in programs() {
        let path = std::env::temp_dir().join(format!("jaxrs-steady-{}.mlir", std::process::id()));
        std::fs::write(&path, text).expect("a file in the temporary folder");
        let program = jaxrs::import(&path)?;
        std::fs::remove_file(&path).expect("the file is there");
        let mut arguments: Vec<Array> = Vec::new();
        for ty in program.argument_types() {
            arguments.push(Array::full_of(ty.shape.as_slice(), 0.5, ty.dtype));
        }
        let mut results = program.call(arguments.clone())?;
        let mut one = || program.call_into(&mut arguments, &mut results);
        for _ in 0..10 {
            one()?;
        }
        let (count, size) = allocations(|| (0..100).try_for_each(|_| one()));
        assert_eq!(count, 0, "{name}: allocations in 100 calls, the last one of {size} bytes");
    }
    Ok(())
}
