//! Baselines: accuracies of the frozen tokens without a head trained by gradient steps. Nearest
//! neighbours and logistic regression on the CLS token and on the mean of the patch tokens give a table of
//! heads a floor that does not depend on a learning rate.

pub mod knn;
mod lbfgs;
pub mod logreg;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::logreg::LogReg;
use crate::model::data::token_cache::TokenCache;
use crate::model::train::{Labelled, accuracy};

listed! {
    /// Which vector represents an image.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum View {
        /// The CLS token.
        Cls: "CLS";
        /// The mean of the patch tokens.
        Mean: "mean tokens";
    }
}

listed! {
    /// The classifier fitted to the vectors.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Method {
        /// Nearest neighbours.
        Knn: "knn", "kNN";
        /// Logistic regression.
        LogReg: "logreg", "Logistic regression";
    }
}

/// One vector per image.
#[derive(Clone, Debug, PartialEq)]
pub struct Vectors {
    /// Length of a vector, d.
    pub width: usize,
    /// `[n, d]` row-major.
    pub values: Vec<f32>,
}

impl Vectors {
    /// Number of vectors.
    pub fn count(&self) -> usize {
        self.values.len() / self.width.max(1)
    }
}

/// The values of the vectors of `images` (indices in the cache); `None` for CLS if the backbone has no CLS token.
fn values(tokens: &TokenCache, images: &[usize], view: View) -> Option<Vec<f32>> {
    let mean = |&image: &usize| {
        let mut sum = vec![0.0_f64; tokens.width()];
        for token in tokens.patches(&[image]).chunks_exact(tokens.width()) {
            sum.iter_mut().zip(token).for_each(|(s, &x)| *s += f64::from(x));
        }
        sum.into_iter().map(|s| (s / tokens.grid().len() as f64) as f32).collect::<Vec<_>>()
    };
    match view {
        View::Cls => tokens.cls(images),
        View::Mean => Some(images.par_iter().flat_map_iter(mean).collect()),
    }
}

/// Result of one baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The classifier.
    pub method: Method,
    /// The vector of an image.
    pub view: View,
    /// The layer of its tokens, as token caches name it; absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// SHA-256 of the digests of the test images' files, as of an evaluated probe. Absent if one is not known, and in files of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_files: Option<String>,
    /// Settings of the method, in words.
    pub settings: String,
    /// Top-1 accuracy in percent; absent if the baseline was left out.
    pub accuracy: Option<f64>,
    /// Why it was left out, or that it did not converge.
    pub note: Option<String>,
}

/// Images read or classified between two reports of progress: enough for all cores of a large machine.
const IMAGES_PER_REPORT: usize = 8192;

/// Every baseline, fitted on `train` and tested on `test`. `progress` gets what is being done, and for how many of how many
/// images or steps.
///
/// # Errors
/// Those of `progress`, which end it.
pub fn baselines<E>(
    tokens: &TokenCache,
    (train, test): (&Labelled, &Labelled),
    classes: usize,
    progress: &mut dyn FnMut(&str, usize, usize) -> Result<(), E>,
) -> Result<Vec<Baseline>, E> {
    let mut found = Vec::new();
    let layer = Some(tokens.layer().to_owned());
    for view in [View::Cls, View::Mean] {
        let mut of = |set: &Labelled| -> Result<Option<Vectors>, E> {
            let all = set.images.len();
            let mut vectors =
                Vectors { width: tokens.width(), values: Vec::with_capacity(all * tokens.width()) };
            for (at, some) in set.images.chunks(IMAGES_PER_REPORT).enumerate() {
                progress(&format!("Reading {}", view.name()), at * IMAGES_PER_REPORT, all)?;
                let Some(read) = values(tokens, some, view) else { return Ok(None) };
                vectors.values.extend(read);
            }
            Ok(Some(vectors))
        };
        let (Some(train_vectors), Some(test_vectors)) = (of(train)?, of(test)?) else { continue };
        let method = LogReg::default();
        let mut steps = 0..;
        let mut watch = || {
            let step = steps.next().unwrap_or(0).min(method.iterations);
            progress("Fitting logistic regression, steps at most", step, method.iterations)
        };
        let settings = format!("standardised channels, L2 with C {}", method.c);
        let mut regression = Baseline {
            method: Method::LogReg,
            view,
            layer: layer.clone(),
            image_files: None,
            settings,
            accuracy: None,
            note: None,
        };
        match method.fit(&train_vectors, &train.classes, classes, &mut watch)? {
            Err(error) => regression.note = Some(format!("left out: {error}")),
            Ok(fitted) => {
                regression.accuracy = Some(accuracy(&fitted.predict(&test_vectors), &test.classes));
                regression.note = fitted.note();
            }
        }
        // Last, as it takes the training vectors, which may fill much of the memory.
        let neighbours = knn::Neighbours::new(train_vectors, &train.classes, classes);
        let mut predicted = Vec::with_capacity(test_vectors.count());
        for some in test_vectors.values.chunks(IMAGES_PER_REPORT * test_vectors.width.max(1)) {
            progress("Searching nearest neighbours", predicted.len(), test_vectors.count())?;
            let some = Vectors { width: test_vectors.width, values: some.to_vec() };
            predicted.extend(neighbours.predict(some));
        }
        let nearest = Baseline {
            method: Method::Knn,
            view,
            layer: layer.clone(),
            image_files: None,
            settings: format!("cosine, k {}, weights exp(similarity / {})", knn::K, knn::TEMPERATURE),
            accuracy: Some(accuracy(&predicted, &test.classes)),
            note: None,
        };
        found.extend([nearest, regression]);
    }
    Ok(found)
}
