//! The menus, and keyboard shortcuts.

/// The menus, from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Opening, saving and exporting.
    File,
    /// Undo, jobs, clipboard and the palette.
    Edit,
    /// Images, columns, evaluation and appearance.
    View,
    /// Training.
    Train,
    /// Which panes are open.
    Panes,
    /// Documentation.
    Help,
}

impl Menu {
    /// All menus, in order.
    pub const ALL: &[Self] = &[Self::File, Self::Edit, Self::View, Self::Train, Self::Panes, Self::Help];

    /// Its title in the menu bar.
    pub fn text(self) -> &'static str {
        match self {
            Self::File => "File",
            Self::Edit => "Edit",
            Self::View => "View",
            Self::Train => "Train",
            Self::Panes => "Panes",
            Self::Help => "Help",
        }
    }
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

pub(super) const fn plain(key: &'static str) -> Shortcut {
    Shortcut { ctrl: false, shift: false, key }
}

pub(super) const fn ctrl(key: &'static str) -> Shortcut {
    Shortcut { ctrl: true, shift: false, key }
}

pub(super) const fn ctrl_shift(key: &'static str) -> Shortcut {
    Shortcut { ctrl: true, shift: true, key }
}

impl Shortcut {
    /// As a menu shows it: `Ctrl+Shift+O`.
    pub fn text(self) -> String {
        let Self { ctrl, shift, key } = self;
        let signs = [
            ("ArrowRight", "Right"),
            ("ArrowLeft", "Left"),
            ("Period", "."),
            ("Comma", ","),
            ("Plus", "+"),
            ("Minus", "−"),
        ];
        let key = signs.iter().find(|(name, _)| *name == key).map_or(key, |(_, sign)| sign);
        let command = if cfg!(target_os = "macos") { "Cmd+" } else { "Ctrl+" };
        format!("{}{}{key}", if ctrl { command } else { "" }, if shift { "Shift+" } else { "" })
    }
}
