//! Similar images: numbers against scipy and scikit-learn (`tests/reference/similarity.py`), flipped copies that find
//! their originals, the vectors that an evaluation keeps, and the gallery and the map in the window.

use half::f16;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::state::command::Effect;
use ssmprobe::app::state::{Scope, Sort};
use ssmprobe::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use ssmprobe::model::explain::evaluation::vectors::{KeptVectors, TokenVectors, VectorKind, keep_latest};
use ssmprobe::model::explain::{evidence, readout};
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::{Config, Dims};
use ssmprobe::model::probe::head_output::{Form, HeadOutput, Order};
use ssmprobe::model::stats::normal;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::viz::draw::theme::Theme;
use ssmprobe::viz::export;
use ssmprobe::viz::figures::dataset::{Choice, ColorBy};
use ssmprobe::viz::figures::image_map::ImageMapPlot;
use ssmprobe::viz::figures::plot::Plot;

use crate::evaluation::{evaluated, open_evaluated, opened, part};
use crate::heads::untrained;
use crate::pictures::small;
use crate::run::{self, done};
use crate::window::prelude::*;

fn half(values: impl IntoIterator<Item = f64>) -> TokenVectors {
    TokenVectors::new(values.into_iter().map(f16::from_f64).collect())
}

/// A number of a fixture; null is NaN.
fn maybe(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    let row = |row: &Value| row.as_array().expect("a row").iter().map(maybe).collect();
    value.as_array().expect("rows").iter().map(row).collect()
}

/// Asserts that numbers are close, or NaN in both.
#[track_caller]
fn assert_same(name: &str, found: &[f64], expected: &[f64], near: f64) {
    assert!(!expected.is_empty() && found.len() == expected.len(), "{name}: {} numbers", found.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.is_nan(), expected.is_nan(), "{name} at {at}: {found}, not {expected}");
        assert!(
            expected.is_nan() || (found - expected).abs() <= near,
            "{name} at {at}: {found}, not {expected}"
        );
    }
}

fn wide(values: Vec<f32>) -> Vec<f64> {
    values.into_iter().map(f64::from).collect()
}

#[test]
fn similarities_and_maps_are_those_of_scipy_and_scikit_learn() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("../fixtures/stats/similarity.json")).expect("JSON");
    assert_eq!(cases.len(), 2);
    for case in &cases {
        let name = case["name"].as_str().expect("a name");
        let side = |key: &str| case[key].as_u64().expect("a side") as usize;
        let (grid, vectors) = (Grid::new(side("rows"), side("cols")), rows(&case["vectors"]));
        let kept = half(vectors.concat());
        for similarity in Similarity::ALL {
            let name = format!("{name}, {}", similarity.id());
            let (expected, space) = (&case[similarity.id()], ImageSpace::new(&kept, grid, similarity));
            for (image, alike) in rows(&expected["similarity"]).iter().enumerate() {
                assert_eq!(space.knows(image), !alike[image].is_nan(), "{name}, image {image}");
                assert_same(
                    &format!("{name}, image {image}"),
                    &wide(space.similarities(image, false)),
                    alike,
                    3e-7,
                );
            }
            let map = space.projection.as_ref().expect("a map");
            for (found, expected) in map.points.iter().zip(rows(&expected["map"]["points"])) {
                assert_same(
                    &name,
                    &found.map_or([f64::NAN; 2], |found| found.map(f64::from)),
                    &expected,
                    2e-6,
                );
            }
            assert_eq!(map.points.len(), vectors.len());
            let explained: Vec<f64> =
                serde_json::from_value(expected["map"]["explained"].clone()).expect("two");
            assert_close(&name, map.explained, explained, 1e-6);
        }
    }
}

/// Four images of two tokens: the second is twice the first, the third its negative, the fourth has a missing value.
fn few() -> TokenVectors {
    half([1.0, 2.0, 2.0, 4.0, -1.0, -2.0, f64::NAN, 1.0])
}

/// Asserts which images are found, in which order and with which similarities.
#[track_caller]
fn assert_nearest<const N: usize>(found: &[(usize, f32)], expected: [(usize, f64); N]) {
    assert_eq!(found.iter().map(|one| one.0).collect::<Vec<_>>(), expected.map(|one| one.0), "{found:?}");
    found
        .iter()
        .zip(expected)
        .for_each(|(found, expected)| assert_close("similarity", found.1, expected.1, 1e-6));
}

