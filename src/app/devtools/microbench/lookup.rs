//! Looking one image up: what it costs beyond the backbone's forward pass to explain it by many
//! probes, side by side on the cores of the host.
//!
//! `lookup/16` in seconds with everything cached that depends on no image (S4 kernels, null bands);
//! `lookup/16/first` with empty caches. `lookup/sinkhorn/n-<N>`: one probe, growing sequence lengths,
//! without null bands.

use rayon::prelude::*;

use super::timing::{Work, median_seconds};
use super::{Group, Measured, OnRun, Setup, Sizes, check_memory, grid_of, long, noise};
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::{DRAWS, NullBands};
use crate::model::explain::{Question, explain, prepare_nulls};
use crate::model::probe::head::{self, Config, Dims};
use crate::model::probe::{BackboneMeta, Probe};
use crate::model::tokens::Tokens;
use crate::model::trace::{Picture, Trace};
use crate::model::train::classifier::Model;

pub const GROUP: Group = Group { names, check, measure };

/// The heads of the 16 probes: every kind the paper routes, scans and pools by, and its recurrent one.
const PROBES: [&str; 16] = [
    "gap",
    "attention",
    "content",
    "raster",
    "vmamba",
    "snake",
    "diagonal",
    "random-dynamic",
    "sinkhorn",
    "neuralsort",
    "softsort",
    "sinkhorn-conv",
    "sinkhorn-gap",
    "transformer",
    "deepsets",
    "bi-gru",
];

const WARM: &str = "lookup/16";
const FIRST: &str = "lookup/16/first";

fn length_name(n: usize) -> String {
    format!("lookup/sinkhorn/n-{n}")
}

fn names(sizes: &Sizes) -> Vec<String> {
    let lengths = long::lengths(sizes).into_iter().map(length_name);
    [WARM, FIRST].map(str::to_owned).into_iter().chain(lengths).collect()
}

fn check(setup: &Setup) -> anyhow::Result<()> {
    let usual = [WARM, FIRST].iter().any(|name| setup.wants(name)).then(|| setup.sizes.grid.len());
    let lengths = long::lengths(setup.sizes).into_iter().filter(|n| setup.wants(&length_name(*n)));
    let longest = lengths.chain(usual).max().unwrap_or(0);
    check_memory(setup.sizes.bytes(1, longest), "--tokens, --longest, --width and --classes")
}

fn probe(head: &str, dims: Dims, setup: &Setup) -> anyhow::Result<Probe> {
    let kind = head::find(head).expect("the id of a head");
    let model = Model::start(kind, &Config::default(), dims, 0, setup.device)?;
    let meta = BackboneMeta { hidden_size: dims.width, ..BackboneMeta::default() };
    Ok(model.to_probe(meta, Vec::new(), None))
}

fn tokens(dims: Dims) -> Tokens {
    let Dims { width, grid, .. } = dims;
    let cls = Some(noise(3, width));
    Tokens { grid, width, cls, registers: Vec::new(), patches: noise(4, grid.len() * width) }
}

/// Explains one image by every probe, as the window and `inspect` do.
fn explain_all(probes: &[Probe], tokens: &Tokens, nulls: Option<&NullBands>) -> anyhow::Result<Vec<Trace>> {
    let seen = Picture::default();
    if let Some(nulls) = nulls {
        probes.iter().for_each(|probe| prepare_nulls(probe, Intervention::None, tokens, nulls));
    }
    let traces = probes.par_iter().map(|probe| {
        let question = Question { nulls, ..Question::default() };
        Ok(explain(probe, Intervention::None, tokens, seen.clone(), question)?.0)
    });
    traces.collect()
}

fn measure(setup: &Setup, on_run: OnRun) -> anyhow::Result<Measured> {
    let mut measured = Measured::new();
    let rounds = setup.sizes.rounds;
    if [WARM, FIRST].iter().any(|name| setup.wants(name)) {
        let dims = setup.sizes.dims();
        let probes = PROBES.iter().map(|head| probe(head, dims, setup)).collect::<Result<Vec<_>, _>>()?;
        let (tokens, nulls) = (tokens(dims), NullBands::new(DRAWS, 0));
        let mut works = Vec::new();
        if setup.wants(FIRST) {
            works.push(Work::new(FIRST, || {
                let copies = probes.clone(); // a clone has no cached kernels
                explain_all(&copies, &tokens, Some(&NullBands::new(DRAWS, 0))).map(drop)
            }));
        }
        if setup.wants(WARM) {
            let mut tokens = tokens.clone();
            let (probes, nulls) = (&probes, &nulls);
            works.push(Work::new(WARM, move || {
                tokens.patches[0] += 1e-3; // another image: untrained scorers have no cached result for it
                explain_all(probes, &tokens, Some(nulls)).map(drop)
            }));
        }
        let seconds = median_seconds(&mut works, rounds, on_run)?;
        measured.extend(works.iter().zip(seconds).map(|(work, s)| (work.name.clone(), s, "s")));
    }
    for n in long::lengths(setup.sizes).into_iter().filter(|&n| setup.wants(&length_name(n))) {
        let dims = Dims { grid: grid_of(n), ..setup.sizes.dims() };
        let (probes, tokens) = ([probe("sinkhorn", dims, setup)?], tokens(dims));
        let run = || explain_all(&probes, &tokens, None).map(drop);
        let seconds = median_seconds(&mut [Work::new(length_name(n), run)], rounds.min(3), on_run)?[0];
        measured.push((length_name(n), seconds, "s"));
    }
    Ok(measured)
}
