//! Explaining images through probes: tokens that are not cached by one forward pass per batch, then every item in parallel.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::engine::{Engine, LoadedProbe, not_open};
use super::regions::RegionSource;
use super::token_memory::{CachedTokens, Key};
use super::tokens::read_batch;
use super::{BackboneId, ColumnId, JobError, ProbeId, Reporter, Unit};
use crate::app::jobs::user_error::UserError;
use crate::model::backbone::preprocess::Pixels;
use crate::model::data::ImageSource;
use crate::model::explain::attribution::attribute;
use crate::model::explain::by_hand::HandOrderReader;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::{self, NullBands};
use crate::model::explain::{self, Question, prepare_nulls};
use crate::model::probe::{Probe, ProbeError};
use crate::model::trace::{Attribution, AttributionSet, Regions, Trace};

const BATCH: usize = 16;

/// Images to explain through probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explain {
    /// What to explain, in the order of the answers.
    #[serde(rename = "asked")] // its first name, which other versions send
    pub items: Vec<ExplainItem>,
    /// The class of the evidence.
    pub class: ClassChoice,
    /// The other settings.
    pub settings: ExplainSettings,
    /// Where regions of the images come from.
    #[serde(default)]
    pub regions: RegionSource,
}

/// One image through one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainItem {
    /// The column of the window that shows it.
    pub column: ColumnId,
    /// The image.
    pub image: ImageSource,
    /// The backbone whose tokens are read.
    pub backbone: BackboneId,
    /// The probe.
    pub probe: ProbeId,
    /// What is changed in how the probe reads.
    pub change: Intervention,
    /// Seed of its random orders: the image's index in its dataset, or in the library if it has none.
    #[serde(rename = "draw")] // its first name, which other versions send
    pub image_seed: u64,
}

/// The class that evidence is computed for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassChoice {
    /// The class that each probe predicts.
    #[default]
    Predicted,
    /// The class with this name or index in every probe.
    Named(String),
}

impl ClassChoice {
    /// The class of `probe` with this name or index; `None` for the one that it predicts.
    pub(super) fn of_probe(&self, probe: &Probe) -> Result<Option<usize>, ProbeError> {
        match self {
            Self::Predicted => Ok(None),
            Self::Named(name) => probe.class(name).map(Some),
        }
    }
}

/// Settings of an explanation beside image, probe and class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExplainSettings {
    /// Decay of the evidence proxy instead of the spectral radius, 0 to 1.
    pub rho: Option<f64>,
    /// Draws of random scores for each null band.
    pub null_draws: usize,
    /// Seed of null bands, of untrained scorers, and of the perturbations that measure stability.
    pub seed: u64,
    /// Methods of attribution to compute in addition to evidence.
    #[serde(skip_serializing_if = "AttributionSet::is_empty")]
    pub attributions: AttributionSet,
}

impl Default for ExplainSettings {
    fn default() -> Self {
        let attributions = AttributionSet::default();
        Self { rho: None, null_draws: null_model::DRAWS, seed: 0, attributions }
    }
}

impl ExplainSettings {
    /// The same without attributions, for whole datasets, which show none.
    pub fn without_attributions(self) -> Self {
        Self { attributions: AttributionSet::default(), ..self }
    }
}

/// The answer to one [`ExplainItem`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExplainResult {
    /// The column of the window that shows it.
    pub column: ColumnId,
    /// The trace, or why there is none.
    pub result: Result<Arc<Trace>, UserError>,
    /// Reads the same image in other orders, if its order was made by hand.
    pub by_hand: Option<Arc<HandOrderReader>>,
}

/// Tokens of images by backbone and path, or why there are none.
type Images = HashMap<(BackboneId, ImageSource), Result<Arc<CachedTokens>, UserError>>;

/// Explains every item: one answer each, in their order.
pub fn run(
    engine: &mut Engine,
    spec: &Explain,
    reporter: &mut dyn Reporter,
) -> Result<Vec<ExplainResult>, JobError> {
    let mut images = Images::new();
    for backbone in spec.items.iter().map(|item| item.backbone).collect::<BTreeSet<_>>() {
        engine.reopen(backbone, reporter)?;
        read(engine, spec, backbone, &mut images, reporter)?;
    }
    reporter.cancel().check()?;
    let regions = regions(engine, spec, &images, reporter);
    engine.set_nulls(spec.settings);
    let changes = |item: &ExplainItem| {
        let open = engine.backbones.get(&item.backbone).zip(engine.probes.get(&item.probe));
        open.map_or_else(Vec::new, |(open, loaded)| open.reader.changes(&loaded.probe))
    };
    let changes: Vec<Vec<String>> = spec.items.iter().map(changes).collect();
    let (probes, nulls, cancel) = (&engine.probes, engine.nulls(), reporter.cancel());
    // Null bands first, each with all cores: within an item they would have one.
    for item in &spec.items {
        cancel.check()?;
        if let (Some(loaded), Some(Ok(known))) =
            (probes.get(&item.probe), images.get(&(item.backbone, item.image.clone())))
        {
            prepare_nulls(&loaded.probe, item.change.clone(), &known.tokens, nulls);
        }
    }
    let results = spec.items.par_iter().zip(changes).map(|(item, changes)| {
        cancel.check()?;
        let (result, by_hand) = match explain((probes, nulls), spec, item, &images, changes) {
            Ok((mut trace, by_hand)) => {
                trace.regions = regions.get(&(item.backbone, &item.image)).cloned();
                (Ok(Arc::new(trace)), by_hand.map(Arc::new))
            }
            Err(error) => (Err(error), None),
        };
        Ok(ExplainResult { column: item.column, result, by_hand })
    });
    results.collect()
}

