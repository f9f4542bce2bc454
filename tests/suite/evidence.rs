//! Evidence against float64 autograd through the recurrence (`tests/reference/evidence.py`); it always sums to the logit.

use proptest::prelude::*;
use serde_json::Value;
use ssmprobe::model::explain::evidence::{exact, proxy};
use ssmprobe::model::explain::readout::{logits, token_weight};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::Classifier;
use ssmprobe::model::probe::head_output::{Direction, Form, Gain, HeadOutput, Order, Plan};
use ssmprobe::model::tokens::Tokens;

use crate::close::assert_close;
use crate::run;

/// The cases of `tests/fixtures/evidence/NAME.json`.
pub fn fixture(name: &str) -> Vec<Value> {
    let cases: Vec<Value> = run::json(run::root().join(format!("tests/fixtures/evidence/{name}.json")));
    assert!(cases.len() > 3, "{name} holds {} cases", cases.len());
    cases
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

pub fn floats(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}

pub fn indices(value: &Value) -> Vec<usize> {
    floats(value).into_iter().map(|x| x as usize).collect()
}

pub fn floats32(value: &Value) -> Vec<f32> {
    floats(value).into_iter().map(|x| x as f32).collect()
}

pub fn tokens(n: usize, width: usize, patches: Vec<f32>) -> Tokens {
    Tokens { grid: Grid::new(1, n), width, cls: None, registers: Vec::new(), patches }
}

pub fn direction(case: &Value, n: usize) -> Direction {
    let order = match case.get("order") {
        Some(order) => Order::Permutation(indices(order)),
        None => Order::Plan(Plan { n, share: floats(&case["plan"]) }),
    };
    let gain = if let Some(gain) = case.get("shared") {
        Gain::Shared(floats(gain))
    } else if let Some(gain) = case.get("channel") {
        Gain::Channel(floats(gain))
    } else {
        let mix = &case["mix"];
        Gain::Mix {
            maps: floats(&mix["maps"]),
            class_of: indices(&mix["class_of"]),
            bias: floats(&mix["bias"]),
        }
    };
    Direction { order, gain, kernel: Vec::new(), radius: case.get("radius").map(number) }
}

fn output(form: &Value, n: usize) -> HeadOutput {
    let form = if let Some(weight) = form.get("pool") {
        Form::Pool(floats(weight))
    } else if let Some(weight) = form.get("channel_pool") {
        Form::ChannelPool(floats(weight))
    } else if let Some(form) = form.get("projected") {
        let part = |name: &str| floats(&form[name]);
        Form::Projected { weights: part("weights"), map: part("map"), mix: None, bias: part("bias") }
    } else {
        let directions = form["scan"].as_array().expect("directions");
        Form::Scan(directions.iter().map(|d| direction(d, n)).collect())
    };
    HeadOutput { scores: None, form }
}

#[track_caller]
fn close(what: &str, found: &[f64], expected: &Value) {
    assert_close(what, found, floats(expected), 1e-9);
}

/// Bit for bit, also where channels are no multiple of what is summed at a time.
#[test]
fn a_mean_beside_the_cls_token_is_the_projection_that_selects_it() {
    for (n, d, own) in [(5, 24, 24), (7, 26, 13)] {
        let number = |at: usize| ((at * 7919 + 13) % 1009) as f32 / 300.0 - 1.7;
        let tokens = tokens(n, d, (0..n * d).map(number).collect());
        let classifier = Classifier {
            weight: (0..2 * (d + own)).map(|at| number(at + 5)).collect(),
            bias: vec![0.25, -1.5],
        };
        let cls: Vec<f64> = (0..d).map(|at| f64::from(number(at + 99))).collect();
        let weights = vec![1.0 / n as f64; n];
        let (mut map, mut mix) = (vec![0.0; own * d], vec![0.0; (d + own) * own]);
        for c in 0..own {
            map[c * d + d - own + c] = 1.0;
            mix[(d + c) * own + c] = 1.0;
        }
        let bias = [cls.clone(), vec![0.0; own]].concat();
        let dense = Form::Projected { weights: weights.clone(), map, mix: Some(mix), bias };
        let [dense, short] = [dense, Form::BesideCls { cls, weights, channels: own }]
            .map(|form| HeadOutput { scores: None, form });
        assert_eq!(logits(&short, &tokens, &classifier), logits(&dense, &tokens, &classifier));
        for class in 0..2 {
            let [short, dense] = [&short, &dense].map(|output| exact(output, &tokens, &classifier, class));
            assert_eq!(short, dense);
        }
    }
}

#[test]
pub fn evidence_logits_and_token_weights_equal_the_reference() {
    for case in fixture("evidence") {
        let name = case["name"].as_str().expect("a name");
        let (n, width) = (number(&case["n"]) as usize, number(&case["width"]) as usize);
        let tokens = tokens(n, width, floats32(&case["tokens"]));
        let (row, bias) = (floats32(&case["row"]), number(&case["bias"]) as f32);
        let output = output(&case["form"], n);
        let classifier = Classifier { weight: row.clone(), bias: vec![bias] };
        let expected = &case["expected"];
        close(name, &logits(&output, &tokens, &classifier), &Value::from(vec![expected["logit"].clone()]));
        let found = exact(&output, &tokens, &classifier, 0).expect("exact evidence");
        close(&format!("{name}, token"), &found.token, &expected["token"]);
        close(&format!("{name}, bias"), &[found.bias], &Value::from(vec![expected["constant"].clone()]));
        assert_eq!(found.position.is_some(), expected.get("position").is_some(), "{name}");
        if let Some(position) = found.position {
            close(&format!("{name}, position"), &position, &expected["position"]);
        }
        let proxy_at = |rho| proxy(&output, &tokens, &row, rho);
        assert_eq!(proxy_at(None).is_some(), expected.get("proxy").is_some(), "{name}");
        if let Some(own) = proxy_at(None) {
            let fixed = proxy_at(Some(0.9)).expect("any radius will do where there is one");
            close(&format!("{name}, proxy"), &own.routed, &expected["proxy"]);
            close(&format!("{name}, proxy in raster order"), &own.raster, &expected["proxy_raster"]);
            close(&format!("{name}, proxy at 0.9"), &fixed.routed, &expected["proxy_at_0.9"]);
        }
        if let Some(weight) = expected.get("token_weight") {
            close(&format!("{name}, weight"), &token_weight(&output).expect("weights"), weight);
        }
    }
}

#[test]
fn an_opaque_head_says_why() {
    let form = Form::Opaque { features: vec![2.0, -1.0], why: "it has a nonlinearity" };
    let output = HeadOutput { scores: None, form };
    let tokens = tokens(2, 1, vec![1.0, 2.0]);
    let classifier = Classifier { weight: vec![1.0, 1.0, 0.5, 0.0], bias: vec![0.5, 0.0] };
    assert_eq!(exact(&output, &tokens, &classifier, 0), Err("it has a nonlinearity"));
    assert_eq!(logits(&output, &tokens, &classifier), [1.5, 1.0]);
    assert_eq!((token_weight(&output), proxy(&output, &tokens, &[1.0], Some(0.5))), (None, None));
}

/// A decay that the user sets replaces that of a memory, which a convolution and a mean behind a router do not have: also
/// where they have as many features as tokens have channels.
#[test]
fn a_head_without_a_memory_has_no_proxy_at_any_decay() {
    let tokens = tokens(2, 2, vec![1.0, 2.0, 3.0, 4.0]);
    let mix = Gain::Mix { maps: vec![0.5; 8], class_of: vec![0, 1], bias: vec![0.0; 2] };
    for (gain, radius) in
        [(mix, None), (Gain::Shared(vec![0.5; 2]), None), (Gain::Shared(vec![0.5; 2]), Some(0.5))]
    {
        let direction = Direction { order: Order::Permutation(vec![1, 0]), gain, kernel: Vec::new(), radius };
        let output = HeadOutput { scores: None, form: Form::Scan(vec![direction]) };
        assert_eq!(proxy(&output, &tokens, &[1.0, -1.0], Some(0.9)).is_some(), radius.is_some());
    }
}

fn values(len: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-3.0..3.0f64, len)
}

