//! What opens is shown, and what does not open is an error message: a probe that is clicked, a run, a second
//! dataset, a missing path. Tests of the state alone.

use std::collections::VecDeque;

use ssmprobe::app::jobs::evaluate::EvalSplit;
use ssmprobe::app::jobs::info::Compatibility;
use ssmprobe::app::jobs::{DatasetId, PathKind};
use ssmprobe::app::state::settings::Recent;
use ssmprobe::app::state::{Column, GalleryFilter, RevealTarget, Scope, Severity};
use ssmprobe::model::backbone::token_spec::TokenSpec;
use ssmprobe::model::data::{Dataset, Sample, Split};

use crate::run::assert_says;
use crate::state::{column, opened, probe, story, trained_on};
use crate::window::prelude::*;

/// A dataset of the folder `path`: `count` test images, from `0.png` on, of two classes in turn, and one training image.
fn part(path: &Path, count: usize) -> Arc<EvalSplit> {
    let sample = |at: usize| Sample {
        source: path.join(format!("{at}.png")).into(),
        class: at % 2,
        split: if at < count { Split::Test } else { Split::Train },
    };
    let name = path.display().to_string();
    let classes = ["a", "b"].map(|class| format!("{name} {class}")).into();
    let samples = (0..=count).map(sample).collect();
    let root = path.to_owned();
    let dataset = Dataset { name, root, layout: "folder", classes, samples, ..Dataset::default() };
    Arc::new(EvalSplit::new(dataset, None))
}

/// The probe that a file name describes: `sinkhorn-70-last` is of the head `sinkhorn`, with an accuracy of 70 %.
fn named(path: &Path) -> ProbeInfo {
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut parts = name.split('-');
    let head = parts.next().unwrap_or_default().to_owned();
    let accuracy = parts.next().and_then(|part| part.parse().ok());
    let routed = ["sinkhorn", "softsort"].contains(&head.as_str());
    ProbeInfo { head, routed, accuracy, ..probe(&name, 24) }
}

/// The probes of the run that [`does`] opens.
const RUN: [&str; 7] = [
    "attention-91-best",
    "attention-90-last",
    "gap-80-best",
    "gap-80-last",
    "sinkhorn-70-best",
    "softsort-75-best",
    "softsort-76-last",
];

/// Dispatches a command and answers its requests: all of them succeed but those that name `lost`.
fn does(state: &mut State, command: Command) {
    let mut requests = VecDeque::from(state.dispatch(command));
    while let Some(request) = requests.pop_front() {
        let lost = format!("{request:?}").contains("lost");
        let Some(job) = request.job() else { continue };
        let event = match request {
            _ if lost => {
                let error = UserError::new("lost: no such file").remedy("Choose another");
                requests.extend(state.apply(Event::Failed(job, error)));
                continue;
            }
            Request::Files(_, Files::OpenDataset { entry, path, .. }) => {
                Event::DatasetOpened { job, entry, part: part(&path, 4) }
            }
            Request::Files(_, Files::OpenRun { folder }) => {
                let paths = RUN.iter().map(|name| folder.join(format!("{name}.safetensors")));
                let sources = [("vit", PathKind::Backbone), ("photos", PathKind::Dataset)];
                let sources = sources.map(|(path, kind)| (path.into(), kind)).into();
                Event::ProbesListed { job, paths: paths.collect(), sources }
            }
            other => match opened(&other, named) {
                Some(event) => event,
                None => continue,
            },
        };
        requests.extend(state.apply(event));
        requests.extend(state.apply(Event::Finished(job)));
    }
}

/// [`does`] for a command whose expression borrows the state.
macro_rules! wants {
    ($state:ident, $command:expr) => {{
        let command = $command;
        does(&mut $state, command);
    }};
}

fn compared(state: &State) -> Vec<String> {
    state.compared().map(|(_, column)| state.library.probe_name(column.probe)).collect()
}

/// The name of the probe of the focused column.
fn focused_probe(state: &State) -> String {
    let column = state.focus().and_then(|id| state.columns.get(&id)).expect("a column");
    state.library.probe_name(column.probe)
}

fn id(state: &State, name: &str) -> ProbeId {
    let found = state.library.probes.iter().find(|(_, probe)| probe.name() == name);
    *found.unwrap_or_else(|| panic!("no probe {name}")).0
}

