//! Confusion matrix: rows are true classes, columns predicted ones, the colour is the share of the row. A last column, if any
//! image needs it, is for predictions of classes not drawn. With more than [`MAX_ROWS`] classes, a row is a block of classes.

use super::{ClassSort, Control, Overview, Picked, no_class, noun};
use crate::model::explain::evaluation::{Confusion, Evaluation};
use crate::viz::figures::plot::EvaluationPlot;
use crate::viz::figures::prelude::*;

/// Most rows for which the matrix is given the height that names need.
const MAX_NAMED: usize = 60;
/// Most rows of the matrix, and most classes whose full matrix is exported.
const MAX_ROWS: usize = 1024;
/// Most rows of a matrix with counts in its cells.
const MAX_COUNTED: usize = 15;
/// Height of a row whose name can be read.
const ROW_PT: f32 = 6.4;
/// Heights of the title above the matrix and of the axis name below it, and width of the name of the upright axis.
const HEAD_PT: f32 = pt::LABEL + 5.0;
const FOOT_PT: f32 = pt::LABEL + 6.0;
const AXIS_PT: f32 = pt::LABEL + 4.0;
/// Smallest width of a cell that can be pointed at.
const CELL_PT: f32 = 3.0;
/// Shade of the smallest share above zero, on a scale of 0 to 1.
const MIN_SHADE: f32 = 0.28;

pub struct ConfusionMatrix;

/// Layout of the matrix: which classes belong to which row and column.
struct Cells {
    /// The classes that are drawn.
    picked: Picked,
    /// The index of every class among them; `None` if it is not drawn.
    places: Vec<Option<usize>>,
    /// How many classes share a row or a column.
    block: usize,
    rows: usize,
    /// As many as rows, and one more if an image was predicted as none of the classes drawn.
    columns: usize,
}

impl Cells {
    fn new(plot: &EvaluationPlot) -> Self {
        let EvaluationPlot { evaluation, choice, .. } = plot;
        let set = &evaluation.set;
        let classes = set.classes.len();
        let errors = error_counts(evaluation);
        let most = choice.classes.most.unwrap_or(usize::MAX);
        let default_sort = if classes > most { ClassSort::Difference } else { ClassSort::Dataset };
        let picked =
            choice.classes.pick(&set.classes, 0..classes, |class| f64::from(errors[class]), default_sort);
        let mut places = vec![None; classes];
        picked.classes.iter().enumerate().for_each(|(place, &class)| places[class] = Some(place));
        let block = picked.classes.len().div_ceil(MAX_ROWS).max(1);
        let rows = picked.classes.len().div_ceil(block);
        let mut cells = Self { picked, places, block, rows, columns: rows };
        let is_other = |image: usize| {
            evaluation.readable(image)
                && cells.row(set.class[image] as usize).is_some()
                && cells.column(evaluation.predicted[image] as usize) == rows
        };
        cells.columns += usize::from((0..evaluation.len()).any(is_other));
        cells
    }

    /// The row of a class; `None` if it is not drawn.
    fn row(&self, class: usize) -> Option<usize> {
        Some((*self.places.get(class)?)? / self.block)
    }

    /// The column of a class; the last one if it is not drawn.
    fn column(&self, class: usize) -> usize {
        self.row(class).unwrap_or(self.rows)
    }

    /// Number of images in every cell, `[rows, columns]` row by row.
    fn counts(&self, confusion: &Confusion) -> Vec<u32> {
        let mut counts = vec![0; self.rows * self.columns];
        for (&(class, predicted), &count) in &confusion.counts {
            if let Some(row) = self.row(class) {
                counts[row * self.columns + self.column(predicted)] += count;
            }
        }
        counts
    }

    /// The share of the images of its row in every cell.
    fn shares(&self, counts: &[u32]) -> Vec<f32> {
        let row = |row: &[u32]| {
            let total = row.iter().sum::<u32>().max(1);
            row.iter().map(|&count| count as f32 / total as f32).collect::<Vec<f32>>()
        };
        counts.chunks(self.columns.max(1)).flat_map(row).collect()
    }

    /// The name of a row or a column: of its class, of the first and last class of its block, or of the last column.
    fn name(&self, names: &[String], index: usize) -> String {
        let block = self.picked.classes.chunks(self.block).nth(index);
        match block.and_then(|block| Some((*block.first()?, *block.last()?))) {
            Some((first, last)) if first != last => format!("{} … {}", names[first], names[last]),
            Some((only, _)) => names[only].clone(),
            None => "another class".to_owned(),
        }
    }
}

