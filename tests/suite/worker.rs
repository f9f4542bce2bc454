//! The worker's real threads on the tiny fixtures: their answers, in which order these come, and what
//! happens when something fails.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use ssmprobe::app::jobs::regions::RegionSource;
use ssmprobe::app::jobs::{BackboneId, Explain, ExplainItem};
use ssmprobe::app::state::{ColumnState, Status};
use ssmprobe::app::worker::{Worker, WorkerEnv};
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::data::ImageSource;
use ssmprobe::model::device;
use ssmprobe::model::trace::{Attribution, Picture, Routing};

use crate::run::{self, fixture, probes};
use crate::training_worker::stability_request;
use crate::window::prelude::*;

/// Longer than any job here takes, also on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Random scores behind null bands: few, to be quick.
pub(super) const DRAWS: usize = 16;

/// A worker, and a channel that is signalled when it has events.
pub(super) struct Sandbox {
    pub(super) worker: Worker,
    wakeups: Receiver<()>,
}

impl Sandbox {
    pub(super) fn new(env: WorkerEnv) -> Self {
        let (wake, wakeups) = sync_channel(1);
        let waker = Arc::new(move || wake.try_send(()).unwrap_or_default());
        Self { worker: Worker::start(env, waker).expect("threads"), wakeups }
    }

    /// A worker with the fixture's backbone and these probes open, which have the ids 1, 2, ...
    pub(super) fn with(env: WorkerEnv, probes: &[&str]) -> Self {
        let mut sandbox = Self::new(env);
        sandbox.open("cpu");
        for (id, name) in (1..).zip(probes) {
            sandbox.open_probe(&format!("{name}.safetensors"), id);
        }
        sandbox
    }

    pub(super) fn send_all(&mut self, requests: Vec<Request>) {
        requests.into_iter().for_each(|request| self.worker.send(request));
    }

    /// Events up to and including the first that is `last`.
    pub(super) fn until(&mut self, mut last: impl FnMut(&Event) -> bool) -> Vec<Event> {
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
            assert!(begun.elapsed() < TIMEOUT, "nothing came after {events:?}");
            let _ = self.wakeups.recv_timeout(Duration::from_secs(1));
        }
    }

    /// Sends a request; all events up to the end of its job.
    pub(super) fn job(&mut self, request: Request) -> Vec<Event> {
        let job = request.job().expect("a job");
        self.worker.send(request);
        self.until(|event| end(event) == Some(job))
    }

    pub(super) fn open(&mut self, device: &str) -> Vec<Event> {
        let source = fixture("backbone").display().to_string();
        let (entry, device, options) = (BackboneId(1), device.to_owned(), BackboneOptions::default());
        self.job(Request::Fetch(JobId(1), Fetch::OpenBackbone { entry, source, device, options }))
    }

    pub(super) fn open_probe(&mut self, name: &str, id: u64) -> Vec<Event> {
        let path = fixture("probes").join(name);
        self.job(Request::Compute(JobId(1000 + id), Compute::OpenProbe { entry: ProbeId(id), path }))
    }
}

/// The job that an event ends, if any.
pub(super) fn end(event: &Event) -> Option<JobId> {
    match event {
        Event::Finished(job) | Event::Cancelled(job) | Event::Failed(job, _) => Some(*job),
        _ => None,
    }
}

fn fault(events: &[Event]) -> &UserError {
    match events.last() {
        Some(Event::Failed(_, fault)) => fault,
        other => panic!("did not fail: {other:?}"),
    }
}

/// The request to explain one image with one probe.
pub(super) fn look(job: u64, image: &Path, probe: u64) -> Request {
    look_at(job, image.to_owned().into(), probe)
}

/// The same for any source of an image.
pub(super) fn look_at(job: u64, image: ImageSource, probe: u64) -> Request {
    let asked = ExplainItem {
        column: ColumnId(1),
        image,
        backbone: BackboneId(1),
        probe: ProbeId(probe),
        change: Intervention::None,
        image_seed: 0,
    };
    let settings = ExplainSettings { null_draws: DRAWS, ..ExplainSettings::default() };
    Request::Compute(
        JobId(job),
        Compute::Explain(Explain {
            items: vec![asked],
            class: ClassChoice::Predicted,
            settings,
            regions: RegionSource::default(),
        }),
    )
}

