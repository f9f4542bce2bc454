//! One session in the window, operated by its labels as with a screen reader, on the real worker: the
//! demo, an image, three routers, a figure exported to a file, a small training, and the workspace
//! opened again.

use eframe::egui::{self, Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use serde_json::{Value, json};
use ssmprobe::app::demo;
use ssmprobe::app::state::command::Command;
use ssmprobe::app::state::{ColumnState, Phase};

use crate::live_window::LiveWindow;
use crate::pictures::painted;
use crate::run;

impl LiveWindow {
    fn click_role(&mut self, role: Role, label: &str) {
        self.harness.get_by_role_and_label(role, label).click();
        self.harness.run_steps(6);
    }

    /// Replaces the text of a field.
    fn enter(&mut self, role: Role, label: &str, text: &str) {
        self.click_role(role, label);
        self.harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
        self.harness.run_steps(6);
        self.harness.event(egui::Event::Text(text.to_owned()));
        self.harness.run_steps(6);
        self.harness.key_press(Key::Enter);
        self.harness.run_steps(6);
    }

    fn all_shown(&self) -> bool {
        let mut columns = self.state().columns.values();
        columns.len() >= 3 && columns.all(|column| matches!(column.shown, ColumnState::Ready(_)))
    }
}

#[test]
fn one_session_from_the_demo_to_a_training_and_back() {
    let disk = run::Sandbox::new(24, 12);
    let settings = json!({"device": "cpu", "recent": {"datasets": [disk.data()]}});
    let mut live = LiveWindow::with_settings(&settings);

    // The demo opens and is explained.
    let opening = demo::opening();
    assert_eq!(opening.len(), 3, "the bundled demo is there");
    opening.into_iter().for_each(|command| live.wants(command));
    live.wants(Command::Evaluate { all: false });
    live.until("the demo is shown", LiveWindow::all_shown);
    let asked = |s: &LiveWindow| s.state().columns.keys().all(|id| s.state().evaluation_of(*id).is_some());
    live.until("the probes are asked about its scenes", asked);
    live.click("Dataset");
    assert!(live.has("Confusion") && !live.has("Open a dataset"), "there is something to see");
    live.click("One probe");

    // Another image, chosen by its name.
    let second = live.state().library.images.values().nth(1).expect("images").name();
    let said = format!("{second}, class");
    let picture = live.harness.query_all_by_label_contains(&said).next();
    picture.expect("its picture").click();
    live.harness.run_steps(6);
    assert_eq!(live.state().current_image().expect("an image").name(), second);
    live.until("the image is looked at", LiveWindow::all_shown);

    // Three routers side by side, and a token highlighted in all of them.
    live.click("Compare");
    for router in ["sinkhorn", "neuralsort", "raster"] {
        assert!(live.has(router), "{router} is not compared");
    }
    let column = live.state().compared().next().expect("a column").1;
    let best = &column.shown.trace().expect("a trace").top[0];
    let said = format!("{}, {:.1} %", best.name, 100.0 * best.probability);
    let head = live.harness.get_all_by_label(&said).next().expect("what it predicts").rect();
    live.harness.hover_at(head.center());
    live.until("its head says whether that is right", |s| {
        painted(s.harness.output()).iter().any(|(text, ..)| text.contains(": true class "))
    });
    let figures = live.harness.query_all_by_label("Reading order").map(|node| node.rect());
    let figure = figures.max_by(|a, b| a.area().total_cmp(&b.area())).expect("a figure");
    live.harness.hover_at(figure.left_top() + egui::vec2(figure.width() * 0.4, figure.height() * 0.4));
    live.harness.run_steps(6);
    assert!(live.state().selection.hover.token.is_some(), "no token is lit");

    // The comparison, exported to a file.
    let file = disk.path("comparison.svg");
    live.click("Export comparison…");
    live.enter(Role::TextInput, "Export to", &file.display().to_string());
    live.until("the file is written", |s| file.exists() && !s.has("Export to"));
    let svg = std::fs::read_to_string(&file).expect("a file");
    let title = |id| live.state().column_title(id);
    for column in live.state().columns.keys() {
        assert!(svg.contains(&title(*column)), "{} is not compared", title(*column));
    }

    // A small training, entered in the form.
    live.click("Training");
    live.click_role(Role::ComboBox, "Dataset");
    // The demo's dataset has the same name: it is in the library, and above this one in the list.
    let place = |rect: egui::Rect| (rect.left() > 320.0, rect.top() as i32);
    let own = live.harness.query_all_by_label("scenes").max_by_key(|node| place(node.rect()));
    own.expect("the dataset").click();
    live.harness.run_steps(6);
    live.click("Advanced");
    live.enter(Role::TextInput, "Token cache", &disk.path("cache").display().to_string());
    live.enter(Role::TextInput, "Head settings", "state_dim=8 iterations=5");
    live.enter(Role::TextInput, "Output folder", &disk.path("run").display().to_string());
    live.enter(Role::SpinButton, "Epochs", "4000");
    live.enter(Role::SpinButton, "Batch", "16");
    live.until("the plan is there", |s| {
        let training = &s.state().training;
        training.preflight().0.is_some() && training.estimate.is_some()
    });
    assert!(live.has("24 to train on, 12 to test on"), "the plan says what it is");
    let probes = live.state().library.probes.len();
    live.click("Start training");
    live.until("a curve is drawn", |s| s.has("Training loss of 3 heads"));
    let epochs = |s: &LiveWindow| s.state().training.active_run().map_or(0, |run| run.history.done().0);
    live.until("some epochs are done", move |s| epochs(s) > 6);

    // An image is explained during the training.
    let third = live.state().library.images.values().nth(2).expect("images").name();
    let said = format!("{third}, class");
    live.harness.query_all_by_label_contains(&said).next().expect("its picture").click();
    live.harness.run_steps(6);
    live.until("the image is looked at beside the training", LiveWindow::all_shown);
    assert!(live.state().training.active.is_some(), "the training went on");

    live.click("Stop and save");
    live.until("it is stopped", |s| s.state().training.active.is_none());
    assert!(live.has("Stopped and saved"));
    let run = disk.path("run");
    assert_eq!(live.state().training.runs[&run].phase, Phase::Stopped);
    live.until("its probes are in the library", |s| {
        let ready = s.state().library.probes.values().filter(|probe| probe.status.ready().is_some());
        ready.count() == probes + 6
    });

    // A later session.
    let file = disk.path("live.ssmprobe");
    let title =
        |s: &LiveWindow| s.state().columns.keys().map(|id| s.state().column_title(*id)).collect::<Vec<_>>();
    let (columns, done) = (title(&live), live.state().training.runs[&run].history.done());
    live.state().workspace(Value::Null).save(&file).expect("saved");
    let LiveWindow { harness, folder } = live;
    drop(harness);
    let mut live = LiveWindow::within(folder);
    live.harness.state_mut().open_workspace(&file);
    live.until("all is shown again", LiveWindow::all_shown);
    assert_eq!(title(&live), columns);
    assert_eq!(live.state().current_image().expect("an image").name(), third);
    live.until("the run is read again", |s| !s.state().training.runs.is_empty());
    assert_eq!(live.state().training.runs[&run].history.done(), done);
    live.click("Training");
    live.click("run");
    assert!(live.has("Training loss of 3 heads") && live.has("Resume"));
}
