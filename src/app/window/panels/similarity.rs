//! Controls for how images are compared, shared by the map of images and the gallery, and the request for the result.

use crate::app::jobs::DatasetId;
use crate::app::state::Requested;
use crate::app::window::panels::prelude::*;
use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use crate::model::explain::evaluation::vectors::VectorKind;
use crate::viz::figures::dataset::Choice;

/// Width of a combo box.
const LIST_PX: f32 = 112.0;

/// Chooses which vectors of the images are compared, and by which similarity.
pub fn choose(ui: &mut Ui, chosen: &mut Choice) {
    let list = choice(ui, "vectors", LIST_PX, &mut chosen.vectors, VectorKind::ALL, |kind| kind.name());
    list.accessible_name("What is compared").on_hover_text(
        "For every token: where it is read, what it adds to the image's own class, or how much it counts",
    );
    let list = choice(ui, "similarity", LIST_PX, &mut chosen.similarity, Similarity::ALL, |way| way.name());
    let about = "The cosine of two images' numbers, or Spearman's correlation of their ranks";
    list.accessible_name("Similarity").on_hover_text(about);
}

/// The same above the gallery, with a checkbox for mirror images; sends a change at once.
pub fn controls(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let before = &cx.state.views.overview;
    let mut chosen = before.clone();
    choose(ui, &mut chosen);
    let about = "Images also count as alike if one is like the other's left-right mirror image";
    ui.checkbox(&mut chosen.flipped, "Or flipped").on_hover_text(about);
    if chosen != *before {
        cx.send(Command::SetOverview(Box::new(chosen)));
    }
}

/// The images of a dataset, as the focused probe reads them, in the space of the chosen comparison, and the job that prepares it:
/// it is requested here, unless it already was or the probe has not been evaluated on the dataset.
pub fn space<'a>(cx: &mut PanelContext<'a>, dataset: DatasetId) -> Requested<'a, ImageSpace> {
    let state = cx.state;
    let is_evaluated = |column: &ColumnId| matches!(state.evaluation_on(dataset, *column), Some(Ok(_)));
    let Some(column) = cx.focus.filter(is_evaluated) else { return (None, None) };
    let space = state.image_space(dataset, column);
    if let (None, None) = space {
        cx.send(Command::CompareImages(dataset, column));
    }
    space
}
