//! How one head read one image, in float64: enough for every number of an explanation without another forward pass.

use std::ops::Range;

/// A soft permutation by rows, which are stored or computed on demand.
pub trait PlanRows: Sync {
    /// Number of tokens, and of positions.
    fn tokens(&self) -> usize;

    /// The share of token `i` at every position, `[N]`; `buffer` `[N]` holds the row if it has to be computed.
    fn row<'a>(&'a self, i: usize, buffer: &'a mut [f64]) -> &'a [f64];
}

impl PlanRows for Plan {
    fn tokens(&self) -> usize {
        self.n
    }

    fn row<'a>(&'a self, i: usize, _: &'a mut [f64]) -> &'a [f64] {
        Plan::row(self, i)
    }
}

/// Plan entries that are enough work for one parallel task.
const BLOCK: usize = 1 << 18;

/// Ranges of rows into which a plan of `n` tokens is split for parallel work: the same on every machine,
/// so that sums over them are reproducible.
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

/// The order in which the tokens are read.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// `order[k]` is the token read at step `k`.
    Permutation(Vec<usize>),
    /// A soft order, by a plan.
    Plan(Plan),
}

/// The weight of each position of the sequence in the features, the skip `D` included at the last one.
#[derive(Clone, Debug, PartialEq)]
pub enum Gain {
    /// `[N]`: the same weights for every channel.
    Shared(Vec<f64>),
    /// `[N, d]` row-major: separate weights for every channel.
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
    /// The order of the tokens.
    pub order: Order,
    /// The weight of each position of that order.
    pub gain: Gain,
    /// The S4's kernel, `K[j]` for `j` steps before the end, `[N]` or `[N, d]`, without `D`;
    /// empty where there is no S4.
    pub kernel: Vec<f64>,
    /// Spectral radius of the transition matrix; absent where there is no S4.
    pub radius: Option<f64>,
}

/// How the features are computed from the tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// A weighted mean of tokens, `[N]`.
    Pool(Vec<f64>),
    /// A weighted mean with one weight for every token and channel, `[N, d]` row-major.
    ChannelPool(Vec<f64>),
    /// Pools, then one linear map: `y[g] = map[g] . sum_i weights[g M / G, i] t_i`; each of M pools feeds an equal share
    /// of the G values. The features are `z = mix y + bias`, or `y + bias` without `mix`.
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
    /// The CLS token beside a weighted mean of the last channels of the tokens: `z = [cls, sum_i weights[i] u_i]`.
    BesideCls {
        /// `[d]`.
        cls: Vec<f64>,
        /// `[N]`.
        weights: Vec<f64>,
        /// Number of channels in `u_i`, the last ones of `t_i`.
        channels: usize,
    },
    /// Directions whose readouts are averaged.
    Scan(Vec<Direction>),
    /// Not linear in the patch tokens: no exact evidence.
    Opaque {
        /// The features, `[F]`.
        features: Vec<f64>,
        /// Why there is no exact evidence, as shown to users.
        why: &'static str,
    },
}

/// How one head read one image.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadOutput {
    /// Standardised scores, `[N]`, of heads with a scorer.
    pub scores: Option<Vec<f64>>,
    /// How the features are computed from the tokens.
    pub form: Form,
}

impl HeadOutput {
    /// The sweeps of a scan; none in other forms.
    pub fn directions(&self) -> &[Direction] {
        match &self.form {
            Form::Scan(directions) => directions,
            Form::Pool(_)
            | Form::ChannelPool(_)
            | Form::Projected { .. }
            | Form::BesideCls { .. }
            | Form::Opaque { .. } => &[],
        }
    }

    /// The order of every sweep of a scan, if none is soft.
    pub fn fixed_orders(&self) -> Option<Vec<&[usize]>> {
        let Form::Scan(directions) = &self.form else { return None };
        let orders = directions.iter().map(|direction| match &direction.order {
            Order::Permutation(order) => Some(&order[..]),
            Order::Plan(_) => None,
        });
        orders.collect()
    }
}
