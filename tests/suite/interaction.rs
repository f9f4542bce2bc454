//! Use of the window: a probe that is clicked and one that is compared, several at once, the palette after an
//! empty search, files that do not open, help and tour, and the session that is restored.

use eframe::egui::accesskit::Toggled;
use egui_kittest::kittest::NodeT as _;
use ssmprobe::app::state::connection::Host;
use ssmprobe::app::state::workspace::SavedProbe;
use ssmprobe::app::state::{ActiveRun, Finding, Severity, Status};

use crate::pictures::painted;
use crate::run::assert_says;
use crate::window::prelude::*;
use crate::window::succeed;

impl Window {
    fn probe(&self, name: &str) -> ProbeId {
        let probes = &self.state().library.probes;
        *probes.iter().find(|(_, probe)| probe.name() == name).expect("a probe").0
    }

    fn wants(&mut self, command: Command) {
        self.harness.state_mut().dispatch(command);
        self.answer();
    }

    /// The row of the library with this name.
    fn row(&self, name: &str) -> egui::Rect {
        let rows = self.harness.query_all_by_role_and_label(Role::Button, name).map(|node| node.rect());
        rows.min_by(|a, b| a.left().total_cmp(&b.left())).unwrap_or_else(|| panic!("no row {name}"))
    }

    /// Hovers a row and clicks one of its buttons.
    fn click_in_row(&mut self, name: &str, button: &str) {
        let row = self.row(name).center();
        self.hover(row);
        self.click(button);
    }

    fn close(&mut self) {
        let window = self.harness.input_mut().viewports.entry(egui::ViewportId::ROOT).or_default();
        window.events.push(egui::ViewportEvent::Close);
        self.harness.run();
    }

    /// Whether the window closes after a click on this button, once what that writes is written.
    fn closes_by(&mut self, button: &str) -> bool {
        self.harness.get_by_label(button).click();
        (0..60_000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            self.harness.step();
            let sent = &self.harness.output().viewport_output[&egui::ViewportId::ROOT].commands;
            sent.contains(&egui::ViewportCommand::Close)
        })
    }

    /// How many entries of the log have this text.
    fn said(&self, text: &str) -> usize {
        self.state().log.iter().filter(|entry| entry.text.contains(text)).count()
    }

    fn says_text(&self) -> String {
        self.state().toasts.iter().map(|toast| format!("{}\n", toast.text)).collect()
    }
}

/// A window with `more` probes in the library that are not compared.
fn with_more(more: &[&str]) -> Window {
    let mut window = Window::ready();
    window.wants(Command::OpenProbes(more.iter().map(|name| format!("{name}.safetensors").into()).collect()));
    let own = ["sinkhorn", "gap"].map(|name| window.probe(name)).to_vec();
    window.wants(Command::CompareOnly(own));
    window
}

#[test]
fn a_click_on_a_probe_shows_it_and_its_own_button_compares_it() {
    let mut window = with_more(&["softsort"]);
    window.click("Compare");
    assert!(window.has("Shared scales"));
    window.click_first("softsort");
    window.answer();
    assert!(!window.has("Shared scales") && window.has("Reading order"), "one click leads to its figures");
    let state = window.state();
    let shown = state.focus().and_then(|id| state.columns.get(&id)).expect("a column");
    assert_eq!((shown.probe, shown.compared), (window.probe("softsort"), false));
    // A page that shows the focused probe anyway stays open.
    window.click("Token table");
    window.click_first("gap");
    assert!(window.has("Token 0") && !window.has("Reading order"));
    // Its button adds it, opens the comparison and says so.
    window.click_in_row("softsort", "Add softsort to Compare");
    window.answer();
    assert!(window.has("softsort was added to Compare, as column 3 of 3") && window.has("Shared scales"));
    window.click_in_row("softsort", "Remove softsort from Compare");
    assert_eq!(window.state().compared().count(), 2);
}

