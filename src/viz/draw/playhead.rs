//! Marks the current step of the reading in any figure whose marks have an identity: the column and the row of a plan
//! and the strip of a plot with a pointer, the patch of a photograph with a frame.

use super::hover::Hover;
use super::order;
use super::scene::{Box2, Point, Scene, Shape, Stroke};
use super::theme::Theme;
use crate::model::trace::Trace;

/// Length of the pointer of a mark, in points.
const POINTER_PT: f32 = 4.0;
/// A row or a column thinner than this, in points, is marked by one line, not by its edges.
const THIN_PT: f32 = 3.0;
/// A box at least this many times as long as wide is a row or a column.
const MIN_ASPECT: f32 = 2.0;

/// The position read last after `step` tokens, or after all where `step` is beyond them, as it is one for several readings;
/// `None` for step 0.
pub fn position(trace: &Trace, step: usize) -> Option<usize> {
    step.min(trace.grid.len()).checked_sub(1)
}

/// That position, and its token if all sweeps read in one order.
pub fn at(trace: &Trace, step: usize) -> Option<Hover> {
    let position = position(trace, step)?;
    let token = order::single(trace).and_then(|order| order.get(position).copied());
    Some(Hover { token, position: Some(position), item: None })
}

/// The marks of `at` in `scene`, as a scene of the same size to lay over it. Of nested boxes only the outermost is marked.
pub fn marks(scene: &Scene, at: Hover, theme: &Theme) -> Scene {
    let mut marks = Scene::new(scene.width, scene.height, "Step of the reading", None);
    let places = scene.places(at);
    let inside = |a: &Box2, b: &Box2| {
        a != b && a.x >= b.x && a.y >= b.y && a.right() <= b.right() && a.bottom() <= b.bottom()
    };
    for place in places.iter().filter(|place| !places.iter().any(|other| inside(place, other))) {
        mark(&mut marks, *place, theme);
    }
    marks
}

/// Marks one box: a row or a column with a pointer, anything else with a frame.
fn mark(scene: &mut Scene, place: Box2, theme: &Theme) {
    let Box2 { x, y, w, h } = place;
    let [across, down] = place.center();
    if h >= MIN_ASPECT * w {
        band(scene, place, theme);
        let top = [[across - 0.6 * POINTER_PT, y], [across + 0.6 * POINTER_PT, y], [across, y + POINTER_PT]];
        pointer(scene, top, theme);
    } else if w >= MIN_ASPECT * h {
        band(scene, place, theme);
        let left = [[x, down - 0.6 * POINTER_PT], [x, down + 0.6 * POINTER_PT], [x + POINTER_PT, down]];
        pointer(scene, left, theme);
    } else {
        scene.outline(place, Stroke::new(2.4, theme.ground));
        scene.outline(place, Stroke::new(1.2, theme.playhead()));
    }
}

/// Outlines a row or a column; a thin one becomes a line.
fn band(scene: &mut Scene, place: Box2, theme: &Theme) {
    let ([across, down], Box2 { x, y, w, h }) = (place.center(), place);
    let line = if h > w { [[across, y], [across, y + h]] } else { [[x, down], [x + w, down]] };
    for stroke in [Stroke::new(1.9, theme.ground.alpha(0.8)), Stroke::new(0.9, theme.playhead())] {
        if w.min(h) < THIN_PT {
            scene.line(line.into(), stroke);
        } else {
            scene.outline(place, stroke);
        }
    }
}

fn pointer(scene: &mut Scene, points: [Point; 3], theme: &Theme) {
    let (points, edge) = (points.to_vec(), Some(Stroke::new(0.6, theme.ground)));
    scene.add(Shape::Path { points, closed: true, fill: Some(theme.playhead()), stroke: edge }, None);
}