#[test]
fn the_nearest_come_first_and_ties_by_their_place() {
    let grid = Grid::new(1, 2);
    let space = ImageSpace::new(&few(), grid, Similarity::Cosine);
    assert_nearest(&space.nearest(0, 9, false), [(1, 1.0), (2, -1.0)]);
    // Of two equally far images, the earlier one.
    assert_nearest(&space.nearest(2, 1, false), [(0, -1.0)]);
    assert!(space.nearest(3, 9, false).is_empty() && space.similarities(3, false).iter().all(|s| s.is_nan()));
    let one = ImageSpace::new(&half([0.5, 1.0]), grid, Similarity::Spearman);
    assert!(one.knows(0) && one.nearest(0, 5, false).is_empty());
    assert_close("itself", one.similarities(0, false), [1.0], 1e-6);
    // Rounded, it is a little longer than 1.
    let long = ImageSpace::new(&half([2.0, 3.0]), grid, Similarity::Cosine);
    assert_eq!(long.similarities(0, false), [1.0]);
    assert!(
        one.projection.as_ref().is_err_and(|why| why.contains("a map needs two")),
        "{:?}",
        one.projection
    );
    // A constant vector has a direction, but no ranks.
    let even = half([0.5; 6]);
    let ranks = ImageSpace::new(&even, grid, Similarity::Spearman);
    assert!((0..3).all(|image| !ranks.knows(image)) && ranks.projection.is_err());
    let all = ImageSpace::new(&even, grid, Similarity::Cosine);
    assert_nearest(&all.nearest(1, 9, false), [(0, 1.0), (2, 1.0)]);
    assert!(
        all.projection.as_ref().is_err_and(|why| why.contains("the same numbers")),
        "{:?}",
        all.projection
    );
    // Mirror images count on request: 1 2 3 against 3 2 1.
    let mirrored =
        ImageSpace::new(&half([1.0, 2.0, 3.0, 3.0, 2.0, 1.0]), Grid::new(1, 3), Similarity::Spearman);
    assert_nearest(&mirrored.nearest(0, 1, false), [(1, -1.0)]);
    assert_nearest(&mirrored.nearest(0, 1, true), [(1, 1.0)]);
}

/// Rows and columns of the patches of images that are flipped.
const GRID: Grid = Grid::new(4, 6);
/// Number of images, each with a flipped copy.
const IMAGES: usize = 40;

/// The number of the token at the mirrored place of token `i`.
fn mirrored(i: usize) -> usize {
    i / GRID.cols * GRID.cols + GRID.cols - 1 - i % GRID.cols
}

fn flipped(tokens: &Tokens) -> Tokens {
    let patches = (0..GRID.len()).flat_map(|i| tokens.patch(mirrored(i)).to_vec()).collect();
    Tokens { patches, ..tokens.clone() }
}

fn sinkhorn(width: usize) -> Probe {
    let dims = Dims { width, grid: GRID, classes: 3 };
    let config = Config { state_dim: Some(8), ..Config::default() };
    untrained("sinkhorn", &config, dims, 3)
}

/// The three kinds of vectors, from the definitions: expected position, evidence for the class and weight of every token.
fn compared(probe: &Probe, output: &HeadOutput, tokens: &Tokens, class: usize) -> [Vec<f64>; 3] {
    let Form::Scan(directions) = &output.form else { panic!("a router") };
    let Order::Plan(plan) = &directions[0].order else { panic!("a plan") };
    let expected = (0..plan.n).map(|i| {
        let row = plan.row(i);
        let mean = row.iter().enumerate().map(|(k, share)| k as f64 * share).sum::<f64>();
        mean / row.iter().sum::<f64>() / (plan.n - 1) as f64
    });
    let exact = evidence::exact(output, tokens, &probe.classifier, class);
    let exact = exact.expect("a head that is linear in its tokens");
    [expected.collect(), exact.token, readout::token_weight(output).expect("one memory for all channels")]
}

