//! The single list of all actions: text, shortcut, condition and effect. Menus, palette and shortcuts iterate over
//! [`Action::ALL`]. An action either dispatches a [`Command`] to the state, or asks the window for what only it can do
//! ([`Prompt`]).

use super::menu::Menu::{Edit, File, Help, Panes, Train, View};
use super::menu::{Effect, Menu, Shortcut, Spec, ctrl, ctrl_shift, plain};
use super::{Command, FilePrompt, Prompt};
use crate::app::jobs::{ClassChoice, ColumnId};
use crate::app::state::State;
use crate::app::state::settings::ThemeChoice;
use crate::viz::Options;
use crate::viz::figures::scan_path;

/// Generates the enum, [`Action::ALL`] and the `Spec` of each action from one list.
macro_rules! actions {
    ($($name:ident: $spec:expr,)*) => {
        /// What can be chosen from a menu, the palette or by a shortcut.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "`text` and `tooltip` say what each does, to users too")]
        pub enum Action { $($name),* }

        impl Action {
            /// All actions, in the order of menus and palette.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            fn spec(self) -> Spec {
                match self { $(Self::$name => $spec),* }
            }
        }
    };
}

actions! {
    OpenBackbone: File.asks("Open backbone folder…", "A folder in the layout of the Hugging Face Hub",
        FilePrompt::BackboneFolder).key(ctrl("B")),
    OpenHub: File.asks("Open backbone from the Hub…", "Downloaded into the cache shared with Python",
        Prompt::HubId).key(ctrl_shift("B")).also("hugging face download").line_below(),
    OpenProbes: File.asks("Open probes…", "Probe files (.safetensors)", FilePrompt::ProbeFiles).key(ctrl("P")),
    OpenRun: File.asks("Open run…", "All probes in a folder", FilePrompt::RunFolder).key(ctrl_shift("P"))
        .line_below(),
    OpenImages: File.asks("Open images…", "Image files in any common format", FilePrompt::ImageFiles)
        .key(ctrl("O")),
    OpenImageFolder: File.asks("Open folder of images…", "Its subfolders are searched too",
        FilePrompt::ImageFolder).key(ctrl_shift("O")),
    OpenDataset: File.asks("Open dataset…",
        "A labelled folder in any known layout; probes can be evaluated on all of it", FilePrompt::DatasetFolder)
        .key(ctrl_shift("D")),
    OpenMasks: File.asks("Open masks…",
        "A folder of masks named after the images, or a dataset's own regions: masks, parts, boxes", FilePrompt::MaskFolder)
        .also("regions parts segmentation annotations"),
    CloseMasks: File.gives("Close masks", "Go back to the regions that come with the images' datasets",
        |_| Command::SetMasks(None)).when("No masks are open", |state| state.masks.is_some()).also("regions").line_below(),
    OpenWorkspace: File.asks("Open workspace…", "Everything as it was when the file was saved",
        FilePrompt::OpenWorkspace).key(ctrl_shift("W")),
    SaveWorkspace: File.asks("Save workspace", "Everything open, the layout and the settings",
        FilePrompt::SaveWorkspace).key(ctrl("S")),
    SaveWorkspaceAs: File.asks("Save workspace as…", "Under another name", FilePrompt::SaveWorkspaceAs)
        .key(ctrl_shift("S")).line_below(),
    Connect: File.asks("Connect…", "Compute on another machine over ssh, or in a separate process", Prompt::Connect)
        .when("A training is running in this program", |state| !state.training.runs_here())
        .also("remote ssh host server gpu").line_below(),
    Export: File.asks("Export figure…", "Any figure of the shown probe, by name", Prompt::Export)
        .key(ctrl_shift("E")).when("The shown column has no figure yet", |state| state.focused_trace().is_some()).also("save picture svg pdf png"),
    Share: File.asks("Share…", "This image or the findings, as one page for any browser or as a folder of figures", Prompt::Share)
        .when("Open an image first", |state| state.selection.image.is_some() || state.findings.iter().len() > 0)
        .also("export findings html report send link").line_below(),
    OpenDemo: File.asks("Start with the demo", "A backbone, its probes and drawn scenes, in place of what is open",
        Prompt::Demo).also("example").line_below(),
    Quit: File.asks("Quit", "Close the program", Prompt::Quit).key(ctrl("Q")).also("exit close"),
    Undo: Edit.gives("Undo", "Undo the last close or change", |_| Command::Undo).key(ctrl("Z"))
        .when("Nothing to undo", |state| state.undo_text().is_some()),
    Redo: Edit.gives("Redo", "Redo what was undone", |_| Command::Redo).key(ctrl_shift("Z"))
        .when("Nothing to redo", |state| state.redo_text().is_some()).line_below(),
    CancelAll: Edit.gives("Cancel all jobs", "Cancel everything that is running", |_| Command::CancelAll)
        .key(ctrl("Period")).when("Nothing is running", |state| state.jobs.values().any(|job| job.error.is_none())),
    Paste: Edit.asks("Paste", "Open a copied picture, or files by their copied paths",
        Prompt::Paste).key(ctrl("V")),
    CopyLog: Edit.asks("Copy log", "Notes and errors, as text", Prompt::CopyLog)
        .key(ctrl_shift("C")).when("The log is empty", |state| !state.log.is_empty()),
    Palette: Edit.asks("Find action…", "All actions, by name", Prompt::Palette).key(ctrl("K")),
    NextImage: View.gives("Next image", "The one after the current one", |_| Command::Step(1))
        .key(plain("ArrowRight")).when("Open images first", |state| !state.library.images.is_empty()),
    PreviousImage: View.gives("Previous image", "The one before the current one", |_| Command::Step(-1))
        .key(plain("ArrowLeft")).when("Open images first", |state| !state.library.images.is_empty()),
    FirstImage: View.gives("First image", "The first in the gallery", |_| Command::Step(isize::MIN))
        .key(plain("Home")).when("Open images first", |state| !state.library.images.is_empty()),
    LastImage: View.gives("Last image", "The last in the gallery", |_| Command::Step(isize::MAX))
        .key(plain("End")).when("Open images first", |state| !state.library.images.is_empty()),
    StarImage: View.gives_if("Star or unstar image", "The gallery can be filtered to starred images",
        "Open an image first", star).key(plain("S")).also("favourite mark"),
    KeepFinding: View.asks("Keep as finding…", "The image, its probes and how they are shown, with a note, to come back to",
        Prompt::KeepFinding).key(plain("N"))
        .when("Open an image first", |state| state.selection.image.is_some()).also("bookmark note comment remark annotate")
        .line_below(),
    NextStep: View.gives("Next step of the reading", "The token that is read next, marked in every figure",
        |state| step_reading(state, 1)).key(plain("Period"))
        .when("No reading with an order is shown", |state| state.steps() > 0).also("playhead scan"),
    PreviousStep: View.gives("Previous step of the reading", "The token that was read before",
        |state| step_reading(state, -1)).key(plain("Comma"))
        .when("No reading with an order is shown", |state| state.steps() > 0).also("playhead scan"),
    PinStep: View.asks("Pin or unpin the token of this step", "Framed in every figure until Escape; the status bar shows its numbers",
        Prompt::PinStep).key(plain("T"))
        .when("No step of a single reading order is shown", |state| state.token_of_step().is_some()).line_below(),
    EditOrder: View.gives_if("Edit order by hand", "Every sweep reads the patches in your own order: brushed, dragged or drawn in the Reading order pane",
        "No reading with an order is shown", State::edit_order).also("drag brush scan path permutation"),
    OpenOrder: View.asks("Open order…", "An order file: the token read at each step (.npz, .npy, .csv)", FilePrompt::OpenOrder)
        .when("No reading with an order is shown", |state| state.edit_order().is_some()).also("load scan path permutation"),
    SaveOrder: View.asks("Save order…", "The order made by hand, as a NumPy archive or CSV", FilePrompt::SaveOrder)
        .when("The shown column has no order made by hand", has_made_order).also("write scan path permutation").line_below(),
    Retry: View.gives("Retry", "Retry what failed", |_| Command::Retry).key(ctrl("R"))
        .when("Nothing has failed", State::has_failed).also("refresh reload").line_below(),
    EvaluateShown: View.gives("Evaluate shown probes on the dataset", "All of its images, through every column",
        |_| Command::Evaluate { all: false }).key(ctrl("J"))
        .when("It needs a dataset, a shown probe and no running evaluation", |state| can_evaluate(state) && !state.columns.is_empty())
        .also("evaluate accuracy test"),
    EvaluateAll: View.gives("Evaluate all probes on the dataset",
        "All of its images, through every probe that fits", |_| Command::Evaluate { all: true })
        .key(ctrl_shift("J"))
        .when("It needs a dataset, open probes and no running evaluation", |state| can_evaluate(state) && !state.library.probes.is_empty())
        .also("evaluate accuracy test"),
    FindSimilar: View.gives_if("Images like this one", "The dataset's images that the probe reads most alike, first in the gallery",
        "It needs an image of a dataset and a shown probe", find_similar).also("similar nearest neighbours retrieval"),
    PredictedClass: View.gives("Evidence for the predicted class", "Each probe for its own prediction",
        |_| Command::SetClass(ClassChoice::Predicted)).key(ctrl("E"))
        .when("Already chosen", |state| state.selection.follows_true || state.selection.class != ClassChoice::Predicted).line_below(),
    PinShown: View.gives_if("Pin or unpin the shown column", "The others show how far they are from it",
        "The shown column is not in Compare", pin_or_unpin).key(plain("P")),
    Unpin: View.gives("Unpin", "Stop comparing with a column", |_| Command::Pin(None)).key(ctrl("U"))
        .when("No column is pinned", |state| state.selection.reference.is_some()),
    CompareShown: View.gives_if("Add the shown probe to Compare", "Beside the others, on shared scales",
        "No probe is shown, or it is in Compare already", compare_shown).key(ctrl_shift("A")),
    KeepColumn: View.gives_if("Remove the other columns", "Compare keeps only the shown column",
        "The shown column is not in Compare, or alone there",
        |state| compared_focus(state).filter(|_| state.compared().count() > 1).map(Command::KeepColumn)).line_below(),
    ToggleShared: View.gives("Shared scales",
        "The same colour means the same value everywhere", |state| Command::SetShared(!state.views.shared))
        .key(ctrl("L")),
    ToggleDifference: View.gives("Differences from pinned",
        "How each column differs from the pinned one", |state| Command::SetDifference(!state.views.difference))
        .key(ctrl("D")).when("Pin a column first", |state| state.selection.reference.is_some()).line_below(),
    ScaleUp: View.gives("Zoom in", "Everything in the window",
        |state| Command::SetScale(state.settings.scale * 1.1)).key(ctrl("Plus"))
        .also("size font larger smaller"),
    ScaleDown: View.gives("Zoom out", "Everything in the window",
        |state| Command::SetScale(state.settings.scale / 1.1)).key(ctrl("Minus"))
        .also("size font larger smaller"),
    ScaleReset: View.gives("Reset zoom", "Back to the system's size", |_| Command::SetScale(1.0)).key(ctrl("0"))
        .also("size font larger smaller"),
    FullScreen: View.asks("Full screen", "Fill the screen, without borders; again to leave", Prompt::FullScreen)
        .key(plain("F11")).also("presentation projector maximise"),
    Theme: View.gives("Change theme", "System, light, dark", next_theme).key(ctrl("T")),
    ShowTraining: Train.asks("Train probes…", "The pane to set up and follow training runs",
        Prompt::Training).also("fit learn slurm cluster").line_below(),
    ChooseDataset: Train.asks("Choose dataset…", "Labelled images for the next training run",
        FilePrompt::TrainingData).key(ctrl_shift("T")).line_below(),
    StartTraining: Train.gives("Start training", "As planned in the Training pane",
        |_| Command::StartTraining).key(ctrl("Enter"))
        .when("The Training pane has no plan that can start", State::can_start_training),
    PauseTraining: Train.gives_if("Pause or resume training", "Images can still be explained",
        "No training that can be paused is running", |state| {
            let active = state.training.active.as_ref().filter(|run| !run.detached);
            active.map(|run| Command::PauseTraining(!run.pausing))
        }).key(ctrl_shift("Space")),
    StopTraining: Train.gives_if("Stop training and save", "Progress is saved and can be resumed later",
        "No training is running", |state| Some(Command::Cancel(state.training.active.as_ref()?.job)))
        .key(ctrl_shift("Period")),
    Arrange: Panes.asks("Reset layout", "Every pane open, in its original place", Prompt::Arrange)
        .key(ctrl_shift("0")).also("panes default"),
    About: Help.asks("About SSMProbe", "What it is, in two sentences", Prompt::About),
    Tour: Help.asks("Take the tour", "Five steps on the demo", Prompt::Tour).also("tutorial introduction first steps"),
    Definitions: Help.asks("Definitions", "What every number means", Prompt::Definitions)
        .also("glossary formula measure metric"),
    Shortcuts: Help.asks("Keyboard shortcuts", "All keys", Prompt::Shortcuts).key(plain("F1")).also("keys hotkeys"),
}

