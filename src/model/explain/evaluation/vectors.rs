//! Values stored for every token of every image, so that images can be compared: position in the order, evidence for the
//! image's own class, and weight. One float16 number per token (docs/definitions.md, section 14).

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use half::f16;
use half::slice::HalfFloatSliceExt as _;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Evaluation;

/// Most bytes of the vectors of one probe (if they take more, none are stored), and of all in a window.
pub const MAX_BYTES: u64 = 1 << 30;

/// Why shuffled tokens have no vectors, no maps of classes and no regions.
pub const SHUFFLED: &str = "Its tokens are shuffled: a token is of a different patch in every image";

listed! {
    /// Which value of the tokens a vector holds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum VectorKind {
        /// Position in the order, from 0 (first) to 1 (last).
        #[default]
        Routing: "routing", "Routing";
        /// Evidence for the image's own class, in units of the logit.
        Evidence: "evidence", "Evidence";
        /// Weight times N.
        Weight: "weight", "Token weight";
    }
}

/// `[M, N]` row-major, one vector per image, NaN for an image without one. In files base64 of little-endian float16.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TokenVectors(Arc<[f16]>);

/// Compares bits, so that NaN equals itself.
impl PartialEq for TokenVectors {
    fn eq(&self, other: &Self) -> bool {
        self.0.reinterpret_cast() == other.0.reinterpret_cast()
    }
}

impl TokenVectors {
    /// From all values, `[M, N]` row-major.
    pub fn new(values: Vec<f16>) -> Self {
        Self(values.into())
    }

    /// All values, `[M, N]` row-major.
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
            BASE64_STANDARD.decode(text).map_err(|error| format!("vectors are not base64: {error}"))?;
        let (pairs, rest) = bytes.as_chunks::<2>();
        match rest {
            [] => Ok(Self(pairs.iter().map(|pair| f16::from_le_bytes(*pair)).collect())),
            _ => Err(format!("{} bytes of vectors are not float16", bytes.len())),
        }
    }
}

/// The vectors of one kind, or why there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptVectors {
    /// The vectors.
    Float16(TokenVectors),
    /// Why there are none.
    None(String),
}

/// Bytes of the vectors of all kinds: two per image, token and kind.
pub fn vector_bytes(images: usize, tokens: usize) -> u64 {
    2 * VectorKind::ALL.len() as u64 * images as u64 * tokens as u64
}

impl Evaluation {
    /// The vectors of a kind, or why there are none.
    pub fn vectors_of(&self, kind: VectorKind) -> Result<&TokenVectors, String> {
        match self.vectors.get(&kind) {
            Some(KeptVectors::Float16(vectors)) => Ok(vectors),
            Some(KeptVectors::None(why)) => Err(why.clone()),
            None => Err("This evaluation has no per-token numbers: an earlier version made it. \
                         Evaluate the dataset again"
                .to_owned()),
        }
    }

    /// Whether its tokens are shuffled.
    pub fn is_shuffled(&self) -> bool {
        self.vectors_of(VectorKind::Routing).is_err_and(|why| why == SHUFFLED)
    }
}

/// Drops the vectors of the oldest evaluations (the last one is the latest), so that the rest takes at most `max_bytes`; those
/// of the latest always stay.
pub fn keep_latest<'a>(
    evaluations: impl DoubleEndedIterator<Item = &'a mut Arc<Evaluation>>,
    max_bytes: u64,
) {
    let mut total = 0;
    for (newer, evaluation) in evaluations.rev().enumerate() {
        let values = evaluation.vectors.values().map(|kept| match kept {
            KeptVectors::Float16(vectors) => vectors.values().len() as u64,
            KeptVectors::None(_) => 0,
        });
        let bytes = 2 * values.sum::<u64>();
        if newer == 0 || total + bytes <= max_bytes {
            total += bytes;
        } else if bytes > 0 {
            let reason =
                "Its per-token numbers were dropped to make room for other probes. Evaluate it again";
            let kept = Arc::make_mut(evaluation).vectors.values_mut();
            kept.filter(|kept| matches!(kept, KeptVectors::Float16(_)))
                .for_each(|kept| *kept = KeptVectors::None(reason.to_owned()));
        }
    }
}

