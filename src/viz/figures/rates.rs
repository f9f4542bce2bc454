//! Layers by learning rates: the accuracy on the selection images as one heat map for each head, with the best cell framed
//! and its accuracy on the test images in words. Takes plain numbers, not a trace.

use std::cmp::Ordering;

use crate::viz::figures::dataset::confusion::on;
use crate::viz::figures::plot::{Caption, Plot};
use crate::viz::figures::prelude::*;

/// Its names and description.
pub const INFO: Info = Info {
    id: "rates",
    title: "Layers and rates",
    about: "Accuracy on the selection images by layer and learning rate, one heat map per head; the chosen cell is framed",
    tab: TabGroup::Page.tab(),
};

/// Accuracies that are closer, in points, are equal: they differ by how their means and the numbers in files, of nine decimals,
/// were rounded. One image of a million in one of ten seeds is a thousand times as much.
pub const TIE: f64 = 1e-8;

/// The accuracies of one variant in percent, means over seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCell {
    /// Name of the variant.
    pub name: String,
    /// On the selection images, at the best epoch.
    pub select: f64,
    /// On the test images, at the same epoch.
    pub test: f64,
    /// On the test images, after the last epoch.
    pub last: f64,
    /// Number of seeds that broke before their first epoch, and are not in these means.
    pub broken: usize,
}

/// The variants of one head.
#[derive(Clone, Debug, PartialEq)]
pub struct RateGrid {
    /// The head, with its settings where it has several.
    pub head: String,
    /// Layers, from top to bottom; a single empty name where the variants do not differ in layers.
    pub layers: Vec<String>,
    /// Learning rates, from left to right; a single empty name where the variants do not differ in rates.
    pub rates: Vec<String>,
    /// `layers` x `rates` cells, row by row; `None` where no epoch is done.
    pub cells: Vec<Option<RateCell>>,
}

impl RateGrid {
    /// Index of the cell with the best accuracy on the selection images among those that broke with the fewest seeds, the first on
    /// ties; `None` before any epoch is done.
    pub fn chosen(&self) -> Option<usize> {
        let known = self.cells.iter().enumerate().filter_map(|(at, cell)| Some((at, cell.as_ref()?)));
        let is_better = |cell: &RateCell, other: &RateCell| match cell.broken.cmp(&other.broken) {
            Ordering::Equal => cell.select > other.select + TIE,
            order => order.is_lt(),
        };
        known.reduce(|best, next| if is_better(next.1, best.1) { next } else { best }).map(|(at, _)| at)
    }

    /// Layer and rate of a cell in words.
    pub fn words(&self, cell: usize) -> String {
        let (layer, rate) = (&self.layers[cell / self.rates.len()], &self.rates[cell % self.rates.len()]);
        let layer = (!layer.is_empty()).then(|| format!("layer {layer}"));
        let rate = (!rate.is_empty()).then(|| format!("rate {rate}"));
        layer.into_iter().chain(rate).collect::<Vec<_>>().join(", ")
    }

    /// A shorter [`verdict`](Self::verdict), below a map of the selection images.
    fn brief(&self) -> Option<String> {
        let at = self.chosen()?;
        let RateCell { select, test, .. } = self.cells[at].as_ref()?;
        Some(format!("{}: {select:.2} %, on test images {test:.2} %", self.words(at)))
    }

    /// The chosen cell and its accuracies, in words; `None` before any epoch is done.
    pub fn verdict(&self) -> Option<String> {
        let at = self.chosen()?;
        let RateCell { select, test, .. } = self.cells[at].as_ref()?;
        Some(format!("{}: {select:.2} % on selection images, {test:.2} % on test images", self.words(at)))
    }
}

/// The grids of a run, as a plot.
#[derive(Clone)]
pub struct RatesPlot {
    /// One grid for each head.
    pub grids: Vec<RateGrid>,
    /// Names and metadata of the plot.
    pub caption: Caption,
}

