//! Probes side by side: a column each, figures as rows, all of a row on one scale, the hovered token marked
//! in all. One column can be pinned as the reference; the others then show their difference from it.

use std::collections::HashMap;
use std::sync::Arc;

use egui::{Frame, Margin};

use super::differences::Differences;
use super::figure_view::{FigureInput, FigureView};
use super::{column_head, getting_started, true_class};
use crate::app::state::{Column, ColumnState, RevealTarget};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::in_reach;
use crate::viz::difference::{OTHER_TOKENS, other_class, other_tokens};
use crate::viz::draw::Keys;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{MARGIN, Options, legend_lines};

/// Minimum width of a column.
const MIN_COLUMN_PX: f32 = 260.0;
/// Maximum width of a column.
const MAX_COLUMN_PX: f32 = 460.0;
/// Gap between columns and rows.
const GAP_PX: f32 = 12.0;
/// In less height the controls are scrolled with the columns: above them they would leave no room.
const LOW_PX: f32 = 320.0;
/// The id of the panel.
pub const COMPARE: &str = "compare";

#[derive(Default)]
pub struct Compare {
    views: HashMap<(ColumnId, &'static str), FigureView>,
    differences: Differences,
    /// The count of the state's reveal requests that was last handled.
    revealed: u64,
}

impl Panel for Compare {
    fn info(&self) -> Info {
        Info {
            id: COMPARE,
            title: "Compare",
            about: "Probes side by side, on shared scales",
            tab: TabGroup::Page.tab(),
        }
    }

    fn shows_probe(&self) -> bool {
        false
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        if cx.state.columns.is_empty() {
            return cx.hint(ui);
        } else if cx.state.compared().next().is_none() {
            return placeholder::empty(ui, "No column yet: the two bars in a probe's row add it to Compare");
        }
        let is_empty = |(_, column): (ColumnId, &Column)| matches!(column.shown, ColumnState::Nothing);
        if getting_started::needed(cx.state) && cx.state.compared().all(is_empty) {
            return cx.hint(ui); // once, not in every cell
        }
        let low = ui.available_height() < LOW_PX;
        if !low {
            controls(ui, cx);
        }
        self.views.retain(|(column, figure), _| {
            cx.state.columns.contains_key(column) && cx.state.views.rows.contains(*figure)
        });
        self.differences.retain(|column| cx.state.columns.contains_key(&column));
        let columns: Vec<ColumnId> = cx.state.compared().map(|(id, _)| id).collect();
        let room = ui.available_width() - 2.0 * GAP_PX - ui.spacing().scroll.allocated_width();
        let width = ((room + GAP_PX) / columns.len() as f32 - GAP_PX).clamp(MIN_COLUMN_PX, MAX_COLUMN_PX);
        let mut area = ScrollArea::both().auto_shrink(false);
        // A column to reveal is scrolled to the middle.
        if let Some(RevealTarget::Compare(id)) = cx.state.reveal.take_new(&mut self.revealed)
            && let Some(at) = columns.iter().position(|other| *other == id)
        {
            let left = GAP_PX + at as f32 * (width + GAP_PX);
            area = area.horizontal_scroll_offset((left - (room - width) / 2.0).max(0.0));
        }
        area.show(ui, |ui| {
            if low {
                ui.scope(|ui| {
                    ui.set_max_width(room);
                    controls(ui, cx);
                });
            }
            ui.spacing_mut().item_spacing = Vec2::splat(0.0);
            let size = Vec2::new(width, column_head::height(cx, &columns));
            let heads = row(ui, &columns, "head", size, |ui, id| column_head::ui(ui, cx, id, width));
            let rows = &cx.state.views.rows;
            for figure in cx.state.figures().filter(|figure| rows.contains(figure.id())) {
                let keys = self.keys(cx, figure, width);
                let size = Vec2::new(width, Self::row_height(cx, figure, keys, width));
                row(ui, &columns, figure.id(), size, |ui, id| self.figure_ui(ui, cx, figure, keys, id));
            }
            column_head::keep_names(ui, cx, &columns, |at| place(heads, at, size));
            follow_focus(ui);
        });
    }
}

/// Draws the controls above the columns.
fn controls(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| {
        ui.spacing_mut().item_spacing = Vec2::new(4.0, 4.0);
        ui.horizontal_wrapped(|ui| {
            Compare::choose_rows(ui, cx);
            true_class::offer_one_class(ui, cx);
        });
    });
}

