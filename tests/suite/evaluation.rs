//! Evaluations of probes on a dataset, against explanations image by image, and every state of the panes that show them.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

use indexmap::IndexMap;
use ssmprobe::app::jobs::evaluate::{EvalAnswer, EvalProbe, EvalRequest, EvalSplit};
use ssmprobe::app::jobs::info::BackboneInfo;
use ssmprobe::app::jobs::regions::RegionSource;
use ssmprobe::app::jobs::removal::RemovalRequest;
use ssmprobe::app::jobs::stability;
use ssmprobe::app::jobs::{BackboneId, DatasetId, Explain, Unit};
use ssmprobe::app::state::{GalleryFilter, Image, Outcome, Scope, Sort, Status};
use ssmprobe::app::worker::WorkerEnv;
use ssmprobe::model::data::{self, ImageSource};
use ssmprobe::model::explain::evaluation::regions::{RegionMeans, RegionSummary};
use ssmprobe::model::explain::evaluation::{CONFIDENCE, ClassMaps, OTHER, OWN, Provenance};
use ssmprobe::model::explain::removal::{Curve, Mode, RemovalSpec};
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::probe::head::scan::dynamic_order;
use ssmprobe::model::probe::head::{Config, Dims};
use ssmprobe::model::trace::{Found, OrderTest, Routing};
use ssmprobe::viz::draw::Map;
use ssmprobe::viz::draw::theme::Theme;
use ssmprobe::viz::export;
use ssmprobe::viz::figures::dataset::{Choice, ClassFilter, ClassSort, MapOf, OVERVIEWS};
use ssmprobe::viz::figures::plot::{EvaluationPlot, Plot};
use ssmprobe::viz::heading::capitalised;

use crate::heads::untrained;
use crate::pictures::{painted, small};
use crate::run::{assert_ends, done, fixture, program, root, succeeds};
use crate::similarity;
use crate::state;
use crate::window;
use crate::window::prelude::*;
use crate::worker::{DRAWS, Sandbox, end, explanation, look, look_at, seen};

/// Two classes of the fixture's probes, and one that they do not know.
const CLASSES: [&str; 3] = ["church", "crane", "lynx"];

/// An image folder with `each` images per class and split; `val/church/00.png` is no image.
pub fn dataset(each: usize) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for split in ["train", "val"] {
        for (class, name) in CLASSES.iter().enumerate() {
            let inside = folder.path().join(split).join(name);
            std::fs::create_dir_all(&inside).expect("a class");
            for at in 0..each {
                let path = inside.join(format!("{at:02}.png"));
                let hue = |x: u32, y: u32, c: u32| ((x * (at as u32 + 3) + y * (c + 2) * 5) % 256) as u8;
                let paint = |x, y| image::Rgb([0, 1, 2].map(|c| hue(x, y, c).wrapping_add(90 * class as u8)));
                image::RgbImage::from_fn(48, 48, paint).save(&path).expect("an image");
            }
        }
    }
    std::fs::write(folder.path().join("val/church/00.png"), b"no image").expect("a broken image");
    folder
}

static TOKENS: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

/// The name of an image whose decoding panics.
const PANICS: &str = "panics.png";

fn worker_env() -> WorkerEnv {
    WorkerEnv {
        photo: |place| {
            assert!(!place.path.ends_with(PANICS), "a decoder gave up");
            place.photo()
        },
        tokens: || Some(TOKENS.path().to_owned()),
        ..WorkerEnv::default()
    }
}

pub fn subject(probe: u64) -> EvalProbe {
    EvalProbe { probe: ProbeId(probe), backbone: BackboneId(1), change: Intervention::None }
}

/// A worker with the dataset and two probes open; the split, and the request to evaluate both probes on it.
fn open_dataset(path: &Path) -> (Sandbox, Arc<EvalSplit>, Request) {
    open_dataset_with(worker_env(), path)
}

pub fn open_dataset_with(env: WorkerEnv, path: &Path) -> (Sandbox, Arc<EvalSplit>, Request) {
    let mut sandbox = Sandbox::with(env, &["sinkhorn", "gap"]);
    let path = path.to_owned();
    let events =
        sandbox.job(Request::Files(JobId(50), Files::OpenDataset { entry: DatasetId(9), path, split: None }));
    let opened = events.into_iter().find_map(pick!(Event::DatasetOpened { part, .. } => part));
    let part = opened.expect("a dataset");
    let settings = ExplainSettings { null_draws: DRAWS, ..ExplainSettings::default() };
    let (subjects, regions) = (vec![subject(1), subject(2)], RegionSource::default());
    let (removals, stored) = (Vec::new(), Vec::new());
    let request = EvalRequest { part: part.clone(), subjects, settings, regions, removals, stored };
    (sandbox, part, Request::Compute(JobId(51), Compute::Evaluate(request)))
}

pub fn answers(events: &[Event]) -> Vec<&EvalAnswer> {
    let mut found = Vec::new();
    for event in events {
        if let Event::Evaluated { answer, .. } = event {
            found.push(answer);
        }
    }
    found
}

/// Checks the order test's columns against an image's trace if the true class is predicted; whether there is such a test.
fn assert_tested(evaluation: &Evaluation, image: usize, trace: &Trace) -> bool {
    let column = |name: &str| Some(f64::from(evaluation.values(name)?[image]));
    match &trace.order_test {
        Some(Found::Some(OrderTest { margin: Some(margin), .. }))
            if evaluation.is_correct(image) == Some(true) =>
        {
            let null = &margin.reassigned;
            for (name, expected) in
                [("order_z", null.z), ("order_p", Some(null.p)), ("order_headroom", margin.headroom)]
            {
                let (found, expected) = (column(name).expect(name), expected.expect(name));
                // Tokens on disk have half precision.
                assert_close(
                    format!("image {image}, {name}"),
                    found,
                    expected,
                    0.01 * (1.0 + expected.abs()),
                );
            }
            true
        }
        _ => false,
    }
}

