//! Files that are written atomically (a temporary file, then a rename) and read up to a limit.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IntoInnerError, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::NamedTempFile;

use super::failpoint;
use super::temporary::{self, LEFT_AFTER, PREFIX};

/// Writes `bytes` to a temporary file beside `path`, then renames it: a reader sees the old file or the new one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write()`], but only if nothing is at `path` yet; of several writers, also on several machines, one succeeds.
/// Returns whether it was this one.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let mut pending = Pending::new(path)?;
    pending.write_all(bytes)?;
    step(|| sync(pending.file.as_file()))?;
    let mut exists = false;
    step(|| match pending.file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(failed) if failed.error.kind() == ErrorKind::AlreadyExists || path.exists() => {
            exists = true;
            Ok(())
        }
        // A file system without hard links may still rename, which would replace a file that is there.
        Err(failed) => replace(failed.file, path),
    })?;
    Ok(!exists)
}

/// As [`write()`], with the bytes that `content` writes.
pub fn write_with<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<Pending>) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = BufWriter::new(Pending::new(path)?);
    content(&mut file)?;
    Ok(file.into_inner().map_err(IntoInnerError::into_error)?.finish()?)
}

/// Lets `fill` fill a temporary folder, then renames it to `path`. If an empty folder is there already, which may be a link, a mount
/// point or the current folder, the content is moved into it.
pub fn write_folder<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let exists = path.is_dir();
    let folder = if exists { path } else { folder_of(path) };
    make_folder(folder)?;
    let _ = temporary::tidy(folder, LEFT_AFTER); // a folder that cannot be listed may still be writable
    let made = temporary_in(0o777, |builder| builder.tempdir_in(folder))?; // removed on drop unless renamed
    fill(made.path())?;
    if !exists {
        return Ok(step(|| std::fs::rename(made.path(), path))?);
    }
    // Listed before the first of them moves, and again afterwards: some file systems skip entries while a folder changes.
    let names = || -> io::Result<Vec<_>> {
        std::fs::read_dir(made.path())?.map(|entry| Ok(entry?.file_name())).collect()
    };
    let mut left = names()?;
    if left.iter().any(|name| path.join(name).symlink_metadata().is_ok()) {
        step(|| Err(ErrorKind::DirectoryNotEmpty.into()))?; // somebody else has filled it meanwhile
    }
    while !left.is_empty() {
        for name in left {
            step(|| std::fs::rename(made.path().join(&name), path.join(&name)))?;
        }
        left = names()?;
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a temporary file or folder, with the permissions `mode` within the umask.
fn temporary_in<T: AsRef<Path>>(
    mode: u32,
    create: impl FnOnce(&mut tempfile::Builder) -> io::Result<T>,
) -> io::Result<T> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    temporary::create(|| step(|| create(&mut builder)))
}

/// A temporary file beside its target, which [`finish`](Self::finish) renames to it; if dropped before, it is
/// removed and the target stays as it was. Error messages say what the user can do.
#[derive(Debug)]
pub struct Pending {
    target: PathBuf,
    file: NamedTempFile,
}

impl Pending {
    /// An empty one for `path`, or for the file that a symbolic link there points to. It gets the permissions of any
    /// new file (0o666 within the umask), or of the file it replaces, not a temporary file's private ones.
    pub fn new(path: &Path) -> io::Result<Self> {
        let parent = path.parent().unwrap_or(Path::new(""));
        // `canonicalize` fails if the target does not exist yet.
        let linked = || path.canonicalize().or_else(|_| Ok::<_, io::Error>(parent.join(path.read_link()?)));
        let target = if path.is_symlink() { linked()? } else { path.to_owned() };
        let old = target.metadata().ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            let message = "it is a folder, a device or a pipe, not a file; choose another name";
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let file = temporary_in(0o666, |builder| builder.tempfile_in(folder_of(&target)))?;
        #[cfg(unix)]
        if let Some(old) = old {
            let _ = file.as_file().set_permissions(old.permissions()); // not every file system has permissions
        }
        Ok(Self { target, file })
    }