/// The state of [`story`] with further probes `c` and `d`, which are not compared.
fn with_more_probes() -> State {
    let mut state = story();
    wants!(state, Command::OpenProbes(["c", "d"].map(|name| format!("{name}.safetensors").into()).into()));
    wants!(state, Command::CompareOnly(vec![id(&state, "a"), id(&state, "b")]));
    assert_eq!(compared(&state), ["a", "b"]);
    state
}

#[test]
fn a_probe_that_is_clicked_is_looked_through_and_stands_in_no_comparison() {
    let mut state = with_more_probes();
    let before = state.reveal.count;
    wants!(state, Command::ShowProbe(id(&state, "c")));
    assert_eq!((focused_probe(&state).as_str(), state.reveal.place), ("c", Some(RevealTarget::Probe)));
    assert!(state.reveal.count > before, "the window turns to it");
    assert_eq!(compared(&state), ["a", "b"]);
    // The next one takes its place; a compared probe is shown in its own column.
    wants!(state, Command::ShowProbe(id(&state, "d")));
    assert_eq!((focused_probe(&state).as_str(), state.columns.len()), ("d", 3));
    wants!(state, Command::ShowProbe(id(&state, "b")));
    assert_eq!((focused_probe(&state).as_str(), compared(&state).len()), ("b", 2));
    // It is explained as every column is.
    let requests = state.dispatch(Command::ShowProbe(id(&state, "c")));
    let asks = requests.iter().any(|request| matches!(request, Request::Compute(_, Compute::Explain(_))));
    assert!(asks, "{requests:?}");
}

#[test]
fn adding_to_compare_is_a_step_of_its_own_and_says_where_it_stands() {
    let mut state = with_more_probes();
    let c = id(&state, "c");
    wants!(state, Command::ShowProbe(c));
    let shown = state.focus();
    wants!(state, Command::Compare(vec![c]));
    assert_eq!(compared(&state), ["a", "b", "c"]);
    assert_eq!(state.focus(), shown, "what was looked through keeps what it shows");
    assert_eq!(state.reveal.place, Some(RevealTarget::Compare(column(&state, 2))));
    let note = &state.toasts.last().expect("a note").text;
    assert_eq!(note, "c was added to Compare, as column 3 of 3");
    assert_eq!(state.undo_text(), Some("Add c to Compare"));
    wants!(state, Command::Undo);
    assert_eq!((compared(&state), focused_probe(&state).as_str()), (vec!["a".into(), "b".into()], "c"));
    // A probe that is compared already is scrolled to, which is no step of Undo.
    let steps = state.undo_text().map(str::to_owned);
    wants!(state, Command::Compare(vec![id(&state, "a")]));
    assert_eq!(state.reveal.place, Some(RevealTarget::Compare(column(&state, 0))));
    assert_eq!((state.undo_text().map(str::to_owned), compared(&state).len()), (steps, 2));
}

#[test]
fn undo_leaves_one_column_of_a_probe_that_was_looked_through_meanwhile() {
    let mut state = with_more_probes();
    let [c, d] = ["c", "d"].map(|name| id(&state, name));
    let all = |state: &State| {
        let name = |column: &Column| (state.library.probe_name(column.probe), column.compared);
        state.columns.values().map(name).collect::<Vec<_>>()
    };
    wants!(state, Command::ShowProbe(c));
    wants!(state, Command::Compare(vec![c]));
    wants!(state, Command::RemoveColumn(column(&state, 2)));
    wants!(state, Command::ShowProbe(c));
    let looked_through = all(&state);
    wants!(state, Command::Undo);
    assert_eq!(all(&state)[2..], [("c".to_owned(), true)], "the column is back, alone");
    assert_eq!((focused_probe(&state).as_str(), state.focus()), ("c", Some(column(&state, 2))));
    wants!(state, Command::Redo);
    assert_eq!(all(&state), looked_through);
    // Nor are there two temporary columns, also of two probes.
    wants!(state, Command::Undo);
    wants!(state, Command::ShowProbe(d));
    wants!(state, Command::Undo);
    assert_eq!(all(&state)[2..], [("c".to_owned(), false)]);
    assert_eq!(focused_probe(&state), "c");
    wants!(state, Command::Redo);
    assert_eq!(all(&state)[2..], [("c".to_owned(), true), ("d".to_owned(), false)]);
    // One that reads in another way is no double of the column that is added.
    wants!(state, Command::SetIntervention(state.focus().expect("a column"), Intervention::NoRouting));
    wants!(state, Command::AddColumn { probe: d, image: None, change: Intervention::None });
    assert_eq!(state.columns.values().filter(|column| column.probe == d).count(), 2);
    // One that was there beside the column that is brought back stays.
    let of_d = |state: &State, compared| {
        let found = state.columns.iter().find(|(_, column)| column.probe == d && column.compared == compared);
        *found.expect("a column").0
    };
    wants!(state, Command::SetIntervention(of_d(&state, false), Intervention::None));
    let both = all(&state);
    wants!(state, Command::RemoveColumn(of_d(&state, true)));
    wants!(state, Command::Undo);
    assert_eq!(all(&state), both);
}

