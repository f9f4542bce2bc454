//! Rankings of the tokens by importance: the list of all of them, and random orders.

use super::{Found, Ranked};
use crate::model::explain::attribution;
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::permutation;
use crate::model::explain::readout::token_weight;
use crate::model::probe::head_output::Form;

/// Id of the random orders.
pub const RANDOM: &str = "random";
/// Random stream that breaks ties, far from those of images' random orders and of [`Orders::random`].
const TIES: u64 = 1 << 32;
/// Random stream of [`Orders::random`]: none of its orders is one that a head reads in.
const RANDOM_ORDERS: u64 = 1 << 33;
/// Values whose range is at most this share of the largest are equal up to rounding.
const ROUNDING: f64 = 1e-12;

/// A measure of the importance of tokens.
pub struct Ranking {
    /// Name in files.
    pub id: &'static str,
    /// Name on the screen.
    pub name: &'static str,
    /// Importance of every token, `[N]`, or why it is not defined.
    pub values: fn(&RankingInput<'_>) -> Result<Importance, String>,
}

/// Input of a ranking.
pub struct RankingInput<'a> {
    /// The whole image as it was read.
    pub reading: &'a ImageReading<'a>,
    /// The class.
    pub class: usize,
    /// The backbone's attention rollout, `[N]`, or why there is none.
    pub rollout: Result<&'a [f32], &'a str>,
}

/// Importance of every token, `[N]`, and, for integrated gradients, their sum less its target.
type Importance = (Vec<f64>, Option<f64>);

/// Every ranking, in the order of files and legends.
pub const RANKINGS: &[Ranking] = &[
    Ranking {
        id: "evidence",
        name: "Evidence",
        values: |input| Ok((input.reading.evidence(input.class)?.token, None)),
    },
    Ranking { id: "weight", name: "Weight", values: weight },
    Ranking { id: "late", name: "Read late", values: late },
    Ranking {
        id: "gradient",
        name: "Gradient × token",
        values: |input| Ok((attribution::gradient(input.reading, input.class)?, None)),
    },
    Ranking { id: "integrated", name: "Integrated gradients", values: integrated },
    Ranking {
        id: "rollout",
        name: "Attention rollout",
        values: |input| Ok((input.rollout?.iter().map(|&x| f64::from(x)).collect(), None)),
    },
];

/// A ranking as orders of the tokens, the most important first: a single one, or many random ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Orders {
    /// Id of the ranking.
    pub id: &'static str,
    /// The orders, `[N]` each.
    pub orders: Vec<Vec<usize>>,
}

impl Orders {
    /// `draws` random orders of `n` tokens: the same for every image and probe.
    pub fn random(n: usize, draws: usize, seed: u64) -> Self {
        Self {
            id: RANDOM,
            orders: (0..draws as u64).map(|draw| permutation(seed, RANDOM_ORDERS + draw, n)).collect(),
        }
    }
}

impl Ranking {
    /// Ranks the tokens of an image; a reason if all are equally important. `seed` breaks ties.
    pub fn rank(&self, input: &RankingInput<'_>, seed: u64) -> Found<Ranked> {
        let ranked = |(values, completeness_error): Importance| {
            Ok(Ranked { order: order(&values, seed)?, values, completeness_error })
        };
        (self.values)(input).and_then(ranked).into()
    }
}

/// The indices of `values`, the largest first, ties broken at random by `seed`; an error if all are equal, or one is not finite.
pub fn order(values: &[f64], seed: u64) -> Result<Vec<usize>, String> {
    if !values.iter().all(|value| value.is_finite()) {
        return Err("It has non-finite values".to_owned());
    }
    let (low, high) = values.iter().fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
    if high - low <= ROUNDING * high.abs().max(low.abs()) {
        return Err("It is the same for all tokens".to_owned());
    }
    let mut order = permutation(seed, TIES, values.len());
    order.sort_by(|&a, &b| (values[b] + 0.0).total_cmp(&(values[a] + 0.0))); // 0 and -0 are equal
    Ok(order)
}

