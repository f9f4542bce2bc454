//! Detects races: two threads access the same memory, one of them writing, with no barrier between that orders them. A block
//! barrier orders its threads, a warp barrier its lanes; nothing orders the blocks of a launch. On a GPU the result of a race may
//! change from run to run; here it would not, since threads run in a fixed order.
//!
//! Memory is tracked two bytes at a time. A write that changes no byte does not count: two threads that write the same value do not
//! race. Atomics are not tracked.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A thread, and how many barriers it has passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The thread's index in its block.
    pub thread: u16,
    /// Number of block barriers passed.
    pub barriers: u32,
    /// Number of warp barriers passed.
    pub warp_barriers: u32,
}

/// Which other threads accessed the bytes between the same barriers.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Others {
    None,
    OfTheWarp,
    OfOtherWarps,
}

#[derive(Clone, Copy)]
struct Seen {
    last: Moment,
    others: Others,
}

impl Seen {
    /// Whether no barrier orders this access before `now`.
    fn races_with(&self, now: Moment) -> bool {
        let Self { last, others } = *self;
        if last.barriers != now.barriers {
            return false;
        }
        let same_warp = last.thread / 32 == now.thread / 32 && others != Others::OfOtherWarps;
        !same_warp
            || last.warp_barriers == now.warp_barriers
                && (last.thread != now.thread || others == Others::OfTheWarp)
    }

    fn and(self, now: Moment) -> Self {
        let Self { last, others } = self;
        let others = if last.barriers != now.barriers {
            Others::None
        } else if others == Others::OfOtherWarps || last.thread / 32 != now.thread / 32 {
            Others::OfOtherWarps
        } else if last.warp_barriers != now.warp_barriers {
            Others::None
        } else if others == Others::OfTheWarp || last.thread != now.thread {
            Others::OfTheWarp
        } else {
            Others::None
        };
        Self { last: now, others }
    }
}

/// The accesses of a block to two bytes.
#[derive(Clone, Copy, Default)]
struct Use {
    written: Option<Seen>,
    /// Reads since the last write.
    read: Option<Seen>,
    was_read: bool,
}

impl Use {
    fn read(&mut self, now: Moment) -> bool {
        self.was_read = true;
        self.read = Some(self.read.map_or(Seen { last: now, others: Others::None }, |read| read.and(now)));
        !self.written.is_some_and(|written| written.races_with(now))
    }

    fn write(&mut self, now: Moment) -> bool {
        let races_with = |seen: Option<Seen>| seen.is_some_and(|seen| seen.races_with(now));
        let fine = !races_with(self.written) && !races_with(self.read);
        (self.written, self.read) = (Some(Seen { last: now, others: Others::None }), None);
        fine
    }
}

/// Number of byte pairs in a page.
const PAGE: usize = 2048;
/// Most pages of a block and of a launch, 32 MB: if more memory is accessed, as in measurements of a device's speed, the rest is
/// not tracked.
const PAGES: usize = 8192;

/// The accesses of a block to shared and global memory.
#[derive(Default)]
pub struct Races {
    pages: HashMap<u64, Box<[Use]>>,
}

impl Races {
    /// Records a read, or a change, of `bytes` at an address; whether it is free of races.
    pub fn touch(&mut self, at: u64, bytes: usize, now: Moment, writes: bool) -> bool {
        let (first, count) = (at / 2, bytes.div_ceil(2) as u64);
        let (page, index) = (first / PAGE as u64, (first % PAGE as u64) as usize);
        if self.pages.len() >= PAGES && !self.pages.contains_key(&page) {
            return true;
        }
        let page = self.pages.entry(page).or_insert_with(|| vec![Use::default(); PAGE].into());
        let mut fine = true;
        for used in &mut page[index..index + count as usize] {
            fine &= if writes { used.write(now) } else { used.read(now) };
        }
        fine
    }

    /// Forgets all accesses to these bytes.
    pub fn forget(&mut self, at: u64, bytes: usize) {
        let (first, last) = (at / 2, (at + bytes as u64) / 2);
        for (number, page) in &mut self.pages {
            let begin = number * PAGE as u64;
            let index = |pair: u64| (pair.max(begin) - begin).min(PAGE as u64) as usize;
            page[index(first)..index(last)].fill(Use::default());
        }
    }
}

