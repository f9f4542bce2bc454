//! Tokens without a cache: the frozen backbone runs again on every batch that training requests. A thread decodes
//! the next images while the device is busy; the channel between them holds one part of a batch, so memory is
//! bounded whatever the dataset's size. Training images may be augmented, differently in every epoch.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use burn::tensor::{Device, TensorData};
use rayon::prelude::*;

use super::flow::{Prepared, batch, load_all, prepare};
use super::outage::{Outage, is_away};
use super::{Event, ExtractError, Plan, leak_warning};
use crate::app::jobs::tokens::{TokenReader, prepare_ahead};
use crate::app::rate::RateMeter;
use crate::model::backbone::preprocess::augment::{Augmentation, RandomCrop, draws};
use crate::model::backbone::preprocess::{Pixels, PreprocessError};
use crate::model::data::token_cache::{
    Batches, LayerRows, Precision, Rows, TokenSource, TokenSourceError, fits, round,
};
use crate::model::data::{Dataset, Sample};
use crate::model::grid::Grid;

/// Images checked for being readable between two progress events.
const CHECKED_AT_ONCE: usize = 256;

/// A backbone as the source of a training's tokens.
pub struct Recompute {
    reader: TokenReader,
    samples: Arc<[Sample]>,
    precision: Precision,
    grid: Grid,
    /// Number of images prepared together and read in one call of the backbone.
    part: usize,
    /// Images that cannot be read, in order.
    unreadable: Vec<usize>,
    augmentation: (Augmentation, RandomCrop),
}

/// Patch tokens of a batch after a layer, `[B, N, d]`, and its CLS tokens, `[B, d]`, if the backbone has one.
type LayerTokens = (Vec<f32>, Option<Vec<f32>>);

impl Plan {
    /// Decodes every image once and returns the indices of those that cannot be read, in order, so that a training
    /// knows its images before its first step. `on_event` may stop it.
    pub fn unreadable(
        &self,
        dataset: &Dataset,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<usize>, ExtractError> {
        let images = dataset.samples.len();
        let (mut unreadable, mut first_error, mut digests) = (Vec::new(), None, Vec::with_capacity(images));
        let (mut meter, mut outage) = (RateMeter::new(images, 0), Outage::new(&dataset.root));
        for (at, part) in dataset.samples.chunks(CHECKED_AT_ONCE).enumerate() {
            let checked = load_all(&part.iter().collect::<Vec<_>>(), &self.preprocessor);
            outage.add(&checked)?;
            for (index, (prepared, digest)) in checked.into_iter().enumerate() {
                digests.push(digest.ok());
                let Err(why) = prepared else { continue };
                let sample = at * CHECKED_AT_ONCE + index;
                let _ = on_event(Event::Unreadable { sample, why: &why }); // the next progress event decides
                unreadable.push(sample);
                first_error.get_or_insert(why);
            }
            let done = at * CHECKED_AT_ONCE + part.len();
            let progress = meter.at(done);
            if meter.without(|| on_event(Event::Checked(progress))).is_break() && done < images {
                return Err(ExtractError::Stopped { done: 0, images });
            }
        }
        if let Some(text) = leak_warning(dataset, &digests) {
            let _ = on_event(Event::Leak(text)); // the first step decides
        }
        match first_error {
            Some(why) if unreadable.len() == images => Err(ExtractError::Unreadable { images, why }),
            _ => Ok(unreadable),
        }
    }

    /// The backbone itself in place of a cache. `unreadable` are the images that [`unreadable`](Self::unreadable)
    /// returns; training images are augmented by `augmentation`.
    pub fn recompute(
        &self,
        dataset: &Dataset,
        device: &Device,
        unreadable: Vec<usize>,
        augmentation: (Augmentation, RandomCrop),
    ) -> Result<Recompute, ExtractError> {
        Ok(Recompute {
            reader: self.open(device)?,
            samples: dataset.samples.clone().into(),
            precision: self.source().precision,
            grid: self.grid,
            part: batch(device),
            unreadable,
            augmentation,
        })
    }
}

impl Recompute {
    /// Runs the backbone on some images of a batch and appends their tokens to every layer's. What could not be prepared says why, and
    /// whether its disk is away.
    fn push(
        &self,
        prepared: Vec<Result<Pixels, (String, bool)>>,
        images: &[usize],
        layers: &mut [LayerTokens],
    ) -> Result<(), ExtractError> {
        let mut pixels = Vec::with_capacity(images.len());
        for (prepared, &image) in prepared.into_iter().zip(images) {
            let name = || self.samples[image].source.to_string();
            let vanished = |(why, is_away)| ExtractError::Vanished { image: name(), why, is_away };
            pixels.push(prepared.map_err(vanished)?);
        }
        for (tokens, &image) in self.reader.forward_layers(&pixels)?.into_iter().zip(images) {
            for (tokens, (patches, cls)) in tokens.into_iter().zip(&mut *layers) {
                fits(&tokens, self.precision, image)?;
                patches.extend(tokens.patches);
                *cls = cls.take().zip(tokens.cls).map(|(mut all, own)| {
                    all.extend(own);
                    all
                });
            }
        }
        Ok(())
    }
}

impl TokenSource for Recompute {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn width(&self) -> usize {
        self.reader.backbone.width()
    }

