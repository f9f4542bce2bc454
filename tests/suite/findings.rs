//! Findings: kept, searched, shown again, undone, and shared as a page or as figures.

use std::fs;

use eframe::egui::vec2;
use ssmprobe::app::jobs::{Cancel, Explain, ExplainResult, Progress};
use ssmprobe::app::report::findings;
use ssmprobe::app::state::settings::ThemeChoice;
use ssmprobe::app::state::share::{Share, ShareKind, Shared, SharedFinding};
use ssmprobe::app::state::{Finding, FindingId, FindingView, Image, Severity, Status, Views};
use ssmprobe::app::window::opener::Opener;
use ssmprobe::model::trace::{Attribution, Prediction};
use ssmprobe::viz::Options;
use ssmprobe::viz::draw::colormap::Map;
use ssmprobe::viz::draw::theme::FileTheme;
use ssmprobe::viz::export::ExportFormat;

use crate::evaluation::with_dataset;
use crate::html::{between, figures, photograph, ssmprobe};
use crate::pictures::screen::{SMOOTHED, blocks};
use crate::run::{done, entries, root};
use crate::state::{column, does, probe, story};
use crate::traces;
use crate::window::prelude::*;
use crate::window::succeed;

/// Keeps what is shown as a finding with this note.
fn keep(state: &mut State, note: &str) -> FindingId {
    let now = state.finding_now(json!("panes"), Some(3)).expect("an image");
    state.dispatch(Command::KeepFinding(Box::new(Finding { note: note.into(), ..now })));
    state.findings.iter().last().expect("a finding").0
}

/// Everything that a finding restores, as text: columns, reference, focus, image, class, views and settings.
fn view_text(state: &State) -> String {
    let columns = state.columns.values().map(|column| {
        let image = column.image.map(|image| state.library.images[&image].name());
        (state.library.probes[&column.probe].name(), image, column.change.to_string(), column.compared)
    });
    let place = |id| state.columns.get_index_of(&id);
    let reference = state.selection.reference.and_then(place);
    let others = [state.selection.beside, state.selection.against].map(|id| id.and_then(place));
    let focus = state.focus().and_then(place);
    let image = state.current_image().map(Image::name);
    let columns: Vec<_> = columns.collect();
    format!(
        "{columns:?} {reference:?} {others:?} {focus:?} {image:?} {:?} {:?} {:?}",
        state.selection.class, state.views, state.explain
    )
}

/// Four columns, one with an image of its own, one with a changed reading; a class, a pinned column and a figure's options.
fn arranged() -> State {
    let mut state = story();
    let (probe, image) = (state.columns[0].probe, state.library.images.get_index(2).map(|(id, _)| *id));
    for (image, change) in [(image, Intervention::None), (None, Intervention::Scrambled(3))] {
        state.dispatch(Command::AddColumn { probe, image, change });
    }
    let pinned = column(&state, 1);
    let options = Options { step: Some(2), ..Options::default() };
    for command in [
        Command::Pin(Some(pinned)),
        Command::SetBeside(Some(column(&state, 2))),
        Command::SetAgainst(Some(pinned)),
        Command::SetClass(ClassChoice::Named("dog".into())),
        Command::SetOptions("scan_path".into(), options),
        Command::SetDifference(true),
        Command::Focus(column(&state, 3)),
        Command::SelectImage(*state.library.images.get_index(1).expect("an image").0),
    ] {
        state.dispatch(command);
    }
    state
}

#[test]
fn a_finding_brings_back_what_was_shown_and_opens_what_was_closed() {
    let mut state = arranged();
    let (kept, kept_ids) = (view_text(&state), state.columns.keys().copied().collect::<Vec<_>>());
    let id = keep(&mut state, "# Edge");
    // Nothing has changed since: showing the finding is no undo step and keeps the columns.
    state.dispatch(Command::ShowFinding { id, layout: json!("panes") });
    assert_eq!(state.undo_text(), Some("Keep the finding y.png"));
    assert!(state.columns.keys().eq(&kept_ids));

    let probes: Vec<_> = state.library.probes.keys().copied().collect();
    let images: Vec<_> = state.library.images.keys().copied().collect();
    for command in [
        Command::CloseProbes(probes),
        Command::CloseImages(images),
        Command::SetClass(ClassChoice::Predicted),
        Command::SetDifference(false),
        Command::SetOptions("scan_path".into(), Options::default()),
    ] {
        state.dispatch(command);
    }
    assert!(state.columns.is_empty() && state.current_image().is_none());
    assert!(Action::Share.enabled(&state), "findings are shared without an image, too");
    let empty = view_text(&state);
    let look = does(&mut state, Command::ShowFinding { id, layout: json!("other panes") }).expect("a look");
    assert_eq!(view_text(&state), kept);
    assert_eq!(look.1.items.len(), 4, "all columns are looked at");
    assert_eq!((state.layout.clone(), state.undo_text()), (json!("panes"), Some("Show the finding y.png")));
    // Undo and redo take all of it in one step.
    state.dispatch(Command::Undo);
    assert_eq!((view_text(&state), state.layout.clone()), (empty, json!("other panes")));
    does(&mut state, Command::Redo);
    assert_eq!((view_text(&state), state.layout.clone()), (kept, json!("panes")));
}

