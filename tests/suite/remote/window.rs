//! The window with a worker in another process: connecting, browsing files there, sending files, a worker that is killed,
//! workspaces that name their host, and hosts that do not answer.

use std::fs;
use std::process::Output;

use ssmprobe::app::jobs::train::TrainSettings;
use ssmprobe::app::remote::hello::PROTOCOL;
use ssmprobe::app::state::connection::{Connection, Host};
use ssmprobe::app::state::{ColumnState, Phase};

use super::errors::greeting;
use super::sshd::Sshd;
use super::train::training_pid;
use super::{children, fixture, is_alive, kill, read_pid, worker, write_script};
use crate::evaluation;
use crate::faults::{child, is_child};
use crate::run::Sandbox;
use crate::sitting::Sitting;
use crate::training_window::File;
use crate::window::prelude::*;

impl Sitting {
    /// A window that is connected to a worker process, and the file with the worker's process id.
    fn connected() -> (Self, PathBuf) {
        let mut sitting = Self::new();
        let (script, pid) = worker(sitting.folder.path());
        sitting.connect("local", &script);
        sitting.until("a connection", Self::stands);
        (sitting, pid)
    }

    pub(super) fn connect(&mut self, place: &str, program: &Path) {
        let program = Some(program.to_str().expect("text").to_owned());
        self.harness.state_mut().connect(Some(Host { place: place.to_owned(), program }));
    }

    pub(super) fn stands(&self) -> bool {
        matches!(self.state().connection, Connection::Connected { .. })
    }

    fn is_lost(&self) -> bool {
        matches!(self.state().connection, Connection::Lost { .. })
    }

    /// Fills in the training form, and waits for its plan.
    pub(super) fn plan_training(&mut self, form: TrainSettings) {
        self.wants(Command::SetTrainForm(Box::new(form)));
        self.wants(Command::PlanTraining);
        self.until("a plan", |s| matches!(s.state().training.preflight().0, Some(Ok(_))));
    }

    fn press(&mut self, modifiers: Modifiers, key: Key) {
        self.harness.key_press_modifiers(modifiers, key);
        self.harness.run_steps(4);
    }

    fn fill(&mut self, label: &str, text: &str) {
        self.harness.get_by_role_and_label(Role::TextInput, label).focus();
        self.harness.run_steps(2);
        self.press(Modifiers::COMMAND, Key::A);
        self.harness.event(egui::Event::Text(text.to_owned()));
        self.harness.run_steps(4);
    }

    fn drop_file(&mut self, path: &Path) {
        self.harness.input_mut().dropped_files = vec![Arc::new(File(path.to_owned()))];
        self.harness.step();
    }

    /// Opens a backbone, a probe and the images of the fixtures.
    fn open(&mut self) {
        self.wants(Command::OpenBackbone(fixture("backbone").display().to_string()));
        self.wants(Command::OpenProbes(vec![fixture("probes/sinkhorn.safetensors")]));
        self.wants(Command::OpenImages(vec![fixture("images")]));
        self.until("a trace", Self::is_shown);
    }

    fn trace(&self) -> Option<&Arc<Trace>> {
        match &self.state().columns.values().next()?.shown {
            ColumnState::Ready(trace) => Some(trace),
            _ => None,
        }
    }

    fn is_shown(&self) -> bool {
        self.trace().is_some() && !self.state().is_explaining()
    }

    pub(super) fn says(&self, words: &str) -> bool {
        self.state().log_text().contains(words)
    }
}

/// Suspends a worker, so that requests have no answer; its process id.
fn suspend(pid: &Path) -> u32 {
    let pid = read_pid(pid);
    crate::interrupts::send("-STOP", pid);
    pid
}

fn text(trace: &Trace) -> String {
    serde_json::to_string(trace).expect("JSON")
}

