//! Order tests against float64 code written from the definitions (`tests/reference/order_test.py`), which tries every
//! exchange of few tokens, and for every head.

use std::borrow::Cow;

use serde_json::{Value, json};
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::order_test::{DRAWS, Exchanges, order_test};
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::io::array::Arrays;
use ssmprobe::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order};
use ssmprobe::model::probe::{Classifier, Probe};
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::{Found, OrderContrast, OrderTest};

use crate::close::assert_close;
use crate::evidence::{direction, fixture, floats32, number, tokens};
use crate::heads::each_case;

/// A probe with this classifier; its output is given by the case.
fn probe(width: usize, classifier: Classifier) -> Probe {
    let meta = json!({"format": 1, "head": "raster", "backbone": {"hidden_size": width}});
    Probe::new(serde_json::from_value(meta).expect("metadata"), Arrays::new(), classifier)
}

/// A case of the reference: the probe, its tokens and its output for them.
pub fn case(case: &Value) -> (Probe, Tokens, HeadOutput) {
    let (n, width) = (number(&case["n"]) as usize, number(&case["width"]) as usize);
    let classifier = Classifier { weight: floats32(&case["weight"]), bias: floats32(&case["bias"]) };
    let directions = case["directions"].as_array().expect("directions");
    let form = Form::Scan(directions.iter().map(|d| direction(d, n)).collect());
    let tokens = tokens(n, width, floats32(&case["tokens"]));
    (probe(width, classifier), tokens, HeadOutput { scores: None, form })
}

/// An image as if the probe had read it with this output.
pub fn reading<'a>(
    probe: &'a Probe,
    intervention: Intervention,
    tokens: &'a Tokens,
    output: &HeadOutput,
) -> ImageReading<'a> {
    ImageReading { probe: Cow::Borrowed(probe), intervention, tokens, image_seed: 0, output: output.clone() }
}

fn tested(
    probe: &Probe,
    tokens: &Tokens,
    output: &HeadOutput,
    class: usize,
) -> (OrderContrast, Option<OrderContrast>) {
    tested_in(Intervention::None, probe, tokens, output, class)
}

fn tested_in(
    change: Intervention,
    probe: &Probe,
    tokens: &Tokens,
    output: &HeadOutput,
    class: usize,
) -> (OrderContrast, Option<OrderContrast>) {
    match order_test(&reading(probe, change, tokens, output), (class, false), &Exchanges::new(0)) {
        Found::Some(OrderTest { logit, margin }) => (logit, margin),
        Found::None { none } => panic!("no test: {none}"),
    }
}

fn assert_is(name: &str, found: &OrderContrast, expected: &Value) {
    let null = &found.reassigned;
    for (what, found) in [
        ("value", found.value),
        ("mean", null.mean),
        ("std", null.std),
        ("p_normal", null.p_normal),
        ("best", found.best),
        ("worst", found.worst),
        ("content", found.content),
        ("fixed_order", found.fixed_order),
        ("routing", found.routing),
    ] {
        assert_close(format!("{name}, {what}"), found, number(&expected[what]), 1e-9);
    }
    for (what, found) in [("z", null.z), ("headroom", found.headroom)] {
        assert_eq!(found.is_some(), !expected[what].is_null(), "{name}, {what}");
        if let Some(found) = found {
            assert_close(format!("{name}, {what}"), found, number(&expected[what]), 1e-8);
        }
    }
    assert_eq!(found.against, expected.get("against").map(|against| number(against) as usize), "{name}");
    // The reference counts over other draws: all orders of few tokens, very many orders of more.
    let tail = number(&expected["tail"]);
    let allowed = 5.0 * (tail * (1.0 - tail) / DRAWS as f64 * 1.2).sqrt() + 2e-4;
    assert_close(format!("{name}, p"), null.p, tail, allowed);
    let histogram: u32 = null.histogram.iter().sum();
    assert_eq!(histogram as usize, if null.z.is_some() { null.draws } else { 0 }, "{name}, histogram");
}

#[test]
pub fn order_tests_equal_the_reference() {
    let cases = fixture("order_test");
    assert!(cases.iter().any(|case| case["expected"]["logit"]["z"].is_null()), "nothing that cannot vary");
    for document in &cases {
        let name = document["name"].as_str().expect("a name");
        let (probe, tokens, output) = case(document);
        let (logit, margin) = tested(&probe, &tokens, &output, number(&document["class"]) as usize);
        assert_is(&format!("{name}, logit"), &logit, &document["expected"]["logit"]);
        assert_eq!(margin.is_some(), document["expected"].get("margin").is_some(), "{name}");
        if let Some(margin) = margin {
            assert_is(&format!("{name}, margin"), &margin, &document["expected"]["margin"]);
        }
    }
}