/// Vectors of one image in the order of [`VectorKind::ALL`], or why there is none.
pub(super) type ImageVectors = [Result<TokenVectors, Cow<'static, str>>; 3];

/// Converts a vector to float16; an error if a value overflows.
pub(super) fn to_f16(values: &[f64]) -> Result<TokenVectors, &'static str> {
    let values: Vec<f16> = values.iter().map(|value| f16::from_f64(*value)).collect();
    let known = values.iter().all(|value| value.is_finite());
    known.then(|| TokenVectors::new(values)).ok_or("Its numbers exceed the range of float16")
}

/// Collects the vectors of images in their order.
pub(super) struct VectorCollector {
    tokens: usize,
    images: usize,
    /// By kind: the values up to the last image that has any, and the reason of the first image without.
    kinds: [(Vec<f16>, Option<Cow<'static, str>>); 3],
    /// Why none are stored of any image.
    why_none: Option<Cow<'static, str>>,
}

impl VectorCollector {
    /// For `images` images of `tokens` tokens.
    pub fn new(images: usize, tokens: usize) -> Self {
        let bytes = vector_bytes(images, tokens);
        let why_none = (bytes > MAX_BYTES).then(|| {
            let why = format!(
                "Numbers of {tokens} tokens of {images} images take {:.1} GB, but at most {:.1} GB are kept \
                 per probe; evaluate fewer images",
                bytes as f64 / 1e9,
                MAX_BYTES as f64 / 1e9
            );
            why.into()
        });
        Self { tokens, images: 0, kinds: Default::default(), why_none }
    }

    /// No vectors: shuffled tokens cannot be compared patch by patch.
    pub fn of_shuffled() -> Self {
        Self { why_none: Some(SHUFFLED.into()), ..Self::new(0, 0) }
    }

    /// Adds the next image; `None` for one that could not be read.
    pub fn push(&mut self, image: Option<ImageVectors>) {
        let at = self.images * self.tokens;
        self.images += 1;
        if self.why_none.is_some() {
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

    /// The vectors of all kinds, or why there are none.
    pub fn finish(self) -> IndexMap<VectorKind, KeptVectors> {
        let len = self.images * self.tokens;
        let kept = |(kind, (mut values, why)): (VectorKind, (Vec<f16>, Option<Cow<'_, str>>))| {
            let kept = match (&self.why_none, values.is_empty()) {
                (Some(why), _) => KeptVectors::None(why.to_string()),
                (None, true) => {
                    KeptVectors::None(why.unwrap_or("No image could be read".into()).into_owned())
                }
                (None, false) => {
                    values.resize(len, f16::NAN);
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
        let mut collected = VectorCollector::new(4, 2);
        let vector = |values: [f64; 2]| to_f16(&values).map_err(Cow::from);
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
        for (bad, words) in [("AAA", "not base64"), ("AAAA", "3 bytes")] {
            assert!(TokenVectors::try_from(bad.to_owned()).unwrap_err().contains(words));
        }
    }

    #[test]
    fn what_would_fill_the_memory_is_not_kept() {
        assert_eq!(vector_bytes(50_000, 196), 58_800_000);
        let mut collected = VectorCollector::new(2_000_000, 196);
        collected.push(Some([0, 1, 2].map(|_| to_f16(&[0.5; 196]).map_err(Cow::from))));
        let found = collected.finish();
        let said = |kind| format!("{:?}", found[&kind]);
        assert!(VectorKind::ALL.into_iter().all(|kind| said(kind).contains("2.4 GB")), "{found:?}");
    }
}
