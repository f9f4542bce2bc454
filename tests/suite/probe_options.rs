//! Images are read as the shown probes were trained; a probe that differs says so, and the window offers to correct it.

use std::collections::VecDeque;

use ssmprobe::app::jobs::info::{BackboneInfo, Compatibility};
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::token_spec::TokenSpec;

use crate::run::assert_says;
use crate::state::{backbone, opened, probe, probe_asked, trained_on};
use crate::window;
use crate::window::prelude::*;

const DEEP: BackboneOptions =
    BackboneOptions { layer: Some(1), blocks: None, pixels: Some(224), mae_order: MaeOrder::Kept };

/// A probe that was trained on tokens after layer 1 of large images, where its name says so.
fn info(path: &Path) -> ProbeInfo {
    let name = path.file_stem().unwrap().to_string_lossy();
    let token_spec = TokenSpec { layer: DEEP.layer, size: DEEP.pixels, ..TokenSpec::default() };
    if name.starts_with("deep") { trained_on(&name, token_spec) } else { probe(&name, 24) }
}

/// Answers all requests in place of a worker; the options with which the backbone was last opened, if any.
fn play(state: &mut State, requests: Vec<Request>) -> Option<BackboneOptions> {
    let mut requests = VecDeque::from(requests);
    let mut last = None;
    while let Some(request) = requests.pop_front() {
        if let Request::Fetch(_, Fetch::OpenBackbone { options, .. }) = &request {
            last = Some(*options);
        }
        if let (Some(job), Some(event)) = (request.job(), opened(&request, info)) {
            requests.extend(state.apply(event));
            requests.extend(state.apply(Event::Finished(job)));
        }
    }
    last
}

fn does(state: &mut State, command: Command) -> Option<BackboneOptions> {
    let requests = state.dispatch(command);
    play(state, requests)
}

fn open(state: &mut State, paths: &[&str]) -> Option<BackboneOptions> {
    does(state, Command::OpenProbes(paths.iter().map(PathBuf::from).collect()))
}

fn id(state: &State, name: &str) -> ProbeId {
    *state.library.probes.iter().find(|(_, probe)| probe.name() == name).expect("a probe").0
}

fn with_backbone() -> State {
    let mut state = State::new(Settings::default());
    does(&mut state, Command::OpenBackbone("one".into()));
    state
}

#[test]
fn images_are_read_anew_when_what_is_shown_agrees_on_something_else() {
    let mut state = with_backbone();
    assert_eq!(open(&mut state, &["deep.safetensors"]), Some(DEEP));
    // Probes that disagree change nothing; the one without a record is a mismatch with options of its own.
    assert_eq!(open(&mut state, &["silent.safetensors"]), None);
    let silent = id(&state, "silent");
    let (why, wanted) = state.library.token_mismatch(silent).expect("it reads other tokens");
    assert!(why.contains("does not say") && why.contains("layer 1") && why.contains("224"), "{why}");
    assert_eq!(wanted, BackboneOptions::default());
    assert_eq!(state.library.fit(silent), Some(Compatibility::Doubtful(why)));
    // Without the matching probe, images are read for the other one.
    let deep = id(&state, "deep");
    assert_eq!(does(&mut state, Command::CloseProbes(vec![deep])), Some(BackboneOptions::default()));
    assert_eq!(
        (state.library.token_mismatch(silent), state.library.fit(silent)),
        (None, Some(Compatibility::Fits))
    );
    // Undo brings it back, images are read as before, and the shown probe agrees with that.
    assert_eq!(does(&mut state, Command::Undo), Some(DEEP));
    let column = *state.columns.iter().find(|(_, column)| column.probe == silent).expect("a column").0;
    assert_eq!(does(&mut state, Command::RemoveColumn(column)), None);
    assert!(
        state.library.token_mismatch(deep).is_none()
            && state.training.form.tokens.token_spec == DEEP.token_spec()
    );
}

/// Tokens of one layer are narrower than those of concatenated layers: a probe of the latter says so and is corrected as any other.
#[test]
fn a_probe_of_joined_layers_is_read_as_it_was_trained() {
    let one = backbone("one", 24, Grid::new(2, 2));
    let blocks = Some(2);
    let token_spec = TokenSpec { blocks, ..TokenSpec::default() };
    let wide = ProbeInfo { width: 48, ..trained_on("wide", token_spec) };
    let Compatibility::DoesNot(why) = wide.fits(&one) else { panic!("24 channels are not 48") };
    assert_says(why, &["the last 2 layers, not tokens after the last layer", "as it was"]);
    assert!(wide.suits(&one) && !ProbeInfo { width: 72, ..wide.clone() }.suits(&one));
    let options = BackboneOptions { blocks, ..BackboneOptions::default() };
    assert_eq!(wide.options(), options);
    assert_eq!(wide.fits(&BackboneInfo { options, width: 48, ..one.clone() }), Compatibility::Fits);
    let narrow = probe("narrow", 24);
    let Compatibility::DoesNot(why) = narrow.fits(&BackboneInfo { options, width: 48, ..one }) else {
        panic!()
    };
    assert!(why.contains("does not say"), "{why}");
}

