//! The command palette: finds actions by typed words, chosen with the keyboard.

use std::sync::Arc;

use eframe::egui;
use egui::{Context, Event, Key, Modifiers, RichText, ScrollArea, Sense, Ui, Vec2};

use super::dialog::{self, Answer};
use crate::app::jobs::ImageId;
use crate::app::state::command::{Action, Command, Shortcut};
use crate::app::state::settings::ThemeChoice;
use crate::app::state::{Image, State};
use crate::app::window::panels::{Panel, PanelPlace, UiAction};
use crate::app::window::widgets::{field, list_height, tell_row};
use crate::viz::figures::dataset::folded;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{FIGURES, find};

/// Height of the list.
const LIST_PX: f32 = 360.0;
/// Most probes, and most images, that are found at once.
const MAX_FOUND: usize = 30;

#[derive(Default)]
pub struct Palette {
    text: String,
    selected: usize,
    images: FoundImages,
}

/// The images that were found last; and for what: the typed text, and the library's images.
#[derive(Default)]
struct FoundImages {
    query: (String, u64),
    ids: Vec<ImageId>,
}

struct Line {
    text: String,
    about: String,
    /// Synonyms it is also found by.
    words: &'static str,
    key: String,
    /// Why it cannot be chosen now.
    missing: Option<&'static str>,
    action: UiAction,
}

