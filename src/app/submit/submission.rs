//! Submitting tasks: all of them at first, later those that failed, and cancelling them.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::flags::SubmitTarget;
use super::join::is_joined;
use super::plan::{Array, Plan, Task};
use super::script::script;
use super::slurm::{Queued, SlurmError};
use super::status::{State, are_done, states};
use super::{local, slurm};
use crate::app::format::shell_path;
use crate::app::jobs::tasks::plan_file;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::app::paths;
use crate::model::io::file_lock::{LockedFile, TryLock, try_lock};
use crate::model::io::{atomic_file, if_there, is_of_file};
use crate::model::train::run::{Run, RunError};

/// Refuses a folder with unfinished tasks, or with a plan that cannot be read.
pub fn check_free(folder: &Path) -> anyhow::Result<()> {
    if plan_file(folder).metadata().is_err_and(|why| is_of_file(why.kind())) {
        return Ok(());
    }
    let shown = folder.display();
    let unknown = || {
        Usage(format!(
            "{shown} has tasks already, and their plan cannot be read; restore the plan, or choose another folder"
        ))
    };
    let before = Plan::open(folder).with_context(unknown)?;
    let begun = !before.submitted.is_empty() || before.place == SubmitTarget::Local;
    if begun && !are_done(&before) {
        refuse!(
            "{shown} has tasks already; `ssmprobe jobs {}` shows them, --retry resubmits what failed; or choose \
             another folder",
            shell_path(folder)
        );
    }
    check_named(&before)
}

/// The jobs in Slurm's queue with a script of the plan that it does not name: who submitted them was killed before it saved their
/// numbers, or was not this program.
fn unnamed_jobs(plan: &Plan) -> Result<Vec<String>, SlurmError> {
    let queue = match slurm::queue(&plan_file(&plan.folder)) {
        Err(SlurmError::Absent(_)) => Vec::new(),
        queue => queue?,
    };
    let home = plan.home();
    let of_plan = |queued: Queued| {
        let is_named = plan.submitted.iter().any(|array| array.id == queued.id);
        let folder =
            queued.script.parent().filter(|folder| folder.file_name() == home.file_name())?.to_owned();
        (!is_named && queued.state != "COMPLETING").then_some((queued.id, folder))
    };
    let unnamed: BTreeMap<String, PathBuf> = queue.into_iter().filter_map(of_plan).collect();
    // A script is named as it was submitted, perhaps by another way to the folder.
    let real = home.canonicalize().ok();
    let is_home = |folder: &Path| *folder == home || real.is_some() && folder.canonicalize().ok() == real;
    Ok(unnamed.into_iter().filter(|(_, folder)| is_home(folder)).map(|(id, _)| id).collect())
}

/// Refuses a plan with [`unnamed_jobs`], whose tasks would be submitted once more.
fn check_named(plan: &Plan) -> anyhow::Result<()> {
    if plan.place == SubmitTarget::Local || are_done(plan) {
        return Ok(());
    }
    let folder = plan.folder.display();
    let unknown = || {
        format!(
            "{folder} has tasks in Slurm, perhaps some that its plan does not name; repeat this where squeue answers, or choose \
             another folder"
        )
    };
    let ids = unnamed_jobs(plan).with_context(unknown)?.join(" ");
    if ids.is_empty() {
        return Ok(());
    }
    refuse!(
        "Slurm has tasks of {folder} that its plan does not name (job {ids}): their submission was interrupted, or somebody submitted \
         them by hand; wait until they have ended, or end them with `scancel {ids}`, then repeat this"
    )
}

/// Submits all tasks of a new plan.
///
/// # Errors
/// If its folder has unfinished tasks or an unreadable plan; if the disk or Slurm refuses: tasks submitted by then stay.
pub fn submit_all(plan: &mut Plan) -> anyhow::Result<()> {
    let _turn = turn(plan)?.ok_or_else(|| already_submitting(plan))?;
    check_free(&plan.folder)?;
    // The earlier plan is removed first, then its states, then the new plan is written: a kill in between never leaves a plan beside
    // the states of another.
    let states = plan.tasks().into_iter().map(|task| plan.state(task));
    for path in std::iter::once(plan_file(&plan.folder)).chain(states) {
        if_there(std::fs::remove_file(&path))
            .with_context(|| format!("{}: cannot be removed", path.display()))?;
    }
    plan.save()?;
    if plan.place == SubmitTarget::Slurm {
        for stage in &plan.stages {
            let path = script_path(plan, &stage.id());
            paths::write(&path, script(plan, stage).as_bytes())?;
        }
    }
    submit_tasks(plan, &plan.tasks(), &[])
}

