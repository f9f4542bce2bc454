//! A scene as SVG: shapes as shapes, text as text, images as embedded PNG. Numbers have up to three
//! decimals and nothing depends on the machine, so that the same scene gives the same text.

use base64::Engine as _;

use super::{MADE_BY, POINTS_PER_MM, indexed};
use crate::viz::draw::{Anchor, Box2, Color, Raster, Scene, Shape, Stroke, font, scene::Item};

/// The text of an SVG of the scene; `about` says what it was made from (image, probe, backbone).
pub fn svg(scene: &Scene, about: &str) -> String {
    let (w, h) = (num(scene.width), num(scene.height));
    let (w_mm, h_mm) = (num(scene.width / POINTS_PER_MM), num(scene.height / POINTS_PER_MM));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w_mm}mm\" height=\"{h_mm}mm\" viewBox=\"0 0 {w} {h}\" font-family=\"{}, Helvetica, Arial, sans-serif\" font-weight=\"{}\">\n",
        font::FAMILY,
        font::WEIGHT
    );
    out += &format!("<title>{}</title>\n", escape(&scene.title));
    out += &format!("<desc>{}; made with {MADE_BY}</desc>\n", escape(about));
    if let Some(color) = scene.background {
        out += &format!("<rect width=\"{w}\" height=\"{h}\"{}/>\n", paint("fill", Some(color)));
    }
    items(&mut out, &scene.items, &mut 0);
    out + "</svg>\n"
}

/// Appends the marks; `clips` counts the clipping paths so far.
fn items(out: &mut String, items: &[Item], clips: &mut usize) {
    for item in items {
        shape(out, &item.shape, clips);
    }
}

fn shape(out: &mut String, shape: &Shape, clips: &mut usize) {
    match shape {
        // An invisible box for hit testing.
        Shape::Rect { fill: None, stroke: None, .. } => {}
        Shape::Rect { rect, fill, stroke } => {
            *out += &format!("<rect{}{}{}/>\n", place(*rect), paint("fill", *fill), line(*stroke));
        }
        Shape::Path { points, closed, fill, stroke } => {
            let name = if *closed { "polygon" } else { "polyline" };
            let list: Vec<String> = points.iter().map(|p| format!("{},{}", num(p[0]), num(p[1]))).collect();
            let list = list.join(" ");
            *out += &format!("<{name} points=\"{list}\"{}{}/>\n", paint("fill", *fill), line(*stroke));
        }
        Shape::Circle { center, radius, fill, stroke } => {
            let (x, y, r) = (num(center[0]), num(center[1]), num(*radius));
            let (fill, line) = (paint("fill", *fill), line(*stroke));
            *out += &format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"{fill}{line}/>\n");
        }
        Shape::Text { at, text, size, color, anchor, upwards } => {
            let (x, y) = (num(at[0]), num(at[1]));
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let rotate = if *upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
            let (size, fill) = (num(*size), paint("fill", Some(*color)));
            let text = escape(text);
            *out += &format!(
                "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{fill}{rotate}>{text}</text>\n"
            );
        }
        Shape::Image { rect, raster, smooth } => {
            let rendering = if *smooth {
                ""
            } else {
                " image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\""
            };
            let place = place(*rect);
            let data = base64::engine::general_purpose::STANDARD.encode(encode(raster));
            *out += &format!(
                "<image{place} preserveAspectRatio=\"none\"{rendering} href=\"data:image/png;base64,{data}\"/>\n"
            );
        }
        Shape::Group { offset, clip, items: inner } => {
            let mut cut = String::new();
            if let Some(clip) = clip {
                *clips += 1;
                *out += &format!("<clipPath id=\"clip{clips}\"><rect{}/></clipPath>\n", place(*clip));
                cut = format!(" clip-path=\"url(#clip{clips})\"");
            }
            *out += &format!("<g transform=\"translate({} {})\"{cut}>\n", num(offset[0]), num(offset[1]));
            items(out, inner, clips);
            out.push_str("</g>\n");
        }
    }
}

fn place(b: Box2) -> String {
    format!(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", num(b.x), num(b.y), num(b.w), num(b.h))
}

fn paint(name: &str, color: Option<Color>) -> String {
    match color {
        None => format!(" {name}=\"none\""),
        Some(c) => {
            let mut text = format!(" {name}=\"#{:02x}{:02x}{:02x}\"", c.r, c.g, c.b);
            if c.a < 255 {
                text += &format!(" {name}-opacity=\"{}\"", num(f32::from(c.a) / 255.0));
            }
            text
        }
    }
}

fn line(stroke: Option<Stroke>) -> String {
    let Some(s) = stroke else { return String::new() };
    let mut text = paint("stroke", Some(s.color));
    text += &format!(" stroke-width=\"{}\" stroke-linejoin=\"round\"", num(s.width));
    if s.dash.is_none() && s.width > 0.5 {
        text.push_str(" stroke-linecap=\"round\""); // pieces of a path join without a seam
    }
    if let Some([on, off]) = s.dash {
        text += &format!(" stroke-dasharray=\"{} {}\"", num(on), num(off));
    }
    text
}

/// A length with up to three decimals, and no negative zero.
fn num(v: f32) -> String {
    let text = format!("{v:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text escaped for XML; characters that XML forbids become spaces.
fn escape(text: &str) -> String {
    escape_markup(&text.replace(|c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'), " "))
}

/// Text escaped for XML and HTML, for attribute values in double quotes too.
pub fn escape_markup(text: &str) -> String {
    // The ampersand first: the others bring their own.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The bytes of a PNG of an image.
fn encode(raster: &Raster) -> Vec<u8> {
    use image::ImageEncoder as _;
    if let Some((levels, palette)) = &raster.indexed {
        return indexed::png(raster.width, levels, palette);
    }
    let mut bytes = Vec::new();
    let encoder = image::codecs::png::PngEncoder::new(&mut bytes);
    let (w, h) = (raster.width as u32, raster.height as u32);
    let opaque = raster.rgba.chunks_exact(4).all(|p| p[3] == 255);
    let written = if opaque {
        let rgb: Vec<u8> = raster.rgba.chunks_exact(4).flat_map(|p| [p[0], p[1], p[2]]).collect();
        encoder.write_image(&rgb, w, h, image::ExtendedColorType::Rgb8)
    } else {
        encoder.write_image(&raster.rgba, w, h, image::ExtendedColorType::Rgba8)
    };
    written.expect("a raster holds width x height pixels, and memory takes them");
    bytes
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_are_valid_xml() {
        assert_eq!(escape("a & \"b\" <c>\u{1}.jpg"), "a &amp; &quot;b&quot; &lt;c&gt; .jpg");
    }
}
