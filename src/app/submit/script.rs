//! The batch script of a stage, short enough to be read, edited and submitted by hand.

use std::borrow::Cow;
use std::fmt::Write;

use super::plan::{Plan, Stage};
use crate::app::format::{shell_path, shell_word};

/// Seconds before a task's time limit at which Slurm signals it: saving takes less.
const WARNING_SECONDS: u32 = 120;

/// The script of a stage.
pub fn script(plan: &Plan, stage: &Stage) -> String {
    let mut text = String::from("#!/bin/bash\n");
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}"); // writing to a String cannot fail
    };
    // What follows a line break would no longer be an option, but a command of the script.
    let mut option_line = |text: &str| line(&format!("#SBATCH --{}", text.replace(char::is_control, " ")));
    let verb = stage.words.first().map_or("", String::as_str);
    let (program, home) = (shell_path(&plan.program), plan.home());
    let name = stage.id();
    option_line(&format!("job-name=ssmprobe-{name}"));
    let is_split = plan.largest_array < stage.tasks();
    let log = match stage.parts {
        Some(parts) => {
            let limit = plan.slurm.array_limit.map_or(String::new(), |limit| format!("%{limit}"));
            option_line(&format!("array=1-{}{limit}", parts.min(plan.largest_array)));
            // In several arrays Slurm's task numbers repeat: the script redirects its output to the task's own log below.
            if is_split { "slurm-%A_%a.txt".to_owned() } else { format!("{name}-%a.txt") }
        }
        None => format!("{name}.txt"),
    };
    let logs = home.join("log");
    let folder = logs.to_string_lossy().replace('%', "%%");
    option_line(&format!("output={}", option(&format!("{folder}/{log}"))));
    option_line("open-mode=append");
    option_line("requeue");
    option_line(&format!("signal=B:USR1@{WARNING_SECONDS}"));
    for other in plan.slurm.options() {
        option_line(&option_pair(&other));
    }
    line("");
    let state = home.join("state").join(&name);
    let state = shell_path(&state);
    let (state, part) = match stage.parts {
        None => (state, String::new()),
        Some(parts) => {
            // Every array counts from 1, also one that begins in the middle of the stage.
            let first = if is_split { " + ${SSMPROBE_BEFORE:-0}" } else { "" };
            line(&format!("task=$((SLURM_ARRAY_TASK_ID{first}))"));
            if is_split {
                line(&format!("exec >>{}-$task.txt 2>&1", shell_path(&logs.join(&name))));
            }
            (format!("{state}-$task"), format!(" \\\n    --part=$task/{parts}"))
        }
    };
    line(&format!("cd {} && rm -f {state} || exit", shell_path(&plan.directory)));
    // Not every cluster confines a task to its processors.
    line("export RAYON_NUM_THREADS=${RAYON_NUM_THREADS:-$SLURM_CPUS_ON_NODE}");
    line("");
    line(&format!("# {WARNING_SECONDS} s before its time limit it saves what is done, and is requeued."));
    line("trap 'over=yes; kill -TERM $!' USR1");
    line("trap : TERM # the program gets this signal as well, and saves what is done");
    let words = stage.words.iter().skip(1).map(|word| format!(" \\\n    {}", shell_word(word)));
    let words: String = words.collect();
    line(&format!("{program} {verb}{words}{part} &"));
    line("program=$!");
    line("while wait $program; code=$?; [ $code -gt 128 ] && kill -0 $program 2>/dev/null; do :; done");
    line("");
    let id = match stage.parts {
        Some(_) => "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID",
        None => "$SLURM_JOB_ID",
    };
    line("if [ $code -gt 128 ] && [ \"$over\" ]; then");
    line("    trap '' TERM # which Slurm sends to every process of a requeued job, scontrol included");
    line(&format!("    scontrol requeue {id} && exit"));
    line("fi");
    line(&format!("echo $code > {state}"));
    line("exit $code");
    text
}

/// The value of an option, quoted for an `#SBATCH` line.
fn option(value: &str) -> Cow<'_, str> {
    match value.contains(|c: char| c.is_whitespace() || c.is_control() || "#'\"\\".contains(c)) {
        true => format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\"")).into(),
        false => value.into(),
    }
}

/// `KEY=VALUE`, or a key alone, quoted for an `#SBATCH` line.
fn option_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((key, value)) => format!("{key}={}", option(value)),
        None => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(unix)]
    use crate::app::submit::flags::{SlurmFlags, SubmitTarget};

    #[cfg(unix)]
    #[test]
    fn a_task_out_of_time_is_requeued_and_leaves_no_exit_code() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let command = |name: &str, text: &str| {
            let path = folder.path().join(name);
            crate::model::io::atomic_file::write(&path, format!("#!/bin/sh\n{text}\n").as_bytes()).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        // Slurm ends the processes of the job before scontrol has ended.
        command("scontrol", "echo \"$@\" >requeued\nkill -TERM $$");
        let stages = vec![Stage::cut("train", vec!["train".into()], 2)];
        let mut plan = Plan::new(folder.path(), SubmitTarget::Slurm, SlurmFlags::default(), stages).unwrap();
        plan.program = command("program", "kill -USR1 $PPID\nexec sleep 60");
        plan.directory = folder.path().to_owned();
        let batch = command("batch", &script(&plan, &plan.stages[0]));
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
        let mut bash = std::process::Command::new("bash");
        bash.arg(batch).env("PATH", path).envs([
            ("SLURM_ARRAY_JOB_ID", "7"),
            ("SLURM_ARRAY_TASK_ID", "1"),
            ("SLURM_CPUS_ON_NODE", "1"),
        ]);
        assert!(bash.status().unwrap().success());
        assert_eq!(std::fs::read_to_string(folder.path().join("requeued")).unwrap(), "requeue 7_1\n");
        assert!(!plan.home().join("state/train-1").exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_percent_sign_in_the_path_of_a_log_begins_no_pattern() {
        let stages = vec![Stage::single("eval", vec!["eval".into()])];
        let folder = std::path::Path::new("/at 50%j");
        let plan = Plan::new(folder, SubmitTarget::Slurm, SlurmFlags::default(), stages).unwrap();
        let text = script(&plan, &plan.stages[0]);
        assert!(text.contains("#SBATCH --output=\"/at 50%%j/tasks/log/eval.txt\"\n"), "{text}");
    }

    #[test]
    fn options_reach_sbatch_as_they_are() {
        assert_eq!(option_pair("comment=one two"), "comment=\"one two\"");
        assert_eq!(option_pair(r#"comment="a\b"#), r#"comment="\"a\\b""#);
        assert_eq!(option_pair("exclusive"), "exclusive");
    }
}
