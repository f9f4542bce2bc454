//! The dialog for sharing findings: which ones, format, theme, destination, and an estimate of the size.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui;
use egui::{ComboBox, Label, RadioButton, RichText, ScrollArea, TextEdit, Ui};

use super::dialog::{self, Answer, Chosen};
use super::file_request::FileRequest;
use crate::app::format::{self, counted};
use crate::app::jobs::Cancel;
use crate::app::jobs::user_error::UserError;
use crate::app::paths::expanded;
use crate::app::report::findings;
use crate::app::state::command::Command;
use crate::app::state::share::{Share, ShareKind};
use crate::app::state::{Finding, Probe, State};
use crate::app::window::background::Outcome;
use crate::app::window::on_disk::{Found, OnDisk};
use crate::app::window::{MainWindow, WindowOrder, layout, style, widgets};
use crate::model::data::synsets::same_class;
use crate::model::trace::Trace;
use crate::viz;
use crate::viz::draw::theme::FileTheme;
use crate::viz::export::ExportFormat;

/// Height of the list of probes.
const PROBES_PX: f32 = 108.0;
/// The width of the list of classes.
const CLASSES_PX: f32 = 280.0;

/// What an estimate of the size is for: whether all findings are shared, the kind of output, theme and format.
type Estimated = (bool, ShareKind, FileTheme, ExportFormat);

pub struct ShareDialog {
    /// What is shown now as a finding; `None` without an image.
    now: Option<Finding>,
    /// Whether all findings are shared instead of what is shown now.
    all: bool,
    /// Files of the probes, and whether each is included.
    probes: Vec<(PathBuf, bool)>,
    /// Filter of the listed classes.
    class_filter: String,
    /// The request without its findings and its destination.
    share: Share,
    path: String,
    /// The last estimate of the size in bytes, of nothing and of each explanation, with the choices it is for.
    size: Option<(Estimated, [u64; 2])>,
    disk: OnDisk,
    error: Option<String>,
}

impl ShareDialog {
    /// Shares all findings if there are any, else what is shown `now`.
    pub fn new(now: Option<Finding>, state: &State) -> Self {
        let all = state.findings.iter().len() > 0;
        let title = now.as_ref().filter(|_| !all).map_or_else(|| "Findings".to_owned(), Finding::name);
        let (kind, theme, format) = (ShareKind::Page, FileTheme::Print, ExportFormat::Svg);
        let (findings, classes) = (Vec::new(), Vec::new());
        let share = Share { findings, title, kind, theme, format, classes, to: PathBuf::new() };
        let folder = directories::UserDirs::new().map(|dirs| dirs.home_dir().to_owned()).unwrap_or_default();
        let path = folder.join("findings.html").display().to_string();
        let (probes, class_filter, size, error) = (Vec::new(), String::new(), None, None);
        Self { now, all, probes, class_filter, share, path, size, disk: OnDisk::default(), error }
    }

    /// Sets the destination to one that was chosen in a dialog.
    pub fn set_path(&mut self, path: &Path) {
        self.path = path.display().to_string();
        self.sync_extension();
    }

    pub fn ui(&mut self, ui: &Ui, state: &State) -> Answer<Chosen<Box<Share>>> {
        dialog::show(ui.ctx(), "share", 540.0, "Share with others", |ui| self.contents(ui, state))
    }

    fn contents(&mut self, ui: &mut Ui, state: &State) -> Answer<Chosen<Box<Share>>> {
        let chosen = dialog::fields("share").show(ui, |ui| self.fields(ui, state)).inner;
        let share = self.request(state);
        self.summary(ui, state, &share);
        let ready = self.check_destination(ui) && !share.findings.is_empty() && !state.is_sharing();
        if state.is_sharing() {
            ui.weak("Something is being shared: see Jobs and log for its progress");
        }
        let found = self.disk.at(ui, &share.to);
        let may_replace = share.kind == ShareKind::Page && matches!(found, Found::File | Found::Unknown);
        let replaced = share.to.file_name().filter(|_| may_replace);
        if let Some(name) = replaced {
            ui.label(format!("Exists and will be replaced: {}", name.to_string_lossy()));
        }
        let verb = if replaced.is_some() { dialog::REPLACE } else { "Share" };
        let share = Chosen::Done(Box::new(share));
        chosen.or(dialog::buttons(ui, verb, ready, share))
    }

