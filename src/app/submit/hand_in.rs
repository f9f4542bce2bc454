//! Handing tasks in: all of them at first, later those that failed.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::flags::SubmitTarget;
use super::plan::{Array, Plan, Task};
use super::script::script;
use super::status::{State, are_done, states};
use super::{local, slurm};
use crate::app::jobs::tasks::plan_file;
use crate::app::user_error::Usage;
use crate::model::io::atomic_file;
use crate::model::train::run::{Run, RunError};

/// Hands in everything of a new plan.
///
/// # Errors
/// If its folder holds tasks already, or some that cannot be read; if Slurm refuses: what it took until then is kept.
pub fn all(plan: &mut Plan) -> anyhow::Result<()> {
    let folder = plan.folder.display();
    if plan_file(&plan.folder).exists() {
        let unknown = || {
            Usage(format!(
                "{folder} holds tasks already, and what they are cannot be read; put their plan back, or choose another \
                 folder"
            ))
        };
        let before = Plan::open(&plan.folder).with_context(unknown)?;
        let begun = !before.handed_in.is_empty() || before.place == SubmitTarget::Local;
        if begun && !are_done(&before) {
            return Err(Usage(format!(
                "{folder} holds tasks already; `ssmprobe jobs {folder}` shows them, --retry hands in what failed; or \
                 choose another folder"
            ))
            .into());
        }
    }
    if plan.place == SubmitTarget::Slurm {
        plan.largest_array = slurm::largest_array();
    }
    plan.save()?;
    for task in plan.tasks() {
        let _ = std::fs::remove_file(plan.state(task)); // of tasks that were done before, if any
    }
    if plan.place == SubmitTarget::Slurm {
        for stage in &plan.stages {
            let path = script_path(plan, &stage.id());
            atomic_file::write(&path, script(plan, stage).as_bytes())
                .with_context(|| path.display().to_string())?;
        }
    }
    some(plan, &plan.tasks(), &[])
}

/// Hands in what is neither done nor under way: how many tasks. A part that is damaged is put aside, and made again.
///
/// # Errors
/// As [`all`].
pub fn again(plan: &mut Plan) -> anyhow::Result<usize> {
    let busy = plan.place == SubmitTarget::Local && local::is_running(plan);
    if !busy {
        for (task, part) in plan.parts().into_iter().filter(|(_, part)| part.exists()) {
            aside_if_damaged(plan, task, &part)?;
        }
    }
    let mut states = states(plan)?;
    let over = |(_, state): &&(Task, State)| *state != State::Done && !state.is_active();
    let broken: Vec<usize> = states.iter().filter(over).map(|(task, _)| task.stage).collect();
    if broken.is_empty() {
        return Ok(0);
    }
    if busy {
        return Err(under_way_here(plan));
    }
    // What waits for tasks that failed never runs: it is handed in anew, to wait for the new ones.
    let late = |task: Task, state: &State| {
        matches!(state, State::Waiting { .. }) && broken.iter().any(|stage| plan.waits(task.stage, *stage))
    };
    if plan.place == SubmitTarget::Slurm {
        let late = |array: &&Array| {
            states.iter().any(|(task, state)| {
                late(*task, state) && array.stage == task.stage && array.tasks.contains(&task.index)
            })
        };
        slurm::cancel(&plan.handed_in.iter().filter(late).map(|array| array.id.clone()).collect::<Vec<_>>())?;
    }
    for (task, state) in &mut states {
        if late(*task, state) {
            *state = State::NotHandedIn;
        }
    }
    let wanted: Vec<Task> =
        states.iter().filter(|(_, s)| *s != State::Done && !s.is_active()).map(|(task, _)| *task).collect();
    let under_way = under_way(&states);
    for task in &wanted {
        let _ = std::fs::remove_file(plan.state(*task)); // it may have left none
    }
    some(plan, &wanted, &under_way)?;
    Ok(wanted.len())
}

/// Hands in what never was, because Slurm took no more: as much as it takes now.
///
/// # Errors
/// As [`all`]; also where it takes no more yet.
pub fn rest(plan: &mut Plan, states: &[(Task, State)]) -> anyhow::Result<()> {
    let never = states.iter().filter(|(task, _)| plan.array(*task).is_none());
    let wanted: Vec<Task> = never.map(|(task, _)| *task).collect();
    some(plan, &wanted, &under_way(states))
}

/// Ends all tasks: what they did is kept, and [`again`] goes on with it.
///
/// # Errors
/// If the disk or Slurm refuses.
pub fn end(plan: &Plan) -> anyhow::Result<()> {
    match plan.place {
        SubmitTarget::Local => local::cancel(plan),
        SubmitTarget::Slurm => {
            let ids: Vec<String> = plan.handed_in.iter().map(|array| array.id.clone()).collect();
            slurm::cancel(&ids)?;
            plan.mark_cancelled()
        }
    }
}

