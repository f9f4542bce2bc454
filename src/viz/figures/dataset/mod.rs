//! Pictures of an [`Evaluation`]: what one probe made of all images of a dataset.
//!
//! An [`Overview`] is to an evaluation what a [`Figure`](crate::viz::Figure) is to a trace; [`OVERVIEWS`] is
//! the one list of them. What lies under the pointer is an item of the picture's own list; the
//! picture says which images stand behind it.

mod class_diagnostics;
mod classes;
pub(super) mod confusion;
mod regions;
mod routing_maps;
pub(crate) mod scatter;

use serde::{Deserialize, Serialize};

pub use self::classes::{ClassFilter, ClassSort, Picked};

use super::meanings::words;
use crate::model::explain::evaluation::similarity::Similarity;
use crate::model::explain::evaluation::vectors::VectorKind;
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation, OWN};
use crate::viz::draw::{Map, Scene, Table, Theme};
use crate::viz::{Empty, Info, Size};

/// What maps of classes show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MapOf {
    /// Where tokens come in the order.
    #[default]
    Positions,
    /// What tokens count.
    Weights,
}

/// What the dots of a map of images are coloured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColorBy {
    /// Whether the predicted class is the true one.
    #[default]
    Outcome,
    /// The true class.
    Class,
}

/// What a person may set of an overview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The measure that is shown by class, and on the x axis of a scatter.
    pub measure: String,
    /// The measure on the y axis of a scatter.
    pub against: String,
    /// What maps show.
    pub maps: MapOf,
    /// Colours of magnitudes.
    pub map: Map,
    /// Which classes are drawn, and in which order.
    pub classes: ClassFilter,
    /// What of their tokens images are compared by, on a map of them and in the gallery.
    pub vectors: VectorKind,
    /// And how.
    pub similarity: Similarity,
    /// Whether an image is also like one whose mirror image it is like.
    pub flipped: bool,
    /// What the dots of the map are coloured by.
    pub color: ColorBy,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            measure: "rank_coverage".into(),
            against: OWN.into(),
            maps: MapOf::Positions,
            map: Map::Cividis,
            classes: ClassFilter::default(),
            vectors: VectorKind::default(),
            similarity: Similarity::default(),
            flipped: false,
            color: ColorBy::default(),
        }
    }
}

/// A setting that an overview heeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// [`Choice::measure`].
    Measure,
    /// [`Choice::against`], and whose measure that is.
    Against,
    /// [`Choice::maps`].
    Maps,
    /// [`Choice::map`].
    Map,
    /// [`Choice::classes`].
    Classes,
}

/// What an overview is of.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// What the probe made of the images.
    pub evaluation: &'a Evaluation,
    /// The evaluation of the second axis of a scatter: of another probe, or the same one.
    pub other: &'a Evaluation,
    /// What is set.
    pub choice: &'a Choice,
    /// The image to mark.
    pub selected: Option<usize>,
}

/// A kind of picture of an evaluation.
pub trait Overview: Sync {
    /// What it is called, and what it shows.
    fn info(&self) -> Info;

    /// Its name on a command line.
    fn id(&self) -> &'static str {
        self.info().id
    }

    /// The settings it heeds, in the order they are offered.
    fn controls(&self) -> &'static [Control];

    /// Whether what it shows now heeds a setting of these.
    fn heeds(&self, _view: View<'_>, _control: Control) -> bool {
        true
    }

    /// Whether it shows image by image, of two evaluations where there are two.
    fn is_by_image(&self) -> bool {
        self.controls().contains(&Control::Against)
    }

    /// A height that suits `width`, in points.
    fn height(&self, view: View<'_>, width: f32) -> f32;

    /// The smallest size, in points, in which all of it can be read: a smaller pane of this `width` scrolls. None is
    /// too small where nothing is said.
    fn legible(&self, _view: View<'_>, _width: f32) -> Size {
        Size { width: 0.0, height: 0.0 }
    }

    /// The picture.
    ///
    /// # Errors
    /// Why there is nothing to see.
    fn scene(&self, view: View<'_>, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// The numbers behind it.
    fn table(&self, view: View<'_>) -> Table;

    /// What lies under the pointer, in words, and the images behind it.
    fn item(&self, view: View<'_>, item: usize) -> (String, Vec<usize>);
}

/// The one list of overviews.
pub const OVERVIEWS: &[&dyn Overview] = &[
    &class_diagnostics::ClassDiagnostics,
    &routing_maps::RoutingMaps,
    &regions::Regions,
    &confusion::ConfusionMatrix,
    &scatter::Scatter,
];

/// The overview of this id.
pub fn find(id: &str) -> Option<&'static dyn Overview> {
    OVERVIEWS.iter().copied().find(|overview| overview.id() == id)
}

/// A measure as a person reads it.
pub fn label(measure: &str) -> String {
    if measure == OWN { "True-class probability".to_owned() } else { words(measure) }
}

/// The measure that can be shown: the one chosen, or the confidence of a probe without it.
pub fn measure<'a>(evaluation: &Evaluation, chosen: &'a str) -> &'a str {
    if evaluation.values(chosen).is_some() { chosen } else { CONFIDENCE }
}

/// Why no class is drawn.
fn no_class(choice: &Choice) -> String {
    format!("No class has \u{201c}{}\u{201d} in its name", choice.classes.search.trim())
}

/// Who was asked about what, as one line.
pub fn subject(evaluation: &Evaluation) -> String {
    let change =
        if evaluation.change.is_empty() { String::new() } else { format!(" ({})", evaluation.change) };
    let asked = &evaluation.asked;
    format!(
        "{}{change} on {} {} images of {}",
        evaluation.probe,
        evaluation.len(),
        asked.split,
        asked.dataset
    )
}
