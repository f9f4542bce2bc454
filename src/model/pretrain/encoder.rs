//! The encoder that is pre-trained: a plain pre-norm ViT (Dosovitskiy et al. 2021) with transformers'
//! parameter names and fixed two-dimensional positions (He et al. 2022).

use burn::tensor::{Int, Tensor, activation, module};

use super::{Plan, fused};
use crate::model::ops::bias::{Activation, biased};
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::probe::head::linear::{norm_specs, tokenwise};
use crate::model::probe::params::{Constraint, Init, Params, Spec};

/// Encodes patches `[B * V, P]` to tokens `[B, 1 + V, d]`, CLS first. `indices` are the patches' token indices, `[B * V]`; if
/// absent, all patches are given in order (V = N).
pub(super) fn encode(
    params: &Params,
    plan: &Plan,
    patches: Tensor<2>,
    indices: Option<Tensor<1, Int>>,
    batch: usize,
) -> Tensor<3> {
    let d = plan.width;
    let projection = "embeddings.patch_embeddings.projection";
    let tokens = plan.tokens();
    let weight = params.get::<4>(&format!("{projection}.weight")).reshape([d, plan.pixels()]);
    let bias = params.get(&format!("{projection}.bias"));
    let x = biased(patches.precise_matmul(weight.transpose()), bias, Activation::None); // [B * V, d]
    let visible = x.dims()[0] / batch;
    let positions = params.get::<3>("embeddings.position_embeddings"); // [1, 1 + N, d]
    let at_cls = positions.clone().slice([0..1, 0..1, 0..d]);
    let at_patches = positions.slice([0..1, 1..1 + tokens, 0..d]);
    let x = x.reshape([batch, visible, d]);
    let x = match indices {
        Some(indices) => x + at_patches.reshape([tokens, d]).select(0, indices).reshape([batch, visible, d]),
        None => x + at_patches,
    };
    let cls = (params.get::<3>("embeddings.cls_token") + at_cls).expand([batch, 1, d]);
    let mut x = Tensor::cat(vec![cls, x], 1); // [B, 1 + V, d]
    let fuses = plan.fuses(&x.device());
    for layer in 0..plan.layers {
        x = block(params, &format!("encoder.layer.{layer}"), x, plan.heads(), fuses);
    }
    norm(params, "layernorm", x, fuses)
}

/// A pre-norm transformer layer on `[B, T, d]`, with [`fused`] operations or burn's own.
pub(super) fn block(params: &Params, name: &str, x: Tensor<3>, heads: usize, fuses: bool) -> Tensor<3> {
    let [batch, tokens, d] = x.dims();
    let normed = norm(params, &format!("{name}.layernorm_before"), x.clone(), fuses);
    let [query, key, value] = ["query", "key", "value"].map(|part| {
        linear(params, &format!("{name}.attention.attention.{part}"), normed.clone())
            .reshape([batch, tokens, heads, d / heads])
            .swap_dims(1, 2) // [B, h, T, d / h]
    });
    let scale = (d as f32 / heads as f32).sqrt();
    let logits = query.precise_matmul(key.transpose()) / scale;
    let weights = if fuses { fused::softmax(logits) } else { activation::softmax(logits, 3) }; // [B, h, T, T]
    let mixed = weights.precise_matmul(value).swap_dims(1, 2).reshape([batch, tokens, d]);
    let x = x + linear(params, &format!("{name}.attention.output.dense"), mixed);
    let normed = norm(params, &format!("{name}.layernorm_after"), x.clone(), fuses);
    let inner = linear(params, &format!("{name}.intermediate.dense"), normed);
    let inner = if fuses { fused::gelu(inner) } else { activation::gelu(inner) };
    x + linear(params, &format!("{name}.output.dense"), inner)
}

/// `x W^T + b` of `[B, T, d]`, with the parameters `<name>.weight` `[o, d]` and `<name>.bias`; `[B, T, o]`.
pub(super) fn linear(params: &Params, name: &str, x: Tensor<3>) -> Tensor<3> {
    tokenwise(params, name, x, Activation::None)
}

