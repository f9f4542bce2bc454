//! Accuracy by temperature and iterations (paper, "Sinkhorn hyperparameter grid search"): from the variants of one
//! head whose names set these two fields.

use super::Source;
use super::sweep::{Point, points, swept_heads};
use super::table::{Cell, Column, Row, Table};
use crate::model::probe::head;
use crate::model::train::run::ProbeCheckpoint;

/// One table per head with a grid.
pub fn tables(source: &Source) -> Vec<Table> {
    swept_heads(source).into_iter().map(|head| table(source, head)).collect()
}

fn table(source: &Source, head: &str) -> Table {
    let position = |point: &Point| Some((point.number("iterations")?, point.number("temperature")?));
    let points: Vec<((f64, f64), Point)> = points(source, head)
        .into_iter()
        .filter(|point| point.settings.len() == 2)
        .filter_map(|point| Some((position(&point)?, point)))
        .collect();
    let distinct = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let iterations = distinct(points.iter().map(|(at, _)| at.0).collect());
    let temperatures = distinct(points.iter().map(|(at, _)| at.1).collect());
    let mut columns = vec![Column::words("Iterations")];
    columns.extend(temperatures.iter().map(|t| Column::numbers(t.to_string()).within("Temperature")));
    let rows = iterations.iter().map(|&i| {
        let cells = temperatures.iter().map(|&t| {
            let point = points.iter().find(|(at, _)| *at == (i, t));
            point.map_or(Cell::None, |(_, point)| {
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
    table
}
