//! Files that are written whole or not at all.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

const PREFIX: &str = ".ssmprobe-";

/// Writes `bytes` beside `path`, then renames: a reader meets the old file or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = beside(path)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
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

/// Removes the temporary files in `folder` that a kill has left, those not written to for `age`:
/// younger ones may be another program's that is at work.
pub fn tidy(folder: &Path, age: Duration) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(PREFIX) || name.starts_with(".tmp")) {
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
    use super::write;

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
}
