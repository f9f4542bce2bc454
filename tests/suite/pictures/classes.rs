//! Pictures of a whole dataset: rows and columns of the confusion matrix are true and predicted classes, every class has
//! its own map, every image its own dot.

use indexmap::IndexMap;
use ssmprobe::model::explain::evaluation::vectors::{KeptVectors, SHUFFLED, VectorKind};
use ssmprobe::model::explain::evaluation::{CONFIDENCE, EvalSet, Evaluation};
use ssmprobe::viz::Size;
use ssmprobe::viz::draw::scene::Identity;
use ssmprobe::viz::export;
use ssmprobe::viz::figures::dataset::{self, ClassFilter, Overview};
use ssmprobe::viz::figures::plot::{self, EvaluationPlot};

use super::prelude::*;
use super::small::{
    CHANCE, CLASS_POSITIONS, CLASS_WEIGHTS, CLASSES, CONFUSION, COUNTS, COVERAGE, MAP_GRID, OWN_CLASS,
    PREDICTED, TRUE,
};

fn find(id: &str) -> &'static dyn Overview {
    dataset::find(id).expect("an overview")
}

fn marks(id: &str, theme: &Theme) -> Marks {
    plotted(&small::evaluated(find(id), MapOf::Positions), theme)
}

/// The readout at a point of the picture, as text, and the images behind it.
fn pointed(id: &str, point: Point) -> (String, Vec<usize>) {
    let plot = small::evaluated(find(id), MapOf::Positions);
    let scene: Scene = Plot::draw_column(&plot, &Theme::light(), COLUMN).expect("a picture");
    let item = scene.hover(point).and_then(|hover| hover.item).expect("something");
    find(id).item(&plot, item)
}

#[test]
pub fn class_diagnostics() {
    // Classes by mean, the highest first, with the 5th, 25th, 75th and 95th percentile of their two to four numbers; the
    // null band of their mean is 0.48 +- 0.08 sqrt(1 / images + 1 / 16).
    let rows: [(&str, usize, [f64; 5], f64); 3] = [
        ("coot", 2, [0.662, 0.67, 0.68, 0.69, 0.698], 0.06),
        ("auk", 0, [0.4775, 0.5075, 0.545, 0.5875, 0.6055], 0.044_721_36),
        ("booby", 1, [0.334, 0.35, 0.37, 0.39, 0.406], 0.050_332_23),
    ];
    for theme in looks() {
        let marks = marks("class_diagnostics", &theme);
        let axes = marks.axes(0);
        assert!(axes.x.rises() && axes.x_name == "Rank coverage");
        let heights = rows.map(|(name, ..)| height(&marks.word(name)));
        assert!(heights.windows(2).all(|pair| pair[0] < pair[1]), "the highest mean at the top");
        let color = marks.swatch("Mean");
        let bands = marks.fills(marks.swatch("Chance for the mean, 5 to 95 %"));
        for ((name, class, quantiles, reach), own) in rows.into_iter().zip(heights) {
            let [low, from, mean, to, high] = quantiles.map(|v| axes.x.at(v));
            let in_row = |y: f32| near(y, own);
            let dot = marks.dots(color).into_iter().find(|dot| in_row(dot.at[1])).expect("a dot").at;
            at(dot, [mean, own]);
            let lines = marks.lines(color, 2);
            let line = lines.iter().find(|line| in_row(line[0][1])).expect("a line");
            at(line[0], [low, own]);
            at(line[1], [high, own]);
            let bars = marks.fills(color.alpha(0.55));
            let bar = bars.iter().find(|bar| in_row(bar.center()[1])).expect("a bar");
            assert!(near(bar.x, from) && near(bar.right(), to), "{name}: {bar:?}");
            let images: Vec<usize> = (0..10).filter(|image| TRUE[*image] as usize == class).collect();
            let (text, found) = pointed("class_diagnostics", [mean, own]);
            let value = ssmprobe::viz::draw::number(quantiles[2]);
            assert!(text.starts_with(&format!("{name}\nRank coverage: mean {value}, ")), "{text}");
            assert_eq!(found, images);
            let band = bands.iter().find(|band| in_row(band.center()[1])).expect("a band");
            let ends = [0.48 - reach, 0.48 + reach].map(|v| axes.x.at(v));
            assert!(near(band.x, ends[0]) && near(band.right(), ends[1]), "{name}: {band:?}");
        }
    }
    // An evaluation by an earlier program has the null band of a single image only, and the picture says so.
    let mut plot = small::evaluated(find("class_diagnostics"), MapOf::Positions);
    let table = plot.table();
    for row in (0..table.rows()).map(|row| table.row(row)) {
        let number = |at: usize| row[at].parse::<f64>().expect("a number");
        let reach = 0.08 * (1.0 / number(2) + 1.0 / 16.0).sqrt();
        assert_close("of its images", [number(11), number(12)], [0.48 - reach, 0.48 + reach], 1e-9);
    }
    let earlier = Evaluation { mean_nulls: IndexMap::new(), ..Evaluation::clone(&plot.evaluation) };
    plot.evaluation = Arc::new(earlier);
    let marks = plotted(&plot, &Theme::light());
    let axes = marks.axes(0);
    let bands = marks.fills(marks.swatch("Chance for one image, 5 to 95 %"));
    assert!(bands.iter().filter(|band| near(band.x, axes.x.at(CHANCE.0))).count() >= 3, "{bands:?}");
    assert!(!marks.has("Chance for the mean, 5 to 95 %"));
}

