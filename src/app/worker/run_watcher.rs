//! The thread that watches run folders: it checks once a second whether a folder has changed, and reads it only then.
//! The folder of a finished run is read once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant, SystemTime};

use super::event_sender::EventSender;
use super::task_queue::TaskQueue;
use super::tasks;
use crate::app::jobs::history::disk::{RunSnapshot, Stamp, read};
use crate::app::jobs::tasks::{TaskPhase, Tasks};
use crate::app::jobs::user_error::UserError;
use crate::app::jobs::{Cancel, Event};
use crate::app::submit::status::query_interval;
use crate::model::train::run::RunLock;

/// Time between two checks of the folders.
const PERIOD: Duration = Duration::from_secs(1);
/// Readings that must fail in a row before an error is sent: a network file system may fail for a moment.
const ATTEMPTS: usize = 3;
/// Time between two readings of a folder after that, whatever changes in it: a disk that is back changes no file.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The folders that are watched, and the sender of events.
pub(super) struct RunWatcher {
    sender: EventSender,
    closing: Cancel,
    /// The folders, each as it was last read.
    runs: BTreeMap<PathBuf, KnownRun>,
}

/// A folder as it was last read.
#[derive(Clone, Default)]
struct KnownRun {
    stamp: Option<Stamp>,
    tasks: Option<Tasks>,
    trained: Option<bool>,
    /// What changes when tasks are submitted, cancelled or leave an exit code.
    marks: [Option<SystemTime>; 2],
    /// When the states of its tasks were last queried, and when they or the marks last changed.
    queried: Option<Instant>,
    changed: Option<Instant>,
    /// Before then it is not read again, unless a task of it begins or ends.
    due: Option<Instant>,
    /// Readings that have failed since the last success, and the error that was sent of them.
    failures: usize,
    told: Option<UserError>,
}

impl RunWatcher {
    pub(super) fn new(sender: EventSender, closing: Cancel) -> Self {
        Self { sender, closing, runs: BTreeMap::new() }
    }

