//! What is brought into sight by itself: of the panes those that have something to show. A group without any gives its room to the others; a group whose front tab has
//! none brings one forward that has.

use std::collections::HashMap;

use egui_tiles::{Container, Tile, TileId, Tiles, Tree};

use super::tiles::Pane;
use crate::app::window::panels::{Panel, PanelContext};

/// What was in sight, so that nothing moves while it stays the same.
#[derive(Default)]
pub struct AutoTabs {
    /// Every panel that may have nothing to show, and whether it has.
    shows: Vec<(&'static str, bool)>,
    /// The panel that a person asked for: it is seen, empty or not.
    asked: Option<String>,
    /// Tabs that gave way to another of their group.
    behind: HashMap<TileId, TileId>,
}

impl AutoTabs {
    /// Keeps a panel in sight until something else is looked at.
    pub fn ask(&mut self, panel: &str) {
        self.asked = Some(panel.to_owned());
    }

    /// Hides groups of panes that have nothing to show, and shows those again that have.
    pub fn arrange(&mut self, tree: &mut Tree<Pane>, panels: &[Box<dyn Panel>], cx: &PanelContext<'_>) {
        let shows = panels.iter().filter_map(|panel| Some((panel.id(), panel.has_content(cx)?))).collect();
        let moved = self.shows != shows;
        if moved {
            self.asked = self.asked.take().filter(|_| self.shows.is_empty());
            self.shows = shows;
        }
        let Some(root) = tree.root() else { return };
        let pages = match tree.tiles.get(root) {
            Some(Tile::Container(Container::Tabs(tabs))) => tabs.children.clone(),
            _ => vec![root],
        };
        for page in pages {
            let mut groups = Vec::new();
            self.groups(&tree.tiles, page, &mut groups);
            let seen: Vec<bool> = groups.iter().map(|(_, panes)| self.has(panes)).collect();
            let none = !seen.contains(&true);
            for (at, ((group, panes), seen)) in groups.into_iter().zip(seen).enumerate() {
                tree.tiles.set_visible(group, seen || (none && at == 0));
                if moved {
                    self.front(&mut tree.tiles, group, &panes);
                }
            }
        }
    }

    /// Whether one of the panes has something to show, or was asked for.
    fn has(&self, panes: &[(TileId, String)]) -> bool {
        panes.iter().any(|(_, id)| self.shown(id) == Some(true) || self.asked.as_ref() == Some(id))
    }

    /// Whether a panel has something to show; absent for those that always have.
    fn shown(&self, id: &str) -> Option<bool> {
        self.shows.iter().find(|(known, _)| *known == id).map(|(_, shows)| *shows)
    }

    /// The groups of tabs below `tile` all of whose panes may have nothing to show.
    fn groups(&self, tiles: &Tiles<Pane>, tile: TileId, found: &mut Vec<(TileId, Vec<(TileId, String)>)>) {
        let Some(Tile::Container(container)) = tiles.get(tile) else { return };
        if let Container::Tabs(tabs) = container {
            let pane = |child: &TileId| match tiles.get(*child) {
                Some(Tile::Pane(Pane(id))) if self.shown(id).is_some() => Some((*child, id.clone())),
                _ => None,
            };
            if let Some(panes) = tabs.children.iter().map(pane).collect::<Option<Vec<_>>>() {
                return found.push((tile, panes));
            }
        }
        container.children().for_each(|child| self.groups(tiles, *child, found));
    }

    /// Brings a tab forward that has something to show, where the front one has not; and that one again
    /// once it has.
    fn front(&mut self, tiles: &mut Tiles<Pane>, group: TileId, panes: &[(TileId, String)]) {
        let shows = |tile: TileId| panes.iter().any(|(t, id)| *t == tile && self.shown(id) == Some(true));
        let Some(Tile::Container(Container::Tabs(tabs))) = tiles.get_mut(group) else { return };
        let Some(active) = tabs.active else { return };
        if let Some(back) = self.behind.get(&group).copied().filter(|back| shows(*back)) {
            tabs.set_active(back);
            self.behind.remove(&group);
        } else if !shows(active)
            && let Some((other, _)) = panes.iter().find(|(tile, _)| shows(*tile))
        {
            tabs.set_active(*other);
            self.behind.entry(group).or_insert(active);
        }
    }
}
