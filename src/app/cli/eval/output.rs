//! The results of an evaluation, as a table and as JSON.

use crate::app::cli::prelude::*;
use crate::app::jobs::evaluate::verb::{EvaluatedProbe, ProbeFile};
use crate::app::report::FORMATS;
use crate::app::report::table::{Cell, Column, Row, Table};
use crate::model::explain::ablation::Ablation;
use crate::model::explain::baselines::Baseline;
use crate::model::explain::evaluation::metrics::Metrics;
use crate::model::explain::evaluation::stability::COLUMNS;
use crate::model::explain::intervention::Intervention;

/// The JSON document of a probe.
pub fn document(file: &ProbeFile, reading: &Intervention, metrics: &Metrics) -> Value {
    let (head, seed, which) = match &file.of {
        Some((head, seed, which)) => (Some(head), Some(seed), Some(which.name())),
        None => (None, None, None),
    };
    json!({
        "event": "probe",
        "probe": file.path.display().to_string(),
        "head": head,
        "seed": seed,
        "which": which,
        "reading": reading.to_string(),
        "evaluation": metrics,
    })
}

/// The table of all results in Markdown: a row for each probe, then one for each baseline.
pub fn table(title: &str, probes: &[EvaluatedProbe], baselines: &[Baseline]) -> String {
    let mut columns = vec![Column::words("Probe"), Column::numbers("Accuracy (%)")];
    let disturbed = |ablation: &Ablation| Column::numbers(ablation.name()).within("Order disturbed (%)");
    columns.extend(Ablation::ALL[1..].iter().map(disturbed));
    columns.extend(Column::group("AUC", ["token weights", "evidence"]));
    columns.extend(Column::group("Evidence on object (%)", ["absolute", "positive"]));
    let mut kept: Vec<usize> =
        probes.iter().flat_map(|probe| &probe.metrics.last).map(|kept| kept.tokens).collect();
    kept.sort_unstable();
    kept.dedup();
    columns.extend(
        kept.iter().map(|tokens| Column::numbers(tokens.to_string()).within("Last tokens alone (%)")),
    );
    columns.extend(COLUMNS.map(|(_, name)| Column::numbers(name).within("Order kept (tau)")));
    let mut rows: Vec<Row> =
        names(probes).into_iter().zip(probes).map(|(name, probe)| row(name, &probe.metrics, &kept)).collect();
    for (index, baseline) in baselines.iter().enumerate() {
        let name = format!("{} ({})", baseline.method.id(), baseline.view.name());
        let mut cells = vec![Cell::text(name), Cell::maybe(baseline.accuracy, 2)];
        cells.resize(columns.len(), Cell::None);
        rows.push(Row { ruled: index == 0, cells });
    }
    let mut notes: Vec<String> = Vec::new();
    if probes.iter().any(|probe| !probe.metrics.ablations.is_empty()) {
        notes.push("Disturbed orders: at evaluation only, nothing was retrained".to_owned());
    }
    let known =
        |probe: &EvaluatedProbe| Some((probe.metrics.masks, probe.metrics.localization?.object_share?));
    if let Some((masks, share)) = probes.iter().find_map(known) {
        let images = counted(masks, "image", "images");
        notes.push(format!("{images} with a known object, which covers {:.1} % on average", 100.0 * share));
    }
    for baseline in baselines {
        notes.extend(
            baseline.note.iter().map(|n| format!("{} ({}): {n}", baseline.method.id(), baseline.view.name())),
        );
    }
    let table = Table { id: "eval".into(), title: title.to_owned(), columns, rows, notes };
    (FORMATS[0].render)(&table.without_empty_columns())
}

/// The name of every probe, or its path where another has the same name.
fn names(probes: &[EvaluatedProbe]) -> Vec<String> {
    let names: Vec<String> = probes.iter().map(|probe| probe.file.name()).collect();
    let is_shared = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
    let named = |(probe, name): (&EvaluatedProbe, &String)| match is_shared(name) {
        true => probe.file.path.display().to_string(),
        false => name.clone(),
    };
    probes.iter().zip(&names).map(named).collect()
}

/// The row of the probe `name`; `kept` are the numbers of last tokens that have a column.
fn row(name: String, metrics: &Metrics, kept: &[usize]) -> Row {
    let mut cells = vec![Cell::text(name), Cell::number(metrics.accuracy, 2)];
    for ablation in &Ablation::ALL[1..] {
        let outcome = metrics.ablations.iter().find(|outcome| outcome.ablation == *ablation);
        cells.push(Cell::maybe(outcome.map(|outcome| outcome.accuracy), 2));
    }
    let found = metrics.localization.unwrap_or_default();
    cells.push(Cell::maybe(found.weight_auc, 3));
    cells.push(Cell::maybe(found.evidence_auc, 3));
    cells.push(Cell::maybe(found.absolute_share.map(|share| 100.0 * share), 1));
    cells.push(Cell::maybe(found.positive_share.map(|share| 100.0 * share), 1));
    for tokens in kept {
        let own = metrics.last.iter().find(|kept| kept.tokens == *tokens);
        cells.push(Cell::maybe(own.map(|kept| kept.accuracy), 2));
    }
    for (_, name) in COLUMNS {
        let own = metrics.stability.iter().find(|kind| kind.name == name);
        cells.push(Cell::maybe(own.map(|kind| kind.mean), 3));
    }
    Row { ruled: false, cells }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::explain::evaluation::metrics::LastTokens;
    use crate::model::explain::localization::Localization;

    #[test]
    fn a_number_of_last_tokens_has_one_column_and_shares_are_in_percent() {
        let probe = |name: &str, last: &[usize]| {
            let last = last
                .iter()
                .map(|&tokens| LastTokens { tokens, accuracy: tokens as f64, ..LastTokens::default() })
                .collect();
            let localization = Some(Localization { positive_share: Some(0.125), ..Localization::default() });
            let metrics = Metrics { last, localization, ..Metrics::default() };
            EvaluatedProbe { file: ProbeFile::of_file(Path::new(name)), sha256: String::new(), metrics }
        };
        let table = table("Two probes", &[probe("a", &[1, 10]), probe("b", &[1, 4, 10])], &[]);
        let words = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        let rows: Vec<Vec<String>> = table.lines().filter(|line| line.starts_with('|')).map(words).collect();
        let last = [1, 4, 10].map(|tokens| format!("Last tokens alone (%) {tokens}"));
        assert_eq!(rows[0][3], "Evidence on object (%) positive", "{table}");
        assert_eq!(rows[0][4..7], last, "{table}");
        assert_eq!(rows[3], ["", "b", "0.00", "12.5", "1.00", "4.00", "10.00", ""], "{table}");
    }
}
