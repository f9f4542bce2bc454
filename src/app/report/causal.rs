//! Whether the tokens that rank first determine the class: mean heights of deletion and insertion curves over the test images,
//! from `ssmprobe eval --run --causal` (docs/definitions.md, section 12).

use std::ops::RangeInclusive;

use super::choice::{called, choice_note, other_images_note, with_fewer_seeds};
use super::table::{Cell, Column, Row, Table, push_group};
use super::{Source, tiers, title};
use crate::model::explain::evaluation::removals::RemovalHeights;
use crate::model::explain::removal::{Mode, RANDOM, RANKINGS};
use crate::model::probe::router::sinkhorn;
use crate::model::stats::CrossedMean;
use crate::model::train::run::Variant;

/// What curves of frozen plans and weights say, and the others.
const FROZEN_NOTE: &str = "`frozen` follows from the evidence by definition and tests nothing, as plan and weights are kept; `rerouted` tests \
     the head, `patches` and `pixels` the whole model";

/// One value per test image, for every seed.
type SeedRows = Vec<(u64, Vec<f64>)>;

/// One table per run that was evaluated with `--causal`.
pub fn tables(source: &Source) -> Vec<Table> {
    let variants = tiers::sorted(source.compared().into_iter());
    let has_curves =
        |variant: &Variant| source.evaluated(&variant.name).any(|probe| !probe.metrics.removals.is_empty());
    let variants: Vec<&Variant> = variants.into_iter().filter(|variant| has_curves(variant)).collect();
    let find = |name: &str| called(&variants, name);
    let reference = source.reference.as_deref().and_then(find);
    let Some(reference) = reference.or_else(|| find(sinkhorn::SPEC.id)).or(variants.first().copied()) else {
        return Vec::new();
    };
    let mut rows: Vec<Row> = Vec::new();
    for mode in Mode::ALL {
        for variant in &variants {
            let rankings =
                RANKINGS.iter().map(|ranking| (ranking.id, ranking.name)).chain([(RANDOM, "Random")]);
            let row = |ranking| row(source, variant, reference, mode, ranking);
            push_group(&mut rows, rankings.filter_map(row));
        }
    }
    let interval = |group: &str| Column::group(group, ["mean", "95 % low", "95 % high"]);
    let mut columns = ["Removed", "Method", "Ranking"].map(Column::words).to_vec();
    columns.push(Column::numbers("Seeds"));
    columns.extend(interval("Deletion"));
    columns.extend(interval("Deletion less random"));
    columns.extend(interval(&format!("Deletion less {}", title(reference))));
    columns.extend(interval("Insertion"));
    columns.extend(interval("Insertion less random"));
    let note = "Mean height of the curve of an image's true-class probability, in percent, as tokens are removed \
                (deletion: lower is a faster fall) or inserted (insertion: higher is a faster rise), most important \
                first; means over images and seeds. Random: mean over a few orders, the same for all images, which \
                intervals take as given. Less random: minus random orders on the same images; less another \
                method: minus that method on the same images, seeds and ranking. Intervals: Student's t over seeds and \
                images, as for paired differences; with one seed, over images only; cut off at 0 and \
                100 %, those of differences at -100 and 100";
    let mut table =
        source.table("causal", "Does the evidence cause the class", columns, rows).with_note(note);
    let frozen = Cell::text(Mode::Frozen.id().to_owned());
    table.notes.extend(table.rows.iter().any(|row| row.cells[0] == frozen).then(|| FROZEN_NOTE.to_owned()));
    table.notes.extend(other_images_note(source, variants.iter().copied()));
    table.notes.extend(shared_seeds_note(source, &variants, reference));
    table.notes.extend(choice_note(source, variants.iter().copied()));
    let missed = source.reference.as_deref().filter(|name| find(name).is_none());
    table.notes.extend(missed.map(|name| {
        format!("`{name}` has no removal curves here: the others are compared with {}", title(reference))
    }));
    vec![table]
}

