//! Baselines against scikit-learn (`tests/reference/baselines.py`).

use ssmprobe::model::explain::baselines::knn::Neighbours;
use ssmprobe::model::explain::baselines::logreg::{Fitted, LogReg, LogRegError};
use ssmprobe::model::explain::baselines::{Method, Vectors, baselines};
use ssmprobe::model::train::Labelled;

use crate::ablation;
use crate::close::assert_close;

struct Case {
    document: serde_json::Value,
}

impl Case {
    fn open() -> Self {
        let text = include_str!("../fixtures/baselines/baselines.json");
        Self { document: serde_json::from_str(text).unwrap() }
    }

    fn numbers(&self, key: &str) -> Vec<f64> {
        self.document[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    }

    fn labels(&self, key: &str) -> Vec<usize> {
        self.numbers(key).into_iter().map(|x| x as usize).collect()
    }

    fn vectors(&self, key: &str) -> Vectors {
        let values = self.numbers(key).into_iter().map(|x| x as f32).collect();
        Vectors { width: self.document["width"].as_u64().unwrap() as usize, values }
    }

    fn answers(&self, key: &str) -> Vec<u32> {
        self.labels(key).into_iter().map(|x| x as u32).collect()
    }
}

/// A fit that nothing ends.
fn fit(method: LogReg, train: &Vectors, labels: &[usize], classes: usize) -> Result<Fitted, LogRegError> {
    method.fit(train, labels, classes, &mut || Ok::<(), ()>(())).unwrap()
}

#[test]
fn neighbours_vote_as_in_scikit_learn() {
    let case = Case::open();
    let (known, asked) = (case.vectors("train"), case.vectors("test"));
    let found = Neighbours::new(known, &case.labels("train_classes"), 5).predict(asked);
    assert!(!found.is_empty());
    assert_eq!(found, case.answers("knn"));
}

#[test]
fn neighbours_fewer_than_k_all_vote_and_a_zero_vector_harms_nobody() {
    let known = Vectors { width: 2, values: vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.9] };
    let asked = Vectors { width: 2, values: vec![0.1, 1.0, 1.0, 0.1, 0.0, 0.0] };
    // The zero vector is equally far from all: two of three votes are class 1.
    assert_eq!(Neighbours::new(known, &[0, 1, 1], 2).predict(asked), [1, 0, 1]);
}

#[test]
fn of_equally_near_images_the_first_vote() {
    // Twenty are equally far, and one that is a little nearer takes the place of the last of them.
    let values = std::iter::repeat_n([0.0, 1.0], 20).chain([[0.01, 1.0]]).flatten().collect();
    let classes: Vec<usize> = (0..20).map(|image| image / 10).chain([2]).collect();
    let asked = Vectors { width: 2, values: vec![1.0, 0.0] };
    assert_eq!(Neighbours::new(Vectors { width: 2, values }, &classes, 3).predict(asked), [0]);
}

#[test]
fn neighbours_are_found_among_more_images_than_are_compared_at_once() {
    // One block compares 4096 images; the 20 vectors that point the other way come after them.
    let of = |vector: [f32; 2], images| std::iter::repeat_n(vector, images);
    let values = of([1.0, 0.0], 4096).chain(of([0.0, 1.0], 20)).flatten().collect();
    let classes: Vec<usize> = (0..4096 + 20).map(|image| usize::from(image >= 4096)).collect();
    let asked = Vectors { width: 2, values: vec![0.1, 1.0, 1.0, 0.1] };
    assert_eq!(Neighbours::new(Vectors { width: 2, values }, &classes, 2).predict(asked), [1, 0]);
}

#[test]
fn logistic_regression_converges_to_scikit_learns_probabilities() {
    let case = Case::open();
    let (known, asked) = (case.vectors("train"), case.vectors("test"));
    let method = LogReg { tolerance: 1e-8, ..LogReg::default() };
    let fitted = fit(method, &known, &case.labels("train_classes"), 5).unwrap();
    assert!(fitted.converged, "{} iterations", fitted.iterations);
    assert_close("probabilities", fitted.probabilities(&asked), case.numbers("logreg_probabilities"), 1e-5);
    assert_eq!(fitted.predict(&asked), case.answers("logreg"));
    // The default stops earlier, with the same answers.
    let early = fit(LogReg::default(), &known, &case.labels("train_classes"), 5).unwrap();
    assert!(early.converged && early.iterations <= fitted.iterations);
    assert_eq!(early.predict(&asked), case.answers("logreg"));
    assert_eq!(early.note(), None);
    // Two iterations are too few.
    let stopped = LogReg { iterations: 2, ..method };
    let stopped = fit(stopped, &known, &case.labels("train_classes"), 5).unwrap();
    assert_eq!(stopped.note().as_deref(), Some("not converged after 2 iterations"));
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let broken = Vectors { width: 1, values: vec![1.0, f32::NAN] };
    assert_eq!(fit(LogReg::default(), &broken, &[0, 1], 2).err(), Some(LogRegError::Nothing));
    let many = Vectors { width: 1 << 12, values: vec![0.0; 1 << 20] };
    let error = fit(LogReg::default(), &many, &vec![0; 256], 1 << 20).err().unwrap();
    assert!(error.to_string().contains("256 images of 4096 channels in 1048576 classes"), "{error}");
    // The baselines of a run whose training images cannot be read carry the reason.
    let (_folder, cache) = ablation::cache(3);
    let test = Labelled { images: vec![0, 1, 2], classes: vec![0, 1, 2] };
    let mut told = Vec::new();
    let nothing = Labelled::default();
    let tell = &mut |what: &str, _: usize, _: usize| -> Result<(), ()> {
        told.push(what.to_owned());
        Ok(())
    };
    let found = baselines(&cache, (&nothing, &test), 3, tell).unwrap();
    assert!(told.contains(&"Reading mean tokens".to_owned()), "{told:?}");
    assert_eq!(baselines(&cache, (&nothing, &test), 3, &mut |_, _, _| Err(())), Err(()), "it was ended");
    let found: Vec<_> = found.into_iter().filter(|baseline| baseline.method == Method::LogReg).collect();
    assert_eq!(found.len(), 2, "of CLS and of mean tokens");
    for baseline in found {
        let why = Some("left out: the vectors contain no finite training image");
        assert_eq!((baseline.accuracy, baseline.note.as_deref()), (None, why));
    }
}

#[test]
fn a_fit_can_be_ended_while_it_goes_on() {
    let (_folder, cache) = ablation::cache(3);
    let all = Labelled { images: vec![0, 1, 2], classes: vec![0, 1, 2] };
    let mut fits = 0;
    let end = baselines(&cache, (&all, &all), 3, &mut |what: &str, done, all| {
        if what.starts_with("Fitting logistic regression") {
            assert_eq!((done, all), (fits, LogReg::default().iterations), "it is seen to go on");
            fits += 1;
        }
        if fits == 3 { Err("cancelled") } else { Ok(()) }
    });
    assert_eq!((end, fits), (Err("cancelled"), 3));
}
