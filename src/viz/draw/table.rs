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

    /// It as text, a tab between columns, heads first; what is not known is empty.
    pub fn tsv(&self) -> String {
        let tabless = |text: &str| text.replace(['\t', '\n'], " ");
        let number = |v: f64| if v.is_finite() { v.to_string() } else { String::new() };
        let mut heads: Vec<String> = self.columns.iter().map(|(name, _)| tabless(name)).collect();
        if let Some((name, matrix)) = &self.matrix {
            heads.extend((0..matrix.cols).map(|at| format!("{name}_{at}")));
        }
        let mut text = heads.join("\t") + "\n";
        for at in 0..self.rows() {
            let cell = |(_, column): &(String, Column)| match column {
                Column::Numbers(v) => v.get(at).map_or_else(String::new, |v| number(*v)),
                Column::Words(v) => v.get(at).map_or_else(String::new, |v| tabless(v)),
            };
            let mut cells: Vec<String> = self.columns.iter().map(cell).collect();
            if let Some((_, matrix)) = &self.matrix {
                let row = matrix.data.get(at * matrix.cols..(at + 1) * matrix.cols).unwrap_or_default();
                cells.extend(row.iter().map(|v| if v.is_finite() { v.to_string() } else { String::new() }));
            }
            text += &(cells.join("\t") + "\n");
        }
        text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spreadsheet_takes_it_line_by_line() {
        let matrix = Matrix { rows: 2, cols: 2, data: vec![0.5, 0.25, f32::NAN, 1.0] };
        let table =
            Table::counted("token", 2).words("class", ["a\tb".into(), "c".into()]).matrix("plan", matrix);
        assert_eq!(table.tsv(), "token\tclass\tplan_0\tplan_1\n0\ta b\t0.5\t0.25\n1\tc\t\t1\n");
    }
}
