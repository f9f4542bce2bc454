//! Builds a run's manifest and its ground truth from the plan, the dataset and the tokens.

use std::path::Path;

use super::{Parts, TrainPlan};
use crate::app::jobs::extract::Plan;
use crate::model::backbone::token_spec::{Layer, TokenSpec};
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenKey;
use crate::model::io::Format;
use crate::model::train::run::{DatasetMeta, Manifest, Truth, Variant};

/// The manifest of the run: what is trained, on which data, and how.
pub(super) fn manifest(
    plan: &TrainPlan,
    dataset: &Dataset,
    tokens: &Plan,
    parts: &Parts,
    unreadable: usize,
    device: &str,
) -> Manifest {
    let settings = &plan.settings;
    let token_spec = settings.tokens.token_spec;
    let canonical = |layer: Layer| tokens.canonical(&TokenSpec { layer: layer.0, ..token_spec });
    let first = settings.layers.first().copied().unwrap_or(Layer(token_spec.layer));
    let heads = plan.heads.iter().map(|variant| Variant {
        layer: variant.layer.map(|layer| Layer(canonical(layer).layer)),
        ..variant.clone()
    });
    let warnings = [parts.selection.warning().map(str::to_owned), settings.config().left_out()];
    let warnings = warnings.into_iter().flatten().collect::<Vec<_>>().join("; ");
    Manifest {
        format: Format,
        program: format!("ssmprobe {}", env!("CARGO_PKG_VERSION")),
        backbone: tokens.backbone.clone(),
        backbone_source: place(&settings.backbone),
        dataset: DatasetMeta {
            name: dataset.name.clone(),
            layout: dataset.layout.to_owned(),
            path: std::path::absolute(plan.data()).unwrap_or_else(|_| plan.data().to_owned()),
            classes: dataset.classes.clone(),
            train: parts.train.images.len(),
            select: parts.select.images.len(),
            test: parts.test.images.len(),
            unreadable,
        },
        // In the canonical form of the settings, so that it is the same in every part of a training cut by heads.
        tokens: TokenKey { layer: canonical(first).name(), ..tokens.source().clone() },
        size: settings.tokens.token_spec.size,
        recompute: settings.recomputes(false),
        cache: std::path::absolute(&tokens.root).ok(),
        grid: tokens.grid,
        heads: heads.collect(),
        config: settings.config(),
        seeds: plan.seeds(),
        selection: parts.selection,
        warning: Some(warnings).filter(|text| !text.is_empty()),
        device: device.to_owned(),
    }
}

/// A folder as its absolute path, so that the run can be resumed from anywhere; an id of the Hub unchanged.
fn place(source: &str) -> String {
    let path = Path::new(source);
    let absolute = path.is_dir().then(|| std::path::absolute(path).ok()).flatten();
    absolute.map_or_else(|| source.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The test images of a run and their classes.
pub(super) fn truth(dataset: &Dataset, parts: &Parts) -> Truth {
    Truth {
        images: parts.test.images.iter().map(|at| dataset.name_of_image(*at)).collect(),
        indices: parts.test.images.clone(),
        classes: parts.test.classes.clone(),
    }
}
