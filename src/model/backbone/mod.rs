//! Frozen backbones: from pixels to tokens (docs/definitions.md, section 7), and the one list of their families.
//!
//! A backbone is a folder as the Hugging Face Hub lays it out: `config.json` ([`config`]) and the
//! weights ([`weights`]), checked key by key against [`keys`]. A single network (`vit`, built of [`block`]s) serves all families;
//! [`family`] and [`names`] hold their differences, [`position`] and [`rotary`] their position encodings. The tokens equal
//! `last_hidden_state` of transformers for the same files and pixels (timm's `forward_features` in EVA-02): after the final layer norm
//! (`post_layernorm` in SigLIP), except in BEiT, data2vec and EVA-02 with mean pooling and in CLIP, which apply none to their tokens.

pub(in crate::model) mod activation;
pub mod arithmetic;
mod batch;
mod batch_limit;
pub mod block;
pub mod config;
mod error;
pub mod family;
mod fields;
mod fused;
pub mod hub;
pub mod keys;
pub mod names;
pub mod order;
pub mod original;
mod patch_subset;
pub mod position;
pub mod preprocess;
pub mod rotary;
pub mod token_spec;
mod vit;
pub mod weights;

use std::path::Path;
use std::slice;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use rayon::prelude::*;

use self::arithmetic::Arithmetic;
use self::batch_limit::BatchLimit;
use self::block::Reader;
use self::config::Config;
pub use self::error::BackboneError;
use self::family::Family;
use self::order::MaeOrder;
use self::vit::{Layout, Vit};
use self::weights::Weights;
use super::device;
use super::grid::Grid;
use super::ops::gpu::{copy_to_host, gpu_of};
use super::picture::Picture;
use super::tokens::Tokens;
use crate::model::backbone::preprocess::Pixels;
use crate::model::io::failpoint;

/// Every family, in the order menus show them.
pub const FAMILIES: &[&Family] = &[
    &family::VIT_MAE,
    &family::BEIT,
    &family::DINOV2,
    &family::DINOV2_REGISTERS,
    &family::DINOV3,
    &family::EVA02,
    &family::CLIP,
    &family::CLIP_VISION,
    &family::SIGLIP,
    &family::SIGLIP_VISION,
    &family::IJEPA,
    &family::DATA2VEC,
    &family::DEIT,
    &family::VIT_MSN,
    &family::VIT,
];

/// The family of a `model_type`, if it is known.
pub fn find(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().find(|family| family.model_type == model_type)
}

/// The help text that lists every family by its `model_type`, one per line.
pub fn listed() -> String {
    let wide = FAMILIES.iter().map(|family| family.model_type.len()).max().unwrap_or(0);
    let line = |family: &&Family| {
        let cls = if family.cls { "" } else { "; no CLS token" };
        format!("  {:wide$}  {}{cls}\n", family.model_type, family.name)
    };
    let lines: String = FAMILIES.iter().map(line).collect();
    format!("Backbones, by the model_type of their config.json:\n{lines}")
}

/// A frozen backbone on a device.
pub struct Backbone {
    id: String,
    fingerprint: String,
    encoder: Vit,
    device: Device,
    batch_limit: BatchLimit,
    order: MaeOrder,
    /// Number of layers concatenated in a token, 1 or more.
    joined: usize,
}

impl Backbone {
    /// Opens the folder `dir` and loads the weights to `device` in float32, one tensor at a time.
    pub fn open(dir: &Path, device: &Device) -> Result<Self, BackboneError> {
        Self::open_in(dir, device, Arithmetic::Float32)
    }

