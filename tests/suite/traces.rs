//! Hand-made traces for the figures: a procedural picture, a real Sinkhorn plan of made-up scores,
//! a memory kernel, and evidence that sums to the logit. No weights, no randomness beyond a seed.

use indexmap::IndexMap;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head_output::Plan;
use ssmprobe::model::probe::router::neuralsort::NeuralSort;
use ssmprobe::model::probe::router::sinkhorn::Sinkhorn;
use ssmprobe::model::probe::router::{Router as _, standardise};
use ssmprobe::model::trace::{
    Attribution, Diagnostic, Evidence, Found, HISTOGRAM_BINS, HISTOGRAM_END, Matrix, OrderContrast,
    OrderTest, Picture, Prediction, Reassigned, Region, Regions, Routing, Trace,
};

/// Patches a side.
pub const SIDE: usize = 14;
/// Tokens.
pub const N: usize = SIDE * SIDE;

/// A small generator of numbers around 0, the same on every machine.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A bird-like blob on a branch before a sky: 224 x 224.
fn picture() -> Picture {
    let side = 224;
    let mut rgb = Vec::with_capacity(side * side * 3);
    for y in 0..side {
        for x in 0..side {
            let (u, v) = (x as f64 / side as f64, y as f64 / side as f64);
            let ripple = (23.0 * u + 7.0 * (9.0 * v).sin()).sin() * 0.03;
            let mut color = [0.55 + 0.25 * v + ripple, 0.70 + 0.12 * v + ripple, 0.86 - 0.10 * v];
            if (v - 0.74 - 0.08 * (5.0 * u).sin()).abs() < 0.025 {
                color = [0.36 + ripple, 0.25, 0.16];
            }
            let body = ((u - 0.47) / 0.20).powi(2) + ((v - 0.52) / 0.24).powi(2);
            let head = ((u - 0.60) / 0.11).powi(2) + ((v - 0.30) / 0.10).powi(2);
            if body < 1.0 {
                color = [0.80 - 0.25 * body + ripple, 0.35 + 0.10 * v, 0.18];
            }
            if head < 1.0 {
                color = [0.25, 0.22 + ripple, 0.24];
            }
            if ((u - 0.63) / 0.018).powi(2) + ((v - 0.28) / 0.018).powi(2) < 1.0 {
                color = [0.97, 0.95, 0.85];
            }
            rgb.extend(color.map(|c| (c.clamp(0.0, 1.0) * 255.0).round() as u8));
        }
    }
    Picture { width: side, height: side, rgb }
}

/// How much of the object a token shows, 0 to 1.
fn object(i: usize) -> f64 {
    let (u, v) = ((i % SIDE) as f64 / 13.0, (i / SIDE) as f64 / 13.0);
    let body = ((u - 0.47) / 0.24).powi(2) + ((v - 0.52) / 0.28).powi(2);
    let head = ((u - 0.60) / 0.14).powi(2) + ((v - 0.30) / 0.13).powi(2);
    (-body).exp().max(0.9 * (-head).exp())
}

/// Standardised scores: the object high, the background low, noise on both.
fn scores(seed: u64) -> Vec<f64> {
    let mut noise = Noise(seed);
    let raw: Vec<f64> = (0..N).map(|i| 1.6 * object(i) + 0.55 * noise.normal()).collect();
    standardise(&raw)
}

/// Shaped as LegS kernels are: steep at first, with a slow tail that dips below zero.
fn kernel() -> Vec<f64> {
    let shape = |j: f64| 0.55 * (-j / 7.0).exp() + 0.45 * (-j / 70.0).exp() * (j / 55.0).cos();
    (0..N).map(|j| 0.031 * shape(j as f64)).collect()
}

fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// An order that beats most others, with a normal null.
fn ordered() -> OrderTest {
    let bin = |at: usize| {
        let z = HISTOGRAM_END * ((2 * at + 1) as f64 / HISTOGRAM_BINS as f64 - 1.0);
        (798.0 * (-0.5 * z * z).exp()) as u32
    };
    let contrast = |against: Option<usize>, shift: f64| OrderContrast {
        value: 6.1 - shift,
        against,
        descriptive: true,
        reassigned: Reassigned {
            mean: 4.4 - shift,
            std: 0.62,
            z: Some(2.74),
            p: 0.0031,
            p_normal: 0.0031,
            draws: 9999,
            histogram: (0..HISTOGRAM_BINS).map(bin).collect(),
        },
        best: 9.7 - shift,
        worst: -0.4 - shift,
        headroom: Some(0.32),
        content: 4.4 - shift,
        fixed_order: 0.1,
        routing: 1.6,
    };
    OrderTest { logit: contrast(None, 0.0), margin: Some(contrast(Some(1), 3.9)) }
}

