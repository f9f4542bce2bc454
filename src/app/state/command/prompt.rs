//! What only the window can do: ask for files, show a dialog, talk to the desktop.

/// What an action asks of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Ask for files.
    Files(FilePrompt),
    /// Write a note on what is shown, then [`Command::KeepFinding`](super::Command::KeepFinding).
    KeepFinding,
    /// Choose what goes into a page or a folder, then [`Command::Share`](super::Command::Share).
    Share,
    /// Type an id of the Hub, then [`Command::OpenBackbone`](super::Command::OpenBackbone).
    HubId,
    /// Choose who computes.
    Connect,
    /// Show the palette of all actions.
    Palette,
    /// Arrange the panes as at first.
    Arrange,
    /// Choose a figure to export.
    Export,
    /// Open the demo in the place of all that is open.
    Demo,
    /// Show the pane of trainings.
    Training,
    /// Say what the program is.
    About,
    /// Be led through the demo.
    Tour,
    /// Say what the numbers mean.
    Definitions,
    /// Say which keys there are.
    Shortcuts,
    /// Copy the log as text.
    CopyLog,
    /// Open what the clipboard holds.
    Paste,
    /// End the program.
    Quit,
}

/// What files are asked for.
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
    /// Where to save the workspace; not asked if it was saved before.
    SaveWorkspace,
    /// Where to save the workspace.
    SaveWorkspaceAs,
    /// An order file, for [`Command::SetChange`](super::Command::SetChange).
    OpenOrder,
    /// Where to save the order that a person made.
    SaveOrder,
}

impl From<FilePrompt> for Prompt {
    fn from(prompt: FilePrompt) -> Self {
        Self::Files(prompt)
    }
}
