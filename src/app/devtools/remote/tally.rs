//! A link that counts its messages: how many of each kind, and their bytes as they travel the pipe.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::app::jobs::{Event, Request};
use crate::app::remote::{AnyWorker, Link, frame};
use crate::app::state::connection::Connection;

/// Most messages that wait to be counted.
const MAX_WAITING: usize = 1 << 16;

/// Messages and bytes, by kind.
pub type Sizes = BTreeMap<&'static str, (u64, u64)>;

/// What the counting thread receives.
pub enum Message {
    Request(Request),
    Event(Box<Event>),
    /// A phase begins: its name, and how often what it is about is repeated.
    Phase(&'static str, usize),
}

/// A link that sends a copy of every message to the counting thread.
pub struct CountingLink {
    pub link: Link,
    pub messages: SyncSender<Message>,
}

impl AnyWorker for CountingLink {
    fn send(&mut self, request: Request) {
        let _ = self.messages.try_send(Message::Request(request.clone())); // fails if counting did: its table is empty then
        self.link.send(request);
    }

    fn recv_timeout(&mut self, at_most: Duration) -> Option<Event> {
        let event = self.link.recv_timeout(at_most)?;
        let _ = self.messages.try_send(Message::Event(Box::new(event.clone()))); // as above
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

/// The phases in order: name, repetitions, messages and bytes.
pub type Phases = Vec<(&'static str, usize, Sizes)>;

/// Starts counting on a thread of its own, so that no frame waits for it; ends once every sender is dropped.
pub fn start() -> std::io::Result<(SyncSender<Message>, JoinHandle<Phases>)> {
    let (sender, messages) = sync_channel(MAX_WAITING);
    let counting = Builder::new().name("scale".into()).spawn(move || count(&messages))?;
    Ok((sender, counting))
}

fn count(messages: &Receiver<Message>) -> Phases {
    let mut phases: Phases = Vec::new();
    for message in messages {
        let (kind, size) = match &message {
            Message::Phase(name, times) => {
                phases.push((name, *times, Sizes::new()));
                continue;
            }
            Message::Request(request) => ("requests", size(request)),
            Message::Event(event) => (kind(event), size(&**event)),
        };
        if let Some((_, _, sizes)) = phases.last_mut() {
            let (count, bytes) = sizes.entry(kind).or_default();
            (*count, *bytes) = (*count + 1, *bytes + size);
        }
    }
    phases
}

/// Bytes of a message in the pipe, compressed; 0 if it cannot be written.
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
        let (messages, counting) = start().unwrap();
        messages.send(Message::Event(Box::new(Event::Memory(1)))).unwrap(); // before any phase
        messages.send(Message::Phase("looks", 2)).unwrap();
        messages.send(Message::Request(Request::Cancel(JobId(1)))).unwrap();
        messages.send(Message::Event(Box::new(Event::Started(JobId(1))))).unwrap();
        messages.send(Message::Event(Box::new(Event::Finished(JobId(1))))).unwrap();
        drop(messages);
        let phases = counting.join().unwrap();
        let [("looks", 2, sizes)] = &phases[..] else { panic!("{phases:?}") };
        let expected = size(&Event::Started(JobId(1))) + size(&Event::Finished(JobId(1)));
        assert_eq!(sizes["others"], (2, expected));
        assert_eq!(sizes["requests"], (1, size(&Request::Cancel(JobId(1)))));
    }
}
