//! The table of all tokens of the shown image: grid position, reading position, score, weight, evidence. A click
//! pins a token, the arrow keys pin the next, Ctrl+C copies the table.

use std::sync::Arc;

use egui::{Align2, FontId};

use super::table;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::paint_sort;
use crate::model::trace::Reading;
use crate::viz::draw::{Table, minus};
use crate::viz::{export, readout};

/// Height of a row.
const ROW_PX: f32 = 22.0;
/// Size of headings and numbers.
const TEXT_PX: f32 = 13.0;
/// Room beside a heading, with the arrow of the direction of sorting.
const HEAD_EDGE_PX: f32 = 26.0;

/// Titles and descriptions of the columns; NaN stands where the head has no such number.
const COLUMNS: [(&str, &str); WIDTH] = [
    ("Token", "Number of the patch from 0, row by row from the top left"),
    ("Row", "Row of the patch grid, from 0"),
    ("Column", "Column of the patch grid, from 0"),
    (
        "Rank",
        "Place in the order by mean position, or the step of a fixed order, from 0; the last is read last",
    ),
    ("Best position", "The position that holds most of the token"),
    ("Mean position", "The mean over positions, by the share of the token at each"),
    ("Score", "Standardised score of the router"),
    ("Weight", "How much the token counts in the sum the classifier sees"),
    ("Evidence", "What the token adds to the logit of the class"),
];
/// Number of columns.
const WIDTH: usize = 9;
/// Number of columns of integers, which come first.
const INTEGER_COLUMNS: usize = 5;

/// The numbers of every token, one per column.
type Rows = Vec<[f64; WIDTH]>;

#[derive(Default)]
pub struct Tokens {
    sort: usize,
    down: bool,
    /// The trace, its rows, and the number of decimal places of each column.
    cached: Option<(Arc<Trace>, Rows, [usize; WIDTH])>,
    sorted: Option<(usize, bool, Vec<usize>)>,
    /// The pinned token that was last scrolled to.
    shown: Option<usize>,
    /// How far the rows are scrolled to the right, and their headings with them.
    across: f32,
}

impl Panel for Tokens {
    fn info(&self) -> Info {
        Info {
            id: "tokens",
            title: "Token table",
            about: "Every token in numbers: position, score, weight and evidence",
            tab: TabGroup::Page.tab(),
        }
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some(trace) = cx.trace(ui) else { return };
        let pane = ui.max_rect();
        if self.cached.as_ref().is_none_or(|(cached, ..)| !Arc::ptr_eq(cached, &trace)) {
            let rows = rows(&trace);
            let places = std::array::from_fn(|column| places(&rows, column));
            self.cached = Some((trace.clone(), rows, places));
            self.sorted = None;
        }
        let Some((_, rows, places)) = &self.cached else { return };
        if rows.is_empty() {
            return placeholder::empty(ui, "The trace is inconsistent");
        }
        if self.sorted.as_ref().is_none_or(|(by, down, _)| (*by, *down) != (self.sort, self.down)) {
            let key = |i: &usize| rows[*i][self.sort];
            let mut order: Vec<usize> = (0..rows.len()).collect();
            order.sort_by(|a, b| table::compare(key(a), key(b), self.down).then(a.cmp(b)));
            self.sorted = Some((self.sort, self.down, order));
        }
        let least = font::widest(COLUMNS.map(|(name, _)| name), TEXT_PX) + HEAD_EDGE_PX;
        let width = (ui.available_width() / COLUMNS.len() as f32).clamp(least, 240.0);
        if let Some(column) = head(ui, width, self.across, (self.sort, self.down)) {
            self.down = if column == self.sort { !self.down } else { column >= INTEGER_COLUMNS };
            self.sort = column;
        }
        let Some((_, _, order)) = &self.sorted else { return };
        ui.spacing_mut().item_spacing.y = 0.0;
        step_pinned(ui, cx, order);
        let mut area = ScrollArea::both().auto_shrink(false);
        // Scrolls once to a token that was pinned, here or elsewhere.
        if cx.hover.pinned != self.shown {
            self.shown = cx.hover.pinned;
            let at = self.shown.and_then(|token| order.iter().position(|t| *t == token));
            if let Some(at) = at {
                let middle = 0.5 * (ui.available_height() - ROW_PX);
                area = area.vertical_scroll_offset((at as f32 * ROW_PX - middle).max(0.0));
            }
        }
        let rect = ui.available_rect_before_wrap();
        let text = || tsv(order, rows, &trace.reading);
        let scrolled = area.show_rows(ui, ROW_PX, order.len(), |ui, shown| {
            for at in shown {
                let token = order[at];
                let state = [cx.hover.pinned == Some(token), cx.hover.token == Some(token)];
                let response = row(ui, width, &rows[token], places, state, at);
                if response.hovered() {
                    cx.hover.found = Some(token);
                }
                if response.clicked() {
                    cx.hover.clicked = Some(token);
                    self.shown = Some(token); // it is visible already
                }
                table::menu(&response, text);
            }
            follow_focus(ui);
        });
        let before = std::mem::replace(&mut self.across, scrolled.state.unclamped_offset().x);
        if before.to_bits() != self.across.to_bits() {
            ui.ctx().request_repaint(); // the headings follow in the next frame
        }
        table::copy_key(ui, rect, text);
        cx.overlay_outdated(ui, cx.focus, pane);
    }
}

