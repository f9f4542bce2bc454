//! Default folders: token caches, crash reports, pasted and received files, compiled kernels and runs; creating a folder or file
//! whose errors name it; and this program's own file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::app::format::distinct;
use crate::model::io::atomic_file;
use crate::model::train::run::RunLock;

/// The environment variable that overrides the folder of all token caches.
pub const CACHE_ENV: &str = "SSMPROBE_CACHE";
/// Default limit of one token cache, in gigabytes.
pub const MAX_CACHE_GB: f64 = 50.0;

/// The folder of all token caches: the one that [`CACHE_ENV`] names, else `tokens` in the user's cache folder, if any.
pub fn tokens() -> Option<PathBuf> {
    let named = std::env::var_os(CACHE_ENV).filter(|path| !path.is_empty());
    // No shell expands `~` in a variable that a notebook or a service file sets.
    let named = named.map(|path| path.to_str().map_or_else(|| PathBuf::from(&path), expanded));
    named.or_else(|| Some(directories::ProjectDirs::from("", "", "ssmprobe")?.cache_dir().join("tokens")))
}

/// The folder of the program's own state, such as crash reports; `None` if the user has no home folder.
pub fn state() -> Option<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "ssmprobe")?;
    Some(dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir()).to_owned())
}

/// The folder of pasted pictures, kept so that a workspace can name them; `None` if the user has no home folder.
pub fn pasted() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "ssmprobe")?.data_dir().join("pasted"))
}

/// The folder of files received from a window on another machine, in the user's cache so that a workspace can refer to
/// them; `None` if the user has no home folder.
pub fn received() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "ssmprobe")?.cache_dir().join("received"))
}

/// The folder of compiled GPU kernels; `None` if the user has no home folder.
pub fn kernels() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "ssmprobe")?.cache_dir().join("kernels"))
}

/// Replaces a leading `~` by the user's home folder.
pub fn expanded(text: &str) -> PathBuf {
    let rest =
        text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(std::path::is_separator));
    match rest.zip(directories::BaseDirs::new()) {
        Some((rest, dirs)) => dirs.home_dir().join(rest.trim_start_matches(std::path::is_separator)),
        None => PathBuf::from(text),
    }
}

/// The folder of runs that were given no other: `ssmprobe-runs` in the user's home folder; `None` if there is none.
pub fn runs() -> Option<PathBuf> {
    Some(directories::UserDirs::new()?.home_dir().join("ssmprobe-runs"))
}

/// An unused folder for a run: `NAME` in [`runs`], followed by a number if it exists; `None` if the user has no home
/// folder.
pub fn run(name: &str) -> Option<PathBuf> {
    let runs = runs()?;
    let is_taken = |name: &str| runs.join(name).exists() && !RunLock::is_alone_in(&runs.join(name));
    Some(runs.join(distinct(name, is_taken)))
}

/// Creates a folder and those above it, as far as they are missing; an error names it.
pub fn make_folder(folder: &Path) -> anyhow::Result<()> {
    atomic_file::make_folder(folder).with_context(|| format!("{}: cannot be created", folder.display()))
}

/// Writes a file [atomically](atomic_file::write); an error names it.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    atomic_file::write(path, bytes).with_context(|| format!("{}: cannot be written", path.display()))
}

/// The file of this program; if it was replaced since the program started, as by an update, the file in its place.
///
/// # Errors
/// If the system does not tell.
pub fn program() -> anyhow::Result<PathBuf> {
    Ok(in_place(std::env::current_exe().context("the path of this program is unknown")?))
}

/// The program that is now at the path of `program`: Linux marks the path of a file that was removed or replaced, and NFS keeps the
/// file under another name as long as it is in use.
fn in_place(program: PathBuf) -> PathBuf {
    let is_kept = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".nfs"));
    let marked = program.to_str().and_then(|path| path.strip_suffix(" (deleted)")).map(PathBuf::from);
    let replaced = marked.or_else(|| is_kept.then(|| program.with_file_name(env!("CARGO_PKG_NAME"))));
    replaced.filter(|path| path.is_file()).unwrap_or(program)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_program_that_was_replaced_is_found_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let [program, marked, kept] =
            ["ssmprobe", "ssmprobe (deleted)", ".nfs0000000001"].map(|name| folder.path().join(name));
        assert_eq!(
            [&marked, &kept].map(|path| super::in_place(path.clone())),
            [marked.clone(), kept.clone()]
        );
        crate::model::io::atomic_file::write(&program, b"newer").unwrap();
        assert_eq!([marked, kept].map(super::in_place), [program.clone(), program.clone()]);
        assert_eq!(super::in_place(program.clone()), program);
    }
}
