//! Every action once: words, key and condition. Menus, palette and keys walk [`Action::ALL`]. Choosing
//! one either gives a [`Command`] for the state, or asks the window for what only it can do ([`Prompt`]).

use super::Command;
use crate::app::jobs::ClassChoice;
use crate::app::state::State;
use crate::app::state::settings::ThemeChoice;

/// What only the window can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Choose a backbone's folder, then [`Command::OpenBackbone`].
    BackboneFolder,
    /// Type an id of the Hub, then [`Command::OpenBackbone`].
    HubId,
    /// Choose probe files, then [`Command::OpenProbes`].
    ProbeFiles,
    /// Choose a run's folder, then [`Command::OpenRun`].
    RunFolder,
    /// Choose images, then [`Command::OpenImages`].
    ImageFiles,
    /// Choose a folder of images, then [`Command::OpenImages`].
    ImageFolder,
    /// Choose a dataset's folder for the next training.
    DatasetFolder,
    /// Choose a folder for the next run.
    RunOutput,
    /// Choose the folder of token caches.
    CacheFolder,
    /// Choose a dataset's folder, then [`Command::OpenDataset`].
    OpenDatasetFolder,
    /// Choose a workspace file and restore it.
    OpenWorkspace,
    /// Save the workspace where it was saved before, or choose where.
    SaveWorkspace,
    /// Choose where to save the workspace.
    SaveWorkspaceAs,
    /// Show the palette of all actions.
    Palette,
    /// Arrange the panes as at first.
    Arrange,
    /// Copy the log as text.
    CopyLog,
    /// Open what the clipboard holds.
    Paste,
    /// End the program.
    Quit,
}

/// What choosing an action does.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The state does it.
    Command(Command),
    /// The window does it.
    Prompt(Prompt),
}

/// A key with modifiers; `key` as [`egui::Key::from_name`] reads it.
///
/// [`egui::Key::from_name`]: eframe::egui::Key::from_name
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shortcut {
    /// Ctrl, or Cmd on a Mac.
    pub ctrl: bool,
    /// Shift.
    pub shift: bool,
    /// The key's name.
    pub key: &'static str,
}

const fn plain(key: &'static str) -> Shortcut {
    Shortcut { ctrl: false, shift: false, key }
}

const fn ctrl(key: &'static str) -> Shortcut {
    Shortcut { ctrl: true, shift: false, key }
}

const fn ctrl_shift(key: &'static str) -> Shortcut {
    Shortcut { ctrl: true, shift: true, key }
}

impl Shortcut {
    /// It as a menu shows it: `Ctrl+Shift+O`.
    pub fn text(self) -> String {
        let Self { ctrl, shift, key } = self;
        let signs =
            [("ArrowRight", "Right"), ("ArrowLeft", "Left"), ("Period", "."), ("Plus", "+"), ("Minus", "−")];
        let key = signs.iter().find(|(name, _)| *name == key).map_or(key, |(_, sign)| sign);
        let command = if cfg!(target_os = "macos") { "Cmd+" } else { "Ctrl+" };
        format!("{}{}{key}", if ctrl { command } else { "" }, if shift { "Shift+" } else { "" })
    }
}

/// The menus, from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    /// What opens and closes.
    File,
    /// What changes and takes back.
    Edit,
    /// What moves between images and columns.
    Look,
    /// What begins and ends a training.
    Train,
    /// Which panes are open.
    Panes,
}

impl Menu {
    /// All, in order.
    pub const ALL: &[Self] = &[Self::File, Self::Edit, Self::Look, Self::Train, Self::Panes];

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::Edit => "Edit",
            Self::Look => "View",
            Self::Train => "Train",
            Self::Panes => "Panes",
        }
    }
}