/// Number of errors of every class: of its images predicted as another class, and of others predicted as it.
fn error_counts(evaluation: &Evaluation) -> Vec<u32> {
    let mut errors = vec![0; evaluation.set.classes.len()];
    for image in (0..evaluation.len()).filter(|image| evaluation.is_correct(*image) == Some(false)) {
        for class in [evaluation.set.class[image], evaluation.predicted[image]] {
            if let Some(count) = errors.get_mut(class as usize) {
                *count += 1;
            }
        }
    }
    errors
}

/// The colour of a share of a row: the ground for zero, and from [`MIN_SHADE`] up for more, so that a single error is visible;
/// the square root keeps small shares apart.
fn shade(theme: &Theme, share: f32) -> Color {
    if share <= 0.0 {
        theme.ground
    } else {
        diverging(theme, -(MIN_SHADE + (1.0 - MIN_SHADE) * share.sqrt()))
    }
}

/// The title: the accuracy over all images that could be read, how many these are and how many could not.
fn title(evaluation: &Evaluation, picked: &Picked) -> String {
    let read = (0..evaluation.len()).filter(|at| evaluation.readable(*at)).count();
    let left_out = match evaluation.len() - read {
        0 => String::new(),
        unread => format!("; {unread} left out"),
    };
    let note = picked.note("most errors").map_or(String::new(), |note| format!("; {note}"));
    let accuracy = evaluation.accuracy();
    format!("Accuracy {accuracy:.1} % of {read} {}{left_out}{note}", noun(read))
}

/// Width of the names of rows.
fn name_width(cells: &Cells, names: &[String], width: f32) -> f32 {
    let drawn = cells.picked.classes.iter().map(|&class| &names[class]);
    font::widest(drawn, pt::TICK).min(width * 0.26) + 5.0
}

/// The box of the matrix left of this bar, and whether the names of rows stand beside it. Cells are square, or taller if these names
/// need it.
fn layout(cells: &Cells, names: &[String], size: Size, bar: &Axis) -> (Box2, bool) {
    let (rows, columns) = (cells.rows as f32, cells.columns as f32);
    let beside = size.height - HEAD_PT - FOOT_PT;
    let is_named = cells.block == 1 && beside >= rows * pt::TICK * 0.85;
    let left = AXIS_PT + if is_named { name_width(cells, names, size.width) } else { 0.0 };
    let room = Box2::new(left, HEAD_PT, size.width - left - legend::bar_room(bar) - 2.0, beside);
    let square = room.largest(columns, rows);
    let area = if is_named { Box2 { h: square.h.max(rows * ROW_PT).min(room.h), ..square } } else { square };
    (area, is_named && area.h / rows >= pt::TICK * 0.85)
}

/// The bar of the colours; `is_counted` is whether the cells have numbers, which are no shares.
fn bar(is_counted: bool) -> Axis {
    let counts = if is_counted { " (in cells: count)" } else { "" };
    Axis::new(Scale::linear(0.0, 100.0), format!("Images of the class, %{counts}"), 5)
}

