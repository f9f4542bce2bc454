//! Which tokens probes read: those they were trained on, where no flag says otherwise.

use std::path::Path;

use burn::tensor::Device;

use super::flag_overrides::FlagOverrides;
use crate::app::jobs::user_error::{Usage, refuse};
use crate::model::backbone::arithmetic::Arithmetic;
use crate::model::backbone::config::Config;
use crate::model::backbone::token_spec::{TokenSpec, Trained, describe_differences};
use crate::model::probe::Probe;

impl FlagOverrides<TokenSpec> {
    /// The tokens that probes are evaluated on: those they were trained on, where no flag says otherwise;
    /// a file that does not say it is taken to mean the last layer and the backbone's own size. Numbers
    /// that the device does not have are float32.
    ///
    /// # Errors
    /// If two of them were trained on different tokens and no flag says which, or the backbone does not have the requested
    /// order.
    pub fn of_probes<'a>(
        &self,
        probes: impl IntoIterator<Item = (&'a Path, &'a Probe)>,
        backbone: &Path,
        device: &Device,
    ) -> anyhow::Result<TokenSpec> {
        let config = Config::open(backbone)?;
        let mut first: Option<(&Path, TokenSpec)> = None;
        let mut silent = false;
        for (path, probe) in probes {
            let trained =
                Trained::from_training(probe.meta.training.as_ref()).map(|trained| trained.token_spec);
            silent |= trained.is_none();
            let token_spec = self.over(trained.unwrap_or_default());
            config.check_order(token_spec.mae_order).map_err(|error| Usage(error.to_string()))?;
            let token_spec = token_spec.canonical(config.layers, config.family.model_type);
            let (before, known) = *first.get_or_insert((path, token_spec));
            let differences = known.differences(&token_spec);
            if !differences.is_empty() {
                let note = match silent {
                    true => "; a file that does not say is assumed to mean the backbone's own",
                    false => "",
                };
                refuse!(
                    "{} and {} were trained on different tokens ({}{note}); read them one at a time, or \
                     choose with --layer, --blocks, --size or --mae-order",
                    before.display(),
                    path.display(),
                    describe_differences(&differences)
                );
            }
        }
        let mut token_spec =
            first.map_or_else(|| self.over(TokenSpec::default()), |(_, token_spec)| token_spec);
        if !self.has("arithmetic") && !token_spec.arithmetic.on(device) {
            token_spec.arithmetic = Arithmetic::Float32;
        }
        Ok(token_spec)
    }
}