/// Pins the token of the row above or below the pinned one, on an arrow key.
fn step_pinned(ui: &Ui, cx: &mut PanelContext<'_>, order: &[usize]) {
    let Some(at) = cx.hover.pinned.and_then(|pinned| order.iter().position(|token| *token == pinned)) else {
        return;
    };
    if ui.ctx().egui_wants_keyboard_input() {
        return;
    }
    let pressed = |key| ui.input_mut(|i| i.consume_key(egui::Modifiers::NONE, key));
    let by = isize::from(pressed(egui::Key::ArrowDown)) - isize::from(pressed(egui::Key::ArrowUp));
    if let Some(token) = at.checked_add_signed(by).and_then(|at| order.get(at)).filter(|_| by != 0) {
        cx.hover.clicked = Some(*token);
    }
}

/// The table as tab-separated text; unknown values are empty.
fn tsv(order: &[usize], rows: &Rows, reading: &Reading) -> String {
    let column = |table: Table, (at, (name, _)): (usize, &(&str, &str))| {
        table.numbers(name, order.iter().map(|token| rows[*token][at]))
    };
    export::tsv(&COLUMNS.iter().enumerate().fold(Table::default(), column).read(reading))
}

/// The numbers of every token.
fn rows(trace: &Trace) -> Rows {
    let places = readout::places(trace);
    let whole = |values: &Option<Vec<usize>>, i: usize| {
        values.as_ref().and_then(|v| v.get(i)).map_or(f64::NAN, |v| *v as f64)
    };
    let real = |values: &Option<Vec<f32>>, i: usize| {
        values.as_ref().and_then(|v| v.get(i)).map_or(f64::NAN, |v| f64::from(*v))
    };
    let cols = trace.grid.cols.max(1);
    let row = |i: usize| {
        let mean = places.mean.as_ref().and_then(|v| v.get(i)).copied().unwrap_or(f64::NAN);
        let [score, weight] = [&trace.scores, &trace.token_weight].map(|values| real(values, i));
        let [rank, best] = [&places.rank, &places.best].map(|values| whole(values, i));
        let (down, across) = ((i / cols) as f64, (i % cols) as f64);
        [i as f64, down, across, rank, best, mean, score, weight, real(&trace.evidence.token, i)]
    };
    (0..trace.grid.len()).map(row).collect()
}

/// The right edge of a column's numbers and heading.
fn right_edge(left: f32, width: f32, column: usize) -> f32 {
    left + (column as f32 + 1.0) * width - 12.0
}