#[test]
fn flipped_copies_of_images_find_their_originals() {
    let (width, mut rng) = (12, ChaCha8Rng::seed_from_u64(8));
    let probe = sinkhorn(width);
    let image = |_| {
        let patches = (0..GRID.len() * width).map(|_| normal(&mut rng) as f32).collect();
        Tokens { grid: GRID, width, cls: None, registers: Vec::new(), patches }
    };
    let originals: Vec<Tokens> = (0..IMAGES).map(image).collect();
    let all = originals.iter().cloned().chain(originals.iter().map(flipped));
    let made: Vec<[Vec<f64>; 3]> = all
        .enumerate()
        .map(|(at, tokens)| {
            compared(&probe, &probe.output(&tokens, 0).expect("tokens that fit"), &tokens, at % 2)
        })
        .collect();
    for (kind, name) in VectorKind::ALL.iter().enumerate() {
        let kept = half(made.iter().flat_map(|vectors| vectors[kind].clone()));
        for similarity in Similarity::ALL {
            let space = ImageSpace::new(&kept, GRID, similarity);
            let mut recalled = 0;
            for copy in IMAGES..2 * IMAGES {
                let nearest = space.nearest(copy, 1, true)[0];
                recalled += usize::from(nearest.0 == copy - IMAGES && nearest.1 > 0.9999);
            }
            assert_eq!(recalled, IMAGES, "{} by {}", name.id(), similarity.id());
            let straight =
                (IMAGES..2 * IMAGES).filter(|copy| space.nearest(*copy, 1, false)[0].0 == copy - IMAGES);
            assert!(straight.count() < IMAGES, "they are not the same images");
        }
    }
}

/// A window with a dataset on which both probes were evaluated.
fn shown() -> Window {
    let mut window = Window::ready();
    open_evaluated(&mut window);
    window
}

fn focus(state: &State) -> ColumnId {
    state.focus().expect("a column")
}

fn names(state: &State) -> Vec<String> {
    let images = state.gallery_images(state.focus());
    images.iter().map(|id| state.library.images[id].name()).collect()
}

fn image(state: &State, name: &str) -> ImageId {
    let found = state.library.images.iter().find(|(_, image)| image.name() == name && image.label.is_some());
    *found.expect("an image of the dataset").0
}

#[test]
fn the_gallery_shows_the_images_like_one_with_their_similarity() {
    let mut window = shown();
    let like = image(window.state(), "1.png");
    window.harness.state_mut().dispatch(Command::SelectImage(like));
    window.answer();
    let state = window.state();
    assert!(Action::FindSimilar.enabled(state));
    let app = window.harness.state_mut();
    let Some(Effect::Command(command)) = Action::FindSimilar.effect(&app.state) else {
        panic!("it asks the window")
    };
    app.dispatch(command);
    window.answer();
    let state = window.state();
    assert_eq!(state.gallery_filter.sort, Sort::Similarity(like));
    let (dataset, alike) = state.similarities(like, focus(state)).expect("compared");
    assert_eq!(state.gallery_filter.scope, Scope::Dataset(dataset));
    let mut expected: Vec<usize> = (0..9).collect();
    let key = |at: &usize| if alike[*at].is_nan() { f32::INFINITY } else { -alike[*at] };
    expected.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let expected: Vec<String> = expected.iter().map(|at| format!("{at}.png")).collect();
    assert_eq!(names(state), expected);
    assert_eq!(
        (expected[0].as_str(), expected[8].as_str()),
        ("1.png", "7.png"),
        "itself first, the unreadable one last"
    );
    // The similarity is below each image, with a label for screen readers.
    assert!(window.has("similarity 1.000") && window.has("similarity –"));
    let by_cosine = expected;
    // Vectors and similarity can be chosen, undone, and saved with the workspace.
    let choice = Choice { vectors: VectorKind::Evidence, ..window.state().views.overview.clone() };
    window.dispatch(Command::SetOverview(Box::new(choice)));
    window.answer();
    assert_ne!(names(window.state()), by_cosine);
    window.dispatch(Command::Undo);
    window.answer();
    assert_eq!(names(window.state()), by_cosine);
    // Mirror images count on request.
    let straight = window.state().similarities(like, focus(window.state())).expect("it").1;
    window.click("Or flipped");
    window.answer();
    let state = window.state();
    let flipped = state.similarities(like, focus(state)).expect("compared").1;
    assert!(state.views.overview.flipped);
    assert!(
        straight.iter().zip(&flipped).all(|(a, b)| a.is_nan() || a <= b) && flipped[2] > straight[2],
        "{flipped:?}"
    );
    assert!(window.idle(), "all is shown, but the window repaints");
    // If all images are alike, their order says nothing.
    let note = "All images are alike by this measure: they are in the order of the dataset";
    assert!(!window.has(note));
    let choice = Choice { similarity: Similarity::Spearman, ..Choice::default() };
    window.dispatch(Command::SetOverview(Box::new(choice)));
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Similarity(ask)) => {
            let alike = ImageSpace::new(&half(vec![1.0; 9 * ask.grid.len()]), ask.grid, Similarity::Cosine);
            vec![Event::ImagesCompared(job, alike.into()), Event::Finished(job)]
        }
        other => crate::window::succeed(other),
    });
    assert!(window.has(note));
    window.click("Show all");
    assert!(window.state().gallery_filter.is_open());
}

