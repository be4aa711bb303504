//! What is packed, and the functions that pack each element type on each kind of machine.

use super::groups::Grouped;
use super::pack::{pack, pack_complex};
use super::patch::patch;
use super::simd::Number;
use super::source::Source;
use super::tables::{DEPTH, Depth, Rows};
use super::tile::{MOST_ROWS, Machine, Run};
use jaxrs_kernel::DType;
use jaxrs_kernel::contraction::{Check, Contraction};

/// What to pack.
pub(super) struct Pack<'a> {
    pub(super) contraction: &'a Contraction,
    /// The operand's first element of the batch.
    pub(super) base: *const u8,
    /// Which side it is.
    pub(super) side: usize,
    pub(super) rows: &'a Rows,
    pub(super) depth: &'a Depth,
    /// Rows of the panel; those beyond `rows.len` become zero.
    pub(super) width: usize,
}

impl Pack<'_> {
    /// The checks of the side's elements.
    pub(super) fn checks(&self) -> &[Check] {
        if self.side == self.contraction.checked { &self.contraction.checks } else { &[] }
    }

    /// Whether all of the rows' elements pass the checks.
    pub(super) fn all_inside(&self) -> bool {
        self.checks().is_empty() || self.depth.all_inside(self.contraction, self.rows)
    }

    /// Whether one element passes them.
    pub(super) fn inside(&self, row: usize, k: usize) -> bool {
        self.checks().iter().enumerate().all(|(number, check)| {
            let place = self.rows.place[number][row] + self.depth.place[number][k];
            (0..check.size).contains(&place)
        })
    }

    /// Whether the side's elements are neighbours along depth.
    pub(super) fn unit_depth(&self) -> bool {
        if self.side == 0 { self.depth.run_count == 1 } else { self.depth.right_step == Some(1) }
    }
}