/// A hand-made order equal to a scan has the scan's test; another order has the same null.
#[test]
fn orders_by_hand_equal_the_reference_of_the_scan() {
    let mut compared = 0;
    for document in &fixture("order_test") {
        let (probe, tokens, output) = case(document);
        let Form::Scan(directions) = &output.form else { panic!("no scan") };
        let [Direction { order: Order::Permutation(order), .. }] = &directions[..] else { continue };
        let by_hand = HandOrder::new(order.iter().map(|&i| i as u32).collect::<Vec<_>>());
        let Ok(by_hand) = by_hand else { continue };
        let class = number(&document["class"]) as usize;
        let name = document["name"].as_str().expect("a name");
        let change = Intervention::Order(by_hand.clone());
        let (logit, margin) = tested_in(change, &probe, &tokens, &output, class);
        assert_is(&format!("{name}, logit"), &logit, &document["expected"]["logit"]);
        if let Some(margin) = margin {
            assert_is(&format!("{name}, margin"), &margin, &document["expected"]["margin"]);
        }
        let turned: Vec<u32> = by_hand.tokens().iter().rev().copied().collect();
        let change = Intervention::Order(HandOrder::new(turned).expect("an order"));
        let other = change.apply(&probe, &tokens, output.clone(), 0).expect("an order to change");
        let (other, _) = tested_in(change, &probe, &tokens, &other, class);
        assert_eq!((&other.best, &other.reassigned.mean), (&logit.best, &logit.reassigned.mean), "{name}");
        assert_eq!(other.reassigned.histogram, logit.reassigned.histogram, "{name}");
        compared += 1;
    }
    assert!(compared > 3, "{compared}");
}

/// A scan that reads `tokens` of one channel in raster order through these gains, with two classes of which the second has weight zero.
fn raster_of(tokens: &[f32], gain: &[f32], seed: u64) -> OrderContrast {
    let n = tokens.len();
    let gain = direction(&json!({"order": (0..n).collect::<Vec<_>>(), "shared": gain, "radius": 0.9}), n);
    let output = HeadOutput { scores: None, form: Form::Scan(vec![gain]) };
    let classifier = Classifier { weight: vec![1.0, 0.0], bias: vec![0.25, -0.5] };
    let (probe, tokens) = (probe(1, classifier), self::tokens(n, 1, tokens.to_vec()));
    let reading = reading(&probe, Intervention::None, &tokens, &output);
    let test = order_test(&reading, (0, false), &Exchanges::new(seed));
    match test {
        Found::Some(OrderTest { margin, .. }) => margin.expect("a rival"),
        Found::None { none } => panic!("{none}"),
    }
}

/// p is recomputed: the share of the drawn exchanges, with the order itself among them, whose value is as high.
#[test]
fn p_is_counted_over_the_drawn_exchanges_and_the_order_itself() {
    let n = 12;
    let gain: Vec<f32> = (0..n).map(|k| ((k * k) as f32 * 0.37).sin() + 0.125 * k as f32).collect();
    let images: Vec<Vec<f32>> = (0..6)
        .map(|image| (0..n).map(|i| ((i * (image + 3)) as f32 * 0.71).cos() + 0.05 * i as f32).collect())
        .collect();
    let mut all = Vec::new();
    for seed in [0, 7] {
        // Every image has the same draws, collected once here.
        let drawn = std::sync::Mutex::new(Vec::new());
        Exchanges::new(seed).map(n, |pi| {
            drawn.lock().expect("no panic").push(pi.to_vec());
            0.0
        });
        let drawn = drawn.into_inner().expect("no panic");
        assert_eq!(drawn.len(), DRAWS);
        for tokens in &images {
            let sum = |place: &dyn Fn(usize) -> usize| -> f64 {
                (0..n).map(|i| f64::from(tokens[i]) * f64::from(gain[place(i)])).sum()
            };
            let read = sum(&|i| i);
            let as_high = drawn.iter().filter(|pi| sum(&|i| pi[i] as usize) >= read - 1e-9).count();
            let found = raster_of(tokens, &gain, seed);
            assert_eq!(found.reassigned.p, (1 + as_high) as f64 / 10_000.0, "seed {seed}");
            assert_close("value", found.value, read + 0.75, 1e-9);
            // Forty bins from four deviations below the mean to four above.
            let mut bins = vec![0; 40];
            for pi in &drawn {
                let z = (sum(&|i| pi[i] as usize) + 0.75 - found.reassigned.mean) / found.reassigned.std;
                bins[(((z + 4.0) * 5.0).max(0.0) as usize).min(39)] += 1;
            }
            let apart =
                bins.iter().zip(&found.reassigned.histogram).map(|(a, b): (&u32, &u32)| a.abs_diff(*b));
            // A value on the edge of a bin may be rounded to either side.
            assert!(apart.sum::<u32>() <= 4, "{bins:?}, {:?}", found.reassigned.histogram);
            all.push(found.reassigned.p);
        }
    }
    let [own, other] = [&all[..6], &all[6..]];
    assert!(own.iter().zip(other).any(|(a, b)| a != b), "draws that ignore the seed: {all:?}");
    assert!(all.iter().any(|p| *p < 0.3) && all.iter().any(|p| *p > 0.5), "{all:?}");
}

