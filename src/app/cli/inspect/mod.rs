//! `ssmprobe inspect`: how probes read images, as arrays, JSON and a table (docs/definitions.md, section 8).

mod report;
pub(super) mod sources;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use self::report::Report;
use super::fetch;
use super::over::Over;
use crate::app::jobs::ExplainSettings;
use crate::app::jobs::engine::{Engine, WorkerEnv};
use crate::app::jobs::inspect::{self, InspectSpec, Loaded, Source};
use crate::app::terminal::error::Usage;
use crate::app::terminal::interrupt;
use crate::app::terminal::reporter::TerminalReporter;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::backbone::{self, BackboneError};
use crate::model::device;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model;
use crate::model::explain::removal::{MAX_STEPS, Mode, RemovalSpec, STEPS};
use crate::model::probe::Probe;
use crate::model::trace::Attribution;

/// Explain how probes read images: plans, kernels, evidence and diagnostics as files.
#[derive(Args)]
#[command(after_long_help = format!("{LONG}\n{}", backbone::listed()))]
pub struct Inspect {
    /// The backbone: a folder as the Hugging Face Hub lays it out, or an id of the Hub
    /// (ORGANISATION/NAME[@REVISION]), which is fetched into the cache shared with Python.
    #[arg(long, value_name = "DIR|HUB_ID")]
    backbone: String,
    /// Probe files, folders of them, or folders of runs (their best probes).
    #[arg(long, value_name = "P.safetensors", required = true, num_args = 1..)]
    probe: Vec<PathBuf>,
    /// Images, or folders that are searched for images, subfolders included.
    #[arg(long, value_name = "IMAGE|FOLDER", required = true, num_args = 1..)]
    image: Vec<PathBuf>,
    /// Class the evidence is for: its name, or its index from 0 [default: the predicted one].
    #[arg(long, value_name = "NAME|INDEX")]
    class: Option<String>,
    /// How the probes read, none of them retrained: as-trained, scrambled[=SEED] (after routing), hardened, no-routing,
    /// random-order[=SEED], order=FILE, temperature=T or iterations=K; several stand beside each other.
    #[arg(long, value_name = "READING", num_args = 1.., default_value = "as-trained")]
    reading: Vec<Intervention>,
    /// Where to compute: cpu, wgpu, cuda or auto.
    #[arg(long, default_value = "auto")]
    device: String,
    #[command(flatten)]
    taking: Over<TokenSpec>,
    /// Folder to write to; made if absent, files of the same name are replaced.
    #[arg(long, value_name = "OUT")]
    out: PathBuf,
    /// Also write the tokens, `tokens [N, d]` and `cls [d]`.
    #[arg(long)]
    save_tokens: bool,
    /// Also write all that was seen as <probe>.trace.json, which `ssmprobe figures` draws.
    #[arg(long)]
    save_traces: bool,
    /// Also write the reading step by step as <probe>.gif, of probes that read in an order: what the memory holds, and
    /// the evidence at that position.
    #[arg(long)]
    save_gif: bool,
    /// Also measure how stable each order is: <probe>.stability.json, which `ssmprobe figures
    /// --stability` draws. Every image is read twenty-odd times more: flipped, cropped, with noise,
    /// darker, brighter; probes that differ in their seed alone are compared too.
    #[arg(long)]
    stability: bool,
    /// Also take the tokens away, the most important first, and put them back, reading the class after every step:
    /// <probe>.causal.npz and .json. Where they are removed: frozen (plan and weights stay), rerouted (the head reads what is
    /// left), patches (the encoder does), pixels (they are painted over). The last two cost the encoder dozens of whole images
    /// an image, which is said before.
    #[arg(long, value_name = "MODE[,MODE]", value_parser = modes)]
    causal: Option<Modes>,
    /// Steps of --causal from all tokens to none.
    #[arg(long, value_name = "K", default_value_t = STEPS, value_parser = steps, requires = "causal")]
    steps: usize,
    /// Also compute attribution baselines for the class of the evidence: gradient (gradient x token), integrated (64 gradients on
    /// the way from the mean token: seconds an image) and rollout (the backbone's attention: another pass of the image).
    #[arg(long, value_name = "METHOD", value_delimiter = ',', num_args = 1..)]
    attributions: Vec<Attribution>,
    /// Also say how regions of the images are read: a folder of masks (PNG) with the images' names, or a dataset's folder
    /// with masks, or annotations of CUB or Stanford Cars. They stand in <probe>.json and in traces.
    #[arg(long, value_name = "DIR")]
    masks: Option<PathBuf>,
    /// What the proxy decays by per position, instead of the spectral radius; 0 to 1.
    #[arg(long, value_name = "X", value_parser = rho)]
    rho: Option<f64>,
    /// Random scores behind each null band, and (at most 32; 8 above 1024 tokens) untrained scorers behind theirs.
    #[arg(long, value_name = "K", default_value_t = null_model::DRAWS, value_parser = draws)]
    null_draws: usize,
    /// Seed of null bands, of untrained scorers, of the exchanges of order tests, of the changes of --stability and of the
    /// random orders of --causal.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Images in one forward pass.
    #[arg(long, value_name = "B", default_value_t = 16, value_parser = batch)]
    batch: usize,
    /// Print one JSON document a line, and nothing else, to standard output.
    #[arg(long)]
    json: bool,
}