#[test]
fn an_evaluation_says_of_every_image_what_its_explanation_says() {
    let folder = dataset(3);
    let (mut sandbox, part, request) = open_dataset(folder.path());
    assert_eq!(part.summary(), "folder, 9 val images of 3 classes");
    let events = sandbox.job(request.clone());
    let has_progress = |events: &[Event], what: &str| {
        events.iter().any(|event| matches!(event, Event::Progress(_, p) if p.what.contains(what)))
    };
    assert!(has_progress(&events, "Extracting tokens"));
    let told = events.iter().filter_map(|event| match event {
        Event::Progress(_, p) if p.what.starts_with("Evaluating") => Some((p.done, p.total)),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [(9, Some(18)), (18, Some(18))], "the time left is that of both probes");
    assert!(
        events
            .iter()
            .any(|e| matches!(e, Event::Warning { text, .. } if text.contains("unreadable: 1 image of")))
    );
    let evaluations: Vec<Arc<Evaluation>> =
        answers(&events).iter().map(|a| a.result.clone().expect("an evaluation")).collect();
    assert_eq!(
        (evaluations.len(), evaluations[0].probe.as_str(), evaluations[1].probe.as_str()),
        (2, "sinkhorn", "gap")
    );
    let broken = part.set.images.iter().position(|name| name.ends_with("church/00.png")).unwrap();
    let (mut asked, mut tested) = (100, 0);
    for (evaluation, probe) in evaluations.iter().zip([1, 2]) {
        assert!(!evaluation.readable(broken) && evaluation.predicted[broken] == OTHER);
        assert_eq!(evaluation.is_correct(broken), None);
        for (at, name) in part.set.images.iter().enumerate().filter(|(at, _)| *at != broken) {
            asked += 1;
            let trace = seen(&sandbox.job(look(asked, &folder.path().join(name), probe))).expect("a trace");
            let best = &trace.top[0];
            let known = part.set.classes.iter().position(|class| *class == best.name);
            assert_eq!(evaluation.predicted[at], known.map_or(OTHER, |class| class as u32), "{name}");
            similarity::assert_kept(evaluation, at, &trace);
            tested += usize::from(assert_tested(evaluation, at, &trace));
            // Tokens on disk have half precision.
            assert_close(name, evaluation.values(CONFIDENCE).unwrap()[at], best.probability, 2e-3);
            for (measure, diagnostic) in &trace.diagnostics {
                let found = f64::from(evaluation.values(measure).unwrap()[at]);
                // Diagnostics that count tokens, of sixteen, may differ by one token.
                let counted = ["coverage", "entropy", "edge"].iter().any(|word| measure.contains(word));
                let near = if counted { 1.01 / 16.0 } else { 1e-3 };
                assert_close(format!("{name} {measure}"), found, diagnostic.value, near);
                assert_eq!(evaluation.nulls.get(measure.as_str()).copied(), diagnostic.null, "{measure}");
            }
        }
        // The probes know no lynx.
        let own = evaluation.values(OWN).unwrap();
        assert!(
            (0..evaluation.len()).all(|at| own[at].is_nan() == (part.set.class[at] == 2 || at == broken))
        );
    }
    assert!(tested > 0 && evaluations[1].values("order_z").is_none(), "{tested} images are tested");
    let positions = evaluations[0].positions.as_ref().expect("an order");
    assert_eq!(positions.counts, [2, 3, 3]);
    let mean: f32 = positions.of_class(1).iter().sum::<f32>() / positions.of_class(1).len() as f32;
    assert!((mean - 0.5).abs() < 0.02, "positions are 0 to 1 and every one is somebody's: {mean}");
    assert!(evaluations[1].positions.is_none() && evaluations[1].nulls.is_empty());
    let (nulls, of_means) = (&evaluations[0].nulls, &evaluations[0].mean_nulls);
    assert!(nulls.keys().eq(of_means.keys()) && evaluations[1].mean_nulls.is_empty());
    for (name, null) in of_means {
        let (low, high) = null.band(1000);
        let within = nulls[name].0 - 1e-9 <= null.mean && null.mean <= nulls[name].1 + 1e-9;
        assert!(within && low <= high, "{name}: {null:?}");
    }
    assert_eq!(evaluations[1].weights.as_ref().expect("even weights").of_class(0)[0], 1.0);
    // The second time, the tokens are in the cache.
    assert!(!has_progress(&sandbox.job(request), "Extracting tokens"));
}

#[test]
fn no_tokens_are_extracted_for_probes_that_have_no_class_of_the_dataset() {
    let folder = dataset(1);
    let (mut sandbox, part, request) = open_dataset(folder.path());
    let Request::Compute(job, Compute::Evaluate(request)) = request else { panic!("{request:?}") };
    let mut others = (*part.dataset).clone();
    others.classes.iter_mut().for_each(|class| *class = format!("no {class}"));
    let part = Arc::new(EvalSplit::new(others, Some(part.split)));
    let events = sandbox.job(Request::Compute(job, Compute::Evaluate(EvalRequest { part, ..request })));
    let [first, second] = answers(&events)[..] else { panic!("{events:?}") };
    for EvalAnswer { result, .. } in [first, second] {
        let error = result.as_ref().expect_err("another dataset").one_line();
        assert!(error.contains("none of the 3 classes"), "{error}");
    }
    let extracts = |event: &Event| matches!(event, Event::Progress(_, p) if p.what.contains("Extracting"));
    assert!(!events.iter().any(extracts));
}

/// Writes a probe that reads every image in a random order of its own; its path.
fn random_dynamic(folder: &Path) -> PathBuf {
    let config = Config { state_dim: Some(4), seed: Some(SEED), ..Config::default() };
    let dims = Dims { width: 24, grid: Grid::new(4, 4), classes: CLASSES.len() };
    // The orders depend on the seed in the settings, not on that of the training.
    let mut probe = untrained("random-dynamic", &config, dims, SEED + 1);
    probe.meta.classes = CLASSES.map(str::to_owned).into();
    let path = folder.join("random.safetensors");
    probe.save(&path).unwrap();
    path
}

/// Seed of the orders of [`random_dynamic`].
const SEED: u64 = 5;

/// The position, 0 to 1, of every token in the random order of the image with this seed.
fn positions(image_seed: u64) -> Vec<f32> {
    let mut positions = vec![0.0; 16];
    let order = dynamic_order(SEED, image_seed, 16);
    order.iter().enumerate().for_each(|(k, &i)| positions[i] = k as f32 / 15.0);
    positions
}

#[test]
fn the_worker_draws_an_order_by_the_index_in_the_whole_dataset() {
    let folder = dataset(3);
    let (mut sandbox, part, request) = open_dataset(folder.path());
    assert_eq!(part.samples[0], 9, "training images come first, and their tokens are not taken");
    let path = random_dynamic(folder.path());
    sandbox.job(Request::Compute(JobId(52), Compute::OpenProbe { entry: ProbeId(3), path }));
    let Request::Compute(job, Compute::Evaluate(request)) = request else { unreachable!() };
    let request =
        Request::Compute(job, Compute::Evaluate(EvalRequest { subjects: vec![subject(3)], ..request }));
    let evaluation = answers(&sandbox.job(request))[0].result.clone().expect("an evaluation");
    let maps = evaluation.positions.as_ref().expect("an order");
    for class in 0..CLASSES.len() {
        let own = (0..evaluation.len()).filter(|at| part.set.class[*at] as usize == class);
        let own: Vec<usize> = own.filter(|at| evaluation.readable(*at)).collect();
        let mean = |token: usize| {
            let sum: f32 = own.iter().map(|at| positions(part.samples[*at] as u64)[token]).sum();
            sum / own.len() as f32
        };
        let expected: Vec<f32> = (0..16).map(mean).collect();
        assert_close(format!("class {class}"), maps.of_class(class), expected, 1e-6);
    }
    let image = folder.path().join("val/crane/00.png");
    for image_seed in [0, 9, 12] {
        let mut request = look(100 + image_seed, &image, 3);
        explanation(&mut request).items[0].image_seed = image_seed;
        let trace = seen(&sandbox.job(request)).expect("a trace");
        let expected: Vec<u32> = dynamic_order(SEED, image_seed, 16).into_iter().map(|i| i as u32).collect();
        assert_eq!(trace.routing, Routing::Orders(vec![expected]), "image {image_seed}");
    }
}

#[test]
fn a_backbone_that_a_panic_dropped_is_opened_again_by_every_job_that_reads_it() {
    let folder = dataset(2);
    let (mut sandbox, part, evaluate) = open_dataset(folder.path());
    let panics = folder.path().join(PANICS);
    std::fs::write(&panics, "").expect("a file");
    let (place, class) = (part.dataset.samples[part.samples[1]].source.clone(), ClassChoice::Predicted);
    let (image, seed, image_seed) = (ImageId(1), 0, 0);
    let measure =
        stability::StabilityRequest { subject: subject(1), image, source: place.clone(), seed, image_seed };
    let spec = RemovalSpec { modes: vec![Mode::Rerouted], ..RemovalSpec::default() };
    let remove = RemovalRequest { subject: subject(1), source: place, class, spec, image_seed };
    let [measure, remove] = [(60, Compute::Stability(measure)), (61, Compute::Removal(remove))]
        .map(|(job, request)| Request::Compute(JobId(job), request));
    for request in [measure, remove, evaluate] {
        let events = sandbox.job(look(70, &panics, 1));
        assert!(matches!(events.last(), Some(Event::Failed(..))), "{events:?}");
        let events = sandbox.job(request);
        let is_right = |event: &Event| match event {
            Event::StabilityMeasured { answer, .. } => answer.result.is_ok(),
            Event::RemovalMeasured { answer, .. } => answer.is_ok(),
            Event::Evaluated { answer, .. } => answer.result.is_ok(),
            Event::Failed(..) => false,
            _ => true,
        };
        assert!(events.iter().all(is_right), "{events:?}");
    }
}

#[test]
fn images_inside_parquet_files_are_evaluated_explained_and_shrunk() {
    let (mut sandbox, part, request) = open_dataset(&root().join("tests/fixtures/parquet/hub"));
    assert_eq!(part.summary(), "parquet, 5 test images of 3 classes");
    let Request::Compute(job, Compute::Evaluate(request)) = request else { unreachable!() };
    // The classes of the dataset, renamed to those that the probes know.
    let classes = CLASSES.map(str::to_owned).to_vec();
    let part = Arc::new(EvalSplit::new(data::Dataset { classes, ..(*part.dataset).clone() }, None));
    let request = Request::Compute(job, Compute::Evaluate(EvalRequest { part: part.clone(), ..request }));
    assert_eq!(part.set.images[3], "data/test-00000-of-00001.parquet, row 4");
    let evaluation = answers(&sandbox.job(request))[0].result.clone().expect("an evaluation");
    let places: Vec<ImageSource> =
        part.samples.iter().map(|at| part.dataset.samples[*at].source.clone()).collect();
    for (at, place) in places.iter().enumerate() {
        let trace = seen(&sandbox.job(look_at(100 + at as u64, place.clone(), 1))).expect("a trace");
        assert_close(place, evaluation.values(CONFIDENCE).unwrap()[at], trace.top[0].probability, 2e-3);
        assert!(trace.image.ends_with(&format!("parquet, row {}", place.row.unwrap())), "{}", trace.image);
    }
    sandbox.worker.send(Request::Thumbnails { wanted: vec![(ImageId(7), places[0].clone())], side: 16 });
    let small = sandbox.until(|event| matches!(event, Event::ThumbnailReady { image: ImageId(7), .. }));
    assert!(!small.is_empty());
    let beyond = ImageSource { row: Some(99), ..places[0].clone() };
    let fault = seen(&sandbox.job(look_at(200, beyond, 1))).expect_err("no such row");
    assert!(fault.lines.join(" ").contains("row 99"), "{fault:?}");
}

#[test]
fn an_explanation_is_computed_in_the_middle_of_an_evaluation_which_can_be_cancelled() {
    let folder = dataset(40);
    let (mut sandbox, _, request) = open_dataset(folder.path());
    sandbox.worker.send(request.clone());
    sandbox.worker.send(look(60, &folder.path().join("val/crane/00.png"), 1));
    let mut left: HashSet<JobId> = [JobId(51), JobId(60)].into();
    let events = sandbox.until(|event| {
        let _ = end(event).map(|job| left.remove(&job));
        left.is_empty()
    });
    let order: Vec<JobId> = events.iter().filter_map(end).collect();
    assert_eq!(order, [JobId(60), JobId(51)], "the look waited for the evaluation");
    let Request::Compute(_, Compute::Evaluate(ask)) = request else { unreachable!() };
    // The tokens are cached by now, so an evaluation may end before it is cancelled. With another seed it is not known yet.
    let cancelled = (70..90).map(JobId).any(|job| {
        let settings = ExplainSettings { seed: job.0, ..ask.settings };
        sandbox
            .worker
            .send(Request::Compute(job, Compute::Evaluate(EvalRequest { settings, ..ask.clone() })));
        sandbox.worker.send(Request::Cancel(job));
        let events = sandbox.until(|event| end(event) == Some(job));
        matches!(events.last(), Some(Event::Cancelled(_)))
    });
    assert!(cancelled, "none of twenty was cancelled");
}

/// A split of nine images of three classes, whose files do not exist.
pub fn part() -> Arc<EvalSplit> {
    let sample = |at: usize| data::Sample {
        source: PathBuf::from(format!("birds/{at}.png")).into(),
        class: at / 3,
        split: data::Split::Test,
    };
    let dataset = data::Dataset {
        name: "birds".into(),
        root: "birds".into(),
        layout: "folder",
        classes: CLASSES.map(str::to_owned).into(),
        samples: (0..9).map(sample).collect(),
        ..data::Dataset::default()
    };
    Arc::new(EvalSplit::new(dataset, None))
}

/// An evaluation of a probe on that split: images 0, 4 and 8 wrong, 7 unreadable.
pub fn evaluation(part: &EvalSplit, probe: &str) -> Arc<Evaluation> {
    let ramp = |scale: f32| (0..9).map(|at| if at == 7 { f32::NAN } else { scale * at as f32 }).collect();
    let maps = |low: f32| ClassMaps {
        values: vec![low, 0.4, 0.6, 0.9, 0.5, 0.5, 0.5, 0.5, 1.0, 0.0, 0.2, 0.3],
        counts: vec![3, 3, 2],
    };
    Arc::new(Evaluation {
        set: part.set.clone(),
        probe: probe.into(),
        head: probe.into(),
        backbone: "tiny".into(),
        grid: Grid::new(2, 2),
        predicted: vec![1, 0, 0, 1, OTHER, 1, 2, OTHER, 0],
        measures: IndexMap::from([
            (CONFIDENCE, ramp(0.1)),
            (OWN, ramp(if probe == "gap" { 0.05 } else { 0.1 })),
            ("rank_coverage", ramp(-0.02)),
        ]),
        nulls: IndexMap::from([("rank_coverage", (-0.1, 0.0))]),
        positions: Some(maps(0.1)),
        weights: (probe == "gap").then(|| maps(-0.2)),
        regions: Some(RegionSummary {
            images: 2,
            regions: vec![RegionMeans {
                name: "object".into(),
                images: 2,
                tokens: 1.0,
                positions: (0..9).map(|at| (at < 2).then_some(0.25 * at as f32)).collect(),
                ..RegionMeans::default()
            }],
            precedence: vec![vec![Some(0.5)]],
            pairs: vec![vec![2]],
        }),
        vectors: similarity::vectors(probe),
        ..Evaluation::default()
    })
}

/// Opens the dataset in a window and answers the request with `part`.
pub fn opened(window: &mut Window, part: &Arc<EvalSplit>) {
    window.harness.state_mut().dispatch(Command::OpenDataset("birds".into(), None));
    let part = part.clone();
    window.answer_with(move |request| match request {
        Request::Files(job, Files::OpenDataset { entry, .. }) => {
            vec![Event::DatasetOpened { job, entry, part: part.clone() }, Event::Finished(job)]
        }
        other => window::succeed(other),
    });
}

/// Answers the window's evaluation requests with those of [`evaluation`], for sinkhorn and gap in turn.
pub fn evaluated(window: &mut Window, part: &Arc<EvalSplit>) {
    evaluated_as(window, |at| evaluation(part, ["sinkhorn", "gap"][at % 2]));
}

/// A window in which the dataset [`part`] is open.
pub fn with_part() -> (Window, Arc<EvalSplit>) {
    let (mut window, part) = (Window::ready(), part());
    opened(&mut window, &part);
    (window, part)
}

/// Opens the dataset [`part`] in a window, and evaluates the shown probes on it.
pub fn open_evaluated(window: &mut Window) -> Arc<EvalSplit> {
    let part = part();
    opened(window, &part);
    window.harness.state_mut().dispatch(Command::Evaluate { all: false });
    evaluated(window, &part);
    part
}

/// Answers the window's evaluation requests with `made(at)` for the probe at place `at`.
pub fn evaluated_as(window: &mut Window, made: impl Fn(usize) -> Arc<Evaluation>) {
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Evaluate(ask)) => {
            let answers = ask.subjects.into_iter().enumerate().map(|(at, subject)| {
                let answer = EvalAnswer { subject, result: Ok(made(at)) };
                Event::Evaluated { job, answer }
            });
            answers.chain([Event::Finished(job)]).collect()
        }
        other => window::succeed(other),
    });
}

