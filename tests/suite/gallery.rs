//! The gallery and the library: the contact sheet, sections that fold and resize, keyboard focus, texts for a screen reader.

use egui_kittest::kittest::{By, NodeT as _};
use ssmprobe::app::jobs::evaluate::EvalAnswer;
use ssmprobe::app::state::{GalleryFilter, Outcome, Sort};
use ssmprobe::model::explain::evaluation::CONFIDENCE;

use crate::evaluation::{evaluated_as, evaluation, part, with_dataset, with_part};
use crate::pictures::painted;
use crate::state;
use crate::window;
use crate::window::prelude::*;

/// The contact sheet's request among these: its job, and the column and image of every item.
fn sheet(requests: &[Request]) -> Option<(JobId, Vec<(u64, String)>)> {
    requests.iter().find_map(|request| match request {
        Request::Compute(job, Compute::ExplainMany(ask)) => {
            Some((*job, ask.items.iter().map(|item| (item.column.0, item.image.to_string())).collect()))
        }
        _ => None,
    })
}

#[test]
fn a_contact_sheet_asks_a_few_images_at_a_time_and_each_once() {
    let mut state = state::story();
    let paths: Vec<PathBuf> = (0..40).map(|number| format!("sheet/{number:02}.png").into()).collect();
    state::does(&mut state, Command::OpenImages(paths));
    let column = state::column(&state, 0);
    let images: Vec<_> =
        state.library.images.iter().filter(|(_, i)| i.name().len() == 6).map(|(id, _)| *id).collect();
    let wanted: Vec<_> = images[..20].iter().map(|image| (column, *image)).collect();
    let (job, first) = sheet(&state.dispatch(Command::ShowSheet(wanted.clone()))).expect("asked");
    assert_eq!(first.len(), 16, "one forward pass");
    assert!(sheet(&state.dispatch(Command::ShowSheet(wanted.clone()))).is_none(), "one job at a time");
    // Explaining another image does not cancel it.
    let look = state.dispatch(Command::SelectImage(images[30]));
    assert!(look.iter().any(|request| matches!(request, Request::Compute(_, Compute::Explain(_)))));
    assert!(!look.contains(&Request::Cancel(job)));
    let answer = |state: &mut State, job: JobId, asked: &[(u64, String)]| {
        let results = asked.iter().map(|(_, image)| ssmprobe::app::jobs::ExplainResult {
            column,
            result: match image.contains("03") {
                true => Err(UserError::new("no image")),
                false => Ok(Arc::new(state::trace(image))),
            },
            by_hand: None,
        });
        state.apply(Event::Explained { job, results: results.collect() });
        state.apply(Event::Finished(job))
    };
    let (rest, left) = sheet(&answer(&mut state, job, &first)).expect("the rest follows");
    assert_eq!(left.len(), 4);
    assert!(state.image_map(column, images[0]).is_some_and(|map| map.is_ok()));
    assert!(state.image_map(column, images[3]).is_some_and(|map| map.is_err()));
    assert!(sheet(&answer(&mut state, rest, &left)).is_none());
    assert!(sheet(&state.dispatch(Command::ShowSheet(wanted.clone()))).is_none(), "all is known");
    // For another class all images are requested again; the results for the last class are dropped.
    let class = ssmprobe::app::jobs::ClassChoice::Named("1".into());
    state.dispatch(Command::SetClass(class));
    assert!(state.image_map(column, images[0]).is_none());
    let (job, _) = sheet(&state.dispatch(Command::ShowSheet(wanted.clone()))).expect("asked anew");
    // The images of a cancelled request are not requested again.
    state.dispatch(Command::Cancel(job));
    let rest = state.apply(Event::Cancelled(job));
    assert_eq!(sheet(&rest).map(|(_, asked)| asked.len()), Some(4), "only what was not asked yet");
    assert!(Action::Retry.enabled(&state));
    let (job, four) = sheet(&rest).expect("the rest");
    assert!(sheet(&answer(&mut state, job, &four)).is_none());
    state.dispatch(Command::Retry);
    let again = sheet(&state.dispatch(Command::ShowSheet(wanted.clone()))).map(|(_, asked)| asked.len());
    assert_eq!(again, Some(16), "until that is asked for");
    // A workspace that replaces this one does not wait for its answers.
    let requests = state.restore(state.workspace(serde_json::Value::Null));
    state::play(&mut state, requests);
    let asked = sheet(&state.dispatch(Command::ShowSheet(wanted)));
    assert_eq!(asked.map(|(_, asked)| asked.len()), Some(16));
}

