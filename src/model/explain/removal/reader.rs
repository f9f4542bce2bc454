//! Reads an image with a probe when only some of its tokens are left.

use rayon::prelude::*;

use super::ranking::{RANKINGS, RankingInput};
use super::{Found, Ranked};
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::{Intervention, permutation};
use crate::model::explain::readout::{average, channels_by_token, logits, token_weight};
use crate::model::grid::Grid;
use crate::model::probe::head::s4_layer::Kernel;
use crate::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order};
use crate::model::tokens::Tokens;

impl ImageReading<'_> {
    /// Every ranking of [`RANKINGS`], by its id. `rollout` is the backbone's attention rollout, or why there is none; `seed`
    /// breaks ties.
    pub fn rankings(
        &self,
        class: usize,
        rollout: Result<&[f32], &str>,
        seed: u64,
    ) -> Vec<(&'static str, Found<Ranked>)> {
        let input = RankingInput { reading: self, class, rollout };
        RANKINGS.iter().map(|ranking| (ranking.id, ranking.rank(&input, seed))).collect()
    }

    /// Logits `[C]` of each of `sets` with plan and weights kept as they are, or why that is not possible.
    pub fn frozen(&self, sets: &[&Vec<usize>]) -> Result<Vec<Vec<f64>>, String> {
        let weights = match &self.output.form {
            Form::Opaque { why, .. } => return Err((*why).to_owned()),
            _ => as_weights(&self.output, self.tokens.width),
        };
        let output = weights.map(|form| HeadOutput { scores: None, form });
        let output = output.as_ref().unwrap_or(&self.output);
        let logits = |left: &&Vec<usize>| {
            let d = self.tokens.width;
            let mut patches = vec![0.0; self.tokens.patches.len()];
            left.iter().for_each(|&i| patches[i * d..][..d].copy_from_slice(self.tokens.patch(i)));
            self.read_out(output, &self.tokens.with_patches(patches))
        };
        Ok(sets.par_iter().map(logits).collect())
    }

    /// Logits `[C]` of each of `sets` if the head reads only those tokens, or why that is meaningless.
    pub fn rerouted(&self, sets: &[&Vec<usize>]) -> Result<Vec<Vec<f64>>, String> {
        if self.reads_cls_alone() {
            let why =
                "The CLS head reads the CLS token alone, which does not change when patch tokens are removed";
            return Err(why.to_owned());
        }
        let logits = |left: &&Vec<usize>| {
            let grid = Grid::new(1, left.len());
            self.left(&Tokens { grid, ..self.tokens.picked(left) }, left)
        };
        Ok(sets.par_iter().map(logits).collect())
    }

    /// Logits `[C]` of new tokens of all patches of the same image.
    pub fn again(&self, tokens: &Tokens) -> Vec<f64> {
        let output = self.intervention.read(&self.probe, tokens, self.image_seed);
        self.read_out(&output.expect("the same image could be read before"), tokens)
    }

    /// Logits `[C]` of `tokens`, one for each of the patches `left`, in that order.
    ///
    /// # Panics
    /// If there is not one token for each: a bug in the caller.
    pub fn left(&self, tokens: &Tokens, left: &[usize]) -> Vec<f64> {
        let output = |tokens: &Tokens| {
            let kernels = self.kernels(left.len());
            self.probe.head().output(&self.probe.host_params(&kernels), tokens, self.image_seed)
        };
        if self.reads_cls_alone() {
            return self.read_out(&output(tokens), tokens);
        }
        assert_eq!(tokens.patches.len(), left.len() * tokens.width, "a token for each patch that is left");
        if let Some(orders) = self.output.fixed_orders() {
            let orders = orders.into_iter().map(|order| Order::Permutation(restrict(order, left)));
            let has_memory = self.output.directions().iter().all(|direction| direction.radius.is_some());
            let directions = match has_memory {
                true => self
                    .kernels(left.len())
                    .iter()
                    .zip(orders)
                    .map(|(kernel, order)| kernel.direction(order))
                    .collect(),
                // A gain that is not a kernel (no radius) depends on the number of tokens: compute it anew.
                false => match output(tokens).form {
                    Form::Scan(own) => {
                        own.into_iter().zip(orders).map(|(own, order)| Direction { order, ..own }).collect()
                    }
                    _ => unreachable!("a head reads in the same form, however many tokens there are"),
                },
            };
            return self.read_out(&HeadOutput { scores: None, form: Form::Scan(directions) }, tokens);
        }
        // The order in which the intervention lays out the tokens, if it does.
        let layout = match &self.intervention {
            Intervention::Random(seed) => Some(permutation(*seed, self.image_seed, self.tokens.grid.len())),
            Intervention::Order(order) => Some(order.indices()),
            _ => None,
        };
        match layout {
            Some(order) => {
                let moved = tokens.picked(&restrict(&order, left));
                self.read_out(&output(&moved), &moved)
            }
            None => {
                let changed = self.intervention.apply(&self.probe, tokens, output(tokens), self.image_seed);
                self.read_out(&changed.expect("what could be changed for all tokens"), tokens)
            }
        }
    }

    /// Whether the head reads no patch token.
    fn reads_cls_alone(&self) -> bool {
        self.probe.head().needs_cls() && matches!(self.output.form, Form::Opaque { .. })
    }

    fn read_out(&self, output: &HeadOutput, tokens: &Tokens) -> Vec<f64> {
        logits(output, tokens, &self.probe.classifier)
    }

    /// Kernels of `n` tokens, the last `n` steps of the whole image's: the gain depends only on the steps before the end.
    fn kernels(&self, n: usize) -> Vec<Kernel> {
        let all = self.tokens.grid.len();
        let kernel = |direction: &Direction| {
            let last = |gain: &[f64]| gain[gain.len() / all * (all - n)..].to_vec();
            let gain = match &direction.gain {
                Gain::Shared(gain) => Gain::Shared(last(gain)),
                Gain::Channel(gain) => Gain::Channel(last(gain)),
                Gain::Mix { .. } => return None,
            };
            let values = direction.kernel[..direction.kernel.len() / all * n].to_vec();
            Some(Kernel { values, gain, radius: direction.radius? })
        };
        self.output.directions().iter().filter_map(kernel).collect()
    }
}

/// An order of all tokens restricted to those `left` (ascending), as indices into `left`.
fn restrict(order: &[usize], left: &[usize]) -> Vec<usize> {
    debug_assert!(left.is_sorted() && left.last().is_none_or(|last| *last < order.len()), "in raster order");
    order.iter().filter_map(|token| left.binary_search(token).ok()).collect()
}

/// Sweeps as one weight per token (and channel); `None` if the form is no scan, or its gain mixes channels.
fn as_weights(output: &HeadOutput, d: usize) -> Option<Form> {
    let Form::Scan(directions) = &output.form else { return None };
    if let Some(weight) = token_weight(output) {
        return Some(Form::Pool(weight));
    }
    let weights = directions.iter().map(|direction| match &direction.gain {
        Gain::Channel(gain) => Some(channels_by_token(&direction.order, gain, d)),
        _ => None,
    });
    Some(Form::ChannelPool(average(&weights.collect::<Option<Vec<_>>>()?)))
}