/// The state of `state::story` with an open dataset: two training images, then seven test images.
pub(super) fn with_dataset() -> (State, Arc<EvalSplit>) {
    let mut state = state::story();
    let requests = state.dispatch(Command::OpenDataset("birds".into(), None));
    let (job, entry) = dataset_asked(&requests);
    let mut dataset = (*part().dataset).clone();
    dataset.samples[..2].iter_mut().for_each(|sample| sample.split = data::Split::Train);
    let part = Arc::new(EvalSplit::new(dataset, None));
    state.apply(Event::DatasetOpened { job, entry, part: part.clone() });
    state.apply(Event::Finished(job));
    (state, part)
}

/// The evaluation among requests: its job, and what it is of.
fn evaluation_asked(requests: Vec<Request>) -> Option<(JobId, EvalRequest)> {
    requests.into_iter().find_map(pick!(Request::Compute(job, Compute::Evaluate(ask)) => (job, ask)))
}

/// The explanation among requests.
fn look_asked(requests: Vec<Request>) -> Option<Explain> {
    requests.into_iter().find_map(pick!(Request::Compute(_, Compute::Explain(look)) => look))
}

/// The stability measurement among requests: its job, and what it is of.
fn stability_asked(requests: Vec<Request>) -> Option<(JobId, stability::StabilityRequest)> {
    requests.into_iter().find_map(pick!(Request::Compute(job, Compute::Stability(ask)) => (job, ask)))
}

/// The job and the entry of the first request, which must be to open a dataset.
fn dataset_asked(requests: &[Request]) -> (JobId, DatasetId) {
    match requests {
        [Request::Files(job, Files::OpenDataset { entry, .. }), ..] => (*job, *entry),
        other => panic!("{other:?}"),
    }
}

/// Evaluates the shown probes; the job and its request.
fn request_evaluation(state: &mut State) -> (JobId, EvalRequest) {
    evaluation_asked(state.dispatch(Command::Evaluate { all: false })).expect("asked")
}

/// Answers an evaluation request for all its subjects, and finishes the job.
fn answer_evaluation(state: &mut State, (job, ask): &(JobId, EvalRequest)) {
    let made = evaluation(&self::part(), "gap");
    for subject in &ask.subjects {
        let answer = EvalAnswer { subject: subject.clone(), result: Ok(made.clone()) };
        state.apply(Event::Evaluated { job: *job, answer });
    }
    state.apply(Event::Finished(*job));
}

/// Evaluates the shown probes.
fn evaluate(state: &mut State) {
    let ask = request_evaluation(state);
    answer_evaluation(state, &ask);
}

/// The state of [`with_dataset`], evaluated, and its first column.
fn with_evaluation() -> (State, ColumnId) {
    let (mut state, _) = with_dataset();
    evaluate(&mut state);
    let column = state::column(&state, 0);
    (state, column)
}

/// Opens `dataset` by this name, for the images of `split`; its id, and the requests that follow.
fn open_split(
    state: &mut State,
    name: &str,
    dataset: &data::Dataset,
    split: Option<data::Split>,
) -> (DatasetId, Vec<Request>) {
    let (job, entry) = dataset_asked(&state.dispatch(Command::OpenDataset(name.into(), split)));
    let part = Arc::new(EvalSplit::new(dataset.clone(), split));
    (entry, state.apply(Event::DatasetOpened { job, entry, part }))
}

/// Reopens a column's probe, whose file has another fingerprint now.
fn reopen_rewritten(state: &mut State, column: ColumnId) {
    let probe = state.columns[&column].probe;
    let requests = state.dispatch(Command::ReopenProbe(probe));
    let Some(Request::Compute(job, Compute::OpenProbe { entry, .. })) = requests.first() else {
        panic!("{requests:?}")
    };
    let info = ProbeInfo { fingerprint: format!("written by {job:?}"), ..state::probe("a", 24) };
    state.apply(Event::ProbeOpened { job: *job, entry: *entry, info });
}

#[test]
fn an_evaluation_is_of_the_probe_and_the_backbone_that_were_asked() {
    let (mut state, part) = with_dataset();
    let [first, second] = [0, 1].map(|at| state::column(&state, at));
    evaluate(&mut state);
    assert!(state.evaluation_of(first).is_some() && state.evaluation_of(second).is_some());
    reopen_rewritten(&mut state, first);
    assert!(state.evaluation_of(first).is_none(), "figures of the file as it was");
    assert!(state.evaluation_of(second).is_some());
    // An answer that arrives after the reopening may be of either file.
    let ask = request_evaluation(&mut state);
    reopen_rewritten(&mut state, first);
    answer_evaluation(&mut state, &ask);
    assert!(state.evaluation_of(first).is_none() && state.evaluation_of(second).is_some());
    // The answer of a job that another has replaced is dropped too.
    let [older, newer] = [request_evaluation(&mut state), request_evaluation(&mut state)];
    answer_evaluation(&mut state, &older);
    assert!(state.evaluation_of(first).is_none() && state.evaluations.job() == Some(newer.0));
    answer_evaluation(&mut state, &newer);
    assert!(state.evaluation_of(first).is_some());
    // And that of a dataset that is opened again meanwhile, maybe with another split.
    let ask = request_evaluation(&mut state);
    open_split(&mut state, "birds", &part.dataset, None);
    answer_evaluation(&mut state, &ask);
    assert!(state.evaluation_of(first).is_none());
    evaluate(&mut state);
    assert!(state.evaluation_of(first).is_some());
    // Null bands from another seed or number of draws are others.
    let before = state.explain;
    for look in [ExplainSettings { seed: 7, ..before }, ExplainSettings { null_draws: 7, ..before }] {
        state.dispatch(Command::SetExplainSettings(look));
        assert!(state.evaluation_of(first).is_none() && state.evaluation_of(second).is_none(), "{look:?}");
        state.dispatch(Command::SetExplainSettings(before));
        assert!(state.evaluation_of(first).is_some() && state.evaluation_of(second).is_some());
    }
    // And objects are those of other masks.
    for (masks, is_known) in [(Some(PathBuf::from("masks")), false), (None, true)] {
        state.dispatch(Command::SetMasks(masks));
        assert_eq!([first, second].map(|column| state.evaluation_of(column).is_some()), [is_known; 2]);
    }
    // The backbone is reopened at another layer, then with other weights.
    let options = BackboneOptions { layer: Some(1), ..BackboneOptions::default() };
    for (options, weights) in [(options, "weights of one"), (BackboneOptions::default(), "others")] {
        let requests = state.dispatch(Command::OpenBackbone("one".into()));
        let Some(Request::Fetch(job, Fetch::OpenBackbone { entry, .. })) = requests.last() else {
            panic!("{requests:?}")
        };
        let info = BackboneInfo {
            options,
            cls: true,
            fingerprint: weights.into(),
            ..state::backbone("one", 24, Grid::new(2, 2))
        };
        state.apply(Event::BackboneOpened { job: *job, entry: *entry, info });
        assert!(state.evaluation_of(first).is_none() && state.evaluation_of(second).is_none(), "{weights}");
    }
}

#[test]
fn a_stability_is_of_the_probe_that_was_measured() {
    let mut state = state::story();
    let column = state::column(&state, 0);
    let measure =
        |state: &mut State| stability_asked(state.dispatch(Command::MeasureStability(column))).unwrap();
    let answer_stability = |state: &mut State, (job, ask): &(JobId, stability::StabilityRequest)| {
        let (subject, result) = (ask.subject.clone(), Ok(Arc::new(small::stability())));
        let answer = stability::StabilityAnswer { subject, image: ask.image, result };
        state.apply(Event::StabilityMeasured { job: *job, answer });
        state.apply(Event::Finished(*job));
    };
    let ask = measure(&mut state);
    answer_stability(&mut state, &ask);
    assert!(state.stability_of(column).0.is_some());
    let before = state.explain;
    state.dispatch(Command::SetExplainSettings(ExplainSettings { seed: 7, ..before }));
    assert!(state.stability_of(column).0.is_none(), "of changes drawn from another seed");
    state.dispatch(Command::SetExplainSettings(before));
    assert!(state.stability_of(column).0.is_some());
    reopen_rewritten(&mut state, column);
    assert!(state.stability_of(column).0.is_none());
    let (job, _) = measure(&mut state);
    state.apply(Event::Failed(job, UserError::new("The device was lost")));
    assert!(state.stability_of(column).0.is_some_and(|found| found.is_err()));
    reopen_rewritten(&mut state, column);
    assert!(state.stability_of(column).0.is_none(), "it failed with the file as it was");
    let ask = measure(&mut state);
    reopen_rewritten(&mut state, column);
    answer_stability(&mut state, &ask);
    assert!(state.stability_of(column).0.is_none(), "too late");
    // A measurement that a newer one, with other changes, has replaced is dropped.
    let older = measure(&mut state);
    state.dispatch(Command::SetExplainSettings(ExplainSettings { seed: 7, ..ExplainSettings::default() }));
    let newer = measure(&mut state);
    assert_ne!(older.1.seed, newer.1.seed);
    answer_stability(&mut state, &older);
    assert!(state.stability_of(column).0.is_none(), "measured with other changes");
    answer_stability(&mut state, &newer);
    assert!(state.stability_of(column).0.is_some());
    // The random orders of an image of no dataset are those of its place in the library.
    let [first, last] = [0, 2].map(|at| *state.library.images.get_index(at).unwrap().0);
    state.dispatch(Command::SelectImage(last));
    let ask = measure(&mut state);
    answer_stability(&mut state, &ask);
    assert!(state.stability_of(column).0.is_some());
    state.dispatch(Command::CloseImages(vec![first]));
    assert!(state.stability_of(column).0.is_none(), "of other random orders");
}

