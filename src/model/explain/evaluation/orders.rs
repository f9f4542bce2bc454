//! Order tests over a dataset: that of every image's margin for its true class (docs/definitions.md, section 10), beside
//! those of unlearned orders with the same kernel.

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::digits;
use crate::model::explain::image_reading::ImageReading;
use crate::model::explain::intervention::Intervention;
use crate::model::explain::null_model::{NullBands, untrained_scores};
use crate::model::explain::order_test::{Margin, OrderTester, SIGNIFICANT, tested};
use crate::model::probe::head_output::{Direction, Form, HeadOutput, Order};
use crate::model::stats;
use crate::model::trace::OrderContrast;

/// Images that unlearned orders are tested on.
pub(super) const CHANCE_IMAGES: usize = 64;
/// Untrained scorers, and random orders, per image. Every image has others: how many images a scorer is significant on depends on the
/// scorer (with smooth tokens on none to nine of ten), so that the share of a few scorers that all images share says little.
const ORDERS_PER_IMAGE: usize = 4;

/// The order tests of all images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderTests {
    /// One digit per image: 1 if p is below 0.05, else 0.
    pub significant: String,
    /// Mean of z.
    pub z: f64,
    /// Mean headroom: the gain over the mean of all orders as a share of the best order's.
    pub headroom: f64,
    /// Mean margin of a bag of the same tokens.
    pub content: f64,
    /// Mean of what raster order, or the scan, adds to `content`.
    pub fixed_order: f64,
    /// Mean of what routing adds to that.
    pub routing: f64,
    /// Share of p below 0.05 for untrained scorers with the same router and kernel, on a sample of the images; absent without
    /// a router.
    pub untrained: Option<f64>,
    /// The same for random orders; absent if none can be drawn.
    pub random: Option<f64>,
    /// Number of images in that sample, and of untrained scorers and of random orders for each. Absent in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<(usize, usize)>,
}

/// The margin of one image of `class`, to be [`tested`]; `None` if the head has no test.
pub(super) fn margin(reading: &ImageReading<'_>, class: usize, nulls: &NullBands) -> Option<Margin> {
    OrderTester::new(reading, &nulls.exchanges).ok()?.margin(class)
}

/// Results of an image still without its order test, and the margin to be [`tested`].
pub(super) type WithMargin = (Answer, Option<Margin>);

/// Results of images with their order tests.
pub(super) fn with_tests(found: Vec<Option<WithMargin>>, nulls: &NullBands) -> Vec<Option<Answer>> {
    let (answers, margins): (Vec<_>, Vec<_>) = found.into_iter().map(Option::unzip).unzip();
    let orders = tested(margins.into_iter().map(Option::flatten).collect(), &nulls.exchanges);
    let answers = answers.into_iter().zip(orders);
    answers
        .map(|(answer, order)| answer.map(|answer| Answer { order: order.map(Box::new), ..answer }))
        .collect()
}

/// Whether unlearned orders are significant on one image, one by one.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    untrained: Vec<bool>,
    random: Vec<bool>,
}

impl Chance {
    /// What chance gives for an image of `class`.
    pub(super) fn new(reading: &ImageReading<'_>, class: usize, nulls: &NullBands) -> Self {
        let (mut untrained, mut random) = (Vec::new(), Vec::new());
        let ImageReading { probe, tokens, output, .. } = reading;
        if let (Some(router), Form::Scan(directions)) = (probe.head().router(), &output.form) {
            let first = reading.image_seed as usize * ORDERS_PER_IMAGE;
            for scores in untrained_scores(tokens, first..first + ORDERS_PER_IMAGE, nulls.seed) {
                let order = |direction: &Direction| Direction {
                    order: Order::Plan(router.plan(&scores)),
                    ..direction.clone()
                };
                let form = Form::Scan(directions.iter().map(order).collect());
                let unlearned = reading.with(Intervention::None, HeadOutput { scores: None, form });
                untrained.push(margin(&unlearned, class, nulls));
            }
        }
        for order in 0..ORDERS_PER_IMAGE as u64 {
            let change = Intervention::Random(nulls.seed.wrapping_mul(ORDERS_PER_IMAGE as u64) + order);
            if let Ok(unlearned) = reading.reordered(change) {
                random.push(margin(&unlearned, class, nulls));
            }
        }
        let [untrained, random] = [untrained, random].map(|margins| {
            let tested = tested(margins, &nulls.exchanges);
            tested.iter().flatten().map(is_significant).collect()
        });
        Self { untrained, random }
    }
}

impl OrderTests {
    /// Summary of the images that have a test, at least one, and of the unlearned orders `chance`.
    pub(super) fn new(tested: &[&OrderContrast], chance: &[Chance]) -> Self {
        let share = |of: fn(&Chance) -> &Vec<bool>| {
            stats::mean(chance.iter().flat_map(of).map(|significant| f64::from(*significant)))
        };
        let mean = |of: &dyn Fn(&OrderContrast) -> f64| {
            tested.iter().map(|contrast| of(contrast)).sum::<f64>() / tested.len() as f64
        };
        Self {
            significant: digits::write(tested.iter().map(|contrast| is_significant(contrast))),
            z: mean(&|contrast| contrast.reassigned.z.unwrap_or(0.0)),
            headroom: mean(&|contrast| contrast.headroom.unwrap_or(0.0)),
            content: mean(&|contrast| contrast.content),
            fixed_order: mean(&|contrast| contrast.fixed_order),
            routing: mean(&|contrast| contrast.routing),
            untrained: share(|image| &image.untrained),
            random: share(|image| &image.random),
            sample: Some((chance.len(), ORDERS_PER_IMAGE)),
        }
    }
}

fn is_significant(contrast: &OrderContrast) -> bool {
    contrast.reassigned.p < SIGNIFICANT
}
