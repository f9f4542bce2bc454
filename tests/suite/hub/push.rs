//! Probes pushed to a stand-in of the Hub and fetched from it again: by the library, with every failure, and by the
//! program, from a run to the numbers that others compute from `hf:`.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;
use ssmprobe::model::backbone::hub::{Hub, HubError, Progress, PushSpec, Upload};

use super::server::{Reply, Request, Server};
use super::{COMMIT, UNREACHABLE, client, proceed, sha256};
use crate::run;
use crate::run::prelude::*;

/// The state of the stand-in: one repository, the store of large files, and the hashes that were verified.
#[derive(Default)]
struct Repository {
    there: bool,
    private: bool,
    commits: Vec<String>,
    files: BTreeMap<String, Vec<u8>>,
    store: HashMap<String, Vec<u8>>,
    verified: Vec<String>,
}

type Shared = Arc<Mutex<Repository>>;

fn json(value: &Value) -> Reply {
    Reply { status: 200, body: value.to_string().into_bytes(), ..Reply::default() }
}

/// A store of large files at another origin; it takes a PUT named by its body's SHA-256, not chunked, with the Hub's header.
fn store(held: &Shared) -> Server {
    let held = held.clone();
    Server::start(move |request: &Request| {
        let oid = request.path.strip_prefix("/put/").and_then(|rest| rest.strip_suffix("?sign=secret"));
        let right =
            request.header("x-right") == Some("given") && request.header("transfer-encoding").is_none();
        match oid.filter(|oid| right && request.method == "PUT" && *oid == sha256(&request.body)) {
            Some(oid) => {
                held.lock().unwrap().store.insert(oid.to_owned(), request.body.clone());
                Reply::status(200)
            }
            None => Reply::status(403),
        }
    })
}

/// The Hub for me/birds: `.safetensors` and `.png` go to the store, other files into the commit itself.
fn stand_in(held: &Shared, store: &Server) -> Server {
    let (held, port) = (held.clone(), store.port);
    Server::start(move |request| answer(request, &mut held.lock().unwrap(), port))
}

