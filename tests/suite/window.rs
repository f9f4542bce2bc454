//! The window, operated by its labels as with a screen reader: its events are made by hand, with no
//! worker, no weights and no GPU.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;
use std::rc::Rc;
use std::time::Instant;

use egui_kittest::Harness;
use ssmprobe::app::App;
use ssmprobe::app::jobs::info::BackboneInfo;
use ssmprobe::app::jobs::result_file::ResultFile;
use ssmprobe::app::jobs::similarity;
use ssmprobe::app::jobs::user_error::ON_CPU;
use ssmprobe::app::jobs::{ExplainResult, Unit};
use ssmprobe::app::remote::AnyWorker;
use ssmprobe::app::state::settings::ThemeChoice;
use ssmprobe::app::state::{ColumnState, RevealTarget, Severity};
use ssmprobe::viz::{FIGURES, SharedLimits};

use self::prelude::*;
use crate::run::{done, program};
use crate::{state, traces};

/// What most tests of the window import.
pub mod prelude {
    pub use std::path::{Path, PathBuf};
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use eframe::egui::{self, Key, Modifiers, Role};
    pub use egui_kittest::kittest::Queryable as _;
    pub use serde_json::{Value, json};
    pub use ssmprobe::app::jobs::info::ProbeInfo;
    pub use ssmprobe::app::jobs::user_error::UserError;
    pub use ssmprobe::app::jobs::{
        BackboneOptions, ClassChoice, ColumnId, Compute, Event, ExplainSettings, Fetch, Files, ImageId,
        JobId, ProbeId, Request,
    };
    pub use ssmprobe::app::state::State;
    pub use ssmprobe::app::state::command::{Action, Command};
    pub use ssmprobe::app::state::settings::Settings;
    pub use ssmprobe::app::state::workspace::Workspace;
    pub use ssmprobe::model::explain::evaluation::Evaluation;
    pub use ssmprobe::model::explain::intervention::Intervention;
    pub use ssmprobe::model::grid::Grid;
    pub use ssmprobe::model::trace::{Picture, Trace};
    pub use tempfile::TempDir;

    pub use super::Window;
    pub use crate::close::assert_close;
}

/// The requests that a window sent, and the events that it is still to receive.
#[derive(Default)]
pub struct Wire {
    pub requests: Vec<Request>,
    pub events: VecDeque<Event>,
}

/// A test double of the worker: it records requests and delivers the events of its [`Wire`].
pub struct FakeWorker(pub Rc<RefCell<Wire>>);

impl AnyWorker for FakeWorker {
    fn send(&mut self, request: Request) {
        self.0.borrow_mut().requests.push(request);
    }

    fn event(&mut self) -> Option<Event> {
        self.0.borrow_mut().events.pop_front()
    }

    fn recv_timeout(&mut self, _: Duration) -> Option<Event> {
        None
    }
}

/// A window, and the [`Wire`] that it shares with its [`FakeWorker`].
pub struct Window {
    pub harness: Harness<'static, App>,
    pub wire: Rc<RefCell<Wire>>,
}

pub(super) fn backbone() -> BackboneInfo {
    BackboneInfo {
        model_type: "vit_mae".into(),
        fingerprint: "a".repeat(64),
        adapter: "The processor".into(),
        ..state::backbone("tiny", 24, Grid::new(traces::SIDE, traces::SIDE))
    }
}

fn probe(name: &str) -> ProbeInfo {
    let routed = name == "sinkhorn";
    ProbeInfo {
        head: name.into(),
        head_name: name.into(),
        routed,
        soft: routed,
        iterated: routed,
        classes: Vec::new().into(),
        class_count: 200,
        backbone: "tiny".into(),
        fingerprint: "b".repeat(64),
        ..state::probe(name, 24)
    }
}

impl Window {
    pub fn new() -> Self {
        Self::with_settings(None)
    }

    /// A window whose settings and session are stored in `folder`.
    pub fn kept_in(folder: &Path) -> Self {
        Self::with_settings(Some(folder.join("settings.json")))
    }

    fn with_settings(settings: Option<PathBuf>) -> Self {
        let wire = Rc::new(RefCell::new(Wire::default()));
        let worker = FakeWorker(wire.clone());
        let harness = Harness::builder()
            .with_size(egui::vec2(1440.0, 900.0))
            .with_max_steps(12)
            .build_eframe(move |cx| App::new(&cx.egui_ctx, Box::new(worker), settings.as_deref()));
        let mut window = Self { harness, wire };
        window.harness.run();
        window
    }

    /// A window with a backbone, two probes and three images, all explained.
    pub fn ready() -> Self {
        let mut window = Self::new();
        window.open();
        window.answer();
        window
    }

    pub fn open(&mut self) {
        let app = self.harness.state_mut();
        app.dispatch(Command::OpenBackbone("tiny".into()));
        app.dispatch(Command::OpenProbes(
            ["sinkhorn", "gap"].map(|n| format!("{n}.safetensors").into()).into(),
        ));
        app.dispatch(Command::OpenImages(vec!["birds".into()]));
    }

