//! Parses PTX into kernels.

use std::collections::HashMap;

use crate::decode::{Inst, Op, decode};
use crate::value::Ty;

/// What an instruction reads.
#[derive(Clone, Copy, Debug)]
pub enum Src {
    Reg(u32),
    Imm(u64),
    /// The address of a byte of the parameters; below, of the block's shared memory and of a thread's local memory.
    Param(u64),
    Shared(u64),
    Local(u64),
    Special(Special),
}

#[derive(Clone, Copy, Debug)]
pub enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Clock,
}

/// An address: a base and an offset in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    pub base: Src,
    pub offset: i64,
}

/// An operand.
#[derive(Clone, Debug)]
pub enum Word {
    /// `_`
    Sink,
    Src(Src),
    Not(u32),
    Vector(Vec<Word>),
    Address(Address),
    Label(String),
    /// `%p1|%p2`
    Pair(u32, u32),
}

#[derive(Debug, Default)]
pub struct Kernel {
    pub name: String,
    /// Offset and size of each parameter.
    pub params: Vec<(usize, usize)>,
    pub regs: usize,
    pub local: usize,
    /// Bytes of static shared memory; the dynamic one of a launch follows it.
    pub shared: usize,
    pub code: Vec<Inst>,
    /// The point of reconvergence of every instruction.
    pub reconvergence: Vec<u32>,
    pub text: Vec<String>,
}

#[derive(Default)]
struct Scope {
    registers: HashMap<String, u32>,
    symbols: HashMap<String, Src>,
}

