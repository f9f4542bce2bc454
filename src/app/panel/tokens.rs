//! Every token of the shown image in numbers: where it lies, when it is read, what it counts.

use std::sync::Arc;

use eframe::egui;
use egui::{Align2, FontId, Rect, Response, Role, ScrollArea, Sense, Ui, Vec2, WidgetInfo};

use super::{Cx, Panel, Place, notice};
use crate::app::look;
use crate::model::trace::Trace;
use crate::viz::order;
use crate::viz::paint::color32;

/// Height of a row.
const ROW: f32 = 22.0;

/// What a column holds; the numbers are absent where the head has no such thing.
const COLUMNS: [(&str, &str); 7] = [
    ("Token", "Number of the patch, row by row from the top left"),
    ("Row", "Row of the patch grid"),
    ("Column", "Column of the patch grid"),
    ("Position", "When it is read; the last read is last"),
    ("Score", "Standardised score of the router"),
    ("Weight", "What the token counts in the sum the classifier sees"),
    ("Evidence", "What the token adds to the logit of the class"),
];

/// The numbers of every token, one a column.
type Rows = Vec<[f64; 7]>;

/// The panel.
#[derive(Default)]
pub struct Tokens {
    sort: usize,
    down: bool,
    /// The trace, its numbers, and with how many places they are shown.
    kept: Option<(Arc<Trace>, Rows, [usize; 7])>,
    sorted: Option<(usize, bool, Vec<usize>)>,
}

impl Panel for Tokens {
    fn id(&self) -> &'static str {
        "tokens"
    }

    fn title(&self) -> &'static str {
        "Token table"
    }

    fn about(&self) -> &'static str {
        "Every token in numbers: position, score, weight and evidence"
    }

    fn place(&self) -> Place {
        Place::Middle
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut Cx<'_>) {
        let Some(trace) = cx.trace(ui) else { return };
        if self.kept.as_ref().is_none_or(|(kept, ..)| !Arc::ptr_eq(kept, &trace)) {
            let rows = rows(&trace);
            let places = std::array::from_fn(|column| places(&rows, column));
            self.kept = Some((trace.clone(), rows, places));
            self.sorted = None;
        }
        let Some((_, rows, places)) = &self.kept else { return };
        if rows.is_empty() {
            return notice::empty(ui, "The trace is inconsistent");
        }
        if self.sorted.as_ref().is_none_or(|(by, down, _)| (*by, *down) != (self.sort, self.down)) {
            let key = |i: &usize| rows[*i][self.sort];
            let mut order: Vec<usize> = (0..rows.len()).collect();
            // What is not known stands at the end, whichever way.
            order.sort_by(|a, b| {
                let (x, y) = (key(a), key(b));
                let known = x.is_nan().cmp(&y.is_nan());
                known.then(if self.down { y.total_cmp(&x) } else { x.total_cmp(&y) }).then(a.cmp(b))
            });
            self.sorted = Some((self.sort, self.down, order));
        }
        let width = (ui.available_width() / COLUMNS.len() as f32).clamp(64.0, 160.0);
        if let Some(column) = head(ui, width, self.sort, self.down) {
            self.down = if column == self.sort { !self.down } else { column > 3 };
            self.sort = column;
        }
        let Some((_, _, order)) = &self.sorted else { return };
        ui.spacing_mut().item_spacing.y = 0.0;
        ScrollArea::both().auto_shrink(false).show_rows(ui, ROW, order.len(), |ui, shown| {
            for at in shown {
                let token = order[at];
                if row(ui, width, &rows[token], places, cx.lit.token == Some(token), at).hovered() {
                    cx.lit.point(token);
                }
            }
        });
    }
}

