//! Stored evaluations: read again without being computed, and only where all that decides their numbers is the same.

use std::fs::{self, File};
use std::sync::LazyLock;
use std::time::SystemTime;

use ssmprobe::app::jobs::evaluate::stored::clear;
use ssmprobe::app::jobs::evaluate::{EvalProbe, EvalRequest, EvalSplit};
use ssmprobe::app::jobs::regions::RegionSource;
use ssmprobe::app::worker::WorkerEnv;
use ssmprobe::model::explain::evaluation::vectors::{KeptVectors, VectorKind};
use ssmprobe::model::explain::removal::Mode;
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::{data, device};

use crate::evaluation::{answers, dataset, open_dataset_with, subject};
use crate::run::{entries, fixture};
use crate::window::prelude::*;
use crate::worker::{DRAWS, Sandbox, settle};

/// Whether anything was extracted or evaluated.
fn is_computed(events: &[Event]) -> bool {
    let begins = |what: &str| ["Extracting", "Evaluating"].iter().any(|begin| what.starts_with(begin));
    events.iter().any(|event| matches!(event, Event::Progress(_, progress) if begins(&progress.what)))
}

/// Evaluates the one probe of a request: whether it was computed, and the evaluation to the last bit.
fn evaluate(sandbox: &mut Sandbox, request: &EvalRequest) -> (bool, String) {
    let events = sandbox.job(Request::Compute(JobId(90), Compute::Evaluate(request.clone())));
    let [answer] = answers(&events)[..] else { panic!("{events:?}") };
    (is_computed(&events), text(answer.result.as_ref().expect("an evaluation")))
}

/// All fields, NaN and infinities included; a copy has no means yet.
fn text(evaluation: &Evaluation) -> String {
    format!("{:?}", evaluation.clone())
}

/// The only evaluation that is stored beside the token caches.
fn stored(tokens: &Path) -> PathBuf {
    let mut files = entries(tokens);
    files.retain(|path| path.extension().is_some_and(|end| end == "evaluation"));
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}

/// The numbers of probes that are evaluated and only looked up, if a request asks for an evaluation.
fn asked(requests: &[Request]) -> Option<[usize; 2]> {
    requests.iter().find_map(|request| match request {
        Request::Compute(_, Compute::Evaluate(asked)) => Some([asked.subjects.len(), asked.stored.len()]),
        _ => None,
    })
}

/// Repaints the mask of an image.
fn mask(folder: &Path, name: &str, white: u32) {
    let path = folder.join("masks/val").join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let paint = |x, _| image::Luma([if x < white { 255_u8 } else { 0 }]);
    image::ImageBuffer::from_fn(48, 48, paint).save(path).expect("a mask");
}