/// Preferred height of a row, in points.
const ROW_PT: f32 = 15.0;
/// Height of the title, the labels and the verdict of one grid, in points.
const LABELS_PT: f32 = 2.0 * pt::LABEL + 2.0 * pt::TICK + 14.0 + pt::GAP;
/// Name of the colour bar.
const SELECT: &str = "Accuracy on selection images (%)";

impl RatesPlot {
    fn rows(&self) -> f32 {
        self.grids.iter().map(|grid| grid.layers.len()).sum::<usize>() as f32
    }

    fn axis(&self) -> Option<Axis> {
        let values = self.grids.iter().flat_map(|grid| grid.cells.iter().flatten()).map(|cell| cell.select);
        let (low, high) = extent(values)?;
        // Equal accuracies still need a scale that is not empty.
        let around = ((low - 1.0).max(0.0), (low + 1.0).min(100.0));
        let (low, high) = if low < high { (low, high) } else { around };
        Some(Axis::new(Scale::linear(low, high), SELECT, 5))
    }
}

impl Plot for RatesPlot {
    fn caption(&self) -> Caption {
        self.caption.clone()
    }

    fn height(&self, _: f32) -> f32 {
        self.rows() * ROW_PT + self.grids.len() as f32 * LABELS_PT
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let empty =
            "This run has no layers or learning rates to compare yet: `ssmprobe train --layers … --rates …`";
        let axis = self.axis().ok_or_else(|| Empty(empty.to_owned()))?.within(size.height);
        let mut scene = Scene::new(size.width, size.height, INFO.title, theme.background);
        let rows = size.height - self.grids.len() as f32 * LABELS_PT;
        let row = (rows / self.rows()).max(1.0);
        let layers = self.grids.iter().flat_map(|grid| &grid.layers);
        let left = pt::LABEL + 6.0 + font::widest(layers, pt::TICK) + 4.0;
        let width = size.width - left - legend::bar_room(&axis) - 2.0;
        let (mut y, mut bottom) = (0.0, 0.0);
        for grid in &self.grids {
            y += frame::title(&mut scene, theme, [left, y], &grid.head, size.width - left) + 1.5;
            let area = Box2::new(left, y, width, row * grid.layers.len() as f32);
            heat_map(&mut scene, theme, area, grid, &axis.scale);
            bottom = area.bottom();
            y = bottom + 2.0 + pt::TICK * font::CAP;
            let cell = area.w / grid.rates.len() as f32;
            for (column, rate) in grid.rates.iter().enumerate() {
                let x = area.x + (column as f32 + 0.5) * cell;
                scene.text([x, y], font::fit(rate, pt::TICK, cell), pt::TICK, theme.axis, Anchor::Middle);
            }
            y += 4.0 + pt::LABEL * font::CAP;
            let name = if grid.rates.iter().all(String::is_empty) { "" } else { "Learning rate" };
            scene.text([area.center()[0], y], name, pt::LABEL, theme.ink, Anchor::Middle);
            y += 3.0 + pt::TICK;
            let verdict = font::fit(&grid.brief().unwrap_or_default(), pt::TICK, left + width);
            scene.text([0.0, y], verdict, pt::TICK, theme.muted, Anchor::Start);
            y += pt::GAP + 3.0;
        }
        let top = pt::LABEL + 4.0;
        let maps = Box2::new(left, top, width, bottom - top);
        legend::color_bar(&mut scene, theme, maps, &axis, |t| Map::Cividis.at(t));
        Ok(scene)
    }

    fn table(&self) -> Table {
        let mut rows = Vec::new();
        for grid in &self.grids {
            let chosen = grid.chosen();
            let known = grid.cells.iter().enumerate().filter_map(|(at, cell)| Some((at, cell.as_ref()?)));
            rows.extend(known.map(|(at, cell)| (grid, at, cell, Some(at) == chosen)));
        }
        Table::default()
            .words("head", rows.iter().map(|(grid, ..)| grid.head.clone()))
            .words("layer", rows.iter().map(|(grid, at, ..)| grid.layers[at / grid.rates.len()].clone()))
            .words("rate", rows.iter().map(|(grid, at, ..)| grid.rates[at % grid.rates.len()].clone()))
            .numbers("selection", rows.iter().map(|(_, _, cell, _)| cell.select))
            .numbers("test", rows.iter().map(|(_, _, cell, _)| cell.test))
            .numbers("test_last", rows.iter().map(|(_, _, cell, _)| cell.last))
            .numbers("chosen", rows.iter().map(|(.., chosen)| f64::from(u8::from(*chosen))))
    }
}

