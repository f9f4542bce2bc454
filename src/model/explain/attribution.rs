//! Attribution baselines beside exact evidence (docs/definitions.md, section 11): the contribution of every token to the
//! logit of a class, for any head, in float64 on the CPU.
//!
//! * [`gradient`]: gradient x token, `t_i . dlogit / dt_i`. For a head whose weights do not depend on the tokens this is its
//!   exact evidence; with a scorer or a query it differs by the gradient that passes through these.
//! * [`integrated`]: integrated gradients (Sundararajan et al. 2017) from the mean token to each token,
//!   `(t_i - mean) . mean over 64 midpoints of dlogit / dt_i`. Their sum should be the logit less that of an image of mean tokens.
//! * Attention rollout describes the backbone, not a class: [`Backbone::rollout`](crate::model::backbone::Backbone::rollout).
//!
//! For heads that make a hard choice of tokens or of their order (`topk`, `hard-sort`) the choice is held fixed, also on the
//! whole path from the mean token: it has no derivative, and the surrogate gradient of training is not used.

use burn::tensor::{DType, Device, Tensor, TensorData};
use rayon::prelude::*;

use super::evidence::exact;
use super::image_reading::ImageReading;
use super::narrow;
use super::readout::{dot, logits};
use crate::model::ops::matmul::PreciseMatmul as _;
use crate::model::probe::Probe;
use crate::model::probe::head::float64::host;
use crate::model::probe::head::{Batch, Dims};
use crate::model::probe::head_output::Form;
use crate::model::probe::params::Params;
use crate::model::reading::Intervention;
use crate::model::stats::mean_row;
use crate::model::tokens::Tokens;
use crate::model::trace::{Attributed, Attribution, AttributionSet, Trace};

/// Midpoints on the path of integrated gradients, from the mean token to the tokens.
pub const MIDPOINTS: usize = 64;
/// Tokens per forward and backward pass: several midpoints of an image of few tokens share one.
const TOKENS_PER_PASS: usize = 1024;

/// Adds to a trace of `probe` the attributions `asked` for, for the class of its evidence. `rollout` is the attention rollout of
/// the backbone, if it was computed.
pub fn attribute(
    trace: &mut Trace,
    probe: &Probe,
    tokens: &Tokens,
    image_seed: u64,
    asked: AttributionSet,
    rollout: Option<&Result<Vec<f32>, String>>,
) {
    let (class, change) = (trace.evidence.class, trace.reading.change.clone());
    let read = || {
        let reading = ImageReading::new(probe, change.clone(), tokens, image_seed);
        reading.map_err(|error| error.to_string())
    };
    for method in asked.iter() {
        let found = match method {
            Attribution::Gradient => {
                read().and_then(|reading| gradient(&reading, class)).map(|token| narrow(&token).into())
            }
            Attribution::Integrated => {
                let found = read().and_then(|reading| integrated(&reading, class));
                found.map(|Integrated { token, completeness_error }| Attributed {
                    token: narrow(&token),
                    completeness_error: Some(completeness_error),
                })
            }
            Attribution::Rollout => {
                let unread = || Err("The backbone was not run".to_owned());
                rollout.cloned().unwrap_or_else(unread).map(Attributed::from)
            }
        };
        trace.attributions.insert(method, found.into());
    }
}

/// Integrated gradients of one logit.
#[derive(Clone, Debug, PartialEq)]
pub struct Integrated {
    /// Attribution of every token, `[N]`, in units of the logit.
    pub token: Vec<f64>,
    /// Sum of `token` less its target: the logit less that of an image of mean tokens.
    pub completeness_error: f64,
}

