//! One Parquet file of a dataset: its labels are read at once, its images page by page ([`pages`](super::pages)).

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use parquet::column::reader::ColumnReader::{self, *};
use parquet::column::reader::{ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::Length;
use parquet::file::serialized_reader::SerializedPageReader;

use super::bounded_file::{BoundedFile, ratio};
use super::columns::{self, Columns};
use crate::model::io::catch_panic::catch_foreign;

/// Number of rows that are read at a time.
pub(super) const ROWS_PER_READ: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Number(i64),
    Text(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// One Parquet file, its metadata read.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) path: PathBuf,
    bytes: u64,
    /// As it was when its metadata was read.
    stamp: Option<Stamp>,
    metadata: ParquetMetaData,
    pub(super) columns: Columns,
    /// Index of the first row of every row group, then the number of all rows.
    pub(super) starts: Vec<usize>,
    /// For every row group, the first rows of its pages of images, once they are needed.
    pub(super) pages: Vec<OnceLock<Result<Vec<usize>, String>>>,
}

/// The files that were opened last, by path: images are read one by one, and each would need its file's metadata again.
static KNOWN: Mutex<BTreeMap<PathBuf, Arc<Shard>>> = Mutex::new(BTreeMap::new());
/// Most files that are known: a dataset of a million images has a few hundred.
const MAX_KNOWN: usize = 1024;

/// Length and modification time of a file.
type Stamp = (u64, Option<SystemTime>);

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.len(), meta.modified().ok()))
}

impl Shard {
    /// The file as it was opened last, or opened now if it was not or has changed since.
    pub(super) fn known(path: &Path) -> Result<Arc<Self>, String> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        known.filter(|shard| shard.stamp == stamp(path)).map_or_else(|| Self::open(path), Ok)
    }

    /// Reads and checks the file's metadata.
    pub(super) fn open(path: &Path) -> Result<Arc<Self>, String> {
        let stamp = stamp(path);
        let shard = catching_panics(|| {
            let file = BoundedFile::open(path)?;
            let metadata = file.metadata()?;
            let columns = columns::find(&metadata).map_err(ParquetError::General)?;
            for column in [columns.image, columns.label] {
                let mut all = metadata.row_groups().iter().map(|group| group.column(column).compression());
                all.try_for_each(|compression| ratio(compression).map(drop))?;
            }
            let mut starts = vec![0_usize];
            for group in metadata.row_groups() {
                let next =
                    usize::try_from(group.num_rows()).ok().and_then(|rows| starts.last()?.checked_add(rows));
                starts
                    .push(next.ok_or_else(|| ParquetError::General("its row counts are impossible".into()))?);
            }
            let rows = starts[starts.len() - 1];
            if rows as u64 > file.len() {
                let bytes = file.len(); // each row has an image
                return Err(ParquetError::General(format!("it claims {rows} rows in {bytes} bytes")));
            }
            let pages = metadata.row_groups().iter().map(|_| OnceLock::new()).collect();
            let (path, bytes) = (path.to_owned(), file.len());
            Ok(Arc::new(Self { path, bytes, stamp, metadata, columns, starts, pages }))
        })?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            // The next one by path: of a dataset that is read in order, the one read longest ago.
            let next = known.range(path.to_owned()..).next().or_else(|| known.first_key_value());
            if let Some(next) = next.map(|(path, _)| path.clone()) {
                known.remove(&next);
            }
        }
        known.insert(path.to_owned(), shard.clone());
        Ok(shard)
    }

    /// The label of every row; `None` for a row without one.
    pub(super) fn labels(&self) -> Result<Vec<Option<Label>>, String> {
        let mut labels = Vec::new();
        // A dictionary stores a text once that any number of rows repeat: bounds their total length.
        let mut room = self.bytes;
        for group in 0..self.metadata.num_row_groups() {
            let rows = self.rows(group).len();
            let before = labels.len();
            let present = self.present_level(self.columns.label);
            catching_panics(|| match self.column(group, self.columns.label)? {
                Int32ColumnReader(column) => {
                    append(column, (rows, present), |v| Ok(Label::Number(v.into())), &mut labels)
                }
                Int64ColumnReader(column) => {
                    append(column, (rows, present), |v| Ok(Label::Number(v)), &mut labels)
                }
                BoolColumnReader(column) => {
                    append(column, (rows, present), |v| Ok(Label::Number(v.into())), &mut labels)
                }
                ByteArrayColumnReader(column) => {
                    let text = |v: ByteArray| {
                        room = room.checked_sub(v.len() as u64).ok_or_else(|| {
                            ParquetError::General("its labels are larger than the file itself".into())
                        })?;
                        Ok(Label::Text(String::from_utf8_lossy(v.data()).into_owned()))
                    };
                    append(column, (rows, present), text, &mut labels)
                }
                _ => Err(ParquetError::General("labels are neither numbers nor text".into())),
            })?;
            if labels.len() - before != rows {
                return Err(format!(
                    "only {} of {rows} labels of row group {group} are present",
                    labels.len() - before
                ));
            }
        }
        Ok(labels)
    }

    /// The row group of a row.
    pub(super) fn group(&self, row: usize) -> usize {
        self.starts.partition_point(|&start| start <= row) - 1
    }

    pub(super) fn rows(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }

    /// The definition level of the values of a column that are present.
    pub(super) fn present_level(&self, leaf: usize) -> i16 {
        self.metadata.file_metadata().schema_descr().column(leaf).max_def_level()
    }

    pub(super) fn column(&self, group: usize, leaf: usize) -> Result<ColumnReader, ParquetError> {
        let pages = Box::new(self.page_reader(group, leaf)?);
        Ok(get_column_reader(self.metadata.row_group(group).column(leaf).column_descr_ptr(), pages))
    }

    pub(super) fn page_reader(
        &self,
        group: usize,
        leaf: usize,
    ) -> Result<SerializedPageReader<BoundedFile>, ParquetError> {
        let chunk = self.metadata.row_group(group).column(leaf);
        let file = BoundedFile::open(&self.path)?.with_compression(chunk.compression())?;
        SerializedPageReader::new(Arc::new(file), chunk, self.rows(group).len(), None)
    }
}

