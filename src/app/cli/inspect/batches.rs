//! From image files to explanations, batch by batch.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use anyhow::Context;
use rayon::prelude::*;

use super::report::{Failure, Report, Row};
use super::sources::Source;
use super::write;
use crate::app::terminal::error;
use crate::app::terminal::interrupt;
use crate::model::backbone::Backbone;
use crate::model::backbone::preprocess::{Pixels, Preprocessor};
use crate::model::data::image::Photo;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::stability::perturb::Perturbation;
use crate::model::explain::stability::{Measurement, OrderError, Stability};
use crate::model::explain::{Question, explain, prepare_nulls};
use crate::model::probe::Probe;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// Predictions kept in the results.
const TOP: usize = 24;

/// A probe, where it came from, what its results are called and which class is asked for.
pub struct Loaded {
    /// Its file.
    pub path: PathBuf,
    /// What its results are called.
    pub stem: String,
    /// What it holds.
    pub probe: Probe,
    /// The class of the evidence; the predicted one where absent.
    pub class: Option<usize>,
}

/// One run over all images. Tensors stay on the thread that runs it.
pub struct Job<'a> {
    /// What reads pixels.
    pub backbone: &'a Backbone,
    /// What prepares them.
    pub preprocessor: &'a Preprocessor,
    /// The images.
    pub images: &'a [Source],
    /// The layer whose tokens are read.
    pub layer: usize,
    /// Images in one forward pass.
    pub batch: usize,
    /// What is done with the tokens.
    pub explainer: Explainer<'a>,
}

/// What turns tokens into files, on the host alone.
pub struct Explainer<'a> {
    /// The probes.
    pub probes: &'a [Loaded],
    /// The images.
    pub images: &'a [Source],
    /// Where results go.
    pub out: &'a Path,
    /// Whether tokens are written too.
    pub save_tokens: bool,
    /// Whether traces are written too.
    pub save_traces: bool,
    /// The changes that measure how stable orders are; none where it is not asked.
    pub kinds: Vec<(String, Vec<Perturbation>)>,
    /// What the proxy decays by, instead of the spectral radius.
    pub rho: Option<f64>,
    /// What chance gives.
    pub nulls: NullBands,
    /// Seed of what chance gives.
    pub seed: u64,
}

/// What the backbone says of an image.
struct Read {
    tokens: Tokens,
    /// What it saw, where traces are wanted.
    seen: Picture,
    /// What it says of the image and each of its changed copies, where stability is.
    changed: Vec<Tokens>,
}

/// An image by its index, and what was read or why nothing was.
type Item = (usize, anyhow::Result<Read>);