fn answer(request: &Request, held: &mut Repository, store: u16) -> Reply {
    let path = request.path.as_str();
    if let Some(file) = path.strip_prefix("/me/birds/resolve/").and_then(|rest| rest.split_once('/')) {
        let name = file.1.replace("%5B", "[").replace("%5D", "]").replace("%3D", "=").replace("%2C", ",");
        let Some(content) = held.files.get(&name).filter(|_| file.0 == "main" || file.0 == COMMIT) else {
            return Reply::status(404).with("X-Error-Code", "EntryNotFound").with("X-Repo-Commit", COMMIT);
        };
        let etag = format!("\"{}\"", sha256(content));
        return Reply::content(request, content).with("X-Repo-Commit", COMMIT).with("ETag", etag);
    }
    let refusal = |status: u16, message: &str| Reply {
        body: json!({"error": message}).to_string().into_bytes(),
        ..Reply::status(status)
    };
    if request.header("authorization") != Some("Bearer hf_secret") {
        return refusal(401, "Invalid credentials");
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match path {
        "/api/repos/create" if held.there => refusal(409, "You already created this model repo"),
        "/api/repos/create" => {
            assert_eq!(
                (&body["type"], &body["organization"], &body["name"]),
                (&json!("model"), &json!("me"), &json!("birds"))
            );
            (held.there, held.private) = (true, body["private"] == true);
            json(&json!({"url": "made"}))
        }
        _ if !held.there => refusal(404, "Repository not found"),
        "/api/models/me/birds/preupload/main" => {
            let mode = |file: &Value| {
                let path = file["path"].as_str().unwrap();
                let sample = BASE64_STANDARD.decode(file["sample"].as_str().unwrap()).unwrap();
                assert_eq!(sample.len() as u64, file["size"].as_u64().unwrap().min(512));
                let large = path.ends_with(".safetensors") || path.ends_with(".png");
                json!({"path": path, "uploadMode": if large { "lfs" } else { "regular" }, "shouldIgnore": false})
            };
            json(&json!({"files": body["files"].as_array().unwrap().iter().map(mode).collect::<Vec<_>>()}))
        }
        "/me/birds.git/info/lfs/objects/batch" => {
            assert_eq!(request.header("content-type"), Some("application/vnd.git-lfs+json"));
            assert_eq!((&body["operation"], &body["transfers"]), (&json!("upload"), &json!(["basic"])));
            let (oid, size) = (body["objects"][0]["oid"].as_str().unwrap(), &body["objects"][0]["size"]);
            if held.store.contains_key(oid) {
                return json(&json!({"objects": [{"oid": oid, "size": size}]}));
            }
            let href = format!("http://localhost:{store}/put/{oid}?sign=secret");
            let verify = json!({"href": format!("http://{}/verify", request.header("host").unwrap())});
            let upload = json!({"href": href, "header": {"X-Right": "given"}});
            json(
                &json!({"objects": [{"oid": oid, "size": size, "actions": {"upload": upload, "verify": verify}}]}),
            )
        }
        "/verify" => {
            held.verified.push(body["oid"].as_str().unwrap().to_owned());
            Reply::status(200)
        }
        "/api/models/me/birds/commit/main" => {
            assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
            let text = String::from_utf8(request.body.clone()).unwrap();
            for line in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
                let value = &line["value"];
                let path = || value["path"].as_str().unwrap().to_owned();
                match line["key"].as_str().unwrap() {
                    "header" => held.commits.push(value["summary"].as_str().unwrap().to_owned()),
                    "file" => {
                        assert_eq!(value["encoding"], "base64");
                        let content = BASE64_STANDARD.decode(value["content"].as_str().unwrap()).unwrap();
                        held.files.insert(path(), content);
                    }
                    "lfsFile" => {
                        let oid = value["oid"].as_str().unwrap();
                        let content = held.store[oid].clone();
                        assert_eq!(
                            (value["algo"].as_str(), value["size"].as_u64()),
                            (Some("sha256"), Some(content.len() as u64))
                        );
                        held.files.insert(path(), content);
                    }
                    other => panic!("{other}"),
                }
            }
            json(&json!({"commitOid": COMMIT}))
        }
        _ => refusal(404, "no such page"),
    }
}

fn spec(update: bool) -> PushSpec {
    PushSpec { id: "me/birds".into(), update, private: false, summary: "Probes".into() }
}

fn files() -> Vec<Upload> {
    let file = |path: &str, bytes: Vec<u8>| Upload { path: path.into(), bytes };
    let odd = "s[t=0.1,i=5]-s0-best.safetensors";
    vec![
        file("README.md", b"# birds\n".into()),
        file("a-s0-best.safetensors", vec![7; 200_000]),
        file(odd, vec![8; 100]),
    ]
}

