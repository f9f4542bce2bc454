//! Draws one figure of one trace into a rectangle, and marks the hovered and the pinned token in it. A tooltip
//! reads out what the pointer is over; a click pins its token.

use std::cell::OnceCell;
use std::sync::Arc;

use egui::{Popup, Pos2, Tooltip};

use super::plot_view::{PaintedPlot, PlotArea, PlotView, menu};
use crate::app::window::panels::prelude::*;
use crate::viz::draw::{Hover, Keys, Theme, order, playhead};
use crate::viz::figures::plot::Plot;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::readout::Readout;
use crate::viz::{Control, Options};

/// Smallest scene that is laid out, in points; a smaller box shows it scaled down.
const MIN_SIZE: Vec2 = Vec2::new(150.0, 70.0);

/// The hovered token, shared by all figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenHover {
    /// The token hovered in the last frame.
    pub token: Option<usize>,
    /// The token pinned by a click, until another click or Escape.
    pub pinned: Option<usize>,
    /// The token hovered in this frame.
    pub found: Option<usize>,
    /// The token clicked in this frame.
    pub clicked: Option<usize>,
}

/// What to draw.
pub struct FigureInput<'a> {
    pub figure: &'static dyn Figure,
    /// The trace it shows, or a difference of two.
    pub trace: &'a Arc<Trace>,
    pub options: Options,
    /// Whether the picture has a heading that says how the trace was read, as exported files do.
    pub headed: bool,
    /// For a difference: the minuend and the subtrahend.
    pub of: Option<[Arc<Trace>; 2]>,
    /// Whether it is still of the previous image, whose numbers are not read.
    pub is_outdated: bool,
}

/// The cached drawing of a figure, and what it takes to read tokens off it.
#[derive(Default)]
pub struct FigureView {
    /// Keyed by the trace's address, the figure and its options.
    plot: PlotView<(usize, &'static str, Options), TracePlot>,
    /// The token at every position; empty with several sweeps, in which a token has no single position.
    order: OnceCell<Vec<usize>>,
    /// The last readout, and what it is of.
    read: Option<(Hover, Readout)>,
}

impl FigureView {
    /// Draws a figure into `rect` at `zoom` pixels per point, with its context menu.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        FigureInput { figure, trace, mut options, headed, of, is_outdated }: FigureInput<'_>,
        rect: Rect,
        zoom: f32,
    ) {
        // A figure that does not redraw for a step is laid out once, and the step marked on top of it.
        let drawn = figure.controls(trace).contains(&Control::Step);
        let step = if drawn { None } else { options.step.take() };
        let key = (Arc::as_ptr(trace).addr(), figure.id(), options.clone());
        let plot = || TracePlot { headed, ..TracePlot::new(figure, trace, options) };
        let PaintedPlot { plot, scene, canvas, painted, is_new } =
            match self.plot.paint(ui, cx.theme, PlotArea { rect, zoom, min_size: MIN_SIZE }, key, plot) {
                Ok(shown) => shown,
                Err(why) => {
                    let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(rect));
                    return placeholder::empty(&mut inside, &why.0);
                }
            };
        if is_new {
            (self.order, self.read) = (OnceCell::new(), None);
        }
        let order = || self.order.get_or_init(|| order::single(trace).unwrap_or_default());
        let token_at = |position: usize| order().get(position).copied();
        if let Some(hover) = painted.hover
            && let Some(token) = hover.token.or_else(|| token_at(hover.position?))
        {
            cx.hover.found = Some(token);
            if painted.response.clicked() {
                cx.hover.clicked = Some(token);
            }
        }
        if let Some(hover) = painted.hover.filter(|_| !is_outdated) {
            if self.read.as_ref().is_none_or(|(read, _)| *read != hover) {
                self.read = Some((hover, figure.readout(trace, hover)));
            }
            if let Some((_, readout)) = &self.read {
                show_readout(&painted.response, readout);
            }
        }
        let marked = step.filter(|_| figure.properties().marks_step);
        if let Some(position) = marked.and_then(|step| playhead::position(trace, step)) {
            let at = Hover { token: token_at(position), position: Some(position), item: None };
            canvas.lay_over(ui, &playhead::marks(scene, at, cx.theme));
        }
        let place = |token| {
            let position = order().iter().position(|read| *read == token);
            Hover { token: Some(token), position, item: None }
        };
        if let Some(pinned) = cx.hover.pinned {
            canvas.pin(ui, scene, place(pinned), cx.theme);
        }
        if let Some(token) = cx.hover.token.filter(|token| cx.hover.pinned != Some(*token)) {
            canvas.mark(ui, scene, place(token), cx.theme);
        }
        let export = || {
            let step = step.or(plot.options.step);
            let options = Options { step, keys: Keys::Own, ..plot.options.clone() };
            let file = TracePlot { options, headed: true, ..plot.clone() };
            // A difference is exported with the traces of both.
            Arc::new(match &of {
                Some([own, reference]) => {
                    TracePlot { traces: vec![own.clone()], against: Some(reference.clone()), ..file }
                }
                None => file,
            }) as Arc<dyn Plot>
        };
        menu(&painted.response, cx, export);
    }

    /// The token at a position on the screen, in the figure that was just drawn.
    pub fn token_at(&self, at: Pos2) -> Option<usize> {
        let (scene, place) = self.plot.shown()?;
        let at = (at - place.min) * (scene.width / place.width());
        scene.hover([at.x, at.y])?.token
    }

    /// Frames tokens in the figure that was just drawn.
    pub fn frame_tokens(&self, ui: &Ui, tokens: &[usize], theme: &Theme) {
        for token in tokens {
            self.plot.mark(ui, Hover { token: Some(*token), ..Hover::default() }, theme);
        }
    }
}

