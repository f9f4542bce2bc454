//! Order ablations against their definition, computed token by token: route, permute, apply the S4 kernel.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::model::data::token_cache::{Precision, TokenCache, TokenKey, Writer};
use ssmprobe::model::explain::ablation::{Ablation, logits};
use ssmprobe::model::explain::diagnostics::MEASURES;
use ssmprobe::model::explain::evaluation::evaluator::{EvalError, Evaluator};
use ssmprobe::model::explain::evaluation::metrics::{Metrics, MetricsSpec};
use ssmprobe::model::explain::evaluation::vectors::{SHUFFLED, VectorKind};
use ssmprobe::model::explain::evaluation::{EvalSet, Evaluation, OTHER};
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::{Intervention, permutation};
use ssmprobe::model::explain::null_model::{NullBands, untrained_scores};
use ssmprobe::model::explain::order_test::{Exchanges, OrderTester, tested};
use ssmprobe::model::explain::readout;
use ssmprobe::model::explain::removal::{Curve, Mode, Orders, RANDOM, RemovalSpec, Schedule, Sets};
use ssmprobe::model::explain::stability::Measurement;
use ssmprobe::model::explain::{self, ExplainError};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head::{Config, Dims, HEADS, Sharing};
use ssmprobe::model::probe::head_output::{Direction, Form, HeadOutput, Order};
use ssmprobe::model::probe::router::scan::RASTER;
use ssmprobe::model::probe::{Probe, ProbeError};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::{OrderContrast, Picture, Reading, Region, Regions, Routing, Trace};
use ssmprobe::model::train::Labelled;
use tempfile::TempDir;

use crate::close::assert_close;
use crate::heads::{logits_of, untrained};
use crate::order_test::reading;

const GRID: Grid = Grid::new(3, 4);
const WIDTH: usize = 6;
const CLASSES: usize = 3;
const SEED: u64 = 11;
const IMAGE: u64 = 4;

fn tokens(seed: u64) -> Tokens {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut values = |n: usize| (0..n).map(|_| rng.random_range(-1.5..1.5)).collect::<Vec<f32>>();
    let (cls, patches) = (Some(values(WIDTH)), values(GRID.len() * WIDTH));
    Tokens { grid: GRID, width: WIDTH, cls, registers: Vec::new(), patches }
}

/// An untrained probe whose skip `D` differs by channel, so that the last position counts.
fn probe(id: &str, sharing: Sharing) -> Probe {
    let config = Config { state_dim: Some(5), k: Some(3), sharing: Some(sharing), ..Config::default() };
    let dims = Dims { width: WIDTH, grid: GRID, classes: CLASSES };
    let mut probe = untrained(id, &config, dims, 2);
    for array in probe.arrays.iter_mut().filter(|(name, _)| name.ends_with(".D")).map(|(_, array)| array) {
        array.data.iter_mut().enumerate().for_each(|(c, d)| *d = 0.3 + 0.1 * c as f32);
    }
    probe
}

/// The probe with a classifier that gives these logits for every image.
fn with_constant_logits(mut probe: Probe, logits: [f32; CLASSES]) -> Probe {
    probe.classifier.weight.fill(0.0);
    probe.classifier.bias = logits.to_vec();
    probe
}

/// The trace of one image with the predictions of all classes.
fn trace(probe: &Probe, change: Intervention, tokens: &Tokens) -> Result<Trace, ExplainError> {
    let seen = Picture { width: 4, height: 3, rgb: vec![0; 36] };
    let question = explain::Question { image_seed: IMAGE, ..Default::default() };
    explain::explain(probe, change, tokens, seen, question).map(|(trace, _)| trace)
}

fn ablated_logits(probe: &Probe, tokens: &Tokens) -> Vec<(Ablation, Vec<f64>)> {
    logits(&ImageReading::new(probe, Intervention::None, tokens, IMAGE).unwrap(), SEED).unwrap()
}

/// Features of an S4 head over `sequence` (`[N][d]`): kernel-weighted sum plus skip, read at the last position.
fn s4_features(probe: &Probe, tokens: &Tokens, sequence: &[Vec<f64>]) -> Vec<f64> {
    let Form::Scan(directions) = probe.output(tokens, IMAGE).unwrap().form else { panic!("no scan") };
    let (kernel, n) = (&directions[0].kernel, sequence.len());
    let (columns, skip) = (kernel.len() / n, &probe.arrays["s4.0.D"].data);
    (0..WIDTH)
        .map(|c| {
            let decay = |k: usize| kernel[(n - 1 - k) * columns + c % columns];
            let sum: f64 = (0..n).map(|k| decay(k) * sequence[k][c]).sum();
            sum + f64::from(skip[c % skip.len()]) * sequence[n - 1][c]
        })
        .collect()
}

