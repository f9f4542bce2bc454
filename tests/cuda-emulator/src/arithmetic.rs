//! The results of instructions on single values, as functions of their bits.

use crate::value::{Lane, Ty, bf16, f16, float, float_bits, integer, masked};

pub type Function<const N: usize> = Box<dyn Fn([u64; N]) -> u64 + Send + Sync>;

/// Instantiates an expression for each integer type.
macro_rules! by_integer {
    (@$ty:expr, $t:ident => $make:expr; $($($name:ident)+: $int:ty),+) => {
        match $ty {
            $($(Ty::$name)|+ => {
                type $t = $int;
                $make
            })+
            _ => return None,
        }
    };
    ($ty:expr, $t:ident => $make:expr) => {
        by_integer!(@$ty, $t => $make;
            U8 B8: u8, S8: i8, U16 B16: u16, S16: i16, U32 B32: u32, S32: i32, U64 B64: u64, S64: i64)
    };
}

fn packed<const N: usize>(ty: Ty, one: impl Fn(Ty) -> Option<Function<N>>) -> Option<Function<N>> {
    let half = if ty == Ty::F16x2 { Ty::F16 } else { Ty::BF16 };
    let one = one(half)?;
    Some(Box::new(move |x: [u64; N]| {
        let (low, high) = (one(x.map(|x| x & 0xffff)), one(x.map(|x| (x >> 16) & 0xffff)));
        low | high << 16
    }))
}

pub fn is_packed(ty: Ty) -> bool {
    matches!(ty, Ty::F16x2 | Ty::BF16x2)
}

/// A function of floats: evaluated in float64, then rounded once.
fn of_floats<const N: usize>(
    ty: Ty,
    ftz: bool,
    f: impl Fn([f64; N]) -> f64 + Send + Sync + 'static,
) -> Function<N> {
    let flush =
        move |x: f64| if ftz && x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0_f64.copysign(x) } else { x };
    Box::new(move |x| float_bits(ty, flush(f(x.map(|x| flush(float(ty, x)))))))
}

pub fn one(name: &str, mods: &[&str], ty: Ty) -> Option<Function<1>> {
    let ftz = mods.contains(&"ftz");
    if is_packed(ty) {
        return match name {
            "neg" | "abs" | "ex2" | "tanh" => packed(ty, |half| one(name, &[], half)),
            _ => None,
        };
    }
    if ty.float() {
        // Also changes the sign of NaN.
        let top = 8 * ty.bytes() - 1;
        return Some(match name {
            "neg" => Box::new(move |[x]| x ^ 1 << top),
            "abs" => Box::new(move |[x]| x & !(1 << top)),
            "sqrt" => of_floats(ty, ftz, |[x]| x.sqrt()),
            "rsqrt" => of_floats(ty, ftz, |[x]| 1.0 / x.sqrt()),
            "rcp" => of_floats(ty, ftz, |[x]| 1.0 / x),
            "ex2" => of_floats(ty, ftz, |[x]| x.exp2()),
            "lg2" => of_floats(ty, ftz, |[x]| x.log2()),
            "sin" => of_floats(ty, ftz, |[x]| x.sin()),
            "cos" => of_floats(ty, ftz, |[x]| x.cos()),
            "tanh" => of_floats(ty, ftz, |[x]| x.tanh()),
            "testp" => {
                let fits: fn(f64) -> bool = match mods[0] {
                    "finite" => f64::is_finite,
                    "infinite" => f64::is_infinite,
                    "number" => |x| !x.is_nan(),
                    "notanumber" => f64::is_nan,
                    _ => return None,
                };
                Box::new(move |[x]| fits(float(ty, x)).bits())
            }
            _ => return None,
        });
    }
    if ty == Ty::Pred {
        return (name == "not").then(|| Box::new(|[x]: [u64; 1]| u64::from(x == 0)) as Function<1>);
    }
    Some(by_integer!(ty, T => match name {
        "neg" => Box::new(|[x]| T::read(x).wrapping_neg().bits()),
        "abs" => Box::new(move |[x]| masked(ty, integer(ty, x).unsigned_abs() as u64)),
        "not" => Box::new(|[x]| (!T::read(x)).bits()),
        "popc" => Box::new(|[x]| u64::from(T::read(x).count_ones())),
        "clz" => Box::new(|[x]| u64::from(T::read(x).leading_zeros())),
        "brev" => Box::new(|[x]| T::read(x).reverse_bits().bits()),
        "bfind" => Box::new(|[x]| match T::read(x) { 0 => 0xffff_ffff, x => u64::from(T::BITS - 1 - x.leading_zeros()) }),
        _ => return None,
    }))
}

