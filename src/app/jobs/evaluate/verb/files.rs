//! The results of every probe on every image, as files: `<probe>.survey.json`, which `ssmprobe figures
//! --evaluation` draws as the window does, and one row per image in `<probe>.csv`, `<probe>.parquet` or both.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::app::jobs::result_file::ResultFile;
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::evaluation::evaluator::{Evaluator, TOP};
use crate::model::explain::evaluation::removals::COLUMNS;
use crate::model::explain::evaluation::stability;
use crate::model::explain::evaluation::{CONFIDENCE, ENDING, Evaluation, ORDER, OTHER, OWN, Provenance};
use crate::model::io::columns::{self, Column, Values};

/// A format of tables of images.
#[expect(missing_docs, reason = "each is its name")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RowFormat {
    Csv,
    Parquet,
}

/// The files of the probe `name`: the JSON, and its rows in each of `formats`.
pub(super) fn result_files(
    name: &str,
    evaluator: Evaluator<'_>,
    (backbone, provenance): (String, Provenance),
    formats: &[RowFormat],
) -> anyhow::Result<Vec<ResultFile>> {
    let tops: Vec<Vec<(String, f32)>> = (0..evaluator.done()).map(|image| evaluator.top(image)).collect();
    let mut evaluation = evaluator.finish(name.to_owned(), backbone);
    evaluation.provenance = Some(provenance);
    let file =
        |ending: &str, bytes: Vec<u8>| ResultFile { path: PathBuf::from(format!("{name}.{ending}")), bytes };
    let mut files = vec![file(ENDING, evaluation.to_json()?.into_bytes())];
    let rows = rows(&evaluation, &tops);
    if formats.contains(&RowFormat::Csv) {
        files.push(file("csv", columns::csv(&rows)));
    }
    if formats.contains(&RowFormat::Parquet) {
        let about = [("probe", name), ("reading", &evaluation.change), ("dataset", &evaluation.set.dataset)];
        files.push(file("parquet", columns::parquet(&rows, &about)?));
    }
    Ok(files)
}

/// A table with one row per image; an image that could not be read has values only for its name and class.
fn rows(evaluation: &Evaluation, tops: &[Vec<(String, f32)>]) -> Vec<Column> {
    let number = |value: f32| Some(value).filter(|value| value.is_finite());
    let measured = |measure: &str| match evaluation.values(measure) {
        Some(values) => values[..tops.len()].iter().map(|value| number(*value)).collect(),
        None => vec![None; tops.len()],
    };
    let text =
        |of: &dyn Fn(usize) -> String| Values::Text((0..tops.len()).map(|image| Some(of(image))).collect());
    let prediction = |image: usize| {
        // A class of the probe that the dataset lacks goes by the probe's name for it.
        let known = evaluation.readable(image) && evaluation.predicted[image] != OTHER;
        match known {
            true => evaluation.predicted_name(image).to_owned(),
            false => tops[image].first().map_or(String::new(), |(name, _)| name.clone()),
        }
    };
    let set = &evaluation.set;
    let right = (0..tops.len()).map(|image| evaluation.is_correct(image).map(i32::from));
    let mut columns = vec![
        Column::new("image", text(&|image| set.images[image].clone())),
        Column::new("class", text(&|image| set.classes[set.class[image] as usize].clone())),
        Column::new("prediction", text(&prediction)),
        Column::new("correct", Values::Int32(right.collect())),
        Column::new("probability", Values::Float32(measured(CONFIDENCE))),
    ];
    for place in 0..TOP {
        let name = |image: usize| tops[image].get(place).map_or(String::new(), |(name, _)| name.clone());
        let probability = tops.iter().map(|top| number(top.get(place)?.1));
        columns.push(Column::new(format!("top_{}", place + 1), text(&name)));
        let title = format!("top_{}_probability", place + 1);
        columns.push(Column::new(title, Values::Float32(probability.collect())));
    }
    let measures = [OWN].into_iter().chain(MEASURES.iter().map(|m| m.name)).chain(ORDER);
    let measures = measures.chain(COLUMNS.iter().map(|column| column.name.as_str()));
    let measures = measures.chain(stability::COLUMNS.iter().map(|(name, _)| *name));
    let available = measures.filter(|measure| evaluation.values(measure).is_some());
    columns.extend(available.map(|measure| Column::new(measure, Values::Float32(measured(measure)))));
    columns
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::explain::evaluation::EvalSet;

    #[test]
    fn a_class_that_the_dataset_lacks_is_named_and_an_unreadable_image_is_neither_right_nor_wrong() {
        let set = EvalSet {
            classes: vec!["wren".to_owned()],
            images: ["a", "b", "c"].map(str::to_owned).into(),
            class: vec![0; 3],
            ..EvalSet::default()
        };
        let evaluation = Evaluation {
            set: Arc::new(set),
            predicted: vec![0, OTHER, OTHER],
            measures: [(CONFIDENCE, vec![0.75, 0.5, f32::NAN])].into(),
            ..Evaluation::default()
        };
        let top = |name: &str| vec![(name.to_owned(), 0.5)];
        let csv = columns::csv(&rows(&evaluation, &[top("wren"), top("owl"), Vec::new()]));
        let csv = String::from_utf8(csv).unwrap();
        let first_four = csv.lines().skip(1).map(|row| row.split(',').take(4).collect::<Vec<_>>());
        let found = [["a", "wren", "wren", "1"], ["b", "wren", "owl", "0"], ["c", "wren", "", ""]];
        assert_eq!(first_four.collect::<Vec<_>>(), found);
    }
}