/// The routed sequence, `x[k] = sum_i P[i, k] t_i`.
fn route(probe: &Probe, tokens: &Tokens) -> Vec<Vec<f64>> {
    let Form::Scan(directions) = probe.output(tokens, IMAGE).unwrap().form else { panic!("no scan") };
    let Order::Plan(plan) = &directions[0].order else { panic!("no plan") };
    let entry = |k: usize, c: usize| {
        (0..plan.n).map(|i| plan.share[i * plan.n + k] * f64::from(tokens.patch(i)[c])).sum::<f64>()
    };
    (0..plan.n).map(|k| (0..WIDTH).map(|c| entry(k, c)).collect()).collect()
}

fn raw(tokens: &Tokens) -> Vec<Vec<f64>> {
    (0..GRID.len()).map(|i| tokens.patch(i).iter().map(|&x| f64::from(x)).collect()).collect()
}

fn permuted(sequence: &[Vec<f64>]) -> Vec<Vec<f64>> {
    permutation(SEED, IMAGE, sequence.len()).into_iter().map(|i| sequence[i].clone()).collect()
}

fn classify(probe: &Probe, features: &[f64]) -> Vec<f64> {
    let rows = probe.classifier.weight.chunks_exact(features.len());
    let row = |(row, &b): (&[f32], &f32)| {
        row.iter().zip(features).map(|(&w, z)| f64::from(w) * z).sum::<f64>() + f64::from(b)
    };
    rows.zip(&probe.classifier.bias).map(row).collect()
}

#[test]
fn routed_heads_agree_with_the_definition() {
    let tokens = tokens(1);
    for id in ["sinkhorn", "softsort", "neuralsort", "hard-sort"] {
        for sharing in [Sharing::Shared, Sharing::Channel] {
            let probe = probe(id, sharing);
            let found = ablated_logits(&probe, &tokens);
            let routed = route(&probe, &tokens);
            let sequences = [routed.clone(), permuted(&routed), raw(&tokens), permuted(&raw(&tokens))];
            for ((ablation, logits), sequence) in found.iter().zip(&sequences) {
                let expected = classify(&probe, &s4_features(&probe, &tokens, sequence));
                assert_close(format!("{id} {sharing:?} {ablation:?}"), logits, &expected, 1e-9);
            }
            assert_eq!(found.len(), 4);
            assert!((found[0].1[0] - found[3].1[0]).abs() > 1e-6, "{id}: an order that does not matter");
        }
    }
}

#[test]
fn a_convolution_behind_a_scrambled_order_agrees_with_the_definition() {
    let tokens = tokens(2);
    let probe = probe("sinkhorn-conv", Sharing::Shared);
    let convolve = |sequence: &[Vec<f64>]| {
        let (weight, bias) = (&probe.arrays["conv.weight"], &probe.arrays["conv.bias"].data);
        let (n, taps) = (sequence.len(), weight.shape[2]);
        let at = |k: usize, tap: usize| (k + tap).checked_sub(taps / 2).filter(|&k| k < n);
        let feature = |f: usize| {
            let mut sum = 0.0;
            for (k, c, tap) in (0..n).flat_map(|k| (0..WIDTH * taps).map(move |j| (k, j / taps, j % taps))) {
                let value = at(k, tap).map_or(0.0, |k| sequence[k][c]);
                sum += f64::from(weight.data[(f * WIDTH + c) * taps + tap]) * value;
            }
            sum / n as f64 + f64::from(bias[f])
        };
        (0..bias.len()).map(feature).collect::<Vec<_>>()
    };
    let routed = route(&probe, &tokens);
    let sequences = [routed.clone(), permuted(&routed), raw(&tokens), permuted(&raw(&tokens))];
    let found = ablated_logits(&probe, &tokens);
    assert_eq!(found.len(), sequences.len());
    for ((ablation, logits), sequence) in found.iter().zip(&sequences) {
        assert_close(format!("{ablation:?}"), logits, classify(&probe, &convolve(sequence)), 1e-9);
    }
}

#[test]
fn the_trace_of_a_recurrent_head_holds_both_ways_it_reads() {
    let (tokens, probe) = (tokens(3), probe("bi-gru", Sharing::Shared));
    let read = |change: Intervention| trace(&probe, change, &tokens).unwrap().routing;
    let both = |forth: Vec<u32>| {
        let back = forth.iter().rev().copied().collect();
        Routing::Orders(vec![forth, back])
    };
    assert_eq!(read(Intervention::None), both((0..GRID.len() as u32).collect()));
    let random = permutation(SEED, IMAGE, GRID.len()).into_iter().map(|i| i as u32);
    assert_eq!(read(Intervention::Random(SEED)), both(random.collect()));
}

#[test]
fn fixed_scans_and_recurrence_read_tokens_that_lie_in_random_order() {
    let tokens = tokens(3);
    let pi = permutation(SEED, IMAGE, GRID.len());
    let patches = pi.iter().flat_map(|&i| tokens.patch(i).to_vec()).collect();
    let moved = Tokens { patches, ..tokens.clone() };
    for id in ["raster", "vmamba", "snake", "diagonal", "random-fixed", "bi-gru"] {
        let probe = probe(id, Sharing::Shared);
        let found = ablated_logits(&probe, &tokens);
        let [(Ablation::Normal, _), (Ablation::RandomOrder, random)] = &found[..] else { panic!("{id}") };
        assert_close(id, random, logits_of(&probe, &moved, IMAGE), 1e-9);
    }
    assert_eq!(RASTER.orders(GRID).len(), 1);
}

