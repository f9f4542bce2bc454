//! What every probe makes of every image, as files: `<probe>.survey.json`, which `ssmprobe figures
//! --evaluation` draws as the window does, and `<probe>.csv` with one row an image.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::eval_probes::Question;
use crate::app::jobs::evaluate::eval_set;
use crate::model::data::Dataset;
use crate::model::data::token_cache::TokenCache;
use crate::model::explain::diagnostics::MEASURES;
use crate::model::explain::evaluation::evaluator::{Evaluator, TOP};
use crate::model::explain::evaluation::{CONFIDENCE, ENDING, EvalSet, Evaluation, OTHER, OWN};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::NullBands;
use crate::model::io::atomic_file;
use crate::model::io::csv_cell::word;
use crate::model::probe::Probe;

/// Images asked about at once.
const BATCH: usize = 64;

/// The images, and where the files go.
pub struct EvaluationFiles {
    folder: PathBuf,
    asked: Arc<EvalSet>,
    places: Vec<usize>,
    draws: Vec<u64>,
}

impl EvaluationFiles {
    /// Of all images of a question, readable or not.
    pub fn new(folder: &Path, dataset: &Dataset, question: &Question) -> anyhow::Result<Self> {
        atomic_file::make_folder(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        let (places, draws) = (question.asked.images.clone(), question.draws.clone());
        let asked = Arc::new(eval_set(dataset, question.split, &places));
        Ok(Self { folder: folder.to_owned(), asked, places, draws })
    }

    /// Asks a probe and writes both files, called `name`; none of them if `told` wants to stop.
    pub fn write(
        &self,
        name: &str,
        probe: &Probe,
        cache: &TokenCache,
        nulls: &NullBands,
        told: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<[PathBuf; 2]>> {
        let images = (&self.places[..], &self.draws[..]);
        let mut interview =
            Evaluator::new(probe, Intervention::None, cache, self.asked.clone(), images, nulls)?;
        while interview.go_on(BATCH)? {
            if !told() {
                return Ok(None);
            }
        }
        let tops: Vec<Vec<(String, f32)>> =
            (0..self.places.len()).map(|image| interview.top(image)).collect();
        let evaluation = interview.finish(name.to_owned(), probe.meta.backbone.id.clone());
        let [text, table] = [ENDING, "csv"].map(|ending| self.folder.join(format!("{name}.{ending}")));
        let unwritable = |path: &Path| format!("{}: cannot be written", path.display());
        let json = evaluation.to_json()?;
        atomic_file::write(&text, json.as_bytes()).with_context(|| unwritable(&text))?;
        atomic_file::write_with(&table, |file| rows(&evaluation, &tops, file))
            .with_context(|| unwritable(&table))?;
        Ok(Some([text, table]))
    }
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
