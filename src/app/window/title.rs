//! What task bars and lists of windows show: the window's title, and a request for attention when long work ends unseen.

use std::path::Path;
use std::time::Instant;

use eframe::egui;
use egui::{UserAttentionType, ViewportCommand};

use crate::app::state::{LONG_WORK, State};

/// What the system was last told.
#[derive(Default)]
pub struct Title {
    text: String,
    /// Since when jobs have been running.
    busy: Option<Instant>,
}

impl Title {
    /// Tells the system what changed; `workspace` is the open file.
    pub fn update(&mut self, ctx: &egui::Context, state: &State, workspace: Option<&Path>) {
        let text = text(state, workspace);
        if self.text != text {
            ctx.send_viewport_cmd(ViewportCommand::Title(text.clone()));
            self.text = text;
        }
        if state.jobs.values().any(|job| job.error.is_none()) {
            self.busy.get_or_insert_with(Instant::now);
        } else if self.busy.take().is_some_and(|since| since.elapsed() >= LONG_WORK)
            && ctx.input(|input| input.viewport().focused == Some(false))
        {
            ctx.send_viewport_cmd(ViewportCommand::RequestUserAttention(UserAttentionType::Informational));
        }
    }
}

/// The share of a training that is done, the workspace file, the machine that computes and the program.
fn text(state: &State, workspace: Option<&Path>) -> String {
    let done = state.training.active_run().map(|run| run.history.done());
    let done = done.map(|(done, all)| format!("{} %", 100 * done / all.max(1)));
    let file = workspace.and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    let host = state.connection.host().map(|host| host.name().to_owned());
    done.into_iter().chain(file).chain(host).chain(["SSMProbe".to_owned()]).collect::<Vec<_>>().join(" - ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::state::connection::{Connection, Host};
    use crate::app::state::settings::Settings;

    #[test]
    fn a_title_names_the_file_and_the_machine() {
        let mut state = State::new(Settings::default());
        assert_eq!(text(&state, None), "SSMProbe");
        let host = Host { place: "ssh://gpu1".to_owned(), program: None };
        state.connection = Connection::Connecting(host);
        assert_eq!(text(&state, Some(Path::new("work/faces.ssmprobe"))), "faces - gpu1 - SSMProbe");
    }
}