#[test]
fn only_what_applies_is_asked() {
    for kind in HEADS.iter() {
        let probe = probe(kind.id, Sharing::Shared);
        let ablations = Ablation::all_of(&probe);
        assert_eq!(ablations[0], Ablation::Normal, "{}", kind.id);
        let expected = match kind.id {
            "gap" | "cls" | "attention" | "content" | "topk" | "transformer" | "deepsets" | "linear-bn"
            | "efficient" | "random-dynamic" | "cls-mean" | "abmilp" | "simpool" | "coca" | "v-jepa" => 1,
            _ if probe.head().router().is_some() => 4,
            _ => 2,
        };
        assert_eq!(ablations.len(), expected, "{}", kind.id);
    }
}

#[test]
fn permutations_differ_by_image_and_by_seed() {
    let first = permutation(0, 0, 50);
    assert_ne!(first, permutation(0, 1, 50));
    assert_ne!(first, permutation(1, 0, 50));
    let mut sorted = first.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..50).collect::<Vec<_>>());
}

pub fn token_key() -> TokenKey {
    let text = str::to_owned;
    TokenKey {
        weights: text("w"),
        preprocessing: text("p"),
        dataset: text("d"),
        layer: text("last"),
        precision: Precision::Float32,
    }
}

/// Tokens of `count` images, and the folder that they are in.
pub fn cache(count: usize) -> (TempDir, TokenCache) {
    cache_without(count, &[])
}

/// [`cache`], of whose images those `unread` could not be read.
fn cache_without(count: usize, unread: &[u64]) -> (TempDir, TokenCache) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(folder.path(), token_key(), count).unwrap();
    let read = |image: u64| (!unread.contains(&image)).then(|| tokens(image));
    (0..count as u64).for_each(|image| writer.push(read(image), None).unwrap());
    (folder, writer.finish().unwrap())
}

/// An evaluation set of the images `draws` of a dataset, with their classes.
fn eval_set(draws: &[u64], class: &[usize]) -> Arc<EvalSet> {
    Arc::new(EvalSet {
        dataset: "d".into(),
        split: "test".into(),
        classes: (0..CLASSES).map(|class| class.to_string()).collect(),
        images: draws.iter().map(|draw| format!("{draw}.png")).collect(),
        class: class.iter().map(|class| *class as u32).collect(),
    })
}

/// Forty images of a larger dataset: their places in a cache, which count from 0, their indices in the dataset, and their
/// classes.
fn part() -> (Vec<usize>, Vec<u64>, Vec<usize>) {
    (0..40).map(|at| (at, 3 * at as u64 + 100, at % CLASSES)).collect()
}

/// Evaluation and metrics of the images at `places` of a cache, which are images `draws` of the dataset.
fn evaluation(
    probe: &Probe,
    change: Intervention,
    cache: &TokenCache,
    (places, draws): (&[usize], &[u64]),
    class: &[usize],
    spec: MetricsSpec<'_>,
) -> (Evaluation, Metrics) {
    let nulls = NullBands::new(2, 0);
    let asked = eval_set(draws, class);
    let mut evaluator = Evaluator::new(probe, change, cache, asked, (places, draws), &nulls).unwrap();
    evaluator.metrics = Some(spec);
    while evaluator.done() < evaluator.images() {
        let next = evaluator.done()..(evaluator.done() + 7).min(evaluator.images());
        evaluator.take(evaluator.answers(next).unwrap());
    }
    let metrics = evaluator.metrics().unwrap();
    (evaluator.finish("p".into(), "b".into()), metrics)
}

#[test]
fn the_window_and_eval_make_the_same_of_the_same_disturbance() {
    let (_folder, cache) = cache(40);
    let (places, draws, classes) = part();
    let all = (&places[..], &draws[..]);
    for id in ["sinkhorn", "softsort", "sinkhorn-conv", "vmamba", "random-fixed", "random-dynamic", "bi-gru"]
    {
        let probe = probe(id, Sharing::Shared);
        let spec = MetricsSpec { ablations: Some(SEED), ..MetricsSpec::default() };
        let (own, found) = evaluation(&probe, Intervention::None, &cache, all, &classes, spec);
        assert_eq!(own.accuracy(), found.accuracy);
        assert_eq!(found.ablations.len(), Ablation::all_of(&probe).len());
        for outcome in &found.ablations {
            let change = outcome.ablation.intervention(SEED);
            let spec = MetricsSpec::default();
            let (evaluation, _) = evaluation(&probe, change, &cache, all, &classes, spec);
            assert_eq!(evaluation.accuracy(), outcome.accuracy, "{id} {:?}", outcome.ablation);
            for (image, &draw) in draws.iter().enumerate() {
                let tokens = cache.tokens(image);
                let read = ImageReading::new(&probe, Intervention::None, &tokens, draw).unwrap();
                let ablated = logits(&read, SEED).unwrap();
                let own = &ablated.iter().find(|(ablation, _)| *ablation == outcome.ablation).unwrap().1;
                let best = (0..CLASSES).fold(0, |best, c| if own[c] > own[best] { c } else { best });
                assert_eq!(evaluation.predicted[image] as usize, best, "{id} {:?} {draw}", outcome.ablation);
            }
        }
    }
}

