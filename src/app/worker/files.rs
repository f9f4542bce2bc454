//! The file thread: runs the jobs that only read files, and makes thumbnails. It owns no tensor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use image::imageops;
use rayon::prelude::*;

use super::WorkerEnv;
use super::event_sender::EventSender;
use super::task_queue::TaskQueue;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Cancel, Event, Files, ImageId, JobId, open};
use crate::model::data::ImageSource;
use crate::model::io::catch_panic::catch_foreign;
use crate::model::trace::Picture;

/// Threads that decode thumbnails; few, as the backbone needs the other cores.
const DECODERS: usize = 2;

/// A message to the thread.
pub(super) enum Task {
    Run(JobId, Files, Cancel),
    /// Thumbnails to make, in place of all that are still to be made.
    Thumbnails(ThumbnailQueue),
}

pub(super) struct FileReader {
    env: WorkerEnv,
    sender: EventSender,
    closing: Cancel,
    decoders: rayon::ThreadPool,
}

#[derive(Default)]
pub(super) struct ThumbnailQueue {
    pub(super) images: VecDeque<(ImageId, ImageSource)>,
    pub(super) side: u32,
    pub(super) cancel: Cancel,
}

impl FileReader {
    pub(super) fn new(env: WorkerEnv, sender: EventSender, closing: Cancel) -> std::io::Result<Self> {
        let named = rayon::ThreadPoolBuilder::new().thread_name(|index| format!("thumbnails-{index}"));
        let decoders = named.num_threads(DECODERS).build().map_err(std::io::Error::other)?;
        Ok(Self { env, sender, closing, decoders })
    }

    /// Handles tasks, and makes thumbnails while none waits, until the worker shuts down.
    pub(super) fn run(self, tasks: &TaskQueue<Task>) {
        let mut wanted = ThumbnailQueue::default();
        loop {
            let is_idle = wanted.images.is_empty() || wanted.cancel.is_cancelled();
            let task = tasks.recv_timeout(if is_idle { Duration::MAX } else { Duration::ZERO });
            if self.closing.is_cancelled() {
                return;
            }
            match task {
                Ok(Task::Thumbnails(newer)) => wanted = newer,
                Ok(Task::Run(job, kind, cancel)) => self.run_job(job, kind, &cancel),
                Err(RecvTimeoutError::Timeout) => self.thumbnails(&mut wanted),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn run_job(&self, job: JobId, kind: Files, cancel: &Cancel) {
        let result = self.sender.run_job(job, cancel, |mut events| {
            open::run(job, &kind, &mut events, &mut |event| self.sender.send(event))
        });
        if let Err(error) = result {
            self.sender.fail(job, error);
        }
    }

    /// Makes and sends the next [`DECODERS`] thumbnails, in the order wanted.
    fn thumbnails(&self, wanted: &mut ThumbnailQueue) {
        let count = wanted.images.len().min(DECODERS);
        let batch: Vec<_> = wanted.images.drain(..count).collect();
        let events: Vec<Event> = self.decoders.install(|| {
            batch.par_iter().map(|(image, path)| self.thumbnail(*image, path, wanted.side)).collect()
        });
        events.into_iter().for_each(|event| self.sender.send(event));
    }

    fn thumbnail(&self, image: ImageId, source: &ImageSource, side: u32) -> Event {
        let made = catch_foreign(|| self.env.decode(source).map(|photo| shrink(photo.picture, side)));
        match made.map_err(UserError::from_panic).flatten() {
            Ok(picture) => Event::ThumbnailReady { image, picture: Arc::new(picture) },
            Err(error) => Event::ThumbnailFailed { image, error },
        }
    }
}

/// Scales a picture down to `side` pixels on its longer side; smaller ones stay as they are.
fn shrink(picture: Picture, side: u32) -> Picture {
    let (width, height) = (picture.width as u32, picture.height as u32);
    let longest = width.max(height);
    if longest <= side {
        return picture;
    }
    let Some(whole) = image::RgbImage::from_raw(width, height, picture.rgb) else {
        return Picture::default();
    };
    let scaled = |length: u32| (u64::from(length) * u64::from(side) / u64::from(longest)).max(1) as u32;
    let small = imageops::thumbnail(&whole, scaled(width), scaled(height));
    Picture { width: small.width() as usize, height: small.height() as usize, rgb: small.into_raw() }
}
