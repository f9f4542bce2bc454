//! A row of a comparison: one figure of all traces in cells of one width, with shared scales, legend, axes and colour bars.

use std::borrow::Cow;
use std::ops::Range;

use super::{GAP_PT, Grid};
use crate::viz::draw::check::check;
use crate::viz::draw::keys::{self, Deferred};
use crate::viz::figures::prelude::*;
use crate::viz::{SharedLimits, legend_lines, marked};

/// Width of the cells that are drawn only to collect the legend, axes and colour bar they hand over.
const NOMINAL_WIDTH_PT: f32 = 120.0;
/// Smallest height of a cell.
const MIN_HEIGHT_PT: f32 = 30.0;

/// A figure of several traces, or of their differences.
pub struct Row<'a> {
    figure: &'a dyn Figure,
    /// The trace or difference of every column, or why there is none.
    cells: Vec<Result<Cow<'a, Trace>, Empty>>,
    /// The options of every column; columns on one scale have the same limits.
    options: Vec<Options>,
    /// The columns on one scale, and what the first of them that can be drawn leaves to the row.
    groups: Vec<(Vec<usize>, Deferred)>,
    /// The legend of all columns.
    entries: Vec<(Mark, String)>,
    title: String,
}

impl<'a> Row<'a> {
    /// `own_scales` keeps the limits of every column; `against` is the name of the reference that cells are differences from,
    /// `pinned` whether the first column is that reference itself.
    pub fn new(
        figure: &'a dyn Figure,
        cells: Vec<Result<Cow<'a, Trace>, Empty>>,
        (options, own_scales): (&Options, bool),
        theme: &Theme,
        (against, pinned): (Option<String>, bool),
    ) -> Self {
        let checked =
            |cell: Result<Cow<'a, Trace>, Empty>| cell.and_then(|trace| check(&trace).map(|()| trace));
        let cells: Vec<Result<Cow<'a, Trace>, Empty>> = cells.into_iter().map(checked).collect();
        let valid = || cells.iter().filter_map(|cell| cell.as_ref().ok());
        let grid = valid().next().map(|trace| trace.grid);
        let shares_keys =
            !own_scales && figure.properties().shares_keys && valid().all(|trace| Some(trace.grid) == grid);
        let keys = if shares_keys { Keys::Shared } else { Keys::Own };
        let scale = |cell: &Result<Cow<'a, Trace>, Empty>| {
            cell.as_ref().ok().map(|trace| (trace.minus.is_some(), figure.scale(trace)))
        };
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_ok()) {
            match groups.iter_mut().find(|group| scale(&cells[group[0]]) == scale(cell)) {
                Some(group) => group.push(at),
                None => groups.push(vec![at]),
            }
        }
        let mut column_options = vec![Options { keys, ..options.clone() }; cells.len()];
        let mut scales_differ = false;
        for group in &groups {
            let limits = SharedLimits::new(figure, group.iter().filter_map(|at| cells[*at].as_deref().ok()));
            scales_differ |= own_scales && group.len() > 1 && limits != SharedLimits::default();
            for at in group.iter().filter(|_| !own_scales) {
                column_options[*at] = column_options[*at].clone().within(limits);
            }
        }
        let mut title = match (against, pinned) {
            (None, _) => figure.title().to_owned(),
            (Some(name), false) => format!("{}: difference (Δ) from {name}", figure.title()),
            (Some(name), true) => {
                format!("{}: of {name}, and the difference (Δ) of the others from it", figure.title())
            }
        };
        if scales_differ {
            title += ", each on its own scale";
        }
        let options = column_options;
        let mut row = Self { figure, cells, options, groups: Vec::new(), entries: Vec::new(), title };
        let all_deferred: Vec<Option<Deferred>> = (0..row.cells.len())
            .map(|at| row.cell(at, theme, NOMINAL_WIDTH_PT).ok().map(|scene| scene.deferred))
            .collect();
        for entry in all_deferred.iter().flatten().flat_map(|deferred| &deferred.entries) {
            if !row.entries.iter().any(|(_, known)| *known == entry.1) {
                row.entries.push(entry.clone());
            }
        }
        let with_first = |group: Vec<usize>| {
            let deferred = group.iter().find_map(|at| all_deferred[*at].clone()).unwrap_or_default();
            (group, deferred)
        };
        row.groups = groups.into_iter().map(with_first).collect();
        row
    }

    /// Why every column has nothing to show, or `None` for one that has something.
    pub fn lacks(&self) -> impl Iterator<Item = Option<Empty>> {
        self.cells.iter().map(|cell| match cell {
            Ok(trace) => self.figure.lacks(trace),
            Err(why) => Some(why.clone()),
        })
    }

    fn shares_keys(&self) -> bool {
        self.options.first().is_some_and(|options| options.keys.are_shared())
    }

    /// Who draws the legends of cells of this width: their charts begin at one height, whatever the legend of each says.
    fn keys(&self, width: f32) -> Keys {
        let shown = self.cells.iter().filter_map(|cell| cell.as_deref().ok());
        if self.shares_keys() { Keys::Shared } else { Keys::Beside(legend_lines(self.figure, shown, width)) }
    }

    /// Smallest width at which a cell can be read.
    pub fn least_width(&self) -> f32 {
        let own = if self.figure.properties().shares_keys && !self.shares_keys() { 130.0 } else { 0.0 };
        self.figure.properties().least_width.max(own)
    }

    /// Width of the vertical axes of a group.
    pub fn axis_room(&self, group: usize) -> f32 {
        let axes = self.groups.get(group).map_or(&[][..], |(_, deferred)| &deferred.axes);
        axes.iter().map(|(_, axis)| keys::axis_room(axis)).fold(0.0, f32::max)
    }

    /// Width of all colour bars side by side.
    pub fn bar_room(&self) -> f32 {
        let bars = self.groups.iter().filter_map(|(_, deferred)| deferred.bar.as_ref());
        bars.map(|(_, axis, _)| keys::bar_room(axis)).sum()
    }

    /// Draws the cell of column `at`, at the height its figure asks for.
    fn cell(&self, at: usize, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let trace = self.cells[at].as_ref().map_err(Clone::clone)?;
        let options = &Options { keys: self.keys(width), ..self.options[at].clone() };
        let size = Size { width, height: self.figure.height(trace, options, width) };
        marked(self.figure, trace, options, theme, size)
    }

    /// Draws `columns` from `y` down, and returns the height they take.
    pub fn draw(&self, scene: &mut Scene, theme: &Theme, grid: &Grid, columns: Range<usize>, y: f32) -> f32 {
        let cells: Vec<Result<Scene, Empty>> =
            columns.clone().map(|at| self.cell(at, theme, grid.cell)).collect();
        let deferred: Vec<Option<&Deferred>> =
            cells.iter().map(|cell| cell.as_ref().ok().map(|scene| &scene.deferred)).collect();
        let texts = |of: fn(&Deferred) -> &String| -> Vec<String> {
            deferred.iter().map(|deferred| deferred.map(of).cloned().unwrap_or_default()).collect()
        };
        let (mut captions, feet) = (texts(|deferred| &deferred.caption), texts(|deferred| &deferred.foot));
        let mut title = self.title.clone();
        // A caption that all columns with a picture share is written once, in the title.
        let mut known = deferred.iter().flatten().map(|deferred| &deferred.caption);
        if let Some(first) = known.next().filter(|caption| !caption.is_empty())
            && captions.len() > 1
            && known.all(|other| other == first)
        {
            title = format!("{title}. {first}");
            captions.iter_mut().for_each(String::clear);
        }
        // One legend, above the first of several bands of probes.
        let entries = if columns.start == 0 { &self.entries[..] } else { &[] };
        let mut top = y + draw_heading(scene, theme, &title, entries, y);
        top += draw_texts(scene, grid, (pt::LABEL, theme.ink), captions.into_iter(), top);
        let height_of = |cell: &Result<Scene, Empty>| match cell {
            Ok(scene) => scene.height,
            Err(why) => message_height(grid.cell, &why.0),
        };
        let height = cells.iter().map(height_of).fold(MIN_HEIGHT_PT, f32::max);
        let mut bottom = top + height;
        let band = Band { grid, columns: columns.clone(), deferred: &deferred, top };
        self.axes(scene, theme, &band);
        self.bars(scene, theme, &band);
        let across =
            deferred.iter().flatten().map(|deferred| deferred.across.clone()).find(|name| !name.is_empty());
        for (at, cell) in cells.into_iter().enumerate() {
            let drawn = cell.unwrap_or_else(|why| message(theme, grid.cell, height, &why.0));
            let clip = Box2::new(-4.0, -4.0, grid.cell + 8.0, height + 8.0);
            scene.place(drawn, [grid.x(at), top], Some(clip));
        }
        if let Some(name) = across {
            let (left, right) = (grid.x(0), grid.x(columns.len() - 1) + grid.cell);
            let at = [f32::midpoint(left, right), bottom + pt::LABEL * font::CAP + 2.0];
            scene.text(at, name, pt::LABEL, theme.ink, Anchor::Middle);
            bottom += pt::LABEL + 3.0;
        }
        bottom += draw_texts(scene, grid, (pt::TICK, theme.muted), feet.into_iter(), bottom + 2.0);
        bottom - y
    }

    /// The group a column belongs to.
    fn group(&self, column: usize) -> Option<usize> {
        self.groups.iter().position(|(columns, _)| columns.contains(&column))
    }

    /// Draws the vertical axes of every group once, in the room left for them.
    fn axes(&self, scene: &mut Scene, theme: &Theme, Band { grid, columns, deferred, top }: &Band<'_>) {
        let mut drawn = Vec::new();
        for (at, deferred) in deferred.iter().enumerate() {
            let (Some(group), Some(deferred)) = (self.group(columns.start + at), deferred) else { continue };
            if drawn.contains(&group) {
                continue;
            }
            drawn.push(group);
            // The grid leaves room before the first column, and for the axis of differences before the second.
            let place = usize::from(group > 0 && columns.start == 0);
            for (area, axis) in &deferred.axes {
                let along = Box2 { x: grid.x(place), y: area.y + top, ..*area };
                keys::axis(scene, theme, along, axis);
            }
        }
    }

    /// Draws the colour bar of every group right of the last column of the band.
    fn bars(&self, scene: &mut Scene, theme: &Theme, Band { grid, columns, deferred, top }: &Band<'_>) {
        let right = grid.x(columns.len() - 1) + grid.cell;
        let mut x = right;
        for (group, _) in &self.groups {
            let places = group.iter().filter(|at| columns.contains(at)).map(|at| at - columns.start);
            let bars = places.filter_map(|at| deferred[at]?.bar.as_ref());
            let Some((area, axis, colors)) = bars.max_by(|a, b| a.0.h.total_cmp(&b.0.h)) else { continue };
            let along = Box2::new(x, area.y + top, 0.0, area.h);
            keys::bar(scene, theme, along, axis, colors);
            x += keys::bar_room(axis);
        }
    }
}

