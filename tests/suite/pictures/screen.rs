//! The window paints what is exported: shapes and colours are compared block by block, within the difference of two
//! methods of smoothing edges, so that a mark that is missing, moved, mirrored or of another colour exceeds it. Letters are
//! smoothed too differently for that; their places are compared.

use std::path::Path;

use eframe::egui;
use egui_kittest::Harness;
use image::RgbImage;
use ssmprobe::viz::draw::paint::Canvas;
use ssmprobe::viz::draw::scene::{Item, Scene, Shape};
use ssmprobe::viz::draw::theme::Theme;

use super::golden::{DPI, all, exported};
use super::looks;
use super::marks::Marks;
use super::pointer::painted;
use super::words::place;

/// Side of a block of pixels that are compared together.
const BLOCK: u32 = 8;
/// Largest difference of the mean of a channel over a block, of 255.
pub const SMOOTHED: f64 = 32.0;
/// Largest distance of a word from its place, in pixels, between boxes of letters and not of their line.
const BESIDE: f32 = 3.0;

/// The largest difference of the means of a block, and its corner.
pub fn blocks(a: &RgbImage, b: &RgbImage) -> (f64, (u32, u32)) {
    let (width, height) = a.dimensions();
    let mean = |image: &RgbImage, x: u32, y: u32, channel: usize| {
        let rows = y..(y + BLOCK).min(height);
        let inside = rows.flat_map(|y| (x..(x + BLOCK).min(width)).map(move |x| (x, y)));
        let values: Vec<f64> = inside.map(|(x, y)| f64::from(image.get_pixel(x, y).0[channel])).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let rows = (0..height).step_by(BLOCK as usize);
    let corners = rows.flat_map(|y| (0..width).step_by(BLOCK as usize).map(move |x| (x, y)));
    let far =
        |(x, y): (u32, u32)| (0..3).map(|c| (mean(a, x, y, c) - mean(b, x, y, c)).abs()).fold(0.0, f64::max);
    corners.map(|corner| (far(corner), corner)).max_by(|a, b| a.0.total_cmp(&b.0)).expect("a block")
}

/// The marks without text.
fn wordless(items: &[Item]) -> Vec<Item> {
    let others = items.iter().filter(|item| !matches!(item.shape, Shape::Text { .. }));
    let without = |item: &Item| {
        let mut item = item.clone();
        if let Shape::Group { items, .. } = &mut item.shape {
            *items = wordless(items);
        }
        item
    };
    others.map(without).collect()
}

/// The scene that the window shows.
struct Shown {
    canvas: Canvas,
    scene: Scene,
}

#[test]
fn the_window_paints_what_is_exported() {
    let looks = looks();
    let pictures: Vec<(&Theme, String, Scene)> = looks
        .iter()
        .flat_map(|theme| all(theme).into_iter().map(move |(name, scene)| (theme, name, scene)))
        .collect();
    let state = Shown { canvas: Canvas::default(), scene: pictures[0].2.clone() };
    // One window, and so one device, for all scenes.
    let mut harness = Harness::builder().with_size(egui::vec2(400.0, 420.0)).build_ui_state(
        |ui, shown: &mut Shown| {
            let corner = ui.max_rect().min.round();
            // As large as the export, rounded to whole pixels.
            let size = (egui::vec2(shown.scene.width, shown.scene.height) * (DPI / 72.0)).round();
            shown.canvas.paint(ui, &shown.scene, egui::Rect::from_min_size(corner, size));
        },
        state,
    );
    let mut faults = Vec::new();
    for (theme, name, scene) in pictures {
        let words = Marks::of(&scene, theme).words();
        let bare = Scene { items: wordless(&scene.items), ..scene.clone() };
        let expected = exported(&bare, DPI);
        let size = egui::vec2(expected.width() as f32, expected.height() as f32);
        harness.set_size(size + egui::Vec2::splat(40.0));
        harness.state_mut().scene = bare;
        harness.run();
        let corner = harness.state().canvas.last().min.round();
        let window = harness.render().expect("a picture of the window");
        let [x, y] = [corner.x as u32, corner.y as u32];
        let part = image::imageops::crop_imm(&window, x, y, expected.width(), expected.height()).to_image();
        let found = image::DynamicImage::from(part).to_rgb8();
        assert_eq!(found.dimensions(), expected.dimensions(), "{name} is cut");
        let (most, at) = blocks(&found, &expected);
        println!("{name}: {most:.1} at {at:?}");
        if most > SMOOTHED {
            let path = |way: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{way}.png"));
            found.save(path("window")).expect("written");
            expected.save(path("export")).expect("written");
            faults
                .push(format!("{name}: the block at {at:?} is {most:.1} off: {}", path("window").display()));
        }
        harness.state_mut().scene = scene;
        harness.run();
        let painted = painted(harness.output());
        for word in words.into_iter().filter(|word| !word.text.is_empty()) {
            let [x, y] = place(&word).center().map(|v| v * DPI / 72.0);
            let expected = corner + egui::vec2(x, y);
            let mut own = painted.iter().filter(|(text, ..)| *text == word.text);
            if !own.any(|(.., whole)| (whole.center() - expected).abs().max_elem() < BESIDE) {
                faults.push(format!("{name}: {:?} is not painted at {expected:?}", word.text));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
