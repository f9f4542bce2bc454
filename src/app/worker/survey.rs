//! Asking probes about all images of a dataset: tokens from the cache on disk, then one probe after
//! the other, some images at a time. Between two batches whatever else is asked is answered.

use std::ops::ControlFlow;
use std::sync::Arc;

use burn::tensor::Device;

use super::compute::Compute;
use super::event_sender::{JobExit, JobReporter, failed, go_on};
use crate::app::jobs::extract::{Event as Extracting, ExtractError, ExtractOptions, Plan};
use crate::app::jobs::survey::{EvalAnswer, EvalProbe, EvalRequest, EvalSplit};
use crate::app::jobs::{BackboneId, Cancel, Event, Unit};
use crate::app::paths;
use crate::app::user_error::UserError;
use crate::model::data::Dataset;
use crate::model::data::token_cache::{Precision, TokenCache};
use crate::model::explain::null_model::NullBands;
use crate::model::explain::survey::Survey;
use crate::model::explain::survey::evaluator::Evaluator;

/// Images asked about at once.
const BATCH: usize = 32;

/// Tokens of a part of a dataset: the cache, and the place of every image in it.
type Known = (TokenCache, Vec<usize>);

/// Of every image, its index in the whole dataset, wherever its tokens lie.
fn draws(part: &EvalSplit) -> Vec<u64> {
    part.samples.iter().map(|at| *at as u64).collect()
}

impl Compute {
    /// Asks every subject, and tells of each as soon as it is done.
    pub(super) fn survey(
        &mut self,
        clock: &JobReporter<'_>,
        ask: &EvalRequest,
        cancel: &Cancel,
    ) -> Result<(), JobExit> {
        let mut known: Option<(BackboneId, Known)> = None;
        for (at, subject) in ask.subjects.iter().enumerate() {
            go_on(cancel)?;
            if known.as_ref().is_none_or(|(backbone, _)| *backbone != subject.backbone) {
                known = Some((subject.backbone, self.tokens(clock, &ask.part, subject.backbone, cancel)?));
            }
            let Some((_, known)) = &known else { continue };
            let result = match self.one(clock, ask, at, known, cancel) {
                Ok(survey) => Ok(Arc::new(survey)),
                Err(JobExit::Failed(fault)) => Err(fault),
                Err(JobExit::Cancelled) => return Err(JobExit::Cancelled),
            };
            let answer = EvalAnswer { subject: *subject, part: ask.part.clone(), result };
            clock.outbox.tell(Event::Surveyed { job: ask.job, answer });
        }
        Ok(())
    }

    /// What one probe makes of all images.
    fn one(
        &mut self,
        clock: &JobReporter<'_>,
        ask: &EvalRequest,
        at: usize,
        (tokens, places): &Known,
        cancel: &Cancel,
    ) -> Result<Survey, JobExit> {
        let EvalProbe { probe, change, .. } = ask.subjects[at];
        let loaded = self.probes.get(&probe);
        let loaded = loaded.ok_or_else(|| UserError::new("The probe is not open").remedy("Open it again"))?;
        let name = loaded.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // A copy: the probe may be closed while it is asked.
        let probe = loaded.probe.clone();
        let nulls = NullBands::new(ask.settings.null_draws, ask.settings.seed);
        let asked = ask.part.asked.clone();
        let draws = draws(&ask.part);
        let images = (&places[..], &draws[..]);
        let mut interview = Evaluator::new(&probe, change, tokens, asked, images, &nulls).map_err(failed)?;
        let (total, count) = (places.len() as u64, ask.subjects.len());
        let what = match count {
            1 => format!("Asking {name}"),
            _ => format!("Asking {name}, {} of {count} probes", at + 1),
        };
        let pace = JobReporter::new(clock.outbox, clock.job);
        while interview.go_on(BATCH).map_err(failed)? {
            pace.progress(&what, interview.done() as u64, Some(total), Unit::Files);
            while self.serve(false) {}
            go_on(cancel)?;
        }
        Ok(interview.finish(name, probe.meta.backbone.id.clone()))
    }

    /// Tokens of the images through a backbone: those of the whole dataset where they are there
    /// already, else of this part alone, taken now.
    fn tokens(
        &mut self,
        clock: &JobReporter<'_>,
        part: &EvalSplit,
        backbone: BackboneId,
        cancel: &Cancel,
    ) -> Result<Known, JobExit> {
        let (folder, device, taking) = self.tokens_of(backbone)?;
        let root = (self.world.tokens)().ok_or_else(|| {
            UserError::new("This user has no home folder to keep tokens in")
                .remedy("Name a folder in the environment variable SSMPROBE_CACHE")
        })?;
        let wanted = ExtractOptions {
            backbone: folder,
            taking,
            precision: Precision::Float16,
            root,
            limit: paths::TOKENS_LIMIT,
            verify: false,
        };
        clock.progress("Looking for tokens", 0, None, Unit::Files);
        let plan = Plan::new(wanted, &part.dataset).map_err(failed)?;
        if plan.complete() {
            let cache = self.take(clock, &plan, &part.dataset, &device, cancel)?;
            return Ok((cache, part.samples.clone()));
        }
        let samples = part.samples.iter().map(|at| part.dataset.samples[*at].clone()).collect();
        let own = Dataset { samples, ..(*part.dataset).clone() };
        let plan = plan.of(&own).map_err(failed)?;
        let cache = self.take(clock, &plan, &own, &device, cancel)?;
        Ok((cache, (0..part.samples.len()).collect()))
    }

    /// The tokens of a plan; those that are there are looked over, those that are missing are taken.
    fn take(
        &mut self,
        clock: &JobReporter<'_>,
        plan: &Plan,
        own: &Dataset,
        device: &Device,
        cancel: &Cancel,
    ) -> Result<TokenCache, JobExit> {
        let pace = JobReporter::new(clock.outbox, clock.job);
        let mut unread = 0usize;
        let taken = plan.run(own, device, &mut |event| {
            match event {
                Extracting::Unreadable { .. } => unread += 1,
                Extracting::Verifying { read, total } => {
                    pace.progress("Reading kept tokens", read, Some(total), Unit::Bytes);
                    while self.serve(false) {}
                }
                Extracting::Damaged(damage) => clock.warn(format!("Taken again: {damage}")),
                // The window asks for no comparison of images.
                Extracting::Done(_)
                | Extracting::Looked(_)
                | Extracting::Adopted { .. }
                | Extracting::Compared(_)
                | Extracting::Changed { .. }
                | Extracting::Unknown { .. } => {}
                Extracting::Progress(progress) => {
                    let (done, total) = (progress.done as u64, progress.total as u64);
                    pace.progress("Taking tokens", done, Some(total), Unit::Files);
                    while self.serve(false) {}
                }
            }
            if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if unread > 0 {
            clock.warn(format!("{unread} images of {} cannot be read; they count nowhere", own.name));
        }
        taken.map_err(|error| match error {
            ExtractError::Stopped { .. } => JobExit::Cancelled,
            other => failed(other),
        })
    }
}
