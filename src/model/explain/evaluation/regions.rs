//! Region measures over a dataset: means over the images that contain a region, and which region is read before which
//! (docs/definitions.md, section 15).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::explain::regions::{RegionMeasure, RegionMeasures};
use crate::model::stats::{CrossedMean, mean};

/// Measures of all regions over the images.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionSummary {
    /// Number of images with known regions.
    pub images: usize,
    /// By region, in the order of their numbers, then of their names.
    pub regions: Vec<RegionMeans>,
    /// `[R, R]`: precedence of the row's region over the column's, the mean over the images that contain both; absent if none
    /// does. Empty for a probe that ignores the order.
    pub precedence: Vec<Vec<Option<f64>>>,
    /// `[R, R]`: the number of those images.
    pub pairs: Vec<Vec<usize>>,
}

/// Means of one region over the images that contain it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegionMeans {
    /// Name.
    pub name: String,
    /// Number of images in which it has a token.
    pub images: usize,
    /// Mean number of its tokens in these.
    pub tokens: f64,
    /// Mean expected position in every image, from 0 (first) to 1 (last); absent if the image does not contain it, or there is
    /// no order.
    pub positions: Vec<Option<f32>>,
    /// Mean weight of its tokens, times N.
    pub weight: Option<f64>,
    /// Sum of the evidence of its tokens for the image's own class.
    pub evidence: Option<f64>,
    /// Mean evidence of its tokens.
    pub mean_evidence: Option<f64>,
    /// ROC AUC of the absolute token weights.
    pub weight_auc: Option<f64>,
    /// ROC AUC of the signed evidence.
    pub evidence_auc: Option<f64>,
}

impl RegionSummary {
    /// Summary of all images; `None` for an image without known regions. A region that has a token in no image is left out, such as
    /// the object of an empty mask among masks of parts. Returns `None` if there is no region.
    pub fn new(images: &[Option<&RegionMeasures>]) -> Option<Self> {
        let known = || images.iter().copied().flatten();
        let mut all: BTreeMap<(u32, &str), usize> = BTreeMap::new();
        for region in known().flat_map(|image| &image.regions).filter(|region| region.tokens > 0) {
            all.insert((region.number, &region.name), 0);
        }
        all.values_mut().enumerate().for_each(|(at, index)| *index = at);
        let indices: Vec<Vec<(usize, usize)>> = images.iter().map(|image| present(*image, &all)).collect();
        let regions = all.iter().map(|((_, name), region)| means(name, *region, images, &indices)).collect();
        let count = all.len();
        let has_order = known().any(|image| !image.precedence.is_empty());
        let size = if has_order { count } else { 0 };
        let (mut sums, mut pairs) = (vec![vec![0.0; size]; size], vec![vec![0; size]; size]);
        for (image, present) in images.iter().zip(&indices) {
            let Some(image) = image else { continue };
            for &(a, own_a) in present {
                for &(b, own_b) in present {
                    if let Some(before) = image.before(own_a, own_b) {
                        sums[a][b] += before;
                        pairs[a][b] += 1;
                    }
                }
            }
        }
        let share = |(sum, count): (&f64, &usize)| (*count > 0).then(|| sum / *count as f64);
        let row = |(sums, counts): (&Vec<f64>, &Vec<usize>)| sums.iter().zip(counts).map(share).collect();
        let precedence = sums.iter().zip(&pairs).map(row).collect();
        (count > 0).then(|| Self { images: known().count(), regions, precedence, pairs })
    }

    /// Whether the parts are consistent for this number of images.
    pub(super) fn holds(&self, images: usize) -> bool {
        let count = self.regions.len();
        let rows: Vec<usize> = self.precedence.iter().map(Vec::len).collect();
        self.regions.iter().all(|region| region.positions.len() == images)
            && self.pairs.iter().map(Vec::len).eq(rows.iter().copied())
            && (rows.is_empty() || rows == vec![count; count])
    }
}

/// The regions with a token in an image: index among all regions, and index in the image.
fn present(image: Option<&RegionMeasures>, all: &BTreeMap<(u32, &str), usize>) -> Vec<(usize, usize)> {
    let own = image.iter().flat_map(|image| image.regions.iter().enumerate());
    own.filter(|(_, region)| region.tokens > 0)
        .map(|(at, region)| (all[&(region.number, region.name.as_str())], at))
        .collect()
}

fn means(
    name: &str,
    region: usize,
    images: &[Option<&RegionMeasures>],
    indices: &[Vec<(usize, usize)>],
) -> RegionMeans {
    let of = |at: usize| {
        let (_, own) = *indices[at].iter().find(|(index, _)| *index == region)?;
        Some(&images[at]?.regions[own])
    };
    let found: Vec<Option<&RegionMeasure>> = (0..images.len()).map(of).collect();
    let number = |of: fn(&RegionMeasure) -> Option<f64>| mean(found.iter().copied().flatten().filter_map(of));
    RegionMeans {
        name: name.to_owned(),
        images: found.iter().flatten().count(),
        tokens: number(|region| Some(region.tokens as f64)).unwrap_or(0.0),
        positions: found.iter().map(|region| Some((*region)?.position? as f32)).collect(),
        weight: number(|region| region.weight),
        evidence: number(|region| region.evidence),
        mean_evidence: number(|region| region.mean_evidence),
        weight_auc: number(|region| region.weight_auc),
        evidence_auc: number(|region| region.evidence_auc),
    }
}