/// The columns of a row that stand side by side.
struct Band<'a> {
    grid: &'a Grid,
    /// Their indices in the row.
    columns: Range<usize>,
    /// What each cell leaves to the row; `None` for one that shows a message.
    deferred: &'a [Option<&'a Deferred>],
    /// The upper edge of the cells.
    top: f32,
}

/// Draws the title of the row, and below it the legend; returns the height they take.
fn draw_heading(scene: &mut Scene, theme: &Theme, title: &str, entries: &[(Mark, String)], y: f32) -> f32 {
    let mut top = y;
    for text in font::break_lines(title, pt::LABEL, scene.width) {
        let at = [0.0, top + pt::LABEL * font::CAP + 0.5];
        scene.text(at, text, pt::LABEL, theme.muted, Anchor::Start);
        top += frame::TITLE_HEIGHT;
    }
    let room = scene.width;
    top += legend::legend(scene, theme, [0.0, top], room, entries);
    top - y + 1.0
}

/// Writes the text of every cell from `y` down, in as many lines as it needs; returns the height of the longest.
fn draw_texts(
    scene: &mut Scene,
    grid: &Grid,
    (size, color): (f32, Color),
    texts: impl Iterator<Item = String>,
    y: f32,
) -> f32 {
    let mut most_lines = 0;
    for (column, text) in texts.enumerate() {
        // A line may reach into the gap, but not up to the next column.
        let broken = font::break_lines(&text, size, grid.cell + 0.4 * GAP_PT);
        most_lines = most_lines.max(broken.len());
        for (at, line) in broken.into_iter().enumerate() {
            let base = y + at as f32 * (size + 1.5) + size * font::CAP + 0.5;
            scene.text([grid.x(column), base], line, size, color, Anchor::Start);
        }
    }
    if most_lines == 0 { 0.0 } else { most_lines as f32 * (size + 1.5) + 1.5 }
}

/// The lines of a message in a cell.
fn message_lines(width: f32, text: &str) -> Vec<String> {
    font::break_lines(text, pt::TICK, width - 4.0)
}

/// Height of a message in a cell, in points.
fn message_height(width: f32, text: &str) -> f32 {
    message_lines(width, text).len() as f32 * pt::TICK * 1.25 + 4.0
}

/// A cell with a message in place of its figure.
fn message(theme: &Theme, width: f32, height: f32, text: &str) -> Scene {
    let mut scene = Scene::new(width, height, "", theme.background);
    let step = pt::TICK * 1.25;
    let top = (height - message_height(width, text)) / 2.0 + 2.0;
    for (i, line) in message_lines(width, text).into_iter().enumerate() {
        let at = [width / 2.0, top + (i as f32 + 0.5) * step];
        scene.text_mid(at, line, pt::TICK, theme.muted, Anchor::Middle);
    }
    scene
}
