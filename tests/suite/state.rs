//! The window's state under sequences of commands and worker events, and the requests it makes of the
//! worker. No thread, no window, no weights.

use std::collections::VecDeque;
use std::time::SystemTime;

use ssmprobe::app::jobs::extract::TokenSettings;
use ssmprobe::app::jobs::folder::Folder;
use ssmprobe::app::jobs::history::disk::RunSnapshot;
use ssmprobe::app::jobs::info::{BackboneInfo, Compatibility};
use ssmprobe::app::jobs::regions::RegionSource;
use ssmprobe::app::jobs::train::TrainSettings;
use ssmprobe::app::jobs::{
    BackboneId, DatasetId, Explain, ExplainResult, PathKind, Progress, TrainCommand, Unit,
};
use ssmprobe::app::state::command::Effect;
use ssmprobe::app::state::workspace::{Entry, SavedDataset, SavedImage, SavedNote, SavedProbe};
use ssmprobe::app::state::{
    ColumnState, Finding, GalleryFilter, Image, Overlay, Phase, Selection, SheetView, Status,
};
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::token_spec::{TokenSpec, Trained};
use ssmprobe::model::probe::head::Config;
use ssmprobe::model::trace::Prediction;
use ssmprobe::viz::Options;
use ssmprobe::viz::draw::hover::Hover;

use crate::window::prelude::*;

pub(super) fn backbone(id: &str, width: usize, grid: Grid) -> BackboneInfo {
    BackboneInfo {
        id: id.into(),
        model_type: "vit".into(),
        width,
        layers: 2,
        patch: [8, 8],
        grid: Some(grid),
        cls: true,
        fingerprint: format!("weights of {id}"),
        config: Some("4 heads".into()),
        device: "cpu".into(),
        adapter: "a processor".into(),
        options: BackboneOptions::default(),
    }
}

pub(super) fn probe(name: &str, width: usize) -> ProbeInfo {
    ProbeInfo {
        name: name.into(),
        head: "gap".into(),
        head_name: "GAP".into(),
        config: Config::default(),
        width,
        tokens: None,
        needs_cls: false,
        routed: false,
        soft: false,
        iterated: false,
        classes: ["cat".to_owned(), "dog".to_owned()].into(),
        class_count: 2,
        backbone: "one".into(),
        backbone_fingerprint: None,
        backbone_config: None,
        trained: None,
        accuracy: None,
        selection: None,
        fingerprint: format!("file of {name}"),
    }
}

pub(super) fn trace(image: &str) -> Trace {
    let best = Prediction { index: 0, name: "cat".into(), logit: 1.0, probability: 0.7 };
    Trace {
        image: image.into(),
        probe: "p".into(),
        head: "gap".into(),
        backbone: "one".into(),
        grid: Grid::new(2, 2),
        logits: vec![1.0, 0.0],
        top: vec![best],
        ..Trace::default()
    }
}

/// A probe that is called as its file.
fn probe_of(path: &Path) -> ProbeInfo {
    probe(&path.file_stem().unwrap().to_string_lossy(), 24)
}

/// The answer to a request to open something, with the descriptions above and `probe`; `None` to others.
pub(super) fn opened(request: &Request, probe: impl Fn(&Path) -> ProbeInfo) -> Option<Event> {
    match request {
        Request::Fetch(job, Fetch::OpenBackbone { entry, source, options, .. }) => {
            let info = BackboneInfo { options: *options, ..backbone(source, 24, Grid::new(2, 2)) };
            Some(Event::BackboneOpened { job: *job, entry: *entry, info })
        }
        Request::Compute(job, Compute::OpenProbe { entry, path }) => {
            Some(Event::ProbeOpened { job: *job, entry: *entry, info: probe(path) })
        }
        Request::Files(job, Files::OpenImages { paths }) => {
            Some(Event::ImagesListed { job: *job, paths: paths.clone() })
        }
        _ => None,
    }
}

/// Answers requests in place of the worker; the last request to explain, which stays unanswered.
pub(super) fn play(state: &mut State, requests: Vec<Request>) -> Option<(JobId, Explain)> {
    let mut requests = VecDeque::from(requests);
    let mut last = None;
    while let Some(request) = requests.pop_front() {
        if let (Some(job), Some(event)) = (request.job(), opened(&request, probe_of)) {
            for event in [Event::Started(job), event, Event::Finished(job)] {
                requests.extend(state.apply(event));
            }
        }
        if let Request::Compute(job, Compute::Explain(look) | Compute::ExplainMany(look)) = request {
            last = Some((job, look));
        }
    }
    last
}

/// Answers every column of a request to explain; the requests that follow.
pub(super) fn answer(state: &mut State, (job, look): &(JobId, Explain)) -> Vec<Request> {
    let results = look.items.iter().map(|asked| {
        let image = asked.image.to_string();
        ExplainResult { column: asked.column, result: Ok(Arc::new(trace(&image))), by_hand: None }
    });
    let mut requests = state.apply(Event::Explained { job: *job, results: results.collect() });
    requests.extend(state.apply(Event::Finished(*job)));
    requests
}

pub(super) fn does(state: &mut State, command: Command) -> Option<(JobId, Explain)> {
    let requests = state.dispatch(command);
    play(state, requests)
}

/// A state with backbone `one`, probes `a` and `b`, and images `x`, `y`, `z`, all explained.
pub(super) fn story() -> State {
    let mut state = State::new(Settings::default());
    let mut last = None;
    for command in [
        Command::OpenImages(["x.png", "y.png", "z.png"].map(PathBuf::from).to_vec()),
        Command::OpenBackbone("one".into()),
        Command::OpenProbes(["a.safetensors", "b.safetensors"].map(PathBuf::from).to_vec()),
    ] {
        last = does(&mut state, command).or(last);
    }
    answer(&mut state, &last.expect("a look"));
    assert!(state.columns.values().all(|column| matches!(column.shown, ColumnState::Ready(_))));
    assert!(state.jobs.is_empty(), "{:?}", state.jobs);
    state
}

/// The only request, which is to open a probe.
#[track_caller]
pub(super) fn probe_asked(requests: &[Request]) -> (JobId, ProbeId) {
    match requests {
        [Request::Compute(job, Compute::OpenProbe { entry, .. })] => (*job, *entry),
        other => panic!("{other:?}"),
    }
}

/// The only request, which is to open a backbone.
#[track_caller]
fn backbone_asked(requests: &[Request]) -> (JobId, BackboneId) {
    match requests {
        [Request::Fetch(job, Fetch::OpenBackbone { entry, .. })] => (*job, *entry),
        other => panic!("{other:?}"),
    }
}

/// A probe that was trained on such tokens.
pub(super) fn trained_on(name: &str, token_spec: TokenSpec) -> ProbeInfo {
    let trained = Some(Box::new(Trained { token_spec, preprocessing: None }));
    ProbeInfo { trained, ..probe(name, 24) }
}

/// Progress of so many units of so many, after these seconds.
pub(super) fn progress(what: &str, [done, total]: [u64; 2], unit: Unit, seconds: u64) -> Progress {
    let elapsed = Duration::from_secs(seconds);
    Progress { what: what.into(), done, total: Some(total), unit, elapsed, left: None }
}

pub(super) fn column(state: &State, at: usize) -> ColumnId {
    *state.columns.get_index(at).expect("a column").0
}

#[test]
fn opening_things_ends_in_columns_that_show_them() {
    let state = story();
    assert_eq!(state.columns.len(), 2);
    assert_eq!(state.current_image().map(Image::name).as_deref(), Some("x.png"));
    assert_eq!(state.settings.recent.backbones, ["one"]);
    assert_eq!(state.library.classes(), ["cat", "dog"]);
}

