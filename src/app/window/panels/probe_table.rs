//! A table of all probes with a known accuracy: as saved and on the dataset, and means of measures over its
//! images. A click on a row shows that probe.

use std::sync::Arc;

use egui::Grid;
use egui::style::ScrollStyle;

use super::{overview, table};
use crate::app::jobs::ProbeId;
use crate::app::state::command::CTRL;
use crate::app::state::{RevealTarget, State};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::{in_reach, paint_sort};
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation, OWN};
use crate::model::explain::intervention::Intervention;
use crate::viz::draw::{Table, minus};
use crate::viz::export;
use crate::viz::figures::dataset::label;

/// Measures whose means over the images are columns; not every head has all.
const AVERAGED: [&str; 6] =
    [CONFIDENCE, OWN, "rank_coverage", "argmax_entropy", "row_max_p95", "kendall_tau"];

/// Height of a row.
const ROW_PX: f32 = 22.0;
/// Room that names of probes leave for the accuracies beside them, and the least that they are shown in.
const ACCURACIES_PX: f32 = 230.0;
const MIN_NAME_PX: f32 = 200.0;
/// Index of the column of saved accuracies.
const SAVED: usize = 0;
/// The id of the panel: its first name, which layouts keep.
pub const ACCURACIES: &str = "asked";

#[derive(Default)]
pub struct ProbeTable {
    /// The column of numbers that rows are sorted by; `None` for the name.
    sort: Option<usize>,
    rising: bool,
    /// The count of the state's reveal requests that was last handled.
    revealed: u64,
}

struct Row {
    probe: ProbeId,
    change: Intervention,
    name: String,
    /// Accuracy in percent, as saved and on the dataset, then the means; NaN if unknown.
    values: Vec<f64>,
}

impl Panel for ProbeTable {
    fn info(&self) -> Info {
        Info {
            id: ACCURACIES,
            title: "Probes",
            about: "All probes, one per row: their accuracy as saved and on the dataset; a click shows one",
            tab: TabGroup::Classes.front(),
        }
    }

    fn has_content(&self, cx: &PanelContext<'_>) -> Option<bool> {
        Some(subjects(cx.state).any(|(probe, change)| row_values(cx.state, probe, &change).is_some()))
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let mut rows = rows(cx.state);
        if rows.is_empty() {
            overview::evaluation(ui, cx);
            return;
        }
        // When a run is opened, its best probes come first.
        if cx.state.reveal.take_new(&mut self.revealed) == Some(RevealTarget::Accuracies) {
            (self.sort, self.rising) = (Some(SAVED), false);
        }
        match self.sort {
            Some(at) => rows.sort_by(|a, b| table::compare(a.values[at], b.values[at], !self.rising)),
            None => rows.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        let names = (ui.available_width() - ACCURACIES_PX).max(MIN_NAME_PX);
        ui.spacing_mut().scroll = ScrollStyle::thin(); // always seen, as the pane is seldom as wide as the table
        ScrollArea::both().auto_shrink(false).show(ui, |ui| {
            ui.add_space(6.0);
            ui.horizontal(|ui| {
                ui.add_space(8.0);
                let grid = Grid::new("asked").striped(true).spacing([18.0, 4.0]).min_row_height(ROW_PX);
                grid.show(ui, |ui| {
                    let shown = shown(&rows);
                    self.head(ui, &shown);
                    // Rows out of sight are skipped, except the longest, which sets the width, and the last, which sets the height.
                    let longest = (0..rows.len()).max_by_key(|at| rows[*at].name.len());
                    for (at, row) in rows.iter().enumerate() {
                        let keeps_size = Some(at) == longest || at + 1 == rows.len();
                        let top = ui.cursor().top();
                        let place = ui.clip_rect().with_min_y(top).with_max_y(top + ROW_PX);
                        if keeps_size || in_reach(ui, place) {
                            let name = row_ui(ui, cx, row, names, &shown);
                            table::menu(&name, || tsv(&rows));
                        } else {
                            ui.skip_ahead_auto_ids(1 + shown.len()); // of the widgets of a row
                            ui.end_row();
                        }
                    }
                });
                follow_focus(ui);
            });
        });
        table::copy_key(ui, ui.max_rect(), || tsv(&rows));
    }
}

impl ProbeTable {
    fn head(&mut self, ui: &mut Ui, shown: &[usize]) {
        if heading(ui, "Probe", self.sort.is_none().then_some(false)).clicked() {
            self.sort = None;
        }
        for (at, name) in names().enumerate().filter(|(at, _)| shown.contains(at)) {
            let on = self.sort == Some(at);
            let about = match at {
                SAVED => "On the test images of its training, as its file says",
                _ => "Mean over the images",
            };
            let about = format!("{about}; click to sort, {CTRL}+C copies the table");
            if heading(ui, &name, on.then_some(!self.rising)).on_hover_text(about).clicked() {
                (self.rising, self.sort) = (on && !self.rising, Some(at));
            }
        }
        ui.end_row();
    }
}

/// A heading to click; the column that rows are sorted by has an arrow beside it, `down` or up.
fn heading(ui: &mut Ui, name: &str, down: Option<bool>) -> Response {
    let lines = name.replacen(' ', "\n", 1); // headings are wider than their numbers
    let text = if down.is_some() { RichText::new(lines).strong() } else { RichText::new(lines).weak() };
    let heading = ui.add(Button::new(text).frame_when_inactive(false));
    heading.widget_info(|| WidgetInfo::selected(Role::Button, true, down.is_some(), name));
    if let Some(down) = down {
        // In the gap to the column before it.
        paint_sort(ui, heading.rect.left_center(), down, ui.visuals().strong_text_color());
    }
    heading
}

/// Headings of the columns of numbers.
fn names() -> impl Iterator<Item = String> {
    let accuracies = ["Accuracy as saved (%)".to_owned(), "Accuracy (%)".to_owned()];
    accuracies.into_iter().chain(AVERAGED.iter().map(|measure| label(measure)))
}

/// Indices of the columns in which any row has a number.
fn shown(rows: &[Row]) -> Vec<usize> {
    let known = |at: &usize| rows.iter().any(|row| !row.values[*at].is_nan());
    (0..names().count()).filter(known).collect()
}

/// Draws a row; its name, to click, at most `room` wide.
fn row_ui(ui: &mut Ui, cx: &mut PanelContext<'_>, row: &Row, room: f32, shown: &[usize]) -> Response {
    let column = cx.state.columns.iter().find(|(_, c)| (c.probe, &c.change) == (row.probe, &row.change));
    let column = column.map(|(id, _)| *id);
    let chosen = column.is_some() && cx.focus == column;
    let text = font::fit_middle(&row.name, 13.5, room);
    let is_cut = text != row.name;
    let mut name = ui.selectable_label(chosen, text).accessible_name(&row.name);
    if is_cut {
        name = name.on_hover_text(&row.name);
    }
    if name.clicked() {
        match column {
            Some(column) => cx.send(Command::Focus(column)),
            None if row.change == Intervention::None => cx.send(Command::ShowProbe(row.probe)),
            None => cx.send(Command::AddColumn { probe: row.probe, image: None, change: row.change.clone() }),
        }
    }
    for (at, value) in row.values.iter().enumerate().filter(|(at, _)| shown.contains(at)) {
        let text = match at {
            _ if value.is_nan() => RichText::new("–").weak(),
            0 | 1 => RichText::new(format!("{value:.1}")),
            _ => RichText::new(minus(format!("{value:.3}"))),
        };
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(ui.spacing().button_padding.x); // as the headings, which are buttons, end
            ui.label(text);
        });
    }
    ui.end_row();
    name
}

