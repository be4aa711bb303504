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

/// Allocations while `f` runs, and the size of the last one.
fn allocations(f: impl FnOnce() -> Result<(), jaxrs::Error>) -> (usize, usize) {
    let before = COUNT.load(Relaxed);
    f().expect("the calls succeed");
    (COUNT.load(Relaxed) - before, LAST.load(Relaxed))
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
        assert_eq!(allocations(|| (0..1000).try_for_each(|_| one(None))), (0, LAST.load(Relaxed)));
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
    Ok(())
}
