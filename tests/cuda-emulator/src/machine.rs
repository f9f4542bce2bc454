//! Runs blocks of threads, a warp at a time, all of its lanes together: where they diverge at a branch, one side waits at the
//! point of reconvergence, as on a GPU.

use std::sync::LazyLock;
use std::time::Instant;

use crate::arithmetic::unpacked;
use crate::decode::{Op, Shuffle, Tile, Vote};
use crate::driver;
use crate::parse::{Address, Kernel, Special, Src, Word};
use crate::races::{Moment, Races};
use crate::value::{Ty, float, float_bits, masked, tf32};

pub type Lanes = [u64; 32];

/// What `%clock` counts from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The parameters of a launch, common to all blocks.
pub struct Launch<'a> {
    pub kernel: &'a Kernel,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: usize,
    pub params: &'a [u8],
}

struct Warp {
    regs: Vec<Lanes>,
    /// A stack of lanes that run together: the last one runs, those below wait. Lanes that reach `reconverge` join those waiting there.
    paths: Vec<Path>,
    index: u32,
    local: Vec<u64>,
    /// Number of instructions executed.
    ran: u64,
    /// Number of warp barriers passed.
    barriers: u32,
}

#[derive(Clone, Copy)]
struct Path {
    lanes: u32,
    pc: u32,
    reconverge: u32,
}

/// No point of reconvergence: after the branch, all threads end on their own path.
pub const NOWHERE: u32 = u32::MAX;

pub struct Block<'a> {
    launch: &'a Launch<'a>,
    at: [u32; 3],
    shared: Vec<u128>,
    /// Number of block barriers passed.
    barriers: u32,
    races: Races,
}

fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

impl<'a> Block<'a> {
    /// Runs a block to its end; the largest number of instructions of its warps, and its accesses to global memory.
    pub fn run(launch: &'a Launch<'a>, at: [u32; 3]) -> Result<(u64, Races), String> {
        let shared = vec![u128::MAX; (launch.kernel.shared + launch.shared).div_ceil(16) + 1];
        let mut block = Self { launch, at, shared, barriers: 0, races: Races::default() };
        let threads: u32 = launch.block.iter().product();
        let mut warps: Vec<Warp> = (0..threads.div_ceil(32))
            .map(|index| {
                let count = (threads - 32 * index).min(32);
                let lanes = if count == 32 { u32::MAX } else { (1 << count) - 1 };
                Warp {
                    regs: vec![[0xdead_beef_dead_beef; 32]; launch.kernel.regs],
                    paths: vec![Path { lanes, pc: 0, reconverge: NOWHERE }],
                    index,
                    local: vec![u64::MAX; launch.kernel.local.div_ceil(8) * 32],
                    ran: 0,
                    barriers: 0,
                }
            })
            .collect();
        loop {
            for warp in &mut warps {
                block.warp(warp)?;
            }
            block.barriers += 1;
            if warps.iter().all(|warp| warp.paths.is_empty()) {
                return Ok((warps.iter().map(|warp| warp.ran).max().unwrap_or(0), block.global_accesses()));
            }
        }
    }

    fn shared_base(&self) -> u64 {
        self.shared.as_ptr() as u64
    }

    fn get(&self, warp: &Warp, src: Src) -> Lanes {
        match src {
            Src::Reg(reg) => warp.regs[reg as usize],
            Src::Imm(value) => [value; 32],
            Src::Param(offset) => [self.launch.params.as_ptr() as u64 + offset; 32],
            // Dynamic shared memory follows the static one.
            Src::Shared(offset) => [self.shared_base() + offset; 32],
            Src::Local(offset) => {
                let (base, words) = (warp.local.as_ptr() as u64, warp.local.len() as u64 / 32);
                std::array::from_fn(|lane| base + lane as u64 * words * 8 + offset)
            }
            Src::Special(special) => std::array::from_fn(|lane| {
                let thread = warp.index * 32 + lane as u32;
                let [x, y, _] = self.launch.block;
                u64::from(match special {
                    Special::Tid(0) => thread % x,
                    Special::Tid(1) => thread / x % y,
                    Special::Tid(_) => thread / (x * y),
                    Special::Ntid(axis) => self.launch.block[axis as usize],
                    Special::Ctaid(axis) => self.at[axis as usize],
                    Special::Nctaid(axis) => self.launch.grid[axis as usize],
                    Special::Lane => lane as u32,
                    Special::Warp => warp.index,
                    Special::Clock => START.elapsed().as_nanos() as u32,
                })
            }),
        }
    }

