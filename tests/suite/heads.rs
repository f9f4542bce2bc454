//! Every head against float64 PyTorch written from the specification (`tests/reference/heads.py`): logits in float32
//! tensors and by the float64 readout, and the gradient of every parameter. Also settings, counts of parameters and costs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use burn::tensor::{DType, Device, Int, Tensor, TensorData, activation};
use indexmap::IndexMap;
use safetensors::{Dtype, SafeTensors};
use ssmprobe::model::explain::{evidence, readout};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::io::array::Array;
use ssmprobe::model::probe::head::{
    self, Batch, Config, Dims, Group, HEADS, Norm, SelfAttention, Sharing, cost,
};
use ssmprobe::model::probe::head_output::Form;
use ssmprobe::model::probe::params::{Constraint, Params, Spec};
use ssmprobe::model::probe::{BackboneMeta, Probe};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::train::classifier::{Model, ModelError};
use ssmprobe::model::train::{HeadTrainer, Labels, step_all};

use crate::close::{assert_close, distance};
use crate::run::{json, root};

const GRIDS: [(&str, Grid); 2] = [("3x3", Grid::new(3, 3)), ("2x6", Grid::new(2, 6))];
const LABELS: [i32; 3] = [0, 3, 1];
/// Heads that are not linear in their tokens, whatever their settings: they have no exact evidence.
pub const OPAQUE: [&str; 5] = ["cls", "transformer", "deepsets", "bi-gru", "v-jepa"];

fn folder() -> PathBuf {
    root().join("tests/fixtures/heads")
}

/// The tensors of a reference file by name, flattened, in float64.
pub fn values_in(file: &str) -> IndexMap<String, Vec<f64>> {
    let bytes = std::fs::read(folder().join(file)).expect("the reference's values");
    let tensors = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let value = |name: &str| {
        let view = tensors.tensor(name).expect("listed");
        match view.dtype() {
            Dtype::F64 => view.data().as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            Dtype::F32 => {
                view.data().as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
            }
            other => panic!("{name} has type {other}"),
        }
    };
    tensors.names().into_iter().map(|name| (name.to_owned(), value(name))).collect()
}

/// A probe of no classes' names, as it is before its training.
pub fn untrained(head: &str, config: &Config, dims: Dims, seed: u64) -> Probe {
    let kind = head::find(head).expect("a head");
    let model = Model::start(kind, config, dims, seed, &Device::flex()).expect("settings that fit");
    let backbone = BackboneMeta { hidden_size: dims.width, ..BackboneMeta::default() };
    model.to_probe(backbone, Vec::new(), None)
}

/// The model of a probe, for images with this grid of patches.
pub fn model_of(probe: &Probe, grid: Grid, device: &Device) -> Model {
    let meta = &probe.meta;
    let config = Config { norm: meta.config.norm.or(Some(Norm::None)), ..meta.config.clone() };
    let dims = Dims { width: meta.backbone.hidden_size, grid, classes: probe.classes() };
    let kind = head::find(&meta.head).expect("a head");
    let start = Model::start(kind, &config, dims, 0, device).expect("a probe that fits");
    let specs: Vec<Spec> = start.params().iter().map(|(spec, _)| spec.clone()).collect();
    let mut arrays = probe.arrays.clone();
    for (spec, values) in specs.iter().rev().zip([&probe.classifier.bias, &probe.classifier.weight]) {
        arrays.insert(spec.name.clone(), Array::new(spec.shape.clone(), values.clone()));
    }
    start.with_params(Params::from_arrays(specs, &arrays, device))
}

/// The logits of a probe for an image in float64, as they are read out of its output.
pub fn logits_of(probe: &Probe, tokens: &Tokens, image_seed: u64) -> Vec<f64> {
    let output = probe.output(tokens, image_seed).expect("tokens that fit");
    readout::logits(&output, tokens, &probe.classifier)
}

/// Probe files of a head: its defaults, and variants in sharing, discretisation, norm, exponent, joined layers, and AbMILP's.
pub fn files(id: &str) -> Vec<PathBuf> {
    let named = |kind: &str| folder().join(format!("{id}{kind}.safetensors"));
    ["", "-channel", "-zoh", "-channel-zoh", "-norm", "-gamma", "-blocks", "-gate", "-map", "-both"]
        .map(named)
        .into_iter()
        .filter(|path| path.exists())
        .collect()
}

