//! `ssmprobe open`: opens the window, with files and folders of any kind.

use std::sync::Arc;

use anyhow::Error;
use clap::ArgGroup;

use super::on_flags::OnFlags;
use crate::app::App;
use crate::app::cli::prelude::*;
use crate::app::image_files::is_workspace;
use crate::app::jobs::check_there;
use crate::app::remote::{self, WorkerAddress};
use crate::app::state::command::Command;
use crate::app::state::connection::Host;
use crate::app::state::settings::{self, Settings};
use crate::app::window::native;
use crate::app::window::panels::{self, PanelPlace};
use crate::model::backbone::hub::{self, is_file_of_hub};
use crate::model::device;
use crate::model::io::temporary;

/// Open the window with backbones, probes, runs, images, datasets or a workspace.
///
/// Without paths, opens it where you left off.
#[derive(Args, Default)]
#[command(group = ArgGroup::new("place").multiple(true))]
pub struct Open {
    /// Workspace file, backbone folders, probe files (also hf:ORGANISATION/NAME/FILE from the Hub), run folders,
    /// images, folders of images, datasets; or all of them on another machine, over ssh: `ssh://[USER@]HOST[:PORT]/PATH`
    /// (`/~/PATH` in the home folder there)
    // A path may name a machine, as --on does, and so be what --remote-program needs.
    #[arg(value_name = "PATH", group = "place")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    on: OnFlags,
    /// Backbone: a folder, or an id on the Hugging Face Hub
    #[arg(long, value_name = "DIR|HUB_ID")]
    backbone: Option<String>,
    /// Labelled dataset: a folder, or a table of paths and labels
    #[arg(long, value_name = "DIR|TABLE")]
    data: Option<PathBuf>,
    /// Where to compute: cpu, wgpu, cuda or auto; remembered
    #[arg(long, value_name = "NAME", value_parser = device_name)]
    device: Option<String>,
    /// Start with the bundled demo instead of what was open last
    #[arg(long, conflicts_with_all = ["paths", "backbone", "on"])]
    demo: bool,
    /// Pane to show first: the id of a figure or an overview (`ssmprobe figures --list`), or of another pane, such as
    /// compare, tokens, training or gallery
    #[arg(long, value_name = "ID", value_parser = pane)]
    pane: Option<String>,
    /// Folder that the caller, such as the Python package, removes once the window is closed.
    #[arg(long, value_name = "DIR", hide = true)]
    temporary: Option<PathBuf>,
}

impl Open {
    /// Opens the window; returns once it is closed.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (host, paths) = self.host_and_paths()?;
        if host.is_none() {
            self.check(&paths)?;
        }
        let file = settings::path();
        let remembered = file.as_deref().and_then(|path| Settings::load(path).ok()).unwrap_or_default();
        native::open(remembered.window, move |ctx| {
            let wake = ctx.clone();
            let worker = remote::start(None, Arc::new(move || wake.request_repaint())).map_err(Error::msg)?;
            let mut app = App::new(ctx, worker, file.as_deref());
            app.state.temporary = self.temporary;
            let data = match host {
                None => self.data.map(std::path::absolute).transpose()?,
                Some(_) => self.data,
            };
            let nothing_named = self.backbone.is_none() && paths.is_empty() && host.is_none();
            let local = host.is_none();
            // First, because the backbone opened below is loaded onto this device.
            self.device.into_iter().for_each(|device| app.dispatch(Command::SetDevice(device)));
            match (nothing_named, self.demo) {
                (true, false) => app.resume(),
                (true, true) => {
                    app.remember_last_session();
                    app.start_demo();
                }
                (false, _) => app.remember_last_session(),
            }
            host.into_iter().for_each(|host| app.connect(Some(host)));
            let (workspaces, paths): (Vec<PathBuf>, Vec<PathBuf>) =
                paths.into_iter().partition(|path| local && is_workspace(path));
            workspaces.last().into_iter().for_each(|path| app.open_workspace(path));
            let commands = [
                self.backbone.map(Command::OpenBackbone),
                (!paths.is_empty()).then_some(Command::OpenAny(paths)),
                data.map(|path| Command::OpenDataset(path, None)),
            ];
            commands.into_iter().flatten().for_each(|command| app.dispatch_afterwards(command));
            self.pane.iter().for_each(|pane| app.window.start_with(pane));
            Ok(app)
        })?;
        // A job that is still running begins no more files.
        std::mem::forget(temporary::abandon());
        Ok(ExitCode::SUCCESS)
    }

    /// Refuses what does not exist on this machine, of the flags and the `paths` to open.
    fn check(&self, paths: &[PathBuf]) -> anyhow::Result<()> {
        let paths = paths.iter().filter(|path| !is_file_of_hub(path)).map(|path| ("", path));
        let mut named = paths.chain(self.data.iter().map(|path| ("--data ", path)));
        named.try_for_each(|(flag, path)| check_there(flag, path))?;
        Ok(self.backbone.as_deref().map_or(Ok(()), hub::check)?)
    }

    /// The worker that computes, if not this process, and the paths to open: of its machine, or absolute ones of this one.
    fn host_and_paths(&self) -> anyhow::Result<(Option<Host>, Vec<PathBuf>)> {
        let (mut host, program) = (self.on.host(), self.on.program());
        let is_remote = |path: &PathBuf| path.to_str().is_some_and(|path| path.starts_with("ssh://"));
        if !self.paths.iter().any(is_remote) {
            if let (None, Some(program)) = (&host, program) {
                let why =
                    "is of another machine, and none is named; add --on, or give paths as ssh://HOST/PATH";
                refuse!("--remote-program {program}: {why}");
            }
            let absolute = |path: &PathBuf| match host {
                None if is_file_of_hub(path) => Ok(path.clone()),
                None => std::path::absolute(path).with_context(|| format!("{}", path.display())),
                Some(_) => Ok(path.clone()),
            };
            let paths = self.paths.iter().map(absolute).collect::<anyhow::Result<_>>()?;
            return Ok((host, paths));
        }
        let mut paths = Vec::new();
        for text in &self.paths {
            let text = text.to_string_lossy();
            let (place, path) =
                WorkerAddress::with_path(&text).map_err(|why| Usage(format!("{text}: {why}")))?;
            let own = Host { place: place.word(), program: program.clone() };
            if let Some(other) = host.replace(own).filter(|other| other.place != place.word()) {
                let why =
                    format!("{text}: is not on {}; a window connects to one machine at a time", other.place);
                return Err(Usage(why).into());
            }
            paths.extend(path.map(PathBuf::from));
        }
        Ok((host, paths))
    }
}

