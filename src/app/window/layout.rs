//! Where the panes are, and every change of it as a step that can be taken back.

use std::collections::HashSet;

use eframe::egui;
use egui::Ui;
use egui_tiles::{EditAction, Tile, Tree};
use serde_json::Value;

use super::auto_tabs::AutoTabs;
use super::tiles::{self, Pane, Panes, Room};
use crate::app::state::State;
use crate::app::state::command::Command;
use crate::app::window::panels::{Panel, PanelContext, placeholder};
use crate::viz::FIGURES;

/// How many tiles may lie within each other: nobody splits a pane as often, and whoever draws them goes as deep.
const DEEPEST: usize = 32;

/// The panes in the middle.
pub struct Layout {
    tree: Tree<Pane>,
    /// Whether it is the first one still, which follows the room there is.
    is_first: bool,
    /// The room there was when it was drawn last.
    room: Room,
    /// The pane that was asked for, until its tab is in sight.
    reveal: Option<Pane>,
    /// Changes the state has not heard of.
    told: Vec<Command>,
    /// As it stood before the edge was taken that is dragged now.
    resized: Option<Tree<Pane>>,
    /// How often the state had changed it when it was last looked at.
    seen: u64,
    auto_tabs: AutoTabs,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            tree: tiles::first(Room::default()),
            is_first: true,
            room: Room::default(),
            reveal: None,
            told: Vec::new(),
            resized: None,
            seen: 0,
            auto_tabs: AutoTabs::default(),
        }
    }
}

impl Layout {
    /// As a workspace keeps it.
    pub fn value(&self) -> Value {
        value(&self.tree)
    }

    /// Puts what a workspace kept in its place; what is no layout changes nothing.
    pub fn put(&mut self, kept: &Value) {
        if let Ok(tree) = serde_json::from_value::<Tree<Pane>>(kept.clone())
            && tree != self.tree
            && ends(&tree)
        {
            self.tree = tree;
            self.is_first = false;
        }
    }

    /// Whether a panel has a pane.
    pub fn is_open(&self, panel: &str) -> bool {
        tiles::open(&self.tree, panel)
    }

    /// Shows the pane of a panel, opening it where it was closed.
    pub fn show(&mut self, panel: &dyn Panel) {
        self.auto_tabs.ask(panel.id());
        self.reveal = Some(Pane(panel.id().to_owned()));
        if self.is_open(panel.id()) {
            return tiles::show(&mut self.tree, panel.id()); // a tab that is chosen is no change
        }
        self.change(format!("Open the pane {}", panel.title()), |tree| tiles::show(tree, panel.id()));
    }

    /// Brings forward what is seen of the probe that is looked through: its figures, unless the page in
    /// front shows something of it already.
    pub fn show_probe(&mut self, panels: &[Box<dyn Panel>]) {
        let shows = |id: &str| panels.iter().any(|panel| panel.id() == id && panel.shows_probe());
        let is_figure = |id: &str| FIGURES.iter().any(|figure| figure.id() == id);
        tiles::show_page(&mut self.tree, shows, is_figure);
    }

    /// Closes the pane of a panel.
    pub fn close(&mut self, panel: &dyn Panel) {
        let close = |tree: &mut Tree<Pane>| tiles::close(tree, panel.id());
        self.change(format!("Close the pane {}", panel.title()), close);
    }

    /// As at first.
    pub fn reset(&mut self) {
        let room = self.room;
        self.change("Reset layout".to_owned(), |tree| *tree = tiles::first(room));
        self.is_first = true;
    }

    fn change(&mut self, text: String, edit: impl FnOnce(&mut Tree<Pane>)) {
        let before = self.tree.clone();
        edit(&mut self.tree);
        self.tell(text, &before);
    }

    fn tell(&mut self, text: String, before: &Tree<Pane>) {
        if *before != self.tree {
            self.is_first = false;
            self.told.push(Command::Arrange { text, before: value(before), after: self.value() });
        }
    }

