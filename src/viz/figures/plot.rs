//! Plots: figures that bring their own data, as they are exported and shown in a pane.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use crate::model::explain::evaluation::{self, Evaluation};
use crate::model::explain::removal::Removal;
use crate::model::explain::stability::Stability;
use crate::model::trace::{Reading, Trace, slug};
use crate::viz::draw::{Map, Scene, Table, Theme};
use crate::viz::figures::dataset::{self, Choice, Control, MapOf, Overview};
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{Empty, MARGIN, Size, heading};

/// The names of a plot, and the command that draws it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caption {
    /// Its title on the screen.
    pub title: String,
    /// The stem of its file name.
    pub file: String,
    /// What it was made from, for the file's metadata.
    pub about: String,
    /// The options of `ssmprobe figures` that draw the same, without those for data and output; empty where there are none.
    pub command: String,
}

/// A picture that owns its data.
pub trait Plot: Send + Sync {
    /// Its names, and the command that draws it again.
    fn caption(&self) -> Caption;

    /// The preferred height at `width`, in points.
    fn height(&self, width: f32) -> f32;

    /// The height beyond which more space is of no use, in points.
    fn max_height(&self, width: f32) -> f32 {
        1.4 * self.height(width)
    }

    /// The smallest legible size in a pane of this `width`, in points; a smaller pane scrolls.
    fn legible(&self, _width: f32) -> Size {
        Size::default()
    }

    /// Draws the picture at `size`, without a margin.
    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty>;

    /// Draws the picture at `width` points and its preferred height, margin included.
    fn draw_column(&self, theme: &Theme, width: f32) -> Result<Scene, Empty> {
        let width = width - 2.0 * MARGIN;
        Ok(self.scene(theme, Size { width, height: self.height(width) })?.framed())
    }

    /// The numbers it shows.
    fn table(&self) -> Table;

    /// Whether it is several pictures side by side, which take a page's width and have no single table.
    fn is_comparison(&self) -> bool {
        false
    }

    /// The figures of traces that it is, if it is such: these can show a reading step by step, and stand in rows.
    fn as_traces(&self) -> Option<&TracePlot> {
        None
    }

    /// The data that its file needs to be drawn again; empty where they are kept elsewhere, as in the folder of a run.
    fn sources(&self) -> Vec<Source<'_>> {
        Vec::new()
    }
}

/// Draws a plot at `size`, margin included.
pub fn draw(plot: &dyn Plot, theme: &Theme, size: Size) -> Result<Scene, Empty> {
    let inner = Size { width: size.width - 2.0 * MARGIN, height: size.height - 2.0 * MARGIN };
    Ok(plot.scene(theme, inner)?.framed())
}

/// Data from which a plot can be drawn again.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// The trace of a probe on an image.
    Trace(&'a Trace),
    /// The trace that is subtracted from the others.
    Against(&'a Trace),
    /// The evaluation of a probe on a dataset, and the name of the probe.
    Evaluation(&'a Evaluation, &'a str),
    /// The stability of an order.
    Stability(&'a Stability),
    /// Removal curves.
    Removal(&'a Removal),
    /// Removal curves that are subtracted.
    RemovalAgainst(&'a Removal),
}

impl Source<'_> {
    /// Its kind: the name of the `ssmprobe figures` option that takes its file, without hyphens.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Trace(_) => "trace",
            Self::Against(_) | Self::RemovalAgainst(_) => "against",
            Self::Evaluation(..) => "evaluation",
            Self::Stability(_) => "stability",
            Self::Removal(_) => "causal",
        }
    }

    /// The ending of its file name, without the dot before it.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Trace(_) | Self::Against(_) => "trace.json",
            Self::Evaluation(..) => evaluation::ENDING,
            Self::Stability(_) => "stability.json",
            Self::Removal(_) | Self::RemovalAgainst(_) => "causal.json",
        }
    }

    /// The content of its file, as JSON.
    pub fn json(self) -> Result<String, String> {
        let json = match self {
            Self::Trace(trace) | Self::Against(trace) => serde_json::to_string(trace),
            Self::Evaluation(evaluation, name) => {
                let named = Evaluation { probe: name.to_owned(), ..evaluation.clone() };
                return named.to_json().map_err(|error| error.to_string());
            }
            Self::Stability(stability) => serde_json::to_string(stability),
            Self::Removal(removal) | Self::RemovalAgainst(removal) => serde_json::to_string(removal),
        };
        json.map_err(|error| error.to_string())
    }
}

