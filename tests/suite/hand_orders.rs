//! Orders by hand give what a head with that scan gives, also by the cached reader; order files in training, CLI and window.

use egui_kittest::kittest::By;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use ssmprobe::app::jobs::{Explain, ExplainItem, ExplainResult};
use ssmprobe::app::state::command::Effect;
use ssmprobe::app::state::{ColumnState, RevealTarget};
use ssmprobe::model::explain::by_hand::HandOrderReader;
use ssmprobe::model::explain::intervention::permutation;
use ssmprobe::model::explain::null_model::NullBands;
use ssmprobe::model::explain::{Question, explain};
use ssmprobe::model::hand_order::HandOrder;
use ssmprobe::model::io::array::Array;
use ssmprobe::model::order_file;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::{Config, Dims, Sharing};
use ssmprobe::model::stats::normal;
use ssmprobe::model::tokens::Tokens;
use ssmprobe::model::trace::{Evidence, Found, OrderContrast, OrderTest, Routing};

use crate::heads::{logits_of, untrained};
use crate::run::{self, fixture};
use crate::state;
use crate::window;
use crate::window::prelude::*;

const DIMS: Dims = Dims { width: 12, grid: Grid::new(4, 6), classes: 5 };
const N: usize = DIMS.grid.len();

fn normals(rng: &mut ChaCha8Rng, count: usize) -> Vec<f32> {
    (0..count).map(|_| normal(rng) as f32).collect()
}

/// An untrained probe with a random classifier, so that orders change the logits.
fn probe(head: &str, sharing: Sharing) -> Probe {
    let config = Config { sharing: Some(sharing), state_dim: Some(8), ..Config::default() };
    let mut probe = untrained(head, &config, DIMS, 1);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    probe.classifier.weight = normals(&mut rng, probe.classifier.weight.len());
    probe.classifier.bias = normals(&mut rng, DIMS.classes);
    probe
}

fn image(seed: u64) -> Tokens {
    let patches = normals(&mut ChaCha8Rng::seed_from_u64(seed), N * DIMS.width);
    Tokens { grid: DIMS.grid, width: DIMS.width, cls: None, registers: Vec::new(), patches }
}

fn question(class: Option<usize>, nulls: &NullBands) -> Question<'_> {
    Question { class, nulls: Some(nulls), ..Question::default() }
}

fn raster() -> HandOrder {
    HandOrder::new((0..N as u32).collect::<Vec<_>>()).expect("an order")
}

/// One edit: some random tokens moved to a random step.
fn edited(order: &HandOrder, rng: &mut ChaCha8Rng) -> HandOrder {
    let tokens: Vec<usize> = (0..rng.random_range(1..5)).map(|_| rng.random_range(0..N)).collect();
    order.with_moved(&tokens, rng.random_range(0..=N))
}

/// The trace of an image read in raster order by hand, and its reader for other orders.
fn by_hand(
    probe: &Probe,
    tokens: &Tokens,
    nulls: &NullBands,
    class: Option<usize>,
) -> (Trace, HandOrderReader) {
    let change = Intervention::Order(raster());
    let read = explain(probe, change, tokens, Picture::default(), question(class, nulls));
    let (trace, reading) = read.expect("a trace");
    (trace, reading.expect("a kernel by position"))
}

/// A probe of the head `order` with this order and the arrays of `probe`.
fn order_probe(probe: &Probe, order: &HandOrder) -> Probe {
    let mut meta = probe.meta.clone();
    meta.head = "order".into();
    meta.config.order = Some(order.clone());
    let mut arrays = probe.arrays.clone();
    let values = order.tokens().iter().map(|&token| token as f32).collect();
    arrays.insert("order".into(), Array::new([N], values));
    Probe::new(meta, arrays, probe.classifier.clone())
}

/// The contrasts of the logit and of the margin.
fn contrasts(test: &OrderTest) -> [&OrderContrast; 2] {
    [&test.logit, test.margin.as_ref().expect("a rival")]
}

/// Those of a trace.
fn contrasts_of(trace: &Trace) -> [&OrderContrast; 2] {
    contrasts(trace.order_test.as_ref().and_then(Found::found).expect("a test"))
}

