//! The vision transformer (Dosovitskiy et al., 2021) with the variations of its families.
//!
//! Patches are projected, positions added, CLS and registers prepended, where there are any; in CLIP a layer norm
//! follows. Then come the [`Block`]s and, except in CLIP, a layer norm. `x_0` is the input of the first block and `x_l`
//! the tokens after layer `l`, `[B, T, d]` with T = prefix + N: CLS, registers, patches. What depends on the grid
//! (resampled positions, relative biases, angles) is cached for the last grid.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::block::{Block, Linear, Norm, Reader, RelativePositions, add_optional};
use super::config::Config;
use super::keys::{self, RELATIVE};
use super::position::{relative_index, relative_len, resample_relative};
use super::rotary::Rotation;
use super::weights::WeightsError;
use crate::model::grid::Grid;
use crate::model::ops::matmul::PreciseMatmul as _;

/// A vision transformer on a device.
pub(super) struct Vit {
    pub config: Config,
    projection: Linear,
    /// CLS and registers, `[prefix, d]`.
    prefix: Vec<f32>,
    /// Position table of the trained grid, prefix tokens first, `[placed + N, d]`.
    positions: Option<Vec<f32>>,
    /// The shared table of relative biases, `[offsets, heads]`.
    shared: Option<Vec<f32>>,
    /// A table of relative biases per layer, `[offsets, heads]`; empty if there are none.
    relative: Vec<Vec<f32>>,
    first: Option<Norm>,
    blocks: Vec<Block>,
    last: Option<Norm>,
    layout: Mutex<Option<Arc<Layout>>>,
}

/// Everything that depends on the grid, on one device.
pub(super) struct Layout {
    pub grid: Grid,
    device: Device,
    prefix: Option<Tensor<3>>,     // [1, prefix, d], positions added
    positions: Option<Tensor<3>>,  // [1, N, d]
    shared: Option<Tensor<4>>,     // [1, heads, T, T]
    relative: Vec<Tensor<2>>,      // [heads, offsets] per layer
    index: Option<Tensor<1, Int>>, // [T * T], if there are relative biases
    rotation: Option<Rotation>,
}

impl Vit {
    /// Reads the weights; the file must have been checked against [`keys::expected`].
    pub fn read(config: Config, reader: &Reader) -> Result<Self, WeightsError> {
        let names = config.family.names;
        let mut prefix = Vec::with_capacity(config.prefix_tokens() * config.width);
        if config.family.cls {
            prefix.extend(reader.values(names.cls)?);
        }
        if config.registers > 0 {
            prefix.extend(reader.values(names.extra_prefix)?);
        }
        let read_if = |on: bool, name: &str| match on {
            true => reader.values(name).map(Some),
            false => Ok(None),
        };
        let weight = reader.values(&format!("{}.weight", names.patches))?; // [d, 3, ph, pw]
        let bias = read_if(config.family.patch_bias, &format!("{}.bias", names.patches))?;
        let tables = if config.relative { config.layers } else { 0 };
        let table =
            |i: usize| reader.values(&format!("{}attention.attention.{RELATIVE}", keys::layer(&config, i)));
        let norm = |name: Option<&str>| name.map(|name| Norm::read(reader, name, config.epsilon)).transpose();
        Ok(Self {
            projection: Linear::new(reader, weight, bias, config.width),
            prefix,
            positions: read_if(config.absolute.is_some(), names.positions)?,
            shared: read_if(config.shared_relative, &format!("encoder.{RELATIVE}"))?,
            relative: (0..tables).map(table).collect::<Result<_, _>>()?,
            first: norm(names.first)?,
            blocks: (0..config.layers).map(|i| Block::read(reader, &config, i)).collect::<Result<_, _>>()?,
            last: norm(config.last_norm())?,
            layout: Mutex::new(None),
            config,
        })
    }

    /// The tokens `x_l` of each of `layers`, `[B, T, d]`, for `pixels` `[B, 3, H, W]` and the layout
    /// of their grid. `normed` applies the final layer norm, where the model has one; `x_L` normed
    /// is transformers' `last_hidden_state`.
    ///
    /// # Panics
    /// If a layer is past the last, or the pixels have another grid: [`super::Backbone`] checks both.
    pub fn forward(
        &self,
        pixels: Tensor<4>,
        layout: &Layout,
        layers: &[usize],
        normed: bool,
    ) -> Vec<Tensor<3>> {
        self.encode(self.embed(pixels, layout), layout, None, layers, normed)
    }