#[test]
fn a_new_image_asks_once_and_a_late_answer_changes_nothing() {
    let mut state = story();
    let requests = state.dispatch(Command::Step(1));
    let [Request::Compute(job, Compute::Explain(first))] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(first.items.len(), 2);
    assert!(first.items.iter().all(|item| item.image.path == Path::new("y.png")));
    for column in state.columns.values() {
        assert!(matches!(column.shown, ColumnState::Waiting(Some(_))), "what was there stays in sight");
    }
    let outdated = |state: &State| state.columns.keys().filter(|id| state.is_outdated(**id)).count();
    assert_eq!(outdated(&state), 2, "and is told from what was asked for");
    assert!(state.dispatch(Command::Hover(Hover { token: Some(1), ..Hover::default() })).is_empty());
    assert!(state.dispatch(Command::Step(0)).is_empty(), "the same image is not asked for twice");
    let requests = state.dispatch(Command::Step(5));
    let [Request::Cancel(cancelled), Request::Compute(newer, Compute::Explain(second))] = requests.as_slice()
    else {
        panic!("{requests:?}")
    };
    assert_eq!(cancelled, job);
    assert!(answer(&mut state, &(*job, first.clone())).is_empty());
    assert!(state.columns.values().all(|column| matches!(column.shown, ColumnState::Waiting(_))), "too late");
    state.apply(Event::Cancelled(*job));
    assert!(state.columns.values().all(|column| matches!(column.shown, ColumnState::Waiting(_))));
    answer(&mut state, &(*newer, second.clone()));
    let shown = state.columns.values().map(|column| column.shown.trace().expect("a trace").image.clone());
    assert!(shown.into_iter().all(|image| image == "z.png"), "the end of the list is the end");
    assert_eq!(outdated(&state), 0);
    assert_eq!(state.selection.hover.token, Some(1));
}

#[test]
fn an_answer_does_not_replace_what_came_after_it_was_asked() {
    let mut state = story();
    let look = does(&mut state, Command::Step(1)).expect("a look");
    let images: Vec<_> = state.library.images.keys().copied().collect();
    assert!(does(&mut state, Command::CloseImages(images.clone())).is_none());
    assert!(state.dispatch(Command::CloseImages(images[..1].to_vec())).is_empty(), "it is closed");
    answer(&mut state, &look);
    assert!(state.columns.values().all(|column| matches!(column.shown, ColumnState::Nothing)));
    assert_eq!(state.why_nothing(column(&state, 0)), "Choose an image");
    // Nor does the listing of a folder.
    let mut list = |path: &str| {
        let requests = state.dispatch(Command::ListFolder(path.into()));
        let job = requests.iter().find_map(pick!(Request::Files(job, Files::ListFolder { .. }) => *job));
        let (path, entries, file) = (path.into(), Vec::new(), None);
        let folder = Arc::new(Folder { path, entries, cut: false, unnamed: 0, file });
        Event::FolderListed { job: job.expect("a listing"), folder }
    };
    for listed in [list("older"), list("newer")].into_iter().rev() {
        state.apply(listed);
        assert_eq!(state.browser.folder.as_ref().expect("a folder").path, Path::new("newer"));
    }
}

#[test]
fn the_device_of_a_backbone_being_opened_can_still_be_chosen() {
    let mut state = State::new(Settings::default());
    let first = state.dispatch(Command::OpenBackbone("one".into()))[0].job().expect("a job");
    state.dispatch(Command::SetScale(1.5));
    state.dispatch(Command::SetScale(2.0));
    assert_eq!((state.settings.scale, state.undo_text()), (2.0, Some("Change size")));
    state.dispatch(Command::Undo);
    assert_eq!(state.settings.scale, 1.0, "one step for a size that is changed several times");
    let requests = state.dispatch(Command::SetDevice("cpu".into()));
    let [Request::Cancel(cancelled), Request::Fetch(_, Fetch::OpenBackbone { device, .. })] =
        requests.as_slice()
    else {
        panic!("{requests:?}")
    };
    assert_eq!((*cancelled, device.as_str()), (first, "cpu"));
    assert_eq!(state.training.form.device, "cpu", "the next training is computed there too");
    let options = BackboneOptions { layer: Some(1), ..BackboneOptions::default() };
    let requests = state.dispatch(Command::SetBackboneOptions(options));
    assert!(
        matches!(&requests[1], Request::Fetch(_, Fetch::OpenBackbone { options: asked, .. }) if *asked == options)
    );
    play(&mut state, requests);
    assert!(state.library.backbone().is_some());
}

#[test]
fn a_probe_that_is_opened_anew_while_it_is_being_opened_takes_the_place_of_that_and_is_remembered() {
    let mut state = State::new(Settings::default());
    let (first, entry) = probe_asked(&state.dispatch(Command::OpenProbes(vec!["a.safetensors".into()])));
    let requests = state.dispatch(Command::ReopenProbe(entry));
    let [Request::Cancel(cancelled), Request::Compute(job, Compute::OpenProbe { .. })] = requests[..] else {
        panic!("{requests:?}")
    };
    assert_eq!((cancelled, state.jobs.len()), (first, 1));
    state.apply(Event::ProbeOpened { job, entry, info: probe("a", 24) });
    state.apply(Event::Finished(job));
    assert_eq!(state.settings.recent.probes, [PathBuf::from("a.safetensors")]);
}

#[test]
fn backbones_read_images_as_the_open_probes_were_trained() {
    let mut state = State::new(Settings::default());
    does(&mut state, Command::OpenBackbone("one".into()));
    let mut open = |name: &str, token_spec: TokenSpec| {
        let requests = state.dispatch(Command::OpenProbes(vec![format!("{name}.safetensors").into()]));
        let (job, entry) = probe_asked(&requests);
        let requests = state.apply(Event::ProbeOpened { job, entry, info: trained_on(name, token_spec) });
        let options = requests
            .iter()
            .find_map(pick!(Request::Fetch(_, Fetch::OpenBackbone { options, .. }) => *options));
        play(&mut state, requests);
        (options, state.library.fit(entry), state.training.form.tokens.token_spec)
    };
    let deep = TokenSpec { layer: Some(1), size: Some(160), ..TokenSpec::default() };
    let options = BackboneOptions { layer: Some(1), pixels: Some(160), ..BackboneOptions::default() };
    assert_eq!(open("deep", deep), (Some(options), Some(Compatibility::Fits), deep));
    // A probe trained otherwise changes nothing, and is marked as a mismatch.
    let (options, fit, token_spec) = open("last", TokenSpec { size: Some(160), ..TokenSpec::default() });
    assert_eq!((options, token_spec), (None, deep));
    let Some(Compatibility::Doubtful(why)) = fit else { panic!("{fit:?}") };
    assert_eq!(why, "Trained on tokens after the last layer, not tokens after layer 1");
}

#[test]
fn a_changed_column_is_asked_for_alone() {
    let mut state = story();
    let (first, second) = (column(&state, 0), column(&state, 1));
    let look = does(&mut state, Command::SetIntervention(second, Intervention::NoRouting)).expect("a look");
    assert_eq!(look.1.items.iter().map(|item| item.column).collect::<Vec<_>>(), [second]);
    answer(&mut state, &look);
    assert_eq!(state.column_title(second), "b · no routing");
    let image = *state.library.images.get_index(2).unwrap().0;
    let look = does(&mut state, Command::SetImage(first, Some(image))).expect("a look");
    assert_eq!(look.1.items[0].image.path, Path::new("z.png"));
    answer(&mut state, &look);
    let look = does(&mut state, Command::SetClass(ClassChoice::Named("dog".into()))).expect("a look");
    assert_eq!((look.1.items.len(), &look.1.class), (2, &ClassChoice::Named("dog".into())));
    answer(&mut state, &look);
    assert!(does(&mut state, Command::SetClass(ClassChoice::Named("dog".into()))).is_none());
    let look = does(&mut state, Command::SetClass(ClassChoice::Named(" ".into()))).expect("a look");
    assert_eq!(look.1.class, ClassChoice::Predicted, "no name");
}

#[test]
fn a_number_that_is_dragged_is_one_step_for_each_column() {
    let mut state = story();
    let (first, second) = (column(&state, 0), column(&state, 1));
    let hot = Intervention::Temperature;
    for (id, value) in [(first, 0.5), (first, 0.25), (second, 2.0), (second, 3.0), (first, 0.125)] {
        let look = does(&mut state, Command::SlideIntervention(id, hot(value))).expect("a look");
        let asked = look.1.items.iter().find(|item| item.column == id);
        assert_eq!(asked.map(|item| item.change.clone()), Some(hot(value)));
    }
    assert!(
        does(&mut state, Command::SlideIntervention(first, hot(0.125))).is_none(),
        "it stands there already"
    );
    let changes = |state: &State| [first, second].map(|id| state.columns[&id].change.clone());
    for expected in
        [[hot(0.25), hot(3.0)], [hot(0.25), Intervention::None], [Intervention::None, Intervention::None]]
    {
        state.dispatch(Command::Undo);
        assert_eq!(changes(&state), expected);
    }
    assert_eq!(state.redo_text(), Some("Adjust how a reads, column 1"));
}

