//! The lines above the gallery: filter and order of the images.

use super::similarity;
use crate::app::format::count;
use crate::app::jobs::ImageId;
use crate::app::state::{Dataset, GalleryFilter, Image, Outcome, Scope, Sort};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::{choice_frame, label_within, lasting_menu_button, star};
use crate::viz::figures::dataset::label;

/// Maximum width of the choices.
const MENU_WIDTH_PX: f32 = 320.0;
/// From this width everything is in one line.
const WIDE_PX: f32 = 900.0;

/// Draws the lines. Choices that need an evaluation are offered once there is one; a filter by outcome stays until it is removed.
/// In a `short` gallery everything but the text filter is in a menu.
pub fn ui(ui: &mut Ui, cx: &mut PanelContext<'_>, short: bool) {
    let before = cx.state.filter_in_effect();
    let mut filter = before.clone();
    let offered = cx.state.gallery_dataset().is_some();
    let wide = offered && !short && ui.available_width() >= WIDE_PX;
    ui.spacing_mut().item_spacing.y = 4.0;
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let menu = short && offered;
        let beside = match (wide, menu) {
            (true, _) if cx.evaluation().is_some() => 2.0 * MENU_WIDTH_PX + 8.0,
            (true, _) => MENU_WIDTH_PX / 2.0 + 4.0,
            (_, true) => font::width("Filter", 13.5).ceil() + 2.0 * ui.spacing().button_padding.x + 2.0,
            _ => 0.0,
        };
        let width = ui.available_width() - 28.0 - beside;
        let hint = "Filter by name, folder, class or note";
        let edit = TextEdit::singleline(&mut filter.text).hint_text(hint).desired_width(width);
        field(ui, "Filter images", edit);
        let star = star(ui, filter.starred, "Starred images only");
        if star.on_hover_text("Starred images only").clicked() {
            filter.starred = !filter.starred;
        }
        if menu {
            lasting_menu_button(ui, egui::Button::new("Filter"), |ui| {
                ui.set_width(MENU_WIDTH_PX);
                choices(ui, cx, &mut filter);
            });
        }
        if wide {
            choices(ui, cx, &mut filter);
        }
    });
    scope(ui, cx, &mut filter);
    if !short && !wide {
        choices(ui, cx, &mut filter);
    }
    if let Some(error) = cx.state.evaluation_error(cx.focus).filter(|_| offered) {
        let text = style::failure(ui, error.one_line()).small();
        ui.add(Label::new(text).wrap()).on_hover_text(error.to_string());
    }
    if !filter.is_open() {
        ui.horizontal(|ui| {
            let (shown, all) = (cx.shown.ids.len(), cx.shown.in_scope);
            let what = if shown < all { "filtered" } else { "sorted" };
            let what = filter.only.as_ref().map_or(what, |(what, _)| what.as_str());
            let text = format!("{} of {}: {what}", count(shown), count(all));
            label_within(ui, RichText::new(&text).weak(), ui.available_width() - 84.0).on_hover_text(text);
            if ui.small_button("Show all").on_hover_text("No filter, in the order they were opened").clicked()
            {
                filter = GalleryFilter::new(filter.scope);
            }
        });
    }
    if filter != before {
        cx.send(Command::SetGalleryFilter(Box::new(filter)));
    }
}

/// Chooses a dataset, the images of none, or all images, if there is more than one. Choosing a dataset makes it current.
fn scope(ui: &mut Ui, cx: &mut PanelContext<'_>, filter: &mut GalleryFilter) {
    let (library, loose) = (&cx.state.library, cx.shown.loose);
    if library.datasets.len() + usize::from(loose) < 2 {
        return;
    }
    let name = |scope: &Scope| match scope {
        Scope::All => "All images".to_owned(),
        Scope::Dataset(id) => library.datasets.get(id).map_or_else(String::new, Dataset::name),
        Scope::Loose => "Not in a dataset".to_owned(),
    };
    let before = filter.scope;
    let datasets = library.datasets.keys().copied().map(Scope::Dataset);
    let all = std::iter::once(Scope::All).chain(datasets).chain(loose.then_some(Scope::Loose));
    let width = ui.available_width();
    choice(ui, "images of", width, &mut filter.scope, all, name).accessible_name("Images of");
    if filter.scope != before {
        match filter.scope {
            Scope::Dataset(id) => {
                filter.scope = before;
                cx.send(Command::UseDataset(id));
            }
            // Filters by class do not carry over to other images.
            scope => *filter = GalleryFilter::new(scope),
        }
    }
}

