//! All curves of one image through several probes. What an encoder is asked is asked once for all of them: random orders are
//! the same for each, and rankings often agree.

use indexmap::IndexMap;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Curves, Found, MAX_STEPS, Mode, Orders, Reader, Removal, STEPS, Schedule, Sets, road};
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::intervention::InterventionError;
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// Sets that are read before somebody is told.
const BATCH: usize = 32;
/// Pictures in one forward pass.
const PICTURES: usize = 8;

/// What is asked of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RemovalSpec {
    /// Where tokens are removed, each once.
    pub modes: Vec<Mode>,
    /// Steps from all tokens to none, from 1 to [`MAX_STEPS`].
    pub steps: usize,
    /// Seed of random orders, of who goes first of equals, and of the noise on painted pixels.
    pub seed: u64,
}

impl Default for RemovalSpec {
    fn default() -> Self {
        Self { modes: vec![Mode::Frozen, Mode::Rerouted], steps: STEPS, seed: 0 }
    }
}

impl RemovalSpec {
    /// What the encoder is given for an image of one probe at most, in whole images, with so many rankings beside the random
    /// orders: 0 where it is not asked.
    pub fn passes(&self, rankings: usize) -> f64 {
        let steps = self.steps as f64;
        let passes = |mode: &Mode| match mode {
            Mode::Frozen | Mode::Rerouted => 0.0,
            // What one way leaves at a step the other has taken: together a whole image.
            Mode::Patches => (rankings + mode.draws()) as f64 * steps,
            Mode::Pixels => (rankings + mode.draws()) as f64 * 2.0 * steps,
        };
        self.modes.iter().map(passes).sum()
    }

    /// How often the head reads what is left of an image of kept tokens at most, with so many rankings beside the random
    /// orders; frozen curves are sums and need no reading.
    pub fn readings(&self, rankings: usize) -> usize {
        let read = |mode: &Mode| match mode {
            Mode::Rerouted => 2 * self.steps * (rankings + mode.draws()),
            Mode::Frozen | Mode::Patches | Mode::Pixels => 0,
        };
        self.modes.iter().map(read).sum()
    }

    /// Whether the encoder reads what is left.
    pub fn needs_encoder(&self) -> bool {
        self.modes.iter().any(|mode| mode.needs_encoder())
    }

    /// Why it cannot be asked.
    pub fn check(&self) -> Result<(), String> {
        match self.steps {
            1..=MAX_STEPS => Ok(()),
            steps => Err(format!("{steps} steps; choose 1 to {MAX_STEPS}")),
        }
    }
}

/// A probe that is asked, and what its answer says of itself.
pub struct Subject<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// Its file's name.
    pub name: String,
    /// How it reads.
    pub reading: Reading,
    /// The class; the predicted one where absent.
    pub class: Option<usize>,
}

/// An image whose tokens are removed.
pub struct Image<'a> {
    /// Its file's name.
    pub name: String,
    /// What the backbone says of it.
    pub tokens: &'a Tokens,
    /// What it read.
    pub pixels: &'a Pixels,
    /// The same as a picture.
    pub seen: &'a Picture,
    /// Seeds random orders that heads draw: its index in its dataset.
    pub seed: u64,
    /// Why no patch is known to be that of a token, if none is.
    pub why_no_subset: Option<&'static str>,
}

/// Who runs the encoder, and is told how far it is.
pub trait Passes {
    /// How it ends early.
    type Error;

    /// So many of `total` sets are read in this mode.
    ///
    /// # Errors
    /// To end.
    fn progress(&mut self, mode: Mode, done: usize, total: usize) -> Result<(), Self::Error>;

    /// The image's attention rollout, `[N]`, or why there is none.
    ///
    /// # Errors
    /// To end.
    fn rollout(&mut self) -> Result<Result<Vec<f32>, String>, Self::Error>;

