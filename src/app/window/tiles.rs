//! The tree of panes in the middle of the window, which can be dragged, split and closed.

use eframe::egui;
use egui::util::IdTypeMap;
use egui::{Ui, Visuals, WidgetText, style::ScrollAnimation};
use egui_tiles::{
    Behavior, Container, EditAction, Linear, LinearDir, SimplificationOptions, TabState, Tabs, Tile, TileId,
    Tiles, Tree, UiResponse,
};
use serde::{Deserialize, Serialize};

use crate::app::window::panels::{Panel, PanelContext, PanelPlace};
use crate::app::window::{style, tab};
use crate::viz::draw::paint::color32;
use crate::viz::figures::evidence::Evidence;
use crate::viz::{Figure as _, TabGroup, find};

/// A pane: the id of the panel it shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pane(pub String);

/// Tab groups of one probe's figures: rows, and the shares of width in each. Where the room is small, every row is one group,
/// beside the other or above it.
const PROBE_PAGE: [([TabGroup; 3], [f32; 3]); 2] = [
    ([TabGroup::Picture, TabGroup::Order, TabGroup::Plan], [1.0; 3]),
    ([TabGroup::Evidence, TabGroup::Diagnostics, TabGroup::Predictions], [1.25, 0.95, 0.8]),
];
/// Tab groups of a probe's evaluation on a dataset: columns.
const DATASET_PAGE: [[TabGroup; 2]; 2] =
    [[TabGroup::Classes, TabGroup::Confusion], [TabGroup::Images, TabGroup::Routing]];

/// Size class of the area for panes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SizeClass {
    /// Enough for two rows of panes.
    #[default]
    Ample,
    /// Enough for one row of two panes: in two rows figures would be illegible.
    Short,
    /// Enough for one column of two panes: as narrow as a short one, but much higher than wide.
    Tall,
}

impl SizeClass {
    /// The class of an area of `size` points.
    pub fn from_size(size: egui::Vec2) -> Self {
        match size.x < 760.0 || size.y < 440.0 {
            true if size.y > 1.3 * size.x => Self::Tall,
            true => Self::Short,
            false => Self::Ample,
        }
    }

    /// How the parts of a page lie: beside one another, or above.
    fn dir(self) -> LinearDir {
        if self == Self::Tall { LinearDir::Vertical } else { LinearDir::Horizontal }
    }
}

/// The initial layout: a page with the figures of one probe in two rows, or two panes, then the pages of other panels,
/// then a page with a probe's evaluation on a dataset.
pub fn initial(room: SizeClass) -> Tree<Pane> {
    let panels = super::panels::all();
    let mut tiles = Tiles::default();
    let probe = match room {
        SizeClass::Ample => {
            let rows = PROBE_PAGE.map(|(groups, shares)| {
                let columns = groups.map(|group| group_tile(&mut tiles, &panels, &[group]));
                let mut row = Linear::new(LinearDir::Horizontal, columns.into());
                for (column, share) in columns.iter().zip(shares) {
                    row.shares.set_share(*column, share);
                }
                tiles.insert_container(Container::Linear(row))
            });
            let mut probe = Linear::new(LinearDir::Vertical, rows.into());
            probe.shares.set_share(rows[0], 1.15);
            probe
        }
        SizeClass::Short | SizeClass::Tall => {
            let two = PROBE_PAGE.map(|(groups, _)| group_tile(&mut tiles, &panels, &groups));
            Linear::new(room.dir(), two.into())
        }
    };
    let probe = tiles.insert_container(Container::Linear(probe));
    let pages = panes(&mut tiles, &panels, TabGroup::Page);
    let columns = DATASET_PAGE.map(|groups| match room {
        SizeClass::Ample => {
            let rows = groups.map(|group| group_tile(&mut tiles, &panels, &[group]));
            tiles.insert_container(Container::Linear(Linear::new(LinearDir::Vertical, rows.into())))
        }
        SizeClass::Short | SizeClass::Tall => group_tile(&mut tiles, &panels, &groups),
    });
    let mut dataset = Linear::new(room.dir(), columns.into());
    dataset.shares.set_share(columns[1], 1.15);
    let dataset = tiles.insert_container(Container::Linear(dataset));
    let mut tabs = Tabs::new([vec![probe], pages, vec![dataset]].concat());
    tabs.set_active(probe);
    let root = tiles.insert_container(Container::Tabs(tabs));
    Tree::new(egui::Id::unique("panes"), root, tiles)
}

