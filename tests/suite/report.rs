//! Tables of hand-made runs, in every format.

use std::path::Path;

use serde_json::Value;
use ssmprobe::app::jobs::run_metrics::{ProbeMetrics, RunMetrics};
use ssmprobe::app::report::html::choose;
use ssmprobe::app::report::table::{Cell, Column, Number, Row, Table};
use ssmprobe::app::report::{FORMATS, Source, TABLES, tables_of};
use ssmprobe::model::backbone::preprocess::augment::Augmentation;
use ssmprobe::model::backbone::token_spec::Layer;
use ssmprobe::model::data::token_cache::{Precision, TokenKey};
use ssmprobe::model::explain::ablation::Ablation;
use ssmprobe::model::explain::baselines::{Baseline, Method, View};
use ssmprobe::model::explain::diagnostics::{MEASURES, Measure};
use ssmprobe::model::explain::evaluation::metrics::{self, LastTokens, Measured, Metrics};
use ssmprobe::model::explain::evaluation::orders::OrderTests;
use ssmprobe::model::explain::evaluation::regions::{RegionMeans, RegionSummary};
use ssmprobe::model::explain::evaluation::removals::RemovalHeights;
use ssmprobe::model::explain::evaluation::stability::{COLUMNS, StabilitySummary};
use ssmprobe::model::explain::localization;
use ssmprobe::model::explain::removal::Mode;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::io::{Format, sha256};
use ssmprobe::model::probe::BackboneMeta;
use ssmprobe::model::probe::head::Config;
use ssmprobe::model::stats::{CrossedMean, holm, mcnemar, permutation};
use ssmprobe::model::train::run::{
    DatasetMeta, Manifest, Outcome, ProbeCheckpoint, Run, Selection, Truth, Variant,
};
use ssmprobe::model::train::{Epoch, TrainConfig};
use tempfile::TempDir;

use crate::ablation::token_key;
use crate::close::assert_close;
use crate::run::{assert_ends, assert_says, done, program, succeeds};

/// Test images of every run here: 20, of 4 classes in turn.
const IMAGES: usize = 20;

fn variant(name: &str) -> Variant {
    let head = name.split('[').next().unwrap().to_owned();
    Variant::new(name, head, Config::default())
}

pub fn manifest(backbone: &str, dataset: &str, heads: &[&str], seeds: u64, selection: Selection) -> Manifest {
    let text = str::to_owned;
    Manifest {
        format: Format,
        program: text("ssmprobe 0.1.0"),
        backbone: BackboneMeta { id: text(backbone), hidden_size: 24, ..BackboneMeta::default() },
        backbone_source: text(backbone),
        dataset: DatasetMeta {
            name: text(dataset),
            layout: text("folder"),
            path: dataset.into(),
            classes: (0..4).map(|class| format!("class-{class}")).collect(),
            train: 80,
            select: IMAGES,
            test: IMAGES,
            unreadable: 0,
        },
        tokens: TokenKey { precision: Precision::Float16, ..token_key() },
        size: None,
        recompute: false,
        cache: None,
        grid: Grid::new(3, 4),
        heads: heads.iter().map(|head| variant(head)).collect(),
        config: TrainConfig { epochs: 2, batch: 16, rate: 1e-3, ..TrainConfig::default() },
        seeds: (0..seeds).collect(),
        selection,
        warning: None,
        device: text("cpu"),
    }
}

/// A run whose head `h` of seed `s` classifies `right(h, s)` of the images correctly at its best epoch, and one
/// fewer at its last.
fn run(folder: &Path, manifest: Manifest, right: impl Fn(usize, u64) -> usize) -> Run {
    let classes: Vec<usize> = (0..IMAGES).map(|i| i % 4).collect();
    let images = (0..IMAGES).map(|i| format!("test/{i}.png")).collect();
    let truth = Truth { images, indices: (0..IMAGES).collect(), classes: classes.clone() };
    let run = Run::create(folder, manifest, &truth).unwrap();
    let answers = |right: usize, from: usize| -> Vec<u32> {
        // Every head is wrong on other images.
        let wrong = |i: usize| (i + 3 * from) % IMAGES >= right;
        (0..IMAGES).map(|i| ((classes[i] + usize::from(wrong(i))) % 4) as u32).collect()
    };
    for (index, head) in run.manifest.heads.iter().enumerate() {
        for &seed in &run.manifest.seeds {
            let right = right(index, seed);
            let percent = |right: usize| 100.0 * right as f64 / IMAGES as f64;
            let epoch = |epoch: usize, right: usize| Epoch {
                epoch,
                step: None,
                loss: 1.0 / epoch as f64,
                train: 90.0,
                select: percent(right),
                test: percent(right),
            };
            run.write_outcome(&Outcome {
                head: head.name.clone(),
                seed,
                best_epoch: Some(0),
                parameters: 100,
                seconds: 1.5 + seed as f64,
                failure: None,
                epochs: vec![epoch(1, right), epoch(2, right - 1)],
                between: Vec::new(),
                best: answers(right, index),
                last: answers(right - 1, index),
            })
            .unwrap();
        }
    }
    run
}

/// A [`run`] of these heads in a folder of its own.
fn birds(heads: &[&str], seeds: u64, right: impl Fn(usize, u64) -> usize) -> (TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let run = run(folder.path(), manifest("mae", "birds", heads, seeds, Selection::Test), right);
    (folder, run)
}

/// Diagnostics of a router; coverage depends on the seed.
fn measured(seed: f64) -> Vec<Measured> {
    let one = |(at, measure): (usize, &Measure)| Measured {
        name: measure.name.to_owned(),
        mean: 0.5 + 0.125 * seed + at as f64,
        null: (0.25 + at as f64, 0.375 + at as f64),
        untrained: 0.4375 + at as f64,
        null_mean: Some((0.3125 + at as f64, 0.34375 + at as f64)),
        untrained_mean: Some((0.40625 + at as f64, 0.46875 + at as f64)),
        untrained_sample: Some((16, 32)),
    };
    MEASURES.iter().enumerate().map(one).collect()
}

/// Images whose order beats chance in Sinkhorn's two trainings: 12 and 13 of 20.
const SIGNIFICANT: [&str; 2] = ["11011010110101110010", "11101010110101110110"];
/// Confidence intervals by integration, in percent: of one image of 20 in one training, and of these.
const INTERVALS: [[f64; 2]; 2] = [[0.0, 15.465_120], [27.262_076, 97.737_924]];
/// The p value of so many by chance.
const P_OF_SINKHORN: f64 = 0.014_262_647;

/// Order tests with these significant images; all numbers depend on the seed.
fn ordered(significant: &str, untrained: Option<f64>, seed: f64) -> OrderTests {
    OrderTests {
        significant: significant.to_owned(),
        z: 1.5 + seed,
        headroom: 0.25 + 0.5 * seed,
        content: 0.5 - 0.25 * seed,
        fixed_order: -0.125 - seed,
        routing: if untrained.is_some() { 2.0 + seed } else { 0.0 },
        untrained,
        random: Some(0.0625 + 0.0625 * seed),
        sample: Some((16, 4)),
    }
}

/// Heights of curves by evidence and by random orders: Sinkhorn's is further below random.
fn removed(head: &str, seed: u64) -> Vec<RemovalHeights> {
    let height = |ranking: &str, low: f32| RemovalHeights {
        mode: Mode::Rerouted,
        ranking: ranking.to_owned(),
        deletion: (0..IMAGES).map(|image| low + 0.01 * (image % 2) as f32 + 0.02 * seed as f32).collect(),
        insertion: (0..IMAGES).map(|image| 0.75 + 0.01 * (image % 2) as f32).collect(),
    };
    match head {
        "sinkhorn" => vec![height("evidence", 0.25), height("random", 0.5)],
        "gap" => vec![height("evidence", 0.375), height("random", 0.5)],
        _ => Vec::new(),
    }
}

/// Two regions: a beak in every image, later with the seed, and a tail in every fifth; GAP has no order.
fn marked(head: &str, seed: u64) -> Option<RegionSummary> {
    let ordered = match head {
        "sinkhorn" => true,
        "gap" => false,
        _ => return None,
    };
    let region = |name: &str, every: usize, at: f32| RegionMeans {
        name: name.to_owned(),
        images: IMAGES.div_ceil(every),
        tokens: 2.5,
        positions: (0..IMAGES)
            .map(|image| {
                (ordered && image % every == 0).then_some(at + 0.02 * (image % 2) as f32 + 0.1 * seed as f32)
            })
            .collect(),
        weight: Some(1.5),
        evidence: Some(0.25 + seed as f64),
        mean_evidence: Some(0.1),
        weight_auc: ordered.then_some(0.625),
        evidence_auc: Some(0.75),
    };
    let share = 0.75 + 0.125 * seed as f64;
    Some(RegionSummary {
        images: IMAGES,
        regions: vec![region("beak", 1, 0.25), region("tail", 5, 0.75)],
        precedence: if ordered {
            vec![vec![Some(0.45), Some(share)], vec![Some(0.95 - share), Some(0.45)]]
        } else {
            Vec::new()
        },
        pairs: if ordered { vec![vec![20, 4], vec![4, 4]] } else { Vec::new() },
    })
}

#[test]
fn the_tables_of_regions_say_when_each_is_read_and_which_before_which() {
    let (_folder, sources) = main_source();
    let tables = build("regions", &sources);
    let [regions, sinkhorn] = &tables[..] else { panic!("{} tables", tables.len()) };
    let named: Vec<[Cell; 2]> =
        regions.rows.iter().map(|row| [0, 1].map(|at| row.cells[at].clone())).collect();
    let expected = [["GAP", "beak"], ["GAP", "tail"], ["Sinkhorn", "beak"], ["Sinkhorn", "tail"]];
    assert_eq!(named, expected.map(|row| row.map(Cell::text)));
    let number = |table: &Table, row: usize, column: usize| number(&table.rows[row].cells[column]);
    assert_eq!([0, 1].map(|row| number(regions, row, 5)), [None; 2], "GAP looks at no order");
    let row: Vec<Option<f64>> = (2..13).map(|column| number(regions, 2, column)).collect();
    assert_eq!((row[0], row[1], row[2]), (Some(2.0), Some(20.0), Some(2.5)));
    // Two seeds, 0.1 apart, every second image 0.02 later.
    assert_close("beak", row[3].unwrap(), 0.25 + 0.05 + 0.01, 1e-6);
    assert!(row[4] == Some(0.0) && row[5].unwrap() > 0.6, "two seeds say little: {row:?}");
    assert_close(
        "the rest",
        [row[6], row[7], row[9], row[10]].map(Option::unwrap),
        [1.5, 0.75, 0.625, 0.75],
        1e-9,
    );
    assert_eq!((number(regions, 3, 3), sinkhorn.id.as_str()), (Some(4.0), "regions-sinkhorn"));
    assert_eq!([number(sinkhorn, 0, 1), number(sinkhorn, 1, 2)], [None; 2], "a region and itself");
    assert_close("before", number(sinkhorn, 0, 2).unwrap(), 100.0 * (0.75 + 0.0625), 0.06);
    assert_close("before", number(sinkhorn, 1, 1).unwrap(), 100.0 * (0.2 - 0.0625), 0.06);
    let images = [0, 1].map(|row| [3, 4].map(|column| number(sinkhorn, row, column)));
    assert_eq!(
        (images, &*sinkhorn.columns[3].group),
        ([[None, Some(4.0)], [Some(4.0), None]], "Images with both")
    );
    assert!(render("md", &tables).contains("Which region Sinkhorn reads first"));
}

