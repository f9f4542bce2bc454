//! Requests and events are plain data: each survives a round trip through JSON, and through the message format of
//! a worker on another machine.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::mem::discriminant;
use std::time::SystemTime;

use clap::{Args, Command, FromArgMatches};
use half::f16;
use serde::Serialize;
use serde::de::DeserializeOwned;
use ssmprobe::app::jobs::detached::PrintedLine;
use ssmprobe::app::jobs::evaluate::{EvalAnswer, EvalProbe, EvalRequest, EvalSplit, verb as eval};
use ssmprobe::app::jobs::folder::{Folder, FolderEntry};
use ssmprobe::app::jobs::history::disk::RunSnapshot;
use ssmprobe::app::jobs::history::{Failure, Steps};
use ssmprobe::app::jobs::regions::RegionSource;
use ssmprobe::app::jobs::removal::RemovalRequest;
use ssmprobe::app::jobs::result_file::ResultFile;
use ssmprobe::app::jobs::similarity::SimilarityRequest;
use ssmprobe::app::jobs::stability::{StabilityAnswer, StabilityRequest};
use ssmprobe::app::jobs::tasks::{PlannedStage, TaskPhase, TaskStatus, Tasks};
use ssmprobe::app::jobs::train::{Estimate, TrainSettings};
use ssmprobe::app::jobs::train_event::{TrainDelta, TrainEvent};
use ssmprobe::app::jobs::{
    BackboneId, DatasetId, Explain, ExplainItem, ExplainResult, PathKind, Progress, TrainCommand, Unit,
    extract, inspect,
};
use ssmprobe::app::remote::frame;
use ssmprobe::app::remote::hello::Hello;
use ssmprobe::model::backbone::token_spec::{TokenSpec, Trained};
use ssmprobe::model::data::{self, ImageSource, Split};
use ssmprobe::model::device::Found;
use ssmprobe::model::explain::evaluation::similarity::{ImageSpace, Similarity};
use ssmprobe::model::explain::evaluation::vectors::TokenVectors;
use ssmprobe::model::explain::removal::{Mode, RemovalSpec};
use ssmprobe::model::explain::stability::{Group, Stability};
use ssmprobe::model::io::Format;
use ssmprobe::model::train::run::{ProbeCheckpoint, StepLosses};

use crate::evaluation;
use crate::pictures::small;
use crate::run::root;
use crate::state::{backbone, probe, trace};
use crate::training_window::{metric, preflight, snapshot};
use crate::window::prelude::*;

const JOB: JobId = JobId(7);

/// Serialises and parses a value, as JSON and as a message, and compares the JSON; the value as parsed.
fn round_trip<T: Serialize + DeserializeOwned + Debug>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    let read: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(serde_json::to_string(&read).expect("JSON"), text);
    for pack in [false, true] {
        let mut bytes = Vec::new();
        frame::write(&mut bytes, value, pack).unwrap_or_else(|error| panic!("{value:?}: {error}"));
        let mut from = &bytes[..];
        let read = frame::read::<T>(&mut from).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(serde_json::to_string(&read.expect("a message")).expect("JSON"), text);
        assert!(from.is_empty());
    }
    read
}

/// The names of all fields in `values`, and of variants that hold something, a line for each place. Programs of one protocol number must agree on them: one
/// that is added needs a default, and one that goes or changes a new number.
fn names<T: Serialize>(values: &[T]) -> String {
    fn collect(value: &Value, place: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(item, place, found)),
            Value::Object(fields) => fields.iter().for_each(|(name, field)| {
                let place = format!("{place} {name}");
                collect(field, &place, found);
                found.insert(place);
            }),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    values.iter().for_each(|value| collect(&serde_json::to_value(value).expect("JSON"), "", &mut found));
    found.iter().map(|place| format!("{}\n", place.trim_start())).collect()
}