/// What a request asks to explain.
pub(super) fn explanation(request: &mut Request) -> &mut Explain {
    match request {
        Request::Compute(_, Compute::Explain(look)) => look,
        other => panic!("{other:?}"),
    }
}

/// The result of the first explanation among events.
pub(super) fn seen(events: &[Event]) -> Result<Arc<Trace>, UserError> {
    let answers =
        events.iter().find_map(pick!(Event::Explained { results, .. } => results[0].result.clone()));
    answers.unwrap_or_else(|| panic!("nothing was seen: {events:?}"))
}

/// Hands events to the state and its requests to the worker until no job is left; all events.
pub(super) fn settle(sandbox: &mut Sandbox, state: &mut State) -> Vec<Event> {
    let (begun, mut events) = (Instant::now(), Vec::new());
    while state.jobs.values().any(|job| job.error.is_none()) {
        while let Some(event) = sandbox.worker.event() {
            events.push(event.clone());
            let requests = state.apply(event);
            sandbox.send_all(requests);
        }
        assert!(begun.elapsed() < TIMEOUT, "still at work: {:?}", state.jobs);
        let _ = sandbox.wakeups.recv_timeout(Duration::from_millis(200));
    }
    events
}

/// An explanation holds the image's regions, from its dataset or from a folder of masks; a mask that cannot be used is a
/// warning, and the image is explained without it.
#[test]
fn regions_come_with_an_explanation() {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path();
    let image = root.join("val/bird/one.png");
    fs::create_dir_all(image.parent().expect("a folder")).expect("made");
    fs::copy(fixture("images/one.png"), &image).expect("copied");
    let size = image::image_dimensions(&image).expect("a size");
    let mask = |place: &str, white: &dyn Fn(u32) -> bool, (width, height): (u32, u32)| {
        let path = root.join(place);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let white = |x, _| image::Luma([if white(x) { 255_u8 } else { 0 }]);
        image::GrayImage::from_fn(width, height, white).save(path).expect("saved");
    };
    mask("masks/val/bird/one.png", &|x| 2 * x < size.0, size);
    mask("other/one.png", &|_| true, size);
    mask("small/one.png", &|_| true, (size.0 - 1, size.1));
    let mut sandbox = Sandbox::with(WorkerEnv::default(), &["sinkhorn"]);
    let mut ask = |job: u64, regions: RegionSource| {
        let mut request = look(job, &image, 1);
        explanation(&mut request).regions = regions;
        sandbox.job(request)
    };
    let object = |events: &[Event]| {
        let trace = seen(events).expect("explained");
        trace.regions.as_ref().map(|regions| regions.object.clone())
    };
    let own = object(&ask(10, RegionSource::Dataset)).expect("masks beside its split");
    let share = own.iter().sum::<f64>() / own.len() as f64;
    assert!((share - 0.5).abs() < 0.05, "{share}");
    let all = object(&ask(11, RegionSource::new(Some(root.join("other"))))).expect("a folder of masks");
    assert!(all.iter().all(|cover| *cover > 0.99));
    assert_eq!(object(&ask(12, RegionSource::Nowhere)), None);
    for (job, name, expected) in
        [(13, "small", "expected a mask of the image's size"), (14, "absent", "is not a folder")]
    {
        let events = ask(job, RegionSource::new(Some(root.join(name))));
        assert_eq!(object(&events), None);
        let warned = events
            .iter()
            .any(|event| matches!(event, Event::Warning { text, .. } if text.contains(expected)));
        assert!(warned, "{events:?}");
    }
}

