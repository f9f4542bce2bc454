//! Temperature by iterations (paper, "Sinkhorn hyperparameter grid search"): from the variants of one
//! head that name both.

use super::sweep::{Point, points, tried};
use super::table::{Cell, Column, Row, Table};
use super::{Source, id};
use crate::model::probe::head;
use crate::model::train::run::ProbeCheckpoint;

/// One table a run and head with a grid.
pub fn build(sources: &[Source]) -> Vec<Table> {
    let of = |source| tried(source).into_iter().filter_map(move |head| table(source, sources, &head));
    sources.iter().flat_map(of).collect()
}

fn table(source: &Source, sources: &[Source], head: &str) -> Option<Table> {
    let cell = |point: &Point| Some((point.number("iterations")?, point.number("temperature")?));
    let points: Vec<((f64, f64), Point)> = points(source, head)
        .into_iter()
        .filter(|point| point.settings.len() == 2)
        .filter_map(|point| Some((cell(&point)?, point)))
        .collect();
    let distinct = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let iterations = distinct(points.iter().map(|(at, _)| at.0).collect());
    let temperatures = distinct(points.iter().map(|(at, _)| at.1).collect());
    if points.is_empty() {
        return None;
    }
    let mut columns = vec![Column::words("Iterations")];
    columns.extend(temperatures.iter().map(|t| Column::numbers(t.to_string()).within("Temperature")));
    let rows = iterations.iter().map(|&i| {
        let accuracies = |t: f64| {
            let point = points.iter().find(|(at, _)| *at == (i, t));
            point
                .map(|(_, point)| source.accuracies(&point.variant.name, ProbeCheckpoint::Best))
                .unwrap_or_default()
        };
        let cells = temperatures.iter().map(|&t| Cell::over(&accuracies(t), 2));
        Row { ruled: false, cells: std::iter::once(Cell::text(i.to_string())).chain(cells).collect() }
    });
    let rows: Vec<Row> = rows.collect();
    let name = head::find(head).map_or(head, |kind| kind.name);
    let title = format!("{name}, temperature by iterations, top-1 (%): {}", source.setting());
    let id = id(&format!("grid-{head}"), source, sources);
    let mut table = Table { id, title, columns, rows, notes: source.notes() };
    mark(&mut table);
    Some(table)
}

/// Marks the largest number of the whole table.
fn mark(table: &mut Table) {
    let numbers = || {
        table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| match cell {
            Cell::Number(number) => Some(number.value),
            _ => None,
        })
    };
    let most = numbers().fold(f64::NEG_INFINITY, f64::max);
    for cell in table.rows.iter_mut().flat_map(|row| &mut row.cells) {
        if let Cell::Number(number) = cell {
            number.best = number.value == most;
        }
    }
}
