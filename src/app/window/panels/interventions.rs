//! Interventions on how a probe reads that the window offers: a list, and the temperature as a number.

use egui::DragValue;

use crate::app::jobs::info::ProbeInfo;
use crate::app::window::panels::prelude::*;
use crate::model::explain::intervention::Intervention;
use crate::model::probe::head::{self, HeadSpec};
use crate::model::probe::router::TEMPERATURES;

/// The interventions that a list offers for a probe; the temperature is a number and not among them.
pub fn interventions(info: Option<&ProbeInfo>) -> Vec<Intervention> {
    if info.and_then(|info| head::find(&info.head)).is_some_and(HeadSpec::is_recurrent) {
        return vec![Intervention::Random(0)];
    }
    let mut all = vec![Intervention::Scrambled(0), Intervention::NoRouting, Intervention::Random(0)];
    let Some(info) = info.filter(|info| info.routed) else { return all };
    if info.soft {
        all.splice(1..1, [Intervention::ScrambledHard(0), Intervention::Hardened]);
    }
    if info.iterated {
        all.extend([1, 5, 100].map(Intervention::Iterations));
    }
    all
}

/// The temperature at which a probe reads under `change`; `None` without a soft router.
pub fn temperature(info: Option<&ProbeInfo>, change: &Intervention) -> Option<f64> {
    let info = info.filter(|info| info.soft)?;
    match change {
        Intervention::Temperature(temperature) => Some(*temperature),
        _ => info.config.temperature.or_else(|| head::find(&info.head)?.settings().temperature),
    }
}

/// The temperature field of a column, which is explained anew while it is dragged.
pub fn temperature_of_column(ui: &mut Ui, cx: &mut PanelContext<'_>, id: ColumnId) {
    let Some(column) = cx.state.columns.get(&id) else { return };
    let info = cx.state.library.probe_info(column.probe);
    let Some(mut value) = temperature(info, &column.change) else { return };
    ui.horizontal(|ui| {
        let label = ui.label("Temperature").id;
        let speed = value / 100.0; // each pixel changes it by a hundredth
        let number = DragValue::new(&mut value).range(TEMPERATURES).speed(speed).max_decimals(4);
        let response = ui.add(number).labelled_by(label);
        let change = Intervention::Temperature(value);
        let is_own = response.changed() || column.change == change;
        if response.changed() {
            cx.send(Command::SlideIntervention(id, change.clone()));
        }
        if is_own && (response.drag_stopped() || response.lost_focus()) {
            // Only the final value is evaluated on the dataset.
            cx.send(Command::SetIntervention(id, change));
        }
    });
}
