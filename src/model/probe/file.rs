//! Probe files: one `.safetensors` with PyTorch's names (docs/definitions.md, section 8).
//!
//! Strict about tensors (all missing, unused and misshapen ones are reported in one error), lenient about types
//! (half, double and common integer tensors become float32) and about unknown keys (kept).

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::classes::nearest;
use super::meta::{FORMAT, Meta};
use super::{Classifier, Probe, ProbeError};
use crate::model::grid::{Grid, MAX_TOKENS};
use crate::model::io::array::{Array, Arrays, Tensor, to_safetensors};
use crate::model::io::{atomic_file, block, sha256};
use crate::model::probe::head::{self, Dims};
use crate::model::probe::params::{Constraint, STEP_BOUNDS, Spec};
use crate::model::probe::settings::MAX_WIDTH;

/// The metadata key of the probe's description.
const KEY: &str = "ssmprobe";
/// Largest probe file in bytes; the largest real ones are some hundred megabytes.
pub const MAX_FILE_BYTES: u64 = 4 << 30;

impl Probe {
    /// Reads a probe file.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ProbeError> {
        let path = path.as_ref();
        Self::parse(&read(path)?, path)
    }

    /// Reads a probe file; also returns the SHA-256 of the bytes that were read.
    pub fn load_known(path: &Path) -> Result<(Self, String), ProbeError> {
        let bytes = read(path)?;
        Ok((Self::parse(&bytes, path)?, sha256::of_bytes(&bytes)))
    }

    /// Reads the bytes of a probe file; `path` names it in errors.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, ProbeError> {
        let file = path.display().to_string();
        let not_safetensors = |source| ProbeError::NotSafetensors { file: file.clone(), source };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
        let tensors = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
        let mut metadata: BTreeMap<String, String> =
            header.metadata().clone().unwrap_or_default().into_iter().collect();
        let description =
            metadata.remove(KEY).ok_or_else(|| ProbeError::NoMetadata { file: file.clone() })?;
        let meta = parse_meta(&description, &file)?;
        let spec = head::find(&meta.head).ok_or_else(|| ProbeError::UnknownHead {
            file: file.clone(),
            found: meta.head.clone(),
            known: nearest(&meta.head, head::HEADS.iter().map(|spec| spec.id), head::HEADS.len()).join(", "),
        })?;
        let config_error = |source| ProbeError::Config { file: file.clone(), source };
        let head = spec.build(&meta.config).map_err(config_error)?;
        let width = meta.backbone.hidden_size;
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(ProbeError::HiddenSize { file, found: width, most: MAX_WIDTH });
        }
        let shape = |name: &str| tensors.tensor(name).ok().map(|view| view.shape().to_vec());
        // Specs allocate as many indices as this axis has.
        let order = match shape("order").as_deref() {
            None => None,
            Some(&[n]) if n <= MAX_TOKENS => Some(n),
            Some(shape) => {
                let problem = format!(
                    "has the shape {shape:?}; expected one axis, one index for each of up to {MAX_TOKENS} tokens"
                );
                return Err(ProbeError::Values { file, name: "order".to_owned(), problem });
            }
        };
        let rows = shape("classifier.weight").and_then(|shape| shape.first().copied()).unwrap_or(0);
        let classes = if meta.classes.is_empty() { rows } else { meta.classes.len() };
        if classes == 0 {
            return Err(ProbeError::NoClasses { file });
        }
        // A file does not hold the grid, nor need it: specs depend on it only through the length of `order`.
        let dims = Dims { width, grid: Grid::new(1, order.unwrap_or(2)), classes };
        head.check(&dims).map_err(config_error)?;

        let specs = super::specs(&*head, &dims);
        let mut arrays = gather(&tensors, &specs).map_err(|problems| ProbeError::Tensors {
            file: file.clone(),
            head: meta.head.clone(),
            hidden_size: width,
            problems,
        })?;
        for spec in &specs {
            if let Some(problem) = value_problem(spec, &arrays[&spec.name]) {
                return Err(ProbeError::Values { file, name: spec.name.clone(), problem });
            }
        }
        let mut take = |name| arrays.shift_remove(name).expect("gathered above").data;
        let classifier = Classifier { weight: take("classifier.weight"), bias: take("classifier.bias") };
        Ok(Self { metadata, file, ..Self::new(meta, arrays, classifier) })
    }

    /// Writes a probe file atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), ProbeError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let io = |source| ProbeError::Io { file: file.clone(), verb: "write", verb_past: "written", source };
        let classes = self.classifier.bias.len();
        let features = self.classifier.weight.len() / classes.max(1);
        let mut tensors: Vec<Tensor> = Vec::new();
        for (name, array) in &self.arrays {
            let (dtype, bytes) = match name.as_str() {
                // Indices are int64 in PyTorch.
                "order" => (Dtype::I64, array.data.iter().flat_map(|&i| (i as i64).to_le_bytes()).collect()),
                _ => (Dtype::F32, block::bytes(&array.data)),
            };
            tensors.push((name.clone(), array.shape.clone(), dtype, bytes));
        }
        let Classifier { weight, bias } = &self.classifier;
        tensors.push(("classifier.weight".into(), vec![classes, features], Dtype::F32, block::bytes(weight)));
        tensors.push(("classifier.bias".into(), vec![classes], Dtype::F32, block::bytes(bias)));
        let description = serde_json::to_string(&self.meta).map_err(|e| io(std::io::Error::other(e)))?;
        let mut metadata: HashMap<String, String> = self.metadata.clone().into_iter().collect();
        metadata.insert(KEY.to_owned(), description);
        let bytes = to_safetensors(&tensors, metadata).map_err(|e| io(std::io::Error::other(e)))?;
        atomic_file::write(path, &bytes).map_err(io)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ProbeError> {
    let file = path.display().to_string();
    atomic_file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => ProbeError::TooLarge { file, most: MAX_FILE_BYTES },
        _ => ProbeError::Io { file, verb: "read", verb_past: "read", source },
    })
}

