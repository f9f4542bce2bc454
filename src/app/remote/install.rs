//! Copies this executable to another machine over ssh, if it can run there.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use super::process::{StderrTail, wait_or_kill};
use super::{RemoteError, STDERR_TIMEOUT, TIMEOUT, WorkerAddress, described, refused_by_ssh};
use crate::app::paths;
use crate::model::io::escape::shown_line;

/// Where the program is installed, below the remote home folder.
pub const INSTALLED: &str = "~/.local/bin/ssmprobe";
/// Prefix of the symbol versions by which an executable names the glibc that it needs.
const GLIBC: &[u8] = b"GLIBC_2.";
/// Bytes of the executable that are read at a time.
const CHUNK: usize = 1 << 20;
/// Bytes that a remote command may print.
const MAX_PRINTED: u64 = 1 << 16;
/// What to do if it prints what no command of these does.
const SILENCE: &str = "If a start-up file there (.bashrc) prints that, silence it when there is no terminal";

/// The platform of another machine.
struct Machine {
    /// The output of `uname -sm`.
    system: String,
    /// The minor version of its glibc; absent if it has another C library.
    glibc: Option<u32>,
}

/// Copies this program to a machine, where `--on` finds it, and returns its `--version` there. `progress` gets how many bytes of how many
/// are copied.
///
/// # Errors
/// If the machine is not reached or is of another platform, or the copy fails or does not run.
pub fn install(place: &WorkerAddress, progress: &mut dyn FnMut(u64, u64)) -> anyhow::Result<String> {
    let own = paths::program()?;
    let there =
        parse_machine(&remote_output(place, "uname -sm; getconf GNU_LIBC_VERSION 2>/dev/null || true")?)?;
    let here = Command::new("uname").arg("-sm").output().map_or_else(
        |_| format!("{} {}", std::env::consts::OS, std::env::consts::ARCH), // Windows has no such command
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    let unread = || format!("{}: cannot be read", own.display());
    let needs = required_glibc(&own).with_context(unread)?;
    check_platform(&place.word(), &here, needs, &there)?;
    let program = File::open(&own).with_context(unread)?;
    let bytes = program.metadata().with_context(unread)?.len();
    remote_fed(place, "copy", &copying(bytes), program, &mut |done| progress(done, bytes))?;
    let version = remote_output(place, &format!("{INSTALLED} --version"))?;
    Ok(version.trim().to_owned())
}

/// The script that installs a program of `bytes` bytes from its input, which also ends where the connection is lost: half a program
/// must not replace a whole one, nor fill a home folder that has little room.
fn copying(bytes: u64) -> String {
    format!(
        "mkdir -p ~/.local/bin && cd ~/.local/bin && {{ cat > .ssmprobe-new && test $(wc -c < .ssmprobe-new) -eq {bytes} && \
         chmod 755 .ssmprobe-new && mv .ssmprobe-new ssmprobe || {{ rm -f .ssmprobe-new; exit 1; }}; }}"
    )
}

/// How a command ended whose standard input is `from`, and what it printed: at most [`MAX_PRINTED`] bytes, and the last lines of its
/// standard error. `progress` gets how many bytes it was given.
fn feed(
    mut command: Command,
    mut from: impl Read,
    progress: &mut dyn FnMut(u64),
) -> io::Result<(Option<ExitStatus>, Vec<u8>, Vec<String>)> {
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let stderr = child.stderr.take().map(|stderr| StderrTail::spawn(stderr, Arc::new(|| {})));
    if let Some(mut to) = child.stdin.take() {
        let (mut part, mut done) = (vec![0; CHUNK], 0);
        loop {
            let read = from.read(&mut part)?;
            // A command that has ended says why by itself.
            if read == 0 || to.write_all(&part[..read]).is_err() {
                break;
            }
            done += read as u64;
            progress(done);
        }
    }
    let mut printed = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_PRINTED).read_to_end(&mut printed)?;
    }
    let status = wait_or_kill(&mut child, TIMEOUT);
    Ok((status, printed, stderr.map_or_else(Vec::new, |stderr| stderr.lines(STDERR_TIMEOUT))))
}

/// The standard output of a shell script on the remote machine.
fn remote_output(place: &WorkerAddress, script: &str) -> anyhow::Result<String> {
    remote_fed(place, script, script, io::empty(), &mut |_| {})
}

