//! Routing mechanisms (paper, "Ablation of differentiable routing mechanisms"): the learned routers
//! against the two poolings that ignore order.

use super::table::{Cell, Column, Row, Table};
use super::{Source, title};
use crate::model::probe::router;

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
pub fn tables(source: &Source) -> Vec<Table> {
    if source.plain().filter(|variant| router::find(&variant.head).is_some()).count() < 2 {
        return Vec::new();
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut pooled = true;
    for &(head, method, invariant) in MECHANISMS {
        for variant in source.plain().filter(|variant| variant.head == head) {
            let ignores = if invariant { "yes" } else { "no" };
            let mut cells = vec![Cell::text(title(variant)), Cell::text(method), Cell::text(ignores)];
            cells.extend(source.accuracy_cells(&variant.name));
            rows.push(Row { ruled: pooled && !invariant, cells });
            pooled = invariant;
        }
    }
    let mut columns = ["Routing mechanism", "Method type", "Ignores order"].map(Column::words).to_vec();
    columns.extend(Column::accuracies());
    let title = format!("Routing mechanisms: {}", source.setting());
    let mut table = source.table("routing", title, columns, rows);
    table.mark_largest([3, 4]);
    vec![table]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_router_is_left_out() {
        for router in router::ROUTERS {
            assert!(MECHANISMS.iter().any(|(head, ..)| *head == router.id), "{}", router.id);
        }
    }
}
