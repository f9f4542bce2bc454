//! S4 behind an order that does not depend on the tokens (docs/definitions.md, sections 2 and 4).
//!
//! Every direction has its own S4; their readouts are averaged. As each readout is a sum over the
//! tokens, the directions fold into one weight per token before any token is read:
//! `z = sum_i w[i] * t_i`, `w[i] = mean over directions of gain[position of i]`. The tokens are never
//! copied into another order.

use std::sync::Arc;

use burn::tensor::{Int, TensorData};
use rayon::prelude::*;

use super::Sharing;
use super::prelude::*;
use super::s4_layer::S4Layer;
use crate::model::grid::Grid;
use crate::model::hand_order::HandOrder;
use crate::model::ops::pooling::weight_rule::{FixedWeights, PermutedWeights};
use crate::model::ops::scatter::scatter_rows;
use crate::model::probe::head_output::Order;
use crate::model::probe::router::channelwise::{self, Channelwise};
use crate::model::probe::router::scan::{self, RASTER, SCANS, Scan};

/// Where the order comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The geometry of the grid.
    Grid(&'static Scan),
    /// One permutation for the whole run, drawn from this seed and kept as the buffer `order` `[N]`.
    RandomFixed(u64),
    /// A fresh permutation for every image and step, from this seed and the seed of the image.
    RandomDynamic(u64),
    /// The order of a file, kept as the buffer `order` `[N]`; raster order where none is given.
    File(Option<HandOrder>),
}

/// The entry of a scan of the grid in the [list](super::HEADS) of heads.
const fn entry(scan: &'static Scan) -> HeadSpec {
    HeadSpec {
        id: scan.id,
        name: scan.name,
        summary: scan.summary,
        group: Group::Scan,
        tier: Tier::Order,
        in_paper: scan.in_paper,
        paper_cost: scan.paper_cost,
        build: Build::Scan(scan),
    }
}

/// The fixed orders, in the [list](super::HEADS) of heads.
pub fn specs() -> impl Iterator<Item = HeadSpec> {
    SCANS.iter().map(|scan| entry(scan)).chain([RANDOM_FIXED, RANDOM_DYNAMIC])
}

const RANDOM_FIXED: HeadSpec = HeadSpec {
    id: "random-fixed",
    name: "Random, fixed",
    summary: "S4 in one random order for all images",
    build: Build::Own(|config| FixedScan::boxed(Source::RandomFixed(config.seed.unwrap_or(0)), config)),
    ..entry(&RASTER)
};

const RANDOM_DYNAMIC: HeadSpec = HeadSpec {
    id: "random-dynamic",
    name: "Random, dynamic",
    summary: "S4 in a fresh random order for every image",
    build: Build::Own(|config| FixedScan::boxed(Source::RandomDynamic(config.seed.unwrap_or(0)), config)),
    ..RANDOM_FIXED
};

/// The entry of an order file. Not in the [list](super::HEADS), since a training has to name the file.
pub static ORDER: HeadSpec = HeadSpec {
    id: "order",
    name: "Order file",
    summary: "S4 in an order from a file, the same for all images",
    in_paper: false,
    paper_cost: None,
    build: Build::Own(|config| FixedScan::boxed(Source::File(config.order.clone()), config)),
    ..entry(&RASTER)
};

/// S4 behind a fixed order.
pub struct FixedScan {
    /// Where the order comes from.
    pub source: Source,
    /// One S4 for every direction.
    pub memory: S4Layer,
}

/// The order of an image in a random-dynamic run, from the run's seed and the seed of the image.
pub fn dynamic_order(seed: u64, image_seed: u64, n: usize) -> Vec<usize> {
    scan::random(splitmix64(seed ^ splitmix64(image_seed)), n)
}

