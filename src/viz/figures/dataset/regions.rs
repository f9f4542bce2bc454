//! How a probe reads the marked regions of the images of a dataset: above, the mean position of each with its 95 % interval over
//! images, the earliest first; below, how often each is read before each other, in percent. For a probe without an order, the
//! mean weight of the tokens of each region instead, or their mean evidence.

use super::confusion::on;
use super::{Control, Overview, noun};
use crate::model::explain::evaluation::regions::{RegionMeans, RegionSummary, position};
use crate::model::explain::evaluation::vectors::SHUFFLED;
use crate::viz::figures::plot::EvaluationPlot;
use crate::viz::figures::prelude::*;

pub struct Regions;

/// Height of the row of a region in the chart.
const ROW_PT: f32 = 10.5;
/// Smallest height of such a row that can be read.
const MIN_ROW_PT: f32 = 8.0;
/// Room for the axis of the chart and the title of the matrix.
const MARGINS_PT: f32 = 40.0;
/// Largest length of a name over a column.
const NAME_PT: f32 = 46.0;
/// Smallest width of a cell with a number in it.
const CELL_PT: f32 = 9.5;

/// A row of the chart: a region by its index in [`RegionSummary::regions`], its mean, and the interval if it has one.
struct Row {
    region: usize,
    mean: f64,
    interval: Option<(f64, f64)>,
}

/// The rows of the chart, and the name of their axis.
type Chart = (Vec<Row>, &'static str);

fn summary(plot: &EvaluationPlot) -> Result<&RegionSummary, Empty> {
    let nothing = "No regions are marked in these images: open a folder of masks and evaluate again, or a dataset \
                   with masks, parts or boxes";
    if plot.evaluation.is_shuffled() {
        return Err(Empty(SHUFFLED.to_owned()));
    }
    plot.evaluation.regions.as_ref().ok_or_else(|| Empty(nothing.to_owned()))
}

/// The chart of the first quantity that any region has of position, weight and evidence; the lowest mean first.
fn chart(summary: &RegionSummary) -> Result<Chart, Empty> {
    let position_row = |(region, means): (usize, &RegionMeans)| {
        let (mean, (low, high)) = position(&[means])?;
        Some(Row { region, mean, interval: Some((low, high)).filter(|_| low.is_finite()) })
    };
    let rows_of = |value: fn(&RegionMeans) -> Option<f64>| -> Vec<Row> {
        let row = |(region, means): (usize, &RegionMeans)| {
            Some(Row { region, mean: value(means)?, interval: None })
        };
        summary.regions.iter().enumerate().filter_map(row).collect()
    };
    let all = [
        (
            summary.regions.iter().enumerate().filter_map(position_row).collect::<Vec<_>>(),
            "Mean position (0 first, 1 last)",
        ),
        (rows_of(|means| means.weight), "Token weight (1: as in GAP)"),
        (rows_of(|means| means.mean_evidence), "Evidence of a token for its own class"),
    ];
    let first = all.into_iter().find(|(rows, _)| !rows.is_empty());
    let (mut rows, name) = first.ok_or_else(|| Empty("No region covers a token in any image".to_owned()))?;
    rows.sort_by(|a, b| a.mean.total_cmp(&b.mean).then(a.region.cmp(&b.region)));
    Ok((rows, name))
}

fn summary_and_chart(plot: &EvaluationPlot) -> Result<(&RegionSummary, Chart), Empty> {
    let summary = summary(plot)?;
    Ok((summary, chart(summary)?))
}

/// Height of the chart with `rows` rows of height `row`.
fn chart_height(rows: usize, row: f32) -> f32 {
    rows.max(1) as f32 * row + 22.0
}

/// Whether the matrix of which region is read before which is drawn below the `rows` rows of the chart.
fn has_matrix(summary: &RegionSummary, rows: usize) -> bool {
    rows > 1 && !summary.precedence.is_empty()
}

/// In how many images the matrix compares two regions, as the end of its title.
fn images_of_pairs(summary: &RegionSummary, rows: &[Row]) -> String {
    let with_earlier =
        |(at, a): (usize, &Row)| rows[..at].iter().map(|b| summary.pairs[a.region][b.region]).collect();
    let counts: Vec<usize> = rows.iter().enumerate().flat_map::<Vec<usize>, _>(with_earlier).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least < most => format!(", in {least} to {most} images"),
        (_, Some(most)) => format!(", in {most} {}", noun(*most)),
        _ => String::new(),
    }
}

