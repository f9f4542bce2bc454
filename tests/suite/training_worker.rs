//! Training by the worker's real threads: explanations are answered between two steps, also while it is
//! paused; a cancelled training resumes; a failure ends its job alone; runs on disk are watched.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ssmprobe::app::jobs::evaluate::EvalProbe;
use ssmprobe::app::jobs::stability;
use ssmprobe::app::jobs::train::TrainSettings;
use ssmprobe::app::jobs::train_event::TrainEvent;
use ssmprobe::app::jobs::{
    BackboneId, Compute, Event, Fetch, Files, ImageId, JobId, PathKind, ProbeId, Request,
};
use ssmprobe::app::worker::WorkerEnv;
use ssmprobe::model::device;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::train::run::Run;

use crate::close::assert_close;
use crate::run::{self, fixture};
use crate::worker::{self, Sandbox, end};

const TIMEOUT: Duration = Duration::from_mins(5);

fn plan(job: u64, draft: TrainSettings) -> Request {
    Request::Fetch(JobId(job), Fetch::Plan(Box::new(draft)))
}

fn begin(job: u64, draft: TrainSettings) -> Request {
    Request::Fetch(JobId(job), Fetch::Begin(Box::new(draft)))
}

/// The request to explain an image with the first probe.
fn look(job: u64) -> Request {
    worker::look(job, &fixture("images/one.png"), 1)
}

/// The request for the stability of an image's order in the first probe.
pub(super) fn stability_request() -> stability::StabilityRequest {
    let subject = EvalProbe { probe: ProbeId(1), backbone: BackboneId(1), change: Intervention::None };
    let (image, place) = (ImageId(1), fixture("images/one.png").into());
    stability::StabilityRequest { subject, image, source: place, seed: 0, image_seed: 0 }
}

fn train_event(event: &Event) -> Option<&TrainEvent> {
    match event {
        Event::Training { event, .. } => Some(event),
        _ => None,
    }
}

