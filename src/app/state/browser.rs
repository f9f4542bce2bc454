//! The listing of a folder on the machine of the worker, for the folder browser.

use std::path::PathBuf;
use std::sync::Arc;

use super::State;
use super::jobs::JobKind;
use crate::app::jobs::folder::Folder;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Files, JobId, Request};

/// The folder browser's content.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    /// The job that lists a folder now.
    pub asked: Option<JobId>,
    /// The folder that was listed last.
    pub folder: Option<Arc<Folder>>,
    /// Why the latest listing failed.
    pub error: Option<UserError>,
}

impl State {
    /// Requests the listing of a folder; a listing under way is cancelled.
    pub(super) fn list_folder(&mut self, folder: PathBuf) -> Vec<Request> {
        let job = self.begin(JobKind::Browse, format!("Listing {}", folder.display()));
        self.browser.error = None;
        let older = self.browser.asked.replace(job);
        self.send_instead(older, Request::Files(job, Files::ListFolder { folder }))
    }

    pub(super) fn folder_listed(&mut self, job: JobId, folder: Arc<Folder>) {
        if self.browser.asked == Some(job) {
            (self.browser.folder, self.browser.error) = (Some(folder), None);
        }
    }

    /// A listing has ended; `error` says why it failed.
    pub(super) fn end_browsing(&mut self, job: JobId, error: Option<&UserError>) {
        if self.browser.asked.take_if(|asked| *asked == job).is_some() {
            self.jobs.shift_remove(&job); // the folder browser shows the error
            self.browser.error = error.cloned();
        }
    }
}
