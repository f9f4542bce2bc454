//! What is asked about a whole dataset, and what comes back.

use std::sync::Arc;

use super::{BackboneId, ExplainSettings, JobId, ProbeId};
use crate::app::user_error::UserError;
use crate::model::data::{Dataset, Split};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::survey::{EvalSet, Survey};

/// The images of a dataset that are asked about: one split of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalSplit {
    /// All of it.
    pub dataset: Arc<Dataset>,
    /// Which split.
    pub split: Split,
    /// Its samples, as indices into the dataset's.
    pub samples: Vec<usize>,
    /// Their names and classes.
    pub asked: Arc<EvalSet>,
}

impl EvalSplit {
    /// The images of `split`; the held-out ones where that is not said or there are none of it.
    pub fn new(dataset: Dataset, split: Option<Split>) -> Self {
        let split = split.filter(|split| dataset.count(*split) > 0);
        let split = split.or_else(|| dataset.held_out()).unwrap_or(Split::Train);
        let own = dataset.samples.iter().enumerate().filter(|(_, sample)| sample.split == split);
        let samples: Vec<usize> = own.map(|(at, _)| at).collect();
        let asked = EvalSet {
            dataset: dataset.name.clone(),
            split: split.name().to_owned(),
            classes: dataset.classes.clone(),
            images: samples.iter().map(|at| dataset.name_of_image(*at)).collect(),
            class: samples.iter().map(|at| dataset.samples[*at].class as u32).collect(),
        };
        Self { split, samples, asked: Arc::new(asked), dataset: Arc::new(dataset) }
    }

    /// It in one line: `folder, 500 test images of 10 classes`.
    pub fn summary(&self) -> String {
        let (images, classes) = (self.samples.len(), self.asked.classes.len());
        format!("{}, {images} {} images of {classes} classes", self.dataset.layout, self.split.name())
    }
}

/// Probes to ask about a part of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalRequest {
    /// The job.
    pub job: JobId,
    /// The images.
    pub part: Arc<EvalSplit>,
    /// The probes, in this order.
    pub subjects: Vec<EvalProbe>,
    /// What null bands are made of.
    pub settings: ExplainSettings,
}

/// A probe, the backbone whose tokens it reads, and what is changed in its reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalProbe {
    /// The probe.
    pub probe: ProbeId,
    /// The backbone.
    pub backbone: BackboneId,
    /// The change.
    pub change: Intervention,
}

/// What one probe made of the images.
#[derive(Clone, Debug)]
pub struct EvalAnswer {
    /// Who was asked.
    pub subject: EvalProbe,
    /// About what.
    pub part: Arc<EvalSplit>,
    /// What came out, or why nothing did.
    pub result: Result<Arc<Survey>, UserError>,
}
