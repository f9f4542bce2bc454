//! One sweep over the patches: its path, or how much the memory holds of each token after some steps.

use crate::model::trace::{Routing, Trace};
use crate::viz::Options;
use crate::viz::draw::order::{inverse, rows};
use crate::viz::draw::{Box2, Color, Identity, Point, Scene, Stroke, Theme, picture};

/// One sweep, and where it is drawn.
pub struct Sweep<'a> {
    pub theme: &'a Theme,
    pub options: &'a Options,
    /// The trace it belongs to.
    pub trace: &'a Trace,
    /// Where the picture is drawn.
    pub rect: Box2,
    /// The token read at every step.
    pub order: &'a [usize],
}

/// The colour of the fraction `t` of the steps; the end of the colour map that the background would swallow is left out.
pub fn step_color(theme: &Theme, options: &Options, t: f32) -> Color {
    options.map.at(if theme.dark { 0.2 + 0.8 * t } else { 0.93 * t })
}

/// The colour of a token of which the memory holds `share` of the largest amount: the less, the more transparent.
pub fn memory_color(theme: &Theme, options: &Options, share: f32) -> Color {
    step_color(theme, options, share).alpha(0.1 + 0.9 * share)
}

/// The fill colours of the marks on the first and the last token: the same in every theme, so that figures read alike.
pub fn end_colors() -> [Color; 2] {
    let light = Theme::light();
    [light.ground, light.ink]
}

impl Sweep<'_> {
    /// The centre of the patch of token `i`.
    fn center(&self, i: usize) -> Point {
        let (grid, rect) = (self.trace.grid, self.rect);
        let across = ((i % grid.cols) as f32 + 0.5) / grid.cols as f32;
        let down = ((i / grid.cols) as f32 + 0.5) / grid.rows as f32;
        [rect.x + across * rect.w, rect.y + down * rect.h]
    }

    /// The shorter side of a patch, in points.
    fn cell(&self) -> f32 {
        let (grid, rect) = (self.trace.grid, self.rect);
        (rect.w / grid.cols as f32).min(rect.h / grid.rows as f32)
    }

    /// Draws the path: a fixed order as a line; a learned one, which jumps about, as the colour of every
    /// patch's step and a line through the last ones only.
    pub fn path(&self, scene: &mut Scene) {
        if matches!(self.trace.routing, Routing::Plan(_)) {
            self.steps(scene);
        } else {
            self.line(scene);
        }
        if let (Some(&first), Some(&last)) = (self.order.first(), self.order.last()) {
            let radius = (self.cell() * 0.34).clamp(1.6, 4.0);
            let [white, black] = end_colors();
            scene.dot(self.center(first), radius, white, Some(Stroke::new(0.8, black)));
            scene.dot(self.center(last), radius, black, Some(Stroke::new(0.8, white)));
        }
    }

    /// Step `k` as a fraction of the last step.
    fn fraction(&self, k: usize) -> f32 {
        k as f32 / (self.order.len().max(2) - 1) as f32
    }

    /// Draws the step of every patch as its colour, and the last steps as a line.
    fn steps(&self, scene: &mut Scene) {
        let (n, theme) = (self.order.len(), self.theme);
        let step_of = inverse(self.order);
        picture::seen(scene, theme, self.trace, self.rect, 0.2);
        picture::cover(scene, self.trace.grid, self.rect, |i| {
            step_color(theme, self.options, self.fraction(step_of[i])).alpha(self.options.opacity)
        });
        self.grid_lines(scene);
        // The last moves are those to the tokens the memory keeps best.
        let moves = (self.trace.grid.len() / 10).max(1);
        let last = &self.order[n.saturating_sub(moves + 1)..];
        let points: Vec<Point> = last.iter().map(|&i| self.center(i)).collect();
        scene.line(points.clone(), Stroke::new(1.8, theme.ground.alpha(0.75)));
        scene.line(points, Stroke::new(0.8, theme.ink));
    }

    /// Draws the whole path as a line; jumps are thinner and fainter.
    fn line(&self, scene: &mut Scene) {
        picture::seen(scene, self.theme, self.trace, self.rect, 0.75);
        self.grid_lines(scene);
        let cell = self.cell();
        let weight = (cell * 0.28).clamp(0.6, 2.4);
        for (k, pair) in self.order.windows(2).enumerate() {
            let ends = [pair[0], pair[1]].map(|i| self.center(i));
            let near = (ends[0][0] - ends[1][0]).hypot(ends[0][1] - ends[1][1]) < 2.0 * cell;
            let (width, alpha) = if near { (weight, 1.0) } else { (weight * 0.4, 0.5) };
            let color = step_color(self.theme, self.options, self.fraction(k + 1)).alpha(alpha);
            scene.line(ends.to_vec(), Stroke::new(width, color));
        }
    }

    fn grid_lines(&self, scene: &mut Scene) {
        if self.options.grid {
            picture::lines(scene, self.theme, self.trace.grid, self.rect);
        }
    }

    /// Draws what the memory holds after `step` tokens; `kept[j]` is how much it keeps of the token read
    /// `j` steps before the last.
    pub fn memory(&self, scene: &mut Scene, step: usize, kept: &[f64]) {
        let step = step.min(self.order.len());
        let shares = self.shares(step, kept);
        let max = shares.iter().copied().fold(0.0, f64::max);
        picture::seen(scene, self.theme, self.trace, self.rect, 0.75);
        picture::cover(scene, self.trace.grid, self.rect, |i| {
            if max > 0.0 && shares[i] > 0.0 {
                memory_color(self.theme, self.options, (shares[i] / max) as f32)
            } else {
                self.theme.ground.alpha(0.6)
            }
        });
        self.grid_lines(scene);
        // A plan places several tokens at a position: none of them is the last one read.
        let is_hard = !matches!(self.trace.routing, Routing::Plan(_));
        if let Some(&last) = step.checked_sub(1).filter(|_| is_hard).and_then(|k| self.order.get(k)) {
            let [x, y] = self.center(last);
            scene.dot([x, y], 2.2, self.theme.ink, Some(Stroke::new(0.8, self.theme.ground)));
            scene.target(Box2::new(x - 2.2, y - 2.2, 4.4, 4.4), Identity::Token(last));
        }
    }

    /// How much of every token the memory holds after `step` positions have been read.
    fn shares(&self, step: usize, kept: &[f64]) -> Vec<f64> {
        if let Routing::Plan(plan) = &self.trace.routing {
            let share = |row: &[f32]| {
                let read = row[..step].iter().rev().zip(kept);
                read.map(|(&p, m)| f64::from(p) * m).sum()
            };
            return rows(plan).map(share).collect();
        }
        let mut shares = vec![0.0; self.order.len()];
        for (&i, &m) in self.order[..step].iter().rev().zip(kept) {
            shares[i] = m;
        }
        shares
    }
}
