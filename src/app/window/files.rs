//! Handles files that were chosen, and loads and saves workspaces.

use std::path::PathBuf;

use eframe::egui::Context;

use super::exporter::Outcome;
use super::file_picker::FileRequest;
use super::leaving::Leaving;
use super::named_workspace::NamedWorkspace;
use super::relink::Relink;
use super::{MainWindow, WindowOrder, order_files};
use crate::app::image_files::WORKSPACE_EXTENSION;
use crate::app::jobs::train::TrainSettings;
use crate::app::state::command::{Command, FilePrompt};
use crate::app::state::workspace::WorkspaceError;
use crate::app::state::{Severity, State};

impl MainWindow {
    /// Makes the window ask for typed paths, whatever file dialogs the system has.
    pub fn type_paths(&mut self) {
        self.picker.always_typed = true;
    }

    /// Handles files that were chosen: fills the dialog that asked, or gives an order.
    pub(super) fn handle_files(
        &mut self,
        what: FileRequest,
        paths: Vec<PathBuf>,
        state: &State,
        orders: &mut Vec<WindowOrder>,
    ) {
        let first = paths.first().cloned().unwrap_or_default();
        let prompt = match what {
            FileRequest::Export(_) => {
                return self.export.iter_mut().for_each(|export| export.set_path(&first));
            }
            FileRequest::Share(_) => return self.share.iter_mut().for_each(|share| share.set_path(&first)),
            FileRequest::Relink(entry) => {
                return self.relink.iter_mut().for_each(|relink| relink.found(entry, &first));
            }
            FileRequest::Prompt(prompt) => prompt,
        };
        let draft = |draft: TrainSettings| Command::SetTrainForm(Box::new(draft));
        let mut filled = state.training.form.clone();
        orders.push(WindowOrder::Command(match prompt {
            FilePrompt::BackboneFolder => Command::OpenBackbone(first.display().to_string()),
            FilePrompt::RunFolder => Command::OpenRun(first),
            // A folder cannot be chosen here, but typed: it is a run.
            FilePrompt::ProbeFiles if state.connection.host().is_none() && first.is_dir() => {
                Command::OpenRun(first)
            }
            FilePrompt::ProbeFiles => Command::OpenProbes(paths),
            FilePrompt::ImageFiles | FilePrompt::ImageFolder => Command::OpenImages(paths),
            FilePrompt::TrainingData => draft(TrainSettings { data: Some(first), ..filled }),
            FilePrompt::RunOutput => draft(TrainSettings { out: Some(first), ..filled }),
            FilePrompt::CacheFolder => {
                filled.tokens.cache = Some(first);
                draft(filled)
            }
            FilePrompt::MaskFolder => Command::SetMasks(Some(first)),
            FilePrompt::DatasetFolder => Command::OpenDataset(first, None),
            FilePrompt::OpenWorkspace if self.is_unsaved(state) => {
                return self.leaving = Some(Leaving::Workspace(first));
            }
            FilePrompt::OpenWorkspace => return orders.push(WindowOrder::Open(first)),
            FilePrompt::SaveWorkspace | FilePrompt::SaveWorkspaceAs => {
                return self.save(first, state, orders);
            }
            FilePrompt::OpenOrder => return order_files::open(&first, state, orders),
            FilePrompt::SaveOrder => return order_files::save(&first, state, orders),
        }));
    }

    /// Reads a workspace on another thread, and then opens it; a note where no thread can be started.
    pub(super) fn load(&self, ctx: &Context, path: PathBuf) -> Option<WindowOrder> {
        let work = move || Outcome::Loaded(Box::new(Relink::load(path)));
        WindowOrder::failure(self.exporter.start(ctx, "open the workspace", work))
    }

    /// The order to restore a workspace that was read; opens the dialog for missing files first if there are any.
    pub(super) fn open(&mut self, read: Result<Relink, WorkspaceError>) -> Option<WindowOrder> {
        match read {
            Ok(read) if read.is_complete() => Some(WindowOrder::Restore(read.path, Box::new(read.workspace))),
            Ok(read) => {
                self.relink = Some(read);
                None
            }
            Err(error) => Some(WindowOrder::Note(Severity::Error, error.to_string())),
        }
    }

    pub(super) fn save(&mut self, path: PathBuf, state: &State, orders: &mut Vec<WindowOrder>) {
        let whole = path.with_extension(WORKSPACE_EXTENSION);
        if path.extension().is_none() && whole.exists() {
            // The dialog asked about overwriting the name as typed, not the one with its extension.
            let text =
                format!("{} already exists: choose it by its full name to replace it", whole.display());
            orders.push(WindowOrder::Note(Severity::Error, text));
            return;
        }
        let path = if path.extension().is_none() { whole } else { path };
        match state.workspace(self.layout.value()).save(&path) {
            Ok(()) => {
                orders.push(WindowOrder::Note(Severity::Info, format!("Wrote {}", path.display())));
                orders.push(WindowOrder::Saved(path.clone()));
                self.named = NamedWorkspace::saved(path, state);
            }
            Err(error) => orders.push(WindowOrder::Note(Severity::Error, error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::app::state::workspace::Workspace;

    #[test]
    fn a_folder_that_was_chosen_for_masks_is_a_command() {
        let (mut window, state, mut orders) = (MainWindow::default(), State::default(), Vec::new());
        let ask = FileRequest::Prompt(FilePrompt::MaskFolder);
        window.handle_files(ask, vec!["masks".into()], &state, &mut orders);
        let [WindowOrder::Command(command)] = &orders[..] else { panic!("{} orders", orders.len()) };
        assert_eq!(*command, Command::SetMasks(Some("masks".into())));
    }

    #[test]
    fn a_workspace_is_saved_again_where_it_was_saved_last() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second] = ["first.ssmprobe", "second.ssmprobe"].map(|name| folder.path().join(name));
        let (mut window, mut state, mut orders) = (MainWindow::default(), State::default(), Vec::new());
        for path in [&first, &second] {
            let save = FileRequest::Prompt(FilePrompt::SaveWorkspaceAs);
            window.handle_files(save, vec![path.clone()], &state, &mut orders);
        }
        state.views.shared = !state.views.shared;
        window.prompt(&Context::default(), FilePrompt::SaveWorkspace.into(), &state, &mut orders);
        let shared = |path: &Path| Workspace::load(path).expect("a workspace").views.shared;
        assert_eq!([shared(&first), shared(&second)], [!state.views.shared, state.views.shared]);
    }
}
