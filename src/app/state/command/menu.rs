//! The menus, what an entry of one consists of, and keyboard shortcuts.

use super::{Command, Prompt};
use crate::app::state::State;

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

/// What an action does.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A command for the state.
    Command(Command),
    /// A request to the window.
    Prompt(Prompt),
}

/// The properties of an action.
pub(super) struct Spec {
    pub menu: Menu,
    pub text: &'static str,
    pub tooltip: &'static str,
    pub shortcut: Option<Shortcut>,
    pub synonyms: &'static str,
    pub line_below: bool,
    enabled: fn(&State) -> bool,
    /// What is missing while it is not enabled.
    pub missing: &'static str,
    source: EffectSource,
}

/// How an action's effect follows from the state.
enum EffectSource {
    Command(fn(&State) -> Command),
    /// A command; while there is none, the action is not enabled.
    PossibleCommand(fn(&State) -> Option<Command>),
    Prompt(Prompt),
}

impl Menu {
    /// An action of this menu that prompts the window.
    pub(super) fn asks(self, text: &'static str, tooltip: &'static str, prompt: impl Into<Prompt>) -> Spec {
        self.action(text, tooltip, EffectSource::Prompt(prompt.into()))
    }

    /// An action of this menu that dispatches a command.
    pub(super) fn gives(
        self,
        text: &'static str,
        tooltip: &'static str,
        command: fn(&State) -> Command,
    ) -> Spec {
        self.action(text, tooltip, EffectSource::Command(command))
    }

    /// An action of this menu that dispatches `command` and is enabled while there is one; `missing` says why there is none.
    pub(super) fn gives_if(
        self,
        text: &'static str,
        tooltip: &'static str,
        missing: &'static str,
        command: fn(&State) -> Option<Command>,
    ) -> Spec {
        Spec { missing, ..self.action(text, tooltip, EffectSource::PossibleCommand(command)) }
    }

    fn action(self, text: &'static str, tooltip: &'static str, source: EffectSource) -> Spec {
        let (shortcut, synonyms, line_below, missing) = (None, "", false, "");
        Spec { menu: self, text, tooltip, shortcut, synonyms, line_below, enabled: |_| true, missing, source }
    }
}

impl Spec {
    pub fn key(self, shortcut: Shortcut) -> Self {
        Self { shortcut: Some(shortcut), ..self }
    }

    /// Enabled while `enabled` holds; while it does not, `missing` says why.
    pub fn when(self, missing: &'static str, enabled: fn(&State) -> bool) -> Self {
        Self { enabled, missing, ..self }
    }

    pub fn also(self, synonyms: &'static str) -> Self {
        Self { synonyms, ..self }
    }

    pub fn line_below(self) -> Self {
        Self { line_below: true, ..self }
    }

    /// The effect in a state; `None` while the action is not enabled.
    pub fn effect(self, state: &State) -> Option<Effect> {
        match self.source {
            _ if !(self.enabled)(state) => None,
            EffectSource::Command(command) => Some(Effect::Command(command(state))),
            EffectSource::PossibleCommand(command) => command(state).map(Effect::Command),
            EffectSource::Prompt(prompt) => Some(Effect::Prompt(prompt)),
        }
    }
}
