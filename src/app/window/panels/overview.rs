//! One overview of the focused column's evaluation on a dataset, as a pane. A click shows the images
//! behind what was clicked.

use std::sync::Arc;

use super::controls::colors;
use super::plot_view::PlotView;
use crate::app::format::{count, noun};
use crate::app::jobs::DatasetId;
use crate::app::state::{GalleryFilter, Scope, Status};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::keep_together;
use crate::model::explain::evaluation::Evaluation;
use crate::viz::figures::dataset::confusion::ConfusionMatrix;
use crate::viz::figures::dataset::{
    Choice, ClassFilter, ClassSort, Control, MapOf, Overview, label, measure,
};
use crate::viz::figures::plot::EvaluationPlot;

/// What a scene depends on: the addresses of both evaluations, the names of their probes, the choices, and the marked image.
type Key = ([usize; 2], [String; 2], Choice, Option<usize>);

/// Up to this many classes are all shown, without a choice.
const FEW_CLASSES: usize = 12;

/// Room for a list of measures or probes with its label.
const LABELLED_PX: f32 = 200.0;

pub struct OverviewPane {
    overview: &'static dyn Overview,
    plot: PlotView<Key, EvaluationPlot>,
}

impl OverviewPane {
    pub fn new(overview: &'static dyn Overview) -> Self {
        Self { overview, plot: PlotView::default() }
    }
}

impl Panel for OverviewPane {
    fn info(&self) -> Info {
        self.overview.info()
    }

    fn has_content(&self, cx: &PanelContext<'_>) -> Option<bool> {
        Some(has_content(cx))
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some((dataset, evaluation)) = evaluation(ui, cx) else { return };
        let against = cx.state.selection.against;
        let other = against.and_then(|column| cx.state.evaluation_of(column)).and_then(Result::ok);
        let names = [cx.focus, against.filter(|_| other.is_some()).or(cx.focus)];
        let names = names.map(|column| cx.evaluated_name(column));
        let other = other.unwrap_or(&evaluation).clone();
        // Only a scatter marks the current image; the others need not be laid out again for it.
        let selected = cx.state.current_index(dataset).filter(|_| self.overview.is_by_image());
        let choice = cx.state.views.overview.clone();
        let plot = EvaluationPlot { overview: self.overview, evaluation, other, names, choice, selected };
        ui.add_space(6.0);
        self.controls(ui, cx, &plot);
        self.draw(ui, cx, plot, dataset);
    }
}

impl OverviewPane {
    fn draw(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, plot: EvaluationPlot, dataset: DatasetId) {
        let evaluations = [Arc::as_ptr(&plot.evaluation).addr(), Arc::as_ptr(&plot.other).addr()];
        let key = (evaluations, plot.names.clone(), plot.choice.clone(), plot.selected);
        // The mark of the current image is not exported.
        let export = |plot: &EvaluationPlot| EvaluationPlot { selected: None, ..plot.clone() };
        let Some((plot, item, response)) = self.plot.fill(ui, cx, key, plot, export) else { return };
        let (what, images) = plot.overview.item(plot, item);
        let clicked = response.clicked();
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(&what);
            match images.len() {
                1 => drop(ui.weak("Click to show it")),
                many => drop(ui.weak(format!("{} images; click to see them in the gallery", count(many)))),
            }
        });
        if clicked {
            show_images(cx, dataset, &what, &images);
        }
    }

    /// Draws the overview's controls in a line above it.
    fn controls(&self, ui: &mut Ui, cx: &mut PanelContext<'_>, plot: &EvaluationPlot) {
        let EvaluationPlot { evaluation, other, names: [name, _], choice: before, .. } = plot;
        let mut choice = before.clone();
        inset(ui, |ui| {
            ui.horizontal_wrapped(|ui| {
                let by_image = self.overview.is_by_image();
                let controls = self.overview.controls().iter();
                for control in controls.filter(|control| self.overview.depends_on(plot, **control)) {
                    match control {
                        Control::Measure => {
                            let name = if by_image { "x" } else { "Measure" };
                            pick(ui, name, evaluation, &mut choice.measure);
                        }
                        Control::Against => {
                            on_one_line(ui, |ui| pick(ui, "y", other, &mut choice.against));
                            on_one_line(ui, |ui| y_from(ui, cx));
                        }
                        Control::Maps => maps(ui, &mut choice.maps),
                        Control::Map => colors(ui, &mut choice.map),
                        Control::Classes => classes(ui, evaluation.set.classes.len(), &mut choice.classes),
                    }
                }
                if !by_image {
                    let text = match self.overview.id() == ConfusionMatrix.id() {
                        true => name.clone(), // the accuracy is the title of the matrix
                        false => format!("{name}, accuracy {:.1} %", evaluation.accuracy()),
                    };
                    ui.add(Label::new(RichText::new(text).weak()).truncate()); // moves to the next line as a whole
                }
            });
        });
        if choice != *before {
            cx.send(Command::SetOverview(Box::new(choice)));
        }
    }
}

/// Draws a label and its list in a wrapped line, or in the next one where they do not both fit.
pub fn on_one_line(ui: &mut Ui, add: impl FnOnce(&mut Ui)) {
    keep_together(ui, LABELLED_PX);
    ui.horizontal(add);
}

