//! Pictures of other data than a trace, such as the stability of an order and training curves, and several probes side by side.

use ssmprobe::model::explain::removal::Mode;
use ssmprobe::model::grid::Grid;
use ssmprobe::viz::difference::subtract;
use ssmprobe::viz::draw::{font, series};
use ssmprobe::viz::figures::curves::{self, Curves, Means, Part, Series, TrainingPlot};
use ssmprobe::viz::figures::rates::RatesPlot;
use ssmprobe::viz::figures::removal::{Quantity, RemovalPlot, RemovalView};
use ssmprobe::viz::figures::settings::{SettingPoint, SettingsPlot};
use ssmprobe::viz::figures::stability::StabilityPlot;
use ssmprobe::viz::figures::trace_plot::TracePlot;
use ssmprobe::viz::{MARGIN, Size, export};

use super::marks::Axes;
use super::prelude::*;
use super::side_by_side;
use super::small::{ACCURACIES, LOSSES, SPREAD, STEPS, TOKEN_EVIDENCE};

#[test]
pub fn stability() {
    let measured = small::stability();
    for theme in looks() {
        let marks = plotted(&StabilityPlot(measured.clone().into()), &theme);
        let axes = marks.axes(0);
        assert!(axes.x.rises() && axes.x_name == "Kendall tau to the unchanged image's order");
        let rows = [("Flipped", "−0.02", -0.02), ("Noise", "0.82", 0.82), ("Darker", "0.64", 0.64)];
        let heights = rows.map(|(name, ..)| height(&marks.word(name)));
        assert!(heights.windows(2).all(|pair| pair[0] < pair[1]), "in the order they were made");
        for (((name, said, mean), own), group) in rows.into_iter().zip(heights).zip(&measured.groups) {
            let dots = marks.dots(marks.swatch("One change").alpha(0.8)).into_iter().map(|dot| dot.at);
            let dots: Vec<Point> = dots.filter(|dot| near(dot[1], own)).collect();
            let expected: Vec<Point> = group.taus.iter().map(|(_, tau)| [axes.x.at(*tau), own]).collect();
            assert_close(name, dots, expected, 0.02);
            let ticks = marks.lines(marks.swatch("Mean"), 2);
            let tick = ticks
                .into_iter()
                .find(|tick| near(f32::midpoint(tick[0][1], tick[1][1]), own) && tick[0][0] > axes.area.x);
            assert!(near(tick.expect("a mean")[0][0], axes.x.at(mean)), "{name}");
            assert!(near(height(&marks.word(said)), own), "{name}");
        }
        let band = marks.fills(marks.swatch("Random orders, 5 to 95 %"));
        let band = band.iter().find(|band| near(band.h, axes.area.h)).expect("a band");
        assert!(near(band.x, axes.x.at(-0.18)) && near(band.right(), axes.x.at(0.12)));
    }
    let mut none = measured;
    none.groups[1].taus.clear();
    let marks = plotted(&StabilityPlot(none.into()), &Theme::light());
    assert!(marks.has("–") && !marks.has("NaN"), "a kind of change without one tau");
}