/// Which variants share some of their seeds alone with the reference.
fn shared_seeds_note(source: &Source, variants: &[&Variant], reference: &Variant) -> Option<String> {
    let seeds = |variant: &Variant| -> Vec<u64> {
        let probes = source.evaluated(&variant.name).filter(|probe| !probe.metrics.removals.is_empty());
        probes.map(|probe| probe.seed).collect()
    };
    let of_reference = seeds(reference);
    let fewer = with_fewer_seeds(variants.iter().map(|variant| {
        let own = seeds(variant);
        (title(variant), own.iter().filter(|seed| of_reference.contains(seed)).count(), own.len())
    }))?;
    Some(format!("Differences from {} are of the seeds that both have: {fewer}", title(reference)))
}

/// Heights of the deletion and insertion curves of a variant's probes, in percent, of the seeds with as many images as the first.
fn heights(source: &Source, variant: &Variant, mode: Mode, ranking: &str) -> [SeedRows; 2] {
    let wanted = |heights: &&RemovalHeights| heights.mode == mode && heights.ranking == ranking;
    let found = || {
        let probes = source.evaluated(&variant.name);
        probes.filter_map(|probe| Some((probe.seed, probe.metrics.removals.iter().find(wanted)?)))
    };
    let rows = |values: fn(&RemovalHeights) -> &Vec<f32>| -> SeedRows {
        let percent = |heights| values(heights).iter().map(|x| 100.0 * f64::from(*x)).collect();
        let mut rows: SeedRows = found().map(|(seed, heights)| (seed, percent(heights))).collect();
        let images = rows.first().map_or(0, |(_, row)| row.len());
        rows.retain(|(_, row)| row.len() == images);
        rows
    };
    [rows(|heights| &heights.deletion), rows(|heights| &heights.insertion)]
}

/// `own - other` for every image, of the seeds that both have with the same number of images.
fn paired_differences(own: &SeedRows, other: &SeedRows) -> SeedRows {
    let pairs = own.iter().filter_map(|(seed, own)| {
        let (_, other) = other.iter().find(|(same, other)| same == seed && other.len() == own.len())?;
        Some((*seed, own.iter().zip(other).map(|(a, b)| a - b).collect()))
    });
    pairs.collect()
}

/// Mean and 95 % interval, within `range`, over seeds and images: no interval of a single image, three empty cells without values.
fn interval_cells(rows: &SeedRows, range: RangeInclusive<f64>) -> [Cell; 3] {
    let images = rows.first().map_or(0, |(_, row)| row.len());
    let rows: Vec<Vec<f64>> = rows.iter().map(|(_, row)| row.clone()).collect();
    if images == 0 {
        return [Cell::None, Cell::None, Cell::None];
    }
    let mean = CrossedMean::new(&rows, 0.0);
    let (low, high) = mean.interval_within(range);
    let [mean, low, high] = [mean.mean, low, high].map(|value| Cell::number(value, 2));
    if images > 1 { [mean, low, high] } else { [mean, Cell::None, Cell::None] }
}

fn row(
    source: &Source,
    variant: &Variant,
    reference: &Variant,
    mode: Mode,
    (ranking, name): (&str, &str),
) -> Option<Row> {
    let [deletion, insertion] = heights(source, variant, mode, ranking);
    if deletion.is_empty() {
        return None;
    }
    // Nothing is compared with itself.
    let [random_deletion, random_insertion] =
        if ranking == RANDOM { Default::default() } else { heights(source, variant, mode, RANDOM) };
    let [others, _] = match variant.name == reference.name {
        true => Default::default(),
        false => heights(source, reference, mode, ranking),
    };
    let mut cells = vec![
        Cell::text(mode.id().to_owned()),
        Cell::text(title(variant)),
        Cell::text(name.to_owned()),
        Cell::number(deletion.len() as f64, 0),
    ];
    let height = |rows: &SeedRows| interval_cells(rows, 0.0..=100.0);
    let difference =
        |own: &SeedRows, other: &SeedRows| interval_cells(&paired_differences(own, other), -100.0..=100.0);
    cells.extend(height(&deletion));
    cells.extend(difference(&deletion, &random_deletion));
    cells.extend(difference(&deletion, &others));
    cells.extend(height(&insertion));
    cells.extend(difference(&insertion, &random_insertion));
    Some(Row { ruled: false, cells })
}
