//! The compute thread: opens backbones and probes, answers looks, owns every tensor.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use burn::tensor::Device;

use super::event_sender::{EventSender, JobExit, JobReporter, failed, go_on, guard};
use super::token_memory::Cache;
use super::{Task, WorkerEnv};
use crate::app::jobs::info::{BackboneInfo, ProbeInfo};
use crate::app::jobs::training::TrainRequest;
use crate::app::jobs::{
    BackboneId, BackboneOptions, Cancel, Event, ExplainSettings, JobId, ProbeId, Request,
};
use crate::app::user_error::{ON_CPU, UserError};
use crate::model::backbone::preprocess::Preprocessor;
use crate::model::backbone::token_spec::TokenSpec;
use crate::model::backbone::{Backbone, BackboneError};
use crate::model::explain::null_model::NullBands;
use crate::model::probe::Probe;

/// What the thread owns.
pub(super) struct Compute {
    pub(super) world: WorkerEnv,
    pub(super) outbox: EventSender,
    pub(super) backbones: HashMap<BackboneId, LoadedBackbone>,
    /// How to open backbones again whose device was lost.
    pub(super) lost: HashMap<BackboneId, BackboneRequest>,
    pub(super) probes: HashMap<ProbeId, LoadedProbe>,
    pub(super) cache: Cache,
    pub(super) nulls: (ExplainSettings, NullBands),
    /// Set once no more tasks are to be begun.
    pub(super) closing: Cancel,
    tasks: Receiver<Task>,
    /// Long jobs that came while another was under way.
    later: VecDeque<Task>,
    /// Trainings that are to rest.
    resting: HashSet<JobId>,
}

/// A backbone that can read images.
pub(super) struct LoadedBackbone {
    pub(super) recipe: BackboneRequest,
    pub(super) model: Backbone,
    pub(super) preprocessor: Preprocessor,
    pub(super) layer: usize,
    /// What cached tokens depend on.
    pub(super) key: Arc<str>,
    device: Device,
    facts: BackboneInfo,
}

/// Where a backbone comes from.
#[derive(Clone)]
pub(super) struct BackboneRequest {
    entry: BackboneId,
    folder: PathBuf,
    pub(super) device: String,
    options: BackboneOptions,
}

/// Folder and device of what takes tokens, and how.
pub(super) type Taker = (PathBuf, Device, TokenSpec);

/// A probe and its file.
pub(super) struct LoadedProbe {
    pub(super) path: PathBuf,
    pub(super) probe: Probe,
}

impl Compute {
    pub(super) fn new(world: WorkerEnv, outbox: EventSender, closing: Cancel, tasks: Receiver<Task>) -> Self {
        let settings = ExplainSettings::default();
        let nulls = NullBands::new(settings.null_draws, settings.seed);
        Self {
            world,
            outbox,
            backbones: HashMap::new(),
            lost: HashMap::new(),
            probes: HashMap::new(),
            cache: Cache::new(world.cache_bytes),
            nulls: (settings, nulls),
            closing,
            tasks,
            later: VecDeque::new(),
            resting: HashSet::new(),
        }
    }

    /// Works until the other ends of the queue are gone, or it is closed.
    pub(super) fn run(mut self) {
        while let Some(task) = self.later.pop_front().or_else(|| self.tasks.recv().ok()) {
            if self.closing.is_cancelled() {
                return;
            }
            self.begin(task);
        }
    }

    fn begin(&mut self, Task { request, cancel }: Task) {
        self.answer(request, &cancel);
        self.outbox.wake();
    }

    /// Answers one more task in the middle of a long job, `waiting` for one if need be; whether there
    /// was one. Another long job comes later.
    pub(super) fn serve(&mut self, waiting: bool) -> bool {
        let task = if waiting { self.tasks.recv().ok() } else { self.tasks.try_recv().ok() };
        match task {
            Some(task) if long(&task.request) && !task.cancel.is_cancelled() => self.later.push_back(task),
            Some(task) if !self.closing.is_cancelled() => self.begin(task),
            Some(_) => {}
            None => {
                // Nobody is left to wait for.
                self.resting.clear();
                return false;
            }
        }
        true
    }

