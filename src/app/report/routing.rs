//! Routing mechanisms (paper, "Ablation of differentiable routing mechanisms"): the learned routers
//! against the two poolings that ignore order.

use super::choice::choice_note;
use super::table::{Cell, Column, Row, Table};
use super::{Source, not_finished, title};
use crate::model::probe::head::mean;
use crate::model::probe::router::{self, ROUTERS};
use crate::model::train::run::Variant;

/// Head, mechanism and whether it ignores order, of two poolings and every learned router, in the paper's order.
fn mechanisms() -> Vec<(&'static str, &'static str, bool)> {
    let mut routers: Vec<_> = ROUTERS.iter().collect();
    routers.sort_by_key(|router| router.table_row);
    let poolings = [(mean::GAP.id, "Global pooling", true), (mean::CLS.id, "Token extraction", true)];
    poolings.into_iter().chain(routers.iter().map(|router| (router.id, router.mechanism, false))).collect()
}

/// Those of the variants that are learned routers.
fn routers<'a>(variants: impl Iterator<Item = &'a Variant>) -> Vec<&'a Variant> {
    variants.filter(|variant| router::find(&variant.head).is_some()).collect()
}

/// Why a run with several learned routers has no table.
pub fn why_none(source: &Source) -> Option<String> {
    let (trained, missing) = (routers(source.reported().into_iter()), routers(source.untrained()));
    let could = trained.len() + missing.len() > 1 && !missing.is_empty();
    could.then(|| format!("it needs two learned routers; {}", not_finished(missing.into_iter())))
}

/// One table per run with at least two learned routers.
pub fn tables(source: &Source) -> Vec<Table> {
    let variants = source.reported();
    if routers(variants.iter().copied()).len() < 2 {
        return Vec::new();
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut pooled = true;
    for (head, method, invariant) in mechanisms() {
        for variant in variants.iter().filter(|variant| variant.head == head) {
            let ignores = if invariant { "yes" } else { "no" };
            let mut cells = vec![Cell::text(title(variant)), Cell::text(method), Cell::text(ignores)];
            cells.extend(source.accuracy_cells(&variant.name));
            rows.push(Row { ruled: pooled && !invariant, cells });
            pooled = invariant;
        }
    }
    let mut columns = ["Routing mechanism", "Method type", "Ignores order"].map(Column::words).to_vec();
    columns.extend(Column::accuracies("Top-1 (%)"));
    let mut table = source.table("routing", "Routing mechanisms", columns, rows);
    table.notes.extend(choice_note(source, variants));
    table.mark_largest([4, 5]);
    vec![table]
}