#[test]
fn a_window_sees_what_inspect_writes() {
    let out = TempDir::new().expect("a folder");
    let mut inspect = run::inspect(DRAWS);
    inspect.args(["--save-traces", "--attributions", "gradient,integrated,rollout", "--image"]);
    inspect.arg(fixture("images/one.png")).arg("--probe").args(probes());
    run::done(inspect.arg("--out").arg(out.path()));

    let mut sandbox = Sandbox::new(WorkerEnv::default());
    let mut state = State::new(Settings { device: "cpu".into(), ..Settings::default() });
    let draws = ExplainSettings { null_draws: DRAWS, ..ExplainSettings::default() };
    for command in [
        Command::SetExplainSettings(draws),
        Command::OpenBackbone(fixture("backbone").display().to_string()),
        Command::OpenRun(fixture("probes")),
        Command::OpenImages(vec![fixture("images")]),
    ] {
        let requests = state.dispatch(command);
        sandbox.send_all(requests);
    }
    settle(&mut sandbox, &mut state);
    assert_eq!(state.columns.len(), 4, "some probes become columns by themselves");
    for id in state.library.probes.keys().copied().collect::<Vec<_>>() {
        if state.columns.values().all(|column| column.probe != id) {
            let change = Intervention::None;
            sandbox.send_all(state.dispatch(Command::AddColumn { probe: id, image: None, change }));
        }
    }
    settle(&mut sandbox, &mut state);
    let none = |state: &State| {
        state.columns.values().all(|c| c.shown.trace().is_some_and(|t| t.attributions.is_empty()))
    };
    assert!(none(&state), "attributions that nobody asked for");
    let attributions = Attribution::ALL.to_vec().into();
    sandbox.send_all(state.dispatch(Command::SetExplainSettings(ExplainSettings { attributions, ..draws })));
    settle(&mut sandbox, &mut state);
    assert_eq!(state.columns.len(), probes().len());
    assert_eq!(state.library.images.len(), 3);
    for (id, column) in &state.columns {
        let name = state.column_title(*id);
        let ColumnState::Ready(trace) = &column.shown else { panic!("{name}: {:?}", column.shown) };
        let written = fs::read(out.path().join(format!("one/{name}.trace.json"))).expect("a trace");
        let shown = serde_json::to_vec(trace.as_ref()).expect("JSON");
        assert!(written == shown, "{name} differs from what inspect wrote");
    }
}

