//! Removal curves against float64 code written from the definitions (`tests/reference/removal.py`), for every head,
//! and properties that relate them.

use std::collections::HashMap;
use std::convert::Infallible;

use indexmap::IndexMap;
use serde_json::Value;
use ssmprobe::model::backbone::preprocess::Pixels;
use ssmprobe::model::explain::image_reading::ImageReading;
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::removal::{
    Curves, EncoderPasses, Image, MeasuredProbe, Mode, Orders, RANDOM, RANKINGS, Removal, RemovalSpec, STEPS,
    Schedule, Sets, counts, measure, road,
};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::{Picture, Reading};

use crate::close::assert_close;
use crate::evidence::{fixture, floats, floats32, indices, number};
use crate::heads::each_case;
use crate::pictures::small;
use crate::run;

/// Calls `check` for every head of the fixtures with its name in the reference and its image there.
fn each_head(mut check: impl FnMut(&str, &Probe, &Tokens)) {
    each_case(|case, probe, images, _| {
        if let Some(stem) = case.strip_suffix("/2x6") {
            check(stem, probe, &images[1]);
        }
    });
}

/// The curves of some rankings, or why there are none.
fn curves(
    reader: &ImageReading<'_>,
    mode: Mode,
    rankings: &[Orders],
    steps: usize,
    (class, rival): (usize, Option<usize>),
) -> Result<Curves, String> {
    let mut sets = Sets::new();
    let schedule = Schedule::new(rankings, steps, &mut sets);
    let sets: Vec<&Vec<usize>> = sets.iter().collect();
    let logits = match mode {
        Mode::Frozen => reader.frozen(&sets)?,
        _ => reader.rerouted(&sets)?,
    };
    Ok(schedule.curves(&logits, class, rival))
}

#[test]
fn the_rival_is_the_strongest_other_class_and_equal_tokens_go_as_the_seed_draws_them() {
    let mut tied = 0;
    each_head(|case, probe, tokens| {
        let found = |class: Option<usize>, seed: u64| -> Removal {
            let measured = MeasuredProbe { probe, name: case.to_owned(), reading: Reading::default(), class };
            let image = Image {
                name: String::new(),
                tokens,
                pixels: &Pixels { height: 0, width: 0, values: Vec::new() },
                seen: &Picture::default(),
                seed: 0,
                why_no_subset: None,
            };
            let spec = RemovalSpec { modes: vec![Mode::Frozen], steps: 4, seed };
            let mut passes = PatchByPatch { tokens, pictures: Vec::new(), progress: Vec::new() };
            let Ok(mut found) = measure(&[measured], &image, &spec, &mut passes);
            found.swap_remove(0).expect("curves")
        };
        let logits = ImageReading::new(probe, Intervention::None, tokens, 0).expect("it is read").logits();
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
        assert!(order.len() > 2, "{case}: the strongest and the weakest other class are two");
        let predicted = found(None, 1);
        assert_eq!((predicted.class.0, predicted.rival.map(|(rival, _)| rival)), (order[0], Some(order[1])));
        let last = found(Some(order[2]), 1);
        assert_eq!(last.rival.map(|(rival, _)| rival), Some(order[0]), "{case}");
        let [one, again, two] = [1, 1, 2].map(|seed| found(None, seed));
        assert_eq!(one, again, "{case}: the same seed draws the same");
        let random = |removal: &Removal| Some(removal.modes[&Mode::Frozen].found()?[RANDOM][0].logit.clone());
        if let (Some(a), Some(b)) = (random(&one), random(&two)) {
            assert!(a[0] == b[0] && (a[1..4] != b[1..4] || case.contains("cls")), "{case}: random orders");
        }
        for (id, ranked) in &one.rankings {
            let (Some(own), Some(other)) = (ranked.found(), two.rankings[id].found()) else { continue };
            assert_eq!(own.values, other.values, "{case}, {id}");
            let falls = |order: &[usize]| order.windows(2).all(|w| own.values[w[0]] >= own.values[w[1]]);
            assert!(falls(&own.order) && falls(&other.order), "{case}, {id}");
            let equal = |value: &f64| own.values.iter().filter(|v| *v == value).count();
            let most = own.values.iter().map(equal).max().expect("tokens");
            // Two draws of the order of six or more equal tokens agree once in 720 times.
            if most >= 6 {
                tied += 1;
                assert_ne!(own.order, other.order, "{case}, {id}");
            } else if most == 1 {
                assert_eq!(own.order, other.order, "{case}, {id}: nothing is drawn");
            }
        }
    });
    assert!(tied > 0, "no ranking has equal tokens");
}