#[test]
fn what_cannot_be_compared_says_why_and_what_to_do() {
    let part = part();
    let mut window = Window::ready();
    assert!(!Action::FindSimilar.enabled(window.state()), "no image of a dataset");
    window.show("image_map");
    assert!(window.has("Open a dataset to see what probes make of all its images"));
    opened(&mut window, &part);
    assert!(window.has("Not evaluated yet on the 9 test images of birds"));
    let like = image(window.state(), "2.png");
    window.dispatch(Command::FindSimilar(like));
    window.click("Evaluate first");
    evaluated(&mut window, &part);
    assert!(!window.has("Evaluate first") && window.has("similarity 1.000"));
    // This probe has no single weight per token.
    let choice = Choice { vectors: VectorKind::Weight, ..Choice::default() };
    window.dispatch(Command::SetOverview(Box::new(choice)));
    window.answer();
    assert!(window.has("A token has no single weight in this head") && window.idle());
    // An evaluation of an earlier program has no vectors.
    let state = window.state();
    let found = state.evaluation_of(focus(state)).expect("asked").expect("answered");
    let earlier = Evaluation { vectors: indexmap::IndexMap::new(), ..Evaluation::clone(found) };
    let why = earlier.space(VectorKind::Routing, Similarity::Cosine).expect_err("none");
    assert!(why.contains("Evaluate the dataset again"), "{why}");
}

#[test]
fn comparing_is_a_job_that_may_fail_or_be_ended() {
    let mut window = shown();
    let state = &mut window.harness.state_mut().state;
    let (dataset, column) = (state.dataset().expect("one").0, focus(state));
    let ask = |state: &mut State| {
        let requests = state.dispatch(Command::CompareImages(dataset, column));
        requests.into_iter().find_map(pick!(Request::Compute(job, Compute::Similarity(ask)) => (job, ask)))
    };
    let (job, asked) = ask(state).expect("asked");
    assert_eq!((asked.similarity, asked.grid), (Similarity::Cosine, Grid::new(2, 2)));
    assert_eq!(state.image_space(dataset, column).1, Some(job));
    assert!(ask(state).is_none(), "once");
    state.apply(Event::Failed(job, UserError::new("no memory left")));
    assert!(state.image_space(dataset, column).0.is_some_and(|space| space.is_err()));
    assert!(ask(state).is_none(), "what failed is not tried again and again");
    let ranks = Choice { similarity: Similarity::Spearman, ..Choice::default() };
    state.dispatch(Command::SetOverview(Box::new(ranks)));
    let (older, _) = ask(state).expect("another choice");
    state.dispatch(Command::SetOverview(Box::default()));
    let requests = state.dispatch(Command::CompareImages(dataset, column));
    assert!(requests.contains(&Request::Cancel(older)), "{requests:?}");
    state.apply(Event::Cancelled(older));
    let job = state.image_space(dataset, column).1.expect("tried again");
    let space = ssmprobe::app::jobs::similarity::run(&asked);
    state.apply(Event::ImagesCompared(older, space.clone()));
    assert!(state.image_space(dataset, column).0.is_none(), "too late");
    state.apply(Event::ImagesCompared(job, space));
    state.apply(Event::Finished(job));
    assert!(state.image_space(dataset, column).0.is_some_and(|space| space.is_ok()));
    assert!(state.image_space(dataset, column).1.is_none());
}

