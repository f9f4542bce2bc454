//! Answering a look: tokens of the images that are not known in as few forward passes as there are
//! batches, then every column on a core of its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::compute::{Compute, LoadedBackbone, LoadedProbe, of_file};
use super::event_sender::{JobExit, JobReporter, go_on};
use super::token_memory::{CachedTokens, Key};
use crate::app::jobs::{
    BackboneId, Cancel, ClassChoice, Event, Explain, ExplainItem, ExplainResult, ExplainSettings, ProbeId,
    Unit,
};
use crate::app::user_error::UserError;
use crate::model::backbone::preprocess::Pixels;
use crate::model::data::ImageSource;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::{Question, explain_changed, prepare_nulls};
use crate::model::trace::Trace;

/// Images in one forward pass.
const BATCH: usize = 16;
/// Predictions kept in a trace.
const TOP: usize = 24;

/// Images by backbone and path: what is known of each, or why nothing is.
type Images = HashMap<(BackboneId, ImageSource), Result<Arc<CachedTokens>, UserError>>;

impl Compute {
    pub(super) fn look(
        &mut self,
        clock: &JobReporter<'_>,
        look: &Explain,
        cancel: &Cancel,
    ) -> Result<(), JobExit> {
        let mut wanted: Vec<BackboneId> = look.asked.iter().map(|asked| asked.backbone).collect();
        wanted.sort();
        wanted.dedup();
        let mut images = Images::new();
        for backbone in wanted {
            if let Some(recipe) = self.lost.get(&backbone).cloned() {
                self.load(recipe.clone(), cancel)
                    .inspect_err(|_| drop(self.lost.insert(backbone, recipe)))?;
            }
            images.extend(self.read(clock, look, backbone, cancel)?);
        }
        go_on(cancel)?;
        let ExplainSettings { null_draws, seed, .. } = look.settings;
        if (self.nulls.0.null_draws, self.nulls.0.seed) != (null_draws, seed) {
            self.nulls = (look.settings, NullBands::new(null_draws, seed));
        }
        let explainer = Explainer { probes: &self.probes, nulls: &self.nulls.1, look, images: &images };
        explainer.prepare_nulls(cancel)?;
        let seen: Result<Vec<ExplainResult>, JobExit> = look
            .asked
            .par_iter()
            .map(|asked| {
                go_on(cancel)?;
                let result = explainer.explain(asked).map(Arc::new);
                Ok(ExplainResult { column: asked.column, result })
            })
            .collect();
        clock.outbox.tell(Event::Looked { job: look.job, seen: seen? });
        Ok(())
    }

    /// What a backbone says of every image it is asked for; forward passes for those that are new.
    fn read(
        &mut self,
        clock: &JobReporter<'_>,
        look: &Explain,
        backbone: BackboneId,
        cancel: &Cancel,
    ) -> Result<Images, JobExit> {
        let Some(open) = self.backbones.get(&backbone) else { return Ok(Images::new()) };
        let mut images = Images::new();
        let mut fresh = Vec::new();
        let mut met = HashSet::new();
        let own = look.asked.iter().filter(|asked| asked.backbone == backbone);
        for ExplainItem { image, .. } in own.filter(|asked| met.insert(&asked.image)) {
            match Key::of(&open.key, image) {
                Ok(key) => match self.cache.get(&key) {
                    Some(known) => drop(images.insert((backbone, image.clone()), Ok(known))),
                    None => fresh.push((image, key)),
                },
                Err(error) => {
                    let error = anyhow::anyhow!("{image}: cannot be read: {error}");
                    images.insert((backbone, image.clone()), Err(of_file(&image.path, error)));
                }
            }
        }
        let total = fresh.len() as u64;
        for (batch, files) in fresh.chunks(BATCH).enumerate() {
            go_on(cancel)?;
            if total > 1 {
                clock.progress("Reading images", (batch * BATCH) as u64, Some(total), Unit::Files);
            }
            let photo = self.world.photo;
            let prepare = |(place, _): &(&ImageSource, Key)| prepare(open, photo, place);
            let prepared: Vec<Result<Pixels, UserError>> = files.par_iter().map(prepare).collect();
            go_on(cancel)?;
            let mut good = Vec::new();
            let mut pixels = Vec::new();
            for ((place, key), prepared) in files.iter().zip(prepared) {
                match prepared {
                    Ok(ready) => {
                        good.push((*place, key));
                        pixels.push(ready);
                    }
                    Err(fault) => drop(images.insert((backbone, (*place).clone()), Err(fault))),
                }
            }
            match open.model.forward_layers(&pixels, &[open.layer], true) {
                Ok(tokens) => {
                    let read = good.into_iter().zip(tokens.into_iter().flatten()).zip(&pixels);
                    for (((place, key), tokens), pixels) in read {
                        let known = Arc::new(CachedTokens { tokens, seen: open.preprocessor.seen(pixels) });
                        self.cache.put(key.clone(), known.clone());
                        images.insert((backbone, place.clone()), Ok(known));
                    }
                }
                Err(error) => {
                    let fault = UserError::of(error);
                    let failed =
                        |(place, _): (&ImageSource, _)| ((backbone, place.clone()), Err(fault.clone()));
                    images.extend(good.into_iter().map(failed));
                }
            }
        }
        Ok(images)
    }
}

