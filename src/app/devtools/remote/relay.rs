//! `ssmprobe bench relay`: stands between who asks and a worker, and hands every message on later than it came. However much
//! comes, it is not slower for it: a delay, no narrow wire.

use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

use crate::app::remote::hello::Hello;

/// Parts that are on their way at once.
const ON_THE_WAY: usize = 1 << 16;
/// Bytes of a part.
const PART: usize = 1 << 16;

/// Serves as `serve --stdio` does, and delays every message.
#[derive(Args)]
pub struct Relay {
    /// Delay each way, in milliseconds
    #[arg(long, value_name = "MS")]
    delay: u64,
    /// What the worker is told
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Bytes, and when they are handed on.
type Part = (Instant, Vec<u8>);

impl Relay {
    /// Relays until who asks has gone.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let delay = Duration::from_millis(self.delay);
        let program = std::env::current_exe().context("this program does not know where it lies")?;
        let mut command = Command::new(program);
        command.args(&self.words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("the worker cannot be started")?;
        let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the worker has no pipes");
        };
        let told = Builder::new().name("answers".into());
        let told = told.spawn(move || delayed(&mut from, &mut io::stdout(), delay))?;
        // Messages are packed as they are over a real wire.
        let asking = Hello::read(&mut io::BufReader::with_capacity(1, io::stdin()))?;
        thread::sleep(delay);
        Hello { packs: true, ..asking }.write(&mut to)?;
        delayed(&mut io::stdin(), &mut to, delay)?;
        drop(to);
        child.wait().context("the worker is not seen")?;
        let _ = told.join(); // it has ended with its pipe
        Ok(ExitCode::SUCCESS)
    }
}

/// Hands on what comes, each part so much later.
fn delayed(from: &mut impl Read, to: &mut (impl Write + Send), delay: Duration) -> io::Result<()> {
    let (sender, parts) = sync_channel(ON_THE_WAY);
    thread::scope(|scope| {
        let handing = scope.spawn(move || hand_on(&parts, to));
        take(from, &sender, delay);
        drop(sender);
        handing.join().unwrap_or_else(|_| Err(io::Error::other("the thread that hands on has failed")))
    })
}

fn take(from: &mut impl Read, sender: &SyncSender<Part>, delay: Duration) {
    loop {
        let mut bytes = vec![0; PART];
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.truncate(count),
        }
        if sender.send((Instant::now() + delay, bytes)).is_err() {
            return;
        }
    }
}

fn hand_on(parts: &Receiver<Part>, to: &mut impl Write) -> io::Result<()> {
    for (at, bytes) in parts {
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
        let (mut handed, begun) = (Vec::new(), Instant::now());
        delayed(&mut &bytes[..], &mut handed, Duration::from_millis(30)).unwrap();
        assert!(handed == bytes && begun.elapsed() >= Duration::from_millis(30));
    }
}
