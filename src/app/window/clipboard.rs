//! The system's clipboard, on a thread of its own: the program that owns its content may be slow to
//! deliver it, and the window must not wait.
//!
//! egui's own clipboard, without its feature, ends at the window. This plugin connects it with the
//! system's: what the window copies goes to the system, and a paste becomes what the system holds:
//! files by their paths, text, or a picture.

use std::borrow::Cow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use arboard::{Clipboard as System, ImageData};
use eframe::egui;
use egui::{ColorImage, Context, Event, FullOutput, OutputCommand, Plugin, RawInput};

/// Text in egui's own clipboard until something is copied: if it were empty, egui would report no paste.
const PLACEHOLDER: &str = "\u{200b}";

/// A request to the clipboard's thread.
enum Request {
    Text(String),
    Picture(ColorImage),
    /// Pastes what the system holds; this text of the window where the system has no clipboard.
    Paste(String),
}

/// The egui plugin that talks to the clipboard's thread.
pub struct Clipboard {
    requests: SyncSender<Request>,
    /// Pastes that were answered; the mutex only makes the plugin `Sync`, nothing else locks it.
    answers: Mutex<Receiver<Event>>,
    prepared: bool,
}

impl Clipboard {
    /// Adds the plugin to `ctx`; if its thread cannot start, copies stay in the window.
    pub fn install(ctx: &Context) {
        let (requests, received) = sync_channel(16);
        let (answer, answers) = sync_channel(16);
        let waker = ctx.clone();
        let serve = move || serve(&received, &answer, &waker);
        if Builder::new().name("clipboard".into()).spawn(serve).is_ok() {
            ctx.add_plugin(Self { requests, answers: Mutex::new(answers), prepared: false });
        }
    }
}

impl Plugin for Clipboard {
    fn debug_name(&self) -> &'static str {
        "clipboard"
    }

    fn input_hook(&mut self, _: &Context, input: &mut RawInput) {
        input.events.retain_mut(|event| {
            let Event::Paste(text) = event else { return true };
            // If the queue is full, this paste is dropped.
            self.requests.try_send(Request::Paste(std::mem::take(text))).ok();
            false
        });
        let answers = self.answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        input.events.extend(answers.try_iter());
    }

    fn output_hook(&mut self, _: &Context, output: &mut FullOutput) {
        let commands = &mut output.platform_output.commands;
        commands.retain_mut(|command| match command {
            OutputCommand::CopyText(text) => {
                self.requests.try_send(Request::Text(text.clone())).ok();
                true
            }
            OutputCommand::CopyImage(picture) => {
                let picture = std::mem::replace(picture, ColorImage::filled([1, 1], egui::Color32::BLACK));
                self.requests.try_send(Request::Picture(picture)).ok();
                false
            }
            _ => true,
        });
        if !std::mem::replace(&mut self.prepared, true) {
            commands.push(OutputCommand::CopyText(PLACEHOLDER.to_owned()));
        }
    }
}

/// Serves requests until the window is gone.
fn serve(requests: &Receiver<Request>, answer: &SyncSender<Event>, ctx: &Context) {
    let mut system: Option<System> = None;
    for request in requests {
        // A system without a clipboard now may have one later.
        system = system.or_else(|| System::new().ok());
        let event = match (request, &mut system) {
            (Request::Text(text), Some(system)) => system.set_text(text).ok().and(None),
            (Request::Picture(picture), Some(system)) => {
                system.set_image(image_data(&picture)).ok().and(None)
            }
            (Request::Paste(own), None) => Some(Event::Paste(own)),
            (Request::Paste(_), Some(system)) => paste(system),
            (_, None) => None,
        };
        if let Some(event) = event.filter(|event| !matches!(event, Event::Paste(text) if text == PLACEHOLDER))
        {
            if answer.send(event).is_err() {
                return;
            }
            ctx.request_repaint();
        }
    }
}

/// The paste event for what the system holds: file paths, one per line; text; or a picture.
fn paste(system: &mut System) -> Option<Event> {
    if let Ok(files) = system.get().file_list()
        && !files.is_empty()
    {
        let lines: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
        return Some(Event::Paste(lines.join("\n")));
    }
    if let Some(text) = system.get_text().ok().filter(|text| !text.is_empty()) {
        return Some(Event::Paste(text.replace("\r\n", "\n")));
    }
    let ImageData { width, height, bytes } = system.get_image().ok()?;
    let whole = width.checked_mul(height).and_then(|n| n.checked_mul(4)) == Some(bytes.len());
    whole.then(|| Event::PasteImage(Arc::new(ColorImage::from_rgba_unmultiplied([width, height], &bytes))))
}

fn image_data(picture: &ColorImage) -> ImageData<'static> {
    let bytes: Vec<u8> = picture.pixels.iter().flat_map(egui::Color32::to_srgba_unmultiplied).collect();
    let [width, height] = picture.size;
    ImageData { width, height, bytes: Cow::Owned(bytes) }
}
