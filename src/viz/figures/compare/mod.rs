//! Several probes side by side in one scene: one column per trace, one row per figure, with one scale, one legend and one
//! colour bar per row. With a reference trace, the columns show differences from it.
//!
//! The page width is given: cells share what axes, gaps and colour bars leave of it. If cells would be too narrow to read,
//! [`TooNarrow`] says how many columns fit, and how wide a page would have to be for all.

mod row;

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use self::row::Row;
use crate::model::trace::Trace;
use crate::viz::draw::{Anchor, Color, Scene, Theme, font, pt};
use crate::viz::figures::plot::Plot as _;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::file_names::{own_path, probe_name};
use crate::viz::{Empty, Figure, MARGIN, difference};

/// Gap between columns, in points.
const GAP_PT: f32 = 10.0;
/// Gap between rows.
const ROW_GAP_PT: f32 = 8.0;
/// Gap between bands: blocks of all figures of some of the probes, if not all probes stand side by side.
const BAND_GAP_PT: f32 = 16.0;

/// The columns of a comparison are too narrow to read: by how much, and what would fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TooNarrow {
    /// How many should stand side by side.
    pub columns: usize,
    /// How wide the page is, in mm.
    pub width: f32,
    /// How many fit on it; 0 where not even one does.
    pub fitting: usize,
    /// Width of a page on which all fit, in mm, rounded up.
    pub needed: f32,
}

impl TooNarrow {
    /// How many columns to set side by side so that bands are about equally long; `None` if not even one fits.
    pub fn in_rows(&self) -> Option<usize> {
        let rows = self.columns.div_ceil(self.fitting.max(1));
        (self.fitting > 0).then(|| self.columns.div_ceil(rows))
    }

    /// The problem in words, without a remedy.
    pub fn why(&self) -> String {
        let fit = match self.fitting {
            0 => "none fits".to_owned(),
            1 => "1 fits".to_owned(),
            fitting => format!("{fitting} fit"),
        };
        let Self { columns, width, needed, .. } = self;
        format!("{columns} columns side by side need {needed} mm; on {width} mm {fit}")
    }
}

impl Display for TooNarrow {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}. ", self.why())?;
        if let Some(columns) = self.in_rows() {
            write!(
                f,
                "Arrange them in rows (--columns {columns}), or make the page wider (--width {})",
                self.needed
            )
        } else {
            write!(f, "Make the page wider (--width {})", self.needed)
        }
    }
}

/// Horizontal layout of a page, in points.
struct Grid {
    /// Left of the first column, for vertical axes.
    left: f32,
    /// Between the first column and the second, besides the gap, for the vertical axis of differences.
    between: f32,
    /// Width of a cell.
    cell: f32,
}

impl Grid {
    /// The left edge of a column.
    fn x(&self, column: usize) -> f32 {
        let between = if column > 0 { self.between } else { 0.0 };
        self.left + column as f32 * (self.cell + GAP_PT) + between
    }
}

impl TracePlot {
    /// Why its pictures do not fit side by side on a page of `width` points; `None` if they do, or if there is nothing to draw.
    pub fn too_narrow(&self, width: f32) -> Option<TooNarrow> {
        if !self.is_comparison() {
            return None;
        }
        let traces = self.ordered();
        let rows = self.rows(&Theme::print(), &traces).ok()?;
        self.check_width(&rows, width - 2.0 * MARGIN)
    }

    /// Draws all figures of all traces on `width` points, without a margin.
    ///
    /// # Errors
    /// If there is no trace or no figure, no cell has anything to show, or they do not fit.
    pub(super) fn side_by_side(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let traces = self.ordered();
        let rows = self.rows(theme, &traces)?;
        if let Some(too_narrow) = self.check_width(&rows, width) {
            return Err(Empty(too_narrow.to_string()));
        }
        let per_band = self.columns_per_band(traces.len());
        let grid = grid(&rows, per_band, width);
        let mut scene = Scene::new(width, 0.0, "Comparison of probes", theme.background);
        let title = |trace: &&Trace| self.column_title(theme, trace, grid.cell);
        let titles: Vec<Vec<Line>> = traces.iter().map(title).collect();
        let mut y = 0.0;
        for first in (0..traces.len()).step_by(per_band) {
            let columns = first..(first + per_band).min(traces.len());
            y += if first > 0 { BAND_GAP_PT } else { 0.0 };
            y += draw_titles(&mut scene, &grid, &titles[columns.clone()], y);
            for (at, row) in rows.iter().enumerate() {
                y += if at > 0 { ROW_GAP_PT } else { 0.0 };
                y += row.draw(&mut scene, theme, &grid, columns.clone(), y);
            }
        }
        scene.height = scene.height.max(y);
        Ok(scene)
    }

    /// The traces, the reference first if it is one of them.
    fn ordered(&self) -> Vec<&Trace> {
        let mut traces: Vec<&Trace> = self.traces.iter().map(AsRef::as_ref).collect();
        traces.sort_by_key(|trace| !self.is_reference(trace));
        traces
    }

    fn is_reference(&self, trace: &Trace) -> bool {
        self.against.as_deref().is_some_and(|reference| std::ptr::eq(reference, trace))
    }

    /// How many of `traces` traces stand side by side.
    fn columns_per_band(&self, traces: usize) -> usize {
        self.columns.unwrap_or(traces).clamp(1, traces.max(1))
    }

