//! Values of registers: 64 bits each, read and written as the type an instruction names.

pub use half::{bf16, f16};

/// Declares the types by their names in PTX.
macro_rules! types {
    ($($name:ident $word:literal),*) => {
        /// The types of PTX.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Ty { $($name),* }

        impl Ty {
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}
types!(
    Pred "pred", B8 "b8", U8 "u8", S8 "s8", B16 "b16", U16 "u16", S16 "s16", B32 "b32", U32 "u32", S32 "s32", B64 "b64",
    U64 "u64", S64 "s64", F16 "f16", BF16 "bf16", F16x2 "f16x2", BF16x2 "bf16x2", TF32 "tf32", F32 "f32", F64 "f64"
);

impl Ty {
    pub fn bytes(self) -> usize {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::BF16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::TF32 | Self::F16x2 | Self::BF16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    pub fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub fn float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64 | Self::TF32)
    }
}

/// A Rust type that the bits of a register can hold.
pub trait Lane: Copy {
    fn read(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! integers {
    ($($int:ty as $unsigned:ty),*) => {$(
        impl Lane for $int {
            fn read(bits: u64) -> Self { bits as $int }
            fn bits(self) -> u64 { self as $unsigned as u64 }
        }
    )*};
}
integers!(u8 as u8, i8 as u8, u16 as u16, i16 as u16, u32 as u32, i32 as u32, u64 as u64, i64 as u64);

impl Lane for bool {
    fn read(bits: u64) -> Self {
        bits != 0
    }
    fn bits(self) -> u64 {
        u64::from(self)
    }
}

macro_rules! floats {
    ($($float:ty as $bits:ty),*) => {$(
        impl Lane for $float {
            fn read(bits: u64) -> Self { Self::from_bits(bits as $bits) }
            fn bits(self) -> u64 { self.to_bits() as u64 }
        }
    )*};
}
floats!(f32 as u32, f64 as u64, f16 as u16, bf16 as u16);

/// A float of any width as float64; [`float_bits`] is the inverse, with one rounding.
pub fn float(ty: Ty, bits: u64) -> f64 {
    match ty {
        Ty::F16 => f16::read(bits).to_f64(),
        Ty::BF16 => bf16::read(bits).to_f64(),
        Ty::F32 | Ty::TF32 => f64::from(f32::read(bits)),
        _ => f64::read(bits),
    }
}

pub fn float_bits(ty: Ty, value: f64) -> u64 {
    match ty {
        Ty::F16 => f16::from_f64(value).bits(),
        Ty::BF16 => bf16::from_f64(value).bits(),
        Ty::F32 => (value as f32).bits(),
        Ty::TF32 => tf32(value as f32).bits(),
        _ => value.bits(),
    }
}

/// Rounded to the ten mantissa bits of TF32, ties away from zero.
pub fn tf32(value: f32) -> f32 {
    if value.is_finite() { f32::from_bits((value.to_bits().wrapping_add(0x1000)) & !0x1fff) } else { value }
}

/// The integer of this type in the bits, sign-extended.
pub fn integer(ty: Ty, bits: u64) -> i128 {
    match ty {
        Ty::S8 => i128::from(bits as i8),
        Ty::S16 => i128::from(bits as i16),
        Ty::S32 => i128::from(bits as i32),
        Ty::S64 => i128::from(bits as i64),
        _ => i128::from(masked(ty, bits)),
    }
}

/// The bits of a value of this type, without those above.
pub fn masked(ty: Ty, bits: u64) -> u64 {
    match ty.bytes() {
        8 => bits,
        bytes => bits & ((1 << (8 * bytes)) - 1),
    }
}
