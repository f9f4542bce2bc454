//! Builds the files of one image and probe.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Explainer, Loaded, ResultFile};
use crate::model::explain::evaluation::Provenance;
use crate::model::explain::regions::RegionMeasures;
use crate::model::explain::removal::Removal;
use crate::model::io::array::{Array, Arrays};
use crate::model::io::npz;
use crate::model::tokens::Tokens;
use crate::model::trace::{Attributed, Attribution, Found, Matrix, Routing, Trace};
use crate::viz::animation::{self, Drawn};
use crate::viz::draw::Theme;
use crate::viz::export::GIF_DPI;
use crate::viz::figures::evidence::Evidence;
use crate::viz::figures::plot::Plot;
use crate::viz::figures::scan_path::ScanPath;
use crate::viz::figures::trace_plot::TracePlot;
use crate::viz::{COLUMN, Figure, Options};

pub(super) fn npz(path: PathBuf, arrays: &Arrays) -> anyhow::Result<ResultFile> {
    ResultFile::new(path, npz::bytes(arrays))
}

/// The file `path` with this content as JSON.
pub(super) fn json(path: PathBuf, content: &impl Serialize) -> anyhow::Result<ResultFile> {
    ResultFile::new(path, serde_json::to_vec(content))
}

/// The arrays of removal curves by their names in files.
pub(super) fn removal_arrays(removal: &Removal) -> Arrays {
    let vector = |values: &[f64]| Array::new([values.len()], values.iter().map(|&x| x as f32).collect());
    let mut arrays = Arrays::from([("fraction".to_owned(), vector(&removal.fraction))]);
    for (mode, curves) in &removal.modes {
        for (ranking, ways) in curves.found().into_iter().flatten() {
            for (way, curve) in ["deletion", "insertion"].iter().zip(ways) {
                let name = format!("{}_{way}_{ranking}", mode.id());
                arrays.insert(format!("{name}_probability"), vector(&curve.probability));
                if let Some(margin) = &curve.margin {
                    arrays.insert(format!("{name}_margin"), vector(margin));
                }
                arrays.insert(name, vector(&curve.logit));
            }
        }
    }
    for (id, ranked) in &removal.rankings {
        let Some(ranked) = ranked.found() else { continue };
        let order: Vec<f64> = ranked.order.iter().map(|&token| token as f64).collect();
        arrays.insert(format!("ranking_{id}"), vector(&order));
        // The other rankings' values are among the trace's arrays.
        if ["gradient", "integrated", "rollout"].contains(&id.as_str()) {
            arrays.insert(id.clone(), vector(&ranked.values));
        }
    }
    arrays
}