#[test]
fn probes_of_one_name_in_a_finding_have_that_of_their_run_or_folder_beside_it() {
    let mut finding = story().finding_now(json!("panes"), None).expect("an image");
    let columns = &mut finding.view.as_mut().expect("a view").columns;
    columns.push(columns[1].clone());
    for (column, file) in columns.iter_mut().zip(["mae/gap.safetensors", "birds/probes/gap.safetensors"]) {
        column.probe = file.into();
    }
    assert!(finding.probes().iter().eq(["gap · mae", "gap · birds", "b"]), "{:?}", finding.probes());
}

#[test]
fn undoing_the_view_of_a_finding_shows_the_probe_from_before() {
    let mut state = story();
    let id = keep(&mut state, "Edge");
    let second = column(&state, 1);
    state.dispatch(Command::Focus(second));
    state.dispatch(Command::SetDifference(true));
    let before = view_text(&state);
    state.dispatch(Command::ShowFinding { id, layout: json!("panes") });
    assert_ne!(state.focus(), Some(second));
    state.dispatch(Command::Undo);
    assert_eq!(view_text(&state), before);
}

#[test]
fn findings_are_reordered_edited_and_deleted_and_all_of_it_is_undone() {
    let mut state = story();
    let ids: Vec<FindingId> = ["one", "two", "three"].iter().map(|note| keep(&mut state, note)).collect();
    let notes = |state: &State| {
        state.findings.iter().map(|(_, finding)| finding.note.clone()).collect::<Vec<_>>().join(" ")
    };
    let mut before = vec![notes(&state)];
    for (command, after) in [
        (Command::MoveFinding(ids[2], 0), "three one two"),
        (Command::WriteFinding(ids[0], "uno ".into()), "three uno two"),
        (Command::DeleteFinding(ids[2]), "uno two"),
        (Command::MoveFinding(ids[0], 9), "two uno"),
    ] {
        state.dispatch(command);
        assert_eq!(notes(&state), after);
        before.push(after.to_owned());
    }
    let revision = state.findings.revision;
    for command in [
        Command::MoveFinding(ids[0], 1),
        Command::WriteFinding(ids[1], "two".into()),
        Command::DeleteFinding(ids[2]),
    ] {
        state.dispatch(command);
    }
    assert_eq!(state.findings.revision, revision, "nothing came of it");
    before.pop();
    for expected in before.iter().rev() {
        state.dispatch(Command::Undo);
        assert_eq!(notes(&state), *expected);
    }
    assert_eq!(state.undo_text(), Some("Keep the finding x.png"));
}

#[test]
fn a_workspace_keeps_findings_with_paths_from_its_folder() {
    let home = tempfile::tempdir().expect("a folder");
    let at = |name: &str| home.path().join(name);
    fs::create_dir_all(at("here/data")).expect("a folder");
    let mut state = arranged();
    let id = keep(&mut state, "Edge");
    let mut finding = state.findings.get(id).expect("it").clone();
    finding.image.path = at("here/data/y.png");
    let view = finding.view.as_mut().expect("a view");
    view.columns.iter_mut().for_each(|column| column.probe = at("here").join(&column.probe));
    view.columns[2].image.as_mut().expect("an image of its own").path = at("here/data/z.png");
    let mut workspace = Workspace { findings: vec![finding.clone()], ..Workspace::default() };
    workspace.save(&at("here/w.ssmprobe")).expect("saved");
    let text = fs::read_to_string(at("here/w.ssmprobe")).expect("text");
    assert!(!text.contains(home.path().to_str().expect("text")), "{text}");
    fs::rename(at("here"), at("there")).expect("moved");
    workspace = Workspace::load(&at("there/w.ssmprobe")).expect("a workspace");
    let [moved] = &workspace.findings[..] else { panic!("one finding") };
    let view = moved.view.as_ref().expect("a view");
    assert_eq!((moved.image.path.clone(), moved.note.as_str()), (at("there/data/y.png"), "Edge"));
    assert_eq!(view.columns[0].probe, at("there/a.safetensors"));
    assert_eq!(view.columns[2].image.as_ref().expect("it").path, at("there/data/z.png"));
    let kept = finding.view.expect("a view");
    assert_eq!((&view.views, &view.class, view.token), (&kept.views, &kept.class, Some(3)));
    // A state that restores the workspace saves the same findings.
    let mut again = State::new(Settings::default());
    let findings = workspace.findings.clone();
    again.restore(workspace);
    assert_eq!(again.workspace(json!(null)).findings, findings);
}

fn share(findings: Vec<Finding>, kind: ShareKind, to: &Path) -> Share {
    let title = "What <b>edges</b> do".to_owned();
    let (theme, format, to) = (FileTheme::Dark, ExportFormat::Svg, to.to_owned());
    Share { findings, title, kind, theme, format, classes: Vec::new(), to }
}

