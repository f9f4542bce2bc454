//! Differences of two traces, read back from the picture: every number is that of the first minus that of the second, on a
//! scale around zero, and labelled as a difference.

use ssmprobe::model::explain::removal::{Mode, Removal};
use ssmprobe::model::trace::Routing;
use ssmprobe::viz::difference::{self, subtract};
use ssmprobe::viz::draw::table::Column;
use ssmprobe::viz::figures::plot::Source;
use ssmprobe::viz::figures::removal::{Quantity, RemovalPlot};
use ssmprobe::viz::{Figure, Rows};

use super::prelude::*;
use super::small::{BEST, KERNEL, OTHER_LOGITS, SCORES, SECOND, USED, WEIGHTS, share};
use super::why_nothing;
use crate::traces;

/// The first trace minus the second.
fn made() -> Trace {
    subtract(&small::planned(), &small::other()).expect("one grid")
}

fn marks(id: &str, options: &Options, theme: &Theme) -> Marks {
    let marks = drawn(id, &made(), options, theme);
    assert!(marks.has("Difference (Δ) of sinkhorn from neuralsort"), "{id}");
    marks
}

/// `P - P'` at token `i` and position `k`.
fn cell(i: usize, k: usize) -> f32 {
    share(i, k) - share((i + 5) % N, k)
}

#[test]
fn a_cell_of_two_plans_has_the_colour_of_its_difference() {
    let raster: [usize; N] = std::array::from_fn(|i| i);
    // Rows are in the order of the other's plan, whose token i goes where token i + 5 of the first goes.
    let mean = small::mean_positions();
    let by_other =
        small::sorted(std::array::from_fn(|i| 1000.0 * BEST[(i + 5) % N] as f64 + mean[(i + 5) % N]));
    let mut sizes: Vec<f32> = (0..N * N).map(|at| cell(at / N, at % N).abs()).collect();
    sizes.sort_by(f32::total_cmp);
    let bound = f64::from(sizes[N * N - 4]);
    for theme in looks() {
        for (rows, tokens, name) in [
            (Rows::Raster, raster, "Token (raster)"),
            (Rows::Argmax, by_other, "Token (by the other's best position)"),
        ] {
            let marks = marks("assignment", &Options { rows, log: true, ..Options::default() }, &theme);
            let (axes, bar) = (marks.axes(0), marks.bar());
            assert_eq!(axes.y_name, name);
            assert_close("around zero", bar.ends(), [-bound, bound], 1e-4);
            let (_, raster) = marks.rasters(N, N).remove(0);
            for (row, token) in tokens.into_iter().enumerate() {
                for k in 0..N {
                    let expected = bar.color(f64::from(cell(token, k)).clamp(-bound, bound));
                    let own = pixel(&raster, k, row);
                    assert!(apart(own, expected) <= SHADE, "token {token}, position {k}: {own:?}");
                }
            }
            assert!(bar.name.starts_with("Δ share (largest "), "{}", bar.name);
        }
        let options = Options { rows: Rows::Raster, ..Options::default() };
        let marks = marks("assignment", &options, &theme);
        let (_, raster) = marks.rasters(N, N).remove(0);
        // Token 2 goes to position 5 in the first, and token 7, which is 2 and 5 more, does not.
        let own = pixel(&raster, 5, 2);
        assert!(cell(2, 5) > 0.15 && own.r > own.b, "P[2, 5] - P'[2, 5] = {}: {own:?}", cell(2, 5));
        let sum = |i: usize| (0..N).map(|k| f64::from(cell(i, k))).sum::<f64>().abs();
        let column = |k: usize| (0..N).map(|i| f64::from(cell(i, k))).sum::<f64>().abs();
        let most = (0..N).map(sum).chain((0..N).map(column)).fold(0.0, f64::max);
        assert!(marks.has(&format!("Δ of row and column sums: at most {most:.3}")), "{most}");
    }
}

#[test]
fn where_nothing_differs_the_scale_is_one_either_way() {
    let same = subtract(&small::planned(), &small::planned()).expect("one grid");
    for id in ["rollout", "gradient"] {
        let bar = drawn(id, &same, &Options::default(), &Theme::light()).bar();
        assert_close(id, bar.ends(), [-1.0, 1.0], 1e-4);
    }
}