/// A path's file name without its extension.
pub fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|s| s.to_str()).expect("a name")
}

/// The reference's images on a grid: three, 24 channels wide, with CLS.
pub fn images(name: &str, grid: Grid) -> Vec<Tokens> {
    let tokens = values_in("tokens.safetensors");
    let values = |what: &str, len: usize| {
        let values = &tokens[&format!("{name}/{what}")];
        values.chunks_exact(len).map(|v| v.iter().map(|&x| x as f32).collect()).collect::<Vec<Vec<f32>>>()
    };
    let (patches, cls) = (values("patches", grid.len() * 24), values("cls", 24));
    assert_eq!((patches.len(), cls.len()), (LABELS.len(), LABELS.len()));
    let image = |(patches, cls)| Tokens { grid, width: 24, cls: Some(cls), registers: Vec::new(), patches };
    patches.into_iter().zip(cls).map(image).collect()
}

/// Images with CLS as a batch for a head; image seeds count from 0.
pub fn batch(images: &[Tokens], device: &Device) -> Batch {
    let (grid, d) = (images[0].grid, images[0].width);
    let patches = images.iter().flat_map(|t| t.patches.clone()).collect::<Vec<_>>();
    let cls = images.iter().flat_map(|t| t.cls.clone().expect("with CLS")).collect::<Vec<_>>();
    Batch {
        patches: Tensor::from_data(TensorData::new(patches, [images.len(), grid.len(), d]), device),
        cls: Some(Tensor::from_data(TensorData::new(cls, [images.len(), d]), device)),
        grid,
        image_seeds: (0..images.len() as u64).collect(),
        training: false,
    }
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

/// The largest absolute value; panics on NaN and on an empty list.
pub fn largest(values: &[f64]) -> f64 {
    distance("values", values, vec![0.0; values.len()])
}

/// Panics unless every number is within `share` times the largest expected magnitude, or times 1e-3 if that is more.
#[track_caller]
pub fn assert_near(name: impl Display, found: &[f64], expected: &[f64], share: f64) {
    assert_close(name, found, expected, share * largest(expected).max(1e-3));
}

/// A hundredth of the largest entry of several gradients, the smallest scale that errors are relative to: the gradient of
/// a single number, as a step size, may be a small difference of large terms.
pub fn min_gradient_scale<'a>(gradients: impl Iterator<Item = &'a Vec<f64>>) -> f64 {
    let all: Vec<f64> = gradients.map(|gradient| largest(gradient)).collect();
    assert!(!all.is_empty(), "no gradients");
    largest(&all) / 100.0
}

/// Calls `check` for every case of the reference: its name `file/grid`, the probe, the images, and all expected values by name.
pub fn each_case(mut check: impl FnMut(&str, &Probe, &[Tokens], &IndexMap<String, Vec<f64>>)) {
    let expected = values_in("expected.safetensors");
    let grids = GRIDS.map(|(name, grid)| (name, images(name, grid)));
    for kind in HEADS.iter() {
        let files = files(kind.id);
        assert!(!files.is_empty(), "no fixture for {}; add it to tests/reference/heads.py", kind.id);
        for path in files {
            let probe = Probe::load(&path).expect("a probe PyTorch wrote");
            assert_eq!(probe.meta.head, kind.id);
            let mut cases = 0;
            for (name, images) in &grids {
                let case = format!("{}/{name}", stem(&path));
                if expected.contains_key(&format!("{case}/logits")) {
                    check(&case, &probe, images, &expected);
                    cases += 1;
                }
            }
            assert!(cases > 0, "no expectation for {}", path.display());
        }
    }
}

#[test]
fn tokens_that_are_no_numbers_reach_the_logits_of_their_image_alone() {
    each_case(|case, probe, images, _| {
        let mut images = images.to_vec();
        let first = &mut images[0];
        first.patches.iter_mut().chain(first.cls.iter_mut().flatten()).for_each(|x| *x = f32::NAN);
        let device = Device::flex();
        let model = model_of(probe, images[0].grid, &device);
        let logits = values(model.logits(&batch(&images, &device)));
        for (image, logits) in logits.chunks_exact(probe.classes()).enumerate() {
            let right = |x: &f64| if image == 0 { x.is_nan() } else { x.is_finite() };
            assert!(logits.iter().all(right), "{case}, image {image}: {logits:?}");
        }
    });
}

