//! Whether the order matters: a histogram of the values of random orders of the same tokens, with the values of the order that
//! was read, the best and the worst; below, the parts the value is the sum of: content (a bag of the tokens), a fixed order and
//! routing. A difference of two tests shows these parts alone: a place among the orders of one's own tokens has no difference.

use crate::model::trace::{
    Found, HISTOGRAM_BINS, HISTOGRAM_END, OrderContrast, OrderTest as Outcome, Reassigned,
};
use crate::viz::difference::{delta, signed, value, with_plus};
use crate::viz::draw::bars;
use crate::viz::draw::scale::number_like;
use crate::viz::figures::dataset::confusion::on;
use crate::viz::figures::prelude::*;
use crate::viz::figures::token_map::{class_name, name_of};
use crate::viz::heading::capitalised;

pub struct OrderTest;

/// Names of the parts of a value, in the order of their sum.
const PARTS: [&str; 3] = ["Content", "Fixed order", "Routing"];
/// Names of the parts of a difference, and of their sum.
const DIFFERENCE_PARTS: [&str; 4] = ["Δ content", "Δ fixed order", "Δ routing", "Δ in all"];
/// Height of the row of a part.
const ROW_PT: f32 = 12.0;
/// Height of an axis and its name.
const AXIS_PT: f32 = 28.0;

/// The contrast to draw: the margin, or the logit of a probe with a single class; otherwise why there is none.
fn contrast(trace: &Trace) -> Result<&OrderContrast, Empty> {
    let empty = |why: &str| Err(Empty(why.to_owned()));
    let test = match &trace.order_test {
        Some(Found::Some(test)) => test,
        Some(Found::None { none }) => return empty(none),
        None if trace.minus.is_some() => {
            return empty("One of the two traces has no order test; recreate that trace");
        }
        None => return empty("The trace has no order test; recreate the trace"),
    };
    let shown = test.margin.as_ref().unwrap_or(&test.logit);
    let numbers = [shown.value, shown.best, shown.worst, shown.reassigned.mean, shown.reassigned.std];
    if numbers.iter().chain(&cumulative(shown)).any(|number| !number.is_finite()) {
        return empty("The order test of the trace contains non-finite values; recreate the trace");
    }
    if shown.reassigned.z.is_none() && trace.minus.is_none() {
        return empty("All orders of these tokens give the same value");
    }
    Ok(shown)
}

/// The quantity of the contrast; class names are shortened to half the room each if it is wider than `room`.
fn axis_name(trace: &Trace, shown: &OrderContrast, room: f32) -> String {
    let own = class_name(trace);
    let Some(rival) = shown.against else { return format!("Logit of {own}") };
    let name = |[own, rival]: [&str; 2]| format!("Margin of {own} over {rival}");
    let classes = [own, name_of(trace, rival)];
    let [full, without_classes] = [name(classes.each_ref().map(String::as_str)), name([""; 2])];
    if font::width(&full, pt::LABEL) <= room {
        return full;
    }
    let half = (room - font::width(&without_classes, pt::LABEL)) / 2.0;
    name(classes.map(|class| font::fit_middle(&class, pt::LABEL, half)).each_ref().map(String::as_str))
}

/// The strokes of the normal distribution, of the order that was read, and of the best and the worst.
fn strokes(theme: &Theme) -> [Stroke; 3] {
    [
        Stroke::new(pt::LINE, theme.muted).dashed(3.0, 2.0),
        Stroke::new(1.4 * pt::LINE, theme.series(1)),
        Stroke::new(pt::LINE, theme.ink).dashed(1.0, 2.0),
    ]
}

/// The entries of the legend, in a figure `room` points wide.
fn key(theme: &Theme, shown: &OrderContrast, room: f32) -> Vec<(Mark, String)> {
    let [normal, read, end] = strokes(theme).map(Mark::Line);
    let null = &shown.reassigned;
    let z = minus(format!("{:.1}", null.z.unwrap_or_default()));
    let kind = shown.descriptive.then(|| "descriptive".to_owned());
    let headroom = shown.headroom.map(|h| format!("headroom {} %", minus(format!("{:.0}", 100.0 * h))));
    let mut key =
        vec![(Mark::Patch(theme.series(0)), "Orders drawn".to_owned()), (normal, "Normal".to_owned())];
    key.extend(entries(read, format!("As read: z = {z}, {}", p_text(null.p)), kind, room));
    key.extend(entries(end, "Worst and best order".to_owned(), headroom, room));
    key
}

