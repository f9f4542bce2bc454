//! Converts the SVG of a scene to PDF and PNG with usvg, krilla and resvg, and with the bundled
//! typeface, whatever fonts the machine has; with one of these only for letters that the typeface lacks.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use krilla::Document;
use krilla::geom::Size;
use krilla::metadata::Metadata;
use krilla::page::PageSettings;
use krilla_svg::{SurfaceExt as _, SvgSettings};
use png::PixelDimensions;
use resvg::usvg::fontdb::{Database, Source};
use resvg::{tiny_skia, usvg};

use super::{ExportError, MADE_BY, MAX_PIXELS, failed, foreign_letters, svg, system_font};
use crate::viz::draw::{Scene, Shape, font, scene::Item};

/// The bundled typeface, loaded once: an animation has hundreds of pictures.
static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_source(Source::Binary(Arc::new(font::file().as_ref().as_ref().to_vec())));
    Arc::new(fonts)
});

/// The bundled typeface, and the fonts of the machine for the letters of a scene that it lacks.
fn fonts(scene: &Scene) -> Arc<Database> {
    let mut fonts = FONTS.clone();
    let others = foreign_letters(scene).into_iter().filter_map(system_font);
    for (_, font) in others.map(|font| (font.name.clone(), font)).collect::<BTreeMap<_, _>>() {
        Arc::make_mut(&mut fonts).load_font_source(Source::Binary(font.file));
    }
    fonts
}

/// Parses the SVG of a scene for the converters.
fn tree(scene: &Scene, about: &str, format: &'static str) -> Result<usvg::Tree, ExportError> {
    let options = usvg::Options {
        fontdb: fonts(scene),
        font_family: font::FAMILY.to_owned(),
        dpi: 72.0, // so that the size of the tree is in points
        ..usvg::Options::default()
    };
    usvg::Tree::from_str(&svg(scene, about), &options).map_err(failed(format))
}

/// The bytes of a one-page PDF of the scene, with text as text.
pub fn pdf(scene: &Scene, about: &str) -> Result<Vec<u8>, ExportError> {
    let tree = tree(scene, about, "PDF")?;
    let (width, height) = (tree.size().width(), tree.size().height());
    let size = Size::from_wh(width, height).ok_or_else(|| failed("PDF")("it has no size"))?;
    let mut document = Document::new(); // without a date: the same figure is the same bytes
    document.set_metadata(
        Metadata::new().title(scene.title.clone()).description(about.to_owned()).creator(MADE_BY.to_owned()),
    );
    let mut page = document.start_page_with(PageSettings::new(size));
    let mut surface = page.surface();
    surface.draw_svg(&tree, size, SvgSettings::default());
    surface.finish();
    page.finish();
    document.finish().map_err(|error| failed("PDF")(format!("{error:?}")))
}

/// The bytes of a PNG of the scene at `dpi` dots per inch, which the file states.
pub fn png(scene: &Scene, about: &str, dpi: f32) -> Result<Vec<u8>, ExportError> {
    let pixmap = pixmap(scene, about, dpi, "PNG")?;
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgba);
    let dots_per_metre = (dpi / 0.0254).round() as u32;
    encoder.set_pixel_dims(Some(PixelDimensions {
        xppu: dots_per_metre,
        yppu: dots_per_metre,
        unit: png::Unit::Meter,
    }));
    let written = (encoder.add_text_chunk("Software".to_owned(), MADE_BY.to_owned()))
        .and_then(|()| encoder.add_itxt_chunk("Description".to_owned(), about.to_owned()))
        .and_then(|()| encoder.write_header()?.write_image_data(&pixmap.take_demultiplied()));
    written.map_err(failed("PNG"))?;
    Ok(file)
}

/// The marks for `scale` pixels a point: no matrix has more cells than pixels.
fn on_pixels(items: &[Item], scale: f32) -> Vec<Item> {
    let shape = |shape: &Shape| match shape {
        Shape::Image { rect, raster, smooth: false } => {
            let raster = raster.averaged(raster.cells_on(rect.w * scale, rect.h * scale));
            Shape::Image { rect: *rect, raster, smooth: false }
        }
        Shape::Group { offset, clip, items } => {
            Shape::Group { offset: *offset, clip: *clip, items: on_pixels(items, scale) }
        }
        other => other.clone(),
    };
    items.iter().map(|item| Item { shape: shape(&item.shape), identity: None }).collect()
}

/// Renders a scene, on white where it has no background of its own.
pub(super) fn pixmap(
    scene: &Scene,
    about: &str,
    dpi: f32,
    format: &'static str,
) -> Result<tiny_skia::Pixmap, ExportError> {
    let scale = dpi / 72.0;
    let pixels = |points: f32| (points * scale).round().max(1.0) as u32;
    let (width, height) = (pixels(scene.width), pixels(scene.height));
    if width > MAX_PIXELS || height > MAX_PIXELS {
        return Err(ExportError::Large { width, height });
    }
    let mut drawn = Scene::new(scene.width, scene.height, scene.title.as_str(), scene.background);
    drawn.items = on_pixels(&scene.items, scale);
    let tree = tree(&drawn, about, format)?;
    let mut pixmap = tiny_skia::Pixmap::new(width, height).ok_or(ExportError::Large { width, height })?;
    let [across, down] = [width as f32 / tree.size().width(), height as f32 / tree.size().height()];
    let fit = tiny_skia::Transform::from_scale(across, down);
    // A figure for print has no background, which dark text needs wherever a PNG is shown.
    pixmap.fill(tiny_skia::Color::WHITE);
    resvg::render(&tree, fit, &mut pixmap.as_mut());
    Ok(pixmap)
}