#[test]
pub fn readings_give_the_reference_logits_in_float64() {
    each_case(|case, probe, images, expected| {
        let logits = (0..).zip(images).flat_map(|(seed, tokens)| logits_of(probe, tokens, seed));
        assert_near(case, &logits.collect::<Vec<_>>(), &expected[&format!("{case}/logits")], 1e-9);
    });
}

#[test]
fn evidence_of_every_linear_head_sums_to_the_logit() {
    each_case(|case, probe, images, expected| {
        let tokens = &images[1];
        let output = probe.output(tokens, 1).expect("tokens that fit");
        for class in 0..5 {
            let logit = expected[&format!("{case}/logits")][5 + class];
            match evidence::exact(&output, tokens, &probe.classifier, class) {
                Ok(exact) => {
                    let sum = exact.token.iter().sum::<f64>() + exact.bias;
                    assert_close(case, sum, logit, 1e-9 * logit.abs().max(1.0));
                }
                Err(why) => {
                    assert!(matches!(output.form, Form::Opaque { .. }) && why.len() > 20, "{case}: {why}");
                    let file = case.split('/').next().expect("a file");
                    assert!(OPAQUE.contains(&file) || file == "simpool-gamma", "{case}: {why}");
                }
            }
        }
    });
}

/// Mean cross-entropy with [`LABELS`].
pub fn loss(logits: Tensor<2>) -> Tensor<1> {
    let labels = Tensor::<1, Int>::from_data(TensorData::from(LABELS), &logits.device());
    let chosen = activation::log_softmax(logits, 1).gather(1, labels.unsqueeze_dim(1));
    -chosen.mean()
}

#[test]
pub fn tensors_give_the_reference_logits_and_gradients() {
    let device = Device::flex().autodiff();
    each_case(|case, probe, images, expected| {
        let model = model_of(probe, images[0].grid, &device);
        let params = model.params().clone().map(|spec, value| match spec.constraint {
            Constraint::Fixed => value,
            _ => value.detach().require_grad(),
        });
        let model = model.with_params(params);
        let logits = model.logits(&batch(images, &device));
        assert_near(case, &values(logits.clone()), &expected[&format!("{case}/logits")], 1e-5);
        let gradients = loss(logits).backward();
        let prefix = format!("{case}/grad/");
        let of_case = expected.iter().filter(|(key, _)| key.starts_with(&prefix));
        let of_case: Vec<&Vec<f64>> = of_case.map(|(_, gradient)| gradient).collect();
        let min_scale = min_gradient_scale(of_case.iter().copied());
        let trained = model.params().iter().filter(|(spec, _)| spec.constraint != Constraint::Fixed);
        assert_eq!(trained.count(), of_case.len(), "{case}: parameters with a gradient");
        for (spec, value) in model.params().iter() {
            let key = format!("{case}/grad/{}", spec.name);
            if spec.constraint == Constraint::Fixed {
                assert!(!expected.contains_key(&key), "{key}");
                continue;
            }
            let gradient = value.grad(&gradients).unwrap_or_else(|| panic!("{key}: no gradient"));
            let mut found = values(gradient);
            // Shifting all logits of a softmax alike changes nothing: such a parameter has gradient 0.
            let nonzero = found.iter().any(|x| *x != 0.0) || largest(&expected[&key]) < 1e-12;
            assert!(nonzero, "{key}: the gradient is 0 everywhere");
            if found.len() > 4096 {
                found = found.into_iter().step_by(7).collect();
            }
            let expected = &expected[&key];
            assert_close(&key, &found, expected, 1e-4 * largest(expected).max(min_scale));
        }
    });
}

#[test]
fn batch_normalisation_trains_as_pytorchs() {
    let expected = values_in("expected.safetensors");
    let device = Device::flex();
    for stem in ["linear-bn", "efficient-norm", "abmilp-norm", "abmilp-both", "coca-norm"] {
        let probe = Probe::load(folder().join(format!("{stem}.safetensors"))).expect("a probe");
        for (name, grid) in GRIDS {
            let model = model_of(&probe, grid, &device);
            let batch = Batch { training: true, ..batch(&images(name, grid), &device) };
            let of = |what: &str| &expected[&format!("{stem}/{name}/{what}")];
            assert_near(stem, &values(model.logits(&batch)), of("training_logits"), 1e-5);
            let raw = model.raw_features(&batch);
            let of_one = model.clone().observe(raw.clone().narrow(0, 0, 1));
            assert_eq!(of_one.params().to_arrays(), model.params().to_arrays(), "one image has no variance");
            let arrays = model.observe(raw).params().to_arrays();
            for buffer in ["running_mean", "running_var"] {
                let found = arrays[&format!("norm.{buffer}")].to_f64();
                assert_near(buffer, &found, of(buffer), 1e-6);
            }
        }
    }
}