/// Submits the tasks that are neither done nor active again; returns how many. A damaged part is renamed, and made again.
pub fn retry(plan: &mut Plan) -> anyhow::Result<usize> {
    let _turn = turn(plan)?.ok_or_else(|| already_submitting(plan))?;
    *plan = Plan::open(&plan.folder)?; // another process may have submitted some since
    check_named(plan)?;
    let busy = plan.place == SubmitTarget::Local && local::confirm_running(plan)?;
    let mut states = states(plan)?;
    for (task, part) in plan.parts().into_iter().filter(|(_, part)| !busy && part.exists()) {
        // Another machine replaces the files of an active task, which may be unreadable for a moment. One that was stopped or
        // killed left whole files, of which the checkpoint may have gigabytes.
        let may_be = |state: &State| matches!(state, State::Done | State::Failed { .. });
        let ended = states.iter_mut().find(|(known, state)| *known == task && may_be(state));
        if let Some((_, state)) = ended
            && set_aside_if_damaged(plan, task, &part)?
        {
            *state = State::NotSubmitted;
        }
    }
    let failed = states.iter().filter(|(_, state)| state.needs_submission());
    let failed: Vec<usize> = failed.map(|(task, _)| task.stage).collect();
    if failed.is_empty() {
        return Ok(0);
    }
    if busy {
        return Err(already_running(plan));
    }
    // Tasks that depend on failed ones never start: they are submitted again, depending on the new ones.
    let is_blocked = |task: Task, state: &State| {
        matches!(state, State::Waiting { .. }) && failed.iter().any(|stage| plan.waits(task.stage, *stage))
    };
    if plan.place == SubmitTarget::Slurm {
        let is_array_blocked = |array: &&Array| {
            states.iter().any(|(task, state)| {
                is_blocked(*task, state) && array.stage == task.stage && array.tasks.contains(&task.index)
            })
        };
        slurm::cancel(
            &plan.submitted.iter().filter(is_array_blocked).map(|array| array.id.clone()).collect::<Vec<_>>(),
        )?;
    }
    for (task, state) in &mut states {
        if is_blocked(*task, state) {
            *state = State::NotSubmitted;
        }
    }
    let wanted = states.iter().filter(|(_, state)| state.needs_submission());
    let wanted: Vec<Task> = wanted.map(|(task, _)| *task).collect();
    let active = active_tasks(&states);
    for task in &wanted {
        let _ = std::fs::remove_file(plan.state(*task)); // it may not exist
    }
    // Those that Slurm's limit holds back now count as not submitted.
    for array in &mut plan.submitted {
        let stage = array.stage;
        array.tasks.retain(|&index| wanted.binary_search(&Task { stage, index }).is_err());
    }
    plan.save()?;
    submit_tasks(plan, &wanted, &active)?;
    Ok(wanted.len())
}

/// Submits the tasks that never were, because Slurm's limit was reached: as many as it takes now; none while another process does.
///
/// # Errors
/// As [`submit_all`]; also if the limit is still reached.
pub fn submit_rest(plan: &mut Plan, states: &[(Task, State)]) -> anyhow::Result<()> {
    let Some(_turn) = turn(plan)? else { return Ok(()) };
    let known = plan.submitted.len();
    *plan = Plan::open(&plan.folder)?;
    if plan.submitted.len() != known {
        return Ok(()); // of what another process has submitted since, `states` does not know
    }
    check_named(plan)?;
    let submitted = plan.arrays();
    let wanted = states.iter().map(|(task, _)| *task).filter(|task| !submitted.contains_key(task));
    let wanted: Vec<Task> = wanted.collect();
    submit_tasks(plan, &wanted, &active_tasks(states))
}

