//! A folder of the machine that computes, as somebody looks into it from elsewhere.

use std::path::PathBuf;
use std::sync::Arc;

use super::State;
use super::jobs::JobKind;
use crate::app::jobs::folder::Folder;
use crate::app::jobs::{Files, JobId, Request};
use crate::app::user_error::UserError;

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub struct Browser {
    /// The list that was asked for and has not come.
    pub asked: Option<JobId>,
    /// The folder that was read last.
    pub folder: Option<Arc<Folder>>,
    /// Why the one asked for after it could not be.
    pub error: Option<UserError>,
}

impl State {
    /// Asks what lies in a folder; a list that has not come yet is no longer wanted.
    pub(super) fn list_folder(&mut self, folder: PathBuf) -> Vec<Request> {
        let mut requests: Vec<Request> =
            self.browser.asked.take().map(|job| self.replace_job(job)).into_iter().collect();
        let job = self.begin(JobKind::Browse, format!("Listing {}", folder.display()));
        (self.browser.asked, self.browser.error) = (Some(job), None);
        requests.push(Request::Files(job, Files::ListFolder { folder }));
        requests
    }

    /// A folder was read.
    pub(super) fn folder_listed(&mut self, job: JobId, folder: Arc<Folder>) {
        if self.browser.asked == Some(job) {
            (self.browser.folder, self.browser.error) = (Some(folder), None);
        }
    }

    /// A list is over: `error` says why there is none.
    pub(super) fn end_browsing(&mut self, job: JobId, error: Option<&UserError>) {
        if self.browser.asked.take_if(|asked| *asked == job).is_some() {
            self.jobs.shift_remove(&job); // who looks into it is told there
            self.browser.error = error.cloned();
        }
    }
}
