//! Flags laid over what is there already: what is usual, or what a run was begun with.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The flags of a `T`, none of them required, and which of them were given.
#[derive(Clone)]
pub struct Over<T> {
    given: ArgMatches,
    of: PhantomData<fn() -> T>,
}

impl<T: FromArgMatches> Over<T> {
    /// `base` with what the flags say in its place.
    pub fn over(&self, mut base: T) -> T {
        base.update_from_arg_matches(&self.given).expect("values were checked when they were read");
        base
    }

    /// Whether the flag of the field `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_id(name)
    }

    /// The flags of a part of `T`.
    pub fn part<U>(&self) -> Over<U> {
        Over { given: self.given.clone(), of: PhantomData }
    }
}

impl<T: Args> Args for Over<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args_for_update(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T> FromArgMatches for Over<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut given = matches.clone();
        let by_default = |id: &str| matches.value_source(id) == Some(ValueSource::DefaultValue);
        for id in matches.ids().map(clap::Id::as_str).filter(|id| by_default(id)) {
            given
                .try_clear_id(id)
                .map_err(|error| Error::raw(clap::error::ErrorKind::InvalidValue, error))?;
        }
        Ok(Self { given, of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::app::jobs::extract::TokenSettings;
    use crate::app::jobs::train::TrainSettings;
    use crate::model::backbone::order::MaeOrder;
    use crate::model::backbone::token_spec::TokenSpec;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        settings: Over<TrainSettings>,
        #[arg(long)]
        resume: bool,
    }

    fn begun() -> TrainSettings {
        let taking = TokenSpec { layer: Some(3), ..TokenSpec::default() };
        let tokens = TokenSettings { cache_limit: 7.0, verify: true, taking, ..TokenSettings::default() };
        let selection = Some(0.25);
        TrainSettings {
            backbone: "one".into(),
            epochs: 9,
            recompute: true,
            selection,
            tokens,
            ..TrainSettings::default()
        }
    }

    #[test]
    fn what_no_flag_says_stays_as_it_was() {
        let flags = Flags::try_parse_from(["train", "--resume"]).unwrap();
        assert!(flags.resume);
        assert_eq!(flags.settings.over(begun()), begun());
    }

    #[test]
    fn what_a_flag_says_takes_its_place() {
        let words = "train --backbone two --data birds --epochs 3 --select-split 0.5 --cache-limit 50 --mae-order shuffled:4";
        let flags = Flags::try_parse_from(words.split(' ')).unwrap();
        let now = flags.settings.over(begun());
        assert_eq!((now.backbone.as_str(), now.epochs, now.selection), ("two", 3, Some(0.5)));
        // A value that is the usual one is said too, where it is given.
        assert_eq!(now.tokens.cache_limit, 50.0);
        let taking = flags.settings.part::<TokenSpec>().over(begun().tokens.taking);
        assert_eq!((taking.layer, taking.mae_order), (Some(3), MaeOrder::Shuffled(4)));
        assert!(
            now.recompute
                && now.tokens.verify
                && flags.settings.has("mae_order")
                && !flags.settings.has("layer")
        );
    }

    #[test]
    fn what_a_flag_cannot_say_is_refused_by_its_name() {
        for (flag, value, expected) in [
            ("--epochs", "0", "a whole number from 1 to 1000000"),
            ("--rate", "-1", "a number above 0"),
            ("--select-split", "1", "a number between 0 and 1"),
            ("--cache-limit", "0", "a number of GB above 0"),
            ("--arithmetic", "int8", "float32, float16 or bfloat16"),
            ("--mae-order", "sorted", "kept, shuffled or shuffled:SEED"),
        ] {
            let given = format!("{flag}={value}");
            let error =
                Flags::try_parse_from(["train", "--resume", &given]).err().expect("refused").to_string();
            assert!(error.contains(flag) && error.contains(expected), "{error}");
        }
        // A training that is begun needs both.
        let error = Flags::try_parse_from(["train", "--data", "birds"]).err().expect("refused").to_string();
        assert!(error.contains("--backbone"), "{error}");
    }
}
