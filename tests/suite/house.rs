//! Checks of the source text against ARCHITECTURE.md: which modules may use which, file lengths, and forbidden words.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that the code of a folder or file must not contain, and why.
struct Rule {
    /// Path prefix, relative to the repository's root, of the files under the rule.
    within: &'static str,
    /// Path prefixes of the files exempt from it.
    except: &'static [&'static str],
    /// The forbidden words; see [`banned_word`].
    banned: &'static [&'static str],
    why: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        within: "src/model/",
        except: &[],
        banned: &["egui", "eframe", "crate::app", "crate::viz"],
        why: "the model does not depend on the window",
    },
    Rule {
        within: "src/model/",
        except: &[],
        banned: &["println!", "print!", "eprintln!", "eprint!", "std::thread::Builder", "thread::scope"],
        why: "the model prints nothing and starts no thread; its callers do",
    },
    Rule {
        within: "src/app/",
        except: &["src/app/terminal/", "src/app/window/app.rs"],
        banned: &["println!", "print!", "eprintln!", "eprint!"],
        why: "names may hold anything: `terminal::stdout` prints them so that they do not reach the terminal raw",
    },
    Rule {
        within: "src/viz/",
        except: &[],
        banned: &["burn", "crate::app", "safetensors::", "wgpu::"],
        why: "figures depend neither on tensors nor on the program around them",
    },
    Rule {
        within: "src/viz/",
        except: &["src/viz/export"],
        banned: &["std::fs", "File::"],
        why: "only viz/export touches files",
    },
    Rule {
        within: "src/",
        except: &["src/viz/draw/theme.rs", "src/viz/draw/paint.rs"],
        banned: &["Color32::from_", "Color32::RED", "Color32::GREEN", "Color32::BLUE"],
        why: "colours are named in viz/draw/theme.rs and reach egui in viz/draw/paint.rs",
    },
    Rule {
        within: "src/",
        except: &[],
        banned: &["fs::write"],
        why: "a crash half-way leaves half a file: write a temporary one beside it and rename it",
    },
    Rule {
        within: "src/",
        except: &[
            "src/model/io/atomic_file.rs",
            "src/model/io/temporary.rs",
            "src/model/backbone/hub/",
            "src/app/devtools/",
        ],
        banned: &["create_dir_all", "File::create", "tempfile_in"],
        why: "write by model/io/atomic_file.rs: tests let each of its steps fail, and its errors say what to do",
    },
    Rule {
        within: "src/main.rs",
        except: &[],
        banned: &["ssmprobe::model", "ssmprobe::viz", "egui", "burn"],
        why: "main.rs uses app alone",
    },
    Rule {
        within: "",
        except: &[],
        banned: &["todo!(", "unimplemented!(", "dbg!("],
        why: "no unfinished code",
    },
    Rule { within: "", except: &[], banned: &["#[ignore"], why: "a test that never runs never fails" },
];

/// Folders of one machine, which no file may name.
const MACHINE_FOLDERS: &[&str] = &["/work/", "/root/"];

/// Lines that a source file may have at most.
const MAX_LINES: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below `folder` that pass `keep`: path relative to the repository's root, with `/`, and full path; sorted.
fn files(folder: &str, keep: &dyn Fn(&Path) -> bool) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        // A missing folder has no files.
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if keep(&path) {
                let short = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
                found.push((short, path));
            }
        }
    }
    found.sort();
    found
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Relative path and text of every Rust file except this one, which names what it bans.
fn sources() -> Vec<(String, String)> {
    let folders = ["src", "tests", "benches", "examples", "fuzz"];
    let all = folders.iter().flat_map(|folder| files(folder, &is_rust));
    let others = all.filter(|(short, _)| short != "tests/suite/house.rs");
    let all: Vec<_> = others.map(|(short, path)| (short, fs::read_to_string(path).unwrap())).collect();
    assert!(all.len() > 300, "only {} files were found", all.len());
    all
}

/// Names of unit-test modules; the second is for files with tests that need a GPU, which scripts find by this name.
const UNIT_TESTS: [&str; 2] = ["tests", "gpu_tests"];

