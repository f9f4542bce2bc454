//! A right that one process has among all machines that share a file system, where locks of files may not reach from one
//! machine to another: a file that is made only where there is none, and says whose it is. Its owner writes it anew now
//! and then. Who finds it of another machine watches whether what is in it changes; where it has stood still for long, its
//! owner is gone, and the right is taken over. No clock of one machine is compared with another's.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::atomic_file;

/// How often an owner shows that it lives.
const BEAT: Duration = Duration::from_secs(15);
/// What stands still for so long is nobody's: no step of work takes as long.
pub const STILL: Duration = Duration::from_mins(3);
/// No such file is longer, in bytes.
const MAX_BYTES: u64 = 1 << 12;

/// The right, until it is dropped.
#[derive(Debug)]
pub struct HostLock {
    path: PathBuf,
    owner: Owner,
    beats: Cell<u64>,
    told: Cell<Instant>,
}

/// Who has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Owner {
    host: String,
    /// Which start of the machine.
    boot: String,
    process: u32,
    /// When the process began, by the machine's own count, where it tells: numbers of processes come again.
    #[serde(default)]
    began: u64,
}

/// What the file holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sign {
    #[serde(flatten)]
    owner: Owner,
    beats: u64,
}

/// What came of asking for the right.
#[derive(Debug)]
pub enum LockAttempt {
    /// It is ours.
    Taken(HostLock),
    /// A living process has it, on the machine of this name.
    Held(String),
}

/// Who is found to have it.
enum Found {
    Nobody,
    /// What the file holds of one who is gone.
    Gone(Vec<u8>),
    /// A living process of the machine of this name.
    Held(String),
}

/// What a machine says of its own processes.
#[derive(PartialEq)]
enum Life {
    Gone,
    There,
    /// It is another machine's, or this one does not say.
    Unknown,
}

impl HostLock {
    /// Asks for the right that `path` stands for. If `alone`, the caller has made sure that no living process of this machine
    /// has it. One that another machine has is watched: where it shows life, its name is told, or it is waited for if
    /// `patient`; where it shows none for so long, the right is taken over. Of a process of this machine it is known at once.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn ask(path: &Path, alone: bool, still: Duration, patient: bool) -> io::Result<LockAttempt> {
        let owner = Owner::here();
        loop {
            match make(path, &owner) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    made?;
                    return Ok(LockAttempt::Taken(Self::of(path, owner)));
                }
            }
            match look(path, &owner, alone, still, patient)? {
                Found::Nobody => {} // it was given back
                Found::Gone(found) => take_away(path, &found)?,
                Found::Held(host) => return Ok(LockAttempt::Held(host)),
            }
        }
    }

    /// Whether a living process has it, of whichever machine: one of another is watched, for `still` at most.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn is_held(path: &Path, still: Duration) -> io::Result<bool> {
        Ok(matches!(look(path, &Owner::here(), false, still, false)?, Found::Held(_)))
    }

    /// The right that whoever started this process has [handed](Self::hand_to) it, or is about to.
    pub fn handed(path: &Path) -> Self {
        Self::of(path, Owner::here())
    }

    /// Hands the right to a child process, which shows life from then on.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn hand_to(self, process: u32) -> io::Result<()> {
        let owner = Owner { process, began: began(&process.to_string()), ..self.owner.clone() };
        atomic_file::write(&self.path, &sign(&owner, 0))
    }

    fn of(path: &Path, owner: Owner) -> Self {
        Self { path: path.to_owned(), owner, beats: Cell::new(0), told: Cell::new(Instant::now()) }
    }

    /// Shows that its owner lives, if that is due.
    ///
    /// # Errors
    /// If the right is another's by now, because nothing was shown for too long; if the disk refuses.
    pub fn beat(&self) -> io::Result<()> {
        if self.told.get().elapsed() < BEAT {
            return Ok(());
        }
        if !self.is_ours() {
            return Err(io::Error::other("another machine has taken over"));
        }
        self.told.set(Instant::now());
        self.beats.set(self.beats.get() + 1);
        atomic_file::write(&self.path, &sign(&self.owner, self.beats.get()))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_ours(&self) -> bool {
        let found = atomic_file::read(&self.path, MAX_BYTES).unwrap_or_default();
        serde_json::from_slice::<Sign>(&found).is_ok_and(|sign| sign.owner == self.owner)
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path); // the folder may have gone
        }
    }
}

