//! Which of many classes a figure shows, and in which order: those whose names contain the search text, and if these are too
//! many, those that differ most.

use serde::{Deserialize, Serialize};

/// Default of [`ClassFilter::most`].
const DEFAULT_MOST: usize = 40;

listed! {
    /// The order of classes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ClassSort {
        /// In the order of the dataset.
        Dataset: "dataset", "Dataset order";
        /// By name.
        Name: "name", "By name";
        /// By the measure of difference of the picture, the largest first.
        Difference: "difference", "Top differences";
    }
}

/// Which classes are drawn, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassFilter {
    /// Text that names must contain, in any case; all match if it is empty.
    pub search: String,
    /// The order; `None` for the default of the picture.
    pub sort: Option<ClassSort>,
    /// Largest number of classes drawn; all if `None`.
    pub most: Option<usize>,
}

impl Default for ClassFilter {
    fn default() -> Self {
        Self { search: String::new(), sort: None, most: Some(DEFAULT_MOST) }
    }
}

/// Text as searches compare it: in lower case, with one i for the four of Turkish.
pub fn folded(text: &str) -> String {
    let lower = text.to_lowercase(); // İ becomes i and a combining dot
    if lower.is_ascii() { lower } else { lower.replace('\u{307}', "").replace('ı', "i") }
}

/// The classes that are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Their indices, in the order in which they are drawn.
    pub classes: Vec<usize>,
    /// How many match the search, drawn or not.
    pub found: usize,
    /// How they are sorted.
    pub sort: ClassSort,
}

impl ClassFilter {
    /// Whether a class name matches the search.
    pub fn finds(&self, name: &str) -> bool {
        let search = folded(self.search.trim());
        search.is_empty() || folded(name).contains(&search)
    }

    /// The classes to draw of `candidates` (indices into `names`, in the order of the dataset): if more match than `most`, those
    /// with the largest `difference`, ties in the order of the dataset. `default_sort` applies if [`sort`](Self::sort) is `None`.
    pub fn pick(
        &self,
        names: &[String],
        candidates: impl IntoIterator<Item = usize>,
        difference: impl Fn(usize) -> f64,
        default_sort: ClassSort,
    ) -> Picked {
        let mut classes: Vec<usize> =
            candidates.into_iter().filter(|class| self.finds(&names[*class])).collect();
        let found = classes.len();
        let most = self.most.unwrap_or(usize::MAX).max(1);
        let sort = self.sort.unwrap_or(default_sort);
        if found > most || sort == ClassSort::Difference {
            let mut keyed: Vec<(f64, usize)> = classes.iter().map(|&c| (difference(c), c)).collect();
            keyed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            keyed.truncate(most);
            classes = keyed.into_iter().map(|(_, class)| class).collect();
        }
        match sort {
            ClassSort::Dataset => classes.sort_unstable(),
            ClassSort::Name => classes.sort_by(|a, b| names[*a].cmp(&names[*b]).then(a.cmp(b))),
            ClassSort::Difference => {}
        }
        Picked { classes, found, sort }
    }

    /// The arguments of `ssmprobe figures` that pick the same classes.
    pub fn command(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        if !self.search.trim().is_empty() {
            arguments.push(format!("--class-search '{}'", self.search.trim().replace('\'', "'\\''")));
        }
        arguments.extend(self.sort.map(|sort| format!("--class-sort {}", sort.id())));
        if self.most != Self::default().most {
            arguments
                .push(format!("--classes {}", self.most.map_or("all".to_owned(), |most| most.to_string())));
        }
        arguments
    }
}

impl Picked {
    /// A note on how many classes are drawn of how many, and `which`; `None` if all are.
    pub fn note(&self, which: &str) -> Option<String> {
        let drawn = self.classes.len();
        (drawn < self.found).then(|| format!("{drawn} of {} classes, {which}", self.found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["owl", "Auk", "tern", "gull", "barn owl"].map(str::to_owned).into()
    }

    fn pick(filter: &ClassFilter) -> Picked {
        filter.pick(&names(), 0..5, |class| [0.1, 0.5, 0.3, 0.5, 0.2][class], ClassSort::Dataset)
    }

    #[test]
    fn classes_are_searched_sorted_and_cut_to_those_that_differ_most() {
        let all = ClassFilter::default();
        assert_eq!((pick(&all).classes, pick(&all).note("x")), (vec![0, 1, 2, 3, 4], None));
        let owls = ClassFilter { search: " OWL".into(), ..all.clone() };
        assert_eq!((pick(&owls).classes, pick(&owls).found), (vec![0, 4], 2));
        let three = ClassFilter { most: Some(3), ..all.clone() };
        assert_eq!(pick(&three).classes, [1, 2, 3], "the largest differences, in the dataset's order");
        assert_eq!(pick(&three).note("most errors").as_deref(), Some("3 of 5 classes, most errors"));
        let sorted = |sort| ClassFilter { sort: Some(sort), ..three.clone() };
        assert_eq!(pick(&sorted(ClassSort::Difference)).classes, [1, 3, 2]);
        assert_eq!(pick(&sorted(ClassSort::Name)).classes, [1, 3, 2]);
        let by_name = ClassFilter { sort: Some(ClassSort::Name), most: None, ..all };
        assert_eq!(pick(&by_name).classes, [1, 4, 3, 0, 2]);
    }

    #[test]
    fn the_dot_of_an_i_is_not_searched_for() {
        let finds =
            |search: &str, name| ClassFilter { search: search.into(), ..ClassFilter::default() }.finds(name);
        for name in ["İstanbul", "Istanbul", "istanbul", "ISTANBUL"] {
            assert!(["ist", "İST", "IST", "ıst"].iter().all(|search| finds(search, name)), "{name}");
        }
        assert!(finds("Κλάση", "ΚΛΆΣΗ") && !finds("ast", "İstanbul"));
    }

    #[test]
    fn a_command_says_what_was_picked() {
        assert!(ClassFilter::default().command().is_empty());
        let filter = ClassFilter { search: "o'wl".into(), sort: Some(ClassSort::Name), most: None };
        assert_eq!(filter.command(), ["--class-search 'o'\\''wl'", "--class-sort name", "--classes all"]);
    }
}
