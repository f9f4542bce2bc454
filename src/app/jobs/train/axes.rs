//! Layers and learning rates as sweep axes: one run trains every head on the tokens of each layer, at each rate.
//! A variant is called `head[layer=L,rate=R]`; settings of a grid come before these.

use std::fmt::Display;

use super::sweep::MAX_VARIANTS;
use super::{TrainSettings, TrainingError};
use crate::model::backbone::token_spec::Layer;
use crate::model::train::run::{Selection, Variant, variant_name};

impl TrainSettings {
    /// Every one of `heads` with every layer and rate, the rate changing fastest; `heads` themselves where neither is an
    /// axis.
    ///
    /// # Errors
    /// If a layer or a rate is repeated, or there are more variants than a run holds.
    pub fn spread(&self, heads: Vec<Variant>) -> Result<Vec<Variant>, TrainingError> {
        check_unique("--layers", &self.layers)?;
        check_unique("--rates", &self.rates)?;
        let layers = axis(&self.layers);
        let rates = axis(&self.rates);
        let count = heads.len().saturating_mul(layers.len() * rates.len());
        if count > MAX_VARIANTS {
            return Err(TrainingError::Refused(format!(
                "heads by layers by rates make {count} variants, and a run holds at most {MAX_VARIANTS}; train them in parts"
            )));
        }
        let mut all = Vec::with_capacity(count);
        for head in heads {
            for &layer in &layers {
                all.extend(rates.iter().map(|&rate| Variant {
                    name: name(&head.name, layer, rate),
                    layer,
                    rate,
                    ..head.clone()
                }));
            }
        }
        Ok(all)
    }
}

/// The values of an axis, or a single `None` if it has none.
fn axis<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

fn check_unique<T: PartialEq + Display>(flag: &str, values: &[T]) -> Result<(), TrainingError> {
    let twice = (1..values.len()).find(|&at| values[..at].contains(&values[at]));
    twice.map_or(Ok(()), |at| {
        let value = &values[at];
        Err(TrainingError::Refused(format!("{flag}: {value} is given twice; give each value once")))
    })
}

fn name(head: &str, layer: Option<Layer>, rate: Option<f64>) -> String {
    let layer = layer.map(|layer| ("layer", layer.to_string()));
    let rate = rate.map(|rate| ("rate", rate.to_string()));
    variant_name::with_settings(head, layer.into_iter().chain(rate))
}

/// Refuses to select among layers or rates on the test images.
pub(super) fn check_selection(heads: &[Variant], selection: Selection) -> Result<(), TrainingError> {
    let cell = |variant: &Variant| (variant.layer, variant.rate.map(f64::to_bits));
    match heads.iter().any(|variant| cell(variant) != cell(&heads[0])) && selection == Selection::Test {
        true => Err(TrainingError::Refused(
            "several layers or rates are compared on images used neither for training nor for the reported accuracy, and \
             this dataset has none: set some aside, for example with --select-split 0.1"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::probe::head::Config;

    fn settings(layers: &[Option<usize>], rates: &[f64]) -> TrainSettings {
        let layers = layers.iter().copied().map(Layer).collect();
        TrainSettings { layers, rates: rates.to_vec(), ..TrainSettings::default() }
    }

    #[test]
    fn every_head_is_there_with_every_layer_and_rate() {
        let point = Variant::new("sinkhorn[temperature=0.1]", "sinkhorn", Config::default());
        let heads = vec![Variant::new("gap", "gap", Config::default()), point];
        assert_eq!(settings(&[], &[]).spread(heads.clone()).unwrap(), heads);
        let all = settings(&[Some(3), None], &[1e-4, 1e-3]).spread(heads.clone()).unwrap();
        let names: Vec<&str> = all.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[..2], ["gap[layer=3,rate=0.0001]", "gap[layer=3,rate=0.001]"]);
        assert_eq!(names[6], "sinkhorn[temperature=0.1,layer=last,rate=0.0001]");
        assert_eq!(
            (all[7].layer, all[7].rate, all[7].head.as_str()),
            (Some(Layer(None)), Some(1e-3), "sinkhorn")
        );
        let rates = settings(&[], &[0.1]).spread(heads).unwrap();
        assert_eq!((rates[0].name.as_str(), rates[0].layer), ("gap[rate=0.1]", None));
    }

    #[test]
    fn what_stands_twice_or_is_too_much_is_refused() {
        let head = vec![Variant::new("gap", "gap", Config::default())];
        let fault = |settings: TrainSettings| settings.spread(head.clone()).unwrap_err().to_string();
        assert!(fault(settings(&[Some(1), Some(1)], &[])).contains("--layers: 1 is given twice"));
        assert!(fault(settings(&[], &[0.1, 1e-1])).contains("--rates: 0.1 is given twice"));
        let rates: Vec<f64> = (1..=1025).map(f64::from).collect();
        assert!(fault(settings(&[], &rates)).contains("1025 variants"));
    }

    #[test]
    fn what_is_compared_is_picked_on_held_out_images() {
        let head = vec![Variant::new("gap", "gap", Config::default())];
        let two = settings(&[], &[0.1, 0.2]).spread(head.clone()).unwrap();
        let error = check_selection(&two, Selection::Test).unwrap_err().to_string();
        assert!(error.contains("--select-split 0.1"), "{error}");
        assert!(check_selection(&two, Selection::PartOfTrain(0.1)).is_ok());
        assert!(check_selection(&two, Selection::Val).is_ok());
        let one = settings(&[Some(2)], &[0.1]).spread(head.clone()).unwrap();
        assert!(
            check_selection(&one, Selection::Test).is_ok() && check_selection(&head, Selection::Test).is_ok()
        );
    }
}
