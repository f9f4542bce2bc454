//! What the pointer finds: at a place known by its axes or its patch, the right token or position, neither mirrored nor
//! off by one, and its numbers of the trace.

use eframe::egui;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use ssmprobe::app::jobs::{Compute, Event, ExplainResult, Request};
use ssmprobe::model::trace::{HISTOGRAM_BINS, Routing};
use ssmprobe::viz::draw::Hover;
use ssmprobe::viz::readout::{self, Readout};

use super::prelude::*;
use super::small::{
    BEST, BY_SCORE, EXACT, EXACT_RASTER, KERNEL, PROXY, SCORES, SWEEPS, TOKEN_EVIDENCE, USED, WEIGHTS,
};
use crate::window::{self, Window};

fn token(i: usize) -> Hover {
    Hover { token: Some(i), ..Hover::default() }
}

fn position(k: usize) -> Hover {
    Hover { position: Some(k), ..Hover::default() }
}

fn item(at: usize) -> Hover {
    Hover { item: Some(at), ..Hover::default() }
}

/// Points of a figure of the small trace, each with what the pointer must find there.
fn known(id: &str, marks: &Marks) -> Vec<(Point, Hover)> {
    let patches = || {
        let pictures = marks.rasters(8, 6);
        let patch = move |place| (0..N).map(move |i| (middle(place, GRID, i), token(i)));
        pictures.into_iter().flat_map(|(place, _)| patch(place)).collect()
    };
    let over = |nth: usize, what: &dyn Fn(usize) -> Hover| -> Vec<(Point, Hover)> {
        let axes = marks.axes(nth);
        // Low in the panel, where no bar reaches.
        (0..N).map(|at| ([axes.x.at(at as f64), axes.area.bottom() - 1.0], what(at))).collect()
    };
    let named = |names: &[&str]| -> Vec<(Point, Hover)> {
        let place = |name: &str| [COLUMN / 2.0, height(&marks.word(name))];
        names.iter().enumerate().map(|(at, name)| (place(name), item(at))).collect()
    };
    match id {
        "photo" | "token_map" | "gradient" | "integrated" | "rollout" | "scan_path" => patches(),
        "regions" => [patches(), named(&["1 beak", "2 wing", "3 tail", "4 nape"])].concat(),
        "assignment" => {
            let axes = marks.axes(0);
            let cell = |row: usize, k: usize| Hover {
                token: Some(small::by_best()[row]),
                position: Some(k),
                item: None,
            };
            let cells = (0..N * N).map(|at| (at / N, at % N));
            cells.map(|(row, k)| (axes.at(k as f64, row as f64), cell(row, k))).collect()
        }
        "ranks" => {
            [over(0, &position), named(&["Rank coverage", "Argmax entropy", "Edge mass, 10 %"])].concat()
        }
        "kernel" => over(0, &|j| position(N - 1 - j)),
        "evidence" => [over(0, &position), over(1, &position)].concat(),
        "scores" => over(0, &|rank| token(BY_SCORE[rank])),
        "diagnostics" => named(&["Rank coverage", "Argmax entropy", "Edge mass, 10 %", "Kendall tau"]),
        "order_test" => {
            let parts = named(&["Content", "Fixed order", "Routing"]);
            let part = |(at, (place, _)): (usize, (Point, Hover))| (place, item(HISTOGRAM_BINS + at));
            let axes = marks.axes(0);
            // 1.9 is 2.2 deviations above the mean: 1.95 is in the bin that begins there.
            let bin = ([axes.x.at(1.95), axes.area.bottom() - 1.0], item(31));
            parts.into_iter().enumerate().map(part).chain([bin]).collect()
        }
        "predictions" => named(&["heron", "crane", "stork", "egret", "ibis"]),
        _ => panic!("what does the pointer find in {id}?"),
    }
}

#[test]
fn the_pointer_finds_what_lies_there_and_it_is_marked_there() {
    let theme = Theme::light();
    for (figure, trace) in
        FIGURES.iter().flat_map(|figure| [small::planned(), small::swept()].map(|t| (figure, t)))
    {
        let Ok(scene) = draw_column(*figure, &trace, &Options::default(), &theme, COLUMN) else { continue };
        let marks = Marks::of(&scene, &theme);
        let known = known(figure.id(), &marks);
        assert!(!known.is_empty(), "{}", figure.id());
        for (point, expected) in known {
            assert_eq!(scene.hover(point), Some(expected), "{} of {} at {point:?}", figure.id(), trace.head);
            let places = scene.places(expected);
            let marked = places.iter().filter(|place| place.contains(point)).count();
            let wanted = if figure.id() == "assignment" { 2 } else { 1 };
            assert_eq!(marked, wanted, "{} marks {expected:?} at {places:?}, not at {point:?}", figure.id());
        }
    }
}

/// The number of this name in a readout, which has three digits.
#[track_caller]
fn number(readout: &Readout, name: &str) -> f64 {
    let line = readout.lines.iter().find(|(found, _)| found == name);
    let (_, text) = line.unwrap_or_else(|| panic!("no {name} in {readout:?}"));
    text.replace('−', "-").parse().unwrap_or_else(|_| panic!("{name} is {text}"))
}

