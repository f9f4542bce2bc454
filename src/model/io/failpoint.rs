//! Failure injection: tests let each step of the file layer, or of the device, fail in turn. In ordinary use
//! nothing is set, and a step costs one atomic load.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How a step of the file layer fails.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// It and every later one return this `errno`: a disk that is full stays full.
    Lasting(i32),
    /// It alone returns this `errno`.
    Once(i32),
    /// The process aborts there, as if killed: nothing is cleaned up.
    Kill,
}

/// Number of steps up to the one that fails, it included; 0 after it, [`NEVER`] if none is to fail.
struct Countdown(AtomicUsize);

/// No step is to fail.
const NEVER: usize = usize::MAX;

static FILES: Countdown = Countdown(AtomicUsize::new(NEVER));
static DEVICE: Countdown = Countdown(AtomicUsize::new(NEVER));
/// Largest batch, in images, that fits the device's memory.
static ROOM: AtomicUsize = AtomicUsize::new(NEVER);
static FAULT: Mutex<Failure> = Mutex::new(Failure::Kill);

thread_local! {
    /// `errno` of every attempt to lock a file; of this thread alone, because tests run in parallel.
    static NO_LOCKS: Cell<Option<i32>> = const { Cell::new(None) };
}

impl Countdown {
    /// Counts one step; returns the count before it: 1 at the step that fails, 0 after it. `None` if none is to fail.
    fn step(&self) -> Option<usize> {
        if self.0.load(Ordering::Relaxed) == NEVER {
            return None;
        }
        let next = |left: usize| (left != NEVER).then(|| left.saturating_sub(1));
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok()
    }
}

/// Makes the `at`-th file step of this process from now on, counted from 1, fail with `fault`.
#[doc(hidden)]
pub fn files(at: usize, fault: Failure) {
    *FAULT.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    FILES.0.store(at, Ordering::SeqCst);
}

/// Makes the device fail at the `at`-th device step, counted from 1: a backbone's forward pass, or a training step.
#[doc(hidden)]
pub fn device(at: usize) {
    DEVICE.0.store(at, Ordering::SeqCst);
}

/// Makes every pass of more than this many images run out of device memory.
#[doc(hidden)]
pub fn device_room(images: usize) {
    ROOM.store(images, Ordering::SeqCst);
}

/// Makes every attempt of this thread to lock a file fail with this `errno`, or none if absent.
#[doc(hidden)]
pub fn locks(refused: Option<i32>) {
    NO_LOCKS.set(refused);
}

/// An attempt to lock a file: fails if [`locks`] says so.
pub(super) fn lock_step() -> io::Result<()> {
    NO_LOCKS.get().map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

/// Whether a step has failed as every later one will: waiting is in vain.
#[doc(hidden)]
pub fn lasts() -> bool {
    let is_lasting = || matches!(*FAULT.lock().unwrap_or_else(PoisonError::into_inner), Failure::Lasting(_));
    FILES.0.load(Ordering::SeqCst) == 0 && is_lasting()
}

/// Clears all failures but that of [`locks`]; returns whether the step that was to fail has been reached.
#[doc(hidden)]
pub fn none() -> bool {
    ROOM.store(NEVER, Ordering::SeqCst);
    let reached = [&FILES, &DEVICE].map(|countdown| countdown.0.swap(NEVER, Ordering::SeqCst) == 0);
    reached.contains(&true)
}

/// One system call of the file layer: fails if [`files`] says so.
pub(super) fn file_step() -> io::Result<()> {
    let Some(left @ 0..=1) = FILES.step() else { return Ok(()) };
    match *FAULT.lock().unwrap_or_else(PoisonError::into_inner) {
        Failure::Kill => std::process::abort(),
        Failure::Once(_) if left == 0 => Ok(()),
        Failure::Once(number) | Failure::Lasting(number) => Err(io::Error::from_raw_os_error(number)),
    }
}

/// One pass of the device over a batch of this many images: panics if [`device`] or [`device_room`] says so.
pub(in crate::model) fn device_step(images: usize) {
    assert!(DEVICE.step() != Some(1), "the device is lost");
    assert!(images <= ROOM.load(Ordering::Relaxed), "out of device memory");
}