#[test]
fn a_column_comes_to_stand_where_it_is_moved() {
    let mut state = story();
    let probe = state.columns[&column(&state, 0)].probe;
    state.dispatch(Command::AddColumn { probe, image: None, change: Intervention::NoRouting });
    let [a, b, c] = [0, 1, 2].map(|at| column(&state, at));
    for (moved, to, expected) in [(a, 1, [b, a, c]), (a, 2, [b, c, a]), (a, 0, [a, b, c]), (b, 9, [a, c, b])]
    {
        state.dispatch(Command::MoveColumn(moved, to));
        assert_eq!([0, 1, 2].map(|at| column(&state, at)), expected, "moved to {to}");
    }
}

#[test]
fn a_column_that_waited_when_it_went_is_asked_for_again_beside_another_look() {
    let mut state = story();
    let (first, second) = (column(&state, 0), column(&state, 1));
    let last = *state.library.images.get_index(2).unwrap().0;
    does(&mut state, Command::SetImage(second, Some(last))).expect("a look");
    state.dispatch(Command::RemoveColumn(second));
    // Its request ends with a newer one for the first column alone, whose probe file was rewritten.
    let requests = state.dispatch(Command::ReopenProbe(state.columns[&first].probe));
    let (job, entry) = probe_asked(&requests);
    let info = ProbeInfo { fingerprint: "written anew".into(), ..probe("a", 24) };
    let requests = state.apply(Event::ProbeOpened { job, entry, info });
    let look = play(&mut state, requests).expect("a look");
    assert_eq!(look.1.items.iter().map(|item| item.column).collect::<Vec<_>>(), [first]);
    let look = does(&mut state, Command::Undo).expect("a look");
    assert!(look.1.items.iter().any(|item| item.column == second), "it would wait for ever: {look:?}");
}

#[test]
fn of_backbones_that_fit_a_probe_reads_the_one_of_its_name() {
    let mut state = State::new(Settings::default());
    for source in ["other", "one"] {
        does(&mut state, Command::OpenBackbone(source.into()));
    }
    does(&mut state, Command::OpenProbes(vec!["a.safetensors".into()]));
    let probe = state.columns[&column(&state, 0)].probe;
    assert_eq!(state.library.backbone_of(probe).expect("a backbone").1.id, "one", "the second of the two");
}

#[test]
fn what_does_not_fit_says_so_and_is_not_asked_for() {
    let mut state = story();
    let requests = state.dispatch(Command::OpenBackbone("nowhere".into()));
    state.apply(Event::Failed(requests[0].job().expect("a job"), UserError::new("no such folder")));
    assert!(state.library.backbone().is_some(), "a wrong name costs nothing");
    let requests = state.dispatch(Command::OpenBackbone("wide".into()));
    let (job, entry) = backbone_asked(&requests);
    state.apply(Event::Started(job));
    let info = backbone("wide", 32, Grid::new(2, 2));
    let requests = state.apply(Event::BackboneOpened { job, entry, info });
    assert!(requests.is_empty(), "{requests:?}");
    assert_eq!(state.library.open_backbones().count(), 2, "one beside the other");
    let probe = *state.library.probes.get_index(0).unwrap().0;
    assert_eq!(state.library.fit(probe), Some(Compatibility::Fits));
    let one = state.library.backbone_of(probe).expect("the one it fits").0;
    assert_ne!(one, entry);
    assert_eq!(state.dispatch(Command::CloseBackbone(one)), [Request::CloseBackbone(one)]);
    let Some(Compatibility::DoesNot(why)) = state.library.fit(probe) else { panic!("it fits") };
    assert!(why.contains("24") && why.contains("32") && why.contains("one"), "{why}");
    let ColumnState::Failed(fault) = &state.columns[0].shown else { panic!("{:?}", state.columns[0].shown) };
    assert_eq!(fault.lines, [why]);
    let one = backbone("one", 24, Grid::new(2, 2));
    let mut bound = self::probe("bound", 24);
    assert_eq!(bound.fits(&one), Compatibility::Fits);
    bound.tokens = Some(9);
    assert!(
        matches!(bound.fits(&one), Compatibility::DoesNot(why) if why.contains('9') && why.contains("2 × 2"))
    );
    bound.tokens = Some(4);
    bound.backbone_config = Some("8 heads".into());
    assert!(
        matches!(bound.fits(&one), Compatibility::Doubtful(why) if why.contains("another `config.json`"))
    );
    bound.backbone_fingerprint = Some("others".into());
    assert!(matches!(bound.fits(&one), Compatibility::Doubtful(why) if why.contains("other weights")));
}

#[test]
fn errors_stay_until_they_are_read() {
    let mut state = State::new(Settings::default());
    let requests = state.dispatch(Command::OpenProbes(vec!["bad.safetensors".into()]));
    let (job, entry) = probe_asked(&requests);
    let fault = UserError::new("bad.safetensors: is empty").remedy("Fetch it again");
    state.apply(Event::Started(job));
    state.apply(Event::Failed(job, fault.clone()));
    assert_eq!(state.jobs[&job].error, Some(fault.clone()));
    assert_eq!(state.library.probes[&entry].status, Status::Failed(job, fault));
    for command in [Command::Step(1), Command::Undo, Command::Cancel(job), Command::CancelAll] {
        assert!(state.dispatch(command).is_empty());
    }
    assert!(state.jobs.contains_key(&job));
    assert!(state.log_text().contains("is empty") && state.log_text().contains("Fetch it again"));
    state.dispatch(Command::Dismiss(job));
    assert!(state.jobs.is_empty());
    let requests = state.dispatch(Command::ReopenProbe(entry));
    assert!(matches!(requests.as_slice(), [Request::Compute(_, Compute::OpenProbe { .. })]));
    for number in 0..5000 {
        state.apply(Event::Warning { job: JobId(0), text: format!("warning {number}") });
    }
    assert!(state.log.len() <= 1000 && state.toasts.len() <= 5, "bounded");
    assert!(state.log_text().contains("warning 4999"));
}

#[test]
fn a_failed_explanation_is_reported_in_its_columns_and_retried() {
    let mut state = story();
    let look = does(&mut state, Command::Step(1)).expect("a look");
    let fault = UserError::new("device lost").remedy("Run on the CPU instead");
    state.apply(Event::Failed(look.0, fault.clone()));
    for column in state.columns.values() {
        assert!(matches!(&column.shown, ColumnState::Failed(found) if *found == fault));
    }
    assert!(Action::Retry.enabled(&state));
    assert!(state.log_text().contains("Explaining y.png: device lost"), "{}", state.log_text());
    assert!(does(&mut state, Command::Step(0)).is_none(), "not by itself");
    let again = does(&mut state, Command::Retry).expect("a look");
    assert_eq!(again.1.items, look.1.items);
    answer(&mut state, &again);
    assert!(!Action::Retry.enabled(&state));
    // However many images fail one after the other, there is nothing to dismiss.
    for by in [1, -1] {
        let look = does(&mut state, Command::Step(by)).expect("a look");
        state.apply(Event::Failed(look.0, fault.clone()));
    }
    assert!(state.jobs.is_empty(), "{:?}", state.jobs);
}

#[test]
fn closing_is_undone_and_redone() {
    let mut state = story();
    let id = *state.library.probes.get_index(0).unwrap().0;
    let pinned = column(&state, 0);
    state.dispatch(Command::Pin(Some(pinned)));
    let requests = state.dispatch(Command::CloseProbes(vec![id]));
    assert_eq!(requests, [Request::CloseProbe(id)]);
    assert_eq!((state.columns.len(), state.selection.reference), (1, None));
    assert_eq!(state.undo_text(), Some("Close the probe a"));
    let requests = state.dispatch(Command::Undo);
    assert!(
        matches!(requests.as_slice(), [Request::Compute(_, Compute::OpenProbe { entry, .. })] if *entry == id),
        "{requests:?}"
    );
    play(&mut state, requests);
    assert_eq!((column(&state, 0), state.selection.reference), (pinned, Some(pinned)));
    assert_eq!(state.library.probes.get_index(0).unwrap().0, &id, "at its old place");
    assert!(matches!(state.columns[0].shown, ColumnState::Ready(_)), "its trace is still there");
    assert_eq!(state.redo_text(), Some("Close the probe a"));
    assert_eq!(state.dispatch(Command::Redo), [Request::CloseProbe(id)]);
    assert_eq!(state.library.probes.len(), 1);

    let images: Vec<_> = state.library.images.keys().copied().collect();
    let look = does(&mut state, Command::CloseImages(images[..2].to_vec())).expect("a look at the third");
    assert_eq!(state.selection.image, Some(images[2]));
    answer(&mut state, &look);
    let requests = state.dispatch(Command::Undo);
    assert_eq!(state.library.images.keys().copied().collect::<Vec<_>>(), images);
    assert_eq!(state.selection.image, Some(images[0]));
    assert!(matches!(requests.as_slice(), [Request::Compute(_, Compute::Explain(_))]));

    let (backbone, _) = state.library.backbone().expect("open");
    let requests = state.dispatch(Command::CloseBackbone(backbone));
    assert_eq!(requests, [Request::CloseBackbone(backbone)]);
    let requests = state.dispatch(Command::Undo);
    assert!(matches!(requests.as_slice(), [Request::Fetch(_, Fetch::OpenBackbone { .. })]));
}

