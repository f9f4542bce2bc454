//! Which class is predicted as which: rows are true classes, columns predicted ones, the colour the
//! share of the row. The last column, where there is one, is what the dataset has no class for. Of very
//! many classes a cell is a block of them.

use super::{Control, Overview, View};
use crate::model::explain::evaluation::{Confusion, Evaluation, OTHER};
use crate::viz::draw::{
    Anchor, Axis, Box2, Color, Identity, Raster, Scale, Scene, Stroke, Table, Theme, font, frame, legend,
    number,
};
use crate::viz::{Empty, Info, Size, TabGroup};

/// Most classes whose names stand beside the matrix.
const MAX_NAMED: usize = 60;
/// Most rows: no picture shows more.
const MAX_ROWS: usize = 1024;
/// Most classes whose counts stand in the cells.
const MAX_COUNTED: usize = 15;

pub struct ConfusionMatrix;

/// The cells drawn.
#[derive(Clone, Copy)]
struct Cells {
    /// Classes that share a row or a column.
    block: usize,
    rows: usize,
    /// As many as rows, and one more where something was predicted as none of the classes.
    columns: usize,
}

impl Cells {
    fn new(evaluation: &Evaluation) -> Self {
        let classes = evaluation.asked.classes.len();
        let block = classes.div_ceil(MAX_ROWS).max(1);
        let rows = classes.div_ceil(block);
        let other =
            (0..evaluation.len()).any(|at| evaluation.readable(at) && evaluation.predicted[at] == OTHER);
        Self { block, rows, columns: rows + usize::from(other) }
    }

    /// The column of a class, or of what is none.
    fn column(self, class: usize, classes: usize) -> usize {
        if class >= classes { self.rows } else { class / self.block }
    }

    /// The share of its row that every cell has, row-major.
    fn shares(self, confusion: &Confusion) -> Vec<f32> {
        let mut counts = vec![0; self.rows * self.columns];
        for (&(class, taken), &count) in &confusion.counts {
            counts[class / self.block * self.columns + self.column(taken, confusion.classes)] += count;
        }
        let row = |row: &[u32]| {
            let total = row.iter().sum::<u32>().max(1);
            row.iter().map(|&count| count as f32 / total as f32).collect::<Vec<f32>>()
        };
        counts.chunks(self.columns).flat_map(row).collect()
    }
}

/// The accuracy, and of how many images: those that could be read.
fn title(evaluation: &Evaluation) -> String {
    let read = (0..evaluation.len()).filter(|at| evaluation.readable(*at)).count();
    let rest = match evaluation.len() - read {
        0 => String::new(),
        rest => format!("; {rest} unreadable"),
    };
    format!("Accuracy {} % of {read} images{rest}", number(evaluation.accuracy()))
}

/// Where the matrix lies: room for names on the left and above.
struct Layout {
    area: Box2,
    named: bool,
}

fn layout(evaluation: &Evaluation, theme: &Theme, size: Size) -> Layout {
    let Cells { rows, columns, .. } = Cells::new(evaluation);
    let widest = font::widest(&evaluation.asked.classes, theme.tick);
    let named = rows <= MAX_NAMED;
    let left = if named { widest.min(size.width * 0.26) + 5.0 } else { theme.label + 4.0 };
    let bar = legend::bar_room(theme, &bar());
    let head = theme.label + 5.0;
    let foot = theme.label + 6.0;
    let room = Box2::new(left, head, size.width - left - bar - 2.0, size.height - head - foot);
    let area = room.largest(columns as f32, rows as f32);
    Layout { named: named && area.h / rows as f32 >= theme.tick * 0.85, area }
}

fn bar() -> Axis {
    Axis::new(Scale::linear(0.0, 100.0), "Images of the class, %", 5)
}