/// A probe file from before the setting `norm` has no norm, as then; a new probe has that of the head's authors.
#[test]
fn a_probe_that_names_no_norm_has_none_and_a_new_one_has_its_authors() {
    let old = Probe::load(folder().join("efficient.safetensors")).expect("a probe");
    assert_eq!((old.meta.config.norm, old.arrays.len()), (None, 2));
    let start = |config: Config| {
        let kind = head::find("efficient").expect("a head");
        Model::start(kind, &config, dims(Grid::new(3, 3)), 0, &Device::flex()).expect("settings")
    };
    let buffers = |model: &Model| model.params().to_arrays().contains_key("norm.running_mean");
    let new = start(Config::default());
    assert_eq!((new.config().norm, new.config().width, buffers(&new)), (Some(Norm::Batch), Some(24), true));
    let without = start(Config { norm: Some(Norm::None), ..Config::default() });
    assert_eq!((without.config().norm, buffers(&without)), (Some(Norm::None), false));
}

fn dims(grid: Grid) -> Dims {
    Dims { width: 24, grid, classes: 5 }
}

#[test]
fn every_head_starts_saves_and_loads_to_the_bit() {
    let folder = tempfile::tempdir().expect("a folder");
    for kind in HEADS.iter() {
        for sharing in [Sharing::Shared, Sharing::Channel] {
            let gate = (sharing == Sharing::Channel).then_some(true);
            let self_attention = gate.map(|_| SelfAttention::Both);
            let (sharing, state_dim) = (Some(sharing), Some(5));
            let config = Config { sharing, state_dim, gate, self_attention, ..Config::default() };
            let dims = dims(Grid::new(2, 6));
            let mut probe = untrained(kind.id, &config, dims, 3);
            probe.meta.classes = (0..5).map(|c| format!("class {c}")).collect();
            let path = folder.path().join(format!("{}.safetensors", kind.id));
            probe.save(&path).expect("room on the disk");
            let again = Probe::load(&path).unwrap_or_else(|e| panic!("{}: {e}", kind.id));
            assert_eq!(again.meta, probe.meta);
            assert_eq!(again.classifier, probe.classifier);
            assert_eq!(again.arrays, probe.arrays, "{}", kind.id);
            let other = untrained(kind.id, &config, dims, 4);
            assert_ne!(other.classifier, probe.classifier, "{}: the seed changes nothing", kind.id);
        }
    }
}

