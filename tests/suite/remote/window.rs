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
use crate::live_window::LiveWindow;
use crate::run::Sandbox;
use crate::training_window::File;
use crate::window::prelude::*;

impl LiveWindow {
    /// A window that is connected to a worker process, and the file with the worker's process id.
    fn connected() -> (Self, PathBuf) {
        let mut live = Self::new();
        let (script, pid) = worker(live.folder.path());
        live.connect("local", &script);
        live.until("a connection", Self::stands);
        (live, pid)
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
    let mut here = LiveWindow::new();
    here.open();
    let (mut there, _) = LiveWindow::connected();
    assert!(there.has("Connected to a separate process"));
    assert!(there.says("ssmprobe 0") && there.says("which can compute on cpu"));
    there.until("memory of the worker", |s| s.has("Memory there: "));
    there.open();
    assert!(there.has("Device: cpu ("));
    let [own, far] = [&here, &there].map(|live| text(live.trace().expect("a trace")));
    assert!(own.len() > 10_000 && own == far);
    let pictures = |s: &LiveWindow| {
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
    let (mut there, _) = LiveWindow::connected();
    there.open();
    there.wants(Command::OpenDataset(data.path().to_owned(), None));
    there.until("a dataset", |s| s.state().dataset().is_some());
    there.wants(Command::Evaluate { all: false });
    let found = |s: &LiveWindow| -> Option<Arc<Evaluation>> {
        s.state().evaluation_of(*s.state().columns.keys().next()?)?.ok().cloned()
    };
    there.until("an evaluation", |s| found(s).is_some());
    let evaluation = found(&there).expect("an evaluation");
    assert_eq!(evaluation.len(), 6);
    assert!(there.has(&format!("sinkhorn, accuracy {:.1} %", evaluation.accuracy())));
}

#[test]
fn a_worker_that_is_killed_is_followed_by_another_that_does_the_rest() {
    let (mut live, pid) = LiveWindow::connected();
    live.open();
    let shown = live.trace().expect("a trace").clone();
    let first = suspend(&pid);
    fs::remove_file(&pid).expect("a file");
    // A request to a worker that does not answer any more.
    live.wants(Command::Step(1));
    live.wants(Command::OpenProbes(vec![fixture("probes/gap.safetensors")]));
    kill(first);
    live.until("a lost connection", |s| s.says("Connection lost"));
    assert!(live.says("its program was killed (signal: 9"));
    live.until("another connection", LiveWindow::stands);
    assert_ne!(read_pid(&pid), first);
    live.until("what was asked", |s| s.is_shown() && s.state().columns.len() == 2);
    let now = live.trace().expect("a trace").clone();
    assert_ne!(now.image, shown.image);
    assert!(
        live.state().jobs.values().all(|job| job.error.is_none())
            && live.says("again: everything open or pending")
    );
    // The log has no more entries than without a loss.
    let mut here = LiveWindow::new();
    here.open();
    here.wants(Command::Step(1));
    here.until("the other image", |s| {
        s.is_shown() && s.trace().is_some_and(|trace| trace.image == now.image)
    });
    assert_eq!(text(here.trace().expect("a trace")), text(&now));
    assert!(!is_alive(first));
    let second = read_pid(&pid);
    drop(live);
    crate::interrupts::until("the end of the worker", || !is_alive(second));
}

#[test]
fn what_is_shown_stays_while_nobody_answers() {
    let (mut live, pid) = LiveWindow::connected();
    live.open();
    let shown = live.trace().expect("a trace").clone();
    // The next worker cannot be started.
    let script = live.folder.path().join("worker");
    let text = fs::read_to_string(&script).expect("a script");
    write_script(&script, "echo 'no such thing' >&2; exit 3");
    kill(read_pid(&pid));
    live.until("a lost connection", |s| s.has("Connection lost: ") && s.says("no such thing"));
    assert!(Arc::ptr_eq(live.trace().expect("a trace"), &shown));
    live.wants(Command::Step(1));
    // A job cancelled in the meantime ends at once.
    live.wants(Command::OpenProbes(vec![fixture("probes/gap.safetensors")]));
    let waits = *live.state().jobs.iter().find(|(_, job)| job.title.contains("gap")).expect("a job").0;
    live.wants(Command::Cancel(waits));
    live.until("the end of a job", |s| !s.state().jobs.contains_key(&waits));
    write_script(&script, &text);
    live.until("a button", |s| s.harness.query_by_label("Connect now").is_some() || s.stands());
    if let Some(button) = live.harness.query_by_label("Connect now") {
        button.click();
    }
    live.until("a connection", LiveWindow::stands);
    live.until("the other image", |s| s.is_shown() && s.trace().is_some_and(|now| now.image != shown.image));
    assert!(live.harness.query_by_label("Connect now").is_none());
}

#[test]
fn files_are_looked_for_where_it_is_computed() {
    let (mut live, _) = LiveWindow::connected();
    live.press(Modifiers::COMMAND, Key::P);
    assert!(live.has("Probes on a separate process"));
    live.until("the user's own folder", |s| s.state().browser.folder.is_some());
    // A missing folder is an error, and the last listing stays.
    let before = live.state().browser.folder.clone();
    live.fill("Path", "/no such folder");
    live.press(Modifiers::NONE, Key::Enter);
    live.until("why it is not listed", |s| s.has("/no such folder: the folder cannot be read"));
    assert_eq!(live.state().browser.folder, before);
    assert!(live.state().jobs.is_empty());
    let probes = fixture("probes");
    live.fill("Path", probes.parent().and_then(Path::to_str).expect("text"));
    live.press(Modifiers::NONE, Key::Enter);
    let listed = |s: &LiveWindow, path: &Path| {
        s.state().browser.folder.as_ref().is_some_and(|folder| folder.path == path)
    };
    live.until("the folder above", |s| listed(s, probes.parent().expect("a folder")));
    // By keyboard alone, as the filter has the focus.
    live.harness.event(egui::Event::Text("prob".to_owned()));
    live.harness.run_steps(4);
    live.press(Modifiers::NONE, Key::ArrowDown);
    live.press(Modifiers::NONE, Key::Enter);
    live.until("the folder of probes", |s| listed(s, &probes));
    live.press(Modifiers::ALT, Key::ArrowUp);
    live.until("the folder above", |s| !listed(s, &probes));
    live.fill("Path", probes.join("gap.safetensors").to_str().expect("text"));
    live.press(Modifiers::NONE, Key::Enter);
    live.until("a file by its path", |s| listed(s, &probes));
    live.click("Open");
    let gap = |s: &LiveWindow| {
        s.state()
            .library
            .probes
            .values()
            .any(|probe| probe.status.ready().is_some() && probe.path == probes.join("gap.safetensors"))
    };
    live.until("the probe", gap);
    // It opens in the last folder, and can be cancelled as any dialog.
    live.press(Modifiers::COMMAND, Key::O);
    live.until("the same folder", |s| s.has("Images on") && listed(s, &probes));
    live.press(Modifiers::NONE, Key::Escape);
    assert!(!live.has("Images on"));
}

#[test]
fn what_is_dropped_is_sent_over_and_what_is_too_large_is_not() {
    let (mut live, _) = LiveWindow::connected();
    let image = fixture("images/one.png");
    live.drop_file(&image);
    live.until("the image", |s| s.state().library.images.len() == 1);
    let place = live.state().library.images.values().next().expect("one").source.path.clone();
    assert!(place.starts_with(live.folder.path()) && place.file_name() == image.file_name());
    assert_eq!(fs::read(&place).expect("a file"), fs::read(&image).expect("a file"));
    live.drop_file(&fixture("probes/gap.safetensors"));
    live.until("the probe", |s| {
        s.state().library.probes.values().any(|probe| probe.status.ready().is_some())
    });
    let large = live.folder.path().join("large.png");
    fs::File::create(&large).and_then(|file| file.set_len(64_000_001)).expect("a file");
    live.drop_file(&large);
    live.until("a refusal", |s| {
        s.says("large.png: 64.0 MB, and at most 64.0 MB can be sent at once; copy it")
    });
    live.drop_file(&fixture("probes"));
    live.until("a refusal", |s| s.says("a folder cannot be sent"));
    assert_eq!(live.state().library.images.len(), 1);
}

#[test]
fn a_workspace_connects_to_where_its_files_are() {
    let (mut live, _) = LiveWindow::connected();
    live.open();
    let shown = text(live.trace().expect("a trace"));
    let workspace = live.folder.path().join("far.ssmprobe");
    let window = &live.harness.state().window;
    window.session(live.state()).save(&workspace).expect("saved");
    let kept = fs::read_to_string(&workspace).expect("a file");
    assert!(kept.contains(r#""place": "local""#) && kept.contains(fixture("images").to_str().expect("text")));
    let host = live.state().connection.host().cloned().expect("a host");
    let LiveWindow { harness, folder } = live;
    drop(harness);
    let mut again = LiveWindow::within(folder);
    // Its program is one that was started before.
    again.harness.state_mut().state.settings.recent.hosts.push_front(host);
    again.harness.state_mut().open_workspace(&workspace);
    again.until("a connection", LiveWindow::stands);
    again.until("a trace", LiveWindow::is_shown);
    assert_eq!(text(again.trace().expect("a trace")), shown);
    // A workspace without a host uses this process.
    let own = again.folder.path().join("own.ssmprobe");
    fs::write(&own, r#"{"ssmprobe_workspace": 1}"#).expect("a file");
    again.harness.state_mut().open_workspace(&own);
    again.until("this program", |s| s.state().connection == Connection::Here);
}

#[test]
fn who_does_not_answer_is_told_with_what_to_do_and_nothing_is_lost() {
    let mut live = LiveWindow::new();
    live.open();
    live.connect("ssh://127.0.0.1:1", Path::new("ssmprobe"));
    assert!(live.state().is_empty());
    live.until("why", |s| s.has("Not connected to 127.0.0.1:1") && s.is_lost());
    let Connection::Lost { why, .. } = &live.state().connection else { panic!("it is lost") };
    assert!(why.contains("it cannot be reached") || why.contains("`ssh` cannot be started"), "{why}");
    assert!(live.harness.query_by_label("Connect now").is_some());
    // Disconnecting goes back to what was open, also after a second host that was not reached, or is not even tried.
    live.connect("ssh://127.0.0.1:2", Path::new("ssmprobe"));
    live.until("why", |s| s.has("Not connected to 127.0.0.1:2") && s.is_lost());
    live.connect("ssh://-oProxyCommand=x", Path::new("ssmprobe"));
    assert!(live.says("is not a host") && live.state().connection != Connection::Here);
    live.click("Disconnect");
    assert_eq!(live.state().connection, Connection::Here);
    live.until("what was open", LiveWindow::is_shown);
    live.connect("ssh://-oProxyCommand=x", Path::new("ssmprobe"));
    assert_eq!(live.state().connection, Connection::Here);
    let script = live.folder.path().join("other");
    for (text, words) in [
        (greeting(PROTOCOL + 1), "Update the program here"),
        ("echo Welcome; exec sleep 1000".to_owned(), "the answer is not from this program"),
        ("exit 3".to_owned(), "exits immediately"),
    ] {
        write_script(&script, &text);
        live.connect("local", &script);
        live.until(words, |s| s.says(words) && s.has("Not connected to"));
        // It does not retry by itself.
        assert!(matches!(live.state().connection, Connection::Lost { retry: None, .. }));
        live.click("Disconnect");
        live.until("what was open", LiveWindow::is_shown);
    }
    let mut first = LiveWindow::new();
    first.connect("ssh://127.0.0.1:1", Path::new("ssmprobe"));
    first.until("why", LiveWindow::is_lost);
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
    let mut there = LiveWindow::new();
    let (script, pid) = worker(there.folder.path());
    there.connect(&fs::read_to_string(place).expect("a place"), &script);
    there.until("a connection", LiveWindow::stands);
    there.open();
    let mut here = LiveWindow::new();
    here.open();
    let same = |here: &LiveWindow, there: &LiveWindow| {
        let [own, far] = [here, there].map(|live| text(live.trace().expect("a trace")));
        assert!(own.len() > 10_000 && own == far);
    };
    same(&here, &there);
    let first = read_pid(&pid);
    let ssh = children(std::process::id());
    assert_eq!(ssh.len(), 1);
    kill(ssh[0]);
    there.until("a lost connection", |s| s.says("Connection lost"));
    there.until("another worker", |s| s.stands() && read_pid(&pid) != first);
    for live in [&mut here, &mut there] {
        let before = live.trace().expect("a trace").image.clone();
        live.wants(Command::Step(1));
        live.until("the other image", |s| s.is_shown() && s.trace().is_some_and(|now| now.image != before));
    }
    same(&here, &there);
    crate::interrupts::until("the end of the first worker", || !is_alive(first));
}

/// The dialog lists hosts that were reached before, and refuses invalid ones.
#[test]
fn a_host_is_chosen_in_a_dialog() {
    let mut live = LiveWindow::new();
    let host = Host { place: "ssh://me@gpu1:2222".into(), program: Some("~/bin/ssmprobe".into()) };
    live.harness.state_mut().state.settings.recent.hosts.push_front(host);
    live.click("File");
    live.click("Connect…");
    live.fill("Host", "-x");
    assert!(live.has("`-x` is not a host or user name"));
    live.click("me@gpu1:2222 (~/bin/ssmprobe)");
    assert!(!live.has("is not a host"));
    let (script, _) = worker(live.folder.path());
    live.fill("Host", "local");
    live.fill("Program there", script.to_str().expect("text"));
    live.click("Connect");
    live.until("a connection", LiveWindow::stands);
    let places: Vec<&str> =
        live.state().settings.recent.hosts.iter().map(|host| host.place.as_str()).collect();
    assert_eq!(places, ["local", "ssh://me@gpu1:2222"]);
}

#[test]
fn a_training_outlives_its_worker_and_is_stopped_and_resumed_from_the_window() {
    let sandbox = Sandbox::new(24, 12);
    let (mut live, pid) = LiveWindow::connected();
    live.plan_training(TrainSettings { seeds: 1, ..sandbox.settings(100_000) });
    live.wants(Command::StartTraining);
    let epochs = |s: &LiveWindow| s.state().training.active_run().map_or(0, |run| run.history.done().0);
    live.until("an epoch", |s| epochs(s) > 0);
    let trains = training_pid(&sandbox, "run");
    kill(read_pid(&pid));
    live.until("a lost connection", |s| s.says("Connection lost"));
    assert!(is_alive(trains));
    live.until("a connection", LiveWindow::stands);
    let before = epochs(&live);
    live.until("another epoch", |s| epochs(s) > before);
    assert!(live.says(&format!("found as process {trains}")));
    let job = live.state().training.active.as_ref().expect("a training").job;
    live.wants(Command::Cancel(job));
    live.until("its end", |s| s.state().training.active.is_none());
    assert!(!is_alive(trains));
    let folder = live.state().training.runs.keys().next().expect("a run").clone();
    assert_eq!(live.state().training.runs[&folder].phase, Phase::Stopped);
    let stopped = fs::read_to_string(sandbox.path("run/metrics.jsonl")).expect("metrics").lines().count();
    live.wants(Command::ResumeTraining(folder));
    live.until("more epochs", |s| epochs(s) > stopped);
    // Connecting elsewhere leaves it running.
    live.harness.state_mut().connect(None);
    live.until("this program", |s| s.state().connection == Connection::Here);
    assert!(live.state().training.active.is_none());
    let trains = training_pid(&sandbox, "run");
    assert!(is_alive(trains));
    kill(trains);
}
