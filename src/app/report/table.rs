//! A table as data: what the renderers are given, whatever it is about.

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Its id, as files and the command line name it.
    pub id: String,
    /// What it shows, in one line.
    pub title: String,
    /// Its columns; the first ones hold words, the others numbers.
    pub columns: Vec<Column>,
    /// Its rows, each with a cell a column.
    pub rows: Vec<Row>,
    /// What a reader must know to read it rightly.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// A word above several columns; empty for none.
    pub group: String,
    /// Its head.
    pub title: String,
    /// Whether it holds numbers.
    pub numbers: bool,
    /// Whether rows below a word that is theirs too leave it out where people read.
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
    /// There is no such number.
    None,
    /// Words.
    Text(String),
    /// A number.
    Number(Number),
}

/// A number as a table shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Its value, or the mean over seeds.
    pub value: f64,
    /// Sample standard deviation over seeds, where there are several.
    pub deviation: Option<f64>,
    /// Digits behind the point.
    pub digits: usize,
    /// Whether a plus sign is written.
    pub signed: bool,
    /// Whether it is the best of its column.
    pub best: bool,
}

impl Column {
    /// A column of words.
    pub fn words(title: impl Into<String>) -> Self {
        Self { group: String::new(), title: title.into(), numbers: false, merged: false }
    }

    /// A column of numbers.
    pub fn numbers(title: impl Into<String>) -> Self {
        Self { group: String::new(), title: title.into(), numbers: true, merged: false }
    }

    /// A column of words that several rows share.
    pub fn shared(title: impl Into<String>) -> Self {
        Self { merged: true, ..Self::words(title) }
    }

    /// Accuracies at the best epoch and after the last, in percent.
    pub fn accuracies() -> [Self; 2] {
        ["best", "last"].map(|title| Self::numbers(title).within("Top-1 (%)"))
    }

    /// The same below the word `group`.
    pub fn within(self, group: impl Into<String>) -> Self {
        Self { group: group.into(), ..self }
    }

    /// Its whole name.
    pub fn name(&self) -> String {
        match self.group.is_empty() {
            true => self.title.clone(),
            false => format!("{} {}", self.group, self.title).trim_end().to_owned(),
        }
    }
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number with so many digits behind the point.
    pub fn number(value: f64, digits: usize) -> Self {
        Self::Number(Number { value, deviation: None, digits, signed: false, best: false })
    }

    /// The same with its sign always written.
    pub fn signed(value: f64, digits: usize) -> Self {
        Self::Number(Number { value, deviation: None, digits, signed: true, best: false })
    }

    /// Mean and deviation over seeds; nothing for none.
    pub fn over(values: &[f64], digits: usize) -> Self {
        if values.is_empty() {
            return Self::None;
        }
        let (value, deviation) = crate::model::stats::mean_and_deviation(values);
        Self::Number(Number { value, deviation, digits, signed: false, best: false })
    }

    /// The same with the sign of the mean always written.
    pub fn signed_over(values: &[f64], digits: usize) -> Self {
        match Self::over(values, digits) {
            Self::Number(number) => Self::Number(Number { signed: true, ..number }),
            other => other,
        }
    }

    /// A number where there is one.
    pub fn maybe(value: Option<f64>, digits: usize) -> Self {
        value.map_or(Self::None, |value| Self::number(value, digits))
    }
}

impl Number {
    /// The value as text, rounded, never `-0`; a positive one that would read 0 is `<` the last digit.
    pub fn text(&self) -> String {
        let text = format!("{:.*}", self.digits, self.value);
        let least = 10_f64.powi(-(self.digits as i32));
        if !self.signed && self.value > 0.0 && self.value < least / 2.0 {
            return format!("<{least:.*}", self.digits);
        }
        let zero = text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.');
        let text = if zero { text.trim_start_matches('-').to_owned() } else { text };
        if self.signed && !text.starts_with('-') { format!("+{text}") } else { text }
    }

    /// The deviation as text.
    pub fn deviation_text(&self) -> Option<String> {
        self.deviation.map(|deviation| format!("{deviation:.*}", self.digits))
    }
}

impl Table {
    /// Marks the largest number of each of these columns.
    pub fn mark_largest(&mut self, columns: impl IntoIterator<Item = usize>) {
        for column in columns {
            let value = |row: &Row| match row.cells.get(column) {
                Some(Cell::Number(number)) => Some(number.value),
                _ => None,
            };
            let most = self.rows.iter().filter_map(value).fold(f64::NEG_INFINITY, f64::max);
            for row in &mut self.rows {
                if let Some(Cell::Number(number)) = row.cells.get_mut(column) {
                    number.best = number.value == most;
                }
            }
        }
    }

    /// The rows as people read them: a word that the row above has too is left out.
    pub fn read(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        for at in (1..rows.len()).rev() {
            for (c, column) in self.columns.iter().enumerate() {
                if column.merged && self.rows[at].cells[c] == self.rows[at - 1].cells[c] {
                    rows[at].cells[c] = Cell::text("");
                }
            }
        }
        rows
    }

    /// The table without columns that hold nothing in any row.
    pub fn without_empty_columns(mut self) -> Self {
        let kept: Vec<bool> = (0..self.columns.len())
            .map(|c| self.rows.iter().any(|row| row.cells.get(c).is_some_and(|cell| *cell != Cell::None)))
            .collect();
        let mut keep = kept.iter().copied();
        self.columns.retain(|_| keep.next().unwrap_or(true));
        for row in &mut self.rows {
            let mut keep = kept.iter().copied();
            row.cells.retain(|_| keep.next().unwrap_or(true));
        }
        self
    }
}
