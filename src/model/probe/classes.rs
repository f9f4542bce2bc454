//! Finds a class of a probe by its name or number, and matches the classes of a dataset with those of a probe.
//!
//! Where the dataset's list equals the probe's, classes are matched by index, names that occur twice included
//! (ImageNet has two cranes). Otherwise they are matched by name, and a name that is in both lists but twice in one of them
//! is refused as ambiguous. A WordNet id is the same name with or without [words](synsets) before it. A dataset whose classes
//! are named by the numbers from 0 on, as the folders of ImageNet V2, is matched by index with a probe whose names are WordNet ids in
//! sorted order.

use std::collections::HashMap;

use super::{Probe, ProbeError};
use crate::model::data::synsets;

/// The word by which [`Probe::class`] finds a class: its name, followed by its number if other classes share the name, as in
/// `crane (134)`. `None` if there is no such class.
pub fn class_word(names: &[String], class: usize) -> Option<String> {
    let name = names.get(class)?;
    Some(word(names, class, named(names, name).count()))
}

/// The [word](class_word) of each class.
pub fn class_words(names: &[String]) -> Vec<String> {
    let mut counts = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
    (0..names.len()).map(|class| word(names, class, counts[&names[class]])).collect()
}

/// The word of a class of a name that `count` classes have.
fn word(names: &[String], class: usize, count: usize) -> String {
    if count > 1 { numbered(names, class) } else { names[class].clone() }
}

/// The classes of this name.
fn named<'a>(names: &'a [String], name: &'a str) -> impl Iterator<Item = usize> + 'a {
    (0..names.len()).filter(move |class| names[*class] == name)
}

/// The first class of each name, or of each WordNet id, and the number of classes that have it.
fn by_name(names: &[String]) -> HashMap<&str, (usize, usize)> {
    let mut known = HashMap::new();
    for (class, name) in names.iter().enumerate() {
        known.entry(synsets::id(name)).or_insert((class, 0)).1 += 1;
    }
    known
}

/// The names as numbers, if they are those from 0 on, in any order: sorted as text they are 0, 1, 10, 2.
fn counted(names: &[String]) -> Option<Vec<usize>> {
    let numbers: Vec<usize> = names.iter().map(|name| name.parse().ok()).collect::<Option<_>>()?;
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.into_iter().eq(0..names.len()).then_some(numbers)
}

/// The index in a probe of each of a dataset's `classes`, which are its numbers from 0 on, as in ImageNet V2, while the probe's
/// `names` are WordNet ids in sorted order; `None` for other names.
pub fn by_place(names: &[String], classes: &[String]) -> Option<Vec<usize>> {
    let is_of_ids = || {
        let ids = names.iter().map(|name| synsets::id(name));
        ids.clone().all(synsets::is_id) && ids.is_sorted()
    };
    counted(classes).filter(|_| names.len() == classes.len() && is_of_ids())
}

fn numbered(names: &[String], class: usize) -> String {
    format!("{} ({class})", names[class])
}

/// The class that [`numbered`] calls so.
fn by_number(names: &[String], word: &str) -> Option<usize> {
    let (name, number) = word.strip_suffix(')')?.rsplit_once(" (")?;
    number.parse().ok().filter(|class| names.get(*class).is_some_and(|own| own == name))
}

/// Whether one class among these has this name, WordNet id or [word](class_word). The word before an id, by which [`Probe::class`]
/// also finds a class, does not suffice: the `tiger` of another dataset is not compared with `tiger (n02129604)`.
pub fn has_class(names: &[String], word: &str) -> bool {
    names.iter().filter(|name| synsets::same_class(name, word)).count() == 1
        || by_number(names, word).is_some()
}

/// The first class of a name: an exact match first, then ignoring ASCII case, then by the WordNet id or the only one by its word.
fn find(names: &[String], asked: &str) -> Option<usize> {
    let first = |is: &dyn Fn(&str) -> bool| names.iter().position(|name| is(name));
    let mut by_word = (0..names.len()).filter(|at| synsets::word(&names[*at]).eq_ignore_ascii_case(asked));
    first(&|name| name == asked)
        .or_else(|| first(&|name| name.eq_ignore_ascii_case(asked)))
        .or_else(|| first(&|name| synsets::same_class(name, asked)))
        .or_else(|| by_word.next().filter(|_| by_word.next().is_none()))
}

