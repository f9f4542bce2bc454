//! The order in which ViT-MAE returns its patch tokens.
//!
//! transformers shuffles the patches on every forward pass, even at mask ratio 0 where none is
//! masked: `ids_shuffle = argsort(noise)` with uniform noise, and token `k` of the output belongs
//! to patch `ids_shuffle[k]`. The encoder is equivariant to the order of its tokens (positions are
//! added before), so shuffling its output is equivalent to shuffling its input.

use std::fmt;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::backbone::preprocess::Pixels;
use crate::model::stats::argsort;

/// The order of ViT-MAE's patch tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MaeOrder {
    /// Raster order, as in every other backbone.
    #[default]
    Kept,
    /// Shuffled as in transformers, but by this seed and the image's pixels alone: an image has the
    /// same order in every batch.
    Shuffled(u64),
    /// Shuffled anew at every pass, as in transformers: training draws a new order for every image at every step and every
    /// evaluation ([`train`](crate::model::train)). Reading an image once yields the order of seed 0.
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
    /// The text that [`from_str`](Self::from_str) parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Shuffled(seed) => write!(f, "shuffled:{seed}"),
            Self::Redrawn => f.write_str("redrawn"),
        }
    }
}

impl MaeOrder {
    /// Whether tokens lie in another order than the patches of their image.
    pub fn is_shuffled(self) -> bool {
        self != Self::Kept
    }

    /// A description for display; `None` for raster order.
    pub fn words(self) -> Option<String> {
        match self {
            Self::Kept => None,
            Self::Shuffled(seed) => Some(format!("shuffled by seed {seed}")),
            Self::Redrawn => Some("redrawn in every pass".to_owned()),
        }
    }

    /// The order for an image of `patches` patches: `order[k]` is the patch of the `k`-th token.
    pub fn permutation(self, patches: usize, pixels: &Pixels) -> Vec<usize> {
        let seed = match self {
            Self::Kept => return (0..patches).collect(),
            Self::Shuffled(seed) => seed,
            Self::Redrawn => 0,
        };
        let mut hash = Sha256::new_with_prefix(seed.to_le_bytes());
        pixels.values.iter().for_each(|x| hash.update(x.to_le_bytes()));
        let mut rng = ChaCha8Rng::from_seed(hash.finalize().into());
        let noise: Vec<f64> = (0..patches).map(|_| rng.random()).collect();
        argsort(&noise)
    }
}