    fn fields(&mut self, ui: &mut Ui, state: &State) -> Answer<Chosen<Box<Share>>> {
        let mut answer = Answer::Open;
        let count = state.findings.iter().len();
        ui.label("What");
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 16.0; // each name closer to its own mark than to the next
            // What is chosen at first comes first, so that it has the focus.
            let text = counted(count, "finding", "findings");
            let radio = ui.add_enabled(count > 0, RadioButton::new(self.all, text));
            if radio.on_disabled_hover_text("Keep what is shown as a finding first (N)").clicked() {
                self.all = true;
            }
            let radio =
                ui.add_enabled(self.now.is_some(), RadioButton::new(!self.all, "This image, as shown"));
            if radio.on_disabled_hover_text("Choose an image first").clicked() {
                self.all = false;
            }
        });
        ui.end_row();
        let wanted: Vec<Finding> = self.findings(state).cloned().collect();
        let views = wanted.iter().filter_map(|finding| finding.view.as_deref());
        let shown: Vec<&PathBuf> = views.flat_map(|view| &view.columns).map(|column| &column.probe).collect();
        for probe in &shown {
            if self.probes.iter().all(|(path, _)| path != *probe) {
                self.probes.push(((*probe).clone(), true));
            }
        }
        ui.vertical(|ui| ui.horizontal(|ui| ui.label("Probes"))); // level with the first of them
        ui.spacing_mut().scroll.floating_allocated_width = 6.0; // its bar is beside the names
        let list = ScrollArea::vertical().id_salt("probes").min_scrolled_height(PROBES_PX);
        list.max_height(PROBES_PX).show(ui, |ui| {
            ui.vertical(|ui| {
                ui.spacing_mut().item_spacing.y = 2.0;
                for (path, on) in self.probes.iter_mut().filter(|(path, _)| shown.contains(&path)) {
                    let name = Probe::name_among(path, shown.iter().copied());
                    ui.checkbox(on, name).on_hover_text(path.display().to_string());
                }
            });
            widgets::follow_focus(ui);
        });
        ui.end_row();
        self.classes(ui, state);
        let label = ui.label("As").id;
        let all = [ShareKind::Page, ShareKind::Figures];
        let name = |kind: &ShareKind| match kind {
            ShareKind::Page => "A page that any browser shows, offline",
            ShareKind::Figures => "A folder of the figures that are shown",
        };
        let kind = self.share.kind;
        widgets::choice(ui, "share as", 280.0, &mut self.share.kind, all, name).labelled_by(label);
        if self.share.kind != kind {
            self.sync_extension();
        }
        ui.end_row();
        if self.share.kind == ShareKind::Figures {
            let label = ui.label("Format").id;
            let (all, name) = (ExportFormat::PICTURES, |format: &ExportFormat| format.name());
            widgets::choice(ui, "share format", 280.0, &mut self.share.format, all, name).labelled_by(label);
            ui.end_row();
        }
        let label = ui.label("Theme").id;
        let name = |theme: &FileTheme| match (theme, self.share.kind) {
            (FileTheme::Print, ShareKind::Page) => "The reader's own",
            (theme, _) => theme.name(),
        };
        let theme = &mut self.share.theme;
        widgets::choice(ui, "share theme", 280.0, theme, FileTheme::ALL, name).labelled_by(label);
        ui.end_row();
        if self.share.kind == ShareKind::Page {
            ui.label("Title");
            let edit = TextEdit::singleline(&mut self.share.title).desired_width(dialog::field_width(ui));
            widgets::field(ui, "Title", edit);
            ui.end_row();
        }
        ui.label(if self.share.kind == ShareKind::Page { "File" } else { "Folder" });
        ui.horizontal(|ui| {
            let edit = TextEdit::singleline(&mut self.path).desired_width(dialog::field_width(ui));
            widgets::field(ui, "Share to", edit);
            if ui.button("Choose…").clicked() {
                let is_page = self.share.kind == ShareKind::Page;
                let name = is_page.then(|| format::file_name(Path::new(&self.path)));
                answer = Answer::Given(Chosen::File(FileRequest::Share(name)));
            }
        });
        ui.end_row();
        answer
    }

    /// Chooses classes, among those of the open probes, that evidence is for besides each finding's own.
    fn classes(&mut self, ui: &mut Ui, state: &State) {
        let label = ui.label("Classes").id;
        let own = if self.all { "Each finding's own" } else { "The one shown now" };
        let shown = match &self.share.classes[..] {
            [] => own.to_owned(),
            [one] => format!("{own}, and {one}"),
            more => format!("{own}, and {} more", more.len()),
        };
        let room = CLASSES_PX - widgets::choice_frame(ui);
        let combo = ComboBox::from_id_salt("share classes")
            .width(CLASSES_PX)
            .selected_text(widgets::fit(ui, shown, room))
            .close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside);
        let response = widgets::combo_of(ui, combo, |ui| {
            let chosen = &mut self.share.classes;
            widgets::class_list(ui, &state.library.classes(), &mut self.class_filter, 200.0, |ui, name| {
                let mut on = chosen.iter().any(|other| same_class(other, name));
                if ui.checkbox(&mut on, name).changed() {
                    chosen.retain(|other| !same_class(other, name));
                    chosen.extend(on.then(|| name.clone()));
                }
            });
        });
        let tooltip = "What evidence is for; readers of the page choose among them";
        response.labelled_by(label).on_hover_text(tooltip);
        ui.end_row();
    }

    fn findings<'a>(&'a self, state: &'a State) -> impl Iterator<Item = &'a Finding> {
        let now = self.now.iter().filter(|_| !self.all);
        now.chain(state.findings.iter().filter(|_| self.all).map(|(_, finding)| finding))
    }

    /// The request, without the probes that were deselected.
    fn request(&self, state: &State) -> Share {
        let wanted = |path: &Path| self.probes.iter().all(|(probe, on)| *on || probe != path);
        let chosen = self.findings(state).cloned().map(|mut finding| {
            if let Some(view) = &mut finding.view {
                let pinned = view.reference.and_then(|at| view.columns.get(at).cloned());
                view.columns.retain(|column| wanted(&column.probe));
                view.reference = pinned.and_then(|own| view.columns.iter().position(|column| *column == own));
            }
            finding
        });
        let findings = chosen.filter(|one| one.view.as_ref().is_none_or(|view| !view.columns.is_empty()));
        Share { findings: findings.collect(), to: expanded(self.path.trim()), ..self.share.clone() }
    }

    /// Draws how much is shared, and about how large that is.
    fn summary(&mut self, ui: &mut Ui, state: &State, share: &Share) {
        let shown = state.columns.len();
        let columns = |finding: &Finding| finding.view.as_ref().map_or(shown, |view| view.columns.len());
        let count = share.findings.iter().map(columns).sum::<usize>() * (1 + share.classes.len());
        let size = state.focused_trace().filter(|_| count > 0).map(|trace| self.size(share, trace, count));
        let size = size.map_or_else(String::new, |size| format!(", about {}", format::bytes(size)));
        let explanations = counted(count, "explanation", "explanations");
        let images = counted(share.findings.len(), "image", "images");
        let text =
            format!("{explanations} of {images}{size}. Notes are included, folders of this machine are not");
        ui.add_space(6.0);
        ui.add(Label::new(RichText::new(text).small().weak()).wrap());
    }

    fn size(&mut self, share: &Share, trace: &Arc<Trace>, count: usize) -> u64 {
        let key = (self.all, share.kind, share.theme, share.format);
        let known = self.size.filter(|(known, _)| *known == key).map(|(_, sizes)| sizes);
        let sizes = known.unwrap_or_else(|| {
            let first = share.findings.first().cloned().into_iter().collect();
            findings::estimate(&of_panes(Share { findings: first, ..share.clone() }), trace)
        });
        self.size = Some((key, sizes));
        sizes[0] + count as u64 * sizes[1]
    }

    /// Whether the destination can be written to; if not, shows why. Offers to create a missing folder.
    fn check_destination(&mut self, ui: &mut Ui) -> bool {
        let path = expanded(self.path.trim());
        let there = dialog::check_folder(ui, &mut self.disk, &path, &mut self.error);
        let fault = match (self.share.kind, self.disk.at(ui, &path)) {
            (ShareKind::Page, found) if found.is_folder() => Some("This is a folder: add a file name"),
            (ShareKind::Figures, Found::File) => Some("This is a file: choose a folder, which may be new"),
            (ShareKind::Figures, Found::Folder) => {
                Some("This folder is not empty: choose an empty or a new one")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            ui.add(Label::new(style::failure(ui, fault)).wrap());
        }
        there && fault.is_none() && !self.path.trim().is_empty()
    }

    /// Gives the path of a page the extension `html`, and takes that from a folder's.
    fn sync_extension(&mut self) {
        let path = Path::new(self.path.trim());
        let is_html = |ending: &OsStr| ["html", "htm"].iter().any(|id| ending.eq_ignore_ascii_case(id));
        let is_page = path.extension().is_some_and(is_html);
        match self.share.kind {
            ShareKind::Figures if is_page => self.path = path.with_extension("").display().to_string(),
            ShareKind::Page if !is_page && path.file_name().is_some() && !path.is_dir() => {
                self.path = path.with_added_extension("html").display().to_string();
            }
            _ => {}
        }
    }
}