#[test]
fn of_many_classes_both_ends_are_drawn() {
    // One image per class: class 7 has a coverage of 0.07.
    let mut evaluation = Evaluation::clone(&small::evaluation());
    let mut asked = EvalSet::clone(&evaluation.set);
    asked.classes = (0..45).map(|class| format!("class {class}")).collect();
    asked.images = (0..45).map(|image| format!("{image}.png")).collect();
    asked.class = (0..45).collect();
    evaluation.set = Arc::new(asked);
    evaluation.predicted = (0..45).collect();
    evaluation.measures = IndexMap::from([
        (CONFIDENCE, vec![0.5; 45]),
        ("rank_coverage", (0..45).map(|c| c as f32 / 100.0).collect()),
    ]);
    let evaluation = Arc::new(evaluation);
    let evaluations = [evaluation.clone(), evaluation];
    // Of those that are searched for, nothing lies between.
    let classes = ClassFilter { search: "class 4".to_owned(), ..ClassFilter::default() };
    let choice = Choice { classes, ..Choice::default() };
    let plot = EvaluationPlot::new(find("class_diagnostics"), evaluations.clone(), choice);
    let marks = plotted(&plot, &Theme::light());
    assert!(marks.has("class 44") && !marks.words().iter().any(|word| word.text.ends_with("between")));
    let plot = EvaluationPlot::new(find("class_diagnostics"), evaluations, Choice::default());
    let mut names: Vec<_> = plotted(&plot, &Theme::light())
        .words()
        .into_iter()
        .filter(|word| word.text.starts_with("class "))
        .collect();
    names.sort_by(|a, b| a.at[1].total_cmp(&b.at[1]));
    let gap = plotted(&plot, &Theme::light()).word("5 classes between").at[1];
    assert!(f32::midpoint(names[18].at[1], names[19].at[1]) < gap && gap < names[20].at[1]);
    let drawn: Vec<String> = names.into_iter().map(|word| word.text).collect();
    let ends = (25..45).rev().chain((0..20).rev());
    assert_eq!(drawn, ends.map(|class| format!("class {class}")).collect::<Vec<_>>());
    assert!(plotted(&plot, &Theme::light()).has("5 classes between"));
}

#[test]
fn a_mean_beyond_the_95th_percentile_lies_on_the_axis() {
    let mut evaluation = Evaluation::clone(&small::evaluation());
    let mut asked = EvalSet::clone(&evaluation.set);
    asked.classes = vec!["auk".to_owned()];
    asked.images = (0..40).map(|image| format!("{image}.png")).collect();
    asked.class = vec![0; 40];
    evaluation.set = Arc::new(asked);
    evaluation.predicted = vec![0; 40];
    let outlier = |image: u8| if image == 39 { 1.0 } else { f32::from(image) / 1000.0 };
    evaluation.measures =
        IndexMap::from([(CONFIDENCE, vec![0.5; 40]), ("rank_coverage", (0..40).map(outlier).collect())]);
    (evaluation.nulls, evaluation.mean_nulls) = Default::default();
    let evaluations = [(); 2].map(|()| Arc::new(evaluation.clone()));
    let plot = EvaluationPlot::new(find("class_diagnostics"), evaluations, Choice::default());
    let marks = plotted(&plot, &Theme::light());
    let axes = marks.axes(0);
    let mean = marks.dots(marks.swatch("Mean")).into_iter().find(|dot| dot.ring.is_some()).expect("a dot");
    assert!(near(mean.at[0], axes.x.at(0.043_525)) && mean.at[0] < axes.area.right(), "{mean:?}");
}