#[test]
fn undo_of_a_finding_brings_back_the_focus_also_where_a_probe_was_looked_through_meanwhile() {
    let mut state = with_more_probes();
    let [first, second] = [0, 1].map(|at| column(&state, at));
    wants!(state, Command::Focus(second));
    let finding = state.finding_now(Value::Null, None).expect("an image");
    wants!(state, Command::KeepFinding(Box::new(finding)));
    let kept = state.findings.iter().last().expect("a finding").0;
    wants!(state, Command::ShowProbe(id(&state, "c")));
    wants!(state, Command::Focus(first));
    wants!(state, Command::ShowFinding { id: kept, layout: Value::Null });
    assert_eq!(focused_probe(&state), "b");
    wants!(state, Command::ShowProbe(id(&state, "d")));
    wants!(state, Command::Undo);
    assert_eq!((focused_probe(&state).as_str(), state.columns.len()), ("a", 3));
}

#[test]
fn several_are_compared_alone_or_taken_away_at_once() {
    let mut state = with_more_probes();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id(&state, name));
    wants!(state, Command::SetIntervention(column(&state, 1), Intervention::NoRouting));
    wants!(state, Command::CompareOnly(vec![b, d]));
    assert_eq!(compared(&state), ["b", "d"]);
    let change = &state.compared().next().expect("a column").1.change;
    assert_eq!(*change, Intervention::NoRouting, "one that stays is what it was");
    wants!(state, Command::Undo);
    assert_eq!(compared(&state), ["a", "b"]);
    wants!(state, Command::Compare(vec![c, d]));
    wants!(state, Command::Uncompare(vec![a, d]));
    assert_eq!(compared(&state), ["b", "c"]);
    wants!(state, Command::KeepColumn(column(&state, 1)));
    assert_eq!((compared(&state), state.undo_text()), (vec!["c".into()], Some("Remove the other columns")));
    wants!(state, Command::Undo);
    wants!(state, Command::ShowProbe(d));
    let alone = state.focus().expect("a column");
    wants!(state, Command::KeepColumn(alone));
    assert!(!Action::KeepColumn.enabled(&state) && compared(&state) == ["b", "c"], "it is none of them");
    wants!(state, Command::CloseProbes(vec![a, b]));
    assert_eq!((compared(&state), state.undo_text()), (vec!["c".into()], Some("Close 2 probes")));
    wants!(state, Command::Undo);
    assert_eq!((compared(&state), state.library.probes.len()), (vec!["b".into(), "c".into()], 4));
}

#[test]
fn of_a_run_the_best_of_every_head_are_shown_routers_first() {
    let mut state = State::new(Settings::default());
    wants!(state, Command::OpenBackbone("one".into()));
    wants!(state, Command::OpenImages(vec!["x.png".into()]));
    wants!(state, Command::OpenRun("runs/one".into()));
    assert_eq!(state.library.probes.len(), RUN.len());
    let expected = ["softsort-76-last", "sinkhorn-70-best", "attention-91-best", "gap-80-best"];
    assert_eq!(compared(&state), expected);
    assert_eq!(focused_probe(&state), expected[0]);
    assert_eq!(state.reveal.place, Some(RevealTarget::Accuracies), "their accuracies are in sight");
    assert_eq!(state.settings.recent.runs, [PathBuf::from("runs/one")]);
    assert_eq!(
        (state.library.backbones.len(), state.library.datasets.len()),
        (1, 0),
        "what is open stays alone"
    );
    // With a full comparison, the best probe is shown beside it.
    let mut state = with_more_probes();
    wants!(state, Command::Compare(vec![id(&state, "c"), id(&state, "d")]));
    wants!(state, Command::OpenRun("runs/one".into()));
    assert_eq!((compared(&state).join(" "), focused_probe(&state).as_str()), ("a b c d".into(), expected[0]));
}

