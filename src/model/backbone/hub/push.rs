//! Files to a repository of the Hub, in one commit, by its HTTP interface: the repository is made, the Hub says of every file
//! whether it wants it within the commit (base64) or in its store of large files (Git LFS, the basic transfer), and the
//! commit names them all. Until that nothing is seen of them.
//!
//! The token goes to the endpoint alone, never along a redirect, and into no message.

use std::ops::ControlFlow;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use super::cache::is_name;
use super::file::is_file;
use super::url::same_origin;
use super::{Callback, Hub, HubError, Progress, download};
use crate::model::io::sha256;

/// Longest answer that is read, in bytes.
const MAX_ANSWER: u64 = 4 << 20;
/// How long a file may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// Bytes of a file by which the Hub tells text from other files.
const SAMPLE: usize = 512;
const LFS: &str = "application/vnd.git-lfs+json";

/// A file, and what it is called in the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name there.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// How files are pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSpec {
    /// `organisation/name`.
    pub id: String,
    /// Whether the repository is there already; else it is made.
    pub update: bool,
    /// Whether a new one is seen by its owners alone.
    pub private: bool,
    /// One line that says what was done.
    pub summary: String,
}

/// Whether `id` may be a repository: `organisation/name`.
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
    /// Pushes `files`; returns the page of the repository.
    ///
    /// # Errors
    /// If there is no token, the Hub refuses something, or it cannot be reached. What was made or sent until then stays there
    /// and is seen by nobody: doing it again with [`PushSpec::update`] goes on.
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
        let session = Session { hub: self, id, token, agent: download::agent(self, Some(PATIENCE))? };
        if !spec.update {
            session.create(spec.private)?;
        }
        let large = session.large(files)?;
        let total: usize = files.iter().map(|file| file.bytes.len()).sum();
        let mut done = 0;
        let mut lines = vec![json!({"key": "header", "value": {"summary": spec.summary, "description": ""}})];
        for (file, large) in files.iter().zip(large) {
            if progress(Progress { file: &file.path, done, total: total as u64 }).is_break() {
                return Err(HubError::CancelledPush);
            }
            lines.push(if large { session.store(file)? } else { within(file) });
            done += file.bytes.len() as u64;
        }
        if let ControlFlow::Break(()) = progress(Progress { file: "commit", done, total: total as u64 }) {
            return Err(HubError::CancelledPush);
        }
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = format!("{}/api/models/{id}/commit/main", self.endpoint);
        session.post(&url, "application/x-ndjson", body.as_bytes(), "write to it")?;
        Ok(format!("{}/{id}", self.endpoint))
    }
}

/// The line of a commit that holds a file itself.
fn within(file: &Upload) -> Value {
    let content = BASE64_STANDARD.encode(&file.bytes);
    json!({"key": "file", "value": {"path": file.path, "encoding": "base64", "content": content}})
}