#[test]
pub fn confusion() {
    for theme in looks() {
        let marks = marks("confusion", &theme);
        let bar = marks.bar();
        assert_eq!(bar.name, "Images of the class, % (in cells: count)");
        assert_close("ends of the bar", bar.ends(), [0.0, 100.0], 1e-3);
        let (place, raster) = marks.rasters(4, 3).remove(0);
        for (row, counts) in CONFUSION.iter().enumerate() {
            let all: u32 = counts.iter().sum();
            let own = place.y + (row as f32 + 0.5) / 3.0 * place.h;
            let name = marks.word(CLASSES[row]);
            assert!(
                near(height(&name), own) && name.at[0] < place.x,
                "row {row} is what {} are",
                CLASSES[row]
            );
            for (column, count) in counts.iter().enumerate() {
                let middle = [place.x + (column as f32 + 0.5) / 4.0 * place.w, own];
                let text = marks
                    .words()
                    .into_iter()
                    .find(|word| near(word.at[0], middle[0]) && near(height(word), own));
                let expected = (*count > 0).then(|| count.to_string());
                assert_eq!(text.map(|word| word.text), expected, "row {row}, column {column}");
                let share = 100.0 * f64::from(*count) / f64::from(all);
                let expected = if *count > 0 { bar.color(share) } else { theme.ground };
                let found = pixel(&raster, column, row);
                assert!(
                    apart(found, expected) <= SHADE,
                    "row {row}, column {column}: {found:?}, not {expected:?}"
                );
                let images: Vec<usize> = (0..9)
                    .filter(|image| {
                        (TRUE[*image] as usize, (PREDICTED[*image] as usize).min(3)) == (row, column)
                    })
                    .collect();
                let taken = ["auk", "booby", "coot", "another class"][column];
                assert_eq!(
                    pointed("confusion", middle),
                    (format!("{} predicted as {taken}", CLASSES[row]), images)
                );
            }
        }
        assert!(marks.has("Accuracy 44.4 % of 9 images; 1 left out"));
        let below =
            marks.words().into_iter().find(|word| word.text.starts_with("Predicted class (same order"));
        let below = below.expect("what columns are");
        assert!(marks.word("True class").at[0] < place.x, "what rows are");
        assert!(below.at[1] > place.bottom() && near(below.at[0], place.center()[0]));
    }
}

#[test]
pub fn scatter() {
    for theme in looks() {
        let marks = marks("scatter", &theme);
        let axes = marks.axes(0);
        assert_eq!((&*axes.x_name, &*axes.y_name), ("Rank coverage", "True-class probability"));
        assert!(axes.x.rises() && !axes.y.rises());
        let [right, wrong] = ["Right", "Wrong"].map(|name| marks.swatch(name));
        assert_ne!(right, wrong);
        let place = |image: usize| axes.at(f64::from(COVERAGE[image]), f64::from(OWN_CLASS[image]));
        let mut seen = 0;
        for item in &marks.items {
            let (Shape::Circle { center, fill, stroke, .. }, Some(Identity::Item(image))) =
                (&item.shape, &item.identity)
            else {
                continue;
            };
            at(*center, place(*image));
            let color = if TRUE[*image] == PREDICTED[*image] { right } else { wrong };
            assert_eq!(
                fill.map(|fill| (fill.r, fill.g, fill.b)),
                Some((color.r, color.g, color.b)),
                "image {image}"
            );
            assert_eq!(stroke.is_some(), color == wrong, "image {image} in grey");
            let (said, images) = pointed("scatter", *center);
            assert!(said.starts_with(&format!("{image}.png: {}", CLASSES[TRUE[*image] as usize])), "{said}");
            assert_eq!(images, [*image]);
            seen += 1;
        }
        assert_eq!(seen, 9, "all but the one that could not be read");
        let ring = marks.items.iter().find_map(|item| match &item.shape {
            Shape::Circle { center, fill: None, stroke: Some(stroke), .. } => Some((*center, stroke.color)),
            _ => None,
        });
        let (center, color) = ring.expect("the chosen image is ringed");
        assert!(color == theme.ink);
        at(center, place(2));
        let band = marks.fills(theme.band.alpha(0.7)).remove(0);
        assert_eq!(marks.swatch("Chance, 5 to 95 %"), theme.band);
        assert!(near(band.x, axes.x.at(CHANCE.0)) && near(band.right(), axes.x.at(CHANCE.1)));
        assert!(near(band.h, axes.area.h), "chance is of what lies across");
        // 1 - 6 * 114 / (9 * 80), from ranks computed by hand.
        assert!(marks.has("Spearman 0.050 (n = 9)") && !marks.has("Equal"));
    }
}