pub fn module(text: &str) -> Result<Vec<Kernel>, String> {
    let mut plain = String::new();
    for line in text.lines() {
        plain.push_str(line.split("//").next().unwrap_or(""));
        plain.push('\n');
    }
    let mut kernels = Vec::new();
    let mut globals = Scope::default();
    let mut rest = plain.as_str();
    while !rest.trim_start().is_empty() {
        rest = rest.trim_start();
        if let Some(line) = [".version", ".target", ".address_size", ".file", ".loc"]
            .iter()
            .find(|word| rest.starts_with(**word))
        {
            let _ = line;
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        if rest.starts_with(".visible .entry")
            || rest.starts_with(".entry")
            || rest.starts_with(".weak .entry")
        {
            let open = rest.find('{').ok_or("an entry without a body")?;
            let close = matching(&rest[open..]).ok_or("a body without an end")? + open;
            kernels.push(kernel(&rest[..open], &rest[open + 1..close], &globals)?);
            rest = &rest[close + 1..];
            continue;
        }
        // Functions that were inlined into their callers, and are still listed.
        if rest[..rest.find(['{', ';']).unwrap_or(rest.len())].contains(".func") {
            let open = rest.find(['{', ';']).ok_or("a function without a body")?;
            let end = if rest[open..].starts_with(';') {
                0
            } else {
                matching(&rest[open..]).ok_or("a body without an end")?
            };
            rest = &rest[open + end + 1..];
            continue;
        }
        let (statement, behind) = rest.split_once(';').ok_or_else(|| format!("no end: {rest:.60}"))?;
        variable(statement, &mut globals)?;
        rest = behind;
    }
    Ok(kernels)
}

/// The place of the brace that closes the one at the start of the text.
fn matching(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A variable of a module: shared memory, or a table of constants, whose memory is never freed.
fn variable(statement: &str, scope: &mut Scope) -> Result<(), String> {
    let (left, right) =
        statement.split_once('=').map_or((statement, None), |(left, right)| (left, Some(right)));
    let words: Vec<&str> = left.split_whitespace().collect();
    let declared = *words.last().ok_or("an empty statement")?;
    let (name, length) = declared.split_once('[').map_or((declared, None), |(name, rest)| (name, Some(rest)));
    if words.contains(&".shared") {
        scope.symbols.insert(name.into(), Src::Shared(0));
        return match length {
            Some("]") => Ok(()),
            _ => Err(format!("shared memory of a known size in a module: {statement}")),
        };
    }
    let ty = words.iter().rev().find_map(|word| Ty::parse(word.trim_start_matches('.'))).ok_or(statement)?;
    let many: usize = length.map_or(1, |length| length.trim_end_matches(']').parse().unwrap_or(0));
    let mut bytes = vec![0_u8; many * ty.bytes()];
    if let Some(values) = right {
        let values = values.trim().trim_start_matches('{').trim_end_matches('}');
        for (at, value) in values.split(',').enumerate() {
            let value = immediate(value.trim()).ok_or_else(|| format!("no number: {value}"))?;
            bytes[at * ty.bytes()..][..ty.bytes()].copy_from_slice(&value.to_le_bytes()[..ty.bytes()]);
        }
    }
    let mut words = vec![0_u128; bytes.len().div_ceil(16)];
    for (at, byte) in bytes.iter().enumerate() {
        words[at / 16] |= u128::from(*byte) << (8 * (at % 16));
    }
    let memory: &'static [u128] = words.leak();
    crate::driver::add_allocation(memory.as_ptr() as u64, bytes.len());
    scope.symbols.insert(name.into(), Src::Imm(memory.as_ptr() as u64));
    Ok(())
}

fn immediate(word: &str) -> Option<u64> {
    if let Some(hex) = word.strip_prefix("0f").or(word.strip_prefix("0F")) {
        return u32::from_str_radix(hex, 16).ok().map(u64::from);
    }
    if let Some(hex) = word.strip_prefix("0d").or(word.strip_prefix("0D")) {
        return u64::from_str_radix(hex, 16).ok();
    }
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
    let digits = digits.trim_end_matches('U');
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

fn kernel(head: &str, body: &str, globals: &Scope) -> Result<Kernel, String> {
    let mut kernel = Kernel::default();
    let mut scope = Scope { registers: HashMap::new(), symbols: globals.symbols.clone() };
    let name = head.split(".entry").nth(1).unwrap_or("").trim();
    let (name, params) = name.split_once('(').map_or((name, ""), |(name, params)| (name, params));
    kernel.name = name.trim().into();
    let params = params.split(')').next().unwrap_or("");
    let mut at = 0_usize;
    for param in params.split(',').map(str::trim).filter(|param| !param.is_empty()) {
        let words: Vec<&str> = param.split_whitespace().collect();
        let declared = words.last().ok_or("a parameter")?;
        let (name, many) = match declared.split_once('[') {
            Some((name, rest)) => (name, rest.trim_end_matches(']').parse().map_err(|_| param.to_owned())?),
            None => (*declared, 1),
        };
        let ty =
            words.iter().skip(1).find_map(|word| Ty::parse(word.trim_start_matches('.'))).ok_or(param)?;
        let align = words.iter().position(|word| *word == ".align").and_then(|at| words[at + 1].parse().ok());
        let align = if many > 1 || declared.contains('[') { align.unwrap_or(ty.bytes()) } else { ty.bytes() };
        at = at.next_multiple_of(align.max(1));
        kernel.params.push((at, ty.bytes() * many));
        scope.symbols.insert(name.into(), Src::Param(at as u64));
        at += ty.bytes() * many;
    }

    // Statements in order, without labels.
    let mut labels: HashMap<String, u32> = HashMap::new();
    let mut statements = Vec::new();
    let (mut label, mut tables) = ("", HashMap::new());
    let mut rest = body;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        if let Some(behind) = rest.strip_prefix(['{', '}']) {
            rest = behind;
            continue;
        }
        if rest.starts_with(".loc\t") || rest.starts_with(".loc ") || rest.starts_with(".pragma") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
            continue;
        }
        let end = rest.find([';', ':']).ok_or_else(|| format!("no end: {rest:.60}"))?;
        let (statement, mark) = (&rest[..end], &rest[end..=end]);
        if mark == ":" && !statement.contains(char::is_whitespace) {
            label = statement;
            labels.insert(label.into(), statements.len() as u32);
            rest = &rest[end + 1..];
            continue;
        }
        let end = rest.find(';').ok_or_else(|| format!("no end: {rest:.60}"))?;
        let statement = rest[..end].trim();
        rest = &rest[end + 1..];
        if let Some(declared) = statement.strip_prefix(".reg") {
            registers(declared, &mut scope, &mut kernel.regs)?;
        } else if let Some(declared) = statement.strip_prefix(".local") {
            kernel.local = array(declared, &mut scope, kernel.local, Src::Local)?;
        } else if let Some(declared) = statement.strip_prefix(".shared") {
            kernel.shared = array(declared, &mut scope, kernel.shared, Src::Shared)?;
        } else if let Some(targets) = statement.strip_prefix(".branchtargets") {
            tables.insert(label, split(targets));
        } else if let Some(words) = statement.strip_prefix("brx.idx") {
            // An indirect branch becomes a comparison and a branch for every target.
            let (index, table) = words.trim().split_once(", ").ok_or(statement)?;
            registers(".pred %brx", &mut scope, &mut kernel.regs)?;
            for (at, target) in tables.get(table).ok_or(statement)?.iter().enumerate() {
                statements.push(format!("setp.eq.u32 %brx, {index}, {at}"));
                statements.push(format!("@%brx bra {target}"));
            }
        } else {
            statements.push(statement.to_owned());
        }
        if statement.starts_with('.')
            && !["reg", "local", "shared", "branchtargets"]
                .iter()
                .any(|word| statement[1..].starts_with(word))
        {
            return Err(format!("not understood: {statement}"));
        }
        // A nested block may redeclare a register with another type: it shares the slot.
    }
    for statement in &statements {
        let inst = instruction(statement, &scope, &labels)?;
        kernel.code.push(inst);
    }
    kernel.text = statements;
    kernel.code.push(Inst { guard: None, op: Op::Exit });
    kernel.text.push("end".into());
    kernel.reconvergence = reconvergence(&kernel.code);
    Ok(kernel)
}

/// The immediate post-dominator of every instruction: the first one on every path from it to the end.
fn reconvergence(code: &[Inst]) -> Vec<u32> {
    let end = code.len() as u32; // one past the last instruction
    let follow = |at: u32| -> Vec<u32> {
        let inst = &code[at as usize];
        match (&inst.op, inst.guard) {
            (Op::Exit, None) => vec![end],
            (Op::Exit, Some(_)) => vec![at + 1, end],
            (Op::Branch(target), None) => vec![*target],
            (Op::Branch(target), Some(_)) => vec![at + 1, *target],
            _ => vec![at + 1],
        }
    };
    // Cooper, Harvey and Kennedy on the reversed graph: instructions numbered so that successors come first.
    let mut before = vec![Vec::new(); code.len() + 1];
    (0..end).for_each(|at| follow(at).into_iter().for_each(|next| before[next as usize].push(at)));
    let (mut order, mut seen) = (Vec::new(), vec![false; code.len() + 1]);
    let mut stack = vec![(end, 0)];
    seen[end as usize] = true;
    while let Some((at, child)) = stack.pop() {
        match before[at as usize].get(child) {
            Some(next) => {
                stack.push((at, child + 1));
                if !std::mem::replace(&mut seen[*next as usize], true) {
                    stack.push((*next, 0));
                }
            }
            None => order.push(at),
        }
    }
    let mut number = vec![0; code.len() + 1];
    order.iter().enumerate().for_each(|(index, at)| number[*at as usize] = index);
    let mut joins = vec![None; code.len() + 1];
    joins[end as usize] = Some(end);
    let mut changed = true;
    while changed {
        changed = false;
        for at in order.iter().rev().skip(1) {
            let known = follow(*at).into_iter().filter(|next| joins[*next as usize].is_some());
            let found = known.reduce(|mut one, mut other| {
                while one != other {
                    if number[one as usize] < number[other as usize] {
                        one = joins[one as usize].expect("known");
                    } else {
                        other = joins[other as usize].expect("known");
                    }
                }
                one
            });
            if found.is_some() && joins[*at as usize] != found {
                joins[*at as usize] = found;
                changed = true;
            }
        }
    }
    let place = |join: &Option<u32>| join.filter(|join| *join != end).unwrap_or(crate::machine::NOWHERE);
    joins[..code.len()].iter().map(place).collect()
}

/// `.b32 %r<15>`, `.b16 tmp, other`
fn registers(declared: &str, scope: &mut Scope, count: &mut usize) -> Result<(), String> {
    let names = declared.trim().split_once(char::is_whitespace).ok_or(declared)?.1;
    for name in names.split(',').map(str::trim) {
        let mut add = |name: String| {
            if let std::collections::hash_map::Entry::Vacant(free) = scope.registers.entry(name) {
                free.insert(*count as u32);
                *count += 1;
            }
        };
        match name.split_once('<') {
            Some((stem, many)) => {
                let many: usize = many.trim_end_matches('>').parse().map_err(|_| declared.to_owned())?;
                (0..many).for_each(|index| add(format!("{stem}{index}")));
            }
            None => add(name.into()),
        }
    }
    Ok(())
}

/// `.align 4 .b8 __local_depot0[16]`: the total size in bytes with this array.
fn array(declared: &str, scope: &mut Scope, before: usize, at: fn(u64) -> Src) -> Result<usize, String> {
    let words: Vec<&str> = declared.split_whitespace().collect();
    let align = words
        .iter()
        .position(|word| *word == ".align")
        .and_then(|at| words[at + 1].parse().ok())
        .unwrap_or(8);
    let ty = words.iter().find_map(|word| Ty::parse(word.trim_start_matches('.'))).ok_or(declared)?;
    let (name, many) = words.last().and_then(|word| word.split_once('[')).ok_or(declared)?;
    let many: usize = many.trim_end_matches(']').parse().map_err(|_| declared.to_owned())?;
    let start = before.next_multiple_of(align);
    scope.symbols.insert(name.into(), at(start as u64));
    Ok(start + many * ty.bytes())
}

fn instruction(statement: &str, scope: &Scope, labels: &HashMap<String, u32>) -> Result<Inst, String> {
    let wrong = |why: &str| format!("{why}: {statement}");
    let mut text = statement;
    let mut guard = None;
    if let Some(behind) = text.strip_prefix('@') {
        let (name, behind) = behind.split_once(char::is_whitespace).ok_or_else(|| wrong("a guard"))?;
        let (name, when) = name.strip_prefix('!').map_or((name, true), |name| (name, false));
        let reg = scope.registers.get(name).ok_or_else(|| wrong("no such register"))?;
        guard = Some((*reg, when));
        text = behind.trim_start();
    }
    let (name, words) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let words = split(words)
        .iter()
        .map(|word| operand(word, scope))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|why| wrong(&why))?;
    let parts: Vec<&str> = name.split('.').collect();
    let op = decode(&parts, &words, labels).map_err(|why| wrong(&why))?;
    Ok(Inst { guard, op })
}