/// The events that answer an explain request, with traces that hold absolute paths of this machine.
fn answers(job: JobId, look: &Explain) -> [Event; 2] {
    let result = |at: usize, image: &str| {
        let whole = [traces::sinkhorn_trace(), traces::gap_trace()][at % 2].clone();
        Ok(Arc::new(Trace {
            image: format!("/home/ann/{image}"),
            probe: "/home/ann/p.safetensors".into(),
            ..whole
        }))
    };
    let results = look.items.iter().enumerate().map(|(at, asked)| ExplainResult {
        column: asked.column,
        result: result(at, &asked.image.to_string()),
        by_hand: None,
    });
    [Event::Explained { job, results: results.collect() }, Event::Finished(job)]
}

/// The findings of a state, in order.
fn kept(state: &State) -> Vec<Finding> {
    state.findings.iter().map(|(_, finding)| finding.clone()).collect()
}

/// The page of the findings of a state, which explains two readings.
fn page_of_two(state: &mut State) -> String {
    let page = share(kept(state), ShareKind::Page, Path::new("f.html"));
    let (job, look) = explain_request(&state.dispatch(Command::Share(Box::new(page))));
    assert_eq!(look.items.len(), 2);
    answers(job, &look).into_iter().for_each(|event| drop(state.apply(event)));
    findings::page(state.shared().expect("all of it").1).html()
}

