//! Paired tests: each head against one reference on the very same test images, at the best epoch. The
//! reference is the head that was named, else Sinkhorn where it was trained, else the best head.
//!
//! For every seed an exact McNemar test on the images; over all seeds a bootstrap interval, over seeds and
//! images, of the accuracy difference: another training and other images would both change it.

use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::probe::router::sinkhorn;
use crate::model::stats::{bootstrap_mean, mcnemar, mean_and_deviation};
use crate::model::train::run::{Outcome, ProbeCheckpoint, Variant};

/// One table a run of at least two heads.
pub fn tables(source: &Source) -> Vec<Table> {
    table(source).into_iter().collect()
}

fn table(source: &Source) -> Option<Table> {
    let variants = tiers::sorted(source.plain());
    let mean = |variant: &Variant| {
        let values = source.accuracies(&variant.name, ProbeCheckpoint::Best);
        (!values.is_empty()).then(|| mean_and_deviation(&values).0)
    };
    let best = || {
        let known = variants.iter().filter_map(|v| Some((*v, mean(v)?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(variant, _)| variant)
    };
    let called = |name: &str| variants.iter().copied().find(|variant| variant.name == name);
    let reference = match &source.reference {
        Some(name) => called(name)?,
        None => called(sinkhorn::SPEC.id).or_else(best)?,
    };
    let rows: Vec<Row> = variants
        .iter()
        .filter(|variant| variant.name != reference.name)
        .filter_map(|variant| row(source, variant, reference))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let columns = vec![
        Column::words("Method"),
        Column::numbers("Seeds"),
        Column::numbers("Difference (points)"),
        Column::numbers("low").within("95 % interval"),
        Column::numbers("high").within("95 % interval"),
        Column::numbers("smallest").within("McNemar p over seeds"),
        Column::numbers("largest").within("McNemar p over seeds"),
    ];
    let title = format!("Paired differences from {}: {}", title(reference), source.setting());
    let mut table = source.table("paired", title, columns, rows);
    table.notes.push(
        "Difference: accuracy at the best epoch minus the reference's on the same test images, averaged over \
         seeds. Interval: bootstrap over seeds and images (2000 resamples of both). McNemar: exact, two-sided, one \
         test a seed; p is not corrected for the number of comparisons"
            .to_owned(),
    );
    Some(table)
}

fn row(source: &Source, variant: &Variant, reference: &Variant) -> Option<Row> {
    let images = source.truth.classes.len();
    let right = |outcome: &Outcome| {
        let right = outcome.right(&source.truth, ProbeCheckpoint::Best);
        (right.len() == images && images > 0).then_some(right)
    };
    let mut differences: Vec<Vec<f64>> = Vec::new(); // a row a seed
    let mut tests = Vec::new();
    for outcome in source.outcomes_of(&variant.name) {
        let Some(other) = source.outcomes_of(&reference.name).find(|other| other.seed == outcome.seed) else {
            continue;
        };
        let (Some(own), Some(other)) = (right(outcome), right(other)) else { continue };
        let pairs = own.iter().zip(&other);
        differences.push(pairs.map(|(&own, &other)| 100.0 * (f64::from(own) - f64::from(other))).collect());
        tests.push(mcnemar(&own, &other));
    }
    if tests.is_empty() {
        return None;
    }
    let (low, high) = bootstrap_mean(&differences, 0);
    let mean = differences.iter().flatten().sum::<f64>() / (images * tests.len()) as f64;
    let smallest = tests.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = tests.iter().copied().fold(0.0, f64::max);
    Some(Row {
        ruled: false,
        cells: vec![
            Cell::text(title(variant)),
            Cell::number(tests.len() as f64, 0),
            Cell::signed(mean, 2),
            Cell::signed(low, 2),
            Cell::signed(high, 2),
            Cell::number(smallest, 4),
            Cell::number(largest, 4),
        ],
    })
}
