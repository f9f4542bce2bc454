//! Everything of the window's state that a step can change, as values that compare.

use ssmprobe::app::jobs::{BackboneId, DatasetId};
use ssmprobe::app::state::settings::ThemeChoice;
use ssmprobe::app::state::{Finding, FindingId, GalleryFilter, Image, Views};
use ssmprobe::model::backbone::token_spec::TokenSpec;
use ssmprobe::model::data::{ImageSource, Split};

use crate::window::prelude::*;

#[derive(Clone, Debug, PartialEq)]
pub struct Plain {
    backbones: Vec<(BackboneId, String, Option<BackboneOptions>)>,
    probes: Vec<(ProbeId, PathBuf)>,
    images: Vec<(ImageId, Image)>,
    datasets: Vec<(DatasetId, PathBuf, Option<Split>, Vec<ImageId>)>,
    columns: Vec<(ColumnId, ProbeId, Option<ImageId>, Intervention, bool)>,
    runs: Vec<PathBuf>,
    image: Option<ImageId>,
    reference: Option<ColumnId>,
    beside: Option<ColumnId>,
    against: Option<ColumnId>,
    class: (ClassChoice, bool),
    views: Views,
    explain: ExplainSettings,
    masks: Option<PathBuf>,
    options: BackboneOptions,
    token_spec: TokenSpec,
    theme: ThemeChoice,
    scale: f32,
    device: String,
    draft_device: String,
    draft_data: Option<PathBuf>,
    layout: Value,
    dataset: Option<DatasetId>,
    gallery_filter: GalleryFilter,
    findings: Vec<(FindingId, Finding)>,
    stars: Vec<ImageSource>,
}

impl Plain {
    /// The undoable part of `state`; panics if it is inconsistent.
    pub fn of(state: &State) -> Self {
        let State { library, columns, selection, settings, training, evaluations, .. } = state;
        for column in columns.values() {
            assert!(library.probes.contains_key(&column.probe), "a column of no probe");
            assert!(column.image.is_none_or(|id| library.images.contains_key(&id)), "a column of no image");
        }
        for id in [selection.reference, selection.beside, selection.against].into_iter().flatten() {
            assert!(columns.contains_key(&id), "no column is pinned, beside or on the y axis");
        }
        assert!(selection.image.is_none_or(|id| library.images.contains_key(&id)), "no image is shown");
        assert!(
            evaluations.dataset.is_none_or(|id| library.datasets.contains_key(&id)),
            "no dataset is shown"
        );
        let dataset = |(id, dataset): (&DatasetId, &ssmprobe::app::state::Dataset)| {
            (*id, dataset.path.clone(), dataset.split, dataset.images.clone())
        };
        let column = |(id, one): (&ColumnId, &ssmprobe::app::state::Column)| {
            (*id, one.probe, one.image, one.change.clone(), one.compared)
        };
        Self {
            backbones: library.backbones.iter().map(|(id, one)| (*id, one.source.clone(), one.own)).collect(),
            probes: library.probes.iter().map(|(id, one)| (*id, one.path.clone())).collect(),
            images: library.images.iter().map(|(id, one)| (*id, one.clone())).collect(),
            datasets: library.datasets.iter().map(dataset).collect(),
            columns: columns.iter().map(column).collect(),
            runs: training.runs.keys().cloned().collect(),
            image: selection.image,
            reference: selection.reference,
            beside: selection.beside,
            against: selection.against,
            class: (selection.class.clone(), selection.follows_true),
            views: state.views.clone(),
            explain: state.explain,
            masks: state.masks.clone(),
            options: state.backbone_options,
            token_spec: training.form.tokens.token_spec,
            theme: settings.theme,
            scale: settings.scale,
            device: settings.device.clone(),
            draft_device: training.form.device.clone(),
            draft_data: training.form.data.clone(),
            layout: state.layout.clone(),
            dataset: evaluations.dataset,
            gallery_filter: state.gallery_filter.clone(),
            findings: state.findings.iter().map(|(id, finding)| (id, finding.clone())).collect(),
            stars: state.findings.stars().cloned().collect(),
        }
    }

    /// Without what a user may have looked at between a step and its undoing.
    pub fn without_selection(self) -> Self {
        Self { image: None, dataset: None, gallery_filter: GalleryFilter::default(), ..self }
    }
}
