//! The true class of an image of a dataset, and which classes of a probe are that one.

use super::command::Command;
use super::library::{Image, Library};
use super::{Column, State};
use crate::app::jobs::{ClassChoice, ImageId, ProbeId};
use crate::model::data::synsets;
use crate::model::probe::{by_place, class_word};

impl Library {
    /// The classes of an image's dataset, and the index of its true class.
    fn true_label(&self, image: &Image) -> Option<(&[String], usize)> {
        let label = image.label?;
        Some((&self.split(label.dataset)?.set.classes, label.class as usize))
    }

    /// The name of an image's true class.
    pub fn true_class(&self, image: &Image) -> Option<&str> {
        let (classes, class) = self.true_label(image)?;
        classes.get(class).map(String::as_str)
    }

    /// The classes of an open probe that may be the true one of an image: those of its name or, where the probe has the classes of the
    /// image's dataset, the one of its index; or that of its [number](by_place). Empty if the probe lacks it; `None` where it is not known.
    pub fn true_classes(&self, image: &Image, probe: ProbeId) -> Option<Vec<usize>> {
        let (classes, own) = self.true_label(image)?;
        let (name, known) = (classes.get(own)?, &self.probe_info(probe)?.classes);
        let named: Vec<usize> =
            (0..known.len()).filter(|class| synsets::same_class(&known[*class], name)).collect();
        // The lists, which are long, are compared last.
        let is_same = named.len() > 1 && synsets::same(known, classes);
        Some(match &named[..] {
            [] => by_place(known, classes).map(|places| places[own]).into_iter().collect(),
            _ if is_same => vec![own],
            _ => named,
        })
    }

    /// Whether a class of an open probe is one of the [true classes](Self::true_classes) of an image; `None` if the probe lacks them, or
    /// if it is not known. Long lists of classes are searched only if the probe's differ from the dataset's: a gallery asks this of
    /// every tile in every frame.
    pub fn is_true_class(&self, image: &Image, probe: ProbeId, class: usize) -> Option<bool> {
        let (classes, own) = self.true_label(image)?;
        let (name, known) = (classes.get(own)?, &self.probe_info(probe)?.classes);
        let is_named = |class: usize| known.get(class).is_some_and(|known| synsets::same_class(known, name));
        match is_named(class) {
            true => Some(class == own || !synsets::same(known, classes)),
            false if is_named(own) || (0..known.len()).any(is_named) => Some(false),
            false => by_place(known, classes).map(|places| places[own] == class),
        }
    }

    /// The word that asks for the true class of an image; its name, unless a probe has the same classes.
    pub fn true_class_word(&self, image: &Image) -> Option<String> {
        let (classes, class) = self.true_label(image)?;
        let mut probes = self.probes.values().filter_map(|probe| probe.status.ready());
        match probes.any(|probe| synsets::same(&probe.classes, classes)) {
            true => class_word(classes, class),
            false => classes.get(class).cloned(),
        }
    }
}

impl State {
    /// The class that evidence of an image is for.
    pub fn class_of(&self, image: Option<ImageId>) -> ClassChoice {
        let known = image.filter(|_| self.selection.follows_true).and_then(|id| self.library.images.get(&id));
        let own = known.and_then(|image| self.library.true_class_word(image));
        own.map_or_else(|| self.selection.class.clone(), ClassChoice::Named)
    }

    /// The command by which all columns show evidence for the true class of the current image, called `name`. Where all show that
    /// image, each next one has its own true class, too.
    pub fn true_class_in_all(&self, name: String) -> Command {
        let shows_current =
            |column: &Column| column.image.is_none_or(|image| Some(image) == self.selection.image);
        match self.compared().all(|(_, column)| shows_current(column)) {
            true => Command::FollowTrueClass,
            false => Command::SetClass(ClassChoice::Named(name)),
        }
    }
}
