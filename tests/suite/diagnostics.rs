//! Diagnostics against float64 NumPy and SciPy (`tests/reference/evidence.py`), and their bounds.

use proptest::prelude::*;
use ssmprobe::model::explain::diagnostics::{MEASURES, kendall_tau, measure};
use ssmprobe::model::explain::intervention::Intervention;
use ssmprobe::model::explain::null_model::{NullBands, untrained, untrained_scores};
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::head_output::Plan;
use ssmprobe::model::probe::router::Router;
use ssmprobe::model::probe::router::sinkhorn::Sinkhorn;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::viz::figures::meanings::{MEANINGS, UNTRAINED_ALONE};

use super::evidence::{fixture, floats, number};
use crate::close::assert_close;

/// The place of a measure in the list.
fn place(name: &str) -> usize {
    MEASURES.iter().position(|m| m.name == name).expect("a listed measure")
}

#[test]
pub fn every_measure_equals_the_reference() {
    for case in fixture("diagnostics") {
        let name = &case["name"];
        let size = |key: &str| number(&case[key]) as usize;
        let grid = Grid::new(size("rows"), size("cols"));
        let plan = Plan { n: grid.len(), share: floats(&case["plan"]) };
        let expected = case["expected"].as_object().expect("an object of values");
        let names: Vec<&str> = MEASURES.iter().map(|m| m.name).collect();
        assert_eq!(expected.keys().map(String::as_str).collect::<Vec<_>>(), names, "{name}");
        let expected: Vec<f64> = expected.values().map(number).collect();
        assert_close(format!("{name} of {names:?}"), measure(&plan, grid), expected, 1e-10);
    }
}

#[test]
fn every_measure_says_what_it_is() {
    // The list in `viz`, which may not use the model's, has the same names.
    assert!(MEASURES.iter().map(|m| m.name).eq(MEANINGS.iter().map(|(id, _)| *id)));
    assert!(MEANINGS.iter().all(|(_, words)| words.len() > 20));
    assert!(UNTRAINED_ALONE.iter().all(|id| MEASURES.iter().any(|m| m.name == *id)));
    for (at, m) in MEASURES.iter().enumerate() {
        assert!(!m.label.is_empty(), "{}", m.name);
        assert!(MEASURES[..at].iter().all(|other| other.name != m.name), "{} twice", m.name);
    }
}

