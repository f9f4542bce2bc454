//! How backbones read images: as the probes that are shown were trained, where they agree. What a
//! person chose stays until they agree on something else.

use super::jobs::Severity;
use super::library::{Backbone, Status};
use super::{Column, State};
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::app::jobs::{BackboneId, BackboneOptions, Request};
use crate::model::backbone::token_spec::TokenSpec;

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
    /// What all shown probes were trained on, those aside that a backbone reads for by options of its own.
    fn agreement(&self) -> CommonOptions {
        let info = |column: &Column| self.library.probes.get(&column.probe)?.status.ready();
        let served = |wanted: &BackboneOptions| {
            self.library.backbones.values().any(|backbone| backbone.own.as_ref() == Some(wanted))
        };
        let wanted = self.columns.values().filter_map(info).map(|info| ProbeInfo::wants(info));
        let mut wanted = wanted.filter(|wanted| !served(wanted));
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
        let deep = |backbone: &BackboneInfo| {
            let layer = wanted.layer.unwrap_or(backbone.layers);
            layer <= backbone.layers && wanted.token_spec().joined() <= layer + 1
        };
        let able = self.library.open_backbones().all(|(_, backbone)| deep(backbone));
        if wanted == self.backbone_options || before == CommonOptions::Restored || !able {
            return Vec::new();
        }
        let text = format!("Images are read as the shown probes were trained: {}", wanted.text());
        self.note(Severity::Info, text);
        self.read_as(wanted, Some(wanted.token_spec()))
    }

    /// Lets the backbones in use read images so, and the next training take `token_spec` where it followed them so far.
    pub(super) fn read_as(
        &mut self,
        options: BackboneOptions,
        token_spec: Option<TokenSpec>,
    ) -> Vec<Request> {
        let before = std::mem::replace(&mut self.backbone_options, options);
        let form = &mut self.training.form.tokens.token_spec;
        *form = token_spec.filter(|_| *form == before.token_spec()).unwrap_or(*form);
        self.reload(|backbone| backbone.own.is_none())
    }

    /// Opens a backbone once more beside itself, reading images in a way of its own, so that probes of several layers
    /// stand side by side.
    pub(super) fn open_beside(&mut self, id: BackboneId, options: BackboneOptions) -> Vec<Request> {
        let Some(beside) = self.library.backbones.get(&id) else { return Vec::new() };
        let source = beside.source.clone();
        let mut known = self.library.backbones.iter();
        let known = known.find(|(_, known)| known.source == source && known.own == Some(options));
        let id = known.map_or_else(|| BackboneId(self.next), |(id, _)| *id);
        if known.is_none() {
            let id = BackboneId(self.fresh());
            let entry = Backbone { source, status: Status::Closed, expected: None, own: Some(options) };
            self.library.backbones.insert(id, entry);
        }
        self.load_backbone(id)
    }

    /// Sets how one backbone reads images that has options of its own.
    pub(super) fn set_own_options(&mut self, id: BackboneId, options: BackboneOptions) -> Vec<Request> {
        let backbone = self.library.backbones.get(&id);
        let Some(backbone) = backbone.filter(|backbone| backbone.own.is_some_and(|own| own != options))
        else {
            return Vec::new();
        };
        let text = format!("Set how {} reads", backbone.source);
        self.change(text, |parts| parts.own = Some((id, options)))
    }

    /// Exchanges the options of a backbone that has its own.
    pub(super) fn swap_own(
        &mut self,
        (id, options): (BackboneId, BackboneOptions),
    ) -> (Option<(BackboneId, BackboneOptions)>, Vec<Request>) {
        let backbone = self.library.backbones.get_mut(&id);
        let Some((own, backbone)) = backbone.and_then(|backbone| Some((backbone.own?, backbone))) else {
            return (None, Vec::new());
        };
        backbone.own = Some(options);
        let used = matches!(backbone.status, Status::Opening(_) | Status::Ready(_));
        let requests = if used { self.load_backbone(id) } else { Vec::new() };
        (Some((id, own)), requests)
    }

    /// Opens the backbones in use again, as the device and the options are now.
    pub(super) fn reload_backbone(&mut self) -> Vec<Request> {
        self.reload(|_| true)
    }

    fn reload(&mut self, which: impl Fn(&Backbone) -> bool) -> Vec<Request> {
        let used = |backbone: &Backbone| matches!(backbone.status, Status::Opening(_) | Status::Ready(_));
        let all = self.library.backbones.iter().filter(|(_, backbone)| used(backbone) && which(backbone));
        let all: Vec<BackboneId> = all.map(|(id, _)| *id).collect();
        all.into_iter().flat_map(|id| self.load_backbone(id)).collect()
    }
}