/// The order test of the margin of `class` for an image with this head output.
fn margin(
    probe: &Probe,
    change: Intervention,
    output: &HeadOutput,
    tokens: &Tokens,
    class: usize,
) -> OrderContrast {
    let reading = reading(probe, change, tokens, output);
    let exchanges = Exchanges::new(0);
    let margin = OrderTester::new(&reading, &exchanges).unwrap().margin(class);
    tested(vec![margin], &exchanges).remove(0).unwrap()
}

/// Every number of a dataset's order tests equals that of tests of its images one by one, each for its true class; so do the
/// shares of significant tests over four untrained scorers and four random orders, others for every image.
#[test]
fn order_tests_of_a_dataset_are_those_of_its_images() {
    let (_folder, cache) = cache(40);
    let (places, draws, classes) = part();
    let (mut near, mut wrong, mut narrower) = (0, 0, 0);
    for (id, sharing) in [
        ("sinkhorn", Sharing::Shared),
        ("softsort", Sharing::Channel),
        ("vmamba", Sharing::Shared),
        ("random-dynamic", Sharing::Channel),
    ] {
        let probe = probe(id, sharing);
        let spec = MetricsSpec::default();
        let all = (&places[..], &draws[..]);
        let (own, found) = evaluation(&probe, Intervention::None, &cache, all, &classes, spec);
        let order = found.order.expect("a kernel by position");
        let images = || places.iter().zip(&draws).zip(&classes);
        let each: Vec<OrderContrast> = images()
            .map(|((&place, &draw), &class)| {
                let tokens = cache.tokens(place);
                let output = probe.output(&tokens, draw).unwrap();
                margin(&probe, Intervention::None, &output, &tokens, class)
            })
            .collect();
        let letter = |contrast: &OrderContrast| if contrast.reassigned.p < 0.05 { '1' } else { '0' };
        assert_eq!(order.significant, each.iter().map(letter).collect::<String>(), "{id}");
        near += each.iter().filter(|one| (0.05..0.1).contains(&one.reassigned.p)).count();
        wrong += (0..40).filter(|image| own.is_correct(*image) == Some(false)).count();
        let mean = |of: &dyn Fn(&OrderContrast) -> f64| each.iter().map(of).sum::<f64>() / 40.0;
        for (name, found, expected) in [
            ("z", order.z, mean(&|one| one.reassigned.z.unwrap())),
            ("headroom", order.headroom, mean(&|one| one.headroom.unwrap())),
            ("content", order.content, mean(&|one| one.content)),
            ("fixed order", order.fixed_order, mean(&|one| one.fixed_order)),
            ("routing", order.routing, mean(&|one| one.routing)),
        ] {
            assert_close(format!("{id}, {name}"), found, expected, 1e-9);
        }
        let column = |name: &str| own.values(name).unwrap().iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let of = |of: &dyn Fn(&OrderContrast) -> f64| each.iter().map(of).collect::<Vec<_>>();
        assert_close(id, column("order_z"), of(&|one| one.reassigned.z.unwrap()), 1e-5);
        assert_close(id, column("order_p"), of(&|one| one.reassigned.p), 1e-6);
        assert_close(id, column("order_headroom"), of(&|one| one.headroom.unwrap()), 1e-6);
        // Baselines without training: untrained scorers and random orders.
        let (mut untrained, mut random) = (Vec::new(), Vec::new());
        for ((&place, &draw), &class) in images() {
            let tokens = cache.tokens(place);
            let output = probe.output(&tokens, draw).unwrap();
            if let (Some(router), Form::Scan(directions)) = (probe.head().router(), &output.form) {
                let scorers = 4 * draw as usize..4 * draw as usize + 4;
                for scores in untrained_scores(&tokens, scorers, 0) {
                    let routed = |direction: &Direction| Direction {
                        order: Order::Plan(router.plan(&scores)),
                        ..direction.clone()
                    };
                    let form = Form::Scan(directions.iter().map(routed).collect());
                    let routed = HeadOutput { scores: None, form };
                    let test = margin(&probe, Intervention::None, &routed, &tokens, class);
                    untrained.push(test.reassigned.p < 0.05);
                }
            }
            for seed in 0..4 {
                let change = Intervention::Random(seed);
                let drawn = change.apply(&probe, &tokens, output.clone(), draw).unwrap();
                random.push(margin(&probe, change, &drawn, &tokens, class).reassigned.p < 0.05);
            }
        }
        let share = |all: &[bool]| {
            (!all.is_empty()).then(|| all.iter().filter(|is| **is).count() as f64 / all.len() as f64)
        };
        assert_eq!(order.untrained, share(&untrained), "{id}, untrained");
        assert_eq!(order.random, share(&random), "{id}, random");
        assert_eq!(order.sample, Some((40, 4)), "{id}");
        // Beside each diagnostic stands its null for a mean over as many images.
        assert_eq!(found.diagnostics.is_empty(), probe.head().router().is_none(), "{id}");
        for (measured, measure) in found.diagnostics.iter().zip(MEASURES) {
            let null = &own.mean_nulls[measured.name.as_str()];
            assert_eq!(measured.null_mean, Some(measure.within(null.band(40))), "{id}, {}", measured.name);
            assert_eq!(measured.untrained_sample, Some((40, 2)), "{id}, {}", measured.name);
            narrower += usize::from(null.band(40) != null.band(1));
        }
    }
    assert!(near > 0 && wrong > 10, "{near} p values between 5 and 10 %, {wrong} images of another class");
    assert!(narrower > 10, "{narrower} nulls of a mean differ from those of an image");
    // Images whose order cannot matter count as read in an order like any other.
    let constant = with_constant_logits(probe("raster", Sharing::Shared), [3.0, 2.0, 1.0]);
    let all = (&places[..], &draws[..]);
    let found = evaluation(&constant, Intervention::None, &cache, all, &classes, MetricsSpec::default()).1;
    let order = found.order.expect("a kernel by position");
    assert_eq!((order.z, order.headroom, order.significant), (0.0, 0.0, "0".repeat(40)));
}

