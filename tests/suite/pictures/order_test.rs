//! The order test: the histogram of drawn orders, the mark of the order that was read, best and worst, and the parts of its value.

use ssmprobe::model::trace::{Found, HISTOGRAM_BINS, Trace};
use ssmprobe::viz::draw::table::Column;
use ssmprobe::viz::draw::{Box2, Hover};
use ssmprobe::viz::figures::plot::Plot as _;
use ssmprobe::viz::{Options, Size, find};

use super::lists::height;
use super::marks::{Axes, Marks, near};
use super::small::{self, DRAWN};
use super::{draw_column, drawn, looks, side_by_side, why_nothing};
use crate::close::assert_close;

#[test]
pub fn order_test() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("order_test", &trace, &Options::default(), &theme);
        let axes = marks.axes(0);
        assert!(axes.x.rises() && axes.x_name == "Margin of crane over heron", "{}", axes.x_name);
        assert_eq!(axes.y_name, "Share of orders");
        // A bin is a fifth of the standard deviation, 0.5; the first one drawn is 2 deviations below the mean, 0.8.
        // In the colour of the legend: where bars that let shine through overlap, stripes would show.
        let bars = marks.fills(marks.swatch("Orders drawn"));
        let stands = |bar: &Box2| bar.h > 0.01 && near(bar.bottom(), axes.area.bottom());
        let bars: Vec<Box2> = bars.into_iter().filter(stands).collect();
        assert_eq!(bars.len(), DRAWN.len());
        for ((at, count), bar) in DRAWN.iter().enumerate().zip(&bars) {
            let from = -0.2 + 0.1 * at as f64;
            let [left, upper] = axes.at(from, f64::from(*count) / 9999.0);
            assert_close("its height", bar.y, upper, 0.05);
            let sides =
                [(left - bar.x, at.checked_sub(1)), (bar.right() - axes.x.at(from + 0.1), Some(at + 1))];
            for (beyond, neighbour) in sides {
                let hides = neighbour.and_then(|at| DRAWN.get(at)).is_some_and(|other| other >= count);
                let overlap = if hides { axes.x.at(0.05) - axes.x.at(0.0) } else { 0.0 };
                assert_close("beyond its bin, under a taller one", beyond, overlap, 0.05);
            }
        }
        let upright = |text: &str| -> Vec<f32> {
            let lines = marks.lines(marks.swatch(text), 2).into_iter();
            let inside =
                |line: &&[[f32; 2]]| near(line[0][1], axes.area.bottom()) && near(line[1][1], axes.area.y);
            lines.filter(inside).map(|line| line[0][0]).collect()
        };
        assert_close("as read", upright("As read: z = 2.2, p = 0.014"), [axes.x.at(1.9)], 0.05);
        let ends = [axes.x.at(-1.7), axes.x.at(3.2)];
        assert_close("ends", upright("Worst and best order, headroom 46 %"), ends, 0.05);
        for (part, (name, said, from, to)) in [
            ("Content", "0.800", 0.8, 0.8),
            ("Fixed order", "−0.300", 0.5, 0.8),
            ("Routing", "+1.400", 0.5, 1.9),
        ]
        .into_iter()
        .enumerate()
        {
            let row = height(&marks.word(name));
            assert!(near(height(&marks.word(said)), row), "{name}");
            let color = theme.series(if part == 0 { 0 } else { part + 1 });
            let bars = marks.fills(color).into_iter().filter(|bar| near(bar.center()[1], row));
            let bars: Vec<[f32; 2]> = bars.map(|bar| [bar.x + 0.5, bar.right() - 0.5]).collect();
            assert_close(name, bars, [[axes.x.at(from), axes.x.at(to)]], 0.05);
        }
    }
}

#[test]
fn order_tests_side_by_side_share_their_axis() {
    let (theme, figure) = (looks()[0].clone(), find("order_test").expect("a figure"));
    let row = side_by_side(&[&small::planned(), &small::other()], &[figure], &Options::default());
    let marks = Marks::of(&row.draw_column(&theme, 450.0).expect("two columns"), &theme);
    let [one, other] = [0, 1].map(|column| {
        let Axes { area, x, .. } = marks.axes(column);
        [area.x, area.right()].map(|end| x.number(end))
    });
    assert_close("one scale", one, other, 1e-3);
    // From the worst of one to the best of one, with a twentieth to spare.
    assert_close("both", one, [-1.7 - 0.245, 3.2 + 0.245], 1e-3);
}

#[test]
fn a_p_that_describes_is_called_so() {
    let mut trace = small::planned();
    let said = |trace: &Trace, end: &str| {
        let marks = drawn("order_test", trace, &Options::default(), &looks()[0]);
        marks.words().iter().any(|word| word.text == format!("As read: z = 2.2, p = 0.014{end}"))
    };
    assert!(said(&trace, "") && !said(&trace, ", descriptive"));
    small::contrasts(&mut trace)[1].descriptive = true;
    assert!(said(&trace, ", descriptive") && !said(&trace, ""));
    let [_, margin] = small::contrasts(&mut trace);
    (margin.reassigned.z, margin.headroom) = (Some(-0.04), Some(-0.3));
    let marks = drawn("order_test", &trace, &Options::default(), &looks()[0]);
    assert!(marks.has("As read: z = 0.0, p = 0.014, descriptive"));
    for (p, words) in [(3e-7, "p < 0.001"), (0.999_4, "p = 0.999"), (0.999_96, "p > 0.999")] {
        small::contrasts(&mut trace)[1].reassigned.p = p;
        let marks = drawn("order_test", &trace, &Options::default(), &looks()[0]);
        assert!(marks.has(&format!("As read: z = 0.0, {words}, descriptive")), "{:?}", marks.words());
    }
    assert!(marks.has("Worst and best order, headroom −30 %"));
}

