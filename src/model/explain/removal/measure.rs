//! Removal curves of one image through several probes. The encoder runs once for all of them on each set of tokens: random
//! orders are the same for every probe, and rankings often agree.

use std::convert::Infallible;

use indexmap::IndexMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Curves, Found, Mode, Orders, RANKINGS, Ranked, Removal, STEPS, Schedule, Sets, road};
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::class_name;
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::InterventionError;
use crate::model::explain::readout::rival;
use crate::model::io::Format;
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::stats::argmax;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// Sets of tokens read between two progress reports.
const BATCH: usize = 32;
/// Pictures in one forward pass of the encoder.
const PICTURES: usize = 8;

/// Settings of the removal curves.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemovalSpec {
    /// Where tokens are removed; each mode once.
    pub modes: Vec<Mode>,
    /// Steps from all tokens to none, 1 to [`MAX_STEPS`](super::MAX_STEPS).
    pub steps: usize,
    /// Seed of random orders, of ties in rankings, and of the noise on painted pixels.
    pub seed: u64,
}

impl Default for RemovalSpec {
    fn default() -> Self {
        Self { modes: vec![Mode::Frozen, Mode::Rerouted], steps: STEPS, seed: 0 }
    }
}

impl RemovalSpec {
    /// Most work of the encoder for an image and one probe, in forward passes of a whole image, with `rankings` rankings beside
    /// the random orders; 0 if no mode needs it.
    pub fn passes(&self, rankings: usize) -> f64 {
        let steps = self.steps as f64;
        let passes = |mode: &Mode| match mode {
            Mode::Frozen | Mode::Rerouted => 0.0,
            // At every step deletion and insertion are complementary: together a whole image.
            Mode::Patches => (rankings + mode.draws()) as f64 * steps,
            Mode::Pixels => (rankings + mode.draws()) as f64 * 2.0 * steps,
        };
        self.modes.iter().map(passes).sum()
    }

    /// Most readings by the head for an image of cached tokens, with `rankings` rankings beside the random orders; frozen
    /// curves are sums of evidence and need none.
    pub fn readings(&self, rankings: usize) -> usize {
        let read = |mode: &Mode| match mode {
            Mode::Rerouted => 2 * self.steps * (rankings + mode.draws()),
            Mode::Frozen | Mode::Patches | Mode::Pixels => 0,
        };
        self.modes.iter().map(read).sum()
    }

    /// Whether a mode needs the encoder.
    pub fn needs_encoder(&self) -> bool {
        self.modes.iter().any(|mode| mode.needs_encoder())
    }
}

/// A probe to measure, with what its result says of it.
pub struct MeasuredProbe<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// Name of its file.
    pub name: String,
    /// How it reads the image.
    pub reading: Reading,
    /// Class of the curves; the predicted one if `None`.
    pub class: Option<usize>,
}

/// An image whose tokens are removed.
pub struct Image<'a> {
    /// Name of its file.
    pub name: String,
    /// Its tokens.
    pub tokens: &'a Tokens,
    /// The pixels that the backbone read.
    pub pixels: &'a Pixels,
    /// The same as a picture.
    pub seen: &'a Picture,
    /// Seed of random orders that heads draw: its index in its dataset.
    pub seed: u64,
    /// Why patches cannot be removed one by one, if tokens do not correspond to patches.
    pub why_no_subset: Option<&'static str>,
}

/// Runs the encoder and reports progress, on behalf of [`measure`].
pub trait EncoderPasses {
    /// Error that ends the measurement: it was cancelled, or the encoder failed.
    type Error;

    /// Reports that `done` of `total` sets are read in this mode.
    fn progress(&mut self, mode: Mode, done: usize, total: usize) -> Result<(), Self::Error>;

    /// The image's attention rollout, `[N]`, or why there is none.
    fn rollout(&mut self) -> Result<Result<Vec<f32>, String>, Self::Error>;

    /// For every set of patches, the tokens of the image with only those patches left.
    fn left(&mut self, left: &[&[usize]]) -> Result<Vec<Tokens>, Self::Error>;

    /// Tokens of whole pictures.
    fn pictures(&mut self, pictures: &[Pixels]) -> Result<Vec<Tokens>, Self::Error>;
}