#[test]
fn a_scatter_of_top_1_probabilities_keeps_their_name_in_its_numbers() {
    let choice = Choice { measure: CONFIDENCE.into(), ..Choice::default() };
    let plot = EvaluationPlot { choice, ..small::evaluated(find("scatter"), MapOf::Positions) };
    assert_eq!(plotted(&plot, &Theme::light()).axes(0).x_name, "Top-1 probability");
    assert_eq!(plot.table().heads()[3..], ["x: confidence", "y: true-class probability"]);
}

#[test]
fn an_axis_of_a_measure_with_a_unit_names_it() {
    let mut evaluation = Evaluation::clone(&small::evaluation());
    evaluation.measures.insert("path_length", COVERAGE.into());
    let evaluation = Arc::new(evaluation);
    let choice = Choice { measure: "path_length".into(), ..Choice::default() };
    for id in ["class_diagnostics", "scatter"] {
        let plot = EvaluationPlot::new(find(id), [(); 2].map(|()| evaluation.clone()), choice.clone());
        assert_eq!(plotted(&plot, &Theme::light()).axes(0).x_name, "Path length (patches)", "{id}");
        assert!(!export::tsv(&plot.table()).contains("patches"), "{id}: columns keep their names");
    }
}

#[test]
fn a_scatter_of_two_probes_has_the_chance_of_each_along_its_own_axis() {
    let mut other = Evaluation { probe: "softsort".into(), ..Evaluation::clone(&small::evaluation()) };
    other.measures.insert("rank_coverage", COVERAGE.map(|v| v / 2.0).into());
    other.nulls.insert("rank_coverage", (0.21, 0.27));
    let choice = Choice { against: "rank_coverage".into(), ..Choice::default() };
    let plot = EvaluationPlot::new(find("scatter"), [small::evaluation(), Arc::new(other)], choice);
    for theme in looks() {
        let marks = plotted(&plot, &theme);
        let axes = marks.axes(0);
        assert_eq!((&*axes.x_name, &*axes.y_name), ("Rank coverage, sinkhorn", "Rank coverage, softsort"));
        assert!(
            marks.has("Probe on x: right") && marks.has("Probe on x: wrong"),
            "whose predictions the colours are of"
        );
        let bands = marks.fills(theme.band.alpha(0.7));
        let across = bands.iter().find(|band| near(band.h, axes.area.h)).expect("a band upwards");
        assert!(near(across.x, axes.x.at(CHANCE.0)) && near(across.right(), axes.x.at(CHANCE.1)));
        let upward = bands.iter().find(|band| near(band.w, axes.area.w)).expect("a band across");
        assert!(near(upward.bottom(), axes.y.at(0.21)) && near(upward.y, axes.y.at(0.27)), "{upward:?}");
        // Equal values lie on a line through what the axes, each with its own scale, have in common.
        let lines = marks.lines(marks.swatch("Equal"), 2);
        let line = lines.iter().find(|line| line[0][1] > axes.area.y).expect("a line");
        let ends = [axes.x.number(axes.area.x), axes.y.number(axes.area.y)].map(|v| axes.at(v, v));
        assert_close("equal", line.to_vec(), ends.to_vec(), 0.05);
    }
}

#[test]
fn a_scatter_names_the_probes_as_they_are_told_apart_and_a_probe_that_is_read_in_two_ways() {
    let other = Evaluation { change: "no routing".into(), ..Evaluation::clone(&small::evaluation()) };
    let choice = Choice { against: "rank_coverage".into(), ..Choice::default() };
    let plot = EvaluationPlot::new(find("scatter"), [small::evaluation(), Arc::new(other)], choice);
    let named = |names: [&str; 2]| EvaluationPlot { names: names.map(str::to_owned), ..plot.clone() };
    let axes = |plot: &EvaluationPlot| {
        let axes = plotted(plot, &Theme::light()).axes(0);
        [axes.x_name, axes.y_name]
    };
    assert_eq!(axes(&plot), ["Rank coverage, sinkhorn", "Rank coverage, sinkhorn (no routing)"]);
    let runs = named(["sinkhorn · A", "sinkhorn · b"]);
    assert_eq!(axes(&runs), ["Rank coverage, sinkhorn · A", "Rank coverage, sinkhorn · b"]);
    let low = plot::draw(&runs, &Theme::light(), Size { width: 200.0, height: 110.0 }).expect("a picture");
    let cut = Marks::of(&low, &Theme::light()).axes(0).y_name;
    assert!(cut.contains('…') && cut.ends_with("· b"), "{cut}");
    let layers = named(["sinkhorn[layer=4]-s0-best", "sinkhorn[layer=last]-s0-best"]);
    let low = plot::draw(&layers, &Theme::light(), Size { width: 240.0, height: 150.0 }).expect("a picture");
    let cut = Marks::of(&low, &Theme::light()).axes(0).y_name;
    assert!(cut.starts_with("Rank coverage, …last]"), "what they have in common is cut: {cut}");
    let numbers = export::tsv(&runs.table());
    assert!(numbers.contains("x: rank coverage, sinkhorn · A"), "{numbers}");
    let caption = runs.caption();
    assert!(caption.file.contains("sinkhorn-A") && caption.file.contains("sinkhorn-b"), "{}", caption.file);
    assert!(caption.about.contains("sinkhorn · b (no routing) on "), "{}", caption.about);
}

