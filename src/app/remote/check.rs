//! Checks what a worker sends where it arrives: the window uses the parts of an event as indices into each other, and another
//! program may be at the other end.

use crate::app::jobs::Event;
use crate::app::jobs::train_event::TrainEvent;
use crate::app::jobs::user_error::UserError;
use crate::model::backbone::config::PATCH_LIMIT;
use crate::viz::draw::check::check_within;

/// The event, or one of an error in its place if its parts do not fit each other.
pub(super) fn checked(mut event: Event) -> Event {
    match &mut event {
        Event::ThumbnailReady { image, picture } if !picture.is_consistent() => {
            let error = UserError::new(format!("{} bytes of a thumbnail of another size", picture.rgb.len()));
            return Event::ThumbnailFailed { image: *image, error };
        }
        Event::ImagesCompared(job, space) if !space.is_consistent() => {
            return Event::Failed(
                *job,
                UserError::new("the vectors of images do not have one number per token"),
            );
        }
        Event::DatasetOpened { job, part, .. } => {
            if let Err(why) = part.check() {
                return Event::Failed(*job, UserError::new(why));
            }
        }
        Event::RemovalMeasured { answer, .. } => {
            let why = answer.as_ref().map_or(None, |removal| removal.check().err());
            why.into_iter().for_each(|why| *answer = Err(UserError::new(why)));
        }
        Event::RunRead { snapshot, .. } => {
            let why = snapshot.as_ref().map_or(None, |run| run.about.check().err());
            why.into_iter().for_each(|why| *snapshot = Err(UserError::new(why)));
        }
        Event::Training { job, event: TrainEvent::Begun(run) } => {
            if let Err(why) = run.about.check() {
                return Event::Failed(*job, UserError::new(why));
            }
        }
        Event::Explained { results, .. } => {
            for answer in results {
                let trace = answer.result.as_ref().ok();
                if let Some(Err(why)) = trace.map(|trace| check_within(trace, PATCH_LIMIT)) {
                    answer.result = Err(UserError::new(why.0));
                }
                answer.by_hand.take_if(|reader| !reader.is_consistent()); // the worker reads orders made by hand, then
            }
        }
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use half::f16;
    use serde_json::json;

    use super::*;
    use crate::app::jobs::evaluate::EvalSplit;
    use crate::app::jobs::history::About;
    use crate::app::jobs::history::disk::RunSnapshot;
    use crate::app::jobs::{ColumnId, DatasetId, ExplainResult, ImageId, JobId};
    use crate::model::data::{Dataset, Sample, Split};
    use crate::model::explain::evaluation::EvalSet;
    use crate::model::explain::evaluation::similarity::{ImageSpace, Similarity};
    use crate::model::explain::evaluation::vectors::TokenVectors;
    use crate::model::explain::removal::Removal;
    use crate::model::grid::Grid;
    use crate::model::io::Format;
    use crate::model::trace::{Picture, Reading, Trace};

    #[test]
    fn a_picture_of_another_size_is_refused() {
        let of = |bytes| {
            let picture = Arc::new(Picture { width: 2, height: 1, rgb: vec![0; bytes] });
            checked(Event::ThumbnailReady { image: ImageId(1), picture })
        };
        assert!(
            matches!(of(6), Event::ThumbnailReady { .. }) && matches!(of(5), Event::ThumbnailFailed { .. })
        );
    }

    #[test]
    fn vectors_of_other_tokens_are_refused() {
        let of = |cols| {
            let space = ImageSpace::new(
                &TokenVectors::new([f16::ONE; 4].into()),
                Grid::new(1, 2),
                Similarity::Cosine,
            );
            let mut json = serde_json::to_value(space).unwrap();
            json["grid"]["cols"] = json!(cols);
            checked(Event::ImagesCompared(JobId(1), Arc::new(serde_json::from_value(json).unwrap())))
        };
        assert!(matches!(of(2), Event::ImagesCompared(..)) && matches!(of(3), Event::Failed(..)));
    }

    #[test]
    fn tables_that_do_not_fit_each_other_read_no_order() {
        let is_kept = |gain: usize, patches: usize, table: usize, sweeps: u64| {
            let none = json!({ "mean": 0.0, "std": 0.0, "best": 0.0, "worst": 0.0, "drawn": [] });
            let logit = json!({
                "bias": 0.0, "against": null, "descriptive": false, "bag": 0.0, "raster": null,
                "exchange": { "Table": vec![0.0; table] }, "null": none
            });
            let reader = json!({
                "gain": vec![1.0; gain], "decay": null, "projections": [0.0, 0.0], "patches": vec![0.0; patches],
                "weight": [0.0], "bias": [0.0], "classes": [], "logit": logit, "margin": null, "sweeps": sweeps
            });
            let by_hand = Some(serde_json::from_value(reader).unwrap());
            let result = Ok(Arc::new(Trace::default()));
            let results = vec![ExplainResult { column: ColumnId(1), result, by_hand }];
            let told = checked(Event::Explained { job: JobId(1), results });
            matches!(told, Event::Explained { results, .. } if results[0].by_hand.is_some())
        };
        assert!(is_kept(2, 2, 4, 1));
        for (gain, patches, table, sweeps) in
            [(0, 2, 4, 1), (2, 1, 4, 1), (2, 3, 4, 1), (2, 2, 3, 1), (2, 2, 4, u64::MAX)]
        {
            assert!(!is_kept(gain, patches, table, sweeps), "{gain}, {patches}, {table}, {sweeps}");
        }
    }

    #[test]
    fn a_dataset_whose_images_are_not_there_is_refused() {
        let classes = vec!["bird".to_owned()];
        let sample = Sample { source: PathBuf::from("a.png").into(), class: 0, split: Split::Test };
        let dataset =
            Arc::new(Dataset { samples: vec![sample], classes: classes.clone(), ..Dataset::default() });
        let of = |samples: Vec<usize>, class: Vec<u32>| {
            let (dataset, split) = (dataset.clone(), Split::Test);
            let images = vec!["a.png".to_owned(); class.len()];
            let set = Arc::new(EvalSet { images, class, classes: classes.clone(), ..EvalSet::default() });
            let part = Arc::new(EvalSplit { dataset, split, samples, set });
            checked(Event::DatasetOpened { job: JobId(1), entry: DatasetId(1), part })
        };
        assert!(matches!(of(vec![0], vec![0]), Event::DatasetOpened { .. }));
        for (samples, class) in [(vec![1], vec![0]), (vec![0], vec![1]), (vec![], vec![0]), (vec![0], vec![])]
        {
            assert!(matches!(of(samples, class), Event::Failed(..)));
        }
    }

    #[test]
    fn a_run_of_more_trainings_than_there_is_memory_for_is_refused() {
        let of = |seeds: u64| {
            let about =
                About { heads: vec![String::new(); 2000], seeds: (0..seeds).collect(), ..About::default() };
            let run = Arc::new(RunSnapshot { about, ..RunSnapshot::default() });
            let read = Event::RunRead { job: None, folder: "run".into(), snapshot: Ok(run.clone()) };
            let begun = Event::Training { job: JobId(1), event: TrainEvent::Begun(run) };
            let is_read = matches!(checked(read), Event::RunRead { snapshot: Ok(_), .. });
            [is_read, matches!(checked(begun), Event::Training { .. })]
        };
        assert_eq!([of(500), of(501)], [[true; 2], [false; 2]]);
    }

    #[test]
    fn a_trace_or_curves_in_disorder_are_an_error_of_theirs() {
        let trace = Trace { grid: Grid::new(1, 2), scores: Some(vec![0.5]), ..Trace::default() };
        let results = vec![ExplainResult { column: ColumnId(1), result: Ok(Arc::new(trace)), by_hand: None }];
        let Event::Explained { results, .. } = checked(Event::Explained { job: JobId(1), results }) else {
            panic!("it is passed on")
        };
        let why = results[0].result.as_ref().unwrap_err().to_string();
        assert!(why.contains("1 values of scores for 2 tokens"), "{why}");
        let (image, probe, head, class) = Default::default();
        let (format, reading, seen, grid) = (Format, Reading::default(), Picture::default(), Grid::new(1, 1));
        let (rival, fraction, rankings, modes) = Default::default();
        let curves = Removal {
            format,
            image,
            probe,
            head,
            reading,
            grid,
            seen,
            class,
            rival,
            fraction,
            rankings,
            modes,
        };
        let answer = Ok(Arc::new(curves));
        let told = checked(Event::RemovalMeasured { job: JobId(1), answer });
        assert!(matches!(told, Event::RemovalMeasured { answer: Err(_), .. }));
    }
}
