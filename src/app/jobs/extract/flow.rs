//! The extraction pipeline: one thread decodes and prepares the next images, the calling thread, which owns
//! every tensor, runs the backbone, and a third writes the tokens of the previous ones. Bounded channels
//! connect them, so memory does not grow with the dataset; the time each stage spends is measured, so that
//! the slowest is known.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use burn::tensor::Device;
use serde::Serialize;

use super::{Event, ExtractError, Plan};
use crate::app::jobs::part::Part;
use crate::app::jobs::tokens::{TokenReader, prepare_ahead};
use crate::app::rate::RateMeter;
use crate::model::backbone::BackboneError;
use crate::model::backbone::preprocess::{Pixels, Preprocessor};
use crate::model::data::image::Photo;
use crate::model::data::token_cache::{CacheError, CacheScan, SHARD, TokenCache, Writer};
use crate::model::data::{Dataset, Sample};
use crate::model::io::sha256;
use crate::model::tokens::Tokens;

/// Batch size of the backbone in images: a divisor of a shard, so that a resumed extraction forms the
/// same batches as one that was never stopped, and gives the same bits. A GPU, which reads as
/// many at once as it holds, gets whole shards.
pub(super) fn batch(device: &Device) -> usize {
    if *device == Device::flex() { SHARD / 2 } else { SHARD }
}

/// Where the time of an extraction went, in seconds. Decoding and writing go on beside the backbone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spent {
    /// Images taken.
    pub images: usize,
    /// Decoding and preparing them.
    pub decoding: f64,
    /// The backbone, at work.
    pub backbone: f64,
    /// The backbone, waiting for the first images.
    pub first: f64,
    /// The backbone, waiting for images after the first.
    pub starved: f64,
    /// The backbone, waiting for the writer to accept its tokens.
    pub blocked: f64,
    /// Writing the tokens.
    pub writing: f64,
}

/// Pixels of an image, or why there are none.
pub(super) type Prepared = Result<Pixels, String>;

/// An image on its way to the backbone, and the digest of its file; none where that could not be read.
type Image = (Prepared, Option<String>);

/// Tokens of images after every layer, in order, none where an image could not be read; and the images' digests.
type Batch = Vec<(Option<Vec<Tokens>>, Option<String>)>;

