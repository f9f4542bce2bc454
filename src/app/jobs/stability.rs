//! How stable one image's order is: forward passes of perturbed pictures, the order of each, and the orders of probes that differ only in
//! their seed.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::evaluate::EvalProbe;
use super::{ImageId, JobError, Reporter, Unit};
use crate::app::jobs::user_error::UserError;
use crate::model::backbone::preprocess::{Pixels, Preprocessor};
use crate::model::data::ImageSource;
use crate::model::explain::stability::perturb::{Perturbation, kinds};
use crate::model::explain::stability::{Measurement, Stability};
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// Pictures of one forward pass.
pub(super) const BATCH: usize = 8;

/// A request to measure the stability of one image's order through one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StabilityRequest {
    /// The probe.
    pub subject: EvalProbe,
    /// The image's id in the library.
    pub image: ImageId,
    /// Its file.
    #[serde(rename = "place")] // its first name, which other versions send
    pub source: ImageSource,
    /// Seed of crops and noise.
    pub seed: u64,
    /// Seed of random orders, as in [`ExplainItem::image_seed`](super::ExplainItem::image_seed).
    #[serde(rename = "draw")] // its first name, which other versions send
    pub image_seed: u64,
}

/// The answer to a [`StabilityRequest`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StabilityAnswer {
    /// The probe.
    pub subject: EvalProbe,
    /// The image.
    pub image: ImageId,
    /// The stability, or why it could not be measured.
    pub result: Result<Arc<Stability>, UserError>,
}

/// Measures the stability of one image's order.
pub fn run(
    engine: &mut Engine,
    spec: &StabilityRequest,
    reporter: &mut dyn Reporter,
) -> Result<StabilityAnswer, JobError> {
    let result = JobError::answer(measure(engine, spec, reporter))?;
    Ok(StabilityAnswer { subject: spec.subject.clone(), image: spec.image, result })
}

fn measure(
    engine: &mut Engine,
    spec: &StabilityRequest,
    reporter: &mut dyn Reporter,
) -> Result<Stability, JobError> {
    let EvalProbe { probe, backbone, change } = spec.subject.clone();
    // A copy: the probe may be closed meanwhile.
    let loaded = engine.probe(probe)?.clone();
    engine.reopen(backbone, reporter)?;
    let open = engine.backbone(backbone)?;
    if let Some(why) = open.reader.backbone.why_no_subset() {
        return Err(UserError::new(why).remedy("Choose the order of patches `row by row`").into());
    }
    let (key, preprocessor) = (open.key.clone(), open.reader.preprocessor.clone());
    let photo = engine.env.decode(&spec.source)?;
    let seen = preprocessor.picture(&photo)?;
    let kinds = kinds(spec.seed);
    let mut pixels = vec![preprocessor.pixels(&seen)];
    pixels.extend(changed(&preprocessor, &seen, &kinds));
    let mut tokens: Vec<Tokens> = Vec::with_capacity(pixels.len());
    for batch in pixels.chunks(BATCH) {
        let total = Some(pixels.len() as u64);
        reporter.progress("Reading changed images", tokens.len() as u64, total, Unit::Items);
        reporter.pause(engine)?;
        tokens.extend(engine.same_reader(backbone, &key)?.forward(batch)?);
    }
    // Open probes that differ in their seed alone, by their names.
    let peers = engine.probes.values().map(|peer| (peer.name(), &peer.probe)).collect();
    let (image, name) = (spec.source.short(), loaded.name());
    let tokens_changed = engine.backbone(backbone)?.reader.changes(&loaded.probe);
    let reading = Reading { change, tokens: tokens_changed, ..Reading::default() };
    let measurement =
        Measurement { image, name, probe: &loaded.probe, reading, image_seed: spec.image_seed, peers };
    Ok(measurement.take(&tokens, &kinds)?)
}

/// The warning that the probes of these names have no stability, if there are any.
pub(super) fn left_out(names: impl IntoIterator<Item = String>) -> Option<String> {
    let names = Vec::from_iter(names);
    let why = "no single order to measure (a head may read in none, or in several directions)";
    (!names.is_empty()).then(|| format!("--stability leaves out {}: {why}", names.join(", ")))
}

/// Pixels of the perturbed copies of an image as the backbone saw it.
pub fn changed(
    preprocessor: &Preprocessor,
    seen: &Picture,
    kinds: &[(String, Vec<Perturbation>)],
) -> Vec<Pixels> {
    let changes: Vec<Perturbation> = kinds.iter().flat_map(|(_, changes)| changes.iter().copied()).collect();
    changes.par_iter().map(|change| preprocessor.pixels(&change.picture(seen))).collect()
}
