//! Messages when the other end of the pipe is not a proper worker: a stand-in for ssh fails as ssh does.

use ssmprobe::app::remote::hello::{Hello, PROTOCOL};

use super::{fixture, inspect, is_alive, read_pid, until, write_script};
use crate::run::prelude::*;

/// Runs `inspect --on` with the script `what` as `ssh`; exit code and standard error.
fn with_ssh(what: &str, place: &str) -> (i32, String) {
    let sandbox = TempDir::new().expect("a folder");
    write_script(&sandbox.path().join("ssh"), what);
    let (code, stderr) = with_path(sandbox.path(), place);
    assert!(!sandbox.path().join("out").exists(), "{stderr}");
    (code, stderr)
}

/// Runs `inspect --on` with a folder first on the PATH; exit code and standard error.
fn with_path(folder: &Path, place: &str) -> (i32, String) {
    let probe = fixture("probes/gap.safetensors").display().to_string();
    let mut command = inspect(&folder.join("out"), &["--on", place, "--probe", &probe]);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let (code, printed, stderr) = run(&mut command);
    assert_eq!(printed, "", "{stderr}");
    (code, stderr)
}

/// A shell command that prints a greeting of this protocol number.
pub fn greeting(protocol: u32) -> String {
    let mut bytes = Vec::new();
    Hello { version: "9.8".into(), ..Hello::default() }.write(&mut bytes).expect("a greeting");
    bytes[8..12].copy_from_slice(&protocol.to_le_bytes());
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{octal}'")
}

#[test]
fn what_fails_on_the_way_is_said_with_what_to_do() {
    let refused = "echo 'ssh: connect to host gpu1 port 22: Connection refused' >&2; exit 255";
    let new = "echo 'Host key verification failed.' >&2; exit 255";
    let changed = "echo 'Host key for gpu1 has changed and you have requested strict checking.' >&2
        echo 'Host key verification failed.' >&2; exit 255";
    let denied = "printf 'me@gpu1: Permission \\033[31mdenied (publickey).\\r\\n' >&2; exit 255";
    let denied_plainly = "echo 'me@gpu1: Permission denied (publickey).' >&2; exit 255";
    let absent = "echo 'sh: 1: exec: ssmprobe: not found' >&2; exit 127";
    let old = "echo \"error: unrecognized subcommand 'serve'\" >&2; exit 2";
    let crashes = "echo \"thread 'main' panicked at a driver\" >&2; exit 101";
    let prints = "printf 'Welcome\\033[31m to gpu1\\n'; exec sleep 1000";
    let (newer, older) = (greeting(PROTOCOL + 1), greeting(PROTOCOL - 1));
    let damaged = format!("{}; printf '\\001\\000\\000\\000\\007\\000'; cat > /dev/null", greeting(PROTOCOL));
    let closed = format!("{}; echo 'the last words' >&2", greeting(PROTOCOL));
    for (script, words) in [
        (refused, ["it cannot be reached", "Connection refused"]),
        (new, ["its host key is not known yet", "accept the key"]),
        (changed, ["its host key is not the known one", "ssh-keygen -R"]),
        (denied, ["it cannot be reached", "Permission \\u001b[31mdenied"]),
        (denied_plainly, ["does not accept a login without a password", "(ControlMaster)"]),
        (absent, ["it has no program `ssmprobe` that can be executed", "--remote-program"]),
        (old, ["too old. Update the program there", "unrecognized subcommand"]),
        (crashes, ["exits immediately (exit status: 101)", "panicked at a driver"]),
        (prints, ["the answer is not from this program: `Welcome\\u001b", ".bashrc"]),
        (&newer, ["(version 9.8)", "Update the program here"]),
        (&older, ["(version 9.8)", "Update the program there"]),
        (&damaged, ["compression 7, expected 0 or 1", "run the same command again"]),
        (&closed, ["the connection was lost (exit status: 0)", "the last words"]),
    ] {
        let (code, stderr) = with_ssh(script, "ssh://me@gpu1:2222");
        assert_eq!(code, 1, "{stderr}");
        for words in words.into_iter().chain(["error: ssh://me@gpu1:2222: "]) {
            assert!(stderr.contains(words), "{words} is not in:\n{stderr}");
        }
        assert!(!stderr.contains('\u{1b}'), "{stderr}");
        // Another version is no remedy for a crash.
        assert!(script != crashes || !stderr.contains("pdate"), "{stderr}");
    }
}