/// An entry of a legend in a figure `room` points wide; two where it is wider, so that no number is cut.
pub(super) fn entries(mark: Mark, text: String, more: Option<String>, room: f32) -> Vec<(Mark, String)> {
    let whole = more.as_ref().map_or_else(|| text.clone(), |more| format!("{text}, {more}"));
    if font::width(&whole, pt::TICK) <= room - legend::MARK_PT {
        return vec![(mark, whole)];
    }
    let more = more.map(|more| (Mark::None, capitalised(&more)));
    std::iter::once((mark, text)).chain(more).collect()
}

/// Cumulative sums of the parts: content, content and fixed order, all three.
fn cumulative(shown: &OrderContrast) -> [f64; 3] {
    let fixed = shown.content + shown.fixed_order;
    [shown.content, fixed, fixed + shown.routing]
}

/// A p value with three decimals, which round none to 0 or 1.
pub(crate) fn p_text(p: f64) -> String {
    match p {
        ..0.001 => "p < 0.001".to_owned(),
        0.9995.. => "p > 0.999".to_owned(),
        _ => format!("p = {p:.3}"),
    }
}

impl Figure for OrderTest {
    fn info(&self) -> Info {
        Info {
            id: "order_test",
            title: "Order test",
            about: "What all orders of the same tokens would give, and where the one that was read ranks among them",
            tab: TabGroup::Order.tab(),
        }
    }

    fn properties(&self) -> Properties {
        Properties { is_for_one_class: true, names_classes: true, ..Properties::default() }
    }

    fn legend_lines(&self, trace: &Trace, width: f32) -> usize {
        let lines = |shown| legend::lines(width, &key(&Theme::light(), shown, width));
        contrast(trace).ok().filter(|_| trace.minus.is_none()).map_or(0, lines)
    }

    fn height(&self, trace: &Trace, options: &Options, width: f32) -> f32 {
        if trace.minus.is_some() {
            return DIFFERENCE_PARTS.len() as f32 * ROW_PT + AXIS_PT;
        }
        let more = options.keys.legend_lines(self.legend_lines(trace, width)).saturating_sub(2);
        // A legend of more than two lines takes no height from the chart.
        width * 0.5 + 3.0 * ROW_PT + more as f32 * legend::ROW_PT
    }

    fn limits(&self, trace: &Trace) -> Option<(f64, f64)> {
        let shown = contrast(trace).ok()?;
        let Reassigned { mean, std, .. } = shown.reassigned;
        let ends = match trace.minus {
            Some(_) => [0.0; 4],
            None => [shown.worst, shown.best, mean - HISTOGRAM_END * std, mean + HISTOGRAM_END * std],
        };
        // The fixed order of a soft plan may give a value far from those of all random orders.
        extent(cumulative(shown).into_iter().chain(ends))
    }

    fn lacks(&self, trace: &Trace) -> Option<Empty> {
        contrast(trace).err()
    }

    fn readout(&self, trace: &Trace, hover: Hover) -> Readout {
        let (Ok(shown), Some(item)) = (contrast(trace), hover.item) else { return Readout::default() };
        let null = &shown.reassigned;
        if let Some(part) = item.checked_sub(HISTOGRAM_BINS) {
            let adds =
                [shown.content, shown.fixed_order, shown.routing].get(part).copied().unwrap_or(shown.value);
            let name = PARTS.get(part).copied().unwrap_or("In all");
            return Readout::titled(label(trace, name))
                .line(label(trace, "Adds"), value(trace, adds))
                .line(label(trace, "In all"), value(trace, shown.value));
        }
        let count = null.histogram.get(item).copied().unwrap_or_default();
        // The outermost bins hold all that lies beyond, too.
        let (from, to) = (number(bin_start(shown, item)), number(bin_start(shown, item + 1)));
        let bin = Readout::titled("Drawn orders");
        let bin = if item > 0 { bin.line("From", from) } else { bin };
        let bin = if item < HISTOGRAM_BINS - 1 { bin.line("To", to) } else { bin };
        bin.line("Orders", format!("{count} of {}", null.draws))
    }

