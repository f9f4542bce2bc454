//! The numbers behind a figure, as a reader of the paper asks for them.

use crate::model::trace::Matrix;

/// One column of numbers or words.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers; what is not known is not a number.
    Numbers(Vec<f64>),
    /// Words.
    Words(Vec<String>),
}

/// Columns of one length, and perhaps one matrix with as many rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// By name, in order.
    pub columns: Vec<(String, Column)>,
    /// A matrix whose rows are the rows of the table.
    pub matrix: Option<(String, Matrix)>,
}

impl Table {
    /// A table counted from 0 under `name`.
    pub fn counted(name: &str, n: usize) -> Self {
        Self::default().numbers(name, (0..n).map(|i| i as f64))
    }

    /// With a column of numbers.
    pub fn numbers(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        self.columns.push((name.to_owned(), Column::Numbers(values.into_iter().collect())));
        self
    }

    /// With a column of numbers where there are any.
    pub fn optional(self, name: &str, values: Option<&[f32]>) -> Self {
        match values {
            Some(values) => self.numbers(name, values.iter().map(|&v| f64::from(v))),
            None => self,
        }
    }

    /// With a column of words.
    pub fn words(mut self, name: &str, values: impl IntoIterator<Item = String>) -> Self {
        self.columns.push((name.to_owned(), Column::Words(values.into_iter().collect())));
        self
    }

    /// With a matrix.
    pub fn matrix(mut self, name: &str, matrix: Matrix) -> Self {
        self.matrix = Some((name.to_owned(), matrix));
        self
    }

    /// Number of rows: of the longest column.
    pub fn rows(&self) -> usize {
        let length = |c: &Column| match c {
            Column::Numbers(v) => v.len(),
            Column::Words(v) => v.len(),
        };
        self.columns.iter().map(|(_, c)| length(c)).max().unwrap_or(0)
    }
}
