//! The stack machine that runs a pickle, one opcode after another.

use std::collections::HashMap;

use super::{Global, Id, Pickle, PickleError, Storage, Tensor, Value, global, opcode, spell};

/// Most opcodes and copied items of one pickle; a tensor takes about 45, a large backbone has 1000 tensors.
const MAX_STEPS: u32 = 1 << 21;
/// Most axes of a tensor, as in PyTorch.
const MAX_AXES: usize = 64;

impl<'a> Pickle<'a> {
    /// Runs the pickle at the start of `bytes` up to its STOP opcode.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PickleError> {
        Unpickler { bytes, budget: MAX_STEPS, ..Unpickler::default() }.run()
    }
}

#[derive(Default)]
struct Unpickler<'a> {
    bytes: &'a [u8],
    at: usize,
    budget: u32,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

type PickleResult<T = ()> = Result<T, PickleError>;

fn malformed<T>(what: impl Into<String>) -> PickleResult<T> {
    Err(PickleError::Malformed(what.into()))
}

impl<'a> Unpickler<'a> {
    fn run(mut self) -> PickleResult<Pickle<'a>> {
        loop {
            self.spend(1)?;
            let start = self.at;
            let [op] = self.array()?;
            match op {
                opcode::STOP => {
                    let root = self.pop()?;
                    return Ok(Pickle { values: self.values, root, len: self.at });
                }
                opcode::PROTO => {
                    let [protocol] = self.array()?;
                    if !(2..=5).contains(&protocol) {
                        return malformed(format!("pickle protocol {protocol}, expected 2 to 5"));
                    }
                }
                opcode::FRAME => drop(self.array::<8>()?), // only a hint for readers of streams
                opcode::MARK => self.marks.push(self.stack.len()),
                opcode::POP => drop(self.pop()?),
                opcode::POP_MARK => drop(self.pop_mark()?),
                opcode::DUP => {
                    let top = self.top()?;
                    self.stack.push(top);
                }
                opcode::NONE => self.push(Value::None),
                opcode::NEWTRUE => self.push(Value::Bool(true)),
                opcode::NEWFALSE => self.push(Value::Bool(false)),
                opcode::BININT1 => self.int(|[n]| n.into())?,
                opcode::BININT2 => self.int(|n| u16::from_le_bytes(n).into())?,
                opcode::BININT => self.int(|n| i32::from_le_bytes(n).into())?,
                opcode::LONG1 | opcode::LONG4 => {
                    let n = if op == opcode::LONG1 { self.size::<1>()? } else { self.size::<4>()? };
                    let bytes = self.take(n)?;
                    self.push(long(bytes));
                }
                opcode::BINFLOAT => {
                    self.array::<8>()?;
                    self.push(Value::Float);
                }
                opcode::BINUNICODE | opcode::BINSTRING | opcode::BINBYTES => self.text::<4>()?,
                opcode::SHORT_BINUNICODE | opcode::SHORT_BINSTRING | opcode::SHORT_BINBYTES => {
                    self.text::<1>()?;
                }
                opcode::BINUNICODE8 | opcode::BINBYTES8 => self.text::<8>()?,
                opcode::EMPTY_DICT => self.push(Value::Dict(vec![])),
                opcode::EMPTY_LIST => self.push(Value::List(vec![])),
                opcode::EMPTY_TUPLE => self.push(Value::Tuple(vec![])),
                opcode::TUPLE => {
                    let items = self.pop_mark()?;
                    self.push(Value::Tuple(items));
                }
                opcode::TUPLE1..=opcode::TUPLE3 => {
                    let n = usize::from(op - opcode::TUPLE1 + 1);
                    let from = self.stack.len().checked_sub(n).filter(|&from| from >= self.floor());
                    let Some(from) = from else { return malformed("a tuple of missing values") };
                    let items = self.stack.split_off(from);
                    self.push(Value::Tuple(items));
                }
                opcode::APPEND => {
                    let item = self.pop()?;
                    self.append(vec![item])?;
                }
                opcode::APPENDS => {
                    let items = self.pop_mark()?;
                    self.append(items)?;
                }
                opcode::SETITEM => {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.set(&[key, value])?;
                }
                opcode::SETITEMS => {
                    let items = self.pop_mark()?;
                    self.set(&items)?;
                }
                opcode::BINPUT => self.remember::<1>()?,
                opcode::LONG_BINPUT => self.remember::<4>()?,
                opcode::MEMOIZE => drop(self.memo.insert(self.memo.len() as u32, self.top()?)),
                opcode::BINGET => self.recall::<1>()?,
                opcode::LONG_BINGET => self.recall::<4>()?,
                opcode::GLOBAL | opcode::INST => {
                    let (module, name) = (self.line()?, self.line()?);
                    if op == opcode::INST {
                        return Err(PickleError::Refused(spell(module, name)));
                    }
                    self.push(Value::Global(global(module, name)?));
                }
                opcode::STACK_GLOBAL => {
                    let (name, module) = (self.pop()?, self.pop()?);
                    let (Value::Text(module), Value::Text(name)) = (self.value(module), self.value(name))
                    else {
                        return malformed("a global whose name is not a string");
                    };
                    let global = global(module, name)?;
                    self.push(Value::Global(global));
                }
                opcode::BINPERSID => {
                    let id = self.pop()?;
                    let storage = self.storage(id)?;
                    self.push(Value::Storage(storage));
                }
                opcode::REDUCE => self.reduce()?,
                opcode::NEWOBJ => {
                    let (arguments, class) = (self.pop()?, self.pop()?);
                    match (self.value(class), self.value(arguments)) {
                        (Value::Global(Global::Namespace), Value::Tuple(none)) if none.is_empty() => {
                            self.push(Value::None);
                        }
                        _ => {
                            return malformed(format!("an object of unknown class before byte {}", self.at));
                        }
                    }
                }
                opcode::BUILD => {
                    // Attributes, such as the `_metadata` of a state dict: no part of the weights.
                    self.pop()?;
                    self.top()?;
                }
                _ => {
                    return malformed(format!(
                        "opcode {op:#04x} at byte {start} builds neither tensors nor plain data"
                    ));
                }
            }
        }
    }

    /// Takes `n` steps from the budget.
    fn spend(&mut self, n: usize) -> PickleResult {
        match u32::try_from(n).ok().and_then(|n| self.budget.checked_sub(n)) {
            Some(rest) => self.budget = rest,
            None => return malformed(format!("more than {MAX_STEPS} steps: no weights need so many")),
        }
        Ok(())
    }

    fn take(&mut self, n: usize) -> PickleResult<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        if n > rest.len() {
            return malformed(format!(
                "{n} bytes expected at byte {}, but only {} are left",
                self.at,
                rest.len()
            ));
        }
        self.at += n;
        Ok(&rest[..n])
    }

    fn array<const N: usize>(&mut self) -> PickleResult<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes as asked for"))
    }

    /// An unsigned size of `N` bytes.
    fn size<const N: usize>(&mut self) -> PickleResult<usize> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        Ok(usize::try_from(u64::from_le_bytes(wide)).unwrap_or(usize::MAX))
    }

    fn text<const N: usize>(&mut self) -> PickleResult {
        let n = self.size::<N>()?;
        let text = self.take(n)?;
        self.push(Value::Text(text));
        Ok(())
    }

    fn line(&mut self) -> PickleResult<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        match rest.iter().take(1000).position(|&b| b == b'\n') {
            Some(n) => {
                self.at += n + 1;
                Ok(&rest[..n])
            }
            None => malformed(format!("a name at byte {} does not end", self.at)),
        }
    }

    fn value(&self, id: Id) -> &Value<'a> {
        &self.values[id as usize]
    }

    fn push(&mut self, value: Value<'a>) {
        self.stack.push(self.values.len() as Id); // fits: there are at most as many values as steps
        self.values.push(value);
    }

    /// Height of the stack at the last open mark; values below it may not be popped.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> PickleResult<Id> {
        match self.stack.last() {
            Some(&id) if self.stack.len() > self.floor() => Ok(id),
            _ => malformed(format!("a value is missing before byte {}", self.at)),
        }
    }

    fn pop(&mut self) -> PickleResult<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_mark(&mut self) -> PickleResult<Vec<Id>> {
        match self.marks.pop() {
            Some(from) => Ok(self.stack.split_off(from)),
            None => malformed(format!("a mark is missing before byte {}", self.at)),
        }
    }

    /// An integer that is written in `N` bytes.
    fn int<const N: usize>(&mut self, read: fn([u8; N]) -> i64) -> PickleResult {
        let bytes = self.array()?;
        self.push(Value::Int(read(bytes)));
        Ok(())
    }

    fn remember<const N: usize>(&mut self) -> PickleResult {
        let slot = self.size::<N>()? as u32;
        self.memo.insert(slot, self.top()?);
        Ok(())
    }

    fn recall<const N: usize>(&mut self) -> PickleResult {
        let slot = self.size::<N>()? as u32;
        match self.memo.get(&slot) {
            Some(&id) => self.stack.push(id),
            None => return malformed(format!("memo {slot} was never set")),
        }
        Ok(())
    }

    fn append(&mut self, items: Vec<Id>) -> PickleResult {
        let list = self.top()?;
        match &mut self.values[list as usize] {
            Value::List(list) => list.extend(items),
            _ => return malformed("items for something that is not a list"),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> PickleResult {
        let dict = self.top()?;
        let (pairs, odd) = items.as_chunks::<2>();
        match &mut self.values[dict as usize] {
            Value::Dict(dict) if odd.is_empty() => dict.extend(pairs.iter().map(|&[k, v]| (k, v))),
            _ => return malformed("entries for something that is not a dict"),
        }
        Ok(())
    }

    fn reduce(&mut self) -> PickleResult {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Tuple(arguments) = self.value(arguments) else {
            return malformed("a call without arguments");
        };
        let value = match (self.value(function), arguments.as_slice()) {
            (Value::Global(Global::OrderedDict), []) => Value::Dict(vec![]),
            (Value::Global(Global::OrderedDict), &[pairs]) => {
                let pairs = self.pairs(pairs)?;
                self.spend(pairs.len())?;
                Value::Dict(pairs)
            }
            (Value::Global(Global::RebuildTensor), &[storage, offset, shape, strides, ..]) => {
                let Value::Storage(storage) = *self.value(storage) else {
                    return malformed("a tensor without storage");
                };
                let (offset, shape, strides) = (self.index(offset)?, self.axes(shape)?, self.axes(strides)?);
                Value::Tensor(Box::new(Tensor { storage, offset, shape, strides }))
            }
            (Value::Global(Global::RebuildParameter), &[tensor, ..]) => {
                self.stack.push(tensor);
                return Ok(());
            }
            _ => return malformed(format!("a call that builds no tensor before byte {}", self.at)),
        };
        self.push(value);
        Ok(())
    }

    /// The entries of `OrderedDict([[key, value], ...])`, as Python 2 wrote it.
    fn pairs(&self, id: Id) -> PickleResult<Vec<(Id, Id)>> {
        let (Value::List(items) | Value::Tuple(items)) = self.value(id) else {
            return malformed("an OrderedDict of something that is not a list");
        };
        if items.len() > self.budget as usize {
            return malformed("an OrderedDict that is too long");
        }
        let pair = |&item: &Id| match self.value(item) {
            Value::List(pair) | Value::Tuple(pair) if pair.len() == 2 => Ok((pair[0], pair[1])),
            _ => malformed("an OrderedDict of items that are not pairs"),
        };
        items.iter().map(pair).collect()
    }

    fn index(&self, id: Id) -> PickleResult<usize> {
        match *self.value(id) {
            Value::Int(n) => usize::try_from(n).or_else(|_| malformed(format!("a negative size {n}"))),
            _ => malformed("a size that is not an integer"),
        }
    }

    fn axes(&self, id: Id) -> PickleResult<Vec<usize>> {
        match self.value(id) {
            Value::Tuple(axes) if axes.len() <= MAX_AXES => axes.iter().map(|&n| self.index(n)).collect(),
            _ => malformed("a tensor whose shape is not a tuple"),
        }
    }

    /// `('storage', type, key, location, numel[, (view key, offset, size) or None])`.
    fn storage(&self, id: Id) -> PickleResult<Storage<'a>> {
        let Value::Tuple(parts) = self.value(id) else { return malformed("a storage without description") };
        let &[kind, dtype, key, _, numel, ref view @ ..] = parts.as_slice() else {
            return malformed("a storage with an incomplete description");
        };
        let (Value::Text(b"storage"), &Value::Global(Global::Storage(dtype)), &Value::Text(key)) =
            (self.value(kind), self.value(dtype), self.value(key))
        else {
            return malformed("a reference to something other than a storage");
        };
        let whole = Storage { dtype, key, numel: self.index(numel)?, skip: 0 };
        match view.first().map(|&view| self.value(view)) {
            None | Some(Value::None) => Ok(whole),
            Some(Value::Tuple(view)) if view.len() == 3 => {
                Ok(Storage { skip: self.index(view[1])?, numel: self.index(view[2])?, ..whole })
            }
            Some(_) => malformed("a storage with a damaged view"),
        }
    }
}

/// The integer of two's complement little-endian `bytes`.
fn long(bytes: &[u8]) -> Value<'_> {
    if bytes.len() > 8 {
        return Value::Long(bytes);
    }
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let mut wide = if negative { [0xff; 8] } else { [0; 8] };
    wide[..bytes.len()].copy_from_slice(bytes);
    Value::Int(i64::from_le_bytes(wide))
}