/// Most width of the tooltip with a readout.
const READOUT_PX: f32 = 300.0;
/// The gap between names and numbers in it.
const GAP_PX: f32 = 16.0;
/// The size of its text.
const SIZE: f32 = 13.5;

/// Shows a readout beside the pointer, without the delay of tooltips: a person who moves over a figure looks for numbers. None
/// is shown beside an open menu, which it would lie over: a figure's menu opens at the pointer too.
fn show_readout(response: &Response, readout: &Readout) {
    if readout.is_empty() || !response.hovered() || Popup::is_any_open(&response.ctx) {
        return;
    }
    Tooltip::for_widget(response).at_pointer().gap(16.0).width(READOUT_PX).show(|ui| {
        ui.spacing_mut().item_spacing.y = 3.0;
        ui.strong(&readout.title);
        if !readout.lines.is_empty() {
            // Numbers end below one another, as near to the names as the longest of both allow.
            let widest = |texts: &mut dyn Iterator<Item = &String>| font::widest(texts, SIZE);
            let names = widest(&mut readout.lines.iter().map(|(name, _)| name));
            let values = widest(&mut readout.lines.iter().map(|(_, value)| value));
            ui.vertical(|ui| {
                ui.spacing_mut().item_spacing = Vec2::new(0.0, 1.0);
                ui.spacing_mut().interact_size.y = 0.0; // lines of text, no higher than that
                for (name, value) in &readout.lines {
                    let [name_px, value_px] = [name, value].map(|text| font::width(text, SIZE));
                    ui.horizontal_top(|ui| {
                        ui.weak(name);
                        ui.add_space(names + GAP_PX + values - name_px - value_px);
                        ui.label(value);
                    });
                }
            });
        }
        if !readout.note.is_empty() {
            ui.weak(&readout.note);
        }
    });
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;
    use crate::app::window::widgets::context_menu;

    #[test]
    fn a_readout_gives_way_to_the_menu_of_its_figure() {
        let show = |ui: &mut Ui| {
            let figure = ui.allocate_response(Vec2::new(300.0, 200.0), egui::Sense::click());
            show_readout(&figure, &Readout::titled("Token 3"));
            context_menu(&figure, |ui| drop(ui.button("Export…")));
        };
        let mut harness =
            Harness::builder().with_size(Vec2::new(640.0, 400.0)).with_max_steps(30).build_ui(show);
        let pos = Pos2::new(100.0, 100.0);
        harness.hover_at(pos);
        harness.run();
        assert!(harness.query_by_label("Token 3").is_some());
        for pressed in [true, false] {
            let (button, modifiers) = (egui::PointerButton::Secondary, egui::Modifiers::NONE);
            harness.event(egui::Event::PointerButton { pos, button, pressed, modifiers });
        }
        harness.run();
        assert!(harness.query_by_label("Export…").is_some() && harness.query_by_label("Token 3").is_none());
    }

    #[test]
    fn numbers_of_a_readout_lie_beside_their_names_in_lines_of_one_height() {
        let readout = |lines: &[[&str; 2]]| {
            let lines = lines.iter().map(|[name, value]| ((*name).to_owned(), (*value).to_owned()));
            Readout { lines: lines.collect(), ..Readout::titled("Drawn orders") }
        };
        let show = |ui: &mut Ui, readout: &mut Readout| {
            let figure = ui.allocate_response(Vec2::new(300.0, 200.0), egui::Sense::hover());
            show_readout(&figure, readout);
        };
        let mut harness = Harness::builder()
            .with_size(Vec2::new(640.0, 400.0))
            .with_max_steps(30)
            .build_ui_state(show, readout(&[["Rank by mean position", "8"]]));
        let wide = [["From", "−0.128"], ["To", "−0.0559"], ["Orders", "734 of 9999"]];
        for lines in [None, Some(readout(&wide))] {
            lines.into_iter().for_each(|lines| *harness.state_mut() = lines);
            harness.hover_at(Pos2::new(100.0, 100.0));
            harness.run();
        }
        let places = wide.map(|texts| texts.map(|text| harness.get_by_label(text).rect()));
        assert!(places.iter().all(|[name, value]| name.right() < value.left()), "{places:?}");
        assert!(places.iter().all(|[name, value]| (name.top() - value.top()).abs() < 1.0), "{places:?}");
        assert!(places[2][1].left() - places[2][0].right() < 2.0 * GAP_PX, "{places:?}");
        let [first, second, third] = places.map(|[name, _]| name.top());
        assert!((third - second - (second - first)).abs() < 1.0, "{places:?}");
    }
}