/// Line number and text of the code lines: no comments, and nothing from the unit tests on, which end a file and may print.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = UNIT_TESTS.iter().filter_map(|name| text.find(&format!("#[cfg(test)]\nmod {name} {{")));
    let end = starts.min().unwrap_or(text.len());
    let numbered = text[..end].lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The first of `banned` that a line contains as a whole word: `burn` is not in `burnish`, and `print!` is not in `sprint!`.
fn banned_word<'a>(line: &str, banned: &[&'a str]) -> Option<&'a str> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    banned.iter().copied().find(|banned| {
        line.match_indices(banned).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + banned.len()..]);
            let starts = banned.starts_with(part_of_word) && before.ends_with(part_of_word);
            let goes_on = banned.ends_with(char::is_alphanumeric) && after.starts_with(part_of_word);
            !starts && !goes_on
        })
    })
}

/// Breaches of [`RULES`], and of what `src/viz` may use of `model`, in one file; one line each.
fn breaches(short: &str, text: &str) -> String {
    let mut found = String::new();
    for rule in RULES {
        let excepted = rule.except.iter().any(|except| short.starts_with(except));
        if !short.starts_with(rule.within) || excepted {
            continue;
        }
        for (number, line) in code(text) {
            if let Some(word) = banned_word(line, rule.banned) {
                writeln!(found, "{short}:{number} holds `{word}`: {}", rule.why).unwrap();
            }
        }
    }
    if short.starts_with("src/viz/") {
        for (number, line) in code(text) {
            let reached = line.match_indices("model::").map(|(at, _)| &line[at + "model::".len()..]);
            let export: &[&str] =
                if short.starts_with("src/viz/export") { &["io::atomic_file", "io::csv_cell"] } else { &[] };
            let allowed = |rest: &str| {
                let known = [
                    "trace",
                    "grid",
                    "explain::evaluation",
                    "explain::regions",
                    "explain::removal",
                    "explain::stability",
                ]
                .iter()
                .chain(export);
                known.into_iter().any(|known| rest.starts_with(*known))
            };
            if reached.into_iter().any(|rest| !allowed(rest)) {
                writeln!(
                    found,
                    "{short}:{number} reaches past `model::trace`, `grid` and the results of `explain`"
                )
                .unwrap();
            }
        }
    }
    found
}

