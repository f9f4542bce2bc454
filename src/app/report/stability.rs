//! Stability of reading orders under small changes of the image and between seeds, from `ssmprobe eval --stability`.

use super::choice::of_evaluated;
use super::table::{Cell, Column, Row, Table, push_group};
use super::{Source, title};
use crate::model::explain::evaluation::stability::{COLUMNS, StabilitySummary};
use crate::model::explain::stability::OTHER_SEEDS;
use crate::model::stats;
use crate::model::train::run::Variant;

/// One table per run that was evaluated with `--stability`.
pub fn tables(source: &Source) -> Vec<Table> {
    let (evaluated, notes) =
        of_evaluated(source, |metrics| Some(&metrics.stability).filter(|all| !all.is_empty()), |_| ());
    let mut rows: Vec<Row> = Vec::new();
    for (variant, seeds) in &evaluated {
        push_group(&mut rows, COLUMNS.into_iter().filter_map(|(_, name)| row(variant, seeds, name)));
    }
    let mut columns = vec![Column::shared("Method"), Column::words("Change"), Column::numbers("Tau")];
    columns.extend(Column::group("Of one seed", ["spread over images", "images"]));
    columns.extend(Column::group("Random orders", ["5 %", "95 %"]));
    let note = "Kendall's tau-b between token positions before and after a change, each token compared with the one \
                that shows the same place: mean over the changes of a kind and over images, then over seeds, with the \
                standard deviation over seeds; other seeds have none, as each of their taus is of two seeds. Spread: \
                standard deviation over images, mean over seeds. Random orders: of a single pair";
    let mut table = source.table("stability", "Stability of orders", columns, rows).with_note(note);
    table.notes.extend(notes);
    vec![table]
}

/// The row of the change `name` of one variant; `None` if it was not evaluated.
fn row(variant: &Variant, seeds: &[&Vec<StabilitySummary>], name: &str) -> Option<Row> {
    let seeds = seeds.iter().filter_map(|kinds| kinds.iter().find(|kind| kind.name == name));
    let seeds: Vec<&StabilitySummary> = seeds.collect();
    let first = seeds.first()?;
    let mean = |value: &dyn Fn(&StabilitySummary) -> Option<f64>| {
        seeds.iter().map(|seed| value(seed)).collect::<Option<Vec<f64>>>().and_then(stats::mean)
    };
    let taus: Vec<f64> = seeds.iter().map(|seed| seed.mean).collect();
    // A tau between two seeds is in the means of both: that they deviate by 0 where there are two seeds says nothing.
    let tau = if name == OTHER_SEEDS { Cell::maybe(stats::mean(taus), 3) } else { Cell::over(&taus, 3) };
    let cells = vec![
        Cell::text(title(variant)),
        Cell::text(name),
        tau,
        Cell::maybe(mean(&|seed| seed.spread), 3),
        Cell::maybe(mean(&|seed| Some(seed.images as f64)), 0),
        Cell::number(first.null.0, 3),
        Cell::number(first.null.1, 3),
    ];
    Some(Row { ruled: false, cells })
}
