//! What every probe makes of every image, as files: `<probe>.survey.json`, which `ssmprobe figures
//! --evaluation` draws as the window does, and `<probe>.csv` with one row an image.

use std::path::PathBuf;

use crate::app::jobs::result_file::ResultFile;
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::evaluation::evaluator::{Evaluator, TOP};
use crate::model::explain::evaluation::removals::COLUMNS;
use crate::model::explain::evaluation::{CONFIDENCE, ENDING, Evaluation, ORDER, OTHER, OWN};
use crate::model::explain::intervention::Intervention;
use crate::model::io::csv_cell::word;

/// Both files of a probe, called `name` and read with `change`.
pub(super) fn survey(
    name: &str,
    evaluator: Evaluator<'_>,
    backbone: String,
    change: &Intervention,
) -> anyhow::Result<[ResultFile; 2]> {
    let tops: Vec<Vec<(String, f32)>> = (0..evaluator.done()).map(|image| evaluator.top(image)).collect();
    let mut evaluation = evaluator.finish(name.to_owned(), backbone);
    evaluation.change = if change.is_none() { String::new() } else { change.to_string() };
    let [text, table] = [ENDING, "csv"].map(|ending| PathBuf::from(format!("{name}.{ending}")));
    let json = ResultFile { path: text, bytes: evaluation.to_json()?.into_bytes() };
    Ok([json, ResultFile::new(table, |file| rows(&evaluation, &tops, file))?])
}

/// One row an image; of one that could not be read its name and class alone.
fn rows(
    evaluation: &Evaluation,
    tops: &[Vec<(String, f32)>],
    file: impl std::io::Write,
) -> anyhow::Result<()> {
    let mut table = csv::Writer::from_writer(file);
    let measures: Vec<&str> = [OWN]
        .into_iter()
        .chain(MEASURES.iter().map(|m| m.name))
        .chain(ORDER)
        .chain(COLUMNS.iter().map(|column| column.name.as_str()))
        .filter(|m| evaluation.values(m).is_some())
        .collect();
    let mut header = ["image", "class", "prediction", "correct", "probability"].map(str::to_owned).to_vec();
    header.extend((1..=TOP).flat_map(|place| [format!("top_{place}"), format!("top_{place}_probability")]));
    header.extend(measures.iter().map(|measure| (*measure).to_owned()));
    table.write_record(&header)?;
    let number = |value: f32| if value.is_finite() { value.to_string() } else { String::new() };
    for (image, top) in tops.iter().enumerate() {
        let class = &evaluation.asked.classes[evaluation.asked.class[image] as usize];
        let mut cells = vec![word(&evaluation.asked.images[image]).into_owned(), word(class).into_owned()];
        // A class of the probe that the dataset does not know has its own name.
        let best = top.first().map_or("", |(name, _)| name);
        let known = evaluation.readable(image) && evaluation.predicted[image] != OTHER;
        cells.push(word(if known { evaluation.predicted_name(image) } else { best }).into_owned());
        cells.push(evaluation.right(image).map_or(String::new(), |right| u8::from(right).to_string()));
        let of =
            |measure: &str| evaluation.values(measure).map_or(String::new(), |values| number(values[image]));
        cells.push(of(CONFIDENCE));
        for place in 0..TOP {
            let (name, probability) = top.get(place).cloned().unwrap_or((String::new(), f32::NAN));
            cells.extend([word(&name).into_owned(), number(probability)]);
        }
        cells.extend(measures.iter().map(|measure| of(measure)));
        table.write_record(&cells)?;
    }
    Ok(table.flush()?)
}
