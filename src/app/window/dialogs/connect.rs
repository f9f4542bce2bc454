//! The dialog that chooses where to compute: on a machine that ssh reaches, in another process here, or in this program.

use eframe::egui;
use egui::{Button, ScrollArea, TextEdit, Ui};

use super::dialog::{self, Answer};
use crate::app::remote::{self, WorkerAddress};
use crate::app::state::State;
use crate::app::state::connection::Host;
use crate::app::window::{style, widgets};

/// Height of the list of hosts.
const LIST_PX: f32 = 220.0;

/// Where to compute, as it is being chosen.
pub struct ConnectDialog {
    /// The address as typed: `gpu1`, `ssh://me@gpu1:2222` or `local`.
    place: String,
    /// Path of the program there; empty where it is found by its name.
    program: String,
    recent: Vec<Host>,
    /// Hosts of the user's ssh configuration.
    known: Vec<String>,
}

impl ConnectDialog {
    /// Offers recent hosts and those of the user's ssh configuration.
    pub fn new(state: &State) -> Self {
        let known = remote::user_config().map(|config| remote::hosts(&config)).unwrap_or_default();
        let recent: Vec<Host> =
            state.settings.recent.hosts.iter().filter(|host| host.place != "local").cloned().collect();
        Self { place: String::new(), program: String::new(), recent, known }
    }

    /// Draws the dialog; the answer `None` is this program.
    pub fn ui(&mut self, ui: &Ui, state: &State) -> Answer<Option<Host>> {
        dialog::show(ui.ctx(), "connect", 480.0, "Connect to another machine", |ui| {
            ui.weak(
                "Backbones, datasets and GPUs are those of the other machine, reached through your own ssh: \
                 `ssh HOST` has to connect without a prompt, and this program has to be installed there. \
                 What is open here is set aside",
            );
            ui.add_space(4.0);
            self.fields(ui);
            ui.add_space(4.0);
            let answer = self.list(ui, state);
            let typed = self.typed();
            if let Some(error) = typed.as_ref().err().filter(|_| !self.place.trim().is_empty()) {
                ui.label(style::failure(ui, error));
            }
            let host = typed.ok();
            answer.or(dialog::buttons(ui, "Connect", host.is_some(), host))
        })
    }

    fn fields(&mut self, ui: &mut Ui) {
        dialog::fields("connect fields").show(ui, |ui| {
            for (label, text, hint) in [
                ("Host", &mut self.place, "HOST, or ssh://[USER@]HOST[:PORT]"),
                ("Program there", &mut self.program, "if not in ~/.local/bin or on the PATH there"),
            ] {
                ui.label(label);
                let edit = TextEdit::singleline(text).hint_text(hint).desired_width(f32::INFINITY);
                widgets::field(ui, label, edit);
                ui.end_row();
            }
        });
    }

    /// Draws the list of hosts; a click on a remote one only fills the fields.
    fn list(&mut self, ui: &mut Ui, state: &State) -> Answer<Option<Host>> {
        let mut answer = Answer::Open;
        let mut filled = None;
        let local = Host { place: "local".to_owned(), program: None };
        ScrollArea::vertical().max_height(LIST_PX).auto_shrink([false, true]).show(ui, |ui| {
            let row = |ui: &mut Ui, text: &str, about: &str| {
                ui.add(Button::new(text).frame_when_inactive(false)).on_hover_text(about).clicked()
            };
            ui.weak("On this machine");
            let now = state.connection.host();
            if now.is_some() && row(ui, "This program", "Compute here again") {
                answer = Answer::Given(None);
            }
            let about = "On this machine; a driver crash does not take the window down";
            if now != Some(&local) && row(ui, "A separate process", about) {
                answer = Answer::Given(Some(local.clone()));
            }
            for (title, hosts) in [
                ("Recent", self.recent.clone()),
                ("From your ssh configuration", self.known.iter().map(|name| host(name)).collect()),
            ] {
                if !hosts.is_empty() {
                    ui.add_space(4.0);
                    ui.weak(title);
                }
                for host in hosts {
                    let program = host.program.as_deref().map(|program| format!(" ({program})"));
                    if row(ui, &format!("{}{}", host.name(), program.unwrap_or_default()), &host.place) {
                        filled = Some(host);
                    }
                }
            }
            widgets::follow_focus(ui);
        });
        if let Some(host) = filled {
            host.name().clone_into(&mut self.place);
            self.program = host.program.unwrap_or_default();
        }
        answer
    }

    /// The typed host, or why the address is invalid.
    fn typed(&self) -> Result<Host, String> {
        let typed = host(self.place.trim());
        let place = typed.place.parse::<WorkerAddress>()?.word();
        let program = Some(self.program.trim().to_owned()).filter(|program| !program.is_empty());
        Ok(Host { place, program })
    }
}

/// The host of a typed address; `ssh://` is added where it is missing.
fn host(text: &str) -> Host {
    let whole = text == "local" || text.starts_with("ssh://");
    let place = if whole { text.to_owned() } else { format!("ssh://{text}") };
    Host { place, program: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_typed_with_or_without_its_scheme() {
        let typed = |place: &str, program: &str| {
            let (place, program) = (place.to_owned(), program.to_owned());
            ConnectDialog { place, program, recent: Vec::new(), known: Vec::new() }.typed()
        };
        let host = |place: &str, program: Option<&str>| Host {
            place: place.to_owned(),
            program: program.map(str::to_owned),
        };
        assert_eq!(typed(" me@gpu1:22 ", ""), Ok(host("ssh://me@gpu1:22", None)));
        assert_eq!(typed("ssh://gpu1/", " ~/bin/ssmprobe"), Ok(host("ssh://gpu1", Some("~/bin/ssmprobe"))));
        assert_eq!(typed("local", ""), Ok(host("local", None)));
        assert!(typed("-x", "").is_err() && typed("", "").is_err() && typed("a b", "").is_err());
    }
}