/// Does not compile if a variant is missing from the list, and fails if no value is of a listed variant.
macro_rules! of_every_kind {
    ($values:expr, $($kind:pat),+ $(,)?) => {
        for value in $values {
            match value { $($kind => {})+ }
        }
        $(assert!($values.iter().any(|value| matches!(value, $kind)), "there is no {}", stringify!($kind));)+
    };
}

fn subject() -> EvalProbe {
    EvalProbe { probe: ProbeId(2), backbone: BackboneId(1), change: Intervention::NoRouting }
}

/// Command lines, with flags that override the tokens that probes were trained on.
const INSPECT: &str = "--backbone owner/name --probe a.safetensors b --image x.png --class dog --reading as-trained \
    scrambled=7 temperature=0.5 --layer 2 --mae-order shuffled:3 --save-gif --causal frozen,pixels --steps 4 --rho 0.3";
const EVAL: &str = "--backbone here --data birds --probe a.safetensors --split val --ablations --causal frozen \
    --evaluation out --cache tokens --cache-limit 7.5 --verify --size 96";

const EXTRACT: &str = "--backbone here --data birds --precision float32 --arithmetic float16 --plan";

/// The arguments of a verb, parsed from a command line.
fn flags<T: Args + FromArgMatches>(line: &str) -> T {
    let command = T::augment_args(Command::new("verb").no_binary_name(true));
    let given = command.try_get_matches_from(line.split_whitespace()).expect("a command line");
    T::from_arg_matches(&given).expect("flags")
}

/// The test images of a Parquet dataset, which keeps its file open.
fn rows() -> EvalSplit {
    let hub = root().join("tests/fixtures/parquet/hub");
    EvalSplit::new(data::open(hub).expect("a dataset"), Some(Split::Test))
}