    /// What was changed since it was last asked.
    pub fn told(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.told)
    }

    /// Draws it; as it was once, where that was taken back.
    pub fn ui(&mut self, ui: &mut Ui, panels: &mut [Box<dyn Panel>], cx: &mut PanelContext<'_>) {
        self.follow(cx.state);
        let room = Room::of(ui.available_size());
        if room != self.room && self.is_first {
            self.tree = tiles::first(room);
        }
        self.room = room;
        if self.tree.is_empty() {
            return placeholder::empty(ui, "All panes are closed; the menu Panes opens them again");
        }
        self.auto_tabs.arrange(&mut self.tree, panels, cx);
        let before = self.tree.clone();
        let dragged = self.tree.dragged_id(ui.ctx());
        let mut panes = Panes { panels, cx, reveal: self.reveal.take(), closed: None, edited: None };
        self.tree.ui(&mut panes, ui);
        let Panes { closed, edited, .. } = panes;
        match edited {
            Some(EditAction::TileResized) => {
                self.resized.get_or_insert(before);
            }
            Some(EditAction::TileDropped) => {
                let what = dragged.and_then(|tile| title(&before, tile, panels));
                self.tell(format!("Move {}", what.unwrap_or_else(|| "panes".to_owned())), &before);
            }
            _ => {}
        }
        // The whole way of an edge is one step.
        if let Some(before) = self.resized.take_if(|_| !ui.input(|i| i.pointer.any_down())) {
            self.tell("Resize panes".to_owned(), &before);
        }
        let closed = closed.and_then(|id| panels.iter().find(|panel| panel.id() == id));
        closed.into_iter().for_each(|panel| self.close(&**panel));
    }

    /// Takes what was taken back or done again.
    fn follow(&mut self, state: &State) {
        if self.seen != state.arranged {
            self.seen = state.arranged;
            self.put(&state.layout);
        }
    }
}

/// Whether every way down from the root comes to an end: no tile lies in itself, or in two places, or too deep.
fn ends(tree: &Tree<Pane>) -> bool {
    let mut seen = HashSet::new();
    let mut open: Vec<_> = tree.root().into_iter().map(|root| (root, 1)).collect();
    while let Some((tile, depth)) = open.pop() {
        if depth > DEEPEST || !seen.insert(tile) {
            return false;
        }
        if let Some(Tile::Container(container)) = tree.tiles.get(tile) {
            open.extend(container.children().map(|child| (*child, depth + 1)));
        }
    }
    true
}

fn value(tree: &Tree<Pane>) -> Value {
    serde_json::to_value(tree).unwrap_or_default()
}

/// `the pane Ranks`; nothing for a group of panes.
fn title(tree: &Tree<Pane>, tile: egui_tiles::TileId, panels: &[Box<dyn Panel>]) -> Option<String> {
    let Some(Tile::Pane(Pane(id))) = tree.tiles.get(tile) else { return None };
    let panel = panels.iter().find(|panel| panel.id() == id)?;
    Some(format!("the pane {}", panel.title()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_layout_whose_tiles_lie_in_themselves_or_too_deep_changes_nothing() {
        let first = Layout::default().value();
        let chain = |length: usize| {
            let within = |at: usize| json!({"Container": {"Tabs": {"children": [at + 1], "active": at + 1}}});
            let tiles = (1..length).map(|at| (at.to_string(), within(at)));
            let pane = (length.to_string(), json!({"Pane": "picture"}));
            let mut chain = first.clone();
            chain["root"] = json!(1);
            chain["tiles"]["tiles"] = tiles.chain([pane]).collect();
            chain
        };
        let changes = |kept: &Value| {
            let mut layout = Layout::default();
            layout.put(kept);
            layout.value() != first
        };
        assert!(changes(&chain(DEEPEST)) && !changes(&chain(DEEPEST + 1)) && !changes(&chain(100_000)));
        let mut circle = chain(3);
        circle["tiles"]["tiles"]["2"]["Container"]["Tabs"]["children"] = json!([3, 1]);
        assert!(!changes(&circle));
    }
}
