//! How stable one image's order is: what is asked, and what comes back.

use std::sync::Arc;

use super::survey::EvalProbe;
use super::{ImageId, JobId};
use crate::app::user_error::UserError;
use crate::model::data::ImageSource;
use crate::model::explain::stability::Stability;

/// Measure the order of one image through one probe.
#[derive(Clone, Debug, PartialEq)]
pub struct StabilityRequest {
    /// The job.
    pub job: JobId,
    /// The probe.
    pub subject: EvalProbe,
    /// What the library calls the image.
    pub image: ImageId,
    /// Where it is.
    pub place: ImageSource,
    /// Seed of crops and noise.
    pub seed: u64,
    /// What seeds random orders, as in [`Asked`](super::ExplainItem::draw).
    pub draw: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct StabilityAnswer {
    /// The probe.
    pub subject: EvalProbe,
    /// The image.
    pub image: ImageId,
    /// It, or why there is none.
    pub result: Result<Arc<Stability>, UserError>,
}
