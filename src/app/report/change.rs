//! The columns of tables whose rows are one head in changed readings, without retraining: accuracy, and its change from the
//! reading as trained with the 95 % interval of other trainings and other images.

use super::paired::Difference;
use super::table::{Cell, Column, Table};
use crate::model::explain::evaluation::digits;

/// Heading of the interval, which evaluations by earlier versions have no data for.
const INTERVAL: &str = "95 % interval of the change";

/// One seed's probe in a changed reading; pairs are of that and of the reading as trained, on the same images.
pub(super) struct ChangedReading<'a> {
    /// Top-1 accuracies in percent.
    pub accuracy: [f64; 2],
    /// The images that are right, as [`digits`]; empty if that is not known.
    pub right: [&'a str; 2],
    /// Mean change of the own class's logit.
    pub logit_change: f64,
}

/// The columns of [`cells`].
pub(super) fn columns() -> [Column; 5] {
    let [low, high] = Column::group(INTERVAL, ["low", "high"]);
    let numbers = ["Top-1 (%)", "Change (points)", "Change of the own class's logit"].map(Column::numbers);
    let [accuracy, change, logit_change] = numbers;
    [accuracy, change, low, high, logit_change]
}

/// A reading's cells, over seeds.
pub(super) fn cells(seeds: &[ChangedReading<'_>]) -> [Cell; 5] {
    let values = |value: fn(&ChangedReading<'_>) -> f64| seeds.iter().map(value).collect::<Vec<f64>>();
    let ends = interval(seeds);
    let end = |end: Option<f64>| end.map_or(Cell::None, |end| Cell::signed(end, 2));
    [
        Cell::over(&values(|seed| seed.accuracy[0]), 2),
        Cell::signed_over(&values(|seed| seed.accuracy[0] - seed.accuracy[1]), 2),
        end(ends.map(|(low, _)| low)),
        end(ends.map(|(_, high)| high)),
        Cell::signed_over(&values(|seed| seed.logit_change), 3),
    ]
}

/// The table with a note on the interval, or without its columns where no evaluation has data for it.
pub(super) fn finished(table: Table) -> Table {
    let table = table.without_empty_columns();
    match table.columns.iter().any(|column| column.group == INTERVAL) {
        true => table.with_note(
            "Interval: of other trainings and other images, as for paired differences; with one seed, of other images only",
        ),
        false => table,
    }
}

/// The 95 % interval of a change in accuracy, in points; `None` unless it is known for every seed which images are right.
fn interval(seeds: &[ChangedReading<'_>]) -> Option<(f64, f64)> {
    let images = seeds.first()?.right[0].len();
    let is_known =
        images > 0 && seeds.iter().all(|seed| seed.right.iter().all(|right| right.len() == images));
    let change = |seed: &ChangedReading<'_>| -> Vec<f64> {
        let [own, as_trained] = seed.right.map(digits::read);
        own.iter().zip(as_trained).map(|(own, as_trained)| 100.0 * (own - as_trained)).collect()
    };
    is_known.then(|| Difference::new(&seeds.iter().map(change).collect::<Vec<_>>()).interval())
}