#[test]
fn regions_of_shuffled_tokens_that_earlier_versions_measured_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = manifest("mae", "birds", HEADS, 2, Selection::Test);
    let tokens = TokenKey { layer: "last, shuffled by seed 0".to_owned(), ..manifest.tokens };
    let run = run(folder.path(), Manifest { tokens, ..manifest }, |_, _| 9);
    evaluate(&run);
    let sources = [Source::open(folder.path()).unwrap()];
    let probes = &sources[0].evaluations.as_ref().unwrap().probes;
    assert!(!probes.is_empty() && probes.iter().all(|probe| probe.metrics.regions.is_none()));
    assert!(build("regions", &sources).is_empty());
    let [kept, shuffled] = [&main_source().1, &sources].map(|all| render("md", &build("main", all)));
    assert!(kept.contains("Object found") && !shuffled.contains("Object found"), "{shuffled}");
}

#[test]
fn what_a_damaged_evaluation_lacks_is_an_empty_cell() {
    let (_folder, mut sources) = main_source();
    for probe in &mut sources[0].evaluations.as_mut().unwrap().probes {
        if let Some(regions) = &mut probe.metrics.regions {
            regions.precedence.truncate(1);
        }
        if let Some(order) = probe.metrics.order.as_mut().filter(|_| probe.seed == 1) {
            order.significant.replace_range(..2, "é");
        }
    }
    let tables = build("regions", &sources);
    let [_, sinkhorn] = &tables[..] else { panic!("{} tables", tables.len()) };
    let number = |row: usize, column: usize| number(&sinkhorn.rows[row].cells[column]);
    assert_eq!((number(0, 2).is_some(), number(1, 1)), (true, None));
    assert!(!build("order", &sources)[0].rows.is_empty());
}

#[test]
fn the_table_of_removal_finds_its_reference_by_the_head_as_the_paired_one_does() {
    let (_folder, mut sources) = main_source();
    let gap = sources[0].run.manifest.heads.iter_mut().find(|variant| variant.name == "gap").unwrap();
    gap.head = "spiral".into();
    sources[0].reference = Some("spiral".into());
    let tables = ["causal", "paired"].map(|id| build(id, &sources).remove(0));
    let name = tables[0].columns[10].name();
    assert!(name.starts_with("Deletion less gap") && tables[1].title.contains("from gap"), "{name}");
}

#[test]
fn the_table_of_removal_says_that_its_reference_has_no_curves_and_has_heads_of_several_rates() {
    let (_folder, [mut source]) = main_source();
    source.reference = Some("raster".into());
    let note = |source: &Source| {
        let table = build("causal", std::slice::from_ref(source)).remove(0);
        table.notes.into_iter().find(|note| note.contains("no removal curves"))
    };
    let said = "`raster` has no removal curves here: the others are compared with Sinkhorn";
    assert_eq!(note(&source).as_deref(), Some(said));
    source.reference = Some("gap".into());
    assert_eq!(note(&source), None);
    // Of a head at several rates, the chosen one.
    let (_folder, [mut source]) = main_source();
    to_rates(&mut source);
    let table = build("causal", &[source]).remove(0);
    let has = |name: &str| table.rows.iter().any(|row| row.cells[1] == Cell::text(name));
    assert!(has("GAP") && has("Sinkhorn [rate=0.1]"), "{:?}", table.rows);
}

/// Sinkhorn and SoftSort become Sinkhorn at two rates, of which 0.1 is better on the selection images.
fn to_rates(source: &mut Source) {
    for (head, rate) in [("sinkhorn", "0.1"), ("softsort", "0.2")] {
        let name = || format!("sinkhorn[rate={rate}]");
        let variant = source.run.manifest.heads.iter_mut().find(|variant| variant.name == head).unwrap();
        (variant.name, variant.head) = (name(), "sinkhorn".to_owned());
        source
            .outcomes
            .iter_mut()
            .filter(|outcome| outcome.head == head)
            .for_each(|outcome| outcome.head = name());
        let probes = source.evaluations.iter_mut().flat_map(|evaluations| &mut evaluations.probes);
        probes.filter(|probe| probe.head == head).for_each(|probe| probe.head = name());
    }
}

#[test]
fn tables_of_evaluations_have_the_chosen_rate_of_a_head_or_all_that_were_evaluated_without_it() {
    let evaluated = |rates: &[&str]| {
        let (folder, [mut source]) = main_source();
        let probes = &mut source.evaluations.as_mut().unwrap().probes;
        for probe in &mut *probes {
            let last = LastTokens { tokens: 4, accuracy: 50.0, ..LastTokens::default() };
            let stable = StabilitySummary {
                name: COLUMNS[0].1.to_owned(),
                mean: 0.5,
                spread: None,
                images: IMAGES,
                null: (-0.1, 0.1),
            };
            (probe.metrics.last, probe.metrics.stability) = (vec![last], vec![stable]);
        }
        let others = probes.iter().filter(|probe| probe.head == "sinkhorn");
        let others =
            others.map(|probe| ProbeMetrics { head: "softsort".into(), ..probe.clone() }).collect::<Vec<_>>();
        probes.extend(others);
        to_rates(&mut source);
        let is_asked = |head: &str| !head.contains("rate") || rates.iter().any(|rate| head.contains(rate));
        source.evaluations.as_mut().unwrap().probes.retain(|probe| is_asked(&probe.head));
        (folder, [source])
    };
    let ids = ["order", "scramble", "diagnostics", "last", "stability", "regions"];
    let [both, one] = [evaluated(&["0.1", "0.2"]), evaluated(&["0.2"])];
    for id in ids {
        let has = |(_, sources): &(TempDir, [Source; 1]), rate: &str| {
            let table = build(id, sources).remove(0);
            let name = Cell::text(format!("Sinkhorn [rate={rate}]"));
            (table.rows.iter().any(|row| row.cells[0] == name), table.notes.last().unwrap().clone())
        };
        let (chosen, note) = has(&both, "0.1");
        assert!(chosen && note.ends_with("in the choice. Chosen: Sinkhorn [rate=0.1]"), "{id}: {note}");
        assert!(!has(&both, "0.2").0, "{id}");
        let (other, note) = has(&one, "0.2");
        assert!(other && note.ends_with("evaluated for this: Sinkhorn [rate=0.2]"), "{id}: {note}");
    }
    // The correction counts the rows of the table.
    let order = build("order", &both.1).remove(0);
    let [raw, holm] = [7, 8].map(|column| number(&order.rows[1].cells[column]).unwrap());
    assert!(order.rows.len() == 2 && (holm - 2.0 * raw).abs() < 1e-12, "{raw}, {holm}");
}

#[test]
fn the_tables_of_last_tokens_and_of_stability_have_means_over_seeds() {
    let (_folder, [mut source]) = main_source();
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    for probe in probes.iter_mut().filter(|probe| probe.head == "sinkhorn") {
        let seed = probe.seed as f64;
        let last = |tokens, accuracy| LastTokens {
            tokens,
            accuracy,
            logit_change: -0.5 - seed,
            ..LastTokens::default()
        };
        let stable = |(_, name): (&str, &str), mean| StabilitySummary {
            name: name.to_owned(),
            mean,
            spread: Some(0.25 + 0.25 * seed),
            images: IMAGES,
            null: (-0.125, 0.25),
        };
        probe.metrics.last = vec![last(4, 55.0), last(1, 20.0 + seed)];
        probe.metrics.stability = vec![stable(COLUMNS[0], 0.5 + 0.25 * seed), stable(COLUMNS[8], 0.75)];
    }
    let rows = |id: &str| -> Vec<Vec<Option<f64>>> {
        let table = build(id, std::slice::from_ref(&source)).remove(0);
        assert!(table.rows.iter().all(|row| row.cells[0] == Cell::text("Sinkhorn")), "{table:?}");
        table.rows.iter().map(|row| row.cells[1..].iter().map(number).collect()).collect()
    };
    // The accuracy with all tokens is 50 %.
    let last = [[1.0, 20.5, -29.5, -1.0], [4.0, 55.0, 5.0, -1.0]];
    assert_eq!(rows("last"), last.map(|row| row.map(Some).to_vec()));
    let stable = |tau| vec![None, Some(tau), Some(0.375), Some(20.0), Some(-0.125), Some(0.25)];
    assert_eq!(rows("stability"), [stable(0.625), stable(0.75)]);
}

#[test]
fn the_table_of_removal_compares_rankings_and_heads_on_the_same_images() {
    let (_folder, sources) = main_source();
    let tables = build("causal", &sources);
    let table = &tables[0];
    let rows: Vec<[Cell; 3]> =
        table.rows.iter().map(|row| [0, 1, 2].map(|at| row.cells[at].clone())).collect();
    let expected = [
        ["rerouted", "GAP", "Evidence"],
        ["rerouted", "GAP", "Random"],
        ["rerouted", "Sinkhorn", "Evidence"],
        ["rerouted", "Sinkhorn", "Random"],
    ];
    assert_eq!(rows, expected.map(|row| row.map(Cell::text)));
    let number = |row: usize, column: usize| number(&table.rows[row].cells[column]);
    // Two seeds of Sinkhorn: one point more for every other image, two more for the second seed.
    assert_eq!(number(2, 3), Some(2.0));
    assert_close("deletion", number(2, 4).unwrap(), 25.0 + 0.5 + 1.0, 1e-4);
    assert_close("less random", number(2, 7).unwrap(), -25.0, 1e-4);
    let [low, high] = [8, 9].map(|column| number(2, column).unwrap());
    assert!(low <= -24.999 && high >= -25.001 && high - low < 1e-3, "{low} {high}: the same for every image");
    assert_eq!(number(2, 10), None, "itself");
    // The only seed of GAP against the same seed of Sinkhorn.
    assert_close("less Sinkhorn", number(0, 10).unwrap(), 12.5, 1e-4);
    assert_close("insertion", number(0, 13).unwrap(), 75.5, 1e-4);
    assert_eq!((number(1, 7), number(1, 10)), (None, Some(0.0)));
    assert!(table.columns[10].name().contains("Sinkhorn"), "{}", table.columns[10].name());
}

#[test]
fn the_table_of_removal_says_which_heads_share_few_seeds_with_its_reference() {
    let (_folder, [mut source]) = main_source();
    let said = |source: &Source| {
        let notes = build("causal", std::slice::from_ref(source)).remove(0).notes;
        notes.into_iter().find(|note| note.starts_with("Differences from "))
    };
    assert_eq!(said(&source), None, "the only seed of GAP is one of Sinkhorn's");
    source.reference = Some("gap".into());
    let few = "Differences from GAP are of the seeds that both have: Sinkhorn (1 of 2)";
    assert_eq!(said(&source).as_deref(), Some(few));
    // Of a seed with curves of fewer images there is no mean with the others.
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    let other = probes.iter_mut().find(|probe| probe.head == "sinkhorn" && probe.seed == 1).unwrap();
    for heights in &mut other.metrics.removals {
        heights.deletion.pop();
    }
    let table = build("causal", &[source]).remove(0);
    let row = table.rows.iter().find(|row| row.cells[1] == Cell::text("Sinkhorn")).unwrap();
    assert_eq!(number(&row.cells[3]), Some(1.0));
}

