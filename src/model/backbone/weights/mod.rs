//! The weights of a backbone: named tensors in a folder as the Hugging Face Hub lays it out.
//!
//! Read is the first one present of `model.safetensors`, `model.safetensors.index.json` (with shards),
//! `pytorch_model.bin` and `pytorch_model.bin.index.json`. Files are memory-mapped; a tensor is converted to float32 on
//! demand, from float32, float16, bfloat16, float64 or integers. Nothing in a file is executed, and its claims are
//! checked against its size before anything is allocated: a tensor may repeat stored values and tensors may share them,
//! in all up to [`MAX_REPEATS`] times. NaN and infinities are errors: no backbone works with them.

mod error;
mod file;
mod fingerprints;
pub(super) mod index;
mod pickle;
mod safetensors_file;
mod torch_file;
mod view;

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

pub use error::{KeyErrors, WeightsError};
use file::Mapped;
use torch_file::StateDict;
use view::View;

/// Largest ratio of the size of all tensors to that of the files: so many layers may be tied.
const MAX_REPEATS: u64 = 32;
/// Size of all tensors in bytes that is allowed for any file: tables made by `expand`.
const FREE_REPEATED_BYTES: u64 = 64 << 20;

/// The named tensors of one folder, on disk.
#[derive(Debug)]
pub struct Weights {
    /// The file, or the index of the shards, for messages.
    path: PathBuf,
    /// The files in the order of their names, in which they are hashed.
    files: Vec<Mapped>,
    /// For every tensor, the index of its file and its view.
    tensors: IndexMap<String, (usize, View)>,
    /// The key of the checkpoint under which they are stored; empty for the whole file.
    pub(super) under: String,
    /// Other keys of the checkpoint that may hold a model, too.
    pub(super) other_keys: Vec<String>,
}