#[test]
fn every_request_survives_a_pipe() {
    let item = ExplainItem {
        column: ColumnId(3),
        image: ImageSource { path: "a.parquet".into(), row: Some(4) },
        backbone: BackboneId(1),
        probe: ProbeId(2),
        change: Intervention::None,
        image_seed: 9,
    };
    let class = ClassChoice::Named("dog".into());
    let settings = ExplainSettings { rho: Some(0.1 + 0.2), ..ExplainSettings::default() };
    let draft =
        || Box::new(TrainSettings { data: Some("birds".into()), out: None, ..TrainSettings::default() });
    let (subject, part) = (subject(), Arc::new(rows()));
    let place = ImageSource::from(PathBuf::from("x.png"));
    let open = Fetch::OpenBackbone {
        entry: BackboneId(1),
        source: "owner/name".into(),
        device: "auto".into(),
        options: BackboneOptions { layer: Some(2), ..BackboneOptions::default() },
    };
    let (image, seed, image_seed) = (ImageId(5), 1, 2);
    let apart = TrainCommand { words: vec!["--resume".into()], out: "run".into(), again: true };
    let apart = Fetch::Detached(apart);
    let tasks = || TrainCommand { words: vec!["--submit=slurm".into()], out: "run".into(), again: true };
    let resume = Fetch::Resume { folder: "run".into(), device: Some("cpu".into()), cache: None };
    let dataset = Files::OpenDataset { entry: DatasetId(4), path: "birds".into(), split: Some(Split::Val) };
    let stability =
        StabilityRequest { subject: subject.clone(), image, source: place.clone(), seed, image_seed };
    let spec = RemovalSpec { modes: vec![Mode::Frozen, Mode::Pixels], steps: 7, seed };
    let removal = RemovalRequest {
        subject: subject.clone(),
        source: place.clone(),
        class: class.clone(),
        spec,
        image_seed,
    };
    let vectors = TokenVectors::new([0.5, f32::NAN].map(f16::from_f32).into());
    let compare = SimilarityRequest { vectors, grid: Grid::new(1, 2), similarity: Similarity::Spearman };
    let explain = Explain { items: vec![item], class, settings, regions: RegionSource::default() };
    let requests = [
        Request::Compute(JOB, Compute::OpenProbe { entry: ProbeId(2), path: "gap.safetensors".into() }),
        Request::Compute(JOB, Compute::Explain(explain.clone())),
        Request::Compute(JOB, Compute::ExplainMany(explain)),
        Request::Compute(
            JOB,
            Compute::Evaluate(EvalRequest {
                part,
                subjects: vec![subject.clone()],
                settings,
                regions: RegionSource::default(),
                removals: vec![Mode::Frozen],
                stored: vec![subject],
            }),
        ),
        Request::Compute(JOB, Compute::Stability(stability)),
        Request::Compute(JOB, Compute::Removal(removal)),
        Request::Compute(JOB, Compute::Similarity(compare)),
        Request::Compute(JOB, Compute::Inspect(Box::new(flags(INSPECT)))),
        Request::Compute(JOB, Compute::Eval(Box::new(flags(EVAL)))),
        Request::Compute(JOB, Compute::Extract(Box::new(flags(EXTRACT)))),
        Request::Fetch(JOB, open),
        Request::Fetch(JOB, Fetch::Plan(draft())),
        Request::Fetch(JOB, Fetch::Begin(draft())),
        Request::Fetch(JOB, resume),
        Request::Fetch(JOB, apart),
        Request::Fetch(JOB, Fetch::PlanTasks(tasks())),
        Request::Fetch(JOB, Fetch::SubmitTasks(tasks())),
        Request::Fetch(JOB, Fetch::RetryTasks("run".into())),
        Request::Fetch(JOB, Fetch::EndTasks("run".into())),
        Request::Files(JOB, Files::OpenRun { folder: "run".into() }),
        Request::Files(JOB, Files::OpenImages { paths: vec!["x.png".into()] }),
        Request::Files(JOB, dataset),
        Request::Files(JOB, Files::Recognise { paths: vec!["any".into()] }),
        Request::Files(JOB, Files::ListFolder { folder: "runs".into() }),
        Request::Files(JOB, Files::Receive(ResultFile { path: "x.png".into(), bytes: vec![0, 159, 255] })),
        Request::Cancel(JOB),
        Request::Pause(JOB, true),
        Request::CloseBackbone(BackboneId(1)),
        Request::CloseProbe(ProbeId(2)),
        Request::Thumbnails { wanted: vec![(ImageId(5), place)], side: 112 },
        Request::Follow(vec!["run".into()]),
    ];
    of_every_kind!(
        &requests,
        Request::Compute(_, Compute::OpenProbe { .. }),
        Request::Compute(_, Compute::Explain(_)),
        Request::Compute(_, Compute::ExplainMany(_)),
        Request::Compute(_, Compute::Evaluate(_)),
        Request::Compute(_, Compute::Stability(_)),
        Request::Compute(_, Compute::Removal(_)),
        Request::Compute(_, Compute::Similarity(_)),
        Request::Compute(_, Compute::Inspect(_)),
        Request::Compute(_, Compute::Eval(_)),
        Request::Compute(_, Compute::Extract(_)),
        Request::Fetch(_, Fetch::OpenBackbone { .. }),
        Request::Fetch(_, Fetch::Plan(_)),
        Request::Fetch(_, Fetch::Begin(_)),
        Request::Fetch(_, Fetch::Resume { .. }),
        Request::Fetch(_, Fetch::Detached(_)),
        Request::Fetch(_, Fetch::PlanTasks(_)),
        Request::Fetch(_, Fetch::SubmitTasks(_)),
        Request::Fetch(_, Fetch::RetryTasks(_)),
        Request::Fetch(_, Fetch::EndTasks(_)),
        Request::Files(_, Files::OpenRun { .. }),
        Request::Files(_, Files::OpenImages { .. }),
        Request::Files(_, Files::OpenDataset { .. }),
        Request::Files(_, Files::Recognise { .. }),
        Request::Files(_, Files::ListFolder { .. }),
        Request::Files(_, Files::Receive(_)),
        Request::Cancel(_),
        Request::Pause(..),
        Request::CloseBackbone(_),
        Request::CloseProbe(_),
        Request::Thumbnails { .. },
        Request::Follow(_),
    );
    for request in &requests {
        assert_eq!(round_trip(request), *request);
    }
    insta::assert_snapshot!("names-of-requests", names(&requests));
}

