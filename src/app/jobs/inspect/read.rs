//! Runs the backbone on a batch of images: their tokens, the tokens of their perturbed copies, and removal curves. Called on
//! the thread that owns the backbone.

use std::convert::Infallible;

use super::Explainer;
use crate::app::jobs::removal::ReaderPasses;
use crate::app::jobs::tokens::TokenReader;
use crate::app::jobs::{JobError, stability};
use crate::app::user_error::lines;
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::removal::{Image, Mode, Removal, RemovalSpec, Subject, measure};
use crate::model::reading::Reading;
use crate::model::regions::Regions;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

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

/// Called with the progress of removal curves (mode, done, total), or `None` outside them; an error ends the run.
pub(super) type GoOn<'a> = dyn FnMut(Option<(Mode, usize, usize)>) -> Result<(), JobError> + 'a;

/// The index of an image, and what was read or why nothing was.
pub(super) type Item = (usize, Result<Read, String>);

impl Explainer<'_> {
    /// Reads the images from index `first` on: their tokens and, if requested, those of their perturbed copies and the
    /// removal curves. If cancelled, returns the images before the one that was being read.
    pub(super) fn read(
        &self,
        reader: &TokenReader,
        first: usize,
        prepared: Vec<Result<Pixels, String>>,
        go_on: &mut GoOn<'_>,
    ) -> Vec<Item> {
        let Ok(read) = reader.read(prepared, |error| Ok::<_, Infallible>(error.to_string()));
        let more = |index: usize, (tokens, pixels): (Tokens, Pixels), go_on: &mut GoOn<'_>| {
            let drawn = self.spec.save_traces || self.spec.save_gif;
            let looked_at = drawn || !self.kinds.is_empty() || self.spec.causal.is_some();
            let seen = if looked_at { reader.preprocessor.seen(&pixels) } else { Picture::default() };
            let mut changed = Vec::new();
            if !self.kinds.is_empty() {
                changed.push(tokens.clone());
                for copies in
                    stability::changed(&reader.preprocessor, &seen, &self.kinds).chunks(self.spec.batch)
                {
                    changed.extend(reader.forward(copies).map_err(JobError::failed)?);
                }
            }
            let removals = match &self.spec.causal {
                Some(causal) => self.removals(reader, (index, &tokens, &pixels, &seen), causal, go_on)?,
                None => Vec::new(),
            };
            let seen = if drawn { seen } else { Picture::default() };
            let rollout = reader.rollout(self.spec.settings.attributions, &pixels);
            let image = &self.spec.images[index].path;
            let regions = self.marked.as_ref().and_then(|marked| marked.read(image, reader, tokens.grid));
            Ok(Read { tokens, seen, rollout, changed, regions, removals })
        };
        let whole = |(index, read): (usize, Result<_, String>)| {
            let read = match read {
                Ok(read) => more(index, read, go_on),
                Err(why) => return Some((index, Err(why))),
            };
            match read {
                Ok(read) => Some((index, Ok(read))),
                Err(JobError::Failed(error)) => Some((index, Err(lines(&error).join(": ")))),
                Err(JobError::Cancelled) => None,
            }
        };
        (first..).zip(read).map_while(whole).collect()
    }

    /// The removal curves of one image for every probe.
    fn removals(
        &self,
        reader: &TokenReader,
        (index, tokens, pixels, seen): (usize, &Tokens, &Pixels, &Picture),
        causal: &RemovalSpec,
        go_on: &mut GoOn<'_>,
    ) -> Result<Vec<Result<Removal, String>>, JobError> {
        let subjects = self.spec.probes.iter().zip(&self.tokens_changed).map(|(loaded, changed)| Subject {
            probe: &loaded.probe,
            name: loaded.name(),
            reading: Reading { change: loaded.change.clone(), tokens: changed.clone(), ..Reading::default() },
            class: loaded.class,
        });
        let subjects: Vec<Subject<'_>> = subjects.collect();
        let name = self.spec.images[index].path.file_name().unwrap_or_default();
        let (name, why_no_subset) = (name.to_string_lossy().into_owned(), reader.backbone.why_no_subset());
        let image = Image { name, tokens, pixels, seen, seed: index as u64, why_no_subset };
        let tell = &mut |mode, done, total| go_on(Some((mode, done, total)));
        let curves = measure(&subjects, &image, causal, &mut ReaderPasses { reader, pixels, tell })?;
        Ok(curves.into_iter().map(|curves| curves.map_err(|error| error.to_string())).collect())
    }
}
