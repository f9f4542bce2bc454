//! Handles files that were chosen, and reads and writes workspaces on other threads.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use eframe::egui::Context;

use super::background::Outcome;
use super::dialogs::file_request::FileRequest;
use super::dialogs::leaving::Leaving;
use super::dialogs::relink::LoadedWorkspace;
use super::named_workspace::known;
use super::{MainWindow, WindowOrder};
use crate::app::image_files::{WORKSPACE_EXTENSION, is_workspace};
use crate::app::jobs::Cancel;
use crate::app::jobs::train::TrainSettings;
use crate::app::session;
use crate::app::state::command::{Command, FilePrompt};
use crate::app::state::workspace::WorkspaceError;
use crate::app::state::{Severity, State};
use crate::model::io::file_lock::{LockedFile, TryLock, lock_within};

/// How long the end of the program waits for a workspace to be written.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a save waits for that of another window in the same folder, unless that hangs.
const SAVE_TIMEOUT: Duration = Duration::from_secs(2);

impl MainWindow {
    /// Makes the window ask for typed paths, whatever file dialogs the system has.
    pub fn type_paths(&mut self) {
        self.dialogs.picker.always_typed = true;
    }

    /// Handles files that were chosen: fills the dialog that asked, or gives an order.
    pub(super) fn handle_files(
        &mut self,
        ctx: &Context,
        what: FileRequest,
        paths: Vec<PathBuf>,
        state: &State,
    ) {
        let first = paths.first().cloned().unwrap_or_default();
        let prompt = match what {
            FileRequest::Export(_) => {
                return self.dialogs.export.iter_mut().for_each(|export| export.set_path(&first));
            }
            FileRequest::Share(_) => {
                return self.dialogs.share.iter_mut().for_each(|share| share.set_path(&first));
            }
            FileRequest::Relink(entry) => {
                let Some(relink) = self.dialogs.relink.take() else { return };
                return self.read(ctx, move || Ok(relink.located(entry, &first)));
            }
            FileRequest::Prompt(prompt) => prompt,
        };
        let set_form = |form: TrainSettings| Command::SetTrainForm(Box::new(form));
        let mut filled = state.training.form.clone();
        let command = match prompt {
            FilePrompt::BackboneFolder => Command::OpenBackbone(first.display().to_string()),
            FilePrompt::RunFolder => Command::OpenRun(first),
            // A folder cannot be chosen here, but typed: it is a run.
            FilePrompt::ProbeFiles if state.connection.host().is_none() && first.is_dir() => {
                Command::OpenRun(first)
            }
            FilePrompt::ProbeFiles => Command::OpenProbes(paths),
            FilePrompt::ImageFiles | FilePrompt::ImageFolder => Command::OpenImages(paths),
            FilePrompt::TrainingData => set_form(TrainSettings { data: Some(first), ..filled }),
            FilePrompt::RunOutput => set_form(TrainSettings { out: Some(first), ..filled }),
            FilePrompt::CacheFolder => {
                filled.tokens.cache = Some(first);
                set_form(filled)
            }
            FilePrompt::MaskFolder => Command::SetMasks(Some(first)),
            FilePrompt::DatasetFolder => Command::OpenDataset(first, None),
            FilePrompt::OpenWorkspace => return self.leave(Leaving::Workspace(first), state),
            FilePrompt::SaveWorkspace | FilePrompt::SaveWorkspaceAs => {
                return self.save(ctx, Some(first), None, state);
            }
            FilePrompt::OpenOrder => return self.open_order(ctx, first, state),
            FilePrompt::SaveOrder => return self.save_order(ctx, first, state),
        };
        self.send(command);
    }

    /// Reads the workspace in a file, one of this user's sessions if it is `own`, and then opens it.
    pub(super) fn load(&mut self, ctx: &Context, path: PathBuf, own: bool) {
        self.read(ctx, move || LoadedWorkspace::load(path, own));
    }

    /// Reads a workspace on another thread, and then opens it unless another one, or anything else, was asked for meanwhile; a
    /// note where no thread can be started.
    fn read(
        &mut self,
        ctx: &Context,
        read: impl FnOnce() -> Result<LoadedWorkspace, WorkspaceError> + Send + 'static,
    ) {
        self.stop_loading();
        let cancel = Cancel::default();
        let loading = cancel.clone();
        let work = move || Outcome::Loaded(cancel, Box::new(read()));
        self.loading = self.spawn(ctx, "open the workspace", work).map(|_| loading);
    }

