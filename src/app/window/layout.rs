//! The layout of the panes; every change of it is a command that can be undone.

use std::collections::HashSet;
use std::time::Duration;

use eframe::egui;
use egui::Ui;
use egui_tiles::{Container, EditAction, Tile, Tree};
use serde_json::{Value, json};

use super::auto_tabs::AutoTabs;
use super::tiles::{self, Pane, Panes, SizeClass};
use crate::app::state::command::Command;
use crate::app::window::panels::{Panel, PanelContext, placeholder};
use crate::viz::FIGURES;

/// Deepest nesting of tiles that is loaded: no person splits a pane as often, and drawing recurses as deep.
const MAX_DEPTH: usize = 32;
/// The field of a stored layout for the room that the initial one is for.
const INITIAL_FOR: &str = "initial_for";

/// Seconds for which a restored initial layout waits for the room that it is for: a new window may still be maximised.
const TIMEOUT: f64 = 0.5;

/// The panes in the middle of the window.
pub struct Layout {
    tree: Tree<Pane>,
    /// Whether it is still the initial layout, which depends on the window's size.
    is_first: bool,
    /// The room that it is for.
    room: SizeClass,
    /// Until when it waits for that room, in seconds, if it was restored; infinite before the first frame.
    waits: Option<f64>,
    /// A pane that was requested, until its tab has been scrolled to.
    reveal: Option<Pane>,
    /// Changes that the state has not been sent yet.
    changes: Vec<Command>,
    /// What the last of them led to, until the state has it.
    made: Option<Value>,
    /// The layout before the edge that is being dragged was grabbed.
    resized: Option<Tree<Pane>>,
    /// The state's count of layout changes that was last applied.
    applied: u64,
    auto_tabs: AutoTabs,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            tree: tiles::initial(SizeClass::default()),
            is_first: true,
            room: SizeClass::default(),
            waits: None,
            reveal: None,
            changes: Vec::new(),
            made: None,
            resized: None,
            applied: 0,
            auto_tabs: AutoTabs::default(),
        }
    }
}

impl Layout {
    /// The layout as a finding keeps it.
    pub fn value(&self) -> Value {
        value(&self.tree)
    }

    /// The layout as a workspace or an undo step stores it: the initial one with the room that it is for, as it follows that afterwards
    /// too.
    pub fn stored(&self) -> Value {
        self.store(&self.tree)
    }

    fn store(&self, tree: &Tree<Pane>) -> Value {
        let mut stored = value(tree);
        if self.is_first {
            stored[INITIAL_FOR] = json!(self.room);
        }
        stored
    }

    /// Sets the layout to one that was kept; ignores a value that is no valid layout.
    pub fn set_value(&mut self, kept: &Value) {
        if let Some(tree) = from_kept(kept).filter(|tree| *tree != self.tree) {
            let room = serde_json::from_value(kept[INITIAL_FOR].clone()).ok();
            (self.tree, self.is_first) = (tree, room.is_some());
            self.room = room.unwrap_or(self.room);
            self.waits = room.map(|_| f64::INFINITY);
        }
    }

    /// Whether a panel has a pane.
    pub fn is_open(&self, panel: &str) -> bool {
        tiles::open(&self.tree, panel)
    }

    /// Shows the pane of a panel, opening it where it was closed.
    pub fn show(&mut self, panel: &dyn Panel) {
        self.auto_tabs.request(panel.id());
        self.reveal = Some(Pane(panel.id().to_owned()));
        if self.is_open(panel.id()) {
            return tiles::show(&mut self.tree, panel.id()); // activating a tab is no change of the layout
        }
        self.change(format!("Open the pane {}", panel.title()), |tree| tiles::show(tree, panel.id()));
    }

    /// Activates the page with the figures of the focused probe, unless the active page shows something of
    /// that probe already.
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

    /// Restores the initial layout.
    pub fn reset(&mut self) {
        let before = std::mem::replace(&mut self.tree, tiles::initial(self.room));
        self.auto_tabs.reset();
        self.record("Reset layout".to_owned(), &before, true);
    }

    fn change(&mut self, text: String, edit: impl FnOnce(&mut Tree<Pane>)) {
        let before = self.tree.clone();
        edit(&mut self.tree);
        self.record(text, &before, false);
    }

    /// Records the change since `before` as a command, if there is any. `is_first`: whether it led to the initial layout.
    fn record(&mut self, text: String, before: &Tree<Pane>, is_first: bool) {
        if *before != self.tree {
            let before = self.store(before);
            self.is_first = is_first;
            let after = self.stored();
            self.made = Some(after.clone());
            self.changes.push(Command::Arrange { text, before, after });
        }
        self.is_first |= is_first;
    }

