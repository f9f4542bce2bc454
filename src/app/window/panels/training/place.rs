//! The choice of where the next training is computed, and its options for Slurm.

use egui::Grid;

use super::form::COMBO_PX;
use super::send_before_start;
use crate::app::jobs::tasks::{TaskForm, TrainPlace, TrainPlaceSettings};
use crate::app::state::State;
use crate::app::window::panels::prelude::*;

/// Width of a text field.
const FIELD_PX: f32 = 110.0;
/// Least width of the name of a field.
const LABEL_PX: f32 = 64.0;
/// Gap between names and fields.
const GAP_PX: f32 = 12.0;

/// Draws the choice; `editing` holds the Slurm options while they are edited: the state gets them when typing ends.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>, editing: &mut Option<TaskForm>) {
    let known = &cx.state.settings.training;
    let mut place = cx.state.train_place();
    let mut form = editing.take().unwrap_or_else(|| known.slurm.clone());
    Grid::new("place").num_columns(2).spacing([12.0, 8.0]).min_col_width(92.0).show(ui, |ui| {
        let slurm = "On Slurm too, once a training is planned where sbatch is on the PATH";
        let label = ui.label("Where").on_hover_text(slurm).id;
        let list = combo(ui, "place", COMBO_PX, name(cx.state, place), |ui| {
            for other in cx.state.train_places() {
                let about = about(other);
                ui.selectable_value(&mut place, other, name(cx.state, other)).on_hover_text(about);
            }
        });
        list.labelled_by(label).on_hover_text(about(place));
        ui.end_row();
    });
    let settled = place != TrainPlace::Slurm || fields(ui, &mut form);
    // A saved place that is not available now is kept until another is chosen.
    let place = if place == cx.state.train_place() { known.place } else { place };
    let edited = TrainPlaceSettings { place, slurm: form };
    let set = || Command::SetTrainPlace(Box::new(edited.clone()));
    if settled && edited != *known {
        cx.send(set());
    } else if !settled && (edited == *known || !send_before_start(cx, set())) {
        *editing = Some(edited.slurm);
    }
}

/// The name of a place on the screen.
fn name(state: &State, place: TrainPlace) -> String {
    match place {
        TrainPlace::Here => "Here".to_owned(),
        TrainPlace::Detached => format!("On {}, detached", state.machine_name()),
        TrainPlace::Slurm => "On Slurm".to_owned(),
    }
}

fn about(place: TrainPlace) -> &'static str {
    match place {
        TrainPlace::Here => "In this program: it can be paused, and ends with the window",
        TrainPlace::Detached => "In a separate process, which keeps running if the window closes",
        TrainPlace::Slurm => {
            "Split into tasks that the cluster runs, which keep running if the window closes"
        }
    }
}

/// Fields for the options of Slurm; whether nothing is being typed.
fn fields(ui: &mut Ui, form: &mut TaskForm) -> bool {
    let TaskForm { tasks, partition, account, time, gpus, cpus, memory, array_limit, others } = &mut *form;
    let mut settled = true;
    let mut line = |ui: &mut Ui, width: f32, (text, hint, about, value): (&str, &str, &str, &mut String)| {
        ui.label(text).on_hover_text(about);
        let edit = TextEdit::singleline(value).hint_text(hint).desired_width(width);
        // By itself it is no wider than its column, which is narrow at first.
        let place = Vec2::new(width, ui.spacing().interact_size.y);
        let edit = ui.allocate_ui(place, |ui| field(ui, text, edit)).inner;
        settled &= !edit.has_focus();
        edit.on_hover_text(about);
    };
    let grid = |id: &str| Grid::new(id).spacing([GAP_PX, 6.0]).min_col_width(LABEL_PX);
    grid("slurm").num_columns(4).show(ui, |ui| {
        let all = [
            ("Tasks", "one per seed", "How many tasks to split it into: each trains some of the seeds, or some of the heads with one seed", tasks),
            ("At a time", "no limit", "Maximum number of tasks of one array that run at a time; Retry failed and the cluster's limits make several arrays", array_limit),
            ("Partition", "the default", "Partition of the cluster", partition),
            ("Account", "the default", "Account to charge", account),
            ("Time", "the default", "Time limit of a task, in Slurm's format: D-HH:MM:SS, HH:MM:SS or minutes. A task that needs more is queued again and continues", time),
            ("GPUs", "none", "GPUs per task", gpus),
            ("CPUs", "the default", "CPU cores per task", cpus),
            ("Memory", "the default", "Memory per task, such as 32G", memory),
        ];
        for (at, one) in all.into_iter().enumerate() {
            line(ui, FIELD_PX, one);
            if at % 2 == 1 {
                ui.end_row();
            }
        }
    });
    grid("other options").num_columns(2).show(ui, |ui| {
        let about = "Any other options of sbatch, without their dashes, separated by spaces";
        line(ui, 2.0 * (FIELD_PX + GAP_PX) + LABEL_PX, ("Others", "KEY=VALUE", about, others));
    });
    for fault in form.faults().iter().filter(|_| settled) {
        ui.label(style::failure(ui, fault).small());
    }
    settled
}
