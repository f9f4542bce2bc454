//! Means of the maps of images by class.

use super::ClassMaps;

/// Sums of maps by class, and their number.
pub(super) struct ClassSums {
    /// `[C, N]`.
    sums: Vec<f64>,
    counts: Vec<u32>,
}

impl ClassSums {
    pub(super) fn new(classes: usize, n: usize) -> Self {
        Self { sums: vec![0.0; classes * n], counts: vec![0; classes] }
    }

    pub(super) fn add(&mut self, class: usize, map: Option<&[f64]>) {
        let Some(map) = map else { return };
        self.counts[class] += 1;
        self.sums[class * map.len()..].iter_mut().zip(map).for_each(|(sum, v)| *sum += v);
    }

    /// The mean map of every class; `None` if there was no map at all.
    pub(super) fn mean(self) -> Option<ClassMaps> {
        let n = self.sums.len() / self.counts.len().max(1);
        let count = |at: usize| f64::from(self.counts[at / n.max(1)]);
        // 0 / 0 is NaN for a class without images.
        let values = self.sums.iter().enumerate().map(|(at, sum)| (sum / count(at)) as f32).collect();
        self.counts.iter().any(|count| *count > 0).then_some(ClassMaps { values, counts: self.counts })
    }
}
