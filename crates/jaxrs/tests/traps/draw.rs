//! What a kind of trap is made of: choices from a seed, activations, and the figures.

use crate::text::{Text, Value};

/// A program with the bytes that its temporaries need.
pub struct Trap {
    pub text: String,
    /// Without tiling across products and stencils.
    pub practical: u64,
    /// With everything; the kinds in `main::AT_IDEAL` and those where both are equal are held to it.
    pub ideal: u64,
}

/// A trap whose figures are equal.
pub fn exact(text: String, bytes: u64) -> Trap {
    Trap { text, practical: bytes, ideal: bytes }
}

/// Choices.
pub struct Draw {
    state: u64,
    /// Takes the first of several sizes, so that the interpreter can run the program.
    small: bool,
}

impl Draw {
    pub fn new(kind: &str, number: u64, small: bool) -> Draw {
        let mut state = 0xCBF2_9CE4_8422_2325u64;
        for byte in kind.bytes().chain(number.to_le_bytes()) {
            state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        Draw { state, small }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    pub fn size<T: Copy>(&mut self, items: &[T]) -> T {
        let chosen = self.pick(items);
        if self.small { items[0] } else { chosen }
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A reduction by its name in `jax.numpy`.
    pub fn statistic(&mut self) -> &'static str {
        self.pick(&["sum", "mean", "max", "min"])
    }
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Same,
    Tanh,
    Sin,
    Cos,
    Sigmoid,
    Gauss,
    Soft,
    Relu,
    Gelu,
}

/// Those without a kink or a long form.
pub const SMOOTH: &[Act] = &[Act::Tanh, Act::Sin, Act::Cos, Act::Sigmoid, Act::Gauss, Act::Soft];
/// All but the identity.
pub const ACTS: &[Act] =
    &[Act::Tanh, Act::Sin, Act::Cos, Act::Sigmoid, Act::Gauss, Act::Soft, Act::Relu, Act::Gelu];
/// Those with a derivative here.
pub const TRAINED: &[Act] = &[Act::Tanh, Act::Tanh, Act::Sin, Act::Sigmoid, Act::Relu, Act::Gelu];

impl Act {
    pub fn apply(self, t: &mut Text, x: &Value) -> Value {
        match self {
            Act::Same => x.clone(),
            Act::Tanh => t.unary("tanh", x),
            Act::Sin => t.unary("sine", x),
            Act::Cos => t.unary("cosine", x),
            Act::Sigmoid => t.unary("logistic", x),
            Act::Gauss => {
                let square = t.binary("multiply", x, x);
                let negative = t.unary("negate", &square);
                t.unary("exponential", &negative)
            }
            Act::Soft => {
                let size = t.unary("abs", x);
                let size = t.from(1.0, "add", &size);
                t.binary("divide", x, &size)
            }
            Act::Relu => t.with("maximum", x, 0.0),
            Act::Gelu => self.forward(t, x).0,
        }
    }

    /// The value, and what its derivative needs, as `jax.grad` leaves them.
    pub fn forward(self, t: &mut Text, x: &Value) -> (Value, Vec<Value>) {
        match self {
            Act::Sin => {
                let y = t.unary("sine", x);
                let slope = t.unary("cosine", x);
                (y, vec![slope])
            }
            Act::Relu => {
                let y = t.with("maximum", x, 0.0);
                let zero = t.fill(0.0, x.dtype, &x.shape);
                let mask = t.compare("GT", x, &zero);
                (y, vec![mask])
            }
            Act::Gelu => {
                let square = t.binary("multiply", x, x);
                let cube = t.binary("multiply", &square, x);
                let again = t.binary("multiply", x, x);
                let three = t.from(3.0, "multiply", &again);
                let part = t.from(0.044715, "multiply", &cube);
                let inner = t.binary("add", x, &part);
                let inner = t.from(0.797_884_58, "multiply", &inner);
                let y = t.unary("tanh", &inner);
                let rest = t.from(1.0, "subtract", &y);
                let sum = t.from(1.0, "add", &y);
                let cdf = t.from(0.5, "multiply", &sum);
                let out = t.binary("multiply", x, &cdf);
                (out, vec![x.clone(), three, y, rest, cdf])
            }
            _ => {
                let y = self.apply(t, x);
                let rest = t.from(1.0, "subtract", &y);
                (y.clone(), vec![y, rest])
            }
        }
    }

    /// The cotangent of `x` from that of the value.
    pub fn backward(self, t: &mut Text, cotangent: &Value, kept: &[Value]) -> Value {
        match self {
            Act::Sin => t.binary("multiply", cotangent, &kept[0]),
            Act::Relu => {
                let zero = t.fill(0.0, cotangent.dtype, &cotangent.shape);
                t.select(&kept[0], cotangent, &zero)
            }
            Act::Sigmoid => {
                let part = t.binary("multiply", cotangent, &kept[0]);
                t.binary("multiply", &part, &kept[1])
            }
            Act::Gelu => {
                let [x, three, y, rest, cdf] = kept else { unreachable!("made by `forward`") };
                let a = t.binary("multiply", x, cotangent);
                let b = t.binary("multiply", cotangent, cdf);
                let a = t.from(0.5, "multiply", &a);
                let a = t.binary("multiply", &a, rest);
                let c = t.binary("multiply", &a, y);
                let a = t.binary("add", &a, &c);
                let a = t.from(0.797_884_58, "multiply", &a);
                let b = t.binary("add", &b, &a);
                let a = t.from(0.044715, "multiply", &a);
                let a = t.binary("multiply", &a, three);
                t.binary("add", &b, &a)
            }
            _ => {
                let part = t.binary("multiply", cotangent, &kept[1]);
                let more = t.binary("multiply", &part, &kept[0]);
                t.binary("add", &part, &more)
            }
        }
    }
}
