//! Training by the worker's real threads: explanations are answered between two steps, also while it is
//! paused; a cancelled training resumes; a failure ends its job alone; runs on disk are watched.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use ssmprobe::app::jobs::evaluate::EvalProbe;
use ssmprobe::app::jobs::extract::TokenSettings;
use ssmprobe::app::jobs::regions::RegionSource;
use ssmprobe::app::jobs::stability;
use ssmprobe::app::jobs::train::TrainSettings;
use ssmprobe::app::jobs::training::TrainEvent;
use ssmprobe::app::jobs::{
    BackboneId, BackboneOptions, ClassChoice, ColumnId, Compute, Event, Explain, ExplainItem,
    ExplainSettings, Fetch, Files, ImageId, JobId, PathKind, ProbeId, Request,
};
use ssmprobe::app::worker::{Worker, WorkerEnv};
use ssmprobe::model::device;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::train::run::Run;

use crate::close::assert_close;
use crate::run;
use crate::worker::end;

const PATIENCE: Duration = Duration::from_mins(2);

struct Desk {
    worker: Worker,
    wakeups: Receiver<()>,
    disk: run::Desk,
}

impl Desk {
    fn new(env: WorkerEnv) -> Self {
        let (wake, wakeups) = sync_channel(1);
        let waker = Arc::new(move || wake.try_send(()).unwrap_or_default());
        Self { worker: Worker::start(env, waker).expect("threads"), wakeups, disk: run::Desk::new(24, 8) }
    }

    fn draft(&self, epochs: usize) -> TrainSettings {
        TrainSettings {
            backbone: run::backbone().display().to_string(),
            data: Some(self.disk.data()),
            heads: vec!["linear-bn".into(), "sinkhorn".into()],
            head_settings: "state_dim=8 sinkhorn.iterations=5".into(),
            epochs,
            batch: 16,
            seeds: 2,
            device: "cpu".into(),
            out: Some(self.disk.path("run")),
            tokens: TokenSettings { cache: Some(self.disk.path("cache")), ..TokenSettings::default() },
            ..TrainSettings::default()
        }
    }

    fn begin(&mut self, job: u64, draft: TrainSettings) {
        self.worker.send(Request::Fetch(JobId(job), Fetch::Begin(Box::new(draft))));
    }

    /// Resumes the run, with another cache in the request than the run began with.
    fn resume(&mut self, job: u64) {
        let (folder, cache) = (self.disk.path("run"), Some(self.disk.path("another")));
        let ask = Fetch::Resume { folder, device: Some("cpu".into()), cache };
        self.worker.send(Request::Fetch(JobId(job), ask));
    }

    /// Events up to and including the first that is `last`.
    fn until(&mut self, mut last: impl FnMut(&Event) -> bool) -> Vec<Event> {
        let begun = Instant::now();
        let mut events = Vec::new();
        loop {
            while let Some(event) = self.worker.event() {
                let done = last(&event);
                events.push(event);
                if done {
                    return events;
                }
            }
            assert!(begun.elapsed() < PATIENCE, "nothing came after {:?}", events.last());
            let _ = self.wakeups.recv_timeout(Duration::from_secs(1));
        }
    }

    fn end(&mut self, job: u64) -> Vec<Event> {
        self.until(|event| end(event) == Some(JobId(job)))
    }

    /// Opens the backbone and a probe, so that images can be explained.
    fn open(&mut self) {
        let (source, device) = (run::backbone().display().to_string(), "cpu".to_owned());
        let (entry, options) = (BackboneId(1), BackboneOptions::default());
        self.worker.send(Request::Fetch(JobId(1), Fetch::OpenBackbone { entry, source, device, options }));
        self.end(1);
        let path = fixture("probes/sinkhorn.safetensors");
        self.worker.send(Request::Compute(JobId(2), Compute::OpenProbe { entry: ProbeId(1), path }));
        self.end(2);
    }

    fn look(&mut self, job: u64) {
        let asked = vec![ExplainItem {
            column: ColumnId(1),
            image: fixture("images/one.png").into(),
            backbone: BackboneId(0),
            probe: ProbeId(1),
            change: Intervention::None,
            draw: 0,
        }];
        let settings = ExplainSettings { null_draws: 8, ..ExplainSettings::default() };
        let look =
            Explain { asked, class: ClassChoice::Predicted, settings, regions: RegionSource::default() };
        self.worker.send(Request::Compute(JobId(job), Compute::Explain(look)));
    }
}

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/inspect").join(path)
}

fn news(event: &Event) -> Option<&TrainEvent> {
    match event {
        Event::Training { news, .. } => Some(news),
        _ => None,
    }
}

