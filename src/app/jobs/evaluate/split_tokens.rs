//! The tokens of one split of a dataset through an open backbone, the regions of its images, and the stored evaluations on both.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;

use super::stored::{self, digest};
use super::{EvalRequest, subset};
use crate::app::format::counted;
use crate::app::jobs::engine::{Engine, LoadedBackbone};
use crate::app::jobs::extract::{self, ExtractOptions, Extracted, Plan, TokenSettings};
use crate::app::jobs::regions::{RegionSource, of_samples};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{BackboneId, JobError, Reporter, Unit};
use crate::model::annotations::RegionSet;
use crate::model::data::Dataset;
use crate::model::data::token_cache::{TokenCache, tokens_digest};
use crate::model::explain::evaluation::Evaluation;
use crate::model::io::atomic_file::is_refused;

/// Tokens and regions of a split.
pub(super) struct SplitTokens {
    pub backbone: BackboneId,
    /// The key of its reader.
    pub key: Arc<str>,
    /// The index of every image in the cache.
    pub places: Vec<usize>,
    plan: Plan,
    /// The images of the plan.
    dataset: Arc<Dataset>,
    device: Device,
    /// All tokens and regions, once they were needed.
    loaded: Option<Loaded>,
    /// Whether the cached tokens were compared with their digests, which reads all of them.
    is_verified: bool,
}

/// All tokens, the regions of the images, and the digests of both; `None` unless all tokens are on record.
struct Loaded {
    cache: TokenCache,
    regions: RegionSet,
    digests: Option<[String; 2]>,
}

impl SplitTokens {
    /// Looks for the tokens: in the cache of the whole dataset if there is one, else in that of this split alone.
    pub fn find(
        engine: &mut Engine,
        spec: &EvalRequest,
        backbone: BackboneId,
        reporter: &mut dyn Reporter,
    ) -> Result<Self, JobError> {
        engine.reopen(backbone, reporter)?;
        let LoadedBackbone { spec: open, reader, key, device, .. } = engine.backbone(backbone)?;
        let (folder, token_spec) = (open.folder.clone(), reader.token_spec);
        let (key, device) = (key.clone(), device.clone());
        let root = (engine.env.tokens)().ok_or_else(|| {
            UserError::new("This user has no home folder to cache tokens in")
                .remedy("Set the environment variable SSMPROBE_CACHE to a folder")
        })?;
        let tokens = TokenSettings { cache: Some(root), token_spec, ..TokenSettings::default() };
        reporter.progress("Looking for tokens", 0, None, Unit::Items);
        let part = &spec.part;
        let mut plan = Plan::new(ExtractOptions::new(folder, tokens), &part.dataset)?;
        let (mut dataset, mut places) = (part.dataset.clone(), part.samples.clone());
        if !plan.complete() {
            dataset = Arc::new(subset(&part.dataset, &part.samples));
            places = (0..part.samples.len()).collect();
            plan = plan.for_dataset(&dataset)?;
        }
        Ok(Self { backbone, key, places, plan, dataset, device, loaded: None, is_verified: false })
    }

    /// The digest of the tokens that are on disk now, and of what they were computed from; `None` unless all are on record.
    fn digest(&self) -> Option<String> {
        let (Plan { root, images, .. }, source) = (&self.plan, self.plan.source());
        tokens_digest(root, source, *images).and_then(|tokens| digest(&(source, tokens)))
    }

    /// Verifies the cached tokens, extracts the missing ones, and reads the regions.
    pub fn complete(
        &mut self,
        engine: &mut Engine,
        spec: &EvalRequest,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        if self.is_verified {
            return Ok(());
        }
        let images = (&*self.dataset, &self.device);
        let Extracted { cache, spent, unreadable, .. } = extract::run(engine, &self.plan, images, reporter)?;
        if unreadable > 0 {
            let images = counted(unreadable, "image", "images");
            reporter.warn(format!("left out as unreadable: {images} of {}", self.dataset.name));
        }
        // If tokens were just extracted, other images may be readable than before.
        if self.loaded.is_none() || spent.is_some() {
            self.load(engine, spec, (cache, self.digest()), reporter)?;
        }
        self.is_verified = true;
        Ok(())
    }

    /// Loads all tokens, with their digest, and reads the regions of their images.
    fn load(
        &mut self,
        engine: &mut Engine,
        spec: &EvalRequest,
        (cache, tokens): (TokenCache, Option<String>),
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        let reader = &engine.backbone(self.backbone)?.reader;
        let preprocessor = reader.preprocessor.clone();
        let read = |(sample, place): (&usize, &usize)| cache.readable(*place).then_some(*sample);
        let samples: Vec<Option<usize>> = spec.part.samples.iter().zip(&self.places).map(read).collect();
        let images = (&*spec.part.dataset, &samples[..]);
        // Shuffled tokens lie in no known patch.
        let of = if reader.backbone.is_shuffled() { &RegionSource::Nowhere } else { &spec.regions };
        // For stored evaluations, warnings were given when they were computed.
        let from = (of, !spec.subjects.is_empty());
        let regions = of_samples(engine, from, images, &preprocessor, cache.grid(), reporter)?;
        let digests = tokens.zip(digest(&regions.of)).map(<[String; 2]>::from);
        self.loaded = Some(Loaded { cache, regions, digests });
        Ok(())
    }

    /// Tokens and regions, after [`complete`](Self::complete).
    pub fn loaded(&self) -> (&TokenCache, &RegionSet) {
        let Loaded { cache, regions, .. } = self.loaded.as_ref().expect("they were loaded");
        (cache, regions)
    }

    /// The digests of tokens and regions, where they are known.
    fn digests(&self) -> Option<[&str; 2]> {
        Some(self.loaded.as_ref()?.digests.as_ref()?.each_ref().map(String::as_str))
    }

    /// The evaluation in the first of these [files](stored::candidates) that is on these tokens and regions.
    pub fn stored(
        &mut self,
        engine: &mut Engine,
        spec: &EvalRequest,
        files: &[PathBuf],
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Arc<Evaluation>>, JobError> {
        let is_cached = self.loaded.is_some() || self.plan.complete();
        if !is_cached || engine.same_reader(self.backbone, &self.key).is_err() {
            return Ok(None);
        }
        if self.loaded.is_none() {
            let Some(tokens) = self.digest() else { return Ok(None) };
            let cache = TokenCache::find(&self.plan.root, self.plan.source());
            let Ok(Some(cache)) = cache else { return Ok(None) };
            self.load(engine, spec, (cache, Some(tokens)), reporter)?;
        }
        let Some(digests) = self.digests() else { return Ok(None) };
        let found = files.iter().find_map(|file| stored::read(file, digests, &spec.part.set));
        Ok(found.map(Arc::new))
    }

    /// Stores an evaluation on these tokens and regions in its [file](stored::file).
    pub fn store(&self, file: &Path, evaluation: &Evaluation, reporter: &mut dyn Reporter) {
        let Some(digests) = self.digests() else { return };
        if let Err(error) = stored::write(file, digests, evaluation) {
            // The token caches may be another user's.
            let is_refused = error.downcast_ref().is_some_and(|error: &io::Error| is_refused(error.kind()));
            if !is_refused {
                reporter.warn(format!("The evaluation of {} is not stored: {error:#}", evaluation.probe));
            }
        }
    }
}
