//! The content of every picture, read back from its marks: drawn from small hand-made data in which no two values are
//! equal and no shape is square, so that anything transposed, shifted by one or swapped is found.

mod classes;
mod dialog;
mod differences;
mod exports;
mod golden;
mod image_map;
mod lists;
mod many;
mod marks;
mod memory;
mod order;
mod order_test;
mod panes;
mod patches;
mod pdf;
mod playhead;
mod plots;
mod pointer;
mod regions;
mod rulers;
pub mod screen;
pub mod small;
mod words;

use ssmprobe::viz::figures::trace_plot::TracePlot;
use ssmprobe::viz::{Empty, Figure, figures};

pub use self::pointer::painted;
use self::prelude::*;

/// What most of these tests import.
mod prelude {
    pub(super) use std::sync::Arc;

    pub(super) use ssmprobe::model::trace::Trace;
    pub(super) use ssmprobe::viz::draw::scene::{Box2, Point, Scene, Shape};
    pub(super) use ssmprobe::viz::draw::theme::{Color, Theme};
    pub(super) use ssmprobe::viz::figures::dataset::{Choice, MapOf};
    pub(super) use ssmprobe::viz::figures::plot::Plot;
    pub(super) use ssmprobe::viz::{COLUMN, FIGURES, Options, find};

    pub(super) use super::lists::height;
    pub(super) use super::marks::{Marks, SHADE, apart, at, coloured, middle, near, pixel};
    pub(super) use super::small::{GRID, N};
    pub(super) use super::{draw_column, drawn, looks, plotted, small};
    pub(super) use crate::close::assert_close;
}

/// Both themes.
fn looks() -> [Theme; 2] {
    [Theme::light(), Theme::dark()]
}

/// A figure of a trace as a file has it, `width` points wide.
pub fn draw_column(
    figure: &'static dyn Figure,
    trace: &Trace,
    options: &Options,
    theme: &Theme,
    width: f32,
) -> Result<Scene, Empty> {
    TracePlot::new(figure, &Arc::new(trace.clone()), options.clone()).draw_column(theme, width)
}

/// Figures of traces side by side.
pub fn side_by_side(traces: &[&Trace], figures: &[&'static dyn Figure], options: &Options) -> TracePlot {
    let traces = traces.iter().map(|trace| Arc::new((*trace).clone())).collect();
    TracePlot::compared(figures.to_vec(), traces, options.clone())
}

/// The marks of a figure in a column.
#[track_caller]
fn drawn(id: &str, trace: &Trace, options: &Options, theme: &Theme) -> Marks {
    let figure = find(id).expect("a figure");
    Marks::of(&draw_column(figure, trace, options, theme, COLUMN).expect("something to see"), theme)
}

/// Why a figure shows nothing of a trace.
#[track_caller]
fn why_nothing(id: &str, trace: &Trace) -> String {
    let drawn = draw_column(find(id).expect("a figure"), trace, &Options::default(), &Theme::light(), COLUMN);
    drawn.map(|_| ()).expect_err("nothing to see").0
}

/// The marks of a plot.
#[track_caller]
fn plotted(plot: &dyn Plot, theme: &Theme) -> Marks {
    Marks::of(&Plot::draw_column(plot, theme, COLUMN).expect("something to see"), theme)
}

/// The test that reads each picture back.
const READ_BACK: &[(&str, fn())] = &[
    ("photo", patches::photo),
    ("token_map", patches::token_map),
    ("gradient", patches::gradient),
    ("integrated", patches::integrated),
    ("rollout", patches::rollout),
    ("regions", regions::regions),
    ("region_order", regions::region_order),
    ("scan_path", patches::scan_path),
    ("assignment", order::assignment),
    ("ranks", order::ranks),
    ("scores", order::scores),
    ("kernel", memory::kernel),
    ("evidence", memory::evidence),
    ("diagnostics", lists::diagnostics),
    ("order_test", order_test::order_test),
    ("predictions", lists::predictions),
    ("class_diagnostics", classes::class_diagnostics),
    ("routing_maps", classes::routing_maps),
    ("confusion", classes::confusion),
    ("scatter", classes::scatter),
    ("image_map", image_map::image_map),
    ("stability", plots::stability),
    ("removal", plots::removal),
    ("training", plots::training),
    ("training_loss", plots::training_loss),
    ("training_accuracy", plots::training_accuracy),
    ("rates", plots::rates),
    ("settings", plots::settings),
];

#[test]
fn every_picture_is_read_back() {
    let mut all: Vec<&str> = figures::all().map(|(info, _)| info.id).collect();
    let mut read: Vec<&str> = READ_BACK.iter().map(|(id, _)| *id).collect();
    all.sort_unstable();
    read.sort_unstable();
    assert_eq!(read, all, "a picture without a test of what it shows");
}
