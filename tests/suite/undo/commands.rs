//! Every command of the user, once: what it does to the steps of Undo, and how to make one for a state. A command that is
//! missing here does not compile.

use ssmprobe::app::jobs::result_file::ResultFile;
use ssmprobe::app::jobs::tasks::{TaskForm, TrainPlace, TrainPlaceSettings};
use ssmprobe::app::jobs::train::TrainSettings;
use ssmprobe::app::jobs::{BackboneId, DatasetId};
use ssmprobe::app::state::settings::{LibrarySections, ThemeChoice};
use ssmprobe::app::state::share::{Share, ShareKind};
use ssmprobe::app::state::{
    Finding, FindingColumn, FindingId, FindingView, GalleryFilter, Outcome, SheetView,
};
use ssmprobe::model::data::Split;
use ssmprobe::model::explain::removal::Mode;
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::viz::draw::hover::Hover;
use ssmprobe::viz::draw::theme::FileTheme;
use ssmprobe::viz::export::ExportFormat;
use ssmprobe::viz::figures::dataset::Choice;
use ssmprobe::viz::{FIGURES, Options};

use crate::window::prelude::*;

/// What a command does to the steps of Undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A step of its own.
    Step,
    /// A step; several of the same name in a row are one.
    Slide,
    /// No step, though it may change state that steps restore.
    Around,
    /// No step, and changes nothing that steps restore.
    Aside,
    /// Undo or Redo.
    History,
}

macro_rules! commands {
    ($($name:ident: $class:ident),* $(,)?) => {
        /// The commands by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($name),* }

        impl Kind {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub fn of(command: &Command) -> Self {
                match command { $(Command::$name { .. } => Self::$name),* }
            }

            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class),* }
            }
        }
    };
}

commands! {
    OpenBackbone: Around, OpenProbes: Around, OpenRun: Aside, OpenImages: Aside, OpenDataset: Around, UseDataset: Step,
    CloseDataset: Step, Evaluate: Aside, EvaluateRemovals: Aside, MeasureStability: Aside, RemoveTokens: Aside, CompareImages: Aside, FindSimilar: Step, SetGalleryFilter: Slide, SetOverview: Slide, OpenAny: Aside, ListFolder: Aside, SendFile: Aside,
    UseBackbone: Aside, CloseBackbone: Step, ReopenProbe: Aside, CloseProbes: Step, CloseImages: Step, SelectImage: Around,
    Star: Step, KeepFinding: Step, WriteFinding: Step, MoveFinding: Step, DeleteFinding: Step, ShowFinding: Step, Share: Aside, Step: Around, Focus: Aside, ShowProbe: Around, Compare: Step, CompareOnly: Step, Uncompare: Step, KeepColumn: Step, AddColumn: Step, RemoveColumn: Step, MoveColumn: Step, SetImage: Step, SetIntervention: Step, SlideIntervention: Slide, Pin: Step, SetBeside: Step, SetAgainst: Step,
    Hover: Aside, SetClass: Step, FollowTrueClass: Step, SetOptions: Slide, SetShared: Step, SetDifference: Step, SetRows: Step, SetSheetView: Slide, SetExplainSettings: Step,
    SetBackboneOptions: Slide, OpenBeside: Around, SetOwnOptions: Step, SetMasks: Step, SetDevice: Step, SetTheme: Step, SetScale: Slide, Retry: Around, Cancel: Aside,
    CancelAll: Aside, Dismiss: Aside, DismissToast: Aside, ShowThumbnails: Aside, ShowSheet: Aside, SetLibrary: Aside, SetTrainForm: Around, PlanTraining: Aside,
    StartTraining: Aside, ResumeTraining: Aside, PauseTraining: Aside, SetTrainPlace: Aside, PlanTasks: Aside, RetryTasks: Aside, EndTasks: Aside, CloseRun: Step, Arrange: Step, Undo: History,
    Redo: History,
}

/// A finding whose probes are not all open, and one of an image alone.
pub fn findings() -> Vec<Finding> {
    let column = |probe: &str, image: Option<&str>, change| FindingColumn {
        probe: probe.into(),
        image: image.map(|image| PathBuf::from(image).into()),
        change,
        compared: true,
    };
    let view = FindingView {
        columns: vec![
            column("lost/a.safetensors", None, Intervention::None),
            column("a.safetensors", Some("birds/0.png"), Intervention::Scrambled(2)),
        ],
        reference: Some(1),
        focus: Some(0),
        class: ClassChoice::Named("1".into()),
        layout: json!(1),
        ..FindingView::default()
    };
    let image = |path: &str| PathBuf::from(path).into();
    vec![
        Finding { image: image("lost.png"), note: "fur".into(), view: Some(Box::new(view)) },
        Finding { image: image("birds/3.png"), note: String::new(), view: None },
    ]
}

