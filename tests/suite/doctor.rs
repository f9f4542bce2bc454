//! `ssmprobe doctor`: the lines of its report, and the names and secrets that must not be in it.

use crate::hub::{Server, usual_hub};
use crate::run::prelude::*;

/// The report of user alice with this home folder, a token for the Hub at `endpoint`, and these arguments.
fn page(home: &Path, endpoint: &str, arguments: &[&str]) -> String {
    let mut command = program();
    command.arg("doctor").args(arguments).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("XDG_RUNTIME_DIR", home);
    command.env("HOME", home).env("USER", "alice").env("WAYLAND_DISPLAY", "wayland-7");
    command.env("SSMPROBE_CACHE", home.join("data/alice/tokens"));
    command.env("HF_TOKEN", "hf_secret").env("HF_ENDPOINT", endpoint);
    command.env("https_proxy", "").env("NO_PROXY", "*");
    done(&mut command)
}

#[test]
#[cfg(unix)]
fn the_page_says_what_is_there_and_names_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("alice");
    let blobs = home.join(".cache/huggingface/hub/models--org--name/blobs");
    fs::create_dir_all(&blobs).unwrap();
    fs::write(blobs.join("a"), vec![0; 3 << 20]).unwrap();
    let (server, _): (Server, _) = usual_hub();
    let page = page(&home, &format!("http://alice:word@localhost:{}", server.port), &[]);
    let line =
        |what: &str| page.lines().find(|line| line.starts_with(what)).unwrap_or_else(|| panic!("{page}"));
    assert!(
        line("program").contains(concat!("ssmprobe ", env!("CARGO_PKG_VERSION"), ", built with flex")),
        "{page}"
    );
    assert!(line("system").contains(std::env::consts::ARCH), "{page}");
    assert!(line("demo").ends_with("assets/demo"), "{page}");
    assert!(line("display").ends_with("WAYLAND_DISPLAY"), "{page}");
    assert!(line("settings").ends_with("settings.json"), "{page}");
    assert!(line("variables").contains("SSMPROBE_CACHE=~/data/USER/tokens, HF_TOKEN is set"), "{page}");
    assert!(line("variables").ends_with("HF_ENDPOINT is set, NO_PROXY is set"), "{page}");
    assert!(line("tokens").ends_with("0 caches, 0.0 kB, in ~/data/USER/tokens"), "{page}");
    assert!(
        line("Hub").contains(&format!("http://localhost:{} responded (HTTP 404) in ", server.port)),
        "{page}"
    );
    assert!(page.contains("3.1 MB in ~/.cache/huggingface/hub\n"), "{page}");
    assert!(page.contains("token set\ncpu "), "{page}");
    assert!(line("auto selects").contains(": "), "{page}");
    for hidden in ["alice", "hf_secret", "word@", folder.path().to_str().unwrap()] {
        assert!(!page.contains(hidden), "{hidden} is on the page:\n{page}");
    }
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("authorization").is_none_or(|a| !a.contains("hf_")))
    );
}

#[test]
#[cfg(unix)]
fn no_network_is_said_and_need_not_be_asked() {
    let home = tempfile::tempdir().unwrap();
    let endpoint = "http://127.0.0.1:9"; // where nothing listens
    assert!(page(home.path(), endpoint, &[]).contains(&format!("Hub        {endpoint} does not respond: ")));
    let page = page(home.path(), endpoint, &["--offline"]);
    assert!(page.contains(&format!("Hub        {endpoint}, not checked\n")), "{page}");
}
