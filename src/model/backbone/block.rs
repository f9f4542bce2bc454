//! One pre-norm transformer layer: `x += s1 * attention(norm1(x))`, `x += s2 * mlp(norm2(x))`.
//!
//! Tokens of a batch form one `[B * T, d]` matrix, so every linear map is one matrix product; queries,
//! keys and values together are one of width 3d. The layer scales `s1`, `s2` of BEiT, DINOv2
//! and DINOv3 are folded into the rows of the projection before them when the weights are read.

use burn::tensor::activation::{relu, softmax};
use burn::tensor::module::{attention, layer_norm};
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{DType, Device, Tensor, TensorData};
use rayon::prelude::*;

use super::activation::{self, gelu, swish};
use super::arithmetic::Arithmetic;
use super::config::{Activation, Config};
use super::rotary::Rotation;
use super::weights::{Weights, WeightsError};
use super::{fused, keys};
use crate::model::ops::cpu::on_cpu;
use crate::model::ops::matmul::PreciseMatmul as _;

/// Reads the weights of one encoder, tensor by tensor.
pub struct Reader<'a> {
    /// The file or files.
    pub weights: &'a Weights,
    /// Prefix of the encoder's tensor names.
    pub prefix: &'a str,
    /// The device of the tensors.
    pub device: &'a Device,
    /// The precision of matrix products.
    pub arithmetic: Arithmetic,
}

impl Reader<'_> {
    /// The values of the tensor `name`, row-major.
    pub fn values(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        self.weights.values(&format!("{}{name}", self.prefix))
    }

    /// A tensor of these values in the precision of matrix products.
    fn factor<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
        let dtype = self.arithmetic.dtype();
        Tensor::from_data(TensorData::new(values, shape).convert_dtype(dtype), (self.device, dtype))
    }
}

/// `y = W x + b`. The weight is transposed once when it is read: a matrix product on the CPU takes a
/// third longer if it has to transpose.
pub struct Linear {
    pub(super) weight: Tensor<2>,       // [columns, rows]
    pub(super) bias: Option<Tensor<2>>, // [1, rows]
}

impl Linear {
    /// From the row-major weight `[rows, columns]` and bias `[rows]`.
    pub fn new(reader: &Reader, weight: Vec<f32>, bias: Option<Vec<f32>>, rows: usize) -> Self {
        let columns = weight.len() / rows;
        let weight = reader.factor(transposed(&weight, columns), [columns, rows]);
        Self { weight, bias: bias.map(|bias| reader.factor(bias, [1, rows])) }
    }

    /// Reads maps of the same input as one, stacked along the rows, each of `rows` rows: `{name}.weight` and,
    /// if `biased`, `{name}.bias`. Every row is multiplied by its entry of `scale`.
    fn read(
        reader: &Reader,
        parts: &[(String, bool)],
        rows: usize,
        scale: Option<&[f32]>,
    ) -> Result<Self, WeightsError> {
        let mut weight = Vec::new(); // [parts rows, columns]
        let mut bias = Vec::with_capacity(parts.len() * rows); // [parts rows]
        for (name, biased) in parts {
            let part = reader.values(&format!("{name}.weight"))?;
            weight.reserve_exact(part.len() * parts.len() - weight.len());
            weight.extend(part);
            match biased {
                true => bias.extend(reader.values(&format!("{name}.bias"))?),
                false => bias.resize(bias.len() + rows, 0.0),
            }
        }
        if let Some(scale) = scale {
            let columns = weight.len() / rows;
            for ((row, bias), scale) in weight.chunks_exact_mut(columns).zip(&mut bias).zip(scale) {
                row.iter_mut().for_each(|w| *w *= scale);
                *bias *= scale;
            }
        }
        // The GPU kernels always take a bias, possibly 0.
        let biased = parts.iter().any(|(_, biased)| *biased) || !on_cpu(reader.device);
        Ok(Self::new(reader, weight, biased.then_some(bias), parts.len() * rows))
    }

    /// Maps `[M, columns]` to `[M, rows]`, in the precision of the weight.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        add_optional(self.product(x), self.bias.as_ref())
    }

    /// [`forward`](Self::forward) without the bias.
    pub(super) fn product(&self, x: Tensor<2>) -> Tensor<2> {
        x.cast(self.weight.dtype()).precise_matmul(self.weight.clone()) // [M, rows]
    }
}

/// `x + summand`, or `x` without one.
pub(super) fn add_optional<const D: usize>(x: Tensor<D>, summand: Option<&Tensor<D>>) -> Tensor<D> {
    match summand {
        Some(summand) => x + summand.clone(),
        None => x,
    }
}

