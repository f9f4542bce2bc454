//! The file thread: lists folders, finds out what files are and makes thumbnails. It
//! owns no tensor.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use image::imageops;
use rayon::prelude::*;

use super::WorkerEnv;
use super::event_sender::{EventSender, JobEvents};
use crate::app::image_files::{images_below, is_probe};
use crate::app::jobs::evaluate::EvalSplit;
use crate::app::jobs::history::disk;
use crate::app::jobs::{Cancel, Event, Files, ImageId, JobError, JobId, PathKind, Unit};
use crate::app::state::workspace;
use crate::app::user_error::UserError;
use crate::model::data::image::is_named_image;
use crate::model::data::{self, ImageSource};
use crate::model::io::catch_panic::guard;
use crate::model::trace::Picture;

/// Images told at once.
const PART: usize = 1000;
/// Most images listed by one request.
const MOST: usize = 2_000_000;
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
        let result = self.outbox.job(job, cancel, |events| match kind {
            Files::OpenRun { folder } => self.run_folder(job, &folder),
            Files::OpenImages { paths } => list(&events, &paths, cancel),
            Files::OpenDataset { entry, path, split } => {
                events.progress("Reading the lists", 0, None, Unit::Files);
                let part = Arc::new(EvalSplit::new(data::open(&path).map_err(JobError::of)?, split));
                // Of what matters to a training alone, its plan speaks.
                for note in part.dataset.notes.iter().filter(|note| !note.ends_with(data::UNTRAINABLE)) {
                    events.warn(format!("{}: {note}", part.asked.dataset));
                }
                self.outbox.tell(Event::DatasetOpened { job, entry, part });
                Ok(())
            }
            Files::Recognise { paths } => {
                let found = paths.into_iter().map(|path| (path.clone(), kind_of(&path))).collect();
                self.outbox.tell(Event::Recognised { job, found });
                Ok(())
            }
        });
        if let Err(fault) = result {
            self.outbox.tell(Event::Failed(job, fault));
        }
    }

    /// Probes lie in the folder itself, or in `probes` of a training's.
    fn run_folder(&self, job: JobId, folder: &Path) -> Result<(), JobError> {
        let trained = folder.join("run.json").is_file();
        if trained {
            let reading = disk::read(folder).map(Arc::new).map_err(UserError::from_error);
            self.outbox.tell(Event::RunRead { job: Some(job), folder: folder.to_owned(), reading });
        }
        let folder = if trained { folder.join("probes") } else { folder.to_owned() };
        let unread = |error| {
            UserError::from_file_error(
                &folder,
                anyhow::anyhow!("{}: the folder cannot be read: {error}", folder.display()),
            )
        };
        let listed = std::fs::read_dir(&folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut paths: Vec<PathBuf> = listed.map_err(unread)?.iter().map(std::fs::DirEntry::path).collect();
        paths.retain(|path| is_probe(path));
        paths.sort();
        // A training that has just begun has none yet.
        if paths.is_empty() && !trained {
            let line = format!("{}: no probe file in there (.safetensors)", folder.display());
            return Err(UserError::new(line).remedy("Choose the folder that holds the probe files").into());
        }
        self.outbox.tell(Event::ProbesListed { job, paths });
        Ok(())
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
                Event::ThumbnailFailed { image, fault: UserError::from_file_error(&place.path, error) }
            }
            Err(said) => Event::ThumbnailFailed { image, fault: UserError::from_panic(said) },
        }
    }
}

/// Lists images, some at a time. What cannot be read is a warning, unless nothing can.
fn list(events: &JobEvents, paths: &[PathBuf], cancel: &Cancel) -> Result<(), JobError> {
    let mut part = Vec::with_capacity(PART);
    let (mut count, mut unread, mut first) = (0, 0, None);
    let mut found = |path: PathBuf| {
        part.push(path);
        count += 1;
        if part.len() >= PART {
            let paths = std::mem::replace(&mut part, Vec::with_capacity(PART));
            events.outbox.tell(Event::ImagesListed { job: events.job, paths });
            events.progress("Listing images", count as u64, None, Unit::Files);
        }
        let end = cancel.is_cancelled() || count >= MOST;
        if end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut failed_at = |path: &Path, error: std::io::Error| {
        unread += 1;
        first.get_or_insert_with(|| {
            UserError::from_file_error(path, anyhow::anyhow!("{}: cannot be read: {error}", path.display()))
        });
        ControlFlow::Continue(())
    };
    for path in paths {
        let flow = match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => images_below(path, &mut found, &mut failed_at),
            Ok(_) => found(path.clone()),
            Err(error) => failed_at(path, error),
        };
        if flow.is_break() {
            break;
        }
    }
    cancel.check()?;
    if !part.is_empty() {
        events.outbox.tell(Event::ImagesListed { job: events.job, paths: part });
    }
    if count >= MOST {
        events.warn(format!("Only the first {MOST} images are listed"));
    }
    match first {
        Some(fault) if count == 0 => Err(fault.into()),
        Some(fault) => {
            events.warn(format!("{unread} files or folders left out; the first: {}", fault.lines.join(": ")));
            Ok(())
        }
        None if count == 0 => {
            let places: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            Err(JobError::of(anyhow::anyhow!("{}: no image in there", places.join(", "))))
        }
        None => Ok(()),
    }
}

/// What a path is, by its name and what lies in it.
fn kind_of(path: &Path) -> PathKind {
    if !path.exists() {
        return PathKind::Missing;
    }
    if path.is_dir() {
        if path.join("config.json").is_file() {
            return PathKind::Backbone;
        }
        if path.join("run.json").is_file() {
            return PathKind::Run;
        }
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let run = entries.map(|entry| entry.path()).any(|path| is_probe(&path));
        return match run {
            true => PathKind::Run,
            false if data::labelled(path) => PathKind::Dataset,
            false => PathKind::Images,
        };
    }
    match path {
        path if is_probe(path) => PathKind::Probe,
        path if is_named_image(path) => PathKind::Images,
        path if data::labelled(path) => PathKind::Dataset,
        path if workspace::is_workspace(path) => PathKind::Workspace,
        _ => PathKind::Unknown,
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
