//! Heads: logits and gradients of every parameter.

use burn::tensor::Device;
use ssmprobe::model::grid::Grid;
use ssmprobe::model::probe::Probe;
use ssmprobe::model::probe::head::HEADS;
use ssmprobe::model::probe::params::Constraint;

use super::{Parity, all};
use crate::close::distance;
use crate::gpus::gpus;
use crate::heads::{batch, files, images, largest, loss, min_gradient_scale, model_of, stem, values};

/// Heads whose own kernels take a software adapter minutes to compile and autotune; the others share theirs.
const COSTLY: [&str; 9] = [
    "attention",
    "neuralsort",
    "deepsets",
    "sinkhorn-conv",
    "efficient",
    "abmilp",
    "simpool",
    "coca",
    "v-jepa",
];
/// Largest difference, as a share of the largest entry of each, or of a hundredth of the largest gradient if that is more.
const BOUND: f64 = 1e-3;

#[test]
fn heads_give_the_processors_logits_and_gradients() {
    let mut parity = Parity::default();
    let images = images("2x6", Grid::new(2, 6));
    for (name, gpu) in gpus() {
        for kind in HEADS.iter().filter(|kind| all() || !COSTLY.contains(&kind.id)) {
            for path in files(kind.id) {
                let probe = Probe::load(&path).expect("a probe");
                let run = |device: &Device| {
                    let model = model_of(&probe, images[0].grid, device);
                    let model = model.clone().with_params(model.params().tracked());
                    let logits = model.logits(&batch(&images, device));
                    let gradients = loss(logits.clone()).backward();
                    let mut found = vec![values(logits)];
                    let trained =
                        model.params().iter().filter(|(spec, _)| spec.constraint != Constraint::Fixed);
                    found.extend(
                        trained.map(|(_, value)| values(value.grad(&gradients).expect("a gradient"))),
                    );
                    found
                };
                let (processor, found) = (run(&Device::flex().autodiff()), run(&gpu.clone().autodiff()));
                assert_eq!(found.len(), processor.len());
                let min_scale = min_gradient_scale(processor[1..].iter());
                let share = |(found, expected): (&Vec<f64>, &Vec<f64>)| {
                    distance(stem(&path), found, expected) / largest(expected).max(min_scale)
                };
                let mut shares = found.iter().zip(&processor).map(share);
                parity.check(
                    &name,
                    &format!("{}, logits", stem(&path)),
                    shares.next().expect("logits"),
                    BOUND,
                );
                let gradients = shares.fold(0.0, f64::max);
                parity.check(&name, &format!("{}, gradients", stem(&path)), gradients, BOUND);
            }
        }
    }
}
