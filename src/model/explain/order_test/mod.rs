//! Does the order matter? What a head reads of one image, against all orders its tokens could have stood in
//! (docs/definitions.md, section 10).
//!
//! With a contrast `w` of classes, token `i` alone in place `j` would give
//! `M[i, j] = mean over directions of w . (G[pos(j)] * t_i)`, `G` the gain of a position. The place is that of the grid for
//! scans, and the position for learned orders. The null exchanges the tokens' rows of the plan `P`: `B = M P^T` (`B = M` for
//! scans), and an exchange `pi` gives `b + sum_i B[i, pi(i)]`. [`null`] says what of all of them.
//!
//! The value splits into a bag of the same tokens, `b + sum(M) / N`, what a fixed order adds, and what routing adds to that.
//! The rival of a margin is the strongest other class of the bag: one picked once the order was seen would favour the order.
//!
//! Under an order that a person made places are positions, and what is exchanged is `M` itself: the null stays what it is
//! while the order is edited, and an order's value and p follow from `N` of its entries ([`Contrast::in_order`]).
//!
//! `G` is folded over directions and plan before any token is read (`B[i, j] = w . (F[j] * t_i)`, `F = P G`): `M` itself is
//! never needed, and with one memory for all channels neither is `B`, which then is a product.

mod assignment;
mod contrast;
mod exchanges;
mod null;

pub use self::contrast::Contrast;
pub use self::exchanges::{DRAWS, Exchanges};
use self::null::Exchange;
use super::intervention::Intervention;
use super::readout::{average, by_token, dot, fold};
use crate::model::hand_order::HandOrder;
use crate::model::ops::gemm;
use crate::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order};
use crate::model::probe::{Classifier, Probe};
use crate::model::tokens::Tokens;
use crate::model::trace::{OrderContrast, OrderTest};

/// Gains below this give numbers whose squares can be summed, whatever the tokens and weights are in float32.
const LARGEST_GAIN: f64 = 1e50;

/// A share of images is counted below this p.
pub const SIGNIFICANT: f64 = 0.05;

/// How a head with a kernel by position read an image, ready to be tested for any classes.
pub struct OrderTester<'a> {
    tokens: &'a Tokens,
    classifier: &'a Classifier,
    /// `F`: what a token's own place counts, `[N, 1]` or `[N, d]`; under an order that a person made what a position
    /// counts.
    folded: Vec<f64>,
    /// `G` by position where the order is learned, `[N, 1]` or `[N, d]`.
    learned: Option<Vec<f64>>,
    /// 1 where all channels share a memory, else d.
    width: usize,
    /// Sum over the tokens, `[d]`.
    sum: Vec<f64>,
    /// The order that a person made, where that is what is read.
    by_hand: Option<HandOrder>,
}

