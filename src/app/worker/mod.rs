//! The worker: one thread that owns every tensor, one that reads files, and the handle to both.
//!
//! The compute thread opens backbones and probes and answers looks; the file thread lists folders
//! and decodes thumbnails, so that neither waits for the other; a download has a thread of its own.
//! All queues are bounded, no call of the handle waits, and nothing is shared with the window but
//! the flag of each job that asks it to end ([`Cancel`]).

mod cache;
mod compute;
mod files;
mod look;
mod mailbox;
mod open;
mod sources;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

use super::fault::Fault;
use super::job::{Cancel, Event, JobId, Request};
use crate::model::device::{self, Choice, DeviceError};
use crate::model::image::{ImageError, Photo};
use mailbox::Mailbox;

/// What is called after every event, from any thread: it asks the window for a frame.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What the worker takes from the world outside, so that a test can hand it a broken one.
#[derive(Clone)]
pub struct World {
    /// Opens a device by name.
    pub device: fn(&str) -> Result<Choice, DeviceError>,
    /// Decodes a photograph.
    pub photo: fn(&std::path::Path) -> Result<Photo, ImageError>,
    /// Bytes of tokens that are kept for another look.
    pub cache_bytes: usize,
}

impl Default for World {
    fn default() -> Self {
        Self { device: device::choose, photo: |path| Photo::open(path), cache_bytes: 512 << 20 }
    }
}
