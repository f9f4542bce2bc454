//! One file per figure, and the lists of all figures.

pub(crate) mod assignment;
pub mod compare;
pub mod curves;
pub mod dataset;
pub(crate) mod diagnostics;
pub(crate) mod evidence;
pub mod image_map;
pub(crate) mod kernel;
pub mod meanings;
pub(crate) mod order_test;
pub(crate) mod photo;
pub mod plot;
pub(crate) mod predictions;
pub(crate) mod ranks;
pub mod rates;
pub(crate) mod regions;
pub mod removal;
pub(crate) mod removal_difference;
pub(crate) mod scan_path;
pub(crate) mod scores;
pub mod settings;
pub mod stability;
pub(crate) mod strip;
pub(crate) mod sweep;
pub(crate) mod token_map;
pub mod trace_plot;

use super::{Figure, Info};
use crate::model::trace::Attribution;

/// What most figures import.
mod prelude {
    pub(super) use crate::model::trace::Trace;
    pub(super) use crate::viz::difference::{around_zero, head, label};
    pub(super) use crate::viz::draw::{
        Anchor, Axis, Box2, Color, Frame, Hover, Identity, Keys, Map, Mark, Point, Raster, RowChart, Scale,
        Scene, Stroke, Table, Theme, diverging, extent, font, frame, legend, minus, number, picture, pt,
    };
    pub(super) use crate::viz::readout::Readout;
    pub(super) use crate::viz::{Control, Empty, Figure, Info, Options, Properties, Size, TabGroup};
}

/// All figures of a trace, in the order of menus.
pub const FIGURES: &[&dyn Figure] = &[
    &photo::Photo,
    &token_map::TokenMap(None),
    &token_map::TokenMap(Some(Attribution::Gradient)),
    &token_map::TokenMap(Some(Attribution::Integrated)),
    &token_map::TokenMap(Some(Attribution::Rollout)),
    &regions::Regions,
    &scan_path::ScanPath,
    &assignment::Assignment,
    &ranks::Ranks,
    &diagnostics::Diagnostics,
    &order_test::OrderTest,
    &kernel::Kernel,
    &evidence::Evidence,
    &scores::Scores,
    &predictions::Predictions,
];

/// The figure of a trace with this id; `None` if there is none.
pub fn find(id: &str) -> Option<&'static dyn Figure> {
    FIGURES.iter().copied().find(|figure| figure.id() == id)
}

/// The [`Info`] of every picture, with the data it shows: a trace, a run, an evaluation, measured stability or removal curves.
pub fn all() -> impl Iterator<Item = (Info, &'static str)> {
    let figures = FIGURES.iter().map(|figure| (figure.info(), "a trace"));
    let curves = curves::Part::ALL.into_iter().map(|part| (part.info(), "a run"));
    let curves = curves.chain([(rates::INFO, "a run"), (settings::INFO, "a run")]);
    let overviews = dataset::OVERVIEWS.iter().map(|overview| (overview.info(), "an evaluation"));
    figures
        .chain(curves)
        .chain(overviews)
        .chain([(image_map::INFO, "an evaluation")])
        .chain([(stability::INFO, "measured stability"), (removal::INFO, "removal curves")])
}