fn wait_for(go: &AtomicBool) {
    while !go.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the photographs of an environment that is [`held`] may be read.
static GO: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// An environment whose photographs wait for `GO[TEST]`: tests run beside each other.
fn held<const TEST: usize>() -> WorkerEnv {
    let photo = |place: &ImageSource| {
        wait_for(&GO[TEST]);
        place.photo()
    };
    WorkerEnv { photo, ..WorkerEnv::default() }
}

#[test]
fn of_fifty_explanations_the_last_is_computed() {
    let mut sandbox = Sandbox::with(held::<0>(), &["sinkhorn"]);
    let images = ["images/one.png", "images/sub/one.png", "images/sub/two.png"].map(fixture);
    for job in 10..60 {
        sandbox.worker.send(look(job, &images[job as usize % 3], 1));
    }
    GO[0].store(true, Ordering::Relaxed);
    let mut ended = HashSet::new();
    let events = sandbox.until(|event| {
        assert!(end(event).is_none_or(|job| ended.insert(job)), "{event:?} ends its job a second time");
        ended.len() == 50
    });
    let answered: Vec<JobId> =
        events.iter().filter_map(pick!(Event::Explained { job, .. } => *job)).collect();
    assert_eq!(answered.last(), Some(&JobId(59)));
    assert!(answered.len() < 10, "{} looks nobody waited for were answered", answered.len());
    assert!(events.iter().any(|event| matches!(event, Event::Finished(JobId(59)))));
}

#[test]
fn a_running_explanation_ends_when_it_is_cancelled() {
    let mut sandbox = Sandbox::with(held::<1>(), &["gap"]);
    sandbox.worker.send(look(10, &fixture("images/one.png"), 1));
    sandbox.until(|event| matches!(event, Event::Started(JobId(10))));
    sandbox.worker.send(Request::Cancel(JobId(10)));
    GO[1].store(true, Ordering::Relaxed);
    let events = sandbox.until(|event| end(event) == Some(JobId(10)));
    assert!(matches!(events.last(), Some(Event::Cancelled(_))), "{events:?}");
    let after = seen(&sandbox.job(look(11, &fixture("images/one.png"), 1))).expect("a trace");
    assert!(after.image.ends_with("one.png"), "{}", after.image);
}

#[test]
fn a_panic_ends_its_job_alone() {
    static CHOSEN: AtomicUsize = AtomicUsize::new(0);
    let env = WorkerEnv {
        device: |name| match name {
            "wgpu" => panic!("out of device memory"),
            name => {
                CHOSEN.fetch_add(1, Ordering::SeqCst);
                device::choose(name)
            }
        },
        photo: |place| match place.path.ends_with("two.png") {
            true => panic!("a decoder gave up"),
            false => place.photo(),
        },
        ..WorkerEnv::default()
    };
    let mut sandbox = Sandbox::new(env);
    let events = sandbox.open("wgpu");
    let fault = fault(&events);
    assert!(fault.to_string().contains("out of device memory"), "{fault}");
    assert!(fault.remedy.as_ref().is_some_and(|remedy| remedy.contains("CPU")), "{fault}");

    assert!(matches!(sandbox.open("cpu").last(), Some(Event::Finished(_))));
    sandbox.open_probe("sinkhorn.safetensors", 1);
    let before = seen(&sandbox.job(look(10, &fixture("images/one.png"), 1))).expect("a trace");
    let events = sandbox.job(look(11, &fixture("images/sub/two.png"), 1));
    assert!(self::fault(&events).to_string().contains("a decoder gave up"));
    let after =
        seen(&sandbox.job(look(12, &fixture("images/sub/one.png"), 1))).expect("the backbone is open again");
    assert_eq!(CHOSEN.load(Ordering::SeqCst), 2, "on a device of its own");
    assert_ne!(before.image, after.image);
    assert_eq!(before, seen(&sandbox.job(look(13, &fixture("images/one.png"), 1))).expect("a trace"));
}

#[test]
fn what_has_vanished_or_does_not_fit_is_told_with_a_remedy() {
    let mut sandbox = Sandbox::new(WorkerEnv::default());
    sandbox.open_probe("gap.safetensors", 1);
    let none = seen(&sandbox.job(look(5, &fixture("images/one.png"), 1))).expect_err("no backbone");
    assert!(none.remedy.as_ref().is_some_and(|remedy| remedy.contains("Open the backbone")), "{none}");
    sandbox.open("cpu");
    let gone = fixture("probes/gone.safetensors");
    let events =
        sandbox.job(Request::Compute(JobId(6), Compute::OpenProbe { entry: ProbeId(2), path: gone }));
    assert!(fault(&events).lines[0].contains("gone.safetensors"));
    assert!(fault(&events).remedy.as_ref().is_some_and(|remedy| remedy.contains("put it back")));
    let fault_of = |events: &[Event]| seen(events).expect_err("no trace");
    let gone = fault_of(&sandbox.job(look(7, &fixture("images/gone.png"), 1)));
    assert!(gone.lines[0].contains("gone.png") && gone.remedy.is_some(), "{gone}");
    let closed = fault_of(&sandbox.job(look(8, &fixture("images/one.png"), 9)));
    assert!(closed.lines[0].contains("not open"), "{closed}");
    let mut named = look(9, &fixture("images/one.png"), 1);
    explanation(&mut named).class = ClassChoice::Named("no such class".into());
    let class = fault_of(&sandbox.job(named));
    assert!(class.lines[0].contains("no such class"), "{class}");
    let source = fixture("nowhere").display().to_string();
    let (job, entry, device) = (JobId(3), BackboneId(2), "cpu".to_owned());
    let options = BackboneOptions::default();
    let events = sandbox.job(Request::Fetch(job, Fetch::OpenBackbone { entry, source, device, options }));
    assert!(fault(&events).lines[0].contains("nowhere"));
    let after = seen(&sandbox.job(look(10, &fixture("images/one.png"), 1))).expect("the open one still is");
    assert!(after.image.ends_with("one.png"), "{}", after.image);
}

#[test]
fn a_file_that_changes_is_read_again() {
    let folder = TempDir::new().expect("a folder");
    let image = folder.path().join("image.png");
    fs::copy(fixture("images/one.png"), &image).expect("a copy");
    let mut sandbox = Sandbox::with(WorkerEnv::default(), &["gap"]);
    let first = seen(&sandbox.job(look(10, &image, 1))).expect("a trace");
    fs::copy(fixture("images/sub/two.png"), &image).expect("a copy");
    let second = seen(&sandbox.job(look(11, &image, 1))).expect("a trace");
    assert_ne!(first.logits, second.logits);
}

#[test]
fn bands_of_chance_are_of_the_seed_that_is_set() {
    let open = || Sandbox::with(WorkerEnv::default(), &["sinkhorn"]);
    let bands = |sandbox: &mut Sandbox, job: u64, seed: u64| {
        let mut request = look(job, &fixture("images/one.png"), 1);
        explanation(&mut request).settings.seed = seed;
        let trace = seen(&sandbox.job(request)).expect("a trace");
        trace.diagnostics.values().map(|one| (one.null, one.untrained_band)).collect::<Vec<_>>()
    };
    let (mut sandbox, mut other) = (open(), open());
    let first = bands(&mut sandbox, 10, 0);
    let second = bands(&mut sandbox, 11, 1);
    assert_ne!(first, second);
    assert_eq!(second, bands(&mut other, 10, 1), "those of a worker that knew no other seed");
    assert_eq!(first, bands(&mut sandbox, 12, 0));
}

#[test]
fn tokens_kept_of_an_image_are_of_the_size_and_order_they_were_read_in() {
    let demo = run::root().join("assets/demo");
    let mut job = 1;
    let mut read = |sandbox: &mut Sandbox, options: BackboneOptions| {
        let (source, device) = (demo.join("mae").display().to_string(), "cpu".to_owned());
        let entry = BackboneId(1);
        sandbox.job(Request::Fetch(JobId(job), Fetch::OpenBackbone { entry, source, device, options }));
        let path = demo.join("probes/mae/raster.safetensors");
        sandbox.job(Request::Compute(JobId(job + 1), Compute::OpenProbe { entry: ProbeId(1), path }));
        job += 3;
        let image = demo.join("scenes/val/disc-dots/00002.png");
        let trace = seen(&sandbox.job(look(job - 1, &image, 1))).expect("a trace");
        // Tokens that are shuffled lie nowhere that a mask could say.
        assert_eq!(trace.regions.is_some(), options.mae_order == MaeOrder::Kept);
        (trace.logits.clone(), trace.seen.clone())
    };
    let [mut sandbox, mut other, mut third] = std::array::from_fn(|_| Sandbox::new(WorkerEnv::default()));
    let [in_order, in_another] = [MaeOrder::Kept, MaeOrder::Shuffled(1)]
        .map(|mae_order| BackboneOptions { mae_order, ..BackboneOptions::default() });
    let kept = read(&mut sandbox, in_order);
    let shuffled = read(&mut sandbox, in_another);
    assert_ne!(kept.0, shuffled.0, "row by row is another order");
    // Maps lie over the patches that the tokens are of.
    let pixels = |seen: &Picture| -> Vec<[u8; 3]> {
        let mut all = seen.rgb.as_chunks::<3>().0.to_vec();
        all.sort_unstable();
        all
    };
    assert!(kept.1 != shuffled.1 && pixels(&kept.1) == pixels(&shuffled.1), "the same patches elsewhere");
    assert_eq!(shuffled, read(&mut other, in_another), "as by a worker that knew no other");
    let smaller = BackboneOptions { pixels: Some(56), ..in_order };
    assert_eq!(read(&mut sandbox, smaller), read(&mut third, smaller), "as by a worker that knew no other");
    assert_eq!(kept, read(&mut sandbox, in_order));
    // A changed copy of an image is shuffled otherwise, so that no token has the place of the same patch.
    let answer = |sandbox: &mut Sandbox, job: u64| {
        let events = sandbox.job(Request::Compute(JobId(job), Compute::Stability(stability_request())));
        let measured = pick!(Event::StabilityMeasured { answer, .. } => answer.result);
        events.into_iter().find_map(measured).expect("an answer")
    };
    assert!(answer(&mut sandbox, 90).is_ok());
    let refused = answer(&mut other, 91).expect_err("its patches are unknown").to_string();
    assert!(refused.contains("shuffled order") && refused.contains("row by row"), "{refused}");
}

#[test]
fn interventions_change_the_order_and_nothing_else() {
    let mut sandbox = Sandbox::with(WorkerEnv::default(), &["sinkhorn", "gap"]);
    let mut job = 10;
    let mut through = |probe: u64, change: Intervention| {
        job += 1;
        let mut request = look(job, &fixture("images/one.png"), probe);
        explanation(&mut request).items[0].change = change;
        seen(&sandbox.job(request))
    };
    let learned = through(1, Intervention::None).expect("a trace");
    let raster = through(1, Intervention::NoRouting).expect("a trace");
    let n = learned.grid.len() as u32;
    assert_eq!(raster.routing, Routing::Orders(vec![(0..n).collect()]));
    assert_eq!((&raster.kernel, &raster.scores), (&learned.kernel, &learned.scores));
    assert!(raster.diagnostics.is_empty());
    let scrambled = through(1, Intervention::Scrambled(1)).expect("a trace");
    let (Routing::Plan(before), Routing::Plan(after)) = (&learned.routing, &scrambled.routing) else {
        panic!("no plans: {:?}", scrambled.routing)
    };
    assert_eq!((before.data.len(), after.data.len()), ((n * n) as usize, (n * n) as usize));
    for (before, after) in before.data.chunks(n as usize).zip(after.data.chunks(n as usize)) {
        let sorted = |row: &[f32]| {
            let mut row = row.to_vec();
            row.sort_by(f32::total_cmp);
            row
        };
        assert_eq!(sorted(before), sorted(after), "each token keeps its shares");
    }
    assert_ne!(learned.logits, scrambled.logits);
    let random = through(1, Intervention::Random(3)).expect("a trace");
    assert!(matches!(&random.routing, Routing::Orders(orders) if orders[0].len() == n as usize));
    let same = through(1, Intervention::Iterations(20)).expect("a trace");
    let sharp = through(1, Intervention::Temperature(0.01)).expect("a trace");
    assert_ne!(sharp.logits, learned.logits);
    assert_eq!(same.scores, learned.scores);
    let said = [&learned, &same, &scrambled].map(|trace| trace.reading.to_string());
    assert_eq!(said, ["as trained", "20 iterations", "scrambled after routing, seed 1"]);
    // Evidence of a changed reading still sums to its logit.
    for trace in [&raster, &scrambled, &random, &sharp] {
        let evidence = &trace.evidence;
        let sum: f32 = evidence.token.as_ref().expect("exact evidence").iter().sum();
        let logit = trace.logits[evidence.class];
        assert_close("a changed reading", sum + evidence.bias, logit, 1e-4 * (1.0 + f64::from(logit.abs())));
    }
    let refused = through(2, Intervention::NoRouting).expect_err("GAP reads no order");
    assert!(refused.lines[0].contains("gap"), "{refused}");
    let refused = through(1, Intervention::Temperature(0.0)).expect_err("it divides by zero");
    assert!(refused.to_string().contains("temperature"), "{refused}");
}

#[test]
fn ten_thousand_images_are_listed_at_once_and_thumbnails_follow_the_eye() {
    let folder = TempDir::new().expect("a folder");
    for class in ["a", "b"] {
        fs::create_dir(folder.path().join(class)).expect("a folder");
        for number in 0..5000 {
            fs::File::create(folder.path().join(format!("{class}/{number:05}.jpg"))).expect("a file");
        }
    }
    let mut sandbox = Sandbox::new(WorkerEnv::default());
    let mut state = State::new(Settings::default());
    sandbox.send_all(state.dispatch(Command::OpenImages(vec![folder.path().to_owned()])));
    settle(&mut sandbox, &mut state);
    assert_eq!(state.library.images.len(), 10_000);
    let names: Vec<_> = state.library.images.values().map(|image| image.source.path.clone()).collect();
    assert!(names.is_sorted());
    let sieve = ssmprobe::app::state::GalleryFilter { text: "B".into(), ..Default::default() };
    state.dispatch(Command::SetGalleryFilter(Box::new(sieve)));
    assert_eq!(state.gallery_images(None).len(), 5000);

    let one = fixture("images/one.png");
    let mut sandbox = Sandbox::new(WorkerEnv::default());
    let wanted = (0..500).map(|id| (ImageId(id), folder.path().join("a/00000.jpg").into())).collect();
    sandbox.worker.send(Request::Thumbnails { wanted, side: 16 });
    sandbox.worker.send(Request::Thumbnails { wanted: vec![(ImageId(900), one.clone().into())], side: 16 });
    let events = sandbox.until(|event| matches!(event, Event::ThumbnailReady { .. }));
    let Some(Event::ThumbnailReady { image: ImageId(900), picture }) = events.last() else {
        panic!("{:?}", events.last())
    };
    assert_eq!(picture.width.max(picture.height), 16);
    // The first wish may fill the queue, of 256 events, before the second comes.
    assert!(events.len() < 300, "{} thumbnails nobody looks at", events.len());
    assert!(events[..events.len() - 1].iter().all(|event| matches!(event, Event::ThumbnailFailed { .. })));
    let whole = image::image_dimensions(&one).expect("a picture");
    sandbox.worker.send(Request::Thumbnails { wanted: vec![(ImageId(901), one.into())], side: 4096 });
    let events = sandbox.until(|event| matches!(event, Event::ThumbnailReady { .. }));
    let Some(Event::ThumbnailReady { image: ImageId(901), picture }) = events.last() else {
        panic!("{:?}", events.last())
    };
    assert_eq!((picture.width as u32, picture.height as u32), whole, "a small image is not enlarged");
}

#[test]
fn closing_ends_the_threads_whatever_they_wait_for() {
    let mut sandbox = Sandbox::with(WorkerEnv::default(), &["gap"]);
    for job in 10..100 {
        sandbox.worker.send(look(job, &fixture("images/one.png"), 1));
    }
    // More events than the queue holds, and nobody receives them.
    let wanted = (0..2000).map(|id| (ImageId(id), fixture("images/gone.png").into())).collect();
    sandbox.worker.send(Request::Thumbnails { wanted, side: 16 });
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    drop(sandbox);
    assert!(begun.elapsed() < TIMEOUT);
}

#[test]
fn closing_does_not_wait_for_a_reader_that_never_comes_back() {
    static READING: AtomicBool = AtomicBool::new(false);
    let env = WorkerEnv {
        photo: |place| {
            READING.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_hours(1)); // stands for a pipe nobody writes to
            place.photo()
        },
        ..WorkerEnv::default()
    };
    let mut sandbox = Sandbox::with(env, &["gap"]);
    sandbox.worker.send(look(9, &fixture("images/one.png"), 1));
    wait_for(&READING);
    let begun = Instant::now();
    drop(sandbox);
    assert!(begun.elapsed() < TIMEOUT);
}

#[test]
fn dropped_files_are_recognised() {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("notes.txt"), "nothing").expect("a file");
    let mut sandbox = Sandbox::new(WorkerEnv::default());
    let mut state = State::new(Settings { device: "cpu".into(), ..Settings::default() });
    let dropped = vec![
        fixture("backbone"),
        fixture("probes/gap.safetensors"),
        fixture("images/one.png"),
        folder.path().join("notes.txt"),
    ];
    sandbox.send_all(state.dispatch(Command::OpenAny(dropped)));
    settle(&mut sandbox, &mut state);
    assert!(matches!(state.library.backbones[0].status, Status::Ready(_)));
    assert!(matches!(state.library.probes[0].status, Status::Ready(_)));
    assert!(matches!(state.columns[0].shown, ColumnState::Ready(_)), "{:?}", state.columns[0]);
    assert!(state.log_text().contains("notes.txt: not a backbone"), "{}", state.log_text());
}