    /// [`open`](Self::open), with matrix products in another precision; an error if the device does not support it.
    pub fn open_in(dir: &Path, device: &Device, arithmetic: Arithmetic) -> Result<Self, BackboneError> {
        arithmetic.check(device)?;
        let config = Config::open(dir)?;
        let mut weights = Weights::open(dir)?;
        let prefix = keys::prefix(&config, |name| weights.contains(name));
        // transformers 5 saves `ViTMSNForImageClassification` without the prefix of its layers alone.
        weights.add_prefix(prefix, &format!("{}.", config.family.names.layers));
        weights.check(&keys::expected(&config, prefix), &|name| keys::ignored(&config, prefix, name))?;
        let reader = Reader { weights: &weights, prefix, device, arithmetic };
        Ok(Self {
            id: id(dir),
            fingerprint: weights.fingerprint(),
            encoder: Vit::read(config, &reader)?,
            device: device.clone(),
            batch_limit: BatchLimit::new(),
            order: MaeOrder::default(),
            joined: 1,
        })
    }

    /// Sets the order in which ViT-MAE's patch tokens are returned; other families always keep raster order.
    pub fn with_mae_order(self, order: MaeOrder) -> Self {
        Self { order, ..self }
    }

    /// Sets the number of layers that are concatenated: a token after layer `l` then holds those after `joined` consecutive
    /// layers, `l` being the last, and CLS, registers and patches are `joined` times as wide.
    pub fn with_joined(self, joined: usize) -> Self {
        Self { joined, ..self }
    }

