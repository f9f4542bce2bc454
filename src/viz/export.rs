//! A scene as a file: SVG and PDF with true vectors and text as text, PNG at a chosen resolution;
//! the numbers behind it as CSV or NPZ. The same scene gives the same bytes on every machine: the
//! typeface comes along, and nothing writes a time. A file is written whole or not at all.

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use resvg::{tiny_skia, usvg};

use super::font;
use super::scene::{Anchor, Box2, Item, Raster, Scene, Shape, Stroke};
use super::table::{Column, Table};
use super::theme::Color;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The ending names no format.
    #[error("{path}: cannot tell the format from its ending; use .svg, .pdf, .png, .csv or .npz")]
    Ending {
        /// The file.
        path: PathBuf,
    },
    /// The picture would be too large.
    #[error(
        "a PNG of {width} x {height} pixels is too large (up to {MOST} each way); lower the dpi or the width"
    )]
    Large {
        /// Pixels across.
        width: u32,
        /// Pixels down.
        height: u32,
    },
    /// A converter refused; a bug of this program.
    #[error("the figure could not be converted to {format}: {why}; this is a bug, please report it")]
    Convert {
        /// The format.
        format: &'static str,
        /// What the converter said.
        why: String,
    },
}

/// Most pixels of a PNG each way.
pub const MOST: u32 = 16_384;
/// Who made the file.
const MADE_BY: &str = concat!("SSMProbe ", env!("CARGO_PKG_VERSION"));
/// Points a millimetre.
const POINTS: f32 = 72.0 / 25.4;

/// Points of a length in millimetres.
pub fn points(mm: f32) -> f32 {
    mm * POINTS
}

/// The scene as SVG; `about` says what it was made from (image, probe, backbone).
pub fn svg(scene: &Scene, about: &str) -> String {
    let mut out = String::new();
    let (w, h) = (num(scene.width), num(scene.height));
    let (w_mm, h_mm) = (num(scene.width / POINTS), num(scene.height / POINTS));
    push(
        &mut out,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w_mm}mm\" height=\"{h_mm}mm\" viewBox=\"0 0 {w} {h}\" font-family=\"{}, Helvetica, Arial, sans-serif\" font-weight=\"{}\">\n",
            font::FAMILY,
            font::WEIGHT
        ),
    );
    push(&mut out, format_args!("<title>{}</title>\n", escape(&scene.title)));
    push(&mut out, format_args!("<desc>{}; made with {MADE_BY}</desc>\n", escape(about)));
    if let Some(color) = scene.background {
        push(&mut out, format_args!("<rect width=\"{w}\" height=\"{h}\"{}/>\n", paint("fill", Some(color))));
    }
    let mut clips = 0;
    items(&mut out, &scene.items, &mut clips);
    out.push_str("</svg>\n");
    out
}

/// Writing into a `String` cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn items(out: &mut String, items: &[Item], clips: &mut usize) {
    for item in items {
        shape(out, &item.shape, clips);
    }
}

fn shape(out: &mut String, shape: &Shape, clips: &mut usize) {
    match shape {
        // A box that is only there for the pointer.
        Shape::Rect { fill: None, stroke: None, .. } => {}
        Shape::Rect { rect, fill, stroke } => {
            push(out, format_args!("<rect{}{}{}/>\n", place(*rect), paint("fill", *fill), line(*stroke)));
        }
        Shape::Path { points, closed, fill, stroke } => {
            let name = if *closed { "polygon" } else { "polyline" };
            let list: Vec<String> = points.iter().map(|p| format!("{},{}", num(p[0]), num(p[1]))).collect();
            let list = list.join(" ");
            push(out, format_args!("<{name} points=\"{list}\"{}{}/>\n", paint("fill", *fill), line(*stroke)));
        }
        Shape::Circle { center, radius, fill, stroke } => {
            let (x, y, r) = (num(center[0]), num(center[1]), num(*radius));
            let (fill, line) = (paint("fill", *fill), line(*stroke));
            push(out, format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"{fill}{line}/>\n"));
        }
        Shape::Text { at, text, size, color, anchor, upwards } => {
            let (x, y) = (num(at[0]), num(at[1]));
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let turn = if *upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
            let (size, fill) = (num(*size), paint("fill", Some(*color)));
            let text = escape(text);
            push(
                out,
                format_args!(
                    "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{fill}{turn}>{text}</text>\n"
                ),
            );
        }
        Shape::Image { rect, raster, smooth } => {
            let hard = if *smooth {
                ""
            } else {
                " image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\""
            };
            let data = base64::engine::general_purpose::STANDARD.encode(encode(raster));
            push(
                out,
                format_args!(
                    "<image{} preserveAspectRatio=\"none\"{hard} href=\"data:image/png;base64,{data}\"/>\n",
                    place(*rect)
                ),
            );
        }
        Shape::Group { offset, clip, items: inner } => {
            let mut cut = String::new();
            if let Some(clip) = clip {
                *clips += 1;
                push(out, format_args!("<clipPath id=\"clip{clips}\"><rect{}/></clipPath>\n", place(*clip)));
                cut = format!(" clip-path=\"url(#clip{clips})\"");
            }
            push(
                out,
                format_args!("<g transform=\"translate({} {})\"{cut}>\n", num(offset[0]), num(offset[1])),
            );
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
                push(&mut text, format_args!(" {name}-opacity=\"{}\"", num(f32::from(c.a) / 255.0)));
            }
            text
        }
    }
}