/// An animation of the memory step by step over the evidence; `None` for a head without an order.
pub(super) fn gif(path: PathBuf, trace: Trace) -> anyhow::Result<Option<ResultFile>> {
    let shown: [&'static dyn Figure; 2] = [&ScanPath, &Evidence];
    let figures: Vec<_> = shown.into_iter().filter(|figure| figure.lacks(&trace).is_none()).collect();
    let plot = TracePlot::compared(figures, vec![Arc::new(trace)], Options::default());
    if plot.steps() == 0 {
        return Ok(None);
    }
    let (theme, about) = (Theme::print(), plot.caption().about);
    let drawn = Drawn { theme: &theme, width: COLUMN, dpi: GIF_DPI, about: &about, cancelled: &|| false };
    let bytes = animation::gif(&plot, drawn)?;
    Ok(Some(ResultFile { path, bytes }))
}

/// The arrays of a trace that the head has, by their names in files; with the tokens if they are given.
pub(super) fn arrays(trace: &Trace, tokens: Option<&Tokens>) -> Arrays {
    let vector = |data: &Vec<f32>| Array::new([data.len()], data.clone());
    let matrix = |m: &Matrix| match m.cols {
        1 => Array::new([m.rows], m.data.clone()),
        _ => Array::new([m.rows, m.cols], m.data.clone()),
    };
    let mut arrays = Arrays::new();
    let mut put = |name: &str, array: Option<Array>| {
        if let Some(array) = array {
            arrays.insert(name.to_owned(), array);
        }
    };
    put("scores", trace.scores.as_ref().map(vector));
    match &trace.routing {
        Routing::None => {}
        Routing::Plan(plan) => put("plan", Some(Array::new([plan.rows, plan.cols], plan.data.clone()))),
        Routing::Orders(orders) => {
            let data: Vec<f32> = orders.iter().flatten().map(|&token| token as f32).collect();
            put("orders", Some(Array::new([orders.len(), data.len() / orders.len().max(1)], data)));
        }
    }
    put("kernel", trace.kernel.as_ref().map(matrix));
    if let Some(first) = trace.kernel.as_ref().filter(|_| !trace.other_kernels.is_empty()) {
        let all = || std::iter::once(first).chain(&trace.other_kernels);
        let data: Vec<f32> = all().flat_map(|kernel| &kernel.data).copied().collect();
        let shape = match first.cols {
            1 => vec![all().count(), first.rows],
            _ => vec![all().count(), first.rows, first.cols],
        };
        put("kernels", Some(Array::new(shape, data)));
    }
    put("token_weight", trace.token_weight.as_ref().map(vector));
    put("logits", Some(vector(&trace.logits)));
    put("evidence_position", trace.evidence.position.as_ref().map(vector));
    put("evidence_position_raster", trace.evidence.position_raster.as_ref().map(vector));
    put("evidence_token", trace.evidence.token.as_ref().map(vector));
    put("evidence_proxy", trace.evidence.proxy.as_ref().map(vector));
    put("evidence_proxy_raster", trace.evidence.proxy_raster.as_ref().map(vector));
    for (method, found) in &trace.attributions {
        put(method.id(), found.found().map(|found| vector(&found.token)));
    }
    if let Some(Tokens { grid, width, patches, cls, .. }) = tokens {
        put("tokens", Some(Array::new([grid.len(), *width], patches.clone())));
        put("cls", cls.as_ref().map(vector));
    }
    arrays
}

pub(super) fn document(trace: &Trace, loaded: &Loaded, explainer: &Explainer<'_>) -> Value {
    let names = &loaded.probe.meta.classes;
    let class = names.get(trace.evidence.class).cloned().unwrap_or(trace.evidence.class.to_string());
    let mut document = json!({
        "image": trace.image,
        "probe": trace.probe,
        "head": trace.head,
        "reading": trace.reading.to_string(),
        "backbone": trace.backbone,
        "grid": trace.grid,
        "radius": trace.radius,
        "prediction": trace.top.iter().take(5).collect::<Vec<_>>(),
        "class": {
            "index": trace.evidence.class,
            "name": class,
            "logit": trace.logits[trace.evidence.class],
        },
        "bias": trace.evidence.bias,
        "exact_evidence": trace.evidence.token.is_some(),
        "why_no_exact_evidence": trace.evidence.why_none,
        "rho": trace.radius.map(|radius| explainer.spec.flags.rho.unwrap_or(radius.into())),
        "null": {
            "draws": explainer.nulls.draws,
            "untrained_scorers": explainer.nulls.scorers(trace.grid.len()),
            "percentiles": [5, 95],
            "seed": explainer.spec.flags.seed,
        },
        "diagnostics": trace.diagnostics,
        "order_test": order_test(trace),
        "provenance": Provenance { probe_file: loaded.sha256.clone(), ..explainer.provenance.clone() },
    });
    if !trace.attributions.is_empty() {
        document["attributions"] = trace.attributions.iter().map(attribution).collect();
    }
    if let Some(found) = RegionMeasures::of_trace(trace) {
        let rows = found.precedence.chunks(found.regions.len().max(1));
        document["regions"] = json!({
            "object": found.object,
            "list": found.regions,
            "precedence": rows.collect::<Vec<_>>(),
        });
    }
    document
}

/// What a method of attribution found, without the numbers that the NPZ holds.
fn attribution((method, found): (&Attribution, &Found<Attributed>)) -> (String, Value) {
    let said = match found {
        Found::None { none } => json!({"none": none}),
        Found::Some(Attributed { token, completeness_error }) => {
            let mut said = json!({"sum": token.iter().map(|&x| f64::from(x)).sum::<f64>()});
            if let Some(error) = completeness_error {
                said["completeness_error"] = json!(error);
            }
            said
        }
    };
    (method.id().to_owned(), said)
}

/// What the order test found, without the histogram that figures draw.
fn order_test(trace: &Trace) -> Value {
    let mut found = json!(trace.order_test);
    for contrast in ["logit", "margin"] {
        if let Some(Value::Object(null)) = found.pointer_mut(&format!("/{contrast}/reassigned")) {
            null.shift_remove("histogram");
        }
    }
    found
}
