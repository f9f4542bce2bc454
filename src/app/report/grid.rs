//! Accuracy by temperature and iterations (paper, "Sinkhorn hyperparameter grid search"): from the variants of one
//! head whose names set these two fields.

use std::collections::HashMap;

use super::Source;
use super::sweep::{Point, points, swept_heads};
use super::table::{Cell, Column, Row, Table};
use crate::model::probe::head;
use crate::model::train::run::ProbeCheckpoint;

/// Most cells of a table: points that share neither field have as many cells as pairs.
const MAX_CELLS: usize = 10_000;

/// One table per head with a grid.
pub fn tables(source: &Source) -> Vec<Table> {
    swept_heads(source).into_iter().filter_map(|head| table(source, head)).collect()
}

/// The table of a head; `None` if it would have more than [`MAX_CELLS`].
fn table(source: &Source, head: &str) -> Option<Table> {
    let number = |point: &Point, field: &str| Some(point.number(field)?.to_bits());
    let position = |point: &Point| Some((number(point, "iterations")?, number(point, "temperature")?));
    let points: HashMap<(u64, u64), Point> = points(source, head)
        .into_iter()
        .filter(|point| point.settings.len() == 2)
        .filter_map(|point| Some((position(&point)?, point)))
        .collect();
    let distinct = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let iterations = distinct(points.keys().map(|at| f64::from_bits(at.0)).collect());
    let temperatures = distinct(points.keys().map(|at| f64::from_bits(at.1)).collect());
    if iterations.len() * temperatures.len() > MAX_CELLS {
        return None;
    }
    let mut columns = vec![Column::words("Iterations")];
    columns.extend(temperatures.iter().map(|t| Column::numbers(t.to_string()).within("Temperature")));
    let rows = iterations.iter().map(|&i| {
        let cells = temperatures.iter().map(|&t| {
            points.get(&(i.to_bits(), t.to_bits())).map_or(Cell::None, |point| {
                Cell::over(&source.accuracies(&point.variant.name, ProbeCheckpoint::Best), 2)
            })
        });
        Row { ruled: false, cells: std::iter::once(Cell::text(i.to_string())).chain(cells).collect() }
    });
    let rows: Vec<Row> = rows.collect();
    let name = head::find(head).map_or(head, |kind| kind.name);
    let what = format!("{name}, temperature by iterations, top-1 (%)");
    let mut table = source.table(format!("grid-{head}"), &what, columns, rows);
    table.mark_overall_largest();
    Some(table)
}