#[test]
fn without_ssh_nothing_is_tried() {
    let sandbox = TempDir::new().expect("a folder");
    let probe = fixture("probes/gap.safetensors").display().to_string();
    let mut command = inspect(&sandbox.path().join("out"), &["--on", "ssh://gpu1", "--probe", &probe]);
    assert_ends(command.env("PATH", sandbox.path()), 1, &["`ssh` cannot be started", "OpenSSH"]);
}

#[test]
fn a_place_that_ssh_would_take_for_a_flag_starts_nothing() {
    let sandbox = TempDir::new().expect("a folder");
    let ran = sandbox.path().join("ran");
    write_script(
        &sandbox.path().join("ssh"),
        &format!("printf '%s\\n' \"$@\" > '{}'; exit 255", ran.display()),
    );
    for place in ["ssh://-oProxyCommand=x", "ssh://a;b", "gpu1", "ssh://gpu1:0"] {
        let (code, stderr) = with_path(sandbox.path(), place);
        assert!(code == 2 && stderr.contains("expected") && !ran.exists(), "{stderr}");
    }
    with_path(sandbox.path(), "ssh://me@gpu1:2222");
    let words = fs::read_to_string(&ran).expect("what ssh was given");
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(
        words[words.len() - 7..],
        [
            "-p",
            "2222",
            "-l",
            "me",
            "--",
            "gpu1",
            "exec sh -c 'cd; PATH=~/.local/bin:$PATH; ssmprobe serve --stdio; exit $?'"
        ]
    );
    assert!(["BatchMode=yes", "-a", "-x"].iter().all(|word| words.contains(word)), "{words:?}");
}

/// A process that answers like another program is ended, not waited for.
#[test]
fn what_is_not_this_program_is_ended() {
    let sandbox = TempDir::new().expect("a folder");
    let pid = sandbox.path().join("pid");
    write_script(
        &sandbox.path().join("ssh"),
        &format!("echo $$ > '{}'; echo Welcome; exec sleep 1000", pid.display()),
    );
    let (code, stderr) = with_path(sandbox.path(), "ssh://gpu1");
    assert!(code == 1 && stderr.contains("Welcome"), "{stderr}");
    until("the end of what answered", || !is_alive(read_pid(&pid)));
}

/// Files are written to the requested folder only, whatever the other end sends.
#[test]
fn a_far_worker_writes_nothing_beside_the_results() {
    use ssmprobe::app::jobs::inspect::InspectEvent;
    use ssmprobe::app::jobs::result_file::ResultFile;
    use ssmprobe::app::jobs::{Event, JobId};
    use ssmprobe::app::remote::frame;
    let sandbox = TempDir::new().expect("a folder");
    let mut bytes = Vec::new();
    Hello::asking(false).write(&mut bytes).expect("a greeting");
    let (job, path) = (JobId(1), "../beside".into());
    for event in [InspectEvent::Begun(1), InspectEvent::File(ResultFile { path, bytes: vec![1] })] {
        frame::write(&mut bytes, &Event::Inspect { job, event }, true).expect("an event");
    }
    frame::write(&mut bytes, &Event::Finished(job), true).expect("an event");
    let file = sandbox.path().join("says");
    fs::write(&file, bytes).expect("a file");
    write_script(&sandbox.path().join("ssh"), &format!("cat '{}'; cat > /dev/null", file.display()));
    let (code, stderr) = with_path(sandbox.path(), "ssh://gpu1");
    assert!(code == 1 && stderr.contains("not inside the folder of the results"), "{stderr}");
    assert!(!sandbox.path().join("beside").exists());
}

/// The copy of the program ends with the connection: what was installed before stays.
#[test]
fn a_program_that_does_not_arrive_whole_is_not_installed() {
    let sandbox = TempDir::new().expect("a folder");
    let installed = sandbox.path().join(".local/bin/ssmprobe");
    fs::create_dir_all(installed.parent().expect("a folder")).expect("a folder");
    fs::write(&installed, "whole").expect("a file");
    let ssh = format!(
        "for script; do :; done; export HOME='{}'
        case \"$script\" in *cat*) head -c 1000 | sh -c \"$script\";; *) sh -c \"$script\";; esac",
        sandbox.path().display()
    );
    write_script(&sandbox.path().join("ssh"), &ssh);
    let mut command = program();
    command.args(["remote", "install", "gpu1"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", sandbox.path().display()));
    assert_ends(&mut command, 1, &["`copy` failed there"]);
    assert_eq!(fs::read(&installed).expect("a file"), b"whole");
}