impl Palette {
    /// A palette with `text` already typed.
    pub fn with_text(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// A palette with what was typed after its key in the same frame, as in slow ones, unless a field has taken it.
    pub fn opened(ctx: &Context) -> Self {
        if ctx.text_edit_focused() { Self::default() } else { Self::with_text(&typed(ctx)) }
    }

    pub fn ui(&mut self, ui: &Ui, state: &State, panels: &[Box<dyn Panel>]) -> Answer<UiAction> {
        let ctx = ui.ctx();
        let (up, down, enter) = ctx.input_mut(|i| {
            let mut key = |key| i.consume_key(Modifiers::NONE, key);
            (key(Key::ArrowUp), key(Key::ArrowDown), key(Key::Enter))
        });
        dialog::show_at_top(ctx, "palette", |ui| {
            ui.set_width(560.0);
            let hint = "Type a few letters of what you want to do";
            let edit = egui::TextEdit::singleline(&mut self.text)
                .hint_text(hint)
                .desired_width(f32::INFINITY)
                .margin(egui::Margin::symmetric(8, 6));
            let edit = field(ui, "Find action", edit);
            if edit.changed() {
                self.selected = 0;
            } else {
                self.text.push_str(&typed(ui.ctx())); // it had no focus yet
            }
            if ui.memory(|memory| memory.focused().is_none()) {
                edit.request_focus(); // after a click beside it
            }
            // After the field: Enter may come in the frame of the last letters.
            let lines = lines(state, panels, &self.text, &mut self.images);
            self.selected = (self.selected + usize::from(down)).min(lines.len().saturating_sub(1));
            self.selected = self.selected.saturating_sub(usize::from(up));
            ui.separator();
            if lines.is_empty() {
                ui.weak("No action matches these words");
            }
            // Without a minimum height the list would stay as low as after a search without results.
            let (area, high) = (ScrollArea::vertical().auto_shrink([false, true]), list_height(ui, LIST_PX));
            let mut answer = Answer::Open;
            area.max_height(high).min_scrolled_height(high).show(ui, |ui| {
                ui.spacing_mut().item_spacing.y = 1.0;
                for (at, line) in lines.iter().enumerate() {
                    let response = line_ui(ui, line, at == self.selected);
                    if at == self.selected && (up || down) {
                        response.scroll_to_me(None);
                    }
                    if at == self.selected && at > 0 {
                        tell_row(edit.id, &response);
                    }
                    if response.clicked() || (enter && at == self.selected && line.missing.is_none()) {
                        answer = Answer::Given(line.action.clone());
                    }
                }
            });
            answer
        })
    }
}

/// The letters that were typed in this frame.
fn typed(ctx: &Context) -> String {
    let text = |event: &Event| if let Event::Text(text) = event { Some(text.clone()) } else { None };
    ctx.input(|i| i.events.iter().filter_map(text).collect())
}

fn line_ui(ui: &mut Ui, line: &Line, selected: bool) -> egui::Response {
    // The arrow keys choose a line: the focus stays in the field.
    let button = egui::Button::selectable(selected, &line.text)
        .sense(Sense::CLICK)
        .right_text(RichText::new(&line.key).small().weak())
        .min_size(Vec2::new(ui.available_width(), 26.0));
    let row = ui.add_enabled(line.missing.is_none(), button).on_hover_text(&line.about);
    row.on_disabled_hover_text(line.missing.unwrap_or_default())
}

/// All lines whose text, synonyms or explanation contain every typed word. Enabled lines come first; among them those
/// whose text begins with what is typed, then those with all words in the text, then in text and synonyms.
fn lines(state: &State, panels: &[Box<dyn Panel>], text: &str, known: &mut FoundImages) -> Vec<Line> {
    // Not those that only open the palette.
    let actions = Action::ALL.iter().filter(|action| !matches!(action, Action::Palette | Action::Export));
    let actions = actions.map(|action| Line {
        text: action.text().to_owned(),
        about: action.tooltip().to_owned(),
        words: action.synonyms(),
        key: action.shortcut().map(Shortcut::text).unwrap_or_default(),
        missing: (!action.enabled(state)).then(|| action.missing()),
        action: UiAction::Action(*action),
    });
    let panes = panels.iter().filter(|panel| panel.place() != PanelPlace::Left);
    let panes = panes.map(|panel| {
        let attributes = find(panel.id()).is_some_and(|figure| figure.attribution().is_some());
        let words = if attributes { "attribution saliency heatmap" } else { "" };
        let title = format!("Show pane {}", panel.title());
        Line { words, ..line(title, panel.about().to_owned(), UiAction::Show(panel.id())) }
    });
    let text = folded(text);
    let holds = |known: String| {
        let known = folded(&known);
        text.split_whitespace().all(|word| known.contains(word))
    };
    let titled = |line: &Line| holds(line.text.clone());
    let named = |line: &Line| holds(format!("{} {}", line.text, line.words));
    let found = |line: &Line| holds(format!("{} {} {}", line.text, line.words, line.about));
    let mut lines: Vec<Line> = actions.chain(panes).chain(themes()).chain(figures(state)).collect();
    lines.retain(found);
    if !text.trim().is_empty() {
        // Only the first few of thousands: typing more letters finds the rest.
        lines.extend(probes(state).filter(found).take(MAX_FOUND));
        let images = &state.library.images;
        let query = (text.clone(), images.revision());
        if known.query != query {
            let ids = images.iter().filter(|(id, image)| found(&image_line(**id, image))).map(|(id, _)| *id);
            *known = FoundImages { query, ids: ids.take(MAX_FOUND).collect() };
        }
        lines.extend(known.ids.iter().filter_map(|id| Some(image_line(*id, images.get(id)?))));
    }
    let begins = |line: &Line| folded(&line.text).starts_with(text.trim());
    lines.sort_by_cached_key(|line| (line.missing.is_some(), !begins(line), !titled(line), !named(line)));
    lines
}

fn line(text: String, about: String, action: UiAction) -> Line {
    Line { text, about, words: "", key: String::new(), missing: None, action }
}

fn themes() -> impl Iterator<Item = Line> {
    ThemeChoice::ALL.into_iter().map(|choice| {
        let command = UiAction::Command(Command::SetTheme(choice));
        line(format!("{} theme", choice.name()), "Colours of the window".to_owned(), command)
    })
}

/// Export and copy of every figure of the focused probe.
fn figures(state: &State) -> Vec<Line> {
    let Some(trace) = state.focused_trace() else { return Vec::new() };
    let lines = FIGURES.iter().flat_map(|figure| {
        let (id, title) = (figure.id(), figure.title());
        let about = format!("{} through {}", trace.image, trace.probe);
        // As in the figure's own pane: one probe fills its own scale.
        let plot = Arc::new(TracePlot::new(*figure, trace, state.views.figure_options(id)));
        let export = line(format!("Export {title}…"), about.clone(), UiAction::Export(plot.clone()));
        let copy = line(format!("Copy image of {title}"), about, UiAction::CopyImage(plot));
        [Line { words: "save figure", ..export }, Line { words: "figure", ..copy }]
    });
    lines.collect()
}

fn probes(state: &State) -> impl Iterator<Item = Line> {
    let names = state.library.probe_names();
    state.library.probes.iter().flat_map(move |(id, probe)| {
        let (name, about) = (&names[id], probe.path.display().to_string());
        let show = UiAction::Command(Command::ShowProbe(*id));
        let add = UiAction::Command(Command::Compare(vec![*id]));
        let show = line(format!("Show probe {name}"), about.clone(), show);
        [show, line(format!("Add probe {name} to Compare"), about, add)]
    })
}

fn image_line(id: ImageId, image: &Image) -> Line {
    let text = format!("Go to image {}/{}", image.folder(), image.name());
    line(text, image.source.to_string(), UiAction::Command(Command::SelectImage(id)))
}