/// The job and content of the only request, which must explain images.
fn explain_request(requests: &[Request]) -> (JobId, Explain) {
    match requests {
        [Request::Compute(job, Compute::ExplainMany(look))] => (*job, look.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn sharing_asks_for_one_finding_after_the_other_beside_the_look() {
    let mut state = arranged();
    keep(&mut state, "<script>alert(1)</script>");
    does(&mut state, Command::SetClass(ClassChoice::Predicted));
    keep(&mut state, "second");
    let gone = PathBuf::from("gone.safetensors");
    let mut all = kept(&state);
    all[1].view.as_mut().expect("a view").columns[0].probe = gone;
    all[1].image = PathBuf::from("dog/y.png").into();
    let requests =
        state.dispatch(Command::Share(Box::new(share(all.clone(), ShareKind::Page, Path::new("f.html")))));
    let (first, look) = explain_request(&requests);
    assert_eq!((look.items.len(), &look.class), (4, &ClassChoice::Named("dog".into())));
    assert_eq!(look.items[2].image.short(), "z.png");
    assert!(matches!(look.items[3].change, Intervention::Scrambled(3)));
    let progress =
        |state: &State| state.jobs.values().find_map(|job| job.progress.as_ref().map(Progress::counts));
    assert_eq!(progress(&state).as_deref(), Some("0 of 2"));
    // A second one is refused meanwhile.
    state.dispatch(Command::Share(Box::new(share(Vec::new(), ShareKind::Page, Path::new("g.html")))));
    assert!(state.toasts.last().is_some_and(|toast| toast.text.contains("already")));
    let [explained, finished] = answers(first, &look);
    assert!(state.apply(explained).is_empty());
    let (second, look) = explain_request(&state.apply(finished));
    assert_eq!((look.items.len(), &look.class), (3, &ClassChoice::Predicted));
    let left_out = "Left out of y.png: gone. Open the probes";
    assert!(state.toasts.iter().any(|t| t.severity == Severity::Warning && t.text.starts_with(left_out)));
    assert!(progress(&state).as_deref() == Some("1 of 2") && state.shared().is_none());
    answers(second, &look).into_iter().for_each(|event| drop(state.apply(event)));
    let (job, shared) = state.shared().map(|(job, shared)| (job, shared.clone())).expect("all of it");
    assert_eq!(shared.findings.iter().map(|one| one.traces.len()).collect::<Vec<_>>(), [4, 3]);
    let [pinned] = &shared.findings[0].pinned[..] else { panic!("one class") };
    assert!(Arc::ptr_eq(pinned, &shared.findings[0].traces[1]));
    let whole = serde_json::to_string(&shared.findings[0].traces).expect("JSON");
    assert!(!whole.contains("/home/ann"), "no folder of this machine");
    let images = shared.findings.iter().map(|one| one.traces[0].image.as_str());
    assert_eq!(images.collect::<Vec<_>>(), ["y.png", "dog/y.png"], "told apart");

    let html = findings::page(&shared).html();
    assert!(html.contains("<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>") && html.contains("<p>second</p>"));
    assert!(!html.contains("<script>alert") && html.contains("<html lang=\"en\" data-theme=\"dark\">"));
    assert!(html.contains("<h1>What &lt;b&gt;edges&lt;/b&gt; do</h1>"));
    assert!(html.find("alert(1)").expect("a note") < html.find("<p>second").expect("another"), "in order");

    state.end_share(job, Ok("f.html".into()));
    assert!(!state.is_sharing() && state.jobs.values().all(|job| job.progress.is_none()));
    assert!(state.toasts.last().is_some_and(|toast| toast.text == "Wrote f.html"));
}

#[test]
fn attributions_are_computed_only_for_figures_that_are_shared() {
    let [gradient, rollout] = [Attribution::Gradient, Attribution::Rollout];
    for (kind, rows, computed) in [
        (ShareKind::Figures, "gradient", vec![gradient]),
        (ShareKind::Figures, "token_map", vec![gradient, rollout]), // they stand in for evidence
        (ShareKind::Figures, "photo", vec![]),
        (ShareKind::Page, "gradient", vec![]),
    ] {
        let mut state = story();
        let attributions = vec![gradient, rollout].into();
        let settings = ExplainSettings { attributions, ..state.explain };
        does(&mut state, Command::SetExplainSettings(settings));
        does(&mut state, Command::SetRows([rows.to_owned()].into()));
        keep(&mut state, "");
        let all = kept(&state);
        let requests = state.dispatch(Command::Share(Box::new(share(all, kind, Path::new("f")))));
        let (_, look) = explain_request(&requests);
        let asked: Vec<Attribution> = look.settings.attributions.iter().collect();
        assert_eq!(asked, computed, "{kind:?} {rows}");
    }
}

#[test]
fn a_page_says_of_a_probe_without_the_true_class_what_the_window_says() {
    let mut state = with_dataset().0;
    // More classes than a trace names, the last of which is the true one, and another.
    for (last, known) in ["church", "moth"].into_iter().zip(state.library.probes.values_mut()) {
        let classes = (0..39).map(|class| format!("bird {class}")).chain([last.to_owned()]);
        let info = ProbeInfo { classes: classes.collect(), class_count: 40, ..probe("a", 24) };
        known.status = Status::Ready(Arc::new(info));
    }
    let image = state.library.datasets[0].images[0];
    assert_eq!(state.library.true_class(&state.library.images[&image]), Some("church"));
    state.dispatch(Command::SelectImage(image));
    keep(&mut state, "");
    let html = page_of_two(&mut state);
    let count = |words: &str| html.matches(words).count();
    assert_eq!([count("✗ wrong"), count("; true class unknown to the probe")], [1, 1]);
}

/// The folders around the runs, which tell them apart, are no folders of the files that the traces name.
#[test]
fn probes_of_runs_of_one_name_are_not_called_after_the_run_on_a_page() {
    let mut state = story();
    // A page does not say who made it.
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let (folder, said) = user.as_deref().map_or(("vit", "vit"), |user| (user, "USER"));
    for (folder, known) in [folder, "dino"].into_iter().zip(state.library.probes.values_mut()) {
        known.path = format!("/data/{folder}/birds/probes/gap.safetensors").into();
    }
    keep(&mut state, "");
    let html = page_of_two(&mut state);
    for folder in [said, "dino"] {
        assert_eq!(html.matches(&format!("<h3>gap · {folder}-birds</h3>")).count(), 1, "{folder}");
    }
}

#[test]
fn further_classes_of_a_finding_are_asked_for_one_after_the_other() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let mut state = story();
    keep(&mut state, "");
    let named = |name: &str| ClassChoice::Named(name.into());
    does(&mut state, Command::SetClass(named("dog")));
    keep(&mut state, "second");
    let all = kept(&state);
    let classes = vec!["dog".to_owned(), "cat".to_owned()];
    let wanted = Share { classes, ..share(all, ShareKind::Page, Path::new("f.html")) };
    let mut requests = state.dispatch(Command::Share(Box::new(wanted.clone())));
    let mut classes = Vec::new();
    while state.shared().is_none() {
        let (job, look) = explain_request(&requests);
        // The probes predict dog.
        let class = if look.class == named("cat") { 2 } else { 1 };
        let [explained, finished] = answers(job, &look);
        let Event::Explained { mut results, .. } = explained else { panic!("{explained:?}") };
        for one in &mut results {
            let trace = Arc::make_mut(one.result.as_mut().expect("a trace"));
            trace.evidence.class = class;
            let prediction = |(index, name): (usize, &str)| {
                let name = name.to_owned();
                Prediction { index, name, logit: 1.0, probability: 0.5 }
            };
            trace.top = [(1, "dog"), (2, "cat")].map(prediction).to_vec();
        }
        state.apply(Event::Explained { job, results });
        requests = state.apply(finished);
        classes.push(look.class);
    }
    let [own, dog, cat] = [ClassChoice::Predicted, named("dog"), named("cat")];
    assert_eq!(classes, [own, dog.clone(), cat.clone(), dog, cat]);
    let (_, shared) = state.shared().expect("all of it");
    // The predicted class, also asked for by name, is there once: two probes, two classes.
    assert_eq!(shared.findings.iter().map(|one| one.traces.len()).collect::<Vec<_>>(), [4, 4]);
    let html = findings::page(shared).html();
    let options = "<option value=\"0\">dog</option><option value=\"1\">cat</option>";
    assert_eq!(html.matches(options).count(), 2, "a choice for each finding");
    // Shared as figures, each class has files of its own.
    let (to, facts) = (sandbox.path().join("figures"), Vec::new());
    let share = Share { kind: ShareKind::Figures, to: to.clone(), ..wanted };
    let all = Shared { share, findings: shared.findings.clone(), truth: Vec::new(), facts };
    findings::write(&all, &Cancel::default()).expect("written");
    let names: Vec<String> = crate::faults::tree(&to).into_keys().collect();
    for file in ["01-x/1-a-for-dog", "01-x/3-a-for-cat", "02-x/2-b-for-dog", "02-x/4-b-for-cat"] {
        assert!(names.contains(&format!("{file}.trace.json")), "{file}: {names:?}");
    }
}

#[test]
fn sharing_is_cancelled_and_says_what_failed() {
    let mut state = story();
    keep(&mut state, "");
    let all = kept(&state);
    let begin = |state: &mut State| {
        let page = share(all.clone(), ShareKind::Page, Path::new("f.html"));
        let requests = state.dispatch(Command::Share(Box::new(page)));
        let job = *state.jobs.last().expect("a job").0;
        (job, requests)
    };
    let (job, requests) = begin(&mut state);
    let (asked_for, look) = explain_request(&requests);
    assert_eq!(state.dispatch(Command::Cancel(job)), [Request::Cancel(asked_for)]);
    answers(asked_for, &look).into_iter().for_each(|event| drop(state.apply(event)));
    assert!(!state.is_sharing() && !state.jobs.contains_key(&job) && state.shared().is_none());

    let (job, requests) = begin(&mut state);
    let error = UserError::new("no memory left").remedy("Close something");
    state.apply(Event::Failed(explain_request(&requests).0, error.clone()));
    assert!(!state.is_sharing() && state.jobs[&job].error == Some(error));
    let said = &state.toasts.last().expect("a note").text;
    assert_eq!(said, "Could not be shared: no memory left\nClose something");

    // Where nothing can be explained, nothing is written.
    state.dispatch(Command::CloseProbes(state.library.probes.keys().copied().collect()));
    let (job, requests) = begin(&mut state);
    assert!(requests.is_empty() && !state.is_sharing());
    let why = state.jobs[&job].error.as_ref().expect("why");
    assert!(why.lines[0].contains("None of the findings") && why.remedy.is_some());
}

/// Two findings with their traces, ready to be written.
fn shared(kind: ShareKind, theme: FileTheme, to: &Path) -> Shared {
    let finding = |image: &str, note: &str, traces: Vec<Trace>| SharedFinding {
        finding: Finding { image: PathBuf::from(image).into(), note: note.into(), view: None },
        traces: traces.into_iter().map(|trace| Arc::new(Trace { image: image.into(), ..trace })).collect(),
        pinned: Vec::new(),
    };
    let mut other = traces::sinkhorn_trace();
    other.probe = "sinkhorn $(x) 2.safetensors".into();
    Shared {
        share: Share { theme, ..share(Vec::new(), kind, to) },
        findings: vec![
            finding(
                "a b/é.png",
                "Both look *twice*",
                vec![traces::sinkhorn_trace(), traces::gap_trace(), other],
            ),
            finding("b.png", "", vec![traces::vmamba_trace()]),
        ],
        truth: Vec::new(),
        facts: vec![("Backbone".into(), "tiny".into())],
    }
}

#[test]
fn figures_of_findings_are_those_of_the_program_to_the_byte() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let to = sandbox.path().join("figures");
    for (theme, name) in [(FileTheme::Print, "print"), (FileTheme::Light, "light"), (FileTheme::Dark, "dark")]
    {
        let all = shared(ShareKind::Figures, theme, &to);
        assert_eq!(findings::write(&all, &Cancel::default()).expect("written"), to);
        let commands = fs::read_to_string(to.join("commands.txt")).expect("commands");
        let mut drawn = Vec::new();
        for line in commands.lines() {
            let mut words: Vec<&str> = line.split(' ').skip(1).collect();
            let file = words.pop().expect("a file");
            assert!(line.contains(&format!("--theme {name} ")) && words.pop() == Some("--out"), "{line}");
            done(&mut ssmprobe(&to, &[&words[..], &["--out", "again.svg"]].concat()));
            let [kept, again] =
                [file, "again.svg"].map(|file| fs::read_to_string(to.join(file)).expect("an SVG"));
            assert!(kept == again, "{file} is another than `figures` writes");
            drawn.push(kept);
        }
        assert!(drawn.len() >= 8, "{commands}");
        // The page holds the same figures.
        if theme != FileTheme::Print {
            let html = findings::page(&shared(ShareKind::Page, theme, &to)).html();
            let page = figures(&html);
            assert!(drawn.iter().all(|svg| page.contains(svg)), "the page shows others");
            assert!(
                between(&html, "<pre tabindex=\"0\">", "</pre>").contains("ssmprobe figures --trace TRACE")
            );
        }
        assert!(!to.join("02-b/note.md").exists(), "nothing is said of it");
        assert_eq!(entries(&to)[..3], ["01-unnamed", "02-b", "again.svg"].map(|name| to.join(name)));
        let note = fs::read_to_string(to.join("01-unnamed/note.md")).expect("a note");
        assert_eq!(note, "Both look *twice*\n");
        fs::remove_dir_all(&to).expect("removed");
    }
}

#[test]
fn a_folder_holds_the_figures_of_a_finding_as_it_shows_them_in_the_chosen_format() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let rows = ["assignment", "scores"].map(str::to_owned).into();
    let viridis = Options { map: Map::Viridis, ..Options::default() };
    let views = Views { rows, options: [("assignment".to_owned(), viridis)].into(), ..Views::default() };
    for format in [ExportFormat::Pdf, ExportFormat::Png] {
        let to = sandbox.path().join(format.id());
        let mut all = shared(ShareKind::Figures, FileTheme::Print, &to);
        all.share.format = format;
        all.findings.truncate(1);
        let view = FindingView { views: views.clone(), ..FindingView::default() };
        all.findings[0].finding.view = Some(Box::new(view));
        findings::write(&all, &Cancel::default()).expect("written");
        let commands = fs::read_to_string(to.join("commands.txt")).expect("commands");
        // GAP has neither; two probes have both.
        let count = |words: &str| commands.matches(words).count();
        assert_eq!(
            (count("--figure assignment --map viridis"), count("--figure scores")),
            (2, 2),
            "{commands}"
        );
        assert_eq!(commands.lines().count(), 4, "{commands}");
        let again = format!("again.{}", format.id());
        for line in commands.lines() {
            let words: Vec<&str> = line.split(' ').skip(1).collect();
            let (file, words) = words.split_last().expect("a file");
            done(&mut ssmprobe(&to, &[words, &[again.as_str()]].concat()));
            let [kept, drawn] =
                [*file, again.as_str()].map(|file| fs::read(to.join(file)).expect("a figure"));
            assert!(kept == drawn, "{file} is another than `figures` writes");
        }
    }
}

