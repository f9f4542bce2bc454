//! One figure of one trace in a box, and the token that is pointed at anywhere marked in it. What is pointed
//! at here is read out beside the pointer; a click pins its token.

use std::collections::HashMap;
use std::sync::Arc;

use eframe::egui;
use egui::{Align, Grid, Layout, Pos2, Rect, Response, Tooltip, Ui, Vec2};

use super::plot_view::{PlotView, Shown, menu};
use super::{PanelContext, placeholder};
use crate::model::trace::Trace;
use crate::viz::draw::{Hover, Readout, Theme, order, playhead};
use crate::viz::figures::plot::Plot;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{Control, Figure, Options};

/// Smallest scene that is laid out, in points; a smaller box shows it scaled down.
const MIN_SIZE: Vec2 = Vec2::new(150.0, 70.0);

/// The token that is pointed at, of whatever figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenHover {
    /// As the last frame left it.
    pub token: Option<usize>,
    /// Pinned by a click, until another or Escape.
    pub pinned: Option<usize>,
    /// As this frame finds it.
    found: Option<usize>,
    /// What a person clicks in this frame.
    clicked: Option<usize>,
}

impl TokenHover {
    /// As the last frame left it.
    pub fn new(token: Option<usize>, pinned: Option<usize>) -> Self {
        Self { token, pinned, found: None, clicked: None }
    }

    /// The token this frame clicks.
    pub fn clicked(&self) -> Option<usize> {
        self.clicked
    }

    /// Clicks a token.
    pub fn click(&mut self, token: usize) {
        self.clicked = Some(token);
    }

    /// The token this frame points at.
    pub fn found(&self) -> Option<usize> {
        self.found
    }

    /// Points at a token.
    pub fn point(&mut self, token: usize) {
        self.found = Some(token);
    }
}

/// What is shown.
pub struct Subject<'a> {
    /// Which figure.
    pub figure: &'static dyn Figure,
    /// Of what: a trace, or a difference of two.
    pub trace: &'a Arc<Trace>,
    /// What is set.
    pub options: Options,
    /// Whether the picture says itself how the trace was read, as its files do.
    pub headed: bool,
    /// Where it is a difference: the trace, and what is subtracted from it.
    pub of: Option<[Arc<Trace>; 2]>,
}

/// A place where a figure is shown.
#[derive(Default)]
pub struct FigureView {
    /// A trace is known by its address.
    plot: PlotView<(usize, &'static str, Options), TracePlot>,
    positions: Positions,
    /// What was read out last, and of what.
    read: Option<(Hover, Readout)>,
}

impl FigureView {
    /// Draws a figure into `rect` at `zoom` pixels a point, with its menu.
    pub fn show(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        Subject { figure, trace, mut options, headed, of }: Subject<'_>,
        rect: Rect,
        zoom: f32,
    ) {
        // A picture that is the same at every step is laid out once, and the step marked above it.
        let drawn = figure.controls(trace).contains(&Control::Step);
        let step = if drawn { None } else { options.step.take() };
        let key = (Arc::as_ptr(trace).addr(), figure.id(), options.clone());
        let plot = || TracePlot { headed, ..TracePlot::new(figure, trace, options) };
        let Shown { plot, scene, canvas, painted, is_new } =
            match self.plot.paint(ui, cx.theme, (rect, zoom, MIN_SIZE), key, plot) {
                Ok(shown) => shown,
                Err(why) => {
                    let mut inside = ui.new_child(egui::UiBuilder::new().max_rect(rect));
                    return placeholder::empty(&mut inside, &why.0);
                }
            };
        if is_new {
            (self.positions, self.read) = (Positions::default(), None);
        }
        if let Some(hover) = painted.hover
            && let Some(token) = hover.token.or_else(|| self.positions.token(trace, hover.position?))
        {
            cx.hover.point(token);
            if painted.response.clicked() {
                cx.hover.click(token);
            }
        }
        if let Some(hover) = painted.hover {
            if self.read.as_ref().is_none_or(|(read, _)| *read != hover) {
                self.read = Some((hover, figure.readout(trace, hover)));
            }
            if let Some((_, readout)) = &self.read {
                tip(&painted.response, readout);
            }
        }
        if let Some(at) =
            step.filter(|_| figure.marks_step()).and_then(|step| self.positions.step(trace, step))
        {
            canvas.lay_over(ui, &playhead::marks(scene, at, cx.theme));
        }
        let mut place =
            |token| Hover { token: Some(token), position: self.positions.position(trace, token), item: None };
        if let Some(pinned) = cx.hover.pinned {
            canvas.pin(ui, scene, place(pinned), cx.theme);
        }
        if let Some(token) = cx.hover.token.filter(|token| cx.hover.pinned != Some(*token)) {
            canvas.mark(ui, scene, place(token), cx.theme);
        }
        let export = || {
            let options = Options { step: step.or(plot.options.step), ..plot.options.clone() };
            let file = TracePlot { options, headed: true, ..plot.clone() };
            // The files of a difference are those of both.
            Arc::new(match &of {
                Some([own, reference]) => {
                    TracePlot { traces: vec![own.clone()], against: Some(reference.clone()), ..file }
                }
                None => file,
            }) as Arc<dyn Plot>
        };
        menu(&painted.response, cx, export);
    }
}

impl FigureView {
    /// The token at a place of the screen, in the figure that was just drawn.
    pub fn token_at(&self, at: Pos2) -> Option<usize> {
        let (scene, place) = self.plot.shown()?;
        let at = (at - place.min) * (scene.width / place.width());
        scene.hover([at.x, at.y])?.token
    }

