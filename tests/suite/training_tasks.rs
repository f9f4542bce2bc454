//! Where a training is computed, and trainings submitted as tasks, in the training pane: events are made by hand.

use ssmprobe::app::jobs::history::disk::RunSnapshot;
use ssmprobe::app::jobs::tasks::{
    PlannedStage, TaskForm, TaskPhase, TaskStatus, Tasks, TrainPlace, TrainPlaceSettings,
};
use ssmprobe::app::jobs::train::{Preflight, TrainSettings};
use ssmprobe::app::jobs::train_event::TrainEvent;
use ssmprobe::app::state::Phase;

use crate::training_window::{Pane, filled, metric, preflight, snapshot};
use crate::window::prelude::*;

/// A pane with a planned training, on a machine with or without Slurm.
fn planned(slurm: bool) -> Pane {
    let mut pane = Pane::filled();
    tell_preflight(&mut pane, slurm);
    pane
}

/// Delivers what was asked for last of a training.
fn tell_preflight(pane: &mut Pane, slurm: bool) {
    let plan = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    pane.train_event(plan, TrainEvent::Planned(Box::new(Preflight { slurm, ..preflight() })));
    pane.deliver(Event::Finished(plan));
}

fn place(pane: &Pane) -> TrainPlace {
    pane.0.state().train_place()
}

fn stages() -> Vec<PlannedStage> {
    let stage = |name: &str, tasks: usize| PlannedStage {
        name: name.to_owned(),
        tasks,
        script: format!("#SBATCH --job-name=ssmprobe-{name}"),
    };
    vec![stage("train", 3), stage("join", 1)]
}

fn task(name: &str, phase: TaskPhase, state: &str, said: &str) -> TaskStatus {
    let said = said.lines().map(str::to_owned).collect();
    TaskStatus { name: name.into(), phase, state: state.into(), said }
}

/// Delivers the contents of a run's folder: these tasks, and so many epochs of the first seed.
fn read(pane: &mut Pane, all: Vec<TaskStatus>, epochs: usize) {
    let mut snapshot = Arc::into_inner(snapshot(&["gap", "sinkhorn"])).expect("just made");
    snapshot.about.seeds = vec![0];
    let of = |head: &'static str| (1..=epochs).map(move |epoch| metric(head, 0, epoch));
    snapshot.epochs = of("gap").chain(of("sinkhorn")).collect();
    snapshot.tasks = Some(Tasks { all, problem: None });
    let folder = snapshot.about.folder.clone();
    pane.deliver(Event::RunRead { job: None, folder, snapshot: Ok(Arc::new(snapshot)) });
}

fn on_partition(partition: &str) -> TaskForm {
    TaskForm { partition: partition.into(), ..TaskForm::default() }
}

/// Chooses Slurm with these options, and asks for a plan.
fn choose_slurm(pane: &mut Pane, slurm: TaskForm) {
    let settings = TrainPlaceSettings { place: TrainPlace::Slurm, slurm };
    pane.0.dispatch(Command::SetTrainPlace(Box::new(settings)));
}

/// Delivers a plan of the tasks.
fn tell_plan(pane: &mut Pane) {
    let job = pane.job_of(|ask| matches!(ask, Fetch::PlanTasks(_)));
    pane.train_event(job, TrainEvent::TasksPlanned(stages()));
    pane.deliver(Event::Finished(job));
}

/// A pane whose tasks were submitted.
fn submitted() -> Pane {
    let mut pane = planned(true);
    choose_slurm(&mut pane, on_partition("gpu"));
    tell_plan(&mut pane);
    pane.0.click("Submit tasks");
    let job = pane.job_of(|ask| matches!(ask, Fetch::SubmitTasks(_)));
    pane.train_event(job, TrainEvent::TasksSubmitted(preflight().out));
    pane.deliver(Event::Finished(job));
    pane
}

