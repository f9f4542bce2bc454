//! The hand-made data of these tests: no two values are equal, the grid has three rows and four columns, and the two sweeps
//! do not mirror each other. Numbers are written down, not computed by the program.

use std::sync::{Arc, LazyLock};

use half::f16;
use indexmap::IndexMap;
use ssmprobe::model::explain::evaluation::regions::{RegionMeans, RegionSummary};
use ssmprobe::model::explain::evaluation::similarity::Similarity;
use ssmprobe::model::explain::evaluation::vectors::{KeptVectors, TokenVectors, VectorKind};
use ssmprobe::model::explain::evaluation::{CONFIDENCE, ClassMaps, EvalSet, Evaluation, OTHER, OWN};
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::null_model::MeanNull;
use ssmprobe::model::explain::removal::{Curve, Found, Mode, Ranked, Removal};
use ssmprobe::model::explain::stability::{Group, Stability};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::io::Format;
use ssmprobe::model::trace::{
    Attributed, Attribution, Diagnostic, Evidence, HISTOGRAM_BINS, Matrix, OrderContrast, OrderTest, Picture,
    Prediction, Reading, Reassigned, Region, Regions, Routing, Trace,
};
use ssmprobe::viz::figures::curves::{Curves, Means, Part, Series, TrainingPlot};
use ssmprobe::viz::figures::dataset::{Choice, ColorBy, MapOf, Overview};
use ssmprobe::viz::figures::image_map::ImageMapPlot;
use ssmprobe::viz::figures::plot::{Caption, EvaluationPlot};
use ssmprobe::viz::figures::rates::{RateCell, RateGrid, RatesPlot};
use ssmprobe::viz::figures::settings::{OverSeeds, SettingLine, SettingPoint, SettingsPlot};

/// Three rows of four patches.
pub const GRID: Grid = Grid { rows: 3, cols: 4 };
/// Number of tokens.
pub const N: usize = 12;

/// The best position of every token: 3 is that of two tokens, 10 of three, 4, 6 and 9 of none.
pub const BEST: [usize; N] = [3, 8, 5, 10, 0, 10, 11, 1, 10, 3, 7, 2];
/// How many tokens have each position as their best.
pub const USED: [usize; N] = [1, 1, 1, 2, 0, 1, 0, 1, 1, 0, 3, 1];
pub const SCORES: [f32; N] = [0.42, -1.31, 1.87, -0.74, 0.13, 1.12, -0.26, -1.79, 0.81, -0.95, 1.43, -0.53];
/// Tokens by score, the lowest first.
pub const BY_SCORE: [usize; N] = [7, 1, 9, 3, 11, 6, 4, 0, 8, 5, 10, 2];
pub const WEIGHTS: [f32; N] =
    [0.011, 0.074, 0.029, 0.052, 0.006, 0.061, 0.083, 0.018, 0.035, 0.047, 0.023, 0.068];
/// Evidence of every token; it sums to 1.53.
pub const TOKEN_EVIDENCE: [f32; N] =
    [0.35, -0.62, 0.18, 1.24, -0.27, 0.73, -1.05, 0.09, 0.51, -0.44, 0.94, -0.13];
/// Attributions of every token by other methods: of the class, except rollout.
pub const GRADIENT: [f32; N] = [0.44, -0.31, 0.07, 1.52, -0.83, 0.26, -0.68, 0.95, -0.19, 0.38, 0.61, -0.22];
pub const INTEGRATED: [f32; N] = [-0.15, 0.27, 0.86, 0.33, -0.57, 1.12, 0.04, -0.91, 0.49, -0.36, 0.72, 0.18];
pub const ROLLOUT: [f32; N] =
    [0.031, 0.094, 0.057, 0.142, 0.083, 0.061, 0.118, 0.044, 0.076, 0.102, 0.039, 0.069];