/// The place of the cell of column `at` in the row `whole` of cells of this size.
fn place(whole: Rect, at: usize, size: Vec2) -> Rect {
    let corner = whole.min + Vec2::new(GAP_PX + at as f32 * (size.x + GAP_PX), GAP_PX / 2.0);
    Rect::from_min_size(corner, size)
}

/// Draws a row of cells of this size, and returns its place. Those out of reach are skipped, but for their ids.
fn row(
    ui: &mut Ui,
    columns: &[ColumnId],
    name: &str,
    size: Vec2,
    mut add: impl FnMut(&mut Ui, ColumnId),
) -> Rect {
    let whole = Vec2::new(columns.len() as f32 * (size.x + GAP_PX) + GAP_PX, size.y + GAP_PX);
    let (rect, _) = ui.allocate_exact_size(whole, Sense::hover());
    for (at, id) in columns.iter().enumerate() {
        let place = place(rect, at, size);
        if !in_reach(ui, place) {
            ui.skip_ahead_auto_ids(1);
            continue;
        }
        // A child `Ui` does not move the cursor of the row.
        let mut cell = ui.new_child(UiBuilder::new().max_rect(place).id_salt((name, id)));
        cell.shrink_clip_rect(place.expand(2.0));
        add(&mut cell, *id);
    }
    rect
}

/// Pixels per point of a figure in a column.
fn zoom(width: f32) -> f32 {
    (width / 190.0).clamp(1.35, 1.7)
}

impl Compare {
    fn choose_rows(ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let rows = &cx.state.views.rows;
        for figure in cx.state.figures() {
            let shown = rows.contains(figure.id());
            if ui.selectable_label(shown, figure.title()).on_hover_text(figure.info().about).clicked() {
                let mut rows = rows.clone();
                if !rows.remove(figure.id()) {
                    rows.insert(figure.id().to_owned());
                }
                cx.send(Command::SetRows(rows));
            }
        }
        let traces: Vec<Arc<Trace>> =
            cx.state.compared().filter_map(|(_, c)| c.shown.trace().cloned()).collect();
        ui.add_space(10.0);
        let mut shared = cx.state.views.shared;
        cx.button(ui, egui::Checkbox::new(&mut shared, "Shared scales"), Action::ToggleShared);
        ui.add_space(8.0);
        let mut difference = cx.state.views.difference;
        let checkbox = egui::Checkbox::new(&mut difference, "Differences from pinned");
        cx.button(ui, checkbox, Action::ToggleDifference);
        ui.add_space(10.0);
        let figures: Vec<_> = cx.state.figures().filter(|figure| rows.contains(figure.id())).collect();
        let ready = !traces.is_empty() && !figures.is_empty();
        if ui.add_enabled(ready, egui::Button::new("Export comparison…")).clicked() {
            let row_options: Vec<_> =
                figures.iter().map(|figure| cx.state.views.figure_options(figure.id())).collect();
            let options = row_options.first().cloned().unwrap_or_default();
            // With the pinned column alone there is no difference to export.
            let other = |pinned: &&Arc<Trace>| traces.iter().any(|trace| !Arc::ptr_eq(trace, pinned));
            let against = cx.state.reference().filter(|_| cx.state.views.difference).filter(other).cloned();
            let own_scales = !cx.state.views.shared;
            let plot = TracePlot::compared(figures, traces, options);
            let plot = TracePlot { row_options, against, own_scales, ..plot };
            cx.actions.push(UiAction::Export(Arc::new(plot)));
        }
    }

