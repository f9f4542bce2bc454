//! From image files to explanations, batch by batch.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Builder;

use anyhow::Context;
use rayon::prelude::*;

use super::report::{Failure, Report, Row};
use super::sources::Source;
use super::write;
use crate::app::jobs::explain::TOP;
use crate::app::jobs::stability;
use crate::app::jobs::tokens::{TokenReader, prepare_ahead};
use crate::app::terminal::error;
use crate::app::terminal::interrupt;
use crate::model::backbone::preprocess::Pixels;
use crate::model::data::image::Photo;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::explain::stability::perturb::Perturbation;
use crate::model::explain::stability::{Measurement, OrderError, Stability};
use crate::model::explain::{Question, explain_changed, prepare_nulls};
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

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
    /// In what the tokens are others than those it was trained on, in words.
    pub tokens_changed: Vec<String>,
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
    /// What it says of the image and each of its changed copies, where stability is asked.
    changed: Vec<Tokens>,
}

/// An image by its index, and what was read or why nothing was.
type Item = (usize, Result<Read, String>);

/// Reads and explains every image, `batch` of them in one forward pass on this thread.
pub fn run(
    reader: &TokenReader,
    batch: usize,
    explainer: &Explainer<'_>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let prepare = |source: &Source| {
        let pixels = Photo::open(&source.path).map_err(Into::into).and_then(|photo| reader.prepare(&photo));
        pixels.map_err(|error| error::lines(&error).join(": "))
    };
    std::thread::scope(|scope| {
        // One batch waits before and one behind the one that is read, and one is at work on either side.
        let (send, prepared) = sync_channel(1);
        let (hand, items) = sync_channel(1);
        let named = |name: &str| Builder::new().name(name.into());
        named("decode")
            .spawn_scoped(scope, move || prepare_ahead(explainer.images.chunks(batch), prepare, send))
            .context("the decoding thread cannot be started")?;
        let explaining = named("explain")
            .spawn_scoped(scope, move || explainer.run(&items, report))
            .context("the explaining thread cannot be started")?;
        for (at, prepared) in prepared.into_iter().enumerate() {
            if interrupt::flow().is_break() {
                break;
            }
            let items = {
                let _working = interrupt::working();
                explainer.read(reader, batch, at * batch, prepared)
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

impl Explainer<'_> {
    /// Tokens of the images from index `first` on, and of their changed copies where stability is asked.
    fn read(
        &self,
        reader: &TokenReader,
        batch: usize,
        first: usize,
        prepared: Vec<Result<Pixels, String>>,
    ) -> Vec<Item> {
        let Ok(read) = reader.read(prepared, |error| Ok::<_, Infallible>(error.to_string()));
        let more = |(tokens, pixels): (Tokens, Pixels)| {
            let looked_at = self.save_traces || !self.kinds.is_empty();
            let seen = if looked_at { reader.preprocessor.seen(&pixels) } else { Picture::default() };
            let mut changed = Vec::new();
            if !self.kinds.is_empty() {
                changed.push(tokens.clone());
                for copies in stability::changed(&reader.preprocessor, &seen, &self.kinds).chunks(batch) {
                    changed.extend(reader.forward(copies).map_err(|error| error.to_string())?);
                }
            }
            let seen = if self.save_traces { seen } else { Picture::default() };
            Ok(Read { tokens, seen, changed })
        };
        (first..).zip(read.into_iter().map(|read| read.and_then(more))).collect()
    }

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
            for Loaded { probe, change, .. } in self.probes {
                prepare_nulls(probe, *change, tokens, &self.nulls);
            }
        }
    }

    /// Explains and writes one image through one probe. The inner error leaves it out; the outer
    /// one (a full disk, say) ends the run.
    fn explain(&self, item: &Item, probe: Option<&Loaded>) -> anyhow::Result<Result<Row, Failure>> {
        let (index, read) = item;
        let source = &self.images[*index];
        let image = source.path.display().to_string();
        let failure = |error: String| Failure {
            image: *index,
            path: image.clone(),
            probe: probe.map(|probe| probe.path.display().to_string()),
            error,
        };
        let of = |error: anyhow::Error| error::lines(&error).join(": ");
        let (Read { tokens, seen, changed }, loaded) = match (read, probe) {
            (Ok(read), Some(probe)) => (read, probe),
            (Err(why), _) => return Ok(Err(failure(why.clone()))),
            (Ok(_), None) => unreachable!("what was read comes with a probe"),
        };
        let question = Question {
            image: image.clone(),
            probe: loaded.path.display().to_string(),
            class: loaded.class,
            rho: self.rho,
            image_seed: *index as u64,
            nulls: Some(&self.nulls),
            tokens_changed: loaded.tokens_changed.clone(),
            top: TOP,
        };
        let trace = match explain_changed(&loaded.probe, loaded.change, tokens, seen.clone(), question) {
            Ok(trace) => trace,
            Err(error) => return Ok(Err(failure(of(error.into())))),
        };
        let document = write::document(&trace, loaded, self);
        let folder = self.out.join(&source.stem);
        match self.stability(*index, loaded, changed) {
            Some(Ok(stability)) => {
                write::stability(&folder, &loaded.stem, &stability)?;
            }
            Some(Err(error)) => return Ok(Err(failure(of(error.into())))),
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
        let peers =
            self.probes.iter().filter(|peer| (peer.change, &peer.path) != (loaded.change, &loaded.path));
        let peers = peers.filter(|peer| peer.change == loaded.change);
        let measurement = Measurement {
            image: self.images[index].path.file_name()?.to_string_lossy().into_owned(),
            name: name(loaded)?,
            probe: &loaded.probe,
            reading: Reading {
                change: loaded.change,
                tokens: loaded.tokens_changed.clone(),
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
