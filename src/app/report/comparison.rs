//! The main comparison (paper, "Frozen MAE probing"): every head by tier, at its best epoch and after
//! the last, the anchors beside the floor, and how heads meet known truth where it is known.

use super::table::{Cell, Column, Row, Table};
use super::{BEYOND, Source, id, marked, tiers};
use crate::model::explain::localization::Truth;
use crate::model::train::run::ProbeCheckpoint;

/// One table a run.
pub fn build(sources: &[Source]) -> Vec<Table> {
    sources.iter().filter(|source| source.plain().next().is_some()).map(|s| table(s, sources)).collect()
}

fn table(source: &Source, sources: &[Source]) -> Table {
    let variants = tiers::sorted(source.plain());
    let mut rows: Vec<Row> = Vec::new();
    let mut tier = "";
    for variant in variants {
        let own = tiers::place(&variant.head).0;
        if own != tier && tier == "Floor" {
            rows.extend(anchors(source));
        }
        let mut cells = vec![Cell::text(own), Cell::text(marked(variant))];
        cells.push(Cell::over(&source.accuracies(&variant.name, ProbeCheckpoint::Best), 2));
        cells.push(Cell::over(&source.accuracies(&variant.name, ProbeCheckpoint::Last), 2));
        cells.extend(truth(source, &variant.name));
        rows.push(Row { ruled: own != tier, cells });
        tier = own;
    }
    if tier == "Floor" {
        rows.extend(anchors(source));
    }
    let columns = vec![
        Column::shared("Tier"),
        Column::words("Method"),
        Column::numbers("best").within("Top-1 (%)"),
        Column::numbers("last").within("Top-1 (%)"),
        Column::numbers("token weights").within("Object found (AUC)"),
        Column::numbers("evidence").within("Object found (AUC)"),
        Column::numbers("absolute").within("Evidence on the object (%)"),
        Column::numbers("positive").within("Evidence on the object (%)"),
    ];
    let mut notes = source.notes();
    if rows
        .iter()
        .flat_map(|row| &row.cells)
        .any(|cell| matches!(cell, Cell::Text(text) if text.ends_with('†')))
    {
        notes.push(BEYOND.to_owned());
    }
    notes.extend(truth_note(source));
    notes.extend(anchor_notes(source));
    let title = format!("Frozen {}", source.setting());
    let mut table = Table { id: id("main", source, sources), title, columns, rows, notes };
    table.mark_largest(2..8);
    table.without_empty_columns()
}

/// Means over seeds of what `eval` found where masks are.
fn truth(source: &Source, name: &str) -> [Cell; 4] {
    let truths: Vec<Truth> = source.evaluated(name).filter_map(|e| e.evaluation.truth).collect();
    let over = |part: fn(&Truth) -> Option<f64>, scale: f64, digits| {
        let values: Vec<f64> = truths.iter().filter_map(part).map(|value| scale * value).collect();
        Cell::over(&values, digits)
    };
    [
        over(|t| t.weight_auc, 1.0, 3),
        over(|t| t.evidence_auc, 1.0, 3),
        over(|t| t.absolute_share, 100.0, 1),
        over(|t| t.positive_share, 100.0, 1),
    ]
}

fn truth_note(source: &Source) -> Option<String> {
    let probes = &source.evaluations.as_ref()?.probes;
    let evaluation = probes.iter().map(|probe| &probe.evaluation).find(|e| e.truth.is_some())?;
    let share = evaluation.truth.and_then(|truth| truth.object_share)?;
    Some(format!(
        "Object found: ROC AUC over the tokens of |token weight|, and of the exact evidence for the image's own \
         class, against the object's mask, mean over {} images, at the best epoch; 0.5 is chance. Evidence on the object: {:.1} % \
         would be chance",
        evaluation.masks,
        100.0 * share
    ))
}

fn anchors(source: &Source) -> Vec<Row> {
    let all = source.evaluations.iter().flat_map(|evaluations| &evaluations.anchors);
    let row = |anchor: &crate::model::explain::baselines::Anchor| {
        let name = if anchor.method == "knn" { "kNN" } else { "Logistic regression" };
        let accuracy = || Cell::maybe(anchor.accuracy, 2);
        let mut cells = vec![Cell::text("Floor"), Cell::text(format!("{name} ({}) †", anchor.view.name()))];
        cells.extend([accuracy(), accuracy(), Cell::None, Cell::None, Cell::None, Cell::None]);
        Row { ruled: false, cells }
    };
    all.map(row).collect()
}

fn anchor_notes(source: &Source) -> Vec<String> {
    let Some(evaluations) = &source.evaluations else { return Vec::new() };
    let mut notes: Vec<String> = Vec::new();
    for anchor in &evaluations.anchors {
        let told = format!("{}: {}; no seeds, no epochs", anchor.method, anchor.settings);
        if !notes.contains(&told) {
            notes.push(told);
        }
        notes.extend(anchor.note.iter().map(|n| format!("{} ({}): {n}", anchor.method, anchor.view.name())));
    }
    notes
}
