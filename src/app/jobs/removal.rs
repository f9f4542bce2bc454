//! Removal curves of one image, or of every image of a dataset: the encoder's passes on the thread that owns it, all else in parallel.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::engine::Engine;
use super::evaluate::EvalProbe;
use super::tokens::TokenReader;
use super::{BackboneId, ClassChoice, JobError, Reporter, Unit};
use crate::app::jobs::user_error::UserError;
use crate::model::backbone::preprocess::Pixels;
use crate::model::data::{Dataset, ImageSource};
use crate::model::explain::evaluation::answer::Answer;
use crate::model::explain::evaluation::evaluator::Evaluator;
use crate::model::explain::removal::{
    EncoderPasses, Image, MeasuredProbe, Mode, Removal, RemovalSpec, measure,
};
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// A request for removal curves of one image through one probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovalRequest {
    /// The probe.
    pub subject: EvalProbe,
    /// The image.
    #[serde(rename = "place")] // its first name, which other versions send
    pub source: ImageSource,
    /// The class.
    pub class: ClassChoice,
    /// Modes and settings.
    pub spec: RemovalSpec,
    /// Seed of random orders, as in [`ExplainItem::image_seed`](super::ExplainItem::image_seed).
    #[serde(rename = "draw")] // its first name, which other versions send
    pub image_seed: u64,
}

/// The curves, or why there are none.
pub type RemovalAnswer = Result<Arc<Removal>, UserError>;

/// Computes the curves.
pub fn run(
    engine: &mut Engine,
    request: &RemovalRequest,
    reporter: &mut dyn Reporter,
) -> Result<Removal, JobError> {
    let RemovalRequest { subject, source, class, spec, image_seed } = request;
    let EvalProbe { probe, backbone, change } = subject.clone();
    // A copy: the probe may be closed meanwhile.
    let loaded = engine.probe(probe)?.clone();
    engine.reopen(backbone, reporter)?;
    let photo = engine.env.decode(source)?;
    let class = class.of_probe(&loaded.probe)?;
    let key = engine.backbone(backbone)?.key.clone();
    let reader = &engine.backbone(backbone)?.reader;
    let pixels = reader.prepare(&photo)?;
    let tokens = reader.forward(std::slice::from_ref(&pixels))?.swap_remove(0);
    let reading = Reading { change, tokens: reader.changes(&loaded.probe), ..Reading::default() };
    let image = Image {
        name: source.short(),
        tokens: &tokens,
        pixels: &pixels,
        seen: &reader.seen(&pixels),
        seed: *image_seed,
        why_no_subset: reader.backbone.why_no_subset(),
    };
    let measured = MeasuredProbe { probe: &loaded.probe, name: loaded.name(), reading, class };
    let encoder = Encoder::Open(backbone, &key);
    let mut passes = EnginePasses { engine, reporter, encoder, pixels: &pixels, told: true };
    Ok(measure(&[measured], &image, spec, &mut passes)?.swap_remove(0)?)
}

/// The encoder that reads the remaining patches.
#[derive(Clone, Copy)]
pub enum Encoder<'a> {
    /// The engine's open backbone with this id and key.
    Open(BackboneId, &'a str),
    /// A reader outside the engine.
    Own(&'a TokenReader),
}

impl<'a> Encoder<'a> {
    fn reader(self, engine: &'a Engine) -> Result<&'a TokenReader, UserError> {
        match self {
            Self::Open(backbone, key) => engine.same_reader(backbone, key),
            Self::Own(reader) => Ok(reader),
        }
    }
}

/// Images of a dataset that could not be read again, as indices into it: each was warned of once, and all probes leave it out.
pub type UnreadImages = RefCell<BTreeSet<usize>>;

/// Reads the remaining patches of a dataset's images.
#[derive(Clone, Copy)]
pub struct SubsetReader<'a> {
    encoder: Encoder<'a>,
    dataset: &'a Dataset,
    samples: &'a [usize],
    unread: &'a UnreadImages,
}

impl<'a> SubsetReader<'a> {
    /// A reader of `dataset`, of which `samples` lists the images to evaluate; it adds to the `unread` ones.
    pub fn new(
        encoder: Encoder<'a>,
        (dataset, samples): (&'a Dataset, &'a [usize]),
        unread: &'a UnreadImages,
    ) -> Self {
        Self { encoder, dataset, samples, unread }
    }

    /// Removes the patches of an image, given by its index in `samples`, for which the probe gave this answer.
    pub fn remove(
        self,
        engine: &mut Engine,
        evaluator: &Evaluator<'_>,
        (at, answer): (usize, &mut Answer),
        reporter: &mut dyn Reporter,
    ) -> Result<(), JobError> {
        let Some(seed) = evaluator.removable(at) else { return Ok(()) };
        let sample = self.samples[at];
        if self.unread.borrow().contains(&sample) {
            return Ok(());
        }
        let source = &self.dataset.samples[sample].source;
        let Some(photo) = engine.decode_or_leave_out(source, "removal curves", reporter)? else {
            self.unread.borrow_mut().insert(sample);
            return Ok(());
        };
        let reader = self.encoder.reader(engine)?;
        if let Some(why) = reader.backbone.why_no_subset() {
            return Err(UserError::new(why).remedy("Choose only `frozen` or `rerouted`").into());
        }
        let pixels = &reader.prepare(&photo)?;
        let tokens = &reader.forward(std::slice::from_ref(pixels))?.swap_remove(0);
        let seen = &Picture::default();
        let image = Image { name: String::new(), tokens, pixels, seen, seed, why_no_subset: None };
        let mut passes = EnginePasses { engine, reporter, encoder: self.encoder, pixels, told: false };
        Ok(evaluator.remove(at, answer, &image, &mut passes)??)
    }
}

/// The passes of one image through an encoder, with pauses between them.
pub(super) struct EnginePasses<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) reporter: &'a mut dyn Reporter,
    pub(super) encoder: Encoder<'a>,
    pub(super) pixels: &'a Pixels,
    /// Whether progress is reported, which counts readings of remaining patches.
    pub(super) told: bool,
}

impl EnginePasses<'_> {
    fn reader(&self) -> Result<&TokenReader, UserError> {
        self.encoder.reader(self.engine)
    }
}

impl EncoderPasses for EnginePasses<'_> {
    type Error = JobError;

    fn progress(&mut self, mode: Mode, done: usize, total: usize) -> Result<(), JobError> {
        if self.told {
            let what = format!("Removing tokens ({})", mode.id());
            self.reporter.progress(&what, done as u64, Some(total as u64), Unit::Items);
        }
        self.reporter.pause(self.engine)
    }

    fn rollout(&mut self) -> Result<Result<Vec<f32>, String>, JobError> {
        Ok(self.reader()?.rollout(self.pixels))
    }

    fn left(&mut self, sets: &[&[usize]]) -> Result<Vec<Tokens>, JobError> {
        let reader = self.reader()?;
        Ok(reader.backbone.forward_subset(self.pixels, sets, reader.layer())?)
    }

    fn pictures(&mut self, pictures: &[Pixels]) -> Result<Vec<Tokens>, JobError> {
        Ok(self.reader()?.forward(pictures)?)
    }
}