/// Inserts the panes of a group, the front one first.
fn panes(tiles: &mut Tiles<Pane>, panels: &[Box<dyn Panel>], group: TabGroup) -> Vec<TileId> {
    let panels = panels.iter().filter(|panel| panel.place() == PanelPlace::Middle);
    let mut own: Vec<_> = panels.filter(|panel| panel.info().tab.group == group).collect();
    own.sort_by_key(|panel| !panel.info().tab.front);
    own.iter().map(|panel| tiles.insert_pane(Pane(panel.id().to_owned()))).collect()
}

fn group_tile(tiles: &mut Tiles<Pane>, panels: &[Box<dyn Panel>], groups: &[TabGroup]) -> TileId {
    let panes = groups.iter().flat_map(|group| panes(tiles, panels, *group)).collect();
    tiles.insert_tab_tile(panes)
}

/// Activates the pane of a panel, opening one if there is none.
pub fn show(tree: &mut Tree<Pane>, id: &str) {
    let pane = Pane(id.to_owned());
    if tree.tiles.find_pane(&pane).is_none() {
        let on_request = find(id).is_some_and(|figure| figure.info().tab.group == TabGroup::OnRequest);
        let evidence = tree.tiles.find_pane(&Pane(Evidence.id().to_owned())).filter(|_| on_request);
        let beside = evidence.and_then(|evidence| tree.tiles.parent_of(evidence));
        let new = tree.tiles.insert_pane(pane.clone());
        match beside.or(tree.root()) {
            Some(place) => tree.move_tile_to_container(new, place, usize::MAX, false),
            None => *tree = Tree::new_tabs(egui::Id::unique("panes"), vec![pane.clone()]),
        }
    }
    tree.make_active(|_, tile| matches!(tile, Tile::Pane(other) if *other == pane));
}

/// Activates the first page with a `wanted` pane, unless the active page has a `sufficient` one.
pub fn show_page(tree: &mut Tree<Pane>, sufficient: impl Fn(&str) -> bool, wanted: impl Fn(&str) -> bool) {
    let Some(root) = tree.root() else { return };
    let Some(Tile::Container(Container::Tabs(tabs))) = tree.tiles.get(root) else { return };
    let page =
        |page: &TileId, holds: &dyn Fn(&str) -> bool| pane_ids(&tree.tiles, *page).into_iter().any(holds);
    if tabs.active.is_some_and(|active| page(&active, &sufficient)) {
        return;
    }
    let Some(found) = tabs.children.iter().copied().find(|child| page(child, &wanted)) else { return };
    if let Some(Tile::Container(Container::Tabs(tabs))) = tree.tiles.get_mut(root) {
        tabs.set_active(found);
    }
}

/// The tiles of the pages, whose tabs are those of the whole area.
pub fn pages(tree: &Tree<Pane>) -> Vec<TileId> {
    match tree.root().and_then(|root| tree.tiles.get(root)) {
        Some(Tile::Container(Container::Tabs(tabs))) => tabs.children.clone(),
        _ => Vec::new(),
    }
}

/// The id of a pane of the active page.
pub fn pane_of_page(tree: &Tree<Pane>) -> Option<String> {
    let Some(Tile::Container(Container::Tabs(tabs))) = tree.tiles.get(tree.root()?) else { return None };
    pane_ids(&tree.tiles, tabs.active?).first().map(|id| (*id).to_owned())
}

/// Whether a panel has a pane.
pub fn open(tree: &Tree<Pane>, id: &str) -> bool {
    tree.tiles.find_pane(&Pane(id.to_owned())).is_some()
}

/// Closes the pane of a panel.
pub fn close(tree: &mut Tree<Pane>, id: &str) {
    if let Some(tile) = tree.tiles.find_pane(&Pane(id.to_owned())) {
        tree.remove_recursively(tile);
    }
}