    /// Watches until the worker shuts down.
    pub(super) fn run(mut self, tasks: &TaskQueue<Vec<PathBuf>>) {
        loop {
            let task = tasks.recv_timeout(if self.runs.is_empty() { Duration::MAX } else { PERIOD });
            if self.closing.is_cancelled() {
                return;
            }
            match task {
                Ok(folders) => {
                    let known = std::mem::take(&mut self.runs);
                    // The follower may have read the folder by itself meanwhile, so it is reported again.
                    let known_of = |folder: &PathBuf| KnownRun {
                        told: None,
                        ..known.get(folder).cloned().unwrap_or_default()
                    };
                    self.runs =
                        folders.into_iter().map(|folder| (folder.clone(), known_of(&folder))).collect();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.poll();
        }
    }

    /// Reads the folders that have changed, and sends them.
    fn poll(&mut self) {
        for (folder, known) in &mut self.runs {
            let stamp = Stamp::read(folder);
            let marks = tasks::marks(folder);
            if known.marks != marks {
                (known.marks, known.changed) = (marks, Some(Instant::now()));
            }
            let unchanged = known.changed.map_or(Duration::ZERO, |changed| changed.elapsed());
            let tasks = match known.queried {
                Some(queried) if queried.elapsed() < query_interval(unchanged) => known.tasks.clone(),
                _ => {
                    known.queried = Some(Instant::now());
                    let (tasks, is_local) = tasks::read(folder, known.tasks.as_ref()).unzip();
                    // Slurm is queried less and less often; what tasks on this machine print is read at once.
                    let prints = is_local == Some(true) && tasks.as_ref().is_some_and(Tasks::are_active);
                    if prints || phases(tasks.as_ref()) != phases(known.tasks.as_ref()) {
                        known.changed = known.queried;
                    }
                    tasks
                }
            };
            let trained = RunLock::is_held(folder).ok().or(known.trained);
            if known.stamp.as_ref() == Some(&stamp) && known.tasks == tasks && known.trained == trained {
                continue;
            }
            let rests = known.due.is_some_and(|due| Instant::now() < due);
            if rests && phases(tasks.as_ref()) == phases(known.tasks.as_ref()) {
                // Without a stamp it is read afterwards, whatever changed.
                (known.stamp, known.tasks) = (None, tasks);
                continue;
            }
            // A write during the read changes the stamp, so that the folder is read again.
            let snapshot = UserError::catch(|| read(folder));
            known.failures = if snapshot.is_err() { known.failures + 1 } else { 0 };
            let delay = match &snapshot {
                Ok(snapshot) => self.sender.reread_delay(snapshot),
                Err(_) if known.failures < ATTEMPTS => Duration::ZERO,
                Err(_) => RETRY_INTERVAL,
            };
            known.due = Some(Instant::now() + delay);
            let error = snapshot.as_ref().err().cloned();
            if error.is_some() && (known.failures < ATTEMPTS || known.told == error) {
                // Without a stamp it is read again; its tasks are not queried anew for that.
                (known.stamp, known.tasks) = (None, tasks);
                continue;
            }
            let snapshot =
                snapshot.map(|snapshot| Arc::new(RunSnapshot { tasks: tasks.clone(), trained, ..snapshot }));
            (known.stamp, known.tasks, known.told) = (snapshot.is_ok().then_some(stamp), tasks, error);
            known.trained = trained;
            self.sender.send(Event::RunRead { job: None, folder: folder.clone(), snapshot });
        }
    }
}

fn phases(tasks: Option<&Tasks>) -> Vec<TaskPhase> {
    tasks.into_iter().flat_map(|tasks| &tasks.all).map(|task| task.phase).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;
    use crate::app::submit::{Plan, SlurmFlags, Stage, SubmitTarget};
    use crate::model::io::atomic_file;
    use crate::model::io::file_lock::ExclusiveLock;

    /// A watcher of a folder that was never read, and its events.
    fn watcher_of(folder: &Path) -> (RunWatcher, Receiver<Event>) {
        let (sender, events) = sync_channel(4);
        let mut watcher =
            RunWatcher::new(EventSender::new(sender, Arc::new(|| {}), false), Cancel::default());
        watcher.runs.insert(folder.to_owned(), KnownRun::default());
        (watcher, events)
    }

    fn saved_plan(folder: &Path) -> Plan {
        let stages = vec![Stage::single("join", vec!["jobs".to_owned()])];
        let plan = Plan::new(folder, SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        plan.save().unwrap();
        plan
    }

    #[test]
    fn what_tasks_on_this_machine_print_is_read_at_once_however_long_they_run() {
        let folder = tempfile::tempdir().unwrap();
        let lock = saved_plan(folder.path()).home().join("state/.lock");
        let _runs = ExclusiveLock::take(&lock).unwrap().expect("nobody has it");
        let (mut watcher, _events) = watcher_of(folder.path());
        watcher.poll();
        let long_ago = Instant::now().checked_sub(Duration::from_mins(5));
        for known in watcher.runs.values_mut() {
            (known.queried, known.changed) = (long_ago, long_ago);
        }
        watcher.poll();
        let known = &watcher.runs[folder.path()];
        assert!(known.tasks.as_ref().is_some_and(Tasks::are_active) && known.changed != long_ago);
    }

    #[test]
    fn what_changes_while_a_run_rests_is_told_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        saved_plan(folder.path());
        let (mut watcher, events) = watcher_of(folder.path());
        let mut rest = |due: Option<Instant>| {
            watcher.runs.values_mut().for_each(|known| known.due = due);
            watcher.poll();
            events.try_recv().is_ok()
        };
        assert!(rest(None));
        atomic_file::write(&folder.path().join("metrics.jsonl"), b"").unwrap();
        let later = Instant::now() + Duration::from_mins(5);
        assert_eq!([Some(later), None, None].map(&mut rest), [false, true, false]);
    }

    #[test]
    fn whether_a_process_trains_there_is_told_once_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        saved_plan(folder.path());
        atomic_file::make_folder(&folder.path().join("state")).unwrap();
        let (mut watcher, events) = watcher_of(folder.path());
        let mut told = || {
            watcher.poll();
            let Ok(Event::RunRead { snapshot: Ok(snapshot), .. }) = events.try_recv() else { return None };
            snapshot.trained
        };
        let lock = RunLock::take(folder.path()).unwrap();
        assert_eq!([told(), told()], [Some(true), None]);
        drop(lock);
        assert_eq!([told(), told()], [Some(false), None]);
    }

    #[test]
    fn states_of_tasks_are_told_with_the_next_reading_where_the_first_failed() {
        let folder = tempfile::tempdir().unwrap();
        saved_plan(folder.path());
        let manifest = folder.path().join("run.json");
        atomic_file::write(&manifest, b"{").unwrap();
        let (mut watcher, events) = watcher_of(folder.path());
        watcher.poll();
        std::fs::remove_file(manifest).unwrap();
        watcher.poll();
        let Ok(Event::RunRead { snapshot: Ok(snapshot), .. }) = events.try_recv() else { panic!("a run") };
        assert_eq!(snapshot.tasks.as_ref().map(|tasks| tasks.all.len()), Some(1));
    }

    #[test]
    fn only_the_third_failed_reading_in_a_row_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (mut watcher, events) = watcher_of(folder.path());
        for _ in 1..ATTEMPTS {
            watcher.poll();
            assert!(events.try_recv().is_err(), "it may recover");
        }
        watcher.poll();
        assert!(matches!(events.try_recv(), Ok(Event::RunRead { snapshot: Err(_), .. })));
        let told = |watcher: &mut RunWatcher| {
            watcher.poll();
            events.try_recv().is_ok()
        };
        assert!(!told(&mut watcher), "it is not read again at once");
        let is_due = |watcher: &mut RunWatcher| watcher.runs.values_mut().for_each(|known| known.due = None);
        is_due(&mut watcher);
        assert!(!told(&mut watcher), "it is told once");
        saved_plan(folder.path());
        is_due(&mut watcher);
        assert!(told(&mut watcher), "it can be read again");
    }
}