    /// The legends of a figure's row, above which its charts begin at one height.
    fn keys(&mut self, cx: &PanelContext<'_>, figure: &'static dyn Figure, width: f32) -> Keys {
        let pinned = cx.state.selection.reference;
        let reference = cx.state.reference().filter(|_| cx.state.views.difference);
        let shown = cx.state.compared().filter_map(|(id, column)| {
            let trace = column.shown.trace()?;
            match reference.filter(|_| pinned != Some(id)) {
                Some(reference) => self.differences.between(id, trace, reference).ok(),
                None => Some(trace.clone()),
            }
        });
        let shown: Vec<Arc<Trace>> = shown.collect();
        let room = width / zoom(width) - 2.0 * MARGIN;
        Keys::Beside(legend_lines(figure, shown.iter().map(|trace| &**trace), room))
    }

    /// Height of a figure's row: that of the column that needs most.
    fn row_height(cx: &PanelContext<'_>, figure: &'static dyn Figure, keys: Keys, width: f32) -> f32 {
        let zoom = zoom(width);
        let traces = cx.state.compared().filter_map(|(_, column)| column.shown.trace());
        let options = |trace: &Trace| Options { keys, ..cx.options(figure, trace) };
        let height = |trace: &Arc<Trace>| figure.height(trace, &options(trace), width / zoom);
        let natural = traces.map(|trace| height(trace) * zoom);
        natural.fold(110.0, f32::max).min(620.0) + 6.0
    }

    /// Common limits of the differences of all columns on this scale, if scales are shared.
    fn difference_limits(
        &mut self,
        cx: &PanelContext<'_>,
        figure: &'static dyn Figure,
        scale: &str,
    ) -> Option<(f64, f64)> {
        let views = &cx.state.views;
        let reference = cx.state.reference().filter(|_| views.shared && views.difference)?;
        let others = cx.state.compared().filter(|(id, _)| cx.state.selection.reference != Some(*id));
        let traces = others.filter_map(|(id, column)| Some((id, column.shown.trace()?)));
        let limits =
            traces.filter_map(|(id, trace)| self.differences.limits(id, [trace, reference], figure, scale));
        limits.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Draws a figure of a column.
    fn figure_ui(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        figure: &'static dyn Figure,
        keys: Keys,
        id: ColumnId,
    ) {
        let Some(column) = cx.state.columns.get(&id) else { return };
        let rect = ui.max_rect();
        let trace = match &column.shown {
            ColumnState::Ready(trace) | ColumnState::Waiting(Some(trace)) => trace.clone(),
            ColumnState::Waiting(None) => return placeholder::busy(ui, "Explaining…", None),
            ColumnState::Failed(error) => return cx.failed_column(ui, Some(id), error),
            ColumnState::Nothing => return placeholder::empty(ui, &cx.state.why_nothing(id)),
        };
        let pinned = cx.state.selection.reference == Some(id);
        let reference = cx.state.reference().filter(|_| cx.state.views.difference);
        let mut options = cx.options(figure, &trace);
        if pinned && reference.is_some() {
            // Beside differences the pinned column is alone on its scale, as in an exported comparison.
            options = cx.state.views.figure_options(figure.id());
        }
        let mut of = None;
        let trace = match reference.filter(|_| !pinned) {
            None => trace,
            Some(reference) => match self.differences.between(id, &trace, reference) {
                Ok(_) if other_class(figure, &trace, reference) => {
                    return true_class::offer_class_of(ui, cx, column.probe, reference);
                }
                Ok(_) if other_tokens(figure, &trace, reference) => {
                    return placeholder::empty(ui, OTHER_TOKENS);
                }
                Ok(difference) => {
                    let limits = self.difference_limits(cx, figure, figure.scale(&difference));
                    (options.limits, options.proxy_limits) = (limits, None);
                    of = Some([trace, reference.clone()]);
                    difference
                }
                Err(why) => return placeholder::empty(ui, &why.0),
            },
        };
        options.keys = keys;
        let view = self.views.entry((id, figure.id())).or_default();
        let is_outdated = cx.state.is_outdated(id);
        let input = FigureInput { figure, trace: &trace, options, headed: false, of, is_outdated };
        view.show(ui, cx, input, rect, zoom(rect.width()));
        cx.overlay_outdated(ui, Some(id), rect);
    }
}