    /// Answers the requests with `answer`, and those that follow from the answers, four times.
    pub fn answer_with(&mut self, answer: impl Fn(Request) -> Vec<Event>) {
        for _ in 0..4 {
            let asked = self.take_requests();
            let events = asked.into_iter().flat_map(&answer);
            self.deliver(events);
        }
    }

    pub fn answer(&mut self) {
        self.answer_with(succeed);
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.wire.borrow_mut().requests)
    }

    pub fn deliver(&mut self, events: impl IntoIterator<Item = Event>) {
        self.wire.borrow_mut().events.extend(events);
        self.harness.run();
    }

    pub fn state(&self) -> &State {
        &self.harness.state().state
    }

    pub fn dispatch(&mut self, command: Command) {
        self.harness.state_mut().dispatch(command);
        self.harness.run();
    }

    pub fn resize(&mut self, width: f32, height: f32) {
        self.harness.set_size(egui::vec2(width, height));
        self.harness.run();
    }

    /// Brings a pane to the front.
    pub fn show(&mut self, pane: &str) {
        self.harness.state_mut().window.show(pane);
        self.harness.run();
    }

    pub fn has(&self, label: &str) -> bool {
        self.harness.query_all_by_label_contains(label).next().is_some()
    }

    pub fn click(&mut self, label: &str) {
        self.harness.get_by_label(label).click();
        self.harness.run();
    }

    pub fn click_role(&mut self, role: Role, label: &str) {
        self.harness.get_by_role_and_label(role, label).click();
        self.harness.run();
    }

    /// Chooses an item of a combo box: the lowest widget with its label, as the list is below.
    pub fn choose(&mut self, list: &str, item: &str) {
        self.click_role(Role::ComboBox, list);
        let all = self.harness.query_all_by_label(item);
        all.max_by(|a, b| a.rect().bottom().total_cmp(&b.rect().bottom())).expect("an item").click();
        self.harness.run();
    }

    /// Clicks the first of several widgets with this label.
    pub fn click_first(&mut self, label: &str) {
        self.harness.get_all_by_label(label).next().expect("a widget").click();
        self.harness.run();
    }

    pub fn hover(&mut self, at: egui::Pos2) {
        self.harness.hover_at(at);
        self.harness.run();
    }

    pub fn type_text(&mut self, text: &str) {
        self.harness.event(egui::Event::Text(text.to_owned()));
        self.harness.run();
    }

    /// Replaces the text of a field.
    pub fn replace_text(&mut self, role: Role, field: &str, text: impl Display) {
        self.click_role(role, field);
        self.press(Modifiers::COMMAND, Key::A);
        self.type_text(&text.to_string());
    }

    /// Chooses the first action that the palette finds for these words.
    pub fn choose_action(&mut self, words: &str) {
        self.press(Modifiers::COMMAND, Key::K);
        self.type_text(words);
        self.press(Modifiers::NONE, Key::Enter);
    }

    /// The largest widget with this label: a figure rather than its tab.
    pub fn place(&self, label: &str) -> egui::Rect {
        let all = self.harness.query_all_by_label(label);
        all.map(|node| node.rect()).max_by(|a, b| a.area().total_cmp(&b.area())).unwrap()
    }

    pub fn press(&mut self, modifiers: Modifiers, key: Key) {
        self.harness.key_press_modifiers(modifiers, key);
        self.harness.run();
    }

    /// Draws frames until `done`, which work on other threads brings about.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < Duration::from_mins(5), "{what}: never");
            std::thread::sleep(Duration::from_millis(10));
            self.harness.step();
        }
        self.harness.step(); // what the last event changed is drawn in the frame after it
    }

    /// Draws a few frames; what they copied to the clipboard.
    pub fn copied(&mut self) -> Option<String> {
        (0..6).find_map(|_| {
            self.harness.step();
            let commands = &self.harness.output().platform_output.commands;
            commands.iter().find_map(pick!(egui::OutputCommand::CopyText(text) => text.clone()))
        })
    }

    pub fn idle(&mut self) -> bool {
        self.harness.step();
        let views = &self.harness.output().viewport_output;
        views.values().all(|view| view.repaint_delay == Duration::MAX)
    }
}

fn trace(asked: usize) -> Arc<Trace> {
    Arc::new(if asked == 0 { traces::sinkhorn_trace() } else { traces::gap_trace() })
}

