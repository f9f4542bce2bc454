//! An evaluation as JSON, so that its figures can be drawn again without weights and dataset. NaN is stored as
//! `null`.

use indexmap::IndexMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::removals::COLUMNS;
use super::stability;
use super::vectors::KeptVectors;
use super::{CONFIDENCE, ClassMaps, EvalSet, Evaluation, ORDER, OTHER, OWN};
use crate::model::explain::diagnostics::MEASURES;
use crate::model::io::null_as_nan;

/// Ending of the files' names, from an earlier word for an evaluation: kept so that old files are still found.
pub const ENDING: &str = "survey.json";

/// Why a text is not an evaluation.
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("is not what `ssmprobe eval --evaluation` writes (<probe>.{ENDING}): {0}")]
    Json(#[from] serde_json::Error),
    #[error("is inconsistent: {0}; evaluate the dataset again")]
    Torn(String),
}

/// Reads numbers, `null` as NaN.
pub(super) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
    Vec::deserialize(from).map(null_as_nan)
}

/// The static name equal to `name` in the lists of measures.
fn measure<E: Error>(name: &str) -> Result<&'static str, E> {
    let diagnostics = MEASURES.iter().map(|measure| measure.name);
    let removals = COLUMNS.iter().map(|column| column.name.as_str());
    let all = [CONFIDENCE, OWN].into_iter().chain(diagnostics).chain(ORDER).chain(removals);
    let stability = stability::COLUMNS.iter().map(|(name, _)| *name);
    all.chain(stability)
        .find(|known| *known == name)
        .ok_or_else(|| E::custom(format_args!("unknown measure {name}")))
}

/// Reads values by the names of their measures.
pub(super) fn by_measure<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<IndexMap<&'static str, T>, D::Error> {
    let named = IndexMap::<String, T>::deserialize(from)?;
    named.into_iter().map(|(name, value)| Ok((measure(&name)?, value))).collect()
}

/// Reads one number per image by the names of their measures.
pub(super) fn columns<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<IndexMap<&'static str, Vec<f32>>, D::Error> {
    let columns = by_measure(from)?;
    Ok(columns.into_iter().map(|(name, values)| (name, null_as_nan(values))).collect())
}

// `remote = "Self"` derives inherent functions, which the traits below call: `deserialize` adds a check.

impl Serialize for Evaluation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for Evaluation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Self::deserialize(from)?;
        read.check().map_err(D::Error::custom)?;
        Ok(read)
    }
}