/// An S4 starts as the definitions say, PyTorch's modules as PyTorch starts them: linear maps, convolutions and GRUs uniform within
/// `1 / sqrt(n)`, n the inputs or, of a GRU, the states; the stacked projections of attention by Xavier's rule.
#[test]
fn heads_start_as_the_definitions_and_pytorch_say() {
    let dims = Dims { width: 96, ..dims(Grid::new(3, 3)) };
    let start = |id: &str, name: &str| untrained(id, &Config::default(), dims, 3).arrays[name].to_f64();
    let spread = |values: &[f64]| (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt();
    for (id, name, n) in [
        ("sinkhorn", "scorer.weight", 96.0),
        ("sinkhorn-conv", "conv.weight", 5.0 * 96.0),
        ("sinkhorn-conv", "conv.bias", 5.0 * 96.0),
        ("transformer", "encoder.self_attn.in_proj_weight", (96.0 + 3.0 * 96.0) / 6.0),
        ("transformer", "encoder.self_attn.out_proj.weight", 96.0),
        ("transformer", "encoder.linear1.bias", 96.0),
        ("transformer", "encoder.linear2.weight", 192.0),
        ("deepsets", "phi.0.weight", 96.0),
        ("deepsets", "phi.2.bias", 192.0),
        ("bi-gru", "gru.weight_ih_l0", 128.0),
        ("bi-gru", "gru.bias_hh_l0_reverse", 128.0),
    ] {
        let (values, bound) = (start(id, name), 1.0 / f64::sqrt(n));
        let most = largest(&values);
        assert!((0.9 * bound..=bound * (1.0 + 1e-6)).contains(&most), "{id}, {name}: {most} of {bound}");
        let even = spread(&values) * f64::sqrt(3.0) / bound;
        assert!((even - 1.0).abs() < 0.2, "{id}, {name}: not uniform, {even}");
    }
    for name in ["encoder.self_attn.in_proj_bias", "encoder.self_attn.out_proj.bias", "encoder.norm1.bias"] {
        assert_eq!(largest(&start("transformer", name)), 0.0, "{name}");
    }
    let s4 = |letter: &str| start("sinkhorn", &format!("s4.0.{letter}"));
    let root = |n: usize| f64::sqrt(2.0 * n as f64 + 1.0);
    let a = (0..128 * 128).map(|at| match (at / 128, at % 128) {
        (n, k) if n > k => -root(n) * root(k),
        (n, k) if n == k => -(n as f64 + 1.0),
        _ => 0.0,
    });
    assert_near("A", &s4("A"), &a.collect::<Vec<_>>(), 1e-7);
    assert_near("B", &s4("B"), &(0..128).map(root).collect::<Vec<_>>(), 1e-7);
    assert!((spread(&s4("C")) * f64::sqrt(128.0) - 1.0).abs() < 0.3, "C");
    assert_eq!(s4("D"), [0.0]);
    assert_near("dt", &s4("dt"), &[0.05], 1e-6);
}

#[test]
fn one_token_is_refused() {
    for kind in HEADS.iter() {
        let dims = dims(Grid::new(1, 1));
        let refused = Model::start(kind, &Config::default(), dims, 0, &Device::flex());
        assert_eq!(refused.err(), Some(ModelError::TooFewTokens { head: kind.id, found: 1 }));
        let probe = Probe::load(&files(kind.id)[0]).expect("a probe");
        let tokens = Tokens {
            grid: Grid::new(1, 1),
            width: 24,
            cls: Some(vec![0.0; 24]),
            registers: Vec::new(),
            patches: vec![0.0; 24],
        };
        let message = probe.output(&tokens, 0).expect_err("one token").to_string();
        assert!(message.contains("at least 2") && message.contains(kind.id), "{message}");
    }
}

#[test]
fn parameter_counts_are_the_papers() {
    let dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };
    let count = |id: &str, sharing| {
        let config = Config { sharing: Some(sharing), ..Config::default() };
        let head = head::find(id).expect("a head").build(&config).expect("settings");
        cost::parameters(&*head, &dims)
    };
    let plain = |id| count(id, Sharing::Shared);
    for (id, parameters) in [
        ("gap", 769_000),
        ("cls", 769_000),
        ("attention", 769_768),
        ("content", 769_768),
        ("transformer", 3_431_080),
        ("deepsets", 1_066_408),
        ("sinkhorn-conv", 931_240),
        ("bi-gru", 946_664),
        ("linear-bn", 769_000),
        ("cls-mean", 1_537_000),
        // The modules in their authors' code, plus the classifier.
        ("abmilp", 1_360_361),
        ("simpool", 1_950_184),
        ("coca", 3_135_208),
        ("v-jepa", 7_857_640 - 768 * 769), // without a layer of theirs that nothing reads
        ("efficient", 1_383_400),          // as the authors' logs have it (logs/beitv2_vitb/ep.txt)
    ] {
        assert_eq!(plain(id), parameters, "{id}");
    }
    // DINOv2's linear classifier on its last 4 layers with `avgpool`.
    let joined = Config { blocks: Some(4), ..Config::default() };
    let head = head::find("cls-mean").expect("a head").build(&joined).expect("settings");
    assert_eq!(cost::parameters(&*head, &Dims { width: 4 * 768, ..dims }), 1000 * (5 * 768 + 1));
    // AbMILP's module in its authors' code; the gate is one more layer.
    for (gate, self_attention, more) in [
        (true, SelfAttention::None, 768 * 769),
        (false, SelfAttention::Map, 4 * 768 * 768 + 768),
        (true, SelfAttention::Both, 768 * 769 + 4 * 768 * 768 + 768),
    ] {
        let (gate, self_attention) = (Some(gate), Some(self_attention));
        let config = Config { gate, self_attention, ..Config::default() };
        let head = head::find("abmilp").expect("a head").build(&config).expect("settings");
        assert_eq!(cost::parameters(&*head, &dims), 1_360_361 + more, "{config:?}");
    }
    for id in ["raster", "random-fixed", "random-dynamic"] {
        assert_eq!(count(id, Sharing::Channel), 966_377, "{id}");
    }
    assert_eq!(count("sinkhorn", Sharing::Channel), 967_145);
    assert_eq!(plain("raster"), 769_000 + 128 * 129 / 2 + 128 + 128 + 1 + 1); // A is a triangle
    let priced: Vec<_> = HEADS.iter().filter_map(|kind| Some((kind.id, kind.paper_cost?))).collect();
    assert_eq!(priced.len(), 12); // rows of the paper's table
    for (id, paper) in priced {
        let millions = count(id, Sharing::Channel) as f64 / 1e6;
        assert!((millions - paper.parameters).abs() < 0.0051, "{id}: {millions}");
    }
}

