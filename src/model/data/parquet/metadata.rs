//! What a Parquet file says of itself in its last bytes: `..., description, its length (4 bytes),
//! "PAR1"`. Field numbers are those of the format's `parquet.thrift`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::thrift::{self, Value};

/// Longest description, in bytes; those of whole ImageNet have less than one million.
const LIMIT: u64 = 1 << 24;
const MAGIC: &[u8; 4] = b"PAR1";

/// How the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int32,
    Int64,
    Bytes,
    Other,
}

/// A column with values of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// Names from the outermost structure to the column.
    pub path: Vec<String>,
    pub kind: Kind,
    /// Whether its bytes are text.
    pub text: bool,
    /// Level of a value that is there: how many of `path` may be absent.
    pub level: u32,
    /// Whether a row may have several.
    pub repeated: bool,
}

/// Where the values of one column in one row group lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub codec: i64,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub rows: usize,
    /// One a leaf.
    pub chunks: Vec<Chunk>,
}

/// A file's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    pub leaves: Vec<Leaf>,
    pub groups: Vec<Group>,
    /// What Hugging Face writes about the columns, as JSON.
    pub huggingface: Option<String>,
}

impl Metadata {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let cut = || "it is no Parquet file, or cut short: it does not end in PAR1".to_owned();
        let mut tail = [0; 8];
        let end = length.checked_sub(12).ok_or_else(cut)? + 4; // PAR1 stands at the beginning too
        file.seek(SeekFrom::Start(end)).and_then(|_| file.read_exact(&mut tail)).map_err(failed)?;
        if &tail[4..] == b"PARE" {
            return Err("it is encrypted".into());
        }
        if &tail[4..] != MAGIC {
            return Err(cut());
        }
        let size = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
        let start = end.checked_sub(size).filter(|&start| start >= 4 && size <= LIMIT).ok_or_else(|| {
            format!("its description would have {size} bytes; those of up to {} are read", LIMIT.min(end - 4))
        })?;
        let mut bytes = vec![0; size as usize];
        file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes)).map_err(failed)?;
        let (value, _) = thrift::structure(&bytes).map_err(|_| "its description is damaged")?;
        read(&value, start)
    }
}

/// The description; `end` is where the data ends.
fn read(value: &Value, end: u64) -> Result<Metadata, String> {
    let leaves = leaves(value.list(2)).ok_or("its schema is damaged")?;
    let groups: Option<Vec<Group>> =
        value.list(4).iter().map(|group| self::group(group, &leaves, end)).collect();
    let groups = groups.ok_or("its row groups do not fit its schema or lie outside the file")?;
    // An image takes a byte at least; so nothing is made room for that the file cannot hold.
    let rows = groups.iter().try_fold(0_usize, |sum, group| sum.checked_add(group.rows));
    if rows.is_none_or(|rows| rows as u64 > end) {
        return Err(format!("it claims more rows than its {end} bytes can hold"));
    }
    let pair = value.list(5).iter().find(|pair| pair.text(1) == Some("huggingface"));
    let huggingface = pair.and_then(|pair| Some(pair.text(2)?.to_owned()));
    Ok(Metadata { leaves, groups, huggingface })
}

fn group(group: &Value, leaves: &[Leaf], end: u64) -> Option<Group> {
    let chunks: Option<Vec<Chunk>> = group.list(1).iter().map(|chunk| self::chunk(chunk, end)).collect();
    let rows = usize::try_from(group.number(3)?).ok()?;
    chunks.filter(|chunks| chunks.len() == leaves.len()).map(|chunks| Group { rows, chunks })
}

fn chunk(chunk: &Value, end: u64) -> Option<Chunk> {
    let about = chunk.field(3)?;
    // Files with a dictionary begin with it; some writers give 0 where there is none.
    let pages = about.number(9)?;
    let start = about.number(11).filter(|&at| at > 0).map_or(pages, |at| at.min(pages));
    let start = u64::try_from(start).ok()?;
    let stop = start.checked_add(u64::try_from(about.number(7)?).ok()?)?;
    let elsewhere = chunk.field(1).is_some();
    (start >= 4 && stop <= end && !elsewhere).then_some(Chunk { codec: about.number(4)?, start, end: stop })
}

/// The columns: the schema is a tree, written from its root downwards, every node before its children.
fn leaves(nodes: &[Value]) -> Option<Vec<Leaf>> {
    struct Above {
        left: i64,
        path: Vec<String>,
        level: u32,
        repeated: bool,
    }
    let (root, nodes) = nodes.split_first()?;
    let mut above = vec![Above { left: root.number(5)?, path: Vec::new(), level: 0, repeated: false }];
    let mut out = Vec::new();
    for node in nodes {
        while above.last()?.left == 0 {
            above.pop();
        }
        let parent = above.last_mut()?;
        parent.left -= 1;
        let repetition = node.number(3)?;
        let mut path = parent.path.clone();
        path.push(node.text(4)?.to_owned());
        let level = parent.level + u32::from(repetition != 0);
        let repeated = parent.repeated || repetition == 2;
        if let Some(left) = node.number(5).filter(|&children| children > 0) {
            if above.len() > 16 {
                return None;
            }
            above.push(Above { left, path, level, repeated });
            continue;
        }
        let kind = match node.number(1)? {
            1 => Kind::Int32,
            2 => Kind::Int64,
            6 => Kind::Bytes,
            _ => Kind::Other,
        };
        let logical = node.field(10).and_then(|logical| logical.field(1)).is_some();
        let text = kind == Kind::Bytes && (logical || node.number(6) == Some(0));
        out.push(Leaf { path, kind, text, level, repeated });
    }
    above.iter().all(|above| above.left == 0).then_some(out)
}