#[test]
fn what_was_chosen_by_hand_stays_until_the_probes_say_otherwise() {
    let mut state = with_backbone();
    open(&mut state, &["silent.safetensors"]);
    let chosen = BackboneOptions { layer: Some(1), ..BackboneOptions::default() };
    assert_eq!(does(&mut state, Command::SetBackboneOptions(chosen)), Some(chosen));
    assert_eq!(open(&mut state, &["other.safetensors"]), None, "it agrees with the one before");
    assert_eq!(state.backbone_options, chosen);
    assert_eq!(does(&mut state, Command::Undo), Some(BackboneOptions::default()));
    assert_eq!(does(&mut state, Command::Redo), Some(chosen));

    // A workspace restores how images were read.
    let workspace = state.workspace(serde_json::Value::Null);
    let mut state = State::new(Settings::default());
    let requests = state.restore(workspace);
    assert_eq!(play(&mut state, requests), Some(chosen));
    assert_eq!(state.backbone_options, chosen);
    // From then on, images follow the probes again.
    for name in ["silent", "other"] {
        let id = id(&state, name);
        does(&mut state, Command::CloseProbes(vec![id]));
    }
    assert_eq!(open(&mut state, &["deep.safetensors"]), Some(DEEP));
}

#[test]
fn a_layer_is_read_by_its_number_up_to_the_last_one() {
    for (layer, read) in [(2, true), (3, false)] {
        let mut state = with_backbone();
        let requests = state.dispatch(Command::OpenProbes(vec!["numbered.safetensors".into()]));
        let (job, entry) = probe_asked(&requests);
        let info = trained_on("numbered", TokenSpec { layer: Some(layer), ..TokenSpec::default() });
        let requests = state.apply(Event::ProbeOpened { job, entry, info });
        let options = BackboneOptions { layer: Some(layer), ..BackboneOptions::default() };
        assert_eq!(play(&mut state, requests), read.then_some(options), "layer {layer} of two");
    }
}

#[test]
fn probes_of_one_name_say_of_which_run_they_are() {
    let mut state = with_backbone();
    open(&mut state, &["RL/probes/gap.safetensors", "RUN/probes/gap.safetensors", "a/b.safetensors"]);
    let names: Vec<_> = state.library.probes.keys().map(|id| state.library.probe_name(*id)).collect();
    assert_eq!(names, ["gap · RL", "gap · RUN", "b"]);
    let all = state.library.probe_names();
    assert!(all.len() == 3 && all.iter().all(|(id, name)| *name == state.library.probe_name(*id)), "{all:?}");
    let column = *state.columns.keys().next().expect("a column");
    assert_eq!(state.column_title(column), "gap · RL");
}

#[test]
fn many_files_are_remembered_as_their_folder() {
    let mut state = with_backbone();
    open(&mut state, &["a/one.safetensors", "a/two.safetensors"]);
    open(&mut state, &["b/three.safetensors"]);
    does(&mut state, Command::OpenImages(["i/x.png", "i/y.png"].map(PathBuf::from).to_vec()));
    let recent = &state.settings.recent;
    assert_eq!(recent.runs, [PathBuf::from("a")]);
    assert_eq!(recent.probes, [PathBuf::from("b/three.safetensors")]);
    assert_eq!(recent.images, [PathBuf::from("i")]);
}

#[test]
fn what_fails_again_is_told_once() {
    let mut state = State::new(Settings::default());
    let mut requests = state.dispatch(Command::OpenProbes(vec!["bad.safetensors".into()]));
    for _ in 0..3 {
        let (job, entry) = probe_asked(&requests);
        state.apply(Event::Failed(job, UserError::new("bad.safetensors: is empty")));
        requests = state.dispatch(Command::ReopenProbe(entry));
        assert_eq!(state.jobs.len(), 1, "{:?}", state.jobs);
    }
}

#[test]
fn a_band_says_that_a_probe_is_read_wrongly_and_puts_it_right() {
    const CURE: &str = "Read as it was trained";
    let mut window = Window::ready();
    assert!(!window.has(CURE));
    window.harness.state_mut().dispatch(Command::SetBackboneOptions(DEEP));
    let opened = |request| match request {
        Request::Fetch(job, Fetch::OpenBackbone { entry, options, .. }) => {
            let info = BackboneInfo { options, ..window::backbone() };
            vec![Event::BackboneOpened { job, entry, info }, Event::Finished(job)]
        }
        request => window::succeed(request),
    };
    window.answer_with(opened);
    assert!(window.has("these numbers mean little") && window.has("224 pixels"));
    assert!(window.has("Reading order"), "the panes stand below it");
    window.click(CURE);
    window.answer_with(opened);
    assert!(!window.has(CURE) && window.state().backbone_options == BackboneOptions::default());
    // The backbone's menu offers the same.
    window.click_role(Role::Button, "tiny");
    window.click("Tokens after: last layer");
    window.click("Layer 1");
    window.answer_with(opened);
    assert_eq!(window.state().backbone_options.layer, Some(1));
    assert!(window.has(CURE));
}