impl Overview for Regions {
    fn info(&self) -> Info {
        Info {
            id: "region_order",
            title: "Regions of the dataset",
            about: "The mean position of each marked region with its 95 % interval over images, and which of two is read first",
            tab: TabGroup::Routing.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[]
    }

    fn height(&self, plot: &EvaluationPlot, width: f32) -> f32 {
        let Ok((summary, (rows, _))) = summary_and_chart(plot) else {
            return 60.0;
        };
        let matrix = if has_matrix(summary, rows.len()) {
            (width * 0.72).min(rows.len() as f32 * 26.0) + NAME_PT
        } else {
            0.0
        };
        chart_height(rows.len(), ROW_PT) + matrix + MARGINS_PT
    }

    fn legible(&self, plot: &EvaluationPlot, width: f32) -> Size {
        let Ok((summary, (rows, _))) = summary_and_chart(plot) else { return Size::default() };
        let matrix =
            if has_matrix(summary, rows.len()) { rows.len() as f32 * MIN_ROW_PT + NAME_PT } else { 0.0 };
        Size { width: width.min(180.0), height: chart_height(rows.len(), MIN_ROW_PT) + matrix + MARGINS_PT }
    }

    fn scene(&self, plot: &EvaluationPlot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (summary, (rows, name)) = summary_and_chart(plot)?;
        let mut scene = Scene::new(size.width, size.height, "Regions", theme.background);
        let line = frame::TITLE_HEIGHT;
        let key = if rows.iter().any(|row| row.interval.is_some()) { "; line: 95 % interval" } else { "" };
        let (marked, all) = (summary.images, plot.evaluation.len());
        let title = format!("{marked} of {all} images with regions{key}");
        frame::title(&mut scene, theme, [0.0, 0.0], &title, size.width);
        let room = size.height - line;
        let matrix = has_matrix(summary, rows.len());
        let chart_height = if matrix { chart_height(rows.len(), ROW_PT).min(room * 0.45) } else { room };
        draw_chart(&mut scene, theme, summary, (&rows, name), Box2::new(0.0, line, size.width, chart_height));
        if matrix {
            let top = line + chart_height + pt::GAP;
            let words =
                format!("Row read before column, % of pairs of tokens{}", images_of_pairs(summary, &rows));
            frame::title(&mut scene, theme, [0.0, top], &words, size.width);
            let area = Box2::new(0.0, top + line, size.width, size.height - top - line);
            draw_matrix(&mut scene, theme, summary, &rows, area);
        }
        Ok(scene)
    }

    fn table(&self, plot: &EvaluationPlot) -> Table {
        let Ok(summary) = summary(plot) else { return Table::default() };
        let regions = &summary.regions;
        let positions: Vec<_> = regions.iter().map(|means| position(&[means])).collect();
        let table = Table::default()
            .words("region", regions.iter().map(|row| row.name.clone()))
            .numbers("images", regions.iter().map(|row| row.images as f64))
            .numbers("tokens", regions.iter().map(|row| row.tokens))
            .numbers("position", positions.iter().map(|at| at.map(|(mean, _)| mean)))
            .numbers("position_low", positions.iter().map(|at| at.map(|(_, (low, _))| low)))
            .numbers("position_high", positions.iter().map(|at| at.map(|(_, (_, high))| high)))
            .numbers("weight", regions.iter().map(|row| row.weight))
            .numbers("evidence", regions.iter().map(|row| row.evidence))
            .numbers("mean_evidence", regions.iter().map(|row| row.mean_evidence))
            .numbers("weight_auc", regions.iter().map(|row| row.weight_auc))
            .numbers("evidence_auc", regions.iter().map(|row| row.evidence_auc));
        let before = |table: Table, at: usize| {
            let name = format!("before {}", regions[at].name);
            table.numbers(&name, summary.precedence.iter().map(|row| row[at]))
        };
        let images = |table: Table, at: usize| {
            let name = format!("images with {}", regions[at].name);
            table.numbers(&name, summary.pairs.iter().map(|row| row[at] as f64))
        };
        let table = (0..summary.precedence.len()).fold(table, before);
        (0..summary.pairs.len()).fold(table, images)
    }

    fn item(&self, plot: &EvaluationPlot, item: usize) -> (String, Vec<usize>) {
        let Ok((summary, (rows, axis))) = summary_and_chart(plot) else {
            return Default::default();
        };
        let count = rows.len();
        let has = |region: usize, image: &usize| {
            summary.regions[region].positions.get(*image).is_some_and(Option::is_some)
        };
        let name = |region: usize| summary.regions[region].name.as_str();
        let images = 0..plot.evaluation.len();
        match item.checked_sub(count * count) {
            Some(row) if row < count => {
                let Row { region, mean, interval } = rows[row];
                let interval = interval.map(|(low, high)| [low, high].map(number).join(" to "));
                let interval = interval.map_or_else(String::new, |ends| format!(", 95 % interval {ends}"));
                let text = format!("{}\n{axis}: {}{interval}", name(region), number(mean));
                (text, images.filter(|image| has(region, image)).collect())
            }
            None => {
                let (a, b) = (rows[item / count].region, rows[item % count].region);
                let images: Vec<usize> = images.filter(|image| has(a, image) && has(b, image)).collect();
                let share = summary.precedence.get(a).and_then(|row| row[b]).map(|share| {
                    format!("{:.1} % in {} {}", 100.0 * share, images.len(), noun(images.len()))
                });
                let share = share.unwrap_or("no image has both".to_owned());
                (format!("{} before {}: {share}", name(a), name(b)), images)
            }
            Some(_) => Default::default(),
        }
    }
}

/// Draws the chart: for every region a dot at its mean, and a line over its interval.
fn draw_chart(
    scene: &mut Scene,
    theme: &Theme,
    summary: &RegionSummary,
    (rows, name): (&[Row], &str),
    room: Box2,
) {
    let ends = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.mean, row.mean));
        [low, row.mean, high]
    });
    let (low, high) = extent(ends).unwrap_or((0.0, 1.0));
    let names: Vec<&str> = rows.iter().map(|row| summary.regions[row.region].name.as_str()).collect();
    let chart = RowChart::new(room, Axis::new(Scale::padded(low, high), name, 5), &names, (0.32, 8.0));
    chart.frame.grid(scene, theme);
    for (at, row) in rows.iter().enumerate() {
        let y = chart.name(scene, theme, at, names[at]);
        if let Some((low, high)) = row.interval {
            let ends = vec![[chart.frame.x(low), y], [chart.frame.x(high), y]];
            scene.line(ends, Stroke::new(pt::LINE, theme.series(0)));
        }
        scene.dot([chart.frame.x(row.mean), y], 1.8, theme.series(0), Some(Stroke::new(0.7, theme.ground)));
        let item = Identity::Item(rows.len() * rows.len() + at);
        scene.target(Box2::new(room.x, y - chart.step / 2.0, room.w, chart.step), item);
    }
    chart.frame.axes(scene, theme);
}