#[test]
fn what_a_window_shows_over_a_pipe_is_what_it_shows_without_one() {
    let mut here = Sitting::new();
    here.open();
    let (mut there, _) = Sitting::connected();
    assert!(there.has("Connected to a separate process"));
    assert!(there.says("ssmprobe 0") && there.says("which can compute on cpu"));
    there.until("memory of the worker", |s| s.has("Memory there: "));
    there.open();
    assert!(there.has("Device: cpu ("));
    let [own, far] = [&here, &there].map(|sitting| text(sitting.trace().expect("a trace")));
    assert!(own.len() > 10_000 && own == far);
    let pictures = |s: &Sitting| {
        s.state().library.images.keys().filter(|id| s.state().thumbnails.get(**id).is_some()).count()
    };
    there.until("small pictures", |s| pictures(s) > 0);
    // Back to this machine, with nothing open; the open items are put aside.
    there.click("File");
    there.click("Connect…");
    there.click("This program");
    there.until("this program", |s| s.state().connection == Connection::Here);
    assert!(there.state().library.probes.is_empty() && there.state().columns.is_empty());
    assert_eq!(there.state().settings.recent.workspaces.len(), 1);
    there.open();
    assert_eq!(text(there.trace().expect("a trace")), own);
}

#[test]
fn a_dataset_is_evaluated_over_a_pipe() {
    let data = evaluation::dataset(2);
    let (mut there, _) = Sitting::connected();
    there.open();
    there.wants(Command::OpenDataset(data.path().to_owned(), None));
    there.until("a dataset", |s| s.state().dataset().is_some());
    there.wants(Command::Evaluate { all: false });
    let found = |s: &Sitting| -> Option<Arc<Evaluation>> {
        s.state().evaluation_of(*s.state().columns.keys().next()?)?.ok().cloned()
    };
    there.until("an evaluation", |s| found(s).is_some());
    let evaluation = found(&there).expect("an evaluation");
    assert_eq!(evaluation.len(), 6);
    assert!(there.has(&format!("sinkhorn, accuracy {:.1} %", evaluation.accuracy())));
}

#[test]
fn a_worker_that_is_killed_is_followed_by_another_that_does_the_rest() {
    let (mut sitting, pid) = Sitting::connected();
    sitting.open();
    let shown = sitting.trace().expect("a trace").clone();
    let first = suspend(&pid);
    fs::remove_file(&pid).expect("a file");
    // A request to a worker that does not answer any more.
    sitting.wants(Command::Step(1));
    sitting.wants(Command::OpenProbes(vec![fixture("probes/gap.safetensors")]));
    kill(first);
    sitting.until("a lost connection", |s| s.says("Connection lost"));
    assert!(sitting.says("its program was killed (signal: 9"));
    sitting.until("another connection", Sitting::stands);
    assert_ne!(read_pid(&pid), first);
    sitting.until("what was asked", |s| s.is_shown() && s.state().columns.len() == 2);
    let now = sitting.trace().expect("a trace").clone();
    assert_ne!(now.image, shown.image);
    assert!(
        sitting.state().jobs.values().all(|job| job.error.is_none())
            && sitting.says("again: everything open or pending")
    );
    // The log has no more entries than without a loss.
    let mut here = Sitting::new();
    here.open();
    here.wants(Command::Step(1));
    here.until("the other image", |s| {
        s.is_shown() && s.trace().is_some_and(|trace| trace.image == now.image)
    });
    assert_eq!(text(here.trace().expect("a trace")), text(&now));
    assert!(!is_alive(first));
    let second = read_pid(&pid);
    drop(sitting);
    crate::interrupts::until("the end of the worker", || !is_alive(second));
}

#[test]
fn what_is_shown_stays_while_nobody_answers() {
    let (mut sitting, pid) = Sitting::connected();
    sitting.open();
    let shown = sitting.trace().expect("a trace").clone();
    // The next worker cannot be started.
    let script = sitting.folder.path().join("worker");
    let text = fs::read_to_string(&script).expect("a script");
    write_script(&script, "echo 'no such thing' >&2; exit 3");
    kill(read_pid(&pid));
    sitting.until("a lost connection", |s| s.has("Connection lost: ") && s.says("no such thing"));
    assert!(Arc::ptr_eq(sitting.trace().expect("a trace"), &shown));
    sitting.wants(Command::Step(1));
    // A job cancelled in the meantime ends at once.
    sitting.wants(Command::OpenProbes(vec![fixture("probes/gap.safetensors")]));
    let waits = *sitting.state().jobs.iter().find(|(_, job)| job.title.contains("gap")).expect("a job").0;
    sitting.wants(Command::Cancel(waits));
    sitting.until("the end of a job", |s| !s.state().jobs.contains_key(&waits));
    write_script(&script, &text);
    sitting.until("a button", |s| s.harness.query_by_label("Connect now").is_some() || s.stands());
    if let Some(button) = sitting.harness.query_by_label("Connect now") {
        button.click();
    }
    sitting.until("a connection", Sitting::stands);
    sitting
        .until("the other image", |s| s.is_shown() && s.trace().is_some_and(|now| now.image != shown.image));
    assert!(sitting.harness.query_by_label("Connect now").is_none());
}

