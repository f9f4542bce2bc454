//! Operations of heads at the paper's sizes by several counting conventions, and which of them the paper's own figures
//! follow ("Probe complexity and FLOPs").

use super::choice::without_choice;
use super::cost::{joined_note, paper_sizes};
use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::probe::head;
use crate::model::probe::head::cost::{self, Counts};
use crate::model::train::run::Variant;

/// Largest difference between a figure with two decimals and the value it rounds, with room for floating-point error.
const MAX_ROUNDING_ERROR: f64 = 0.0051;

const CONVENTIONS: [&str; 4] = ["multiply-adds", "2 x multiply-adds", "hooks", "2 x hooks"];

/// One table per run with a trained head.
pub fn tables(source: &Source) -> Vec<Table> {
    let variants = tiers::sorted(source.reported().into_iter());
    let rows: Vec<Row> = variants.iter().copied().filter_map(row).collect();
    let paper = "The paper's figure (M)";
    let mut columns = vec![Column::words("Method")];
    columns.extend(Column::group("Counted (M)", CONVENTIONS));
    columns.extend(Column::group("Counted (M)", ["as computed here"]));
    columns.extend([Column::numbers("printed").within(paper), Column::words("which is").within(paper)]);
    let notes = vec![
        "One image at the paper's sizes (d 768, N 196, C 1000), classifier included, with each head written in PyTorch \
         layers: matrix products and convolutions. Hooks: the count of `thop` 0.1.1, which sees layers only, no formulas, \
         and counts 4 operations per number for a norm. As computed here: every operation of this program's shorter \
         computation (table `cost`)"
            .to_owned(),
        "Sinkhorn's 103.99 is none of these: it is 2 x multiply-adds with one B, C and D per channel, minus one sum over \
         tokens (0.30), plus 6 operations per entry and iteration (4.61)"
            .to_owned(),
    ];
    let notes = notes.into_iter().chain(joined_note(&variants)).collect();
    let table = Table { notes, ..source.table("conventions", "Operations by convention", columns, rows) };
    vec![table.without_empty_columns()]
}

fn row(variant: &Variant) -> Option<Row> {
    let spec = head::find(&variant.head)?;
    let head = spec.build(&variant.config).ok()?;
    let sizes = paper_sizes(&*head);
    let Counts { multiply_adds, hooks } = cost::counts(&*head, &sizes);
    let counted = [multiply_adds, 2 * multiply_adds, hooks, 2 * hooks, cost::flops(&*head, &sizes)];
    let counted = counted.map(|operations| operations as f64 / 1e6);
    let printed = spec.paper_cost.map(|paper| paper.flops);
    let matching = |printed: f64| -> String {
        let equal = |(_, count): &(&str, f64)| (count - printed).abs() < MAX_ROUNDING_ERROR;
        let found: Vec<&str> =
            CONVENTIONS.into_iter().zip(counted).filter(equal).map(|(name, _)| name).collect();
        if found.is_empty() { "none of them".to_owned() } else { found.join(", ") }
    };
    let mut cells = vec![Cell::text(title(&without_choice(variant)))];
    cells.extend(counted.map(|count| Cell::number(count, 2)));
    cells.push(Cell::maybe(printed, 2));
    cells.push(printed.map_or(Cell::None, |printed| Cell::text(matching(printed))));
    Some(Row { ruled: false, cells })
}
