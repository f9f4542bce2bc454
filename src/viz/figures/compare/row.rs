//! One figure of all traces: cells of one size on shared scales, and around them, once, what they say of their marks.

use std::borrow::Cow;
use std::ops::Range;

use super::{GAP_PT, Grid};
use crate::model::trace::Trace;
use crate::viz::draw::keys::{self, Handed};
use crate::viz::draw::{Anchor, Box2, Color, Keys, Mark, Scene, Theme, check::check, font, legend};
use crate::viz::{Empty, Figure, Options, Size, marked, shared};

/// A cell at which a row is drawn to learn what it hands over.
const NOMINAL_PT: f32 = 120.0;
/// Least height of a cell.
const LEAST_PT: f32 = 30.0;

/// A figure of several traces, or of their differences.
pub struct Row<'a> {
    figure: &'a dyn Figure,
    /// What every column shows, or why it shows nothing.
    cells: Vec<Result<Cow<'a, Trace>, Empty>>,
    /// The options of every column: those on one scale share their limits.
    options: Vec<Options>,
    /// Columns on one scale, and what the first of them that can be drawn hands over.
    groups: Vec<(Vec<usize>, Handed)>,
    /// The legend of all columns.
    entries: Vec<(Mark, String)>,
    title: String,
}

impl<'a> Row<'a> {
    /// Of a figure. `own_scales` leaves every column its limits; `against` is what the cells are differences from, and
    /// whether the first column is that itself.
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
        let whole = || cells.iter().filter_map(|cell| cell.as_ref().ok());
        let grid = whole().next().map(|trace| trace.grid);
        let shares = !own_scales && figure.shares_keys() && whole().all(|trace| Some(trace.grid) == grid);
        let keys = if shares { Keys::Shared } else { Keys::Own };
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
        let mut own = vec![Options { keys, ..options.clone() }; cells.len()];
        let mut differ = false;
        for group in &groups {
            let limits = shared(figure, group.iter().filter_map(|at| cells[*at].as_deref().ok()));
            differ |= own_scales && group.len() > 1 && limits.iter().any(Option::is_some);
            for at in group.iter().filter(|_| !own_scales) {
                own[*at] = own[*at].clone().within(limits);
            }
        }
        let mut title = match (against, pinned) {
            (None, _) => figure.title().to_owned(),
            (Some(name), false) => format!("{}: difference (Δ) from {name}", figure.title()),
            (Some(name), true) => {
                format!("{}: of {name}, and the difference (Δ) of the others from it", figure.title())
            }
        };
        if differ {
            title += ", each on its own scale";
        }
        let mut row = Self { figure, cells, options: own, groups: Vec::new(), entries: Vec::new(), title };
        let drawn: Vec<Option<Handed>> = (0..row.cells.len())
            .map(|at| row.cell(at, theme, NOMINAL_PT).ok().map(|scene| scene.handed))
            .collect();
        for entry in drawn.iter().flatten().flat_map(|handed| &handed.entries) {
            if !row.entries.iter().any(|(_, known)| *known == entry.1) {
                row.entries.push(entry.clone());
            }
        }
        let first = |group: Vec<usize>| {
            let handed = group.iter().find_map(|at| drawn[*at].clone()).unwrap_or_default();
            (group, handed)
        };
        row.groups = groups.into_iter().map(first).collect();
        row
    }

    /// Whether it shows nothing.
    pub fn is_empty(&self) -> bool {
        let empty = |cell: &Result<Cow<'a, Trace>, Empty>| {
            cell.as_ref().map_or(true, |trace| self.figure.lacks(trace).is_some())
        };
        self.cells.iter().all(empty)
    }

    /// Why its first column shows nothing.
    pub fn why(&self) -> Option<Empty> {
        self.cells.iter().find_map(|cell| match cell {
            Ok(trace) => self.figure.lacks(trace),
            Err(why) => Some(why.clone()),
        })
    }

    fn shares(&self) -> bool {
        self.options.first().is_some_and(|options| options.keys.are_shared())
    }

    /// Least width of a cell.
    pub fn least_width(&self) -> f32 {
        let own = if self.figure.shares_keys() && !self.shares() { 130.0 } else { 0.0 };
        self.figure.least_width().max(own)
    }

    /// Width of the upward axis of a group.
    pub fn axis_room(&self, theme: &Theme, group: usize) -> f32 {
        let axes = self.groups.get(group).map_or(&[][..], |(_, handed)| &handed.axes);
        axes.iter().map(|(_, axis)| keys::axis_room(theme, axis)).fold(0.0, f32::max)
    }

    /// Width of all colour bars.
    pub fn bar_room(&self, theme: &Theme) -> f32 {
        let bars = self.groups.iter().filter_map(|(_, handed)| handed.bar.as_ref());
        bars.map(|(_, axis, _)| keys::bar_room(theme, axis)).sum()
    }

    /// One column, as high as suits it.
    fn cell(&self, at: usize, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let trace = self.cells[at].as_ref().map_err(Clone::clone)?;
        let options = &self.options[at];
        let size = Size { width, height: self.figure.height(trace, options, width) };
        marked(self.figure, trace, options, theme, size)
    }

    /// Draws `columns` from `y` down; the height they take.
    pub fn draw(&self, scene: &mut Scene, theme: &Theme, grid: &Grid, columns: Range<usize>, y: f32) -> f32 {
        let cells: Vec<Result<Scene, Empty>> =
            columns.clone().map(|at| self.cell(at, theme, grid.cell)).collect();
        let handed: Vec<Option<&Handed>> =
            cells.iter().map(|cell| cell.as_ref().ok().map(|scene| &scene.handed)).collect();
        let said = |of: fn(&Handed) -> &String| -> Vec<String> {
            handed.iter().map(|handed| handed.map(of).cloned().unwrap_or_default()).collect()
        };
        let (mut captions, feet) = (said(|handed| &handed.caption), said(|handed| &handed.foot));
        let mut title = self.title.clone();
        // What holds for all is said once.
        let mut said = captions.iter().filter(|caption| !caption.is_empty());
        if let Some(first) = said.next()
            && captions.len() > 1
            && said.all(|other| other == first)
        {
            title = format!("{title}. {first}");
            captions.iter_mut().for_each(String::clear);
        }
        // One legend, above the first of several rows of probes.
        let entries = if columns.start == 0 { &self.entries[..] } else { &[] };
        let mut top = y + head(scene, theme, &title, entries, y);
        top += lines(scene, grid, (theme.label, theme.ink), captions.into_iter(), top);
        let height = |cell: &Result<Scene, Empty>| match cell {
            Ok(scene) => scene.height,
            Err(why) => message_height(theme, grid.cell, &why.0),
        };
        let high = cells.iter().map(height).fold(LEAST_PT, f32::max);
        let mut bottom = top + high;
        let here = Cells { grid, columns: columns.clone(), handed: &handed, top };
        self.axes(scene, theme, &here);
        self.bars(scene, theme, &here);
        let across =
            handed.iter().flatten().map(|handed| handed.across.clone()).find(|name| !name.is_empty());
        for (at, cell) in cells.into_iter().enumerate() {
            let drawn = cell.unwrap_or_else(|why| message(theme, grid.cell, high, &why.0));
            let clip = Box2::new(-4.0, -4.0, grid.cell + 8.0, high + 8.0);
            scene.place(drawn, [grid.x(at), top], Some(clip));
        }
        if let Some(name) = across {
            let (left, right) = (grid.x(0), grid.x(columns.len() - 1) + grid.cell);
            let at = [f32::midpoint(left, right), bottom + theme.label * font::CAP + 2.0];
            scene.text(at, name, theme.label, theme.ink, Anchor::Middle);
            bottom += theme.label + 3.0;
        }
        bottom += lines(scene, grid, (theme.tick, theme.muted), feet.into_iter(), bottom + 2.0);
        bottom - y
    }

    /// The group a column belongs to.
    fn group(&self, column: usize) -> Option<usize> {
        self.groups.iter().position(|(columns, _)| columns.contains(&column))
    }

    /// Draws the upward axis of every group left of its first column here.
    fn axes(&self, scene: &mut Scene, theme: &Theme, Cells { grid, columns, handed, top }: &Cells<'_>) {
        let mut known = Vec::new();
        for (at, handed) in handed.iter().enumerate() {
            let (Some(group), Some(handed)) = (self.group(columns.start + at), handed) else { continue };
            if known.contains(&group) {
                continue;
            }
            known.push(group);
            // The group's axis stands where its room is: before the first column, or before the second.
            let place = usize::from(group > 0 && columns.start == 0);
            for (area, axis) in &handed.axes {
                let along = Box2 { x: grid.x(place), y: area.y + top, ..*area };
                keys::axis(scene, theme, along, axis);
            }
        }
    }

    /// Draws the colour bar of every group right of the last column here.
    fn bars(&self, scene: &mut Scene, theme: &Theme, Cells { grid, columns, handed, top }: &Cells<'_>) {
        let right = grid.x(columns.len() - 1) + grid.cell;
        let mut x = right;
        for (group, _) in &self.groups {
            let here = group.iter().filter(|at| columns.contains(at)).map(|at| at - columns.start);
            let bars = here.filter_map(|at| handed[at]?.bar.as_ref());
            let Some((area, axis, colors)) = bars.max_by(|a, b| a.0.h.total_cmp(&b.0.h)) else { continue };
            let along = Box2::new(x, area.y + top, 0.0, area.h);
            keys::bar(scene, theme, along, axis, colors);
            x += keys::bar_room(theme, axis);
        }
    }
}

