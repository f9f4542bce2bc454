//! The numbers that a figure shows, as a table for export.

use crate::model::trace::{Matrix, Reading};

/// One column of numbers or words.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers; NaN where a value is unknown.
    Numbers(Vec<f64>),
    /// Words.
    Words(Vec<String>),
}

/// Columns of one length, and optionally one matrix with as many rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Names and columns, in order.
    pub columns: Vec<(String, Column)>,
    /// Name and values of a matrix whose rows are the rows of the table.
    pub matrix: Option<(String, Matrix)>,
}

impl Table {
    /// A table with one column `name`, counting from 0 to `n - 1`.
    pub fn counted(name: &str, n: usize) -> Self {
        Self::default().numbers(name, (0..n).map(|i| i as f64))
    }

    /// The table with another column of numbers, `None` or NaN where a value is unknown.
    pub fn numbers(mut self, name: &str, values: impl IntoIterator<Item = impl Into<Option<f64>>>) -> Self {
        let values = values.into_iter().map(|value| value.into().unwrap_or(f64::NAN));
        self.columns.push((name.to_owned(), Column::Numbers(values.collect())));
        self
    }

    /// The table with another column of numbers, if there are `values`.
    pub fn optional(self, name: &str, values: Option<&[f32]>) -> Self {
        match values {
            Some(values) => self.numbers(name, values.iter().map(|&v| f64::from(v))),
            None => self,
        }
    }

    /// The table with another column of words.
    pub fn words(mut self, name: &str, values: impl IntoIterator<Item = String>) -> Self {
        self.columns.push((name.to_owned(), Column::Words(values.into_iter().collect())));
        self
    }

    /// The table with this matrix.
    pub fn matrix(mut self, name: &str, matrix: Matrix) -> Self {
        self.matrix = Some((name.to_owned(), matrix));
        self
    }

    /// The table with a column `reading` that says how the trace was read, if that is not as trained.
    pub fn read(self, reading: &Reading) -> Self {
        if reading.is_as_trained() {
            return self;
        }
        let rows = self.rows();
        self.words("reading", std::iter::repeat_n(reading.to_string(), rows))
    }

    /// The column headings, with `name_k` for column `k` of the matrix.
    pub fn heads(&self) -> Vec<String> {
        let matrix = self.matrix.iter().flat_map(|(name, m)| (0..m.cols).map(move |k| format!("{name}_{k}")));
        self.columns.iter().map(|(name, _)| name.clone()).chain(matrix).collect()
    }

    /// The cells of a row as text; a number that is not finite is empty.
    pub fn row(&self, at: usize) -> Vec<String> {
        let columns = self.columns.iter().map(|(_, column)| match column {
            Column::Numbers(v) => v.get(at).map_or_else(String::new, |v| cell(*v)),
            Column::Words(v) => v.get(at).cloned().unwrap_or_default(),
        });
        let matrix = self.matrix.iter().flat_map(|(_, m)| {
            (0..m.cols).map(move |k| m.data.get(at * m.cols + k).map_or_else(String::new, |v| cell(*v)))
        });
        columns.chain(matrix).collect()
    }

    /// Number of rows: the length of the longest column.
    pub fn rows(&self) -> usize {
        let length = |c: &Column| match c {
            Column::Numbers(v) => v.len(),
            Column::Words(v) => v.len(),
        };
        self.columns.iter().map(|(_, c)| length(c)).max().unwrap_or(0)
    }
}

/// A number as text; empty if it is not finite.
fn cell<T: Into<f64> + Copy + ToString>(value: T) -> String {
    if value.into().is_finite() { value.to_string() } else { String::new() }
}
