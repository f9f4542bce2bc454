//! The training protocol, compared with a run in float64 PyTorch, the peer (`tests/reference/protocol.py`), and with its
//! documented properties: `train::run` on the peer's tokens, in a cache as an extraction writes it.

mod cache;
mod draws;
mod evaluation;
mod parts;
mod peer;
mod resume;
mod shuffle;
mod tensorboard;
mod within_epochs;

use std::cell::RefCell;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

use burn::tensor::{Device, TensorData};
use half::f16;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use ssmprobe::app::jobs::extract::{ExtractOptions, Plan, TokenSettings};
use ssmprobe::app::jobs::train::heads::variants;
use ssmprobe::app::jobs::train::{self, Event, Summary, TrainPlan, TrainSettings, TrainSpec};
use ssmprobe::model::data::token_cache::{Batches, LayerRows, Rows, TokenSource, Writer};
use ssmprobe::model::data::{self, Dataset};
use ssmprobe::model::device;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::io::array::{Array, Arrays};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::train::TrainConfig;
use ssmprobe::model::train::run::Run;
use tempfile::TempDir;

use crate::run::root;

pub const GRID: Grid = Grid::new(4, 4);
pub const WIDTH: usize = 24;
/// The seeds of the peer's run.
const SEEDS: [u64; 2] = [0, 1];
/// Settings of the peer's heads.
const STATES: &str = "state_dim=8";

fn folder() -> PathBuf {
    root().join("tests/fixtures/protocol")
}

/// The peer's results other than arrays.
fn peer() -> Value {
    crate::run::json(folder().join("peer.json"))
}

/// The arrays of a file of the fixture.
fn arrays(file: &str) -> Arrays {
    let bytes = fs::read(folder().join(file)).expect("a file of the fixture");
    let tensors = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let values = |name: &str| {
        let view = tensors.tensor(name).expect("listed");
        let data: Vec<f32> = match view.dtype() {
            Dtype::F16 => view.data().as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
            Dtype::F32 => view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::U32 => view.data().as_chunks().0.iter().map(|b| u32::from_le_bytes(*b) as f32).collect(),
            other => panic!("{name} has type {other}"),
        };
        Array::new(view.shape(), data)
    };
    tensors.names().into_iter().map(|name| (name.to_owned(), values(name))).collect()
}

/// The arrays of `all` whose names begin with `prefix`, under their names without it.
fn below(all: &Arrays, prefix: &str) -> Arrays {
    let own = all.iter().filter_map(|(name, array)| Some((name.strip_prefix(prefix)?, array)));
    own.map(|(name, array)| (name.to_owned(), array.clone())).collect()
}

/// The peer's dataset on disk, its tokens in a cache, and room for runs.
struct Sandbox {
    folder: TempDir,
    tokens: Arrays,
}

impl Sandbox {
    fn new() -> Self {
        Self::with(|_, tokens| tokens)
    }

    /// The same, with the tokens of every image passed through `change` with its number.
    fn with(change: impl Fn(usize, Tokens) -> Tokens) -> Self {
        let sandbox = Self { folder: TempDir::new().expect("a folder"), tokens: arrays("peer.safetensors") };
        for (image, place) in peer()["images"].as_array().expect("images").iter().enumerate() {
            let [split, class] = [0, 1].map(|at| place[at].as_str().expect("a word"));
            let path = sandbox.data().join(split).join(class).join(format!("{image:02}.png"));
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            image::save_buffer(&path, &[image as u8; 12], 2, 2, image::ColorType::Rgb8).expect("an image");
        }
        let plan = sandbox.plan();
        let mut writer =
            Writer::open(&sandbox.path("tokens"), plan.source().clone(), plan.images).expect("a cache");
        for image in 0..plan.images {
            writer.push(Some(change(image, sandbox.tokens(image))), None).expect("room");
        }
        writer.finish().expect("all images");
        assert!(sandbox.plan().complete());
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn dataset(&self) -> Dataset {
        data::open(self.data()).expect("a dataset")
    }

    fn wanted(&self) -> ExtractOptions {
        let cache = Some(self.path("tokens"));
        let tokens = TokenSettings { cache, cache_limit: f64::INFINITY, ..TokenSettings::default() };
        ExtractOptions::new(crate::run::backbone(), tokens)
    }

    fn plan(&self) -> Plan {
        Plan::new(self.wanted(), &self.dataset()).expect("a plan")
    }

    /// The tokens the peer gives an image, by its number in the dataset.
    fn tokens(&self, image: usize) -> Tokens {
        let of = |name: &str, len: usize| self.tokens[name].data[image * len..][..len].to_vec();
        let (cls, patches) = (Some(of("cls", WIDTH)), of("patches", GRID.len() * WIDTH));
        Tokens { grid: GRID, width: WIDTH, cls, registers: Vec::new(), patches }
    }

    /// A training plan for `heads` with the settings of the peer's run.
    fn train_plan(&self, heads: &[&str]) -> TrainPlan {
        let config: TrainConfig =
            serde_json::from_value(peer()["protocol"].clone()).expect("a configuration");
        let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
        let stateful = ["raster", "sinkhorn", "random-dynamic", "all"];
        let settings: &[String] = match heads.iter().any(|head| stateful.contains(&head.as_str())) {
            true => &[STATES.to_owned()],
            false => &[],
        };
        let ExtractOptions { backbone, tokens, .. } = self.wanted();
        let heads = variants(&heads, settings).expect("heads");
        let settings = TrainSettings {
            backbone: backbone.display().to_string(),
            data: Some(self.data()),
            epochs: config.epochs,
            batch: config.batch,
            rate: config.rate,
            seeds: SEEDS.len(),
            tokens,
            device: "cpu".into(),
            ..TrainSettings::default()
        };
        TrainPlan { settings, backbone, heads }
    }

    fn train(
        &self,
        plan: &TrainPlan,
        out: &str,
        on_event: &mut dyn FnMut(Event) -> ControlFlow<()>,
    ) -> Summary {
        let spec = TrainSpec { plan: plan.clone(), out: self.path(out), resume: true };
        train::run(device::choose, &spec, on_event).expect("a training")
    }

    /// Trains to the end; the run.
    fn trained(&self, plan: &TrainPlan, out: &str) -> Run {
        let summary = self.train(plan, out, &mut |_| ControlFlow::Continue(()));
        assert!(summary.finished);
        summary.run
    }
}

/// Gives every image the same tokens and records which images were read.
struct RecordingSource {
    grid: Grid,
    width: usize,
    tokens: Vec<f32>,
    /// Batches of images, call by call.
    calls: RefCell<Vec<Vec<Vec<usize>>>>,
}

impl RecordingSource {
    fn new(grid: Grid, width: usize, tokens: Vec<f32>) -> Self {
        Self { grid, width, tokens, calls: RefCell::default() }
    }
}

impl TokenSource for RecordingSource {
    fn grid(&self) -> Grid {
        self.grid
    }

    fn width(&self) -> usize {
        self.width
    }

    fn readable(&self, _: usize) -> bool {
        true
    }

    fn read(&self, batches: Vec<Vec<usize>>, _: &Device) -> Batches<'_> {
        self.calls.borrow_mut().push(batches.clone());
        let rows = |images: Vec<usize>| {
            let shape = [images.len(), self.grid.len(), self.width];
            Rows { patches: TensorData::new(self.tokens.repeat(images.len()), shape), cls: None }
        };
        Box::new(
            batches.into_iter().map(move |images| Ok(Box::new(std::iter::once(rows(images))) as LayerRows)),
        )
    }
}
