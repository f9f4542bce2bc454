//! Reads the pickles that PyTorch writes; it can build nothing but tensors and plain data.
//!
//! A pickle is a program for a stack machine (the opcodes: `pickletools.py` of CPython) that may call any function by
//! name. This machine knows dicts, lists, tuples, numbers, strings, `OrderedDict`, PyTorch's storages, the three
//! functions that rebuild tensors, and `argparse.Namespace`, in which training scripts store their flags (read as
//! `None`); any other name is an error that mentions it. Values are in one arena and refer to each other by index:
//! cycles, depth and sharing cost no more than the opcodes that made them, and strings are borrowed from the file.
//!
//! Why not burn's own `pytorch-reader` crate: 0.22.1 ignores unknown names that make no tensor, so that a pickle that
//! calls `posix.system` beside its weights opens without an error (it executes nothing; see the fixture `hostile-zip`);
//! it bounds a tensor at 10 GiB and a file not at all (one of 50 kB, whose tensors repeat one number, opens as 9.7 GB);
//! it returns tensors without their order or position in the file, and reads the file anew for each; and it requires
//! another compressor (zlib-rs), which would change the bytes of every NPZ and PDF written.

mod machine;
mod opcode;
#[cfg(test)]
mod tests;

use safetensors::Dtype;

/// Why a pickle was not read.
#[derive(Debug, PartialEq)]
pub(super) enum PickleError {
    /// It uses a global name, given here, that is neither a tensor's nor plain data's.
    Refused(String),
    /// It is malformed or uses unsupported opcodes.
    Malformed(String),
}

/// Index of a value in the arena.
pub(super) type Id = u32;

/// A part of a storage that a tensor may view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Storage<'a> {
    pub dtype: Dtype,
    pub key: &'a [u8],
    /// Number of elements.
    pub numel: usize,
    /// Offset in elements within the stored storage (for storage views, in the oldest files).
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

/// The global names that are allowed.
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
    /// A string, or bytes: Python 2 did not distinguish them.
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
    /// Length in bytes.
    pub len: usize,
}

impl<'a> Pickle<'a> {
    /// The pickled value.
    pub fn root(&self) -> &Value<'a> {
        self.get(self.root)
    }

    /// The value with an index.
    pub fn get(&self, id: Id) -> &Value<'a> {
        &self.values[id as usize]
    }

    /// Every storage that the pickle refers to.
    pub fn storages(&self) -> impl Iterator<Item = &Storage<'a>> {
        self.values.iter().filter_map(|value| match value {
            Value::Storage(storage) => Some(storage),
            _ => None,
        })
    }

    /// The value of `key` in a dict, the last one if the key occurs twice.
    pub fn entry(&self, dict: &Value<'a>, key: &str) -> Option<&Value<'a>> {
        let Value::Dict(entries) = dict else { return None };
        let found = entries.iter().rfind(|(k, _)| self.get(*k) == &Value::Text(key.as_bytes()));
        found.map(|&(_, v)| self.get(v))
    }
}

/// `module.name` for messages, escaped and of bounded length.
fn spell(module: &[u8], name: &[u8]) -> String {
    let text = [module, b".", name].concat();
    String::from_utf8_lossy(&text[..text.len().min(200)]).escape_debug().to_string()
}

/// The allowed global `module.name`, or [`PickleError::Refused`].
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