#[test]
fn best_positions_are_counted_up_and_down_from_zero() {
    // The other sends tokens, shifted by five, to the same positions: no count differs.
    let same = drawn("ranks", &made(), &Options::default(), &Theme::light());
    assert!(same.fills(same.swatch("Δ tokens by best position")).iter().all(|bar| bar.y < 20.0));
    let mut moved = small::other();
    let Routing::Plan(plan) = &mut moved.routing else { unreachable!() };
    plan.data[..N].fill(0.0);
    plan.data[4] = 1.0; // token 0 goes to position 4 instead of that of BEST[5], 10
    let trace = subtract(&small::planned(), &moved).expect("one grid");
    for theme in looks() {
        let marks = drawn("ranks", &trace, &Options::default(), &theme);
        let axes = marks.axes(0);
        assert_eq!(axes.y_name, "Δ tokens");
        let zero = axes.y.at(0.0);
        for (name, k, count) in [("Δ tokens by best position", 10, 1.0), ("Fewer", 4, -1.0)] {
            let bars = marks.fills(marks.swatch(name)).into_iter().filter(|bar| bar.x >= axes.area.x);
            let bars: Vec<_> = bars.filter(|bar| bar.y >= axes.area.y - 0.1).collect();
            assert_eq!(bars.len(), 1, "{name}");
            let over = axes.x.at(f64::from(k));
            assert!(bars[0].x < over && over < bars[0].right(), "{name}: {:?}", bars[0]);
            let ends = [zero.min(axes.y.at(count)), zero.max(axes.y.at(count))];
            assert_close(name, [bars[0].y, bars[0].bottom()], ends, 0.02);
        }
        assert!(
            marks.lines(theme.axis, 2).iter().any(|line| near(line[0][1], zero) && near(line[1][1], zero))
        );
    }
    assert_eq!(USED.iter().sum::<usize>(), N);
}

#[test]
fn diagnostics_are_told_with_their_sign_beside_zero() {
    for theme in looks() {
        let marks = marks("diagnostics", &Options::default(), &theme);
        for text in ["−0.0700", "−0.0200", "+0.0300", "+0.0800", "Δ value", "Difference (Δ) beside zero"]
        {
            assert!(
                marks.has(text),
                "{text}: {:?}",
                marks.words().iter().map(|w| &w.text).collect::<Vec<_>>()
            );
        }
        assert!(!marks.has("Chance") && !marks.has("vs chance"), "a band is of one trace");
    }
}

#[test]
fn kernels_are_subtracted_each_over_its_own_largest_size() {
    for theme in looks() {
        let marks = marks("kernel", &Options { log: true, ..Options::default() }, &theme);
        let axes = marks.axes(0);
        assert_eq!(axes.y_name, "Δ K[j] / max |K|");
        let curve = |value: &dyn Fn(usize) -> f64| -> Vec<Point> {
            (0..N).map(|j| axes.at(j as f64, value(j))).collect()
        };
        let measured = marks.lines(marks.swatch("Δ measured"), N)[0];
        let apart = |j: usize| f64::from(KERNEL[j]) / 0.031 - f64::from(SECOND[j]) / 0.029;
        assert_close("K - K'", measured, curve(&apart), 0.03);
        let decay = marks.lines(marks.swatch("Δ ρ^j, ρ the spectral radius"), N)[0];
        let power = |r: f64, j: usize| r.powi(j as i32);
        assert_close("0.9^j - 0.8^j", decay, curve(&|j| power(0.9, j) - power(0.8, j)), 0.03);
        let ends = [axes.area.bottom(), axes.area.y].map(|y| axes.y.number(y));
        assert_close("around zero", ends[0], -ends[1], 1e-3);
        let zero = axes.y.at(0.0);
        assert!(
            marks.lines(theme.axis, 2).iter().any(|line| near(line[0][1], zero) && near(line[1][1], zero))
        );
    }
}