/// The removal curves of an image through every probe, or why a probe cannot read it.
pub fn measure<P: EncoderPasses>(
    probes: &[MeasuredProbe<'_>],
    image: &Image<'_>,
    spec: &RemovalSpec,
    passes: &mut P,
) -> Result<Vec<Result<Removal, InterventionError>>, P::Error> {
    let rollout = passes.rollout()?;
    let rollout = rollout.as_deref().map_err(String::as_str);
    let started = probes.par_iter().map(|MeasuredProbe { probe, reading, class, .. }| {
        let reading = ImageReading::new(probe, reading.change.clone(), image.tokens, image.seed)?;
        Ok(Measurement::new(reading, *class, rollout, spec.seed))
    });
    let mut started: Vec<Result<Measurement<'_>, InterventionError>> = started.collect();
    for &mode in &spec.modes {
        let mut measurements: Vec<&mut Measurement<'_>> =
            started.iter_mut().filter_map(|started| started.as_mut().ok()).collect();
        let curves = match mode {
            Mode::Frozen | Mode::Rerouted => {
                let each = measurements.iter().map(|measurement| {
                    measurement.head_curves(mode, spec, &mut |done, total| passes.progress(mode, done, total))
                });
                each.collect::<Result<Vec<_>, _>>()?
            }
            Mode::Patches | Mode::Pixels => encoder_curves(&measurements, mode, image, spec, passes)?,
        };
        for (measurement, curves) in measurements.iter_mut().zip(curves) {
            measurement.modes.insert(mode, curves);
        }
    }
    let results = probes.iter().zip(started).map(|(measured, started)| {
        started.map(|measurement| measurement.removal(measured, image, spec.steps))
    });
    Ok(results.collect())
}

/// The curves of an image as it was read, for `class`, in the modes of `spec`, none of which needs the encoder.
pub fn measure_head(
    reading: &ImageReading<'_>,
    class: usize,
    spec: &RemovalSpec,
) -> IndexMap<Mode, Found<Curves>> {
    let reading = reading.with(reading.intervention.clone(), reading.output.clone());
    let measurement = Measurement::new(reading, Some(class), Err("Needs the backbone"), spec.seed);
    let curves = |&mode: &Mode| {
        let Ok(curves) = measurement.head_curves(mode, spec, &mut |_, _| Ok::<(), Infallible>(()));
        (mode, curves)
    };
    spec.modes.iter().map(curves).collect()
}

/// The measurement of one probe in progress.
struct Measurement<'a> {
    reading: ImageReading<'a>,
    class: usize,
    rival: Option<usize>,
    rankings: IndexMap<String, Found<Ranked>>,
    modes: IndexMap<Mode, Found<Curves>>,
}

impl<'a> Measurement<'a> {
    /// Ranks the tokens of an image for `class`, or the predicted one if `None`; `seed` breaks ties.
    fn new(
        reading: ImageReading<'a>,
        class: Option<usize>,
        rollout: Result<&[f32], &str>,
        seed: u64,
    ) -> Self {
        let logits = reading.logits();
        let class = class.unwrap_or_else(|| argmax(&logits));
        let rankings = reading.rankings(class, rollout, seed).into_iter();
        let rankings = rankings.map(|(id, found)| (id.to_owned(), found)).collect();
        Self { reading, class, rival: rival(&logits, class), rankings, modes: IndexMap::new() }
    }

    /// The schedule of its rankings and of the random orders, whose sets are added to `sets`.
    fn schedule(&self, mode: Mode, spec: &RemovalSpec, sets: &mut Sets) -> Schedule {
        let ranked = RANKINGS.iter().filter_map(|ranking| {
            let found = self.rankings[ranking.id].found()?;
            Some(Orders { id: ranking.id, orders: vec![found.order.clone()] })
        });
        let random = Orders::random(self.reading.tokens.grid.len(), mode.draws(), spec.seed);
        Schedule::new(&ranked.chain([random]).collect::<Vec<_>>(), spec.steps, sets)
    }

    fn curves(&self, schedule: &Schedule, logits: &[Vec<f64>]) -> Found<Curves> {
        Found::Some(schedule.curves(logits, self.class, self.rival))
    }

