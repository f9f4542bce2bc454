//! The curves of all heads of some runs, which are computed only when a run goes on or the smoothing changes.

use std::sync::Arc;

use super::readout::Named;
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
    pub smooth: Curve,
    /// The curve as it is, under its name among all runs.
    pub named: Named,
}

impl HeadCurves {
    pub fn new(runs: &[&Arc<TrainHistory>], measure: Measure, smoothing: f64) -> Self {
        let mut all = Vec::new();
        for run in runs {
            for (at, head) in run.about.heads.iter().enumerate() {
                let curve = run.curve(at, measure);
                let smooth = match smoothing > 0.0 {
                    true => run.curve_of(at, measure, |points| smoothed(&points, smoothing)),
                    false => curve.clone(),
                };
                let named = Named { name: run.name_among(head, runs.iter().map(|run| &***run)), curve };
                all.push(HeadCurve { head: head.clone(), smooth, named });
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
