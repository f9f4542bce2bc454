//! Stability of the orders over a dataset: for every image and kind of change the mean of Kendall's tau between the order
//! before and after ([`stability`](crate::model::explain::stability)), and its mean and spread over all images.

use serde::{Deserialize, Serialize};

use crate::model::explain::stability::{OTHER_SEEDS, Stability, null};
use crate::model::stats::mean_and_deviation;

/// Column of an evaluation, and name of the kind of change.
pub const COLUMNS: [(&str, &str); 9] = [
    ("stability_flipped_across", "Flipped horizontally"),
    ("stability_flipped_down", "Flipped vertically"),
    ("stability_cropped_90", "Cropped to 90 %"),
    ("stability_cropped_75", "Cropped to 75 %"),
    ("stability_noise_10", "Noise, 10 levels"),
    ("stability_noise_25", "Noise, 25 levels"),
    ("stability_darker", "Darker"),
    ("stability_brighter", "Brighter"),
    ("stability_seeds", OTHER_SEEDS),
];

/// Mean taus of one image, in the order of [`COLUMNS`]; `None` if there was no such change.
pub type Taus = [Option<f32>; COLUMNS.len()];

/// The mean taus of a measurement.
pub fn taus(stability: &Stability) -> Taus {
    COLUMNS.map(|(_, name)| {
        let group = stability.groups.iter().find(|group| group.name == name)?;
        Some(group.mean() as f32)
    })
}

/// One kind of change over all images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StabilitySummary {
    /// Name of the kind.
    pub name: String,
    /// Mean over images of their mean tau.
    pub mean: f64,
    /// Standard deviation over images; `None` for a single one.
    pub spread: Option<f64>,
    /// Number of images.
    pub images: usize,
    /// 5th and 95th percentile of tau between two random orders of as many tokens.
    pub null: (f64, f64),
}

/// Summary of every kind of change, over images of `tokens` tokens.
pub(super) fn summarize(images: &[Option<Taus>], tokens: usize) -> Vec<StabilitySummary> {
    let summary = |(at, (_, name)): (usize, (&str, &str))| {
        let known = images.iter().flatten().filter_map(|image| image[at]);
        let taus: Vec<f64> = known.map(f64::from).collect();
        if taus.is_empty() {
            return None;
        }
        let (mean, spread) = mean_and_deviation(&taus);
        Some(StabilitySummary { name: name.to_owned(), mean, spread, images: taus.len(), null: null(tokens) })
    };
    COLUMNS.into_iter().enumerate().filter_map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::explain::stability::perturb::kinds;

    #[test]
    fn every_kind_of_change_has_a_column() {
        let kinds = kinds(0);
        let names: Vec<&str> = kinds.iter().map(|(name, _)| name.as_str()).chain([OTHER_SEEDS]).collect();
        assert_eq!(COLUMNS.map(|(_, name)| name).to_vec(), names);
    }

    #[test]
    fn mean_and_spread_are_over_the_images_that_have_one() {
        let image = |tau: Option<f32>| {
            let mut taus = Taus::default();
            taus[6] = tau;
            Some(taus)
        };
        let images = [image(Some(0.5)), image(None), image(Some(0.25))];
        let found = summarize(&images, 16);
        let [darker] = &found[..] else { panic!("{found:?}") };
        assert_eq!((darker.name.as_str(), darker.mean, darker.images), ("Darker", 0.375, 2));
        assert!(darker.spread.is_some_and(|spread| (spread - 0.125 * 2f64.sqrt()).abs() < 1e-12));
        assert_eq!(darker.null, null(16));
    }
}
