//! Explaining image files through probes, into files (docs/definitions.md, section 8): a job of who has no
//! window.
//!
//! The calling thread owns every tensor and runs the backbone batch by batch; a second thread decodes the
//! next one, and a third explains and writes the one before, one core an image and probe.

mod marked;
mod read;
mod summary;
mod write;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;

use anyhow::Context;
use burn::tensor::Device;
use rayon::prelude::*;
use serde_json::Value;

use self::read::{GoOn, Item, Read};
use self::summary::Summary;
use super::engine::{Engine, WorkerEnv};
use super::explain::TOP;
use super::removal;
use super::tokens::{TokenReader, doubt, prepare_ahead, preprocessor};
use super::{Cancel, ExplainSettings, JobError, Reporter};
use crate::app::user_error::lines;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::ImageSource;
use crate::model::explain::attribution::attribute;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::removal::{Mode, RANKINGS, RemovalSpec};
use crate::model::explain::stability::perturb::{Perturbation, kinds};
use crate::model::explain::stability::{Measurement, OrderError, Stability};
use crate::model::explain::{Question, explain_changed, prepare_nulls};
use crate::model::grid::Grid;
use crate::model::io::atomic_file;
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;

/// A probe, where it came from, what its results are called and which class is asked for.
pub struct Loaded {
    /// Its file.
    pub path: PathBuf,
    /// What its results are called.
    pub stem: String,
    /// What it holds.
    pub probe: Probe,
    /// What is changed in how it reads.
    pub change: Intervention,
    /// The class of the evidence; the predicted one where absent.
    pub class: Option<usize>,
}

impl Loaded {
    /// What its file is called, without the ending.
    fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A file to read, and the name of its results: its stem, unless another has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, as it was given or found.
    pub path: PathBuf,
    /// What its results are called.
    pub stem: String,
}

/// What is explained, and where it goes.
pub struct InspectSpec {
    /// The backbone's folder.
    pub backbone: PathBuf,
    /// How its tokens are taken.
    pub taking: TokenSpec,
    /// Where it runs.
    pub device: Device,
    /// Images in one forward pass.
    pub batch: usize,
    /// The probes.
    pub probes: Vec<Loaded>,
    /// The images.
    pub images: Vec<Source>,
    /// The folder of the results; made if it is not there.
    pub out: PathBuf,
    /// Whether tokens are written too.
    pub save_tokens: bool,
    /// Whether traces are written too.
    pub save_traces: bool,
    /// Whether the reading is written as an animation.
    pub save_gif: bool,
    /// Whether it is measured how stable orders are.
    pub stability: bool,
    /// Which removal curves are wanted, if any.
    pub causal: Option<RemovalSpec>,
    /// What explanations depend on besides.
    pub settings: ExplainSettings,
    /// Where regions of the images come from.
    pub masks: Option<PathBuf>,
}

/// Told while images are explained.
pub enum Event {
    /// One image through one probe: what its JSON file says, and `files`.
    Explained(Value),
    /// Something was left out.
    Failed(Failure),
    /// So many more images are done with, one way or the other.
    Passed(usize),
    /// Something to know before it begins.
    Note(String),
}

/// Something that was left out.
pub struct Failure {
    /// Index of the image among the sources.
    pub image: usize,
    /// The image file.
    pub path: String,
    /// The probe file, where only it failed on the image.
    pub probe: Option<String>,
    /// Why.
    pub error: String,
}

/// Who is told, from the thread that explains; an error ends the job.
pub type Tell<'a> = dyn FnMut(Event) -> anyhow::Result<()> + Send + 'a;

/// What turns tokens into files, on the host alone.
struct Explainer<'a> {
    spec: &'a InspectSpec,
    /// For each probe, in what the tokens are others than those it was trained on, in words.
    tokens_changed: Vec<Vec<String>>,
    /// The changes that measure how stable orders are; none where it is not asked.
    kinds: Vec<(String, Vec<Perturbation>)>,
    /// What chance gives.
    nulls: NullBands,
    marked: Option<marked::Marked>,
    /// What a step that is worth waiting for is told.
    cancel: Cancel,
}

/// The cells of a row of the summary, and what is told of it.
type Explained = (Vec<String>, Value);

