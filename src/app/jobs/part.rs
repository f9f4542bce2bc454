//! One of the parts that a piece of work is cut into, as it is typed: `I/N`, the first of four is `1/4`.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

impl Part {
    /// The range of `total` things in a row that is this part's: the parts have each thing once, and their sizes differ by
    /// one at most.
    pub fn range(self, total: usize) -> Range<usize> {
        let at = |index: usize| (index as u128 * total as u128 / self.of as u128) as usize;
        at(self.index)..at(self.index + 1)
    }
}

/// Where a part of the work that ends in `folder` keeps what it makes.
pub fn part_folder(folder: &Path, index: usize) -> PathBuf {
    folder.join("tasks").join((index + 1).to_string())
}

impl FromStr for Part {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "expected I/N, from 1/N to N/N";
        let (number, of) = text.split_once('/').ok_or(wrong)?;
        let (number, of): (usize, usize) =
            (number.parse().map_err(|_| wrong)?, of.parse().map_err(|_| wrong)?);
        if (1..=of).contains(&number) { Ok(Self { index: number - 1, of }) } else { Err(wrong) }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_hold_everything_once() {
        for (total, of) in [(10, 3), (2, 5), (0, 2), (7, 7), (7, 1)] {
            let parts: Vec<_> = (0..of).map(|index| Part { index, of }.range(total)).collect();
            assert_eq!(parts.iter().cloned().flatten().collect::<Vec<_>>(), (0..total).collect::<Vec<_>>());
            let sizes = || parts.iter().map(ExactSizeIterator::len);
            assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_part_is_read_as_it_is_written() {
        let part: Part = "2/4".parse().unwrap();
        assert_eq!((part.index, part.of, part.to_string()), (1, 4, "2/4".into()));
        for wrong in ["0/4", "5/4", "4", "a/b", "1/0", "-1/2"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }
}