#[test]
pub fn removal() {
    let removed = Arc::new(small::removal());
    for theme in looks() {
        let mut plot = RemovalPlot::new(removed.clone(), None).expect("curves");
        let RemovalView { mode, ranking, step, .. } = &plot.view;
        assert_eq!((*mode, ranking.as_str(), *step), (Mode::Frozen, "evidence", 2));
        let marks = plotted(&plot, &theme);
        for (way, name) in ["Share taken away", "Share put back"].into_iter().enumerate() {
            let axes = marks.axes(way);
            assert!(axes.x.rises() && axes.x_name == name, "{}", axes.x_name);
            let curve = |values: &[f64]| -> Vec<Point> {
                removed.fraction.iter().zip(values).map(|(x, y)| axes.at(*x, *y)).collect()
            };
            let evidence = marks.lines(marks.swatch("Evidence"), 5);
            assert_close(name, evidence[way].to_vec(), curve(&small::REMOVED[way]), 0.02);
            let random = removed.modes[&Mode::Frozen].found().expect("curves");
            let mean = marks.lines(marks.swatch("Random, mean"), 5);
            assert_close(name, mean[way].to_vec(), curve(&random["random"][way].logit), 0.02);
            let band = marks.areas(marks.swatch("Random, 5 to 95 % of 16 orders"));
            let mut edge = curve(&random["random_high"][way].logit);
            edge.extend(curve(&random["random_low"][way].logit).into_iter().rev());
            assert_close(name, band[way].to_vec(), edge, 0.02);
            // The step that is shown.
            let rule = marks.lines(theme.ink, 2);
            let rule =
                rule.iter().filter(|line| near(line[0][0], axes.x.at(0.5)) && near(line[1][0], line[0][0]));
            assert_eq!(rule.count(), 1, "{name}");
        }
        // At half of the tokens, the first six of the ranking are missing on the left, and alone present on the right.
        let ranked = removed.rankings["evidence"].found().expect("a ranking");
        let covers = marks.rasters(GRID.cols, GRID.rows);
        assert_eq!(covers.len(), 2);
        for (way, (_, cover)) in covers.iter().enumerate() {
            for (at, token) in ranked.order.iter().enumerate() {
                let hidden = pixel(cover, token % GRID.cols, token / GRID.cols).a > 0;
                assert_eq!(hidden, (at < 6) == (way == 0), "token {token}, way {way}");
            }
        }
        assert!(marks.has("Evidence, 6 of 12 tokens left") && marks.has("Removed: tokens, frozen"));
        (plot.view.quantity, plot.view.step) = (Quantity::Probability, 0);
        let marks = plotted(&plot, &theme);
        assert!(marks.has("Evidence, 12 of 12 tokens left") && marks.has("Evidence, 1 of 12 tokens left"));
        assert!(marks.axes(0).y_name == "Probability of heron");
        plot.view.quantity = Quantity::Margin;
        assert!(plotted(&plot, &theme).axes(0).y_name == "Margin of heron over wren");
        plot.view.mode = Mode::Patches;
        let why = Plot::draw_column(&plot, &theme, export::points(85.0)).expect_err("nothing of patches");
        assert_eq!(why.0, "No patch is known");
    }
}

#[test]
fn beside_a_point_of_removal_curves_its_own_step_is_pointed_at() {
    let removed = Arc::new(small::removal());
    let plot = RemovalPlot::new(removed.clone(), None).expect("curves");
    let scene = plot.draw_column(&Theme::light(), COLUMN).expect("curves");
    let marks = Marks::of(&scene, &Theme::light());
    for Axes { area, x, .. } in [0, 1].map(|way| marks.axes(way)) {
        for (step, share) in removed.fraction.iter().enumerate() {
            for beside in [-8.0, 8.0] {
                let across = (x.at(*share) + beside).clamp(area.x + 0.1, area.right() - 0.1);
                let hover = scene.hover([across, area.center()[1]]);
                assert_eq!(hover.and_then(|hover| hover.item), Some(step), "{beside} from {share}");
            }
        }
    }
}

#[test]
fn removal_curves_are_not_flattened_by_a_small_pane() {
    let plot = RemovalPlot::new(small::removal().into(), None).expect("curves");
    let [narrow, wide] = [170.0, 300.0].map(|width| Size { width, ..plot.legible(width) });
    // In a low one the pictures take less than the curves.
    let sizes = [(narrow, 35.0), (wide, 35.0), (Size { width: 420.0, height: 215.0 }, 90.0)];
    for (theme, (size, least)) in looks().into_iter().flat_map(|theme| sizes.map(|one| (theme.clone(), one)))
    {
        let marks = Marks::of(&plot.scene(&theme, size).expect("curves"), &theme);
        let [top, corner, _] = marks.lines(theme.axis, 3)[0] else { panic!("no axes") };
        assert!(corner[1] - top[1] > least, "{size:?}: {top:?} to {corner:?}");
    }
}

#[test]
fn pictures_of_removal_curves_say_how_many_tokens_are_left_and_do_not_cover_each_others_words() {
    let plot = RemovalPlot::new(small::removal().into(), None).expect("curves");
    for (theme, width) in looks().into_iter().flat_map(|theme| [130.0, 300.0].map(|w| (theme.clone(), w))) {
        let size = Size { width, height: 200.0 };
        let words = Marks::of(&plot.scene(&theme, size).expect("curves"), &theme).words();
        let said = if width < 200.0 { "6 of 12" } else { "Evidence, 6 of 12 tokens left" };
        let said: Vec<_> = words.iter().filter(|word| word.text.starts_with(said)).collect();
        let [taken, back] = said[..] else { panic!("{width} points wide: {words:?}") };
        assert!(taken.at[0] + font::width(&taken.text, taken.size) < back.at[0], "{width} points wide");
    }
}