/// A plan whose rows are any non-negative numbers, zero rows and ties among them.
fn plans() -> impl Strategy<Value = (Plan, Grid)> {
    (1usize..6, 2usize..6).prop_flat_map(|(rows, cols)| {
        let n = rows * cols;
        let share = prop_oneof![Just(0.0), Just(0.25), 0.0..1.0f64];
        prop::collection::vec(share, n * n).prop_map(move |share| (Plan { n, share }, Grid::new(rows, cols)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn measures_stay_within_their_bounds((plan, grid) in plans()) {
        let diameter = f64::hypot(grid.rows as f64 - 1.0, grid.cols as f64 - 1.0);
        for (value, m) in measure(&plan, grid).into_iter().zip(MEASURES) {
            let (low, high) = match m.name {
                "kendall_tau" => (-1.0, 1.0),
                "mean_position_spread" => (0.0, plan.n as f64 / 2.0),
                "path_length" => (1.0, diameter),
                "row_marginal_error" | "column_marginal_error" => (0.0, plan.n as f64),
                _ => (0.0, 1.0),
            };
            prop_assert!((low - 1e-12..=high + 1e-12).contains(&value), "{}: {value}", m.name);
        }
    }

    #[test]
    fn tau_turns_its_sign_with_the_order(positions in prop::collection::vec(-3..4i8, 2..40)) {
        let forward: Vec<f64> = positions.iter().map(|&p| f64::from(p)).collect();
        let mirrored: Vec<f64> = forward.iter().map(|p| -p).collect();
        prop_assert!((kendall_tau(&forward) + kendall_tau(&mirrored)).abs() < 1e-12);
    }
}

#[test]
fn chance_gives_what_the_paper_publishes_for_sinkhorn() {
    // The paper reports coverage 0.571, entropy 0.868 and p95 0.047 of a trained scorer; random
    // scores through the same router give about 0.61, 0.88 and 0.051.
    let (router, grid) = (Sinkhorn::default(), Grid::new(14, 14));
    let bands = NullBands::new(64, 1);
    let band = bands.band(&router, &Intervention::None, grid);
    for (name, known, within) in
        [("rank_coverage", 0.61, 0.02), ("argmax_entropy", 0.88, 0.01), ("row_max_p95", 0.051, 0.003)]
    {
        let at = place(name);
        let (low, high) = band[at].band;
        assert!(low < high && high - low < 0.1, "{name}: {low} to {high}");
        assert!(
            (f64::midpoint(low, high) - known).abs() < within,
            "{name}: {low} to {high} instead of {known}"
        );
    }
    // The same seed gives the same band, from the cache or computed again; another seed gives another.
    assert_eq!(band, bands.band(&router, &Intervention::None, grid));
    assert_eq!(band, NullBands::new(64, 1).band(&router, &Intervention::None, grid));
    assert_ne!(band, NullBands::new(64, 2).band(&router, &Intervention::None, grid));
}

#[test]
fn what_chance_gives_is_remembered_by_the_routers_settings_and_the_grid() {
    let warm = Sinkhorn::default();
    let bands = NullBands::new(64, 1);
    let (path, largest) = (place("path_length"), place("row_max_p95"));
    // Under random scores all orders are equally likely, so the mean step is the mean distance of two patches.
    for grid in [Grid::new(6, 6), Grid::new(3, 12), Grid::new(1, 36)] {
        let at = |i: usize| ((i / grid.cols) as f64, (i % grid.cols) as f64);
        let distance = |i: usize, j: usize| f64::hypot(at(i).0 - at(j).0, at(i).1 - at(j).1);
        let sum: f64 = (0..36).flat_map(|i| (0..36).map(move |j| (i, j))).map(|(i, j)| distance(i, j)).sum();
        let (mean, (low, high)) =
            (sum / (36.0 * 35.0), bands.band(&warm, &Intervention::None, grid)[path].band);
        assert!(low < mean && mean < high, "{grid:?}: {low} to {high} without {mean}");
    }
    // The hotter the router, the nearer each share of its plan is to 1 / N.
    let (grid, even) = (Grid::new(6, 6), 1.0 / 36.0);
    let hot = Sinkhorn { temperature: 1e6, ..warm };
    let patches = (0..36 * 3).map(|i| ((i * i) % 17) as f32).collect();
    let tokens = Tokens { grid, width: 3, cls: None, registers: Vec::new(), patches };
    assert!(bands.band(&warm, &Intervention::None, grid)[largest].band.0 > 2.0 * even);
    assert!(bands.untrained(&warm, &Intervention::None, &tokens)[largest].mean > 2.0 * even);
    let ((low, high), fresh) = (
        bands.band(&hot, &Intervention::None, grid)[largest].band,
        &bands.untrained(&hot, &Intervention::None, &tokens)[largest],
    );
    assert_close("an even plan", [low, high, fresh.mean], [even; 3], 1e-6);
    // The more often rows and columns are normalised, the nearer the sum of a row is to 1.
    let (settled, sums) = (Sinkhorn { iterations: 500, ..warm }, place("row_marginal_error"));
    assert!(
        bands.band(&settled, &Intervention::None, grid)[sums].band.1
            < bands.band(&warm, &Intervention::None, grid)[sums].band.0
    );
}

/// A hardened plan covers every rank whatever the scores, so its null is that of hardened plans.
#[test]
fn a_plan_that_is_changed_has_a_null_that_is_changed_alike() {
    let (router, grid) = (Sinkhorn::default(), Grid::new(6, 6));
    let patches = (0..36 * 3).map(|i| ((i * i) % 17) as f32).collect();
    let tokens = Tokens { grid, width: 3, cls: None, registers: Vec::new(), patches };
    let bands = NullBands::new(16, 1);
    let of = |change: Intervention| {
        (bands.band(&router, &change, grid), bands.untrained(&router, &change, &tokens))
    };
    let (random, fresh) = of(Intervention::Hardened);
    for name in ["rank_coverage", "row_max_mean"] {
        assert_eq!((random[place(name)].band, fresh[place(name)].band), ((1.0, 1.0), (1.0, 1.0)), "{name}");
    }
    assert!(of(Intervention::None).0[place("rank_coverage")].band.1 < 0.9);
    // Orders by smooth scores follow the grid; permuted positions do not.
    let (path, tau) = (place("path_length"), place("kendall_tau"));
    let [(random, fresh), (scrambled, scrambled_fresh)] =
        [Intervention::None, Intervention::Scrambled(3)].map(of);
    assert_ne!((random[path].band, fresh[tau].band), (scrambled[path].band, scrambled_fresh[tau].band));
}

#[test]
fn an_untrained_scorer_reads_the_tokens() {
    let (router, grid) = (Sinkhorn::default(), Grid::new(4, 5));
    let patches = |salt: usize| (0..20 * 3).map(|i| ((i * i + salt * i) % 17) as f32).collect();
    let tokens = |salt| Tokens { grid, width: 3, cls: None, registers: Vec::new(), patches: patches(salt) };
    let untrained = |tokens: &Tokens, scorers: usize, seed: u64| {
        untrained(&router, &Intervention::None, grid, &untrained_scores(tokens, 0..scorers, seed))
    };
    let values = untrained(&tokens(3), 9, 0);
    assert_eq!(values, untrained(&tokens(3), 9, 0));
    assert!(values != untrained(&tokens(3), 9, 1) && values != untrained(&tokens(5), 9, 0));
    // A smaller number of scorers is a prefix of a larger one, and the band contains the mean.
    let alone = untrained(&tokens(3), 1, 0);
    assert_eq!((alone.len(), values.len()), (MEASURES.len(), MEASURES.len()));
    for (alone, many) in alone.iter().zip(&values) {
        let first = many.values[0];
        assert_eq!((alone.values[0], alone.mean, alone.band), (first, first, (first, first)));
        assert!(many.band.0 <= many.mean && many.mean <= many.band.1, "{many:?}");
    }
    let tau = place("kendall_tau");
    assert!(values[tau].band.1 - values[tau].band.0 > 0.1, "scorers differ: {:?}", values[tau]);
    // Tokens that are all the same have tied scores: every row of the plan is the same.
    let same = Tokens { patches: vec![1.0; 60], ..tokens(0) };
    let tied: Vec<f64> = untrained(&same, 3, 0).iter().map(|one| one.values[0]).collect();
    assert_eq!(tied, measure(&router.plan(&[0.0; 20]), grid));
    // Values of an image are cached; another image has its own.
    let bands = NullBands::new(64, 0);
    let known = bands.untrained(&router, &Intervention::None, &tokens(3));
    assert_eq!((known.len(), bands.scorers(20), bands.scorers(4096)), (MEASURES.len(), 32, 8));
    assert_eq!(NullBands::new(5, 0).scorers(20), 5);
    assert!(std::sync::Arc::ptr_eq(&known, &bands.untrained(&router, &Intervention::None, &tokens(3))));
    assert_ne!(known, bands.untrained(&router, &Intervention::None, &tokens(5)));
}

#[test]
fn smooth_scores_lie_beyond_random_ones_and_within_those_of_untrained_scorers() {
    // Two channels that vary linearly over the grid: any scorer orders the patches along some line, which random
    // scores never do, so only untrained scorers tell a learnt order from one that the tokens imply.
    let (router, grid) = (Sinkhorn::default(), Grid::new(8, 8));
    let patches = (0..64).flat_map(|i| [(i / 8) as f32, (i % 8) as f32]).collect();
    let tokens = Tokens { grid, width: 2, cls: None, registers: Vec::new(), patches };
    let bands = NullBands::new(64, 0);
    let (random, fresh) = (
        bands.band(&router, &Intervention::None, grid),
        bands.untrained(&router, &Intervention::None, &tokens),
    );
    let path = place("path_length");
    assert!(fresh[path].band.1 < random[path].band.0, "{:?} {:?}", fresh[path], random[path]);
}