/// The events of a worker that succeeds at every request.
pub fn succeed(request: Request) -> Vec<Event> {
    let mut events = Vec::new();
    let job = request.job();
    match request {
        Request::Fetch(job, Fetch::OpenBackbone { entry, .. }) => {
            events.push(Event::BackboneOpened { job, entry, info: backbone() });
        }
        Request::Compute(job, Compute::OpenProbe { entry, path }) => {
            let name = path.file_stem().unwrap().to_str().unwrap();
            events.push(Event::ProbeOpened { job, entry, info: probe(name) });
        }
        Request::Files(job, Files::OpenImages { .. }) => {
            let paths = ["a", "b", "c"].map(|name| PathBuf::from(format!("birds/{name}.png"))).into();
            events.push(Event::ImagesListed { job, paths });
        }
        Request::Compute(job, Compute::Explain(look) | Compute::ExplainMany(look)) => {
            let results = look.items.iter().enumerate();
            let results = results
                .map(|(at, asked)| ExplainResult {
                    column: asked.column,
                    result: Ok(trace(at)),
                    by_hand: None,
                })
                .collect();
            events.push(Event::Explained { job, results });
        }
        Request::Compute(job, Compute::Similarity(ask)) => {
            events.push(Event::ImagesCompared(job, similarity::run(&ask)));
        }
        Request::Thumbnails { wanted, .. } => {
            let picture = Arc::new(Picture { width: 2, height: 2, rgb: vec![90; 12] });
            let ready = |(image, _)| Event::ThumbnailReady { image, picture: picture.clone() };
            events.extend(wanted.into_iter().map(ready));
        }
        _ => {}
    }
    events.extend(job.map(Event::Finished));
    events
}

#[test]
fn the_pane_of_the_command_line_stays_in_front_until_the_user_acts() {
    let mut window = Window::new();
    window.harness.state_mut().window.start_with("training");
    let reveal = |window: &mut Window| {
        let reveal = &mut window.harness.state_mut().state.reveal;
        (reveal.count, reveal.place) = (reveal.count + 1, Some(RevealTarget::Accuracies));
        window.harness.run();
        window.has("New training")
    };
    assert!(reveal(&mut window));
    window.press(Modifiers::NONE, Key::Escape);
    assert!(window.has("New training") && !reveal(&mut window));
}

#[test]
fn what_cannot_be_read_is_not_counted_as_open() {
    let mut window = Window::new();
    window.open();
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::OpenProbe { .. }) => {
            vec![Event::Failed(job, UserError::new("holds no probe"))]
        }
        Request::Thumbnails { wanted, .. } => {
            let error = UserError::new("is no image");
            let failed = |(image, _)| Event::ThumbnailFailed { image, error: error.clone() };
            wanted.into_iter().map(failed).collect()
        }
        other => succeed(other),
    });
    assert!(window.has("0 probes") && window.has("0 images") && !window.has("2 probes"));
    assert!(window.has("sinkhorn could not be opened: holds no probe"));
    assert!(window.has("Open images, or drop them here"));
    let first = *window.state().library.images.keys().next().expect("an image");
    window.dispatch(Command::CloseImages(vec![first]));
    assert_eq!(window.state().readable_images(), 0);
    window.dispatch(Command::Undo);
    assert_eq!(window.state().readable_images(), 1, "it is not known yet whether it can be read");
    // They can be tried again, as once their disk is back.
    window.answer_with(succeed);
    window.press(Modifiers::COMMAND, Key::R);
    window.answer();
    assert_eq!(window.state().readable_images(), 3);
    assert!(window.has("2 probes"));
}

#[test]
fn what_was_used_lately_is_in_the_menu() {
    let mut window = Window::new();
    window.click("File");
    assert!(!window.has("Open recent"));
    window.press(Modifiers::NONE, Key::Escape);
    window.harness.state_mut().state.settings.recent.datasets.push_back("birds/table.csv".into());
    window.click("File");
    let used = window.harness.query_all_by_label_contains("Open recent").next().unwrap();
    let quit = window.harness.query_all_by_label_contains("Quit").next().unwrap();
    assert!(used.rect().bottom() < quit.rect().top(), "it is among what opens files");
    used.click();
    window.harness.run();
    window.click("birds/table.csv");
    let asked = &window.wire.borrow().requests;
    assert!(
        asked.iter().any(|request| matches!(request, Request::Files(_, Files::OpenDataset { .. }))),
        "{asked:?}"
    );
}

#[test]
fn devices_are_listed_with_the_capitals_of_their_names() {
    let mut window = Window::new();
    let badge = window.harness.query_all_by_label_contains("Device: ").next().unwrap();
    badge.click();
    window.harness.run();
    assert!(window.has("wgpu: a GPU through Vulkan, DirectX 12 or Metal"));
}

#[test]
fn what_has_a_long_name_leaves_menus_and_buttons_in_the_window() {
    let long = "a-folder-of-many-letters/".repeat(12);
    let mut window = Window::new();
    window.harness.set_size(egui::vec2(800.0, 900.0));
    let inside = |window: &Window, label: &str| {
        let found: Vec<_> =
            window.harness.query_all_by_label_contains(label).map(|node| node.rect()).collect();
        assert!(!found.is_empty() && found.iter().all(|rect| rect.right() <= 800.0), "{label}: {found:?}");
    };
    window.harness.state_mut().state.settings.recent.datasets.push_back(format!("{long}table.csv").into());
    window.click("File");
    let used = window.harness.query_all_by_label_contains("Open recent").next().unwrap();
    used.click();
    window.harness.run();
    inside(&window, "table.csv");
    window.press(Modifiers::NONE, Key::Escape);
    window.press(Modifiers::NONE, Key::Escape);
    window.dispatch(Command::OpenProbes(vec![format!("{}.safetensors", "long-name-".repeat(20)).into()]));
    let probe = *window.state().library.probes.keys().next().expect("a probe");
    window.dispatch(Command::CloseProbes(vec![probe]));
    window.click("Edit");
    inside(&window, "Undo: close the probe long-name-");
    window.press(Modifiers::NONE, Key::Escape);
    window.take_requests();
    let file = ResultFile { path: long.into(), bytes: Vec::new() };
    window.dispatch(Command::SendFile(Box::new(file)));
    let job = window.take_requests().iter().find_map(Request::job).expect("a job");
    let progress = state::progress("Sending", [12_000_000, 48_000_000], Unit::Bytes, 10);
    window.deliver([Event::Started(job), Event::Progress(job, progress)]);
    window.show("jobs");
    inside(&window, "Cancel");
}

