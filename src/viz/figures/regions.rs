//! The annotated regions of an image over the picture, and a list of how the probe reads each: its position in the order, the
//! weight and the evidence of its tokens, and how well weights and evidence localise it.

use crate::model::explain::regions::{RegionMeasure, RegionMeasures};
use crate::model::trace::{Matrix, Regions as TraceRegions};
use crate::viz::draw::outlines;
use crate::viz::figures::prelude::*;
use crate::viz::figures::token_map::class_name;

pub struct Regions;

/// Height of a row of the list, in points.
const ROW_PT: f32 = 9.5;
/// Largest width of the picture on a page, in points.
const PICTURE_PT: f32 = 170.0;
/// Width from which the list is beside the picture, not below it, in points.
const BESIDE_FROM_PT: f32 = 430.0;
/// Columns of the list: heading, and width in points.
const COLUMNS: [(&str, f32); 6] = [
    ("Tokens", 26.0),
    ("Read at", 28.0),
    ("Weight", 27.0),
    ("Evidence", 33.0),
    ("AUC weight", 39.0),
    ("AUC evid.", 36.0),
];

/// The list: every region, and the whole object unless it is one of them.
struct Rows {
    measures: RegionMeasures,
    names: Vec<String>,
    rows: Vec<RegionMeasure>,
    notes: Vec<String>,
}

fn nothing() -> Empty {
    let why = "No regions are marked in this image: open a folder of masks, or a dataset with masks, parts or boxes; \
               shuffled tokens have none";
    Empty(why.to_owned())
}

/// The regions of a trace, not measured yet: that takes a pass over the plan, and a window asks in every frame.
fn known(trace: &Trace) -> Result<&TraceRegions, Empty> {
    let known = trace.regions.as_ref().filter(|known| !known.list.is_empty()).ok_or_else(nothing)?;
    match trace.minus {
        Some(_) => Err(Empty("Regions are for a single reading: turn differences off".to_owned())),
        None => Ok(known),
    }
}

/// Whether the whole object has a row of its own: where it is none of the regions.
fn has_object(known: &TraceRegions) -> bool {
    known.list.iter().all(|region| region.cover != known.object)
}

fn rows(trace: &Trace) -> Result<Rows, Empty> {
    let known = known(trace)?;
    let measures = RegionMeasures::of_trace(trace).ok_or_else(nothing)?;
    let name = |(at, region): (usize, &RegionMeasure)| match outlines::label(known, at) {
        label if label == region.name => label,
        number => format!("{number} {}", region.name),
    };
    let mut names: Vec<String> = measures.regions.iter().enumerate().map(name).collect();
    let mut rows = measures.regions.clone();
    if has_object(known) {
        names.push("All together".to_owned());
        rows.push(measures.object.clone());
    }
    Ok(Rows { measures, names, rows, notes: notes(trace, known) })
}

/// The notes under the list: units, and regions that are empty or outside the crop or the image.
fn notes(trace: &Trace, known: &TraceRegions) -> Vec<String> {
    let note = |names: &Vec<String>, what: &str| {
        (!names.is_empty()).then(|| format!("{}: {what}", names.join(", ")))
    };
    let units = format!("Read at 0 first, 1 last; weight 1: as in GAP; evidence for {}", class_name(trace));
    let skipped = [
        note(&known.empty, "the mask is empty"),
        note(&known.cropped, "beyond the crop"),
        note(&known.beyond, "beyond the image, which may have been resized"),
    ];
    std::iter::once(units).chain(skipped.into_iter().flatten()).collect()
}

/// The cells of a row, in the order of [`COLUMNS`]; a dash for unknown values.
fn cells(row: &RegionMeasure) -> [String; 6] {
    let text = |value: Option<f64>, digits: usize| {
        value.filter(|v| v.is_finite()).map_or("–".to_owned(), |v| minus(format!("{v:.digits$}")))
    };
    [
        row.tokens.to_string(),
        text(row.position, 2),
        text(row.weight, 2),
        text(row.evidence, 3),
        text(row.weight_auc, 3),
        text(row.evidence_auc, 3),
    ]
}