#[test]
fn removal_in_one_image_has_no_interval() {
    let (_folder, [mut source]) = main_source();
    for probe in &mut source.evaluations.as_mut().unwrap().probes {
        for heights in &mut probe.metrics.removals {
            heights.deletion.truncate(1);
            heights.insertion.truncate(1);
        }
    }
    let tables = build("causal", &[source]);
    let found: Vec<bool> = tables[0].rows[2].cells[4..7].iter().map(|cell| number(cell).is_some()).collect();
    assert_eq!(found, [true, false, false]);
}

#[test]
fn intervals_of_the_table_of_removal_are_those_of_scipy() {
    let document: Value = serde_json::from_str(include_str!("../fixtures/stats/stats.json")).unwrap();
    let cases = document["causal"].as_array().unwrap();
    let rows =
        |of: &Value| -> Vec<Vec<f32>> { serde_json::from_value(of.clone()).expect("a row for every seed") };
    let (_folder, [mut source]) = main_source();
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    for head in ["sinkhorn", "gap"] {
        let one = probes
            .iter()
            .find(|probe| probe.head == head && probe.which == ProbeCheckpoint::Best)
            .unwrap()
            .clone();
        probes.retain(|probe| probe.head != head);
        let own = |case: &&Value| case["head"] == *head;
        let seeds = cases.iter().find(own).map(|case| rows(&case["deletion"]).len()).unwrap();
        for seed in 0..seeds {
            let heights = |case: &Value| RemovalHeights {
                mode: Mode::Rerouted,
                ranking: case["ranking"].as_str().unwrap().to_owned(),
                deletion: rows(&case["deletion"])[seed].clone(),
                insertion: rows(&case["insertion"])[seed].clone(),
            };
            let mut probe = ProbeMetrics { seed: seed as u64, ..one.clone() };
            probe.metrics.removals = cases.iter().filter(own).map(heights).collect();
            probes.push(probe);
        }
    }
    let tables = build("causal", &[source]);
    let table = &tables[0];
    for case in cases {
        let [head, ranking] = [&case["head"], &case["ranking"]].map(|name| match name.as_str().unwrap() {
            "gap" => "GAP",
            "sinkhorn" => "Sinkhorn",
            "evidence" => "Evidence",
            _ => "Random",
        });
        let is_own = |row: &&Row| row.cells[1] == Cell::text(head) && row.cells[2] == Cell::text(ranking);
        let row = table.rows.iter().find(is_own).unwrap();
        for (group, expected) in case["expected"].as_object().unwrap() {
            let first = table.columns.iter().position(|column| column.group == *group).expect(group);
            let found = row.cells[first..first + 3].iter().map(number);
            let expected: Vec<Option<f64>> = match expected.as_array() {
                Some(numbers) => numbers.iter().map(Value::as_f64).collect(),
                None => vec![None; 3],
            };
            for (found, expected) in found.zip(expected) {
                assert_eq!(found.is_some(), expected.is_some(), "{head}, {ranking}, {group}");
                if let (Some(found), Some(expected)) = (found, expected) {
                    // Two trainings leave one degree of freedom, whose heavy tails limit the accuracy of the integral.
                    assert_close(format!("{head}, {ranking}, {group}"), found, expected, 1e-3);
                }
            }
        }
    }
}

fn evaluate(run: &Run) {
    let outcome = |ablation, accuracy, logit_change| metrics::Outcome {
        ablation,
        accuracy,
        logit_change,
        right: String::new(),
    };
    let probe = |head: &str, seed: u64, ablations: Vec<metrics::Outcome>, auc: Option<f64>| ProbeMetrics {
        head: head.to_owned(),
        seed,
        which: ProbeCheckpoint::Best,
        file: Some(sha256::of_bytes(head.as_bytes())),
        image_files: None,
        draws: Some(0),
        metrics: Metrics {
            images: IMAGES,
            accuracy: 50.0,
            right: String::new(),
            ablations,
            diagnostics: if head == "sinkhorn" { measured(seed as f64) } else { Vec::new() },
            order: match head {
                "sinkhorn" => {
                    Some(ordered(SIGNIFICANT[seed as usize], Some(0.3125 + 0.125 * seed as f64), seed as f64))
                }
                "raster" => Some(ordered("00000000010000000000", None, 0.0)),
                _ => None,
            },
            removals: removed(head, seed),
            last: Vec::new(),
            stability: Vec::new(),
            localization: Some(localization::Localization {
                weight_auc: auc,
                evidence_auc: Some(0.6),
                absolute_share: Some(0.25),
                positive_share: auc.map(|_| 0.4),
                object_share: Some(0.05),
            }),
            masks: IMAGES,
            regions: marked(head, seed),
        },
    };
    let disturbed = |seed: f64| {
        vec![
            outcome(Ablation::Normal, 85.0 + seed, 0.0),
            outcome(Ablation::Scrambled, 50.0, -1.25),
            outcome(Ablation::NoRouting, 30.0, -2.0 - seed),
            outcome(Ablation::RandomOrder, 32.5, -2.125),
        ]
    };
    let baseline = |method: Method, view, accuracy, note: Option<&str>| Baseline {
        method,
        view,
        layer: None,
        image_files: None,
        settings: "as they are".to_owned(),
        accuracy,
        note: note.map(str::to_owned),
    };
    // After the last epoch: in no table, as tables are of the best epoch.
    let last =
        ProbeMetrics { which: ProbeCheckpoint::Last, ..probe("sinkhorn", 0, disturbed(-40.0), Some(0.25)) };
    let mut raster = probe("raster", 0, Vec::new(), None);
    raster.metrics.localization = None;
    let all = RunMetrics {
        probes: vec![
            probe("sinkhorn", 0, disturbed(0.0), Some(0.875)),
            probe("sinkhorn", 1, disturbed(1.0), Some(0.925)),
            probe("gap", 0, vec![outcome(Ablation::Normal, 50.0, 0.0)], None),
            raster,
            last,
        ],
        baselines: vec![
            baseline(Method::Knn, View::Mean, Some(45.0), None),
            baseline(Method::LogReg, View::Mean, None, Some("left out: too many")),
        ],
    };
    all.write(run).unwrap();
}

fn build(id: &str, sources: &[Source]) -> Vec<Table> {
    TABLES.iter().find(|kind| kind.id == id).unwrap().tables(sources)
}

fn render(format: &str, tables: &[Table]) -> String {
    let render = FORMATS.iter().find(|known| known.id == format).unwrap().render;
    tables.iter().map(render).collect::<Vec<_>>().join("\n")
}

/// The number in a cell; `None` where the cell has none.
fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Number(number) => Some(number.value),
        _ => None,
    }
}

const HEADS: &[&str] = &["gap", "cls", "raster", "attention", "sinkhorn", "softsort", "bi-gru"];

/// [`main_run`] in a folder of its own.
fn main_source() -> (TempDir, [Source; 1]) {
    let folder = tempfile::tempdir().unwrap();
    let source = main_run(&folder.path().join("run"));
    (folder, [source])
}

/// Two seeds; Sinkhorn is best.
fn main_run(folder: &Path) -> Source {
    let run = run(folder, manifest("mae", "birds", HEADS, 2, Selection::Test), |head, seed| {
        [8, 9, 11, 12, 17, 14, 13][head] + seed as usize
    });
    evaluate(&run);
    Source::open(folder).unwrap()
}

#[test]
fn baselines_stand_in_the_main_table_of_a_run_without_the_floor_as_well() {
    let (folder, run) = birds(&["raster", "sinkhorn"], 2, |_, _| 9);
    evaluate(&run);
    let mut source = Source::open(folder.path()).unwrap();
    // Of a layer that the run does not read, none is shown.
    let baselines = &mut source.evaluations.as_mut().unwrap().baselines;
    baselines.push(Baseline { layer: Some("7".to_owned()), ..baselines[0].clone() });
    let table = &build("main", &[source])[0];
    let firsts: Vec<&Cell> = table.rows.iter().map(|row| &row.cells[1]).collect();
    assert_eq!(
        firsts[..2],
        [&Cell::text("kNN (mean tokens) †"), &Cell::text("Logistic regression (mean tokens) †")]
    );
    assert_eq!((table.rows.len(), table.rows[1].ruled, table.rows[2].ruled), (4, false, true));
}

#[test]
fn the_tables_of_one_run() {
    let (_folder, sources) = main_source();
    for id in ["main", "paired", "routing", "scramble", "cost", "conventions"] {
        let tables = build(id, &sources);
        assert_eq!(tables.len(), 1, "{id}");
        insta::assert_snapshot!(format!("report-{id}"), render("md", &tables));
    }
    insta::assert_snapshot!("report-main-latex", render("latex", &build("main", &sources)));
    insta::assert_snapshot!("report-main-csv", render("csv", &build("main", &sources)));
    for id in ["fine-grained", "grid", "state-size", "sweep"] {
        assert!(build(id, &sources).is_empty(), "{id} of a run that holds none");
    }
}

/// Of the tables of disturbed orders and of last tokens kept.
#[test]
fn a_change_in_accuracy_has_the_interval_over_seeds_and_images_that_scipy_says() {
    let document: Value = serde_json::from_str(include_str!("../fixtures/stats/stats.json")).unwrap();
    let evaluated = |seeds: usize| {
        let (folder, [mut source]) = main_source();
        let probes = &mut source.evaluations.as_mut().unwrap().probes;
        let of_head = |probe: &&ProbeMetrics| probe.head == "sinkhorn";
        let one = probes.iter().find(of_head).unwrap().clone();
        *probes = (0..seeds).map(|seed| ProbeMetrics { seed: seed as u64, ..one.clone() }).collect();
        (folder, source)
    };
    let ends = |id: &str, source: &Source| -> Vec<[Option<f64>; 2]> {
        let table = build(id, std::slice::from_ref(source)).remove(0);
        let says = table.notes.iter().any(|note| note.starts_with("Interval: "));
        let high =
            table.columns.iter().position(|column| column.name() == "95 % interval of the change high");
        assert_eq!(says, high.is_some(), "{id}");
        let of_row =
            |row: &Row| high.map_or([None; 2], |high| [high - 1, high].map(|at| number(&row.cells[at])));
        table.rows.iter().map(of_row).collect()
    };
    for case in document["changes"].as_array().unwrap() {
        let rows = |key: &str| -> Vec<String> { serde_json::from_value(case[key].clone()).unwrap() };
        let (right, changed) = (rows("right"), rows("changed"));
        let (_folder, mut source) = evaluated(right.len());
        for (at, probe) in source.evaluations.as_mut().unwrap().probes.iter_mut().enumerate() {
            let metrics = &mut probe.metrics;
            metrics.right.clone_from(&right[at]);
            metrics.last = [12, 4].map(|tokens| LastTokens { tokens, ..LastTokens::default() }).to_vec();
            metrics.last[1].right.clone_from(&changed[at]);
            metrics.ablations[0].right.clone_from(&right[at]);
            metrics.ablations[1].right.clone_from(&changed[at]);
        }
        let expected: [f64; 2] = serde_json::from_value(case["interval"].clone()).unwrap();
        // What is not known of the other row says nothing of it; there is nothing to compare the reading as trained with.
        for (id, own, other) in [("last", 0, 1), ("scramble", 1, 0)] {
            let found = ends(id, &source);
            assert_close(
                format!("{id}, {} seeds", right.len()),
                found[own].map(Option::unwrap),
                expected,
                1e-2,
            );
            assert_eq!(found[other], [None; 2], "{id}");
        }
        // Of one seed it is not known which images are right, as in files of earlier versions.
        let metrics = &mut source.evaluations.as_mut().unwrap().probes[0].metrics;
        metrics.last[1].right.clear();
        metrics.ablations[1].right.clear();
        let unknown = ["last", "scramble"].map(|id| ends(id, &source).concat().iter().all(Option::is_none));
        assert_eq!(unknown, [true; 2]);
    }
}