#[test]
fn work_shows_how_far_it_is_and_can_be_cancelled() {
    let mut window = Window::new();
    window.open();
    window.harness.run();
    let asked = window.take_requests();
    let job = asked
        .iter()
        .find_map(|r| matches!(r, Request::Fetch(_, Fetch::OpenBackbone { .. })).then(|| r.job()))
        .flatten()
        .unwrap();
    let progress = state::progress("Downloading", [12_000_000, 48_000_000], Unit::Bytes, 10);
    window.deliver([Event::Started(job), Event::Progress(job, progress)]);
    assert!(window.has("Opening tiny"), "the status bar names the job");
    assert!(window.idle(), "work alone is no reason to repaint");
    window.click("Cancel");
    assert!(window.wire.borrow().requests.contains(&Request::Cancel(job)));
    window.show("jobs");
    let words = ["Cancelling…", "Stopping…"].map(|text| window.harness.query_all_by_label(text).count());
    assert_eq!(words, [2, 0], "the status bar and the list of jobs say alike that it ends");
}

#[test]
fn no_frame_has_the_colours_of_two_themes() {
    let mut window = Window::ready();
    let grounds = |window: &Window| -> Vec<egui::Color32> {
        let shapes = window.harness.output().shapes.iter();
        let grounds = shapes.filter_map(|clipped| match &clipped.shape {
            egui::Shape::Rect(ground) if ground.rect.height() > 400.0 => Some(ground.fill),
            _ => None,
        });
        grounds.collect()
    };
    let drawn = [ThemeChoice::Dark, ThemeChoice::Light].map(|theme| {
        window.harness.state_mut().dispatch(Command::SetTheme(theme));
        window.harness.step();
        let first = grounds(&window);
        window.harness.run();
        assert_eq!(first, grounds(&window), "{theme:?}");
        first
    });
    assert_ne!(drawn[0], drawn[1]);
}

#[test]
fn what_is_ready_is_drawn() {
    let mut window = Window::ready();
    for label in ["tiny", "sinkhorn", "gap", "a.png", "Reading order", "Assignment matrix", "Predictions"] {
        assert!(window.has(label), "{label} is not there");
    }
    assert!(window.has("Evidence by position"));
    window.click("Compare");
    assert!(window.has("Shared scales") && window.has("Pin") && window.has("More"));
    window.click("Token table");
    assert!(window.has("Token 0"));
    window.click("Evidence");
    assert!(window.idle(), "all is shown, but the window repaints");
}

#[test]
fn shared_limits_are_those_of_the_traces_that_are_shown() {
    let mut window = Window::ready();
    let check = |window: &Window| {
        let state = window.state();
        let figure = FIGURES.iter().find(|figure| figure.id() == "assignment").expect("a figure");
        let traces = state.compared().filter_map(|(_, column)| Some(&**column.shown.trace()?));
        let trace = traces.clone().next().expect("a trace");
        assert_eq!(state.shared_limits(*figure, trace), SharedLimits::new(*figure, traces));
    };
    check(&window);
    check(&window);
    let sinkhorn = *window.state().columns.keys().next().expect("a column");
    window.dispatch(Command::RemoveColumn(sinkhorn));
    check(&window);
    window.dispatch(Command::Undo);
    check(&window);
}

#[test]
fn a_failure_stays_readable() {
    let mut window = Window::new();
    window.open();
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Explain(_)) => {
            vec![Event::Failed(job, UserError::new("The device was lost").remedy(ON_CPU))]
        }
        Request::Compute(job, Compute::OpenProbe { entry, path }) if path.starts_with("gap.safetensors") => {
            let info = ProbeInfo { width: 768, ..probe("gap") };
            vec![Event::ProbeOpened { job, entry, info }, Event::Finished(job)]
        }
        other => succeed(other),
    });
    assert!(window.has("The device was lost") && window.has("Run on the CPU instead"));
    window.click("Compare");
    assert!(window.has("Reads tokens of 768 channels"), "a probe that does not fit says why");
    window.click("Jobs and log");
    assert!(window.has("Copy log"));
    assert!(window.idle());
    window.click_first("Run on the CPU instead");
    let asked = window.take_requests();
    let on_cpu =
        |r: &Request| matches!(r, Request::Fetch(_, Fetch::OpenBackbone { device, .. }) if device == "cpu");
    assert!(asked.iter().any(on_cpu), "{asked:?}");
}