impl Job<'_> {
    /// Reads and explains every image.
    pub fn run(&self, report: &mut Report) -> anyhow::Result<()> {
        std::thread::scope(|scope| {
            // One batch waits while another is explained and a third is read.
            let (send, receive) = sync_channel(1);
            let explainer = &self.explainer;
            let explaining = std::thread::Builder::new()
                .name("explain".into())
                .spawn_scoped(scope, move || explainer.run(&receive, report))
                .context("the explaining thread cannot be started")?;
            for (at, images) in self.images.chunks(self.batch).enumerate() {
                if interrupt::flow().is_break() {
                    break;
                }
                // A closed channel means that explaining has failed; its error comes below.
                if send.send(self.read(at * self.batch, images)).is_err() {
                    break;
                }
            }
            drop(send);
            explaining.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Tokens of the images from index `first` on.
    fn read(&self, first: usize, images: &[Source]) -> Vec<Item> {
        let prepared: Vec<anyhow::Result<Pixels>> =
            images.par_iter().map(|source| self.prepare(&source.path)).collect();
        let _working = interrupt::working();
        let mut items: Vec<Item> = Vec::with_capacity(images.len());
        let (mut good, mut pixels) = (Vec::new(), Vec::new());
        for (index, prepared) in (first..).zip(prepared) {
            match prepared {
                Ok(ready) => {
                    good.push(index);
                    pixels.push(ready);
                }
                Err(error) => items.push((index, Err(error))),
            }
        }
        match self.backbone.forward_layers(&pixels, &[self.layer], true) {
            Ok(tokens) => {
                let read = tokens.into_iter().flatten().zip(&pixels);
                let read = read.map(|(tokens, pixels)| {
                    let changed = self.changed(&tokens, pixels)?;
                    Ok(Read { tokens, seen: self.seen(pixels), changed })
                });
                items.extend(good.into_iter().zip(read));
            }
            Err(error) => {
                let error = error.to_string();
                items.extend(good.into_iter().map(|index| (index, Err(anyhow::anyhow!(error.clone())))));
            }
        }
        items.sort_by_key(|(index, _)| *index);
        items
    }

    /// What the backbone saw; empty where no trace is written.
    fn seen(&self, pixels: &Pixels) -> Picture {
        match self.explainer.save_traces {
            true => self.preprocessor.seen(pixels),
            false => Picture::default(),
        }
    }

    /// Tokens of an image and of each of its changed copies; none where stability is not asked.
    fn changed(&self, tokens: &Tokens, pixels: &Pixels) -> anyhow::Result<Vec<Tokens>> {
        let changes: Vec<Perturbation> =
            self.explainer.kinds.iter().flat_map(|(_, changes)| changes.iter().copied()).collect();
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let seen = self.preprocessor.seen(pixels);
        let copy = |change: &Perturbation| self.preprocessor.pixels(&change.picture(&seen));
        let copies: Vec<Pixels> = changes.par_iter().map(copy).collect();
        let mut all = vec![tokens.clone()];
        for batch in copies.chunks(self.batch) {
            all.extend(self.backbone.forward_layers(batch, &[self.layer], true)?.into_iter().flatten());
        }
        Ok(all)
    }

    /// Pixels the backbone can read.
    fn prepare(&self, path: &Path) -> anyhow::Result<Pixels> {
        let pixels = self.preprocessor.apply(&Photo::open(path)?)?;
        self.backbone.grid(pixels.height, pixels.width)?;
        Ok(pixels)
    }
}

impl Explainer<'_> {
    /// Explains every batch that comes, image by image and probe by probe.
    fn run(&self, batches: &Receiver<Vec<Item>>, report: &mut Report) -> anyhow::Result<()> {
        for items in batches {
            let _working = interrupt::working();
            self.prepare_nulls(&items);
            let pairs: Vec<(&Item, Option<&Loaded>)> = items
                .iter()
                .flat_map(|item| match item.1 {
                    Ok(_) => self.probes.iter().map(|probe| (item, Some(probe))).collect(),
                    Err(_) => vec![(item, None)],
                })
                .collect();
            let rows = pairs.into_par_iter().map(|(item, probe)| self.explain(item, probe));
            for row in rows.collect::<anyhow::Result<Vec<_>>>()? {
                match row {
                    Ok(row) => report.row(row)?,
                    Err(failure) => report.failure(failure)?,
                }
            }
            report.passed(items.len());
        }
        Ok(())
    }

    /// Computes the null bands of the images that came, each with all cores.
    fn prepare_nulls(&self, items: &[Item]) {
        for Read { tokens, .. } in items.iter().filter_map(|(_, read)| read.as_ref().ok()) {
            for Loaded { probe, .. } in self.probes {
                prepare_nulls(probe, Intervention::None, tokens, &self.nulls);
            }
        }
    }

    /// Explains and writes one image through one probe. The inner error leaves it out; the outer
    /// one (a full disk, say) ends the run.
    fn explain(&self, item: &Item, probe: Option<&Loaded>) -> anyhow::Result<Result<Row, Failure>> {
        let (index, read) = item;
        let source = &self.images[*index];
        let image = source.path.display().to_string();
        let failure = |error: &anyhow::Error| Failure {
            image: *index,
            path: image.clone(),
            probe: probe.map(|probe| probe.path.display().to_string()),
            error: error::lines(error).join(": "),
        };
        let (Read { tokens, seen, changed }, loaded) = match (read, probe) {
            (Ok(read), Some(probe)) => (read, probe),
            (Err(error), _) => return Ok(Err(failure(error))),
            (Ok(_), None) => unreachable!("what was read comes with a probe"),
        };
        let question = Question {
            image: image.clone(),
            probe: loaded.path.display().to_string(),
            class: loaded.class,
            rho: self.rho,
            draw: *index as u64,
            nulls: Some(&self.nulls),
            top: TOP,
        };
        let trace = match explain(&loaded.probe, tokens, seen.clone(), question) {
            Ok(trace) => trace,
            Err(error) => return Ok(Err(failure(&error.into()))),
        };
        let document = write::document(&trace, loaded, self);
        let folder = self.out.join(&source.stem);
        match self.stability(*index, loaded, changed) {
            Some(Ok(stability)) => {
                write::stability(&folder, &loaded.stem, &stability)?;
            }
            Some(Err(error)) => return Ok(Err(failure(&error.into()))),
            None => {}
        }
        let tokens = self.save_tokens.then_some(tokens);
        write::files(&folder, &loaded.stem, &trace, &document, tokens, self.save_traces)?;
        Ok(Ok(Row::new(&trace, document, &folder, &source.stem, &loaded.stem)))
    }

    /// How stable the order of an image is; nothing where it is not asked, or there is no single order.
    fn stability(
        &self,
        index: usize,
        loaded: &Loaded,
        changed: &[Tokens],
    ) -> Option<Result<Stability, OrderError>> {
        let name = |loaded: &Loaded| loaded.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let peers = self.probes.iter().filter(|peer| peer.stem != loaded.stem);
        let measurement = Measurement {
            image: self.images[index].path.file_name()?.to_string_lossy().into_owned(),
            name: name(loaded)?,
            probe: &loaded.probe,
            change: Intervention::None,
            draw: index as u64,
            peers: peers.filter_map(|peer| Some((name(peer)?, &peer.probe))).collect(),
        };
        match (!changed.is_empty()).then(|| measurement.take(changed, &self.kinds))? {
            Err(OrderError::None { .. }) => None,
            found => Some(found),
        }
    }
}
