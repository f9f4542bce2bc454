//! Accuracy if only the last tokens of the reading order are kept, by their number, from `ssmprobe eval --keep-last`.

use super::change::{self, ChangedReading};
use super::choice::of_evaluated;
use super::table::{Cell, Column, Row, Table, push_group};
use super::{Source, title};
use crate::model::explain::evaluation::metrics::Metrics;
use crate::model::train::run::Variant;

/// One table per run that was evaluated with `--keep-last`.
pub fn tables(source: &Source) -> Vec<Table> {
    let (evaluated, notes) =
        of_evaluated(source, |metrics| Some(metrics).filter(|metrics| !metrics.last.is_empty()), |_| ());
    let mut rows: Vec<Row> = Vec::new();
    evaluated.iter().for_each(|(variant, seeds)| push_group(&mut rows, rows_of(variant, seeds)));
    let mut columns = vec![Column::shared("Method"), Column::numbers("Tokens kept")];
    columns.extend(change::columns());
    let note = "Everything read before the last tokens is dropped, as if the memory were still empty there; nothing \
                was retrained. Best epoch's probes; means and standard deviations over seeds. In a head with several \
                sweeps, each keeps its own last tokens";
    let table = source.table("last", "Only the last tokens read", columns, rows).with_note(note);
    let mut table = change::finished(table);
    table.notes.extend(notes);
    vec![table]
}

/// The rows of one variant, one per number of kept tokens.
fn rows_of(variant: &Variant, seeds: &[&Metrics]) -> Vec<Row> {
    let mut counts: Vec<usize> =
        seeds.iter().flat_map(|metrics| metrics.last.iter().map(|kept| kept.tokens)).collect();
    counts.sort_unstable();
    counts.dedup();
    let row = |tokens: usize| {
        let of_seeds = seeds.iter().filter_map(|metrics| {
            let kept = metrics.last.iter().find(|kept| kept.tokens == tokens)?;
            Some(ChangedReading {
                accuracy: [kept.accuracy, metrics.accuracy],
                right: [&kept.right, &metrics.right],
                logit_change: kept.logit_change,
            })
        });
        let words = [Cell::text(title(variant)), Cell::number(tokens as f64, 0)];
        let cells = words.into_iter().chain(change::cells(&of_seeds.collect::<Vec<_>>()));
        Row { ruled: false, cells: cells.collect() }
    };
    counts.into_iter().map(row).collect()
}
