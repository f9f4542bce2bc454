//! Fetches one file of a repository over HTTP into the cache.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hf_hub::Repo;
use ureq::http::Response;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, RequestBuilder};

use super::cache::{CachedRepo, at, is_name};
use super::file::encoded;
use super::rate::Rate;
use super::url::{join, same_origin};
use super::{Callback, Hub, HubError, Progress};
use crate::model::io::atomic_file;

/// Longest configuration or index of shards that is fetched, in bytes.
const JSON_LIMIT: u64 = 64 << 20;

pub(super) struct Remote {
    /// Of the revision that was asked for.
    pub commit: String,
    /// Name of the content: the SHA-256 of large files.
    etag: String,
    /// Bytes.
    size: u64,
}

pub(super) struct Client<'a> {
    hub: &'a Hub,
    repo: &'a Repo,
    agent: Agent,
}

/// Tries in a row that bring nothing before a download is given up.
const MAX_ATTEMPTS: u32 = 3;
/// Redirects in a row that are followed.
const MAX_REDIRECTS: usize = 10;

impl<'a> Client<'a> {
    /// A client for `repo`; connects when it is first used.
    pub fn new(hub: &'a Hub, repo: &'a Repo) -> Result<Self, HubError> {
        Ok(Self { hub, repo, agent: agent(hub, None)? })
    }

    /// The header that holds the token, for a request to `url`: only where its scheme, host and port
    /// are the endpoint's.
    fn token(&self, url: &str) -> Option<(&'static str, String)> {
        let token = self.hub.token.as_ref().filter(|_| same_origin(url, &self.hub.endpoint))?;
        Some(("authorization", format!("Bearer {token}")))
    }

    fn url(&self, revision: &str, file: &str) -> String {
        let (page, repo) = (self.hub.page(self.repo), super::at(self.repo, revision.into()));
        format!("{page}/resolve/{}/{}", repo.url_revision(), encoded(file))
    }

    fn network(&self, url: &str, reason: impl ToString) -> HubError {
        let (id, page) = (self.repo.url(), self.hub.page(self.repo));
        let mut reason = reason.to_string();
        if reason.contains("certificate") {
            reason += " (if your network looks into TLS, let SSL_CERT_FILE name its certificates)";
        }
        HubError::Network { id, page, url: url.into(), reason }
    }

    /// The answer to a request to `url`; the token goes to the endpoint only.
    fn send(&self, request: RequestBuilder<WithoutBody>, url: &str) -> Result<Response<Body>, HubError> {
        let request = match self.token(url) {
            Some((name, token)) => request.header(name, token),
            None => request,
        };
        request.call().map_err(|error| self.network(url, error))
    }

    /// What the Hub says of `file` at `revision`; `None` if it has no such file there.
    pub fn ask(&self, revision: &str, file: &str) -> Result<Option<Remote>, HubError> {
        let mut url = self.url(revision, file);
        for _ in 0..MAX_REDIRECTS {
            let response = self.send(self.agent.head(&url), &url)?;
            let header = |name: &str| header(&response, name);
            let status = response.status();
            if !(status.is_success() || status.is_redirection()) {
                return self.refusal(&response, &url, revision);
            }
            if let (true, None) = (status.is_redirection(), header("x-repo-commit")) {
                let location = header("location").ok_or_else(|| malformed(&url, "a redirect to nowhere"))?;
                url = redirected(&url, location)?;
                continue;
            }
            // The redirect of a renamed repository tells nothing of the file yet.
            let location = header("location").filter(|l| status.is_redirection() && l.starts_with('/'));
            if let Some(next) = location.and_then(|location| join(&url, location)) {
                url = next;
                continue;
            }
            let name = |value: Option<&str>, what| {
                let value = value.map(|v| v.trim_start_matches("W/").trim_matches('"').to_owned());
                value.filter(|v| is_name(v)).ok_or_else(|| malformed(&url, what))
            };
            let commit = name(header("x-repo-commit"), "no X-Repo-Commit")?;
            let etag = name(header("x-linked-etag").or(header("etag")), "no ETag")?;
            let length = header("content-length").filter(|_| !status.is_redirection());
            let size = match header("x-linked-size").or(length).and_then(|n| n.trim().parse().ok()) {
                Some(size) => size,
                None => self.measure(&self.url(&commit, file))?,
            };
            if file.ends_with(".json") && size > JSON_LIMIT {
                let what =
                    format!("{file} is said to have {size} bytes, of which {JSON_LIMIT} at most are read");
                return Err(malformed(&url, what));
            }
            return Ok(Some(Remote { commit, etag, size }));
        }
        Err(malformed(&url, "it redirects without end"))
    }

