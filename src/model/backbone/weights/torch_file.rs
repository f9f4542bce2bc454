//! Locates the tensors in a file of `torch.save`, without executing anything in it.
//!
//! There are two formats. Since PyTorch 1.6: an uncompressed ZIP with `NAME/data.pkl`, the pickle of the state dict, and
//! `NAME/data/KEY`, the bytes of each storage. Before: five pickles one after another (magic number, protocol, system,
//! state dict, keys of the storages), then for each key the number of elements (8 bytes) and the elements.

use std::collections::HashMap;
use std::io::Cursor;
use std::ops::Range;

use safetensors::Dtype;
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use super::error::WeightsError;
use super::file::Mapped;
use super::pickle::{Id, Pickle, PickleError, Tensor, Value};
use super::view::View;

const FORMAT: &str = "PyTorch";
/// 0x1950a86a20f9469cfc6c, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

type Tensors = Vec<(String, View)>;

/// Keys under which checkpoints of backbones store their state dict; empty: the file itself is one.
const STATE_DICT_KEYS: &[&str] = &["", "state_dict", "model"];

/// Most keys of a checkpoint that are looked at or shown.
const MAX_KEYS: usize = 20;

/// The tensors of a checkpoint.
pub(super) struct StateDict<'k> {
    /// Their names and views, in the file's order.
    pub tensors: Tensors,
    /// The key that they are stored under; empty: the file itself.
    pub key: &'k str,
    /// Other keys with no fewer tensors, as a moving average of the model has.
    pub others: Vec<String>,
}

/// Names and views of the tensors of `file`, in the order of its state dict.
pub(super) fn tensors(file: &Mapped) -> Result<Tensors, WeightsError> {
    Ok(tensors_under(file, STATE_DICT_KEYS)?.tensors)
}

/// The same for the state dict under the first of the keys `under` that holds tensors (empty: the file itself).
pub(super) fn tensors_under<'k>(file: &Mapped, under: &[&'k str]) -> Result<StateDict<'k>, WeightsError> {
    if file.starts_with(b"PK\x03\x04") {
        zip(file, under)
    } else if file.starts_with(&[0x80]) {
        legacy(file, under)
    } else if file.get(257..262) == Some(b"ustar") {
        Err(unsupported(file, "it is a tar archive, as PyTorch wrote before version 0.1.10"))
    } else {
        let start = file[..file.len().min(16)].escape_ascii();
        Err(file.damaged(FORMAT, format!("it starts with \"{start}\"")))
    }
}

fn zip<'k>(file: &Mapped, under: &[&'k str]) -> Result<StateDict<'k>, WeightsError> {
    let broken = |error: zip::result::ZipError| file.damaged(FORMAT, error.to_string());
    // The archive starts at offset 0. If the reader had to find that out, PyTorch's ZIP64 record after the directory would mislead it
    // by 76 bytes if the first header is as long, which it is if the root's name has 21 letters.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut archive = ZipArchive::with_config(config, Cursor::new(&file[..])).map_err(broken)?;
    if archive.has_duplicate_names() {
        return Err(file.damaged(FORMAT, "its ZIP directory lists a name twice"));
    }
    let mut places = HashMap::new();
    let mut packed = None;
    for i in 0..archive.len() {
        let entry = archive.by_index_raw(i).map_err(broken)?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        if name.ends_with("/constants.pkl") {
            return Err(unsupported(file, "it is a TorchScript program, not a state dict"));
        }
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            packed.get_or_insert(name);
            continue;
        }
        let range = entry.data_start().and_then(|start| Some(start..start.checked_add(entry.size())?));
        let Some(Range { start, end }) = range.filter(|range| range.end <= file.len() as u64) else {
            let what = format!("{name:?} claims {} bytes, but the file has {}", entry.size(), file.len());
            return Err(file.damaged(FORMAT, what));
        };
        places.insert(name, start as usize..end as usize);
    }
    if let Some(name) = packed {
        let what = format!("its entry {name:?} is compressed or encrypted, which torch.save never does");
        return Err(unsupported(file, what));
    }
    let mut roots = places.keys().filter_map(|n| n.strip_suffix("/data.pkl")).filter(|n| !n.contains('/'));
    let (Some(root), None) = (roots.next(), roots.next()) else {
        return Err(file.damaged(FORMAT, "a ZIP archive without exactly one data.pkl"));
    };
    let content = |place: &Range<usize>| &file[place.clone()];
    if places.get(&format!("{root}/byteorder")).is_some_and(|place| content(place) != b"little") {
        return Err(unsupported(file, "its numbers are not little-endian"));
    }
    let pickle = Pickle::read(content(&places[&format!("{root}/data.pkl")])).map_err(|e| refused(file, e))?;
    collect(file, &pickle, under, |tensor| {
        let key = str::from_utf8(tensor.storage.key).ok()?;
        places.get(&format!("{root}/data/{key}"))
    })
}

