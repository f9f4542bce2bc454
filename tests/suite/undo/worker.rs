//! A worker that computes nothing: it answers every request with events that the real one may send, one at a time.

use std::collections::VecDeque;

use ssmprobe::app::jobs::folder::Folder;
use ssmprobe::app::jobs::history::disk::RunSnapshot;
use ssmprobe::app::jobs::tasks::PlannedStage;
use ssmprobe::app::jobs::train::Preflight;
use ssmprobe::app::jobs::train_event::TrainEvent;
use ssmprobe::app::jobs::{ExplainResult, PathKind, evaluate, similarity, stability};
use ssmprobe::model::backbone::token_spec::{TokenSpec, Trained};
use ssmprobe::model::data::{Dataset, Sample, Split};

use crate::state::{opened, probe, trace};
use crate::training_window;
use crate::window::prelude::*;

/// The events that it is still to deliver, in order.
#[derive(Default)]
pub struct Worker(VecDeque<Event>);

impl Worker {
    /// Accepts requests.
    pub fn take(&mut self, requests: Vec<Request>) {
        requests.into_iter().for_each(|request| self.answer(request));
    }

    /// Delivers the next `count` events to `state`, and accepts the requests that follow.
    pub fn say(&mut self, state: &mut State, count: usize) {
        for _ in 0..count {
            let Some(event) = self.0.pop_front() else { break };
            let requests = state.apply(event);
            self.take(requests);
        }
    }

    /// Fails the job of its next event.
    pub fn fail(&mut self, state: &mut State) {
        if let Some(job) = self.0.iter().find_map(Event::job) {
            self.0.retain(|event| event.job() != Some(job));
            let requests = state.apply(Event::Failed(job, UserError::new("no memory left")));
            self.take(requests);
        }
    }

    fn answer(&mut self, request: Request) {
        let events = match request {
            Request::Fetch(job, Fetch::OpenBackbone { source, .. }) if source == "lost" => lost(job),
            Request::Compute(job, Compute::OpenProbe { path, .. }) if path.ends_with("lost.safetensors") => {
                lost(job)
            }
            Request::Fetch(job, Fetch::OpenBackbone { .. })
            | Request::Compute(job, Compute::OpenProbe { .. })
            | Request::Files(job, Files::OpenImages { .. }) => {
                let event = opened(&request, probe_of).expect("it is to open something");
                vec![Event::Started(job), event, Event::Finished(job)]
            }
            Request::Files(job, Files::OpenRun { folder }) if folder.ends_with("lost") => {
                vec![
                    Event::RunRead { job: Some(job), folder, snapshot: Err(UserError::new("no run")) },
                    Event::Finished(job),
                ]
            }
            Request::Files(job, Files::OpenRun { folder }) => {
                let paths = vec![folder.join("probes/gap.safetensors")];
                let snapshot = Ok(snapshot(folder.clone()));
                vec![
                    Event::RunRead { job: Some(job), folder, snapshot },
                    Event::ProbesListed { job, paths, sources: Vec::new() },
                    Event::Finished(job),
                ]
            }
            Request::Files(job, Files::OpenDataset { entry, path, split }) => {
                let part = Arc::new(part(&path, split));
                vec![Event::DatasetOpened { job, entry, part }, Event::Finished(job)]
            }
            Request::Compute(job, Compute::Evaluate(ask)) => evaluated(job, &ask),
            Request::Compute(job, Compute::Stability(ask)) => {
                let result = Err(UserError::new("no order"));
                let answer = stability::StabilityAnswer { subject: ask.subject, image: ask.image, result };
                vec![Event::StabilityMeasured { job, answer }, Event::Finished(job)]
            }
            Request::Compute(job, Compute::Similarity(ask)) => {
                vec![Event::ImagesCompared(job, similarity::run(&ask)), Event::Finished(job)]
            }
            Request::Compute(job, Compute::Inspect(_) | Compute::Eval(_) | Compute::Extract(_)) => {
                vec![Event::Finished(job)]
            }
            Request::Compute(job, Compute::Removal(_)) => {
                vec![
                    Event::RemovalMeasured { job, answer: Err(UserError::new("no order")) },
                    Event::Finished(job),
                ]
            }
            Request::Files(job, Files::Recognise { paths }) => {
                let found = paths.into_iter().map(|path| (path.clone(), kind(&path))).collect();
                vec![Event::Recognised { job, found }, Event::Finished(job)]
            }
            Request::Files(job, Files::ListFolder { folder }) if folder.ends_with("lost") => lost(job),
            Request::Files(job, Files::ListFolder { folder: path }) => {
                let folder = Arc::new(Folder { path, ..Folder::default() });
                vec![Event::FolderListed { job, folder }, Event::Finished(job)]
            }
            Request::Files(job, Files::Receive(file)) => {
                let kind = kind(&file.path);
                vec![Event::Recognised { job, found: vec![(file.path, kind)] }, Event::Finished(job)]
            }
            Request::Compute(job, Compute::Explain(look) | Compute::ExplainMany(look)) => {
                let results = look.items.iter().map(|asked| {
                    let trace = Arc::new(trace(&asked.image.to_string()));
                    let odd = asked.column.0 % 5 == 4;
                    ExplainResult {
                        column: asked.column,
                        result: if odd { Err(UserError::new("no order")) } else { Ok(trace) },
                        by_hand: None,
                    }
                });
                vec![Event::Explained { job, results: results.collect() }, Event::Finished(job)]
            }
            Request::Thumbnails { wanted, .. } => {
                let small =
                    |(image, _)| Event::ThumbnailReady { image, picture: Arc::new(Picture::default()) };
                wanted.into_iter().map(small).collect()
            }
            Request::Fetch(job, ask) => trained(job, ask),
            Request::Pause(job, rest) => vec![Event::Training { job, event: TrainEvent::Paused(rest) }],
            Request::Follow(folders) => {
                let read = |folder: PathBuf| {
                    let snapshot = Ok(snapshot(folder.clone()));
                    Event::RunRead { job: None, folder, snapshot }
                };
                folders.into_iter().map(read).collect()
            }
            Request::Cancel(ended) => {
                let before = self.0.len();
                self.0.retain(|event| event.job() != Some(ended));
                if self.0.len() < before { vec![Event::Cancelled(ended)] } else { Vec::new() }
            }
            Request::CloseBackbone(_) | Request::CloseProbe(_) => Vec::new(),
        };
        self.0.extend(events);
    }
}

