//! What `sbatch` gets: one page a stage, to be read, and edited and handed in by hand where somebody wants to.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

use super::plan::{Plan, Stage};
use crate::app::format::shell_word;

/// Seconds before the end of a task's time at which it is told: saving takes less.
const WARNING: u32 = 120;

/// The script of a stage.
pub fn script(plan: &Plan, stage: &Stage) -> String {
    let mut text = String::from("#!/bin/bash\n");
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}"); // a String takes all
    };
    let verb = stage.words.first().map_or("", String::as_str);
    let (program, home) = (path(&plan.program), plan.home());
    let name = stage.id();
    line(&format!("#SBATCH --job-name=ssmprobe-{name}"));
    let several = plan.largest_array < stage.tasks();
    let log = match stage.parts {
        Some(parts) => {
            let limit = plan.slurm.array_limit.map_or(String::new(), |limit| format!("%{limit}"));
            line(&format!("#SBATCH --array=1-{}{limit}", parts.min(plan.largest_array)));
            // Tasks of several arrays have the same numbers in Slurm: each finds its log below.
            if several { "slurm-%A_%a.txt".to_owned() } else { format!("{name}-%a.txt") }
        }
        None => format!("{name}.txt"),
    };
    let logs = home.join("log");
    let folder = logs.to_string_lossy().replace('%', "%%");
    line(&format!("#SBATCH --output={}", option(&format!("{folder}/{log}"))));
    line("#SBATCH --open-mode=append");
    line("#SBATCH --requeue");
    line(&format!("#SBATCH --signal=B:USR1@{WARNING}"));
    for other in plan.slurm.options() {
        line(&format!("#SBATCH --{}", option_pair(&other)));
    }
    line("");
    let state = home.join("state").join(&name);
    let state = path(&state);
    let (state, part) = match stage.parts {
        None => (state, String::new()),
        Some(parts) => {
            // An array of a part of the tasks counts from 1 as every other.
            let first = if several { " + ${SSMPROBE_BEFORE:-0}" } else { "" };
            line(&format!("task=$((SLURM_ARRAY_TASK_ID{first}))"));
            if several {
                line(&format!("exec >>{}-$task.txt 2>&1", path(&logs.join(&name))));
            }
            (format!("{state}-$task"), format!(" \\\n    --part=$task/{parts}"))
        }
    };
    line(&format!("cd {} && rm -f {state} || exit", path(&plan.directory)));
    line("");
    line(&format!(
        "# {WARNING} s before its time is over it saves what is done, and waits in the queue for more."
    ));
    line("trap 'over=yes; kill -TERM $program' USR1");
    line("trap : TERM # whoever sends this to the script sends it to the program as well, which saves");
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
    line(&format!("    scontrol requeue {id} && exit"));
    line("fi");
    line(&format!("echo $code > {state}"));
    line("exit $code");
    text
}

/// A path as a word of the shell.
fn path(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

/// The value of an option, as `sbatch` reads it from a script.
fn option(value: &str) -> Cow<'_, str> {
    match value.contains([' ', '#', '\'']) {
        true => format!("\"{}\"", value.replace('"', "\\\"")).into(),
        false => value.into(),
    }
}

/// `KEY=VALUE` as `sbatch` reads it from a script.
fn option_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((key, value)) => format!("{key}={}", option(value)),
        None => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_reach_sbatch_as_they_are() {
        assert_eq!(option_pair("comment=one two"), "comment=\"one two\"");
        assert_eq!(option_pair("exclusive"), "exclusive");
    }
}
