//! Whether what ranks first carries the class: mean heights of removal curves over the test images, from `ssmprobe eval --run
//! --causal` (docs/definitions.md, section 12).

use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::explain::evaluation::removals::RemovalHeights;
use crate::model::explain::removal::{Mode, RANDOM, RANKINGS};
use crate::model::probe::router::sinkhorn;
use crate::model::stats::CrossedMean;
use crate::model::train::run::Variant;

/// A row of images for every seed.
type Rows = Vec<(u64, Vec<f64>)>;

/// One table a run whose probes' tokens were removed.
pub fn tables(source: &Source) -> Vec<Table> {
    let variants = tiers::sorted(source.plain());
    let asked =
        |variant: &Variant| source.evaluated(&variant.name).any(|probe| !probe.metrics.removals.is_empty());
    let variants: Vec<&Variant> = variants.into_iter().filter(|variant| asked(variant)).collect();
    let called = |name: &str| variants.iter().copied().find(|variant| variant.name == name);
    let reference = source.reference.as_deref().and_then(called);
    let Some(reference) = reference.or_else(|| called(sinkhorn::SPEC.id)).or(variants.first().copied())
    else {
        return Vec::new();
    };
    let mut rows: Vec<Row> = Vec::new();
    for mode in Mode::ALL {
        for variant in &variants {
            let first = rows.len();
            let rankings =
                RANKINGS.iter().map(|ranking| (ranking.id, ranking.name)).chain([(RANDOM, "Random")]);
            let own = rankings.filter_map(|(id, name)| row(source, variant, reference, mode, (id, name)));
            rows.extend(own);
            if let Some(row) = rows.get_mut(first) {
                row.ruled = first > 0;
            }
        }
    }
    let interval = |group: &str| {
        ["mean", "95 % low", "95 % high"].map(|title| Column::numbers(title).within(group.to_owned()))
    };
    let mut columns = vec![
        Column::words("Removed"),
        Column::words("Method"),
        Column::words("Ranking"),
        Column::numbers("Seeds"),
    ];
    columns.extend(interval("Deletion"));
    columns.extend(interval("Deletion less random"));
    columns.extend(interval(&format!("Deletion less {}", title(reference))));
    columns.extend(interval("Insertion"));
    columns.extend(interval("Insertion less random"));
    let heading = format!("Does the evidence cause the class: {}", source.setting());
    let mut table = source.table("causal", heading, columns, rows);
    table.notes.push(
        "Mean height of the probability of an image's own class, in percent, while tokens are taken away (deletion: lower \
         is a faster fall) or put back (insertion: higher is a faster rise), the most important first; means over \
         images and seeds. Less random: the same images in random orders; less another method: the same images, \
         seeds and ranking. Intervals: Student's t over seeds and images, as of paired differences; of one seed over images alone"
            .to_owned(),
    );
    vec![table]
}

/// What the probes of a variant came to, in percent: deletion and insertion.
fn heights(source: &Source, variant: &Variant, mode: Mode, ranking: &str) -> [Rows; 2] {
    let own = |heights: &&RemovalHeights| heights.mode == mode && heights.ranking == ranking;
    let found = || {
        let probes = source.evaluated(&variant.name);
        probes.filter_map(|probe| Some((probe.seed, probe.metrics.removals.iter().find(own)?)))
    };
    let percent = |values: &Vec<f32>| values.iter().map(|x| 100.0 * f64::from(*x)).collect();
    [
        found().map(|(seed, heights)| (seed, percent(&heights.deletion))).collect(),
        found().map(|(seed, heights)| (seed, percent(&heights.insertion))).collect(),
    ]
}

/// What one is more than the other, image by image, of seeds that both have and that read as many images.
fn less(own: &Rows, other: &Rows) -> Rows {
    let pairs = own.iter().filter_map(|(seed, own)| {
        let (_, other) = other.iter().find(|(known, other)| known == seed && other.len() == own.len())?;
        Some((*seed, own.iter().zip(other).map(|(a, b)| a - b).collect()))
    });
    pairs.collect()
}

/// Mean and interval; nothing of nothing.
fn cells(rows: &Rows) -> [Cell; 3] {
    let images = rows.first().map_or(0, |(_, row)| row.len());
    let rows: Vec<Vec<f64>> =
        rows.iter().map(|(_, row)| row.clone()).filter(|row| row.len() == images).collect();
    if images == 0 {
        return [Cell::None, Cell::None, Cell::None];
    }
    let mean = CrossedMean::new(&rows, 0.0);
    let (low, high) = mean.interval();
    let [mean, low, high] = [mean.mean, low, high].map(|value| Cell::number(value, 2));
    // One reading of one image says nothing of others.
    if rows.len() * images > 1 { [mean, low, high] } else { [mean, Cell::None, Cell::None] }
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
    let [random, random_back] = heights(source, variant, mode, RANDOM);
    let (is_random, is_reference) = (ranking == RANDOM, variant.name == reference.name);
    let others = if is_reference { Vec::new() } else { heights(source, reference, mode, ranking)[0].clone() };
    let none = Vec::new();
    let mut all = vec![
        Cell::text(mode.id().to_owned()),
        Cell::text(title(variant)),
        Cell::text(name.to_owned()),
        Cell::number(deletion.len() as f64, 0),
    ];
    all.extend(cells(&deletion));
    all.extend(cells(&less(&deletion, if is_random { &none } else { &random })));
    all.extend(cells(&less(&deletion, &others)));
    all.extend(cells(&insertion));
    all.extend(cells(&less(&insertion, if is_random { &none } else { &random_back })));
    Some(Row { ruled: false, cells: all })
}
