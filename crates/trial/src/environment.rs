//! A machine as it was during a trial, so that a record can be understood in ten years.
//! Knows no operating system; an absent field is unknown.

use serde::{Deserialize, Serialize};

/// A machine's environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {}