    /// Gives up the workspace that is being read.
    pub(super) fn stop_loading(&mut self) {
        self.loading.take().iter().for_each(Cancel::cancel);
    }

    /// Orders to restore a workspace that was read; opens the dialog for missing files first if there are any, and that for what is
    /// beyond this machine.
    pub(super) fn open(&mut self, read: Result<LoadedWorkspace, WorkspaceError>, state: &State) {
        match read {
            Ok(read) if read.missing.is_empty() => self.enter(read, state),
            Ok(read) => self.dialogs.relink = Some(read),
            Err(error) => self.note(Severity::Error, error.to_string()),
        }
    }

    /// Writes the workspace on another thread, once an earlier write has ended, and then goes on to `then`; a note where no
    /// thread can be started. It is written to the file that was `chosen`, else to its own, unless that was changed meanwhile,
    /// as by another window. A failure is noted later, and then nothing is left.
    pub(super) fn save(
        &mut self,
        ctx: &Context,
        chosen: Option<PathBuf>,
        then: Option<Leaving>,
        state: &State,
    ) {
        let is_chosen = chosen.is_some();
        let Some(chosen) = chosen.or_else(|| self.named.path.clone()) else { return };
        let is_whole = !is_chosen || is_workspace(&chosen);
        let path = if is_whole { chosen } else { chosen.with_added_extension(WORKSPACE_EXTENSION) };
        self.named.writes = Some(path.clone());
        let (workspace, comparable) = (state.workspace(self.stored_layout()), Box::new(state.comparable()));
        let (earlier, fingerprint) = (self.saving.take(), self.named.fingerprint.clone());
        let then = then.map(|to| {
            self.after_save = Cancel::default();
            (self.after_save.clone(), to)
        });
        let work = move || {
            let _ = earlier.map(JoinHandle::join); // its outcome is its own
            let name = path.display();
            // Between the look at what the file holds and the write, no other window writes it.
            let _lock = locked_folder(&path);
            // The dialog asked about overwriting the name as typed, not the one with its extension.
            if !is_whole && path.exists() {
                let text = format!("{name} already exists: choose it by its full name to replace it");
                return Outcome::Failed(text);
            }
            let expected = known(&fingerprint).clone().filter(|(known, _)| !is_chosen && *known == path);
            if let Some((_, sha256)) = expected
                && session::fingerprint(&path).is_some_and(|now| now != sha256)
            {
                let text = format!(
                    "{name} was not written: another window or program has changed it since it was opened or saved here. Save workspace as… keeps both, or replaces it"
                );
                return Outcome::Failed(text);
            }
            match workspace.save(&path) {
                Ok(()) => {
                    *known(&fingerprint) = session::fingerprint(&path).map(|sha256| (path.clone(), sha256));
                    Outcome::Saved(path, comparable, then)
                }
                Err(error) => Outcome::Failed(error.to_string()),
            }
        };
        self.saving = self.spawn(ctx, "save the workspace", work);
    }

    /// Waits until the workspace is written, before the program ends, for [`TIMEOUT`] at most: a disk may never answer, and the
    /// session has everything, too. The orders that follow; nothing is opened any more.
    pub(super) fn end_saving(&mut self, ctx: &Context, state: &State) -> Vec<WindowOrder> {
        self.stop_loading();
        let begun = Instant::now();
        while self.saving.as_ref().is_some_and(|thread| !thread.is_finished()) && begun.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(1));
        }
        self.take_outcomes(ctx, state);
        let mut orders = self.take_orders();
        orders.retain(|order| matches!(order, WindowOrder::Saved(_)));
        orders
    }
}

