//! Paints a scene on the screen: fitted into a box, with images as textures cached by content, and
//! finds what the pointer is over.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use eframe::egui;
use egui::emath::GuiRounding as _;
use egui::epaint::{CircleShape, PathShape, PathStroke, RectShape, TextShape};
use egui::{
    Color32, ColorImage, CornerRadius, FontId, Painter, Pos2, Rect, Response, Sense, Shape as EguiShape,
    StrokeKind, TextureHandle, TextureOptions, Ui, Vec2,
};

use super::dots;
use super::polygon::triangles;
use super::scene::{Anchor, Box2, Hover, Item, Point, Raster, Scene, Shape, Stroke};
use super::theme::{Color, Theme};

/// A painted figure and the pointer over it.
pub struct Painted {
    /// The widget, for menus and tooltips.
    pub response: Response,
    /// What the pointer is over.
    pub hover: Option<Hover>,
}

/// All of a texture.
const WHOLE: Rect = Rect::from_min_max(Pos2::ZERO, Pos2::new(1.0, 1.0));

/// Values cached by the content they were made from, each with whether the scene being painted uses it.
type FrameCache<K, V> = HashMap<K, (V, bool)>;

/// The value of `key`, made if it is not cached.
fn cached<K: Eq + Hash, V>(cache: &mut FrameCache<K, V>, key: K, make: impl FnOnce() -> V) -> &V {
    let (value, is_used) = cache.entry(key).or_insert_with(|| (make(), true));
    *is_used = true;
    value
}

/// Drops the values that no scene has used since the last call.
fn drop_unused<K, V>(cache: &mut FrameCache<K, V>) {
    cache.retain(|_, (_, is_used)| std::mem::take(is_used));
}

/// Paints scenes, caching the textures, the triangulations and the pictures of many dots of the last one.
#[derive(Default)]
pub struct Canvas {
    last: Option<Rect>,
    textures: FrameCache<(u64, bool, [usize; 2]), TextureHandle>,
    triangulations: FrameCache<u64, Vec<[Point; 3]>>,
    dots: FrameCache<u64, (Point, Arc<Raster>)>,
}