/// Why nothing is begun here while others are at work.
fn under_way_here(plan: &Plan) -> anyhow::Error {
    let folder = plan.folder.display();
    Usage(format!(
        "the tasks of {folder} are still under way here; `ssmprobe jobs {folder} --wait` waits for them"
    ))
    .into()
}

/// Tasks that are not over, and will be by themselves.
fn under_way(states: &[(Task, State)]) -> Vec<Task> {
    states.iter().filter(|(_, state)| state.is_active()).map(|(task, _)| *task).collect()
}

/// Hands in `wanted`; those of a stage wait for those of the one before, also where these are `under_way`.
fn some(plan: &mut Plan, wanted: &[Task], under_way: &[Task]) -> anyhow::Result<()> {
    if plan.place == SubmitTarget::Local {
        if local::is_running(plan) {
            return Err(under_way_here(plan));
        }
        return local::start(plan);
    }
    let all = plan.tasks().len();
    let mut taken = all - wanted.len();
    let mut chains: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for stage in 0..plan.stages.len() {
        let chain = plan.stages[stage].out.clone();
        let before = chains.remove(&chain).unwrap_or_default();
        let mut arrays: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for task in wanted.iter().filter(|task| task.stage == stage) {
            arrays.entry(task.index / plan.largest_array).or_default().push(task.index);
        }
        let mut arrays: VecDeque<(usize, Vec<usize>)> = arrays
            .into_iter()
            .map(|(turn, tasks)| (turn.saturating_mul(plan.largest_array), tasks))
            .collect();
        let mut now: Vec<String> = Vec::new();
        while let Some((ahead, tasks)) = arrays.pop_front() {
            let script = script_path(plan, &plan.stages[stage].id());
            match slurm::submit(&script, &options(plan, stage, ahead, &tasks, &before)) {
                // Fewer at a time may have room.
                Err(error) if error.is_limit() && tasks.len() > 1 => {
                    let (first, second) = tasks.split_at(tasks.len() / 2);
                    arrays.push_front((ahead, second.to_vec()));
                    arrays.push_front((ahead, first.to_vec()));
                }
                id => {
                    let id = id.with_context(|| match taken {
                        0 => "nothing was handed in".to_owned(),
                        _ => format!(
                            "{taken} of {all} tasks are handed in; `ssmprobe jobs {} --retry` hands in the others",
                            plan.folder.display()
                        ),
                    })?;
                    taken += tasks.len();
                    now.push(id.clone());
                    plan.handed_in.push(Array { id, stage, before: ahead, tasks });
                    plan.save()?;
                    plan.forget_cancelled();
                }
            }
        }
        for task in under_way.iter().filter(|task| task.stage == stage) {
            now.extend(plan.slurm_id(*task));
        }
        chains.insert(chain, now);
    }
    Ok(())
}

/// What `sbatch` is told of these tasks, `ahead` of which others of their stage come, and which wait for `before`.
fn options(plan: &Plan, stage: usize, ahead: usize, tasks: &[usize], before: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    if plan.stages[stage].parts.is_some() {
        let limit = plan.slurm.array_limit.map_or(String::new(), |limit| format!("%{limit}"));
        options.push(format!("--array={}{limit}", ranges(tasks.iter().map(|task| task + 1 - ahead))));
    }
    if ahead > 0 {
        options.push(format!("--export=ALL,SSMPROBE_BEFORE={ahead}"));
    }
    if !before.is_empty() {
        options.push(format!("--dependency=afterok:{}", before.join(":")));
        options.push("--kill-on-invalid-dep=yes".to_owned());
    }
    options
}

/// Where the script of a stage lies.
fn script_path(plan: &Plan, stage: &str) -> PathBuf {
    plan.home().join(format!("{stage}.sh"))
}

/// Numbers in ascending order as Slurm takes them: `1-3,7`.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let run = |(first, last): (usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    runs.into_iter().map(run).collect::<Vec<_>>().join(",")
}

/// A part whose files cannot be gone on with, or joined, is kept under another name; its task is one that failed.
fn aside_if_damaged(plan: &Plan, task: Task, part: &Path) -> anyhow::Result<()> {
    let found = Run::open(part).and_then(|run| run.check_finished());
    let damaged = match found {
        Err(RunError::Damaged { .. } | RunError::Io { .. }) => true,
        Err(RunError::Absent { .. } | RunError::Unfinished { .. }) | Ok(()) => false,
        Err(other) => return Err(other.into()),
    };
    if damaged {
        let (mut number, mut aside) = (1, part.with_extension("damaged-1"));
        while aside.exists() {
            number += 1;
            aside = part.with_extension(format!("damaged-{number}"));
        }
        std::fs::rename(part, &aside).with_context(|| part.display().to_string())?;
        let _ = std::fs::remove_file(plan.state(task)); // it may have left none
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_are_written_as_slurm_takes_them() {
        assert_eq!(ranges([1, 2, 3, 7, 9, 10].into_iter()), "1-3,7,9-10");
        assert_eq!(ranges([5].into_iter()), "5");
    }
}