/// The points with the last one repeated, as curves are drawn.
fn ended(mut points: Vec<Point>) -> Vec<Point> {
    points.extend(points.last().copied());
    points
}

/// Checks the curve of every head, in the colour of its name in the legend.
#[track_caller]
fn lines(marks: &Marks, axes: &Axes, values: [[f64; 4]; 2]) {
    for (head, values) in ["sinkhorn", "gap"].into_iter().zip(values) {
        let expected = ended(STEPS.iter().zip(values).map(|(step, v)| axes.at(*step, v)).collect());
        let inside = |line: &&[Point]| {
            line.iter().all(|[_, y]| *y > axes.area.y - 0.1 && *y < axes.area.bottom() + 0.1)
        };
        let mut found = marks.lines(marks.swatch(head), 5).into_iter().filter(inside);
        assert_close(head, found.next().expect("a line"), expected, 0.02);
        assert!(found.next().is_none());
    }
    assert_ne!(marks.swatch("sinkhorn"), marks.swatch("gap"));
    assert!(axes.x.rises() && !axes.y.rises());
}

#[test]
pub fn training() {
    for theme in looks() {
        let marks = plotted(&small::training(Part::Both, false), &theme);
        let (upper, lower) = (marks.axes(0), marks.axes(1));
        assert!(upper.area.bottom() < lower.area.y, "loss above, accuracy below");
        let names = (&*upper.y_name, &*lower.y_name, &*lower.x_name);
        assert_eq!(names, ("Training loss", "Accuracy (%)", "Training step"));
        lines(&marks, &upper, LOSSES);
        lines(&marks, &lower, ACCURACIES);
    }
}

#[test]
pub fn training_loss() {
    for (theme, log) in looks().into_iter().flat_map(|theme| [(theme.clone(), false), (theme, true)]) {
        let marks = plotted(&small::training(Part::Loss, log), &theme);
        let axes = marks.axes(0);
        assert_eq!((&*axes.x_name, &*axes.y_name, axes.y.is_log()), ("Training step", "Training loss", log));
        lines(&marks, &axes, LOSSES);
        assert!(!marks.has("Accuracy (%)"));
        // One standard deviation above and below the first; the second has one seed.
        let band = marks.areas(marks.swatch("sinkhorn").alpha(0.16))[0];
        let edge = |sign: f64| {
            ended((0..4).map(|at| axes.at(STEPS[at], LOSSES[0][at] + sign * SPREAD[at])).collect())
        };
        let expected: Vec<Point> = edge(1.0).into_iter().chain(edge(-1.0).into_iter().rev()).collect();
        assert_close("the band", band, expected, 0.02);
        assert!(marks.areas(marks.swatch("gap").alpha(0.16)).is_empty());
    }
}

#[test]
fn a_band_on_a_logarithmic_axis_is_as_wide_as_on_a_linear_one() {
    let mut plot = small::training(Part::Loss, true);
    let spread = [0.9 * LOSSES[0][0], 0.6 * LOSSES[0][1], 0.7 * LOSSES[0][2], 1.5 * LOSSES[0][3]];
    plot.curves.series[0].loss.spread = spread.into();
    let marks = plotted(&plot, &Theme::light());
    let axes = marks.axes(0);
    let edge =
        |sign: f64| ended((0..4).map(|at| axes.at(STEPS[at], LOSSES[0][at] + sign * spread[at])).collect());
    let mut low = edge(-1.0);
    // The last is below zero.
    low[3..].iter_mut().for_each(|[_, y]| *y = axes.area.bottom());
    let expected: Vec<Point> = edge(1.0).into_iter().chain(low.into_iter().rev()).collect();
    assert_close("the band", marks.areas(marks.swatch("sinkhorn").alpha(0.16))[0], expected, 0.02);
    let [low, high] = series::band(&[2.0, 0.5], &[1.5, 1.0], true).expect("a band");
    assert_eq!([low, high], [vec![0.5, 0.25], vec![3.5, 1.5]], "in the window, whose axis is fitted to it");
}

#[test]
pub fn training_accuracy() {
    for theme in looks() {
        let marks = plotted(&small::training(Part::Accuracy, false), &theme);
        let axes = marks.axes(0);
        assert_eq!((&*axes.x_name, &*axes.y_name), ("Training step", "Accuracy (%)"));
        lines(&marks, &axes, ACCURACIES);
        assert!(!marks.has("Training loss"));
        let dots = marks.dots(marks.swatch("gap")).into_iter().map(|dot| dot.at).collect::<Vec<Point>>();
        assert_eq!(dots.len(), 5, "few points are marked");
        at(dots[3], axes.at(35.0, 42.0));
    }
}

