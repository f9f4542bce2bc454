//! Opens a written file with the system's program for it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The system's command that opens files.
const OPENER: &str = if cfg!(windows) {
    "explorer"
} else if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// The program that opens files; called with one path.
#[derive(Clone, Debug)]
pub struct Opener(pub PathBuf);

impl Default for Opener {
    fn default() -> Self {
        Self(OPENER.into())
    }
}

impl Opener {
    /// Opens a file or a folder; may block until it is closed again.
    ///
    /// # Errors
    /// If there is no such program, or it fails; the message says where the file is.
    pub fn open(&self, path: &Path) -> Result<(), String> {
        let (program, path) = (self.0.display(), std::path::absolute(path).unwrap_or_else(|_| path.into()));
        let mut command = Command::new(&self.0);
        command.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let why = match command.status() {
            // Windows' explorer exits with 1 even on success.
            Ok(status) if status.success() || cfg!(windows) => return Ok(()),
            Ok(status) => format!("`{program}` did not open it ({status})"),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                format!("`{program}`, which opens files, is not installed here")
            }
            Err(error) => format!("`{program}` cannot be started: {error}"),
        };
        Err(format!("{why}; it is in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_file_is_handed_to_the_systems_program_or_it_is_said_where_it_lies() {
        use super::Opener;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, script) = (folder.path().join("a page.html"), folder.path().join("opener"));
        let opens = |text: &str| {
            std::fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
            Opener(script.clone()).open(&file)
        };
        assert_eq!(opens("[ $# = 1 ] && echo opened > \"$1\""), Ok(()));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "opened\n");
        let lies = format!("; it is in {}", file.display());
        let why = opens("exit 3").unwrap_err();
        assert!(why.contains("did not open it (exit status: 3)") && why.ends_with(&lies), "{why}");
        let why = Opener("/nowhere/xdg-open".into()).open(&file).unwrap_err();
        assert!(
            why.starts_with("`/nowhere/xdg-open`, which opens files, is not installed here")
                && why.ends_with(&lies),
            "{why}"
        );
    }
}