    /// Flushes it to the disk and renames it to its target.
    pub fn finish(self) -> io::Result<()> {
        // Before the rename, so that no crash leaves an empty file at the target.
        step(|| sync(self.file.as_file()))?;
        step(|| replace(self.file, &self.target))
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(|| self.file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Pending {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// Renames a temporary file to `target`, by the standard library: on Windows that of `tempfile` replaces no file that is being read.
/// Not every file system of Windows does; there readers are waited for, a second at most.
fn replace(file: NamedTempFile, target: &Path) -> io::Result<()> {
    let (_, path) = file.keep().map_err(|failed| failed.error)?;
    let mut renamed = std::fs::rename(&path, target);
    let attempts = if cfg!(windows) { 100 } else { 0 };
    for _ in 0..attempts {
        if renamed.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            std::thread::sleep(Duration::from_millis(10));
            renamed = std::fs::rename(&path, target);
        }
    }
    renamed.inspect_err(|_| drop(std::fs::remove_file(&path)))
}

/// Flushes a file to the disk. On macOS, network disks refuse to flush their own cache, as `sync_all` asks for.
pub(in crate::model) fn sync(file: &File) -> io::Result<()> {
    let flushed = file.sync_all();
    #[cfg(target_os = "macos")]
    if flushed.is_err() {
        // SAFETY: the descriptor is open as long as the file is borrowed.
        #[expect(unsafe_code, reason = "a call of C that flushes what it is given")]
        let refused = unsafe { libc::fsync(std::os::fd::AsRawFd::as_raw_fd(file)) };
        return if refused < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    }
    flushed
}

/// Creates a folder and its missing parents. Error messages say what the user can do.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    step(|| {
        nearest_folder(path)?;
        std::fs::create_dir_all(path)
    })
}

/// Checks that files can be written into the folder `path`, which need not exist yet, before long work whose results go
/// there: creates a temporary file and removes it. Error messages say what the user can do.
pub fn can_write(path: &Path) -> io::Result<()> {
    let folder = step(|| nearest_folder(path))?;
    Pending::new(&folder.join(PREFIX)).map(drop)
}

/// Whether something exists at `path`. Unlike [`Path::exists`], returns an error where that cannot be determined.
pub fn is_there(path: &Path) -> io::Result<bool> {
    path.parent().map(nearest_folder).transpose()?;
    path.try_exists()
}

/// The folder `path`, or if it does not exist its nearest ancestor that does.
///
/// # Errors
/// If that is a file.
pub fn nearest_folder(path: &Path) -> io::Result<&Path> {
    let nearest = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("."));
    match nearest.is_dir() {
        true => Ok(nearest),
        false => {
            let message = format!("{} is a file, expected a folder", nearest.display());
            Err(io::Error::new(ErrorKind::NotADirectory, message))
        }
    }
}

/// Free bytes on the disk of `path`; `None` if the system does not tell, as some network file systems, which report a size of 0.
pub fn free_space(path: &Path) -> Option<u64> {
    fs4::statvfs(path).ok().filter(|disk| disk.total_space() > 0).map(|disk| disk.available_space())
}

/// Runs one system call of a write, a [failpoint](failpoint::file_step); adds to its error what the user can do.
pub(in crate::model) fn step<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    failpoint::file_step().and_then(|()| call()).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::Interrupted => return error, // the caller retries, and nobody sees it
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, then try again",
            ErrorKind::InvalidFilename => "choose another, shorter name",
            ErrorKind::FileTooLarge => "raise the limit on files (`ulimit -f`), or choose another disk",
            kind if is_refused(kind) => "make it writable, or choose another folder",
            ErrorKind::NotFound => "its folder does not exist; create it, or choose another",
            ErrorKind::NotADirectory | ErrorKind::DirectoryNotEmpty => "choose another folder",
            _ => "check the disk, then try again",
        };
        // `tempfile` appends the temporary file's path, which means nothing to the user.
        let text = error.to_string();
        let why = match text.rsplit_once(" at path ") {
            Some((why, temporary)) if temporary.contains(PREFIX) => why,
            _ => &text,
        };
        io::Error::new(error.kind(), format!("{why}; {advice}"))
    })
}

/// Whether an error of this kind says that this user may not do it there.
pub fn is_refused(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Reads a file of at most `limit` bytes; a longer one, a folder or a pipe is an error.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let too_large =
        || Err(io::Error::new(ErrorKind::FileTooLarge, format!("it is larger than {limit} bytes")));
    let metadata = path.metadata()?;
    if metadata.is_file() && metadata.len() > limit {
        return too_large(); // before any of it is read
    }
    let bytes = start(path, limit.saturating_add(1))?;
    if bytes.len() as u64 > limit { too_large() } else { Ok(bytes) }
}

