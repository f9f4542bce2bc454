//! Command-line flags that override defaults, or the settings that a run was started with. Those are known only on the machine that
//! computes, so the flags travel there as words of a command line.

use std::ffi::OsStr;
use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, Id};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

/// The flags of a `T`, all optional, and which of them were given.
#[derive(Clone)]
pub struct FlagOverrides<T> {
    given: ArgMatches,
    of: PhantomData<fn() -> T>,
}

impl<T: FromArgMatches> FlagOverrides<T> {
    /// `base`, overridden by the flags that were given.
    pub fn over(&self, mut base: T) -> T {
        base.update_from_arg_matches(&self.given).expect("values were checked when they were read");
        base
    }

    /// Whether the flag of the field `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.given.contains_id(name)
    }

    /// All values of the text flag `name`, which may be given several times.
    pub fn all(&self, name: &str) -> Vec<String> {
        self.given.try_get_many(name).ok().flatten().into_iter().flatten().cloned().collect()
    }

    /// The flags of a part of `T`.
    pub fn part<U>(&self) -> FlagOverrides<U> {
        FlagOverrides { given: self.given.clone(), of: PhantomData }
    }
}

impl<T: Args> FlagOverrides<T> {
    /// The flags that were given, as words of a command line.
    pub fn words(&self) -> Result<Vec<String>, String> {
        let command = T::augment_args_for_update(Command::new("flags"));
        let mut words = Vec::new();
        for flag in command.get_arguments() {
            let Some(name) = flag.get_long() else { continue };
            let Ok(Some(given)) = self.given.try_get_raw(flag.get_id().as_str()) else { continue };
            let text = |word: &OsStr| {
                word.to_str().map(str::to_owned).ok_or(format!("--{name}: is not valid Unicode"))
            };
            for word in given {
                words.push(match flag.get_action() {
                    ArgAction::SetTrue => format!("--{name}"),
                    _ => format!("--{name}={}", text(word)?),
                });
            }
        }
        Ok(words)
    }
}

impl<T: Args> PartialEq for FlagOverrides<T> {
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl<T: Args> Debug for FlagOverrides<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.words().fmt(f)
    }
}

impl<T: Args> Serialize for FlagOverrides<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.words().map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de, T: Args> Deserialize<'de> for FlagOverrides<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        let command = T::augment_args_for_update(Command::new("flags").no_binary_name(true));
        // Required flags were checked where the words were typed, where `--resume` may stand in for them.
        let command = command.mut_args(|arg| arg.required_unless_present(Resettable::<Id>::Reset));
        let given = command.try_get_matches_from(words).and_then(|given| Self::from_arg_matches(&given));
        given.map_err(de::Error::custom)
    }
}

impl<T: Args> Args for FlagOverrides<T> {
    fn augment_args(command: Command) -> Command {
        T::augment_args_for_update(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T> FromArgMatches for FlagOverrides<T> {
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
        settings: FlagOverrides<TrainSettings>,
        #[arg(long)]
        resume: bool,
    }

    fn begun() -> TrainSettings {
        let token_spec = TokenSpec { layer: Some(3), ..TokenSpec::default() };
        let tokens = TokenSettings { cache_limit: 7.0, verify: true, token_spec, ..TokenSettings::default() };
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
        // A flag counts as given even if its value is the default.
        assert_eq!(now.tokens.cache_limit, 50.0);
        let token_spec = flags.settings.part::<TokenSpec>().over(begun().tokens.token_spec);
        assert_eq!((token_spec.layer, token_spec.mae_order), (Some(3), MaeOrder::Shuffled(4)));
        let last = Flags::try_parse_from("train --resume --layer last".split(' ')).unwrap().settings;
        assert_eq!((last.over(begun()).tokens.token_spec.layer, last.has("layer")), (None, true));
        assert!(
            now.recompute
                && now.tokens.verify
                && flags.settings.has("mae_order")
                && !flags.settings.has("layer")
        );
    }

    #[test]
    fn flags_travel_as_the_words_that_were_given() {
        for words in [
            "train --resume",
            "train --resume --epochs 3 --verify --cache=-odd --cache-limit 50 --mae-order shuffled:4",
            "train --resume --layer last",
        ] {
            let flags = Flags::try_parse_from(words.split(' ')).unwrap().settings;
            let text = serde_json::to_string(&flags).unwrap();
            let read: FlagOverrides<TrainSettings> = serde_json::from_str(&text).unwrap();
            assert_eq!((read.over(begun()), &read), (flags.over(begun()), &flags), "{text}");
            let given = ["verify", "layer"].map(|flag| (read.has(flag), words.contains(flag)));
            assert!(given.iter().all(|(has, given)| has == given), "{words}");
        }
        for refused in [r#"["--epochs=0"]"#, r#"["--out"]"#, r#"["birds"]"#, r#"["--help"]"#] {
            assert!(serde_json::from_str::<FlagOverrides<TrainSettings>>(refused).is_err(), "{refused}");
        }
    }
}
