//! A simulated person at the window: looks at images, compares probes, evaluates the dataset, trains, pauses
//! and resumes, in an order that a seed decides.

use eframe::egui::Pos2;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use super::watch::Done;
use crate::app::devtools::prelude::*;
use crate::app::devtools::wheel;
use crate::app::jobs::extract::TokenSettings;
use crate::app::jobs::train::TrainSettings;
use crate::app::jobs::{ClassChoice, ColumnId, ImageId, ProbeId};
use crate::app::state::command::Command;
use crate::app::state::settings::ThemeChoice;
use crate::app::state::{Phase, Severity, State};
use crate::app::window::panels::{self, PanelPlace};
use crate::model::data::scenes::folder::Set;
use crate::model::explain::intervention::Intervention;

/// Shortest time between two actions.
const PAUSE: Duration = Duration::from_millis(120);
/// Time between two evaluations of the dataset, and between two trainings.
const TASK_INTERVAL: Duration = Duration::from_secs(6);
/// How long a training runs before it is paused, and rests before it is resumed.
const TRAIN_TIME: Duration = Duration::from_secs(2);
/// Timeout of a training's preflight: longer than it takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_mins(5);
const MAX_COLUMNS: usize = 6;
/// What is trained on: enough that a training can be stopped midway.
const SCENES: Set = Set { seed: 5, train: 48, val: 24 };

pub struct Visitor {
    rng: ChaCha8Rng,
    folder: TempDir,
    acted: Instant,
    evaluated: Instant,
    training: Training,
    evaluations: usize,
    evaluating: bool,
    trainings: usize,
    started: usize,
    pointer: Pos2,
}

enum Training {
    /// There has been none since then.
    None(Instant),
    /// Its preflight was requested then; the folder of its run.
    Planned(PathBuf, Instant),
    /// It was started, paused or resumed at `since`; whether it was ever paused, and cancelled.
    Running { since: Instant, out: PathBuf, paused: bool, cancelled: bool },
}