impl Overview for ConfusionMatrix {
    fn info(&self) -> Info {
        Info {
            id: "confusion",
            title: "Confusion",
            about: "How often each class is predicted as each other class: rows are true classes, columns predicted ones",
            tab: TabGroup::Confusion.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[Control::Classes]
    }

    fn height(&self, plot: &EvaluationPlot, width: f32) -> f32 {
        let rows = Cells::new(plot).rows;
        let named_height = if rows <= MAX_NAMED { rows as f32 * ROW_PT + HEAD_PT + FOOT_PT } else { 0.0 };
        named_height.max(width * 0.78)
    }

    fn legible(&self, plot: &EvaluationPlot, width: f32) -> Size {
        let cells = Cells::new(plot);
        let across = cells.columns as f32 * CELL_PT + legend::bar_room(&bar(false)) + 2.0;
        let left = AXIS_PT + name_width(&cells, &plot.evaluation.set.classes, width);
        Size { width: left + across, height: cells.rows as f32 * ROW_PT + HEAD_PT + FOOT_PT }
    }

    fn scene(&self, plot: &EvaluationPlot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let evaluation = &*plot.evaluation;
        let confusion = evaluation.confusion();
        if confusion.counts.is_empty() {
            return Err(Empty("No image could be read".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, "Confusion matrix", theme.background);
        let cells = Cells::new(plot);
        if cells.rows == 0 {
            return Err(Empty(no_class(&plot.choice)));
        }
        let (rows, columns, names) = (cells.rows, cells.columns, &evaluation.set.classes);
        let placed = |is_counted: bool| {
            let bar = bar(is_counted).within(size.height);
            let (area, is_named) = layout(&cells, names, size, &bar);
            (bar, area, is_named, area.w / columns as f32, area.h / rows as f32)
        };
        let has_room = |w: f32, h: f32| rows <= MAX_COUNTED && w > 12.0 && h > 7.5;
        let counted = Some(placed(true)).filter(|(.., w, h)| has_room(*w, *h));
        let is_counted = counted.is_some();
        let (bar, area, is_named, w, h) = counted.unwrap_or_else(|| placed(false));
        let accuracy = title(evaluation, &cells.picked);
        // Where it is long it begins left of the matrix.
        let left = area.x.min((size.width - font::width(&accuracy, pt::LABEL) - 0.1).max(0.0));
        frame::title(&mut scene, theme, [left, 0.0], &accuracy, size.width - left);
        let counts = cells.counts(&confusion);
        let shares = cells.shares(&counts);
        let raster = Raster::new(columns, rows, shares.iter().map(|&share| shade(theme, share)));
        scene.image(area, raster, false, Some(Identity::Cells { rows, columns }));
        for row in 0..rows {
            let y = area.y + (row as f32 + 0.5) * h;
            if is_named {
                let room = area.x - AXIS_PT - 4.0;
                let name = font::fit_middle(&cells.name(names, row), pt::TICK, room);
                scene.text_mid([area.x - 4.0, y], name, pt::TICK, theme.ink, Anchor::End);
            }
            for column in (0..columns).filter(|_| is_counted) {
                let count = counts[row * columns + column];
                if count > 0 {
                    let x = area.x + (column as f32 + 0.5) * w;
                    let ink = on(shade(theme, shares[row * columns + column]));
                    scene.text_mid([x, y], count.to_string(), pt::TICK, ink, Anchor::Middle);
                }
            }
        }
        scene.outline(area, Stroke::new(pt::HAIR, theme.axis));
        if columns > rows {
            let x = area.right() - w;
            scene.line(vec![[x, area.y], [x, area.bottom()]], Stroke::new(pt::HAIR, theme.axis));
        }
        let at = [area.center()[0], area.bottom() + 3.0 + pt::LABEL * font::CAP];
        let other = if columns > rows { "; last: another class" } else { "" };
        let across = font::fit(&format!("Predicted class (same order{other})"), pt::LABEL, area.w + 40.0);
        scene.text(at, across, pt::LABEL, theme.ink, Anchor::Middle);
        scene.text_up([pt::LABEL, area.center()[1]], "True class", pt::LABEL, theme.ink);
        legend::color_bar(&mut scene, theme, area, &bar, |t| shade(theme, t));
        Ok(scene)
    }

    fn table(&self, plot: &EvaluationPlot) -> Table {
        let (evaluation, confusion) = (&*plot.evaluation, plot.evaluation.confusion());
        let classes = &evaluation.set.classes;
        let name = |class: usize| classes.get(class).map_or("(another class)", String::as_str).to_owned();
        // A matrix of very many classes would be too large: a table of the pairs that occur, one row each, is not.
        if classes.len() > MAX_ROWS {
            let (pairs, counts): (Vec<_>, Vec<_>) = confusion.counts.iter().unzip();
            return Table::default()
                .words("true_class", pairs.iter().map(|(class, _)| name(*class)))
                .words("predicted_class", pairs.iter().map(|(_, predicted)| name(*predicted)))
                .numbers("images", counts.into_iter().map(|&count| f64::from(count)));
        }
        let mut table = Table::default().words("true_class", classes.iter().cloned());
        for column in 0..=classes.len() {
            let counts = (0..classes.len()).map(|row| f64::from(confusion.count(row, column)));
            table = table.numbers(&name(column), counts);
        }
        table
    }

    fn item(&self, plot: &EvaluationPlot, item: usize) -> (String, Vec<usize>) {
        let evaluation = &*plot.evaluation;
        let (cells, classes) = (Cells::new(plot), &evaluation.set.classes);
        let (row, column) = (item / cells.columns.max(1), item % cells.columns.max(1));
        let is_in_cell = |at: &usize| {
            // `OTHER` is larger than any class: its column is the last.
            let (class, predicted) = (evaluation.set.class[*at] as usize, evaluation.predicted[*at] as usize);
            evaluation.readable(*at) && cells.row(class) == Some(row) && cells.column(predicted) == column
        };
        let images: Vec<usize> = (0..evaluation.len()).filter(is_in_cell).collect();
        (format!("{} predicted as {}", cells.name(classes, row), cells.name(classes, column)), images)
    }
}

/// The text colour with the higher contrast on a cell of this colour.
pub(in crate::viz::figures) fn on(cell: Color) -> Color {
    let [dark, light] = [0x00_00_00, 0xff_ff_ff].map(Color::hex);
    if cell.contrast(dark) > cell.contrast(light) { dark } else { light }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_on_every_shade() {
        for theme in [Theme::light(), Theme::dark()] {
            for share in (1..=100).map(|percent| percent as f32 / 100.0) {
                let cell = shade(&theme, share);
                let contrast = cell.contrast(on(cell));
                assert!(contrast >= 4.5, "{share}: a contrast of only {contrast}");
            }
        }
    }
}
