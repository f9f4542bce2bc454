//! From photographs to tokens, the same way for every job: decoding and preprocessing on all cores, then one forward pass a batch.
//! [`prepare_ahead`] does the former on a thread of its own during the latter.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use burn::tensor::Device;

use crate::model::backbone::preprocess::{Pixels, PreprocessError, Preprocessor};
use crate::model::backbone::token_spec::{Layer, TokenSpec, Trained, describe_differences};
use crate::model::backbone::{Backbone, BackboneError};
use crate::model::data::image::Photo;
use crate::model::probe::Probe;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// A frozen backbone with its preprocessor. It owns tensors, so that it stays on one thread.
pub struct TokenReader {
    /// Computes tokens from pixels.
    pub backbone: Backbone,
    /// Computes pixels from photographs.
    pub preprocessor: Arc<Preprocessor>,
    /// The layers whose tokens are read, at least one.
    pub layers: Vec<usize>,
    /// How tokens are extracted.
    pub token_spec: TokenSpec,
}

/// Tokens of an image and the pixels they were computed from, or why there are none.
pub type Read<E, T> = Result<(T, Pixels), E>;

/// The preprocessor of the backbone in `folder`, for images of `size` pixels if that is given.
pub fn preprocessor(folder: &Path, size: Option<usize>) -> Result<Preprocessor, PreprocessError> {
    let own = Preprocessor::open(folder)?;
    match size {
        Some(size) => own.with_size(size),
        None => Ok(own),
    }
}

/// A warning if tokens of these weights, of this configuration, settings and preprocessing are not those that the probe in a file was
/// trained on.
pub fn token_warning(
    (path, probe): (&Path, &Probe),
    (weights, config): (&str, Option<&str>),
    token_spec: &TokenSpec,
    preprocessing: &str,
) -> Option<String> {
    let backbone = &probe.meta.backbone;
    let trained_on = match backbone.replaced(weights, config) {
        Some(what) => format!("{what} ({})", backbone.id),
        None => {
            let own = Trained::from_training(probe.meta.training.as_ref())?;
            let differences = own.differences(token_spec, preprocessing);
            (!differences.is_empty())
                .then(|| format!("other tokens ({})", describe_differences(&differences)))?
        }
    };
    Some(format!("probe {} was trained on {trained_on}; its numbers may mean little", path.display()))
}

impl TokenReader {
    /// Opens the backbone in `folder` on a device, with tokens as `token_spec` says.
    pub fn open(
        folder: &Path,
        preprocessor: Preprocessor,
        token_spec: &TokenSpec,
        device: &Device,
    ) -> Result<Self, BackboneError> {
        let backbone = Backbone::open_in(folder, device, token_spec.arithmetic)?
            .with_mae_order(token_spec.mae_order)
            .with_joined(token_spec.joined());
        let (layers, preprocessor) = (backbone.layers(), Arc::new(preprocessor));
        let layer = token_spec.layer.unwrap_or(layers);
        backbone.config().check_layer(layer, token_spec.joined())?;
        let token_spec = token_spec.canonical(layers, backbone.model_type());
        Ok(Self { backbone, preprocessor, layers: vec![layer], token_spec })
    }

    /// The same reader for the tokens after these layers, at least one and none beyond the last.
    pub fn with_layers(self, layers: &[Layer]) -> Self {
        let last = self.backbone.layers();
        let layers = layers.iter().map(|layer| layer.0.unwrap_or(last)).collect();
        Self { layers, ..self }
    }

    /// The layer whose tokens are read; of several, the first.
    pub fn layer(&self) -> usize {
        self.layers[0]
    }

    /// How its tokens differ from those `probe` was trained on, in words; a probe file that does not say is taken to mean the last layer and
    /// the backbone's own size.
    pub fn changes(&self, probe: &Probe) -> Vec<String> {
        let trained = Trained::from_training(probe.meta.training.as_ref());
        let trained = trained.unwrap_or(Trained { token_spec: TokenSpec::default(), preprocessing: None });
        let (weights, config) = (self.backbone.fingerprint(), self.backbone.config().key());
        let replaced = probe.meta.backbone.replaced(weights, Some(&config));
        let replaced = replaced.map(|what| format!("tokens of {what}"));
        replaced.into_iter().chain(trained.changes(&self.token_spec, &self.preprocessor.key())).collect()
    }

    /// Pixels of a photograph; fails if the backbone cannot read their size.
    pub fn prepare(&self, photo: &Photo) -> anyhow::Result<Pixels> {
        let pixels = self.preprocessor.apply(photo)?;
        self.backbone.grid(pixels.height, pixels.width)?;
        Ok(pixels)
    }

    /// The picture of prepared pixels that maps of tokens lie over, every patch at the place of its token.
    pub fn seen(&self, pixels: &Pixels) -> Picture {
        self.backbone.rearranged(self.preprocessor.seen(pixels), pixels)
    }

    /// Tokens of prepared images, in their order: one forward pass.
    pub fn forward(&self, pixels: &[Pixels]) -> Result<Vec<Tokens>, BackboneError> {
        Ok(self.backbone.forward_layers(pixels, &self.layers[..1], true)?.into_iter().flatten().collect())
    }

    /// Tokens of prepared images after every one of [`layers`](Self::layers), in their order: one forward pass.
    pub fn forward_layers(&self, pixels: &[Pixels]) -> Result<Vec<Vec<Tokens>>, BackboneError> {
        self.backbone.forward_layers(pixels, &self.layers, true)
    }

    /// Attention rollout of an image to its tokens, `[N]`, or why there is none.
    pub fn rollout(&self, pixels: &Pixels) -> Result<Vec<f32>, String> {
        self.backbone.rollout(pixels, self.layer()).map_err(|error| error.to_string())
    }
}

/// Tokens and pixels of a batch, in its order, by one pass `forward` over the images that could be prepared. `failed` turns an error of
/// that pass into one for each of them, or into one for all.
pub fn read_batch<T, E: Clone, X>(
    batch: Vec<Result<Pixels, E>>,
    forward: impl FnOnce(&[Pixels]) -> Result<Vec<T>, BackboneError>,
    failed: impl FnOnce(BackboneError) -> Result<E, X>,
) -> Result<Vec<Read<E, T>>, X> {
    let mut pixels = Vec::with_capacity(batch.len());
    let keep = |prepared: Result<Pixels, E>| prepared.map(|ready| pixels.push(ready)).err();
    let faults: Vec<Option<E>> = batch.into_iter().map(keep).collect();
    let mut read = match forward(&pixels) {
        Ok(tokens) => Ok(tokens.into_iter().zip(pixels)),
        Err(error) => Err(failed(error)?),
    };
    let one = |fault: Option<E>| match (fault, &mut read) {
        (Some(fault), _) => Err(fault),
        (None, Ok(read)) => Ok(read.next().expect("tokens of every image")),
        (None, Err(fault)) => Err(fault.clone()),
    };
    Ok(faults.into_iter().map(one).collect())
}

/// Prepares batch after batch by `make` and sends them, until all are done or the receiver is gone; returns the time it took. Meant for
/// a thread beside the one that reads: a channel of one batch bounds the queue.
pub fn prepare_ahead<'a, T: 'a, U>(
    batches: impl Iterator<Item = &'a [T]>,
    make: impl Fn(&[T]) -> Vec<U>,
    send: SyncSender<Vec<U>>,
) -> Duration {
    let mut spent = Duration::ZERO;
    for batch in batches {
        let begun = Instant::now();
        let made = make(batch);
        spent += begun.elapsed();
        if send.send(made).is_err() {
            break;
        }
    }
    spent
}
