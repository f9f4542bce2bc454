//! What a press of the mouse counts as: a click, however long it takes.
//!
//! egui takes a press of more than 0.8 s for the beginning of a drag. It counts in frames: on a slow display, as of a
//! machine that trains meanwhile, press and release are in two frames further apart than that, and the click was lost; so was
//! that of a slow hand. A finger that rests still opens the menu of a right click.

use eframe::egui;
use egui::{Context, InputOptions};

/// Sets after how long a press is no click, for the next frame.
pub fn set_longest_click(ctx: &Context) {
    let has_finger = ctx.input(egui::InputState::any_touches);
    let longest = if has_finger { InputOptions::default().max_click_duration } else { f64::INFINITY };
    ctx.options_mut(|options| options.input_options.max_click_duration = longest);
}

#[cfg(test)]
mod tests {
    use egui::{Event, Modifiers, PointerButton, TouchDeviceId, TouchId, TouchPhase, Ui, Vec2};
    use egui_kittest::Harness;
    use egui_kittest::kittest::Queryable as _;

    use super::*;

    /// The clicks and the right clicks that a press of some seconds is.
    fn pressed(finger: bool) -> [usize; 2] {
        let draw = |ui: &mut Ui, count: &mut [usize; 2]| {
            set_longest_click(ui.ctx());
            let button = ui.button("Keep");
            count[0] += usize::from(button.clicked());
            count[1] += usize::from(button.secondary_clicked());
        };
        let builder = Harness::builder().with_size(Vec2::new(200.0, 100.0)).with_step_dt(1.0);
        let mut harness = builder.build_ui_state(draw, [0; 2]);
        harness.step();
        let pos = harness.get_by_label("Keep").rect().center();
        for (phase, pressed) in [(TouchPhase::Start, true), (TouchPhase::End, false)] {
            let (device_id, id) = (TouchDeviceId(1), TouchId(1));
            let (button, modifiers) = (PointerButton::Primary, Modifiers::NONE);
            let touch = Event::Touch { device_id, id, phase, pos, force: None };
            let press = Event::PointerButton { pos, button, pressed, modifiers };
            let touch = finger.then_some(touch);
            harness.input_mut().events.extend(touch.into_iter().chain([Event::PointerMoved(pos), press]));
            for _ in 0..3 {
                harness.step();
            }
        }
        *harness.state()
    }

    #[test]
    fn a_long_press_is_a_click_of_the_mouse_and_a_right_click_of_a_finger() {
        assert_eq!(pressed(false), [1, 0]);
        assert_eq!(pressed(true)[1], 1);
    }
}