#[test]
fn files_are_looked_for_where_it_is_computed() {
    let (mut sitting, _) = Sitting::connected();
    sitting.press(Modifiers::COMMAND, Key::P);
    assert!(sitting.has("Probes on a separate process"));
    sitting.until("the user's own folder", |s| s.state().browser.folder.is_some());
    // A missing folder is an error, and the last listing stays.
    let before = sitting.state().browser.folder.clone();
    sitting.fill("Path", "/no such folder");
    sitting.press(Modifiers::NONE, Key::Enter);
    sitting.until("why it is not listed", |s| s.has("/no such folder: the folder cannot be read"));
    assert_eq!(sitting.state().browser.folder, before);
    assert!(sitting.state().jobs.is_empty());
    let probes = fixture("probes");
    sitting.fill("Path", probes.parent().and_then(Path::to_str).expect("text"));
    sitting.press(Modifiers::NONE, Key::Enter);
    let listed = |s: &Sitting, path: &Path| {
        s.state().browser.folder.as_ref().is_some_and(|folder| folder.path == path)
    };
    sitting.until("the folder above", |s| listed(s, probes.parent().expect("a folder")));
    // By keyboard alone, as the filter has the focus.
    sitting.harness.event(egui::Event::Text("prob".to_owned()));
    sitting.harness.run_steps(4);
    sitting.press(Modifiers::NONE, Key::ArrowDown);
    sitting.press(Modifiers::NONE, Key::Enter);
    sitting.until("the folder of probes", |s| listed(s, &probes));
    sitting.press(Modifiers::ALT, Key::ArrowUp);
    sitting.until("the folder above", |s| !listed(s, &probes));
    sitting.fill("Path", probes.join("gap.safetensors").to_str().expect("text"));
    sitting.press(Modifiers::NONE, Key::Enter);
    sitting.until("a file by its path", |s| listed(s, &probes));
    sitting.click("Open");
    let gap = |s: &Sitting| {
        s.state()
            .library
            .probes
            .values()
            .any(|probe| probe.status.ready().is_some() && probe.path == probes.join("gap.safetensors"))
    };
    sitting.until("the probe", gap);
    // It opens in the last folder, and can be cancelled as any dialog.
    sitting.press(Modifiers::COMMAND, Key::O);
    sitting.until("the same folder", |s| s.has("Images on") && listed(s, &probes));
    sitting.press(Modifiers::NONE, Key::Escape);
    assert!(!sitting.has("Images on"));
}

#[test]
fn what_is_dropped_is_sent_over_and_what_is_too_large_is_not() {
    let (mut sitting, _) = Sitting::connected();
    let image = fixture("images/one.png");
    sitting.drop_file(&image);
    sitting.until("the image", |s| s.state().library.images.len() == 1);
    let place = sitting.state().library.images.values().next().expect("one").source.path.clone();
    assert!(place.starts_with(sitting.folder.path()) && place.file_name() == image.file_name());
    assert_eq!(fs::read(&place).expect("a file"), fs::read(&image).expect("a file"));
    sitting.drop_file(&fixture("probes/gap.safetensors"));
    sitting.until("the probe", |s| {
        s.state().library.probes.values().any(|probe| probe.status.ready().is_some())
    });
    let large = sitting.folder.path().join("large.png");
    fs::File::create(&large).and_then(|file| file.set_len(64_000_001)).expect("a file");
    sitting.drop_file(&large);
    sitting.until("a refusal", |s| {
        s.says("large.png: 64.0 MB, and at most 64.0 MB can be sent at once; copy it")
    });
    sitting.drop_file(&fixture("probes"));
    sitting.until("a refusal", |s| s.says("a folder cannot be sent"));
    assert_eq!(sitting.state().library.images.len(), 1);
}