impl Probe {
    /// The index of a class by its name (an exact match first, then ignoring ASCII case), its WordNet id or the word before that, its
    /// number, or its [word](class_word). A name that two classes share is refused: ImageNet has two cranes.
    pub fn class(&self, asked: &str) -> Result<usize, ProbeError> {
        let names = &self.meta.classes;
        if let Some(found) = find(names, asked) {
            let same = named(names, &names[found]).map(|class| format!("`{}`", numbered(names, class)));
            let same: Vec<String> = same.collect();
            return match &same[..] {
                [_] => Ok(found),
                all => {
                    let (file, asked, words) = (self.file.clone(), asked.to_owned(), all.join(" or "));
                    Err(ProbeError::SharedName { file, asked, words })
                }
            };
        }
        let number = asked.parse().ok().filter(|&index: &usize| index < self.classes());
        number.or_else(|| by_number(names, asked)).ok_or_else(|| {
            let range = format!("a number from 0 to {}", self.classes().saturating_sub(1));
            let nearest = nearest(asked, names.iter().map(String::as_str), 5);
            let (near, far): (Vec<&str>, Vec<&str>) =
                nearest.into_iter().partition(|name| is_near(asked, name));
            let hint = match (near.as_slice(), far.as_slice()) {
                _ if asked.parse::<i64>().is_ok() => {
                    format!("it has {} classes; choose {range}", self.classes())
                }
                ([], []) => format!("choose {range}"),
                ([], some) => format!("its classes include `{}`; or choose {range}", some.join("`, `")),
                (near, _) => format!("the nearest are `{}`; or choose {range}", near.join("`, `")),
            };
            ProbeError::Class { file: self.file.clone(), asked: asked.to_owned(), hint }
        })
    }

    /// For every class of a dataset, its index in this probe; `None` where the probe does not know it.
    ///
    /// # Errors
    /// If a name is ambiguous; or if the probe's classes have no names, and their number differs or the dataset's names are numbers
    /// sorted as text.
    pub fn numbers(&self, classes: &[String]) -> Result<Vec<Option<usize>>, ProbeError> {
        let names = &self.meta.classes;
        if names.is_empty() && self.classes() != classes.len() {
            let (file, expected, found) = (self.file.clone(), classes.len(), self.classes());
            return Err(ProbeError::Unnamed { file, expected, found });
        }
        if names.is_empty() || names == classes {
            // With more than ten folders, nothing tells whether the probe's third class is `2` or `10`.
            let numbers = counted(classes).filter(|_| names.is_empty()).unwrap_or_default();
            return match (0..numbers.len()).find(|place| numbers[*place] != *place) {
                Some(place) => {
                    let (file, name) = (self.file.clone(), classes[place].clone());
                    Err(ProbeError::Unordered { file, place, name })
                }
                None => Ok((0..classes.len()).map(Some).collect()),
            };
        }
        if let Some(places) = by_place(names, classes) {
            return Ok(places.into_iter().map(Some).collect());
        }
        let (own, others) = (by_name(names), by_name(classes));
        let number = |name: &String| match (own.get(synsets::id(name)), others[synsets::id(name)].1) {
            (None, _) => Ok(None),
            (Some((number, 1)), 1) => Ok(Some(*number)),
            (Some((_, own)), other) => {
                Err(ProbeError::Ambiguous { file: self.file.clone(), name: name.clone(), own: *own, other })
            }
        };
        classes.iter().map(number).collect()
    }
}

/// Whether `asked` may be meant for `name`: it is a part of it, or at most a third of their letters differ.
fn is_near(asked: &str, name: &str) -> bool {
    let (without, edits) = distance(asked, name);
    !without || 3 * edits <= asked.chars().count().max(name.chars().count())
}

/// Whether `name` does not contain `asked`, and their edit distance, in any case and by their first letters.
fn distance(asked: &str, name: &str) -> (bool, usize) {
    let [asked, name] = [asked, name].map(|s| s.to_lowercase().chars().take(64).collect::<String>());
    let within = !asked.is_empty() && name.contains(&asked);
    (!within, strsim::damerau_levenshtein(&asked, &name))
}