/// A request for figures with those of the panes of each finding, which take a while to read from many layouts.
fn of_panes(mut share: Share) -> Share {
    let views = share.findings.iter_mut().filter_map(|finding| finding.view.as_deref_mut());
    for view in views.filter(|_| share.kind == ShareKind::Figures) {
        let panes = layout::shown(&view.layout).into_iter().filter(|id| viz::find(id).is_some());
        let panes = panes.collect::<BTreeSet<String>>();
        // Without a figure in front, the comparison is shown, or a pane that a finding cannot draw.
        if !panes.is_empty() {
            (view.views.rows, view.views.difference) = (panes, false); // each shows one probe
        }
    }
    share
}

impl MainWindow {
    /// Draws the dialog if it is open.
    pub(super) fn share_dialog(&mut self, ui: &Ui, state: &State) {
        match self.dialogs.share.as_mut().map_or(Answer::Open, |dialog| dialog.ui(ui, state)) {
            Answer::Open => {}
            Answer::Closed => self.dialogs.share = None,
            Answer::Given(Chosen::File(request)) => self.pick(ui.ctx(), request),
            Answer::Given(Chosen::Done(share)) => {
                self.dialogs.share = None;
                self.send(Command::Share(Box::new(of_panes(*share))));
            }
        }
    }