/// No order exceeds the best or falls below the worst, and p is bounded by what 9999 draws can resolve.
#[test]
fn the_best_order_has_the_least_p_and_the_worst_has_one() {
    let rising: Vec<f32> = (0..24).map(|k| 0.1 * k as f32 + 0.3).collect();
    let falling: Vec<f32> = rising.iter().rev().copied().collect();
    let best = raster_of(&rising, &rising, 0);
    assert_eq!(best.reassigned.p, 1e-4);
    assert_close("headroom", best.headroom.expect("orders differ"), 1.0, 1e-9);
    assert_close("the best is read", best.value, best.best, 1e-9);
    let worst = raster_of(&falling, &rising, 0);
    assert_eq!(worst.reassigned.p, 1.0);
    assert_close("the worst is read", worst.value, worst.worst, 1e-9);
    assert_close("the same ends", [worst.best, worst.worst], [best.best, best.worst], 1e-9);
    assert!(best.worst < best.reassigned.mean && best.reassigned.mean < best.best);
}

#[test]
fn every_head_is_tested_or_says_why_not() {
    let mut tested_heads = 0;
    each_case(|case, probe, images, _| {
        for (seed, image) in images.iter().enumerate() {
            let read = ImageReading::new(probe, Intervention::None, image, seed as u64);
            let read = read.expect("tokens that fit");
            let (logits, test) = (read.logits(), order_test(&read, (1, true), &Exchanges::new(3)));
            let has_kernel =
                matches!(&read.output.form, Form::Scan(d) if d.iter().all(|d| d.radius.is_some()));
            match test {
                Found::None { none } => assert!(!has_kernel && none.len() > 30, "{case}: {none}"),
                Found::Some(OrderTest { logit, margin }) => {
                    assert!(has_kernel, "{case}");
                    let margin = margin.expect("several classes");
                    let against = margin.against.expect("a rival");
                    assert_close(case, logit.value, logits[1], 1e-9);
                    assert_close(case, margin.value, logits[1] - logits[against], 1e-9);
                    for contrast in [logit, margin] {
                        let parts = contrast.content + contrast.fixed_order + contrast.routing;
                        assert_close(case, parts, contrast.value, 1e-9);
                        assert_close(case, contrast.content, contrast.reassigned.mean, 1e-9);
                        let mut ends = [contrast.worst, contrast.value, contrast.best];
                        ends[1] = ends[1].clamp(ends[0] - 1e-9, ends[2] + 1e-9);
                        assert!(ends[1] == contrast.value && contrast.descriptive, "{case}");
                        let scans = probe.head().router().is_none();
                        assert_eq!(contrast.routing == 0.0, scans, "{case}");
                    }
                    tested_heads += 1;
                }
            }
        }
    });
    assert!(tested_heads > 20, "{tested_heads}");
}

#[test]
fn positions_permuted_behind_a_router_have_no_test() {
    let document = fixture("order_test").into_iter().find(|case| case["directions"][0].get("plan").is_some());
    let (probe, tokens, output) = case(&document.expect("a learned order"));
    let change = Intervention::Scrambled(0);
    let reading = reading(&probe, change, &tokens, &output);
    let test = order_test(&reading, (0, false), &Exchanges::new(0));
    assert!(matches!(test, Found::None { none } if none.contains("behind the router")));
}

#[test]
fn gains_whose_squares_overflow_have_no_test() {
    let (mut probe, tokens, mut output) = case(&fixture("order_test")[0]);
    probe.classifier.weight.fill(1.0);
    let Form::Scan(directions) = &mut output.form else { panic!("a scan") };
    for direction in directions {
        let (Gain::Shared(gain) | Gain::Channel(gain)) = &mut direction.gain else { panic!("a kernel") };
        gain[0] = 1e200;
    }
    let reading = reading(&probe, Intervention::None, &tokens, &output);
    let test = order_test(&reading, (0, false), &Exchanges::new(0));
    assert!(matches!(test, Found::None { none } if none.contains("too large")));
}
