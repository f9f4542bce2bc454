//! A recurrent reader in both directions (paper, "Bi-GRU"; Cho et al. 2014).
//!
//! `nn.GRU(d, 128, bidirectional=True)` over the tokens in raster order; the features are the last
//! states of both directions, `[256]`. Gates in PyTorch's order r, z, n:
//! `r, z = sigmoid(W x + b + U h + c)`, `n = tanh(W x + b + r * (U h + c))`, `h = (1 - z) n + z h`.
//!
//! On the CPU each direction is one operation with its own gradient; on GPUs both are one operation, after the projection of all tokens.

mod fused;
mod gpu;

use burn::tensor::{DType, activation};

use super::prelude::*;
use crate::model::ops::bias::{Activation, biased};
use crate::model::ops::cpu::on_cpu;

/// Size of the state of one direction.
const HIDDEN: usize = 128;
/// Gates r, z and n of one state.
const GATES: usize = 3 * HIDDEN;
/// PyTorch's suffixes of parameter names for the two directions.
const ENDINGS: [&str; 2] = ["", "_reverse"];

pub const SPEC: HeadSpec = HeadSpec {
    id: "bi-gru",
    name: "Bi-GRU",
    summary: "A recurrent network, both ways",
    group: Group::Network,
    tier: Tier::Ablation,
    in_paper: true,
    paper_cost: Some(PaperCost { parameters: 0.95, flops: 271.56 }),
    build: Build::Own(|_| Ok(Box::new(BiGru))),
};

/// Reads the tokens forwards and backwards.
pub struct BiGru;

impl Head for BiGru {
    fn has_fixed_order(&self) -> bool {
        true
    }

    fn is_recurrent(&self) -> bool {
        true
    }

    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let init = Init::Uniform(1.0 / (HIDDEN as f32).sqrt());
        let spec = |name: &str, ending: &str, shape: &[usize]| {
            Spec::new(format!("gru.{name}_l0{ending}"), shape, init.clone())
        };
        let direction = |ending| {
            [
                spec("weight_ih", ending, &[GATES, dims.width]),
                spec("weight_hh", ending, &[GATES, HIDDEN]),
                spec("bias_ih", ending, &[GATES]),
                spec("bias_hh", ending, &[GATES]),
            ]
        };
        ENDINGS.into_iter().flat_map(direction).collect()
    }

    fn features_len(&self, _: usize) -> usize {
        2 * HIDDEN
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let patches = &batch.patches;
        if on_cpu(&patches.device()) && patches.dtype() == DType::F32 {
            let direction = |(ending, backwards)| {
                let name = |part: &str| format!("gru.{part}_l0{ending}");
                let matrix = |part| params.get::<2>(&name(part)).into_dispatch();
                let bias = |part| params.get::<1>(&name(part)).into_dispatch();
                let weights = [matrix("weight_ih"), matrix("weight_hh"), bias("bias_ih"), bias("bias_hh")];
                fused::last_state(patches, weights, backwards)
            };
            return Tensor::cat(ENDINGS.into_iter().zip([false, true]).map(direction).collect(), 1);
        }
        let inputs = projected(params, patches);
        let from_state = Tensor::stack(both::<2>(params, "weight_hh"), 0); // [2, 384, 128]
        let bias = Tensor::stack(both::<1>(params, "bias_hh"), 0); // [2, 384]
        match gpu::supports(&inputs) {
            true => gpu::last_states(inputs, from_state, bias),
            false => recurrence(&inputs, from_state, bias),
        }
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let why = "The recurrent reader is not linear in the tokens: no exact evidence exists";
        float64::opaque(self, params, tokens, why)
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let hidden = HIDDEN as u64;
        2 * n * (2 * 3 * hidden * (d + hidden) + 14 * hidden) // both directions: products, gates
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let hidden = HIDDEN as u64;
        let products = 3 * hidden * (d + hidden);
        // `thop`'s hook also counts the cell's elementwise operations.
        Counts { multiply_adds: 2 * n * products, hooks: 2 * n * (products + 13 * hidden) }
    }
}

/// A parameter of both directions, forward first.
fn both<const D: usize>(params: &Params, name: &str) -> Vec<Tensor<D>> {
    ENDINGS.map(|ending| params.get(&format!("gru.{name}_l0{ending}"))).to_vec()
}

/// `W x + b` of the gates of both directions for tokens `[B, N, d]`: `[B, N, 2, 384]`.
fn projected(params: &Params, patches: &Tensor<3>) -> Tensor<4> {
    let [images, n, d] = patches.dims();
    let weights = Tensor::cat(both::<2>(params, "weight_ih"), 0); // [768, d]
    let bias = Tensor::cat(both::<1>(params, "bias_ih"), 0);
    let products = patches.clone().reshape([images * n, d]).precise_matmul(weights.transpose());
    biased(products, bias, Activation::None).reshape([images, n, 2, GATES])
}

/// The last states, `[B, 256]`, by tensor operations: the fallback of the kernels, and their reference. `inputs`: `[B, N, 2, 384]`;
/// `from_state`: `[2, 384, 128]`; `bias`: `[2, 384]`.
fn recurrence(inputs: &Tensor<4>, from_state: Tensor<3>, bias: Tensor<2>) -> Tensor<2> {
    let [images, n, ..] = inputs.dims();
    let (from_state, bias) = (from_state.swap_dims(1, 2), bias.unsqueeze_dim::<3>(1));
    let mut state = Tensor::<3>::zeros([2, images, HIDDEN], (&inputs.device(), inputs.dtype()));
    for step in 0..n {
        let read = |direction: usize, token: usize| {
            inputs
                .clone()
                .slice([0..images, token..token + 1, direction..direction + 1])
                .reshape([1, images, GATES])
        };
        let input = Tensor::cat(vec![read(0, step), read(1, n - 1 - step)], 0); // [2, B, 384]
        let recurrent = state.clone().precise_matmul(from_state.clone()) + bias.clone();
        let gate = |from: &Tensor<3>, i: usize| from.clone().narrow(2, i * HIDDEN, HIDDEN);
        let reset = activation::sigmoid(gate(&input, 0) + gate(&recurrent, 0)); // [2, B, 128]
        let keep = activation::sigmoid(gate(&input, 1) + gate(&recurrent, 1));
        let new = (gate(&input, 2) + reset * gate(&recurrent, 2)).tanh();
        state = new.clone() + keep * (state - new);
    }
    state.swap_dims(0, 1).reshape([images, 2 * HIDDEN])
}
