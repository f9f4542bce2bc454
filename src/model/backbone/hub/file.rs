//! A single file of a repository of the Hub, such as a pushed probe, named `hf:ORGANISATION/NAME[@REVISION]/FILE`.

use std::path::{Path, PathBuf};

use hf_hub::{Repo, RepoType};

use super::cache::{CachedRepo, is_name};
use super::download::Client;
use super::{Callback, Hub, HubError};

/// The prefix of such a name.
pub const SCHEME: &str = "hf:";

/// Whether `path` names a file of the Hub.
pub fn is_file_of_hub(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(SCHEME))
}

/// Whether `file` is a safe relative path of a file in a repository, folders included.
pub(super) fn is_file(file: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-=+,[]".contains(c);
    let part = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.contains("..") && part.chars().all(plain)
    };
    file.len() <= 200 && file.split('/').all(part)
}

/// `file`, percent-encoded for a URL.
pub(super) fn encoded(file: &str) -> String {
    let one = |c: char| if "=+,[]".contains(c) { format!("%{:02X}", c as u32) } else { c.to_string() };
    file.chars().map(one).collect()
}

/// The repository and file that `source` names; `None` if it is malformed.
fn parse(source: &str) -> Option<(Repo, &str)> {
    let (organisation, rest) = source.strip_prefix(SCHEME)?.split_once('/')?;
    let (name, file) = rest.split_once('/')?;
    let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
    // Revisions of pull requests and conversions (`refs/pr/1`) have two more parts.
    let mut parts = file.splitn(3, '/');
    let (revision, file) = match (revision, parts.next(), parts.next(), parts.next()) {
        ("refs", Some(kind @ ("pr" | "convert")), Some(which), Some(file)) => {
            (format!("refs/{kind}/{which}"), file)
        }
        _ => (revision.to_owned(), file),
    };
    let named = [organisation, name].into_iter().chain(revision.split('/')).all(is_name) && is_file(file);
    let id = format!("{organisation}/{name}");
    named.then(|| (Repo::with_revision(id, RepoType::Model, revision), file))
}

impl Hub {
    /// The local path of the file that `source` names, in its current version on the Hub, which is downloaded if necessary; the
    /// cached version if the Hub is unreachable or offline mode is set.
    ///
    /// # Errors
    /// If the name is malformed, there is no such file, or it cannot be downloaded.
    pub fn file(&self, source: &str, progress: &mut Callback) -> Result<PathBuf, HubError> {
        let (repo, file) = parse(source).ok_or_else(|| HubError::NotAFile(source.into()))?;
        let cache = CachedRepo::new(&self.cache, &repo);
        let cached = || cache.file(&cache.commit(repo.revision())?, file);
        if self.offline {
            return cached()
                .ok_or_else(|| HubError::OfflineFile { asked: source.into(), cache: self.cache.clone() });
        }
        let client = Client::new(self, &repo)?;
        let remote = match client.metadata(repo.revision(), file) {
            Err(HubError::Network { id, url, reason, .. }) => {
                return cached().ok_or(HubError::Unreachable { id, url, reason });
            }
            // What answers is not the Hub, or it is overloaded.
            Err(error @ (HubError::Status { .. } | HubError::Malformed { .. })) => {
                return cached().ok_or(error);
            }
            other => other?,
        };
        let none = || {
            let tree = format!("{}/tree/{}", self.page(&repo), repo.url_revision());
            HubError::NoSuchFile { id: repo.url(), tree, file: file.into() }
        };
        let remote = remote.ok_or_else(none)?;
        let path = client.fetch(&cache, file, &remote, progress)?;
        cache.set_commit(repo.revision(), &remote.commit)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_hub_is_told_from_what_leads_elsewhere() {
        let found = |source| {
            parse(source).map(|(repo, file)| (repo.url(), repo.revision().to_owned(), file.to_owned()))
        };
        let is = |id: &str, revision: &str, file: &str| Some((id.into(), revision.into(), file.into()));
        assert_eq!(found("hf:a/b/c.safetensors"), is("a/b", "main", "c.safetensors"));
        assert_eq!(found("hf:a/b@v1/d/c-s0.safetensors"), is("a/b", "v1", "d/c-s0.safetensors"));
        assert_eq!(found("hf:a/b/s[t=0.1,i=5]-s0.x"), is("a/b", "main", "s[t=0.1,i=5]-s0.x"));
        assert_eq!(found("hf:a/b@refs/pr/1/d/c.x"), is("a/b", "refs/pr/1", "d/c.x"));
        assert_eq!(found("hf:a/b@refs/convert/x/c.x"), is("a/b", "refs/convert/x", "c.x"));
        assert_eq!(found("hf:a/b@refs/heads/x/c.x"), is("a/b", "refs", "heads/x/c.x"));
        assert_eq!(found("hf:a/b/pr/1/c.x"), is("a/b", "main", "pr/1/c.x"));
        let wrong = "a/b/c hf:a/b hf:a/b/ hf:a//c hf:/b/c hf:a/b@/c hf:a/b/../c hf:a/b/.c hf:a/b/c?d hf:a/b/c%2e hf:a/b/d//c \
                     hf:a/b@refs/pr/../c hf:a/b@refs/pr//c hf:../b/c hf:a/b/d\\c";
        for wrong in wrong.split_whitespace() {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        assert_eq!(encoded("d/s[t=0.1,i=5]+x.y"), "d/s%5Bt%3D0.1%2Ci%3D5%5D%2Bx.y");
    }
}
