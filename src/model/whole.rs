//! Files that are written whole or not at all.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

const PREFIX: &str = ".ssmprobe-";

/// Writes `bytes` beside `path`, then renames: a reader meets the old file or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // As any new file: what the umask leaves. A temporary file is private otherwise.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.prefix(PREFIX).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
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
