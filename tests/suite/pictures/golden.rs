//! A picture of each figure in both looks, held against one that was looked at and kept in `golden`.
//!
//! The pictures are made by the way of export (SVG, rasterised by resvg with the bundled typeface) and not by the window:
//! that way is Rust alone and gives the same pixels on every machine, so that one grey level is allowed to differ and no
//! more, where a software renderer of a graphics card rounds edges and letters anew with every version of its driver. What
//! the window paints is held against the same pictures block by block, within what the two ways of smoothing letters and
//! edges leave: a mark that is missing, moved or of another colour is more than that.
//!
//! `UPDATE_SNAPSHOTS=1` writes them anew, as it does for every picture of egui_kittest: look at them before they are kept.

use std::path::{Path, PathBuf};

use eframe::egui;
use egui_kittest::Harness;
use image::RgbImage;
use ssmprobe::model::trace::Trace;
use ssmprobe::viz::curves::Part;
use ssmprobe::viz::overview::{MapOf, OVERVIEWS};
use ssmprobe::viz::paint::Canvas;
use ssmprobe::viz::plot::{self, Plot};
use ssmprobe::viz::scene::Scene;
use ssmprobe::viz::stability::Steadiness;
use ssmprobe::viz::theme::Theme;
use ssmprobe::viz::{COLUMN, FIGURES, Options, compare, draw_column, export, find};

use super::{looks, small};

/// Dots an inch.
const DPI: f32 = 96.0;
/// Levels of a channel that a pixel may differ by.
const LEVELS: u8 = 1;
/// Most bytes of all of them.
const MOST: u64 = 1_500_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/pictures/golden")
}

/// Every picture with its name.
fn all(theme: &Theme) -> Vec<(String, Scene)> {
    let plain = Options::default();
    let figure = |id: &str, trace: &Trace, options: &Options| {
        draw_column(find(id).expect("a figure"), trace, options, theme, COLUMN).expect("something to see")
    };
    let plot = |plot: &dyn Plot| plot::draw_column(plot, theme, COLUMN).expect("something to see");
    let (planned, swept) = (small::planned(), small::swept());
    let mut all: Vec<(String, Scene)> =
        FIGURES.iter().map(|one| (one.id().to_owned(), figure(one.id(), &planned, &plain))).collect();
    let of = |overview| plot(&small::surveyed(overview, MapOf::Positions));
    all.extend(OVERVIEWS.iter().map(|overview| (overview.id().to_owned(), of(*overview))));
    let step = Options { step: Some(5), ..plain.clone() };
    let log = Options { log: true, ..plain.clone() };
    let [routing] = ["routing_maps"].map(|id| ssmprobe::viz::overview::find(id).expect("an overview"));
    let both = ["photo", "evidence"].map(|id| find(id).expect("a figure"));
    let side = compare::scene(&[&planned, &swept], &both, &plain, theme, export::points(174.0));
    let more = [
        ("scan_path-sweeps", figure("scan_path", &swept, &plain)),
        ("scan_path-memory", figure("scan_path", &swept, &step)),
        ("assignment-log", figure("assignment", &planned, &log)),
        ("kernel-channels", figure("kernel", &small::channelled(), &plain)),
        ("routing_maps-weights", plot(&small::surveyed(routing, MapOf::Weights))),
        ("stability", plot(&Steadiness(small::stability().into()))),
        ("training", plot(&small::training(Part::Both, false))),
        ("training_loss-log", plot(&small::training(Part::Loss, true))),
        ("comparison", side.expect("something to see")),
    ];
    all.extend(more.map(|(name, scene)| (name.to_owned(), scene)));
    let look = if theme.dark { "dark" } else { "light" };
    all.into_iter().map(|(name, scene)| (format!("{name}-{look}"), scene)).collect()
}

/// A scene by the way of export.
fn exported(scene: &Scene, dpi: f32) -> RgbImage {
    image::load_from_memory(&export::png(scene, "", dpi).expect("a picture")).expect("a PNG").to_rgb8()
}

/// How many pixels differ by more than [`LEVELS`], and where the first does.
fn differing(a: &RgbImage, b: &RgbImage) -> (usize, Option<(u32, u32)>) {
    let far = |(x, y): (u32, u32)| {
        let [a, b] = [a, b].map(|image| image.get_pixel(x, y).0);
        a.iter().zip(b).any(|(a, b)| a.abs_diff(b) > LEVELS)
    };
    let places = (0..a.height()).flat_map(|y| (0..a.width()).map(move |x| (x, y)));
    let mut found = places.filter(|place| far(*place));
    let first = found.next();
    (usize::from(first.is_some()) + found.count(), first)
}

