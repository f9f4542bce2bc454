//! Everything that reads a file from an untrusted source, one line each in [`READERS`]. The suite
//! damages the files (`mutated.rs`), and so does `fuzz/`, which includes this file unchanged: it
//! names nothing else of the suite.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ssmprobe::app::demo;
use ssmprobe::app::jobs::evaluate::answer_file;
use ssmprobe::app::jobs::{Event, Request, history};
use ssmprobe::app::remote::frame;
use ssmprobe::app::remote::hello::Hello;
use ssmprobe::app::report::{FORMATS, Source, TABLES};
use ssmprobe::app::state::State;
use ssmprobe::app::state::settings::Settings;
use ssmprobe::app::state::workspace::Workspace;
use ssmprobe::app::submit::Plan;
use ssmprobe::model::annotations::Annotations;
use ssmprobe::model::backbone::Backbone;
use ssmprobe::model::backbone::original::project::{PROJECTS, Scale};
use ssmprobe::model::backbone::original::{ImportOptions, Original, OriginalError};
use ssmprobe::model::backbone::preprocess::{Filter, Preprocessor, Size};
use ssmprobe::model::backbone::weights::Weights;
use ssmprobe::model::data::image::Photo;
use ssmprobe::model::data::token_cache::{TokenCache, list};
use ssmprobe::model::data::{self, mat};
use ssmprobe::model::device;
use ssmprobe::model::explain::evaluation::Evaluation;
use ssmprobe::model::explain::evaluation::answer::Answer;
use ssmprobe::model::explain::evaluation::similarity::Similarity;
use ssmprobe::model::explain::evaluation::vectors::VectorKind;
use ssmprobe::model::explain::removal::Removal;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::order_file;
use ssmprobe::model::probe::original::{self, HEAD_PROJECTS};
use ssmprobe::model::probe::{BackboneMeta, Probe};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::Trace;
use ssmprobe::model::train::run::Run;
use ssmprobe::viz::draw::theme::Theme;
use ssmprobe::viz::figures::dataset::{Choice, ColorBy, OVERVIEWS};
use ssmprobe::viz::figures::image_map::ImageMapPlot;
use ssmprobe::viz::figures::plot::{EvaluationPlot, Plot};
use ssmprobe::viz::figures::removal::{Quantity, RemovalPlot, RemovalView};
use ssmprobe::viz::figures::stability::StabilityPlot;
use ssmprobe::viz::figures::trace_plot::TracePlot;
use ssmprobe::viz::{COLUMN, FIGURES, Options, export};

/// The folder of the frozen token cache: its name is a hash of what its tokens depend on.
macro_rules! cache {
    () => {
        "1cb734913da75a6ce89ed647"
    };
}

type Outcome = Result<(), Box<dyn Error>>;

/// One reader, and the files that are damaged for it.
pub struct Reader {
    /// Its name in messages and folders.
    pub name: &'static str,
    /// The folder below the fixtures that is copied into its room; empty if it reads a single file.
    folder: &'static str,
    /// The file in that folder that is damaged.
    file: &'static str,
    /// Further seeds for that file, below the fixtures; `*` stands for any beginning of a name.
    more: &'static [&'static str],
    /// How many damaged files the suite lets it read.
    #[allow(dead_code, reason = "the fuzzer goes on until it is stopped")]
    pub files: u64,
    /// Reads the whole file in its room.
    pub read: fn(&Room) -> Outcome,
}

const fn reader(
    name: &'static str,
    (folder, file): (&'static str, &'static str),
    more: &'static [&'static str],
    files: u64,
    read: fn(&Room) -> Outcome,
) -> Reader {
    Reader { name, folder, file, more, files, read }
}