/// Explains every image through every probe.
///
/// # Errors
/// If the backbone or one of the probes cannot read, before anything is written; if a file cannot be written;
/// if it was ended: then what was explained until then is written, the summary included.
pub fn run(
    engine: &mut Engine,
    spec: &InspectSpec,
    reporter: &mut dyn Reporter,
    tell: &mut Tell<'_>,
) -> Result<(), JobError> {
    let preprocessor = preprocessor(&spec.backbone, spec.taking.size).map_err(JobError::failed)?;
    let reader = TokenReader::open(&spec.backbone, preprocessor, &spec.taking, &spec.device);
    let reader = reader.map_err(JobError::failed)?;
    check_fit(&spec.probes, &reader, &spec.taking, reporter)?;
    atomic_file::make_folder(&spec.out)
        .with_context(|| format!("{}: the output folder cannot be made", spec.out.display()))
        .map_err(JobError::failed)?;
    let mut summary = Summary::new(&spec.out).map_err(JobError::failed)?;
    let explainer = Explainer {
        spec,
        tokens_changed: spec.probes.iter().map(|loaded| reader.changes(&loaded.probe)).collect(),
        kinds: if spec.stability { kinds(spec.settings.seed) } else { Vec::new() },
        nulls: NullBands::new(spec.settings.null_draws, spec.settings.seed),
        marked: spec.masks.as_deref().map(marked::Marked::open).transpose().map_err(JobError::failed)?,
        cancel: reporter.cancel().clone(),
    };
    let env = engine.env;
    if let Some(passes) = spec.causal.as_ref().map(|causal| causal.passes(spec.probes.len() * RANKINGS.len()))
        && passes > 0.0
    {
        let cost =
            format!("Removal curves cost the encoder up to {passes:.0} whole images more for every image");
        tell(Event::Note(cost)).map_err(JobError::failed)?;
    }
    let mut go_on = |at: Option<(Mode, usize, usize)>| {
        if let Some((mode, done, total)) = at {
            reporter.progress(&removal::told(mode), done as u64, Some(total as u64), removal::UNIT);
        }
        reporter.pause(engine)
    };
    explainer.all(&reader, env, &mut go_on, &mut summary, tell).map_err(JobError::failed)?;
    explainer.marked.iter().flat_map(marked::Marked::warnings).for_each(|warning| reporter.warn(warning));
    let _working = reporter.cancel().working();
    summary.finish().map_err(JobError::failed)?;
    reporter.cancel().check()
}

/// Refuses, before any image is read, probes that cannot read what the backbone gives; warns of
/// probes trained on other weights or other tokens.
fn check_fit(
    probes: &[Loaded],
    reader: &TokenReader,
    taking: &TokenSpec,
    reporter: &mut dyn Reporter,
) -> Result<(), JobError> {
    let TokenReader { backbone, preprocessor, .. } = reader;
    let taking = taking.settled(backbone.layers(), backbone.model_type());
    let cls = backbone.config().family.cls;
    // The grid is known beforehand where all images become one size.
    let grid = preprocessor.output().map(|(height, width)| backbone.grid(height, width)).transpose();
    let grid = grid.map_err(JobError::failed)?;
    for Loaded { path, probe, .. } in probes {
        let own = probe.arrays.get("order").map_or(2, |order| order.data.len());
        probe.fits(backbone.width(), grid.map_or(own, Grid::len), cls).map_err(JobError::failed)?;
        if let Some(why) = doubt(probe, backbone.fingerprint(), &taking, &preprocessor.key()) {
            reporter.warn(format!("probe {} {why}; its numbers may mean little", path.display()));
        }
    }
    Ok(())
}

