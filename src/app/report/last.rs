//! Accuracy if only the last tokens of the reading order are kept, by their number, from `ssmprobe eval --keep-last`.

use super::choice::of_evaluated;
use super::table::{Cell, Column, Row, Table, push_group};
use super::{Source, title};
use crate::model::explain::evaluation::metrics::LastTokens;
use crate::model::train::run::Variant;

/// One table per run that was evaluated with `--keep-last`.
pub fn tables(source: &Source) -> Vec<Table> {
    let (evaluated, notes) = of_evaluated(
        source,
        |metrics| Some((metrics.accuracy, &metrics.last)).filter(|(_, kept)| !kept.is_empty()),
        |_| (),
    );
    let mut rows: Vec<Row> = Vec::new();
    evaluated.iter().for_each(|(variant, seeds)| push_group(&mut rows, rows_of(variant, seeds)));
    let mut columns = vec![Column::shared("Method"), Column::numbers("Tokens kept")];
    columns.extend(Column::changes());
    let note = "Everything read before the last tokens is dropped, as if the memory were still empty there; nothing \
                was retrained. Best epoch's probes; means and standard deviations over seeds. In a head with several \
                sweeps, each keeps its own last tokens";
    let mut table = source.table("last", "Only the last tokens read", columns, rows).with_note(note);
    table.notes.extend(notes);
    vec![table]
}

/// The rows of one variant, one per number of kept tokens, by each seed's accuracy of the whole reading and its results by that number.
fn rows_of(variant: &Variant, seeds: &[(f64, &Vec<LastTokens>)]) -> Vec<Row> {
    let mut counts: Vec<usize> =
        seeds.iter().flat_map(|(_, kept)| kept.iter().map(|kept| kept.tokens)).collect();
    counts.sort_unstable();
    counts.dedup();
    let row = |tokens: usize| {
        let values = |value: &dyn Fn(f64, &LastTokens) -> f64| -> Vec<f64> {
            let of_seed = |(whole, kept): &(f64, &Vec<LastTokens>)| {
                Some(value(*whole, kept.iter().find(|kept| kept.tokens == tokens)?))
            };
            seeds.iter().filter_map(of_seed).collect()
        };
        let cells = vec![
            Cell::text(title(variant)),
            Cell::number(tokens as f64, 0),
            Cell::over(&values(&|_, kept| kept.accuracy), 2),
            Cell::signed_over(&values(&|whole, kept| kept.accuracy - whole), 2),
            Cell::signed_over(&values(&|_, kept| kept.logit_change), 3),
        ];
        Row { ruled: false, cells }
    };
    counts.into_iter().map(row).collect()
}
