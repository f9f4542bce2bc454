//! How one head read one image, in float64: enough to compute every number of an explanation
//! without touching a tensor again.

use std::ops::Range;

/// A soft permutation row by row: kept as a table, or made when a row is asked for.
pub trait PlanRows: Sync {
    /// Number of tokens, and of positions.
    fn tokens(&self) -> usize;

    /// The share of token `i` at every position, `[N]`; `room` `[N]` is for rows that have to be made.
    fn row<'a>(&'a self, i: usize, room: &'a mut [f64]) -> &'a [f64];
}

impl PlanRows for Plan {
    fn tokens(&self) -> usize {
        self.n
    }

    fn row<'a>(&'a self, i: usize, _: &'a mut [f64]) -> &'a [f64] {
        Plan::row(self, i)
    }
}

/// Shares that are worth a thread of their own.
const BLOCK: usize = 1 << 18;

/// Rows of a plan of `n` tokens that are taken together: the same on every machine, so that sums
/// over them are, too.
pub(in crate::model) fn blocks(n: usize) -> Vec<Range<usize>> {
    let rows = (BLOCK / n.max(1)).max(1);
    (0..n).step_by(rows).map(|first| first..(first + rows).min(n)).collect()
}

/// A soft permutation: `share[i * n + k]` is the share of token `i` placed at position `k`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of tokens, and of positions.
    pub n: usize,
    /// `[N, N]` row-major; rows are tokens, columns are positions, position N-1 is read last.
    pub share: Vec<f64>,
}

impl Plan {
    /// The row of token `i`: its share at every position.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.share[i * self.n..(i + 1) * self.n]
    }
}

/// In which order the tokens are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// `order[k]` is the token read at step `k`.
    Permutation(Vec<usize>),
    /// Softly, by a plan.
    Plan(Plan),
}

/// What a position of the sequence counts in the features, the skip `D` included at the last one.
#[derive(Clone, Debug, PartialEq)]
pub enum Gain {
    /// `[N]`: the same for every channel.
    Shared(Vec<f64>),
    /// `[N, d]` row-major: one for every channel.
    Channel(Vec<f64>),
    /// `[P, F, d]` row-major: a full map from channels to features, for one of P distinct
    /// positions; `class_of[k]` says which one position `k` uses. `bias` `[F]` is added once.
    Mix {
        /// `[P, F, d]` row-major.
        maps: Vec<f64>,
        /// `[N]`, each below P.
        class_of: Vec<usize>,
        /// `[F]`.
        bias: Vec<f64>,
    },
}

/// One sweep over the tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Who comes when.
    pub order: Order,
    /// What is remembered of whom.
    pub gain: Gain,
    /// The kernel as the S4 measures it, `K[j]` for `j` steps before the end, `[N]` or `[N, d]`,
    /// without `D`; empty where there is no S4.
    pub kernel: Vec<f64>,
    /// Spectral radius of the transition matrix; absent where there is no S4.
    pub radius: Option<f64>,
}

/// How the features come out of the tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A weighted mean of tokens, `[N]`.
    Pool(Vec<f64>),
    /// A weighted mean with one weight for every token and channel, `[N, d]` row-major.
    ChannelPool(Vec<f64>),
    /// Pools behind one linear map: `y[g] = map[g] . sum_i weights[g M / G, i] t_i`; with M pools, each feeds an equal share
    /// of the G values. The features are `z = mix y + bias`, or `y + bias` where nothing mixes them.
    Projected {
        /// `[M, N]` row-major.
        weights: Vec<f64>,
        /// `[G, d]` row-major.
        map: Vec<f64>,
        /// `[F, G]` row-major; absent where F = G.
        mix: Option<Vec<f64>>,
        /// `[F]`.
        bias: Vec<f64>,
    },
    /// Sweeps whose readouts are averaged.
    Scan(Vec<Direction>),
    /// Not linear in the patch tokens: no exact evidence.
    Opaque {
        /// The features, `[F]`.
        features: Vec<f64>,
        /// Why there is no exact evidence, as a person reads it.
        why: &'static str,
    },
}

/// How one head read one image.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadOutput {
    /// Standardised scores, `[N]`, of heads with a scorer.
    pub scores: Option<Vec<f64>>,
    /// How the features come out of the tokens.
    pub form: Form,
}
