//! Imports heads as other projects save them, each as a probe.
//!
//! A batch normalisation without weight and bias before a classifier is folded into it: `W (z - mean) / s + b` with
//! `s = sqrt(variance + eps)` is `(W / s) z + (b - W mean / s)`, computed in float64. It is the same function, so that
//! logits equal the original's up to float32 rounding; eps is 1e-6, as in these projects.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::head::{self, Config, Dims};
use super::{BackboneMeta, Classifier, Meta, Probe};
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::backbone::weights::{KeyErrors, Weights, WeightsError};
use crate::model::grid::Grid;
use crate::model::io::array::{Array, Arrays};
use crate::model::probe::settings::ConfigError;

/// Added to the variance in the batch normalisation.
const EPSILON: f64 = 1e-6;
/// Keys of a checkpoint under which a head may lie, the likeliest first; empty for the top level.
const HEAD_KEYS: &[&str] = &["", "state_dict", "model", "classifier"];
/// Longest axis of a head's tensors: classes, or features.
const MAX_AXIS: usize = 1 << 20;

/// A kind of head that another project publishes.
#[derive(Debug)]
pub struct HeadProject {
    /// Its id on the command line.
    pub id: &'static str,
    /// Its name on the screen.
    pub name: &'static str,
    /// The end of a tensor's name by which a head is found; what precedes it is the head's prefix.
    suffix: &'static str,
    /// The last parts of all names in a file of such heads, if they have no others.
    endings: Option<&'static [&'static str]>,
    /// Prefixes of names that are ignored: those of the backbone, where it was saved with its head.
    left_out: &'static [&'static str],
    read: fn(&Saved) -> ReadHead,
}

/// A probe, and notes on how it was imported, one line each.
pub type ReadHead = Result<(Probe, Vec<String>), HeadError>;

/// Every kind of head, in the order menus show them.
pub const HEAD_PROJECTS: &[&HeadProject] = &[&EFFICIENT_PROBING, &DINOV2_LINEAR];

/// `billpsomas/efficient-probing` (Psomas et al., 2025): pooling, batch normalisation, classifier, as a `Sequential`.
const EFFICIENT_PROBING: HeadProject = HeadProject {
    id: "ep",
    name: "Efficient Probing",
    suffix: "0.cls_token",
    endings: None,
    left_out: &[
        "cls_token",
        "pos_embed",
        "mask_token",
        "patch_embed.",
        "blocks.",
        "norm.",
        "fc_norm.",
        "decoder_",
    ],
    read: efficient,
};

/// The linear classifiers of `facebookresearch/dinov2` (Oquab et al., 2024) on the tokens of the last layer, or of the last 4.
const DINOV2_LINEAR: HeadProject = HeadProject {
    id: "dinov2-linear",
    name: "DINOv2's linear heads",
    suffix: "weight",
    endings: Some(&["weight", "bias"]),
    left_out: &[],
    read: linear,
};

/// The kind of head with this id.
pub fn find(id: &str) -> Option<&'static HeadProject> {
    HEAD_PROJECTS.iter().copied().find(|project| project.id == id)
}

/// Why a file cannot be imported as a probe.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum HeadError {
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error("{path}: {found} of {project}: its names are {names}; --key and --prefix choose among several")]
    NoHead { path: PathBuf, project: &'static str, found: &'static str, names: String },
    #[error("{path}: these are not weights of {project}{keys}")]
    Keys { path: PathBuf, project: &'static str, keys: KeyErrors },
    #[error("{path}: {name:?} {expected} is missing: these are not weights of {project}")]
    Missing { path: PathBuf, name: String, expected: String, project: &'static str },
    #[error("{path}: {name:?} is {found:?}: {expected}")]
    Shape { path: PathBuf, name: String, found: Vec<usize>, expected: String },
    #[error("{path}: invalid head settings")]
    Config { path: PathBuf, source: ConfigError },
    #[error("{path}: values of {name:?} must not be negative, but element {index} is {value}")]
    Variance { path: PathBuf, name: String, index: usize, value: f32 },
    #[error(
        "{project}: the weights do not record the token width: give --backbone FOLDER, the backbone they \
         were trained on"
    )]
    NoBackbone { project: &'static str },
}

/// A saved head, whose tensors are named without its prefix.
struct Saved<'a> {
    path: &'a Path,
    weights: Weights,
    project: &'static HeadProject,
    prefix: String,
    backbone: BackboneMeta,
}

