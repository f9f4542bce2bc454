//! Layers by learning rates: of every head the cell with the highest accuracy on the selection images, with its accuracy on
//! the test images; then one table per head with all cells.

use super::Source;
use super::choice::choice_rule;
use super::table::{Cell, Column, Number, Row, Table};
use crate::model::train::run::ProbeCheckpoint;
use crate::viz::figures::rates::{RateCell, RateGrid};

/// The table of the chosen cells, then one per head; none for a run without layers or rates to compare.
pub fn tables(source: &Source) -> Vec<Table> {
    let has_choice = |grid: &&RateGrid| grid.cells.len() > 1 && grid.chosen().is_some();
    let grids: Vec<&RateGrid> = source.grids().iter().filter(has_choice).collect();
    let by_head = grids.iter().enumerate().map(|(at, grid)| head_table(source, grid, at));
    std::iter::once(chosen_table(source, &grids)).chain(by_head).collect()
}

/// Accuracies of a variant on the selection images at the best epoch, in percent, one per seed.
fn selection_accuracies(source: &Source, name: &str) -> Vec<f64> {
    let outcomes = source.outcomes_of(name);
    outcomes.filter_map(|outcome| Some(outcome.epochs.get(outcome.best_epoch?)?.select)).collect()
}

fn chosen_table(source: &Source, grids: &[&RateGrid]) -> Table {
    let row = |grid: &&RateGrid| {
        let at = grid.chosen()?;
        let name = &grid.cells[at].as_ref()?.name;
        let mut cells = vec![
            Cell::text(&grid.head),
            Cell::text(&grid.layers[at / grid.rates.len()]),
            Cell::text(&grid.rates[at % grid.rates.len()]),
        ];
        let [seeds, best, last] = source.accuracy_cells(name);
        cells.extend([seeds, Cell::over(&selection_accuracies(source, name), 2), best, last]);
        Some(Row { ruled: false, cells })
    };
    let mut columns = ["Head", "Layer", "Rate"].map(Column::words).to_vec();
    let [seeds, best, last] = Column::accuracies("Test images (%)");
    columns.extend([seeds, Column::numbers("Selection images (%)"), best, last]);
    let rows = grids.iter().filter_map(row).collect();
    let mut table = source.table("rates", "Every head at its own layer and rate", columns, rows);
    table.mark_largest([5, 6]);
    table.with_note(choice_rule(source))
}

/// All cells of one head, the chosen one marked; `at` is the index of its grid.
fn head_table(source: &Source, grid: &RateGrid, at: usize) -> Table {
    let groups = ["Selection images (%), rate", "Test images (%), rate"];
    let mut columns = vec![Column::words("Layer")];
    for group in groups {
        columns.extend(grid.rates.iter().map(|rate| Column::numbers(rate).within(group)));
    }
    let chosen = grid.chosen();
    let row = |(row, layer): (usize, &String)| {
        let cells = |values: &dyn Fn(&str) -> Vec<f64>| {
            let in_row = grid.cells[row * grid.rates.len()..][..grid.rates.len()].iter().enumerate();
            let cell = |(column, cell): (usize, &Option<RateCell>)| match cell {
                None => Cell::None,
                Some(RateCell { name, .. }) => {
                    with_mark(Cell::over(&values(name), 2), chosen == Some(row * grid.rates.len() + column))
                }
            };
            in_row.map(cell).collect::<Vec<Cell>>()
        };
        let select = cells(&|name| selection_accuracies(source, name));
        let test = cells(&|name| source.accuracies(name, ProbeCheckpoint::Best));
        let layer = Cell::text(if layer.is_empty() { &source.run.manifest.tokens.layer } else { layer });
        Row { ruled: false, cells: std::iter::once(layer).chain(select).chain(test).collect() }
    };
    let rows = grid.layers.iter().enumerate().map(row).collect();
    let what = format!("{} by layer and learning rate, top-1", grid.head);
    let mut table = source.table(format!("rates-{}", at + 1), &what, columns, rows);
    table.notes.extend(grid.verdict().map(|verdict| format!("Chosen (bold): {verdict}")));
    table
}

fn with_mark(cell: Cell, best: bool) -> Cell {
    match cell {
        Cell::Number(number) => Cell::Number(Number { best, ..number }),
        other => other,
    }
}
