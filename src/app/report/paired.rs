//! Paired tests: each head against one reference on the same test images, at the best epoch. The reference is the head
//! that was named, else Sinkhorn if it was trained, else the head with the highest accuracy of those with the most
//! seeds. A head that was trained at several layers or rates is represented by those with the highest accuracy on the
//! selection images.
//!
//! Another training and other images would both change a difference, so interval, t test, permutation test and equivalence
//! test generalise over both ([`CrossedMean`]); an exact McNemar test on the images compares the two probes of every seed.

use super::choice::choice_note;
use super::table::{Cell, Column, Row, Table};
use super::{Source, not_finished, tiers, title};
use crate::model::probe::router::sinkhorn;
use crate::model::stats::{CrossedMean, holm, mcnemar, mean_and_deviation, permutation};
use crate::model::train::run::{Outcome, ProbeCheckpoint, Variant};

/// Random draws of a permutation test.
const DRAWS: usize = 9999;

/// One table per run with at least two heads.
pub fn tables(source: &Source) -> Vec<Table> {
    table(source).into_iter().collect()
}

/// Why a run with several heads has no table.
pub fn why_none(source: &Source) -> Option<String> {
    table(source).err().flatten()
}

/// The table, or why there is none; `None` if the run has one head alone, or nothing is trained yet.
fn table(source: &Source) -> Result<Table, Option<String>> {
    let variants = tiers::sorted(source.compared().into_iter());
    let named = match &source.reference {
        Some(name) => {
            let lacks = || {
                Some(format!("`{name}`, which others are to be compared with, is none of its trained heads"))
            };
            Some(source.called(name).ok_or_else(lacks)?)
        }
        None => source.called(sinkhorn::SPEC.id),
    };
    let Some(reference) = named.or_else(|| best(source, &variants)) else { return Err(None) };
    let others = variants.iter().copied().chain(source.untrained());
    let others = others.filter(|variant| variant.name != reference.name);
    let (mut compared, mut left_out) = (Vec::<(&Variant, Comparison)>::new(), Vec::new());
    for variant in others {
        match compare(source, variant, reference) {
            Some(comparison) => compared.push((variant, comparison)),
            None => left_out.push(variant),
        }
    }
    if compared.is_empty() {
        return Err((!left_out.is_empty()).then(|| unfinished(source, reference, &left_out)));
    }
    let margin = source.equivalence;
    // The best of several heads is better than others by chance, too: it was found by comparing all pairs.
    let (family, count) = match named {
        Some(_) => ("the heads of this table", compared.len()),
        None => {
            let pairs = compared.len() * (compared.len() + 1) / 2;
            ("all pairs of heads, as the reference is the best of them on these images", pairs)
        }
    };
    // The p values of a test for all heads, raw and corrected.
    let test = |p: &dyn Fn(&Comparison) -> f64| {
        let raw: Vec<f64> = compared.iter().map(|(_, compared)| p(compared)).collect();
        let mut all = raw.clone();
        all.resize(count, 1.0);
        [raw, holm(&all)]
    };
    let mut p_values =
        vec![test(&|compared| compared.difference.p()), test(&|compared| compared.permutation)];
    p_values.extend(margin.map(|_| test(&|compared| compared.equivalence)));
    let row = |(at, (variant, compared)): (usize, &(&Variant, Comparison))| {
        let (low, high) = compared.difference.interval();
        let mut cells = vec![
            Cell::text(title(variant)),
            Cell::number(compared.mcnemar.len() as f64, 0),
            Cell::signed(compared.difference.mean.mean, 2),
            Cell::signed(low, 2),
            Cell::signed(high, 2),
        ];
        let own = p_values.iter().flatten().map(|p| p[at]);
        let mcnemar = &compared.mcnemar;
        let range =
            [mcnemar.iter().copied().fold(1.0, f64::min), mcnemar.iter().copied().fold(0.0, f64::max)];
        cells.extend(own.chain(range).map(|p| Cell::number(p, 4)));
        Row { ruled: false, cells }
    };
    let rows = compared.iter().enumerate().map(row).collect();
    let mut columns = vec![Column::words("Method")];
    columns.extend(["Seeds", "Difference (points)"].map(Column::numbers));
    columns.extend(Column::group("95 % interval", ["low", "high"]));
    let margin =
        margin.map(|margin| format!("{margin} {} or more", if margin == 1.0 { "point" } else { "points" }));
    let equivalence = margin.as_ref().map(|margin| format!("p of {margin}"));
    for test in ["p", "Permutation p"].map(str::to_owned).into_iter().chain(equivalence) {
        columns.extend(Column::group(&test, ["raw", "Holm"]));
    }
    columns.extend(Column::group("McNemar p over seeds", ["smallest", "largest"]));
    let what = format!("Paired differences from {}", title(reference));
    let seeds = compared.iter().map(|(_, compared)| compared.mcnemar.len()).max().unwrap_or(0);
    let mut table = source.table("paired", &what, columns, rows).with_note(note(family, seeds));
    table.notes.extend(margin.map(|margin| {
        format!(
            "Equivalence: a small p of {margin} means that the true difference is smaller than that in either \
             direction (two one-sided tests)"
        )
    }));
    table.notes.extend((!left_out.is_empty()).then(|| {
        format!(
            "Left out: {}; in no seed have both it and the reference predicted every test image",
            left_out.into_iter().map(title).collect::<Vec<_>>().join(", ")
        )
    }));
    table.notes.extend(choice_note(source, variants.iter().copied()));
    Ok(table)
}