#[test]
fn what_was_pushed_is_there_and_is_fetched_as_it_is_now() {
    let (held, cache) = (Shared::default(), tempfile::tempdir().unwrap());
    let store = store(&held);
    let server = stand_in(&held, &store);
    let hub = Hub { token: Some("hf_secret".into()), ..client(&server, cache.path()) };
    let mut seen = Vec::new();
    let page = hub
        .push(&spec(false), &files(), &mut |progress: Progress<'_>| {
            seen.push((progress.file.to_owned(), progress.done, progress.total));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(page.ends_with("/me/birds"), "{page}");
    assert_eq!((seen[1].1, seen[3].0.as_str(), seen[3].1), (8, "commit", seen[3].2));
    for file in files() {
        assert_eq!(held.lock().unwrap().files[&file.path], file.bytes, "{}", file.path);
    }
    assert_eq!(held.lock().unwrap().verified.len(), 2);
    assert_eq!(held.lock().unwrap().commits, ["Probes"]);
    assert!(
        store.requests().iter().all(|request| request.header("authorization").is_none()),
        "the token left the Hub"
    );

    // Anybody reads it without a token, and from the cache without network.
    let reader = Hub { token: None, ..hub.clone() };
    for file in &files()[1..] {
        let path = reader.file(&format!("hf:me/birds/{}", file.path), &mut proceed).unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), path.file_name().unwrap().to_str().unwrap()),
            (file.bytes.clone(), &*file.path)
        );
    }
    let source = "hf:me/birds/a-s0-best.safetensors";
    let busy = Server::start(|_| Reply::status(503));
    let at = |endpoint: String| Hub { endpoint, ..reader.clone() };
    for (gone, words) in [
        (at(UNREACHABLE.to_owned()), "check the network"),
        (at(format!("http://127.0.0.1:{}", busy.port)), "status 503"),
        (Hub { offline: true, ..reader.clone() }, "give a local file"),
    ] {
        assert_eq!(fs::read(gone.file(source, &mut proceed).unwrap()).unwrap(), vec![7; 200_000]);
        assert_says(gone.file("hf:me/birds/b.safetensors", &mut proceed).unwrap_err(), &[words]);
    }
    let error = reader.file("hf:me/birds/b.safetensors", &mut proceed).unwrap_err().to_string();
    assert!(error.contains("me/birds has no file b.safetensors") && error.contains("/tree/main"), "{error}");
    assert_says(reader.file("hf:me/birds", &mut proceed).unwrap_err(), &["hf:organisation/name/file"]);

    // A second commit uploads no content that is in the store already.
    let puts = store.requests().len();
    let error = hub.push(&spec(false), &files(), &mut proceed).unwrap_err().to_string();
    assert!(error.contains("me/birds is already on the Hub") && error.contains("--update"), "{error}");
    hub.push(&spec(true), &files(), &mut proceed).unwrap();
    assert_eq!((store.requests().len(), held.lock().unwrap().commits.len()), (puts, 2));
}

#[test]
fn what_keeps_probes_from_the_hub_says_what_to_do_and_never_the_token() {
    let held = Shared::default();
    let store = store(&held);
    let cache = tempfile::tempdir().unwrap();
    let server = stand_in(&held, &store);
    let error = |hub: &Hub, update: bool| {
        let error = hub.push(&spec(update), &files(), &mut proceed).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hf_secret"), "{error:?}");
        error.to_string()
    };
    let good = Hub { token: Some("hf_secret".into()), ..client(&server, cache.path()) };
    assert!(
        error(&Hub { token: None, ..good.clone() }, false)
            .contains("log in with `hf auth login`, or set HF_TOKEN")
    );
    assert_says(
        error(&Hub { token: Some("hf_other".into()), ..good.clone() }, false),
        &["your token may not create it (me/birds)", "Invalid credentials"],
    );
    assert!(error(&Hub { offline: true, ..good.clone() }, false).contains("HF_HUB_OFFLINE forbids pushing"));
    assert!(error(&good, true).contains("the Hub has no repository me/birds"));
    let nobody = Hub { endpoint: UNREACHABLE.into(), ..good.clone() };
    assert!(error(&nobody, false).contains("cannot be reached"));
    let always = |reply: fn() -> Reply| {
        let server = Server::start(move |_| reply());
        error(&Hub { token: Some("hf_secret".into()), ..client(&server, cache.path()) }, false)
    };
    let echo = || Reply::status(403).with("X-Error-Message", "hf_secret may not");
    assert!(always(echo).contains("the Hub says: TOKEN may not"));
    assert!(always(|| Reply::status(500)).contains("answered with status 500: no reason; try again later"));
    assert!(always(|| Reply::status(429)).contains("too many requests, wait a few minutes"));
    assert!(always(|| Reply::status(307).with("Location", "http://localhost:9/x")).contains("it redirects"));
    assert!(always(|| Reply::status(200)).contains("does not say how to upload README.md"));

    // Cancelled between two files: there is no commit, and a push with `update` completes it.
    let mut stop = |progress: Progress<'_>| {
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert!(matches!(good.push(&spec(false), &files(), &mut stop), Err(HubError::CancelledPush)));
    assert!(held.lock().unwrap().there && held.lock().unwrap().commits.is_empty());
    good.push(&spec(true), &files(), &mut proceed).unwrap();
    let bad = [Upload { path: "../x".into(), bytes: Vec::new() }];
    assert!(matches!(good.push(&spec(true), &bad, &mut proceed), Err(HubError::NotAFile(_))));
}