/// The accesses of all blocks of a launch to global memory.
#[derive(Default)]
pub struct Launch {
    pages: Mutex<HashMap<u64, Box<[Owners]>>>,
}

/// The blocks that wrote and read two bytes, numbered from 1, 0 for none; any one of several readers.
#[derive(Clone, Copy, Default)]
struct Owners {
    written: u64,
    read: u64,
    read_by_others: bool,
}

impl Launch {
    /// Adds the accesses of block `block`; an error with the address at which it races with another block.
    pub fn add(&self, block: u64, races: Races) -> Result<(), u64> {
        let own = block + 1;
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, page) in races.pages {
            if pages.len() >= PAGES && !pages.contains_key(&number) {
                continue;
            }
            let owners = pages.entry(number).or_insert_with(|| vec![Owners::default(); PAGE].into());
            for (index, (owners, used)) in owners.iter_mut().zip(&page).enumerate() {
                let other = |block: u64| block != 0 && block != own;
                let clash = used.written.is_some()
                    && (other(owners.written) || other(owners.read) || owners.read_by_others)
                    || used.was_read && other(owners.written);
                if clash {
                    return Err((number * PAGE as u64 + index as u64) * 2);
                }
                if used.written.is_some() {
                    owners.written = own;
                }
                if used.was_read {
                    owners.read_by_others |= other(owners.read);
                    owners.read = own;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(thread: u16, barriers: u32, warp_barriers: u32) -> Moment {
        Moment { thread, barriers, warp_barriers }
    }

    #[test]
    fn what_no_barrier_parts_is_a_race_if_one_writes() {
        let before = at(3, 0, 0);
        for (after, fine) in [
            (before, true),
            (at(4, 0, 0), false),
            (at(4, 0, 1), true),
            (at(40, 0, 0), false),
            (at(40, 0, 1), false),
            (at(40, 1, 0), true),
        ] {
            for [first, second] in [[true, false], [false, true], [true, true], [false, false]] {
                let mut races = Races::default();
                assert!(races.touch(64, 4, before, first));
                assert_eq!(races.touch(66, 2, after, second), fine || !(first || second), "{after:?}");
                assert!(races.touch(68, 4, after, true), "another word");
            }
        }
    }

    #[test]
    fn every_reader_counts() {
        for (readers, writer) in [
            ([at(1, 0, 0), at(2, 0, 0)], at(2, 0, 0)),
            ([at(2, 0, 0), at(1, 0, 0)], at(2, 0, 0)),
            ([at(40, 0, 0), at(2, 0, 0)], at(2, 0, 0)),
            ([at(2, 0, 0), at(40, 0, 0)], at(40, 0, 0)),
        ] {
            let read = || {
                let mut races = Races::default();
                assert!(readers.into_iter().all(|reader| races.touch(0, 4, reader, false)));
                races
            };
            assert!(!read().touch(0, 4, writer, true), "{readers:?}");
            assert!(read().touch(0, 4, at(2, 1, 0), true));
        }
    }

    #[test]
    fn blocks_share_what_none_of_them_writes() {
        let did = |accesses: &[(u64, bool)]| {
            let mut races = Races::default();
            assert!(accesses.iter().all(|(address, writes)| races.touch(*address, 4, at(0, 0, 0), *writes)));
            races
        };
        let launch = Launch::default();
        assert_eq!(launch.add(0, did(&[(0, false), (8, true), (8, false)])), Ok(()));
        assert_eq!(launch.add(1, did(&[(0, false), (12, true)])), Ok(()));
        assert_eq!(launch.add(2, did(&[(8, false)])), Err(8), "written by another");
        assert_eq!(launch.add(3, did(&[(12, true)])), Err(12), "written by two");
        assert_eq!(launch.add(1, did(&[(0, true)])), Err(0), "read by another");
        let mut own = did(&[(4096, true), (0, true)]);
        own.forget(0, 4);
        assert_eq!(launch.add(1, own), Ok(()), "its own memory");
    }
}