/// The accuracy with the last tokens kept, asked for beside other metrics, is that of an evaluation with this reading.
#[test]
fn tokens_that_are_kept_are_those_of_the_reading() {
    let (_folder, cache) = cache(40);
    let (places, draws, classes) = part();
    let all = (&places[..], &draws[..]);
    let asked = |probe: &Probe, change: Intervention| {
        let spec = MetricsSpec { last: &[1, 5, 12], ..MetricsSpec::default() };
        evaluation(probe, change, &cache, all, &classes, spec).1
    };
    for id in ["sinkhorn", "vmamba", "random-dynamic"] {
        let probe = probe(id, Sharing::Channel);
        let found = asked(&probe, Intervention::None);
        assert_eq!(found.last.iter().map(|kept| kept.tokens).collect::<Vec<_>>(), [1, 5, 12], "{id}");
        for kept in &found.last {
            let alone = asked(&probe, Intervention::Last(kept.tokens));
            let found = [(kept.accuracy, &kept.right), (alone.accuracy, &alone.right)];
            assert!(found[0] == found[1] && kept.right.len() == 40, "{id}, {}: {found:?}", kept.tokens);
        }
        // With all twelve tokens kept, nothing changes; with one, the logit does.
        let [one, .., all] = &found.last[..] else { panic!("{id}") };
        assert!(one.logit_change != 0.0 && all.logit_change == 0.0, "{id}");
        assert_eq!(all.accuracy, found.accuracy, "{id}");
    }
    for id in ["gap", "bi-gru", "sinkhorn-conv"] {
        assert!(asked(&probe(id, Sharing::Shared), Intervention::None).last.is_empty(), "{id}");
    }
}

#[test]
fn of_equal_logits_the_first_class_is_predicted_everywhere() {
    let (_folder, cache) = cache(3);
    let tied = with_constant_logits(probe("sinkhorn", Sharing::Shared), [-1.0, 0.5, 0.5]);
    let spec = MetricsSpec::default();
    let (evaluation, found) =
        evaluation(&tied, Intervention::None, &cache, (&[0, 1, 2], &[0, 1, 2]), &[1, 2, 1], spec);
    assert_close("accuracy", found.accuracy, 200.0 / 3.0, 1e-9);
    assert_eq!(evaluation.predicted, [1; 3]);
    let trace = trace(&tied, Intervention::None, &cache.tokens(0)).unwrap();
    let order: Vec<usize> = trace.top.iter().map(|prediction| prediction.index).collect();
    assert_eq!((order, trace.evidence.class), (vec![1, 2, 0], 1));
}

#[test]
fn the_best_classes_of_an_image_have_the_names_by_which_the_probe_counts_them() {
    let (_folder, cache) = cache_without(2, &[1]);
    let mut probe = with_constant_logits(probe("gap", Sharing::Shared), [3.0, 2.0, 1.0]);
    // The dataset counts the same classes in another order.
    probe.meta.classes = ["2", "0", "1"].map(str::to_owned).to_vec();
    let nulls = NullBands::new(2, 0);
    let (asked, images): (_, (&[usize], &[u64])) = (eval_set(&[0, 1], &[0, 0]), (&[0, 1], &[0, 1]));
    let mut evaluator = Evaluator::new(&probe, Intervention::None, &cache, asked, images, &nulls).unwrap();
    evaluator.take(evaluator.answers(0..2).unwrap());
    let top = evaluator.top(0);
    let names: Vec<&str> = top.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["2", "0", "1"]);
    // exp(3), exp(2) and exp(1) over their sum.
    let probabilities: Vec<f32> = top.iter().map(|(_, probability)| *probability).collect();
    assert_close("probabilities", probabilities, [0.665_241, 0.244_728, 0.090_031], 1e-6);
    // One that cannot be read has no answer, which could have changed.
    assert_eq!([evaluator.changed(&[2, 0]), evaluator.changed(&[1, 0])], [0, 1]);
    assert_eq!(evaluator.finish("p".into(), "b".into()).predicted, [2, OTHER]);
}