/// The store refuses, wants a multipart upload, or cannot be reached.
#[test]
fn a_store_that_does_not_take_a_file_leaves_no_commit() {
    let cache = tempfile::tempdir().unwrap();
    for (action, words) in [
        (
            json!({"error": {"code": 422, "message": "too large"}}),
            "its store refuses a-s0-best.safetensors: too large",
        ),
        (json!({"actions": {"upload": {"href": "http://x", "header": {"chunk_size": "5"}}}}), "in parts"),
        (
            json!({"actions": {"upload": {"href": "http://127.0.0.1:9/a?sign=secret"}}}),
            "(http://127.0.0.1:9/a)",
        ),
        (json!({"actions": {"upload": {"href": "file:///etc/passwd"}}}), "cannot be reached"),
        (json!({"oid": "another"}), "does not say where"),
    ] {
        let held = Shared::default();
        let commits = held.clone();
        let server = Server::start(move |request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            if !request.path.ends_with("/batch") {
                return answer(request, &mut held.lock().unwrap(), 9);
            }
            let mut object = body["objects"][0].clone();
            object.as_object_mut().unwrap().extend(action.as_object().unwrap().clone());
            json(&json!({"objects": [object]}))
        });
        let hub = Hub { token: Some("hf_secret".into()), ..client(&server, cache.path()) };
        let error = hub.push(&spec(false), &files(), &mut proceed).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("sign=secret"), "{error}");
        assert!(commits.lock().unwrap().commits.is_empty());
    }
}

/// `ssmprobe VERB` for a user with this home folder whose Hub is `server`.
fn program(home: &Path, server: &Server, verb: &str) -> std::process::Command {
    let mut command = run::program();
    command.arg(verb).env("HOME", home);
    run::with_hub(&mut command, &home.join("hf"), server.port);
    command
}