const LONG: &str = r#"Files, for every image and probe:
  OUT/<image>/<probe>.npz   float32 arrays, as far as the head has them: scores [N], plan [N, N]
                            (or orders [directions, N]), kernel [N] or [N, d] (of several directions
                            the first; all of them are kernels [directions, N] or [directions, N, d]),
                            token_weight [N], logits [C], evidence_position [N], evidence_token [N],
                            evidence_position_raster [N] (the same memory without its router),
                            evidence_proxy [N], evidence_proxy_raster [N]; with --attributions
                            gradient [N], integrated [N], rollout [N]
  OUT/<image>/<probe>.json  prediction, class of the evidence, bias, diagnostics, order test; with
                            --attributions of each its sum or why there is none, and the
                            completeness error of integrated gradients; with --masks of every region when it is
                            read, what its tokens count and add, both AUC, and which is read before which
  OUT/<image>/<probe>.gif   with --save-gif: a frame a token (beyond 256 tokens: every few), 85 mm wide
  OUT/<image>/<probe>.stability.json  with --stability, of probes that read in a single order
  OUT/<image>/<probe>.causal.npz  with --causal: fraction [F]; MODE_deletion_RANKING, MODE_insertion_RANKING [F] (the class's
                            logit; ..._margin and ..._probability likewise); ranking_RANKING [N] (tokens, the most
                            important first); gradient, integrated, rollout [N] (the baselines themselves). RANKING: evidence, weight,
                            late, gradient, integrated, rollout, random, random_low, random_high
  OUT/<image>/<probe>.causal.json  the same, and why what is missing is missing; `ssmprobe figures --causal` draws it
  OUT/summary.csv           one row for every image and probe
<image> and <probe> are file names without extension. Where two are the same, the second is
called <name>-2 and so on, in the order given (folders: sorted); summary.csv says which is which.
With --reading the names of results say how the probe read: <probe>-random-order-0.npz.
An order file holds the token that is read at every step, from 0: NumPy's archive with the array
order [N], or CSV. --reading order=mine.npz reads every image so: <probe>-order-mine.npz.
An image's place in that order, from 0, seeds what random-dynamic draws for it.
The same files, settings and device give the same bytes.

--json prints {"event": "result", ...} for every image and probe (what its .json file says, and
`files`), {"event": "failure", "image", "probe", "error"} for what was left out, and last
{"event": "end", "out", "images", "images_done", "results"}.

What cannot be read is left out with a warning and counted at the end.
Exit codes: 0 at least one image was explained, 1 none was or the run failed, 2 wrong usage,
130 stopped by Ctrl-C: what was explained until then is written, summary included."#;

fn rho(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rho) if (0.0..=1.0).contains(&rho) => Ok(rho),
        _ => Err("expected a number from 0 to 1".into()),
    }
}

