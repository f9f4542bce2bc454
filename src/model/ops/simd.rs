//! Compiles a numeric loop for several instruction sets, and runs the widest that the processor supports.

use std::iter::Sum;
use std::ops::{Add, Mul};
use std::sync::atomic::{AtomicU8, Ordering};

/// Defines a function whose body is compiled for AVX-512, for AVX2 with fused multiply-add, and for the target's
/// baseline; a call runs the widest that the processor supports ([`Level`]). `FUSED` names a const parameter of the
/// body: whether `mul_add` is one instruction. `T: Real` after it makes the body generic.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<const $fused:ident: bool $(, $type:ident: $bound:ident)?>($($arg:ident: $kind:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        $vis fn $name$(<$type: $bound>)?($($arg: $kind),*) $(-> $out)? {
            #[inline(always)]
            fn body<const $fused: bool $(, $type: $bound)?>($($arg: $kind),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
                fn widest$(<$type: $bound>)?($($arg: $kind),*) $(-> $out)? { body::<true $(, $type)?>($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn wide$(<$type: $bound>)?($($arg: $kind),*) $(-> $out)? { body::<true $(, $type)?>($($arg),*) }
                match $crate::model::ops::simd::Level::current() {
                    // SAFETY: the current level is never wider than what the processor supports.
                    #[expect(unsafe_code, reason = "a call of instructions that not every processor has")]
                    $crate::model::ops::simd::Level::Avx512 => return unsafe { widest$(::<$type>)?($($arg),*) },
                    // SAFETY: the current level is never wider than what the processor supports.
                    #[expect(unsafe_code, reason = "a call of instructions that not every processor has")]
                    $crate::model::ops::simd::Level::Avx2 => return unsafe { wide$(::<$type>)?($($arg),*) },
                    $crate::model::ops::simd::Level::Baseline => {}
                }
            }
            body::<{ cfg!(target_arch = "aarch64") } $(, $type)?>($($arg),*)
        }
    };
}

pub(crate) use vectorised;

/// The instruction set that loops run with, the widest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// What every processor of the target has.
    Baseline = 1,
    /// AVX2 with fused multiply-add.
    Avx2 = 2,
    /// AVX-512.
    Avx512 = 3,
}

/// The current [`Level`], as its discriminant; 0 before the first call of [`Level::current`].
static CURRENT: AtomicU8 = AtomicU8::new(0);

impl Level {
    /// All levels, in ascending order.
    pub const ALL: [Self; 3] = [Self::Baseline, Self::Avx2, Self::Avx512];

    /// The widest level that this processor supports.
    pub fn widest() -> Self {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let wide = [is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx512dq")];
            let widest = wide == [true; 2] && is_x86_feature_detected!("avx512vl");
            return if widest { Self::Avx512 } else { Self::Avx2 };
        }
        Self::Baseline
    }

    /// The level that loops run with: the widest, unless another was [forced](Self::force).
    #[inline]
    pub fn current() -> Self {
        match CURRENT.load(Ordering::Relaxed) {
            1 => Self::Baseline,
            2 => Self::Avx2,
            3 => Self::Avx512,
            _ => Self::widest().force(),
        }
    }

    /// Makes the whole process run its loops with this level, or with the widest that the processor supports if that
    /// is narrower; returns the level set. For tests alone.
    pub fn force(self) -> Self {
        let level = self.min(Self::widest());
        CURRENT.store(level as u8, Ordering::Relaxed);
        level
    }
}

vectorised! {
    /// `into += values`.
    pub(crate) fn add<const FUSED: bool, T: Real>(values: &[T], into: &mut [T]) {
        into.iter_mut().zip(values).for_each(|(into, &x)| *into = *into + x);
    }
}

vectorised! {
    /// `into *= values`.
    pub(crate) fn multiply<const FUSED: bool, T: Real>(values: &[T], into: &mut [T]) {
        into.iter_mut().zip(values).for_each(|(into, &x)| *into = *into * x);
    }
}

vectorised! {
    /// `into += factor values`.
    pub(crate) fn add_scaled<const FUSED: bool, T: Real>(factor: T, values: &[T], into: &mut [T]) {
        for (into, &x) in into.iter_mut().zip(values) {
            *into = T::multiply_add::<FUSED>(factor, x, *into);
        }
    }
}

vectorised! {
    /// [`add_scaled`] whose products are rounded before they are added: to the same bits at every [`Level`].
    pub(crate) fn add_rounded<const FUSED: bool>(factor: f64, values: &[f64], into: &mut [f64]) {
        into.iter_mut().zip(values).for_each(|(into, x)| *into += factor * x);
    }
}

vectorised! {
    /// `into += a b`.
    pub(crate) fn add_product<const FUSED: bool, T: Real>(a: &[T], b: &[T], into: &mut [T]) {
        for ((into, &a), &b) in into.iter_mut().zip(a).zip(b) {
            *into = T::multiply_add::<FUSED>(a, b, *into);
        }
    }
}

/// Partial results of a sum, which fill vector registers.
const LANES: usize = 16;

