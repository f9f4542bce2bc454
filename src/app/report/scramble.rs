//! Accuracy with the reading order disturbed at evaluation (paper, Observation 3), from `ssmprobe eval --ablations`.

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
    columns.extend(Column::changes());
    let note = "At evaluation only: nothing was retrained, so a drop shows what the trained probe relies on. Best \
                epoch's probes; one random permutation per image";
    let mut table = source.table("scramble", "Order disturbed at evaluation", columns, rows).with_note(note);
    table.notes.extend(notes);
    vec![table]
}

/// The rows of one variant, one per ablation.
fn rows(variant: &Variant, seeds: &[&Vec<Outcome>]) -> Vec<Row> {
    let values = |ablation: Ablation, value: &dyn Fn(&Outcome, &Outcome) -> f64| {
        let pairs = seeds.iter().filter_map(|outcomes| {
            Some((outcomes.iter().find(|o| o.ablation == ablation)?, outcomes.first()?))
        });
        pairs.map(|(outcome, normal)| value(outcome, normal)).collect::<Vec<f64>>()
    };
    let evaluated: Vec<Ablation> =
        Ablation::ALL.into_iter().filter(|&a| !values(a, &|_, _| 0.0).is_empty()).collect();
    let row = |(index, &ablation): (usize, &Ablation)| {
        let is_normal = index == 0;
        let change = |value: &dyn Fn(&Outcome, &Outcome) -> f64, digits| match is_normal {
            true => Cell::None,
            false => Cell::signed_over(&values(ablation, value), digits),
        };
        let cells = vec![
            Cell::text(title(variant)),
            Cell::text(ablation.name()),
            Cell::over(&values(ablation, &|outcome, _| outcome.accuracy), 2),
            change(&|outcome, normal| outcome.accuracy - normal.accuracy, 2),
            change(&|outcome, _| outcome.logit_change, 3),
        ];
        Row { ruled: is_normal, cells }
    };
    evaluated.iter().enumerate().map(row).collect()
}
