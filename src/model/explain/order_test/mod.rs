//! Order test: does the order matter? The logit or margin of one image as read, against all orders its tokens could have
//! been in (docs/definitions.md, section 10).
//!
//! For a contrast `w` of classes, token `i` in place `j` contributes
//! `M[i, j] = mean over directions of w . (G[pos(j)] * t_i)`, `G` the gain of a position. Places are cells of the grid for
//! scans, and positions for learned orders. The null exchanges the tokens' rows of the plan `P`: `B = M P^T` (`B = M` for
//! scans), and an exchange `pi` has the value `b + sum_i B[i, pi(i)]`. [`null`] describes their distribution.
//!
//! The value is the sum of that of a bag of the same tokens, `b + sum(M) / N`, of what a fixed order adds, and of what
//! routing adds to that. The rival of a margin is the strongest other class of the bag: one chosen after the order was seen
//! would bias the test towards the order.
//!
//! Under an order made by hand places are positions, and `M` itself is exchanged: the null does not change while the order
//! is edited, and an order's value and p follow from `N` entries of `M` ([`Contrast::in_order`]).
//!
//! `G` is first combined over directions and plan (`B[i, j] = w . (F[j] * t_i)`, `F = P G`), so `M` is never formed; with one
//! kernel for all channels `B` is an outer product, and never formed either.

mod assignment;
mod contrast;
mod exchanges;
mod null;

use rayon::prelude::*;

pub use self::contrast::Contrast;
use self::contrast::UntestedContrast;
pub use self::exchanges::{DRAWS, Exchanges};
use self::null::{BATCH, Exchange, Null};
use super::image_reading::ImageReading;
use super::intervention::Intervention;
use super::readout::{average, by_token, channels_by_token, dot, rival};
use crate::model::hand_order::HandOrder;
use crate::model::ops::gemm;
use crate::model::probe::Classifier;
use crate::model::probe::head_output::{Direction, Form, Gain, Order};
use crate::model::tokens::Tokens;
use crate::model::trace::{Found, OrderContrast, OrderTest};

/// Gains below this keep sums of squares finite in float64, whatever the float32 tokens and weights are.
const MAX_GAIN: f64 = 1e50;

/// Significance level of p.
pub const SIGNIFICANT: f64 = 0.05;

/// The reading of an image by a head with a kernel by position, ready for the test of any class.
pub struct OrderTester<'a> {
    tokens: &'a Tokens,
    classifier: &'a Classifier,
    /// `F`: gain of the place of every token, `[N, 1]` or `[N, d]`; under an order made by hand that of every position.
    pub(super) place_gain: Vec<f64>,
    /// `G` by position if the order is learned, `[N, 1]` or `[N, d]`.
    position_gain: Option<Vec<f64>>,
    /// 1 if all channels share one kernel, else d.
    width: usize,
    /// Features of a bag of the tokens, `[d]`: the mean of the features over all orders.
    bag: Vec<f64>,
    /// The order made by hand, if it is the one read.
    by_hand: Option<&'a HandOrder>,
    exchanges: &'a Exchanges,
}

/// The order test of a margin, or what [`tested`] makes it of.
pub struct Margin(Result<OrderContrast, UntestedContrast>);

