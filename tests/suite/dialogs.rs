//! What all dialogs and menus do alike by keyboard: the focus, Tab, Enter and Escape; combo boxes; and the room that notes and
//! dialogs take.

use std::collections::HashSet;

use egui_kittest::kittest::NodeT as _;
use ssmprobe::app::state::Severity;
use ssmprobe::app::state::workspace::SavedImage;

use crate::window::prelude::*;

/// The label of what has the keyboard focus.
fn focused(window: &Window) -> Option<String> {
    let all = window.harness.query_all_by_label_contains("");
    all.filter(egui_kittest::Node::is_focused).find_map(|node| node.accesskit_node().label())
}

#[test]
fn a_dialog_takes_the_focus_keeps_tab_within_it_and_gives_the_focus_up() {
    let mut window = Window::ready();
    for (action, first) in [
        ("open backbone from the hub", "Hub id"),
        ("connect…", "Host"),
        ("definitions", "Find in definitions"),
        ("keep as finding", "Note"),
        ("export reading order", "Export to"),
        ("about", "Take the tour"),
    ] {
        window.harness.get_by_role_and_label(Role::TextInput, "Filter images").focus();
        window.harness.run();
        window.choose_action(action);
        assert_eq!(focused(&window).as_deref(), Some(first), "{action}");
        let steps = (1..80).find(|_| {
            window.press(Modifiers::NONE, Key::Tab);
            let now = focused(&window);
            assert_ne!(now.as_deref(), Some("Filter images"), "{action}");
            now.as_deref() == Some(first)
        });
        assert!(steps.is_some_and(|steps| steps > 1), "{action}: {steps:?}");
        window.press(Modifiers::NONE, Key::Escape);
        assert_eq!(focused(&window), None, "{action}");
    }
}

#[test]
fn tab_stops_at_no_edge_that_only_a_mouse_can_drag() {
    let mut window = Window::ready();
    let mut stops = HashSet::new();
    for modifiers in [Modifiers::NONE, Modifiers::SHIFT] {
        for _ in 0..100 {
            window.press(modifiers, Key::Tab);
            let Some(id) = window.harness.ctx.memory(egui::Memory::focused) else { continue };
            let place = window.harness.ctx.read_response(id).expect("it is drawn").rect;
            assert!(place.size().min_elem() > 7.0, "an edge at {place:?}");
            stops.insert(id);
        }
    }
    assert!(stops.len() > 30, "the figures are reached, too: {}", stops.len());
}

#[test]
fn tab_goes_through_what_is_at_the_right_of_a_line_from_left_to_right() {
    let mut window = Window::ready();
    for line in [&["Find action…", "System", "Light", "Dark"][..], &["Open probes…", "Open run…"]] {
        window.harness.get_by_role_and_label(Role::Button, line[0]).focus();
        window.harness.run();
        let right = |window: &Window, name: &str| window.harness.get_by_label(name).rect().right();
        for pair in line.windows(2) {
            assert!(right(&window, pair[0]) < right(&window, pair[1]), "{pair:?}");
            window.press(Modifiers::NONE, Key::Tab);
            assert_eq!(focused(&window).as_deref(), Some(pair[1]));
        }
    }
}

#[test]
fn the_field_of_the_palette_keeps_the_focus_when_something_beside_it_is_clicked() {
    let mut window = Window::ready();
    window.press(Modifiers::COMMAND, Key::K);
    window.type_text("no such action");
    window.click("No action matches these words");
    assert_eq!(focused(&window).as_deref(), Some("Find action"));
}

#[test]
fn the_line_that_the_arrow_keys_choose_in_the_palette_is_the_focused_one_for_screen_readers() {
    let mut window = Window::ready();
    window.press(Modifiers::COMMAND, Key::K);
    assert_eq!(focused(&window).as_deref(), Some("Find action"));
    window.press(Modifiers::NONE, Key::ArrowDown);
    assert!(focused(&window).is_some_and(|line| line != "Find action"));
    window.type_text("export");
    assert_eq!(focused(&window).as_deref(), Some("Find action"), "typing goes on in the field");
}

/// Opens the dialog that exports the reading order, and types the path of a file.
fn export_to(window: &mut Window, file: &Path) {
    window.choose_action("export reading order");
    window.harness.get_by_role_and_label(Role::TextInput, "Export to").focus();
    window.harness.run();
    window.press(Modifiers::COMMAND, Key::A);
    window.type_text(&file.display().to_string());
}