#[test]
fn a_folder_holds_the_differences_that_a_finding_shows() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let to = sandbox.path().join("figures");
    let mut all = shared(ShareKind::Figures, FileTheme::Print, &to);
    all.findings.truncate(1);
    let own = &mut all.findings[0];
    own.pinned = vec![own.traces[0].clone()];
    let views = Views { rows: ["photo".to_owned()].into(), difference: true, ..Views::default() };
    own.finding.view = Some(Box::new(FindingView { views, ..FindingView::default() }));
    findings::write(&all, &Cancel::default()).expect("written");
    let commands = fs::read_to_string(to.join("commands.txt")).expect("commands");
    let lines: Vec<&str> = commands.lines().collect();
    let differences = |line: &&str| line.contains(" --against 01-unnamed/1-");
    assert_eq!(lines.iter().copied().map(|line| differences(&line)).collect::<Vec<_>>(), [false, true, true]);
    for line in lines {
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let (file, words) = words.split_last().expect("a file");
        done(&mut ssmprobe(&to, &[words, &["again.svg"]].concat()));
        let [kept, again] =
            [*file, "again.svg"].map(|file| fs::read_to_string(to.join(file)).expect("an SVG"));
        assert!(kept == again, "{file} is another than `figures` writes");
        assert_eq!(file.ends_with("-photo-difference.svg"), differences(&line), "{file}");
        assert_eq!(kept.contains("Difference (Δ) of"), differences(&line), "{file}");
    }
}

