//! Executes what a person chooses: the window's own actions here; the rest is passed on as orders.

use eframe::egui;

use super::background::Outcome;
use super::dialogs::connect::ConnectDialog;
use super::dialogs::export::Export;
use super::dialogs::file_request::FileRequest;
use super::dialogs::finding::FindingDialog;
use super::dialogs::help::{Help, Page};
use super::dialogs::leaving::Leaving;
use super::dialogs::palette::Palette;
use super::dialogs::share::ShareDialog;
use super::dialogs::tour::Tour;
use super::panels::{TRAINING, UiAction};
use super::{MainWindow, WindowOrder};
use crate::app::demo;
use crate::app::state::command::{Command, Effect, FilePrompt, Prompt};
use crate::app::state::{Probe, Severity, State};

impl MainWindow {
    /// Starts the tour; it needs the demo, which replaces what is open unless it is open already.
    fn begin_tour(&mut self, state: &State) {
        let demo = demo::demo().ok();
        let is_demo = |probe: &Probe| demo.as_ref().is_some_and(|folder| probe.path.starts_with(folder));
        if demo.is_some() && !state.library.probes.values().any(is_demo) {
            self.leave(Leaving::Demo, state);
        }
        let tour = Tour::default();
        self.show(tour.pane());
        self.dialogs.tour = Some(tour);
    }

    /// Opens the file dialog for `what`; a failure becomes a note.
    pub(super) fn pick(&mut self, ctx: &egui::Context, what: FileRequest) {
        if let Err(why) = self.dialogs.picker.open(ctx, what) {
            self.note(Severity::Error, why);
        }
    }

    /// Executes an action that is the window's; turns one of the state or the program into an order.
    pub(super) fn act(&mut self, ctx: &egui::Context, action: UiAction, state: &State) {
        match action {
            UiAction::Command(command) => self.send(command),
            UiAction::Action(action) => match action.effect(state) {
                Some(Effect::Command(Command::Step(by))) => self.send(self.step(by, state)),
                Some(Effect::Command(command)) => self.send(command),
                Some(Effect::Prompt(prompt)) => self.prompt(ctx, prompt, state),
                None => {}
            },
            UiAction::Show(panel) => self.show(panel),
            UiAction::Jobs => self.jobs = !self.jobs,
            UiAction::Findings => self.findings = !self.findings,
            UiAction::ShowFinding(id) => {
                // Findings keep no room: in the layout of this one there is nothing to restore.
                let kept = state.findings.get(id).and_then(|finding| finding.view.as_deref());
                let now = self.layout.value();
                let is_same = kept.is_some_and(|view| view.layout == now);
                let layout = if is_same { now } else { self.layout.stored() };
                self.send(Command::ShowFinding { id, layout });
            }
            UiAction::EditFinding(id, finding) => {
                self.dialogs.finding = Some(FindingDialog::new(Some(id), *finding));
            }
            UiAction::Export(plot) => {
                self.dialogs.export = Some(Export::new(plot, self.dialogs.exported.as_deref()));
            }
            UiAction::CopyImage(plot) => {
                let export = Export::new(plot, None);
                self.spawn(ctx, "copy the image", move || export.image());
            }
            UiAction::OpenFile(path) => {
                let opener = self.opener.clone();
                let work = move || Outcome::Opened(opener.open(&path));
                self.spawn(ctx, "open the file", work);
            }
            UiAction::Leave(to) => self.leave(to, state),
            UiAction::ConnectNow => self.orders.push(WindowOrder::ConnectNow),
            UiAction::Prompt(prompt) => self.prompt(ctx, prompt, state),
        }
    }

    /// The command that moves the current image by this many positions in the gallery as it is shown. A step from an image that the
    /// gallery does not show is left to the state, which filters and sorts all of them again.
    fn step(&self, by: isize, state: &State) -> Command {
        let to = self.shown.as_ref().and_then(|shown| {
            let at = shown.ids.get_index_of(&state.selection.image?)?;
            shown.ids.get_index(at.saturating_add_signed(by).min(shown.ids.len() - 1))
        });
        to.map_or(Command::Step(by), |image| Command::SelectImage(*image))
    }

    pub(super) fn prompt(&mut self, ctx: &egui::Context, prompt: Prompt, state: &State) {
        match prompt {
            Prompt::Palette => self.dialogs.palette = Some(Palette::opened(ctx)),
            Prompt::KeepFinding => {
                let now = state.finding_now(self.layout.value(), self.pinned.token);
                self.dialogs.finding = now.map(|finding| FindingDialog::new(None, finding));
            }
            Prompt::Share => {
                let now = state.finding_now(self.layout.value(), self.pinned.token);
                self.dialogs.share = Some(ShareDialog::new(now, state));
            }
            Prompt::PinStep => {
                state.token_of_step().into_iter().for_each(|token| self.pinned.click(token));
                ctx.request_repaint();
            }
            Prompt::HubId => self.dialogs.hub = Some(String::new()),
            Prompt::Connect => self.dialogs.connect = Some(ConnectDialog::new(state)),
            Prompt::Arrange => self.layout.reset(),
            Prompt::FullScreen => {
                let is_full = ctx.input(|input| input.viewport().fullscreen == Some(true));
                ctx.send_viewport_cmd(egui::ViewportCommand::Fullscreen(!is_full));
            }
            Prompt::CopyLog => ctx.copy_text(state.log_text()),
            Prompt::Paste => ctx.send_viewport_cmd(egui::ViewportCommand::RequestPaste),
            Prompt::Quit => ctx.send_viewport_cmd(egui::ViewportCommand::Close),
            Prompt::Demo => self.leave(Leaving::Demo, state),
            Prompt::Export => self.dialogs.palette = Some(Palette::with_text("export ")),
            Prompt::Training => self.show(TRAINING),
            Prompt::About => self.dialogs.help = Some(Help::new(Page::About)),
            Prompt::Definitions => self.dialogs.help = Some(Help::new(Page::Definitions)),
            Prompt::Shortcuts => self.dialogs.help = Some(Help::new(Page::Shortcuts)),
            Prompt::Tour => self.begin_tour(state),
            Prompt::Files(FilePrompt::SaveWorkspace) if self.named.path.is_some() => {
                self.save(ctx, None, None, state);
            }
            Prompt::Files(prompt) => self.pick_or_browse(ctx, FileRequest::Prompt(prompt), state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::jobs::ImageId;
    use crate::app::state::workspace::{SavedImage, Workspace};
    use crate::app::window::panels::ShownImages;

    #[test]
    fn a_step_goes_by_the_images_that_the_gallery_shows() {
        let (mut window, mut state) = (MainWindow::default(), State::default());
        let source = |id: u64| std::path::PathBuf::from(format!("{id}.png")).into();
        let images = [1, 2, 3].map(|id| SavedImage { id: ImageId(id), source: source(id) });
        state.restore(Workspace { images: images.into(), ..Workspace::default() });
        state.selection.image = Some(ImageId(2));
        window.shown = Some(ShownImages::from_state(&state, None));
        for (by, to) in [(1, 3), (-1, 1), (isize::MAX, 3), (isize::MIN, 1)] {
            assert_eq!(window.step(by, &state), Command::SelectImage(ImageId(to)));
        }
        state.gallery_filter.text = "1".to_owned();
        window.shown = Some(ShownImages::from_state(&state, None));
        assert_eq!(window.step(1, &state), Command::Step(1), "it is filtered out");
    }
}
