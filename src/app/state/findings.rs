//! Findings: bookmarks, each of an image, what was shown of it, and a note; a star marks just an image. Both refer to images
//! and probes by their paths: they outlast the closing of these, and showing a finding opens them again.

use std::path::PathBuf;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entries::{self, Entries, removed};
use super::jobs::Severity;
use super::library::{Image, Probe};
use super::{Column, State, Views};
use crate::app::jobs::{ClassChoice, ColumnId, ExplainSettings, ImageId, Request};
use crate::model::data::ImageSource;
use crate::model::explain::intervention::Intervention;
use crate::viz::figures::dataset::folded;

/// Longest note, in characters.
pub const MAX_NOTE: usize = 20_000;

/// The id of a finding, unique while the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FindingId(pub u64);

/// A bookmark of an image and what was shown of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Where its image is.
    #[serde(flatten)]
    pub image: ImageSource,
    /// The user's note, in Markdown.
    #[serde(default)]
    pub note: String,
    /// What was shown; absent if an earlier version stored the note alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<Box<FindingView>>,
}

/// The columns that were shown, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingView {
    /// The columns, in order.
    pub columns: Vec<FindingColumn>,
    /// The index of the pinned column, which others are compared with.
    pub reference: Option<usize>,
    /// The index of the focused column.
    pub focus: Option<usize>,
    /// The index of the column beside the focused one on a contact sheet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<usize>,
    /// The index of the column on the y axis of a scatter plot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<usize>,
    /// The class that the evidence is for.
    pub class: ClassChoice,
    /// The pinned token.
    pub token: Option<usize>,
    /// How figures are drawn.
    pub views: Views,
    /// The settings of the explanation.
    #[serde(rename = "look")]
    pub explain: ExplainSettings,
    /// The layout of the panes, in the window's own format.
    pub layout: Value,
}

/// A column of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FindingColumn {
    /// The probe's file.
    pub probe: PathBuf,
    /// The image, if not the finding's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSource>,
    /// The intervention on its reading.
    pub change: Intervention,
    /// Whether it is part of the comparison.
    pub compared: bool,
}

impl Finding {
    /// Its name: that of its image.
    pub fn name(&self) -> String {
        self.image.short()
    }

    /// The names of its probes, once each; with their runs or folders where these alone tell them apart.
    pub fn probes(&self) -> IndexSet<String> {
        let files = || self.view.iter().flat_map(|view| &view.columns).map(|column| &column.probe);
        files().map(|file| Probe::name_among(file, files())).collect()
    }

    /// The first `lines` non-empty lines of its note, and `…` if there are more.
    pub fn head(&self, lines: usize) -> String {
        let all: Vec<&str> = self.note.lines().filter(|line| !line.trim().is_empty()).collect();
        let more = if all.len() > lines { "\n…" } else { "" };
        format!("{}{more}", all[..all.len().min(lines)].join("\n"))
    }

    /// Whether every word of `text`, which is [`folded`], occurs in the image's path, a probe's name or the note.
    pub fn holds(&self, text: &str) -> bool {
        if text.trim().is_empty() {
            return true; // nothing is searched for, as in most frames: the note is not read
        }
        let names: Vec<String> = self.probes().into_iter().collect();
        let known = folded(&format!("{} {} {}", self.image, names.join(" "), self.note));
        text.split_whitespace().all(|word| known.contains(word))
    }

    /// Applies `change` to all of its paths.
    pub(super) fn each_path(&mut self, mut change: impl FnMut(&mut PathBuf)) {
        change(&mut self.image.path);
        for column in self.view.iter_mut().flat_map(|view| &mut view.columns) {
            change(&mut column.probe);
            column.image.iter_mut().for_each(|image| change(&mut image.path));
        }
    }
}

/// The findings in order, and the starred images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    all: IndexMap<FindingId, Finding>,
    stars: IndexMap<ImageSource, ()>,
    /// Incremented at every change.
    pub revision: u64,
}

impl Findings {
    /// The finding of an id.
    pub fn get(&self, id: FindingId) -> Option<&Finding> {
        self.all.get(&id)
    }

    /// All findings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (FindingId, &Finding)> {
        self.all.iter().map(|(id, finding)| (*id, finding))
    }

    /// The findings of an image.
    pub fn of_image(&self, image: &Image) -> impl Iterator<Item = (FindingId, &Finding)> {
        self.iter().filter(|(_, finding)| finding.image == image.source)
    }

    /// The starred images, the oldest star first.
    pub fn stars(&self) -> impl Iterator<Item = &ImageSource> {
        self.stars.keys()
    }

    /// Whether an image has a star.
    pub fn is_starred(&self, image: &Image) -> bool {
        self.stars.contains_key(&image.source)
    }

    /// Replaces some findings; returns their previous state ([`entries::swap`]).
    pub(super) fn swap(&mut self, wanted: Entries<FindingId, Finding>) -> Entries<FindingId, Finding> {
        self.revision += u64::from(!wanted.is_empty());
        entries::swap(&mut self.all, wanted)
    }

    /// Replaces some stars; returns their previous state.
    pub(super) fn swap_stars(&mut self, wanted: Entries<ImageSource, ()>) -> Entries<ImageSource, ()> {
        self.revision += u64::from(!wanted.is_empty());
        entries::swap(&mut self.stars, wanted)
    }
}

