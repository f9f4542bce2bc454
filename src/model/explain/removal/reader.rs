//! How a probe reads the tokens of an image that are left.

use std::borrow::Cow;

use rayon::prelude::*;

use super::ranking::{RANKINGS, Seen};
use super::{Found, Ranked};
use crate::model::explain::intervention::{Intervention, InterventionError, permutation};
use crate::model::explain::readout::{average, channels_by_token, logits, token_weight};
use crate::model::grid::Grid;
use crate::model::probe::Probe;
use crate::model::probe::head::s4_layer::Kernel;
use crate::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order};
use crate::model::tokens::Tokens;

/// A probe and the image it read.
pub struct Reader<'a> {
    probe: Cow<'a, Probe>,
    change: Intervention,
    tokens: &'a Tokens,
    whole: HeadOutput,
    image_seed: u64,
}

impl<'a> Reader<'a> {
    /// Reads the whole image. `image_seed` seeds random orders: the image's index in its dataset.
    pub fn new(
        probe: &'a Probe,
        change: Intervention,
        tokens: &'a Tokens,
        image_seed: u64,
    ) -> Result<Self, InterventionError> {
        let probe = change.probe(probe)?;
        let whole = change.read(&probe, tokens, image_seed)?;
        Ok(Self { probe, change, tokens, whole, image_seed })
    }

    /// The logits of the whole image, `[C]`.
    pub fn logits(&self) -> Vec<f64> {
        self.read_out(&self.whole, self.tokens)
    }

    /// Every ranking of the list, by its id. `rollout`: the backbone's attention rollout, or why there is none; `seed` draws who
    /// goes first of equals.
    pub fn rankings(
        &self,
        class: usize,
        rollout: Result<&[f32], &str>,
        seed: u64,
    ) -> Vec<(&'static str, Found<Ranked>)> {
        let (change, image_seed) = (self.change.clone(), self.image_seed);
        let (probe, output, tokens) = (&*self.probe, &self.whole, self.tokens);
        let seen = Seen { probe, tokens, output, class, change, image_seed, rollout };
        RANKINGS.iter().map(|ranking| (ranking.id, ranking.rank(&seen, seed))).collect()
    }

    /// Logits `[C]` of each of `sets` where plan and weights stay as they are, or why they cannot.
    pub fn frozen(&self, sets: &[&Vec<usize>]) -> Result<Vec<Vec<f64>>, String> {
        let weights = match &self.whole.form {
            Form::Opaque { why, .. } => return Err((*why).to_owned()),
            _ => lowered(&self.whole, self.tokens.width),
        };
        let output = weights.map(|form| HeadOutput { scores: None, form });
        let output = output.as_ref().unwrap_or(&self.whole);
        let one = |left: &&Vec<usize>| {
            let d = self.tokens.width;
            let mut patches = vec![0.0; self.tokens.patches.len()];
            left.iter().for_each(|&i| patches[i * d..][..d].copy_from_slice(self.tokens.patch(i)));
            self.read_out(output, &Tokens { patches, ..self.without_patches(self.tokens.grid) })
        };
        Ok(sets.par_iter().map(one).collect())
    }

    /// Logits `[C]` of each of `sets` where the head is given those tokens alone, or why that says nothing.
    pub fn rerouted(&self, sets: &[&Vec<usize>]) -> Result<Vec<Vec<f64>>, String> {
        if self.reads_cls_alone() {
            let why =
                "The CLS head reads the CLS token alone, which does not change where patch tokens leave";
            return Err(why.to_owned());
        }
        let one = |left: &&Vec<usize>| {
            let patches = left.iter().flat_map(|&i| self.tokens.patch(i)).copied().collect();
            let grid = Grid::new(1, left.len());
            self.left(&Tokens { patches, ..self.without_patches(grid) }, left)
        };
        Ok(sets.par_iter().map(one).collect())
    }

    /// Logits `[C]` of other tokens of the same image, those of all its patches.
    pub fn again(&self, tokens: &Tokens) -> Vec<f64> {
        let output = self.change.read(&self.probe, tokens, self.image_seed);
        self.read_out(&output.expect("the same image could be read before"), tokens)
    }

