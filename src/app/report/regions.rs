//! How heads read the regions that are marked in the test images, from `ssmprobe eval --run` (docs/definitions.md, section 15):
//! one table of all heads and regions, and one per head of the order in which it reads them.

use super::choice::{of_evaluated, other_masks_note};
use super::table::{Cell, Column, Row, Table, push_group};
use super::{Source, title};
use crate::model::explain::evaluation::regions::{RegionMeans, RegionSummary, position};
use crate::model::stats::mean;
use crate::model::train::run::Variant;

/// The tables of a run whose evaluation includes regions.
pub fn tables(source: &Source) -> Vec<Table> {
    let (evaluated, notes) = of_evaluated(
        source,
        |metrics| metrics.regions.as_ref().filter(|summary| !summary.regions.is_empty()),
        |summary| summary.regions.iter().map(|region| region.name.clone()).collect::<Vec<_>>(),
    );
    let mut rows = Vec::new();
    for (variant, seeds) in &evaluated {
        let means = |at| seeds.iter().map(|seed| &seed.regions[at]).collect::<Vec<&RegionMeans>>();
        let row = |at| Row { ruled: false, cells: cells(variant, &means(at)) };
        push_group(&mut rows, (0..seeds[0].regions.len()).map(row));
    }
    let mut columns = ["Method", "Region"].map(Column::words).to_vec();
    columns.extend(["Seeds", "Images", "Tokens"].map(Column::numbers));
    columns.extend(Column::group("Read at", ["mean", "95 % low", "95 % high"]));
    columns.push(Column::numbers("Weight"));
    columns.extend(Column::group("Evidence", ["all tokens", "a token"]));
    columns.extend(Column::group("AUC", ["token weights", "evidence"]));
    let note = "Means over the images in which a region has a token, and over seeds. Read at: mean expected position, \
                0 first and 1 last; interval: Student's t over seeds and images, with one seed over images only, cut off at 0 and 1. \
                Weight: 1 as in GAP. Evidence: for an image's true class. AUC over tokens, the region's against \
                all others";
    let mut table = source.table("regions", "How regions are read", columns, rows).with_note(note);
    table.notes.extend(notes);
    table.notes.extend(other_masks_note(source, evaluated.iter().map(|(variant, _)| *variant)));
    let precedences = evaluated.iter().filter_map(|(variant, seeds)| precedence(source, variant, seeds));
    std::iter::once(table).chain(precedences).collect()
}

fn cells(variant: &Variant, seeds: &[&RegionMeans]) -> Vec<Cell> {
    let first = seeds[0];
    let mean_of = |value: fn(&RegionMeans) -> Option<f64>| mean(seeds.iter().filter_map(|seed| value(seed)));
    let place = position(seeds);
    let interval = place.map(|(_, interval)| interval).filter(|(low, _)| low.is_finite());
    vec![
        Cell::text(title(variant)),
        Cell::text(first.name.clone()),
        Cell::number(seeds.len() as f64, 0),
        Cell::number(first.images as f64, 0),
        Cell::number(first.tokens, 1),
        Cell::maybe(place.map(|(mean, _)| mean), 3),
        Cell::maybe(interval.map(|(low, _)| low), 3),
        Cell::maybe(interval.map(|(_, high)| high), 3),
        Cell::maybe(mean_of(|region| region.weight), 3),
        Cell::maybe(mean_of(|region| region.evidence), 3),
        Cell::maybe(mean_of(|region| region.mean_evidence), 4),
        Cell::maybe(mean_of(|region| region.weight_auc), 3),
        Cell::maybe(mean_of(|region| region.evidence_auc), 3),
    ]
}

/// How often one head reads each region before each other one; `None` for fewer than two regions or a head without an order.
fn precedence(source: &Source, variant: &Variant, seeds: &[&RegionSummary]) -> Option<Table> {
    let regions = &seeds[0].regions;
    if regions.len() < 2 || seeds.iter().any(|seed| seed.precedence.is_empty()) {
        return None;
    }
    let mut columns = vec![Column::words("Region")];
    for group in ["Read before (%)", "Images with both"] {
        columns.extend(regions.iter().map(|region| Column::numbers(region.name.clone()).within(group)));
    }
    let row = |(at, region): (usize, &RegionMeans)| {
        // A damaged file may lack some.
        let share = |other: usize| {
            let of_seed = |seed: &&RegionSummary| *seed.precedence.get(at)?.get(other)?;
            mean(seeds.iter().filter_map(of_seed)).map(|share| 100.0 * share)
        };
        let images = |other: usize| Some(*seeds[0].pairs.get(at)?.get(other)? as f64);
        let others = |value: &dyn Fn(usize) -> Option<f64>, digits: usize| -> Vec<Cell> {
            let cell = |other| Cell::maybe(value(other).filter(|_| other != at), digits);
            (0..regions.len()).map(cell).collect()
        };
        let cells = [vec![Cell::text(region.name.clone())], others(&share, 1), others(&images, 0)];
        Row { ruled: false, cells: cells.concat() }
    };
    let rows = regions.iter().enumerate().map(row).collect();
    let note = "How often the row's region is read before the column's: share of pairs of tokens, one of each, under \
                the plan; means over the images that contain both, and over seeds. The two directions and ties sum to \
                100";
    let what = format!("Which region {} reads first", title(variant));
    Some(source.table(format!("regions-{}", variant.name), &what, columns, rows).with_note(note))
}