    /// Attention rollout (Abnar and Zuidema 2020) over the first `layers` layers, `[B, T, T]`, of `pixels` `[B, 3, H, W]`: the
    /// product of `(A + I) / 2` over the layers, A being the head-averaged attention; row t is the influence of every input
    /// token on token t.
    pub fn rollout(&self, pixels: Tensor<4>, grid: Grid, layers: usize) -> Tensor<3> {
        let layout = self.layout(grid, &pixels.device());
        let [images, ..] = pixels.dims();
        let embedded = self.embed(pixels, &layout);
        let [_, tokens, d] = embedded.dims();
        let mut x = embedded.reshape([images * tokens, d]); // [B T, d]
        let mut rollout = Tensor::<2>::eye(tokens, &x.device()).unsqueeze_dim::<3>(0); // [1 or B, T, T]
        for (l, block) in self.blocks[..layers].iter().enumerate() {
            let rotation = layout.rotation.as_ref();
            let positions = RelativePositions { bias: self.bias(&layout, l), rotation };
            let attention = block.attention(x.clone(), images, positions.clone()); // [B, T, T]
            rollout = (attention.precise_matmul(rollout.clone()) + rollout) / 2.0; // (A + I) / 2 times the rollout before this layer
            x = block.forward(x, images, positions);
        }
        rollout
    }

    /// The tokens after each of `layers`, `[B, T', d]` each, of one image `[1, 3, H, W]` of this grid, encoded once for every one
    /// of the B sets of patches in `kept`: patches outside the set are left out, the others keep their positions. All sets have
    /// one size; the final norm is applied, where there is one.
    pub fn encode_subset(
        &self,
        pixels: Tensor<4>,
        grid: Grid,
        kept: &[&[usize]],
        layers: &[usize],
    ) -> Vec<Tensor<3>> {
        let layout = self.layout(grid, &pixels.device());
        let embedded = self.embed(pixels, &layout).squeeze_dim::<2>(0); // [T, d]
        let subset = PatchSubset::new(kept, self.config.prefix_tokens(), &layout);
        let tokens = subset.rows.dims()[0] / subset.sets;
        let x = embedded.select(0, subset.rows.clone()).reshape([subset.sets, tokens, self.config.width]);
        self.encode(x, &layout, Some(&subset), layers, true)
    }

    /// [`forward`](Self::forward) from the input of the first block, `[B, T, d]`: all tokens of a grid, or those of `subset`.
    fn encode(
        &self,
        embedded: Tensor<3>,
        layout: &Layout,
        subset: Option<&PatchSubset>,
        layers: &[usize],
        normed: bool,
    ) -> Vec<Tensor<3>> {
        let last = layers.iter().copied().max().unwrap_or(0);
        let [batch, tokens, d] = embedded.dims();
        let rotation = match subset {
            Some(subset) => layout.rotation.as_ref().map(|all| all.select(&subset.rows, batch)),
            None => layout.rotation.clone(),
        };
        let mut x = embedded.reshape([batch * tokens, d]); // [B T, d]
        let mut wanted: Vec<Option<Tensor<3>>> = vec![None; layers.len()];
        for l in 0..=last {
            if l > 0 {
                let bias = self.bias(layout, l - 1);
                let bias = match subset {
                    Some(subset) => bias.map(|bias| subset.bias(bias)),
                    None => bias,
                };
                let positions = RelativePositions { bias, rotation: rotation.as_ref() };
                x = self.blocks[l - 1].forward(x, batch, positions);
            }
            for (_, slot) in layers.iter().zip(&mut wanted).filter(|(layer, _)| **layer == l) {
                let stage = match &self.last {
                    Some(norm) if normed => norm.forward(x.clone()),
                    _ => x.clone(),
                };
                *slot = Some(stage.reshape([batch, tokens, d]));
            }
        }
        wanted.into_iter().map(|stage| stage.expect("every layer up to the last was visited")).collect()
    }

    /// The input of the first block: CLS, registers and patches with their positions, `[B, T, d]`.
    fn embed(&self, pixels: Tensor<4>, layout: &Layout) -> Tensor<3> {
        let batch = pixels.dims()[0];
        let Grid { rows, cols } = layout.grid;
        let [down, right] = self.config.patch;
        let patches = pixels
            .reshape([batch, 3, rows, down, cols, right])
            .permute([0, 2, 4, 1, 3, 5]) // [B, rows, cols, 3, ph, pw]
            .reshape([batch * rows * cols, 3 * down * right]);
        let patches = self.projection.forward(patches).cast(DType::F32);
        let patches = patches.reshape([batch, rows * cols, self.config.width]);
        let patches = add_optional(patches, layout.positions.as_ref());
        let tokens = match &layout.prefix {
            Some(prefix) => {
                let [_, count, width] = prefix.dims();
                Tensor::cat(vec![prefix.clone().expand([batch, count, width]), patches], 1)
            }
            None => patches,
        };
        match &self.first {
            Some(norm) => norm.forward(tokens),
            None => tokens,
        }
    }

