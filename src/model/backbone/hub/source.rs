//! What a backbone's source, as the user typed it, is: a folder, or an id of the Hub.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use hf_hub::{Repo, RepoType};

use super::cache::is_name;
use super::{HubError, is_id};

/// What a source given by the user is.
pub(super) enum Source {
    Folder(PathBuf),
    Remote(Repo),
}

/// Parses `source`: an existing folder, or the id of a repository.
pub(super) fn parse(source: &str) -> Result<Source, HubError> {
    let path = Path::new(source);
    if path.is_dir() {
        return Ok(Source::Folder(path.into()));
    }
    match path.try_exists() {
        Ok(true) => return Err(HubError::NotAFolder(path.into())),
        // A path that exists but cannot be read now, or by this user, is not taken for a name on the Hub.
        Err(source) if !matches!(source.kind(), ErrorKind::NotADirectory | ErrorKind::InvalidFilename) => {
            return Err(HubError::Unreadable { path: path.into(), source });
        }
        _ => {}
    }
    let looks_like_a_path = path.is_absolute()
        || source.starts_with(['.', '~', '/'])
        || source.ends_with('/')
        || source.contains('\\')
        || source.split('@').next().is_some_and(|name| name.matches('/').count() > 1);
    if looks_like_a_path {
        return Err(HubError::NoFolder(path.into()));
    }
    let (name, revision) = source.split_once('@').unwrap_or((source, "main"));
    if !is_id(name) || !revision.split('/').all(is_name) {
        return Err(HubError::NotAnId(source.into()));
    }
    Ok(Source::Remote(Repo::with_revision(name.into(), RepoType::Model, revision.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_paths() {
        let id = |source| match parse(source) {
            Ok(Source::Remote(repo)) => (repo.url(), repo.revision().to_owned()),
            _ => panic!("{source} is no id"),
        };
        assert_eq!(id("facebook/vit-mae-base"), ("facebook/vit-mae-base".into(), "main".into()));
        assert_eq!(id("a/b.c@refs/pr/1"), ("a/b.c".into(), "refs/pr/1".into()));
        for path in ["/no/where", "./x", "../x", "~/x", "a/b/c", "a/b/", "a\\b", "models/x/y@main"] {
            assert!(matches!(parse(path), Err(HubError::NoFolder(_))), "{path}");
        }
        for wrong in ["", "name", "a/b@", "a/b@../x", "a/b@x/../y", "a b/c", "a/b?x", "a/@main", "a/b@.."] {
            assert!(matches!(parse(wrong), Err(HubError::NotAnId(_))), "{wrong}");
        }
        assert!(matches!(parse("src"), Ok(Source::Folder(_))));
        let file = parse("Cargo.toml").err().map(|error| error.to_string());
        assert!(file.is_some_and(|error| error.contains("is not a folder") && error.contains("`ssmprobe import`")));
        assert!(matches!(parse("Cargo.toml/name"), Ok(Source::Remote(_))), "no folder is in the way");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_cannot_be_looked_at_is_no_name_of_the_hub() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).unwrap();
        let refused = parse(folder.path().join("loop").to_str().unwrap()).map(|_| ()).unwrap_err();
        assert!(matches!(refused, HubError::Unreadable { .. }), "{refused}");
    }
}
