//! A finding as one file: images through probes side by side, with the tables of a run, in an HTML file that needs no
//! network and no program. It is made of traces and tables alone. Its pictures are those that `ssmprobe figures` writes,
//! byte by byte; `page.js` shows them, `page.css` says how it looks.
//!
//! A policy in the file allows nothing but its own script, its own style and pictures it holds itself. What comes from
//! elsewhere (names, classes, notes) is text, never markup.

pub mod choose;
pub mod explain;
mod notes;
mod page;
mod pictures;
mod tables;

pub(super) use self::pictures::plot;

use std::sync::Arc;

use indexmap::IndexSet;

use super::table::Table;
use crate::model::trace::Trace;
use crate::viz::Figure;
use crate::viz::figures::token_map::class_name;

/// What the figures of a page are, where nobody says.
pub const FIGURES: &[&str] = &["token_map", "scan_path", "evidence"];
/// How wide they are drawn, in mm.
pub const WIDTH_MM: f32 = 70.0;

/// What a page shows.
#[derive(Default)]
pub struct Page {
    /// What it is called.
    pub title: String,
    /// What the author says, in a little Markdown.
    pub notes: Option<String>,
    /// What it shows, part by part.
    pub parts: Vec<Part>,
    /// The true classes of images, by the names that traces have.
    pub truth: Vec<(String, String)>,
    /// What is drawn of each.
    pub figures: Vec<&'static dyn Figure>,
    /// The run's tables.
    pub tables: Vec<Table>,
    /// What is known of where it comes from: name and value.
    pub facts: Vec<(String, String)>,
    /// The commands that make it again.
    pub commands: Vec<String>,
    /// `light` or `dark`; that of who reads it where absent.
    pub theme: Option<&'static str>,
}

/// A part of a page: a finding, or all that a run shows.
#[derive(Default)]
pub struct Part {
    /// What the author says of it, in a little Markdown.
    pub note: Option<String>,
    /// Images through probes: images and probes in the order in which they come first. Several of one image and probe
    /// are for different classes of the evidence.
    pub traces: Vec<Arc<Trace>>,
}

/// An image with everything that is known of it.
struct Image<'a> {
    name: &'a str,
    /// What is said of the part that begins with it.
    note: Option<&'a str>,
    truth: Option<&'a str>,
    /// The classes that evidence is stored for. Where probes share none, each first has its own, which has no name.
    classes: Vec<Option<String>>,
    /// Its probes: a name, and a trace for each class as far as there is one.
    probes: Vec<(String, Vec<Option<&'a Arc<Trace>>>)>,
}

impl Page {
    /// Of one part, with nothing said of it.
    pub fn of(traces: Vec<Arc<Trace>>) -> Self {
        Self { parts: vec![Part { note: None, traces }], ..Self::default() }
    }

    /// Everything that it is made of.
    pub fn traces(&self) -> impl Iterator<Item = &Arc<Trace>> {
        self.parts.iter().flat_map(|part| &part.traces)
    }

    /// The file.
    pub fn html(&self) -> String {
        self.html_unless(&|| false).unwrap_or_default()
    }

    /// The file; nothing once `stop` says so, which is asked before every image.
    pub fn html_unless(&self, stop: &dyn Fn() -> bool) -> Option<String> {
        let images: Vec<Image<'_>> = self.parts.iter().flat_map(|part| part.images(&self.truth)).collect();
        page::html(self, &images, stop)
    }
}

impl Part {
    fn images<'a>(&'a self, truth: &'a [(String, String)]) -> Vec<Image<'a>> {
        let names: IndexSet<&str> = self.traces.iter().map(|trace| trace.image.as_str()).collect();
        let image = |name: &'_ str| {
            let of_image = || self.traces.iter().filter(|trace| trace.image == name);
            let probes: IndexSet<String> = of_image().map(|trace| probe_name(trace)).collect();
            let own: Vec<Vec<&Arc<Trace>>> =
                probes.iter().map(|probe| of_image().filter(|t| probe_name(t) == *probe).collect()).collect();
            let known: IndexSet<String> = of_image().map(|trace| class_name(trace)).collect();
            let of_class = |traces: &[&'_ Arc<Trace>], class: &String| {
                traces.iter().position(|trace| class_name(trace) == *class)
            };
            let (shared, others): (Vec<String>, Vec<String>) = known
                .into_iter()
                .partition(|class| own.iter().all(|traces| of_class(traces, class).is_some()));
            let lonely = shared.is_empty().then_some(None);
            let classes: Vec<Option<String>> =
                lonely.into_iter().chain(shared.into_iter().chain(others).map(Some)).collect();
            let stored = |traces: &Vec<&'_ Arc<Trace>>| -> Vec<Option<usize>> {
                let at = |class: &Option<String>| match class {
                    Some(class) => of_class(traces, class),
                    None => Some(0),
                };
                classes.iter().map(at).collect()
            };
            let at: Vec<Vec<Option<usize>>> = own.iter().map(stored).collect();
            (probes, own, at, classes)
        };
        let built = names.into_iter().enumerate().map(|(number, name)| {
            let (probes, own, at, classes) = image(name);
            let traces = own.into_iter().zip(at);
            let traces = traces.map(|(own, at)| at.into_iter().map(|at| at.map(|at| own[at])).collect());
            let truth = truth.iter().find(|(image, _)| image == name).map(|(_, class)| class.as_str());
            let note = self.note.as_deref().filter(|_| number == 0);
            Image { name, note, truth, classes, probes: probes.into_iter().zip(traces).collect() }
        });
        built.collect()
    }
}

/// What a probe is called: its file's name, and how it read where that is not as trained.
pub(super) fn probe_name(trace: &Trace) -> String {
    let name = if trace.probe.is_empty() { &trace.head } else { &trace.probe };
    let stem = crate::viz::figures::plot::stem(name);
    trace.reading.changes().map_or_else(|| stem.clone(), |changes| format!("{stem}, {changes}"))
}

/// A name as text of HTML, also between quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in crate::model::io::escape::shown_text(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}