#[test]
fn an_evaluation_is_read_only_where_all_that_decides_its_numbers_is_the_same() {
    static TOKENS: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a folder"));
    let env = WorkerEnv { tokens: || Some(TOKENS.path().to_owned()), ..WorkerEnv::default() };
    let folder = dataset(2);
    mask(folder.path(), "crane/00.png", 24);
    let (mut sandbox, part, request) = open_dataset_with(env, folder.path());
    let Request::Compute(_, Compute::Evaluate(request)) = request else { panic!("{request:?}") };
    let path = folder.path().join("probe.safetensors");
    let open = |sandbox: &mut Sandbox, file: &str| {
        fs::copy(fixture("probes").join(file), &path).expect("copied");
        let path = path.clone();
        sandbox.job(Request::Compute(JobId(80), Compute::OpenProbe { entry: ProbeId(3), path }));
    };
    open(&mut sandbox, "sinkhorn.safetensors");
    let request = EvalRequest { subjects: vec![subject(3)], ..request };
    let first = evaluate(&mut sandbox, &request).1;
    assert_eq!(evaluate(&mut sandbox, &request), (false, first.clone()));

    let change =
        |change| EvalRequest { subjects: vec![EvalProbe { change, ..subject(3) }], ..request.clone() };
    let settings = |settings| EvalRequest { settings, ..request.clone() };
    let other_part = |edit: &dyn Fn(&mut data::Dataset)| {
        let mut dataset = (*part.dataset).clone();
        edit(&mut dataset);
        EvalRequest { part: Arc::new(EvalSplit::new(dataset, Some(part.split))), ..request.clone() }
    };
    let order = HandOrder::new((0..16).rev().collect::<Vec<_>>()).expect("an order");
    let others = [
        change(Intervention::Scrambled(0)),
        change(Intervention::Scrambled(1)),
        change(Intervention::Order(order)),
        settings(ExplainSettings { seed: 1, ..request.settings }),
        settings(ExplainSettings { null_draws: DRAWS + 1, ..request.settings }),
        EvalRequest { regions: RegionSource::Nowhere, ..request.clone() },
        other_part(&|dataset| dataset.classes[2] = "owl".into()),
        other_part(&|dataset| dataset.samples.last_mut().expect("one").class = 0),
        other_part(&|dataset| drop(dataset.samples.pop())),
        EvalRequest {
            part: Arc::new(EvalSplit::new((*part.dataset).clone(), Some(data::Split::Train))),
            ..request.clone()
        },
    ];
    for (at, other) in others.iter().enumerate() {
        let (is_computed, found) = evaluate(&mut sandbox, other);
        assert!(is_computed && found != first, "request {at}");
        assert_eq!(evaluate(&mut sandbox, other), (false, found), "request {at}");
    }
    assert_eq!(evaluate(&mut sandbox, &request), (false, first.clone()), "it is not replaced");
    let unused = settings(ExplainSettings { rho: Some(0.5), ..request.settings });
    assert_eq!(evaluate(&mut sandbox, &unused), (false, first.clone()), "no evidence is drawn of a dataset");
    // Removal curves only add columns: those used last are read where none are asked for.
    let with = |mode: Mode| EvalRequest { removals: vec![mode], ..request.clone() };
    for mode in [Mode::Frozen, Mode::Pixels] {
        let (is_computed, curves) = evaluate(&mut sandbox, &with(mode));
        assert!(is_computed && curves != first, "{mode:?}");
        for again in [&with(mode), &request] {
            assert_eq!(evaluate(&mut sandbox, again), (false, curves.clone()), "{mode:?}");
        }
    }
    let other_driver = WorkerEnv {
        device: |name| {
            device::choose(name).map(|mut choice| {
                choice.found.driver = "another".into();
                choice
            })
        },
        ..env
    };
    let (mut other_desk, ..) = open_dataset_with(other_driver, folder.path());
    open(&mut other_desk, "sinkhorn.safetensors");
    assert!(!evaluate(&mut other_desk, &with(Mode::Frozen)).0, "the encoder is not needed");
    assert!(evaluate(&mut other_desk, &with(Mode::Pixels)).0, "another driver rounds otherwise");
    for build in [Some("another"), None] {
        let (mut sandbox, ..) = open_dataset_with(WorkerEnv { build, ..env }, folder.path());
        open(&mut sandbox, "sinkhorn.safetensors");
        assert_eq!(evaluate(&mut sandbox, &request), (true, first.clone()), "{build:?}");
        assert_eq!(evaluate(&mut sandbox, &request), (build.is_none(), first.clone()), "{build:?}");
    }

    // What changes in place: a mask, the probe's file, and the time of an image.
    assert!(clear(TOKENS.path()) > 0 && evaluate(&mut sandbox, &request) == (true, first.clone()));
    mask(folder.path(), "crane/00.png", 40);
    let (is_computed, repainted) = evaluate(&mut sandbox, &request);
    assert!(is_computed && repainted != first);
    assert_eq!(evaluate(&mut sandbox, &request), (false, repainted.clone()));
    open(&mut sandbox, "softsort.safetensors");
    let (is_computed, found) = evaluate(&mut sandbox, &request);
    assert!(is_computed && found != repainted);
    open(&mut sandbox, "sinkhorn.safetensors");
    assert_eq!(evaluate(&mut sandbox, &request), (false, repainted.clone()));
    let image = folder.path().join("val/crane/01.png");
    let earlier = SystemTime::now() - Duration::from_hours(1);
    File::options().append(true).open(&image).and_then(|file| file.set_modified(earlier)).expect("set");
    assert_eq!(evaluate(&mut sandbox, &request), (true, repainted.clone()), "it may be another image");

    // A file that is damaged, another's, or one that cannot be written.
    clear(TOKENS.path());
    evaluate(&mut sandbox, &request);
    let file = stored(TOKENS.path());
    let mut bytes = fs::read(&file).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, &bytes).expect("damaged");
    assert_eq!(evaluate(&mut sandbox, &request), (true, repainted.clone()));
    fs::remove_file(&file).expect("removed");
    evaluate(&mut sandbox, &others[3]);
    fs::rename(stored(TOKENS.path()), &file).expect("renamed");
    assert_eq!(evaluate(&mut sandbox, &request), (true, repainted.clone()));
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder in the way");
    let events = sandbox.job(Request::Compute(JobId(90), Compute::Evaluate(request)));
    assert!(answers(&events)[0].result.is_ok());
    let told = events.iter().position(|event| matches!(event, Event::Evaluated { .. }));
    let is_warning =
        |event: &Event| matches!(event, Event::Warning { text, .. } if text.contains("is not stored"));
    assert!(told < events.iter().position(is_warning), "it is told before it is stored: {events:?}");
}

