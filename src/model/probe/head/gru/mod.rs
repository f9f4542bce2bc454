//! A recurrent reader in both directions (paper, "Bi-GRU"; Cho et al. 2014).
//!
//! `nn.GRU(d, 128, bidirectional=True)` over the tokens in raster order; the features are the last
//! states of both directions, `[256]`. Gates in PyTorch's order r, z, n:
//! `r, z = sigmoid(W x + b + U h + c)`, `n = tanh(W x + b + r * (U h + c))`, `h = (1 - z) n + z h`.
//!
//! On the CPU each direction is one operation with its own gradient. Elsewhere both directions advance in
//! one loop, and inputs are projected in stretches of about `sqrt(N)` tokens: cutting a step out of a
//! stretch costs its gradient a pass over that stretch alone.

mod fused;

use burn::tensor::{DType, activation};

use super::opaque;
use super::prelude::*;
use crate::model::ops::cpu::on_cpu;
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::probe::params::Init;

/// Size of the state of one direction.
const HIDDEN: usize = 128;
/// PyTorch's endings for the two directions.
const ENDINGS: [&str; 2] = ["", "_reverse"];

/// Its entry in the [list](super::HEADS) of heads.
pub const SPEC: HeadSpec = HeadSpec {
    id: "bi-gru",
    name: "Bi-GRU",
    summary: "Recurrent reading, both ways",
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
                spec("weight_ih", ending, &[3 * HIDDEN, dims.width]),
                spec("weight_hh", ending, &[3 * HIDDEN, HIDDEN]),
                spec("bias_ih", ending, &[3 * HIDDEN]),
                spec("bias_hh", ending, &[3 * HIDDEN]),
            ]
        };
        ENDINGS.into_iter().flat_map(direction).collect()
    }

    fn features_len(&self, _: &Dims) -> usize {
        2 * HIDDEN
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let patches = &batch.patches;
        if !on_cpu(&patches.device()) || patches.dtype() != DType::F32 {
            return plain(params, patches);
        }
        let direction = |(ending, backwards)| {
            let name = |part: &str| format!("gru.{part}_l0{ending}");
            let [input, state] =
                ["weight_ih", "weight_hh"].map(|part| params.get::<2>(&name(part)).into_dispatch());
            let biases = ["bias_ih", "bias_hh"].map(|part| params.get::<1>(&name(part)).into_dispatch());
            let [input_bias, state_bias] = biases;
            fused::last_state(patches, [input, state, input_bias, state_bias], backwards)
        };
        Tensor::cat(ENDINGS.into_iter().zip([false, true]).map(direction).collect(), 1)
    }

    fn output_with(&self, params: &Arrays, _: &[Kernel], tokens: &Tokens, _: u64) -> HeadOutput {
        let why = "The recurrent reader is not linear in the tokens: no exact evidence exists";
        opaque::output(self, params, tokens, why)
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let hidden = HIDDEN as u64;
        2 * n * (2 * 3 * hidden * (d + hidden) + 14 * hidden) // both directions: products, gates
    }

    fn parts(&self, n: u64, d: u64) -> Vec<Part> {
        let hidden = HIDDEN as u64;
        let products = 3 * hidden * (d + hidden);
        // Hooks count what a cell does number by number, too.
        vec![Part { what: "GRU", multiply_adds: 2 * n * products, hooked: 2 * n * (products + 13 * hidden) }]
    }
}

/// The last states of both directions, `[B, 256]`, of tokens `[B, N, d]`, by elementary operations: for
/// other devices, and the reference for the CPU's own.
fn plain(params: &Params, patches: &Tensor<3>) -> Tensor<2> {
    let [images, n, d] = patches.dims();
    let matrices = |name: &str| {
        let each = ENDINGS.map(|ending| params.get::<2>(&format!("gru.{name}_l0{ending}")).transpose());
        Tensor::stack::<3>(each.to_vec(), 0) // [2, d or 128, 384]
    };
    let biases = |name: &str| {
        let each = ENDINGS.map(|ending| params.get::<1>(&format!("gru.{name}_l0{ending}")));
        Tensor::stack::<2>(each.to_vec(), 0).unsqueeze_dim::<3>(1) // [2, 1, 384]
    };
    let (from_input, from_state) = (matrices("weight_ih"), matrices("weight_hh"));
    let (input_bias, state_bias) = (biases("bias_ih"), biases("bias_hh"));
    let backwards = patches.clone().flip([1]);
    let stretch = (n as f64).sqrt().ceil() as usize;
    let options = (&patches.device(), patches.dtype());
    let mut state = Tensor::<3>::zeros([2, images, HIDDEN], options); // [2, B, 128]
    for start in (0..n).step_by(stretch) {
        let len = stretch.min(n - start);
        let cut = |tokens: &Tensor<3>| {
            // Step first, so that a step is one piece of memory.
            tokens.clone().narrow(1, start, len).swap_dims(0, 1).reshape([len * images, d])
        };
        let tokens = Tensor::stack::<3>(vec![cut(patches), cut(&backwards)], 0); // [2, len B, d]
        let inputs = tokens.precise_matmul(from_input.clone()) + input_bias.clone(); // [2, len B, 384]
        for step in 0..len {
            let input = inputs.clone().narrow(1, step * images, images); // [2, B, 384]
            let recurrent = state.clone().precise_matmul(from_state.clone()) + state_bias.clone(); // [2, B, 384]
            let gate = |from: &Tensor<3>, i: usize| from.clone().narrow(2, i * HIDDEN, HIDDEN);
            let reset = activation::sigmoid(gate(&input, 0) + gate(&recurrent, 0)); // [2, B, 128]
            let keep = activation::sigmoid(gate(&input, 1) + gate(&recurrent, 1));
            let new = (gate(&input, 2) + reset * gate(&recurrent, 2)).tanh();
            state = new.clone() + keep * (state - new);
        }
    }
    state.swap_dims(0, 1).reshape([images, 2 * HIDDEN])
}