#[test]
fn enter_in_a_number_of_a_dialog_accepts_it_and_the_next_one_confirms_the_dialog() {
    let mut window = Window::ready();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("path.svg");
    export_to(&mut window, &file);
    window.click_role(Role::SpinButton, "Width");
    window.press(Modifiers::COMMAND, Key::A);
    window.type_text("120");
    window.press(Modifiers::NONE, Key::Enter);
    assert!(window.has("Export to") && !window.has("Writing…"), "nothing is written yet");
    window.press(Modifiers::NONE, Key::Enter);
    window.until("the end of the export", |window| !window.has("Export to"));
    assert!(std::fs::read_to_string(&file).expect("a figure").contains(" width=\"120mm\""));
}

#[test]
fn enter_in_a_field_does_what_the_default_button_says_unless_that_replaces_a_file() {
    let mut window = Window::ready();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("path.csv");
    export_to(&mut window, &file);
    window.press(Modifiers::NONE, Key::Enter);
    window.until("the end of the export", |window| !window.has("Export to"));
    assert!(file.is_file());
    export_to(&mut window, &file);
    window.press(Modifiers::NONE, Key::Enter);
    assert!(window.has("will be replaced"), "only its button replaces a file");
    assert_eq!(focused(&window).as_deref(), Some("Export to"), "the focus is not lost");
}

#[test]
fn a_list_closes_once_an_entry_is_chosen_by_keyboard() {
    let mut window = Window::ready();
    window.choose_action("export reading order");
    window.harness.get_by_role_and_label(Role::ComboBox, "Format").focus();
    window.harness.run();
    for key in [Key::Enter, Key::ArrowDown, Key::ArrowDown] {
        window.press(Modifiers::NONE, key);
        assert!(window.has("CSV, the numbers"), "the list is open after {key:?}");
    }
    window.press(Modifiers::NONE, Key::Enter);
    assert!(!window.has("CSV, the numbers") && !window.has("SVG, vectors"), "another one is chosen");
    assert_eq!(focused(&window).as_deref(), Some("Format"));
}

#[test]
fn a_long_note_takes_little_room() {
    let mut window = Window::new();
    window.harness.state_mut().state.note(Severity::Error, "a weight that is missing\n".repeat(100));
    window.harness.run();
    let area = window.harness.ctx.memory(|memory| memory.area_rect(egui::Id::unique("notes")));
    assert!(area.expect("a note").height() < 150.0, "{area:?}");
}

#[test]
fn the_jobs_keep_their_height_while_there_are_none() {
    let mut window = Window::new();
    window.show("jobs");
    window.harness.run();
    let (top, nothing) =
        (window.place("Hide").top(), window.place("Nothing is running, and nothing has failed"));
    assert!(900.0 - top > 180.0 && nothing.top() - top > 60.0, "from {top}, {nothing:?}");
}

#[test]
fn a_long_log_shows_its_latest_entries_and_says_where_all_are() {
    let mut window = Window::new();
    let state = &mut window.harness.state_mut().state;
    (0..250).for_each(|at| state.note(Severity::Info, format!("entry {at}.")));
    window.show("jobs");
    window.harness.run();
    assert!(window.has("earlier entries: Copy log copies all"));
    assert!(window.has("entry 249.") && window.has("entry 50.") && !window.has("entry 49."));
}

#[test]
fn a_menu_closes_once_an_entry_is_chosen_by_keyboard() {
    let mut window = Window::ready();
    window.harness.get_by_label("Help").focus();
    window.harness.run();
    for key in [Key::Enter, Key::ArrowDown] {
        window.press(Modifiers::NONE, key);
        assert!(window.has("Keyboard shortcuts"), "the menu is open after {key:?}");
    }
    window.press(Modifiers::NONE, Key::Enter);
    assert!(window.has("Version ") && !window.has("Keyboard shortcuts"), "its dialog is open alone");
}

#[test]
fn a_figure_is_exported_by_keyboard() {
    let mut window = Window::ready();
    window.harness.get_by_role_and_label(Role::Image, "Evidence by position").focus();
    window.harness.run();
    window.press(Modifiers::SHIFT, Key::F10);
    assert!(window.has("Copy numbers"));
    window.press(Modifiers::NONE, Key::ArrowDown);
    window.press(Modifiers::NONE, Key::Enter);
    assert!(window.has("Export to") && !window.has("Copy numbers"));
}

