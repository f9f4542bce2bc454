//! Two measures against each other, one dot per image: both of one probe, or one of each of two probes; the colour then says
//! whether that of the x axis is right. Bands behind the dots show the null of a single image (5th to 95th percentile), for
//! measures that have one, and a line where one measure of two probes is equal.

use super::{Control, Overview, axis_name, image_dots, image_table, label, measure};
use crate::model::explain::evaluation::{CONFIDENCE, Evaluation, spearman};
use crate::viz::figures::plot::EvaluationPlot;
use crate::viz::figures::prelude::*;

pub struct Scatter;

/// The values of a measure, their name, and the null of a single image.
type Column<'a> = (&'a [f32], String, Option<(f64, f64)>);

/// The measures on the x and the y axis, as `label` calls them; their names include the probe if there are two, and the changes to
/// how it reads if it is one, read in two ways.
fn axes<'a>(plot: &'a EvaluationPlot, label: fn(&str) -> String) -> [Column<'a>; 2] {
    let has_two_probes = plot.is_of_two();
    let axis = |evaluation: &'a Evaluation, probe: &str, chosen: &str| {
        let id = measure(evaluation, chosen);
        let name = match &*evaluation.change {
            _ if !has_two_probes => label(id),
            change if plot.names[0] == plot.names[1] && !change.is_empty() => {
                format!("{}, {probe} ({change})", label(id))
            }
            _ => format!("{}, {probe}", label(id)),
        };
        (evaluation.values(id).unwrap_or_default(), name, evaluation.nulls.get(id).copied())
    };
    let [own, other] = &plot.names;
    [axis(&plot.evaluation, own, &plot.choice.measure), axis(&plot.other, other, &plot.choice.against)]
}

/// Whether both axes show the same measure.
fn is_one_measure(EvaluationPlot { evaluation, other, choice, .. }: &EvaluationPlot) -> bool {
    measure(evaluation, &choice.measure) == measure(other, &choice.against)
}

fn scale(values: &[f32], null: Option<(f64, f64)>) -> Option<Scale> {
    let (lo, hi) = extent(values.iter().map(|v| f64::from(*v)))?;
    let (from, to) = null.unwrap_or((lo, hi));
    Some(Scale::padded(lo.min(from), hi.max(to)))
}

impl Overview for Scatter {
    fn info(&self) -> Info {
        Info {
            id: "scatter",
            title: "Scatter",
            about: "Two measures against each other, one dot per image",
            tab: TabGroup::Images.tab(),
        }
    }

    fn controls(&self) -> &'static [Control] {
        &[Control::Measure, Control::Against]
    }

    fn height(&self, _: &EvaluationPlot, width: f32) -> f32 {
        width * 0.78
    }

    fn scene(&self, plot: &EvaluationPlot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let [x, y] = axes(plot, axis_name);
        let none = || Empty("No image has both measures".to_owned());
        let (x_scale, y_scale) = (scale(x.0, x.2).ok_or_else(none)?, scale(y.0, y.2).ok_or_else(none)?);
        let mut scene = Scene::new(size.width, size.height, "Scatter of two measures", theme.background);
        let [right, wrong] = [true, false].map(|right| theme.outcome(right));
        let has_two_probes = plot.is_of_two();
        let words =
            if has_two_probes { ["Probe on x: right", "Probe on x: wrong"] } else { ["Right", "Wrong"] };
        let mut key = vec![(Mark::Dot(right), words[0]), (Mark::Ring(wrong, theme.ink), words[1])];
        if x.2.is_some() || y.2.is_some() {
            key.push((Mark::Patch(theme.band), "Chance, 5 to 95 %"));
        }
        let equal = Stroke::new(pt::LINE, theme.muted).dashed(3.0, 2.0);
        let shared = (x_scale.lo.max(y_scale.lo), x_scale.hi.min(y_scale.hi));
        let shared = Some(shared).filter(|(from, to)| has_two_probes && is_one_measure(plot) && from < to);
        key.extend(shared.map(|_| (Mark::Line(equal), "Equal")));
        let count = x.0.iter().zip(y.0).filter(|(a, b)| a.is_finite() && b.is_finite()).count();
        let rank = spearman(x.0, y.0).map(|rho| minus(format!("{rho:.3}")));
        let rank = rank.map(|rho| format!("Spearman {rho} (n = {count})"));
        if let Some(rank) = &rank {
            key.push((Mark::None, rank));
        }
        let below = legend::above(&mut scene, theme, size, &key);
        let mut frame = Frame::fit(below, Axis::new(x_scale, x.1, 5), Axis::new(y_scale, y.1, 5));
        if has_two_probes {
            // Of the names of the probes what they have in common; that of the measure stays.
            let [own, other] = &plot.names;
            let cut = |label: &str, other: &str, room: f32| {
                font::fit_among(label, &font::common([label, other]), pt::LABEL, room)
            };
            frame.x.label = cut(&frame.x.label, other, frame.across_room(scene.width));
            frame.y.label = cut(&frame.y.label, own, frame.area.h);
        }
        let area = frame.area;
        if let Some(null) = x.2 {
            frame.band(&mut scene, null, theme.band.alpha(0.7));
        }
        if let Some((from, to)) = y.2 {
            let (from, to) = (frame.y(to), frame.y(from));
            scene.fill(Box2::new(area.x, from, area.w, (to - from).max(1.0)), theme.band.alpha(0.7));
        }
        frame.grid(&mut scene, theme);
        if let Some((from, to)) = shared {
            scene.line(vec![frame.at(from, from), frame.at(to, to)], equal);
        }
        let dot = |image: usize| {
            let at = |values: &[f32]| values.get(image).copied().filter(|v| v.is_finite()).map(f64::from);
            let is_right = plot.evaluation.is_correct(image)?;
            Some((usize::from(!is_right), frame.at(at(x.0)?, at(y.0)?)))
        };
        let dots: Vec<_> = (0..plot.evaluation.len()).map(dot).collect();
        // Wrong predictions on top: they are rarer than right ones, and looked for more often.
        image_dots(&mut scene, theme, &[(right, false), (wrong, true)], &dots, plot.selected);
        frame.axes(&mut scene, theme);
        Ok(scene)
    }

    fn table(&self, plot: &EvaluationPlot) -> Table {
        let [x, y] = axes(plot, |measure| match measure {
            CONFIDENCE => CONFIDENCE.to_owned(), // its first name, which files keep
            other => label(other).to_lowercase(),
        });
        let to_f64 = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
        image_table(&plot.evaluation)
            .numbers(&format!("x: {}", x.1), to_f64(x.0))
            .numbers(&format!("y: {}", y.1), to_f64(y.0))
    }

    fn item(&self, plot: &EvaluationPlot, item: usize) -> (String, Vec<usize>) {
        let evaluation = &*plot.evaluation;
        let class = |at: usize| evaluation.set.classes[evaluation.set.class[at] as usize].as_str();
        if item >= evaluation.len() {
            return (String::new(), Vec::new());
        }
        let name = &evaluation.set.images[item];
        let [x, y] = axes(plot, label);
        let line = |(values, name, _): Column<'_>| {
            let value = values.get(item).map_or(f64::NAN, |v| f64::from(*v));
            format!("\n{name}: {}", number(value))
        };
        let predicted = evaluation.predicted_name(item);
        (format!("{name}: {}, predicted as {predicted}{}{}", class(item), line(x), line(y)), vec![item])
    }
}