impl Action {
    /// Its menu.
    pub fn menu(self) -> Menu {
        self.spec().menu
    }

    /// Its text in a menu and in the palette.
    pub fn text(self) -> &'static str {
        self.spec().text
    }

    /// Its tooltip: what it does, in a sentence.
    pub fn tooltip(self) -> &'static str {
        self.spec().tooltip
    }

    /// Further words by which the palette finds it.
    pub fn synonyms(self) -> &'static str {
        self.spec().synonyms
    }

    /// Whether a menu draws a separator below it.
    pub fn ends_group(self) -> bool {
        self.spec().line_below
    }

    /// Its keyboard shortcut.
    pub fn shortcut(self) -> Option<Shortcut> {
        self.spec().shortcut
    }

    /// Its text with its key: `Next image (Right)`.
    pub fn keyed(self) -> String {
        Shortcut::after(self.text(), self.shortcut())
    }

    /// Its tooltip with its key, for a button that does not show the key.
    pub fn keyed_tooltip(self) -> String {
        Shortcut::after(self.tooltip(), self.shortcut())
    }

    /// Whether it is enabled now.
    pub fn enabled(self, state: &State) -> bool {
        self.effect(state).is_some()
    }

    /// Why it is not enabled, in a sentence: for its tooltip then.
    pub fn missing(self) -> &'static str {
        self.spec().missing
    }

    /// Its effect in the current state; `None` while it is not enabled.
    pub fn effect(self, state: &State) -> Option<Effect> {
        self.spec().effect(state)
    }
}

