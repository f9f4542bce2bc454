//! Undo and redo: every command, in any order, with the worker's events between them. The test keeps a model of the
//! steps, as whole states, and compares the program with it after every move.

mod bounds;
mod commands;
mod plain;
mod worker;

use proptest::prelude::*;
use proptest::sample::select;

use self::commands::{Class, Kind};
use self::plain::Plain;
use self::worker::Worker;
use crate::window::prelude::*;

/// Steps that can be undone, as the window promises.
const KEPT: usize = 64;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// The user gives a command, chosen by the numbers.
    Want(Kind, [u8; 3]),
    /// The worker delivers so many events.
    Say(usize),
    /// The worker's next job fails.
    Fail,
    /// The worker delivers an event of an unknown job.
    Stray(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (select(Kind::ALL), any::<[u8; 3]>()).prop_map(|(kind, numbers)| Act::Want(kind, numbers)),
        3 => Just(Act::Want(Kind::Undo, [0; 3])),
        2 => Just(Act::Want(Kind::Redo, [0; 3])),
        3 => (1_usize..60).prop_map(Act::Say),
        1 => Just(Act::Fail),
        1 => any::<u8>().prop_map(Act::Stray),
    ]
}

/// A step, with the state before and after it if known: changes that are no steps make both unknown.
#[derive(Debug)]
struct Step {
    text: String,
    slides: bool,
    before: Option<Plain>,
    after: Option<Plain>,
}

/// The window's state, its worker, and the expected steps, of which the first `done` are not undone.
struct Model {
    state: State,
    worker: Worker,
    steps: Vec<Step>,
    done: usize,
}

impl Model {
    /// Opens backbones, probes that were trained on two layers, images, datasets and runs, with two findings, of images and
    /// a probe that are not all open.
    fn new() -> Self {
        let mut model = Self {
            state: State::new(Settings::default()),
            worker: Worker::default(),
            steps: Vec::new(),
            done: 0,
        };
        model.state.restore(Workspace { findings: commands::findings(), ..Workspace::default() });
        for (kind, choices) in [
            (Kind::OpenBackbone, 0..2),
            (Kind::OpenBeside, 1..2),
            (Kind::OpenImages, 0..3),
            (Kind::OpenProbes, 0..3),
            (Kind::OpenDataset, 0..2),
            (Kind::OpenRun, 0..2),
        ] {
            for choice in choices {
                model.act(&Act::Want(kind, [choice, choice, 0]));
                model.act(&Act::Say(usize::MAX));
            }
        }
        model
    }

    fn act(&mut self, act: &Act) {
        let before = Plain::of(&self.state);
        match *act {
            Act::Want(Kind::Undo, _) => self.undo_or_redo(false),
            Act::Want(Kind::Redo, _) => self.undo_or_redo(true),
            Act::Want(kind, numbers) => self.give_command(kind, numbers, before),
            Act::Say(count) => {
                self.worker.say(&mut self.state, count);
                self.note_change(&before);
            }
            Act::Fail => {
                self.worker.fail(&mut self.state);
                self.note_change(&before);
            }
            Act::Stray(number) => {
                let job = JobId(u64::from(number));
                let stray = [
                    Event::Started(job),
                    Event::Warning { job, text: "slow".into() },
                    Event::ImagesListed { job: JobId(u64::MAX), paths: vec!["late.png".into()] },
                    Event::Failed(JobId(u64::MAX), UserError::new("late")),
                ];
                self.state.apply(stray[usize::from(number) % stray.len()].clone());
                self.note_change(&before);
            }
        }
        let last = self.done.checked_sub(1).and_then(|last| self.steps.get(last));
        let mut expected = [last, self.steps.get(self.done)].map(|step| step.map(|step| step.text.clone()));
        if self.state.training.active.is_some() && self.menu_texts()[1].is_none() {
            expected[1] = None; // it would close the run that is trained
        }
        assert_eq!(self.menu_texts(), expected, "what Undo and Redo say");
    }

