//! Turns the settings of a training into the arguments of `ssmprobe train`.

use super::TrainSettings;
use crate::model::backbone::token_spec::comma_separated;
use crate::model::data::token_cache::Precision;

impl TrainSettings {
    /// The flags for these settings except the run's folder; each is one `--flag=value` argument.
    pub fn words(&self) -> Vec<String> {
        let Self { rates, layers, tokens, .. } = self;
        let spec = &tokens.token_spec;
        let text = |flag: &str, value: &dyn std::fmt::Display| Some(format!("--{flag}={value}"));
        let on = |flag: &str, on: bool| on.then(|| format!("--{flag}"));
        let precision = match tokens.precision {
            Precision::Float16 => "float16",
            Precision::Float32 => "float32",
        };
        let config = self.head_settings.split_whitespace().map(|word| text("config", &word));
        let words = [
            text("heads", &self.heads.join(",")),
            text("backbone", &self.backbone),
            self.data.as_ref().and_then(|data| text("data", &data.display())),
            text("epochs", &self.epochs),
            text("seeds", &self.seeds),
            text("first-seed", &self.first_seed),
            text("batch", &self.batch),
            rates.is_empty().then(|| text("rate", &self.rate)).flatten(),
            (!rates.is_empty()).then(|| text("rates", &comma_separated(rates))).flatten(),
            (!layers.is_empty()).then(|| text("layers", &comma_separated(layers))).flatten(),
            (!self.protocol.is_paper()).then(|| text("protocol", &self.protocol.name())).flatten(),
            self.evaluate_every.as_ref().and_then(|every| text("evaluate-every", every)),
            (!self.augment.is_none()).then(|| text("augment", &self.augment)).flatten(),
            self.selection.as_ref().and_then(|share| text("select-split", share)),
            on("recompute", self.recompute),
            tokens.cache.as_ref().and_then(|cache| text("cache", &cache.display())),
            text("cache-limit", &tokens.cache_limit),
            text("precision", &precision),
            on("verify", tokens.verify),
            spec.layer.as_ref().filter(|_| layers.is_empty()).and_then(|layer| text("layer", layer)),
            spec.blocks.as_ref().and_then(|blocks| text("blocks", blocks)),
            spec.size.as_ref().and_then(|size| text("size", size)),
            text("mae-order", &spec.mae_order),
            text("arithmetic", &spec.arithmetic.name()),
            text("device", &self.device),
        ];
        words.into_iter().chain(config).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::app::jobs::extract::TokenSettings;
    use crate::app::jobs::flag_overrides::FlagOverrides;
    use crate::model::backbone::arithmetic::Arithmetic;
    use crate::model::backbone::order::MaeOrder;
    use crate::model::backbone::preprocess::augment::Augmentation;
    use crate::model::backbone::token_spec::{Layer, TokenSpec};
    use crate::model::train::protocol::Protocol;

    #[derive(Parser)]
    struct Flags {
        #[arg(long, value_delimiter = ',')]
        heads: Vec<String>,
        #[arg(long, num_args = 1..)]
        config: Vec<String>,
        #[command(flatten)]
        settings: FlagOverrides<TrainSettings>,
        #[arg(long)]
        resume: bool,
    }

    #[test]
    fn what_is_filled_in_is_read_back_from_its_words() {
        let token_spec = TokenSpec {
            layer: Some(3),
            blocks: Some(2),
            size: Some(96),
            mae_order: MaeOrder::Shuffled(4),
            arithmetic: Arithmetic::Bfloat16,
        };
        let tokens = TokenSettings {
            cache: Some("-odd name".into()),
            cache_limit: 7.5,
            precision: Precision::Float32,
            verify: true,
            token_spec,
        };
        let full = TrainSettings {
            backbone: "owner/name".into(),
            data: Some("my birds".into()),
            heads: vec!["gap".into(), "sinkhorn".into()],
            head_settings: "state_dim=8 sinkhorn.iterations=5".into(),
            epochs: 7,
            seeds: 3,
            first_seed: 2,
            batch: 32,
            rate: 0.1 + 0.2,
            rates: Vec::new(),
            layers: Vec::new(),
            protocol: Protocol::EfficientProbing,
            evaluate_every: Some(50),
            augment: Augmentation::Crop,
            selection: Some(0.25),
            out: None,
            recompute: true,
            tokens,
            device: "cuda:1".into(),
        };
        let plain =
            TrainSettings { backbone: "b".into(), data: Some("d".into()), ..TrainSettings::default() };
        let grid = TrainSettings {
            rates: vec![1e-4, 3e-3],
            layers: vec![Layer(Some(0)), Layer(None)],
            ..plain.clone()
        };
        for settings in [full, plain, grid] {
            let words = settings.words();
            let read =
                Flags::try_parse_from(std::iter::once("train".to_owned()).chain(words)).expect("flags");
            let over = read.settings.over(TrainSettings::default());
            assert!(!read.resume);
            let (heads, head_settings) = (read.heads, read.config.join(" "));
            assert_eq!(TrainSettings { heads, head_settings, ..over }, settings);
        }
    }
}