/// Tokens of every image that is needed of a backbone, by forward passes for those that are not cached.
fn read(
    engine: &mut Engine,
    spec: &Explain,
    backbone: BackboneId,
    images: &mut Images,
    reporter: &mut dyn Reporter,
) -> Result<(), JobError> {
    let Engine { env, memory, backbones, .. } = engine;
    let Some(open) = backbones.get(&backbone) else { return Ok(()) };
    let mut fresh = Vec::new();
    let mut met = HashSet::new();
    let rollout = spec.settings.attributions.contains(Attribution::Rollout);
    let own = spec.items.iter().filter(|item| item.backbone == backbone);
    for ExplainItem { image, .. } in own.filter(|item| met.insert(&item.image)) {
        let known = match Key::new(&open.key, image) {
            Ok(key) => match memory.get(&key) {
                Some(known) if known.rollout.is_some() || !rollout => Ok(known),
                _ => {
                    fresh.push((image, key));
                    continue;
                }
            },
            Err(error) => {
                let error = anyhow::anyhow!("{image}: cannot be read: {error}");
                Err(UserError::from_file_error(&image.path, error))
            }
        };
        images.insert((backbone, image.clone()), known);
    }
    let reader = &open.reader;
    let prepare = |(source, _): &(&ImageSource, Key)| -> Result<Pixels, UserError> {
        reader.prepare(&env.decode(source)?).map_err(UserError::from_error)
    };
    for (batch, files) in fresh.chunks(BATCH).enumerate() {
        reporter.cancel().check()?;
        if fresh.len() > 1 {
            let (done, total) = ((batch * BATCH) as u64, Some(fresh.len() as u64));
            reporter.progress("Reading images", done, total, Unit::Items);
        }
        let prepared = files.par_iter().map(prepare).collect();
        reporter.cancel().check()?;
        let failed = |error| Ok::<_, JobError>(UserError::from_error(error));
        let read = read_batch(prepared, |pixels| reader.forward(pixels), failed)?;
        for ((source, key), read) in files.iter().zip(read) {
            let known = read.map(|(tokens, pixels)| {
                let rollout = rollout.then(|| reader.rollout(&pixels));
                let seen = reader.seen(&pixels);
                let known = Arc::new(CachedTokens { tokens, seen, rollout });
                memory.put(key.clone(), known.clone());
                known
            });
            images.insert((backbone, (*source).clone()), known);
        }
    }
    Ok(())
}

/// Regions of the images that could be read; warns of those whose masks cannot be used.
fn regions<'a>(
    engine: &mut Engine,
    spec: &'a Explain,
    images: &Images,
    reporter: &mut dyn Reporter,
) -> HashMap<(BackboneId, &'a ImageSource), Regions> {
    let (mut found, mut met) = (HashMap::new(), HashSet::new());
    for ExplainItem { backbone, image, .. } in &spec.items {
        let known = images.get(&(*backbone, image.clone())).and_then(|known| known.as_ref().ok());
        let Some(known) = known.filter(|_| image.row.is_none() && met.insert((*backbone, image))) else {
            continue;
        };
        let of = spec.regions.of_image(&image.path, engine).map_err(|error| error.to_string());
        let read = of.and_then(|of| match (of, engine.backbones.get(backbone)) {
            // Shuffled tokens lie in no known patch.
            (Some(of), Some(open)) if !open.reader.backbone.is_shuffled() => {
                of.of_image(&image.path, &open.reader.preprocessor, known.tokens.grid)
            }
            _ => Ok(None),
        });
        match read {
            Ok(Some(regions)) => drop(found.insert((*backbone, image), regions)),
            Ok(None) => {}
            Err(why) => reporter.warn(why),
        }
    }
    found
}

/// Explains one item, with what other threads may use of the engine: probes and host data, no tensors.
fn explain(
    (probes, nulls): (&HashMap<ProbeId, LoadedProbe>, &NullBands),
    spec: &Explain,
    item: &ExplainItem,
    images: &Images,
    tokens_changed: Vec<String>,
) -> Result<(Trace, Option<HandOrderReader>), UserError> {
    let loaded = probes.get(&item.probe).ok_or_else(not_open)?;
    let known = match images.get(&(item.backbone, item.image.clone())) {
        Some(Ok(known)) => known,
        Some(Err(error)) => return Err(error.clone()),
        None => return Err(UserError::new("Its backbone is not open").remedy("Open the backbone first")),
    };
    let class = spec.class.of_probe(&loaded.probe).map_err(UserError::from_error)?;
    let question = Question {
        image: item.image.to_string(),
        probe: loaded.path.display().to_string(),
        class,
        rho: spec.settings.rho,
        image_seed: item.image_seed,
        nulls: Some(nulls),
        tokens_changed,
    };
    let (change, tokens) = (&item.change, &known.tokens);
    let (mut trace, by_hand) =
        explain::explain(&loaded.probe, change.clone(), tokens, known.seen.clone(), question)
            .map_err(UserError::from_error)?;
    let (methods, rollout) = (spec.settings.attributions, known.rollout.as_ref());
    attribute(&mut trace, &loaded.probe, tokens, item.image_seed, methods, rollout);
    Ok((trace, by_hand))
}
