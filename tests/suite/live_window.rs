//! A window on the real worker, operated by its labels as with a screen reader.

use std::fs;
use std::time::Instant;

use egui_kittest::Harness;
use ssmprobe::app::App;
use ssmprobe::app::worker::{Worker, WorkerEnv};

use crate::window::prelude::*;

const TIMEOUT: Duration = Duration::from_mins(5);

/// A window, and the folder with its settings and its worker's files.
pub struct LiveWindow {
    pub harness: Harness<'static, App>,
    pub folder: TempDir,
}

impl LiveWindow {
    pub fn new() -> Self {
        Self::with_settings(&json!({"device": "cpu"}))
    }

    pub fn with_settings(settings: &Value) -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("settings.json"), settings.to_string()).expect("settings");
        Self::within(folder)
    }

    /// A window with the settings that are in `folder`.
    pub fn within(folder: TempDir) -> Self {
        let settings = folder.path().join("settings.json");
        let harness = Harness::builder()
            .with_size(egui::vec2(1440.0, 900.0))
            .with_max_steps(60)
            .build_eframe(move |cx| {
                let worker = Worker::start(WorkerEnv::default(), Arc::new(|| {})).expect("threads");
                let mut app = App::new(&cx.egui_ctx, Box::new(worker), Some(&settings));
                app.window.type_paths();
                app
            });
        Self { harness, folder }
    }

    pub fn state(&self) -> &State {
        &self.harness.state().state
    }

    /// Draws frames until the condition `so` holds.
    pub fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            self.harness.step();
            let state = self.state();
            assert!(begun.elapsed() < TIMEOUT, "{what}: never; {:?}\n{}", state.connection, state.log_text());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.harness.step();
    }

    pub fn wants(&mut self, command: Command) {
        self.harness.state_mut().dispatch(command);
    }

    pub fn has(&self, label: &str) -> bool {
        self.harness.query_all_by_label_contains(label).next().is_some()
    }

    pub fn click(&mut self, label: &str) {
        self.harness.get_by_label(label).click();
        self.harness.run_steps(6);
    }
}
