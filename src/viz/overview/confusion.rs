//! Which class is taken for which: rows are true classes, columns predicted ones, the colour the
//! share of the row. The last column, where there is one, is what the dataset has no class for.

use super::{Overview, View};
use crate::model::survey::{Confusion, OTHER, Survey};
use crate::viz::font;
use crate::viz::frame::{self, Axis};
use crate::viz::legend;
use crate::viz::scale::{Scale, number};
use crate::viz::scene::{Anchor, Box2, Identity, Raster, Scene, Stroke};
use crate::viz::table::Table;
use crate::viz::theme::{Color, Theme};
use crate::viz::{Empty, Size};

/// Most classes whose names stand beside the matrix.
const NAMED: usize = 60;
/// Most classes whose counts stand in the cells.
const COUNTED: usize = 15;

/// The overview.
pub struct ConfusionMatrix;

/// Columns drawn: all classes, and one more where something was taken for none of them.
fn columns(survey: &Survey) -> usize {
    let other = (0..survey.len()).any(|at| survey.readable(at) && survey.predicted[at] == OTHER);
    survey.asked.classes.len() + usize::from(other)
}

/// The accuracy, and of how many images: those that could be read.
fn title(survey: &Survey) -> String {
    let read = (0..survey.len()).filter(|at| survey.readable(*at)).count();
    let rest = match survey.len() - read {
        0 => String::new(),
        rest => format!("; {rest} unreadable"),
    };
    format!("Accuracy {} % of {read} images{rest}", number(survey.accuracy()))
}

/// Where the matrix lies: room for names on the left and above.
struct Layout {
    area: Box2,
    named: bool,
}

fn layout(survey: &Survey, theme: &Theme, size: Size) -> Layout {
    let (rows, columns) = (survey.asked.classes.len(), columns(survey));
    let widest = survey.asked.classes.iter().map(|name| font::width(name, theme.tick)).fold(0.0, f32::max);
    let named = rows <= NAMED;
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

fn share(confusion: &Confusion, row: usize, column: usize) -> f32 {
    confusion.count(row, column) as f32 / confusion.total(row).max(1) as f32
}

impl Overview for ConfusionMatrix {
    fn id(&self) -> &'static str {
        "confusion"
    }

    fn title(&self) -> &'static str {
        "Confusion"
    }

    fn about(&self) -> &'static str {
        "Which class is taken for which: rows are what images are, columns what they are taken for"
    }

    fn height(&self, _: View<'_>, width: f32) -> f32 {
        width * 0.78
    }

    fn scene(&self, view: View<'_>, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (survey, classes) = (view.survey, view.survey.asked.classes.len());
        let confusion = survey.confusion();
        if confusion.counts.iter().all(|count| *count == 0) {
            return Err(Empty("No image could be read".to_owned()));
        }
        let mut scene = Scene::new(size.width, size.height, "Confusion matrix", theme.background);
        let columns = columns(survey);
        let Layout { area, named } = layout(survey, theme, size);
        let accuracy = title(survey);
        frame::title(&mut scene, theme, [area.x, 0.0], &accuracy, size.width - area.x);
        let color =
            |t: f32| if t <= 0.0 { theme.ground.mix(theme.faint, 0.5) } else { view.choice.map.at(t) };
        let pixels = (0..classes * columns).map(|at| color(share(&confusion, at / columns, at % columns)));
        let raster = Raster::new(columns, classes, pixels);
        scene.image(area, raster, false, Some(Identity::Cells { rows: classes, columns }));
        let (w, h) = (area.w / columns as f32, area.h / classes as f32);
        for row in 0..classes {
            let y = area.y + (row as f32 + 0.5) * h;
            if named {
                let name = font::fit(&survey.asked.classes[row], theme.tick, area.x - 4.0);
                scene.text_mid([area.x - 4.0, y], name, theme.tick, theme.ink, Anchor::End);
            }
            for column in (0..columns).filter(|_| classes <= COUNTED && w > 12.0 && h > 7.5) {
                let count = confusion.count(row, column);
                if count > 0 {
                    let x = area.x + (column as f32 + 0.5) * w;
                    let ink = on(color(share(&confusion, row, column)));
                    scene.text_mid([x, y], count.to_string(), theme.tick, ink, Anchor::Middle);
                }
            }
        }
        scene.outline(area, Stroke::new(theme.hair, theme.axis));
        if columns > classes {
            let x = area.right() - w;
            scene.line(vec![[x, area.y], [x, area.bottom()]], Stroke::new(theme.hair, theme.axis));
        }
        let base = area.bottom() + 3.0 + theme.label * font::CAP;
        let across = if columns > classes {
            "Taken for (same order; last: another class)"
        } else {
            "Taken for (same order)"
        };
        scene.text(
            [area.center()[0], base],
            font::fit(across, theme.label, area.w + 40.0),
            theme.label,
            theme.ink,
            Anchor::Middle,
        );
        if !named {
            scene.text_up([theme.label, area.center()[1]], "True class", theme.label, theme.ink);
        }
        legend::color_bar(&mut scene, theme, area, &bar(), |t| view.choice.map.at(t));
        Ok(scene)
    }

    fn table(&self, view: View<'_>) -> Table {
        let (survey, confusion) = (view.survey, view.survey.confusion());
        let classes = &survey.asked.classes;
        let mut table = Table::default().words("true_class", classes.iter().cloned());
        for (column, name) in classes.iter().map(String::as_str).chain(["(another class)"]).enumerate() {
            let counts = (0..classes.len()).map(|row| f64::from(confusion.count(row, column)));
            table = table.numbers(name, counts);
        }
        table
    }

    fn item(&self, view: View<'_>, item: usize) -> (String, Vec<usize>) {
        let survey = view.survey;
        let columns = columns(survey);
        let (row, column) = (item / columns, item % columns);
        let taken = if column < survey.asked.classes.len() { column as u32 } else { OTHER };
        let there = |at: &usize| {
            survey.readable(*at) && survey.asked.class[*at] as usize == row && survey.predicted[*at] == taken
        };
        let images: Vec<usize> = (0..survey.len()).filter(there).collect();
        let name = |class: usize| survey.asked.classes.get(class).map_or("another class", String::as_str);
        (format!("{} taken for {}", name(row), name(column)), images)
    }
}

/// Ink that is read on a cell of this colour.
fn on(cell: Color) -> Color {
    if cell.lightness() > 55.0 { Color::hex(0x10_14_18) } else { Color::hex(0xff_ff_ff) }
}