/// Every probe as trained, then the probes and interventions of changed columns.
fn subjects(state: &State) -> impl Iterator<Item = (ProbeId, Intervention)> {
    let changed = state.columns.values().filter(|column| column.change != Intervention::None);
    let trained = state.library.probes.keys().map(|probe| (*probe, Intervention::None));
    trained.chain(changed.map(|column| (column.probe, column.change.clone())))
}

fn rows(state: &State) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let names = state.library.probe_names();
    for (probe, change) in subjects(state) {
        let Some(values) = row_values(state, probe, &change) else { continue };
        // Several columns may have the same.
        if !change.is_none() && rows.iter().any(|row| (row.probe, &row.change) == (probe, &change)) {
            continue;
        }
        let name = state.with_backbone(names[&probe].clone(), probe);
        let name = if change.is_none() { name } else { format!("{name} · {change}") };
        rows.push(Row { probe, change, name, values });
    }
    rows
}

/// The numbers of a row; `None` if all are unknown.
fn row_values(state: &State, probe: ProbeId, change: &Intervention) -> Option<Vec<f64>> {
    let info = state.library.probe_info(probe)?;
    let saved = info.accuracy.filter(|_| change.is_none());
    let evaluation = state.evaluation(probe, change).and_then(Result::ok);
    if saved.is_none() && evaluation.is_none() {
        return None;
    }
    let on_dataset = evaluation.map_or_else(|| vec![f64::NAN; 1 + AVERAGED.len()], values);
    Some(std::iter::once(saved.unwrap_or(f64::NAN)).chain(on_dataset).collect())
}

/// The accuracy of an evaluation in percent, then the means over its images; NaN if unknown.
fn values(evaluation: &Arc<Evaluation>) -> Vec<f64> {
    let mean = |measure: &&str| evaluation.mean(measure).unwrap_or(f64::NAN);
    std::iter::once(evaluation.accuracy()).chain(AVERAGED.iter().map(mean)).collect()
}

/// The table as tab-separated text; unknown values are empty.
fn tsv(rows: &[Row]) -> String {
    let table = Table::default().words("Probe", rows.iter().map(|row| row.name.clone()));
    let column = |table: Table, (at, name): (usize, String)| {
        table.numbers(&name, rows.iter().map(|row| row.values[at]))
    };
    let shown = shown(rows);
    export::tsv(&names().enumerate().filter(|(at, _)| shown.contains(at)).fold(table, column))
}