#[test]
fn a_thousand_edits_give_the_logits_of_the_head_of_that_scan() {
    let (nulls, class) = (NullBands::new(8, 0), 3);
    for sharing in [Sharing::Shared, Sharing::Channel] {
        let (probe, tokens) = (probe("raster", sharing), image(4));
        let (_, reading) = by_hand(&probe, &tokens, &nulls, Some(class));
        let (mut order, mut rng) = (raster(), ChaCha8Rng::seed_from_u64(5));
        let mut orders = std::collections::HashSet::new();
        for edit in 0..1000 {
            order = edited(&order, &mut rng);
            orders.insert(order.tokens().to_vec());
            let own = logits_of(&order_probe(&probe, &order), &tokens, 0);
            let name = format!("{sharing:?}, edit {edit}");
            assert_close(&name, reading.logits(&order), own.clone(), 1e-12);
            let test = reading.test(&order);
            let [logit, margin] = contrasts(&test);
            assert_close(&name, logit.value, own[class], 1e-12);
            assert_close(&name, margin.value, own[class] - own[margin.against.expect("a rival")], 1e-12);
        }
        assert!(orders.len() > 900, "{} orders", orders.len());
    }
}

/// For one sweep and for four, after a scan and after a router: as when the image is explained anew with this reading.
#[test]
fn a_trace_in_another_order_is_that_of_reading_again() {
    let nulls = NullBands::new(8, 0);
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for head in ["raster", "vmamba", "random-fixed", "sinkhorn"] {
        for sharing in [Sharing::Shared, Sharing::Channel] {
            let (probe, tokens) = (probe(head, sharing), image(7));
            for class in [None, Some(2)] {
                let (trace, reading) = by_hand(&probe, &tokens, &nulls, class);
                let written = serde_json::to_string(&reading).expect("JSON");
                let reading: HandOrderReader = serde_json::from_str(&written).expect("plain data");
                assert!(reading.is_consistent(), "{head}");
                let (mut order, mut compared) = (raster(), 0);
                for _ in 0..12 {
                    order = edited(&order, &mut rng);
                    let change = Intervention::Order(order.clone());
                    let asked = question(class, &nulls);
                    let again = explain(&probe, change, &tokens, Picture::default(), asked);
                    let (again, _) = again.expect("a trace");
                    let Some(found) = reading.trace(&trace, &order) else {
                        assert!(class.is_none() && again.evidence.class != trace.evidence.class, "{head}");
                        continue;
                    };
                    compared += 1;
                    assert_near(&format!("{head} {sharing:?}"), &json!(found), &json!(again));
                }
                assert!(compared > 3 || class.is_none(), "{head}: {compared} compared");
            }
        }
    }
}

/// The test of the predicted class, chosen by the logits, is marked as descriptive; that of a class asked for is not.
#[test]
fn tests_of_the_class_that_is_predicted_are_marked() {
    let nulls = NullBands::new(8, 0);
    for head in ["raster", "sinkhorn"] {
        for class in [None, Some(2)] {
            for change in [Intervention::None, Intervention::Order(raster())] {
                let (probe, asked) = (probe(head, Sharing::Shared), question(class, &nulls));
                let trace = explain(&probe, change, &image(7), Picture::default(), asked);
                assert_eq!(
                    contrasts_of(&trace.expect("a trace").0).map(|contrast| contrast.descriptive),
                    [class.is_none(); 2],
                    "{head}"
                );
            }
        }
    }
}

/// Panics unless two JSON documents are equal, with numbers within 1e-6 of each other.
#[track_caller]
fn assert_near(name: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            assert!(a.keys().eq(b.keys()), "{name}: {a:?}, {b:?}");
            a.iter().zip(b.values()).for_each(|((key, a), b)| assert_near(&format!("{name} {key}"), a, b));
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{name}");
            a.iter().zip(b).for_each(|(a, b)| assert_near(name, a, b));
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().expect("a number"), b.as_f64().expect("a number"));
            assert_close(name, a, b, 1e-6 * (1.0 + b.abs()));
        }
        (a, b) => assert_eq!(a, b, "{name}"),
    }
}

