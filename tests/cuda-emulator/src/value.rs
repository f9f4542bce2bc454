//! Values of registers: 64 bits each, read and written as the type an instruction names.

pub use half::{bf16, f16};

/// The types of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Pred,
    B8,
    U8,
    S8,
    B16,
    U16,
    S16,
    B32,
    U32,
    S32,
    B64,
    U64,
    S64,
    F16,
    BF16,
    F16x2,
    BF16x2,
    TF32,
    F32,
    F64,
}

impl Ty {
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "u8" => Self::U8,
            "s8" => Self::S8,
            "b16" => Self::B16,
            "u16" => Self::U16,
            "s16" => Self::S16,
            "b32" => Self::B32,
            "u32" => Self::U32,
            "s32" => Self::S32,
            "b64" => Self::B64,
            "u64" => Self::U64,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "bf16" => Self::BF16,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::BF16x2,
            "tf32" => Self::TF32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ => return None,
        })
    }

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
impl Lane for f32 {
    fn read(bits: u64) -> Self {
        f32::from_bits(bits as u32)
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}
impl Lane for f64 {
    fn read(bits: u64) -> Self {
        f64::from_bits(bits)
    }
    fn bits(self) -> u64 {
        self.to_bits()
    }
}
impl Lane for f16 {
    fn read(bits: u64) -> Self {
        f16::from_bits(bits as u16)
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}
impl Lane for bf16 {
    fn read(bits: u64) -> Self {
        bf16::from_bits(bits as u16)
    }
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

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