impl Explainer<'_> {
    /// Reads and explains every image on this thread and two more, as long as `go_on` says so.
    fn all(
        &self,
        reader: &TokenReader,
        env: WorkerEnv,
        go_on: &mut GoOn<'_>,
        summary: &mut Summary,
        tell: &mut Tell<'_>,
    ) -> anyhow::Result<()> {
        let prepare = |source: &Source| {
            let photo = (env.photo)(&ImageSource::from(source.path.clone()));
            let pixels = photo.map_err(Into::into).and_then(|photo| reader.prepare(&photo));
            pixels.map_err(|error| lines(&error).join(": "))
        };
        let batch = self.spec.batch;
        std::thread::scope(|scope| {
            // One batch waits before and one behind the one that is read, and one is at work on either side.
            let (send, prepared) = sync_channel(1);
            let (hand, items) = sync_channel(1);
            let named = |name: &str| Builder::new().name(name.into());
            named("decode")
                .spawn_scoped(scope, move || prepare_ahead(self.spec.images.chunks(batch), prepare, send))
                .context("the decoding thread cannot be started")?;
            let explaining = named("explain")
                .spawn_scoped(scope, move || self.run(&items, summary, tell))
                .context("the explaining thread cannot be started")?;
            for (at, prepared) in prepared.into_iter().enumerate() {
                if go_on(None).is_err() {
                    break;
                }
                let items = {
                    let _working = self.cancel.working();
                    self.read(reader, at * batch, prepared, go_on)
                };
                // A closed channel means that explaining has failed; its error comes below.
                if hand.send(items).is_err() {
                    break;
                }
            }
            drop(hand);
            explaining.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Explains every batch that comes, image by image and probe by probe.
    fn run(
        &self,
        batches: &Receiver<Vec<Item>>,
        summary: &mut Summary,
        tell: &mut Tell<'_>,
    ) -> anyhow::Result<()> {
        for items in batches {
            let _working = self.cancel.working();
            self.prepare_nulls(&items);
            let pairs: Vec<(&Item, Option<usize>)> = items
                .iter()
                .flat_map(|item| match item.1 {
                    Ok(_) => (0..self.spec.probes.len()).map(|probe| (item, Some(probe))).collect(),
                    Err(_) => vec![(item, None)],
                })
                .collect();
            let rows = pairs.into_par_iter().map(|(item, probe)| self.explain(item, probe));
            for row in rows.collect::<anyhow::Result<Vec<_>>>()? {
                tell(match row {
                    Ok((cells, document)) => {
                        summary.row(&cells)?;
                        Event::Explained(document)
                    }
                    Err(failure) => Event::Failed(failure),
                })?;
            }
            tell(Event::Passed(items.len()))?;
        }
        Ok(())
    }

    /// Computes the null bands of the images that came, each with all cores.
    fn prepare_nulls(&self, items: &[Item]) {
        for Read { tokens, .. } in items.iter().filter_map(|(_, read)| read.as_ref().ok()) {
            for Loaded { probe, change, .. } in &self.spec.probes {
                prepare_nulls(probe, change.clone(), tokens, &self.nulls);
            }
        }
    }

    /// Explains and writes one image through one probe. The inner error leaves it out; the outer
    /// one (a full disk, say) ends the run.
    fn explain(&self, item: &Item, probe: Option<usize>) -> anyhow::Result<Result<Explained, Failure>> {
        let (index, read) = item;
        let source = &self.spec.images[*index];
        let image = source.path.display().to_string();
        let failure = |error: String| Failure {
            image: *index,
            path: image.clone(),
            probe: probe.map(|at| self.spec.probes[at].path.display().to_string()),
            error,
        };
        let of = |error: anyhow::Error| lines(&error).join(": ");
        let (Read { tokens, seen, rollout, changed, removals, regions }, at) = match (read, probe) {
            (Ok(read), Some(probe)) => (read, probe),
            (Err(why), _) => return Ok(Err(failure(why.clone()))),
            (Ok(_), None) => unreachable!("what was read comes with a probe"),
        };
        let loaded = &self.spec.probes[at];
        let question = Question {
            image: image.clone(),
            probe: loaded.path.display().to_string(),
            class: loaded.class,
            rho: self.spec.settings.rho,
            image_seed: *index as u64,
            nulls: Some(&self.nulls),
            tokens_changed: self.tokens_changed[at].clone(),
            top: TOP,
        };
        let mut trace =
            match explain_changed(&loaded.probe, loaded.change.clone(), tokens, seen.clone(), question) {
                Ok(trace) => trace,
                Err(error) => return Ok(Err(failure(of(error.into())))),
            };
        trace.regions.clone_from(regions);
        let (read, asked) = ((&loaded.probe, &loaded.change), self.spec.settings.attributions);
        attribute(&mut trace, read, tokens, *index as u64, asked, rollout.as_ref());
        let mut document = write::document(&trace, loaded, self);
        let folder = self.spec.out.join(&source.stem);
        match self.stability(*index, at, changed) {
            Some(Ok(stability)) => {
                write::stability(&folder, &loaded.stem, &stability)?;
            }
            Some(Err(error)) => return Ok(Err(failure(of(error.into())))),
            None => {}
        }
        match removals.get(at) {
            Some(Ok(removal)) => write::removal(&folder, &loaded.stem, removal)?,
            Some(Err(error)) => return Ok(Err(failure(error.clone()))),
            None => {}
        }
        let tokens = self.spec.save_tokens.then_some(tokens);
        write::files(&folder, &loaded.stem, &trace, &document, tokens, self.spec.save_traces)?;
        if self.spec.save_gif {
            write::gif(&folder, &loaded.stem, trace.clone())?;
        }
        let cells = summary::cells(&trace, &document, &source.stem, &loaded.stem);
        document["files"] = ["npz", "json"]
            .map(|kind| folder.join(format!("{}.{kind}", loaded.stem)).display().to_string())
            .to_vec()
            .into();
        Ok(Ok((cells, document)))
    }

    /// How stable the order of an image is; nothing where it is not asked, or there is no single order.
    fn stability(
        &self,
        index: usize,
        at: usize,
        changed: &[Tokens],
    ) -> Option<Result<Stability, OrderError>> {
        let name = |loaded: &Loaded| loaded.path.file_stem().map(|_| loaded.name());
        let loaded = &self.spec.probes[at];
        let is_peer = |peer: &&Loaded| peer.change == loaded.change && peer.path != loaded.path;
        let peers = self.spec.probes.iter().filter(is_peer);
        let measurement = Measurement {
            image: self.spec.images[index].path.file_name()?.to_string_lossy().into_owned(),
            name: name(loaded)?,
            probe: &loaded.probe,
            reading: Reading {
                change: loaded.change.clone(),
                tokens: self.tokens_changed[at].clone(),
                ..Reading::default()
            },
            image_seed: index as u64,
            peers: peers.filter_map(|peer| Some((name(peer)?, &peer.probe))).collect(),
        };
        match (!changed.is_empty()).then(|| measurement.take(changed, &self.kinds))? {
            Err(OrderError::None { .. }) => None,
            found => Some(found),
        }
    }
}
