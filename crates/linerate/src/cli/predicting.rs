//! What `linerate predict` may be asked.

use clap::Args;
use clap_complete::engine::ArgValueCompleter;

use super::ExplainOutputArgs;
use crate::complete;

#[derive(Args, Debug)]
pub(crate) struct PredictArgs {
    /// What was measured, like last or last:direction=rx: each configuration calibrates
    #[arg(value_name = "SELECTION", add = ArgValueCompleter::new(complete::selections), required_unless_present_any = ["table", "machine"])]
    pub(crate) records: Vec<String>,
    /// What changes, as AXIS=VALUE (docs/predict.md has the axes); of records also rate and message_size. Several at once
    /// change together
    #[arg(long, value_name = "AXIS=VALUE", conflicts_with = "table")]
    pub(crate) set: Vec<String>,
    /// How the driver is set now, or the machine made, where neither the records nor the machine's file say it: AXIS=VALUE
    #[arg(long, value_name = "AXIS=VALUE", conflicts_with = "table")]
    pub(crate) now: Vec<String>,
    /// A file of rows that were measured and rows that are asked for, or a report's baseline that comes along: 000,
    /// 002-atstk1000, 002-atngw100, 003, 004
    #[arg(long, value_name = "FILE", conflicts_with_all = ["records", "machine"])]
    pub(crate) table: Option<String>,
    /// The machine: one that comes along (any, nitrogen6x, atstk1000, atngw100, ml405, ap135), or a file; without records, bounds
    /// only
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::modelled))]
    pub(crate) machine: Option<String>,
    /// Records of the change: how did the prediction do?
    #[arg(long, value_name = "SELECTION", requires = "records", add = ArgValueCompleter::new(complete::selections))]
    pub(crate) check: Option<String>,
    #[command(flatten)]
    pub(crate) output: ExplainOutputArgs,
}

pub(super) const PREDICT_HELP: &str = "Examples:\n  linerate predict last --set rate=800M\n  linerate predict last --now rx.hand_up=copy --set rx.hand_up=zero-copy\n  linerate predict --table 000\n  linerate predict \
                            --machine nitrogen6x --set rx.hand_up=zero-copy\n\nExit status: 0 predicted, or bounds where \
                            nothing was measured, 1 not identifiable from these rows, 2 there was nothing to predict from.";
