//! Which variants of a run its tables compare: of a head at several layers or learning rates the one that the selection images
//! choose.

use std::collections::HashSet;

use super::{Source, tiers, title};
use crate::app::jobs::history::TrainHistory;
use crate::app::jobs::run_metrics::ProbeMetrics;
use crate::model::explain::evaluation::metrics::Metrics;
use crate::model::train::run::{ProbeCheckpoint, Variant, variant_name};
use crate::viz::figures::rates::RateGrid;

/// How layers and rates are chosen.
pub(super) fn choice_rule(source: &Source) -> String {
    let mut cells = source.grids().iter().flat_map(|grid| &grid.cells).flatten();
    let broken = match cells.any(|cell| cell.broken > 0) {
        true => ", among those with which the fewest seeds broke",
        false => "",
    };
    format!(
        "Layer and rate: those with the highest mean accuracy over seeds on the selection images, each at its best \
         epoch{broken}; the first in case of ties. The test images play no part in the choice"
    )
}

impl Source {
    /// The trained variants that are not points of a sweep or grid: those without `[field=value]` in their names.
    pub fn standalone(&self) -> impl Iterator<Item = &Variant> {
        self.unbracketed().filter(move |variant| self.is_trained(variant))
    }

    /// The variants without an outcome yet, but for points of a sweep or grid.
    pub fn untrained(&self) -> impl Iterator<Item = &Variant> {
        self.unbracketed().filter(move |variant| !self.is_trained(variant))
    }

    fn unbracketed(&self) -> impl Iterator<Item = &Variant> {
        self.run.manifest.heads.iter().filter(|variant| !variant.name.contains('['))
    }

    /// The variants that are tested against one another: the [standalone](Self::standalone) ones and, of each head trained at
    /// layers or learning rates of an axis, the one with the highest accuracy on the selection images.
    pub fn compared(&self) -> Vec<&Variant> {
        self.standalone()
            .chain(self.chosen(|grid| grid.cells.len() > 1 || !grid.head.contains('[')))
            .collect()
    }

    /// Those of the [compared](Self::compared) variants that are no points of a sweep: one of every head.
    pub fn reported(&self) -> Vec<&Variant> {
        self.standalone().chain(self.chosen(|grid| !grid.head.contains('['))).collect()
    }

    /// Of each [grid](Self::grids) that `is_wanted`, the variant with the highest accuracy on the selection images.
    fn chosen(&self, is_wanted: impl Fn(&RateGrid) -> bool) -> impl Iterator<Item = &Variant> {
        let grids = self.grids().iter().filter(|grid| is_wanted(grid));
        let chosen: HashSet<&str> = grids.filter_map(chosen_name).collect();
        self.run.manifest.heads.iter().filter(move |variant| chosen.contains(&*variant.name))
    }

    /// Names of the variants in whose place another layer or learning rate of their head was chosen.
    pub fn passed_over(&self) -> HashSet<&str> {
        self.grids().iter().flat_map(others).collect()
    }

    /// The layers and learning rates of every head that was trained at such of an axis, be it of one value.
    pub(super) fn grids(&self) -> &[RateGrid] {
        // Every table asks several times.
        self.grids.get_or_init(|| TrainHistory::of_outcomes(&self.run, &self.outcomes).all_grids())
    }

    /// The [compared](Self::compared) variant called `name`, else the first one of the head `name`.
    pub fn called(&self, name: &str) -> Option<&Variant> {
        called(&self.compared(), name)
    }
}

/// The first of the `variants` called `name`, else the first one of the head `name`.
pub(super) fn called<'a>(variants: &[&'a Variant], name: &str) -> Option<&'a Variant> {
    let find = |key: fn(&Variant) -> &str| variants.iter().copied().find(|variant| key(variant) == name);
    find(|variant| &variant.name).or_else(|| find(|variant| &variant.head))
}

/// A variant under the name that it has without the layer and learning rate chosen for it.
pub(super) fn without_choice(variant: &Variant) -> Variant {
    Variant { name: variant_name::head(&variant.name).to_owned(), ..variant.clone() }
}

/// The name of the chosen variant of a grid.
fn chosen_name(grid: &RateGrid) -> Option<&str> {
    Some(&grid.cells[grid.chosen()?].as_ref()?.name)
}

/// The names of the variants of a grid that were not chosen.
fn others(grid: &RateGrid) -> impl Iterator<Item = &str> {
    let chosen = chosen_name(grid);
    grid.cells.iter().flatten().map(|cell| &*cell.name).filter(move |name| Some(*name) != chosen)
}