impl State {
    /// Whether an image has a star.
    pub fn is_starred(&self, image: ImageId) -> bool {
        self.library.images.get(&image).is_some_and(|image| self.findings.is_starred(image))
    }

    pub(super) fn star(&mut self, image: ImageId, starred: bool) -> Vec<Request> {
        let Some(image) = self.library.images.get(&image) else { return Vec::new() };
        if self.findings.is_starred(image) == starred {
            return Vec::new();
        }
        let what = if starred { "Star" } else { "Unstar" };
        let entry = starred.then_some((self.findings.stars.len(), ()));
        let (text, source) = (format!("{what} {}", image.name()), image.source.clone());
        self.change(text, |parts| _ = parts.stars.insert(source, entry))
    }

    /// Replaces all findings and stars by those of a workspace.
    pub(super) fn restore_findings(
        &mut self,
        findings: Vec<Finding>,
        stars: impl Iterator<Item = ImageSource>,
    ) {
        let all = findings.into_iter().map(|finding| (FindingId(self.fresh()), finding)).collect();
        let stars = stars.map(|source| (source, ())).collect();
        self.findings = Findings { all, stars, revision: self.findings.revision + 1 };
    }

    /// A finding of what is shown now, with an empty note; `None` if there is no current image. The window passes its `layout`
    /// and pinned `token`.
    pub fn finding_now(&self, layout: Value, token: Option<usize>) -> Option<Finding> {
        let column = |column: &Column| {
            Some(FindingColumn {
                probe: self.library.probes.get(&column.probe)?.path.clone(),
                image: column.image.and_then(|image| Some(self.library.images.get(&image)?.source.clone())),
                change: column.change.clone(),
                compared: column.compared,
            })
        };
        let place = |id: Option<ColumnId>| self.columns.get_index_of(&id?);
        let view = FindingView {
            columns: self.columns.values().filter_map(column).collect(),
            reference: place(self.selection.reference),
            focus: place(self.focus()),
            beside: place(self.selection.beside),
            against: place(self.selection.against),
            class: self.class_of(self.selection.image),
            token,
            views: self.views.clone(),
            explain: self.explain,
            layout,
        };
        let image = self.current_image()?.source.clone();
        Some(Finding { image, note: String::new(), view: Some(Box::new(view)) })
    }

    pub(super) fn keep_finding(&mut self, mut finding: Finding) -> Vec<Request> {
        finding.note = sanitize(&finding.note);
        let text = format!("Keep the finding {}", finding.name());
        let entry = (self.findings.all.len(), finding);
        let notice = format!("Kept as finding {}; the Panes menu shows all of them", entry.0 + 1);
        let id = FindingId(self.fresh());
        let requests = self.change(text, |parts| _ = parts.findings.insert(id, Some(entry)));
        self.note(Severity::Info, notice);
        requests
    }

    pub(super) fn write_finding(&mut self, id: FindingId, note: &str) -> Vec<Request> {
        let note = sanitize(note);
        self.edit_finding("Edit the note of", id, |_, finding| finding.note = note)
    }

    pub(super) fn move_finding(&mut self, id: FindingId, to: usize) -> Vec<Request> {
        let last = self.findings.all.len().saturating_sub(1);
        self.edit_finding("Move", id, |place, _| *place = to.min(last))
    }

    pub(super) fn delete_finding(&mut self, id: FindingId) -> Vec<Request> {
        let Some(name) = self.findings.get(id).map(Finding::name) else { return Vec::new() };
        self.change(format!("Delete the finding {name}"), |parts| parts.findings = removed([id]))
    }

    /// Edits a finding and its index as an undoable step; does nothing if they stay the same.
    fn edit_finding(
        &mut self,
        what: &str,
        id: FindingId,
        edit: impl FnOnce(&mut usize, &mut Finding),
    ) -> Vec<Request> {
        let Some((place, _, finding)) = self.findings.all.get_full(&id) else { return Vec::new() };
        let (mut to, mut edited) = (place, finding.clone());
        edit(&mut to, &mut edited);
        if to == place && edited == *finding {
            return Vec::new();
        }
        let text = format!("{what} the finding {}", finding.name());
        self.change(text, |parts| _ = parts.findings.insert(id, Some((to, edited))))
    }
}

/// A note without control characters and surrounding white space, of at most [`MAX_NOTE`] characters.
fn sanitize(note: &str) -> String {
    let visible = note.chars().filter(|letter| !letter.is_control() || *letter == '\n').take(MAX_NOTE);
    visible.collect::<String>().trim().to_owned()
}
