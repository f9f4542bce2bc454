//! Options with which backbones read images. They follow the options that the shown probes were trained with, if these
//! agree; a user's own choice stays until the probes agree on others.

use super::jobs::Severity;
use super::library::Backbone;
use super::{Column, State};
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::app::jobs::{BackboneId, BackboneOptions, Request};
use crate::model::backbone::token_spec::TokenSpec;

/// The options that the shown probes were trained with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommonOptions {
    /// No probe is shown, or their options differ.
    #[default]
    Nothing,
    /// They agree on these.
    Agreed(BackboneOptions),
    /// Not determined since a workspace was restored, which has options of its own.
    Restored,
}

impl State {
    /// The options that all shown probes were trained with, without probes that a backbone with its own options serves.
    fn probe_options(&self) -> CommonOptions {
        let served = |wanted: &BackboneOptions| {
            self.library.backbones.values().any(|backbone| backbone.own.as_ref() == Some(wanted))
        };
        let info = |column: &Column| self.library.probe_info(column.probe);
        let wanted = self.columns.values().filter_map(info).map(ProbeInfo::options);
        let mut wanted = wanted.filter(|wanted| !served(wanted));
        match wanted.next() {
            Some(first) if wanted.all(|other| other == first) => CommonOptions::Agreed(first),
            _ => CommonOptions::Nothing,
        }
    }

    /// Sets the backbones' options to those that the shown probes were trained with, when the probes agree on others than
    /// before and every open backbone supports them.
    pub(super) fn adopt_probe_options(&mut self) -> Vec<Request> {
        let mut probes = self.library.probes.values();
        let common = self.probe_options();
        if common == self.common_options || probes.any(|probe| probe.status.is_opening()) {
            return Vec::new();
        }
        let CommonOptions::Agreed(wanted) = common else {
            self.common_options = common;
            return Vec::new();
        };
        let before = std::mem::replace(&mut self.common_options, common);
        let is_deep_enough = |backbone: &BackboneInfo| {
            let layer = wanted.layer.unwrap_or(backbone.layers);
            layer <= backbone.layers && wanted.token_spec().joined() <= layer + 1
        };
        let supported = self.library.open_backbones().all(|(_, backbone)| is_deep_enough(backbone));
        if wanted == self.backbone_options || before == CommonOptions::Restored || !supported {
            return Vec::new();
        }
        let text = format!("Images are read as the shown probes were trained: {}", wanted.text());
        self.note(Severity::Info, text);
        self.set_backbone_options(wanted, Some(wanted.token_spec()))
    }

    /// Sets the options of the backbones without their own, and opens them again. The form of the next training takes
    /// `token_spec` if it had the previous options' one.
    pub(super) fn set_backbone_options(
        &mut self,
        options: BackboneOptions,
        token_spec: Option<TokenSpec>,
    ) -> Vec<Request> {
        let before = std::mem::replace(&mut self.backbone_options, options);
        let form = &mut self.training.form.tokens.token_spec;
        *form = token_spec.filter(|_| *form == before.token_spec()).unwrap_or(*form);
        self.reload(|backbone| backbone.own.is_none())
    }

    /// Opens a backbone a second time with options of its own, so that probes of several layers can be compared.
    pub(super) fn open_beside(&mut self, id: BackboneId, options: BackboneOptions) -> Vec<Request> {
        let Some(beside) = self.library.backbones.get(&id) else { return Vec::new() };
        let source = beside.source.clone();
        let id = self.backbone_from(source, Some(options));
        self.load_backbone(id)
    }

    /// Sets the options of a backbone that has its own.
    pub(super) fn set_own_options(&mut self, id: BackboneId, options: BackboneOptions) -> Vec<Request> {
        let backbone = self.library.backbones.get(&id);
        let Some(backbone) = backbone.filter(|backbone| backbone.own.is_some_and(|own| own != options))
        else {
            return Vec::new();
        };
        let text = format!("Set how {} reads", backbone.source);
        self.change(text, |parts| parts.own = Some((id, options)))
    }

    /// Replaces the options of a backbone that has its own; returns the previous ones.
    pub(super) fn swap_own_options(
        &mut self,
        (id, options): (BackboneId, BackboneOptions),
    ) -> (Option<(BackboneId, BackboneOptions)>, Vec<Request>) {
        let backbone = self.library.backbones.get_mut(&id);
        let Some((own, backbone)) = backbone.and_then(|backbone| Some((backbone.own?, backbone))) else {
            return (None, Vec::new());
        };
        backbone.own = Some(options);
        let requests = if backbone.status.is_open() { self.load_backbone(id) } else { Vec::new() };
        (Some((id, own)), requests)
    }

    /// Opens those of the open backbones again for which `which` holds, with the current device and options.
    pub(super) fn reload(&mut self, which: impl Fn(&Backbone) -> bool) -> Vec<Request> {
        let open = |backbone: &Backbone| backbone.status.is_open() && which(backbone);
        let all = self.library.backbones.iter().filter(|(_, backbone)| open(backbone));
        let all: Vec<BackboneId> = all.map(|(id, _)| *id).collect();
        all.into_iter().flat_map(|id| self.load_backbone(id)).collect()
    }
}