/// Transposes `[rows, columns]` to `[columns, rows]`, one strip of columns at a time.
fn transposed(matrix: &[f32], columns: usize) -> Vec<f32> {
    const STRIP: usize = 32;
    let rows = matrix.len() / columns;
    let mut out = vec![0.0; matrix.len()];
    out.par_chunks_mut(STRIP * rows).enumerate().for_each(|(strip, out)| {
        for (r, row) in matrix.chunks_exact(columns).enumerate() {
            let part = &row[strip * STRIP..columns.min((strip + 1) * STRIP)];
            for (c, x) in part.iter().enumerate() {
                out[c * rows + r] = *x;
            }
        }
    });
    out
}

/// Layer norm with gain and offset.
pub struct Norm {
    pub(super) gain: Tensor<1>,
    pub(super) offset: Tensor<1>,
    pub(super) epsilon: f64,
}

impl Norm {
    /// Reads `{name}.weight` and `{name}.bias`.
    pub fn read(reader: &Reader, name: &str, epsilon: f64) -> Result<Self, WeightsError> {
        let read = |part: &str| {
            let values = reader.values(&format!("{name}.{part}"))?;
            Ok(Tensor::from_data(&values[..], reader.device))
        };
        Ok(Self { gain: read("weight")?, offset: read("bias")?, epsilon })
    }

    /// Normalises over the last axis, in float32.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        if !on_cpu(&x.device()) {
            return fused::norm(self, x, DType::F32);
        }
        layer_norm(x, self.gain.clone(), Some(self.offset.clone()), self.epsilon)
    }
}

/// `x` through a norm; unchanged without one.
fn norm_optional(x: Tensor<2>, norm: Option<&Norm>) -> Tensor<2> {
    match norm {
        Some(norm) => norm.forward(x),
        None => x,
    }
}

pub(super) enum Mlp {
    /// `down(f(up(x)))`.
    Perceptron(Linear, Activation, Linear),
    /// `down(f(a) * b)` with `[a b] = in(x)` (Shazeer, 2020); some sizes of EVA-02 have a norm before `down`.
    Gated(Linear, Activation, Option<Box<Norm>>, Linear),
}

impl Mlp {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Perceptron(up, activation, down) => down.forward(activation.apply(up.forward(x))),
            Self::Gated(both, activation, norm, down) => {
                let mut halves = both.forward(x).chunk(2, 1); // [M, mlp_dim] twice
                let value = halves.remove(1);
                down.forward(norm_optional(activation.apply(halves.remove(0)) * value, norm.as_deref()))
            }
        }
    }
}

impl Activation {
    fn apply(self, x: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Gelu => gelu(x),
            Self::GeluTanh => swish(x, activation::TANH),
            Self::QuickGelu => swish(x, activation::QUICK),
            Self::Relu => relu(x),
            Self::Silu => swish(x, activation::SILU),
        }
    }
}

/// What a layer knows of the tokens' positions.
#[derive(Clone)]
pub struct RelativePositions<'a> {
    /// Added to the attention logits, `[1 or B, heads, T, T]`.
    pub bias: Option<Tensor<4>>,
    /// Applied to queries and keys.
    pub rotation: Option<&'a Rotation>,
}

/// One layer.
pub struct Block {
    pub(super) heads: usize,
    pub(super) norm1: Norm,
    pub(super) qkv: Linear,
    /// The norm between attention and its projection, in some sizes of EVA-02.
    pub(super) attention_norm: Option<Norm>,
    pub(super) out: Linear,
    pub(super) norm2: Norm,
    pub(super) mlp: Mlp,
}

