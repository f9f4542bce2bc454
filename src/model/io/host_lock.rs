//! A lock that one process holds among all machines that share a file system, where file locks may not reach from one
//! machine to another: an owner file, created exclusively, that names its owner. The owner rewrites it with a counter of
//! heartbeats. A process of another machine watches the content; if that does not change for [`STALE_AFTER`], the owner is
//! taken for dead and the lock is taken over. Clocks of different machines are never compared.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::process::{Liveness, ProcessId, host_name};
use super::{atomic_file, if_there, temporary};

/// Shortest time between two heartbeats.
const BEAT_INTERVAL: Duration = Duration::from_secs(15);
/// A file that has not changed for this long has no living owner: no step of work takes as long.
pub const STALE_AFTER: Duration = Duration::from_mins(3);
/// The machine of a file that names none, as a kill or a full disk may leave it: perhaps this one.
const UNNAMED: &str = "an unknown machine";
/// Largest owner file, in bytes.
const MAX_BYTES: u64 = 1 << 12;

/// Owner files of processes that this machine cannot see: their content, and since when it has not changed.
static SEEN: Mutex<BTreeMap<PathBuf, (Vec<u8>, Instant)>> = Mutex::new(BTreeMap::new());

/// The lock, released on drop.
#[derive(Debug)]
pub struct HostLock {
    path: PathBuf,
    owner: ProcessId,
    beats: Cell<u64>,
    last_beat: Cell<Instant>,
}

/// The content of the owner file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OwnerFile {
    #[serde(flatten)]
    owner: ProcessId,
    beats: u64,
}

/// The result of [`HostLock::take`].
#[derive(Debug)]
pub enum LockAttempt {
    /// This process has it now.
    Taken(HostLock),
    /// A living process holds it, on the machine of this name.
    Held(String),
}

/// Who holds it.
enum Holder {
    Nobody,
    /// A dead process; the content of its file.
    Dead(Vec<u8>),
    /// A living process of the machine of this name.
    Alive(String),
}

impl HostLock {
    /// Tries to take the lock of the owner file `path`; `alone` says that no living process of this machine holds it. If another
    /// machine's does, watches the file: if it changes, returns [`Held`](LockAttempt::Held), or waits on if `patient`; if it stays
    /// the same for `stale_after`, takes over. Whether a process of this machine lives is known at once.
    pub fn take(path: &Path, alone: bool, stale_after: Duration, patient: bool) -> io::Result<LockAttempt> {
        let owner = ProcessId::here();
        loop {
            match atomic_file::step(|| create(path, &owner)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => {
                    created?;
                    return Ok(LockAttempt::Taken(Self::new(path, owner)));
                }
            }
            match find_holder(path, &owner, alone, stale_after, patient)? {
                Holder::Nobody => {} // it was released: try again
                Holder::Dead(content) => remove_stale(path, &content)?,
                Holder::Alive(host) => return Ok(LockAttempt::Held(host)),
            }
        }
    }

    /// Whether a living process of any machine holds it; `alone` as for [`take`](Self::take). What another machine holds counts as held
    /// until this process has found the file unchanged for `stale_after`. The file is then removed by [`take`](Self::take) alone: its
    /// owner may be on a machine that was suspended, and go on.
    pub fn is_held(path: &Path, alone: bool, stale_after: Duration) -> io::Result<bool> {
        let Some((content, file)) = look(path)? else { return Ok(false) };
        match file.map_or(Liveness::Unknown, |file| file.owner.liveness(&ProcessId::here(), alone)) {
            Liveness::Dead => return Ok(false),
            Liveness::Alive => return Ok(true),
            Liveness::Unknown => {}
        }
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = seen.remove(path).filter(|(before, _)| *before == content);
        let (content, since) = known.unwrap_or_else(|| (content, Instant::now()));
        let held = since.elapsed() < stale_after;
        seen.insert(path.to_owned(), (content, since));
        Ok(held)
    }