/// Absolute weight of the token.
fn weight(input: &RankingInput<'_>) -> Result<Importance, String> {
    let output = &input.reading.output;
    let why = match output.form {
        Form::Opaque { .. } => "The head is not linear in the tokens: none has a weight",
        _ => "The head weights each channel separately: no token has a single weight",
    };
    let weights = token_weight(output).ok_or(why)?;
    Ok((weights.into_iter().map(f64::abs).collect(), None))
}

/// Expected position of the token, the mean over sweeps.
fn late(input: &RankingInput<'_>) -> Result<Importance, String> {
    let ImageReading { probe, tokens, output, .. } = input.reading;
    if let Some(orders) = output.fixed_orders() {
        // Integer sums, so that sweeps in opposite directions tie exactly.
        let mut position_sums = vec![0; tokens.grid.len()];
        for order in &orders {
            order.iter().enumerate().for_each(|(k, &i)| position_sums[i] += k);
        }
        let mean = |sum: usize| sum as f64 / orders.len() as f64;
        return Ok((position_sums.into_iter().map(mean).collect(), None));
    }
    if let Some(stats) = input.reading.plan_stats() {
        return Ok((stats.expected().to_vec(), None));
    }
    Err(match probe.head().is_recurrent() {
        true => "The head reads from both ends: every token is expected in the middle",
        false => "The head reads the tokens as a set: none is late",
    }
    .to_owned())
}

/// Integrated gradients.
fn integrated(input: &RankingInput<'_>) -> Result<Importance, String> {
    let found = attribution::integrated(input.reading, input.class)?;
    Ok((found.token, Some(found.completeness_error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_by_a_draw_and_constants_rank_nothing() {
        let values = [1.0, 3.0, 1.0, 1.0, -2.0, 1.0, 1.0];
        let orders: Vec<Vec<usize>> =
            (0..20).map(|seed| order(&values, seed).expect("no constant")).collect();
        assert_eq!(orders[3], order(&values, 3).expect("no constant"));
        for order in &orders {
            assert_eq!((order[0], order[6]), (1, 4));
        }
        // 0 and -0 tie.
        let zeros = [-0.0, 0.0].map(|zero| values.map(|value| if value == 1.0 { zero } else { value }));
        let mixed = order(&zeros.concat(), 0).expect("no constant");
        assert!(mixed[2..7].iter().any(|&at| at < 7) && mixed[7..12].iter().any(|&at| at < 7), "{mixed:?}");
        let firsts: std::collections::HashSet<usize> = orders.iter().map(|order| order[1]).collect();
        assert_eq!(firsts.len(), 5, "each of the equal tokens goes first at some time");
        let third = 1.0 / 3.0;
        for equal in [vec![third; 4], vec![third, third + 1e-17, third, third * (1.0 + 1e-15)], vec![0.0; 3]]
        {
            assert!(order(&equal, 0).unwrap_err().contains("same for all"), "{equal:?}");
        }
        assert!(order(&[1.0, f64::NAN], 0).is_err());
    }

    #[test]
    fn random_orders_depend_on_seed_and_length_alone() {
        let drawn_anew = |seed| Orders::random(12, 16, seed).orders;
        let drawn = Orders::random(12, 16, 5);
        assert_eq!(drawn.orders, drawn_anew(5));
        assert_eq!(drawn.orders[..4], Orders::random(12, 4, 5).orders[..], "fewer are the first of more");
        let distinct: std::collections::HashSet<&Vec<usize>> = drawn.orders.iter().collect();
        assert_eq!(distinct.len(), 16);
        let read = |seed| permutation(0, seed, 12);
        assert!((0..16).all(|seed| !drawn_anew(0).contains(&read(seed))), "an order that heads read in");
    }
}