#[test]
fn an_order_says_how_it_was_read_and_fits_images_of_its_length_alone() {
    let (probe, tokens, nulls) = (probe("sinkhorn", Sharing::Shared), image(8), NullBands::new(8, 0));
    let (trace, reading) = by_hand(&probe, &tokens, &nulls, Some(0));
    assert!(trace.diagnostics.is_empty() && trace.expected.is_none(), "no plan is read");
    assert!(trace.reading.to_string().starts_with("order by hand "), "{}", trace.reading);
    let short = HandOrder::new(vec![1, 0, 2]).expect("an order").of_file(Path::new("short.npz"));
    assert!(reading.trace(&trace, &short).is_none());
    let change = Intervention::Order(short);
    let error = explain(&probe, change, &tokens, Picture::default(), question(None, &nulls));
    let error = error.expect_err("another length").to_string();
    assert!(error.contains("order of short.npz has 3 steps, but the image has 24 tokens"), "{error}");
    // A head that reads no order is refused; one without a kernel by position has no reader.
    let read = |head: &str| {
        let probe = self::probe(head, Sharing::Shared);
        explain(&probe, Intervention::Order(raster()), &tokens, Picture::default(), question(None, &nulls))
    };
    let refused = read("gap").expect_err("it reads no order").to_string();
    assert!(refused.contains("gap has no reading order"), "{refused}");
    let (trace, reading) = read("bi-gru").expect("a recurrent head reads in any order");
    assert!(reading.is_none() && matches!(trace.order_test, Some(Found::None { .. })));
    assert_eq!(order(&trace), raster().tokens());
}

/// The first tokens leave nothing in the state.
#[test]
fn tokens_that_are_dropped_are_as_if_they_had_never_been_read() {
    let (tokens, nulls) = (image(11), NullBands::new(8, 0));
    for sharing in [Sharing::Shared, Sharing::Channel] {
        let read = |head: &str, change: Intervention, tokens: &Tokens| {
            let asked = question(Some(1), &nulls);
            let read = explain(&probe(head, sharing), change, tokens, Picture::default(), asked);
            read.map(|(trace, _)| trace)
        };
        let logits = |trace: &Trace| trace.logits.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        for left in [2, 5, N] {
            // An image of the last tokens alone, read in raster order.
            let patches = (N - left..N).flat_map(|i| tokens.patch(i).iter().copied()).collect();
            let rest = Tokens { grid: Grid::new(1, left), patches, ..tokens.clone() };
            let dropped = read("raster", Intervention::Last(left), &tokens).expect("a trace");
            let alone = read("raster", Intervention::None, &rest).expect("a trace");
            assert_close(left, logits(&dropped), logits(&alone), 1e-5);
            let kernel = dropped.kernel.as_ref().expect("a kernel");
            let early = kernel.data.chunks_exact(kernel.cols).skip(left).flatten();
            assert!(early.into_iter().all(|x| *x == 0.0) && kernel.data.iter().any(|x| *x != 0.0));
        }
        let all = read("sinkhorn", Intervention::Last(N), &tokens).expect("a trace");
        assert_eq!(all.logits, read("sinkhorn", Intervention::None, &tokens).expect("a trace").logits);
        let more = read("sinkhorn", Intervention::Last(N + 1), &tokens).expect_err("more than there are");
        assert!(more.to_string().ends_with("the image has 24 tokens; keep at most 24"), "{more}");
        let few = read("sinkhorn", Intervention::Last(5), &tokens).expect("a trace");
        let Evidence { position, proxy, proxy_raster, .. } = &few.evidence;
        for values in [position, proxy, proxy_raster] {
            let (dropped, kept) = values.as_ref().expect("a memory").split_at(N - 5);
            assert!(dropped.iter().all(|x| *x == 0.0) && kept.iter().all(|x| *x != 0.0));
        }
        for head in ["gap", "sinkhorn-gap", "sinkhorn-conv", "bi-gru"] {
            assert!(read(head, Intervention::Last(5), &tokens).is_err(), "{head}");
        }
    }
}