impl Owner {
    /// Whether it is a process of this machine: one that is there, or none any more.
    fn life(&self, here: &Self, alone: bool) -> Life {
        if (&self.host, &self.boot) != (&here.host, &here.boot) {
            return Life::Unknown;
        }
        let now = began(&self.process.to_string());
        match here.began {
            _ if alone => Life::Gone,
            0 => Life::Unknown, // it has no list of processes
            _ if now == 0 || (self.began != 0 && self.began != now) => Life::Gone,
            _ if self.began == 0 => Life::Unknown, // an earlier version's
            _ => Life::There,
        }
    }

    /// This process.
    fn here() -> Self {
        let said = |path: &str| atomic_file::start(Path::new(path), MAX_BYTES).ok();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
        let host = said("/proc/sys/kernel/hostname").map(text).or_else(|| std::env::var("COMPUTERNAME").ok());
        let boot = said("/proc/sys/kernel/random/boot_id").map(text);
        Self {
            host: host.unwrap_or_default(),
            boot: boot.unwrap_or_default(),
            process: std::process::id(),
            began: began("self"),
        }
    }
}

fn sign(owner: &Owner, beats: u64) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(&Sign { owner: owner.clone(), beats }).expect("plain data serialises");
    bytes.push(b'\n');
    bytes
}

/// When a process began, by the machine's own count; 0 where it is not there, or the machine does not say.
fn began(process: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let rest = stat.rsplit(')').next().unwrap_or_default(); // its name may hold anything
    let mut fields = rest.split_whitespace();
    // One that has ended, and that nobody has asked how, is there no more.
    match fields.next() {
        None | Some("Z" | "X") => 0,
        Some(_) => fields.nth(18).and_then(|field| field.parse().ok()).unwrap_or_default(),
    }
}

/// Looks who has the right, and watches one of whom this machine does not know.
fn look(path: &Path, here: &Owner, alone: bool, still: Duration, patient: bool) -> io::Result<Found> {
    let mut seen: Option<(Vec<u8>, Instant)> = None;
    loop {
        let found = match atomic_file::read(path, MAX_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nobody),
            found => found?,
        };
        let sign: Option<Sign> = serde_json::from_slice(&found).ok();
        let life = sign.as_ref().map_or(Life::Unknown, |sign| sign.owner.life(here, alone));
        let held = || Found::Held(sign.map_or_else(|| "another machine".into(), |sign| sign.owner.host));
        match &seen {
            _ if life == Life::Gone => return Ok(Found::Gone(found)),
            _ if life == Life::There && !patient => return Ok(held()),
            Some((before, since))
                if *before == found && life == Life::Unknown && since.elapsed() >= still =>
            {
                return Ok(Found::Gone(found));
            }
            Some((before, _)) if *before == found => {
                std::thread::sleep((still / 20).clamp(Duration::from_millis(5), BEAT / 10));
            }
            Some((before, _)) if !patient && !before.is_empty() => return Ok(held()),
            _ => seen = Some((found, Instant::now())),
        }
    }
}

/// Makes the file, where there is none.
fn make(path: &Path, owner: &Owner) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(&sign(owner, 0))?;
    file.sync_all()
}

