//! Backbones from the Hugging Face Hub, against a local server that answers its paths.

mod push;
mod server;
mod slow;
mod token;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Mutex;

use ssmprobe::model::backbone::hub::{Hub, HubError, Progress, TIMEOUT};
use ssmprobe::model::backbone::weights::Weights;
use ssmprobe::model::io::sha256::of_bytes as sha256;

pub use server::Server;
use server::{Reply, Request};

use crate::run::{assert_says, root};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const CONFIG: &[u8] = b"{\"model_type\": \"vit\"}\n";
/// An endpoint at which nothing listens.
const UNREACHABLE: &str = "http://127.0.0.1:9";

/// A valid safetensors file of 240,000 bytes of zeros and a header.
fn model() -> Vec<u8> {
    let header = r#"{"w":{"dtype":"F32","shape":[60000],"data_offsets":[0,240000]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 240_000]].concat()
}

/// The store of large files; `answer` makes a reply from the request and the content of [`model`].
fn store(answer: impl Fn(&Request, &[u8]) -> Reply + Send + Sync + 'static) -> Server {
    let model = model();
    Server::start(move |request| answer(request, &model))
}

/// A Hub with the repository org/name of these `files`: it sends small ones itself, answers for larger ones with a redirect
/// to `store`, and for `preprocessor_config.json` with a relative redirect.
fn hub(files: &[(&'static str, Vec<u8>)], store: &Server) -> Server {
    let (files, port) = (files.to_vec(), store.port);
    Server::start(move |request| {
        let path = request.path.as_str();
        let commit = |reply: Reply| reply.with("X-Repo-Commit", COMMIT);
        let named = path.strip_prefix("/org/name/resolve/").or(path.strip_prefix("/api/resolve-cache/"));
        let Some((revision, file)) = named.and_then(|named| named.split_once('/')) else {
            return Reply::status(404).with("X-Error-Code", "RepoNotFound");
        };
        if !["main", "v1", COMMIT].contains(&revision) {
            return Reply::status(404).with("X-Error-Code", "RevisionNotFound");
        }
        let Some((_, content)) = files.iter().find(|(name, _)| *name == file) else {
            return commit(Reply::status(404).with("X-Error-Code", "EntryNotFound"));
        };
        if content.len() > 10_000 {
            let location = format!("http://localhost:{port}/{file}");
            let reply = Reply::status(302).with("Location", location).with("ETag", "\"other\"");
            let etag = format!("\"{}\"", sha256(content));
            return commit(
                reply.with("X-Linked-ETag", etag).with("X-Linked-Size", content.len().to_string()),
            );
        }
        if file == "preprocessor_config.json" && path.starts_with("/org") {
            return commit(Reply::status(307))
                .with("Location", format!("/api/resolve-cache/{revision}/{file}"));
        }
        let reply =
            Reply { sizeless: file == "preprocessor_config.json", ..Reply::content(request, content) };
        commit(reply).with("ETag", format!("W/\"{}\"", &sha256(content)[..40]))
    })
}

/// The files of a usual repository.
fn usual() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("config.json", CONFIG.into()),
        ("preprocessor_config.json", b"{}".into()),
        ("model.safetensors", model()),
    ]
}

/// A client of `server` without a token.
pub fn client(server: &Server, cache: &Path) -> Hub {
    client_at(format!("http://127.0.0.1:{}", server.port), cache)
}

fn client_at(endpoint: String, cache: &Path) -> Hub {
    Hub { endpoint, cache: cache.into(), token: None, offline: false, certificates: None, timeout: TIMEOUT }
}

/// An offline client whose endpoint cannot be reached.
fn offline_client(cache: &Path) -> Hub {
    Hub { offline: true, ..client_at(UNREACHABLE.into(), cache) }
}

/// Why a client does not get org/name.
fn refusal(client: &Hub) -> String {
    client.resolve("org/name", &mut proceed).unwrap_err().to_string()
}

/// A Hub with the usual repository and the other description of the preprocessing, and the contents of its files.
pub fn usual_hub() -> (Server, Vec<Vec<u8>>) {
    let files: Vec<_> = usual().into_iter().chain([("processor_config.json", b"{}".to_vec())]).collect();
    let server = hub(&files, &store(Reply::content));
    (server, files.into_iter().map(|(_, content)| content).collect())
}