    /// Tokens of the image where those patches alone are left, for every set.
    ///
    /// # Errors
    /// If the encoder fails.
    fn left(&mut self, left: &[&[usize]]) -> Result<Vec<Tokens>, Self::Error>;

    /// Tokens of whole pictures.
    ///
    /// # Errors
    /// If the encoder fails.
    fn pictures(&mut self, pictures: &[Pixels]) -> Result<Vec<Tokens>, Self::Error>;
}

/// A probe at work on an image.
struct Measured<'a> {
    reader: Reader<'a>,
    answer: Removal,
    orders: Vec<Orders>,
}

/// The curves of an image through every probe, or why one cannot read it.
///
/// # Errors
/// Those of `passes`.
pub fn measure<P: Passes>(
    subjects: &[Subject<'_>],
    image: &Image<'_>,
    spec: &RemovalSpec,
    passes: &mut P,
) -> Result<Vec<Result<Removal, InterventionError>>, P::Error> {
    let rollout = passes.rollout()?;
    let rollout = rollout.as_deref().map_err(String::as_str);
    let asked = subjects.par_iter().map(|subject| ask(subject, image, rollout, spec));
    let mut asked: Vec<Result<Measured<'_>, InterventionError>> = asked.collect();
    for &mode in &spec.modes {
        let mut able: Vec<&mut Measured<'_>> =
            asked.iter_mut().filter_map(|asked| asked.as_mut().ok()).collect();
        let curves = match mode {
            Mode::Frozen | Mode::Rerouted => {
                let each = able.iter().map(|asked| of_tokens(asked, mode, spec, passes));
                each.collect::<Result<Vec<_>, _>>()?
            }
            Mode::Patches | Mode::Pixels => of_encoder(&able, mode, image, spec, passes)?,
        };
        for (asked, curves) in able.iter_mut().zip(curves) {
            asked.answer.modes.insert(mode, curves);
        }
    }
    Ok(asked.into_iter().map(|asked| asked.map(|asked| asked.answer)).collect())
}

fn ask<'a>(
    subject: &Subject<'a>,
    image: &Image<'a>,
    rollout: Result<&[f32], &str>,
    spec: &RemovalSpec,
) -> Result<Measured<'a>, InterventionError> {
    let Subject { probe, name, reading, class } = subject;
    let reader = Reader::new(probe, reading.change.clone(), image.tokens, image.seed)?;
    let logits = reader.logits();
    let best = |not: Option<usize>| {
        let others = (0..logits.len()).filter(|class| Some(*class) != not);
        others.reduce(|best, next| if logits[next] > logits[best] { next } else { best })
    };
    let class = class.or_else(|| best(None)).unwrap_or(0);
    let found = reader.rankings(class, rollout, spec.seed);
    let orders = found
        .iter()
        .filter_map(|(id, found)| Some(Orders { id, orders: vec![found.found()?.order.clone()] }));
    let orders = orders.collect();
    let named = |class: usize| probe.meta.classes.get(class).cloned().unwrap_or_else(|| class.to_string());
    let fraction = (0..=spec.steps).map(|i| i as f64 / spec.steps as f64).collect();
    let answer = Removal {
        image: image.name.clone(),
        probe: name.clone(),
        head: probe.meta.head.clone(),
        reading: reading.clone(),
        grid: image.tokens.grid,
        seen: image.seen.clone(),
        class: (class, named(class)),
        rival: best(Some(class)).map(|rival| (rival, named(rival))),
        fraction,
        rankings: found.into_iter().map(|(id, found)| (id.to_owned(), found)).collect(),
        modes: IndexMap::new(),
    };
    Ok(Measured { reader, answer, orders })
}

impl Measured<'_> {
    /// The sets of its rankings and of the random orders, which are added to those of others.
    fn schedule(&self, mode: Mode, spec: &RemovalSpec, sets: &mut Sets) -> Schedule {
        let random = Orders::random(self.answer.grid.len(), mode.draws(), spec.seed);
        let orders: Vec<Orders> = self.orders.iter().cloned().chain([random]).collect();
        Schedule::new(&orders, spec.steps, sets)
    }

    fn curves(&self, schedule: &Schedule, logits: &[Vec<f64>]) -> Found<Curves> {
        let rival = self.answer.rival.as_ref().map(|(rival, _)| *rival);
        Found::Some(schedule.curves(logits, self.answer.class.0, rival))
    }
}

