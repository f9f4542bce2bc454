//! The training pane in all its states, and files dropped on the window or images copied from it:
//! events are made by hand, with no worker.

use std::time::SystemTime;

use egui_kittest::kittest::NodeT as _;
use ssmprobe::app::jobs::Unit;
use ssmprobe::app::jobs::history::disk::RunSnapshot;
use ssmprobe::app::jobs::history::{About, Failure, Steps};
use ssmprobe::app::jobs::info::BackboneInfo;
use ssmprobe::app::jobs::train::{Estimate, Preflight, TrainSettings};
use ssmprobe::app::jobs::train_event::{TrainDelta, TrainEvent};
use ssmprobe::app::state::Phase;
use ssmprobe::model::probe::head::{Dims, Group, HEADS};
use ssmprobe::model::train::Epoch;
use ssmprobe::model::train::run::{Metric, Selection};

use crate::pictures::painted;
use crate::state::progress;
use crate::window::backbone;
use crate::window::prelude::*;

pub fn filled() -> TrainSettings {
    TrainSettings {
        backbone: "tiny".into(),
        data: Some("birds".into()),
        heads: vec!["gap".into(), "sinkhorn".into()],
        epochs: 10,
        ..TrainSettings::default()
    }
}

pub fn preflight() -> Preflight {
    Preflight {
        dataset: "birds".into(),
        layout: "folder",
        train: 12_000,
        select: 500,
        test: 500,
        selection: Selection::Test,
        backbone: "tiny".into(),
        dims: Dims { width: 24, grid: Grid::new(14, 14), classes: 10 },
        images: 12_500,
        cached: 2_500,
        recompute: false,
        bytes: 940_800_000,
        cache: "tokens/abc".into(),
        free: Some(5_000_000_000),
        out: "runs/birds-tiny".into(),
        notes: Vec::new(),
        slurm: false,
    }
}

fn about(heads: &[&str], epochs: usize) -> About {
    About {
        folder: "runs/birds-tiny".into(),
        dataset: "birds".into(),
        backbone: "tiny".into(),
        device: "cpu".into(),
        heads: heads.iter().map(|head| (*head).to_owned()).collect(),
        epochs,
        batch: 256,
        seeds: vec![0, 1],
        train: 12_000,
        test: 1_500,
    }
}

