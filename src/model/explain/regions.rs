//! How a probe reads the regions of an image (docs/definitions.md, section 15): when, how much they count, what they add to the
//! class, and which is read before which.
//!
//! Rows of the plan are divided by their sums, so that each is a distribution over positions; one without any mass is uniform.
//! `a[k]` is the mean of the rows of a region's tokens. Then
//! * the mean expected position is `sum_k k a[k] / (N - 1)`: 0 the first, 1 the last;
//! * of two regions A is read before B by `sum_{k<l} a[k] b[l]`, the mean over all pairs of their tokens of
//!   `sum_{k<l} P[i, k] P[j, l]`: of a hard plan the share of pairs in which that is so. With `sum_k a[k] b[k]` for ties,
//!   both ways and ties sum to 1.
//!
//! Of several sweeps both are means over them. What looks at no order has neither.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::evidence;
use super::localization::{auc_of_evidence, auc_of_weights};
use super::plan_of;
use super::readout;
use crate::model::probe::Probe;
use crate::model::probe::head_output::{Form, HeadOutput, Order, Plan};
use crate::model::regions::{Region, Regions, members};
use crate::model::tokens::Tokens;
use crate::model::trace::{Routing, Trace};

/// How one region is read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionMeasure {
    /// Its place among those of its dataset.
    #[serde(skip)]
    pub number: u32,
    /// What it is called; empty for the object as a whole.
    pub name: String,
    /// How many tokens lie in it; where none does, nothing else is known.
    pub tokens: usize,
    /// Mean expected position of its tokens, 0 the first and 1 the last.
    pub position: Option<f64>,
    /// What its tokens count on average, times N: 1 is an even share.
    pub weight: Option<f64>,
    /// What all its tokens add to the logit of the class.
    pub evidence: Option<f64>,
    /// The same of one of them, on average.
    pub mean_evidence: Option<f64>,
    /// ROC AUC over all tokens of what they count, whatever the sign.
    pub weight_auc: Option<f64>,
    /// The same of their evidence, sign included.
    pub evidence_auc: Option<f64>,
}

/// How all regions of an image are read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionMeasures {
    /// One by one.
    #[serde(with = "numbered")]
    pub regions: Vec<RegionMeasure>,
    /// `[R, R]` row-major: how far the region of the row is read before that of the column; not a number where one of them
    /// has no token. Empty where there is no order.
    pub precedence: Vec<f64>,
    /// The object as a whole: its tokens, and both AUC.
    pub object: RegionMeasure,
}

/// Regions with their numbers, which a document about one image does without.
mod numbered {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::RegionMeasure;

    pub(super) fn serialize<S: Serializer>(regions: &[RegionMeasure], to: S) -> Result<S::Ok, S::Error> {
        regions.iter().map(|region| (region.number, region)).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<RegionMeasure>, D::Error> {
        let all = Vec::<(u32, RegionMeasure)>::deserialize(from)?;
        Ok(all.into_iter().map(|(number, region)| RegionMeasure { number, ..region }).collect())
    }
}

/// What of a reading regions are asked about: the sweeps, and for every token what it counts and adds.
struct Read<'a> {
    sweeps: Vec<Cow<'a, Order>>,
    weight: Option<Vec<f64>>,
    evidence: Option<Vec<f64>>,
}

impl RegionMeasures {
    /// Of an image as the probe reads it; evidence is for `class`. An order that the head's router makes counts, also where
    /// the head ignores it.
    pub fn of_output(
        probe: &Probe,
        output: &HeadOutput,
        tokens: &Tokens,
        class: usize,
        regions: &Regions,
    ) -> Self {
        let plan = || plan_of(output, probe.head().router()).map(|plan| Order::Plan(plan.into_owned()));
        let sweeps = match &output.form {
            Form::Scan(directions) => directions.iter().map(|d| Cow::Borrowed(&d.order)).collect(),
            _ => plan().map(Cow::Owned).into_iter().collect(),
        };
        let (row, bias) = (probe.classifier.row(class), probe.classifier.bias[class]);
        let evidence = evidence::exact(output, tokens, row, bias).ok().map(|exact| exact.token);
        Self::new(&Read { sweeps, weight: readout::token_weight(output), evidence }, regions)
    }

