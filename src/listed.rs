//! Enums that list their variants once, each with the words by which users and files know it.

/// Defines an enum with `ALL`, `find` and `name`, and with `id` where every variant has two words:
///
/// ```text
/// listed! {
///     /// Similarity measure of two vectors.
///     pub enum Similarity {
///         /// The cosine of the angle between them.
///         Cosine: "cosine", "Cosine";
///     }
/// }
/// ```
macro_rules! listed {
    ($(#[$of:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident: $word:literal;)+ }) => {
        listed!(@all name $(#[$of])* $name { $($(#[$doc])* $variant)+ });

        impl $name {
            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
    ($(#[$of:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident: $id:literal, $word:literal;)+ }) => {
        listed!(@all id $(#[$of])* $name { $($(#[$doc])* $variant)+ });

        impl $name {
            /// Its name in flags and files.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id),+ }
            }

            /// Its name on the screen.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
    (@all $word:ident $(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident)+ }) => {
        $(#[$of])*
        pub enum $name { $($(#[$doc])* $variant),+ }

        impl $name {
            /// All of them, in the order of lists.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The one that `word` names.
            pub fn find(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.$word() == word)
            }
        }
    };
}
