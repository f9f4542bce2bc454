//! Reads the pickles that PyTorch writes, and can build nothing but tensors and plain data.
//!
//! A pickle is a program for a stack machine (the opcodes: `pickletools.py` of CPython) that may
//! call any function by name. This machine knows dicts, lists, tuples, numbers, strings,
//! `OrderedDict`, PyTorch's storages, the three functions that rebuild tensors, and `argparse.Namespace`, in which
//! trainings keep their flags (it stands for nothing here); whatever else is named ends the reading with that name. Values live in one arena and refer to each other by
//! number: neither cycles nor depth nor sharing cost more than the opcodes that made them, and
//! strings stay in the file.
//!
//! Why not the `pytorch-reader` crate, burn's own: 0.22.1 passes over names that it does not know where they
//! make no tensor, so that a pickle that calls `posix.system` beside its weights opens without a word
//! (it runs nothing; of the fixtures `hostile-zip`); it bounds a tensor at 10 GiB and a file
//! not at all (one of 50 kB, whose tensors repeat one number, opens as 9.7 GB); it hands out tensors without order or
//! places in the file, and reads them anew for each; and it asks for another compressor (zlib-rs), which would
//! change the bytes of every NPZ and PDF written.

mod machine;
#[cfg(test)]
mod tests;

use safetensors::Dtype;

/// Why a pickle was not read.
#[derive(Debug, PartialEq)]
pub(super) enum PickleError {
    /// It names something that is neither a tensor nor plain data.
    Refused(String),
    /// It is no well-formed pickle of this kind.
    Malformed(String),
}

/// Number of a value in the arena.
pub(super) type Id = u32;

/// A part of a storage that a tensor may view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Storage<'a> {
    pub dtype: Dtype,
    pub key: &'a [u8],
    /// Elements.
    pub numel: usize,
    /// Elements of the stored storage before this one (views, as the oldest files have them).
    pub skip: usize,
}

/// A strided view of a storage; lengths in elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor<'a> {
    pub storage: Storage<'a>,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The names that may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Namespace,
    Storage(Dtype),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits, little-endian.
    Long(&'a [u8]),
    Float,
    /// A string, or bytes: Python 2 did not tell them apart.
    Text(&'a [u8]),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Global),
    Storage(Storage<'a>),
    Tensor(Box<Tensor<'a>>),
}

/// A pickle that was read.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    root: Id,
    /// Bytes it took.
    pub len: usize,
}

impl<'a> Pickle<'a> {
    /// Runs the pickle at the start of `bytes` up to its end mark.
    pub fn read(bytes: &'a [u8]) -> Result<Self, PickleError> {
        machine::run(bytes)
    }

    /// The value that the pickle stands for.
    pub fn root(&self) -> &Value<'a> {
        self.get(self.root)
    }

    /// A value that another one refers to.
    pub fn get(&self, id: Id) -> &Value<'a> {
        &self.values[id as usize]
    }

    /// Every storage that is named.
    pub fn storages(&self) -> impl Iterator<Item = &Storage<'a>> {
        self.values.iter().filter_map(|value| match value {
            Value::Storage(storage) => Some(storage),
            _ => None,
        })
    }

    /// The entry `key` of a dict.
    pub fn entry(&self, dict: &Value<'a>, key: &str) -> Option<&Value<'a>> {
        let Value::Dict(entries) = dict else { return None };
        let found = entries.iter().rfind(|(k, _)| self.get(*k) == &Value::Text(key.as_bytes()));
        found.map(|&(_, v)| self.get(v))
    }
}

/// `module.name` for messages, harmless and of bounded length.
fn spell(module: &[u8], name: &[u8]) -> String {
    let text = [module, b".", name].concat();
    String::from_utf8_lossy(&text[..text.len().min(200)]).escape_debug().to_string()
}

/// What `module.name` stands for, if it is allowed.
fn global(module: &[u8], name: &[u8]) -> Result<Global, PickleError> {
    Ok(match (module, name) {
        (b"collections", b"OrderedDict") => Global::OrderedDict,
        (b"torch._utils", b"_rebuild_tensor_v2" | b"_rebuild_tensor") => Global::RebuildTensor,
        (b"torch._utils", b"_rebuild_parameter") => Global::RebuildParameter,
        (b"argparse", b"Namespace") => Global::Namespace,
        (b"torch" | b"torch.cuda" | b"torch.storage", _) => Global::Storage(match name {
            b"FloatStorage" => Dtype::F32,
            b"DoubleStorage" => Dtype::F64,
            b"HalfStorage" => Dtype::F16,
            b"BFloat16Storage" => Dtype::BF16,
            b"LongStorage" => Dtype::I64,
            b"IntStorage" => Dtype::I32,
            b"ShortStorage" => Dtype::I16,
            b"CharStorage" => Dtype::I8,
            b"ByteStorage" | b"UntypedStorage" => Dtype::U8,
            b"BoolStorage" => Dtype::BOOL,
            b"ComplexFloatStorage" => Dtype::C64,
            _ => return Err(PickleError::Refused(spell(module, name))),
        }),
        _ => return Err(PickleError::Refused(spell(module, name))),
    })
}