    fn readable(&self, image: usize) -> bool {
        self.unreadable.binary_search(&image).is_err()
    }

    fn read(&self, batches: Vec<Vec<usize>>, _: &Device) -> Batches<'_> {
        let preprocessor = self.reader.preprocessor.clone();
        self.read_as(batches, move |sample, _| prepare(sample, &preprocessor))
    }

    fn read_changed(&self, batches: Vec<Vec<usize>>, _: &Device, epoch: usize, seed: u64) -> Batches<'_> {
        let (preprocessor, (augmentation, crop)) = (self.reader.preprocessor.clone(), self.augmentation);
        self.read_as(batches, move |sample, image| {
            let photo = sample.source.photo().map_err(|error| error.to_string())?;
            let (height, width) = preprocessor.output().ok_or("its images have no fixed size")?;
            let mut rng = draws(seed, epoch, 1 + image);
            let whole = || preprocessor.picture(&photo);
            let seen = augmentation.apply(&photo.picture, (width, height), crop, whole, &mut rng);
            Ok(preprocessor.pixels(&seen.map_err(|error: PreprocessError| error.to_string())?))
        })
    }
}

impl Recompute {
    /// The tokens of batches of images, each decoded and preprocessed by `make`.
    fn read_as(
        &self,
        batches: Vec<Vec<usize>>,
        make: impl Fn(&Sample, usize) -> Prepared + Send + Sync + 'static,
    ) -> Batches<'_> {
        // One part waits in the channel while another is prepared and a third is in the backbone.
        let (sender, parts) = sync_channel(1);
        let (samples, part, requested) = (self.samples.clone(), self.part, batches.clone());
        let decode = move || {
            let make = |&image: &usize| {
                let sample = &samples[image];
                make(sample, image).or_else(|why| match sample.source.bytes() {
                    Ok(_) => make(sample, image).map_err(|why| (why, false)), // its disk has come back
                    Err(error) => Err((why, is_away(&sample.source, &error))),
                })
            };
            let make = |images: &[usize]| images.par_iter().map(&make).collect::<Vec<_>>();
            prepare_ahead(requested.iter().flat_map(|batch| batch.chunks(part)), make, sender);
        };
        if let Err(error) = std::thread::Builder::new().name("decode".into()).spawn(decode) {
            let error = TokenSourceError(Box::new(ExtractError::Thread(error)));
            return Box::new(std::iter::once(Err(error)));
        }
        Box::new(batches.into_iter().map(move |batch| {
            let shape = [batch.len(), self.grid.len(), self.width()];
            let empty = |_: &usize| (Vec::with_capacity(shape.iter().product()), Some(Vec::new()));
            let mut layers: Vec<LayerTokens> = self.reader.layers.iter().map(empty).collect();
            for images in batch.chunks(self.part) {
                let prepared = parts.recv().map_err(|error| TokenSourceError(Box::new(error)))?;
                self.push(prepared, images, &mut layers)
                    .map_err(|error| TokenSourceError(Box::new(error)))?;
            }
            let precision = self.precision;
            let rounded = move |mut values: Vec<f32>| {
                round(&mut values, precision);
                values
            };
            let rows = move |(patches, cls): LayerTokens| Rows {
                patches: TensorData::new(rounded(patches), shape),
                cls: cls.map(rounded),
            };
            Ok(Box::new(layers.into_iter().map(rows)) as LayerRows)
        }))
    }
}