/// Curves of tokens that the head is given.
fn of_tokens<P: Passes>(
    asked: &Measured<'_>,
    mode: Mode,
    spec: &RemovalSpec,
    passes: &mut P,
) -> Result<Found<Curves>, P::Error> {
    let mut sets = Sets::new();
    let schedule = asked.schedule(mode, spec, &mut sets);
    let all: Vec<&Vec<usize>> = sets.iter().collect();
    let mut logits = Vec::with_capacity(all.len());
    for batch in all.chunks(BATCH) {
        passes.progress(mode, logits.len(), all.len())?;
        let read = match mode {
            Mode::Frozen => asked.reader.frozen(batch),
            _ => asked.reader.rerouted(batch),
        };
        match read {
            Ok(read) => logits.extend(read),
            Err(none) => return Ok(Found::None { none }),
        }
    }
    Ok(asked.curves(&schedule, &logits))
}

/// Curves of what the encoder is given, of all probes.
fn of_encoder<P: Passes>(
    asked: &[&mut Measured<'_>],
    mode: Mode,
    image: &Image<'_>,
    spec: &RemovalSpec,
    passes: &mut P,
) -> Result<Vec<Found<Curves>>, P::Error> {
    if let Some(why) = image.why_no_subset {
        return Ok(asked.iter().map(|_| Found::None { none: why.to_owned() }).collect());
    }
    let mut sets = Sets::new();
    let schedules: Vec<Schedule> = asked.iter().map(|asked| asked.schedule(mode, spec, &mut sets)).collect();
    let own: Vec<Vec<bool>> = schedules
        .iter()
        .map(|schedule| {
            let mut own = vec![false; sets.len()];
            schedule.places().for_each(|place| own[place] = true);
            own
        })
        .collect();
    let n = image.tokens.grid.len();
    let mut logits = vec![vec![Vec::new(); sets.len()]; asked.len()];
    // Equally many patches are read together.
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&place| sets[place].len());
    let noise = if mode == Mode::Pixels { road::noise(image.pixels, spec.seed) } else { Vec::new() };
    let mut done = 0;
    for places in order.chunks(if mode == Mode::Pixels { PICTURES } else { BATCH }) {
        passes.progress(mode, done, sets.len())?;
        let (whole, some): (Vec<usize>, Vec<usize>) =
            places.iter().partition(|place| sets[**place].len() == n);
        let tokens = match mode {
            Mode::Pixels => {
                let paint =
                    |&place: &usize| road::paint(image.pixels, image.tokens.grid, &sets[place], &noise);
                passes.pictures(&some.par_iter().map(paint).collect::<Vec<_>>())?
            }
            _ => passes.left(&some.iter().map(|&place| sets[place].as_slice()).collect::<Vec<_>>())?,
        };
        for ((asked, logits), own) in asked.iter().zip(&mut logits).zip(&own) {
            let read = |(&place, tokens): (&usize, &Tokens)| match own[place] {
                false => (place, Vec::new()),
                true if mode == Mode::Pixels => (place, asked.reader.again(tokens)),
                true => (place, asked.reader.left(tokens, &sets[place])),
            };
            let read: Vec<_> = some.par_iter().zip(&tokens).map(read).collect();
            let known = whole.iter().map(|&place| (place, asked.reader.logits()));
            read.into_iter().chain(known).for_each(|(place, read)| logits[place] = read);
        }
        done += places.len();
    }
    let curves = asked.iter().zip(&schedules).zip(&logits);
    Ok(curves.map(|((asked, schedule), logits)| asked.curves(schedule, logits)).collect())
}