/// What can be chosen from a menu, the palette or by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "`text` and `tooltip` say what each does, to users too")]
pub enum Action {
    OpenBackbone,
    OpenHub,
    OpenProbes,
    OpenRun,
    OpenImages,
    OpenImageFolder,
    OpenDataset,
    AskShown,
    AskAll,
    OpenWorkspace,
    SaveWorkspace,
    SaveWorkspaceAs,
    Quit,
    Undo,
    Redo,
    CancelAll,
    Paste,
    CopyLog,
    Palette,
    NextImage,
    PreviousImage,
    FirstImage,
    LastImage,
    Retry,
    PredictedClass,
    Unpin,
    ToggleShared,
    ToggleDifference,
    ScaleUp,
    ScaleDown,
    ScaleReset,
    Theme,
    ChooseDataset,
    StartTraining,
    PauseTraining,
    StopTraining,
    Arrange,
}

/// The words, place and key of an action.
struct Words {
    menu: Menu,
    text: &'static str,
    tooltip: &'static str,
    shortcut: Option<Shortcut>,
}

impl Action {
    /// All, in the order of menus and palette.
    pub const ALL: &[Self] = &[
        Self::OpenBackbone,
        Self::OpenHub,
        Self::OpenProbes,
        Self::OpenRun,
        Self::OpenImages,
        Self::OpenImageFolder,
        Self::OpenDataset,
        Self::OpenWorkspace,
        Self::SaveWorkspace,
        Self::SaveWorkspaceAs,
        Self::Quit,
        Self::Undo,
        Self::Redo,
        Self::CancelAll,
        Self::Paste,
        Self::CopyLog,
        Self::Palette,
        Self::NextImage,
        Self::PreviousImage,
        Self::FirstImage,
        Self::LastImage,
        Self::Retry,
        Self::AskShown,
        Self::AskAll,
        Self::PredictedClass,
        Self::Unpin,
        Self::ToggleShared,
        Self::ToggleDifference,
        Self::ScaleUp,
        Self::ScaleDown,
        Self::ScaleReset,
        Self::Theme,
        Self::ChooseDataset,
        Self::StartTraining,
        Self::PauseTraining,
        Self::StopTraining,
        Self::Arrange,
    ];

    /// Its menu.
    pub fn menu(self) -> Menu {
        self.words().menu
    }

