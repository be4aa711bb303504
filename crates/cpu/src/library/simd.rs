//! Vectors of numbers, one trait over the machines' widths.
//!
//! Every function is `inline(always)` and meant to be called inside a function with the matching
//! `target_feature`, where it becomes one instruction.

/// A number that contractions accumulate in.
pub(super) trait Number: Copy + Send + Sync + Default + PartialEq + 'static {
    /// `a * b + c`; of floats perhaps rounded twice; of integers wrapping.
    fn multiply_add(a: Self, b: Self, c: Self) -> Self;
    /// The sum, of integers wrapping.
    fn plus(self, other: Self) -> Self;
    /// The negative, of integers wrapping.
    fn negative(self) -> Self;
}

macro_rules! float_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn multiply_add(a: Self, b: Self, c: Self) -> Self { a * b + c }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn negative(self) -> Self { -self }
        }
    )*};
}
float_number!(f32, f64);

macro_rules! int_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn multiply_add(a: Self, b: Self, c: Self) -> Self {
                a.wrapping_mul(b).wrapping_add(c)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn negative(self) -> Self { self.wrapping_neg() }
        }
    )*};
}
int_number!(i32, i64);

/// Vectors of `T` on one kind of machine.
pub(super) trait Simd {
    /// The element.
    type T: Number;
    /// The vector.
    type V: Copy;
    /// Elements of a vector.
    const LANES: usize;
    /// # Safety
    /// The machine has the instructions.
    unsafe fn splat(value: Self::T) -> Self::V;
    /// # Safety
    /// As above; `at` points to a vector's elements.
    unsafe fn load(at: *const Self::T) -> Self::V;
    /// # Safety
    /// As above; `at` points to a vector's elements.
    unsafe fn store(at: *mut Self::T, value: Self::V);
    /// # Safety
    /// The machine has the instructions.
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`.
    ///
    /// # Safety
    /// The machine has the instructions.
    unsafe fn multiply_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
}

/// Eight lanes of anything, for every machine; the compiler makes vectors of them.
pub(super) struct Portable<T>(std::marker::PhantomData<T>);

impl<T: Number> Simd for Portable<T> {
    type T = T;
    type V = [T; 8];
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn splat(value: T) -> [T; 8] {
        [value; 8]
    }
    #[inline(always)]
    unsafe fn load(at: *const T) -> [T; 8] {
        // SAFETY: by the caller.
        unsafe { at.cast::<[T; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(at: *mut T, value: [T; 8]) {
        // SAFETY: by the caller.
        unsafe { at.cast::<[T; 8]>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn add(a: [T; 8], b: [T; 8]) -> [T; 8] {
        std::array::from_fn(|i| a[i].plus(b[i]))
    }
    #[inline(always)]
    unsafe fn multiply_add(a: [T; 8], b: [T; 8], c: [T; 8]) -> [T; 8] {
        std::array::from_fn(|i| T::multiply_add(a[i], b[i], c[i]))
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    //! The vectors of x86-64.
    use super::Simd;
    use std::arch::x86_64 as arch;

    macro_rules! simd {
        ($name:ident, $doc:literal, $t:ty, $v:ty, $lanes:literal, $splat:ident, $load:ident,
         $store:ident, $add:ident, |$a:ident, $b:ident, $c:ident| $fma:expr) => {
            #[doc = $doc]
            pub(in crate::library) struct $name;
            impl Simd for $name {
                type T = $t;
                type V = $v;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn splat(value: $t) -> $v {
                    // SAFETY: by the caller.
                    unsafe { arch::$splat(value) }
                }
                #[inline(always)]
                unsafe fn load(at: *const $t) -> $v {
                    // SAFETY: by the caller.
                    unsafe { arch::$load(at.cast()) }
                }
                #[inline(always)]
                unsafe fn store(at: *mut $t, value: $v) {
                    // SAFETY: by the caller.
                    unsafe { arch::$store(at.cast(), value) }
                }
                #[inline(always)]
                unsafe fn add(a: $v, b: $v) -> $v {
                    // SAFETY: by the caller.
                    unsafe { arch::$add(a, b) }
                }
                #[inline(always)]
                unsafe fn multiply_add($a: $v, $b: $v, $c: $v) -> $v {
                    // SAFETY: by the caller.
                    unsafe { $fma }
                }
            }
        };
    }

    simd!(
        F32x16,
        "AVX-512.",
        f32,
        arch::__m512,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        |a, b, c| arch::_mm512_fmadd_ps(a, b, c)
    );
    simd!(
        F64x8,
        "AVX-512.",
        f64,
        arch::__m512d,
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        |a, b, c| arch::_mm512_fmadd_pd(a, b, c)
    );
    simd!(
        I32x16,
        "AVX-512.",
        i32,
        arch::__m512i,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        |a, b, c| arch::_mm512_add_epi32(arch::_mm512_mullo_epi32(a, b), c)
    );
    simd!(
        I64x8,
        "AVX-512.",
        i64,
        arch::__m512i,
        8,
        _mm512_set1_epi64,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi64,
        |a, b, c| arch::_mm512_add_epi64(arch::_mm512_mullo_epi64(a, b), c)
    );
    simd!(
        F32x8,
        "AVX2 and FMA.",
        f32,
        arch::__m256,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        |a, b, c| arch::_mm256_fmadd_ps(a, b, c)
    );
    simd!(
        F64x4,
        "AVX2 and FMA.",
        f64,
        arch::__m256d,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        |a, b, c| arch::_mm256_fmadd_pd(a, b, c)
    );
    simd!(
        PairsX16,
        "AVX-512: pairs of 16-bit integers, summed in 32 bits.",
        i32,
        arch::__m512i,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        |a, b, c| arch::_mm512_add_epi32(arch::_mm512_madd_epi16(a, b), c)
    );
    simd!(
        VnniPairsX16,
        "The same with AVX-512 VNNI.",
        i32,
        arch::__m512i,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        |a, b, c| arch::_mm512_dpwssd_epi32(c, a, b)
    );
    simd!(
        PairsX8,
        "The same with AVX2.",
        i32,
        arch::__m256i,
        8,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        |a, b, c| arch::_mm256_add_epi32(arch::_mm256_madd_epi16(a, b), c)
    );
    simd!(
        FoursX16,
        "AVX-512 VNNI: signed bytes times unsigned bytes.",
        i32,
        arch::__m512i,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        |a, b, c| arch::_mm512_dpbusd_epi32(c, b, a)
    );
    simd!(
        Bf16PairsX16,
        "AVX-512 BF16: pairs of `bf16`.",
        f32,
        arch::__m512,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        |a, b, c| {
            let [a, b] = std::mem::transmute::<[arch::__m512; 2], [arch::__m512bh; 2]>([a, b]);
            arch::_mm512_dpbf16_ps(c, a, b)
        }
    );
    simd!(
        I32x8,
        "AVX2.",
        i32,
        arch::__m256i,
        8,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        |a, b, c| arch::_mm256_add_epi32(arch::_mm256_mullo_epi32(a, b), c)
    );
}