#[test]
fn where_it_is_computed_is_chosen_where_that_can_be_had_and_remembered() {
    let mut pane = planned(false);
    assert_eq!(place(&pane), TrainPlace::Here);
    pane.0.choose("Where", "On this machine, detached");
    assert_eq!(place(&pane), TrainPlace::Detached);
    let places = pane.0.state().train_places();
    assert_eq!(places, [TrainPlace::Here, TrainPlace::Detached]);
    // The choice is part of the settings, which survive a round trip through JSON.
    let settings = &pane.0.state().settings;
    let text = serde_json::to_string(settings).expect("JSON");
    assert_eq!(
        serde_json::from_str::<Settings>(&text).expect("settings").training.place,
        TrainPlace::Detached
    );
    pane.0.click("Start training");
    let words = pane.asked(pick!(Fetch::Detached(asked) => asked.words.clone()));
    assert!(words.len() == 1 && words[0].contains(&"--heads=gap,sinkhorn".to_owned()), "{words:?}");
}

#[test]
fn a_choice_that_cannot_be_had_is_kept_until_another_is_made() {
    let mut pane = planned(false);
    choose_slurm(&mut pane, TaskForm::default());
    assert_eq!(place(&pane), TrainPlace::Here);
    assert!(pane.0.has("Start training") && !pane.0.has("Submit tasks"));
    assert_eq!(pane.0.state().settings.training.place, TrainPlace::Slurm);
}

#[test]
fn slurm_is_offered_before_a_plan_to_whoever_chose_it_last_time() {
    let mut pane = Pane::filled();
    assert_eq!(pane.0.state().train_places(), [TrainPlace::Here, TrainPlace::Detached]);
    choose_slurm(&mut pane, on_partition("gpu"));
    assert!(place(&pane) == TrainPlace::Slurm && pane.0.has("Partition"));
    let plan = pane.job_of(|ask| matches!(ask, Fetch::Plan(_)));
    pane.train_event(plan, TrainEvent::Planned(Box::new(preflight())));
    assert!(place(&pane) == TrainPlace::Here && !pane.0.has("Partition"), "it is not there");
}

#[test]
fn what_is_wrong_in_a_field_is_told_below_the_fields_which_are_alike_wide() {
    let mut pane = planned(true);
    choose_slurm(&mut pane, on_partition("gpu"));
    assert!(!pane.0.has("Time: expected minutes"));
    choose_slurm(&mut pane, TaskForm { time: "4h".into(), ..TaskForm::default() });
    assert!(pane.0.has("Time: expected minutes"));
    let width = |name: &str| {
        let field = pane.0.harness.get_by_role_and_label(Role::TextInput, name);
        field.rect().width().round()
    };
    assert_eq!(width("Partition"), width("Account"));
    assert!(width("Others") > 2.0 * width("Account"), "{}", width("Others"));
}

#[test]
fn tasks_are_shown_before_they_are_submitted() {
    let mut pane = planned(true);
    pane.0.choose("Where", "On Slurm");
    assert_eq!(place(&pane), TrainPlace::Slurm);
    let asked = |pane: &Pane| pane.asked(pick!(Fetch::PlanTasks(asked) => asked.clone()));
    let first = asked(&pane);
    assert_eq!(first.len(), 1);
    assert!(first[0].words.contains(&"--submit=slurm".to_owned()) && first[0].out == preflight().out);
    assert!(!Action::StartTraining.enabled(pane.0.state()));
    // The plan of earlier tasks is not shown for others.
    choose_slurm(&mut pane, TaskForm { partition: "gpu".into(), gpus: "1".into(), ..TaskForm::default() });
    let second = asked(&pane);
    assert_eq!(second.len(), 2);
    assert!(second[1].words.ends_with(&["--partition=gpu".to_owned(), "--gpus=1".to_owned()]));
    tell_plan(&mut pane);
    assert_eq!(asked(&pane).len(), 2);
    assert!(pane.0.has("train: 3 tasks") && pane.0.has("join: 1 task"));
    assert!(pane.0.has("Joins their results into the run") && !pane.0.has("#SBATCH"));
    pane.0.click("Script for sbatch: train.sh");
    assert!(pane.0.has("#SBATCH --job-name=ssmprobe-train"));
    pane.0.click("Submit tasks");
    assert_eq!(pane.asked(pick!(Fetch::SubmitTasks(asked) => asked.clone())), second[1..]);
}

