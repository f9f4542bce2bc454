//! The main comparison (paper, "Frozen MAE probing"): every head by tier, at its best epoch and after
//! the last, the baselines in the floor tier, and agreement with the objects' masks if the dataset has masks.

use super::choice::{choice_note, fewer_seeds_note, other_images_note, other_masks_note};
use super::table::{Cell, Column, Row, Table};
use super::{NOT_IN_PAPER_NOTE, Source, marked_title, tiers};
use crate::app::format::noun;
use crate::model::explain::baselines::Baseline;
use crate::model::explain::localization::Localization;
use crate::model::probe::head::Tier;
use crate::model::train::run::Variant;

/// One table per run with a trained head.
pub fn tables(source: &Source) -> Vec<Table> {
    let variants = tiers::sorted(source.reported().into_iter());
    if variants.is_empty() {
        return Vec::new();
    }
    let heads = variants.iter().map(|variant| {
        let mut cells =
            vec![Cell::text(tiers::tier_and_rank(&variant.head).0), Cell::text(marked_title(variant))];
        cells.extend(source.accuracy_cells(&variant.name));
        cells.extend(localization(source, &variant.name));
        cells
    });
    let floor = Cell::text(Tier::Floor.name());
    let (mut cells_by_row, others): (Vec<Vec<Cell>>, _) = heads.partition(|cells| cells[0] == floor);
    cells_by_row.extend(baseline_cells(source));
    cells_by_row.extend(others);
    let tiers = cells_by_row.iter().map(|cells| cells[0].clone()).collect::<Vec<_>>();
    let is_ruled = |at: usize| at == 0 || tiers[at] != tiers[at - 1];
    let rows = cells_by_row.into_iter().enumerate().map(|(at, cells)| Row { ruled: is_ruled(at), cells });
    let rows: Vec<Row> = rows.collect();
    let mut columns = vec![Column::shared("Tier"), Column::words("Method")];
    columns.extend(Column::accuracies("Top-1 (%)"));
    columns.extend(Column::group("Object found (AUC)", ["token weights", "evidence"]));
    columns.extend(Column::group("Evidence on the object (%)", ["absolute", "positive"]));
    let is_marked = |cell: &Cell| matches!(cell, Cell::Text(text) if text.ends_with('†'));
    let any_marked = rows.iter().flat_map(|row| &row.cells).any(is_marked);
    let title = format!("Frozen {}", source.setting());
    let mut table = Table { id: "main".to_owned(), title, columns, rows, notes: source.notes() };
    table.notes.extend(any_marked.then(|| NOT_IN_PAPER_NOTE.to_owned()));
    table.notes.extend(choice_note(source, source.reported()));
    table.notes.extend(localization_note(source, &variants));
    let found =
        |name: &str| source.evaluated(name).filter(|probe| probe.metrics.localization.is_some()).count();
    table.notes.extend(fewer_seeds_note(source, variants.iter().map(|own| (*own, found(&own.name)))));
    table.notes.extend(other_masks_note(source, variants.iter().copied()));
    let found = |variant: &&Variant| found(&variant.name) > 0;
    table.notes.extend(other_images_note(source, variants.iter().copied().filter(found)));
    table.notes.extend(baseline_notes(source));
    table.notes.extend(baseline_images_note(source, &variants));
    table.mark_largest(3..9);
    vec![table.without_empty_columns()]
}

/// Localization of the object's mask (AUCs and shares of evidence), over seeds; empty without masks.
fn localization(source: &Source, name: &str) -> [Cell; 4] {
    let found: Vec<Localization> = source.evaluated(name).filter_map(|e| e.metrics.localization).collect();
    let over = |part: fn(&Localization) -> Option<f64>, scale: f64, digits| {
        let values: Vec<f64> = found.iter().filter_map(part).map(|value| scale * value).collect();
        Cell::over(&values, digits)
    };
    [
        over(|t| t.weight_auc, 1.0, 3),
        over(|t| t.evidence_auc, 1.0, 3),
        over(|t| t.absolute_share, 100.0, 1),
        over(|t| t.positive_share, 100.0, 1),
    ]
}

