//! One contrast of classes over all orders of an image's tokens, the one that was read among them.

use serde::{Deserialize, Serialize};

use super::null::{Exchange, Null};
use crate::model::trace::OrderContrast;

/// What every token is worth in every place, and what all exchanges of it give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// What no token says.
    pub(super) bias: f64,
    /// The class whose logit is subtracted.
    pub(super) against: Option<usize>,
    /// Whether the class was picked because it was predicted.
    pub(super) descriptive: bool,
    /// What a bag of the tokens gives, the bias left out.
    pub(super) bag: f64,
    /// What a learned order's memory makes of raster order, the bias left out.
    pub(super) raster: Option<f64>,
    /// `B`; under an order that a person made `M`: rows are tokens, columns positions.
    pub(super) exchange: Exchange,
    /// Of all exchanges.
    pub(super) null: Null,
}

impl Contrast {
    /// The test of the tokens where they stand.
    pub(super) fn as_read(&self) -> OrderContrast {
        self.tested(self.exchange.trace(), self.exchange.centred().trace())
    }

    /// The test of an order that a person made: `order[k]` stands at position `k`. `O(N)`.
    pub fn in_order(&self, order: &[u32]) -> OrderContrast {
        let value = order.iter().enumerate().map(|(k, &i)| self.worth(i as usize, k)).sum();
        self.tested(value, value - self.null.mean)
    }

    /// What token `i` gives at position `k`.
    pub fn worth(&self, i: usize, k: usize) -> f64 {
        self.exchange.at(i, k)
    }

    /// What no token says.
    pub fn bias(&self) -> f64 {
        self.bias
    }

    /// Whether the class was picked because it was predicted.
    pub fn is_descriptive(&self) -> bool {
        self.descriptive
    }

    /// The test of a `value` without its bias, so much above the mean.
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
