//! Tokens without a cache: the frozen backbone runs again on every batch, as training reaches it.
//! A thread decodes what comes next while the device is at work; between them lie a few parts of a
//! batch, so memory stays bounded whatever the dataset's size. Images that are trained on may be changed anew every time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use burn::tensor::{Device, TensorData};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::flow::{Prepared, batch, prepare};
use super::{Event, ExtractError, Plan};
use crate::app::jobs::tokens::{TokenReader, prepare_ahead};
use crate::app::rate::RateMeter;
use crate::model::backbone::preprocess::augment::{Augmentation, RandomCrop, draws};
use crate::model::backbone::preprocess::{PreprocessError, Preprocessor};
use crate::model::data::token_cache::{
    Batches, LayerRows, Precision, Rows, TokenSource, TokenSourceError, fits, round,
};
use crate::model::data::{Dataset, Sample};
use crate::model::grid::Grid;

/// Images checked together to find those that cannot be read.
const LOOKED: usize = 256;

/// A backbone that gives a training its tokens.
pub struct Recompute {
    reader: TokenReader,
    samples: Arc<[Sample]>,
    precision: Precision,
    grid: Grid,
    /// Images in one forward pass.
    part: usize,
    /// Images that cannot be read, in order.
    unreadable: Vec<usize>,
    /// How an image that is trained on is changed.
    change: (Augmentation, RandomCrop),
}

/// Patch tokens of a batch after a layer, `[B, N, d]`, and its CLS tokens, `[B, d]`, where the backbone has them.
type Layer = (Vec<f32>, Option<Vec<f32>>);

impl Plan {
    /// Decodes every image once and lists those that cannot be read, so that a training knows before
    /// its first step which images it has. `tell` may stop it.
    pub fn unreadable(
        &self,
        dataset: &Dataset,
        tell: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Vec<usize>, ExtractError> {
        let images = dataset.samples.len();
        let (mut unreadable, mut first) = (Vec::new(), None);
        let mut pace = RateMeter::new(images, 0);
        for (at, part) in dataset.samples.chunks(LOOKED).enumerate() {
            let look = |sample: &Sample| prepare(sample, &self.preprocessor).err();
            let looks: Vec<Option<String>> = part.par_iter().map(look).collect();
            for (index, why) in looks.into_iter().enumerate() {
                let Some(why) = why else { continue };
                let sample = at * LOOKED + index;
                let _ = tell(Event::Unreadable { sample, why: &why }); // the progress decides
                unreadable.push(sample);
                first.get_or_insert(why);
            }
            let done = at * LOOKED + part.len();
            let progress = pace.at(done);
            if pace.without(|| tell(Event::Looked(progress))).is_break() && done < images {
                return Err(ExtractError::Stopped { done: 0, images });
            }
        }
        match first {
            Some(why) if unreadable.len() == images => Err(ExtractError::Unreadable { images, why }),
            _ => Ok(unreadable),
        }
    }

    /// The backbone itself in the place of a cache; `unreadable` as [`unreadable`](Self::unreadable)
    /// lists them. Images that are trained on are seen through `change`.
    pub fn recompute(
        &self,
        dataset: &Dataset,
        device: &Device,
        unreadable: Vec<usize>,
        change: (Augmentation, RandomCrop),
    ) -> Result<Recompute, ExtractError> {
        Ok(Recompute {
            reader: self.open(device)?,
            samples: dataset.samples.clone().into(),
            precision: self.source.precision,
            grid: self.grid,
            part: batch(device),
            unreadable,
            change,
        })
    }
}

impl Recompute {
    /// Appends the tokens of some images of a batch, layer by layer.
    fn add(
        &self,
        prepared: Vec<Prepared>,
        images: &[usize],
        layers: &mut [Layer],
    ) -> Result<(), ExtractError> {
        let mut pixels = Vec::with_capacity(images.len());
        for (prepared, &image) in prepared.into_iter().zip(images) {
            let name = || self.samples[image].source.name();
            pixels.push(prepared.map_err(|why| ExtractError::Vanished { image: name(), why })?);
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
        let (preprocessor, change) = (self.reader.preprocessor.clone(), self.change);
        self.read_as(batches, move |sample, image| {
            let mut rng = draws(seed, epoch, 1 + image);
            changed(sample, &preprocessor, change, &mut rng)
        })
    }
}

impl Recompute {
    /// The tokens of batches of images that `make` prepares.
    fn read_as(
        &self,
        batches: Vec<Vec<usize>>,
        make: impl Fn(&Sample, usize) -> Prepared + Send + Sync + 'static,
    ) -> Batches<'_> {
        // One part waits while another is prepared and a third is read.
        let (send, parts) = sync_channel(1);
        let (samples, part, wanted) = (self.samples.clone(), self.part, batches.clone());
        let decode = move || {
            let make = |&image: &usize| make(&samples[image], image);
            prepare_ahead(wanted.iter().flat_map(|batch| batch.chunks(part)), make, send);
        };
        if let Err(error) = std::thread::Builder::new().name("decode".into()).spawn(decode) {
            let error = TokenSourceError(Box::new(ExtractError::Thread(error)));
            return Box::new(std::iter::once(Err(error)));
        }
        Box::new(batches.into_iter().map(move |batch| {
            let shape = [batch.len(), self.grid.len(), self.width()];
            let layer = |_: &usize| (Vec::with_capacity(shape.iter().product()), Some(Vec::new()));
            let mut layers: Vec<Layer> = self.reader.layers.iter().map(layer).collect();
            for images in batch.chunks(self.part) {
                let prepared = parts.recv().map_err(|error| TokenSourceError(Box::new(error)))?;
                self.add(prepared, images, &mut layers).map_err(|error| TokenSourceError(Box::new(error)))?;
            }
            let precision = self.precision;
            let rounded = move |mut values: Vec<f32>| {
                round(&mut values, precision);
                values
            };
            let rows = move |(patches, cls): Layer| Rows {
                patches: TensorData::new(rounded(patches), shape),
                cls: cls.map(rounded),
            };
            Ok(Box::new(layers.into_iter().map(rows)) as LayerRows)
        }))
    }
}

/// Decodes an image and makes of it what the backbone sees this time.
fn changed(
    sample: &Sample,
    preprocessor: &Preprocessor,
    (augmentation, crop): (Augmentation, RandomCrop),
    rng: &mut ChaCha8Rng,
) -> Prepared {
    let photo = sample.source.photo().map_err(|error| error.to_string())?;
    let (height, width) = preprocessor.output().ok_or("its pictures have no one size")?;
    let whole = || preprocessor.picture(&photo);
    let seen = augmentation.apply(&photo.picture, (width, height), crop, whole, rng);
    Ok(preprocessor.pixels(&seen.map_err(|error: PreprocessError| error.to_string())?))
}