/// The numbers of every token.
fn rows(trace: &Trace) -> Rows {
    let n = trace.grid.len();
    let mut position = vec![f64::NAN; n];
    if let [order] = &order::orders(trace)[..] {
        for (k, &token) in order.iter().enumerate() {
            if let Some(position) = position.get_mut(token) {
                *position = k as f64;
            }
        }
    }
    let of = |values: &Option<Vec<f32>>, i: usize| {
        values.as_ref().and_then(|v| v.get(i)).map_or(f64::NAN, |v| f64::from(*v))
    };
    let cols = trace.grid.cols.max(1);
    (0..n)
        .map(|i| {
            let (score, weight) = (of(&trace.scores, i), of(&trace.token_weight, i));
            let place = [i as f64, (i / cols) as f64, (i % cols) as f64];
            [place[0], place[1], place[2], position[i], score, weight, of(&trace.evidence.token, i)]
        })
        .collect()
}

/// Where the numbers of a column end, and its head.
fn end(left: f32, width: f32, column: usize) -> f32 {
    left + (column as f32 + 1.0) * width - 12.0
}

/// The heads of the columns; the one clicked.
fn head(ui: &mut Ui, width: f32, sort: usize, down: bool) -> Option<usize> {
    let size = Vec2::new(width * COLUMNS.len() as f32, ROW + 6.0);
    let (line, _) = ui.allocate_exact_size(size, Sense::hover());
    let mut clicked = None;
    for (i, (name, about)) in COLUMNS.iter().enumerate() {
        let corner = line.min + Vec2::new(i as f32 * width, 0.0);
        let rect = Rect::from_min_size(corner, Vec2::new(width, line.height()));
        let response = ui.interact(rect, ui.scope_id().with(("head", i)), Sense::click());
        response.widget_info(|| WidgetInfo::labeled(Role::Button, true, *name));
        let color = ui.style().interact(&response).fg_stroke.color;
        let at = egui::Pos2::new(end(line.left(), width, i), line.center().y);
        let text = ui.painter().text(at, Align2::RIGHT_CENTER, name, FontId::proportional(13.0), color);
        if i == sort {
            arrow(ui, text.left_center() - Vec2::new(9.0, 0.0), down, color);
        }
        if response.on_hover_text(*about).clicked() {
            clicked = Some(i);
        }
    }
    clicked
}

/// Which way a column is sorted, drawn by hand: no font has to have it.
fn arrow(ui: &Ui, at: egui::Pos2, down: bool, color: egui::Color32) {
    let tip = if down { 3.5 } else { -3.5 };
    let corners = [(-4.0, -tip), (4.0, -tip), (0.0, tip)].map(|(x, y)| at + Vec2::new(x, y));
    ui.painter().add(egui::Shape::convex_polygon(corners.into(), color, egui::Stroke::NONE));
}

/// How many places behind the point tell the values of a column apart.
fn places(rows: &[[f64; 7]], column: usize) -> usize {
    let largest = rows.iter().map(|row| row[column].abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
    if largest > 0.0 { (3.0 - largest.log10().floor()).clamp(2.0, 8.0) as usize } else { 2 }
}

fn row(ui: &mut Ui, width: f32, values: &[f64; 7], places: &[usize; 7], lit: bool, at: usize) -> Response {
    let size = Vec2::new(width * COLUMNS.len() as f32, ROW);
    let (rect, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("Token {}", values[0])));
    let theme = look::theme(ui);
    if lit {
        ui.painter().rect_filled(rect, 3.0, ui.visuals().selection.bg_fill);
    } else if at % 2 == 1 {
        ui.painter().rect_filled(rect, 0.0, ui.visuals().faint_bg_color);
    }
    for (i, value) in values.iter().enumerate() {
        let (text, color) = match (value.is_nan(), i) {
            (true, _) => ("–".to_owned(), theme.muted),
            (_, 0..=3) => (format!("{value}"), theme.ink),
            _ => (format!("{value:+.*}", places[i]).replace('-', "−"), theme.ink),
        };
        let at = egui::Pos2::new(end(rect.left(), width, i), rect.center().y);
        ui.painter().text(at, Align2::RIGHT_CENTER, text, FontId::proportional(13.0), color32(color));
    }
    response
}