/// Drags the pointer along these points.
fn drag(window: &mut Window, places: &[egui::Pos2]) {
    let (button, modifiers) = (egui::PointerButton::Primary, egui::Modifiers::NONE);
    let press = |pos, pressed| egui::Event::PointerButton { pos, button, pressed, modifiers };
    window.harness.hover_at(places[0]);
    window.harness.event(press(places[0], true));
    window.harness.run_steps(1);
    for place in places {
        window.harness.hover_at(*place);
        window.harness.run_steps(1);
    }
    window.harness.event(press(places[places.len() - 1], false));
    window.harness.run();
}

#[test]
fn a_line_drawn_around_dots_of_the_map_shows_these_images_alone() {
    let mut window = shown();
    window.show("image_map");
    window.answer();
    let map = window.place("Map of images");
    let corners = |part: egui::Rect| {
        [part.left_top(), part.right_top(), part.right_bottom(), part.left_bottom(), part.left_top()]
    };
    drag(&mut window, &corners(map.shrink(4.0)));
    let state = window.state();
    let (what, all) = state.gallery_filter.only.clone().expect("some images");
    assert_eq!((what.as_str(), all.len()), ("8 images of the map", 8), "all but the unreadable one");
    // Half of the map holds fewer images.
    let left = egui::Rect::from_min_max(map.min, egui::pos2(map.center().x, map.bottom()));
    drag(&mut window, &corners(left.shrink(4.0)));
    let state = window.state();
    let (_, some) = state.gallery_filter.only.clone().expect("some images");
    assert!(!some.is_empty() && some.len() < 8, "{some:?}");
    let (dataset, focus) = (state.dataset().expect("one").0, focus(state));
    let space = state.image_space(dataset, focus).0.expect("there").expect("compared");
    let x = |id: &ImageId| {
        let at = state.library.images[id].label.expect("of the dataset").at;
        space.projection.as_ref().expect("a map").points[at].expect("its dot")[0]
    };
    let most = some.iter().map(x).fold(f32::MIN, f32::max);
    assert!(all.iter().filter(|id| !some.contains(id)).all(|id| x(id) > most), "the left ones");
    window.click_first("Show all in the gallery");
    assert!(window.state().gallery_filter.only.is_none());
    // A line around nothing changes nothing.
    drag(
        &mut window,
        &[map.left_top(), map.left_top() + egui::vec2(9.0, 0.0), map.left_top() + egui::vec2(9.0, 3.0)],
    );
    assert!(window.state().gallery_filter.only.is_none() && window.idle());
    let by_class = Choice { color: ColorBy::Class, ..Choice::default() };
    window.dispatch(Command::SetOverview(Box::new(by_class)));
    assert!(window.has("Map of images") && window.idle());
}

/// The vectors of the hand-made evaluation of nine images and four tokens.
pub fn vectors(probe: &str) -> indexmap::IndexMap<VectorKind, KeptVectors> {
    let of = |f: &dyn Fn(f64, f64) -> f64| {
        let value = |at: usize| {
            let (image, token) = ((at / 4) as f64, (at % 4) as f64);
            if at / 4 == 7 { f64::NAN } else { f(image, token) }
        };
        KeptVectors::Float16(half((0..36).map(value)))
    };
    let routing = of(&|image, token| ((token * (image + 2.0) + image) % 5.0) / 4.0);
    let evidence = of(&|image, token| (image - 4.0) * (token - 1.5) + (image * token) % 3.0 + 0.25);
    let weight = match probe {
        "gap" => of(&|_, _| 1.0),
        _ => KeptVectors::None("A token has no single weight in this head".into()),
    };
    VectorKind::ALL.into_iter().zip([routing, evidence, weight]).collect()
}

