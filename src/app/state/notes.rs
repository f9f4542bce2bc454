//! A star and a line of text on an image. Notes are kept by where the image is: they outlast its closing, and come
//! back with it.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::State;
use super::entries::{self, Entries};
use super::library::Image;
use crate::app::jobs::{ImageId, Request};
use crate::model::data::ImageSource;

/// Longest text of a note, in characters.
pub const MAX_NOTE: usize = 300;

/// What a person notes on an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// Whether it has a star.
    pub starred: bool,
    /// One line.
    pub text: String,
}

/// Notes by the place of their image; those that say nothing are not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    all: IndexMap<ImageSource, Note>,
    /// Counts the changes.
    pub revision: u64,
}

impl Notes {
    /// The note on an image, where there is one.
    pub fn get(&self, image: &Image) -> Option<&Note> {
        self.all.get(&image.place)
    }

    /// All of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&ImageSource, &Note)> {
        self.all.iter()
    }

    /// Exchanges some of them; these as they were.
    pub(super) fn swap(&mut self, wanted: Entries<ImageSource, Note>) -> Entries<ImageSource, Note> {
        self.revision += u64::from(!wanted.is_empty());
        entries::swap(&mut self.all, wanted)
    }

    /// In the place of all there are.
    pub(super) fn replace(&mut self, notes: impl Iterator<Item = (ImageSource, Note)>) {
        let all = notes.filter(|(_, note)| *note != Note::default()).collect();
        *self = Self { all, revision: self.revision + 1 };
    }
}

impl State {
    /// The note on an image of the library; an empty one where there is none.
    pub fn note_on(&self, image: ImageId) -> Note {
        let note = self.library.images.get(&image).and_then(|image| self.notes.get(image));
        note.cloned().unwrap_or_default()
    }

    pub(super) fn star(&mut self, image: ImageId, starred: bool) -> Vec<Request> {
        let what = if starred { "Star" } else { "Take the star from" };
        self.write_note(image, what, |note| note.starred = starred)
    }

    pub(super) fn set_note(&mut self, image: ImageId, text: &str) -> Vec<Request> {
        let text = text.trim().chars().filter(|letter| !letter.is_control()).take(MAX_NOTE).collect();
        self.write_note(image, "Note on", |note| note.text = text)
    }

    /// Edits the note on an image so that it can be taken back; nothing if nothing comes of it.
    fn write_note(&mut self, id: ImageId, what: &str, edit: impl FnOnce(&mut Note)) -> Vec<Request> {
        let Some(image) = self.library.images.get(&id) else { return Vec::new() };
        let (place, before) = (image.place.clone(), self.note_on(id));
        let text = format!("{what} {}", image.name());
        let mut note = before.clone();
        edit(&mut note);
        if note == before {
            return Vec::new();
        }
        let at = self.notes.all.get_index_of(&place).unwrap_or(self.notes.all.len());
        let entry = (note != Note::default()).then_some((at, note));
        self.change(text, |parts| _ = parts.notes.insert(place, entry))
    }
}