#[test]
fn what_cannot_be_written_says_so_and_leaves_nothing_behind() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let file = sandbox.path().join("file");
    fs::write(&file, "as it was").expect("a file");
    for kind in [ShareKind::Page, ShareKind::Figures] {
        // A path below a file, which root cannot write either.
        let to = file.join("out");
        let error =
            findings::write(&shared(kind, FileTheme::Print, &to), &Cancel::default()).expect_err("no folder");
        assert!(error.to_string().contains("file") && error.remedy.is_some(), "{error}");
        let cancel = Cancel::default();
        cancel.cancel();
        let to = sandbox.path().join("new");
        findings::write(&shared(kind, FileTheme::Print, &to), &cancel).expect_err("called off");
        assert!(!to.exists(), "{kind:?}");
    }
    let among_others = shared(ShareKind::Figures, FileTheme::Print, sandbox.path());
    let refused = findings::write(&among_others, &Cancel::default()).expect_err("a folder with a file");
    assert!(refused.to_string().contains("the folder is not empty"), "{refused}");
    assert_eq!(fs::read_to_string(&file).expect("it"), "as it was");
    assert_eq!(fs::read_dir(sandbox.path()).expect("it").count(), 1);
}

#[cfg(unix)]
#[test]
fn a_folder_that_exists_is_filled_where_it_is() {
    use std::os::unix::fs::MetadataExt as _;
    let sandbox = tempfile::tempdir().expect("a folder");
    let to = sandbox.path().join("figures");
    fs::create_dir(&to).expect("a folder");
    let open = fs::File::open(&to).expect("it"); // so that its number is not given again
    findings::write(&shared(ShareKind::Figures, FileTheme::Print, &to), &Cancel::default()).expect("written");
    assert_eq!(entries(&to), ["01-unnamed", "02-b", "commands.txt"].map(|name| to.join(name)));
    assert_eq!(to.metadata().expect("it").ino(), open.metadata().expect("it").ino(), "another folder");
}

#[test]
fn what_someone_puts_into_the_folder_meanwhile_stays() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let to = sandbox.path().join("figures");
    fs::create_dir(&to).expect("a folder");
    let (all, cancel) = (shared(ShareKind::Figures, FileTheme::Print, &to), Cancel::default());
    let entries = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    std::thread::scope(|scope| {
        // Written or called off, whichever is faster.
        let writing = scope.spawn(|| drop(findings::write(&all, &cancel)));
        while entries(sandbox.path()) + entries(&to) < 2 && !writing.is_finished() {} // until the first file is written
        let put = |over: bool| fs::write(to.join("own.txt"), "mine").is_ok() || over;
        while !put(writing.is_finished()) {} // while the folder is being replaced
        cancel.cancel();
    });
    assert_eq!(fs::read_to_string(to.join("own.txt")).expect("the file"), "mine");
}