pub fn snapshot(heads: &[&str]) -> Arc<RunSnapshot> {
    let (epochs, losses, failures, probes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Arc::new(RunSnapshot {
        about: about(heads, 10),
        epochs,
        losses,
        failures,
        probes,
        tasks: None,
        trained: None,
    })
}

pub fn metric(head: &str, seed: u64, epoch: usize) -> Metric {
    let loss = 2.0 / epoch as f64 + seed as f64 * 0.1;
    let epoch = Epoch { epoch, step: None, loss, train: 70.0, select: 60.0, test: 61.5 };
    Metric { head: head.into(), seed, epoch }
}

/// A window that shows the training pane.
pub struct Pane(pub Window);

impl Pane {
    fn new() -> Self {
        let mut window = Window::new();
        window.click("Training");
        window.resize(1440.0, 1000.0);
        Self(window)
    }

    pub fn filled() -> Self {
        let mut pane = Self::new();
        pane.0.dispatch(Command::SetTrainForm(Box::new(filled())));
        pane
    }

    /// Delivers the plan and starts the training; its job.
    fn start(&mut self) -> JobId {
        let plan = self.job_of(|ask| matches!(ask, Fetch::Plan(_)));
        self.train_event(plan, TrainEvent::Planned(Box::new(preflight())));
        self.deliver(Event::Finished(plan));
        self.0.click("Start training");
        let job = self.job_of(|ask| matches!(ask, Fetch::Begin(_)));
        self.deliver(Event::Started(job));
        job
    }

    /// A pane with a running training that has reported no step yet, and its job.
    fn running(heads: &[&str]) -> (Self, JobId) {
        let mut pane = Self::filled();
        let job = pane.start();
        pane.train_event(job, TrainEvent::Begun(snapshot(heads)));
        (pane, job)
    }

    /// The job of the latest request of this kind.
    pub fn job_of(&self, wanted: impl Fn(&Fetch) -> bool) -> JobId {
        let wire = self.0.wire.borrow();
        let found =
            wire.requests.iter().rev().find_map(pick!(Request::Fetch(job, ask) if wanted(ask) => *job));
        found.unwrap_or_else(|| panic!("not among {:?}", wire.requests))
    }

    /// What was asked for so far, of what `wanted` picks.
    pub fn asked<T>(&self, wanted: impl Fn(&Fetch) -> Option<T>) -> Vec<T> {
        let asked = |request: &Request| match request {
            Request::Fetch(_, ask) => wanted(ask),
            _ => None,
        };
        self.0.wire.borrow().requests.iter().filter_map(asked).collect()
    }

    pub fn deliver(&mut self, event: Event) {
        self.0.deliver([event]);
    }

    pub fn train_event(&mut self, job: JobId, event: TrainEvent) {
        self.deliver(Event::Training { job, event });
    }

    fn report_steps(&mut self, job: JobId, at: f64, epochs: Vec<Metric>) {
        let steps = Some(Steps { seed: 0, at, losses: vec![Some(1.5), Some(1.2)] });
        let (failures, rate, left) = (Vec::new(), 250.0, Duration::from_secs(90));
        self.train_event(
            job,
            TrainEvent::Progressed(Box::new(TrainDelta { steps, epochs, failures, rate, left })),
        );
    }
}

#[test]
fn what_is_missing_is_asked_for_and_every_head_can_be_chosen() {
    let mut pane = Pane::new();
    assert!(pane.0.has("Choose a backbone to read tokens from"));
    pane.0.click("SimPool");
    assert!(pane.0.state().training.form.heads.contains(&"simpool".to_owned()));
    pane.0.click("The paper's");
    assert_eq!(pane.0.state().training.form.heads.len(), 19);
    for group in Group::ALL {
        let (name, about) = (group.name(), group.about());
        let kinds = || HEADS.iter().filter(|kind| kind.group == group);
        assert!(!about.is_empty() && kinds().next().is_some());
        let chosen = kinds().filter(|kind| kind.in_paper).count();
        let header = format!("{name}: {chosen} chosen");
        if group == Group::Network {
            pane.0.click(&header);
        }
        for kind in kinds() {
            assert!(pane.0.has(kind.name), "{} cannot be chosen", kind.name);
            assert!(pane.0.has(kind.summary), "{} says nothing", kind.name);
        }
        pane.0.click(&header); // collapses it, so that the next fits
    }
    pane.0.dispatch(Command::SetTrainForm(Box::new(TrainSettings { heads: Vec::new(), ..filled() })));
    assert!(pane.0.has("Choose at least one head"));
    assert!(pane.0.idle());
}

#[test]
fn open_datasets_are_offered_before_recent_ones_and_each_once() {
    let mut pane = Pane::new();
    let state = &mut pane.0.harness.state_mut().state;
    state.settings.recent.datasets = ["data/cars", "data/birds"].map(PathBuf::from).into();
    pane.0.dispatch(Command::OpenDataset("data/birds".into(), None));
    pane.0.dispatch(Command::OpenDataset("data/dogs".into(), None));
    let places = |pane: &Pane| {
        let of = |name| pane.0.harness.query_all_by_label(name).map(|node| node.rect()).collect::<Vec<_>>();
        ["birds", "dogs", "cars"].map(of)
    };
    let before = places(&pane);
    pane.0.click_role(Role::ComboBox, "Dataset");
    let listed: Vec<egui::Rect> = places(&pane)
        .into_iter()
        .zip(before)
        .flat_map(|(now, before)| now.into_iter().filter(move |place| !before.contains(place)))
        .collect();
    assert!(listed.len() == 3 && listed.is_sorted_by(|a, b| a.bottom() <= b.top()), "{listed:?}");
    pane.0.click_at(listed[2].center(), egui::PointerButton::Primary);
    assert_eq!(pane.0.state().training.form.data.as_deref(), Some(Path::new("data/cars")));
}

#[test]
fn heads_that_read_cls_cannot_be_chosen_where_the_backbone_has_none() {
    let mut pane = Pane::filled();
    pane.0.harness.state_mut().dispatch(Command::OpenBackbone("tiny".into()));
    let opens = |request: Request| match request {
        Request::Fetch(job, Fetch::OpenBackbone { entry, .. }) => {
            let info = BackboneInfo { cls: false, ..backbone() };
            vec![Event::BackboneOpened { job, entry, info }, Event::Finished(job)]
        }
        _ => Vec::new(),
    };
    pane.0.answer_with(opens);
    // Also where it is open a second time, for another layer, while it is being opened anew.
    let own = *pane.0.state().library.backbones.keys().next().expect("it is open");
    let options = BackboneOptions { layer: Some(1), ..BackboneOptions::default() };
    pane.0.dispatch(Command::OpenBeside(own, options));
    pane.0.answer_with(opens);
    pane.0.dispatch(Command::UseBackbone(own));
    let chosen =
        |pane: &Pane, head: &str| pane.0.state().training.form.heads.iter().any(|known| known == head);
    pane.0.click("CLS");
    assert!(!chosen(&pane, "cls"));
    pane.0.click("The paper's");
    assert!(chosen(&pane, "attention") && !chosen(&pane, "cls"));
    // Chosen for another backbone, it can be deselected.
    let heads = vec!["cls".into(), "gap".into()];
    pane.0.dispatch(Command::SetTrainForm(Box::new(TrainSettings { heads, ..filled() })));
    pane.0.click("CLS");
    assert!(!chosen(&pane, "cls") && chosen(&pane, "gap"));
}

#[test]
fn the_plan_is_asked_for_once_and_shown_before_anything_begins() {
    let mut pane = Pane::filled();
    let job = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    assert!(pane.0.has("Checking the dataset and the backbone"));
    assert!(pane.0.idle(), "waiting is no reason to repaint");
    let plans = |pane: &Pane| pane.asked(pick!(Fetch::Plan(_) => ())).len();
    assert_eq!(plans(&pane), 1);
    pane.train_event(job, TrainEvent::Planned(Box::new(preflight())));
    for said in [
        "12,000 to train on, 500 to test on, 10 classes",
        "470 steps of 2 heads",
        "Detectable difference",
        "4.0 points or more",
        "940.8 MB",
        "Timing a few steps",
    ] {
        assert!(pane.0.has(said), "{said} is not there");
    }
    let second = Duration::from_secs(1);
    let estimate = Estimate { image: Some(second / 100), step: second, evaluation: second / 4, tried: 256 };
    pane.train_event(job, TrainEvent::Timed(estimate));
    pane.deliver(Event::Finished(job));
    // 10,000 images at 10 ms; 468.75 batches at 1 s and 19.53 at 0.25 s.
    assert!(pane.0.has("2 min for the tokens"));
    assert!(pane.0.has("8 min for the training") && pane.0.has("About 10 min"));
    // More epochs change the estimate, but need no new plan.
    let draft = TrainSettings { epochs: 20, ..filled() };
    pane.0.dispatch(Command::SetTrainForm(Box::new(draft)));
    assert!(pane.0.has("940 steps of 2 heads"));
    assert_eq!(plans(&pane), 1);
    // Another batch size needs one.
    let draft = TrainSettings { batch: 64, ..filled() };
    pane.0.dispatch(Command::SetTrainForm(Box::new(draft)));
    assert_eq!(plans(&pane), 2);
}

#[test]
fn a_protocol_that_was_changed_says_so_until_it_is_chosen_again() {
    let mut pane = Pane::filled();
    let shown = |pane: &Pane| {
        let list = pane.0.harness.get_by_role_and_label(Role::ComboBox, "Protocol");
        list.accesskit_node().value()
    };
    assert_eq!(shown(&pane).as_deref(), Some("paper, changed"), "in 10 epochs");
    pane.0.choose("Protocol", "paper");
    assert_eq!(pane.0.state().training.form, TrainSettings { epochs: 100, ..filled() });
    assert_eq!(shown(&pane).as_deref(), Some("paper"));
}

#[test]
fn a_plan_that_comes_while_the_form_is_incomplete_is_that_of_the_earlier_form() {
    let mut pane = Pane::filled();
    let job = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    pane.0.dispatch(Command::SetTrainForm(Box::new(TrainSettings { data: None, ..filled() })));
    pane.train_event(job, TrainEvent::Planned(Box::new(preflight())));
    pane.deliver(Event::Finished(job));
    assert!(!pane.0.has("470 steps of 2 heads"));
    pane.0.dispatch(Command::SetTrainForm(Box::new(filled())));
    assert!(pane.0.has("470 steps of 2 heads"));
    assert_eq!(pane.asked(pick!(Fetch::Plan(_) => ())).len(), 1);
}

#[test]
fn a_training_begins_with_what_is_being_typed() {
    let mut pane = Pane::filled();
    let plan = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    pane.train_event(plan, TrainEvent::Planned(Box::new(preflight())));
    pane.deliver(Event::Finished(plan));
    pane.0.replace_text(Role::SpinButton, "Epochs", 33);
    pane.0.press(Modifiers::COMMAND, Key::Enter);
    assert_eq!(pane.asked(pick!(Fetch::Begin(settings) => settings.epochs)), [33]);
}

#[test]
fn a_larger_token_cache_is_allowed_in_the_form_and_planned_anew() {
    let mut pane = Pane::filled();
    pane.0.click("Advanced");
    pane.0.replace_text(Role::SpinButton, "Cache limit", 500);
    pane.0.press(Modifiers::NONE, Key::Enter);
    assert_eq!(pane.0.state().training.form.tokens.cache_limit, 500.0);
    let limits = pane.asked(pick!(Fetch::Plan(settings) => settings.tokens.cache_limit));
    assert_eq!(limits.last(), Some(&500.0));
}

#[test]
fn a_plan_that_fails_says_why_and_leaves_no_job() {
    let mut pane = Pane::filled();
    let job = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    pane.deliver(Event::Failed(
        job,
        UserError::new("birds: no readable image to test on").remedy("put some under test/CLASS"),
    ));
    assert!(pane.0.has("no readable image to test on") && pane.0.has("put some under test/CLASS"));
    assert!(pane.0.state().jobs.is_empty());
    assert!(pane.0.idle());
    pane.0.click("Try again");
    let again = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    assert_ne!(again, job);
    pane.deliver(Event::Cancelled(again));
    assert!(pane.0.has("Planning was cancelled") && pane.0.has("Try again"));
}

#[test]
fn a_folder_that_was_typed_stays_when_its_training_cannot_begin() {
    let mut pane = Pane::filled();
    let typed = TrainSettings { out: Some("/runs/typed".into()), ..filled() };
    pane.0.dispatch(Command::SetTrainForm(Box::new(typed)));
    let job = pane.start();
    assert_eq!(pane.0.state().training.form.out, None, "the next one goes elsewhere");
    pane.deliver(Event::Failed(job, UserError::new("/runs/typed: cannot be written")));
    assert_eq!(pane.0.state().training.form.out, Some("/runs/typed".into()));
    assert!(pane.0.has("/runs/typed: cannot be written"));
    // Nor when it is stopped before, as while tokens are extracted.
    pane.0.click("Try again");
    let job = pane.start();
    pane.deliver(Event::Cancelled(job));
    assert_eq!(pane.0.state().training.form.out, Some("/runs/typed".into()));
}

#[test]
fn why_a_training_cannot_begin_is_told_of_its_own_form_or_run_alone() {
    let mut pane = Pane::filled();
    let job = pane.start();
    pane.0.dispatch(Command::SetTrainForm(Box::new(TrainSettings { batch: 64, ..filled() })));
    pane.deliver(Event::Failed(job, UserError::new("runs: the disk is full")));
    assert!(!pane.0.has("the disk is full"), "the form was changed meanwhile");
    let folder = PathBuf::from("runs/birds-tiny");
    let requests = pane.0.harness.state_mut().state.dispatch(Command::OpenRun(folder.clone()));
    let job = requests[0].job();
    let mut read = snapshot(&["gap", "sinkhorn"]);
    pane.deliver(Event::RunRead { job, folder: folder.clone(), snapshot: Ok(read.clone()) });
    pane.0.click("Resume");
    assert!(pane.0.has("Preparing…") && pane.0.has("Stop and save"));
    let job = pane.job_of(|ask| matches!(ask, Fetch::Resume { .. }));
    pane.deliver(Event::Failed(job, UserError::new("runs/birds-tiny is in use by another process")));
    assert!(pane.0.has("is in use") && pane.0.has("Not finished") && pane.0.has("Resume"));
    pane.0.click("New training");
    assert!(!pane.0.has("is in use"));
    // Once the other process has finished it, nothing is wrong with it.
    let all = ["gap", "sinkhorn"].into_iter().flat_map(|head| [(head, 0), (head, 1)]);
    let epochs = all.flat_map(|(head, seed)| (1..=10).map(move |epoch| metric(head, seed, epoch)));
    Arc::make_mut(&mut read).epochs = epochs.collect();
    pane.deliver(Event::RunRead { job: None, folder, snapshot: Ok(read) });
    pane.0.click("birds-tiny");
    assert!(pane.0.has("Finished") && !pane.0.has("is in use"));
}

#[test]
fn a_dataset_that_opens_while_a_field_is_typed_into_stays_in_the_form() {
    let mut pane = Pane::filled();
    pane.0.click("Advanced");
    pane.0.harness.get_by_role_and_label(eframe::egui::accesskit::Role::TextInput, "Head settings").focus();
    pane.0.harness.run();
    pane.0.type_text("sinkhorn.temperature=0.2");
    let typing = pane.0.state().training.form.clone();
    assert_eq!(typing, filled(), "the state gets what is typed when typing ends");
    let opened = TrainSettings { data: Some("cars".into()), selection: Some(0.1), ..typing };
    pane.0.dispatch(Command::SetTrainForm(Box::new(opened.clone())));
    pane.0.press(Modifiers::NONE, egui::Key::Escape);
    let expected = TrainSettings { head_settings: "sinkhorn.temperature=0.2".into(), ..opened };
    assert_eq!(pane.0.state().training.form, expected);
}

#[test]
fn tokens_are_extracted_before_curves_are_drawn() {
    let mut pane = Pane::filled();
    let job = pane.start();
    pane.deliver(Event::Progress(job, progress("Extracting tokens", [500, 12_500], Unit::Items, 5)));
    assert!(pane.0.has("Extracting tokens"));
    pane.train_event(job, TrainEvent::Begun(snapshot(&["gap", "sinkhorn"])));
    assert!(pane.0.has("Running") && pane.0.has("No training step yet"));
}

#[test]
fn a_training_that_is_stopped_while_tokens_are_extracted_says_so_at_once() {
    let mut pane = Pane::filled();
    let job = pane.start();
    pane.deliver(Event::Progress(job, progress("Extracting tokens", [500, 12_500], Unit::Items, 5)));
    assert!(!pane.0.has("Stopping…"));
    pane.0.dispatch(Command::Cancel(job));
    assert!(pane.0.has("Stopping…") && pane.0.has("Extracting tokens"));
}

#[test]
fn the_plan_scrolls_to_its_button_when_that_has_the_keyboard_focus() {
    let mut pane = Pane::filled();
    pane.0.harness.set_size(eframe::egui::vec2(853.0, 480.0));
    let plan = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    pane.train_event(plan, TrainEvent::Planned(Box::new(preflight())));
    pane.deliver(Event::Finished(plan));
    pane.0.harness.get_by_label("Start training").focus();
    pane.0.harness.run();
    let place = pane.0.harness.get_by_label("Start training").rect();
    assert!(place.top() > 60.0 && place.bottom() < 460.0, "out of sight: {place:?}");
}

#[test]
fn the_heads_below_the_curves_are_in_reach_in_a_zoomed_window() {
    let (mut pane, job) = Pane::running(&["gap", "sinkhorn"]);
    pane.report_steps(job, 1.5, vec![metric("gap", 0, 1), metric("sinkhorn", 0, 1)]);
    pane.0.resize(640.0, 360.0); // 1280 by 720, at 200 %
    let place = |pane: &Pane, label: &str| pane.0.harness.get_by_label(label).rect();
    let tab = place(&pane, "Training");
    assert!(tab.right() < 640.0, "the tab of what is shown: {tab:?}");
    let [smoothing, band] = [(Role::Slider, "Smoothing"), (Role::ComboBox, "Band")]
        .map(|(role, name)| pane.0.harness.get_by_role_and_label(role, name).rect());
    assert!(smoothing.right() < 640.0, "{smoothing:?}");
    let word = pane.0.harness.get_by_role_and_label(Role::Label, "Band").rect();
    assert!(word.right() < band.left() && band.y_range().contains(word.center().y), "{word:?} {band:?}");
    let before = place(&pane, "sinkhorn");
    assert!(before.top() > 340.0, "all of it fits: {before:?}");
    let (above, first) = (place(&pane, "Show all"), place(&pane, "gap"));
    assert!(above.bottom() <= first.top(), "the rows lie over what is above them: {above:?} {first:?}");
    pane.0.harness.get_by_label("sinkhorn").focus();
    pane.0.harness.run();
    let after = place(&pane, "sinkhorn");
    assert!(after.top() > 150.0 && after.bottom() < 340.0, "out of sight: {after:?}");
}

#[test]
fn curves_grow_heads_are_hidden_and_the_training_rests_and_stops() {
    let (mut pane, job) = Pane::running(&["gap", "sinkhorn"]);
    pane.report_steps(job, 0.5, Vec::new());
    pane.report_steps(job, 1.5, vec![metric("gap", 0, 1), metric("sinkhorn", 0, 1), metric("gap", 1, 1)]);
    assert!(pane.0.has("Training loss of 2 heads") && pane.0.has("Accuracy (%) of 2 heads"));
    assert!(pane.0.has("61.5 ± 0.0"), "the spread over seeds");
    pane.0.click_at(pane.0.place("gap").center(), egui::PointerButton::Secondary);
    pane.0.harness.get_by_label("Copy table").click();
    let copied = pane.0.copied().expect("a table on the clipboard");
    let rows: Vec<Vec<&str>> = copied.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((rows[0][0], rows[0][3], rows[1][0], rows[1][3]), ("Head", "Test, last (%)", "gap", "61.5"));
    pane.0.press(Modifiers::NONE, Key::Escape);
    pane.0.click("sinkhorn");
    assert!(pane.0.has("Training loss of 1 head"), "a click on the name hides the curve");
    let name = pane.0.harness.get_by_label("gap").rect().center();
    pane.0.harness.hover_at(name);
    (0..8).for_each(|_| pane.0.harness.step());
    let said = painted(pane.0.harness.output());
    assert!(said.iter().any(|(text, ..)| text == "gap\nClick to hide its curve"), "a name may be cut");
    let can_export =
        |pane: &Pane| !pane.0.harness.get_by_label("Export curves…").accesskit_node().is_disabled();
    assert!(can_export(&pane));
    pane.0.click("Hide all");
    assert!(pane.0.has("Training loss of 0 heads") && !can_export(&pane), "it would be that of all heads");
    pane.0.click("Show all");
    assert!(pane.0.has("Training loss of 2 heads"));
    for control in ["Log scale", "train", "selection", "test"] {
        pane.0.click(control);
    }
    assert!(pane.0.idle());
    for width in (600..=1440).step_by(30) {
        pane.0.resize(width as f32, 1000.0);
        let tops = ["test", "selection", "train"].map(|split| pane.0.place(split).top());
        assert!(tops.iter().all(|top| (top - tops[0]).abs() < 1.0), "{tops:?}: one wraps alone at {width}");
    }

    pane.0.click("Pause");
    assert!(pane.0.wire.borrow().requests.contains(&Request::Pause(job, true)));
    assert!(pane.0.has("Pausing after this step"));
    pane.train_event(job, TrainEvent::Paused(true));
    assert!(pane.0.has("Paused"));
    pane.deliver(Event::Progress(job, progress("Seed 0, epoch 1 of 10", [600, 12_000], Unit::Items, 5)));
    assert!(pane.0.has("paused") && !pane.0.has("left"), "who rests has no time left to tell");
    pane.0.click("Resume");
    assert!(pane.0.wire.borrow().requests.contains(&Request::Pause(job, false)));
    pane.train_event(job, TrainEvent::Paused(false));
    let stop = pane.0.place("Stop and save").center();
    pane.0.click("Stop and save");
    assert!(pane.0.wire.borrow().requests.contains(&Request::Cancel(job)));
    assert!(pane.0.has("Stopping after this step"));

    // The probes of the stopped run are opened, and those written again are opened again.
    let path = Path::new("runs/birds-tiny/probes/gap-s0-best.safetensors");
    let probes = |time| TrainEvent::Probes(vec![(path.to_owned(), time)]);
    pane.train_event(job, probes(SystemTime::UNIX_EPOCH));
    pane.train_event(job, TrainEvent::Ended { finished: false, failures: Vec::new() });
    pane.deliver(Event::Cancelled(job));
    let opened = |pane: &Pane| {
        let wire = pane.0.wire.borrow();
        wire.requests
            .iter()
            .filter(|r| matches!(r, Request::Compute(_, Compute::OpenProbe { path: p, .. }) if p == path))
            .count()
    };
    assert_eq!(opened(&pane), 1);
    assert!(pane.0.has("Stopped and saved") && pane.0.has("Compare"));
    for button in ["Close run", "Resume"] {
        let place = pane.0.place(button);
        assert!(!place.contains(stop), "a double click on what stops the run meets {button}: {place:?}");
    }
    pane.0.answer();
    pane.0.click("Resume");
    let again = pane.job_of(|ask| matches!(ask, Fetch::Resume { device: None, .. }));
    pane.train_event(again, TrainEvent::Begun(snapshot(&["gap", "sinkhorn"])));
    assert!(pane.0.has("Training loss of 2 heads"), "the curves go on where they were");
    assert!(pane.0.has("12,000 images to train on, 1,500 to test on"));
    pane.train_event(again, probes(SystemTime::UNIX_EPOCH + Duration::from_secs(9)));
    assert_eq!(opened(&pane), 1, "what was asked before is answered; it is opened again");
    // Its job may end without a last word of it.
    pane.deliver(Event::Cancelled(again));
    assert!(pane.0.has("Stopped and saved"));
}

#[test]
fn tab_goes_through_the_buttons_of_a_run_from_left_to_right() {
    let (mut pane, _) = Pane::running(&["gap"]);
    pane.0.harness.get_by_label("Stop and save").focus();
    pane.0.harness.run();
    pane.0.press(Modifiers::NONE, Key::Tab);
    assert!(pane.0.harness.get_by_label("Pause").is_focused());
}

#[test]
fn the_probes_of_a_training_that_ended_before_it_was_read_are_opened() {
    let mut pane = Pane::filled();
    let job = pane.start();
    let probes =
        vec![(PathBuf::from("runs/birds-tiny/probes/gap-s0-best.safetensors"), SystemTime::UNIX_EPOCH)];
    let whole = RunSnapshot { probes: probes.clone(), ..RunSnapshot::clone(&snapshot(&["gap"])) };
    pane.train_event(job, TrainEvent::Begun(Arc::new(whole)));
    pane.train_event(job, TrainEvent::Probes(probes));
    assert_eq!(pane.0.state().library.probes.len(), 1);
}

#[test]
fn closing_the_window_asks_what_becomes_of_a_training() {
    let (mut pane, job) = Pane::running(&["gap"]);
    let close = |pane: &mut Pane| {
        let window = pane.0.harness.input_mut().viewports.entry(egui::ViewportId::ROOT).or_default();
        window.events.push(egui::ViewportEvent::Close);
        pane.0.harness.run();
    };
    close(&mut pane);
    assert!(pane.0.has("A training is running"));
    pane.0.click("Keep training");
    assert!(!pane.0.has("A training is running") && pane.0.idle());

    close(&mut pane);
    pane.0.click("Stop, save and quit");
    close(&mut pane);
    assert!(pane.0.has("Quit now"), "while it is being saved, which may never end");
    pane.0.click("Stop, save and quit");
    assert!(pane.0.wire.borrow().requests.contains(&Request::Cancel(job)));
    pane.0.wire.borrow_mut().events.push_back(Event::Cancelled(job));
    let closes = (0..4).any(|_| {
        pane.0.harness.step();
        let sent = &pane.0.harness.output().viewport_output[&egui::ViewportId::ROOT].commands;
        sent.contains(&egui::ViewportCommand::Close)
    });
    assert!(closes, "once it is saved");
}

#[test]
fn a_hidden_window_is_shown_for_the_question_of_closing() {
    let (mut pane, _) = Pane::running(&["gap"]);
    // A minimised window runs its logic alone, and closes unless that cancels it.
    let mut input = egui::RawInput::default();
    input.viewports.entry(egui::ViewportId::ROOT).or_default().events.push(egui::ViewportEvent::Close);
    let ctx = pane.0.harness.ctx.clone();
    let output = ctx.run_logic(&input, |ctx| pane.0.harness.state_mut().advance(ctx));
    let sent = &output.viewport_commands[&egui::ViewportId::ROOT];
    for command in [egui::ViewportCommand::CancelClose, egui::ViewportCommand::Minimized(false)] {
        assert!(sent.contains(&command), "{sent:?}");
    }
    pane.0.harness.run();
    assert!(pane.0.has("A training is running"));
}

#[test]
fn a_training_that_fails_or_a_head_that_breaks_is_told_and_the_window_lives() {
    let (mut pane, job) = Pane::running(&["gap", "sinkhorn"]);
    let why = "the loss became NaN in epoch 1".to_owned();
    let failure = Failure { head: "sinkhorn".into(), seed: 0, why };
    let (rate, left) = (1.0, Duration::ZERO);
    let delta =
        TrainDelta { steps: None, epochs: vec![metric("gap", 0, 1)], failures: vec![failure], rate, left };
    pane.train_event(job, TrainEvent::Progressed(Box::new(delta)));
    assert!(pane.0.has("Stopped: the loss became NaN in epoch 1"));
    let fault =
        UserError::new("Stopped by a bug in the program or its driver").remedy("Run on the CPU instead");
    pane.deliver(Event::Failed(job, fault));
    assert!(pane.0.has("Failed") && pane.0.has("Run on the CPU instead") && pane.0.has("Resume"));
    assert!(pane.0.has("61.5"), "what was trained stays to see");
    assert!(pane.0.idle());
    pane.0.click("New training");
    assert!(pane.0.has("Start training") || pane.0.has("Checking the dataset"), "the next one can start");
}

#[test]
fn a_run_of_another_program_is_followed_and_its_probes_come() {
    let mut pane = Pane::new();
    let folder = PathBuf::from("runs/birds-tiny");
    pane.0.harness.state_mut().dispatch(Command::OpenRun(folder.clone()));
    let say = |pane: &mut Pane, epochs: Vec<Metric>, probes: Vec<(PathBuf, SystemTime)>, trained| {
        let (about, failures) = (about(&["gap"], 2), Vec::new());
        let snapshot = RunSnapshot { about, epochs, failures, probes, trained, ..RunSnapshot::default() };
        let snapshot = Ok(Arc::new(snapshot));
        let wire = pane.0.wire.borrow();
        let job = wire.requests.iter().find_map(pick!(Request::Files(job, Files::OpenRun { .. }) => *job));
        drop(wire);
        pane.deliver(Event::RunRead { job, folder: folder.clone(), snapshot });
    };
    say(&mut pane, vec![metric("gap", 0, 1)], Vec::new(), None);
    assert!(pane.0.wire.borrow().requests.contains(&Request::Follow(vec![folder.clone()])));
    assert!(pane.0.has("Not finished") && pane.0.has("Training loss of 1 head"));
    for (trained, words) in
        [(Some(true), "Runs elsewhere"), (Some(false), "Not finished"), (None, "Runs elsewhere")]
    {
        let epochs = if trained.is_some() { 1..=1 } else { 1..=2 };
        say(&mut pane, epochs.map(|epoch| metric("gap", 0, epoch)).collect(), Vec::new(), trained);
        assert!(pane.0.has(words), "{trained:?}");
    }
    let probe = (folder.join("probes/gap-s0-best.safetensors"), SystemTime::UNIX_EPOCH);
    let all = [(0, 1), (0, 2), (1, 1), (1, 2)].map(|(seed, epoch)| metric("gap", seed, epoch));
    say(&mut pane, all.into(), vec![probe.clone()], None);
    assert!(pane.0.has("Finished"));
    let wire = pane.0.wire.borrow().requests.clone();
    assert!(
        wire.iter()
            .any(|r| matches!(r, Request::Compute(_, Compute::OpenProbe { path, .. }) if *path == probe.0))
    );
    assert_eq!(
        wire.iter().rev().find(|r| matches!(r, Request::Follow(_))),
        Some(&Request::Follow(Vec::new()))
    );
    assert!(pane.0.idle());
    // Opened again, it shows its folder and probes as they are now.
    pane.0.answer();
    pane.0.harness.state_mut().dispatch(Command::OpenRun(folder.clone()));
    say(&mut pane, vec![metric("gap", 0, 1)], vec![(probe.0.clone(), SystemTime::now())], None);
    assert!(pane.0.has("Not finished"));
    let wire = pane.0.wire.borrow().requests.clone();
    assert!(wire.contains(&Request::Follow(vec![folder.clone()])));
    let again =
        |r: &Request| matches!(r, Request::Compute(_, Compute::OpenProbe { path, .. }) if *path == probe.0);
    assert!(wire.iter().any(again));
    pane.0.click("Close run");
    assert!(pane.0.state().training.runs.is_empty());
}

#[test]
fn a_run_that_vanishes_is_told() {
    let mut pane = Pane::new();
    let folder = PathBuf::from("runs/birds-tiny");
    let requests = pane.0.harness.state_mut().state.dispatch(Command::OpenRun(folder.clone()));
    let late = Some(JobId(u64::MAX)); // of an earlier workspace
    for (job, open) in [(late, 0), (requests[0].job(), 1)] {
        pane.deliver(Event::RunRead { job, folder: folder.clone(), snapshot: Ok(snapshot(&["gap"])) });
        assert_eq!(pane.0.state().training.runs.len(), open);
    }
    for _ in 0..2 {
        let snapshot = Err(UserError::new("runs/birds-tiny holds no run"));
        pane.deliver(Event::RunRead { job: None, folder: folder.clone(), snapshot });
    }
    let notes = pane.0.state().toasts.iter().filter(|toast| toast.text.contains("holds no run"));
    assert_eq!(notes.count(), 1, "it is told once");
    let run = &pane.0.state().training.runs[&folder];
    assert!(matches!(run.phase, Phase::Missing(_)));
    assert!(pane.0.has("Cannot be read") && pane.0.has("holds no run") && pane.0.has("(cannot be read)"));
    assert!(!pane.0.has("Resume"), "a folder would be made where a disk is away");
    pane.deliver(Event::RunRead { job: None, folder, snapshot: Ok(snapshot(&["gap"])) });
    assert!(pane.0.has("Not finished") && pane.0.has("Resume"), "its disk is back");
}

#[derive(Debug)]
pub struct File(pub PathBuf);

impl egui::DroppedFile for File {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }
}