#[test]
fn a_button_opens_the_backbone_that_the_file_of_a_probe_names() {
    let probe_of = |backbone: &'static str| {
        move |request: Request| match request {
            Request::Compute(job, Compute::OpenProbe { entry, .. }) => {
                let info = ProbeInfo { width: 768, backbone: backbone.into(), ..probe("gap") };
                vec![Event::ProbeOpened { job, entry, info }, Event::Finished(job)]
            }
            other => succeed(other),
        }
    };
    let opened = |window: &Window| -> Vec<String> {
        let asked = window.take_requests().into_iter();
        asked.filter_map(pick!(Request::Fetch(_, Fetch::OpenBackbone { source, .. }) => source)).collect()
    };
    // It does not fit the open one.
    let mut window = Window::new();
    window.open();
    window.answer_with(probe_of("google/vit"));
    assert!(window.has("Reads tokens of 768 channels"));
    window.click_first("Open google/vit");
    assert_eq!(opened(&window), ["google/vit"]);
    assert!(!window.has("Open google/vit"), "it is being opened");
    // None is open: a folder of that name, which was used lately, needs no download.
    let mut window = Window::new();
    let folder = "backbones/vit";
    window.harness.state_mut().state.settings.recent.backbones.push_front(folder.into());
    window.dispatch(Command::OpenProbes(vec!["gap.safetensors".into()]));
    window.answer_with(probe_of("vit"));
    window.click_first("Open vit");
    assert_eq!(opened(&window), [folder]);
}

#[test]
fn the_palette_finds_every_action() {
    let mut window = Window::ready();
    for action in Action::ALL.iter().filter(|action| !matches!(action, Action::Palette | Action::Export)) {
        let shown = |window: &Window| window.harness.query_all_by_label_contains(action.text()).count();
        let before = shown(&window);
        window.press(Modifiers::COMMAND, Key::K);
        window.type_text(action.text());
        assert!(shown(&window) > before, "the palette does not find {}", action.text());
        window.press(Modifiers::NONE, Key::Escape);
        assert!(!window.has("No action matches these words"));
    }
    // Open items, and what can be done with them, are found as well.
    for (typed, found) in [
        ("dark", "Dark theme"),
        ("save figure read", "Export Reading order…"),
        ("copy reading", "Copy image of Reading order"),
        ("sinkhorn", "Show probe sinkhorn"),
        ("c.png", "Go to image"),
        ("evaluate all", "Evaluate all probes"),
        ("attribution", "Show pane Integrated gradients"),
        ("untrained scorers", "Show pane Diagnostics"),
        ("disagree", "Show pane Gallery"),
        ("deletion", "Show pane Removal curves"),
        ("heatmap", "Show pane Integrated gradients"),
        ("slurm", "Train probes…"),
    ] {
        window.press(Modifiers::COMMAND, Key::K);
        window.type_text(typed);
        assert!(window.has(found), "{typed} does not find {found}");
        window.press(Modifiers::NONE, Key::Escape);
    }
    // A match of the name comes before a match of other words.
    window.press(Modifiers::COMMAND, Key::K);
    window.type_text("regions");
    let top = |label: &str| {
        window.harness.query_all_by_label_contains(label).map(|row| row.rect().top()).reduce(f32::min)
    };
    assert!(top("Show pane Regions").unwrap() < top("Open masks…").unwrap());
    window.press(Modifiers::NONE, Key::Escape);
    window.choose_action("next im");
    let state = window.state();
    assert_eq!(state.current_image().unwrap().name(), "b.png");
}

#[test]
fn letters_in_the_frame_of_the_palettes_key_are_no_shortcuts() {
    let mut window = Window::ready();
    for (modifiers, key) in [(Modifiers::COMMAND, Key::K), (Modifiers::NONE, Key::S)] {
        let event = egui::Event::Key { key, physical_key: None, pressed: true, repeat: false, modifiers };
        window.harness.input_mut().events.push(event);
    }
    window.harness.run();
    let field = (egui::accesskit::Role::TextInput, "Find action");
    assert!(window.harness.query_by_role_and_label(field.0, field.1).is_some());
    assert_eq!(window.state().findings.stars().count(), 0);
}

#[test]
fn the_palette_takes_letters_that_are_typed_faster_than_frames_are_drawn() {
    let mut window = Window::ready();
    let key = |key, modifiers| egui::Event::Key {
        key,
        physical_key: None,
        pressed: true,
        repeat: false,
        modifiers,
    };
    let text = |text: &str| egui::Event::Text(text.to_owned());
    // The first letters in the frame of its key, others before its field has the focus, and the last ones with Enter.
    for events in [
        vec![key(Key::K, Modifiers::COMMAND), text("ne")],
        vec![text("xt")],
        vec![text(" i")],
        vec![text("m"), key(Key::Enter, Modifiers::NONE)],
    ] {
        window.harness.input_mut().events.extend(events);
        window.harness.step();
    }
    window.harness.run();
    let field = (egui::accesskit::Role::TextInput, "Find action");
    assert!(window.harness.query_by_role_and_label(field.0, field.1).is_none());
    assert_eq!(window.state().current_image().unwrap().name(), "b.png");
}

