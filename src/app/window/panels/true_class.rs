//! The true class of an image, if its dataset names one, compared with a probe's prediction.

use crate::app::jobs::{ClassChoice, ProbeId};
use crate::app::state::{Column, Image, State};
use crate::app::window::panels::prelude::*;
use crate::app::window::widgets::keep_together;
use crate::model::data::synsets;

/// The image that a column shows, and its true class.
fn of_column<'a>(state: &'a State, column: &Column) -> Option<(&'a Image, &'a str)> {
    let image = state.library.images.get(&column.image.or(state.selection.image)?)?;
    Some((image, state.library.true_class(image)?))
}

/// The rank of a class among all logits, from 1, the first of equals first, and its probability by softmax.
fn rank(logits: &[f32], class: usize) -> Option<(usize, f64)> {
    let own = *logits.get(class)?;
    let is_before = |&(at, logit): &(usize, &f32)| *logit > own || *logit == own && at < class;
    let higher = logits.iter().enumerate().filter(is_before).count();
    let total: f64 = logits.iter().map(|logit| (f64::from(*logit) - f64::from(own)).exp()).sum();
    Some((higher + 1, 1.0 / total))
}

/// An English ordinal, such as `2nd`.
fn ordinal(n: usize) -> String {
    let end = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}

/// Says whether the true class was predicted, or at which rank it is.
fn verdict(own: &str, found: Option<(usize, f64)>) -> String {
    match found {
        Some((1, share)) => format!("Right: true class {own} ({:.1} %)", 100.0 * share),
        Some((at, share)) => {
            format!("Wrong: true class {own} ranked {} ({:.1} %)", ordinal(at), 100.0 * share)
        }
        None => format!("True class {own}: unknown to the probe"),
    }
}

/// What there is to say of a column's prediction where the true class of its image is known, and whether it is right.
pub fn of_prediction(state: &State, column: &Column, trace: &Trace) -> Option<(String, Option<bool>)> {
    let (image, own) = of_column(state, column)?;
    // If several classes share the name and cannot be told apart, the one ranked first counts.
    let same = state.library.true_classes(image, column.probe).into_iter().flatten();
    let found = same.filter_map(|class| rank(&trace.logits, class)).min_by_key(|(at, _)| *at);
    Some((verdict(own, found), found.map(|(at, _)| at == 1)))
}

/// A line with the image's true class and its rank under the focused probe.
pub fn ui(ui: &mut Ui, cx: &PanelContext<'_>, trace: &Trace) {
    let said = cx.column().and_then(|column| of_prediction(cx.state, column, trace));
    let Some((text, right)) = said else { return };
    if cx.is_outdated() {
        return drop(ui.label("")); // the trace is of another image than the class
    }
    let color = style::outcome(cx.theme, right);
    ui.horizontal(|ui| {
        ui.add_space(8.0);
        ui.add(egui::Label::new(RichText::new(text).color(color32(color))).wrap());
    });
}

/// The word that asks for the class that a trace of a column is for; the name alone while its probe is opened again.
pub fn class_word(state: &State, column: &Column, trace: &Trace) -> Option<String> {
    let class = trace.evidence.class;
    let name = || trace.top.iter().find(|known| known.index == class).map(|known| known.name.clone());
    state.library.class_word(column.probe, class).or_else(name)
}

/// Where columns show evidence for different classes, which shared scales cannot compare, offers one class for all.
pub fn offer_one_class(ui: &mut Ui, cx: &mut PanelContext<'_>) {
    let explained = || cx.state.compared().filter_map(|(_, column)| Some((column, column.shown.trace()?)));
    let shown: Vec<Option<String>> =
        explained().map(|(column, trace)| class_word(cx.state, column, trace)).collect();
    let id = |class: &Option<String>| class.as_deref().map(synsets::id).map(str::to_owned);
    if shown.iter().all(|class| id(class) == id(&shown[0])) {
        return;
    }
    let own = cx.state.current_image().and_then(|image| cx.state.library.true_class_word(image));
    let own =
        own.map(|name| (name.clone(), "The true class, in all columns", cx.state.true_class_in_all(name)));
    let predicted = shown[0].clone();
    let predicted = predicted.map(|name| {
        let command = Command::SetClass(ClassChoice::Named(name.clone()));
        (name, "The predicted class of the first column, in all of them", command)
    });
    // Probes of several datasets may share no class.
    let is_shared = |(name, ..): &(String, _, _)| {
        explained().all(|(column, _)| cx.state.library.has_class(column.probe, name))
    };
    let mut offers: Vec<_> = own.into_iter().chain(predicted).filter(is_shared).collect();
    offers.dedup_by(|later, earlier| synsets::same_class(&later.0, &earlier.0));
    let about = "Columns show evidence for different classes";
    let text = if offers.is_empty() { about } else { "Classes differ; show" };
    let buttons: f32 = offers.iter().map(|(name, ..)| font::width(name, 13.5) + 20.0).sum();
    keep_together(ui, font::width(text, 13.5) + buttons);
    // A row of its own, as wrapped lines do not centre their first label.
    ui.horizontal_wrapped(|ui| {
        ui.weak(text).on_hover_text(about);
        for (name, about, command) in offers {
            if ui.button(name).on_hover_text(about).clicked() {
                cx.send(command);
            }
        }
    });
}

/// Evidence for different classes cannot be subtracted: offers to show the class of `reference`, the pinned column's, in all, where
/// this probe has it.
pub fn offer_class_of(ui: &mut Ui, cx: &mut PanelContext<'_>, probe: ProbeId, reference: &Trace) {
    let pinned = cx.state.selection.reference.and_then(|id| cx.state.columns.get(&id));
    let known = pinned.and_then(|pinned| class_word(cx.state, pinned, reference));
    let hint = "The pinned column's evidence is for another class";
    let known = known.filter(|name| cx.state.library.has_class(probe, name));
    let Some(name) = known else { return placeholder::empty(ui, hint) };
    if placeholder::invite(ui, hint, &format!("Evidence for {name} everywhere")) {
        cx.send(Command::SetClass(ClassChoice::Named(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_stands_where_its_logit_does() {
        let (at, share) = rank(&[0.0, 2.0, 1.0], 2).expect("there are three");
        assert_eq!(at, 2);
        assert!((share - 1.0f64.exp() / (1.0 + 2.0f64.exp() + 1.0f64.exp())).abs() < 1e-9);
        assert_eq!(rank(&[1.0], 4), None);
        let ranks = [0, 1, 2].map(|class| rank(&[2.0, 1.0, 2.0], class).map(|(at, _)| at));
        assert_eq!(ranks, [Some(1), Some(3), Some(2)], "of equal logits the first class is predicted");
        assert_eq!(verdict("airplane", Some((3, 0.2024))), "Wrong: true class airplane ranked 3rd (20.2 %)");
        assert_eq!(verdict("owl", Some((1, 0.5))), "Right: true class owl (50.0 %)");
        assert_eq!(
            [1, 2, 3, 4, 11, 22, 113].map(ordinal),
            ["1st", "2nd", "3rd", "4th", "11th", "22nd", "113th"]
        );
    }
}
