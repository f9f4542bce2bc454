//! The probes and test images that a page shows: those that are named, else the best probes and the images they disagree on.

use crate::app::image_files::image_named;
use crate::app::report::Source;
use crate::model::probe::head::{self, Group};
use crate::model::train::run::Outcome;

/// Default number of probes.
pub const PROBES: usize = 4;
/// Default number of images.
pub const IMAGES: usize = 6;

/// The probes named in `asked`: `HEAD` with its best seed, at the layer and rate chosen for it, or `HEAD-sSEED`. If none is named,
/// the best seeds of [`PROBES`] heads, in rounds of the next best two learned routers, fixed scan, pooling head, network and other head.
///
/// # Errors
/// If the run has no such probe, or none at all; the message lists those that it has.
pub fn probes<'a>(source: &'a Source, asked: &[String]) -> Result<Vec<&'a Outcome>, String> {
    let heads = &source.run.manifest.heads;
    let mut best: Vec<&Outcome> =
        heads.iter().filter_map(|variant| best_of(source.outcomes_of(&variant.name))).collect();
    if best.is_empty() {
        return Err(format!("{}: no head is trained yet; finish its training first", source.name));
    }
    if !asked.is_empty() {
        let named = |name: &String| {
            let seed = || {
                let (head, seed) = name.rsplit_once("-s")?;
                source.outcomes_of(head).find(|outcome| outcome.seed.to_string() == seed)
            };
            let chosen = || best_of(source.outcomes_of(&source.called(name)?.name));
            let found =
                best.iter().copied().find(|outcome| outcome.head == *name).or_else(seed).or_else(chosen);
            let known = || best.iter().map(|outcome| outcome.head.as_str()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| {
                format!(
                    "--probe {name}: the run has no such probe; choose one of {} (or HEAD-sSEED)",
                    known()
                )
            })
        };
        return asked.iter().map(named).collect();
    }
    // Of a head trained at several layers or rates, only the chosen variant.
    let passed_over = source.passed_over();
    best.retain(|outcome| !passed_over.contains(&*outcome.head));
    best.sort_by(|a, b| b.best_accuracy().unwrap_or(0.0).total_cmp(&a.best_accuracy().unwrap_or(0.0)));
    let group = |outcome: &Outcome| {
        let head = heads.iter().find(|variant| variant.name == outcome.head).map(|variant| &variant.head);
        let group = head.and_then(|head| head::find(head)).map(|spec| spec.group);
        [Group::Router, Group::Scan, Group::Pooling, Group::Network]
            .iter()
            .position(|known| Some(*known) == group)
            .unwrap_or(4)
    };
    let mut earlier = [0; 5];
    let mut ranked: Vec<((usize, usize), &Outcome)> = Vec::new();
    for outcome in best {
        let group = group(outcome);
        let round = if group == 0 { earlier[group] / 2 } else { earlier[group] };
        earlier[group] += 1;
        ranked.push(((round, group), outcome));
    }
    ranked.sort_by_key(|(key, _)| *key);
    Ok(ranked.into_iter().take(PROBES).map(|(_, outcome)| outcome).collect())
}

/// The outcome with the highest accuracy; the first of equal ones.
fn best_of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<&'a Outcome> {
    let finished = outcomes.filter(|outcome| outcome.best_epoch.is_some());
    finished.reduce(|best, other| if other.best_accuracy() > best.best_accuracy() { other } else { best })
}

/// Indices into the test images of those named in `asked`, by their name in the run or the end of that path. If none is named,
/// [`IMAGES`] on which the probes disagree most, in rounds of one per class.
///
/// # Errors
/// If no test image, or more than one, has such a name.
pub fn images(source: &Source, probes: &[&Outcome], asked: &[String]) -> Result<Vec<usize>, String> {
    let names = &source.truth.images;
    if !asked.is_empty() {
        return asked.iter().map(|name| image_named(names, name, "the run")).collect();
    }
    // The number of right or of wrong probes, whichever is smaller, and the number of distinct answers.
    let disagreement = |at: usize| {
        let answers = probes.iter().filter_map(|outcome| outcome.best.get(at)).map(|&class| class as usize);
        let right = answers.clone().filter(|class| Some(class) == source.truth.classes.get(at)).count();
        let mut distinct: Vec<usize> = answers.collect();
        let wrong = distinct.len() - right;
        distinct.sort_unstable();
        distinct.dedup();
        (right.min(wrong), distinct.len())
    };
    let mut ranked: Vec<(usize, (usize, usize))> =
        (0..names.len()).map(|at| (at, disagreement(at))).collect();
    ranked.sort_by_key(|(_, disagreement)| std::cmp::Reverse(*disagreement));
    let mut taken = vec![0; source.run.manifest.dataset.classes.len()];
    let mut rounds: Vec<(bool, usize, usize)> = Vec::new();
    for (at, (minority, _)) in ranked {
        let of_class = source.truth.classes.get(at).and_then(|class| taken.get_mut(*class));
        let round = of_class.map_or(0, |taken| {
            *taken += 1;
            *taken
        });
        rounds.push((minority == 0, round, at));
    }
    // The sort is stable: within a round, images with the most disagreement come first.
    rounds.sort_by_key(|(agreed, round, _)| (*agreed, *round));
    Ok(rounds.into_iter().take(IMAGES).map(|(_, _, at)| at).collect())
}
