//! `ssmprobe report --html`: the content of the page. Its behaviour in a browser is tested by `scripts/test-all browser`.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use ssmprobe::app::report::Source;
use ssmprobe::app::report::html::{FIGURES, Page, Part, choose};
use ssmprobe::app::report::table::{Cell, Column, Row, Table};
use ssmprobe::app::state::share::TrueClass;
use ssmprobe::model::trace::{Picture, Prediction, Trace};
use ssmprobe::model::train::run::Outcome;

use crate::run;
use crate::run::prelude::*;
use crate::{frozen, traces};

pub(super) fn ssmprobe(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(folder).args(arguments);
    command
}

/// The text between the first `from` and the `to` after it.
pub(super) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("{from}"));
    rest.split_once(to).unwrap().0
}

/// The data of the page's script: base64 of gzipped JSON.
fn data(html: &str) -> Value {
    let packed = STANDARD.decode(between(html, "id=\"data\">", "</script>")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The SVGs of a page, light and dark in turn, assembled from its data as its script does.
pub(super) fn figures(html: &str) -> Vec<String> {
    let data = data(html);
    let whole = |svg: &str| {
        let mut parts = svg.split("base64,@");
        let mut out = parts.next().unwrap().to_owned();
        for part in parts {
            let (at, rest) = part.split_once('"').unwrap();
            let part = |at: &str| data["pixels"][at.parse::<usize>().unwrap()].as_str().unwrap();
            let pixels: String = at.split(',').map(part).collect();
            out.push_str(&format!("base64,{pixels}\"{rest}"));
        }
        out
    };
    let mut all = Vec::new();
    for figure in data["figures"].as_array().unwrap() {
        let parts: Vec<&str> =
            figure["svg"].as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
        match parts[..] {
            [both] => all.extend([0, 1].map(|theme| {
                let lines: Vec<&str> = both.split('\n').skip(theme).step_by(2).collect();
                whole(&lines.join("\n"))
            })),
            [light, dark] => all.extend([whole(light), whole(dark)]),
            _ => panic!("{} parts", parts.len()),
        }
    }
    all
}

fn page(traces: Vec<Trace>) -> Page {
    Page {
        title: "A page".to_owned(),
        figures: FIGURES.to_vec(),
        ..Page::from_traces(traces.into_iter().map(Arc::new).collect())
    }
}

/// The true class of an image, and the classes of a probe that may be it.
fn true_class(image: &str, probe: &str, name: &str, own: &[usize]) -> TrueClass {
    let (image, probe, name) = (image.to_owned(), probe.to_owned(), name.to_owned());
    TrueClass { image, probe, name, own: Some(own.to_vec()) }
}

fn keep(folder: &Path, traces: &[Trace]) {
    for trace in traces {
        fs::write(folder.join(format!("{}.json", trace.head)), serde_json::to_vec(trace).unwrap()).unwrap();
    }
}

#[test]
fn pictures_of_a_page_are_those_of_figures_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let all = [traces::sinkhorn_trace(), traces::vmamba_trace(), traces::gap_trace()];
    keep(folder.path(), &all);
    let files = all.each_ref().map(|trace| format!("{}.json", trace.head));
    let [sinkhorn, vmamba, gap] = files.each_ref().map(String::as_str);
    let asked = ["report", "--html", "page.html", "--trace", sinkhorn, vmamba, gap];
    done(&mut ssmprobe(
        folder.path(),
        &[&asked[..], &["--figure", "token_map,evidence,assignment"]].concat(),
    ));
    let html = fs::read_to_string(folder.path().join("page.html")).unwrap();
    let shown: BTreeSet<String> = figures(&html).into_iter().collect();
    let mut drawn = BTreeSet::new();
    // The commands that the page itself names.
    for line in
        between(&html, "<pre tabindex=\"0\">", "</pre>").lines().filter(|line| line.contains(" figures "))
    {
        let command = between(line, "--trace TRACE ", " --theme").split(' ').collect::<Vec<_>>();
        for file in &files {
            for theme in ["light", "dark"] {
                let asked =
                    [&["figures", "--trace", file][..], &command, &["--theme", theme, "--out", "one.svg"]];
                if run::run(&mut ssmprobe(folder.path(), &asked.concat())).0 == 0 {
                    drawn.insert(fs::read_to_string(folder.path().join("one.svg")).unwrap());
                }
            }
        }
    }
    assert_eq!((shown.len(), drawn.len()), (12, 12), "{}", shown.len());
    assert!(shown == drawn, "a figure is another than `figures` writes");
}

#[test]
fn what_is_called_like_markup_is_text() {
    let evil = "<script>alert(1)</script>\"'&\u{202e}";
    let mut trace = traces::sinkhorn_trace();
    trace.image = format!("{evil}.png");
    trace.probe = format!("{evil}.safetensors");
    trace.top = vec![Prediction { index: 0, name: evil.to_owned(), logit: 1.0, probability: 0.5 }];
    trace.evidence.class = 0;
    let rows = vec![Row { ruled: false, cells: vec![Cell::text(evil), Cell::number(1.5, 2)] }];
    let columns = vec![Column::words(evil), Column::numbers(evil)];
    let table = Table { id: "t".into(), title: evil.to_owned(), columns, rows, notes: vec![evil.to_owned()] };
    let said = || Some(evil.to_owned());
    let part = page(vec![trace.clone()]).parts.remove(0);
    let page = Page {
        title: evil.to_owned(),
        notes: said(),
        parts: vec![Part { note: said(), ..part }],
        truth: vec![true_class(&trace.image, &trace.probe, evil, &[])],
        tables: vec![table],
        facts: vec![(evil.to_owned(), evil.to_owned())],
        commands: vec![evil.to_owned()],
        ..page(vec![trace])
    };
    let html = page.html();
    assert_eq!(html.matches("<script").count(), 2, "the data and the program's own");
    assert!(!html.contains("alert(1)</script>") && !html.contains('\u{202e}'));
    assert!(html.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count() > 12);
    // The policy allows no request, and no script or style but the page's own.
    let policy = between(&html, "Content-Security-Policy\" content=\"", "\">");
    for (kind, from, to) in [("script", "</script>\n<script>", "</script>"), ("style", "<style>", "</style>")]
    {
        let hash = STANDARD.encode(Sha256::digest(between(&html, from, to)));
        assert!(policy.contains(&format!("{kind}-src 'sha256-{hash}'")), "{policy}");
    }
    assert!(policy.starts_with("default-src 'none'; img-src data:; ") && !policy.contains("unsafe"));
    assert!(
        !between(&html, "<body>", "id=\"data\">").contains(" style="),
        "the policy allows no style of an element"
    );
}

#[test]
fn evidence_that_is_not_finite_is_null_which_the_script_knows() {
    let mut trace = traces::gap_trace();
    trace.evidence.token.as_mut().unwrap()[0] = f32::INFINITY;
    let html = page(vec![trace]).html();
    assert!(data(&html)["traces"][0]["evidence"][0].is_null());
    let number = between(&html, "const number = ", "\n");
    assert!(number.starts_with("(value) => (value === null ? \"not finite\" : "), "{number}");
}

#[test]
fn classes_are_chosen_among_those_that_are_stored() {
    let named = |head: &str, class: usize, name: &str| {
        let mut trace = traces::sinkhorn_trace();
        trace.probe = format!("{head}.safetensors");
        trace.evidence.class = class;
        trace.evidence.token.as_mut().unwrap().fill(class as f32 + if head == "b" { 0.25 } else { 0.0 });
        trace.top = vec![Prediction { index: class, name: name.to_owned(), logit: 1.0, probability: 0.5 }];
        trace
    };
    let html = page(vec![named("a", 1, "cat"), named("a", 2, "dog"), named("b", 2, "dog")]).html();
    let options = between(&html, "<select>", "</select>");
    let expected = "<option value=\"0\">dog</option><option value=\"1\">cat</option>";
    assert_eq!(options, expected, "what all have comes first");
    assert!(html.contains("data-traces=\"0,1\"") && html.contains("data-traces=\"2,\""));
    // Traces by probe, in the order of the classes: dog and cat of probe a, dog of probe b.
    let data = data(&html);
    let evidence = [0, 1, 2].map(|at| data["traces"][at]["evidence"][0].as_f64().unwrap());
    assert_eq!(evidence, [2.0, 1.0, 2.25]);
    let shown = html.split("<article ").nth(1).unwrap();
    let numbers = between(shown, "data-figures=\"", "\"").replace("&quot;", "\"");
    let [dog, cat]: [String; 2] = serde_json::from_str(&numbers).unwrap();
    let light = |number: &str| figures(&html)[2 * number.parse::<usize>().unwrap()].clone();
    assert!(dog != cat && light(&dog).contains("dog") && light(&cat).contains("cat"));
    let texts = between(shown, "data-texts=\"", "\"").replace("&quot;", "\"");
    let texts: [String; 2] = serde_json::from_str(&texts).unwrap();
    assert!(texts[0].contains("through a, for dog") && texts[1].contains("through a, for cat"), "{texts:?}");
    assert!(html.contains("No evidence for cat is stored for this probe"));
    // A reading order does not depend on the class, so the page holds one per probe, not one per class.
    let shown: BTreeSet<String> = figures(&html).into_iter().collect();
    assert_eq!(
        shown.iter().filter(|svg| svg.contains("<title>Reading order")).count(),
        4,
        "two probes, two themes"
    );
    let lonely = page(vec![named("a", 1, "cat"), named("b", 2, "dog")]).html();
    assert!(lonely.contains("<option value=\"0\">the class that each probe predicts</option>"));
    // An older probe has the WordNet id alone.
    let older = vec![named("a", 1, "n02012849"), named("b", 1, "crane (n02012849)")];
    let truth = vec![true_class(&older[0].image, &older[0].probe, "n02012849", &[1])];
    let html = Page { truth, ..page(older) }.html();
    let options = between(&html, "<select disabled>", "</select>");
    assert_eq!(options, "<option value=\"0\">crane (n02012849) (true)</option>");
}

#[test]
fn probes_of_one_name_have_columns_of_their_own() {
    let of_run = |run: &str| Trace { probe: format!("{run}/probes/gap.safetensors"), ..traces::gap_trace() };
    let html = page(["mae", "dino"].map(of_run).to_vec()).html();
    let names: Vec<&str> = html.split("<h3>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    assert_eq!(names, ["gap · mae", "gap · dino"]);
}

#[test]
fn probes_of_one_name_are_told_apart_without_the_name_of_who_made_the_page() {
    let sandbox = tempfile::tempdir().unwrap();
    for (file, folder) in [("1.trace.json", "/data"), ("2.trace.json", "/home/ann")] {
        let trace = Trace { probe: format!("{folder}/gap.safetensors"), ..traces::gap_trace() };
        fs::write(sandbox.path().join(file), serde_json::to_vec(&trace).unwrap()).unwrap();
    }
    let asked = ["report", "--html", "page.html", "--trace", "1.trace.json", "2.trace.json"];
    done(ssmprobe(sandbox.path(), &asked).env("USER", "ann"));
    let html = fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert!(html.contains("<h3>gap</h3>") && html.contains("<h3>gap · USER</h3>"));
}

#[test]
fn two_images_of_one_name_are_told() {
    let sandbox = tempfile::tempdir().unwrap();
    let mut traces = [traces::sinkhorn_trace(), traces::gap_trace()];
    traces[1].seen = traces[0].seen.clone();
    let asked = ["report", "--html", "page.html", "--trace", "sinkhorn.json", "gap.json"];
    let said = |traces: &[Trace]| {
        keep(sandbox.path(), traces);
        succeeds(&mut ssmprobe(sandbox.path(), &asked)).1.contains("different pictures under this name")
    };
    assert!(!said(&traces));
    traces[1].seen.rgb[0] ^= 1;
    assert!(said(&traces));
    traces[1].backbone = "another, which may crop otherwise".to_owned();
    assert!(!said(&traces));
}

#[test]
fn probes_stand_in_their_order_and_are_judged_by_the_truth() {
    let seen = |image: &str, head: &str, best: &str| {
        let mut trace = traces::gap_trace();
        (trace.image, trace.probe) = (format!("{image}.png"), format!("{head}.safetensors"));
        let said = |(index, name): (usize, &str)| Prediction {
            index,
            name: name.to_owned(),
            logit: 1.0 - index as f32,
            probability: 0.6 - 0.3 * index as f32,
        };
        trace.evidence.class = 0;
        trace.top = [best, "other"].into_iter().enumerate().map(said).collect();
        trace
    };
    let row = |name: &str, value: f64| Row {
        ruled: false,
        cells: vec![Cell::text(name), Cell::number(value, 1), Cell::None],
    };
    let columns = vec![Column::words("Method"), Column::numbers("Share"), Column::numbers("p")];
    let rows = vec![row("b", 12.04), row("a", 12.03), row("c", -0.5)];
    let notes = vec!["as they are".to_owned()];
    let page = Page {
        truth: vec![
            true_class("two.png", "zinc.safetensors", "owl", &[0]),
            true_class("two.png", "alum.safetensors", "owl", &[]),
            true_class("one.png", "zinc.safetensors", "wren", &[0]),
            true_class("one.png", "alum.safetensors", "wren", &[1]),
        ],
        tables: vec![Table { id: "t".into(), title: "Shares".to_owned(), columns, rows, notes }],
        ..page(vec![
            seen("one", "zinc", "wren"),
            seen("one", "alum", "owl"),
            seen("two", "zinc", "owl"),
            seen("two", "alum", "auk"),
            seen("three", "zinc", "owl"),
        ])
    };
    let html = page.html();
    let sections: Vec<&str> = html.split("<section class=\"image\"").skip(1).collect();
    let heads = |section: &str| -> Vec<String> {
        section.split("<h3>").skip(1).map(|rest| rest.split('<').next().unwrap().to_owned()).collect()
    };
    let answers = |section: &str| -> Vec<String> {
        let all = section.split("<p class=\"answer\">").skip(1);
        all.map(|rest| rest.split("</p>").next().unwrap().to_owned()).collect()
    };
    let [one, two, three] = sections[..] else { panic!("{} images", sections.len()) };
    assert!(one.contains("one.png <small>is wren</small>") && two.contains("two.png <small>is owl</small>"));
    assert!(three.contains(">three.png</h2>"), "nothing is known of its class");
    assert_eq!([one, two, three].map(heads), [vec!["zinc", "alum"], vec!["zinc", "alum"], vec!["zinc"]]);
    let [right, wrong] = [("right", "✓ right"), ("wrong", "✗ wrong")]
        .map(|(class, text)| format!("<b class=\"{class}\">{text}</b> "));
    let share = " <small>60.0 %</small>";
    assert_eq!(answers(one), [format!("{right}wren{share}"), format!("{wrong}owl{share}")]);
    let unknown = "auk <small>60.0 %; true class unknown to the probe</small>".to_owned();
    assert_eq!(answers(two), [format!("{right}owl{share}"), unknown]);
    assert_eq!(answers(three), [format!("owl{share}")]);
    let nav = between(&html, "<nav aria-label=\"Images\"><ol>\n", "</ol>");
    let links =
        [("one", " <small>1 of 2 right</small>"), ("two", " <small>1 of 1 right</small>"), ("three", "")];
    let links = links.iter().enumerate();
    let links: String = links
        .map(|(at, (image, said))| format!("<li><a href=\"#image-{at}\">{image}.png</a>{said}</li>\n"))
        .collect();
    assert_eq!(nav, links);
    // A table keeps its order; its script sorts by the values before rounding.
    let table = between(&html, "<tbody>\n", "</tbody>");
    let line = |name: &str, value: &str, text: &str| {
        format!(
            "<tr><td><span>{name}</span></td><td class=\"number\" data-value=\"{value}\">{text}</td>\
             <td class=\"number\">–</td></tr>\n"
        )
    };
    assert_eq!(
        table,
        [line("b", "12.04", "12.0"), line("a", "12.03", "12.0"), line("c", "-0.5", "-0.5")].concat()
    );
    assert!(
        html.contains("<th scope=\"col\" aria-sort=\"none\"><button type=\"button\">Method</button></th>")
    );
    assert!(html.contains(
        "<th scope=\"col\" aria-sort=\"none\" class=\"number\"><button type=\"button\">Share</button></th>"
    ));
    assert!(html.contains("<li>as they are</li>"));
}

/// A picture that compresses as badly as a photograph: waves with noise on them.
pub(super) fn photograph(seed: u32) -> Picture {
    let (side, mut state) = (224_usize, seed);
    let mut rgb = Vec::new();
    for at in 0..side * side * 3 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (x, y) = ((at / 3 % side) as f32, (at / 3 / side) as f32);
        let wave = (x / 17.0 + seed as f32).sin() + (y / 23.0).cos() + ((x + y) / 5.0).sin() * 0.3;
        rgb.push((128.0 + 45.0 * wave + (state >> 28) as f32) as u8);
    }
    Picture { width: side, height: side, rgb }
}

#[test]
fn twelve_photographs_through_four_probes_stay_below_three_megabytes() {
    let heads =
        [traces::sinkhorn_trace(), traces::neuralsort_trace(), traces::vmamba_trace(), traces::gap_trace()];
    let image = |number: u32| {
        let seen = photograph(number);
        heads.clone().map(|trace| Trace { image: format!("photo-{number}.jpg"), seen: seen.clone(), ..trace })
    };
    let html = page((0..12).flat_map(image).collect()).html();
    assert_eq!(data(&html)["traces"].as_array().unwrap().len(), 48);
    assert!(html.len() > 700_000, "{}: these are no photographs", html.len());
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
}

#[test]
fn what_cannot_be_shown_or_written_leaves_the_page_that_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = traces::gap_trace();
    keep(folder.path(), std::slice::from_ref(&whole));
    let text = serde_json::to_string(&whole).unwrap();
    fs::write(at("cut.json"), &text[..text.len() / 2]).unwrap();
    fs::write(
        at("short.json"),
        serde_json::to_vec(&Trace { token_weight: Some(vec![1.0]), ..whole }).unwrap(),
    )
    .unwrap();
    fs::create_dir(at("newer")).unwrap();
    let manifest =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/frozen/run/run.json"))
            .unwrap();
    let newer = manifest.replacen("\"format\": 1", "\"format\": 2", 1);
    assert_ne!(newer, manifest);
    fs::write(at("newer/run.json"), newer).unwrap();
    fs::write(at("page.html"), "as it was").unwrap();
    fs::write(at("file"), "no folder").unwrap();
    fs::write(at("notes.md"), [0xff, 0xfe]).unwrap();
    let failures = [
        (
            1,
            &["--html", "page.html", "--trace", "cut.json"][..],
            "cut.json is not a trace, which `ssmprobe inspect",
        ),
        (1, &["--html", "page.html", "--trace", "short.json"], "short.json: the trace is inconsistent"),
        (2, &["--html", "page.html", "--trace", "none.json"], "cannot read none.json"),
        (1, &["--html", "page.html", "newer"], "newer/run.json"),
        (2, &["--html", "file/page.html", "--trace", "gap.json"], "file is a file"),
        (1, &["--html", "page.html", "--trace", "gap.json", "--notes", "notes.md"], "--notes notes.md"),
        (2, &["--html", "page.html", "--trace", "gap.json", "--figure", "moon"], "expected one of photo"),
        (2, &["--html", "page.html"], "<RUN>"),
        (2, &["--trace", "gap.json"], "--html"),
    ];
    for (code, arguments, said) in failures {
        assert_ends(&mut ssmprobe(folder.path(), &[&["report"], arguments].concat()), code, &[said]);
        assert_eq!(fs::read_to_string(at("page.html")).unwrap(), "as it was", "{arguments:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    // These places cannot be written to by root either.
    let folder = tempfile::tempdir().unwrap();
    keep(folder.path(), &[traces::gap_trace()]);
    fs::create_dir(folder.path().join("folder")).unwrap();
    for (place, code, said) in
        [("gap.json/page.html", 2, "gap.json: cannot be created"), ("folder", 2, "folder: is a folder")]
    {
        let mut report = ssmprobe(folder.path(), &["report", "--html", place, "--trace", "gap.json"]);
        assert_ends(&mut report, code, &[said]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn images_of_a_run_are_explained_through_its_probes() {
    let sandbox = frozen::sandbox();
    fs::write(sandbox.path().join("notes.md"), "Look at *this*.").unwrap();
    let asked = ["report", "run", "--html", "pages/page.html", "--device", "cpu", "--notes", "notes.md"];
    let more = ["--save-traces", "traces", "--probe", "sinkhorn,gap-s1"];
    done(&mut ssmprobe(sandbox.path(), &[&asked[..], &more].concat()));
    let html = fs::read_to_string(sandbox.path().join("pages/page.html")).unwrap();
    let place = sandbox.path().to_str().unwrap();
    assert!(!html.contains(place) && !data(&html).to_string().contains(place), "it says where it was made");
    for each in ["<section class=\"image\"", "<h3>sinkhorn-s", "<h3>gap-s1-best", "(true)</option>"] {
        assert_eq!(html.matches(each).count(), choose::IMAGES, "{each}");
    }
    assert!(html.contains("<p>Look at <em>this</em>.</p>") && html.contains("<caption>"));
    // Evidence for the image's true class comes first.
    for section in html.split("<section class=\"image\"").skip(1) {
        let own = between(section, "<small>is ", "</small>");
        let first = section.split("<option value=\"0\">").nth(1).unwrap().split('<').next().unwrap();
        assert_eq!(first, format!("{own} (true)"));
        assert!(section.find("<h3>sinkhorn-s") < section.find("<h3>gap-s1-best"), "as they were asked for");
    }
    // The saved traces are enough to make the page again, with the same data.
    let files = run::entries(&sandbox.path().join("traces"));
    let files: Vec<&str> =
        files.iter().map(|file| file.strip_prefix(sandbox.path()).unwrap().to_str().unwrap()).collect();
    done(&mut ssmprobe(
        sandbox.path(),
        &[&["report", "run", "--html", "again.html", "--trace"], &files[..]].concat(),
    ));
    let again = fs::read_to_string(sandbox.path().join("again.html")).unwrap();
    assert_eq!(between(&again, "id=\"data\">", "</script>"), between(&html, "id=\"data\">", "</script>"));
    assert!(again.contains("(true)</option>"));
    // Nothing is said of a probe with other classes than the run, most of which its trace does not name.
    let mut other: Value = serde_json::from_slice(&fs::read(sandbox.path().join(files[0])).unwrap()).unwrap();
    let top = other["top"].as_array_mut().unwrap();
    top.truncate(1);
    top[0]["name"] = "another".into();
    fs::write(sandbox.path().join("other.trace.json"), serde_json::to_vec(&other).unwrap()).unwrap();
    let trace = ["--trace", "other.trace.json"];
    done(&mut ssmprobe(sandbox.path(), &[&["report", "run", "--html", "other.html"], &trace[..]].concat()));
    let other = fs::read_to_string(sandbox.path().join("other.html")).unwrap();
    assert!(again.contains("✓ right") || again.contains("✗ wrong"));
    assert!(
        !other.contains("✓ right") && !other.contains("✗ wrong") && !other.contains("true class unknown")
    );
    // The page says by which flags it was made, without folders.
    let flags = ["--figure", "token_map", "--notes", "./notes.md", "--title", "Two", "--table", "main"];
    done(&mut ssmprobe(
        sandbox.path(),
        &[&["report", "run", "--html", "again.html", "--trace"][..], &files[..1], &flags].concat(),
    ));
    let again = fs::read_to_string(sandbox.path().join("again.html")).unwrap();
    assert!(again.contains("<pre tabindex=\"0\">ssmprobe report run --html again.html --trace "));
    assert!(again.contains(" --figure token_map --notes notes.md --title Two --table main\n"));
    for (asked, said) in [(["--probe", "moon"], "choose one of"), (["--image", "moon"], "images begin with")]
    {
        let arguments = [&["report", "run", "--html", "x.html"], &asked[..]].concat();
        assert_ends(&mut ssmprobe(sandbox.path(), &arguments), 2, &[said]);
    }
    // Images or probes that were changed since are told by the predictions.
    let asked = ["report", "run", "--html", "x.html", "--device", "cpu", "--probe", "gap-s1"];
    let said = "of 6 predictions differ from those in the training, first gap-s1-best.safetensors on ";
    assert!(!succeeds(&mut ssmprobe(sandbox.path(), &asked)).1.contains(said));
    let file = sandbox.path().join("run/answers/gap-s1.json");
    let mut outcome: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for class in outcome["best"].as_array_mut().unwrap() {
        *class = ((class.as_u64().unwrap() + 1) % 3).into();
    }
    fs::write(&file, serde_json::to_vec(&outcome).unwrap()).unwrap();
    let (_, stderr) = succeeds(&mut ssmprobe(sandbox.path(), &asked));
    assert!(stderr.contains(&format!("6 {said}")), "{stderr}");
    // A probe of another dataset in the place of one of the run.
    let other = root().join("tests/fixtures/inspect/probes/gap.safetensors");
    fs::copy(other, sandbox.path().join("run/probes/gap-s1-best.safetensors")).unwrap();
    assert_ends(&mut ssmprobe(sandbox.path(), &asked), 1, &["gap-s1-best.safetensors: has other classes"]);
    fs::rename(sandbox.path().join("data"), sandbox.path().join("moved")).unwrap();
    let mut report = ssmprobe(sandbox.path(), &["report", "run", "--html", "x.html"]);
    assert_ends(&mut report, 1, &["run.json", "`--data DIR`"]);
}

#[test]
fn classes_of_one_inspection_are_chosen_on_its_page() {
    let sandbox = tempfile::tempdir().unwrap();
    let at = |name: &str| root().join("tests/fixtures/inspect").join(name).to_str().unwrap().to_owned();
    let [backbone, image] = [at("backbone"), at("images/one.png")];
    let [gap, sinkhorn] = ["gap", "sinkhorn"].map(|name| at(&format!("probes/{name}.safetensors")));
    let asked =
        ["inspect", "--device", "cpu", "--null-draws", "4", "--backbone", &backbone, "--image", &image];
    let more = ["--probe", &gap, &sinkhorn, "--class", "tench,Owl", "--save-traces", "--out", "seen"];
    done(&mut ssmprobe(sandbox.path(), &[&asked[..], &more].concat()));
    let probes = ["gap", "sinkhorn"].iter();
    let files: Vec<String> = probes
        .flat_map(|probe| ["tench", "Owl"].map(|class| format!("seen/one/{probe}-for-{class}.trace.json")))
        .collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    done(&mut ssmprobe(
        sandbox.path(),
        &[&["report", "--html", "page.html", "--trace"], &files[..]].concat(),
    ));
    let html = fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    assert_eq!(
        between(&html, "<select>", "</select>"),
        "<option value=\"0\">tench</option><option value=\"1\">Owl</option>"
    );
    assert!(
        html.contains("data-traces=\"0,1\"") && html.contains("data-traces=\"2,3\""),
        "two of each probe"
    );
    let folder = root().display().to_string();
    assert!(!html.contains(&folder) && figures(&html).iter().all(|svg| !svg.contains(&folder)));
    // Each class of each probe has an evidence figure of its own, in two themes.
    let shown: BTreeSet<String> = figures(&html).into_iter().collect();
    assert_eq!(shown.iter().filter(|svg| svg.contains("<title>Evidence by token")).count(), 8);
}

#[test]
fn classes_that_are_asked_for_are_stored_of_every_image() {
    let sandbox = frozen::sandbox();
    let source = Source::open(&sandbox.path().join("run")).unwrap();
    let names = &source.run.manifest.dataset.classes;
    let asked = format!("{},2", names[0]);
    let page = ["report", "run", "--html", "page.html", "--device", "cpu", "--probe", "sinkhorn,gap"];
    done(&mut ssmprobe(sandbox.path(), &[&page[..], &["--class", &asked]].concat()));
    let html = fs::read_to_string(sandbox.path().join("page.html")).unwrap();
    let selects: Vec<&str> = html.split("<select>").skip(1).collect();
    assert_eq!(selects.len(), choose::IMAGES);
    for select in selects {
        let options: Vec<&str> = select.split("</select>").next().unwrap().split("<option").skip(1).collect();
        assert!(options.len() == 2 && options[0].contains(&names[0]) && options[1].contains(&names[2]));
    }
    assert!(html.contains(&format!("--class {asked} ")));
    let unknown = [&page[..], &["--class", "unicorn"]].concat();
    assert_ends(&mut ssmprobe(sandbox.path(), &unknown), 2, &["`unicorn`"]);
}

#[test]
fn a_page_shows_probes_of_every_kind_and_images_that_part_them() {
    let sandbox = frozen::sandbox();
    let source = Source::open(&sandbox.path().join("run")).unwrap();
    let probes = choose::probes(&source, &[]).unwrap();
    let heads: Vec<&str> = probes.iter().map(|outcome| outcome.head.as_str()).collect();
    assert_eq!(heads.len(), choose::PROBES);
    assert!(
        heads[..2].contains(&"sinkhorn") && heads[..2].contains(&"softsort") && heads[2] == "vmamba",
        "{heads:?}"
    );
    // Of every head the best training; heads of one kind by accuracy.
    let best = |head: &str| {
        let all = source.outcomes_of(head).filter_map(Outcome::best_accuracy);
        all.fold(0.0, f64::max)
    };
    for probe in &probes {
        assert_eq!(probe.best_accuracy(), Some(best(&probe.head)), "{}", probe.head);
    }
    assert!(best(heads[0]) >= best(heads[1]), "{heads:?}");
    let asked = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let found = choose::probes(&source, &names).unwrap();
        found.iter().map(|outcome| (outcome.head.clone(), outcome.seed)).collect::<Vec<_>>()
    };
    let known = |seed: u64| ("sinkhorn".to_owned(), seed);
    let [own, other] = [asked(&["sinkhorn-s1", "sinkhorn-s0"]), asked(&["sinkhorn-s0", "sinkhorn-s1"])];
    assert_eq!((own, other), (vec![known(1), known(0)], vec![known(0), known(1)]));
    let images = choose::images(&source, &probes, &[]).unwrap();
    let parted = |at: usize| {
        let right = probes.iter().filter(|probe| probe.best[at] as usize == source.truth.classes[at]).count();
        right > 0 && right < probes.len()
    };
    let count = (0..source.truth.images.len()).filter(|at| parted(*at)).count();
    assert!(count > 0 && images.iter().take(count).all(|at| parted(*at)), "{count} of {images:?}");
    let file = source.truth.images[1].rsplit('/').next().unwrap().to_owned();
    let asked = choose::images(&source, &probes, &[source.truth.images[2].clone()]).unwrap();
    assert_eq!(asked, [2]);
    assert_eq!(choose::images(&source, &probes, &[file]).unwrap(), [1]);
}