#[test]
pub fn rates() {
    for theme in looks() {
        let plot = small::rates();
        let marks = plotted(&plot, &theme);
        let bar = marks.bar();
        assert_eq!(bar.name, "Accuracy on selection images (%)");
        let grid = Grid::new(3, 2);
        let maps = marks.rasters(2, 3);
        assert_eq!(maps.len(), 2, "a map a head");
        for ((place, raster), values) in maps.iter().zip(small::SELECTED) {
            for (cell, value) in values.into_iter().enumerate() {
                let found = pixel(raster, cell % 2, cell / 2);
                let center = middle(*place, grid, cell);
                let said = marks.words().into_iter().find(|word| {
                    (word.at[0] - center[0]).abs() < 1.0 && (word.at[1] - center[1]).abs() < 6.0
                });
                let said = said.expect("a word in every cell").text;
                match value {
                    Some(value) => {
                        assert!(apart(found, bar.color(value)) <= SHADE, "{value}: {found:?}");
                        assert_eq!(said, format!("{value:.1}"));
                    }
                    None => assert_eq!(said, "–"),
                }
            }
        }
        // The first of the best cells is framed, and its accuracy on the test images is written below.
        let frames = marks.outlines(theme.ink);
        let [first, second] = &frames[..] else { panic!("{} frames", frames.len()) };
        for (frame, (place, cell)) in [(first, (maps[0].0, 3)), (second, (maps[1].0, 0))] {
            at(frame.center(), middle(place, grid, cell));
        }
        assert!(marks.has("layer 6, rate 0.01: 80.00 %, on test images 71.00 %"));
        assert!(
            marks.has("gap") && marks.has("sinkhorn") && marks.has("Learning rate") && marks.has("Layer")
        );
    }
    let none = RatesPlot { grids: Vec::new(), ..small::rates() };
    let why = Plot::draw_column(&none, &Theme::light(), export::points(85.0)).err();
    assert!(why.is_some_and(|why| why.0.contains("--layers")));
}

#[test]
pub fn settings() {
    for theme in looks() {
        let plot = small::settings();
        let marks = plotted(&plot, &theme);
        let (upper, lower) = (marks.axes(0), marks.axes(1));
        assert!(upper.area.bottom() < lower.area.y, "accuracy above, coverage below");
        let names = (&*upper.y_name, &*lower.y_name, &*lower.x_name);
        assert_eq!(names, ("Accuracy (%)", "Rank coverage", "temperature"));
        assert!(lower.x.is_log() && lower.x.rises(), "values from 0.1 to 100");
        let curve = |axes: &Axes, head: usize, of: &dyn Fn(&SettingPoint) -> Option<f64>| -> Vec<Point> {
            let points = plot.lines[head].points.iter();
            points.filter_map(|point| Some(axes.at(point.value, of(point)?))).collect()
        };
        for (head, name) in ["softsort", "content"].into_iter().enumerate() {
            let found = marks.lines(marks.swatch(name), 3);
            let mut expected = vec![curve(&upper, head, &|point| Some(point.accuracy.mean))];
            if head == 0 {
                expected.push(curve(&lower, head, &|point| Some(point.coverage?.mean)));
            }
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.into_iter().zip(expected) {
                assert_close(name, found.to_vec(), expected, 0.02);
            }
        }
    }
    let mut plot = small::settings();
    assert!(!plotted(&plot, &Theme::light()).words().iter().any(|word| word.text.starts_with("Bands")));
    for (point, deviation) in plot.lines[0].points.iter_mut().zip([3.0, 5.0, 2.0]) {
        point.accuracy.deviation = Some(deviation);
        point.accuracy.seeds = 4;
    }
    let marks = plotted(&plot, &Theme::light());
    assert!(marks.has("Bands: one standard deviation over 4 seeds"));
    let edge = |sign: f64| {
        let axes = marks.axes(0);
        let points = plot.lines[0].points.iter().map(|point| (point.value, point.accuracy));
        let at = points.map(|(x, number)| axes.at(x, number.mean + sign * number.deviation.unwrap()));
        at.collect::<Vec<Point>>()
    };
    let expected: Vec<Point> = edge(1.0).into_iter().chain(edge(-1.0).into_iter().rev()).collect();
    assert_close("the band", marks.areas(marks.swatch("softsort").alpha(0.16))[0], expected, 0.02);
    assert_eq!(plot.table().row(0)[4..], ["4", "3", "1", "", "temperature"]);
    // All bands are below all lines: that of a later line would veil an earlier one.
    plot.lines[1].points.iter_mut().for_each(|point| point.accuracy.deviation = Some(20.0));
    plot.lines.iter_mut().flat_map(|line| &mut line.points).for_each(|point| point.coverage = None);
    let theme = Theme::light();
    let shapes = plotted(&plot, &theme).items.into_iter().map(|item| item.shape);
    let drawn = shapes.filter_map(|shape| match shape {
        Shape::Path { closed: true, fill: Some(_), points, .. } if points.len() == 6 => Some("band"),
        Shape::Path { stroke: Some(stroke), points, .. }
            if points.len() == 3 && theme.series.contains(&stroke.color) =>
        {
            Some("line")
        }
        _ => None,
    });
    assert_eq!(drawn.collect::<Vec<_>>(), ["band", "band", "line", "line"]);
    let none = SettingsPlot { lines: Vec::new(), ..small::settings() };
    let why = Plot::draw_column(&none, &Theme::light(), export::points(85.0)).err();
    assert!(why.is_some_and(|why| why.0.contains("ssmprobe sweep")));
}

