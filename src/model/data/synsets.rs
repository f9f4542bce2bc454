//! WordNet ids as names of classes, which ImageNet and its subsets have, with the words that they stand for: `tench (n01440764)`.
//! Where one list has the words and another the ids alone, as in older probes, classes are the same by their ids.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::walk;

/// The lists that say what ids stand for: those of ImageNet at Kaggle, of Tiny ImageNet, and of ImageNet-A and ImageNet-R. A line is an
/// id, white space, and words for it with commas between them; other lines say nothing.
const LISTS: [&str; 3] = ["LOC_synset_mapping.txt", "words.txt", README];
const README: &str = "README.txt";
/// How far above a dataset's folder its list may be: Kaggle's is four above `ILSVRC/Data/CLS-LOC/train`.
const ABOVE: usize = 4;

/// Words for WordNet ids, with commas between them.
pub(super) type Words = HashMap<String, String>;

/// Whether this is a WordNet id of a noun.
pub(in crate::model) fn is_id(text: &str) -> bool {
    let digits = text.strip_prefix('n').unwrap_or_default();
    digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The word and the WordNet id in the name of a class; `None` for any other name. The end alone is looked at: the window asks this of
/// all classes for each image in sight, in every frame.
fn parts(class: &str) -> Option<(&str, &str)> {
    let (word, end) = class.split_at_checked(class.len().checked_sub(" (n01440764)".len())?)?;
    let id = end.strip_prefix(" (")?.strip_suffix(')')?;
    is_id(id).then_some((word, id))
}

/// What tells a class from others: the WordNet id in its name, or any other name as it is.
pub fn id(class: &str) -> &str {
    parts(class).map_or(class, |(_, id)| id)
}

/// The name of a class without the WordNet id that follows its word.
pub fn word(class: &str) -> &str {
    parts(class).map_or(class, |(word, _)| word)
}

/// Whether two names are of one class.
pub fn same_class(one: &str, other: &str) -> bool {
    id(one) == id(other)
}

/// Whether two lists have the same classes in the same order.
pub fn same(one: &[String], other: &[String]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_class(one, other))
}

/// Puts the first of the words for each id before it; an id that `words` lacks stays alone.
pub(super) fn name_by(words: &Words, classes: &mut [String]) {
    for class in classes.iter_mut() {
        let word = words.get(class).and_then(|words| words.split(',').next()).map_or("", str::trim);
        if !word.is_empty() {
            *class = format!("{word} ({class})");
        }
    }
}

/// The folder of a dataset and those above it that may hold its lists, the nearest first.
pub(super) fn folder_and_above(folder: &Path) -> Vec<PathBuf> {
    // The folder of a table in the current folder is the empty path.
    let folder = Path::new(".").join(folder).canonicalize().unwrap_or_else(|_| folder.into());
    folder.ancestors().take(1 + ABOVE).map(Path::to_owned).collect()
}

/// [`name_by`] the lists in the folder of a dataset, or else in the nearest one above it, as long as classes are ids alone; a note on a
/// list that cannot be read.
pub(super) fn name_by_list(folder: &Path, classes: &mut [String]) -> Option<String> {
    let mut failed = None;
    for list in folder_and_above(folder).iter().flat_map(|folder| LISTS.map(|name| folder.join(name))) {
        if !classes.iter().any(|class| is_id(class)) {
            return None;
        }
        if !list.is_file() {
            continue;
        }
        match walk::text(&list) {
            Ok(text) => {
                let entries = text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
                let entries = entries.filter(|(id, _)| is_id(id));
                name_by(&entries.map(|(id, words)| (id.to_owned(), words.to_owned())).collect(), classes);
            }
            Err(_) if list.ends_with(README) => {} // it need not be about classes
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map(|error| format!("classes have their WordNet ids for names: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_told_by_its_id_with_a_word_or_without() {
        for (class, own, short) in [
            ("crane (n02012849)", "n02012849", "crane"),
            ("n02012849", "n02012849", "n02012849"),
            ("crane (134)", "crane (134)", "crane (134)"),
            ("(n02012849)", "(n02012849)", "(n02012849)"),
            ("crane (n0201284)", "crane (n0201284)", "crane (n0201284)"),
            ("gr\u{fc}n (n0201284\u{fc})", "gr\u{fc}n (n0201284\u{fc})", "gr\u{fc}n (n0201284\u{fc})"),
        ] {
            assert_eq!((id(class), word(class)), (own, short));
        }
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let birds = list(&["crane (n02012849)", "finch"]);
        assert!(same(&birds, &list(&["n02012849", "finch"])));
        for other in [&["n02012849"][..], &["n03126707", "finch"], &["finch", "n02012849"]] {
            assert!(!same(&birds, &list(other)), "{other:?}");
        }
    }
}