    /// Starts writing a share job that is ready, on another thread, and cancels one that is no longer wanted.
    pub(in crate::app::window) fn write_shared(&mut self, ctx: &egui::Context, state: &State) {
        let ready = state.shared();
        if let Some((_, cancel)) =
            self.sharing.take_if(|(job, _)| ready.is_none_or(|(ready, _)| ready != *job))
        {
            cancel.cancel();
        }
        let Some((job, shared)) = ready.filter(|_| self.sharing.is_none()) else { return };
        let (cancel, shared) = (Cancel::default(), shared.clone());
        self.sharing = Some((job, cancel.clone()));
        let work = move || Outcome::Shared(job, UserError::catch(|| findings::write(&shared, &cancel)));
        let failed = self.background.start(ctx, "share", work).err();
        self.orders.extend(failed.map(|why| WindowOrder::Shared(job, Err(UserError::new(why)))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_chosen_ends_as_pages_do_and_a_folder_does_not() {
        let mut dialog = ShareDialog::new(None, &State::default());
        let mut chosen = |kind, path: &str| {
            dialog.share.kind = kind;
            dialog.set_path(Path::new(path));
            dialog.path.clone()
        };
        let pages = ["a/lr0.1", "a/lr0.1.html", "a/all.htm"].map(|path| chosen(ShareKind::Page, path));
        assert_eq!(pages, ["a/lr0.1.html", "a/lr0.1.html", "a/all.htm"]);
        let folders =
            ["a/lr0.1", "a/lr0.1.html", "a/lr0.1.html "].map(|path| chosen(ShareKind::Figures, path));
        assert_eq!(folders, ["a/lr0.1"; 3]);
    }
}