fn draws(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(draws) if (2..=100_000).contains(&draws) => Ok(draws),
        _ => Err("expected a whole number from 2 to 100000".into()),
    }
}

fn batch(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(batch) if (1..=4096).contains(&batch) => Ok(batch),
        _ => Err("expected a whole number from 1 to 4096".into()),
    }
}

/// A list of modes in one value.
#[derive(Clone)]
struct Modes(Vec<Mode>);

fn modes(text: &str) -> Result<Modes, String> {
    Mode::list(text).map(Modes)
}

fn steps(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(steps) if (1..=MAX_STEPS).contains(&steps) => Ok(steps),
        _ => Err(format!("expected a whole number from 1 to {MAX_STEPS}")),
    }
}

impl Inspect {
    /// Explains every image through every probe.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        interrupt::listen();
        let images = sources::images(&self.image)?;
        let probes = self.probes()?;
        let folder = fetch::backbone(&self.backbone)?;
        let device = device::open(&self.device)?;
        let of_files = probes.iter().map(|loaded| (loaded.path.as_path(), &loaded.probe));
        let taking = self.taking.of_probes(of_files, &folder, &device)?;
        let spec = InspectSpec {
            backbone: folder,
            taking,
            device,
            batch: self.batch,
            probes,
            images,
            out: self.out,
            save_tokens: self.save_tokens,
            save_traces: self.save_traces,
            save_gif: self.save_gif,
            stability: self.stability,
            causal: self.causal.map(|Modes(modes)| RemovalSpec { modes, steps: self.steps, seed: self.seed }),
            masks: self.masks,
            settings: ExplainSettings {
                rho: self.rho,
                null_draws: self.null_draws,
                seed: self.seed,
                attributions: self.attributions.clone().into(),
            },
        };
        let mut report = Report::new(spec.out.clone(), spec.images.len(), self.json);
        let (mut engine, mut reporter) = (Engine::new(WorkerEnv::default()), TerminalReporter::new());
        let ended = inspect::run(&mut engine, &spec, &mut reporter, &mut |event| report.tell(event));
        let ended = reporter.end(ended).map_err(|error| match error.downcast::<BackboneError>() {
            Ok(BackboneError::Layer { layer, layers }) => anyhow::Error::from(Usage(format!(
                "--layer {layer}: {} has layers 1 to {layers}, and 0 for its embeddings",
                self.backbone
            ))),
            Ok(other) => other.into(),
            Err(other) => other,
        })?;
        let code = report.finish()?;
        Ok(if ended.is_none() { interrupt::code() } else { code })
    }

    /// Opens the probes and finds the class of the evidence in each.
    fn probes(&self) -> anyhow::Result<Vec<Loaded>> {
        let sources = sources::probes(&self.probe)?;
        let mut loaded = Vec::new();
        for Source { path, stem } in sources {
            let probe = Probe::load(&path)?;
            let class = self.class.as_deref().map(|asked| class(&probe, asked)).transpose()?;
            let read = |change: &Intervention| {
                let stem = if change.is_none() { stem.clone() } else { format!("{stem}-{}", change.id()) };
                Loaded { path: path.clone(), stem, probe: probe.clone(), change: change.clone(), class }
            };
            loaded.extend(self.reading.iter().map(read));
        }
        let stems = sources::numbered(loaded.iter().map(|loaded| loaded.stem.clone()), &[]);
        loaded.iter_mut().zip(stems).for_each(|(loaded, stem)| loaded.stem = stem);
        Ok(loaded)
    }
}

/// The class a person means in a probe. A name that two classes share is refused: ImageNet has two
/// cranes.
fn class(probe: &Probe, asked: &str) -> anyhow::Result<usize> {
    let names = probe.meta.classes.iter().enumerate();
    let same: Vec<_> = names.filter(|(_, name)| *name == asked).map(|(index, _)| index.to_string()).collect();
    if same.len() > 1 {
        return Err(Usage(format!(
            "--class {asked}: classes {} are all called that; give the index",
            same.join(", ")
        ))
        .into());
    }
    probe.class(asked).map_err(|error| Usage(error.to_string()).into())
}
