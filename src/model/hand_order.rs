//! An order of the tokens that a user made, by hand or in a file: every token exactly once.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::io::{escape::slug, sha256};

/// Hex digits of the hash that identifies an order without a file.
const HASH_DIGITS: usize = 8;

/// An order of N tokens, each exactly once; cheap to clone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct HandOrder(Arc<Stored>);

/// An order as files hold it, not yet checked to be one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    order: Vec<u32>,
}

/// Why a list of tokens is no order.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOrderError {
    #[error("it has {0} tokens, expected at least 2")]
    TooFew(usize),
    #[error("step {step} reads token {token}, expected tokens from 0 to {last}, as it has {} steps", last + 1)]
    Range { step: usize, token: i64, last: usize },
    #[error(
        "token {token} is read twice, at steps {first} and {second}, and token {missing} never; expected every token \
         from 0 to {last} once"
    )]
    Repeated { token: usize, first: usize, second: usize, missing: usize, last: usize },
}

impl HandOrder {
    /// The order whose step `k` reads token `order[k]`, if it reads every token from 0 to N-1 once.
    pub fn new(order: impl Into<Vec<u32>>) -> Result<Self, NoOrderError> {
        Stored { file: None, order: order.into() }.try_into()
    }

    /// The same order, named after the file that holds it.
    #[must_use]
    pub fn of_file(&self, path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self(Arc::new(Stored {
            file: Some(name.to_string_lossy().into_owned()),
            order: self.0.order.clone(),
        }))
    }

    /// An order without a file; the caller has checked it.
    fn without_file(order: Vec<u32>) -> Self {
        Self(Arc::new(Stored { file: None, order }))
    }

    /// The token that is read at each step, `[N]`.
    pub fn tokens(&self) -> &[u32] {
        &self.0.order
    }

    /// [`tokens`](Self::tokens) as indices.
    pub fn indices(&self) -> Vec<usize> {
        self.tokens().iter().map(|&token| token as usize).collect()
    }

    /// The order with `tokens` moved to `step` and the following steps, or to the end if there are not that many; the others
    /// keep their order. Tokens out of range and repetitions are ignored.
    #[must_use]
    pub fn with_moved(&self, tokens: &[usize], step: usize) -> Self {
        let mut is_moved = vec![false; self.tokens().len()];
        let fresh =
            |token: &&usize| is_moved.get_mut(**token).is_some_and(|moved| !std::mem::replace(moved, true));
        let moved: Vec<u32> = tokens.iter().filter(fresh).map(|&token| token as u32).collect();
        let mut order: Vec<u32> =
            self.tokens().iter().copied().filter(|token| !is_moved[*token as usize]).collect();
        let at = step.min(order.len());
        order.splice(at..at, moved);
        if order == self.tokens() { self.clone() } else { Self::without_file(order) }
    }

    /// Words for the screen: `order of mine.npz`, `order by hand 3fa2b1c9`.
    pub fn words(&self) -> String {
        match self.file() {
            Some(file) => format!("order of {file}"),
            None => format!("order by hand {}", self.hash()),
        }
    }

    /// An identifier for file names: `order-mine`, `order-by-hand-3fa2b1c9`.
    pub fn id(&self) -> String {
        let stem = |file: &str| Path::new(file).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        match self.file().and_then(stem) {
            Some(stem) => format!("order-{}", slug(&stem)),
            None => format!("order-by-hand-{}", self.hash()),
        }
    }

    /// The name of the file that holds it, without its folder.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The first [`HASH_DIGITS`] digits of the SHA-256 of its tokens.
    fn hash(&self) -> String {
        let bytes: Vec<u8> = self.tokens().iter().flat_map(|token| token.to_le_bytes()).collect();
        sha256::of_bytes(&bytes).chars().take(HASH_DIGITS).collect()
    }
}

impl TryFrom<Stored> for HandOrder {
    type Error = NoOrderError;

    fn try_from(stored: Stored) -> Result<Self, NoOrderError> {
        let order = &stored.order;
        if order.len() < 2 {
            return Err(NoOrderError::TooFew(order.len()));
        }
        let last = order.len() - 1;
        let mut step_of = vec![None; order.len()];
        for (step, &token) in order.iter().enumerate() {
            let Some(seen) = step_of.get_mut(token as usize) else {
                return Err(NoOrderError::Range { step, token: token.into(), last });
            };
            if let Some(first) = seen.replace(step) {
                let all: std::collections::HashSet<u32> = order.iter().copied().collect();
                let missing = (0..=last).find(|token| !all.contains(&(*token as u32))).unwrap_or_default();
                let token = token as usize;
                return Err(NoOrderError::Repeated { token, first, second: step, missing, last });
            }
        }
        Ok(Self(Arc::new(stored)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(tokens: &[u32]) -> HandOrder {
        HandOrder::new(tokens).unwrap()
    }

    #[test]
    fn what_is_stored_is_an_order_that_keeps_its_file() {
        let stored = r#"{"order": [1, 1]}"#;
        assert!(serde_json::from_str::<HandOrder>(stored).unwrap_err().to_string().contains("twice"));
        let whole = order(&[1, 0]).of_file(Path::new("/somewhere/mine.npz"));
        let kept = serde_json::to_string(&whole).unwrap();
        assert_eq!(kept, r#"{"file":"mine.npz","order":[1,0]}"#);
        assert_eq!(serde_json::from_str::<HandOrder>(&kept).unwrap(), whole);
    }

    #[test]
    fn tokens_are_moved_together_and_the_others_stay() {
        let raster = order(&[0, 1, 2, 3, 4, 5]);
        let moved = |tokens: &[usize], step| raster.with_moved(tokens, step).tokens().to_vec();
        assert_eq!(moved(&[4, 1], 0), [4, 1, 0, 2, 3, 5]);
        assert_eq!(moved(&[1, 4], usize::MAX), [0, 2, 3, 5, 1, 4]);
        assert_eq!(moved(&[3], 1), [0, 3, 1, 2, 4, 5]);
        assert_eq!(moved(&[0], 3), [1, 2, 3, 0, 4, 5]);
        assert_eq!(moved(&[9, 2, 2], 2), [0, 1, 2, 3, 4, 5]);
        // An order that did not change keeps its file.
        let named = raster.of_file(Path::new("a.csv"));
        assert_eq!(named.with_moved(&[2], 2).file(), Some("a.csv"));
        assert_eq!(named.with_moved(&[2], 3).file(), None);
    }

    #[test]
    fn it_is_told_from_others_by_its_file_or_its_tokens() {
        let (one, other) = (order(&[0, 1, 2]), order(&[2, 1, 0]));
        assert_ne!(one.id(), other.id());
        assert_eq!(one.id().len(), "order-by-hand-".len() + HASH_DIGITS);
        assert!(one.words().starts_with("order by hand "));
        let file = one.of_file(Path::new("x/last rows.npz"));
        assert_eq!((file.words(), file.id()), ("order of last rows.npz".into(), "order-last-rows".into()));
    }
}
