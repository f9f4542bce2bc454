//! Runs the backbone on a batch of images: their tokens, the tokens of their perturbed copies, and removal curves. Called on
//! the thread that owns the backbone.

use std::convert::Infallible;

use super::Explainer;
use crate::app::format::file_name;
use crate::app::jobs::engine::Engine;
use crate::app::jobs::removal::{Encoder, EnginePasses};
use crate::app::jobs::tokens::{TokenReader, read_batch};
use crate::app::jobs::user_error::lines;
use crate::app::jobs::{JobError, Reporter, stability};
use crate::model::annotations::{Annotations, RegionSet};
use crate::model::backbone::BackboneError;
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::removal::{Image, MeasuredProbe, Removal, RemovalSpec, measure};
use crate::model::reading::Reading;
use crate::model::regions::Regions;
use crate::model::tokens::Tokens;
use crate::model::trace::{Attribution, Picture};

/// What the backbone returned for one image.
pub(super) struct Read {
    /// The patch tokens and the prefix tokens.
    pub tokens: Tokens,
    /// The picture as the backbone saw it, if traces or animations are saved; otherwise empty.
    pub seen: Picture,
    /// Attention rollout, if requested, or why there is none.
    pub rollout: Option<Result<Vec<f32>, String>>,
    /// Tokens of the image and of each of its perturbed copies, if stability is requested; otherwise empty.
    pub changed: Vec<Tokens>,
    /// The annotated regions of the image, if requested and known.
    pub regions: Option<Regions>,
    /// The removal curves of every probe, or why it has none; empty unless requested.
    pub removals: Vec<Result<Removal, String>>,
}

/// The backbone, and what else only the thread that owns it uses.
pub(super) struct Pass<'a> {
    pub reader: &'a TokenReader,
    pub engine: &'a mut Engine,
    pub reporter: &'a mut dyn Reporter,
    /// The annotations of the images, if requested.
    pub annotations: Option<Annotations>,
    /// The regions read from them so far.
    pub regions: RegionSet,
}

/// The index of an image, and what was read or why nothing was.
pub(super) type Item = (usize, Result<Read, String>);

impl Explainer<'_> {
    /// Reads the images from index `first` on: their tokens and, if requested, those of their perturbed copies and the
    /// removal curves. If cancelled, returns the images before the one that was being read.
    pub(super) fn read(
        &self,
        pass: &mut Pass<'_>,
        first: usize,
        prepared: Vec<Result<Pixels, String>>,
    ) -> Vec<Item> {
        let failed = |error: BackboneError| Ok::<_, Infallible>(error.to_string());
        let Ok(read) = read_batch(prepared, |pixels| pass.reader.forward(pixels), failed);
        let whole = |(index, read): (usize, Result<(Tokens, Pixels), String>)| {
            let read = match read.map(|(tokens, pixels)| self.read_more(pass, index, tokens, &pixels)) {
                Ok(Ok(read)) => Ok(read),
                Ok(Err(JobError::Failed(error))) => Err(lines(&error).join(": ")),
                Ok(Err(JobError::Cancelled)) => return None,
                Err(why) => Err(why),
            };
            Some((index, read))
        };
        (first..).zip(read).map_while(whole).collect()
    }

    /// What is requested of an image beside its tokens.
    fn read_more(
        &self,
        pass: &mut Pass<'_>,
        index: usize,
        tokens: Tokens,
        pixels: &Pixels,
    ) -> Result<Read, JobError> {
        let (reader, flags) = (pass.reader, self.spec.flags);
        let drawn = flags.save_traces || flags.save_gif;
        let looked_at = drawn || !self.kinds.is_empty() || self.spec.causal.is_some();
        let seen = if looked_at { reader.seen(pixels) } else { Picture::default() };
        let mut changed = Vec::new();
        if !self.kinds.is_empty() {
            changed.push(tokens.clone());
            for copies in stability::changed(&reader.preprocessor, &seen, &self.kinds).chunks(flags.batch) {
                changed.extend(reader.forward(copies)?);
            }
        }
        let removals = match &self.spec.causal {
            Some(causal) => self.removals(pass, (index, &tokens, pixels, &seen), causal)?,
            None => Vec::new(),
        };
        let seen = if drawn { seen } else { Picture::default() };
        let rollout = self.spec.attributions.contains(Attribution::Rollout).then(|| reader.rollout(pixels));
        let image = self.spec.images[index].path.as_path();
        let regions = pass.annotations.as_ref().and_then(|annotations| {
            pass.regions.read(annotations, &[Some(image)], &reader.preprocessor, tokens.grid);
            pass.regions.of.last().cloned().flatten()
        });
        Ok(Read { tokens, seen, rollout, changed, regions, removals })
    }

    /// The removal curves of one image for every probe.
    fn removals(
        &self,
        pass: &mut Pass<'_>,
        (index, tokens, pixels, seen): (usize, &Tokens, &Pixels, &Picture),
        causal: &RemovalSpec,
    ) -> Result<Vec<Result<Removal, String>>, JobError> {
        let loaded = self.spec.probes.iter().zip(&self.tokens_changed);
        let probes = loaded.map(|(loaded, changed)| MeasuredProbe {
            probe: &loaded.probe,
            name: loaded.name(),
            reading: Reading { change: loaded.change.clone(), tokens: changed.clone(), ..Reading::default() },
            class: loaded.class,
        });
        let probes: Vec<MeasuredProbe<'_>> = probes.collect();
        let name = file_name(&self.spec.images[index].path);
        let why_no_subset = pass.reader.backbone.why_no_subset();
        let image = Image { name, tokens, pixels, seen, seed: index as u64, why_no_subset };
        let encoder = Encoder::Own(pass.reader);
        let mut passes =
            EnginePasses { engine: pass.engine, reporter: pass.reporter, encoder, pixels, told: true };
        let curves = measure(&probes, &image, causal, &mut passes)?;
        Ok(curves.into_iter().map(|curves| curves.map_err(|error| error.to_string())).collect())
    }
}
