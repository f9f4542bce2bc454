//! Hit testing: from a point in a scene to the token, position or cell there, and back.

use std::sync::Arc;

use super::scene::{Box2, Item, Point, Shape};
use crate::model::grid::Grid;

/// What a shape stands for, so that the pointer over it finds the token again.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    /// One token.
    Token(usize),
    /// One position of the sequence.
    Position(usize),
    /// An image whose cells are the tokens of this grid.
    Grid(Grid),
    /// An image of a plan: row `r` is token `rows[r]`, column `k` is position `k` of `positions`.
    Plan {
        /// The token of every row.
        rows: Arc<[usize]>,
        /// Number of columns.
        positions: usize,
    },
    /// One item of the figure's own list: an image, a class.
    Item(usize),
    /// An image whose cells are items, row by row.
    Cells {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        columns: usize,
    },
}

/// How far outside a dot the pointer still hits it, in points.
const REACH_PT: f32 = 1.5;

/// What the pointer is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hover {
    /// The token.
    pub token: Option<usize>,
    /// The position of the sequence.
    pub position: Option<usize>,
    /// The item of the figure's own list.
    pub item: Option<usize>,
}

/// What the topmost mark with an identity under `p` stands for.
pub fn under(items: &[Item], p: Point) -> Option<Hover> {
    items.iter().rev().find_map(|item| match (&item.shape, &item.identity) {
        (Shape::Group { offset, clip, items }, _) => {
            let p = [p[0] - offset[0], p[1] - offset[1]];
            if clip.is_some_and(|c| !c.contains(p)) { None } else { under(items, p) }
        }
        (Shape::Rect { rect, .. } | Shape::Image { rect, .. }, Some(identity)) if rect.contains(p) => {
            Some(identity.at([(p[0] - rect.x) / rect.w, (p[1] - rect.y) / rect.h]))
        }
        (Shape::Circle { center, radius, .. }, Some(identity)) => {
            let distance = (p[0] - center[0]).hypot(p[1] - center[1]);
            (distance <= *radius + REACH_PT).then(|| identity.at([0.0; 2]))
        }
        _ => None,
    })
}

impl Identity {
    /// What lies at the fraction `u` across and `v` down the mark.
    fn at(&self, [u, v]: Point) -> Hover {
        let cell = |t: f32, n: usize| ((t * n as f32) as usize).min(n.saturating_sub(1));
        let none = Hover::default();
        match self {
            Self::Token(i) => Hover { token: Some(*i), ..none },
            Self::Position(k) => Hover { position: Some(*k), ..none },
            Self::Grid(g) => Hover { token: Some(cell(v, g.rows) * g.cols + cell(u, g.cols)), ..none },
            Self::Plan { rows, positions } => Hover {
                token: rows.get(cell(v, rows.len())).copied(),
                position: Some(cell(u, *positions)),
                ..none
            },
            Self::Item(item) => Hover { item: Some(*item), ..none },
            Self::Cells { rows, columns } => {
                Hover { item: Some(cell(v, *rows) * columns + cell(u, *columns)), ..none }
            }
        }
    }

    /// The parts of `rect` that stand for the token, the position or the item of `hover`.
    fn places(&self, hover: Hover, rect: Box2) -> Vec<Box2> {
        let cell = |row: usize, of_rows: usize, column: usize, of_columns: usize| {
            let (w, h) = (rect.w / of_columns as f32, rect.h / of_rows as f32);
            Box2::new(rect.x + column as f32 * w, rect.y + row as f32 * h, w, h)
        };
        let whole =
            |named: Option<usize>, own: usize| if named == Some(own) { vec![rect] } else { Vec::new() };
        let part = |named: Option<usize>, rows: usize, columns: usize| {
            let inside = named.filter(|at| *at < rows * columns);
            inside.map(|at| cell(at / columns, rows, at % columns, columns)).into_iter().collect()
        };
        match self {
            Self::Token(i) => whole(hover.token, *i),
            Self::Position(k) => whole(hover.position, *k),
            Self::Item(item) => whole(hover.item, *item),
            Self::Cells { rows, columns } => part(hover.item, *rows, *columns),
            Self::Grid(grid) => part(hover.token, grid.rows, grid.cols),
            Self::Plan { rows, positions } => {
                let row = hover.token.and_then(|i| rows.iter().position(|r| *r == i));
                let column = hover.position.filter(|k| k < positions);
                let row = row.map(|r| cell(r, rows.len(), 0, 1));
                row.into_iter().chain(column.map(|k| cell(0, 1, k, *positions))).collect()
            }
        }
    }
}

/// The items whose dots have a centre, in the coordinates of the scene, that `contains` accepts: sorted, each once.
pub fn dots(items: &[Item], contains: &dyn Fn(Point) -> bool) -> Vec<usize> {
    let mut found: Vec<usize> = items
        .iter()
        .flat_map(|item| match (&item.shape, &item.identity) {
            (Shape::Group { offset, items, .. }, _) => {
                dots(items, &|p| contains([p[0] + offset[0], p[1] + offset[1]]))
            }
            (Shape::Circle { center, .. }, Some(Identity::Item(item))) if contains(*center) => vec![*item],
            _ => Vec::new(),
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// All boxes with an identity, in the coordinates of the scene, later ones above earlier ones.
pub fn targets(items: &[Item]) -> Vec<(Box2, &Identity)> {
    let mut found = Vec::new();
    for item in items {
        match (&item.shape, &item.identity) {
            (Shape::Group { offset: [x, y], items, .. }, _) => {
                let moved = |(b, identity): (Box2, _)| (Box2 { x: b.x + x, y: b.y + y, ..b }, identity);
                found.extend(targets(items).into_iter().map(moved));
            }
            (Shape::Rect { rect, .. } | Shape::Image { rect, .. }, Some(identity)) => {
                found.push((*rect, identity));
            }
            _ => {}
        }
    }
    found
}

/// The boxes of what `hover` names, each once, in the coordinates of the scene: the patch of a picture,
/// the row and the column of a plan, the strip of a plot.
pub fn places(items: &[Item], hover: Hover) -> Vec<Box2> {
    let mut found = Vec::new();
    for place in targets(items).into_iter().flat_map(|(rect, identity)| identity.places(hover, rect)) {
        if !found.contains(&place) {
            found.push(place);
        }
    }
    found
}