#[test]
fn what_was_opened_again_meanwhile_is_left_as_it_is() {
    let mut state = story();
    let probe = state.columns[&column(&state, 0)].probe;
    let (backbone, _) = state.library.backbone().expect("open");
    let image = *state.library.images.get_index(1).unwrap().0;
    for command in [
        Command::CloseProbes(vec![probe]),
        Command::CloseBackbone(backbone),
        Command::CloseImages(vec![image]),
        Command::OpenProbes(vec!["a.safetensors".into()]),
        Command::OpenBackbone("one".into()),
        Command::OpenImages(vec!["y.png".into()]),
        Command::Undo,
        Command::Undo,
        Command::Undo,
    ] {
        does(&mut state, command);
    }
    let (probes, backbones, images) =
        (state.library.probes.len(), state.library.backbones.len(), state.library.images.len());
    assert_eq!((probes, backbones, images, state.columns.len()), (2, 1, 3, 2), "nothing is there twice");
}

#[test]
fn undoing_a_step_that_led_to_no_other_image_leaves_the_current_one() {
    let mut state = story();
    let pinned = column(&state, 0);
    for command in [Command::Pin(Some(pinned)), Command::Step(2), Command::Undo] {
        does(&mut state, command);
    }
    assert_eq!(state.selection.reference, None);
    assert_eq!(state.current_image().map(Image::name).as_deref(), Some("z.png"));
}

#[test]
fn closing_the_current_image_leads_to_the_next_and_from_the_last_one_back() {
    let mut state = story();
    let [x, y, z] = [0, 1, 2].map(|at| *state.library.images.get_index(at).unwrap().0);
    state.dispatch(Command::SelectImage(y));
    for (closed, next) in [(y, z), (z, x)] {
        state.dispatch(Command::CloseImages(vec![closed]));
        assert_eq!(state.selection.image, Some(next));
    }
}

#[test]
fn settings_are_undone_and_a_slider_is_one_step() {
    let mut state = story();
    for step in 1..=50 {
        let options = Options { opacity: step as f32 / 100.0, ..Options::default() };
        state.dispatch(Command::SetOptions("tokens".into(), options));
    }
    assert_eq!(state.views.figure_options("tokens").opacity, 0.5);
    state.dispatch(Command::SetShared(false));
    state.dispatch(Command::SetShared(true));
    state.dispatch(Command::Undo);
    assert!(!state.views.shared, "each click on a checkbox is one step");
    state.dispatch(Command::Undo);
    assert!(state.views.shared && state.views.figure_options("tokens").opacity == 0.5);
    state.dispatch(Command::Undo);
    assert_eq!(state.views.figure_options("tokens"), Options::default());
    assert_eq!(state.undo_text(), None);
    state.dispatch(Command::Redo);
    assert_eq!(state.views.figure_options("tokens").opacity, 0.5);
    let look = ExplainSettings { rho: Some(0.9), ..ExplainSettings::default() };
    let asked = does(&mut state, Command::SetExplainSettings(look)).expect("a look");
    assert_eq!(asked.1.settings, look);
}

#[test]
fn jobs_say_how_far_they_are_and_end_when_cancelled() {
    let mut state = State::new(Settings::default());
    let requests = state.dispatch(Command::OpenBackbone("org/name".into()));
    let (job, entry) = backbone_asked(&requests);
    state.apply(Event::Progress(job, progress("Downloading model.safetensors", [10, 40], Unit::Bytes, 2)));
    let shown = state.jobs[&job].progress.as_ref().expect("progress");
    assert_eq!((shown.fraction(), shown.left()), (Some(0.25), Some(Duration::from_secs(6))));
    assert_eq!(state.dispatch(Command::Cancel(job)), [Request::Cancel(job)]);
    assert!(state.jobs[&job].cancelling);
    state.apply(Event::Cancelled(job));
    assert!(state.jobs.is_empty());
    assert_eq!(state.library.backbones[&entry].status, Status::Closed);
    // Another backbone is opened beside it; opening the same one again cancels the first attempt.
    let requests = state.dispatch(Command::UseBackbone(entry));
    let first = requests[0].job().expect("a job");
    let requests = state.dispatch(Command::OpenBackbone("org/other".into()));
    assert!(matches!(requests.as_slice(), [Request::Fetch(_, Fetch::OpenBackbone { .. })]), "{requests:?}");
    let requests = state.dispatch(Command::UseBackbone(entry));
    assert_eq!(requests[0], Request::Cancel(first));
    let info = backbone("org/name", 24, Grid::new(2, 2));
    assert!(state.apply(Event::BackboneOpened { job: first, entry, info }).is_empty());
    assert!(state.library.backbone().is_none(), "too late");
}

#[test]
fn a_column_with_nothing_to_show_says_what_to_do() {
    let mut state = State::new(Settings::default());
    assert_eq!(state.why_nothing(ColumnId(7)), "Add a column to compare probes");
    does(&mut state, Command::OpenProbes(vec!["a.safetensors".into()]));
    let id = column(&state, 0);
    assert!(state.why_nothing(id).starts_with("Open the backbone"));
    does(&mut state, Command::OpenBackbone("one".into()));
    assert_eq!(state.why_nothing(id), "Choose an image");
    assert!(does(&mut state, Command::OpenImages(vec!["x.png".into()])).is_some());
    // Without a backbone, the trace of an image stays.
    let mut state = story();
    let backbone = *state.library.backbones.keys().next().expect("a backbone");
    does(&mut state, Command::CloseBackbone(backbone));
    let shown = |state: &State| state.columns.values().filter_map(|column| column.shown.trace()).count();
    assert_eq!(shown(&state), 2);
    does(&mut state, Command::Step(1));
    assert_eq!(shown(&state), 0);
    assert!(state.why_nothing(column(&state, 0)).starts_with("Open the backbone"));
}

#[test]
fn every_action_can_be_chosen_in_any_state() {
    for mut state in [State::new(Settings::default()), story()] {
        for action in Action::ALL {
            let _ = action.enabled(&state);
            if let Some(Effect::Command(command)) = action.effect(&state) {
                state.dispatch(command);
            }
        }
    }
    let state = State::new(Settings::default());
    assert!(!Action::Undo.enabled(&state) && !Action::NextImage.enabled(&state));
}

#[test]
fn actions_do_what_they_are_called() {
    let mut state = story();
    let act = |state: &mut State, action: Action| match action.effect(state) {
        Some(Effect::Command(command)) => drop(state.dispatch(command)),
        other => panic!("{action:?}: {other:?}"),
    };
    for (action, image) in [
        (Action::LastImage, "z.png"),
        (Action::PreviousImage, "y.png"),
        (Action::FirstImage, "x.png"),
        (Action::NextImage, "y.png"),
    ] {
        act(&mut state, action);
        assert_eq!(state.current_image().map(Image::name).as_deref(), Some(image), "{action:?}");
    }
    let scales = [Action::ScaleUp, Action::ScaleReset, Action::ScaleDown].map(|action| {
        act(&mut state, action);
        state.settings.scale
    });
    assert!(scales[0] > 1.0 && scales[1] == 1.0 && scales[2] < 1.0, "{scales:?}");
    let (image, shown) = (state.selection.image.expect("an image"), state.focus());
    for starred in [true, false] {
        act(&mut state, Action::StarImage);
        assert_eq!(state.is_starred(image), starred);
    }
    for unpin in [Action::PinShown, Action::Unpin] {
        act(&mut state, Action::PinShown);
        assert_eq!(state.selection.reference, shown);
        let views = |state: &State| (state.views.difference, state.views.shared);
        let (difference, shared) = views(&state);
        act(&mut state, Action::ToggleDifference);
        act(&mut state, Action::ToggleShared);
        assert_eq!(views(&state), (!difference, !shared));
        act(&mut state, unpin);
        assert_eq!(state.selection.reference, None);
    }
    state.dispatch(Command::SetClass(ClassChoice::Named("dog".into())));
    act(&mut state, Action::PredictedClass);
    assert_eq!(state.selection.class, ClassChoice::Predicted);
    assert!(!Action::PredictedClass.enabled(&state));
}