impl Overview for ConfusionMatrix {
    fn info(&self) -> Info {
        Info {
            id: "confusion",
            title: "Confusion",
            about: "How often each class is predicted as each other: rows are true classes, columns predicted ones",
            tab: TabGroup::Confusion.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[Control::Map]
    }

    fn height(&self, _: View<'_>, width: f32) -> f32 {
        width * 0.78
    }

    fn scene(&self, view: View<'_>, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let evaluation = view.evaluation;
        let confusion = evaluation.confusion();
        if confusion.counts.is_empty() {
            return Err(Empty("No image could be read".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, "Confusion matrix", theme.background);
        let cells = Cells::new(evaluation);
        let Cells { rows, columns, .. } = cells;
        let Layout { area, named } = layout(evaluation, theme, size);
        let accuracy = title(evaluation);
        frame::title(&mut scene, theme, [area.x, 0.0], &accuracy, size.width - area.x);
        let color =
            |t: f32| if t <= 0.0 { theme.ground.mix(theme.faint, 0.5) } else { view.choice.map.at(t) };
        let shares = cells.shares(&confusion);
        let raster = Raster::new(columns, rows, shares.iter().map(|&share| color(share)));
        scene.image(area, raster, false, Some(Identity::Cells { rows, columns }));
        let (w, h) = (area.w / columns as f32, area.h / rows as f32);
        for row in 0..rows {
            let y = area.y + (row as f32 + 0.5) * h;
            if named {
                let name = font::fit(&evaluation.asked.classes[row], theme.tick, area.x - 4.0);
                scene.text_mid([area.x - 4.0, y], name, theme.tick, theme.ink, Anchor::End);
            }
            for column in (0..columns).filter(|_| rows <= MAX_COUNTED && w > 12.0 && h > 7.5) {
                let count = confusion.count(row, column);
                if count > 0 {
                    let x = area.x + (column as f32 + 0.5) * w;
                    let ink = on(color(shares[row * columns + column]));
                    scene.text_mid([x, y], count.to_string(), theme.tick, ink, Anchor::Middle);
                }
            }
        }
        scene.outline(area, Stroke::new(theme.hair, theme.axis));
        if columns > rows {
            let x = area.right() - w;
            scene.line(vec![[x, area.y], [x, area.bottom()]], Stroke::new(theme.hair, theme.axis));
        }
        let at = [area.center()[0], area.bottom() + 3.0 + theme.label * font::CAP];
        let other = if columns > rows { "; last: another class" } else { "" };
        let across = font::fit(&format!("Predicted class (same order{other})"), theme.label, area.w + 40.0);
        scene.text(at, across, theme.label, theme.ink, Anchor::Middle);
        if !named {
            scene.text_up([theme.label, area.center()[1]], "True class", theme.label, theme.ink);
        }
        legend::color_bar(&mut scene, theme, area, &bar(), |t| view.choice.map.at(t));
        Ok(scene)
    }

    fn table(&self, view: View<'_>) -> Table {
        let (evaluation, confusion) = (view.evaluation, view.evaluation.confusion());
        let classes = &evaluation.asked.classes;
        let name = |class: usize| classes.get(class).map_or("(another class)", String::as_str).to_owned();
        // All pairs of very many classes fill no table: those that occurred do.
        if Cells::new(evaluation).block > 1 {
            let (pairs, counts): (Vec<_>, Vec<_>) = confusion.counts.iter().unzip();
            return Table::default()
                .words("true_class", pairs.iter().map(|(class, _)| name(*class)))
                .words("predicted_class", pairs.iter().map(|(_, taken)| name(*taken)))
                .numbers("images", counts.into_iter().map(|&count| f64::from(count)));
        }
        let mut table = Table::default().words("true_class", classes.iter().cloned());
        for column in 0..=classes.len() {
            let counts = (0..classes.len()).map(|row| f64::from(confusion.count(row, column)));
            table = table.numbers(&name(column), counts);
        }
        table
    }

    fn item(&self, view: View<'_>, item: usize) -> (String, Vec<usize>) {
        let evaluation = view.evaluation;
        let (cells, classes) = (Cells::new(evaluation), &evaluation.asked.classes);
        let (row, column) = (item / cells.columns, item % cells.columns);
        let there = |at: &usize| {
            // `OTHER` is a larger number than that of any class.
            let (class, taken) = (evaluation.asked.class[*at] as usize, evaluation.predicted[*at] as usize);
            let own = (class / cells.block, cells.column(taken, classes.len()));
            evaluation.readable(*at) && own == (row, column)
        };
        let images: Vec<usize> = (0..evaluation.len()).filter(there).collect();
        let name = |place: usize| {
            let (first, last) = (place * cells.block, (place + 1) * cells.block - 1);
            match (classes.get(first), classes.get(last.min(classes.len() - 1))) {
                (Some(first), Some(last)) if first != last => format!("{first} … {last}"),
                (Some(only), _) => only.clone(),
                (None, _) => "another class".to_owned(),
            }
        };
        (format!("{} predicted as {}", name(row), name(column)), images)
    }
}

/// Ink that is read on a cell of this colour.
fn on(cell: Color) -> Color {
    if cell.lightness() > 55.0 { Color::hex(0x10_14_18) } else { Color::hex(0xff_ff_ff) }
}
