//! Access to the Hugging Face Hub: resolves a folder or an id that the user typed to a folder with a backbone, and an `hf:` name
//! to a probe file; pushes probes.
//!
//! Downloads go to the cache that Python's `huggingface_hub` uses, in its layout, and a backbone
//! that is complete there is opened without a single request. Environment variables have the same
//! meaning as in Python: `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_TOKEN`, and for
//! private networks `HTTPS_PROXY` and `SSL_CERT_FILE`.
//!
//! Repositories, their URLs and the layout of the cache are `hf-hub`'s (0.5, with `ureq`). The download is our own, with
//! two requests per file. Of the tests in `tests/suite/hub`, the download of hf-hub 0.5.0 passes 1 of 15: it sends the
//! token to the store that the Hub redirects to, keeps contents with a wrong SHA-256, waits for ever on a very slow
//! connection, cannot be stopped, follows no redirect from one Hub to another, needs a server with ranges, reads a
//! configuration of any size, does not record absent files, and distinguishes gated from misspelt repositories only by
//! status. Its refs are neither written atomically nor checked when read. hf-hub 1.0.0 (123 more crates: tokio, reqwest,
//! aws-lc, Xet) was read, not run: it handles errors, offline mode and absent files, but its `download_file` starts over
//! each time, and its stream of a range hides the status, so that a server which ignores the range cannot be
//! distinguished from one that respects it.

mod cache;
mod download;
mod error;
mod file;
mod push;
mod rate;
mod source;
mod url;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::{Repo, RepoType};

use super::config::Config;
use super::weights::index;
use crate::model::io::atomic_file;
use cache::{CachedRepo, is_commit, is_name};
use download::Client;
pub use error::HubError;
pub use file::{SCHEME, is_file_of_hub};
pub use push::{PushSpec, Upload, is_id};
use source::{Source, parse};

/// The progress of a download or an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file's path in the repository.
    pub file: &'a str,
    /// Bytes transferred, including those of earlier attempts.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// Called with the progress; `Break` cancels the transfer.
pub type Callback<'a> = dyn FnMut(Progress<'_>) -> ControlFlow<()> + 'a;

/// How to access the Hub. Not `Debug`, which would print the token.
#[derive(Clone, PartialEq, Eq)]
pub struct Hub {
    /// `https://huggingface.co` or a mirror, without a slash at the end.
    pub endpoint: String,
    /// The cache: the folder that holds `models--ORG--NAME`.
    pub cache: PathBuf,
    /// The access token, sent to the endpoint's scheme, host and port only.
    pub token: Option<String>,
    /// Whether to use only the cache and make no requests.
    pub offline: bool,
    /// File of root certificates (PEM) to trust instead of Mozilla's, for networks that intercept TLS.
    pub certificates: Option<PathBuf>,
    /// A download that receives less than 64 KiB in this time is given up; the received bytes are kept.
    pub timeout: Duration,
}

/// The default of [`Hub::timeout`].
pub const TIMEOUT: Duration = Duration::from_mins(1);
/// Time limit of a check of whether the Hub is reachable.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);

/// The folder of the backbone `source`: an existing folder, or `organisation/name[@revision]` on
/// the Hub that the environment describes. See [`Hub::resolve`].
pub fn resolve(source: &str, progress: &mut Callback) -> Result<PathBuf, HubError> {
    match parse(source)? {
        Source::Folder(path) => Ok(path), // needs no home and no Hub
        Source::Remote(repo) => Hub::from_env()?.fetch(&repo, progress),
    }
}

/// Whether opening the backbone `source` downloads it, as it is an id of the Hub and not in the cache.
pub fn downloads(source: &str) -> bool {
    Hub::from_env().is_ok_and(|hub| hub.downloads(source))
}

/// Checks that `source` is an existing folder or the id of a repository, which need not exist.
///
/// # Errors
/// If it is neither.
pub fn check(source: &str) -> Result<(), HubError> {
    parse(source).map(drop)
}

impl Hub {
    /// Reads the environment variables, with Python's names and defaults.
    pub fn from_env() -> Result<Self, HubError> {
        let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
        Self::from_vars(&|name| std::env::var(name).ok(), home.as_deref())
    }