#[test]
fn how_large_it_gets_is_told_before() {
    let sandbox = tempfile::tempdir().expect("a folder");
    for kind in [ShareKind::Page, ShareKind::Figures] {
        let to = sandbox.path().join(format!("{kind:?}"));
        let mut all = shared(kind, FileTheme::Light, &to);
        let photo =
            |at: u32| Trace { image: format!("{at}.png"), seen: photograph(at), ..traces::sinkhorn_trace() };
        let one = Arc::new(photo(9));
        all.findings.truncate(1);
        all.findings[0].traces = (0..4).map(|at| Arc::new(photo(at))).collect();
        findings::write(&all, &Cancel::default()).expect("written");
        let size = |path: &Path| fs::metadata(path).expect("it").len();
        let written = if to.is_dir() {
            let folder = to.join("01-unnamed");
            fs::read_dir(folder).expect("it").map(|entry| size(&entry.expect("it").path())).sum()
        } else {
            size(&to)
        };
        let [nothing, each] = findings::estimate(&all.share, &one);
        let estimate = nothing + 4 * each;
        let ratio = estimate as f64 / written as f64;
        assert!((0.5..2.0).contains(&ratio), "{kind:?}: estimated {estimate}, written {written}");
    }
}

fn type_into(window: &mut Window, field: &str, text: &str) {
    let field = window.harness.get_by_role_and_label(Role::TextInput, field);
    field.focus();
    field.type_text(text);
    window.harness.run();
}

/// Keeps what is shown as a finding with this note, by the keyboard.
fn keep_by_key(window: &mut Window, note: &str) {
    window.press(Modifiers::NONE, Key::N);
    type_into(window, "Note", note);
    window.press(Modifiers::COMMAND, Key::Enter);
}

#[test]
fn findings_are_kept_by_a_key_listed_searched_and_shown_by_a_click() {
    let mut window = Window::ready();
    window.click("Panes");
    window.click("Findings");
    window.press(Modifiers::NONE, Key::Escape);
    assert!(window.has("Nothing is kept yet"), "what to do");
    window.click("Keep as finding…");
    assert!(window.has("Keep a.png as a finding") && window.has("this view: the image with sinkhorn, gap"));
    type_into(&mut window, "Note", "sn edge");
    window.click("Keep");
    window.press(Modifiers::NONE, Key::ArrowRight);
    window.press(Modifiers::NONE, Key::N);
    window.press(Modifiers::NONE, Key::Escape);
    assert!(!window.has("Keep b.png as a finding"), "nothing was typed");
    window.press(Modifiers::NONE, Key::N);
    type_into(&mut window, "Note", "bill");
    window.press(Modifiers::NONE, Key::Escape);
    assert!(window.has("Keep b.png as a finding"), "what was typed is not thrown away");
    assert!(window.has("Cancel discards them"), "what to do");
    window.harness.get_all_by_role_and_label(Role::Button, "Cancel").last().expect("the dialog's").click();
    keep_by_key(&mut window, "beak");
    window.answer();
    let notes = |window: &Window| -> Vec<String> {
        window.state().findings.iter().map(|(_, finding)| finding.note.clone()).collect()
    };
    assert_eq!(notes(&window), ["sn edge", "beak"], "keys typed into the dialog are its own");
    assert!(window.has("Show finding 1: a.png") && window.has("Show finding 2: b.png"));
    type_into(&mut window, "Find in findings", "BEAK sink");
    assert!(window.has("Show finding 2: b.png") && !window.has("Show finding 1") && window.has("1 of 2"));
    type_into(&mut window, "Find in findings", "xyz");
    assert!(window.has("No finding contains these words"));
    for _ in 0.."BEAK sinkxyz".len() {
        window.press(Modifiers::NONE, Key::Backspace);
    }
    assert!(window.has("Show finding 1: a.png"));
    // After other panes and columns were shown, a click restores the columns and panes of the finding.
    let probe = *window.state().library.probes.keys().next().expect("a probe");
    window.harness.state_mut().dispatch(Command::Uncompare(vec![probe]));
    window.harness.state_mut().window.show("compare");
    window.answer();
    let layout = |window: &Window| window.harness.state().window.session(window.state()).layout;
    let changed = layout(&window);
    window.click("Show finding 1: a.png");
    window.answer();
    let state = window.state();
    assert_eq!(state.current_image().map(Image::name).as_deref(), Some("a.png"));
    assert_eq!(state.compared().count(), 2);
    assert_ne!(layout(&window), changed);
    assert!(window.has("Show finding 1: a.png"), "the list stays");
    window.click("Edit the note of finding 1");
    type_into(&mut window, "Note", " now");
    window.click("Keep");
    window.click("Move down finding 1");
    assert_eq!(notes(&window)[0], "beak");
    assert!(notes(&window)[1].contains("now") && notes(&window)[1].contains("sn edge"));
    window.click("Delete finding 2");
    assert_eq!(notes(&window), ["beak"]);
    window.press(Modifiers::COMMAND, Key::Z);
    assert_eq!(notes(&window).len(), 2);
    window.click("Hide");
    assert!(!window.has("Show finding 1") && window.has("Starred images only"), "the library is back");
}