#[track_caller]
fn says(readout: &Readout, name: &str, expected: f64) {
    assert_close(
        format!("{} {name}", readout.title),
        number(readout, name),
        expected,
        0.006 * expected.abs(),
    );
}

#[test]
fn a_token_is_read_out_with_its_own_numbers() {
    let trace = small::planned();
    let mean = small::mean_positions();
    let order = small::sorted(mean);
    for i in 0..N {
        let said = readout::readout(&trace, token(i));
        assert_eq!(said.title, format!("Token {i} (row {}, column {})", i / 4, i % 4));
        let rank = order.iter().position(|token| *token == i).expect("every token has a rank");
        for (name, expected) in [
            ("Score", f64::from(SCORES[i])),
            ("Rank by mean position", rank as f64),
            ("Best position", BEST[i] as f64),
            ("Mean position", mean[i]),
            ("Weight", f64::from(WEIGHTS[i])),
            ("Evidence", f64::from(TOKEN_EVIDENCE[i])),
        ] {
            says(&said, name, expected);
        }
        for k in 0..N {
            let cell = Hover { token: Some(i), position: Some(k), item: None };
            says(
                &readout::readout(&trace, cell),
                &format!("Share at position {k}"),
                f64::from(small::share(i, k)),
            );
        }
    }
    assert!(readout::readout(&trace, token(N)).is_empty(), "there is no such token");
    let mut one = small::swept();
    one.routing = Routing::Orders(vec![SWEEPS[1].into()]);
    for (k, i) in SWEEPS[1].into_iter().enumerate() {
        says(&readout::readout(&one, token(i as usize)), "Step", k as f64);
    }
    assert!(
        !readout::readout(&small::swept(), token(3)).lines.iter().any(|(name, _)| name == "Step"),
        "of two sweeps none"
    );
}

#[test]
fn a_position_is_read_out_with_whom_it_holds_and_what_is_kept_of_it() {
    let trace = small::planned();
    for k in 0..N {
        let said = readout::readout(&trace, position(k));
        assert_eq!(said.title, format!("Position {k} of 0 to 11"));
        let tokens = format!("{} token{}", USED[k], if USED[k] == 1 { "" } else { "s" });
        assert_eq!(said.lines[0], ("Best position of".to_owned(), tokens));
        let mut column: Vec<usize> = (0..N).collect();
        column.sort_by(|a, b| small::share(*b, k).total_cmp(&small::share(*a, k)));
        for (line, i) in said.lines[1..4].iter().zip(column) {
            assert_eq!(line.0, format!("Share of token {i}"), "position {k}");
            says(&said, &line.0, f64::from(small::share(i, k)));
        }
        for (name, expected) in [
            ("Evidence", f64::from(EXACT[k])),
            ("Evidence in raster order", f64::from(EXACT_RASTER[k])),
            ("Proxy", f64::from(PROXY[k])),
            ("Memory, |K| / max |K|", f64::from(KERNEL[N - 1 - k]).abs() / 0.031),
        ] {
            says(&said, name, expected);
        }
    }
    let said = readout::readout(&small::swept(), position(7));
    let reads = |sweep: usize| (format!("Sweep {} reads", sweep + 1), format!("token {}", SWEEPS[sweep][7]));
    assert_eq!(said.lines[..2], [reads(0), reads(1)]);
}

#[test]
fn a_class_and_a_diagnostic_are_read_out_in_their_row() {
    let trace = small::planned();
    let of = |id: &str, at: usize| ssmprobe::viz::find(id).expect("a figure").readout(&trace, item(at));
    let crane = of("predictions", 1);
    let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(crane.title, "crane");
    assert_eq!(crane.lines, [line("Rank", "2"), line("Probability", "21 %"), line("Logit", "2.15")]);
    for id in ["diagnostics", "ranks"] {
        let entropy = of(id, 1);
        assert_eq!(entropy.title, "Argmax entropy");
        let bands = [("Chance, 5 to 95 %", "0.850–0.950"), ("Untrained, 5 to 95 %", "0.750–0.900")];
        let bands = bands.map(|(name, range)| line(name, range));
        assert_eq!(entropy.lines, [&[line("Value", "0.800")][..], &bands].concat());
        assert!(entropy.note.ends_with("It is below the chance range"), "{}", entropy.note);
    }
}

/// A window whose columns show these traces, in turn.
pub fn showing(traces: &[Trace]) -> Window {
    let mut window = Window::new();
    window.open();
    answer_explain(&mut window, traces);
    window
}

/// Answers requests to explain columns with these traces, in turn.
pub fn answer_explain(window: &mut Window, traces: &[Trace]) {
    let traces: Vec<Arc<Trace>> = traces.iter().cloned().map(Arc::new).collect();
    window.answer_with(move |request| match request {
        Request::Compute(job, Compute::Explain(look)) => {
            let columns = look.items.iter().map(|item| item.column);
            let results = columns.zip(traces.iter().cycle()).map(|(column, trace)| ExplainResult {
                column,
                result: Ok(trace.clone()),
                by_hand: None,
            });
            vec![Event::Explained { job, results: results.collect() }, Event::Finished(job)]
        }
        other => window::succeed(other),
    });
}

