//! Removal curves over a dataset: the mean height of every curve of the probability of an image's own class
//! (docs/definitions.md, section 12). Modes that need no encoder are computed from cached tokens, on all cores; for the
//! others the owner of the encoder calls [`Evaluator::remove`] image by image.

use std::sync::LazyLock;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::evaluator::Evaluator;
use crate::model::explain::intervention::InterventionError;
use crate::model::explain::removal::{
    Curve, Curves, EncoderPasses, Found, Image, MeasuredProbe, Mode, RANDOM, RANKINGS, RemovalSpec, measure,
};
use crate::model::reading::Reading;

/// A column of an evaluation.
pub struct RemovalColumn {
    /// Where tokens are removed.
    pub mode: Mode,
    /// The ranking's id.
    pub ranking: &'static str,
    /// 0 for deletion, 1 for insertion.
    pub way: usize,
    /// Name: `MODE_deletion_RANKING` or `MODE_insertion_RANKING`.
    pub name: String,
}

/// Every possible column.
pub static COLUMNS: LazyLock<Vec<RemovalColumn>> = LazyLock::new(|| {
    let rankings = || RANKINGS.iter().map(|ranking| ranking.id).chain([RANDOM]);
    let columns = Mode::ALL.into_iter().flat_map(|mode| rankings().map(move |ranking| (mode, ranking)));
    let both = |(mode, ranking): (Mode, &'static str)| {
        ["deletion", "insertion"].into_iter().enumerate().map(move |(way, name)| RemovalColumn {
            mode,
            ranking,
            way,
            name: format!("{}_{name}_{ranking}", mode.id()),
        })
    };
    columns.flat_map(both).collect()
});

/// Mean heights of one image, in the order of [`COLUMNS`]; `None` where there is no curve.
pub type Heights = Vec<Option<f32>>;

/// Mean heights of one ranking in one mode, over all images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovalHeights {
    /// Where tokens were removed.
    pub mode: Mode,
    /// The ranking's id.
    pub ranking: String,
    /// Mean height of the deletion curve of every image, in probability of its own class.
    pub deletion: Vec<f32>,
    /// The same of the insertion curve.
    pub insertion: Vec<f32>,
}

/// Heights of the curves of an image.
pub(super) fn heights(modes: &IndexMap<Mode, Found<Curves>>) -> Heights {
    let height = |column: &RemovalColumn| {
        let curves = modes.get(&column.mode)?.found()?.get(column.ranking)?;
        Some(Curve::height(&curves[column.way].probability) as f32)
    };
    COLUMNS.iter().map(height).collect()
}

impl RemovalHeights {
    /// Heights of all images that have them, by mode and ranking; empty if there is no image.
    pub(super) fn of_images(images: &[&Heights]) -> Vec<Self> {
        let column = |at: usize| images.iter().map(|heights| heights[at]).collect::<Option<Vec<f32>>>();
        let pairs = (0..COLUMNS.len()).step_by(2).filter(|_| !images.is_empty());
        let both = |at: usize| {
            let RemovalColumn { mode, ranking, .. } = &COLUMNS[at];
            let (deletion, insertion) = (column(at)?, column(at + 1)?);
            Some(Self { mode: *mode, ranking: (*ranking).to_owned(), deletion, insertion })
        };
        pairs.filter_map(both).collect()
    }
}

impl Evaluator<'_> {
    /// Settings of the removal curves, if they were requested.
    pub fn removes(&self) -> Option<&RemovalSpec> {
        self.metrics.as_ref().and_then(|spec| spec.causal)
    }

    /// Seed of the random orders of an image; `None` if the probe does not have its class, so that it gets no removal curves.
    pub fn removable(&self, image: usize) -> Option<u64> {
        self.own_class(image).map(|_| self.image_seeds[image])
    }

    /// Computes the removal curves of an image with the encoder and adds them to its `answer`. `fresh` is the image as the
    /// encoder reads it now.
    pub fn remove<P: EncoderPasses>(
        &self,
        image: usize,
        answer: &mut Answer,
        fresh: &Image<'_>,
        passes: &mut P,
    ) -> Result<Result<(), InterventionError>, P::Error> {
        let Some((class, spec)) = self.own_class(image).zip(self.removes()) else { return Ok(Ok(())) };
        let reading = Reading { change: self.change.clone(), ..Reading::default() };
        let measured = MeasuredProbe { probe: &self.probe, name: String::new(), reading, class: Some(class) };
        let found = measure(&[measured], fresh, spec, passes)?.swap_remove(0);
        Ok(found.map(|removal| answer.removals = Some(heights(&removal.modes))))
    }
}