#[test]
fn scores_and_places_are_subtracted_token_by_token() {
    let scores: Vec<f32> = (0..N).map(|i| SCORES[i] - SCORES[(i + 5) % N]).collect();
    let mean = small::mean_positions();
    let places: Vec<f32> = (0..N).map(|i| (mean[i] - mean[(i + 5) % N]) as f32).collect();
    let weights: Vec<f32> = (0..N).map(|i| WEIGHTS[i] - WEIGHTS[(i + 2) % N]).collect();
    for theme in looks() {
        let shown = marks("scores", &Options::default(), &theme);
        let axes = shown.axes(0);
        assert_eq!((&*axes.x_name, &*axes.y_name), ("Rank by Δ score", "Δ score (standardised)"));
        assert!(!shown.has("Standard normal"), "nothing is known of chance");
        let mut sorted = scores.clone();
        sorted.sort_by(f32::total_cmp);
        let dots = shown.dots(shown.swatch("Tokens")).into_iter().map(|dot| dot.at);
        let dots: Vec<Point> = dots.filter(|dot| axes.area.contains(*dot)).collect();
        let expected = sorted.iter().enumerate().map(|(k, v)| axes.at(k as f64, f64::from(*v)));
        assert_close("the dots", dots, expected.collect::<Vec<Point>>(), 0.03);
        for (id, values, name) in [
            ("scan_path", &places, "Δ position (above 0 is read later)"),
            ("photo", &weights, "Δ weight in the sum"),
        ] {
            let shown = marks(id, &Options::default(), &theme);
            let bar = shown.bar();
            assert_eq!(bar.name, name);
            let bound = values.iter().map(|v| f64::from(v.abs())).fold(0.0, f64::max);
            assert_close("around zero", bar.ends(), [-bound, bound], 1e-3 * bound);
            let (_, cover) = shown.rasters(GRID.cols, GRID.rows).remove(0);
            coloured(&cover, GRID, &bar, values);
        }
    }
}

#[test]
fn an_order_is_subtracted_from_a_plan_step_by_step() {
    let fixed = Trace {
        routing: Routing::Orders(vec![small::SWEEPS[1].into()]),
        probe: "raster.safetensors".into(),
        ..small::planned()
    };
    let made = subtract(&fixed, &small::planned()).expect("one grid");
    let mean = small::mean_positions();
    let step = |i: usize| small::SWEEPS[1].iter().position(|&token| token as usize == i).expect("a step");
    let expected: Vec<f64> = (0..N).map(|i| step(i) as f64 - mean[i]).collect();
    let table = find("scan_path").expect("a figure").table(&made);
    let Some((name, Column::Numbers(found))) = table.columns.last() else { panic!("{table:?}") };
    assert_eq!(name, "delta_position");
    assert_close("places", found.clone(), expected, 1e-9);
}

#[test]
fn classes_differ_by_points_of_their_probability() {
    let softmax = |logits: &[f32]| -> Vec<f64> {
        let shares: Vec<f64> = logits.iter().map(|l| f64::from(*l).exp()).collect();
        let total: f64 = shares.iter().sum();
        shares.iter().map(|share| share / total).collect()
    };
    let [own, other] = [softmax(&small::planned().logits), softmax(&OTHER_LOGITS)];
    let points = |class: usize| 100.0 * (own[class] - other[class]);
    for theme in looks() {
        let marks = marks("predictions", &Options::default(), &theme);
        assert!(marks.has("Δ probability, in points"));
        for (class, name) in [(3, "heron"), (2, "grebe"), (1, "crane"), (4, "stork"), (6, "ibis")] {
            let row = marks.word(name).at[1];
            let said = marks.words().into_iter().find(|word| near(word.at[1], row) && word.text != name);
            let said = said.expect("a number").text.replace('−', "-");
            assert_close(name, said.parse::<f64>().expect("a number"), points(class), 0.06);
            assert_eq!(said.starts_with('+'), points(class) > 0.0, "{name}: {said}");
            let color = if points(class) < 0.0 { theme.negative } else { theme.positive };
            let bars = marks.fills(color);
            assert!(bars.iter().any(|bar| (bar.center()[1] - row).abs() < 4.0), "{name}");
        }
        let first = marks.words().into_iter().find(|word| ["grebe", "heron"].contains(&&*word.text));
        let most = if points(2).abs() > points(3).abs() { "grebe" } else { "heron" };
        assert_eq!(first.expect("a class").text, most, "the most different first");
    }
}