#[test]
fn arrows_point_one_way_and_nothing_banned_is_in() {
    let found: String = sources().iter().map(|(short, text)| breaches(short, text)).collect();
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn the_rules_catch_what_they_name() {
    let caught = [
        ("src/model/probe/head/gru/mod.rs", "use eframe::egui::Ui;"),
        ("src/model/train/mod.rs", "    println!(\"{loss}\");"),
        ("src/app/cli/mod.rs", "eprintln!(\"{name}\");"),
        ("src/viz/figures/kernel.rs", "use crate::model::probe::Probe;"),
        ("src/viz/figures/kernel.rs", "let t: burn::tensor::Tensor<2> = x;"),
        ("src/viz/figures/kernel.rs", "let file = std::fs::read(path);"),
        ("src/viz/figures/kernel.rs", "use crate::model::io::atomic_file;"),
        ("src/app/window/panels/image.rs", "ui.visuals_mut().fill = Color32::from_rgb(1, 2, 3);"),
        ("src/app/state/mod.rs", "    todo!()"),
        ("src/app/state/settings.rs", "std::fs::write(path, text)?;"),
        ("src/app/state/settings.rs", "fs::create_dir_all(folder)?;"),
        ("tests/suite/heads.rs", "#[ignore = \"slow\"]"),
    ];
    for (short, line) in caught {
        assert_ne!(breaches(short, line), "", "{short}: {line}");
    }
    let fine = [
        ("src/model/train/mod.rs", "// egui draws this"),
        ("src/model/train/mod.rs", "#[cfg(test)]\nmod tests { fn f() { println!(); } }"),
        ("src/viz/figures/kernel.rs", "use crate::model::trace::Trace;"),
        ("src/viz/export.rs", "let text = std::fs::read(path);"),
        ("src/viz/export/mod.rs", "use crate::model::io::atomic_file;"),
        ("src/viz/draw/theme.rs", "Color32::from_rgb(1, 2, 3)"),
        ("src/viz/figures/curves.rs", "let burned = sunburn + burn_in;"),
        ("src/app/window/app.rs", "eprintln!(\"no\");"),
    ];
    for (short, line) in fine {
        assert_eq!(breaches(short, line), "", "{short}: {line}");
    }
}

#[test]
fn every_source_file_says_what_it_is_and_stays_short() {
    let mut found = String::new();
    for (short, text) in sources() {
        if !text.starts_with("//! ") {
            writeln!(found, "{short} does not begin with a `//!` line that says what it is").unwrap();
        }
        let lines = text.lines().count();
        if short.starts_with("src/") && lines > MAX_LINES {
            writeln!(found, "{short} has {lines} lines, more than {MAX_LINES}: it holds two ideas").unwrap();
        }
        if short.starts_with("src/") && root().join(short.trim_end_matches(".rs")).is_dir() {
            writeln!(found, "{short} stands beside its folder: it is the folder's mod.rs").unwrap();
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

/// The second-level modules ("rooms": folders, as `model/probe`, or files, as `model/trace`) that the code of `short` names by a
/// `crate::` or `super::` path.
fn reached(short: &str, text: &str) -> BTreeSet<String> {
    let own = short.strip_prefix("src/").unwrap().trim_end_matches(".rs").trim_end_matches("/mod");
    let own: Vec<&str> = own.split('/').collect();
    let uncommented = |line: &str| line.split(" //").next().unwrap_or(line).to_owned() + "\n";
    let text: String = code(text).map(|(_, line)| uncommented(line)).collect();
    let name = |word: &str| word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let words = |path: &str| path.trim().split("::").map(name).filter(|word| !word.is_empty()).collect();
    let mut found = BTreeSet::new();
    for root in ["crate::", "super::"] {
        for (at, _) in text.match_indices(root) {
            if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut rest = &text[at..];
            let mut path: Vec<String> = own.iter().map(|part| (*part).to_owned()).collect();
            if let Some(inside) = rest.strip_prefix("crate::") {
                (path, rest) = (vec![], inside);
            }
            while let Some(above) = rest.strip_prefix("super::") {
                path.pop();
                rest = above;
            }
            // A group names several items behind one prefix: `model::{device, probe::head}`.
            let (prefix, items) = match rest.split_once('{') {
                Some((prefix, group)) if prefix.is_empty() || prefix.ends_with("::") => {
                    (prefix, group.split('}').next().unwrap_or(group).split(',').collect())
                }
                _ => ("", vec![rest]),
            };
            path.extend::<Vec<String>>(words(prefix));
            for item in items {
                let more: Vec<String> = words(item);
                let room: Vec<&str> = path.iter().chain(&more).take(2).map(String::as_str).collect();
                found.insert(room.join("/"));
            }
        }
    }
    let is_room = |path: PathBuf| path.is_dir() || path.with_extension("rs").is_file();
    found.retain(|room| room.contains('/') && is_room(root().join("src").join(room)));
    found
}

#[test]
fn no_room_needs_one_that_needs_it() {
    let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (short, text) in sources().iter().filter(|(short, _)| short.starts_with("src/")) {
        let parts: Vec<&str> = short.split('/').collect();
        if parts.len() < 3 || parts[2] == "mod.rs" {
            continue; // a file above the rooms
        }
        let room = parts[1..3].join("/").trim_end_matches(".rs").to_owned();
        let others = reached(short, text).into_iter().filter(|other| *other != room);
        needs.entry(room.clone()).or_default().extend(others);
    }
    assert!(needs["model/explain"].contains("model/probe") && needs["app/cli"].contains("model/device"));
    assert!(needs["app/crash"].contains("app/terminal") && needs["viz/draw"].contains("model/trace"));
    // Topological sort: a room is sorted once all rooms that it needs are.
    let mut sorted = BTreeSet::new();
    while let Some(next) = needs
        .keys()
        .find(|room| !sorted.contains(*room) && needs[*room].iter().all(|need| sorted.contains(need)))
    {
        sorted.insert(next.clone());
    }
    needs.retain(|room, _| !sorted.contains(room));
    assert!(needs.is_empty(), "rooms in a circle, or leaning on one: {needs:#?}");
}

#[test]
fn what_a_file_reaches_is_seen_however_it_is_written() {
    let text = "use crate::model::{device, probe::head};\nuse super::super::train::Run; // crate::viz::draw\n\
                let x = crate::app::cli::run();\nuse super::file;\nuse crate::viz::export::{a, b};\n\
                use super::super::{memo, trace::Trace};";
    let rooms = reached("src/model/explain/evaluation/mod.rs", text);
    let expected = [
        "app/cli",
        "model/device",
        "model/explain",
        "model/memo",
        "model/probe",
        "model/trace",
        "model/train",
        "viz/export",
    ];
    assert_eq!(Vec::from_iter(rooms), expected);
}

/// A file that no parent declares is never compiled, and its tests never run.
#[test]
fn every_source_file_is_listed_by_its_parent() {
    let texts = sources();
    let text_of = |short: &str| texts.iter().find(|(other, _)| other == short).map(|(_, text)| text.as_str());
    let mut found = String::new();
    let is_program =
        |short: &str| ["benches/", "examples/", "fuzz/"].iter().any(|folder| short.starts_with(folder));
    for (short, _) in texts.iter().filter(|(short, _)| !is_program(short)) {
        let path = Path::new(short);
        let (stem, folder) = (path.file_stem().unwrap().to_str().unwrap(), path.parent().unwrap());
        let (name, above) = match stem {
            "main" | "lib" => continue,
            "mod" => (folder.file_name().unwrap().to_str().unwrap(), folder.parent().unwrap()),
            name => (name, folder),
        };
        let above = above.to_str().unwrap();
        let parents = ["/mod.rs", "/lib.rs", "/main.rs", ".rs"].map(|end| format!("{above}{end}"));
        let lists = |text: &str| text.lines().any(|line| line.trim_end().ends_with(&format!("mod {name};")));
        if !parents.iter().filter_map(|parent| text_of(parent)).any(lists) && short != "src/main.rs" {
            writeln!(found, "{short} is in no `mod` line of its parent").unwrap();
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn unit_tests_that_need_a_gpu_are_found_by_name() {
    let on_gpus =
        sources().into_iter().filter(|(short, text)| short.starts_with("src/") && text.contains("gpus()"));
    let (named, other): (Vec<_>, Vec<_>) = on_gpus
        .partition(|(short, text)| short.ends_with("/gpu_tests.rs") || text.contains("mod gpu_tests {"));
    let other: Vec<_> = other.into_iter().map(|(short, _)| short).collect();
    assert!(other.is_empty(), "{other:?} have tests on GPUs, in a module of another name than gpu_tests");
    assert!(!named.is_empty());
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    let is_text = |path: &Path| {
        let extensions = ["rs", "md", "toml", "py", "ipynb", "yml", "json", "sh", "csv", "txt", "svg"];
        path.extension().is_none_or(|found| extensions.iter().any(|extension| found == *extension))
    };
    let below =
        ["src", "tests", "benches", "examples", "assets", "docs", "scripts", "python", ".ci", ".github"];
    let mut all: Vec<_> = below.iter().flat_map(|folder| files(folder, &is_text)).collect();
    let top = ["Cargo.toml", "pyproject.toml", "clippy.toml", "CITATION.cff", "README.md", "CONTRIBUTING.md"];
    for name in top.into_iter().chain(["ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md"]) {
        all.push((name.to_owned(), root().join(name)));
    }
    assert!(all.len() > 20, "only {} files were read", all.len());
    let mut found = String::new();
    for (short, path) in all.iter().filter(|(short, _)| short != "tests/suite/house.rs") {
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("{short}: {error}"));
        for (index, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
            if let Some(word) = MACHINE_FOLDERS.iter().find(|word| line.contains(**word)) {
                writeln!(found, "{short}:{} holds `{word}`", index + 1).unwrap();
            }
        }
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn the_definitions_name_every_head_every_diagnostic_every_family_and_what_code_refers_to() {
    let text = fs::read_to_string(root().join("docs/definitions.md")).unwrap();
    let heads = ssmprobe::model::probe::head::HEADS.iter().map(|kind| kind.id);
    let diagnostics = ssmprobe::model::explain::diagnostics::MEASURES.iter().map(|measure| measure.name);
    let families = ssmprobe::model::backbone::FAMILIES.iter().map(|family| family.model_type);
    for name in heads.chain(diagnostics).chain(families) {
        assert!(text.contains(&format!("`{name}`")), "docs/definitions.md does not define {name}");
    }
    for (short, source) in sources() {
        let sections = source.split("definitions.md, section").skip(1);
        let first = |rest: &str| {
            rest.trim_start_matches(['s', ' ']).split(|c: char| !c.is_numeric()).next().map(str::to_owned)
        };
        for number in sections.filter_map(first) {
            assert!(
                text.contains(&format!("\n## {number}. ")),
                "{short}: docs/definitions.md has no section {number}"
            );
        }
    }
}

#[test]
fn the_pages_name_every_project_that_is_imported() {
    let [text, readme] =
        ["docs/guide.md", "README.md"].map(|page| fs::read_to_string(root().join(page)).unwrap());
    let backbones = ssmprobe::model::backbone::original::project::PROJECTS.iter();
    let heads = ssmprobe::model::probe::original::HEAD_PROJECTS.iter();
    let named = backbones.map(|project| format!("| `{}` |", project.id));
    for name in named.chain(heads.map(|project| format!("`--as {} ", project.id))) {
        assert!(text.contains(&name), "docs/guide.md does not name {name}");
    }
    for project in ssmprobe::model::backbone::original::project::PROJECTS {
        assert!(readme.contains(project.name), "README.md does not name {}", project.name);
    }
}

/// The environment variables of this program that a text names.
fn variables(text: &str) -> BTreeSet<String> {
    let part_of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let own = |word: &&str| word.starts_with("SSMPROBE_") || word.starts_with("CUDA_EMULATOR_");
    let names = text.split(|c| !part_of_name(c)).filter(own);
    names.map(|name| name.trim_end_matches('_').to_owned()).collect()
}

#[test]
fn environment_variables_stand_in_one_list_and_no_other_does() {
    let scripts = ["scripts", ".ci", "benches", "tests/reference", "assets", "fuzz", "python"];
    let is_script =
        |path: &Path| path.extension().is_none_or(|extension| extension == "py" || extension == "sh");
    let scripts = scripts.iter().flat_map(|folder| files(folder, &is_script));
    let scripts = scripts.map(|(_, path)| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
    let found: BTreeSet<String> = sources()
        .into_iter()
        .map(|(_, text)| text)
        .chain(scripts)
        .flat_map(|text| variables(&text))
        .collect();
    let page = fs::read_to_string(root().join("docs/environment.md")).unwrap();
    let listed = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: BTreeSet<String> = listed.flat_map(variables).collect();
    assert!(found.contains("SSMPROBE_CACHE"), "{found:?}");
    let unlisted: Vec<_> = found.difference(&listed).collect();
    assert!(unlisted.is_empty(), "docs/environment.md does not say what these mean: {unlisted:?}");
    let unread: Vec<_> = listed.difference(&found).collect();
    assert!(unread.is_empty(), "docs/environment.md lists what nobody reads: {unread:?}");
}

/// Targets of the links `[text](target)` in a Markdown text, except those to other sites.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target).filter(|target| !target.contains("://"))
}

/// The anchors of a page's headings, as GitHub makes them: `## 15. Regions` is `15-regions`.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let words = headings.map(|line| line.trim_start_matches('#').trim().to_lowercase());
    words.map(move |words| words.chars().filter(kept).collect::<String>().replace(' ', "-"))
}

#[test]
fn pages_link_to_files_and_headings_that_are_there() {
    assert_eq!(links("a [b](c/d.md), [e](https://f.g)").collect::<Vec<_>>(), ["c/d.md"]);
    assert_eq!(anchors("## 15. Regions\ntext").collect::<Vec<_>>(), ["15-regions"]);
    let is_page = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let docs = files("docs", &is_page).into_iter().map(|(short, _)| short);
    let top =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md"].map(str::to_owned);
    for page in docs.chain(top) {
        let page = Path::new(&page);
        let text = fs::read_to_string(root().join(page)).unwrap();
        for target in links(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let place = if file.is_empty() { page.into() } else { page.parent().unwrap().join(file) };
            let place = root().join(place);
            let is_there = || anchors(&fs::read_to_string(&place).unwrap()).any(|known| known == anchor);
            assert!(
                place.exists() && (anchor.is_empty() || is_there()),
                "{} links to {target}, which is not there",
                page.display()
            );
        }
    }
}