impl Visitor {
    /// A visitor whose choices follow from `seed`; writes the scenes to train on.
    pub fn new(seed: u64) -> anyhow::Result<Self> {
        let folder = temporary::folder().context("cannot create a folder to train in")?;
        SCENES.write(&folder.path().join("scenes"), &|| ())?;
        let now = Instant::now();
        Ok(Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            folder,
            acted: now,
            evaluated: now,
            training: Training::None(now),
            evaluations: 0,
            evaluating: false,
            trainings: 0,
            started: 0,
            pointer: Pos2::new(700.0, 450.0),
        })
    }

    /// What was done so far, and the first error.
    pub fn done(&self, app: &App) -> Done {
        let wrong = app.state.log.iter().find(|entry| entry.severity == Severity::Error);
        Done {
            looks: app.state.explained_count(),
            evaluations: self.evaluations,
            trainings: self.trainings,
            error: wrong.map(|entry| entry.text.clone()),
        }
    }

    /// Whether nothing has been explained yet.
    pub fn idle(app: &App) -> bool {
        app.state.explained_count() == 0
    }

    /// The pointer's events in the next frame: it wanders, and turns the wheel at times.
    pub fn point(&mut self) -> Vec<egui::Event> {
        let step = egui::vec2(self.rng.random_range(-60.0..60.0), self.rng.random_range(-45.0..45.0));
        self.pointer = (self.pointer + step).clamp(Pos2::new(5.0, 40.0), Pos2::new(1435.0, 880.0));
        let mut events = vec![egui::Event::PointerMoved(self.pointer)];
        if self.rng.random_ratio(1, 10) {
            events.push(wheel(self.rng.random_range(-3..=3) as f32));
        }
        events
    }

    /// Does the next action, if one is due.
    pub fn act(&mut self, app: &mut App) -> anyhow::Result<()> {
        if self.acted.elapsed() < PAUSE || Self::idle(app) {
            return Ok(());
        }
        self.acted = Instant::now();
        self.evaluate(app);
        self.train(app)?;
        if let Some(command) = self.choose(&app.state) {
            app.dispatch(command);
        } else if let Some(pane) = self.pane() {
            app.window.show(pane);
        }
        Ok(())
    }

    fn pick<T: Copy>(&mut self, items: impl Iterator<Item = T>) -> Option<T> {
        items.collect::<Vec<_>>().choose(&mut self.rng).copied()
    }

    fn pane(&mut self) -> Option<&'static str> {
        let panes = panels::all().into_iter().filter(|panel| panel.place() == PanelPlace::Middle);
        self.pick(panes.map(|panel| panel.id()))
    }

    fn column(&mut self, state: &State) -> Option<ColumnId> {
        self.pick(state.columns.keys().copied())
    }

    fn image(&mut self, state: &State) -> Option<ImageId> {
        self.pick(state.library.images.keys().copied())
    }

    fn probe(&mut self, state: &State) -> Option<ProbeId> {
        let ready = state.library.probes.iter().filter(|(_, probe)| probe.status.ready().is_some());
        self.pick(ready.map(|(id, _)| *id))
    }

    fn choose(&mut self, state: &State) -> Option<Command> {
        Some(match self.rng.random_range(0..100) {
            0..35 => Command::SelectImage(self.image(state)?),
            35..42 => Command::Step(self.rng.random_range(-3_i32..=3) as isize),
            42..50 => {
                let classes = &state.dataset()?.1.set.classes;
                let named = classes.choose(&mut self.rng).cloned().map(ClassChoice::Named);
                Command::SetClass(named.filter(|_| self.rng.random()).unwrap_or(ClassChoice::Predicted))
            }
            50..60 if state.columns.len() < MAX_COLUMNS => {
                let image = self.image(state).filter(|_| self.rng.random());
                let probe = self.probe(state)?;
                let info = state.library.probe_info(probe)?;
                let changes = [Intervention::NoRouting, Intervention::Scrambled(1), Intervention::Random(2)];
                // Only where there is an order to change.
                let change = changes.choose(&mut self.rng).cloned().filter(|_| info.routed);
                Command::AddColumn { probe, image, change: change.unwrap_or_default() }
            }
            50..64 if state.columns.len() > 2 => Command::RemoveColumn(self.column(state)?),
            64..68 => Command::Pin(self.column(state).filter(|_| self.rng.random())),
            68..71 => Command::SetDifference(self.rng.random()),
            71..74 => Command::SetShared(self.rng.random()),
            74..80 => Command::Undo,
            80..84 => Command::Redo,
            84..86 => Command::SetTheme(*[ThemeChoice::Light, ThemeChoice::Dark].choose(&mut self.rng)?),
            86 => Command::SetScale(*[1.0, 1.25].choose(&mut self.rng)?),
            87..89 => {
                let column = self.column(state)?;
                let routed = |id| state.library.probe_info(id).map(|probe| probe.routed);
                routed(state.columns.get(&column)?.probe)?.then_some(Command::MeasureStability(column))?
            }
            _ => return None,
        })
    }

    /// Evaluates the probes of the columns on the dataset, every [`TASK_INTERVAL`].
    fn evaluate(&mut self, app: &mut App) {
        let busy = app.state.evaluations.job().is_some();
        if self.evaluating && !busy {
            self.evaluations += 1;
            self.evaluated = Instant::now();
        }
        self.evaluating = busy;
        if busy || self.evaluated.elapsed() < TASK_INTERVAL {
            return;
        }
        self.evaluated = Instant::now();
        // Opened anew, so that known results are computed again.
        let known = app.state.library.datasets.values().map(|dataset| dataset.path.clone()).next();
        if let Some(path) = known {
            app.dispatch(Command::OpenDataset(path, None));
            app.dispatch(Command::Evaluate { all: false });
        }
    }

    /// Advances the training: preflight, start, pause, resume; every other one is also cancelled and resumed.
    fn train(&mut self, app: &mut App) -> anyhow::Result<()> {
        let state = &app.state;
        match &mut self.training {
            Training::None(since) if since.elapsed() > TASK_INTERVAL => {
                let out = self.folder.path().join(format!("run-{}", self.started));
                self.started += 1;
                let Some(backbone) = state.library.backbones.values().next() else { return Ok(()) };
                let settings = TrainSettings {
                    backbone: backbone.source.clone(),
                    data: Some(self.folder.path().join("scenes")),
                    heads: ["gap", "raster", "sinkhorn"].map(str::to_owned).into(),
                    head_settings: "state_dim=16".into(),
                    epochs: 60,
                    batch: 16,
                    device: state.settings.device.clone(),
                    out: Some(out.clone()),
                    tokens: TokenSettings {
                        cache: Some(self.folder.path().join("tokens")),
                        ..TokenSettings::default()
                    },
                    ..TrainSettings::default()
                };
                app.dispatch(Command::SetTrainForm(Box::new(settings)));
                app.dispatch(Command::PlanTraining);
                self.training = Training::Planned(out, Instant::now());
            }
            Training::Planned(out, since) => match state.training.preflight() {
                (Some(Ok(_)), None) if state.training.can_start() => {
                    let (out, since) = (out.clone(), Instant::now());
                    app.dispatch(Command::StartTraining);
                    self.training = Training::Running { since, out, paused: false, cancelled: false };
                }
                (Some(Err(error)), _) => anyhow::bail!("a training could not be planned: {error}"),
                _ if since.elapsed() > TIMEOUT => anyhow::bail!("a training took too long to be planned"),
                _ => {}
            },
            Training::Running { since, out, paused, cancelled } => {
                let live = state.training.active.clone();
                let has_begun = live.as_ref().is_some_and(|live| live.folder.is_some());
                let phase = state.training.runs.get(out).map(|run| run.phase.clone());
                match phase {
                    Some(Phase::Failed(error)) => anyhow::bail!("a training failed: {error}"),
                    Some(Phase::Stopped) if live.is_none() => {
                        let out = out.clone();
                        (*since, *paused) = (Instant::now(), true);
                        app.dispatch(Command::ResumeTraining(out));
                    }
                    Some(Phase::Done) => {
                        self.trainings += 1;
                        self.training = Training::None(Instant::now());
                    }
                    _ if has_begun && !*paused && since.elapsed() > TRAIN_TIME => {
                        *paused = true;
                        *since = Instant::now();
                        app.dispatch(Command::PauseTraining(true));
                    }
                    _ if live.as_ref().is_some_and(|live| live.paused) && since.elapsed() > TRAIN_TIME => {
                        *since = Instant::now();
                        app.dispatch(Command::PauseTraining(false));
                        if let Some(live) = live.filter(|_| self.started.is_multiple_of(2) && !*cancelled) {
                            *cancelled = true;
                            app.dispatch(Command::Cancel(live.job));
                        }
                    }
                    _ => {}
                }
            }
            Training::None(_) => tidy(app, self.folder.path()),
        }
        Ok(())
    }
}

/// Closes what was opened of runs that are over, or came back with an undo: what a person keeps open may
/// cost memory, and would count as growth.
fn tidy(app: &mut App, folder: &Path) {
    let probes = app.state.library.probes.iter().filter(|(_, probe)| probe.path.starts_with(folder));
    let probes: Vec<ProbeId> = probes.map(|(id, _)| *id).collect();
    app.dispatch(Command::CloseProbes(probes));
    let runs: Vec<PathBuf> = app.state.training.runs.keys().cloned().collect();
    runs.into_iter().for_each(|run| app.dispatch(Command::CloseRun(run)));
}
