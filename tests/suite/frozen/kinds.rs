//! Workspaces and settings; and every head, figure, table, format and kind of file is frozen, read, and written unchanged.

use std::collections::{BTreeMap, VecDeque};
use std::fs;

use ssmprobe::app::jobs::extract::TokenSettings;
use ssmprobe::app::jobs::train::TrainSettings;
use ssmprobe::app::jobs::{BackboneId, DatasetId};
use ssmprobe::app::report::{FORMATS, TABLES};
use ssmprobe::app::state::settings::{Recent, ThemeChoice};
use ssmprobe::app::state::workspace::{SavedBackbone, SavedColumn, SavedDataset, SavedImage, SavedProbe};
use ssmprobe::app::state::{Selection, Views};
use ssmprobe::model::backbone::order::MaeOrder;
use ssmprobe::model::backbone::preprocess::augment::Augmentation;
use ssmprobe::model::explain::removal::Removal;
use ssmprobe::model::explain::stability::Stability;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::HEADS;
use ssmprobe::model::train::protocol::Protocol;
use ssmprobe::viz::draw::colormap;
use ssmprobe::viz::figures::dataset::{Choice, MapOf};
use ssmprobe::viz::{Info, Options, Rows, figures};

use super::compare::Slack;
use super::{FREEZE, frozen, step, walk};
use crate::window::prelude::*;

/// A workspace with a value other than the default in every field that the frozen file has.
fn workspace(sandbox: &Path) -> Workspace {
    let mae_order = MaeOrder::Shuffled(3);
    let options = BackboneOptions { layer: Some(1), blocks: None, pixels: Some(48), mae_order };
    let fingerprint = |digit: &str| Some(digit.repeat(64));
    let drawn = Options {
        map: colormap::Map::Viridis,
        log: true,
        rows: Rows::Score,
        opacity: 0.25,
        grid: true,
        step: Some(3),
        limits: Some((-1.5, 2.25)),
        proxy_limits: Some((-0.5, 0.125)),
        ..Options::default()
    };
    let changes = [
        Intervention::Scrambled(7),
        Intervention::NoRouting,
        Intervention::Random(8),
        Intervention::Temperature(0.375),
        Intervention::Iterations(9),
    ];
    let column = |(at, change)| SavedColumn {
        id: ColumnId(20 + at as u64),
        probe: ProbeId(3),
        image: (at % 2 == 0).then_some(ImageId(5)),
        change,
        compared: true,
    };
    // Fields with defaults here (findings, current dataset, masks, host, saved session) are later than the frozen file.
    Workspace {
        format: 1,
        dataset: None,
        masks: None,
        host: None,
        saved_as: None,
        unsaved: false,
        saved_fingerprint: None,
        rest: serde_json::Map::new(),
        backbones: vec![
            SavedBackbone {
                id: BackboneId(1),
                source: sandbox.join("heads").display().to_string(),
                fingerprint: fingerprint("a"),
                options: None,
                open: true,
            },
            SavedBackbone {
                id: BackboneId(2),
                source: "owner/name@main".into(),
                fingerprint: None,
                options: None,
                open: false,
            },
        ],
        probes: vec![SavedProbe {
            id: ProbeId(3),
            path: sandbox.join("heads/probes/sinkhorn-s0-last.safetensors"),
            fingerprint: fingerprint("b"),
        }],
        images: vec![
            SavedImage { id: ImageId(4), source: sandbox.join("data/val/disc-stripes/24.png").into() },
            SavedImage {
                id: ImageId(5),
                source: ssmprobe::model::data::ImageSource {
                    path: sandbox.join("data/val/disc-stripes/27.png"),
                    row: Some(6),
                },
            },
        ],
        datasets: vec![SavedDataset {
            id: DatasetId(6),
            path: sandbox.join("data"),
            split: Some("train".into()),
        }],
        notes: Vec::new(),
        findings: Vec::new(),
        columns: changes.into_iter().enumerate().map(column).collect(),
        selection: Selection {
            image: Some(ImageId(5)),
            reference: Some(ColumnId(21)),
            class: ClassChoice::Named("disc-dots".into()),
            ..Selection::default()
        },
        views: Views {
            options: BTreeMap::from([("assignment".to_owned(), drawn)]),
            shared: false,
            difference: true,
            overview: Choice {
                measure: "edge_mass_10".into(),
                against: "path_length".into(),
                maps: MapOf::Weights,
                map: colormap::Map::Viridis,
                ..Choice::default()
            },
            ..Views::default()
        },
        explain: ExplainSettings { rho: Some(0.75), null_draws: 33, seed: 4, ..ExplainSettings::default() },
        backbone_options: options,
        runs: vec![sandbox.join("run")],
        training: TrainSettings {
            backbone: "backbone".into(),
            data: Some("data".into()),
            heads: vec!["gap".into(), "softsort".into()],
            head_settings: "softsort.power=1".into(),
            epochs: 7,
            first_seed: 0,
            batch: 6,
            rate: 0.0025,
            rates: Vec::new(),
            layers: Vec::new(),
            protocol: Protocol::Paper,
            evaluate_every: None,
            augment: Augmentation::None,
            seeds: 3,
            selection: Some(0.25),
            device: "cpu".into(),
            out: Some("somewhere".into()),
            tokens: TokenSettings {
                cache: Some("tokens".into()),
                token_spec: options.token_spec(),
                ..TokenSettings::default()
            },
            recompute: true,
        },
        layout: json!(null),
    }
}

