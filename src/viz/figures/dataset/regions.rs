//! How a probe reads the regions of a dataset's images: the mean position of each with its interval of 95 % over images, the
//! earliest first, and which is read before which, in percent; of a probe that looks at no order what tokens of each count, or
//! add.

use super::confusion::on;
use super::{Control, Overview, View};
use crate::model::explain::evaluation::regions::{RegionMeans, RegionSummary, position};
use crate::viz::draw::{
    Anchor, Axis, Box2, Identity, Raster, RowChart, Scale, Scene, Stroke, Table, Theme, diverging, extent,
    font, frame,
};
use crate::viz::{Empty, Info, Size, TabGroup};

pub struct Regions;

/// Height of one region in the chart.
const ROW_PT: f32 = 10.5;
/// Height of one that is still read.
const MIN_ROW_PT: f32 = 8.0;
/// Room for the axis of the chart, and the words over the matrix.
const MARGINS_PT: f32 = 40.0;
/// Longest name over a column.
const NAME_PT: f32 = 46.0;
/// Narrowest cell that holds a number.
const CELL_PT: f32 = 9.5;

/// A region with what the chart shows of it: a mean, and its interval where there is one.
struct Row {
    region: usize,
    mean: f64,
    interval: Option<(f64, f64)>,
}

/// What is shown, and its name.
type Shown = (Vec<Row>, &'static str);

fn known(view: View<'_>) -> Result<&RegionSummary, Empty> {
    let nothing = "Nothing is marked in these images: open a folder of masks and evaluate again, or a dataset that brings masks, \
                   parts or boxes along";
    view.evaluation.regions.as_ref().ok_or_else(|| Empty(nothing.to_owned()))
}

/// What can be shown of these regions, the lowest first.
fn shown(found: &RegionSummary) -> Result<Shown, Empty> {
    let placed = |(region, means): (usize, &RegionMeans)| {
        let (mean, (low, high)) = position(&[means])?;
        Some(Row { region, mean, interval: Some((low, high)).filter(|_| low.is_finite()) })
    };
    let plain = |of: fn(&RegionMeans) -> Option<f64>| -> Vec<Row> {
        let row =
            |(region, means): (usize, &RegionMeans)| Some(Row { region, mean: of(means)?, interval: None });
        found.regions.iter().enumerate().filter_map(row).collect()
    };
    let all = [
        (
            found.regions.iter().enumerate().filter_map(placed).collect::<Vec<_>>(),
            "Mean position (0 first, 1 last)",
        ),
        (plain(|means| means.weight), "Token weight (1: an even share)"),
        (plain(|means| means.mean_evidence), "Evidence of a token for its own class"),
    ];
    let first = all.into_iter().find(|(rows, _)| !rows.is_empty());
    let (mut rows, name) = first.ok_or_else(|| Empty("No region has a token in any image".to_owned()))?;
    rows.sort_by(|a, b| a.mean.total_cmp(&b.mean).then(a.region.cmp(&b.region)));
    Ok((rows, name))
}

/// Height of the chart for so many regions.
fn chart(rows: usize, row: f32) -> f32 {
    rows.max(1) as f32 * row + 22.0
}

/// Whether there is a matrix.
fn has_matrix(found: &RegionSummary, rows: usize) -> bool {
    rows > 1 && !found.precedence.is_empty()
}

impl Overview for Regions {
    fn info(&self) -> Info {
        Info {
            id: "region_order",
            title: "Regions of the dataset",
            about: "When the marked regions are read on average, and which is read before which",
            tab: TabGroup::Routing.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[]
    }

    fn height(&self, view: View<'_>, width: f32) -> f32 {
        let Ok((found, (rows, _))) = known(view).and_then(|found| Ok((found, shown(found)?))) else {
            return 60.0;
        };
        let matrix = if has_matrix(found, rows.len()) {
            (width * 0.72).min(rows.len() as f32 * 26.0) + NAME_PT
        } else {
            0.0
        };
        chart(rows.len(), ROW_PT) + matrix + MARGINS_PT
    }

    fn legible(&self, view: View<'_>, width: f32) -> Size {
        let Ok((found, (rows, _))) = known(view).and_then(|found| Ok((found, shown(found)?))) else {
            return Size { width: 0.0, height: 0.0 };
        };
        let matrix =
            if has_matrix(found, rows.len()) { rows.len() as f32 * MIN_ROW_PT + NAME_PT } else { 0.0 };
        Size { width: width.min(180.0), height: chart(rows.len(), MIN_ROW_PT) + matrix + MARGINS_PT }
    }

    fn scene(&self, view: View<'_>, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let found = known(view)?;
        let (rows, name) = shown(found)?;
        let mut scene = Scene::new(size.width, size.height, "Regions", theme.background);
        let line = theme.label + 2.5;
        let title = format!("{} of {} images with something marked", found.images, view.evaluation.len());
        frame::title(&mut scene, theme, [0.0, 0.0], &title, size.width);
        let room = size.height - line;
        let matrix = has_matrix(found, rows.len());
        let high = if matrix { chart(rows.len(), ROW_PT).min(room * 0.45) } else { room };
        points(&mut scene, theme, found, (&rows, name), Box2::new(0.0, line, size.width, high));
        if matrix {
            let top = line + high + theme.gap;
            let words = "Row read before column, % of pairs of tokens";
            frame::title(&mut scene, theme, [0.0, top], words, size.width);
            let area = Box2::new(0.0, top + line, size.width, size.height - top - line);
            cells(&mut scene, theme, found, &rows, area);
        }
        Ok(scene)
    }

    fn table(&self, view: View<'_>) -> Table {
        let Ok(found) = known(view) else { return Table::default() };
        let regions = &found.regions;
        let number =
            |of: fn(&RegionMeans) -> Option<f64>| regions.iter().map(move |row| of(row).unwrap_or(f64::NAN));
        let places: Vec<_> = regions.iter().map(|means| position(&[means])).collect();
        let place =
            |of: fn(&(f64, (f64, f64))) -> f64| places.iter().map(move |at| at.as_ref().map_or(f64::NAN, of));
        let table = Table::default()
            .words("region", regions.iter().map(|row| row.name.clone()))
            .numbers("images", regions.iter().map(|row| row.images as f64))
            .numbers("tokens", regions.iter().map(|row| row.tokens))
            .numbers("position", place(|(mean, _)| *mean))
            .numbers("position_low", place(|(_, (low, _))| *low))
            .numbers("position_high", place(|(_, (_, high))| *high))
            .numbers("weight", number(|row| row.weight))
            .numbers("evidence", number(|row| row.evidence))
            .numbers("mean_evidence", number(|row| row.mean_evidence))
            .numbers("weight_auc", number(|row| row.weight_auc))
            .numbers("evidence_auc", number(|row| row.evidence_auc));
        let column = |table: Table, at: usize| {
            let values = found.precedence.iter().map(|row| row[at].unwrap_or(f64::NAN)).collect::<Vec<_>>();
            if values.is_empty() {
                table
            } else {
                table.numbers(&format!("before {}", regions[at].name), values)
            }
        };
        (0..regions.len()).fold(table, column)
    }

    fn item(&self, view: View<'_>, item: usize) -> (String, Vec<usize>) {
        let Ok((found, (rows, _))) = known(view).and_then(|found| Ok((found, shown(found)?))) else {
            return Default::default();
        };
        let count = rows.len();
        let has = |region: usize, image: &usize| {
            found.regions[region].positions.get(*image).is_some_and(Option::is_some)
        };
        let name = |region: usize| found.regions[region].name.as_str();
        let images = 0..view.evaluation.len();
        match item.checked_sub(count * count) {
            Some(row) if row < count => {
                let region = rows[row].region;
                (name(region).to_owned(), images.filter(|image| has(region, image)).collect())
            }
            None => {
                let (a, b) = (rows[item / count].region, rows[item % count].region);
                let share = found.precedence.get(a).and_then(|row| row[b]);
                let share =
                    share.map_or("no image has both".to_owned(), |share| format!("{:.1} %", 100.0 * share));
                let text = format!("{} before {}: {share}", name(a), name(b));
                (text, images.filter(|image| has(a, image) && has(b, image)).collect())
            }
            Some(_) => Default::default(),
        }
    }
}

/// A dot a region, and its interval.
fn points(scene: &mut Scene, theme: &Theme, found: &RegionSummary, (rows, name): (&[Row], &str), room: Box2) {
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.mean, row.mean));
        [low, row.mean, high]
    });
    let (low, high) = extent(ends).unwrap_or((0.0, 1.0));
    let names: Vec<&str> = rows.iter().map(|row| found.regions[row.region].name.as_str()).collect();
    let chart = RowChart::new(room, Axis::new(Scale::padded(low, high), name, 5), &names, (0.32, 8.0), theme);
    chart.frame.grid(scene, theme);
    for (at, row) in rows.iter().enumerate() {
        let y = chart.name(scene, theme, at, names[at]);
        if let Some((low, high)) = row.interval {
            let ends = vec![[chart.frame.x(low), y], [chart.frame.x(high), y]];
            scene.line(ends, Stroke::new(theme.line, theme.series(0)));
        }
        scene.dot([chart.frame.x(row.mean), y], 1.8, theme.series(0), Some(Stroke::new(0.7, theme.ground)));
        let item = Identity::Item(rows.len() * rows.len() + at);
        scene.target(Box2::new(room.x, y - chart.step / 2.0, room.w, chart.step), item);
    }
    chart.frame.axes(scene, theme);
}

