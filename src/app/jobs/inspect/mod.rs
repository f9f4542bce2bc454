//! Explains image files through probes (docs/definitions.md, section 8): a job without a window, on this or
//! another machine. The files are built here and sent as events; the caller stores them.
//!
//! The calling thread owns every tensor and runs the backbone batch by batch; a second thread decodes the
//! next one, and a third explains the one before, using one core per image and probe.

mod event;
pub mod flags;
mod read;
pub mod sources;
mod summary;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

use anyhow::Context;
use burn::tensor::Device;
use rayon::prelude::*;

pub use self::event::{Explained, Failure, InspectEvent};
pub use self::flags::{InspectFlags, Modes, modes};
use self::read::{Item, Pass, Read};
pub use self::summary::Summary;
use super::engine::Engine;
use super::result_file::ResultFile;
use super::stability::left_out;
use super::tokens::{TokenReader, prepare_ahead, preprocessor, token_warning};
use super::{Cancel, JobError, Reporter, Sink};
use crate::app::format::{file_name, file_stem};
use crate::app::jobs::user_error::{Usage, lines, refuse};
use crate::model::annotations::{Annotations, RegionSet};
use crate::model::backbone::BackboneError;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::data::ImageSource;
use crate::model::explain::attribution::attribute;
use crate::model::explain::evaluation::Provenance;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::removal::{RANKINGS, RemovalSpec};
use crate::model::explain::stability::perturb::{Perturbation, kinds};
use crate::model::explain::stability::{Measurement, OrderError, Stability};
use crate::model::explain::{Question, explain, prepare_nulls};
use crate::model::grid::Grid;
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;
use crate::model::trace::AttributionSet;

/// A probe with its path, the name of its results and the requested class.
struct Loaded {
    path: PathBuf,
    stem: String,
    probe: Probe,
    /// SHA-256 of its file.
    sha256: String,
    /// The intervention on how it reads.
    change: Intervention,
    /// The class of the evidence; the predicted one where absent.
    class: Option<usize>,
    /// Whether `class` is the first of the requested ones: results independent of the class are computed for that one alone.
    is_first_class: bool,
}