/// Asserts that the vectors that an evaluation keeps of an image are those of its trace.
pub fn assert_kept(evaluation: &Evaluation, image: usize, trace: &ssmprobe::model::trace::Trace) {
    let n = trace.grid.len();
    let kept = |kind: VectorKind| -> Option<Vec<f64>> {
        let vectors = evaluation.vectors_of(kind).ok()?;
        Some(vectors.values()[image * n..][..n].iter().map(|x| x.to_f64()).collect())
    };
    let last = (n - 1) as f64;
    match (&trace.expected, kept(VectorKind::Routing)) {
        (Some(expected), Some(found)) => {
            let expected: Vec<f64> = expected.iter().map(|k| k / last).collect();
            assert_close("routing", found, expected, 3e-3);
        }
        (expected, found) => assert!(expected.is_none() && found.is_none(), "{expected:?}, {found:?}"),
    }
    let weight: Option<Vec<f64>> =
        trace.token_weight.as_ref().map(|all| all.iter().map(|w| f64::from(*w) * n as f64).collect());
    match (&weight, kept(VectorKind::Weight)) {
        (Some(weight), Some(found)) => assert_close("weight", found, weight, 6e-3),
        (weight, found) => assert!(weight.is_none() && found.is_none(), "{weight:?}, {found:?}"),
    }
    // A trace has the evidence for the predicted class.
    if evaluation.is_correct(image) == Some(true) {
        let found = kept(VectorKind::Evidence).expect("evidence");
        assert_close("evidence", found, trace.evidence.token.as_ref().expect("evidence"), 6e-3);
    }
}

/// The program with these arguments and the file of the hand-made evaluation.
fn program(folder: &std::path::Path, arguments: &str) -> std::process::Command {
    let file = folder.join("shore.survey.json");
    std::fs::write(&file, small::evaluation().to_json().expect("JSON")).expect("written");
    let mut command = run::program();
    command.current_dir(folder).args(arguments.split(' ')).arg("--evaluation").arg(file);
    command
}

#[test]
fn the_program_names_the_nearest_images_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let evaluation = small::evaluation();
    for (similarity, flipped) in [(Similarity::Cosine, ""), (Similarity::Spearman, " --flipped")] {
        let space = evaluation.space(VectorKind::Routing, similarity).expect("vectors");
        let arguments = format!("similar --image 3.png 9.png --count 4 --json{flipped} --similarity");
        let text = done(&mut program(folder.path(), &format!("{arguments} {}", similarity.id())));
        let lines = run::lines(&text);
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!((&lines[0]["image"], &lines[0]["vectors"]), (&"3.png".into(), &"routing".into()));
        let found = lines[0]["nearest"].as_array().expect("images");
        let expected = space.nearest(3, 4, !flipped.is_empty());
        assert_eq!(found.len(), 4);
        for (found, (image, alike)) in found.iter().zip(expected) {
            assert_eq!(found["image"], format!("{image}.png"));
            let class = small::CLASSES[small::TRUE[image] as usize];
            assert_eq!(
                (&found["class"], &found["prediction"]),
                (&class.into(), &evaluation.predicted_name(image).into())
            );
            assert_close("similarity", maybe(&found["similarity"]), alike, 1e-6);
        }
        assert!(lines[1]["nearest"].is_null(), "nothing is known of the one that could not be read");
    }
    let text = done(&mut program(folder.path(), "similar --image 0.png --count 2"));
    assert!(text.contains("Images like 0.png (auk)") && text.lines().count() > 4, "{text}");
    for (arguments, code, words) in [
        (
            "similar --image 0.png eel.png",
            2,
            "has no such image; its 10 images begin with 0.png, 1.png, 2.png",
        ),
        ("similar --image 0.png --vectors evidence", 1, "Evaluate the dataset again"),
        ("similar --image 0.png --count 0", 2, "'0' for '--count <N>': expected a whole number from 1"),
        ("similar --image 0.png --vectors colour", 2, "expected one of routing, evidence, weight"),
        ("figures --figure image_map --vectors weight --out m.svg", 1, "Evaluate the dataset again"),
        ("figures --figure confusion --classes 0 --out m.svg", 2, "expected a number above 0, or all"),
        (
            "figures --figure class_diagnostics --measure hue --out m.svg",
            2,
            "--measure hue: sinkhorn has no such measure",
        ),
        (
            "figures --figure scatter --against hue --out m.svg",
            2,
            "--against hue: sinkhorn has no such measure",
        ),
    ] {
        let (found, stdout, stderr) = run::run(&mut program(folder.path(), arguments));
        let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(found == code && said.contains(words) && stdout.is_empty(), "{arguments}: {stderr}");
    }
}

