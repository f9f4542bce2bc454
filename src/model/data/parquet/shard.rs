//! One Parquet file of a dataset: its labels at once, its images one by one. An image is found by
//! walking over the headers of the pages before it in its row group; one page is unpacked, so
//! memory does not grow with the file.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::columns::{self, Columns};
use super::metadata::{Group, Kind, Metadata};
use super::page::{Pages, Values, plain};

/// What a row's label says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Number(i64),
    Text(String),
}

/// One file.
#[derive(Debug)]
pub struct Shard {
    path: PathBuf,
    metadata: Metadata,
    pub(super) columns: Columns,
}

/// One image in it.
#[derive(Clone, Debug)]
pub struct Row {
    shard: Arc<Shard>,
    row: usize,
}

impl Shard {
    /// Reads what the file says of itself.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let metadata = Metadata::open(path)?;
        let columns = columns::find(&metadata)?;
        Ok(Self { path: path.to_owned(), metadata, columns })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn pages<'a>(&'a self, group: &'a Group, leaf: usize) -> Result<Pages<'a>, String> {
        Pages::open(&self.path, &group.chunks[leaf], &self.metadata.leaves[leaf], group.rows)
    }

    /// The label of every row; nothing for a row without one.
    pub(super) fn labels(&self) -> Result<Vec<Option<Label>>, String> {
        let kind = self.metadata.leaves[self.columns.label].kind;
        let label = |value: &[u8]| match kind {
            Kind::Int32 | Kind::Int64 => {
                // Little-endian, the sign in the last byte.
                let fill = if value.last().is_some_and(|last| last & 0x80 != 0) { 0xff } else { 0 };
                let mut bytes = [fill; 8];
                bytes[..value.len()].copy_from_slice(value);
                Label::Number(i64::from_le_bytes(bytes))
            }
            Kind::Bytes | Kind::Other => Label::Text(String::from_utf8_lossy(value).into_owned()),
        };
        let mut labels = Vec::new();
        for group in &self.metadata.groups {
            let end = labels.len() + group.rows;
            let mut pages = self.pages(group, self.columns.label)?;
            let mut dictionary: Vec<Label> = Vec::new();
            while let Some(page) = pages.next()? {
                let (present, values) = pages.read(&page)?;
                let values: Vec<Label> = match values {
                    Values::Plain(bytes) => {
                        plain(&bytes, kind).map(|value| Ok(label(value?))).collect::<Result<_, String>>()?
                    }
                    Values::Numbers(numbers) => {
                        let entry = |number: u32| dictionary.get(number as usize).cloned().ok_or_else(beyond);
                        numbers.into_iter().map(entry).collect::<Result<_, _>>()?
                    }
                };
                if page.dictionary {
                    dictionary = values;
                    continue;
                }
                let mut values = values.into_iter();
                for at in 0..page.values {
                    let there = present.as_ref().is_none_or(|present| present[at]);
                    labels.push(if there { Some(values.next().ok_or("a page lacks labels")?) } else { None });
                }
            }
            if labels.len() != end {
                let have = (labels.len() + group.rows).saturating_sub(end);
                return Err(format!("a row group of {} rows has {have} labels", group.rows));
            }
        }
        Ok(labels)
    }

    /// The bytes of the image in a row; nothing where it has none.
    fn image(&self, row: usize) -> Result<Option<Vec<u8>>, String> {
        let mut before = row;
        let group = self.metadata.groups.iter().find(|group| {
            let here = before < group.rows;
            before -= if here { 0 } else { group.rows };
            here
        });
        let group = group.ok_or_else(beyond)?;
        let mut pages = self.pages(group, self.columns.image)?;
        let mut dictionary = None;
        while let Some(page) = pages.next()? {
            if page.dictionary {
                dictionary = Some(page);
                continue;
            }
            if before >= page.values {
                before -= page.values;
                continue;
            }
            let (present, values) = pages.read(&page)?;
            if present.as_ref().is_some_and(|present| !present[before]) {
                return Ok(None);
            }
            let at =
                present.map_or(before, |present| present[..before].iter().filter(|&&there| there).count());
            let pick = |bytes: &[u8], at: usize| {
                plain(bytes, Kind::Bytes).nth(at).ok_or_else(beyond)?.map(|image| Some(image.to_vec()))
            };
            return match values {
                Values::Plain(bytes) => pick(&bytes, at),
                Values::Numbers(numbers) => {
                    let number = *numbers.get(at).ok_or_else(beyond)?;
                    let dictionary = dictionary.ok_or("its dictionary is missing")?;
                    match pages.read(&dictionary)?.1 {
                        Values::Plain(bytes) => pick(&bytes, number as usize),
                        Values::Numbers(_) => Err("its dictionary is damaged".into()),
                    }
                }
            };
        }
        Err("the image column ends before this row".into())
    }
}

fn beyond() -> String {
    "a row or a dictionary ends before what is asked of it".into()
}

impl Row {
    pub(super) fn new(shard: &Arc<Shard>, row: usize) -> Self {
        Self { shard: Arc::clone(shard), row }
    }

    /// The file it is in.
    pub fn file(&self) -> &Path {
        &self.shard.path
    }

    /// Its number in the file, from 0.
    pub fn number(&self) -> usize {
        self.row
    }

    /// The bytes of the image file, or why there are none.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        self.shard.image(self.row)?.ok_or_else(|| "the row has no image".into())
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.file(), self.row).cmp(&(other.file(), other.row))
    }
}

impl Hash for Row {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.file(), self.row).hash(state);
    }
}
