//! A probe: a head and the linear classifier behind it, as one file on disk (docs/definitions.md, section 8).
//!
//! Files hold effective values under PyTorch's names, so that ten lines of PyTorch write one (`assets/examples/write_probe.py`).
//! `logits = W z + b` `[C]` from the features `z` `[F]` that the head's [`HeadOutput`] gives.

mod classes;
mod error;
mod file;
pub mod head;
pub mod head_output;
mod meta;
pub mod original;
pub mod params;
pub mod router;
pub mod s4;
pub mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::classes::{class_word, class_words};
pub use self::error::ProbeError;
use self::head::s4_layer::Kernel;
use self::head::{Head, linear};
use self::head_output::HeadOutput;
pub use self::meta::{BackboneMeta, FORMAT, Meta, replaced};
use self::params::Spec;
use super::tokens::Tokens;
use crate::model::io::array::Arrays;
use crate::model::memo::Memo;

/// Number of token counts whose kernels are cached; the oldest are evicted.
const MAX_KERNELS: usize = 8;

/// The cost of a head in the paper's "Probe Complexity and FLOPs", to be compared with what is counted: d 768, N 196, C 1000. Its
/// `S4Head` stands for the raster scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperCost {
    /// Parameters, in millions.
    pub parameters: f64,
    /// Operations, in millions.
    pub flops: f64,
}

/// The linear classifier of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    /// `[C, F]` row-major.
    pub weight: Vec<f32>,
    /// `[C]`.
    pub bias: Vec<f32>,
}

impl Classifier {
    /// Its parameters, `classifier.weight` and `classifier.bias`, as `nn.Linear(features, classes)`.
    pub fn specs(features: usize, classes: usize) -> Vec<Spec> {
        linear::specs("classifier", features, classes)
    }

    /// The weights of a class, `[F]`.
    pub fn row(&self, class: usize) -> &[f32] {
        let features = self.weight.len() / self.bias.len();
        &self.weight[class * features..][..features]
    }
}

/// A head with its parameters and its classifier.
pub struct Probe {
    /// Which head, of which backbone, for which classes.
    pub meta: Meta,
    /// The head's parameters: effective values, without the classifier. Must not change once the probe has read an image: its kernels
    /// are cached.
    pub arrays: Arrays,
    /// Maps features to logits.
    pub classifier: Classifier,
    /// The file's metadata under other keys than `ssmprobe`, kept as found.
    metadata: BTreeMap<String, String>,
    head: Box<dyn Head>,
    /// Its name in errors.
    file: String,
    /// S4 kernels by number of tokens.
    kernels: Memo<usize, Arc<Vec<Kernel>>>,
}

impl Probe {
    /// A probe that is not on disk.
    ///
    /// # Panics
    /// If `meta` names no existing head or settings that the head refuses: a bug of the caller, who built the head.
    pub fn new(meta: Meta, arrays: Arrays, classifier: Classifier) -> Self {
        let spec = head::find(&meta.head).expect("the id of a head");
        let head = spec.build(&meta.config).expect("settings the head was built with");
        let (file, metadata) = (format!("the probe `{}`", meta.head), BTreeMap::new());
        Self { meta, arrays, classifier, metadata, head, file, kernels: Memo::new(MAX_KERNELS) }
    }

    /// The head with its settings.
    pub fn head(&self) -> &dyn Head {
        &*self.head
    }

    /// Number of classes, C.
    pub fn classes(&self) -> usize {
        self.classifier.bias.len()
    }

    /// An error unless the probe can read images of `n` patch tokens of `width` channels, with a CLS token or not.
    pub fn fits(&self, width: usize, n: usize, has_cls: bool) -> Result<(), ProbeError> {
        let file = self.file.clone();
        let expected = self.meta.backbone.hidden_size;
        if width != expected {
            let backbone = self.meta.backbone.id.clone();
            return Err(ProbeError::Width { file, expected, backbone, found: width });
        }
        if n < 2 {
            return Err(ProbeError::TooFewTokens { file, found: n });
        }
        if let Some(order) = self.arrays.get("order").filter(|order| order.data.len() != n) {
            return Err(ProbeError::OrderLength { file, expected: order.data.len(), found: n });
        }
        if self.head.needs_cls() && !has_cls {
            return Err(ProbeError::NoCls { file });
        }
        Ok(())
    }