/// An overview of one evaluation, or of two, as a plot.
#[derive(Clone)]
pub struct EvaluationPlot {
    /// The overview.
    pub overview: &'static dyn Overview,
    /// The evaluation shown.
    pub evaluation: Arc<Evaluation>,
    /// A second evaluation; the same as the first where there is none.
    pub other: Arc<Evaluation>,
    /// The names of their probes among those that are open.
    pub names: [String; 2],
    /// The settings of the overview.
    pub choice: Choice,
    /// The image to mark.
    pub selected: Option<usize>,
}

impl EvaluationPlot {
    /// An overview of these evaluations, whose probes are called as their files are.
    pub fn new(
        overview: &'static dyn Overview,
        [evaluation, other]: [Arc<Evaluation>; 2],
        choice: Choice,
    ) -> Self {
        let names = [&evaluation, &other].map(|one| one.probe.clone());
        Self { overview, evaluation, other, names, choice, selected: None }
    }

    /// The heading: how its probes read, where that is not as trained.
    fn head(&self) -> Option<String> {
        let all: Vec<String> =
            self.evaluations().filter_map(|(shown, name)| dataset::heading(shown, name)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The one or two evaluations it shows, with the names of their probes.
    fn evaluations(&self) -> impl Iterator<Item = (&Evaluation, &str)> {
        let [own, other] = &self.names;
        let second = self.is_of_two().then_some((&*self.other, other.as_str()));
        std::iter::once((&*self.evaluation, own.as_str())).chain(second)
    }

    /// Whether it shows two different evaluations.
    pub(super) fn is_of_two(&self) -> bool {
        self.overview.is_by_image() && !Arc::ptr_eq(&self.evaluation, &self.other)
    }

    /// The options of `ssmprobe figures` for the overview and its settings.
    fn command(&self) -> String {
        let Choice { measure, against, maps, map, classes, .. } = &self.choice;
        let measure = dataset::measure(&self.evaluation, measure);
        let against = dataset::measure(&self.other, against);
        let mut words = vec![format!("--figure {}", self.overview.id())];
        for control in self.overview.controls() {
            match control {
                Control::Measure => words.push(format!("--measure {measure}")),
                Control::Against => words.push(format!("--against {against}")),
                Control::Maps if *maps != MapOf::default() => words.push(format!("--maps {}", maps.id())),
                Control::Classes => words.extend(classes.command()),
                Control::Maps | Control::Map => {}
            }
        }
        words.extend((*map != Map::default()).then(|| format!("--map {}", map.id())));
        words.join(" ")
    }
}

impl Plot for EvaluationPlot {
    fn caption(&self) -> Caption {
        let [own, other] = &self.names;
        let subjects = self.evaluations().map(|(shown, name)| dataset::subject(shown, name));
        Caption {
            title: self.overview.info().title.to_owned(),
            file: joined(&[
                &self.evaluation.asked.dataset,
                own,
                &slug(&self.evaluation.change),
                if self.is_of_two() { other } else { "" },
                self.overview.id(),
            ]),
            about: subjects.collect::<Vec<_>>().join("; "),
            command: self.command(),
        }
    }

    fn height(&self, width: f32) -> f32 {
        self.overview.height(self, width) + heading::height(self.head().as_deref(), width)
    }

    fn legible(&self, width: f32) -> Size {
        self.overview.legible(self, width)
    }

    fn scene(&self, theme: &Theme, size: Size) -> Result<Scene, Empty> {
        let draw = |size| self.overview.scene(self, theme, size);
        heading::over(self.head().as_deref(), theme, size, draw)
    }

    fn table(&self) -> Table {
        self.overview.table(self)
    }

    fn sources(&self) -> Vec<Source<'_>> {
        self.evaluations().map(|(evaluation, name)| Source::Evaluation(evaluation, name)).collect()
    }
}

/// Which image was read by which probe, and how, if not as trained.
pub(super) fn subject(image: &str, probe: &str, reading: &Reading) -> String {
    let read = if reading.is_as_trained() { String::new() } else { format!(" ({reading})") };
    format!("{} through {}{read}", published(image), published(probe))
}

/// A path as pictures name it: without the folders of an absolute one, which may tell who made them.
fn published(path: &str) -> &str {
    let is_absolute = path.starts_with(FOLDERS) || matches!(path.get(1..3), Some(":\\" | ":/"));
    path.rsplit(FOLDERS).next().filter(|_| is_absolute).unwrap_or(path)
}

/// The shortest end of a path, in whole names, that none of the `others` ends with: it identifies the path on a page.
pub fn own_path<'a, 'b>(path: &'a str, others: impl Iterator<Item = &'b str>) -> &'a str {
    let others: Vec<&str> = others.filter(|other| *other != path).collect();
    let ends_with = |other: &str, end: &str| {
        other.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(FOLDERS))
    };
    let mut ends = path.rmatch_indices(FOLDERS).map(|(at, _)| &path[at + 1..]);
    ends.find(|end| !others.iter().any(|other| ends_with(other, end))).unwrap_or(path)
}