/// Evidence of every position: the largest at 8, the lowest at the end.
pub const EXACT: [f32; N] = [0.21, -0.52, 0.33, 0.94, -0.11, 0.64, -0.73, 0.15, 2.06, -0.37, 0.46, -1.22];
pub const EXACT_RASTER: [f32; N] =
    [0.12, 0.25, -0.31, 0.41, -0.17, 0.54, 0.06, -0.42, 0.78, -0.23, 0.36, 1.03];
pub const PROXY: [f32; N] = [0.05, -0.09, 0.16, 0.28, -0.19, 0.31, -0.45, 0.58, 1.35, -0.66, 0.83, -0.97];
pub const PROXY_RASTER: [f32; N] =
    [-0.04, 0.08, 0.14, -0.21, 0.26, 0.39, -0.33, 0.49, -0.57, 0.71, 0.88, 1.11];
/// Entry `j` is of `j` steps before the end: not monotonic, and below zero in places.
pub const KERNEL: [f32; N] =
    [0.031, 0.024, 0.019, 0.021, 0.011, 0.006, -0.002, -0.005, 0.003, 0.008, 0.001, -0.0015];
/// The kernel of a second sweep.
pub const SECOND: [f32; N] =
    [0.027, 0.029, 0.012, 0.009, 0.014, 0.004, 0.0045, -0.003, 0.0025, 0.0005, 0.002, 0.0012];
/// The token read at every step of either sweep.
pub const SWEEPS: [[u32; N]; 2] =
    [[0, 1, 2, 3, 7, 6, 5, 4, 8, 9, 10, 11], [11, 7, 3, 2, 6, 10, 9, 5, 1, 0, 4, 8]];

/// `P[i, k]`: a different number in each of the 144 cells, rows that sum to about 1.
pub fn share(i: usize, k: usize) -> f32 {
    let mixed = ((37 * (N * i + k)) % (N * N)) as f32 / (N * N) as f32;
    0.01 + 0.11 * mixed + if BEST[i] == k { 0.2 + 0.005 * i as f32 } else { 0.0 }
}

/// The mean position of every token under the plan, its row normalised (docs/definitions.md, section 5).
pub fn mean_positions() -> [f64; N] {
    std::array::from_fn(|i| {
        let row: Vec<f64> = (0..N).map(|k| f64::from(share(i, k))).collect();
        row.iter().enumerate().map(|(k, p)| k as f64 * p).sum::<f64>() / row.iter().sum::<f64>()
    })
}

/// Tokens by a number, the lowest first.
pub fn sorted(values: [f64; N]) -> [usize; N] {
    let mut order: [usize; N] = std::array::from_fn(|i| i);
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order
}

/// The tokens of the rows of the assignment matrix: by best position, ties by mean position.
pub fn by_best() -> [usize; N] {
    let mean = mean_positions();
    sorted(std::array::from_fn(|i| 1000.0 * BEST[i] as f64 + mean[i]))
}

/// Eight by six pixels, two by two per patch, each of another colour.
pub fn picture() -> Picture {
    let pixel = |x: usize, y: usize| [10 + 30 * x, 20 + 35 * y, (7 * x * y + 40) % 256].map(|c| c as u8);
    let rgb = (0..6).flat_map(|y| (0..8).flat_map(move |x| pixel(x, y))).collect();
    Picture { width: 8, height: 6, rgb }
}