#[test]
fn order_tests_differ_in_what_their_parts_add() {
    for theme in looks() {
        let marks = marks("order_test", &Options::default(), &theme);
        let axes = marks.axes(0);
        assert_eq!(axes.x_name, "Δ margin of crane over heron");
        for (name, said, from, to) in [
            ("Δ content", "+0.35", 0.0, 0.35),
            ("Δ fixed order", "−0.45", 0.35, -0.1),
            ("Δ routing", "+0.7", -0.1, 0.6),
            ("Δ in all", "+0.6", 0.0, 0.6),
        ] {
            let row = marks.word(name).at[1];
            assert!(
                marks.words().iter().any(|word| word.text == said && near(word.at[1], row)),
                "{name}: {said}"
            );
            let color = if to < from { theme.negative } else { theme.positive };
            let bars = marks.fills(color).into_iter().filter(|bar| (bar.center()[1] - row).abs() < 4.0);
            let bars: Vec<[f32; 2]> = bars.map(|bar| [bar.x, bar.right()]).collect();
            let ends = [axes.x.at(f64::min(from, to)), axes.x.at(f64::max(from, to))];
            assert_close(name, bars, [ends], 0.05);
        }
    }
    // With different rivals the margins cannot be subtracted, the logits can.
    let mut rival = small::other();
    small::contrasts(&mut rival)[1].against = Some(4);
    let made = subtract(&small::planned(), &rival).expect("one grid");
    let axes = drawn("order_test", &made, &Options::default(), &Theme::light()).axes(0);
    assert_eq!(axes.x_name, "Δ logit of crane");
}

/// The columns of a table that are differences, with their names.
fn deltas(figure: &dyn Figure, trace: &Trace) -> Vec<(String, Vec<f64>)> {
    let table = figure.table(trace);
    let columns = table.columns.into_iter().filter_map(|(name, column)| match column {
        Column::Numbers(numbers) if name.starts_with("delta_") => Some((name, numbers)),
        _ => None,
    });
    let matrix = table.matrix.filter(|(name, _)| name.starts_with("delta_"));
    let matrix = matrix.map(|(name, m)| (name, m.data.into_iter().map(f64::from).collect()));
    columns.chain(matrix).collect()
}

/// Whether a figure can show a difference: regions are listed for one trace at a time.
pub fn has_difference(figure: &dyn Figure) -> bool {
    figure.id() != "regions"
}

#[test]
fn regions_say_that_they_are_of_one_reading() {
    let (one, two) = (small::planned(), small::other());
    let made = subtract(&one, &two).expect("one grid");
    assert!(why_nothing("regions", &made).contains("a single reading"));
}

#[test]
fn every_figure_has_a_difference_that_is_nothing_from_itself_and_turns_with_its_sides() {
    let theme = Theme::light();
    let written = |figure: &'static dyn Figure, trace: &Trace| {
        let scene = draw_column(figure, trace, &Options::default(), &theme, COLUMN);
        scene.map(|scene| Marks::of(&scene, &theme).words().into_iter().map(|w| w.text).collect::<Vec<_>>())
    };
    let (one, two) = (small::planned(), small::other());
    let none = subtract(&one, &one).expect("one grid");
    let [there, back] = [(&one, &two), (&two, &one)].map(|(a, b)| subtract(a, b).expect("one grid"));
    for figure in FIGURES.iter().filter(|figure| has_difference(**figure)) {
        let id = figure.id();
        let zero = deltas(*figure, &none);
        assert!(!zero.is_empty(), "{id}: no number of its table is a difference");
        for (name, values) in &zero {
            assert!(values.iter().all(|v| *v == 0.0), "{id}, {name}: {values:?}");
        }
        assert!(written(*figure, &none).is_ok(), "{id}: no difference is drawn as such");
        let (a, b) = (deltas(*figure, &there), deltas(*figure, &back));
        assert_eq!(a.len(), b.len(), "{id}");
        for ((name, a), (_, b)) in a.iter().zip(&b) {
            assert_close(
                format!("{id}, {name}"),
                a.clone(),
                b.iter().map(|v| -v).collect::<Vec<f64>>(),
                1e-9,
            );
        }
        let all = a.iter().flat_map(|(_, values)| values);
        assert!(id == "ranks" || all.clone().any(|v| *v != 0.0), "{id}: the two differ");
        let words = written(*figure, &there).expect("a difference");
        assert!(words.iter().skip(1).any(|word| word.contains('Δ')), "{id}: {words:?}");
        if let Some((low, high)) = figure.limits(&there) {
            let turned = figure.limits(&back).expect("limits of either");
            let most = |(low, high): (f64, f64)| low.abs().max(high.abs());
            assert_close(id, most((low, high)), most(turned), 1e-9);
        }
    }
}