/// Probes of another layer than the chosen one may be all that was evaluated.
#[test]
fn a_table_without_columns_of_objects_says_nothing_of_objects() {
    let (_folder, [mut source]) = main_source();
    let says = |source: &Source| {
        let table = build("main", std::slice::from_ref(source)).remove(0);
        let columns = table.columns.iter().any(|column| column.group.starts_with("Object found"));
        (columns, table.notes.iter().any(|note| note.starts_with("Object found")))
    };
    assert_eq!(says(&source), (true, true));
    source.evaluations.as_mut().unwrap().probes.iter_mut().for_each(|probe| probe.head += "[layer=1]");
    assert_eq!(says(&source), (false, false));
}

#[test]
fn the_table_of_orders_counts_images_beside_chance() {
    let (_folder, sources) = main_source();
    let tables = build("order", &sources);
    let [raster, sinkhorn] = tables[0].rows.as_slice() else { panic!("{:?}", tables[0].rows) };
    let number = |row: &Row, column: usize| {
        number(&row.cells[column]).unwrap_or_else(|| panic!("no number in column {column}: {row:?}"))
    };
    assert_eq!((&raster.cells[0], &sinkhorn.cells[0]), (&Cell::text("Raster"), &Cell::text("Sinkhorn")));
    // One image of 20 is expected by chance; 12 and 13 of 20 are not.
    assert_close("raster", [number(raster, 2), number(raster, 6)], [5.0, 6.25], 1e-9);
    assert!(number(raster, 3) == 0.0 && number(raster, 4) > 10.0 && raster.cells[5] == Cell::None);
    assert_close("p of chance", [number(raster, 7), number(raster, 8)], [0.5, 0.5], 1e-6);
    assert_eq!((number(raster, 1), number(sinkhorn, 1)), (1.0, 2.0));
    let chance = [2, 5, 6].map(|column| number(sinkhorn, column));
    assert_close("sinkhorn, untrained, random", chance, [62.5, 37.5, 9.375], 1e-9);
    // Student's t of 20 images for one training; that of two trainings plus a normal variable for two.
    assert_close("interval of raster", [number(raster, 3), number(raster, 4)], INTERVALS[0], 1e-2);
    assert_close("interval of sinkhorn", [number(sinkhorn, 3), number(sinkhorn, 4)], INTERVALS[1], 1e-2);
    let (raw, holm) = (number(sinkhorn, 7), number(sinkhorn, 8));
    assert_close("p of sinkhorn", raw / P_OF_SINKHORN, 1.0, 1e-3);
    assert!((holm - 2.0 * raw).abs() < 1e-12, "{raw}, {holm}");
    let means = [9, 10, 11, 12, 13].map(|column| number(sinkhorn, column));
    assert_close("z, headroom and split", means, [2.0, 0.5, 0.375, -0.625, 2.5], 1e-9);
    let names: Vec<String> = tables[0].columns.iter().map(Column::name).collect();
    assert_eq!(names[5..7], ["Images with p < 0.05 (%) untrained", "Images with p < 0.05 (%) random"]);
    assert_eq!(names[9..], ["z", "Headroom", "Margin content", "Margin fixed order", "Margin routing"]);
    let said = render("md", &tables);
    assert!(said.contains("Does the order matter") && said.contains(" +0.50 ± 0.35 |"), "{said}");
    assert!(said.contains("both on 16 of the images, 4 orders for each"), "{said}");
}

/// A seed that was evaluated on other images is left out.
#[test]
fn the_table_of_orders_is_of_seeds_that_know_the_same_images() {
    let (_folder, [mut source]) = main_source();
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    let other = probes.iter_mut().find(|probe| probe.head == "sinkhorn" && probe.seed == 1).unwrap();
    other.metrics.order.as_mut().unwrap().significant = "1".repeat(IMAGES - 1);
    let tables = build("order", &[source]);
    let row = tables[0].rows.iter().find(|row| row.cells[0] == Cell::text("Sinkhorn")).unwrap();
    assert_eq!(row.cells[1..3], [Cell::number(1.0, 0), Cell::number(60.0, 1)]);
}

/// The notes on a run count all of its seeds, of which some may have been added since.
#[test]
fn tables_of_evaluations_say_which_heads_have_fewer_seeds_than_the_run() {
    let (_folder, [mut source]) = main_source();
    let says = |id: &str, source: &Source| {
        let table = build(id, std::slice::from_ref(source)).remove(0);
        table.notes.iter().any(|note| note.contains("fewer seeds") && note.contains("Sinkhorn (1 of 2)"))
    };
    let ids = ["main", "order", "scramble", "diagnostics", "regions"];
    assert!(ids.iter().all(|id| !says(id, &source)));
    // A mean over seeds is over the same number of images.
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    let other = probes.iter_mut().find(|probe| probe.head == "sinkhorn" && probe.seed == 1).unwrap();
    other.metrics.images -= 1;
    assert_eq!(ids.map(|id| says(id, &source)), [false, true, true, true, true]);
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    probes.retain(|probe| probe.head != "sinkhorn" || probe.seed == 0);
    for id in ids {
        assert!(says(id, &source), "{id}");
    }
}

/// An evaluation with other masks, stopped after its first probes.
#[test]
fn tables_of_objects_say_which_heads_were_evaluated_with_other_masks() {
    let (_folder, [mut source]) = main_source();
    let said = |source: &Source| {
        ["main", "regions"].map(|id| {
            let table = build(id, std::slice::from_ref(source)).remove(0);
            table.notes.into_iter().find(|note| note.contains("other masks"))
        })
    };
    assert_eq!(said(&source), [None, None]);
    let probes = &mut source.evaluations.as_mut().unwrap().probes;
    let other = probes.iter_mut().find(|probe| probe.head == "sinkhorn" && probe.seed == 1).unwrap();
    other.metrics.localization.as_mut().unwrap().object_share = Some(0.06);
    for note in said(&source) {
        assert!(note.unwrap().contains("not comparable: Sinkhorn; `ssmprobe eval"));
    }
}

/// An evaluation after the images had changed, stopped after its first probes.
#[test]
fn tables_of_evaluations_say_which_heads_were_evaluated_on_other_images() {
    let (_folder, [mut source]) = main_source();
    let says = |source: &Source| {
        ["main", "order", "scramble", "diagnostics", "regions", "causal"].map(|id| {
            let table = build(id, std::slice::from_ref(source)).remove(0);
            let said = "on images with other contents than the first probe, and not comparable: Sinkhorn; ";
            table.notes.iter().any(|note| note.contains(said))
        })
    };
    let set = |source: &mut Source, files: Option<&str>, wanted: fn(&ProbeMetrics) -> bool| {
        let probes = source.evaluations.as_mut().unwrap().probes.iter_mut();
        probes.filter(|probe| wanted(probe)).for_each(|probe| probe.image_files = files.map(str::to_owned));
    };
    set(&mut source, Some("images"), |_| true);
    assert_eq!(says(&source), [false; 6]);
    set(&mut source, None, |probe| probe.head == "sinkhorn" && probe.seed == 1);
    assert_eq!(says(&source), [false; 6], "not known");
    set(&mut source, Some("others"), |probe| probe.head == "sinkhorn" && probe.seed == 1);
    assert_eq!(says(&source), [true; 6]);
    // A baseline that was not evaluated again.
    set(&mut source, Some("images"), |_| true);
    for (files, is_said) in [("images", false), ("others", true)] {
        source.evaluations.as_mut().unwrap().baselines[0].image_files = Some(files.to_owned());
        let notes = &build("main", std::slice::from_ref(&source))[0].notes;
        let said = "other contents than the probes, and not comparable: kNN (mean tokens); ";
        assert_eq!(notes.iter().any(|note| note.contains(said)), is_said, "{files}");
    }
}

#[test]
fn baselines_stand_below_the_floor_where_nothing_else_was_trained() {
    let (folder, run) = birds(&["gap", "cls"], 1, |head, _| 8 + head);
    evaluate(&run);
    let tables = build("main", &[Source::open(folder.path()).unwrap()]);
    let names: Vec<&Cell> = tables[0].rows.iter().map(|row| &row.cells[1]).collect();
    let expected =
        ["GAP", "CLS", "kNN (mean tokens) †", "Logistic regression (mean tokens) †"].map(Cell::text);
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
}

#[test]
fn every_router_stands_beside_chance_and_untrained_scorers() {
    let (folder, sources) = main_source();
    let tables = build("diagnostics", &sources);
    let [table] = &tables[..] else { panic!("{tables:?}") };
    let columns: Vec<&str> = table.columns[2..].iter().map(|column| column.title.as_str()).collect();
    assert_eq!(columns, MEASURES.iter().map(|measure| measure.label).collect::<Vec<_>>());
    let rows: Vec<(Cell, Option<Number>)> = table
        .rows
        .iter()
        .map(|row| match row.cells[2] {
            Cell::Number(number) => (row.cells[1].clone(), Some(number)),
            _ => (row.cells[1].clone(), None),
        })
        .collect();
    let value = |at: usize| rows[at].1.map(|number| (number.value, number.deviation)).unwrap();
    assert_eq!(rows.len(), 6, "only heads with a router: {rows:?}");
    let (mean, deviation) = value(0);
    assert!((mean - 0.5625).abs() < 1e-12 && (deviation.unwrap() - 0.125 / 2f64.sqrt()).abs() < 1e-12);
    assert_eq!([value(1), value(2), value(3)], [(0.4375, None), (0.40625, None), (0.46875, None)]);
    assert_eq!([value(4), value(5)], [(0.3125, None), (0.34375, None)]);
    assert_eq!(
        [4, 5].map(|at| rows[at].0.clone()),
        ["Mean of random, 5 %", "Mean of random, 95 %"].map(Cell::text)
    );
    // Results of an earlier program have only the band of a single image, and the table says so.
    let mut earlier = main_run(&folder.path().join("earlier"));
    for probe in &mut earlier.evaluations.as_mut().unwrap().probes {
        for one in &mut probe.metrics.diagnostics {
            (one.null_mean, one.untrained_mean, one.untrained_sample) = (None, None, None);
        }
    }
    let old = &build("diagnostics", &[earlier])[0];
    let text = render("md", std::slice::from_ref(old));
    assert!(old.rows.len() == 4 && old.rows[2].cells[1] == Cell::text("Random, one image, 5 %"), "{text}");
    assert!(text.contains("no reference for a mean") && !text.contains("Mean of random"), "{text}");
    assert!(text.contains("32 scorers at initialisation, on some of the same images"), "{text}");
    assert!(
        table
            .notes
            .iter()
            .any(|note| note.contains("32 scorers at initialisation, on 16 of the same images"))
    );
    for format in ["md", "latex", "csv"] {
        assert!(render(format, &tables).contains("Untrained"), "{format}");
    }
}