/// Draws the headings of the columns, scrolled `across` with them; the one clicked.
fn head(ui: &mut Ui, width: f32, across: f32, (sort, down): (usize, bool)) -> Option<usize> {
    let size = Vec2::new(ui.available_width(), ROW_PX + 6.0);
    let (line, _) = ui.allocate_exact_size(size, Sense::hover());
    let line = line.translate(Vec2::new(-across, 0.0));
    let mut clicked = None;
    for (i, (name, about)) in COLUMNS.iter().enumerate() {
        let corner = line.min + Vec2::new(i as f32 * width, 0.0);
        let rect = Rect::from_min_size(corner, Vec2::new(width, line.height()));
        let response = ui.interact(rect, ui.scope_id().with(("head", i)), Sense::click());
        response.widget_info(|| WidgetInfo::selected(Role::Button, true, i == sort, *name));
        let color = match i == sort || response.hovered() {
            true => ui.style().interact(&response).fg_stroke.color,
            false => ui.visuals().weak_text_color(),
        };
        let at = egui::Pos2::new(right_edge(line.left(), width, i), line.center().y);
        let text = ui.painter().text(at, Align2::RIGHT_CENTER, name, FontId::proportional(TEXT_PX), color);
        if response.has_focus() {
            style::focus(ui, rect, 3.0);
        }
        if i == sort {
            paint_sort(ui, text.left_center() - Vec2::new(9.0, 0.0), down, color);
        }
        if response.on_hover_text(*about).clicked() {
            clicked = Some(i);
        }
    }
    clicked
}

/// Number of decimal places that tell the values of a column apart.
fn places(rows: &[[f64; WIDTH]], column: usize) -> usize {
    let largest = rows.iter().map(|row| row[column].abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
    if largest > 0.0 { (3.0 - largest.log10().floor()).clamp(2.0, 8.0) as usize } else { 2 }
}

fn row(
    ui: &mut Ui,
    width: f32,
    values: &[f64; WIDTH],
    places: &[usize; WIDTH],
    [pinned, hovered]: [bool; 2],
    at: usize,
) -> Response {
    let size = Vec2::new(width * COLUMNS.len() as f32, ROW_PX);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click());
    let text = |i: usize| match (values[i], i) {
        (value, _) if value.is_nan() => "–".to_owned(),
        (value, 0..INTEGER_COLUMNS) => format!("{value}"),
        (value, INTEGER_COLUMNS) => format!("{value:.1}"),
        (value, _) => minus(format!("{value:+.*}", places[i])),
    };
    response
        .widget_info(|| WidgetInfo::selected(Role::ListItem, true, pinned, format!("Token {}", values[0])));
    ui.ctx().accesskit_node_builder(response.id, |node| {
        let known = (1..WIDTH).filter(|i| !values[*i].is_nan());
        let all: Vec<String> = known.map(|i| format!("{} {}", COLUMNS[i].0, text(i))).collect();
        node.set_description(all.join(", "));
    });
    let theme = style::theme(ui);
    if pinned || hovered {
        ui.painter().rect_filled(rect, 3.0, ui.visuals().selection.bg_fill);
    } else if at % 2 == 1 {
        ui.painter().rect_filled(rect, 0.0, ui.visuals().faint_bg_color);
    }
    if pinned {
        let stroke = egui::Stroke::new(1.5, color32(theme.pinned()));
        ui.painter().rect_stroke(rect.shrink(0.5), 3.0, stroke, egui::StrokeKind::Inside);
    }
    for (i, value) in values.iter().enumerate() {
        let color = color32(if value.is_nan() { theme.muted } else { theme.ink });
        let at = egui::Pos2::new(right_edge(rect.left(), width, i), rect.center().y);
        ui.painter().text(at, Align2::RIGHT_CENTER, text(i), FontId::proportional(TEXT_PX), color);
    }
    if response.has_focus() {
        style::focus(ui, rect, 3.0);
    }
    response
}