/// The folder of a file, locked: a file that is replaced cannot be, and one beside it would stay there. `None` where folders cannot be
/// locked, or another window holds it for long.
fn locked_folder(path: &Path) -> Option<LockedFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    let locked = lock_within(&folder, SAVE_TIMEOUT);
    matches!(locked, Ok(TryLock::Acquired)).then(|| LockedFile(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::ImageId;
    use crate::app::state::connection::{Connection, Host};
    use crate::app::state::workspace::{Entry, SavedImage, Workspace};

    fn window() -> (MainWindow, State, Context, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        (MainWindow::default(), State::default(), Context::default(), folder)
    }

    #[test]
    fn a_folder_that_was_chosen_for_masks_is_a_command() {
        let (mut window, state, ctx, _) = window();
        let ask = FileRequest::Prompt(FilePrompt::MaskFolder);
        window.handle_files(&ctx, ask, vec!["masks".into()], &state);
        let orders = window.take_orders();
        let [WindowOrder::Command(command)] = &orders[..] else { panic!("{} orders", orders.len()) };
        assert_eq!(*command, Command::SetMasks(Some("masks".into())));
        let ask = FileRequest::Prompt(FilePrompt::MaskFolder);
        window.handle_files(&ctx, ask, vec!["masks".into()], &state);
        assert!(window.end_saving(&ctx, &state).is_empty(), "at the end of the window none is");
    }

    #[test]
    fn a_path_on_a_host_is_not_looked_for_here() {
        let (mut window, mut state, ctx, folder) = window();
        let mut chosen = |state: &State| {
            let ask = FileRequest::Prompt(FilePrompt::ProbeFiles);
            window.handle_files(&ctx, ask, vec![folder.path().to_owned()], state);
            window.take_orders().pop()
        };
        assert!(matches!(chosen(&state), Some(WindowOrder::Command(Command::OpenRun(_)))));
        state.connection = Connection::Connecting(Host { place: "ssh://me@gpu1".into(), program: None });
        assert!(matches!(chosen(&state), Some(WindowOrder::Command(Command::OpenProbes(_)))));
    }

    #[test]
    fn a_workspace_is_saved_again_where_it_was_saved_last() {
        let (mut window, mut state, ctx, folder) = window();
        let [first, second] = ["first.ssmprobe", "second.ssmprobe"].map(|name| folder.path().join(name));
        for path in [&first, &second] {
            let save = FileRequest::Prompt(FilePrompt::SaveWorkspaceAs);
            window.handle_files(&ctx, save, vec![path.clone()], &state);
            let orders = window.next_outcome(&state);
            assert!(matches!(&orders[..], [WindowOrder::Wrote(told), WindowOrder::Saved(_)] if told == path));
        }
        state.views.shared = !state.views.shared;
        window.prompt(&ctx, FilePrompt::SaveWorkspace.into(), &state);
        window.next_outcome(&state);
        let shared = |path: &Path| Workspace::load(path).expect("a workspace").views.shared;
        assert_eq!([shared(&first), shared(&second)], [!state.views.shared, state.views.shared]);
        // Of two saves, only the last leads on to what was to be opened after it.
        for to in [Leaving::Demo, Leaving::Workspace(second.clone())] {
            window.leave(to.clone(), &state);
            window.take_orders(); // it goes on at once, as nothing is unsaved
            window.save(&ctx, Some(first.clone()), Some(to), &state);
        }
        let next = |order: &&WindowOrder| matches!(order, WindowOrder::Leave(_));
        let mut orders = Vec::new();
        while orders.iter().find(next).is_none() {
            orders.extend(window.next_outcome(&state));
        }
        assert!(matches!(orders.iter().find(next), Some(WindowOrder::Leave(Leaving::Workspace(_)))));
        // A workspace opened before the file is written does not take its name, and closing waits for the write.
        window.save(&ctx, Some(first.clone()), None, &state);
        window.forget_workspace();
        window.end_saving(&ctx, &state);
        assert_eq!((window.workspace(), shared(&first)), (None, state.views.shared));
    }

    #[test]
    fn a_file_is_compared_with_what_it_held_itself_and_not_with_another_written_since() {
        let (mut window, mut state, ctx, folder) = window();
        let [first, second] = ["first.ssmprobe", "second.ssmprobe"].map(|name| folder.path().join(name));
        window.save(&ctx, Some(first.clone()), None, &state);
        window.next_outcome(&state);
        // Saved again under its own name before the new name is known to be written.
        state.views.shared = !state.views.shared;
        for path in [Some(second), None] {
            window.save(&ctx, path, None, &state);
        }
        window.end_saving(&ctx, &state);
        let written = Workspace::load(&first).expect("a workspace");
        assert_eq!(written.views.shared, state.views.shared);
    }

    #[test]
    fn a_workspace_that_another_window_has_saved_is_replaced_only_where_it_is_chosen() {
        let (mut window, mut state, ctx, folder) = window();
        let file = folder.path().join("w.ssmprobe");
        let mut masks = |window: &mut MainWindow, chosen: bool, masks: &str| {
            state.masks = Some(folder.path().join(masks));
            window.save(&ctx, chosen.then(|| file.clone()), None, &state);
            let orders = window.next_outcome(&state);
            let refused = matches!(orders[..], [WindowOrder::Note(Severity::Error, _)]);
            (refused, Workspace::load(&file).expect("a workspace").masks.expect("masks"))
        };
        let named = |masks: &str| folder.path().join(masks);
        assert_eq!(masks(&mut window, true, "one"), (false, named("one")));
        let mut other = MainWindow::default();
        let mut read = LoadedWorkspace::load(file.clone(), false).expect("read").workspace;
        read.saved_as = Some(file.clone());
        other.resume(&read);
        assert_eq!(masks(&mut other, false, "two"), (false, named("two")));
        assert_eq!(masks(&mut window, false, "three"), (true, named("two")));
        // Also after a restart.
        let session = window.session(&State::default());
        window.resume(&session);
        assert_eq!(masks(&mut window, false, "three"), (true, named("two")));
        assert_eq!(masks(&mut window, true, "four"), (false, named("four")));
        assert_eq!(masks(&mut window, false, "five"), (false, named("five")));
    }

    #[cfg(unix)]
    #[test]
    fn of_two_windows_that_save_at_the_same_moment_the_second_finds_what_the_first_wrote() {
        let (mut window, state, ctx, folder) = window();
        let file = folder.path().join("w.ssmprobe");
        window.save(&ctx, Some(file.clone()), None, &state);
        window.next_outcome(&state);
        // Saved again, and under new names that are typed without their extension.
        let typed =
            |name: &str| (Some(folder.path().join(name)), folder.path().join(format!("{name}.ssmprobe")));
        for (typed, file) in [(None, file), typed("v"), typed("lr0.1"), typed("v.final")] {
            let first = locked_folder(&file).expect("locked");
            window.save(&ctx, typed, None, &state);
            sleep(Duration::from_millis(200)); // it would have written by now
            let written = Workspace { masks: Some(folder.path().join("first")), ..Workspace::default() };
            written.save(&file).expect("saved");
            drop(first);
            let orders = window.next_outcome(&state);
            assert!(matches!(orders[..], [WindowOrder::Note(Severity::Error, _)]), "it is refused");
            assert_eq!(Workspace::load(&file).expect("a workspace").masks, written.masks);
        }
    }

    #[test]
    fn the_workspace_that_was_asked_for_last_is_opened() {
        let (mut window, state, ctx, folder) = window();
        let [first, second] = ["first.ssmprobe", "second.ssmprobe"].map(|name| folder.path().join(name));
        for path in [&first, &second] {
            Workspace::default().save(path).expect("saved");
            window.load(&ctx, path.clone(), false);
        }
        let orders = [window.next_outcome(&state), window.next_outcome(&state)].map(Vec::into_iter);
        let opened = orders.into_iter().flatten().map(|order| match order {
            WindowOrder::Restore(path, _) => path,
            _ => panic!("it is not opened"),
        });
        assert_eq!(opened.collect::<Vec<_>>(), [second]);
    }

    #[test]
    fn a_workspace_is_opened_once_its_missing_file_is_located() {
        let (mut window, state, ctx, folder) = window();
        let [file, away, there] =
            ["w.ssmprobe", "away.png", "there.png"].map(|name| folder.path().join(name));
        std::fs::write(&there, "a picture").expect("written");
        let image = SavedImage { id: ImageId(1), source: away.into() };
        Workspace { images: vec![image], ..Workspace::default() }.save(&file).expect("saved");
        window.load(&ctx, file.clone(), false);
        assert!(window.next_outcome(&state).is_empty());
        let what = FileRequest::Relink(Entry::Image(ImageId(1)));
        window.handle_files(&ctx, what, vec![there.clone()], &state);
        let orders = window.next_outcome(&state);
        let [WindowOrder::Restore(path, found)] = &orders[..] else { panic!("{} orders", orders.len()) };
        assert_eq!((path, &found.images[0].source.path), (&file, &there));
    }
}