#[test]
fn paired_tests_are_those_of_the_answers() {
    let (_folder, sources) = main_source();
    let table = &build("paired", &sources)[0];
    let gap = table.rows.iter().find(|row| row.cells[0] == Cell::text("GAP")).unwrap();
    // 8 and 9 right against 17 and 18 of 20: nine images fewer on each seed.
    let number = |cell: &Cell| number(cell).unwrap_or_else(|| panic!("{cell:?}"));
    assert!((number(&gap.cells[2]) + 45.0).abs() < 1e-9);
    let (low, high) = (number(&gap.cells[3]), number(&gap.cells[4]));
    let right = |head: &str, seed: u64| {
        let outcome = sources[0].outcomes_of(head).find(|outcome| outcome.seed == seed).unwrap();
        outcome.correct(&sources[0].truth, ProbeCheckpoint::Best)
    };
    let [a, b] = [0, 1].map(|seed| mcnemar(&right("gap", seed), &right("sinkhorn", seed)));
    assert_eq!((number(&gap.cells[9]), number(&gap.cells[10])), (a.min(b), a.max(b)));
    let points = |head: &str| -> Vec<Vec<f64>> {
        let of = |seed| right(head, seed).into_iter().map(|right| 100.0 * f64::from(right)).collect();
        [0, 1].map(of).into()
    };
    let subtract = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
    let differences: Vec<Vec<f64>> = points("gap").iter().zip(&points("sinkhorn")).map(subtract).collect();
    let difference = CrossedMean::new(&differences, 100.0 / 22.0);
    assert_eq!(number(&gap.cells[5]), difference.p());
    // Differences are within 100 points, however wide the interval of two seeds.
    let ends = (difference.interval().0.max(-100.0), difference.interval().1.min(100.0));
    assert!((low, high) == ends && low < -45.0 && -45.0 < high, "{low} {high}");
    let p = permutation(&points("gap"), &points("sinkhorn"), 9999, 0);
    assert_eq!(number(&gap.cells[7]), p);
    // Two of the six ways to split four trainings are as far apart; sign flips of images lower that.
    assert!(p > 0.1 && p < 0.4, "{p}");
    for (raw, corrected) in [(5, 6), (7, 8)] {
        let column = |at: usize| table.rows.iter().map(|row| number(&row.cells[at])).collect::<Vec<f64>>();
        assert_close("Holm", column(corrected), holm(&column(raw)), 1e-12);
        assert!(column(raw).iter().zip(column(corrected)).any(|(raw, corrected)| corrected > *raw));
    }
    // 3 images that only GAP has right against 12, and 2 against 11: `scipy.stats.binomtest` of each.
    assert_close("p of seed 0, of seed 1", [a, b], [0.03515625, 0.0224609375], 1e-12);
}

/// The outcome of a training that broke before its first epoch.
fn broken(outcome: Outcome) -> Outcome {
    Outcome {
        best_epoch: None,
        failure: Some("the loss became NaN in epoch 1".into()),
        epochs: Vec::new(),
        best: Vec::new(),
        last: Vec::new(),
        ..outcome
    }
}

#[test]
fn a_mean_says_of_how_many_seeds_it_is() {
    let (folder, run) = birds(&["gap", "sinkhorn[rate=0.1]", "sinkhorn[rate=0.2]"], 2, |_, _| 10);
    run.write_outcome(&broken(run.outcome("sinkhorn[rate=0.1]", 1).unwrap())).unwrap();
    run.write_outcome(&broken(run.outcome("sinkhorn[rate=0.2]", 0).unwrap())).unwrap();
    let sources = [Source::open(folder.path()).unwrap()];
    let seeds = |id: &str| -> Vec<Option<f64>> {
        let table = build(id, &sources).remove(0);
        let at = table.columns.iter().position(|column| column.title == "Seeds").unwrap();
        table.rows.iter().map(|row| number(&row.cells[at])).collect()
    };
    assert_eq!((seeds("main"), seeds("rates")), (vec![Some(2.0), Some(1.0)], vec![Some(1.0)]));
    // A table of means alone has no room for a column.
    let said = "Means over fewer seeds than those of the run: sinkhorn[rate=0.1] (1 of 2), sinkhorn[rate=0.2] (1 of 2)";
    assert!(build("rates", &sources)[1].notes.iter().any(|note| note == said));
    assert!(!main_source().1[0].notes().iter().any(|note| note.contains("fewer seeds")));
}

#[test]
fn a_choice_says_that_rates_with_which_fewer_seeds_broke_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let heads = ["sinkhorn[rate=0.1]", "sinkhorn[rate=0.2]"];
    let manifest = manifest("mae", "birds", &heads, 2, Selection::PartOfTrain(0.1));
    let run = run(folder.path(), manifest, |head, _| 10 + 2 * head);
    let chosen = || {
        let table = build("rates", &[Source::open(folder.path()).unwrap()]).remove(0);
        let note = table.notes.last().unwrap().contains("among those with which the fewest seeds broke;");
        (table.rows[0].cells[2].clone(), note)
    };
    assert_eq!(chosen(), (Cell::text("0.2"), false));
    run.write_outcome(&broken(run.outcome(heads[1], 1).unwrap())).unwrap();
    assert_eq!(chosen(), (Cell::text("0.1"), true));
}

/// The first ten of 20 images become of class 0, as are two of the others.
#[test]
fn the_note_on_a_run_says_how_many_test_images_are_of_the_largest_class_unless_all_have_as_many() {
    let (folder, run) = birds(&["gap"], 1, |_, _| 10);
    let note = || Source::open(folder.path()).unwrap().notes().remove(0);
    assert!(note().contains("20 test images, 4 classes; "), "{}", note());
    let mut truth = run.truth().unwrap();
    truth.classes[..10].fill(0);
    std::fs::write(folder.path().join("answers/truth.json"), serde_json::to_vec(&truth).unwrap()).unwrap();
    let said = "20 test images, 4 classes (60.0 % of the test images are of the largest); ";
    assert!(note().contains(said), "{}", note());
}

/// Whatever share of every class was asked for: one image of each is set aside at least.
#[test]
fn the_share_of_images_that_picked_the_best_epoch_is_told_and_not_rounded_to_a_whole_percentage() {
    for (train, said) in [(3980, "on 0.5 % of"), (140, "on 12.5 % of"), (60, "on 25 % of")] {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = manifest("mae", "birds", &["gap"], 1, Selection::PartOfTrain(0.1));
        manifest.dataset.train = train;
        run(folder.path(), manifest, |_, _| 10);
        let notes = Source::open(folder.path()).unwrap().notes();
        assert!(notes[1].contains(said), "{notes:?}");
    }
}

#[test]
fn a_head_that_broke_with_most_seeds_is_not_the_one_that_others_are_compared_with() {
    let (folder, run) = birds(&["gap", "attention", "raster"], 2, |head, _| 10 + 2 * head);
    run.write_outcome(&broken(run.outcome("raster", 1).unwrap())).unwrap();
    let table = &build("paired", &[Source::open(folder.path()).unwrap()])[0];
    assert!(table.title.starts_with("Paired differences from Attention"), "{}", table.title);
}

#[test]
fn of_one_training_a_head_nothing_is_said_of_others() {
    for (seeds, said) in [(1, false), (2, true)] {
        let folder = tempfile::tempdir().unwrap();
        let manifest = manifest("mae", "birds", &["gap", "sinkhorn"], seeds, Selection::Test);
        run(folder.path(), manifest, |head, _| 10 + 2 * head);
        let text = render("md", &build("paired", &[Source::open(folder.path()).unwrap()]));
        assert_eq!(
            ["reassign all trainings", "hold for other trainings"].map(|words| text.contains(words)),
            [said; 2]
        );
        assert_eq!(text.contains("hold for these trainings and other images"), !said, "{text}");
    }
}

#[test]
fn heads_that_cannot_be_paired_are_named() {
    let (_folder, [mut source]) = main_source();
    assert!(!render("md", &build("paired", std::slice::from_ref(&source))).contains("Left out"));
    for outcome in source.outcomes.iter_mut().filter(|outcome| outcome.head == "gap") {
        outcome.best.pop();
    }
    let table = &build("paired", &[source])[0];
    assert!(table.rows.iter().all(|row| row.cells[0] != Cell::text("GAP")), "{table:?}");
    let note = table.notes.last().unwrap();
    assert!(note.starts_with("Left out: GAP; in no seed"), "{note}");
}

#[test]
fn where_all_heads_but_one_are_unfinished_they_are_named_in_place_of_the_paired_table() {
    let (folder, _) = birds(&["gap", "attention", "sinkhorn"], 1, |_, _| 10);
    for head in ["gap", "attention"] {
        std::fs::remove_file(folder.path().join(format!("answers/{head}-s0.json"))).unwrap();
    }
    let report = |more: &[&str]| {
        let mut command = program();
        command.arg("report").arg(folder.path()).args(more);
        command
    };
    let why = [
        "no table `paired`: in no seed have both Sinkhorn and another head predicted every test image",
        "not finished: GAP, Attention (`ssmprobe train --resume",
    ];
    assert_ends(&mut report(&["--table", "paired"]), 1, &why);
    let (tables, said) = succeeds(&mut report(&[]));
    assert!(why.iter().all(|why| said.contains(why)), "{said}");
    assert!(tables.contains("trainings are missing or were stopped (gap, attention)"), "{tables}");
    // Likewise the second of two learned routers.
    let (folder, _) = birds(&["sinkhorn", "softsort"], 1, |_, _| 10);
    std::fs::remove_file(folder.path().join("answers/softsort-s0.json")).unwrap();
    let (_, said) = succeeds(program().arg("report").arg(folder.path()));
    let why = "no table `routing`: it needs two learned routers; not finished: SoftSort (";
    assert!(said.contains(why), "{said}");
    // Of a single head nothing is missing.
    let (folder, _) = birds(&["sinkhorn"], 1, |_, _| 10);
    let (_, said) = succeeds(program().arg("report").arg(folder.path()));
    assert!(!said.contains("paired"), "{said}");
    // But beside another run it is said that it has none either.
    let second = folder.path().to_str().unwrap();
    let said = ["no table `paired`: in no seed have both", " has no data for paired; "];
    assert_ends(&mut report(&[second, "--table", "paired"]), 1, &said);
}

