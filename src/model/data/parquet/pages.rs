//! The images of a Parquet file. The page that an image is in is found by skipping those before it in its row group by their
//! headers, and is kept for its neighbours: pyarrow puts a hundred images or a thousand into one, which would otherwise be unpacked
//! again for each of them. Memory does not grow with the file.

use std::ops::Range;
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReader::ByteArrayColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;

use super::shard::{ROWS_PER_READ, Shard, append, catching_panics};

/// The pages that were read last, the latest at the end.
static RECENT: Mutex<Vec<Arc<Page>>> = Mutex::new(Vec::new());
/// Most pages that are kept: images are read in batches, which lie in one page or two.
const MAX_RECENT: usize = 2;

/// The images of a page, unpacked when the first of them is read.
struct Page {
    /// Its file; keeps the address from being that of another file later.
    shard: Weak<Shard>,
    /// Its rows.
    rows: Range<usize>,
    images: OnceLock<Result<Vec<Option<ByteArray>>, String>>,
}

/// The error of a row that the column of images does not reach.
const ENDS_EARLY: &str = "the image column ends before this row";

impl Shard {
    /// The bytes of the image in a row; `None` if it has none.
    pub(super) fn image(self: &Arc<Self>, row: usize) -> Result<Option<Vec<u8>>, String> {
        let all = self.starts.last().copied().unwrap_or(0);
        if row >= all {
            return Err(format!("it has {all} rows; choose a lower one"));
        }
        let of_page = self.recent(row).and_then(|page| {
            let images = page.images.get_or_init(|| self.images(page.rows.clone()));
            Ok(images.as_ref().map_err(String::clone)?[row - page.rows.start].clone())
        });
        // The images of a damaged page are read one by one.
        let found = of_page.or_else(|_| Ok::<_, String>(self.images(row..row + 1)?.swap_remove(0)))?;
        Ok(found.map(|image| image.data().to_vec()))
    }

    /// The page of a row, among the last ones if it was read before.
    fn recent(self: &Arc<Self>, row: usize) -> Result<Arc<Page>, String> {
        let rows = self.page(row)?;
        let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |page: &Arc<Page>| ptr::eq(page.shard.as_ptr(), Arc::as_ptr(self)) && page.rows == rows;
        let page = match recent.iter().position(is_it) {
            Some(at) => recent.remove(at),
            None => Arc::new(Page { shard: Arc::downgrade(self), rows, images: OnceLock::new() }),
        };
        recent.push(page.clone());
        let excess = recent.len().saturating_sub(MAX_RECENT);
        recent.drain(..excess);
        Ok(page)
    }

    /// The rows of the page of images that a row is in.
    fn page(&self, row: usize) -> Result<Range<usize>, String> {
        let group = self.group(row);
        let starts = self.pages[group].get_or_init(|| catching_panics(|| self.page_starts(group)));
        let starts = starts.as_ref().map_err(String::clone)?;
        let next = starts.partition_point(|&start| start <= row);
        starts.get(next).map(|&end| starts[next - 1]..end).ok_or_else(|| ENDS_EARLY.to_owned())
    }

    /// The first row of every page of images of a row group, then the row after the last one; pages of more than [`ROWS_PER_READ`]
    /// rows are divided.
    fn page_starts(&self, group: usize) -> Result<Vec<usize>, ParquetError> {
        let (mut pages, rows) = (self.page_reader(group, self.columns.image)?, self.rows(group));
        let (mut starts, mut from) = (vec![rows.start], rows.start);
        while let Some(page) = pages.peek_next_page()? {
            // A column without repetition has one level a row; a page of a dictionary has none.
            let count = page.num_levels.unwrap_or(0);
            if page.num_rows.is_some_and(|rows| rows != count) {
                // Values are read by the one and skipped by the other, so that one read could unpack thousands of pages.
                return Err(ParquetError::General("a page has other numbers of rows and of values".into()));
            }
            let end = from.saturating_add(count).min(rows.end);
            starts.extend((from..end).step_by(ROWS_PER_READ).skip(1));
            starts.extend((from < end).then_some(end));
            from = end;
            pages.skip_next_page()?;
        }
        Ok(starts)
    }

    /// The image of each of some rows of one row group, `None` for a row without one.
    fn images(&self, rows: Range<usize>) -> Result<Vec<Option<ByteArray>>, String> {
        catching_panics(|| {
            let group = self.group(rows.start);
            let ByteArrayColumnReader(mut column) = self.column(group, self.columns.image)? else {
                return Err(ParquetError::General("images are not bytes".into()));
            };
            let before = rows.start - self.rows(group).start;
            let (skipped, mut images) = (column.skip_records(before)?, Vec::new());
            append(column, (rows.len(), self.present_level(self.columns.image)), Ok, &mut images)?;
            if skipped != before || images.len() != rows.len() {
                return Err(ParquetError::General(ENDS_EARLY.into()));
            }
            Ok(images)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fixture(name: &str) -> Arc<Shard> {
        let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/parquet");
        Shard::open(&all.join(name)).unwrap()
    }

    #[test]
    fn pages_of_images_hold_what_its_rows_do_and_cover_every_group() {
        for name in
            ["hub/data/train-00000-of-00002.parquet", "text/validation/0000.parquet", "plain/things.parquet"]
        {
            let shard = fixture(name);
            for group in 0..shard.starts.len() - 1 {
                let (rows, mut from) = (shard.rows(group), shard.rows(group).start);
                while from < rows.end {
                    let page = shard.page(from).unwrap();
                    assert!(page.start == from && page.end <= rows.end, "{name}: {page:?} of {rows:?}");
                    let images = shard.images(page.clone()).unwrap();
                    for (row, image) in page.clone().zip(images) {
                        assert_eq!(shard.page(row).unwrap(), page);
                        assert_eq!(
                            shard.images(row..row + 1).unwrap(),
                            std::slice::from_ref(&image),
                            "{name}: {row}"
                        );
                        assert_eq!(shard.image(row).unwrap(), image.map(|image| image.data().to_vec()));
                    }
                    from = page.end;
                }
            }
        }
    }

    #[test]
    fn neighbours_are_unpacked_together_and_another_opening_of_the_file_apart() {
        let [one, other] = [(); 2].map(|()| fixture("text/validation/0000.parquet"));
        let page = one.recent(0).unwrap();
        assert!(page.rows.len() > 1);
        assert!(page.rows.clone().all(|row| one.page(row).unwrap() == page.rows));
        let again = other.recent(0).unwrap();
        assert!(again.rows == page.rows && !Weak::ptr_eq(&again.shard, &page.shard));
        assert!(RECENT.lock().unwrap_or_else(PoisonError::into_inner).len() <= MAX_RECENT);
    }
}
