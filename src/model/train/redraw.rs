//! A new random order of each image's tokens at every pass, as the transformers library shuffles ViT-MAE's tokens.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::model::stats::shuffled;

/// A pass over images, which fixes the random orders: a training step or an evaluation.
#[derive(Clone, Copy)]
pub(super) enum Pass {
    /// The training step after this many.
    Step(usize),
    /// The evaluation after this many training steps.
    Evaluation(usize),
}

impl Pass {
    /// Unique among the passes.
    fn number(self) -> u64 {
        match self {
            Self::Step(done) => 2 * done as u64,
            Self::Evaluation(done) => 2 * done as u64 + 1,
        }
    }
}

/// Permutes the tokens of every image, N of `width` bytes, by an order that is a function of image, pass and
/// seed. The encoder is equivariant to the order of its tokens, so this equals shuffling its input at every pass.
pub(super) fn redraw(patches: &mut [u8], [n, width]: [usize; 2], images: &[usize], seed: u64, pass: Pass) {
    patches.par_chunks_mut(n * width).zip(images).for_each(|(patches, &image)| {
        let image = (image as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ image);
        rng.set_stream(pass.number());
        let before = patches.to_vec();
        for (to, from) in patches.chunks_mut(width).zip(shuffled(n, &mut rng)) {
            to.copy_from_slice(&before[from * width..][..width]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The patch numbers of two images in the order of a pass.
    fn drawn(seed: u64, pass: Pass) -> Vec<Vec<usize>> {
        let mut patches: Vec<u8> = (0..2).flat_map(|_| (0..12).flat_map(|patch| [patch; 3])).collect();
        redraw(&mut patches, [12, 3], &[4, 9], seed, pass);
        let number = |token: &[u8]| {
            assert!(token.iter().all(|x| *x == token[0]), "a token stays whole");
            usize::from(token[0])
        };
        patches.chunks(36).map(|image| image.chunks(3).map(number).collect()).collect()
    }

    #[test]
    fn every_pass_has_an_order_of_its_own_that_comes_again() {
        let passes = (0..50).flat_map(|done| [Pass::Step(done), Pass::Evaluation(done)]);
        let all: Vec<Vec<usize>> = passes.flat_map(|pass| drawn(3, pass)).collect();
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        for order in &all {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..12).collect::<Vec<_>>());
        }
        assert_eq!(drawn(3, Pass::Evaluation(7)), all[30..32]);
        assert_ne!(drawn(4, Pass::Evaluation(7)), all[30..32]);
    }

    #[test]
    fn every_patch_comes_to_every_place_as_often() {
        let mut first = [0; 12];
        for done in 0..1200 {
            first[drawn(3, Pass::Step(done))[0][0]] += 1;
        }
        // 100 each, with a standard deviation of 9.6.
        assert!(first.iter().all(|count| (55..=145).contains(count)), "{first:?}");
    }
}