fn base(head: &str, routing: Routing) -> Trace {
    let class = |(index, name, logit, probability): (usize, &str, f32, f32)| Prediction {
        index,
        name: name.to_owned(),
        logit,
        probability,
    };
    let top = [
        (3, "heron", 2.93, 0.46),
        (1, "crane", 2.15, 0.21),
        (4, "stork", 1.67, 0.13),
        (0, "egret", 1.18, 0.08),
        (6, "ibis", 0.71, 0.05),
    ];
    Trace {
        image: "pond.png".into(),
        probe: format!("{head}.safetensors"),
        head: head.into(),
        backbone: "tiny".into(),
        grid: GRID,
        seen: picture(),
        routing,
        kernel: Some(Matrix { rows: N, cols: 1, data: KERNEL.into() }),
        radius: Some(0.9),
        logits: vec![1.18, 2.15, 0.3, 2.93, 1.67, -0.4, 0.71],
        top: top.map(class).into(),
        evidence: Evidence {
            class: 1,
            bias: 0.12,
            position: Some(EXACT.into()),
            token: Some(TOKEN_EVIDENCE.into()),
            proxy: Some(PROXY.into()),
            ..Evidence::default()
        },
        ..Trace::default()
    }
}

/// Counts of drawn orders in the bins from 2 deviations below the mean on.
pub const DRAWN: [u32; 21] =
    [130, 220, 270, 410, 450, 600, 640, 810, 760, 790, 850, 770, 730, 610, 560, 430, 390, 260, 190, 90, 39];

/// An order test in which no two numbers are equal.
fn ordered(against: Option<usize>) -> OrderContrast {
    let mut histogram = vec![0; HISTOGRAM_BINS];
    histogram[10..10 + DRAWN.len()].copy_from_slice(&DRAWN);
    let null =
        Reassigned { mean: 0.8, std: 0.5, z: Some(2.2), p: 0.0142, p_normal: 0.0139, draws: 9999, histogram };
    OrderContrast {
        value: 1.9,
        against,
        descriptive: false,
        reassigned: null,
        best: 3.2,
        worst: -1.7,
        headroom: Some(0.458),
        content: 0.8,
        fixed_order: -0.3,
        routing: 1.4,
    }
}

/// A learned order, with everything a trace can hold.
pub fn planned() -> Trace {
    let data = (0..N * N).map(|at| share(at / N, at % N)).collect();
    let mut trace = base("sinkhorn", Routing::Plan(Matrix { rows: N, cols: N, data }));
    trace.scores = Some(SCORES.into());
    trace.regions = Some(regions());
    trace.token_weight = Some(WEIGHTS.into());
    trace.evidence.position_raster = Some(EXACT_RASTER.into());
    trace.evidence.proxy_raster = Some(PROXY_RASTER.into());
    let one = |value, null, untrained_band| Diagnostic { value, null, untrained: None, untrained_band };
    trace.order_test = Some(Found::Some(OrderTest { logit: ordered(None), margin: Some(ordered(Some(3))) }));
    let found = |token: [f32; N], completeness_error| {
        Found::Some(Attributed { token: token.into(), completeness_error })
    };
    trace.attributions = IndexMap::from([
        (Attribution::Gradient, found(GRADIENT, None)),
        (Attribution::Integrated, found(INTEGRATED, Some(-0.017))),
        (Attribution::Rollout, found(ROLLOUT, None)),
    ]);
    trace.diagnostics = IndexMap::from([
        ("rank_coverage".into(), one(0.75, Some((0.5, 0.625)), Some((0.4, 0.7)))),
        ("argmax_entropy".into(), one(0.8, Some((0.85, 0.95)), Some((0.75, 0.9)))),
        ("edge_mass_10".into(), one(0.167, Some((0.1, 0.3)), Some((0.15, 0.45)))),
        ("kendall_tau".into(), one(0.111, Some((-0.075, 0.079)), Some((-0.46, 0.48)))),
    ]);
    trace
}

