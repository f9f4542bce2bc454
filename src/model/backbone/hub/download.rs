//! Downloads one file of a repository over HTTP into the cache.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hf_hub::Repo;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use super::cache::{CachedRepo, is_name, with_path};
use super::file::encoded;
use super::rate::Rate;
use super::url::{join, same_origin, shown_url};
use super::{Callback, Hub, HubError, Progress};
use crate::model::io::{atomic_file, sha256};

/// Largest configuration or index of shards that is downloaded, in bytes.
const JSON_LIMIT: u64 = 64 << 20;

/// What the Hub reports about a file.
pub(super) struct Remote {
    /// The commit of the requested revision.
    pub commit: String,
    /// Identifier of the content: the SHA-256 of large files.
    etag: String,
    /// Size in bytes.
    size: u64,
}

pub(super) struct Client<'a> {
    hub: &'a Hub,
    repo: &'a Repo,
    agent: Agent,
}

/// Consecutive attempts without a byte received before a download is given up.
const MAX_ATTEMPTS: u32 = 3;
/// Most consecutive redirects that are followed.
const MAX_REDIRECTS: usize = 10;

impl<'a> Client<'a> {
    /// A client for `repo`; connects when it is first used.
    pub fn new(hub: &'a Hub, repo: &'a Repo) -> Result<Self, HubError> {
        Ok(Self { hub, repo, agent: agent(hub, None)? })
    }

    fn url(&self, revision: &str, file: &str) -> String {
        let repo = super::at_revision(self.repo, revision.into());
        format!("{}/{}/resolve/{}/{}", self.hub.endpoint, repo.url(), repo.url_revision(), encoded(file))
    }

    fn network(&self, url: &str, reason: impl ToString) -> HubError {
        let (id, page) = (self.repo.url(), self.hub.page(self.repo));
        let shown = shown_url(url);
        let mut reason = reason.to_string().replace(url, &shown);
        if reason.contains("certificate") {
            reason += " (if your network intercepts TLS, set SSL_CERT_FILE to its certificates)";
        }
        if self.agent.config().proxy().is_some() {
            reason += " (a proxy is set: ALL_PROXY, HTTPS_PROXY or HTTP_PROXY)";
        }
        HubError::Network { id, page, url: shown, reason }
    }

    fn malformed(&self, url: &str, what: impl Into<String>) -> HubError {
        HubError::Malformed { id: self.repo.url(), url: shown_url(url), what: what.into() }
    }

    /// The target of a redirect of `url`.
    fn redirected(&self, url: &str, location: &str) -> Result<String, HubError> {
        join(url, location).ok_or_else(|| self.malformed(url, "a redirect to an invalid address"))
    }

    /// Sends a request to `url`; the token is sent to the endpoint only.
    fn send(&self, request: RequestBuilder<WithoutBody>, url: &str) -> Result<Response<Body>, HubError> {
        let request = match &self.hub.token {
            Some(token) if same_origin(url, &self.hub.endpoint) => {
                request.header("authorization", format!("Bearer {token}"))
            }
            _ => request,
        };
        request.call().map_err(|error| self.network(url, error))
    }

    /// Requests the metadata of `file` at `revision`; `None` if the revision has no such file.
    pub fn metadata(&self, revision: &str, file: &str) -> Result<Option<Remote>, HubError> {
        let mut url = self.url(revision, file);
        for _ in 0..MAX_REDIRECTS {
            let response = self.send(self.agent.head(&url), &url)?;
            let header = |name: &str| header(&response, name);
            let status = response.status();
            if !(status.is_success() || status.is_redirection()) {
                return self.refusal(&response, &url, revision);
            }
            if let (true, None) = (status.is_redirection(), header("x-repo-commit")) {
                let location =
                    header("location").ok_or_else(|| self.malformed(&url, "a redirect to nowhere"))?;
                url = self.redirected(&url, location)?;
                continue;
            }
            // The redirect of a renamed repository has no metadata of the file yet.
            let location = header("location").filter(|l| status.is_redirection() && l.starts_with('/'));
            if let Some(next) = location.and_then(|location| join(&url, location)) {
                url = next;
                continue;
            }
            let name = |value: Option<&str>, what| {
                let value = value.map(|v| v.trim_start_matches("W/").trim_matches('"').to_owned());
                value.filter(|v| is_name(v)).ok_or_else(|| self.malformed(&url, what))
            };
            let commit = name(header("x-repo-commit"), "no X-Repo-Commit")?;
            let etag = name(header("x-linked-etag").or(header("etag")), "no ETag")?;
            let length = header("content-length").filter(|_| !status.is_redirection());
            let size = match header("x-linked-size").or(length).and_then(|n| n.trim().parse().ok()) {
                Some(size) => size,
                None => self.measure(&self.url(&commit, file))?,
            };
            if file.ends_with(".json") && size > JSON_LIMIT {
                let what = format!("{file} is reported as {size} bytes, at most {JSON_LIMIT} are read");
                return Err(self.malformed(&url, what));
            }
            return Ok(Some(Remote { commit, etag, size }));
        }
        Err(self.malformed(&url, "too many redirects"))
    }

