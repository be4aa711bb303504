//! `#[jit]` and `#[derive(Tree)]`.

use jaxrs::prelude::*;

type Outcome = Result<(), jaxrs::Error>;

#[derive(Tree, Clone, Debug)]
struct Mlp {
    w1: Array,
    b1: Array,
    layers: Vec<Layer>,
    #[tree(static)]
    name: String,
}

#[derive(Tree, Clone, Debug)]
enum Layer {
    Dense { w: Array, b: Array },
    Scale(Array),
    Nothing,
}

fn loss(p: &Mlp, x: &Array, y: &Array) -> Array {
    let mut h = (x.dot(&p.w1) + &p.b1).tanh();
    for layer in &p.layers {
        h = match layer {
            Layer::Dense { w, b } => h.dot(w) + b,
            Layer::Scale(scale) => h * scale,
            Layer::Nothing => h,
        };
    }
    (h - y).square().mean(..)
}

#[jit(donate = [params])]
fn sgd_step(params: Mlp, x: &Array, y: &Array, lr: Scalar<f32>) -> (Mlp, Array) {
    let (loss, grads) = value_and_grad(|p: &Mlp| loss(p, x, y))(&params);
    (params.zip_map(&grads, |p, g| p - &*lr * g), loss)
}

#[jit(static = [n, factor])]
fn repeat(x: &Array, n: usize, factor: f64) -> jaxrs::Result<Array> {
    let mut x = x.clone();
    for _ in 0..n {
        x = double(&x)? * factor;
    }
    Ok(x)
}

#[jit]
fn double(x: &Array) -> Array {
    x + x
}

impl Mlp {
    #[jit]
    fn norm(&self) -> Array {
        self.leaves().iter().fold(Array::scalar(0.0f32), |sum, leaf| sum + leaf.square().sum(..))
    }
}

fn model() -> Mlp {
    let fill = |shape: [u64; 2]| {
        let n = shape[0] * shape[1];
        let values: Vec<f32> = (0..n).map(|i| ((i * 7 % 11) as f32 - 5.0) / 10.0).collect();
        Array::from_slice(&values, shape)
    };
    Mlp {
        w1: fill([3, 4]),
        b1: Array::from_vec(vec![0.1f32; 4]),
        layers: vec![
            Layer::Dense { w: fill([4, 2]), b: Array::from_vec(vec![0.2f32; 2]) },
            Layer::Nothing,
            Layer::Scale(Array::scalar(0.5f32)),
        ],
        name: "mlp".into(),
    }
}

#[test]
fn a_training_step_lowers_the_loss_in_place() -> Outcome {
    let x = Array::from_slice(&[0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6], [2, 3]);
    let y = Array::from_slice(&[1.0f32, 0.0, 0.0, 1.0], [2, 2]);
    let mut params = model();
    let address = params.w1.address();
    let mut losses = Vec::new();
    for _ in 0..20 {
        let (next, loss) = sgd_step(params, &x, &y, 1e-1)?;
        params = next;
        losses.push(loss.item::<f32>()?);
    }
    assert!(losses[19] < losses[0], "{losses:?}");
    assert_eq!(params.w1.address(), address);
    assert_eq!(params.name, "mlp");
    // Another test may trace the same form at the same time.
    assert!(sgd_step::cache_stats().misses <= 2);
    Ok(())
}

#[test]
fn static_arguments_are_constants() -> Outcome {
    let x = Array::scalar(1.0f32);
    assert_eq!(repeat(&x, 3, 0.5)?.item::<f32>()?, 1.0);
    assert_eq!(repeat(&x, 2, 1.0)?.item::<f32>()?, 4.0);
    Ok(())
}

#[test]
fn methods_and_stages() -> Outcome {
    let params = model();
    let norm = params.norm()?.item::<f32>()?;
    assert!(norm > 0.0);
    let x = Array::shape_only([2, 3], DType::F32);
    let y = Array::shape_only([2, 2], DType::F32);
    let lowered = sgd_step::lower(&params, &x, &y, 0.1)?;
    assert!(lowered.as_text().contains("stablehlo.dot_general"));
    let compiled = lowered.compile()?;
    let memory = compiled.memory_analysis();
    assert!(memory.alias_bytes > 0, "{memory:?}");
    assert!(compiled.memory_plan().to_string().contains("arena"));
    Ok(())
}

#[test]
fn one_array_cannot_be_donated_and_read() {
    #[jit(donate = [0])]
    fn add(x: Array, y: &Array) -> Array {
        x + y
    }
    let x = Array::scalar(1.0f32);
    let error = add(x.clone(), &x).expect_err("one array twice");
    assert!(error.message().contains("donated and also read"), "{error}");
}