    /// The bias of the attention logits of layer `i`, from 0: `[1, heads, T, T]`.
    fn bias(&self, layout: &Layout, i: usize) -> Option<Tensor<4>> {
        let tokens = self.config.prefix_tokens() + layout.grid.len();
        let (Some(table), Some(index)) = (layout.relative.get(i), &layout.index) else {
            return layout.shared.clone();
        };
        let own = table.clone().select(1, index.clone()); // [heads, T T]
        Some(add_optional(own.reshape([1, self.config.heads, tokens, tokens]), layout.shared.as_ref()))
    }

    /// The layout of `grid` on `device`; cached for the last grid.
    pub fn layout(&self, grid: Grid, device: &Device) -> Arc<Layout> {
        // Not computed under the lock: while a tensor operation waits, it may run other work on this thread, which may
        // call this function. A poisoned lock is safe to use: it holds either the old layout or the new one.
        let cached = || self.layout.lock().unwrap_or_else(PoisonError::into_inner);
        let known = cached().as_ref().filter(|layout| layout.grid == grid).cloned();
        known.unwrap_or_else(|| {
            let layout = Arc::new(self.build_layout(grid, device));
            *cached() = Some(layout.clone());
            layout
        })
    }

    fn build_layout(&self, grid: Grid, device: &Device) -> Layout {
        let Config { width, heads, rotary, .. } = self.config;
        let count = self.config.prefix_tokens();
        let trained = self.config.grid();
        let mut prefix = self.prefix.clone(); // [prefix, d]
        let positions = self.positions.as_ref().zip(self.config.absolute).map(|(table, kernel)| {
            let (placed, patches) = table.split_at(self.config.placed() * width);
            prefix.iter_mut().zip(placed).for_each(|(x, p)| *x += p);
            let patches = match grid == trained {
                true => patches.to_vec(),
                false => kernel.resample(patches, trained, grid, width),
            };
            Tensor::from_data(TensorData::new(patches, [1, grid.len(), width]), device)
        });
        let tokens = grid.len() + 1; // BEiT has no registers
        let resampled = |table: &Vec<f32>| {
            let values = resample_relative(table, trained, grid, heads);
            Tensor::<2>::from_data(TensorData::new(values, [heads, relative_len(grid)]), device)
        };
        let index = (self.shared.is_some() || !self.relative.is_empty()).then(|| {
            let index = TensorData::new(relative_index(grid), [tokens * tokens]);
            Tensor::<1, Int>::from_data(index, device)
        });
        let spread = |table: &Vec<f32>| {
            let index = index.clone().expect("there is a table, so there is an index");
            resampled(table).select(1, index).reshape([1, heads, tokens, tokens])
        };
        Layout {
            grid,
            device: device.clone(),
            prefix: (count > 0)
                .then(|| Tensor::from_data(TensorData::new(prefix, [1, count, width]), device)),
            positions,
            shared: self.shared.as_ref().map(spread),
            relative: self.relative.iter().map(resampled).collect(),
            index: index.clone(),
            rotation: rotary.map(|rotary| Rotation::new(grid, count, width / heads, rotary, device)),
        }
    }
}

/// Which tokens of an image are kept, in each of several sets of one size.
struct PatchSubset {
    sets: usize,
    rows: Tensor<1, Int>,          // [B T'], indices among the tokens of the whole image
    pairs: Option<Tensor<1, Int>>, // [B T' T'], indices of (query, key) pairs, if there are relative biases
}

impl PatchSubset {
    fn new(kept: &[&[usize]], prefix: usize, layout: &Layout) -> Self {
        let all = prefix + layout.grid.len();
        let rows = |kept: &&[usize]| -> Vec<usize> {
            (0..prefix).chain(kept.iter().map(|&patch| prefix + patch)).collect()
        };
        let sets: Vec<Vec<usize>> = kept.iter().map(rows).collect();
        let indices = |values: Vec<i32>| {
            let shape = [values.len()];
            Tensor::from_data(TensorData::new(values, shape), &layout.device)
        };
        let pairs = layout.index.is_some().then(|| {
            let pairs_of = |rows: &Vec<usize>| -> Vec<i32> {
                rows.iter().flat_map(|q| rows.iter().map(move |k| (q * all + k) as i32)).collect()
            };
            indices(sets.iter().flat_map(pairs_of).collect())
        });
        let rows = sets.iter().flatten().map(|&row| row as i32).collect();
        Self { sets: sets.len(), rows: indices(rows), pairs }
    }

    /// The part `[B, heads, T', T']` of a bias of all pairs `[1, heads, T, T]` that belongs to the kept tokens.
    fn bias(&self, all: Tensor<4>) -> Tensor<4> {
        let [_, heads, tokens, _] = all.dims();
        let pairs = self.pairs.clone().expect("there is a bias, so there are pairs");
        let kept = self.rows.dims()[0] / self.sets;
        let own = all.reshape([heads, tokens * tokens]).select(1, pairs); // [heads, B T' T']
        own.reshape([heads, self.sets, kept, kept]).swap_dims(0, 1)
    }
}