/// As ImageNet has two cranes, of which the evaluation takes the right one alone.
#[test]
fn of_classes_of_one_name_the_index_says_which_is_true_where_a_probe_has_the_same_classes() {
    let (mut state, _) = with_dataset();
    let cranes = ["crane", "lynx", "crane"].map(str::to_owned);
    let dataset = data::Dataset { classes: cranes.clone().into(), ..(*part().dataset).clone() };
    state.library.datasets[0].status = Status::Ready(Arc::new(EvalSplit::new(dataset, None)));
    let is_second = |image: &&Image| image.label.is_some_and(|label| label.class == 2);
    let image = state.library.images.values().find(is_second).expect("an image").clone();
    let probe = *state.library.probes.keys().next().expect("a probe");
    let mut of = |classes: Vec<String>| {
        let info = ProbeInfo { classes: classes.into(), ..ProbeInfo::default() };
        state.library.probes[&probe].status = Status::Ready(Arc::new(info));
        let own = state.library.true_classes(&image, probe).expect("both are open");
        for class in 0..5 {
            let is_true = (!own.is_empty()).then(|| own.contains(&class));
            assert_eq!(state.library.is_true_class(&image, probe, class), is_true, "{class}");
        }
        own
    };
    assert_eq!(of(cranes.to_vec()), [2]);
    let others = [&cranes[1..], &cranes[..1]].concat();
    assert_eq!(of(others), [1, 2], "nothing tells them apart");
    assert!(of(vec!["owl".to_owned()]).is_empty());
    // Of ImageNet V2, whose folders are numbers.
    let numbers = ["0", "2", "1"].map(str::to_owned);
    let dataset = data::Dataset { classes: numbers.into(), ..(*part().dataset).clone() };
    state.library.datasets[0].status = Status::Ready(Arc::new(EvalSplit::new(dataset, None)));
    let ids = ["n01440764", "n02012849", "n03126707"].map(str::to_owned);
    let info = ProbeInfo { classes: ids.into(), ..ProbeInfo::default() };
    state.library.probes[&probe].status = Status::Ready(Arc::new(info));
    assert_eq!(state.library.true_classes(&image, probe), Some(vec![1]));
    assert_eq!(
        [1, 2].map(|class| state.library.is_true_class(&image, probe, class)),
        [Some(true), Some(false)]
    );
    let mut has = |classes: &[String]| {
        let info = ProbeInfo { classes: classes.into(), ..ProbeInfo::default() };
        state.library.probes[&probe].status = Status::Ready(Arc::new(info));
        ["owl", "lynx", "crane (2)"].map(|word| state.library.has_class(probe, word))
    };
    assert_eq!(has(&cranes), [false, true, true]);
    assert_eq!(has(&[]), [true; 3], "by number");
}

/// A probe of before the list of words was there has the ids alone.
#[test]
fn classes_of_one_wordnet_id_are_one_class_with_a_word_or_without() {
    let (mut state, _) = with_dataset();
    let named = ["tench (n01440764)", "crane (n02012849)", "crane (n03126707)"].map(str::to_owned);
    let dataset = data::Dataset { classes: named.clone().into(), ..(*part().dataset).clone() };
    state.library.datasets[0].status = Status::Ready(Arc::new(EvalSplit::new(dataset, None)));
    let is_second = |image: &&Image| image.label.is_some_and(|label| label.class == 2);
    let image = state.library.images.values().find(is_second).expect("an image").clone();
    let probes: Vec<_> = state.library.probes.keys().copied().collect();
    let ids = ["n01440764", "n02012849", "n03126707"].map(str::to_owned);
    for (probe, classes) in [(probes[0], &ids[..]), (probes[1], &named[..])] {
        let info = ProbeInfo { classes: classes.into(), ..ProbeInfo::default() };
        state.library.probes[&probe].status = Status::Ready(Arc::new(info));
        assert_eq!(state.library.true_classes(&image, probe), Some(vec![2]), "{classes:?}");
        for word in [&ids[2], &named[2]] {
            assert!(state.library.has_class(probe, word), "{word} of {classes:?}");
        }
    }
    assert_eq!(state.library.true_class_word(&image).as_ref(), Some(&named[2]));
    let offered = |state: &State| {
        let classes = state.library.classes().into_iter();
        classes.filter(|word| word.contains("n03126707")).collect::<Vec<_>>()
    };
    assert_eq!(offered(&state), [&*named[2]], "once, with its word");
    let info = ProbeInfo { classes: ids.into(), ..ProbeInfo::default() };
    state.library.probes[&probes[1]].status = Status::Ready(Arc::new(info));
    assert_eq!(offered(&state), [&*named[2]], "with that of the dataset");
}

#[test]
fn an_image_draws_by_its_index_in_the_whole_dataset() {
    let (mut state, part) = with_dataset();
    assert_eq!(part.samples, [2, 3, 4, 5, 6, 7, 8]);
    let draws = |state: &State| -> Vec<u64> {
        state.library.images.keys().map(|id| state.library.image_seed(*id)).collect()
    };
    // Three images of no dataset, by their position; then those of the dataset, by index.
    assert_eq!(draws(&state), [0, 1, 2, 2, 3, 4, 5, 6, 7, 8]);
    // The first opened image, index 2 of the dataset, is current; five steps on is index 7.
    let look = look_asked(state.dispatch(Command::Step(5)));
    assert!(look.expect("a look").items.iter().all(|item| item.image_seed == 7));
    // Another of none is their fourth, as it will be in another session, where datasets open after it.
    state::does(&mut state, Command::OpenImages(vec!["later.png".into()]));
    assert_eq!(draws(&state), [0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 3]);
}

#[test]
fn every_overview_says_what_to_do_is_busy_ready_or_failed() {
    for overview in OVERVIEWS {
        let id = overview.id();
        let part = part();
        let mut window = Window::ready();
        window.show(id);
        assert!(window.has("Open a dataset to see what probes make of all its images"), "{id}");
        opened(&mut window, &part);
        assert!(window.has("Not evaluated yet on the 9 test images of birds"), "{id}");
        window.click_first("Evaluate shown probes on the dataset");
        let (job, ask) = evaluation_asked(window.take_requests()).expect(id);
        assert_eq!(ask.subjects.len(), 2);
        let progress = state::progress("Evaluating sinkhorn", [3, 9], Unit::Items, 3);
        window.deliver([Event::Started(job), Event::Progress(job, progress)]);
        assert!(window.has("Evaluating sinkhorn"), "{id} does not say that it is busy");
        assert!(window.idle(), "{id}: work alone is no reason to repaint");
        let fault = UserError::new("The disk is full").remedy("Free some");
        window.deliver([Event::Failed(job, fault)]);
        assert!(window.has("The disk is full") && window.has("Free some"), "{id}");
        window.click_first("Evaluate again");
        evaluated(&mut window, &part);
        let title = plot_of(*overview, &part).caption().title;
        assert!(window.has(&title) && !window.has("The disk is full"), "{id} is not there");
        assert!(window.idle(), "{id} is shown, but the window repaints");
    }
}

#[test]
fn panes_of_a_dataset_stay_where_they_are_while_they_say_why_a_probe_was_not_evaluated() {
    let (mut window, part) = with_part();
    window.dispatch(Command::Evaluate { all: false });
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Evaluate(ask)) => {
            let results = [Ok(evaluation(&part, "sinkhorn")), Err(UserError::new("has none of the classes"))];
            let answers = ask.subjects.into_iter().zip(results);
            let answers = answers.map(|(subject, result)| EvalAnswer { subject, result });
            answers.map(|answer| Event::Evaluated { job, answer }).chain([Event::Finished(job)]).collect()
        }
        other => window::succeed(other),
    });
    window.show("asked");
    let columns: Vec<_> = window.state().columns.keys().copied().collect();
    for column in columns {
        window.dispatch(Command::Focus(column));
        assert!(window.has("Scatter") && window.has("Confusion"), "{}", window.state().column_title(column));
    }
}

#[test]
fn an_evaluation_that_failed_on_one_dataset_is_not_said_to_have_failed_on_another() {
    let (mut state, part) = with_dataset();
    let first = state.evaluations.dataset.expect("a dataset");
    let (job, _) = evaluation_asked(state.dispatch(Command::Evaluate { all: false })).expect("an evaluation");
    state.apply(Event::Failed(job, UserError::new("The disk is full")));
    assert!(state.evaluation_error(state.focus()).is_some());
    let (job, entry) = dataset_asked(&state.dispatch(Command::OpenDataset("shore".into(), None)));
    state.apply(Event::DatasetOpened { job, entry, part });
    state.apply(Event::Finished(job));
    assert_ne!(state.evaluations.dataset, Some(first), "the one just opened is in use");
    assert!(state.evaluation_error(state.focus()).is_none());
    state.dispatch(Command::UseDataset(first));
    assert!(state.evaluation_error(state.focus()).is_some());
}

