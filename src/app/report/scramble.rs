//! Accuracy with the reading order disturbed at evaluation (paper, Observation 3), from `ssmprobe eval --ablations`.

use super::change::{self, ChangedReading};
use super::choice::of_evaluated;
use super::table::{Cell, Column, Row, Table};
use super::{Source, title};
use crate::model::explain::ablation::Ablation;
use crate::model::explain::evaluation::metrics::Outcome;
use crate::model::train::run::Variant;

/// One table per run that was evaluated with `--ablations`.
pub fn tables(source: &Source) -> Vec<Table> {
    // Only seeds that were evaluated in other orders besides their own.
    let (evaluated, notes) =
        of_evaluated(source, |metrics| Some(&metrics.ablations).filter(|all| all.len() > 1), |_| ());
    let rows = evaluated.iter().flat_map(|(variant, seeds)| rows(variant, seeds)).collect();
    let mut columns = vec![Column::shared("Method"), Column::words("Configuration")];
    columns.extend(change::columns());
    let note = "At evaluation only: nothing was retrained, so a drop shows what the trained probe relies on. Best \
                epoch's probes; one random permutation per image";
    let table = source.table("scramble", "Order disturbed at evaluation", columns, rows).with_note(note);
    let mut table = change::finished(table);
    table.notes.extend(notes);
    vec![table]
}

/// The rows of one variant, one per ablation.
fn rows(variant: &Variant, seeds: &[&Vec<Outcome>]) -> Vec<Row> {
    let readings = |ablation: Ablation| {
        let of_seeds = seeds.iter().filter_map(|outcomes| {
            let (own, normal) = (outcomes.iter().find(|own| own.ablation == ablation)?, outcomes.first()?);
            Some(ChangedReading {
                accuracy: [own.accuracy, normal.accuracy],
                right: [&own.right, &normal.right],
                logit_change: own.logit_change,
            })
        });
        (ablation, of_seeds.collect::<Vec<_>>())
    };
    let row = |(ablation, seeds): (Ablation, Vec<ChangedReading<'_>>)| {
        let [accuracy, changes @ ..] = change::cells(&seeds);
        let is_normal = ablation == Ablation::Normal;
        let changes = changes.map(|cell| if is_normal { Cell::None } else { cell });
        let words = [Cell::text(title(variant)), Cell::text(ablation.name())];
        Row { ruled: is_normal, cells: words.into_iter().chain([accuracy]).chain(changes).collect() }
    };
    let evaluated = Ablation::ALL.into_iter().map(readings).filter(|(_, seeds)| !seeds.is_empty());
    evaluated.map(row).collect()
}