#[test]
fn tasks_are_followed_cancelled_and_retried() {
    let mut pane = submitted();
    let folder = preflight().out;
    let follows = |pane: &Pane| {
        let wire = pane.0.wire.borrow();
        let last = wire.requests.iter().rev().find_map(pick!(Request::Follow(runs) => runs.clone()));
        last.expect("runs are followed")
    };
    assert_eq!(follows(&pane), std::slice::from_ref(&folder));
    assert!(pane.0.has("Checking its tasks") && pane.0.has("No task has started training yet"));
    let waits = || task("join", TaskPhase::Waiting, "waiting (Dependency)", "");
    let all = vec![
        task("train-1", TaskPhase::Running, "running, 1:00:00 left", "seed 0, epoch 4 of 10"),
        task("train-2", TaskPhase::Waiting, "waiting (Priority)", ""),
        waits(),
    ];
    read(&mut pane, all, 4);
    assert!(pane.0.has("0 of 3 tasks done, 1 running, 2 waiting"));
    for said in ["running, 1:00:00 left", "waiting (Priority)", "seed 0, epoch 4 of 10", "In tasks"] {
        assert!(pane.0.has(said), "{said} is not there");
    }
    // Its curves are those of the tasks that have begun.
    let run = |pane: &Pane| pane.0.state().training.runs[&folder].clone();
    assert_eq!(run(&pane).history.done(), (8, 20));
    assert!(pane.0.has("Accuracy (%) of 2 heads"));
    pane.0.click("Cancel tasks");
    let job = pane.job_of(|ask| matches!(ask, Fetch::EndTasks(_)));
    pane.deliver(Event::Finished(job));
    // All begun tasks ended and one failed before it began: the run is not over.
    let failed =
        task("train-2", TaskPhase::Failed, "failed with exit code 1", "error: out of memory\nlast words");
    let all = vec![
        failed,
        task("train-1", TaskPhase::Done, "done", ""),
        task("join", TaskPhase::Idle, "not submitted", ""),
    ];
    read(&mut pane, all, 10);
    assert!(run(&pane).history.finished() && matches!(run(&pane).phase, Phase::Open { .. }));
    assert!(pane.0.has("1 of 3 tasks done, 1 failed, 1 inactive") && pane.0.has("last words"));
    pane.0.click("Retry failed");
    let job = pane.job_of(|ask| matches!(ask, Fetch::RetryTasks(_)));
    pane.train_event(job, TrainEvent::Retried(2));
    pane.deliver(Event::Finished(job));
    assert!(pane.0.state().log_text().contains("2 tasks resubmitted"));
    let done = ["train-1", "train-2", "join"].map(|name| task(name, TaskPhase::Done, "done", ""));
    read(&mut pane, done.into(), 10);
    assert_eq!(run(&pane).phase, Phase::Done);
    assert!(pane.0.has("Finished") && !pane.0.has("Retry failed"));
    assert!(follows(&pane).is_empty());
}

#[test]
fn what_slurm_refuses_is_told_and_the_form_stays() {
    let mut pane = planned(true);
    choose_slurm(&mut pane, TaskForm::default());
    let job = pane.job_of(|ask| matches!(ask, Fetch::PlanTasks(_)));
    pane.deliver(Event::Failed(job, UserError::new("invalid value 'many' for '--cpus <N>'")));
    assert!(pane.0.has("invalid value 'many' for '--cpus <N>'"));
    assert!(pane.0.state().jobs.is_empty(), "the pane says it");
    assert!(!pane.0.state().can_start_training());
    choose_slurm(&mut pane, on_partition("nowhere"));
    tell_plan(&mut pane);
    pane.0.click("Submit tasks");
    assert!(pane.0.has("Submitting the tasks"));
    let job = pane.job_of(|ask| matches!(ask, Fetch::SubmitTasks(_)));
    pane.deliver(Event::Failed(job, UserError::new("sbatch failed: invalid partition specified: nowhere")));
    assert!(pane.0.has("sbatch failed: invalid partition specified: nowhere"));
    let state = pane.0.state();
    assert!(state.training.runs.is_empty() && state.training.form.heads == ["gap", "sinkhorn"]);
    assert_eq!(state.settings.training.slurm.partition, "nowhere");
    assert!(!state.can_start_training());
    // Asked again unchanged, or with another partition.
    let plans = |pane: &Pane| pane.asked(pick!(Fetch::PlanTasks(_) => ())).len();
    let before = plans(&pane);
    pane.0.click("Try again");
    assert_eq!(plans(&pane), before + 1);
    choose_slurm(&mut pane, on_partition("gpu"));
    assert_eq!(plans(&pane), before + 2);
    tell_plan(&mut pane);
    assert!(pane.0.state().can_start_training());
    // With a wrong field it would fail again.
    choose_slurm(&mut pane, TaskForm { time: "4h".into(), ..TaskForm::default() });
    let job = pane.job_of(|ask| matches!(ask, Fetch::PlanTasks(_)));
    pane.deliver(Event::Failed(job, UserError::new("invalid value '4h' for '--time <TIME>'")));
    assert!(pane.0.has("invalid value '4h' for '--time <TIME>'") && !pane.0.has("Try again"));
}

