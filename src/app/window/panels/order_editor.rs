//! Edits the reading order by hand, in the pane that shows it: a person brushes patches and drags them to another step, or
//! draws a path through them. Every edit is an intervention on the column, and can be undone as any other.

use egui::DragValue;

use super::figure_view::FigureView;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::{keep_together, menu_button};
use crate::model::explain::intervention::Intervention;
use crate::model::hand_order::HandOrder;
use crate::model::trace::{Found, OrderTest, Routing};
use crate::viz::draw::minus;
use crate::viz::figures::order_test::p_text;
use crate::viz::figures::token_map::class_name;

/// Points between two positions of the pointer at which the brush looks for a patch.
const BRUSH_POINTS: usize = 16;

/// Width of the number of a step, with its name.
const STEP_PX: f32 = 100.0;

/// What dragging over patches does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tool {
    /// Chooses patches, or moves those that are chosen.
    #[default]
    Brush,
    /// Draws a path along which patches are read.
    Path,
}

/// The tool, the chosen tokens and the drag in progress.
#[derive(Default)]
pub struct OrderEditor {
    tool: Tool,
    /// The chosen tokens of `column`, in the order they were touched.
    chosen: Vec<usize>,
    column: Option<ColumnId>,
    /// Whether the drag moves the chosen tokens.
    is_moving: bool,
    /// The buttons "Read first" and "Read last", which tokens can be dropped on.
    targets: [Option<Rect>; 2],
}

impl OrderEditor {
    /// Draws the controls: a line above the figure, or lines `beside` it.
    pub fn controls(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, trace: &Trace, beside: bool) {
        let Some(id) = cx.focus.filter(|_| !matches!(trace.routing, Routing::None)) else { return };
        if self.column != Some(id) {
            *self = Self { column: Some(id), tool: self.tool, ..Self::default() };
        }
        inset(ui, |ui| {
            ui.horizontal_wrapped(|ui| match cx.state.made_order(id).cloned() {
                Some(order) => self.edits(ui, cx, id, &order),
                None => {
                    for action in [Action::EditOrder, Action::OpenOrder] {
                        cx.button(ui, Button::new(action.text()).small(), action);
                    }
                }
            });
            if cx.state.made_order(id).is_some() {
                let text = Label::new(RichText::new(summary(trace)).small().weak());
                ui.add(if beside { text.wrap() } else { text.truncate() });
            }
        });
    }

    fn edits(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, id: ColumnId, order: &HandOrder) {
        self.chosen.retain(|token| *token < order.tokens().len());
        for (tool, name, about) in [
            (
                Tool::Brush,
                "Brush",
                "Drag over patches to choose them (Shift adds); drag the chosen ones onto another, or onto Read first or Read last",
            ),
            (
                Tool::Path,
                "Path",
                "Drag over patches: they are read first, in the order you draw (Shift continues the last path)",
            ),
        ] {
            if ui.selectable_label(self.tool == tool, name).on_hover_text(about).clicked() {
                (self.tool, self.chosen) = (tool, Vec::new());
            }
        }
        let mut tokens = self.in_order(order);
        if tokens.is_empty() {
            // Without a mouse: the token table pins one by keyboard.
            tokens.extend(cx.hover.pinned.filter(|pinned| *pinned < order.tokens().len()));
        }
        let any = !tokens.is_empty();
        for (target, name, step) in [(0, "Read first", 0), (1, "Read last", usize::MAX)] {
            let response = ui.add_enabled(any, Button::new(name).small());
            self.targets[target] = Some(response.rect);
            if response.on_disabled_hover_text("Choose patches first, or pin one").clicked() {
                cx.send(Command::SetIntervention(id, Intervention::Order(order.with_moved(&tokens, step))));
            }
        }
        if let Some(first) = tokens.first().and_then(|token| step_of(order, *token)) {
            let mut step = first;
            let last = order.tokens().len() - tokens.len();
            keep_together(ui, STEP_PX);
            // A row of its own, as wrapped lines do not centre their first label.
            ui.horizontal(|ui| {
                let label = ui.label("Step").id;
                // A path that was undone may begin later than it could be moved to: that is no edit.
                let number = DragValue::new(&mut step).range(0..=last.max(first));
                let number = ui.add(number).labelled_by(label);
                let about = "The step at which the first of them is read, from 0; the others follow";
                if number.on_hover_text(about).changed() {
                    cx.send(Command::SlideIntervention(
                        id,
                        Intervention::Order(order.with_moved(&tokens, step)),
                    ));
                }
            });
        }
        // A second line of buttons would take the room of the figure.
        menu_button(ui, Button::new("More"), |ui| {
            for action in [Action::OpenOrder, Action::SaveOrder] {
                cx.button(ui, Button::new(action.text()), action);
            }
            if ui.button("Read as trained").clicked() {
                cx.send(Command::SetIntervention(id, Intervention::None));
            }
        });
    }

