//! How stable one image's order is: what is asked, and what comes back.

use std::sync::Arc;

use super::survey::Subject;
use super::{ImageId, JobId};
use crate::app::fault::Fault;
use crate::model::data::Place;
use crate::model::stability::Stability;

/// Measure the order of one image through one probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The job.
    pub job: JobId,
    /// The probe.
    pub subject: Subject,
    /// What the library calls the image.
    pub image: ImageId,
    /// Where it is.
    pub place: Place,
    /// Seed of crops and noise.
    pub seed: u64,
    /// What seeds random orders, as in [`Asked`](super::Asked::draw).
    pub draw: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The probe.
    pub subject: Subject,
    /// The image.
    pub image: ImageId,
    /// It, or why there is none.
    pub result: Result<Arc<Stability>, Fault>,
}
