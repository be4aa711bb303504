//! A network of two layers that tells two spirals apart, and the memory plan of its training step.
//!
//! `cargo run --release --example mlp`

use jaxrs::{prelude::*, random};

#[derive(Tree)]
struct Layer {
    w: Array,
    b: Array,
}

impl Layer {
    fn new(key: &Array, inputs: u64, outputs: u64) -> Layer {
        let scale = (2.0 / inputs as f64).sqrt();
        Layer { w: scale * random::normal(key, [inputs, outputs]), b: Array::zeros([outputs]) }
    }

    fn apply(&self, x: &Array) -> Array {
        x.dot(&self.w) + &self.b
    }
}

type Mlp = Vec<Layer>;

fn logits(model: &Mlp, x: &Array) -> Array {
    let (last, hidden) = model.split_last().expect("a layer");
    last.apply(&hidden.iter().fold(x.clone(), |x, layer| nn::relu(&layer.apply(&x))))
}

fn loss(model: &Mlp, x: &Array, classes: &Array) -> Array {
    nn::cross_entropy(&logits(model, x), classes)
}

#[jit(donate = [model])]
fn step(model: Mlp, x: &Array, classes: &Array, rate: Scalar<f32>) -> (Mlp, Array) {
    let (loss, slopes) = value_and_grad(|model: &Mlp| loss(model, x, classes))(&model);
    (model.zip_map(&slopes, |p, g| p - &*rate * g), loss)
}

#[jit]
fn accuracy(model: &Mlp, x: &Array, classes: &Array) -> Array {
    logits(model, x).argmax(-1).eq(classes).astype(DType::F32).mean(..)
}

/// Points on two spirals, and which of them each is on.
fn spirals(key: &Array, points: u64) -> (Array, Array) {
    let [a, b, c] = random::split(key);
    let classes = random::bernoulli(&a, 0.5, points).astype(DType::I32);
    let along = random::uniform(&b, points).sqrt();
    let angle = 9.0 * &along + std::f64::consts::PI * &classes;
    let on = Array::stack([&along * angle.cos(), &along * angle.sin()], 1);
    (on + 0.02 * random::normal(&c, [points, 2]), classes)
}

fn main() -> jaxrs::Result<()> {
    let [data, a, b, c] = random::split(&random::key(1));
    let (x, classes) = spirals(&data, 512);
    let mut model = vec![Layer::new(&a, 2, 64), Layer::new(&b, 64, 64), Layer::new(&c, 64, 2)];

    println!("{}", step::lower(&model, &x, &classes, 0.3)?.compile()?.memory_plan());
    for round in 0..=2000 {
        let (next, loss) = step(model, &x, &classes, 0.3)?;
        model = next;
        if round % 500 == 0 {
            let right = accuracy(&model, &x, &classes)?.item::<f32>()?;
            println!("{round:4}  loss {:.4}  right {right:.3}", loss.item::<f32>()?);
        }
    }
    assert!(accuracy(&model, &x, &classes)?.item::<f32>()? > 0.95);
    Ok(())
}