/// The standard output of a remote script that ended with success; `what` names it in errors.
fn remote_fed(
    place: &WorkerAddress,
    what: &str,
    script: &str,
    from: impl Read,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<String> {
    let (status, printed, stderr) = feed(place.shell(script, "Compression=yes")?, from, progress)
        .context("`ssh` cannot be started. Install the OpenSSH client, or put it on the PATH")?;
    ensure!(
        (printed.len() as u64) < MAX_PRINTED,
        "{place}: `{what}` prints {MAX_PRINTED} bytes or more there. {SILENCE}"
    );
    if status.is_some_and(|status| status.success()) {
        return Ok(String::from_utf8_lossy(&printed).into_owned());
    }
    if let Some(kind) = refused_by_ssh(status.and_then(|status| status.code()), &stderr) {
        return Err(RemoteError { place: place.to_string(), kind, stderr }.into());
    }
    bail!("{place}: `{what}` failed there ({}):\n  {}", described(status), stderr.join("\n  "))
}

/// Parses the output of `uname -sm; getconf GNU_LIBC_VERSION`.
fn parse_machine(output: &str) -> anyhow::Result<Machine> {
    let mut lines = output.lines();
    let system = lines.next().unwrap_or_default().trim().to_owned();
    ensure!(system.split(' ').count() == 2, "`uname -sm` prints `{}` there. {SILENCE}", shown_line(&system));
    let glibc = lines.next().and_then(|line| line.trim().strip_prefix("glibc 2.")?.parse().ok());
    Ok(Machine { system, glibc })
}

/// The minor version of the newest glibc that an executable requires; 0 if it requires none.
fn required_glibc(program: &Path) -> std::io::Result<u32> {
    let mut from = BufReader::with_capacity(CHUNK, File::open(program)?);
    let (mut newest, mut bytes) = (0, Vec::new());
    // A version that is split between two chunks is found with the second.
    while from.by_ref().take(CHUNK as u64).read_to_end(&mut bytes)? > 0 {
        for at in 0..bytes.len().saturating_sub(GLIBC.len()) {
            if bytes[at] == GLIBC[0] && bytes[at..].starts_with(GLIBC) {
                let digits =
                    bytes[at + GLIBC.len()..].iter().take(3).take_while(|byte| byte.is_ascii_digit());
                newest = newest.max(digits.fold(0, |number, digit| 10 * number + u32::from(digit - b'0')));
            }
        }
        bytes.drain(..bytes.len().saturating_sub(GLIBC.len() + 3));
    }
    Ok(newest)
}

/// Fails if this program cannot run on the machine `there`.
fn check_platform(place: &str, here: &str, needs: u32, there: &Machine) -> anyhow::Result<()> {
    let build = "Build it there (`cargo build --release`), and give its path with --remote-program PATH";
    ensure!(
        there.system == here,
        "{place} is `{}`, and this program is for `{here}`. {build}",
        shown_line(&there.system)
    );
    match there.glibc {
        Some(found) if found < needs => {
            bail!("{place} has glibc 2.{found}, and this program needs 2.{needs}. {build}")
        }
        None if needs > 0 => bail!("{place} has no glibc, and this program needs 2.{needs}. {build}"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_another_kind_is_refused_with_what_to_build() {
        let here = "Linux x86_64";
        let refused = |said: &str| {
            check_platform("ssh://gpu1", here, 34, &parse_machine(said).unwrap()).unwrap_err().to_string()
        };
        for (said, words) in [
            ("Linux aarch64\nglibc 2.39\n", "`Linux aarch64`, and this program is for `Linux x86_64`"),
            ("Linux x86_64\nglibc 2.28\n", "has glibc 2.28, and this program needs 2.34"),
            ("Linux x86_64\n", "has no glibc"),
        ] {
            let error = refused(said);
            assert!(error.contains(words) && error.contains("cargo build --release"), "{error}");
        }
        assert!(
            check_platform("ssh://gpu1", here, 34, &parse_machine("Linux x86_64\nglibc 2.34\n").unwrap())
                .is_ok()
        );
        assert!(parse_machine("Welcome to gpu1!\n").is_err() && parse_machine("").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_command_gets_the_whole_file_and_may_end_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        crate::model::io::atomic_file::write(&path, &vec![7; CHUNK + 9]).unwrap();
        let fed = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut told = Vec::new();
            let (status, printed, said) =
                feed(command, File::open(&path).unwrap(), &mut |done| told.push(done)).unwrap();
            (String::from_utf8_lossy(&printed).trim().to_owned(), status.unwrap().code(), told, said)
        };
        let whole = (CHUNK + 9).to_string();
        let told = vec![CHUNK as u64, CHUNK as u64 + 9];
        assert_eq!(fed("wc -c | tr -d ' '"), (whole, Some(0), told, Vec::new()));
        assert_eq!(fed("exit 3").1, Some(3));
        // However much it prints, only a bounded part is read.
        assert_eq!(fed("cat > /dev/null; exec yes y").0.len() as u64, MAX_PRINTED - 1);
        let last = fed("cat > /dev/null; seq 1000 >&2").3;
        assert!(last.len() < 100 && last.last().is_some_and(|line| line == "1000"), "{last:?}");
    }

    #[cfg(unix)]
    #[test]
    fn of_half_a_program_nothing_is_left() {
        let home = tempfile::tempdir().unwrap();
        let copy = |program: &[u8]| {
            let mut command = Command::new("sh");
            command.args(["-c", &copying(5)]).env("HOME", home.path());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let ended = feed(command, program, &mut |_| {}).unwrap().0.unwrap();
            let files = std::fs::read_dir(home.path().join(".local/bin")).unwrap();
            (ended.code(), files.map(|file| file.unwrap().file_name()).collect::<Vec<_>>())
        };
        assert_eq!(copy(b"whol"), (Some(1), Vec::new()));
        assert_eq!(copy(b"whole"), (Some(0), vec!["ssmprobe".into()]));
        assert_eq!(copy(b"whol"), (Some(1), vec!["ssmprobe".into()]));
    }

    #[test]
    fn the_newest_library_that_is_asked_for_is_found_wherever_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for before in [0, 10, CHUNK - 11, CHUNK - 9, CHUNK - 3, CHUNK] {
            let bytes = [&vec![b'G'; before][..], b"GLIBC_2.34\0GLIBC_2.5\0", &[0; 40]].concat();
            crate::model::io::atomic_file::write(&path, &bytes).unwrap();
            assert_eq!(required_glibc(&path).unwrap(), 34, "{before}");
        }
        crate::model::io::atomic_file::write(&path, b"no program").unwrap();
        assert_eq!(required_glibc(&path).unwrap(), 0);
    }
}