#[test]
fn retry_evaluates_again_what_failed() {
    let (mut state, part) = with_dataset();
    let (job, ask) =
        evaluation_asked(state.dispatch(Command::Evaluate { all: true })).expect("an evaluation");
    let [done, left @ ..] = &ask.subjects[..] else { panic!("of no probe") };
    let answer = EvalAnswer { subject: done.clone(), result: Ok(evaluation(&part, "sinkhorn")) };
    state.apply(Event::Evaluated { job, answer });
    state.apply(Event::Failed(job, UserError::new("The device was lost")));
    assert!(Action::Retry.enabled(&state));
    let (job, again) = evaluation_asked(state.dispatch(Command::Retry)).expect("another");
    assert_eq!(again.subjects, left);
    assert!(state.evaluation_error(state.focus()).is_none() && !Action::Retry.enabled(&state));
    // On the CPU, its backbone is opened there first.
    state.apply(Event::Failed(job, UserError::new("The device was lost")));
    state.dispatch(Command::SetDevice("cpu".to_owned()));
    state.dispatch(Command::Retry);
    assert!(state.evaluations.is_deferred());
}

#[test]
fn retry_evaluates_the_columns_where_none_was_evaluated_since_the_session_was_restored() {
    let (before, part) = with_dataset();
    let mut state = State::new(Settings::default());
    let mut requests = VecDeque::from(state.restore(before.workspace(Value::Null)));
    let lookup = loop {
        let request = requests.pop_front().expect("a lookup");
        let event = match request {
            Request::Compute(job, Compute::Evaluate(_)) => break job,
            Request::Files(job, Files::OpenDataset { entry, .. }) => {
                Some(Event::DatasetOpened { job, entry, part: part.clone() })
            }
            _ => state::opened(&request, |_| state::probe("a", 24)),
        };
        if let Some((event, job)) = event.zip(request.job()) {
            requests.extend([event, Event::Finished(job)].into_iter().flat_map(|event| state.apply(event)));
        }
    };
    assert_eq!(state.evaluations.job(), None, "nothing is computed");
    state.apply(Event::Failed(lookup, UserError::new("The device was lost")));
    let (_, again) = evaluation_asked(state.dispatch(Command::Retry)).expect("an evaluation");
    let probes: HashSet<ProbeId> = state.columns.values().map(|column| column.probe).collect();
    assert_eq!(again.subjects.iter().map(|subject| subject.probe).collect::<HashSet<_>>(), probes);
}

#[test]
fn probes_that_could_not_be_evaluated_are_counted_in_one_note() {
    let (mut state, _) = with_dataset();
    let requests = state.dispatch(Command::Evaluate { all: true });
    let (job, ask) = evaluation_asked(requests).expect("an evaluation");
    let count = ask.subjects.len();
    for subject in ask.subjects {
        let answer = EvalAnswer { subject, result: Err(UserError::new("has none of the classes")) };
        state.apply(Event::Evaluated { job, answer });
    }
    state.apply(Event::Finished(job));
    let said = state.toasts.iter().filter(|toast| toast.text.contains("could not be evaluated"));
    let said: Vec<&str> = said.map(|toast| toast.text.as_str()).collect();
    assert!(count > 1 && said.len() == 1, "{said:?}");
    assert!(said[0].starts_with(&format!("{count} probes could not be evaluated; the first: ")), "{said:?}");
}

#[test]
fn the_end_of_an_evaluation_that_took_long_is_noted() {
    for (seconds, is_noted) in [(40, true), (4, false)] {
        let (mut state, _) = with_dataset();
        let requests = state.dispatch(Command::Evaluate { all: false });
        let (job, _) = evaluation_asked(requests).expect("an evaluation");
        for (what, seconds) in [("Extracting tokens", seconds), ("Evaluating sinkhorn", 2)] {
            state.apply(Event::Progress(job, state::progress(what, [9, 9], Unit::Items, seconds)));
        }
        state.apply(Event::Finished(job));
        assert_eq!(state.log_text().contains("Finished: Evaluating"), is_noted, "{}", state.log_text());
    }
}

fn plot_of(
    overview: &'static dyn ssmprobe::viz::figures::dataset::Overview,
    part: &EvalSplit,
) -> EvaluationPlot {
    let evaluations = ["sinkhorn", "gap"].map(|probe| evaluation(part, probe));
    EvaluationPlot { selected: Some(1), ..EvaluationPlot::new(overview, evaluations, Choice::default()) }
}

#[test]
fn in_a_small_window_the_tab_of_the_page_is_in_sight_and_what_is_over_a_figure_stays_in_its_pane() {
    let mut window = Window::ready();
    open_evaluated(&mut window);
    window.resize(480.0, 360.0);
    window.show("class_diagnostics");
    let page = window.place("Dataset");
    assert!(page.left() > 240.0 && page.right() < 480.0, "{page:?}");
    // Beside the rows of the library, which say the accuracy, too.
    let heads = window.harness.query_all_by_label_contains(", accuracy ").map(|node| node.rect());
    let head = heads.max_by(|a, b| a.left().total_cmp(&b.left())).expect("a probe");
    assert!(head.left() > 250.0 && head.right() < 480.0, "wider than its pane: {head:?}");
    window.click("Jobs and log");
    let jobs = window.harness.query_all_by_label("Jobs and log").map(|node| node.rect().top());
    let top = jobs.fold(f32::INFINITY, f32::min);
    assert!(top > 190.0, "the jobs begin at {top}, and leave the panes no room");
}

#[test]
fn the_head_of_a_column_has_a_line_for_its_accuracy_once_there_is_one() {
    let height = |window: &mut Window| {
        window.show("compare");
        let texts = painted(window.harness.output());
        let top = |word: &str| {
            let found = texts.iter().filter(|(text, ..)| text == word).map(|(.., whole)| whole.top());
            found.fold(f32::INFINITY, f32::min)
        };
        top("Model input") - top("Pin")
    };
    let (mut window, part) = (Window::ready(), part());
    let bare = height(&mut window);
    opened(&mut window, &part);
    assert!((height(&mut window) - bare).abs() < 1.0, "no gap while nothing is evaluated");
    window.harness.state_mut().dispatch(Command::Evaluate { all: false });
    evaluated(&mut window, &part);
    assert!(height(&mut window) > bare + 10.0);
}

#[test]
fn the_table_of_probes_is_copied_with_the_mouse_alone() {
    let mut window = Window::ready();
    open_evaluated(&mut window);
    window.show("asked");
    let rows = window.harness.query_all_by_label("gap").map(|node| node.rect());
    let row = rows.max_by(|a, b| a.left().total_cmp(&b.left())).expect("a row");
    window.click_at(row.center(), egui::PointerButton::Secondary);
    window.harness.get_by_label("Copy table").click();
    let copied = window.copied().expect("a table on the clipboard");
    assert!(
        copied.starts_with("Probe\t") && copied.lines().any(|line| line.starts_with("gap\t")),
        "{copied}"
    );
}

#[test]
fn a_click_leads_to_the_images_and_the_gallery_sorts_and_filters() {
    let mut window = Window::ready();
    open_evaluated(&mut window);
    let focus = window.state().columns.keys().next().copied();
    let gallery_images = |window: &mut Window, filter: GalleryFilter| -> Vec<String> {
        window.harness.state_mut().dispatch(Command::SetGalleryFilter(Box::new(filter)));
        let state = window.state();
        state.gallery_images(focus).iter().map(|id| state.library.images[id].name()).collect()
    };
    let wrong = GalleryFilter { outcome: Outcome::Wrong, ..GalleryFilter::default() };
    assert_eq!(gallery_images(&mut window, wrong), ["0.png", "4.png", "8.png"]);
    let right = GalleryFilter { outcome: Outcome::Right, ..GalleryFilter::default() };
    assert_eq!(gallery_images(&mut window, right), ["1.png", "2.png", "3.png", "5.png", "6.png"]);
    let class =
        GalleryFilter { class: Some(1), sort: Sort::Measure(CONFIDENCE.into()), ..GalleryFilter::default() };
    assert_eq!(gallery_images(&mut window, class), ["5.png", "4.png", "3.png"]);
    let other = window.state().columns.keys().nth(1).copied().unwrap();
    let differ =
        GalleryFilter { class: Some(2), sort: Sort::Disagreement(other), ..GalleryFilter::default() };
    let rising = GalleryFilter { rising: true, ..differ.clone() };
    for (filter, first) in [(differ, ["8.png", "6.png"]), (rising, ["6.png", "8.png"])] {
        let (found, last) = (gallery_images(&mut window, filter), "7.png");
        assert_eq!(found, [first[0], first[1], last], "what has no number comes last");
    }
    // The confusion matrix: churches (row 0) taken for churches are images 1 and 2.
    gallery_images(&mut window, GalleryFilter::default());
    window.show("confusion");
    let figure = window.place("Confusion matrix");
    let mut at = None;
    for step in 0..40 {
        let x = figure.left() + figure.width() * (0.1 + 0.02 * step as f32);
        let pos = egui::pos2(x, figure.top() + figure.height() * 0.2);
        window.harness.hover_at(pos);
        window.harness.run_steps(3);
        if window.has("church predicted as church") {
            at = Some(pos);
            break;
        }
    }
    let pos = at.expect("a cell of the matrix under the pointer");
    window.click_at(pos, egui::PointerButton::Primary);
    let state = window.state();
    assert_eq!(state.current_image().unwrap().name(), "1.png");
    assert_eq!(state.gallery_images(focus).len(), 2);
    window.click("Show all");
    assert!(window.state().gallery_filter.is_open());
}

#[test]
fn the_gallery_shows_what_passes_for_the_focused_column() {
    let (mut window, part) = with_part();
    window.harness.state_mut().dispatch(Command::Evaluate { all: false });
    // The first probe is wrong on images 0, 4 and 8, the second on 2 alone.
    let first = evaluation(&part, "sinkhorn");
    let second =
        Evaluation { predicted: vec![0, 0, 1, 1, 1, 1, 2, OTHER, 2], ..(*evaluation(&part, "gap")).clone() };
    let row = format!("gap, accuracy {:.1} %", second.accuracy());
    let made = [first, Arc::new(second)];
    evaluated_as(&mut window, |at| made[at].clone());
    let wrong = GalleryFilter { outcome: Outcome::Wrong, ..GalleryFilter::default() };
    window.dispatch(Command::SetGalleryFilter(Box::new(wrong)));
    let shown = |window: &Window| ["0", "2", "4", "8"].map(|name| window.has(&format!("{name}.png, class")));
    assert_eq!(shown(&window), [true, false, true, true]);
    window.click(&row);
    assert_eq!(shown(&window), [false, true, false, false]);
    // There are no evaluations with null bands of another seed.
    let settings = ExplainSettings { seed: 1, ..ExplainSettings::default() };
    window.dispatch(Command::SetExplainSettings(settings));
    assert!(window.has("right and wrong are not known") && shown(&window) == [false; 4]);
    assert!(window.has("Right or wrong"), "the filter in effect can be changed");
    window.click_first("Evaluate shown probes on the dataset");
    assert!(window.state().evaluations.job().is_some());
    assert!(window.has("No image matches the filter"), "one that is under way is not offered again");
}

