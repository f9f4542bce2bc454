//! A link whose messages are weighed on the way: how many of each kind, and the bytes they have on a wire.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::app::jobs::{Event, Request};
use crate::app::remote::{Link, frame};
use crate::app::state::connection::Connection;
use crate::app::window::Engine;

/// Messages that wait to be weighed.
const ROOM: usize = 1 << 16;

/// Messages and bytes, by kind.
pub type Sizes = BTreeMap<&'static str, (u64, u64)>;

/// What is weighed.
pub enum Weighed {
    Asked(Request),
    Told(Box<Event>),
    /// From now on so many of this are done.
    Phase(&'static str, usize),
}

/// The link, and who weighs.
pub struct Counted {
    pub link: Link,
    pub scale: SyncSender<Weighed>,
}

impl Engine for Counted {
    fn send(&mut self, request: Request) {
        let _ = self.scale.try_send(Weighed::Asked(request.clone())); // it has room, or has failed, which is told at the end
        self.link.send(request);
    }

    fn soon(&mut self, at_most: Duration) -> Option<Event> {
        let event = self.link.soon(at_most)?;
        let _ = self.scale.try_send(Weighed::Told(Box::new(event.clone()))); // as above
        Some(event)
    }

    fn connection(&mut self) -> Connection {
        self.link.connection()
    }

    fn connect(&mut self) {
        self.link.connect();
    }

    fn log(&mut self) -> Option<String> {
        self.link.log()
    }
}

/// Sizes of every phase.
type Phases = Vec<(&'static str, usize, Sizes)>;

/// Starts who weighs, on a thread of its own: no frame waits for that.
pub fn start() -> std::io::Result<(SyncSender<Weighed>, JoinHandle<Phases>)> {
    let (scale, weighed) = sync_channel(ROOM);
    let weighing = Builder::new().name("scale".into()).spawn(move || weigh(&weighed))?;
    Ok((scale, weighing))
}

fn weigh(weighed: &Receiver<Weighed>) -> Phases {
    let mut phases: Phases = Vec::new();
    for one in weighed {
        let (kind, size) = match &one {
            Weighed::Phase(name, times) => {
                phases.push((name, *times, Sizes::new()));
                continue;
            }
            Weighed::Asked(request) => ("requests", size(request)),
            Weighed::Told(event) => (kind(event), size(&**event)),
        };
        if let Some((_, _, sizes)) = phases.last_mut() {
            let (count, bytes) = sizes.entry(kind).or_default();
            (*count, *bytes) = (*count + 1, *bytes + size);
        }
    }
    phases
}

/// Bytes on a wire.
fn size(value: &impl serde::Serialize) -> u64 {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, value, true).map_or(0, |()| bytes.len() as u64)
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Explained { .. } => "traces",
        Event::ThumbnailReady { .. } => "thumbnails",
        _ => "others",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::JobId;

    #[test]
    fn messages_are_weighed_by_phase_and_kind() {
        let (scale, weighing) = start().unwrap();
        scale.send(Weighed::Told(Box::new(Event::Memory(1)))).unwrap(); // before any phase
        scale.send(Weighed::Phase("looks", 2)).unwrap();
        scale.send(Weighed::Asked(Request::Cancel(JobId(1)))).unwrap();
        scale.send(Weighed::Told(Box::new(Event::Started(JobId(1))))).unwrap();
        scale.send(Weighed::Told(Box::new(Event::Finished(JobId(1))))).unwrap();
        drop(scale);
        let phases = weighing.join().unwrap();
        let [("looks", 2, sizes)] = &phases[..] else { panic!("{phases:?}") };
        let expected = size(&Event::Started(JobId(1))) + size(&Event::Finished(JobId(1)));
        assert_eq!(sizes["others"], (2, expected));
        assert_eq!(sizes["requests"], (1, size(&Request::Cancel(JobId(1)))));
    }
}