#[test]
fn a_form_scrolls_to_what_has_the_keyboard_focus() {
    let mut window = Window::ready();
    window.resize(853.0, 480.0);
    window.show("training");
    window.harness.get_by_role_and_label(Role::ComboBox, "Backbone").focus();
    window.harness.run();
    for step in 1..=20 {
        window.press(Modifiers::NONE, Key::Tab);
        let all = window.harness.query_all_by_label_contains("");
        let place = all.filter(egui_kittest::Node::is_focused).map(|node| node.rect()).next();
        let place = place.unwrap_or_else(|| panic!("lost after {step} steps"));
        assert!(place.top() > 60.0 && place.bottom() < 460.0, "out of sight after {step} steps: {place:?}");
    }
}

/// Presses Tab until `found`, at most `most` times; returns what else had the focus on the way.
fn tab_until(window: &mut Window, most: usize, found: impl Fn(&Window) -> bool) -> Vec<Option<String>> {
    let mut met = Vec::new();
    while met.len() < most {
        window.press(Modifiers::NONE, Key::Tab);
        if found(window) {
            break;
        }
        met.push(focused(window));
    }
    met
}

#[test]
fn tab_goes_on_to_the_rows_of_a_comparison_that_are_out_of_sight() {
    let mut window = Window::ready();
    window.harness.set_size(egui::vec2(1280.0, 640.0));
    window.show("compare");
    let drawn = |window: &Window, title: &str| {
        window
            .harness
            .query_all_by_role_and_label(Role::Image, title)
            .map(|node| node.rect())
            .collect::<Vec<_>>()
    };
    assert_eq!(drawn(&window, "Evidence by position"), [], "far below");
    window.harness.get_by_label("Export comparison…").focus();
    window.harness.run();
    let met = tab_until(&mut window, 60, |window| focused(window).as_deref() == Some("Evidence by position"));
    assert!(met.len() < 60, "{met:?}");
    let place = drawn(&window, "Evidence by position")[0];
    assert!(place.top() > 60.0 && place.top() < 600.0, "in sight: {place:?}");
}

#[test]
fn tab_goes_on_to_the_columns_of_a_comparison_that_are_out_of_sight_and_back_to_the_first() {
    let mut window = Window::ready();
    window.harness.set_size(egui::vec2(1280.0, 640.0));
    window.dispatch(Command::OpenProbes((0..6).map(|at| format!("wide-{at}.safetensors").into()).collect()));
    window.answer();
    window.dispatch(Command::CompareOnly(window.state().library.probes.keys().copied().collect()));
    window.answer();
    window.show("compare");
    let titles: Vec<String> =
        window.state().compared().map(|(id, _)| window.state().column_title(id)).collect();
    assert_eq!(titles.len(), 8, "{titles:?}");
    // First to the last column, then from there to the first, which was scrolled out of sight.
    for wanted in [titles.last(), titles.first()] {
        window.harness.get_by_label("Export comparison…").focus();
        window.harness.run();
        let met = tab_until(&mut window, 40, |window| focused(window).as_ref() == wanted);
        assert!(met.len() < 40, "{wanted:?}: {met:?}");
        let all = window.harness.query_all_by_label_contains("");
        let place = all.filter(egui_kittest::Node::is_focused).map(|node| node.rect()).next();
        assert!(place.is_some_and(|at| at.left() > 200.0 && at.right() < 1280.0), "{wanted:?} at {place:?}");
    }
}

#[test]
fn tab_reaches_every_file_that_a_workspace_misses() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("w.ssmprobe");
    let image = |id| SavedImage { id: ImageId(id), source: folder.path().join(format!("{id}.png")).into() };
    let workspace = Workspace { images: (11..=30).map(image).collect(), ..Workspace::default() };
    workspace.save(&file).expect("saved");
    let mut window = Window::new();
    window.harness.state_mut().open_workspace(&file);
    window.harness.run();
    assert!(window.has("20 files are missing"));
    let reaches = (0..60).any(|_| {
        window.press(Modifiers::NONE, Key::Tab);
        focused(&window).as_deref() == Some("Locate 30.png")
    });
    assert!(reaches);
}

#[test]
fn one_missing_file_is_spoken_of_as_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("w.ssmprobe");
    let images = vec![SavedImage { id: ImageId(1), source: folder.path().join("1.png").into() }];
    Workspace { images, ..Workspace::default() }.save(&file).expect("saved");
    let mut window = Window::new();
    window.harness.state_mut().open_workspace(&file);
    window.harness.run();
    for text in ["A file is missing", "It is not where w.ssmprobe expects it", "Open without it"] {
        assert!(window.has(text), "{text}");
    }
}

