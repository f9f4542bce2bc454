//! One figure of one trace in a box: its scene kept until the trace, the options, the look or the
//! box change, and the token that is pointed at anywhere lit. What is pointed at here is read out beside
//! the pointer; a click holds its token.

use std::collections::HashMap;
use std::sync::Arc;

use eframe::egui;
use egui::{Align, Grid, Layout, Rect, Response, Tooltip, Ui, Vec2};

use super::placeholder;
use crate::model::trace::Trace;
use crate::viz::draw::order;
use crate::viz::draw::paint::Canvas;
use crate::viz::draw::readout::Readout;
use crate::viz::draw::scene::{Hover, Scene};
use crate::viz::draw::theme::Theme;
use crate::viz::{Empty, Figure, Options, Size, draw};

/// Smallest scene that is laid out, in points; a smaller box shows it scaled down.
const LEAST: Vec2 = Vec2::new(150.0, 70.0);

/// The token that is pointed at, of whatever figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenHover {
    /// As the last frame left it.
    pub token: Option<usize>,
    /// Held by a click, until another or Escape.
    pub held: Option<usize>,
    /// As this frame finds it.
    found: Option<usize>,
    /// What a person clicks in this frame.
    clicked: Option<usize>,
}

impl TokenHover {
    /// With this token lit as the last frame left it.
    pub fn of(token: Option<usize>, held: Option<usize>) -> Self {
        Self { token, held, found: None, clicked: None }
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

/// Everything a scene depends on.
#[derive(Clone, PartialEq)]
struct Key {
    trace: usize,
    figure: &'static str,
    options: Options,
    dark: bool,
    size: [i32; 2],
}

/// A place where a figure is shown.
#[derive(Default)]
pub struct Cell {
    canvas: Canvas,
    /// The trace is held, so that its address names it.
    kept: Option<(Key, Arc<Trace>, Result<Scene, Empty>)>,
    positions: Positions,
    /// What was read out last, and of what.
    read: Option<(Hover, Readout)>,
}

impl Cell {
    /// Draws `figure` of `trace` into `rect` at `zoom` pixels a point.
    #[expect(clippy::too_many_arguments, reason = "what to draw, how, where, and what is pointed at")]
    pub fn show(
        &mut self,
        ui: &mut Ui,
        trace: &Arc<Trace>,
        figure: &'static dyn Figure,
        options: &Options,
        theme: &Theme,
        rect: Rect,
        zoom: f32,
        lit: &mut TokenHover,
    ) -> Option<Response> {
        let size = (rect.size() / zoom).max(LEAST);
        let key = Key {
            trace: Arc::as_ptr(trace).addr(),
            figure: figure.id(),
            options: options.clone(),
            dark: theme.dark,
            size: [size.x.round() as i32, size.y.round() as i32],
        };
        if self.kept.as_ref().is_none_or(|(kept, ..)| *kept != key) {
            let natural = figure.height(trace, options, size.x);
            let most = figure.most(trace, options, size.x).max(1.4 * natural.max(LEAST.y));
            let size = Size { width: size.x, height: size.y.min(most) };
            let drawn = draw(figure, trace, options, theme, size);
            self.kept = Some((key, trace.clone(), drawn));
            (self.positions, self.read) = (Positions::default(), None);
        }
        let (_, _, drawn) = self.kept.as_ref()?;
        let scene = match drawn {
            Ok(scene) => scene,
            Err(why) => {
                placeholder::empty(&mut ui.new_child(egui::UiBuilder::new().max_rect(rect)), &why.0);
                return None;
            }
        };
        let scale = (rect.width() / scene.width).min(rect.height() / scene.height);
        let top = Rect::from_min_size(rect.min, Vec2::new(rect.width(), scene.height * scale));
        let painted = self.canvas.paint(ui, scene, top);
        if let Some(hover) = painted.hover {
            let token = hover.token.or_else(|| self.positions.token(trace, hover.position?));
            token.into_iter().for_each(|token| lit.point(token));
            if let Some(token) = token.filter(|_| painted.response.clicked()) {
                lit.click(token);
            }
            if self.read.as_ref().is_none_or(|(read, _)| *read != hover) {
                self.read = Some((hover, figure.readout(trace, hover)));
            }
            if let Some((_, readout)) = &self.read {
                tip(&painted.response, readout);
            }
        }
        let mut place =
            |token| Hover { token: Some(token), position: self.positions.position(trace, token), item: None };
        if let Some(held) = lit.held {
            self.canvas.hold(ui, scene, place(held), theme);
        }
        if let Some(token) = lit.token.filter(|token| lit.held != Some(*token)) {
            self.canvas.mark(ui, scene, place(token), theme);
        }
        Some(painted.response)
    }
}

/// Widest read-out.
const WIDE: f32 = 300.0;

/// Reads out what is pointed at, at once: a person who moves over a figure looks for numbers.
fn tip(response: &Response, readout: &Readout) {
    if readout.is_empty() || !response.hovered() {
        return;
    }
    Tooltip::for_widget(response).at_pointer().gap(16.0).width(WIDE).show(|ui| {
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
            let mut orders = order::orders(trace);
            let order = if orders.len() == 1 { orders.remove(0) } else { Vec::new() };
            let positions = order.iter().enumerate().map(|(k, &i)| (i, k)).collect();
            (order, positions)
        })
    }

    fn token(&mut self, trace: &Trace, position: usize) -> Option<usize> {
        self.known(trace).0.get(position).copied()
    }

    fn position(&mut self, trace: &Trace, token: usize) -> Option<usize> {
        self.known(trace).1.get(&token).copied()
    }
}