/// Parses the name of a device: a slip would be remembered.
fn device_name(name: &str) -> Result<String, String> {
    match device::is_name(name) {
        true => Ok(name.to_owned()),
        false => Err("expected auto, cpu, wgpu, wgpu:<index or name>, cuda or cuda:<index>".to_owned()),
    }
}

fn pane(id: &str) -> Result<String, String> {
    let panels = panels::all();
    // The library is always shown.
    let panes = panels.iter().filter(|panel| panel.place() != PanelPlace::Left).map(|panel| panel.id());
    let ids: Vec<&str> = panes.collect();
    match ids.contains(&id) {
        true => Ok(id.to_owned()),
        false => Err(format!("no such pane; expected one of {}", ids.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        open: Open,
    }

    fn parse(line: &str) -> anyhow::Result<(Option<Host>, Vec<PathBuf>)> {
        Flags::try_parse_from(line.split(' '))?.open.host_and_paths()
    }

    #[test]
    fn what_is_elsewhere_is_told_from_what_is_here() {
        let (host, paths) = parse("open ssh://me@gpu1/data/a ssh://me@gpu1/~/b").unwrap();
        assert_eq!(host, Some(Host { place: "ssh://me@gpu1".into(), program: None }));
        assert_eq!(paths, [PathBuf::from("/data/a"), "~/b".into()]);
        let (host, paths) = parse("open --on local --remote-program x a").unwrap();
        assert_eq!(host, Some(Host { place: "local".into(), program: Some("x".into()) }));
        assert_eq!(paths, [PathBuf::from("a")]);
        let (host, paths) = parse("open --on ssh://gpu1 --remote-program x ssh://gpu1").unwrap();
        assert_eq!((host.and_then(|host| host.program), paths.len()), (Some("x".into()), 0));
        let (host, _) = parse("open ssh://gpu1/a --remote-program x").unwrap();
        assert_eq!(host.and_then(|host| host.program), Some("x".into()));
        assert_eq!(parse("open hf:a/b/c").unwrap(), (None, vec!["hf:a/b/c".into()]));
        assert_eq!(parse("open a").unwrap(), (None, vec![std::path::absolute("a").unwrap()]));
        for line in [
            "open ssh://gpu1/a ssh://gpu2/b",
            "open ssh://gpu1/a b",
            "open --on local ssh://gpu1/a",
            "open ssh://-x/a",
            "open a --remote-program x",
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.is::<Usage>(), "{line}: {error}");
        }
    }
}