    /// Frames tokens in the figure that was just drawn.
    pub fn frame(&self, ui: &Ui, tokens: &[usize], theme: &Theme) {
        for token in tokens {
            self.plot.mark(ui, Hover { token: Some(*token), ..Hover::default() }, theme);
        }
    }
}

/// Widest read-out.
const READOUT_PX: f32 = 300.0;

/// Reads out what is pointed at, at once: a person who moves over a figure looks for numbers.
fn tip(response: &Response, readout: &Readout) {
    if readout.is_empty() || !response.hovered() {
        return;
    }
    Tooltip::for_widget(response).at_pointer().gap(16.0).width(READOUT_PX).show(|ui| {
        ui.spacing_mut().item_spacing.y = 3.0;
        ui.strong(&readout.title);
        if !readout.lines.is_empty() {
            Grid::new("readout").num_columns(2).spacing([16.0, 1.0]).min_row_height(0.0).show(ui, |ui| {
                for (name, value) in &readout.lines {
                    ui.weak(name);
                    ui.with_layout(Layout::right_to_left(Align::Center), |ui| ui.label(value));
                    ui.end_row();
                }
            });
        }
        if !readout.note.is_empty() {
            ui.weak(&readout.note);
        }
    });
}

/// Which position of a trace is which token, computed once somebody points.
#[derive(Default)]
struct Positions(Option<(Vec<usize>, HashMap<usize, usize>)>);

impl Positions {
    fn known(&mut self, trace: &Trace) -> &(Vec<usize>, HashMap<usize, usize>) {
        self.0.get_or_insert_with(|| {
            // Several sweeps have no one position of a token.
            let order = order::single(trace).unwrap_or_default();
            let positions = order.iter().enumerate().map(|(k, &i)| (i, k)).collect();
            (order, positions)
        })
    }

    fn token(&mut self, trace: &Trace, position: usize) -> Option<usize> {
        self.known(trace).0.get(position).copied()
    }

    /// What is read last of `step` tokens.
    fn step(&mut self, trace: &Trace, step: usize) -> Option<Hover> {
        let position = step.checked_sub(1)?;
        Some(Hover { token: self.token(trace, position), position: Some(position), item: None })
    }

    fn position(&mut self, trace: &Trace, token: usize) -> Option<usize> {
        self.known(trace).1.get(&token).copied()
    }
}
