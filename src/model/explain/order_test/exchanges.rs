//! The exchanges that p values are counted over: seeded permutations, the same for all images and probes of N tokens,
//! so that their p values differ by what is read and not by what was drawn.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::null::{Exchange, Null};
use crate::model::memo::Memo;

/// Exchanges that are drawn: a p value is a multiple of one in ten thousand.
pub const DRAWS: usize = 9999;
/// The longest sequences whose exchanges are kept, some 80 MB; those of longer ones are drawn whenever they are asked.
const LONGEST_KEPT: usize = 2048;
/// Lengths of which they are kept at once.
const LENGTHS_KEPT: usize = 2;
/// Nulls kept, of 80 KB each: an image that is looked at again has none to wait for.
const NULLS_KEPT: usize = 128;

/// Draws the exchanges of any number of tokens; keeps those of the last, and what they made of the last tables.
pub struct Exchanges {
    seed: u64,
    kept: Memo<usize, Arc<Vec<Vec<u32>>>>,
    nulls: Memo<(usize, u64), Null>,
}

impl Exchanges {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, kept: Memo::new(LENGTHS_KEPT), nulls: Memo::new(NULLS_KEPT) }
    }

    /// What all exchanges of a table give.
    pub fn null(&self, exchange: &Exchange) -> Null {
        self.nulls.get((exchange.tokens(), exchange.mark()), || Null::new(exchange, self))
    }

    /// What `value` makes of each of the [`DRAWS`] exchanges of `n` tokens, in their order: token `i` takes the place of
    /// token `pi[i]`.
    pub fn map(&self, n: usize, value: impl Fn(&[u32]) -> f64 + Sync) -> Vec<f64> {
        if n > LONGEST_KEPT {
            return (0..DRAWS).into_par_iter().map(|draw| value(&self.draw(n, draw))).collect();
        }
        let drawn = || Arc::new((0..DRAWS).into_par_iter().map(|draw| self.draw(n, draw)).collect());
        let kept = self.kept.get(n, drawn);
        kept.par_iter().with_min_len(256).map(|exchange| value(exchange)).collect()
    }

    fn draw(&self, n: usize, draw: usize) -> Vec<u32> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(draw as u64);
        let mut exchange: Vec<u32> = (0..n as u32).collect();
        exchange.shuffle(&mut rng);
        exchange
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_are_uniform_and_the_same_for_everybody() {
        let code = |pi: &[u32]| f64::from(100 * pi[0] + 10 * pi[1] + pi[2]);
        let drawn = Exchanges::new(0).map(3, code);
        assert_eq!(drawn, Exchanges::new(0).map(3, code));
        assert_ne!(drawn, Exchanges::new(1).map(3, code));
        for order in [12.0, 21.0, 102.0, 120.0, 201.0, 210.0] {
            let count = drawn.iter().filter(|value| **value == order).count();
            // 9999 / 6, five binomial deviations.
            assert!((1666.5 - count as f64).abs() < 187.0, "{order}: {count}");
        }
    }

    #[test]
    fn long_sequences_are_drawn_as_short_ones_are() {
        let exchanges = Exchanges::new(7);
        let n = LONGEST_KEPT + 1;
        let first = exchanges.map(n, |pi| f64::from(pi[0]));
        assert_eq!(first[5], f64::from(exchanges.draw(n, 5)[0]));
        let mut sorted = exchanges.draw(n, 9);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..n as u32));
    }
}