/// A hardened plan gives the logits of the order that it encodes, and the diagnostics of a plan.
#[test]
fn a_hardened_plan_reads_every_token_whole() {
    let (tokens, nulls) = (image(10), NullBands::new(8, 0));
    for head in ["sinkhorn", "neuralsort", "softsort", "sinkhorn-conv", "sinkhorn-gap"] {
        for sharing in [Sharing::Shared, Sharing::Channel] {
            let probe = probe(head, sharing);
            let read = |change: Intervention| {
                let asked = question(Some(1), &nulls);
                explain(&probe, change, &tokens, Picture::default(), asked).expect("a trace").0
            };
            let hard = read(Intervention::Hardened);
            let Routing::Plan(plan) = &hard.routing else { panic!("{head}: no plan") };
            let position = |row: &[f32]| {
                assert_eq!(
                    (row.iter().sum::<f32>(), row.iter().filter(|x| **x == 1.0).count()),
                    (1.0, 1),
                    "{head}"
                );
                row.iter().position(|x| *x == 1.0).expect("a position")
            };
            let mut order = vec![u32::MAX; N];
            plan.data.chunks_exact(N).enumerate().for_each(|(i, row)| order[position(row)] = i as u32);
            let by_hand =
                read(Intervention::Order(HandOrder::new(order.clone()).expect("every position once")));
            let logits = |trace: &Trace| trace.logits.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            assert_close(head, logits(&hard), logits(&by_hand), 1e-5);
            // With positions permuted, position k reads the token that position pi[k] of the hardened plan reads.
            let scrambled = permutation(5, 0, N).into_iter().map(|k| order[k]).collect::<Vec<_>>();
            let scrambled =
                read(Intervention::Order(HandOrder::new(scrambled).expect("every position once")));
            let indices = read(Intervention::ScrambledHard(5));
            assert_close(head, logits(&indices), logits(&scrambled), 1e-5);
            // The mean of a routed sequence does not depend on its order.
            assert_eq!(logits(&indices) == logits(&hard), head == "sinkhorn-gap", "{head}");
            assert_eq!(hard.diagnostics["rank_coverage"].value, 1.0, "{head}");
            assert_eq!(hard.reading.to_string(), "hardened plan, evidence for 1");
            // A convolution and a mean have no kernel by position.
            if !["sinkhorn-conv", "sinkhorn-gap"].contains(&head) {
                let [logit, _] = contrasts_of(&hard);
                assert_close(head, logit.value, logits(&hard)[1], 1e-5);
                assert!(logit.routing != 0.0, "{head}: it is still routed");
            }
        }
    }
    let error =
        Intervention::Hardened.read(&probe("raster", Sharing::Shared), &tokens, 0).expect_err("no plan");
    assert_eq!(error.to_string(), "raster has no plan to harden");
}

fn order(trace: &Trace) -> Vec<u32> {
    match &trace.routing {
        Routing::Orders(orders) => orders[0].clone(),
        other => panic!("{other:?}"),
    }
}

/// Files that NumPy and a spreadsheet wrote (`tests/reference/orders.py`).
#[test]
fn order_files_of_other_programs_are_read() {
    let folder = run::root().join("tests/fixtures/orders");
    let expected = [18, 4, 21, 10, 11, 2, 22, 6, 23, 3, 20, 8, 0, 16, 12, 19, 13, 7, 5, 17, 14, 9, 1, 15];
    for name in ["int64.npz", "deflated.npz", "int32.npy", "plain.csv"] {
        let order = order_file::read(&folder.join(name)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((order.tokens(), order.file()), (&expected[..], Some(name)));
    }
}

#[test]
fn a_probe_of_a_file_opens_where_the_file_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let reversed = HandOrder::new((0..N as u32).rev().collect::<Vec<_>>()).expect("an order");
    let reversed = reversed.of_file(Path::new("reversed.npz"));
    let made = order_probe(&probe("raster", Sharing::Shared), &reversed);
    let path = folder.path().join("probe.safetensors");
    made.save(&path).expect("a file");
    let opened = Probe::load(&path).expect("a probe");
    assert_eq!(logits_of(&opened, &image(9), 0), logits_of(&made, &image(9), 0));
    assert_eq!(opened.meta.config.order.as_ref().and_then(HandOrder::file), Some("reversed.npz"));
    assert!(opened.head().has_fixed_order());
    // The order in the tensor alone, without the setting, as PyTorch may write it.
    let mut bare = made.clone();
    bare.meta.config.order = None;
    bare.save(&path).expect("a file");
    let loaded = Probe::load(&path).expect("a probe");
    assert_eq!(logits_of(&loaded, &image(9), 0), logits_of(&made, &image(9), 0));
}

/// `ssmprobe inspect` of one image with the fixture's `random-fixed` probe.
fn inspect(out: &Path, reading: &str) -> std::process::Command {
    let mut command = run::inspect(8);
    command.args(["--save-traces", "--reading", "as-trained", reading]).arg("--out").arg(out);
    command.arg("--probe").arg(fixture("probes/random-fixed.safetensors"));
    command.arg("--image").arg(fixture("images/one.png"));
    command
}