    /// Takes the changes since the last call.
    pub fn take_changes(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.changes)
    }

    /// Draws the panes, after applying any undo or redo of the layout.
    pub fn ui(&mut self, ui: &mut Ui, panels: &mut [Box<dyn Panel>], cx: &mut PanelContext<'_>) {
        if std::mem::replace(&mut self.applied, cx.state.arranged) != cx.state.arranged {
            self.set_value(&cx.state.layout);
            if self.made.take_if(|made| *made == cx.state.layout).is_none() {
                self.auto_tabs.reset(); // what is in front of one that comes back may have lost its content since
            }
            self.waits = None; // the window has its size
        }
        let room = SizeClass::from_size(ui.available_size());
        if !self.waits(ui, room) {
            if room != self.room && self.is_first {
                let page = tiles::pane_of_page(&self.tree);
                self.tree = tiles::initial(room);
                tiles::show_page(&mut self.tree, |_| false, |id| page.as_deref() == Some(id));
                self.auto_tabs.reset();
            }
            self.room = room;
        }
        if self.tree.is_empty() {
            return placeholder::empty(ui, "All panes are closed; open them again from the Panes menu");
        }
        self.auto_tabs.arrange(&mut self.tree, panels, cx);
        let before = self.tree.clone();
        let dragged = self.tree.dragged_id(ui.ctx());
        let (reveal, pages) = (self.reveal.take(), tiles::pages(&self.tree));
        let mut panes = Panes { panels, cx, reveal, pages, closed: None, edited: None };
        self.tree.ui(&mut panes, ui);
        let Panes { closed, edited, .. } = panes;
        match edited {
            Some(EditAction::TileResized) => {
                self.resized.get_or_insert(before);
            }
            Some(EditAction::TileDropped) => {
                let what = dragged.and_then(|tile| title(&before, tile, panels));
                self.record(format!("Move {}", what.unwrap_or_else(|| "panes".to_owned())), &before, false);
            }
            _ => {}
        }
        // A drag of an edge is one step to undo, recorded when the button is released.
        if let Some(before) = self.resized.take_if(|_| !ui.input(|i| i.pointer.any_down())) {
            self.record("Resize panes".to_owned(), &before, false);
        }
        let closed = closed.and_then(|id| panels.iter().find(|panel| panel.id() == id));
        closed.into_iter().for_each(|panel| self.close(&**panel));
    }

    /// Whether it still waits for its room.
    fn waits(&mut self, ui: &Ui, room: SizeClass) -> bool {
        let now = ui.input(|input| input.time);
        let until = self.waits.map(|until| until.min(now + TIMEOUT));
        self.waits = until.filter(|until| self.is_first && room != self.room && now < *until);
        if let Some(until) = self.waits {
            ui.ctx().request_repaint_after(Duration::from_secs_f64(until - now));
        }
        self.waits.is_some()
    }
}

/// The tiles of a layout that was kept; `None` if it is no valid one.
fn from_kept(kept: &Value) -> Option<Tree<Pane>> {
    serde_json::from_value(kept.clone()).ok().filter(is_valid)
}

/// Whether the tiles form a tree no deeper than [`MAX_DEPTH`]: none contains itself or lies in two places.
fn is_valid(tree: &Tree<Pane>) -> bool {
    let mut seen = HashSet::new();
    let mut open: Vec<_> = tree.root().into_iter().map(|root| (root, 1)).collect();
    while let Some((tile, depth)) = open.pop() {
        if depth > MAX_DEPTH || !seen.insert(tile) {
            return false;
        }
        if let Some(Tile::Container(container)) = tree.tiles.get(tile) {
            open.extend(container.children().map(|child| (*child, depth + 1)));
        }
    }
    true
}

/// The ids of the panes that a kept layout shows: of tabs, the one in front.
pub fn shown(kept: &Value) -> Vec<String> {
    let Some(tree) = from_kept(kept) else { return Vec::new() };
    let (mut tiles, mut shown) = (Vec::from_iter(tree.root()), Vec::new());
    while let Some(tile) = tiles.pop() {
        match tree.tiles.get(tile) {
            Some(Tile::Pane(pane)) => shown.push(pane.0.clone()),
            Some(Tile::Container(Container::Tabs(tabs))) => {
                tiles.extend(tabs.active.filter(|front| tabs.children.contains(front)));
            }
            Some(Tile::Container(container)) => tiles.extend(container.children()),
            None => {}
        }
    }
    shown
}

fn value(tree: &Tree<Pane>) -> Value {
    serde_json::to_value(tree).unwrap_or_default()
}

/// `the pane Ranks`; `None` for a group of panes.
fn title(tree: &Tree<Pane>, tile: egui_tiles::TileId, panels: &[Box<dyn Panel>]) -> Option<String> {
    let Some(Tile::Pane(Pane(id))) = tree.tiles.get(tile) else { return None };
    let panel = panels.iter().find(|panel| panel.id() == id)?;
    Some(format!("the pane {}", panel.title()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_whose_tiles_lie_in_themselves_in_two_places_or_too_deep_changes_nothing() {
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
            layout.set_value(kept);
            layout.value() != first
        };
        assert!(changes(&chain(MAX_DEPTH)) && !changes(&chain(MAX_DEPTH + 1)) && !changes(&chain(100_000)));
        let mut circle = chain(3);
        circle["tiles"]["tiles"]["2"]["Container"]["Tabs"]["children"] = json!([3, 1]);
        assert!(!changes(&circle));
        assert!(shown(&circle).is_empty());
        let mut twice = chain(3);
        twice["tiles"]["tiles"]["1"]["Container"]["Tabs"]["children"] = json!([2, 3]);
        assert!(!changes(&twice));
        let mut front = chain(3);
        front["tiles"]["tiles"]["2"]["Container"]["Tabs"]["active"] = json!(2);
        assert!(shown(&front).is_empty(), "a tile in front of itself");
    }

    #[test]
    fn a_layout_that_is_reset_follows_the_room_again_even_if_no_pane_moves() {
        let mut layout = Layout { is_first: false, ..Layout::default() };
        layout.reset();
        assert!(layout.is_first && layout.take_changes().is_empty());
    }

    #[test]
    fn a_kept_layout_shows_what_is_in_front() {
        let mut tree = tiles::initial(SizeClass::Ample);
        let shown_by = |tree: &Tree<Pane>| shown(&value(tree));
        let first = shown_by(&tree);
        assert_eq!(first.len(), 6, "one of each group: {first:?}");
        assert!(first.iter().any(|id| id == "evidence") && !first.iter().any(|id| id == "scatter"));
        tiles::show(&mut tree, "compare");
        assert_eq!(shown_by(&tree), ["compare"]);
        assert!(shown(&Value::Null).is_empty());
    }
}