    /// The same with variables looked up by `var`, for a user whose home folder is `home`.
    pub fn from_vars(var: &dyn Fn(&str) -> Option<String>, home: Option<&Path>) -> Result<Self, HubError> {
        let var =
            |name: &str| var(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let path = |name: &str| {
            let text = var(name)?;
            let in_home = text.strip_prefix("~/").and_then(|rest| Some(home?.join(rest)));
            Some(in_home.unwrap_or_else(|| text.into()))
        };
        let is_true =
            |name| var(name).is_some_and(|v| ["1", "ON", "YES", "TRUE"].contains(&&*v.to_uppercase()));
        let hf = path("HF_HOME")
            .or_else(|| Some(path("XDG_CACHE_HOME")?.join("huggingface")))
            .or_else(|| Some(home?.join(".cache/huggingface")));
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(hf.as_ref()?.join("hub")))
            .ok_or(HubError::NoHome)?;
        let login = path("HF_TOKEN_PATH").or_else(|| Some(hf?.join("token")));
        let token = var("HF_TOKEN")
            .or_else(|| var("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| atomic_file::text(&login?, 1 << 16).ok())
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()));
        let endpoint = var("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".into());
        if !["https://", "http://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            return Err(HubError::Endpoint);
        }
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').into(),
            cache,
            token,
            offline: is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"),
            certificates: path("SSL_CERT_FILE").or_else(|| path("REQUESTS_CA_BUNDLE")),
            timeout: TIMEOUT,
        })
    }

    /// The folder of the backbone `source`. An existing folder takes precedence; what looks like a path is
    /// never searched on the Hub. Downloaded are `config.json`, `preprocessor_config.json` and `processor_config.json`, where
    /// there are such, and the weights, safetensors preferred to pickles. A revision stays at the commit that was
    /// first complete in the cache. An interrupted or cancelled download is resumed.
    pub fn resolve(&self, source: &str, progress: &mut Callback) -> Result<PathBuf, HubError> {
        match parse(source)? {
            Source::Folder(path) => Ok(path),
            Source::Remote(repo) => self.fetch(&repo, progress),
        }
    }

    /// The HTTP status of the endpoint's front page, requested without the token; or why there is no response.
    pub fn reach(&self) -> Result<u16, String> {
        let agent = download::agent(self, None).map_err(|error| error.to_string())?;
        let request = agent.head(&self.endpoint).config().timeout_global(Some(REACH_TIMEOUT)).build();
        request.call().map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
    }

    /// The endpoint for messages, without user name and password.
    pub fn address(&self) -> String {
        url::shown_url(&self.endpoint)
    }

    /// The URL of `repo`'s web page, for messages.
    fn page(&self, repo: &Repo) -> String {
        format!("{}/{}", self.address(), repo.url())
    }

    /// Whether [`resolve`](Self::resolve) downloads the backbone `source`; not if all that it needs is in the cache.
    pub fn downloads(&self, source: &str) -> bool {
        let Ok(Source::Remote(repo)) = parse(source) else { return false };
        !self.offline && self.cached(&repo, &CachedRepo::new(&self.cache, &repo)).is_none()
    }

    /// The commit of a backbone that is complete in the cache, and whether it is known which optional files the Hub lacks.
    fn cached(&self, repo: &Repo, cache: &CachedRepo) -> Option<(String, bool)> {
        let (commit, mut known) = (cache.commit(repo.revision())?, true);
        let complete = self.visit_files(repo, &mut |file| {
            let path = cache.file(&commit, file);
            // Python's cache may lack only this file: without a network, every start would wait for it.
            let is_second =
                file == "processor_config.json" && cache.file(&commit, "preprocessor_config.json").is_some();
            known &= path.is_some() || is_second || cache.is_absent(&commit, file);
            Ok(path)
        });
        complete.is_ok().then_some((commit, known))
    }

    fn fetch(&self, repo: &Repo, progress: &mut Callback) -> Result<PathBuf, HubError> {
        let cache = CachedRepo::new(&self.cache, repo);
        let Some((commit, known)) = self.cached(repo, &cache) else {
            return match self.offline {
                true => Err(self.missing(repo, &cache)),
                false => self.download(repo, &cache, progress),
            };
        };
        let snapshot = cache.snapshot(&commit);
        if known || self.offline {
            return Ok(snapshot);
        }
        // The cache suffices: only optional files whose absence is not on record are requested, at the same commit.
        match self.download(&at_revision(repo, commit), &cache, progress) {
            Err(error) if !matches!(error, HubError::Cancelled) => Ok(snapshot),
            result => result,
        }
    }

    /// Downloads the missing files of a backbone; returns its snapshot folder.
    fn download(
        &self,
        repo: &Repo,
        cache: &CachedRepo,
        progress: &mut Callback,
    ) -> Result<PathBuf, HubError> {
        let client = Client::new(self, repo)?;
        // Once the commit is known it is requested, so that all files are of the same commit.
        let mut commit = is_commit(repo.revision()).then(|| repo.revision().to_owned());
        let mut get = |file: &str| -> Result<Option<PathBuf>, HubError> {
            if let Some(commit) = &commit {
                if let Some(path) = cache.file(commit, file) {
                    return Ok(Some(path));
                }
                if cache.is_absent(commit, file) {
                    return Ok(None);
                }
            }
            let Some(remote) = client.metadata(commit.as_deref().unwrap_or(repo.revision()), file)? else {
                if let Some(commit) = &commit {
                    cache.set_absent(commit, file);
                }
                return Ok(None);
            };
            let path = client.fetch(cache, file, &remote, progress)?;
            commit = Some(remote.commit);
            Ok(Some(path))
        };
        self.visit_files(repo, &mut |file| {
            let path = get(file)?;
            // Another kind of model is refused before gigabytes of its weights are downloaded.
            let folder = path.as_deref().filter(|_| file == "config.json").and_then(Path::parent);
            folder.map(Config::open).transpose()?;
            Ok(path)
        })?;
        let commit = commit.unwrap_or_else(|| repo.revision().to_owned());
        cache.set_commit(repo.revision(), &commit)?;
        Ok(cache.snapshot(&commit))
    }

    /// Calls `get` for every file of a backbone; it returns the file's path, or `None` if there is none.
    fn visit_files(
        &self,
        repo: &Repo,
        get: &mut dyn FnMut(&str) -> Result<Option<PathBuf>, HubError>,
    ) -> Result<(), HubError> {
        let none = |file: &str| {
            let (id, page) = (repo.url(), self.page(repo));
            HubError::NoFile { id, page, file: file.into() }
        };
        get("config.json")?.ok_or_else(|| none("config.json"))?;
        get("preprocessor_config.json")?;
        get("processor_config.json")?; // of two, the one that is read
        for whole in ["model.safetensors", "pytorch_model.bin"] {
            if get(whole)?.is_some() {
                return Ok(());
            }
            if let Some(path) = get(&format!("{whole}.index.json"))? {
                for shard in index::shards(&index::read(&path)?) {
                    let found = if is_name(shard) { get(shard)? } else { None };
                    found.ok_or_else(|| none(shard))?;
                }
                return Ok(());
            }
        }
        Err(none("model.safetensors or pytorch_model.bin"))
    }

    /// The error that lists the files missing in the cache.
    fn missing(&self, repo: &Repo, cache: &CachedRepo) -> HubError {
        let commit = cache.commit(repo.revision());
        let file = |name: &str| commit.as_ref().and_then(|commit| cache.file(commit, name));
        let index = ["model.safetensors", "pytorch_model.bin"]
            .into_iter()
            .find_map(|whole| index::read(&file(&format!("{whole}.index.json"))?).ok());
        let mut needed = vec!["config.json", "preprocessor_config.json"];
        match &index {
            Some(map) => needed.extend(index::shards(map)),
            None => needed.push("model.safetensors"),
        }
        let missing = needed.into_iter().filter(|name| file(name).is_none()).map(str::to_owned).collect();
        HubError::Offline { id: repo.url(), page: self.page(repo), missing, cache: self.cache.clone() }
    }
}