    fn scene(&self, trace: &Trace, options: &Options, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let shown = contrast(trace)?;
        if trace.minus.is_some() {
            let limits = options.limits.or_else(|| self.limits(trace)).unwrap_or_default();
            return Ok(draw_difference(trace, shown, limits, theme, size));
        }
        let null = &shown.reassigned;
        let mut scene = Scene::new(size.width, size.height, "Order test", theme.background);
        let [normal, read, end] = strokes(theme);
        let below = legend::above(&mut scene, theme, size, &key(theme, shown, size.width));
        let below = options.keys.below_legend(below);
        // Limits that are set leave more room, but cut nothing.
        let limits = self.limits(trace).into_iter().chain(options.limits).flat_map(|(low, high)| [low, high]);
        let (from, to) = extent(limits).unwrap_or_default();
        let x = Axis::new(Scale::padded(from, to), axis_name(trace, shown, f32::INFINITY), 5);

        // In a pane so low that they would leave no chart, the parts are left out.
        let rows = 3.0 * ROW_PT;
        let rows = if below.h < rows + AXIS_PT { 0.0 } else { rows };
        let parts = Box2 { y: below.bottom() - rows, h: rows, ..below };
        let largest_bin = null.histogram.iter().copied().max().unwrap_or(0);
        let top = 1.05 * (f64::from(largest_bin) / null.draws.max(1) as f64).max(normal_share(0.0));
        let fit = |left: f32| {
            let outer = Box2::new(left, below.y, below.right() - left, below.h - parts.h);
            Frame::fit(outer, x.clone(), Axis::new(Scale::linear(0.0, top), "Share of orders", 3))
        };
        // The names of the parts stand left of the same axis.
        let names = font::widest(PARTS, pt::TICK) + 6.0;
        let mut frame = fit((names - fit(0.0).area.x).max(0.0));
        frame.x.label = axis_name(trace, shown, frame.across_room(size.width));
        frame.grid(&mut scene, theme);
        let is_complete = null.histogram.len() == HISTOGRAM_BINS;
        let counts = null.histogram.iter().filter(|_| is_complete);
        let shares: Vec<f32> = counts.map(|count| *count as f32 / null.draws.max(1) as f32).collect();
        let first = frame.x(bin_start(shown, 0));
        let cell = (frame.x(bin_start(shown, HISTOGRAM_BINS)) - first) / HISTOGRAM_BINS as f32;
        for (bin, (left, width)) in bars::spans(&shares, first, cell).into_iter().enumerate() {
            let upper = frame.y(f64::from(shares[bin]));
            scene.fill(Box2::new(left, upper, width, frame.area.bottom() - upper), theme.series(0));
            let strip = Box2::new(first + bin as f32 * cell, frame.area.y, cell, frame.area.h);
            scene.target(strip, Identity::Item(bin));
        }
        let at = |z: f64| -> Point { frame.at(null.mean + z * null.std, normal_share(z)) };
        scene.line((-80..=80).map(|i| at(f64::from(i) / 20.0)).collect(), normal);
        let rule = |value: f64| vec![frame.at(value, 0.0), frame.at(value, top)];
        scene.line(rule(shown.worst), end);
        scene.line(rule(shown.best), end);
        scene.line(rule(shown.value), read);
        frame.axes(&mut scene, theme);

        if rows > 0.0 {
            draw_parts(&mut scene, shown, &frame, parts, theme);
        }
        Ok(scene)
    }

    fn table(&self, trace: &Trace) -> Table {
        let Some(Found::Some(Outcome { logit, margin })) = &trace.order_test else { return Table::default() };
        // Numbers that place an order among all orders of its tokens belong to one test: a difference leaves them out.
        let of_one = ["against", "z", "p", "p_normal", "draws", "headroom"];
        let bins = if trace.minus.is_some() { 0 } else { HISTOGRAM_BINS };
        let rows = |of: &OrderContrast| -> Vec<(String, f64)> {
            let is_kept = |(name, _): &(&str, f64)| trace.minus.is_none() || !of_one.contains(name);
            let named = numbers(of).into_iter().filter(is_kept).map(|(name, v)| (name.to_owned(), v));
            let count = |bin: usize| of.reassigned.histogram.get(bin).map_or(f64::NAN, |n| f64::from(*n));
            let drawn = (0..bins).map(|bin| (format!("drawn_from_z_{:.1}", bin_z(bin)), count(bin)));
            named.chain(drawn).collect()
        };
        let values = |of: &OrderContrast| rows(of).into_iter().map(|(_, value)| value);
        let words = rows(logit).into_iter().map(|(name, _)| name);
        let table = Table::default().words("number", words).numbers(&head(trace, "logit"), values(logit));
        match margin {
            Some(margin) => table.numbers(&head(trace, "margin"), values(margin)),
            None => table,
        }
    }
}