#[test]
fn more_maps_in_sight_than_are_kept_are_each_asked_for_once() {
    let mut state = state::story();
    let paths = (0..600).map(|number| format!("sheet/{number}.png").into()).collect();
    state::does(&mut state, Command::OpenImages(paths));
    let column = state::column(&state, 0);
    let wanted: Vec<_> = state.library.images.keys().map(|image| (column, *image)).collect();
    assert!(state.lacks_maps(&wanted));
    let mut request = sheet(&state.dispatch(Command::ShowSheet(wanted.clone())));
    let mut asked = 0;
    while let Some((job, images)) = request.filter(|_| asked < 2 * wanted.len()) {
        asked += images.len();
        let results = images.iter().map(|(_, image)| ssmprobe::app::jobs::ExplainResult {
            column,
            result: Ok(Arc::new(state::trace(image))),
            by_hand: None,
        });
        state.apply(Event::Explained { job, results: results.collect() });
        request = sheet(&state.apply(Event::Finished(job)));
    }
    assert_eq!(asked, wanted.len());
    assert!(!state.lacks_maps(&wanted), "all is known");
    state.dispatch(Command::SetClass(ssmprobe::app::jobs::ClassChoice::Named("1".into())));
    assert!(state.lacks_maps(&wanted), "nothing is known of another class");
}

#[test]
fn evidence_for_the_true_class_is_that_of_each_image() {
    let mut state = with_dataset().0;
    let images = state.library.datasets[0].images.clone();
    let named = |state: &State, image: &ImageId| {
        let image = &state.library.images[image];
        ClassChoice::Named(state.library.true_class(image).expect("a label").to_owned())
    };
    let loose = *state.library.images.get_index(0).expect("an image").0;
    state.dispatch(Command::FollowTrueClass);
    let shown = [(images[6], Some(6)), (loose, None), (images[0], Some(0)), (images[1], Some(1))];
    for (image, at) in shown {
        let look = state::does(&mut state, Command::SelectImage(image)).expect("asked");
        let class = at.map_or(ClassChoice::Predicted, |at: usize| named(&state, &images[at]));
        assert_eq!(look.1.class, class);
        state::answer(&mut state, &look);
    }
    let column = state::column(&state, 0);
    let maps = |requests: Vec<Request>| {
        requests.into_iter().find_map(pick!(Request::Compute(job, Compute::ExplainMany(ask)) => (job, ask)))
    };
    let mut request =
        maps(state.dispatch(Command::ShowSheet(images.iter().map(|image| (column, *image)).collect())));
    let mut asked = Vec::new();
    while let Some(look) = request {
        asked.push((look.1.class.clone(), look.1.items.len()));
        request = maps(state::answer(&mut state, &look));
    }
    let of: Vec<ClassChoice> = images.iter().map(|image| named(&state, image)).collect();
    assert_eq!(
        asked,
        [(of[0].clone(), 1), (of[1].clone(), 3), (of[4].clone(), 3)],
        "one request for a class"
    );
    assert!(images.iter().all(|image| state.image_map(column, *image).is_some()));
    let look = state::does(&mut state, Command::SetClass(of[0].clone())).expect("asked");
    assert_eq!(look.1.class, of[0]);
    let known = images.iter().map(|image| state.image_map(column, *image).is_some());
    assert!(known.eq(of.iter().map(|class| *class == of[0])), "maps for this class stay, and no others");
    state::answer(&mut state, &look);
    let look = state::does(&mut state, Command::SelectImage(images[4])).expect("asked");
    assert_eq!(look.1.class, of[0], "a chosen class stays");
    // The offer of the true class for all columns holds for the next image, too, unless they show several.
    assert_eq!(state.true_class_in_all("crane".to_owned()), Command::FollowTrueClass);
    let change = Intervention::NoRouting;
    let probe = state.columns[&column].probe;
    state.dispatch(Command::AddColumn { probe, image: Some(images[0]), change });
    let fixed = Command::SetClass(ClassChoice::Named("crane".to_owned()));
    assert_eq!(state.true_class_in_all("crane".to_owned()), fixed);
}