/// A progress callback that never cancels.
fn proceed(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn a_backbone_is_fetched_once() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(Reply::content);
    let server = hub(&usual(), &store);
    let client = Hub { token: Some("hf_secret".into()), ..client(&server, cache.path()) };
    assert!(client.downloads("org/name") && !offline_client(cache.path()).downloads("org/name"));
    let mut seen: Vec<(String, u64, u64)> = Vec::new();
    let dir = client
        .resolve("org/name", &mut |p| {
            seen.push((p.file.into(), p.done, p.total));
            ControlFlow::Continue(())
        })
        .unwrap();

    let repo = cache.path().join("models--org--name");
    assert_eq!(dir, repo.join("snapshots").join(COMMIT));
    assert_eq!(fs::read(dir.join("config.json")).unwrap(), CONFIG);
    assert_eq!(fs::read(dir.join("preprocessor_config.json")).unwrap(), b"{}");
    assert_eq!(Weights::open(&dir).unwrap().fingerprint(), sha256(&model()));
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    let blob = Path::new("../../blobs").join(sha256(&model()));
    #[cfg(unix)]
    assert_eq!(fs::read_link(dir.join("model.safetensors")).unwrap(), blob);
    assert_eq!(fs::read_dir(repo.join("blobs")).unwrap().count(), 3, "contents and no rests in {blob:?}");

    let weights: Vec<_> = seen.iter().filter(|(file, ..)| file == "model.safetensors").collect();
    assert!(weights.windows(2).all(|w| w[0].1 <= w[1].1), "{weights:?}");
    assert_eq!((weights[0].1, weights[0].2), (0, model().len() as u64));
    assert_eq!(weights.last().unwrap().1, model().len() as u64);

    assert!(server.requests().len() > 2, "{:?}", server.requests().len());
    assert!(server.requests().iter().all(|r| r.header("authorization") == Some("Bearer hf_secret")));
    assert!(store.requests().iter().all(|r| r.header("authorization").is_none()), "the token left the Hub");

    let before = server.requests().len();
    assert_eq!(client.resolve("org/name", &mut proceed).unwrap(), dir);
    assert_eq!(client.resolve(&format!("org/name@{COMMIT}"), &mut proceed).unwrap(), dir);
    // As in a cache of Python's, which did not ask for it.
    fs::remove_file(repo.join(".no_exist").join(COMMIT).join("processor_config.json")).unwrap();
    assert_eq!(client.resolve("org/name", &mut proceed).unwrap(), dir);
    assert_eq!(server.requests().len(), before, "all was here");
    assert_eq!(Hub { offline: true, ..client.clone() }.resolve("org/name", &mut proceed).unwrap(), dir);
    // Another name for the same commit costs requests, but no download.
    assert_eq!(client.resolve("org/name@v1", &mut proceed).unwrap(), dir);
    assert_eq!(store.requests().len(), 1);
    assert_eq!(fs::read_to_string(repo.join("refs/v1")).unwrap(), COMMIT);
}

#[test]
fn of_two_preprocessors_both_are_fetched() {
    let cache = tempfile::tempdir().unwrap();
    let (server, _) = usual_hub();
    let dir = client(&server, cache.path()).resolve("org/name", &mut proceed).unwrap();
    assert!(dir.join("preprocessor_config.json").is_file() && dir.join("processor_config.json").is_file());
}

#[test]
fn what_a_repository_lacks_is_asked_for_once() {
    let cache = tempfile::tempdir().unwrap();
    let bin = root().join("tests/fixtures/weights/bin-shards");
    let read = |name: &str| fs::read(bin.join(name)).unwrap();
    let names = [
        "pytorch_model.bin.index.json",
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model-00002-of-00002.bin",
    ];
    let mut files: Vec<_> = names.iter().map(|&name| (name, read(name))).collect();
    files.push(("config.json", CONFIG.into()));
    let store = store(Reply::content);
    let server = hub(&files, &store);
    let client = client(&server, cache.path());
    let dir = client.resolve("org/name", &mut proceed).unwrap();
    assert!(Weights::open(&dir).unwrap().contains("transposed"));
    let absent = cache.path().join("models--org--name/.no_exist").join(COMMIT);
    assert_eq!(fs::read_dir(&absent).unwrap().count(), 5, "two preprocessors, two of safetensors, one bin");
    let before = server.requests().len();
    assert_eq!(client.resolve("org/name", &mut proceed).unwrap(), dir);
    assert_eq!(server.requests().len(), before);
    // Without the `.no_exist` marks the client asks again, but does not need an answer.
    fs::remove_dir_all(&absent).unwrap();
    let unreachable = Hub { endpoint: UNREACHABLE.into(), ..client };
    assert_eq!(unreachable.resolve("org/name", &mut proceed).unwrap(), dir);
}

