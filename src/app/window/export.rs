//! Figures to files: the dialog that asks where and how, and the command line that draws the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use eframe::egui;
use egui::{ColorImage, ComboBox, DragValue, Grid, Ui};

use super::dialog;
pub use super::exporter::{Exporter, Outcome};
use crate::app::jobs::history::quoted;
use crate::app::state::Views;
use crate::app::window::style;
use crate::model::io::atomic_file;
use crate::model::trace::Trace;
use crate::viz::draw::colormap::Map;
use crate::viz::draw::paint::color32;
use crate::viz::draw::scene::Scene;
use crate::viz::draw::theme::Theme;
use crate::viz::figures::plot::{self, Plot};
use crate::viz::{Empty, Figure, Options, Rows, Shared, compare, draw_column, export, find};

/// Formats: ending, what it is.
pub const FORMATS: [(&str, &str); 5] = [
    ("svg", "SVG, vectors"),
    ("pdf", "PDF, vectors"),
    ("png", "PNG, pixels"),
    ("csv", "CSV, the numbers"),
    ("npz", "NPZ, the numbers"),
];

/// What is to be exported, and how.
#[derive(Clone)]
pub struct Export {
    figures: Vec<&'static dyn Figure>,
    traces: Vec<Arc<Trace>>,
    /// In place of figures: a picture with its own data.
    plot: Option<Arc<dyn Plot>>,
    /// Its data as files, each with the option that names it.
    files: Vec<(&'static str, String)>,
    options: Options,
    /// Where to; its ending is the format's.
    pub path: String,
    format: &'static str,
    width: f32,
    dpi: f32,
    /// Whether the traces are written beside it.
    with_traces: bool,
    /// Why it could not be written.
    pub fault: Option<String>,
}

/// What a person decided.
pub enum Decision {
    /// Nothing yet.
    Open,
    /// Write it.
    Write,
    /// Choose where with the system's dialog.
    Choose(String),
    /// Not now.
    Close,
}

impl Export {
    /// Of these figures of these traces, as they are shown.
    pub fn new(figures: &[&'static str], traces: Vec<Arc<Trace>>, views: &Views, limits: Shared) -> Self {
        let figures: Vec<&'static dyn Figure> = figures.iter().filter_map(|id| find(id)).collect();
        let one = figures.len() == 1 && traces.len() == 1;
        let stem = |name: &str| {
            Path::new(name).file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
        };
        let name = match (one, traces.first(), figures.first()) {
            (true, Some(trace), Some(figure)) => {
                format!("{}-{}-{}", stem(&trace.image), stem(&trace.probe), figure.id())
            }
            (_, Some(trace), _) => format!("{}-comparison", stem(&trace.image)),
            _ => "figure".to_owned(),
        };
        let folder = directories::UserDirs::new().map(|dirs| dirs.home_dir().to_owned()).unwrap_or_default();
        let mut options = figures.first().map(|figure| views.of(figure.id())).unwrap_or_default();
        // A comparison shares its limits by itself; what stands alone keeps those it was shown with.
        options = if one { options.within(limits) } else { options };
        Self {
            width: if one { 85.0 } else { 174.0 },
            path: folder.join(format!("{name}.svg")).display().to_string(),
            figures,
            traces,
            plot: None,
            files: Vec::new(),
            options,
            format: "svg",
            dpi: 300.0,
            with_traces: true,
            fault: None,
        }
    }

    /// Of a picture with its own data.
    pub fn of_plot(plot: Arc<dyn Plot>) -> Self {
        let mut export = Self::new(&[], Vec::new(), &Views::default(), [None; 2]);
        let file: String = plot.name().chars().map(|c| if c == '/' || c == '\\' { '-' } else { c }).collect();
        export.path = Path::new(&export.path).with_file_name(format!("{file}.svg")).display().to_string();
        (export.width, export.files, export.plot) = (85.0, plot.sources(), Some(plot));
        export
    }

    /// Whether it is one picture, which has numbers of its own.
    fn is_one(&self) -> bool {
        self.plot.is_some() || (self.figures.len() == 1 && self.traces.len() == 1)
    }

    /// Draws the dialog.
    pub fn ui(&mut self, ui: &mut Ui) -> Decision {
        let mut decision = Decision::Open;
        ui.set_width(540.0);
        let one = self.is_one();
        ui.heading(match (&self.plot, self.figures.first()) {
            (Some(plot), _) => format!("Export {}", plot.title().to_lowercase()),
            (None, Some(figure)) if one => format!("Export {}", figure.title().to_lowercase()),
            _ => "Export comparison".to_owned(),
        });
        ui.add_space(4.0);
        Grid::new("export").num_columns(2).spacing([14.0, 8.0]).min_col_width(72.0).show(ui, |ui| {
            let label = ui.label("Format").id;
            let shown = FORMATS.iter().find(|(id, _)| *id == self.format).map_or("", |(_, name)| *name);
            let formats = FORMATS.iter().filter(|(id, _)| one || !matches!(*id, "csv" | "npz"));
            let combo = ComboBox::from_id_salt("format").width(150.0).selected_text(shown);
            let list = combo.show_ui(ui, |ui| {
                for (id, name) in formats {
                    if ui.selectable_label(self.format == *id, *name).clicked() {
                        self.format = id;
                        self.path = Path::new(&self.path).with_extension(id).display().to_string();
                    }
                }
            });
            list.response.labelled_by(label);
            ui.end_row();
            let picture = !matches!(self.format, "csv" | "npz");
            if picture {
                let label = ui.label("Width").id;
                ui.horizontal(|ui| {
                    ui.add(DragValue::new(&mut self.width).range(20.0..=2000.0).suffix(" mm"))
                        .labelled_by(label);
                    for (text, width) in [("Column", 85.0), ("Page", 174.0)] {
                        if ui.selectable_label(self.width == width, text).clicked() {
                            self.width = width;
                        }
                    }
                });
                ui.end_row();
            }
            if self.format == "png" {
                let label = ui.label("Resolution").id;
                ui.add(DragValue::new(&mut self.dpi).range(50.0..=1200.0).suffix(" dpi")).labelled_by(label);
                ui.end_row();
            }
            let says = match self.format {
                "csv" => "What it was made of stands in lines that begin with #; pandas: comment=\"#\"",
                "npz" => "What it was made of stands in the array metadata, as JSON",
                _ => "",
            };
            if !says.is_empty() {
                ui.label("");
                ui.label(egui::RichText::new(says).small().weak());
                ui.end_row();
            }
            ui.label("File");
            ui.horizontal(|ui| {
                let edit = ui.add(egui::TextEdit::singleline(&mut self.path).desired_width(350.0));
                edit.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "Export to"));
                if ui.button("Choose…").clicked() {
                    let name =
                        Path::new(&self.path).file_name().map(|name| name.to_string_lossy().into_owned());
                    decision = Decision::Choose(name.unwrap_or_default());
                }
            });
            ui.end_row();
        });
        let ready = self.faults(ui);
        if self.sources() > 0 {
            let text = match (&self.plot, self.sources()) {
                (Some(_), _) => "Save its data beside it",
                (None, 1) => "Save the trace beside it",
                (None, _) => "Save the traces beside it",
            };
            ui.checkbox(&mut self.with_traces, text).on_hover_text(
                "With it, `ssmprobe figures` draws the same figure again, without weights and without a window",
            );
        }
        ui.add_space(10.0);
        let replaced = self.replaced();
        if !replaced.is_empty() {
            let s = if replaced.len() == 1 { "s" } else { "" };
            ui.label(format!("Exist{s} and will be replaced: {}", replaced.join(", ")));
        }
        ui.horizontal(|ui| {
            let verb = if replaced.is_empty() { "Export" } else { "Replace" };
            if dialog::main_button(ui, verb, ready).clicked() {
                decision = Decision::Write;
            }
            if ui.button("Cancel").clicked() {
                decision = Decision::Close;
            }
            let copy = egui::Button::new("Copy the command line");
            let copy = ui.add_enabled(self.with_traces || self.sources() == 0, copy);
            if copy.on_hover_text("Draws the same figure without a window").clicked() {
                ui.ctx().copy_text(self.command_line());
            }
        });
        decision
    }

