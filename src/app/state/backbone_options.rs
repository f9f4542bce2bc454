//! How backbones read images: as the probes that are shown were trained, where they agree. What a
//! person chose stays until they agree on something else.

use super::jobs::Severity;
use super::library::{Backbone, Status};
use super::{Column, State};
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::app::jobs::{BackboneId, BackboneOptions, Request};

/// What the shown probes were trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommonOptions {
    /// There is none, or they differ.
    #[default]
    Nothing,
    /// This.
    On(BackboneOptions),
    /// Not known yet: a workspace says how its images are read.
    Restored,
}

impl State {
    /// What all shown probes were trained on.
    fn agreement(&self) -> CommonOptions {
        let info = |column: &Column| self.library.probes.get(&column.probe)?.status.ready();
        let mut wanted = self.columns.values().filter_map(info).map(|info| ProbeInfo::wants(info));
        match wanted.next() {
            Some(first) if wanted.all(|other| other == first) => CommonOptions::On(first),
            _ => CommonOptions::Nothing,
        }
    }

    /// Lets backbones read images as the shown probes were trained, as soon as those agree on something
    /// else than before, and the backbones can.
    pub(super) fn read_as_trained(&mut self) -> Vec<Request> {
        let mut probes = self.library.probes.values();
        let common = self.agreement();
        if common == self.common_options || probes.any(|probe| probe.status.is_opening()) {
            return Vec::new();
        }
        let CommonOptions::On(wanted) = common else {
            self.common_options = common;
            return Vec::new();
        };
        let before = std::mem::replace(&mut self.common_options, common);
        let deep = |backbone: &BackboneInfo| wanted.layer.is_none_or(|layer| layer <= backbone.layers);
        let able = self.library.open_backbones().all(|(_, backbone)| deep(backbone));
        if wanted == self.backbone_options || before == CommonOptions::Restored || !able {
            return Vec::new();
        }
        let text = format!("Images are read as the shown probes were trained: {}", wanted.text());
        self.note(Severity::Info, text);
        self.read_as(wanted)
    }

    /// Lets the backbones in use, and the next training, read images so.
    pub(super) fn read_as(&mut self, options: BackboneOptions) -> Vec<Request> {
        self.backbone_options = options;
        self.training.form.tokens.taking = options.taking();
        self.reload_backbone()
    }

    /// Opens the backbones in use again, as the device and the options are now.
    pub(super) fn reload_backbone(&mut self) -> Vec<Request> {
        let used = |backbone: &Backbone| matches!(backbone.status, Status::Opening(_) | Status::Ready(_));
        let all = self.library.backbones.iter().filter(|(_, backbone)| used(backbone));
        let all: Vec<BackboneId> = all.map(|(id, _)| *id).collect();
        all.into_iter().flat_map(|id| self.load_backbone(id)).collect()
    }
}