#[test]
fn files_of_an_earlier_report_of_other_numbers_are_named_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("tables");
    let several = ["gap", "attention", "sinkhorn"];
    let [first, second] = [(&several[..], "a"), (&several[..1], "b")].map(|(heads, name)| {
        run(&folder.path().join(name), manifest("mae", "birds", heads, 1, Selection::Test), |_, _| 10);
        folder.path().join(name)
    });
    let report = |run: &Path, more: &[&str]| {
        succeeds(program().arg("report").arg(run).args(more).arg("--out").arg(&out)).1
    };
    report(&first, &[]);
    std::fs::write(out.join("main-notes.md"), "mine").unwrap();
    // Further formats add to the rest.
    let said = report(&first, &["--format", "parquet"]);
    assert!(!said.contains("an earlier report"), "{said}");
    let said = report(&first, &["--table", "paired", "--against", "gap", "--format", "md,latex"]);
    assert_says(said, &["of an earlier report: paired.csv, paired.parquet\n"]);
    // Of a run without a second head there is no paired table.
    std::fs::write(out.join("main.tex"), "a paper").unwrap();
    let said = report(&second, &["--format", "md"]);
    assert_says(&said, &["main.tex", "paired.md, paired.tex, paired.csv, paired.parquet"]);
    assert!(!said.contains("main.md") && !said.contains("main-notes.md"), "{said}");
    assert_eq!(std::fs::read(out.join("main.tex")).unwrap(), b"a paper");
}

#[test]
fn runs_without_the_data_of_a_table_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    main_run(&at("a"));
    for name in ["b", "c"] {
        run(&at(name), manifest("mae", "birds", &["gap", "sinkhorn"], 1, Selection::Test), |_, _| 10);
    }
    for head in ["gap", "sinkhorn"] {
        std::fs::remove_file(at("c").join(format!("answers/{head}-s0.json"))).unwrap();
    }
    let mut command = program();
    command.arg("report").args(["a", "b", "c"].map(at)).args(["--table", "main,scramble,grid"]);
    let (tables, said) = succeeds(&mut command);
    for words in
        ["b has no data for scramble; ", "c: no training has ended yet", "the runs have no data for grid; "]
    {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("a has") && !said.contains("for main"), "{said}");
    // Tables of one backbone and dataset say of which run they are.
    for title in ["### Frozen mae on birds (a)\n", "### Frozen mae on birds (b)\n"] {
        assert!(tables.contains(title), "{tables}");
    }
    let mut against = program();
    against.arg("report").args(["a", "b"].map(at)).args(["--table", "paired", "--against", "softsort"]);
    let (tables, said) = succeeds(against.args(["--equivalence", "5"]));
    assert_says(tables, &["Paired differences from SoftSort", "p of 5 points or more"]);
    assert_says(said, &["b: no table `paired`: `softsort`, which others are to be compared with"]);
}

#[test]
fn the_best_of_several_heads_is_compared_with_all_of_them() {
    let (folder, _) = birds(&["gap", "attention", "raster"], 2, |head, _| [8, 19, 12][head]);
    let table = &build("paired", &[Source::open(folder.path()).unwrap()])[0];
    assert!(table.title.contains("Paired differences from Attention"), "{}", table.title);
    let column =
        |at: usize| table.rows.iter().map(|row| number(&row.cells[at]).unwrap()).collect::<Vec<f64>>();
    // Of three pairs, the third is not in the table.
    assert_eq!(column(6), holm(&[column(5), vec![1.0]].concat())[..2]);
    assert!(table.notes.iter().any(|note| note.contains("corrected for all pairs of heads")), "{table:?}");
}

#[test]
fn heads_within_a_margin_are_called_equivalent() {
    let (_folder, [mut source]) = main_source();
    assert!(!render("md", &build("paired", std::slice::from_ref(&source))).contains("Equivalence"));
    source.equivalence = Some(1.0);
    assert!(
        render("md", &build("paired", std::slice::from_ref(&source))).contains("small p of 1 point or more")
    );
    source.equivalence = Some(60.0);
    let table = &build("paired", &[source])[0];
    let (raw, holm) = (&table.columns[9], &table.columns[10]);
    assert_eq!(
        (raw.name(), holm.name()),
        ("p of 60 points or more raw".into(), "p of 60 points or more Holm".into())
    );
    assert!(table.rows.iter().all(|row| number(&row.cells[2]).is_some()), "{table:?}");
    let all: Vec<f64> = table.rows.iter().map(|row| number(&row.cells[9]).expect("a p value")).collect();
    assert!(all.iter().all(|p| *p > 0.0 && *p < 0.5), "{all:?}");
    // GAP is 45 points below, SoftSort 15.
    assert!(all[0] > all[4], "{all:?}");
    assert!(
        render("md", std::slice::from_ref(table)).contains("Equivalence: a small p of 60 points or more")
    );
}

#[test]
fn few_images_prove_neither_a_difference_nor_its_absence() {
    // Images that only one of two heads has right, on both seeds; the p of an exact test.
    for (images, p) in [(0, 1.0), (1, 1.0), (5, 0.0625)] {
        let folder = tempfile::tempdir().unwrap();
        let heads = manifest("mae", "birds", &["gap", "sinkhorn"], 2, Selection::Test);
        run(folder.path(), heads, |head, _| if head == 0 { IMAGES - images } else { IMAGES });
        let mut source = Source::open(folder.path()).unwrap();
        source.equivalence = Some(10.0);
        let table = &build("paired", &[source])[0];
        let [low, high, raw, equivalence] = [3, 4, 5, 9].map(|at| number(&table.rows[0].cells[at]).unwrap());
        assert!(raw == p && low < 0.0 && high >= 0.0, "{images}: {raw}, {low} to {high}");
        // As if one of two more images had gone either way.
        let least = 100.0 / (IMAGES + 2) as f64;
        assert!(high - low > 3.9 * least, "{images}: {low} to {high}");
        // Of 20 images, heads that differ on a tenth may differ on none: 0.9^20 is 0.12.
        assert!(equivalence > 0.05, "{images}: {equivalence}");
    }
}

#[test]
fn runs_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, backbone: &str, dataset: &str, heads: &[&str], base: usize| {
        let folder = folder.path().join(name);
        run(&folder, manifest(backbone, dataset, heads, 1, Selection::PartOfTrain(0.1)), |head, _| {
            base + head
        });
        Source::open(&folder).unwrap()
    };
    let sources = [
        open("a", "mae", "birds", &["gap", "sinkhorn"], 10),
        open("b", "dino_v2", "birds", &["gap", "sinkhorn", "transformer"], 12),
        open("c", "mae", "cars", &["sinkhorn"], 8),
    ];
    let tables = build("fine-grained", &sources);
    insta::assert_snapshot!("report-fine-grained", render("md", &tables));
    insta::assert_snapshot!("report-fine-grained-latex", render("latex", &tables));
    let ids: Vec<String> = build("main", &sources).into_iter().map(|table| table.id).collect();
    assert_eq!(ids, ["main-a", "main-b", "main-c"]);
    // Read one after the other, runs make the same tables, and hold nothing of every image at once.
    let kinds: Vec<_> = TABLES.iter().collect();
    let folders = ["a", "b", "c", "a"].map(|name| folder.path().join(name));
    let (one_by_one, read) = tables_of(&kinds, &folders, |_| {}).unwrap();
    let together: Vec<Table> = kinds.iter().flat_map(|kind| kind.tables(&sources)).collect();
    assert_eq!(render("md", &one_by_one), render("md", &together));
    let is_whole = |run: &Source| !run.truth.images.is_empty() && !run.outcomes[0].best.is_empty();
    assert_eq!(read.iter().map(is_whole).collect::<Vec<_>>(), [true, false, false]);
    // Runs of one backbone stay in the order they were given in.
    let sources =
        ["birds", "cars", "dogs"].map(|dataset| open(&format!("mae-{dataset}"), "mae", dataset, &["gap"], 9));
    let titles: Vec<String> =
        build("fine-grained", &sources).remove(0).columns.into_iter().map(|column| column.title).collect();
    assert_eq!(titles, ["Method", "birds", "cars", "dogs"]);
}

#[test]
fn of_two_backbones_of_one_name_the_second_is_said_to_have_other_weights() {
    let (folder, _run) = birds(&["gap"], 1, |_, _| 10);
    let mut sources = [0; 2].map(|_| Source::open(folder.path()).unwrap());
    (sources[0].name, sources[1].name) = ("a".to_owned(), "b".to_owned());
    let said = |sources: &[Source]| {
        let notes = &build("fine-grained", sources)[0].notes;
        notes
            .iter()
            .filter(|note| note.ends_with("mae has other weights than in a"))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert!(said(&sources).is_empty());
    sources[1].run.manifest.tokens.weights = "others".to_owned();
    assert_eq!(said(&sources), ["b: mae has other weights than in a"]);
}

#[test]
fn runs_that_differ_in_their_heads_alone_share_their_tables() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let train = |name: &str, manifest: Manifest| run(&at(name), manifest, |head, _| 10 + head);
    let of = |heads: &[&str], seeds| manifest("mae", "birds", heads, seeds, Selection::Test);
    train("a", of(&["gap", "attention"], 2));
    evaluate(&train("b", of(&["sinkhorn", "raster"], 2)));
    train("seeds", of(&["cls"], 1));
    train("again", of(&["gap", "cls"], 2));
    let longer = TrainConfig { epochs: 3, ..of(&["cls"], 2).config };
    train("longer", Manifest { config: longer, ..of(&["cls"], 2) });
    let kinds: Vec<_> = TABLES.iter().collect();
    let tables = |names: &[&str]| {
        let folders: Vec<_> = names.iter().map(|name| at(name)).collect();
        tables_of(&kinds, &folders, |_| {}).unwrap()
    };
    let (found, sources) = tables(&["a", "b"]);
    let [source] = &sources[..] else { panic!("{} runs", sources.len()) };
    let table = |id: &str| found.iter().find(|table| table.id == id).unwrap_or_else(|| panic!("no {id}"));
    let has = |id: &str, name: &str| table(id).rows.iter().any(|row| row.cells.contains(&Cell::text(name)));
    assert!(["GAP", "Attention", "Sinkhorn", "Raster"].iter().all(|name| has("main", name)));
    // Heads of one are tested against one of the other, and what was evaluated of either is known.
    assert!(
        table("paired").title.contains("from Sinkhorn") && has("paired", "GAP") && has("order", "Sinkhorn")
    );
    let note = "Heads are from several runs, which agree in everything else: sinkhorn, raster from b; the others from a";
    assert!(table("main").notes.iter().any(|own| own == note), "{:?}", table("main").notes);
    // Each head's probes are where they were trained.
    assert_eq!([source.run_of("gap"), source.run_of("raster")].map(Run::folder), [at("a"), at("b")]);
    for other in ["seeds", "again", "longer"] {
        assert_eq!(tables(&["a", other]).1.len(), 2, "{other}");
    }
}