#[test]
fn the_menu_of_a_probe_compares_and_closes_it() {
    let mut window = with_more(&["softsort"]);
    let choose = |window: &mut Window, entry: &str| {
        window.click_at(window.row("softsort").center(), egui::PointerButton::Secondary);
        window.click(entry);
        window.answer();
        window.state().compared().count()
    };
    assert_eq!(choose(&mut window, "Add to Compare"), 3);
    assert_eq!(choose(&mut window, "Remove from Compare"), 2);
    assert_eq!(choose(&mut window, "Compare this probe alone"), 1);
    choose(&mut window, "Close probe");
    assert_eq!(window.state().library.probes.len(), 2);
}

#[test]
fn the_names_of_compared_columns_stay_above_them() {
    let mut window = with_more(&["softsort"]);
    window.click("Compare");
    window.answer();
    let controls = window.place("Export comparison…");
    // Of the second column, below the controls and right of the library.
    let names = |window: &Window| -> Vec<f32> {
        let is_own = |seen: egui::Rect| seen.is_positive() && seen.left() > 500.0;
        let texts = painted(window.harness.output()).into_iter();
        let own = texts.filter(|(text, seen, _)| text == "gap" && is_own(*seen));
        own.map(|(_, seen, _)| seen.top()).filter(|top| *top > controls.bottom()).collect()
    };
    let [before] = names(&window)[..] else { panic!("{:?}", names(&window)) };
    window.hover(egui::pos2(700.0, 600.0));
    window.harness.event(egui::Event::MouseWheel {
        unit: egui::MouseWheelUnit::Point,
        delta: egui::vec2(0.0, -300.0),
        phase: egui::TouchPhase::Move,
        source: egui::MouseWheelSource::Unknown,
        modifiers: egui::Modifiers::NONE,
    });
    window.harness.run_steps(8);
    let [after] = names(&window)[..] else { panic!("{:?}", names(&window)) };
    assert!((before - after).abs() < 12.0, "{before} {after}");
}

#[test]
fn a_name_that_is_cut_is_told_whole_where_it_is_pointed_at() {
    let name = "a-probe-with-a-name-that-no-list-above-the-panes-is-wide-enough-for";
    let mut window = with_more(&[name]);
    window.wants(Command::ShowProbe(window.probe(name)));
    let is_whole = |window: &Window| {
        let texts = painted(window.harness.output());
        texts.iter().any(|(text, _, whole)| text == name && whole.width() > 300.0)
    };
    assert!(!is_whole(&window), "the list of probes is narrower");
    let list = window.harness.get_by_role_and_label(Role::ComboBox, "Probe").rect().center();
    window.harness.hover_at(list);
    (0..8).for_each(|_| window.harness.step());
    assert!(is_whole(&window));
}

#[test]
fn a_probe_whose_opening_was_cancelled_is_opened_by_a_click_on_it() {
    let mut window = Window::ready();
    window.harness.state_mut().dispatch(Command::OpenProbes(vec!["softsort.safetensors".into()]));
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::OpenProbe { .. }) => vec![Event::Cancelled(job)],
        other => succeed(other),
    });
    window.click_first("softsort");
    let asked = window.wire.borrow().requests.clone();
    let opens = |request: &Request| matches!(request, Request::Compute(_, Compute::OpenProbe { .. }));
    assert!(asked.iter().any(opens), "{asked:?}");
}

#[test]
fn keys_do_nothing_below_a_dialog() {
    let mut window = Window::ready();
    window.choose_action("about ssmprobe");
    window.press(Modifiers::NONE, Key::S);
    assert_eq!(window.state().findings.stars().count(), 0);
    window.press(Modifiers::NONE, Key::Escape);
    window.press(Modifiers::NONE, Key::S);
    assert_eq!(window.state().findings.stars().count(), 1);
}