    /// Says why it cannot be written there, and makes a folder that is missing; whether it can.
    fn faults(&mut self, ui: &mut Ui) -> bool {
        let theme = style::theme(ui);
        let red = |text: &str| {
            egui::Label::new(egui::RichText::new(text).color(color32(style::failed(&theme)))).wrap()
        };
        let folder = Path::new(&self.path).parent().filter(|folder| !folder.as_os_str().is_empty());
        let missing = folder.filter(|folder| !folder.is_dir()).map(Path::to_owned);
        if let Some(folder) = &missing {
            ui.horizontal(|ui| {
                if ui.button("Make it").clicked() {
                    self.fault = atomic_file::make_folder(folder)
                        .err()
                        .map(|error| format!("It cannot be made: {error}"));
                }
                ui.add(red(&format!("There is no folder {}", folder.display())));
            });
        }
        self.fault.iter().for_each(|fault| drop(ui.add(red(fault))));
        missing.is_none()
    }

    /// Puts the file in a folder and under a name that were chosen.
    pub fn put(&mut self, path: &Path) {
        let known = |ending: &str| FORMATS.iter().find(|(id, _)| ending.eq_ignore_ascii_case(id));
        let ending = path.extension().and_then(|e| e.to_str()).and_then(known);
        self.format = ending.map_or(self.format, |(id, _)| id);
        self.path = path.with_extension(self.format).display().to_string();
    }

    /// Names of the files that are there already, and would be written over.
    fn replaced(&self) -> Vec<String> {
        let beside = self.source_files().into_iter().filter(|_| self.with_traces).map(|(_, path)| path);
        let there = std::iter::once(PathBuf::from(&self.path)).chain(beside).filter(|path| path.exists());
        there.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect()
    }

