//! Diagnostics of every router's plans, beside those of untrained scorers and random scores through the same router; from
//! `ssmprobe eval --run`.

use super::choice::{common, of_evaluated};
use super::table::{Cell, Column, Row, Table};
use super::{Source, title};
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::evaluation::metrics::Measured;
use crate::model::explain::null_model::SCORERS;
use crate::model::train::run::Variant;

/// Labels of the rows of null bands for the mean over images: untrained scorers, random scores.
const MEAN_LABELS: [&str; 2] = ["Mean of untrained", "Mean of random"];
/// Label of the rows of null bands for a single image, which evaluations by earlier versions have.
const SINGLE_IMAGE_LABEL: &str = "Random, one image";
const DIGITS: usize = 3;

/// One table per run with evaluated probes that have a router.
pub fn tables(source: &Source) -> Vec<Table> {
    let (evaluated, seeds_and_choice) =
        of_evaluated(source, |metrics| Some(&metrics.diagnostics).filter(|all| !all.is_empty()), |_| ());
    let rows = evaluated.iter().flat_map(|(variant, seeds)| rows(variant, seeds)).collect();
    let mut columns = vec![Column::shared("Router"), Column::words("Scores")];
    columns.extend(MEASURES.iter().map(|measure| Column::numbers(measure.label)));
    let mut table = source.table("diagnostics", "Diagnostics of routers", columns, rows);
    let has_rows = |label: &str| {
        let is_labelled = |row: &Row| matches!(&row.cells[1], Cell::Text(text) if text.starts_with(label));
        table.rows.iter().any(is_labelled)
    };
    let caveat = format!(
        "these lack the spatial structure of a scorer's, so compare `{}` and `{}` with untrained only",
        label("kendall_tau"),
        label("path_length"),
    );
    let all = evaluated.iter().flat_map(|(_, seeds)| seeds).flat_map(|seed| seed.iter());
    let (images, scorers) = common(all.map(|one| one.untrained_sample))
        .map_or(("some".to_owned(), SCORERS), |(images, scorers)| (images.to_string(), scorers));
    let mut notes = vec![format!(
        "Trained: the best epoch's probes, mean over the test images. Untrained: {scorers} scorers at initialisation, on \
         {images} of the same images"
    )];
    if has_rows(MEAN_LABELS[0]) {
        notes.push(format!(
            "Mean of random: 5th and 95th percentile of the mean over images under Gaussian scores, redrawn for every image; \
             {caveat}. Mean of untrained: the same for the scorers' means, each over all of those images"
        ));
    }
    if has_rows(SINGLE_IMAGE_LABEL) {
        notes.push(format!(
            "Random, one image: 5th and 95th percentile for a single image, which is no reference for a mean: these probes \
             were evaluated by an earlier version; run `ssmprobe eval` again for those of the mean; {caveat}"
        ));
    }
    table.notes.extend(notes.into_iter().chain(seeds_and_choice));
    vec![table]
}

fn label(name: &str) -> &'static str {
    MEASURES.iter().find(|measure| measure.name == name).map_or("", |measure| measure.label)
}

/// The rows of one router: its own values, then those of untrained scorers and the null bands.
fn rows(variant: &Variant, seeds: &[&Vec<Measured>]) -> Vec<Row> {
    let values = |name: &str, value: &dyn Fn(&Measured) -> f64| -> Vec<f64> {
        let of_seed = |seed: &&Vec<Measured>| seed.iter().find(|one| one.name == name).map(value);
        seeds.iter().filter_map(of_seed).collect()
    };
    let row = |scores: &str, ruled: bool, cell: &dyn Fn(&str) -> Cell| {
        let mut cells = vec![Cell::text(title(variant)), Cell::text(scores)];
        cells.extend(MEASURES.iter().map(|measure| cell(measure.name)));
        Row { ruled, cells }
    };
    // Untrained scorers and null bands do not depend on the training: they are the same for all seeds.
    let first = |name: &str, value: &dyn Fn(&Measured) -> f64| {
        Cell::maybe(values(name, value).first().copied(), DIGITS)
    };
    let mut rows = vec![
        row("Trained", true, &|name| Cell::over(&values(name, &|one| one.mean), DIGITS)),
        row("Untrained", false, &|name| first(name, &|one| one.untrained)),
    ];
    let ends: [fn((f64, f64)) -> f64; 2] = [|band| band.0, |band| band.1];
    let mut push_band = |label: &str, band: fn(&Measured) -> Option<(f64, f64)>| {
        for (end, percent) in ends.into_iter().zip(["5 %", "95 %"]) {
            let value = |one: &Measured| band(one).map_or(f64::NAN, end);
            rows.push(row(&format!("{label}, {percent}"), false, &|name| first(name, &value)));
        }
    };
    match seeds.iter().flat_map(|seed| seed.iter()).all(|one| one.null_mean.is_some()) {
        true => {
            push_band(MEAN_LABELS[0], |one| one.untrained_mean);
            // Those of earlier builds were not cut off where the measure ends.
            push_band(MEAN_LABELS[1], |one| {
                Some(MEASURES.iter().find(|measure| measure.name == one.name)?.within(one.null_mean?))
            });
        }
        false => push_band(SINGLE_IMAGE_LABEL, |one| Some(one.null)),
    }
    rows
}
