//! Sinkhorn on the processor: each image is a [`Transport`] in float64, images side by side on all
//! cores; the way back re-reads its 2 x iterations x N potentials.

use std::fmt;
use std::sync::Arc;

use burn::backend::Flex;
use burn::tensor::{DType, TensorData};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::Sinkhorn;
use super::operation::{SinkhornBackend, Task};
use super::transport::{Numerics, Transport};
use crate::model::probe::router::Routed;

/// What the way back needs.
pub(super) struct Forward {
    batch: Values,
    images: Vec<Transport>,
    gain: Values,
    weights: Vec<Vec<f64>>,
}

impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forward({} images)", self.images.len())
    }
}

impl SinkhornBackend for Flex {
    type Kept = Arc<Forward>;

    fn weigh(
        scores: FlexTensor,
        gain: FlexTensor,
        task: &Task,
        keep: bool,
    ) -> (FlexTensor, Option<Self::Kept>) {
        let (batch, gain) = (Values::of(scores), Values::of(gain));
        let weigh = |transport: Transport| (transport.weights(&gain.data), keep.then_some(transport));
        let (weights, images): (Vec<_>, Vec<_>) = task.run(&batch, weigh).into_iter().unzip();
        let result = batch.with(weights.concat());
        let images = images.into_iter().flatten().collect();
        (result, keep.then(|| Arc::new(Forward { batch, images, gain, weights })))
    }

    fn plan(scores: FlexTensor, task: &Task, keep: bool) -> (FlexTensor, Option<Self::Kept>) {
        let batch = Values::of(scores);
        let write = |transport: Transport| (transport.plan(), keep.then_some(transport));
        let (plans, images): (Vec<_>, Vec<_>) = task.run(&batch, write).into_iter().unzip();
        let result = batch.with_tables(plans);
        let images = images.into_iter().flatten().collect();
        let forward = || Arc::new(Forward { batch, images, gain: Values::none(), weights: vec![] });
        (result, keep.then(forward))
    }

    fn back_from_weights(kept: Self::Kept, cotangent: FlexTensor) -> (FlexTensor, FlexTensor) {
        let cotangent = Values::of(cotangent);
        let Forward { batch, images, gain, weights } = &*kept;
        let one = |((image, weights), cotangent): ((&Transport, &Vec<f64>), &[f64])| {
            image.pull(&gain.data, weights, cotangent)
        };
        let (by_scores, by_gain): (Vec<_>, Vec<_>) =
            images.par_iter().zip(weights).zip(cotangent.rows()).map(one).unzip();
        let mut total = vec![0.0; gain.data.len()];
        by_gain.iter().for_each(|one| total.iter_mut().zip(one).for_each(|(sum, x)| *sum += x));
        (batch.with(by_scores.concat()), gain.with(total))
    }

    fn back_from_plans(kept: Self::Kept, cotangent: FlexTensor) -> FlexTensor {
        let cotangent = Values::of(cotangent);
        let Forward { batch, images, .. } = &*kept;
        let tables = cotangent.data.par_chunks((batch.width() * batch.width()).max(1));
        let one = |(image, cotangent): (&Transport, &[f64])| image.backward_of_plan(cotangent);
        let by_scores: Vec<_> = images.par_iter().zip(tables).map(one).collect();
        batch.with(by_scores.concat())
    }
}

impl Task {
    /// The iterations of every image, each read by `read`.
    fn run<T: Send>(&self, batch: &Values, read: impl Fn(Transport) -> T + Sync) -> Vec<T> {
        let Sinkhorn { temperature, iterations } = self.sinkhorn;
        let table = batch.width() * batch.width();
        let noise = |image: usize| self.noise.get(image * table..(image + 1) * table).unwrap_or(&[]);
        let run = |(image, scores)| {
            read(Transport::run(scores, temperature, iterations.max(1), noise(image), Numerics::Double))
        };
        batch.rows().enumerate().map(run).collect()
    }
}

/// A tensor's values in float64, and what it takes to make another like it.
struct Values {
    data: Vec<f64>,
    shape: Vec<usize>,
    dtype: DType,
}

impl Values {
    fn of(tensor: FlexTensor) -> Self {
        let data = tensor.into_data();
        Self { data: data.iter::<f64>().collect(), shape: data.shape().to_vec(), dtype: data.dtype() }
    }

    fn none() -> Self {
        Self { data: vec![], shape: vec![0], dtype: DType::F32 }
    }

    /// Length of the last axis.
    fn width(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The last axis, vector by vector.
    fn rows(&self) -> rayon::slice::Chunks<'_, f64> {
        self.data.par_chunks(self.width().max(1))
    }

    /// A tensor of this shape and precision.
    fn with(&self, data: Vec<f64>) -> FlexTensor {
        tensor(data, self.shape.clone(), self.dtype)
    }

    /// A tensor of this precision with a square table for every row.
    fn with_tables(&self, tables: Vec<Vec<f64>>) -> FlexTensor {
        tensor(tables.concat(), vec![tables.len(), self.width(), self.width()], self.dtype)
    }
}

fn tensor(data: Vec<f64>, shape: Vec<usize>, dtype: DType) -> FlexTensor {
    FlexTensor::from_data(TensorData::new::<f64, _>(data, shape).convert_dtype(dtype))
}