impl Canvas {
    /// Paints `scene` into `rect`, as large as fits and centred, and frees the textures that it no longer
    /// uses; one in each scope of `ui`.
    pub fn paint(&mut self, ui: &mut Ui, scene: &Scene, rect: Rect) -> Painted {
        let scale = (rect.width() / scene.width).min(rect.height() / scene.height);
        let scale = if scale.is_finite() { scale.max(0.0) } else { 0.0 };
        let size = Vec2::new(scene.width, scene.height) * scale;
        let place = Rect::from_center_size(rect.center(), size);
        self.last = Some(place);
        // Whatever it shows and wherever it is scrolled, it keeps the focus and its menu.
        let response = ui.interact(place, ui.scope_id().with("scene"), Sense::click());
        let enabled = ui.is_enabled();
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, enabled, &scene.title));
        if ui.is_rect_visible(place) {
            let view = View { painter: ui.painter_at(place), origin: place.min, scale };
            if let Some(color) = scene.background {
                view.painter.rect_filled(place, CornerRadius::ZERO, color32(color));
            }
            self.items(&view, &scene.items);
            drop_unused(&mut self.textures);
            drop_unused(&mut self.triangulations);
            drop_unused(&mut self.dots);
        }
        let hover = response.hover_pos().filter(|_| scale > 0.0).and_then(|p| {
            let at = (p - place.min) / scale;
            scene.hover([at.x, at.y])
        });
        Painted { response, hover }
    }

    /// Marks a token or a position in the scene just painted, so that what the pointer is over in one
    /// figure shows in all.
    pub fn mark(&self, ui: &Ui, scene: &Scene, hover: Hover, theme: &Theme) {
        self.frame(ui, scene, hover, theme.ground, Stroke::new(1.0, theme.ink));
    }

    /// Marks a pinned token or position, with a frame unlike that of [`Canvas::mark`].
    pub fn pin(&self, ui: &Ui, scene: &Scene, pinned: Hover, theme: &Theme) {
        self.frame(ui, scene, pinned, theme.ground, Stroke::new(2.0, theme.pinned()));
    }

    /// Paints another scene of the same size above the one just painted.
    pub fn lay_over(&self, ui: &Ui, scene: &Scene) {
        // A new canvas has no texture cache, and needs none: the scene is frames and pointers, without images.
        Self::default().items(&self.view(ui, scene), &scene.items);
    }

    /// Where the last scene was painted, for another of its size.
    fn view(&self, ui: &Ui, scene: &Scene) -> View {
        let place = self.last();
        View { painter: ui.painter_at(place), origin: place.min, scale: place.width() / scene.width }
    }

    /// Frames the boxes of `hover` with `stroke`, on a halo of the background colour.
    fn frame(&self, ui: &Ui, scene: &Scene, hover: Hover, ground: Color, stroke: Stroke) {
        let view = self.view(ui, scene);
        for found in scene.places(hover) {
            let rect = view.rect(found).expand(0.5);
            let halo = egui::Stroke::new(stroke.width + 1.5, color32(ground.alpha(0.8)));
            view.painter.rect_stroke(rect, CornerRadius::ZERO, halo, StrokeKind::Middle);
            let line = egui::Stroke::new(stroke.width, color32(stroke.color));
            view.painter.rect_stroke(rect, CornerRadius::ZERO, line, StrokeKind::Middle);
        }
    }

    /// The rectangle that the last scene was painted into, in points of the screen.
    pub fn last(&self) -> Rect {
        self.last.unwrap_or(Rect::NOTHING)
    }

    /// Number of textures in the cache.
    pub fn textures(&self) -> usize {
        self.textures.len()
    }

    fn items(&mut self, view: &View, items: &[Item]) {
        for run in items.chunk_by(|one, next| dots::is_dot(one) && dots::is_dot(next)) {
            match run.len() {
                dots::MIN_PICTURE_DOTS.. => self.dots(view, run),
                _ => run.iter().for_each(|item| self.shape(view, &item.shape)),
            }
        }
    }

    /// Many dots as one picture, on whole pixels of the screen.
    fn dots(&mut self, view: &View, dots: &[Item]) {
        let to_point = view.painter.ctx().pixels_per_point();
        let pixels = view.scale * to_point;
        let (corner, raster) =
            cached(&mut self.dots, dots::key(dots, pixels), || dots::picture(dots, pixels));
        let (corner, raster) = (Vec2::from(*corner), raster.clone());
        let size = Vec2::new(raster.width as f32, raster.height as f32);
        let place = (view.origin + corner / to_point).round_to_pixels(to_point);
        let texture = self.texture(&view.painter, &raster, false, [raster.width, raster.height]);
        view.painter.image(texture, Rect::from_min_size(place, size / to_point), WHOLE, Color32::WHITE);
    }

    fn shape(&mut self, view: &View, shape: &Shape) {
        match shape {
            Shape::Rect { rect, fill, stroke } => {
                let (fill, line) =
                    (fill.map_or(Color32::TRANSPARENT, color32), stroke.map(|s| view.stroke(s)));
                let line = line.unwrap_or(egui::Stroke::NONE);
                let shape =
                    RectShape::new(view.rect(*rect), CornerRadius::ZERO, fill, line, StrokeKind::Middle);
                // A bar thinner than a pixel must not grow to one.
                view.painter.add(shape.with_round_to_pixels(false));
            }
            Shape::Path { points, closed, fill, stroke } => {
                if let Some(color) = fill {
                    view.fill_triangles(self.triangles(points), color32(*color));
                }
                if let Some(stroke) = stroke {
                    view.line(points.iter().map(|p| view.pos(*p)).collect(), *closed, *stroke);
                }
            }
            Shape::Circle { center, radius, fill, stroke } => {
                view.painter.add(CircleShape {
                    center: view.pos(*center),
                    radius: radius * view.scale,
                    fill: fill.map_or(Color32::TRANSPARENT, color32),
                    stroke: stroke.map_or(egui::Stroke::NONE, |s| view.stroke(s)),
                });
            }
            Shape::Text { at, text, size, color, anchor, upwards } => {
                view.text(*at, text, *size, *color, *anchor, *upwards);
            }
            Shape::Image { rect, raster, smooth } => {
                let pixels = view.rect(*rect).size() * view.painter.ctx().pixels_per_point();
                let cells = match smooth {
                    true => [raster.width, raster.height],
                    false => raster.cells_on(pixels.x, pixels.y),
                };
                let texture = self.texture(&view.painter, raster, *smooth, cells);
                view.painter.image(texture, view.rect(*rect), WHOLE, Color32::WHITE);
            }
            Shape::Group { offset, clip, items } => {
                let origin = view.pos(*offset);
                let mut inner = View { painter: view.painter.clone(), origin, scale: view.scale };
                if let Some(clip) = clip {
                    inner.painter.shrink_clip_rect(inner.rect(*clip));
                }
                self.items(&inner, items);
            }
        }
    }

    /// The triangulation of an outline, computed once.
    fn triangles(&mut self, points: &[Point]) -> &[[Point; 3]] {
        let mut hasher = DefaultHasher::new();
        points.iter().flatten().for_each(|v| v.to_bits().hash(&mut hasher));
        cached(&mut self.triangulations, hasher.finish(), || triangles(points)).as_slice()
    }

    fn texture(
        &mut self,
        painter: &Painter,
        raster: &Arc<Raster>,
        smooth: bool,
        cells: [usize; 2],
    ) -> egui::TextureId {
        let load = || {
            let image = image(&raster.averaged(cells), painter.ctx().input(|i| i.max_texture_side));
            let options = if smooth { TextureOptions::LINEAR } else { TextureOptions::NEAREST };
            painter.ctx().load_texture(format!("figure {:016x}", raster.key), image, options)
        };
        cached(&mut self.textures, (raster.key, smooth, cells), load).id()
    }
}