#[test]
fn a_probe_that_is_opened_alone_is_looked_through_where_it_becomes_no_column() {
    let mut state = with_more_probes();
    wants!(state, Command::OpenProbes(vec!["c.safetensors".into()]));
    assert_eq!((focused_probe(&state).as_str(), compared(&state).len()), ("c", 2), "it was open");
    wants!(state, Command::Compare(vec![id(&state, "c"), id(&state, "d")]));
    wants!(state, Command::OpenProbes(vec!["e.safetensors".into()]));
    assert_eq!((focused_probe(&state).as_str(), compared(&state).len()), ("e", 4), "there is no room");
}

#[test]
fn a_run_says_how_many_of_its_probes_opened() {
    let mut state = story();
    let job = state.dispatch(Command::OpenRun("runs/two".into()))[0].job().expect("a job");
    let paths = ["gap-80-best", "lost"].map(|name| PathBuf::from(format!("runs/two/{name}.safetensors")));
    for request in state.apply(Event::ProbesListed { job, paths: paths.into(), sources: Vec::new() }) {
        let Request::Compute(job, Compute::OpenProbe { entry, path }) = request else { continue };
        state.apply(match path.ends_with("lost.safetensors") {
            true => Event::Failed(job, UserError::new("no such file")),
            false => Event::ProbeOpened { job, entry, info: named(&path) },
        });
    }
    let note = state.toasts.last().expect("a note");
    assert!(note.text.starts_with("1 probe opened"), "{}", note.text);
}

#[test]
fn a_run_that_fits_no_open_backbone_says_so() {
    let mut state = story();
    let job = state.dispatch(Command::OpenRun("runs/wide".into()))[0].job().expect("a job");
    let paths = vec![PathBuf::from("runs/wide/gap-80-best.safetensors")];
    let sources = vec![("models/wide".into(), PathKind::Backbone)];
    for request in state.apply(Event::ProbesListed { job, paths, sources }) {
        let Request::Compute(job, Compute::OpenProbe { entry, path }) = request else { continue };
        let info = ProbeInfo { width: 48, backbone: "wide".into(), ..named(&path) };
        state.apply(Event::ProbeOpened { job, entry, info });
    }
    let note = state.toasts.last().expect("a note");
    assert!(
        note.text.starts_with("1 probe opened; none fits. gap-80-best: Reads tokens of 48"),
        "{}",
        note.text
    );
    // Its panes say so too, and offer the backbone of the run.
    assert_eq!(focused_probe(&state), "gap-80-best");
    let wanted = state.backbone_to_open(id(&state, "gap-80-best"));
    assert_eq!(wanted, Some(("wide", "models/wide".to_owned())));
    wants!(state, Command::OpenBackbone("models/wide".into()));
    assert_eq!(state.backbone_to_open(id(&state, "gap-80-best")), None, "it is open");
}

#[test]
fn a_run_opens_with_the_backbone_and_the_dataset_it_was_trained_on() {
    let mut state = State::new(Settings::default());
    wants!(state, Command::OpenRun("runs/one".into()));
    let sources: Vec<&str> = state.library.backbones.values().map(|backbone| &*backbone.source).collect();
    assert_eq!(sources, ["vit"]);
    let dataset = state.library.datasets.values().next().expect("a dataset");
    assert_eq!((dataset.path.as_path(), state.library.images.len()), (Path::new("photos"), 4));
    assert!(state.selection.image.is_some(), "an image is looked at");
    assert_eq!(focused_probe(&state), "softsort-76-last");
    assert_eq!(
        state.reveal.place,
        Some(RevealTarget::Accuracies),
        "the accuracies of the run are in sight all the same"
    );
}

