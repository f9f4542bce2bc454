//! Files that are written whole or not at all, and read within bounds.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

const PREFIX: &str = ".ssmprobe-";

/// Writes `bytes` beside `path`, then renames: a reader meets the old file or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// [`write`] of what `content` writes.
pub fn write_with<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    let file = beside(path)?;
    let mut buffer = BufWriter::new(file.as_file());
    content(&mut buffer)?;
    buffer.flush()?;
    drop(buffer);
    file.as_file().sync_all()?; // before the rename, so that no crash leaves an empty file under the name
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// The bytes of a file that has at most `limit`; a folder or a pipe is refused.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let bytes = start(path, limit.saturating_add(1))?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

/// The first `length` bytes of a file, or all of a shorter one.
pub fn start(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    // Asked before it is opened: opening a pipe would wait for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file but a folder or a pipe"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A temporary file in the folder of `path`, to be renamed to it once it is whole. It may be read as
/// any other new file, within the umask; temporary files are private otherwise.
pub fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    builder.prefix(PREFIX).tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Whether a file is one of [`beside`], by its name.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Removes the temporary files in `folder` that a kill has left, those not written to for `age`:
/// younger ones may be another program's that is at work.
pub fn tidy(folder: &Path, age: Duration) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if !is_temporary(&name.to_string_lossy()) {
            continue;
        }
        let idle = entry.metadata().and_then(|about| about.modified());
        if idle.is_ok_and(|time| time.elapsed().is_ok_and(|idle| idle >= age)) {
            // Whoever else removes it at the same moment has done the same.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{read, start, tidy, write};
    use std::io::ErrorKind;
    use std::time::Duration;

    #[cfg(unix)]
    #[test]
    fn a_written_file_is_as_readable_as_any_other() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let [ours, other] = ["ours", "other"].map(|name| folder.path().join(name));
        write(&ours, b"x").unwrap();
        std::fs::File::create(&other).unwrap();
        assert_eq!(ours.metadata().unwrap().mode(), other.metadata().unwrap().mode());
    }

    #[test]
    fn what_is_too_long_or_no_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::NotFound);
        write(&path, b"abc").unwrap();
        assert_eq!((read(&path, 3).unwrap(), start(&path, 2).unwrap()), (b"abc".to_vec(), b"ab".to_vec()));
        assert_eq!(read(&path, 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read(folder.path(), 2).unwrap_err().kind(), ErrorKind::InvalidInput);
        #[cfg(unix)]
        {
            let pipe = folder.path().join("pipe"); // nobody writes into it: opening it would never end
            std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
            assert_eq!(read(&pipe, 2).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn only_own_temporary_files_are_tidied_away() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = [".ssmprobe-ab12", ".tmp-of-another"].map(|name| folder.path().join(name));
        for path in [&own, &other] {
            std::fs::write(path, "").unwrap();
        }
        tidy(folder.path(), Duration::ZERO).unwrap();
        assert!(!own.exists() && other.exists());
    }
}
