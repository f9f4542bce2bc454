//! A picture of each figure in both themes, compared with a reviewed one in `golden`.
//!
//! The pictures are rendered as exports are (SVG, rasterised by resvg with the bundled typeface) and not by the window:
//! that is Rust alone and gives the same pixels on every machine, so that one grey level may differ and no more, whereas a
//! software renderer of a graphics card rounds edges and letters differently with every version of its driver. What the
//! window paints is compared with the same scenes in `screen.rs`.
//!
//! `UPDATE_SNAPSHOTS=1` rewrites them, as it does for every picture of egui_kittest: review them before committing.

use std::path::{Path, PathBuf};

use image::RgbImage;
use ssmprobe::viz::difference;
use ssmprobe::viz::export;
use ssmprobe::viz::figures::curves::Part;
use ssmprobe::viz::figures::dataset::{self, ColorBy, OVERVIEWS};
use ssmprobe::viz::figures::removal::RemovalPlot;
use ssmprobe::viz::figures::stability::StabilityPlot;
use ssmprobe::viz::figures::trace_plot::TracePlot;

use super::differences::has_difference;
use super::prelude::*;
use super::{many, side_by_side};
use crate::run::root;

/// Dots per inch.
pub const DPI: f32 = 96.0;
/// Levels of a channel that a pixel may differ by.
const LEVELS: u8 = 1;
/// Largest size of all pictures together, in bytes.
const MAX_BYTES: u64 = 5_000_000;

fn folder() -> PathBuf {
    root().join("tests/suite/pictures/golden")
}

/// Every picture with its name.
pub fn all(theme: &Theme) -> Vec<(String, Scene)> {
    let plain = Options::default();
    let figure = |id: &str, trace: &Trace, options: &Options| {
        draw_column(find(id).expect("a figure"), trace, options, theme, COLUMN).expect("something to see")
    };
    let (planned, swept) = (small::planned(), small::swept());
    let step = Options { step: Some(5), ..plain.clone() };
    let log = Options { log: true, ..plain.clone() };
    let mut all: Vec<(String, Scene)> =
        FIGURES.iter().map(|one| (one.id().to_owned(), figure(one.id(), &planned, &plain))).collect();
    let more = [
        ("scan_path-sweeps", figure("scan_path", &swept, &plain)),
        ("scan_path-memory", figure("scan_path", &swept, &step)),
        ("assignment-log", figure("assignment", &planned, &log)),
        ("kernel-channels", figure("kernel", &small::channelled(), &plain)),
    ];
    all.extend(more.map(|(name, scene)| (name.to_owned(), scene)));
    let apart = difference::subtract(&planned, &small::other()).expect("one grid");
    all.extend(
        FIGURES
            .iter()
            .filter(|one| has_difference(**one))
            .map(|one| (format!("{}-difference", one.id()), figure(one.id(), &apart, &plain))),
    );
    all.extend(plots(theme));
    all.extend(comparisons(theme));
    let look = if theme.dark { "dark" } else { "light" };
    all.into_iter().map(|(name, scene)| (format!("{name}-{look}"), scene)).collect()
}

/// The pictures that are not of a single trace.
pub fn plots(theme: &Theme) -> Vec<(String, Scene)> {
    let plot = |plot: &dyn Plot| Plot::draw_column(plot, theme, COLUMN).expect("something to see");
    let of = |overview, maps| plot(&small::evaluated(overview, maps));
    let mut all: Vec<(String, Scene)> =
        OVERVIEWS.iter().map(|one| (one.id().to_owned(), of(*one, MapOf::Positions))).collect();
    let both = ["photo", "evidence"].map(|id| find(id).expect("a figure"));
    let traces = [&small::planned(), &small::swept()];
    let options = Options::default();
    let side = side_by_side(&traces, &both, &options).draw_column(theme, export::points(174.0));
    let routing = dataset::find("routing_maps").expect("an overview");
    let more = [
        ("routing_maps-weights", of(routing, MapOf::Weights)),
        ("image_map", plot(&small::image_map(ColorBy::Outcome))),
        ("image_map-class", plot(&small::image_map(ColorBy::Class))),
        ("stability", plot(&StabilityPlot(small::stability().into()))),
        ("removal", plot(&RemovalPlot::new(small::removal().into(), None).expect("curves"))),
        (
            "removal-difference",
            plot(
                &RemovalPlot::new(small::removal().into(), Some(small::other_removal().into()))
                    .expect("a difference"),
            ),
        ),
        ("rates", plot(&small::rates())),
        ("settings", plot(&small::settings())),
        ("training", plot(&small::training(Part::Both, false))),
        ("training_loss-log", plot(&small::training(Part::Loss, true))),
        ("comparison", side.expect("something to see")),
    ];
    all.extend(more.map(|(name, scene)| (name.to_owned(), scene)));
    for classes in many::CLASSES {
        all.push((
            format!("confusion-{classes}"),
            plot(&many::plot("confusion", classes, Choice::default())),
        ));
    }
    all.push(("confusion-200-all".to_owned(), plot(&many::plot("confusion", 200, many::all()))));
    all
}

/// Two to six probes side by side, in a column and across a page: the default rows of a comparison, one probe in a random
/// order, names and classes as long as they get; and the differences of three probes from another.
pub fn comparisons(theme: &Theme) -> Vec<(String, Scene)> {
    let six = small::six();
    let six: Vec<&Trace> = six.iter().collect();
    let options = Options::default();
    let figures = |ids: &[&str]| ids.iter().map(|id| find(id).expect("a figure")).collect::<Vec<_>>();
    let (all, few) =
        (figures(&["photo", "token_map", "scan_path", "evidence"]), figures(&["token_map", "evidence"]));
    let mut made = Vec::new();
    for count in 2..=6 {
        for (mm, figures) in [(85.0, &few), (174.0, &all)] {
            let comparison = side_by_side(&six[..count], figures, &options);
            let narrow = comparison.too_narrow(export::points(mm));
            assert!(mm < 100.0 || narrow.is_none(), "{count} on {mm} mm: {narrow:?}");
            let columns = narrow.and_then(|narrow| narrow.in_rows());
            let comparison = TracePlot { columns, ..comparison };
            let scene = comparison
                .draw_column(theme, export::points(mm))
                .unwrap_or_else(|why| panic!("{count}, {mm}: {why}"));
            made.push((format!("comparison-{count}-{mm}"), scene));
        }
    }
    let from_first = |plot: TracePlot| TracePlot { against: Some(plot.traces[0].clone()), ..plot };
    let differences = from_first(side_by_side(&six[..3], &all, &options));
    made.push((
        "comparison-differences".to_owned(),
        differences.draw_column(theme, export::points(174.0)).expect("differences"),
    ));
    let own = TracePlot { own_scales: true, ..side_by_side(&six[..3], &all, &options) };
    made.push((
        "comparison-own-scales".to_owned(),
        own.draw_column(theme, export::points(174.0)).expect("three probes"),
    ));
    let (one, other) = (small::planned(), small::other());
    let (pair, plans) = ([&one, &other], figures(&["assignment", "ranks", "kernel"]));
    let across = from_first(side_by_side(&pair, &plans, &options));
    made.push((
        "comparison-plans".to_owned(),
        across.draw_column(theme, export::points(174.0)).expect("differences"),
    ));
    made
}

/// A scene rendered as for export.
pub fn exported(scene: &Scene, dpi: f32) -> RgbImage {
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
    assert!(bytes < MAX_BYTES, "{bytes} bytes of pictures");
}