/// Key number `n`, modulo their count; `none` if there are no keys.
fn one<'a, K: Copy + 'a>(mut keys: impl ExactSizeIterator<Item = &'a K>, n: u8, none: K) -> K {
    let count = keys.len().max(1);
    keys.nth(usize::from(n) % count).copied().unwrap_or(none)
}

/// Fills in the training form.
fn set_form(a: u8) -> Command {
    Command::SetTrainForm(Box::new(TrainSettings {
        backbone: "one".into(),
        data: Some("birds".into()),
        heads: vec!["gap".into()],
        device: ["auto", "cpu"][usize::from(a) % 2].into(),
        ..TrainSettings::default()
    }))
}

/// Chooses where trainings are computed.
fn set_place(a: u8, b: u8) -> Command {
    let place = [TrainPlace::Here, TrainPlace::Detached, TrainPlace::Slurm][usize::from(a) % 3];
    let slurm = TaskForm { partition: format!("p{}", b % 2), ..TaskForm::default() };
    Command::SetTrainPlace(Box::new(TrainPlaceSettings { place, slurm }))
}

/// Sends a file to the machine of the worker.
fn send(path: PathBuf) -> Command {
    Command::SendFile(Box::new(ResultFile { path, bytes: vec![1] }))
}

/// An intervention for a column.
fn change([a, b, c]: [u8; 3]) -> Intervention {
    match c % 6 {
        0 => Intervention::None,
        1 => Intervention::NoRouting,
        5 => Intervention::Order(
            HandOrder::new(vec![3, 1, 0, 2]).expect("an order").with_moved(&[a.into()], b.into()),
        ),
        2 => Intervention::Scrambled(u64::from(b)),
        3 => Intervention::Temperature(f64::from(b) / 50.0),
        _ => Intervention::Iterations(usize::from(b)),
    }
}

impl Kind {
    /// [`Self::make`] for commands about findings and the gallery.
    fn about_images(self, state: &State, [a, b]: [u8; 2]) -> Command {
        let findings: Vec<FindingId> = state.findings.iter().map(|(id, _)| id).collect();
        let finding = one(findings.iter(), a, FindingId(1 << 60));
        match self {
            Self::SetGalleryFilter => {
                let outcome = if a.is_multiple_of(2) { Outcome::Wrong } else { Outcome::Any };
                Command::SetGalleryFilter(Box::new(GalleryFilter {
                    text: (b % 3).to_string(),
                    outcome,
                    ..GalleryFilter::default()
                }))
            }
            Self::KeepFinding => {
                let gone =
                    Finding { image: PathBuf::from("gone.png").into(), note: String::new(), view: None };
                let now = state.finding_now(json!(b % 2), Some(a.into()));
                Command::KeepFinding(Box::new(now.unwrap_or(gone)))
            }
            Self::WriteFinding => {
                Command::WriteFinding(finding, ["", "edge", "fur"][usize::from(b) % 3].into())
            }
            Self::MoveFinding => Command::MoveFinding(finding, usize::from(b % 4)),
            Self::DeleteFinding => Command::DeleteFinding(finding),
            Self::ShowFinding => Command::ShowFinding { id: finding, layout: state.layout.clone() },
            _ => Command::Share(Box::new(Share {
                findings: state.findings.iter().map(|(_, finding)| finding.clone()).collect(),
                title: "findings".into(),
                kind: ShareKind::Page,
                theme: FileTheme::Print,
                format: ExportFormat::Svg,
                classes: Vec::new(),
                to: "findings.html".into(),
            })),
        }
    }

