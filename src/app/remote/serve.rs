//! The worker's end of the pipe: requests come in on standard input, and nothing but events goes out on standard output.
//! The end of the input ends the process, whatever jobs are running, and so does its [`silence`](super::silence).

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::TIMEOUT;
use super::frame::{self, FrameError};
use super::hello::{Hello, PROTOCOL};
use super::home::with_home;
use super::silence::{TIMES, Watched};
use crate::app::format::counted;
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Event, Request};
use crate::app::process_memory;
use crate::app::terminal::interrupt;
use crate::app::terminal::stdout::say;
use crate::app::worker::{Worker, WorkerEnv};
use crate::model::data::ImageSource;

/// Capacity of the event queue, beyond which the worker waits; small, as an event may hold a whole file.
const EVENT_CAPACITY: usize = 16;
/// How often the memory of this process is measured.
const MEMORY_PERIOD: Duration = Duration::from_secs(2);
/// Changes of fewer bytes are not reported.
const MEMORY_STEP: u64 = 1 << 20;
/// Capacity of the queue of requests and wake-ups.
const INPUT_CAPACITY: usize = 64;

/// What the main loop waits for.
enum Input {
    Request(Request),
    /// The worker may have events.
    Wake,
    /// The input has ended, with the error if it failed.
    End(Option<FrameError>),
}

/// Runs the worker until the input ends.
///
/// # Errors
/// If the client speaks another protocol or sends an invalid request, closes the output before the input, or is gone.
pub fn serve() -> anyhow::Result<()> {
    let mut out = BufWriter::new(claim_stdout().context("standard output is not available")?);
    Hello::serving().write(&mut out).context("the other side has disconnected")?;
    let (sender, inputs) = sync_channel(INPUT_CAPACITY);
    let to_loop = sender.clone();
    let from = Watched::new(io::stdin(), TIMES, move || {
        // The loop may be in a write that does not end either.
        let _ = to_loop.try_send(Input::End(Some(FrameError::Silent)));
        sleep(TIMEOUT);
        interrupt::end();
    });
    let mut from = BufReader::new(from.context("cannot start the thread that notices a lost client")?);
    let compress = match Hello::read(&mut from) {
        Ok(theirs) => theirs.packs,
        Err(FrameError::Protocol { found, version }) => bail!(
            "the other side speaks protocol {found} (version {version}), this program {PROTOCOL} (version {}); update the \
             older one",
            env!("CARGO_PKG_VERSION")
        ),
        Err(error) => {
            return Err(anyhow::Error::new(error)
                .context("no client has connected; `ssmprobe` starts this command by itself"));
        }
    };
    answer(from, &mut out, compress, TIMES.beat, sender, &inputs)
}

