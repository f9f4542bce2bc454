//! What is kept of every token of every image, so that images can be compared: where it came in the order, what it gives
//! the image's own class, and what it counts. One number a token, in float16 (docs/definitions.md, section 14).

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use half::f16;
use half::slice::HalfFloatSliceExt as _;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Evaluation;

/// Most bytes of the vectors of one probe, of more images none are kept; and of all that a window holds.
pub const MAX_BYTES: u64 = 1 << 30;

/// What a vector says of each token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorKind {
    /// Where it came in the order, 0 the first and 1 the last.
    #[default]
    Routing,
    /// What it adds to the logit of the image's own class.
    Evidence,
    /// What it counts, times N.
    Weight,
}

impl VectorKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Routing, Self::Evidence, Self::Weight];

    /// Its name in flags and files.
    pub fn id(self) -> &'static str {
        match self {
            Self::Routing => "routing",
            Self::Evidence => "evidence",
            Self::Weight => "weight",
        }
    }

    /// What it is called on the screen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Routing => "Routing",
            Self::Evidence => "Evidence",
            Self::Weight => "Token weight",
        }
    }
}

/// `[M, N]` row-major, a vector an image; one that has none holds no number. In files base64 of little-endian float16.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TokenVectors(Arc<[f16]>);

/// Bit by bit, so that what is not a number is itself.
impl PartialEq for TokenVectors {
    fn eq(&self, other: &Self) -> bool {
        self.0.reinterpret_cast() == other.0.reinterpret_cast()
    }
}

impl TokenVectors {
    /// Of these numbers.
    pub fn new(values: Vec<f16>) -> Self {
        Self(values.into())
    }

    /// All numbers.
    pub fn values(&self) -> &[f16] {
        &self.0
    }
}

impl From<TokenVectors> for String {
    fn from(vectors: TokenVectors) -> Self {
        let bytes: Vec<u8> = vectors.0.iter().flat_map(|value| value.to_le_bytes()).collect();
        BASE64_STANDARD.encode(bytes)
    }
}

impl TryFrom<String> for TokenVectors {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bytes =
            BASE64_STANDARD.decode(text).map_err(|error| format!("vectors are no base64: {error}"))?;
        let (pairs, rest) = bytes.as_chunks::<2>();
        match rest {
            [] => Ok(Self(pairs.iter().map(|pair| f16::from_le_bytes(*pair)).collect())),
            _ => Err(format!("{} bytes of vectors are no float16", bytes.len())),
        }
    }
}

/// The vectors of one kind, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptVectors {
    /// They.
    Float16(TokenVectors),
    /// Why there are none.
    None(String),
}

/// What vectors of so many images and tokens come to, in bytes: two a number of each kind.
pub fn vector_bytes(images: usize, tokens: usize) -> u64 {
    2 * VectorKind::ALL.len() as u64 * images as u64 * tokens as u64
}

impl Evaluation {
    /// The vectors of a kind.
    ///
    /// # Errors
    /// Why there are none.
    pub fn vectors_of(&self, kind: VectorKind) -> Result<&TokenVectors, String> {
        match self.vectors.get(&kind) {
            Some(KeptVectors::Float16(vectors)) => Ok(vectors),
            Some(KeptVectors::None(why)) => Err(why.clone()),
            None => Err("This evaluation has no numbers of single tokens: an earlier program made it. \
                         Evaluate the dataset again"
                .to_owned()),
        }
    }
}

/// Drops the vectors of all but the latest evaluations, which come last, so that those that stay are at most `most` bytes; the
/// latest one's stay.
pub fn keep_latest<'a>(evaluations: impl DoubleEndedIterator<Item = &'a mut Arc<Evaluation>>, most: u64) {
    let mut total = 0;
    for (newer, evaluation) in evaluations.rev().enumerate() {
        let values = evaluation.vectors.values().map(|kept| match kept {
            KeptVectors::Float16(vectors) => vectors.values().len() as u64,
            KeptVectors::None(_) => 0,
        });
        let bytes = 2 * values.sum::<u64>();
        if newer == 0 || total + bytes <= most {
            total += bytes;
        } else if bytes > 0 {
            let gone = "Its numbers of single tokens gave way to those of other probes. Evaluate it again";
            let kept = Arc::make_mut(evaluation).vectors.values_mut();
            kept.filter(|kept| matches!(kept, KeptVectors::Float16(_)))
                .for_each(|kept| *kept = KeptVectors::None(gone.to_owned()));
        }
    }
}

/// What one image has of each kind, in the order of [`VectorKind::ALL`].
pub(super) type ImageVectors = [Result<TokenVectors, Cow<'static, str>>; 3];

/// A vector in float16.
///
/// # Errors
/// If a number is beyond it.
pub(super) fn rounded(values: &[f64]) -> Result<TokenVectors, &'static str> {
    let values: Vec<f16> = values.iter().map(|value| f16::from_f64(*value)).collect();
    let known = values.iter().all(|value| value.is_finite());
    known.then(|| TokenVectors::new(values)).ok_or("Its numbers are larger than float16 holds")
}