impl<'a> OrderTester<'a> {
    /// For an image as it was read; or why there is no test.
    pub fn new(reading: &'a ImageReading<'_>, exchanges: &'a Exchanges) -> Result<Self, &'static str> {
        let directions = testable_directions(reading)?;
        let ImageReading { probe, tokens, .. } = reading;
        let (mut place_gains, mut gains, mut width) = (Vec::new(), Vec::new(), 1);
        for Direction { order, gain, .. } in directions {
            let (gain, place_gain) = match gain {
                Gain::Shared(gain) => (gain, by_token(order, gain)),
                Gain::Channel(gain) => {
                    width = tokens.width;
                    (gain, channels_by_token(order, gain, width))
                }
                Gain::Mix { .. } => unreachable!("refused above"),
            };
            gains.push(gain);
            place_gains.push(place_gain);
        }
        if !gains.iter().copied().flatten().all(|gain| gain.abs() < MAX_GAIN) {
            return Err("The weights of the positions are too large to compare orders by");
        }
        let is_learned = directions.iter().any(|direction| matches!(direction.order, Order::Plan(_)));
        let (by_hand, place_gain) = match &reading.intervention {
            Intervention::Order(order) => (Some(order), average(&gains)),
            _ => (None, average(&place_gains)),
        };
        let position_gain = is_learned.then(|| average(&gains));
        let (mut sum, mut total) = (vec![0.0; tokens.width], vec![0.0; width]);
        for i in 0..tokens.grid.len() {
            sum.iter_mut().zip(tokens.patch(i)).for_each(|(sum, t)| *sum += f64::from(*t));
        }
        for gain in position_gain.as_ref().unwrap_or(&place_gain).chunks_exact(width) {
            total.iter_mut().zip(gain).for_each(|(total, gain)| *total += gain);
        }
        let in_bag = |(c, sum): (usize, f64)| sum * total[c % width] / tokens.grid.len() as f64;
        let bag = sum.into_iter().enumerate().map(in_bag).collect();
        let classifier = &probe.classifier;
        Ok(Self { tokens, classifier, place_gain, position_gain, width, bag, by_hand, exchanges })
    }

    /// The margin of a class that was not picked because it was predicted, for [`tested`]; `None` if there is no other class.
    pub fn margin(&self, class: usize) -> Option<Margin> {
        let untested = self.untested(class, Some(rival(&self.bag_logits(), class)?), false);
        let waits = self.by_hand.is_none() && matches!(untested.exchange, Exchange::Product { .. });
        Some(Margin(if waits { Err(untested) } else { Ok(self.read(&self.with_null(untested))) }))
    }

    /// The contrasts of the logit of `class` and of its margin over the strongest other class of a bag of these tokens, for the
    /// test of any order. `descriptive`: the class was picked because it was predicted.
    pub fn contrasts(&self, class: usize, descriptive: bool) -> (Contrast, Option<Contrast>) {
        rayon::join(|| self.contrast(class, None, descriptive), || self.margin_contrast(class, descriptive))
    }

    fn margin_contrast(&self, class: usize, descriptive: bool) -> Option<Contrast> {
        Some(self.contrast(class, Some(rival(&self.bag_logits(), class)?), descriptive))
    }

    /// The test of the order that was read.
    fn read(&self, contrast: &Contrast) -> OrderContrast {
        self.by_hand.map_or_else(|| contrast.as_read(), |order| contrast.in_order(order.tokens()))
    }

    /// The logits of a bag of the tokens.
    fn bag_logits(&self) -> Vec<f64> {
        let logit =
            |(class, &bias): (usize, &f32)| dot(self.classifier.row(class), &self.bag) + f64::from(bias);
        self.classifier.bias.iter().enumerate().map(logit).collect()
    }

    /// The contrast of the logit of `class`, less that of the class `against`.
    fn contrast(&self, class: usize, against: Option<usize>, descriptive: bool) -> Contrast {
        self.with_null(self.untested(class, against, descriptive))
    }

    fn with_null(&self, untested: UntestedContrast) -> Contrast {
        let null = self.exchanges.null(&untested.exchange);
        untested.with(null)
    }

    fn untested(&self, class: usize, against: Option<usize>, descriptive: bool) -> UntestedContrast {
        let row = |class: usize| self.classifier.row(class).iter().map(|&w| f64::from(w));
        let (mut w, mut bias) = (row(class).collect::<Vec<_>>(), f64::from(self.classifier.bias[class])); // [d]
        if let Some(other) = against {
            w.iter_mut().zip(row(other)).for_each(|(own, other)| *own -= other);
            bias -= f64::from(self.classifier.bias[other]);
        }
        let raster = self.position_gain.as_ref().map(|gain| self.raster_value(&w, gain));
        let exchange = self.exchange(&w);
        UntestedContrast { bias, against, descriptive, bag: dot(&w, &self.bag), raster, exchange }
    }

    /// `B` for the contrast `w` `[d]`.
    fn exchange(&self, w: &[f64]) -> Exchange {
        let (n, d) = (self.tokens.grid.len(), self.tokens.width);
        if self.width == 1 {
            let token = (0..n).map(|i| dot(self.tokens.patch(i), w)).collect();
            return Exchange::Product { token, place: self.place_gain.clone() };
        }
        let tokens: Vec<f64> = self.tokens.patches.iter().map(|&t| f64::from(t)).collect(); // [N, d]
        let gains = self.place_gain.chunks_exact(d);
        let weights: Vec<f64> = gains.flat_map(|gain| gain.iter().zip(w).map(|(gain, w)| gain * w)).collect(); // [N, d]
        let mut table = vec![0.0; n * n];
        gemm::Matrix::new(&tokens, d).times(gemm::Matrix::new(&weights, d).transposed(), &mut table);
        Exchange::Table(table)
    }

    /// `trace(M)`: the value with token `k` at position `k`.
    fn raster_value(&self, w: &[f64], gain: &[f64]) -> f64 {
        let at = |i: usize| -> f64 {
            let gain = &gain[i * self.width..][..self.width];
            let channels = self.tokens.patch(i).iter().zip(w).enumerate();
            channels.map(|(c, (&t, w))| f64::from(t) * w * gain[c % self.width]).sum()
        };
        (0..self.tokens.grid.len()).map(at).sum()
    }
}

/// The order tests of margins that all have the same number of tokens, [`BATCH`] at a time, which takes a third of the time.
pub fn tested(mut margins: Vec<Option<Margin>>, exchanges: &Exchanges) -> Vec<Option<OrderContrast>> {
    let test = |margins: &mut [Option<Margin>]| {
        let products =
            margins.iter().flatten().filter_map(|Margin(margin)| Some(&margin.as_ref().err()?.exchange));
        let mut nulls = Null::of_products(&products.collect::<Vec<_>>(), exchanges).into_iter();
        let mut close = |Margin(margin)| match margin {
            Ok(tested) => tested,
            Err(untested) => untested.with(nulls.next().expect("one for each")).as_read(),
        };
        margins.iter_mut().map(|margin| margin.take().map(&mut close)).collect::<Vec<_>>()
    };
    margins.par_chunks_mut(BATCH).flat_map_iter(test).collect()
}

/// The tests of an image's logit and margin in one call, or why there are none.
pub fn order_test(
    reading: &ImageReading<'_>,
    (class, descriptive): (usize, bool),
    exchanges: &Exchanges,
) -> Found<OrderTest> {
    let test = |tester: OrderTester<'_>| {
        let (logit, margin) = tester.contrasts(class, descriptive);
        OrderTest { logit: tester.read(&logit), margin: margin.map(|margin| tester.read(&margin)) }
    };
    OrderTester::new(reading, exchanges).map(test).map_err(str::to_owned).into()
}

/// The sweeps of a head with a kernel by position, or why orders cannot be tested.
fn testable_directions<'a>(reading: &'a ImageReading<'_>) -> Result<&'a [Direction], &'static str> {
    let Form::Scan(directions) = &reading.output.form else {
        return Err(match reading.probe.head().is_recurrent() {
            true => {
                "A recurrent reader has no kernel by position: what it keeps of a token depends on the others"
            }
            false => "This head reads the tokens as a set: their order cannot change its logits",
        });
    };
    if directions.iter().any(|direction| matches!(direction.gain, Gain::Mix { .. })) {
        return Err("A convolution mixes neighbours of the sequence: it has no kernel by position");
    }
    if directions.iter().any(|direction| direction.radius.is_none()) {
        return Err("The mean behind the router has no memory: every position counts the same");
    }
    let is_learned = directions.iter().any(|direction| matches!(direction.order, Order::Plan(_)));
    if is_learned && matches!(reading.intervention, Intervention::Scrambled(_)) {
        return Err(
            "Permuting positions behind the router has no order test: neighbouring positions of a soft plan \
             are too alike for its p to mean anything",
        );
    }
    Ok(directions)
}