/// What is `found` in the metrics of each variant's probes at the best epoch, by tier, points of a sweep included: one result per seed,
/// of those seeds alone whose number of images and `key` are those of the first. And notes on variants with fewer seeds than were
/// trained and on the choice among them. Of a head at several layers or rates only the chosen variant is returned; if that has no
/// results, all that have some.
pub(super) fn of_evaluated<'a, T, K: PartialEq>(
    source: &'a Source,
    found: impl Fn(&'a Metrics) -> Option<T>,
    key: impl Fn(&T) -> K,
) -> (Vec<(&'a Variant, Vec<T>)>, Vec<String>) {
    let of_variant = |variant: &'a Variant| {
        let probes = source.evaluated(&variant.name);
        let own = probes.filter_map(|probe| Some((probe.metrics.images, found(&probe.metrics)?)));
        let mut own: Vec<(usize, T)> = own.collect();
        let key = |(images, seed): &(usize, T)| (*images, key(seed));
        let first = own.first().map(key);
        own.retain(|seed| Some(key(seed)) == first);
        (variant, own.into_iter().map(|(_, seed)| seed).collect::<Vec<T>>())
    };
    let variants = tiers::sorted(source.run.manifest.heads.iter()).into_iter();
    let mut all: Vec<_> = variants.map(of_variant).filter(|(_, own)| !own.is_empty()).collect();
    let names: HashSet<&str> = all.iter().map(|(variant, _)| &*variant.name).collect();
    let has_chosen = |grid: &&RateGrid| chosen_name(grid).is_some_and(|name| names.contains(name));
    let passed_over: HashSet<&str> = source.grids().iter().filter(has_chosen).flat_map(others).collect();
    all.retain(|(variant, _)| !passed_over.contains(&*variant.name));
    let fewer = fewer_seeds_note(source, all.iter().map(|(variant, own)| (*variant, own.len())));
    let variants = || all.iter().map(|(variant, _)| *variant);
    let notes = [other_images_note(source, variants()), choice_note(source, variants())];
    let notes = fewer.into_iter().chain(notes.into_iter().flatten()).collect();
    (all, notes)
}

/// Which variants have results of fewer seeds than were trained, given their number: the notes on a run count all of its seeds.
pub(super) fn fewer_seeds_note<'a>(
    source: &Source,
    results: impl IntoIterator<Item = (&'a Variant, usize)>,
) -> Option<String> {
    let fewer = with_fewer_seeds(results.into_iter().map(|(variant, seeds)| {
        (title(variant), seeds, source.accuracies(&variant.name, ProbeCheckpoint::Best).len())
    }))?;
    Some(format!("Results of `ssmprobe eval` cover fewer seeds than were trained: {fewer}"))
}

/// The names of those that have some of so many seeds and not all, each with both numbers; `None` if there are none.
pub(super) fn with_fewer_seeds(all: impl Iterator<Item = (String, usize, usize)>) -> Option<String> {
    let fewer = all.filter(|(_, own, all)| 0 < *own && own < all);
    let fewer = fewer.map(|(name, own, all)| format!("{name} ({own} of {all})"));
    Some(fewer.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty())
}

/// What all evaluations have alike; `None` if they differ, or one of them does not say.
pub(super) fn common<T: PartialEq>(all: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    let mut all = all.into_iter();
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Which variants have a probe that was evaluated with other masks than the first of all, by what objects cover on average, which is
/// the same for all probes: an evaluation with other masks that was stopped leaves the rest with the earlier ones.
pub(super) fn other_masks_note<'a>(
    source: &Source,
    variants: impl IntoIterator<Item = &'a Variant>,
) -> Option<String> {
    let objects =
        |probe: &ProbeMetrics| Some((probe.metrics.masks, probe.metrics.localization?.object_share?));
    others_note(source, variants, objects, "with other masks", "with the same masks")
}

/// The same of other images, by the content of their files, where that is known.
pub(super) fn other_images_note<'a>(
    source: &Source,
    variants: impl IntoIterator<Item = &'a Variant>,
) -> Option<String> {
    let files = |probe: &ProbeMetrics| probe.image_files.clone();
    others_note(source, variants, files, "on images with other contents", "on the same images")
}

/// Which variants have a probe of which `what` is known and not that of the first of all.
fn others_note<'a, T: PartialEq + Clone>(
    source: &Source,
    variants: impl IntoIterator<Item = &'a Variant>,
    what: impl Fn(&ProbeMetrics) -> Option<T>,
    differently: &str,
    alike: &str,
) -> Option<String> {
    let mut first = None;
    let others = variants.into_iter().filter(|variant| {
        let mut own = source.evaluated(&variant.name).filter_map(&what);
        own.any(|own| *first.get_or_insert_with(|| own.clone()) != own)
    });
    let others = others.map(title).collect::<Vec<_>>().join(", ");
    (!others.is_empty()).then(|| {
        format!(
            "Evaluated {differently} than the first probe, and not comparable: {others}; `ssmprobe eval --run RUN` \
             evaluates all of them {alike}"
        )
    })
}

/// How layers and rates were chosen, and which, for a table of these variants.
pub(super) fn choice_note<'a>(
    source: &Source,
    variants: impl IntoIterator<Item = &'a Variant>,
) -> Option<String> {
    let grids = || source.grids().iter().filter(|grid| grid.cells.len() > 1);
    let chosen: HashSet<&str> = grids().filter_map(chosen_name).collect();
    let others: HashSet<&str> = grids().flat_map(others).collect();
    let (own, rest): (Vec<&Variant>, Vec<&Variant>) = variants
        .into_iter()
        .filter(|variant| chosen.contains(&*variant.name) || others.contains(&*variant.name))
        .partition(|variant| chosen.contains(&*variant.name));
    let list = |what: &str, variants: Vec<&Variant>| {
        let titles = variants.into_iter().map(title).collect::<Vec<_>>().join(", ");
        (!titles.is_empty()).then(|| format!(". {what}: {titles}"))
    };
    let lists =
        [list("Chosen", own), list("Not chosen, but the chosen ones were not evaluated for this", rest)];
    let lists: String = lists.into_iter().flatten().collect();
    (!lists.is_empty()).then(|| choice_rule(source) + &lists)
}
