//! The tokens of one split of a dataset through an open backbone, the regions of its images, and what evaluations on both are known
//! from before.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::tensor::Device;

use super::engine::Engine;
use super::evaluate::EvalRequest;
use super::extract::{self, ExtractOptions, Extracted, Plan, TokenSettings};
use super::known_evaluations::{self, digest};
use super::regions::{RegionSource, of_samples};
use super::{BackboneId, JobError, Reporter, Unit};
use crate::app::format::counted;
use crate::app::user_error::UserError;
use crate::model::annotations::RegionSet;
use crate::model::data::Dataset;
use crate::model::data::token_cache::{TokenCache, tokens_digest};
use crate::model::explain::evaluation::Evaluation;
use crate::model::io::atomic_file::is_refused;

/// Tokens and regions of a split.
pub(super) struct SplitTokens {
    /// The backbone.
    pub backbone: BackboneId,
    /// The key of its reader.
    pub key: Arc<str>,
    /// The index of every image in the cache.
    pub places: Vec<usize>,
    plan: Plan,
    /// The images of the plan.
    dataset: Arc<Dataset>,
    device: Device,
    /// `None` while some tokens are missing.
    cache: Option<TokenCache>,
    /// Whether the cache's tokens were compared with their digests, which reads all of them.
    is_verified: bool,
    /// Identifies the tokens; `None` unless all are on record.
    digest: Option<String>,
    /// The regions, once they were read, and their digest.
    regions: Option<(RegionSet, Option<String>)>,
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
        let key = engine.backbone(backbone)?.key.clone();
        let (folder, device, token_spec) = engine.taker(backbone)?;
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
            let samples = part.samples.iter().map(|at| part.dataset.samples[*at].clone()).collect();
            dataset = Arc::new(Dataset { samples, ..(*part.dataset).clone() });
            places = (0..part.samples.len()).collect();
            plan = plan.for_dataset(&dataset)?;
        }
        let cache = TokenCache::find(&plan.root, &plan.source).ok().flatten().filter(|_| plan.complete());
        let (is_verified, digest, regions) = (false, None, None);
        let mut found =
            Self { backbone, key, places, plan, dataset, device, cache, is_verified, digest, regions };
        found.set_digest();
        Ok(found)
    }

    /// Sets the digest of the tokens that are on disk now, and of what they were computed from.
    fn set_digest(&mut self) {
        let Plan { root, source, images, .. } = &self.plan;
        self.digest = tokens_digest(root, source, *images).and_then(|tokens| digest(&(source, tokens)));
    }

    /// Verifies the cached tokens, extracts the missing ones, and reads the regions.
    pub fn complete(
        &mut self,
        engine: &mut Engine,
        spec: &EvalRequest,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        if !self.is_verified {
            let images = (&*self.dataset, &self.device);
            let Extracted { cache, spent, unreadable, .. } =
                extract::run(engine, &self.plan, images, reporter)?;
            if unreadable > 0 {
                let images = counted(unreadable, "image", "images");
                reporter.warn(format!("left out as unreadable: {images} of {}", self.dataset.name));
            }
            // Other images may be readable now.
            self.regions = self.regions.take().filter(|_| spent.is_none());
            (self.cache, self.is_verified) = (Some(cache), true);
            self.set_digest();
        }
        self.read_regions(engine, spec, reporter)
    }

    /// Reads the regions of the images whose tokens are cached, once.
    fn read_regions(
        &mut self,
        engine: &mut Engine,
        spec: &EvalRequest,
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        let Some(cache) = self.cache.as_ref().filter(|_| self.regions.is_none()) else { return Ok(()) };
        let preprocessor = engine.backbone(self.backbone)?.reader.preprocessor.clone();
        let read = |(sample, place): (&usize, &usize)| cache.readable(*place).then_some(*sample);
        let samples: Vec<Option<usize>> = spec.part.samples.iter().zip(&self.places).map(read).collect();
        let images = (&*spec.part.dataset, &samples[..]);
        let set = of_samples(engine, &spec.regions, images, &preprocessor, cache.grid(), reporter)?;
        // They were given when what is stored was computed.
        if spec.stored.is_empty() {
            let warnings = set.warnings(spec.regions != RegionSource::Dataset);
            warnings.into_iter().for_each(|warning| reporter.warn(warning));
        }
        let digest = digest(&set.of);
        self.regions = Some((set, digest));
        Ok(())
    }

    /// Tokens and regions, after [`complete`](Self::complete).
    pub fn loaded(&self) -> (&TokenCache, &RegionSet) {
        let (regions, _) = self.regions.as_ref().expect("they were read");
        (self.cache.as_ref().expect("all tokens are cached"), regions)
    }

    /// The digests of tokens and regions, where they are known.
    fn digests(&self) -> Option<[&str; 2]> {
        let (_, regions) = self.regions.as_ref()?;
        Some([self.digest.as_deref()?, regions.as_deref()?])
    }

    /// The evaluation in a [file](known_evaluations::file), if it is on these tokens and regions.
    pub fn known(
        &mut self,
        engine: &mut Engine,
        spec: &EvalRequest,
        file: &Path,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Arc<Evaluation>>, JobError> {
        if engine.same_reader(self.backbone, &self.key).is_err() {
            return Ok(None);
        }
        self.read_regions(engine, spec, reporter)?;
        let found =
            self.digests().and_then(|digests| known_evaluations::read(file, digests, &spec.part.asked));
        Ok(found.map(Arc::new))
    }

    /// Stores an evaluation on these tokens and regions in its [file](known_evaluations::file).
    pub fn keep(&self, file: Option<PathBuf>, evaluation: &Evaluation, reporter: &mut dyn Reporter) {
        let Some((file, digests)) = file.zip(self.digests()) else { return };
        if let Err(error) = known_evaluations::keep(&file, digests, evaluation) {
            // The token caches may be another user's.
            let is_refused = error.downcast_ref().is_some_and(|error: &io::Error| is_refused(error.kind()));
            if !is_refused {
                reporter.warn(format!("The evaluation of {} is not stored: {error:#}", evaluation.probe));
            }
        }
    }
}
