//! Timing of a head's first steps on a GPU, which run one head at a time.

/// Number of solo steps: one that compiles the kernels, one that is recorded, and one more.
pub(super) const SOLO_STEPS: usize = 3;
/// Index of the step that is recorded, from 0.
const RECORDED_STEP: usize = 1;

/// Times of the solo steps, by which the time that the heads' steps take together is later apportioned. Only steps on the largest
/// batch count: an epoch ends with a smaller one, and a recording is for one batch size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SoloSteps {
    /// Images of the largest batch so far.
    pub images: usize,
    /// Duration of each solo step on such a batch, in seconds.
    pub seconds: Vec<f64>,
}

impl SoloSteps {
    /// Starts again if a batch is larger than any before; returns whether it is.
    pub fn restart_if_larger(&mut self, images: usize) -> bool {
        let is_larger = images > self.images;
        if is_larger {
            *self = Self { images, seconds: vec![] };
        }
        is_larger
    }

    /// Whether the next step, on a batch of this many images, is to be recorded.
    pub fn should_record(&self, images: usize) -> bool {
        images == self.images && self.seconds.len() == RECORDED_STEP
    }

    /// Whether all solo steps are done.
    pub fn are_done(&self) -> bool {
        self.seconds.len() >= SOLO_STEPS
    }

    /// Adds the time of a step on a batch of this many images.
    pub fn add(&mut self, images: usize, seconds: f64) {
        if images == self.images {
            self.seconds.push(seconds);
        }
    }

    /// Time of the fastest solo step, in seconds.
    pub fn fastest(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }
}