/// The name of a probe's file without folder and ending. If another one of `all` has the same, its run or else its folder is
/// added, and as many of the folders around that as it takes to tell them apart.
pub fn probe_name<'a>(path: &str, all: impl Iterator<Item = &'a str>) -> String {
    let (name, own) = (stem(path), folders(path).collect::<Vec<_>>());
    let same = all.filter(|other| *other != path && stem(other) == name);
    // How far out to name folders: to the first that the other has not, unless it lies in all of these, below others.
    let depth = |other| match folders(other).zip(&own).take_while(|(folder, own)| folder == *own).count() {
        shared if shared < own.len() => shared + 1,
        _ => 1,
    };
    let Some(depth) = same.map(depth).max().filter(|_| !own.is_empty()) else { return name.to_owned() };
    let home: Vec<&str> = own[..depth].iter().rev().copied().collect();
    format!("{name} · {}", home.join("/"))
}

/// The folders of a probe's path, the innermost first, but for `probes` in a run.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    let all = path.rsplit(FOLDERS).skip(1).filter(|folder| !folder.trim_matches('.').is_empty());
    let in_run = all.clone().next() == Some("probes") && all.clone().nth(1).is_some();
    all.skip(usize::from(in_run))
}

/// The parts of a file name that are not empty, joined by hyphens.
pub(super) fn joined(parts: &[&str]) -> String {
    parts.iter().copied().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

/// What separates the folders of a path, which a trace may bring from a machine of another kind.
const FOLDERS: [char; 2] = ['/', '\\'];

/// The name of a file without its folder and its extension.
pub fn stem(name: &str) -> &str {
    let file = Path::new(name.rsplit(FOLDERS).next().unwrap_or(name));
    file.file_stem().and_then(OsStr::to_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_picture_was_made_from_names_no_folder_of_a_machine() {
        let made_from = |image, probe| subject(image, probe, &Reading::default());
        assert_eq!(
            made_from("/home/ann/birds/7.png", "C:\\run\\gap.safetensors"),
            "7.png through gap.safetensors"
        );
        assert_eq!(
            made_from("val/crane/7.png", "hf:me/birds/gap"),
            "val/crane/7.png through hf:me/birds/gap"
        );
    }

    #[test]
    fn probes_of_one_name_are_told_apart_by_their_run_or_folder() {
        let named = |path, others: &[&'static str]| probe_name(path, others.iter().copied());
        let [a, b, c] = ["runs/a/probes/gap.pt", "runs/b/probes/gap.pt", "mae/gap.pt"];
        assert_eq!([a, b, c].map(|path| named(path, &[a, b, c])), ["gap · a", "gap · b", "gap · mae"]);
        assert_eq!((named(a, &[a]), named(a, &["cls.pt"])), ("gap".to_owned(), "gap".to_owned()));
        // Two runs of one name, in the folders of two backbones.
        let [vit, dino] = ["/ann/vit/birds/probes/gap.pt", "/ann/dino/birds/probes/gap.pt"];
        assert_eq!(
            [vit, dino].map(|path| named(path, &[vit, dino])),
            ["gap · vit/birds", "gap · dino/birds"]
        );
        assert_eq!(
            (named("gap.pt", &[c]), named(c, &["gap.pt"])),
            ("gap".to_owned(), "gap · mae".to_owned())
        );
        assert_eq!(named("x/gap.pt", &["x/probes/gap.pt"]), "gap · x");
        // Two that lie in folders of one name, each with another one below more folders.
        let all = ["b/x/gap.pt", "c/b/x/gap.pt", "d/x/gap.pt", "e/d/x/gap.pt"];
        let names = ["gap · b/x", "gap · c/b/x", "gap · d/x", "gap · e/d/x"];
        assert_eq!(all.map(|path| named(path, &all)), names);
    }

    #[test]
    fn images_are_told_apart_by_what_their_paths_do_not_share() {
        let [a, b, c] = ["/home/ann/val/crane/7.png", "/home/ann/val/crow/7.png", "/home/ann/val/crow/8.png"];
        let named = |path, others: &[&'static str]| own_path(path, others.iter().copied());
        assert_eq!((named(a, &[a, b, c]), named(b, &[a, b, c])), ("crane/7.png", "crow/7.png"));
        assert_eq!((named(c, &[a, b, c]), named(a, &[])), ("8.png", "7.png"));
        assert_eq!(
            (named("pond.png", &["lake.png", a]), named(a, &["C:\\ann\\7.png"])),
            ("pond.png", "crane/7.png")
        );
        assert_eq!((named("7.png", &[a]), named(a, &["7.png"])), ("7.png", "crane/7.png"));
    }
}
