//! Removal curves by the worker and in the window: requests, answers, and the pane in every state.

use ssmprobe::app::jobs::engine::{BackboneSpec, Engine};
use ssmprobe::app::jobs::evaluate::EvalProbe;
use ssmprobe::app::jobs::removal::{self, RemovalAnswer, RemovalRequest};
use ssmprobe::app::jobs::{BackboneId, Cancel, JobError, Reporter, Unit};
use ssmprobe::app::worker::WorkerEnv;
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::explain::removal::{Mode, Removal, RemovalSpec};
use ssmprobe::model::trace::Found;

use crate::pictures::{painted, small};
use crate::run::{fixture, root};
use crate::state;
use crate::window::prelude::*;
use crate::worker::Sandbox;

#[test]
fn the_worker_removes_tokens_and_patches_as_inspect_does() {
    let mut sandbox = Sandbox::with(WorkerEnv::default(), &["sinkhorn", "gap"]);
    let path = fixture("images/one.png");
    let mut ask = |probe: u64, job: u64, class: ClassChoice| -> RemovalAnswer {
        let subject =
            EvalProbe { probe: ProbeId(probe), backbone: BackboneId(1), change: Intervention::None };
        let spec = RemovalSpec { modes: Mode::ALL.to_vec(), steps: 4, seed: 1 };
        let request = RemovalRequest { subject, source: path.clone().into(), class, spec, image_seed: 0 };
        let events = sandbox.job(Request::Compute(JobId(job), Compute::Removal(request)));
        let reports = events.iter().filter(|event| matches!(event, Event::Progress(..))).count();
        let answer = events.into_iter().find_map(pick!(Event::RemovalMeasured { answer, .. } => answer));
        assert!(reports > 0 || answer.as_ref().is_some_and(Result::is_err), "nobody is told how far it is");
        answer.expect("an answer")
    };
    let found = ask(1, 60, ClassChoice::Predicted).expect("curves");
    assert_eq!(found, ask(1, 61, ClassChoice::Predicted).expect("curves"), "seeded, so the same twice");
    assert_eq!((found.modes.len(), found.rankings.len(), found.fraction.len()), (4, 6, 5));
    for (mode, curves) in &found.modes {
        let curves = curves.found().expect("a head that has all");
        for [deletion, insertion] in curves.values() {
            assert_close(mode.id(), deletion.logit[0], insertion.logit[4], 1e-9);
        }
    }
    // At half of the tokens, deletion keeps the least important ones and insertion the most important ones.
    let [deletion, insertion] = &found.modes[&Mode::Rerouted].found().expect("curves")["evidence"];
    assert!(deletion.logit[2] != insertion.logit[2] && deletion.margin.is_some());
    let gap = ask(2, 62, ClassChoice::Named("1".into())).expect("curves");
    assert!(gap.class.0 == 1 && gap.rankings["weight"].found().is_none(), "{:?}", gap.rankings["weight"]);
    let fault = ask(2, 63, ClassChoice::Named("no such class".into())).expect_err("no class");
    assert!(fault.to_string().contains("no such class"), "{fault}");
}

/// Opens a backbone anew at the first step of a job.
struct Reopening(Option<BackboneSpec>, Cancel);

impl Reporter for Reopening {
    fn progress(&mut self, _: &str, _: u64, _: Option<u64>, _: Unit) {}

    fn warn(&mut self, _: String) {}

    fn cancel(&self) -> &Cancel {
        &self.1
    }

    fn pause(&mut self, engine: &mut Engine) -> Result<(), JobError> {
        self.0.take().map_or(Ok(()), |spec| engine.open_backbone(spec, self).map(drop))
    }
}

/// The curves of an image by a probe that reads it with this change, drawn for it by `image_seed`. The backbone is opened with
/// the first options, and with the second ones during the measurement.
fn curves(
    (folder, options): (PathBuf, [BackboneOptions; 2]),
    probe: &Path,
    (change, image_seed): (Intervention, u64),
) -> RemovalAnswer {
    let mut engine = Engine::new(WorkerEnv::default());
    let [spec, again] = options.map(|options| BackboneSpec {
        entry: BackboneId(1),
        folder: folder.clone(),
        device: "cpu".into(),
        options,
    });
    engine.open_backbone(spec, &mut Reopening(None, Cancel::default())).ok().expect("a backbone");
    engine.open_probe(ProbeId(1), probe).ok().expect("a probe");
    let subject = EvalProbe { probe: ProbeId(1), backbone: BackboneId(1), change };
    let spec = RemovalSpec { modes: Mode::ALL.to_vec(), steps: 4, seed: 1 };
    let (place, class) = (fixture("images/one.png").into(), ClassChoice::Predicted);
    let request = RemovalRequest { subject, source: place, class, spec, image_seed };
    let mut reporter = Reopening(Some(again), Cancel::default());
    JobError::answer(removal::run(&mut engine, &request, &mut reporter)).ok().expect("not cancelled")
}