#[test]
fn all_probes_that_were_asked_stand_in_one_table_and_the_image_says_what_it_is() {
    let mut window = Window::ready();
    let part = open_evaluated(&mut window);
    window.show("asked");
    let right = format!("{:.1}", evaluation(&part, "gap").accuracy());
    assert!(window.has("Accuracy (%)") && window.has("True-class probability") && window.has(&right));
    // Numbers end where the text of their heading does, within the padding of its button.
    let ends = |label: &str| -> Vec<f32> {
        window.harness.query_all_by_label(label).map(|node| node.rect().right()).collect()
    };
    let headings = ends("Accuracy (%)");
    let ends_as = |number: f32| headings.iter().any(|heading| (heading - number - 8.0).abs() < 1.5);
    assert!(ends(&right).into_iter().any(ends_as), "{:?} below {headings:?}", ends(&right));
    // Of −0.0725: the points of a column stand below each other.
    let coverage = evaluation(&part, "gap").mean("rank_coverage").expect("a mean");
    assert!(!ends(&format!("{coverage:.3}").replace('-', "−")).is_empty());
    let image = {
        let state = window.state();
        state.image_at(state.dataset().unwrap().0, 0).unwrap()
    };
    window.harness.state_mut().dispatch(Command::SelectImage(image));
    window.answer();
    let class = &part.set.classes[part.set.class[0] as usize];
    assert!(window.has(class), "the line above the panes says {class}");
    window.show("predictions");
    assert!(window.has(&format!("True class {class}: unknown to the probe")));
}

#[test]
fn of_a_long_table_of_probes_only_those_in_sight_are_drawn() {
    let mut window = Window::ready();
    let files = (0..300).map(|at| format!("p{at:03}.safetensors").into());
    let long = format!("{}.safetensors", "of-a-long-run-".repeat(12)).into();
    window.dispatch(Command::OpenProbes(files.chain([long]).collect()));
    window.answer_with(|request| {
        let measured = |event| match event {
            Event::ProbeOpened { job, entry, info } => {
                Event::ProbeOpened { job, entry, info: ProbeInfo { accuracy: Some(50.0), ..info } }
            }
            other => other,
        };
        window::succeed(request).into_iter().map(measured).collect()
    });
    window.show("asked");
    let is_drawn = |at: &usize| window.harness.query_all_by_label(&format!("p{at:03}")).next().is_some();
    let drawn = (0..300).filter(is_drawn).count();
    assert!((10..100).contains(&drawn), "{drawn} of 300 are drawn");
    let heading = window.harness.get_by_label("Accuracy as saved (%)").rect();
    assert!(heading.right() < 1440.0, "out of the window, behind the long name: {heading:?}");
}

#[test]
fn a_changed_reading_is_asked_by_itself_once_the_probe_was() {
    let (mut window, part) = with_part();
    let (column, probe) = {
        let state = window.state();
        let (id, column) = state.columns.first().expect("a column");
        (*id, column.probe)
    };
    let change = Intervention::Scrambled(0);
    let add = Command::AddColumn { probe, image: None, change: change.clone() };
    window.harness.state_mut().dispatch(add.clone());
    assert!(evaluation_asked(window.take_requests()).is_none(), "as trained it was not asked yet");
    window.harness.state_mut().dispatch(Command::Undo);
    window.harness.state_mut().dispatch(Command::Evaluate { all: false });
    evaluated(&mut window, &part);
    window.harness.state_mut().dispatch(add);
    let found = evaluation_asked(window.wire.borrow().requests.clone());
    let subjects = &found.expect("nobody asks").1.subjects;
    assert_eq!(subjects.len(), 1);
    assert_eq!((subjects[0].probe, &subjects[0].change), (probe, &change));
    evaluated(&mut window, &part);
    window.click("Compare");
    let told = format!("{}, not retrained", capitalised(&change.to_string()));
    assert!(window.has("vs as trained") && window.has(&told));
    let changed = window.state().columns.iter().find(|(_, one)| one.change == change).map(|(id, _)| *id);
    window.dispatch(Command::Focus(changed.expect("a column")));
    let title = format!("{} ·", window.state().library.probe_name(probe));
    let texts = painted(window.harness.output()).into_iter().map(|(text, ..)| text);
    let titles: Vec<String> = texts.filter(|text| text.starts_with(&title)).collect();
    assert!(titles.is_empty(), "the change stands beside the name, which has little room: {titles:?}");
    assert!(window.state().evaluation_of(column).is_some());
}

#[test]
fn of_a_control_that_is_dragged_the_final_value_alone_is_evaluated_and_an_order_on_request() {
    let (mut state, column) = with_evaluation();
    let hot = Intervention::Temperature;
    for value in [0.5, 0.25] {
        let look = state::does(&mut state, Command::SlideIntervention(column, hot(value))).expect("a look");
        assert!(evaluation_asked(state::answer(&mut state, &look)).is_none(), "{value} is passed through");
    }
    let ask = evaluation_asked(state.dispatch(Command::SetIntervention(column, hot(0.25)))).expect("asked");
    assert_eq!(ask.1.subjects.iter().map(|subject| &subject.change).collect::<Vec<_>>(), [&hot(0.25)]);
    answer_evaluation(&mut state, &ask);
    assert!(state.evaluation_of(column).is_some());
    let order = Intervention::Order(HandOrder::new(vec![3, 1, 2, 0]).expect("an order"));
    let look = state::does(&mut state, Command::SetIntervention(column, order.clone())).expect("a look");
    assert!(evaluation_asked(state::answer(&mut state, &look)).is_none());
    assert!(request_evaluation(&mut state).1.subjects.iter().any(|subject| subject.change == order));
}

#[test]
fn of_evaluations_that_are_not_on_screen_the_latest_are_kept() {
    let (mut state, column) = with_evaluation();
    // Whether the dataset is evaluated for it.
    let evaluates = |state: &mut State, seed: u64| {
        let asked =
            evaluation_asked(state.dispatch(Command::SetIntervention(column, Intervention::Random(seed))));
        asked.inspect(|ask| answer_evaluation(state, ask)).is_some()
    };
    assert!((0..20).all(|seed| evaluates(&mut state, seed)));
    assert!(!evaluates(&mut state, 3) && evaluates(&mut state, 2));
    assert!(
        state.columns.values().all(|column| state.evaluation(column.probe, &Intervention::None).is_some())
    );
}

#[test]
fn an_intervention_whose_evaluation_was_cancelled_is_evaluated_on_request() {
    let (mut state, _) = with_dataset();
    let ask = request_evaluation(&mut state);
    assert!(!Action::EvaluateShown.enabled(&state), "it would begin again");
    answer_evaluation(&mut state, &ask);
    let column = state::column(&state, 0);
    state.dispatch(Command::SetIntervention(column, Intervention::NoRouting));
    let job = state.evaluations.job().expect("by itself");
    state.apply(Event::Cancelled(job));
    let look = state::does(&mut state, Command::Step(1)).expect("a look");
    state::answer(&mut state, &look);
    assert_eq!(state.evaluations.job(), None);
    assert!(Action::EvaluateShown.enabled(&state));
    assert!(
        request_evaluation(&mut state)
            .1
            .subjects
            .iter()
            .any(|subject| subject.change == Intervention::NoRouting)
    );
}

#[test]
fn an_evaluation_that_waits_begins_also_where_the_last_opening_fails() {
    let (mut state, _) = with_dataset();
    let job = state.dispatch(Command::OpenProbes(vec!["lost.safetensors".into()]))[0].job().expect("a job");
    state.dispatch(Command::Evaluate { all: false });
    assert_eq!(state.evaluations.job(), None, "until all is open");
    state.apply(Event::Failed(job, UserError::new("no such file")));
    assert!(state.evaluations.job().is_some());
}

#[test]
fn an_evaluation_that_waits_says_so_until_all_jobs_are_cancelled() {
    let (mut window, _) = with_part();
    window.show("confusion");
    window.take_requests();
    window.dispatch(Command::OpenProbes(vec!["later.safetensors".into()]));
    let job = window.take_requests()[0].job().expect("a job");
    window.dispatch(Command::Evaluate { all: false });
    assert!(window.has("The evaluation begins once everything is open"));
    window.dispatch(Command::CancelAll);
    window.deliver([Event::Cancelled(job)]);
    assert!(window.has("Not evaluated yet") && window.state().evaluations.job().is_none());
}

#[test]
fn probes_of_one_name_are_told_apart_in_the_table() {
    let (mut window, part) = with_part();
    window.harness.state_mut().dispatch(Command::OpenProbes(vec!["other/gap.safetensors".into()]));
    window.answer();
    window.harness.state_mut().dispatch(Command::Evaluate { all: true });
    evaluated(&mut window, &part);
    let named = |window: &Window| window.harness.query_all_by_label("gap · other").count();
    let before = named(&window);
    window.show("asked");
    assert!(named(&window) > before);
    // And above a figure by classes, beside the row of the library, where the accuracy follows.
    let other = *window.state().library.probes.keys().last().expect("a probe");
    window.dispatch(Command::ShowProbe(other));
    window.harness.set_size(egui::vec2(853.0, 480.0)); // the panes of both are tabs of one group
    window.harness.run();
    let name = format!("gap · other, accuracy {:.1} %", evaluation(&part, "gap").accuracy());
    let [classes, confusion] = ["class_diagnostics", "confusion"].map(|pane| {
        window.show(pane);
        window.harness.query_all_by_label(&name).count()
    });
    assert_eq!(classes, confusion + 1, "the title of the confusion matrix has the accuracy");
}

#[test]
fn a_dataset_goes_with_its_images_and_comes_back_with_them() {
    let (mut window, _) = with_part();
    let count = |window: &Window| window.state().library.images.len();
    assert_eq!(count(&window), 12);
    let id = *window.state().library.datasets.keys().next().unwrap();
    window.harness.state_mut().dispatch(Command::CloseDataset(id));
    assert_eq!(count(&window), 3);
    assert!(window.state().dataset().is_none());
    window.harness.state_mut().dispatch(Command::Undo);
    assert_eq!(count(&window), 12);
    assert_eq!(window.state().dataset().map(|(id, _)| id), Some(id));
}

#[test]
fn a_dataset_that_went_while_it_was_opened_is_opened_again() {
    let mut state = state::story();
    state.dispatch(Command::OpenDataset("birds".into(), None));
    let id = *state.library.datasets.keys().next().unwrap();
    state.dispatch(Command::CloseDataset(id));
    let requests = state.dispatch(Command::Undo);
    let (job, entry) = dataset_asked(&requests);
    assert_eq!((entry, &state.library.datasets[&id].status), (id, &Status::Opening(job)));
    state.apply(Event::DatasetOpened { job, entry, part: part() });
    assert!(state.dataset().is_some());
}

