//! Frozen backbones: from pixels to tokens (docs/definitions.md, section 7), and the one list of their families.
//!
//! A backbone is a folder as the Hugging Face Hub lays it out: `config.json` ([`config`]) and the
//! weights ([`weights`]), checked key by key against [`keys`]. The network behind it is an
//! [`encoder::Encoder`]; one ([`vit`], built of [`block`]s) serves every family of today; [`family`] and [`names`]
//! hold what tells them apart, [`position`] and [`rotary`] how they know where a patch lies. The tokens equal
//! `last_hidden_state` of transformers for the same files and pixels (timm's `forward_features` in EVA-02): after the final layer norm
//! (`post_layernorm` in SigLIP), except in BEiT, data2vec and EVA-02 with mean pooling and in CLIP, which have none on their tokens.

pub(in crate::model) mod activation;
pub mod arithmetic;
mod at_once;
mod batch;
pub mod block;
pub mod config;
pub mod encoder;
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
pub mod vit;
pub mod weights;

use std::path::Path;

use burn::tensor::{DType, Device, Tensor, TensorData};
use rayon::prelude::*;

use self::arithmetic::Arithmetic;
use self::at_once::AtOnce;
use self::block::Reader;
use self::config::Config;
use self::encoder::{Encoder, GridEncoder};
pub use self::error::BackboneError;
use self::family::Family;
use self::order::MaeOrder;
use self::weights::Weights;
use super::device;
use super::grid::Grid;
use super::ops::gpu::{copy_to_host, gpu_of};
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

/// The family of a `model_type`.
pub fn find(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().find(|family| family.model_type == model_type)
}

/// Every family by its `model_type`, a line each: for help.
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
    config: Config,
    encoder: Box<dyn Encoder>,
    device: Device,
    at_once: AtOnce,
    order: MaeOrder,
    /// Layers that are joined in a token, 1 or more.
    joined: usize,
}

impl Backbone {
    /// Opens the folder `dir` and puts the weights on `device`, in float32, tensor by tensor.
    pub fn open(dir: &Path, device: &Device) -> Result<Self, BackboneError> {
        Self::open_in(dir, device, Arithmetic::Float32)
    }

    /// The same, multiplying in other numbers where the device has them.
    pub fn open_in(dir: &Path, device: &Device, arithmetic: Arithmetic) -> Result<Self, BackboneError> {
        arithmetic.check(device)?;
        let config = Config::open(dir)?;
        let weights = Weights::open(dir)?;
        let prefix = keys::prefix(&config, |name| weights.contains(name));
        let expected = (config.family.architecture.keys)(&config, prefix);
        weights.check(&expected, &|name| keys::ignored(&config, prefix, name))?;
        let reader = Reader { weights: &weights, prefix, device, arithmetic };
        Ok(Self {
            id: id(dir),
            fingerprint: weights.fingerprint().to_owned(),
            encoder: (config.family.architecture.read)(&config, &reader)?,
            config,
            device: device.clone(),
            at_once: AtOnce::new(),
            order: MaeOrder::default(),
            joined: 1,
        })
    }

    /// The same backbone handing out the patch tokens of ViT-MAE in this order; other families
    /// always keep theirs.
    pub fn with_mae_order(self, order: MaeOrder) -> Self {
        Self { order, ..self }
    }

    /// The same backbone whose tokens after a layer have those after so many layers side by side, that layer's last: CLS,
    /// registers and patches `joined` times as wide.
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

    /// Width of its tokens, d: the hidden size, once for every layer that is joined.
    pub fn width(&self) -> usize {
        self.joined * self.config().width
    }

    /// Height and width of a patch.
    pub fn patch(&self) -> [usize; 2] {
        self.config().patch
    }

    /// Number of transformer layers.
    pub fn layers(&self) -> usize {
        self.config().layers
    }

    /// SHA-256 of the weights, in hexadecimal digits.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Everything its `config.json` says of it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Images that go through the device together, where it ran out of memory with more.
    pub fn held_at_once(&self) -> Option<usize> {
        self.at_once.held()
    }

