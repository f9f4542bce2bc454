//! AbMILP: attention by a small network, token by token (Ilse et al. 2018, "Attention-based Deep Multiple Instance Learning",
//! as Przewięźlikowski et al. 2025 and Psomas et al. 2025 probe with it).
//!
//! `weight_i = softmax_i(W2 tanh(W1 x_i + b1) + b2)`, `z = sum_i weight_i t_i`, with the names of
//! `attention_predictor = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, 1))`, and a [norm](super::normed) before the
//! classifier. `x_i` is the token, unless a self-attention of one head precedes the network:
//! `x = softmax(T Wq^T (T Wk^T)^T / sqrt(d)) T Wv^T Wp^T + bp`, to compute the weights (`map`), or also the pooled tokens (`both`).
//!
//! Follows billpsomas/efficient-probing at b8f4fb8, poolings/abmilp.py with its `--abmilp_sa`. `gate` is Ilse's: the tanh is
//! multiplied by `sigmoid(Wg x_i + bg)`, channel by channel (equation 9). Layers are initialised as in `nn.Linear`.

use burn::tensor::activation;

use super::prelude::*;
use crate::model::ops::bias::Activation;
use crate::model::ops::softmax::softmax;
use crate::model::probe::settings::SelfAttention;

pub const SPEC: HeadSpec = HeadSpec {
    id: "abmilp",
    name: "AbMILP",
    summary: "A small network gives each token its weight",
    group: Group::Pooling,
    tier: Tier::Content,
    in_paper: false,
    paper_cost: None,
    build: Build::Normed(Norm::Batch, |config| {
        let (gate, self_attention) =
            (config.gate.unwrap_or_default(), config.self_attention.unwrap_or_default());
        Ok(Box::new(AbMilp { gate, self_attention }))
    }),
};

/// Weighted mean of the tokens, with weights from a network of two layers.
struct AbMilp {
    /// Whether a second branch gates the first.
    gate: bool,
    /// Whether a self-attention precedes the network, and what reads its tokens.
    self_attention: SelfAttention,
}

/// The weight of queries (0), keys (1) or values (2) of the self-attention, `[d, d]`.
fn projection(params: &Params, which: usize) -> Tensor<2> {
    linear::projection(params, "self_attn.qkv.weight", which)
}

/// The self-attention of tokens `[B, N, d]`: its weights, `[B, N, N]`, and its output, `[B, N, d]`.
fn attend(params: &Params, tokens: &Tensor<3>) -> (Tensor<3>, Tensor<3>) {
    let [_, _, d] = tokens.dims();
    let project =
        |which| tokens.clone().precise_matmul(projection(params, which).transpose().unsqueeze_dim(0));
    // Multiplied, not divided: burn rounds the divisor to float32 in the gradient of a quotient.
    let logits = (project(0) * (d as f64).powf(-0.5)).precise_matmul(project(1).swap_dims(1, 2));
    let attention = softmax(logits, 1.0, None);
    let mixed = attention.clone().precise_matmul(project(2));
    (attention, linear::tokenwise(params, "self_attn.proj", mixed, Activation::None))
}

impl AbMilp {
    /// The weight of every token, `[B, 1, N]`. `read`: what the network reads, `[B, N, d]`.
    fn weights(&self, params: &Params, read: &Tensor<3>) -> Tensor<3> {
        let mut hidden = linear::tokenwise(params, "attention_predictor.0", read.clone(), Activation::Tanh); // [B, N, d]
        if self.gate {
            let gate = linear::tokenwise(params, "attention_gate", read.clone(), Activation::None);
            hidden = hidden * activation::sigmoid(gate);
        }
        let logits = linear::tokenwise(params, "attention_predictor.2", hidden, Activation::None);
        softmax(logits.swap_dims(1, 2), 1.0, None)
    }

    fn has_self_attention(&self) -> bool {
        self.self_attention != SelfAttention::None
    }
}

impl Head for AbMilp {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let d = dims.width;
        let mut specs = linear::specs("attention_predictor.0", d, d);
        specs.extend(linear::specs("attention_predictor.2", d, 1));
        if self.gate {
            specs.extend(linear::specs("attention_gate", d, d));
        }
        if self.has_self_attention() {
            specs.push(linear::specs("self_attn.qkv", d, 3 * d).swap_remove(0)); // without a bias
            specs.extend(linear::specs("self_attn.proj", d, d));
        }
        specs
    }

    fn settings(&self, _: usize) -> Config {
        Config { gate: Some(self.gate), self_attention: Some(self.self_attention), ..Config::default() }
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        let tokens = &batch.patches;
        let read = if self.has_self_attention() { attend(params, tokens).1 } else { tokens.clone() };
        let pooled = if self.self_attention == SelfAttention::Both { &read } else { tokens };
        self.weights(params, &read).precise_matmul(pooled.clone()).squeeze_dim(1)
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, _: u64) -> HeadOutput {
        let (params, batch) = float64::inputs(self, params, tokens);
        let form = match self.self_attention {
            SelfAttention::None => Form::Pool(float64::host(self.weights(&params, &batch.patches))),
            SelfAttention::Map => {
                let (_, read) = attend(&params, &batch.patches);
                Form::Pool(float64::host(self.weights(&params, &read)))
            }
            SelfAttention::Both => {
                // Pooled are linear maps of tokens mixed by the attention: the mixing is moved into the weights.
                let (attention, read) = attend(&params, &batch.patches);
                let weights = self.weights(&params, &read).precise_matmul(attention);
                let map = params.get::<2>("self_attn.proj.weight").precise_matmul(projection(&params, 2));
                let bias = params.get::<1>("self_attn.proj.bias");
                Form::Projected {
                    weights: float64::host(weights),
                    map: float64::host(map),
                    mix: None,
                    bias: float64::host(bias),
                }
            }
        };
        HeadOutput { scores: None, form }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        let gate = if self.gate { n * (2 * d * d + 2 * d) } else { 0 }; // layer, sigmoid, product
        let attention = if self.has_self_attention() { 8 * n * d * d + 4 * n * n * d + 4 * n * n } else { 0 };
        n * (2 * d * d + d) + 2 * n * d + 4 * n + 2 * n * d + gate + attention // first layer and tanh, second, softmax, pooling
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let attention = match self.has_self_attention() {
            true => Counts::layers(4 * n * d * d) + Counts::formulas(2 * n * n * d), // qkv and proj, products
            false => Counts::default(),
        };
        let gate = if self.gate { n * d * d } else { 0 };
        attention + Counts::layers(n * d * d + n * d + gate) + Counts::formulas(n * d) // both layers, pooling
    }
}
