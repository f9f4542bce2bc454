//! The flags that submit work as tasks, and the options passed on to Slurm: those of every verb that can be cut.

use clap::{Args, Command, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::app::jobs::tasks::time_limit;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::value_parser::whole_number;

/// Who runs the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SubmitTarget {
    /// Slurm, through `sbatch`.
    Slurm,
    /// Processes on this machine.
    Local,
}

/// Whether and where tasks are submitted.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Submission")]
pub struct SubmitFlags {
    /// Split the work into tasks, submitted to Slurm or run as processes on this machine, and a last task that joins
    /// them; `ssmprobe jobs` shows their progress. --json prints the tasks on one line as `ssmprobe jobs --json` does, and
    /// again after --wait.
    // Required as a group: clap drops the requirement of a flag where that flag conflicts with another one.
    #[arg(long, value_name = "WHERE", group = "submission")]
    pub submit: Option<SubmitTarget>,
    /// Number of tasks [default for `train` and `sweep`: one per seed; required for `eval` and `extract`].
    #[arg(long, value_name = "N", requires = "submission", value_parser = whole_number(1_u32..))]
    pub tasks: Option<u32>,
    /// Wait until everything is joined; Ctrl-C leaves the tasks running.
    #[arg(long, requires = "submission", conflicts_with = "dry_run")]
    pub wait: bool,
    /// Print what `sbatch` would get, and submit nothing.
    #[arg(long, requires = "submission")]
    pub dry_run: bool,
    /// What Slurm is told.
    #[command(flatten)]
    pub slurm: SlurmFlags,
}

impl SubmitFlags {
    /// Who runs the tasks, if it is submitted; an error if it is not Slurm and there are options for Slurm, if they go to another
    /// cluster, or if the command line `is_task` itself (--part, --join).
    pub fn place(&self, is_task: bool) -> Result<Option<SubmitTarget>, Usage> {
        if self.submit.is_some() && is_task {
            refuse!("--submit gives each task a --part or --join of its own; leave that out, or --submit");
        }
        if self.submit == Some(SubmitTarget::Local) && !self.slurm.options().is_empty() {
            let flags = "--partition, --account, --time, --gpus, --cpus, --memory and --slurm";
            refuse!("--submit local: only Slurm uses {flags}; leave them out, or pass --submit slurm");
        }
        let clusters = |option: &String| option.split(['=', ' ']).next() == Some("clusters");
        if self.slurm.others.iter().any(clusters) {
            let why = "tasks on another cluster could be neither shown nor cancelled from here; submit them on that cluster";
            refuse!("--slurm clusters: {why}");
        }
        Ok(self.submit)
    }

    /// The number of tasks, of a verb that has no default; an error without `--tasks`.
    pub fn required_tasks(&self) -> Result<usize, Usage> {
        let missing = || Usage("--submit: give the number of tasks, such as --tasks 8".to_owned());
        self.tasks.map(|tasks| tasks as usize).ok_or_else(missing)
    }

    /// The arguments of this process without these flags and their values.
    pub fn other_arguments() -> Result<Vec<String>, Usage> {
        let typed = std::env::args_os().skip(1).map(|word| {
            word.into_string().map_err(|word| Usage(format!("`{}` is not valid Unicode", word.display())))
        });
        Ok(without_submit_flags(typed.collect::<Result<_, _>>()?))
    }
}

/// Removes the flags of [`SubmitFlags`] and their values from the arguments of a command line.
fn without_submit_flags(typed: Vec<String>) -> Vec<String> {
    let own = SubmitFlags::augment_args(Command::new("submit"));
    let (mut typed, mut others) = (typed.into_iter(), Vec::new());
    while let Some(word) = typed.next() {
        let name = word.strip_prefix("--").map(|word| word.split('=').next().unwrap_or(word));
        match own.get_arguments().find(|flag| name.is_some() && flag.get_long() == name) {
            None => others.push(word),
            Some(flag) if flag.get_action().takes_values() && !word.contains('=') => drop(typed.next()),
            Some(_) => {}
        }
    }
    others
}

/// What Slurm is told of every task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct SlurmFlags {
    /// Partition of the cluster.
    #[arg(long, value_name = "NAME", requires = "submission")]
    pub partition: Option<String>,
    /// Account to charge.
    #[arg(long, value_name = "NAME", requires = "submission")]
    pub account: Option<String>,
    /// Time limit of a task, in Slurm's format (such as D-HH:MM:SS, HH:MM:SS or minutes); a task that needs more is queued
    /// again and continues.
    #[arg(long, value_name = "TIME", requires = "submission", value_parser = time_limit)]
    pub time: Option<String>,
    /// GPUs per task.
    #[arg(long, value_name = "N", requires = "submission")]
    pub gpus: Option<String>,
    /// CPU cores per task.
    #[arg(long, value_name = "N", requires = "submission", value_parser = whole_number(1_u32..))]
    pub cpus: Option<u32>,
    /// Memory per task, such as `32G`.
    #[arg(long, value_name = "SIZE", requires = "submission")]
    pub memory: Option<String>,
    /// Maximum number of tasks of one array that run at a time; several --backbone, --retry and the cluster's limits
    /// make several arrays [default: Slurm's; 1 on this machine].
    #[arg(long, value_name = "N", requires = "submission", value_parser = whole_number(1_u32..))]
    pub array_limit: Option<u32>,
    /// Any other option of `sbatch`, without its dashes; can be given several times.
    #[arg(long = "slurm", value_name = "KEY=VALUE", requires = "submission")]
    pub others: Vec<String>,
}

impl SlurmFlags {
    /// The flags as options of `sbatch`, without leading dashes: `partition=NAME`.
    pub fn options(&self) -> Vec<String> {
        let Self { partition, account, time, gpus, cpus, memory, others, array_limit: _ } = self;
        let cpus = cpus.map(|cpus| cpus.to_string());
        let named = [
            ("partition", partition),
            ("account", account),
            ("time", time),
            ("gpus", gpus),
            ("cpus-per-task", &cpus),
            ("mem", memory),
        ];
        let named = named.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_ref()?)));
        named.chain(others.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_alone_heeds_is_refused_elsewhere_and_a_task_is_not_cut_again() {
        let (gpus, array_limit) = (Some("1".to_owned()), Some(2));
        for (place, slurm, taken) in [
            (SubmitTarget::Local, SlurmFlags { gpus: gpus.clone(), ..SlurmFlags::default() }, false),
            (SubmitTarget::Slurm, SlurmFlags { gpus, ..SlurmFlags::default() }, true),
            (
                SubmitTarget::Slurm,
                SlurmFlags { others: vec!["clusters=b".into()], ..SlurmFlags::default() },
                false,
            ),
            (SubmitTarget::Local, SlurmFlags { array_limit, ..SlurmFlags::default() }, true),
        ] {
            let flags = SubmitFlags { submit: Some(place), slurm, ..SubmitFlags::default() };
            assert_eq!(flags.place(false).is_ok(), taken, "{flags:?}");
            assert!(flags.place(true).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn what_is_typed_beside_these_flags_stays() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let typed =
            "eval --submit local --run RUN --tasks=4 --wait --slurm a=b --slurm=c=d --causal frozen --gpus 1";
        assert_eq!(without_submit_flags(words(typed)), words("eval --run RUN --causal frozen"));
    }
}