/// Opens a run whose probes were trained on such tokens of the backbone `one`, beside what `pending` requests, which is answered after
/// them; how often a backbone was opened.
fn open_run_on(state: &mut State, probes: &[(&str, TokenSpec)], pending: Vec<Request>) -> usize {
    let job = state.dispatch(Command::OpenRun("runs/layers".into()))[0].job().expect("a job");
    let path = |name: &str| PathBuf::from(format!("runs/layers/{name}.safetensors"));
    let paths = probes.iter().map(|(name, _)| path(name)).collect();
    let info = |asked: &Path| {
        let (name, token_spec) = probes.iter().find(|(name, _)| path(name) == asked).expect("one of them");
        let (width, trained) = (24 * token_spec.blocks.unwrap_or(1), trained_on(name, *token_spec).trained);
        let backbone_fingerprint = Some("weights of one".to_owned());
        ProbeInfo { trained, width, backbone_fingerprint, ..named(asked) }
    };
    let mut requests = VecDeque::from(state.apply(Event::ProbesListed { job, paths, sources: Vec::new() }));
    requests.extend(state.apply(Event::Finished(job)));
    requests.extend(pending);
    let mut backbones = 0;
    while let Some(request) = requests.pop_front() {
        let (Some(job), Some(event)) = (request.job(), opened(&request, info)) else { continue };
        backbones += usize::from(matches!(event, Event::BackboneOpened { .. }));
        requests.extend(state.apply(event));
        requests.extend(state.apply(Event::Finished(job)));
    }
    backbones
}

#[test]
fn the_shown_probes_of_a_run_at_several_layers_are_each_read_on_the_tokens_of_its_own() {
    let of = |layer| TokenSpec { layer, ..TokenSpec::default() };
    let probes = [
        ("softsort-75-best", of(Some(1))),
        ("gap-80-best", of(None)),
        ("raster-70-best", of(Some(0))),
        ("gap-60-best", of(Some(0))),
        ("attention-50-best", of(Some(1))),
    ];
    // The probes are open after their backbone, before it, or before it where another one is open.
    for (before, after) in [(Some("one"), None), (None, Some("one")), (Some("other"), Some("one"))] {
        let mut state = State::new(Settings::default());
        if let Some(before) = before {
            wants!(state, Command::OpenBackbone(before.into()));
        }
        let open = |after: &str| state.dispatch(Command::OpenBackbone(after.into()));
        let pending = after.map_or_else(Vec::new, open);
        open_run_on(&mut state, &probes, pending);
        let shown: Vec<ProbeId> = state.compared().map(|(_, column)| column.probe).collect();
        assert_eq!(shown.len(), 4, "one of every head");
        for probe in shown {
            let fit = state.library.fit(probe);
            assert_eq!(fit, Some(Compatibility::Fits), "{}", state.library.probe_name(probe));
        }
        let own = state.library.backbones.values().filter(|backbone| backbone.source == "one");
        assert_eq!(own.count(), 3, "one for each layer");
    }
}

#[test]
fn a_second_run_at_the_same_layers_opens_no_backbone_again() {
    let mut state = State::new(Settings::default());
    wants!(state, Command::OpenBackbone("one".into()));
    let of = |layer| TokenSpec { layer, ..TokenSpec::default() };
    let first = [("gap-80-best", of(None)), ("raster-70-best", of(Some(1)))];
    assert_eq!(open_run_on(&mut state, &first, Vec::new()), 1);
    let second = [("sinkhorn-75-best", of(None)), ("softsort-70-best", of(Some(1)))];
    assert_eq!(open_run_on(&mut state, &second, Vec::new()), 0);
    assert_eq!(state.compared().count(), 4);
}

#[test]
fn a_run_on_joined_layers_is_shown_where_one_layer_was_read() {
    let mut state = State::new(Settings::default());
    wants!(state, Command::OpenBackbone("one".into()));
    let joined = TokenSpec { blocks: Some(2), ..TokenSpec::default() };
    open_run_on(&mut state, &[("gap-80-best", joined), ("raster-70-best", joined)], Vec::new());
    assert_eq!(compared(&state), ["gap-80-best", "raster-70-best"]);
    assert_eq!((state.backbone_options.blocks, state.library.backbones.len()), (Some(2), 1));
}

