//! Exporting a figure: the dialog for file and format, and the command line that draws the same figure.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui;
use egui::{ColorImage, DragValue, Ui};

use super::dialog::{self, Answer, Chosen};
use super::file_request::FileRequest;
use crate::app::format::{file_name, shell_path};
use crate::app::jobs::Cancel;
use crate::app::paths::expanded;
use crate::app::window::background::Outcome;
use crate::app::window::on_disk::{Found, OnDisk};
use crate::app::window::{MainWindow, style, widgets};
use crate::model::io::catch_panic::catch_own;
use crate::viz::animation::{self, Drawn};
use crate::viz::draw::theme::FileTheme;
use crate::viz::draw::{Scene, Theme};
use crate::viz::export::{self, ExportFormat, GIF_DPI, PNG_DPI, has_extension};
use crate::viz::figures::compare::TooNarrow;
use crate::viz::figures::plot::{Plot, Source};
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::heading::uncapitalised;

/// Default number of stills beside an animation.
const DEFAULT_STILLS: usize = 4;
/// Longest suggested name in bytes, without its extension: file systems take 255, and stills and data have longer endings.
const MAX_NAME_BYTES: usize = 200;

/// The figure to export, and how.
#[derive(Clone)]
pub struct Export {
    plot: Arc<dyn Plot>,
    /// Path of the file; its extension is the format's.
    pub path: String,
    format: ExportFormat,
    theme: FileTheme,
    /// In millimetres.
    width: f32,
    dpi: f32,
    /// How many stills are written beside an animation.
    stills: usize,
    /// Whether its data are written beside it.
    with_sources: bool,
    /// For the width last checked: why the figure does not fit, and notes on how it will look.
    page: Option<(f32, Option<TooNarrow>, Vec<String>)>,
    disk: OnDisk,
    /// Why it could not be written.
    pub error: Option<String>,
    /// Cancels the writing, while it is under way.
    pub writing: Option<Cancel>,
}

impl Export {
    /// An export of `plot` as the picture `last` and beside it, or else as SVG to the home folder: 85 mm wide, a comparison 174.
    pub fn new(plot: Arc<dyn Plot>, last: Option<&Path>) -> Self {
        let home = || Some(directories::UserDirs::new()?.home_dir().to_owned());
        let folder = last.and_then(Path::parent).map(Path::to_owned).or_else(home).unwrap_or_default();
        let format = last.and_then(ExportFormat::of_picture).unwrap_or(ExportFormat::Svg);
        let name = plot.caption().file.replace(['/', '\\'], "-");
        // Its end tells the probe and the figure.
        let name = &name[name.ceil_char_boundary(name.len().saturating_sub(MAX_NAME_BYTES))..];
        Self {
            path: folder.join(format!("{name}.{}", format.id())).display().to_string(),
            width: if plot.is_comparison() { 174.0 } else { 85.0 },
            plot,
            format,
            theme: FileTheme::Print,
            dpi: PNG_DPI,
            stills: DEFAULT_STILLS,
            with_sources: true,
            page: None,
            disk: OnDisk::default(),
            error: None,
            writing: None,
        }
    }

    pub fn ui(&mut self, ui: &Ui) -> Answer<Chosen<()>> {
        let title = format!("Export {}", uncapitalised(&self.plot.caption().title));
        dialog::show(ui.ctx(), "export", 540.0, &title, |ui| self.contents(ui))
    }

    fn contents(&mut self, ui: &mut Ui) -> Answer<Chosen<()>> {
        let writing = self.writing.is_some();
        let (answer, ready) = ui.add_enabled_ui(!writing, |ui| self.choices(ui)).inner;
        let replaced = if writing { Vec::new() } else { self.replaced(ui) };
        if !replaced.is_empty() {
            let s = if replaced.len() == 1 { "s" } else { "" };
            ui.label(format!("Exist{s} and will be replaced: {}", replaced.join(", ")));
        }
        let verb = if replaced.is_empty() { "Export" } else { dialog::REPLACE };
        answer.or(dialog::buttons_with(ui, verb, ready && !writing, Chosen::Done(()), |ui| {
            if writing {
                ui.weak("Writing…");
            }
            let sources = self.with_sources || self.plot.sources().is_empty();
            let can = !self.plot.caption().command.is_empty() && sources;
            let copy = ui.add_enabled(can, egui::Button::new("Copy the command line"));
            let copy = copy.on_hover_text("Draws the same figure without a window");
            let why = "It needs the data beside it, and the same settings for all rows";
            if copy.on_disabled_hover_text(why).clicked() {
                ui.ctx().copy_text(self.command_line());
            }
            Answer::Open
        }))
    }