#[test]
fn a_restored_workspace_shows_what_was_evaluated_and_computes_nothing_by_itself() {
    static TOKENS: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().expect("a folder"));
    let env = || WorkerEnv { tokens: || Some(TOKENS.path().to_owned()), ..WorkerEnv::default() };
    let state = || State::new(Settings { device: "cpu".into(), ..Settings::default() });
    let folder = dataset(2);
    mask(folder.path(), "crane/00.png", 24);
    let warns = |event: &Event| matches!(event, Event::Warning { text, .. } if text.contains("have no mask"));
    let (mut sandbox, mut before) = (Sandbox::new(env()), state());
    let mut does = |state: &mut State, command: Command| {
        sandbox.send_all(state.dispatch(command));
        settle(&mut sandbox, state)
    };
    let probes = ["sinkhorn", "gap"].map(|name| fixture("probes").join(format!("{name}.safetensors")));
    let settings = ExplainSettings { null_draws: DRAWS, ..ExplainSettings::default() };
    does(&mut before, Command::SetExplainSettings(settings));
    does(&mut before, Command::OpenBackbone(fixture("backbone").display().to_string()));
    does(&mut before, Command::OpenProbes(probes.to_vec()));
    does(&mut before, Command::OpenDataset(folder.path().to_owned(), None));
    let probe = before.library.probe_at(&probes[0]).expect("open");
    let order = HandOrder::new((0..16).rev().collect::<Vec<_>>()).expect("an order");
    for change in [Intervention::Order(order), Intervention::Scrambled(1)] {
        does(&mut before, Command::AddColumn { probe, image: None, change });
    }
    let events = does(&mut before, Command::Evaluate { all: false });
    assert!(is_computed(&events) && events.iter().any(warns), "{events:?}");
    let shown = |state: &State| -> Vec<Option<String>> {
        let of = |id| Some(text(state.evaluation_of(id)?.expect("an evaluation")));
        state.columns.keys().map(|id| of(*id)).collect()
    };
    let plain = shown(&before);
    does(&mut before, Command::EvaluateRemovals(vec![Mode::Frozen]));
    let known = shown(&before);
    assert!(
        known.len() == 4 && known.iter().zip(&plain).all(|(known, plain)| known.is_some() && known != plain)
    );
    let scrambled = *before.columns.keys().last().expect("a column");
    let evaluation = before.evaluation_of(scrambled).expect("evaluated").expect("an evaluation");
    assert!(
        matches!(evaluation.vectors[&VectorKind::Evidence], KeptVectors::Float16(_)),
        "to compare images by"
    );

    let restored = |edit: &dyn Fn(&mut Workspace)| {
        let mut workspace = before.workspace(Value::Null);
        edit(&mut workspace);
        let (mut sandbox, mut state) = (Sandbox::new(env()), state());
        let mut requests = state.restore(workspace);
        let last = loop {
            let last = requests.iter().find_map(|request| match request {
                Request::Compute(_, Compute::Evaluate(lookup)) => lookup.stored.last().cloned(),
                _ => None,
            });
            sandbox.send_all(requests);
            if let Some(last) = last {
                break last;
            }
            requests = state.apply(sandbox.until(|_| true).remove(0));
        };
        (sandbox, state, last)
    };
    let again = |edit: &dyn Fn(&mut Workspace)| {
        let (mut sandbox, mut state, last) = restored(edit);
        let column = state.columns.values().next().expect("a column");
        assert_eq!((last.probe, &last.change), (column.probe, &column.change), "the latest keep all numbers");
        assert!(Action::EvaluateShown.enabled(&state), "the lookup gives way to an evaluation");
        let events = settle(&mut sandbox, &mut state);
        assert!(!events.iter().any(warns), "they were given before");
        assert!(!is_computed(&events) && state.evaluations.job().is_none(), "{}", state.log_text());
        shown(&state)
    };
    assert_eq!(again(&|_| {}), known);
    // What was not evaluated is not begun, although the probe as trained was.
    let found = again(&|workspace| workspace.columns[3].change = Intervention::Scrambled(2));
    assert!(found[..3] == known[..3] && found[3].is_none());
    assert!(again(&|workspace| workspace.explain.seed = 1).iter().all(Option::is_none));
    // What is evaluated in place of the lookup, also with curves that no other probe has, looks up the rest.
    let hides_one = |workspace: &mut Workspace| drop(workspace.columns.remove(1));
    let (mut sandbox, mut now, _) = restored(&hides_one);
    for command in [Command::Evaluate { all: false }, Command::EvaluateRemovals(vec![Mode::Rerouted])] {
        let requests = now.dispatch(command);
        assert_eq!(asked(&requests), Some([3, 1]));
        sandbox.send_all(requests);
    }
    settle(&mut sandbox, &mut now);
    let hidden = now.library.probe_at(&probes[1]).expect("open");
    let found = now.evaluation(hidden, &Intervention::None).expect("looked up").expect("an evaluation");
    assert_eq!(Some(text(found)), known[1]);
    // The same where it was asked for before all was open, which it waits for.
    let mut workspace = before.workspace(Value::Null);
    hides_one(&mut workspace);
    let (mut sandbox, mut now) = (Sandbox::new(env()), state());
    sandbox.send_all(now.restore(workspace));
    let waiting = now.dispatch(Command::EvaluateRemovals(vec![Mode::Pixels]));
    assert_eq!(asked(&waiting), None);
    sandbox.send_all(waiting);
    let found = loop {
        let requests = now.apply(sandbox.until(|_| true).remove(0));
        if let Some(found) = asked(&requests) {
            break found;
        }
        sandbox.send_all(requests);
    };
    assert_eq!(found, [3, 1]);
}