#[test]
fn operations_are_counted_by_hand() {
    let dims = Dims { width: 768, grid: Grid::new(14, 14), classes: 1000 };
    let flops = |id: &str, sharing| {
        let config = Config { sharing: Some(sharing), ..Config::default() };
        let head = head::find(id).expect("a head").build(&config).expect("settings");
        cost::flops(&*head, &dims)
    };
    let classifier = 2 * 768 * 1000;
    assert_eq!(flops("cls", Sharing::Shared), classifier);
    assert_eq!(flops("gap", Sharing::Shared), classifier + 196 * 768);
    assert_eq!(flops("attention", Sharing::Shared), classifier + 4 * 196 * 768 + 4 * 196);
    assert_eq!(flops("vmamba", Sharing::Shared), flops("raster", Sharing::Shared));
    let weights = |width: u64| 2 * 196 * 196 * width;
    let extra = flops("sinkhorn", Sharing::Channel) - flops("sinkhorn", Sharing::Shared);
    assert_eq!(extra, weights(768) - weights(1));
    let gated = Config { gate: Some(true), ..Config::default() };
    let gated = head::find("abmilp").expect("a head").build(&gated).expect("settings");
    let gate = cost::flops(&*gated, &dims) - flops("abmilp", Sharing::Shared);
    assert_eq!(gate, 196 * (2 * 768 * 768 + 768 + 768), "a layer, its sigmoid, the product");
    for kind in HEADS.iter() {
        assert!(flops(kind.id, Sharing::Shared) >= 2 * 192 * 1000, "{}", kind.id);
    }
}

/// Operation counts equal those of `thop` and PyTorch's counter (`tests/reference/costs.py`), at the paper's and small sizes.
#[test]
fn operations_are_counted_as_others_count_them() {
    let cases: Vec<serde_json::Value> = json(root().join("tests/fixtures/costs/costs.json"));
    // The scans share one count, and so do the routers.
    for kind in HEADS.iter().filter(|kind| matches!(kind.group, Group::Pooling | Group::Network)) {
        assert!(
            cases.iter().any(|case| case["head"] == kind.id),
            "no case of {}; add it to tests/reference/costs.py",
            kind.id
        );
    }
    for case in cases {
        let size = |name: &str| case[name].as_u64().expect("a number") as usize;
        let (states, sharing) = (Some(size("states")), Some(Sharing::Channel));
        let own = case.get("config").cloned().map(serde_json::from_value::<Config>);
        let own = own.transpose().expect("settings").unwrap_or_default();
        let config = Config { state_dim: states, sharing, ..own };
        let dims = Dims {
            width: size("width"),
            grid: Grid::new(size("rows"), size("columns")),
            classes: size("classes"),
        };
        let head = head::find(case["head"].as_str().expect("an id")).expect("a head");
        let counts = cost::counts(&*head.build(&head.begun(&config, 0)).expect("settings"), &dims);
        let found = (counts.hooks as usize, 2 * counts.multiply_adds as usize);
        assert_eq!(found, (size("hooks"), size("doubled")), "{case}");
    }
}