    /// The size of the content at `url`, where it is not told without being asked.
    fn measure(&self, url: &str) -> Result<u64, HubError> {
        let response = self.get(url, "bytes=0-0")?;
        let total = header(&response, "content-range").and_then(|range| range.rsplit('/').next());
        let size = total.or(header(&response, "content-length")).and_then(|size| size.trim().parse().ok());
        size.ok_or_else(|| malformed(url, "no size"))
    }

    /// Requests a range of `url`, following redirects.
    fn get(&self, url: &str, range: &str) -> Result<Response<Body>, HubError> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let request = self.agent.get(&url);
            let request = if range.is_empty() { request } else { request.header("range", range) };
            let response = self.send(request, &url)?;
            match header(&response, "location").filter(|_| response.status().is_redirection()) {
                Some(location) => url = redirected(&url, location)?,
                None => return Ok(response),
            }
        }
        Err(malformed(&url, "it redirects without end"))
    }

    /// The meaning of an error status; `Ok(None)` if only the file is missing.
    fn refusal<T>(
        &self,
        response: &Response<Body>,
        url: &str,
        revision: &str,
    ) -> Result<Option<T>, HubError> {
        let header = |name: &str| header(response, name).unwrap_or("");
        let (id, page) = (self.repo.url(), self.hub.page(self.repo));
        let message: String =
            header("x-error-message").chars().filter(|c| !c.is_control()).take(300).collect();
        let message = if message.is_empty() { "no reason".into() } else { message };
        Err(match (response.status().as_u16(), header("x-error-code")) {
            (_, "GatedRepo") | (403, _) => HubError::Gated { id, page, message },
            (404, "RepoNotFound") => HubError::NoRepository { id, page },
            (404, "RevisionNotFound") => HubError::NoRevision { id, page, revision: revision.into() },
            (404, _) => return Ok(None),
            (401, _) if self.hub.token.is_none() => HubError::NeedsToken { id, page },
            (401, _) => HubError::TokenRefused { id, page },
            (status, _) => HubError::Status { url: url.into(), status },
        })
    }

    /// Brings `file`, of which the Hub said `remote`, into the cache; what is there is not fetched.
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
        let lock = cache.lock_file(etag)?;
        // A file system without locks is no reason to fail: two programs would fetch the same.
        while let Err(TryLockError::WouldBlock) = lock.try_lock() {
            report(progress, file, 0, *size)?;
            sleep(Duration::from_millis(200));
        }
        let blob = cache.blob(etag);
        if !blob.is_file() {
            let partial = cache.partial(etag);
            self.grow(&partial, file, remote, progress)?;
            at(&blob, atomic_file::step(|| fs::rename(&partial, &blob)))?;
        }
        cache.link(commit, file, etag)
    }

    /// Lets the file `partial` grow until it is whole, and checks it.
    fn grow(
        &self,
        partial: &Path,
        file: &str,
        remote: &Remote,
        progress: &mut Callback,
    ) -> Result<(), HubError> {
        let open = || File::options().create(true).append(true).read(true).open(partial);
        let out = at(partial, atomic_file::step(open))?;
        let done = at(partial, out.metadata())?.len();
        // The rate is counted over all tries: a connection that breaks after every byte is as slow.
        let rate = Rate::new(self.hub.patience, Instant::now());
        let mut growing = Growing { out, path: partial, done, rate };
        if done > remote.size {
            growing.empty()?;
        }
        let mut tries = 0;
        while growing.done < remote.size {
            report(progress, file, growing.done, remote.size)?;
            let before = growing.done;
            match self.pour(&mut growing, file, remote, progress) {
                Ok(()) => {}
                Err(HubError::Network { reason, .. }) => {
                    tries = if growing.done > before { 1 } else { tries + 1 };
                    if tries >= MAX_ATTEMPTS {
                        return Err(growing.interrupted(file, remote, reason));
                    }
                    sleep(Duration::from_millis(300 * u64::from(tries)));
                }
                Err(error) => return Err(error),
            }
        }
        at(partial, atomic_file::step(|| growing.out.sync_all()))?;
        report(progress, file, growing.done, remote.size)?;
        let is_hash = remote.etag.len() == 64 && remote.etag.bytes().all(|b| b.is_ascii_hexdigit());
        let found = if is_hash {
            at(partial, crate::model::io::sha256::of_file(partial))?
        } else {
            remote.etag.clone()
        };
        if found != remote.etag {
            at(partial, atomic_file::step(|| fs::remove_file(partial)))?;
            return Err(HubError::Damaged { file: file.into(), found, expected: remote.etag.clone() });
        }
        Ok(())
    }

    /// One request: appends to what has come for as long as the connection lasts.
    fn pour(
        &self,
        growing: &mut Growing,
        file: &str,
        remote: &Remote,
        progress: &mut Callback,
    ) -> Result<(), HubError> {
        let url = self.url(&remote.commit, file);
        let done = growing.done;
        let range = if done > 0 { format!("bytes={done}-") } else { String::new() };
        let response = self.get(&url, &range)?;
        match response.status().as_u16() {
            206 => {
                let range = header(&response, "content-range");
                if !range.is_some_and(|range| range.starts_with(&format!("bytes {done}-"))) {
                    let what = format!("it was asked for bytes from {done} on, and sends {range:?}");
                    return Err(malformed(&url, what));
                }
            }
            200 => growing.empty()?, // the server knows no ranges: all anew
            status if status >= 500 => return Err(self.network(&url, format!("status {status}"))),
            416 => {
                growing.empty()?;
                return Err(self.network(&url, "the rest is refused (status 416)"));
            }
            status => return Err(HubError::Status { url, status }),
        }
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 128 << 10];
        while growing.done < remote.size {
            let n = body.read(&mut buffer).map_err(|error| self.network(&url, error))?;
            if n == 0 {
                return Err(self.network(&url, "the connection was closed"));
            }
            if n as u64 > remote.size - growing.done {
                growing.empty()?;
                let what = format!("{file} is longer than the {} bytes that were announced", remote.size);
                return Err(malformed(&url, what));
            }
            at(growing.path, atomic_file::step(|| growing.out.write_all(&buffer[..n])))?;
            growing.done += n as u64;
            report(progress, file, growing.done, remote.size)?;
            if growing.done < remote.size && growing.rate.slow(growing.done, Instant::now()) {
                return Err(growing.interrupted(file, remote, growing.rate.reason()));
            }
        }
        Ok(())
    }
}