#[test]
pub fn routing_maps() {
    let mean = |maps: &[[f32; 6]; 3]| -> Vec<f32> {
        let sum = |at: usize| (0..3).map(|class| COUNTS[class] as f32 * maps[class][at]).sum::<f32>();
        (0..6).map(|at| sum(at) / 9.0).collect()
    };
    let cases = [
        (MapOf::Positions, CLASS_POSITIONS, "Mean position, 0 first to 1 last", [0.02, 0.99]),
        (MapOf::Weights, CLASS_WEIGHTS, "Mean weight, 1 as in GAP", [-2.2, 2.2]),
    ];
    for (theme, (of, maps, name, ends)) in
        looks().into_iter().flat_map(|theme| cases.map(|case| (theme.clone(), case)))
    {
        let plot = small::evaluated(find("routing_maps"), of);
        let measure = if of == MapOf::Positions { "mean_position" } else { "mean_weight" };
        assert_eq!(plot.table().row(0)[..2], ["auk", measure]);
        let marks = plotted(&plot, &theme);
        let bar = marks.bar();
        assert_eq!(bar.name, name);
        assert_close(name, bar.ends(), ends, 1e-3);
        let rasters = marks.rasters(MAP_GRID.cols, MAP_GRID.rows);
        assert_eq!(rasters.len(), 4);
        let all = mean(&maps);
        for (class, values) in [
            ("All classes", &all[..]),
            ("auk", &maps[0][..]),
            ("booby", &maps[1][..]),
            ("coot", &maps[2][..]),
        ] {
            let word = marks.word(class);
            let below = rasters.iter().filter(|(place, _)| near(place.x, word.at[0]) && place.y > word.at[1]);
            let (place, raster) = below.min_by(|a, b| a.0.y.total_cmp(&b.0.y)).expect("a map below its name");
            assert!(place.y - word.at[1] < 8.0 && near(place.w / place.h, 1.5), "{class}: {place:?}");
            coloured(raster, MAP_GRID, &bar, values);
            let images: Vec<usize> = (0..10)
                .filter(|image| class == "All classes" || CLASSES[TRUE[*image] as usize] == class)
                .collect();
            if of == MapOf::Positions {
                assert_eq!(pointed("routing_maps", place.center()), (class.to_owned(), images));
            }
        }
        let mut unread = (*plot.evaluation).clone();
        unread.positions.iter_mut().chain(&mut unread.weights).for_each(|maps| maps.counts.fill(0));
        let none = EvaluationPlot { evaluation: Arc::new(unread), ..plot.clone() };
        let why = Plot::draw_column(&none, &theme, COLUMN).expect_err("no map").0;
        assert_eq!(why, "No image could be read");
        let mut shuffled = (*plot.evaluation).clone();
        (shuffled.positions, shuffled.weights) = (None, None);
        shuffled.vectors = VectorKind::ALL.map(|kind| (kind, KeptVectors::None(SHUFFLED.into()))).into();
        let none = EvaluationPlot { evaluation: Arc::new(shuffled), ..plot };
        for overview in ["routing_maps", "region_order"].map(find) {
            let none = EvaluationPlot { overview, ..none.clone() };
            assert_eq!(Plot::draw_column(&none, &theme, COLUMN).expect_err("no map").0, SHUFFLED);
        }
        // 0.5 +- 1.645 / sqrt(12 * 2): the smallest class has two readable images.
        let chance = "Chance: 0.164 to 0.836 (5 to 95 %, mean of 2 random orders)";
        assert_eq!(marks.has(chance), of == MapOf::Positions);
    }
}