#[test]
pub fn curves_and_rankings_equal_the_reference() {
    let cases: IndexMap<String, Value> = fixture("removal")
        .into_iter()
        .map(|case| (case["probe"].as_str().expect("a name").to_owned(), case))
        .collect();
    let mut compared = 0;
    each_head(|stem, probe, image| {
        let reader = ImageReading::new(probe, Intervention::None, image, 1).expect("tokens that fit");
        let Some(case) = cases.get(stem) else {
            assert_eq!(stem, "cls");
            let random = Orders::random(12, 1, 0);
            let why =
                curves(&reader, Mode::Rerouted, &[random], STEPS, (2, None)).expect_err("no patch token");
            return assert!(why.len() > 30, "{why}");
        };
        let (class, rival) = (number(&case["class"]) as usize, number(&case["rival"]) as usize);
        let mut rankings = Vec::new();
        for (id, found) in reader.rankings(class, Err("nobody ran the encoder"), 0) {
            let name = format!("{stem}, {id}");
            if id == "rollout" {
                assert!(found.found().is_none());
                continue;
            }
            let expected = &case["values"][id];
            assert_eq!(found.found().is_some(), !expected.is_null(), "{name}: {found:?}");
            let Some(found) = found.found() else { continue };
            let expected = floats(expected);
            // A head that selects tokens gets the points of the path from the mean in float32.
            let allowed = if id == "integrated" { 1e-7 } else { 1e-9 };
            assert_close(&name, &found.values, &expected, allowed);
            for pair in found.order.windows(2) {
                assert!(expected[pair[0]] >= expected[pair[1]] - allowed, "{name}: {:?}", found.order);
            }
            // Among equal tokens the reference takes the first, the program draws: use the reference's order.
            let orders = vec![indices(&case["orders"][id])];
            rankings.push(Orders { id, orders });
        }
        let random = case["random"].as_array().expect("orders").iter().map(indices).collect();
        rankings.push(Orders { id: RANDOM, orders: random });
        for mode in [Mode::Frozen, Mode::Rerouted] {
            let id = mode.id();
            let Ok(curves) = curves(&reader, mode, &rankings, 5, (class, Some(rival))) else {
                assert!(mode == Mode::Frozen && case["values"]["evidence"].is_null(), "{stem}, {id}");
                continue;
            };
            for (ranking, pair) in &curves {
                for (direction, curve) in ["deletion", "insertion"].iter().zip(pair) {
                    let name = format!("{id}_{direction}_{ranking}");
                    let of = |what: &str| floats(&case["curves"][format!("{name}_{what}")]);
                    let name = format!("{stem}, {name}");
                    assert_close(&name, &curve.logit, of("logit"), 1e-9);
                    assert_close(&name, curve.margin.as_ref().expect("a rival"), of("margin"), 1e-9);
                    assert_close(&name, &curve.probability, of("probability"), 1e-9);
                    compared += 1;
                }
            }
        }
    });
    let expected: usize =
        cases.values().map(|case| case["curves"].as_object().expect("curves").len() / 3).sum();
    assert_eq!(compared, expected, "some curves of the reference have no counterpart");
}