/// As of a mean of the tokens: it weighs every token alike, and reads no order.
#[test]
fn equal_images_are_called_so_and_missing_vectors_name_those_that_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("gap.survey.json");
    let mut evaluation = std::sync::Arc::unwrap_or_clone(small::evaluation());
    let tokens = evaluation.set.images.len() * evaluation.grid.len();
    let (ones, none) = (half(vec![1.0; tokens]), KeptVectors::None("by channel".into()));
    let one_image = (0..tokens).map(|at| if at < evaluation.grid.len() { 1.0 } else { f64::NAN });
    let one_image = KeptVectors::Float16(half(one_image));
    evaluation.vectors.insert(VectorKind::Weight, KeptVectors::Float16(ones));
    evaluation.vectors.insert(VectorKind::Evidence, none);
    std::fs::write(&file, evaluation.to_json().expect("JSON")).expect("written");
    let similar = |vectors: &str| {
        let mut command = run::program();
        command.args(["similar", "--image", "0.png", "--vectors", vectors, "--evaluation"]).arg(&file);
        command
    };
    for (vectors, uniform) in [("weight", true), ("routing", false)] {
        let text = done(&mut similar(vectors));
        assert_eq!(text.contains("treats all images alike"), uniform, "{vectors}: {text}");
    }
    let (code, stdout, said) = run::run(&mut similar("evidence"));
    assert!(said.contains("evidence: by channel; pass --vectors routing instead"), "{said}");
    assert_eq!((code, stdout.as_str()), (1, ""));
    evaluation.vectors.insert(VectorKind::Weight, one_image);
    std::fs::write(&file, evaluation.to_json().expect("JSON")).expect("written");
    let text = done(&mut similar("weight"));
    assert!(text.contains("Images like") && !text.contains("alike"), "one is no set: {text}");
    // An image by its path, if more than the name of its file says that it is this one.
    std::sync::Arc::make_mut(&mut evaluation.set).images[1] = "auk/1.png".to_owned();
    std::fs::write(&file, evaluation.to_json().expect("JSON")).expect("written");
    let at =
        |path: &str| run::run(run::program().args(["similar", "--image", path, "--evaluation"]).arg(&file));
    assert_eq!([at("../photos/auk/1.png").0, at("../photos/0.png").0], [0, 2]);
}

#[test]
fn the_program_draws_the_map_that_the_window_exports() {
    let folder = tempfile::tempdir().expect("a folder");
    for color in [ColorBy::Outcome, ColorBy::Class] {
        let plot = ImageMapPlot { selected: None, ..small::image_map(color) };
        let scene = Plot::draw_column(&plot, &Theme::print(), export::points(85.0)).expect("a picture");
        for ending in ["svg", "csv"] {
            let [window, headless] =
                ["window", "headless"].map(|name| folder.path().join(format!("{name}.{ending}")));
            export::save(&window, &scene, &plot.table(), &plot.caption().about, 300.0).expect("written");
            let words = format!("figures {} --out headless.{ending}", plot.caption().command);
            done(&mut program(folder.path(), &words));
            let [a, b] = [window, headless].map(|path| std::fs::read(path).expect("a file"));
            assert!(!a.is_empty() && a == b, "{ending}, {color:?}");
        }
    }
}

#[test]
fn vectors_of_older_evaluations_give_way() {
    let evaluation = small::evaluation();
    let bytes = 2 * 10 * 6;
    let kept = |most: u64| -> Vec<bool> {
        let mut all = [evaluation.clone(), evaluation.clone(), evaluation.clone()];
        keep_latest(all.iter_mut(), most);
        all.iter().map(|one| one.vectors_of(VectorKind::Routing).is_ok()).collect()
    };
    assert_eq!(kept(3 * bytes), [true, true, true]);
    assert_eq!(kept(3 * bytes - 1), [false, true, true]);
    assert_eq!(kept(0), [false, false, true]);
    assert!(evaluation.vectors_of(VectorKind::Routing).is_ok(), "who else has it keeps it");
}