impl<'a> OrderTester<'a> {
    /// Of `output`, which is `probe`'s, changed by `change`; or why there is no test.
    pub fn new(
        probe: &'a Probe,
        change: Intervention,
        output: &HeadOutput,
        tokens: &'a Tokens,
    ) -> Result<Self, &'static str> {
        let directions = kernels(probe, &change, &output.form)?;
        let (mut folded, mut gains, mut width) = (Vec::new(), Vec::new(), 1);
        for Direction { order, gain, .. } in directions {
            match gain {
                Gain::Shared(gain) => {
                    folded.push(by_token(order, gain));
                    gains.push(gain.clone());
                }
                Gain::Channel(gain) => {
                    width = tokens.width;
                    folded.push(fold(order, gain, width));
                    gains.push(gain.clone());
                }
                Gain::Mix { .. } => unreachable!("refused above"),
            }
        }
        if !gains.iter().flatten().all(|gain| gain.abs() < LARGEST_GAIN) {
            return Err("What a position counts is too large a number for orders to be compared by");
        }
        let is_learned = directions.iter().any(|direction| matches!(direction.order, Order::Plan(_)));
        let mut sum = vec![0.0; tokens.width];
        for i in 0..tokens.grid.len() {
            sum.iter_mut().zip(tokens.patch(i)).for_each(|(sum, t)| *sum += f64::from(*t));
        }
        let (by_hand, folded) = match change {
            Intervention::Order(order) => (Some(order), average(&gains)),
            _ => (None, average(&folded)),
        };
        let learned = is_learned.then(|| average(&gains));
        Ok(Self { tokens, classifier: &probe.classifier, folded, learned, width, sum, by_hand })
    }

    /// The test of the logit of `class`, and that of its margin over the strongest other class of a bag of these tokens.
    /// `descriptive`: the class was picked because it was predicted.
    pub fn test(&self, class: usize, descriptive: bool, exchanges: &Exchanges) -> OrderTest {
        let (logit, margin) = self.contrasts(class, descriptive, exchanges);
        OrderTest::Tested { logit: self.read(&logit), margin: margin.map(|margin| self.read(&margin)) }
    }

    /// The test of the margin alone; none where there is no other class.
    pub fn margin(&self, class: usize, descriptive: bool, exchanges: &Exchanges) -> Option<OrderContrast> {
        Some(self.read(&self.margin_of(class, descriptive, exchanges)?))
    }

    /// The logit of `class`, and its margin, over all orders.
    pub fn contrasts(
        &self,
        class: usize,
        descriptive: bool,
        exchanges: &Exchanges,
    ) -> (Contrast, Option<Contrast>) {
        let (w, bias) = (self.row(class), f64::from(self.classifier.bias[class]));
        rayon::join(
            || self.contrast(&w, bias, None, descriptive, exchanges),
            || self.margin_of(class, descriptive, exchanges),
        )
    }

    fn margin_of(&self, class: usize, descriptive: bool, exchanges: &Exchanges) -> Option<Contrast> {
        let rival = self.rival(class)?;
        let w: Vec<f64> =
            self.row(class).iter().zip(self.row(rival)).map(|(own, other)| own - other).collect();
        let bias = f64::from(self.classifier.bias[class]) - f64::from(self.classifier.bias[rival]);
        Some(self.contrast(&w, bias, Some(rival), descriptive, exchanges))
    }

    /// Where what was read stands among all orders.
    fn read(&self, contrast: &Contrast) -> OrderContrast {
        self.by_hand.as_ref().map_or_else(|| contrast.as_read(), |order| contrast.in_order(order.tokens()))
    }

    /// What every place counts, `[N]` or `[N, d]`; under an order that a person made places are positions.
    pub fn gain(&self) -> &[f64] {
        &self.folded
    }

    /// The classifier's row of a class, `[d]`.
    fn row(&self, class: usize) -> Vec<f64> {
        let d = self.tokens.width;
        self.classifier.weight[class * d..][..d].iter().map(|&w| f64::from(w)).collect()
    }

    /// The strongest class but `class` were the tokens a bag, the first of equals.
    fn rival(&self, class: usize) -> Option<usize> {
        let bag = self.bag();
        let logit = |other: usize| dot(&self.row(other), &bag) + f64::from(self.classifier.bias[other]);
        let others = (0..self.classifier.bias.len()).filter(|other| *other != class);
        let logits = others.map(|other| (other, logit(other)));
        logits.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(other, _)| other)
    }

    /// Features of a bag of the tokens, `[d]`: the mean over all orders of what is read.
    fn bag(&self) -> Vec<f64> {
        let n = self.tokens.grid.len() as f64;
        let mut total = vec![0.0; self.width];
        for gain in self.learned.as_ref().unwrap_or(&self.folded).chunks_exact(self.width) {
            total.iter_mut().zip(gain).for_each(|(total, gain)| *total += gain);
        }
        self.sum.iter().enumerate().map(|(c, sum)| sum * total[c % self.width] / n).collect()
    }

    fn contrast(
        &self,
        w: &[f64],
        bias: f64,
        against: Option<usize>,
        descriptive: bool,
        exchanges: &Exchanges,
    ) -> Contrast {
        let raster = self.learned.as_ref().map(|gain| self.placed(w, gain));
        let exchange = self.exchange(w);
        let null = exchanges.null(&exchange);
        Contrast { bias, against, descriptive, bag: dot(w, &self.bag()), raster, exchange, null }
    }

    /// `B`.
    fn exchange(&self, w: &[f64]) -> Exchange {
        let (n, d) = (self.tokens.grid.len(), self.tokens.width);
        if self.width == 1 {
            let token = (0..n).map(|i| dot(self.tokens.patch(i), w)).collect();
            return Exchange::Product { token, place: self.folded.clone() };
        }
        let tokens: Vec<f64> = self.tokens.patches.iter().map(|&t| f64::from(t)).collect(); // [N, d]
        let seen = self.folded.chunks_exact(d).flat_map(|gain| gain.iter().zip(w).map(|(gain, w)| gain * w));
        let seen: Vec<f64> = seen.collect(); // [N, d]
        let mut table = vec![0.0; n * n];
        gemm::Matrix::new(&tokens, d).times(gemm::Matrix::new(&seen, d).transposed(), &mut table);
        Exchange::Table(table)
    }

    /// `trace(M)`: what token `k` at position `k` would give.
    fn placed(&self, w: &[f64], gain: &[f64]) -> f64 {
        let at = |i: usize| -> f64 {
            let gain = &gain[i * self.width..][..self.width];
            let channels = self.tokens.patch(i).iter().zip(w).enumerate();
            channels.map(|(c, (&t, w))| f64::from(t) * w * gain[c % self.width]).sum()
        };
        (0..self.tokens.grid.len()).map(at).sum()
    }
}

/// The test of an image in one call: a reason where there is none.
pub fn order_test(
    probe: &Probe,
    change: Intervention,
    output: &HeadOutput,
    tokens: &Tokens,
    (class, descriptive): (usize, bool),
    exchanges: &Exchanges,
) -> OrderTest {
    match OrderTester::new(probe, change, output, tokens) {
        Ok(tester) => tester.test(class, descriptive, exchanges),
        Err(why) => OrderTest::None { none: why.to_owned() },
    }
}

/// The sweeps of a head whose memory has a kernel by position, or why there is none.
fn kernels<'a>(
    probe: &Probe,
    change: &Intervention,
    form: &'a Form,
) -> Result<&'a [Direction], &'static str> {
    let Form::Scan(directions) = form else {
        return Err(match probe.head().is_recurrent() {
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
    if is_learned && matches!(change, Intervention::Scrambled(_)) {
        return Err(
            "Permuting positions behind the router is a change of reading without a test: neighbouring \
                    positions of a soft plan are too alike for its p to mean anything",
        );
    }
    Ok(directions)
}