pub fn two(name: &str, mods: &[&str], ty: Ty) -> Option<Function<2>> {
    let ftz = mods.contains(&"ftz");
    let nan = mods.contains(&"NaN");
    let sat = mods.contains(&"sat");
    if is_packed(ty) {
        let mods: &[&str] = if nan { &["NaN"] } else { &[] };
        return match name {
            "add" | "sub" | "mul" | "max" | "min" => packed(ty, |half| two(name, mods, half)),
            _ => None,
        };
    }
    if ty.float() {
        let clamp = move |x: f64| if sat { x.clamp(0.0, 1.0) } else { x };
        return Some(match name {
            "add" if ty == Ty::F32 && !ftz && !sat => Box::new(|[x, y]| (f32::read(x) + f32::read(y)).bits()),
            "sub" if ty == Ty::F32 && !ftz && !sat => Box::new(|[x, y]| (f32::read(x) - f32::read(y)).bits()),
            "mul" if ty == Ty::F32 && !ftz && !sat => Box::new(|[x, y]| (f32::read(x) * f32::read(y)).bits()),
            "div" if ty == Ty::F32 && !ftz => Box::new(|[x, y]| (f32::read(x) / f32::read(y)).bits()),
            "add" => of_floats(ty, ftz, move |[x, y]| clamp(x + y)),
            "sub" => of_floats(ty, ftz, move |[x, y]| clamp(x - y)),
            "mul" => of_floats(ty, ftz, move |[x, y]| clamp(x * y)),
            "div" => of_floats(ty, ftz, |[x, y]| x / y),
            "min" if nan => {
                of_floats(ty, ftz, |[x, y]| if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) })
            }
            "max" if nan => {
                of_floats(ty, ftz, |[x, y]| if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) })
            }
            "min" => of_floats(ty, ftz, |[x, y]| x.min(y)),
            "max" => of_floats(ty, ftz, |[x, y]| x.max(y)),
            "copysign" => of_floats(ty, false, |[sign, size]| size.copysign(sign)),
            _ => return None,
        });
    }
    if ty == Ty::Pred {
        return Some(match name {
            "and" => Box::new(|[x, y]| x & y),
            "or" => Box::new(|[x, y]| x | y),
            "xor" => Box::new(|[x, y]| x ^ y),
            _ => return None,
        });
    }
    let wide = mods.contains(&"wide");
    let hi = mods.contains(&"hi");
    let bits = 8 * ty.bytes() as u32;
    Some(by_integer!(ty, T => match name {
        "add" => Box::new(|[x, y]| T::read(x).wrapping_add(T::read(y)).bits()),
        "sub" => Box::new(|[x, y]| T::read(x).wrapping_sub(T::read(y)).bits()),
        "mul" if wide => Box::new(move |[x, y]| {
            let product = (integer(ty, x) * integer(ty, y)) as u64;
            if bits == 32 { product } else { product & 0xffff_ffff }
        }),
        "mul" if hi => Box::new(move |[x, y]| match ty.signed() {
            true => masked(ty, ((integer(ty, x) * integer(ty, y)) >> bits) as u64),
            false => masked(ty, ((integer(ty, x) as u128 * integer(ty, y) as u128) >> bits) as u64),
        }),
        "mul" => Box::new(|[x, y]| T::read(x).wrapping_mul(T::read(y)).bits()),
        "div" => Box::new(|[x, y]| match T::read(y) { 0 => T::MAX.bits(), y => T::read(x).wrapping_div(y).bits() }),
        "rem" => Box::new(|[x, y]| match T::read(y) { 0 => x, y => T::read(x).wrapping_rem(y).bits() }),
        "min" => Box::new(|[x, y]| T::read(x).min(T::read(y)).bits()),
        "max" => Box::new(|[x, y]| T::read(x).max(T::read(y)).bits()),
        "and" => Box::new(|[x, y]| (T::read(x) & T::read(y)).bits()),
        "or" => Box::new(|[x, y]| (T::read(x) | T::read(y)).bits()),
        "xor" => Box::new(|[x, y]| (T::read(x) ^ T::read(y)).bits()),
        "shl" => Box::new(move |[x, y]| if y as u32 >= bits { 0 } else { (T::read(x) << (y as u32)).bits() }),
        "shr" => Box::new(move |[x, y]| masked(ty, (integer(ty, x) >> (y as u32).min(bits)) as u64)),
        _ => return None,
    }))
}

