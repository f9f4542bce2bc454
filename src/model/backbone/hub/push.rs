//! Pushing files to a repository of the Hub in one commit, by its HTTP API: the repository is created, the Hub decides for every
//! file whether it is sent inside the commit (base64) or to its store of large files (Git LFS, basic transfer), and the commit
//! lists them all. No file is visible before the commit.
//!
//! The token is sent to the endpoint only, never along a redirect, and appears in no message.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use super::cache::is_name;
use super::download::{agent, header, shown};
use super::file::is_file;
use super::url::{same_origin, shown_url};
use super::{Callback, Hub, HubError, Progress};
use crate::model::io::sha256;

/// Largest response that is read, in bytes.
const MAX_ANSWER: u64 = 4 << 20;
/// Time limit for sending one request's body.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Number of leading bytes of a file by which the Hub distinguishes text from binary files.
const SAMPLE: usize = 512;
/// Media type of the Git LFS API.
const LFS: &str = "application/vnd.git-lfs+json";

/// A file to push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its path in the repository.
    pub path: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Where and how files are pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSpec {
    /// `organisation/name`.
    pub id: String,
    /// Whether the repository exists already; otherwise it is created.
    pub update: bool,
    /// Whether a new repository is private.
    pub private: bool,
    /// The first line of the commit message.
    pub summary: String,
}

/// Whether `id` has the form of a repository id, `organisation/name`.
pub fn is_id(id: &str) -> bool {
    id.split('/').count() == 2 && id.split('/').all(is_name)
}

struct Session<'a> {
    hub: &'a Hub,
    id: &'a str,
    token: &'a str,
    agent: Agent,
}

impl Hub {
    /// Pushes `files`; returns the URL of the repository's page.
    ///
    /// # Errors
    /// If there is no token, the Hub refuses a request, or it cannot be reached. A repository created by then stays, and files sent
    /// by then stay invisible; repeat with [`PushSpec::update`].
    pub fn push(
        &self,
        spec: &PushSpec,
        files: &[Upload],
        progress: &mut Callback,
    ) -> Result<String, HubError> {
        let id = &*spec.id;
        if !is_id(id) {
            return Err(HubError::NotAnId(id.into()));
        }
        if let Some(file) = files.iter().find(|file| !is_file(&file.path)) {
            return Err(HubError::NotAFile(file.path.clone()));
        }
        if self.offline {
            return Err(HubError::OfflinePush);
        }
        let token = self.token.as_deref().ok_or(HubError::NoToken)?;
        let session = Session { hub: self, id, token, agent: agent(self, Some(TIMEOUT))? };
        if !spec.update {
            session.create(spec.private)?;
        }
        let large = session.upload_modes(files)?;
        let total: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
        let mut done = 0;
        let mut lines = vec![json!({"key": "header", "value": {"summary": spec.summary, "description": ""}})];
        for (file, large) in files.iter().zip(large) {
            if progress(Progress { file: &file.path, done, total }).is_break() {
                return Err(HubError::CancelledPush);
            }
            lines.push(if large { session.upload_large(file)? } else { inline(file) });
            done += file.bytes.len() as u64;
        }
        if progress(Progress { file: "commit", done, total }).is_break() {
            return Err(HubError::CancelledPush);
        }
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = format!("{}/api/models/{id}/commit/main", self.endpoint);
        session.post(&url, "application/x-ndjson", body.as_bytes(), "write to it")?;
        Ok(format!("{}/{id}", self.address()))
    }
}

/// The commit's entry of a file whose contents it includes.
fn inline(file: &Upload) -> Value {
    let content = BASE64_STANDARD.encode(&file.bytes);
    json!({"key": "file", "value": {"path": file.path, "encoding": "base64", "content": content}})
}

