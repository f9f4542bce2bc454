//! One session in the window, operated by its labels as with a screen reader, on the real worker: the
//! demo, an image, three routers, a figure exported to a file, a small training, and the workspace
//! opened again.

use eframe::egui::{self, Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use serde_json::{Value, json};
use ssmprobe::app::demo;
use ssmprobe::app::state::command::Command;
use ssmprobe::app::state::{ColumnState, Phase};

use crate::pictures::painted;
use crate::run;
use crate::sitting::Sitting;

impl Sitting {
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
    let mut sitting = Sitting::with_settings(&settings);

    // The demo opens and is explained.
    let opening = demo::opening();
    assert_eq!(opening.len(), 3, "the bundled demo is there");
    opening.into_iter().for_each(|command| sitting.wants(command));
    sitting.wants(Command::Evaluate { all: false });
    sitting.until("the demo is shown", Sitting::all_shown);
    let asked = |s: &Sitting| s.state().columns.keys().all(|id| s.state().evaluation_of(*id).is_some());
    sitting.until("the probes are asked about its scenes", asked);
    sitting.click("Dataset");
    assert!(sitting.has("Confusion") && !sitting.has("Open a dataset"), "there is something to see");
    sitting.click("One probe");

    // Another image, chosen by its name.
    let second = sitting.state().library.images.values().nth(1).expect("images").name();
    let said = format!("{second}, class");
    let picture = sitting.harness.query_all_by_label_contains(&said).next();
    picture.expect("its picture").click();
    sitting.harness.run_steps(6);
    assert_eq!(sitting.state().current_image().expect("an image").name(), second);
    sitting.until("the image is looked at", Sitting::all_shown);

    // Three routers side by side, and a token highlighted in all of them.
    sitting.click("Compare");
    for router in ["sinkhorn", "neuralsort", "raster"] {
        assert!(sitting.has(router), "{router} is not compared");
    }
    let column = sitting.state().compared().next().expect("a column").1;
    let best = &column.shown.trace().expect("a trace").top[0];
    let said = format!("{}, {:.1} %", best.name, 100.0 * best.probability);
    let head = sitting.harness.get_all_by_label(&said).next().expect("what it predicts").rect();
    sitting.harness.hover_at(head.center());
    sitting.until("its head says whether that is right", |s| {
        painted(s.harness.output()).iter().any(|(text, ..)| text.contains(": true class "))
    });
    let figures = sitting.harness.query_all_by_label("Reading order").map(|node| node.rect());
    let figure = figures.max_by(|a, b| a.area().total_cmp(&b.area())).expect("a figure");
    sitting.harness.hover_at(figure.left_top() + egui::vec2(figure.width() * 0.4, figure.height() * 0.4));
    sitting.harness.run_steps(6);
    assert!(sitting.state().selection.hover.token.is_some(), "no token is lit");

    // The comparison, exported to a file.
    let file = disk.path("comparison.svg");
    sitting.click("Export comparison…");
    sitting.enter(Role::TextInput, "Export to", &file.display().to_string());
    sitting.until("the file is written", |s| file.exists() && !s.has("Export to"));
    let svg = std::fs::read_to_string(&file).expect("a file");
    let title = |id| sitting.state().column_title(id);
    for column in sitting.state().columns.keys() {
        assert!(svg.contains(&title(*column)), "{} is not compared", title(*column));
    }

    // A small training, entered in the form.
    sitting.click("Training");
    sitting.click_role(Role::ComboBox, "Dataset");
    // The demo's dataset has the same name: it is in the library, and above this one in the list.
    let place = |rect: egui::Rect| (rect.left() > 320.0, rect.top() as i32);
    let own = sitting.harness.query_all_by_label("scenes").max_by_key(|node| place(node.rect()));
    own.expect("the dataset").click();
    sitting.harness.run_steps(6);
    sitting.click("Advanced");
    sitting.enter(Role::TextInput, "Token cache", &disk.path("cache").display().to_string());
    sitting.enter(Role::TextInput, "Head settings", "state_dim=8 iterations=5");
    sitting.enter(Role::TextInput, "Output folder", &disk.path("run").display().to_string());
    sitting.enter(Role::SpinButton, "Epochs", "4000");
    sitting.enter(Role::SpinButton, "Batch", "16");
    sitting.until("the plan is there", |s| {
        let training = &s.state().training;
        training.preflight().0.is_some() && training.estimate.is_some()
    });
    assert!(sitting.has("24 to train on, 12 to test on"), "the plan says what it is");
    let probes = sitting.state().library.probes.len();
    sitting.click("Start training");
    sitting.until("a curve is drawn", |s| s.has("Training loss of 3 heads"));
    let epochs = |s: &Sitting| s.state().training.active_run().map_or(0, |run| run.history.done().0);
    sitting.until("some epochs are done", move |s| epochs(s) > 6);

    // An image is explained during the training.
    let third = sitting.state().library.images.values().nth(2).expect("images").name();
    let said = format!("{third}, class");
    sitting.harness.query_all_by_label_contains(&said).next().expect("its picture").click();
    sitting.harness.run_steps(6);
    sitting.until("the image is looked at beside the training", Sitting::all_shown);
    assert!(sitting.state().training.active.is_some(), "the training went on");

    sitting.click("Stop and save");
    sitting.until("it is stopped", |s| s.state().training.active.is_none());
    assert!(sitting.has("Stopped and saved"));
    let run = disk.path("run");
    assert_eq!(sitting.state().training.runs[&run].phase, Phase::Stopped);
    sitting.until("its probes are in the library", |s| {
        let ready = s.state().library.probes.values().filter(|probe| probe.status.ready().is_some());
        ready.count() == probes + 6
    });

    // A later session.
    let file = disk.path("sitting.ssmprobe");
    let title =
        |s: &Sitting| s.state().columns.keys().map(|id| s.state().column_title(*id)).collect::<Vec<_>>();
    let (columns, done) = (title(&sitting), sitting.state().training.runs[&run].history.done());
    sitting.state().workspace(Value::Null).save(&file).expect("saved");
    let Sitting { harness, folder } = sitting;
    drop(harness);
    let mut sitting = Sitting::within(folder);
    sitting.harness.state_mut().open_workspace(&file);
    sitting.until("all is shown again", Sitting::all_shown);
    assert_eq!(title(&sitting), columns);
    assert_eq!(sitting.state().current_image().expect("an image").name(), third);
    sitting.until("the run is read again", |s| !s.state().training.runs.is_empty());
    assert_eq!(sitting.state().training.runs[&run].history.done(), done);
    sitting.click("Training");
    sitting.click("run");
    assert!(sitting.has("Training loss of 3 heads") && sitting.has("Resume"));
}