    /// Draws what can be chosen; the answer, and whether the figure can be written so.
    fn choices(&mut self, ui: &mut Ui) -> (Answer<Chosen<()>>, bool) {
        let mut answer = Answer::Open;
        dialog::fields("export").show(ui, |ui| {
            // It comes first, and so has the focus: Enter exports.
            ui.label("File");
            ui.horizontal(|ui| {
                let edit = egui::TextEdit::singleline(&mut self.path).desired_width(dialog::field_width(ui));
                if widgets::field(ui, "Export to", edit).changed() {
                    self.sync_format();
                }
                if ui.button("Choose…").clicked() {
                    let name = file_name(Path::new(&self.path));
                    answer = Answer::Given(Chosen::File(FileRequest::Export(name)));
                }
            });
            ui.end_row();
            let label = ui.label("Format").id;
            let numbers = !self.plot.is_comparison();
            let moves = self.plot.as_traces().is_some_and(|plot| plot.steps() > 0);
            let offered = |format: &ExportFormat| {
                (numbers || !format.is_numbers()) && (moves || *format != ExportFormat::Gif)
            };
            let list = widgets::combo(ui, "format", 210.0, self.format.name(), |ui| {
                for format in ExportFormat::ALL.into_iter().filter(offered) {
                    if ui.selectable_label(self.format == format, format.name()).clicked() {
                        self.set_format(format);
                        self.path = format.of_file(Path::new(self.path.trim())).display().to_string();
                    }
                }
            });
            list.labelled_by(label);
            ui.end_row();
            if !self.format.is_numbers() {
                let label = ui.label("Width").id;
                ui.horizontal(|ui| {
                    let width = DragValue::new(&mut self.width).range(20.0..=2000.0).suffix(" mm");
                    dialog::number(ui, width).labelled_by(label);
                    for (text, width) in [("Column", 85.0), ("Page", 174.0)] {
                        if ui.selectable_label(self.width == width, text).clicked() {
                            self.width = width;
                        }
                    }
                });
                ui.end_row();
                let label = ui.label("Theme").id;
                let (all, name) = (FileTheme::ALL, |theme: &FileTheme| theme.name());
                widgets::choice(ui, "export theme", 210.0, &mut self.theme, all, name).labelled_by(label);
                ui.end_row();
            }
            if self.format == ExportFormat::Gif {
                let label = ui.label("Stills").id;
                ui.horizontal(|ui| {
                    let about = "Pictures of single steps, evenly spaced over the reading; 0 for none";
                    let stills = DragValue::new(&mut self.stills).range(0..=24);
                    dialog::number(ui, stills).labelled_by(label).on_hover_text(about);
                    ui.weak("as PNG beside it");
                });
                ui.end_row();
            }
            if self.format.has_pixels() {
                let label = ui.label("Resolution").id;
                let dpi = DragValue::new(&mut self.dpi).range(50.0..=1200.0).suffix(" dpi");
                dialog::number(ui, dpi).labelled_by(label);
                ui.end_row();
            }
            let note = match self.format {
                ExportFormat::Csv => {
                    "Lines that begin with # say what it was made from; pandas: comment=\"#\""
                }
                ExportFormat::Npz => "The array metadata says what it was made from, as JSON",
                _ => "",
            };
            if !note.is_empty() {
                ui.label("");
                ui.label(egui::RichText::new(note).small().weak());
                ui.end_row();
            }
        });
        let file = self.file();
        let there = dialog::check_folder(ui, &mut self.disk, &file, &mut self.error);
        let ready = there & self.check_width(ui);
        let sources = self.plot.sources();
        if let Some(first) = sources.first() {
            let text = match (first, sources.len()) {
                (Source::Trace(_), 1) => "Save the trace beside it",
                (Source::Trace(_), _) => "Save the traces beside it",
                _ => "Save its data beside it",
            };
            dialog::fields("export sources").show(ui, |ui| {
                ui.label("Data");
                let about =
                    "With it, `ssmprobe figures` draws the same figure again, without weights or a window";
                ui.checkbox(&mut self.with_sources, text).on_hover_text(about);
            });
        }
        (answer, ready)
    }