#[test]
fn files_that_are_dropped_are_recognised_and_opened() {
    let mut window = Window::new();
    let paths = ["a/photo.png", "b/run"].map(PathBuf::from);
    window.harness.input_mut().hovered_files.push(egui::HoveredFile::default());
    window.harness.step();
    window.harness.step();
    let over = window.has("Drop to open");
    window.harness.input_mut().hovered_files.clear();
    let drop_on = |window: &mut Window, paths: &[PathBuf]| {
        let files = paths.iter().map(|path| Arc::new(File(path.clone())) as egui::DroppedFileHandle);
        window.harness.input_mut().dropped_files = files.collect();
        window.harness.run();
    };
    drop_on(&mut window, &paths);
    let job_of = window.wire.borrow().requests.clone();
    let known = job_of
        .iter()
        .filter(|r| matches!(r, Request::Files(_, Files::Recognise { paths: p, .. }) if *p == paths));
    assert_eq!(known.count(), 1, "{job_of:?}");
    assert!(over, "nothing says that files can be dropped");
    assert!(!window.has("Drop to open"));
    // While the window is hidden, its input is that of the last frame that was drawn.
    window.wire.borrow_mut().requests.clear();
    window.harness.input_mut().dropped_files = vec![Arc::new(File(paths[0].clone()))];
    window.harness.step();
    let ctx = window.harness.ctx.clone();
    for _ in 0..2 {
        let advance = |ctx: &egui::Context| window.harness.state_mut().advance(ctx);
        let _ = ctx.run_logic(&egui::RawInput::default(), advance);
    }
    window.harness.run();
    let asked = window.take_requests();
    assert_eq!(asked.iter().filter(|r| matches!(r, Request::Files(..))).count(), 1, "{asked:?}");
    // A workspace replaces everything that is open.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("work.ssmprobe");
    let shared = window.state().views.shared;
    let mut workspace = window.state().workspace(serde_json::Value::Null);
    workspace.views.shared = !shared;
    workspace.save(&file).expect("saved");
    drop_on(&mut window, &[file]);
    window.until("the workspace", |window| window.state().views.shared != shared);
}