/// Every step of deletion and insertion, for every class, of every head that has exact evidence.
#[test]
fn frozen_deletion_is_the_running_sum_of_exact_evidence() {
    let mut summed = 0;
    each_head(|stem, probe, image| {
        let reader = ImageReading::new(probe, Intervention::None, image, 1).expect("tokens that fit");
        for class in 0..5 {
            let evidence = reader.evidence(class);
            let all = Orders::random(12, 3, class as u64);
            for order in all.orders {
                let ranking = Orders { id: "evidence", orders: vec![order.clone()] };
                match (&evidence, curves(&reader, Mode::Frozen, &[ranking], STEPS, (class, None))) {
                    (Ok(evidence), Ok(curves)) => {
                        let left = |i: usize| order[12 - counts(12, STEPS, i).0..].iter();
                        let put_back = |i: usize| order[..counts(12, STEPS, i).1].iter();
                        let sum = |tokens: &mut dyn Iterator<Item = &usize>| {
                            evidence.bias + tokens.map(|&i| evidence.token[i]).sum::<f64>()
                        };
                        let [deletion, insertion] = &curves["evidence"];
                        let expected: Vec<f64> = (0..=STEPS).map(|i| sum(&mut left(i))).collect();
                        assert_close(stem, &deletion.logit, expected, 1e-9);
                        let expected: Vec<f64> = (0..=STEPS).map(|i| sum(&mut put_back(i))).collect();
                        assert_close(stem, &insertion.logit, expected, 1e-9);
                        assert!(deletion.margin.is_none());
                        summed += 1;
                    }
                    (Err(why), Err(none)) => assert_eq!(*why, none, "{stem}"),
                    (evidence, curves) => panic!("{stem}: {evidence:?} {curves:?}"),
                }
            }
        }
    });
    assert!(summed > 30 * 15, "{summed}");
}

/// An intervention still applies when tokens are removed.
#[test]
fn changed_readings_have_curves_of_their_own() {
    let left: Vec<usize> = vec![1, 4, 5, 6, 9];
    let (mut heads_of, mut routed) = (HashMap::new(), 0);
    each_head(|stem, probe, image| {
        let changes = [
            Intervention::None,
            Intervention::NoRouting,
            Intervention::Random(3),
            Intervention::Scrambled(3),
            Intervention::ScrambledHard(3),
            Intervention::Temperature(0.5),
            Intervention::Iterations(2),
            Intervention::Hardened,
            Intervention::Last(4),
            Intervention::Order(HandOrder::new((0..12).rev().collect::<Vec<_>>()).expect("an order")),
        ];
        let patches = left.iter().flat_map(|&i| image.patch(i)).copied().collect();
        let own = Tokens { grid: Grid::new(1, left.len()), patches, ..image.clone() };
        for change in changes {
            let Ok(reader) = ImageReading::new(probe, change.clone(), image, 1) else { continue };
            let all: Vec<usize> = (0..12).collect();
            let Ok(logits) = reader.rerouted(&[&all, &left]) else { continue };
            *heads_of.entry(change.to_string()).or_insert(0) += 1;
            // Scrambling permutes the positions that are left: with all tokens, as before.
            assert_close(format!("{stem}, {change}"), &logits[0], reader.logits(), 1e-9);
            assert!(logits[1].iter().all(|x| x.is_finite()), "{stem}, {change}");
            // A router orders the tokens that are left as those of an image of its own; other orders are of all tokens.
            let is_of_all = matches!(change, Intervention::Random(_) | Intervention::Order(_));
            if probe.head().router().is_some() && !is_of_all {
                let alone = ImageReading::new(probe, change.clone(), &own, 1).expect("tokens that fit");
                assert_close(format!("{stem}, {change}, alone"), &logits[1], alone.logits(), 1e-9);
                routed += 1;
            }
        }
    });
    // Every change is one that some heads have.
    assert!(heads_of.len() == 10 && routed > 10, "{heads_of:?}, {routed}");
}

/// An encoder whose tokens depend on their own patch alone; it records the pictures that it is given, and the progress.
struct PatchByPatch<'a> {
    tokens: &'a Tokens,
    pictures: Vec<Pixels>,
    progress: Vec<[usize; 2]>,
}

impl EncoderPasses for PatchByPatch<'_> {
    type Error = Infallible;

    fn progress(&mut self, _: Mode, done: usize, total: usize) -> Result<(), Infallible> {
        self.progress.push([done, total]);
        Ok(())
    }

    fn rollout(&mut self) -> Result<Result<Vec<f32>, String>, Infallible> {
        Ok(Ok((0..self.tokens.grid.len()).map(|i| (i * 7 % 12) as f32).collect()))
    }

    fn left(&mut self, left: &[&[usize]]) -> Result<Vec<Tokens>, Infallible> {
        let one = |left: &&[usize]| Tokens { grid: Grid::new(1, left.len()), ..self.tokens.picked(left) };
        Ok(left.iter().map(one).collect())
    }

    fn pictures(&mut self, pictures: &[Pixels]) -> Result<Vec<Tokens>, Infallible> {
        self.pictures.extend_from_slice(pictures);
        Ok(vec![self.tokens.clone(); pictures.len()])
    }
}