/// Answers the requests that come `from` a client until they end, with heartbeats to it every `interval` in which there are no events.
fn answer(
    from: impl BufRead + Send + 'static,
    out: &mut impl Write,
    compress: bool,
    interval: Duration,
    sender: SyncSender<Input>,
    inputs: &Receiver<Input>,
) -> anyhow::Result<()> {
    let wake = sender.clone();
    // A full queue needs no wake-up: events are fetched after every input.
    let waker = Arc::new(move || drop(wake.try_send(Input::Wake)));
    let mut worker = Worker::with_queue(WorkerEnv::default(), waker, EVENT_CAPACITY, compress)
        .context("cannot start the compute threads")?;
    let listening = Builder::new().name("requests".into());
    listening.spawn(move || read_requests(from, &sender)).context("cannot start the listening thread")?;
    let (mut memory, mut timeout, mut last_beat) = (MemoryReporter::default(), MEMORY_PERIOD, Instant::now());
    loop {
        // All requests are read before the next event is sent: over a slow line many events wait, and a request may cancel the job that
        // they belong to.
        let input = inputs.recv_timeout(std::mem::take(&mut timeout));
        match input {
            Ok(Input::Request(request)) => {
                worker.send(request);
                continue;
            }
            Ok(Input::Wake) => continue,
            Ok(Input::End(None)) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(Input::End(Some(error))) => return Err(error.into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(event) = worker.event() {
            write_event(out, &event, compress)?;
            continue;
        }
        if let Some(bytes) = memory.changed() {
            write_event(out, &Event::Memory(bytes), compress)?;
        }
        if last_beat.elapsed() >= interval {
            frame::write_heartbeat(out)?;
            last_beat = Instant::now();
        }
        out.flush()?;
        timeout = MEMORY_PERIOD;
    }
}

/// The resident memory that was last reported, in bytes, and when it was last measured.
#[derive(Default)]
struct MemoryReporter {
    reported: Option<u64>,
    measured: Option<Instant>,
}

impl MemoryReporter {
    /// The resident bytes, if it is time to measure and they differ by [`MEMORY_STEP`] or more from those last reported.
    fn changed(&mut self) -> Option<u64> {
        if self.measured.is_some_and(|measured| measured.elapsed() < MEMORY_PERIOD) {
            return None;
        }
        self.measured = Some(Instant::now());
        let bytes = process_memory::resident().filter(|bytes| self.is_due(*bytes))?;
        self.reported = Some(bytes);
        Some(bytes)
    }

    fn is_due(&self, bytes: u64) -> bool {
        self.reported.is_none_or(|before| bytes.abs_diff(before) >= MEMORY_STEP)
    }
}

/// Writes an event; in place of one that cannot be serialised, a warning of its job and those images of a list that can be sent, or the
/// failure to open a dataset. One of no job is left out: the next worker would be asked for the same, and end as this one.
fn write_event(out: &mut impl Write, event: &Event, compress: bool) -> Result<(), FrameError> {
    match (frame::write(out, event, compress), event.job()) {
        (Err(FrameError::Unwritable { found }), Some(job)) => {
            let left_out = not_unicode(event);
            if let Event::ImagesListed { paths, .. } = event
                && !left_out.is_empty()
            {
                let paths = paths.iter().filter(|path| path.to_str().is_some()).cloned().collect();
                write_event(out, &Event::ImagesListed { job, paths }, compress)?;
            }
            let text = match &left_out[..] {
                [] => format!("A message cannot be sent: {found}"),
                [first, others @ ..] => {
                    let images = counted(1 + others.len(), "image", "images");
                    format!("{images} cannot be sent, as {}: {found}", first.display())
                }
            };
            let told = match event {
                // After a mere warning the window would wait for the dataset for ever.
                Event::DatasetOpened { .. } => Event::Failed(job, UserError::new(text)),
                _ => Event::Warning { job, text },
            };
            frame::write(out, &told, compress)
        }
        (Err(FrameError::Unwritable { found }), None) => {
            say!("a message cannot be sent: {found}");
            Ok(())
        }
        (written, _) => written,
    }
}

/// Images of a list whose paths are no text.
fn not_unicode(event: &Event) -> Vec<&Path> {
    let is_no_text = |path: &&Path| path.to_str().is_none();
    match event {
        Event::ImagesListed { paths, .. } => paths.iter().map(PathBuf::as_path).filter(is_no_text).collect(),
        Event::DatasetOpened { part, .. } => {
            let sources = part.dataset.samples.iter().map(|sample| &sample.source);
            sources.filter_map(ImageSource::own_file).filter(is_no_text).collect()
        }
        _ => Vec::new(),
    }
}

fn read_requests(mut from: impl BufRead, sender: &SyncSender<Input>) {
    loop {
        let next = match frame::read(&mut from) {
            Ok(Some(request)) => Input::Request(with_home(request)),
            Ok(None) => Input::End(None),
            Err(error) => Input::End(Some(error)),
        };
        let ends = matches!(next, Input::End(_));
        if sender.send(next).is_err() || ends {
            return;
        }
    }
}

/// Reserves standard output for messages: from now on all other output, a driver's too, goes to standard error.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn claim_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: both descriptors are open for as long as the process runs; no Rust value owns descriptor 1, which is replaced.
    #[expect(unsafe_code, reason = "a call of C that makes one number of a file mean another file")]
    let replaced = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    if replaced < 0 { Err(io::Error::last_os_error()) } else { Ok(own.into()) }
}

/// Standard output, on systems where it is not reserved for messages; the program itself prints nothing else.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn claim_stdout() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::{ffi::OsString, time::SystemTime};

    use super::*;
    #[cfg(unix)]
    use crate::app::jobs::{JobId, history::disk::RunSnapshot};
    use crate::app::remote::silence::Times;
    #[cfg(target_os = "linux")]
    use crate::{
        app::jobs::{DatasetId, evaluate::EvalSplit},
        model::data,
    };

    #[cfg(unix)]
    #[test]
    fn an_event_that_cannot_be_written_ends_no_connection() {
        use std::os::unix::ffi::OsStringExt;
        let folder: PathBuf = OsString::from_vec(b"caf\xe9".to_vec()).into();
        let snapshot = Ok(Arc::new(RunSnapshot {
            probes: vec![(folder.clone(), SystemTime::now())],
            ..RunSnapshot::default()
        }));
        let mut out = Vec::new();
        write_event(
            &mut out,
            &Event::RunRead { job: None, folder: "run".into(), snapshot: snapshot.clone() },
            false,
        )
        .unwrap();
        assert!(out.is_empty());
        let job = JobId(7);
        write_event(&mut out, &Event::RunRead { job: Some(job), folder: folder.clone(), snapshot }, false)
            .unwrap();
        let said: Option<Event> = frame::read(&mut &out[..]).unwrap();
        let names = |text: &str| text.contains("path") && text.contains("rename");
        assert!(matches!(&said, Some(Event::Warning { job: JobId(7), text }) if names(text)), "{said:?}");
        // From a list of images only those paths are left out, and one of them is named.
        out.clear();
        let paths = vec!["a.png".into(), folder.join("b.png"), "c.png".into()];
        write_event(&mut out, &Event::ImagesListed { job, paths }, false).unwrap();
        let mut from = &out[..];
        let [listed, said]: [Event; 2] = [(); 2].map(|()| frame::read(&mut from).unwrap().unwrap());
        let sent = |paths: &[PathBuf]| paths == [PathBuf::from("a.png"), "c.png".into()];
        assert!(matches!(&listed, Event::ImagesListed { paths, .. } if sent(paths)), "{listed:?}");
        let begins = "1 image cannot be sent, as caf\u{fffd}/b.png: ";
        assert!(
            matches!(&said, Event::Warning { text, .. } if text.starts_with(begins) && names(text)),
            "{said:?}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_dataset_that_cannot_be_sent_is_not_opened_and_names_the_file() {
        use std::os::unix::ffi::OsStringExt;
        let folder = tempfile::tempdir().unwrap();
        for place in ["train/a", "train/b", "val/a", "val/b"].map(|place| folder.path().join(place)) {
            crate::model::io::atomic_file::make_folder(&place).unwrap();
            for name in [b"1.png".to_vec(), b"caf\xe9.png".to_vec()] {
                crate::model::io::atomic_file::write(&place.join(OsString::from_vec(name)), b"").unwrap();
            }
        }
        let part = Arc::new(EvalSplit::new(data::open(folder.path()).unwrap(), None));
        let mut out = Vec::new();
        write_event(&mut out, &Event::DatasetOpened { job: JobId(7), entry: DatasetId(1), part }, false)
            .unwrap();
        let said: Option<Event> = frame::read(&mut &out[..]).unwrap();
        let names = |error: &UserError| {
            let text = error.to_string();
            text.contains("4 images cannot be sent, as ") && text.contains("a/caf\u{fffd}.png: ")
        };
        assert!(matches!(&said, Some(Event::Failed(JobId(7), error)) if names(error)), "{said:?}");
    }

    #[test]
    fn memory_is_reported_when_it_changes() {
        let mut memory = MemoryReporter::default();
        assert!(memory.is_due(0));
        memory.reported = Some(MEMORY_STEP);
        assert!(!memory.is_due(MEMORY_STEP) && memory.is_due(0) && memory.is_due(2 * MEMORY_STEP));
    }

    #[test]
    fn a_client_that_is_silent_ends_the_worker_and_one_that_gives_signs_does_not() {
        // On a busy machine a heartbeat may come too late: then there is more time for each.
        let silences = [800, 3_200, 12_800, 51_200].map(Duration::from_millis);
        assert!(silences.into_iter().any(is_kept_by_heartbeats), "heartbeats do not count");
    }

    /// Whether a worker ends by this much silence only after the heartbeats of its client have ended.
    fn is_kept_by_heartbeats(silence: Duration) -> bool {
        let times = Times { silence, check: Duration::from_millis(20), ..TIMES };
        let (sender, inputs) = sync_channel(INPUT_CAPACITY);
        let (to_loop, (from, mut to)) = (sender.clone(), io::pipe().unwrap());
        let on_silence = move || drop(to_loop.try_send(Input::End(Some(FrameError::Silent))));
        let from = BufReader::new(Watched::new(from, times, on_silence).unwrap());
        let (mut out, begun, lasts) = (Vec::<u8>::new(), Instant::now(), times.silence * 3 / 2);
        let send_heartbeats = move || {
            // After every request the worker checks whether a heartbeat is due.
            frame::write(&mut to, &Request::Follow(Vec::new()), false).unwrap();
            while begun.elapsed() < lasts {
                frame::write_heartbeat(&mut to).unwrap();
                sleep(times.check);
            }
            to // the pipe stays open
        };
        let is_kept = std::thread::scope(|scope| {
            let _pipe = scope.spawn(send_heartbeats);
            let ended = answer(from, &mut out, false, Duration::ZERO, sender, &inputs).unwrap_err();
            assert!(matches!(ended.downcast_ref(), Some(FrameError::Silent)), "{ended}");
            begun.elapsed() > lasts
        });
        // It sends heartbeats, too: no message has as many zeros.
        assert!(out.windows(5).any(|bytes| bytes == [0; 5]));
        is_kept
    }
}