#[test]
fn every_picture_is_the_one_that_was_kept() {
    let update = std::env::var("UPDATE_SNAPSHOTS").is_ok_and(|value| !matches!(&*value, "" | "0" | "false"));
    let mut faults = Vec::new();
    let mut names = Vec::new();
    for (name, scene) in looks().iter().flat_map(all) {
        let found = exported(&scene, DPI);
        let path = folder().join(format!("{name}.png"));
        names.push(path.clone());
        let kept = image::open(&path).map(|kept| kept.to_rgb8());
        let fault = match &kept {
            Err(error) => Some(format!("{name}: {error}")),
            Ok(kept) if kept.dimensions() != found.dimensions() => {
                Some(format!("{name}: {:?}, kept are {:?}", found.dimensions(), kept.dimensions()))
            }
            Ok(kept) => match differing(kept, &found) {
                (_, None) => None,
                (count, first) => Some(format!("{name}: {count} pixels differ, the first at {first:?}")),
            },
        };
        let Some(fault) = fault else { continue };
        if update {
            std::fs::create_dir_all(folder()).expect("a folder");
            found.save(&path).expect("written");
        } else {
            let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.png"));
            found.save(&new).expect("written");
            faults.push(format!("{fault}; as it is now: {}", new.display()));
        }
    }
    assert!(faults.is_empty(), "UPDATE_SNAPSHOTS=1 keeps them:\n{}", faults.join("\n"));
    let kept = std::fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("an entry"));
    let kept: Vec<(PathBuf, u64)> =
        kept.map(|entry| (entry.path(), entry.metadata().expect("its size").len())).collect();
    let stale: Vec<&PathBuf> =
        kept.iter().map(|(path, _)| path).filter(|path| !names.contains(path)).collect();
    assert!(stale.is_empty(), "pictures of nothing: {stale:?}");
    let bytes: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes < MOST, "{bytes} bytes of pictures");
}

/// Side of a block of pixels that are compared together.
const BLOCK: u32 = 8;
/// Most that the mean of a channel over a block may differ: letters and edges are smoothed otherwise.
const SMOOTHED: f64 = 56.0;

/// The largest difference of the means of a block, and its corner.
fn blocks(a: &RgbImage, b: &RgbImage) -> (f64, (u32, u32)) {
    let (width, height) = (a.width().min(b.width()), a.height().min(b.height()));
    let mean = |image: &RgbImage, x: u32, y: u32, channel: usize| {
        let inside =
            (y..(y + BLOCK).min(height)).flat_map(|y| (x..(x + BLOCK).min(width)).map(move |x| (x, y)));
        let values: Vec<f64> = inside.map(|(x, y)| f64::from(image.get_pixel(x, y).0[channel])).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let corners = (0..height)
        .step_by(BLOCK as usize)
        .flat_map(|y| (0..width).step_by(BLOCK as usize).map(move |x| (x, y)));
    let far =
        |(x, y): (u32, u32)| (0..3).map(|c| (mean(a, x, y, c) - mean(b, x, y, c)).abs()).fold(0.0, f64::max);
    corners.map(|corner| (far(corner), corner)).max_by(|a, b| a.0.total_cmp(&b.0)).expect("a block")
}

/// What the window shows.
struct Shown {
    canvas: Canvas,
    scene: Scene,
}

#[test]
fn the_window_paints_what_is_exported() {
    let pictures: Vec<(String, Scene)> = looks().iter().flat_map(all).collect();
    let state = Shown { canvas: Canvas::default(), scene: pictures[0].1.clone() };
    // One window, and so one device, for all of them.
    let mut harness = Harness::builder().with_size(egui::vec2(400.0, 420.0)).build_ui_state(
        |ui, shown: &mut Shown| {
            let corner = ui.max_rect().min.round();
            // As large as it is exported, on whole pixels.
            let size = (egui::vec2(shown.scene.width, shown.scene.height) * (DPI / 72.0)).round();
            shown.canvas.paint(ui, &shown.scene, egui::Rect::from_min_size(corner, size));
        },
        state,
    );
    let mut faults = Vec::new();
    for (name, scene) in pictures {
        let expected = exported(&scene, DPI);
        harness.set_size(
            egui::vec2(expected.width() as f32, expected.height() as f32) + egui::Vec2::splat(40.0),
        );
        harness.state_mut().scene = scene;
        harness.run();
        let place = harness.state().canvas.last();
        let window = harness.render().expect("a picture of the window");
        let corner = place.min.round();
        let part = image::imageops::crop_imm(
            &window,
            corner.x as u32,
            corner.y as u32,
            expected.width(),
            expected.height(),
        );
        let painted = image::DynamicImage::from(part.to_image()).to_rgb8();
        assert_eq!(painted.dimensions(), expected.dimensions(), "{name} is cut");
        let (most, at) = blocks(&painted, &expected);
        println!("{name}: {most:.1} at {at:?}");
        if most > SMOOTHED {
            let [path, other] = ["window", "export"]
                .map(|way| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{way}.png")));
            painted.save(&path).expect("written");
            expected.save(&other).expect("written");
            faults.push(format!("{name}: a block at {at:?} is {most:.1} levels off; {}", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
