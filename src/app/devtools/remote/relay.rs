//! `ssmprobe bench relay`: stands between a client and a worker, and delays every message by a fixed time. It adds latency
//! and does not limit bandwidth.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};

use crate::app::devtools::prelude::*;
use crate::app::paths::program;
use crate::app::remote::hello::Hello;

const MAX_IN_FLIGHT: usize = 1 << 16;
const CHUNK_BYTES: usize = 1 << 16;

/// Serves as `serve --stdio` does, and delays every message.
#[derive(Args)]
pub struct Relay {
    /// Delay each way, in milliseconds
    #[arg(long, value_name = "MS", value_parser = whole_number(0_u64..))]
    delay: u64,
    /// Arguments of the worker
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// When its bytes are due, and the bytes.
type Chunk = (Instant, Vec<u8>);

impl Relay {
    /// Relays until the client closes its end and the worker has ended.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let delay = Duration::from_millis(self.delay);
        let mut command = Command::new(program()?);
        command.args(&self.words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the worker cannot be started")?;
        let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the worker has no pipes");
        };
        let answers = Builder::new().name("answers".into());
        let answers = answers.spawn(move || forward(&mut from, &mut io::stdout(), delay))?;
        // Messages are compressed, as over a real network.
        let hello = Hello::read(&mut io::BufReader::with_capacity(1, io::stdin()))?;
        thread::sleep(delay);
        Hello { packs: true, ..hello }.write(&mut to)?;
        forward(&mut io::stdin(), &mut to, delay)?;
        drop(to);
        child.wait().context("the worker cannot be checked")?;
        let _ = answers.join(); // it ended with the worker's output
        Ok(ExitCode::SUCCESS)
    }
}

/// Copies `from` to `to`, each chunk `delay` after it came.
fn forward(from: &mut impl Read, to: &mut (impl Write + Send), delay: Duration) -> io::Result<()> {
    let (sender, chunks) = sync_channel(MAX_IN_FLIGHT);
    thread::scope(|scope| {
        let writer = scope.spawn(move || write_chunks(&chunks, to));
        read_chunks(from, &sender, delay);
        drop(sender);
        writer.join().unwrap_or_else(|_| Err(io::Error::other("the thread that hands on has failed")))
    })
}

fn read_chunks(from: &mut impl Read, sender: &SyncSender<Chunk>, delay: Duration) {
    loop {
        let mut bytes = vec![0; CHUNK_BYTES];
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.truncate(count),
        }
        if sender.send((Instant::now() + delay, bytes)).is_err() {
            return;
        }
    }
}

fn write_chunks(chunks: &Receiver<Chunk>, to: &mut impl Write) -> io::Result<()> {
    for (at, bytes) in chunks {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        to.write_all(&bytes)?;
        to.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_handed_on_whole_and_not_before_its_time() {
        let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        let (mut forwarded, begun) = (Vec::new(), Instant::now());
        forward(&mut &bytes[..], &mut forwarded, Duration::from_millis(30)).unwrap();
        assert!(forwarded == bytes && begun.elapsed() >= Duration::from_millis(30));
    }
}
