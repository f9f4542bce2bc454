//! Where things go that nobody named a place for: tokens and runs.

use std::path::{Path, PathBuf};

/// Names the folder of all token caches where it lies elsewhere.
pub const CACHE_ENV: &str = "SSMPROBE_CACHE";
/// Most gigabytes one token cache may take unless a person says otherwise.
pub const MAX_CACHE_GB: f64 = 50.0;

/// The folder of all token caches: what [`CACHE_ENV`] names, else `tokens` in the user's cache folder;
/// absent where the user has no home.
pub fn tokens() -> Option<PathBuf> {
    let named = std::env::var_os(CACHE_ENV).filter(|path| !path.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(directories::ProjectDirs::from("", "", "ssmprobe")?.cache_dir().join("tokens")))
}

/// The folder of what the program keeps of its own doings, as reports of crashes; absent where the user has no home.
pub fn state() -> Option<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "ssmprobe")?;
    Some(dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir()).to_owned())
}

/// The folder of pictures that were pasted: kept, so that a workspace can name them; absent where the
/// user has no home.
pub fn pasted() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "ssmprobe")?.data_dir().join("pasted"))
}

/// The folder of files that a window elsewhere sent: kept, so that a workspace can name them, as long as the user's cache
/// is; absent where the user has no home.
pub fn received() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "ssmprobe")?.cache_dir().join("received"))
}

/// The folder of what GPUs' kernels were compiled to; absent where the user has no home.
pub fn kernels() -> Option<PathBuf> {
    Some(directories::ProjectDirs::from("", "", "ssmprobe")?.cache_dir().join("kernels"))
}

/// With the user's folder in the place of `~`.
pub fn expanded(text: &str) -> PathBuf {
    let rest =
        text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with(std::path::is_separator));
    match rest.zip(directories::BaseDirs::new()) {
        Some((rest, dirs)) => dirs.home_dir().join(rest.trim_start_matches(std::path::is_separator)),
        None => PathBuf::from(text),
    }
}

/// A folder that is not there yet, for a run on a dataset: `ssmprobe-runs/NAME` in the user's home,
/// with a number behind it if need be.
pub fn run(name: &str) -> Option<PathBuf> {
    let home = directories::UserDirs::new()?.home_dir().join("ssmprobe-runs");
    Some(unused(&home, name))
}

/// `name` in `folder`, or the first `name-2`, `name-3`... that is not there yet.
fn unused(folder: &Path, name: &str) -> PathBuf {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered).map(|name| folder.join(name));
    names.find(|path| !path.exists()).expect("an endless list of names")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(super::unused(folder.path(), "a"), folder.path().join("a"));
        for name in ["a", "a-2"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(super::unused(folder.path(), "a"), folder.path().join("a-3"));
    }
}
