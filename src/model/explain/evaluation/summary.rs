//! Summaries of an evaluation: quantiles of a measure by class, confusion counts, rank correlation.

use std::collections::BTreeMap;

use super::{Evaluation, OTHER};
use crate::model::stats::{mean, quantiles, ranks};

/// A measure over the images of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRow {
    /// The class.
    pub class: usize,
    /// Number of images that have a value.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// 5th, 25th, 50th, 75th and 95th percentile.
    pub quantiles: [f64; 5],
}

impl ClassRow {
    /// Summarises the values of a class's images; `None` if no image has any.
    pub fn new(class: usize, values: impl IntoIterator<Item = f32>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).map(f64::from).collect();
        Some(Self {
            class,
            count: values.len(),
            mean: mean(values.iter().copied())?,
            quantiles: quantiles(&values, [0.05, 0.25, 0.5, 0.75, 0.95]),
        })
    }
}

/// Confusion matrix, sparse.
#[derive(Clone, Debug, PartialEq)]
pub struct Confusion {
    /// Number of classes, C.
    pub classes: usize,
    /// Number of images by (true, predicted) class, without zeros: for tens of thousands of classes the dense matrix would
    /// take gigabytes. Predicted class C stands for [`OTHER`].
    pub counts: BTreeMap<(usize, usize), u32>,
}

impl Confusion {
    /// Number of images of `class` predicted as `predicted`.
    pub fn count(&self, class: usize, predicted: usize) -> u32 {
        self.counts.get(&(class, predicted)).copied().unwrap_or(0)
    }
}

impl Evaluation {
    /// Mean and quantiles of a measure over the images of every class that has any, in the order of classes.
    pub fn by_class(&self, measure: &str) -> Vec<ClassRow> {
        let Some(values) = self.values(measure) else { return Vec::new() };
        let mut by_class: Vec<Vec<f32>> = vec![Vec::new(); self.set.classes.len()];
        for (&class, &value) in self.set.class.iter().zip(values) {
            by_class[class as usize].push(value);
        }
        by_class.into_iter().enumerate().filter_map(|(class, values)| ClassRow::new(class, values)).collect()
    }

    /// The confusion matrix of the readable images.
    pub fn confusion(&self) -> Confusion {
        let classes = self.set.classes.len();
        let mut counts = BTreeMap::new();
        for image in (0..self.len()).filter(|image| self.readable(*image)) {
            let predicted =
                if self.predicted[image] == OTHER { classes } else { self.predicted[image] as usize };
            *counts.entry((self.set.class[image] as usize, predicted)).or_insert(0) += 1;
        }
        Confusion { classes, counts }
    }
}