/// Imports a head of `project`, with notes on how. `key` and `prefix` choose among several heads of a file;
/// `backbone`: the one whose tokens it reads, with `hidden_size` 0 where that is not known.
pub fn read(
    path: &Path,
    project: &'static HeadProject,
    backbone: BackboneMeta,
    key: Option<&str>,
    prefix: Option<&str>,
) -> ReadHead {
    let weights = match key {
        Some(key) => Weights::open_file(path, &[key])?,
        None => Weights::open_file(path, HEAD_KEYS)?,
    };
    let found = weights.names().filter_map(|(name, _)| name.strip_suffix(project.suffix));
    let found: Vec<&str> = found.filter(|before| before.is_empty() || before.ends_with('.')).collect();
    let chosen = match (prefix, found.as_slice()) {
        (Some(prefix), _) => found.iter().find(|before| **before == prefix).copied(),
        (None, &[one]) => Some(one),
        (None, _) => None,
    };
    let Some(prefix) = chosen.map(str::to_owned) else {
        let names: Vec<&str> = weights.names().map(|(name, _)| name).take(10).collect();
        let (path, names) = (path.to_owned(), names.join(", "));
        let is_own = |name: &str| {
            let ending = name.rsplit('.').next().unwrap_or(name);
            project.endings.is_none_or(|endings| endings.contains(&ending))
        };
        let found = match (found.len() > 1 && prefix.is_none(), weights.names().all(|(name, _)| is_own(name)))
        {
            (true, true) => "several heads",
            (true, false) => "this is not a file",
            (false, _) => "no head",
        };
        return Err(HeadError::NoHead { path, project: project.name, found, names });
    };
    (project.read)(&Saved { path, weights, project, prefix, backbone })
}

impl Saved<'_> {
    /// The shape of a tensor of N axes, none of which may be empty or longer than [`MAX_AXIS`]; else an error with `expected`.
    fn axes<const N: usize>(&self, name: &str, expected: &str) -> Result<[usize; N], HeadError> {
        let full = format!("{}{name}", self.prefix);
        let Some(found) = self.weights.shape(&full) else {
            let (path, expected, project) = (self.path.to_owned(), expected.to_owned(), self.project.name);
            return Err(HeadError::Missing { path, name: full, expected, project });
        };
        let whole = found.iter().all(|axis| (1..=MAX_AXIS).contains(axis));
        <[usize; N]>::try_from(found)
            .ok()
            .filter(|_| whole)
            .ok_or_else(|| self.misshapen(name, format!("expected {expected}")))
    }

    fn misshapen(&self, name: &str, expected: String) -> HeadError {
        let name = format!("{}{name}", self.prefix);
        let found = self.weights.shape(&name).unwrap_or_default().to_owned();
        HeadError::Shape { path: self.path.to_owned(), name, found, expected }
    }

    /// Checks that the file holds tensors of these names and shapes, and no others but ignored ones; returns the number of those.
    fn check(&self, needed: &[(&str, Vec<usize>)]) -> Result<usize, HeadError> {
        let needed = needed.iter().map(|(name, shape)| (format!("{}{name}", self.prefix), shape.clone()));
        let needed: Vec<_> = needed.collect();
        let left_out = |name: &str| {
            let inner = name.trim_start_matches("module.").trim_start_matches("model.");
            self.project.left_out.iter().any(|start| inner.starts_with(start))
        };
        let keys = self.weights.key_errors(&needed, &left_out);
        if !keys.is_empty() {
            return Err(HeadError::Keys { path: self.path.to_owned(), project: self.project.name, keys });
        }
        Ok(self.weights.names().filter(|(name, _)| left_out(name)).count())
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, HeadError> {
        Ok(self.weights.values(&format!("{}{name}", self.prefix))?)
    }

    /// The classifier `name` with the batch normalisation `norm` before it folded in.
    fn fold_norm(&self, norm: &str, name: &str) -> Result<Classifier, HeadError> {
        let (mean, variance) =
            (self.values(&format!("{norm}.running_mean"))?, self.values(&format!("{norm}.running_var"))?);
        if let Some(index) = variance.iter().position(|x| *x < 0.0) {
            let (path, value) = (self.path.to_owned(), variance[index]);
            return Err(HeadError::Variance { path, name: format!("{norm}.running_var"), index, value });
        }
        let (mut weight, mut bias) =
            (self.values(&format!("{name}.weight"))?, self.values(&format!("{name}.bias"))?);
        for (row, bias) in weight.chunks_exact_mut(mean.len()).zip(&mut bias) {
            let mut shift = 0.0;
            for ((w, mean), variance) in row.iter_mut().zip(&mean).zip(&variance) {
                let scaled = f64::from(*w) / (f64::from(*variance) + EPSILON).sqrt();
                shift += scaled * f64::from(*mean);
                *w = scaled as f32;
            }
            *bias = (f64::from(*bias) - shift) as f32;
        }
        Ok(Classifier { weight, bias })
    }

    /// The probe with this head; fails where its settings do not fit its sizes.
    fn probe(
        &self,
        id: &str,
        config: Config,
        dims: &Dims,
        arrays: Arrays,
        classifier: Classifier,
    ) -> Result<Probe, HeadError> {
        let refused = |source| HeadError::Config { path: self.path.to_owned(), source };
        let head = head::find(id).expect("a head of the list").build(&config).map_err(refused)?;
        head.check(dims).map_err(refused)?;
        let backbone = BackboneMeta { hidden_size: dims.width, ..self.backbone.clone() };
        Ok(Probe::new(Meta::new(id, head.settings(dims.width), backbone), arrays, classifier))
    }
}

