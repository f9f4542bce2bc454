//! What a run's folder says of the training: from the order and what was found.

use std::path::Path;

use super::{Parts, TrainPlan};
use crate::app::jobs::extract::Plan;
use crate::model::data::Dataset;
use crate::model::train::run::{DatasetMeta, FORMAT, Manifest, Truth};

/// What is trained on what, and how.
pub(super) fn manifest(
    order: &TrainPlan,
    dataset: &Dataset,
    plan: &Plan,
    parts: &Parts,
    unreadable: usize,
    device: &str,
) -> Manifest {
    Manifest {
        format: FORMAT,
        program: format!("ssmprobe {}", env!("CARGO_PKG_VERSION")),
        backbone: plan.backbone.clone(),
        backbone_source: place(&order.backbone_source),
        dataset: DatasetMeta {
            name: dataset.name.clone(),
            layout: dataset.layout.to_owned(),
            path: std::path::absolute(&order.data).unwrap_or_else(|_| order.data.clone()),
            classes: dataset.classes.clone(),
            train: parts.train.images.len(),
            select: parts.select.images.len(),
            test: parts.test.images.len(),
            unreadable,
        },
        tokens: plan.source.clone(),
        size: order.tokens.taking.size,
        recompute: order.recompute,
        cache: std::path::absolute(&order.tokens.root).ok(),
        grid: plan.grid,
        heads: order.heads.clone(),
        protocol: order.protocol.clone(),
        seeds: order.seeds.clone(),
        selection: parts.selection,
        warning: parts.selection.warning().map(str::to_owned),
        device: device.to_owned(),
    }
}

/// A folder by its whole path, so that the run goes on from wherever; an id of the Hub as it is.
fn place(source: &str) -> String {
    let path = Path::new(source);
    let absolute = path.is_dir().then(|| std::path::absolute(path).ok()).flatten();
    absolute.map_or_else(|| source.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The images a run is reported on.
pub(super) fn truth(dataset: &Dataset, parts: &Parts) -> Truth {
    Truth {
        images: parts.test.images.iter().map(|at| dataset.name_of_image(*at)).collect(),
        indices: parts.test.images.clone(),
        classes: parts.test.classes.clone(),
    }
}
