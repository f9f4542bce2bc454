//! Removal curves of one image: the encoder's passes on the thread that owns it, everything else on all cores.

use super::tokens::TokenReader;
use super::{JobError, Unit};
use crate::model::backbone::BackboneError;
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::removal::{Mode, Passes};
use crate::model::tokens::Tokens;

/// What is told of curves that are computed.
pub fn told(mode: Mode) -> String {
    format!("Removing tokens ({})", mode.id())
}

/// What progress of curves is counted in: readings of what is left.
pub const UNIT: Unit = Unit::Files;

/// The passes of one image through an encoder at hand.
pub struct ReaderPasses<'a> {
    /// The encoder.
    pub reader: &'a TokenReader,
    /// The image.
    pub pixels: &'a Pixels,
    /// Who is told, and ends it.
    pub tell: &'a mut dyn FnMut(Mode, usize, usize) -> Result<(), JobError>,
}

/// Tokens of an image of which those patches alone are left.
fn left(reader: &TokenReader, pixels: &Pixels, left: &[&[usize]]) -> Result<Vec<Tokens>, BackboneError> {
    reader.backbone.forward_left(pixels, left, reader.layer)
}

impl Passes for ReaderPasses<'_> {
    type Error = JobError;

    fn progress(&mut self, mode: Mode, done: usize, total: usize) -> Result<(), JobError> {
        (self.tell)(mode, done, total)
    }

    fn left(&mut self, sets: &[&[usize]]) -> Result<Vec<Tokens>, JobError> {
        left(self.reader, self.pixels, sets).map_err(JobError::failed)
    }

    fn pictures(&mut self, pictures: &[Pixels]) -> Result<Vec<Tokens>, JobError> {
        self.reader.forward(pictures).map_err(JobError::failed)
    }
}