/// The vectors of the images asked about so far.
pub(super) struct Collected {
    tokens: usize,
    images: usize,
    /// Of each kind the numbers up to the last image that has any, and why the first that has none has none.
    kinds: [(Vec<f16>, Option<Cow<'static, str>>); 3],
    /// Why none are kept.
    too_many: Option<String>,
}

impl Collected {
    /// Room for so many images of so many tokens.
    pub fn new(images: usize, tokens: usize) -> Self {
        let bytes = vector_bytes(images, tokens);
        let too_many = (bytes > MAX_BYTES).then(|| {
            format!(
                "Numbers of {tokens} tokens of {images} images are {:.1} GB, and {:.1} GB are the most that is \
                 kept of a probe; evaluate fewer images",
                bytes as f64 / 1e9,
                MAX_BYTES as f64 / 1e9
            )
        });
        Self { tokens, images: 0, kinds: Default::default(), too_many }
    }

    /// Takes what the next image has; nothing of one that could not be read.
    pub fn push(&mut self, image: Option<ImageVectors>) {
        let at = self.images * self.tokens;
        self.images += 1;
        if self.too_many.is_some() {
            return;
        }
        for ((values, why), found) in self.kinds.iter_mut().zip(image.into_iter().flatten()) {
            match found {
                Ok(found) => {
                    values.resize(at, f16::NAN);
                    values.extend(found.values());
                }
                Err(reason) => drop(why.get_or_insert(reason)),
            }
        }
    }

    /// All of them.
    pub fn finish(self) -> IndexMap<VectorKind, KeptVectors> {
        let all = self.images * self.tokens;
        let kept = |(kind, (mut values, why)): (VectorKind, (Vec<f16>, Option<Cow<'_, str>>))| {
            let kept = match (&self.too_many, values.is_empty()) {
                (Some(why), _) => KeptVectors::None(why.clone()),
                (None, true) => {
                    KeptVectors::None(why.unwrap_or("No image could be read".into()).into_owned())
                }
                (None, false) => {
                    values.resize(all, f16::NAN);
                    KeptVectors::Float16(TokenVectors::new(values))
                }
            };
            (kind, kept)
        };
        VectorKind::ALL.into_iter().zip(self.kinds).map(kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_vector_leaves_its_row_empty() {
        let mut collected = Collected::new(4, 2);
        let vector = |values: [f64; 2]| rounded(&values).map_err(Cow::from);
        collected.push(None);
        collected.push(Some([vector([0.0, 1.0]), Err("no class".into()), Err("by channel".into())]));
        collected.push(Some([vector([0.5, 7e4]), vector([2.0, -1.0]), Err("by channel".into())]));
        collected.push(None);
        let found = collected.finish();
        let KeptVectors::Float16(routing) = &found[&VectorKind::Routing] else { panic!("{found:?}") };
        let numbers: Vec<f32> = routing.values().iter().map(|value| value.to_f32()).collect();
        assert_eq!(numbers[2..4], [0.0, 1.0]);
        assert!([0, 1, 4, 5, 6, 7].iter().all(|at| numbers[*at].is_nan()), "{numbers:?}");
        let KeptVectors::Float16(evidence) = &found[&VectorKind::Evidence] else { panic!("{found:?}") };
        assert_eq!(evidence.values()[4..6], [f16::from_f32(2.0), f16::from_f32(-1.0)]);
        assert!(evidence.values().len() == 8 && evidence.values()[2].is_nan());
        assert_eq!(found[&VectorKind::Weight], KeptVectors::None("by channel".into()));
        let text = serde_json::to_string(&found).unwrap();
        let read: IndexMap<VectorKind, KeptVectors> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, found);
        // 0 and 1 in float16 are 0000 and 3c00, the low byte first.
        let plain = TokenVectors::new([0.0, 1.0].map(f16::from_f32).into());
        assert_eq!(String::from(plain), "AAAAPA==");
        for (bad, words) in [("AAA", "no base64"), ("AAAA", "3 bytes")] {
            assert!(TokenVectors::try_from(bad.to_owned()).unwrap_err().contains(words));
        }
    }

    #[test]
    fn what_would_fill_the_memory_is_not_kept() {
        assert_eq!(vector_bytes(50_000, 196), 58_800_000);
        let mut collected = Collected::new(2_000_000, 196);
        collected.push(Some([0, 1, 2].map(|_| rounded(&[0.5; 196]).map_err(Cow::from))));
        let found = collected.finish();
        let said = |kind| format!("{:?}", found[&kind]);
        assert!(VectorKind::ALL.into_iter().all(|kind| said(kind).contains("2.4 GB")), "{found:?}");
    }
}