#[test]
fn of_a_head_at_several_rates_every_table_of_heads_has_the_one_that_the_selection_images_choose() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, dataset: &str, heads: &[&str], right: &dyn Fn(usize) -> usize| {
        let folder = folder.path().join(name);
        run(&folder, manifest("mae", dataset, heads, 1, Selection::PartOfTrain(0.1)), |head, _| right(head));
        Source::open(&folder).unwrap()
    };
    let heads =
        ["gap[rate=0.1]", "gap[rate=0.2]", "sinkhorn[rate=0.1]", "sinkhorn[rate=0.2]", "softsort[rate=0.1]"];
    let sweep =
        ["sinkhorn[temperature=1.0,rate=0.1]", "sinkhorn[temperature=1.0,rate=0.2]", "softsort[rate=0.2]"];
    let heads = [&heads[..], &sweep[..]].concat();
    let sources = [
        open("a", "birds", &heads, &|head| [4, 8, 12, 6, 9, 17, 18, 2][head]),
        open("b", "cars", &["gap", "sinkhorn[rate=0.1]", "sinkhorn[rate=0.2]"], &|head| 10 + head),
    ];
    let rows = |table: &Table| {
        let words = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            cell => number(cell).map_or("-".to_owned(), |number| number.to_string()),
        };
        table
            .rows
            .iter()
            .map(|row| row.cells.iter().map(words).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let of = |id: &str| build(id, &sources).remove(0);
    let chosen = ["GAP [rate=0.2]", "Sinkhorn [rate=0.1]", "SoftSort [rate=0.1]"];
    let main = of("main");
    assert_eq!(rows(&main).len(), 3, "no point of the sweep: {:?}", rows(&main));
    assert!(rows(&main)[0].ends_with(&format!("{} 1 40 35", chosen[0])), "{:?}", rows(&main));
    let note = format!("in the choice. Chosen: {}", chosen.join(", "));
    assert!(main.notes.iter().any(|own| own.ends_with(&note)), "{:?}", main.notes);
    assert!(rows(&of("routing")).iter().any(|row| row.starts_with(chosen[2])));
    // Each run has a choice of its own, and costs do not depend on it.
    let across = of("fine-grained");
    assert_eq!(rows(&across), ["GAP 40 50", "Sinkhorn 60 60", "SoftSort 45 -"]);
    let own = |note: &String| note.starts_with("b: ") && note.ends_with("Chosen: Sinkhorn [rate=0.2]");
    assert!(across.notes.iter().any(own), "{:?}", across.notes);
    for id in ["cost", "conventions"] {
        let methods: Vec<String> =
            rows(&of(id)).into_iter().map(|row| row.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(methods, ["GAP", "Sinkhorn", "SoftSort"], "{id}");
    }
    // An axis of one value leaves nothing to choose, and no table of what was chosen.
    let one = ["gap[rate=0.1]", "sinkhorn[rate=0.1]", "softsort[temperature=1.0,rate=0.1]"];
    let one = [open("c", "dogs", &one, &|head| 10 + head)];
    let of = |id: &str| build(id, &one).into_iter().next();
    let main = of("main").expect("a table");
    assert_eq!(main.rows.len(), 2, "{:?}", rows(&main));
    assert!(rows(&main)[1].contains("Sinkhorn [rate=0.1] 1 55 50"), "{:?}", rows(&main));
    assert!(!main.notes.iter().any(|note| note.contains("Chosen")), "{:?}", main.notes);
    assert_eq!(of("paired").expect("a table").rows.len(), 1);
    assert!(of("rates").is_none());
    assert_eq!(choose::probes(&one[0], &[]).expect("probes").len(), 3);
}

#[test]
fn sweeps_become_grids_and_lists() {
    let folder = tempfile::tempdir().unwrap();
    let heads = [
        "gap",
        "sinkhorn[temperature=0.1,iterations=1]",
        "sinkhorn[temperature=0.1,iterations=20]",
        "sinkhorn[temperature=1.0,iterations=1]",
        "sinkhorn[state_dim=1]",
        "sinkhorn[state_dim=16]",
        "softsort[power=1]",
    ];
    run(folder.path(), manifest("mae", "birds", &heads, 2, Selection::Val), |head, seed| {
        [5, 10, 14, 11, 12, 15, 9][head] + seed as usize
    });
    let sources = [Source::open(folder.path()).unwrap()];
    // The missing fourth point of the grid leaves an empty cell.
    let all: Vec<Table> = ["grid", "state-size", "sweep"].iter().flat_map(|id| build(id, &sources)).collect();
    assert_eq!(all.len(), 3);
    insta::assert_snapshot!("report-sweeps", render("md", &all).replace(&sources[0].name, "RUN"));
}

#[test]
fn a_sweep_is_compared_with_gap_on_the_seeds_that_both_have() {
    let heads = ["gap", "sinkhorn[state_dim=4]"];
    let (folder, run) = birds(&heads, 2, |head, seed| [[10, 16], [12, 12]][head][seed as usize]);
    run.write_outcome(&broken(run.outcome(heads[1], 1).unwrap())).unwrap();
    let table = build("state-size", &[Source::open(folder.path()).unwrap()]).remove(0);
    assert_eq!(number(table.rows[0].cells.last().unwrap()), Some(10.0), "two of 20 images of the first seed");
}

#[test]
fn a_grid_has_the_points_that_set_its_two_fields_alone() {
    let folder = tempfile::tempdir().unwrap();
    let heads = ["", ",state_dim=4"].map(|more| format!("sinkhorn[temperature=0.1,iterations=5{more}]"));
    let heads = heads.each_ref().map(String::as_str);
    run(folder.path(), manifest("mae", "birds", &heads, 1, Selection::Val), |head, _| [10, 14][head]);
    let grid = &build("grid", &[Source::open(folder.path()).unwrap()])[0];
    assert_eq!((grid.rows.len(), number(&grid.rows[0].cells[1])), (1, Some(50.0)));
    // Points that share neither field would make a table of their number squared.
    let folder = tempfile::tempdir().unwrap();
    let heads: Vec<String> =
        (1..=101).map(|i| format!("sinkhorn[temperature=0.{i:03},iterations={i}]")).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    run(folder.path(), manifest("mae", "birds", &heads, 1, Selection::Val), |_, _| 10);
    assert!(build("grid", &[Source::open(folder.path()).unwrap()]).is_empty());
}

#[test]
fn a_sweep_at_several_layers_is_compared_with_gap_at_the_same_layer() {
    let folder = tempfile::tempdir().unwrap();
    let heads = [
        "gap[layer=1]",
        "gap[layer=last]",
        "sinkhorn[iterations=5,layer=1]",
        "sinkhorn[iterations=5,layer=last]",
    ];
    let mut axes = manifest("mae", "birds", &heads, 1, Selection::Val);
    for (at, variant) in axes.heads.iter_mut().enumerate() {
        variant.layer = Some(Layer((at % 2 == 0).then_some(1)));
    }
    run(folder.path(), axes, |head, _| [5, 10, 14, 12][head]);
    let tables = build("sweep", &[Source::open(folder.path()).unwrap()]);
    let rows = &tables[0].rows;
    let against: Vec<Option<f64>> = rows.iter().map(|row| number(row.cells.last().unwrap())).collect();
    assert_eq!(against, [Some(45.0), Some(10.0), None, None]);
    let baselines = ["GAP [layer=1]", "GAP [layer=last]"].map(Cell::text);
    assert_eq!([&rows[2].cells[0], &rows[3].cells[0]], baselines.each_ref());
}

#[test]
fn an_unfinished_run_says_so() {
    let (folder, run) = birds(&["gap", "sinkhorn"], 2, |_, _| 10);
    std::fs::remove_file(folder.path().join("answers/sinkhorn-s1.json")).unwrap();
    let mut failed = run.outcomes().unwrap().remove(0);
    failed.failure = Some("the loss became NaN in epoch 2".into());
    // Both trainings of GAP have one epoch of two: one failed, the other was stopped.
    for mut outcome in [failed, run.outcome("gap", 1).unwrap()] {
        outcome.epochs.truncate(1);
        run.write_outcome(&outcome).unwrap();
    }
    let notes = Source::open(folder.path()).unwrap().notes().join("\n");
    assert!(notes.contains("gap, seed 0, stopped early: the loss became NaN in epoch 2"), "{notes}");
    // The missing one and the stopped one; the failed one is listed already.
    assert!(notes.contains("2 of 4 trainings are missing or were stopped (gap, sinkhorn)"), "{notes}");
}

#[test]
fn one_image_and_one_class_are_named_as_one() {
    let (_folder, [mut source]) = main_source();
    let dataset = &mut source.run.manifest.dataset;
    (dataset.test, dataset.classes) = (1, vec!["cat".into()]);
    assert_says(source.notes().remove(0), &[" 80 training and 1 test image, 1 class; 2 epochs of "]);
}

#[test]
fn a_setting_that_earlier_versions_recorded_for_a_head_without_it_is_not_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut earlier = manifest("mae", "birds", &["gap", "sinkhorn"], 1, Selection::Test);
    earlier.heads.iter_mut().for_each(|variant| variant.config.state_dim = Some(4));
    run(folder.path(), earlier, |_, _| 12);
    let notes = Source::open(folder.path()).unwrap().notes().join("; ");
    assert!(notes.contains("settings: sinkhorn: state_dim 4"), "{notes}");
}