/// A table's columns of the predicted class and of the best ones have one name for a class, also of a probe without the words.
#[test]
fn the_best_classes_of_an_image_have_the_words_of_the_dataset() {
    let (_folder, cache) = cache(1);
    let mut probe = with_constant_logits(probe("gap", Sharing::Shared), [3.0, 2.0, 1.0]);
    probe.meta.classes = ["n02012849", "n01440764", "owl"].map(str::to_owned).to_vec();
    let classes = ["tench (n01440764)", "crane (n02012849)", "finch"].map(str::to_owned).to_vec();
    let asked = Arc::new(EvalSet { classes, ..EvalSet::clone(&eval_set(&[0], &[0])) });
    let nulls = NullBands::new(2, 0);
    let mut evaluator =
        Evaluator::new(&probe, Intervention::None, &cache, asked, (&[0], &[0]), &nulls).unwrap();
    evaluator.take(evaluator.answers(0..1).unwrap());
    let names: Vec<String> = evaluator.top(0).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["crane (n02012849)", "tench (n01440764)", "owl"], "the dataset has no owl");
    assert_eq!(evaluator.finish("p".into(), "b".into()).predicted_name(0), names[0]);
}

#[test]
fn shuffled_tokens_are_neither_averaged_nor_compared_by_patch() {
    let folder = tempfile::tempdir().unwrap();
    let (probe, nulls) = (probe("sinkhorn", Sharing::Shared), NullBands::new(2, 0));
    let of_tokens = |layer: &str| {
        let key = TokenKey { layer: layer.to_owned(), ..token_key() };
        let mut writer = Writer::open(folder.path(), key, 1).unwrap();
        writer.push(Some(tokens(0)), None).unwrap();
        let (cache, asked) = (writer.finish().unwrap(), eval_set(&[0], &[0]));
        let mut evaluator =
            Evaluator::new(&probe, Intervention::None, &cache, asked, (&[0], &[0]), &nulls).unwrap();
        evaluator.keep_vectors();
        evaluator.take(evaluator.answers(0..1).unwrap());
        evaluator.finish("p".into(), "b".into())
    };
    let (kept, shuffled) = (of_tokens("last"), of_tokens("last, shuffled by seed 0"));
    assert!(kept.positions.is_some() && kept.weights.is_some());
    assert_eq!((&shuffled.positions, &shuffled.weights), (&None, &None));
    for kind in VectorKind::ALL {
        assert_eq!(kept.vectors_of(kind).err(), None);
        assert_eq!(shuffled.vectors_of(kind).err().as_deref(), Some(SHUFFLED));
    }
    assert_eq!(kept.predicted, shuffled.predicted);
}

#[test]
fn a_probe_of_other_tokens_is_refused_before_any_are_read() {
    let (_folder, cache) = cache(1);
    let mut wide = probe("gap", Sharing::Shared);
    wide.meta.backbone.hidden_size += 1;
    let (nulls, asked) = (NullBands::new(2, 0), eval_set(&[0], &[0]));
    let evaluator = Evaluator::new(&wide, Intervention::None, &cache, asked, (&[0], &[0]), &nulls);
    assert!(matches!(evaluator.err(), Some(EvalError::Probe(ProbeError::Width { .. }))));
}

#[test]
fn logits_that_are_not_finite_are_refused() {
    let (_folder, cache) = cache(2);
    let probe = with_constant_logits(probe("gap", Sharing::Shared), [f32::INFINITY, 2.0, 1.0]);
    let (nulls, asked) = (NullBands::new(2, 0), eval_set(&[7, 8], &[0, 0]));
    let images: (&[usize], &[u64]) = (&[0, 1], &[7, 8]);
    let evaluator = Evaluator::new(&probe, Intervention::None, &cache, asked, images, &nulls).unwrap();
    let refused = evaluator.answers(1..2).map(drop).expect_err("no answer").to_string();
    assert!(refused.starts_with("8.png: the logits contain non-finite values"), "{refused}");
    let (mut overflowed, mut broken_cls) = (cache.tokens(0), cache.tokens(0));
    overflowed.patches[0] = f32::INFINITY;
    broken_cls.cls.as_mut().unwrap()[1] = f32::NAN;
    for tokens in [overflowed, broken_cls] {
        let refused = trace(&probe, Intervention::None, &tokens).unwrap_err().to_string();
        assert!(refused.contains("--arithmetic float32"), "{refused}");
    }
    // Finite in float64 alone, so that no trace could hold them.
    let mut large = probe.clone();
    large.classifier.weight.fill(f32::MAX);
    large.classifier.bias = vec![f32::MAX, f32::MIN, 0.0];
    let refused = trace(&large, Intervention::None, &cache.tokens(0)).unwrap_err().to_string();
    assert!(refused.contains("the logits exceed the largest float32"), "{refused}");
    // The kernel brings logits back into range, and proxies do without it.
    let mut steep = self::probe("raster", Sharing::Shared);
    steep.classifier.weight.fill(f32::MAX);
    for name in ["s4.0.C", "s4.0.D"] {
        steep.arrays[name].data.iter_mut().for_each(|x| *x *= 1e-30);
    }
    let refused = trace(&steep, Intervention::None, &cache.tokens(0)).unwrap_err().to_string();
    assert!(refused.contains("the evidence proxies exceed the largest float32"), "{refused}");
}