#[test]
fn settings_are_written_out_and_refused_by_name() {
    let device = Device::flex();
    let start = |id: &str, config: Config, width| {
        let dims = Dims { width, ..dims(Grid::new(3, 3)) };
        Model::start(head::find(id).expect("a head"), &config, dims, 0, &device)
    };
    let settings = |id: &str, width| start(id, Config::default(), width).expect("defaults").config().clone();
    assert_eq!(settings("transformer", 24).heads, Some(12));
    assert_eq!(settings("transformer", 20).heads, Some(10));
    assert_eq!((settings("coca", 20).heads, settings("v-jepa", 20).heads), (Some(5), Some(10)));
    let usual = ["transformer", "coca", "v-jepa"].map(|id| settings(id, 768).heads);
    assert_eq!((usual, settings("efficient", 768).queries), ([Some(12), Some(8), Some(12)], Some(32)));
    for id in ["transformer", "coca", "v-jepa"] {
        let asked = Config { heads: Some(3), ..Config::default() };
        assert_eq!(start(id, asked, 24).expect("a divisor").config().heads, Some(3), "{id}");
    }
    assert_eq!(settings("efficient", 20).queries, Some(20));
    let narrow = start("efficient", Config { width: Some(36), ..Config::default() }, 24).expect("a width");
    assert_eq!(narrow.config().queries, Some(18));
    assert_eq!(settings("topk", 24).k, Some(16));
    let sinkhorn = settings("sinkhorn", 24);
    assert_eq!(
        (sinkhorn.temperature, sinkhorn.iterations, sinkhorn.state_dim, sinkhorn.sharing),
        (Some(0.1), Some(20), Some(128), Some(Sharing::Shared))
    );
    for (id, power) in [("neuralsort", None), ("softsort", Some(2)), ("hard-sort", None)] {
        let found = settings(id, 24);
        assert_eq!((found.temperature, found.power), (Some(1.0), power), "{id}");
    }
    for (id, config, field) in [
        ("transformer", Config { heads: Some(7), ..Config::default() }, "heads"),
        ("coca", Config { heads: Some(7), ..Config::default() }, "heads"),
        ("v-jepa", Config { heads: Some(0), ..Config::default() }, "heads"),
        ("simpool", Config { gamma: Some(0.0), ..Config::default() }, "gamma"),
        ("transformer", Config { heads: Some(0), ..Config::default() }, "heads"),
        ("efficient", Config { queries: Some(7), ..Config::default() }, "queries"),
        ("efficient", Config { queries: Some(8), width: Some(12), ..Config::default() }, "queries"),
        ("efficient", Config { width: Some(0), ..Config::default() }, "width"),
        ("cls-mean", Config { blocks: Some(0), ..Config::default() }, "blocks"),
        ("cls-mean", Config { blocks: Some(5), ..Config::default() }, "blocks"),
        ("topk", Config { k: Some(0), ..Config::default() }, "k"),
        ("raster", Config { state_dim: Some(0), ..Config::default() }, "state_dim"),
        ("sinkhorn", Config { temperature: Some(f64::NAN), ..Config::default() }, "temperature"),
    ] {
        match start(id, config, 24).map(|_| ()) {
            Err(ModelError::Config { head, source }) => assert_eq!((head, source.field), (id, field)),
            other => panic!("{id} with another {field}: {other:?}"),
        }
    }
}

#[test]
fn tokens_in_float16_train_every_head_as_the_same_in_float32() {
    let (device, dims) = (Device::flex(), Dims { grid: Grid::new(2, 3), width: 8, classes: 4 });
    let number = |at: usize| ((at * 37) % 101) as f32 / 64.0 - 0.75; // exact in float16
    let patches = TensorData::new((0..4 * 6 * 8).map(number).collect(), [4, 6, 8]);
    let cls = TensorData::new((0..4 * 8).map(number).collect(), [4, 8]);
    let trained = |precision: DType| {
        let patches = patches.clone().convert_dtype(precision);
        let patches = Tensor::<3>::from_data(patches, (&device, precision));
        let cls = Some(Tensor::<2>::from_data(cls.clone(), &device));
        let batch = Batch { patches, cls, grid: dims.grid, image_seeds: (0..4).collect(), training: false };
        let (batch, labels) = (batch.tracked(), Labels::new(&[0, 1, 2, 3], &device));
        let start = |kind| Model::start(kind, &Config::default(), dims, 0, &device).expect("a head");
        let mut trainers: Vec<_> = HEADS.iter().map(|kind| HeadTrainer::new(kind.id, start(kind))).collect();
        (0..2).for_each(|_| step_all(&mut trainers, &batch, &labels, |_| 1e-2));
        let end = |trainer: HeadTrainer| (trainer.name, trainer.model.params().to_arrays());
        trainers.into_iter().map(end).collect::<Vec<_>>()
    };
    assert_eq!(trained(DType::F16), trained(DType::F32));
}
