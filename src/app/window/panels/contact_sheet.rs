//! The gallery as a pane: a contact sheet of all images at an adjustable size, with token weights or evidence laid over
//! each, for one probe or two side by side, and optionally only images on which the two disagree.

use eframe::egui;
use egui::{Margin, Role, Slider, Ui, WidgetInfo};

use super::gallery::Gallery;
use super::tile::{Overlay, Sheet};
use super::{Panel, PanelContext};
use crate::app::jobs::ColumnId;
use crate::app::state::command::{Action, Command};
use crate::app::state::{GalleryFilter, Sort};
use crate::app::window::widgets::{choice, choice_width, combo};
use crate::viz::draw::font;
use crate::viz::{Info, TabGroup};

/// Range of the side of a picture.
const SIDES_PX: std::ops::RangeInclusive<f32> = 56.0..=280.0;

pub struct ContactSheet {
    gallery: Gallery,
    side: f32,
    overlay: Overlay,
    /// A second column, shown beside the focused one.
    beside: Option<ColumnId>,
}

impl Default for ContactSheet {
    fn default() -> Self {
        Self { gallery: Gallery::default(), side: 132.0, overlay: Overlay::None, beside: None }
    }
}

impl Panel for ContactSheet {
    fn info(&self) -> Info {
        Info {
            id: "gallery",
            title: "Gallery",
            about: "All images as a contact sheet, with evidence or weights over them; two probes side by side",
            tab: TabGroup::Page.tab(),
        }
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let there = |column: &ColumnId| cx.state.columns.contains_key(column) && cx.focus != Some(*column);
        self.beside = self.beside.filter(there);
        egui::Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| {
            if !cx.state.library.images.is_empty() {
                ui.horizontal_wrapped(|ui| self.controls(ui, cx));
            }
            let columns = cx.focus.into_iter().chain(self.beside).collect();
            let sheet = Sheet { side: self.side, overlay: self.overlay, columns, numbers: false };
            self.gallery.show(ui, cx, &sheet);
        });
    }
}

impl ContactSheet {
    fn controls(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let label = ui.label("Size").id;
        ui.spacing_mut().slider_width = 110.0;
        ui.add(Slider::new(&mut self.side, SIDES_PX).show_value(false)).labelled_by(label);
        if cx.focus.is_none() {
            return;
        }
        let names = [
            (Overlay::None, "Photographs"),
            (Overlay::Weight, "Token weights"),
            (Overlay::Evidence, "Evidence"),
        ];
        let width = choice_width(ui, names.map(|(_, name)| name));
        let list = choice(ui, "overlay", width, &mut self.overlay, names);
        list.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Overlay"));
        list.on_hover_text("What is overlaid on each picture, each on its own scale");
        let name = |column: Option<ColumnId>| match column {
            Some(column) => cx.state.column_title(column),
            None => "no other probe".to_owned(),
        };
        let label = ui.label("Beside").id;
        let shown = font::fit(&name(self.beside), 13.5, 126.0);
        let list = combo(ui, "beside", 150.0, shown, |ui| {
            ui.selectable_value(&mut self.beside, None, name(None));
            for column in cx.state.columns.keys().filter(|column| Some(**column) != cx.focus) {
                ui.selectable_value(&mut self.beside, Some(*column), name(Some(*column)));
            }
        });
        list.widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Beside"));
        list.labelled_by(label);
        self.disagreements(ui, cx);
    }

    /// Offers to show only images of which the two predict different classes, the largest differences first.
    fn disagreements(&self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let filter = &cx.state.gallery_filter;
        let known = |column: ColumnId| cx.state.evaluation_of(column).is_some_and(|found| found.is_ok());
        let both = cx.focus.zip(self.beside).filter(|(one, other)| known(*one) && known(*other));
        if let Some((_, other)) = both {
            let mut on = filter.differs == Some(other);
            let about = "Only images for which the two predict different classes, largest differences first";
            if ui.checkbox(&mut on, "Disagreements").on_hover_text(about).clicked() {
                let (differs, sort) =
                    if on { (Some(other), Sort::Disagreement(other)) } else { (None, Sort::Opened) };
                let filter = GalleryFilter { differs, sort, rising: false, ..filter.clone() };
                cx.send(Command::SetGalleryFilter(Box::new(filter)));
            }
        } else if self.beside.is_some() && Action::EvaluateShown.enabled(cx.state) {
            let about = "Evaluates both on the dataset; then only their disagreements can be shown";
            if ui.button("Find disagreements").on_hover_text(about).clicked() {
                cx.choose(Action::EvaluateShown);
            }
        }
    }
}
