//! A table as plain data: the input of every renderer.

use crate::viz::figures::rates::TIE;

/// A table with its title and notes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its id, which names its files and its LaTeX label.
    pub id: String,
    /// What it shows, in one line.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each with one cell per column.
    pub rows: Vec<Row>,
    /// Notes on how to read it.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading shared with adjacent columns; empty for none.
    pub group: String,
    /// Its own heading.
    pub title: String,
    /// Whether it holds numbers; else text.
    pub numbers: bool,
    /// Whether formats for people leave a cell empty that equals the one above ([`Table::merged_rows`]).
    pub merged: bool,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Whether a line is drawn above it.
    pub ruled: bool,
    /// Its cells.
    pub cells: Vec<Cell>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value.
    None,
    /// Text.
    Text(String),
    /// A number.
    Number(Number),
}

/// A number and how it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its value, or the mean over seeds.
    pub value: f64,
    /// Sample standard deviation over seeds, where there are several.
    pub deviation: Option<f64>,
    /// Number of decimals.
    pub digits: usize,
    /// Whether a plus sign is shown.
    pub signed: bool,
    /// Whether it is the best of its column.
    pub best: bool,
}

impl Column {
    /// A column of text.
    pub fn words(title: impl Into<String>) -> Self {
        Self { group: String::new(), title: title.into(), numbers: false, merged: false }
    }

    /// A column of numbers.
    pub fn numbers(title: impl Into<String>) -> Self {
        Self { group: String::new(), title: title.into(), numbers: true, merged: false }
    }

    /// A column of text in which repeated cells are [merged](Self::merged).
    pub fn shared(title: impl Into<String>) -> Self {
        Self { merged: true, ..Self::words(title) }
    }

    /// Columns of numbers below the shared heading `group`.
    pub fn group<const N: usize>(group: &str, titles: [&str; N]) -> [Self; N] {
        titles.map(|title| Self::numbers(title).within(group))
    }

    /// The columns of the number of seeds, and of top-1 accuracy at the best epoch and after the last, in percent, below a heading.
    pub fn accuracies(heading: &str) -> [Self; 3] {
        let [best, last] = Self::group(heading, ["best", "last"]);
        [Self::numbers("Seeds"), best, last]
    }

    /// The column below the shared heading `group`.
    pub fn within(self, group: impl Into<String>) -> Self {
        Self { group: group.into(), ..self }
    }

    /// Its heading with that of its group.
    pub fn name(&self) -> String {
        match self.group.is_empty() {
            true => self.title.clone(),
            false => format!("{} {}", self.group, self.title).trim_end().to_owned(),
        }
    }
}

impl Cell {
    /// A cell of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number with `digits` decimals.
    pub fn number(value: f64, digits: usize) -> Self {
        Self::Number(Number { value, deviation: None, digits, signed: false, best: false })
    }

    /// The same, with a plus sign if it is not negative.
    pub fn signed(value: f64, digits: usize) -> Self {
        Self::Number(Number { value, deviation: None, digits, signed: true, best: false })
    }

    /// Mean and sample standard deviation over seeds; [`Cell::None`] without values.
    pub fn over(values: &[f64], digits: usize) -> Self {
        if values.is_empty() {
            return Self::None;
        }
        let (value, deviation) = crate::model::stats::mean_and_deviation(values);
        Self::Number(Number { value, deviation, digits, signed: false, best: false })
    }

    /// The same, with a plus sign if the mean is not negative.
    pub fn signed_over(values: &[f64], digits: usize) -> Self {
        match Self::over(values, digits) {
            Self::Number(number) => Self::Number(Number { signed: true, ..number }),
            other => other,
        }
    }

    /// A number; [`Cell::None`] if there is none.
    pub fn maybe(value: Option<f64>, digits: usize) -> Self {
        value.map_or(Self::None, |value| Self::number(value, digits))
    }
}

impl Number {
    /// The rounded value, never `-0`. An unsigned positive one that rounds to 0 is shown as below the last decimal: `<0.01`.
    pub fn text(&self) -> String {
        let text = format!("{:.*}", self.digits, self.value);
        let last_unit = 10_f64.powi(-(self.digits as i32));
        if !self.signed && self.value > 0.0 && self.value < last_unit / 2.0 {
            return format!("<{last_unit:.*}", self.digits);
        }
        let is_zero = text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.');
        let text = if is_zero { text.trim_start_matches('-').to_owned() } else { text };
        if self.signed && !text.starts_with('-') { format!("+{text}") } else { text }
    }

    /// The deviation as text, with as many decimals as the value.
    pub fn deviation_text(&self) -> Option<String> {
        self.deviation.map(|deviation| format!("{deviation:.*}", self.digits))
    }
}

impl Table {
    /// The table with one more note.
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Marks the largest number of each of these columns as best, all of them if several are equal.
    pub fn mark_largest(&mut self, columns: impl IntoIterator<Item = usize>) {
        for column in columns {
            mark_largest(self.rows.iter_mut().filter_map(|row| row.cells.get_mut(column)));
        }
    }

    /// Marks the largest number of the whole table as best.
    pub fn mark_overall_largest(&mut self) {
        mark_largest(self.rows.iter_mut().flat_map(|row| &mut row.cells));
    }

    /// The rows as people read them: in [merged](Column::merged) columns, a cell that equals the one above is empty.
    pub fn merged_rows(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        for (at, row) in rows.iter_mut().enumerate().skip(1) {
            for (c, column) in self.columns.iter().enumerate() {
                if column.merged && self.rows[at].cells[c] == self.rows[at - 1].cells[c] {
                    row.cells[c] = Cell::text("");
                }
            }
        }
        rows
    }

    /// The table without the columns that are [`Cell::None`] in every row.
    pub fn without_empty_columns(mut self) -> Self {
        for c in (0..self.columns.len()).rev() {
            if self.rows.iter().all(|row| row.cells[c] == Cell::None) {
                self.columns.remove(c);
                self.rows.iter_mut().for_each(|row| drop(row.cells.remove(c)));
            }
        }
        self
    }
}

fn mark_largest<'a>(cells: impl Iterator<Item = &'a mut Cell>) {
    let number = |cell: &'a mut Cell| if let Cell::Number(number) = cell { Some(number) } else { None };
    let mut numbers: Vec<&mut Number> = cells.filter_map(number).collect();
    let largest = numbers.iter().map(|number| number.value).fold(f64::NEG_INFINITY, f64::max);
    numbers.iter_mut().for_each(|number| number.best = number.value >= largest - TIE);
}

/// Adds the rows of a group, with a line above the first one unless the table begins with it.
pub fn push_group(rows: &mut Vec<Row>, group: impl IntoIterator<Item = Row>) {
    let first = rows.len();
    rows.extend(group);
    if let Some(row) = rows.get_mut(first) {
        row.ruled = first > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_differ_by_rounding_alone_are_all_the_best_of_their_column() {
        let row = |seeds: [f64; 3]| Row { ruled: false, cells: vec![Cell::over(&seeds, 2)] };
        let rows =
            vec![row([33.333333333; 3]), row([25.0, 25.0, 50.0]), row([33.333333333, 33.333333333, 33.0])];
        let mut table = Table { rows, ..Table::default() };
        table.mark_largest([0]);
        let best = |row: &Row| matches!(&row.cells[0], Cell::Number(number) if number.best);
        assert_eq!(table.rows.iter().map(best).collect::<Vec<_>>(), [true, true, false]);
    }
}