/// The head with the highest accuracy of those with the most seeds. Only seeds that both heads have are compared: one that broke
/// with most of them would leave few to all others.
fn best<'a>(source: &Source, variants: &[&'a Variant]) -> Option<&'a Variant> {
    let values = variants.iter().map(|v| (*v, source.accuracies(&v.name, ProbeCheckpoint::Best)));
    let begun = values.filter(|(_, values)| !values.is_empty());
    let means = begun.map(|(variant, values)| (variant, values.len(), mean_and_deviation(&values).0));
    means.max_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2))).map(|(variant, ..)| variant)
}

/// What the columns mean, where heads have at most so many `seeds`; Holm's correction is for `family`.
fn note(family: &str, seeds: usize) -> String {
    let (holds, draws) = match seeds {
        1 => (
            "Interval and p (two-sided) hold for these trainings and other images, by Student's t",
            "that flip the signs of images",
        ),
        _ => (
            "Interval and p (two-sided) hold for other trainings and other images: variation over seeds by Student's t, over \
             images by a normal approximation; with one seed, for other images only",
            "that reassign all trainings to the two heads and flip the signs of images; it cannot fall much below 0.05 with \
             three seeds, 0.004 with five",
        ),
    };
    format!(
        "Difference: accuracy at the best epoch minus the reference's on the same test images, averaged over seeds. \
         {holds}. Permutation: two-sided, over {DRAWS} draws {draws}. p is at least that of an exact test of images that \
         all favour one head (0.06 if the two differ on five). Holm: corrected for {family}. McNemar: exact, two-sided, \
         between the two probes of a seed, not corrected"
    )
}

/// Why none of the `others` could be compared with the reference.
fn unfinished(source: &Source, reference: &Variant, others: &[&Variant]) -> String {
    let has_answers = |outcome: &Outcome| right(source, outcome).is_some();
    let lacks = |variant: &&Variant| !source.outcomes_of(&variant.name).any(has_answers);
    let mut lacking = std::iter::once(reference).chain(others.iter().copied()).filter(lacks).peekable();
    let finish =
        if lacking.peek().is_some() { format!("; {}", not_finished(lacking)) } else { String::new() };
    format!("in no seed have both {} and another head predicted every test image{finish}", title(reference))
}

/// Whether an outcome's predictions at the best epoch are right, image by image; `None` unless it has one of every test image.
fn right(source: &Source, outcome: &Outcome) -> Option<Vec<bool>> {
    let (right, images) = (outcome.correct(&source.truth, ProbeCheckpoint::Best), source.truth.classes.len());
    (right.len() == images && images > 0).then_some(right)
}

/// A difference in accuracy between two ways of reading the same images, in points.
pub(super) struct Difference {
    mean: CrossedMean,
    /// Number of images on which the two differ in any seed.
    differing: usize,
}

impl Difference {
    /// Of `rows[seed][image]`: 100 where the first alone is right, -100 where the second alone is, else 0.
    pub(super) fn new(rows: &[Vec<f64>]) -> Self {
        let images = rows.first().map_or(0, Vec::len);
        let differs = |image: &usize| rows.iter().any(|training| training[*image] != 0.0);
        Self {
            mean: CrossedMean::new(rows, least_error(images)),
            differing: (0..images).filter(differs).count(),
        }
    }

    /// p of the difference; at least the smallest p that an exact test of the images on which the two differ can have, as all of
    /// these may favour one by chance.
    fn p(&self) -> f64 {
        let least = 0.5_f64.powi(self.differing as i32 - 1).min(1.0);
        self.mean.p().max(least)
    }

    /// The 95 % interval of the difference, which includes 0 where p is not below 0.05.
    pub(super) fn interval(&self) -> (f64, f64) {
        let (low, high) = self.mean.interval_within(-100.0..=100.0);
        if self.p() < 0.05 { (low, high) } else { (low.min(0.0), high.max(0.0)) }
    }
}

/// The smallest standard error of a difference: that of two more images, on one of which the heads differ.
fn least_error(images: usize) -> f64 {
    100.0 / (images + 2) as f64
}

/// The comparison of a head with the reference.
struct Comparison {
    /// Head minus reference.
    difference: Difference,
    /// p of the equivalence test; 1 without a margin.
    equivalence: f64,
    /// p of the permutation test.
    permutation: f64,
    /// p of the exact McNemar test, one per seed.
    mcnemar: Vec<f64>,
}

fn compare(source: &Source, variant: &Variant, reference: &Variant) -> Option<Comparison> {
    let images = source.truth.classes.len();
    let points = |right: &[bool]| right.iter().map(|&right| 100.0 * f64::from(right)).collect::<Vec<f64>>();
    let (mut own, mut other, mut tests) = (Vec::new(), Vec::new(), Vec::new());
    for outcome in source.outcomes_of(&variant.name) {
        let same_seed = |other: &&Outcome| other.seed == outcome.seed;
        let Some(reference) = source.outcomes_of(&reference.name).find(same_seed) else { continue };
        let (Some(first), Some(second)) = (right(source, outcome), right(source, reference)) else {
            continue;
        };
        tests.push(mcnemar(&first, &second));
        own.push(points(&first));
        other.push(points(&second));
    }
    let subtract = |(own, other): (&Vec<f64>, &Vec<f64>)| own.iter().zip(other).map(|(a, b)| a - b).collect();
    let differences: Vec<Vec<f64>> = own.iter().zip(&other).map(subtract).collect();
    // Heads that are the margin apart differ on that share of the images at least, and vary as such a share does.
    let equivalence = |margin: f64| {
        let least = least_error(images).max((margin * (100.0 - margin).max(0.0) / images as f64).sqrt());
        CrossedMean::new(&differences, least).equivalence(margin)
    };
    (!tests.is_empty()).then(|| Comparison {
        difference: Difference::new(&differences),
        equivalence: source.equivalence.map_or(1.0, equivalence),
        permutation: permutation(&own, &other, DRAWS, 0),
        mcnemar: tests,
    })
}
