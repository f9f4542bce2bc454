//! Sinkhorn and a convolution instead of an S4 (paper, "Sinkhorn + 1D-Conv").
//!
//! `Conv1d(d -> 192, kernel 5, same padding)` over the routed tokens, then the mean over positions.
//! Nothing nonlinear lies between, so tap `j` reads the routed tokens with weight `1/N` at every
//! position `k` that it covers, those with `0 <= k - j + 2 < N`:
//! `z = b + sum_j W[:, :, j] sum_i (P q_j)[i] t_i`, `q_j[k] = [0 <= k - j + 2 < N] / N`. Five weights
//! per token replace the routed tokens and the convolution.

use std::sync::Arc;

use burn::tensor::TensorData;
use indexmap::IndexSet;

use super::prelude::*;
use crate::model::ops::bias::{Activation, biased};
use crate::model::probe::head_output::{Direction, Gain, Order};
use crate::model::probe::router::{Router, sinkhorn};

/// Output channels of the convolution, which are the features.
const FEATURES: usize = 192;
/// Taps of its kernel; the middle one is `TAPS / 2`.
const TAPS: usize = 5;

pub const SPEC: HeadSpec = HeadSpec {
    id: "sinkhorn-conv",
    name: "Sinkhorn + conv",
    summary: "A convolution behind Sinkhorn",
    group: Group::Router,
    tier: Tier::Ablation,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.93, flops: 289.70 }),
    build: Build::Own(|config| {
        Ok(Box::new(SinkhornConv { router: Arc::from((sinkhorn::SPEC.build)(config)?) }))
    }),
};

/// A convolution over the tokens as Sinkhorn routes them.
pub struct SinkhornConv {
    /// What orders the tokens.
    pub router: Arc<dyn Router>,
}

/// Whether tap `j` covers position `k` of `n` as the kernel slides over the padded sequence.
fn covers(j: usize, k: usize, n: usize) -> bool {
    (TAPS / 2..TAPS / 2 + n).contains(&(k + TAPS - 1 - j))
}

impl Head for SinkhornConv {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let init = Init::Uniform(1.0 / ((dims.width * TAPS) as f32).sqrt());
        vec![
            scorer::spec(dims.width),
            Spec::new("conv.weight", [FEATURES, dims.width, TAPS], init.clone()),
            Spec::new("conv.bias", [FEATURES], init),
        ]
    }

    fn features_len(&self, _: usize) -> usize {
        FEATURES
    }

    fn router(&self) -> Option<&dyn Router> {
        Some(&*self.router)
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        let [_, n, _] = batch.patches.dims();
        let share = |at: usize| if covers(at / n, at % n, n) { 1.0 / n as f64 } else { 0.0 };
        let gains = TensorData::new((0..TAPS * n).map(share).collect::<Vec<_>>(), [TAPS, n]);
        let dtype = scorer::query(params).dtype();
        let gains = Tensor::<2>::from_data(gains.convert_dtype(dtype), (&batch.patches.device(), dtype)); // [5, N]
        Some(scorer::routed(params, &self.router, gains, batch))
    }

    /// `pooled`: the average input of each tap, `[B, 5, d]`.
    fn finish(&self, params: &Params, pooled: Tensor<3>, _: &Batch) -> Tensor<2> {
        let [images, _, width] = pooled.dims();
        let taps = params.get::<3>("conv.weight").permute([2, 1, 0]); // [5, d, 192]
        let taps = taps.reshape([TAPS * width, FEATURES]);
        let products = pooled.reshape([images, TAPS * width]).precise_matmul(taps); // [B, 192]
        biased(products, params.get("conv.bias"), Activation::None)
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let n = tokens.grid.len();
        let scores = scorer::scores_host(params, tokens);
        let order = Order::Plan(self.router.plan(&scores));
        // Positions covered by the same taps share a map: those near an end differ from those within.
        let mut kinds: IndexSet<[bool; TAPS]> = IndexSet::new();
        let class_of =
            (0..n).map(|k| kinds.insert_full(std::array::from_fn(|j| covers(j, k, n))).0).collect();
        let weight = &params["conv.weight"].data; // [192, d, 5]
        let sum = |kind: &[bool; TAPS], taps: &[f32]| {
            let covering = taps.iter().zip(kind).filter(|(_, covers)| **covers);
            covering.map(|(&w, _)| f64::from(w)).sum::<f64>() / n as f64
        };
        let maps: Vec<f64> = kinds
            .iter()
            .flat_map(|kind| weight.chunks_exact(TAPS).map(move |taps| sum(kind, taps)))
            .collect();
        let gain = Gain::Mix { maps, class_of, bias: params["conv.bias"].to_f64() };
        let direction = Direction { order, gain, kernel: Vec::new(), radius: None };
        HeadOutput { scores: Some(scores), form: Form::Scan(vec![direction]) }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let (taps, features) = (TAPS as u64, FEATURES as u64);
        let plan = self.router.flops(n);
        cost::scores(n, d) + plan + 2 * taps * (n * n + n * d + d * features)
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let conv = n * d * (TAPS * FEATURES) as u64;
        Counts::layers(n * d + conv) + Counts::formulas(n * n * d) // scores and convolution, routing
    }
}