/// Every painted text with its visible rectangle and its whole one, without clipping.
pub fn painted(output: &egui::FullOutput) -> Vec<(String, egui::Rect, egui::Rect)> {
    fn collect(shape: &egui::Shape, clip: egui::Rect, found: &mut Vec<(String, egui::Rect, egui::Rect)>) {
        match shape {
            egui::Shape::Vec(shapes) => shapes.iter().for_each(|shape| collect(shape, clip, found)),
            egui::Shape::Text(text) if !text.galley.text().trim().is_empty() => {
                let whole = text.visual_bounding_rect();
                found.push((text.galley.text().to_owned(), whole.intersect(clip), whole));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    output.shapes.iter().for_each(|shape| collect(&shape.shape, shape.clip_rect, &mut found));
    found
}

#[test]
fn in_the_window_a_position_lights_the_token_that_is_read_there() {
    let trace = small::planned();
    let order = small::sorted(small::mean_positions());
    let mut window = showing(&[trace]);
    for (pane, title, back) in [("kernel", "Memory kernel", true), ("ranks", "Rank use", false)] {
        window.show(pane);
        let figure = window.place(title);
        let tick = |window: &Window, number: &str| {
            let texts = painted(window.harness.output());
            let own = texts.iter().filter(|(text, seen, _)| text == number && figure.contains_rect(*seen));
            // The lowest: numbers of the vertical axis are above.
            own.map(|(.., whole)| whole.center()).max_by(|a, b| a.y.total_cmp(&b.y)).expect("a tick")
        };
        let ends = ["0", "11"].map(|number| tick(&window, number));
        for at in 0..N {
            let x = ends[0].x + (ends[1].x - ends[0].x) * at as f32 / 11.0;
            window.hover(egui::pos2(x, ends[0].y - 16.0));
            let k = if back { N - 1 - at } else { at };
            let lit = window.state().selection.hover.token;
            assert_eq!(lit, Some(order[k]), "{pane}: {at} along the axis");
            assert!(window.has(&format!("Position {k} of 0 to 11")), "{pane}: {at} along the axis");
        }
    }
}

#[test]
fn headings_of_the_token_table_stay_apart_and_above_their_numbers() {
    let mut window = showing(&[small::planned()]);
    window.resize(700.0, 480.0);
    window.show("tokens");
    let heading = |window: &Window, name: &str| {
        let texts = painted(window.harness.output());
        texts.iter().find(|(text, ..)| text == name).map(|(.., whole)| *whole).expect("a heading")
    };
    let [best, mean] = ["Best position", "Mean position"].map(|name| heading(&window, name));
    assert!(best.right() < mean.left(), "{best:?} and {mean:?}");
    let left = |window: &Window| window.harness.get_by_label("Token 0").rect().left();
    let before = left(&window);
    window.hover(egui::pos2(500.0, 300.0));
    window.harness.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(-150.0, 0.0),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Unknown,
        modifiers: egui::Modifiers::NONE,
    });
    window.harness.run_steps(8);
    let scrolled = left(&window) - before;
    assert!(scrolled < -50.0, "{scrolled}");
    let moved = heading(&window, "Best position").left() - best.left();
    assert!((moved - scrolled).abs() < 1.0, "{moved} for {scrolled}");
}

#[test]
fn the_token_table_has_every_tokens_own_numbers() {
    let mut window = showing(&[small::planned()]);
    window.click("Token table");
    let said = window.harness.get_by_label("Token 0").accesskit_node().description();
    let said = said.expect("its numbers, for screen readers");
    assert!(said.starts_with("Row 0, Column 0, Rank ") && said.contains(", Evidence "), "{said}");
    let row = window.place("Token 0");
    window.hover(row.center());
    window.harness.event(egui::Event::Copy);
    let copied = window.copied().expect("a table on the clipboard");
    let mut lines = copied.lines();
    let heads = "Token\tRow\tColumn\tRank\tBest position\tMean position\tScore\tWeight\tEvidence";
    assert_eq!(lines.next(), Some(heads));
    let found: Vec<Vec<f64>> =
        lines.map(|line| line.split('\t').map(|cell| cell.parse().expect("a number")).collect()).collect();
    let mean = small::mean_positions();
    let order = small::sorted(mean);
    let rank = |i: usize| order.iter().position(|token| *token == i).expect("a rank") as f64;
    let expected: Vec<[f64; 9]> = (0..N)
        .map(|i| {
            let [score, weight, voice] = [SCORES[i], WEIGHTS[i], TOKEN_EVIDENCE[i]].map(f64::from);
            let [row, column] = [i / 4, i % 4].map(|at| at as f64);
            [i as f64, row, column, rank(i), BEST[i] as f64, mean[i], score, weight, voice]
        })
        .collect();
    assert_close("the table", found, expected, 1e-5);
}