/// Spearman's rank correlation over the images that have both values, ties at their mean rank; `None`
/// for fewer than three images, or if one of the two is constant.
pub fn spearman(x: &[f32], y: &[f32]) -> Option<f64> {
    let known = x.iter().zip(y).filter(|(a, b)| a.is_finite() && b.is_finite());
    let (x, y): (Vec<f64>, Vec<f64>) = known.map(|(a, b)| (f64::from(*a), f64::from(*b))).unzip();
    if x.len() < 3 {
        return None;
    }
    let (a, b) = (ranks(&x), ranks(&y));
    let mean = (x.len() as f64 - 1.0) / 2.0;
    let product =
        |u: &[f64], v: &[f64]| -> f64 { u.iter().zip(v).map(|(p, q)| (p - mean) * (q - mean)).sum() };
    let spread = (product(&a, &a) * product(&b, &b)).sqrt();
    (spread > 0.0).then(|| product(&a, &b) / spread)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use indexmap::IndexMap;

    use super::super::{CONFIDENCE, ClassMaps, EvalSet, OWN, disagreement};
    use super::*;
    use crate::model::explain::null_model::MeanNull;
    use crate::model::grid::Grid;

    fn evaluation(own: [f32; 5]) -> Evaluation {
        let set = EvalSet {
            dataset: "d".into(),
            split: "test".into(),
            classes: vec!["cat".into(), "dog".into()],
            images: (0..5).map(|i| format!("{i}.png")).collect(),
            class: vec![0, 0, 1, 1, 1],
        };
        let columns = [(CONFIDENCE, vec![0.9, 0.8, 0.7, 0.6, f32::NAN]), (OWN, own.into())];
        Evaluation {
            set: Arc::new(set),
            probe: "p".into(),
            head: "gap".into(),
            backbone: "b".into(),
            grid: Grid::new(1, 2),
            predicted: vec![0, 1, 1, OTHER, OTHER],
            measures: IndexMap::from(columns),
            ..Evaluation::default()
        }
    }

    #[test]
    fn what_cannot_be_read_counts_nowhere() {
        let evaluation = evaluation([0.9, 0.2, 0.7, 0.0, f32::NAN]);
        assert_eq!((evaluation.accuracy(), evaluation.mean("rank_coverage")), (50.0, None));
        let own: f64 = [0.9f32, 0.2, 0.7, 0.0].into_iter().map(f64::from).sum();
        assert_eq!(evaluation.mean(OWN), Some(own / 4.0));
        let better = Evaluation { predicted: vec![0, 0, 1, 1, OTHER], ..evaluation.clone() };
        assert_eq!((better.accuracy(), evaluation.accuracy()), (100.0, 50.0), "each by its own columns");
        let confusion = evaluation.confusion();
        assert_eq!(confusion.counts, BTreeMap::from([((0, 0), 1), ((0, 1), 1), ((1, 1), 1), ((1, 2), 1)]));
        assert_eq!((confusion.count(1, 0), confusion.count(1, 2)), (0, 1));
        let rows = evaluation.by_class(CONFIDENCE);
        assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(ClassRow::new(1, [0.7, f32::NAN, 0.6]).as_ref(), rows.get(1));
        assert_eq!(ClassRow::new(1, [f32::NAN]), None);
        assert!((rows[0].quantiles[2] - 0.85).abs() < 1e-6 && (rows[0].mean - 0.85).abs() < 1e-6);
        assert!((rows[0].quantiles[0] - 0.805).abs() < 1e-6 && (rows[0].quantiles[4] - 0.895).abs() < 1e-6);
        assert_eq!(evaluation.predicted_name(3), "another class");
        assert_eq!((evaluation.is_correct(4), evaluation.predicted_name(4)), (None, ""));
    }

    #[test]
    fn probes_disagree_by_what_they_give_the_own_class() {
        let (one, other) =
            (evaluation([0.9, 0.2, 0.7, 0.0, f32::NAN]), evaluation([0.4, 0.2, 0.9, 0.5, 0.5]));
        let all: Vec<f32> = (0..5).map(|image| disagreement(&one, &other, image)).collect();
        assert!((all[0] - 0.5).abs() < 1e-6 && all[1] == 0.0 && (all[3] - 0.5).abs() < 1e-6);
        assert!(all[4].is_nan());
    }

    #[test]
    fn ranks_correlate_whatever_the_scale() {
        let x = [1.0, 2.0, 3.0, f32::NAN, 10.0];
        assert_eq!(spearman(&x, &[0.1, 0.2, 0.4, 0.0, 9.0]), Some(1.0));
        assert_eq!(spearman(&x, &[4.0, 3.0, 2.0, 7.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[0.1, 0.2, 0.4, 0.0, 9.0], &x), Some(1.0));
        assert_eq!(spearman(&x, &[2.0; 5]), None);
        assert_eq!(spearman(&x[..2], &x[..2]), None, "of two there is always a line");
        // Ranks 0 1 2 3 against 0.5 0.5 2.5 2.5: 4 / sqrt(5 * 4).
        let tied = spearman(&[1.0, 2.0, 3.0, 4.0], &[1.0, 1.0, 2.0, 2.0]).unwrap();
        assert!((tied - 4.0 / 20f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn maps_of_classes_are_weighted_by_their_images() {
        let maps = ClassMaps { values: vec![1.0, 0.0, 4.0, 3.0, f32::NAN, f32::NAN], counts: vec![1, 2, 0] };
        assert_eq!(maps.of_class(1), [4.0, 3.0]);
        assert_eq!(maps.all(), (vec![3.0, 2.0], 3));
    }

    #[test]
    fn a_band_of_few_images_ends_where_the_measure_does() {
        let null = MeanNull { mean: 0.9, reach: 1.5, draws: 64 };
        let mean_nulls =
            IndexMap::from(["rank_coverage", "path_length", "kendall_tau"].map(|name| (name, null)));
        let evaluation = Evaluation { mean_nulls, ..evaluation([0.5; 5]) };
        let (low, high) = null.band(1);
        assert!(low < 0.0 && high > 1.0, "{low} {high}");
        assert_eq!(evaluation.mean_null("rank_coverage", 1), Some((0.0, 1.0)));
        assert_eq!(evaluation.mean_null("path_length", 1), Some((0.0, high)));
        assert_eq!(evaluation.mean_null("kendall_tau", 1), Some((low, 1.0)));
        assert_eq!(evaluation.mean_null("rank_coverage", 1000), Some((null.band(1000).0, 1.0)));
        assert_eq!(evaluation.mean_null(CONFIDENCE, 1), None);
    }
}
