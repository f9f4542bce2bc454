//! Slurm through its own commands: `sbatch`, `squeue`, `scancel`, `scontrol`, and `sacct` where there is accounting.

use std::collections::{BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::model::io::atomic_file;

/// The largest array if the cluster does not say: Slurm's default `MaxArraySize` of 1001 without the index 0.
const DEFAULT_ARRAY: usize = 1000;

/// Largest script that is read, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// Why a command of Slurm failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what it is and what its fields are")]
pub enum SlurmError {
    #[error("there is no `{0}` on the PATH; run this where Slurm's commands are, or use --submit local")]
    Absent(&'static str),
    /// The command ended with an error, or printed no job id.
    #[error("{command} failed: {words}")]
    Refused { command: &'static str, words: String },
    #[error("{command} cannot be started: {source}")]
    Io { command: &'static str, source: std::io::Error },
}

impl SlurmError {
    /// Whether a limit on submitted tasks was reached, so that a later attempt may succeed.
    pub fn is_limit(&self) -> bool {
        let Self::Refused { words, .. } = self else { return false };
        let words = words.to_lowercase();
        words.contains("limit") && !words.contains("time limit is invalid")
    }
}

/// A task in Slurm's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The id of the job, or of the array, it was submitted with.
    pub id: String,
    /// Its number in the array, from 1; absent if it is a single job.
    pub number: Option<usize>,
    /// `PENDING`, `RUNNING`, `COMPLETING`, ...
    pub state: String,
    /// Time left until its limit, in Slurm's notation.
    pub left: String,
    /// Why it is pending, in Slurm's word.
    pub reason: String,
    /// The script it was submitted with.
    pub script: PathBuf,
}

/// Submits a script; returns its job id.
pub fn submit(script: &Path, options: &[String]) -> Result<String, SlurmError> {
    let path = script.to_string_lossy().into_owned();
    let arguments: Vec<String> =
        ["--parsable".to_owned()].into_iter().chain(options.to_vec()).chain([path]).collect();
    let text = atomic_file::text(script, MAX_SCRIPT_BYTES).unwrap_or_default(); // `sbatch` says why it cannot be read
    let mut sbatch = Command::new("sbatch");
    for name in overriding(&text) {
        sbatch.env_remove(name);
    }
    let stdout = output("sbatch", sbatch.args(arguments))?;
    // ID, or ID;CLUSTER, on the last line: a site's plugins may print others before it.
    let last = stdout.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    let id = last.split(';').next().unwrap_or_default();
    match is_job(id) {
        true => Ok(id.to_owned()),
        false => {
            Err(SlurmError::Refused { command: "sbatch", words: format!("`{last}`, expected a job number") })
        }
    }
}

/// Variables of a user's own that `sbatch` would heed more than the options of a script, whose log is of both streams, which says
/// itself whether it is an array, and whose tasks are looked for on this cluster alone.
fn overriding(script: &str) -> Vec<String> {
    let options = script.lines().filter_map(|line| line.strip_prefix("#SBATCH --"));
    let names = options.map(|option| match option.split(['=', ' ']).next().unwrap_or_default() {
        "time" => "TIMELIMIT".to_owned(),
        "mem" => "MEM_PER_NODE".to_owned(),
        "requeue" => "NO_REQUEUE".to_owned(),
        other => other.to_uppercase().replace('-', "_"),
    });
    names
        .chain(["ARRAY_INX", "CLUSTERS", "ERROR"].map(str::to_owned))
        .map(|name| format!("SBATCH_{name}"))
        .collect()
}

/// Whether a text is the number of a job: what else a plan names could be an option of Slurm's commands.
pub fn is_job(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit())
}

/// The tasks in the queue of this user, of the owner of the file `plan`, as a run may be opened by others, and of that of its folder,
/// as a retry by another user replaces the file.
pub fn queue(plan: &Path) -> Result<Vec<Queued>, SlurmError> {
    let files = [Some(Path::new("/proc/self")), Some(plan), plan.parent()];
    let users: BTreeSet<String> = files.into_iter().flatten().filter_map(owner).collect();
    let whose = match users.is_empty() {
        true => "--me".to_owned(),
        false => format!("--user={}", users.into_iter().collect::<Vec<_>>().join(",")),
    };
    let arguments =
        [&*whose, "--all", "--array", "--noheader", "--format=%F|%K|%T|%L|%r|%o"].map(str::to_owned);
    Ok(call("squeue", &arguments)?.lines().filter_map(parse_queued).collect())
}

/// The number of the user to whom a file belongs.
#[cfg(unix)]
fn owner(file: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    Some(file.metadata().ok()?.uid().to_string())
}

#[cfg(not(unix))]
fn owner(_: &Path) -> Option<String> {
    None
}

fn parse_queued(line: &str) -> Option<Queued> {
    let mut fields = line.splitn(6, '|').map(|field| field.trim().to_owned());
    let (id, number) = (fields.next()?, fields.next()?.parse().ok());
    let [state, left, reason] = [fields.next()?, fields.next()?, fields.next()?];
    Some(Queued { id, number, state, left, reason, script: fields.next().unwrap_or_default().into() })
}

/// Cancels jobs.
pub fn cancel(ids: &[String]) -> Result<(), SlurmError> {
    if ids.is_empty() { Ok(()) } else { call("scancel", ids).map(drop) }
}

/// The largest number of a task in an array on this cluster, counted from 1.
pub fn largest_array() -> usize {
    let stdout = call("scontrol", &["show".to_owned(), "config".to_owned()]).unwrap_or_default();
    let line = stdout.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"));
    let size = line.and_then(|line| line.trim_start_matches([' ', '=']).trim().parse::<usize>().ok());
    size.map_or(DEFAULT_ARRAY, |size| size.saturating_sub(1)).max(1)
}

/// The final states (`TIMEOUT`, `OUT_OF_MEMORY`, ...) of the tasks submitted as `jobs`, by Slurm's id of each; empty where
/// there is no accounting. Tasks of an array that ended together before they started have one entry there, `12_[3-5]`:
/// its key is `12_` here.
pub fn final_states(jobs: &BTreeSet<&str>) -> HashMap<String, String> {
    if jobs.is_empty() {
        return HashMap::new();
    }
    let arguments = ["--noheader", "--allocations", "--parsable2", "--format=JobID,State"].map(str::to_owned);
    let jobs = format!("--jobs={}", jobs.iter().copied().collect::<Vec<_>>().join(","));
    let stdout = call("sacct", &[&arguments[..], &[jobs]].concat()).unwrap_or_default();
    let parse = |line: &str| {
        let (id, state) = line.trim().split_once('|')?;
        Some((id.split('[').next()?.to_owned(), state.to_owned()))
    };
    stdout.lines().filter_map(parse).collect()
}

/// Runs a command; returns its standard output.
fn call(command: &'static str, arguments: &[String]) -> Result<String, SlurmError> {
    let mut process = Command::new(command);
    process.args(arguments);
    // A user's own filters (SQUEUE_STATES, SCANCEL_PARTITION) would hide tasks, which then count as lost; other clusters of a
    // federation are no filter.
    let is_filter = |name: &str| {
        (name.starts_with("SQUEUE_") || name.starts_with("SCANCEL_")) && name != "SQUEUE_FEDERATION"
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_filter)) {
        process.env_remove(name);
    }
    output(command, &mut process)
}

/// The standard output of a command of Slurm.
fn output(command: &'static str, process: &mut Command) -> Result<String, SlurmError> {
    let output = process.stdin(Stdio::null()).output().map_err(|source| match source.kind() {
        ErrorKind::NotFound => SlurmError::Absent(command),
        _ => SlurmError::Io { command, source },
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let printed = [&output.stderr, &output.stdout].map(|bytes| text(bytes)).concat();
    let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let words = match lines.is_empty() {
        true => format!("no output, {}", output.status),
        false => lines.join("; "),
    };
    Err(SlurmError::Refused { command, words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_tasks_is_told_from_one_on_their_time() {
        let refused = |words: &str| SlurmError::Refused { command: "sbatch", words: words.to_owned() };
        assert!(refused("QOSMaxSubmitJobPerUserLimit").is_limit());
        assert!(!refused("Requested time limit is invalid (missing or exceeds some limit)").is_limit());
    }

    #[test]
    fn the_queue_is_read() {
        let line = parse_queued("12|3|PENDING|1:00:00|Priority|/a|b/train.sh").unwrap();
        assert_eq!((line.id.as_str(), line.number, line.state.as_str()), ("12", Some(3), "PENDING"));
        assert_eq!((line.left.as_str(), line.reason.as_str()), ("1:00:00", "Priority"));
        assert_eq!(line.script, Path::new("/a|b/train.sh"));
        assert_eq!(parse_queued("12|N/A|RUNNING|UNLIMITED|None").unwrap().number, None);
        assert_eq!(parse_queued("slurm_load_jobs error"), None);
    }
}