/// A window with a dataset, evaluated with both probes, and the contact sheet in front; the second probe predicts the
/// first class for images 5 and 6.
fn shown() -> Window {
    let (mut window, part) = with_part();
    window.harness.state_mut().dispatch(Command::Evaluate { all: false });
    evaluated_as(&mut window, |at| {
        let mut made = Evaluation::clone(&evaluation(&part, ["sinkhorn", "gap"][at % 2]));
        if at % 2 == 1 {
            made.predicted[5..7].fill(0);
        }
        Arc::new(made)
    });
    window.harness.state_mut().window.show("gallery");
    window.answer();
    window
}

#[test]
fn below_an_image_stands_its_class_until_one_is_predicted() {
    let count = |window: &mut Window, word: &str| {
        window.harness.state_mut().window.show("gallery");
        window.answer();
        painted(window.harness.output()).iter().filter(|(text, ..)| text == word).count()
    };
    let named = part().dataset.classes[0].clone();
    // The head of the window names the class of its image, too.
    let [before, after] = [with_part().0, shown()].map(|mut window| count(&mut window, &named));
    assert!(before >= after + 2 && after <= 1, "{named}: {before}, then {after}, with its probability");
}

#[test]
fn the_contact_sheet_lays_a_probe_over_every_image_and_sets_two_side_by_side() {
    let mut window = shown();
    assert!(window.has("Size"));
    assert!(sheet(&window.wire.borrow().requests).is_none(), "photographs ask nobody");
    window.choose("Overlay", "Token weights");
    let (_, asked) = sheet(&window.wire.borrow().requests).expect("the images in sight");
    assert!(asked.len() >= 9, "{asked:?}");
    window.answer();
    let written = painted(window.harness.output());
    assert!(written.iter().any(|(text, ..)| text == "Token weights"), "the choice is cut");
    window.choose("Beside", "gap");
    let (_, asked) = sheet(&window.wire.borrow().requests).expect("the other probe");
    let columns: Vec<u64> = window.state().columns.keys().map(|id| id.0).collect();
    assert!(asked.iter().all(|(column, _)| *column == columns[1]), "the first is known: {asked:?}");
    window.answer();
    let known = |window: &Window, at: usize| {
        let state = window.state();
        let image = state.image_at(state.dataset().unwrap().0, 5).unwrap();
        let column = *state.columns.keys().nth(at).unwrap();
        state.image_map(column, image).is_some_and(|map| map.is_ok())
    };
    assert!(known(&window, 0) && known(&window, 1));
    // The filter leaves the images on which the two probes disagree.
    window.click("Disagreements");
    window.answer();
    let state = window.state();
    assert_eq!(state.gallery_filter.sort, Sort::Disagreement(*state.columns.keys().nth(1).unwrap()));
    let passed = state.gallery_images(state.columns.keys().next().copied());
    let names: Vec<String> = passed.iter().map(|id| state.library.images[id].name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"5.png".to_owned()) && names.contains(&"6.png".to_owned()));
    window.click("Disagreements");
    assert!(window.state().gallery_filter.differs.is_none());
    assert!(window.idle(), "all is shown, but the window repaints");
}