/// What every head shares: the picture and what is predicted.
fn base(head: &str) -> Trace {
    let names =
        ["Rose-breasted Grosbeak", "Baltimore Oriole", "Spotted Towhee", "Orchard Oriole", "Summer Tanager"];
    let logits: Vec<f32> =
        (0..200).map(|c| if c < 5 { 6.1 - 1.1 * c as f32 } else { -1.0 - 0.01 * c as f32 }).collect();
    let total: f32 = logits.iter().map(|l| l.exp()).sum();
    let top = names.iter().enumerate().map(|(index, name)| Prediction {
        index,
        name: (*name).to_owned(),
        logit: logits[index],
        probability: logits[index].exp() / total,
    });
    Trace {
        image: "grosbeak.jpg".to_owned(),
        probe: format!("{head}.safetensors"),
        head: head.to_owned(),
        backbone: "facebook/vit-mae-base".to_owned(),
        grid: Grid::new(SIDE, SIDE),
        seen: picture(),
        top: top.collect(),
        logits,
        evidence: Evidence { bias: 0.12, ..Evidence::default() },
        ..Trace::default()
    }
}

/// What every token contributes to the class before it is weighted.
fn contributions() -> Vec<f64> {
    let mut noise = Noise(5);
    (0..N).map(|i| 9.0 * object(i) - 1.6 + 1.5 * noise.normal()).collect()
}

/// A plan read by a shared S4: everything a trace can hold.
fn planned(head: &str, plan: &Plan, scores: &[f64]) -> Trace {
    let plan = &plan.share;
    let (kernel, contributions, radius) = (kernel(), contributions(), 0.974);
    let gain: Vec<f64> = (0..N).map(|k| kernel[N - 1 - k]).collect();
    let weight: Vec<f64> = (0..N).map(|i| (0..N).map(|k| plan[i * N + k] * gain[k]).sum()).collect();
    let routed: Vec<f64> = (0..N).map(|k| (0..N).map(|i| plan[i * N + k] * contributions[i]).sum()).collect();
    let decay = |values: &[f64]| -> Vec<f64> {
        values.iter().enumerate().map(|(k, v)| v * f64::powi(radius, (N - 1 - k) as i32)).collect()
    };
    let weighed = |a: &[f64], b: &[f64]| to_f32(&a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<_>>());
    let mut trace = base(head);
    let found = |factor: f64| {
        Found::Some(contributions.iter().map(|v| (factor * v) as f32).collect::<Vec<_>>().into())
    };
    trace.attributions = Attribution::ALL.into_iter().zip([0.8, 0.7, 0.01].map(found)).collect();
    trace.scores = Some(to_f32(scores));
    trace.routing = Routing::Plan(Matrix { rows: N, cols: N, data: to_f32(plan) });
    trace.kernel = Some(Matrix { rows: N, cols: 1, data: to_f32(&kernel) });
    trace.radius = Some(radius as f32);
    trace.token_weight = Some(to_f32(&weight));
    trace.evidence.position = Some(weighed(&gain, &routed));
    trace.evidence.position_raster = Some(weighed(&gain, &contributions));
    trace.evidence.token = Some(weighed(&weight, &contributions));
    trace.evidence.proxy = Some(to_f32(&decay(&routed)));
    trace.evidence.proxy_raster = Some(to_f32(&decay(&contributions)));
    trace.diagnostics = diagnostics(plan);
    trace.order_test = Some(Found::Some(ordered()));
    trace
}

