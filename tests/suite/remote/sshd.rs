//! The same through a real sshd on this machine, with its own port and keys.

use std::net::{TcpListener, TcpStream};
use std::process::Child;

use super::{
    children, end, everything, has_temporary, inspect, is_alive, kill, same_elsewhere, signal, start_job,
    until, worker, write_script,
};
use crate::run::prelude::*;

/// An sshd, and the files with which a client reaches it and no other.
pub struct Sshd {
    child: Child,
    pub folder: TempDir,
    port: u16,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn found(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"]
        .map(|folder| Path::new(folder).join(name))
        .into_iter()
        .find(|path| path.is_file())
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.expect("ssh-keygen runs").success());
}

fn public(path: &Path) -> String {
    fs::read_to_string(path.with_extension("pub")).expect("a key")
}

impl Sshd {
    /// Starts one; `None`, with a note, if there is no sshd.
    pub fn start() -> Option<Self> {
        let (Some(sshd), Some(ssh)) = (found("sshd"), found("ssh")) else {
            skip::missing("no sshd");
            return None;
        };
        // Debian's sshd requires this empty folder, but only when run by root, who may create it.
        let _ = fs::create_dir_all("/run/sshd");
        let folder = TempDir::new().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        ["host", "user", "other"].iter().for_each(|name| key(&at(name)));
        fs::write(at("authorized"), public(&at("user"))).expect("a file");
        let within = folder.path().display();
        // Another program may take the port in between: then try the next.
        for _ in 0..20 {
            let port =
                TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
            let config = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey \"{within}/host\"\nAuthorizedKeysFile \"{within}/authorized\"\n\
                 PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PermitRootLogin yes\nMaxStartups 100\nPermitUserEnvironment yes\n"
            );
            fs::write(at("sshd_config"), config).expect("a file");
            let mut command = Command::new(&sshd);
            command
                .args(["-D", "-e", "-f"])
                .arg(at("sshd_config"))
                .stdin(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().expect("sshd starts");
            let mut ended = false;
            until("sshd", || {
                ended = child.try_wait().expect("a child").is_some();
                ended || TcpStream::connect(("127.0.0.1", port)).is_ok()
            });
            if ended {
                continue;
            }
            let known = |name: &str| format!("[127.0.0.1]:{port} {}", public(&at(name)));
            fs::write(at("known"), known("host")).expect("a file");
            fs::write(at("known_otherwise"), known("other")).expect("a file");
            let config = format!(
                "Host *\n IdentityFile \"{within}/user\"\n IdentitiesOnly yes\n IdentityAgent none\n\
                 UserKnownHostsFile \"{within}/known\"\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
            );
            fs::write(at("ssh_config"), config).expect("a file");
            write_script(&at("ssh"), &format!("exec '{}' -F '{within}/ssh_config' \"$@\"", ssh.display()));
            return Some(Self { child, folder, port });
        }
        panic!("sshd ends at once on twenty ports");
    }

    pub fn place(&self) -> String {
        format!("ssh://127.0.0.1:{}", self.port)
    }

    /// Makes a command use it, with the program at a path, or on the PATH there.
    pub fn on(&self, command: &mut Command, program: &str) {
        command.args(["--on", &self.place(), "--remote-program", program]);
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().display()));
    }

    /// Changes the client's configuration.
    fn configure(&self, from: &str, to: &str) {
        let path = self.folder.path().join("ssh_config");
        let text = fs::read_to_string(&path).expect("a configuration");
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).expect("a file");
    }
}

#[test]
fn what_is_explained_through_ssh_has_the_same_bytes() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = TempDir::new().expect("a folder");
    let out = sandbox.path().join("out");
    // Commands for logins by hand neither replace the worker nor print between its messages.
    let own = "RemoteCommand tmux new -A -s main\n RequestTTY yes\n PermitLocalCommand yes\n LocalCommand echo hello";
    sshd.configure("IdentitiesOnly yes", &format!("IdentitiesOnly yes\n {own}"));
    let there = |command: &mut Command| sshd.on(command, env!("CARGO_BIN_EXE_ssmprobe"));
    same_elsewhere(&|| everything(&out), &there, &out);
}

/// `ssmprobe extract` of two layers, into a cache.
fn extract(sandbox: &Sandbox, cache: &str) -> Command {
    let mut command = sandbox.on_data("extract", cache);
    command.args(["--layers", "1,last"]);
    command
}

#[test]
fn a_disk_that_is_full_at_the_other_end_is_named_and_what_was_taken_stays() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new(150, 12);
    let Some(library) = crate::preload::library(&sandbox.path("")) else { return };
    crate::run::done(&mut extract(&sandbox, "here"));
    let here = tree(&sandbox.path("here"));
    // Room for more than the first shard of both layers, and less than all.
    let (cache, room) = (sandbox.path("there"), here.values().map(Vec::len).sum::<usize>() / 2);
    let script = sandbox.path("full");
    let real = env!("CARGO_BIN_EXE_ssmprobe");
    // As by `preload::load`.
    let environment = format!(
        "LD_PRELOAD=preload.so LD_LIBRARY_PATH='{}' FULL_BELOW='{}' FULL_AFTER={room}",
        library.parent().expect("a folder").display(),
        cache.display()
    );
    write_script(&script, &format!("{environment} exec '{real}' \"$@\""));
    let mut there = extract(&sandbox, "there");
    sshd.on(&mut there, script.to_str().expect("text"));
    let words = [cache.to_str().expect("text"), "No space left on device", "free some space"];
    assert_ends(&mut there, 1, &words);
    let kept = tree(&cache);
    assert!(kept.keys().any(|name| name.ends_with("tokens-000000.safetensors")), "{:?}", kept.keys());
    assert!(kept.len() < here.len() && kept.iter().all(|(name, bytes)| here.get(name) == Some(bytes)));
    // With room it resumes from there.
    let mut there = extract(&sandbox, "there");
    sshd.on(&mut there, real);
    crate::run::done(&mut there);
    assert_eq!(here.keys().filter(|name| name.ends_with(".safetensors")).count(), 2 * 3, "{:?}", here.keys());
    assert!(tree(&cache) == here);
}

