//! What files of machines and of tables have in common: how they are read, and where a complaint is.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};

/// Reads a file's text; what is wrong with it is one sentence, with its line.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let said = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        line.map_or(said.clone(), |line| format!("line {line}: {said}"))
    })
}

/// A number as TOML has it, whole or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number(pub(crate) f64);

impl<'de> serde::Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        struct OfNumber;
        impl Visitor<'_> for OfNumber {
            type Value = Number;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a number without quotes and unit")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }
        }
        deserializer.deserialize_f64(OfNumber)
    }
}