/// The title of a tile, and what it says of itself: of several panes those of one probe or of a dataset, where most are such.
fn title(panels: &[Box<dyn Panel>], tiles: &Tiles<Pane>, tile: TileId) -> (String, String) {
    let panel = |id: &str| panels.iter().find(|panel| panel.id() == id);
    let own: Vec<_> = pane_ids(tiles, tile).into_iter().filter_map(panel).collect();
    let of_dataset = |group: TabGroup| DATASET_PAGE.as_flattened().contains(&group);
    let most = |is: &dyn Fn(TabGroup) -> bool| {
        own.len() > 1 && 2 * own.iter().filter(|panel| is(panel.info().tab.group)).count() > own.len()
    };
    if most(&of_dataset) {
        ("Dataset".to_owned(), "What the chosen probe makes of a whole dataset".to_owned())
    } else if most(&|group| group != TabGroup::Page && !of_dataset(group)) {
        ("One probe".to_owned(), "The figures of the chosen probe".to_owned())
    } else {
        let about: Vec<&str> = own.iter().map(|panel| panel.about()).collect();
        (own.iter().map(|panel| panel.title()).collect::<Vec<_>>().join(", "), about.join("\n"))
    }
}

/// The ids of the panes of a tile, the first tab's first.
fn pane_ids(tiles: &Tiles<Pane>, tile: TileId) -> Vec<&str> {
    match tiles.get(tile) {
        Some(Tile::Pane(pane)) => vec![&pane.0],
        Some(Tile::Container(container)) => {
            container.children().flat_map(|child| pane_ids(tiles, *child)).collect()
        }
        None => Vec::new(),
    }
}

/// Draws panes and collects what was done to them.
pub struct Panes<'a, 'b> {
    pub panels: &'a mut [Box<dyn Panel>],
    pub cx: &'a mut PanelContext<'b>,
    /// The pane whose tab, and that of its page, to scroll to.
    pub reveal: Option<Pane>,
    /// The pages; egui_tiles takes a container out of its tiles while it is drawn, so tabs cannot tell.
    pub pages: Vec<TileId>,
    /// The panel whose pane was closed.
    pub closed: Option<String>,
    pub edited: Option<EditAction>,
}

impl Behavior<Pane> for Panes<'_, '_> {
    fn pane_ui(&mut self, ui: &mut Ui, _tile: TileId, pane: &mut Pane) -> UiResponse {
        let ground = color32(self.cx.theme.ground);
        ui.painter().rect_filled(ui.max_rect(), 0.0, ground);
        if let Some(panel) = self.panels.iter_mut().find(|panel| panel.id() == pane.0) {
            ui.push_id(&pane.0, |ui| panel.ui(ui, self.cx));
        }
        UiResponse::None
    }

    fn tab_title_for_pane(&mut self, pane: &Pane) -> WidgetText {
        self.panels.iter().find(|panel| panel.id() == pane.0).map_or("", |panel| panel.title()).into()
    }

    fn tab_title_for_tile(&mut self, tiles: &Tiles<Pane>, tile: TileId) -> WidgetText {
        title(self.panels, tiles, tile).0.into()
    }

    fn tab_ui(
        &mut self,
        tiles: &mut Tiles<Pane>,
        ui: &mut Ui,
        id: egui::Id,
        tile: TileId,
        state: &TabState,
    ) -> egui::Response {
        let theme = self.cx.theme;
        let (title, about) = title(self.panels, tiles, tile);
        let ground = color32(if state.active { theme.ground } else { style::panel(theme) });
        // Where two tab bars are stacked, that of the pages has the accent colour.
        let line = color32(if self.pages.contains(&tile) { theme.series(0) } else { theme.muted });
        let tab = tab::Tab { title: &title, state, ground, line };
        let (response, closed) = tab.show(ui, id);
        let is_asked = self.reveal.as_ref().is_some_and(|pane| pane_ids(tiles, tile).contains(&&*pane.0));
        // When the window shrinks or is zoomed, the active tab stays in sight. This takes two frames, as the arrows beside the tabs
        // appear in the second, and the first may be drawn twice.
        let (width, frame) = (ui.ctx().content_rect().width(), ui.ctx().cumulative_frame_nr());
        let resized_in = |data: &mut IdTypeMap| {
            let known = data.get_temp_mut_or(id.with("window"), (width, frame));
            *known = if known.0 == width { *known } else { (width, frame) };
            known.1
        };
        let is_resized = state.active && frame <= ui.data_mut(resized_in) + 1;
        if is_asked || is_resized || response.clicked() || response.gained_focus() {
            ui.scroll_to_rect_animation(response.rect, None, ScrollAnimation::none());
        }
        if let Some(Tile::Pane(pane)) = tiles.get(tile).filter(|_| closed) {
            self.closed = Some(pane.0.clone()); // the layout closes it, as a change that can be undone
        }
        response.on_hover_text(about)
    }