/// Fills a panel `[depth][width]`.
pub(super) type PackFn<T> = unsafe fn(&Pack<'_>, *mut T);

/// Copies the piece of the left operand that a panel's rows read, with zeros for what lies outside,
/// so that the rows overlap as they do in the operand. Gives the number of stretches of depth and
/// the distance between rows; None if the rows do not overlap evenly, or the piece has no room in a
/// packed panel's place.
pub(super) type PatchFn<T> =
    unsafe fn(&Pack<'_>, *mut T, &mut [Run; DEPTH]) -> Option<(usize, i64)>;

/// The function for a machine: compiled with AVX2 where it is there.
macro_rules! on_machine {
    ($kind:ident, $machine:expr, $portable:expr, $avx2:expr) => {
        match $machine {
            Machine::Portable => $portable as $kind<_>,
            #[cfg(target_arch = "x86_64")]
            Machine::Avx2 | Machine::Avx512 => $avx2,
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    //! The same functions with wider moves.
    use super::{DEPTH, Number, Pack, Run, Source, pack, patch};

    /// # Safety
    /// As [`pack`], on a machine with AVX2.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn pack_avx2<S: Source<T>, T: Number>(job: &Pack<'_>, out: *mut T) {
        // SAFETY: by the caller.
        unsafe { pack::<S, T>(job, out) }
    }

    /// # Safety
    /// As [`patch`], on a machine with AVX2.
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn patch_avx2<S: Source<T>, T: Number>(
        job: &Pack<'_>,
        out: *mut T,
        runs: &mut [Run; DEPTH],
    ) -> Option<(usize, i64)> {
        // SAFETY: by the caller.
        unsafe { patch::<S, T>(job, out, runs) }
    }
}
#[cfg(target_arch = "x86_64")]
use avx2::{pack_avx2, patch_avx2};

/// The packing function for elements of a type.
pub(super) trait Packed: Number {
    /// None if the type is not read as this number.
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<Self>>;

    /// The patch function for elements of a type; None if the type is not read as this number.
    fn patch_fn(_: DType, _: Machine) -> Option<PatchFn<Self>> {
        None
    }

    /// How elements of these types are multiplied several in a number; None if they are not.
    fn grouped(_: [DType; 2], _: &[Check], _: Machine) -> Option<Grouped<Self>> {
        None
    }

    /// What rows of a panel start from where 128 was added to right elements; see
    /// [`super::groups`].
    ///
    /// # Safety
    /// The panel's numbers are there: `depth` of each row, rows `step` apart, or packed if that is 0.
    unsafe fn bias(
        _left: *const Self,
        _step: isize,
        _rows: usize,
        _depth: usize,
    ) -> [Self; MOST_ROWS] {
        [Self::default(); MOST_ROWS]
    }

    /// For the right side of complex elements: [`Contraction`] with parts as last axes.
    fn pack_complex() -> PackFn<Self> {
        pack_complex::<Self>
    }
}

impl Packed for f32 {
    fn grouped(types: [DType; 2], checks: &[Check], machine: Machine) -> Option<Grouped<f32>> {
        super::groups::floats(types, checks, machine)
    }

    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<f32>> {
        match dtype.part() {
            DType::F32 => {
                Some(on_machine!(PackFn, machine, pack::<f32, f32>, pack_avx2::<f32, f32>))
            }
            DType::BF16 => Some(on_machine!(
                PackFn,
                machine,
                pack::<half::bf16, f32>,
                pack_avx2::<half::bf16, f32>
            )),
            DType::F16 => Some(on_machine!(
                PackFn,
                machine,
                pack::<half::f16, f32>,
                pack_avx2::<half::f16, f32>
            )),
            _ => None,
        }
    }

    fn patch_fn(dtype: DType, machine: Machine) -> Option<PatchFn<f32>> {
        match dtype {
            DType::F32 => {
                Some(on_machine!(PatchFn, machine, patch::<f32, f32>, patch_avx2::<f32, f32>))
            }
            DType::BF16 => Some(on_machine!(
                PatchFn,
                machine,
                patch::<half::bf16, f32>,
                patch_avx2::<half::bf16, f32>
            )),
            DType::F16 => Some(on_machine!(
                PatchFn,
                machine,
                patch::<half::f16, f32>,
                patch_avx2::<half::f16, f32>
            )),
            _ => None,
        }
    }
}

impl Packed for f64 {
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<f64>> {
        (dtype.part() == DType::F64).then_some(on_machine!(
            PackFn,
            machine,
            pack::<f64, f64>,
            pack_avx2::<f64, f64>
        ))
    }

    fn patch_fn(dtype: DType, machine: Machine) -> Option<PatchFn<f64>> {
        (dtype == DType::F64).then_some(on_machine!(
            PatchFn,
            machine,
            patch::<f64, f64>,
            patch_avx2::<f64, f64>
        ))
    }
}

impl Packed for i32 {
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<i32>> {
        match dtype {
            DType::I1 | DType::U8 => {
                Some(on_machine!(PackFn, machine, pack::<u8, i32>, pack_avx2::<u8, i32>))
            }
            DType::I8 => Some(on_machine!(PackFn, machine, pack::<i8, i32>, pack_avx2::<i8, i32>)),
            DType::I16 => {
                Some(on_machine!(PackFn, machine, pack::<i16, i32>, pack_avx2::<i16, i32>))
            }
            DType::U16 => {
                Some(on_machine!(PackFn, machine, pack::<u16, i32>, pack_avx2::<u16, i32>))
            }
            DType::I32 | DType::U32 => {
                Some(on_machine!(PackFn, machine, pack::<i32, i32>, pack_avx2::<i32, i32>))
            }
            DType::I64 | DType::U64 => {
                Some(on_machine!(PackFn, machine, pack::<i64, i32>, pack_avx2::<i64, i32>))
            }
            _ => None,
        }
    }

    fn grouped(types: [DType; 2], checks: &[Check], machine: Machine) -> Option<Grouped<i32>> {
        super::groups::integers(types, checks, machine)
    }

    unsafe fn bias(left: *const i32, step: isize, rows: usize, depth: usize) -> [i32; MOST_ROWS] {
        // SAFETY: by the caller.
        unsafe { super::groups::bias(left, step, rows, depth) }
    }
}

impl Packed for i64 {
    fn pack_fn(dtype: DType, machine: Machine) -> Option<PackFn<i64>> {
        match dtype {
            DType::I1 | DType::U8 => {
                Some(on_machine!(PackFn, machine, pack::<u8, i64>, pack_avx2::<u8, i64>))
            }
            DType::I8 => Some(on_machine!(PackFn, machine, pack::<i8, i64>, pack_avx2::<i8, i64>)),
            DType::I16 => {
                Some(on_machine!(PackFn, machine, pack::<i16, i64>, pack_avx2::<i16, i64>))
            }
            DType::U16 => {
                Some(on_machine!(PackFn, machine, pack::<u16, i64>, pack_avx2::<u16, i64>))
            }
            DType::I32 => {
                Some(on_machine!(PackFn, machine, pack::<i32, i64>, pack_avx2::<i32, i64>))
            }
            DType::U32 => {
                Some(on_machine!(PackFn, machine, pack::<u32, i64>, pack_avx2::<u32, i64>))
            }
            DType::I64 | DType::U64 => {
                Some(on_machine!(PackFn, machine, pack::<i64, i64>, pack_avx2::<i64, i64>))
            }
            _ => None,
        }
    }
}
