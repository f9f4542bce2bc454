//! How a probe reads the regions of an image (docs/definitions.md, section 15): at which position, with which weight and
//! evidence, and which region before which.
//!
//! Rows of the plan are normalised to distributions over positions; a row without any mass becomes uniform. With `a[k]` the
//! mean of the rows of a region's tokens,
//! * the mean expected position is `sum_k k a[k] / (N - 1)`, from 0 (first) to 1 (last);
//! * the precedence of region A over B is `sum_{k<l} a[k] b[l]`, the mean over all pairs of their tokens of
//!   `sum_{k<l} P[i, k] P[j, l]`: for a hard plan, the share of pairs in which A's token comes first. With
//!   `sum_k a[k] b[k]` for ties, both directions and ties sum to 1.
//!
//! Both are averaged over sweeps; a head that ignores the order has neither.

use serde::{Deserialize, Serialize};

use super::localization::{TokenValues, auc_of_weights};
use crate::model::probe::head_output::{HeadOutput, Order, Plan};
use crate::model::regions::{Regions, members};
use crate::model::stats::{mean, roc_auc};
use crate::model::trace::{Routing, Trace};

/// Measures of one region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionMeasure {
    /// Number of the region in its dataset.
    #[serde(skip)]
    pub number: u32,
    /// Name; empty for the object as a whole.
    pub name: String,
    /// Number of tokens in it; if 0, all measures are absent.
    pub tokens: usize,
    /// Mean expected position of its tokens, from 0 (first) to 1 (last).
    pub position: Option<f64>,
    /// Mean weight of its tokens, times N: 1 as in GAP.
    pub weight: Option<f64>,
    /// Sum of the evidence of its tokens for the class.
    pub evidence: Option<f64>,
    /// Mean evidence of its tokens.
    pub mean_evidence: Option<f64>,
    /// ROC AUC of the absolute token weights for being in the region.
    pub weight_auc: Option<f64>,
    /// ROC AUC of the signed evidence.
    pub evidence_auc: Option<f64>,
}

/// Measures of all regions of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionMeasures {
    /// By region.
    #[serde(with = "numbered")]
    pub regions: Vec<RegionMeasure>,
    /// `[R, R]` row-major: precedence of the row's region over the column's; NaN if one of them has no token. Empty if
    /// there is no order.
    pub precedence: Vec<f64>,
    /// The object as a whole, without a position.
    pub object: RegionMeasure,
}

/// Serializes regions with their numbers, which [`RegionMeasure`] alone omits.
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

impl RegionMeasures {
    /// Measures of an image as the head read it, with the `values` of its tokens.
    pub fn of_output(output: &HeadOutput, values: TokenValues<'_>, regions: &Regions) -> Self {
        let sweeps: Vec<_> = output.directions().iter().map(|direction| &direction.order).collect();
        Self::new(&sweeps, values, regions)
    }

    /// Measures from a trace; `None` if the regions of its image are not known.
    pub fn of_trace(trace: &Trace) -> Option<Self> {
        let to_f64 = |values: &Vec<f32>| -> Vec<f64> { values.iter().map(|&x| f64::from(x)).collect() };
        let sweeps = match &trace.routing {
            // Several sweeps without a kernel are those of a head that reads from both ends at once: no token comes first.
            Routing::Orders(orders) if trace.kernel.is_some() || orders.len() == 1 => orders
                .iter()
                .map(|order| Order::Permutation(order.iter().map(|&i| i as usize).collect()))
                .collect(),
            Routing::Plan(plan) => vec![Order::Plan(Plan { n: plan.rows, share: to_f64(&plan.data) })],
            Routing::None | Routing::Orders(_) => Vec::new(),
        };
        let weight = trace.token_weight.as_ref().map(to_f64);
        let evidence = trace.evidence.token.as_ref().map(to_f64);
        let values = TokenValues { weight: weight.as_deref(), evidence: evidence.as_deref() };
        Some(Self::new(&sweeps.iter().collect::<Vec<_>>(), values, trace.regions.as_ref()?))
    }