/// Cancels all tasks. What they did is kept, and [`retry`] continues from it.
pub fn cancel(plan: &Plan) -> anyhow::Result<()> {
    match plan.place {
        SubmitTarget::Local => local::cancel(plan),
        SubmitTarget::Slurm => {
            slurm::cancel(&plan.submitted.iter().map(|array| array.id.clone()).collect::<Vec<_>>())?;
            plan.mark_cancelled()?;
            Ok(slurm::cancel(&unnamed_jobs(plan)?)?)
        }
    }
}

/// The right to submit tasks, which one process has at a time, as far as file locks reach; `None` while another has it.
fn turn(plan: &Plan) -> anyhow::Result<Option<LockedFile>> {
    let folder = plan.home().join("state");
    let path = folder.join(".submit");
    let lock = || -> std::io::Result<Option<LockedFile>> {
        atomic_file::make_folder(&folder)?;
        let file = match File::options().read(true).write(true).create(true).truncate(false).open(&path) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => File::open(&path)?, // another user's
            file => file?,
        };
        Ok((try_lock(&file)? != TryLock::Held).then(|| LockedFile(file)))
    };
    lock().with_context(|| format!("{}: cannot be locked", path.display()))
}

/// The error while another process submits tasks.
fn already_submitting(plan: &Plan) -> anyhow::Error {
    let (folder, word) = (plan.folder.display(), shell_path(&plan.folder));
    Usage(format!("another process is submitting the tasks of {folder}; `ssmprobe jobs {word}` shows them"))
        .into()
}

/// The error while a process on this machine, or on another, runs the tasks.
fn already_running(plan: &Plan) -> anyhow::Error {
    let (folder, word) = (plan.folder.display(), shell_path(&plan.folder));
    Usage(format!("the tasks of {folder} are still running; `ssmprobe jobs {word} --wait` waits for them"))
        .into()
}

fn active_tasks(states: &[(Task, State)]) -> Vec<Task> {
    states.iter().filter(|(_, state)| state.is_active()).map(|(task, _)| *task).collect()
}

/// Submits the tasks `wanted`. Each stage depends on the stage before it in its chain, including its `active` tasks.
fn submit_tasks(plan: &mut Plan, wanted: &[Task], active: &[Task]) -> anyhow::Result<()> {
    if plan.place == SubmitTarget::Local {
        if local::confirm_running(plan)? {
            return Err(already_running(plan));
        }
        return local::start(plan);
    }
    let arrays = plan.arrays();
    let id = |task: &Task| Some((task.stage, plan.slurm_id(arrays.get(task)?, *task)));
    let active: Vec<(usize, String)> = active.iter().filter_map(id).collect();
    let all = plan.tasks().len();
    let mut submitted = all - wanted.len();
    let mut chains: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for stage in 0..plan.stages.len() {
        let chain = plan.stages[stage].out.clone();
        let dependencies = chains.remove(&chain).unwrap_or_default();
        let mut arrays: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for task in wanted.iter().filter(|task| task.stage == stage) {
            arrays.entry(task.index / plan.largest_array).or_default().push(task.index);
        }
        let mut arrays: VecDeque<(usize, Vec<usize>)> = arrays
            .into_iter()
            .map(|(turn, tasks)| (turn.saturating_mul(plan.largest_array), tasks))
            .collect();
        let mut ids: Vec<String> = Vec::new();
        while let Some((ahead, tasks)) = arrays.pop_front() {
            let script = script_path(plan, &plan.stages[stage].id());
            match slurm::submit(&script, &options(plan, stage, ahead, &tasks, &dependencies)) {
                // A smaller array may still fit below the limit.
                Err(error) if error.is_limit() && tasks.len() > 1 => {
                    let (first, second) = tasks.split_at(tasks.len() / 2);
                    arrays.push_front((ahead, second.to_vec()));
                    arrays.push_front((ahead, first.to_vec()));
                }
                id => {
                    let id = id.with_context(|| match submitted {
                        0 => "nothing was submitted".to_owned(),
                        _ => format!(
                            "{submitted} of {all} tasks are submitted; `ssmprobe jobs {} --retry` submits the others",
                            shell_path(&plan.folder)
                        ),
                    })?;
                    submitted += tasks.len();
                    ids.push(id.clone());
                    plan.submitted.push(Array { id, stage, before: ahead, tasks });
                    // Tasks that no plan names could be neither shown nor cancelled, and would be submitted once more.
                    plan.save().inspect_err(|_| drop(slurm::cancel(&ids[ids.len() - 1..])))?;
                    plan.forget_cancelled();
                }
            }
        }
        ids.extend(active.iter().filter(|(of, _)| *of == stage).map(|(_, id)| id.clone()));
        chains.insert(chain, ids);
    }
    Ok(())
}