#[test]
fn keys_step_through_images() {
    let mut window = Window::ready();
    window.press(Modifiers::NONE, Key::ArrowRight);
    assert_eq!(window.state().current_image().unwrap().name(), "b.png");
    assert!(window.has("Still the previous image"));
    window.answer();
    assert!(window.has("2 of 3") && !window.has("Still the previous image"));
    window.click("c.png");
    assert_eq!(window.state().current_image().unwrap().name(), "c.png");
}

#[test]
fn a_figure_that_still_shows_the_previous_image_gives_no_numbers() {
    let mut window = Window::ready();
    let figure = window.place("Reading order");
    let at = figure.left_top() + egui::vec2(figure.width() * 0.3, figure.height() * 0.5);
    let gives = |window: &mut Window| {
        window.hover(at);
        window.has("(row ")
    };
    assert!(gives(&mut window));
    window.press(Modifiers::NONE, Key::ArrowRight);
    assert!(!gives(&mut window) && window.has("Still the previous image"));
    window.answer();
    assert!(gives(&mut window));
}

#[test]
fn a_token_that_is_pointed_at_is_lit_in_every_figure() {
    let mut window = Window::ready();
    let before = window.harness.output().shapes.len();
    let figure = window.place("Reading order");
    window.hover(figure.left_top() + egui::vec2(figure.width() * 0.3, figure.height() * 0.5));
    let token = window.state().selection.hover.token;
    assert!(token.is_some(), "the reading order has tokens");
    // Two marks each in the picture's two halves, the path, the plan's row and column, the bars.
    let after = window.harness.output().shapes.len();
    assert!(after >= before + 10, "{} marks for token {token:?}", after - before);
    assert!(window.idle());
    window.hover(egui::pos2(5.0, 895.0));
    assert_eq!(window.state().selection.hover.token, None);
}

#[test]
fn a_key_pins_the_shown_column_and_another_the_token_of_the_step() {
    let mut window = Window::ready();
    let shown = window.state().focus();
    assert!(shown.is_some());
    for pinned in [shown, None] {
        window.press(Modifiers::NONE, Key::P);
        assert_eq!(window.state().selection.reference, pinned);
    }
    window.press(Modifiers::NONE, Key::T);
    assert!(!window.has("Unpin the token"), "at the end there is no step");
    window.press(Modifiers::NONE, Key::Period);
    for pinned in [true, false] {
        window.press(Modifiers::NONE, Key::T);
        assert_eq!(window.has("Unpin the token"), pinned);
    }
}

#[test]
fn what_is_pointed_at_is_read_out_and_a_click_holds_it() {
    let mut window = Window::ready();
    let figure = window.place("Picture and token weights");
    let patch = figure.left_top() + egui::vec2(figure.width() * 0.2, figure.height() * 0.25);
    window.hover(patch);
    for text in ["Token ", "Score", "Rank by mean position", "Best position", "Mean position", "Weight"] {
        assert!(window.has(text), "{text} is not read out");
    }
    let token = window.state().selection.hover.token.unwrap();
    for pressed in [true, false] {
        let (button, modifiers) = (egui::PointerButton::Primary, Modifiers::NONE);
        window.harness.event(egui::Event::PointerButton { pos: patch, button, pressed, modifiers });
        window.harness.run();
    }
    window.hover(egui::pos2(700.0, 5.0));
    assert!(
        window.has("Pinned") && window.has(&format!("Token {token} (row")),
        "it stays without the pointer"
    );
    window.click("Token table");
    let row = format!("Token {token}");
    assert!(window.has(&row), "the held row is scrolled to");
    window.press(Modifiers::NONE, Key::ArrowDown);
    window.harness.run();
    assert!(window.has(&format!("Token {} (row", token + 1)), "the arrow moves on to the next row");
    window.press(Modifiers::NONE, Key::Escape);
    assert!(!window.has("Pinned"));
    assert!(window.idle());
}

#[test]
fn panes_with_nothing_to_show_give_their_room_to_the_others() {
    let mut window = Window::ready();
    assert!(window.has("Assignment matrix") && window.has("Diagnostics"));
    window.click("gap");
    assert!(window.has("Picture") && window.has("Predictions"));
    assert!(
        !window.has("Assignment matrix") && !window.has("Diagnostics") && !window.has("gap reads no order")
    );
    // An empty pane that is opened by name says why it is empty.
    window.show("assignment");
    assert!(window.has("gap reads no order"));
    window.click("sinkhorn");
    assert!(window.has("Assignment matrix") && window.has("Diagnostics"));
    // It was opened for that probe alone.
    window.click("gap");
    assert!(!window.has("Assignment matrix") && !window.has("gap reads no order"));
    assert!(window.idle());
}

