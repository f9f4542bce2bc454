//! The gallery as a pane: a contact sheet of all images at an adjustable size, with token weights or evidence laid over
//! each, for one probe or two side by side, and optionally only images on which the two disagree.

use egui::{Margin, Slider};

use super::gallery::Gallery;
use super::overview::on_one_line;
use super::tile::Sheet;
use crate::app::state::{GalleryFilter, Overlay, SheetView, Sort};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::fitted_choice;

/// Range of the side of a picture.
const SIDES_PX: std::ops::RangeInclusive<u16> = 56..=280;

#[derive(Default)]
pub struct ContactSheet(Gallery);

impl Panel for ContactSheet {
    fn info(&self) -> Info {
        Info {
            id: "gallery",
            title: "Gallery",
            about: "All images as a contact sheet, with evidence or weights over them; two probes side by side, and where they disagree",
            tab: TabGroup::Page.tab(),
        }
    }

    fn ui(&mut self, ui: &mut Ui, cx: &mut PanelContext<'_>) {
        let beside = cx.state.selection.beside.filter(|column| cx.focus != Some(*column));
        egui::Frame::new().inner_margin(Margin::symmetric(10, 6)).show(ui, |ui| {
            if !cx.state.library.images.is_empty() {
                ui.horizontal_wrapped(|ui| controls(ui, cx, beside));
            }
            let columns = cx.focus.into_iter().chain(beside).collect();
            let SheetView { side, overlay } = cx.state.views.sheet;
            let sheet = Sheet { side: side.into(), overlay, columns, numbers: false };
            self.0.show(ui, cx, sheet);
        });
    }
}

/// Draws the controls above the pictures; `beside` is the column that is shown beside the focused one.
fn controls(ui: &mut Ui, cx: &mut PanelContext<'_>, beside: Option<ColumnId>) {
    let before = cx.state.views.sheet;
    let mut view = before;
    let label = ui.label("Size").id;
    ui.spacing_mut().slider_width = 110.0;
    ui.add(Slider::new(&mut view.side, SIDES_PX).show_value(false)).labelled_by(label);
    if cx.focus.is_some() {
        let list = fitted_choice(ui, "overlay", &mut view.overlay, Overlay::ALL, |one| one.name());
        list.accessible_name("Overlay").on_hover_text("What is laid over each image, each on its own scale");
        on_one_line(ui, |ui| {
            let chosen = cx.other_column(ui, "Beside", "no other probe", beside, |_| true);
            if chosen != beside {
                cx.send(Command::SetBeside(chosen));
            }
        });
        disagreements(ui, cx, beside);
    }
    if view != before {
        cx.send(Command::SetSheetView(view));
    }
}

/// Offers to show only images of which the two predict different classes, the largest differences first.
fn disagreements(ui: &mut Ui, cx: &mut PanelContext<'_>, beside: Option<ColumnId>) {
    let filter = &cx.state.gallery_filter;
    let known = |column: ColumnId| cx.state.evaluation_of(column).is_some_and(|found| found.is_ok());
    let both = cx.focus.zip(beside).filter(|(one, other)| known(*one) && known(*other));
    if let Some((_, other)) = both {
        let mut on = filter.differs == Some(other);
        let about = "Only images for which the two predict different classes, largest differences first";
        if ui.checkbox(&mut on, "Disagreements").on_hover_text(about).clicked() {
            let (differs, sort) =
                if on { (Some(other), Sort::Disagreement(other)) } else { (None, Sort::Opened) };
            let filter = GalleryFilter { differs, sort, rising: false, ..filter.clone() };
            cx.send(Command::SetGalleryFilter(Box::new(filter)));
        }
    } else if beside.is_some() && Action::EvaluateShown.enabled(cx.state) {
        let about = "Evaluates both on the dataset; then only their disagreements can be shown";
        if ui.button("Find disagreements").on_hover_text(about).clicked() {
            cx.choose(Action::EvaluateShown);
        }
    }
}