#[test]
fn what_sshd_and_its_shell_refuse_is_told_apart() {
    let Some(sshd) = Sshd::start() else { return };
    let out = sshd.folder.path().join("out");
    let refusal = |program: &str| {
        let mut command = inspect(&out, &["--probe", "any.safetensors"]);
        sshd.on(&mut command, program);
        let (code, _, stderr) = run(&mut command);
        assert!(code != 0 && stderr.contains(&sshd.place()) && !out.exists(), "{stderr}");
        (code, stderr)
    };
    let real = env!("CARGO_BIN_EXE_ssmprobe");
    let (code, there) = refusal(real);
    assert!(code == 2 && there.contains("any.safetensors: no such file or folder"), "{there}");
    let (code, absent) = refusal("/no where/ssm'probe");
    assert!(code == 1 && absent.contains("it has no program `/no where/ssm'probe`"), "{absent}");
    assert!(refusal("/bin/false").1.contains("exits immediately"));
    sshd.configure("/known\"", "/known_otherwise\"");
    assert!(refusal(real).1.contains("its host key is not the known one"));
    sshd.configure("/known_otherwise\"", "/known\"");
    sshd.configure("/user\"", "/other\"");
    assert!(refusal(real).1.contains("it does not accept a login without a password"));
}

#[test]
fn whichever_end_is_killed_nothing_is_left_behind() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new(60, 1);
    let (script, pid) = worker(&sandbox.path(""));
    let out = sandbox.path("out");
    let begin = || {
        let _ = fs::remove_file(&pid);
        let on = ["--on", &sshd.place(), "--remote-program", script.to_str().expect("text")];
        let path = format!("{}:/usr/bin:/bin", sshd.folder.path().display());
        start_job(&sandbox, &on, &out, &pid, Some(&path))
    };
    // The client is killed.
    let (client, server) = begin();
    signal(&client, "-KILL");
    assert_eq!(end(client).0, None);
    until("the end of the worker", || !is_alive(server));
    fs::remove_dir_all(&out).expect("a folder");
    // The worker is killed.
    let (client, server) = begin();
    kill(server);
    let (code, stderr) = end(client);
    assert!(
        code == Some(1)
            && stderr.contains(&format!("{}: its program was killed (exit status: 137)", sshd.place())),
        "{stderr}"
    );
    assert!(!has_temporary(&out));
    // ssh, the only child of the client, is killed.
    let (client, server) = begin();
    let ssh = children(client.id());
    assert_eq!(ssh.len(), 1);
    kill(ssh[0]);
    let (code, stderr) = end(client);
    assert!(code == Some(1) && stderr.contains("the connection was lost (signal: 9"), "{stderr}");
    until("the end of the worker", || !is_alive(server));
}

/// sshd would give the user's own home folder, so the environment of the shell there has another.
#[test]
fn this_very_program_is_installed_where_it_runs() {
    let Some(sshd) = Sshd::start() else { return };
    let home = sshd.folder.path().join("home");
    fs::create_dir(&home).expect("a folder");
    let options = fs::read_to_string(sshd.folder.path().join("authorized")).expect("a key");
    let own = format!("environment=\"HOME={}\" {options}", home.display());
    fs::write(sshd.folder.path().join("authorized"), own).expect("a file");
    let install = |host: &str| {
        let mut command = crate::run::program();
        command.env("PATH", format!("{}:/usr/bin:/bin", sshd.folder.path().display()));
        run(command.args(["remote", "install", host]))
    };
    let (code, printed, stderr) = install(&sshd.place());
    assert_eq!(code, 0, "{stderr}");
    assert!(
        printed.contains("is installed on ssh://127.0.0.1") && printed.starts_with("ssmprobe "),
        "{printed}"
    );
    let installed = home.join(".local/bin/ssmprobe");
    let same = |path: &Path| fs::read(path).expect("a program");
    assert!(same(&installed) == same(Path::new(env!("CARGO_BIN_EXE_ssmprobe"))));
    assert_eq!(fs::read_dir(installed.parent().expect("a folder")).expect("a folder").count(), 1);
    // It is found there, and a quoted home folder is the one there.
    let mut found = inspect(&home.join("out"), &["--on", &sshd.place(), "--probe", "~/any.safetensors"]);
    found.env("PATH", format!("{}:/usr/bin:/bin", sshd.folder.path().display()));
    let absent = format!("--probe {}/any.safetensors: no such file", home.display());
    assert_ends(&mut found, 2, &[&absent]);
    // The folder cannot be created.
    fs::remove_dir_all(home.join(".local")).expect("a folder");
    fs::write(home.join(".local"), "no folder").expect("a file");
    let (code, _, stderr) = install(&sshd.place());
    assert!(code == 1 && stderr.contains("failed there") && stderr.contains("mkdir"), "{stderr}");
    let (code, _, stderr) = install("127.0.0.1:1");
    assert!(code == 1 && stderr.contains("it cannot be reached"), "{stderr}");
    assert_eq!(install("-x").0, 2);
}
