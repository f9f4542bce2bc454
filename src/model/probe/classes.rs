//! Which class of a dataset is which of a probe.
//!
//! The same list on both sides is the same class for class, names that stand in it twice included
//! (ImageNet has two cranes). Otherwise classes are matched by their names, and a name that both sides
//! know but one has twice is refused: nothing says which of the two is meant.

use std::collections::HashMap;

use super::{Probe, ProbeError};

impl Probe {
    /// Of every class of a dataset, the number this probe gives it, where it knows it.
    ///
    /// # Errors
    /// If the probe's classes have no names and are of another number, or a name is ambiguous.
    pub fn numbers(&self, classes: &[String]) -> Result<Vec<Option<usize>>, ProbeError> {
        let names = &self.meta.classes;
        if names.is_empty() && self.classes() != classes.len() {
            let (file, expected, found) = (self.file.clone(), classes.len(), self.classes());
            return Err(ProbeError::Unnamed { file, expected, found });
        }
        if names.is_empty() || names == classes {
            return Ok((0..classes.len()).map(Some).collect());
        }
        let mut places: HashMap<&str, (usize, usize)> = HashMap::new(); // the first, and how many
        for (number, name) in names.iter().enumerate() {
            places.entry(name).or_insert((number, 0)).1 += 1;
        }
        let mut met: HashMap<&str, usize> = HashMap::new();
        classes.iter().for_each(|name| *met.entry(name).or_default() += 1);
        let number = |name: &String| match places.get(name.as_str()) {
            None => Ok(None),
            Some((number, 1)) if met[name.as_str()] == 1 => Ok(Some(*number)),
            Some((_, own)) => Err(ProbeError::Ambiguous {
                file: self.file.clone(),
                name: name.clone(),
                own: *own,
                other: met[name.as_str()],
            }),
        };
        classes.iter().map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BackboneMeta, Classifier, FORMAT, Meta};
    use super::*;
    use crate::model::io::array::Arrays;
    use crate::model::probe::head::Config;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn numbers(probe: &[&str], count: usize, dataset: &[&str]) -> Result<Vec<Option<usize>>, String> {
        let meta = Meta {
            format: FORMAT,
            head: "gap".into(),
            config: Config::default(),
            backbone: BackboneMeta { hidden_size: 1, ..BackboneMeta::default() },
            classes: list(probe),
            training: None,
            rest: serde_json::Map::new(),
        };
        let classifier = Classifier { weight: vec![0.0; count], bias: vec![0.0; count] };
        let probe = Probe::new(meta, Arrays::new(), classifier);
        probe.numbers(&list(dataset)).map_err(|error| error.to_string())
    }

    #[test]
    fn two_cranes_are_told_apart_by_their_place_alone() {
        let birds = ["crane", "finch", "crane"];
        assert_eq!(numbers(&birds, 3, &birds).unwrap(), [Some(0), Some(1), Some(2)]);
        for (probe, dataset) in [(&birds[..], &birds[..2]), (&birds[..2], &birds[..])] {
            let error = numbers(probe, probe.len(), dataset).unwrap_err();
            assert!(error.contains("`crane`") && error.contains("twice"), "{error}");
        }
        // Twice where the other side knows none is no question.
        assert_eq!(numbers(&birds, 3, &["finch", "wren"]).unwrap(), [Some(1), None]);
        assert_eq!(numbers(&["finch"], 1, &birds).unwrap(), [None, Some(0), None]);
    }

    #[test]
    fn the_same_names_in_another_order_are_matched_by_name() {
        let found = numbers(&["crane", "finch", "wren"], 3, &["wren", "crane", "finch"]);
        assert_eq!(found.unwrap(), [Some(2), Some(0), Some(1)]);
    }

    #[test]
    fn without_names_the_number_of_classes_must_be_the_same() {
        assert_eq!(numbers(&[], 2, &["a", "b"]).unwrap(), [Some(0), Some(1)]);
        assert!(numbers(&[], 3, &["a", "b"]).unwrap_err().contains("knows 3 classes without names"));
    }
}