#[test]
fn without_routing_every_seed_reads_row_by_row() {
    let seeded = |seed: u64| {
        let mut probe = probe("sinkhorn", Sharing::Shared);
        probe.meta.training = Some(serde_json::json!({"seed": seed}));
        probe
    };
    let (one, mut other, another) = (seeded(0), seeded(1), seeded(2));
    other.arrays.get_mut("scorer.weight").unwrap().data.reverse();
    let against = |change: Intervention| {
        let peers = vec![("other".to_owned(), &other), ("another".to_owned(), &another)];
        let (image, name) = (String::new(), String::new());
        let reading = Reading { change, ..Reading::default() };
        let measurement = Measurement { image, name, probe: &one, reading, image_seed: IMAGE, peers };
        let found = measurement.take(&[tokens(1)], &[]).unwrap();
        let [group] = &found.groups[..] else { panic!("{found:?}") };
        assert_eq!(group.taus.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["another", "other"]);
        group.taus[1].1
    };
    assert!(against(Intervention::None) < 1.0, "scorers that differ read alike");
    assert_eq!(against(Intervention::NoRouting), 1.0);
}

/// Regions of an image whose object covers one token.
fn object_at(token: usize) -> Regions {
    let cover: Vec<f64> = (0..GRID.len()).map(|t| f64::from(u8::from(t == token))).collect();
    let list = vec![Region { number: 0, name: "object".into(), cover: cover.clone() }];
    Regions { list, object: cover, ..Regions::default() }
}

#[test]
fn an_evaluation_sums_up_its_images() {
    let (_folder, cache) = cache(6);
    let images = Labelled { images: vec![1, 2, 4, 5], classes: vec![0, 1, 2, 0] };
    let regions: Vec<Option<Regions>> = (0..4).map(|i| (i != 2).then(|| object_at(i))).collect();
    let probe = probe("sinkhorn", Sharing::Shared);
    let draws: Vec<u64> = images.images.iter().map(|&image| image as u64).collect();
    let spec = MetricsSpec { ablations: Some(SEED), causal: None, last: &[], regions: &regions };
    let all = (&images.images[..], &draws[..]);
    let (_, found) = evaluation(&probe, Intervention::None, &cache, all, &images.classes, spec);
    assert_eq!((found.images, found.masks, found.ablations.len()), (4, 3, 4));
    let mut right = 0_u32;
    let mut change = 0.0;
    let mut scrambled = String::new();
    for (&image, &class) in images.images.iter().zip(&images.classes) {
        let tokens = cache.tokens(image);
        let read = ImageReading::new(&probe, Intervention::None, &tokens, image as u64).unwrap();
        let ablated = logits(&read, SEED).unwrap();
        let [best, best_scrambled] = [0, 1].map(|way| {
            let logits = &ablated[way].1;
            (0..CLASSES).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap()
        });
        right += u32::from(best == class);
        scrambled.push(if best_scrambled == class { '1' } else { '0' });
        change += ablated[1].1[class] - ablated[0].1[class];
    }
    assert_close("accuracy", found.accuracy, 25.0 * f64::from(right), 1e-9);
    assert_close("change", found.ablations[1].logit_change, change / 4.0, 1e-9);
    assert_eq!(found.ablations[1].right, scrambled);
    let found_object = found.localization.unwrap();
    assert_close("share", found_object.object_share.unwrap(), 1.0 / 12.0, 1e-12);
    // Of a mask of one token, the share of the others whose weight is smaller.
    let aucs = [0, 1, 3].map(|i| {
        let image = images.images[i];
        let output = probe.output(&cache.tokens(image), image as u64).unwrap();
        let weights: Vec<f64> = readout::token_weight(&output).unwrap().iter().map(|w| w.abs()).collect();
        weights.iter().filter(|&&w| w < weights[i]).count() as f64 / (GRID.len() - 1) as f64
    });
    assert_close("AUC", found_object.weight_auc.unwrap(), aucs.iter().sum::<f64>() / 3.0, 1e-12);
    // Without ablations the accuracy is the same, and none is reported.
    let spec = MetricsSpec { ablations: None, ..spec };
    let (_, plain) = evaluation(&probe, Intervention::None, &cache, all, &images.classes, spec);
    assert_eq!((plain.accuracy, plain.ablations.len()), (found.accuracy, 0));
    // An image whose mask is empty counts as one without a mask.
    let empty = Regions { object: vec![0.0; GRID.len()], ..Regions::default() };
    let regions: Vec<_> = regions.iter().map(|known| known.clone().or_else(|| Some(empty.clone()))).collect();
    let spec = MetricsSpec { regions: &regions, ..spec };
    let (_, same) = evaluation(&probe, Intervention::None, &cache, all, &images.classes, spec);
    assert_eq!((same.masks, same.localization), (found.masks, found.localization));
}

