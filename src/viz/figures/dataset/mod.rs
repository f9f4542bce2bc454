//! Figures of an [`Evaluation`]: the results of one probe on all images of a dataset.
//!
//! An [`Overview`] is to an evaluation what a [`Figure`](crate::viz::Figure) is to a trace; [`OVERVIEWS`] is
//! the list of all. Hover targets are numbered items of a figure; [`Overview::item`] returns the text of an item and the
//! images it stands for.

mod class_diagnostics;
mod classes;
pub(crate) mod confusion;
mod regions;
mod routing_maps;
pub(crate) mod scatter;

use serde::{Deserialize, Serialize};

pub use self::classes::{ClassFilter, ClassSort, Picked, folded};

use super::meanings::words;
use super::plot::EvaluationPlot;
use crate::model::explain::evaluation::similarity::Similarity;
use crate::model::explain::evaluation::vectors::VectorKind;
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation, OWN};
use crate::viz::draw::{Color, Identity, Map, Point, Scene, Shape, Stroke, Table, Theme};
use crate::viz::{Empty, Info, Size};

listed! {
    /// What maps of classes show.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum MapOf {
        /// The mean position of every token.
        #[default]
        Positions: "positions", "Position";
        /// The mean weight of every token.
        Weights: "weights", "Weight";
    }
}

listed! {
    /// What the dots of a map of images are coloured by.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ColorBy {
        /// Whether the predicted class is the true one.
        #[default]
        Outcome: "outcome", "Right and wrong";
        /// The true class.
        Class: "class", "True class";
    }
}

/// Settings of overviews.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The measure shown by class, and on the x axis of a scatter plot.
    pub measure: String,
    /// The measure on the y axis of a scatter plot.
    pub against: String,
    /// What maps of classes show.
    pub maps: MapOf,
    /// Colour map of magnitudes.
    pub map: Map,
    /// Which classes are drawn, and in which order.
    pub classes: ClassFilter,
    /// Which vectors images are compared by, on the map of images and in the gallery.
    pub vectors: VectorKind,
    /// How these vectors are compared.
    pub similarity: Similarity,
    /// Whether an image also counts as similar to one whose mirror image it is similar to.
    pub flipped: bool,
    /// What the dots of the map of images are coloured by.
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

/// A setting that an overview depends on: the field of [`Choice`] of this name.
#[expect(missing_docs, reason = "the fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    Measure,
    /// With the evaluation that it is taken from ([`EvaluationPlot::other`]).
    Against,
    Maps,
    Map,
    Classes,
}

/// A kind of picture of an evaluation, which a plot holds with the settings.
pub trait Overview: Sync {
    /// Its name and description.
    fn info(&self) -> Info;

    /// Its name on a command line.
    fn id(&self) -> &'static str {
        self.info().id
    }

    /// The settings it depends on, in the order of the controls on the screen.
    fn controls(&self) -> &'static [Control];

    /// Whether what it shows now depends on `control`, one of [`controls`](Self::controls).
    fn depends_on(&self, _plot: &EvaluationPlot, _control: Control) -> bool {
        true
    }

    /// Whether it shows single images, and so can show those of two evaluations.
    fn is_by_image(&self) -> bool {
        self.controls().contains(&Control::Against)
    }

    /// A height that suits `width`, in points.
    fn height(&self, plot: &EvaluationPlot, width: f32) -> f32;

    /// The smallest size, in points, at which all of it can be read in a pane of this `width`: a smaller pane scrolls. Zero, the
    /// default, never scrolls.
    fn legible(&self, _plot: &EvaluationPlot, _width: f32) -> Size {
        Size::default()
    }

    /// The picture, or why there is nothing to draw.
    fn scene(&self, plot: &EvaluationPlot, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// The values behind the picture.
    fn table(&self, plot: &EvaluationPlot) -> Table;

    /// The text of an item under the pointer, and the indices of the images it stands for; empty for an unknown item.
    fn item(&self, plot: &EvaluationPlot, item: usize) -> (String, Vec<usize>);
}