#[test]
fn the_gallery_says_why_a_probe_could_not_be_evaluated() {
    let (mut window, _) = with_part();
    let width = |list: &str| window.harness.get_by_role_and_label(egui::Role::ComboBox, list).rect().width();
    let [class, scope] = ["Class of the images", "Images of"].map(width);
    assert!((class - scope).abs() < 1.0, "alone in its line: {class} of {scope}");
    window.dispatch(Command::Evaluate { all: false });
    let why = "the probe has none of the 3 classes of birds";
    window.answer_with(|request| match request {
        Request::Compute(job, Compute::Evaluate(ask)) => {
            let failed = ask.subjects.into_iter().map(|subject| {
                let answer = EvalAnswer { subject, result: Err(UserError::new(why)) };
                Event::Evaluated { job, answer }
            });
            failed.chain([Event::Finished(job)]).collect()
        }
        other => window::succeed(other),
    });
    window.show("gallery");
    assert!(
        window.harness.query_all_by_label(why).next().is_some(),
        "besides the note, which has more words"
    );
    let log = &window.state().log;
    assert!(
        log.iter().any(|entry| entry.text.starts_with("Evaluating ") && entry.text.ends_with(why)),
        "{log:?}"
    );
}

#[test]
fn disagreements_with_a_column_go_with_it() {
    let mut window = shown();
    let other = *window.state().columns.keys().nth(1).expect("a column");
    let sort = Sort::Measure(CONFIDENCE.to_owned());
    let filter = GalleryFilter {
        differs: Some(other),
        sort,
        ..GalleryFilter::new(window.state().gallery_filter.scope)
    };
    window.dispatch(Command::SetGalleryFilter(Box::new(filter)));
    assert!(window.has("5.png, class") && window.has("6.png, class") && !window.has("0.png, class"));
    window.dispatch(Command::RemoveColumn(other));
    assert!(window.has("5.png, class") && window.has("0.png, class"), "no filter is left, only the order");
}

#[test]
fn a_step_leads_to_the_next_image_that_the_gallery_shows_in_its_order() {
    let mut window = shown();
    let images = window.state().library.datasets.values().next().expect("a dataset").images.clone();
    // The most confident first: 8, 4, 0.
    let sort = Sort::Measure(CONFIDENCE.to_owned());
    let scope = window.state().gallery_filter.scope;
    let wrong = GalleryFilter { outcome: Outcome::Wrong, sort, ..GalleryFilter::new(scope) };
    window.dispatch(Command::SetGalleryFilter(Box::new(wrong)));
    // Images 5, 2, 7 (of unknown confidence) and 6 are not shown.
    for (from, by, to) in [
        (8, 1, 4),
        (4, 1, 0),
        (0, 1, 0),
        (0, -1, 4),
        (4, isize::MIN, 8),
        (4, isize::MAX, 0),
        (5, 1, 4),
        (5, -1, 8),
        (2, 2, 0),
        (7, 1, 0),
        (7, -1, 0),
        (6, isize::MIN, 8),
        (6, isize::MAX, 0),
    ] {
        window.dispatch(Command::SelectImage(images[from]));
        window.dispatch(Command::Step(by));
        assert_eq!(window.state().selection.image, Some(images[to]), "{by} from {from}");
    }
    // Nothing is shown: the image stays.
    let none = GalleryFilter { text: "no such image".to_owned(), ..GalleryFilter::new(scope) };
    window.dispatch(Command::SetGalleryFilter(Box::new(none)));
    window.dispatch(Command::Step(1));
    assert_eq!(window.state().selection.image, Some(images[0]));
}