#[test]
fn curves_of_a_backbone_that_is_opened_with_other_options_meanwhile_are_not_mixed() {
    let reopened = |layer: Option<usize>| {
        let own = BackboneOptions::default();
        let options = [own, BackboneOptions { layer, ..own }];
        let probe = fixture("probes/gap.safetensors");
        curves((fixture("backbone"), options), &probe, (Intervention::None, 0))
    };
    assert!(reopened(None).is_ok(), "the same again");
    let error = reopened(Some(0)).expect_err("two layers").to_string();
    assert!(error.contains("was reopened"), "{error}");
}

#[test]
fn curves_are_of_the_order_drawn_for_their_image_and_say_how_its_tokens_differ() {
    let options = BackboneOptions { layer: Some(0), ..BackboneOptions::default() };
    let [first, second] = [0, 1].map(|image_seed| {
        let probe = fixture("probes/sinkhorn.safetensors");
        let found =
            curves((fixture("backbone"), [options; 2]), &probe, (Intervention::Random(7), image_seed));
        found.expect("curves")
    });
    assert_eq!(first.reading.changes().as_deref(), Some("random order, seed 7, tokens after layer 0"));
    assert_ne!(first.rankings["late"], second.rankings["late"]);
}

#[test]
fn of_shuffled_tokens_no_patch_is_removed() {
    let demo = root().join("assets/demo");
    let options = BackboneOptions { mae_order: MaeOrder::Shuffled(1), ..BackboneOptions::default() };
    let probe = demo.join("probes/mae/gap.safetensors");
    let found = curves((demo.join("mae"), [options; 2]), &probe, (Intervention::None, 0)).expect("curves");
    for mode in [Mode::Patches, Mode::Pixels] {
        let Found::None { none } = &found.modes[&mode] else { panic!("{mode:?}") };
        assert!(none.contains("shuffled order"), "{none}");
    }
}

fn removal_request(requests: Vec<Request>) -> (JobId, RemovalRequest) {
    let asked =
        requests.into_iter().find_map(pick!(Request::Compute(job, Compute::Removal(ask)) => (job, ask)));
    asked.expect("it is asked for")
}

fn answer(state: &mut State, job: JobId, answer: RemovalAnswer) {
    state.apply(Event::RemovalMeasured { job, answer });
    state.apply(Event::Finished(job));
}

#[test]
fn curves_are_of_the_probe_the_image_and_the_class_that_were_asked_about() {
    let mut state = state::story();
    let column = state::column(&state, 0);
    let (job, ask) = removal_request(state.dispatch(Command::RemoveTokens(column, vec![Mode::Frozen])));
    assert_eq!((ask.spec.modes, ask.class), (vec![Mode::Frozen], ClassChoice::Predicted));
    assert_eq!(state.removal_of(column).1, Some(job));
    answer(&mut state, job, Ok(Arc::new(small::removal())));
    assert!(matches!(state.removal_of(column), (Some(Ok(_)), None)));
    state.dispatch(Command::SetClass(ClassChoice::Named("0".into())));
    assert!(state.removal_of(column).0.is_none(), "of another class");
    state.dispatch(Command::SetClass(ClassChoice::Predicted));
    assert!(state.removal_of(column).0.is_some());
    // A newer request cancels an older one, whose answer is dropped.
    let (older, _) = removal_request(state.dispatch(Command::RemoveTokens(column, vec![Mode::Frozen])));
    let requests = state.dispatch(Command::RemoveTokens(column, vec![Mode::Rerouted]));
    assert!(requests.contains(&Request::Cancel(older)), "{requests:?}");
    let (newer, _) = removal_request(requests);
    answer(&mut state, older, Err(UserError::new("too late")));
    assert!(state.removal_of(column).0.is_some_and(|known| known.is_ok()), "the old curves stay");
    state.apply(Event::Failed(newer, UserError::new("The device was lost")));
    assert!(state.removal_of(column).0.is_some_and(|known| known.is_err()));
    // In another workspace the same ids are of other images.
    let mut other = state.workspace(serde_json::Value::Null);
    other
        .images
        .iter_mut()
        .for_each(|image| image.source = Path::new("other").join(&image.source.path).into());
    let requests = state.restore(other);
    state::play(&mut state, requests);
    assert!(state.removal_of(column).0.is_none());
}