/// Splits at commas that are not within brackets.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut depth, mut word) = (Vec::new(), 0, String::new());
    for letter in text.chars() {
        match letter {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                words.push(std::mem::take(&mut word).trim().to_owned());
                continue;
            }
            _ => {}
        }
        word.push(letter);
    }
    if !word.trim().is_empty() {
        words.push(word.trim().to_owned());
    }
    words
}

fn operand(word: &str, scope: &Scope) -> Result<Word, String> {
    if word == "_" {
        return Ok(Word::Sink);
    }
    if let Some(inside) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}')) {
        let inside = split(inside).iter().map(|word| operand(word, scope)).collect::<Result<_, _>>()?;
        return Ok(Word::Vector(inside));
    }
    if let Some(inside) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
        let (base, offset) = inside.split_once('+').map_or((inside, "0"), |(base, offset)| (base, offset));
        let offset = immediate(offset.trim()).ok_or("an offset")? as i64;
        return Ok(Word::Address(Address { base: source(base.trim(), scope)?, offset }));
    }
    if let Some((one, other)) = word.split_once('|') {
        let find = |name: &str| scope.registers.get(name.trim()).copied();
        return match (find(one), find(other)) {
            (Some(one), Some(other)) => Ok(Word::Pair(one, other)),
            (Some(one), None) if other.trim() == "_" => Ok(Word::Src(Src::Reg(one))),
            _ => Err("a pair".into()),
        };
    }
    if let Some(name) = word.strip_prefix('!') {
        return scope.registers.get(name).map(|reg| Word::Not(*reg)).ok_or_else(|| "no such register".into());
    }
    match source(word, scope) {
        Ok(source) => Ok(Word::Src(source)),
        Err(_) => Ok(Word::Label(word.into())),
    }
}

fn source(word: &str, scope: &Scope) -> Result<Src, String> {
    if let Some(reg) = scope.registers.get(word) {
        return Ok(Src::Reg(*reg));
    }
    if let Some(symbol) = scope.symbols.get(word) {
        return Ok(*symbol);
    }
    if let Some(name) = word.strip_prefix('%') {
        let (name, axis) = name.split_once('.').unwrap_or((name, "x"));
        let axis = match axis {
            "x" => 0,
            "y" => 1,
            "z" => 2,
            _ => return Err(format!("no register {word}")),
        };
        return Ok(Src::Special(match name {
            "tid" => Special::Tid(axis),
            "ntid" => Special::Ntid(axis),
            "ctaid" => Special::Ctaid(axis),
            "nctaid" => Special::Nctaid(axis),
            "laneid" => Special::Lane,
            "warpid" => Special::Warp,
            "clock" | "clock64" | "globaltimer" => Special::Clock,
            _ => return Err(format!("no register {word}")),
        }));
    }
    immediate(word).map(Src::Imm).ok_or_else(|| format!("neither register nor number: {word}"))
}