    fn is_tab_closable(&self, tiles: &Tiles<Pane>, tile: TileId) -> bool {
        matches!(tiles.get(tile), Some(Tile::Pane(_)))
    }

    fn on_edit(&mut self, edit: EditAction) {
        // Activating a tab does not change the layout.
        if matches!(edit, EditAction::TileResized | EditAction::TileDropped) {
            self.edited = Some(edit);
        }
    }

    fn tab_bar_height(&self, _style: &egui::Style) -> f32 {
        28.0
    }

    fn gap_width(&self, _style: &egui::Style) -> f32 {
        4.0
    }

    fn tab_bar_color(&self, visuals: &Visuals) -> egui::Color32 {
        visuals.panel_fill
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions { all_panes_must_have_tabs: true, ..SimplificationOptions::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viz::figures::dataset::Overview as _;
    use crate::viz::figures::dataset::scatter::Scatter;

    #[test]
    fn a_page_is_named_after_what_most_of_its_panes_show_or_after_them() {
        let panels = crate::app::window::panels::all();
        let mut tree = initial(SizeClass::Ample);
        close(&mut tree, Scatter.id());
        let named = |tree: &Tree<Pane>, page: usize| title(&panels, &tree.tiles, pages(tree)[page]).0;
        let last = pages(&tree).len() - 1;
        assert_eq!([0, 1, last].map(|page| named(&tree, page)), ["One probe", "Compare", "Dataset"]);
        let beside = ["gallery", "tokens"].map(|id| tree.tiles.insert_pane(Pane(id.to_owned())));
        let split = tree.tiles.insert_horizontal_tile(beside.into());
        assert_eq!(title(&panels, &tree.tiles, split).0, "Gallery, Token table");
    }

    #[test]
    fn every_pane_stands_somewhere_at_first_but_those_that_are_asked_for() {
        for (room, panel) in [SizeClass::Ample, SizeClass::Short, SizeClass::Tall]
            .into_iter()
            .flat_map(|room| crate::app::window::panels::all().into_iter().map(move |panel| (room, panel)))
        {
            let asked = panel.info().tab.group == TabGroup::OnRequest;
            let stands = panel.place() == PanelPlace::Middle && !asked;
            assert_eq!(open(&initial(room), panel.id()), stands, "{room:?}: {}", panel.id());
        }
    }

    #[test]
    fn the_tabs_of_pages_are_told_from_those_of_the_panes_in_them() {
        let tree = initial(SizeClass::Ample);
        let is_page = |id: &str| {
            let pane = tree.tiles.find_pane(&Pane(id.to_owned())).expect("a pane");
            pages(&tree).contains(&pane)
        };
        assert!(is_page("compare") && is_page("tokens") && !is_page(Evidence.id()) && !is_page(Scatter.id()));
    }

    #[test]
    fn in_a_room_that_is_narrow_and_high_no_pane_lies_beside_another() {
        let rooms =
            [(1100.0, 700.0), (600.0, 420.0), (540.0, 900.0)].map(|size| SizeClass::from_size(size.into()));
        assert_eq!(rooms, [SizeClass::Ample, SizeClass::Short, SizeClass::Tall]);
        let beside = rooms.map(|room| {
            let tree = initial(room);
            let containers = tree.tiles.tiles().filter_map(|tile| match tile {
                Tile::Container(Container::Linear(linear)) => Some(linear.dir == LinearDir::Horizontal),
                _ => None,
            });
            containers.filter(|horizontal| *horizontal).count()
        });
        assert_eq!(beside, [3, 2, 0]);
    }
}