/// Who asks `hub`, and sends a body for no longer than `sending`.
pub(super) fn agent(hub: &Hub, sending: Option<Duration>) -> Result<Agent, HubError> {
    let patience = Some(Duration::from_secs(30));
    let roots = match &hub.certificates {
        Some(path) => certificates(path)?,
        None => RootCerts::WebPki,
    };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .user_agent(concat!("ssmprobe/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity") // ranges and sizes are those of the file itself
        .timeout_connect(patience)
        .timeout_send_body(sending)
        .timeout_recv_response(patience)
        .timeout_per_read(patience)
        // What the Hub says of a large file stands in its redirect to the store, and whether the
        // token may go along is decided here, at every redirect.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(TlsConfig::builder().root_certs(roots).build());
    Ok(config.build().into())
}

fn header<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

fn malformed(url: &str, what: impl Into<String>) -> HubError {
    HubError::Malformed { url: url.into(), what: what.into() }
}

/// Where a redirect of `url` leads.
fn redirected(url: &str, location: &str) -> Result<String, HubError> {
    join(url, location).ok_or_else(|| malformed(url, "a redirect to what is no address"))
}

struct Growing<'a> {
    out: File,
    path: &'a Path,
    done: u64,
    rate: Rate,
}

impl Growing<'_> {
    fn empty(&mut self) -> Result<(), HubError> {
        self.done = 0;
        at(self.path, self.out.set_len(0))
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
pub(super) fn certificates(path: &Path) -> Result<RootCerts, HubError> {
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
        return Err(wrong("it holds no certificate".into()));
    }
    Ok(RootCerts::from(roots))
}
