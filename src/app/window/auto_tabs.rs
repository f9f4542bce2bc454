//! Shows panes that have content without being told to: a tab group in which no pane has any is hidden; one whose
//! active tab has none activates a tab that has.

use std::collections::HashMap;

use egui_tiles::{Container, Tile, TileId, Tiles, Tree};

use super::tiles::{self, Pane};
use crate::app::window::panels::{Panel, PanelContext};

/// Which panels had content last, so that tabs move only when that changes.
#[derive(Default)]
pub struct AutoTabs {
    /// Every panel that may lack content, and whether it has some.
    shows: Vec<(&'static str, bool)>,
    /// The panel that a person opened: it is visible, empty or not.
    requested: Option<String>,
    /// By group, the empty tab that was active, and the one that was activated in its place.
    displaced: HashMap<TileId, (TileId, TileId)>,
}

impl AutoTabs {
    /// Keeps a panel visible until the content of the panels changes.
    pub fn request(&mut self, panel: &str) {
        self.requested = Some(panel.to_owned());
    }

    /// Moves tabs as at the start, for a layout in which other ones are in front.
    pub fn reset(&mut self) {
        self.shows.clear();
        self.displaced.clear();
    }

    /// Hides tab groups without content and shows those with some; if content changed, also moves tabs.
    pub fn arrange(&mut self, tree: &mut Tree<Pane>, panels: &[Box<dyn Panel>], cx: &PanelContext<'_>) {
        let shows = panels.iter().filter_map(|panel| Some((panel.id(), panel.has_content(cx)?))).collect();
        let moved = self.shows != shows;
        if moved {
            self.requested = self.requested.take().filter(|_| self.shows.is_empty());
            self.shows = shows;
        }
        let Some(root) = tree.root() else { return };
        let mut pages = tiles::pages(tree);
        if pages.is_empty() {
            pages.push(root);
        }
        for page in pages {
            let mut groups = Vec::new();
            self.find_groups(&tree.tiles, page, &mut groups);
            let visible: Vec<bool> =
                groups.iter().map(|(_, panes)| panes.iter().any(|(_, id)| self.shows(id))).collect();
            let none = !visible.contains(&true);
            for (at, ((group, panes), visible)) in groups.into_iter().zip(visible).enumerate() {
                tree.tiles.set_visible(group, visible || (none && at == 0));
                if moved {
                    self.activate(&mut tree.tiles, group, &panes);
                }
            }
        }
    }

    /// Whether a panel has content; `None` for panels that always have.
    fn has_content(&self, id: &str) -> Option<bool> {
        self.shows.iter().find(|(known, _)| *known == id).map(|(_, shows)| *shows)
    }

    /// Whether a panel has content, or a person opened it.
    fn shows(&self, id: &str) -> bool {
        self.has_content(id) == Some(true) || self.requested.as_deref() == Some(id)
    }

    /// Collects the tab groups at or below `tile` of which every pane may lack content.
    fn find_groups(
        &self,
        tiles: &Tiles<Pane>,
        tile: TileId,
        found: &mut Vec<(TileId, Vec<(TileId, String)>)>,
    ) {
        let Some(Tile::Container(container)) = tiles.get(tile) else { return };
        if let Container::Tabs(tabs) = container {
            let pane = |child: &TileId| match tiles.get(*child) {
                Some(Tile::Pane(Pane(id))) if self.has_content(id).is_some() => Some((*child, id.clone())),
                _ => None,
            };
            if let Some(panes) = tabs.children.iter().map(pane).collect::<Option<Vec<_>>>() {
                return found.push((tile, panes));
            }
        }
        container.children().for_each(|child| self.find_groups(tiles, *child, found));
    }

    /// Activates a tab with content where the active one has none; the displaced one again once it has some.
    fn activate(&mut self, tiles: &mut Tiles<Pane>, group: TileId, panes: &[(TileId, String)]) {
        let Some(Tile::Container(Container::Tabs(tabs))) = tiles.get_mut(group) else { return };
        let Some(active) = tabs.active else { return };
        // A tab that a person has chosen since stays.
        self.displaced.retain(|of, (_, instead)| *of != group || *instead == active);
        let back = self.displaced.get(&group).map(|(back, _)| *back);
        let shows = |tile: TileId| panes.iter().any(|(t, id)| *t == tile && self.shows(id));
        if let Some(back) = back.filter(|back| shows(*back)) {
            tabs.set_active(back);
            self.displaced.remove(&group);
        } else if !shows(active)
            && let Some((other, _)) = panes.iter().find(|(tile, _)| shows(*tile))
        {
            tabs.set_active(*other);
            self.displaced.insert(group, (back.unwrap_or(active), *other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_that_took_the_place_of_an_empty_one_stays_where_a_person_goes_back_to_it() {
        let mut tiles = Tiles::default();
        let ids = ["kernel", "scores", "weights"];
        let panes = ids.map(|id| (tiles.insert_pane(Pane(id.to_owned())), id.to_owned()));
        let group = tiles.insert_tab_tile(panes.iter().map(|(tile, _)| *tile).collect());
        let mut tabs = AutoTabs::default();
        let mut active = |chosen: Option<usize>, kernel: bool| {
            let Some(Tile::Container(Container::Tabs(own))) = tiles.get_mut(group) else { panic!("no tabs") };
            chosen.into_iter().for_each(|at| own.set_active(panes[at].0));
            chosen.filter(|at| *at == 0).into_iter().for_each(|at| tabs.request(ids[at]));
            tabs.shows = vec![("kernel", kernel), ("scores", true), ("weights", true)];
            tabs.activate(&mut tiles, group, &panes);
            let Some(Tile::Container(Container::Tabs(own))) = tiles.get(group) else { panic!("no tabs") };
            panes.iter().position(|(tile, _)| Some(*tile) == own.active)
        };
        assert_eq!([active(None, false), active(None, true)], [Some(1), Some(0)], "in its place, and back");
        assert_eq!([active(None, false), active(Some(2), true)], [Some(1), Some(2)], "another was chosen");
        assert_eq!(active(Some(1), true), Some(1));
        assert_eq!(active(Some(0), false), Some(0), "a person opened it");
    }
}