/// Which is read before which: the row before the column.
fn cells(scene: &mut Scene, theme: &Theme, found: &RegionSummary, rows: &[Row], room: Box2) {
    let count = rows.len();
    let names: Vec<&str> = rows.iter().map(|row| found.regions[row.region].name.as_str()).collect();
    let left = font::widest(&names, theme.tick).min(room.w * 0.32) + 6.0;
    let head = font::widest(&names, theme.tick).min(NAME_PT) + 4.0;
    let area = Box2::new(room.x + left, room.y + head, room.w - left - 2.0, room.h - head - 1.0);
    let share = |a: usize, b: usize| found.precedence[rows[a].region][rows[b].region];
    let color = |at: usize| match share(at / count, at % count) {
        Some(share) if at / count != at % count => diverging(theme, 2.0 * share as f32 - 1.0),
        _ => theme.faint,
    };
    let raster = Raster::new(count, count, (0..count * count).map(color));
    scene.image(area, raster, false, Some(Identity::Cells { rows: count, columns: count }));
    let (w, h) = (area.w / count as f32, area.h / count as f32);
    for (at, name) in names.iter().enumerate() {
        let y = area.y + (at as f32 + 0.5) * h;
        let shown = font::fit(name, theme.tick, left - 5.0);
        scene.text_mid([area.x - 4.0, y], shown, theme.tick, theme.ink, Anchor::End);
        if w >= theme.tick {
            let shown = font::fit(name, theme.tick, head - 4.0);
            let x = area.x + (at as f32 + 0.5) * w + theme.tick * font::CAP / 2.0;
            scene.text_up(
                [x, area.y - 3.0 - font::width(&shown, theme.tick) / 2.0],
                shown,
                theme.tick,
                theme.ink,
            );
        }
        for other in (0..count).filter(|other| *other != at && w >= CELL_PT && h >= theme.tick) {
            if let Some(share) = share(at, other) {
                let ink = on(color(at * count + other));
                let place = [area.x + (other as f32 + 0.5) * w, y];
                scene.text_mid(place, format!("{:.0}", 100.0 * share), theme.tick, ink, Anchor::Middle);
            }
        }
    }
    scene.outline(area, Stroke::new(theme.hair, theme.axis));
}
