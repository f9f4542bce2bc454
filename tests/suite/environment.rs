//! Hostile surroundings: variables and folders of whoever starts the program.
#![cfg(unix)]

use tempfile::TempDir;

use crate::faults::tree;
use crate::run::{done, fixture, inspect, program, run};

/// The window and the Python package read what a refused command line says.
#[test]
fn a_refusal_in_a_pipe_has_no_colours_whatever_is_asked_for() {
    let (code, stdout, stderr) =
        run(program().args(["train", "--epochs", "many"]).env("CLICOLOR_FORCE", "1"));
    assert!(code == 2 && stderr.starts_with("error: invalid value 'many' for '--epochs <E>'"), "{stderr:?}");
    assert!(stdout.is_empty() && !stderr.contains('\u{1b}'), "{stderr:?}");
    let help = done(program().args(["train", "--help"]).env("CLICOLOR_FORCE", "1"));
    assert!(help.contains("Usage: ssmprobe train") && !help.contains('\u{1b}'), "{help:?}");
}

/// As after a lost connection of `ssh -X`.
#[cfg(target_os = "linux")]
#[test]
fn a_display_that_is_gone_is_named() {
    let mut command = program();
    command.args(["open", "--demo"]).env("DISPLAY", ":7777").env("WAYLAND_DISPLAY", "");
    let (code, _, stderr) = run(&mut command);
    assert!(code == 1 && stderr.contains("cannot open the window with DISPLAY=:7777; "), "{stderr}");
    assert!(!stderr.contains(".rs:"), "{stderr}");
}

/// Neither kernels nor crash reports nor settings can be kept there.
#[test]
fn without_a_home_folder_that_can_be_written_the_same_is_computed() {
    let sandbox = TempDir::with_prefix("é b-").expect("a folder");
    let results = |name: &str, home: Option<&str>| {
        let out = sandbox.path().join(name);
        let mut command = inspect(2);
        command.arg("--probe").arg(fixture("probes/gap.safetensors"));
        command.arg("--image").arg(fixture("images/one.png")).arg("--out").arg(&out);
        for variable in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        done(command.envs(home.map(|home| ("HOME", home))));
        tree(&out)
    };
    let usual = results("usual", Some(sandbox.path().to_str().expect("text")));
    assert_eq!(usual.len(), 3, "{:?}", usual.keys());
    for (name, home) in [("read-only", Some("/proc")), ("absent", Some("/proc/nowhere")), ("none", None)] {
        assert!(results(name, home) == usual, "{name}: other results");
    }
}
