//! Whether the order matters to each head: the share of test images on which the order test is significant, from
//! `ssmprobe eval --run` (docs/definitions.md, section 10).

use super::choice::{common, of_evaluated};
use super::table::{Cell, Column, Row, Table};
use super::{Source, title};
use crate::model::explain::evaluation::digits;
use crate::model::explain::evaluation::orders::OrderTests;
use crate::model::explain::order_test::SIGNIFICANT;
use crate::model::stats::{CrossedMean, holm, mean};
use crate::model::train::run::Variant;

/// One table per run whose evaluation has an order test.
pub fn tables(source: &Source) -> Vec<Table> {
    let (tested, notes) = of_evaluated(
        source,
        |metrics| metrics.order.as_ref().filter(|tests| !tests.significant.is_empty()),
        |tests| tests.significant.len(),
    );
    let shares: Vec<CrossedMean> = tested.iter().map(|(_, seeds)| significant_share(seeds)).collect();
    let corrected = holm(&shares.iter().map(|share| share.p_above(SIGNIFICANT)).collect::<Vec<_>>());
    let results = tested.iter().zip(&shares).zip(corrected);
    let rows = results.map(|(((variant, seeds), share), corrected)| row(variant, seeds, share, corrected));
    let percent = ["trained", "95 % low", "95 % high", "untrained", "random"];
    let mut columns = vec![Column::words("Method"), Column::numbers("Seeds")];
    columns.extend(Column::group("Images with p < 0.05 (%)", percent));
    columns.extend(Column::group("p of more than 5 %", ["raw", "Holm"]));
    columns.extend(["z", "Headroom"].map(Column::numbers));
    columns.extend(Column::group("Margin", ["content", "fixed order", "routing"]));
    let sample = common(tested.iter().flat_map(|(_, seeds)| seeds).map(|seed| seed.sample));
    let sample = sample.map_or("some of the images".to_owned(), |(images, orders)| {
        format!("{images} of the images, {orders} orders for each and for every seed")
    });
    let note = format!(
        "Each image's order is tested against all orders of the same tokens, by the margin of its true class over the class \
         that is strongest beside it for the tokens as a bag; by chance 5 % of images are significant. Interval and p: \
         Student's t over seeds and images; Holm: corrected for the heads of this table. Untrained: scorers at initialisation \
         with the same memory, which follow the image's content and need not be at 5 %; random: orders drawn for each image, \
         which are; both on {sample}. Headroom: share of the gain that the best order would have over the mean of all orders. \
         The margin is that of the tokens as a bag, plus the contribution of raster order or the scan, plus that of routing; \
         means over seeds and images"
    );
    let mut table = source.table("order", "Does the order matter", columns, rows.collect()).with_note(note);
    table.notes.extend(notes);
    vec![table]
}

/// The share of significant images, 0 to 1.
fn significant_share(seeds: &[&OrderTests]) -> CrossedMean {
    let rows: Vec<Vec<f64>> = seeds.iter().map(|seed| digits::read(&seed.significant)).collect();
    // The smallest standard error: that of two more images, one of them significant.
    CrossedMean::new(&rows, 1.0 / (rows[0].len() + 2) as f64)
}

fn row(variant: &Variant, seeds: &[&OrderTests], share: &CrossedMean, corrected: f64) -> Row {
    let percent = |value: &dyn Fn(&OrderTests) -> Option<f64>| {
        let shares: Option<Vec<f64>> = seeds.iter().map(|seed| value(seed)).collect();
        Cell::maybe(shares.and_then(mean).map(|share| 100.0 * share), 1)
    };
    let signed = |value: &dyn Fn(&OrderTests) -> f64| {
        Cell::signed_over(&seeds.iter().map(|seed| value(seed)).collect::<Vec<_>>(), 2)
    };
    let (low, high) = share.interval_within(0.0..=1.0);
    let cells = vec![
        Cell::text(title(variant)),
        Cell::number(seeds.len() as f64, 0),
        Cell::number(100.0 * share.mean, 1),
        Cell::number(100.0 * low, 1),
        Cell::number(100.0 * high, 1),
        percent(&|seed| seed.untrained),
        percent(&|seed| seed.random),
        Cell::number(share.p_above(SIGNIFICANT), 4),
        Cell::number(corrected, 4),
        signed(&|seed| seed.z),
        signed(&|seed| seed.headroom),
        signed(&|seed| seed.content),
        signed(&|seed| seed.fixed_order),
        signed(&|seed| seed.routing),
    ];
    Row { ruled: false, cells }
}