vectorised! {
    /// The dot product `a . b`.
    pub(crate) fn dot<const FUSED: bool, T: Real>(a: &[T], b: &[T]) -> T {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
        let mut sums = [T::default(); LANES];
        for (a, b) in a.iter().zip(b) {
            (0..LANES).for_each(|lane| sums[lane] = sums[lane] + a[lane] * b[lane]);
        }
        sums.into_iter().sum::<T>() + a_rest.iter().zip(b_rest).map(|(&a, &b)| a * b).sum::<T>()
    }
}

/// The sum, as partial sums that the compiler vectorises.
#[inline(always)]
pub(crate) fn sum(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        (0..LANES).for_each(|lane| sums[lane] += chunk[lane]);
    }
    sums.iter().sum::<f32>() + rest.iter().sum::<f32>()
}

/// The largest value, the same way; NaN is passed over, and without values it is negative infinity.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        (0..LANES).for_each(|lane| lanes[lane] = larger(lanes[lane], chunk[lane]));
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, larger)
}

/// A floating-point type that loops are written for: f32 or f64.
pub(crate) trait Real:
    Copy + Default + Send + Sync + Add<Output = Self> + Mul<Output = Self> + Sum
{
    /// `a b + c`, in one rounding where the processor has an instruction for it.
    fn multiply_add<const FUSED: bool>(a: Self, b: Self, c: Self) -> Self;
    /// The nearest value.
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
}

macro_rules! real {
    ($real:ty) => {
        impl Real for $real {
            #[inline(always)]
            fn multiply_add<const FUSED: bool>(a: Self, b: Self, c: Self) -> Self {
                if FUSED { a.mul_add(b, c) } else { a * b + c }
            }

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as Self
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
        }
    };
}

real!(f32);
real!(f64);

/// `exp(x)` for `x` up to 700, to an ulp or two; below -708 it stays at about 1e-308 instead of 0. Branch-free, so
/// that it vectorises: `x = n ln 2 + r`, `|r| <= ln 2 / 2`, Taylor's series for `exp(r)` up to `r^13 / 13!` (the
/// next term is below 5e-18), and `n` added to the exponent bits.
#[inline(always)]
pub(crate) fn exp<const FUSED: bool>(x: f64) -> f64 {
    /// 1.5 * 2^52: adding it rounds to an integer, which is left in the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1; // its last 32 bits are 0: n LN_2_HIGH is exact
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const TAYLOR: [f64; 14] = {
        let mut terms = [1.0; 14];
        let mut n = 1;
        while n < 14 {
            terms[n] = terms[n - 1] / n as f64;
            n += 1;
        }
        terms
    };
    let x = if x < -708.0 { -708.0 } else { x }; // NaN stays
    let shifted = f64::multiply_add::<FUSED>(x, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = f64::multiply_add::<FUSED>(-LN_2_LOW, n, f64::multiply_add::<FUSED>(-LN_2_HIGH, n, x));
    let mut series = TAYLOR[13];
    let mut term = 13;
    while term > 0 {
        term -= 1;
        series = f64::multiply_add::<FUSED>(series, r, TAYLOR[term]);
    }
    series * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
}

/// `exp(x)` in float32, to a relative error of 3e-7; `x` is clamped to +-87. As [`exp`], with the series up to
/// `r^6 / 6!` (the next term is below 2e-7).
#[inline(always)]
pub(crate) fn exp_single<const FUSED: bool>(x: f32) -> f32 {
    /// 1.5 * 2^23.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4; // its last bits are 0: n LN_2_HIGH is exact
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const TAYLOR: [f32; 7] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0];
    let x = x.clamp(-87.0, 87.0);
    let shifted = f32::multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = f32::multiply_add::<FUSED>(-LN_2_LOW, n, f32::multiply_add::<FUSED>(-LN_2_HIGH, n, x));
    let mut series = TAYLOR[6];
    let mut term = 6;
    while term > 0 {
        term -= 1;
        series = f32::multiply_add::<FUSED>(series, r, TAYLOR[term]);
    }
    series * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_exponential_is_within_two_ulp() {
        for step in 0..=1_400_000 {
            let x = 700.0 - f64::from(step) * 0.001_001;
            for found in [exp::<false>(x), exp::<true>(x)] {
                assert!((found / x.exp() - 1.0).abs() < 4.5e-16, "exp({x}) = {found:e}");
            }
        }
        assert!(exp::<false>(f64::NAN).is_nan() && exp::<true>(f64::NAN).is_nan());
        assert!(exp::<false>(-1e300) < 1e-307 && exp::<false>(f64::NEG_INFINITY) < 1e-307);
    }

    #[test]
    fn the_quick_exponential_of_float32_is_within_three_ulp() {
        for step in 0..=347_900 {
            let x = 87.0 - step as f32 * 0.000_5;
            for found in [exp_single::<false>(x), exp_single::<true>(x)] {
                assert!((f64::from(found) / f64::from(x).exp() - 1.0).abs() < 3e-7, "exp({x}) = {found:e}");
            }
        }
        assert!(exp_single::<true>(f32::NAN).is_nan());
        assert!(exp_single::<true>(f32::NEG_INFINITY) < 1e-37 && exp_single::<true>(1e30).is_finite());
    }
}
