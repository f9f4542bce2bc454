//! Matches the classes of a dataset with those of a probe.
//!
//! Where both lists are equal, classes are matched by index, names that occur twice included
//! (ImageNet has two cranes). Otherwise they are matched by name, and a name that both lists
//! hold but one holds twice is refused, since it is ambiguous.

use std::collections::HashMap;

use super::{Probe, ProbeError};

/// The word that asks [`Probe::class`] for a class: its name, with its number where others have that name, as `crane (134)`. `None`
/// if there is no such class.
pub fn class_word(names: &[String], class: usize) -> Option<String> {
    let name = names.get(class)?;
    let is_shared = names.iter().filter(|other| *other == name).count() > 1;
    Some(if is_shared { numbered(names, class) } else { name.clone() })
}

/// The [word](class_word) of each class.
pub fn class_words(names: &[String]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    let word = |class: usize| match counts[&*names[class]] {
        1 => names[class].clone(),
        _ => numbered(names, class),
    };
    (0..names.len()).map(word).collect()
}

pub(super) fn numbered(names: &[String], class: usize) -> String {
    format!("{} ({class})", names[class])
}

/// The class that [`numbered`] calls so.
pub(super) fn by_number(names: &[String], word: &str) -> Option<usize> {
    let (name, number) = word.strip_suffix(')')?.rsplit_once(" (")?;
    number.parse().ok().filter(|class| names.get(*class).is_some_and(|own| own == name))
}

impl Probe {
    /// For every class of a dataset, its index in this probe; `None` where the probe does not know it.
    ///
    /// # Errors
    /// If the probe's classes have no names and their number differs, or a name is ambiguous.
    pub fn numbers(&self, classes: &[String]) -> Result<Vec<Option<usize>>, ProbeError> {
        let names = &self.meta.classes;
        if names.is_empty() && self.classes() != classes.len() {
            let (file, expected, found) = (self.file.clone(), classes.len(), self.classes());
            return Err(ProbeError::Unnamed { file, expected, found });
        }
        if names.is_empty() || names == classes {
            return Ok((0..classes.len()).map(Some).collect());
        }
        let mut probe_classes: HashMap<&str, (usize, usize)> = HashMap::new(); // first index, and occurrences
        for (number, name) in names.iter().enumerate() {
            probe_classes.entry(name).or_insert((number, 0)).1 += 1;
        }
        let mut dataset_counts: HashMap<&str, usize> = HashMap::new();
        classes.iter().for_each(|name| *dataset_counts.entry(name).or_default() += 1);
        let number = |name: &String| match probe_classes.get(name.as_str()) {
            None => Ok(None),
            Some((number, 1)) if dataset_counts[name.as_str()] == 1 => Ok(Some(*number)),
            Some((_, own)) => Err(ProbeError::Ambiguous {
                file: self.file.clone(),
                name: name.clone(),
                own: *own,
                other: dataset_counts[name.as_str()],
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

    fn numbers(probe: &[&str], count: usize, dataset: &[&str]) -> Result<Vec<Option<usize>>, String> {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
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

    const BIRDS: [&str; 3] = ["crane", "finch", "crane"];

    #[test]
    fn classes_are_matched_by_place_by_name_or_by_number_alone() {
        for (probe, count, dataset, expected) in [
            (&BIRDS[..], 3, &BIRDS[..], &[Some(0), Some(1), Some(2)][..]), // two cranes are told apart by their index
            (&BIRDS, 3, &["finch", "wren"], &[Some(1), None]), // a name that the dataset lacks may occur twice
            (&["finch"], 1, &BIRDS, &[None, Some(0), None]),
            (&["crane", "finch", "wren"], 3, &["wren", "crane", "finch"], &[Some(2), Some(0), Some(1)]),
            (&[], 2, &["a", "b"], &[Some(0), Some(1)]),
        ] {
            assert_eq!(numbers(probe, count, dataset).unwrap(), expected, "{probe:?}, {dataset:?}");
        }
    }

    #[test]
    fn what_nothing_tells_apart_is_refused() {
        for (probe, dataset) in [(&BIRDS[..], &BIRDS[..2]), (&BIRDS[..2], &BIRDS[..])] {
            let error = numbers(probe, probe.len(), dataset).unwrap_err();
            assert!(error.contains("`crane`") && error.contains("is ambiguous"), "{error}");
        }
        assert!(numbers(&[], 3, &["a", "b"]).unwrap_err().contains("has 3 unnamed classes"));
    }
}