/// Takes a file away whose owner is gone: this one, and not what another machine has put in its place meanwhile.
fn take_away(path: &Path, dead: &[u8]) -> io::Result<()> {
    let aside = path.with_extension(format!("dead-{}", std::process::id()));
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()), // another was faster
        renamed => renamed?,
    }
    if atomic_file::read(&aside, MAX_BYTES).is_ok_and(|found| found != dead) {
        let _ = fs::hard_link(&aside, path); // who has made one since notices
    }
    fs::remove_file(&aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sign of a process of another machine.
    fn other(beats: u64) -> Vec<u8> {
        sign(&Owner { host: "elsewhere".into(), boot: "b".into(), process: 7, began: 1 }, beats)
    }

    fn taken(asked: LockAttempt) -> HostLock {
        match asked {
            LockAttempt::Taken(lock) => lock,
            LockAttempt::Held(host) => panic!("{host} has it"),
        }
    }

    #[test]
    fn who_stands_still_loses_it_and_notices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let still = Duration::from_millis(60);
        atomic_file::write(&path, &other(3)).unwrap();
        let begun = Instant::now();
        let lock = taken(HostLock::ask(&path, true, still, false).unwrap());
        assert!(begun.elapsed() >= still && lock.is_ours());
        // Another does the same to this one.
        atomic_file::write(&path, &other(0)).unwrap();
        lock.told.set(Instant::now().checked_sub(2 * BEAT).unwrap());
        assert!(lock.beat().unwrap_err().to_string().contains("taken over"));
        drop(lock);
        assert_eq!(fs::read(&path).unwrap(), other(0), "it is not ours to remove");
    }

    #[test]
    fn who_shows_life_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        atomic_file::write(&path, &other(0)).unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| HostLock::ask(&path, true, Duration::from_mins(10), false).unwrap());
            let mut beats = 0;
            while !asked.is_finished() {
                beats += 1;
                atomic_file::write(&path, &other(beats)).unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(matches!(asked.join().unwrap(), LockAttempt::Held(host) if host == "elsewhere"));
        });
        // Who is patient has it once it is given back.
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                taken(HostLock::ask(&path, true, Duration::from_mins(10), true).unwrap()).is_ours()
            });
            atomic_file::write(&path, &other(1_000_000)).unwrap();
            fs::remove_file(&path).unwrap();
            assert!(asked.join().unwrap());
        });
        assert!(!path.exists());
    }

    #[test]
    fn one_of_this_machine_that_is_gone_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let gone = Owner { process: 1 << 30, ..Owner::here() };
        atomic_file::write(&path, &sign(&gone, 5)).unwrap();
        let lock = taken(HostLock::ask(&path, true, Duration::from_hours(1), false).unwrap());
        lock.told.set(Instant::now().checked_sub(2 * BEAT).unwrap());
        lock.beat().unwrap();
        let found: Sign = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((found.owner.process, found.beats), (std::process::id(), 1));
        drop(lock);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_of_this_machine_is_known_by_its_number_and_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let (here, hour) = (Owner::here(), Duration::from_hours(1));
        let ask = |still| HostLock::ask(&path, false, still, false).unwrap();
        // It lives: it has the right however long it stands still, and that is known at once.
        atomic_file::write(&path, &sign(&here, 0)).unwrap();
        assert!(matches!(ask(Duration::ZERO), LockAttempt::Held(host) if host == here.host));
        assert!(HostLock::is_held(&path, hour).unwrap());
        // Another process has got its number since.
        atomic_file::write(&path, &sign(&Owner { began: here.began + 1, ..here.clone() }, 0)).unwrap();
        assert!(!HostLock::is_held(&path, hour).unwrap());
        drop(taken(ask(hour)));
        // The same of a machine of another name says nothing: it is watched.
        let other = Owner { host: "elsewhere".into(), began: here.began + 1, ..here };
        atomic_file::write(&path, &sign(&other, 0)).unwrap();
        let (begun, still) = (Instant::now(), Duration::from_millis(60));
        drop(taken(ask(still)));
        assert!(begun.elapsed() >= still);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_process_has_what_was_handed_to_it_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let lock = taken(HostLock::ask(&path, false, STILL, false).unwrap());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        lock.hand_to(child.id()).unwrap();
        assert!(HostLock::is_held(&path, STILL).unwrap());
        let ask = || HostLock::ask(&path, false, STILL, false).unwrap();
        assert!(matches!(ask(), LockAttempt::Held(_)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!HostLock::is_held(&path, STILL).unwrap());
        drop(taken(ask()));
        // Who was handed it gives it back, too.
        let own = taken(ask());
        own.hand_to(std::process::id()).unwrap();
        drop(HostLock::handed(&path));
        assert!(!path.exists());
    }
}
