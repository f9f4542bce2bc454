//! Which traces the steps keep alive, and how long they take with a large library.

use ssmprobe::app::processor_time;

use crate::state::{column, story};
use crate::window::prelude::*;

#[test]
fn the_latest_step_alone_keeps_traces_alive() {
    let mut state = story();
    let id = column(&state, 0);
    let trace = Arc::downgrade(state.columns[&id].shown.trace().expect("a trace"));
    state.dispatch(Command::RemoveColumn(id));
    assert!(trace.upgrade().is_some(), "to be shown at once when this is taken back");
    state.dispatch(Command::SetScale(2.0));
    assert!(trace.upgrade().is_none(), "of an older step");
    state.dispatch(Command::Undo);
    let requests = state.dispatch(Command::Undo);
    assert_eq!(column(&state, 0), id);
    assert_eq!(requests.len(), 1, "explained again: {requests:?}");
}

#[test]
fn closing_half_of_many_images_is_undone_within_seconds() {
    const MANY: usize = 200_000;
    let mut state = State::new(Settings::default());
    let job = state.dispatch(Command::OpenImages(vec!["many".into()]))[0].job().expect("a job");
    let paths = (0..MANY).map(|number| PathBuf::from(format!("many/{number}.png"))).collect();
    state.apply(Event::ImagesListed { job, paths });
    let ids: Vec<ImageId> = state.library.images.keys().copied().collect();
    let begun = processor_time::of_thread();
    state.dispatch(Command::CloseImages(ids.iter().copied().step_by(2).collect()));
    assert_eq!(state.library.images.len(), MANY / 2);
    for _ in 0..2 {
        state.dispatch(Command::Undo);
        assert!(state.library.images.keys().eq(&ids), "in their order");
        state.dispatch(Command::Redo);
        assert_eq!(state.library.images.len(), MANY / 2);
    }
    let took = processor_time::of_thread().saturating_sub(begun);
    assert!(took < Duration::from_secs(20), "{took:?}");
}