#[test]
fn a_plan_says_what_it_comes_to_and_how_long_it_takes() {
    let mut desk = Desk::new(WorkerEnv::default());
    let draft = desk.draft(3);
    desk.worker.send(Request::Fetch(JobId(5), Fetch::Plan(Box::new(draft.clone()))));
    let events = desk.end(5);
    assert!(matches!(events.last(), Some(Event::Finished(_))), "{events:?}");
    let facts = events.iter().find_map(|event| match news(event) {
        Some(TrainEvent::Planned(facts)) => Some(facts.clone()),
        _ => None,
    });
    let facts = facts.expect("a plan");
    assert_eq!((facts.train, facts.test, facts.images, facts.cached), (24, 8, 32, 0));
    assert_eq!(facts.out, desk.disk.path("run"));
    let estimate = events.iter().find_map(|event| match news(event) {
        Some(TrainEvent::Timed(estimate)) => Some(*estimate),
        _ => None,
    });
    let estimate = estimate.expect("an estimate");
    assert!(estimate.image.is_some() && !estimate.step.is_zero() && estimate.tried == 16, "{estimate:?}");
    assert!(!desk.disk.path("run").exists(), "a plan writes nothing");

    // Errors: a setting that no head has, a missing dataset.
    let wrong = TrainSettings { head_settings: "colour=red".into(), ..draft.clone() };
    let absent = TrainSettings { data: Some(desk.disk.path("nowhere")), ..draft };
    for (job, draft, expected) in [(6, wrong, "colour"), (7, absent, "nowhere")] {
        desk.worker.send(Request::Fetch(JobId(job), Fetch::Plan(Box::new(draft))));
        let events = desk.end(job);
        let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

#[test]
fn looks_are_answered_between_two_steps_and_a_cut_training_ends_with_the_same_metrics() {
    let mut desk = Desk::new(WorkerEnv::default());
    desk.open();
    let draft = desk.draft(30);
    desk.begin(10, draft);
    desk.until(|event| matches!(news(event), Some(TrainEvent::Went(_))));
    for job in 20..23 {
        desk.look(job);
        let events = desk.until(|event| end(event) == Some(JobId(job)) || end(event) == Some(JobId(10)));
        assert_eq!(events.last().and_then(end), Some(JobId(job)), "the training ended before it was looked");
        assert!(events.iter().any(|event| matches!(event, Event::Explained { .. })), "{events:?}");
    }
    // While paused nothing is trained, and explanations are answered.
    desk.worker.send(Request::Pause(JobId(10), true));
    desk.until(|event| matches!(news(event), Some(TrainEvent::Paused(true))));
    desk.look(30);
    let rest = desk.end(30);
    assert!(rest.iter().any(|event| matches!(event, Event::Explained { .. })));
    desk.look(31);
    let rest = desk.end(31);
    assert!(!rest.iter().any(|event| matches!(news(event), Some(TrainEvent::Went(_)))), "it trains at rest");
    desk.worker.send(Request::Pause(JobId(10), false));
    desk.until(|event| matches!(news(event), Some(TrainEvent::Went(_))));
    desk.worker.send(Request::Pause(JobId(10), true));
    desk.until(|event| matches!(news(event), Some(TrainEvent::Paused(true))));
    // Another long job waits for the training to end; when cancelled it ends at once.
    let subject = EvalProbe { probe: ProbeId(1), backbone: BackboneId(1), change: Intervention::None };
    let (image, place) = (ImageId(1), fixture("images/one.png").into());
    let ask = stability::StabilityRequest { subject, image, place, seed: 0, draw: 0 };
    desk.worker.send(Request::Compute(JobId(40), Compute::Stability(ask)));
    desk.look(41);
    desk.end(41);
    desk.worker.send(Request::Cancel(JobId(40)));
    desk.look(42);
    let events = desk.end(42);
    assert!(events.iter().any(|event| matches!(event, Event::Cancelled(JobId(40)))), "{events:?}");
    // Cancelled while paused, it ends, is saved and can be resumed.
    desk.worker.send(Request::Cancel(JobId(10)));
    let events = desk.end(10);
    assert!(matches!(events.last(), Some(Event::Cancelled(_))));
    assert!(
        events.iter().any(|event| matches!(news(event), Some(TrainEvent::Ended { finished: false, .. })))
    );
    let cut = fs::read_to_string(desk.disk.path("run/metrics.jsonl")).expect("metrics").lines().count();
    desk.resume(11);
    let events = desk.end(11);
    assert!(matches!(events.last(), Some(Event::Finished(_))), "{:?}", events.last());
    assert!(!desk.disk.path("another").exists(), "its tokens lie where it began");
    let probes = events.iter().find_map(|event| match news(event) {
        Some(TrainEvent::Probes(probes)) => Some(probes.len()),
        _ => None,
    });
    assert_eq!(probes, Some(8), "two heads, two seeds, best and last");
    assert_eq!(Run::open(&desk.disk.path("run")).expect("a run").outcomes().expect("outcomes").len(), 4);
    // The same as an undisturbed training.
    let status = desk.disk.train("alone", 30, &["--rate", "0.001"]).output().expect("the program runs");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let metrics = |run: &str| fs::read_to_string(desk.disk.path(run).join("metrics.jsonl")).expect("metrics");
    assert!(cut < metrics("run").lines().count(), "it was cut before its end");
    assert!(metrics("run") == metrics("alone"), "a look or a rest changed what is trained");
}

/// Whether opening a device panics.
static BROKEN: AtomicBool = AtomicBool::new(false);

#[test]
fn a_panic_in_training_is_its_message_and_the_worker_goes_on() {
    let broken = |name: &str| {
        assert!(!BROKEN.load(Ordering::Relaxed), "the driver lost its mind");
        device::choose(name)
    };
    let mut desk = Desk::new(WorkerEnv { device: broken, ..WorkerEnv::default() });
    desk.open();
    BROKEN.store(true, Ordering::Relaxed);
    let draft = desk.draft(2);
    desk.begin(10, draft.clone());
    let events = desk.end(10);
    BROKEN.store(false, Ordering::Relaxed);
    let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
    assert!(fault.to_string().contains("lost its mind") && fault.remedy.is_some(), "{fault}");
    desk.look(20);
    assert!(desk.end(20).iter().any(|event| matches!(event, Event::Explained { .. })));
    // An error that is no panic: the folder cannot be created.
    fs::write(desk.disk.path("file"), "").expect("a file");
    let out = Some(desk.disk.path("file/run"));
    desk.begin(11, TrainSettings { out, ..draft.clone() });
    let events = desk.end(11);
    let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
    assert!(fault.to_string().contains("file"), "{fault}");
    desk.begin(12, draft);
    let events = desk.end(12);
    assert!(matches!(events.last(), Some(Event::Finished(_))));
    // Events place the steps they report at their midpoint: their intervals join to the two epochs.
    for seed in [0, 1] {
        let mut covered = 0.0;
        for event in &events {
            let Some(TrainEvent::Went(went)) = news(event) else { continue };
            for steps in went.steps.iter().filter(|steps| steps.seed == seed) {
                let end = 2.0 * steps.at - covered;
                assert!(end > covered, "steps from {covered} to {end} epochs stand at {}", steps.at);
                assert!(steps.losses.iter().all(Option::is_some), "{steps:?}");
                covered = end;
            }
        }
        assert_close(format!("seed {seed}"), covered, 2.0, 1e-9);
    }
}

#[test]
fn a_run_is_followed_while_another_program_trains_it() {
    let mut desk = Desk::new(WorkerEnv::default());
    let mut program = desk.disk.train("elsewhere", 40, &[]).spawn().expect("the program runs");
    let folder = desk.disk.path("elsewhere");
    let begun = Instant::now();
    while !folder.join("metrics.jsonl").exists() {
        assert!(begun.elapsed() < PATIENCE, "nothing is trained");
        std::thread::sleep(Duration::from_millis(20));
    }
    desk.worker.send(Request::Files(JobId(1), Files::OpenRun { folder: folder.clone() }));
    let events = desk.end(1);
    assert!(events.iter().any(|event| matches!(event, Event::RunRead { snapshot: Ok(_), .. })), "{events:?}");
    let listed = events.iter().find_map(|event| match event {
        Event::ProbesListed { sources, .. } => {
            Some(sources.iter().map(|(_, kind)| *kind).collect::<Vec<_>>())
        }
        _ => None,
    });
    assert_eq!(listed, Some(vec![PathKind::Backbone, PathKind::Dataset]), "what it is trained on lies here");
    desk.worker.send(Request::Follow(vec![folder]));
    let mut lengths = Vec::new();
    desk.until(|event| {
        if let Event::RunRead { snapshot, .. } = event {
            let snapshot = snapshot.as_ref().expect("a run");
            lengths.push((snapshot.epochs.len(), snapshot.probes.len()));
        }
        // Two heads, two seeds, forty epochs; best and last.
        lengths.last() == Some(&(160, 8))
    });
    assert!(program.wait().expect("an end").success());
    assert!(lengths.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{lengths:?}");
    // When nothing changes any more, there are no events.
    std::thread::sleep(Duration::from_millis(2200));
    while desk.worker.event().is_some() {}
    std::thread::sleep(Duration::from_millis(1500));
    assert!(desk.worker.event().is_none(), "a run that rests is told of");
}