#[test]
fn a_column_that_is_added_out_of_sight_is_scrolled_to() {
    let names: Vec<String> = (0..8).map(|at| format!("p{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut window = with_more(&names);
    let first = names[..7].iter().map(|name| window.probe(name)).collect();
    window.wants(Command::Compare(first));
    window.click("Compare");
    let last = names[7];
    let probe = window.probe(last);
    window.wants(Command::Compare(vec![probe]));
    let heads = window.harness.query_all_by_label(last).map(|node| node.rect());
    let mut heads = heads.filter(|rect| rect.left() > 320.0);
    assert!(heads.any(|rect| rect.right() < 1440.0), "its head is in sight");
}

#[test]
fn the_probe_that_is_shown_is_in_sight_in_the_library() {
    let names: Vec<String> = (0..12).map(|at| format!("p{at}")).collect();
    let mut window = with_more(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in ["p11", "p0"] {
        let probe = window.probe(name);
        window.wants(Command::ShowProbe(probe));
        window.harness.run();
        assert!(window.row(name).left() < 100.0, "{name}");
    }
}

#[test]
fn several_rows_are_chosen_and_compared_alone() {
    let mut window = with_more(&["softsort", "raster"]);
    let place = window.row("gap");
    for (name, modifiers) in [("gap", Modifiers::COMMAND), ("raster", Modifiers::SHIFT)] {
        window.harness.get_all_by_label(name).next().expect("a row").click_modifiers(modifiers);
        window.harness.run();
    }
    assert!(window.has("3 chosen:"), "from gap to raster");
    assert_eq!(window.row("gap"), place, "the rows stay under the pointer");
    window.harness.get_all_by_label("softsort").next().expect("a row").click_modifiers(Modifiers::COMMAND);
    window.harness.run();
    assert!(window.has("2 chosen:"));
    window.click("Compare the chosen probes and no others");
    let compared =
        |window: &Window| -> Vec<ProbeId> { window.state().compared().map(|(_, c)| c.probe).collect() };
    assert_eq!(compared(&window), ["gap", "raster"].map(|name| window.probe(name)));
    assert!(!window.has("chosen:"));
    window.press(Modifiers::COMMAND, Key::Z);
    assert_eq!(compared(&window), ["sinkhorn", "gap"].map(|name| window.probe(name)), "one step");
}

#[test]
fn the_palette_has_its_height_again_after_a_search_for_nothing() {
    let mut window = Window::ready();
    let height = |window: &Window| {
        let area = window.harness.ctx.memory(|memory| memory.area_rect(egui::Id::unique("palette")));
        area.expect("the palette").height()
    };
    window.press(Modifiers::COMMAND, Key::K);
    window.harness.run();
    let first = height(&window);
    assert!(first > 300.0, "{first}");
    window.type_text("xyzzy");
    assert!(window.has("No action matches these words") && height(&window) < first);
    (0..5).for_each(|_| window.press(Modifiers::NONE, Key::Backspace));
    window.harness.run();
    assert_eq!(height(&window), first);
}

#[test]
fn a_tooltip_of_what_lies_below_goes_when_a_dialog_opens() {
    let mut window = Window::ready();
    let has_tooltip = |window: &Window| {
        let texts = painted(window.harness.output());
        texts.iter().any(|(text, ..)| text == "Probes side by side, on shared scales")
    };
    window.harness.hover_at(window.place("Compare").center());
    (0..8).for_each(|_| window.harness.step());
    assert!(has_tooltip(&window), "the tab's tooltip");
    window.press(Modifiers::COMMAND, Key::K);
    (0..8).for_each(|_| window.harness.step());
    assert!(window.has("Find action") && !has_tooltip(&window), "no tooltip above the palette");
    window.press(Modifiers::NONE, Key::Escape);
    (0..8).for_each(|_| window.harness.step());
    assert!(has_tooltip(&window), "what is pointed at tells of itself again");
}

#[test]
fn a_choice_that_has_no_room_for_its_name_tells_it_in_its_one_tooltip() {
    let mut window = Window::ready();
    window.resize(1100.0, 900.0);
    let order = window.harness.get_by_role_and_label(Role::ComboBox, "Order").rect().center();
    window.harness.hover_at(order);
    (0..8).for_each(|_| window.harness.step());
    let texts = painted(window.harness.output());
    let own = texts.iter().filter(|(text, ..)| text.contains("Change one thing in how the probe reads"));
    let own: Vec<bool> = own.map(|(text, ..)| text.starts_with("Order\n")).collect();
    assert_eq!(own, [true], "the name and what it does, in one box");
}

#[test]
fn a_menu_says_why_an_entry_cannot_be_chosen() {
    let mut window = Window::new();
    window.click("View");
    let entry = window.harness.query_all_by_label_contains("Retry").next().expect("an entry").rect();
    window.harness.hover_at(entry.center());
    (0..8).for_each(|_| window.harness.step());
    let texts = painted(window.harness.output());
    assert!(texts.iter().any(|(text, ..)| text == "Nothing has failed"), "{texts:?}");
}

#[test]
fn a_class_for_the_evidence_is_offered_once_a_probe_is_shown() {
    assert!(!Window::new().has("Evidence for") && Window::ready().has("Evidence for"));
}

/// As a finding kept before words were there asks for it.
#[test]
fn the_list_of_classes_marks_the_chosen_one_also_where_its_wordnet_id_alone_is_asked_for() {
    let mut window = Window::ready();
    let probe = window.probe("gap");
    let probes = &mut window.harness.state_mut().state.library.probes;
    let classes = ["tench (n01440764)", "hoist (n03126707)"];
    let known = (**probes[&probe].status.ready().expect("an open probe")).clone();
    let info = ProbeInfo { classes: classes.map(str::to_owned).into(), ..known };
    probes[&probe].status = Status::Ready(Arc::new(info));
    window.dispatch(Command::SetClass(ClassChoice::Named("n03126707".into())));
    window.click_role(Role::ComboBox, "Evidence for");
    let marked = |class| window.harness.get_by_label(class).accesskit_node().toggled();
    assert_eq!(classes.map(marked), [Some(Toggled::False), Some(Toggled::True)]);
}

#[test]
fn the_help_menu_says_what_it_is_what_numbers_mean_and_which_keys_there_are() {
    let mut window = Window::new();
    for (item, text) in [
        ("About SSMProbe", "order-sensitive probes"),
        ("Definitions", "The meaning of every number in SSMProbe"),
        ("Keyboard shortcuts", "Ctrl+Shift+S"),
    ] {
        window.click("Help");
        choose(&mut window, item);
        assert!(window.has(text), "{item} does not say {text}");
        window.press(Modifiers::NONE, Key::Escape);
        assert!(!window.has(text), "{item} stays");
    }
    window.click("Help");
    choose(&mut window, "Keyboard shortcuts");
    assert!(window.has("Shift+F10") && window.has("Escape"), "keys of no action are missing");
    window.press(Modifiers::NONE, Key::Escape);
    window.click("Help");
    window.click("Definitions");
    window.click("Find in definitions");
    window.type_text("hilbert spiral");
    assert!(window.has("space-filling curve") && !window.has("Symbols: N patch tokens"));
    window.press(Modifiers::COMMAND, Key::A);
    window.type_text("fingerprint");
    assert!(window.has("{\"format\": 1") && !window.has("json {"), "the block of JSON stands as it is");
}

#[test]
fn notes_leave_the_buttons_of_the_tour_free() {
    let mut window = Window::new();
    window.click("Help");
    choose(&mut window, "Take the tour");
    window.harness.state_mut().state.note(Severity::Error, "The disk is full");
    window.resize(800.0, 500.0);
    let note = window.place("Dismiss this note");
    let card = window.place("Tour, step 1 of 5");
    assert!(note.bottom() < card.top(), "{note:?} and {card:?}");
}

#[test]
fn the_tour_leads_through_the_demo_in_five_steps() {
    let mut window = Window::new();
    window.click("Help");
    choose(&mut window, "Take the tour");
    let opened: Vec<String> =
        window.wire.borrow().requests.iter().map(|asked| format!("{asked:?}")).collect();
    assert!(
        opened.iter().any(|asked| asked.contains("OpenBackbone") && asked.contains("demo")),
        "{opened:?}"
    );
    window.wire.borrow_mut().requests.clear();
    for step in 1..=5 {
        assert!(window.has(&format!("Tour, step {step} of 5")), "step {step}");
        window.click(if step < 5 { "Next" } else { "Done" });
    }
    assert!(!window.has("Tour, step"));
    assert!(window.state().settings.recent.backbones.is_empty(), "nobody chose the demo");
}

#[test]
fn figures_are_exported_from_the_file_menu_and_the_empty_card_trains() {
    let mut window = Window::ready();
    window.click("File");
    choose(&mut window, "Export figure…");
    assert!(window.has("Export Reading order…") && window.has("Export Predictions…"));
    assert!(!window.has("Zoom in") && !window.has("Export figure…"), "nothing but exports");
    // On its own scale, as in its pane, and not on that of all columns.
    window.press(Modifiers::NONE, Key::Escape);
    window.choose_action("export assignment");
    window.harness.get_by_label("Copy the command line").click();
    let copied = window.copied().expect("a command on the clipboard");
    assert!(copied.contains("--figure assignment") && !copied.contains("--limits"), "{copied}");
    let mut window = Window::new();
    window.click_first("Train…");
    assert!(window.has("Dataset") && window.has("Epochs"), "the form of a training");
}

/// Clicks an item of the open menu, whatever its shortcut and whatever else has its name.
fn choose(window: &mut Window, item: &str) {
    let items = window.harness.query_all_by_label_contains(item);
    // Menus are at the top, above other widgets with the same label.
    items.min_by_key(|node| node.rect().top() as i32).expect("an item").click();
    window.harness.run();
}

/// Whether there is a request to open this backbone.
fn opens(window: &Window, part: &str) -> bool {
    let asked = &window.wire.borrow().requests;
    asked.iter().any(|request| {
        matches!(request, Request::Fetch(_, Fetch::OpenBackbone { source, .. }) if source.contains(part))
    })
}

/// A folder with a backbone's folder and two probe files.
fn sandbox() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("tiny")).expect("a folder");
    for name in ["sinkhorn.safetensors", "gap.safetensors"] {
        std::fs::write(folder.path().join(name), "").expect("a file");
    }
    folder
}

/// Opens everything in such a folder.
fn open_desk(window: &mut Window, folder: &Path) {
    let probes = ["sinkhorn", "gap"].map(|name| folder.join(format!("{name}.safetensors"))).to_vec();
    window.wants(Command::OpenBackbone(folder.join("tiny").display().to_string()));
    window.wants(Command::OpenProbes(probes));
}

#[test]
fn what_was_open_comes_back_at_the_next_start_also_after_a_crash() {
    let folder = sandbox();
    let session = folder.path().join("session.ssmprobe");
    // Without a session, the demo opens.
    let mut window = Window::kept_in(folder.path());
    window.harness.state_mut().resume();
    assert!(opens(&window, "demo"));
    drop(window);
    let mut window = Window::kept_in(folder.path());
    open_desk(&mut window, folder.path());
    let gap = window.probe("gap");
    window.wants(Command::ShowProbe(gap));
    window.wants(Command::Uncompare(vec![gap]));
    window.wants(Command::ShowProbe(gap));
    // It is written some time after a change, and not again without one.
    window.until("the last change", |_| {
        Workspace::load(&session).is_ok_and(|kept| kept.columns.iter().any(|column| !column.compared))
    });
    let quiet = std::time::Instant::now();
    while quiet.elapsed() < Duration::from_secs(4) {
        window.harness.step();
        std::thread::sleep(Duration::from_millis(50));
    }
    let written = session.metadata().and_then(|about| about.modified()).expect("a time");
    window.harness.state_mut().dispatch(Command::Retry);
    std::thread::sleep(Duration::from_millis(2300));
    window.harness.run();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(session.metadata().and_then(|about| about.modified()).expect("a time"), written);
    // The window ends without saving, as in a crash.
    drop(window);
    let mut window = Window::kept_in(folder.path());
    window.harness.state_mut().resume();
    assert!(opens(&window, "tiny") && !opens(&window, "demo"));
    window.answer();
    let state = window.state();
    let shown = state.focus().and_then(|id| state.columns.get(&id)).expect("a column");
    assert_eq!(
        (shown.probe, shown.compared),
        (window.probe("gap"), false),
        "the probe that was looked through"
    );
    assert_eq!((state.library.probes.len(), state.compared().count()), (2, 1));
    assert!(state.settings.recent.backbones.iter().any(|source| source.contains("tiny")));
    drop(window);
    // A damaged session stays as it is, with a message.
    let damaged = "{\"ssmprobe_workspace\": 1, \"probes\": [";
    std::fs::write(&session, damaged).expect("a file");
    let mut window = Window::kept_in(folder.path());
    window.harness.state_mut().resume();
    window.harness.run();
    assert!(opens(&window, "demo"));
    assert_says(window.says_text(), &["session could not be restored", "the file stays as it is"]);
    assert_eq!(std::fs::read_to_string(&session).expect("a file"), damaged);
    assert!(window.has("session could not be restored"));
}

#[test]
fn what_is_removed_with_the_window_does_not_come_back_and_what_was_opened_beside_it_does() {
    let folder = sandbox();
    let [session, given] = ["session.ssmprobe", "given"].map(|name| folder.path().join(name));
    let opened = || {
        let mut window = Window::kept_in(folder.path());
        window.harness.state_mut().state.temporary = Some(given.clone());
        window.wants(Command::OpenBackbone(folder.path().join("tiny").display().to_string()));
        window.wants(Command::OpenProbes(vec![given.join("mine.safetensors")]));
        window
    };
    let mut window = opened();
    std::thread::sleep(Duration::from_millis(2300));
    window.harness.run();
    std::thread::sleep(Duration::from_millis(200));
    assert!(!session.exists());
    let recent = &window.state().settings.recent;
    assert_eq!((recent.backbones.len(), recent.probes.len()), (1, 0));
    // With something that stays in its place it is a window like any other.
    window.harness.state_mut().start_demo();
    window.answer();
    window.wants(Command::OpenProbes(vec![folder.path().join("gap.safetensors")]));
    window.until("a session", |_| session.exists());
    assert_eq!(window.state().settings.recent.probes.len(), 1);
    drop(window);
    std::fs::remove_file(&session).expect("removed");
    // So it is with images and findings of them, and what is removed is left out.
    let mut window = opened();
    window.wants(Command::OpenImages(vec!["birds".into()]));
    let image = *window.state().library.images.keys().next().expect("an image");
    window.wants(Command::Star(image, true));
    window.until("a star", |_| Workspace::load(&session).is_ok_and(|kept| !kept.notes.is_empty()));
    let kept = || Workspace::load(&session).expect("a workspace");
    assert_eq!([kept().notes.len(), kept().images.len(), kept().probes.len()], [1, 3, 0]);
    drop(window);
    std::fs::remove_file(&session).expect("removed");
    let mut window = opened();
    window.wants(Command::OpenProbes(vec![folder.path().join("gap.safetensors")]));
    window.until("a session", |_| session.exists());
    assert!(matches!(&kept().probes[..], [probe] if probe.path.ends_with("gap.safetensors")));
    assert_eq!(kept().backbones.len(), 1);
}

#[test]
fn a_named_workspace_that_lacks_something_is_asked_about_before_it_closes() {
    let folder = sandbox();
    let file = folder.path().join("work.ssmprobe");
    let mut window = Window::kept_in(folder.path());
    open_desk(&mut window, folder.path());
    window.state().workspace(serde_json::Value::Null).save(&file).expect("saved");
    let named = || {
        let mut window = Window::kept_in(folder.path());
        window.harness.state_mut().open_workspace(&file);
        window.answer();
        window
    };
    let title = "Save the changes to work.ssmprobe?";
    let mut window = named();
    window.close();
    assert!(!window.has(title), "nothing was changed");
    let pin = |window: &mut Window| {
        let column = window.state().compared().next().expect("a column").0;
        window.wants(Command::Pin(Some(column)));
        window.close();
        assert!(window.has(title));
    };
    let kept = || Workspace::load(&file).expect("a workspace").selection.reference;
    let mut window = named();
    pin(&mut window);
    window.click("Cancel");
    assert!(!window.has(title));
    window.close();
    assert!(window.closes_by("Quit without saving"));
    assert_eq!(kept(), None);
    // Its changes are restored with the session, as unsaved ones.
    drop(window);
    let mut window = named();
    pin(&mut window);
    assert!(window.closes_by("Save and quit"));
    assert!(kept().is_some());
    // It is among the recent ones, and the dialog also appears before another workspace replaces it.
    let mut window = named();
    window.wants(Command::SetShared(false));
    window.click("File");
    choose(&mut window, "Start with the demo");
    assert!(window.has(title));
    window.click("Continue without saving");
    assert!(opens(&window, "demo"));
    let recent = &window.state().settings.recent.workspaces;
    let names: Vec<_> = recent.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let [open, saved] = &names[..] else { panic!("{names:?}") };
    assert!(
        open.starts_with("session") && *saved == "work.ssmprobe",
        "what was open, and where it was saved"
    );
}

#[test]
fn what_is_open_is_kept_before_another_workspace_takes_its_place() {
    let folder = sandbox();
    let at = |name: &str| folder.path().join(format!("{name}.ssmprobe"));
    let [other, work, far, earlier] = ["other", "work", "far", "session"].map(at);
    let host = Some(Host { place: "ssh://gpu1".into(), program: Some("./theirs".into()) });
    Workspace { host, ..Workspace::default() }.save(&far).expect("saved");
    Workspace::default().save(&other).expect("saved");
    let mut window = Window::kept_in(folder.path());
    open_desk(&mut window, folder.path());
    let finding = Finding { image: folder.path().join("a.png").into(), note: "Edge".into(), view: None };
    window.wants(Command::KeepFinding(Box::new(finding)));
    window.state().workspace(serde_json::Value::Null).save(&work).expect("saved");
    let open = |window: &mut Window, path: &Path| {
        window.harness.state_mut().open_workspace(path);
        window.answer();
    };
    let is_open = |window: &Window, findings: usize, file: Option<&Path>| {
        let app = window.harness.state();
        assert_eq!((app.state.findings.iter().len(), app.window.workspace()), (findings, file));
        assert!(!app.window.is_unsaved(&app.state));
    };
    open(&mut window, &other);
    is_open(&window, 0, Some(&other));
    assert!(window.state().settings.recent.workspaces.contains(&earlier));
    let where_it_is = "kept as session.ssmprobe; reopen it later with Open recent";
    assert!(window.state().log.iter().any(|entry| entry.text.contains(where_it_is)));
    // The earlier session still has no file: it is kept again.
    open(&mut window, &earlier);
    is_open(&window, 1, None);
    open(&mut window, &other);
    assert_eq!(Workspace::load(&earlier).expect("kept").findings.len(), 1);
    // A typed path is chosen within one frame.
    window.harness.state_mut().window.type_paths();
    window.press(Modifiers::COMMAND | Modifiers::SHIFT, Key::W);
    window.replace_text(Role::TextInput, "Path", work.display());
    window.press(Modifiers::NONE, Key::Enter);
    window.until("the workspace", |window| window.harness.state().window.workspace() == Some(work.as_path()));
    window.answer();
    is_open(&window, 1, Some(&work));
    // Where the user has not been, it is asked first.
    open(&mut window, &far);
    assert!(window.has("Connect to gpu1?"));
    window.click("Cancel");
    is_open(&window, 1, Some(&work));
    // A workspace that cannot be opened leaves everything as it is.
    let (job, folder, rate, left) = (JobId(u64::MAX), None, 0.0, Duration::ZERO);
    let training = ActiveRun { job, folder, detached: false, pausing: false, paused: false, rate, left };
    window.harness.state_mut().state.training.active = Some(training);
    open(&mut window, &far);
    window.click("Connect");
    assert_says(window.says_text(), &["A training is running", "./theirs (gpu1)"]);
    is_open(&window, 1, Some(&work));
}

/// What a window says that does not close.
const STAYS: &str = "The window stays open";

/// Puts a file where the folder `config` should be, in which nothing can be written any more.
fn block(config: &Path) {
    let _ = std::fs::remove_dir_all(config);
    std::fs::write(config, "no folder").expect("written");
}

#[test]
fn findings_that_no_file_can_keep_are_not_lost_to_another_workspace_nor_with_the_window() {
    let folder = sandbox();
    let [config, other] = ["config", "other.ssmprobe"].map(|name| folder.path().join(name));
    Workspace::default().save(&other).expect("saved");
    let mut window = Window::kept_in(&config);
    block(&config);
    open_desk(&mut window, folder.path());
    let finding = Finding { image: folder.path().join("a.png").into(), note: "Edge".into(), view: None };
    let keep = |window: &mut Window| window.wants(Command::KeepFinding(Box::new(finding.clone())));
    keep(&mut window);
    let open = |window: &mut Window| {
        window.harness.state_mut().open_workspace(&other);
        window.answer();
        window.state().findings.iter().len()
    };
    assert_eq!((open(&mut window), window.said("What is open stays")), (1, 1));
    // Closed again, it closes.
    for _ in 0..2 {
        window.close();
        assert_eq!(window.said(STAYS), 1);
    }
    // Once they were written, it is news that later ones cannot be.
    std::fs::remove_file(&config).expect("removed");
    let session = config.join("session.ssmprobe");
    window.until("a session", |_| session.exists());
    std::thread::sleep(Duration::from_secs(2)); // the window is told of it
    window.harness.run();
    block(&config);
    keep(&mut window);
    window.close();
    assert_eq!(window.said(STAYS), 2);
    std::fs::remove_file(&config).expect("removed");
    assert_eq!(open(&mut window), 0);
    assert_eq!(Workspace::load(&session).expect("kept").findings.len(), 2);
}

#[test]
fn findings_that_no_file_can_keep_are_not_lost_either_where_a_workspace_is_not_saved() {
    let folder = sandbox();
    let [config, work, other] =
        ["config", "work.ssmprobe", "other.ssmprobe"].map(|name| folder.path().join(name));
    let finding = Finding { image: folder.path().join("a.png").into(), note: "Edge".into(), view: None };
    Workspace { findings: vec![finding.clone()], ..Workspace::default() }.save(&work).expect("saved");
    Workspace::default().save(&other).expect("saved");
    let mut window = Window::kept_in(&config);
    block(&config);
    let open = |window: &mut Window, path: &Path| {
        window.harness.state_mut().open_workspace(path);
        window.answer();
        window.state().findings.iter().len()
    };
    // What its file has is not lost.
    assert_eq!(open(&mut window, &work), 1);
    window.wants(Command::SetShared(false));
    assert_eq!(open(&mut window, &other), 0);
    assert_eq!(open(&mut window, &work), 1);
    window.wants(Command::KeepFinding(Box::new(finding)));
    let title = "Save the changes to work.ssmprobe?";
    window.close();
    assert!(window.has(title) && window.said(STAYS) == 0, "it is asked first");
    assert!(window.closes_by("Quit without saving"));
    window.close();
    assert!(!window.has(title) && window.said(STAYS) == 1);
    window.close();
    assert!(window.has(title), "as it stayed open, it asks again");
}

#[test]
fn a_session_whose_files_are_away_is_not_lost() {
    let folder = sandbox();
    let at = |name: &str| folder.path().join(name);
    let resumed = |session: &Workspace| {
        session.save(&at("session.ssmprobe")).expect("saved");
        let mut window = Window::kept_in(folder.path());
        window.harness.state_mut().resume();
        let findings = window.state().findings.iter().len();
        let recent = &window.state().settings.recent.workspaces;
        (findings, opens(&window, "demo"), recent.contains(&at("session.ssmprobe")))
    };
    let found = Finding { image: at("away/a.png").into(), note: "Edge".into(), view: None };
    let findings = Workspace { findings: vec![found], ..Workspace::default() };
    let path = at("away/gap.safetensors");
    let probes = vec![SavedProbe { id: ProbeId(1), path, fingerprint: None }];
    let away = Workspace { probes: probes.clone(), ..Workspace::default() };
    assert_eq!(resumed(&Workspace::default()), (0, true, false), "nothing to keep");
    assert_eq!(resumed(&findings), (1, false, false));
    assert_eq!(resumed(&Workspace { probes, ..findings }), (1, false, false));
    assert_eq!(resumed(&away), (0, true, true), "it can be opened again");
    let there = SavedProbe { id: ProbeId(2), path: at("gap.safetensors"), fingerprint: None };
    let part = Workspace { probes: [&away.probes[..], &[there]].concat(), ..Workspace::default() };
    assert!(!resumed(&part).1, "some of it is there");
    // The demo that was opened instead is not kept.
    away.save(&at("session.ssmprobe")).expect("saved");
    let mut window = Window::kept_in(folder.path());
    window.harness.state_mut().resume();
    window.answer();
    Workspace::default().save(&at("other.ssmprobe")).expect("saved");
    window.harness.state_mut().open_workspace(&at("other.ssmprobe"));
    window.answer();
    assert_eq!(Workspace::load(&at("session.ssmprobe")).expect("kept").probes.len(), 1);
}