#[cfg(target_os = "linux")]
#[test]
fn share_says_what_goes_in_where_to_and_writes_it() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let mut window = Window::new();
    window.open();
    window.answer_with(with_classes);
    let (opener, opened) = (sandbox.path().join("opener"), sandbox.path().join("opened"));
    crate::submit::write_script(&opener, &format!("echo \"$1\" > '{}'", opened.display()));
    window.harness.state_mut().window.opener = Opener(opener);
    keep_by_key(&mut window, "edge <script>");
    window.answer();
    window.click("File");
    window.click("Share…");
    assert!(window.has("1 finding") && window.has("2 explanations of 1 image, about"));
    assert!(window.harness.get_by_label("1 finding").is_focused(), "what is chosen");
    window.click_role(Role::CheckBox, "gap");
    assert!(window.has("1 explanation of 1 image, about"));
    window.click_role(Role::ComboBox, "Classes");
    window.click_role(Role::CheckBox, "dog");
    window.click("Share with others");
    assert!(window.has("2 explanations of 1 image, about"), "for two classes");
    let page = sandbox.path().join("none/page.html");
    window.replace_text(Role::TextInput, "Share to", page.display());
    assert!(window.has("No such folder"));
    window.click("Create the folder");
    assert!(!window.has("No such folder"));
    window.click("Share");
    window.answer();
    window.until("the end of the sharing", |window| !window.state().is_sharing());
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("<p>edge &lt;script&gt;</p>") && html.contains("<h3>sinkhorn</h3>"));
    assert!(!html.contains("<h3>gap</h3>"), "it was left out");
    window.harness.run();
    assert!(window.has("Wrote "));
    window.click("Open what was written");
    crate::interrupts::until("what opens the page", || opened.metadata().is_ok_and(|about| about.len() > 0));
    assert_eq!(fs::read_to_string(opened).expect("its words").trim_end(), page.to_str().expect("text"));
    assert!(!window.has("Wrote "), "the note has done its work");
    // A folder holds the figures of the panes in front, in the format that is chosen.
    let figures = sandbox.path().join("figures");
    window.show("predictions");
    window.click("File");
    window.click("Share…");
    window.click("This image, as shown");
    window.choose("As", "A folder of the figures that are shown");
    window.choose("Format", "PNG, pixels");
    window.replace_text(Role::TextInput, "Share to", figures.display());
    window.click("Share");
    window.answer();
    window.until("the end of the sharing", |window| !window.state().is_sharing());
    let names: Vec<String> = crate::faults::tree(&figures).into_keys().collect();
    let has = |ending: &str| names.iter().any(|name| name.ends_with(ending));
    assert!(has("-predictions.png") && !has(".svg"), "{names:?}");
    // The dialog names a page that it will replace.
    window.click("File");
    window.click("Share…");
    window.replace_text(Role::TextInput, "Share to", page.display());
    assert!(window.has("Exists and will be replaced: page.html") && window.has("Replace"));
}

/// Probes that know two classes.
fn with_classes(request: Request) -> Vec<Event> {
    let mut events = succeed(request);
    for event in &mut events {
        if let Event::ProbeOpened { info, .. } = event {
            info.classes = ["cat", "dog"].map(str::to_owned).into();
        }
    }
    events
}

#[test]
fn the_list_looks_as_it_was_kept_in_both_themes() {
    let update = std::env::var("UPDATE_SNAPSHOTS").is_ok_and(|value| !matches!(&*value, "" | "0" | "false"));
    for (theme, name) in [(ThemeChoice::Light, "light"), (ThemeChoice::Dark, "dark")] {
        let mut window = Window::ready();
        window.harness.set_size(vec2(1280.0, 720.0));
        let state = window.harness.state_mut();
        state.dispatch(Command::SetTheme(theme));
        let now = state.state.finding_now(json!(null), None).expect("an image");
        let long = "# A heading\n\nThe router reads *edges* first, and the memory keeps the last of them.\n- one\n- two\n- three";
        for note in ["Looks twice", "", long] {
            state.dispatch(Command::KeepFinding(Box::new(Finding { note: note.into(), ..now.clone() })));
        }
        let toasts: Vec<u64> = state.state.toasts.iter().map(|toast| toast.id).collect();
        toasts.into_iter().for_each(|id| state.dispatch(Command::DismissToast(id)));
        state.window.show("findings");
        window.answer();
        let image = match window.harness.render() {
            Ok(image) => image,
            Err(why) => return crate::skip::missing(why),
        };
        let image = image::DynamicImage::from(image).to_rgb8();
        let pane = image::imageops::crop_imm(&image, 0, 34, 300, 420).to_image();
        let path = root().join(format!("tests/suite/snapshots/findings-{name}.png"));
        if update {
            pane.save(&path).expect("written");
        }
        let kept = image::open(&path).expect("a picture that was kept").to_rgb8();
        let (difference, at) = blocks(&kept, &pane);
        if difference > SMOOTHED {
            let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("findings-{name}.png"));
            pane.save(&new).expect("written");
            panic!("{name}: differs by {difference} at {at:?}; as it is now: {}", new.display());
        }
    }
}
