//! The extraction pipeline: one thread decodes and prepares the next images, the calling thread, which owns
//! every tensor, runs the backbone, and a third writes the tokens of the previous ones. Bounded channels
//! connect them, so memory does not grow with the dataset. The time of each stage is measured, which shows
//! the slowest; that of an image is also measured before, on a few.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use burn::tensor::Device;
use rayon::prelude::*;
use serde::Serialize;

use super::outage::{Outage, Retries, of_disk, read_all, should_retry};
use super::{Event, ExtractError, Plan};
use crate::app::jobs::part::Part;
use crate::app::jobs::tokens::{TokenReader, prepare_ahead, read_batch};
use crate::app::rate::RateMeter;
use crate::model::backbone::BackboneError;
use crate::model::backbone::preprocess::{Pixels, Preprocessor};
use crate::model::data::image::Photo;
use crate::model::data::token_cache::{CacheError, CacheScan, Names, SHARD, TokenCache, Writer};
use crate::model::data::{Dataset, Sample};
use crate::model::io::sha256;
use crate::model::ops::cpu::on_cpu;
use crate::model::tokens::Tokens;

/// Batch size of the backbone in images: a divisor of a shard, so that a resumed extraction forms the
/// same batches as one that was never stopped, and gives the same bits. A GPU gets whole shards, of which it
/// reads as many images at once as fit in its memory.
pub(super) fn batch(device: &Device) -> usize {
    if *device == Device::flex() { SHARD / 2 } else { SHARD }
}

/// Most images on which [`Plan::time`] measures.
pub const MAX_TIMED_IMAGES: usize = 8;

/// Time of every stage of an extraction, in seconds. Decoding and writing run concurrently with the backbone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Number of images read.
    pub images: usize,
    /// Decoding and preprocessing.
    pub decoding: f64,
    /// The backbone's forward passes.
    pub backbone: f64,
    /// The backbone waiting for the first batch.
    pub first: f64,
    /// The backbone waiting for later batches.
    pub starved: f64,
    /// The backbone waiting for the writer to accept its tokens.
    pub blocked: f64,
    /// Writing the tokens.
    pub writing: f64,
}

/// Pixels of an image, or why it cannot be decoded or preprocessed.
pub(super) type Prepared = Result<Pixels, String>;

/// The pixels of an image and the SHA-256 of its file; if the file cannot be read, the system's error, `None` if that is not why.
pub(super) type Image = (Prepared, Result<String, Option<ErrorKind>>);

/// Per image its tokens after every layer, `None` if it cannot be read, and the SHA-256 of its file.
type Batch = Vec<(Option<Vec<Tokens>>, Option<String>)>;

