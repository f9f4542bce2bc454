//! Explains image files through probes (docs/definitions.md, section 8): a job without a window, on this or
//! another machine. The files are built here and sent as events; the caller stores them.
//!
//! The calling thread owns every tensor and runs the backbone batch by batch; a second thread decodes the
//! next one, and a third explains the one before, using one core per image and probe.

mod event;
pub mod flags;
mod marked;
mod read;
pub mod sources;
mod summary;
mod write;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;

use anyhow::Context;
use burn::tensor::Device;
use rayon::prelude::*;

pub use self::event::{Explained, Failure, InspectEvent, InspectSink};
pub use self::flags::{InspectFlags, Modes, modes};
use self::read::{GoOn, Item, Read};
pub use self::summary::Summary;
use super::engine::{Engine, WorkerEnv};
use super::explain::TOP;
use super::removal;
use super::result_file::ResultFile;
use super::tokens::{TokenReader, doubt, prepare_ahead, preprocessor};
use super::{Cancel, ExplainSettings, JobError, Reporter};
use crate::app::user_error::{Usage, lines};
use crate::model::backbone::BackboneError;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::ImageSource;
use crate::model::explain::attribution::attribute;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::removal::{Mode, RANKINGS, RemovalSpec};
use crate::model::explain::stability::perturb::{Perturbation, kinds};
use crate::model::explain::stability::{Measurement, OrderError, Stability};
use crate::model::explain::{Question, explain, prepare_nulls};
use crate::model::grid::Grid;
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;

/// A probe with its path, the name of its results and the requested class.
struct Loaded {
    path: PathBuf,
    stem: String,
    probe: Probe,
    /// The intervention on how it reads.
    change: Intervention,
    /// The class of the evidence; the predicted one where absent.
    class: Option<usize>,
    /// Zero-based position of `class` among the requested ones: results independent of the class are computed for 0 only.
    asked: usize,
}

impl Loaded {
    /// The name of its file, without the extension.
    fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A file to read, and the name of its results: its stem, numbered if another file has it already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file, as it was given or found.
    pub path: PathBuf,
    /// The name of its results.
    pub stem: String,
}

/// What to explain, and what to write.
struct Spec {
    /// The backbone's folder.
    backbone: PathBuf,
    /// How its tokens are extracted.
    token_spec: TokenSpec,
    /// The device it runs on.
    device: Device,
    /// Images in one forward pass.
    batch: usize,
    /// The probes.
    probes: Vec<Loaded>,
    /// The images.
    images: Vec<Source>,
    /// Whether tokens are written too.
    save_tokens: bool,
    /// Whether traces are written too.
    save_traces: bool,
    /// Whether the reading is also written as a GIF animation.
    save_gif: bool,
    /// Whether the stability of orders is measured.
    stability: bool,
    /// The removal curves to measure, if any.
    causal: Option<RemovalSpec>,
    /// Further settings of the explanations.
    settings: ExplainSettings,
    /// Where regions of the images come from.
    masks: Option<PathBuf>,
}

/// Turns tokens into files, on the CPU only.
struct Explainer<'a> {
    spec: &'a Spec,
    tell: &'a InspectSink<'a>,
    /// For each probe, how the tokens differ from those it was trained on, as text.
    tokens_changed: Vec<Vec<String>>,
    /// The perturbations that measure stability; empty unless requested.
    kinds: Vec<(String, Vec<Perturbation>)>,
    /// Null bands of the diagnostics.
    nulls: NullBands,
    marked: Option<marked::Marked>,
    /// Checked by long computations, so that they stop early.
    cancel: Cancel,
}

/// Explains every image through every probe.
///
/// # Errors
/// If the backbone or a probe cannot read the images, before any event is sent; if the sink fails; or if the job
/// is cancelled, after the events of what was explained until then.
pub fn run(
    engine: &mut Engine,
    flags: &InspectFlags,
    reporter: &mut dyn Reporter,
    tell: &InspectSink<'_>,
) -> Result<(), JobError> {
    let spec = &flags.open(engine.env, reporter)?;
    let preprocessor = preprocessor(&spec.backbone, spec.token_spec.size)?;
    let reader = TokenReader::open(&spec.backbone, preprocessor, &spec.token_spec, &spec.device);
    let reader = reader.map_err(|error| match error {
        BackboneError::Layer { layer, layers } => JobError::failed(Usage(format!(
            "--layer {layer}: {} has layers 1 to {layers}, and 0 for its embeddings",
            flags.backbone
        ))),
        error @ BackboneError::Blocks { .. } => JobError::failed(Usage(error.to_string())),
        other => JobError::failed(other),
    })?;
    check_fit(&spec.probes, &reader, &spec.token_spec, reporter)?;
    let marked = spec.masks.as_deref().map(marked::Marked::open).transpose()?;
    tell(InspectEvent::Begun(spec.images.len()))?;
    let explainer = Explainer {
        spec,
        tell,
        tokens_changed: spec.probes.iter().map(|loaded| reader.changes(&loaded.probe)).collect(),
        kinds: if spec.stability { kinds(spec.settings.seed) } else { Vec::new() },
        nulls: NullBands::new(spec.settings.null_draws, spec.settings.seed),
        marked,
        cancel: reporter.cancel().clone(),
    };
    let env = engine.env;
    if let Some(passes) = spec.causal.as_ref().map(|causal| causal.passes(spec.probes.len() * RANKINGS.len()))
        && passes > 0.0
    {
        let cost = format!("Removal curves cost up to {passes:.0} more full encoder passes per image");
        tell(InspectEvent::Note(cost))?;
    }
    let mut go_on = |at: Option<(Mode, usize, usize)>| {
        if let Some((mode, done, total)) = at {
            reporter.progress(&removal::told(mode), done as u64, Some(total as u64), removal::UNIT);
        }
        reporter.pause(engine)
    };
    explainer.all(&reader, env, &mut go_on)?;
    explainer.marked.iter().flat_map(marked::Marked::warnings).for_each(|warning| reporter.warn(warning));
    reporter.cancel().check()
}

