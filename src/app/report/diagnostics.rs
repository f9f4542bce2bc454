//! What every router does to an order, in the diagnostics of its plans, beside what chance and untrained
//! scorers do through the same router; from `ssmprobe eval --run`.

use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::evaluation::metrics::Measured;
use crate::model::explain::null_model::SCORERS;
use crate::model::train::run::Variant;

/// Rows of what the mean over images stands beside.
const OF_MEANS: [&str; 2] = ["Mean of untrained", "Mean of random"];
/// Rows of evaluations by earlier programs.
const OF_ONE: &str = "Random, one image";
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
    let has = |start: &str| {
        let is = |row: &Row| matches!(&row.cells[1], Cell::Text(text) if text.starts_with(start));
        table.rows.iter().any(is)
    };
    let alone = format!(
        "they lie over an image as no scorer's do, so `{}` and `{}` speak beside the untrained alone",
        label("kendall_tau"),
        label("path_length"),
    );
    let mut notes = vec![format!(
        "Trained: the probes of the best epoch, mean over the test images. Untrained: {SCORERS} scorers as training \
         begins with them, on some of the same images"
    )];
    if has(OF_MEANS[0]) {
        notes.push(format!(
            "Mean of random: the 5th and 95th percentile that Gaussian scores, other ones for every image, give for the mean over \
             the images; {alone}. Mean of untrained: the same of the scorers' means, each over all of those images"
        ));
    }
    if has(OF_ONE) {
        notes.push(format!(
            "Random, one image: the 5th and 95th percentile for a single image, which is no measure of a mean: these probes were \
             evaluated by an earlier program; `ssmprobe eval` again gives those of the mean; {alone}"
        ));
    }
    table.notes.extend(notes);
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
    let mut rows = vec![
        row("Trained", true, &|name| Cell::over(&of(name, &|one| one.mean), DIGITS)),
        row("Untrained", false, &|name| first(name, &|one| one.untrained)),
    ];
    let ends: [fn((f64, f64)) -> f64; 2] = [|band| band.0, |band| band.1];
    let mut beside = |words: &str, band: fn(&Measured) -> Option<(f64, f64)>| {
        for (end, percent) in ends.into_iter().zip(["5 %", "95 %"]) {
            let value = |one: &Measured| band(one).map_or(f64::NAN, end);
            rows.push(row(&format!("{words}, {percent}"), false, &|name| first(name, &value)));
        }
    };
    match seeds.iter().flat_map(|seed| seed.iter()).all(|one| one.null_mean.is_some()) {
        true => {
            beside(OF_MEANS[0], |one| one.untrained_mean);
            beside(OF_MEANS[1], |one| one.null_mean);
        }
        false => beside(OF_ONE, |one| Some(one.null)),
    }
    rows
}
