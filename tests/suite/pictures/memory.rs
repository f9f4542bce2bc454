//! Pictures of the memory kernel, by steps before the end, and of evidence by position.

use ssmprobe::model::trace::Matrix;
use ssmprobe::viz::figures::trace_plot::TracePlot;

use super::marks::Axes;
use super::prelude::*;
use super::side_by_side;
use super::small::{EXACT, EXACT_RASTER, KERNEL, PROXY, PROXY_RASTER, SECOND};

/// The expected points of a curve over steps or positions.
fn curve(axes: &Axes, value: impl Fn(usize) -> f64) -> Vec<Point> {
    (0..N).map(|at| axes.at(at as f64, value(at))).collect()
}

#[test]
pub fn kernel() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("kernel", &trace, &Options::default(), &theme);
        let axes = marks.axes(0);
        assert_eq!((&*axes.x_name, &*axes.y_name), ("Steps before the end, j", "K[j] / max |K|"));
        assert!(axes.x.rises() && !axes.y.rises());
        let measured = marks.lines(marks.swatch("Measured"), N)[0];
        assert_close("K[j]", measured, curve(&axes, |j| f64::from(KERNEL[j]) / 0.031), 0.02);
        assert!(
            near(measured[0][0], axes.area.x),
            "the token read last, 0 steps before the end, at the left"
        );
        let decay = marks.lines(marks.swatch("ρ^j, spectral radius ρ = 0.9"), N)[0];
        assert_close("0.9^j", decay, curve(&axes, |j| 0.9f64.powi(j as i32)), 0.02);
        assert!(marks.has("max |K| = 0.031"));
        let log = Options { log: true, ..Options::default() };
        let marks = drawn("kernel", &trace, &log, &theme);
        let axes = marks.axes(0);
        assert!(axes.y.is_log() && axes.y_name == "|K[j]| / max |K|");
        let measured = marks.lines(marks.swatch("Measured"), N)[0];
        assert_close("|K[j]|", measured, curve(&axes, |j| f64::from(KERNEL[j]).abs() / 0.031), 0.05);
        // 0.5^5 is below the smallest |K|: the line ends before.
        let marks = drawn("kernel", &Trace { radius: Some(0.5), ..trace.clone() }, &log, &theme);
        let decay = marks.lines(marks.swatch("ρ^j, spectral radius ρ = 0.5"), 5)[0];
        assert_close("0.5^j", decay, &curve(&marks.axes(0), |j| 0.5f64.powi(j as i32))[..5], 0.05);
        // Of a kernel that falls below a millionth, where the axis ends, and rises again, what lies below is left out.
        let data: Vec<f32> =
            (0..N).map(|j| if (4..7).contains(&j) { 1e-8 } else { 0.1f32.powi(j as i32 / 3) }).collect();
        let fallen = Trace { kernel: Some(Matrix { rows: N, cols: 1, data: data.clone() }), ..trace.clone() };
        let marks = drawn("kernel", &fallen, &log, &theme);
        let expected = curve(&marks.axes(0), |j| f64::from(data[j]));
        for part in [0..4, 7..N] {
            let found = marks.lines(marks.swatch("Measured"), part.len())[0];
            assert_close("|K[j]|", found, &expected[part], 0.05);
        }
    }
}

#[test]
fn every_sweep_has_the_line_of_its_own_kernel() {
    for theme in looks() {
        let marks = drawn("kernel", &small::swept(), &Options::default(), &theme);
        let axes = marks.axes(0);
        for (name, kernel) in [("Sweep 1", KERNEL), ("Sweep 2", SECOND)] {
            let found = marks.lines(marks.swatch(name), N)[0];
            assert_close(name, found, curve(&axes, |j| f64::from(kernel[j]) / 0.031), 0.02);
        }
        assert!(marks.has("ρ^j, sweep 1, spectral radius ρ = 0.9"));
        let dashes = marks.items.iter().filter_map(|item| match &item.shape {
            Shape::Path { points, stroke: Some(stroke), .. } if points.len() == N => Some(stroke.dash),
            _ => None,
        });
        let dashes: Vec<_> = dashes.collect();
        assert!(dashes.len() == 3 && (1..3).all(|at| !dashes[..at].contains(&dashes[at])), "{dashes:?}");
    }
}

#[test]
fn the_radius_is_not_cut_in_a_narrow_legend() {
    let (theme, figure) = (looks()[0].clone(), find("kernel").expect("a figure"));
    for (trace, powers) in [(small::planned(), "ρ^j"), (small::swept(), "ρ^j, sweep 1")] {
        let trace = Trace { radius: Some(0.9877), ..trace };
        let scene = draw_column(figure, &trace, &Options::default(), &theme, 104.0).expect("a kernel");
        let marks = Marks::of(&scene, &theme);
        assert!(marks.has(powers) && marks.has("Spectral radius ρ = 0.9877"), "{:?}", marks.words());
    }
}

