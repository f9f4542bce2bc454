//! Instructions: what each is decoded to, and what it makes of single values.

use std::collections::HashMap;
use std::fmt;

use crate::parse::{Address, Src, Word};
use crate::value::{Lane, Ty, bf16, f16, float, float_bits, integer, masked};

pub struct Inst {
    /// Runs only in lanes whose predicate is so.
    pub guard: Option<(u32, bool)>,
    pub op: Op,
}

impl fmt::Debug for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("instruction")
    }
}

type Function<const N: usize> = Box<dyn Fn([u64; N]) -> u64 + Send + Sync>;

/// Which lane a shuffle reads.
#[derive(Clone, Copy, Debug)]
pub enum Shuffle {
    Idx,
    Up,
    Down,
    Bfly,
}

#[derive(Clone, Copy, Debug)]
pub enum Vote {
    All,
    Any,
    Uni,
    Ballot,
}

#[derive(Clone, Copy, Debug)]
pub enum Tile {
    A,
    B,
    C,
}

pub enum Op {
    One(Function<1>, u32, Src),
    Two(Function<2>, u32, Src, Src),
    Three(Function<3>, u32, Src, Src, Src),
    Four(Function<4>, u32, [Src; 4]),
    /// A comparison with a second predicate, its opposite.
    Compare(Function<3>, [u32; 2], [Src; 3]),
    /// Words of a register into several, and back; bits of each.
    Unpack(Vec<Option<u32>>, Src, u32),
    Pack(u32, Vec<Src>, u32),
    /// Register, bytes from the address, type.
    Load(Vec<Option<u32>>, Address, Ty, bool),
    Store(Address, Vec<Src>, Ty, bool),
    Atomic(Option<u32>, Address, Function<3>, [Src; 2], Ty),
    Branch(u32),
    Exit,
    Barrier,
    WarpBarrier,
    Nothing,
    Trap,
    ActiveMask(u32),
    Shuffle(Shuffle, u32, Option<u32>, [Src; 4]),
    Vote(Vote, u32, Word),
    Reduce(Function<2>, u32, Src),
    /// Into the registers of as many 8 x 8 matrices; transposed.
    LoadMatrix(Vec<u32>, Address, bool),
    StoreMatrix(Address, Vec<Src>, bool),
    /// D = A B + C by fragments whose places PTX says.
    Mma {
        d: Vec<u32>,
        a: Vec<Src>,
        b: Vec<Src>,
        c: Vec<Src>,
        k: usize,
        ty: Ty,
        sum: [Ty; 2],
    },
    WmmaLoad {
        d: Vec<u32>,
        from: Address,
        stride: Src,
        tile: Tile,
        shape: [usize; 3],
        row: bool,
        ty: Ty,
    },
    WmmaStore {
        s: Vec<Src>,
        to: Address,
        stride: Src,
        shape: [usize; 3],
        row: bool,
        ty: Ty,
    },
    WmmaMma {
        d: Vec<u32>,
        a: Vec<Src>,
        b: Vec<Src>,
        c: Vec<Src>,
        shape: [usize; 3],
        ty: Ty,
        sum: [Ty; 2],
    },
}

/// Does one thing for each type of integers.
macro_rules! by_integer {
    ($ty:expr, $t:ident => $make:expr) => {
        match $ty {
            Ty::U8 | Ty::B8 => {
                type $t = u8;
                $make
            }
            Ty::S8 => {
                type $t = i8;
                $make
            }
            Ty::U16 | Ty::B16 => {
                type $t = u16;
                $make
            }
            Ty::S16 => {
                type $t = i16;
                $make
            }
            Ty::U32 | Ty::B32 => {
                type $t = u32;
                $make
            }
            Ty::S32 => {
                type $t = i32;
                $make
            }
            Ty::U64 | Ty::B64 => {
                type $t = u64;
                $make
            }
            Ty::S64 => {
                type $t = i64;
                $make
            }
            _ => return None,
        }
    };
}

fn packed<const N: usize>(ty: Ty, one: fn(Ty) -> Option<Function<N>>) -> Option<Function<N>> {
    let half = if ty == Ty::F16x2 { Ty::F16 } else { Ty::BF16 };
    let one = one(half)?;
    Some(Box::new(move |x: [u64; N]| {
        let (low, high) = (one(x.map(|x| x & 0xffff)), one(x.map(|x| (x >> 16) & 0xffff)));
        low | high << 16
    }))
}