/// Another learned order over the same patches, for the same class, all of whose numbers differ from the first.
pub fn other() -> Trace {
    let turned = |values: [f32; N], by: usize, factor: f32| -> Vec<f32> {
        (0..N).map(|i| factor * values[(i + by) % N]).collect()
    };
    let data = (0..N * N).map(|at| share((at / N + 5) % N, at % N)).collect();
    let mut trace = planned();
    trace.probe = "neuralsort.safetensors".into();
    trace.head = "neuralsort".into();
    trace.routing = Routing::Plan(Matrix { rows: N, cols: N, data });
    trace.scores = Some(turned(SCORES, 5, 1.0));
    trace.token_weight = Some(turned(WEIGHTS, 2, 1.0));
    trace.kernel = Some(Matrix { rows: N, cols: 1, data: SECOND.into() });
    trace.radius = Some(0.8);
    trace.logits = OTHER_LOGITS.into();
    trace.top[0] = Prediction { index: 2, name: "grebe".into(), logit: 2.4, probability: 0.3 };
    let evidence = &mut trace.evidence;
    evidence.bias = 0.31;
    evidence.token = Some(turned(TOKEN_EVIDENCE, 1, 0.5));
    evidence.position = Some(turned(EXACT, 3, 0.5));
    evidence.position_raster = Some(turned(EXACT_RASTER, 3, 0.5));
    evidence.proxy = Some(turned(PROXY, 2, 0.5));
    evidence.proxy_raster = Some(turned(PROXY_RASTER, 2, 0.5));
    for (by, found) in trace.attributions.values_mut().enumerate() {
        if let Found::Some(found) = found {
            found.token.rotate_left(by + 1);
        }
    }
    for (at, diagnostic) in trace.diagnostics.values_mut().enumerate() {
        diagnostic.value -= 0.05 * (at as f64 - 1.4);
    }
    for contrast in contrasts(&mut trace) {
        contrast.value = 1.3;
        (contrast.content, contrast.fixed_order, contrast.routing) = (0.45, 0.15, 0.7);
        (contrast.best, contrast.worst, contrast.reassigned.mean) = (2.9, -1.1, 0.45);
    }
    trace
}

/// The contrasts of the logit and of the margin in the order test of a trace that has one.
pub fn contrasts(trace: &mut Trace) -> [&mut OrderContrast; 2] {
    match &mut trace.order_test {
        Some(Found::Some(OrderTest { logit, margin: Some(margin) })) => [logit, margin],
        other => panic!("{other:?}"),
    }
}

/// The logits of [`other`].
pub const OTHER_LOGITS: [f32; 7] = [0.88, 2.35, 2.4, 1.93, 1.17, -0.1, 0.21];

/// Two fixed sweeps, each with a kernel of its own.
pub fn swept() -> Trace {
    let mut trace = base("vmamba", Routing::Orders(SWEEPS.map(Vec::from).into()));
    trace.other_kernels = vec![Matrix { rows: N, cols: 1, data: SECOND.into() }];
    trace
}

/// Six probes of one image, of all kinds, with names and classes as long as they get.
pub fn six() -> Vec<Trace> {
    let named = |trace: Trace, name: &str| Trace { probe: format!("{name}.safetensors"), ..trace };
    let times = |mut trace: Trace, factor: f32| {
        let evidence = &mut trace.evidence;
        let all = [&mut evidence.token, &mut evidence.position, &mut trace.token_weight];
        all.into_iter().flatten().flatten().for_each(|v| *v *= factor);
        trace
    };
    let mut random = times(swept(), 0.7);
    random.routing = Routing::Orders(vec![SWEEPS[1].into()]);
    random.reading.change = Intervention::Random(3);
    let mut pooled = planned();
    (pooled.head, pooled.routing, pooled.kernel, pooled.scores) = ("gap".into(), Routing::None, None, None);
    (pooled.evidence.position, pooled.evidence.proxy) = (None, None);
    let mut six = vec![
        named(planned(), "sinkhorn-s0-best"),
        named(swept(), "vmamba-s0-best"),
        named(random, "sinkhorn-s0-best"),
        named(times(planned(), 1.4), "sinkhorn[temperature=0.05]-s11-best"),
        named(pooled, "gap-s0-last"),
        named(times(swept(), 1.2), "random-dynamic-channelwise-s3-best"),
    ];
    six[3].evidence.class = 3;
    six[3].top[0].name = "black-crowned night heron".into();
    six
}