#[test]
fn thumbnails_are_asked_for_once_and_bounded() {
    let mut state = State::new(Settings::default());
    let paths: Vec<PathBuf> = (0..3000).map(|number| format!("{number}.png").into()).collect();
    does(&mut state, Command::OpenImages(paths));
    let ids: Vec<_> = state.library.images.keys().copied().collect();
    let requests = state.dispatch(Command::ShowThumbnails(ids[..40].to_vec()));
    let [Request::Thumbnails { wanted, .. }] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(wanted.len(), 40);
    assert!(state.dispatch(Command::ShowThumbnails(ids[..40].to_vec())).is_empty());
    for id in &ids {
        let picture = Arc::new(Picture::default());
        state.apply(Event::ThumbnailReady { image: *id, picture });
    }
    assert!(state.thumbnails.count() <= 1024);
    assert!(state.thumbnails.get(ids[2999]).is_some() && state.thumbnails.get(ids[0]).is_none());
    assert_eq!(
        state.dispatch(Command::ShowThumbnails(ids[..40].to_vec())).len(),
        1,
        "forgotten, so asked again"
    );
}

#[test]
fn of_many_images_in_sight_all_thumbnails_come_and_each_is_asked_for_once() {
    let mut state = State::new(Settings::default());
    does(&mut state, Command::OpenImages((0..400).map(|number| format!("{number}.png").into()).collect()));
    let ids: Vec<_> = state.library.images.keys().copied().collect();
    let mut asked = Vec::new();
    while state.thumbnails.are_missing(&ids) {
        let requests = state.dispatch(Command::ShowThumbnails(ids.clone()));
        let [Request::Thumbnails { wanted, .. }] = requests.as_slice() else { panic!("{requests:?}") };
        assert!(!state.thumbnails.are_missing(&ids), "they are under way");
        for &(image, _) in wanted {
            asked.push(image);
            state.apply(match asked.len() {
                7 => Event::ThumbnailFailed { image, error: UserError::new("no image") },
                _ => Event::ThumbnailReady { image, picture: Arc::default() },
            });
        }
    }
    assert_eq!(asked, ids);
    // An image that was closed in the meantime is answered as well.
    state.restore(state.workspace(json!(null)));
    assert!(state.thumbnails.are_missing(&ids), "nothing is known of another workspace");
    let requests = state.dispatch(Command::ShowThumbnails(ids[..1].to_vec()));
    let [Request::Thumbnails { wanted, .. }] = requests.as_slice() else { panic!("{requests:?}") };
    state.dispatch(Command::CloseImages(ids[..1].to_vec()));
    state.apply(Event::ThumbnailReady { image: wanted[0].0, picture: Arc::default() });
    assert!(state.thumbnails.are_missing(&ids[1..]));
}

#[test]
fn a_workspace_comes_back_as_it_was() {
    let folder = TempDir::new().expect("a folder");
    let here = |name: &str| folder.path().join(name);
    let mut state = story();
    let (image, probe) = (here("data/x.png"), here("data/a.safetensors"));
    does(&mut state, Command::OpenImages(vec![image]));
    does(&mut state, Command::OpenProbes(vec![probe]));
    let second = column(&state, 1);
    state.dispatch(Command::Pin(Some(second)));
    state.dispatch(Command::SetIntervention(second, Intervention::Temperature(0.5)));
    state.dispatch(Command::SetOptions("tokens".into(), Options { opacity: 0.25, ..Options::default() }));
    let sheet = SheetView { side: 90, overlay: Overlay::Evidence };
    for command in [
        Command::SetRows(["kernel".to_owned()].into()),
        Command::SetSheetView(sheet),
        Command::SetBeside(Some(second)),
        Command::SetAgainst(Some(second)),
    ] {
        let before = (state.views.clone(), state.selection.clone());
        state.dispatch(command);
        let after = (state.views.clone(), state.selection.clone());
        assert_ne!(before, after);
        state.dispatch(Command::Undo);
        assert_eq!((state.views.clone(), state.selection.clone()), before);
        state.dispatch(Command::Redo);
        assert_eq!((state.views.clone(), state.selection.clone()), after);
    }
    let saved = state.workspace(json!({"tiles": [1, 2]}));
    let path = here("work.ssmprobe");
    saved.save(&path).expect("saved");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.contains("\"data/x.png\"") && text.contains("file of a"), "{text}");

    let moved = here("moved");
    std::fs::create_dir(&moved).expect("a folder");
    let there = moved.join("work.ssmprobe");
    std::fs::copy(&path, &there).expect("a copy");
    let mut loaded = Workspace::load(&there).expect("loaded");
    assert_eq!(loaded.layout, json!({"tiles": [1, 2]}));
    let missing = loaded.missing();
    let (missing_image, _) =
        missing.iter().find(|(_, path)| *path == moved.join("data/x.png")).expect("named");
    std::fs::create_dir(here("found")).expect("a folder");
    for name in ["x.png", "a.safetensors"] {
        std::fs::File::create(here("found").join(name)).expect("a file");
    }
    assert!(matches!(missing_image, Entry::Image(_)));
    assert_eq!(loaded.relink(*missing_image, &here("found/x.png")), 2, "its neighbour is found with it");
    assert_eq!(loaded.missing().len(), missing.len() - 2);

    let mut again = State::new(Settings::default());
    let requests = again.restore(loaded);
    assert!(
        requests.iter().any(
            |request| matches!(request, Request::Fetch(_, Fetch::OpenBackbone { source, .. }) if source.ends_with("one"))
        )
    );
    let look = play(&mut again, requests).expect("a look");
    assert_eq!(look.1.items.len(), 3);
    assert_eq!(again.selection, Selection { hover: again.selection.hover, ..state.selection.clone() });
    assert_eq!((again.views.rows.len(), again.views.sheet), (1, sheet));
    assert_eq!(again.columns[&second].change, Intervention::Temperature(0.5));
    assert_eq!(again.views, state.views);
    let fresh = again.dispatch(Command::OpenProbes(vec!["new.safetensors".into()]));
    let Request::Compute(_, Compute::OpenProbe { entry, .. }) = &fresh[0] else { panic!("{fresh:?}") };
    assert!(!state.library.probes.contains_key(entry), "a new name");
    // A probe file that has changed is reported.
    let mut changed = state.workspace(json!(null));
    changed.probes[0].fingerprint = Some("another file".into());
    changed.backbones[0].fingerprint = Some("other weights".into());
    let mut again = State::new(Settings::default());
    let requests = again.restore(changed);
    play(&mut again, requests);
    let warnings = |state: &State| state.log_text().matches("has changed since").count();
    assert_eq!(warnings(&again), 1, "{}", again.log_text());
    assert!(again.log_text().contains("the weights differ from when the workspace was saved"));
    // Only once: from now on the new file is the one that counts.
    let first = *again.library.probes.keys().next().expect("a probe");
    does(&mut again, Command::ReopenProbe(first));
    assert!(again.library.probes[&first].status.ready().is_some());
    assert_eq!(warnings(&again), 1, "{}", again.log_text());
}

#[test]
fn chosen_masks_are_requested_undone_and_saved() {
    let mut state = story();
    let asked = |state: &mut State, command: Command| {
        let requests = state.dispatch(command);
        play(state, requests).map(|(_, spec)| spec.regions)
    };
    let masks = PathBuf::from("masks");
    let folder = Some(RegionSource::Folder(masks.clone()));
    assert_eq!(asked(&mut state, Command::SetMasks(Some(masks.clone()))), folder);
    assert_eq!(asked(&mut state, Command::SetMasks(Some(masks.clone()))), None, "as it is");
    assert_eq!(asked(&mut state, Command::Undo), Some(RegionSource::Dataset));
    assert_eq!(asked(&mut state, Command::Redo), folder);
    let home = TempDir::new().expect("a folder");
    let file = home.path().join("w.ssmprobe");
    state.masks = Some(home.path().join("masks"));
    state.workspace(json!(null)).save(&file).expect("saved");
    let text = std::fs::read_to_string(&file).expect("a workspace");
    assert!(text.contains("\"masks\": \"masks\""), "from the workspace's folder: {text}");
    let loaded = Workspace::load(&file).expect("a workspace");
    assert!(loaded.missing().iter().any(|(entry, _)| *entry == Entry::Masks));
    let mut again = State::new(Settings::default());
    again.restore(loaded);
    assert_eq!(again.masks, Some(home.path().join("masks")));
}