/// SplitMix64's finaliser, so that neighbouring seeds give unrelated streams.
fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl FixedScan {
    /// Behind this order, with the S4 of the settings; fails where a setting is out of range.
    pub(super) fn boxed(source: Source, config: &Config) -> Result<Box<dyn Head>, ConfigError> {
        let directions = if let Source::Grid(scan) = &source { scan.directions() } else { 1 };
        let memory = S4Layer::new(config, directions)?;
        Ok(Box::new(Self { source, memory }))
    }

    /// The weight of every token, averaged over the directions: `[N, 1 or d]`. Only for orders that are the same for all images.
    fn weights(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let gains = self.memory.gains(params, batch.grid.len()); // [G, N, 1 or d]
        let [directions, n, channels] = gains.dims();
        // The tokens of each direction in their order, one direction after another: `[G N]`, token i of direction g as `g N + i`.
        let tokens = match self.source {
            Source::Grid(scan) => {
                let orders = scan.orders(batch.grid).into_iter().enumerate();
                let tokens = orders.flat_map(|(g, order)| order.into_iter().map(move |i| (g * n + i) as i32));
                let tokens = TensorData::new(tokens.collect(), [directions * n]);
                Tensor::<1, Int>::from_data(tokens, &gains.device())
            }
            _ => params.get::<1>("order").int(),
        };
        let weights = scatter_rows(gains.reshape([directions * n, channels]), tokens); // weights[order[k]] = gain[k]
        match directions {
            1 => weights,
            _ => weights.reshape([directions, n, channels]).sum_dim(0).squeeze_dim(0) / directions as f64,
        }
    }

    /// The position at which each token of each image is read, `[B, N]` row-major; `None` for orders that are the same for all images.
    fn places(&self, batch: &Batch) -> Option<Vec<usize>> {
        let Source::RandomDynamic(seed) = self.source else { return None };
        let [_, n, _] = batch.patches.dims();
        let mut places = vec![0; batch.image_seeds.len() * n];
        places.par_chunks_mut(n).zip(&batch.image_seeds).for_each(|(places, &image_seed)| {
            dynamic_order(seed, image_seed, n).into_iter().enumerate().for_each(|(k, i)| places[i] = k);
        });
        Some(places)
    }

    /// The orders on the host, one for every direction.
    fn orders(&self, params: &Arrays, grid: Grid, image_seed: u64) -> Vec<Vec<usize>> {
        match self.source {
            Source::Grid(scan) => scan.orders(grid),
            Source::RandomFixed(_) | Source::File(_) => {
                vec![params["order"].data.iter().map(|&i| i as usize).collect()]
            }
            Source::RandomDynamic(seed) => vec![dynamic_order(seed, image_seed, grid.len())],
        }
    }
}

impl Head for FixedScan {
    fn draws(&self) -> bool {
        matches!(self.source, Source::RandomDynamic(_))
    }

    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let (mut specs, n) = (self.memory.specs(dims.width), dims.grid.len());
        let order = match &self.source {
            Source::Grid(_) | Source::RandomDynamic(_) => return specs,
            Source::RandomFixed(seed) => scan::random(*seed, n),
            Source::File(order) => order.as_ref().map_or_else(|| (0..n).collect(), HandOrder::indices),
        };
        let spec = Spec::new("order", [n], Init::Values(order.into_iter().map(|i| i as f32).collect()));
        specs.push(spec.with(Constraint::Fixed));
        specs
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        let (Source::File(Some(order)), n) = (&self.source, dims.grid.len()) else { return Ok(()) };
        let steps = order.tokens().len();
        if steps == n {
            return Ok(());
        }
        let found = format!("the {} with {steps} steps, but the images have {n} tokens", order.words());
        Err(ConfigError { field: "order", found, expected: "a file with every token of an image once" })
    }

    fn settings(&self, _: usize) -> Config {
        let (seed, order) = match &self.source {
            Source::Grid(_) => (None, None),
            Source::RandomFixed(seed) | Source::RandomDynamic(seed) => (Some(*seed), None),
            Source::File(order) => (None, order.clone()),
        };
        self.memory.settings(Config { seed, order, ..Config::default() })
    }

    /// With a shared S4 only: then every token has one weight for all channels.
    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        if self.memory.sharing == Sharing::Channel {
            return None;
        }
        let [_, n, _] = batch.patches.dims();
        Some(match self.places(batch) {
            Some(places) => {
                let gains = self.memory.gain(params, n).transpose(); // [1, N]
                Pooling::by_gains(gains, PermutedWeights { places: Arc::new(places) })
            }
            None => Pooling::by_gains(self.weights(params, batch).transpose(), FixedWeights),
        })
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let patches = &batch.patches;
        if let Some(pooling) = self.pooling(params, batch) {
            return self.finish(params, pooling.pool(patches), batch);
        }
        let [_, n, _] = patches.dims();
        let (gain, order) = match self.places(batch) {
            Some(places) => (self.memory.gain(params, n), channelwise::Order::Permuted(Arc::new(places))),
            None => (self.weights(params, batch), channelwise::Order::Fixed),
        };
        Channelwise { query: None, gain, order }.pool(patches)
    }

    fn has_fixed_order(&self) -> bool {
        !matches!(self.source, Source::RandomDynamic(_))
    }

    fn kernels(&self, params: &Arrays, n: usize) -> Vec<Kernel> {
        self.memory.kernels(params, n)
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, image_seed: u64) -> HeadOutput {
        let orders = self.orders(params, tokens.grid, image_seed);
        let directions = orders.into_iter().zip(params.kernels);
        let directions = directions.map(|(order, kernel)| kernel.direction(Order::Permutation(order)));
        HeadOutput { scores: None, form: Form::Scan(directions.collect()) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        2 * n * d // one weighted sum, however many directions
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        self.memory.counts(n, d)
    }
}