#[test]
fn what_needs_a_backbone_says_so_where_none_is_open() {
    let mut state = state::story();
    let column = state::column(&state, 0);
    let backbone = *state.library.backbones.keys().next().expect("a backbone");
    state.dispatch(Command::CloseBackbone(backbone));
    assert!(state.columns[&column].shown.trace().is_some(), "its figures are kept, and their buttons");
    for command in [Command::RemoveTokens(column, vec![Mode::Frozen]), Command::MeasureStability(column)] {
        state.toasts.clear();
        assert!(state.dispatch(command).is_empty());
        let note = state.toasts.last().expect("a note");
        assert_eq!(note.text, "Open the backbone whose tokens the probe reads");
    }
    // A pinned column may be of a probe that fits no open one.
    let mut state = state::story();
    let (job, entry) =
        state::probe_asked(&state.dispatch(Command::OpenProbes(vec!["wide.safetensors".into()])));
    state.apply(Event::ProbeOpened { job, entry, info: state::probe("wide", 48) });
    state.dispatch(Command::ShowProbe(entry));
    let column = state.selection.focus.expect("a column");
    assert!(state.dispatch(Command::RemoveTokens(column, vec![Mode::Frozen])).is_empty());
    let note = state.toasts.last().expect("a note");
    assert!(note.text.starts_with("Reads tokens of 48 channels; one gives 24"), "{}", note.text);
}

#[test]
fn the_end_of_a_long_removal_is_noted_unless_it_failed() {
    let mut state = state::story();
    let column = state::column(&state, 0);
    for (result, is_noted) in
        [(Err(UserError::new("too few")), false), (Ok(Arc::new(small::removal())), true)]
    {
        let (job, _) = removal_request(state.dispatch(Command::RemoveTokens(column, vec![Mode::Frozen])));
        state.apply(Event::Progress(job, state::progress("Removing tokens", [9, 9], Unit::Items, 40)));
        answer(&mut state, job, result);
        assert_eq!(state.log_text().contains("Finished: Removing tokens of"), is_noted);
    }
}

#[test]
fn the_removal_pane_says_what_to_do_is_busy_ready_or_failed() {
    let mut window = Window::new();
    window.show("removal");
    assert!(window.has("Open a backbone"), "an empty pane says what to do");
    let mut window = Window::ready();
    window.show("removal");
    window.click("Patches");
    assert!(window.has("Costs up to 200 full backbone passes"), "the cost is said before");
    window.click("Remove tokens");
    let (job, ask) = removal_request(window.take_requests());
    assert_eq!(ask.spec.modes, [Mode::Frozen, Mode::Rerouted, Mode::Patches]);
    window.deliver([Event::Started(job)]);
    assert!(window.has("Removing tokens") && window.idle());
    window.deliver([Event::Failed(job, UserError::new("The device was lost"))]);
    assert!(window.has("The device was lost"));
    window.click("Remove again");
    let (job, _) = removal_request(window.take_requests());
    let answer = Ok(Arc::new(small::removal()));
    window.deliver([Event::RemovalMeasured { job, answer }, Event::Finished(job)]);
    assert!(window.has("Removal curves") && window.has("Step") && window.idle());
    // The controls wrap where they do not fit into a line; the last of them is the value of the slider.
    for size in [egui::vec2(1440.0, 900.0), egui::vec2(1280.0, 720.0), egui::vec2(960.0, 600.0)] {
        window.harness.set_size(size);
        window.harness.run();
        window.show("removal");
        let slider = window.harness.get_by_role_and_label(Role::Slider, "Step").rect();
        let values = window.harness.query_all_by_role(Role::SpinButton).map(|node| node.rect());
        let beside = values.filter(|value| (value.center().y - slider.center().y).abs() < 8.0);
        let value =
            beside.filter(|value| value.left() > slider.left()).min_by(|a, b| a.left().total_cmp(&b.left()));
        let value = value.expect("a value");
        let mut numbers =
            painted(window.harness.output()).into_iter().filter(|(.., whole)| value.contains_rect(*whole));
        assert!(numbers.any(|(_, seen, whole)| seen.contains_rect(whole)), "{size:?}: {value:?} is cut");
    }
}

#[test]
fn the_removal_pane_subtracts_the_curves_of_the_pinned_column() {
    let mut window = Window::ready();
    window.show("removal");
    let columns: Vec<_> = window.state().columns.keys().copied().collect();
    let answer = |window: &mut Window, removal: Removal| {
        let (job, _) = removal_request(window.take_requests());
        let answer = Ok(Arc::new(removal));
        window.deliver([Event::RemovalMeasured { job, answer }, Event::Finished(job)]);
    };
    window.click("Remove tokens");
    answer(&mut window, small::removal());
    assert!(!window.has("Difference from pinned"), "nothing is pinned");
    window.dispatch(Command::Pin(Some(columns[1])));
    window.click("Difference from pinned");
    assert!(window.state().views.difference);
    assert!(window.has("The pinned column has no removal curves yet"));
    window.click("Remove its tokens too");
    let (job, _) = removal_request(window.take_requests());
    window.deliver([Event::Failed(job, UserError::new("The device was lost"))]);
    window.click("Try again");
    answer(&mut window, small::other_removal());
    assert!(window.has("Removal curves: Difference (Δ) of gap from mean"), "it is drawn");
    window.click("Difference from pinned");
    assert!(!window.has("Difference (Δ) of gap") && window.has("Removal curves"));
}