/// The `count` names nearest to `asked`: those that contain it first, then by edit distance.
pub(super) fn nearest<'a>(asked: &str, names: impl Iterator<Item = &'a str>, count: usize) -> Vec<&'a str> {
    let mut ranked: Vec<_> = names.map(|name| (distance(asked, name), name)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(count).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{BackboneMeta, Classifier, Meta};
    use super::*;
    use crate::model::io::array::Arrays;
    use crate::model::probe::head::Config;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn probe(classes: &[&str], count: usize) -> Probe {
        let backbone = BackboneMeta { hidden_size: 1, ..BackboneMeta::default() };
        let meta = Meta { classes: list(classes), ..Meta::new("gap", Config::default(), backbone) };
        let classifier = Classifier { weight: vec![0.0; count], bias: vec![0.0; count] };
        Probe::new(meta, Arrays::new(), classifier)
    }

    fn numbers(classes: &[&str], count: usize, dataset: &[&str]) -> Result<Vec<Option<usize>>, String> {
        probe(classes, count).numbers(&list(dataset)).map_err(|error| error.to_string())
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
            (&[], 3, &["0", "1", "2"], &[Some(0), Some(1), Some(2)]),
            (&["n01440764", "crane (n02012849)"], 2, &["1", "0"], &[Some(1), Some(0)]),
            (&["n02012849", "n01440764"], 2, &["0", "1"], &[None, None]), // not in the order of ImageNet's numbers
            (&["n01440764", "n02012849", "n03126707"], 3, &["0", "1"], &[None, None]),
            (&["cat", "dog"], 2, &["0", "1"], &[None, None]),
            (&["n01440764", "n02012849"], 2, &["1", "2"], &[None, None]),
            (
                &["n01440764", "n02012849"],
                2,
                &["crane (n02012849)", "tench (n01440764)"],
                &[Some(1), Some(0)],
            ),
        ] {
            assert_eq!(numbers(probe, count, dataset).unwrap(), expected, "{probe:?}, {dataset:?}");
        }
    }

    #[test]
    fn a_wordnet_id_or_the_only_word_asks_for_a_class() {
        let probe = probe(&["tench (n01440764)", "crane (n02012849)", "crane (n03126707)"], 3);
        for (asked, class) in [
            ("tench (n01440764)", 0),
            ("n02012849", 1),
            ("hoist (n03126707)", 2), // the same id with another of its words
            ("Tench", 0),
            ("1", 1),
        ] {
            assert_eq!(probe.class(asked).unwrap(), class, "{asked}");
        }
        let error = probe.class("crane").unwrap_err().to_string();
        assert!(error.contains("`crane (n02012849)`, `crane (n03126707)`"), "{error}");
        let names = &probe.meta.classes;
        let is_compared = |word| has_class(names, word);
        assert_eq!(["n01440764", "tench (n01440764)", "tench"].map(is_compared), [true, true, false]);
    }

    #[test]
    fn a_class_has_the_same_word_alone_and_in_the_list() {
        let names = list(&["tench (n01440764)", "n01440764", "crane", "crane"]);
        let words = ["tench (n01440764)", "n01440764", "crane (2)", "crane (3)"];
        assert_eq!(class_words(&names), words);
        assert_eq!([0, 1, 2, 3].map(|class| class_word(&names, class).unwrap()), words);
    }

    #[test]
    fn ambiguous_classes_are_refused() {
        for (probe, dataset) in [(&BIRDS[..], &BIRDS[..2]), (&BIRDS[..2], &BIRDS[..])] {
            let error = numbers(probe, probe.len(), dataset).unwrap_err();
            assert!(error.contains("`crane`") && error.contains("is ambiguous"), "{error}");
        }
        assert!(numbers(&[], 3, &["a", "b"]).unwrap_err().contains("has 3 unnamed classes"));
        let folders: Vec<String> = (0..11).map(|number| number.to_string()).collect();
        let mut folders: Vec<&str> = folders.iter().map(String::as_str).collect();
        assert!(numbers(&[], 11, &folders).is_ok(), "in the order of numbers");
        folders.sort_unstable();
        let error = numbers(&[], 11, &folders).unwrap_err();
        assert!(error.contains("class 2 is called `10`"), "{error}");
    }
}