    /// A command of this kind, about what `state` holds; the numbers choose.
    pub fn make(self, state: &State, [a, b, c]: [u8; 3]) -> Command {
        const NONE: u64 = 1 << 60;
        let library = &state.library;
        let column = one(state.columns.keys(), a, ColumnId(NONE));
        let probe = one(library.probes.keys(), a, ProbeId(NONE));
        let backbone = one(library.backbones.keys(), a, BackboneId(NONE));
        let dataset = one(library.datasets.keys(), a, DatasetId(NONE));
        // Now and then an image that does not exist any more.
        let image =
            |n: u8| if n > 250 { ImageId(NONE) } else { one(library.images.keys(), n, ImageId(NONE)) };
        let job = one(state.jobs.keys(), a, JobId(NONE));
        // One probe, or two.
        let probes = || {
            let second = (b.is_multiple_of(2)).then(|| one(library.probes.keys(), b, ProbeId(NONE)));
            std::iter::once(probe).chain(second.filter(|second| *second != probe)).collect::<Vec<_>>()
        };
        let run =
            || state.training.runs.keys().nth(usize::from(a) % state.training.runs.len().max(1)).cloned();
        let named = |names: &[&str]| PathBuf::from(names[usize::from(a) % names.len()]);
        let change = change([a, b, c]);
        let options = BackboneOptions {
            layer: [None, Some(1), Some(2)][usize::from(a) % 3],
            pixels: [None, Some(160)][usize::from(b) % 2],
            ..BackboneOptions::default()
        };
        match self {
            Self::OpenBackbone => Command::OpenBackbone(["one", "two", "lost"][usize::from(a) % 3].into()),
            Self::OpenProbes => Command::OpenProbes(vec![
                named(&["a.safetensors", "b.safetensors", "deep.safetensors", "lost.safetensors"]),
                format!("more/{}.safetensors", b % 4).into(),
            ]),
            Self::OpenRun => Command::OpenRun(named(&["runs/one", "runs/two", "runs/lost"])),
            Self::OpenImages => Command::OpenImages(vec![
                format!("{}.png", b % 8).into(),
                named(&["birds/0.png", "birds/3.png", "cars/1.png", "x.png"]),
            ]),
            Self::OpenDataset => Command::OpenDataset(
                named(&["birds", "cars"]),
                [None, Some(Split::Train), Some(Split::Test)][usize::from(b) % 3],
            ),
            Self::UseDataset => Command::UseDataset(dataset),
            Self::CloseDataset => Command::CloseDataset(dataset),
            Self::Evaluate => Command::Evaluate { all: a.is_multiple_of(2) },
            Self::EvaluateRemovals => Command::EvaluateRemovals(vec![Mode::ALL[usize::from(b) % 2]]),
            Self::MeasureStability => Command::MeasureStability(column),
            Self::RemoveTokens => Command::RemoveTokens(column, vec![Mode::ALL[usize::from(b) % 4]]),
            Self::CompareImages => Command::CompareImages(dataset, column),
            Self::FindSimilar => Command::FindSimilar(image(b)),
            Self::SetOverview => {
                let measure = ["rank_coverage", "edge_mass_10", "confidence"][usize::from(a) % 3].to_owned();
                Command::SetOverview(Box::new(Choice { measure, ..Choice::default() }))
            }
            Self::OpenAny => {
                Command::OpenAny(vec![named(&["birds", "x.png", "runs/one", "two", "d.safetensors"])])
            }
            Self::ListFolder => Command::ListFolder(named(&["", "runs", "lost"])),
            Self::SendFile => send(named(&["x.png", "d.safetensors"])),
            Self::UseBackbone => Command::UseBackbone(backbone),
            Self::CloseBackbone => Command::CloseBackbone(backbone),
            Self::ReopenProbe => Command::ReopenProbe(probe),
            Self::CloseProbes => Command::CloseProbes(probes()),
            Self::CloseImages => {
                Command::CloseImages((0..=c % 3).map(|i| image(a.wrapping_add(i.wrapping_mul(b)))).collect())
            }
            Self::Star => Command::Star(image(a), b.is_multiple_of(2)),
            Self::SetGalleryFilter
            | Self::KeepFinding
            | Self::WriteFinding
            | Self::MoveFinding
            | Self::DeleteFinding
            | Self::ShowFinding
            | Self::Share => self.about_images(state, [a, b]),
            Self::SelectImage => Command::SelectImage(image(a)),
            Self::Step => Command::Step(isize::from(a % 7) - 3),
            Self::Focus => Command::Focus(column),
            Self::ShowProbe => Command::ShowProbe(probe),
            Self::Compare => Command::Compare(probes()),
            Self::CompareOnly => Command::CompareOnly(probes()),
            Self::Uncompare => Command::Uncompare(probes()),
            Self::KeepColumn => Command::KeepColumn(column),
            Self::AddColumn => {
                let image = (b.is_multiple_of(2)).then(|| image(b));
                Command::AddColumn { probe, image, change }
            }
            Self::RemoveColumn => Command::RemoveColumn(column),
            Self::MoveColumn => Command::MoveColumn(column, usize::from(b % 5)),
            Self::SetImage => Command::SetImage(column, (!b.is_multiple_of(3)).then(|| image(b))),
            Self::SetIntervention => Command::SetIntervention(column, change),
            Self::SlideIntervention => Command::SlideIntervention(column, change),
            Self::Pin => Command::Pin((!b.is_multiple_of(3)).then_some(column)),
            Self::SetBeside => Command::SetBeside((!b.is_multiple_of(3)).then_some(column)),
            Self::SetAgainst => Command::SetAgainst((!b.is_multiple_of(3)).then_some(column)),
            Self::Hover => Command::Hover(Hover { token: Some(usize::from(a)), ..Hover::default() }),
            Self::SetClass if a.is_multiple_of(3) => Command::SetClass(ClassChoice::Predicted),
            Self::SetClass if a % 3 == 1 => Command::SetClass(ClassChoice::Named(" ".into())),
            Self::SetClass => Command::SetClass(ClassChoice::Named((b % 3).to_string())),
            Self::FollowTrueClass => Command::FollowTrueClass,
            Self::SetOptions => {
                let figure = FIGURES[usize::from(a) % FIGURES.len()].id().to_owned();
                Command::SetOptions(figure, Options { opacity: f32::from(b) / 255.0, ..Options::default() })
            }
            Self::SetShared => Command::SetShared(a.is_multiple_of(2)),
            Self::SetDifference => Command::SetDifference(a.is_multiple_of(2)),
            Self::SetRows => Command::SetRows(FIGURES.iter().take(a.into()).map(|f| f.id().into()).collect()),
            Self::SetSheetView => Command::SetSheetView(SheetView { side: a.into(), ..SheetView::default() }),
            Self::SetExplainSettings => Command::SetExplainSettings(ExplainSettings {
                seed: u64::from(a % 4),
                ..ExplainSettings::default()
            }),
            Self::SetBackboneOptions => Command::SetBackboneOptions(options),
            Self::OpenBeside => Command::OpenBeside(backbone, options),
            Self::SetOwnOptions => {
                let own = library.backbones.iter().find(|(_, backbone)| backbone.own.is_some());
                Command::SetOwnOptions(own.map_or(backbone, |(id, _)| *id), options)
            }
            Self::SetDevice => Command::SetDevice(["auto", "cpu", "wgpu"][usize::from(a) % 3].into()),
            Self::SetMasks => Command::SetMasks((a % 2 == 1).then(|| format!("masks{}", b % 3).into())),
            Self::SetTheme => Command::SetTheme(
                [ThemeChoice::System, ThemeChoice::Light, ThemeChoice::Dark][usize::from(a) % 3],
            ),
            Self::SetScale => Command::SetScale(if a == 255 { f32::NAN } else { f32::from(a) / 50.0 }),
            Self::Retry => Command::Retry,
            Self::Cancel => Command::Cancel(job),
            Self::CancelAll => Command::CancelAll,
            Self::Dismiss => Command::Dismiss(job),
            Self::DismissToast => Command::DismissToast(state.toasts.first().map_or(0, |toast| toast.id)),
            Self::ShowThumbnails => Command::ShowThumbnails(library.images.keys().copied().collect()),
            Self::SetLibrary => Command::SetLibrary(Box::new(LibrarySections {
                folded: [("Probes".to_owned(), a.is_multiple_of(2))].into(),
                ..LibrarySections::default()
            })),
            Self::ShowSheet => {
                Command::ShowSheet(library.images.keys().map(|image| (column, *image)).collect())
            }
            Self::SetTrainForm => set_form(a),
            Self::PlanTraining => Command::PlanTraining,
            Self::StartTraining => Command::StartTraining,
            Self::ResumeTraining => Command::ResumeTraining(run().unwrap_or_else(|| "runs/one".into())),
            Self::PauseTraining => Command::PauseTraining(a.is_multiple_of(2)),
            Self::SetTrainPlace => set_place(a, b),
            Self::PlanTasks => Command::PlanTasks,
            Self::RetryTasks => Command::RetryTasks(run().unwrap_or_else(|| "runs/one".into())),
            Self::EndTasks => Command::EndTasks(run().unwrap_or_else(|| "runs/one".into())),
            Self::CloseRun => Command::CloseRun(run().unwrap_or_else(|| "runs/none".into())),
            Self::Arrange => Command::Arrange {
                text: format!("Move pane {}", b % 3),
                before: state.layout.clone(),
                after: json!({ "tiles": [a, b, c] }),
            },
            Self::Undo => Command::Undo,
            Self::Redo => Command::Redo,
        }
    }
}