/// Every reader. A folder of several files has a line for each of them.
pub const READERS: &[Reader] = &[
    reader("jpeg", ("", "image"), &["images/files/*.jpg"], 10_000, photo),
    reader("png", ("", "image"), &["images/files/*.png"], 20_000, photo),
    reader("gif", ("", "image"), &["images/files/*.gif"], 10_000, photo),
    reader("bmp", ("", "image"), &["images/files/*.bmp"], 20_000, photo),
    reader("tiff", ("", "image"), &["images/files/*.tiff"], 10_000, photo),
    reader("webp", ("", "image"), &["images/files/*.webp"], 10_000, photo),
    reader("safetensors", ("weights/safetensors", "model.safetensors"), &[], 20_000, weights),
    reader("safetensors-shard", (SHARDS, "model-00001-of-00002.safetensors"), &[], 10_000, weights),
    reader("safetensors-index", (SHARDS, "model.safetensors.index.json"), &[], 10_000, weights),
    reader("bin", ("weights/zip", "pytorch_model.bin"), BINS, 20_000, weights),
    reader("bin-shard", (BIN_SHARDS, "pytorch_model-00001-of-00002.bin"), &[], 10_000, weights),
    reader("bin-index", (BIN_SHARDS, "pytorch_model.bin.index.json"), &[], 10_000, weights),
    reader("original", ("", "checkpoint"), ORIGINALS, 10_000, original),
    reader("head", ("", "head"), SAVED_HEADS, 10_000, head),
    reader("config", ("inspect/backbone", "config.json"), CONFIGS, 10_000, backbone),
    reader(
        "preprocessor",
        ("inspect/backbone", "preprocessor_config.json"),
        PREPROCESSORS,
        10_000,
        preprocessor,
    ),
    reader("probe", ("", "probe"), PROBES, 20_000, probe),
    reader("cache", ("frozen/tokens", concat!(cache!(), "/manifest.json")), &[], 10_000, cache),
    reader(
        "cache-shard",
        ("frozen/tokens", concat!(cache!(), "/tokens-000000.safetensors")),
        &[],
        5000,
        cache,
    ),
    reader(
        "run",
        ("frozen/stopped", "run.json"),
        &["frozen/run/run.json", "frozen/grid/run.json"],
        5000,
        run,
    ),
    reader("run-epochs", ("frozen/stopped", "metrics.jsonl"), &["frozen/run/metrics.jsonl"], 5000, run),
    reader("run-losses", ("frozen/stopped", "losses/s0.safetensors"), &[], 5000, run),
    reader("run-answers", ("frozen/stopped", "answers/sinkhorn-s0.json"), &[], 5000, run),
    reader("run-truth", ("frozen/stopped", "answers/truth.json"), &[], 5000, run),
    reader(
        "run-unreadable",
        ("frozen/stopped", "state/unreadable.json"),
        &["lists/unreadable.json"],
        5000,
        run,
    ),
    reader("checkpoint", ("frozen/stopped", "state/checkpoint.safetensors"), &[], 5000, run),
    reader("run-metrics", ("frozen/run", "evaluation.json"), &[], 2000, run),
    reader("trace", ("", "trace.json"), &["frozen/explained/24/*.trace.json"], 2000, trace),
    reader(
        "evaluation",
        ("", "survey.json"),
        &["frozen/surveys/*.survey.json", "lists/vectors.survey.json"],
        5000,
        evaluation,
    ),
    reader("stored-evaluation", ("", "body"), &["lists/evaluation.cbor"], 5000, stored_evaluation),
    reader("part-answers", ("", "body"), &["lists/answers.cbor"], 10_000, part_answers),
    reader("removal", ("", "causal.json"), &["lists/removal.causal.json"], 10_000, removal),
    reader("stability", ("", "stability.json"), &["frozen/explained/24/*.stability.json"], 10_000, stability),
    reader("parquet", ("parquet/plain", "things.parquet"), PARQUET, 10_000, dataset),
    reader("mat", ("", "file.mat"), &["mat/*.mat", "mat/cars/*.mat"], 20_000, variables),
    reader("cars", ("mat/cars", "cars_train_annos.mat"), &["mat/cars/*_withlabels.mat"], 5000, dataset),
    reader("cars-classes", ("mat/cars", "cars_meta.mat"), &[], 5000, dataset),
    reader("imagenet", ("lists/imagenet", "ILSVRC2012_validation_ground_truth.txt"), &[], 5000, dataset),
    reader("imagenet-classes", ("lists/imagenet", "meta.mat"), &[], 5000, dataset),
    reader("imagenet-kaggle", ("lists/kaggle", "LOC_val_solution.csv"), &[], 5000, dataset),
    reader("imagenet-tiny", ("lists/tiny", "val/val_annotations.txt"), &[], 5000, dataset),
    reader("imagenet-words", ("lists/kaggle", "LOC_synset_mapping.txt"), &[], 5000, dataset),
    reader("birds", ("lists/birds", "images.txt"), &[], 5000, dataset),
    reader("birds-labels", ("lists/birds", "image_class_labels.txt"), &[], 5000, dataset),
    reader("birds-splits", ("lists/birds", "train_test_split.txt"), &[], 5000, dataset),
    reader("birds-classes", ("lists/birds", "classes.txt"), &[], 5000, dataset),
    reader("marks-boxes", ("lists/marks", "bounding_boxes.txt"), &[], 5000, marks),
    reader("marks-parts", ("lists/marks", "parts/part_locs.txt"), &[], 5000, marks),
    reader("marks-names", ("lists/marks", "parts/parts.txt"), &[], 5000, marks),
    reader("mask", ("lists/marks", "segmentations/001.Crane/a.png"), &[], 10_000, marks),
    reader("table", ("lists/table", "images.csv"), &[], 5000, dataset),
    reader("table-tabs", ("lists/tabs", "images.tsv"), &[], 5000, dataset),
    reader("order-npz", ("", "order.npz"), &["orders/*.npz", "orders/*.npy"], 20_000, order),
    reader("order-csv", ("", "order.csv"), &["orders/*.csv"], 10_000, order),
    reader("workspace", ("", "work.ssmprobe"), &["frozen/work.ssmprobe"], 10_000, workspace),
    reader("settings", ("", "settings.json"), &["frozen/settings.json"], 10_000, settings),
    reader("requests", ("remote", "requests"), &[], 20_000, requests),
    reader("events", ("remote", "events"), &[], 20_000, events),
    reader("plan", ("lists/handed-in", "tasks/plan.json"), &[], 5000, plan),
    reader("demo", ("", "demo.json"), &["../../assets/demo/demo.json"], 10_000, demo),
];