    /// Curves of a mode that changes what the head reads, without the encoder. `progress` gets how many of how many sets are read.
    fn head_curves<E>(
        &self,
        mode: Mode,
        spec: &RemovalSpec,
        progress: &mut dyn FnMut(usize, usize) -> Result<(), E>,
    ) -> Result<Found<Curves>, E> {
        let mut sets = Sets::new();
        let schedule = self.schedule(mode, spec, &mut sets);
        let all: Vec<&Vec<usize>> = sets.iter().collect();
        let mut logits = Vec::with_capacity(all.len());
        for batch in all.chunks(BATCH) {
            progress(logits.len(), all.len())?;
            let read = match mode {
                Mode::Frozen => self.reading.frozen(batch),
                _ => self.reading.rerouted(batch),
            };
            match read {
                Ok(read) => logits.extend(read),
                Err(none) => return Ok(Found::None { none }),
            }
        }
        Ok(self.curves(&schedule, &logits))
    }

    /// The result, with `steps` steps.
    fn removal(self, measured: &MeasuredProbe<'_>, image: &Image<'_>, steps: usize) -> Removal {
        let Self { class, rival, rankings, modes, .. } = self;
        let MeasuredProbe { probe, name, reading, .. } = measured;
        let named = |class: usize| (class, class_name(&probe.meta.classes, class));
        Removal {
            format: Format,
            image: image.name.clone(),
            probe: name.clone(),
            head: probe.meta.head.clone(),
            reading: reading.clone(),
            grid: image.tokens.grid,
            seen: image.seen.clone(),
            class: named(class),
            rival: rival.map(named),
            fraction: (0..=steps).map(|i| i as f64 / steps as f64).collect(),
            rankings,
            modes,
        }
    }
}

/// Curves of a mode that changes what the encoder reads, for all probes.
fn encoder_curves<P: EncoderPasses>(
    measurements: &[&mut Measurement<'_>],
    mode: Mode,
    image: &Image<'_>,
    spec: &RemovalSpec,
    passes: &mut P,
) -> Result<Vec<Found<Curves>>, P::Error> {
    if let Some(why) = image.why_no_subset {
        return Ok(measurements.iter().map(|_| Found::None { none: why.to_owned() }).collect());
    }
    let mut sets = Sets::new();
    let schedules: Vec<Schedule> =
        measurements.iter().map(|measurement| measurement.schedule(mode, spec, &mut sets)).collect();
    let n = image.tokens.grid.len();
    let mut logits = vec![vec![Vec::new(); sets.len()]; measurements.len()];
    // Sorted by size: a batch then has sets of about equally many patches.
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&index| sets[index].len());
    let noise = if mode == Mode::Pixels { road::noise(image.pixels, spec.seed) } else { Vec::new() };
    let mut done = 0;
    for batch in order.chunks(if mode == Mode::Pixels { PICTURES } else { BATCH }) {
        passes.progress(mode, done, sets.len())?;
        let (complete, partial): (Vec<usize>, Vec<usize>) =
            batch.iter().partition(|index| sets[**index].len() == n);
        let tokens = match mode {
            Mode::Pixels => {
                let paint =
                    |&index: &usize| road::paint(image.pixels, image.tokens.grid, &sets[index], &noise);
                passes.pictures(&partial.par_iter().map(paint).collect::<Vec<_>>())?
            }
            _ => passes.left(&partial.iter().map(|&index| sets[index].as_slice()).collect::<Vec<_>>())?,
        };
        for ((measurement, logits), schedule) in measurements.iter().zip(&mut logits).zip(&schedules) {
            let reading = &measurement.reading;
            let read = |(&index, tokens): (&usize, &Tokens)| match schedule.passes_through(index) {
                false => (index, Vec::new()),
                true if mode == Mode::Pixels => (index, reading.again(tokens)),
                true => (index, reading.left(tokens, &sets[index])),
            };
            let read: Vec<_> = partial.par_iter().zip(&tokens).map(read).collect();
            let known = complete.iter().map(|&index| (index, reading.logits()));
            read.into_iter().chain(known).for_each(|(index, read)| logits[index] = read);
        }
        done += batch.len();
    }
    let curves = measurements.iter().zip(&schedules).zip(&logits);
    Ok(curves.map(|((measurement, schedule), logits)| measurement.curves(schedule, logits)).collect())
}