/// The curve heights of an evaluation are those of the removal curves of its images, computed one by one.
#[test]
fn an_evaluation_has_the_heights_of_its_images_curves() {
    let (_folder, cache) = cache_without(5, &[3]);
    let (places, draws, classes) = ([0, 1, 2, 3, 4], [7, 8, 9, 10, 11], [0, 1, 2, 0, 1]);
    let spec = RemovalSpec { modes: vec![Mode::Frozen, Mode::Rerouted], steps: 4, seed: 2 };
    for id in ["sinkhorn", "gap", "bi-gru"] {
        let probe = probe(id, Sharing::Shared);
        let asked = MetricsSpec { causal: Some(&spec), ..MetricsSpec::default() };
        let (found, metrics) =
            evaluation(&probe, Intervention::None, &cache, (&places, &draws), &classes, asked);
        assert!(found.values("rerouted_deletion_gradient").is_some(), "{id}");
        assert_eq!(found.values("frozen_deletion_evidence").is_some(), id != "bi-gru", "{id}");
        assert_eq!(found.values("rerouted_insertion_weight").is_some(), id == "sinkhorn", "{id}");
        assert_eq!(
            Evaluation::from_json(&found.to_json().unwrap()).unwrap().measures.len(),
            found.measures.len()
        );
        let mut compared = 0;
        for heights in &metrics.removals {
            let read = [0, 1, 2, 4];
            assert_eq!(heights.deletion.len(), read.len(), "{id}: the unreadable image is left out");
            for (at, &image) in read.iter().enumerate() {
                let tokens = cache.tokens(image);
                let reader = ImageReading::new(&probe, Intervention::None, &tokens, draws[image]).unwrap();
                let orders = match heights.ranking.as_str() {
                    RANDOM => Orders::random(GRID.len(), 16, 2),
                    ranking => {
                        let all = reader.rankings(classes[image], Err("no encoder"), 2);
                        let (id, ranked) = all.into_iter().find(|(id, _)| *id == ranking).unwrap();
                        Orders { id, orders: vec![ranked.found().unwrap().order.clone()] }
                    }
                };
                let mut sets = Sets::new();
                let schedule = Schedule::new(&[orders], 4, &mut sets);
                let sets: Vec<&Vec<usize>> = sets.iter().collect();
                let logits = match heights.mode {
                    Mode::Frozen => reader.frozen(&sets),
                    _ => reader.rerouted(&sets),
                };
                let curves = schedule.curves(&logits.unwrap(), classes[image], None);
                let expected =
                    curves[&heights.ranking].each_ref().map(|curve| Curve::height(&curve.probability));
                let found = [heights.deletion[at], heights.insertion[at]];
                assert_close(format!("{id}, {}", heights.ranking), found, expected, 1e-6);
                compared += 1;
            }
            let column = format!("{}_deletion_{}", heights.mode.id(), heights.ranking);
            let column = found.values(&column).unwrap();
            assert!(column[3].is_nan() && column[4] == heights.deletion[3], "{id}");
        }
        assert!(compared >= 4 * 3, "{id}: {compared}");
        let (plain, _) = evaluation(
            &probe,
            Intervention::None,
            &cache,
            (&places, &draws),
            &classes,
            MetricsSpec::default(),
        );
        assert!(plain.measures.keys().all(|name| !name.contains("_deletion_")), "only where it is asked");
    }
}

#[test]
fn behind_an_unreadable_image_each_keeps_its_class_its_draw_and_its_mask() {
    let (_folder, cache) = cache_without(6, &[1, 4]);
    let probe = probe("sinkhorn", Sharing::Shared);
    let metrics = |kept: &[usize]| {
        let draws: Vec<u64> = kept.iter().map(|&i| 10 + i as u64).collect();
        let classes: Vec<usize> = kept.iter().map(|&i| i % CLASSES).collect();
        let regions: Vec<_> = kept.iter().map(|&i| Some(object_at(i))).collect();
        let spec = MetricsSpec { ablations: Some(SEED), causal: None, last: &[], regions: &regions };
        evaluation(&probe, Intervention::None, &cache, (kept, &draws), &classes, spec).1
    };
    let all = metrics(&[0, 1, 2, 3, 4, 5]);
    assert_eq!((all.images, all.masks), (4, 4));
    assert_eq!(all, metrics(&[0, 2, 3, 5]));
}