/// Draws the matrix: a cell is how often the region of its row is read before that of its column.
fn draw_matrix(scene: &mut Scene, theme: &Theme, summary: &RegionSummary, rows: &[Row], room: Box2) {
    let count = rows.len();
    let names: Vec<&str> = rows.iter().map(|row| summary.regions[row.region].name.as_str()).collect();
    let left = font::widest(&names, pt::TICK).min(room.w * 0.32) + 6.0;
    let head = font::widest(&names, pt::TICK).min(NAME_PT) + 4.0;
    let area = Box2::new(room.x + left, room.y + head, room.w - left - 2.0, room.h - head - 1.0);
    let share = |a: usize, b: usize| summary.precedence[rows[a].region][rows[b].region];
    let color = |at: usize| match share(at / count, at % count) {
        Some(share) if at / count != at % count => diverging(theme, 2.0 * share as f32 - 1.0),
        _ => theme.faint,
    };
    let raster = Raster::new(count, count, (0..count * count).map(color));
    scene.image(area, raster, false, Some(Identity::Cells { rows: count, columns: count }));
    let (w, h) = (area.w / count as f32, area.h / count as f32);
    for (at, name) in names.iter().enumerate() {
        let y = area.y + (at as f32 + 0.5) * h;
        let shown = font::fit(name, pt::TICK, left - 5.0);
        scene.text_mid([area.x - 4.0, y], shown, pt::TICK, theme.ink, Anchor::End);
        if w >= pt::TICK {
            let shown = font::fit(name, pt::TICK, head - 4.0);
            let x = area.x + (at as f32 + 0.5) * w + pt::TICK * font::CAP / 2.0;
            let middle = area.y - 3.0 - font::width(&shown, pt::TICK) / 2.0;
            scene.text_up([x, middle], shown, pt::TICK, theme.ink);
        }
        for other in (0..count).filter(|other| *other != at && w >= CELL_PT && h >= pt::TICK) {
            if let Some(share) = share(at, other) {
                let ink = on(color(at * count + other));
                let place = [area.x + (other as f32 + 0.5) * w, y];
                scene.text_mid(place, format!("{:.0}", 100.0 * share), pt::TICK, ink, Anchor::Middle);
            }
        }
    }
    scene.outline(area, Stroke::new(pt::HAIR, theme.axis));
}
