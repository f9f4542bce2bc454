//! The model that is trained: a head and its linear classifier on a device.
//!
//! `logits = features W^T + b`, `[B, C]`, with `classifier.weight` `[C, F]` and `classifier.bias`
//! `[C]` as `nn.Linear(F, C)`, beside the head's parameters in one [`Params`].

use std::sync::Arc;

use burn::tensor::{Device, Tensor};

use crate::model::io::array::Arrays;
use crate::model::ops::pooling::Pooling;
use crate::model::probe::head::{Batch, Config, ConfigError, Dims, Head, HeadSpec, linear};
use crate::model::probe::params::{Init, Params, Spec};
use crate::model::probe::{BackboneMeta, Classifier, Meta, Probe, specs};

/// Why a model cannot be built.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModelError {
    #[error("head `{head}`: {source}")]
    Config { head: &'static str, source: ConfigError },
    #[error("head `{head}` needs at least 2 patch tokens, the grid has {found}; use larger images")]
    TooFewTokens { head: &'static str, found: usize },
    #[error("head `{head}` needs at least one class; the dataset has none")]
    NoClasses { head: &'static str },
}

/// A head and its classifier.
#[derive(Clone)]
pub struct Model {
    kind: &'static HeadSpec,
    head: Arc<dyn Head>,
    config: Config,
    params: Params,
}

impl Model {
    /// A model with initial values, which depend on `seed` and head alone; so do random orders, unless the settings have a seed.
    pub fn start(
        kind: &'static HeadSpec,
        config: &Config,
        dims: Dims,
        seed: u64,
        device: &Device,
    ) -> Result<Self, ModelError> {
        let failed = |source| ModelError::Config { head: kind.id, source };
        let head: Arc<dyn Head> = kind.build(&kind.begun(config, seed)).map_err(failed)?.into();
        head.check(&dims).map_err(failed)?;
        if dims.grid.len() < 2 {
            return Err(ModelError::TooFewTokens { head: kind.id, found: dims.grid.len() });
        }
        if dims.classes == 0 {
            return Err(ModelError::NoClasses { head: kind.id });
        }
        let params = Params::start(specs(&*head, &dims), seed, kind.start_scope(), device);
        let config = Config { rest: config.rest.clone(), ..head.settings(dims.width) };
        Ok(Self { kind, head, config, params })
    }

    /// The same model with a classifier of normal weights of this standard deviation, drawn as in [`start`](Self::start), and a bias of 0.
    pub fn with_normal_classifier(self, deviation: f32, seed: u64) -> Self {
        let scope = self.kind.start_scope();
        let params = self.params.clone().map(|spec, value| {
            let init = match spec.name.as_str() {
                "classifier.weight" => Init::Normal(deviation),
                "classifier.bias" => Init::Constant(0.0),
                _ => return value,
            };
            let start = Spec { init, ..spec.clone() }.start(seed, scope);
            Tensor::from_data(&start.data[..], &value.device())
        });
        self.with_params(params)
    }

    /// The model as a probe, with its current parameters.
    pub fn to_probe(
        &self,
        backbone: BackboneMeta,
        classes: Vec<String>,
        training: Option<serde_json::Value>,
    ) -> Probe {
        self.probe_of(self.params.to_arrays(), backbone, classes, training)
    }

    /// The model as a probe whose parameters have the effective values `arrays`.
    pub fn probe_of(
        &self,
        mut arrays: Arrays,
        backbone: BackboneMeta,
        classes: Vec<String>,
        training: Option<serde_json::Value>,
    ) -> Probe {
        let mut take = |name| arrays.shift_remove(name).expect("a model has a classifier").data;
        let classifier = Classifier { weight: take("classifier.weight"), bias: take("classifier.bias") };
        let meta = Meta { classes, training, ..Meta::new(self.kind.id, self.config.clone(), backbone) };
        Probe::new(meta, arrays, classifier)
    }

    /// The head.
    pub fn head(&self) -> &dyn Head {
        &*self.head
    }

    /// The head's settings, defaults filled in.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All parameters, the classifier's last.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The same model with other values of the same parameters.
    pub fn with_params(self, params: Params) -> Self {
        Self { params, ..self }
    }

    /// Number of trained values.
    pub fn parameters(&self) -> usize {
        self.params.count()
    }

    /// Logits of a batch, `[B, C]`.
    pub fn logits(&self, batch: &Batch) -> Tensor<2> {
        linear::apply(&self.params, "classifier", self.head.features(&self.params, batch))
    }

    /// Whether its head, whose pooling this is, reads patch tokens otherwise, and so in [float32](Batch::in_float32). A head
    /// without a pooling that needs the CLS token reads that alone.
    pub fn reads_float32(&self, pooling: Option<&Pooling>) -> bool {
        pooling.is_none() && !self.head.needs_cls()
    }

    /// The same from its head's [pools](Self::raw_features_of), with the statistics of training.
    pub fn logits_of(&self, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        let features = self.head.normalise(&self.params, self.raw_features_of(pooled, batch), false);
        linear::apply(&self.params, "classifier", features)
    }

    /// Its head's [`raw_features`](Head::raw_features) of a batch, `[B, F]`.
    pub fn raw_features(&self, batch: &Batch) -> Tensor<2> {
        self.head.raw_features(&self.params, batch)
    }

    /// The same from the head's pools, `[B, M, d]`, or `[B, M, d + 1]` if the sums of the weights follow.
    pub fn raw_features_of(&self, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        self.head.finish(&self.params, pooled, batch)
    }

    /// The logits without the bias, `[B, C]`, of the raw features of a training batch, and the bias, `[C]`.
    pub fn training_products(&self, raw: Tensor<2>) -> (Tensor<2>, Tensor<1>) {
        linear::products(&self.params, "classifier", self.head.normalise(&self.params, raw, true))
    }

    /// Updates the buffers (running statistics) from the raw features of a batch, detached from the graph. To be called in each
    /// training step, before the parameters are updated.
    pub fn observe(self, raw: Tensor<2>) -> Self {
        let params = self.head.observe(self.params, raw);
        Self { params, ..self }
    }
}
