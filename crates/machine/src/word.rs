//! Enums whose variants have names: the one list that reads and writes go through.
//! serde writes the same names.

/// One of a fixed set of words.
pub trait Word: Copy + PartialEq + 'static {
    /// All of them.
    const WORDS: &'static [Self];

    /// As options and records write it.
    fn word(self) -> &'static str;

    /// The one of this name.
    fn read(text: &str) -> Option<Self> {
        Self::WORDS.iter().copied().find(|one| one.word() == text)
    }
}

/// Declares an enum with its variants' names: `ALL`, `name`, `parse`, `Display`, serde and [`Word`] follow.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize
        )]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: [$name; [$($text),*].len()] = [$($name::$variant),*];

            /// The name, as options and records write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The one of this name.
            pub fn parse(text: &str) -> Option<$name> {
                <$name as $crate::word::Word>::read(text)
            }
        }

        impl $crate::word::Word for $name {
            const WORDS: &'static [$name] = &$name::ALL;

            fn word(self) -> &'static str {
                self.name()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
