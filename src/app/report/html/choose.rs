//! What of a run a page shows where nobody says: its best probes, and the test images that part them.

use crate::app::report::Source;
use crate::model::probe::head::{self, Group};
use crate::model::train::run::Outcome;

/// How many probes stand side by side.
pub const PROBES: usize = 4;
/// How many images are shown.
pub const IMAGES: usize = 6;

/// The probes called `asked` (`HEAD`, of its best seed, or `HEAD-sSEED`). Where none is named, the best of every head: two
/// learned routers, a fixed scan, a pooling head and so on, [`PROBES`] of them.
///
/// # Errors
/// What the run has, where it has no such probe, or none at all.
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
            let found = best.iter().copied().find(|outcome| outcome.head == *name).or_else(seed);
            let known = || best.iter().map(|outcome| outcome.head.as_str()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| {
                format!("--probe {name}: the run has no such probe; there are {} (or HEAD-sSEED)", known())
            })
        };
        return asked.iter().map(named).collect();
    }
    best.sort_by(|a, b| b.best_accuracy().unwrap_or(0.0).total_cmp(&a.best_accuracy().unwrap_or(0.0)));
    let group = |outcome: &Outcome| {
        let head = heads.iter().find(|variant| variant.name == outcome.head).map(|variant| &variant.head);
        let group = head.and_then(|head| head::find(head)).map(|spec| spec.group);
        [Group::Router, Group::Scan, Group::Pooling, Group::Network]
            .iter()
            .position(|known| Some(*known) == group)
            .unwrap_or(4)
    };
    let mut met = [0; 5];
    let mut ranked: Vec<((usize, usize), &Outcome)> = Vec::new();
    for outcome in best {
        let group = group(outcome);
        let round = if group == 0 { met[group] / 2 } else { met[group] };
        met[group] += 1;
        ranked.push(((round, group), outcome));
    }
    ranked.sort_by_key(|(key, _)| *key);
    Ok(ranked.into_iter().take(PROBES).map(|(_, outcome)| outcome).collect())
}

/// The training of the highest accuracy.
fn best_of<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<&'a Outcome> {
    let done = outcomes.filter(|outcome| outcome.best_epoch.is_some());
    // The first of equal ones.
    done.reduce(|best, other| if other.best_accuracy() > best.best_accuracy() { other } else { best })
}

/// The places, in the list of test images, of those called `asked`: by their name in the run, or by their file's. Where
/// none is named, [`IMAGES`] that some of the probes know and others do not, class by class.
///
/// # Errors
/// Where no test image, or more than one, is called so.
pub fn images(source: &Source, probes: &[&Outcome], asked: &[String]) -> Result<Vec<usize>, String> {
    let names = &source.truth.images;
    if !asked.is_empty() {
        return asked.iter().map(|name| image(names, name)).collect();
    }
    let split = |at: usize| {
        let answers = probes.iter().filter_map(|outcome| outcome.best.get(at)).map(|&class| class as usize);
        let right = answers.clone().filter(|class| Some(class) == source.truth.classes.get(at)).count();
        let mut different: Vec<usize> = answers.collect();
        let wrong = different.len() - right;
        different.sort_unstable();
        different.dedup();
        (right.min(wrong), different.len())
    };
    let mut ranked: Vec<(usize, (usize, usize))> = (0..names.len()).map(|at| (at, split(at))).collect();
    ranked.sort_by_key(|(_, split)| std::cmp::Reverse(*split));
    let mut met = vec![0; source.run.manifest.dataset.classes.len()];
    let mut rounds: Vec<(bool, usize, usize)> = Vec::new();
    for (at, (parted, _)) in ranked {
        let class = source.truth.classes.get(at).and_then(|class| met.get_mut(*class));
        let round = class.map_or(0, |met| {
            *met += 1;
            *met
        });
        rounds.push((parted == 0, round, at));
    }
    // Stable: within a round those that part the probes most come first.
    rounds.sort_by_key(|(agreed, round, _)| (*agreed, *round));
    Ok(rounds.into_iter().take(IMAGES).map(|(_, _, at)| at).collect())
}

fn image(names: &[String], asked: &str) -> Result<usize, String> {
    if let Some(at) = names.iter().position(|name| name == asked) {
        return Ok(at);
    }
    let ends = |name: &String| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file == asked || name.strip_suffix(asked).is_some_and(|rest| rest.ends_with('/'))
    };
    let found: Vec<usize> = (0..names.len()).filter(|&at| ends(&names[at])).collect();
    match found[..] {
        [at] => Ok(at),
        [] => {
            let some: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
            Err(format!(
                "--image {asked}: no test image of the run is called so; they are called {}, …",
                some.join(", ")
            ))
        }
        [one, other, ..] => Err(format!(
            "--image {asked}: {} test images are called so; say which, such as {} or {}",
            found.len(),
            names[one],
            names[other]
        )),
    }
}