/// Draws the filters and orders that only images of one dataset have.
fn choices(ui: &mut Ui, cx: &PanelContext<'_>, filter: &mut GalleryFilter) {
    let Some(part) = cx.state.gallery_dataset().and_then(|id| cx.state.library.split(id)) else { return };
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let whole = ui.available_width().min(MENU_WIDTH_PX);
        let outcomes = cx.evaluation().is_some() || filter.outcome != Outcome::Any;
        // The classes take what the outcomes leave; in a narrow list either has half of it.
        let fitted = font::widest(Outcome::ALL.map(Outcome::name), 13.5).ceil() + choice_frame(ui);
        let right = fitted.min((whole - 4.0) / 2.0);
        classes(ui, &part.set.classes, filter, if outcomes { whole - 4.0 - right } else { whole });
        if outcomes {
            let list = choice(ui, "outcome", right, &mut filter.outcome, Outcome::ALL, |one| one.name());
            list.accessible_name("Right or wrong");
        }
    });
    order(ui, cx, filter);
}

fn classes(ui: &mut Ui, names: &[String], filter: &mut GalleryFilter, width: f32) {
    let name = |class: &Option<u32>| match class {
        Some(class) => names.get(*class as usize).map_or("", String::as_str),
        None => "All classes",
    };
    let all = std::iter::once(None).chain((0..names.len() as u32).map(Some));
    let list = choice(ui, "class of the dataset", width, &mut filter.class, all, name);
    list.accessible_name("Class of the images");
}

/// Chooses the order: by a measure of the focused probe, by similarity to an image, or by disagreement with another probe.
fn order(ui: &mut Ui, cx: &PanelContext<'_>, filter: &mut GalleryFilter) {
    let found = |column| cx.state.evaluation_of(column).and_then(Result::ok);
    let Some(evaluation) = cx.focus.and_then(found) else { return };
    let name = |sort: &Sort| match sort {
        Sort::Opened => "As opened".to_owned(),
        Sort::Measure(measure) => label(measure),
        Sort::Disagreement(column) => format!("Disagreement with {}", cx.state.column_title(*column)),
        Sort::Similarity(image) => {
            let image = cx.state.library.images.get(image).map(Image::name);
            format!("Like {}", image.unwrap_or_default())
        }
    };
    let alike = match filter.sort {
        Sort::Similarity(image) => Some(image),
        _ => cx.state.selection.image.filter(|_| cx.state.current_image().is_some_and(|i| i.label.is_some())),
    };
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let button = font::width("Descending", 13.5).ceil() + 2.0 * ui.spacing().button_padding.x + 4.0;
        let width = ui.available_width().min(MENU_WIDTH_PX) - button;
        let measures = evaluation.measures.keys().map(|measure| Sort::Measure((*measure).to_owned()));
        let others = cx.state.columns.keys().filter(|column| Some(**column) != cx.focus);
        let others = others.filter(|column| found(**column).is_some()).copied().map(Sort::Disagreement);
        let alike = alike.map(Sort::Similarity);
        let all = std::iter::once(Sort::Opened).chain(measures).chain(alike).chain(others);
        choice(ui, "order", width, &mut filter.sort, all, name).accessible_name("Order of the images");
        let text = if filter.rising { "Ascending" } else { "Descending" };
        let button = ui.add_enabled(filter.sort != Sort::Opened, egui::Button::new(text));
        let button = button.on_hover_text("Which end comes first");
        if button.on_disabled_hover_text("Choose what to sort by first").clicked() {
            filter.rising = !filter.rising;
        }
    });
}

/// Draws the controls of similarity to `image`, and why there is none or all images are alike.
pub fn similar_to(ui: &mut Ui, cx: &mut PanelContext<'_>, image: ImageId) {
    let Some(label) = cx.state.library.images.get(&image).and_then(|image| image.label) else { return };
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        similarity::controls(ui, cx);
        let evaluated = cx.focus.and_then(|column| cx.state.evaluation_on(label.dataset, column));
        match evaluated {
            Some(Ok(_)) => {}
            _ if cx.state.evaluations.job().is_some() => drop(ui.weak("Evaluating the dataset…")),
            _ => _ = cx.button(ui, egui::Button::new("Evaluate first"), Action::EvaluateShown),
        }
    });
    match similarity::space(cx, label.dataset).0 {
        Some(Ok(space)) if !space.knows(label.at) => {
            ui.weak("This image has no such values to compare");
        }
        Some(Ok(space)) if space.is_uniform() => {
            ui.weak("All images are alike by this measure: they are in the order of the dataset");
        }
        Some(Err(error)) => drop(ui.weak(error.to_string())),
        Some(Ok(_)) | None => {}
    }
}