#[test]
fn inspect_reads_in_the_order_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let trained = inspected_trace(folder.path(), None);
    let own: Vec<u32> = serde_json::from_value(trained["routing"]["orders"][0].clone()).expect("an order");
    let path = folder.path().join("my order.npz");
    order_file::write(&path, &HandOrder::new(own.clone()).expect("an order")).expect("a file");
    let read = inspected_trace(folder.path(), Some(&path));
    assert_eq!(read["logits"], trained["logits"], "it is the order it reads in anyway");
    assert_eq!(read["reading"]["change"]["order"]["file"], "my order.npz");
    let reversed: Vec<u32> = own.into_iter().rev().collect();
    order_file::write(&path, &HandOrder::new(reversed.clone()).expect("an order")).expect("a file");
    let read = inspected_trace(folder.path(), Some(&path));
    assert_eq!(read["routing"]["orders"], json!([reversed]));
    assert_ne!(read["logits"], trained["logits"]);
}

/// The trace of the fixture's `random-fixed` probe as trained, or in the order of a file.
fn inspected_trace(folder: &Path, order: Option<&Path>) -> Value {
    let reading = order.map_or("as-trained".to_owned(), |path| format!("order={}", path.display()));
    let out = folder.join("out");
    run::done(&mut inspect(&out, &reading));
    let stem = if order.is_some() { "random-fixed-order-my-order" } else { "random-fixed" };
    run::json(out.join(format!("one/{stem}.trace.json")))
}

#[test]
fn bad_order_files_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, said) in [
        (
            "twice.csv",
            "0\n0\n1\n",
            "twice.csv: is not an order: token 0 is read twice, at steps 0 and 1, and token 2 never",
        ),
        ("short.csv", "0\n2\n1\n", "--reading: the order of short.csv has 3 steps, but the image"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        let out = folder.path().join("out");
        run::assert_ends(&mut inspect(&out, &format!("order={}", path.display())), 2, &[said]);
        assert!(!out.join("one").exists(), "{name}: images were read");
    }
}

/// The results with which a worker answers, if every column reads this image with this probe.
fn explain_results(look: &Explain, probe: &Probe, tokens: &Tokens) -> Vec<ExplainResult> {
    let nulls = NullBands::new(8, 0);
    let class = match &look.class {
        ClassChoice::Predicted => None,
        ClassChoice::Named(name) => Some(name.parse().expect("a number")),
    };
    let answer = |asked: &ExplainItem| {
        let read = explain(probe, asked.change.clone(), tokens, Picture::default(), question(class, &nulls));
        let (result, by_hand) = match read {
            Ok((trace, by_hand)) => (Ok(Arc::new(trace)), by_hand.map(Arc::new)),
            Err(error) => (Err(UserError::new(error.to_string())), None),
        };
        ExplainResult { column: asked.column, result, by_hand }
    };
    look.items.iter().map(answer).collect()
}

/// Answers the explain request among `requests`; whether there is one.
fn answer_explain(state: &mut State, requests: Vec<Request>, probe: &Probe, tokens: &Tokens) -> bool {
    let look =
        requests.into_iter().find_map(pick!(Request::Compute(job, Compute::Explain(look)) => (job, look)));
    let Some((job, look)) = look else { return false };
    state.apply(Event::Explained { job, results: explain_results(&look, probe, tokens) });
    state.apply(Event::Finished(job));
    true
}