    /// Senses drags in `rect`. Call it before the figure is drawn there, so that the figure lies above and gets clicks.
    pub fn sense_drags(ui: &Ui, rect: Rect) -> Response {
        ui.interact(rect, ui.scope_id().with("order editor"), Sense::DRAG) // not a stop of the Tab key, which drags nothing
    }

    /// Handles the drags on the figure that was just drawn, and frames the chosen tokens.
    pub fn handle_drags(
        &mut self,
        ui: &Ui,
        cx: &mut PanelContext<'_>,
        view: &FigureView,
        response: &Response,
    ) {
        let Some((id, order)) = self.column.and_then(|id| Some((id, cx.state.made_order(id)?.clone())))
        else {
            return;
        };
        let pointer = ui.input(|input| input.pointer.latest_pos());
        let token = pointer.and_then(|at| view.token_at(at));
        if response.drag_started() {
            self.begin_drag(ui, view);
        }
        if response.dragged() && !self.is_moving {
            // Every patch that the pointer passed since the last frame, so that fast strokes leave no gaps.
            let delta = ui.input(|input| input.pointer.delta());
            for part in (0..BRUSH_POINTS).rev() {
                let at = pointer.map(|at| at - delta * (part as f32 / BRUSH_POINTS as f32));
                let token = at.and_then(|at| view.token_at(at));
                self.chosen.extend(token.filter(|token| !self.chosen.contains(token)));
            }
        }
        view.frame_tokens(ui, &self.chosen, cx.theme);
        if response.dragged() && self.is_moving {
            view.frame_tokens(ui, token.as_slice(), cx.theme);
        }
        if response.drag_stopped() {
            self.end_drag(response, cx, id, &order, token);
        }
    }

    /// Begins a drag: moves the chosen tokens if it starts on one, else starts a new choice or path, or adds to it.
    fn begin_drag(&mut self, ui: &Ui, view: &FigureView) {
        let (from, adds) = ui.input(|input| (input.pointer.press_origin(), input.modifiers.shift));
        let token = from.and_then(|at| view.token_at(at));
        self.is_moving = self.tool == Tool::Brush && token.is_some_and(|token| self.chosen.contains(&token));
        if !self.is_moving {
            if !adds {
                self.chosen.clear();
            }
            self.chosen.extend(token.filter(|token| !self.chosen.contains(token)));
        }
    }

    /// Ends a drag: moves the chosen tokens to the step of `token`, or of the button it ends on.
    fn end_drag(
        &mut self,
        response: &Response,
        cx: &mut PanelContext<'_>,
        id: ColumnId,
        order: &HandOrder,
        token: Option<usize>,
    ) {
        let pointer = response.interact_pointer_pos();
        let is_at = |target: usize| {
            self.targets[target].zip(pointer).is_some_and(|(rect, pointer)| rect.contains(pointer))
        };
        let step = match self.tool {
            Tool::Path => Some(0),
            Tool::Brush if !self.is_moving => None,
            Tool::Brush if is_at(0) => Some(0),
            Tool::Brush if is_at(1) => Some(usize::MAX),
            Tool::Brush => {
                token.filter(|token| !self.chosen.contains(token)).and_then(|token| step_of(order, token))
            }
        };
        self.is_moving = false;
        if let Some(step) = step {
            let moved = order.with_moved(&self.in_order(order), step);
            cx.send(Command::SetIntervention(id, Intervention::Order(moved)));
        }
    }

    /// The chosen tokens in the order to read them: along the path, else in the current order.
    fn in_order(&self, order: &HandOrder) -> Vec<usize> {
        match self.tool {
            Tool::Path => self.chosen.clone(),
            Tool::Brush => order.indices().into_iter().filter(|token| self.chosen.contains(token)).collect(),
        }
    }
}

fn step_of(order: &HandOrder, token: usize) -> Option<usize> {
    order.tokens().iter().position(|read| *read as usize == token)
}

/// A line with the logit and, if the order was tested, the margin, z and p value.
fn summary(trace: &Trace) -> String {
    let class = trace.evidence.class;
    // Only numbers get a minus sign: a class's name keeps its hyphens.
    let number = |x: f64, digits: usize| minus(format!("{x:.digits$}"));
    let logit = trace.logits.get(class).copied().unwrap_or(f32::NAN);
    let mut text = format!("Logit {} for {}", number(logit.into(), 3), class_name(trace));
    if let Some(Found::Some(OrderTest { logit, margin })) = &trace.order_test {
        let test = margin.as_ref().unwrap_or(logit);
        if margin.is_some() {
            text += &format!(", margin {}", number(test.value, 3));
        }
        let z = test.reassigned.z.map_or_else(String::new, |z| format!(", z = {}", number(z, 2)));
        let kind = if test.descriptive { ", descriptive" } else { "" };
        text += &format!("{z}, {} among all orders{kind}", p_text(test.reassigned.p));
    }
    text
}
