//! What a press of the mouse counts as: a click, however long it takes.
//!
//! egui takes a press of more than 0.8 s for the beginning of a drag. It counts in frames: on a slow display, as of a
//! machine that trains meanwhile, press and release are in two frames further apart than that, and the click was lost; so was
//! that of a slow hand. A finger that rests still opens the menu of a right click. The second click of two may be as late as
//! systems allow.

use eframe::egui;
use egui::{Context, InputOptions, InputState};

/// Most seconds between the clicks of a double click, as on most systems.
const DOUBLE_CLICK_S: f64 = 0.5;

/// Sets for the next frame how long clicks may take.
pub fn allow_slow_clicks(ctx: &Context) {
    let has_finger = ctx.input(InputState::any_touches);
    let longest = if has_finger { InputOptions::default().max_click_duration } else { f64::INFINITY };
    ctx.options_mut(|options| {
        options.input_options.max_click_duration = longest;
        options.input_options.max_double_click_delay = DOUBLE_CLICK_S;
    });
}

#[cfg(test)]
mod tests {
    use egui::{Event, Modifiers, PointerButton, TouchDeviceId, TouchId, TouchPhase, Ui, Vec2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    /// The clicks, right clicks and double clicks that `presses` are, of which each takes `frames` of `seconds` each, as does the
    /// pause after it.
    fn pressed(finger: bool, presses: usize, frames: usize, seconds: f32) -> [usize; 3] {
        let draw = |ui: &mut Ui, count: &mut [usize; 3]| {
            allow_slow_clicks(ui.ctx());
            let button = ui.button("Keep");
            let now = [button.clicked(), button.secondary_clicked(), button.double_clicked()];
            count.iter_mut().zip(now).for_each(|(count, now)| *count += usize::from(now));
        };
        let builder = Harness::builder().with_size(Vec2::new(200.0, 100.0)).with_step_dt(seconds);
        let mut harness = builder.build_ui_state(draw, [0; 3]);
        harness.step();
        let pos = harness.get_by_label("Keep").rect().center();
        let phases = [(TouchPhase::Start, true), (TouchPhase::End, false)];
        for (phase, pressed) in std::iter::repeat_n(phases, presses).flatten() {
            let (device_id, id) = (TouchDeviceId(1), TouchId(1));
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            let touch = Event::Touch { device_id, id, phase, pos, force: None };
            let press = Event::PointerButton { pos, button, pressed, modifiers };
            let touch = finger.then_some(touch);
            harness.input_mut().events.extend(touch.into_iter().chain([Event::PointerMoved(pos), press]));
            (0..frames).for_each(|_| harness.step());
        }
        *harness.state()
    }

    #[test]
    fn a_long_press_is_a_click_of_the_mouse_and_a_right_click_of_a_finger() {
        assert_eq!(pressed(false, 1, 3, 1.0), [1, 0, 0]);
        assert_eq!(pressed(true, 1, 3, 1.0)[1], 1);
    }

    #[test]
    fn the_second_click_of_two_may_be_late() {
        assert_eq!(pressed(false, 2, 1, 0.2)[2], 1);
        assert_eq!(pressed(false, 2, 1, 0.3)[2], 0);
    }
}