/// One sweep with a kernel of three channels: [`KERNEL`], half of it, and it plus 0.0031.
pub fn channelled() -> Trace {
    let mut trace = base("snake", Routing::Orders(vec![SWEEPS[0].into()]));
    let data = KERNEL.iter().flat_map(|k| [*k, 0.5 * k, k + 0.0031]).collect();
    trace.kernel = Some(Matrix { rows: N, cols: 3, data });
    trace
}

pub const CLASSES: [&str; 3] = ["auk", "booby", "coot"];
/// The true and the predicted class of every image; the last one could not be read.
pub const TRUE: [u32; 10] = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2];
pub const PREDICTED: [u32; 10] = [0, 1, 1, OTHER, 1, 1, 2, 2, 0, OTHER];
/// How often each class was predicted as auk, booby, coot and something else.
pub const CONFUSION: [[u32; 4]; 3] = [[1, 2, 0, 1], [0, 2, 1, 0], [1, 0, 1, 0]];
pub const OWN_CLASS: [f32; 10] = [0.91, 0.30, 0.21, 0.12, 0.83, 0.72, 0.25, 0.95, 0.33, f32::NAN];
pub const COVERAGE: [f32; 10] = [0.52, 0.47, 0.61, 0.58, 0.33, 0.41, 0.37, 0.70, 0.66, f32::NAN];
/// The null band of a single image.
pub const CHANCE: (f64, f64) = (0.40, 0.56);
/// The null of a mean: of four images, 0.48 +- 0.08 sqrt(1/4 + 1/16).
pub const MEAN_CHANCE: MeanNull = MeanNull { mean: 0.48, reach: 0.08, draws: 16 };
/// The grid of the class maps: two rows of three patches.
pub const MAP_GRID: Grid = Grid { rows: 2, cols: 3 };
/// Mean positions of tokens by class, and the number of images of each mean.
pub const CLASS_POSITIONS: [[f32; 6]; 3] = [
    [0.05, 0.35, 0.62, 0.81, 0.24, 0.47],
    [0.93, 0.11, 0.58, 0.29, 0.76, 0.40],
    [0.68, 0.87, 0.15, 0.53, 0.99, 0.02],
];
pub const COUNTS: [u32; 3] = [4, 3, 2];
/// Mean weights of tokens by class.
pub const CLASS_WEIGHTS: [[f32; 6]; 3] =
    [[1.9, 0.4, 0.7, 1.2, 0.3, 1.5], [-0.2, 2.2, 1.1, 0.6, 1.4, 0.9], [0.8, 1.7, -0.5, 1.3, 2.1, 0.2]];

/// Positions of the tokens of every image; unknown for the last.
pub static TOKEN_POSITIONS: LazyLock<[[f16; 6]; 10]> = LazyLock::new(|| {
    let of = |image: usize| {
        let place = |token: usize| ((token * token + token * (image + 1) + 2 * image) % 11) as f32 / 10.0;
        std::array::from_fn(|token| if image == 9 { f16::NAN } else { f16::from_f32(place(token)) })
    };
    std::array::from_fn(of)
});