/// Reads a UTF-8 file of at most `limit` bytes.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// Opens a file to read it; a folder or a pipe is an error.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked before it is opened: opening a pipe would block until it has a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a folder or a pipe, not a file"));
    }
    File::open(path)
}

/// Reads the first `length` bytes of a file, or all of a shorter one; a folder or a pipe is an error.
pub fn start(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let read = || -> io::Result<Vec<u8>> {
        let (file, mut bytes) = (open(path)?, Vec::new());
        // Without room, the first read is of 32 bytes and the next of twice as many: a photograph takes a dozen.
        bytes.try_reserve_exact(usize::try_from(file.metadata()?.len().min(length)).unwrap_or(0))?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        // On NFS, another machine has replaced the file since it was opened.
        Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => read(),
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_system_that_tells_no_size_is_not_full() {
        assert!(free_space(Path::new("/proc")).is_none() && free_space(Path::new("/")).is_some());
    }

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

    #[cfg(unix)]
    #[test]
    fn through_a_link_its_target_is_written_with_the_mode_it_has_and_no_device_is_replaced() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [target, link, device] = ["inside/target", "link", "device"].map(|name| folder.path().join(name));
        make_folder(&folder.path().join("inside")).unwrap();
        write(&target, b"old").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink("inside/target", &link).unwrap();
        write(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(read(&target, 3).unwrap(), b"new");
        assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&target).unwrap();
        write(&link, b"again").unwrap();
        assert!(link.is_symlink(), "a link to nothing is kept, too");
        assert_eq!(read(&target, 5).unwrap(), b"again");
        symlink("/dev/null", &device).unwrap();
        for path in [&device, folder.path()] {
            assert_eq!(write(path, b"x").unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert!(device.is_symlink());
    }

    #[test]
    fn a_file_is_replaced_while_it_is_being_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write(&path, b"old").unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
        assert_eq!(text(&path, 3).unwrap(), "new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_too_long_or_no_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(read(&path, 3).unwrap_err().kind(), ErrorKind::NotFound);
        write(&path, b"abc").unwrap();
        assert_eq!((read(&path, 3).unwrap(), start(&path, 2).unwrap()), (b"abc".to_vec(), b"ab".to_vec()));
        let room = [read(&path, 3), start(&path, 2)].map(|bytes| bytes.unwrap().capacity());
        assert_eq!(room, [3, 2], "what is read has as much memory as it needs");
        assert_eq!(read(&path, 2).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(text(&path, 3).unwrap(), "abc");
        write(&path, b"\xff").unwrap();
        assert_eq!(text(&path, 3).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read(folder.path(), 2).unwrap_err().kind(), ErrorKind::InvalidInput);
        #[cfg(unix)]
        {
            let pipe = folder.path().join("pipe"); // it has no writer: opening it would block forever
            std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
            assert_eq!(read(&pipe, 2).unwrap_err().kind(), ErrorKind::InvalidInput);
            let digest = crate::model::io::sha256::of_file(&pipe);
            assert_eq!(digest.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_file_is_no_folder_and_nothing_is_left_of_a_try() {
        let folder = tempfile::tempdir().unwrap();
        let [file, new] = ["file", "new/folder"].map(|name| folder.path().join(name));
        write(&file, b"x").unwrap();
        let expected = format!("{} is a file, expected a folder", file.display());
        for path in [file.clone(), file.join("run")] {
            for refused in [make_folder(&path), can_write(&path), is_there(&path.join("run.json")).map(drop)]
            {
                let refused = refused.unwrap_err();
                assert!(refused.to_string().contains(&expected), "{refused}");
                assert_eq!(refused.kind(), ErrorKind::NotADirectory);
            }
        }
        assert!(is_there(&file).unwrap() && !is_there(&new).unwrap());
        let refused = write(&new.join("file"), b"x").unwrap_err().to_string();
        assert!(refused.contains("its folder does not exist") && !refused.contains(PREFIX), "{refused}");
        for (kind, cure) in [(ErrorKind::FileTooLarge, "ulimit -f"), (ErrorKind::InvalidFilename, "shorter")]
        {
            let refused = step(|| Err::<(), _>(kind.into())).unwrap_err().to_string();
            assert!(refused.contains(cure), "{refused}");
        }
        can_write(&new).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(nearest_folder(Path::new("not-there")).unwrap(), Path::new("."));
    }
}