    /// The patch grid of an image, if it can be cut into patches.
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
    /// one of them, where it has one. Images of one size lying side by side are computed together, on a
    /// GPU as many as it holds, in passes that it computes while the host copies those before and after.
    pub fn forward_layers(
        &self,
        pixels: &[Pixels],
        layers: &[usize],
        normed: bool,
    ) -> Result<Vec<Vec<Tokens>>, BackboneError> {
        for image in pixels {
            self.grid(image.height, image.width)?;
        }
        let wanted = self.blocks(layers)?;
        // burn's CPU backend runs all but matrix products on one core: there, cores share images.
        let cores = if self.device == Device::flex() { rayon::current_num_threads() } else { 1 };
        let mut batches = Vec::new();
        for group in pixels.chunk_by(|a, b| (a.height, a.width) == (b.height, b.width)) {
            let (height, width) = (group[0].height, group[0].width);
            let grid = self.grid(height, width)?;
            let encoder = self.encoder.prepare(grid, &self.device);
            let fit = |memory| self.encoder.images_at_once(height, width, grid, memory);
            let most = device::free_memory(&self.device).map_or(usize::MAX, fit);
            let batch = group.len().div_ceil(cores).min(most);
            batches.extend(group.chunks(batch).map(|batch| (grid, encoder.clone(), batch)));
        }
        let gpu = gpu_of(&self.device).map(|gpu| gpu.client());
        let run = |(grid, encoder, batch): (Grid, GridEncoder, &[Pixels])| {
            let stages = |pixels| self.side_by_side(encoder(pixels, &wanted, normed));
            let Some(gpu) = &gpu else {
                let pass = |batch: &[Pixels]| self.run(batch, grid, stages);
                return self.at_once.run(batch, &self.device, &pass);
            };
            let tokens = (self.config().prefix_tokens() + grid.len()) * self.width();
            let size = batch::images_a_pass(batch.len(), (layers.len() * tokens).max(batch[0].values.len()));
            self.at_once.run_ahead(batch, size, &self.device, &|pass| {
                // Asked for by this thread, right behind what computes it: cubecl has a copy wait for all that the device was
                // asked for before it, which on another thread may be the next pass as well.
                let copies = stages(self.on_gpu(pass)).into_iter().map(copy_to_host).collect();
                let (read, numbers) = (gpu.read_tensor_async(copies), [pass.len() * tokens]);
                move || {
                    let stages = pollster::block_on(read).expect("tokens that were computed").into_iter();
                    let stages = stages.map(|bytes| TensorData::from_bytes(bytes, numbers, DType::F32));
                    self.images(pass, grid, stages)
                }
            })
        };
        Ok(match cores {
            1 => batches.into_iter().flat_map(run).collect(),
            _ => batches.into_par_iter().flat_map_iter(run).collect(),
        })
    }

    /// Every layer that is computed for tokens after these, those of one token side by side.
    fn blocks(&self, layers: &[usize]) -> Result<Vec<usize>, BackboneError> {
        layers.iter().try_for_each(|&layer| self.config().check_layer(layer, self.joined))?;
        Ok(layers.iter().flat_map(|&layer| layer + 1 - self.joined..=layer).collect())
    }

    /// Stages `[B, T, d]` of the layers of [`blocks`](Self::blocks), joined.
    fn side_by_side(&self, stages: Vec<Tensor<3>>) -> Vec<Tensor<3>> {
        match self.joined {
            1 => stages,
            joined => stages.chunks(joined).map(|own| Tensor::cat(own.to_vec(), 2)).collect(),
        }
    }

