//! Which variants of a run its tables compare: of a head at several layers or learning rates the one that the selection images
//! choose.

use std::collections::HashSet;

use super::{Source, title};
use crate::app::jobs::history::TrainHistory;
use crate::model::train::run::{Variant, variant_name};
use crate::viz::figures::rates::RateGrid;

/// How layers and rates are chosen.
pub(super) const CHOICE_NOTE: &str = "Layer and rate: those with the highest mean accuracy over seeds on the selection images, each at \
 its best epoch; the first in case of ties. The test images play no part in the choice";

impl Source {
    /// The trained variants that are not points of a sweep or grid: those without `[field=value]` in their names.
    pub fn standalone(&self) -> impl Iterator<Item = &Variant> {
        let trained = |name: &str| self.outcomes_of(name).next().is_some();
        self.run.manifest.heads.iter().filter(move |v| !v.name.contains('[') && trained(&v.name))
    }

    /// The variants without an outcome yet, but for points of a sweep or grid.
    pub fn untrained(&self) -> impl Iterator<Item = &Variant> {
        let trained = |name: &str| self.outcomes_of(name).next().is_some();
        self.run.manifest.heads.iter().filter(move |v| !v.name.contains('[') && !trained(&v.name))
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
        let grids = self.grids().into_iter().filter(is_wanted);
        let name = |grid: RateGrid| Some(grid.cells[grid.chosen()?].as_ref()?.name.clone());
        let chosen: HashSet<String> = grids.filter_map(name).collect();
        self.run.manifest.heads.iter().filter(move |variant| chosen.contains(&variant.name))
    }

    /// Names of the variants in whose place another layer or learning rate of their head was chosen.
    pub fn passed_over(&self) -> HashSet<String> {
        let others = |grid: RateGrid| {
            let chosen = grid.chosen();
            let others = grid.cells.into_iter().enumerate().filter(move |(at, _)| Some(*at) != chosen);
            others.filter_map(|(_, cell)| Some(cell?.name))
        };
        self.grids().into_iter().flat_map(others).collect()
    }

    /// The layers and learning rates of every head that was trained at such of an axis, be it of one value.
    pub(super) fn grids(&self) -> Vec<RateGrid> {
        // Every table asks, and most runs have none.
        match self.run.manifest.heads.iter().any(|variant| variant.name.contains('[')) {
            true => TrainHistory::of_outcomes(&self.run, &self.outcomes).all_grids(),
            false => Vec::new(),
        }
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

/// How layers and rates were chosen, and which, for a table of the [reported](Source::reported) variants.
pub fn choice_note(source: &Source) -> Option<String> {
    let mut grids = source.grids();
    grids.retain(|grid| grid.cells.len() > 1);
    let is_of = |grid: &RateGrid, name: &str| grid.cells.iter().flatten().any(|cell| cell.name == name);
    let is_chosen = |variant: &&Variant| grids.iter().any(|grid| is_of(grid, &variant.name));
    let chosen = source.reported().into_iter().filter(is_chosen).map(title).collect::<Vec<_>>().join(", ");
    (!chosen.is_empty()).then(|| format!("{CHOICE_NOTE}. Chosen: {chosen}"))
}
