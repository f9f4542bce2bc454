//! Published training protocols as presets: optimiser, start of the classifier, learning rates and their schedule, and the random
//! crop if images are augmented ([`Augmentation`](crate::model::backbone::preprocess::augment::Augmentation)).

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::optim::{AdamW, Momentum, Optimizer, cosine};
use crate::model::backbone::preprocess::augment::RandomCrop;

listed! {
    /// How heads are trained, as a project has it. Doc lines are the help of the flag.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
    #[serde(rename_all = "kebab-case")]
    pub enum Protocol {
        /// AdamW at 1e-3 and a cosine to 0, 100 epochs (the paper, "Optimization")
        #[default]
        Paper: "paper";
        /// LARS at 0.1 x batch / 256, 10 epochs of linear warm-up, then a cosine to 0, 90 epochs (facebookresearch/mae at be47fef,
        /// main_linprobe.py and util/lars.py); its BatchNorm before the classifier is the head `linear-bn`
        MaeLinprobe: "mae-linprobe";
        /// SGD with momentum 0.9 at each of 13 rates from 1e-5 to 0.1 x batch / 256, a cosine to 0, 10 epochs
        /// (facebookresearch/dinov2 at 05c66df, dinov2/eval/linear.py)
        Dinov2Linear: "dinov2-linear";
        /// LARS at 0.1 x batch / 256, 10 epochs of linear warm-up, then a cosine to 0, 90 epochs (billpsomas/efficient-probing at
        /// 04bb316, main_linprobe.py); its head is `efficient`
        EfficientProbing: "efficient-probing";
    }
}

/// Learning rates of DINOv2's linear evaluation for batches of 256.
const DINOV2_RATES: [f64; 13] = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1];
/// Warm-up epochs of the protocols with LARS.
const WARM_UP: usize = 10;

impl Protocol {
    /// Whether it is the paper's.
    pub fn is_paper(&self) -> bool {
        *self == Self::Paper
    }

    /// Its optimiser before the first step.
    pub fn optimizer(self) -> Optimizer {
        match self {
            Self::Paper => Optimizer::AdamW(AdamW::default()),
            Self::Dinov2Linear => Optimizer::Momentum(Momentum::sgd()),
            Self::MaeLinprobe | Self::EfficientProbing => Optimizer::Momentum(Momentum::lars()),
        }
    }

    /// Standard deviation of the classifier's weights before the first step, its bias then being 0; `None` if it starts as `nn.Linear`.
    pub fn classifier_start(self) -> Option<f32> {
        match self {
            Self::Paper | Self::EfficientProbing => None,
            Self::MaeLinprobe | Self::Dinov2Linear => Some(0.01),
        }
    }

    /// Its number of epochs.
    pub fn epochs(self) -> usize {
        match self {
            Self::Paper => 100,
            Self::Dinov2Linear => 10,
            Self::MaeLinprobe | Self::EfficientProbing => 90,
        }
    }

    /// The peak learning rates it tries, for batches of this many images.
    pub fn rates(self, batch: usize) -> Vec<f64> {
        let scaled = |factor: &f64| factor * batch as f64 / 256.0;
        match self {
            Self::Paper => vec![1e-3],
            Self::Dinov2Linear => DINOV2_RATES.iter().map(scaled).collect(),
            Self::MaeLinprobe | Self::EfficientProbing => vec![scaled(&0.1)],
        }
    }

    /// Number of warm-up epochs, in which the rate rises linearly from 0.
    pub fn warm_up(self) -> usize {
        match self {
            Self::Paper | Self::Dinov2Linear => 0,
            Self::MaeLinprobe | Self::EfficientProbing => WARM_UP,
        }
    }

    /// The learning rate of step `done` (from 0) of a training of `epochs` epochs of `steps` steps: a linear warm-up from 0 to `rate`,
    /// then half a cosine down to 0.
    pub fn rate(self, rate: f64, done: usize, steps: usize, epochs: usize) -> f64 {
        let warm_up = self.warm_up() * steps;
        match done < warm_up {
            true => rate * done as f64 / warm_up as f64,
            false => cosine(rate, done - warm_up, (epochs * steps).saturating_sub(warm_up)),
        }
    }

    /// Its random crop: torchvision's, or the project's own (util/crop.py) where it has one.
    pub fn crop(self) -> RandomCrop {
        RandomCrop { smallest: 0.08, clipped: matches!(self, Self::MaeLinprobe | Self::EfficientProbing) }
    }

    /// Optimiser and schedule in words, up to a parenthesis that the caller closes; `rates` are the rates in words.
    pub fn describe(self, rates: &str) -> String {
        match self {
            Self::Paper => format!("AdamW ({rates}, cosine"),
            Self::Dinov2Linear => format!("SGD with momentum 0.9, as dinov2-linear ({rates}, cosine"),
            Self::MaeLinprobe | Self::EfficientProbing => {
                format!("LARS, as {} ({rates}, {WARM_UP} epochs of warm-up, cosine", self.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::close::assert_close;

    /// Against `tests/reference/optim.py`: 12 epochs of 3 steps.
    #[test]
    fn rates_go_as_those_of_the_reference() {
        let theirs = include_str!("../../../tests/fixtures/optim/protocols.json");
        let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
        for (protocol, key) in [
            (Protocol::MaeLinprobe, "warm-up and cosine"),
            (Protocol::EfficientProbing, "warm-up and cosine"),
            (Protocol::Dinov2Linear, "cosine"),
            (Protocol::Paper, "cosine"),
        ] {
            let expected: Vec<f64> =
                theirs["rates"][key].as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap()).collect();
            let found: Vec<f64> = (0..36).map(|step| protocol.rate(0.4, step, 3, 12)).collect();
            assert_close(protocol.name(), found, expected, 1e-12);
        }
    }

    #[test]
    fn names_are_those_of_flags_and_files() {
        for protocol in Protocol::ALL {
            assert_eq!(protocol.to_possible_value().unwrap().get_name(), protocol.name());
            assert_eq!(serde_json::to_value(protocol).unwrap(), protocol.name());
        }
        assert_eq!(Protocol::MaeLinprobe.rates(4096), [1.6]);
        let published = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1];
        assert_eq!(Protocol::Dinov2Linear.rates(256), published);
        assert_eq!(Protocol::Dinov2Linear.rates(512)[12], 0.2);
        let others = Protocol::ALL.map(|one| (one.name(), one.epochs(), one.crop().clipped));
        let published = [
            ("paper", 100, false),
            ("mae-linprobe", 90, true),
            ("dinov2-linear", 10, false),
            ("efficient-probing", 90, true),
        ];
        assert_eq!(others, published);
    }
}