#[test]
fn a_plan_says_what_it_comes_to_and_how_long_it_takes() {
    let (disk, mut sandbox) = (run::Sandbox::new(24, 8), Sandbox::new(WorkerEnv::default()));
    let draft = disk.settings(3);
    let events = sandbox.job(plan(5, draft.clone()));
    assert!(matches!(events.last(), Some(Event::Finished(_))), "{events:?}");
    let facts =
        events.iter().filter_map(train_event).find_map(pick!(TrainEvent::Planned(facts) => facts.clone()));
    let facts = facts.expect("a plan");
    assert_eq!((facts.train, facts.test, facts.images, facts.cached), (24, 8, 32, 0));
    assert_eq!(facts.out, disk.path("run"));
    let estimate =
        events.iter().filter_map(train_event).find_map(pick!(TrainEvent::Timed(estimate) => *estimate));
    let estimate = estimate.expect("an estimate");
    assert!(estimate.image.is_some() && !estimate.step.is_zero() && estimate.tried == 16, "{estimate:?}");
    assert!(!disk.path("run").exists(), "a plan writes nothing");

    // Errors: a setting that no head has, a missing dataset.
    let wrong = TrainSettings { head_settings: "colour=red".into(), ..draft.clone() };
    let absent = TrainSettings { data: Some(disk.path("nowhere")), ..draft };
    for (job, draft, expected) in [(6, wrong, "colour"), (7, absent, "nowhere")] {
        let events = sandbox.job(plan(job, draft));
        let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

#[test]
fn looks_are_answered_between_two_steps_and_a_cut_training_ends_with_the_same_metrics() {
    let (disk, mut sandbox) = (run::Sandbox::new(24, 8), Sandbox::with(WorkerEnv::default(), &["sinkhorn"]));
    sandbox.worker.send(begin(10, disk.settings(30)));
    sandbox.until(|event| matches!(train_event(event), Some(TrainEvent::Progressed(_))));
    for job in 20..23 {
        sandbox.worker.send(look(job));
        let events = sandbox.until(|event| end(event) == Some(JobId(job)) || end(event) == Some(JobId(10)));
        assert_eq!(events.last().and_then(end), Some(JobId(job)), "the training ended before it was looked");
        assert!(events.iter().any(|event| matches!(event, Event::Explained { .. })), "{events:?}");
    }
    // While paused nothing is trained, and explanations are answered.
    sandbox.worker.send(Request::Pause(JobId(10), true));
    sandbox.until(|event| matches!(train_event(event), Some(TrainEvent::Paused(true))));
    let rest = sandbox.job(look(30));
    assert!(rest.iter().any(|event| matches!(event, Event::Explained { .. })));
    let rest = sandbox.job(look(31));
    assert!(
        !rest.iter().any(|event| matches!(train_event(event), Some(TrainEvent::Progressed(_)))),
        "it trains at rest"
    );
    sandbox.worker.send(Request::Pause(JobId(10), false));
    sandbox.until(|event| matches!(train_event(event), Some(TrainEvent::Progressed(_))));
    sandbox.worker.send(Request::Pause(JobId(10), true));
    sandbox.until(|event| matches!(train_event(event), Some(TrainEvent::Paused(true))));
    // Another long job waits for the training to end; when cancelled it ends at once.
    sandbox.worker.send(Request::Compute(JobId(40), Compute::Stability(stability_request())));
    sandbox.job(look(41));
    sandbox.worker.send(Request::Cancel(JobId(40)));
    let events = sandbox.job(look(42));
    assert!(events.iter().any(|event| matches!(event, Event::Cancelled(JobId(40)))), "{events:?}");
    // Cancelled while paused, it ends, is saved and can be resumed.
    sandbox.worker.send(Request::Cancel(JobId(10)));
    let events = sandbox.until(|event| end(event) == Some(JobId(10)));
    assert!(matches!(events.last(), Some(Event::Cancelled(_))));
    assert!(
        events
            .iter()
            .any(|event| matches!(train_event(event), Some(TrainEvent::Ended { finished: false, .. })))
    );
    let cut = fs::read_to_string(disk.path("run/metrics.jsonl")).expect("metrics").lines().count();
    // It is resumed with another cache in the request than it began with.
    let resume = |job: u64, device: &str| {
        let (folder, cache) = (disk.path("run"), Some(disk.path("another")));
        Request::Fetch(JobId(job), Fetch::Resume { folder, device: Some(device.into()), cache })
    };
    let events = sandbox.job(resume(12, "nowhere"));
    let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
    assert!(fault.to_string().contains("nowhere"), "{fault}");
    let events = sandbox.job(resume(11, "cpu"));
    assert!(matches!(events.last(), Some(Event::Finished(_))), "{:?}", events.last());
    assert!(!disk.path("another").exists(), "its tokens lie where it began");
    let probes =
        events.iter().filter_map(train_event).find_map(pick!(TrainEvent::Probes(probes) => probes.len()));
    assert_eq!(probes, Some(8), "two heads, two seeds, best and last");
    assert_eq!(Run::open(&disk.path("run")).expect("a run").outcomes().expect("outcomes").len(), 4);
    // The same as an undisturbed training.
    let status = disk.train("alone", 30, &["--rate", "0.001"]).output().expect("the program runs");
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let metrics = |run: &str| fs::read_to_string(disk.path(run).join("metrics.jsonl")).expect("metrics");
    assert!(cut < metrics("run").lines().count(), "it was cut before its end");
    assert!(metrics("run") == metrics("alone"), "a look or a rest changed what is trained");
    // Where that cache is gone, the other takes its place.
    fs::remove_dir_all(disk.path("cache")).expect("removed");
    sandbox.job(resume(13, "cpu"));
    assert!(disk.path("another").exists());
}

#[test]
fn a_training_that_was_paused_before_it_began_waits() {
    let (disk, mut sandbox) = (run::Sandbox::new(24, 8), Sandbox::with(WorkerEnv::default(), &["sinkhorn"]));
    sandbox.worker.send(Request::Pause(JobId(10), true));
    // Another long job finds no task that waits.
    sandbox.job(Request::Compute(JobId(40), Compute::Stability(stability_request())));
    sandbox.worker.send(begin(10, disk.settings(2)));
    let paused = |event: &Event| matches!(train_event(event), Some(TrainEvent::Paused(true)));
    let events = sandbox.until(|event| paused(event) || end(event) == Some(JobId(10)));
    assert!(events.last().is_some_and(paused), "{events:?}");
    sandbox.worker.send(Request::Pause(JobId(10), false));
    let events = sandbox.until(|event| end(event) == Some(JobId(10)));
    assert!(matches!(events.last(), Some(Event::Finished(_))), "{events:?}");
}

/// Whether opening a device panics.
static BROKEN: AtomicBool = AtomicBool::new(false);

#[test]
fn a_panic_in_training_is_its_message_and_the_worker_goes_on() {
    let broken = |name: &str| {
        assert!(!BROKEN.load(Ordering::Relaxed), "the driver lost its mind");
        device::choose(name)
    };
    let disk = run::Sandbox::new(24, 8);
    let mut sandbox = Sandbox::with(WorkerEnv { device: broken, ..WorkerEnv::default() }, &["sinkhorn"]);
    BROKEN.store(true, Ordering::Relaxed);
    let draft = disk.settings(2);
    let events = sandbox.job(begin(10, draft.clone()));
    BROKEN.store(false, Ordering::Relaxed);
    let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
    assert!(fault.to_string().contains("lost its mind") && fault.remedy.is_some(), "{fault}");
    assert!(sandbox.job(look(20)).iter().any(|event| matches!(event, Event::Explained { .. })));
    // An error that is no panic: the folder cannot be created.
    fs::write(disk.path("file"), "").expect("a file");
    let out = Some(disk.path("file/run"));
    let events = sandbox.job(begin(11, TrainSettings { out, ..draft.clone() }));
    let Some(Event::Failed(_, fault)) = events.last() else { panic!("{events:?}") };
    assert!(fault.to_string().contains("file"), "{fault}");
    let events = sandbox.job(begin(12, draft));
    assert!(matches!(events.last(), Some(Event::Finished(_))));
    // Events place the steps they report at their midpoint: their intervals join to the two epochs.
    for seed in [0, 1] {
        let mut covered = 0.0;
        for event in &events {
            let Some(TrainEvent::Progressed(delta)) = train_event(event) else { continue };
            for steps in delta.steps.iter().filter(|steps| steps.seed == seed) {
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
    let (disk, mut sandbox) = (run::Sandbox::new(24, 8), Sandbox::new(WorkerEnv::default()));
    let mut program = disk.train("elsewhere", 40, &[]).spawn().expect("the program runs");
    let folder = disk.path("elsewhere");
    let begun = Instant::now();
    while !folder.join("metrics.jsonl").exists() {
        assert!(begun.elapsed() < TIMEOUT, "nothing is trained");
        std::thread::sleep(Duration::from_millis(20));
    }
    let events = sandbox.job(Request::Files(JobId(1), Files::OpenRun { folder: folder.clone() }));
    assert!(events.iter().any(|event| matches!(event, Event::RunRead { snapshot: Ok(_), .. })), "{events:?}");
    let listed = events.iter().find_map(pick!(Event::ProbesListed { sources, .. } => sources));
    let kinds: Vec<PathKind> = listed.expect("its sources").iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds, [PathKind::Backbone, PathKind::Dataset], "what it is trained on lies here");
    sandbox.worker.send(Request::Follow(vec![folder]));
    let mut lengths = Vec::new();
    sandbox.until(|event| {
        if let Event::RunRead { snapshot, .. } = event {
            let snapshot = snapshot.as_ref().expect("a run");
            lengths.push((snapshot.epochs.len(), snapshot.probes.len()));
        }
        // Two heads, two seeds, forty epochs; best and last.
        lengths.last() == Some(&(160, 8))
    });
    assert!(program.wait().expect("an end").success());
    assert!(lengths.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{lengths:?}");
    // When nothing changes any more, there are soon no events.
    let rests = (0..30).any(|_| {
        while sandbox.worker.event().is_some() {}
        std::thread::sleep(Duration::from_millis(1500));
        sandbox.worker.event().is_none()
    });
    assert!(rests, "a run that rests is told of");
}
