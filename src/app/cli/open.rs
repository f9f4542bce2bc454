//! `ssmprobe open`: the window, on files and folders of any kind.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;

use crate::app::App;
use crate::app::image_files::is_workspace;
use crate::app::state::command::Command;
use crate::app::state::settings;
use crate::app::window::native;
use crate::app::worker::{Worker, WorkerEnv};
use crate::model::io::atomic_file;

/// Open the window on backbones, probes, runs, images, datasets or a workspace; on nothing, where it was left.
#[derive(Args, Default)]
pub struct Open {
    /// A workspace file, backbone folders, probe files, folders of runs, images, folders of images
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A backbone: a folder or an id of the Hugging Face Hub
    #[arg(long, value_name = "DIR or ID")]
    backbone: Option<String>,
    /// A labelled dataset: its folder, or a table
    #[arg(long, value_name = "DIR|TABLE")]
    data: Option<PathBuf>,
    /// Where to compute: cpu, wgpu, cuda or auto; remembered
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// Start with the bundled demo, not with what was open last
    #[arg(long, conflicts_with_all = ["paths", "backbone"])]
    demo: bool,
    /// The pane to show first: a figure's or an overview's id, compare, tokens or training
    #[arg(long, value_name = "ID")]
    pane: Option<String>,
}

impl Open {
    /// Returns once the window is closed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let paths: Vec<PathBuf> = self
            .paths
            .iter()
            .map(|path| std::path::absolute(path).with_context(|| format!("{}", path.display())))
            .collect::<anyhow::Result<_>>()?;
        native::open(move |ctx| {
            let wake = ctx.clone();
            let worker = Worker::start(WorkerEnv::default(), Arc::new(move || wake.request_repaint()))
                .context("cannot start the threads that compute")?;
            let mut app = App::new(ctx, Box::new(worker), settings::path().as_deref());
            let data = self.data.map(std::path::absolute).transpose()?;
            let nothing = self.backbone.is_none() && paths.is_empty();
            // It is where a backbone that is opened now comes to lie.
            self.device.into_iter().for_each(|device| app.dispatch(Command::SetDevice(device)));
            match (nothing, self.demo) {
                (true, false) => app.resume(),
                (true, true) => {
                    app.put_session_aside();
                    app.start_demo();
                }
                (false, _) => app.put_session_aside(),
            }
            let (workspaces, paths): (Vec<PathBuf>, Vec<PathBuf>) =
                paths.into_iter().partition(|path| is_workspace(path));
            workspaces.last().into_iter().for_each(|path| app.open_workspace(path));
            let commands = [
                self.backbone.map(Command::OpenBackbone),
                (!paths.is_empty()).then_some(Command::OpenAny(paths)),
                data.map(|path| Command::OpenDataset(path, None)),
            ];
            commands.into_iter().flatten().for_each(|command| app.dispatch(command));
            self.pane.iter().for_each(|pane| app.window.show(pane));
            Ok(app)
        })?;
        // A job that could not be waited for writes nothing more.
        std::mem::forget(atomic_file::abandon());
        Ok(ExitCode::SUCCESS)
    }
}