impl Weights {
    /// Finds the weights in `dir` and reads the names and shapes of the tensors, not their values.
    pub fn open(dir: &Path) -> Result<Self, WeightsError> {
        match dir.metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(WeightsError::NoFolder(dir.into()));
            }
            Err(source) => return Err(WeightsError::Io { path: dir.into(), source }),
            Ok(meta) if !meta.is_dir() => return Err(WeightsError::NotAFolder(dir.into())),
            Ok(_) => {}
        }
        // A dangling link counts as present, so that it is reported, not skipped.
        let present = |name: &str| {
            let path = dir.join(name);
            path.symlink_metadata().is_ok().then_some(path)
        };
        let readers: [(&str, Reader); 2] =
            [("model.safetensors", safetensors_file::tensors), ("pytorch_model.bin", torch_file::tensors)];
        for (name, read) in readers {
            if let Some(path) = present(name) {
                return Self::single(&path, read);
            }
            if let Some(path) = present(&format!("{name}.index.json")) {
                return Self::sharded(dir, &path, read);
            }
        }
        Err(WeightsError::NoWeights { dir: dir.into(), found: found(dir) })
    }

    /// Opens one file of any name: safetensors, or a file of `torch.save`, of which it takes the tensors under the first
    /// of the keys `under` that holds any (an empty key stands for the file itself).
    pub fn open_file(path: &Path, under: &[&str]) -> Result<Self, WeightsError> {
        let file = Mapped::open(path)?;
        // A safetensors file begins with eight bytes of length, then its header, a JSON object.
        let named = path.extension().is_some_and(|ending| ending == "safetensors");
        let (tensors, key, other_keys) = match named || file.get(8) == Some(&b'{') {
            true if !under.contains(&"") => {
                let what =
                    "it is a safetensors file, which has no keys to choose a model by; leave out --key";
                return Err(WeightsError::Index { path: path.into(), what: what.into() });
            }
            true => (safetensors_file::tensors(&file)?, "", Vec::new()),
            false => {
                let StateDict { tensors, key, others } = torch_file::tensors_under(&file, under)?;
                (tensors, key, others)
            }
        };
        let tensors = tensors.into_iter().map(|(name, view)| (name, (0, view))).collect();
        Ok(Self { under: key.to_owned(), other_keys, ..Self::bounded(path, vec![file], tensors)? })
    }

    fn single(path: &Path, read: Reader) -> Result<Self, WeightsError> {
        let file = Mapped::open(path)?;
        let tensors = read(&file)?.into_iter().map(|(name, view)| (name, (0, view))).collect();
        Self::bounded(path, vec![file], tensors)
    }

    /// The weights, unless the tensors are much larger than the files.
    fn bounded(
        path: &Path,
        files: Vec<Mapped>,
        tensors: IndexMap<String, (usize, View)>,
    ) -> Result<Self, WeightsError> {
        let stored: u64 = files.iter().map(|file| file.len() as u64).sum();
        let claimed = tensors.values().fold(0, |sum: u64, (_, view)| sum.saturating_add(view.bytes()));
        if claimed > stored.saturating_mul(MAX_REPEATS).max(FREE_REPEATED_BYTES) {
            let what = format!(
                "its {} tensors add up to {claimed} bytes, but it stores only {stored}: numbers are repeated \
                 more often than in any real weights ({MAX_REPEATS} times)",
                tensors.len()
            );
            return Err(WeightsError::Unsupported { path: path.into(), what });
        }
        Ok(Self { path: path.into(), files, tensors, under: String::new(), other_keys: Vec::new() })
    }

    fn sharded(dir: &Path, path: &Path, read: Reader) -> Result<Self, WeightsError> {
        let wrong = |what: String| WeightsError::Index { path: path.into(), what };
        let map = index::read(path)?;
        let shards = index::shards(&map);
        let absent: Vec<&str> =
            shards.iter().copied().filter(|s| dir.join(s).symlink_metadata().is_err()).collect();
        if !absent.is_empty() {
            let some = absent.iter().take(20).copied().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!(
                "{} of {} shards are missing: {some}; download them into {}",
                absent.len(),
                shards.len(),
                dir.display()
            )));
        }
        let mut files = Vec::new();
        let mut tensors = IndexMap::new();
        for shard in &shards {
            let file = Mapped::open(&dir.join(shard))?;
            for (name, view) in read(&file)? {
                // A tensor in several shards is taken from the one in the index; tensors outside the
                // index are kept, so that `check` reports them.
                if map.get(&name).is_some_and(|there| there != shard) {
                    continue;
                }
                if tensors.contains_key(&name) {
                    return Err(wrong(format!("{name:?} is in two shards but not in the weight_map")));
                }
                tensors.insert(name, (files.len(), view));
            }
            files.push(file);
        }
        if let Some((name, shard)) = map.iter().find(|(name, _)| !tensors.contains_key(*name)) {
            return Err(wrong(format!("{name:?} is not in {shard}, where the index places it")));
        }
        Self::bounded(path, files, tensors)
    }

    /// Names and shapes of all tensors, in the order of the files.
    pub fn names(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors.iter().map(|(name, (_, view))| (name.as_str(), view.shape.as_slice()))
    }

    /// The shape of the tensor `name`.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|(_, view)| view.shape.as_slice())
    }

    /// Puts `prefix` before the names that begin with `start`, unless the file has such a name too.
    pub fn add_prefix(&mut self, prefix: &str, start: &str) {
        if self.tensors.keys().any(|name| name.starts_with(&format!("{prefix}{start}"))) {
            return;
        }
        let named = |name: String| if name.starts_with(start) { format!("{prefix}{name}") } else { name };
        self.tensors = std::mem::take(&mut self.tensors).into_iter().map(|(k, v)| (named(k), v)).collect();
    }

    /// Whether there is a tensor `name`.
    pub fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Compares the tensors with `needed` (names and shapes): one error lists all that are missing,
    /// misshapen or unused. Not counted as unused are names that `ignored` accepts and integer
    /// tensors, which are buffers (position ids and counters).
    pub fn check(
        &self,
        needed: &[(String, Vec<usize>)],
        ignored: &dyn Fn(&str) -> bool,
    ) -> Result<(), WeightsError> {
        let keys = self.key_errors(needed, ignored);
        if keys.is_empty() { Ok(()) } else { Err(WeightsError::Keys { path: self.path.clone(), keys }) }
    }

    /// All differences from `needed`, as defined in [`Self::check`].
    pub fn key_errors(&self, needed: &[(String, Vec<usize>)], ignored: &dyn Fn(&str) -> bool) -> KeyErrors {
        let mut keys = KeyErrors::default();
        let mut used = std::collections::HashSet::new();
        for (name, shape) in needed {
            used.insert(name.as_str());
            match self.tensors.get(name) {
                None => keys.missing.push(name.clone()),
                Some((_, view)) if view.shape != *shape => {
                    keys.misshapen.push(format!("{name} {:?}, expected {shape:?}", view.shape));
                }
                Some(_) => {}
            }
        }
        let unused = self.tensors.iter().filter(|(name, (_, view))| {
            !used.contains(name.as_str()) && !view.is_integer() && !ignored(name)
        });
        keys.unused.extend(unused.map(|(name, _)| name.clone()));
        keys
    }

    /// The values of the tensor `name` in float32, row-major.
    pub fn values(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let Some((file, view)) = self.tensors.get(name) else {
            return Err(WeightsError::Missing { path: self.path.clone(), name: name.into() });
        };
        let file = &self.files[*file];
        let Some(values) = view.values(file) else {
            let dtype = view.dtype.to_string();
            return Err(WeightsError::Dtype { path: file.path.clone(), name: name.into(), dtype });
        };
        if let Some(index) = values.iter().position(|x| !x.is_finite()) {
            let (path, value) = (file.path.clone(), values[index]);
            return Err(WeightsError::NotFinite { path, name: name.into(), index, value });
        }
        Ok(values)
    }

    /// SHA-256 of the weights file in hexadecimal digits; for shards, that of all in the order of their names
    /// (`cat model-*.safetensors | sha256sum`).
    pub fn fingerprint(&self) -> String {
        fingerprints::fingerprint(&self.files)
    }
}

/// Reads the names and views of a file's tensors.
type Reader = fn(&Mapped) -> Result<Vec<(String, View)>, WeightsError>;

/// Lists the contents of a folder without weights for a message: `; it holds a, b`.
fn found(dir: &Path) -> String {
    let Ok(entries) = dir.read_dir() else { return String::new() };
    let mut names: Vec<String> =
        entries.take(1000).flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let more = if names.len() > 8 { ", ..." } else { "" };
    names.truncate(8);
    if names.is_empty() {
        "; it is empty".into()
    } else {
        format!("; it contains {}{more}", names.join(", "))
    }
}