    /// Of an image as a trace shows it, whose regions are known; nothing of others.
    pub fn of_trace(trace: &Trace) -> Option<Self> {
        let wide = |values: &Vec<f32>| values.iter().map(|&x| f64::from(x)).collect();
        let sweeps = match &trace.routing {
            // Sweeps without a kernel are those of a head that reads from both ends at once: nothing comes first.
            Routing::Orders(orders) if trace.kernel.is_some() || orders.len() == 1 => orders
                .iter()
                .map(|order| Order::Permutation(order.iter().map(|&i| i as usize).collect()))
                .collect(),
            Routing::Plan(plan) => vec![Order::Plan(Plan { n: plan.rows, share: wide(&plan.data) })],
            Routing::None | Routing::Orders(_) => Vec::new(),
        };
        let read = Read {
            sweeps: sweeps.into_iter().map(Cow::Owned).collect(),
            weight: trace.token_weight.as_ref().map(wide),
            evidence: trace.evidence.token.as_ref().map(wide),
        };
        Some(Self::new(&read, trace.regions.as_ref()?))
    }

    fn new(read: &Read<'_>, regions: &Regions) -> Self {
        let inside: Vec<Vec<bool>> = regions.list.iter().map(|region| members(&region.cover)).collect();
        // Of every region and sweep where its tokens come.
        let places: Vec<Vec<Vec<f64>>> = inside
            .iter()
            .map(|inside| read.sweeps.iter().map(|order| place(order, inside)).collect())
            .collect();
        let one = |((region, inside), places): ((&Region, &Vec<bool>), &Vec<Vec<f64>>)| RegionMeasure {
            number: region.number,
            name: region.name.clone(),
            position: mean(places.iter().map(|place| centre(place))).filter(|_| inside.contains(&true)),
            ..read.about(&region.cover, inside)
        };
        let pairs = places.iter().flat_map(|a| places.iter().map(move |b| (a, b)));
        let before = |(a, b): (&Vec<Vec<f64>>, &Vec<Vec<f64>>)| {
            mean(a.iter().zip(b).map(|(a, b)| precedence(a, b))).unwrap_or(f64::NAN)
        };
        let known = !read.sweeps.is_empty();
        Self {
            precedence: pairs.filter(|_| known).map(before).collect(),
            regions: regions.list.iter().zip(&inside).zip(&places).map(one).collect(),
            object: read.about(&regions.object, &members(&regions.object)),
        }
    }

    /// How far region `a` is read before region `b`, where that is known.
    pub fn before(&self, a: usize, b: usize) -> Option<f64> {
        self.precedence.get(a * self.regions.len() + b).copied().filter(|p| p.is_finite())
    }
}

impl Read<'_> {
    /// What can be said without an order.
    fn about(&self, cover: &[f64], inside: &[bool]) -> RegionMeasure {
        let tokens = inside.iter().filter(|inside| **inside).count();
        if tokens == 0 {
            return RegionMeasure::default();
        }
        let sum = |values: &Vec<f64>| -> f64 {
            values.iter().zip(inside).filter(|(_, inside)| **inside).map(|(value, _)| value).sum()
        };
        let (weight, evidence) = (self.weight.as_ref(), self.evidence.as_ref());
        let count = tokens as f64;
        RegionMeasure {
            tokens,
            weight: weight.map(|weight| sum(weight) / count * inside.len() as f64),
            evidence: evidence.map(sum),
            mean_evidence: evidence.map(|evidence| sum(evidence) / count),
            weight_auc: weight.and_then(|weight| auc_of_weights(weight, cover)),
            evidence_auc: evidence.and_then(|evidence| auc_of_evidence(evidence, cover)),
            ..RegionMeasure::default()
        }
    }
}

/// Mean of what there is.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = values.len();
    (count > 0).then(|| values.sum::<f64>() / count as f64)
}

/// Where the tokens inside come in an order: the mean of their rows, `[N]`; no numbers where there is no token.
pub fn place(order: &Order, inside: &[bool]) -> Vec<f64> {
    let n = inside.len();
    let count = inside.iter().filter(|inside| **inside).count() as f64;
    match order {
        Order::Permutation(order) => order.iter().map(|&i| f64::from(u8::from(inside[i])) / count).collect(),
        Order::Plan(plan) => {
            let mut at = vec![if count > 0.0 { 0.0 } else { f64::NAN }; n];
            for i in (0..n).filter(|&i| inside[i]) {
                let row = plan.row(i);
                let sum: f64 = row.iter().sum();
                let even = 1.0 / n as f64;
                let share = |x: f64| if sum > 0.0 { x / sum } else { even };
                at.iter_mut().zip(row).for_each(|(at, &x)| *at += share(x) / count);
            }
            at
        }
    }
}

/// The mean of a distribution over positions, 0 the first and 1 the last.
fn centre(place: &[f64]) -> f64 {
    let last = (place.len().max(2) - 1) as f64;
    place.iter().enumerate().map(|(k, share)| k as f64 * share).sum::<f64>() / last
}

/// How far one is read before another: `sum_{k<l} a[k] b[l]`.
pub fn precedence(a: &[f64], b: &[f64]) -> f64 {
    let (mut before, mut sum) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        sum += before * b;
        before += a;
    }
    sum
}