/// Cells that stand side by side.
struct Cells<'a> {
    grid: &'a Grid,
    /// Which of the row's columns.
    columns: Range<usize>,
    /// What each handed over.
    handed: &'a [Option<&'a Handed>],
    /// Their upper edge.
    top: f32,
}

/// The row's name, and below it the legend; the height they take.
fn head(scene: &mut Scene, theme: &Theme, title: &str, entries: &[(Mark, String)], y: f32) -> f32 {
    let mut top = y;
    for text in font::break_lines(title, theme.label, scene.width) {
        let at = [0.0, top + theme.label * font::CAP + 0.5];
        scene.text(at, text, theme.label, theme.muted, Anchor::Start);
        top += theme.label + 2.5;
    }
    let entries: Vec<(Mark, &str)> = entries.iter().map(|(mark, text)| (*mark, text.as_str())).collect();
    let room = scene.width;
    top += legend::legend(scene, theme, [0.0, top], room, &entries);
    top - y + 1.0
}

/// Writes a text over or under every cell, each in as many lines as it needs; the height they take.
fn lines(
    scene: &mut Scene,
    grid: &Grid,
    (size, color): (f32, Color),
    texts: impl Iterator<Item = String>,
    y: f32,
) -> f32 {
    let mut most = 0;
    for (column, text) in texts.enumerate() {
        // Into the gap, but not up to the next.
        let broken = font::break_lines(&text, size, grid.cell + 0.4 * GAP_PT);
        most = most.max(broken.len());
        for (at, line) in broken.into_iter().enumerate() {
            let base = y + at as f32 * (size + 1.5) + size * font::CAP + 0.5;
            scene.text([grid.x(column), base], line, size, color, Anchor::Start);
        }
    }
    if most == 0 { 0.0 } else { most as f32 * (size + 1.5) + 1.5 }
}

/// A message in lines.
fn message_lines(theme: &Theme, width: f32, text: &str) -> Vec<String> {
    font::break_lines(text, theme.tick, width - 4.0)
}

/// Height of a message.
fn message_height(theme: &Theme, width: f32, text: &str) -> f32 {
    message_lines(theme, width, text).len() as f32 * theme.tick * 1.25 + 4.0
}

/// A cell that says in words why there is nothing to see.
fn message(theme: &Theme, width: f32, height: f32, text: &str) -> Scene {
    let mut scene = Scene::new(width, height, "", theme.background);
    let step = theme.tick * 1.25;
    let top = (height - message_height(theme, width, text)) / 2.0 + 2.0;
    for (i, line) in message_lines(theme, width, text).into_iter().enumerate() {
        let at = [width / 2.0, top + (i as f32 + 0.5) * step];
        scene.text_mid(at, line, theme.tick, theme.muted, Anchor::Middle);
    }
    scene
}
