//! The curves of all heads of some runs, which are computed again only when a run progresses or the smoothing changes.

use std::sync::Arc;

use crate::app::jobs::history::{Curve, Measure, TrainHistory, smooth};

/// A curve of every head, of one measure.
pub struct HeadCurves {
    of: Vec<Arc<TrainHistory>>,
    smoothing: f64,
    /// The heads of all runs, in order.
    pub all: Vec<HeadCurve>,
}

pub struct HeadCurve {
    /// The head's name in its run.
    pub head: String,
    /// Its name among all runs.
    pub name: String,
    /// The curve as it is.
    pub raw: Curve,
    pub smooth: Curve,
}

impl HeadCurves {
    pub fn new(runs: &[&Arc<TrainHistory>], measure: Measure, smoothing: f64) -> Self {
        let mut all = Vec::new();
        for run in runs {
            for (at, head) in run.about.heads.iter().enumerate() {
                let raw = run.curve(at, measure);
                let smooth = match smoothing > 0.0 {
                    true => run.curve_of(at, measure, |points| smoothed(&points, smoothing)),
                    false => raw.clone(),
                };
                let name = run.name_among(head, runs.iter().map(|run| &***run));
                all.push(HeadCurve { head: head.clone(), name, raw, smooth });
            }
        }
        Self { of: runs.iter().map(|run| Arc::clone(run)).collect(), smoothing, all }
    }

    /// Whether these are the curves of the runs as they are now.
    pub fn are_of(&self, runs: &[&Arc<TrainHistory>], smoothing: f64) -> bool {
        let same = self.of.iter().zip(runs).all(|(own, run)| Arc::ptr_eq(own, run));
        same && self.of.len() == runs.len() && self.smoothing == smoothing
    }
}

/// Points with smoothed values.
fn smoothed(points: &[(f64, f64)], strength: f64) -> Vec<(f64, f64)> {
    let values: Vec<f64> = points.iter().map(|point| point.1).collect();
    points.iter().map(|point| point.0).zip(smooth(&values, strength)).collect()
}
