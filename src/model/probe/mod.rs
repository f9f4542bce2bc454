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

pub use self::classes::{by_place, class_word, class_words, has_class};
pub use self::error::ProbeError;
pub use self::file::MAX_FILE_BYTES;
use self::head::s4_layer::Kernel;
use self::head::{Dims, Head, linear};
use self::head_output::HeadOutput;
pub use self::meta::{BackboneMeta, Meta, replaced};
use self::params::{HostParams, Params, Spec};
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
    /// The weights of a class, `[F]`.
    pub fn row(&self, class: usize) -> &[f32] {
        let features = self.weight.len() / self.bias.len();
        &self.weight[class * features..][..features]
    }
}

/// The parameters of a head, then those of its classifier, `classifier.weight` and `classifier.bias`, as `nn.Linear(F, C)`.
pub(super) fn specs(head: &dyn Head, dims: &Dims) -> Vec<Spec> {
    let classifier = linear::specs("classifier", head.features_len(dims.width), dims.classes);
    head.specs(dims).into_iter().chain(classifier).collect()
}

/// A head with its parameters and its classifier.
pub struct Probe {
    /// Which head, of which backbone, for which classes.
    pub meta: Meta,
    /// The head's parameters: effective values, without the classifier. Must not change once the probe has read an image: what
    /// follows from them is cached.
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
    /// The head's parameters in float64, of a head that reads tensors.
    tensors: Memo<(), Params>,
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
        let (kernels, tensors) = (Memo::new(MAX_KERNELS), Memo::new(1));
        Self { meta, arrays, classifier, metadata, head, file, kernels, tensors }
    }

    /// The head with its settings.
    pub fn head(&self) -> &dyn Head {
        &*self.head
    }

    /// The head's parameters, as it reads one image with them and with these `kernels`.
    pub fn host_params<'a>(&'a self, kernels: &'a [Kernel]) -> HostParams<'a> {
        HostParams { arrays: &self.arrays, tensors: &self.tensors, kernels }
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
        Ok(self.head.output(&self.host_params(&self.kernels(n)), tokens, image_seed))
    }

    /// Its S4 kernels for `n` tokens, cached.
    fn kernels(&self, n: usize) -> Arc<Vec<Kernel>> {
        self.kernels.get(n, || Arc::new(self.head.kernels(&self.arrays, n)))
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        // Without what is cached: a copy may be changed.
        let copy = Self::new(self.meta.clone(), self.arrays.clone(), self.classifier.clone());
        Self { metadata: self.metadata.clone(), file: self.file.clone(), ..copy }
    }
}