impl Session<'_> {
    /// Creates the repository.
    fn create(&self, private: bool) -> Result<(), HubError> {
        let (organisation, name) = self.id.split_once('/').expect("it is an id");
        let request =
            json!({"type": "model", "organization": organisation, "name": name, "private": private});
        let url = format!("{}/api/repos/create", self.hub.endpoint);
        self.post_json(&url, &request, "create it").map(drop)
    }

    /// For every file, whether the Hub wants it in its store of large files.
    fn upload_modes(&self, files: &[Upload]) -> Result<Vec<bool>, HubError> {
        let url = format!("{}/api/models/{}/preupload/main", self.hub.endpoint, self.id);
        let file = |file: &Upload| {
            let sample = BASE64_STANDARD.encode(&file.bytes[..file.bytes.len().min(SAMPLE)]);
            json!({"path": file.path, "size": file.bytes.len(), "sample": sample})
        };
        let request = json!({"files": files.iter().map(file).collect::<Vec<_>>()});
        let answer = self.post_json(&url, &request, "write to it")?;
        let mode = |file: &Upload| {
            let found =
                answer["files"].as_array()?.iter().find(|found| found["path"] == file.path.as_str())?;
            match found["uploadMode"].as_str()? {
                "lfs" => Some(true),
                "regular" => Some(false),
                _ => None,
            }
        };
        let missing =
            |file: &Upload| self.malformed(&url, format!("it does not say how to upload {}", file.path));
        files.iter().map(|file| mode(file).ok_or_else(|| missing(file))).collect()
    }

    /// Uploads a file to the store of large files; returns the commit's entry that refers to it.
    fn upload_large(&self, file: &Upload) -> Result<Value, HubError> {
        let (oid, size) = (sha256::of_bytes(&file.bytes), file.bytes.len());
        let url = format!("{}/{}.git/info/lfs/objects/batch", self.hub.endpoint, self.id);
        let object = json!({"oid": oid, "size": size});
        let request = json!({"operation": "upload", "transfers": ["basic"], "hash_algo": "sha256", "objects": [object]});
        let answer = self.post(&url, LFS, request.to_string().as_bytes(), "write to it")?;
        let found = &answer["objects"][0];
        if let Some(message) = found["error"]["message"].as_str() {
            return Err(self.malformed(&url, format!("its store refuses {}: {message}", file.path)));
        }
        if found["oid"] != oid.as_str() {
            return Err(self.malformed(&url, format!("it does not say where to upload {}", file.path)));
        }
        // Without a URL, the store has the file already.
        if let Some(href) = found["actions"]["upload"]["href"].as_str() {
            self.put(href, &found["actions"]["upload"]["header"], file)?;
        }
        if let Some(href) = found["actions"]["verify"]["href"].as_str() {
            self.post(href, LFS, object.to_string().as_bytes(), "write to it")?;
        }
        Ok(
            json!({"key": "lfsFile", "value": {"path": file.path, "algo": "sha256", "oid": oid, "size": size}}),
        )
    }

    /// Sends a file to the URL that the store gave for it.
    fn put(&self, href: &str, headers: &Value, file: &Upload) -> Result<(), HubError> {
        let mut request = self.agent.put(href).header("content-type", "application/octet-stream");
        for (name, value) in headers.as_object().into_iter().flatten() {
            let Some(value) = value.as_str() else { continue };
            if name == "chunk_size" {
                let what = format!("it wants {} in parts, which was not requested", file.path);
                return Err(self.malformed(href, what));
            }
            request = request.header(name, value);
        }
        let response = request.send(&file.bytes[..]).map_err(|error| self.unreachable(href, &error))?;
        match response.status().is_success() {
            true => Ok(()),
            false => {
                let (id, status) = (self.id.to_owned(), response.status().as_u16());
                Err(HubError::Status { id, url: shown_url(href), status })
            }
        }
    }

    fn post_json(&self, url: &str, body: &Value, what: &'static str) -> Result<Value, HubError> {
        self.post(url, "application/json", body.to_string().as_bytes(), what)
    }

    /// Sends `body` and returns the JSON response; `what` describes the action in the error of a missing permission.
    fn post(&self, url: &str, kind: &str, body: &[u8], what: &'static str) -> Result<Value, HubError> {
        let accepted = if kind == LFS { LFS } else { "application/json" };
        let mut request = self.agent.post(url).header("content-type", kind).header("accept", accepted);
        if same_origin(url, &self.hub.endpoint) {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let response = request.send(body).map_err(|error| self.unreachable(url, &error))?;
        let status = response.status();
        let message = header(&response, "x-error-message").map(str::to_owned);
        let body = response.into_body().into_with_config().limit(MAX_ANSWER).read_to_vec();
        let answer: Option<Value> = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
        if status.is_success() {
            // The store's response may be empty.
            return Ok(answer.unwrap_or_default());
        }
        let message =
            message.or_else(|| Some(answer?["error"].as_str()?.to_owned())).unwrap_or("no reason".into());
        let message = shown(&message.replace(self.token, "TOKEN"));
        let (id, page) = (self.id.to_owned(), format!("{}/{}", self.hub.address(), self.id));
        Err(match status.as_u16() {
            409 if url.ends_with("/api/repos/create") => HubError::RepositoryExists { id, page },
            401 | 403 => HubError::NotAllowed { id, what, message },
            404 => HubError::NoRepository { id, page },
            _ if status.is_redirection() => {
                self.malformed(url, "it redirects; the repository may have another name now")
            }
            status => HubError::Refused { id, url: shown_url(url), status, message },
        })
    }

    fn malformed(&self, url: &str, what: impl Into<String>) -> HubError {
        let what = what.into().replace(self.token, "TOKEN");
        HubError::Malformed { id: self.id.to_owned(), url: shown_url(url), what }
    }

    fn unreachable(&self, url: &str, error: &ureq::Error) -> HubError {
        let (id, shown) = (self.id.to_owned(), shown_url(url));
        HubError::Unreachable { id, reason: error.to_string().replace(url, &shown), url: shown }
    }
}