    fn dispatch(&mut self, command: Command) -> Plain {
        let requests = self.state.dispatch(command);
        self.worker.take(requests);
        Plain::of(&self.state)
    }

    /// After something that is no step: the recorded states stay valid only if nothing changed.
    fn note_change(&mut self, before: &Plain) {
        if Plain::of(&self.state) != *before {
            self.forget();
        }
    }

    fn give_command(&mut self, kind: Kind, numbers: [u8; 3], before: Plain) {
        let command = kind.make(&self.state, numbers);
        assert_eq!(Kind::of(&command), kind);
        let after = self.dispatch(command);
        let slides = match kind.class() {
            Class::Step => false,
            Class::Slide => true,
            Class::Around => return self.note_change(&before),
            Class::Aside => return assert_eq!(before, after, "{kind:?} is no step and changes something"),
            Class::History => unreachable!("undone and redone elsewhere"),
        };
        if before == after && kind != Kind::Arrange {
            return; // no step, and redo is still possible
        }
        self.steps.truncate(self.done);
        let text = self.state.undo_text().expect("a step").to_owned();
        let slides = slides && text != "Filter images"; // of the gallery's filter only typed letters are merged
        match self.steps.last_mut().filter(|last| slides && last.slides && last.text == text) {
            Some(last) => last.after = Some(after),
            None => self.steps.push(Step { text, slides, before: Some(before), after: Some(after) }),
        }
        if self.steps.len() > KEPT {
            self.steps.remove(0);
        }
        self.done = self.steps.len();
    }

    /// Undoes a step, or redoes one.
    fn undo_or_redo(&mut self, redo: bool) {
        let [command, inverse] =
            if redo { [Command::Redo, Command::Undo] } else { [Command::Undo, Command::Redo] };
        let (now, menu_texts) = (Plain::of(&self.state), self.menu_texts());
        let found = self.dispatch(command.clone());
        let at = if redo { self.done } else { self.done.wrapping_sub(1) };
        let Some(step) = self.steps.get(at) else {
            return assert_eq!(found, now, "{command:?}: there is no step");
        };
        let text = format!("{command:?} {:?}", step.text);
        if step.text.starts_with("Close the run") && found == now && menu_texts == self.menu_texts() {
            return assert!(redo && self.state.training.active.is_some(), "{text}: it is trained, and stays");
        }
        let known = if redo { step.after.clone() } else { step.before.clone() };
        self.done = if redo { at + 1 } else { at };
        if let Some(known) = known {
            return assert_eq!(found, known, "{text}");
        }
        // The expected state is unknown, but the inverse must restore the state before, and the command this one again.
        let before = self.dispatch(inverse);
        assert_eq!(before.clone().without_selection(), now.clone().without_selection(), "{text}, and back");
        assert_eq!(self.dispatch(command), found, "{text}, back and again");
        self.forget();
        let (before, after) = if redo { (before, found) } else { (found, before) };
        let step = &mut self.steps[at];
        (step.before, step.after) = (Some(before), Some(after));
    }

    /// What the menu says of Undo and of Redo.
    fn menu_texts(&self) -> [Option<String>; 2] {
        [self.state.undo_text(), self.state.redo_text()].map(|text| text.map(str::to_owned))
    }

