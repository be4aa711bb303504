//! Which element type an operation on two types has: JAX's table.
//!
//! The result is the least type above both in this order, in which Rust's numbers stand as the
//! weak types `i*`, `f*` and `c*`
//! (<https://docs.jax.dev/en/latest/jep/9407-type-promotion.html>):
//!
//! ```text
//! i1 - i* - ui8 - ui16 - ui32 - ui64 ----+           bf16
//!        \     \      \      \           |          /    \
//!         i8 - i16 -- i32 -- i64 ------- f* -------<      f32 -- f64
//!                                          \        \    /  \      \
//!                                           \         f16    \      \
//!                                            c* ------------- c64 - c128
//! ```

use jaxrs_ir::DType;

/// An element type, or the weak type of a Rust number, which gives way to any of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The type of an array.
    Strong(DType),
    /// An integer.
    WeakInt,
    /// A float.
    WeakFloat,
    /// A complex number.
    WeakComplex,
}

const KINDS: [Kind; 18] = [
    Kind::Strong(DType::I1),
    Kind::WeakInt,
    Kind::Strong(DType::U8),
    Kind::Strong(DType::I8),
    Kind::Strong(DType::U16),
    Kind::Strong(DType::I16),
    Kind::Strong(DType::U32),
    Kind::Strong(DType::I32),
    Kind::Strong(DType::U64),
    Kind::Strong(DType::I64),
    Kind::WeakFloat,
    Kind::Strong(DType::BF16),
    Kind::Strong(DType::F16),
    Kind::Strong(DType::F32),
    Kind::Strong(DType::F64),
    Kind::WeakComplex,
    Kind::Strong(DType::C64),
    Kind::Strong(DType::C128),
];

/// The kinds directly above each.
const ABOVE: [&[usize]; 18] = [
    &[1],
    &[2, 3],
    &[4, 5],
    &[5],
    &[6, 7],
    &[7],
    &[8, 9],
    &[9],
    &[10],
    &[10],
    &[11, 12, 15],
    &[13],
    &[13],
    &[14, 16],
    &[17],
    &[16],
    &[17],
    &[],
];

/// The set of kinds at or above a kind.
fn up(kind: usize) -> u32 {
    ABOVE[kind].iter().fold(1 << kind, |set, &above| set | up(above))
}

fn position(kind: Kind) -> usize {
    KINDS.iter().position(|&k| k == kind).expect("every kind has a row")
}

impl Kind {
    /// The element type of a value of this kind that is made an array.
    pub fn dtype(self) -> DType {
        match self {
            Kind::Strong(dtype) => dtype,
            Kind::WeakInt => DType::I32,
            Kind::WeakFloat => DType::F32,
            Kind::WeakComplex => DType::C64,
        }
    }

    /// The least kind above both.
    pub fn join(self, other: Kind) -> Kind {
        let common = up(position(self)) & up(position(other));
        let least = (0..KINDS.len()).find(|&kind| common >> kind & 1 == 1 && up(kind) == common);
        KINDS[least.expect("the order is a lattice")]
    }
}

/// The element type of an operation on arrays of two element types.
pub fn promote(x: DType, y: DType) -> DType {
    Kind::Strong(x).join(Kind::Strong(y)).dtype()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_are_those_of_jax() {
        use DType::*;
        let cases = [
            (I1, I8, I8),
            (U8, I8, I16),
            (U32, I32, I64),
            (U64, I64, F32),
            (I64, BF16, BF16),
            (BF16, F16, F32),
            (F32, F64, F64),
            (F64, C64, C128),
            (I32, C64, C64),
            (U64, F16, F16),
        ];
        for (x, y, z) in cases {
            assert_eq!(promote(x, y), z, "{x} and {y}");
            assert_eq!(promote(y, x), z, "{y} and {x}");
        }
    }

    #[test]
    fn numbers_give_way() {
        let join = |x, y| Kind::Strong(x).join(y).dtype();
        assert_eq!(join(DType::I8, Kind::WeakInt), DType::I8);
        assert_eq!(join(DType::I8, Kind::WeakFloat), DType::F32);
        assert_eq!(join(DType::BF16, Kind::WeakFloat), DType::BF16);
        assert_eq!(join(DType::F64, Kind::WeakComplex), DType::C128);
        assert_eq!(join(DType::I1, Kind::WeakInt), DType::I32);
    }

    #[test]
    fn every_pair_has_a_least_kind_above() {
        for x in KINDS {
            for y in KINDS {
                assert_eq!(x.join(y), y.join(x), "{x:?} and {y:?}");
            }
        }
    }
}