/// Appends the values of `rows` rows of a column to `out`, fewer if the column ends before; `present` is the definition level of
/// those that are present.
pub(super) fn append<T: DataType, V>(
    mut column: ColumnReaderImpl<T>,
    (rows, present): (usize, i16),
    mut value: impl FnMut(T::T) -> Result<V, ParquetError>,
    out: &mut Vec<Option<V>>,
) -> Result<(), ParquetError> {
    let end = out.len() + rows;
    while out.len() < end {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let most = ROWS_PER_READ.min(end - out.len());
        let (records, ..) = column.read_records(most, Some(&mut levels), None, &mut values)?;
        let values: Result<Vec<V>, _> = values.into_iter().map(&mut value).collect();
        let mut values = values?.into_iter();
        if levels.is_empty() {
            out.extend(values.map(Some)); // a required column has no levels
        } else {
            out.extend(levels.iter().map(|&level| if level == present { values.next() } else { None }));
        }
        if records == 0 {
            break;
        }
    }
    Ok(())
}

/// Whether a valid file has no column of images: a table of results, for example.
pub(super) fn is_table(path: &Path) -> bool {
    catching_panics(|| Ok(!columns::has_images(&BoundedFile::open(path)?.metadata()?))).unwrap_or(false)
}

/// Runs `read`; a panic of the Parquet reader on damaged data becomes an error.
pub(super) fn catching_panics<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_foreign(read) {
        Ok(read) => read.map_err(|error| match error {
            ParquetError::General(why) | ParquetError::EOF(why) => why,
            ParquetError::External(why) => why.to_string(),
            other => other.to_string(),
        }),
        Err(_) => Err("its content is damaged".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_opened_once_until_it_changes() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("images.parquet");
        std::fs::copy(fixtures.join("hub/data/train-00000-of-00002.parquet"), &file).unwrap();
        let first = Shard::known(&file).unwrap();
        assert!(Arc::ptr_eq(&first, &Shard::known(&file).unwrap()));
        std::fs::copy(fixtures.join("text/validation/0000.parquet"), &file).unwrap();
        let changed = Shard::known(&file).unwrap();
        assert_ne!(changed.columns.names, first.columns.names);
        std::fs::remove_file(&file).unwrap();
        assert!(Shard::known(&file).is_err());
    }
}