/// Chooses the column whose measure is on the y axis.
fn y_from(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let before = cx.state.selection.against;
    let evaluated = |column| cx.state.evaluation_of(column).is_some_and(|found| found.is_ok());
    let chosen = cx.other_column(ui, "from", "the same probe", before, evaluated);
    if chosen != before {
        cx.send(Command::SetAgainst(chosen));
    }
}

/// Chooses a measure of an evaluation.
fn pick(ui: &mut Ui, text: &str, evaluation: &Evaluation, chosen: &mut String) {
    let id = ui.label(text).id;
    let shown = label(measure(evaluation, chosen));
    let list = combo(ui, text, 150.0, shown, |ui| {
        for name in evaluation.measures.keys() {
            ui.selectable_value(chosen, (*name).to_owned(), label(name));
        }
    });
    list.labelled_by(id);
}

/// Chooses which classes are drawn and in which order; nothing for up to [`FEW_CLASSES`].
fn classes(ui: &mut Ui, all: usize, filter: &mut ClassFilter) {
    if all <= FEW_CLASSES {
        return;
    }
    let search = TextEdit::singleline(&mut filter.search).hint_text("Search classes").desired_width(110.0);
    field(ui, "Search classes", search);
    let orders = [None, Some(ClassSort::Difference), Some(ClassSort::Name), Some(ClassSort::Dataset)];
    let name = |sort: &Option<ClassSort>| sort.map_or("Default order", ClassSort::name);
    let list = choice(ui, "class order", 110.0, &mut filter.sort, orders, name);
    list.accessible_name("Order of the classes");
    let text = |most: Option<usize>| match most {
        Some(most) if most < all => format!("{most} of {} classes", count(all)),
        _ => format!("All {}", counted(all, "class", "classes")),
    };
    let list = combo(ui, "most classes", 130.0, text(filter.most), |ui| {
        for most in [Some(20), Some(40), Some(100)].into_iter().filter(|most| *most < Some(all)) {
            ui.selectable_value(&mut filter.most, most, text(most));
        }
        ui.selectable_value(&mut filter.most, None, text(None));
    });
    let about = "If there are too many, the classes that differ most: the ends of a measure, the maps furthest from all, the most errors";
    list.accessible_name("Classes shown").on_hover_text(about);
}

fn maps(ui: &mut Ui, of: &mut MapOf) {
    for value in MapOf::ALL {
        let about = match value {
            MapOf::Positions => "Where tokens come in the order",
            MapOf::Weights => "How much tokens count",
        };
        ui.selectable_value(of, value, value.name()).on_hover_text(about);
    }
}

/// Whether the focused column has an evaluation on the current dataset, or it is known why not.
pub fn has_content(cx: &PanelContext<'_>) -> bool {
    cx.evaluation().is_some() || cx.state.evaluation_error(cx.focus).is_some()
}

/// The focused column's evaluation on the current dataset; if there is none, draws why and what to do.
pub fn evaluation(ui: &mut Ui, cx: &mut PanelContext<'_>) -> Option<(DatasetId, Arc<Evaluation>)> {
    let state = cx.state;
    let Some((dataset, part)) = state.dataset() else {
        let opening = state.library.datasets.values().find_map(|dataset| match &dataset.status {
            Status::Failed(_, error) => Some(Err(error)),
            Status::Opening(job) => Some(Ok(*job)),
            _ => None,
        });
        match opening {
            Some(Ok(job)) => cx.busy(ui, "Opening the dataset…", Some(job)),
            Some(Err(error)) => cx.failed(ui, error),
            None => {
                let hint = "Open a dataset to see what probes make of all its images";
                cx.invite(ui, hint, Action::OpenDataset);
            }
        }
        return None;
    };
    if let Some(evaluation) = cx.evaluation() {
        return Some((dataset, evaluation.clone()));
    }
    if let Some(job) = state.evaluations.under_way() {
        let looks_up = state.evaluations.job().is_none();
        cx.busy(ui, if looks_up { "Looking for evaluations…" } else { "Evaluating…" }, Some(job));
        return None;
    }
    if state.evaluations.is_deferred() {
        cx.busy(ui, "The evaluation begins once everything is open", None);
        return None;
    }
    match state.evaluation_error(cx.focus) {
        Some(error) => {
            if placeholder::failed(ui, cx, error, Some("Evaluate again")) {
                cx.choose(Action::EvaluateShown);
            }
        }
        None if state.columns.is_empty() => cx.hint(ui),
        None => {
            let hint = format!(
                "Not evaluated yet on the {} {} {} of {}",
                count(part.samples.len()),
                part.set.split,
                noun(part.samples.len(), "image", "images"),
                part.set.dataset
            );
            cx.invite(ui, &hint, Action::EvaluateShown);
        }
    }
    None
}

/// Selects the first of these images of a dataset; several become the gallery's filter, named by the first line of `what`.
fn show_images(cx: &mut PanelContext<'_>, dataset: DatasetId, what: &str, images: &[usize]) {
    let ids: Vec<_> = images.iter().filter_map(|at| cx.state.image_at(dataset, *at)).collect();
    let Some(first) = ids.first().copied() else { return };
    if ids.len() > 1 {
        let what = what.lines().next().unwrap_or_default().to_owned();
        let filter =
            GalleryFilter { only: Some((what, ids.into())), ..GalleryFilter::new(Scope::Dataset(dataset)) };
        cx.send(Command::SetGalleryFilter(Box::new(filter)));
    }
    cx.send(Command::SelectImage(first));
}