/// Where a scene is painted: `origin` is its top-left corner, `scale` the screen points to a scene point.
struct View {
    painter: Painter,
    origin: Pos2,
    scale: f32,
}

impl View {
    fn pos(&self, p: Point) -> Pos2 {
        self.origin + Vec2::new(p[0], p[1]) * self.scale
    }

    fn rect(&self, b: Box2) -> Rect {
        Rect::from_min_size(self.pos([b.x, b.y]), Vec2::new(b.w, b.h) * self.scale)
    }

    fn stroke(&self, s: Stroke) -> egui::Stroke {
        egui::Stroke::new(s.width * self.scale, color32(s.color))
    }

    fn line(&self, mut points: Vec<Pos2>, closed: bool, stroke: Stroke) {
        let line = self.stroke(stroke);
        match stroke.dash {
            Some([on, off]) => {
                if closed && let Some(first) = points.first().copied() {
                    points.push(first);
                }
                self.painter.extend(EguiShape::dashed_line(&points, line, on * self.scale, off * self.scale));
            }
            None => {
                let stroke = PathStroke::new(line.width, line.color);
                self.painter.add(PathShape { points, closed, fill: Color32::TRANSPARENT, stroke });
            }
        }
    }

    /// Fills triangles; egui itself can only fill convex outlines.
    fn fill_triangles(&self, triangles: &[[Point; 3]], color: Color32) {
        let mut mesh = egui::Mesh::default();
        for corners in triangles {
            let first = mesh.vertices.len() as u32;
            for p in corners {
                mesh.colored_vertex(self.pos(*p), color);
            }
            mesh.add_triangle(first, first + 1, first + 2);
        }
        self.painter.add(mesh);
    }

    fn text(&self, at: Point, text: &str, size: f32, color: Color, anchor: Anchor, upwards: bool) {
        let font = FontId::proportional(size * self.scale);
        let galley = self.painter.layout_no_wrap(text.to_owned(), font, color32(color));
        let along = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => galley.size().x / 2.0,
            Anchor::End => galley.size().x,
        };
        let row = galley.rows.first();
        let baseline = row.and_then(|r| Some(r.pos.y + r.row.glyphs.first()?.pos.y)).unwrap_or(0.0);
        let at = self.pos(at);
        if upwards {
            let pos = at + Vec2::new(-baseline, along);
            let turned = TextShape::new(pos, galley, color32(color)).with_angle(-std::f32::consts::FRAC_PI_2);
            self.painter.add(turned);
        } else {
            self.painter.galley(at - Vec2::new(along, baseline), galley, color32(color));
        }
    }
}

/// A colour of a theme as egui's type.
pub fn color32(c: Color) -> Color32 {
    Color32::from_rgba_unmultiplied(c.r, c.g, c.b, c.a)
}

/// The pixels of a raster; one with a side above `max_side` keeps every second (third, ...) pixel.
fn image(raster: &Raster, max_side: usize) -> ColorImage {
    let stride = raster.width.max(raster.height).div_ceil(max_side.max(1)).max(1);
    if stride == 1 {
        return ColorImage::from_rgba_unmultiplied([raster.width, raster.height], &raster.rgba);
    }
    let rows = raster.rgba.chunks_exact(raster.width * 4).step_by(stride);
    let pixels: Vec<u8> =
        rows.flat_map(|row| row.chunks_exact(4).step_by(stride)).flatten().copied().collect();
    let size = [raster.width.div_ceil(stride), raster.height.div_ceil(stride)];
    ColorImage::from_rgba_unmultiplied(size, &pixels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raster_beyond_the_card_is_thinned() {
        let red = (0..35).map(|i| Color { r: i, g: 0, b: 0, a: 255 });
        let raster = Raster::new(7, 5, red);
        assert_eq!(image(&raster, 7).size, [7, 5]);
        let thin = image(&raster, 4);
        assert_eq!(thin.size, [4, 3]);
        assert_eq!(thin.pixels[4].r(), 14, "the first pixel of the third row");
    }
}
