//! The system's clipboard, on a thread of its own: the program that holds it may be slow to hand it
//! over, and the window does not wait.
//!
//! egui's own clipboard without its feature reaches no further than the window. As a plugin this one
//! stands between the two: what the window copies goes to the system, and a paste becomes what the
//! system has: files by their paths, text, or a picture.

use std::borrow::Cow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use arboard::{Clipboard as System, ImageData};
use eframe::egui;
use egui::{ColorImage, Context, Event, FullOutput, OutputCommand, Plugin, RawInput};

/// What stands in egui's own clipboard until something is copied: of an empty one it would not tell
/// that it was to be pasted.
const EMPTY: &str = "\u{200b}";

/// What the thread is asked for.
enum Ask {
    Text(String),
    Picture(ColorImage),
    /// What is there; the window's own text where the system has no clipboard.
    Paste(String),
}

/// The plugin.
pub struct Clipboard {
    asks: SyncSender<Ask>,
    /// A plugin has to be shareable; nobody else locks it.
    answers: Mutex<Receiver<Event>>,
    prepared: bool,
}

impl Clipboard {
    /// One for the window of `ctx`; without a thread for it, copies stay in the window.
    pub fn install(ctx: &Context) {
        let (asks, asked) = sync_channel(16);
        let (answer, answers) = sync_channel(16);
        let waker = ctx.clone();
        let serve = move || serve(&asked, &answer, &waker);
        if Builder::new().name("clipboard".into()).spawn(serve).is_ok() {
            ctx.add_plugin(Self { asks, answers: Mutex::new(answers), prepared: false });
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
            // A queue that is full has a paste in it already.
            self.asks.try_send(Ask::Paste(std::mem::take(text))).ok();
            false
        });
        let answers = self.answers.get_mut().unwrap_or_else(PoisonError::into_inner);
        input.events.extend(answers.try_iter());
    }

    fn output_hook(&mut self, _: &Context, output: &mut FullOutput) {
        let commands = &mut output.platform_output.commands;
        commands.retain_mut(|command| match command {
            OutputCommand::CopyText(text) => {
                self.asks.try_send(Ask::Text(text.clone())).ok();
                true
            }
            OutputCommand::CopyImage(picture) => {
                let picture = std::mem::replace(picture, ColorImage::filled([1, 1], egui::Color32::BLACK));
                self.asks.try_send(Ask::Picture(picture)).ok();
                false
            }
            _ => true,
        });
        if !std::mem::replace(&mut self.prepared, true) {
            commands.push(OutputCommand::CopyText(EMPTY.to_owned()));
        }
    }
}

/// Answers for as long as there is a window.
fn serve(asked: &Receiver<Ask>, answer: &SyncSender<Event>, ctx: &Context) {
    let mut system: Option<System> = None;
    for ask in asked {
        // A system that has none now may have one later.
        system = system.or_else(|| System::new().ok());
        let event = match (ask, &mut system) {
            (Ask::Text(text), Some(system)) => system.set_text(text).ok().and(None),
            (Ask::Picture(picture), Some(system)) => system.set_image(data(&picture)).ok().and(None),
            (Ask::Paste(own), None) => Some(Event::Paste(own)),
            (Ask::Paste(_), Some(system)) => pasted(system),
            (_, None) => None,
        };
        if let Some(event) = event.filter(|event| !matches!(event, Event::Paste(text) if text == EMPTY)) {
            if answer.send(event).is_err() {
                return;
            }
            ctx.request_repaint();
        }
    }
}

/// What the system has to paste.
fn pasted(system: &mut System) -> Option<Event> {
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

fn data(picture: &ColorImage) -> ImageData<'static> {
    let bytes: Vec<u8> = picture.pixels.iter().flat_map(egui::Color32::to_srgba_unmultiplied).collect();
    let [width, height] = picture.size;
    ImageData { width, height, bytes: Cow::Owned(bytes) }
}