#[test]
fn kernels_side_by_side_share_their_axis() {
    let (theme, mut low) = (Theme::light(), small::planned());
    low.kernel.as_mut().expect("a kernel").data[N - 1] = -0.025;
    let kernel = [find("kernel").expect("a figure")];
    let ends = |plot: &TracePlot| {
        let marks = Marks::of(&plot.draw_column(&theme, 400.0).expect("two columns"), &theme);
        [0, 1].map(|column| {
            let Axes { area, y, .. } = marks.axes(column);
            [area.bottom(), area.y].map(|end| y.number(end))
        })
    };
    let row = side_by_side(&[&small::planned(), &low], &kernel, &Options::default());
    let [one, other] = ends(&row);
    assert_close("one scale", one, other, 1e-3);
    let [one, other] = ends(&TracePlot { own_scales: true, ..row });
    assert!(one[0] > other[0] + 0.3, "each on its own: {one:?}, {other:?}");
    // By itself on limits that were asked for, of which a twentieth is left free.
    let options = Options { limits: Some((-1.0, 2.0)), ..Options::default() };
    let Axes { area, y, .. } = drawn("kernel", &low, &options, &theme).axes(0);
    assert_close("limits", [area.bottom(), area.y].map(|end| y.number(end)), [-1.15, 2.15], 1e-3);
}

#[test]
fn channels_are_their_median_in_a_band_of_their_middle() {
    for theme in looks() {
        let marks = drawn("kernel", &small::channelled(), &Options::default(), &theme);
        let axes = marks.axes(0);
        let largest = 0.031 + 0.0031;
        let channels = |j: usize| {
            let k = f64::from(KERNEL[j]);
            let mut sorted = [k, 0.5 * k, k + 0.0031];
            sorted.sort_by(f64::total_cmp);
            sorted
        };
        // With three channels, the 5th percentile is a tenth of the way from the lowest to the middle one.
        let [low, high] = [0, 2].map(|end| {
            curve(&axes, |j| {
                let sorted = channels(j);
                (0.9 * sorted[end] + 0.1 * sorted[1]) / largest
            })
        });
        let median = marks.lines(marks.swatch("Measured, median"), N)[0];
        assert_close("median", median, curve(&axes, |j| channels(j)[1] / largest), 0.02);
        let band = marks.areas(marks.swatch("5 to 95 % of 3 channels"))[0];
        assert_close("upper edge", &band[..N], high, 0.02);
        let lower: Vec<Point> = band[N..].iter().rev().copied().collect();
        assert_close("lower edge", lower, low, 0.02);
    }
}

/// Checks the bars of the upper panel: in the colours of the legend, and on their sides of zero.
fn bars(marks: &super::Marks, theme: &Theme) {
    let axes = marks.axes(0);
    let colors = [marks.swatch("For crane"), marks.swatch("Against")];
    assert_eq!(colors, [theme.positive, theme.negative]);
    let [up, down] = colors.map(|color| {
        let inside =
            |bar: &ssmprobe::viz::draw::scene::Box2| bar.y >= axes.area.y - 0.1 && bar.x >= axes.area.x;
        marks.fills(color).into_iter().filter(inside).collect::<Vec<_>>()
    });
    assert_eq!(up.len() + down.len(), N);
    let (zero, half) = (axes.y.at(0.0), 0.5 * axes.area.w / N as f32);
    for (k, value) in EXACT.iter().map(|v| f64::from(*v)).enumerate() {
        let over = axes.x.at(k as f64);
        let own = if value > 0.0 { &up } else { &down };
        let bar = own.iter().find(|bar| bar.x < over && over < bar.right());
        let bar = bar.unwrap_or_else(|| panic!("no bar of its colour stands over position {k}"));
        assert!(bar.x >= over - half - 0.1 && bar.right() <= over + half + 0.1, "it stands over {k} alone");
        let ends = if value > 0.0 { [axes.y.at(value), zero] } else { [zero, axes.y.at(value)] };
        assert!(near(bar.y, ends[0]) && near(bar.bottom(), ends[1]), "position {k}: {bar:?}, not {ends:?}");
    }
    let tallest = up.iter().chain(&down).max_by(|a, b| a.h.total_cmp(&b.h)).expect("bars");
    assert!((axes.x.number(tallest.center()[0]) - 8.0).abs() < 0.5, "the largest evidence is of position 8");
}

