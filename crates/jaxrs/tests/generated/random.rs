//! Numbers and tensors from a seed.

use jaxrs_ir::ops::convert;
use jaxrs_ir::{DType, Literal, TensorType};
use jaxrs_kernel::dtype::Class;

/// A stream of numbers; the same for the same seed on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xD134_2543_DE82_EF95))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }

    /// Some of the numbers below `count`, ascending.
    pub fn some(&mut self, count: usize) -> Vec<usize> {
        (0..count).filter(|_| self.percent(50)).collect()
    }

    pub fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for n in (1..items.len()).rev() {
            items.swap(n, self.index(n + 1));
        }
        items
    }

    /// A tensor of integers of magnitude at most [`SMALL`], or of anything.
    pub fn tensor(&mut self, ty: &TensorType, small: bool) -> Literal {
        let part = ty.dtype.part();
        let count = ty.len() * ty.dtype.parts();
        let parts: Vec<u64> =
            (0..count).map(|_| if small { self.small(part) } else { self.wild(part) }).collect();
        Literal::from_bits(ty.clone(), &parts)
    }

    fn small(&mut self, dtype: DType) -> u64 {
        let value = match dtype.class() {
            Class::Bool => self.below(2) as f64,
            Class::Unsigned => self.below(4) as f64,
            Class::Signed => self.between(-3, 3) as f64,
            Class::Float | Class::Complex if self.percent(4) => -0.0,
            Class::Float | Class::Complex => self.between(-3, 3) as f64,
        };
        bits(dtype, value)
    }

    fn wild(&mut self, dtype: DType) -> u64 {
        match dtype.class() {
            Class::Bool => self.below(2),
            Class::Signed | Class::Unsigned if self.percent(50) => self.below(12),
            Class::Signed | Class::Unsigned => self.next() >> (64 - dtype.bits()),
            Class::Float | Class::Complex => {
                let specials = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 6e4];
                let value = match self.below(16) {
                    0..2 => self.pick(&specials),
                    2 => self.between(-1000, 1000) as f64 * 1e5,
                    3..6 => self.between(-4, 4) as f64,
                    _ => self.between(-1 << 20, 1 << 20) as f64 / 262_144.0,
                };
                bits(dtype, value)
            }
        }
    }
}

/// The magnitude of small integers.
pub const SMALL: f64 = 3.0;

/// A number as register bits of an element type.
pub fn bits(dtype: DType, value: f64) -> u64 {
    convert::evaluate_parts([value.to_bits(), 0], DType::F64, dtype)[0]
}

/// A tensor whose elements are all one number.
pub fn splat(ty: &TensorType, value: f64) -> Literal {
    let parts = [bits(ty.dtype.part(), value), bits(ty.dtype.part(), 0.0)];
    Literal::tabulate(ty.clone(), |_| parts)
}
