//! Routing mechanisms (paper, "Ablation of differentiable routing mechanisms"): the learned routers
//! against the two poolings that ignore order.

use super::table::{Cell, Column, Row, Table};
use super::{Source, id, title};
use crate::model::probe::router;
use crate::model::train::run::ProbeCheckpoint;

/// Mechanisms, what they are, and whether they ignore order; in the paper's order.
const MECHANISMS: &[(&str, &str, bool)] = &[
    ("gap", "Global pooling", true),
    ("cls", "Token extraction", true),
    ("neuralsort", "Deterministic soft rank", false),
    ("softsort", "Continuous sorting", false),
    ("hard-sort", "Sorting, gradient straight through", false),
    ("gumbel-sinkhorn", "Doubly stochastic, with noise", false),
    ("sinkhorn", "Doubly stochastic optimal transport", false),
];

/// One table a run with at least two learned routers.
pub fn build(sources: &[Source]) -> Vec<Table> {
    let several = |source: &&Source| {
        source.plain().filter(|variant| router::find(&variant.head).is_some()).count() >= 2
    };
    sources.iter().filter(several).map(|source| table(source, sources)).collect()
}

fn table(source: &Source, sources: &[Source]) -> Table {
    let mut rows: Vec<Row> = Vec::new();
    let mut pooled = true;
    for &(head, method, invariant) in MECHANISMS {
        for variant in source.plain().filter(|variant| variant.head == head) {
            let cells = vec![
                Cell::text(title(variant)),
                Cell::text(method),
                Cell::text(if invariant { "yes" } else { "no" }),
                Cell::over(&source.accuracies(&variant.name, ProbeCheckpoint::Best), 2),
                Cell::over(&source.accuracies(&variant.name, ProbeCheckpoint::Last), 2),
            ];
            rows.push(Row { ruled: pooled && !invariant, cells });
            pooled = invariant;
        }
    }
    let columns = vec![
        Column::words("Routing mechanism"),
        Column::words("Method type"),
        Column::words("Ignores order"),
        Column::numbers("best").within("Top-1 (%)"),
        Column::numbers("last").within("Top-1 (%)"),
    ];
    let title = format!("Routing mechanisms: {}", source.setting());
    let mut table = Table { id: id("routing", source, sources), title, columns, rows, notes: source.notes() };
    table.mark_largest([3, 4]);
    table
}
