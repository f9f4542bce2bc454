//! Removal curves of the shown image, as a pane: computed on request, with a slider for the step whose picture is shown.

use std::sync::Arc;

use super::plot_view::PlotView;
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::step_slider;
use crate::model::explain::removal::{Mode, RANKINGS, Removal, RemovalSpec};
use crate::viz::figures::removal::{INFO, Quantity, RemovalPlot, RemovalView, ranking_name};

#[derive(Default)]
pub struct RemovalPane {
    /// The settings, of which the modes are chosen here; the seed is that of explanations.
    spec: RemovalSpec,
    /// How the curves were last shown.
    view: Option<RemovalView>,
    /// Keyed by the addresses of the curves and of those subtracted, and the view.
    plot: PlotView<(usize, Option<usize>, RemovalView), RemovalPlot>,
}

impl Panel for RemovalPane {
    fn info(&self) -> Info {
        INFO
    }

    fn has_content(&self, cx: &PanelContext<'_>) -> Option<bool> {
        Some(cx.state.focused_trace().is_some())
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let Some(column) = cx.focus else { return cx.hint(ui) };
        let (known, job) = cx.state.removal_of(column);
        if job.is_some() {
            return cx.busy(ui, "Removing tokens…", job);
        }
        if known.is_none() && cx.trace(ui).is_none() {
            return;
        }
        ui.add_space(6.0);
        let line = |ui: &mut Ui| {
            // Until there are curves it is the one thing to do.
            let main = Button::new("Remove tokens").fill(ui.visuals().selection.bg_fill);
            let button = if known.is_some() { Button::new("Remove again") } else { main };
            self.request_ui(ui, cx, column, button);
            if let Some(Ok(removal)) = known {
                self.settings(ui, removal);
            }
        };
        inset(ui, |ui| ui.horizontal_wrapped(line));
        match known {
            Some(Ok(removal)) => {
                if let Ok(other) = self.pinned(ui, cx, column) {
                    self.draw(ui, cx, removal, other);
                }
            }
            Some(Err(error)) => cx.failed(ui, error),
            None => {
                let hint = "See whether the class is lost when the tokens that count most are removed first";
                placeholder::empty(ui, hint);
            }
        }
    }
}

