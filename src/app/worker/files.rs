//! The file thread: does the jobs that only read files, and makes thumbnails. It owns no tensor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use image::imageops;
use rayon::prelude::*;

use super::WorkerEnv;
use super::event_sender::EventSender;
use crate::app::jobs::{Cancel, Event, Files, ImageId, JobId, open};
use crate::app::user_error::UserError;
use crate::model::data::ImageSource;
use crate::model::io::catch_panic::guard;
use crate::model::trace::Picture;

/// Threads that decode thumbnails: two leave the others to the backbone.
const DECODERS: usize = 2;

/// What the thread is asked.
pub(super) enum Task {
    Do(JobId, Files, Cancel),
    /// Small pictures, in the place of those still to be made.
    Thumbnails(Wanted),
}

pub(super) struct FileReader {
    world: WorkerEnv,
    outbox: EventSender,
    closing: Cancel,
    decoders: rayon::ThreadPool,
}

/// The thumbnails still to be made.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) images: VecDeque<(ImageId, ImageSource)>,
    pub(super) side: u32,
    pub(super) cancel: Cancel,
}

impl Wanted {
    fn is_done(&self) -> bool {
        self.images.is_empty() || self.cancel.is_cancelled()
    }
}

impl FileReader {
    pub(super) fn new(world: WorkerEnv, outbox: EventSender, closing: Cancel) -> std::io::Result<Self> {
        let named = rayon::ThreadPoolBuilder::new().thread_name(|index| format!("thumbnails-{index}"));
        let decoders = named.num_threads(DECODERS).build().map_err(std::io::Error::other)?;
        Ok(Self { world, outbox, closing, decoders })
    }

    /// Works until the other end of the queue is gone, or it is closed. Thumbnails are made while
    /// nothing else is asked.
    pub(super) fn run(self, tasks: &Receiver<Option<Task>>) {
        let mut wanted = Wanted::default();
        loop {
            let task = match wanted.is_done() {
                true => tasks.recv().map_err(|_| TryRecvError::Disconnected),
                false => tasks.try_recv(),
            };
            if self.closing.is_cancelled() {
                return;
            }
            match task {
                Ok(Some(Task::Thumbnails(newer))) => wanted = newer,
                Ok(Some(Task::Do(job, kind, cancel))) => self.job(job, kind, &cancel),
                Ok(None) => {}
                Err(TryRecvError::Empty) => self.thumbnails(&mut wanted),
                Err(TryRecvError::Disconnected) => return,
            }
            self.outbox.wake();
        }
    }

    fn job(&self, job: JobId, kind: Files, cancel: &Cancel) {
        let result = self.outbox.job(job, cancel, |mut events| {
            open::run(job, &kind, &mut events, &mut |event| self.outbox.tell(event))
        });
        if let Err(error) = result {
            self.outbox.tell(Event::Failed(job, error));
        }
    }

    /// The next few small pictures, in the order wanted.
    fn thumbnails(&self, wanted: &mut Wanted) {
        let count = wanted.images.len().min(DECODERS);
        let part: Vec<_> = wanted.images.drain(..count).collect();
        let made: Vec<Event> = self.decoders.install(|| {
            part.par_iter().map(|(image, path)| self.thumbnail(*image, path, wanted.side)).collect()
        });
        made.into_iter().for_each(|event| self.outbox.tell(event));
    }

    fn thumbnail(&self, image: ImageId, place: &ImageSource, side: u32) -> Event {
        let photo = self.world.photo;
        let made = guard(|| photo(place).map(|photo| shrink(photo.picture, side)));
        match made {
            Ok(Ok(picture)) => Event::ThumbnailReady { image, picture: Arc::new(picture) },
            Ok(Err(error)) => {
                Event::ThumbnailFailed { image, error: UserError::from_file_error(&place.path, error) }
            }
            Err(said) => Event::ThumbnailFailed { image, error: UserError::from_panic(said) },
        }
    }
}

/// The picture with its longest side of `side` pixels, if it is larger.
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