impl Loaded {
    /// The name of its file, without the extension.
    fn name(&self) -> String {
        file_stem(&self.path)
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

/// What to explain, and what to write: the flags, and what they name on this machine.
struct Spec<'a> {
    flags: &'a InspectFlags,
    /// The backbone's folder.
    backbone: PathBuf,
    /// How its tokens are extracted.
    token_spec: TokenSpec,
    /// The device it runs on.
    device: Device,
    probes: Vec<Loaded>,
    images: Vec<Source>,
    /// The removal curves to measure, if any.
    causal: Option<RemovalSpec>,
    /// The methods of attribution to compute in addition to evidence.
    attributions: AttributionSet,
}

/// Turns tokens into files, on the CPU only.
struct Explainer<'a> {
    spec: &'a Spec<'a>,
    tell: &'a Sink<'a, InspectEvent>,
    /// For each probe, how the tokens differ from those it was trained on, as text.
    tokens_changed: Vec<Vec<String>>,
    /// The perturbations that measure stability; empty unless requested.
    kinds: Vec<(String, Vec<Perturbation>)>,
    /// Names of the probes without a single order, which have no stability.
    orderless: Mutex<BTreeSet<String>>,
    /// Null bands of the diagnostics.
    nulls: NullBands,
    /// What made the results, but for the probe.
    provenance: Provenance,
    /// Counts the steps that are worth waiting for.
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
    tell: &Sink<'_, InspectEvent>,
) -> Result<(), JobError> {
    let mut spec = flags.open(engine.env, reporter)?;
    let preprocessor = preprocessor(&spec.backbone, spec.token_spec.size)?;
    let reader = TokenReader::open(&spec.backbone, preprocessor, &spec.token_spec, &spec.device);
    let reader = reader.map_err(|error| match error {
        BackboneError::Layer { layer, layers } => JobError::from(Usage(format!(
            "--layer {layer}: {} has layers 1 to {layers}, and 0 for its embeddings",
            flags.backbone
        ))),
        other => other.into(),
    })?;
    let of_patches = [("--stability", flags.stability), ("--masks", flags.masks.is_some())];
    let asked = of_patches.into_iter().find(|(_, asked)| *asked);
    if let Some((why, (flag, _))) = reader.backbone.why_no_subset().zip(asked) {
        refuse!("{flag}: {why}; choose `--mae-order kept`");
    }
    check_fit(&spec.probes, &reader, &spec.token_spec, reporter)?;
    leave_out_unchanged(&mut spec.probes, reporter)?;
    let spec = &spec;
    let annotations = flags.masks.as_deref().map(Annotations::open).transpose()?;
    tell(InspectEvent::Begun(spec.images.len()))?;
    let explainer = Explainer {
        spec,
        tell,
        tokens_changed: spec.probes.iter().map(|loaded| reader.changes(&loaded.probe)).collect(),
        kinds: if flags.stability { kinds(flags.seed) } else { Vec::new() },
        orderless: Mutex::default(),
        nulls: NullBands::new(flags.null_draws, flags.seed),
        provenance: Provenance {
            weights: reader.backbone.fingerprint().to_owned(),
            config: Some(reader.backbone.config().key()),
            preprocessing: reader.preprocessor.key(),
            layer: reader.token_spec.name(),
            seed: flags.seed,
            ..Provenance::new()
        },
        cancel: reporter.cancel().clone(),
    };
    if let Some(passes) = spec.causal.as_ref().map(|causal| causal.passes(spec.probes.len() * RANKINGS.len()))
        && passes > 0.0
    {
        let cost = format!("Removal curves cost up to {passes:.0} more full backbone passes per image");
        tell(InspectEvent::Note(cost))?;
    }
    let mut pass = Pass { reader: &reader, engine, reporter, annotations, regions: RegionSet::default() };
    explainer.all(&mut pass)?;
    let orderless = explainer.orderless.into_inner().unwrap_or_else(PoisonError::into_inner);
    left_out(orderless).into_iter().for_each(|warning| pass.reporter.warn(warning));
    pass.regions.warnings(true).into_iter().for_each(|warning| pass.reporter.warn(warning));
    pass.reporter.cancel().check()
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
    let token_spec = token_spec.canonical(backbone.layers(), backbone.model_type());
    let (cls, config) = (backbone.config().family.cls, backbone.config().key());
    // The grid is known beforehand where all images become one size.
    let grid = preprocessor.output().map(|(height, width)| backbone.grid(height, width)).transpose()?;
    // Each file once, whatever number of readings and classes are asked for.
    for of_file in probes.chunk_by(|one, other| one.path == other.path) {
        let Loaded { path, probe, .. } = &of_file[0];
        let own = probe.arrays.get("order").map_or(2, |order| order.data.len());
        probe.fits(backbone.width(), grid.map_or(own, Grid::len), cls)?;
        of_file
            .iter()
            .try_for_each(|loaded| grid.map_or(Ok(()), |grid| loaded.change.fits(grid.len())))
            .map_err(|error| Usage(format!("--reading: {error}")))?;
        let weights = (backbone.fingerprint(), Some(config.as_str()));
        let warning = token_warning((path.as_path(), probe), weights, &token_spec, &preprocessor.key());
        warning.into_iter().for_each(|warning| reporter.warn(warning));
    }
    Ok(())
}

/// Leaves out, with one warning for all images, what a requested reading would not change: the mean of the tokens has no order.
fn leave_out_unchanged(probes: &mut Vec<Loaded>, reporter: &mut dyn Reporter) -> Result<(), JobError> {
    let mut refused = None;
    probes.retain(|Loaded { path, probe, change, is_first_class, .. }| {
        let Some(error) = change.refused_by(probe) else { return true };
        let why = format!("{}, {change}: {error}", path.display());
        if *is_first_class {
            reporter.warn(format!("left out: {why}"));
        }
        refused = Some(why);
        false
    });
    match refused {
        Some(why) if probes.is_empty() => {
            refuse!("--reading changes nothing in any of the probes; the last is {why}")
        }
        _ => Ok(()),
    }
}