/// Every number of a contrast with its name; NaN where it is unknown.
fn numbers(of: &OrderContrast) -> [(&'static str, f64); 14] {
    let null = &of.reassigned;
    [
        ("value", of.value),
        ("against", of.against.map_or(f64::NAN, |class| class as f64)),
        ("mean", null.mean),
        ("std", null.std),
        ("z", null.z.unwrap_or(f64::NAN)),
        ("p", null.p),
        ("p_normal", null.p_normal),
        ("draws", null.draws as f64),
        ("best", of.best),
        ("worst", of.worst),
        ("headroom", of.headroom.unwrap_or(f64::NAN)),
        ("content", of.content),
        ("fixed_order", of.fixed_order),
        ("routing", of.routing),
    ]
}

/// Draws the parts of a difference as bars, each from the end of the one before, and their sum from zero.
fn draw_difference(
    trace: &Trace,
    shown: &OrderContrast,
    limits: (f64, f64),
    theme: &Theme,
    size: Size,
) -> Scene {
    let mut scene = Scene::new(size.width, size.height, "Order test", theme.background);
    let scale = Scale::padded(limits.0.min(0.0), limits.1.max(0.0));
    let name = |room: f32| delta(&axis_name(trace, shown, room));
    let x = Axis::new(scale, name(f32::INFINITY), 5);
    let parts = [shown.content, shown.fixed_order, shown.routing, shown.value];
    let texts = parts.map(signed);
    let room = Box2::new(0.0, 0.0, size.width, size.height);
    let mut chart = RowChart::new(room, x, &DIFFERENCE_PARTS, (0.4, font::widest(&texts, pt::TICK) + 6.0));
    let area = chart.frame.area;
    chart.frame.x.label = name(chart.frame.across_room(size.width) - font::width("Δ ", pt::LABEL));
    let ends = cumulative(shown);
    for (at, (from, to)) in
        [(0.0, ends[0]), (ends[0], ends[1]), (ends[1], ends[2]), (0.0, shown.value)].into_iter().enumerate()
    {
        let y = chart.name(&mut scene, theme, at, DIFFERENCE_PARTS[at]);
        let [a, b] = [from, to].map(|v| chart.frame.at(v, 0.0)[0]);
        let color = if parts[at] < 0.0 { theme.negative } else { theme.positive };
        scene.fill(Box2::new(a.min(b), y - 3.5, (b - a).abs(), 7.0), color);
        scene.text_mid([size.width, y], texts[at].clone(), pt::TICK, theme.ink, Anchor::End);
        let strip = Box2::new(0.0, y - chart.step / 2.0, size.width, chart.step);
        scene.target(strip, Identity::Item(HISTOGRAM_BINS + at));
    }
    let zero = chart.frame.x(0.0);
    scene.line(vec![[zero, area.y], [zero, area.bottom()]], Stroke::new(pt::HAIR, theme.axis));
    chart.frame.axes(&mut scene, theme);
    scene
}

/// Draws the parts of the value as bars: content from the mean over all orders, each other from the end of the one before.
fn draw_parts(scene: &mut Scene, shown: &OrderContrast, frame: &Frame, room: Box2, theme: &Theme) {
    let (ends, parts) = (cumulative(shown), [shown.content, shown.fixed_order, shown.routing]);
    let starts = [shown.reassigned.mean, ends[0], ends[1]];
    for (part, name) in PARTS.into_iter().enumerate() {
        let y = room.y + (part as f32 + 0.5) * ROW_PT;
        let at = [frame.area.x - 5.0, y];
        scene.text_mid(at, name, pt::TICK, theme.ink, Anchor::End);
        let (from, to) = (frame.x(starts[part]), frame.x(ends[part]));
        let bar = Box2::new(from.min(to) - 0.5, y - 3.5, (to - from).abs() + 1.0, 7.0);
        let color = theme.series(if part == 0 { 0 } else { part + 1 });
        scene.fill(bar, color);
        let text = number_like(parts[part], shown.reassigned.std);
        let text = if part == 0 { text } else { with_plus(parts[part], text) };
        let (middle, wide) = (frame.area.x + frame.area.w / 2.0, font::width(&text, pt::TICK) + 3.0);
        let (left, right) = (bar.x - wide >= frame.area.x, bar.right() + wide <= room.right());
        let (x, anchor, ink) = match bar.center()[0] > middle {
            true if left => (bar.x - 3.0, Anchor::End, theme.ink),
            _ if right => (bar.right() + 3.0, Anchor::Start, theme.ink),
            _ if left => (bar.x - 3.0, Anchor::End, theme.ink),
            _ => (bar.center()[0], Anchor::Middle, on(color)),
        };
        scene.text_mid([x, y], text, pt::TICK, ink, anchor);
        let strip = Box2::new(0.0, y - ROW_PT / 2.0, room.right(), ROW_PT);
        scene.target(strip, Identity::Item(HISTOGRAM_BINS + part));
    }
}

/// Where a bin begins, in standard deviations from the mean.
fn bin_z(bin: usize) -> f64 {
    HISTOGRAM_END * (2.0 * bin as f64 / HISTOGRAM_BINS as f64 - 1.0)
}

/// The value at which a bin begins.
fn bin_start(shown: &OrderContrast, bin: usize) -> f64 {
    shown.reassigned.mean + bin_z(bin) * shown.reassigned.std
}

/// The share of a normal distribution in a bin centred at `z` standard deviations: its density there times the bin width.
fn normal_share(z: f64) -> f64 {
    let width = 2.0 * HISTOGRAM_END / HISTOGRAM_BINS as f64;
    width * (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}
