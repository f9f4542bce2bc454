//! Batch normalisation without weight and bias between a head and the classifier, as in MAE's linear probe (He et al.
//! 2022, appendix A) and its successors.
//!
//! `y = (z - mean) / sqrt(variance + 1e-6)` of the features `z` `[F]`. While training, mean and variance are the batch's
//! (population variance); in evaluation the running ones, the buffers `norm.running_mean` and `norm.running_var` `[F]`,
//! updated as in `nn.BatchNorm1d(F, affine=False)`: by a tenth of each new batch, with its variance over `B - 1`.

use super::prelude::*;
use crate::model::ops::standardise::{self, Spread};

/// Added to the variance, as in MAE's probe.
const EPSILON: f64 = 1e-6;
/// Share of the newest batch in the running statistics.
const MOMENTUM: f64 = 0.1;

/// A head that pools in no order, and the norm behind it.
pub struct Normed {
    head: Box<dyn Head>,
    norm: Norm,
    /// Whether [`settings`](Head::settings) include the norm.
    in_settings: bool,
}

impl Normed {
    /// `head` with the norm of the settings; none where the settings name none.
    pub(super) fn by_settings(head: Box<dyn Head>, config: &Config) -> Box<dyn Head> {
        Box::new(Self { head, norm: config.norm.unwrap_or(Norm::None), in_settings: true })
    }

    /// `head` with batch normalisation, always.
    pub(super) fn always(head: impl Head + 'static) -> Box<dyn Head> {
        Box::new(Self { head: Box::new(head), norm: Norm::Batch, in_settings: false })
    }

    fn is_batch(&self) -> bool {
        self.norm == Norm::Batch
    }
}

/// Mean and population variance over the batch, `[1, F]` each, of features `[B, F]`.
fn statistics(features: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
    let mean = features.clone().mean_dim(0);
    let centred = features - mean.clone();
    (mean, (centred.clone() * centred).mean_dim(0))
}

impl Head for Normed {
    fn specs(&self, dims: &Dims) -> Vec<Spec> {
        let mut specs = self.head.specs(dims);
        if self.is_batch() {
            let buffer = |name: &str, start: f32| {
                Spec::new(name, [self.features_len(dims.width)], Init::Constant(start))
                    .with(Constraint::Fixed)
            };
            specs.extend([buffer("norm.running_mean", 0.0), buffer("norm.running_var", 1.0)]);
        }
        specs
    }

    fn normalises_batch(&self) -> bool {
        self.is_batch()
    }

    fn check(&self, dims: &Dims) -> Result<(), ConfigError> {
        self.head.check(dims)
    }

    fn settings(&self, width: usize) -> Config {
        Config { norm: self.in_settings.then_some(self.norm), ..self.head.settings(width) }
    }

    fn features_len(&self, width: usize) -> usize {
        self.head.features_len(width)
    }

    fn pooling(&self, params: &Params, batch: &Batch) -> Option<Pooling> {
        self.head.pooling(params, batch)
    }

    fn finish(&self, params: &Params, pooled: Tensor<3>, batch: &Batch) -> Tensor<2> {
        self.head.finish(params, pooled, batch)
    }

    fn raw_features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        self.head.features(params, batch)
    }

    fn normalise(&self, params: &Params, raw: Tensor<2>, training: bool) -> Tensor<2> {
        if !self.is_batch() {
            return raw;
        }
        let (mean, variance) = if training {
            if let Some(normalised) = standardise::fused(&raw, 0, Spread::Root(EPSILON)) {
                return normalised;
            }
            statistics(raw.clone())
        } else {
            let buffer = |name| params.get::<1>(name).unsqueeze_dim::<2>(0); // [1, F]
            (buffer("norm.running_mean"), buffer("norm.running_var"))
        };
        (raw - mean) / (variance + EPSILON).sqrt() // this form keeps the gradient bit-identical to that of earlier versions
    }

    fn features(&self, params: &Params, batch: &Batch) -> Tensor<2> {
        self.normalise(params, self.raw_features(params, batch), batch.training)
    }

    fn observe(&self, params: Params, raw: Tensor<2>) -> Params {
        let [images, _] = raw.dims();
        // The variance of a single image is undefined.
        if !self.is_batch() || images < 2 {
            return params;
        }
        let (mean, variance) = statistics(raw);
        let unbiased = variance * (images as f64 / (images - 1) as f64);
        params.map(|spec, value| {
            let new: Tensor<1> = match spec.name.as_str() {
                "norm.running_mean" => mean.clone().squeeze_dim(0),
                "norm.running_var" => unbiased.clone().squeeze_dim(0),
                _ => return value,
            };
            value.clone() + (new - value) * MOMENTUM
        })
    }

    fn output(&self, params: &HostParams<'_>, tokens: &Tokens, image_seed: u64) -> HeadOutput {
        let HeadOutput { scores, form } = self.head.output(params, tokens, image_seed);
        if !self.is_batch() {
            return HeadOutput { scores, form };
        }
        let (mean, variance) = (params["norm.running_mean"].to_f64(), params["norm.running_var"].to_f64());
        let scale: Vec<f64> = variance.iter().map(|v| 1.0 / (v + EPSILON).sqrt()).collect();
        let normalised = |features: Vec<f64>| -> Vec<f64> {
            features.iter().zip(&mean).zip(&scale).map(|((z, m), s)| (z - m) * s).collect()
        };
        let form = match form {
            Form::Pool(weights) => {
                let d = tokens.width;
                let mut map = vec![0.0; d * d]; // [F, d]: diagonal
                scale.iter().enumerate().for_each(|(f, s)| map[f * (d + 1)] = *s);
                Form::Projected { weights, map, mix: None, bias: normalised(vec![0.0; d]) }
            }
            Form::Projected { weights, mut map, mut mix, bias } => {
                let last = mix.as_mut().unwrap_or(&mut map);
                let width = last.len() / scale.len();
                let rows = last.chunks_exact_mut(width).zip(&scale);
                rows.for_each(|(row, s)| row.iter_mut().for_each(|x| *x *= s));
                Form::Projected { weights, map, mix, bias: normalised(bias) }
            }
            Form::Opaque { features, why } => Form::Opaque { features: normalised(features), why },
            Form::ChannelPool(_) | Form::BesideCls { .. } | Form::Scan(_) => {
                unreachable!("a norm stands behind heads that pool")
            }
        };
        HeadOutput { scores, form }
    }

    fn flops(&self, n: u64, d: u64) -> u64 {
        self.head.flops(n, d) + if self.is_batch() { 2 * self.features_len(d as usize) as u64 } else { 0 }
    }

    fn counts(&self, n: u64, d: u64) -> Counts {
        let norm = if self.is_batch() { self.features_len(d as usize) as u64 } else { 0 };
        self.head.counts(n, d) + Counts::norms(norm, false)
    }
}