#[test]
fn a_broken_download_goes_on_by_itself() {
    let cache = tempfile::tempdir().unwrap();
    // Retries go on for as long as each brings new bytes.
    let store = store(|request, model| {
        let cut = match request.header("range") {
            None => Some(1000),
            Some("bytes=1000-" | "bytes=71000-" | "bytes=141000-") => Some(70_000),
            Some(_) => None,
        };
        Reply { cut, ..Reply::content(request, model) }
    });
    let server = hub(&usual(), &store);
    let dir = client(&server, cache.path()).resolve("org/name", &mut proceed).unwrap();
    assert_eq!(fs::read(dir.join("model.safetensors")).unwrap(), model());
    let from = [1000, 71_000, 141_000, 211_000].map(|from| Some(format!("bytes={from}-")));
    assert_eq!(store.ranges(), [&[None][..], &from].concat());
}

#[test]
fn a_download_that_was_given_up_or_cancelled_is_resumed() {
    let cache = tempfile::tempdir().unwrap();
    let broken = store(|request, model| Reply {
        cut: Some(if request.header("range").is_none() { 5000 } else { 0 }),
        ..Reply::content(request, model)
    });
    let server = hub(&usual(), &broken);
    let error = client(&server, cache.path()).resolve("org/name", &mut proceed).unwrap_err();
    assert!(matches!(error, HubError::Interrupted { done: 5000, .. }), "{error}");
    assert!(error.to_string().contains("model.safetensors stopped at 5000 of"), "{error}");

    let whole = store(Reply::content);
    let server = hub(&usual(), &whole);
    let client = client(&server, cache.path());
    let mut cancel =
        |p: Progress| if p.done > 100_000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    assert!(matches!(client.resolve("org/name", &mut cancel), Err(HubError::Cancelled)));
    let partial =
        cache.path().join("models--org--name/blobs").join(format!("{}.incomplete", sha256(&model())));
    let kept = fs::metadata(&partial).unwrap().len();
    assert!(kept > 100_000 && kept < model().len() as u64);
    let dir = client.resolve("org/name", &mut proceed).unwrap();
    assert_eq!(fs::read(dir.join("model.safetensors")).unwrap(), model());
    assert_eq!(whole.ranges(), [Some("bytes=5000-".into()), Some(format!("bytes={kept}-"))]);
    assert!(!partial.exists());
}

#[test]
fn a_server_without_ranges_serves_too() {
    let cache = tempfile::tempdir().unwrap();
    let count = Mutex::new(0);
    let store = store(move |_, model| {
        let mut count = count.lock().unwrap();
        *count += 1;
        Reply { status: 200, body: model.into(), cut: (*count == 1).then_some(4000), ..Reply::default() }
    });
    let server = hub(&usual(), &store);
    let dir = client(&server, cache.path()).resolve("org/name", &mut proceed).unwrap();
    assert_eq!(fs::read(dir.join("model.safetensors")).unwrap(), model());
}

#[test]
fn a_part_that_was_not_asked_for_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    // It is as long as the rest, and begins a byte before it.
    let store = store(|request, model| match request.header("range") {
        None => Reply { cut: Some(4000), ..Reply::content(request, model) },
        Some(_) => Reply { status: 206, body: model[3999..model.len() - 1].to_vec(), ..Reply::default() }
            .with("Content-Range", format!("bytes 3999-{}/{}", model.len() - 2, model.len())),
    });
    let server = hub(&usual(), &store);
    assert_says(refusal(&client(&server, cache.path())), &["bytes from 4000 on were requested"]);
}