impl RemovalPane {
    /// Draws the choice of modes, the button that computes the curves and, if the backbone takes part, the cost.
    fn request_ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>, column: ColumnId, button: Button<'_>) {
        choose_modes(ui, &mut self.spec.modes);
        let button = ui.add_enabled(!self.spec.modes.is_empty(), button);
        if button.on_disabled_hover_text("Choose what is removed").clicked() {
            cx.send(Command::RemoveTokens(column, self.spec.modes.clone()));
        }
        let passes = self.spec.passes(RANKINGS.len());
        if passes > 0.0 {
            ui.weak(format!("Costs up to {passes:.0} full backbone passes"));
        }
    }

    /// Draws the choices of what is shown of the curves.
    fn settings(&mut self, ui: &mut Ui, removal: &Removal) {
        let view = self.view.get_or_insert_with(|| RemovalView::new(removal));
        if !removal.modes.contains_key(&view.mode) || removal.rankings.get(&view.ranking).is_none() {
            *view = RemovalView::new(removal);
        }
        let modes = removal.modes.keys().map(|mode| (*mode, mode.name()));
        choose(ui, "Where tokens are removed", &mut view.mode, modes);
        let quantities = Quantity::ALL.into_iter().map(|quantity| (quantity, quantity.name()));
        choose(ui, "What is read", &mut view.quantity, quantities);
        let rankings = removal.rankings.iter().filter(|(_, ranked)| ranked.found().is_some());
        let rankings = rankings.map(|(id, _)| (id.clone(), ranking_name(id)));
        choose(ui, "Which tokens go first", &mut view.ranking, rankings);
        let last = removal.fraction.len().saturating_sub(1);
        view.step = view.step.min(last);
        step_slider(ui, "Step", &mut view.step, last);
    }

    /// Offers the difference from the pinned column; its curves if the difference is on. `Err` while it has none, after
    /// drawing why: progress, a button that computes them, or the error.
    fn pinned(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        column: ColumnId,
    ) -> Result<Option<Arc<Removal>>, ()> {
        let Some(pinned) = cx.state.selection.reference.filter(|pinned| *pinned != column) else {
            return Ok(None);
        };
        let mut on = cx.state.views.difference;
        let about = "The curves minus those of the pinned column";
        let checkbox = inset(ui, |ui| ui.checkbox(&mut on, "Difference from pinned"));
        if checkbox.on_hover_text(about).clicked() {
            cx.send(Command::SetDifference(on));
        }
        if !on {
            return Ok(None);
        }
        match cx.state.removal_of(pinned) {
            (_, Some(job)) => cx.busy(ui, "Removing tokens…", Some(job)),
            (Some(Ok(other)), None) => return Ok(Some(other.clone())),
            (Some(Err(error)), None) => {
                if placeholder::failed(ui, cx, error, Some("Try again")) {
                    cx.send(Command::RemoveTokens(pinned, self.spec.modes.clone()));
                }
            }
            (None, None) => {
                let hint = "The pinned column has no removal curves yet";
                if placeholder::invite(ui, hint, "Remove its tokens too") {
                    cx.send(Command::RemoveTokens(pinned, self.spec.modes.clone()));
                }
            }
        }
        Err(())
    }

    fn draw(
        &mut self,
        ui: &mut Ui,
        cx: &mut PanelContext<'_>,
        removal: &Arc<Removal>,
        other: Option<Arc<Removal>>,
    ) {
        let Some(view) = self.view.clone() else { return };
        let addr = |removal: &Arc<Removal>| Arc::as_ptr(removal).addr();
        let key = (addr(removal), other.as_ref().map(addr), view.clone());
        // A difference is not computed in every frame.
        let made = match self.plot.known(&key) {
            Some(plot) => Ok(plot.clone()),
            None => RemovalPlot::new(removal.clone(), other),
        };
        let mut plot = match made {
            Ok(plot) => plot,
            Err(why) => return placeholder::empty(ui, &why.0),
        };
        plot.view = view;
        let Some((plot, step, response)) = self.plot.fill(ui, cx, key, plot, RemovalPlot::clone) else {
            return;
        };
        let lines = plot.at(step);
        response.on_hover_ui_at_pointer(|ui| {
            ui.label(format!("Step {step}"));
            for (name, values) in lines {
                ui.weak(format!("{name}: {values}"));
            }
        });
    }
}

/// A checkbox for each mode.
pub fn choose_modes(ui: &mut Ui, modes: &mut Vec<Mode>) {
    for mode in Mode::ALL {
        let mut on = modes.contains(&mode);
        if ui.checkbox(&mut on, mode.name()).on_hover_text(about(mode)).changed() {
            modes.retain(|own| *own != mode);
            modes.extend(on.then_some(mode));
            modes.sort_unstable();
        }
    }
}

/// What a mode removes, in a sentence.
fn about(mode: Mode) -> &'static str {
    match mode {
        Mode::Frozen => "The plan and all weights stay; the token's share is dropped",
        Mode::Rerouted => "The head reads the tokens that are left: scores, plan and kernel are recomputed",
        Mode::Patches => "The backbone reads the patches that are left",
        Mode::Pixels => "Patches are filled in from their surroundings",
    }
}

/// A combo box that chooses one of `all`.
fn choose<'a, T: PartialEq>(
    ui: &mut Ui,
    label: &str,
    value: &mut T,
    all: impl Iterator<Item = (T, &'a str)>,
) {
    let all: Vec<(T, &str)> = all.collect();
    let shown = all.iter().find(|(own, _)| own == value).map_or("", |(_, name)| *name);
    let list = combo(ui, label, ui.spacing().combo_width, shown, |ui| {
        for (own, name) in all {
            ui.selectable_value(value, own, name);
        }
    });
    list.accessible_name(label).on_hover_text(label);
}