#[test]
fn heads_differ_by_their_dash_and_not_by_colour_alone() {
    let theme = Theme::light();
    let mut plot = small::training(Part::Loss, false);
    let one = plot.curves.series[0].clone();
    // Eight times the number of colours: every head still has a line style of its own.
    plot.curves.series = vec![Series { number: Some(3), ..one.clone() }];
    let marks = plotted(&plot, &theme);
    assert_eq!(marks.swatch("sinkhorn"), theme.series[3], "the colour it has beside the heads left out");
    plot.curves.series = (0..56).map(|head| Series { name: format!("head {head}"), ..one.clone() }).collect();
    let marks = plotted(&plot, &theme);
    let strokes = marks.items.iter().filter_map(|item| match &item.shape {
        Shape::Path { points, closed: false, stroke: Some(stroke), .. } if points.len() == 5 => Some(stroke),
        _ => None,
    });
    let strokes: Vec<_> = strokes.collect();
    assert_eq!(strokes.len(), 56);
    for (head, stroke) in strokes.iter().enumerate() {
        assert_eq!(
            (stroke.color, stroke.dash.is_some()),
            (theme.series[head % 7], head % 8 > 0),
            "head {head}"
        );
        assert!(strokes[..head].iter().all(|other| other != stroke), "head {head} looks like another");
        assert!(strokes[head.saturating_sub(7)..head].iter().all(|other| other.dash != stroke.dash));
    }
}

#[test]
fn bands_of_training_curves_say_what_they_are() {
    let mut plot = small::training(Part::Both, false);
    plot.curves.series[0].accuracy.spread = vec![10.0; 4];
    for (interval, text) in [(true, "95 % interval of the mean"), (false, "one standard deviation")] {
        plot.curves.interval = interval;
        for (seeds, over) in [([5; 4], "5"), ([5, 5, 2, 1], "2 to 5")] {
            plot.curves.series[0].accuracy.seeds = seeds.into();
            assert!(plotted(&plot, &Theme::light()).has(&format!("Bands: {text} over {over} seeds")));
        }
    }
    let table = plot.table();
    let one_seed = (0..table.rows()).map(|row| table.row(row)).find(|row| row[0] == "gap");
    assert_eq!(one_seed.expect("a row")[4], "", "one seed has no spread");
    let last = (0..table.rows()).map(|row| table.row(row)).rfind(|row| row[0] == "sinkhorn");
    assert_eq!(last.expect("a row"), ["sinkhorn", "accuracy", "35", "58", "10", "1"]);
    let mut bare = plot.clone();
    bare.curves.series.remove(0);
    // Nor is anything said of the bands of losses beside accuracies that have none.
    for bare in [bare, small::training(Part::Accuracy, false)] {
        assert!(!plotted(&bare, &Theme::light()).words().iter().any(|word| word.text.starts_with("Bands")));
    }
    let none = TrainingPlot { curves: Curves::default(), ..plot };
    assert!(none.draw_column(&Theme::light(), COLUMN).is_err());
    let band = series::band(&[1.0, 2.0], &[0.5, f64::NAN], false);
    assert_eq!(band, Some([vec![0.5, 2.0], vec![1.5, 2.0]]));
}