#[test]
fn an_evaluation_on_other_tokens_than_in_training_says_so() {
    let mut state = State::new(Settings::default());
    wants!(state, Command::OpenBackbone("one".into()));
    wants!(state, Command::OpenDataset("birds".into(), None));
    let of = |layer| TokenSpec { layer, ..TokenSpec::default() };
    // Not the best of its head, so that it is not shown and its layer is not read.
    let probes = [("gap-80-best", of(None)), ("gap-60-best", of(Some(1)))];
    open_run_on(&mut state, &probes, Vec::new());
    let mut said = |all: bool| {
        state.dispatch(Command::Evaluate { all });
        let warned = state.toasts.iter().filter(|toast| toast.text.contains("will mean little"));
        warned.map(|toast| toast.text.clone()).collect::<Vec<_>>()
    };
    assert!(said(false).is_empty(), "what is shown is read as it was trained");
    let [said] = &said(true)[..] else { panic!("one warning") };
    assert_says(said, &["1 probe ", "gap-60-best: Trained on tokens after layer 1"]);
}

/// As `open --demo --data X` would on X, whose classes no probe of the demo has.
#[test]
fn an_evaluation_that_waits_is_not_on_a_dataset_that_is_opened_after_it_was_asked_for() {
    for (other, expected) in [(None, vec!["birds"]), (Some("cars"), vec![])] {
        let mut state = State::new(Settings::default());
        wants!(state, Command::OpenBackbone("one".into()));
        wants!(state, Command::OpenDataset("birds".into(), None));
        let mut requests = state.dispatch(Command::OpenProbes(vec!["gap-80-best.safetensors".into()]));
        requests.extend(state.dispatch(Command::Evaluate { all: true }));
        let then = other.map(|name| Command::OpenDataset(name.into(), None));
        requests.extend(then.into_iter().flat_map(|command| state.dispatch(command)));
        let (mut requests, mut evaluated) = (VecDeque::from(requests), Vec::new());
        while let Some(request) = requests.pop_front() {
            let Some(job) = request.job() else { continue };
            let event = match &request {
                Request::Files(_, Files::OpenDataset { entry, path, .. }) => {
                    Some(Event::DatasetOpened { job, entry: *entry, part: part(path, 4) })
                }
                Request::Compute(_, Compute::Evaluate(asked)) => {
                    evaluated.push(asked.part.set.dataset.clone());
                    None
                }
                other => opened(other, named),
            };
            let Some(event) = event else { continue };
            requests.extend(state.apply(event));
            requests.extend(state.apply(Event::Finished(job)));
        }
        assert_eq!(evaluated, expected);
    }
}

#[test]
fn the_next_training_is_on_the_dataset_in_use_until_another_is_chosen() {
    let mut state = story();
    let data = |state: &State| state.training.form.data.clone();
    for name in ["birds", "cars"] {
        wants!(state, Command::OpenDataset(name.into(), None));
        assert_eq!(data(&state), Some(name.into()));
    }
    let mut form = state.training.form.clone();
    form.data = Some("birds".into());
    wants!(state, Command::SetTrainForm(Box::new(form)));
    wants!(state, Command::OpenDataset("flowers".into(), None));
    assert_eq!(data(&state), Some("birds".into()), "what was chosen stays");
}

/// The names of the images that the gallery shows.
fn gallery(state: &State) -> Vec<String> {
    let name = |id: ImageId| state.library.images[&id].source.to_string();
    state.gallery_images(state.focus()).into_iter().map(name).collect()
}

fn dataset(state: &State, name: &str) -> DatasetId {
    *state.library.datasets.iter().find(|(_, dataset)| dataset.name() == name).expect("a dataset").0
}

fn shown(state: &State) -> String {
    state.current_image().expect("an image").source.to_string()
}