    /// A long job that was cancelled while it waited is over at once.
    fn give_up(&mut self, job: JobId) {
        let waits = self.later.iter().position(|task| task.request.job() == Some(job));
        if let Some(task) = waits.and_then(|at| self.later.remove(at)) {
            self.begin(task);
        }
    }

    /// Whether a training is to rest.
    pub(super) fn rests(&self, job: JobId) -> bool {
        self.resting.contains(&job)
    }

    fn answer(&mut self, request: Request, cancel: &Cancel) {
        let outbox = self.outbox.clone();
        let Some(job) = request.job() else {
            match request {
                Request::CloseBackbone(entry) => self.close(entry),
                Request::CloseProbe(entry) => drop(self.probes.remove(&entry)),
                Request::Pause(job, true) => drop(self.resting.insert(job)),
                Request::Pause(job, false) => drop(self.resting.remove(&job)),
                Request::Cancel(job) => self.give_up(job),
                _ => {}
            }
            return;
        };
        let device = self.device_of(&request);
        let tears = device.is_some(); // what runs on a device may leave it lost
        let result = outbox.job(job, cancel, |clock| match request {
            Request::OpenBackbone { job, entry, source, device, options } => {
                let recipe = BackboneRequest { entry, folder: source.into(), device, options };
                self.open(clock, job, recipe, cancel)
            }
            Request::OpenProbe { job, entry, path } => self.open_probe(job, entry, &path),
            Request::Explain(look) => self.look(clock, &look, cancel),
            Request::Training { ask, .. } => self.training(clock, ask, cancel),
            Request::Survey(ask) => self.survey(clock, &ask, cancel),
            Request::Stability(ask) => self.stability(clock, &ask, cancel),
            _ => Ok(()),
        });
        self.resting.remove(&job);
        if let Err(fault) = result {
            if tears {
                self.recover();
            }
            let remedy = match device.as_deref() {
                Some("cpu") | None => {
                    "The program goes on. Try again; if it comes back, copy the log and report it"
                }
                Some(_) => ON_CPU,
            };
            outbox.tell(Event::Failed(job, fault.remedy(remedy)));
        }
    }

    /// The device a request is computed on, by name.
    fn device_of(&self, request: &Request) -> Option<String> {
        match request {
            Request::OpenBackbone { device, .. } => Some(device.clone()),
            Request::Training { ask: TrainRequest::Train { order, .. }, .. } => Some(order.device.clone()),
            Request::Training { ask: TrainRequest::Time(tried), .. } => Some(tried.order.device.clone()),
            Request::Explain(_) | Request::Survey(_) | Request::Stability(_) => {
                let open = self.backbones.values().map(|open| open.facts.device.clone());
                let lost = self.lost.values().map(|recipe| recipe.device.clone());
                // One that is no processor first: it is the likelier culprit.
                let all: Vec<String> = open.chain(lost).collect();
                all.iter().find(|name| *name != "cpu").or(all.first()).cloned()
            }
            _ => None,
        }
    }

    /// After a panic: what it may have torn is thrown away; the next look opens it again.
    fn recover(&mut self) {
        for (entry, open) in std::mem::take(&mut self.backbones) {
            self.lost.insert(entry, open.recipe.clone());
            // A lost device may panic once more while it is let go.
            let _ = guard(move || drop(open));
        }
        let settings = self.nulls.0;
        self.nulls.1 = NullBands::new(settings.null_draws, settings.seed);
    }

    fn close(&mut self, entry: BackboneId) {
        self.lost.remove(&entry);
        if let Some(open) = self.backbones.remove(&entry) {
            let _ = guard(move || open.drop_whole());
        }
    }

