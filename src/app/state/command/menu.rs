//! The menus, and keyboard shortcuts.

listed! {
    /// The menus, from left to right.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Menu {
        /// Opening, saving and exporting.
        File: "File";
        /// Undo, jobs, clipboard and the palette.
        Edit: "Edit";
        /// Images, columns, evaluation and appearance.
        View: "View";
        /// Training.
        Train: "Train";
        /// Which panes are open.
        Panes: "Panes";
        /// Documentation.
        Help: "Help";
    }
}

/// The name of the key Ctrl, for which keyboards of a Mac have another.
pub const CTRL: &str = if cfg!(target_os = "macos") { "Cmd" } else { "Ctrl" };

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
    /// `text`, and in brackets the `key` if there is one.
    pub fn after(text: &str, key: Option<Self>) -> String {
        key.map_or_else(|| text.to_owned(), |key| format!("{text} ({})", key.text()))
    }

    /// As a menu shows it: `Ctrl+Shift+O`. A period and a comma are written out, as the signs are hard to see in small type.
    pub fn text(self) -> String {
        let Self { ctrl, shift, key } = self;
        let signs = [("ArrowRight", "Right"), ("ArrowLeft", "Left"), ("Plus", "+"), ("Minus", "−")];
        let key = signs.iter().find(|(name, _)| *name == key).map_or(key, |(_, sign)| sign);
        let ctrl = if ctrl { format!("{CTRL}+") } else { String::new() };
        format!("{ctrl}{}{key}", if shift { "Shift+" } else { "" })
    }
}