#[test]
fn a_figure_is_exported_with_its_trace() {
    let mut window = Window::ready();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("path.svg");
    window.click_at(window.place("Reading order").center(), egui::PointerButton::Secondary);
    window.click("Export…");
    window.replace_text(Role::TextInput, "Export to", "~/path.svg");
    let has_home = std::env::home_dir().is_some_and(|home| home.is_dir());
    assert!(window.has("No such folder") != has_home, "it is the user's own");
    // A missing folder is reported below the field, and created on request.
    let deep = folder.path().join("new/path.svg");
    for path in [&deep, &file] {
        window.replace_text(Role::TextInput, "Export to", path.display());
        if path == &deep {
            assert!(window.has("No such folder"));
            window.click("Create the folder");
            assert!(deep.parent().unwrap().is_dir() && !window.has("No such folder"));
        }
    }
    window.harness.get_by_label("Copy the command line").click();
    let copied = window.copied().expect("a command on the clipboard");
    // The dialog names a file that it will replace; it looks once a second.
    assert!(!window.has("will be replaced"));
    std::fs::write(&file, "of another day").unwrap();
    window.harness.run_steps(5);
    assert!(window.has("Exists and will be replaced: path.svg"));
    // And the trace beside it.
    let stored = file.with_extension("trace.json");
    std::fs::write(&stored, "of another day").unwrap();
    window.harness.run_steps(5);
    assert!(window.has("Exist and will be replaced: path.svg, path.trace.json"));
    std::fs::remove_file(&stored).unwrap();
    window.harness.run();
    window.click("Replace");
    // Each is written atomically.
    window.until("both files", |_| file.exists() && stored.exists());
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.contains("<svg") && svg.contains("By mean position"));
    let trace: Trace = crate::run::json(&stored);
    assert_eq!(trace, traces::sinkhorn_trace());
    assert!(copied.contains("--figure scan_path"), "{copied}");
    // The same command draws the same file.
    let again = folder.path().join("again.svg");
    let mut figures = program();
    figures.args(["figures", "--figure", "scan_path", "--width", "85", "--trace"]).arg(&stored);
    done(figures.arg("--out").arg(&again));
    assert_eq!(std::fs::read_to_string(&again).unwrap(), svg);
    // The next figure goes to the same folder.
    window.until("the dialog is closed", |window| !window.has("Copy the command line"));
    assert!(window.has("Open what was written"));
    window.click_at(window.place("Reading order").center(), egui::PointerButton::Secondary);
    window.click("Export…");
    let texts = crate::pictures::painted(window.harness.output());
    assert!(texts.into_iter().any(|(text, ..)| Path::new(&text).parent() == Some(folder.path())));
}

#[test]
fn pasted_paths_are_opened_and_other_words_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a bird.png");
    std::fs::write(&image, "").unwrap();
    let mut window = Window::ready();
    window.harness.event(egui::Event::Paste(image.display().to_string()));
    window.harness.run();
    let opens = |r: &Request| matches!(r, Request::Files(_, Files::Recognise { paths, .. }) if *paths == [image.clone()]);
    assert!(window.wire.borrow().requests.iter().any(opens));
    window.wire.borrow_mut().requests.clear();
    window.harness.event(egui::Event::Paste("some words".into()));
    window.harness.run();
    assert!(window.wire.borrow().requests.is_empty());
    assert!(window.has("Nothing was pasted"));
}

#[test]
fn a_window_that_is_resized_stays_on_its_page() {
    let mut window = Window::ready();
    window.click("Training");
    for (width, height) in [(960.0, 600.0), (1440.0, 900.0)] {
        window.resize(width, height);
        assert!(window.has("New training"), "at {width} x {height}");
    }
}

#[test]
fn of_ten_thousand_images_those_in_sight_are_drawn() {
    let mut window = Window::new();
    window.harness.state_mut().dispatch(Command::OpenImages(vec!["many".into()]));
    window.answer_with(|request| match request {
        Request::Files(job, Files::OpenImages { .. }) => {
            let paths = (0..10_000).map(|i| PathBuf::from(format!("many/{i:05}.png"))).collect();
            vec![Event::ImagesListed { job, paths }, Event::Finished(job)]
        }
        other => succeed(other),
    });
    let drawn = window.harness.query_all_by_label_contains(".png").count();
    assert!(drawn > 5 && drawn < 100, "{drawn} thumbnails are drawn");
}

#[test]
fn every_figure_has_a_pane_and_no_request_is_lost() {
    let mut window = Window::ready();
    for figure in FIGURES {
        window.show(figure.id());
        assert!(window.has(figure.title()), "{}", figure.id());
    }
    let shown = window.state().columns.values().all(|column| matches!(column.shown, ColumnState::Ready(_)));
    assert!(shown);
}

/// Every pane in the middle that shows an explanation.
fn panes() -> Vec<&'static str> {
    FIGURES.iter().map(|figure| figure.id()).chain(["compare", "tokens"]).collect()
}