/// Gradient x token of the logit of `class`, `[N]`, in units of the logit, or why there is none.
pub fn gradient(reading: &ImageReading<'_>, class: usize) -> Result<Vec<f64>, String> {
    let target = TargetLogit::new(reading, class)?;
    let tokens = reading.tokens;
    if reading.probe.head().has_hard_choice() {
        return target.with_fixed_choice(tokens);
    }
    let patches = patches_f64(tokens);
    let gradients = target.logit().gradients(patches.clone());
    finite(token_products(&gradients, &patches, tokens.width))
}

/// Integrated gradients of the logit of `class`; arguments and errors as of [`gradient`].
pub fn integrated(reading: &ImageReading<'_>, class: usize) -> Result<Integrated, String> {
    let target = TargetLogit::new(reading, class)?;
    let tokens = reading.tokens;
    let patches = patches_f64(tokens);
    let mean = mean_row(patches.chunks_exact(tokens.width), tokens.width); // [d]
    let from_mean: Vec<f64> = patches.iter().zip(mean.iter().cycle()).map(|(t, mean)| t - mean).collect();
    let narrow =
        |values: &mut dyn Iterator<Item = f64>| tokens.with_patches(values.map(|x| x as f32).collect());
    let (token, logit_difference) = if reading.probe.head().has_hard_choice() {
        let ends = [tokens, &narrow(&mut mean.iter().copied().cycle().take(patches.len()))];
        let [end, start] = ends.map(|tokens| target.value(tokens));
        (target.with_fixed_choice(&narrow(&mut from_mean.iter().copied()))?, end? - start?)
    } else {
        let logit = target.logit();
        let at =
            |share: f64| mean.iter().cycle().zip(&from_mean).map(move |(mean, step)| mean + share * step);
        let points: Vec<usize> = (0..MIDPOINTS).collect();
        let chunks = points.par_chunks((TOKENS_PER_PASS / tokens.grid.len()).max(1)).map(|points| {
            let share = |point: &usize| (*point as f64 + 0.5) / MIDPOINTS as f64;
            let gradients = logit.gradients(points.iter().flat_map(|point| at(share(point))).collect());
            let each = gradients.chunks_exact(from_mean.len());
            let each = each.map(|gradients| token_products(gradients, &from_mean, tokens.width));
            each.reduce(|sum, next| sum.iter().zip(next).map(|(a, b)| a + b).collect())
        });
        let chunks: Vec<Option<Vec<f64>>> = chunks.collect();
        let mut token = vec![0.0; tokens.grid.len()];
        for chunk in chunks.into_iter().flatten() {
            token.iter_mut().zip(chunk).for_each(|(sum, x)| *sum += x / MIDPOINTS as f64);
        }
        let ends = logit.values(at(1.0).chain(at(0.0)).collect());
        (token, ends[0] - ends[1])
    };
    let token = finite(token)?;
    Ok(Integrated { completeness_error: token.iter().sum::<f64>() - logit_difference, token })
}

/// The logit of `class` on one image.
struct TargetLogit<'a> {
    reading: &'a ImageReading<'a>,
    class: usize,
}

impl<'a> TargetLogit<'a> {
    fn new(reading: &'a ImageReading<'a>, class: usize) -> Result<Self, String> {
        let ImageReading { probe, intervention: of, .. } = reading;
        if !matches!(of, Intervention::None | Intervention::Temperature(_) | Intervention::Iterations(_)) {
            let why = "Gradients exist only for a probe in its own order: this reading has another";
            return Err(why.to_owned());
        }
        if class >= probe.classes() {
            return Err(format!("class {class} of a probe with {} classes", probe.classes()));
        }
        match reading.output.form {
            Form::Opaque { why, .. } if probe.head().needs_cls() => Err(why.to_owned()),
            _ => Ok(Self { reading, class }),
        }
    }

    /// Contribution of every token to the logit, `[N]`, with `values` for the tokens but weights and order kept as they are.
    fn with_fixed_choice(&self, values: &Tokens) -> Result<Vec<f64>, String> {
        finite(exact(&self.reading.output, values, &self.reading.probe.classifier, self.class)?.token)
    }