    /// The machine that holds it, or did until it died, if it is or may be another one: [taking](Self::take) it may take minutes.
    pub fn other_machine(path: &Path) -> Option<String> {
        let (_, file) = look(path).ok()??;
        Some(file.map_or_else(|| UNNAMED.into(), |file| file.owner.host)).filter(|host| *host != host_name())
    }

    /// The lock that the parent process has [handed](Self::hand_to) to this one, or is about to.
    pub fn handed(path: &Path) -> Self {
        Self::new(path, ProcessId::here())
    }

    /// Hands the lock to the child process with this id, which beats from then on. The child's, which it may leave, is dropped at its end.
    pub fn hand_to(self, process: u32) -> io::Result<Self> {
        let owner = self.owner.sibling(process);
        temporary::write_again(&self.path, &encode(&owner, 0))?;
        Ok(Self::new(&self.path, owner))
    }

    fn new(path: &Path, owner: ProcessId) -> Self {
        Self { path: path.to_owned(), owner, beats: Cell::new(0), last_beat: Cell::new(Instant::now()) }
    }

    /// Rewrites the file with the next count of heartbeats, unless the last was less than 15 seconds ago. A file system that fails
    /// is tried again for half of [`STALE_AFTER`]: nobody takes over before.
    ///
    /// # Errors
    /// If another machine has taken over, because the heartbeats had stopped; if the file cannot be read or written for 90 seconds.
    pub fn beat(&self) -> io::Result<()> {
        let silence = self.last_beat.get().elapsed();
        if silence < BEAT_INTERVAL {
            return Ok(());
        }
        let beats = self.beats.get() + 1;
        let written = match self.is_ours() {
            Ok(false) => return Err(io::Error::other("another machine has taken over")),
            Ok(true) => atomic_file::write(&self.path, &encode(&self.owner, beats)),
            Err(error) => Err(error),
        };
        match written {
            Err(_) if silence < STALE_AFTER / 2 => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.last_beat.set(Instant::now());
                self.beats.set(beats);
                Ok(())
            }
        }
    }

    /// The owner file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_ours(&self) -> io::Result<bool> {
        Ok(look(&self.path)?.and_then(|(_, file)| file).is_some_and(|file| file.owner == self.owner))
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        if matches!(self.is_ours(), Ok(true)) {
            let _ = fs::remove_file(&self.path); // the folder may have been removed
        }
    }
}

fn encode(owner: &ProcessId, beats: u64) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(&OwnerFile { owner: owner.clone(), beats }).expect("plain data");
    bytes.push(b'\n');
    bytes
}

/// The content of the file, and what it says if it is valid; `None` if there is no file.
fn look(path: &Path) -> io::Result<Option<(Vec<u8>, Option<OwnerFile>)>> {
    let content = if_there(atomic_file::read(path, MAX_BYTES))?;
    Ok(content.map(|content| (content.clone(), serde_json::from_slice(&content).ok())))
}

/// Finds out who holds the lock; watches the file if this machine does not know whether its owner lives.
fn find_holder(
    path: &Path,
    here: &ProcessId,
    alone: bool,
    stale_after: Duration,
    patient: bool,
) -> io::Result<Holder> {
    let mut seen: Option<(Vec<u8>, Instant)> = None;
    loop {
        let Some((content, file)) = look(path)? else { return Ok(Holder::Nobody) };
        let liveness = file.as_ref().map_or(Liveness::Unknown, |file| file.owner.liveness(here, alone));
        let alive = || Holder::Alive(file.map_or_else(|| UNNAMED.into(), |file| file.owner.host));
        match &seen {
            _ if liveness == Liveness::Dead => return Ok(Holder::Dead(content)),
            _ if liveness == Liveness::Alive && !patient => return Ok(alive()),
            Some((before, since))
                if *before == content && liveness == Liveness::Unknown && since.elapsed() >= stale_after =>
            {
                return Ok(Holder::Dead(content));
            }
            Some((before, _)) if *before == content => {
                std::thread::sleep((stale_after / 20).clamp(Duration::from_millis(5), BEAT_INTERVAL / 10));
            }
            Some((before, _)) if !patient && !before.is_empty() => return Ok(alive()),
            _ => seen = Some((content, Instant::now())),
        }
    }
}