/// Height of the list at this width, notes included, in points.
fn list_height(trace: &Trace, known: &TraceRegions, width: f32) -> f32 {
    let rows = known.list.len() + usize::from(has_object(known)) + 1;
    let notes = notes(trace, known);
    let notes: usize = notes.iter().map(|note| font::break_lines(note, pt::TICK, width).len()).sum();
    rows as f32 * ROW_PT + notes as f32 * pt::TICK * 1.3 + 4.0
}

impl Figure for Regions {
    fn info(&self) -> Info {
        Info {
            id: "regions",
            title: "Regions",
            about: "Annotated parts, masks or boxes over the picture, and how the probe reads each: when, how much it counts, and what it adds",
            tab: TabGroup::OnRequest.tab(),
        }
    }

    fn controls(&self, _: &Trace) -> &'static [Control] {
        &[Control::Grid]
    }

    fn properties(&self) -> Properties {
        Properties { names_classes: true, least_width: 190.0, ..Properties::default() }
    }

    fn height(&self, trace: &Trace, _: &Options, width: f32) -> f32 {
        let Ok(known) = known(trace) else { return 60.0 };
        let side = width.min(PICTURE_PT) * picture::aspect(trace);
        match width >= BESIDE_FROM_PT {
            true => side.max(list_height(trace, known, width - PICTURE_PT - pt::GAP)),
            false => side + pt::GAP + list_height(trace, known, width),
        }
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        known(trace).err()
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        let known = hover.item.and_then(|at| Some((at, rows(trace).ok()?)));
        let Some((at, rows)) = known.filter(|(at, rows)| *at < rows.measures.regions.len()) else {
            return crate::viz::readout::readout(trace, hover);
        };
        let others = (0..rows.measures.regions.len()).filter(|other| *other != at);
        let before = |readout: Readout, other: usize| match rows.measures.before(at, other) {
            Some(share) => {
                let name = format!("Before {}", rows.measures.regions[other].name);
                readout.line(name, format!("{} %", number((1000.0 * share).round() / 10.0)))
            }
            None => readout,
        };
        others.fold(Readout::titled(&rows.measures.regions[at].name), before)
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let (known, rows) = (known(trace)?, rows(trace)?);
        let mut scene = Scene::new(size.width, size.height, "Regions", theme.background);
        let aspect = picture::aspect(trace);
        let (seen, list) = if size.width >= BESIDE_FROM_PT {
            let list_width = COLUMNS.iter().map(|(_, width)| width).sum::<f32>() + 90.0;
            let seen = Box2::new(0.0, 0.0, size.width - list_width - 2.0 * pt::GAP, size.height)
                .largest(1.0, aspect);
            let x = seen.right() + 2.0 * pt::GAP;
            (seen, Box2::new(x, 0.0, size.width - x, size.height))
        } else {
            let below = list_height(trace, known, size.width).min(size.height * 0.7);
            let room = Box2::new(0.0, 0.0, size.width, size.height - below - pt::GAP).largest(1.0, aspect);
            (room, Box2::new(0.0, size.height - below, size.width, below))
        };
        picture::seen(&mut scene, theme, trace, seen, 0.0);
        if options.grid {
            picture::lines(&mut scene, theme, trace.grid, seen);
        }
        outlines::draw(&mut scene, theme, known, trace.grid, seen);
        draw_list(&mut scene, theme, &rows, list);
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let Ok(Rows { measures, .. }) = rows(trace) else { return Table::default() };
        let regions = &measures.regions;
        let table = Table::default()
            .words("region", regions.iter().map(|row| row.name.clone()))
            .numbers("tokens", regions.iter().map(|row| row.tokens as f64))
            .numbers("position", regions.iter().map(|row| row.position))
            .numbers("weight", regions.iter().map(|row| row.weight))
            .numbers("evidence", regions.iter().map(|row| row.evidence))
            .numbers("mean_evidence", regions.iter().map(|row| row.mean_evidence))
            .numbers("weight_auc", regions.iter().map(|row| row.weight_auc))
            .numbers("evidence_auc", regions.iter().map(|row| row.evidence_auc));
        if measures.precedence.is_empty() {
            return table;
        }
        let data = measures.precedence.iter().map(|&share| share as f32).collect();
        table.matrix("precedence", Matrix { rows: regions.len(), cols: regions.len(), data })
    }
}