/// Longest seed, in bytes: in larger files damage would only change numbers.
const MAX_SEED_BYTES: usize = 1 << 16;
const PARQUET: &[&str] = &[
    "parquet/hub/data/*.parquet",
    "parquet/packed/*.parquet",
    "parquet/text/validation/*.parquet",
    "hostile/*.parquet",
];
const SHARDS: &str = "weights/safetensors-shards";
const BIN_SHARDS: &str = "weights/bin-shards";
const BINS: &[&str] = &[
    "weights/legacy/*.bin",
    "weights/checkpoint/*.bin",
    "weights/protocol-4/*.bin",
    "weights/torchscript/*.bin",
    "weights/deflated/*.bin",
    "weights/hostile-zip/*.bin",
    "weights/hostile-legacy/*.bin",
];
const ORIGINALS: &[&str] = &[
    "originals/mae/checkpoint.pth",
    "originals/timm/checkpoint.safetensors",
    "originals/timm-registers/checkpoint.pth",
    "originals/dinov2/checkpoint.pth",
    "originals/beit/checkpoint.pth",
    "originals/beit-tuned/checkpoint.pth",
];
const SAVED_HEADS: &[&str] = &["originals/ep/head.pth", "originals/dinov2-linear/head.pth"];
const CONFIGS: &[&str] = &[
    "backbones/beit/config.json",
    "backbones/clip/config.json",
    "backbones/dinov2-registers/config.json",
    "backbones/dinov3/config.json",
    "backbones/siglip/config.json",
];
const PREPROCESSORS: &[&str] = &["images/processed/*.json"];
const PROBES: &[&str] = &["frozen/heads/probes/*.safetensors", "frozen/sharing/probes/*-best.safetensors"];

/// A folder with the damaged file and the files that belong to it.
pub struct Room {
    root: PathBuf,
    file: PathBuf,
}

impl Room {
    /// Overwrites the damaged file. It is never empty in between, as file systems would then wait for the disk.
    pub fn put(&self, bytes: &[u8]) {
        let file = File::options().write(true).create(true).truncate(false).open(&self.file);
        let put = |mut file: File| file.write_all(bytes).and_then(|()| file.set_len(bytes.len() as u64));
        file.and_then(put).expect("a room that can be written to");
    }
}

/// The path of a fixture, for the suite and for the fuzzer, whose package lies in a subfolder.
fn fixture(path: &str) -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|root| root.join("tests/fixtures"));
    above.find(|fixtures| fixtures.is_dir()).expect("the repository").join(path)
}

/// The entries of a folder, sorted by path.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for path in files(from) {
        let place = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &place),
            false => fs::write(place, fs::read(&path).expect("a file")).expect("a copy"), // without its modification time
        }
    }
}

impl Reader {
    /// The reader of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        READERS.iter().find(|reader| reader.name == name)
    }

    /// Undamaged files of its kind; the first is the one that belongs in its room.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let home = Some(fixture(self.folder).join(self.file)).filter(|home| home.is_file());
        let more = self.more.iter().flat_map(|pattern| match pattern.split_once('*') {
            None => vec![fixture(pattern)],
            Some((folder, end)) => {
                let ends = |path: &PathBuf| path.to_string_lossy().ends_with(end);
                files(&fixture(folder)).into_iter().filter(ends).collect()
            }
        });
        let seeds = home.into_iter().chain(more).map(|path| fs::read(&path).expect("a seed"));
        seeds.filter(|seed| seed.len() <= MAX_SEED_BYTES).collect()
    }

    /// Makes its room in the folder `root`.
    pub fn room(&self, root: &Path) -> Room {
        fs::create_dir_all(root).expect("a folder");
        if !self.folder.is_empty() {
            copy(&fixture(self.folder), root);
        }
        Room { root: root.to_owned(), file: root.join(self.file) }
    }
}