fn settings() -> Settings {
    let paths = |name: &str| [1, 2].map(|number| PathBuf::from(format!("{name}-{number}"))).into();
    let recent = Recent {
        backbones: ["owner/name".to_owned(), "backbone".to_owned()].into(),
        probes: paths("probe.safetensors"),
        runs: paths("run"),
        images: paths("image.png"),
        datasets: paths("data"),
        workspaces: paths("work.ssmprobe"),
        hosts: VecDeque::new(),
    };
    Settings { theme: ThemeChoice::Dark, scale: 1.25, device: "cpu".into(), recent, ..Settings::default() }
}

/// The layout of a window in which one pane was closed.
fn rearranged() -> serde_json::Value {
    let mut window = Window::new();
    window.click("Panes");
    window.click_role(Role::CheckBox, "Memory kernel");
    window.state().layout.clone()
}

#[test]
fn a_workspace_is_read_and_written_again() {
    step("workspace", |sandbox, _| {
        let path = sandbox.join("work.ssmprobe");
        let expected = workspace(sandbox);
        let kept = if std::env::var(FREEZE).is_ok() {
            Workspace { layout: rearranged(), ..expected }
        } else {
            super::copy(&frozen("work.ssmprobe"), &path, ["", ""]);
            let loaded = Workspace::load(&path).expect("a workspace");
            assert_eq!(Workspace { layout: json!(null), ..loaded.clone() }, expected);
            loaded
        };
        let mut state = State::new(settings());
        state.restore(kept.clone());
        // A run joins the state only when its folder has been read, so the list is copied.
        let again = Workspace { runs: kept.runs, ..state.workspace(kept.layout) };
        again.save(&path).expect("saved");
    });
}

#[test]
fn settings_are_read_and_written_again() {
    step("settings", |sandbox, _| {
        let path = sandbox.join("settings.json");
        if std::env::var(FREEZE).is_err() {
            super::copy(&frozen("settings.json"), &path, ["", ""]);
            assert_eq!(Settings::load(&path).expect("settings"), settings());
        } else {
            settings().save(&path).expect("saved");
        }
        Settings::load(&path).expect("settings").save(&path).expect("saved");
    });
}

#[test]
fn what_was_kept_is_read_and_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let again = folder.path().join("again");
    let text = |path: &Path| fs::read_to_string(path).expect("text");
    let mut counts = BTreeMap::new();
    for path in walk(&frozen("")) {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let kind = if path.parent().is_some_and(|parent| parent.ends_with("probes")) {
            Probe::load(&path).and_then(|probe| probe.save(&again)).expect("a probe");
            "probe"
        } else if name.ends_with(".trace.json") {
            let trace: Trace = serde_json::from_str(&text(&path)).expect("a trace");
            fs::write(&again, serde_json::to_vec(&trace).expect("JSON")).expect("written");
            "trace"
        } else if name.ends_with(".stability.json") {
            let stability: Stability = serde_json::from_str(&text(&path)).expect("a stability");
            fs::write(&again, serde_json::to_vec(&stability).expect("JSON")).expect("written");
            "stability"
        } else if name.ends_with(".causal.json") {
            let removal = Removal::from_json(&text(&path)).expect("removal curves");
            fs::write(&again, serde_json::to_vec(&removal).expect("JSON")).expect("written");
            "removal"
        } else if name.ends_with(".survey.json") {
            let evaluation = Evaluation::from_json(&text(&path)).expect("an evaluation");
            fs::write(&again, evaluation.to_json().expect("JSON")).expect("written");
            "evaluation"
        } else {
            continue;
        };
        *counts.entry(kind).or_insert(0) += 1;
        // Parsing decimal digits may miss the last bit of a float64.
        let slack = Slack(if kind == "probe" { 0.0 } else { 1e-15 });
        assert_eq!(slack.difference(&path, &again), None, "{}", path.display());
    }
    assert_eq!(counts.len(), 5, "{counts:?}");
}

#[test]
fn every_kind_of_file_is_frozen() {
    let names: Vec<String> = walk(&frozen(""))
        .iter()
        .map(|path| path.strip_prefix(frozen("")).expect("below").to_string_lossy().into_owned())
        .collect();
    let has =
        |start: &str, end: &str| names.iter().any(|name| name.starts_with(start) && name.ends_with(end));
    for head in HEADS.iter() {
        assert!(has(&format!("heads/probes/{}-s0", head.id), ".safetensors"), "no probe of {}", head.id);
    }
    for (Info { id, .. }, _) in figures::all() {
        assert!(has("", &format!("-{id}.svg")), "no figure {id}");
    }
    for table in TABLES {
        for format in FORMATS {
            let is_in =
                |folder: &str| has(&format!("{folder}/{}", table.id), &format!(".{}", format.extension));
            assert!(
                ["tables", "removal_tables", "marked/tables", "layers/tables", "stable/tables"]
                    .into_iter()
                    .any(is_in),
                "no table {}",
                table.id
            );
        }
    }
    for ending in [
        "run.json",
        "metrics.jsonl",
        "results.csv",
        "truth.json",
        "checkpoint.safetensors",
        "unreadable.json",
        "evaluation.json",
        "scenes.json",
        "summary.csv",
        ".causal.npz",
        ".pdf",
        ".png",
    ] {
        assert!(has("", ending), "no {ending}");
    }
    assert!(has("tokens/", "/manifest.json"), "no token cache");
    let trace = |name: &&String| name.ends_with(".npz") && !name.ends_with(".causal.npz");
    assert!(names.iter().any(|name| trace(&name)), "no trace");
}