#[test]
fn edits_are_shown_at_once_and_undone() {
    let (probe, tokens) = (probe("sinkhorn", Sharing::Channel), image(11));
    let mut state = state::story();
    let id = state::column(&state, 0);
    let class = state.dispatch(Command::SetClass(ClassChoice::Named("3".into())));
    assert!(answer_explain(&mut state, class, &probe, &tokens));
    let begun = state.order_to_edit(id).expect("a plan has an order");
    let set = |state: &mut State, order: &HandOrder| {
        let requests = state.dispatch(Command::SetIntervention(id, Intervention::Order(order.clone())));
        answer_explain(state, requests, &probe, &tokens)
    };
    assert!(set(&mut state, &begun), "the worker is asked once");
    assert_eq!(state.reveal.place, Some(RevealTarget::Order));
    let shown = |state: &State| match &state.columns[&id].shown {
        ColumnState::Ready(trace) => trace.clone(),
        other => panic!("{other:?}"),
    };
    let (mut order, mut rng) = (begun.clone(), ChaCha8Rng::seed_from_u64(12));
    let mut orders = vec![begun.clone()];
    for _ in 0..20 {
        order = edited(&order, &mut rng);
        if orders.last() == Some(&order) {
            continue;
        }
        orders.push(order.clone());
        assert!(!set(&mut state, &order), "nobody is asked");
        let trace = shown(&state);
        assert_eq!(self::order(&trace), order.tokens());
        let own = logits_of(&order_probe_of_routed(&probe, &order), &tokens, 0)[3];
        assert_close("the logit that is shown", f64::from(trace.logits[3]), own, 1e-5);
        assert!(state.column_title(id).ends_with(&order.words()), "{}", state.column_title(id));
    }
    assert!(orders.len() > 10);
    for order in orders.iter().rev().skip(1) {
        assert!(state.dispatch(Command::Undo).is_empty(), "going back asks nobody either");
        assert_eq!(self::order(&shown(&state)), order.tokens());
    }
    for order in &orders[1..] {
        state.dispatch(Command::Redo);
        assert_eq!(self::order(&shown(&state)), order.tokens());
    }
    // An order for images of another size is refused.
    let short = HandOrder::new(vec![1, 0, 2]).expect("an order").of_file(Path::new("short.npz"));
    let why = state.read_in(Some(id), short).expect_err("another length");
    assert_eq!(
        why,
        "the order of short.npz has 3 steps, but the image has 24 tokens; list every token from 0 to 23 exactly once"
    );
    let fits = state.read_in(Some(id), raster()).expect("its length");
    assert_eq!(fits, Command::SetIntervention(id, Intervention::Order(raster())));
    // A slide over several steps is one undo step.
    let last = orders.last().expect("an order").clone();
    for step in 0..5 {
        let slid = Intervention::Order(last.with_moved(&[last.indices()[20]], step));
        assert!(state.dispatch(Command::SlideIntervention(id, slid)).is_empty());
    }
    state.dispatch(Command::Undo);
    assert_eq!(state.made_order(id), Some(&last));
    // Another class needs another request.
    let requests = state.dispatch(Command::SetClass(ClassChoice::Named("1".into())));
    assert!(answer_explain(&mut state, requests, &probe, &tokens));
    assert_eq!(shown(&state).evidence.class, 1);
    let workspace = state.workspace(Value::Null);
    let saved = serde_json::to_string(&workspace).expect("JSON");
    let again: Workspace = serde_json::from_str(&saved).expect("a workspace");
    assert_eq!(again.columns[0].change, Intervention::Order(last));
}

#[test]
fn an_edit_begins_with_the_first_of_several_sweeps() {
    let (probe, tokens) = (probe("vmamba", Sharing::Shared), image(19));
    let mut state = state::story();
    let id = state::column(&state, 0);
    let requests = state.dispatch(Command::SetClass(ClassChoice::Named("3".into())));
    assert!(answer_explain(&mut state, requests, &probe, &tokens));
    assert_eq!(state.order_to_edit(id).expect("an order").tokens(), raster().tokens());
}

/// [`order_probe`] of a routed probe, without its scorer and the router's settings.
fn order_probe_of_routed(probe: &Probe, order: &HandOrder) -> Probe {
    let mut bare = probe.clone();
    bare.meta.config.temperature = None;
    bare.meta.config.iterations = None;
    bare.arrays.shift_remove("scorer.weight");
    order_probe(&bare, order)
}

/// Answers looks with what this probe says to this image, and every other request as if it succeeded.
fn answers(probe: &Probe, tokens: &Tokens) -> impl Fn(Request) -> Vec<Event> + Copy {
    move |request| match request {
        Request::Compute(job, Compute::Explain(look) | Compute::ExplainMany(look)) => {
            vec![
                Event::Explained { job, results: explain_results(&look, probe, tokens) },
                Event::Finished(job),
            ]
        }
        other => window::succeed(other),
    }
}

/// Opens a backbone, probes and images, and asks for class 2; the column in focus.
fn explained(window: &mut Window, answer: impl Fn(Request) -> Vec<Event> + Copy) -> ColumnId {
    window.open();
    window.answer_with(answer);
    window.harness.state_mut().dispatch(Command::SetClass(ClassChoice::Named("2".into())));
    window.answer_with(answer);
    window.state().focus().expect("a column")
}