#[test]
fn of_noisy_losses_the_mean_is_bold_and_they_themselves_faint() {
    let loss = |at: usize| 2.0 - 0.005 * at as f64 + if at.is_multiple_of(2) { 0.3 } else { -0.3 };
    let points: Vec<(f64, f64)> = (0..240).map(|at| (at as f64, loss(at))).collect();
    let average = curves::average(&points);
    let means = |points: &[(f64, f64)]| Means { points: points.to_vec(), ..Means::default() };
    let series =
        Series { name: "gap".into(), loss: means(&points), average: means(&average), ..Series::default() };
    let mut plot: TrainingPlot = small::training(Part::Loss, false);
    plot.curves.series = vec![series];
    let theme = Theme::light();
    let marks = plotted(&plot, &theme);
    let axes = marks.axes(0);
    for (color, points) in [(theme.series(0), average), (theme.series(0).alpha(0.25), points)] {
        let expected = ended(points.iter().map(|(step, v)| axes.at(*step, *v)).collect());
        assert_close(format!("{color:?}"), marks.lines(color, 241)[0], expected, 0.02);
    }
}

#[test]
fn probes_side_by_side_stand_in_their_order_on_one_scale() {
    let doubled = TOKEN_EVIDENCE.map(|v| 2.0 * v);
    let mut other = Trace { probe: "softsort.safetensors".into(), ..small::planned() };
    other.evidence.token = Some(doubled.into());
    let figures = ["token_map", "predictions"].map(|id| find(id).expect("a figure"));
    for theme in looks() {
        let width = export::points(174.0);
        let traces = [&small::planned(), &other];
        let scene = side_by_side(&traces, &figures, &Options::default())
            .draw_column(&theme, width)
            .expect("a comparison");
        let marks = Marks::of(&scene, &theme);
        let (covers, bars) = (marks.rasters(GRID.cols, GRID.rows), marks.bars());
        assert_eq!([covers.len(), bars.len()], [2, 1], "one colour bar for the row");
        let bar = &bars[0];
        assert!(bar.place.x > covers[1].0.right());
        assert!(covers[0].0.right() < covers[1].0.x && near(covers[0].0.y, covers[1].0.y));
        for ((place, raster), (name, values)) in
            covers.iter().zip([("sinkhorn", TOKEN_EVIDENCE), ("softsort", doubled)])
        {
            let title = marks.word(name);
            assert!(title.at[1] < place.y && title.at[0] > place.x && title.at[0] < bar.place.x, "{name}");
            assert_close(name, bar.ends(), [-2.48, 2.48], 1e-4);
            coloured(raster, GRID, bar, &values);
        }
        let rows = ["Evidence by token. For crane", "Predictions"].map(|title| marks.word(title).at[1]);
        assert!(
            rows[0] < rows[1] && covers[0].0.bottom() < rows[1],
            "a row a figure, in the order asked for"
        );
    }
}

#[test]
fn charts_of_a_row_begin_and_end_at_one_height_whatever_their_legends_say() {
    let (theme, cell, planned) = (Theme::light(), 220.0, small::planned());
    let mut described = small::planned();
    small::contrasts(&mut described)[1].descriptive = true;
    for (id, other, is_difference) in [
        ("kernel", small::swept(), false),
        ("order_test", described, false),
        ("evidence", small::swept(), false),
        ("ranks", small::other(), true),
    ] {
        let figure = find(id).expect("a figure");
        let row = side_by_side(&[&planned, &other], &[figure], &Options::default());
        let against = is_difference.then(|| row.traces[0].clone());
        let row = TracePlot { own_scales: true, against, ..row };
        let other = if is_difference { subtract(&other, &planned).expect("one grid") } else { other };
        // The upper and the lower end of every chart.
        let charts = |scene: &Scene| -> Vec<[f32; 2]> {
            let marks = Marks::of(scene, &theme);
            marks.lines(theme.axis, 3).iter().map(|axes| [axes[0][1], axes[1][1]]).collect()
        };
        let size = Size { width: cell, height: 150.0 };
        let alone = [&planned, &other].map(|trace| figure.scene(trace, &Options::default(), &theme, size));
        let [own, others] = alone.map(|scene| charts(&scene.expect("a chart"))[0][0]);
        assert!((own - others).abs() > 5.0, "{id}: legends of as many lines");
        let row = row.draw_column(&theme, 2.0 * cell + 10.0 + 2.0 * MARGIN).expect("two columns");
        let all = charts(&row);
        let (own, others) = all.split_at(all.len() / 2);
        assert_close(id, own, others, 0.02);
    }
}