/// Creates the file; an error if it exists.
fn create(path: &Path, owner: &ProcessId) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let written = file.write_all(&encode(owner, 0)).and_then(|()| atomic_file::sync(&file));
    if written.is_err() {
        let _ = fs::remove_file(path); // it names no owner, so that the next start would wait until it is stale
    }
    written
}

/// Removes the file of a dead owner, whose content is `dead`, but not what another machine has replaced it with since.
fn remove_stale(path: &Path, dead: &[u8]) -> io::Result<()> {
    let aside = path.with_extension(format!("dead-{}", std::process::id()));
    if if_there(fs::rename(path, &aside))?.is_none() {
        return Ok(()); // another was faster
    }
    let is_alive = atomic_file::read(&aside, MAX_BYTES).is_ok_and(|content| content != dead);
    if is_alive && fs::hard_link(&aside, path).is_err() && !path.exists() {
        return fs::rename(&aside, path); // a file system without hard links
    }
    fs::remove_file(&aside) // if another has been created meanwhile, the owner notices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file's content for a process of another machine.
    fn other(beats: u64) -> Vec<u8> {
        let process = ProcessId { process: 7, began: 1, ..ProcessId::here() };
        encode(&ProcessId { host: "elsewhere".into(), boot: "b".into(), ..process }, beats)
    }

    fn taken(asked: LockAttempt) -> HostLock {
        match asked {
            LockAttempt::Taken(lock) => lock,
            LockAttempt::Held(host) => panic!("{host} has it"),
        }
    }

    #[test]
    fn an_owner_that_stops_beating_loses_the_lock_and_notices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        atomic_file::write(&path, &other(3)).unwrap();
        let (begun, stale_after) = (Instant::now(), Duration::from_millis(60));
        let lock = taken(HostLock::take(&path, true, stale_after, false).unwrap());
        assert!(begun.elapsed() >= stale_after && matches!(lock.is_ours(), Ok(true)));
        // Another machine takes over from this process.
        atomic_file::write(&path, &other(0)).unwrap();
        lock.last_beat.set(Instant::now().checked_sub(2 * BEAT_INTERVAL).unwrap());
        assert!(lock.beat().unwrap_err().to_string().contains("taken over"));
        drop(lock);
        assert_eq!(fs::read(&path).unwrap(), other(0), "it is not ours to remove");
    }

    #[test]
    fn a_file_system_that_fails_is_tried_again_for_as_long_as_nobody_takes_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let lock = taken(HostLock::take(&path, true, STALE_AFTER, false).unwrap());
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap(); // cannot be read as a file
        let silent_for = |time| lock.last_beat.set(Instant::now().checked_sub(time).unwrap());
        silent_for(2 * BEAT_INTERVAL);
        lock.beat().unwrap();
        silent_for(STALE_AFTER / 2);
        assert!(!lock.beat().unwrap_err().to_string().contains("taken over"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, content).unwrap();
        lock.beat().unwrap();
        assert_eq!(lock.beats.get(), 1);
    }

    #[test]
    fn an_owner_that_beats_keeps_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        atomic_file::write(&path, &other(0)).unwrap();
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| HostLock::take(&path, true, Duration::from_mins(10), false).unwrap());
            let mut beats = 0;
            while !asked.is_finished() {
                beats += 1;
                atomic_file::write(&path, &other(beats)).unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(matches!(asked.join().unwrap(), LockAttempt::Held(host) if host == "elsewhere"));
        });
        // A patient caller gets it once it is released.
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| {
                taken(HostLock::take(&path, true, Duration::from_mins(10), true).unwrap()).is_ours().unwrap()
            });
            atomic_file::write(&path, &other(1_000_000)).unwrap();
            fs::remove_file(&path).unwrap();
            assert!(asked.join().unwrap());
        });
        assert!(!path.exists());
    }

    #[test]
    fn an_owner_file_renewed_before_its_removal_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        atomic_file::write(&path, &other(4)).unwrap();
        remove_stale(&path, &other(3)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), other(4));
        remove_stale(&path, &other(4)).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_ended_owner_on_this_machine_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let gone = ProcessId { process: 1 << 30, ..ProcessId::here() };
        atomic_file::write(&path, &encode(&gone, 5)).unwrap();
        let lock = taken(HostLock::take(&path, true, Duration::from_hours(1), false).unwrap());
        lock.last_beat.set(Instant::now().checked_sub(2 * BEAT_INTERVAL).unwrap());
        lock.beat().unwrap();
        let found: OwnerFile = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((found.owner.process, found.beats), (std::process::id(), 1));
        drop(lock);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_of_this_machine_is_known_by_its_number_and_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let (here, hour) = (ProcessId::here(), Duration::from_hours(1));
        let ask = |stale_after| HostLock::take(&path, false, stale_after, false).unwrap();
        let is_held = |alone, stale_after| HostLock::is_held(&path, alone, stale_after).unwrap();
        // A living process of this machine holds it however long the file is unchanged; known at once.
        atomic_file::write(&path, &encode(&here, 0)).unwrap();
        assert!(matches!(ask(Duration::ZERO), LockAttempt::Held(host) if host == here.host));
        assert!(is_held(false, hour));
        // Another process has its id by now.
        atomic_file::write(&path, &encode(&ProcessId { began: here.began + 1, ..here.clone() }, 0)).unwrap();
        assert!(!is_held(false, hour));
        drop(taken(ask(hour)));
        // A process of another machine holds it until this process has seen it unchanged for long enough.
        atomic_file::write(&path, &other(3)).unwrap();
        assert!(is_held(true, hour) && is_held(true, hour));
        assert!(!is_held(true, Duration::ZERO) && path.exists());
        // What an earlier boot left is free at once for the holder of this machine's file lock; another machine may have the same name.
        for (machine, held) in [("another", true), (here.machine.as_str(), here.machine.is_empty())] {
            let earlier = ProcessId { machine: machine.to_owned(), boot: "earlier".into(), ..here.clone() };
            atomic_file::write(&path, &encode(&earlier, 3)).unwrap();
            assert_eq!(is_held(true, hour), held);
        }
        // Nothing is known of a process of another machine or container: its file is watched.
        let elsewhere = ProcessId { host: "elsewhere".into(), began: here.began + 1, ..here.clone() };
        let contained = ProcessId { namespace: "pid:[1]".into(), began: here.began + 1, ..here };
        for other in [elsewhere, contained] {
            atomic_file::write(&path, &encode(&other, 0)).unwrap();
            let (begun, stale_after) = (Instant::now(), Duration::from_millis(60));
            drop(taken(ask(stale_after)));
            assert!(begun.elapsed() >= stale_after);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_process_has_what_was_handed_to_it_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("owner.json");
        let lock = taken(HostLock::take(&path, false, STALE_AFTER, false).unwrap());
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let handed = lock.hand_to(child.id()).unwrap();
        assert!(HostLock::is_held(&path, false, STALE_AFTER).unwrap());
        let ask = || HostLock::take(&path, false, STALE_AFTER, false).unwrap();
        assert!(matches!(ask(), LockAttempt::Held(_)));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(!HostLock::is_held(&path, false, STALE_AFTER).unwrap() && path.exists());
        drop(handed);
        assert!(!path.exists(), "what a child leaves is removed");
        // The process that was handed it releases it on drop, too.
        let _handed = taken(ask()).hand_to(std::process::id()).unwrap();
        drop(HostLock::handed(&path));
        assert!(!path.exists());
    }
}
