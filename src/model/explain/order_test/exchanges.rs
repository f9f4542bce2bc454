//! The exchanges that p values are estimated from: seeded permutations, the same for all images and probes of N tokens,
//! so that their p values do not differ by what was drawn.

use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::null::{Exchange, Null};
use crate::model::memo::Memo;

/// Number of random exchanges: p values are multiples of 1 / 10000.
pub const DRAWS: usize = 9999;
/// Longest sequences whose exchanges are cached, some 80 MB; those of longer ones are drawn at every use.
const MAX_CACHED_TOKENS: usize = 2048;
/// Sequence lengths in the cache of exchanges.
const MAX_LENGTHS: usize = 2;
/// Null distributions in the cache, of 80 KB each, so that an image shown again needs no new computation.
const MAX_NULLS: usize = 128;

/// Draws the exchanges of any number of tokens; caches those of the last lengths, and the nulls of the last tables.
pub struct Exchanges {
    seed: u64,
    permutations: Memo<usize, Arc<Vec<Vec<u32>>>>,
    nulls: Memo<(usize, u64), Null>,
}

impl Exchanges {
    /// An empty cache; `seed` is that of the permutations.
    pub fn new(seed: u64) -> Self {
        Self { seed, permutations: Memo::new(MAX_LENGTHS), nulls: Memo::new(MAX_NULLS) }
    }

    /// The null distribution of a table over all exchanges.
    pub fn null(&self, exchange: &Exchange) -> Null {
        self.nulls.get((exchange.tokens(), exchange.mark()), || Null::new(exchange, self))
    }

    /// `value` of each of the [`DRAWS`] exchanges `pi` of `n` tokens, in the order of the draws: token `i` takes the place
    /// of token `pi[i]`.
    pub fn map<T: Send>(&self, n: usize, value: impl Fn(&[u32]) -> T + Sync) -> Vec<T> {
        if n > MAX_CACHED_TOKENS {
            return (0..DRAWS).into_par_iter().map(|draw| value(&self.draw(n, draw))).collect();
        }
        let drawn = || Arc::new((0..DRAWS).into_par_iter().map(|draw| self.draw(n, draw)).collect());
        let permutations = self.permutations.get(n, drawn);
        permutations.par_iter().with_min_len(256).map(|exchange| value(exchange)).collect()
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
        let n = MAX_CACHED_TOKENS + 1;
        let first = exchanges.map(n, |pi| f64::from(pi[0]));
        assert_eq!(first[5], f64::from(exchanges.draw(n, 5)[0]));
        let mut sorted = exchanges.draw(n, 9);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..n as u32));
    }
}