/// The evaluation of a probe on ten images.
pub fn evaluation() -> Arc<Evaluation> {
    let asked = EvalSet {
        dataset: "shore".into(),
        split: "test".into(),
        classes: CLASSES.map(str::to_owned).into(),
        images: (0..10).map(|at| format!("{at}.png")).collect(),
        class: TRUE.into(),
    };
    let sure = vec![0.91, 0.55, 0.47, 0.38, 0.83, 0.72, 0.61, 0.95, 0.44, f32::NAN];
    let maps = |values: [[f32; 6]; 3]| ClassMaps { values: values.concat(), counts: COUNTS.into() };
    Arc::new(Evaluation {
        set: Arc::new(asked),
        probe: "sinkhorn".into(),
        head: "sinkhorn".into(),
        backbone: "tiny".into(),
        grid: MAP_GRID,
        predicted: PREDICTED.into(),
        measures: IndexMap::from([
            (CONFIDENCE, sure),
            (OWN, OWN_CLASS.into()),
            ("rank_coverage", COVERAGE.into()),
        ]),
        nulls: IndexMap::from([("rank_coverage", CHANCE)]),
        mean_nulls: IndexMap::from([("rank_coverage", MEAN_CHANCE)]),
        positions: Some(maps(CLASS_POSITIONS)),
        weights: Some(maps(CLASS_WEIGHTS)),
        regions: Some(region_summary()),
        vectors: [(VectorKind::Routing, KeptVectors::Float16(TokenVectors::new(TOKEN_POSITIONS.concat())))]
            .into(),
        ..Evaluation::default()
    })
}

/// Regions of these images: beak, wing and tail; the tail is in few, and the beak is always before it.
pub fn region_summary() -> RegionSummary {
    let positions = |at: [Option<f32>; 10]| at.to_vec();
    let none = None;
    let region = |name: &str, images, tokens, positions, weight, evidence: f64| RegionMeans {
        name: name.into(),
        images,
        tokens,
        positions,
        weight: Some(weight),
        evidence: Some(evidence),
        mean_evidence: Some(evidence / 4.0),
        weight_auc: Some(0.7),
        evidence_auc: Some(0.6),
    };
    RegionSummary {
        images: 5,
        regions: vec![
            region(
                "beak",
                4,
                1.0,
                positions([Some(0.2), Some(0.4), none, Some(0.3), none, none, none, Some(0.1), none, none]),
                1.3,
                0.4,
            ),
            region(
                "wing",
                3,
                4.5,
                positions([Some(0.9), none, none, Some(0.7), none, Some(0.8), none, none, none, none]),
                0.8,
                -0.2,
            ),
            region(
                "tail",
                2,
                2.0,
                positions([Some(0.5), Some(0.6), none, none, none, none, none, none, none, none]),
                1.1,
                0.1,
            ),
        ],
        precedence: PRECEDENCE.map(|row| row.map(Some).to_vec()).to_vec(),
        pairs: vec![vec![4, 2, 2], vec![2, 3, 1], vec![2, 1, 2]],
    }
}

/// How often each region is before each other.
pub const PRECEDENCE: [[f64; 3]; 3] = [[0.45, 0.875, 0.75], [0.0625, 0.47, 0.3125], [0.125, 0.625, 0.48]];