/// All overviews, in the order of menus.
pub const OVERVIEWS: &[&dyn Overview] = &[
    &class_diagnostics::ClassDiagnostics,
    &routing_maps::RoutingMaps,
    &regions::Regions,
    &confusion::ConfusionMatrix,
    &scatter::Scatter,
];

/// The overview with this id; `None` if there is none.
pub fn find(id: &str) -> Option<&'static dyn Overview> {
    OVERVIEWS.iter().copied().find(|overview| overview.id() == id)
}

/// The name of a measure as it is displayed.
pub fn label(measure: &str) -> String {
    match measure {
        CONFIDENCE => "Top-1 probability".to_owned(),
        OWN => "True-class probability".to_owned(),
        other => words(other),
    }
}

/// The name of a measure on an axis: with its unit, where it has one.
fn axis_name(measure: &str) -> String {
    let unit = match measure {
        "mean_position_spread" => " (positions)",
        "path_length" => " (patches)",
        _ => "",
    };
    label(measure) + unit
}

/// The measure to show: `chosen`, or the probability of the predicted class if the evaluation does not have it.
pub fn measure<'a>(evaluation: &Evaluation, chosen: &'a str) -> &'a str {
    if evaluation.values(chosen).is_some() { chosen } else { CONFIDENCE }
}

/// Draws the dots of images, each of one of the `kinds` and at its place: small and faint if there are many, later kinds over
/// earlier ones. A kind is a colour, and whether its dots are in a ring, which is seen in grey too. Marks the selected image.
pub(super) fn image_dots(
    scene: &mut Scene,
    theme: &Theme,
    kinds: &[(Color, bool)],
    images: &[Option<(usize, Point)>],
    selected: Option<usize>,
) {
    let root = (images.len() as f32).sqrt();
    let (radius, alpha) = ((26.0 / root).clamp(0.9, 1.9), (60.0 / root).clamp(0.35, 0.85));
    for (kind, (color, in_ring)) in kinds.iter().enumerate() {
        let stroke = in_ring.then(|| Stroke::new(0.35 * radius, theme.ink.alpha(alpha)));
        for (image, dot) in images.iter().enumerate() {
            if let Some((_, center)) = dot.filter(|(own, _)| *own == kind) {
                let fill = Some(color.alpha(alpha));
                scene.add(Shape::Circle { center, radius, fill, stroke }, Some(Identity::Item(image)));
            }
        }
    }
    if let Some((_, center)) = selected.and_then(|image| *images.get(image)?) {
        let stroke = Some(Stroke::new(1.2, theme.ink));
        scene.add(Shape::Circle { center, radius: 4.0, fill: None, stroke }, None);
    }
}

/// The images of an evaluation, with their true and predicted classes.
pub(super) fn image_table(evaluation: &Evaluation) -> Table {
    let set = &evaluation.set;
    let predicted = (0..evaluation.len()).map(|image| evaluation.predicted_name(image).to_owned());
    Table::default()
        .words("image", set.images.iter().cloned())
        .words("class", set.class.iter().map(|class| set.classes[*class as usize].clone()))
        .words("predicted", predicted)
}

/// The changes to how a probe of this name reads; `None` if it reads as trained.
pub(super) fn heading(Evaluation { change, .. }: &Evaluation, name: &str) -> Option<String> {
    (!change.is_empty()).then(|| format!("{name}: {change}, not retrained"))
}

/// The message if no class name matches the search.
fn no_class(choice: &Choice) -> String {
    format!("No class has \u{201c}{}\u{201d} in its name", choice.classes.search.trim())
}

/// One line on the evaluation of a probe of this name: the changes to how it reads, the number of images, their split and dataset.
pub fn subject(evaluation: &Evaluation, name: &str) -> String {
    let change =
        if evaluation.change.is_empty() { String::new() } else { format!(" ({})", evaluation.change) };
    let set = &evaluation.set;
    let images = evaluation.len();
    format!("{name}{change} on {images} {} {} of {}", set.split, noun(images), set.dataset)
}

/// The noun of a number of images.
const fn noun(images: usize) -> &'static str {
    if images == 1 { "image" } else { "images" }
}