impl Plan {
    /// Extracts the missing tokens, those of all layers in one pass, and returns one cache per layer. `on_event` may
    /// stop it; whole shards are kept.
    pub fn run(
        &self,
        dataset: &Dataset,
        device: &Device,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<TokenCache>, ExtractError> {
        self.check()?;
        let mut scans = self.scans()?;
        scans.iter_mut().try_for_each(|scan| self.verify(scan, dataset, on_event))?;
        if let Some(images @ 1..) = scans.iter().map(CacheScan::skipped).max() {
            let _ = on_event(Event::LeftOut { images }); // the next progress event decides
        }
        if scans.iter().all(CacheScan::is_complete) {
            return Ok(scans.into_iter().filter_map(|scan| scan.into_cache().ok()).collect());
        }
        let writers = self.extract_missing(self.writers(scans)?, dataset, device, on_event)?;
        Ok(writers.into_iter().map(Writer::finish).collect::<Result<_, _>>()?)
    }

    fn scans(&self) -> Result<Vec<CacheScan>, CacheError> {
        self.sources.iter().map(|source| self.scan(source, Some(self.images))).collect()
    }

    fn writers(&self, scans: Vec<CacheScan>) -> Result<Vec<Writer>, CacheError> {
        let names = Names { dataset: self.dataset.clone(), backbone: self.backbone.id.clone() };
        scans
            .into_iter()
            .map(|scan| Ok(Writer::resume(scan)?.named(names.clone(), self.config.clone())))
            .collect()
    }

    /// Extracts the missing tokens of one part of the shards. Cached tokens are not verified.
    pub fn run_part(
        &self,
        part: Part,
        dataset: &Dataset,
        device: &Device,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), ExtractError> {
        self.check()?;
        let mut writers = self.writers(self.scans()?)?;
        for writer in &mut writers {
            writer.only(part.range(self.images.div_ceil(SHARD)));
        }
        match writers.iter().all(|writer| writer.missing().is_empty()) {
            true => Ok(()),
            false => self.extract_missing(writers, dataset, device, on_event).map(drop),
        }
    }

    /// Extracts the tokens that `writers`, one per layer, miss. Where their disk fails for a moment, goes on after the last whole shard.
    fn extract_missing(
        &self,
        writers: Vec<Writer>,
        dataset: &Dataset,
        device: &Device,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<Writer>, ExtractError> {
        let reader = self.open(device)?;
        let (mut writers, mut retries) = (Writers::new(writers), Retries::default());
        let mut last_unreadable = None;
        // After a wait, images are read again: none is reported twice.
        let mut report_once = |event: Event<'_>| {
            if let Event::Unreadable { sample, .. } = event {
                if Some(sample) <= last_unreadable {
                    return ControlFlow::Continue(());
                }
                last_unreadable = Some(sample);
            }
            on_event(event)
        };
        loop {
            let before = writers.done();
            let Err(why) = self.try_missing(&reader, &mut writers, (dataset, device), &mut report_once)
            else {
                return Ok(writers.all);
            };
            if writers.done() > before {
                retries = Retries::default();
            }
            if !why.may_pass() {
                return Err(why);
            }
            if report_once(Event::Waiting { why: &why, first: retries.is_new() }).is_break() {
                return Err(ExtractError::Stopped { done: writers.done(), images: self.images });
            }
            if !retries.pause() {
                return Err(why);
            }
            writers = Writers::new(writers.all.into_iter().map(Writer::rewound).collect());
        }
    }

    /// Extracts the tokens that `writers` miss, until one of them fails.
    fn try_missing(
        &self,
        reader: &TokenReader,
        writers: &mut Writers,
        (dataset, device): (&Dataset, &Device),
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), ExtractError> {
        let missing = writers.missing.clone();
        // Layers may miss different images, and a part leaves some to others.
        let kept = writers.done().min(self.images - missing.len());
        let samples: Vec<&Sample> = missing.iter().map(|&image| &dataset.samples[image]).collect();
        let ended = std::thread::scope(|scope| {
            // Before and after the backbone's own batch, one batch waits in the channel and one is worked on.
            let (image_sender, images) = sync_channel(1);
            let (token_sender, tokens) = sync_channel(1);
            let thread = |name: &str| Builder::new().name(name.into());
            let decoding = thread("decode")
                .spawn_scoped(scope, || {
                    let make = |samples: &[&Sample]| load_all(samples, &self.preprocessor);
                    prepare_ahead(samples.chunks(batch(device)), make, image_sender)
                })
                .map_err(ExtractError::Thread)?;
            let writing = thread("write")
                .spawn_scoped(scope, || write(writers, tokens))
                .map_err(ExtractError::Thread)?;
            let outage = Outage::new(&dataset.root);
            let read = self.run_backbone(reader, (&missing, kept), (images, outage), token_sender, on_event);
            Ok::<_, ExtractError>((read, join(writing), join(decoding)))
        });
        let (read, (written, writing), decoding) = ended?;
        written?;
        let mut spent = read?.ok_or(ExtractError::Stopped { done: writers.done(), images: self.images })?;
        (spent.decoding, spent.writing) = (decoding.as_secs_f64(), writing.as_secs_f64());
        let _ = on_event(Event::Done(spent)); // there is nothing left to stop
        Ok(())
    }

    /// Runs the backbone on every batch of the `missing` images and sends its tokens; `done` images are already
    /// cached. `None` if it was stopped before the last batch.
    fn run_backbone(
        &self,
        reader: &TokenReader,
        (missing, mut done): (&[usize], usize),
        (batches, mut outage): (Receiver<Vec<Image>>, Outage<'_>),
        sender: SyncSender<Batch>,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Option<Spent>, ExtractError> {
        let (mut readable, mut first_error) = (missing.len() < self.images, None);
        let mut batch_limit = reader.backbone.held_at_once();
        let mut meter = RateMeter::new(self.images, done);
        let (mut spent, mut held) = (Spent::default(), Batch::new());
        let since = |begun: Instant| begun.elapsed().as_secs_f64();
        loop {
            let begun = Instant::now();
            let Ok(batch) = batches.recv() else { break };
            *(if spent.images == 0 { &mut spent.first } else { &mut spent.starved }) += since(begun);
            let count = batch.len();
            outage.add(&batch)?;
            let loaded = batch.into_iter().map(|(prepared, digest)| (prepared, digest.ok()));
            let (prepared, digests): (Vec<Prepared>, Vec<Option<String>>) = loaded.unzip();
            for (prepared, &sample) in prepared.iter().zip(&missing[spent.images..]) {
                if let Err(why) = prepared {
                    // The progress event of the batch decides whether to stop.
                    let _ = on_event(Event::Unreadable { sample, why });
                    first_error.get_or_insert(why.clone());
                }
            }
            let begun = Instant::now();
            let read =
                read_batch(prepared, |pixels| reader.forward_layers(pixels), Err::<String, BackboneError>)?;
            spent.backbone += since(begun);
            let before = std::mem::replace(&mut batch_limit, reader.backbone.held_at_once());
            if let Some(images) = batch_limit.filter(|_| batch_limit != before) {
                let _ = on_event(Event::OutOfMemory { images });
            }
            let tokens = read.into_iter().map(|read| read.ok().map(|(tokens, _)| tokens));
            let mut tokens: Batch = held.into_iter().chain(tokens.zip(digests)).collect();
            // Unread images at the end may be the start of an outage: they are held back until a later image is read.
            held = tokens.split_off(tokens.len() - outage.images);
            readable |= tokens.iter().any(|(tokens, _)| tokens.is_some());
            (done, spent.images) = (done + count, spent.images + count);
            let begun = Instant::now();
            if sender.send(tokens).is_err() {
                break; // the writer failed and returns the error
            }
            spent.blocked += since(begun);
            let progress = meter.at(done);
            if meter.without(|| on_event(Event::Progress(progress))).is_break()
                && spent.images < missing.len()
            {
                return Ok(None);
            }
        }
        let _ = sender.send(held); // a writer that failed returns the error
        match first_error {
            Some(why) if !readable => Err(ExtractError::Unreadable { images: self.images, why }),
            _ => Ok(Some(spent)),
        }
    }

    /// Mean time per image, decoding included, over the readable ones of `samples`, after a warm-up forward pass.
    /// `None` if none can be read.
    pub fn time(&self, samples: &[Sample], device: &Device) -> Result<Option<Duration>, ExtractError> {
        let begun = Instant::now();
        let pixels = samples.par_iter().filter_map(|sample| prepare(sample, &self.preprocessor).ok());
        let pixels: Vec<Pixels> = pixels.collect();
        let decoding = begun.elapsed();
        if pixels.is_empty() {
            return Ok(None);
        }
        let reader = self.open(device)?;
        // A GPU tunes its kernels for every size of a batch.
        let warm_up = if on_cpu(device) { 1 } else { pixels.len() };
        reader.forward(&pixels[..warm_up])?;
        let begun = Instant::now();
        reader.forward(&pixels)?;
        // An extraction decodes concurrently with the backbone: the slower of the two decides.
        Ok(Some(begun.elapsed().max(decoding) / pixels.len() as u32))
    }
}

/// Decodes and preprocesses an image.
pub(super) fn prepare(sample: &Sample, preprocessor: &Preprocessor) -> Prepared {
    let photo = sample.source.photo().map_err(|error| error.to_string())?;
    preprocessor.apply(&photo).map_err(|error| error.to_string())
}

/// [`load`] of every sample, on all cores.
pub(super) fn load_all(samples: &[&Sample], preprocessor: &Preprocessor) -> Vec<Image> {
    read_all(samples, |sample| load(sample, preprocessor), should_retry)
}

/// [`prepare`], with the SHA-256 of the very bytes that were decoded.
fn load(sample: &Sample, preprocessor: &Preprocessor) -> Image {
    let bytes = match sample.source.bytes() {
        Ok(bytes) => bytes,
        Err(error) => return (Err(error.to_string()), Err(of_disk(&sample.source, &error))),
    };
    let photo = Photo::decode(sample.source.to_string(), &bytes).map_err(|error| error.to_string());
    let pixels = photo.and_then(|photo| preprocessor.apply(&photo).map_err(|error| error.to_string()));
    (pixels, Ok(sha256::of_bytes(&bytes)))
}

/// Writes every batch received until the first error; also returns the time spent writing.
fn write(writers: &mut Writers, batches: Receiver<Batch>) -> (Result<(), CacheError>, Duration) {
    let mut spent = Duration::ZERO;
    for batch in batches {
        let begun = Instant::now();
        for (tokens, sha256) in batch {
            if let Err(error) = writers.push(tokens, sha256) {
                return (Err(error), spent);
            }
        }
        spent += begun.elapsed();
    }
    (Ok(()), spent)
}

/// The writers of all layers. An image whose tokens several of them miss is read once for all.
struct Writers {
    all: Vec<Writer>,
    /// Per writer, the images it misses, in order.
    missing_per_writer: Vec<Peekable<IntoIter<usize>>>,
    /// The images that any writer misses, in order.
    missing: Vec<usize>,
    /// Number of images of `missing` that have been pushed.
    pushed: usize,
}

impl Writers {
    fn new(all: Vec<Writer>) -> Self {
        let per_writer: Vec<Vec<usize>> = all.iter().map(Writer::missing).collect();
        let missing: BTreeSet<usize> = per_writer.iter().flatten().copied().collect();
        let missing_per_writer = per_writer.into_iter().map(|images| images.into_iter().peekable()).collect();
        Self { all, missing_per_writer, missing: missing.into_iter().collect(), pushed: 0 }
    }

    /// Number of images whose tokens of every layer are cached, not counting images left to other writers.
    fn done(&self) -> usize {
        self.all.iter().map(Writer::done).min().unwrap_or(0)
    }

    /// Adds the tokens of the next image in `missing` to every writer that misses it.
    fn push(&mut self, tokens: Option<Vec<Tokens>>, sha256: Option<String>) -> Result<(), CacheError> {
        let image = self.missing[self.pushed];
        self.pushed += 1;
        let layers: Vec<Option<Tokens>> = match tokens {
            Some(tokens) => tokens.into_iter().map(Some).collect(),
            None => vec![None; self.all.len()],
        };
        for ((writer, missing), tokens) in self.all.iter_mut().zip(&mut self.missing_per_writer).zip(layers) {
            if missing.next_if_eq(&image).is_some() {
                writer.push(tokens, sha256.clone())?;
            }
        }
        Ok(())
    }
}

/// Waits for a thread and returns its result, or resumes its panic.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
