//! Pictures of a dataset with many classes: single errors are visible, names are legible, and classes can be searched,
//! sorted, and limited to those that differ most.

use indexmap::IndexMap;
use ssmprobe::model::explain::evaluation::{CONFIDENCE, ClassMaps, EvalSet, Evaluation, OWN};
use ssmprobe::model::grid::Grid;
use ssmprobe::viz::figures::dataset::{self, ClassFilter, ClassSort, Control};
use ssmprobe::viz::figures::plot::EvaluationPlot;

use super::prelude::*;

/// Numbers of classes of the golden pictures.
pub const CLASSES: [usize; 3] = [10, 50, 200];
/// Images per class.
const IMAGES_PER_CLASS: usize = 30;
/// Least difference in lightness of a single error from the background: a quarter of that of black and mid grey.
const MIN_CONTRAST: f32 = 12.0;

/// A choice of all classes, however many.
pub fn all() -> Choice {
    Choice { classes: ClassFilter { most: None, ..ClassFilter::default() }, ..Choice::default() }
}

fn name(class: usize) -> String {
    let kinds = ["warbler", "sparrow", "gull", "tern", "wren"];
    format!("{} {class:03}", kinds[class % kinds.len()])
}

/// An evaluation in which class `c` has `c % 7` errors, one of them its only one of a kind.
fn evaluation(classes: usize) -> Arc<Evaluation> {
    let class: Vec<u32> =
        (0..classes * IMAGES_PER_CLASS).map(|image| (image / IMAGES_PER_CLASS) as u32).collect();
    let predicted = (0..classes * IMAGES_PER_CLASS).map(|image| {
        let (own, at) = (image / IMAGES_PER_CLASS, image % IMAGES_PER_CLASS);
        let taken = if at < own % 7 { (own + if at == 0 { 5 } else { 1 }) % classes } else { own };
        taken as u32
    });
    let per_image = |of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        (0..classes * IMAGES_PER_CLASS)
            .map(|image| of(image / IMAGES_PER_CLASS, image % IMAGES_PER_CLASS))
            .collect()
    };
    let values =
        (0..classes).flat_map(|c| [0.5, 0.5, 0.5, 0.5 + if c == 3 { 0.4 } else { 0.001 * c as f32 }]);
    Arc::new(Evaluation {
        set: Arc::new(EvalSet {
            dataset: "birds".into(),
            split: "test".into(),
            classes: (0..classes).map(name).collect(),
            images: (0..classes * IMAGES_PER_CLASS).map(|image| format!("{image}.png")).collect(),
            class,
        }),
        probe: "sinkhorn".into(),
        head: "sinkhorn".into(),
        backbone: "tiny".into(),
        grid: Grid::new(2, 2),
        predicted: predicted.collect(),
        measures: IndexMap::from([
            (CONFIDENCE, per_image(&|_, _| 0.5)),
            (OWN, per_image(&|_, _| 0.5)),
            // Class c has values near c / 1000.
            ("rank_coverage", per_image(&|c, at| (c as f32 + at as f32 / IMAGES_PER_CLASS as f32) / 1000.0)),
        ]),
        positions: Some(ClassMaps {
            values: values.collect(),
            counts: vec![IMAGES_PER_CLASS as u32; classes],
        }),
        ..Evaluation::default()
    })
}

/// An overview of it.
pub fn plot(id: &str, classes: usize, choice: Choice) -> EvaluationPlot {
    let evaluation = evaluation(classes);
    let overview = dataset::find(id).expect("an overview");
    EvaluationPlot::new(overview, [evaluation.clone(), evaluation], choice)
}

fn filtered(search: &str, sort: Option<ClassSort>, most: Option<usize>) -> Choice {
    Choice { classes: ClassFilter { search: search.into(), sort, most }, ..Choice::default() }
}

/// The names of classes in a picture, from the top, or line by line.
fn names(marks: &Marks) -> Vec<String> {
    let mut words = marks.words();
    words
        .retain(|word| word.text.split(' ').nth(1).is_some_and(|n| n.len() == 3 && n.parse::<u16>().is_ok()));
    words.sort_by(|a, b| a.at[1].total_cmp(&b.at[1]).then(a.at[0].total_cmp(&b.at[0])));
    words.into_iter().map(|word| word.text).collect()
}

#[test]
fn single_errors_are_visible_in_both_themes_and_several_more_so() {
    for theme in looks() {
        for (classes, choice) in CLASSES.into_iter().map(|n| (n, Choice::default())).chain([(200, all())]) {
            let plot = plot("confusion", classes, choice);
            let marks = plotted(&plot, &theme);
            let rows = if plot.choice == all() { classes } else { classes.min(40) };
            // Predictions of classes that are not drawn have a column of their own.
            let columns = [rows, rows + 1].into_iter().find(|n| !marks.rasters(*n, rows).is_empty());
            let columns = columns.expect("the matrix");
            let (_, raster) = marks.rasters(columns, rows).remove(0);
            let away = |color: ssmprobe::viz::draw::theme::Color| {
                (color.lightness() - theme.ground.lightness()).abs()
            };
            let (mut errors, mut least, mut most) = (0, f32::MAX, 0.0f32);
            // Some of 200 classes, as every cell takes a pass over all images.
            let read: Vec<usize> = (0..rows).step_by(if rows > 50 { 8 } else { 1 }).collect();
            for (row, column) in read.iter().flat_map(|&row| (0..columns).map(move |column| (row, column))) {
                let (_, images) = plot.overview.item(&plot, row * columns + column);
                let color = pixel(&raster, column, row);
                match images.len() {
                    0 => assert_eq!(color, theme.ground, "what never happened is the ground"),
                    count => {
                        errors += count;
                        let seen = away(color);
                        assert!(seen > MIN_CONTRAST, "{classes} classes, {count} images are only {seen} off");
                        if count == 1 { least = least.min(seen) } else { most = most.max(seen) }
                    }
                }
            }
            assert_eq!(
                errors,
                read.len() * IMAGES_PER_CLASS,
                "every image of a class that is drawn lies in a cell"
            );
            assert!(most > least + 30.0, "{classes}: {most} to {least}");
        }
    }
}

