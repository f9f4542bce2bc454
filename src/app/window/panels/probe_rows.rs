//! The probes of the library: a click shows one, its button adds it to the comparison. With Ctrl or Shift
//! several are chosen, to act on all of them at once.

use indexmap::IndexSet;

use super::library::words;
use super::library_row::Entry;
use crate::app::jobs::ProbeId;
use crate::app::jobs::info::{Compatibility, ProbeInfo};
use crate::app::state::Status;
use crate::app::state::command::CTRL;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::context_menu;
use crate::model::explain::intervention::Intervention;

#[derive(Default)]
pub struct ProbeRows {
    /// The chosen probes.
    chosen: IndexSet<ProbeId>,
    /// The probe from which a click with Shift extends the choice.
    anchor: Option<ProbeId>,
}

impl ProbeRows {
    /// Draws buttons that act on the chosen probes; nothing while none is chosen.
    pub fn bar(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        self.chosen.retain(|id| cx.state.library.probes.contains_key(id));
        if self.chosen.is_empty() {
            return;
        }
        let all: Vec<ProbeId> = self.chosen.iter().copied().collect();
        ui.horizontal_wrapped(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            ui.weak(format!("{} chosen:", all.len()));
            let does = [
                ("Only these", "Compare the chosen probes and no others", Command::CompareOnly(all.clone())),
                ("Add", "Add the chosen probes to Compare", Command::Compare(all.clone())),
                ("Remove", "Remove the chosen probes from Compare", Command::Uncompare(all.clone())),
                ("Close", "Close the chosen probes", Command::CloseProbes(all)),
            ];
            for (text, about, command) in does {
                if ui.small_button(text).accessible_name(about).on_hover_text(about).clicked() {
                    cx.send(command);
                    self.chosen.clear();
                }
            }
            if ui.small_button("Clear").on_hover_text("Clear the selection").clicked() {
                self.chosen.clear();
            }
        });
    }

    /// Draws the probe at index `at` of the library.
    pub fn row(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, at: usize) {
        let Some((id, probe)) = cx.state.library.probes.get_index(at) else { return };
        let (mut about, mut dot) = words(cx, &probe.status, &probe.path.display(), ProbeInfo::summary);
        let fit = cx.state.library.fit(*id);
        match &fit {
            Some(Compatibility::DoesNot(why)) => {
                (about, dot) = (format!("Does not fit: {why}"), color32(style::failed(cx.theme)));
            }
            Some(Compatibility::Doubtful(why)) => {
                (about, dot) = (format!("Doubtful: {why}"), color32(cx.theme.series(4)));
            }
            None if probe.status.ready().is_some() => dot = color32(cx.theme.band),
            Some(Compatibility::Fits) | None => {}
        }
        let shown = cx.column().is_some_and(|column| column.probe == *id);
        let name = cx.state.library.probe_name(*id);
        let compared = cx.state.is_compared(*id);
        let label = accessible_name(cx, *id, &name);
        let entry = Entry { label: &label, ..Entry::new(&name, &about, dot) };
        let chosen = self.chosen.contains(id);
        let done = Entry { selected: shown, chosen, compared: Some(compared), ..entry }.show(ui);
        if done.close {
            cx.send(Command::CloseProbes(vec![*id]));
        } else if done.compare {
            let probe = vec![*id];
            cx.send(if compared { Command::Uncompare(probe) } else { Command::Compare(probe) });
        } else if done.response.clicked() {
            self.clicked(ui, cx, *id);
        }
        context_menu(&done.response, |ui| {
            let own = || vec![*id];
            let compare = match compared {
                true => ("Remove from Compare", Command::Uncompare(own())),
                false => ("Add to Compare", Command::Compare(own())),
            };
            let only = ("Compare this probe alone", Command::CompareOnly(own()));
            for (text, command) in [compare, only, ("Close probe", Command::CloseProbes(own()))] {
                if ui.button(text).clicked() {
                    cx.send(command);
                }
            }
        });
        done.response.on_hover_ui(|ui| {
            ui.strong(&name);
            match &probe.status {
                Status::Ready(info) => {
                    ui.label(info.summary());
                    ui.label(info.settings());
                    match fit {
                        Some(Compatibility::Fits) => {
                            let backbone = cx.state.library.backbone_of(*id).map(|(_, info)| info.id.clone());
                            ui.weak(format!("Reads the tokens of {}", backbone.unwrap_or_default()));
                        }
                        Some(Compatibility::Doubtful(why) | Compatibility::DoesNot(why)) => {
                            drop(ui.label(why));
                        }
                        None => drop(ui.weak("Open a backbone to see whether it fits")),
                    }
                    ui.weak(format!("Click to show it; {CTRL}-click or Shift-click to choose several"));
                }
                Status::Failed(_, error) => drop(ui.label(format!("{error}\nClick to try again"))),
                Status::Closed | Status::Opening(_) => drop(ui.label(&about)),
            }
            ui.weak(probe.path.display().to_string());
        });
    }

    /// Handles a click: alone it shows the probe, with Ctrl it toggles whether the probe is chosen, with Shift
    /// it chooses all from the anchor.
    fn clicked(&mut self, ui: &Ui, cx: &mut PanelContext<'_>, id: ProbeId) {
        let probes = &cx.state.library.probes;
        let modifiers = ui.input(|i| i.modifiers);
        let place = |id: ProbeId| probes.get_index_of(&id);
        let range = modifiers.shift.then(|| place(self.anchor?).zip(place(id))).flatten();
        if let Some((a, b)) = range {
            self.chosen
                .extend((a.min(b)..=a.max(b)).filter_map(|at| probes.get_index(at)).map(|(id, _)| *id));
            return;
        }
        self.anchor = Some(id);
        if modifiers.command || modifiers.shift {
            if !self.chosen.shift_remove(&id) {
                self.chosen.insert(id);
            }
            return;
        }
        self.chosen.clear();
        match probes.get(&id).map(|probe| &probe.status) {
            Some(Status::Failed(..) | Status::Closed) => cx.send(Command::ReopenProbe(id)),
            _ => cx.send(Command::ShowProbe(id)),
        }
    }
}

/// The label of a probe for screen readers: name and accuracy, on the current dataset or else as saved with the probe.
fn accessible_name(cx: &PanelContext<'_>, id: ProbeId, name: &str) -> String {
    let evaluated = cx.state.evaluation(id, &Intervention::None).and_then(Result::ok);
    let trained = || cx.state.library.probe_info(id)?.accuracy;
    match evaluated.map(|evaluation| evaluation.accuracy()).or_else(trained) {
        Some(accuracy) => format!("{name}, accuracy {accuracy:.1} %"),
        None => name.to_owned(),
    }
}