#[test]
fn bytes_that_are_not_those_announced_are_discarded() {
    for (what, change) in [("damaged", 0), ("longer", 1)] {
        let cache = tempfile::tempdir().unwrap();
        let store = store(move |request, model| {
            let mut model = model.to_vec();
            model[100_000] ^= 1;
            model.resize(model.len() + change, 0);
            Reply::content(request, &model)
        });
        let server = hub(&usual(), &store);
        assert_says(refusal(&client(&server, cache.path())), &[what, "model.safetensors"]);
        let blobs = cache.path().join("models--org--name/blobs");
        let left: u64 = fs::read_dir(blobs).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(left < 1000, "{left} bytes are left");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let cache = tempfile::tempdir().unwrap();
    let error = |reply: fn() -> Reply, token: Option<&str>| {
        let server = Server::start(move |_| reply());
        let hub = Hub { token: token.map(Into::into), ..client(&server, cache.path()) };
        let error = hub.resolve("org/name@v1", &mut proceed).unwrap_err().to_string();
        let before = error.split_once("://").map_or(error.as_str(), |(before, _)| before);
        assert!(before.contains("org/name"), "it is named before any address: {error}");
        error
    };
    let unknown = || Reply::status(401).with("X-Error-Code", "RepoNotFound");
    assert!(error(unknown, None).contains("set HF_TOKEN"));
    assert!(error(unknown, Some("hf_x")).contains("does not let your token"));
    let gated =
        || Reply::status(403).with("X-Error-Code", "GatedRepo").with("X-Error-Message", "Ask the authors.");
    assert_says(error(gated, Some("hf_x")), &["request access at http://127.0.0.1", "Ask the authors."]);
    let echo = || Reply::status(403).with("X-Error-Message", "hf_x may not");
    assert!(error(echo, Some("hf_x")).contains("the Hub says: TOKEN may not"));
    assert!(error(|| Reply::status(403), None).contains("check HF_ENDPOINT and proxies"), "it is not gated");
    let missing = || Reply::status(404).with("X-Error-Code", "RepoNotFound");
    assert!(error(missing, None).contains("no repository org/name"));
    let revision = || Reply::status(404).with("X-Error-Code", "RevisionNotFound");
    assert!(error(revision, None).contains("no revision \"v1\""));
    assert!(error(|| Reply::status(404), None).contains("has no config.json"));
    assert!(error(|| Reply::status(429), None).contains("too many requests"));
    assert!(error(|| Reply::status(503), None).contains("status 503"));
    // A proxy's page, circular redirects, and names that would leave the cache.
    assert!(error(|| Reply::status(200), None).contains("no X-Repo-Commit"));
    assert!(error(|| Reply::status(302).with("Location", "/org/name"), None).contains("too many redirects"));
    assert!(error(|| Reply::status(302), None).contains("redirect to nowhere"));
    assert!(
        error(|| Reply::status(302).with("Location", "file:///etc/passwd"), None)
            .contains("an invalid address")
    );
    let evil = || Reply::status(200).with("X-Repo-Commit", "../../x").with("ETag", "\"a\"");
    assert!(error(evil, None).contains("no X-Repo-Commit"));
    let evil = || Reply::status(200).with("X-Repo-Commit", COMMIT).with("ETag", "\"../../../x\"");
    assert!(error(evil, None).contains("no ETag"));

    // Another kind of model is refused before its weights are requested.
    let resnet = hub(&[("config.json", b"{\"model_type\": \"resnet\"}".into())], &store(Reply::content));
    let text = refusal(&client(&resnet, tempfile::tempdir().unwrap().path()));
    assert!(text.contains("`model_type` is \"resnet\""), "{text}");
    let none = hub(&[("config.json", CONFIG.into())], &store(Reply::content));
    assert_says(refusal(&client(&none, cache.path())), &["has no model.safetensors or pytorch_model.bin"]);
}

#[test]
fn without_network_the_error_says_what_to_put_where() {
    let cache = tempfile::tempdir().unwrap();
    let hub = offline_client(cache.path());
    let text = refusal(&hub);
    let advice = "create a folder name, put config.json, preprocessor_config.json and model.safetensors";
    assert_says(&text, &["HF_HUB_OFFLINE forbids downloading config.json", advice]);
    assert!(text.contains("give that folder instead of org/name"), "{text}");
    assert!(text.contains("there is no local folder org/name"), "a misspelt path looks like an id: {text}");
    // The address of a mirror may hold a password.
    let endpoint = UNREACHABLE.replace("//", "//me:secret@");
    let text = refusal(&Hub { offline: false, endpoint, ..hub.clone() });
    assert!(text.starts_with("org/name: the Hub cannot be reached: "), "{text}");
    assert!(text.contains("//127.0.0.1:9/org/name/resolve/main/config.json); "), "{text}");
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains(advice), "{text}");

    let none = cache.path().join("none.pem");
    fs::write(&none, "").unwrap();
    let text = refusal(&Hub { offline: false, certificates: Some(none), ..hub.clone() });
    assert!(text.contains("none.pem (SSL_CERT_FILE)"), "{text}");

    // With some files in the cache, only the missing ones are named.
    let repo = cache.path().join("models--org--name");
    let snapshot = repo.join("snapshots").join(COMMIT);
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::write(repo.join("refs/main"), COMMIT).unwrap();
    fs::write(snapshot.join("config.json"), CONFIG).unwrap();
    fs::write(snapshot.join("preprocessor_config.json"), "{}").unwrap();
    assert_says(refusal(&hub), &["forbids downloading model.safetensors;"]);
    let index = r#"{"weight_map": {"a": "s-1.safetensors", "b": "s-2.safetensors"}}"#;
    fs::write(snapshot.join("model.safetensors.index.json"), index).unwrap();
    fs::write(snapshot.join("s-1.safetensors"), "x").unwrap();
    assert_says(refusal(&hub), &["forbids downloading s-2.safetensors;"]);
}