/// Pixels the backbone can read.
fn prepare(
    open: &LoadedBackbone,
    photo: fn(
        &ImageSource,
    ) -> Result<crate::model::data::image::Photo, crate::model::data::image::ImageError>,
    place: &ImageSource,
) -> Result<Pixels, UserError> {
    let photo = photo(place).map_err(|error| of_file(&place.path, error))?;
    let pixels = open.preprocessor.apply(&photo).map_err(UserError::of)?;
    open.model.grid(pixels.height, pixels.width).map_err(UserError::of)?;
    Ok(pixels)
}

/// What explains, on the host alone.
struct Explainer<'a> {
    probes: &'a HashMap<ProbeId, LoadedProbe>,
    nulls: &'a NullBands,
    look: &'a Explain,
    images: &'a Images,
}

// Columns are explained on rayon's threads, which see probes and tokens of the host, no tensor.
impl Explainer<'_> {
    fn loaded(&self, asked: &ExplainItem) -> Result<&LoadedProbe, UserError> {
        let loaded = self.probes.get(&asked.probe);
        loaded.ok_or_else(|| UserError::new("The probe is not open").remedy("Open it again"))
    }

    /// Null bands first, each with all cores: within a column they would have one.
    fn prepare_nulls(&self, cancel: &Cancel) -> Result<(), JobExit> {
        for asked in &self.look.asked {
            go_on(cancel)?;
            let Ok(loaded) = self.loaded(asked) else { continue };
            let Some(Ok(known)) = self.images.get(&(asked.backbone, asked.image.clone())) else { continue };
            prepare_nulls(&loaded.probe, asked.change, &known.tokens, self.nulls);
        }
        Ok(())
    }

    fn explain(&self, asked: &ExplainItem) -> Result<Trace, UserError> {
        let loaded = self.loaded(asked)?;
        let known = match self.images.get(&(asked.backbone, asked.image.clone())) {
            Some(Ok(known)) => known,
            Some(Err(fault)) => return Err(fault.clone()),
            None => return Err(UserError::new("Its backbone is not open").remedy("Open the backbone first")),
        };
        let class = match &self.look.class {
            ClassChoice::Predicted => None,
            ClassChoice::Named(name) => Some(loaded.probe.class(name).map_err(UserError::of)?),
        };
        let question = Question {
            image: asked.image.to_string(),
            probe: loaded.path.display().to_string(),
            class,
            rho: self.look.settings.rho,
            draw: asked.draw,
            nulls: Some(self.nulls),
            top: TOP,
        };
        explain_changed(&loaded.probe, asked.change, &known.tokens, known.seen.clone(), question)
            .map_err(UserError::of)
    }
}
