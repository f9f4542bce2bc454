//! Heads across backbones and datasets (paper, "Fine-grained classification"): one column per run,
//! grouped by backbone.

use super::choice::{choice_note, without_choice};
use super::table::{Cell, Column, Row, Table};
use super::{Source, tiers, title};
use crate::model::train::run::{ProbeCheckpoint, Variant};

/// One table of all runs; none of a single run.
pub fn tables(sources: &[Source]) -> Vec<Table> {
    if sources.len() < 2 {
        return Vec::new();
    }
    // Runs of one backbone side by side; backbones in the order of their first run.
    let mut ordered: Vec<&Source> = Vec::new();
    for source in sources {
        let backbone = &source.run.manifest.backbone.id;
        let at = ordered.iter().rposition(|other| other.run.manifest.backbone.id == *backbone);
        ordered.insert(at.map_or(ordered.len(), |at| at + 1), source);
    }
    let reported = ordered.iter().map(|source| source.reported()).collect::<Vec<_>>();
    // Each run has a layer and a rate of its own for a head.
    let mut variants: Vec<Variant> = Vec::new();
    for variant in reported.iter().flatten().map(|variant| without_choice(variant)) {
        if !variants.iter().any(|known| known.name == variant.name) {
            variants.push(variant);
        }
    }
    variants.sort_by_key(|variant| tiers::tier_and_rank(&variant.head).1);
    let mut columns = vec![Column::words("Method")];
    let setting = |source: &Source| {
        let manifest = &source.run.manifest;
        (manifest.backbone.id.clone(), manifest.dataset.name.clone())
    };
    columns.extend(ordered.iter().map(|source| {
        let (backbone, dataset) = setting(source);
        // Two runs of one backbone and dataset are told apart by their names.
        let is_unique = ordered.iter().filter(|other| setting(other) == setting(source)).count() == 1;
        let title = if is_unique { dataset } else { format!("{dataset} ({})", source.name) };
        Column::numbers(title).within(backbone)
    }));
    let mut tier = "";
    let mut rows = Vec::new();
    for variant in variants {
        let own_tier = tiers::tier_and_rank(&variant.head).0;
        let mut cells = vec![Cell::text(title(&variant))];
        cells.extend(ordered.iter().zip(&reported).map(|(source, reported)| {
            let own = reported.iter().find(|own| without_choice(own).name == variant.name);
            let accuracies = own.map(|own| source.accuracies(&own.name, ProbeCheckpoint::Best));
            Cell::over(&accuracies.unwrap_or_default(), 2)
        }));
        rows.push(Row { ruled: own_tier != tier, cells });
        tier = own_tier;
    }
    let notes = ordered.iter().enumerate().flat_map(|(at, source)| {
        let more = [choice_note(source, source.reported()), other_weights_note(source, &ordered[..at])];
        let notes = source.notes().into_iter().chain(more.into_iter().flatten());
        notes.map(|note| format!("{}: {note}", source.name))
    });
    let title = "Top-1 accuracy (%) at the best epoch, across backbones and datasets".to_owned();
    let mut table = Table { id: "fine-grained".into(), title, notes: notes.collect(), columns, rows };
    table.mark_largest(1..=ordered.len());
    vec![table]
}

/// That a run's backbone has the name of one of the `earlier` runs' and other weights, as two folders of the same name may.
fn other_weights_note(source: &Source, earlier: &[&Source]) -> Option<String> {
    let own = &source.run.manifest;
    let is_other = |other: &&&Source| {
        let other = &other.run.manifest;
        other.backbone.id == own.backbone.id && other.tokens.weights != own.tokens.weights
    };
    let other = &earlier.iter().find(is_other)?.name;
    Some(format!("{} has other weights than in {other}", own.backbone.id))
}
