//! The order test of one contrast of classes: the order read, among all orders of the image's tokens.

use serde::{Deserialize, Serialize};

use super::null::{Exchange, Null};
use crate::model::trace::OrderContrast;

/// Contribution of every token in every place, and its distribution over all exchanges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Part of the value that no token contributes.
    pub(super) bias: f64,
    /// The class whose logit is subtracted.
    pub(super) against: Option<usize>,
    /// Whether the class was picked because it was predicted.
    pub descriptive: bool,
    /// Value of a bag of the tokens, the mean over all orders, without the bias.
    pub(super) bag: f64,
    /// For a learned order, value of the same kernel in raster order, without the bias.
    pub(super) raster: Option<f64>,
    /// `B`; under an order made by hand `M`: rows are tokens, columns positions.
    pub(super) exchange: Exchange,
    /// Distribution over all exchanges.
    pub(super) null: Null,
}

/// A [`Contrast`] before its null distribution is known.
pub(super) struct UntestedContrast {
    pub(super) bias: f64,
    pub(super) against: Option<usize>,
    pub(super) descriptive: bool,
    pub(super) bag: f64,
    pub(super) raster: Option<f64>,
    pub(super) exchange: Exchange,
}

impl UntestedContrast {
    pub(super) fn with(self, null: Null) -> Contrast {
        let Self { bias, against, descriptive, bag, raster, exchange } = self;
        Contrast { bias, against, descriptive, bag, raster, exchange, null }
    }
}

impl Contrast {
    /// The test of the tokens in their own places.
    pub(super) fn as_read(&self) -> OrderContrast {
        self.tested(self.exchange.trace(), self.exchange.centred().trace())
    }

    /// The test of an order made by hand, with token `order[k]` at position `k`. `O(N)`.
    pub fn in_order(&self, order: &[u32]) -> OrderContrast {
        let value = order.iter().enumerate().map(|(k, &i)| self.contribution(i as usize, k)).sum();
        self.tested(value, value - self.null.mean)
    }

    /// Whether it is one of `n` tokens.
    pub fn is_of(&self, n: usize) -> bool {
        self.exchange.is_of(n)
    }

    /// Contribution of token `i` at position `k`.
    pub fn contribution(&self, i: usize, k: usize) -> f64 {
        self.exchange.at(i, k)
    }

    /// The test of `value`, without the bias; `above` is its distance from the mean.
    fn tested(&self, value: f64, above: f64) -> OrderContrast {
        let Self { bias, against, descriptive, bag, raster, .. } = *self;
        let Null { mean, std, .. } = self.null;
        let (best, worst) = if std > 0.0 { (self.null.best, self.null.worst) } else { (value, value) };
        let headroom = (best > mean && std > 0.0).then(|| ((value - mean) / (best - mean)).min(1.0));
        let mut reassigned = self.null.reassigned(above);
        reassigned.mean += bias;
        OrderContrast {
            value: bias + value,
            against,
            descriptive,
            reassigned,
            best: bias + best,
            worst: bias + worst,
            headroom,
            content: bias + bag,
            fixed_order: raster.unwrap_or(value) - bag,
            routing: raster.map_or(0.0, |raster| value - raster),
        }
    }
}