#[test]
fn a_folder_that_is_listed_in_parts_is_looked_at_once() {
    let list = |state: &mut State, job: JobId, first: usize| {
        let paths = (first..first + 3).map(|number| PathBuf::from(format!("many/{number}.png")));
        state.apply(Event::ImagesListed { job, paths: paths.collect() });
    };
    let shown = |state: &State| state.current_image().map(Image::name);
    let asked =
        |state: &mut State| state.dispatch(Command::OpenImages(vec!["many".into()]))[0].job().expect("a job");
    let mut state = story();
    let job = asked(&mut state);
    list(&mut state, job, 0);
    assert_eq!(shown(&state).as_deref(), Some("0.png"));
    list(&mut state, job, 3);
    assert_eq!(shown(&state).as_deref(), Some("0.png"), "the first of all parts");
    state.apply(Event::Finished(job));
    // What was chosen in the meantime stays.
    let job = asked(&mut state);
    state.dispatch(Command::Step(1));
    list(&mut state, job, 6);
    assert_eq!(shown(&state).as_deref(), Some("1.png"));
}

#[test]
fn a_workspace_moves_with_all_of_its_folder() {
    let folder = TempDir::new().expect("a folder");
    let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
    for kind in ["tiny", "birds", "tokens", "runs/one"] {
        std::fs::create_dir_all(old.join(kind)).expect("a folder");
    }
    let training = TrainSettings {
        backbone: old.join("tiny").display().to_string(),
        data: Some(old.join("birds")),
        out: Some(old.join("runs/two")),
        tokens: TokenSettings { cache: Some(old.join("tokens")), ..TokenSettings::default() },
        ..TrainSettings::default()
    };
    let runs = vec![old.join("runs/one"), old.join("runs/lost"), folder.path().join("elsewhere")];
    let saved = Workspace { training, runs, ..Workspace::default() };
    saved.save(&old.join("w.ssmprobe")).expect("saved");
    std::fs::rename(&old, &new).expect("moved");
    let mut loaded = Workspace::load(&new.join("w.ssmprobe")).expect("loaded");
    let TrainSettings { backbone, data, out, tokens, .. } = &loaded.training;
    assert_eq!(Path::new(backbone), new.join("tiny"));
    let paths = [data, out, &tokens.cache].map(|path| path.clone().expect("a path"));
    assert_eq!(paths, ["birds", "runs/two", "tokens"].map(|name| new.join(name)));
    assert_eq!(loaded.runs[..2], ["one", "lost"].map(|name| new.join("runs").join(name)));
    // Runs that are gone are listed as missing, and can be located.
    let missing = loaded.missing();
    assert_eq!(missing.iter().map(|(entry, _)| *entry).collect::<Vec<_>>(), [Entry::Run(1), Entry::Run(2)]);
    let found = new.join("runs/one");
    assert_eq!(loaded.relink(Entry::Run(2), &found), 1);
    assert_eq!((&loaded.runs[2], loaded.missing().len()), (&found, 1));
    // A Hub id is not a path.
    let training = TrainSettings { backbone: "org/name".into(), ..TrainSettings::default() };
    Workspace { training, ..Workspace::default() }.save(&new.join("w.ssmprobe")).expect("saved");
    let loaded = Workspace::load(&new.join("w.ssmprobe")).expect("loaded");
    assert_eq!(loaded.training.backbone, "org/name");
}

#[test]
fn what_was_found_for_another_workspace_comes_too_late() {
    let mut state = story();
    let requests = state.dispatch(Command::OpenImages(vec!["many".into()]));
    let job = requests[0].job().unwrap();
    let requests = state.dispatch(Command::OpenRun("run".into()));
    let run = requests[0].job().unwrap();
    state.apply(Event::ImagesListed { job, paths: vec!["many/1.png".into()] });
    assert_eq!(state.library.images.len(), 4);
    let command = TrainCommand { words: Vec::new(), out: "run".into(), again: false };
    state.training.submitting = Some((JobId(u64::MAX), command));
    let requests = state.restore(Workspace::default());
    assert!(requests.contains(&Request::Follow(Vec::new())), "no run of it is read any more");
    assert_eq!(state.training.submitting, None);
    state.apply(Event::ImagesListed { job, paths: vec!["many/2.png".into()] });
    state.apply(Event::ProbesListed {
        job: run,
        paths: vec!["run/p.safetensors".into()],
        sources: Vec::new(),
    });
    let found = vec![("many/3.png".into(), PathKind::Images)];
    assert!(state.apply(Event::Recognised { job, found }).is_empty());
    assert!(state.library.images.is_empty() && state.library.probes.is_empty());
}