#[test]
fn a_column_whose_image_went_with_another_split_shows_the_current_one() {
    let (mut state, part) = with_dataset();
    let column = state::column(&state, 0);
    let image = *state.library.images.get_index(5).expect("an image").0;
    assert_eq!(state.library.images[&image].name(), "4.png", "one of those to ask about");
    state.dispatch(Command::SetImage(column, Some(image)));
    state.apply(Event::ThumbnailReady { image, picture: Arc::default() });
    let (_, requests) = open_split(&mut state, "birds", &part.dataset, Some(data::Split::Train));
    assert!(!state.library.images.contains_key(&image) && state.thumbnails.get(image).is_none());
    let look = look_asked(requests).expect("a look");
    let asked = look.items.iter().find(|item| item.column == column);
    assert_eq!(asked.expect("the column").image.path, Path::new("birds/0.png"));
}

#[test]
fn a_dataset_that_is_read_again_keeps_the_current_image() {
    let (mut state, part) = with_dataset();
    let column = state::column(&state, 0);
    let [selected, other] = [3, 5].map(|at| *state.library.images.get_index(at).expect("an image").0);
    state.dispatch(Command::SelectImage(selected));
    state.dispatch(Command::SetImage(column, Some(other)));
    let place = |state: &State, id| state.library.images[&id].source.clone();
    let before = [selected, other].map(|id| place(&state, id));
    open_split(&mut state, "birds", &part.dataset, None);
    let after = [state.selection.image, state.columns[&column].image].map(|id| id.expect("an image"));
    assert_eq!(after.map(|id| place(&state, id)), before);
    assert!(after != [selected, other], "read anew, so looked at anew");
}

#[test]
fn an_image_does_not_come_back_into_another_split() {
    let (mut state, part) = with_dataset();
    let image = *state.library.images.get_index(5).expect("an image").0;
    state.dispatch(Command::CloseImages(vec![image]));
    open_split(&mut state, "birds", &part.dataset, Some(data::Split::Train));
    state.dispatch(Command::Undo);
    assert!(!state.library.images.contains_key(&image), "it would take another one's measures");
}

#[test]
fn evaluations_stay_for_who_takes_the_last_closing_back() {
    let (mut state, column) = with_evaluation();
    let id = *state.library.datasets.keys().next().unwrap();
    state.dispatch(Command::CloseDataset(id));
    state.dispatch(Command::Undo);
    assert!(state.evaluation_of(column).is_some());
    state.dispatch(Command::CloseDataset(id));
    state.dispatch(Command::OpenDataset("others".into(), None));
    let other = *state.library.datasets.keys().next().unwrap();
    state.dispatch(Command::CloseDataset(other));
    state.dispatch(Command::Undo);
    state.dispatch(Command::Undo);
    state.dispatch(Command::UseDataset(id));
    assert!(state.dataset().is_some() && state.evaluation_of(column).is_none());
}

#[test]
fn of_many_evaluations_on_a_closed_dataset_the_latest_stay() {
    let (mut state, part) = with_dataset();
    let probe = state.columns[&state::column(&state, 0)].probe;
    for step in 1..=20_u8 {
        let change = Intervention::Temperature(0.1 * f64::from(step));
        state.dispatch(Command::AddColumn { probe, image: None, change });
    }
    evaluate(&mut state);
    let id = *state.library.datasets.keys().next().unwrap();
    state.dispatch(Command::CloseDataset(id));
    let (entry, _) = open_split(&mut state, "others", &part.dataset, None);
    evaluate(&mut state);
    state.dispatch(Command::Undo);
    let known =
        |dataset| state.columns.keys().filter(|id| state.evaluation_on(dataset, **id).is_some()).count();
    assert_eq!([known(id), known(entry)], [16, state.columns.len()]);
}

#[test]
fn a_workspace_leaves_images_to_their_dataset() {
    let (mut state, part) = with_dataset();
    let all: Vec<ImageId> = state.library.images.keys().copied().collect();
    let probe = state.columns[&state::column(&state, 0)].probe;
    // One image of the dataset belongs to a column, another is the current one.
    state.dispatch(Command::AddColumn { probe, image: Some(all[4]), change: Intervention::None });
    state.dispatch(Command::SelectImage(all[6]));
    let saved = state.workspace(serde_json::Value::Null);
    let kept: Vec<ImageId> = saved.images.iter().map(|image| image.id).collect();
    assert_eq!(kept, [all[0], all[1], all[2], all[4], all[6]]);
    let restored = |saved: Workspace| {
        let mut again = State::new(Settings::default());
        let requests = again.restore(saved);
        let (job, entry) = requests
            .iter()
            .find_map(pick!(Request::Files(job, Files::OpenDataset { entry, .. }) => (*job, *entry)))
            .unwrap();
        again.apply(Event::DatasetOpened { job, entry, part: part.clone() });
        assert_eq!(again.library.images.len(), all.len());
        again
    };
    let again = restored(saved);
    assert_eq!(again.selection.image, Some(all[6]));
    assert!(matches!(again.gallery_filter.scope, Scope::Dataset(_)));
    // The gallery shows a current image that is of no dataset, too.
    state.dispatch(Command::SelectImage(all[1]));
    let again = restored(state.workspace(serde_json::Value::Null));
    assert_eq!((again.selection.image, again.gallery_filter.scope), (Some(all[1]), Scope::Loose));
}

#[test]
fn the_confusion_of_very_many_classes_is_drawn_in_blocks() {
    let mut asked = (*part().set).clone();
    let names = (0..21_841).map(|class| format!("c{class}"));
    asked.classes = names.collect();
    asked.class = vec![0, 1, 21, 22, 23, 5000, 21_840, 7, 8];
    let mut evaluation = (*evaluation(&part(), "gap")).clone();
    evaluation.set = Arc::new(asked);
    evaluation.predicted = vec![0, 21, 21, 0, 23, OTHER, 21_840, OTHER, 8];
    let confusion = evaluation.confusion();
    assert_eq!((confusion.count(1, 21), confusion.count(5000, 21_841)), (1, 1));
    let overview = ssmprobe::viz::figures::dataset::find("confusion").unwrap();
    let evaluation = Arc::new(evaluation);
    let choice =
        Choice { classes: ClassFilter { most: None, ..ClassFilter::default() }, ..Choice::default() };
    let drawn = EvaluationPlot::new(overview, [evaluation.clone(), evaluation], choice);
    let scene = Plot::draw_column(&drawn, &Theme::print(), 240.0).expect("a picture");
    assert!(export::svg(&scene, "").contains("<image"), "the matrix is a picture");
    // 22 classes a block, 993 blocks and the others.
    let (name, images) = overview.item(&drawn, 0);
    assert_eq!((name.as_str(), images), ("c0 … c21 predicted as c0 … c21", vec![0, 1, 2, 8]));
    assert_eq!(overview.item(&drawn, 994).1, [3]);
    assert_eq!(overview.table(&drawn).rows(), 8);
}