/// `repo` at `revision`.
fn at_revision(repo: &Repo, revision: String) -> Repo {
    Repo::with_revision(repo.url(), RepoType::Model, revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_counts_as_in_python() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), " hf_file\n").unwrap();
        let hf = dir.path().to_str().unwrap();
        let hub = |vars: &[(&str, &str)]| {
            let var =
                |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            Hub::from_vars(&var, Some(Path::new("/home/u"))).unwrap()
        };
        let plain = hub(&[]);
        assert_eq!(plain.cache, Path::new("/home/u/.cache/huggingface/hub"));
        assert_eq!((plain.endpoint.as_str(), plain.offline), ("https://huggingface.co", false));
        let all = hub(&[("HF_HOME", hf), ("HF_ENDPOINT", "http://m/"), ("HF_HUB_OFFLINE", "yes")]);
        assert_eq!((all.cache, all.token.as_deref()), (dir.path().join("hub"), Some("hf_file")));
        assert_eq!((all.endpoint.as_str(), all.offline), ("http://m", true));
        assert_eq!(hub(&[("XDG_CACHE_HOME", "/c")]).cache, Path::new("/c/huggingface/hub"));
        assert_eq!(hub(&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/d")]).cache, Path::new("/c"));
        assert_eq!(hub(&[("HF_HOME", "~/hf")]).cache, Path::new("/home/u/hf/hub"));
        let both = hub(&[("HF_HOME", hf), ("HF_TOKEN", "a"), ("HUGGING_FACE_HUB_TOKEN", "b")]);
        assert_eq!(both.token.as_deref(), Some("a"));
        assert_eq!(hub(&[("HUGGING_FACE_HUB_TOKEN", "b")]).token.as_deref(), Some("b"));
        assert_eq!(hub(&[("HF_TOKEN", "b\nc")]).token, None);
        assert!(!hub(&[("HF_HUB_OFFLINE", "0")]).offline && hub(&[("TRANSFORMERS_OFFLINE", "1")]).offline);
        assert_eq!(hub(&[("SSL_CERT_FILE", "/ca.pem")]).certificates.as_deref(), Some(Path::new("/ca.pem")));
        assert!(matches!(Hub::from_vars(&|_| None, None), Err(HubError::NoHome)));
        let without_scheme = |name: &str| (name == "HF_ENDPOINT").then(|| "user:word@mirror.org".to_owned());
        let refused = Hub::from_vars(&without_scheme, Some(Path::new("/home/u"))).err().unwrap().to_string();
        assert!(refused.contains("expected an address that begins with https://"), "{refused}");
        assert!(!refused.contains("word"), "{refused}");
    }
}
