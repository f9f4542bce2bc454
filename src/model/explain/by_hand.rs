//! Explains one image and one probe under any order made by hand, from precomputed tables: fast enough to update the whole
//! trace within a frame of the window.
//!
//! With `G` the mean gain of a position over all sweeps and `M[i, k]` the contribution of token `i` to class `c` if read at
//! position `k`, an order gives features `sum_k G[k] * t_order(k)`, evidence `M[order(k), k]`, and a rank among all orders,
//! whose null distribution does not depend on it (docs/definitions.md, section 10).

use serde::{Deserialize, Serialize};

use super::evidence::projections;
use super::image_reading::ImageReading;
use super::order_test::{Contrast, OrderTester};
use super::readout::dot;
use super::{Question, narrow, predictions, too_large};
use crate::model::hand_order::HandOrder;
use crate::model::io::block;
use crate::model::probe::Classifier;
use crate::model::reading::Intervention;
use crate::model::trace::{Found, OrderTest, Routing, Trace};

/// More sweeps than any head has.
const MAX_SWEEPS: usize = 64;

/// What does not depend on the order, for one image, probe and class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandOrderReader {
    /// `G`, `[N]` if all channels share one kernel, else `[N, d]`.
    gain: Vec<f64>,
    /// Weight of the evidence proxy by position, `[N]`; absent if the head has no radius to decay by.
    decay: Option<Vec<f64>>,
    /// `W_c . t_i`, `[N]`.
    projections: Vec<f64>,
    /// Patch tokens, `[N, d]`.
    #[serde(with = "block")]
    patches: Vec<f32>,
    /// The classifier, `[C, d]`.
    #[serde(with = "block")]
    weight: Vec<f32>,
    /// `[C]`.
    bias: Vec<f32>,
    classes: Vec<String>,
    logit: Contrast,
    margin: Option<Contrast>,
    sweeps: usize,
}

impl HandOrderReader {
    /// From a reading of the image in any order made by hand, for `class`; `None` if no order tests are asked for, or orders
    /// cannot be tested.
    pub(super) fn new(reading: &ImageReading<'_>, class: usize, question: &Question<'_>) -> Option<Self> {
        let tester = OrderTester::new(reading, &question.nulls?.exchanges).ok()?;
        let (logit, margin) = tester.contrasts(class, question.class.is_none());
        let ImageReading { probe, tokens, output, .. } = reading;
        let Classifier { weight, bias } = probe.classifier.clone();
        let directions = output.directions();
        let (n, sweeps) = (tokens.grid.len(), directions.len());
        let radii = directions.iter().map(|direction| question.rho.or(direction.radius));
        let decay = radii.collect::<Option<Vec<f64>>>().map(|radii| {
            let at =
                |k: usize| radii.iter().map(|rho| rho.powi((n - 1 - k) as i32)).sum::<f64>() / sweeps as f64;
            (0..n).map(at).collect()
        });
        Some(Self {
            gain: tester.place_gain.clone(),
            decay,
            projections: projections(tokens, probe.classifier.row(class)),
            patches: tokens.patches.clone(),
            weight,
            bias,
            classes: probe.meta.classes.clone(),
            logit,
            margin,
            sweeps,
        })
    }

    /// Whether its parts are of as many tokens, channels and classes as each other; another program may have written them.
    pub fn is_consistent(&self) -> bool {
        let (n, classes) = (self.projections.len(), self.bias.len());
        let d = self.weight.len().checked_div(classes).unwrap_or(0);
        let mut contrasts = [Some(&self.logit), self.margin.as_ref()].into_iter().flatten();
        n > 0
            && d > 0
            && self.weight.len() == classes * d
            && self.patches.len() == n * d
            && [n, n * d].contains(&self.gain.len())
            && self.decay.as_ref().is_none_or(|decay| decay.len() == n)
            && self.sweeps <= MAX_SWEEPS
            && contrasts.all(|contrast| contrast.is_of(n))
    }

    /// The order test of an order: its rank among all orders.
    pub fn test(&self, order: &HandOrder) -> OrderTest {
        let test = |contrast: &Contrast| contrast.in_order(order.tokens());
        OrderTest { logit: test(&self.logit), margin: self.margin.as_ref().map(test) }
    }

    /// Logits `[C]` of the image read in this order.
    pub fn logits(&self, order: &HandOrder) -> Vec<f64> {
        let d = self.weight.len() / self.bias.len();
        let width = self.gain.len() / order.tokens().len();
        let mut features = vec![0.0; d];
        for (&i, gain) in order.tokens().iter().zip(self.gain.chunks_exact(width)) {
            let pairs = self.patches[i as usize * d..][..d].iter().zip(gain.iter().cycle());
            features.iter_mut().zip(pairs).for_each(|(z, (&t, gain))| *z += gain * f64::from(t));
        }
        let rows = self.weight.chunks_exact(d).zip(&self.bias);
        rows.map(|(row, &bias)| dot(row, &features) + f64::from(bias)).collect()
    }

    /// The trace under another `order`, given one of the same image and probe under an order made by hand. `None` if the
    /// order has another length, if the predicted class is explained and this order changes it, or if float32 cannot hold it.
    pub fn trace(&self, trace: &Trace, order: &HandOrder) -> Option<Trace> {
        let n = self.projections.len();
        if order.tokens().len() != n {
            return None;
        }
        let logits = self.logits(order);
        let top = predictions(&logits, &self.classes);
        if self.logit.descriptive && top[0].index != trace.evidence.class {
            return None;
        }
        let pairs = || order.tokens().iter().enumerate().map(|(k, &i)| (i as usize, k));
        let by_token = |of: &dyn Fn(usize, usize) -> f64| {
            let mut values = vec![0.0; n];
            pairs().for_each(|(i, k)| values[i] = of(i, k));
            narrow(&values)
        };
        let contribution = |(i, k): (usize, usize)| self.logit.contribution(i, k);
        let mut made = trace.clone();
        made.reading.change = Intervention::Order(order.clone());
        made.routing = Routing::Orders(vec![order.tokens().to_vec(); self.sweeps]);
        made.token_weight = (self.gain.len() == n).then(|| by_token(&|_, k| self.gain[k]));
        made.logits = narrow(&logits);
        made.top = top;
        made.evidence.position = Some(narrow(&pairs().map(contribution).collect::<Vec<_>>()));
        made.evidence.token = Some(by_token(&|i, k| contribution((i, k))));
        made.evidence.proxy = self
            .decay
            .as_ref()
            .map(|decay| narrow(&pairs().map(|(i, k)| self.projections[i] * decay[k]).collect::<Vec<_>>()));
        made.order_test = Some(Found::Some(self.test(order)));
        too_large(&made).is_none().then_some(made)
    }
}