pub(super) fn norm(params: &Params, name: &str, x: Tensor<3>, fuses: bool) -> Tensor<3> {
    let (weight, bias) = (params.get(&format!("{name}.weight")), params.get(&format!("{name}.bias")));
    match fuses {
        true => fused::layer_norm(x, weight, bias),
        false => module::layer_norm(x, weight, Some(bias), fused::EPSILON),
    }
}

/// All parameters of the encoder, under transformers' names.
pub(super) fn specs(plan: &Plan) -> Vec<Spec> {
    let (d, patch) = (plan.width, plan.recipe.patch);
    let bound = 0.07 * (192.0 / plan.pixels() as f32).sqrt(); // about 1 / sqrt(P), as PyTorch's
    let projection = "embeddings.patch_embeddings.projection";
    let mut specs = vec![
        Spec::new("embeddings.cls_token", [1, 1, d], Init::Normal(0.02)),
        positions("embeddings.position_embeddings", plan, d),
        Spec::new(format!("{projection}.weight"), [d, 3, patch, patch], Init::Uniform(bound)),
        Spec::new(format!("{projection}.bias"), [d], Init::Constant(0.0)),
    ];
    for layer in 0..plan.layers {
        specs.extend(block_specs(&format!("encoder.layer.{layer}"), d));
    }
    specs.extend(norm_specs("layernorm", d));
    specs
}

/// The parameter of fixed positions, `[1, 1 + N, width]`.
pub(super) fn positions(name: &str, plan: &Plan, width: usize) -> Spec {
    let table = Init::Values(sine_positions(plan.grid(), width));
    Spec::new(name, [1, 1 + plan.tokens(), width], table).with(Constraint::Fixed)
}

pub(super) fn block_specs(name: &str, d: usize) -> Vec<Spec> {
    let dense = [
        ("attention.attention.query", d, d),
        ("attention.attention.key", d, d),
        ("attention.attention.value", d, d),
        ("attention.output.dense", d, d),
        ("intermediate.dense", d, 4 * d),
        ("output.dense", 4 * d, d),
    ];
    let mut specs: Vec<Spec> = dense
        .iter()
        .flat_map(|(part, from, to)| linear_specs(&format!("{name}.{part}"), *from, *to))
        .collect();
    specs.extend(norm_specs(&format!("{name}.layernorm_before"), d));
    specs.extend(norm_specs(&format!("{name}.layernorm_after"), d));
    specs
}

/// The parameters of a linear layer, initialised by Xavier's uniform rule, as in MAE.
pub(super) fn linear_specs(name: &str, from: usize, to: usize) -> [Spec; 2] {
    let bound = (6.0 / (from + to) as f32).sqrt();
    [
        Spec::new(format!("{name}.weight"), [to, from], Init::Uniform(bound)),
        Spec::new(format!("{name}.bias"), [to], Init::Constant(0.0)),
    ]
}

/// Ratio of the longest wavelength of the positions to the shortest: waves much longer than the grid
/// would not distinguish positions (He et al. take 10,000, with eight times the channels).
const WAVELENGTH_RATIO: f32 = 20.0;

/// Fixed two-dimensional sine and cosine positions, `[1 + N, d]`; zero for CLS (He et al. 2022).
fn sine_positions(grid: usize, d: usize) -> Vec<f32> {
    let mut table = vec![0.0; d];
    for token in 0..grid * grid {
        for position in [token % grid, token / grid] {
            let angles: Vec<f32> = (0..d / 4)
                .map(|i| position as f32 / WAVELENGTH_RATIO.powf(i as f32 / (d / 4) as f32))
                .collect();
            table.extend(angles.iter().map(|angle| angle.sin()));
            table.extend(angles.iter().map(|angle| angle.cos()));
        }
    }
    table
}