#[test]
fn a_dataset_that_opens_beside_another_is_what_is_shown() {
    let mut state = story();
    wants!(state, Command::OpenDataset("birds".into(), None));
    assert_eq!((shown(&state).as_str(), gallery(&state).len()), ("birds/0.png", 4));
    wants!(state, Command::Step(2));
    wants!(state, Command::OpenDataset("cars".into(), None));
    assert_eq!(shown(&state), "cars/0.png");
    assert_eq!(gallery(&state), ["cars/0.png", "cars/1.png", "cars/2.png", "cars/3.png"]);
    assert_eq!(state.dataset().map(|(id, _)| id), Some(dataset(&state, "cars")));
    assert_eq!(state.gallery_dataset(), state.dataset().map(|(id, _)| id));
    // Stepping stays in the dataset.
    wants!(state, Command::Step(-1));
    assert_eq!(shown(&state), "cars/0.png");
    wants!(state, Command::Step(isize::MAX));
    assert_eq!((shown(&state).as_str(), state.images_in_scope()), ("cars/3.png", 4));
    // Back to the first dataset, then to images of none.
    wants!(state, Command::UseDataset(dataset(&state, "birds")));
    assert_eq!((shown(&state).as_str(), gallery(&state).len()), ("birds/0.png", 4));
    wants!(state, Command::OpenImages(vec!["new.png".into()]));
    assert_eq!(shown(&state), "new.png");
    assert_eq!(gallery(&state), ["x.png", "y.png", "z.png", "new.png"]);
    let all = GalleryFilter::new(Scope::All);
    wants!(state, Command::SetGalleryFilter(Box::new(all)));
    assert_eq!((gallery(&state).len(), state.gallery_dataset()), (12, None));
    // Selecting an image switches to its dataset.
    wants!(state, Command::UseDataset(dataset(&state, "birds")));
    let car = state.library.images.iter().find(|(_, image)| image.source.path == Path::new("cars/2.png"));
    wants!(state, Command::SelectImage(*car.expect("a car").0));
    assert_eq!((shown(&state).as_str(), gallery(&state)[0].as_str()), ("cars/2.png", "cars/0.png"));
}

#[test]
fn the_class_filter_and_the_labels_are_those_of_the_images_own_dataset() {
    let mut state = story();
    wants!(state, Command::OpenDataset("birds".into(), None));
    let class = GalleryFilter { class: Some(1), ..state.gallery_filter.clone() };
    wants!(state, Command::SetGalleryFilter(Box::new(class)));
    assert_eq!(gallery(&state), ["birds/1.png", "birds/3.png"]);
    let named = GalleryFilter { text: "Birds B".to_owned(), class: None, ..state.gallery_filter.clone() };
    wants!(state, Command::SetGalleryFilter(Box::new(named)));
    assert_eq!(gallery(&state), ["birds/1.png", "birds/3.png"], "a class among many is found by its name");
    wants!(state, Command::OpenDataset("cars".into(), None));
    assert_eq!(
        (state.gallery_filter.class, gallery(&state).len()),
        (None, 4),
        "a class of birds is none of cars"
    );
    let label = |state: &State, path: &str| {
        let all = state.library.images.values().filter(|image| image.source.path == Path::new(path));
        all.map(|image| image.label.expect("a label").dataset).collect::<Vec<_>>()
    };
    let [birds, cars] = ["birds", "cars"].map(|name| dataset(&state, name));
    assert_eq!((label(&state, "birds/1.png"), label(&state, "cars/1.png")), (vec![birds], vec![cars]));
    // A dataset that shares images with another takes none of them away.
    let requests = state.dispatch(Command::OpenDataset("table.csv".into(), None));
    let [Request::Files(job, Files::OpenDataset { entry, .. })] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    state.apply(Event::DatasetOpened { job: *job, entry: *entry, part: part(Path::new("birds"), 2) });
    state.apply(Event::Finished(*job));
    assert_eq!(label(&state, "birds/1.png"), [birds, *entry]);
    assert_eq!(gallery(&state), ["birds/0.png", "birds/1.png"]);
    wants!(state, Command::CloseDataset(*entry));
    wants!(state, Command::UseDataset(birds));
    assert_eq!(gallery(&state).len(), 4);
}