/// The options of `sbatch` for some tasks of a stage, numbered from 1 after the first `ahead`, and their dependencies.
fn options(plan: &Plan, stage: usize, ahead: usize, tasks: &[usize], dependencies: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    if plan.stages[stage].parts.is_some() {
        let limit = plan.slurm.array_limit.map_or(String::new(), |limit| format!("%{limit}"));
        options.push(format!("--array={}{limit}", ranges(tasks.iter().map(|task| task + 1 - ahead))));
    }
    if ahead > 0 {
        options.push(format!("--export=ALL,SSMPROBE_BEFORE={ahead}"));
    }
    if !dependencies.is_empty() {
        options.push(format!("--dependency=afterok:{}", dependencies.join(":")));
        options.push("--kill-on-invalid-dep=yes".to_owned());
    }
    options
}

fn script_path(plan: &Plan, stage: &str) -> PathBuf {
    plan.home().join(format!("{stage}.sh"))
}

/// Ascending numbers in Slurm's notation: `1-3,7`.
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

/// Renames a part whose files can be neither resumed nor joined, and deletes its task's state, so that it is run again;
/// returns whether it was.
fn set_aside_if_damaged(plan: &Plan, task: Task, part: &Path) -> anyhow::Result<bool> {
    let found = Run::open(part).and_then(|run| run.check_finished());
    let damaged = match found {
        Err(RunError::Damaged { .. }) => true,
        Err(RunError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => true,
        Err(RunError::Absent { .. } | RunError::Unfinished { .. }) | Ok(()) => false,
        Err(other) => return Err(other.into()),
    };
    // Once they are joined, what is left of a part was being removed.
    let damaged = damaged && !is_joined(plan, plan.stages[task.stage].out.as_deref());
    if damaged {
        let mut asides = (1..).map(|number: usize| part.with_extension(format!("damaged-{number}")));
        let aside = asides.find(|aside| !aside.exists()).expect("an endless list of names");
        std::fs::rename(part, &aside).with_context(|| part.display().to_string())?;
        let _ = std::fs::remove_file(plan.state(task)); // it may not exist
    }
    Ok(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::submit::flags::SlurmFlags;
    use crate::app::submit::plan::Stage;

    #[test]
    fn the_command_that_is_named_can_be_typed() {
        let folder = tempfile::tempdir().unwrap();
        let stages = vec![Stage::single("eval", vec!["eval".into()])];
        let path = folder.path().join("my run");
        let plan = Plan::new(&path, SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        plan.save().unwrap();
        let refused = [check_free(&path).unwrap_err(), already_submitting(&plan), already_running(&plan)];
        let command = format!("`ssmprobe jobs '{}'", path.display());
        assert!(refused.iter().all(|why| why.to_string().contains(&command)), "{refused:?}");
    }

    #[test]
    fn the_states_of_an_earlier_plan_are_gone_before_a_new_one_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let stages = vec![Stage::cut("eval", vec!["eval".into()], 2)];
        let mut plan = Plan::new(folder.path(), SubmitTarget::Local, SlurmFlags::default(), stages).unwrap();
        plan.save().unwrap();
        for task in plan.tasks() {
            atomic_file::write(&plan.state(task), b"0\n").unwrap();
        }
        assert!(are_done(&plan));
        let log = plan.home().join("log");
        std::fs::remove_dir(&log).unwrap();
        File::create(&log).unwrap(); // so that no plan can be saved
        assert!(submit_all(&mut plan).is_err());
        let path = plan_file(folder.path());
        assert!(!path.exists() && !plan.tasks().iter().any(|task| plan.state(*task).exists()));
    }

    #[test]
    fn numbers_are_written_as_slurm_takes_them() {
        assert_eq!(ranges([1, 2, 3, 7, 9, 10].into_iter()), "1-3,7,9-10");
        assert_eq!(ranges([5].into_iter()), "5");
    }
}