    /// How it reads one image, in float64; fails where the tokens do not fit. `image_seed`, the image's index in its
    /// dataset, seeds random orders.
    pub fn output(&self, tokens: &Tokens, image_seed: u64) -> Result<HeadOutput, ProbeError> {
        let n = tokens.grid.len();
        self.fits(tokens.width, n, tokens.cls.is_some())?;
        Ok(self.head.output(&self.arrays, &self.kernels(n), tokens, image_seed))
    }

    /// Its S4 kernels for `n` tokens, cached.
    fn kernels(&self, n: usize) -> Arc<Vec<Kernel>> {
        self.kernels.get(n, || Arc::new(self.head.kernels(&self.arrays, n)))
    }

    /// The index of a class by its name (an exact match first, then ignoring ASCII case), its number, or its
    /// [word](class_word). A name that two classes share is refused: ImageNet has two cranes.
    pub fn class(&self, asked: &str) -> Result<usize, ProbeError> {
        let names = &self.meta.classes;
        let by_name = names
            .iter()
            .position(|name| name == asked)
            .or_else(|| names.iter().position(|name| name.eq_ignore_ascii_case(asked)));
        if let Some(found) = by_name {
            let same = (0..names.len()).filter(|&index| names[index] == names[found]);
            let same: Vec<String> =
                same.map(|index| format!("`{}`", classes::numbered(names, index))).collect();
            return match &same[..] {
                [_] => Ok(found),
                all => {
                    let (file, asked, words) = (self.file.clone(), asked.to_owned(), all.join(" or "));
                    Err(ProbeError::SharedName { file, asked, words })
                }
            };
        }
        let by_number = asked.parse().ok().filter(|&index: &usize| index < self.classes());
        by_number.or_else(|| classes::by_number(names, asked)).ok_or_else(|| {
            let range = format!("a number from 0 to {}", self.classes().saturating_sub(1));
            let nearest = nearest(asked, names.iter().map(String::as_str), 5);
            let (near, far): (Vec<&str>, Vec<&str>) =
                nearest.into_iter().partition(|name| is_near(asked, name));
            let hint = match (near.as_slice(), far.as_slice()) {
                _ if asked.parse::<i64>().is_ok() => {
                    format!("it has {} classes; choose {range}", self.classes())
                }
                ([], []) => format!("choose {range}"),
                ([], some) => format!("its classes include `{}`; or choose {range}", some.join("`, `")),
                (near, _) => format!("the nearest are `{}`; or choose {range}", near.join("`, `")),
            };
            ProbeError::Class { file: self.file.clone(), asked: asked.to_owned(), hint }
        })
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        // Without the kernels: a copy may be changed.
        let copy = Self::new(self.meta.clone(), self.arrays.clone(), self.classifier.clone());
        Self { metadata: self.metadata.clone(), file: self.file.clone(), ..copy }
    }
}

/// Ids of all heads, nearest to `asked` first.
fn known_heads(asked: &str) -> String {
    let ids = head::HEADS.iter().map(|spec| spec.id);
    nearest(asked, ids, head::HEADS.len()).join(", ")
}

/// Whether `asked` may be meant for `name`: it is a part of it, or at most a third of their letters differ.
fn is_near(asked: &str, name: &str) -> bool {
    let (without, edits) = distance(asked, name);
    !without || 3 * edits <= asked.chars().count().max(name.chars().count())
}

/// Whether `name` does not contain `asked`, and their edit distance, in any case and by their first letters.
fn distance(asked: &str, name: &str) -> (bool, usize) {
    let [asked, name] = [asked, name].map(|s| s.to_lowercase().chars().take(64).collect::<String>());
    let within = !asked.is_empty() && name.contains(&asked);
    (!within, strsim::damerau_levenshtein(&asked, &name))
}

/// The `count` names nearest to `asked`: those that contain it first, then by edit distance.
fn nearest<'a>(asked: &str, names: impl Iterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let mut ranked: Vec<_> = names.map(|name| (distance(asked, name), name)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, name)| name).collect()
}
