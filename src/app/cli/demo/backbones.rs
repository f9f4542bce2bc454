//! Pre-training the demo's backbones.

use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::Device;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};

use super::build::whole;
use crate::model::array::{Array, Arrays};
use crate::model::backbone::config::Config;
use crate::model::backbone::keys;
use crate::model::backbone::weights::Weights;
use crate::model::pretrain::folder::{Precision, save};
use crate::model::pretrain::{Plan, pretrain};

/// Steps behind one point of the curve.
const STRIDE: usize = 20;
/// How a pre-training went, in the backbone's folder.
const FILE: &str = "pretraining.json";

/// Weights a pre-training starts from.
#[derive(Default)]
pub struct Start {
    weights: Arrays,
    fingerprint: Option<String>,
}

/// What was asked for, and the curve that came.
#[derive(Serialize, Deserialize)]
struct Record {
    plan: Plan,
    /// SHA-256 of the weights it started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    curve: Vec<Point>,
}

/// Means over the last steps.
#[derive(Serialize, Deserialize)]
struct Point {
    step: usize,
    loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
}

/// Pre-trains a backbone from `start` on, unless `folder` holds it already; its weights as they are
/// in its file.
pub fn make(
    folder: &Path,
    plan: &Plan,
    start: &Start,
    device: &Device,
    bars: &MultiProgress,
) -> anyhow::Result<Start> {
    if !is_there(folder, plan, start) {
        one(folder, plan, start, device, bars)?;
    }
    open(folder)
}

/// The weights in a folder.
fn open(folder: &Path) -> anyhow::Result<Start> {
    let weights = Weights::open(folder)?;
    let expected = keys::expected(&Config::open(folder)?, "");
    let arrays = expected.into_iter().map(|(name, shape)| {
        let values = weights.tensor(&name)?.try_to_vec::<f32>();
        let values = values.map_err(|error| anyhow::anyhow!("{name}: {error:?}"))?;
        Ok((name, Array::new(shape, values)))
    });
    let fingerprint = Some(weights.fingerprint().to_owned());
    Ok(Start { weights: arrays.collect::<anyhow::Result<Arrays>>()?, fingerprint })
}

/// Whether a folder holds what `plan` makes of `start`.
fn is_there(folder: &Path, plan: &Plan, start: &Start) -> bool {
    let record = std::fs::read(folder.join(FILE)).ok();
    let record: Option<Record> = record.and_then(|text| serde_json::from_slice(&text).ok());
    record.is_some_and(|record| record.plan == *plan && record.from == start.fingerprint)
        && folder.join("model.safetensors").is_file()
}

fn one(
    folder: &Path,
    plan: &Plan,
    start: &Start,
    device: &Device,
    bars: &MultiProgress,
) -> anyhow::Result<()> {
    let bar = bars.add(ProgressBar::new(plan.steps as u64));
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} steps, {msg} {eta} left");
    bar.set_style(style.expect("a valid template"));
    bar.set_prefix(folder.display().to_string());
    let (mut curve, mut losses, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let mean = |values: &mut Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.clear();
        mean
    };
    let weights = pretrain(plan, &start.weights, device, &mut |progress| {
        losses.push(f64::from(progress.loss));
        shares.extend(progress.accuracy.map(f64::from));
        if progress.step % STRIDE == 0 || progress.step == plan.steps {
            let accuracy = (!shares.is_empty()).then(|| mean(&mut shares));
            let point = Point { step: progress.step, loss: mean(&mut losses), accuracy };
            let right = point.accuracy.map(|share| format!(" {:.0} % right,", 100.0 * share));
            bar.set_message(format!("loss {:.4},{}", point.loss, right.unwrap_or_default()));
            if bar.is_hidden() {
                eprintln!("{}: step {} of {}: {}", bar.prefix(), point.step, plan.steps, bar.message());
            }
            curve.push(point);
        }
        bar.set_position(progress.step as u64);
        ControlFlow::Continue(())
    });
    bar.finish();
    save(folder, plan, &weights, Precision::Half)?;
    let record =
        serde_json::to_string_pretty(&Record { plan: *plan, from: start.fingerprint.clone(), curve })? + "\n";
    whole(&folder.join(FILE), record.as_bytes())
}