fn star(state: &State) -> Option<Command> {
    let image = state.selection.image?;
    Some(Command::Star(image, !state.is_starred(image)))
}

/// Whether the focused column has a hand-made order.
fn has_made_order(state: &State) -> bool {
    state.focus().is_some_and(|id| state.made_order(id).is_some())
}

fn find_similar(state: &State) -> Option<Command> {
    let is_of_dataset = state.current_image()?.label.is_some();
    let image = state.selection.image.filter(|_| is_of_dataset && state.focus().is_some());
    image.map(Command::FindSimilar)
}

/// Whether a dataset is in use, and no evaluation runs.
fn can_evaluate(state: &State) -> bool {
    state.dataset().is_some() && state.evaluations.job().is_none()
}

/// The focused column, if it is one of the comparison.
fn compared_focus(state: &State) -> Option<ColumnId> {
    state.focus().filter(|id| state.columns[id].compared)
}

fn pin_or_unpin(state: &State) -> Option<Command> {
    let focus = compared_focus(state)?;
    Some(Command::Pin(Some(focus).filter(|id| state.selection.reference != Some(*id))))
}

fn compare_shown(state: &State) -> Option<Command> {
    let probe = state.columns.get(&state.focus()?)?.probe;
    (!state.is_compared(probe)).then(|| Command::Compare(vec![probe]))
}