    /// How many files it is made of.
    fn sources(&self) -> usize {
        self.files.len().max(self.traces.len())
    }

    /// Where they go, each with the option that names it.
    fn source_files(&self) -> Vec<(&'static str, PathBuf)> {
        let path = Path::new(&self.path);
        let option = |at: usize| self.files.get(at).map_or("--trace", |(option, _)| *option);
        let name = |at: usize, kind: &str| match self.sources() {
            1 => format!("{kind}.json"),
            _ => format!("{}.{kind}.json", at + 1),
        };
        let file = |at| (option(at), path.with_extension(name(at, option(at).trim_start_matches('-'))));
        (0..self.sources()).map(file).collect()
    }

    /// The command that draws the same figure from the traces.
    pub fn command_line(&self) -> String {
        let mut words = vec!["ssmprobe figures".to_owned()];
        if let Some(plot) = &self.plot {
            words.push(plot.command());
        }
        let file =
            |(option, path): &(&str, PathBuf)| format!("{option} {}", quoted(&path.display().to_string()));
        words.extend(self.source_files().iter().map(file));
        words.extend(self.figures.iter().map(|figure| format!("--figure {}", figure.id())));
        words.push(format!("--out {} --width {}", quoted(&self.path), self.width));
        let Options { map, log, rows, opacity, grid, step, limits, proxy_limits } = &self.options;
        let usual = Options::default();
        if self.format == "png" {
            words.push(format!("--dpi {}", self.dpi));
        }
        if *map != usual.map {
            words.push(format!("--map {}", if *map == Map::Viridis { "viridis" } else { "cividis" }));
        }
        if *rows != usual.rows {
            words.push(format!("--rows {}", if *rows == Rows::Score { "score" } else { "raster" }));
        }
        if *opacity != usual.opacity {
            words.push(format!("--opacity {opacity}"));
        }
        words.extend(log.then(|| "--log".to_owned()));
        words.extend(grid.then(|| "--grid".to_owned()));
        words.extend(step.map(|step| format!("--step {step}")));
        words.extend(limits.map(|(low, high)| format!("--limits {low}:{high}")));
        words.extend(proxy_limits.map(|(low, high)| format!("--proxy-limits {low}:{high}")));
        words.join(" ")
    }

    fn scene(&self) -> Result<Scene, Empty> {
        let (theme, width, options) = (Theme::print(), export::points(self.width), self.options.clone());
        if let Some(plot) = &self.plot {
            return plot::draw_column(&**plot, &theme, width);
        }
        match (&self.traces[..], &self.figures[..]) {
            ([trace], [figure]) => draw_column(*figure, trace, &options, &theme, width),
            (traces, figures) => {
                let traces: Vec<&Trace> = traces.iter().map(AsRef::as_ref).collect();
                compare::scene(&traces, figures, &options, &theme, width)
            }
        }
    }

    /// Writes it, and the traces beside it.
    pub fn write(&self) -> Outcome {
        let written = || -> Result<PathBuf, String> {
            let path = PathBuf::from(&self.path);
            let table = match (&self.plot, self.figures.first(), self.traces.first()) {
                (Some(plot), ..) => plot.table(),
                (None, Some(figure), Some(trace)) => figure.table(trace),
                _ => return Err("There is nothing to export".to_owned()),
            };
            let scene = self.scene().map_err(|why| why.0)?;
            let about = |t: &Arc<Trace>| format!("{} through {} on {}", t.image, t.probe, t.backbone);
            let about: Vec<String> =
                self.plot.iter().map(|plot| plot.about()).chain(self.traces.iter().map(about)).collect();
            export::save(&path, &scene, &table, &about.join("; "), self.dpi)
                .map_err(|error| error.to_string())?;
            for (at, (_, path)) in self.source_files().into_iter().enumerate().filter(|_| self.with_traces) {
                let json = match (self.files.get(at), self.traces.get(at)) {
                    (Some((_, json)), _) => json.clone().into_bytes(),
                    (None, Some(trace)) => serde_json::to_vec(&**trace).map_err(|error| error.to_string())?,
                    (None, None) => continue,
                };
                export::write(&path, &json).map_err(|error| error.to_string())?;
            }
            Ok(path)
        };
        written().map_or_else(Outcome::Failed, Outcome::Written)
    }

    /// The figure as pixels, as it stands on a white page.
    pub fn image(&self) -> Outcome {
        let drawn = || -> Result<ColorImage, String> {
            let scene = Scene { background: Theme::light().background, ..self.scene().map_err(|why| why.0)? };
            let png = export::png(&scene, "", self.dpi).map_err(|error| error.to_string())?;
            let image = image::load_from_memory(&png).map_err(|error| error.to_string())?.into_rgba8();
            let size = [image.width() as usize, image.height() as usize];
            Ok(ColorImage::from_rgba_unmultiplied(size, &image))
        };
        drawn().map_or_else(Outcome::Failed, Outcome::Image)
    }
}