#[test]
fn strange_workspace_files_are_refused_by_name() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("w.ssmprobe");
    for (text, expected) in [
        ("", "not an SSMProbe workspace"),
        ("{}", "not an SSMProbe workspace"),
        ("[1]", "not an SSMProbe workspace"),
        (r#"{"ssmprobe_workspace": 2}"#, "update it"),
        (r#"{"ssmprobe_workspace": 1, "probes": 3}"#, "not an SSMProbe workspace"),
        // There would be no id for the next entry.
        (
            r#"{"ssmprobe_workspace": 1, "images": [{"id": 18446744073709551615, "path": "x.png"}]}"#,
            "18446744073709551615",
        ),
    ] {
        std::fs::write(&path, text).expect("a file");
        let error = Workspace::load(&path).expect_err(text).to_string();
        assert!(error.contains("w.ssmprobe") && error.contains(expected), "{error}");
    }
    std::fs::write(
        &path,
        r#"{"ssmprobe_workspace": 1, "columns": [{"id": 1, "probe": 9, "image": null, "change": "none"}]}"#,
    )
    .expect("a file");
    let mut state = State::new(Settings::default());
    state.restore(Workspace::load(&path).expect("loaded"));
    assert!(state.columns.is_empty(), "a column of no probe");
    let gone = folder.path().join("nowhere/w.ssmprobe");
    assert!(Workspace::load(&gone).expect_err("gone").to_string().contains("nowhere"));
    assert!(Workspace::default().save(&gone).expect_err("no folder").to_string().contains("nowhere"));
    // The layout refers to entries of the library by these ids.
    assert_eq!(serde_json::to_value((ProbeId(3), BackboneId(4))).unwrap(), json!([3, 4]));
}

#[test]
fn stars_and_notes_are_found_undone_and_kept_with_their_image() {
    let home = TempDir::new().expect("a folder");
    let there = |name: &str| home.path().join("here").join(name);
    std::fs::create_dir_all(there("birds")).expect("a folder");
    let files = ["a.png", "birds/b.png", "c.png"].map(there);
    files.iter().for_each(|file| std::fs::write(file, "").expect("a file"));
    let mut state = State::new(Settings::default());
    does(&mut state, Command::OpenImages(files.clone().into()));
    let images: Vec<_> = state.library.images.keys().copied().collect();
    state.dispatch(Command::Star(images[0], true));
    state.dispatch(Command::SelectImage(images[1]));
    let now = state.finding_now(json!("panes"), None).expect("an image");
    let wrong = Finding { note: " Wrong\nbeak\u{7} \n".into(), ..now };
    state.dispatch(Command::KeepFinding(Box::new(wrong)));
    assert_eq!(state.undo_text(), Some("Keep the finding b.png"));
    let notes = |state: &State| -> Vec<String> {
        state.findings.iter().map(|(_, finding)| finding.note.clone()).collect()
    };
    assert_eq!(notes(&state), ["Wrong\nbeak"]);
    let show = |state: &mut State, starred: bool, text: &str| {
        let filter = GalleryFilter { starred, text: text.into(), ..GalleryFilter::default() };
        state.dispatch(Command::SetGalleryFilter(Box::new(filter)));
        state.gallery_images(None)
    };
    assert_eq!(show(&mut state, true, ""), images[..1]);
    assert_eq!(show(&mut state, false, "BEAK"), images[1..2]);
    assert!(!state.gallery_filter.is_open());
    assert_eq!(show(&mut state, true, "beak"), []);

    state.dispatch(Command::Star(images[0], true));
    while state.undo_text() == Some("Filter images") {
        state.dispatch(Command::Undo);
    }
    assert_eq!(state.undo_text(), Some("Keep the finding b.png"), "nothing came of it");
    state.dispatch(Command::Undo);
    state.dispatch(Command::Undo);
    assert_eq!((notes(&state).len(), state.findings.stars().count()), (0, 0));
    state.dispatch(Command::Redo);
    state.dispatch(Command::Redo);
    assert!(state.is_starred(images[0]) && !state.is_starred(images[1]));

    // Both outlast closing the image and saving the workspace, and follow a folder that was moved.
    state.dispatch(Command::CloseImages(vec![images[1]]));
    let saved = there("w.ssmprobe");
    state.workspace(json!(null)).save(&saved).expect("saved");
    let text = std::fs::read_to_string(&saved).expect("read");
    assert!(text.contains("\"birds/b.png\""), "relative to the workspace: {text}");
    let moved = home.path().join("there");
    std::fs::rename(home.path().join("here"), &moved).expect("moved");
    let mut again = State::new(Settings::default());
    again.restore(Workspace::load(&moved.join("w.ssmprobe")).expect("a workspace"));
    does(&mut again, Command::OpenImages(vec![moved.join("birds/b.png")]));
    let starred: Vec<_> = again.library.images.keys().map(|id| again.is_starred(*id)).collect();
    assert_eq!(starred, [true, false, false]);
    assert_eq!(show(&mut again, false, "beak").len(), 1);
    again.restore(Workspace::default());
    assert_eq!((notes(&again).len(), again.findings.stars().count()), (0, 0), "they are the workspace's");
}

#[test]
fn a_run_is_part_of_its_workspace_before_it_is_read_and_stays_away_once_it_is_closed() {
    let mut state = State::new(Settings::default());
    let runs = ["runs/one", "runs/two"].map(PathBuf::from);
    state.restore(Workspace { runs: runs.to_vec(), ..Workspace::default() });
    let known = |state: &State| state.workspace(json!(null)).runs;
    assert_eq!(known(&state), runs);
    let snapshot = Arc::new(RunSnapshot::waiting(&runs[0]));
    let read = || Event::RunRead { job: None, folder: runs[0].clone(), snapshot: Ok(snapshot.clone()) };
    assert_eq!(state.apply(read()), [Request::Follow(runs.to_vec())], "the other one is watched on");
    state.dispatch(Command::CloseRun(runs[0].clone()));
    state.apply(read()); // was on its way
    assert_eq!(known(&state), runs[1..]);
}

#[test]
fn a_run_whose_disk_is_away_stays_in_its_workspace_and_is_read_once_it_is_back() {
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("runs/one");
    state.restore(Workspace { runs: vec![folder.clone()], ..Workspace::default() });
    let read = |snapshot| Event::RunRead { job: None, folder: folder.clone(), snapshot };
    let away = read(Err(UserError::new("runs/one: no such folder")));
    assert_eq!(state.apply(away), [Request::Follow(vec![folder.clone()])], "it is watched on");
    assert!(matches!(state.training.runs[&folder].phase, Phase::Missing(_)));
    assert_eq!(state.workspace(json!(null)).runs, std::slice::from_ref(&folder));
    let probes = vec![(folder.join("probes/a.safetensors"), SystemTime::UNIX_EPOCH)];
    let back = RunSnapshot { probes, ..RunSnapshot::waiting(&folder) };
    state.apply(read(Ok(Arc::new(back))));
    assert!(matches!(state.training.runs[&folder].phase, Phase::Open { .. }));
    assert!(state.library.probes.is_empty(), "those that were closed stay closed");
}

#[test]
fn a_probe_that_is_written_anew_while_it_is_opened_is_opened_again() {
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("run");
    state.restore(Workspace { runs: vec![folder.clone()], ..Workspace::default() });
    let mut read = |seconds: u64| {
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let probes = vec![(folder.join("probes/a.safetensors"), written)];
        let snapshot = Ok(Arc::new(RunSnapshot { probes, ..RunSnapshot::waiting(&folder) }));
        state.apply(Event::RunRead { job: None, folder: folder.clone(), snapshot })
    };
    read(1); // those that it had when it was opened are opened by who opens it
    let (first, _) = probe_asked(&read(2));
    let again = read(3);
    let [Request::Cancel(cancelled), Request::Compute(second, _)] = again[..] else { panic!("{again:?}") };
    assert!(cancelled == first && second != first);
    assert!(read(3).is_empty(), "it is the same file");
}

#[test]
fn a_probe_that_was_chosen_and_is_written_anew_while_it_is_opened_is_a_recent_one() {
    let mut state = State::new(Settings::default());
    let folder = PathBuf::from("run");
    let path = folder.join("probes/a.safetensors");
    state.restore(Workspace { runs: vec![folder.clone()], ..Workspace::default() });
    let read = |seconds: u64| {
        let probes = vec![(path.clone(), SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))];
        let snapshot = Ok(Arc::new(RunSnapshot { probes, ..RunSnapshot::waiting(&folder) }));
        Event::RunRead { job: None, folder: folder.clone(), snapshot }
    };
    state.apply(read(1));
    state.dispatch(Command::OpenProbes(vec![path.clone()]));
    let again = state.apply(read(2));
    let (job, entry) = probe_asked(&again[1..]); // after the first was cancelled
    state.apply(Event::ProbeOpened { job, entry, info: probe("a", 24) });
    state.apply(Event::Finished(job));
    assert_eq!(state.settings.recent.probes, [path]);
}

#[test]
fn what_a_newer_version_wrote_stays_in_the_workspace() {
    let home = TempDir::new().expect("a folder");
    let path = home.path().join("w.ssmprobe");
    let text = json!({"ssmprobe_workspace": 1, "lenses": [{"kind": "new"}]}).to_string();
    std::fs::write(&path, text).expect("written");
    let mut state = State::new(Settings::default());
    state.restore(Workspace::load(&path).expect("a workspace"));
    state.workspace(json!(null)).save(&path).expect("saved");
    let rest = Workspace::load(&path).expect("its own").rest;
    assert_eq!(serde_json::Value::from(rest), json!({"lenses": [{"kind": "new"}]}));
    state.restore(Workspace::default());
    assert!(state.workspace(json!(null)).rest.is_empty(), "another one has none of it");
}

#[test]
fn a_line_that_an_earlier_version_noted_is_a_finding() {
    let home = TempDir::new().expect("a folder");
    let path = home.path().join("w.ssmprobe");
    let notes = json!([
        {"path": "a.png", "starred": true, "text": ""},
        {"path": "birds/b.png", "row": 3, "starred": false, "text": "Wrong beak"},
        {"path": "c.png", "starred": true, "text": "Fur"},
    ]);
    let text = json!({"ssmprobe_workspace": 1, "notes": notes}).to_string();
    std::fs::write(&path, text).expect("written");
    let mut workspace = Workspace::load(&path).expect("a workspace");
    let noted = |workspace: &Workspace| -> Vec<(PathBuf, Option<usize>, String)> {
        let all = workspace.findings.iter();
        all.map(|one| (one.image.path.clone(), one.image.row, one.note.clone())).collect()
    };
    let at = |name: &str| home.path().join(name);
    let expected =
        [(at("birds/b.png"), Some(3), "Wrong beak".to_owned()), (at("c.png"), None, "Fur".to_owned())];
    for _ in 0..2 {
        assert_eq!(noted(&workspace), expected);
        let starred: Vec<PathBuf> = workspace.notes.iter().map(|note| note.source.path.clone()).collect();
        assert_eq!(starred, [at("a.png"), at("c.png")]);
        let mut state = State::new(Settings::default());
        state.restore(workspace);
        state.workspace(json!(null)).save(&path).expect("saved");
        workspace = Workspace::load(&path).expect("its own");
    }
}