impl Block {
    /// Reads layer `i`, from 0.
    pub fn read(reader: &Reader, config: &Config, i: usize) -> Result<Self, WeightsError> {
        let layer = keys::layer(config, i);
        let Config { width, mlp_dim, biases, .. } = *config;
        let names = config.family.names;
        let scale = |name: &str| match config.layer_scale {
            true => reader.values(&format!("{layer}{name}")).map(Some),
            false => Ok(None),
        };
        let (scale1, scale2) = (scale(names.scale1)?, scale(names.scale2)?);
        let part = |name: &str, bias: bool| (format!("{layer}{name}"), bias);
        let one = |name: &str, rows: usize, bias: bool, scale: Option<&[f32]>| {
            Linear::read(reader, &[part(name, bias)], rows, scale)
        };
        let qkv: Vec<_> = names.qkv.iter().zip(biases.qkv).map(|(name, bias)| part(name, bias)).collect();
        let norm = |on: bool, name: &str| {
            on.then(|| Norm::read(reader, &format!("{layer}{name}"), config.epsilon)).transpose()
        };
        let mlp = match config.gated {
            true => {
                let gate: Vec<_> = names.gate.iter().map(|name| part(name, biases.mlp)).collect();
                let both = Linear::read(reader, &gate, 2 * mlp_dim / gate.len(), None)?;
                let down = one(names.gated_down, width, biases.mlp, scale2.as_deref())?;
                let norm = norm(config.mlp_norm, names.mlp_norm)?.map(Box::new);
                Mlp::Gated(both, config.activation, norm, down)
            }
            false => Mlp::Perceptron(
                one(names.up, mlp_dim, biases.mlp, None)?,
                config.activation,
                one(names.down, width, biases.mlp, scale2.as_deref())?,
            ),
        };
        Ok(Self {
            heads: config.heads,
            norm1: Norm::read(reader, &format!("{layer}{}", names.norm1), config.epsilon)?,
            qkv: Linear::read(reader, &qkv, width, None)?,
            attention_norm: norm(config.attention_norm, names.attention_norm)?,
            out: one(names.out, width, biases.out, scale1.as_deref())?,
            norm2: Norm::read(reader, &format!("{layer}{}", names.norm2), config.epsilon)?,
            mlp,
        })
    }

    /// The factor of queries, `1 / sqrt(head_dim)`.
    pub(super) fn scale(&self) -> f64 {
        let [width, _] = self.out.weight.dims();
        ((width / self.heads) as f64).powf(-0.5)
    }

    /// The tokens after this layer, `[B * T, d]`. `x`: `[B * T, d]` of `batch` images.
    pub fn forward(&self, x: Tensor<2>, batch: usize, positions: RelativePositions) -> Tensor<2> {
        if !on_cpu(&x.device()) {
            return self.forward_fused(x, batch, positions);
        }
        let x = self.attend(self.norm1.forward(x.clone()), batch, positions) + x;
        self.mlp.forward(self.norm2.forward(x.clone())) + x
    }

    /// Attention weights averaged over heads, `[B, T, T]` in float32; rows sum to 1. Arguments as in
    /// [`forward`](Self::forward).
    pub fn attention(&self, x: Tensor<2>, batch: usize, positions: RelativePositions) -> Tensor<3> {
        let weights = if on_cpu(&x.device()) {
            let [query, key, _] = self.qkv(self.norm1.forward(x), batch, positions.rotation);
            let logits = (query * self.scale()).precise_matmul(key.transpose()); // [B, heads, T, T]
            softmax(add_optional(logits, positions.bias.as_ref()), 3)
        } else {
            let [weights, _] = self.attention_fused(x, batch, positions, DType::F32);
            weights
        };
        weights.mean_dim(1).squeeze_dim(1)
    }

    /// Queries, keys and values, `[B, heads, T, head_dim]` each, of normed tokens `[B T, d]` on the CPU.
    fn qkv(&self, x: Tensor<2>, batch: usize, rotation: Option<&Rotation>) -> [Tensor<4>; 3] {
        let [rows, width] = x.dims();
        let (tokens, head_dim) = (rows / batch, width / self.heads);
        let qkv = self.qkv.forward(x).reshape([batch, tokens, 3, self.heads, head_dim]);
        let qkv = qkv.permute([2, 0, 3, 1, 4]); // [3, B, heads, T, head_dim]
        let pick = |i: usize| qkv.clone().slice_dim(0, i..i + 1).squeeze_dim::<4>(0);
        let rotated = |x: Tensor<4>| match rotation {
            Some(rotation) => rotation.apply(x),
            None => x,
        };
        [rotated(pick(0)), rotated(pick(1)), pick(2)]
    }

    /// Attention and its projection, `[B T, d]`, of normed tokens on the CPU.
    fn attend(&self, x: Tensor<2>, batch: usize, positions: RelativePositions) -> Tensor<2> {
        let [rows, width] = x.dims();
        let [query, key, value] = self.qkv(x, batch, positions.rotation);
        let options = AttentionModuleOptions { scale: Some(self.scale()), ..Default::default() };
        let attended = attention(query, key, value, None, positions.bias, options); // [B, heads, T, head_dim]
        let attended = attended.swap_dims(1, 2).reshape([rows, width]);
        self.out.forward(norm_optional(attended, self.attention_norm.as_ref()))
    }
}
