//! A report as one HTML file: images explained through probes, side by side, and the tables of a run. It is made from traces
//! and tables alone, and any browser shows it without a network. Its figures are byte for byte those that `ssmprobe figures`
//! writes; `page.js` shows them, `page.css` is the style sheet.
//!
//! Its content security policy allows only its own script and style, by their hashes, and images in `data:` URLs. Names, classes
//! and notes are escaped: they are text, never markup.

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
use crate::app::state::share::TrueClass;
use crate::model::data::synsets::same_class;
use crate::model::io::escape::shown_text;
use crate::model::trace::Trace;
use crate::viz::Figure;
use crate::viz::export::escape_markup;
use crate::viz::figures::evidence::Evidence;
use crate::viz::figures::scan_path::ScanPath;
use crate::viz::figures::token_map::{TokenMap, class_name};

/// The default figures of a page.
pub const FIGURES: [&dyn Figure; 3] = [&TokenMap(None), &ScanPath, &Evidence];
/// Width of the figures, in mm.
pub const WIDTH_MM: f32 = 70.0;

/// The content of a page.
#[derive(Default)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// The author's notes, in a subset of Markdown: paragraphs, headings, lists, emphasis, code.
    pub notes: Option<String>,
    /// Its parts, in order.
    pub parts: Vec<Part>,
    /// The true classes of images, as far as they are known.
    pub truth: Vec<TrueClass>,
    /// The figures drawn of each trace.
    pub figures: Vec<&'static dyn Figure>,
    /// The run's tables.
    pub tables: Vec<Table>,
    /// The provenance, as pairs of name and value.
    pub facts: Vec<(String, String)>,
    /// The commands that produce the page again; those of its figures are appended.
    pub commands: Vec<String>,
    /// `light` or `dark`; the reader's preference if absent.
    pub theme: Option<&'static str>,
}

/// A part of a page: one finding, or all explanations of a run.
#[derive(Default)]
pub struct Part {
    /// The author's note on it, in the same subset of Markdown.
    pub note: Option<String>,
    /// Its explanations. Images and probes are shown in the order of their first trace. Several traces of one image and probe
    /// hold the evidence for different classes.
    pub traces: Vec<Arc<Trace>>,
}

struct Image<'a> {
    name: &'a str,
    /// The note of the part, if this is its first image.
    note: Option<&'a str>,
    /// Its true class, by probe.
    truth: Vec<&'a TrueClass>,
    /// The classes with evidence, those of all probes first; if there are none of all, first `None`: each probe's first trace.
    classes: Vec<Option<String>>,
    /// The name of each probe, and its trace for each class.
    probes: Vec<(String, ByClass<'a>)>,
}

/// A probe's trace for each class of an image, if there is one.
type ByClass<'a> = Vec<Option<&'a Arc<Trace>>>;

impl Page {
    /// A page of one part without a note.
    pub fn from_traces(traces: Vec<Arc<Trace>>) -> Self {
        Self { parts: vec![Part { note: None, traces }], ..Self::default() }
    }

    /// The traces of all parts.
    pub fn traces(&self) -> impl Iterator<Item = &Arc<Trace>> {
        self.parts.iter().flat_map(|part| &part.traces)
    }

    /// The page as HTML.
    pub fn html(&self) -> String {
        self.html_unless(&|| false).unwrap_or_default()
    }

    /// The page as HTML; `None` if `stop`, which is called before every image, returns true.
    pub fn html_unless(&self, stop: &dyn Fn() -> bool) -> Option<String> {
        let images: Vec<Image<'_>> = self.parts.iter().flat_map(|part| part.images(&self.truth)).collect();
        page::html(self, &images, stop)
    }
}

impl Part {
    fn images<'a>(&'a self, truth: &'a [TrueClass]) -> Vec<Image<'a>> {
        let names: IndexSet<&str> = self.traces.iter().map(|trace| trace.image.as_str()).collect();
        let files: IndexSet<&str> = self.traces.iter().map(|trace| trace.probe.as_str()).collect();
        let images = names.into_iter().enumerate().map(|(number, name)| {
            let traces: Vec<&Arc<Trace>> = self.traces.iter().filter(|trace| trace.image == name).collect();
            let (classes, probes) = by_probe_and_class(&traces, &files);
            let truth = truth.iter().filter(|known| known.image == name).collect();
            let note = self.note.as_deref().filter(|_| number == 0);
            Image { name, note, truth, classes, probes }
        });
        images.collect()
    }
}

/// The classes and the probes of an image with these traces, as in [`Image`]; `files` are those of all probes of the page's part.
fn by_probe_and_class<'a>(
    traces: &[&'a Arc<Trace>],
    files: &IndexSet<&str>,
) -> (Vec<Option<String>>, Vec<(String, ByClass<'a>)>) {
    // Two classes of one probe may have one name: its number tells them apart.
    let is_shared = |name: &str| {
        let named: Vec<&Trace> =
            traces.iter().map(|trace| &***trace).filter(|t| class_name(t) == name).collect();
        named.iter().any(|a| named.iter().any(|b| a.probe == b.probe && a.evidence.class != b.evidence.class))
    };
    let names = |trace: &&'a Arc<Trace>| {
        let name = class_name(trace);
        let class = if is_shared(&name) { format!("{name} ({})", trace.evidence.class) } else { name };
        (probe_name(trace, files.iter().copied()), class, *trace)
    };
    let named: Vec<(String, String, &Arc<Trace>)> = traces.iter().map(names).collect();
    let find = |probe: &str, class: Option<&str>| {
        let is_it = |own: &str, name: &str| own == probe && class.is_none_or(|class| same_class(name, class));
        named.iter().find(|(own, name, _)| is_it(own, name)).map(|(.., trace)| *trace)
    };
    let probes: IndexSet<String> = named.iter().map(|(probe, ..)| probe.clone()).collect();
    let mut classes: Vec<String> = Vec::new();
    for (_, class, _) in &named {
        match classes.iter_mut().find(|known| same_class(known, class)) {
            Some(known) if known.len() < class.len() => known.clone_from(class), // a word stands before the id
            Some(_) => {}
            None => classes.push(class.clone()),
        }
    }
    let (shared, others): (Vec<String>, Vec<String>) = classes
        .into_iter()
        .partition(|class| probes.iter().all(|probe| find(probe, Some(class.as_str())).is_some()));
    let unnamed = shared.is_empty().then_some(None);
    let classes: Vec<Option<String>> =
        unnamed.into_iter().chain(shared.into_iter().chain(others).map(Some)).collect();
    let with_traces = |probe: String| {
        let traces: ByClass<'a> = classes.iter().map(|class| find(&probe, class.as_deref())).collect();
        (probe, traces)
    };
    let probes = probes.into_iter().map(with_traces).collect();
    (classes, probes)
}

/// The name of a trace's probe among those of these files, and how it read the tokens if not as in training.
pub(super) fn probe_name<'a>(trace: &Trace, files: impl Iterator<Item = &'a str>) -> String {
    let file = if trace.probe.is_empty() { &trace.head } else { &trace.probe };
    let name = crate::viz::file_names::probe_name(file, files);
    trace.reading.changes().map_or_else(|| name.clone(), |changes| format!("{name}, {changes}"))
}

/// Escapes text for HTML, for attribute values in either quotes too.
fn escape(text: &str) -> String {
    escape_markup(&shown_text(text)).replace('\'', "&#39;")
}