fn legacy<'k>(file: &Mapped, under: &[&'k str]) -> Result<StateDict<'k>, WeightsError> {
    let mut at = 0;
    let mut next = || {
        let pickle = Pickle::read(&file[at..]).map_err(|error| refused(file, error))?;
        at += pickle.len;
        Ok::<_, WeightsError>(pickle)
    };
    if *next()?.root() != Value::Long(&MAGIC) {
        return Err(unsupported(file, "it is a pickle, but not one that torch.save wrote"));
    }
    if *next()?.root() != Value::Int(1001) {
        return Err(unsupported(file, "its protocol is not 1001"));
    }
    let system = next()?;
    if system.entry(system.root(), "little_endian") != Some(&Value::Bool(true)) {
        return Err(unsupported(file, "its numbers are not little-endian"));
    }
    let (state, keys) = (next()?, next()?);
    let dtypes: HashMap<&[u8], Dtype> = state.storages().map(|s| (s.key, s.dtype)).collect();
    let Value::List(order) = keys.root() else {
        return Err(file.damaged(FORMAT, "the list of its storages is missing"));
    };
    let mut places = HashMap::new();
    for &key in order {
        let place = match *keys.get(key) {
            Value::Text(key) => dtypes.get(key).zip(file.get(at..at + 8)).map(|found| (key, found)),
            _ => None,
        };
        let Some((key, (dtype, length))) = place else {
            return Err(file.damaged(FORMAT, format!("a storage is missing at byte {at}")));
        };
        let numel = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let rest = (file.len() - at - 8) as u64;
        let bytes = numel.checked_mul(dtype.bitsize() as u64 / 8).filter(|&bytes| bytes <= rest);
        let Some(bytes) = bytes else {
            let what =
                format!("the storage at byte {at} claims {numel} numbers, but only {rest} bytes are left");
            return Err(file.damaged(FORMAT, what));
        };
        let start = at + 8;
        at = start + bytes as usize;
        places.insert(key, start..at);
    }
    collect(file, &state, under, |tensor| places.get(tensor.storage.key))
}