    fn forget(&mut self) {
        self.steps.iter_mut().for_each(|step| (step.before, step.after) = (None, None));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Undo and redo restore the recorded states, and a new step clears redo, whatever happens in between.
    #[test]
    fn steps_are_undone_and_redone_in_any_order(acts in proptest::collection::vec(act(), 1..70)) {
        play(&acts);
    }
}

/// The acts in a new window, then all of its steps undone, redone and undone again.
fn play(acts: &[Act]) {
    let mut model = Model::new();
    acts.iter().for_each(|act| model.act(act));
    for (kind, count) in [(Kind::Undo, model.done), (Kind::Redo, model.steps.len()), (Kind::Undo, KEPT)] {
        (0..count).for_each(|_| model.act(&Act::Want(kind, [0; 3])));
    }
}

/// Its closing is undone although the dataset has an image of the same file.
#[test]
fn an_image_that_was_opened_while_its_dataset_was_closed_is_not_lost() {
    let want = |kind, first| Act::Want(kind, [first, 24, 0]);
    play(&[
        want(Kind::OpenImages, 250),
        want(Kind::CloseDataset, 91),
        Act::Say(2),
        want(Kind::Undo, 0),
        want(Kind::CloseImages, 49),
    ]);
}

#[test]
fn undoing_any_command_that_is_a_step_restores_what_was_before_it() {
    for kind in Kind::ALL.iter().filter(|kind| matches!(kind.class(), Class::Step | Class::Slide)) {
        let mut model = Model::new();
        let numbers = (0..=255).map(|n: u8| [n, n.wrapping_mul(7), n.wrapping_mul(31)]);
        let before = Plain::of(&model.state);
        for numbers in numbers {
            model.act(&Act::Want(*kind, numbers));
            if model.done > 0 {
                break;
            }
        }
        assert_eq!(model.done, 1, "{kind:?} was no step");
        let after = Plain::of(&model.state);
        assert_ne!(before, after, "{kind:?}");
        for _ in 0..2 {
            assert_eq!(model.dispatch(Command::Undo), before, "{kind:?} undone");
            model.worker.say(&mut model.state, usize::MAX);
            assert_eq!(Plain::of(&model.state), before, "{kind:?} undone, and what was asked for came");
            assert_eq!(model.dispatch(Command::Redo), after, "{kind:?} done again");
            model.worker.say(&mut model.state, usize::MAX);
            assert_eq!(Plain::of(&model.state), after, "{kind:?} done again, and what was asked for came");
        }
    }
}

/// A slider that comes back to its start leaves a step that changes nothing, into which the next one is merged.
#[test]
fn what_is_slid_on_after_an_undo_is_undone_to_the_start() {
    let mut model = Model::new();
    let start = model.state.backbone_options;
    let read_at = |pixels| Command::SetBackboneOptions(BackboneOptions { pixels, ..start });
    let before = Plain::of(&model.state);
    for command in
        [read_at(Some(160)), read_at(start.pixels), Command::Undo, Command::Redo, read_at(Some(96))]
    {
        model.dispatch(command);
    }
    assert_ne!(model.state.backbone_options, start);
    assert_eq!(model.dispatch(Command::Undo), before);
}

#[test]
fn what_would_close_the_run_that_is_trained_is_not_offered() {
    let mut model = Model::new();
    for command in [Command::CloseRun("runs/one".into()), Command::Undo] {
        model.dispatch(command);
    }
    assert!(model.state.redo_text().is_some_and(|text| text.starts_with("Close the run")));
    model.dispatch(Command::ResumeTraining("runs/one".into()));
    while model.state.training.active.as_ref().expect("a training").folder.is_none() {
        model.worker.say(&mut model.state, 1);
    }
    assert_eq!(model.state.redo_text(), None);
}

#[test]
fn the_latest_steps_are_kept() {
    let mut model = Model::new();
    let mut states = vec![Plain::of(&model.state)];
    for number in 0..100 {
        model.act(&Act::Want(Kind::Arrange, [number, number, 0]));
        states.push(Plain::of(&model.state));
    }
    for back in 1..=KEPT {
        assert_eq!(model.dispatch(Command::Undo), states[100 - back], "{back} steps back");
    }
    assert_eq!(model.state.undo_text(), None);
    for forward in 1..=KEPT {
        assert_eq!(model.dispatch(Command::Redo), states[100 - KEPT + forward], "{forward} steps on again");
    }
    assert_eq!(model.state.redo_text(), None);
}