fn is_packed(ty: Ty) -> bool {
    matches!(ty, Ty::F16x2 | Ty::BF16x2)
}

/// What a function of floats makes: exactly in float64, then rounded once.
fn of_floats<const N: usize>(
    ty: Ty,
    ftz: bool,
    f: impl Fn([f64; N]) -> f64 + Send + Sync + 'static,
) -> Function<N> {
    let flush =
        move |x: f64| if ftz && x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0_f64.copysign(x) } else { x };
    Box::new(move |x| float_bits(ty, flush(f(x.map(|x| flush(float(ty, x)))))))
}

fn one(name: &str, mods: &[&str], ty: Ty) -> Option<Function<1>> {
    let ftz = mods.contains(&"ftz");
    if is_packed(ty) {
        return match name {
            "neg" => packed(ty, |ty| one("neg", &[], ty)),
            "abs" => packed(ty, |ty| one("abs", &[], ty)),
            "ex2" => packed(ty, |ty| one("ex2", &[], ty)),
            "tanh" => packed(ty, |ty| one("tanh", &[], ty)),
            _ => None,
        };
    }
    if ty.float() {
        // The sign of NaN too.
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

fn two(name: &str, mods: &[&str], ty: Ty) -> Option<Function<2>> {
    let ftz = mods.contains(&"ftz");
    let nan = mods.contains(&"NaN");
    let sat = mods.contains(&"sat");
    if is_packed(ty) {
        return match name {
            "add" => packed(ty, |ty| two("add", &[], ty)),
            "sub" => packed(ty, |ty| two("sub", &[], ty)),
            "mul" => packed(ty, |ty| two("mul", &[], ty)),
            "max" if nan => packed(ty, |ty| two("max", &["NaN"], ty)),
            "min" if nan => packed(ty, |ty| two("min", &["NaN"], ty)),
            "max" => packed(ty, |ty| two("max", &[], ty)),
            "min" => packed(ty, |ty| two("min", &[], ty)),
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

fn three(name: &str, mods: &[&str], ty: Ty) -> Option<Function<3>> {
    let ftz = mods.contains(&"ftz");
    if is_packed(ty) {
        return if name == "fma" { packed(ty, |ty| three("fma", &[], ty)) } else { None };
    }
    if name == "fma" || (name == "mad" && ty.float()) {
        let relu = mods.contains(&"relu");
        return Some(match ty {
            Ty::F32 if !ftz => Box::new(|[x, y, z]| f32::read(x).mul_add(f32::read(y), f32::read(z)).bits()),
            Ty::F64 => Box::new(|[x, y, z]| f64::read(x).mul_add(f64::read(y), f64::read(z)).bits()),
            // The product of two halves is exact in float64, and what is added far apart rounds alike.
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
        // Bytes of a pair of words.
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

/// Comparisons; floats that are no numbers are neither.
fn compares(word: &str, ty: Ty) -> Option<Function<2>> {
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
    // lo, ls, hi, hs compare bits as unsigned numbers.
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

/// Rounded to a whole number as the word says.
fn whole(word: Option<&str>, x: f64) -> f64 {
    match word {
        Some("rzi" | "rz") => x.trunc(),
        Some("rmi" | "rm") => x.floor(),
        Some("rpi" | "rp") => x.ceil(),
        _ => x.round_ties_even(),
    }
}

fn convert(to: Ty, from: Ty, mods: &[&str]) -> Function<1> {
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
            // Towards zero: one step back where the nearest is further out.
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
            // A narrow signed value fills the register that it goes to.
            if to.signed() { value as u64 & wide_mask(to) } else { masked(to, value as u64) }
        }),
    }
}

fn wide_mask(to: Ty) -> u64 {
    if to.bytes() == 8 { u64::MAX } else { 0xffff_ffff }
}

fn reg(word: &Word) -> Result<u32, String> {
    match word {
        Word::Src(Src::Reg(reg)) => Ok(*reg),
        _ => Err(format!("no register: {word:?}")),
    }
}

fn src(word: &Word) -> Result<Src, String> {
    match word {
        Word::Src(src) => Ok(*src),
        _ => Err(format!("no value: {word:?}")),
    }
}

fn address(word: &Word) -> Result<Address, String> {
    match word {
        Word::Address(address) => Ok(*address),
        _ => Err(format!("no address: {word:?}")),
    }
}

fn sinks(word: &Word) -> Result<Vec<Option<u32>>, String> {
    match word {
        Word::Vector(words) => words
            .iter()
            .map(|word| if matches!(word, Word::Sink) { Ok(None) } else { reg(word).map(Some) })
            .collect(),
        Word::Sink => Ok(vec![None]),
        word => Ok(vec![Some(reg(word)?)]),
    }
}

fn sources(word: &Word) -> Result<Vec<Src>, String> {
    match word {
        Word::Vector(words) => words.iter().map(src).collect(),
        word => Ok(vec![src(word)?]),
    }
}

fn regs(word: &Word) -> Result<Vec<u32>, String> {
    match word {
        Word::Vector(words) => words.iter().map(reg).collect(),
        word => Ok(vec![reg(word)?]),
    }
}

/// `m16n8k16`
fn shape(word: &str) -> Option<[usize; 3]> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

pub fn decode(parts: &[&str], words: &[Word], labels: &HashMap<String, u32>) -> Result<Op, String> {
    let (name, mods) = (parts[0], &parts[1..]);
    let ty = mods.iter().rev().find_map(|word| Ty::parse(word));
    let typed = || ty.ok_or_else(|| "no type".to_owned());
    let unknown = || "not an instruction that is known".to_owned();
    let label = |word: &Word| match word {
        Word::Label(label) => labels.get(label).copied().ok_or_else(|| format!("no label {label}")),
        _ => Err("no label".to_owned()),
    };
    Ok(match name {
        "ret" | "exit" => Op::Exit,
        "trap" => Op::Trap,
        "bra" => Op::Branch(label(&words[0])?),
        "bar" | "barrier" if mods.contains(&"warp") => Op::WarpBarrier,
        "bar" | "barrier" => Op::Barrier,
        "membar" | "fence" | "nanosleep" | "prefetch" | "discard" => Op::Nothing,
        "activemask" => Op::ActiveMask(reg(&words[0])?),
        "mov" => match (&words[0], &words[1]) {
            (Word::Vector(_), from) => {
                let into = sinks(&words[0])?;
                let bits = 8 * typed()?.bytes() as u32 / into.len() as u32;
                Op::Unpack(into, src(from)?, bits)
            }
            (into, Word::Vector(_)) => {
                let from = sources(&words[1])?;
                let bits = 8 * typed()?.bytes() as u32 / from.len() as u32;
                Op::Pack(reg(into)?, from, bits)
            }
            (into, from) => {
                let ty = typed()?;
                Op::One(Box::new(move |[x]| masked(ty, x)), reg(into)?, src(from)?)
            }
        },
        "cvta" => Op::One(Box::new(|[x]| x), reg(&words[0])?, src(&words[1])?),
        "ld" | "ldu" => Op::Load(sinks(&words[0])?, address(&words[1])?, typed()?, mods.contains(&"shared")),
        "st" => Op::Store(address(&words[0])?, sources(&words[1])?, typed()?, mods.contains(&"shared")),
        "atom" | "red" => {
            let ty = typed()?;
            let (into, words) =
                if name == "atom" { (sinks(&words[0])?[0], &words[1..]) } else { (None, words) };
            let operation = mods.iter().copied().find(|word| {
                ["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"].contains(word)
            });
            let operation = operation.ok_or("no operation")?;
            let f: Function<3> = match operation {
                "exch" => Box::new(|[_, x, _]| x),
                "cas" => Box::new(
                    move |[was, compared, new]| {
                        if masked(ty, was) == masked(ty, compared) { new } else { was }
                    },
                ),
                _ => {
                    let f = two(operation, &[], ty).ok_or_else(unknown)?;
                    Box::new(move |[was, x, _]| f([was, x]))
                }
            };
            let second = words.get(2).map_or(Ok(Src::Imm(0)), src)?;
            Op::Atomic(into, address(&words[0])?, f, [src(&words[1])?, second], ty)
        }
        "setp" | "set" => {
            let ty = typed()?;
            let f = compares(mods[0], ty).ok_or_else(unknown)?;
            let join = mods
                .iter()
                .copied()
                .find(|word| ["and", "or", "xor"].contains(word))
                .unwrap_or("none")
                .to_owned();
            let as_word = name == "set";
            let negated = matches!(words.get(3), Some(Word::Not(_)));
            let third = match words.get(3) {
                Some(Word::Not(reg)) => Src::Reg(*reg),
                Some(word) => src(word)?,
                None => Src::Imm(0),
            };
            let both: Function<3> = Box::new(move |[x, y, p]| {
                let (fits, p) = (f([x, y]), if negated { u64::from(p == 0) } else { p });
                let fits = match join.as_str() {
                    "and" => fits & p,
                    "or" => fits | p,
                    "xor" => fits ^ p,
                    _ => fits,
                };
                if as_word && fits == 1 { 0xffff_ffff } else { fits }
            });
            match &words[0] {
                Word::Pair(p, q) => Op::Compare(both, [*p, *q], [src(&words[1])?, src(&words[2])?, third]),
                word => Op::Three(both, reg(word)?, src(&words[1])?, src(&words[2])?, third),
            }
        }
        "selp" => {
            let ty = typed()?;
            let negated = matches!(words[3], Word::Not(_));
            let p = if let Word::Not(reg) = words[3] { Src::Reg(reg) } else { src(&words[3])? };
            let pick: Function<3> =
                Box::new(move |[x, y, p]| masked(ty, if (p != 0) != negated { x } else { y }));
            Op::Three(pick, reg(&words[0])?, src(&words[1])?, src(&words[2])?, p)
        }
        "cvt" => {
            let types: Vec<Ty> = mods.iter().filter_map(|word| Ty::parse(word)).collect();
            let [to, from] = types[..] else { return Err("two types".into()) };
            if is_packed(to) {
                let half = if to == Ty::F16x2 { Ty::F16 } else { Ty::BF16 };
                let one = convert(half, from, mods);
                let f: Function<2> = Box::new(move |[high, low]| one([high]) << 16 | one([low]));
                Op::Two(f, reg(&words[0])?, src(&words[1])?, src(&words[2])?)
            } else {
                Op::One(convert(to, from, mods), reg(&words[0])?, src(&words[1])?)
            }
        }
        "bfi" => {
            let ty = typed()?;
            let f: Function<4> = Box::new(move |[x, into, at, many]| {
                let (at, many) = (at & 0xff, many & 0xff);
                let mask = if many >= 64 { u64::MAX } else { (1 << many) - 1 };
                masked(ty, if at >= 64 { into } else { into & !(mask << at) | (x & mask) << at })
            });
            Op::Four(f, reg(&words[0])?, [src(&words[1])?, src(&words[2])?, src(&words[3])?, src(&words[4])?])
        }
        "lop3" => {
            let f: Function<4> = Box::new(|[a, b, c, table]| {
                (0..32).fold(0, |made, at| {
                    let index = ((a >> at) & 1) << 2 | ((b >> at) & 1) << 1 | (c >> at) & 1;
                    made | ((table >> index) & 1) << at
                })
            });
            Op::Four(f, reg(&words[0])?, [src(&words[1])?, src(&words[2])?, src(&words[3])?, src(&words[4])?])
        }
        "testp" => {
            let (ty, word) = (typed()?, mods[0].to_owned());
            let f: Function<1> = Box::new(move |[x]| {
                let x = float(ty, x);
                match word.as_str() {
                    "finite" => x.is_finite(),
                    "infinite" => x.is_infinite(),
                    "number" => !x.is_nan(),
                    "notanumber" => x.is_nan(),
                    _ => false,
                }
                .bits()
            });
            Op::One(f, reg(&words[0])?, src(&words[1])?)
        }
        "shfl" => {
            let kind = match mods[1] {
                "idx" => Shuffle::Idx,
                "up" => Shuffle::Up,
                "down" => Shuffle::Down,
                "bfly" => Shuffle::Bfly,
                _ => return Err(unknown()),
            };
            let (into, valid) = match &words[0] {
                Word::Pair(into, valid) => (*into, Some(*valid)),
                word => (reg(word)?, None),
            };
            Op::Shuffle(
                kind,
                into,
                valid,
                [src(&words[1])?, src(&words[2])?, src(&words[3])?, src(&words[4])?],
            )
        }
        "vote" => {
            let kind = match mods[1] {
                "all" => Vote::All,
                "any" => Vote::Any,
                "uni" => Vote::Uni,
                "ballot" => Vote::Ballot,
                _ => return Err(unknown()),
            };
            Op::Vote(kind, reg(&words[0])?, words[1].clone())
        }
        "redux" => {
            Op::Reduce(two(mods[1], mods, typed()?).ok_or_else(unknown)?, reg(&words[0])?, src(&words[1])?)
        }
        "ldmatrix" => Op::LoadMatrix(regs(&words[0])?, address(&words[1])?, mods.contains(&"trans")),
        "stmatrix" => Op::StoreMatrix(address(&words[0])?, sources(&words[1])?, mods.contains(&"trans")),
        "mma" => {
            let [m, n, k] = mods.iter().find_map(|word| shape(word)).ok_or("no shape")?;
            let types: Vec<Ty> = mods.iter().filter_map(|word| Ty::parse(word)).collect();
            let [to, a, b, sum] = types[..] else { return Err("four types".into()) };
            if (m, n) != (16, 8) || a != b || !mods.windows(2).any(|two| two == ["row", "col"]) {
                return Err(unknown());
            }
            Op::Mma {
                d: regs(&words[0])?,
                a: sources(&words[1])?,
                b: sources(&words[2])?,
                c: sources(&words[3])?,
                k,
                ty: a,
                sum: [to, sum],
            }
        }
        "wmma" => {
            let shape = mods.iter().find_map(|word| shape(word)).ok_or("no shape")?;
            let layouts: Vec<bool> =
                mods.iter().filter(|word| ["row", "col"].contains(word)).map(|word| *word == "row").collect();
            match mods[0] {
                "load" => {
                    let tile = match mods[1] {
                        "a" => Tile::A,
                        "b" => Tile::B,
                        _ => Tile::C,
                    };
                    Op::WmmaLoad {
                        d: regs(&words[0])?,
                        from: address(&words[1])?,
                        stride: src(&words[2])?,
                        tile,
                        shape,
                        row: layouts[0],
                        ty: typed()?,
                    }
                }
                "store" => Op::WmmaStore {
                    to: address(&words[0])?,
                    s: sources(&words[1])?,
                    stride: src(&words[2])?,
                    shape,
                    row: layouts[0],
                    ty: typed()?,
                },
                "mma" => {
                    // Of halves both sums are named; of others the operands, too.
                    let types: Vec<Ty> = mods.iter().filter_map(|word| Ty::parse(word)).collect();
                    let (ty, sum) = match types[..] {
                        [to, from] => (Ty::F16, [to, from]),
                        [to, a, _, from] => (a, [to, from]),
                        _ => return Err("types".into()),
                    };
                    Op::WmmaMma {
                        d: regs(&words[0])?,
                        a: sources(&words[1])?,
                        b: sources(&words[2])?,
                        c: sources(&words[3])?,
                        shape,
                        ty,
                        sum,
                    }
                }
                _ => return Err(unknown()),
            }
        }
        _ => {
            let ty = typed()?;
            let operands = words.len() - 1;
            let at = |index: usize| src(&words[index]);
            match operands {
                1 => Op::One(one(name, mods, ty).ok_or_else(unknown)?, reg(&words[0])?, at(1)?),
                2 => Op::Two(two(name, mods, ty).ok_or_else(unknown)?, reg(&words[0])?, at(1)?, at(2)?),
                3 => {
                    let own: Vec<&str> =
                        mods.iter().copied().filter(|word| Ty::parse(word).is_none()).collect();
                    Op::Three(
                        three(name, if name == "prmt" { &own } else { mods }, ty).ok_or_else(unknown)?,
                        reg(&words[0])?,
                        at(1)?,
                        at(2)?,
                        at(3)?,
                    )
                }
                _ => return Err(unknown()),
            }
        }
    })
}

/// Two halves or one word, as numbers.
pub fn unpacked(ty: Ty, word: u64) -> Vec<f64> {
    match ty {
        Ty::F16 => vec![f16::read(word).to_f64(), f16::read(word >> 16).to_f64()],
        Ty::BF16 => vec![bf16::read(word).to_f64(), bf16::read(word >> 16).to_f64()],
        ty => vec![float(ty, word)],
    }
}
