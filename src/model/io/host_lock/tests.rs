//! Who holds a lock among machines, and how it passes on.

use super::*;

/// The file's content for a process of another machine.
fn other(beats: u64) -> Vec<u8> {
    let (host, boot) = ("elsewhere".into(), "b".into());
    sign(&ProcessId { host, boot, process: 7, began: 1, ..ProcessId::here() }, beats)
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
    let stale_after = Duration::from_millis(60);
    atomic_file::write(&path, &other(3)).unwrap();
    let begun = Instant::now();
    let lock = taken(HostLock::ask(&path, true, stale_after, false).unwrap());
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
    let lock = taken(HostLock::ask(&path, true, STALE_AFTER, false).unwrap());
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
    // A patient caller gets it once it is released.
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            taken(HostLock::ask(&path, true, Duration::from_mins(10), true).unwrap()).is_ours().unwrap()
        });
        atomic_file::write(&path, &other(1_000_000)).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(asked.join().unwrap());
    });
    assert!(!path.exists());
}

#[test]
fn what_was_renewed_before_it_could_be_removed_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("owner.json");
    atomic_file::write(&path, &other(4)).unwrap();
    remove_stale(&path, &other(3)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), other(4));
    remove_stale(&path, &other(4)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn one_of_this_machine_that_is_gone_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("owner.json");
    let gone = ProcessId { process: 1 << 30, ..ProcessId::here() };
    atomic_file::write(&path, &sign(&gone, 5)).unwrap();
    let lock = taken(HostLock::ask(&path, true, Duration::from_hours(1), false).unwrap());
    lock.last_beat.set(Instant::now().checked_sub(2 * BEAT_INTERVAL).unwrap());
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
    let (here, hour) = (ProcessId::here(), Duration::from_hours(1));
    let ask = |stale_after| HostLock::ask(&path, false, stale_after, false).unwrap();
    let is_held = |alone, stale_after| HostLock::is_held(&path, alone, stale_after).unwrap();
    // A living process of this machine holds it however long the file is unchanged; known at once.
    atomic_file::write(&path, &sign(&here, 0)).unwrap();
    assert!(matches!(ask(Duration::ZERO), LockAttempt::Held(host) if host == here.host));
    assert!(is_held(false, hour));
    // Another process has its id by now.
    atomic_file::write(&path, &sign(&ProcessId { began: here.began + 1, ..here.clone() }, 0)).unwrap();
    assert!(!is_held(false, hour));
    drop(taken(ask(hour)));
    // That of another machine, until this process has seen it unchanged for long enough.
    atomic_file::write(&path, &other(3)).unwrap();
    assert!(is_held(true, hour) && is_held(true, hour));
    assert!(!is_held(true, Duration::ZERO) && path.exists());
    // What an earlier boot left is free at once for who has this machine's file lock; another machine may have its name.
    for (machine, held) in [("another", true), (here.machine.as_str(), here.machine.is_empty())] {
        let earlier = ProcessId { machine: machine.to_owned(), boot: "earlier".into(), ..here.clone() };
        atomic_file::write(&path, &sign(&earlier, 3)).unwrap();
        assert_eq!(is_held(true, hour), held);
    }
    // Nothing is known of a process of another machine or container: its file is watched.
    let elsewhere = ProcessId { host: "elsewhere".into(), began: here.began + 1, ..here.clone() };
    let contained = ProcessId { namespace: "pid:[1]".into(), began: here.began + 1, ..here };
    for other in [elsewhere, contained] {
        atomic_file::write(&path, &sign(&other, 0)).unwrap();
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
    let lock = taken(HostLock::ask(&path, false, STALE_AFTER, false).unwrap());
    let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    let handed = lock.hand_to(child.id()).unwrap();
    assert!(HostLock::is_held(&path, false, STALE_AFTER).unwrap());
    let ask = || HostLock::ask(&path, false, STALE_AFTER, false).unwrap();
    assert!(matches!(ask(), LockAttempt::Held(_)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!HostLock::is_held(&path, false, STALE_AFTER).unwrap() && path.exists());
    drop(handed);
    assert!(!path.exists(), "what a child leaves is removed");
    // The process that was handed it releases it on drop, too.
    let own = taken(ask());
    let handed = own.hand_to(std::process::id()).unwrap();
    drop(HostLock::handed(&path));
    assert!(!path.exists());
    // What another has taken by then stays.
    let another = taken(ask());
    atomic_file::write(&path, &other(0)).unwrap();
    drop((handed, another));
    assert!(path.exists());
}
