//! What lies at the paths that a dialog names, and in its folders. Asked in every frame; another thread looks at the disk once a
//! second: a disk may never answer, and the window must not wait for it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use eframe::egui::Ui;

/// How long an answer holds, in seconds.
const MAX_AGE_S: f64 = 1.0;
/// How long a frame waits for an answer, which most disks give at once: without it the frame would show the previous one.
const TIMEOUT: Duration = Duration::from_millis(250);

/// What lies at a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// Not known: the disk has not answered yet.
    #[default]
    Unknown,
    Nothing,
    File,
    EmptyFolder,
    Folder,
}

impl Found {
    pub fn is_folder(self) -> bool {
        matches!(self, Self::EmptyFolder | Self::Folder)
    }

    fn at(path: &Path) -> Self {
        let is_full = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        match path.metadata() {
            Err(_) => Self::Nothing,
            Ok(about) if !about.is_dir() => Self::File,
            Ok(_) if is_full() => Self::Folder,
            Ok(_) => Self::EmptyFolder,
        }
    }
}

/// A question to the disk.
#[derive(Clone)]
struct Query<T> {
    /// When it was asked.
    since: f64,
    answer: Arc<OnceLock<T>>,
    /// What was found before.
    before: T,
}

impl<T: Clone> Query<T> {
    fn found(&self) -> T {
        self.answer.get().unwrap_or(&self.before).clone()
    }

    fn is_open(&self) -> bool {
        self.answer.get().is_none()
    }
}

/// The last questions, by path.
#[derive(Clone, Default)]
pub struct OnDisk<T = Found>(HashMap<PathBuf, Query<T>>);

impl OnDisk {
    /// What lies at `path`.
    pub fn at(&mut self, ui: &Ui, path: &Path) -> Found {
        self.ask(ui, path, Found::at)
    }
}

impl<T: Clone + Default + Send + Sync + 'static> OnDisk<T> {
    /// What `find` finds at `path`; the default while the disk has not answered yet.
    pub fn ask(&mut self, ui: &Ui, path: &Path, find: impl FnOnce(&Path) -> T + Send + 'static) -> T {
        let now = ui.input(|i| i.time);
        if let Some(known) = self.0.get(path).filter(|query| query.is_open() || now - query.since < MAX_AGE_S)
        {
            return known.found();
        }
        let before = self.0.get(path).map(Query::found).unwrap_or_default();
        let query = Query { since: now, answer: Arc::default(), before: before.clone() };
        let (answer, asked, ctx) = (query.answer.clone(), path.to_owned(), ui.ctx().clone());
        let given_up = Arc::new(AtomicBool::new(false));
        let is_late = given_up.clone();
        let ask = move || {
            answer.set(find(&asked)).ok(); // nobody else sets it
            if is_late.load(Ordering::SeqCst) {
                ctx.request_repaint();
            }
        };
        // While another question is open, the disk hangs.
        let answers = !self.0.values().any(Query::is_open);
        let begun = Instant::now();
        if Builder::new().name("disk query".into()).spawn(ask).is_err() {
            query.answer.set(before).ok(); // asked again later
        }
        while answers && query.is_open() && begun.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(1));
        }
        given_up.store(true, Ordering::SeqCst); // before the last look: an answer is either seen here or drawn by another frame
        let found = query.found();
        self.0.insert(path.to_owned(), query);
        found
    }

    /// Forgets the answers, as something was made.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use egui_kittest::Harness;

    use super::*;

    #[test]
    fn an_answer_holds_for_a_second_unless_it_is_forgotten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new");
        let query = |ui: &mut Ui, (disk, found): &mut (OnDisk, Found)| *found = disk.at(ui, &path);
        let mut harness = Harness::new_ui_state(query, (OnDisk::default(), Found::File));
        let mut after = |steps: usize, forget: bool| {
            if forget {
                harness.state_mut().0.forget();
            }
            harness.run_steps(steps);
            harness.state().1
        };
        assert_eq!(after(1, true), Found::Nothing);
        fs::create_dir(&path).expect("made");
        assert_eq!(after(1, false), Found::Nothing);
        assert_eq!(after(1, true), Found::EmptyFolder);
        fs::create_dir(path.join("inside")).expect("made");
        assert_eq!(after(5, false), Found::Folder, "a step takes a quarter of a second");
    }

    #[test]
    fn a_disk_that_does_not_answer_holds_up_no_frame() {
        let open = |before| Query { since: 0.0, answer: Arc::default(), before };
        let disk = OnDisk([("hangs".into(), open(Found::File)), ("new".into(), open(Found::Unknown))].into());
        let query = |ui: &mut Ui, (disk, found): &mut (OnDisk, [Found; 2])| {
            *found = ["hangs", "new"].map(|path| disk.at(ui, Path::new(path)));
        };
        let mut harness = Harness::new_ui_state(query, (disk, [Found::Nothing; 2]));
        harness.run_steps(9);
        assert_eq!(harness.state().1, [Found::File, Found::Unknown], "asked once, however long ago");
    }
}