impl Explainer<'_> {
    /// Reads and explains every image on this thread and two more, until it is cancelled.
    fn all(&self, pass: &mut Pass<'_>) -> anyhow::Result<()> {
        let (reader, env) = (pass.reader, pass.engine.env);
        let prepare_one = |source: &Source| {
            let photo = (env.photo)(&ImageSource::from(source.path.clone()));
            let pixels = photo.map_err(Into::into).and_then(|photo| reader.prepare(&photo));
            pixels.map_err(|error| lines(&error).join(": "))
        };
        let prepare = move |sources: &[Source]| sources.par_iter().map(&prepare_one).collect::<Vec<_>>();
        let batch = self.spec.flags.batch;
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
                if pass.reporter.pause(pass.engine).is_err() {
                    break;
                }
                let items = {
                    let _working = self.cancel.working();
                    self.read(pass, at * batch, prepared)
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
            let pairs: Vec<_> = items
                .iter()
                .flat_map(|(index, read)| match read {
                    Ok(read) => (0..self.spec.probes.len()).map(|at| (*index, Ok((read, at)))).collect(),
                    Err(why) => vec![(*index, Err(why))],
                })
                .collect();
            let rows = pairs.into_par_iter().map(|(index, pair)| match pair {
                Ok((read, at)) => self.explain(index, read, at),
                Err(why) => Ok(Err(self.failure(index, None, why.clone()))),
            });
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

    /// An image that is left out, or only its explanation through `probe`.
    fn failure(&self, image: usize, probe: Option<&Loaded>, error: String) -> Failure {
        let path = self.spec.images[image].path.display().to_string();
        Failure { image, path, probe: probe.map(|loaded| loaded.path.display().to_string()), error }
    }

    /// Explains one image through one probe, and sends its files. An inner error skips this pair; an outer
    /// one (a full disk, say) ends the run.
    fn explain(&self, index: usize, read: &Read, at: usize) -> anyhow::Result<Result<Explained, Failure>> {
        let Read { tokens, seen, rollout, changed, removals, regions } = read;
        let (flags, source, loaded) = (self.spec.flags, &self.spec.images[index], &self.spec.probes[at]);
        let skip = |error: String| Ok(Err(self.failure(index, Some(loaded), error)));
        let said = |error: anyhow::Error| lines(&error).join(": ");
        let question = Question {
            image: source.path.display().to_string(),
            probe: loaded.path.display().to_string(),
            class: loaded.class,
            rho: flags.rho,
            image_seed: index as u64,
            nulls: Some(&self.nulls),
            tokens_changed: self.tokens_changed[at].clone(),
        };
        let mut trace = match explain(&loaded.probe, loaded.change.clone(), tokens, seen.clone(), question) {
            Ok((trace, _)) => trace,
            Err(error) => return skip(said(error.into())),
        };
        trace.regions.clone_from(regions);
        let asked = self.spec.attributions;
        attribute(&mut trace, &loaded.probe, tokens, index as u64, asked, rollout.as_ref());
        let document = write::document(&trace, loaded, self);
        let path = |ending: &str| Path::new(&source.stem).join(format!("{}.{ending}", loaded.stem));
        let keep = |file: ResultFile| (self.tell)(InspectEvent::File(file));
        match self.stability(index, at, changed) {
            Ok(Some(stability)) => keep(write::json(path("stability.json"), &stability)?)?,
            Ok(None) => {}
            Err(error) => return skip(said(error.into())),
        }
        match removals.get(at) {
            Some(Ok(removal)) => {
                keep(write::npz(path("causal.npz"), &write::removal_arrays(removal))?)?;
                keep(write::json(path("causal.json"), removal)?)?;
            }
            Some(Err(error)) => return skip(error.clone()),
            None => {}
        }
        let npz = write::npz(path("npz"), &write::arrays(&trace, flags.save_tokens.then_some(tokens)))?;
        let json = ResultFile { path: path("json"), bytes: format!("{document:#}\n").into_bytes() };
        let files = [&npz, &json].map(|file| file.path.clone());
        keep(npz)?;
        if flags.save_traces {
            keep(write::json(path("trace.json"), &trace)?)?;
        }
        if flags.save_gif {
            write::gif(path("gif"), trace.clone())?.map_or(Ok(()), keep)?;
        }
        keep(json)?; // after all that flags add to it: the report removes what an earlier call had added
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
    ) -> Result<Option<Stability>, OrderError> {
        let loaded = &self.spec.probes[at];
        if changed.is_empty() || !loaded.is_first_class {
            return Ok(None);
        }
        let is_peer =
            |peer: &&Loaded| peer.is_first_class && peer.change == loaded.change && peer.path != loaded.path;
        let peers = self.spec.probes.iter().filter(is_peer);
        let measurement = Measurement {
            image: file_name(&self.spec.images[index].path),
            name: loaded.name(),
            probe: &loaded.probe,
            reading: Reading {
                change: loaded.change.clone(),
                tokens: self.tokens_changed[at].clone(),
                ..Reading::default()
            },
            image_seed: index as u64,
            peers: peers.map(|peer| (peer.name(), &peer.probe)).collect(),
        };
        match measurement.take(changed, &self.kinds) {
            Err(OrderError::None { .. }) => {
                self.orderless.lock().unwrap_or_else(PoisonError::into_inner).insert(loaded.name());
                Ok(None)
            }
            found => found.map(Some),
        }
    }
}