#[test]
fn a_screen_reader_hears_class_verdict_and_accuracy() {
    let window = shown();
    assert!(window.has("0.png, class church, wrong: predicted crane"));
    assert!(window.has("1.png, class church, right"));
    let accuracy = format!("sinkhorn, accuracy {:.1} %", evaluation(&part(), "sinkhorn").accuracy());
    assert!(window.has(&accuracy), "{accuracy}");
    assert!(window.has("Close the pane Compare"));
}

#[test]
fn the_accuracy_stands_above_a_figure_by_classes_but_once_at_the_confusion_matrix() {
    let mut window = shown();
    // So small that the panes of both are tabs of one group.
    window.resize(853.0, 480.0);
    let right = |name| window.harness.query_all_by_label(name).map(|one| one.rect().right()).next();
    let ends = ["Filter", "Open folder of images…"].map(|name| right(name).expect("a button"));
    assert!((ends[0] - ends[1]).abs() < 2.0, "the filter's menu ends as the buttons above it do: {ends:?}");
    let accuracy = format!("sinkhorn, accuracy {:.1} %", evaluation(&part(), "sinkhorn").accuracy());
    let [classes, confusion] = ["class_diagnostics", "confusion"].map(|pane| {
        window.show(pane);
        window.harness.query_all_by_label(&accuracy).count()
    });
    assert_eq!(confusion + 1, classes);
}

/// A window with `count` images.
fn with_images(count: usize) -> Window {
    let mut window = Window::new();
    window.open();
    window.answer_with(move |request| match request {
        Request::Files(job, Files::OpenImages { .. }) => {
            let paths = (0..count).map(|i| PathBuf::from(format!("many/{i:05}.png"))).collect();
            vec![Event::ImagesListed { job, paths }, Event::Finished(job)]
        }
        other => window::succeed(other),
    });
    window
}

/// Name and rectangle of the image that has the keyboard focus.
fn focused(window: &Window) -> Option<(String, egui::Rect)> {
    let all = window.harness.query_all_by_label_contains(".png");
    let focused = all
        .filter(egui_kittest::Node::is_focused)
        .map(|node| (node.accesskit_node().label().unwrap_or_default(), node.rect()));
    focused.collect::<Vec<_>>().pop()
}

#[test]
fn pictures_of_images_that_went_are_given_back() {
    let mut window = with_images(40);
    let textures = |window: &Window| window.harness.ctx.tex_manager().read().num_allocated();
    let before = textures(&window);
    let images = window.state().library.images.keys().skip(4).copied().collect();
    window.dispatch(Command::CloseImages(images));
    let after = textures(&window);
    assert!(after + 4 < before, "{before} textures, {after} after most images went");
}

#[test]
fn thumbnails_of_all_images_in_sight_come_without_scrolling() {
    let mut window = with_images(600);
    window.harness.set_size(egui::vec2(3200.0, 2600.0));
    window.show("gallery");
    window.answer();
    let known = |window: &Window| window.state().thumbnails.count();
    assert!(known(&window) > 256, "more than are asked for at once");
    // The same images, opened anew.
    let state = &mut window.harness.state_mut().state;
    let requests = state.restore(state.workspace(serde_json::Value::Null));
    window.wire.borrow_mut().requests.extend(requests);
    window.harness.run();
    window.answer();
    assert!(known(&window) > 256 && window.idle());
}

#[test]
fn the_keyboard_walks_through_the_gallery_which_scrolls_with_it() {
    let mut window = with_images(200);
    let role = egui::accesskit::Role::Button;
    window.harness.get_by_role_and_label(role, "00000.png").focus();
    window.harness.run();
    for step in 1..=60 {
        window.press(Modifiers::NONE, Key::Tab);
        let (name, rect) = focused(&window).unwrap_or_else(|| panic!("lost after {step} steps"));
        assert_eq!(name, format!("{step:05}.png"));
        assert!(rect.bottom() < 880.0 && rect.top() > 60.0, "{name} is out of sight: {rect:?}");
    }
    window.press(Modifiers::NONE, Key::Enter);
    assert_eq!(window.state().current_image().unwrap().name(), "00060.png");
}