#[test]
fn a_figure_is_copied_as_an_image() {
    let mut window = Window::ready();
    window.click_at(window.place("Reading order").center(), egui::PointerButton::Secondary);
    window.click("Copy image");
    let mut copied = None;
    window.until("a copied image", |window| {
        let commands = &window.harness.output().platform_output.commands;
        copied = commands.iter().find_map(pick!(egui::OutputCommand::CopyImage(image) => image.clone()));
        copied.is_some()
    });
    let copied = copied.expect("an image");
    assert!(copied.size[0] > 300 && copied.size[1] > 100, "{:?}", copied.size);
    let colours: std::collections::HashSet<_> = copied.pixels.iter().collect();
    assert!(colours.len() > 20, "the picture is empty");
}

#[test]
fn curves_of_several_runs_stand_on_one_plot_and_are_read_out_where_one_points() {
    let mut pane = Pane::new();
    for (name, tests) in [("birds-tiny", 61.5), ("birds-large", 80.5)] {
        let folder = PathBuf::from(format!("runs/{name}"));
        let requests = pane.0.harness.state_mut().state.dispatch(Command::OpenRun(folder.clone()));
        let about = About { folder: folder.clone(), ..about(&["gap", "sinkhorn"], 2) };
        let metric_at = |head: &str, seed: u64, epoch: usize| {
            let mut metric = metric(head, seed, epoch);
            metric.epoch.test = tests + 2.0 * seed as f64 + if head == "gap" { 0.0 } else { 1.0 };
            metric
        };
        let all = ["gap", "sinkhorn"].into_iter().flat_map(|head| [(head, 0), (head, 1)]);
        let epochs =
            all.flat_map(|(head, seed)| [metric_at(head, seed, 1), metric_at(head, seed, 2)]).collect();
        let (losses, failures, probes) = (Vec::new(), Vec::new(), Vec::new());
        let snapshot =
            Ok(Arc::new(RunSnapshot { about, epochs, losses, failures, probes, tasks: None, trained: None }));
        pane.deliver(Event::RunRead { job: requests[0].job(), folder, snapshot });
    }
    pane.0.harness.get_by_label("birds-tiny").click();
    // Another frame would move the curves if their first had no room for the names of their axes.
    pane.0.harness.step();
    let first = pane.0.place("Training loss of 2 heads");
    pane.0.harness.run();
    assert_eq!(pane.0.place("Training loss of 2 heads"), first);
    assert!(pane.0.has("Accuracy (%) of 2 heads"));
    pane.0.click("Other runs");
    pane.0.click_role(egui::accesskit::Role::CheckBox, "birds-large");
    pane.0.press(Modifiers::NONE, egui::Key::Escape);
    assert!(pane.0.has("Accuracy (%) of 4 heads") && pane.0.has("Other runs (1)"));
    let plot = pane.0.place("Accuracy (%) of 4 heads");
    let painted = crate::pictures::painted(pane.0.harness.output());
    assert!(painted.into_iter().any(|(text, ..)| text == "one standard deviation"), "the band is not named");
    pane.0.hover(plot.center());
    let said = |pane: &Pane| {
        let texts = crate::pictures::painted(pane.0.harness.output());
        texts
            .into_iter()
            .map(|(text, ..)| text)
            .find(|text| text.starts_with("Epoch 1.0"))
            .expect("a read-out")
    };
    // Mean and deviation of two seeds, 2 apart; the best run and head first.
    let deviation = "Epoch 1.0\nsinkhorn · birds-large: 82.5 ± 1.4 %\ngap · birds-large: 81.5 ± 1.4 %\n\
                     sinkhorn · birds-tiny: 63.5 ± 1.4 %\ngap · birds-tiny: 62.5 ± 1.4 %";
    assert_eq!(said(&pane), deviation);
    // The loss of the second epoch, 1 and 1.1, and not its moving average, which the line shows.
    let loss = pane.0.place("Training loss of 4 heads");
    pane.0.hover(egui::pos2(loss.right() - 0.1 * loss.width(), loss.center().y));
    let texts = crate::pictures::painted(pane.0.harness.output());
    assert!(texts.into_iter().any(|(text, ..)| text.contains("gap · birds-tiny: 1.0500 ± 0.0707")));
    pane.0.choose("Band", "95 % interval of the mean");
    pane.0.hover(plot.center());
    assert!(said(&pane).contains("gap · birds-tiny: 62.5 ± 12.7 %"), "{}", said(&pane));
}