    /// The size of the content at `url`, by a request for its first byte, if the metadata lacks it.
    fn measure(&self, url: &str) -> Result<u64, HubError> {
        let response = self.get(url, "bytes=0-0")?;
        let total = header(&response, "content-range").and_then(|range| range.rsplit('/').next());
        let size = total.or(header(&response, "content-length")).and_then(|size| size.trim().parse().ok());
        size.ok_or_else(|| self.malformed(url, "no size"))
    }

    /// Requests a range of `url`, or all of it if `range` is empty, following redirects.
    fn get(&self, url: &str, range: &str) -> Result<Response<Body>, HubError> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.agent.get(&url);
            let request = if range.is_empty() { request } else { request.header("range", range) };
            let response = self.send(request, &url)?;
            match header(&response, "location").filter(|_| response.status().is_redirection()) {
                Some(location) => url = self.redirected(&url, location)?,
                None => return Ok(response),
            }
        }
        Err(self.malformed(&url, "too many redirects"))
    }

    /// The error that a status stands for; `Ok(None)` if only the file is missing.
    fn refusal(
        &self,
        response: &Response<Body>,
        url: &str,
        revision: &str,
    ) -> Result<Option<Remote>, HubError> {
        let header = |name: &str| header(response, name).unwrap_or("");
        let (id, page) = (self.repo.url(), self.hub.page(self.repo));
        let mut message = header("x-error-message").to_owned();
        if let Some(token) = &self.hub.token {
            message = message.replace(token, "TOKEN");
        }
        let message = shown(&message);
        let message = if message.is_empty() { "no reason".into() } else { message };
        Err(match (response.status().as_u16(), header("x-error-code")) {
            // The Hub's own 403 has a code or a message.
            (403, "") if header("x-error-message").is_empty() => {
                self.malformed(url, "status 403 without a reason")
            }
            (_, "GatedRepo") | (403, _) => HubError::Gated { id, page, message },
            (404, "RepoNotFound") => HubError::NoRepository { id, page },
            (404, "RevisionNotFound") => HubError::NoRevision { id, page, revision: revision.into() },
            (404, _) => return Ok(None),
            (401, _) if self.hub.token.is_none() => HubError::NeedsToken { id, page },
            (401, _) => HubError::TokenRefused { id, page },
            (status, _) => HubError::Status { id, url: shown_url(url), status },
        })
    }

    /// Downloads `file`, whose metadata is `remote`, into the cache, unless it is there; returns its path.
    pub fn fetch(
        &self,
        cache: &CachedRepo,
        file: &str,
        remote: &Remote,
        progress: &mut Callback,
    ) -> Result<PathBuf, HubError> {
        let Remote { commit, etag, size } = remote;
        if let Some(path) = cache.file(commit, file) {
            return Ok(path);
        }
        let (lock, partial) = (cache.lock_file(etag)?, cache.partial(etag));
        // Without file locks the download continues: two programs might then download the same file.
        while let Err(TryLockError::WouldBlock) = lock.try_lock() {
            let there = partial.metadata().map_or(0, |about| about.len()); // by another program
            report(progress, file, there, *size)?;
            sleep(Duration::from_millis(200));
        }
        if let Some(path) = cache.file(commit, file) {
            return Ok(path); // another program was faster
        }
        let blob = cache.blob(etag);
        if !blob.is_file() {
            self.complete(&partial, file, remote, progress)?;
            with_path(&blob, atomic_file::step(|| fs::rename(&partial, &blob)))?;
        }
        cache.link(commit, file, etag)
    }

    /// Downloads the rest of the file `partial`, retrying after failures, and checks its SHA-256 if known.
    fn complete(
        &self,
        partial: &Path,
        file: &str,
        remote: &Remote,
        progress: &mut Callback,
    ) -> Result<(), HubError> {
        let open = || File::options().create(true).append(true).read(true).open(partial);
        let out = with_path(partial, atomic_file::step(open))?;
        let done = with_path(partial, out.metadata())?.len();
        // The rate is measured over all attempts, so that reconnecting after every byte counts as slow.
        let rate = Rate::new(self.hub.timeout, Instant::now());
        let mut target = PartialFile { out, path: partial, done, rate };
        if done > remote.size {
            target.truncate()?;
        }
        // Before the download fills the disk, which takes as long and leaves no space for anything else.
        let needed = remote.size - target.done;
        if let Some(free) = atomic_file::free_space(partial).filter(|free| needed > *free) {
            let why = format!("{file} needs {needed} bytes more and the disk has {free} left");
            return with_path(partial, Err(io::Error::new(io::ErrorKind::StorageFull, why)));
        }
        let mut attempts = 0;
        while target.done < remote.size {
            report(progress, file, target.done, remote.size)?;
            let before = target.done;
            match self.receive(&mut target, file, remote, progress) {
                Ok(()) => {}
                Err(HubError::Network { reason, .. }) => {
                    attempts = if target.done > before { 1 } else { attempts + 1 };
                    if attempts >= MAX_ATTEMPTS {
                        return Err(target.interrupted(file, remote, reason));
                    }
                    sleep(Duration::from_millis(300 * u64::from(attempts)));
                }
                Err(error) => return Err(error),
            }
        }
        with_path(partial, atomic_file::step(|| atomic_file::sync(&target.out)))?;
        report(progress, file, target.done, remote.size)?;
        if remote.etag.len() == 64 && remote.etag.bytes().all(|b| b.is_ascii_hexdigit()) {
            let found = with_path(partial, sha256::of_file(partial))?;
            if found != remote.etag {
                with_path(partial, atomic_file::step(|| fs::remove_file(partial)))?;
                return Err(HubError::Damaged { file: file.into(), found, expected: remote.etag.clone() });
            }
        }
        Ok(())
    }

    /// Makes one request for the missing bytes and appends them until the connection ends.
    fn receive(
        &self,
        target: &mut PartialFile,
        file: &str,
        remote: &Remote,
        progress: &mut Callback,
    ) -> Result<(), HubError> {
        let url = self.url(&remote.commit, file);
        let done = target.done;
        let range = if done > 0 { format!("bytes={done}-") } else { String::new() };
        let response = self.get(&url, &range)?;
        match response.status().as_u16() {
            206 => {
                let range = header(&response, "content-range");
                if !range.is_some_and(|range| range.starts_with(&format!("bytes {done}-"))) {
                    let what = format!("bytes from {done} on were requested, but it sent {range:?}");
                    return Err(self.malformed(&url, what));
                }
            }
            200 => target.truncate()?, // the server ignores ranges: start over
            status if status >= 500 => return Err(self.network(&url, format!("status {status}"))),
            416 => {
                target.truncate()?;
                return Err(self.network(&url, "it refuses to send the rest (status 416)"));
            }
            status => return Err(HubError::Status { id: self.repo.url(), url: shown_url(&url), status }),
        }
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 128 << 10];
        while target.done < remote.size {
            let n = body.read(&mut buffer).map_err(|error| self.network(&url, error))?;
            if n == 0 {
                return Err(self.network(&url, "the connection was closed"));
            }
            if n as u64 > remote.size - target.done {
                target.truncate()?;
                let what = format!("{file} is longer than the announced {} bytes", remote.size);
                return Err(self.malformed(&url, what));
            }
            with_path(target.path, atomic_file::step(|| target.out.write_all(&buffer[..n])))?;
            target.done += n as u64;
            report(progress, file, target.done, remote.size)?;
            if target.done < remote.size && target.rate.slow(target.done, Instant::now()) {
                return Err(target.interrupted(file, remote, target.rate.reason()));
            }
        }
        Ok(())
    }
}