    /// Whether the figure fits the width; if not, shows why, with buttons for what would fit.
    fn check_width(&mut self, ui: &mut Ui) -> bool {
        let width = self.width;
        if self.format.is_numbers() {
            return true;
        }
        if self.page.as_ref().is_none_or(|(known, ..)| *known != width) {
            let narrow = self.plot.as_traces().and_then(|plot| plot.too_narrow(export::points(width)));
            let scene = self.scene().ok();
            let high =
                scene.as_ref().filter(|_| self.plot.is_comparison()).and_then(export::higher_than_page);
            let missing = scene.as_ref().and_then(export::missing_letters);
            self.page = Some((width, narrow, high.into_iter().chain(missing).collect()));
        }
        let Some((_, narrow, notes)) = &self.page else { return true };
        let Some(narrow) = *narrow else {
            for note in notes {
                ui.add(egui::Label::new(egui::RichText::new(note).small().weak()).wrap());
            }
            return true;
        };
        ui.add(egui::Label::new(style::failure(ui, narrow.why())).wrap());
        ui.horizontal(|ui| {
            if let Some((columns, plot)) = narrow.in_rows().zip(self.plot.as_traces())
                && ui.button(format!("Rows of {columns}")).on_hover_text("The others go below").clicked()
            {
                let rows = TracePlot { columns: Some(columns), ..plot.clone() };
                (self.plot, self.page) = (Arc::new(rows), None);
            }
            if ui.button(format!("{} mm wide", narrow.needed)).clicked() {
                self.width = narrow.needed;
            }
        });
        false
    }

    /// Sets the format, and the default resolution where it changes to or from GIF.
    fn set_format(&mut self, format: ExportFormat) {
        let is_gif = format == ExportFormat::Gif;
        if (self.format == ExportFormat::Gif) != is_gif {
            self.dpi = if is_gif { GIF_DPI } else { PNG_DPI };
        }
        self.format = format;
    }

    /// Files of the stills beside an animation.
    fn still_files(&self) -> Vec<PathBuf> {
        let count = if self.format == ExportFormat::Gif { self.stills } else { 0 };
        let stills = animation::stills(&*self.plot, &self.file(), count);
        stills.into_iter().map(|(_, file)| file).collect()
    }

    /// The file to write: that of the path, with the extension of the format where it has none.
    pub fn file(&self) -> PathBuf {
        let path = expanded(self.path.trim());
        let is_folder = self.path.trim().ends_with(std::path::is_separator);
        if is_folder || has_extension(&path) { path } else { self.format.of_file(&path) }
    }

    /// Sets the file to one that was chosen in a dialog, unless one is being written.
    pub fn set_path(&mut self, path: &Path) {
        if self.writing.is_none() {
            self.path = path.display().to_string();
            self.sync_format();
            self.path = self.format.of_file(path).display().to_string();
        }
    }

    /// Sets the format to that of the path's extension, if it is a known one.
    fn sync_format(&mut self) {
        self.set_format(ExportFormat::of(Path::new(self.path.trim())).unwrap_or(self.format));
    }

