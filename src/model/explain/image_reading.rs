//! One image as a probe read it: what evidence, diagnostics, order tests and removal curves are computed from.

use std::borrow::Cow;

use super::diagnostics::PlanStats;
use super::evidence::{self, Exact, Proxy};
use super::intervention::{Intervention, InterventionError};
use super::readout;
use crate::model::probe::Probe;
use crate::model::probe::head_output::{Direction, HeadOutput, Order, Plan};
use crate::model::tokens::Tokens;

/// One image as a probe read it.
pub struct ImageReading<'a> {
    /// The probe, with the settings that the intervention changes.
    pub probe: Cow<'a, Probe>,
    /// The intervention.
    pub intervention: Intervention,
    /// The tokens of the image.
    pub tokens: &'a Tokens,
    /// Seed of random orders: the image's index in its dataset.
    pub image_seed: u64,
    /// How the head read the tokens.
    pub output: HeadOutput,
}

impl<'a> ImageReading<'a> {
    /// Reads an image with `probe` under the `intervention`.
    pub fn new(
        probe: &'a Probe,
        intervention: Intervention,
        tokens: &'a Tokens,
        image_seed: u64,
    ) -> Result<Self, InterventionError> {
        Self::by_changed(intervention.probe(probe)?, intervention, tokens, image_seed)
    }

    /// [`new`](Self::new) with a probe that comes from [`Intervention::probe`].
    pub fn by_changed(
        probe: Cow<'a, Probe>,
        intervention: Intervention,
        tokens: &'a Tokens,
        image_seed: u64,
    ) -> Result<Self, InterventionError> {
        let output = intervention.read(&probe, tokens, image_seed)?;
        Ok(Self { probe, intervention, tokens, image_seed, output })
    }

    /// The same image, with its order changed further by `intervention`.
    pub fn reordered(&self, intervention: Intervention) -> Result<ImageReading<'_>, InterventionError> {
        let output = intervention.apply(&self.probe, self.tokens, self.output.clone(), self.image_seed)?;
        Ok(self.with(intervention, output))
    }

    /// The same image with another `output` of the head, as under `intervention`.
    pub fn with(&self, intervention: Intervention, output: HeadOutput) -> ImageReading<'_> {
        let Self { tokens, image_seed, .. } = *self;
        ImageReading { probe: Cow::Borrowed(&self.probe), intervention, tokens, image_seed, output }
    }

    /// The logits, `[C]`.
    pub fn logits(&self) -> Vec<f64> {
        readout::logits(&self.output, self.tokens, &self.probe.classifier)
    }

    /// Exact evidence for a class, or why there is none.
    pub fn evidence(&self, class: usize) -> Result<Exact, &'static str> {
        evidence::exact(&self.output, self.tokens, &self.probe.classifier, class)
    }

    /// The paper's [proxy](evidence::proxy) for a class. It decays by `rho`, whatever the gain, but is 0 where tokens are dropped.
    pub fn proxy(&self, class: usize, rho: Option<f64>) -> Option<Proxy> {
        let mut proxy = evidence::proxy(&self.output, self.tokens, self.probe.classifier.row(class), rho)?;
        if let Intervention::Last(kept) = self.intervention {
            let dropped = self.tokens.grid.len().saturating_sub(kept);
            [&mut proxy.routed, &mut proxy.raster].into_iter().for_each(|values| values[..dropped].fill(0.0));
        }
        Some(proxy)
    }

    /// The plan by which the head read the tokens; `None` if their order was not soft.
    pub fn plan(&self) -> Option<&Plan> {
        match self.output.directions() {
            [Direction { order: Order::Plan(plan), .. }] => Some(plan),
            _ => None,
        }
    }

    /// Statistics of the [plan](Self::plan).
    pub fn plan_stats(&self) -> Option<PlanStats> {
        Some(PlanStats::from_plan(self.plan()?, self.tokens.grid))
    }

    /// Position of every token, `[N]`, from 0 (first) to 1 (last), expected under the plan of these [statistics](Self::plan_stats);
    /// `None` if there is no single order.
    pub fn positions(&self, stats: Option<&PlanStats>) -> Option<Vec<f64>> {
        let expected = match (stats, self.output.directions()) {
            (Some(stats), _) => stats.expected().to_vec(),
            (None, [Direction { order: Order::Permutation(order), .. }]) => {
                let mut positions = vec![0.0; order.len()];
                order.iter().enumerate().for_each(|(k, &i)| positions[i] = k as f64);
                positions
            }
            (None, _) => return None,
        };
        let last = (expected.len().max(2) - 1) as f64;
        Some(expected.into_iter().map(|k| k / last).collect())
    }
}