    fn addresses(&self, warp: &Warp, address: Address) -> Lanes {
        self.get(warp, address.base).map(|base| base.wrapping_add(address.offset as u64))
    }

    /// Checks that these bytes are allocated and aligned.
    fn check(&self, warp: &Warp, at: u64, bytes: usize, shared: bool) -> Result<(), String> {
        if !at.is_multiple_of(bytes as u64) {
            return Err(format!("misaligned: {bytes} bytes at {at:#x}"));
        }
        let within = |base: u64, length: usize| at >= base && at + bytes as u64 <= base + length as u64;
        if within(self.shared_base(), 16 * (self.shared.len() - 1)) {
            return Ok(());
        }
        if shared {
            let base = self.shared_base();
            return Err(format!(
                "outside shared memory: byte {} of {}",
                at.wrapping_sub(base) as i64,
                16 * (self.shared.len() - 1)
            ));
        }
        let own = within(warp.local.as_ptr() as u64, 8 * warp.local.len())
            || within(self.launch.params.as_ptr() as u64, self.launch.params.len())
            || driver::is_allocated(at, bytes);
        if own { Ok(()) } else { Err(format!("nobody's memory: {bytes} bytes at {at:#x}")) }
    }

    fn read(at: u64, bytes: usize) -> u64 {
        // SAFETY: `check` found the bytes in memory that lives as long as the launch.
        unsafe {
            match bytes {
                1 => u64::from(*(at as *const u8)),
                2 => u64::from(*(at as *const u16)),
                4 => u64::from(*(at as *const u32)),
                _ => *(at as *const u64),
            }
        }
    }

    fn put(at: u64, bytes: usize, value: u64) {
        // SAFETY: as for `read`.
        unsafe {
            match bytes {
                1 => *(at as *mut u8) = value as u8,
                2 => *(at as *mut u16) = value as u16,
                4 => *(at as *mut u32) = value as u32,
                _ => *(at as *mut u64) = value,
            }
        }
    }

    /// Writes bytes that passed `check`.
    fn write(&mut self, warp: &Warp, lane: usize, at: u64, bytes: usize, value: u64) -> Result<(), String> {
        let before = Self::read(at, bytes);
        Self::put(at, bytes, value);
        if Self::read(at, bytes) == before { Ok(()) } else { self.touch(warp, lane, at, bytes, true) }
    }

    /// Checks an access for a race. Single bytes are not checked, as their neighbours may belong to other threads.
    fn touch(&mut self, warp: &Warp, lane: usize, at: u64, bytes: usize, writes: bool) -> Result<(), String> {
        let own = |base: u64, length: usize| at >= base && at < base + length as u64;
        let apart = own(warp.local.as_ptr() as u64, 8 * warp.local.len())
            || own(self.launch.params.as_ptr() as u64, self.launch.params.len());
        let thread = (warp.index * 32) as u16 + lane as u16;
        let now = Moment { thread, barriers: self.barriers, warp_barriers: warp.barriers };
        if bytes == 1 || apart || self.races.touch(at, bytes, now, writes) {
            return Ok(());
        }
        let does = if writes { "writes" } else { "reads" };
        Err(format!("a race: thread {thread} {does} {bytes} bytes at {at:#x}, where another thread is"))
    }

    /// Its accesses to global memory.
    fn global_accesses(mut self) -> Races {
        self.races.forget(self.shared_base(), 16 * self.shared.len());
        self.races
    }

