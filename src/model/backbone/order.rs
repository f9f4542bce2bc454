//! The order in which ViT-MAE hands out its patch tokens.
//!
//! transformers shuffles the patches on every forward pass, even at mask ratio 0 where none is
//! masked: `ids_shuffle = argsort(noise)` with uniform noise, and token `k` of the output belongs
//! to patch `ids_shuffle[k]`. The encoder does not care for the order of its tokens (positions are
//! added before), so shuffling its output gives the same as shuffling its input.

use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::backbone::preprocess::Pixels;

/// In which order ViT-MAE hands out its patch tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaeOrder {
    /// Raster order, as every other backbone.
    #[default]
    Kept,
    /// Shuffled as transformers does, but by this seed and the image's pixels alone: the same
    /// image has the same order in whatever batch.
    Shuffled(u64),
}

impl FromStr for MaeOrder {
    type Err = String;

    /// `kept`, `shuffled` (by seed 0) or `shuffled:SEED`.
    fn from_str(text: &str) -> Result<Self, String> {
        let seed = match text.split_once(':') {
            None if text == "kept" => return Ok(Self::Kept),
            None if text == "shuffled" => Some(0),
            Some(("shuffled", seed)) => seed.parse().ok(),
            _ => None,
        };
        seed.map(Self::Shuffled).ok_or_else(|| "expected kept, shuffled or shuffled:SEED".into())
    }
}

impl MaeOrder {
    /// `order[k]` is the patch whose token comes `k`-th, for an image of `patches` patches.
    pub fn permutation(self, patches: usize, pixels: &Pixels) -> Vec<usize> {
        let mut order: Vec<usize> = (0..patches).collect();
        if let Self::Shuffled(seed) = self {
            let mut hash = Sha256::new_with_prefix(seed.to_le_bytes());
            pixels.values.iter().for_each(|x| hash.update(x.to_le_bytes()));
            let mut rng = ChaCha8Rng::from_seed(hash.finalize().into());
            let noise: Vec<f64> = (0..patches).map(|_| rng.random()).collect();
            order.sort_by(|&a, &b| noise[a].total_cmp(&noise[b]));
        }
        order
    }

    /// Patch tokens `[N, width]` in this order.
    pub fn apply(self, patches: &[f32], width: usize, pixels: &Pixels) -> Vec<f32> {
        match self {
            Self::Kept => patches.to_vec(),
            Self::Shuffled(_) => {
                let order = self.permutation(patches.len() / width, pixels);
                order.iter().flat_map(|&i| &patches[i * width..(i + 1) * width]).copied().collect()
            }
        }
    }
}
