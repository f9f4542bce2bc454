//! Instructions, and their decoding.

use std::collections::HashMap;
use std::fmt;

use crate::arithmetic::{Function, compares, convert, four, is_packed, one, three, two};
use crate::parse::{Address, Src, Word};
use crate::value::{Ty, masked};

pub struct Inst {
    /// A predicate register and the value with which a lane executes the instruction.
    pub guard: Option<(u32, bool)>,
    pub op: Op,
}

impl fmt::Debug for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("instruction")
    }
}

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
    /// A comparison that writes a predicate and its negation.
    Compare(Function<3>, [u32; 2], [Src; 3]),
    /// Splits a register into several, of so many bits each; `Pack` is the inverse.
    Unpack(Vec<Option<u32>>, Src, u32),
    Pack(u32, Vec<Src>, u32),
    /// Registers, address, type, and whether it is shared memory.
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
    /// A register for each 8 x 8 matrix, address, and whether to transpose.
    LoadMatrix(Vec<u32>, Address, bool),
    StoreMatrix(Address, Vec<Src>, bool),
    /// D = A B + C on fragments with the layout of the PTX manual.
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

/// The words of a vector, or a single one.
fn each<T>(word: &Word, one: impl Fn(&Word) -> Result<T, String>) -> Result<Vec<T>, String> {
    match word {
        Word::Vector(words) => words.iter().map(one).collect(),
        word => Ok(vec![one(word)?]),
    }
}

fn sinks(word: &Word) -> Result<Vec<Option<u32>>, String> {
    each(word, |word| if matches!(word, Word::Sink) { Ok(None) } else { reg(word).map(Some) })
}

fn sources(word: &Word) -> Result<Vec<Src>, String> {
    each(word, src)
}

fn regs(word: &Word) -> Result<Vec<u32>, String> {
    each(word, reg)
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
                    // With half operands only the types of D and C are named; otherwise those of A and B, too.
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
                4 => Op::Four(
                    four(name, ty).ok_or_else(unknown)?,
                    reg(&words[0])?,
                    [at(1)?, at(2)?, at(3)?, at(4)?],
                ),
                _ => return Err(unknown()),
            }
        }
    })
}
