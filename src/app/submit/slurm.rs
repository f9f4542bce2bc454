//! Slurm, as its own commands say it: `sbatch`, `squeue`, `scancel`, `scontrol`, and `sacct` where there is accounting.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

/// The most tasks of an array, where the cluster does not say: Slurm's own default, less the 0.
const USUAL_ARRAY: usize = 1000;

/// Why Slurm does not do what it is asked.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// It is not here.
    #[error("there is no `{0}` on the PATH; call this where Slurm's commands are, or use --submit local")]
    Absent(&'static str),
    /// It refuses.
    #[error("{command} refuses: {words}")]
    Refused {
        /// Which command.
        command: &'static str,
        /// Its own words.
        words: String,
    },
    /// It cannot be started.
    #[error("{command} cannot be started: {source}")]
    Io {
        /// Which command.
        command: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}

impl SlurmError {
    /// Whether it refuses because there are too many tasks, and may take them later.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::Refused { words, .. } if words.to_lowercase().contains("limit"))
    }
}

/// A task in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// What Slurm calls the job that it was handed in with.
    pub id: String,
    /// Its number in the array, from 1; absent where there is none.
    pub number: Option<usize>,
    /// `PENDING`, `RUNNING`, `COMPLETING`, ...
    pub state: String,
    /// Time left, as Slurm writes it.
    pub left: String,
    /// Why it waits.
    pub reason: String,
}

/// Hands in the script; what Slurm calls it.
///
/// # Errors
/// If Slurm refuses: in its own words.
pub fn submit(script: &Path, options: &[String]) -> Result<String, SlurmError> {
    let script = script.to_string_lossy().into_owned();
    let words: Vec<String> =
        ["--parsable".to_owned()].into_iter().chain(options.to_vec()).chain([script]).collect();
    let said = call("sbatch", &words)?;
    // ID, or ID;CLUSTER, after what a site's plugins may have to say.
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let id = last.split(';').next().unwrap_or_default();
    match !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) {
        true => Ok(id.to_owned()),
        false => Err(SlurmError::Refused {
            command: "sbatch",
            words: format!("`{last}`, expected the number of a job"),
        }),
    }
}

/// This user's tasks that are in the queue.
///
/// # Errors
/// If Slurm does not answer.
pub fn queue() -> Result<Vec<Queued>, SlurmError> {
    let words = ["--me", "--array", "--noheader", "--format=%F|%K|%T|%L|%r"].map(str::to_owned);
    Ok(call("squeue", &words)?.lines().filter_map(queued).collect())
}

/// A line of the queue.
fn queued(line: &str) -> Option<Queued> {
    let mut fields = line.splitn(5, '|').map(|field| field.trim().to_owned());
    let (id, number) = (fields.next()?, fields.next()?.parse().ok());
    Some(Queued { id, number, state: fields.next()?, left: fields.next()?, reason: fields.next()? })
}

/// Ends jobs.
///
/// # Errors
/// If Slurm refuses.
pub fn cancel(ids: &[String]) -> Result<(), SlurmError> {
    if ids.is_empty() { Ok(()) } else { call("scancel", ids).map(drop) }
}

/// The most tasks that an array may have here, counted from 1.
pub fn largest_array() -> usize {
    let said = call("scontrol", &["show".to_owned(), "config".to_owned()]).unwrap_or_default();
    let line = said.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"));
    let size = line.and_then(|line| line.trim_start_matches([' ', '=']).trim().parse::<usize>().ok());
    size.map_or(USUAL_ARRAY, |size| size.saturating_sub(1)).max(1)
}

/// How tasks ended that are no longer in the queue, where there is accounting: `TIMEOUT`, `OUT_OF_MEMORY`, ... by what Slurm
/// calls each, of all that were handed in as `jobs`. Those of an array that ended together before they began stand there as
/// `12_[3-5]`: as `12_` here.
pub fn ended(jobs: &BTreeSet<&str>) -> HashMap<String, String> {
    if jobs.is_empty() {
        return HashMap::new();
    }
    let words = ["--noheader", "--allocations", "--parsable2", "--format=JobID,State"].map(str::to_owned);
    let jobs = format!("--jobs={}", jobs.iter().copied().collect::<Vec<_>>().join(","));
    let said = call("sacct", &[&words[..], &[jobs]].concat()).unwrap_or_default();
    let own = |line: &str| {
        let (id, state) = line.trim().split_once('|')?;
        Some((id.split('[').next()?.to_owned(), state.to_owned()))
    };
    said.lines().filter_map(own).collect()
}

/// What a command prints.
fn call(command: &'static str, words: &[String]) -> Result<String, SlurmError> {
    let output = Command::new(command).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|source| match source.kind() {
        ErrorKind::NotFound => SlurmError::Absent(command),
        _ => SlurmError::Io { command, source },
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let said = [&output.stderr, &output.stdout].map(|bytes| text(bytes)).concat();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = match lines.is_empty() {
        true => format!("it says nothing, and ends with {}", output.status),
        false => lines.join("; "),
    };
    Err(SlurmError::Refused { command, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read() {
        let line = queued("12|3|PENDING|1:00:00|Priority").unwrap();
        assert_eq!((line.id.as_str(), line.number, line.state.as_str()), ("12", Some(3), "PENDING"));
        assert_eq!((line.left.as_str(), line.reason.as_str()), ("1:00:00", "Priority"));
        assert_eq!(queued("12|N/A|RUNNING|UNLIMITED|None").unwrap().number, None);
        assert_eq!(queued("slurm_load_jobs error"), None);
    }
}
