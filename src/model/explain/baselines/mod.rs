//! Anchors: what the frozen tokens say with no head to train by steps. Nearest neighbours and logistic
//! regression on the CLS token and on the mean of the patch tokens, so that a table of heads has a
//! floor that no learning rate can be blamed for.

pub mod knn;
mod lbfgs;
pub mod logreg;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::knn::Knn;
use self::logreg::LogReg;
use crate::model::data::token_cache::TokenCache;
use crate::model::train::{Labelled, accuracy};

/// Which vector stands for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// The CLS token.
    Cls,
    /// The mean of the patch tokens.
    Mean,
}

impl View {
    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cls => "CLS",
            Self::Mean => "mean tokens",
        }
    }
}

/// What is learned from the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Nearest neighbours.
    Knn,
    /// Logistic regression.
    LogReg,
}

impl Method {
    /// What it is called in files and lists.
    pub fn id(self) -> &'static str {
        match self {
            Self::Knn => "knn",
            Self::LogReg => "logreg",
        }
    }

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Knn => "kNN",
            Self::LogReg => "Logistic regression",
        }
    }
}

/// One vector an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// Length of a vector, d.
    pub width: usize,
    /// `[n, d]` row-major.
    pub values: Vec<f32>,
}

impl Vectors {
    /// Those of `images`; `None` where the backbone has no CLS token.
    pub fn from_tokens(tokens: &TokenCache, images: &[usize], view: View) -> Option<Self> {
        let width = tokens.width();
        let values = match view {
            View::Cls => tokens.cls(images)?,
            View::Mean => {
                let n = tokens.grid().len();
                let mean = |&image: &usize| {
                    let mut sum = vec![0.0_f64; width];
                    for token in tokens.patches(&[image]).chunks_exact(width) {
                        sum.iter_mut().zip(token).for_each(|(s, &x)| *s += f64::from(x));
                    }
                    sum.into_iter().map(|s| (s / n as f64) as f32).collect::<Vec<_>>()
                };
                images.par_iter().flat_map_iter(mean).collect()
            }
        };
        Some(Self { width, values })
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// One anchor's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// What was learned.
    pub method: Method,
    /// What stands for an image.
    pub view: View,
    /// Its settings, as a person reads them.
    pub settings: String,
    /// Top-1 accuracy in percent; absent where it was left out.
    pub accuracy: Option<f64>,
    /// What a reader should know: left out and why, or not converged.
    pub note: Option<String>,
}

/// Every anchor: learned from `train`, asked on `test`.
pub fn anchors(tokens: &TokenCache, train: &Labelled, test: &Labelled, classes: usize) -> Vec<Anchor> {
    let mut found = Vec::new();
    for view in [View::Cls, View::Mean] {
        let of = |set: &Labelled| Vectors::from_tokens(tokens, &set.images, view);
        let (Some(known), Some(asked)) = (of(train), of(test)) else { continue };
        let knn = Knn::default();
        found.push(Anchor {
            method: Method::Knn,
            view,
            settings: format!("cosine, k {}, weights exp(similarity / {})", knn.k, knn.temperature),
            accuracy: Some(accuracy(&knn.predict(&known, &train.classes, &asked, classes), &test.classes)),
            note: None,
        });
        let method = LogReg::default();
        let settings = format!("standardised channels, L2 with C {}", method.c);
        let mut anchor = Anchor { method: Method::LogReg, view, settings, accuracy: None, note: None };
        match method.fit(&known, &train.classes, classes) {
            Err(error) => anchor.note = Some(format!("left out: {error}")),
            Ok(fitted) => {
                anchor.accuracy = Some(accuracy(&fitted.predict(&asked), &test.classes));
                if !fitted.converged {
                    anchor.note = Some(format!("not converged after {} iterations", fitted.iterations));
                }
            }
        }
        found.push(anchor);
    }
    found
}