/// Checks the line below the controls: the logit, and the margin with its z and p among all orders.
#[track_caller]
fn assert_tests_shown(window: &Window, id: ColumnId) {
    let trace = window.state().columns[&id].shown.trace().expect("a trace");
    let [logit, margin] = contrasts_of(trace);
    assert!(logit.value != margin.value && logit.reassigned.z != margin.reassigned.z);
    assert!(margin.reassigned.p != margin.reassigned.p_normal);
    let number = |x: f64, digits: usize| format!("{x:.digits$}").replace('-', "−");
    let z = number(margin.reassigned.z.expect("orders differ"), 2);
    let p = match margin.reassigned.p {
        p if p < 0.001 => "p < 0.001".to_owned(),
        p if p >= 0.9995 => "p > 0.999".to_owned(),
        p => format!("p = {p:.3}"),
    };
    let words = format!(
        "Logit {} for 2, margin {}, z = {z}, {p} among all orders",
        number(logit.value, 3),
        number(margin.value, 3)
    );
    assert!(window.has(&words), "{words}");
}

/// Patches are brushed and dragged in the pane with the pointer.
#[test]
fn patches_are_brushed_dragged_and_drawn_through() {
    let (probe, tokens) = (probe("raster", Sharing::Shared), image(13));
    let mut window = Window::new();
    let answer = answers(&probe, &tokens);
    let id = explained(&mut window, answer);
    let order = |window: &Window| {
        let state = window.state();
        state.made_order(id).expect("an order by hand").tokens().to_vec()
    };
    let edit = Action::EditOrder.effect(window.state());
    let Some(Effect::Command(edit)) = edit else { panic!("{edit:?}") };
    window.harness.state_mut().dispatch(edit);
    window.answer_with(answer);
    assert_eq!(order(&window), raster().tokens());
    assert_tests_shown(&window, id);
    let patch = patches(&mut window);
    let [first, second, last, other] = [0, 1, 23, 9].map(|token: usize| patch[token]);
    // Brush two patches, and read them last.
    window.drag(first, second);
    window.click("Read last");
    assert_eq!(order(&window)[N - 2..], [0, 1]);
    assert_tests_shown(&window, id);
    assert!(!window.wire.borrow().requests.iter().any(is_look), "the worker is asked");
    // Drag them to another patch: they are read from its step on.
    let before = order(&window);
    let step = before.iter().position(|token| *token == 9).expect("a step");
    window.drag(first, other);
    assert_eq!(order(&window)[step..step + 2], [0, 1]);
    window.dispatch(Command::Undo);
    assert_eq!(order(&window), before);
    // Drag them to the button "Read first".
    let button = window.place("Read first").center();
    window.drag(first, button);
    assert_eq!(order(&window)[..2], [0, 1]);
    // A path is read in the order in which it is drawn.
    window.click("Path");
    let before = order(&window);
    window.drag(last, first);
    let drawn = order(&window);
    for (command, expected) in [(Command::Undo, &before), (Command::Redo, &drawn)] {
        window.dispatch(command);
        assert_eq!(order(&window), *expected, "the patches that are still chosen are not moved");
    }
    let at = |token: u32| drawn.iter().position(|read| *read == token).expect("a step");
    assert_eq!((drawn[0], at(0) > at(23)), (23, true), "{drawn:?}");
    // A second path goes before the first.
    window.drag(first, second);
    assert_eq!(order(&window)[..3], [0, 1, drawn[0]]);
    // In a low pane the controls are beside the figure, and leave it the height.
    window.resize(1600.0, 600.0);
    let right = patches(&mut window)[N - 1].x;
    for name in ["Brush", "More"] {
        let left = window.place(name).left();
        assert!(left > right, "{name} at {left}, patches to {right}");
    }
    choose_more(&mut window, "Read as trained");
    window.answer_with(answer);
    assert!(window.state().made_order(id).is_none());
}

/// Chooses from the menu of an order by hand.
fn choose_more(window: &mut Window, item: &str) {
    window.click("More");
    window.click(item);
}