    fn open(
        &mut self,
        clock: &JobReporter<'_>,
        job: JobId,
        recipe: BackboneRequest,
        cancel: &Cancel,
    ) -> Result<(), JobExit> {
        let entry = recipe.entry;
        self.load(recipe, cancel)?;
        if let Some(open) = self.backbones.get(&entry) {
            clock.outbox.tell(Event::BackboneOpened { job, entry, facts: open.facts.clone() });
        }
        Ok(())
    }

    /// Loads a backbone; that of the same entry is gone by then, and its memory free.
    pub(super) fn load(&mut self, recipe: BackboneRequest, cancel: &Cancel) -> Result<(), JobExit> {
        let entry = recipe.entry;
        self.close(entry);
        let BackboneRequest { folder, device: name, options, .. } = &recipe;
        let mut preprocessor = Preprocessor::open(folder).map_err(failed)?;
        if let Some(pixels) = options.pixels {
            preprocessor = preprocessor.with_size(pixels).map_err(failed)?;
        }
        let choice = (self.world.device)(name).map_err(failed)?;
        go_on(cancel)?;
        let model = Backbone::open(folder, &choice.device).map_err(failed)?.with_mae_order(options.mae_order);
        let layer = options.layer.unwrap_or(model.layers());
        if layer > model.layers() {
            return Err(failed(BackboneError::Layer { layer, layers: model.layers() }));
        }
        let output = preprocessor.output();
        output.map(|(height, width)| model.grid(height, width)).transpose().map_err(failed)?;
        let adapter = format!("{} ({})", choice.found.adapter, choice.why);
        let facts = BackboneInfo::new(&model, choice.found.name, adapter, output, *options);
        let order = options.mae_order;
        let key = format!("{} {layer} {order:?} {}", model.fingerprint(), preprocessor.key()).into();
        let open = LoadedBackbone { recipe, model, preprocessor, layer, key, device: choice.device, facts };
        self.backbones.insert(entry, open);
        Ok(())
    }

    /// What takes tokens as the open backbone does: folder, device, and how.
    pub(super) fn tokens_of(&self, entry: BackboneId) -> Result<Taker, JobExit> {
        let open = self.opened(entry)?;
        let BackboneRequest { folder, options, .. } = &open.recipe;
        Ok((folder.clone(), open.device.clone(), options.taking()))
    }

    /// The open backbone of this name.
    pub(super) fn opened(&self, entry: BackboneId) -> Result<&LoadedBackbone, UserError> {
        self.backbones
            .get(&entry)
            .ok_or_else(|| UserError::new("The backbone is not open").remedy("Open it again"))
    }

    fn open_probe(&mut self, job: JobId, entry: ProbeId, path: &Path) -> Result<(), JobExit> {
        let (probe, fingerprint) = Probe::load_known(path).map_err(|error| of_file(path, error))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let facts = ProbeInfo::new(&probe, name, fingerprint);
        self.probes.insert(entry, LoadedProbe { path: path.to_owned(), probe });
        self.outbox.tell(Event::ProbeOpened { job, entry, facts });
        Ok(())
    }
}

impl LoadedBackbone {
    /// Lets the weights go, and what the device keeps of them for later.
    fn drop_whole(self) {
        let Self { model, device, .. } = self;
        drop(model);
        device.memory_cleanup();
    }
}

/// Whether a request takes so long that others are answered in its middle, and it never in theirs.
fn long(request: &Request) -> bool {
    matches!(request, Request::Training { .. } | Request::Survey(_) | Request::Stability(_))
}

/// The fault of a file, with what to do if it has vanished.
pub(super) fn of_file(path: &Path, error: impl Into<anyhow::Error>) -> UserError {
    let fault = UserError::of(error);
    match path.try_exists() {
        Ok(false) => fault.remedy("The file is no longer there: put it back, or close its entry"),
        _ => fault,
    }
}