#[test]
pub fn evidence() {
    let trace = small::planned();
    for theme in looks() {
        let marks = drawn("evidence", &trace, &Options::default(), &theme);
        bars(&marks, &theme);
        let (upper, lower) = (marks.axes(0), marks.axes(1));
        assert!(
            upper.area.bottom() < lower.area.y && near(upper.area.x, lower.area.x),
            "one above the other"
        );
        assert!([&upper, &lower].iter().all(|axes| axes.x.rises() && !axes.y.rises()));
        let names = (&*upper.y_name, &*lower.y_name, &*lower.x_name);
        assert_eq!(names, ("Evidence (logit)", "Proxy (logit)", "Position (last is read last)"));
        for name in ["In raster order", "Proxy, raster order"] {
            assert_eq!(marks.swatch(name), theme.muted, "{name}: blue would be evidence against the class");
        }
        for (name, axes, values) in [
            ("In raster order", &upper, EXACT_RASTER),
            ("Proxy, as routed", &lower, PROXY),
            ("Proxy, raster order", &lower, PROXY_RASTER),
        ] {
            let lines = marks.lines(marks.swatch(name), N);
            let line = lines.into_iter().find(|line| {
                line.iter().all(|[_, y]| *y > axes.area.y - 0.1 && *y < axes.area.bottom() + 0.1)
            });
            assert_close(name, line.expect("a line"), curve(axes, |k| f64::from(values[k])), 0.02);
        }
    }
}

#[test]
fn the_memory_behind_evidence_is_strongest_at_the_position_read_last() {
    // Of two sweeps: the root mean square, as their evidence is averaged.
    let one: Vec<f64> = KERNEL.iter().map(|k| f64::from(k.abs())).collect();
    let both: Vec<f64> = KERNEL.iter().zip(SECOND).map(|(a, b)| f64::from(a.hypot(b))).collect();
    let cases: [(Trace, Vec<f64>); 2] = [(small::planned(), one), (small::swept(), both)];
    for (trace, kept) in cases {
        let theme = Theme::light();
        let marks = drawn("evidence", &trace, &Options::default(), &theme);
        let axes = marks.axes(0);
        let band = marks.areas(theme.band.alpha(0.6))[0];
        let largest = kept.iter().copied().fold(0.0, f64::max);
        let (zero, reach) = (axes.y.at(0.0), axes.y.at(0.0) - axes.area.y);
        let expected: Vec<Point> = (0..N)
            .map(|k| [axes.x.at(k as f64), zero - (kept[N - 1 - k] / largest) as f32 * reach])
            .collect();
        assert_close("|K| by position", &band[1..=N], expected, 0.02);
        assert!(marks.has("|K|, own scale"));
    }
}

#[test]
fn lines_leave_an_axis_whose_limits_they_exceed() {
    // With a margin of a twentieth, from -0.44 to 0.44: positions 5, 8 and 11 lie beyond.
    let options = Options { limits: Some((-0.4, 0.4)), ..Options::default() };
    let marks = drawn("evidence", &small::planned(), &options, &Theme::light());
    let expected = curve(&marks.axes(0), |k| f64::from(EXACT_RASTER[k]));
    let own = marks.swatch("In raster order");
    for part in [0..5, 6..8, 9..11] {
        let mut lines = marks.lines(own, part.len()).into_iter();
        let line = lines.find(|line| near(line[0][0], expected[part.start][0])).expect("a part");
        assert_close("between the limits", line, &expected[part], 0.02);
    }
}

#[test]
fn on_one_scale_evidence_is_as_high_whatever_its_legend_says() {
    let (theme, own) = (Theme::light(), Options::default());
    let shared = Options { limits: Some((-4.0, 6.0)), ..Options::default() };
    let all = small::planned();
    let mut few = Trace { kernel: None, ..small::planned() };
    few.evidence.position_raster = None;
    let marks = |trace: &Trace, options: &Options| {
        let scene = draw_column(find("evidence").expect("a figure"), trace, options, &theme, 180.0);
        Marks::of(&scene.expect("a picture"), &theme)
    };
    let top = |trace: &Trace, options: &Options| marks(trace, options).axes(0).area.y;
    assert!(top(&all, &own) > top(&few, &own) + 1.0, "below a second line of the legend");
    assert!(near(top(&all, &shared), top(&few, &shared)));
    assert!(marks(&few, &shared).has("For crane"), "it says for which class");
}

#[test]
fn shared_limits_are_the_ends_of_both_panels() {
    let options =
        Options { limits: Some((-4.0, 6.0)), proxy_limits: Some((-3.0, 1.0)), ..Options::default() };
    let marks = drawn("evidence", &small::planned(), &options, &Theme::light());
    // The axes leave a twentieth of the range free at either end.
    for (axes, ends) in [(marks.axes(0), [-4.5, 6.5]), (marks.axes(1), [-3.2, 1.2])] {
        let found = [axes.area.bottom(), axes.area.y].map(|end| axes.y.number(end));
        assert_close("ends of the axis", found, ends, 0.01);
    }
    let own = drawn("evidence", &small::planned(), &Options::default(), &Theme::light()).axes(0);
    let found = [own.area.bottom(), own.area.y].map(|end| own.y.number(end));
    assert_close("else those of its own values", found, [-1.22 - 0.164, 2.06 + 0.164], 0.01);
}