#[test]
fn a_folder_wins_and_a_path_is_no_id() {
    let dir = tempfile::tempdir().unwrap();
    let hub = offline_client(dir.path());
    let path = dir.path().to_str().unwrap();
    assert_eq!(hub.resolve(path, &mut proceed).unwrap(), dir.path());
    assert_says(hub.resolve(&format!("{path}/vit"), &mut proceed).unwrap_err(), &["does not exist"]);
}

#[test]
fn two_programs_at_once_fetch_once() {
    let cache = tempfile::tempdir().unwrap();
    let store = store(Reply::content);
    let server = hub(&usual(), &store);
    let client = client(&server, cache.path());
    let one = || client.resolve("org/name", &mut proceed).unwrap();
    let (a, b) = std::thread::scope(|scope| {
        let (a, b) = (scope.spawn(one), scope.spawn(one));
        (a.join().unwrap(), b.join().unwrap())
    });
    assert_eq!(a, b);
    assert_eq!(fs::read(a.join("model.safetensors")).unwrap(), model());
    assert_eq!(store.requests().len(), 1);
}

#[test]
fn what_does_not_fit_on_the_disk_is_not_begun() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|request| {
        let reply = match request.path.rsplit('/').next() {
            Some("config.json") => Reply::content(request, CONFIG).with("ETag", "\"abc\""),
            Some("model.safetensors") => Reply::status(302)
                .with("Location", "http://localhost:1/model")
                .with("X-Linked-ETag", "\"abcd\"")
                .with("X-Linked-Size", (1_u64 << 60).to_string()),
            _ => Reply::status(404).with("X-Error-Code", "EntryNotFound"),
        };
        reply.with("X-Repo-Commit", COMMIT)
    });
    assert_says(
        refusal(&client(&server, cache.path())),
        &["model.safetensors needs 1152921504606846976 bytes more and the disk has"],
    );
}

#[test]
fn a_configuration_of_a_terabyte_is_not_fetched() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::start(|_| {
        Reply::status(302)
            .with("X-Repo-Commit", COMMIT)
            .with("Location", "http://localhost:1/config.json")
            .with("X-Linked-ETag", "\"abc\"")
            .with("X-Linked-Size", (1_u64 << 40).to_string())
    });
    assert_says(refusal(&client(&server, cache.path())), &["config.json is reported as 1099511627776 bytes"]);
    assert!(server.requests().iter().all(|request| request.method == "HEAD"), "it was fetched");
}