    /// Names of existing files that would be overwritten.
    fn replaced(&mut self, ui: &Ui) -> Vec<String> {
        let beside = self.sources().into_iter().filter(|_| self.with_sources).map(|(_, path)| path);
        let own = std::iter::once(self.file()).chain(self.still_files());
        let all: Vec<PathBuf> = own.chain(beside).collect();
        let there = all.iter().filter(|path| self.disk.at(ui, path) != Found::Nothing);
        there.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// The data the figure is drawn from, and the file of each.
    fn sources(&self) -> Vec<(Source<'_>, PathBuf)> {
        let sources = self.plot.sources();
        let (path, many) = (self.file(), sources.len() > 1);
        let with_files = sources.into_iter().enumerate().map(|(at, source)| {
            let number = if many { format!("{}.", at + 1) } else { String::new() };
            (source, path.with_extension(format!("{number}{}", source.ending())))
        });
        with_files.collect()
    }

    /// The command line that draws the same figure from its data.
    pub fn command_line(&self) -> String {
        let mut words = vec!["ssmprobe figures".to_owned(), self.plot.caption().command];
        let file =
            |(source, path): &(Source<'_>, PathBuf)| format!("--{} {}", source.kind(), shell_path(path));
        words.extend(self.sources().iter().map(file));
        let out = shell_path(&self.file());
        words.push(format!("--out {out} --width {}", self.width));
        let is_other = self.theme != FileTheme::Print && !self.format.is_numbers();
        words.extend(is_other.then(|| format!("--theme {}", self.theme.id())));
        words.extend(self.format.has_pixels().then(|| format!("--dpi {}", self.dpi)));
        words.extend((!self.still_files().is_empty()).then(|| format!("--stills {}", self.stills)));
        words.join(" ")
    }

    fn scene(&self) -> Result<Scene, String> {
        self.plot.draw_column(&self.theme.theme(), export::points(self.width)).map_err(|why| why.0)
    }

    /// Writes the figure, and its data beside it where wanted; only an animation takes so long that it can be cancelled.
    pub fn write(&self, cancel: &Cancel) -> Outcome {
        let written = || -> Result<(), Box<dyn Error>> {
            let path = self.file();
            let (plot, about) = (&*self.plot, self.plot.caption().about);
            if self.format.is_numbers() && plot.is_comparison() {
                return Err(format!("{}: {}", path.display(), export::NO_NUMBERS).into());
            }
            if self.format == ExportFormat::Gif {
                let (theme, width, cancelled) =
                    (&self.theme.theme(), export::points(self.width), &|| cancel.is_cancelled());
                let drawn = Drawn { theme, width, dpi: self.dpi, about: &about, cancelled };
                animation::save_gif(plot, &path, drawn)?;
                animation::save_stills(plot, &path, self.stills, drawn)?;
            } else {
                export::save(&path, &self.scene()?, &plot.table(), &about, self.dpi)?;
            }
            for (source, path) in self.sources().into_iter().filter(|_| self.with_sources) {
                export::write(&path, source.json()?.as_bytes())?;
            }
            Ok(())
        };
        match catch_own(written).unwrap_or_else(|panic| Err(panic.into())) {
            Err(_) if cancel.is_cancelled() => Outcome::Cancelled,
            done => Outcome::Written(self.file(), done.map_err(|error| error.to_string())),
        }
    }

    /// Renders the figure on a white page, for the clipboard.
    pub fn image(&self) -> Outcome {
        let drawn = || -> Result<ColorImage, Box<dyn Error>> {
            let scene = Scene { background: Theme::light().background, ..self.scene()? };
            let png = export::png(&scene, "", self.dpi)?;
            let image = image::load_from_memory(&png)?.into_rgba8();
            let size = [image.width() as usize, image.height() as usize];
            Ok(ColorImage::from_rgba_unmultiplied(size, &image))
        };
        drawn().map_or_else(|error| Outcome::Failed(error.to_string()), Outcome::Image)
    }
}

impl MainWindow {
    /// Draws the dialog if it is open.
    pub(super) fn export_dialog(&mut self, ui: &Ui) {
        let Some(dialog) = &mut self.dialogs.export else { return };
        match dialog.ui(ui) {
            Answer::Open => {}
            Answer::Closed => {
                let writing = self.dialogs.export.take().and_then(|dialog| dialog.writing);
                writing.iter().for_each(Cancel::cancel);
            }
            Answer::Given(Chosen::File(request)) => self.pick(ui.ctx(), request),
            // The dialog stays until the figure is written.
            Answer::Given(Chosen::Done(())) => {
                let (written, cancel) = (dialog.clone(), Cancel::default());
                let own = cancel.clone();
                dialog.error = self.background.start(ui.ctx(), "export", move || written.write(&own)).err();
                dialog.writing = dialog.error.is_none().then_some(cancel);
            }
        }
    }
}