fn line(stroke: Option<Stroke>) -> String {
    let Some(s) = stroke else { return String::new() };
    let mut text = paint("stroke", Some(s.color));
    push(&mut text, format_args!(" stroke-width=\"{}\" stroke-linejoin=\"round\"", num(s.width)));
    if s.dash.is_none() && s.width > 0.5 {
        text.push_str(" stroke-linecap=\"round\""); // pieces of a path join without a seam
    }
    if let Some([on, off]) = s.dash {
        push(&mut text, format_args!(" stroke-dasharray=\"{} {}\"", num(on), num(off)));
    }
    text
}

/// A length with up to three decimals, and no minus zero.
fn num(v: f32) -> String {
    let text = format!("{v:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Text as XML holds it; characters XML forbids are left out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The pixels of an image as PNG.
fn encode(raster: &Raster) -> Vec<u8> {
    use image::ImageEncoder as _;
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

/// The SVG as the converters read it, with the one typeface and no other.
fn tree(svg: &str, format: &'static str) -> Result<usvg::Tree, ExportError> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_source(usvg::fontdb::Source::Binary(Arc::new(font::file().as_ref().as_ref().to_vec())));
    let options = usvg::Options {
        fontdb: Arc::new(fonts),
        font_family: font::FAMILY.to_owned(),
        dpi: 72.0, // so that the size of the tree is in points
        ..usvg::Options::default()
    };
    usvg::Tree::from_str(svg, &options).map_err(|e| ExportError::Convert { format, why: e.to_string() })
}

/// The scene as a one-page PDF, text as text.
///
/// # Errors
/// If the converter refuses the SVG.
pub fn pdf(scene: &Scene, about: &str) -> Result<Vec<u8>, ExportError> {
    let tree = tree(&svg(scene, about), "PDF")?;
    let page = svg2pdf::PageOptions { dpi: 72.0 };
    svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page)
        .map(settle)
        .map_err(|e| ExportError::Convert { format: "PDF", why: e.to_string() })
}

/// Sorts the entries of every resource dictionary. The converter writes them in the order of a
/// randomly seeded map, one a line, so that the same figure would not be the same bytes; sorted in
/// their place, no offset of the file changes.
fn settle(mut pdf: Vec<u8>) -> Vec<u8> {
    // `    /xo1 8 0 R`: a name with a number, and a reference.
    let entry = |line: &[u8]| {
        let Some(text) = std::str::from_utf8(line).ok().and_then(|t| t.trim().strip_prefix('/')) else {
            return false;
        };
        let mut parts = text.split(' ');
        let named = parts.next().is_some_and(|p| p.ends_with(|c: char| c.is_ascii_digit()) && p.len() < 12);
        named && parts.next().is_some_and(|p| p.parse::<u32>().is_ok()) && parts.eq(["0", "R"])
    };
    let lines: Vec<Vec<u8>> = pdf.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let mut settled = Vec::with_capacity(pdf.len());
    for group in lines.chunk_by(|a, b| entry(a) && entry(b)) {
        let mut group = group.to_vec();
        group.sort();
        settled.extend(group.into_iter().flatten());
    }
    pdf.copy_from_slice(&settled);
    pdf
}

/// The scene as PNG of `dpi` dots an inch, which the file also says.
///
/// # Errors
/// If it would be larger than [`MOST`] pixels, or the converter refuses the SVG.
pub fn png(scene: &Scene, about: &str, dpi: f32) -> Result<Vec<u8>, ExportError> {
    let scale = dpi / 72.0;
    let pixels = |points: f32| (points * scale).round().max(1.0) as u32;
    let (width, height) = (pixels(scene.width), pixels(scene.height));
    if width > MOST || height > MOST {
        return Err(ExportError::Large { width, height });
    }
    let tree = tree(&svg(scene, about), "PNG")?;
    let mut pixmap = tiny_skia::Pixmap::new(width, height).ok_or(ExportError::Large { width, height })?;
    let fit = tiny_skia::Transform::from_scale(
        width as f32 / tree.size().width(),
        height as f32 / tree.size().height(),
    );
    resvg::render(&tree, fit, &mut pixmap.as_mut());
    let bytes =
        pixmap.encode_png().map_err(|e| ExportError::Convert { format: "PNG", why: e.to_string() })?;
    let metre = (dpi / 0.0254).round() as u32;
    let mut density = [metre.to_be_bytes(), metre.to_be_bytes()].concat();
    density.push(1); // the unit is the metre
    let made = [&b"Software\0"[..], MADE_BY.as_bytes()].concat();
    // After the signature (8 bytes) and the header chunk (25), where both chunks may stand.
    Ok([&bytes[..33], &chunk(*b"pHYs", &density), &chunk(*b"tEXt", &made), &bytes[33..]].concat())
}

/// A PNG chunk: length, name, data, checksum.
fn chunk(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let body = [&name[..], data].concat();
    let mut crc = u32::MAX;
    for &byte in &body {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    [&(data.len() as u32).to_be_bytes()[..], &body, &(!crc).to_be_bytes()].concat()
}

/// The table as CSV: a header, one row a line; a matrix as one more column a column.
///
/// # Errors
/// If the writer fails, which memory does not.
pub fn csv(table: &Table) -> Result<Vec<u8>, ExportError> {
    let failed = |e: &dyn std::fmt::Display| ExportError::Convert { format: "CSV", why: e.to_string() };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut header: Vec<String> = table.columns.iter().map(|(name, _)| name.clone()).collect();
    if let Some((name, matrix)) = &table.matrix {
        header.extend((0..matrix.cols).map(|k| format!("{name}_{k}")));
    }
    writer.write_record(&header).map_err(|e| failed(&e))?;
    let value = |v: f64| if v.is_finite() { v.to_string() } else { String::new() };
    for r in 0..table.rows() {
        let cell = |(_, column): &(String, Column)| match column {
            Column::Numbers(v) => v.get(r).copied().map(value).unwrap_or_default(),
            Column::Words(v) => v.get(r).cloned().unwrap_or_default(),
        };
        let mut record: Vec<String> = table.columns.iter().map(cell).collect();
        if let Some((_, m)) = &table.matrix {
            record.extend(
                (0..m.cols).map(|k| m.data.get(r * m.cols + k).map(f32::to_string).unwrap_or_default()),
            );
        }
        writer.write_record(&record).map_err(|e| failed(&e))?;
    }
    writer.into_inner().map_err(|e| failed(&e))
}

/// The numbers of the table as NPZ: float64 columns, a float32 matrix; words stay in the CSV.
///
/// # Errors
/// If the archive cannot be built.
pub fn npz(table: &Table) -> Result<Vec<u8>, ExportError> {
    let failed = |e: &dyn std::fmt::Display| ExportError::Convert { format: "NPZ", why: e.to_string() };
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed time, so that the same numbers are the same bytes.
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    let mut add = |name: &str, bytes: Vec<u8>| {
        archive.start_file(format!("{name}.npy"), options).map_err(|e| failed(&e))?;
        archive.write_all(&bytes).map_err(|e| failed(&e))
    };
    for (name, column) in &table.columns {
        if let Column::Numbers(values) = column {
            let data = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            add(name, npy("<f8", &format!("({},)", values.len()), &data))?;
        }
    }
    if let Some((name, m)) = &table.matrix {
        let data = m.data.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        add(name, npy("<f4", &format!("({}, {})", m.rows, m.cols), &data))?;
    }
    archive.finish().map(Cursor::into_inner).map_err(|e| failed(&e))
}

/// A NumPy array, format 1.0: magic, header padded to 64 bytes, data.
fn npy(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((length as u16).to_le_bytes());
    out.extend(format!("{header:<width$}\n", width = length - 1).bytes());
    out.extend(data);
    out
}

/// Writes the figure or its numbers to `path`, in the format its ending names.
///
/// # Errors
/// If the ending names none, the figure cannot be converted, or the file cannot be written.
pub fn save(path: &Path, scene: &Scene, table: &Table, about: &str, dpi: f32) -> Result<(), ExportError> {
    let ending = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    let bytes = match ending.as_deref() {
        Some("svg") => svg(scene, about).into_bytes(),
        Some("pdf") => pdf(scene, about)?,
        Some("png") => png(scene, about, dpi)?,
        Some("csv") => csv(table)?,
        Some("npz") => npz(table)?,
        _ => return Err(ExportError::Ending { path: path.to_owned() }),
    };
    write(path, &bytes)
}

/// Writes a file whole or not at all: beside it first, then in its place.
///
/// # Errors
/// If the folder cannot be written to.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), ExportError> {
    let failed = |source| ExportError::Write { path: path.to_owned(), source };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}
