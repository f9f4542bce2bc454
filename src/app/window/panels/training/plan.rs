//! The plan of the training in the form (its preflight), and the button that starts it.

use egui::Grid;

use super::run::cancelling;
use super::tasks;
use crate::app::format::{self, count};
use crate::app::jobs::tasks::TrainPlace;
use crate::app::jobs::train::{Estimate, Preflight, TrainSettings, assumed, smallest_difference};
use crate::app::window::panels::prelude::*;
use crate::model::train::run::Selection;
use crate::viz::heading::capitalised;

/// Warning where the best epoch is selected on the test images.
const TEST_SELECTION_WARNING: &str = "The best epoch is picked on the test images, which makes its accuracy optimistic. \
                        The last epoch is unbiased, and so is a best epoch picked on part of train";

pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let training = &cx.state.training;
    if let Some(active) = &training.active {
        return match active.folder {
            Some(_) => {
                placeholder::empty(ui, "A training is running; the next one can start when it ends");
            }
            None => {
                let (job, stopping) = (active.job, cancelling(cx, active));
                cx.busy(ui, "Preparing the training…", Some(job));
                ui.vertical_centered(|ui| {
                    // The images under way are finished first.
                    let stop = Button::new(if stopping { "Stopping…" } else { "Stop" });
                    let stop = ui.add_enabled(!stopping, stop);
                    if stop.on_hover_text("Tokens extracted so far are kept").clicked() {
                        cx.send(Command::Cancel(job));
                    }
                });
            }
        };
    }
    if let Some((job, _)) = training.submitting {
        return cx.busy(ui, "Submitting the tasks…", Some(job));
    }
    if let Some(missing) = training.form.missing() {
        if training.form.backbone.is_empty() || training.form.data.is_some() {
            return placeholder::empty(ui, missing);
        }
        cx.invite(ui, missing, Action::ChooseDataset);
        return;
    }
    let (known, job) = training.preflight();
    if known.is_none() && job.is_none() {
        cx.send(Command::PlanTraining);
    }
    match known {
        Some(Ok(preflight)) => {
            let area = ScrollArea::vertical().id_salt("plan").auto_shrink(false);
            area.show(ui, |ui| {
                ready(ui, cx, preflight, training.estimate, job.is_some());
                follow_focus(ui);
            });
        }
        Some(Err(error)) => {
            if placeholder::failed(ui, cx, error, Some("Try again")) {
                cx.send(Command::PlanTraining);
            }
        }
        None => cx.busy(ui, "Checking the dataset and the backbone…", job),
    }
}

fn ready(
    ui: &mut Ui,
    cx: &mut PanelContext<'_>,
    preflight: &Preflight,
    estimate: Option<Estimate>,
    timing: bool,
) {
    let settings = &cx.state.training.form;
    ui.label(RichText::new(format!("{} through {}", preflight.dataset, preflight.backbone)).heading());
    ui.add_space(6.0);
    Grid::new("plan").num_columns(2).spacing([16.0, 9.0]).min_col_width(92.0).show(ui, |ui| {
        // Takes some milliseconds: cached by the number of images and seeds.
        let numbers = (preflight.test, settings.seeds);
        let shows = ui.data_mut(|data| {
            let id = egui::Id::unique(("smallest difference", numbers));
            *data.get_temp_mut_or_insert_with(id, || smallest_difference(numbers.0, numbers.1))
        });
        for (name, first, second) in rows(settings, preflight, estimate, timing, shows) {
            ui.with_layout(egui::Layout::left_to_right(egui::Align::Min), |ui| ui.weak(name));
            ui.vertical(|ui| {
                ui.spacing_mut().item_spacing.y = 1.0;
                ui.add(egui::Label::new(first).wrap());
                if !second.is_empty() {
                    ui.add(egui::Label::new(RichText::new(second).small().weak()).wrap());
                }
            });
            ui.end_row();
        }
    });
    if preflight.selection == Selection::Test {
        ui.add_space(4.0);
        let text = style::failure(ui, TEST_SELECTION_WARNING).small();
        ui.add(egui::Label::new(text).wrap());
    }
    for note in &preflight.notes {
        ui.add(egui::Label::new(RichText::new(capitalised(note)).small().weak()).wrap());
    }
    let in_tasks = cx.state.train_place() == TrainPlace::Slurm;
    if in_tasks {
        tasks::planned(ui, cx);
    }
    ui.add_space(10.0);
    let fill = ui.visuals().selection.bg_fill;
    ui.scope(|ui| {
        ui.spacing_mut().button_padding = Vec2::new(18.0, 7.0);
        let text = if in_tasks { "Submit tasks" } else { "Start training" };
        let button = Button::new(RichText::new(text).strong()).fill(fill);
        if ui.add_enabled(cx.state.can_start_training(), button).clicked() {
            cx.send(Command::StartTraining);
        }
    });
}