/// Moves the shown step of the reading by `by`; forward from the end starts at step 1.
fn step_reading(state: &State, by: isize) -> Command {
    let all = state.steps();
    let now = state.views.step().map_or(all, |step| step.min(all));
    let next = if by > 0 && now == all { 1 } else { now.saturating_add_signed(by) };
    let step = Some(next).filter(|next| *next < all);
    let options = Options { step, ..state.views.figure_options(scan_path::ID) };
    Command::SetOptions(scan_path::ID.to_owned(), options)
}

fn next_theme(state: &State) -> Command {
    Command::SetTheme(match state.settings.theme {
        ThemeChoice::System => ThemeChoice::Light,
        ThemeChoice::Light => ThemeChoice::Dark,
        ThemeChoice::Dark => ThemeChoice::System,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_action_has_words_says_why_it_is_disabled_and_no_two_share_a_key() {
        let (mut texts, mut keys) = (HashSet::new(), HashSet::new());
        for action in Action::ALL {
            assert!(texts.insert(action.text()), "{action:?}");
            assert!(!action.tooltip().is_empty() && !action.text().ends_with('.'));
            assert!(action.shortcut().is_none_or(|key| keys.insert(key)), "{action:?}");
            let shortcut = action.shortcut();
            assert!(shortcut.is_none_or(|s| eframe::egui::Key::from_name(s.key).is_some()), "{action:?}");
        }
        let state = State::default();
        for action in Action::ALL.iter().filter(|action| !action.enabled(&state)) {
            let missing = action.missing();
            assert!(
                missing.starts_with(char::is_uppercase) && !missing.ends_with('.'),
                "{action:?}: {missing}"
            );
        }
        let keyed = [Action::NextImage, Action::NextStep, Action::Connect].map(Action::keyed);
        assert_eq!(keyed, ["Next image (Right)", "Next step of the reading (Period)", "Connect…"]);
        assert_eq!(Action::PinShown.keyed_tooltip(), "The others show how far they are from it (P)");
        assert!(Menu::ALL.iter().all(|menu| Action::ALL.iter().any(|action| action.menu() == *menu)));
    }
}