    /// Its name: `owner/name` for a folder of the Hub's cache, else the name of the folder.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `model_type` of its `config.json`.
    pub fn model_type(&self) -> &'static str {
        self.config().family.model_type
    }

    /// Width of its tokens, d: the hidden size times the number of concatenated layers.
    pub fn width(&self) -> usize {
        self.joined * self.config().width
    }

    /// Number of transformer layers.
    pub fn layers(&self) -> usize {
        self.config().layers
    }

    /// SHA-256 of the weights, in hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The configuration read from its `config.json`.
    pub fn config(&self) -> &Config {
        &self.encoder.config
    }

    /// Most images per pass, if the device has run out of memory with more.
    pub fn held_at_once(&self) -> Option<usize> {
        self.batch_limit.get()
    }

    /// The patch grid of an image of this size in pixels; an error if it cannot be cut into patches.
    pub fn grid(&self, height: usize, width: usize) -> Result<Grid, BackboneError> {
        self.config().grid_of(height, width)
    }

    /// The tokens of each image: transformers' `last_hidden_state`.
    pub fn forward(&self, pixels: &[Pixels]) -> Result<Vec<Tokens>, BackboneError> {
        let images = self.forward_layers(pixels, &[self.layers()], true)?;
        Ok(images.into_iter().flatten().collect())
    }

    /// For each image, the tokens after each of `layers`: 0 are the embeddings, `l` is the output
    /// of layer `l` with its residual. `normed` applies the backbone's final layer norm to every
    /// one of them, where it has one. Consecutive images of one size are batched, on a GPU up to its
    /// memory, in passes whose computation overlaps with the host's copies of the others.
    pub fn forward_layers(
        &self,
        pixels: &[Pixels],
        layers: &[usize],
        normed: bool,
    ) -> Result<Vec<Vec<Tokens>>, BackboneError> {
        for image in pixels {
            self.grid(image.height, image.width)?;
        }
        let wanted = self.layers_to_compute(layers)?;
        let cores = batch::cores(&self.device);
        let mut batches = Vec::new();
        for group in pixels.chunk_by(|a, b| (a.height, a.width) == (b.height, b.width)) {
            let (height, width) = (group[0].height, group[0].width);
            let grid = self.grid(height, width)?;
            let layout = self.encoder.layout(grid, &self.device);
            let batch = group.len().div_ceil(cores).min(self.images_at_once(height * width, grid.len()));
            batches.extend(group.chunks(batch).map(|batch| (layout.clone(), batch)));
        }
        let gpu = gpu_of(&self.device).map(|gpu| gpu.client());
        let run = |(layout, batch): (Arc<Layout>, &[Pixels])| {
            let grid = layout.grid;
            let stages = |pass: &[Pixels]| {
                self.join_layers(self.encoder.forward(self.upload(pass), &layout, &wanted, normed))
            };
            let Some(gpu) = &gpu else {
                return self.batch_limit.run(batch, &self.device, &|pass| {
                    self.tokens_by_image(pass, grid, stages(pass).into_iter().map(Tensor::into_data))
                });
            };
            let tokens = (self.config().prefix_tokens() + grid.len()) * self.width();
            let size = batch::images_a_pass(batch.len(), (layers.len() * tokens).max(batch[0].values.len()));
            self.batch_limit.run_ahead(batch, size, &self.device, &|pass| {
                // Enqueued by this thread, directly after the computation: a copy waits for everything enqueued on the device
                // before it, which from another thread could include the next pass.
                let copies = stages(pass).into_iter().map(copy_to_host).collect();
                let (read, numbers) = (gpu.read_tensor_async(copies), [pass.len() * tokens]);
                move || {
                    let stages = pollster::block_on(read).expect("tokens that were computed").into_iter();
                    let stages = stages.map(|bytes| TensorData::from_bytes(bytes, numbers, DType::F32));
                    self.tokens_by_image(pass, grid, stages)
                }
            })
        };
        Ok(batch::run_all(batches, &self.device, run))
    }

    /// The layers whose tokens are concatenated for each of `layers`, `joined` per layer, in order.
    fn layers_to_compute(&self, layers: &[usize]) -> Result<Vec<usize>, BackboneError> {
        layers.iter().try_for_each(|&layer| self.config().check_layer(layer, self.joined))?;
        Ok(layers.iter().flat_map(|&layer| layer + 1 - self.joined..=layer).collect())
    }

    /// Concatenates stages `[B, T, d]` of [`layers_to_compute`](Self::layers_to_compute) along the channels, `joined` at a time.
    fn join_layers(&self, stages: Vec<Tensor<3>>) -> Vec<Tensor<3>> {
        match self.joined {
            1 => stages,
            joined => stages.chunks(joined).map(|own| Tensor::cat(own.to_vec(), 2)).collect(),
        }
    }

    /// Attention rollout of one image (docs/definitions.md, section 11): the influence of each patch on the patch tokens after
    /// `layer`, averaged over these, `[N]`, in the order of the returned tokens and in the precision of the device.
    ///
    /// It takes another forward pass, in which every layer's attention matrix is materialised.
    ///
    /// # Errors
    /// If the image cannot be cut into patches, there is no such layer, or no attention before it.
    pub fn rollout(&self, pixels: &Pixels, layer: usize) -> Result<Vec<f32>, BackboneError> {
        let grid = self.grid(pixels.height, pixels.width)?;
        if layer == 0 {
            return Err(BackboneError::BeforeAttention);
        }
        self.config().check_layer(layer, 1)?;
        failpoint::device_step(1);
        let rollout = self.encoder.rollout(self.upload(slice::from_ref(pixels)), grid, layer); // [1, T, T]
        let (first, n) = (self.config().prefix_tokens(), grid.len());
        let patches = rollout.narrow(1, first, n).mean_dim(1).narrow(2, first, n); // [1, 1, N]
        let patches = patches.into_data().try_into_vec::<f32>().expect("attention is float32");
        Ok(self.reordered(patches, 1, pixels))
    }

    /// Values of the patches, `[N, width]`, in the order of the returned tokens: ViT-MAE's may be shuffled.
    fn reordered(&self, patches: Vec<f32>, width: usize, pixels: &Pixels) -> Vec<f32> {
        if !self.is_shuffled() {
            return patches;
        }
        let order = self.order.permutation(patches.len() / width, pixels);
        order.iter().flat_map(|&i| &patches[i * width..(i + 1) * width]).copied().collect()
    }

    /// The picture of prepared pixels with every patch at the place of its token: ViT-MAE's may be shuffled.
    pub fn rearranged(&self, seen: Picture, pixels: &Pixels) -> Picture {
        match self.grid(pixels.height, pixels.width) {
            Ok(grid) if self.is_shuffled() => {
                seen.rearranged(grid, &self.order.permutation(grid.len(), pixels))
            }
            _ => seen,
        }
    }

    /// Whether tokens are returned in another order than that of the patches.
    pub fn is_shuffled(&self) -> bool {
        *self.config().family == family::VIT_MAE && self.order.is_shuffled()
    }

    /// The tokens of every image of a stage `[B, T, d]`, in raster order. Its data is split in place: a GPU's data is in its
    /// driver's memory, and a vector would be another copy.
    fn split_stage(&self, stage: TensorData, grid: Grid) -> Vec<Tokens> {
        let d = self.width();
        let (cls, prefix) = (usize::from(self.config().family.cls) * d, self.config().prefix_tokens() * d);
        let values = stage.as_slice::<f32>().expect("tokens are float32"); // [B, T, d]
        let one = |all: &[f32]| Tokens {
            grid,
            width: d,
            cls: self.config().family.cls.then(|| all[..cls].to_vec()),
            registers: all[cls..prefix].to_vec(),
            patches: all[prefix..].to_vec(),
        };
        values.par_chunks_exact(prefix + grid.len() * d).map(one).collect()
    }

    /// Most images of so many pixels and patches in one pass.
    fn images_at_once(&self, pixels: usize, patches: usize) -> usize {
        let tokens = self.config().prefix_tokens() + patches;
        device::free_memory(&self.device)
            .map_or(usize::MAX, |memory| batch::images_at_once(self.config(), tokens, 3 * pixels, memory))
    }

    /// Uploads the pixels of images of one size, `[B, 3, H, W]`, gathered by all cores.
    fn upload(&self, batch: &[Pixels]) -> Tensor<4> {
        let (height, width) = (batch[0].height, batch[0].width);
        let mut values = vec![0.0_f32; batch.len() * 3 * height * width];
        let gathered = values.par_chunks_exact_mut(3 * height * width).zip(batch);
        gathered.for_each(|(own, image)| own.copy_from_slice(&image.values));
        Tensor::from_data(TensorData::new(values, [batch.len(), 3, height, width]), &self.device)
    }

    /// The tokens of every image at each of the `stages`, `[B, T, d]` each.
    fn tokens_by_image(
        &self,
        batch: &[Pixels],
        grid: Grid,
        stages: impl ExactSizeIterator<Item = TensorData>,
    ) -> Vec<Vec<Tokens>> {
        let mut images: Vec<Vec<Tokens>> = vec![Vec::with_capacity(stages.len()); batch.len()];
        for stage in stages {
            let tokens = self.split_stage(stage, grid).into_iter();
            for ((mut tokens, image), pixels) in tokens.zip(&mut images).zip(batch) {
                tokens.patches = self.reordered(tokens.patches, tokens.width, pixels);
                image.push(tokens);
            }
        }
        images
    }
}

/// The name of the backbone in a folder: `owner/name` in the Hub's cache, which stores it in
/// `models--owner--name/snapshots/revision`, else that of the folder.
pub fn id(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let names: Vec<_> = dir.iter().map(|part| part.to_string_lossy()).collect();
    let cached = names.iter().rev().find_map(|part| part.strip_prefix("models--"));
    match (cached, names.last()) {
        (Some(cached), _) => cached.replace("--", "/"),
        (None, last) => last.map(ToString::to_string).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_the_hubs_cache_has_the_name_of_its_model() {
        assert_eq!(
            id(Path::new("/x/models--facebook--vit-mae-base/snapshots/0a1b")),
            "facebook/vit-mae-base"
        );
        assert_eq!(id(Path::new("/x/my-backbone")), "my-backbone");
    }

    #[test]
    fn every_family_is_found_by_its_model_type() {
        for family in FAMILIES {
            assert_eq!(find(family.model_type), Some(*family));
        }
        assert_eq!(find("resnet"), None);
        assert_eq!(listed().lines().count(), 1 + FAMILIES.len());
        assert!(listed().contains("\n  ijepa                  I-JEPA; no CLS token\n"), "{}", listed());
    }
}