#[test]
fn heads_that_share_nothing_say_why_and_draw_nothing() {
    let theme = Theme::light();
    for (one, two) in
        traces::all().iter().flat_map(|one| traces::all().into_iter().map(move |two| (one.clone(), two)))
    {
        for figure in FIGURES.iter().filter(|figure| has_difference(**figure)) {
            let made = difference::shown(*figure, &one, &two).expect("one grid, one class");
            let drawn = draw_column(*figure, &made, &Options::default(), &theme, COLUMN);
            let own = draw_column(*figure, &one, &Options::default(), &theme, COLUMN).is_ok();
            let other = draw_column(*figure, &two, &Options::default(), &theme, COLUMN).is_ok();
            let case = format!("{}: {} less {}", figure.id(), one.head, two.head);
            match &drawn {
                Ok(_) => assert!(own && other, "{case}"),
                Err(why) => {
                    assert!(!why.0.is_empty() && figure.lacks(&made).is_some(), "{case}: {why}");
                    let says = [
                        &*one.head,
                        &*two.head,
                        "One of",
                        "The other trace",
                        "The two",
                        "requested",
                        "sweep",
                    ];
                    assert!(says.iter().any(|word| why.0.contains(word)), "{case}: {why}");
                }
            }
            let sweeps = figure.id() == "scan_path" && one.head == "vmamba";
            assert!(one.head != two.head || sweeps || drawn.is_ok() == own, "{case}");
        }
    }
    let why = |id: &str, one: &Trace, two: &Trace| {
        let figure = find(id).expect("a figure");
        let made = difference::shown(figure, one, two)?;
        draw_column(figure, &made, &Options::default(), &theme, COLUMN).map(|_| ())
    };
    let said = |id: &str, one: &Trace, two: &Trace| why(id, one, two).expect_err("no difference").0;
    let (planned, swept) = (small::planned(), small::swept());
    let no_router = "vmamba has no router: it reads in a fixed or random order";
    assert_eq!(said("assignment", &planned, &swept), no_router);
    assert_eq!(said("ranks", &swept, &planned), no_router);
    assert_eq!(said("kernel", &planned, &swept), "1 kernels, one per sweep, cannot be compared with 2");
    assert_eq!(
        said("scan_path", &planned, &swept),
        "vmamba reads in several sweeps, in which a token has no one position"
    );
    assert_eq!(said("scores", &planned, &swept), "vmamba has no token scores");
    let renamed = |mut trace: Trace| {
        trace.top.iter_mut().for_each(|class| class.name.push('s'));
        trace
    };
    assert_eq!(
        said("predictions", &planned, &renamed(small::other())),
        "The two probes have different classes"
    );
    let mut other = small::other();
    other.evidence.class = 3;
    let one_class = "The evidence of the two is for different classes; choose one class for both";
    for id in ["token_map", "gradient", "integrated", "evidence", "order_test"] {
        assert_eq!(said(id, &planned, &other), one_class, "{id}");
    }
    assert!(why("rollout", &planned, &other).is_ok() && why("assignment", &planned, &other).is_ok());
    let elsewhere = traces::sinkhorn_trace();
    assert_eq!(
        said("kernel", &planned, &elsewhere),
        "A grid of 3 x 4 patches cannot be compared with one of 14 x 14, patch by patch"
    );
}

#[test]
fn what_is_pointed_at_in_a_difference_is_read_out_as_one() {
    use ssmprobe::viz::draw::Hover;
    let made = made();
    let at = |hover: Hover| find("assignment").expect("a figure").readout(&made, hover);
    let read = at(Hover { token: Some(2), position: Some(5), item: None });
    let has = |name: &str| read.lines.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let number = |name: &str| has(name).expect(name).replace('−', "-").parse::<f64>().expect("a number");
    assert_close("share", number("Δ share at position 5"), f64::from(cell(2, 5)), 1e-3);
    let mean = small::mean_positions();
    assert_close("place", number("Δ mean position"), mean[2] - mean[7], 6e-3);
    assert_close("score", number("Δ score"), f64::from(SCORES[2] - SCORES[7]), 6e-3);
    assert!(has("Best position").is_none() && has("Rank by mean position").is_none(), "{read:?}");
    let read = at(Hover { position: Some(5), ..Hover::default() });
    let mut tokens: Vec<usize> = (0..N).collect();
    tokens.sort_by(|a, b| cell(*b, 5).abs().total_cmp(&cell(*a, 5).abs()));
    let (name, value) = &read.lines[0];
    assert_eq!(*name, format!("Δ share of token {}", tokens[0]));
    assert_eq!(value.starts_with('+'), cell(tokens[0], 5) > 0.0, "{value}");
}