/// If patches do not influence each other, removing them before the backbone equals removing their tokens behind it.
#[test]
fn patches_that_leave_are_those_of_the_ranking_and_pictures_are_painted_so() {
    let (mut compared, mut painted) = (0, 0);
    each_head(|case, probe, tokens| {
        let sides = [tokens.grid.rows * 4, tokens.grid.cols * 4];
        let values = (0..3 * sides[0] * sides[1]).map(|at| (at as f32 * 0.37).sin()).collect();
        let pixels = Pixels { height: sides[0], width: sides[1], values };
        let image = Image {
            name: String::new(),
            tokens,
            pixels: &pixels,
            seen: &Picture::default(),
            seed: 0,
            why_no_subset: None,
        };
        let measured = |modes: &[Mode]| {
            let measured =
                MeasuredProbe { probe, name: case.to_owned(), reading: Reading::default(), class: Some(1) };
            let spec = RemovalSpec { modes: modes.to_vec(), steps: 6, seed: 3 };
            let mut passes = PatchByPatch { tokens, pictures: Vec::new(), progress: Vec::new() };
            let Ok(mut found) = measure(&[measured], &image, &spec, &mut passes);
            (found.swap_remove(0).expect("curves"), passes.pictures, passes.progress)
        };
        let (found, none, _) = measured(&[Mode::Rerouted, Mode::Patches]);
        assert!(none.is_empty(), "{case}: nothing is painted");
        if let Some(rerouted) = found.modes[&Mode::Rerouted].found() {
            let patches = found.modes[&Mode::Patches].found().expect("an encoder");
            for (id, pair) in rerouted.iter().filter(|(id, _)| !id.starts_with(RANDOM)) {
                for (own, other) in pair.iter().zip(&patches[id]) {
                    assert_close(format!("{case}, {id}"), &own.logit, other.logit.clone(), 1e-9);
                    compared += 1;
                }
            }
        }
        if case != "sinkhorn" {
            return;
        }
        let (found, pictures, progress) = measured(&[Mode::Pixels]);
        let orders = found.rankings.values().filter_map(|ranked| Some(ranked.found()?.order.clone()));
        let n = tokens.grid.len();
        let orders = orders.chain(Orders::random(n, 4, 3).orders);
        // By the definition: the tokens left, or put back, of 12 in 6 steps of two.
        let sets = orders.flat_map(|order| {
            let left = (0..=6).map(|i| order[(2 * i).min(n - 1)..].to_vec()).collect::<Vec<_>>();
            left.into_iter().chain((0..=6).map(move |i| order[..(2 * i).max(1)].to_vec()))
        });
        let sets = sets.map(|mut set| {
            set.sort_unstable();
            set
        });
        let sets: std::collections::BTreeSet<Vec<usize>> = sets.filter(|set| set.len() < n).collect();
        assert_eq!(pictures.len(), sets.len(), "each picture once, and the whole one not at all");
        assert_eq!(progress[0], [0, sets.len() + 1], "it can be stopped before the first");
        let noise = road::noise(&pixels, 3);
        for set in sets {
            let expected = road::paint(&pixels, tokens.grid, &set, &noise);
            assert!(pictures.contains(&expected), "no picture with {set:?} left");
            painted += 1;
        }
    });
    assert!(compared > 200 && painted > 60, "{compared} curves, {painted} pictures");
}

#[test]
fn what_it_costs_is_said_in_whole_images_and_readings() {
    let spec = |modes: &[Mode]| RemovalSpec { modes: modes.to_vec(), ..RemovalSpec::default() };
    // 6 rankings and 4 random orders in 20 steps: the sets of deletion and insertion at a step make one whole image.
    assert_eq!(spec(&[Mode::Patches]).passes(6), 200.0);
    // A painted picture is a whole image at every step of both deletion and insertion.
    assert_eq!(spec(&[Mode::Pixels]).passes(6), 400.0);
    assert_eq!(spec(&Mode::ALL).passes(5), 540.0);
    assert_eq!(spec(&[Mode::Frozen, Mode::Rerouted]).passes(6), 0.0);
    // Behind the encoder 16 random orders.
    assert_eq!((spec(&Mode::ALL).readings(6), spec(&[Mode::Frozen]).readings(6)), (880, 0));
}