    /// What a menu and the palette call it.
    pub fn text(self) -> &'static str {
        self.words().text
    }

    /// What it does, in a sentence.
    pub fn tooltip(self) -> &'static str {
        self.words().tooltip
    }

    /// Whether a menu draws a line below it.
    pub fn ends_group(self) -> bool {
        use Action::*;
        matches!(
            self,
            OpenHub
                | OpenRun
                | OpenDataset
                | SaveWorkspaceAs
                | Redo
                | LastImage
                | Retry
                | PredictedClass
                | ToggleDifference
                | ChooseDataset
        )
    }

    /// Its key.
    pub fn shortcut(self) -> Option<Shortcut> {
        self.words().shortcut
    }

    /// Whether it can be chosen now.
    pub fn enabled(self, state: &State) -> bool {
        match self {
            Self::Undo => state.undo_text().is_some(),
            Self::Redo => state.redo_text().is_some(),
            Self::CancelAll => state.jobs.values().any(|job| job.fault.is_none()),
            Self::CopyLog => !state.log.is_empty(),
            Self::NextImage | Self::PreviousImage | Self::FirstImage | Self::LastImage => {
                !state.library.images.is_empty()
            }
            Self::Retry => state.has_failed_columns(),
            Self::AskShown => state.dataset().is_some() && !state.columns.is_empty(),
            Self::AskAll => state.dataset().is_some() && !state.library.probes.is_empty(),
            Self::PredictedClass => state.selection.class != ClassChoice::Predicted,
            Self::Unpin | Self::ToggleDifference => state.selection.reference.is_some(),
            Self::StartTraining => state.training.can_start(),
            Self::PauseTraining | Self::StopTraining => state.training.live.is_some(),
            _ => true,
        }
    }

    /// What choosing it does.
    pub fn effect(self, state: &State) -> Effect {
        let count = state.library.images.len() as isize;
        Effect::Command(match self {
            Self::OpenBackbone => return Effect::Prompt(Prompt::BackboneFolder),
            Self::OpenHub => return Effect::Prompt(Prompt::HubId),
            Self::OpenProbes => return Effect::Prompt(Prompt::ProbeFiles),
            Self::OpenRun => return Effect::Prompt(Prompt::RunFolder),
            Self::OpenImages => return Effect::Prompt(Prompt::ImageFiles),
            Self::OpenImageFolder => return Effect::Prompt(Prompt::ImageFolder),
            Self::OpenDataset => return Effect::Prompt(Prompt::OpenDatasetFolder),
            Self::OpenWorkspace => return Effect::Prompt(Prompt::OpenWorkspace),
            Self::SaveWorkspace => return Effect::Prompt(Prompt::SaveWorkspace),
            Self::SaveWorkspaceAs => return Effect::Prompt(Prompt::SaveWorkspaceAs),
            Self::Quit => return Effect::Prompt(Prompt::Quit),
            Self::Paste => return Effect::Prompt(Prompt::Paste),
            Self::CopyLog => return Effect::Prompt(Prompt::CopyLog),
            Self::Palette => return Effect::Prompt(Prompt::Palette),
            Self::Arrange => return Effect::Prompt(Prompt::Arrange),
            Self::ChooseDataset => return Effect::Prompt(Prompt::DatasetFolder),
            Self::StartTraining => Command::StartTraining,
            Self::PauseTraining => {
                Command::PauseTraining(!state.training.live.as_ref().is_some_and(|live| live.pausing))
            }
            Self::StopTraining => match &state.training.live {
                Some(live) => Command::Cancel(live.job),
                None => Command::PauseTraining(false),
            },
            Self::Undo => Command::Undo,
            Self::Redo => Command::Redo,
            Self::CancelAll => Command::CancelAll,
            Self::NextImage => Command::Step(1),
            Self::PreviousImage => Command::Step(-1),
            Self::FirstImage => Command::Step(-count),
            Self::LastImage => Command::Step(count),
            Self::Retry => Command::Retry,
            Self::AskShown => Command::AskProbes { all: false },
            Self::AskAll => Command::AskProbes { all: true },
            Self::PredictedClass => Command::SetClass(ClassChoice::Predicted),
            Self::Unpin => Command::Pin(None),
            Self::ToggleShared => Command::SetShared(!state.views.shared),
            Self::ToggleDifference => Command::SetDifference(!state.views.difference),
            Self::ScaleUp => Command::SetScale(state.settings.scale * 1.1),
            Self::ScaleDown => Command::SetScale(state.settings.scale / 1.1),
            Self::ScaleReset => Command::SetScale(1.0),
            Self::Theme => Command::SetTheme(match state.settings.theme {
                ThemeChoice::System => ThemeChoice::Light,
                ThemeChoice::Light => ThemeChoice::Dark,
                ThemeChoice::Dark => ThemeChoice::System,
            }),
        })
    }

    #[rustfmt::skip]
    fn words(self) -> Words {
        use Menu::*;
        let (menu, text, tooltip, shortcut) = match self {
            Self::OpenBackbone => (File, "Open backbone folder…", "A folder as the Hugging Face Hub lays it out", Some(ctrl("B"))),
            Self::OpenHub => (File, "Open backbone from the Hub…", "Fetched into the cache shared with Python", Some(ctrl_shift("B"))),
            Self::OpenProbes => (File, "Open probes…", "Probe files (.safetensors)", Some(ctrl("P"))),
            Self::OpenRun => (File, "Open run…", "All probes of a folder", Some(ctrl_shift("P"))),
            Self::OpenImages => (File, "Open images…", "Photographs of any common format", Some(ctrl("O"))),
            Self::OpenImageFolder => (File, "Open folder of images…", "Its subfolders are searched too", Some(ctrl_shift("O"))),
            Self::OpenDataset => (File, "Open dataset…", "A labelled folder of any known layout; probes can be asked about all of it", Some(ctrl_shift("D"))),
            Self::OpenWorkspace => (File, "Open workspace…", "Everything as it was when the file was saved", Some(ctrl_shift("W"))),
            Self::SaveWorkspace => (File, "Save workspace", "Everything open, the layout and the settings", Some(ctrl("S"))),
            Self::SaveWorkspaceAs => (File, "Save workspace as…", "Under another name", Some(ctrl_shift("S"))),
            Self::Quit => (File, "Quit", "End the program", Some(ctrl("Q"))),
            Self::Undo => (Edit, "Undo", "Undo the last close or change", Some(ctrl("Z"))),
            Self::Redo => (Edit, "Redo", "Do again what was undone", Some(ctrl_shift("Z"))),
            Self::CancelAll => (Edit, "Cancel all jobs", "End everything under way", Some(ctrl("Period"))),
            Self::Paste => (Edit, "Paste", "Opens a copied picture, or files that were copied by their paths", Some(ctrl("V"))),
            Self::CopyLog => (Edit, "Copy log", "What was noted and what failed, as text", Some(ctrl_shift("C"))),
            Self::Palette => (Edit, "Find action…", "All actions, by their names", Some(ctrl("K"))),
            Self::NextImage => (Look, "Next image", "The one after the current one", Some(plain("ArrowRight"))),
            Self::PreviousImage => (Look, "Previous image", "The one before the current one", Some(plain("ArrowLeft"))),
            Self::FirstImage => (Look, "First image", "The first of the library", Some(plain("Home"))),
            Self::LastImage => (Look, "Last image", "The last of the library", Some(plain("End"))),
            Self::Retry => (Look, "Retry", "Try again what failed", Some(ctrl("R"))),
            Self::AskShown => (Look, "Evaluate shown probes on the dataset", "Every image of it, through every column", Some(ctrl("J"))),
            Self::AskAll => (Look, "Evaluate all probes on the dataset", "Every image of it, through every probe that fits", Some(ctrl_shift("J"))),
            Self::PredictedClass => (Look, "Evidence for the predicted class", "Each probe for its own", Some(ctrl("E"))),
            Self::Unpin => (Look, "Unpin the reference", "Compare with no column", Some(ctrl("U"))),
            Self::ToggleShared => (Look, "Share limits between columns", "The same colour means the same value everywhere", Some(ctrl("L"))),
            Self::ToggleDifference => (Look, "Show differences from the reference", "What each column has more or less than the pinned one", Some(ctrl("D"))),
            Self::ScaleUp => (Look, "Zoom in", "Everything in the window", Some(ctrl("Plus"))),
            Self::ScaleDown => (Look, "Zoom out", "Everything in the window", Some(ctrl("Minus"))),
            Self::ScaleReset => (Look, "Reset zoom", "As the system has it", Some(ctrl("0"))),
            Self::Theme => (Look, "Change theme", "As the system has it, light, dark", Some(ctrl("T"))),
            Self::ChooseDataset => (Train, "Choose dataset…", "Labelled images for the next training", Some(ctrl_shift("T"))),
            Self::StartTraining => (Train, "Start training", "As planned in the Training pane", Some(ctrl("Enter"))),
            Self::PauseTraining => (Train, "Pause training, or go on", "Images are looked at meanwhile", Some(ctrl_shift("Space"))),
            Self::StopTraining => (Train, "Stop training and keep", "It is saved, and can go on later", Some(ctrl_shift("Period"))),
            Self::Arrange => (Panes, "Reset layout", "Every pane open, where it was on the first day", Some(ctrl_shift("0"))),
        };
        Words { menu, text, tooltip, shortcut }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_action_has_words_and_no_two_share_a_key() {
        let (mut texts, mut keys) = (HashSet::new(), HashSet::new());
        for action in Action::ALL {
            assert!(texts.insert(action.text()), "{action:?}");
            assert!(!action.tooltip().is_empty() && !action.text().ends_with('.'));
            assert!(action.shortcut().is_none_or(|key| keys.insert(key)), "{action:?}");
            let shortcut = action.shortcut();
            assert!(shortcut.is_none_or(|s| eframe::egui::Key::from_name(s.key).is_some()), "{action:?}");
        }
        assert!(Menu::ALL.iter().all(|menu| Action::ALL.iter().any(|action| action.menu() == *menu)));
    }
}
