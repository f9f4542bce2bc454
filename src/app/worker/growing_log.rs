//! A log file that another process writes: what is new in it, by whole lines.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::model::io::atomic_file;

/// Most bytes of a log that are read at a time, and at its end for an error.
pub(super) const MAX_READ: u64 = 1 << 20;

/// The file, and the offset up to which it was read.
pub(super) struct GrowingLog {
    pub(super) path: PathBuf,
    pub(super) read: u64,
}

impl GrowingLog {
    /// Passes on each new line with its byte offset. An incomplete last line is passed on once the process has `ended`.
    pub(super) fn lines(&mut self, ended: bool, mut on_line: impl FnMut(String, u64)) {
        loop {
            let mut bytes = Vec::new();
            let read = atomic_file::open(&self.path).and_then(|mut file| {
                file.seek(SeekFrom::Start(self.read))?;
                file.take(MAX_READ).read_to_end(&mut bytes)
            });
            if read.is_err() || bytes.is_empty() {
                return;
            }
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let whole =
                if whole == 0 && (ended || bytes.len() as u64 == MAX_READ) { bytes.len() } else { whole };
            for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
                on_line(String::from_utf8_lossy(line).trim_end_matches(['\n', '\r']).to_owned(), self.read);
                self.read += line.len() as u64;
            }
            if whole == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_line_by_line_as_it_grows() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = GrowingLog { path: folder.path().join("log"), read: 0 };
        let mut told = Vec::new();
        let mut look = |text: &str, ended| {
            atomic_file::write(&folder.path().join("log"), text.as_bytes()).unwrap();
            log.lines(ended, |line, at| told.push((line, at)));
        };
        look("one\ntw", false);
        look("one\ntw", false);
        look("one\ntwo\r\n\nthr", false);
        look("one\ntwo\r\n\nthree", true);
        let expected = [("one", 0), ("two", 4), ("", 9), ("three", 10)];
        assert_eq!(told, expected.map(|(line, at)| (line.to_owned(), at)));
    }
}