/// The number of images that are wholly visible.
fn whole(window: &Window) -> usize {
    let size = window.harness.ctx.content_rect();
    let all = window.harness.query_all_by_label_contains(".png").map(|node| node.rect());
    let bottom = size.bottom() - 30.0;
    all.filter(|rect| rect.height() > 40.0 && rect.bottom() <= bottom && rect.height() >= 0.9 * rect.width())
        .count()
}

#[test]
fn sections_fold_and_resize_and_the_images_have_their_room() {
    let mut window = with_images(200);
    assert!(whole(&window) >= 9, "three rows at 1440 x 900: {}", whole(&window));
    // A screen of 1280 x 720 at 150 % scale.
    window.resize(853.0, 480.0);
    assert!(whole(&window) >= 3, "a whole row: {}", whole(&window));
    assert!(window.has("Unfold backbones") && window.has("Fold probes"), "what is seldom needed is folded");
    let few = whole(&window);
    window.click("Fold probes");
    assert!(window.harness.query_by_label("Resize probes").is_none() && whole(&window) > few);
    let kept = &window.state().settings.library;
    assert_eq!(kept.folded.get("Probes"), Some(&true));
    window.click("Unfold probes");
    window.resize(1440.0, 900.0);
    let edge = window.harness.get_by_label("Resize probes").rect().center();
    window.drag(edge, edge - egui::vec2(0.0, 40.0));
    let after = window.harness.get_by_label("Resize probes").rect().center();
    assert!((14.0..42.0).contains(&(edge.y - after.y)), "{edge:?} to {after:?}");
    assert!(window.state().settings.library.heights.contains_key("Probes"));
    assert!(window.idle());
}

#[test]
fn a_narrow_status_bar_keeps_its_texts_apart() {
    let mut window = with_images(3);
    for width in [640.0, 700.0, 853.0] {
        window.harness.set_size(egui::vec2(width, 480.0));
        let path = "a folder with a very long name/".repeat(3);
        window.dispatch(Command::OpenImages(vec![path.into()]));
        let texts: Vec<_> = painted(window.harness.output())
            .into_iter()
            .filter(|(_, _, whole)| whole.center().y > 456.0)
            .collect();
        assert!(texts.len() > 3);
        for (at, (text, seen, whole)) in texts.iter().enumerate() {
            assert!(seen.expand(1.0).contains_rect(*whole), "{width}: {text} is cut: {whole:?} to {seen:?}");
            for (other, _, place) in &texts[at + 1..] {
                assert!(!place.shrink(0.5).intersects(whole.shrink(0.5)), "{width}: {text} lies on {other}");
            }
        }
    }
}

#[test]
fn the_list_of_the_probe_beside_stays_on_the_line_of_its_label() {
    let mut window = Window::ready();
    for width in (500..1000).step_by(40) {
        window.resize(width as f32, 700.0);
        window.show("gallery");
        let both = By::new().label("Beside").include_labels();
        let lines: Vec<f32> = window.harness.query_all(both).map(|node| node.rect().center().y).collect();
        let line = lines[0];
        assert!(lines.len() > 1 && lines.iter().all(|y| (y - line).abs() < 6.0), "{width}: {lines:?}");
    }
}

#[test]
fn long_names_of_probes_that_differ_at_their_end_are_told_apart() {
    let mut window = Window::ready();
    let path =
        |seed: usize| format!("{}-s{seed}-best.safetensors", "sinkhorn-of-many-settings".repeat(4)).into();
    window.dispatch(Command::OpenProbes([0, 1].map(path).into()));
    window.answer();
    window.show("compare");
    let texts = painted(window.harness.output());
    for end in ["-s0-best", "-s1-best"] {
        let drawn = texts.iter().filter(|(text, ..)| text.contains('…') && text.ends_with(end)).count();
        assert!(drawn >= 2, "in the library and in Compare: {end}: {texts:?}");
    }
}
