//! Measures of regions against float64 code written from the definitions (`tests/reference/regions.py`), and those of a trace
//! against those of the head's output.

use serde_json::Value;
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::localization::{self, TokenValues};
use ssmprobe::model::explain::readout::token_weight;
use ssmprobe::model::explain::regions::{RegionMeasure, RegionMeasures};
use ssmprobe::model::explain::{Question, explain};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::regions::{Region, Regions};
use ssmprobe::model::trace::{Matrix, Picture, Routing};

use crate::close::assert_close;
use crate::evidence::{fixture, floats, number};
use crate::heads::each_case;
use crate::order_test::{case, reading};

/// Regions by name and cover; the object is the first.
fn regions(covers: Vec<(String, Vec<f64>)>) -> Regions {
    let object = covers[0].1.clone();
    let region = |(number, (name, cover))| Region { number, name, cover };
    Regions { list: (0..).zip(covers).map(region).collect(), object, ..Regions::default() }
}

/// Weight and evidence of every token, as far as the head has them.
fn values(read: &ImageReading<'_>, class: usize) -> (Option<Vec<f64>>, Option<Vec<f64>>) {
    (token_weight(&read.output), read.evidence(class).ok().map(|exact| exact.token))
}

fn assert_reads(name: &str, found: &RegionMeasure, expected: &Value) {
    assert_eq!(found.tokens, number(&expected["tokens"]) as usize, "{name}");
    for (what, found) in [
        ("position", found.position),
        ("weight", found.weight),
        ("evidence", found.evidence),
        ("mean_evidence", found.mean_evidence),
        ("weight_auc", found.weight_auc),
        ("evidence_auc", found.evidence_auc),
    ] {
        let expected = expected.get(what).filter(|value| !value.is_null());
        assert_eq!(found.is_some(), expected.is_some(), "{name}, {what}");
        if let (Some(found), Some(expected)) = (found, expected) {
            assert_close(format!("{name}, {what}"), found, number(expected), 1e-9);
        }
    }
}

#[test]
fn regions_are_read_as_the_reference_reads_them() {
    let mut sweeps = 0;
    for document in &fixture("regions") {
        let name = document["name"].as_str().expect("a name");
        let (probe, tokens, output) = case(document);
        let covers = document["covers"].as_object().expect("covers");
        let known = regions(covers.iter().map(|(name, cover)| (name.clone(), floats(cover))).collect());
        let class = number(&document["class"]) as usize;
        let read = reading(&probe, Intervention::None, &tokens, &output);
        let (weight, evidence) = values(&read, class);
        let values = TokenValues { weight: weight.as_deref(), evidence: evidence.as_deref() };
        let found = RegionMeasures::of_output(&output, values, &known);
        let expected = &document["expected"];
        for region in &found.regions {
            assert_reads(&format!("{name}, {}", region.name), region, &expected["regions"][&region.name]);
        }
        let count = covers.len();
        assert_eq!((found.regions.len(), found.precedence.len()), (count, count * count), "{name}");
        for a in 0..count {
            for b in 0..count {
                let expected = expected["precedence"][a][b].as_f64();
                assert_eq!(found.before(a, b).is_some(), expected.is_some(), "{name}: {a} before {b}");
                if let (Some(found), Some(expected)) = (found.before(a, b), expected) {
                    assert_close(format!("{name}: {a} before {b}"), found, expected, 1e-9);
                }
            }
        }
        sweeps += usize::from(document["directions"].as_array().is_some_and(|all| all.len() > 1));
        // The object is the first region, with the numbers that `eval` reports of it.
        let eval = localization::measure(values, &known.object);
        let own = (found.object.weight_auc, found.object.evidence_auc);
        assert_eq!(own, (eval.weight_auc, eval.evidence_auc), "{name}");
    }
    assert!(sweeps >= 2, "no case of several sweeps");
}

/// Measures of a trace, as in the window, are those of the head's output, as in `eval`, for every head.
#[test]
fn a_trace_says_of_regions_what_the_reading_says() {
    let (mut heads, mut ordered) = (0, 0);
    each_case(|name, probe, images, _| {
        let tokens = &images[0];
        let n = tokens.grid.len();
        let cover =
            |from: usize, to: usize| (0..n).map(|i| f64::from(u8::from((from..to).contains(&i)))).collect();
        let known = regions(vec![("one".into(), cover(0, 2)), ("other".into(), cover(1, n - 1))]);
        let read = ImageReading::new(probe, Intervention::None, tokens, 0).expect("tokens that fit");
        let question = Question { class: Some(1 % probe.classes()), ..Question::default() };
        let explained = explain(probe, Intervention::None, tokens, Picture::default(), question);
        let (mut trace, _) = explained.expect("explained");
        trace.regions = Some(known.clone());
        let class = trace.evidence.class;
        let (weight, evidence) = values(&read, class);
        let values = TokenValues { weight: weight.as_deref(), evidence: evidence.as_deref() };
        let own = RegionMeasures::of_output(&read.output, values, &known);
        let shown = RegionMeasures::of_trace(&trace).expect("regions");
        assert_eq!(shown.precedence.len(), own.precedence.len(), "{name}");
        let all = |found: &RegionMeasures| -> Vec<Option<f64>> {
            let rows = found.regions.iter().chain([&found.object]);
            rows.flat_map(|row| [row.position, row.weight, row.evidence, row.mean_evidence]).collect()
        };
        let (shown_numbers, own_numbers) = (all(&shown), all(&own));
        assert_eq!((shown_numbers.len(), own_numbers.len()), (3 * 4, 3 * 4), "{name}");
        for (shown, own) in shown_numbers.iter().zip(&own_numbers) {
            assert_eq!(shown.is_some(), own.is_some(), "{name}");
            assert_close(name, shown.unwrap_or(0.0), own.unwrap_or(0.0), 2e-5);
        }
        if !own.precedence.is_empty() {
            assert_close(name, shown.precedence.clone(), own.precedence.clone(), 1e-5);
        }
        let auc = |found: &RegionMeasures| (found.object.weight_auc, found.object.evidence_auc);
        assert_eq!(auc(&shown), auc(&own), "{name}");
        heads += 1;
        ordered += usize::from(!own.precedence.is_empty());
    });
    assert!(heads > 20 && ordered > 10 && ordered < heads, "{heads}, {ordered}");
}

#[test]
fn a_region_without_a_token_has_no_position_and_no_weight() {
    let known = regions(vec![("none".into(), vec![0.0; 4]), ("all".into(), vec![1.0; 4])]);
    let mut trace = crate::state::trace("a.png");
    trace.grid = Grid::new(2, 2);
    trace.routing = Routing::Plan(Matrix { rows: 4, cols: 4, data: vec![0.25; 16] });
    trace.token_weight = Some(vec![0.25; 4]);
    trace.regions = Some(known);
    let found = RegionMeasures::of_trace(&trace).expect("regions");
    assert_eq!(
        (found.regions[0].tokens, found.regions[0].position, found.regions[0].weight),
        (0, None, None)
    );
    assert_eq!((found.before(0, 1), found.before(1, 0)), (None, None));
    assert_eq!((found.regions[1].position, found.regions[1].weight), (Some(0.5), Some(1.0)));
}