#[test]
fn names_of_many_classes_are_read_and_a_smaller_pane_scrolls() {
    for (classes, shown) in [(10, 10), (50, 40), (200, 40)] {
        let plot = plot("confusion", classes, Choice::default());
        let marks = plotted(&plot, &Theme::light());
        assert_eq!(names(&marks).len(), shown, "of {classes} classes");
        let counted = marks.bar().name.ends_with(" (in cells: count)");
        assert_eq!(counted, classes == 10, "the bar says what numbers are, where there are some");
        let mut heights: Vec<f32> =
            marks.words().iter().filter(|w| w.text.contains(" 0")).map(|w| w.at[1]).collect();
        heights.sort_by(f32::total_cmp);
        assert!(heights.windows(2).all(|pair| pair[1] - pair[0] > 5.9), "{classes}: {heights:?}");
        let cut = marks
            .words()
            .iter()
            .any(|word| word.text.contains(&format!("of {}", classes * IMAGES_PER_CLASS)));
        assert!(cut, "the title says of how many images");
    }
    for id in ["confusion", "class_diagnostics", "routing_maps"] {
        let small = plot(id, 10, all()).legible(200.0);
        let large = plot(id, 200, all()).legible(200.0);
        assert!(small.height < 260.0 && large.height > 1000.0, "{id}: {small:?}, {large:?}");
    }
}

#[test]
fn classes_are_searched_sorted_and_cut_in_every_overview() {
    let drawn = |id: &str, choice| names(&plotted(&plot(id, 200, choice), &Theme::light()));
    // By class: both ends of the measure, which increases with the class.
    let ends: Vec<String> = [199, 198, 1, 0].map(name).into();
    assert_eq!(drawn("class_diagnostics", filtered("", None, Some(4))), ends);
    let by_name = drawn("class_diagnostics", filtered("gull", Some(ClassSort::Name), Some(4)));
    assert_eq!(by_name, ["gull 002", "gull 007", "gull 192", "gull 197"]);
    let found = drawn("class_diagnostics", filtered("WREN 10", None, None));
    assert_eq!(found, ["wren 109", "wren 104"]);
    // Maps: the one that is furthest from all others first.
    let far = drawn("routing_maps", filtered("", None, Some(3)));
    assert_eq!((far.len(), &*far[0]), (3, "tern 003"), "{far:?}");
    let listed = drawn("routing_maps", filtered("tern 00", Some(ClassSort::Dataset), None));
    assert_eq!(listed, ["tern 003", "tern 008"]);
    // Confusion: most errors first; predictions of other classes still count.
    let worst = plot("confusion", 200, filtered("", None, Some(3)));
    let (_, images) = worst.overview.item(&worst, 3);
    assert!(!images.is_empty(), "the last column is of the classes that are not drawn");
    for id in ["confusion", "class_diagnostics", "routing_maps"] {
        let plot = plot(id, 50, filtered("zebra", None, None));
        let none = Plot::draw_column(&plot, &Theme::light(), COLUMN).expect_err("no such class");
        assert!(none.0.contains("zebra"), "{none}");
    }
}

#[test]
fn the_copied_command_names_the_classes_that_are_drawn() {
    let command = |choice| plot("confusion", 50, choice).caption().command;
    assert_eq!(command(Choice::default()), "--figure confusion");
    assert_eq!(
        command(filtered("gull", Some(ClassSort::Name), None)),
        "--figure confusion --class-search 'gull' --class-sort name --classes all"
    );
}

#[test]
fn who_reads_no_order_is_told_of_the_weights_and_signed_maps_offer_no_colours() {
    let mut plot = plot("routing_maps", 10, Choice::default());
    let mut evaluation = Evaluation::clone(&plot.evaluation);
    evaluation.weights = evaluation.positions.take();
    plot.evaluation = Arc::new(evaluation.clone());
    let none = Plot::draw_column(&plot, &Theme::light(), COLUMN).expect_err("no order");
    assert!(none.0.contains("choose Weight"), "{none}");
    plot.choice.maps = MapOf::Weights;
    Plot::draw_column(&plot, &Theme::light(), COLUMN).expect("its weights");
    assert!(plot.overview.depends_on(&plot, Control::Map));
    evaluation.weights.as_mut().expect("weights").values[0] = -0.5;
    plot.evaluation = Arc::new(evaluation);
    assert!(!plot.overview.depends_on(&plot, Control::Map), "signed ones have colours of their own");
}
