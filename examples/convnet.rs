//! A convolutional network that tells drawn shapes apart.
//!
//! `cargo run --release --example convnet`

use jaxrs::array::{Conv, Padding};
use jaxrs::{prelude::*, random};

const SIDE: u64 = 16;

#[derive(Tree)]
struct Net {
    first: Array,
    second: Array,
    last: Array,
}

fn conv(x: &Array, kernel: &Array) -> Array {
    x.conv(kernel, &Conv { padding: Padding::Same, ..Conv::nhwc() })
}

fn logits(net: &Net, images: &Array) -> Array {
    let x = nn::relu(&conv(images, &net.first));
    let x = nn::max_pool(&x, [2, 2], [2, 2], Padding::Valid);
    let x = nn::relu(&conv(&x, &net.second));
    x.mean([1, 2]).dot(&net.last)
}

fn loss(net: &Net, images: &Array, classes: &Array) -> Array {
    nn::cross_entropy(&logits(net, images), classes)
}

#[jit(donate = [net])]
fn step(net: Net, images: &Array, classes: &Array, rate: Scalar<f32>) -> (Net, Array) {
    let (loss, slopes) = value_and_grad(|net: &Net| loss(net, images, classes))(&net);
    (net.zip_map(&slopes, |p, g| p - &*rate * g), loss)
}

/// A picture of a disc, a square or a cross, somewhere, with noise.
fn picture(key: &Array, class: &Array) -> Array {
    let [a, b] = random::split(key);
    let center = random::uniform_of(&a, [2], 5.0, 11.0, DType::F32).split(2, 0);
    let along = |axis| Array::indices([SIDE, SIDE]).astype(DType::F32).slice(i![axis]);
    let (x, y) = ((along(0) - &center[0]).abs(), (along(1) - &center[1]).abs());
    let disc = (x.square() + y.square()).lt(16.0);
    let square = x.maximum(&y).lt(4.0);
    let cross = x.minimum(&y).lt(1.2) & x.maximum(&y).lt(5.0);
    let drawn = class.eq(0).where_(disc, class.eq(1).where_(square, cross));
    drawn.astype(DType::F32) + 0.3 * random::normal(&b, [SIDE, SIDE])
}

fn data(key: &Array, count: u64) -> (Array, Array) {
    let [a, b] = random::split(key);
    let classes = random::randint(&a, count, 0, 3);
    let draw = vmap(|(key, class): &(Array, Array)| picture(key, class));
    let images = draw(&(random::split_many(&b, count), classes.clone()));
    (images.expand_dims(-1), classes)
}

fn main() -> jaxrs::Result<()> {
    let [train, test, a, b, c] = random::split(&random::key(2));
    let (images, classes) = jit(|key: &Array| data(key, 256))(&train)?;
    let mut net = Net {
        first: 0.3 * random::normal(&a, [3, 3, 1, 8]),
        second: 0.15 * random::normal(&b, [3, 3, 8, 16]),
        last: 0.3 * random::normal(&c, [16, 3]),
    };
    for round in 0..=800 {
        let (next, loss) = step(net, &images, &classes, 1.0)?;
        net = next;
        if round % 200 == 0 {
            println!("{round:4}  loss {:.4}", loss.item::<f32>()?);
        }
    }
    let (images, classes) = jit(|key: &Array| data(key, 256))(&test)?;
    let right = logits(&net, &images).argmax(-1).eq(&classes).astype(DType::F32).mean(..);
    let right = right.item::<f32>()?;
    println!("right on new pictures: {right:.3}");
    assert!(right > 0.8);
    Ok(())
}
