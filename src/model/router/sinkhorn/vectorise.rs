//! Compiles a numeric loop for several instruction sets and takes the best this machine has.

/// Defines a function whose body is compiled for AVX-512, AVX2 with fused multiply-add, and the
/// target's baseline; a call takes the first the processor has. `FUSED` is the name of a constant
/// of the body: whether `mul_add` is one instruction.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident<const $fused:ident: bool>($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn body<const $fused: bool>($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
                fn widest($($arg: $type),*) $(-> $out)? { body::<true>($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn wide($($arg: $type),*) $(-> $out)? { body::<true>($($arg),*) }
                let has = |found: [bool; 2]| found == [true; 2];
                if has([is_x86_feature_detected!("avx2"), is_x86_feature_detected!("fma")]) {
                    if has([is_x86_feature_detected!("avx512f"), is_x86_feature_detected!("avx512dq")])
                        && is_x86_feature_detected!("avx512vl")
                    {
                        // SAFETY: the processor has just said that it knows these instructions.
                        #[expect(unsafe_code, reason = "a call of instructions not every processor has")]
                        return unsafe { widest($($arg),*) };
                    }
                    // SAFETY: as above.
                    #[expect(unsafe_code, reason = "as above")]
                    return unsafe { wide($($arg),*) };
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}

pub(super) use vectorised;

/// `a b + c`, in one rounding where the processor has an instruction for it.
#[inline(always)]
pub(super) fn multiply_add<const FUSED: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}