impl Evaluation {
    /// The evaluation as JSON.
    pub fn to_json(&self) -> Result<String, FileError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Parses the output of [`to_json`](Self::to_json).
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = Self::deserialize(&mut json)?;
        json.end()?;
        read.check()?;
        Ok(read)
    }

    /// An error if its parts do not fit each other.
    fn check(&self) -> Result<(), FileError> {
        let EvalSet { classes, images, class, .. } = &*self.set;
        let (images, classes) = (images.len(), classes.len());
        let inconsistent = |what: &str| Err(FileError::Torn(what.to_owned()));
        if class.len() != images || self.predicted.len() != images {
            return inconsistent("there is not one class per image");
        }
        if class.iter().any(|class| *class as usize >= classes)
            || self.predicted.iter().any(|class| *class != OTHER && *class as usize >= classes)
        {
            return inconsistent("an image has an unnamed class");
        }
        if self.measures.values().any(|values| values.len() != images) {
            return inconsistent("there is not one measure per image");
        }
        if self.grid.is_empty() {
            return inconsistent("the patch grid is empty");
        }
        if self.regions.as_ref().is_some_and(|regions| !regions.holds(images)) {
            return inconsistent("there is not one region per image, or per pair");
        }
        let is_complete = |kept: &KeptVectors| match kept {
            KeptVectors::Float16(vectors) => {
                images.checked_mul(self.grid.len()) == Some(vectors.values().len())
            }
            KeptVectors::None(_) => true,
        };
        if !self.vectors.values().all(is_complete) {
            return inconsistent("vectors do not have one number per token and image");
        }
        let fits = |maps: &ClassMaps| {
            let total: u64 = maps.counts.iter().map(|&count| u64::from(count)).sum();
            let of_classes = maps.counts.len() == classes && maps.values.len() == classes * self.grid.len();
            of_classes && total <= images as u64
        };
        if ![&self.positions, &self.weights].into_iter().flatten().all(fits) {
            return inconsistent("there is not one map per class, of the evaluated images");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use half::f16;

    use super::super::Provenance;
    use super::super::regions::{RegionMeans, RegionSummary};
    use super::super::vectors::{TokenVectors, VectorKind};
    use super::*;
    use crate::model::explain::null_model::MeanNull;
    use crate::model::grid::Grid;

    fn evaluation() -> Evaluation {
        let set = EvalSet {
            dataset: "birds".into(),
            split: "test".into(),
            classes: ["crane", "heron"].map(str::to_owned).into(),
            images: ["a.png", "b.png"].map(str::to_owned).into(),
            class: vec![0, 1],
        };
        Evaluation {
            set: Arc::new(set),
            probe: "sinkhorn".into(),
            head: "sinkhorn".into(),
            change: "no routing".into(),
            backbone: "tiny".into(),
            grid: Grid::new(1, 2),
            predicted: vec![1, OTHER],
            measures: IndexMap::from([(CONFIDENCE, vec![0.1, f32::NAN]), ("rank_coverage", vec![0.6, 0.7])]),
            nulls: IndexMap::from([("rank_coverage", (0.5, 0.65))]),
            mean_nulls: IndexMap::from([("rank_coverage", MeanNull { mean: 0.6, reach: 0.07, draws: 64 })]),
            positions: Some(ClassMaps { values: vec![0.1, 0.9, f32::NAN, f32::NAN], counts: vec![1, 0] }),
            vectors: IndexMap::from([
                (
                    VectorKind::Routing,
                    KeptVectors::Float16(TokenVectors::new([0.0, 1.0, 0.5, 0.25].map(f16::from_f32).into())),
                ),
                (VectorKind::Weight, KeptVectors::None("by channel".into())),
            ]),
            provenance: Some(Provenance { weights: "ce02".into(), ..Provenance::new() }),
            ..Evaluation::default()
        }
    }

    #[test]
    fn an_evaluation_survives_its_file() {
        let evaluation = evaluation();
        let text = evaluation.to_json().unwrap();
        let read = Evaluation::from_json(&text).unwrap();
        assert_eq!(read.to_json().unwrap(), text);
        assert_eq!(
            (&read.set, &read.predicted, &read.nulls, &read.change),
            (&evaluation.set, &evaluation.predicted, &evaluation.nulls, &evaluation.change)
        );
        assert_eq!((&read.mean_nulls, &read.vectors), (&evaluation.mean_nulls, &evaluation.vectors));
        assert_eq!(read.provenance, evaluation.provenance);
        // A file of an earlier version, without `mean_nulls`, `vectors` and `provenance`, is read and written unchanged.
        let from = text.find(",\"mean_nulls\"").unwrap();
        let to = from + text[from..].find("}}").unwrap() + 2;
        let vectors = text.find(",\"vectors\"").unwrap();
        let earlier = text[..from].to_owned() + &text[to..vectors] + "}";
        assert_eq!(Evaluation::from_json(&earlier).unwrap().to_json().unwrap(), earlier);
        assert!(read.measures[CONFIDENCE][1].is_nan() && read.positions.unwrap().values[3].is_nan());
    }

    #[test]
    fn what_does_not_hold_together_is_refused() {
        let good = evaluation().to_json().unwrap();
        for (from, to, words) in [
            ("\"class\":[0,1]", "\"class\":[0,7]", "unnamed class"),
            ("\"class\":[0,1]", "\"class\":[0]", "one class per image"),
            ("\"predicted\":[1,4294967295]", "\"predicted\":[1]", "one class per image"),
            ("\"predicted\":[1,4294967295]", "\"predicted\":[2,4294967295]", "unnamed class"),
            ("\"rank_coverage\":[0.6,0.7]", "\"rank_coverage\":[0.6]", "one measure per image"),
            ("\"rank_coverage\":[0.6,0.7]", "\"colour\":[0.6,0.7]", "unknown measure colour"),
            ("\"counts\":[1,0]", "\"counts\":[1]", "one map per class"),
            ("\"counts\":[1,0]", "\"counts\":[4294967295,1]", "of the evaluated images"),
            ("AAAAPAA4ADQ=", "AAAAPAA4", "one number per token"),
            ("AAAAPAA4ADQ=", "no base64", "eval --evaluation"),
            ("\"routing\":{", "\"colour\":{", "eval --evaluation"),
            ("\"format\":1", "\"format\":2", "`format` is 2; this program reads 1"),
            ("\"cols\":2", "\"cols\":18446744073709551615", "patch grid"),
        ] {
            assert!(good.contains(from), "{from}: {good}");
            let error = Evaluation::from_json(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert!(Evaluation::from_json("{}").unwrap_err().to_string().contains("eval --evaluation"));
        let means = RegionMeans { positions: vec![Some(0.5)], ..RegionMeans::default() };
        let regions = Some(RegionSummary { images: 1, regions: vec![means], ..RegionSummary::default() });
        let torn = Evaluation { regions, ..evaluation() }.to_json().unwrap();
        assert!(Evaluation::from_json(&torn).unwrap_err().to_string().contains("one region per image"));
        assert!(Evaluation::from_json(&(good + "{}")).unwrap_err().to_string().contains("trailing"));
    }
}