#[test]
fn overviews_are_exported_the_same_every_time_with_their_numbers() {
    let part = part();
    let folder = tempfile::tempdir().expect("a folder");
    for overview in OVERVIEWS {
        let plot = plot_of(*overview, &part);
        let scene = Plot::draw_column(&plot, &Theme::print(), export::points(85.0)).expect("a picture");
        let paths: Vec<PathBuf> = ["svg", "pdf", "png", "csv", "npz"]
            .iter()
            .flat_map(|ending| {
                ["a", "b"].map(|name| folder.path().join(format!("{name}-{}.{ending}", overview.id())))
            })
            .collect();
        for path in &paths {
            export::save(path, &scene, &plot.table(), &plot.caption().about, 150.0).expect("written");
        }
        for pair in paths.chunks_exact(2) {
            let [a, b] = [&pair[0], &pair[1]].map(|path| std::fs::read(path).expect("a file"));
            assert!(!a.is_empty() && a == b, "{}", pair[0].display());
        }
        let table = std::fs::read_to_string(folder.path().join(format!("a-{}.csv", overview.id()))).unwrap();
        let rows = table.lines().filter(|line| !line.starts_with('#')).count() - 1;
        let expected = match overview.id() {
            "scatter" => 9,
            "region_order" => 1,
            _ => 3,
        };
        assert_eq!(rows, expected, "{table}");
    }
    // `ssmprobe figures` draws the same from the exported files alone, also with other settings.
    let other = Choice {
        measure: CONFIDENCE.into(),
        against: "rank_coverage".into(),
        maps: MapOf::Weights,
        map: Map::Viridis,
        classes: ClassFilter { sort: Some(ClassSort::Name), most: Some(2), ..ClassFilter::default() },
        ..Choice::default()
    };
    for (overview, choice) in
        OVERVIEWS.iter().flat_map(|one| [(one, Choice::default()), (one, other.clone())])
    {
        let names = ["gap · run-2", "sinkhorn"].map(str::to_owned);
        let evaluations = ["gap", "sinkhorn"].map(|probe| evaluation(&part, probe));
        let plot = EvaluationPlot { names, ..EvaluationPlot::new(*overview, evaluations, choice) };
        let scene = Plot::draw_column(&plot, &Theme::print(), export::points(85.0)).expect("a picture");
        let [window, headless] = ["window", "headless"].map(|name| folder.path().join(format!("{name}.svg")));
        export::save(&window, &scene, &plot.table(), &plot.caption().about, 300.0).expect("written");
        let mut command = program();
        command.arg("figures").args(plot.caption().command.split(' ')).arg("--out").arg(&headless);
        for (at, source) in plot.sources().into_iter().enumerate() {
            let file = folder.path().join(format!("{at}.json"));
            std::fs::write(&file, source.json().expect("JSON")).expect("written");
            command.arg(format!("--{}", source.kind())).arg(file);
        }
        done(&mut command);
        let [a, b] = [window, headless].map(|path| std::fs::read_to_string(path).expect("a picture"));
        assert!(a == b, "{}", overview.id());
        assert!(a.contains("gap · run-2 on 9 test images of birds"), "{}", overview.id());
    }
    // Those of probes of one name are told apart, by their files where they read the same backbone.
    let mut command = program();
    command.args(["figures", "--figure", "scatter", "--out"]).arg(folder.path().join("runs.svg"));
    let (mut own, mut dino) = ((*evaluation(&part, "gap")).clone(), (*evaluation(&part, "gap")).clone());
    for (run, evaluation) in [("a", &own), ("b", &dino)] {
        let file = folder.path().join(run).join("gap.json");
        std::fs::create_dir(folder.path().join(run)).expect("a folder");
        std::fs::write(&file, evaluation.to_json().expect("text")).expect("written");
        command.arg("--evaluation").arg(file);
    }
    done(&mut command);
    let said = || std::fs::read_to_string(folder.path().join("runs.svg")).expect("a picture");
    assert!(said().contains("gap · a/gap.json on 9") && said().contains("gap · b/gap.json on 9"));
    (own.backbone, dino.backbone) = ("vit".to_owned(), "dino".to_owned());
    for (run, evaluation) in [("a", &own), ("b", &dino)] {
        let file = folder.path().join(run).join("gap.json");
        std::fs::write(file, evaluation.to_json().expect("text")).expect("written");
    }
    done(&mut command);
    assert!(said().contains("gap · vit on 9") && said().contains("gap · dino on 9"));
    // Also where one of them reads in another way; of one backbone, that may be the same probe.
    for (backbone, words) in [
        ("vit", ["gap · vit (no routing) on 9", "gap · dino on 9"]),
        ("dino", ["gap (no routing) on 9", "gap on 9"]),
    ] {
        (own.backbone, own.change) = (backbone.to_owned(), "no routing".to_owned());
        std::fs::write(folder.path().join("a/gap.json"), own.to_json().expect("text")).expect("written");
        done(&mut command);
        assert!(words.iter().all(|words| said().contains(words)), "{backbone}");
    }
    // Images of the same names may have other contents on purpose, as noisy ones beside the originals.
    for (files, is_warned) in [("images", false), ("others", true)] {
        for (run, evaluation, files) in [("a", &mut own, "images"), ("b", &mut dino, files)] {
            let image_files = Some(files.to_owned());
            evaluation.provenance = Some(Provenance { image_files, ..Provenance::new() });
            let file = folder.path().join(run).join("gap.json");
            std::fs::write(file, evaluation.to_json().expect("text")).expect("written");
        }
        let (_, said) = succeeds(&mut command);
        assert_eq!(said.contains("warning: the two evaluations are of images of the same names"), is_warned);
    }
    // Evaluations of two datasets with the same number of images cannot be combined.
    let mut other = (*evaluation(&part, "gap")).clone();
    let mut asked = (*part.set).clone();
    asked.dataset = "flowers".to_owned();
    asked.images[0] = "another.png".to_owned();
    other.set = Arc::new(asked);
    let mut command = program();
    command.args(["figures", "--figure", "scatter", "--out"]).arg(folder.path().join("two.svg"));
    for (name, evaluation) in [("whole.json", &*evaluation(&part, "sinkhorn")), ("other.json", &other)] {
        std::fs::write(folder.path().join(name), evaluation.to_json().expect("text")).expect("written");
        command.arg("--evaluation").arg(folder.path().join(name));
    }
    let sets = ["whole.json has 9 test images of birds", "other.json has 9 test images of flowers"];
    assert_ends(&mut command, 2, &sets);
    // A measure of the second axis is one that the second evaluation has.
    let mut bare = (*evaluation(&part, "gap")).clone();
    bare.measures.shift_remove("rank_coverage");
    std::fs::write(folder.path().join("bare.json"), bare.to_json().expect("text")).expect("written");
    let mut command = program();
    command.args(["figures", "--figure", "scatter", "--against", "rank_coverage"]);
    for (flag, name) in [("--evaluation", "whole.json"), ("--evaluation", "bare.json"), ("--out", "bare.svg")]
    {
        command.arg(flag).arg(folder.path().join(name));
    }
    assert_ends(&mut command, 2, &["--against rank_coverage: gap has no such measure"]);
    let svg = std::fs::read_to_string(folder.path().join("a-class_diagnostics.svg")).unwrap();
    assert!(svg.contains("Chance for one image") && svg.contains("sinkhorn on 9 test images of birds"));
}

#[test]
fn the_order_of_one_image_is_measured_against_its_changed_copies_and_other_seeds() {
    let mut sandbox = Sandbox::with(worker_env(), &["sinkhorn", "gap", "vmamba"]);
    let mut ask = |probe: u64, job: u64| {
        let (image, place) = (ImageId(1), fixture("images/one.png").into());
        let ask = stability::StabilityRequest {
            subject: subject(probe),
            image,
            source: place,
            seed: 0,
            image_seed: 0,
        };
        let events = sandbox.job(Request::Compute(JobId(job), Compute::Stability(ask)));
        let answer =
            events.into_iter().find_map(pick!(Event::StabilityMeasured { answer, .. } => answer.result));
        answer.expect("an answer")
    };
    let found = ask(1, 60).expect("an order");
    assert_eq!(found, ask(1, 61).expect("an order"), "seeded, so the same twice");
    let mean = |name: &str| {
        let group = found.groups.iter().find(|group| group.name.starts_with(name));
        group.unwrap_or_else(|| panic!("no {name}")).mean()
    };
    assert!(found.groups.iter().flat_map(|g| &g.taus).all(|(_, tau)| (-1.0..=1.0).contains(tau)));
    assert!(mean("Noise, 10") > found.null.1, "a little noise leaves the order: {found:?}");
    assert!(mean("Noise, 10") > mean("Cropped to 75"), "{found:?}");
    assert!(!found.groups.iter().any(|group| group.name == "Other seeds"));
    for (probe, job) in [(2, 62), (3, 63)] {
        let fault = ask(probe, job).expect_err("no single order");
        assert!(fault.to_string().contains("no single order"), "{fault}");
    }
}

#[test]
fn the_stability_pane_says_what_to_do_is_busy_ready_or_failed() {
    let mut window = Window::new();
    window.show("stability");
    assert!(window.has("Open a backbone"), "an empty pane says what to do");
    let mut window = Window::ready();
    window.show("stability");
    window.click("Measure stability");
    let (job, ask) = stability_asked(window.take_requests()).expect("it is asked for");
    window.deliver([Event::Started(job)]);
    assert!(window.has("Reading changed images") && window.idle());
    window.deliver([Event::Failed(job, UserError::new("The device was lost"))]);
    assert!(window.has("The device was lost"));
    window.click("Measure again");
    let (job, _) = stability_asked(window.take_requests()).expect("it is asked for again");
    let result = Ok(Arc::new(small::stability()));
    let answer = stability::StabilityAnswer { subject: ask.subject, image: ask.image, result };
    window.deliver([Event::StabilityMeasured { job, answer }, Event::Finished(job)]);
    assert!(window.has("Stability of the order") && window.idle());
}

#[test]
fn removal_curves_of_a_dataset_are_asked_for_by_a_button_that_says_what_they_cost() {
    let (mut window, part) = with_part();
    window.click("Removal curves…");
    assert!(window.has("Each probe reads each of 9 images once"), "frozen curves are sums");
    window.click("Tokens, rerouted");
    // Five rankings and sixteen random orders, twenty steps each for deletion and insertion.
    assert!(window.has("Each probe reads each of 9 images up to 840 times"));
    // Attention rollout is one more ranking; patches use four random orders and twenty steps, shared by both directions.
    window.click("Patches");
    assert!(window.has(
        "Each probe reads each of 9 images up to 880 times, at a cost of up to 200 full backbone passes"
    ));
    window.click("Patches");
    window.wire.borrow_mut().requests.clear();
    window.click("Evaluate shown with removal curves");
    let asked = |window: &Window| evaluation_asked(window.wire.borrow().requests.clone()).expect("asked").1;
    let ask = asked(&window);
    assert_eq!(ask.removals, [Mode::Frozen, Mode::Rerouted]);
    assert_eq!(ask.subjects.len(), window.state().columns.len());
    evaluated(&mut window, &part);
    window.wire.borrow_mut().requests.clear();
    window.click("Evaluate shown");
    assert!(asked(&window).removals.is_empty(), "they are asked for each time");
}

#[test]
fn the_worker_removes_tokens_of_every_image_as_the_program_does() {
    let folder = dataset(2);
    let (mut sandbox, part, request) = open_dataset(folder.path());
    let Request::Compute(job, Compute::Evaluate(mut request)) = request else { panic!("{request:?}") };
    // An order drawn anew for every image, so that another seed or another reading has other curves.
    request.subjects[0].change = Intervention::Random(7);
    let plain = answers(&sandbox.job(Request::Compute(job, Compute::Evaluate(request.clone()))))
        .iter()
        .map(|answer| answer.result.clone().expect("an evaluation"))
        .collect::<Vec<_>>();
    let removals = vec![Mode::Frozen, Mode::Pixels];
    let events =
        sandbox.job(Request::Compute(JobId(52), Compute::Evaluate(EvalRequest { removals, ..request })));
    let answers = answers(&events);
    assert_eq!([plain.len(), answers.len()], [2, 2], "an answer for each probe");
    for (answer, plain) in answers.iter().zip(&plain) {
        let found = answer.result.clone().expect("an evaluation");
        assert_eq!(found.predicted, plain.predicted);
        assert!(plain.values("frozen_deletion_evidence").is_none(), "not asked for");
        assert!(found.values("frozen_deletion_evidence").is_some());
        assert!(found.values("rerouted_deletion_evidence").is_none(), "not asked for");
        assert!(found.values("pixels_insertion_rollout").is_some(), "the encoder was asked");
        // Images whose class the probe knows.
        let known = |image: &usize| found.values(OWN).is_some_and(|own| own[*image].is_finite());
        assert!((0..part.samples.len()).filter(known).count() > 2);
        let spec = RemovalSpec { modes: vec![Mode::Frozen, Mode::Pixels], ..RemovalSpec::default() };
        let image = (0..part.samples.len()).find(known).expect("one");
        let request = RemovalRequest {
            subject: answer.subject.clone(),
            source: folder.path().join(&part.set.images[image]).into(),
            class: ClassChoice::Named(part.set.classes[part.set.class[image] as usize].clone()),
            spec,
            image_seed: part.samples[image] as u64,
        };
        let events =
            sandbox.job(Request::Compute(JobId(60 + answer.subject.probe.0), Compute::Removal(request)));
        let alone = events
            .into_iter()
            .find_map(pick!(Event::RemovalMeasured { answer, .. } => answer.expect("curves")));
        let alone = alone.expect("an answer");
        for (mode, ranking) in
            [(Mode::Frozen, "evidence"), (Mode::Pixels, "evidence"), (Mode::Pixels, "random")]
        {
            let height = Curve::height(&alone.modes[&mode].found().expect("curves")[ranking][0].probability);
            let name = format!("{}_deletion_{ranking}", mode.id());
            let own = found.values(&name).expect("a column")[image];
            assert_close(&name, f64::from(own), height, 1e-6);
        }
    }
}