    /// Runs a warp until all its lanes are at a block barrier or have ended.
    fn warp(&mut self, warp: &mut Warp) -> Result<(), String> {
        while let Some(path) = warp.paths.pop() {
            if path.lanes == 0 || path.pc == path.reconverge {
                continue;
            }
            let at_barrier = self.path(warp, path).map_err(|(pc, why)| {
                let (text, name) = (&self.launch.kernel.text[pc as usize], &self.launch.kernel.name);
                format!("{why}: `{text}` of {name}, block {:?}, warp {}", self.at, warp.index)
            })?;
            if at_barrier {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Runs lanes with a common program counter until they diverge, end, reconverge or reach a block barrier; whether it was the last.
    fn path(&mut self, warp: &mut Warp, path: Path) -> Result<bool, (u32, String)> {
        let kernel = self.launch.kernel;
        let Path { lanes: group, mut pc, reconverge } = path;
        loop {
            let inst = &kernel.code[pc as usize];
            warp.ran += 1;
            let mut exec = group;
            if let Some((reg, when)) = inst.guard {
                let held = &warp.regs[reg as usize];
                exec = lanes(group)
                    .filter(|lane| (held[*lane] != 0) == when)
                    .fold(0, |mask, lane| mask | 1 << lane);
            }
            let put = |warp: &mut Warp, reg: u32, values: &Lanes| {
                let held = &mut warp.regs[reg as usize];
                if exec == u32::MAX {
                    *held = *values;
                } else {
                    lanes(exec).for_each(|lane| held[lane] = values[lane]);
                }
            };
            let fail = |why: String| (pc, why);
            match &inst.op {
                _ if exec == 0 => {}
                Op::One(f, into, x) => {
                    let x = self.get(warp, *x);
                    put(warp, *into, &std::array::from_fn(|lane| f([x[lane]])));
                }
                Op::Two(f, into, x, y) => {
                    let (x, y) = (self.get(warp, *x), self.get(warp, *y));
                    put(warp, *into, &std::array::from_fn(|lane| f([x[lane], y[lane]])));
                }
                Op::Three(f, into, x, y, z) => {
                    let (x, y, z) = (self.get(warp, *x), self.get(warp, *y), self.get(warp, *z));
                    put(warp, *into, &std::array::from_fn(|lane| f([x[lane], y[lane], z[lane]])));
                }
                Op::Four(f, into, from) => {
                    let from = from.map(|from| self.get(warp, from));
                    put(
                        warp,
                        *into,
                        &std::array::from_fn(|lane| f(std::array::from_fn(|at| from[at][lane]))),
                    );
                }
                Op::Compare(f, [p, q], from) => {
                    let from = from.map(|from| self.get(warp, from));
                    let fits: Lanes = std::array::from_fn(|lane| f(std::array::from_fn(|at| from[at][lane])));
                    put(warp, *p, &fits);
                    put(warp, *q, &fits.map(|fits| u64::from(fits == 0)));
                }
                Op::Unpack(into, from, bits) => {
                    let from = self.get(warp, *from);
                    for (at, into) in into.iter().enumerate() {
                        if let Some(into) = into {
                            put(
                                warp,
                                *into,
                                &from.map(|from| from >> (at as u32 * bits) & (u64::MAX >> (64 - bits))),
                            );
                        }
                    }
                }
                Op::Pack(into, from, bits) => {
                    let mut made = [0; 32];
                    for (at, from) in from.iter().enumerate() {
                        let from = self.get(warp, *from);
                        (0..32).for_each(|lane| {
                            made[lane] |= (from[lane] & (u64::MAX >> (64 - bits))) << (at as u32 * bits)
                        });
                    }
                    put(warp, *into, &made);
                }
                Op::Load(into, address, ty, shared) => {
                    let at = self.addresses(warp, *address);
                    let mut values = vec![[0; 32]; into.len()];
                    for lane in lanes(exec) {
                        let whole = ty.bytes() * into.len();
                        self.check(warp, at[lane], whole, *shared).map_err(fail)?;
                        self.touch(warp, lane, at[lane], whole, false).map_err(fail)?;
                        for (index, values) in values.iter_mut().enumerate() {
                            let bits = Self::read(at[lane] + (index * ty.bytes()) as u64, ty.bytes());
                            values[lane] =
                                if ty.signed() { crate::value::integer(*ty, bits) as u64 } else { bits };
                        }
                    }
                    for (into, values) in into.iter().zip(&values) {
                        if let Some(into) = into {
                            put(warp, *into, values);
                        }
                    }
                }
                Op::Store(address, from, ty, shared) => {
                    let at = self.addresses(warp, *address);
                    let from: Vec<Lanes> = from.iter().map(|from| self.get(warp, *from)).collect();
                    for lane in lanes(exec) {
                        self.check(warp, at[lane], ty.bytes() * from.len(), *shared).map_err(fail)?;
                        for (index, from) in from.iter().enumerate() {
                            let at = at[lane] + (index * ty.bytes()) as u64;
                            self.write(warp, lane, at, ty.bytes(), from[lane]).map_err(fail)?;
                        }
                    }
                }
                Op::Atomic(into, address, f, from, ty) => {
                    let at = self.addresses(warp, *address);
                    let from = from.map(|from| self.get(warp, from));
                    let mut before = [0; 32];
                    for lane in lanes(exec) {
                        self.check(warp, at[lane], ty.bytes(), false).map_err(fail)?;
                        let _one = driver::ATOMICS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        before[lane] = Self::read(at[lane], ty.bytes());
                        Self::put(at[lane], ty.bytes(), f([before[lane], from[0][lane], from[1][lane]]));
                    }
                    if let Some(into) = into {
                        put(warp, *into, &before);
                    }
                }
                Op::Branch(target) => {
                    if exec != group {
                        // Both sides reconverge at the post-dominator.
                        let join = kernel.reconvergence[pc as usize];
                        warp.paths.push(Path { lanes: group, pc: join, reconverge });
                        warp.paths.push(Path { lanes: group & !exec, pc: pc + 1, reconverge: join });
                        warp.paths.push(Path { lanes: exec, pc: *target, reconverge: join });
                        return Ok(false);
                    }
                    pc = *target;
                    if pc == reconverge {
                        return Ok(false);
                    }
                    continue;
                }
                Op::Exit => {
                    warp.paths.iter_mut().for_each(|path| path.lanes &= !exec);
                    warp.paths.push(Path { lanes: group & !exec, pc: pc + 1, reconverge });
                    return Ok(false);
                }
                Op::Barrier => {
                    if warp.paths.iter().any(|path| path.lanes & !exec != 0) {
                        return Err(fail("a barrier that not all lanes come to".into()));
                    }
                    warp.paths.push(Path { lanes: group, pc: pc + 1, reconverge });
                    return Ok(true);
                }
                Op::WarpBarrier => warp.barriers += 1,
                Op::Nothing => {}
                Op::Trap => return Err(fail("a trap".into())),
                Op::ActiveMask(into) => put(warp, *into, &[u64::from(exec); 32]),
                Op::Shuffle(kind, into, valid, from) => {
                    let [value, by, clamp, _] = from.map(|from| self.get(warp, from));
                    let (mut made, mut fits) = ([0; 32], [0; 32]);
                    for lane in lanes(exec) {
                        let (by, limit) = (by[lane] as u32 & 31, clamp[lane] as u32);
                        let (segment, bound, own) = (limit >> 8 & 31, limit & 31, lane as u32);
                        let (least, most) = (own & segment, own & segment | bound & !segment);
                        let (source, inside) = match kind {
                            Shuffle::Up => (own.wrapping_sub(by), own as i32 - by as i32 >= most as i32),
                            Shuffle::Down => (own + by, own + by <= most),
                            Shuffle::Bfly => (own ^ by, own ^ by <= most),
                            Shuffle::Idx => (least | by & !segment, (least | by & !segment) <= most),
                        };
                        let source = if inside { source } else { own };
                        if exec >> source & 1 == 0 {
                            return Err(fail(format!("lane {lane} reads lane {source}, which is not there")));
                        }
                        made[lane] = value[source as usize] & 0xffff_ffff;
                        fits[lane] = u64::from(inside);
                    }
                    put(warp, *into, &made);
                    if let Some(valid) = valid {
                        put(warp, *valid, &fits);
                    }
                }
                Op::Vote(kind, into, word) => {
                    let held = match word {
                        Word::Not(reg) => warp.regs[*reg as usize].map(|x| u64::from(x == 0)),
                        Word::Src(from) => self.get(warp, *from),
                        _ => return Err(fail("no predicate".into())),
                    };
                    let ballot = lanes(exec)
                        .filter(|lane| held[*lane] != 0)
                        .fold(0_u32, |mask, lane| mask | 1 << lane);
                    let result = match kind {
                        Vote::All => u64::from(ballot == exec),
                        Vote::Any => u64::from(ballot != 0),
                        Vote::Uni => u64::from(ballot == 0 || ballot == exec),
                        Vote::Ballot => u64::from(ballot),
                    };
                    put(warp, *into, &[result; 32]);
                }
                Op::Reduce(f, into, from) => {
                    let from = self.get(warp, *from);
                    let all = lanes(exec).map(|lane| from[lane]).reduce(|x, y| f([x, y])).expect("a lane");
                    put(warp, *into, &[all; 32]);
                }
                Op::LoadMatrix(into, address, transposed) => {
                    let at = self.addresses(warp, *address);
                    for (matrix, into) in into.iter().enumerate() {
                        let mut made = [0; 32];
                        for (lane, made) in made.iter_mut().enumerate() {
                            for half in 0..2 {
                                let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                                let (row, column) = if *transposed { (column, row) } else { (row, column) };
                                let at = at[8 * matrix + row];
                                self.check(warp, at, 16, true).map_err(fail)?;
                                self.touch(warp, lane, at + 2 * column as u64, 2, false).map_err(fail)?;
                                *made |= Self::read(at + 2 * column as u64, 2) << (16 * half);
                            }
                        }
                        put(warp, *into, &made);
                    }
                }
                Op::StoreMatrix(address, from, transposed) => {
                    let at = self.addresses(warp, *address);
                    for (matrix, from) in from.iter().enumerate() {
                        let from = self.get(warp, *from);
                        for (lane, from) in from.iter().enumerate() {
                            for half in 0..2 {
                                let (row, column) = (lane / 4, 2 * (lane % 4) + half);
                                let (row, column) = if *transposed { (column, row) } else { (row, column) };
                                let at = at[8 * matrix + row];
                                self.check(warp, at, 16, true).map_err(fail)?;
                                let (at, half) = (at + 2 * column as u64, from >> (16 * half) & 0xffff);
                                self.write(warp, lane, at, 2, half).map_err(fail)?;
                            }
                        }
                    }
                }
                Op::Mma { d, a, b, c, k, ty, sum: [to, from] } => {
                    let words =
                        |own: &[Src]| -> Vec<Lanes> { own.iter().map(|own| self.get(warp, *own)).collect() };
                    let (a, b, c) = (words(a), words(b), words(c));
                    let halves = matches!(ty, Ty::F16 | Ty::BF16);
                    let (mut left, mut right) = (vec![0.0; 16 * k], vec![0.0; k * 8]);
                    for lane in 0..32 {
                        let (group, in_group) = (lane / 4, lane % 4);
                        let each = if halves { 2 } else { 1 };
                        for (at, word) in a.iter().enumerate() {
                            for (i, value) in unpacked(*ty, word[lane]).into_iter().take(each).enumerate() {
                                left[(group + 8 * (at % 2)) * k
                                    + each * in_group
                                    + i
                                    + 4 * each * (at / 2)] = value;
                            }
                        }
                        for (at, word) in b.iter().enumerate() {
                            for (i, value) in unpacked(*ty, word[lane]).into_iter().take(each).enumerate() {
                                right[(each * in_group + i + 4 * each * at) * 8 + group] = value;
                            }
                        }
                    }
                    if (*to, *from) != (Ty::F32, Ty::F32) {
                        return Err(fail("a sum in halves".into()));
                    }
                    for (at, into) in d.iter().enumerate() {
                        let made: Lanes = std::array::from_fn(|lane| {
                            let (row, column) = (lane / 4 + 8 * (at / 2), 2 * (lane % 4) + at % 2);
                            let products: f64 =
                                (0..*k).map(|k_at| left[row * k + k_at] * right[k_at * 8 + column]).sum();
                            float_bits(Ty::F32, products + float(Ty::F32, c[at][lane]))
                        });
                        put(warp, *into, &made);
                    }
                }
                Op::WmmaLoad { d, from, stride, tile, shape: [m, n, k], row, ty } => {
                    let (at, stride) =
                        (self.addresses(warp, *from)[0], self.get(warp, *stride)[0] & 0xffff_ffff);
                    let (rows, columns) = match tile {
                        Tile::A => (*m, *k),
                        Tile::B => (*k, *n),
                        Tile::C => (*m, *n),
                    };
                    let each = 4 / ty.bytes();
                    let unique = rows * columns / 32;
                    for (index, into) in d.iter().enumerate() {
                        let mut made = [0; 32];
                        for (lane, made) in made.iter_mut().enumerate() {
                            for part in 0..each {
                                let element = lane * unique + (index * each + part) % unique;
                                let (r, c) = (element / columns, element % columns);
                                let at = at + place(r, c, stride, *row) * ty.bytes() as u64;
                                self.check(warp, at, ty.bytes(), false).map_err(fail)?;
                                self.touch(warp, lane, at, ty.bytes(), false).map_err(fail)?;
                                *made |= Self::read(at, ty.bytes()) << (8 * ty.bytes() * part);
                            }
                        }
                        put(warp, *into, &made);
                    }
                }
                Op::WmmaStore { s, to, stride, shape: [m, n, _], row, ty } => {
                    let (at, stride) =
                        (self.addresses(warp, *to)[0], self.get(warp, *stride)[0] & 0xffff_ffff);
                    let each = 4 / ty.bytes();
                    let unique = m * n / 32;
                    for (index, from) in s.iter().enumerate() {
                        let from = self.get(warp, *from);
                        for (lane, from) in from.iter().enumerate() {
                            for part in 0..each {
                                let element = lane * unique + index * each + part;
                                let (r, c) = (element / n, element % n);
                                let at = at + place(r, c, stride, *row) * ty.bytes() as u64;
                                self.check(warp, at, ty.bytes(), false).map_err(fail)?;
                                let value = masked(*ty, from >> (8 * ty.bytes() * part));
                                self.write(warp, lane, at, ty.bytes(), value).map_err(fail)?;
                            }
                        }
                    }
                }
                Op::WmmaMma { d, a, b, c, shape: [m, n, k], ty, sum: [to, from] } => {
                    let gather = |own: &[Src], ty: Ty, many: usize| -> Vec<f64> {
                        let words: Vec<Lanes> = own.iter().map(|own| self.get(warp, *own)).collect();
                        let each = 4 / ty.bytes();
                        let unique = many / 32;
                        (0..many)
                            .map(|element| {
                                let (lane, at) = (element / unique, element % unique);
                                let value = unpacked(ty, words[at / each][lane])[at % each];
                                if ty == Ty::TF32 { f64::from(tf32(value as f32)) } else { value }
                            })
                            .collect()
                    };
                    let (left, right, sums) =
                        (gather(a, *ty, m * k), gather(b, *ty, k * n), gather(c, *from, m * n));
                    let each = 4 / to.bytes();
                    let unique = m * n / 32;
                    for (index, into) in d.iter().enumerate() {
                        let made: Lanes = std::array::from_fn(|lane| {
                            (0..each).fold(0, |made, part| {
                                let element = lane * unique + index * each + part;
                                let (r, c) = (element / n, element % n);
                                let products: f64 =
                                    (0..*k).map(|k_at| left[r * k + k_at] * right[k_at * n + c]).sum();
                                made | float_bits(*to, products + sums[element]) << (8 * to.bytes() * part)
                            })
                        });
                        put(warp, *into, &made);
                    }
                }
            }
            pc += 1;
            if pc == reconverge {
                return Ok(false);
            }
        }
    }
}

/// The offset of row `r` and column `c` of a tile whose rows, or else columns, are `stride` elements apart.
fn place(r: usize, c: usize, stride: u64, by_row: bool) -> u64 {
    let (line, inside) = if by_row { (r, c) } else { (c, r) };
    line as u64 * stride + inside as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each thread writes its number to shared memory, executes `between`, and reads the number of its neighbour.
    fn neighbours(between: &str) -> Result<u64, String> {
        let text = format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n
            .visible .entry neighbours()\n{{\n.shared .align 4 .b8 room[256];\n.reg .b32 %r<4>;\n.reg .b64 %rd<6>;
            mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\nmov.u64 %rd2, room;\nadd.s64 %rd3, %rd2, %rd1;
            st.shared.u32 [%rd3], %r1;\n{between}\nxor.b64 %rd4, %rd1, 4;\nadd.s64 %rd5, %rd2, %rd4;
            ld.shared.u32 %r2, [%rd5];\nret;\n}}\n"
        );
        let kernels = crate::parse::module(&text).expect("PTX");
        let launch =
            Launch { kernel: &kernels[0], grid: [1; 3], block: [64, 1, 1], shared: 0, params: &[0; 16] };
        Block::run(&launch, [0; 3]).map(|(ran, _)| ran)
    }

    #[test]
    fn what_a_neighbour_left_is_read_behind_a_barrier() {
        assert!(neighbours("bar.sync 0;").is_ok());
        assert!(neighbours("bar.warp.sync -1;").is_ok(), "neighbours are of one warp");
        let race = neighbours("").expect_err("a race");
        assert!(race.starts_with("a race: thread 0 reads 4 bytes"), "{race}");
    }
}
