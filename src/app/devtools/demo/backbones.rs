//! Pre-training the demo's backbones.

use std::ops::ControlFlow;
use std::path::Path;

use burn::tensor::Device;
use indicatif::MultiProgress;
use serde::{Deserialize, Serialize};

use super::heads::bar;
use crate::app::paths;
use crate::app::terminal::stdout::say;
use crate::model::data::scenes;
use crate::model::data::token_cache::Precision;
use crate::model::io::atomic_file;
use crate::model::pretrain::folder::save;
use crate::model::pretrain::{Plan, pretrain};

/// Optimiser steps that one point of the curve averages over.
const STRIDE: usize = 20;
/// Record of the pre-training, in the backbone's folder.
const FILE: &str = "pretraining.json";

#[derive(Serialize, Deserialize)]
struct Record {
    plan: Plan,
    scenes_version: u32,
    curve: Vec<Point>,
}

#[derive(Serialize, Deserialize)]
struct Point {
    step: usize,
    loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
}

/// Pre-trains a backbone, unless `folder` holds it already.
pub fn make(folder: &Path, plan: &Plan, device: &Device, bars: &MultiProgress) -> anyhow::Result<()> {
    if is_there(folder, plan) {
        return Ok(());
    }
    let template = "{prefix} {wide_bar} {pos}/{len} steps, {msg} {eta} left";
    let bar = bar(bars, plan.steps, template, &folder.display().to_string());
    let (mut curve, mut losses, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let mean = |values: &mut Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.clear();
        mean
    };
    let weights = pretrain(plan, device, &mut |progress| {
        losses.push(f64::from(progress.loss));
        shares.extend(progress.accuracy.map(f64::from));
        if progress.step % STRIDE == 0 || progress.step == plan.steps {
            let accuracy = (!shares.is_empty()).then(|| mean(&mut shares));
            let point = Point { step: progress.step, loss: mean(&mut losses), accuracy };
            let right = point.accuracy.map(|share| format!(" accuracy {:.0} %,", 100.0 * share));
            bar.set_message(format!("loss {:.4},{}", point.loss, right.unwrap_or_default()));
            if bar.is_hidden() {
                say!("{}: step {} of {}: {}", bar.prefix(), point.step, plan.steps, bar.message());
            }
            curve.push(point);
        }
        bar.set_position(progress.step as u64);
        ControlFlow::Continue(())
    });
    bar.finish();
    save(folder, plan, &weights, Precision::Float16)?;
    let record =
        serde_json::to_string_pretty(&Record { plan: *plan, scenes_version: scenes::VERSION, curve })? + "\n";
    paths::write(&folder.join(FILE), record.as_bytes())
}

/// Whether `folder` holds a backbone that the same plan made from the same version of the scenes.
fn is_there(folder: &Path, plan: &Plan) -> bool {
    let record = atomic_file::read(&folder.join(FILE), 1 << 20).ok();
    let record: Option<Record> = record.and_then(|text| serde_json::from_slice(&text).ok());
    record.is_some_and(|record| record.plan == *plan && record.scenes_version == scenes::VERSION)
        && folder.join("model.safetensors").is_file()
}