/// An HTTP client for `hub`; `sending` limits the time to send a request's body.
pub(super) fn agent(hub: &Hub, sending: Option<Duration>) -> Result<Agent, HubError> {
    let timeout = Some(Duration::from_secs(30));
    let roots = match &hub.certificates {
        Some(path) => certificates(path)?,
        None => RootCerts::WebPki,
    };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("ssmprobe/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity") // ranges and sizes refer to the uncompressed file
        .timeout_connect(timeout)
        .timeout_send_body(sending)
        .timeout_recv_response(timeout)
        .timeout_per_read(timeout)
        // The metadata of a large file is in the headers of its redirect to the store, and every
        // redirect needs its own decision whether the token may be sent.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(TlsConfig::builder().root_certs(roots).build());
    Ok(config.build().into())
}

/// The text of a header.
pub(super) fn header<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// The beginning of a server's message, without control characters.
pub(super) fn shown(message: &str) -> String {
    message.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// A file that is being downloaded.
struct PartialFile<'a> {
    out: File,
    path: &'a Path,
    done: u64,
    rate: Rate,
}

impl PartialFile<'_> {
    /// Discards what has been downloaded.
    fn truncate(&mut self) -> Result<(), HubError> {
        self.done = 0;
        with_path(self.path, self.out.set_len(0))
    }

    fn interrupted(&self, file: &str, remote: &Remote, reason: String) -> HubError {
        HubError::Interrupted { file: file.into(), done: self.done, total: remote.size, reason }
    }
}

fn report(progress: &mut Callback, file: &str, done: u64, total: u64) -> Result<(), HubError> {
    match progress(Progress { file, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(HubError::Cancelled),
    }
}

/// The certificates in the PEM file at `path`.
fn certificates(path: &Path) -> Result<RootCerts, HubError> {
    let wrong = |what: String| HubError::Certificates { path: path.into(), what };
    let text = atomic_file::read(path, 16 << 20).map_err(|error| wrong(error.to_string()))?;
    let items: Result<Vec<_>, _> = parse_pem(&text).collect();
    let items = items.map_err(|error| wrong(error.to_string()))?;
    let roots = items.into_iter().filter_map(|item| match item {
        PemItem::Certificate(certificate) => Some(certificate),
        _ => None,
    });
    let roots: Vec<_> = roots.collect();
    if roots.is_empty() {
        return Err(wrong("it contains no certificate".into()));
    }
    Ok(RootCerts::from(roots))
}