#[test]
fn removal_curves_are_subtracted_step_by_step() {
    let (own, other) = (Arc::new(small::removal()), Arc::new(small::other_removal()));
    let plot = RemovalPlot::new(own.clone(), Some(other.clone())).expect("a difference");
    for theme in looks() {
        let marks = plotted(&plot, &theme);
        assert!(marks.has("Difference (Δ) of gap from mean") && !marks.has("Random, 5 to 95 % of 16 orders"));
        for way in 0..2 {
            let axes = marks.axes(way);
            let half = |values: &[f64]| -> Vec<Point> {
                own.fraction.iter().zip(values).map(|(x, y)| axes.at(*x, 0.5 * y)).collect()
            };
            let evidence = marks.lines(marks.swatch("Evidence"), 5);
            assert_close("evidence", evidence[way].to_vec(), half(&small::REMOVED[way]), 0.03);
            let random = &own.modes[&Mode::Frozen].found().expect("curves")["random"][way].logit;
            let mean = marks.lines(marks.swatch("Random, mean"), 5);
            assert_close("random", mean[way].to_vec(), half(random), 0.03);
        }
        assert_eq!(marks.axes(0).y_name, "Δ logit of heron");
    }
    assert!(
        plot.table().heads().contains(&"delta_deletion_evidence".to_owned()),
        "{:?}",
        plot.table().heads()
    );
    assert_eq!(plot.at(0)[0].1, "+1.5 taken away, +0.5 put back");
    let caption = plot.caption();
    assert!(
        caption.title.ends_with("of gap, difference (Δ) from mean") && caption.file.contains("minus-mean")
    );
    let kinds: Vec<&str> = plot.sources().into_iter().map(Source::kind).collect();
    assert_eq!(kinds, ["causal", "against"]);
    let none = RemovalPlot::new(own.clone(), Some(own.clone())).expect("nothing");
    for (name, column) in none.table().columns.iter().filter(|(name, _)| name.starts_with("delta_")) {
        let Column::Numbers(values) = column else { panic!("{name}") };
        assert!(values.iter().all(|v| *v == 0.0), "{name}");
    }
    let why = |other: Removal| RemovalPlot::new(own.clone(), Some(other.into())).err().expect("none").0;
    let classed = Removal { class: (0, "wren".into()), ..small::removal() };
    assert_eq!(why(classed), "The curves are for heron and for wren; choose one class for both");
    // An older probe has the WordNet ids alone.
    let named = |[class, rival]: [&str; 2]| {
        let (class, rival) = ((1, class.to_owned()), Some((0, rival.to_owned())));
        Arc::new(Removal { class, rival, ..small::removal() })
    };
    let (before, now) = (["n02012849", "n01440764"], ["crane (n02012849)", "tench (n01440764)"]);
    let mut words = RemovalPlot::new(named(before), Some(named(now))).expect("one class");
    words.view.quantity = Quantity::Margin;
    Plot::draw_column(&words, &Theme::light(), COLUMN).expect("margins");
    let shorter = Removal { fraction: vec![0.0, 1.0], ..small::removal() };
    assert_eq!(why(shorter), "The curves have 4 and 1 steps; use the same steps for both");
    let finer = Removal { grid: small::MAP_GRID, ..small::removal() };
    assert!(why(finer).starts_with("A grid of 3 x 4 patches cannot be compared with one of 2 x 3"));
    let rival = Removal { rival: Some((2, "tern".into())), ..small::removal() };
    let mut margins = RemovalPlot::new(own, Some(rival.into())).expect("logits");
    margins.view.quantity = Quantity::Margin;
    let why = Plot::draw_column(&margins, &Theme::light(), COLUMN).expect_err("no margins").0;
    assert_eq!(why, "The two margins are over different classes");
}
