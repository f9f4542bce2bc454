//! Gumbel-Sinkhorn: Sinkhorn sorting with Gumbel noise during training (Mena et al. 2018).
//!
//! In training, independent noise `-ln(-ln U)` is added to every entry of Sinkhorn's `L`: one table per image, determined by its
//! seed alone. In evaluation there is none, and the router is exactly Sinkhorn.

use burn::tensor::{Tensor, TensorData};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Sinkhorn;
use crate::model::probe::router::RouterSpec;

/// Its entry in [`ROUTERS`](crate::model::probe::router::ROUTERS).
pub const SPEC: RouterSpec = RouterSpec {
    id: "gumbel-sinkhorn",
    name: "Gumbel-Sinkhorn",
    summary: "S4 behind Sinkhorn, with noise in training",
    mechanism: "Doubly stochastic, with noise",
    table_row: 4,
    in_paper: false,
    paper_cost: None,
    build: |config| Ok(Box::new(Sinkhorn { noisy: true, ..Sinkhorn::new(config)? })),
};

/// The noise of a batch.
#[derive(Clone, Debug)]
pub struct Noise {
    /// One seed per image.
    pub image_seeds: Vec<u64>,
}

/// The table of the image with this seed, `[N, N]` row-major; values are drawn in this order.
pub fn table(image_seed: u64, n: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(image_seed);
    // Adding 0.5 keeps the uniform value within (0, 1), so that both logarithms are finite.
    let uniform = |word: u32| (f64::from(word) + 0.5) / 2f64.powi(32);
    let standard = |word: u32| (-(-uniform(word).ln()).ln()) as f32;
    (0..n * n).map(|_| standard(rng.random())).collect()
}

impl Noise {
    /// The tables of the whole batch, `[B, N, N]`, on the device of its scores `[B, N]`.
    pub fn tensor(&self, scores: &Tensor<2>) -> Tensor<3> {
        let [images, n] = scores.dims();
        let tables = self.image_seeds.iter().flat_map(|seed| table(*seed, n)).collect();
        Tensor::from_data(TensorData::new::<f32, _>(tables, [images, n, n]), &scores.device())
    }

    /// The ChaCha key of each image's generator, eight words per image.
    pub fn keys(&self) -> Vec<u32> {
        let words = |seed: &u64| {
            let key = ChaCha8Rng::seed_from_u64(*seed).get_seed();
            key.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>()
        };
        self.image_seeds.iter().flat_map(words).collect()
    }
}
