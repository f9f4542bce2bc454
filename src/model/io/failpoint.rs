//! Failure injection: tests let one step of the file layer, or of the device, fail after the other. Nothing is
//! set in ordinary use; a step then costs the reading of one number.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What happens at a step of the file layer.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// The system refuses it with this error number, and every later one too: a disk that is full stays full.
    Lasting(i32),
    /// The system refuses it, and none after it.
    Once(i32),
    /// The program ends there as by a kill: nothing is cleaned up.
    Kill,
}

/// Counts down to the step that fails.
struct Countdown(AtomicUsize);

/// Nothing is to fail.
const NEVER: usize = usize::MAX;

static FILES: Countdown = Countdown(AtomicUsize::new(NEVER));
static DEVICE: Countdown = Countdown(AtomicUsize::new(NEVER));
/// Images that a device holds at once.
static ROOM: AtomicUsize = AtomicUsize::new(NEVER);
static FAULT: Mutex<Failure> = Mutex::new(Failure::Kill);

thread_local! {
    /// How the system refuses locks of files. Tests beside this one want theirs.
    static NO_LOCKS: Cell<Option<i32>> = const { Cell::new(None) };
}

impl Countdown {
    /// Steps left before this one, it included; 0 after the one that failed. `None` where none is to fail.
    fn step(&self) -> Option<usize> {
        if self.0.load(Ordering::Relaxed) == NEVER {
            return None;
        }
        let next = |left: usize| (left != NEVER).then(|| left.saturating_sub(1));
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok()
    }
}

/// Lets the step `at`, counted from 1, of all files of this process meet `fault`.
#[doc(hidden)]
pub fn files(at: usize, fault: Failure) {
    *FAULT.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    FILES.0.store(at, Ordering::SeqCst);
}

/// Lets the device be lost at the step `at`, counted from 1: a pass of a backbone, or a training step.
#[doc(hidden)]
pub fn device(at: usize) {
    DEVICE.0.store(at, Ordering::SeqCst);
}

/// Lets a pass of more than so many images run out of the device's memory, and every later one too.
#[doc(hidden)]
pub fn device_room(images: usize) {
    ROOM.store(images, Ordering::SeqCst);
}

/// Lets the system refuse this thread every lock of a file with this error number; none any more where absent.
#[doc(hidden)]
pub fn locks(refused: Option<i32>) {
    NO_LOCKS.set(refused);
}

/// One lock the system is asked for.
pub(super) fn lock_step() -> io::Result<()> {
    NO_LOCKS.get().map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

/// Nothing fails any more; whether something did.
#[doc(hidden)]
pub fn none() -> bool {
    ROOM.store(NEVER, Ordering::SeqCst);
    let reached = [&FILES, &DEVICE].map(|countdown| countdown.0.swap(NEVER, Ordering::SeqCst) == 0);
    reached.contains(&true)
}

/// One thing the system is asked for on the way of a file to its place.
pub(super) fn file_step() -> io::Result<()> {
    let Some(left @ 0..=1) = FILES.step() else { return Ok(()) };
    match *FAULT.lock().unwrap_or_else(PoisonError::into_inner) {
        Failure::Kill => std::process::abort(),
        Failure::Once(_) if left == 0 => Ok(()),
        Failure::Once(number) | Failure::Lasting(number) => Err(io::Error::from_raw_os_error(number)),
    }
}

/// One thing a device is asked for, of a batch of so many images.
pub(in crate::model) fn device_step(images: usize) {
    assert!(DEVICE.step() != Some(1), "the device is lost");
    assert!(images <= ROOM.load(Ordering::Relaxed), "out of device memory");
}