fn photo(room: &Room) -> Outcome {
    Photo::open(&room.file)?;
    Ok(())
}

fn weights(room: &Room) -> Outcome {
    let weights = Weights::open(&room.root)?;
    for (name, _) in weights.names() {
        weights.values(name)?;
    }
    Ok(())
}

/// Tries every project; weights that one of them accepts are read to the end.
fn original(room: &Room) -> Outcome {
    let options = ImportOptions { heads: Some(3), scale: Some(Scale::Half), ..ImportOptions::default() };
    let read = |project| Original::open(&room.file, project, &options)?.write_weights(&mut io::sink());
    let mut tried = PROJECTS.iter().map(|project| read(project));
    let first: Result<(), OriginalError> = tried.next().expect("a project");
    if first.is_err() && !tried.any(|read| read.is_ok()) {
        first?;
    }
    Ok(())
}

/// Tries every project of heads.
fn head(room: &Room) -> Outcome {
    let backbone = BackboneMeta { hidden_size: 24, ..BackboneMeta::default() };
    let read = |project| original::read(&room.file, project, backbone.clone(), None, None).map(drop);
    let mut tried = HEAD_PROJECTS.iter().map(|project| read(project));
    let first = tried.next().expect("a kind");
    if first.is_err() && !tried.any(|read| read.is_ok()) {
        first?;
    }
    Ok(())
}

fn backbone(room: &Room) -> Outcome {
    Backbone::open(&room.root, &device::open("cpu")?)?;
    Ok(())
}

fn preprocessor(room: &Room) -> Outcome {
    Preprocessor::open(&room.root)?;
    Ok(())
}

/// Also applies the probe to a few tokens, as its settings are untrusted numbers.
fn probe(room: &Room) -> Outcome {
    let probe = Probe::load(&room.file)?;
    let (grid, width) = (Grid::new(4, 4), probe.meta.backbone.hidden_size.min(64));
    let patches = (0..grid.len() * width).map(|i| (i % 7) as f32 - 3.0).collect();
    let tokens = Tokens { grid, width, cls: Some(vec![0.5; width]), registers: Vec::new(), patches };
    probe.output(&tokens, 0)?;
    Ok(())
}

fn dataset(room: &Room) -> Outcome {
    let dataset = data::open(&room.root)?;
    for sample in dataset.samples.iter().take(64) {
        let _ = sample.source.bytes(); // a missing image is expected
    }
    Ok(())
}

/// Reads a dataset's annotations and maps them to the patches of one image.
fn marks(room: &Room) -> Outcome {
    let image = room.root.join("images/001.Crane/a.png");
    let resize = Some((Size::Shortest(32), Filter::Bilinear));
    let preprocessor =
        Preprocessor { resize, crop: Some((32, 32)), cut: None, rescale: None, normalise: None };
    Annotations::open(&room.root)?.of_image(&image, &preprocessor, Grid::new(4, 4))?;
    Ok(())
}

fn variables(room: &Room) -> Outcome {
    mat::read(&fs::read(&room.file)?)?;
    Ok(())
}

fn cache(room: &Room) -> Outcome {
    for entry in list::entries(&room.root)? {
        let Some(about) = entry.about else { return Err("no manifest".into()) };
        let cache = TokenCache::find(&room.root, &about.source)?.ok_or("not whole")?;
        let images: Vec<usize> = (0..cache.len().min(1000)).collect();
        let _ = (cache.patches(&images), cache.cls(&images));
        let _ = images.iter().filter(|image| cache.readable(**image)).count();
    }
    Ok(())
}

/// Reads a run as the window, a resumed training and the tables do.
fn run(room: &Room) -> Outcome {
    let followed = history::disk::read(&room.root).map(drop);
    let run = Run::open(&room.root)?;
    let checkpoint = run.checkpoint().map(drop);
    let _ = (run.unreadable(), run.cache());
    let sources = [Source::open(&room.root)?];
    for table in TABLES.iter().flat_map(|kind| kind.tables(&sources)) {
        FORMATS.iter().for_each(|format| drop((format.render)(&table)));
    }
    followed?;
    checkpoint?;
    Ok(())
}