#[test]
fn rankings_are_one_list_with_ids_of_their_own() {
    let mut ids: Vec<&str> = RANKINGS.iter().map(|ranking| ranking.id).collect();
    ids.push(RANDOM);
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
    assert_eq!(Mode::list("pixels, frozen,pixels").expect("modes"), [Mode::Frozen, Mode::Pixels], "once");
}

#[test]
fn a_file_whose_parts_do_not_go_together_is_refused() {
    let good = serde_json::to_string(&small::removal()).expect("JSON");
    Removal::from_json(&good).expect("a whole file");
    for (from, to, words) in [
        ("\"fraction\":[0.0,0.25,", "\"fraction\":[0.0,", "do not have 4 steps"),
        ("\"fraction\":[0.0,0.25,", "\"fraction\":[0.0,0.75,", "rising from 0 to 1"),
        ("0.25,0.5,0.75,1.0]", "0.25,0.5,0.75,0.9]", "rising from 0 to 1"),
        ("\"order\":[5,2,", "\"order\":[5,5,", "each of 12 tokens once"),
        ("\"order\":[5,2,", "\"order\":[5,12,", "each of 12 tokens once"),
        ("\"rows\":3", "\"rows\":4", "each of 16 tokens once"),
        ("\"width\":8", "\"width\":9", "incomplete"),
        ("\"logit\":[3.0,1.0,", "\"logit\":[3.0,1e200,", "steps of numbers"),
        ("\"logit\":[3.0,1.0,", "\"logit\":[3.0,", "steps of numbers"),
        ("\"margin\":[2.0,0.0,", "\"margin\":[2.0,", "steps of numbers"),
        ("\"margin\":[2.0,0.0,-1.5,-2.25,-2.5]", "\"margin\":null", "steps of numbers"),
    ] {
        assert!(good.contains(from), "{from}: {good}");
        let error = Removal::from_json(&good.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(words), "{to}: {error}");
    }
}

#[test]
pub fn pictures_are_painted_over_as_the_reference_solves_it() {
    let cases: Vec<Value> = run::json(run::root().join("tests/fixtures/evidence/road.json"));
    assert_eq!(cases.len(), 3);
    for case in cases {
        let sides = indices(&case["grid"]);
        let grid = Grid::new(sides[0], sides[1]);
        let (height, width) = (number(&case["height"]) as usize, number(&case["width"]) as usize);
        let values = floats32(&case["pixels"]);
        let pixels = Pixels { height, width, values };
        let left = indices(&case["left"]);
        let still = vec![0.0; pixels.values.len()];
        let painted = road::paint(&pixels, grid, &left, &still);
        assert_close(format!("{grid:?}"), &painted.values, floats(&case["painted"]), 1e-6);
        // Noise only where it was painted, reproducible, and of the right size.
        let noise = road::noise(&pixels, 7);
        let noisy = road::paint(&pixels, grid, &left, &noise);
        let on: Vec<f64> = noisy
            .values
            .iter()
            .zip(&painted.values)
            .zip(&pixels.values)
            .filter(|((_, painted), before)| painted != before)
            .map(|((noisy, painted), _)| f64::from(noisy - painted))
            .collect();
        let deviation = (on.iter().map(|x| x * x).sum::<f64>() / on.len() as f64).sqrt();
        // A standard deviation of n normal draws has a relative standard error of 1 / sqrt(2 n).
        let errors = (deviation / 0.01 - 1.0) * (2.0 * on.len() as f64).sqrt();
        assert!(errors.abs() < 4.0, "{deviation} over {} values", on.len());
        let untouched = noisy.values.iter().zip(&pixels.values).filter(|(a, b)| a == b).count();
        let kept = left.len() * height * width * 3 / grid.len();
        assert_eq!(untouched, kept);
        assert_eq!(noisy, road::paint(&pixels, grid, &left, &road::noise(&pixels, 7)));
        assert_ne!(noise, road::noise(&pixels, 8));
    }
}