/// An order by hand is saved, changed, and opened again; both buttons ask for a path.
#[test]
fn an_order_goes_to_a_file_and_comes_back_by_the_dialogs_of_the_window() {
    let (probe, tokens) = (probe("sinkhorn", Sharing::Shared), image(17));
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = Window::new();
    window.harness.state_mut().window.type_paths();
    let answer = answers(&probe, &tokens);
    let id = explained(&mut window, answer);
    let made = |window: &Window| window.state().made_order(id).expect("an order").clone();
    let set = |window: &mut Window, order: HandOrder| {
        window.harness.state_mut().dispatch(Command::SetIntervention(id, Intervention::Order(order)));
        window.answer_with(answer);
    };
    let begun = window.state().order_to_edit(id).expect("a plan has an order");
    set(&mut window, begun.clone());
    let mine = begun.with_moved(&[3, 8, 20], 1);
    set(&mut window, mine.clone());
    let enter = |window: &mut Window, path: &Path| {
        window.replace_text(Role::TextInput, "Path", path.display());
        window.press(Modifiers::NONE, Key::Enter);
    };
    for name in ["mine.npz", "mine.csv"] {
        let path = folder.path().join(name);
        choose_more(&mut window, "Save order…");
        assert!(window.has("Save order") && window.has("Type the path"), "{name}");
        enter(&mut window, &path);
        // The column is known by the file.
        window.until("the order", |window| made(window).file() == Some(name));
        assert!(window.has(&format!("Wrote {}", path.display())), "{name}");
        assert!(window.state().toasts.iter().any(|note| note.file.as_ref() == Some(&path)), "opens {name}");
        let written = order_file::read(&path).expect("an order file");
        assert_eq!(written.tokens(), mine.tokens(), "{name}");
        let logit = |window: &Window| match &window.state().columns[&id].shown {
            ColumnState::Ready(trace) => trace.logits[2],
            other => panic!("{other:?}"),
        };
        let before = logit(&window);
        set(&mut window, mine.with_moved(&[1, 2, 22], 11));
        assert!(logit(&window) != before && made(&window).tokens() != mine.tokens(), "{name}");
        choose_more(&mut window, "Open order…");
        enter(&mut window, &path);
        window.until("the order", |window| made(window).file() == Some(name));
        window.answer_with(answer);
        assert_eq!((made(&window).tokens(), made(&window).file()), (mine.tokens(), Some(name)));
        assert_eq!(logit(&window), before, "{name}: it reads as it did");
    }
    // An existing file is replaced only by the button "Replace", and a file that is no order changes nothing.
    let path = folder.path().join("mine.csv");
    choose_more(&mut window, "Save order…");
    enter(&mut window, &path);
    assert!(window.has("It already exists"), "Enter does not replace");
    let written = |path: &Path| path.metadata().and_then(|about| about.modified()).expect("a time");
    let before = written(&path);
    window.click("Replace");
    assert!(!window.has("It already exists"));
    window.until("a file", |_| written(&path) != before);
    std::fs::write(&path, "0\n0\n").expect("written");
    let kept = made(&window);
    choose_more(&mut window, "Open order…");
    enter(&mut window, &path);
    window.until("what is wrong", |window| window.has("token 0 is read twice"));
    assert_eq!(made(&window), kept);
}

fn is_look(request: &Request) -> bool {
    matches!(request, Request::Compute(_, Compute::Explain(_)))
}

/// The centres of the patches in the reading-order figure, found by hovering along a line across it and a line down it.
fn patches(window: &mut Window) -> Vec<egui::Pos2> {
    const POINTS: usize = 60;
    let figures = window.harness.query_all(By::new().role(Role::Image).label_contains("Reading order"));
    let place =
        figures.map(|node| node.rect()).max_by(|a, b| a.area().total_cmp(&b.area())).expect("the figure");
    let mut along = |at: &dyn Fn(f32) -> egui::Pos2| -> Vec<(egui::Pos2, usize)> {
        let points = (0..POINTS).map(|point| at((point as f32 + 0.5) / POINTS as f32));
        let found = points.filter_map(|at| {
            window.hover(at);
            Some((at, window.state().selection.hover.token?))
        });
        found.collect()
    };
    let down = along(&|t| place.lerp_inside(egui::vec2(0.25, t)));
    let middle = down[down.len() / 2].0.y;
    let across = along(&|t| egui::pos2(place.left() + t * place.width(), middle));
    let mean = |found: Vec<f32>| {
        assert!(!found.is_empty(), "a row or a column that the pointer does not find");
        found.iter().sum::<f32>() / found.len() as f32
    };
    let (rows, cols) = (DIMS.grid.rows, DIMS.grid.cols);
    let y =
        |row: usize| mean(down.iter().filter(|(_, token)| token / cols == row).map(|(at, _)| at.y).collect());
    let x = |col: usize| {
        mean(across.iter().filter(|(_, token)| token % cols == col).map(|(at, _)| at.x).collect())
    };
    let (x, y): (Vec<f32>, Vec<f32>) = ((0..cols).map(x).collect(), (0..rows).map(y).collect());
    (0..N).map(|token| egui::pos2(x[token % cols], y[token / cols])).collect()
}