/// Parses the description, whose format version is checked before anything else.
fn parse_meta(description: &str, file: &str) -> Result<Meta, ProbeError> {
    let metadata_error = |source| ProbeError::Metadata { file: file.to_owned(), source };
    let value: Value = serde_json::from_str(description).map_err(metadata_error)?;
    match value.get("format") {
        Some(found) if found.as_u64() != Some(FORMAT) => {
            let (file, found) = (file.to_owned(), found.to_string());
            Err(ProbeError::Format { file, found, expected: FORMAT })
        }
        _ => serde_json::from_value(value).map_err(metadata_error),
    }
}

/// The tensors of `specs` in float32, or a list of all problems with the file's tensors.
fn gather(tensors: &SafeTensors, specs: &[Spec]) -> Result<Arrays, String> {
    let (mut arrays, mut problems) = (Arrays::new(), Vec::new());
    for Spec { name, shape, .. } in specs {
        match tensors.tensor(name) {
            Err(_) => problems.push(format!("`{name}` {shape:?} is missing")),
            Ok(view) if view.shape() != shape => {
                problems.push(format!("`{name}` is {:?}, expected {shape:?}", view.shape()));
            }
            Ok(view) => match float32(&view) {
                Some(data) => drop(arrays.insert(name.clone(), Array::new(shape.clone(), data))),
                None => problems.push(format!("`{name}` has type {}, expected F32", view.dtype())),
            },
        }
    }
    let mut unused: Vec<&str> = tensors.names();
    unused.retain(|name| !specs.iter().any(|spec| spec.name == *name));
    unused.sort_unstable();
    problems.extend(unused.iter().map(|name| format!("`{name}` is unused")));
    if problems.is_empty() { Ok(arrays) } else { Err(problems.join("; ")) }
}

/// The values of a tensor in float32; `None` for types other than those below.
fn float32(view: &TensorView) -> Option<Vec<f32>> {
    fn convert_all<const W: usize>(bytes: &[u8], convert: impl Fn([u8; W]) -> f32) -> Vec<f32> {
        let (chunks, _) = bytes.as_chunks::<W>();
        chunks.iter().map(|chunk| convert(*chunk)).collect()
    }
    let bytes = view.data();
    Some(match view.dtype() {
        Dtype::F32 => convert_all(bytes, f32::from_le_bytes),
        Dtype::F64 => convert_all(bytes, |b| f64::from_le_bytes(b) as f32),
        Dtype::F16 => convert_all(bytes, |b| half::f16::from_le_bytes(b).to_f32()),
        Dtype::BF16 => convert_all(bytes, |b| half::bf16::from_le_bytes(b).to_f32()),
        Dtype::I64 => convert_all(bytes, |b| i64::from_le_bytes(b) as f32),
        Dtype::I32 => convert_all(bytes, |b| i32::from_le_bytes(b) as f32),
        Dtype::I16 => convert_all(bytes, |b| f32::from(i16::from_le_bytes(b))),
        Dtype::U8 => convert_all(bytes, |b: [u8; 1]| f32::from(b[0])),
        _ => return None,
    })
}

/// What is wrong with the values of a tensor; `None` if they are valid.
fn value_problem(spec: &Spec, array: &Array) -> Option<String> {
    let data = &array.data;
    let non_finite = data.iter().filter(|x| !x.is_finite()).count();
    if non_finite > 0 {
        return Some(format!("holds {non_finite} values that are not finite (of {})", data.len()));
    }
    let is_state_matrix = spec.name.starts_with("s4.") && spec.name.ends_with(".A");
    if is_state_matrix || spec.constraint == Constraint::StableTriangular {
        let states = spec.shape[0];
        let above = (0..states).any(|n| data[n * states + n + 1..(n + 1) * states].iter().any(|&x| x != 0.0));
        let unstable = (0..states).any(|n| data[n * (states + 1)] >= 0.0);
        return (above || unstable).then(|| "is not lower triangular with a negative diagonal".to_owned());
    }
    if spec.constraint == Constraint::StepSize {
        let (low, high) = STEP_BOUNDS;
        let within = |&x: &f32| (low * (1.0 - 1e-5)..=high * (1.0 + 1e-5)).contains(&f64::from(x));
        return (!data.iter().all(within))
            .then(|| format!("is {}, expected a step from {low} to {high}", data[0]));
    }
    if spec.name == "order" {
        let mut sorted = data.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        if !sorted.into_iter().eq((0..data.len()).map(|i| i as f32)) {
            return Some(format!("is not a permutation of 0 to {}", data.len().saturating_sub(1)));
        }
    }
    if spec.name == "norm.running_var" && data.iter().any(|&v| v < 0.0) {
        return Some("holds negative variances".to_owned());
    }
    None
}