pub fn three(name: &str, mods: &[&str], ty: Ty) -> Option<Function<3>> {
    let ftz = mods.contains(&"ftz");
    if is_packed(ty) {
        return if name == "fma" { packed(ty, |ty| three("fma", &[], ty)) } else { None };
    }
    if name == "fma" || (name == "mad" && ty.float()) {
        let relu = mods.contains(&"relu");
        return Some(match ty {
            Ty::F32 if !ftz => Box::new(|[x, y, z]| f32::read(x).mul_add(f32::read(y), f32::read(z)).bits()),
            Ty::F64 => Box::new(|[x, y, z]| f64::read(x).mul_add(f64::read(y), f64::read(z)).bits()),
            // The product of two halves is exact in float64, and an addend of a far larger or smaller size rounds alike.
            _ => of_floats(ty, ftz, move |[x, y, z]| {
                let sum = x.mul_add(y, z);
                if relu && sum < 0.0 { 0.0 } else { sum }
            }),
        });
    }
    let bits = 8 * ty.bytes() as u32;
    let (wide, hi) = (mods.contains(&"wide"), mods.contains(&"hi"));
    let (left, wrap) = (mods.contains(&"l"), mods.contains(&"wrap"));
    let four_bytes = mods.is_empty();
    Some(match name {
        "mad" => Box::new(move |[x, y, z]| {
            let product = integer(ty, x) * integer(ty, y);
            match (wide, hi) {
                (true, _) if bits == 32 => (product as u64).wrapping_add(z),
                (true, _) => (product as u64).wrapping_add(z) & 0xffff_ffff,
                (_, true) => masked(ty, ((product >> bits) as u64).wrapping_add(z)),
                _ => masked(ty, (product as u64).wrapping_add(z)),
            }
        }),
        "shf" => Box::new(move |[low, high, by]| {
            let by = if wrap { by & 31 } else { (by & 0xffff_ffff).min(32) };
            let pair = (high << 32) | (low & 0xffff_ffff);
            if left { ((pair << by) >> 32) & 0xffff_ffff } else { (pair >> by) & 0xffff_ffff }
        }),
        "bfe" => Box::new(move |[x, at, many]| {
            let (at, many) = ((at & 0xff) as u32, (many & 0xff) as u32);
            let value = integer(ty, x);
            if many == 0 {
                return 0;
            }
            let shifted = value >> at.min(127 - 64);
            let cut = shifted & ((1_i128 << many.min(bits)) - 1);
            let negative = ty.signed() && (value >> (at + many - 1).min(bits - 1)) & 1 == 1;
            masked(ty, (if negative { cut | (-1_i128 << many.min(bits)) } else { cut }) as u64)
        }),
        // Selects bytes of a pair of words.
        "prmt" if four_bytes => Box::new(|[a, b, by]| {
            let bytes = (b << 32) | (a & 0xffff_ffff);
            (0..4).fold(0, |made, at| {
                let pick = (by >> (4 * at)) & 0xf;
                let byte = (bytes >> (8 * (pick & 7))) & 0xff;
                let byte = if pick & 8 == 0 {
                    byte
                } else if byte & 0x80 == 0 {
                    0
                } else {
                    0xff
                };
                made | byte << (8 * at)
            })
        }),
        _ => return None,
    })
}

pub fn four(name: &str, ty: Ty) -> Option<Function<4>> {
    Some(match name {
        "bfi" => Box::new(move |[x, into, at, many]| {
            let (at, many) = (at & 0xff, many & 0xff);
            let mask = if many >= 64 { u64::MAX } else { (1 << many) - 1 };
            masked(ty, if at >= 64 { into } else { into & !(mask << at) | (x & mask) << at })
        }),
        "lop3" => Box::new(|[a, b, c, table]| {
            (0..32).fold(0, |made, at| {
                let index = ((a >> at) & 1) << 2 | ((b >> at) & 1) << 1 | (c >> at) & 1;
                made | ((table >> index) & 1) << at
            })
        }),
        _ => return None,
    })
}