fn gains(n: usize, d: usize) -> impl Strategy<Value = Gain> {
    let mix = (values(2 * d * d), prop::collection::vec(0..2usize, n), values(d))
        .prop_map(|(maps, class_of, bias)| Gain::Mix { maps, class_of, bias });
    prop_oneof![values(n).prop_map(Gain::Shared), values(n * d).prop_map(Gain::Channel), mix]
}

fn orders(n: usize) -> impl Strategy<Value = Order> {
    let permutation = Just((0..n).collect::<Vec<_>>()).prop_shuffle().prop_map(Order::Permutation);
    let plan =
        prop::collection::vec(0.0..1.0f64, n * n).prop_map(move |share| Order::Plan(Plan { n, share }));
    prop_oneof![permutation, plan]
}

fn scans() -> impl Strategy<Value = (HeadOutput, Tokens, Vec<f32>, f32)> {
    (2usize..14, 1usize..12).prop_flat_map(|(n, d)| {
        let direction = (orders(n), gains(n, d)).prop_map(|(order, gain)| Direction {
            order,
            gain,
            kernel: Vec::new(),
            radius: None,
        });
        let output = prop::collection::vec(direction, 1..4)
            .prop_map(|directions| HeadOutput { scores: None, form: Form::Scan(directions) });
        let floats = |len| values(len).prop_map(|v| v.into_iter().map(|x| x as f32).collect::<Vec<_>>());
        let tokens = floats(n * d).prop_map(move |patches| tokens(n, d, patches));
        (output, tokens, floats(d), -3.0..3.0f32)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn evidence_sums_to_the_logit((output, tokens, weight, bias) in scans()) {
        let classifier = Classifier { weight, bias: vec![bias] };
        let logit = logits(&output, &tokens, &classifier)[0];
        let found = exact(&output, &tokens, &classifier, 0).expect("a scan is linear");
        let total = |part: &[f64]| part.iter().sum::<f64>() + found.bias;
        prop_assert!((total(&found.token) - logit).abs() < 1e-9);
        prop_assert!((total(&found.position.expect("positions")) - logit).abs() < 1e-9);
    }
}
