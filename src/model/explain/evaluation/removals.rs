//! Removal curves over a dataset: the mean height of every curve of the probability of an image's own class
//! (docs/definitions.md, section 12). Modes that need no encoder are asked of kept tokens, on all cores; for the others
//! whoever owns the encoder asks image by image.

use std::convert::Infallible;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::evaluator::Evaluator;
use crate::model::backbone::preprocess::Pixels;
use crate::model::explain::intervention::{Intervention, InterventionError};
use crate::model::explain::removal::{
    Curve, Image, Mode, Passes, RANDOM, RANKINGS, Removal, RemovalSpec, Subject, measure,
};
use crate::model::probe::Probe;
use crate::model::reading::Reading;
use crate::model::tokens::Tokens;
use crate::model::trace::Picture;

/// Why there is no rollout, nor what leaves before the encoder.
const NO_ENCODER: &str = "Kept tokens are asked, and no encoder";

/// A column of evaluations.
pub struct RemovalColumn {
    /// Where tokens are removed.
    pub mode: Mode,
    /// The ranking's id.
    pub ranking: &'static str,
    /// Which of deletion and insertion.
    pub way: usize,
    /// Its name: `MODE_deletion_RANKING` or `MODE_insertion_RANKING`.
    pub name: String,
}

/// Every column there can be.
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

/// Mean heights of one image, one for every column; none where a curve is not there.
pub type Heights = Vec<Option<f32>>;

/// One ranking in one mode, over all images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovalHeights {
    /// Where tokens were removed.
    pub mode: Mode,
    /// The ranking's id.
    pub ranking: String,
    /// Mean height of the deletion of every image, the image's own class's probability.
    pub deletion: Vec<f32>,
    /// And of the insertion.
    pub insertion: Vec<f32>,
}

/// Of an image of the probe's `class` whose tokens are kept.
pub(super) fn heights_of_kept(
    probe: &Probe,
    change: Intervention,
    tokens: &Tokens,
    (class, image_seed): (usize, u64),
    spec: &RemovalSpec,
) -> Result<Heights, InterventionError> {
    let image = Image {
        name: String::new(),
        tokens,
        pixels: &Pixels { height: 0, width: 0, values: Vec::new() },
        seen: &Picture::default(),
        seed: image_seed,
        why_no_subset: Some(NO_ENCODER),
    };
    let Ok(heights) = heights(probe, change, class, &image, spec, &mut NoEncoder);
    heights
}

/// Of an image of the probe's `class`.
fn heights<P: Passes>(
    probe: &Probe,
    change: Intervention,
    class: usize,
    image: &Image<'_>,
    spec: &RemovalSpec,
    passes: &mut P,
) -> Result<Result<Heights, InterventionError>, P::Error> {
    let reading = Reading { change, ..Reading::default() };
    let subject = Subject { probe, name: String::new(), reading, class: Some(class) };
    Ok(measure(&[subject], image, spec, passes)?.swap_remove(0).map(|removal| columns(&removal)))
}

fn columns(removal: &Removal) -> Heights {
    let height = |column: &RemovalColumn| {
        let curves = removal.modes.get(&column.mode)?.found()?.get(column.ranking)?;
        Some(Curve::height(&curves[column.way].probability) as f32)
    };
    COLUMNS.iter().map(height).collect()
}

/// The columns that some of the images have a number in.
pub(super) fn columns_of(images: &[Option<Answer>]) -> impl Iterator<Item = (&'static str, Vec<f32>)> {
    let column = |(at, known): (usize, &'static RemovalColumn)| {
        let height = |image: &Option<Answer>| image.as_ref()?.removals.as_ref()?[at];
        let column: Vec<f32> = images.iter().map(|image| height(image).unwrap_or(f32::NAN)).collect();
        images.iter().any(|image| height(image).is_some()).then_some((known.name.as_str(), column))
    };
    COLUMNS.iter().enumerate().filter_map(column)
}

impl RemovalHeights {
    /// Of all images that have them, of which there may be none.
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
    /// What is removed of every image, if anything is.
    pub fn removes(&self) -> Option<&RemovalSpec> {
        self.metrics.as_ref().and_then(|spec| spec.causal)
    }

    /// What seeds the draws of an image; nothing where the probe does not know its class: then nothing is removed of it.
    pub fn removable(&self, image: usize) -> Option<u64> {
        self.own_class(image).map(|_| self.image_seeds[image])
    }

    /// Removes the patches of an image, which gave `answer`, where the encoder reads what is left. `fresh` is the image as the
    /// encoder reads it now.
    pub fn remove<P: Passes>(
        &self,
        image: usize,
        answer: &mut Answer,
        fresh: &Image<'_>,
        passes: &mut P,
    ) -> Result<Result<(), InterventionError>, P::Error> {
        let Some((class, spec)) = self.own_class(image).zip(self.removes()) else { return Ok(Ok(())) };
        let found = heights(&self.probe, self.change.clone(), class, fresh, spec, passes)?;
        Ok(found.map(|heights| answer.removals = Some(heights)))
    }
}

/// Where there is no encoder.
struct NoEncoder;

impl Passes for NoEncoder {
    type Error = Infallible;

    fn progress(&mut self, _: Mode, _: usize, _: usize) -> Result<(), Infallible> {
        Ok(())
    }

    fn rollout(&mut self) -> Result<Result<Vec<f32>, String>, Infallible> {
        Ok(Err(NO_ENCODER.to_owned()))
    }

    fn left(&mut self, _: &[&[usize]]) -> Result<Vec<Tokens>, Infallible> {
        unreachable!("no patch is said to be known")
    }

    fn pictures(&mut self, _: &[Pixels]) -> Result<Vec<Tokens>, Infallible> {
        unreachable!("no patch is said to be known")
    }
}