#[test]
fn every_pane_is_empty_busy_failed_and_ready_in_words() {
    let said = |window: &mut Window, text: &str| {
        for pane in panes() {
            window.show(pane);
            assert!(window.has(text), "{pane} does not say {text}");
        }
        assert!(window.idle(), "{text}: the window repaints");
    };
    let mut window = Window::new();
    said(&mut window, "Open a backbone: the frozen model whose tokens are read");
    window.open();
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Explain(_)) => vec![Event::Started(job)],
        other => succeed(other),
    });
    said(&mut window, "Explaining…");
    let jobs = window.state().jobs.keys().copied().collect::<Vec<_>>();
    let fault = UserError::new("The device was lost").remedy("Run on the CPU instead");
    window.deliver(jobs.into_iter().map(|job| Event::Failed(job, fault.clone())));
    said(&mut window, "The device was lost");
    window.press(Modifiers::COMMAND, Key::R);
    window.answer();
    for pane in panes() {
        window.show(pane);
        let idle = ["The device was lost", "Explaining…", "Open a backbone:"];
        assert!(idle.iter().all(|text| !window.has(text)), "{pane} is not ready");
    }
    // Compare has columns, but nothing to show in them.
    let mut window = Window::new();
    window.dispatch(Command::OpenProbes(vec!["gap.safetensors".into()]));
    window.answer();
    assert_eq!(window.state().compared().count(), 1);
    said(&mut window, "Open a backbone: the frozen model whose tokens are read");
}

#[test]
fn library_and_jobs_say_what_is_open_opening_and_failed() {
    let mut window = Window::new();
    window.click("Jobs and log");
    assert!(window.has("Nothing is running, and nothing has failed"));
    assert!(window.has("No backbone open") && window.has("No probe open"));
    window.open();
    window.harness.run();
    assert!(window.has("Opening tiny") && window.has("Waiting…"));
    assert!(window.harness.query_all_by_label("Cancel").count() > 1, "every job can be cancelled");
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::OpenProbe { path, .. }) if path.starts_with("gap.safetensors") => {
            vec![Event::Failed(job, UserError::new("gap.safetensors: is no probe").remedy("Open another"))]
        }
        other => succeed(other),
    });
    assert!(window.has("gap.safetensors: is no probe") && window.has("Failed") && window.has("1 failed"));
    window.click("Dismiss");
    assert!(!window.has("1 failed"));
    assert!(window.idle());
}

#[test]
fn warnings_are_counted_until_the_log_is_opened() {
    let mut window = Window::new();
    let warn = |window: &mut Window| {
        window.harness.state_mut().state.note(Severity::Warning, "a disk is slow");
        window.harness.run();
    };
    (0..2).for_each(|_| warn(&mut window));
    window.click("Log: 2 warnings");
    assert!(!window.has("Log: ") && window.has("warning: a disk is slow"));
    warn(&mut window);
    assert!(!window.has("Log: "), "the log shows it");
    window.click("Hide");
    assert!(!window.has("Log: "));
    warn(&mut window);
    assert!(window.has("Log: 1 warning"));
}

#[test]
fn an_image_gets_a_star_and_the_gallery_shows_the_starred_alone() {
    let mut window = Window::ready();
    window.press(Modifiers::NONE, Key::S);
    let state = window.state();
    let (current, all) = (state.selection.image.expect("an image"), state.gallery_images(None).len());
    assert!(state.is_starred(current));
    window.click("Starred images only");
    assert_eq!(window.state().gallery_images(None), [current]);
    assert!(window.has(&format!("1 of {all}: filtered")) && window.has("1 of 1"));
    window.click("Star this image");
    assert!(!window.state().is_starred(current));
    assert!(window.has("No image matches the filter") && window.has("– of 0"));
}

#[test]
fn layer_and_size_are_chosen_beside_the_backbones_name() {
    let mut window = Window::ready();
    window.click("Layer: Last layer");
    window.click("Layer 1");
    window.answer();
    assert_eq!(window.state().backbone_options.layer, Some(1));
    window.click("Size of images: Own size");
    window.click("64 pixels, 8 × 8 patches");
    window.answer();
    let options = window.state().backbone_options;
    assert_eq!((options.layer, options.pixels), (Some(1), Some(64)));
    // Another layer beside it: the same backbone twice, each with a layer of its own.
    window.click("Layer: Layer 1");
    window.click("Another layer beside it");
    // The parent menu has the same layers; those of the submenu are further to the right.
    let all = window.harness.query_all_by_label("Layer 0");
    all.max_by(|a, b| a.rect().left().total_cmp(&b.rect().left())).expect("a layer").click();
    window.harness.run();
    window.answer();
    let state = window.state();
    let own: Vec<_> =
        state.library.backbones.values().map(|backbone| backbone.own.and_then(|own| own.layer)).collect();
    assert_eq!(own, [None, Some(0)]);
    assert_eq!(state.backbone_options.layer, Some(1), "the first one stays as it is");
    // And in the training form.
    window.click("Training");
    window.choose("Tokens", "Layer 0");
    assert_eq!(window.state().training.form.tokens.token_spec.layer, Some(0));
}