fn efficient(saved: &Saved) -> ReadHead {
    let [_, queries, d] = saved.axes("0.cls_token", "[1, queries, width]")?;
    let [features, _] = saved.axes("0.v.weight", "[features, width]")?;
    let [classes, _] = saved.axes("2.weight", "[classes, features]")?;
    let left_out = saved.check(&[
        ("0.cls_token", vec![1, queries, d]),
        ("0.v.weight", vec![features, d]),
        ("1.running_mean", vec![features]),
        ("1.running_var", vec![features]),
        ("2.weight", vec![classes, features]),
        ("2.bias", vec![classes]),
    ])?;
    // The project's own integer division: `features = d / d_out`, for a whole `d_out`.
    let d_out = d / features;
    if d_out == 0 || d / d_out != features {
        let what = format!("tokens of width {d} need values {d} / d_out wide, for an integer d_out >= 1");
        return Err(saved.misshapen("0.v.weight", what));
    }
    if ![0, d].contains(&saved.backbone.hidden_size) {
        let (id, width) = (&saved.backbone.id, saved.backbone.hidden_size);
        return Err(saved.misshapen("0.cls_token", format!("the tokens of {id} have width {width}")));
    }
    let arrays = Arrays::from([
        ("query".to_owned(), Array::new([queries, d], saved.values("0.cls_token")?)),
        ("value.weight".to_owned(), Array::new([features, d], saved.values("0.v.weight")?)),
    ]);
    let classifier = saved.fold_norm("1", "2")?;
    let config = Config { queries: Some(queries), width: Some(features), ..Config::default() };
    let dims = Dims { width: d, grid: Grid::new(1, 2), classes };
    let values =
        if d_out > 1 { format!(", values of width {features} (d_out {d_out})") } else { String::new() };
    let mut notes = vec![
        format!("{}: {queries} queries of width {d}{values}, {classes} classes", saved.project.name),
        "its batch normalisation (eps 1e-6) is folded into the classifier".to_owned(),
    ];
    if left_out > 0 {
        notes.push(format!("left out: {left_out} tensors of its backbone"));
    }
    Ok((saved.probe("efficient", config, &dims, arrays, classifier)?, notes))
}

fn linear(saved: &Saved) -> ReadHead {
    let d = saved.backbone.hidden_size;
    if d == 0 {
        return Err(HeadError::NoBackbone { project: saved.project.name });
    }
    let [classes, features] = saved.axes("weight", "[classes, features]")?;
    saved.check(&[("weight", vec![classes, features]), ("bias", vec![classes])])?;
    let (id, blocks, reads) = match (features / d, features % d) {
        (1, 0) => ("cls", 1, "the CLS token"),
        (2, 0) => ("cls-mean", 1, "the CLS token, then the mean of the patch tokens"),
        (4, 0) => ("cls", 4, "the CLS tokens of the last 4 layers"),
        (5, 0) => (
            "cls-mean",
            4,
            "the CLS tokens of the last 4 layers, then the mean of the patch tokens of the last",
        ),
        _ => {
            let what = format!(
                "at token width {d} a head reads CLS from the last layer ({d} features) or the last 4 ({}), \
                 or that and the mean of the last layer's patches ({} or {}): is --backbone the one it was \
                 trained on?",
                4 * d,
                2 * d,
                5 * d
            );
            return Err(saved.misshapen("weight", what));
        }
    };
    let classifier = Classifier { weight: saved.values("weight")?, bias: saved.values("bias")? };
    let dims = Dims { width: blocks * d, grid: Grid::new(1, 2), classes };
    let notes = vec![format!("{}: {classes} classes from {reads}", saved.project.name)];
    let config = Config { blocks: Some(blocks), ..Config::default() };
    let mut probe = saved.probe(id, config, &dims, Arrays::new(), classifier)?;
    if blocks > 1 {
        let token_spec = TokenSpec { blocks: Some(blocks), ..TokenSpec::default() };
        probe.meta.training = Some(json!({ "tokens": { "layer": token_spec.name() } }));
    }
    Ok((probe, notes))
}