/// The rank diagnostics of docs/definitions.md, section 5, beside made-up bands of a plausible size.
fn diagnostics(plan: &[f64]) -> IndexMap<String, Diagnostic> {
    let rows: Vec<&[f64]> = plan.chunks(N).collect();
    let best = |row: &[f64]| (0..N).fold(0, |b, k| if row[k] > row[b] { k } else { b });
    let mut counts = vec![0usize; N];
    rows.iter().for_each(|row| counts[best(row)] += 1);
    let share = |c: usize| c as f64 / N as f64;
    let entropy: f64 = counts.iter().filter(|c| **c > 0).map(|&c| -share(c) * share(c).ln()).sum();
    let mut peaks: Vec<f64> = rows.iter().map(|row| row[best(row)]).collect();
    peaks.sort_by(f64::total_cmp);
    let edge = counts[..19].iter().chain(&counts[N - 19..]).sum::<usize>();
    let errors = rows.iter().map(|row| (row.iter().sum::<f64>() - 1.0).abs()).fold(0.0, f64::max);
    let known = counts.iter().filter(|c| **c > 0).count();
    let one = |value: f64, null: (f64, f64), untrained: f64| Diagnostic {
        value,
        null: Some(null),
        untrained: Some(untrained),
        untrained_band: Some(([0.75, 1.125].map(|part| (1e3 * part * untrained).round() / 1e3)).into()),
    };
    IndexMap::from([
        ("rank_coverage".to_owned(), one(share(known), (0.56, 0.66), 0.62)),
        ("argmax_entropy".to_owned(), one(entropy / (N as f64).ln(), (0.85, 0.90), 0.88)),
        ("edge_mass_10".to_owned(), one(share(edge), (0.18, 0.31), 0.27)),
        ("row_max_mean".to_owned(), one(peaks.iter().sum::<f64>() / N as f64, (0.021, 0.026), 0.023)),
        ("row_max_p95".to_owned(), one(peaks[N * 95 / 100], (0.044, 0.061), 0.05)),
        ("row_marginal_error".to_owned(), one(errors, (0.002, 0.04), 0.02)),
        (
            "column_marginal_error".to_owned(),
            Diagnostic { value: 3e-7, null: None, untrained: None, untrained_band: None },
        ),
        ("kendall_tau".to_owned(), one(0.11, (-0.08, 0.08), 0.21)),
    ])
}

/// The learned order of the paper.
pub fn sinkhorn_trace() -> Trace {
    let scores = scores(1);
    let mut trace = planned("sinkhorn", &Sinkhorn::default().plan(&scores), &scores);
    let cover: Vec<f64> = (0..trace.grid.len()).map(|i| f64::from(u8::from(i % 5 < 2))).collect();
    let list = vec![Region { number: 0, name: "object".into(), cover: cover.clone() }];
    trace.regions = Some(Regions { list, object: cover, ..Regions::default() });
    trace
}

/// A relaxation that spreads every token over all positions.
pub fn neuralsort_trace() -> Trace {
    let scores = scores(1);
    planned("neuralsort", &NeuralSort { temperature: 1.0 }.plan(&scores), &scores)
}

/// Four fixed sweeps with a channel-wise kernel.
pub fn vmamba_trace() -> Trace {
    let rows: Vec<u32> = (0..N as u32).collect();
    let columns: Vec<u32> = (0..N).map(|k| ((k % SIDE) * SIDE + k / SIDE) as u32).collect();
    let reversed = |order: &[u32]| order.iter().rev().copied().collect::<Vec<_>>();
    let (kernel, contributions) = (kernel(), contributions());
    let channels = 24;
    let mut noise = Noise(9);
    let factors: Vec<(f64, f64)> =
        (0..channels).map(|_| (noise.normal() * 0.4 + 0.9, noise.unit() * 0.02)).collect();
    let data = (0..N).flat_map(|j| factors.iter().map(move |(a, b)| (j, *a, *b)));
    let data: Vec<f64> = data.map(|(j, a, b)| kernel[j] * a * (-(j as f64) * b).exp()).collect();
    let mut trace = base("vmamba");
    trace.routing = Routing::Orders(vec![rows.clone(), reversed(&rows), columns.clone(), reversed(&columns)]);
    trace.kernel = Some(Matrix { rows: N, cols: channels, data: to_f32(&data) });
    trace.radius = Some(0.974);
    let position: Vec<f64> = (0..N).map(|k| kernel[N - 1 - k] * contributions[k]).collect();
    let proxy: Vec<f64> = (0..N).map(|k| 0.974f64.powi((N - 1 - k) as i32) * contributions[k]).collect();
    trace.evidence.token = Some(to_f32(&position));
    trace.evidence.position = Some(to_f32(&position));
    trace.evidence.proxy_raster = Some(to_f32(&proxy));
    trace.evidence.proxy = Some(to_f32(&proxy));
    trace
}

/// The mean of the tokens: no order, but exact evidence by token.
pub fn gap_trace() -> Trace {
    let mut trace = base("gap");
    trace.token_weight = Some(vec![1.0 / N as f32; N]);
    trace.evidence.token = Some(to_f32(&contributions().iter().map(|v| v / N as f64).collect::<Vec<_>>()));
    trace
}

/// An opaque head.
pub fn transformer_trace() -> Trace {
    let mut trace = base("transformer");
    let why = "transformer is not linear in the tokens: it has no exact evidence";
    trace.evidence.why_none = Some(why.to_owned());
    trace
}

/// One trace of every kind above.
pub fn all() -> Vec<Trace> {
    vec![sinkhorn_trace(), neuralsort_trace(), vmamba_trace(), gap_trace(), transformer_trace()]
}
