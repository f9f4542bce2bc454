//! Accuracy with the reading order disturbed at evaluation (paper, Observation 3), from `ssmprobe eval --ablations`.

use super::choice::of_evaluated;
use super::paired::Difference;
use super::table::{Cell, Column, Row, Table};
use super::{Source, title};
use crate::model::explain::ablation::Ablation;
use crate::model::explain::evaluation::digits;
use crate::model::explain::evaluation::metrics::Outcome;
use crate::model::train::run::Variant;

/// Heading of the interval, which evaluations by earlier versions have no data for.
const INTERVAL: &str = "95 % interval of the change";

/// One table per run that was evaluated with `--ablations`.
pub fn tables(source: &Source) -> Vec<Table> {
    // Only seeds that were evaluated in other orders besides their own.
    let (evaluated, notes) =
        of_evaluated(source, |metrics| Some(&metrics.ablations).filter(|all| all.len() > 1), |_| ());
    let rows = evaluated.iter().flat_map(|(variant, seeds)| rows(variant, seeds)).collect();
    let mut columns = vec![Column::shared("Method"), Column::words("Configuration")];
    let [accuracy, change, logit_change] = Column::changes();
    columns.extend([accuracy, change]);
    columns.extend(Column::group(INTERVAL, ["low", "high"]));
    columns.push(logit_change);
    let note = "At evaluation only: nothing was retrained, so a drop shows what the trained probe relies on. Best \
                epoch's probes; one random permutation per image";
    let table = source.table("scramble", "Order disturbed at evaluation", columns, rows).with_note(note);
    let mut table = table.without_empty_columns();
    let has_interval = table.columns.iter().any(|column| column.group == INTERVAL);
    table.notes.extend(has_interval.then(|| {
        "Interval: of other trainings and other images, as for paired differences; with one seed, of other images only"
            .to_owned()
    }));
    table.notes.extend(notes);
    vec![table]
}

/// The rows of one variant, one per ablation.
fn rows(variant: &Variant, seeds: &[&Vec<Outcome>]) -> Vec<Row> {
    let pairs = |ablation: Ablation| {
        let pairs = seeds.iter().filter_map(|outcomes| {
            Some((outcomes.iter().find(|o| o.ablation == ablation)?, outcomes.first()?))
        });
        pairs.collect::<Vec<_>>()
    };
    let values = |ablation: Ablation, value: &dyn Fn(&Outcome, &Outcome) -> f64| -> Vec<f64> {
        pairs(ablation).into_iter().map(|(outcome, normal)| value(outcome, normal)).collect()
    };
    let evaluated: Vec<Ablation> =
        Ablation::ALL.into_iter().filter(|&ablation| !pairs(ablation).is_empty()).collect();
    let row = |(index, &ablation): (usize, &Ablation)| {
        let is_normal = index == 0;
        let change = |value: &dyn Fn(&Outcome, &Outcome) -> f64, digits| match is_normal {
            true => Cell::None,
            false => Cell::signed_over(&values(ablation, value), digits),
        };
        let interval = interval(&pairs(ablation)).filter(|_| !is_normal);
        let end = |end: Option<f64>| end.map_or(Cell::None, |end| Cell::signed(end, 2));
        let cells = vec![
            Cell::text(title(variant)),
            Cell::text(ablation.name()),
            Cell::over(&values(ablation, &|outcome, _| outcome.accuracy), 2),
            change(&|outcome, normal| outcome.accuracy - normal.accuracy, 2),
            end(interval.map(|(low, _)| low)),
            end(interval.map(|(_, high)| high)),
            change(&|outcome, _| outcome.logit_change, 3),
        ];
        Row { ruled: is_normal, cells }
    };
    evaluated.iter().enumerate().map(row).collect()
}

/// The 95 % interval of a change in accuracy, in points; `None` unless it is known for every seed which images are right.
fn interval(pairs: &[(&Outcome, &Outcome)]) -> Option<(f64, f64)> {
    let change = |(outcome, normal): &(&Outcome, &Outcome)| -> Vec<f64> {
        let both = digits::read(&outcome.right).into_iter().zip(digits::read(&normal.right));
        both.map(|(own, normal)| 100.0 * (own - normal)).collect()
    };
    let changes: Vec<Vec<f64>> = pairs.iter().map(change).collect();
    let images = changes.first()?.len();
    let is_known = images > 0 && changes.iter().all(|seed| seed.len() == images);
    is_known.then(|| Difference::new(&changes).interval())
}
