//! From a place in a scene back to what lies there: a token, a position, a cell of a plan.

use std::sync::Arc;

use super::scene::{Item, Point, Shape};
use crate::model::grid::Grid;

/// What a shape stands for, so that hovering finds the token again.
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
}

/// What the pointer is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hover {
    /// The token.
    pub token: Option<usize>,
    /// The position of the sequence.
    pub position: Option<usize>,
}

/// What lies under `p`: the topmost mark that stands for something.
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
            let far = (p[0] - center[0]).hypot(p[1] - center[1]);
            (far <= *radius).then(|| identity.at([0.0; 2]))
        }
        _ => None,
    })
}

impl Identity {
    /// What lies at the part `u` across and `v` down the mark.
    fn at(&self, [u, v]: Point) -> Hover {
        let cell = |t: f32, n: usize| ((t * n as f32) as usize).min(n.saturating_sub(1));
        match self {
            Self::Token(i) => Hover { token: Some(*i), position: None },
            Self::Position(k) => Hover { token: None, position: Some(*k) },
            Self::Grid(g) => {
                Hover { token: Some(cell(v, g.rows) * g.cols + cell(u, g.cols)), position: None }
            }
            Self::Plan { rows, positions } => {
                Hover { token: rows.get(cell(v, rows.len())).copied(), position: Some(cell(u, *positions)) }
            }
        }
    }
}