#[test]
fn a_workspace_connects_to_where_its_files_are() {
    let (mut sitting, _) = Sitting::connected();
    sitting.open();
    let shown = text(sitting.trace().expect("a trace"));
    let workspace = sitting.folder.path().join("far.ssmprobe");
    let window = &sitting.harness.state().window;
    window.session(sitting.state()).save(&workspace).expect("saved");
    let kept = fs::read_to_string(&workspace).expect("a file");
    assert!(kept.contains(r#""place": "local""#) && kept.contains(fixture("images").to_str().expect("text")));
    let host = sitting.state().connection.host().cloned().expect("a host");
    let Sitting { harness, folder } = sitting;
    drop(harness);
    let mut again = Sitting::within(folder);
    // Its program is one that was started before.
    again.harness.state_mut().state.settings.recent.hosts.push_front(host);
    again.harness.state_mut().open_workspace(&workspace);
    again.until("a connection", Sitting::stands);
    again.until("a trace", Sitting::is_shown);
    assert_eq!(text(again.trace().expect("a trace")), shown);
    // A workspace without a host uses this process.
    let own = again.folder.path().join("own.ssmprobe");
    fs::write(&own, r#"{"ssmprobe_workspace": 1}"#).expect("a file");
    again.harness.state_mut().open_workspace(&own);
    again.until("this program", |s| s.state().connection == Connection::Here);
}

#[test]
fn who_does_not_answer_is_told_with_what_to_do_and_nothing_is_lost() {
    let mut sitting = Sitting::new();
    sitting.open();
    sitting.connect("ssh://127.0.0.1:1", Path::new("ssmprobe"));
    assert!(sitting.state().is_empty());
    sitting.until("why", |s| s.has("Not connected to 127.0.0.1:1") && s.is_lost());
    let Connection::Lost { why, .. } = &sitting.state().connection else { panic!("it is lost") };
    assert!(why.contains("it cannot be reached") || why.contains("`ssh` cannot be started"), "{why}");
    assert!(sitting.harness.query_by_label("Connect now").is_some());
    // Disconnecting goes back to what was open, also after a second host that was not reached, or is not even tried.
    sitting.connect("ssh://127.0.0.1:2", Path::new("ssmprobe"));
    sitting.until("why", |s| s.has("Not connected to 127.0.0.1:2") && s.is_lost());
    sitting.connect("ssh://-oProxyCommand=x", Path::new("ssmprobe"));
    assert!(sitting.says("is not a host") && sitting.state().connection != Connection::Here);
    sitting.click("Disconnect");
    assert_eq!(sitting.state().connection, Connection::Here);
    sitting.until("what was open", Sitting::is_shown);
    sitting.connect("ssh://-oProxyCommand=x", Path::new("ssmprobe"));
    assert_eq!(sitting.state().connection, Connection::Here);
    let script = sitting.folder.path().join("other");
    for (text, words) in [
        (greeting(PROTOCOL + 1), "Update the program here"),
        ("echo Welcome; exec sleep 1000".to_owned(), "the answer is not from this program"),
        ("exit 3".to_owned(), "exits immediately"),
    ] {
        write_script(&script, &text);
        sitting.connect("local", &script);
        sitting.until(words, |s| s.says(words) && s.has("Not connected to"));
        // It does not retry by itself.
        assert!(matches!(sitting.state().connection, Connection::Lost { retry: None, .. }));
        sitting.click("Disconnect");
        sitting.until("what was open", Sitting::is_shown);
    }
    let mut first = Sitting::new();
    first.connect("ssh://127.0.0.1:1", Path::new("ssmprobe"));
    first.until("why", Sitting::is_lost);
    first.click("Disconnect");
    first.until("the demo", |s| !s.state().library.probes.is_empty());
}

/// In a child process, whose PATH has the ssh that is configured for this sshd.
#[test]
fn a_window_works_through_a_real_sshd_and_continues_after_ssh_was_killed() {
    const NAME: &str =
        "remote::window::a_window_works_through_a_real_sshd_and_continues_after_ssh_was_killed";
    if !is_child(NAME) {
        let Some(sshd) = Sshd::start() else { return };
        fs::write(sshd.folder.path().join("place"), sshd.place()).expect("a file");
        let path = format!("{}:/usr/bin:/bin", sshd.folder.path().display());
        // A folder from which scripts may be run.
        let temporary = std::env::temp_dir().display().to_string();
        let Output { status, stdout, stderr } = child(NAME, &[("PATH", &path), ("TMPDIR", &temporary)]);
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(status.success() && said[0].contains("1 passed"), "{status}\n{}{}", said[0], said[1]);
        return;
    }
    let path = std::env::var("PATH").expect("a PATH");
    let place = Path::new(path.split(':').next().expect("a folder")).join("place");
    let mut there = Sitting::new();
    let (script, pid) = worker(there.folder.path());
    there.connect(&fs::read_to_string(place).expect("a place"), &script);
    there.until("a connection", Sitting::stands);
    there.open();
    let mut here = Sitting::new();
    here.open();
    let same = |here: &Sitting, there: &Sitting| {
        let [own, far] = [here, there].map(|sitting| text(sitting.trace().expect("a trace")));
        assert!(own.len() > 10_000 && own == far);
    };
    same(&here, &there);
    let first = read_pid(&pid);
    let ssh = children(std::process::id());
    assert_eq!(ssh.len(), 1);
    kill(ssh[0]);
    there.until("a lost connection", |s| s.says("Connection lost"));
    there.until("another worker", |s| s.stands() && read_pid(&pid) != first);
    for sitting in [&mut here, &mut there] {
        let before = sitting.trace().expect("a trace").image.clone();
        sitting.wants(Command::Step(1));
        sitting
            .until("the other image", |s| s.is_shown() && s.trace().is_some_and(|now| now.image != before));
    }
    same(&here, &there);
    crate::interrupts::until("the end of the first worker", || !is_alive(first));
}

/// The dialog lists hosts that were reached before, and refuses invalid ones.
#[test]
fn a_host_is_chosen_in_a_dialog() {
    let mut sitting = Sitting::new();
    let host = Host { place: "ssh://me@gpu1:2222".into(), program: Some("~/bin/ssmprobe".into()) };
    sitting.harness.state_mut().state.settings.recent.hosts.push_front(host);
    sitting.click("File");
    sitting.click("Connect…");
    sitting.fill("Host", "-x");
    assert!(sitting.has("`-x` is not a host or user name"));
    sitting.click("me@gpu1:2222 (~/bin/ssmprobe)");
    assert!(!sitting.has("is not a host"));
    let (script, _) = worker(sitting.folder.path());
    sitting.fill("Host", "local");
    sitting.fill("Program there", script.to_str().expect("text"));
    sitting.click("Connect");
    sitting.until("a connection", Sitting::stands);
    let places: Vec<&str> =
        sitting.state().settings.recent.hosts.iter().map(|host| host.place.as_str()).collect();
    assert_eq!(places, ["local", "ssh://me@gpu1:2222"]);
}

#[test]
fn a_training_outlives_its_worker_and_is_stopped_and_resumed_from_the_window() {
    let sandbox = Sandbox::new(24, 12);
    let (mut sitting, pid) = Sitting::connected();
    sitting.plan_training(TrainSettings { seeds: 1, ..sandbox.settings(100_000) });
    sitting.wants(Command::StartTraining);
    let epochs = |s: &Sitting| s.state().training.active_run().map_or(0, |run| run.history.done().0);
    sitting.until("an epoch", |s| epochs(s) > 0);
    let trains = training_pid(&sandbox, "run");
    kill(read_pid(&pid));
    sitting.until("a lost connection", |s| s.says("Connection lost"));
    assert!(is_alive(trains));
    sitting.until("a connection", Sitting::stands);
    let before = epochs(&sitting);
    sitting.until("another epoch", |s| epochs(s) > before);
    assert!(sitting.says(&format!("found as process {trains}")));
    let job = sitting.state().training.active.as_ref().expect("a training").job;
    sitting.wants(Command::Cancel(job));
    sitting.until("its end", |s| s.state().training.active.is_none());
    assert!(!is_alive(trains));
    let folder = sitting.state().training.runs.keys().next().expect("a run").clone();
    assert_eq!(sitting.state().training.runs[&folder].phase, Phase::Stopped);
    let stopped = fs::read_to_string(sandbox.path("run/metrics.jsonl")).expect("metrics").lines().count();
    sitting.wants(Command::ResumeTraining(folder));
    sitting.until("more epochs", |s| epochs(s) > stopped);
    // Connecting elsewhere leaves it running.
    sitting.harness.state_mut().connect(None);
    sitting.until("this program", |s| s.state().connection == Connection::Here);
    assert!(sitting.state().training.active.is_none());
    let trains = training_pid(&sandbox, "run");
    assert!(is_alive(trains));
    kill(trains);
}
