//! The file thread: lists folders, finds out what files are and makes thumbnails. It
//! owns no tensor.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use image::imageops;
use rayon::prelude::*;

use super::compute::of_file;
use super::event_sender::{EventSender, JobExit, JobReporter, failed, go_on, guard};
use super::{Task, WorkerEnv};
use crate::app::image_files::{images_below, is_probe};
use crate::app::jobs::history::disk;
use crate::app::jobs::survey::EvalSplit;
use crate::app::jobs::{Cancel, Event, ImageId, JobId, PathKind, Request, Unit};
use crate::app::state::workspace;
use crate::app::user_error::UserError;
use crate::model::data::image::is_named_image;
use crate::model::data::{self, ImageSource};
use crate::model::trace::Picture;

/// Images told at once.
const PART: usize = 1000;
/// Most images listed by one request.
const MOST: usize = 2_000_000;
/// Threads that decode thumbnails: two leave the others to the backbone.
const DECODERS: usize = 2;

pub(super) struct Files {
    world: WorkerEnv,
    outbox: EventSender,
    closing: Cancel,
    decoders: rayon::ThreadPool,
}

/// The thumbnails still to be made.
#[derive(Default)]
struct Wanted {
    images: VecDeque<(ImageId, ImageSource)>,
    side: u32,
    cancel: Cancel,
}

impl Wanted {
    fn is_done(&self) -> bool {
        self.images.is_empty() || self.cancel.is_cancelled()
    }
}

impl Files {
    pub(super) fn new(world: WorkerEnv, outbox: EventSender, closing: Cancel) -> std::io::Result<Self> {
        let named = rayon::ThreadPoolBuilder::new().thread_name(|index| format!("thumbnails-{index}"));
        let decoders = named.num_threads(DECODERS).build().map_err(std::io::Error::other)?;
        Ok(Self { world, outbox, closing, decoders })
    }

    /// Works until the other end of the queue is gone, or it is closed. Thumbnails are made while
    /// nothing else is asked.
    pub(super) fn run(self, tasks: &Receiver<Task>) {
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
                Ok(Task { request: Request::Thumbnails { wanted: images, side }, cancel }) => {
                    wanted = Wanted { images: images.into(), side, cancel };
                }
                Ok(Task { request, cancel }) => self.job(request, &cancel),
                Err(TryRecvError::Empty) => self.thumbnails(&mut wanted),
                Err(TryRecvError::Disconnected) => return,
            }
            self.outbox.wake();
        }
    }

    fn job(&self, request: Request, cancel: &Cancel) {
        let Some(job) = request.job() else { return };
        let result = self.outbox.job(job, cancel, |clock| match request {
            Request::OpenRun { folder, .. } => self.run_folder(job, &folder),
            Request::OpenImages { paths, .. } => list(clock, &paths, cancel),
            Request::OpenDataset { entry, path, split, .. } => {
                clock.progress("Reading the lists", 0, None, Unit::Files);
                let part = Arc::new(EvalSplit::new(data::open(&path).map_err(failed)?, split));
                // Of what matters to a training alone, its plan speaks.
                for note in part.dataset.notes.iter().filter(|note| !note.ends_with(data::UNTRAINABLE)) {
                    clock.warn(format!("{}: {note}", part.asked.dataset));
                }
                self.outbox.tell(Event::DatasetOpened { job, entry, part });
                Ok(())
            }
            Request::Recognise { paths, .. } => {
                let found = paths.into_iter().map(|path| (path.clone(), kind(&path))).collect();
                self.outbox.tell(Event::Recognised { job, found });
                Ok(())
            }
            _ => Ok(()),
        });
        if let Err(fault) = result {
            self.outbox.tell(Event::Failed(job, fault));
        }
    }

    /// Probes lie in the folder itself, or in `probes` of a training's.
    fn run_folder(&self, job: JobId, folder: &Path) -> Result<(), JobExit> {
        let trained = folder.join("run.json").is_file();
        if trained {
            let reading = disk::read(folder).map(Arc::new).map_err(UserError::of);
            self.outbox.tell(Event::RunRead { job: Some(job), folder: folder.to_owned(), reading });
        }
        let folder = if trained { folder.join("probes") } else { folder.to_owned() };
        let unread = |error| {
            of_file(&folder, anyhow::anyhow!("{}: the folder cannot be read: {error}", folder.display()))
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
            Ok(Err(error)) => Event::ThumbnailFailed { image, fault: of_file(&place.path, error) },
            Err(panic) => Event::ThumbnailFailed { image, fault: UserError::of_panic(&*panic) },
        }
    }
}

/// Lists images, some at a time. What cannot be read is a warning, unless nothing can.
fn list(clock: &JobReporter<'_>, paths: &[PathBuf], cancel: &Cancel) -> Result<(), JobExit> {
    let mut part = Vec::with_capacity(PART);
    let (mut count, mut unread, mut first) = (0, 0, None);
    let mut found = |path: PathBuf| {
        part.push(path);
        count += 1;
        if part.len() >= PART {
            let paths = std::mem::replace(&mut part, Vec::with_capacity(PART));
            clock.outbox.tell(Event::ImagesListed { job: clock.job, paths });
            clock.progress("Listing images", count as u64, None, Unit::Files);
        }
        let end = cancel.is_cancelled() || count >= MOST;
        if end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut failed_at = |path: &Path, error: std::io::Error| {
        unread += 1;
        first.get_or_insert_with(|| {
            of_file(path, anyhow::anyhow!("{}: cannot be read: {error}", path.display()))
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
    go_on(cancel)?;
    if !part.is_empty() {
        clock.outbox.tell(Event::ImagesListed { job: clock.job, paths: part });
    }
    if count >= MOST {
        clock.warn(format!("Only the first {MOST} images are listed"));
    }
    match first {
        Some(fault) if count == 0 => Err(fault.into()),
        Some(fault) => {
            clock.warn(format!("{unread} files or folders left out; the first: {}", fault.lines.join(": ")));
            Ok(())
        }
        None if count == 0 => {
            let places: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            Err(failed(anyhow::anyhow!("{}: no image in there", places.join(", "))))
        }
        None => Ok(()),
    }
}

/// What a path is, by its name and what lies in it.
fn kind(path: &Path) -> PathKind {
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