#[test]
fn a_dialog_fits_a_small_window_that_is_zoomed() {
    let mut window = Window::ready();
    window.resize(640.0, 360.0); // 1280 x 720 at 200 %
    for page in ["definitions", "keyboard shortcuts"] {
        window.choose_action(page);
        let (screen, close) =
            (window.harness.ctx.content_rect(), window.harness.get_by_label("Close").rect());
        assert!(screen.contains_rect(close), "{page}: its button is at {close:?}");
        if page == "keyboard shortcuts" {
            let quit = |window: &Window| window.harness.get_by_label("Quit").rect().top();
            let before = quit(&window);
            window.press(Modifiers::NONE, Key::PageDown);
            assert!(quit(&window) < before - 50.0, "all of it can be read without a mouse");
        }
        window.press(Modifiers::NONE, Key::Escape);
    }
}

#[test]
fn a_field_that_has_the_focus_draws_nothing_while_nobody_types() {
    let mut window = Window::ready();
    window.harness.get_by_role_and_label(Role::TextInput, "Filter images").focus();
    window.harness.run();
    assert!(window.idle(), "its cursor blinks");
}

#[test]
fn what_had_the_focus_gets_it_back_from_a_dialog() {
    let mut window = Window::ready();
    window.harness.get_by_label("Keep…").focus();
    window.harness.run();
    window.press(Modifiers::NONE, Key::Enter);
    assert_eq!(focused(&window).as_deref(), Some("Note"));
    window.press(Modifiers::NONE, Key::Escape);
    assert_eq!(focused(&window).as_deref(), Some("Keep…"));
}

#[test]
fn the_button_of_a_list_or_a_menu_has_the_focus_again_once_a_key_closes_that() {
    let mut window = Window::ready();
    for (role, name) in [(Role::ComboBox, "Probe"), (Role::ComboBox, "Evidence for"), (Role::Button, "Help")]
    {
        let chooses = (role == Role::ComboBox).then_some(&[Key::Tab, Key::Enter][..]);
        for keys in chooses.into_iter().chain([&[Key::Escape][..], &[Key::Tab, Key::Escape]]) {
            window.harness.get_by_role_and_label(role, name).focus();
            window.harness.run();
            for key in [Key::Enter].iter().chain(keys) {
                window.press(Modifiers::NONE, *key);
            }
            assert_eq!(focused(&window).as_deref(), Some(name), "after {keys:?}");
        }
    }
    // Also where the focus was in a menu within that menu.
    window.harness.state_mut().state.settings.recent.datasets.push_back("birds/table.csv".into());
    for key in [Key::Escape, Key::Enter] {
        window.harness.get_by_role_and_label(Role::Button, "File").focus();
        window.harness.run();
        window.press(Modifiers::NONE, Key::Enter);
        window.harness.query_all_by_label_contains("Open recent").next().expect("a menu").focus();
        window.harness.run();
        window.press(Modifiers::NONE, Key::Enter);
        assert!(focused(&window).is_some_and(|entry| !entry.contains("Open recent")), "{key:?}");
        window.press(Modifiers::NONE, key);
        assert_eq!(focused(&window).as_deref(), Some("File"), "after {key:?}");
    }
}

#[test]
fn a_menu_that_is_higher_than_the_window_scrolls() {
    let mut window = Window::ready();
    for size in [egui::vec2(1440.0, 900.0), egui::vec2(640.0, 360.0)] {
        window.harness.set_size(size);
        window.harness.run();
        window.click("Panes");
        window.harness.get_by_label_contains("Reset layout").focus();
        window.harness.run();
        let last = window.harness.get_by_label_contains("Reset layout").rect();
        let screen = window.harness.ctx.content_rect();
        assert!(screen.contains_rect(last), "it is at {last:?}");
        window.press(Modifiers::NONE, Key::Escape);
        window.click("View");
        let long = window.harness.get_by_label_contains("Evaluate all probes on the dataset").rect();
        assert!(long.height() < 30.0, "its longest entry is broken: {long:?}");
        window.press(Modifiers::NONE, Key::Escape);
    }
}

#[test]
fn zooming_is_one_setting_by_either_key_and_in_dialogs() {
    let mut window = Window::ready();
    window.press(Modifiers::COMMAND, Key::Equals);
    window.choose_action("about");
    window.press(Modifiers::COMMAND, Key::Plus);
    assert!((window.state().settings.scale - 1.2).abs() < 1e-3, "{}", window.state().settings.scale);
    window.press(Modifiers::NONE, Key::Escape);
    window.press(Modifiers::COMMAND, Key::Num0);
    assert!((window.harness.ctx.zoom_factor() - 1.0).abs() < 1e-3, "it is reset");
}