impl Session<'_> {
    fn create(&self, private: bool) -> Result<(), HubError> {
        let (organisation, name) = self.id.split_once('/').expect("it is an id");
        let asked = json!({"type": "model", "organization": organisation, "name": name, "private": private});
        let url = format!("{}/api/repos/create", self.hub.endpoint);
        self.ask(&url, &asked, "make it").map(drop)
    }

    /// Of every file whether the Hub wants it in its store.
    fn large(&self, files: &[Upload]) -> Result<Vec<bool>, HubError> {
        let url = format!("{}/api/models/{}/preupload/main", self.hub.endpoint, self.id);
        let file = |file: &Upload| {
            let sample = BASE64_STANDARD.encode(&file.bytes[..file.bytes.len().min(SAMPLE)]);
            json!({"path": file.path, "size": file.bytes.len(), "sample": sample})
        };
        let asked = json!({"files": files.iter().map(file).collect::<Vec<_>>()});
        let answer = self.ask(&url, &asked, "write to it")?;
        let mode = |file: &Upload| {
            let found =
                answer["files"].as_array()?.iter().find(|found| found["path"] == file.path.as_str())?;
            match found["uploadMode"].as_str()? {
                "lfs" => Some(true),
                "regular" => Some(false),
                _ => None,
            }
        };
        let unsaid =
            |file: &Upload| self.malformed(&url, format!("it does not say how {} goes there", file.path));
        files.iter().map(|file| mode(file).ok_or_else(|| unsaid(file))).collect()
    }

    /// Brings a file to the store of large files; the line of the commit that names it.
    fn store(&self, file: &Upload) -> Result<Value, HubError> {
        let (oid, size) = (sha256::of_bytes(&file.bytes), file.bytes.len());
        let url = format!("{}/{}.git/info/lfs/objects/batch", self.hub.endpoint, self.id);
        let object = json!({"oid": oid, "size": size});
        let asked = json!({"operation": "upload", "transfers": ["basic"], "hash_algo": "sha256", "objects": [object]});
        let answer = self.post(&url, LFS, asked.to_string().as_bytes(), "write to it")?;
        let found = &answer["objects"][0];
        if let Some(message) = found["error"]["message"].as_str() {
            return Err(self.malformed(&url, format!("its store refuses {}: {message}", file.path)));
        }
        if found["oid"] != oid.as_str() {
            return Err(self.malformed(&url, format!("it does not say where {} goes", file.path)));
        }
        // Without an address it is there already.
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

    fn put(&self, href: &str, headers: &Value, file: &Upload) -> Result<(), HubError> {
        let mut request = self.agent.put(href).header("content-type", "application/octet-stream");
        for (name, value) in headers.as_object().into_iter().flatten() {
            let Some(value) = value.as_str() else { continue };
            if name == "chunk_size" {
                let what = format!("{} is to go there in parts, of which nothing was asked", file.path);
                return Err(self.malformed(href, what));
            }
            request = request.header(name, value);
        }
        let response = request.send(&file.bytes[..]).map_err(|error| unreachable(href, &error))?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(HubError::Status { url: without_query(href), status: response.status().as_u16() }),
        }
    }

    fn ask(&self, url: &str, asked: &Value, what: &'static str) -> Result<Value, HubError> {
        self.post(url, "application/json", asked.to_string().as_bytes(), what)
    }

    /// The answer to `body`; what a refusal keeps the token from is `what`.
    fn post(&self, url: &str, kind: &str, body: &[u8], what: &'static str) -> Result<Value, HubError> {
        let accepted = if kind == LFS { LFS } else { "application/json" };
        let mut request = self.agent.post(url).header("content-type", kind).header("accept", accepted);
        if same_origin(url, &self.hub.endpoint) {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let response = request.send(body).map_err(|error| unreachable(url, &error))?;
        let status = response.status();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let told = header("x-error-message").map(str::to_owned);
        let body = response.into_body().into_with_config().limit(MAX_ANSWER).read_to_vec();
        let answer: Option<Value> = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
        if status.is_success() {
            // A store's word on a file may be empty.
            return Ok(answer.unwrap_or_default());
        }
        let told = told.or_else(|| Some(answer?["error"].as_str()?.to_owned())).unwrap_or("no reason".into());
        let told = told.replace(self.token, "TOKEN");
        let message: String = told.chars().filter(|c| !c.is_control()).take(300).collect();
        let (id, page) = (self.id.to_owned(), format!("{}/{}", self.hub.endpoint, self.id));
        Err(match status.as_u16() {
            409 if url.ends_with("/api/repos/create") => HubError::RepositoryExists { id, page },
            401 | 403 => HubError::NotAllowed { id, what, message },
            404 => HubError::NoRepository { id, page },
            _ if status.is_redirection() => {
                self.malformed(url, "it redirects; the repository may have another name now")
            }
            status => HubError::Refused { url: without_query(url), status, message },
        })
    }

    fn malformed(&self, url: &str, what: impl Into<String>) -> HubError {
        let what = what.into().replace(self.token, "TOKEN");
        HubError::Malformed { url: without_query(url), what }
    }
}

fn unreachable(url: &str, error: &ureq::Error) -> HubError {
    let shown = without_query(url);
    HubError::Unreachable { reason: error.to_string().replace(url, &shown), url: shown }
}

/// An address without what may give a right: stores sign theirs.
fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}