/// The state dict in `pickle` under the first of the keys `under` that holds tensors; `place` finds the storage of a tensor.
fn collect<'p, 'k>(
    file: &Mapped,
    pickle: &Pickle,
    under: &[&'k str],
    place: impl Fn(&Tensor) -> Option<&'p Range<usize>>,
) -> Result<StateDict<'k>, WeightsError> {
    let root = pickle.root();
    let dict = |key: &str| if key.is_empty() { Some(root) } else { pickle.entry(root, key) };
    let mut dicts =
        under.iter().filter_map(|&key| Some((named(pickle, dict(key)?).collect::<Vec<_>>(), key)));
    let Some((found, key)) = dicts.find(|(tensors, _)| !tensors.is_empty()) else {
        return Err(no_state_dict(file, pickle, under));
    };
    let is_other = |other: &(String, usize)| other.0 != key && other.1 >= found.len();
    let others = keys(pickle).into_iter().filter(is_other).map(|(other, _)| other).collect();
    let mut tensors: Tensors = Vec::with_capacity(found.len());
    let mut seen = std::collections::HashSet::new();
    for (name, tensor) in found {
        let name = String::from_utf8_lossy(name).into_owned();
        let wrong = |what: &str| Err(file.damaged(FORMAT, format!("tensor {name:?}: {what}")));
        if !seen.insert(name.clone()) {
            return wrong("it occurs twice");
        }
        let Tensor { storage, offset, shape, strides } = tensor;
        let width = storage.dtype.bitsize() / 8;
        let Some(place) = place(tensor) else { return wrong("its storage is missing") };
        let end = storage.skip.checked_add(storage.numel).and_then(|end| end.checked_mul(width));
        if end.is_none_or(|end| end > place.len()) {
            let there = place.len() / width;
            return wrong(&format!("it needs {} stored numbers, but the storage has {there}", storage.numel));
        }
        let view = View {
            dtype: storage.dtype,
            start: place.start + storage.skip * width,
            stored: storage.numel,
            offset: *offset,
            shape: shape.clone(),
            strides: strides.clone(),
        };
        if let Some(flaw) = view.flaw(file.len()) {
            return wrong(&flaw);
        }
        tensors.push((name, view));
    }
    Ok(StateDict { tensors, key, others })
}

/// The tensors in a dict, by their names.
fn named<'v, 'p: 'v>(
    pickle: &'v Pickle<'p>,
    dict: &'v Value<'p>,
) -> impl Iterator<Item = (&'p [u8], &'v Tensor<'p>)> {
    let entries = if let Value::Dict(entries) = dict { &entries[..] } else { &[] };
    entries.iter().filter_map(|&(key, value)| match (pickle.get(key), pickle.get(value)) {
        (Value::Text(key), Value::Tensor(tensor)) => Some((*key, &**tensor)),
        _ => None,
    })
}

/// The first keys of a checkpoint, each with the number of tensors under it.
fn keys(pickle: &Pickle) -> Vec<(String, usize)> {
    let Value::Dict(entries) = pickle.root() else { return vec![] };
    let key = |&(key, value): &(Id, Id)| match pickle.get(key) {
        Value::Text(key) => {
            let name = String::from_utf8_lossy(key).escape_debug().to_string();
            Some((name, named(pickle, pickle.get(value)).count()))
        }
        _ => None,
    };
    entries.iter().filter_map(key).take(MAX_KEYS).collect()
}

/// The error that none of the keys `under` holds tensors; it lists the keys that exist.
fn no_state_dict(file: &Mapped, pickle: &Pickle, under: &[&str]) -> WeightsError {
    if !matches!(pickle.root(), Value::Dict(_)) {
        return unsupported(file, "it has no dict of named tensors (a state dict)");
    }
    let keys = keys(pickle);
    let there: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
    let looked: Vec<&str> = under.iter().copied().filter(|key| !key.is_empty()).collect();
    let what = format!(
        "it has no dict of named tensors (a state dict), neither at the top level nor under {}; its keys: {}",
        looked.join(", "),
        there.join(", ")
    );
    match keys.iter().rev().max_by_key(|(_, tensors)| tensors).filter(|(_, tensors)| *tensors > 0) {
        Some((key, _)) => WeightsError::OtherKey { path: file.path.clone(), what, key: key.clone() },
        None => unsupported(file, what),
    }
}

fn unsupported(file: &Mapped, what: impl Into<String>) -> WeightsError {
    WeightsError::Unsupported { path: file.path.clone(), what: what.into() }
}

fn refused(file: &Mapped, error: PickleError) -> WeightsError {
    match error {
        PickleError::Refused(name) => WeightsError::Refused { path: file.path.clone(), name },
        PickleError::Malformed(what) => file.damaged(FORMAT, what),
    }
}
