//! Actions that only the window can carry out: file dialogs, other dialogs, the clipboard.

/// A request of an action to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the actions of these names say what each does")]
pub enum Prompt {
    Files(FilePrompt),
    /// Write a note on what is shown, then [`Command::KeepFinding`](super::Command::KeepFinding).
    KeepFinding,
    /// Choose what goes into a page or a folder, then [`Command::Share`](super::Command::Share).
    Share,
    /// Type an id of the Hub, then [`Command::OpenBackbone`](super::Command::OpenBackbone).
    HubId,
    Connect,
    Palette,
    /// Pin the token that the shown step reads, or unpin it.
    PinStep,
    /// Reset the layout of the panes.
    Arrange,
    /// Let the window fill the screen without borders, or no longer.
    FullScreen,
    Export,
    /// Open the demo in place of everything that is open.
    Demo,
    Training,
    About,
    /// Start the tour of the demo.
    Tour,
    Definitions,
    Shortcuts,
    CopyLog,
    Paste,
    Quit,
}

/// The files that a dialog asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePrompt {
    /// A backbone's folder, for [`Command::OpenBackbone`](super::Command::OpenBackbone).
    BackboneFolder,
    /// Probe files, for [`Command::OpenProbes`](super::Command::OpenProbes).
    ProbeFiles,
    /// A run's folder, for [`Command::OpenRun`](super::Command::OpenRun).
    RunFolder,
    /// Images, for [`Command::OpenImages`](super::Command::OpenImages).
    ImageFiles,
    /// A folder of images, for the same.
    ImageFolder,
    /// A dataset's folder, for [`Command::OpenDataset`](super::Command::OpenDataset).
    DatasetFolder,
    /// A folder of masks, for [`Command::SetMasks`](super::Command::SetMasks).
    MaskFolder,
    /// A dataset's folder for the next training.
    TrainingData,
    /// A folder for the next run.
    RunOutput,
    /// The folder of token caches.
    CacheFolder,
    /// A workspace file to restore.
    OpenWorkspace,
    /// Where to save the workspace; no dialog if it has a file already.
    SaveWorkspace,
    /// Where to save the workspace.
    SaveWorkspaceAs,
    /// An order file, for [`Command::SetIntervention`](super::Command::SetIntervention).
    OpenOrder,
    /// Where to save the hand-made order.
    SaveOrder,
}

impl From<FilePrompt> for Prompt {
    fn from(prompt: FilePrompt) -> Self {
        Self::Files(prompt)
    }
}