impl Plan {
    /// Takes the tokens that are missing, those of all layers in one pass; a cache a layer. `tell` may stop it; what
    /// was done is kept.
    pub fn run(
        &self,
        dataset: &Dataset,
        device: &Device,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<TokenCache>, ExtractError> {
        self.check()?;
        let mut stocks = self.stocks()?;
        stocks.iter_mut().try_for_each(|stock| self.verify(stock, dataset, tell))?;
        if stocks.iter().all(CacheScan::is_complete) {
            return Ok(stocks.into_iter().filter_map(|stock| stock.into_cache().ok()).collect());
        }
        let writers = stocks.into_iter().map(Writer::resume).collect::<Result<_, _>>()?;
        let writers = self.take(writers, dataset, device, tell)?;
        Ok(writers.into_iter().map(Writer::finish).collect::<Result<_, _>>()?)
    }

    /// What there is of every layer.
    fn stocks(&self) -> Result<Vec<CacheScan>, CacheError> {
        let open = |source| CacheScan::open(&self.root, source, Some(self.images));
        self.sources.iter().map(open).collect()
    }

    /// Takes those that are missing of some shards: a part of all. Kept ones are not looked at.
    pub fn run_part(
        &self,
        part: Part,
        dataset: &Dataset,
        device: &Device,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<(), ExtractError> {
        self.check()?;
        let mut writers = self.stocks()?.into_iter().map(Writer::resume).collect::<Result<Vec<_>, _>>()?;
        for writer in &mut writers {
            writer.only(part.range(self.images.div_ceil(SHARD)));
        }
        match writers.iter().all(|writer| writer.missing().is_empty()) {
            true => Ok(()),
            false => self.take(writers, dataset, device, tell).map(drop),
        }
    }

    /// Takes the tokens that `writers` wait for, one a layer.
    fn take(
        &self,
        writers: Vec<Writer>,
        dataset: &Dataset,
        device: &Device,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<Writer>, ExtractError> {
        let reader = self.open(device)?;
        let writers = Writers::new(writers);
        let (missing, kept) = (writers.missing.clone(), writers.done());
        let samples: Vec<&Sample> = missing.iter().map(|&image| &dataset.samples[image]).collect();
        std::thread::scope(|scope| {
            // On either side of the batch that is read, one batch waits in the channel and one is being worked on.
            let (send, images) = sync_channel(1);
            let (hand, tokens) = sync_channel(1);
            let named = |name: &str| Builder::new().name(name.into());
            let decoding = named("decode")
                .spawn_scoped(scope, || {
                    let make = |sample: &&Sample| image(sample, &self.preprocessor);
                    prepare_ahead(samples.chunks(batch(device)), make, send)
                })
                .map_err(ExtractError::Thread)?;
            let writing = named("write")
                .spawn_scoped(scope, || write(writers, tokens))
                .map_err(ExtractError::Thread)?;
            let read = self.read(&reader, (&missing, kept), images, hand, tell);
            let (written, writing) = joined(writing);
            let writers = written?;
            let (decoding, mut spent) = (
                joined(decoding),
                read?.ok_or(ExtractError::Stopped { done: writers.done(), images: self.images })?,
            );
            (spent.decoding, spent.writing) = (decoding.as_secs_f64(), writing.as_secs_f64());
            let _ = tell(Event::Done(spent)); // there is nothing left to stop
            Ok(writers.all)
        })
    }

    /// Runs the backbone on every batch of the `missing` images that comes, `done` of all being kept; nothing where it was stopped
    /// before the last.
    fn read(
        &self,
        reader: &TokenReader,
        (missing, mut done): (&[usize], usize),
        batches: Receiver<Vec<Image>>,
        hand: SyncSender<Batch>,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Option<Spent>, ExtractError> {
        let (mut readable, mut first, mut held) = (missing.len() < self.images, None, None);
        let mut pace = RateMeter::new(self.images, done);
        let mut spent = Spent::default();
        let since = |begun: Instant| begun.elapsed().as_secs_f64();
        loop {
            let begun = Instant::now();
            let Ok(batch) = batches.recv() else { break };
            *(if spent.images == 0 { &mut spent.first } else { &mut spent.starved }) += since(begun);
            let count = batch.len();
            let (prepared, digests): (Vec<Prepared>, Vec<Option<String>>) = batch.into_iter().unzip();
            for (prepared, &sample) in prepared.iter().zip(&missing[spent.images..]) {
                if let Err(why) = prepared {
                    // The answer to the batch's progress decides.
                    let _ = tell(Event::Unreadable { sample, why });
                    first.get_or_insert(why.clone());
                }
            }
            let begun = Instant::now();
            let read = reader.read_layers(prepared, Err::<String, BackboneError>)?;
            spent.backbone += since(begun);
            let before = std::mem::replace(&mut held, reader.backbone.held_at_once());
            if let Some(images) = held.filter(|_| held != before) {
                let _ = tell(Event::OutOfMemory { images });
            }
            let tokens = read.into_iter().map(|read| read.ok().map(|(tokens, _)| tokens));
            let tokens: Batch = tokens.zip(digests).collect();
            readable |= tokens.iter().any(|(tokens, _)| tokens.is_some());
            (done, spent.images) = (done + count, spent.images + count);
            let begun = Instant::now();
            if hand.send(tokens).is_err() {
                break; // the writer says why
            }
            spent.blocked += since(begun);
            let progress = pace.at(done);
            if pace.without(|| tell(Event::Progress(progress))).is_break() && done < self.images {
                return Ok(None);
            }
        }
        match first {
            Some(why) if !readable => Err(ExtractError::Unreadable { images: self.images, why }),
            _ => Ok(Some(spent)),
        }
    }
}

/// Decodes an image and makes it what the backbone wants.
pub(super) fn prepare(sample: &Sample, preprocessor: &Preprocessor) -> Prepared {
    prepared(sample.source.photo().map_err(|error| error.to_string()), preprocessor)
}

fn prepared(photo: Result<Photo, String>, preprocessor: &Preprocessor) -> Prepared {
    preprocessor.apply(&photo?).map_err(|error| error.to_string())
}

/// [`prepare`], with the digest of the very bytes that were decoded.
fn image(sample: &Sample, preprocessor: &Preprocessor) -> Image {
    let bytes = match sample.source.bytes() {
        Ok(bytes) => bytes,
        Err(error) => return (Err(error.to_string()), None),
    };
    let photo = Photo::decode(sample.source.name(), &bytes).map_err(|error| error.to_string());
    (prepared(photo, preprocessor), Some(sha256::of_bytes(&bytes)))
}

/// Writes every batch that comes, and how long that took; ends at the first that cannot be written.
fn write(mut writers: Writers, batches: Receiver<Batch>) -> (Result<Writers, CacheError>, Duration) {
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
    (Ok(writers), spent)
}

/// What writes the tokens of every layer. An image that one of them misses is read once, for all that miss it.
struct Writers {
    all: Vec<Writer>,
    /// What each misses, in order.
    wanted: Vec<Peekable<IntoIter<usize>>>,
    /// What any of them misses, in order.
    missing: Vec<usize>,
    /// How many of these have been pushed.
    come: usize,
}

impl Writers {
    fn new(all: Vec<Writer>) -> Self {
        let wanted: Vec<Vec<usize>> = all.iter().map(Writer::missing).collect();
        let missing: BTreeSet<usize> = wanted.iter().flatten().copied().collect();
        let wanted = wanted.into_iter().map(|own| own.into_iter().peekable()).collect();
        Self { all, wanted, missing: missing.into_iter().collect(), come: 0 }
    }

    /// Images of which the tokens of every layer are kept, as far as those that are left to others do not count.
    fn done(&self) -> usize {
        self.all.iter().map(Writer::done).min().unwrap_or(0)
    }

    /// Takes the tokens of the next image that any of them misses.
    fn push(&mut self, tokens: Option<Vec<Tokens>>, sha256: Option<String>) -> Result<(), CacheError> {
        let image = self.missing[self.come];
        self.come += 1;
        let layers: Vec<Option<Tokens>> = match tokens {
            Some(tokens) => tokens.into_iter().map(Some).collect(),
            None => vec![None; self.all.len()],
        };
        for ((writer, wanted), tokens) in self.all.iter_mut().zip(&mut self.wanted).zip(layers) {
            if wanted.next_if_eq(&image).is_some() {
                writer.push(tokens, sha256.clone())?;
            }
        }
        Ok(())
    }
}

/// The result of a thread; a panic in it is resumed here.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
