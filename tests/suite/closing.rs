//! Undo of what can be closed, moved or removed in the window: it comes back as it was, and the menu names the step.

use eframe::egui::{self, Key, Modifiers, PointerButton, Pos2, accesskit::Role};
use egui_kittest::kittest::Queryable as _;
use ssmprobe::app::jobs::history::disk::RunSnapshot;
use ssmprobe::app::jobs::{Event, Request};
use ssmprobe::app::state::command::Command;

use crate::training_window::snapshot;
use crate::window::Window;

impl Window {
    fn undo_text(&self) -> &str {
        self.state().undo_text().unwrap_or_default()
    }

    fn undo(&mut self) {
        self.press(Modifiers::COMMAND, Key::Z);
    }

    fn redo(&mut self) {
        self.press(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    }

    /// The rectangle of a pane's tab; `None` where the pane is closed.
    fn tab(&self, title: &str) -> Option<egui::Rect> {
        let tabs = self.harness.query_all_by_role_and_label(Role::Button, title);
        tabs.map(|node| node.rect()).min_by(|a, b| a.height().total_cmp(&b.height()))
    }

    fn button(&mut self, pos: Pos2, button: PointerButton, pressed: bool) {
        let modifiers = Modifiers::NONE;
        self.harness.event(egui::Event::PointerMoved(pos));
        self.harness.event(egui::Event::PointerButton { pos, button, pressed, modifiers });
    }

    pub fn click_at(&mut self, pos: Pos2, button: PointerButton) {
        self.button(pos, button, true);
        self.button(pos, button, false);
        self.harness.run();
    }

    /// Drags with the primary button from one point to another, in eight steps of a frame each.
    pub fn drag(&mut self, from: Pos2, to: Pos2) {
        self.button(from, PointerButton::Primary, true);
        self.harness.run();
        for step in 1..=8 {
            self.harness.event(egui::Event::PointerMoved(from.lerp(to, step as f32 / 8.0)));
            self.harness.run();
        }
        self.button(to, PointerButton::Primary, false);
        self.harness.run();
    }
}

#[test]
fn a_pane_that_was_closed_comes_back_to_its_place() {
    let mut window = Window::ready();
    let titles = ["Memory kernel", "Evidence by position", "Scores", "Predictions", "Token table"];
    let places = |window: &Window| titles.map(|title| window.tab(title));
    let before = places(&window);
    let kernel = before[0].expect("a tab");
    // Closed by its cross, by the middle button and by the menu.
    let crosses = window.harness.query_all_by_role_and_label(Role::Button, "Close the pane Memory kernel");
    let cross = crosses.map(|node| node.rect().center()).find(|cross| kernel.contains(*cross));
    let cross = cross.expect("a cross");
    window.click_at(cross, PointerButton::Primary);
    assert_eq!((window.tab("Memory kernel"), window.undo_text()), (None, "Close the pane Memory kernel"));
    let scores = window.tab("Scores").expect("a tab").center();
    window.click_at(scores, PointerButton::Middle);
    assert_eq!((window.tab("Scores"), window.undo_text()), (None, "Close the pane Scores"));
    window.click("Panes");
    window.click_role(Role::CheckBox, "Predictions");
    window.press(Modifiers::NONE, Key::Escape);
    assert_eq!((window.tab("Predictions"), window.undo_text()), (None, "Close the pane Predictions"));
    // The menu names the next undo step.
    window.click("Edit");
    assert!(window.has("Undo: close the pane Predictions"));
    window.press(Modifiers::NONE, Key::Escape);
    let closed = places(&window);
    (0..3).for_each(|_| window.undo());
    assert_eq!((places(&window), window.undo_text()), (before, ""));
    (0..3).for_each(|_| window.redo());
    assert_eq!(places(&window), closed);
    (0..3).for_each(|_| window.undo());
    // Choosing a tab is no undo step.
    let steps = window.undo_text().to_owned();
    window.click("Token table");
    assert_eq!(window.undo_text(), steps);
    assert!(window.idle());
}

#[test]
fn panes_that_were_moved_resized_or_arranged_as_at_first_stand_again_as_they_did() {
    let mut window = Window::ready();
    let first = window.place("Reading order");
    let (ranks, edge) = (window.tab("Rank use").expect("a tab").center(), first.right_center());
    window.drag(ranks, first.center());
    assert_eq!(window.undo_text(), "Move the pane Rank use");
    let moved = window.place("Reading order");
    assert_ne!(moved, first);
    window.choose_action("reset layout");
    assert_eq!((window.place("Reading order"), window.undo_text()), (first, "Reset layout"));
    window.undo();
    assert_eq!(window.place("Reading order"), moved);
    window.undo();
    assert_eq!(window.place("Reading order"), first);
    // The whole drag of an edge is one undo step.
    let from = (0..12).map(|step| edge + egui::vec2(step as f32, 0.0));
    let from = from.into_iter().find(|from| {
        window.drag(*from, *from + egui::vec2(60.0, 0.0));
        window.undo_text() == "Resize panes"
    });
    assert!(from.is_some(), "no edge beside the reading order");
    assert_ne!(window.place("Reading order"), first);
    window.undo();
    assert_eq!((window.place("Reading order"), window.undo_text()), (first, ""));
}

#[test]
fn what_is_closed_is_named_by_the_menu_and_a_run_that_comes_back_is_followed() {
    let mut window = Window::ready();
    let (column, probe, image, backbone) = {
        let state = window.state();
        let second = *state.library.images.get_index(1).expect("an image").0;
        let (id, column) = state.columns.last().expect("a column");
        (*id, column.probe, second, *state.library.backbones.keys().next().expect("a backbone"))
    };
    let closings = [
        (Command::RemoveColumn(column), "Remove the column gap"),
        (Command::CloseProbes(vec![probe]), "Close the probe gap"),
        (Command::CloseImages(vec![image]), "Close the image b.png"),
        (Command::CloseBackbone(backbone), "Close the backbone tiny"),
    ];
    for (command, text) in closings {
        window.dispatch(command);
        assert_eq!(window.undo_text(), text);
        window.undo();
        window.answer();
    }
    // Closing a run, and following it again after undo.
    let run: std::sync::Arc<RunSnapshot> = snapshot(&["gap", "sinkhorn"]);
    let folder = run.about.folder.clone();
    let requests = window.harness.state_mut().state.dispatch(Command::OpenRun(folder.clone()));
    let read = Event::RunRead { job: requests[0].job(), folder: folder.clone(), snapshot: Ok(run) };
    window.deliver([read]);
    let open = |window: &Window| window.state().training.runs.contains_key(&folder);
    assert!(open(&window));
    window.dispatch(Command::CloseRun(folder.clone()));
    assert_eq!((open(&window), window.undo_text()), (false, "Close the run birds-tiny"));
    window.wire.borrow_mut().requests.clear();
    window.undo();
    assert!(open(&window));
    assert_eq!(window.wire.borrow().requests, [Request::Follow(vec![folder])], "it is followed again");
}

/// The number of rows of panes on the page of one probe.
fn groups(window: &Window) -> usize {
    let titles = ["Picture", "Evidence by position", "Predictions", "Diagnostics"];
    let tabs = titles.map(|title| window.tab(title).map_or(0, |rect| rect.top() as i32));
    tabs.into_iter().filter(|top| *top > 0).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn the_first_layout_follows_the_room_after_a_restart_too() {
    let (mut small, mut next) = (Window::ready(), Window::ready());
    small.resize(853.0, 480.0);
    let restart = |small: &Window, next: &mut Window| {
        let session = small.harness.state().window.session(small.state());
        next.harness.state_mut().window.resume(&session);
        for _ in 0..4 {
            next.harness.run(); // it waits for its room for a while
        }
        groups(next)
    };
    assert_eq!((groups(&small), restart(&small, &mut next)), (1, 2), "on a larger screen");
    let picture = small.tab("Picture").expect("a tab").center();
    small.click_at(picture, PointerButton::Middle);
    assert_eq!(restart(&small, &mut next), 1, "whoever has changed it keeps it");
}

/// Whether a pane is the active one of its tabs.
fn is_active(window: &Window, pane: &str) -> bool {
    let layout = window.harness.state().window.session(window.state()).layout;
    let tiles = layout["tiles"]["tiles"].as_object().expect("tiles").clone();
    let (pane, _) = tiles.iter().find(|(_, tile)| tile["Pane"] == pane).expect("the pane");
    let pane: u64 = pane.parse().expect("a number");
    tiles.values().any(|tile| tile["Container"]["Tabs"]["active"] == pane)
}

#[test]
fn a_tab_without_content_comes_back_once_it_has_some_unless_another_was_chosen_since() {
    let mut window = Window::ready();
    let [sinkhorn, gap] = [0, 1].map(|at| *window.state().library.probes.get_index(at).expect("a probe").0);
    for (chosen, wanted) in [(None, "kernel"), (Some("Scores"), "scores")] {
        for tab in ["Memory kernel"].into_iter().chain(chosen) {
            let at = window.tab(tab).expect("a tab").center();
            window.click_at(at, PointerButton::Primary);
            window.dispatch(Command::ShowProbe(gap));
        }
        assert!(!is_active(&window, "kernel"), "it has no kernel");
        window.dispatch(Command::ShowProbe(sinkhorn));
        assert!(is_active(&window, wanted), "{wanted}");
    }
}

#[test]
fn a_layout_for_another_room_and_one_that_is_reset_or_comes_back_have_panes_with_content_in_front() {
    let mut window = Window::ready();
    window.click("gap");
    assert!(!is_active(&window, "evidence"), "it reads no positions");
    window.resize(853.0, 480.0);
    assert!(!is_active(&window, "evidence"));
    window.choose_action("reset layout");
    assert!(!is_active(&window, "evidence"));
    // And one that an undo brings back.
    let mut window = Window::ready();
    let picture = window.tab("Picture").expect("a tab").center();
    window.click_at(picture, PointerButton::Middle);
    window.click("gap");
    window.undo();
    assert!(window.tab("Picture").is_some() && !is_active(&window, "evidence"));
    // A tab without content that a person has chosen stays, whatever is closed beside it.
    let kernel = window.tab("Memory kernel").expect("a tab").center();
    window.click_at(kernel, PointerButton::Primary);
    window.click("Panes");
    window.click_role(Role::CheckBox, "Picture");
    window.press(Modifiers::NONE, Key::Escape);
    assert!(window.tab("Picture").is_none() && is_active(&window, "kernel"));
}

/// A window opens at the size that it has when it is not maximised.
#[test]
fn the_first_layout_waits_for_its_room_and_keeps_the_chosen_tabs() {
    let (mut window, mut next) = (Window::ready(), Window::ready());
    let active = |window: &Window| is_active(window, "kernel");
    let tab = window.tab("Memory kernel").expect("a tab").center();
    window.click_at(tab, PointerButton::Primary);
    assert_eq!([active(&window), active(&next)], [true, false]);
    let session = window.harness.state().window.session(window.state());
    next.resize(853.0, 480.0);
    next.harness.state_mut().window.resume(&session);
    next.harness.step();
    next.resize(1440.0, 900.0);
    assert!(active(&next));
    next.resize(853.0, 480.0);
    assert_eq!(groups(&next), 1, "later it follows at once");
}

#[test]
fn findings_and_jobs_are_shown_after_a_restart_as_before() {
    let (mut window, mut next) = (Window::ready(), Window::ready());
    let session = |window: &Window| window.harness.state().window.session(window.state());
    let [closed, open] = [false, true].map(|open| {
        if open {
            ["findings", "jobs"].into_iter().for_each(|panel| window.show(panel));
        }
        session(&window)
    });
    let mut earlier = closed.clone(); // of a version that has not stored them
    earlier.layout.as_object_mut().expect("a layout").remove("outside").expect("it is stored");
    for (kept, shown) in [(&open, true), (&earlier, true), (&closed, false), (&earlier, false)] {
        next.harness.state_mut().window.resume(kept);
        next.harness.run();
        assert_eq!([next.has("Nothing is kept yet"), next.has("Copy log")], [shown; 2]);
    }
}

#[test]
fn the_first_layout_follows_the_room_until_a_person_has_one_of_their_own() {
    let mut window = Window::ready();
    assert_eq!(groups(&window), 2, "two rows of panes at 1440 x 900");
    window.resize(853.0, 480.0);
    assert_eq!(groups(&window), 1, "one row where two could not be read");
    window.resize(1440.0, 900.0);
    assert_eq!(groups(&window), 2);
    let scores = window.tab("Scores").expect("a tab").center();
    window.click_at(scores, PointerButton::Middle);
    window.harness.run();
    window.resize(853.0, 480.0);
    assert_eq!(groups(&window), 2, "whoever has changed it keeps it");
    window.undo();
    assert_eq!(groups(&window), 1, "until they take that back");
    window.redo();
    window.choose_action("reset layout");
    window.undo();
    window.redo();
    window.resize(1440.0, 900.0);
    assert_eq!(groups(&window), 2, "as the one that was reset");
    assert!(window.idle());
}

#[test]
fn the_tab_of_a_pane_that_is_asked_for_comes_into_sight() {
    let mut window = Window::ready();
    window.resize(853.0, 480.0);
    let seen = |window: &Window| window.tab("Predictions").is_some_and(|tab| tab.right() <= 853.0);
    assert!(!seen(&window), "the last of many tabs is out of sight");
    window.choose_action("show pane predictions");
    assert!(seen(&window));
    window.choose_action("show pane evidence by position");
    assert!(!seen(&window), "the first one is in sight");
    window.harness.get_all_by_role_and_label(Role::Button, "Predictions").next().expect("a tab").focus();
    window.harness.run();
    assert!(seen(&window), "so is one that has the keyboard focus");
    // What is scrolled half out leaves no cross without its title.
    let edge = window.harness.get_by_label("Scroll tabs left").rect().right();
    for title in ["Evidence by position", "Memory kernel", "Scores", "Removal curves", "Diagnostics"] {
        let tab = window.tab(title).expect("a tab");
        let label = format!("Close the pane {title}");
        let crosses = window.harness.query_all_by_label(&label).count();
        assert!(crosses == 0 || tab.left() + 10.0 >= edge, "{title}");
    }
}

#[test]
fn a_text_field_undoes_its_own_text() {
    let mut window = Window::ready();
    let column = *window.state().columns.keys().last().expect("a column");
    window.dispatch(Command::RemoveColumn(column));
    window.click_role(Role::TextInput, "Filter images");
    window.undo();
    assert_eq!(window.undo_text(), "Remove the column gap");
    window.press(Modifiers::NONE, Key::Escape);
    window.undo();
    assert_eq!(window.undo_text(), "");
}