fn draw_list(scene: &mut Scene, theme: &Theme, rows: &Rows, area: Box2) {
    let numbers: f32 = COLUMNS.iter().map(|(_, width)| width).sum();
    let names = (area.w - numbers).max(30.0);
    let tick = pt::TICK * 0.95;
    // In a narrow area the last columns are left out.
    let fits = |at: usize| names + COLUMNS[..=at].iter().map(|(_, width)| width).sum::<f32>() <= area.w + 0.1;
    let right = |at: usize| area.x + names + COLUMNS[..=at].iter().map(|(_, width)| width).sum::<f32>();
    frame::title(scene, theme, [area.x, area.y], "Region", names);
    for (at, (heading, width)) in COLUMNS.iter().enumerate().filter(|(at, _)| fits(*at)) {
        let base = area.y + pt::LABEL * font::CAP + 0.5;
        scene.text([right(at), base], font::fit(heading, tick, width - 2.0), tick, theme.muted, Anchor::End);
    }
    let rule = area.y + ROW_PT - 0.5;
    scene.line(vec![[area.x, rule], [area.right(), rule]], Stroke::new(pt::HAIR, theme.axis));
    let line = pt::TICK * 1.3;
    let notes: Vec<String> =
        rows.notes.iter().flat_map(|note| font::break_lines(note, pt::TICK, area.w)).collect();
    let room = area.h - ROW_PT - notes.len() as f32 * line - 4.0;
    let shown = (((room + 0.5) / ROW_PT).max(1.0) as usize).min(rows.rows.len());
    let cut = shown < rows.rows.len();
    for (at, (row, name)) in rows.rows.iter().zip(&rows.names).take(shown).enumerate() {
        let y = area.y + (at as f32 + 1.5) * ROW_PT;
        if cut && at + 1 == shown {
            let more = format!("… {} more: in the table of an export", rows.rows.len() - at);
            scene.text_mid([area.x, y], font::fit(&more, tick, area.w), tick, theme.muted, Anchor::Start);
            break;
        }
        scene.text_mid([area.x, y], font::fit(name, tick, names - 2.0), tick, theme.ink, Anchor::Start);
        for (column, cell) in cells(row).into_iter().enumerate().filter(|(column, _)| fits(*column)) {
            scene.text_mid([right(column), y], cell, tick, theme.ink, Anchor::End);
        }
        scene.target(Box2::new(area.x, y - ROW_PT / 2.0, area.w, ROW_PT), Identity::Item(at));
    }
    for (at, note) in notes.into_iter().enumerate() {
        let y = area.y + (shown + 1) as f32 * ROW_PT + 4.0 + (at as f32 + 0.5) * line;
        scene.text_mid([area.x, y], note, pt::TICK, theme.muted, Anchor::Start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::grid::Grid;
    use crate::model::trace::{Region, Routing};

    #[test]
    fn what_there_is_to_show_is_known_without_a_pass_over_the_plan() {
        let region = Region { number: 1, name: "beak".into(), cover: vec![1.0, 0.0] };
        let regions = TraceRegions { list: vec![region], object: vec![1.0; 2], ..TraceRegions::default() };
        // A plan without shares, which a pass over it would not survive.
        let routing = Routing::Plan(Matrix { rows: 2, cols: 2, data: Vec::new() });
        let trace = Trace { grid: Grid::new(1, 2), regions: Some(regions), routing, ..Trace::default() };
        assert_eq!(Regions.lacks(&trace), None);
        assert!(Regions.height(&trace, &Options::default(), 200.0) > 3.0 * ROW_PT);
        let bare = Trace { regions: None, ..trace };
        assert_eq!(Regions.lacks(&bare), Some(nothing()));
    }

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        let row = RegionMeasure { evidence: Some(-0.0004), ..RegionMeasure::default() };
        assert_eq!(cells(&row)[3], "0.000");
    }
}
