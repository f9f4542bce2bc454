//! The choice of heads, in groups, each with a line that says what it does.

use egui::CollapsingHeader;

use crate::app::window::panels::prelude::*;
use crate::model::probe::head::{Group, HEADS, HeadSpec, of_paper};

/// Draws the groups; `chosen` are ids of heads, kept in the order of the list. `without_cls` is the name of
/// the backbone if it has no CLS token: heads that read one can then be unticked, not ticked.
pub fn ui(ui: &mut Ui, chosen: &mut Vec<String>, without_cls: Option<&str>) {
    let absent = |spec: &HeadSpec| without_cls.filter(|_| spec.needs_cls());
    ui.horizontal(|ui| {
        ui.label(RichText::new("Heads").strong());
        ui.weak(format!("{} of {}", chosen.len(), HEADS.len()));
        at_right(ui, |ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            if ui.small_button("The paper's").on_hover_text("All heads of the paper's tables").clicked() {
                let papers = of_paper().filter(|spec| absent(spec).is_none());
                *chosen = papers.map(|spec| spec.id.to_owned()).collect();
            }
            if ui.small_button("None").on_hover_text("Choose no heads").clicked() {
                chosen.clear();
            }
        });
    });
    for group in Group::ALL {
        let (name, about) = (group.name(), group.about());
        let specs: Vec<&HeadSpec> = HEADS.iter().filter(|spec| spec.group == group).collect();
        let count = specs.iter().filter(|spec| chosen.iter().any(|id| id == spec.id)).count();
        let title = if count == 0 { name.to_owned() } else { format!("{name}: {count} chosen") };
        let header = CollapsingHeader::new(title).id_salt(name).default_open(group != Group::Network);
        let shown = header.show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 2.0;
            for spec in specs {
                head_ui(ui, spec, chosen, absent(spec));
            }
        });
        shown.header_response.on_hover_text(about);
    }
}

fn head_ui(ui: &mut Ui, spec: &HeadSpec, chosen: &mut Vec<String>, absent: Option<&str>) {
    ui.horizontal(|ui| {
        let mut ticked = chosen.iter().any(|id| id == spec.id);
        let width = ui.available_width();
        let enabled = absent.is_none() || ticked;
        let checkbox = egui::Checkbox::new(&mut ticked, spec.name);
        let response = ui.add_enabled(enabled, checkbox).on_hover_text(spec.summary);
        let why = |backbone: &str| format!("{backbone} has no CLS token, which this head reads");
        let response = response.on_disabled_hover_text(absent.map(why).unwrap_or_default());
        if response.changed() {
            match ticked {
                true => chosen.push(spec.id.to_owned()),
                false => chosen.retain(|id| id != spec.id),
            }
            chosen.sort_by_key(|id| HEADS.iter().position(|spec| spec.id == id));
        }
        // Summaries are aligned.
        let used = width - ui.available_width();
        ui.add_space((126.0 - used).max(0.0));
        let summary = RichText::new(spec.summary).small().weak();
        ui.add(egui::Label::new(summary).truncate());
    });
}