    /// The logit of an image with these tokens, bias included.
    fn value(&self, tokens: &Tokens) -> Result<f64, String> {
        let ImageReading { probe, image_seed, .. } = self.reading;
        let output = probe.output(tokens, *image_seed).map_err(|error| error.to_string())?;
        Ok(logits(&output, tokens, &probe.classifier)[self.class])
    }

    /// The logit as a differentiable function of the tokens, on the CPU.
    fn logit(&self) -> Logit<'_> {
        let device = Device::flex().autodiff();
        let probe = &self.reading.probe;
        let Tokens { grid, width, .. } = *self.reading.tokens;
        let specs = probe.head().specs(&Dims { width, grid, classes: 1 });
        let params = Params::from_arrays_in(specs, &probe.arrays, &device, DType::F64);
        let row: Vec<f64> = probe.classifier.row(self.class).iter().map(|&w| f64::from(w)).collect();
        let shape = [row.len(), 1];
        let row = f64_tensor(row, shape, &device);
        Logit { reading: self.reading, params, row, device }
    }
}

/// A logit as a differentiable function of the patch tokens, in float64, without the bias.
struct Logit<'a> {
    reading: &'a ImageReading<'a>,
    params: Params,
    /// The classifier's row as a column, `[F, 1]`.
    row: Tensor<2>,
    device: Device,
}

impl Logit<'_> {
    /// Patch tokens of one or more images as a tensor `[B, N, d]`.
    fn patches(&self, values: Vec<f64>) -> Tensor<3> {
        let Tokens { grid, width, .. } = *self.reading.tokens;
        let shape = [values.len() / (grid.len() * width), grid.len(), width];
        f64_tensor(values, shape, &self.device)
    }

    /// The logit of every image, `[B, 1]`.
    fn forward(&self, patches: Tensor<3>) -> Tensor<2> {
        let [images, _, width] = patches.dims();
        let image_seeds = vec![self.reading.image_seed; images];
        let Tokens { grid, cls, .. } = self.reading.tokens;
        let cls = cls.as_ref().map(|cls| {
            let all = cls.repeat(images).iter().map(|&x| f64::from(x)).collect();
            f64_tensor(all, [images, width], &self.device)
        });
        let batch = Batch { patches, cls, grid: *grid, image_seeds, training: false };
        self.reading.probe.head().features(&self.params, &batch).precise_matmul(self.row.clone())
    }

    /// The logit of every image, `[B]`.
    fn values(&self, patches: Vec<f64>) -> Vec<f64> {
        host(self.forward(self.patches(patches)))
    }

    /// Gradient of the logit of every image with respect to its patch tokens, `[B, N, d]`.
    fn gradients(&self, patches: Vec<f64>) -> Vec<f64> {
        let patches = self.patches(patches).require_grad();
        let gradients = self.forward(patches.clone()).sum().backward();
        host(patches.grad(&gradients).expect("every head but that of CLS reads the patch tokens"))
    }
}

fn f64_tensor<const D: usize>(values: Vec<f64>, shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(values, shape), (device, DType::F64))
}

/// The patch tokens in float64, `[N, d]`.
fn patches_f64(tokens: &Tokens) -> Vec<f64> {
    tokens.patches.iter().map(|&x| f64::from(x)).collect()
}

/// Dot product of every token with its gradient, `[N]`.
fn token_products(gradients: &[f64], tokens: &[f64], width: usize) -> Vec<f64> {
    gradients.chunks_exact(width).zip(tokens.chunks_exact(width)).map(|(g, t)| dot(g, t)).collect()
}

fn finite(values: Vec<f64>) -> Result<Vec<f64>, String> {
    // Also in float32, in which they are stored.
    match values.iter().all(|x| (*x as f32).is_finite()) {
        true => Ok(values),
        false => Err("The logit has no finite gradient in these tokens".to_owned()),
    }
}