/// What the columns of [`localization`] mean, if one of the variants has any.
fn localization_note(source: &Source, variants: &[&Variant]) -> Option<String> {
    let mut evaluated = variants.iter().flat_map(|variant| source.evaluated(&variant.name));
    let metrics = &evaluated.find(|probe| probe.metrics.localization.is_some())?.metrics;
    let share = metrics.localization.and_then(|found| found.object_share)?;
    Some(format!(
        "Object found: ROC AUC with which |token weight|, and the exact evidence for the image's true class, find the \
         object's tokens by its mask, mean over {} {}, at the best epoch; 0.5 is chance. Evidence on the object: chance \
         is {:.1} %",
        metrics.masks,
        noun(metrics.masks, "image", "images"),
        100.0 * share
    ))
}

/// The baselines on tokens of the run's layers, in the order of these.
fn baselines(source: &Source) -> Vec<&Baseline> {
    let layers = source.run.manifest.layers();
    let place = |baseline: &Baseline| layers.iter().position(|layer| baseline.layer.as_ref() == Some(layer));
    let all = source.evaluations.iter().flat_map(|evaluations| &evaluations.baselines);
    let mut own: Vec<&Baseline> =
        all.filter(|baseline| baseline.layer.is_none() || place(baseline).is_some()).collect();
    own.sort_by_key(|baseline| place(baseline));
    own
}

/// The vector of a baseline, with its layer where the run has several.
fn view(source: &Source, baseline: &Baseline) -> String {
    match &baseline.layer {
        Some(layer) if source.run.manifest.layers().len() > 1 => {
            format!("{}, layer {layer}", baseline.view.name())
        }
        _ => baseline.view.name().to_owned(),
    }
}

fn baseline_title(source: &Source, baseline: &Baseline) -> String {
    format!("{} ({})", baseline.method.name(), view(source, baseline))
}

/// The cells of the [`baselines`]' rows. Baselines have neither seeds nor epochs: both accuracies are the same.
fn baseline_cells(source: &Source) -> Vec<Vec<Cell>> {
    let cells = |baseline: &Baseline| {
        let name = format!("{} †", baseline_title(source, baseline));
        let mut cells = vec![Cell::text(Tier::Floor.name()), Cell::text(name), Cell::None];
        cells.extend(vec![Cell::maybe(baseline.accuracy, 2); 2]);
        cells.extend(vec![Cell::None; 4]);
        cells
    };
    baselines(source).into_iter().map(cells).collect()
}

fn baseline_notes(source: &Source) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for baseline in baselines(source) {
        let note = format!("{}: {}; no seeds, no epochs", baseline.method.id(), baseline.settings);
        if !notes.contains(&note) {
            notes.push(note);
        }
        notes.extend(
            baseline
                .note
                .iter()
                .map(|n| format!("{} ({}): {n}", baseline.method.id(), view(source, baseline))),
        );
    }
    notes
}

/// Which baselines are of other images than the variants' probes, by the content of their files, where that is known.
fn baseline_images_note(source: &Source, variants: &[&Variant]) -> Option<String> {
    let mut probes = variants.iter().flat_map(|variant| source.evaluated(&variant.name));
    let files = probes.find_map(|probe| probe.image_files.as_ref())?;
    let is_other = |baseline: &&Baseline| baseline.image_files.as_ref().is_some_and(|own| own != files);
    let others =
        baselines(source).into_iter().filter(is_other).map(|baseline| baseline_title(source, baseline));
    let others = others.collect::<Vec<_>>().join(", ");
    (!others.is_empty()).then(|| {
        format!(
            "On images with other contents than the probes, and not comparable: {others}; `ssmprobe eval --run RUN \
             --baselines` evaluates all on the same images"
        )
    })
}