/// Draws the cells of one grid, with the names of its layers.
fn heat_map(scene: &mut Scene, theme: &Theme, area: Box2, grid: &RateGrid, scale: &Scale) {
    let (rows, columns) = (grid.layers.len(), grid.rates.len());
    let color = |cell: &Option<RateCell>| -> Color {
        cell.as_ref().map_or(theme.ground, |cell| Map::Cividis.at(scale.at(cell.select)))
    };
    scene.image(area, Raster::new(columns, rows, grid.cells.iter().map(color)), false, None);
    let (w, h) = (area.w / columns as f32, area.h / rows as f32);
    let place =
        |at: usize| Box2::new(area.x + (at % columns) as f32 * w, area.y + (at / columns) as f32 * h, w, h);
    for (at, cell) in grid.cells.iter().enumerate() {
        let text = cell.as_ref().map_or("–".to_owned(), |cell| format!("{:.1}", cell.select));
        if font::width(&text, pt::TICK) < w - 2.0 && h > pt::TICK {
            let ink = if cell.is_some() { on(color(cell)) } else { theme.muted };
            scene.text_mid(place(at).center(), text, pt::TICK, ink, Anchor::Middle);
        }
    }
    for (row, layer) in grid.layers.iter().enumerate() {
        let y = area.y + (row as f32 + 0.5) * h;
        scene.text_mid([area.x - 4.0, y], layer.clone(), pt::TICK, theme.ink, Anchor::End);
    }
    if grid.layers.iter().any(|layer| !layer.is_empty()) {
        scene.text_up([pt::LABEL, area.center()[1]], "Layer", pt::LABEL, theme.ink);
    }
    scene.outline(area, Stroke::new(pt::HAIR, theme.axis));
    if let Some(at) = grid.chosen() {
        scene.outline(place(at), Stroke::new(2.4, theme.ground));
        scene.outline(place(at), Stroke::new(1.2, theme.ink));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_cells_that_got_as_many_images_right_the_first_is_chosen() {
        // 4 + 4 + 4 and 3 + 3 + 6 images of 12, as files have them: the second mean is larger by 3e-10.
        let means = [[33.333333333; 3], [25.0, 25.0, 50.0]].map(|seeds| seeds.iter().sum::<f64>() / 3.0);
        assert!(means[1] > means[0]);
        let mut grid = RateGrid {
            head: "gap".into(),
            layers: vec![String::new()],
            rates: vec!["0.001".into(), "0.1".into()],
            cells: means
                .map(|select| Some(RateCell { name: "gap".into(), select, test: 0.0, last: 0.0, broken: 0 }))
                .into(),
        };
        assert_eq!(grid.chosen(), Some(0));
        // One image more, in one of ten seeds on a million images.
        grid.cells[1].as_mut().expect("a cell").select = means[0] + 1e-5;
        assert_eq!(grid.chosen(), Some(1));
    }

    #[test]
    fn where_all_are_right_the_scale_ends_at_all() {
        let cell = RateCell { name: "gap".into(), select: 100.0, test: 90.0, last: 90.0, broken: 0 };
        let (layers, rates) = (vec![String::new()], vec!["0.1".into()]);
        let grid = RateGrid { head: "gap".into(), layers, rates, cells: vec![Some(cell)] };
        let axis = RatesPlot { grids: vec![grid], caption: Caption::default() }.axis().expect("a cell");
        assert_eq!((axis.scale.lo, axis.scale.hi), (99.0, 100.0));
    }
}