/// Refuses, before any image is read, probes and readings that do not fit the backbone's tokens; warns of
/// probes trained on other weights or other tokens.
fn check_fit(
    probes: &[Loaded],
    reader: &TokenReader,
    token_spec: &TokenSpec,
    reporter: &mut dyn Reporter,
) -> Result<(), JobError> {
    let TokenReader { backbone, preprocessor, .. } = reader;
    let token_spec = token_spec.settled(backbone.layers(), backbone.model_type());
    let cls = backbone.config().family.cls;
    // The grid is known beforehand where all images become one size.
    let grid = preprocessor.output().map(|(height, width)| backbone.grid(height, width)).transpose();
    let grid = grid?;
    for Loaded { path, probe, change, .. } in probes {
        let own = probe.arrays.get("order").map_or(2, |order| order.data.len());
        probe.fits(backbone.width(), grid.map_or(own, Grid::len), cls)?;
        grid.map_or(Ok(()), |grid| change.fits(grid.len()))
            .map_err(|error| JobError::failed(Usage(format!("--reading: {error}"))))?;
        if let Some(why) = doubt(probe, backbone.fingerprint(), &token_spec, &preprocessor.key()) {
            reporter.warn(format!("probe {} {why}; its numbers may mean little", path.display()));
        }
    }
    Ok(())
}

impl Explainer<'_> {
    /// Reads and explains every image on this thread and two more, as long as `go_on` says so.
    fn all(&self, reader: &TokenReader, env: WorkerEnv, go_on: &mut GoOn<'_>) -> anyhow::Result<()> {
        let prepare = |source: &Source| {
            let photo = (env.photo)(&ImageSource::from(source.path.clone()));
            let pixels = photo.map_err(Into::into).and_then(|photo| reader.prepare(&photo));
            pixels.map_err(|error| lines(&error).join(": "))
        };
        let batch = self.spec.batch;
        std::thread::scope(|scope| {
            // On either side of the batch that is read, one batch waits in the channel and one is being worked on.
            let (send, prepared) = sync_channel(1);
            let (hand, items) = sync_channel(1);
            let named = |name: &str| Builder::new().name(name.into());
            named("decode")
                .spawn_scoped(scope, move || prepare_ahead(self.spec.images.chunks(batch), prepare, send))
                .context("the decoding thread cannot be started")?;
            let explaining = named("explain")
                .spawn_scoped(scope, move || self.run(&items))
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

    /// Explains every received batch, image by image and probe by probe.
    fn run(&self, batches: &Receiver<Vec<Item>>) -> anyhow::Result<()> {
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
                (self.tell)(row.map_or_else(InspectEvent::Failed, InspectEvent::Explained))?;
            }
            (self.tell)(InspectEvent::Passed(items.len()))?;
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

    /// Explains one image through one probe, and sends its files. An inner error skips this pair; an outer
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
        let mut trace = match explain(&loaded.probe, loaded.change.clone(), tokens, seen.clone(), question) {
            Ok(trace) => trace,
            Err(error) => return Ok(Err(failure(of(error.into())))),
        };
        trace.regions.clone_from(regions);
        let (read, asked) = ((&loaded.probe, &loaded.change), self.spec.settings.attributions);
        attribute(&mut trace, read, tokens, *index as u64, asked, rollout.as_ref());
        let document = write::document(&trace, loaded, self);
        let folder = Path::new(&source.stem);
        let keep = |file: ResultFile| (self.tell)(InspectEvent::File(file));
        match self.stability(*index, at, changed) {
            Some(Ok(stability)) => {
                keep(write::stability(folder, &loaded.stem, &stability)?)?;
            }
            Some(Err(error)) => return Ok(Err(failure(of(error.into())))),
            None => {}
        }
        match removals.get(at) {
            Some(Ok(removal)) => {
                write::removal(folder, &loaded.stem, removal)?.into_iter().try_for_each(keep)?;
            }
            Some(Err(error)) => return Ok(Err(failure(error.clone()))),
            None => {}
        }
        let tokens = self.spec.save_tokens.then_some(tokens);
        let [npz, json] = write::files(folder, &loaded.stem, &trace, &document, tokens)?;
        let files = [&npz, &json].map(|file| file.path.clone());
        keep(npz)?;
        if self.spec.save_traces {
            keep(write::trace(folder, &loaded.stem, &trace)?)?;
        }
        keep(json)?;
        if self.spec.save_gif {
            write::gif(folder, &loaded.stem, trace.clone())?.map_or(Ok(()), keep)?;
        }
        let cells = summary::cells(&trace, &document, &source.stem, &loaded.stem);
        Ok(Ok(Explained { document, cells, files }))
    }

    /// The stability of an image's order; `None` if it is not requested, the head has no single order, or it was
    /// already measured with another class.
    fn stability(
        &self,
        index: usize,
        at: usize,
        changed: &[Tokens],
    ) -> Option<Result<Stability, OrderError>> {
        let name = |loaded: &Loaded| loaded.path.file_stem().map(|_| loaded.name());
        let loaded = &self.spec.probes[at];
        if loaded.asked > 0 {
            return None;
        }
        let is_peer =
            |peer: &&Loaded| peer.asked == 0 && peer.change == loaded.change && peer.path != loaded.path;
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