    /// Attention rollout of one image (docs/definitions.md, section 11): how much of each patch reaches the patch tokens after
    /// `layer` on average, `[N]`, patches in the order in which tokens are handed out, in the precision of the device.
    ///
    /// It is another pass of the image, in which every layer's attention is made whole.
    ///
    /// # Errors
    /// If the image cannot be cut into patches, there is no such layer, or no attention before it.
    pub fn rollout(&self, pixels: &Pixels, layer: usize) -> Result<Vec<f32>, BackboneError> {
        let grid = self.grid(pixels.height, pixels.width)?;
        match layer {
            0 => return Err(BackboneError::BeforeAttention),
            _ if layer > self.layers() => {
                return Err(BackboneError::Layer { layer, layers: self.layers() });
            }
            _ => failpoint::device_step(1),
        }
        let data = TensorData::new(pixels.values.clone(), [1, 3, pixels.height, pixels.width]);
        let rollout = self.encoder.rollout(Tensor::from_data(data, &self.device), grid, layer);
        let rollout = rollout.ok_or_else(|| BackboneError::NoAttention { id: self.id.clone() })?; // [1, T, T]
        let (first, n) = (self.config().prefix_tokens(), grid.len());
        let patches = rollout.narrow(1, first, n).mean_dim(1).narrow(2, first, n); // [1, 1, N]
        let patches = patches.into_data().try_into_vec::<f32>().expect("attention is float32");
        Ok(self.handed_out(patches, 1, pixels))
    }

    /// Values of the patches, `[N, width]`, in the order in which their tokens are handed out.
    fn handed_out(&self, patches: Vec<f32>, width: usize, pixels: &Pixels) -> Vec<f32> {
        match *self.config().family == family::VIT_MAE && self.order != MaeOrder::Kept {
            true => self.order.apply(&patches, width, pixels),
            false => patches,
        }
    }

    /// The tokens of a grid from a stage `[B, T, d]`, as the encoder orders them.
    fn taken(&self, stage: Tensor<3>, grid: Grid) -> Vec<Tokens> {
        self.cut(stage.into_data(), grid)
    }

    /// The same of the stage's numbers. They are cut where they lie: a GPU's are in its driver's memory, and a vector of them
    /// would be another copy.
    fn cut(&self, stage: TensorData, grid: Grid) -> Vec<Tokens> {
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

    /// [`Self::forward_layers`] on the processor for images of one size, whose `stages` are `[B, T, d]` each.
    fn run(
        &self,
        batch: &[Pixels],
        grid: Grid,
        stages: impl FnOnce(Tensor<4>) -> Vec<Tensor<3>>,
    ) -> Vec<Vec<Tokens>> {
        let (height, width) = (batch[0].height, batch[0].width);
        let values: Vec<&[f32]> = batch.iter().map(|image| &image.values[..]).collect();
        let values = values.concat();
        let data = TensorData::new(values, [batch.len(), 3, height, width]);
        let stages = stages(Tensor::from_data(data, &self.device));
        self.images(batch, grid, stages.into_iter().map(Tensor::into_data))
    }

    /// The pixels of images of one size, `[B, 3, H, W]`, gathered by all cores.
    fn on_gpu(&self, batch: &[Pixels]) -> Tensor<4> {
        let (height, width) = (batch[0].height, batch[0].width);
        let mut values = vec![0.0_f32; batch.len() * 3 * height * width];
        let gathered = values.par_chunks_exact_mut(3 * height * width).zip(batch);
        gathered.for_each(|(own, image)| own.copy_from_slice(&image.values));
        Tensor::from_data(TensorData::new(values, [batch.len(), 3, height, width]), &self.device)
    }

    /// The tokens of every image after each of the `stages`, `[B, T, d]` each.
    fn images(
        &self,
        batch: &[Pixels],
        grid: Grid,
        stages: impl ExactSizeIterator<Item = TensorData>,
    ) -> Vec<Vec<Tokens>> {
        let mut images: Vec<Vec<Tokens>> = vec![Vec::with_capacity(stages.len()); batch.len()];
        for stage in stages {
            let tokens = self.cut(stage, grid).into_iter();
            for ((mut tokens, image), pixels) in tokens.zip(&mut images).zip(batch) {
                tokens.patches = self.handed_out(tokens.patches, tokens.width, pixels);
                image.push(tokens);
            }
        }
        images
    }
}

/// What the backbone in a folder is called: the Hub's cache keeps `owner/name` in
/// `models--owner--name/snapshots/revision`.
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