/// Rows of the plan: name, value and details.
fn rows(
    settings: &TrainSettings,
    preflight: &Preflight,
    estimate: Option<Estimate>,
    timing: bool,
    shows: Option<f64>,
) -> Vec<(&'static str, String, String)> {
    let steps = preflight.steps(settings);
    let grid = preflight.dims.grid;
    let all = counted(preflight.images, "image", "images");
    let cached = match preflight.cached {
        _ if preflight.recompute => {
            "None are cached: the backbone reads the images again in every epoch".to_owned()
        }
        done if done == preflight.images => "All of them are cached already".to_owned(),
        0 => format!("None are cached yet; the backbone reads {all} first"),
        done => format!("Those of {} of {all} are cached already", count(done)),
    };
    let free =
        preflight.free.map_or(String::new(), |free| format!(", {} free on the disk", format::bytes(free)));
    let picked = match preflight.selection {
        Selection::Test => "The best epoch is picked on the test images".to_owned(),
        Selection::Val => {
            let images = counted(preflight.select, "validation image", "validation images");
            format!("The best epoch is picked on {images}")
        }
        Selection::PartOfTrain(_) => {
            let images = counted(preflight.select, "image", "images");
            format!("The best epoch is picked on {images} held out from train")
        }
    };
    let time = match estimate.map(|estimate| preflight.cost(&estimate, settings)) {
        Some(cost) => {
            let (tokens, training) = (format::roughly(cost.tokens), format::roughly(cost.training));
            let parts = match cost.tokens.is_zero() {
                true => "Estimated".to_owned(),
                false => format!("{tokens} for the tokens, {training} for the training,"),
            };
            let details = format!("{parts} from a few steps timed just now");
            (format!("About {}", format::roughly(cost.total())), details)
        }
        None if timing => ("Timing a few steps…".to_owned(), String::new()),
        None => ("Not known".to_owned(), "Timing a few steps was cancelled or failed".to_owned()),
    };
    vec![
        (
            "Images",
            format!(
                "{} to train on, {} to test on, {}",
                count(preflight.train),
                count(preflight.test),
                counted(preflight.dims.classes, "class", "classes")
            ),
            picked,
        ),
        (
            "Training",
            format!(
                "{} of {}",
                counted(steps, "step", "steps"),
                counted(settings.heads.len(), "head", "heads")
            ),
            format!(
                "{} of {}, {}",
                counted(settings.epochs, "epoch", "epochs"),
                counted(preflight.train.div_ceil(settings.batch), "step", "steps"),
                counted(settings.seeds, "seed", "seeds")
            ),
        ),
        (
            "Detectable difference",
            shows.map_or_else(|| "None".to_owned(), |points| format!("{points:.1} points or more")),
            capitalised(&assumed(shows, settings.seeds)),
        ),
        (
            "Tokens",
            format!(
                "{} per image, {} × {} grid: {}{free}",
                grid.len(),
                grid.rows,
                grid.cols,
                format::bytes(preflight.bytes)
            ),
            if preflight.recompute { cached } else { format!("{cached}, in {}", preflight.cache.display()) },
        ),
        ("Time", time.0, time.1),
        (
            "Writes to",
            preflight.out.display().to_string(),
            "Probes, curves and results; stopping keeps what is done".to_owned(),
        ),
    ]
}