fn trace(room: &Room) -> Outcome {
    let trace: Arc<Trace> = Arc::new(serde_json::from_slice(&fs::read(&room.file)?)?);
    for figure in FIGURES {
        let plot = TracePlot::new(*figure, &trace, Options::default());
        if let Ok(scene) = plot.draw_column(&Theme::light(), COLUMN) {
            let _ = export::svg(&scene, "");
        }
    }
    Ok(())
}

fn evaluation(room: &Room) -> Outcome {
    draw_overviews(Evaluation::from_json(&fs::read_to_string(&room.file)?)?);
    Ok(())
}

/// The body of an evaluation that the window stored: its digest would refuse any damage before it is parsed.
fn stored_evaluation(room: &Room) -> Outcome {
    draw_overviews(answer_file::parse(&fs::read(&room.file)?)?.1);
    Ok(())
}

/// The same of the answers of a part of an evaluation.
fn part_answers(room: &Room) -> Outcome {
    answer_file::parse::<Vec<Option<Answer>>>(&fs::read(&room.file)?)?;
    Ok(())
}

fn draw_overviews(evaluation: Evaluation) {
    let evaluation = Arc::new(evaluation);
    for overview in OVERVIEWS {
        let evaluations = [evaluation.clone(), evaluation.clone()];
        plotted(&EvaluationPlot::new(*overview, evaluations, Choice::default()));
    }
    for (vectors, similarity) in
        VectorKind::ALL.into_iter().flat_map(|kind| Similarity::ALL.map(|similarity| (kind, similarity)))
    {
        if let Ok(space) = evaluation.space(vectors, similarity) {
            let _ = space.nearest(0, 3, true);
            let (evaluation, name, space) = (evaluation.clone(), evaluation.probe.clone(), Arc::new(space));
            let (color, selected) = (ColorBy::default(), None);
            plotted(&ImageMapPlot { evaluation, name, vectors, similarity, space, color, selected });
        }
    }
}

fn stability(room: &Room) -> Outcome {
    plotted(&StabilityPlot(Arc::new(serde_json::from_slice(&fs::read(&room.file)?)?)));
    Ok(())
}

fn removal(room: &Room) -> Outcome {
    let removal = Arc::new(Removal::from_json(&fs::read_to_string(&room.file)?)?);
    for mode in removal.modes.keys() {
        for quantity in Quantity::ALL {
            for step in [0, removal.fraction.len() - 1, usize::MAX] {
                let mut plot = RemovalPlot::new(removal.clone(), None)?;
                plot.view = RemovalView { mode: *mode, quantity, step, ..plot.view };
                plotted(&plot);
                let _ = plot.at(step);
            }
        }
    }
    Ok(())
}

fn plotted(plot: &dyn Plot) {
    let _ = plot.table();
    if let Ok(scene) = Plot::draw_column(plot, &Theme::light(), COLUMN) {
        let _ = export::svg(&scene, "");
    }
}

/// The stream that a worker reads.
fn requests(room: &Room) -> Outcome {
    let bytes = fs::read(&room.file)?;
    let mut from = &bytes[..];
    Hello::read(&mut from)?;
    while frame::read::<Request>(&mut from)?.is_some() {}
    Ok(())
}

/// The stream that a worker writes.
fn events(room: &Room) -> Outcome {
    let bytes = fs::read(&room.file)?;
    let mut from = &bytes[..];
    Hello::read(&mut from)?;
    while frame::read::<Event>(&mut from)?.is_some() {}
    Ok(())
}

fn demo(room: &Room) -> Outcome {
    demo::DemoInfo::open(&room.root)?;
    Ok(())
}

fn order(room: &Room) -> Outcome {
    let order = order_file::read(&room.file)?;
    assert_eq!(order.with_moved(&[0], order.tokens().len()).tokens().len(), order.tokens().len());
    Ok(())
}

fn settings(room: &Room) -> Outcome {
    Settings::load(&room.file)?;
    Ok(())
}

fn workspace(room: &Room) -> Outcome {
    let workspace = Workspace::load(&room.file)?;
    let _ = workspace.missing();
    let mut state = State::new(Settings::default());
    state.restore(workspace);
    Ok(())
}

fn plan(room: &Room) -> Outcome {
    let plan = Plan::open(&room.root)?;
    let _ = plan.arrays();
    for task in plan.tasks() {
        let _ = plan.words(task);
        assert!(plan.state(task).starts_with(plan.home()) && plan.log(task).starts_with(plan.home()));
    }
    Ok(())
}