    fn new(orders: &[&Order], values: TokenValues<'_>, regions: &Regions) -> Self {
        // By region and sweep, the distribution of its tokens over positions.
        let (mut measures, mut distributions) = (Vec::new(), Vec::<Vec<Vec<f64>>>::new());
        for region in &regions.list {
            let inside = members(&region.cover);
            let sweeps: Vec<_> = orders.iter().map(|order| place(order, &inside)).collect();
            let position = mean(sweeps.iter().map(|sweep| mean_position(sweep)));
            measures.push(RegionMeasure {
                number: region.number,
                name: region.name.clone(),
                position: position.filter(|_| inside.contains(&true)),
                ..values.without_order(&inside)
            });
            distributions.push(sweeps);
        }
        let pairs = distributions.iter().flat_map(|a| distributions.iter().map(move |b| a.iter().zip(b)));
        let before = pairs.filter_map(|sweeps| mean(sweeps.map(|(a, b)| precedence(a, b))));
        Self {
            precedence: before.collect(),
            regions: measures,
            object: values.without_order(&members(&regions.object)),
        }
    }

    /// Precedence of region `a` over region `b`, if known.
    pub fn before(&self, a: usize, b: usize) -> Option<f64> {
        self.precedence.get(a * self.regions.len() + b).copied().filter(|p| p.is_finite())
    }
}

impl TokenValues<'_> {
    /// The measures of a region that need no order.
    fn without_order(self, inside: &[bool]) -> RegionMeasure {
        let tokens = inside.iter().filter(|inside| **inside).count();
        if tokens == 0 {
            return RegionMeasure::default();
        }
        let sum = |values: &[f64]| -> f64 {
            values.iter().zip(inside).filter(|(_, inside)| **inside).map(|(value, _)| value).sum()
        };
        let (Self { weight, evidence }, count) = (self, tokens as f64);
        RegionMeasure {
            tokens,
            weight: weight.map(|weight| sum(weight) / count * inside.len() as f64),
            evidence: evidence.map(sum),
            mean_evidence: evidence.map(|evidence| sum(evidence) / count),
            weight_auc: weight.and_then(|weight| auc_of_weights(weight, inside)),
            evidence_auc: evidence.and_then(|evidence| roc_auc(evidence, inside)),
            ..RegionMeasure::default()
        }
    }
}

/// Distribution of the tokens inside over the positions of an order, `[N]`: the mean of their normalised rows; NaN if there
/// is no token.
fn place(order: &Order, inside: &[bool]) -> Vec<f64> {
    let n = inside.len();
    let count = inside.iter().filter(|inside| **inside).count() as f64;
    match order {
        Order::Permutation(order) => order.iter().map(|&i| f64::from(u8::from(inside[i])) / count).collect(),
        Order::Plan(plan) => {
            let mut sums = vec![if count > 0.0 { 0.0 } else { f64::NAN }; n];
            for i in (0..n).filter(|&i| inside[i]) {
                let row = plan.row(i);
                let row_sum: f64 = row.iter().sum();
                let even = 1.0 / n as f64;
                let share = |x: f64| if row_sum > 0.0 { x / row_sum } else { even };
                sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += share(x) / count);
            }
            sums
        }
    }
}

/// Mean of a distribution over positions, from 0 (first) to 1 (last).
fn mean_position(distribution: &[f64]) -> f64 {
    let last = (distribution.len().max(2) - 1) as f64;
    distribution.iter().enumerate().map(|(k, share)| k as f64 * share).sum::<f64>() / last
}

/// Precedence of one distribution over positions over another: `sum_{k<l} a[k] b[l]`.
fn precedence(a: &[f64], b: &[f64]) -> f64 {
    let (mut before, mut sum) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        sum += before * b;
        before += a;
    }
    sum
}