/// Mean position of a region over images and trainings, and its 95 % confidence interval over both, within 0 and 1. `None` if the region has
/// no position, or the trainings have it in different numbers of images.
pub fn position(trainings: &[&RegionMeans]) -> Option<(f64, (f64, f64))> {
    let row = |means: &&RegionMeans| -> Vec<f64> {
        means.positions.iter().flatten().map(|&at| f64::from(at)).collect()
    };
    let rows: Vec<Vec<f64>> = trainings.iter().map(row).collect();
    let images = rows.first().map_or(0, Vec::len);
    if images == 0 || rows.iter().any(|row| row.len() != images) {
        return None;
    }
    let mean = CrossedMean::new(&rows, 0.0);
    // A single image gives no estimate of the spread over images.
    let interval = if images > 1 { mean.interval_within(0.0..=1.0) } else { (f64::NAN, f64::NAN) };
    Some((mean.mean, interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(regions: &[(u32, &str, usize, f64)], precedence: &[f64]) -> RegionMeasures {
        let one = |&(number, name, tokens, at): &(u32, &str, usize, f64)| RegionMeasure {
            number,
            name: name.to_owned(),
            tokens,
            position: (tokens > 0).then_some(at),
            weight: (tokens > 0).then_some(2.0 * at),
            ..RegionMeasure::default()
        };
        RegionMeasures {
            regions: regions.iter().map(one).collect(),
            precedence: precedence.to_vec(),
            ..RegionMeasures::default()
        }
    }

    #[test]
    fn means_are_over_the_images_in_which_a_region_is() {
        let none = f64::NAN;
        // The tail is not marked in one, and has no token in another; regions come in another order in each.
        let all = [
            image(&[(5, "tail", 1, 0.25), (2, "beak", 2, 0.75)], &[0.0, 1.0, 0.0, 0.5]),
            image(&[(2, "beak", 1, 0.25)], &[0.0]),
            image(&[(2, "beak", 4, 0.5), (5, "tail", 0, 0.0)], &[0.25, none, none, none]),
        ];
        let known: Vec<Option<&RegionMeasures>> = vec![Some(&all[0]), None, Some(&all[1]), Some(&all[2])];
        let found = RegionSummary::new(&known).expect("regions");
        assert_eq!(found.images, 3);
        let names: Vec<_> = found.regions.iter().map(|r| (r.name.as_str(), r.images, r.tokens)).collect();
        assert_eq!(names, [("beak", 3, 7.0 / 3.0), ("tail", 1, 1.0)]);
        assert_eq!(found.regions[0].positions, [Some(0.75), None, Some(0.25), Some(0.5)]);
        assert_eq!((found.regions[0].weight, found.regions[1].weight), (Some(1.0), Some(0.5)));
        assert_eq!(found.precedence, [[Some(0.25), Some(0.0)], [Some(1.0), Some(0.0)]]);
        assert_eq!(found.pairs, [[3, 1], [1, 1]]);
        let (mean, (low, high)) = position(&[&found.regions[0]]).expect("positions");
        // Student's t of two degrees of freedom: 4.302653 standard errors, here beyond both ends.
        assert_eq!((mean, low, high), (0.5, 0.0, 1.0));
        let near = RegionMeans {
            positions: vec![Some(0.375), None, Some(0.5), Some(0.625)],
            ..RegionMeans::default()
        };
        let (mean, (low, high)) = position(&[&near]).expect("positions");
        assert!((mean - 0.5).abs() < 1e-12 && (mean - low - (high - mean)).abs() < 1e-9);
        assert!((high - mean - 4.302_652_7 * 0.125 / 3f64.sqrt()).abs() < 1e-5, "{high}");
        assert!(found.holds(4) && !found.holds(3));
        let mut torn = found.clone();
        torn.pairs[1].pop();
        assert!(!torn.holds(4), "a share without its number of images");
        assert_eq!(RegionSummary::new(&[None, None]), None);
        let empty = image(&[(0, "object", 0, 0.0)], &[none]);
        let found = RegionSummary::new(&[Some(&all[0]), Some(&empty)]).expect("regions");
        let names: Vec<_> = found.regions.iter().map(|r| (r.name.as_str(), r.positions.len())).collect();
        assert_eq!(names, [("beak", 2), ("tail", 2)]);
        assert_eq!(RegionSummary::new(&[Some(&empty)]), None);
    }
}