#[test]
fn images_in_tables_are_read_behind_the_pipe() {
    let part = rows();
    let read = round_trip(&part);
    assert!(part.samples.len() > 1);
    for &at in &part.samples {
        let bytes = |part: &EvalSplit| part.dataset.samples[at].source.bytes().expect("an image");
        assert_eq!(bytes(&read), bytes(&part));
    }
}

/// A listing of a folder.
fn folder() -> Folder {
    let entry =
        FolderEntry { name: "x.png".into(), kind: Some(PathKind::Images), is_folder: false, bytes: 7 };
    Folder { path: "/data".into(), entries: vec![entry], cut: true, unnamed: 1, file: Some("x.png".into()) }
}

/// One event of each kind that verbs receive.
fn verb_events() -> Vec<Event> {
    let inspected = |event| Event::Inspect { job: JOB, event };
    let evaluated = |event| Event::Eval { job: JOB, event };
    let extracted = |event| Event::Extract { job: JOB, event };
    let file = || ResultFile { path: "one/gap.npz".into(), bytes: vec![0, 159, 255] };
    let document =
        serde_json::json!({"image": "x.png", "logit": 0.1, "whole": 1.0, "null": null, "count": -3});
    let explained =
        inspect::Explained { document, cells: vec!["x.png".into()], files: ["a".into(), "b".into()] };
    let failure = inspect::Failure { image: 1, path: "y.png".into(), probe: None, error: "torn".into() };
    let of = Some(("gap".into(), 1, ProbeCheckpoint::Best));
    let probe = eval::ProbeFile { path: "gap.safetensors".into(), of };
    let measured =
        r#"{"images":5,"accuracy":62.5,"ablations":[],"diagnostics":[],"order":null,"truth":null,"masks":0}"#;
    let metrics = serde_json::from_str(measured).expect("metrics");
    let answered = eval::EvaluatedProbe { file: probe, sha256: "b".repeat(64), metrics };
    let baseline = r#"{"method":"knn","view":"cls","settings":"k = 20","accuracy":62.5,"note":null}"#;
    let baseline = serde_json::from_str(baseline).expect("a baseline");
    vec![
        inspected(inspect::InspectEvent::Begun(3)),
        inspected(inspect::InspectEvent::File(file())),
        inspected(inspect::InspectEvent::Explained(explained)),
        inspected(inspect::InspectEvent::Failed(failure)),
        inspected(inspect::InspectEvent::Passed(2)),
        inspected(inspect::InspectEvent::Note("long".into())),
        evaluated(eval::EvalEvent::Note("so many".into())),
        evaluated(eval::EvalEvent::Begun),
        evaluated(eval::EvalEvent::LeftOut { probe: "gap".into(), error: "no order".into() }),
        evaluated(eval::EvalEvent::Evaluated(Box::new(answered))),
        evaluated(eval::EvalEvent::Evaluation { probe: "gap".into(), files: vec![file(), file()] }),
        evaluated(eval::EvalEvent::Baseline(baseline)),
        evaluated(eval::EvalEvent::Found { title: "birds".into(), images: 5, masks: 0 }),
        evaluated(eval::EvalEvent::Kept(Some("evaluation.json".into()))),
        extracted(extract::verb::ExtractEvent::Note("all there already".into())),
        extracted(extract::verb::ExtractEvent::Done(serde_json::json!({"done": 5}))),
    ]
}