/// Comparisons; with NaN, ordered ones are false.
pub fn compares(word: &str, ty: Ty) -> Option<Function<2>> {
    if ty.float() {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let (stem, unordered) = match word.strip_suffix('u') {
            Some(stem) if word.len() == 3 => (stem, true),
            _ => (word, false),
        };
        let fits: fn(std::cmp::Ordering) -> bool = match stem {
            "eq" => |o| o == Equal,
            "ne" => |o| o != Equal,
            "lt" => |o| o == Less,
            "le" => |o| o != Greater,
            "gt" => |o| o == Greater,
            "ge" => |o| o != Less,
            "num" => |_| true,
            "nan" => |_| false,
            _ => return None,
        };
        let unordered = unordered || stem == "nan";
        return Some(Box::new(move |[x, y]| {
            float(ty, x).partial_cmp(&float(ty, y)).map_or(unordered, fits).bits()
        }));
    }
    if ty == Ty::Pred {
        return None;
    }
    // lo, ls, hi and hs compare as unsigned integers.
    Some(by_integer!(ty, T => match word {
        "eq" => Box::new(|[x, y]| (T::read(x) == T::read(y)).bits()),
        "ne" => Box::new(|[x, y]| (T::read(x) != T::read(y)).bits()),
        "lt" | "lo" => Box::new(|[x, y]| (T::read(x) < T::read(y)).bits()),
        "le" | "ls" => Box::new(|[x, y]| (T::read(x) <= T::read(y)).bits()),
        "gt" | "hi" => Box::new(|[x, y]| (T::read(x) > T::read(y)).bits()),
        "ge" | "hs" => Box::new(|[x, y]| (T::read(x) >= T::read(y)).bits()),
        _ => return None,
    }))
}

/// Rounds to an integer in the mode that the word names.
fn whole(word: Option<&str>, x: f64) -> f64 {
    match word {
        Some("rzi" | "rz") => x.trunc(),
        Some("rmi" | "rm") => x.floor(),
        Some("rpi" | "rp") => x.ceil(),
        _ => x.round_ties_even(),
    }
}

pub fn convert(to: Ty, from: Ty, mods: &[&str]) -> Function<1> {
    let round = mods.iter().copied().find(|word| word.starts_with('r')).filter(|word| *word != "relu");
    let round: Option<String> = round.map(str::to_owned);
    let (sat, ftz) = (mods.contains(&"sat"), mods.contains(&"ftz"));
    match (to.float(), from.float()) {
        (true, true) => Box::new(move |[x]| {
            let mut value = float(from, x);
            if round.as_deref().is_some_and(|word| word.ends_with('i')) {
                value = whole(round.as_deref(), value);
            }
            if sat {
                value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
            }
            if ftz && value.abs() < f64::from(f32::MIN_POSITIVE) {
                value = 0.0_f64.copysign(value);
            }
            let nearest = float_bits(to, value);
            // Towards zero: one step back if the nearest is larger in magnitude.
            if round.as_deref() == Some("rz") && float(to, nearest).abs() > value.abs() {
                return nearest - 1;
            }
            nearest
        }),
        (true, false) => Box::new(move |[x]| match to {
            Ty::F32 => (integer(from, x) as f32).bits(),
            Ty::F64 => (integer(from, x) as f64).bits(),
            _ => float_bits(to, integer(from, x) as f64),
        }),
        (false, true) => Box::new(move |[x]| {
            let value = whole(round.as_deref(), float(from, x));
            let (low, high) = match (to.signed(), 8 * to.bytes()) {
                (true, bits) => (-(2_f64.powi(bits as i32 - 1)), 2_f64.powi(bits as i32 - 1)),
                (false, bits) => (0.0, 2_f64.powi(bits as i32)),
            };
            let value = if value.is_nan() {
                0
            } else if value >= high {
                high as i128 - 1
            } else {
                value.max(low) as i128
            };
            masked(to, value as u64)
        }),
        (false, false) => Box::new(move |[x]| {
            let value = integer(from, x);
            let value = if sat {
                let bits = 8 * to.bytes() as u32;
                let (low, high) = if to.signed() {
                    (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
                } else {
                    (0, (1_i128 << bits) - 1)
                };
                value.clamp(low, high)
            } else {
                value
            };
            // A narrow signed value is sign-extended to the width of its register.
            if to.signed() { value as u64 & wide_mask(to) } else { masked(to, value as u64) }
        }),
    }
}

fn wide_mask(to: Ty) -> u64 {
    if to.bytes() == 8 { u64::MAX } else { 0xffff_ffff }
}

/// The two halves or the one word of a register, as numbers.
pub fn unpacked(ty: Ty, word: u64) -> Vec<f64> {
    match ty {
        Ty::F16 => vec![f16::read(word).to_f64(), f16::read(word >> 16).to_f64()],
        Ty::BF16 => vec![bf16::read(word).to_f64(), bf16::read(word >> 16).to_f64()],
        ty => vec![float(ty, word)],
    }
}