fn lost(job: JobId) -> Vec<Event> {
    vec![Event::Started(job), Event::Failed(job, UserError::new("no such file"))]
}

/// Probes called `deep` or in the folder `more` were trained on another layer.
fn probe_of(path: &Path) -> ProbeInfo {
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let deep = name == "deep" || path.starts_with("more");
    let token_spec = TokenSpec { layer: Some(1), ..BackboneOptions::default().token_spec() };
    let trained = deep.then(|| Box::new(Trained { token_spec, preprocessing: None }));
    ProbeInfo { trained, ..probe(&name, 24) }
}

fn snapshot(folder: PathBuf) -> Arc<RunSnapshot> {
    let mut snapshot = Arc::into_inner(training_window::snapshot(&["gap"])).expect("just made");
    snapshot.about.folder = folder;
    Arc::new(snapshot)
}

/// Two training images and three test images.
fn part(path: &Path, split: Option<Split>) -> evaluate::EvalSplit {
    let sample = |at: usize| Sample {
        source: path.join(format!("{at}.png")).into(),
        class: at % 2,
        split: if at < 2 { Split::Train } else { Split::Test },
    };
    let dataset = Dataset {
        name: path.display().to_string(),
        root: path.to_owned(),
        layout: "folder",
        classes: ["cat".to_owned(), "dog".to_owned()].into(),
        samples: (0..5).map(sample).collect(),
        ..Dataset::default()
    };
    evaluate::EvalSplit::new(dataset, split)
}

fn evaluated(job: JobId, ask: &evaluate::EvalRequest) -> Vec<Event> {
    let evaluation = Arc::new(Evaluation {
        set: ask.part.set.clone(),
        probe: "p".into(),
        head: "gap".into(),
        backbone: "one".into(),
        grid: Grid::new(2, 2),
        predicted: vec![0; ask.part.samples.len()],
        ..Evaluation::default()
    });
    let answer = |subject: &evaluate::EvalProbe| {
        let answer = evaluate::EvalAnswer { subject: subject.clone(), result: Ok(evaluation.clone()) };
        Event::Evaluated { job, answer }
    };
    ask.subjects.iter().map(answer).chain([Event::Finished(job)]).collect()
}

fn kind(path: &Path) -> PathKind {
    match path.extension().and_then(|end| end.to_str()) {
        Some("png") => PathKind::Images,
        Some("safetensors") => PathKind::Probe,
        _ if path.starts_with("runs") => PathKind::Run,
        _ if path.starts_with("birds") || path.starts_with("cars") => PathKind::Dataset,
        _ => PathKind::Backbone,
    }
}

fn trained(job: JobId, ask: Fetch) -> Vec<Event> {
    let event = |event| Event::Training { job, event };
    let folder = match ask {
        Fetch::Plan(_) => {
            let preflight = Preflight { slurm: true, ..training_window::preflight() };
            let planned = TrainEvent::Planned(Box::new(preflight));
            return vec![event(planned), Event::Finished(job)];
        }
        Fetch::PlanTasks(_) => {
            let stage = PlannedStage { name: "join".into(), tasks: 1, script: "join".into() };
            return vec![event(TrainEvent::TasksPlanned(vec![stage])), Event::Finished(job)];
        }
        Fetch::SubmitTasks(asked) => {
            return vec![event(TrainEvent::TasksSubmitted(asked.out)), Event::Finished(job)];
        }
        Fetch::RetryTasks(_) => return vec![event(TrainEvent::Retried(1)), Event::Finished(job)],
        Fetch::EndTasks(_) => return vec![Event::Finished(job)],
        Fetch::Detached(asked) => asked.out,
        Fetch::Begin(draft) => draft.out.expect("where it goes"),
        Fetch::Resume { folder, .. } => folder,
        Fetch::OpenBackbone { .. } => unreachable!("no training"),
    };
    let ended = TrainEvent::Ended { finished: false, failures: Vec::new() };
    vec![Event::Started(job), event(TrainEvent::Begun(snapshot(folder))), event(ended), Event::Finished(job)]
}