#[test]
fn every_event_survives_a_pipe() {
    let fault = || UserError::new("no order").remedy("Choose another probe");
    let part = evaluation::part();
    let evaluated = |result| EvalAnswer { subject: subject(), result };
    let found = Stability {
        format: Format,
        image: "x.png".into(),
        probe: "a".into(),
        head: "gap".into(),
        reading: ssmprobe::model::trace::Reading::default(),
        tokens: 4,
        groups: vec![Group { name: "Flipped".into(), taus: vec![("flip".into(), 0.25)] }],
        null: (-0.1, 0.1),
    };
    let answer = StabilityAnswer { subject: subject(), image: ImageId(5), result: Ok(Arc::new(found)) };
    let trained = Trained { token_spec: TokenSpec::default(), preprocessing: Some("p".into()) };
    let probe = ssmprobe::app::jobs::info::ProbeInfo { trained: Some(Box::new(trained)), ..probe("gap", 24) };
    let failures = || vec![Failure { head: "gap".into(), seed: 1, why: "broke".into() }];
    let probes = || vec![(PathBuf::from("gap.safetensors"), SystemTime::UNIX_EPOCH)];
    let losses = vec![StepLosses { seed: 0, parts: 2, heads: vec![("gap".into(), vec![0.5, f32::NAN])] }];
    let epochs = || vec![metric("gap", 0, 1)];
    let about = snapshot(&["gap"]).about.clone();
    let stage = PlannedStage { name: "join".into(), tasks: 1, script: "#!/bin/bash".into() };
    let (name, state, said) =
        ("join".to_owned(), "running, 1:00 left".to_owned(), vec!["epoch 1".to_owned()]);
    let all = vec![TaskStatus { name, phase: TaskPhase::Running, state, said }];
    let tasks = Some(Tasks { all, problem: Some("squeue refuses".into()) });
    let snapshot = Arc::new(RunSnapshot {
        about,
        epochs: epochs(),
        losses,
        failures: failures(),
        probes: probes(),
        tasks,
        trained: Some(true),
    });
    let second = Duration::from_secs(1);
    let estimate = Estimate { image: Some(second), step: second, evaluation: second, tried: 8 };
    let steps = Some(Steps { seed: 0, at: 0.5, losses: vec![Some(0.25), None] });
    let delta = TrainDelta { steps, epochs: epochs(), failures: failures(), rate: 12.5, left: second };
    let (what, done, total, unit) = ("Asking gap".to_owned(), 3, Some(9), Unit::Items);
    let training = |event| Event::Training { job: JOB, event };
    let looked = [Ok(Arc::new(trace("x.png"))), Err(fault())];
    let results = looked.map(|result| ExplainResult { column: ColumnId(3), result, by_hand: None }).into();
    let facts_of_backbone = backbone("one", 24, Grid::new(2, 2));
    let vectors = TokenVectors::new([0.5, 1.0, 1.0, 0.5].map(f16::from_f32).into());
    let space = ImageSpace::new(&vectors, Grid::new(1, 2), Similarity::Cosine);
    let picture = Arc::new(Picture { width: 1, height: 1, rgb: vec![1, 2, 3] });
    let kinds = [PathKind::Backbone, PathKind::Missing].map(|kind| (PathBuf::from("any"), kind));
    let events = [
        Event::Started(JOB),
        Event::Progress(JOB, Progress { what, done, total, unit, elapsed: second, left: Some(second) }),
        Event::BackboneOpened { job: JOB, entry: BackboneId(1), info: facts_of_backbone },
        Event::ProbeOpened { job: JOB, entry: ProbeId(2), info: probe },
        Event::ProbesListed {
            job: JOB,
            paths: vec!["gap.safetensors".into()],
            sources: kinds.clone().into(),
        },
        Event::ImagesListed { job: JOB, paths: vec!["x.png".into()] },
        Event::DatasetOpened { job: JOB, entry: DatasetId(4), part: Arc::new(rows()) },
        Event::Evaluated { job: JOB, answer: evaluated(Ok(evaluation::evaluation(&part, "gap"))) },
        Event::Evaluated { job: JOB, answer: evaluated(Err(fault())) },
        Event::StabilityMeasured { job: JOB, answer },
        Event::RemovalMeasured { job: JOB, answer: Ok(Arc::new(small::removal())) },
        Event::RemovalMeasured { job: JOB, answer: Err(fault()) },
        Event::ImagesCompared(JOB, Arc::new(space)),
        Event::Recognised { job: JOB, found: kinds.into() },
        Event::FolderListed { job: JOB, folder: Arc::new(folder()) },
        Event::Explained { job: JOB, results },
        training(TrainEvent::Planned(Box::new(preflight()))),
        training(TrainEvent::Timed(estimate)),
        training(TrainEvent::Detached { folder: "run".into(), pid: 7, began: true, host: None }),
        training(TrainEvent::TasksPlanned(vec![stage])),
        training(TrainEvent::TasksSubmitted("run".into())),
        training(TrainEvent::Retried(2)),
        training(TrainEvent::Printed(PrintedLine { line: "seed 0".into(), log: 1, at: 5 })),
        training(TrainEvent::Begun(snapshot.clone())),
        training(TrainEvent::Progressed(Box::new(delta))),
        training(TrainEvent::Paused(true)),
        training(TrainEvent::Probes(probes())),
        training(TrainEvent::Ended { finished: true, failures: failures() }),
        Event::RunRead { job: Some(JOB), folder: "run".into(), snapshot: Ok(snapshot) },
        Event::ThumbnailReady { image: ImageId(5), picture },
        Event::ThumbnailFailed { image: ImageId(5), error: fault() },
        Event::Memory(1 << 40),
        Event::Warning { job: JOB, text: "left out".into() },
        Event::Failed(JOB, fault()),
        Event::Cancelled(JOB),
        Event::Finished(JOB),
    ];
    let events: Vec<Event> = events.into_iter().chain(verb_events()).collect();
    of_every_kind!(
        &events,
        Event::Started(_),
        Event::Progress(..),
        Event::BackboneOpened { .. },
        Event::ProbeOpened { .. },
        Event::ProbesListed { .. },
        Event::ImagesListed { .. },
        Event::DatasetOpened { .. },
        Event::Evaluated { .. },
        Event::StabilityMeasured { .. },
        Event::RemovalMeasured { .. },
        Event::ImagesCompared(..),
        Event::Recognised { .. },
        Event::FolderListed { .. },
        Event::Inspect { event: inspect::InspectEvent::Begun(_), .. },
        Event::Inspect { event: inspect::InspectEvent::File(_), .. },
        Event::Inspect { event: inspect::InspectEvent::Explained(_), .. },
        Event::Inspect { event: inspect::InspectEvent::Failed(_), .. },
        Event::Inspect { event: inspect::InspectEvent::Passed(_), .. },
        Event::Inspect { event: inspect::InspectEvent::Note(_), .. },
        Event::Eval { event: eval::EvalEvent::Note(_), .. },
        Event::Eval { event: eval::EvalEvent::Begun, .. },
        Event::Eval { event: eval::EvalEvent::LeftOut { .. }, .. },
        Event::Eval { event: eval::EvalEvent::Evaluated(_), .. },
        Event::Eval { event: eval::EvalEvent::Evaluation { .. }, .. },
        Event::Eval { event: eval::EvalEvent::Baseline(_), .. },
        Event::Eval { event: eval::EvalEvent::Found { .. }, .. },
        Event::Eval { event: eval::EvalEvent::Kept(_), .. },
        Event::Extract { event: extract::verb::ExtractEvent::Note(_), .. },
        Event::Extract { event: extract::verb::ExtractEvent::Done(_), .. },
        Event::Explained { .. },
        Event::Training { event: TrainEvent::Planned(_), .. },
        Event::Training { event: TrainEvent::Timed(_), .. },
        Event::Training { event: TrainEvent::Detached { .. }, .. },
        Event::Training { event: TrainEvent::TasksPlanned(_), .. },
        Event::Training { event: TrainEvent::TasksSubmitted(_), .. },
        Event::Training { event: TrainEvent::Retried(_), .. },
        Event::Training { event: TrainEvent::Printed(_), .. },
        Event::Training { event: TrainEvent::Begun(_), .. },
        Event::Training { event: TrainEvent::Progressed(_), .. },
        Event::Training { event: TrainEvent::Paused(_), .. },
        Event::Training { event: TrainEvent::Probes(_), .. },
        Event::Training { event: TrainEvent::Ended { .. }, .. },
        Event::RunRead { .. },
        Event::ThumbnailReady { .. },
        Event::ThumbnailFailed { .. },
        Event::Memory(_),
        Event::Warning { .. },
        Event::Failed(..),
        Event::Cancelled(_),
        Event::Finished(_),
    );
    for event in &events {
        round_trip(event);
    }
    insta::assert_snapshot!("names-of-events", names(&events));
}