    fn rows<'a>(&self, theme: &Theme, traces: &[&'a Trace]) -> Result<Vec<Row<'a>>, Empty> {
        if traces.is_empty() || self.figures.is_empty() {
            return Err(Empty("Choose at least one trace and one figure to compare".to_owned()));
        }
        let against = self.against.as_deref();
        let row = |(at, figure): (usize, &&'static dyn Figure)| {
            let shown = |trace: &&'a Trace| match against.filter(|_| !self.is_reference(trace)) {
                Some(reference) => difference::shown(*figure, trace, reference).map(Cow::Owned),
                None => Ok(Cow::Borrowed(*trace)),
            };
            let name = against.map(|reference| self.name_parts(reference).join(", "));
            let pinned = traces.first().is_some_and(|first| self.is_reference(first));
            let cells = traces.iter().map(shown).collect();
            let options = self.row_options.get(at).unwrap_or(&self.options);
            Row::new(*figure, cells, (options, self.own_scales), theme, (name, pinned))
        };
        let rows: Vec<Row<'a>> = self.figures.iter().enumerate().map(row).collect();
        // Of every cell the reason, if all have one.
        let lacks: Option<Vec<Empty>> = rows.iter().flat_map(Row::lacks).collect();
        lacks.into_iter().flatten().next().map_or(Ok(rows), Err)
    }

    fn check_width(&self, rows: &[Row<'_>], width: f32) -> Option<TooNarrow> {
        let columns = self.columns_per_band(self.traces.len());
        let least = rows.iter().map(Row::least_width).fold(0.0, f32::max);
        let fits = |columns: usize, width: f32| grid(rows, columns, width).cell >= least - 0.01;
        if fits(columns, width) {
            return None;
        }
        let to_mm = |points: f32| (points + 2.0 * MARGIN) / 72.0 * 25.4;
        let missing = (least - grid(rows, columns, width).cell) * columns as f32;
        let fitting = (1..columns).rev().find(|fewer| fits(*fewer, width)).unwrap_or(0);
        let needed = to_mm(width + missing).ceil();
        Some(TooNarrow { columns, width: (10.0 * to_mm(width)).round() / 10.0, fitting, needed })
    }

    /// The parts of a trace's name: its probe, its backbone and image if these differ between traces, and changes to its reading.
    fn name_parts(&self, trace: &Trace) -> Vec<String> {
        let differ = |of: fn(&Trace) -> &str| self.traces.iter().any(|other| of(other) != of(trace));
        let backbone = differ(|trace| &trace.backbone).then(|| trace.backbone.clone());
        let images = self.traces.iter().map(|other| &*other.image);
        let image = differ(|trace| &trace.image).then(|| own_path(&trace.image, images).to_owned());
        // Where backbones differ, they tell probes of one name apart.
        let alike = self.traces.iter().filter(|other| other.backbone == trace.backbone);
        let name = match trace.probe.is_empty() {
            true => trace.head.clone(),
            false => probe_name(&trace.probe, alike.map(|other| &*other.probe)),
        };
        std::iter::once(name).chain(backbone).chain(image).chain(trace.reading.changes()).collect()
    }

    /// The title of a column, broken into lines of at most `room` points: the probe, and smaller below it the backbone or the image
    /// and, in a colour of its own, the changes to how the probe reads.
    fn column_title(&self, theme: &Theme, trace: &Trace, room: f32) -> Vec<Line> {
        let changes = trace.reading.changes();
        let mut lines = Vec::new();
        for (at, text) in self.name_parts(trace).into_iter().enumerate() {
            let (size, color) = match at {
                0 => (pt::TITLE, theme.ink),
                _ if changes.as_ref() == Some(&text) => (pt::TICK, theme.accent()),
                _ => (pt::TICK, theme.muted),
            };
            lines.extend(font::break_lines(&text, size, room).into_iter().map(|text| (text, size, color)));
        }
        lines
    }
}

/// A line of a column's title, with the size and the colour of its letters.
type Line = (String, f32, Color);

/// Draws the titles of columns from `y` down, and returns the height they take.
fn draw_titles(scene: &mut Scene, grid: &Grid, titles: &[Vec<Line>], y: f32) -> f32 {
    let mut height = 0.0f32;
    for (column, lines) in titles.iter().enumerate() {
        let mut top = y;
        for (text, size, color) in lines {
            let at = [grid.x(column) + grid.cell / 2.0, top + size * font::CAP + 0.5];
            scene.text(at, text.clone(), *size, *color, Anchor::Middle);
            top += size + 2.0;
        }
        height = height.max(top - y);
    }
    height + 4.0
}

/// The layout of a page of `width` points with this many columns side by side.
fn grid(rows: &[Row<'_>], columns: usize, width: f32) -> Grid {
    let widest = |of: &dyn Fn(&Row<'_>) -> f32| rows.iter().map(of).fold(0.0, f32::max);
    let left = widest(&|row| row.axis_room(0).max(row.axis_room(1)));
    let between = if columns > 1 { widest(&|row| row.axis_room(1)) } else { 0.0 };
    let right = widest(&|row| row.bar_room());
    let room = width - left - between - right - (columns - 1) as f32 * GAP_PT;
    Grid { left, between, cell: room / columns as f32 }
}
