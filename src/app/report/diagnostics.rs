//! What every router does to an order, in the diagnostics of its plans, beside what chance and untrained
//! scorers do through the same router; from `ssmprobe eval --run`.

use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::evaluation::metrics::Measured;
use crate::model::explain::null_model::SCORERS;
use crate::model::train::run::Variant;

/// Digits behind the point.
const DIGITS: usize = 3;

/// One table a run whose probes with a router were evaluated.
pub fn tables(source: &Source) -> Vec<Table> {
    let variants = tiers::sorted(source.run.manifest.heads.iter());
    let rows: Vec<Row> = variants.into_iter().flat_map(|variant| rows(source, variant)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let mut columns = vec![Column::shared("Router"), Column::words("Scores")];
    columns.extend(MEASURES.iter().map(|measure| Column::numbers(measure.label)));
    let title = format!("Diagnostics of routers: {}", source.setting());
    let mut table = source.table("diagnostics", title, columns, rows);
    table.notes.push(format!(
        "Trained: the probes of the best epoch, mean over the test images. Untrained: {SCORERS} scorers as training \
         begins with them, on some of the same images. Random: the 5th and 95th percentile that Gaussian scores give \
         for one image; they lie over an image as no scorer's do, so `{}` and `{}` speak beside the untrained alone",
        label("kendall_tau"),
        label("path_length"),
    ));
    vec![table]
}

fn label(name: &str) -> &'static str {
    MEASURES.iter().find(|measure| measure.name == name).map_or("", |measure| measure.label)
}

/// A router's own values, then what they stand beside.
fn rows(source: &Source, variant: &Variant) -> Vec<Row> {
    let seeds: Vec<&Vec<Measured>> = source
        .evaluated(&variant.name)
        .map(|evaluated| &evaluated.metrics.diagnostics)
        .filter(|diagnostics| !diagnostics.is_empty())
        .collect();
    if seeds.is_empty() {
        return Vec::new();
    }
    let of = |name: &str, part: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        let found = |seed: &&Vec<Measured>| seed.iter().find(|one| one.name == name).map(part);
        seeds.iter().filter_map(found).collect()
    };
    let row = |scores: &str, ruled: bool, cell: &dyn Fn(&str) -> Cell| {
        let mut cells = vec![Cell::text(title(variant)), Cell::text(scores)];
        cells.extend(MEASURES.iter().map(|measure| cell(measure.name)));
        Row { ruled, cells }
    };
    // The same for all seeds of training: these know nothing of it.
    let first =
        |name: &str, part: &dyn Fn(&Measured) -> f64| Cell::maybe(of(name, part).first().copied(), DIGITS);
    vec![
        row("Trained", true, &|name| Cell::over(&of(name, &|one| one.mean), DIGITS)),
        row("Untrained", false, &|name| first(name, &|one| one.untrained)),
        row("Random, 5 %", false, &|name| first(name, &|one| one.null.0)),
        row("Random, 95 %", false, &|name| first(name, &|one| one.null.1)),
    ]
}