/// Environment variable that rewrites the fixtures: only for a new protocol number.
const FREEZE: &str = "SSMPROBE_FREEZE";

/// A greeting and some messages whose format must not change within a protocol number.
fn messages<T: Serialize>(greeting: &Hello, values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    greeting.write(&mut bytes).expect("a greeting");
    for value in values {
        frame::write(&mut bytes, value, true).expect("a message");
    }
    bytes
}

/// The messages of a fixture, which is first written with [`FREEZE`].
fn frozen<T: DeserializeOwned>(name: &str, written: &[u8]) -> Vec<T> {
    let path = root().join("tests/fixtures/remote").join(name);
    if std::env::var_os(FREEZE).is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, written).expect("a file");
    }
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut from = &bytes[..];
    Hello::read(&mut from).expect("the greeting of this protocol; another number has other messages");
    std::iter::from_fn(|| frame::read(&mut from).expect("a message of this protocol")).collect()
}

/// Programs of the same protocol number understand each other: if not, the number must increase.
#[test]
fn messages_that_were_sent_before_are_understood() {
    let second = Duration::from_secs(1);
    let requests = [
        Request::Compute(JOB, Compute::OpenProbe { entry: ProbeId(2), path: "gap.safetensors".into() }),
        Request::Cancel(JOB),
        Request::Pause(JOB, true),
        Request::Follow(vec!["run".into()]),
    ];
    assert_eq!(frozen::<Request>("requests", &messages(&Hello::asking(true), &requests)), requests);
    let rgb = (0..60 * 40 * 3).map(|at| (at / 97) as u8).collect();
    let picture = Arc::new(Picture { width: 60, height: 40, rgb });
    let what = "Asking gap".to_owned();
    let progress = Progress { what, done: 3, total: Some(9), unit: Unit::Items, elapsed: second, left: None };
    let result = ExplainResult { column: ColumnId(3), result: Ok(Arc::new(trace("x.png"))), by_hand: None };
    let file = ResultFile { path: "one/gap.npz".into(), bytes: vec![0, 159, 255] };
    let events = [
        Event::Started(JOB),
        Event::Progress(JOB, progress),
        Event::Warning { job: JOB, text: "left out".into() },
        Event::ThumbnailReady { image: ImageId(5), picture },
        Event::Explained { job: JOB, results: vec![result] },
        Event::Inspect { job: JOB, event: inspect::InspectEvent::File(file) },
        Event::Eval { job: JOB, event: eval::EvalEvent::Begun },
        Event::Failed(JOB, UserError::new("no order").remedy("Choose another probe")),
        Event::Finished(JOB),
    ];
    let devices = vec![Found { name: "cpu".into(), memory: Some(1 << 34), ..Found::default() }];
    let read = frozen::<Event>("events", &messages(&Hello { devices, ..Hello::asking(false) }, &events));
    assert!(read.iter().map(discriminant).eq(events.iter().map(discriminant)), "{read:?}");
}
