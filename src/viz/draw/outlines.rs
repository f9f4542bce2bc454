//! Outlines of regions over a picture: a line on a wider one in the background colour, visible on any photograph, and a
//! name or a number on a tile of the background colour.

use super::scene::{Anchor, Box2, Scene, Stroke};
use super::theme::Theme;
use super::{font, picture, pt};
use crate::model::grid::Grid;
use crate::model::trace::{Regions, Trace, members};
use crate::viz::{Control, Options};

/// Most regions that are labelled by name; if there are more, by number.
const MAX_NAMED: usize = 3;
/// Places that are tried for a label, one below the other: further down it would lie on another patch.
const MAX_TRIES: usize = 2;

/// The label of a region: its name, or its number in the list, from 1, where there are many regions.
pub fn label(regions: &Regions, at: usize) -> String {
    if regions.list.len() <= MAX_NAMED { regions.list[at].name.clone() } else { (at + 1).to_string() }
}

/// The settings of colours over a picture with the lines of [`over`]; `signed` colours have a map of their own.
pub fn controls(trace: &Trace, signed: bool) -> &'static [Control] {
    match (signed, trace.regions.is_some()) {
        (true, false) => &[Control::Opacity, Control::Grid],
        (true, true) => &[Control::Opacity, Control::Grid, Control::Regions],
        (false, false) => &[Control::Opacity, Control::Grid, Control::Map],
        (false, true) => &[Control::Opacity, Control::Grid, Control::Map, Control::Regions],
    }
}

/// Draws the patch grid and the regions of a trace over its picture in `rect`, as far as the options say so.
pub fn over(scene: &mut Scene, theme: &Theme, trace: &Trace, options: &Options, rect: Box2) {
    if options.grid {
        picture::lines(scene, theme, trace.grid, rect);
    }
    if let Some(regions) = trace.regions.as_ref().filter(|_| options.regions) {
        draw(scene, theme, regions, trace.grid, rect);
    }
}

/// Draws all regions over the picture in `rect`.
pub fn draw(scene: &mut Scene, theme: &Theme, regions: &Regions, grid: Grid, rect: Box2) {
    let (w, h) = (rect.w / grid.cols.max(1) as f32, rect.h / grid.rows.max(1) as f32);
    let all: Vec<Vec<bool>> = regions.list.iter().map(|region| members(&region.cover)).collect();
    for (width, color) in [(2.2, theme.ground.alpha(0.85)), (0.9, theme.ink)] {
        let stroke = Stroke::new(width, color);
        for edge in all.iter().flat_map(|inside| edges(inside, grid)) {
            scene.line(edge.map(|[c, r]| [rect.x + c as f32 * w, rect.y + r as f32 * h]).to_vec(), stroke);
        }
    }
    let size = pt::TICK * 0.9;
    let height = size + 1.5;
    let mut taken: Vec<Box2> = Vec::new();
    for (at, inside) in all.iter().enumerate() {
        let Some(first) = inside.iter().position(|inside| *inside) else { continue };
        let text = font::fit(&label(regions, at), size, rect.w - 4.0);
        let width = font::width(&text, size) + 2.5;
        let x =
            (rect.x + (first % grid.cols) as f32 * w + 1.0).min(rect.right() - width - 0.5).max(rect.x + 0.5);
        let y = rect.y + (first / grid.cols) as f32 * h + 1.0;
        let overlaps =
            |a: Box2, b: &Box2| a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
        let mut places =
            (0..MAX_TRIES).map(|step| Box2::new(x, y + step as f32 * (height + 0.5), width, height));
        let free =
            places.find(|place| place.bottom() < rect.bottom() && !taken.iter().any(|b| overlaps(*place, b)));
        // Without a free place it gets no label; the list beside the picture names every region.
        let Some(tile) = free.filter(|_| !text.is_empty()) else { continue };
        scene.fill(tile, theme.ground.alpha(0.85));
        scene.text_mid(tile.center(), text, size, theme.ink, Anchor::Middle);
        taken.push(tile);
    }
}

/// The edges between patches inside and outside, each as two corners `[column, row]` of the grid.
fn edges(inside: &[bool], grid: Grid) -> Vec<[[usize; 2]; 2]> {
    let is_inside = |row: Option<usize>, column: Option<usize>| match (row, column) {
        (Some(row), Some(column)) if row < grid.rows && column < grid.cols => {
            inside[row * grid.cols + column]
        }
        _ => false,
    };
    let mut found = Vec::new();
    for row in 0..=grid.rows {
        for column in 0..=grid.cols {
            let here = is_inside(Some(row), Some(column));
            if here != is_inside(row.checked_sub(1), Some(column)) {
                found.push([[column, row], [column + 1, row]]);
            }
            if here != is_inside(Some(row), column.checked_sub(1)) {
                found.push([[column, row], [column, row + 1]]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_run_around_a_region_and_its_hole() {
        let grid = Grid::new(3, 3);
        let ring: Vec<bool> = (0..9).map(|i| i != 4).collect();
        assert_eq!(edges(&ring, grid).len(), 12 + 4);
        let corner: Vec<bool> = (0..9).map(|i| i == 8).collect();
        let mut found = edges(&corner, grid);
        found.sort_unstable();
        assert_eq!(found, [[[2, 2], [2, 3]], [[2, 2], [3, 2]], [[2, 3], [3, 3]], [[3, 2], [3, 3]]]);
        assert!(edges(&[false; 9], grid).is_empty());
    }
}