#[test]
fn what_slurm_refuses_is_not_told_of_a_form_that_was_changed_meanwhile() {
    let mut pane = planned(true);
    choose_slurm(&mut pane, on_partition("nowhere"));
    tell_plan(&mut pane);
    pane.0.click("Submit tasks");
    let job = pane.job_of(|ask| matches!(ask, Fetch::SubmitTasks(_)));
    choose_slurm(&mut pane, on_partition("gpu"));
    pane.deliver(Event::Failed(job, UserError::new("sbatch failed: invalid partition specified: nowhere")));
    tell_plan(&mut pane);
    assert!(pane.0.state().can_start_training() && !pane.0.has("invalid partition"));
}

#[test]
fn what_slurm_refuses_for_the_tasks_of_a_run_is_told_below_that_run_alone() {
    let mut pane = submitted();
    let running = || vec![task("train-1", TaskPhase::Running, "running", "")];
    read(&mut pane, running(), 1);
    pane.0.click("Cancel tasks");
    let job = pane.job_of(|ask| matches!(ask, Fetch::EndTasks(_)));
    pane.deliver(Event::Failed(job, UserError::new("scancel failed: the controller does not answer")));
    assert!(pane.0.has("scancel failed"));
    let folder = PathBuf::from("runs/other");
    pane.0.dispatch(Command::OpenRun(folder.clone()));
    let wire = pane.0.wire.borrow();
    let job = wire.requests.iter().find_map(pick!(Request::Files(job, Files::OpenRun { .. }) => *job));
    drop(wire);
    let mut other = Arc::into_inner(snapshot(&["gap"])).expect("just made");
    other.about.folder.clone_from(&folder);
    other.tasks = Some(Tasks { all: running(), problem: None });
    pane.deliver(Event::RunRead { job, folder, snapshot: Ok(Arc::new(other)) });
    assert!(pane.0.has("Cancel tasks") && !pane.0.has("scancel failed"));
}

#[test]
fn a_plan_that_the_submitted_tasks_make_pointless_is_cancelled() {
    let mut pane = planned(true);
    let typed = TrainSettings { out: Some("runs/typed".into()), ..filled() };
    pane.0.dispatch(Command::SetTrainForm(Box::new(typed)));
    tell_preflight(&mut pane, true);
    choose_slurm(&mut pane, on_partition("gpu"));
    tell_plan(&mut pane);
    choose_slurm(&mut pane, on_partition("other"));
    let plan = pane.job_of(|ask| matches!(ask, Fetch::PlanTasks(_)));
    choose_slurm(&mut pane, on_partition("gpu"));
    pane.0.click("Submit tasks");
    let job = pane.job_of(|ask| matches!(ask, Fetch::SubmitTasks(_)));
    pane.train_event(job, TrainEvent::TasksSubmitted("runs/typed".into()));
    assert!(!pane.0.state().jobs.contains_key(&plan));
    assert_eq!(pane.0.state().training.form.out, None, "the next one goes elsewhere");
    assert!(pane.0.wire.borrow().requests.contains(&Request::Cancel(plan)));
}

/// A run whose tasks were submitted elsewhere is opened as any other.
#[test]
fn a_run_without_parts_is_not_over() {
    let mut pane = submitted();
    let folder = preflight().out;
    let waiting = RunSnapshot::waiting(&folder);
    pane.deliver(Event::RunRead { job: None, folder: folder.clone(), snapshot: Ok(Arc::new(waiting)) });
    let run = &pane.0.state().training.runs[&folder];
    assert!(matches!(run.phase, Phase::Open { .. }) && run.history.about.heads.is_empty());
    assert!(pane.0.has("No task has started training yet"));
}