#[test]
fn no_number_of_a_narrow_legend_is_cut() {
    let (theme, figure) = (looks()[0].clone(), find("order_test").expect("a figure"));
    let mut trace = small::planned();
    small::contrasts(&mut trace)[1].descriptive = true;
    let scene = draw_column(figure, &trace, &Options::default(), &theme, 130.0).expect("something to see");
    let marks = Marks::of(&scene, &theme);
    for text in ["As read: z = 2.2, p = 0.014", "Descriptive", "Worst and best order", "Headroom 46 %"] {
        assert!(marks.has(text), "{text}: {:?}", marks.words());
    }
}

#[test]
fn a_legend_of_three_lines_takes_no_height_from_the_chart() {
    let (theme, figure) = (looks()[0].clone(), find("order_test").expect("a figure"));
    let narrow = draw_column(figure, &small::planned(), &Options::default(), &theme, 198.0);
    let area = Marks::of(&narrow.expect("something to see"), &theme).axes(0).area;
    assert!(area.h > 45.0, "{area:?}");
}

#[test]
fn a_low_pane_has_a_chart_without_the_parts() {
    let (theme, figure) = (looks()[0].clone(), find("order_test").expect("a figure"));
    for (height, has_parts) in [(80.0, false), (110.0, true)] {
        let size = Size { width: 200.0, height };
        let scene = figure.scene(&small::planned(), &Options::default(), &theme, size);
        let marks = Marks::of(&scene.expect("something to see"), &theme);
        assert_eq!(marks.has("Routing"), has_parts, "{height}");
        let bars = marks.fills(marks.swatch("Orders drawn"));
        let tallest = bars.iter().map(|bar| bar.h).fold(0.0, f32::max);
        assert!(tallest > 10.0 && bars.iter().all(|bar| bar.h >= 0.0), "{height}: {bars:?}");
    }
}

#[test]
fn bins_and_parts_are_told_in_numbers() {
    let (figure, trace) = (find("order_test").expect("a figure"), small::planned());
    let said = |item: usize| {
        let read = figure.readout(&trace, Hover { item: Some(item), ..Hover::default() });
        (read.title, read.lines)
    };
    let value = |text: &str| text.replace('−', "-").parse::<f64>().expect("a number");
    for (at, count) in DRAWN.into_iter().enumerate() {
        let (title, lines) = said(10 + at);
        assert_eq!((title.as_str(), lines.len()), ("Drawn orders", 3));
        let from = -0.2 + 0.1 * at as f64;
        assert_close("from, to", [value(&lines[0].1), value(&lines[1].1)], [from, from + 0.1], 1e-6);
        assert_eq!(lines[2].1, format!("{count} of 9999"));
    }
    for (part, (name, adds)) in
        [("Content", 0.8), ("Fixed order", -0.3), ("Routing", 1.4)].into_iter().enumerate()
    {
        let (title, lines) = said(HISTOGRAM_BINS + part);
        assert_eq!(title, name);
        assert_close(name, [value(&lines[0].1), value(&lines[1].1)], [adds, 1.9], 1e-6);
    }
}

#[test]
fn its_table_has_every_number_under_its_name() {
    let mut trace = small::planned();
    let [logit, _] = small::contrasts(&mut trace);
    (logit.value, logit.best, logit.reassigned.p) = (7.5, 8.5, 0.25);
    let table = find("order_test").expect("a figure").table(&trace);
    let words = table.columns.iter().find_map(|(name, column)| match column {
        Column::Words(words) if name == "number" => Some(words.clone()),
        _ => None,
    });
    let words = words.expect("names");
    let of = |name: &str| -> Vec<(String, f64)> {
        let found = table.columns.iter().find_map(|(own, column)| match column {
            Column::Numbers(numbers) if own == name => Some(numbers.clone()),
            _ => None,
        });
        words.iter().cloned().zip(found.expect(name)).collect()
    };
    let expected = [
        ("value", 1.9),
        ("against", 3.0),
        ("mean", 0.8),
        ("std", 0.5),
        ("z", 2.2),
        ("p", 0.0142),
        ("p_normal", 0.0139),
        ("draws", 9999.0),
        ("best", 3.2),
        ("worst", -1.7),
        ("headroom", 0.458),
        ("content", 0.8),
        ("fixed_order", -0.3),
        ("routing", 1.4),
    ];
    let margin = of("margin");
    let (numbers, drawn) = margin.split_at(expected.len());
    assert_eq!(numbers, expected.map(|(name, value)| (name.to_owned(), value)));
    assert_eq!(drawn.len(), HISTOGRAM_BINS, "the histogram");
    for (bin, name, count) in [(0, "-4.0", 0), (10, "-2.0", 130), (20, "0.0", 850), (39, "3.8", 0)] {
        assert_eq!(drawn[bin], (format!("drawn_from_z_{name}"), f64::from(count)));
    }
    let logit = of("logit");
    assert!(logit[1].1.is_nan() && [logit[0].1, logit[8].1, logit[5].1] == [7.5, 8.5, 0.25], "{logit:?}");
}

#[test]
fn without_a_test_it_says_why() {
    let why = |trace: &Trace| why_nothing("order_test", trace);
    let mut trace = small::planned();
    trace.order_test = Some(Found::None { none: "It reads a set".to_owned() });
    assert_eq!(why(&trace), "It reads a set");
    trace.order_test = None;
    assert!(why(&trace).contains("recreate the trace"));
    let mut still = small::planned();
    small::contrasts(&mut still)[1].reassigned.z = None;
    assert_eq!(why(&still), "All orders of these tokens give the same value");
}