/// Regions of the picture: an L of three patches, a point, one of two patches, and one outside the crop.
pub fn regions() -> Regions {
    let cover =
        |tokens: &[usize]| (0..N).map(|i| if tokens.contains(&i) { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
    let one = |(number, name, tokens): (u32, &str, &[usize])| Region {
        number,
        name: name.into(),
        cover: cover(tokens),
    };
    let list = [(2, "beak", &[5][..]), (3, "wing", &[4, 8, 9]), (5, "tail", &[3, 7]), (8, "nape", &[])];
    Regions {
        list: list.map(one).into(),
        object: cover(&[3, 4, 5, 7, 8, 9]),
        empty: Vec::new(),
        cropped: vec!["nape".into()],
        beyond: Vec::new(),
    }
}

/// An overview of the evaluation, with image 2 selected.
pub fn evaluated(overview: &'static dyn Overview, maps: MapOf) -> EvaluationPlot {
    let evaluation = evaluation();
    let choice = Choice { maps, ..Choice::default() };
    let plot = EvaluationPlot::new(overview, [evaluation.clone(), evaluation], choice);
    EvaluationPlot { selected: Some(2), ..plot }
}

/// The map of the same images, with image 2 selected.
pub fn image_map(color: ColorBy) -> ImageMapPlot {
    let evaluation = evaluation();
    let (vectors, similarity) = (VectorKind::Routing, Similarity::Spearman);
    let space = Arc::new(evaluation.space(vectors, similarity).expect("vectors"));
    let name = evaluation.probe.clone();
    ImageMapPlot { evaluation, name, vectors, similarity, space, color, selected: Some(2) }
}

/// The stability of an order under three kinds of change.
pub fn stability() -> Stability {
    let group = |name: &str, taus: &[f64]| Group {
        name: name.into(),
        taus: taus.iter().enumerate().map(|(at, tau)| (format!("{name} {at}"), *tau)).collect(),
    };
    Stability {
        format: Format,
        image: "pond.png".into(),
        probe: "sinkhorn".into(),
        head: "sinkhorn".into(),
        reading: Reading::default(),
        tokens: N,
        groups: vec![
            group("Flipped", &[0.31, -0.35]),
            group("Noise", &[0.93, 0.81, 0.72]),
            group("Darker", &[0.64]),
        ],
        null: (-0.18, 0.12),
    }
}

/// Removal curves of four steps: one ranking beside random orders, none of another; nothing of patches.
pub fn removal() -> Removal {
    let curve = |logit: [f64; 5]| Curve {
        // Few digits, which survive a round trip through JSON.
        margin: Some(logit.iter().map(|x| ((x - 1.0) * 8.0).round() / 8.0).collect()),
        probability: logit.iter().map(|x| (8.0 / (1.0 + (-x).exp())).round() / 8.0).collect(),
        logit: logit.to_vec(),
    };
    let order = vec![5, 2, 11, 0, 7, 9, 1, 3, 10, 4, 6, 8];
    let values = (0..N).map(|token| order.iter().rev().position(|own| *own == token).expect("all") as f64);
    let ranked = Ranked { values: values.collect(), order, completeness_error: None };
    let curves = [
        ("evidence", REMOVED),
        ("random", [[3.0, 2.5, 1.8, 1.0, 0.1], [0.2, 1.1, 1.9, 2.4, 3.0]]),
        ("random_low", [[3.0, 2.2, 1.4, 0.6, -0.2], [-0.1, 0.8, 1.6, 2.2, 3.0]]),
        ("random_high", [[3.0, 2.8, 2.2, 1.4, 0.4], [0.5, 1.4, 2.2, 2.6, 3.0]]),
    ];
    let curves = curves.into_iter().map(|(id, ways)| (id.to_owned(), ways.map(curve))).collect();
    let none = |none: &str| none.to_owned();
    Removal {
        format: Format,
        image: "pond.png".into(),
        probe: "gap".into(),
        head: "gap".into(),
        reading: Reading::default(),
        grid: GRID,
        seen: picture(),
        class: (1, "heron".into()),
        rival: Some((0, "wren".into())),
        fraction: vec![0.0, 0.25, 0.5, 0.75, 1.0],
        rankings: [
            ("evidence".to_owned(), Found::Some(ranked)),
            ("weight".to_owned(), Found::None { none: none("It is the same for all tokens") }),
        ]
        .into(),
        modes: [
            (Mode::Frozen, Found::Some(curves)),
            (Mode::Patches, Found::None { none: none("No patch is known") }),
        ]
        .into(),
    }
}

/// Removal curves of another probe: in the common mode, every logit is half, and every probability an eighth less.
pub fn other_removal() -> Removal {
    let mut other = Removal { probe: "mean".into(), ..removal() };
    for curve in other
        .modes
        .values_mut()
        .filter_map(|found| match found {
            Found::Some(curves) => Some(curves.values_mut().flatten()),
            Found::None { .. } => None,
        })
        .flatten()
    {
        curve.logit.iter_mut().for_each(|v| *v *= 0.5);
        curve.margin.iter_mut().flatten().for_each(|v| *v -= 0.25);
        curve.probability.iter_mut().for_each(|v| *v -= 0.125);
    }
    other
}

/// Logits of the class by evidence: deletion, then insertion.
pub const REMOVED: [[f64; 5]; 2] = [[3.0, 1.0, -0.5, -1.2, -1.5], [1.0, 2.6, 3.4, 3.3, 3.0]];

pub const STEPS: [f64; 4] = [5.0, 15.0, 25.0, 35.0];
/// Loss and accuracy of either head at these steps.
pub const LOSSES: [[f64; 4]; 2] = [[2.1, 0.7, 0.11, 0.24], [2.4, 1.9, 1.3, 0.52]];
pub const ACCURACIES: [[f64; 4]; 2] = [[22.0, 47.0, 61.0, 58.0], [11.0, 19.0, 34.0, 42.0]];
/// Standard deviations of the first head's losses.
pub const SPREAD: [f64; 4] = [0.2, 0.1, 0.05, 0.03];

/// The curves of two heads; the second has one seed.
pub fn training(part: Part, log: bool) -> TrainingPlot {
    let means = |values: [f64; 4], spread: &[f64]| Means {
        points: STEPS.into_iter().zip(values).collect(),
        spread: spread.into(),
        seeds: Vec::new(),
    };
    let series = [0, 1].map(|at| Series {
        name: ["sinkhorn", "gap"][at].into(),
        loss: means(LOSSES[at], if at == 0 { &SPREAD } else { &[] }),
        accuracy: means(ACCURACIES[at], &[]),
        ..Series::default()
    });
    let curves = Curves { series: series.into(), ..Curves::default() };
    TrainingPlot {
        curves,
        part,
        log,
        caption: Caption {
            title: part.info().title.into(),
            file: "shore".into(),
            about: "two heads".into(),
            command: "--run shore".into(),
        },
    }
}

/// Three temperatures of two heads, of which one has no plan.
pub fn settings() -> SettingsPlot {
    let one = |mean| OverSeeds { mean, deviation: None, seeds: 1 };
    let point = |value, accuracy, coverage: Option<f64>| SettingPoint {
        value,
        accuracy: one(accuracy),
        coverage: coverage.map(one),
    };
    let (some, none) = (Some, None);
    let softsort =
        [point(0.1, 60.0, some(0.75)), point(1.0, 55.0, some(0.5)), point(100.0, 20.0, some(0.01))];
    let content = [point(0.1, 40.0, none), point(1.0, 45.0, none), point(100.0, 50.0, none)];
    let line =
        |name: &str, points: [SettingPoint; 3]| SettingLine { name: name.to_owned(), points: points.into() };
    SettingsPlot {
        setting: "temperature".to_owned(),
        lines: vec![line("softsort", softsort), line("content", content)],
        caption: training(Part::Loss, false).caption,
    }
}

/// Accuracies on selection images of two heads, three layers by two rates; the best occurs twice, and one is missing.
pub const SELECTED: [[Option<f64>; 6]; 2] = [
    [Some(40.0), Some(55.5), Some(61.0), Some(80.0), Some(80.0), Some(72.5)],
    [Some(50.0), Some(45.0), Some(35.0), None, Some(30.0), Some(20.0)],
];

pub fn rates() -> RatesPlot {
    let grid = |(head, values): (&str, [Option<f64>; 6])| {
        let cell = |(at, select): (usize, Option<f64>)| {
            let select = select?;
            Some(RateCell {
                name: format!("{head}[{at}]"),
                select,
                test: select - 9.0,
                last: select - 10.0,
                broken: 0,
            })
        };
        RateGrid {
            head: head.to_owned(),
            layers: ["3", "6", "last"].map(str::to_owned).into(),
            rates: ["0.001", "0.01"].map(str::to_owned).into(),
            cells: values.into_iter().enumerate().map(cell).collect(),
        }
    };
    let caption = training(Part::Loss, false).caption;
    RatesPlot { grids: ["gap", "sinkhorn"].into_iter().zip(SELECTED).map(grid).collect(), caption }
}