#[test]
fn what_did_not_open_is_forgotten_once_it_is_closed_or_opened_again() {
    let mut state = State::new(Settings::default());
    wants!(
        state,
        Command::OpenProbes(["lost-1.safetensors", "lost-2.safetensors"].map(PathBuf::from).into())
    );
    let [first, second] = ["lost-1", "lost-2"].map(|name| id(&state, name));
    wants!(state, Command::CloseProbes(vec![first]));
    assert_eq!((state.toasts.len(), state.jobs.len()), (1, 1), "the other one");
    wants!(state, Command::CloseProbes(vec![second]));
    assert!(state.toasts.is_empty() && state.jobs.is_empty(), "{:?} {:?}", state.toasts, state.jobs);
    assert!(state.log_text().contains("lost: no such file"));
    wants!(state, Command::Undo);
    wants!(state, Command::ReopenProbe(second));
    assert_eq!((state.toasts.len(), state.jobs.len()), (1, 1));
    state.dispatch(Command::ReopenProbe(second));
    assert!(state.toasts.is_empty(), "{:?}", state.toasts);
    // Of a run or of images no entry is left that says why.
    wants!(state, Command::CloseProbes(vec![second]));
    wants!(state, Command::OpenRun("lost".into()));
    wants!(state, Command::Step(1));
    assert_eq!(state.toasts.len(), 1);
    // A dataset that was open had another name then.
    let mut state = State::new(Settings::default());
    let birds = |split| Command::OpenDataset("photos/birds".into(), split);
    wants!(state, birds(None));
    let job = state.dispatch(birds(Some(Split::Val)))[0].job().expect("a job");
    state.apply(Event::Failed(job, UserError::new("has no such split")));
    assert_eq!(state.jobs.len(), 1);
    let dataset = *state.library.datasets.keys().next().expect("a dataset");
    state.dispatch(Command::CloseDataset(dataset));
    assert!(state.toasts.is_empty() && state.jobs.is_empty(), "{:?} {:?}", state.toasts, state.jobs);
}

#[test]
fn retry_opens_again_what_did_not_open() {
    let mut state = State::new(Settings::default());
    assert!(!Action::Retry.enabled(&state));
    wants!(state, Command::OpenBackbone("lost".into()));
    assert!(Action::Retry.enabled(&state));
    let requests = state.dispatch(Command::Retry);
    assert!(matches!(requests.as_slice(), [Request::Fetch(_, Fetch::OpenBackbone { .. })]), "{requests:?}");
}

#[test]
fn what_did_not_open_is_said_and_not_remembered() {
    let mut state = State::new(Settings::default());
    for command in [
        Command::OpenBackbone("lost".into()),
        Command::OpenRun("lost".into()),
        Command::OpenDataset("lost".into(), None),
        Command::OpenImages(vec!["lost/1.png".into()]),
        Command::OpenProbes(vec!["lost.safetensors".into()]),
    ] {
        let noted = state.toasts.len();
        wants!(state, command.clone());
        assert_eq!(state.settings.recent, Recent::default(), "{command:?}");
        let note = state.toasts.first().expect("a note");
        assert_eq!(note.severity, Severity::Error);
        assert!(note.text.contains("lost: no such file"), "{}", note.text);
        assert!(noted > 0 || note.text.ends_with("Choose another"), "{}", note.text);
    }
    // Several failures in a row are one note, which counts them.
    assert_eq!(state.toasts.len(), 1, "{:?}", state.toasts);
    assert!(
        state.toasts[0].text.starts_with("5 could not be opened; the last: "),
        "{}",
        state.toasts[0].text
    );
    wants!(state, Command::DismissToast(state.toasts[0].id));
    wants!(state, Command::OpenRun("lost".into()));
    assert!(state.toasts[0].text.starts_with("Could not be opened: lost"), "{}", state.toasts[0].text);
    // What opened is remembered.
    wants!(state, Command::OpenImages(vec!["here/1.png".into()]));
    wants!(state, Command::OpenDataset("birds".into(), None));
    wants!(state, Command::OpenProbes(["p/1.safetensors", "p/2.safetensors"].map(PathBuf::from).into()));
    let Recent { images, datasets, runs, probes, backbones, .. } = &state.settings.recent;
    assert_eq!((images.len(), datasets.len(), backbones.len()), (1, 1, 0));
    assert_eq!((runs.front().map(PathBuf::as_path), probes.len()), (Some(Path::new("p")), 0), "their folder");
    // The demo is not remembered, as nobody chose it.
    let mut state = State::new(Settings::default());
    let requests = state.open_demo(vec![Command::OpenBackbone("demo".into())]);
    let job = requests[0].job().expect("a job");
    state.apply(Event::Finished(job));
    assert_eq!(state.settings.recent, Recent::default());
}
