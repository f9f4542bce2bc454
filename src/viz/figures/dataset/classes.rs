//! Which of many classes a picture shows, and in which order: those whose names have some letters, and of more
//! than have room those that differ most.

use serde::{Deserialize, Serialize};

/// Most classes drawn, unless a person wants another number.
const MAX_ROWS: usize = 40;

/// The order of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassSort {
    /// As the dataset lists them.
    Dataset,
    /// By name.
    Name,
    /// Those that differ most first.
    Difference,
}

/// Which classes are drawn, and in which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassFilter {
    /// Letters that names must have, whatever their case; all pass where it is empty.
    pub search: String,
    /// The order; absent for the one that suits the picture.
    pub sort: Option<ClassSort>,
    /// Most classes drawn; all where absent.
    pub most: Option<usize>,
}

impl Default for ClassFilter {
    fn default() -> Self {
        Self { search: String::new(), sort: None, most: Some(MAX_ROWS) }
    }
}

/// The classes that are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Their indices, in order.
    pub classes: Vec<usize>,
    /// How many there are, drawn or not, whose names were looked for.
    pub found: usize,
    /// How they are sorted.
    pub sort: ClassSort,
}

impl ClassFilter {
    /// Whether a name has the letters that are looked for.
    pub fn finds(&self, name: &str) -> bool {
        let search = self.search.trim().to_lowercase();
        search.is_empty() || name.to_lowercase().contains(&search)
    }

    /// Of the classes `there`, in the dataset's order, those that are drawn: where there are too many, those with
    /// the largest `difference`, ties in the dataset's order. Sorted as `usual` where nothing else is set.
    pub fn pick(
        &self,
        names: &[String],
        there: impl IntoIterator<Item = usize>,
        difference: impl Fn(usize) -> f64,
        usual: ClassSort,
    ) -> Picked {
        let mut classes: Vec<usize> = there.into_iter().filter(|class| self.finds(&names[*class])).collect();
        let found = classes.len();
        let most = self.most.unwrap_or(usize::MAX).max(1);
        let sort = self.sort.unwrap_or(usual);
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

    /// What `ssmprobe figures` is told to pick the same.
    pub fn command(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.search.trim().is_empty() {
            words.push(format!("--class-search '{}'", self.search.trim().replace('\'', "'\\''")));
        }
        words.extend(self.sort.map(|sort| {
            let name = match sort {
                ClassSort::Dataset => "dataset",
                ClassSort::Name => "name",
                ClassSort::Difference => "difference",
            };
            format!("--class-sort {name}")
        }));
        if self.most != Self::default().most {
            words.push(format!("--classes {}", self.most.map_or("all".to_owned(), |most| most.to_string())));
        }
        words
    }
}

impl Picked {
    /// How many are drawn of how many, where that is not all.
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
    fn a_command_says_what_was_picked() {
        assert!(ClassFilter::default().command().is_empty());
        let filter = ClassFilter { search: "o'wl".into(), sort: Some(ClassSort::Name), most: None };
        assert_eq!(filter.command(), ["--class-search 'o'\\''wl'", "--class-sort name", "--classes all"]);
    }
}