#[test]
fn stars_and_findings_follow_an_image_and_a_dataset_that_are_found_elsewhere() {
    let home = TempDir::new().expect("a folder");
    let at = |name: &str| home.path().join(name);
    std::fs::create_dir_all(at("new/birds/x")).expect("a folder");
    std::fs::write(at("new/a.png"), "").expect("a file");
    let on = |path: &str| SavedNote { source: at(path).into(), starred: true, text: String::new() };
    let found = |path: &str| Finding { image: at(path).into(), note: "Edge".into(), view: None };
    let mut workspace = Workspace {
        images: vec![SavedImage { id: ImageId(1), source: at("old/a.png").into() }],
        datasets: vec![SavedDataset { id: DatasetId(2), path: at("old/birds"), split: None }],
        notes: vec![on("old/a.png"), on("old/birds/x/1.png"), on("other/1.png")],
        findings: vec![found("old/birds/x/2.png"), found("other/2.png")],
        ..Workspace::default()
    };
    assert_eq!(workspace.relink(Entry::Image(ImageId(1)), &at("new/a.png")), 2);
    assert_eq!(workspace.notes, [on("new/a.png"), on("new/birds/x/1.png"), on("other/1.png")]);
    assert_eq!(workspace.findings, [found("new/birds/x/2.png"), found("other/2.png")]);
}

#[test]
fn a_run_and_its_other_probes_are_found_with_one_of_them() {
    let home = TempDir::new().expect("a folder");
    let at = |name: &str| home.path().join(name);
    std::fs::create_dir_all(at("new/run/probes")).expect("a folder");
    let probe = |(id, name): (u64, &str)| {
        let file = format!("run/probes/{name}.safetensors");
        std::fs::write(at("new").join(&file), "").expect("a file");
        SavedProbe { id: ProbeId(id), path: at("old").join(file), fingerprint: None }
    };
    let probes = [(1, "a"), (2, "b")].map(probe).into();
    let mut workspace = Workspace { probes, runs: vec![at("old/run")], ..Workspace::default() };
    assert_eq!(workspace.relink(Entry::Probe(ProbeId(1)), &at("new/run/probes/a.safetensors")), 3);
    assert!(workspace.missing().is_empty() && workspace.runs == [at("new/run")]);
}

#[test]
fn probes_of_two_layers_stand_side_by_side_where_the_backbone_is_open_twice() {
    let mut state = State::new(Settings::default());
    does(&mut state, Command::OpenBackbone("one".into()));
    does(&mut state, Command::OpenImages(vec!["x.png".into()]));
    let last = *state.library.backbones.keys().next().expect("a backbone");
    let mut look = None;
    let mut probes = Vec::new();
    for (name, layer) in [("deep", None), ("early", Some(1))] {
        let requests = state.dispatch(Command::OpenProbes(vec![format!("{name}.safetensors").into()]));
        let (job, entry) = probe_asked(&requests);
        let info = trained_on(name, TokenSpec { layer, ..TokenSpec::default() });
        let requests = state.apply(Event::ProbeOpened { job, entry, info });
        play(&mut state, requests);
        probes.push(entry);
    }
    assert!(matches!(state.library.fit(probes[1]), Some(Compatibility::Doubtful(_))));
    let (_, wanted) = state.library.token_mismatch(probes[1]).expect("other tokens");
    look = does(&mut state, Command::OpenBeside(last, wanted)).or(look);
    // Each uses the open backbone with the options it was trained with, and both are explained.
    for probe in &probes {
        assert_eq!(state.library.fit(*probe), Some(Compatibility::Fits));
    }
    let backbones = probes.iter().map(|probe| state.library.backbone_of(*probe).expect("a backbone").0);
    let backbones: Vec<BackboneId> = backbones.collect();
    assert!(backbones[0] == last && backbones[1] != last);
    let early = look.as_ref().expect("a look").1.items.iter().find(|item| item.probe == probes[1]);
    assert_eq!(early.expect("it is asked").backbone, backbones[1]);
    assert_eq!(state.column_title(column(&state, 1)), "early · layer 1");
    for (at, name, title) in
        [(0, "one/early", "early · one · last layer"), (1, "gap[layer=1]-s0", "gap[layer=1]-s0")]
    {
        let path = format!("{name}.safetensors").into();
        let path = std::mem::replace(&mut state.library.probes[&probes[at]].path, path);
        assert_eq!(state.column_title(column(&state, at)), title, "its folder, and its layer once");
        state.library.probes[&probes[at]].path = path;
    }
    let library = state.library.clone();
    state.library.backbones[&backbones[1]].own = Some(BackboneOptions { blocks: Some(2), ..wanted });
    let title = state.with_backbone("gap[layer=1]-s0".to_owned(), probes[1]);
    assert_eq!(title, "gap[layer=1]-s0 · layers 0 to 1", "its name says the last of them alone");
    state.library = library;
    // Options that other probes agree on, or that a user chooses for those, do not change it.
    let requests = state.dispatch(Command::RemoveColumn(column(&state, 0)));
    play(&mut state, requests);
    assert_eq!(state.backbone_options, BackboneOptions::default());
    let requests = state.dispatch(Command::SetBackboneOptions(BackboneOptions { layer: Some(0), ..wanted }));
    let opened = |request: &Request| match request {
        Request::Fetch(_, Fetch::OpenBackbone { entry, .. }) => Some(*entry),
        _ => None,
    };
    assert_eq!(requests.iter().filter_map(opened).collect::<Vec<_>>(), [last]);
    play(&mut state, requests);
    assert_eq!(state.dispatch(Command::OpenBeside(last, wanted)).iter().find_map(opened), Some(backbones[1]));
    assert_eq!(state.library.backbones.len(), 2, "one of these options is open already");
    // Its own options are a step of Undo, and part of the workspace.
    let own = |state: &State| state.library.backbones[&backbones[1]].own;
    let other = BackboneOptions { pixels: Some(160), ..wanted };
    state.dispatch(Command::SetOwnOptions(backbones[1], other));
    assert_eq!(own(&state), Some(other));
    state.dispatch(Command::Undo);
    assert_eq!(own(&state), Some(wanted));
    assert!(state.dispatch(Command::SetOwnOptions(last, other)).is_empty(), "it has none of its own");
    let mut again = State::new(Settings::default());
    let requests = again.restore(state.workspace(json!(null)));
    let asked = requests.iter().filter_map(
        pick!(Request::Fetch(_, Fetch::OpenBackbone { entry, options, .. }) => (*entry, *options)),
    );
    assert!(asked.into_iter().any(|found| found == (backbones[1], wanted)));
    // Once the shared one is closed, opening its source opens that, not the one beside it.
    state.dispatch(Command::CloseBackbone(last));
    let requests = state.dispatch(Command::OpenBackbone("one".into()));
    let entry = requests.iter().find_map(opened).expect("it is opened");
    assert!(entry != backbones[1] && state.library.backbones[&entry].own.is_none());
}

#[test]
fn the_next_training_takes_the_layer_of_its_form() {
    let mut state = State::new(Settings::default());
    let layer = |state: &State| state.training.form.tokens.token_spec.layer;
    let read = |layer| Command::SetBackboneOptions(BackboneOptions { layer, ..BackboneOptions::default() });
    state.dispatch(read(Some(1)));
    assert_eq!(layer(&state), Some(1), "it follows the open backbones");
    let token_spec = TokenSpec { layer: Some(3), ..TokenSpec::default() };
    let mut form = state.training.form.clone();
    form.tokens.token_spec = token_spec;
    state.dispatch(Command::SetTrainForm(Box::new(form)));
    state.dispatch(read(Some(2)));
    assert_eq!(layer(&state), Some(3), "until it is chosen");
    state.dispatch(Command::Undo);
    // Both choices are one step, like those of a slider.
    assert_eq!((state.backbone_options.layer, layer(&state)), (None, Some(3)));
}

#[test]
fn a_training_is_not_asked_for_an_order_that_its_backbone_does_not_have() {
    let mut state = story();
    let options = BackboneOptions { mae_order: MaeOrder::Shuffled(1), ..BackboneOptions::default() };
    does(&mut state, Command::SetBackboneOptions(options));
    let form = TrainSettings { data: Some("birds".into()), ..state.training.form.clone() };
    assert_eq!((form.backbone.as_str(), form.tokens.token_spec.mae_order), ("one", MaeOrder::Shuffled(1)));
    state.dispatch(Command::SetTrainForm(Box::new(form)));
    let requests = state.dispatch(Command::PlanTraining);
    let asked =
        requests.iter().find_map(pick!(Request::Fetch(_, Fetch::Plan(form)) => form.tokens.token_spec));
    assert_eq!(asked, Some(TokenSpec::default()), "a plain ViT has one order");
    assert!(state.dispatch(Command::PlanTraining).is_empty(), "it is asked for once");
}