#[test]
fn notes_tell_of_other_layers_sizes_and_augmentations_than_the_default() {
    let (_folder, [mut source]) = main_source();
    let own = &mut source.run.manifest;
    (own.size, own.tokens.layer) = (Some(448), "6".to_owned());
    own.config.augment = Augmentation::Crop;
    let told = ["batch 16, augment crop)", "settings: tokens of layer: 6; images of 448 px"];
    assert_says(source.notes().concat(), &told);
    // The costs of a head on several joined layers are those of their width.
    for (blocks, is_told) in [(1, false), (4, true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut joined = manifest("mae", "birds", &["cls-mean"], 1, Selection::Test);
        joined.heads[0].config.blocks = Some(blocks);
        run(folder.path(), joined, |_, _| 12);
        let sources = [Source::open(folder.path()).unwrap()];
        let said = "At the paper's sizes every layer that `cls-mean` joins has d 768";
        for id in ["cost", "conventions"] {
            assert_eq!(build(id, &sources)[0].notes.iter().any(|note| note == said), is_told, "{id}");
        }
    }
}

#[test]
fn a_run_whose_test_images_lack_their_classes_is_refused() {
    let (folder, run) = birds(&["gap"], 1, |_, _| 10);
    let mut truth = run.truth().unwrap();
    truth.classes.truncate(2);
    std::fs::write(folder.path().join("answers/truth.json"), serde_json::to_vec(&truth).unwrap()).unwrap();
    let error = Source::open(folder.path()).map(drop).unwrap_err().to_string();
    let words = "truth.json: it has 20 images, 20 indices and 2 classes";
    assert!(error.contains(words), "{error}");
}

#[test]
fn evaluations_of_another_day_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let source = main_run(folder.path());
    let mut all = source.evaluations.clone().unwrap();
    let mut again = all.probes[0].clone();
    again.metrics.accuracy = 77.0;
    again.metrics.ablations.clear();
    again.metrics.removals.clear();
    // As with a folder of masks that are of other images.
    (again.metrics.masks, again.metrics.localization, again.metrics.regions) = (0, None, None);
    let other = ProbeMetrics { which: ProbeCheckpoint::Last, ..again.clone() };
    all.merge(RunMetrics { probes: vec![again, other], baselines: Vec::new() });
    assert_eq!((all.probes.len(), all.baselines.len()), (5, 2));
    assert_eq!((all.probes[0].metrics.accuracy, all.probes[0].metrics.ablations.len()), (77.0, 4));
    assert_eq!(all.probes[0].metrics.removals.len(), 2);
    let regions = |metrics: &Metrics| (metrics.masks, metrics.localization, metrics.regions.clone());
    let before = &source.evaluations.as_ref().unwrap().probes[0].metrics;
    assert_eq!(regions(&all.probes[0].metrics), regions(before));
    // Ablations of another file, of other images, or with other draws, are not merged.
    all.probes[0].image_files = Some("images".into());
    for other in [
        ProbeMetrics { image_files: Some("others".into()), ..all.probes[0].clone() },
        ProbeMetrics { file: Some(sha256::of_bytes(b"trained on")), ..all.probes[0].clone() },
        ProbeMetrics { draws: Some(7), ..all.probes[0].clone() },
    ] {
        let mut all = all.clone();
        let metrics = Metrics { ablations: Vec::new(), ..other.metrics.clone() };
        all.merge(RunMetrics { probes: vec![ProbeMetrics { metrics, ..other }], baselines: Vec::new() });
        assert!(all.probes[0].metrics.ablations.is_empty());
    }
    // Baselines on the tokens of every layer are kept; those of files that do not name it count where no others are known.
    let mut layers = all.clone();
    for (layer, kept) in [(Some("1"), 2), (Some("last"), 4), (Some("1"), 4), (None, 4)] {
        let own = |baseline: &Baseline| Baseline { layer: layer.map(str::to_owned), ..baseline.clone() };
        layers.merge(RunMetrics { probes: Vec::new(), baselines: all.baselines.iter().map(own).collect() });
        assert_eq!(layers.baselines.len(), kept, "{layer:?}");
    }
    assert!(layers.baselines.iter().all(|baseline| baseline.layer.is_some()));
    // Removal curves of another mode and other numbers of last tokens are added; of the same, the new ones count.
    let asked = |mode: Mode, tokens: &[usize], accuracy: f64| {
        let mut one = all.probes[0].clone();
        one.metrics.removals = removed("sinkhorn", 0);
        one.metrics.removals.iter_mut().for_each(|heights| heights.mode = mode);
        let last = |&tokens: &usize| LastTokens { tokens, accuracy, ..LastTokens::default() };
        one.metrics.last = tokens.iter().map(last).collect();
        RunMetrics { probes: vec![one], baselines: Vec::new() }
    };
    let mut merged = all.clone();
    merged.merge(asked(Mode::Frozen, &[10, 1], 40.0));
    merged.merge(asked(Mode::Frozen, &[4, 10], 60.0));
    let found = &merged.probes[0].metrics;
    let modes: Vec<Mode> = found.removals.iter().map(|heights| heights.mode).collect();
    assert_eq!(modes, [Mode::Frozen, Mode::Frozen, Mode::Rerouted, Mode::Rerouted]);
    let last: Vec<_> = found.last.iter().map(|kept| (kept.tokens, kept.accuracy)).collect();
    assert_eq!(last, [(1, 40.0), (4, 60.0), (10, 60.0)]);
    // Those of other images are not merged.
    let mut fewer = asked(Mode::Frozen, &[4], 60.0);
    fewer.probes[0].metrics.images -= 1;
    merged.merge(fewer);
    assert_eq!((merged.probes[0].metrics.removals.len(), merged.probes[0].metrics.last.len()), (2, 1));
    std::fs::write(folder.path().join("evaluation.json"), "{").unwrap();
    assert_says(Source::open(folder.path()).err().unwrap(), &["evaluation.json"]);
}

#[test]
fn what_was_found_of_another_file_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let source = main_run(folder.path());
    // `evaluate` records the digest of a file that holds the name of its head.
    for head in ["sinkhorn", "gap"] {
        std::fs::write(source.run.probe_path(head, 0, ProbeCheckpoint::Best), head).unwrap();
    }
    let rows = |source: &Source| source.evaluated("sinkhorn").count();
    let same = Source::open(folder.path()).unwrap();
    assert_eq!((rows(&same), same.stale.len()), (2, 0));
    std::fs::write(source.run.probe_path("sinkhorn", 0, ProbeCheckpoint::Best), "trained on").unwrap();
    let trained = Source::open(folder.path()).unwrap();
    assert_eq!((rows(&trained), trained.stale.len()), (1, 1));
    assert_says(trained.notes().join("\n"), &["trained further since: sinkhorn, seed 0 (best)"]);
    // Without any evaluation of the routers as they are, that is why they have no table.
    std::fs::write(source.run.probe_path("sinkhorn", 1, ProbeCheckpoint::Best), "trained on").unwrap();
    let mut report = program();
    report.arg("report").arg(folder.path()).args(["--table", "diagnostics"]);
    let why = ["the runs have no data for diagnostics; ", "trained further since: sinkhorn, seed 0 (best)"];
    assert_ends(&mut report, 1, &why);
}

#[test]
fn the_figure_of_settings_has_no_coverage_of_another_file() {
    let heads = ["sinkhorn[iterations=5]", "sinkhorn[iterations=20]"];
    let (folder, run) = birds(&heads, 1, |_, _| 10);
    let probe = |head: &str| ProbeMetrics {
        head: head.to_owned(),
        seed: 0,
        which: ProbeCheckpoint::Best,
        file: Some(sha256::of_bytes(head.as_bytes())),
        image_files: None,
        draws: Some(0),
        metrics: Metrics { diagnostics: measured(0.0), ..Metrics::default() },
    };
    // Nor of the last epoch.
    let last = |head: &str| {
        let metrics = Metrics { diagnostics: measured(1.0), ..Metrics::default() };
        ProbeMetrics { which: ProbeCheckpoint::Last, metrics, ..probe(head) }
    };
    let probes = heads.iter().flat_map(|head| [probe(head), last(head)]).collect();
    RunMetrics { probes, baselines: Vec::new() }.write(&run).unwrap();
    let rows = || {
        let out = folder.path().join("settings.csv");
        done(
            program()
                .arg("figures")
                .arg("--run")
                .arg(folder.path())
                .args(["--figure", "settings", "--out"])
                .arg(&out),
        );
        let text = std::fs::read_to_string(out).unwrap();
        text.lines().filter(|line| line.starts_with("sinkhorn")).map(str::to_owned).collect::<Vec<_>>()
    };
    heads
        .iter()
        .for_each(|head| std::fs::write(run.probe_path(head, 0, ProbeCheckpoint::Best), head).unwrap());
    assert_eq!(rows(), ["sinkhorn,5,50,0.5,1,,1,,iterations", "sinkhorn,20,50,0.5,1,,1,,iterations"]);
    std::fs::write(run.probe_path(heads[1], 0, ProbeCheckpoint::Best), "trained on").unwrap();
    assert_eq!(rows(), ["sinkhorn,5,50,0.5,1,,1,,iterations", "sinkhorn,20,50,,1,,,,iterations"]);
}

/// A figure is of one setting, and several runs may vary others.
#[test]
fn variants_that_the_figure_of_settings_leaves_out_are_counted() {
    let heads = ["sinkhorn[iterations=5]", "sinkhorn[iterations=20]", "sinkhorn[temperature=0.5]", "gap"];
    let (folder, _) = birds(&heads, 1, |_, _| 10);
    let draw = |more: &[&str]| {
        let mut figures = program();
        figures.args(["figures", "--figure", "settings", "--run"]).arg(folder.path()).args(more);
        succeeds(figures.arg("--out").arg(folder.path().join("settings.svg"))).1
    };
    let said = "note: 2 of 3 variants are drawn, those that have results and differ in iterations alone; ";
    assert_says(draw(&[]), &[said]);
    let said = draw(&["--heads", "sinkhorn[iterations=5],sinkhorn[iterations=20]"]);
    assert!(!said.contains("variants are drawn"), "{said}");
}

#[test]
fn evaluations_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let source = main_run(folder.path());
    let one = source.evaluations.as_ref().unwrap().probes[0].clone();
    std::thread::scope(|scope| {
        for seed in 10..18 {
            let (one, run) = (ProbeMetrics { seed, ..one.clone() }, &source.run);
            let all = RunMetrics { probes: vec![one], baselines: Vec::new() };
            scope.spawn(move || all.keep(run, true).unwrap());
        }
    });
    assert_eq!(Source::open(folder.path()).unwrap().evaluations.unwrap().probes.len(), 5 + 8);
}

#[test]
fn the_help_says_of_every_table_what_it_needs() {
    let help = done(program().args(["report", "--help"]));
    let missing: Vec<&str> =
        TABLES.iter().map(|kind| kind.id).filter(|id| !help.contains(&format!("`{id}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}: {help}");
}

#[test]
fn words_and_numbers_survive_every_format() {
    let number =
        |value: f64, signed| Cell::Number(Number { value, deviation: None, digits: 2, signed, best: false });
    let row = |text: &str, cell| Row { ruled: false, cells: vec![Cell::text(text), cell] };
    let table = Table {
        id: "words".into(),
        title: "50 % of a_b".into(),
        columns: vec![Column::words("Wo|rds"), Column::numbers("x, y")],
        rows: vec![
            row("a|b\n\"c\" & {d}_^~\\", number(-0.001, false)),
            row("", number(0.001, false)),
            row("", number(-1.5, true)),
            row("", number(0.0, true)),
            row("", Cell::None),
        ],
        notes: vec!["α ± β < γ".into()],
    };
    insta::assert_snapshot!("report-words", render("md", std::slice::from_ref(&table)));
    insta::assert_snapshot!("report-words-latex", render("latex", std::slice::from_ref(&table)));
    let renamed = Table { id: "main-50% {x}_#1".into(), ..table.clone() };
    assert!(render("latex", &[renamed]).contains("\\label{tab:main-50- -x-_-1}\n"));
    let name = Table { rows: vec![row("[1] <b>x</b> < [y](z) \\|", Cell::None)], ..table.clone() };
    let markdown = render("md", std::slice::from_ref(&name));
    assert!(markdown.contains("| [1] &lt;b>x&lt;/b> < [y]\\(z) \\\\\\| |"), "{markdown}");
    let latex = render("latex", &[name]);
    assert!(latex.contains("\\midrule\n{}[1] $<$b$>$x"), "{latex}");
    let code = Table { notes: vec!["see `a_b` or `c".into()], ..table.clone() };
    assert_says(render("latex", &[code]), &["see \\texttt{a\\_b} or \\textasciigrave{}c"]);
    let csv = render("csv", &[table]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let records: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(&records[0][0], "a|b\n\"c\" & {d}_^~\\");
    assert_eq!(&records[0][1], "-0.001");
    assert_eq!(&records[4][1], "");
}