    /// Logits `[C]` of `tokens`, those of the patches `left`, in their order.
    ///
    /// # Panics
    /// If there is not one token for each: a bug of the caller.
    pub fn left(&self, tokens: &Tokens, left: &[usize]) -> Vec<f64> {
        if self.reads_cls_alone() {
            return self
                .read_out(&self.probe.head().output(&self.probe.arrays, tokens, self.image_seed), tokens);
        }
        assert_eq!(tokens.patches.len(), left.len() * tokens.width, "a token for each patch that is left");
        let fresh = |tokens: &Tokens| {
            let kernels = self.kernels(left.len());
            self.probe.head().output_with(&self.probe.arrays, &kernels, tokens, self.image_seed)
        };
        if let Form::Scan(directions) = &self.whole.form
            && let Some(orders) = skipping(directions, left, self.tokens.grid.len())
        {
            let directions = match directions.iter().all(|direction| direction.radius.is_some()) {
                true => self
                    .kernels(left.len())
                    .iter()
                    .zip(orders)
                    .map(|(kernel, order)| kernel.direction(order))
                    .collect(),
                // What is no memory depends on how many there are.
                false => match fresh(tokens).form {
                    Form::Scan(own) => {
                        own.into_iter().zip(orders).map(|(own, order)| Direction { order, ..own }).collect()
                    }
                    _ => unreachable!("a head reads in the same form, however many tokens there are"),
                },
            };
            return self.read_out(&HeadOutput { scores: None, form: Form::Scan(directions) }, tokens);
        }
        // The order that the tokens lie in, where it is another.
        let lie = match &self.change {
            Intervention::Random(seed) => Some(permutation(*seed, self.image_seed, self.tokens.grid.len())),
            Intervention::Order(order) => Some(order.indices()),
            _ => None,
        };
        match lie {
            Some(order) => {
                let order = skip(&order, left);
                let patches = order.iter().flat_map(|&i| tokens.patch(i)).copied().collect();
                let moved = Tokens { patches, ..tokens.clone() };
                self.read_out(&fresh(&moved), &moved)
            }
            None => {
                let output = self.change.change(&self.probe, tokens, fresh(tokens), self.image_seed);
                self.read_out(&output.expect("what could be changed for all tokens"), tokens)
            }
        }
    }

    /// Whether no patch token is read.
    fn reads_cls_alone(&self) -> bool {
        self.probe.head().needs_cls() && matches!(self.whole.form, Form::Opaque { .. })
    }

    fn read_out(&self, output: &HeadOutput, tokens: &Tokens) -> Vec<f64> {
        logits(output, tokens, &self.probe.classifier.weight, &self.probe.classifier.bias)
    }

    fn without_patches(&self, grid: Grid) -> Tokens {
        let Tokens { width, cls, registers, .. } = self.tokens;
        Tokens { grid, width: *width, cls: cls.clone(), registers: registers.clone(), patches: Vec::new() }
    }

    /// The kernels for the last `n` steps: what is `j` steps before the end counts the same in any sequence.
    fn kernels(&self, n: usize) -> Vec<Kernel> {
        let Form::Scan(directions) = &self.whole.form else { return Vec::new() };
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
        directions.iter().filter_map(kernel).collect()
    }
}

/// Fixed orders without the tokens that left; none where one is a plan.
fn skipping(directions: &[Direction], left: &[usize], n: usize) -> Option<Vec<Order>> {
    debug_assert!(left.is_sorted() && left.last().is_none_or(|last| *last < n), "patches in raster order");
    let order = |direction: &Direction| match &direction.order {
        Order::Permutation(order) => Some(Order::Permutation(skip(order, left))),
        Order::Plan(_) => None,
    };
    directions.iter().map(order).collect()
}

/// An order of all tokens as one of those that are `left`, by their places there.
fn skip(order: &[usize], left: &[usize]) -> Vec<usize> {
    order.iter().filter_map(|token| left.binary_search(token).ok()).collect()
}

/// Sweeps as weights, as each token counts alone; none where the form has them already, or maps positions.
fn lowered(output: &HeadOutput, d: usize) -> Option<Form> {
    let Form::Scan(directions) = &output.form else { return None };
    if let Some(weight) = token_weight(output) {
        return Some(Form::Pool(weight));
    }
    let folded = directions.iter().map(|direction| match &direction.gain {
        Gain::Channel(gain) => Some(channels_by_token(&direction.order, gain, d)),
        _ => None,
    });
    Some(Form::ChannelPool(average(&folded.collect::<Option<Vec<_>>>()?)))
}
