//! Linear maps and layer normalisation with PyTorch's names and default initialisation.

use burn::tensor::Tensor;

use crate::model::ops::bias::{Activation, biased};
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::ops::standardise::{Spread, standardise};
use crate::model::probe::params::{Init, Params, Spec};

/// `y = x W^T + b` as `nn.Linear(inputs, outputs)`: `name.weight` `[outputs, inputs]` and
/// `name.bias` `[outputs]`, both uniform within `1 / sqrt(inputs)`.
pub fn specs(name: &str, inputs: usize, outputs: usize) -> Vec<Spec> {
    let init = Init::Uniform(1.0 / (inputs as f32).sqrt());
    vec![
        Spec::new(format!("{name}.weight"), [outputs, inputs], init.clone()),
        Spec::new(format!("{name}.bias"), [outputs], init),
    ]
}

/// Applies the linear map `name` to `[B, inputs]`; returns `[B, outputs]`.
pub fn apply(params: &Params, name: &str, x: Tensor<2>) -> Tensor<2> {
    activated(params, name, x, Activation::None)
}

/// [`apply`], followed by an activation.
pub fn activated(params: &Params, name: &str, x: Tensor<2>, activation: Activation) -> Tensor<2> {
    let (products, bias) = products(params, name, x);
    biased(products, bias, activation)
}

/// [`activated`] on every token of `[B, N, inputs]`; returns `[B, N, outputs]`.
pub fn tokenwise(params: &Params, name: &str, x: Tensor<3>, activation: Activation) -> Tensor<3> {
    let [images, n, inputs] = x.dims();
    let out = activated(params, name, x.reshape([images * n, inputs]), activation);
    let [_, outputs] = out.dims();
    out.reshape([images, n, outputs])
}

/// [`apply`] without adding the bias: `x W^T`, `[B, outputs]`, and the bias.
pub fn products(params: &Params, name: &str, x: Tensor<2>) -> (Tensor<2>, Tensor<1>) {
    let weight = params.get::<2>(&format!("{name}.weight"));
    (x.precise_matmul(weight.transpose()), params.get(&format!("{name}.bias")))
}

/// The parameters of `nn.LayerNorm(width)`: `name.weight` starts at 1 and `name.bias` at 0, both `[width]`.
pub fn norm_specs(name: &str, width: usize) -> Vec<Spec> {
    vec![
        Spec::new(format!("{name}.weight"), [width], Init::Constant(1.0)),
        Spec::new(format!("{name}.bias"), [width], Init::Constant(0.0)),
    ]
}

/// The parameters of `nn.MultiheadAttention(width, _)`: the stacked projections start Xavier-uniform, biases at 0.
pub fn attention_specs(name: &str, width: usize) -> Vec<Spec> {
    let xavier = Init::Uniform((6.0 / (4 * width) as f32).sqrt());
    let mut out = specs(&format!("{name}.out_proj"), width, width);
    out[1].init = Init::Constant(0.0);
    let mut all = vec![
        Spec::new(format!("{name}.in_proj_weight"), [3 * width, width], xavier),
        Spec::new(format!("{name}.in_proj_bias"), [3 * width], Init::Constant(0.0)),
    ];
    all.extend(out);
    all
}

/// The weight of queries (0), keys (1) or values (2), `[d, d]`, of the stacked projections `name`, `[3 d, d]`.
pub fn projection(params: &Params, name: &str, which: usize) -> Tensor<2> {
    let stacked = params.get::<2>(name);
    let [_, d] = stacked.dims();
    stacked.narrow(0, which * d, d)
}

/// Added to the variance, as in `nn.LayerNorm`.
pub const EPSILON: f64 = 1e-5;

/// `(x - mean) / sqrt(variance + 1e-5)` over each row of `[B, width]`: layer normalisation without weight and bias.
pub fn normalised(x: Tensor<2>) -> Tensor<2> {
    normalised_by(x, EPSILON)
}

/// [`normalised`] with `epsilon` added to the variance.
pub fn normalised_by(x: Tensor<2>, epsilon: f64) -> Tensor<2> {
    standardise(x, 1, Spread::Root(epsilon))
}

/// Applies weight and bias of the layer normalisation `name` to rows that are already [`normalised`].
pub fn affine(params: &Params, name: &str, x: Tensor<2>) -> Tensor<2> {
    let weight = params.get::<1>(&format!("{name}.weight")).unsqueeze_dim(0); // [1, width]
    let bias = params.get::<1>(&format!("{name}.bias")).unsqueeze_dim(0); // [1, width]
    x * weight + bias
}