#[test]
fn a_run_is_pushed_with_its_card_and_others_get_its_numbers() {
    let (held, home) = (Shared::default(), TempDir::new().unwrap());
    let store = store(&held);
    let server = stand_in(&held, &store);
    fs::create_dir(home.path().join("hf")).unwrap();
    fs::write(home.path().join("hf/token"), "hf_secret\n").unwrap();
    let frozen = run::root().join("tests/fixtures/frozen");
    let (notes, run) = (home.path().join("notes.md"), frozen.join("run"));
    fs::write(&notes, "What *we* found.\n").unwrap();
    let push = |more: &[&str]| {
        let mut command = program(home.path(), &server, "push");
        command
            .arg(&run)
            .args(["me/birds", "--license", "cc-by-4.0", "--heads", "sinkhorn,gap", "--notes"])
            .arg(&notes);
        run::run(command.args(more))
    };
    let (code, dry, said) = push(&["--dry-run"]);
    assert_eq!((code, server.requests().len()), (0, 0), "{said}");
    assert!(
        dry.starts_with("---\nlicense: cc-by-4.0\n") && dry.ends_with("  sinkhorn-s1-best.safetensors\n"),
        "{dry}"
    );
    let (code, page, said) = push(&[]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(page.trim(), format!("http://127.0.0.1:{}/me/birds", server.port));
    assert!(said.contains("pushed 8 files to "), "{said}");

    let files = held.lock().unwrap().files.clone();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let probes = ["gap-s0-best", "gap-s1-best", "sinkhorn-s0-best", "sinkhorn-s1-best"]
        .map(|p| format!("{p}.safetensors"));
    let mut expected = vec!["README.md", "metrics.jsonl", "results.csv", "training.png"];
    expected.extend(probes.iter().map(String::as_str));
    expected.sort_unstable();
    assert_eq!(names, expected);
    for (name, lines) in [("metrics.jsonl", 8), ("results.csv", 5)] {
        let table = String::from_utf8_lossy(&files[name]);
        assert!(table.lines().count() == lines && !table.contains("vmamba"), "{table}");
    }
    let card = String::from_utf8(files["README.md"].clone()).unwrap();
    assert!(dry.starts_with(&card), "the card of --dry-run is the one that is sent");
    for words in [
        "- \"sinkhorn\"\n",
        "# birds\n\nWhat *we* found.\n\n",
        "of backbone, made by SSMProbe. Task: classify the 3 classes of data (disc-stripes, square-checks, triangle-dots)",
        "2 seeds, mean ± sample standard deviation",
        " ± ",
        "![Loss and accuracy by epoch](training.png)",
        "--probe hf:me/birds/gap-s0-best.safetensors",
        "ssmprobe train --heads=gap,sinkhorn --backbone=backbone --data=data --epochs=2",
        "## Licence\n\ncc-by-4.0, for the probes",
    ] {
        assert!(card.contains(words), "{words:?} is not in\n{card}");
    }
    assert!(!card.contains("DESK") && !card.contains("VMamba") && !card.contains("hf_secret"), "{card}");
    let picture = image::load_from_memory(&files["training.png"]).unwrap();
    assert!(picture.width() > 800 && files["training.png"].len() > 5000);

    // The pushed probe gives the same arrays as the local one, to the byte.
    let look = |probe: &str, out: &str| {
        let mut command = program(home.path(), &server, "inspect");
        let out = home.path().join(out);
        command.arg("--backbone").arg(fixture("backbone")).arg("--image").arg(fixture("images"));
        command.args(["--device", "cpu", "--null-draws", "4", "--probe", probe, "--out"]).arg(&out);
        run::done(&mut command);
        let mut written = tree(&out);
        written.retain(|name, _| name.ends_with(".npz"));
        written
    };
    let local = run.join("probes/sinkhorn-s1-best.safetensors");
    let pushed = look("hf:me/birds/sinkhorn-s1-best.safetensors", "there");
    assert!(pushed.len() > 1 && pushed == look(local.to_str().unwrap(), "here"));
    let mut command = program(home.path(), &server, "eval");
    command.arg("--backbone").arg(fixture("backbone")).arg("--data").arg(frozen.join("data"));
    command.args(["--device", "cpu", "--json", "--cache"]).arg(home.path().join("tokens"));
    command.args(["--probe", "hf:me/birds/gap-s0-best.safetensors", "hf:me/birds/none.safetensors"]);
    let (code, _, said) = run::run(&mut command);
    assert!(code == 1 && said.contains("me/birds has no file none.safetensors"), "{said}");

    // No file but `hf/token` holds the token.
    let (code, _, said) = push(&[]);
    assert!(code == 1 && said.contains("is already on the Hub") && !said.contains("hf_secret"), "{said}");
    for (name, bytes) in tree(home.path()) {
        assert!(name == "hf/token" || !String::from_utf8_lossy(&bytes).contains("hf_secret"), "{name}");
    }
    // Where there is no repository yet: a private one, with the probes after the last epoch.
    assert!(!held.lock().unwrap().private);
    *held.lock().unwrap() = Repository::default();
    let (code, _, said) = push(&["--private", "--last"]);
    let held = held.lock().unwrap();
    assert!(code == 0 && held.private, "{said}");
    for (name, bytes) in held.files.iter().filter(|(name, _)| name.ends_with(".safetensors")) {
        assert!(
            name.contains("-last.") && *bytes == fs::read(run.join("probes").join(name)).unwrap(),
            "{name}"
        );
    }
    assert_eq!(held.files.len(), 8);
    drop(held);
    let wrong = |words: &[&str]| run::run(program(home.path(), &server, "push").arg(&run).args(words));
    for words in [
        &["birds", "--license", "mit"][..],
        &["me/birds"],
        &["me/birds", "--license", "my own"],
        &["me/birds", "--license", "mit", "--heads", "none"],
    ] {
        assert_eq!(wrong(words).0, 2, "{words:?}");
    }
}
