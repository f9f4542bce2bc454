//! The order in which ViT-MAE hands out its patch tokens.
//!
//! transformers shuffles the patches on every forward pass, even at mask ratio 0 where none is
//! masked: `ids_shuffle = argsort(noise)` with uniform noise, and token `k` of the output belongs
//! to patch `ids_shuffle[k]`. The encoder does not care for the order of its tokens (positions are
//! added before), so shuffling its output gives the same as shuffling its input.

use std::fmt;
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
    /// Afresh at every pass, as transformers does: a training draws an order of every image at every step and every
    /// evaluation ([`train`](crate::model::train)). Who reads an image once has one such order of it, that of seed 0.
    Redrawn,
}

impl FromStr for MaeOrder {
    type Err = String;

    /// `kept`, `shuffled` (by seed 0), `shuffled:SEED` or `redrawn`.
    fn from_str(text: &str) -> Result<Self, String> {
        let seed = match text.split_once(':') {
            None if text == "kept" => return Ok(Self::Kept),
            None if text == "redrawn" => return Ok(Self::Redrawn),
            None if text == "shuffled" => Some(0),
            Some(("shuffled", seed)) => seed.parse().ok(),
            _ => None,
        };
        seed.map(Self::Shuffled).ok_or_else(|| "expected kept, shuffled, shuffled:SEED or redrawn".into())
    }
}

impl fmt::Display for MaeOrder {
    /// What it is read from.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Shuffled(seed) => write!(f, "shuffled:{seed}"),
            Self::Redrawn => f.write_str("redrawn"),
        }
    }
}

impl MaeOrder {
    /// In words, of tokens that do not lie as their patches do.
    pub fn words(self) -> Option<String> {
        match self {
            Self::Kept => None,
            Self::Shuffled(seed) => Some(format!("shuffled by seed {seed}")),
            Self::Redrawn => Some("redrawn at every pass".to_owned()),
        }
    }

    /// `order[k]` is the patch whose token comes `k`-th, for an image of `patches` patches.
    pub fn permutation(self, patches: usize, pixels: &Pixels) -> Vec<usize> {
        let mut order: Vec<usize> = (0..patches).collect();
        let seed = match self {
            Self::Kept => None,
            Self::Shuffled(seed) => Some(seed),
            Self::Redrawn => Some(0),
        };
        if let Some(seed) = seed {
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
            Self::Shuffled(_) | Self::Redrawn => {
                let order = self.permutation(patches.len() / width, pixels);
                order.iter().flat_map(|&i| &patches[i * width..(i + 1) * width]).copied().collect()
            }
        }
    }
}
